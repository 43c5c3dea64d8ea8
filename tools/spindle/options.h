/* SPDX-License-Identifier: MIT */
/*
 * options.h - reads --name=value of a command line.
 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* Whether an argument is --name=value or --name value's first half; *value points into
 * it, or is NULL for `--name` alone. */
bool option_is(const char *argument, const char *name, const char **value);
/* A whole number between two bounds; false: it is none. */
bool option_number(const char *text, int64_t least, int64_t most, int64_t *number);

#endif /* OPTIONS_H */
