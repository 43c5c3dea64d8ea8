/* SPDX-License-Identifier: MIT */
/* waits.h - how long requests wait for a thread of the pool; see waits.c. */
#ifndef SPN__WAITS_H
#define SPN__WAITS_H

#include <spindle/problem.h>
#include <spindle/url.h>

#include "channel/channel.h"
#include "exec/standing.h"
#include "sync/lock.h"

struct spn__waits {
    bool is_on;            /* fixed; false: nothing else is used */
    struct spn__lock lock; /* guards the rest; a leaf */
    struct spn__standing standing;
    int64_t waiting;  /* requests that were handed over and have not begun */
    int64_t since_ns; /* one of them has waited at least since then */
};

/* Reads queue.target.  is_queued: requests leave the I/O thread. */
int spn__waits_init(struct spn__waits *waits, const spn_url *url, bool is_queued,
                    spn_problem *problem);

/* A request is about to be handed over; false: it is refused, because requests wait for too
 * long.  If not, spn__waits_begun or spn__waits_dropped follows. */
bool spn__waits_enter(struct spn__waits *waits, spn_message *message);
/* The same request has a thread; did not get one.  Nothing happens to any other message. */
void spn__waits_begun(struct spn__waits *waits, spn_message *message);
void spn__waits_dropped(struct spn__waits *waits, spn_message *message);

/* What is wrong and what to do, for the reply. */
SPN__SHARED void spn__waits_text(struct spn__waits *waits, char *text, size_t size);

#endif /* SPN__WAITS_H */
