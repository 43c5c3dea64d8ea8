/* SPDX-License-Identifier: MIT */
/*
 * text.h - writing into a buffer that may be too small: what does not fit is counted, so
 * that the next try has room.
 */
#ifndef SPN__TEXT_H
#define SPN__TEXT_H

#include <stddef.h>
#include <stdint.h>

struct spn__text {
    char *bytes;     /* NULL: only count */
    size_t capacity; /* with the last NUL */
    size_t used;     /* or needed, if it is more than fits */
};

__attribute__((format(printf, 2, 3))) void spn__text_add(struct spn__text *t,
                                                         const char *format, ...);
/* What may stand inside the quotes of a JSON string, and of a label of Prometheus: bytes
 * that are no UTF-8 become U+FFFD. */
void spn__text_json(struct spn__text *t, const char *text);
void spn__text_label(struct spn__text *t, const char *text);
/* Nanoseconds as seconds, exactly. */
void spn__text_seconds(struct spn__text *t, int64_t ns);

#endif /* SPN__TEXT_H */
