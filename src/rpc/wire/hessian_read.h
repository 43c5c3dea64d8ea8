/* SPDX-License-Identifier: MIT */
/* hessian_read.h - what the two halves of the reader share. */
#ifndef SPN__HESSIAN_READ_H
#define SPN__HESSIAN_READ_H

#include "rpc/wire/hessian.h"
#include "rpc/wire/hessian_code.h"
#include "rpc/wire/hessian_text.h"
#include "rpc/wire/hessian_value.h"

/* The first failure, with its place: kept, and returned. */
__attribute__((cold, format(printf, 4, 5))) int
spn__hread_fail(struct spn__hreader *r, int status, const unsigned char *at,
                const char *format, ...);
/* The arena has no more. */
__attribute__((cold)) int spn__hread_fail_memory(struct spn__hreader *r);
/* The message has no more; what: "a string". */
__attribute__((cold)) int spn__hread_fail_short(struct spn__hreader *r,
                                                const unsigned char *at,
                                                const char *what);

/* The kind that a code begins; SPN_EINVAL: none, or a reference. */
extern const int8_t spn__hread_kinds[256];

static inline int spn__hread_kind(unsigned char code)
{
    return spn__hread_kinds[code];
}

/* Whether a string of up to 31 units is next, and all ASCII, as nearly all are: then where
 * it lies. */
static inline bool spn__hread_short(const struct spn__hreader *r, spn_hspan *span)
{
    const size_t length = *r->at;

    if (length >= C_BINARY_DIRECT || length >= spn__hreader_left(r) ||
        !spn__text_is_ascii(r->at + 1, length))
        return false;
    *span = (spn_hspan){ (const char *)r->at + 1, length };
    return true;
}

/* A bool, a number or a date: at most nine bytes. */
struct spn__hscalar {
    int kind;
    int64_t integer;
    double real;
};

/* Reads the value at `at`, whose code is that of a scalar of kind `kind`. */
int spn__hread_scalar(struct spn__hreader *r, int kind, struct spn__hscalar *s);

/* Reads the string or binary at `at` into the arena, with a zero byte behind it. */
int spn__hread_span(struct spn__hreader *r, int kind, spn_hspan *span);

/* Moves behind the string or binary at `at`. */
int spn__hread_skip_span(struct spn__hreader *r, int kind);

/* ---- moving over values (hessian_skip.c) ------------------------------------------- */

enum { SPN__HSKIP_CLASSES = 1024, SPN__HSKIP_DEPTH = 128 };

/* Where the walk is, with what values say that follow on them: no memory but this. */
struct spn__hskip {
    struct spn__hreader reader; /* without an arena */
    uint32_t class_count;
    uint16_t fields[SPN__HSKIP_CLASSES]; /* of each class */
};

void spn__hskip_init(struct spn__hskip *s, const unsigned char *at,
                     const unsigned char *end);
/* Moves behind the next value.  Less is looked at than in reading: what this takes may be
 * refused there, but nothing else. */
int spn__hskip_any(struct spn__hskip *s);

#endif /* SPN__HESSIAN_READ_H */
