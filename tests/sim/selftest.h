/* SPDX-License-Identifier: MIT */
/*
 * selftest.h - the few lines the explorer's own tests need of a harness.  (The
 * project's harness is built on the library, and the library stands on this.)
 */
#ifndef SIM_SELFTEST_H
#define SIM_SELFTEST_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

static unsigned selftest_passed, selftest_failed;

/* Counts one test; when it fails, says which and why. */
__attribute__((format(printf, 2, 3))) static inline void
selftest(bool ok, const char *format, ...)
{
    va_list args;

    if (ok) {
        selftest_passed++;
        return;
    }
    selftest_failed++;
    va_start(args, format);
    (void)printf("FAILED ");
    (void)vprintf(format, args);
    (void)printf("\n");
    va_end(args);
    (void)fflush(stdout);
}

static inline int selftest_end(void)
{
    (void)printf("%u passed, %u failed\n", selftest_passed, selftest_failed);
    return selftest_failed != 0;
}

#endif /* SIM_SELFTEST_H */
