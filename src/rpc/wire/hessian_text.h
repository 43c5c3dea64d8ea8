/* SPDX-License-Identifier: MIT */
/*
 * hessian_text.h - UTF-8 outside, CESU-8 on the wire.
 *
 * Hessian counts a string in UTF-16 units and writes each unit as UTF-8 of its own, so a
 * character beyond U+FFFF is two units of three bytes: CESU-8.  Outside it is the usual
 * four bytes.  All else is the same in both forms, and plain ASCII is one byte a unit:
 * that is what strings mostly are, and it is looked for first, eight bytes at a time.
 *
 * Either form is accepted as the other's input.  What is refused: a byte that starts no
 * character, one that is cut, an overlong form, anything beyond U+10FFFF.  Half a pair is
 * let through: Java's strings may hold one, and refusing it would refuse their message.
 */
#ifndef SPN__HESSIAN_TEXT_H
#define SPN__HESSIAN_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A walk over text, possibly in pieces; start with all zero. */
struct spn__text {
    size_t units;    /* UTF-16 units seen                                 */
    size_t outside;  /* bytes these take as UTF-8                         */
    size_t wire;     /* bytes these take as CESU-8                        */
    size_t wrong_at; /* after a refusal: bytes of this piece before it    */
    bool high;       /* the last unit was the first half of a pair        */
};

/* Whether all bytes are below 128; from four on without a loop over single ones. */
static inline bool spn__text_is_ascii(const unsigned char *at, size_t length)
{
    uint64_t bits = 0, word;
    uint32_t half, other;

    if (length >= sizeof word) {
        for (size_t n = 0; n + sizeof word < length; n += sizeof word) {
            memcpy(&word, at + n, sizeof word);
            bits |= word;
        }
        memcpy(&word, at + length - sizeof word, sizeof word);
        return ((bits | word) & UINT64_C(0x8080808080808080)) == 0;
    }
    if (length >= sizeof half) {
        memcpy(&half, at, sizeof half);
        memcpy(&other, at + length - sizeof other, sizeof other);
        return ((half | other) & UINT32_C(0x80808080)) == 0;
    }
    for (size_t n = 0; n < length; n++)
        bits |= at[n];
    return bits < 0x80;
}

/* How many of the first `length` bytes are below 128 before one that is not. */
size_t spn__text_ascii(const unsigned char *at, size_t length);

/*
 * Walks over `units` units at `at`, of at most `length` bytes, and returns how many bytes
 * they are.  -1: not UTF-8, see wrong_at.  -2: the bytes end first.
 */
int64_t spn__text_scan(struct spn__text *text, const unsigned char *at, size_t length,
                       size_t units);

/* Walks over all `length` bytes; false: not UTF-8 (cut at the end, too). */
bool spn__text_measure(struct spn__text *text, const unsigned char *at, size_t length);

/* Converts text that was walked over.  Bytes written behind `to`; a pair whose halves are
 * in two pieces is joined, so `to` must follow what the piece before gave. */
size_t spn__text_to_utf8(unsigned char *to, const unsigned char *at, size_t length,
                         bool *high);
size_t spn__text_to_cesu8(unsigned char *to, const unsigned char *at, size_t length);

/* Bytes of the longest beginning that takes at most `units` units and does not end in the
 * first half of a pair; *taken: its units. */
size_t spn__text_piece(const unsigned char *at, size_t length, size_t units,
                       size_t *taken);

#endif /* SPN__HESSIAN_TEXT_H */
