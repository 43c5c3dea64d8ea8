/* SPDX-License-Identifier: MIT */
/* hessian_text.c - see hessian_text.h. */
#include "rpc/wire/hessian_text.h"

#include <string.h>

size_t spn__text_ascii(const unsigned char *at, size_t length)
{
    size_t n = 0;
    uint64_t word;

    for (; length - n >= sizeof word; n += sizeof word) {
        memcpy(&word, at + n, sizeof word);
        if ((word & UINT64_C(0x8080808080808080)) != 0)
            break;
    }
    while (n < length && at[n] < 0x80)
        n++;
    return n;
}

static bool is_rest(unsigned char byte)
{
    return (byte & 0xC0) == 0x80;
}

/* Bytes of the character at `at`: 1 to 4; 0: none starts there; -1: it is cut. */
static int character(const unsigned char *at, size_t length)
{
    const unsigned char first = at[0];
    int size;

    if (first < 0x80)
        return 1;
    if (first < 0xC2 || first > 0xF4)
        return 0; /* a rest, an overlong form, beyond U+10FFFF */
    size = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    for (int i = 1; i < size; i++) {
        if ((size_t)i >= length)
            return -1;
        if (!is_rest(at[i]))
            return 0;
        if (i == 1 &&
            ((first == 0xE0 && at[1] < 0xA0) || (first == 0xF0 && at[1] < 0x90) ||
             (first == 0xF4 && at[1] > 0x8F)))
            return 0;
    }
    return size;
}

/* Halves of a pair, as three bytes. */
static bool is_high(const unsigned char *at)
{
    return at[0] == 0xED && at[1] >= 0xA0 && at[1] <= 0xAF;
}

static bool is_low(const unsigned char *at)
{
    return at[0] == 0xED && at[1] >= 0xB0;
}

/* Counts one character of `size` bytes. */
static void count(struct spn__text *text, const unsigned char *at, int size)
{
    const bool joins = size == 3 && text->high && is_low(at);

    text->units += size == 4 ? 2 : 1;
    text->wire += size == 4 ? 6 : (size_t)size;
    text->outside += joins ? 1 : (size_t)size;
    text->high = size == 3 && is_high(at);
}

static void count_ascii(struct spn__text *text, size_t n)
{
    if (n == 0)
        return;
    text->units += n;
    text->wire += n;
    text->outside += n;
    text->high = false;
}

int64_t spn__text_scan(struct spn__text *text, const unsigned char *at, size_t length,
                       size_t units)
{
    const size_t until = text->units + units;
    size_t n = 0;

    while (text->units < until) {
        const size_t wanted = until - text->units;
        const size_t left = length - n;
        const size_t ascii = spn__text_ascii(at + n, left < wanted ? left : wanted);
        int size;

        count_ascii(text, ascii);
        n += ascii;
        if (text->units == until)
            break;
        if (n == length)
            return -2;
        size = character(at + n, length - n);
        if (size < 0)
            return -2;
        if (size == 0 || (size == 4 && until - text->units < 2)) {
            text->wrong_at = n;
            return -1;
        }
        count(text, at + n, size);
        n += (size_t)size;
    }
    return (int64_t)n;
}

bool spn__text_measure(struct spn__text *text, const unsigned char *at, size_t length)
{
    size_t n = 0;

    while (n < length) {
        const size_t ascii = spn__text_ascii(at + n, length - n);
        int size;

        count_ascii(text, ascii);
        n += ascii;
        if (n == length)
            break;
        size = character(at + n, length - n);
        if (size <= 0) {
            text->wrong_at = n;
            return false;
        }
        count(text, at + n, size);
        n += (size_t)size;
    }
    return true;
}

static uint32_t half(const unsigned char *at)
{
    return (uint32_t)((at[1] & 0x0F) << 6 | (at[2] & 0x3F));
}

size_t spn__text_to_utf8(unsigned char *to, const unsigned char *at, size_t length,
                         bool *high)
{
    unsigned char *const start = to;
    size_t n = 0;

    while (n < length) {
        const size_t ascii = spn__text_ascii(at + n, length - n);
        int size;

        memcpy(to, at + n, ascii);
        to += ascii;
        n += ascii;
        if (ascii > 0)
            *high = false;
        if (n == length)
            break;
        size = character(at + n, length - n);
        if (size == 3 && *high && is_low(at + n)) {
            /* The first half is already there, as three bytes: four take its place. */
            const uint32_t code = 0x10000 + (half(to - 3) << 10) + half(at + n);

            to[-3] = (unsigned char)(0xF0 | code >> 18);
            to[-2] = (unsigned char)(0x80 | (code >> 12 & 0x3F));
            to[-1] = (unsigned char)(0x80 | (code >> 6 & 0x3F));
            to[0] = (unsigned char)(0x80 | (code & 0x3F));
            to += 1;
            *high = false;
        } else {
            memcpy(to, at + n, (size_t)size);
            to += size;
            *high = size == 3 && is_high(at + n);
        }
        n += (size_t)size;
    }
    return (size_t)(to - start);
}

static void write_half(unsigned char *to, uint32_t unit)
{
    to[0] = (unsigned char)(0xE0 | unit >> 12);
    to[1] = (unsigned char)(0x80 | (unit >> 6 & 0x3F));
    to[2] = (unsigned char)(0x80 | (unit & 0x3F));
}

size_t spn__text_to_cesu8(unsigned char *to, const unsigned char *at, size_t length)
{
    unsigned char *const start = to;
    size_t n = 0;

    while (n < length) {
        const size_t ascii = spn__text_ascii(at + n, length - n);
        int size;

        memcpy(to, at + n, ascii);
        to += ascii;
        n += ascii;
        if (n == length)
            break;
        size = character(at + n, length - n);
        if (size == 4) {
            const uint32_t code =
                (uint32_t)((at[n] & 0x07) << 18 | (at[n + 1] & 0x3F) << 12 |
                           (at[n + 2] & 0x3F) << 6 | (at[n + 3] & 0x3F)) -
                0x10000;

            write_half(to, 0xD800 + (code >> 10));
            write_half(to + 3, 0xDC00 + (code & 0x3FF));
            to += 6;
        } else {
            memcpy(to, at + n, (size_t)size);
            to += size;
        }
        n += (size_t)size;
    }
    return (size_t)(to - start);
}

size_t spn__text_piece(const unsigned char *at, size_t length, size_t units,
                       size_t *taken)
{
    size_t n = 0, seen = 0;

    while (n < length && seen < units) {
        const size_t left = length - n;
        const size_t wanted = units - seen;
        const size_t ascii = spn__text_ascii(at + n, left < wanted ? left : wanted);
        int size;

        n += ascii;
        seen += ascii;
        if (n == length || seen == units)
            break;
        size = character(at + n, length - n);
        if (size == 4 && units - seen < 2)
            break;
        /* Half a pair must not be the last: its other half, if that follows, would be in
         * the next piece. */
        if (size == 3 && units - seen == 1 && is_high(at + n))
            break;
        n += (size_t)size;
        seen += size == 4 ? 2 : 1;
    }
    *taken = seen;
    return n;
}
