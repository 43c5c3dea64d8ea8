/* SPDX-License-Identifier: MIT */
/* clock.h - being told when a manual clock moves; see clock.c. */
#ifndef SPN__CLOCK_H
#define SPN__CLOCK_H

#include <spindle/clock.h>

#include "base/list.h"

struct spn__clock_listener {
    struct spn__list_node link; /* guarded by the clock's listen_lock */
    void (*moved)(void *ctx);
    void *ctx;
};

/*
 * Has moved(ctx) called after each move of a manual clock, on the thread that
 * moved it, with no lock of the clock held that it could want.  A clock with
 * listeners is not destroyed.  On the monotonic clock nothing ever comes.
 */
void spn__clock_listen(spn_clock *clock, struct spn__clock_listener *listener,
                       void (*moved)(void *ctx), void *ctx);

/* After it returns, moved does not run and will not. */
void spn__clock_unlisten(spn_clock *clock, struct spn__clock_listener *listener);

#endif /* SPN__CLOCK_H */
