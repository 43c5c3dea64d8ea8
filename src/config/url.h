/* SPDX-License-Identifier: MIT */
/*
 * url.h - the inside of a URL: one block of memory that holds the struct, the table of
 * parameters, sorted by key, and all the text.
 */
#ifndef SPN__URL_H
#define SPN__URL_H

#include <stdbool.h>
#include <string.h>

#include <spindle/url.h>

#include "sync/seam.h"

struct spn_url {
    SPN__ATOMIC(uint32_t) references; /* see url.c */
    int32_t port;                     /* 0: none; all below is fixed */
    const char *protocol, *user, *password, *host, *path; /* NULL: none */
    size_t count;
    spn_url_parameter parameters[]; /* sorted by key, no key twice */
};

/* A piece of text that ends with its length; NULL: there is none. */
struct spn__span {
    const char *text;
    size_t length;
};

struct spn__url_item {
    struct spn__span key, value;
    uint32_t depth; /* how many `default.` were taken off the key */
    uint32_t place; /* in the order in which they were given */
};

/* A URL in the making: spans of other people's text. */
struct spn__url_draft {
    struct spn__span protocol, user, password, host, path;
    int32_t port;
    struct spn__url_item *items; /* spn__alloc'ed */
    size_t count, capacity;
};

static inline struct spn__span spn__span_of(const char *text)
{
    struct spn__span span = { text, text != NULL ? strlen(text) : 0 };

    return span;
}

/* Writes a percent-decoded text, `+` being a blank, as spn_url_print does.
 * SPN_EINVAL: a wrong escape, an escaped zero byte. */
int64_t spn__url_decode(const char *text, char *buffer, size_t capacity);

/* Appends a parameter, and what it stands in for as a default.  SPN_ERANGE, SPN_ENOMEM. */
int spn__url_add(struct spn__url_draft *draft, struct spn__span key,
                 struct spn__span value);

/* Makes the URL of a draft, and gives back what the draft holds.  SPN_ERANGE if its full
 * form would be too long, SPN_EINVAL if there would be nothing in it, SPN_ENOMEM. */
int spn__url_build(spn_url **out, struct spn__url_draft *draft);
void spn__url_drop_draft(struct spn__url_draft *draft);

/* As the public one, for `length` bytes of text. */
int spn__url_read(spn_url **out, const char *text, size_t length, spn_problem *problem);

/* Whether a byte may stand in the text of a URL. */
static inline bool spn__url_is_text(char c)
{
    return (unsigned char)c >= ' ' && c != 127;
}

/* Whether a byte may stand in a protocol. */
static inline bool spn__url_is_protocol_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '+' || c == '-' || c == '.' || c == '_';
}

#endif /* SPN__URL_H */
