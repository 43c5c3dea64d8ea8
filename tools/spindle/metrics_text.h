/* SPDX-License-Identifier: MIT */
/*
 * metrics_text.h - Prometheus texts of several servers as one.
 */
#ifndef METRICS_TEXT_H
#define METRICS_TEXT_H

#include <stdio.h>

struct metrics_text {
    const char *server; /* the label of its samples; "": none; needs no escapes */
    char *text;         /* with the same families as the others, in the same order */
};

/* Writes family after family, as the format wants it: one heading, and the samples of all. */
void metrics_text_merge(const struct metrics_text *texts, int count, FILE *to);

#endif /* METRICS_TEXT_H */
