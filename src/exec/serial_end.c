/* SPDX-License-Identifier: MIT */
/*
 * serial_end.c - how much is inside a serial executor, and its end.
 *
 * COUNTING
 *   `ctl` holds two flags and the number of tasks, active lanes and holders, so that the
 *   last one out sees that it is, and the one that closes whether anybody is inside.
 *
 * ORDERING
 *   [ctl]  who counts down last, or closes when nobody is inside, acquires what the
 *          others released: the end comes after all tasks.
 *
 * LOCKS  `lock` guards the end and who waits for it; a leaf.
 */
#include "exec/serial.h"

#include "base/time.h"
#include "exec/work.h"
#include "future/ambient.h"
#include "future/core.h"
#include "future/executor.h"
#include "sync/interrupt.h"
#include "sync/thread_record.h"

/* ---- the count ------------------------------------------------------------------- */

static void terminate(struct spn_serial *s)
{
    struct spn__chosen chosen = { NULL, NULL };

    spn__lock(&s->lock);
    s->terminated = true;
    spn__waitq_choose_all(&s->awaiting, &chosen);
    spn__unlock(&s->lock);
    spn__chosen_grant(&chosen);
}

/* Counts down.  The caller has nothing to do with it afterwards, unless it counts
 * otherwise. */
void spn__serial_count_down(struct spn_serial *s, uint64_t by)
{
    const uint64_t left = spn__fetch_sub(&s->ctl, by * SPN__SERIAL_ONE, acq_rel) -
                          by * SPN__SERIAL_ONE; /* [ctl] */

    if ((left & SPN__SERIAL_CLOSED) != 0 && left < SPN__SERIAL_ONE)
        terminate(s);
}

/* Counts a task; false: closed. */
bool spn__serial_count_up(struct spn_serial *s)
{
    /* relaxed: the lock orders the rest. */
    if ((spn__fetch_add(&s->ctl, SPN__SERIAL_ONE, relaxed) & SPN__SERIAL_CLOSED) == 0)
        return true;
    spn__serial_count_down(s, 1);
    return false;
}

void spn__serial_hold(spn_executor *executor)
{
    struct spn__serial_lane *lane = spn__serial_lane_of(executor);
    struct spn_serial *s = lane->serial;

    /* relaxed: counting down again does the rest. */
    (void)spn__fetch_add(&s->ctl, SPN__SERIAL_ONE, relaxed);
    if (lane != &s->common)
        spn__serial_keep_lane(lane);
}

void spn__serial_release(spn_executor *executor)
{
    struct spn__serial_lane *lane = spn__serial_lane_of(executor);
    struct spn_serial *s = lane->serial;

    if (lane != &s->common)
        spn__serial_close_lane(lane);
    spn__serial_count_down(s, 1);
}

/* ---- the end ---------------------------------------------------------------------------- */

int spn__serial_shutdown(spn_executor *executor)
{
    struct spn_serial *s = spn__serial_lane_of(executor)->serial;

    /* [ctl] acquire: if it is the last. */
    if (spn__fetch_or(&s->ctl, SPN__SERIAL_CLOSED, acquire) < SPN__SERIAL_ONE)
        terminate(s);
    return SPN_OK;
}

/* Takes all tasks of a lane, and interrupts the one that runs.  With the lock held. */
static void stop_lane(struct spn__serial_lane *lane, struct spn__list *out)
{
    spn__list_splice(out, &lane->tasks);
    if (lane->thread != NULL) {
        lane->interrupted = true;
        spn__interrupt_set(lane->thread);
    }
}

int spn__serial_shutdown_now(spn_executor *executor, spn_unrun_fn unrun, void *ctx,
                             int64_t *count)
{
    struct spn_serial *s = spn__serial_lane_of(executor)->serial;
    struct spn__list_node *node;
    struct spn__list tasks;
    uint64_t returned = 0;

    spn__unrun_unwrap(&unrun, &ctx);
    spn__list_init(&tasks);
    (void)spn__fetch_add(&s->ctl, SPN__SERIAL_ONE,
                         relaxed); /* it does not end before we do */
    /* relaxed: counting down again does the rest. */
    (void)spn__fetch_or(&s->ctl, SPN__SERIAL_CLOSED | SPN__SERIAL_STOPPED, relaxed);
    for (int i = 0; i < SPN__SERIAL_SHARDS; i++) {
        struct spn__serial_shard *shard = &s->shards[i];

        spn__lock(&shard->lock);
        if (s->common.shard == shard)
            stop_lane(&s->common, &tasks);
        for (size_t b = 0; b < shard->bucket_count; b++)
            spn__list_each (node, &shard->buckets[b])
                stop_lane(spn__list_entry(node, struct spn__serial_lane, link), &tasks);
        spn__unlock(&shard->lock);
    }
    for (; (node = spn__list_pop_front(&tasks)) != NULL; returned++) {
        spn_task *task = spn__node_task(node);

        if (unrun == NULL)
            spn__task_discard(task, SPN_ESHUTDOWN);
        else
            spn__task_give_back(task, unrun, ctx);
    }
    if (count != NULL)
        *count = (int64_t)returned;
    spn__serial_count_down(s, returned + 1);
    return SPN_OK;
}

static bool is_inside(const struct spn_thread *self, const struct spn_serial *s)
{
    const spn_executor_frame *frame = self->executing;

    for (; frame != NULL; frame = frame->outer)
        if ((frame->executor->ops == &spn__serial_ops[SPN__SERIAL_WHOLE] ||
             frame->executor->ops == &spn__serial_ops[SPN__SERIAL_KEY]) &&
            spn__serial_lane_of(frame->executor)->serial == s)
            return true;
    return false;
}

int spn__serial_await(spn_executor *executor, int64_t timeout_ns)
{
    struct spn_serial *s = spn__serial_lane_of(executor)->serial;
    struct spn_thread *self = spn__thread_self();
    struct spn__waiter w;
    int rc = SPN_OK;

    if (self == NULL)
        return SPN_ENOMEM;
    if (is_inside(self, s))
        return SPN_EDEADLK;
    spn__lock(&s->lock);
    if (!s->terminated && timeout_ns <= 0) {
        rc = SPN_ETIMEDOUT;
    } else if (!s->terminated) {
        spn__waitq_add(&s->awaiting, &w, self);
        spn__unlock(&s->lock);
        rc = spn__waitq_wait(&w, &s->lock, spn__deadline(spn__now(), timeout_ns));
        if (rc == SPN_OK)
            return SPN_OK; /* it may be gone */
    }
    spn__unlock(&s->lock);
    return rc;
}

int spn__serial_state(spn_executor *executor)
{
    struct spn_serial *s = spn__serial_lane_of(executor)->serial;
    uint64_t ctl;
    bool terminated;

    spn__lock(&s->lock);
    terminated = s->terminated;
    spn__unlock(&s->lock);
    if (terminated)
        return SPN_EXECUTOR_TERMINATED;
    ctl = spn__load(&s->ctl, relaxed); /* only told */
    if ((ctl & SPN__SERIAL_STOPPED) != 0)
        return SPN_EXECUTOR_STOP;
    return (ctl & SPN__SERIAL_CLOSED) != 0 ? SPN_EXECUTOR_SHUTDOWN
                                           : SPN_EXECUTOR_RUNNING;
}
