/* SPDX-License-Identifier: MIT */
/*
 * refuse.h - which of the calls that a program counts is refused: one, or all from one on.
 * What counts is up to the program, all in one sequence; one per program.
 */
#ifndef REFUSE_H
#define REFUSE_H

#include <stdatomic.h>
#include <stdbool.h>

#ifndef REFUSE_ARMED
#define REFUSE_ARMED 0
#endif

/* The wraps run before ThreadSanitizer is ready and inside it: they must not call
 * it, and they hold nothing it needs to see. */
#if defined(__clang__) /* whose no_sanitize leaves the entry and exit of functions */
#define UNSEEN __attribute__((disable_sanitizer_instrumentation))
#else
#define UNSEEN __attribute__((no_sanitize("thread")))
#endif

static atomic_int armed = REFUSE_ARMED; /* 1: calls count, and are refused */
static atomic_int point;                /* calls counted */
static atomic_int fail_at;              /* the one to refuse; 0: none */
static atomic_int fail_more;            /* 1: and all that follow */
static atomic_int refused;              /* calls refused */

UNSEEN static bool refuse(void)
{
    int n, at;

    if (atomic_load(&armed) == 0)
        return false;
    n = atomic_fetch_add(&point, 1) + 1;
    at = atomic_load(&fail_at);
    if (at == 0 || n < at || (n > at && atomic_load(&fail_more) == 0))
        return false;
    atomic_fetch_add(&refused, 1);
    return true;
}

#endif /* REFUSE_H */
