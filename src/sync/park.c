/* SPDX-License-Identifier: MIT */
/*
 * park.c - the public park and unpark: the parker of the calling thread, the
 * interrupt flag and the blocker around it.
 */
#include <spindle/park.h>

#include "base/time.h"
#include "sync/interrupt.h"
#include "sync/thread_record.h"

/* Without memory for a record there is no permit to wait for.  park may return
 * for no reason, but its caller loops: so that it does not burn a CPU until
 * memory is free again, a little time passes. */
static void pass_time(int64_t deadline_ns)
{
    const int64_t soon = spn__time_add(spn__now(), SPN_MS(1));
    spn__futex_word nobody;

    spn__init(&nobody, 0);
    (void)spn__futex_wait(&nobody, 0, deadline_ns < soon ? deadline_ns : soon);
}

static void park_until(int64_t deadline_ns, const void *blocker)
{
    struct spn_thread *self = spn__thread_self();

    if (self == NULL) {
        pass_time(deadline_ns);
        return;
    }
    if (spn__interrupt_pending(self))
        return;
    /* relaxed, both: onlookers get a value to compare, never to follow. */
    spn__store(&self->blocker, blocker, relaxed);
    (void)spn__parker_park(&self->parker, deadline_ns);
    spn__store(&self->blocker, NULL, relaxed);
}

void spn_park(const void *blocker)
{
    park_until(SPN_FOREVER, blocker);
}

void spn_park_for(int64_t timeout_ns, const void *blocker)
{
    if (timeout_ns > 0)
        park_until(spn__deadline(spn__now(), timeout_ns), blocker);
}

void spn_park_until(int64_t deadline_ns, const void *blocker)
{
    park_until(deadline_ns, blocker);
}

void spn_unpark(spn_thread *thread)
{
    if (thread != NULL)
        spn__parker_unpark(&thread->parker);
}

int spn_thread_blocker(const spn_thread *thread, const void **blocker)
{
    if (thread == NULL || blocker == NULL)
        return SPN_EINVAL;
    *blocker = spn__load(&thread->blocker, relaxed); /* see park_until */
    return SPN_OK;
}
