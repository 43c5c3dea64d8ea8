/* SPDX-License-Identifier: MIT */
#ifndef SPN_TIME_H
#define SPN_TIME_H

#include <spindle/export.h>

/*
 * Time is int64_t nanoseconds, everywhere.  A timeout is a length; 0 and
 * anything negative mean "do not wait", SPN_FOREVER means "no limit".  A
 * deadline is a point on the monotonic clock (spn_now in clock.h).  Sums
 * saturate: now + a very long timeout is for ever, never the past.
 */
#define SPN_FOREVER INT64_MAX
#define SPN_NOWAIT  ((int64_t)0)

#define SPN_NS(n)  ((int64_t)(n))
#define SPN_US(n)  (1000 * (int64_t)(n))
#define SPN_MS(n)  (1000000 * (int64_t)(n))
#define SPN_SEC(n) (1000000000 * (int64_t)(n))

#endif /* SPN_TIME_H */
