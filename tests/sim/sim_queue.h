/* SPDX-License-Identifier: MIT */
/* sim_queue.h - what scenarios ask of a queue in a word. */
#ifndef SIM_QUEUE_H
#define SIM_QUEUE_H

#include <spindle/queue.h>

#include "sim.h"

/* Out of the queue without waiting, or NULL. */
static inline void *take_now(spn_queue *q)
{
    void *item;
    const int rc = spn_queue_take(q, &item, 0);

    sim_assert(rc == SPN_OK || item == NULL);
    return item;
}

/* What would come next, or NULL. */
static inline void *first_of(spn_queue *q)
{
    void *item;
    const int rc = spn_queue_peek(q, &item);

    sim_assert(rc == SPN_OK || item == NULL);
    return item;
}

#endif /* SIM_QUEUE_H */
