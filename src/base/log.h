/* SPDX-License-Identifier: MIT */
/*
 * log.h - how the library's own code speaks.
 *
 *     spn__log(SPN_LOG_WARN, "pool %s: %d threads refused", name, n);
 *     spn__log_limited(SPN_LOG_WARN, SPN_SEC(10), "...", ...);
 *
 * The limited form writes at most one message per interval from that place in
 * the code, and says how many it swallowed.  Never call either with a lock
 * held: the hook is user code.  errno is left as it was.
 */
#ifndef SPN__LOG_H
#define SPN__LOG_H

#include <spindle/log.h>

#include "base/shared.h"
#include "sync/seam.h"

/*
 * Bytes of the longest message, without its NUL.  A longer one is cut between
 * two characters and ends in "..."; the count of swallowed messages is never
 * cut.  With the prefix a line stays below PIPE_BUF everywhere, so that lines
 * of several processes do not mix in one pipe.
 */
#define SPN__LOG_MESSAGE_MAX 479

/* One per call site of spn__log_limited. */
struct spn__log_limit {
    SPN__ATOMIC(int64_t) next_ns;    /* no message before this time; 0 at first */
    SPN__ATOMIC(uint64_t) swallowed; /* since the last message */
};

/* Whether a message of this level would be let through: one relaxed load. */
SPN__SHARED bool spn__log_enabled(spn_log_level level);

SPN__SHARED __attribute__((format(printf, 2, 3))) void
spn__log(spn_log_level level, const char *format, ...);

/* now_ns is not negative, interval_ns is positive; SPN_FOREVER lets one message
 * through in the life of the process. */
SPN__SHARED __attribute__((format(printf, 5, 6))) void
spn__log_limit(struct spn__log_limit *limit, int64_t now_ns, int64_t interval_ns,
               spn_log_level level, const char *format, ...);

/* Asks for the level first: a message that is not wanted reads no clock. */
#define spn__log_limited(level, interval_ns, ...)                                \
    do {                                                                         \
        static struct spn__log_limit spn__limit_here;                            \
        if (spn__log_enabled(level))                                             \
            spn__log_limit(&spn__limit_here, spn__now(), (interval_ns), (level), \
                           __VA_ARGS__);                                         \
    } while (0)

#endif /* SPN__LOG_H */
