/* SPDX-License-Identifier: MIT */
/*
 * time.h - arithmetic on nanoseconds that saturates instead of wrapping.
 *
 * A deadline of SPN_FOREVER is never reached, and no sum of smaller values
 * wraps to the past: now + INT64_MAX is for ever.
 */
#ifndef SPN__TIME_H
#define SPN__TIME_H

#include <stdbool.h>
#include <stdint.h>

#include <spindle/time.h>

static inline int64_t spn__time_add(int64_t a, int64_t b)
{
    int64_t sum;

    if (__builtin_add_overflow(a, b, &sum))
        return a < 0 ? INT64_MIN : INT64_MAX;
    return sum;
}

static inline int64_t spn__time_sub(int64_t a, int64_t b)
{
    int64_t difference;

    if (__builtin_sub_overflow(a, b, &difference))
        return a < 0 ? INT64_MIN : INT64_MAX;
    return difference;
}

/* The deadline of a wait of timeout_ns from now; a timeout that does not wait
 * has the deadline now, which has passed. */
static inline int64_t spn__deadline(int64_t now_ns, int64_t timeout_ns)
{
    return timeout_ns <= 0 ? now_ns : spn__time_add(now_ns, timeout_ns);
}

static inline bool spn__deadline_passed(int64_t deadline_ns, int64_t now_ns)
{
    return deadline_ns != SPN_FOREVER && deadline_ns <= now_ns;
}

#endif /* SPN__TIME_H */
