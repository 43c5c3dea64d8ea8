/* SPDX-License-Identifier: MIT */
/*
 * assert.c - the end of a process whose invariant is broken.
 *
 * The state is not to be trusted any more, so nothing here allocates, locks or
 * formats: one line is put together by hand and leaves in one write, whole even
 * when several threads fail at once, also from a signal handler.  Simulation
 * builds have their own assertion, which prints the schedule that led there.
 */
#include "base/assert.h"

#ifndef SPN_SIM

#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

struct line {
    char text[512]; /* a longer line is cut; its newline is not */
    size_t length;
};

static void append(struct line *line, const char *text)
{
    while (*text != '\0' && line->length < sizeof line->text - 1)
        line->text[line->length++] = *text++;
}

static void append_number(struct line *line, unsigned number)
{
    char digits[12];
    size_t at = sizeof digits - 1;

    digits[at] = '\0';
    do
        digits[--at] = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    append(line, digits + at);
}

void spn__assert_failed(const char *condition, const char *file, int line_number)
{
    struct line line = { .length = 0 };

    append(&line, "spindle: assertion failed: ");
    append(&line, file);
    append(&line, ":");
    append_number(&line, (unsigned)line_number);
    append(&line, ": ");
    append(&line, condition);
    line.text[line.length++] = '\n'; /* append leaves room for it */
    if (write(STDERR_FILENO, line.text, line.length) < 0) {
        /* Nobody to tell; the core file still says where. */
    }
    abort();
}

#endif /* SPN_SIM */
