/* SPDX-License-Identifier: MIT */
/* problem.c - a sentence about what is wrong, safe to log. */
#include "config/problem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int spn__refuse(spn_problem *problem, int status, size_t offset, const char *format,
                ...)
{
    va_list args;

    if (problem == NULL)
        return status;
    problem->offset = offset;
    va_start(args, format);
    if (vsnprintf(problem->text, sizeof problem->text, format, args) >=
        (int)sizeof problem->text)
        memcpy(problem->text + sizeof problem->text - 4, "...", 4);
    va_end(args);
    for (char *at = problem->text; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || *at == 127)
            *at = '?';
    return status;
}
