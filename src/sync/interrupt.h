/* SPDX-License-Identifier: MIT */
/*
 * interrupt.h - the sticky flag every thread has, and the wake-up with it.
 *
 * To interrupt a thread is to set its flag and then to unpark it: whatever wait
 * the thread is in sleeps on its parker and looks at the flag before it sleeps.
 * Only the thread itself clears its flag, and only where a wait ends because of
 * it (contract G-9 to G-13).
 *
 * ORDERING
 *   [flag] the release exchange in set pairs with the acquire of pending and
 *          take: what the interrupter did before is visible to the interrupted.
 *          It is an exchange and not a store so that it continues the release
 *          sequence of an earlier interrupt that nobody has seen yet.
 *   A thread that reads 0 and goes to sleep is not lost: the permit that
 *   follows the flag is sticky too.
 */
#ifndef SPN__INTERRUPT_H
#define SPN__INTERRUPT_H

#include "sync/thread_record.h"

static inline void spn__interrupt_set(struct spn_thread *thread)
{
    (void)spn__exchange(&thread->interrupted, 1, release); /* [flag] */
    spn__parker_unpark(&thread->parker);
}

/* Whether the flag is set; leaves it. */
static inline bool spn__interrupt_pending(const struct spn_thread *thread)
{
    return spn__load(&thread->interrupted, acquire) != 0; /* [flag] */
}

/* Reads and clears the flag; by the thread itself only. */
static inline bool spn__interrupt_take(struct spn_thread *self)
{
    /* The common answer is no, and costs no write. */
    return spn__interrupt_pending(self) &&
           spn__exchange(&self->interrupted, 0, acquire) != 0; /* [flag] */
}

#endif /* SPN__INTERRUPT_H */
