/* SPDX-License-Identifier: MIT */
/*
 * options.c - see options.h.
 */
#include "options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool option_is(const char *argument, const char *name, const char **value)
{
    const size_t length = strlen(name);

    if (strncmp(argument, "--", 2) != 0 || strncmp(argument + 2, name, length) != 0)
        return false;
    argument += 2 + length;
    if (*argument != '\0' && *argument != '=')
        return false;
    *value = *argument == '=' ? argument + 1 : NULL;
    return true;
}

bool option_number(const char *text, int64_t least, int64_t most, int64_t *number)
{
    char *end;
    long long read;

    if (text == NULL || *text == '\0')
        return false;
    errno = 0;
    read = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0' || read < least || read > most)
        return false;
    *number = read;
    return true;
}
