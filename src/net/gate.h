/* SPDX-License-Identifier: MIT */
/*
 * gate.h - a thread waits until another one has done something, once.
 *
 * Not interruptible and without a record of the waiting thread, so that neither an
 * interrupt nor a lack of memory keeps a transport from being stopped.
 *
 *   [gate] the release store of `open` pairs with the acquire load in wait: what was
 *          done before is seen after.  The one who opens does not touch the gate
 *          again, so the one who waited may free it.
 */
#ifndef SPN__NET_GATE_H
#define SPN__NET_GATE_H

#include <limits.h>

#include "sync/seam.h"

struct spn__gate {
    spn__futex_word open;
};

static inline void spn__gate_init(struct spn__gate *gate)
{
    spn__init(&gate->open, 0u);
}

static inline void spn__gate_open(struct spn__gate *gate)
{
    spn__store(&gate->open, 1u, release); /* [gate] */
    spn__futex_wake(&gate->open, INT_MAX);
}

static inline void spn__gate_wait(struct spn__gate *gate)
{
    while (spn__load(&gate->open, acquire) == 0) /* [gate] */
        (void)spn__futex_wait(&gate->open, 0, SPN_FOREVER);
}

#endif /* SPN__NET_GATE_H */
