/* SPDX-License-Identifier: MIT */
/*
 * limiter.c - an executor that lets so many tasks through to another one.
 *
 * OVERVIEW
 *   A task that is accepted gets an entry (pending.h) until it starts.  A task whose turn it
 *   is gets a slot.  The slot is a job of its own, which the executor behind gets in the
 *   task's stead and which runs the task: so the limiter sees each task start and end.
 *   The task's link[0] is the entry's, and link[1] is its slot, NULL while it waits.
 *
 * STATE of a task
 *   WAITING -> HANDED -> RUNNING -> ended
 *   in turn    given to  its fn
 *              the executor
 *   A task finds its way back early from WAITING (remove), and from HANDED if the
 *   executor behind refuses, drops or gives it back.  A permit is what HANDED and
 *   RUNNING tasks have; `in_flight` counts them and is changed under the lock together
 *   with the state: whoever ends one takes the next that waits in the same step, so that
 *   a permit is neither lost nor given twice.
 *
 * MEMORY
 *   Only tasks in flight have a slot; up to SPARES free slots are kept.  execute allocates
 *   the entry, and the slot if it is the task's turn, before it accepts the task.  When a
 *   task ends, the next one that waits gets its slot, so that handing over allocates
 *   nothing.  Nothing is allocated or freed with the lock held.
 *
 *   A slot that a remove is asking the executor behind about is pinned: its task may end
 *   meanwhile, but the slot is not used again, or the remove could hit another task.
 *   If there is no other free slot, the next task waits until the remove has its answer
 *   and hands it over.  A task that comes meanwhile waits behind it.
 *
 * BEHIND THE CALLER'S BACK
 *   The executor behind may run the job inside execute.  The end of that job must not
 *   hand over the next one from there, and so on, for as many as wait: the thread notes
 *   what it is handing over, and an end found in there leaves the rest to the loop that
 *   is further out.
 *
 *   An executor captures the context of whoever hands a job over, and that may be a
 *   thread that has just run another task: so the hand-over is made with the context
 *   of the task.
 *
 * TIME
 *   The rule of standing delay, see standing.h: tasks that are accepted and have not
 *   started wait, here or at the executor behind.
 *
 * LOCKS  `lock` guards all but what is fixed; a leaf.  Nothing of the user's and nothing of
 *        the executor behind is called with it held.
 */
#include <spindle/limiter.h>
#include <spindle/pool.h>

#include <string.h>

#include "base/assert.h"
#include "base/list.h"
#include "base/options.h"
#include "base/time.h"
#include "exec/pending.h"
#include "exec/standing.h"
#include "future/ambient.h"
#include "future/core.h"
#include "future/executor.h"
#include "sync/thread_record.h"
#include "sync/waitq.h"

enum {
    DEFAULT_IN_FLIGHT = 1024,
    SPARES = 32 /* free slots that are kept, for tasks to come */
};

enum slot_state { FREE, HANDED, RUNNING };

/* How a task came to its end. */
enum fate { COMPLETED, FAILED, DROPPED, RETURNED, REFUSED };

struct slot {
    spn_job job;                 /* first: what the executor behind has */
    struct spn_limiter *limiter; /* fixed */
    spn_task *task;              /* the user's */
    int64_t accepted_ns;
    /* Guarded by the lock. */
    struct spn__list_node link; /* in free or handed */
    uint8_t state;
    bool ended;              /* while pinned: to be freed by who pinned it */
    bool swept;              /* a shutdown_now is about to take it back */
    uint32_t pins;           /* removes that are under way */
    struct slot *next_swept; /* the sweeper's */
};

/* What a thread is just handing over; the innermost is in its record. */
struct spn__limiter_frame {
    struct slot *slot; /* NULL: it has ended in there */
    struct slot *next; /* then: whose turn it is now */
    struct spn__limiter_frame *outer;
};

struct spn_limiter {
    struct spn_executor executor; /* first: they are the same object */
    /* Fixed. */
    spn_executor *behind;
    int32_t max_in_flight, max_waiting;
    spn_clock *clock;
    void (*refused)(void *, spn_limiter_reason, const spn_limiter_stats *);
    void *ctx;

    struct spn__lock lock;       /* guards the rest */
    struct spn__pending pending; /* of the tasks that have not started */
    struct spn__list free;       /* slots */
    uint32_t free_count;
    struct spn__list handed; /* given to the executor, not started; the oldest first */
    uint32_t state;          /* spn_executor_state */
    struct spn__waitq awaiting;
    uint32_t holds;                /* of those who hold it */
    uint64_t attached;             /* stages that wait to be executed */
    spn_limiter_stats stats;       /* in_flight, waiting and all that counts */
    struct spn__standing standing; /* without a target: not used */
};

/* What is left to do when the lock is not held any more. */
struct after {
    struct spn__chosen chosen; /* to wake */
    struct slot *slot;         /* to free, as the next; or NULL */
    struct spn__pending_entry *chunk;
};
#define AFTER_INIT                 \
    {                              \
        { NULL, NULL }, NULL, NULL \
    }

/* The limiter may be gone afterwards, if it has come to its end. */
static void unlock_and(struct spn_limiter *l, struct after *after)
{
    spn__unlock(&l->lock);
    spn__chosen_grant(&after->chosen);
    if (after->slot != NULL)
        spn__free(after->slot);
    if (after->chunk != NULL)
        spn__free(after->chunk);
}

static struct spn_limiter *limiter_of(spn_executor *executor)
{
    return (struct spn_limiter *)(void *)executor;
}

static struct slot *slot_of(struct spn__list_node *node)
{
    return spn__list_entry(node, struct slot, link);
}

static int64_t now_of(const struct spn_limiter *l)
{
    return l->standing.target_ns != 0 ? spn_clock_now(l->clock) : 0;
}

/* ---- by time; the lock is held ------------------------------------------------------- */

/* How long the task that has waited longest has, so far. */
static int64_t oldest_delay(const struct spn_limiter *l, int64_t now_ns)
{
    struct spn__list_node *node = spn__list_first(&l->handed);
    const struct spn__pending_entry *first = spn__pending_first(&l->pending);

    if (node != NULL)
        return spn__time_sub(now_ns, slot_of(node)->accepted_ns);
    return first != NULL ? spn__time_sub(now_ns, first->accepted_ns) : 0;
}

/* Ends an interval whose time is over. */
static void turn_interval(struct spn_limiter *l, int64_t now_ns)
{
    if (spn__standing_is_due(&l->standing, now_ns))
        spn__standing_turn(&l->standing, now_ns, oldest_delay(l, now_ns));
}

static void sample(struct spn_limiter *l, const struct slot *s, int64_t now_ns)
{
    turn_interval(l, now_ns);
    spn__standing_sample(&l->standing, spn__time_sub(now_ns, s->accepted_ns));
}

static bool too_slow(struct spn_limiter *l, int64_t now_ns)
{
    if (l->standing.target_ns == 0)
        return false;
    turn_interval(l, now_ns);
    return spn__standing_refuses(&l->standing,
                                 spn__list_empty(&l->handed) && l->stats.waiting == 0);
}

/* All of its figures; the lock is held. */
static void copy_stats(const struct spn_limiter *l, spn_limiter_stats *stats)
{
    *stats = l->stats;
    stats->overloaded = l->standing.is_overloaded;
    stats->delay_ns = l->standing.delay_ns;
}

/* ---- permits ------------------------------------------------------------------------- */

/* A task has left.  The lock is held. */
static void count(struct spn_limiter *l, enum fate fate)
{
    switch (fate) {
    case COMPLETED:
        l->stats.completed++;
        break;
    case FAILED:
        l->stats.failed++;
        break;
    case DROPPED:
        l->stats.dropped++;
        break;
    case RETURNED:
        l->stats.returned++;
        break;
    case REFUSED: /* as if it had never come */
        l->stats.accepted--;
        l->stats.refused_behind++;
        break;
    }
}

/* The slot is not used any more; to be freed if there are enough.  The lock is held. */
static void free_slot(struct slot *s, struct after *after)
{
    struct spn_limiter *l = s->limiter;

    s->task = NULL;
    s->state = FREE;
    s->ended = s->pins != 0;
    if (s->ended)
        return;
    if (l->free_count < SPARES) {
        spn__list_push_front(&l->free, &s->link);
        l->free_count++;
    } else {
        after->slot = s;
    }
}

static int slot_run(spn_task *job);
static void slot_drop(spn_task *job, int reason);

/* Gives a permit and a free slot to a task that has an entry.  The lock is held. */
static struct slot *permit(struct spn_limiter *l,
                           const struct spn__pending_entry *entry)
{
    struct slot *s = slot_of(spn__list_pop_front(&l->free));
    spn_task *task = entry->task;
    const spn_job *job = spn__job_of(task);

    l->free_count--;
    s->job = (spn_job)SPN_JOB_INIT(slot_run, slot_drop);
    if (job != NULL) {
        s->job.deadline_ns = job->deadline_ns;
        s->job.priority = job->priority;
        s->job.owner = job->owner;
        s->job.label = job->label;
    }
    s->task = task;
    s->accepted_ns = entry->accepted_ns;
    s->swept = false;
    s->state = HANDED;
    task->link[1] = s;
    spn__list_push_back(&l->handed, &s->link);
    if (++l->stats.in_flight > l->stats.peak_in_flight)
        l->stats.peak_in_flight = l->stats.in_flight;
    spn__debug_assert(l->stats.in_flight <= l->max_in_flight);
    return s;
}

/* The one whose turn it is, with a permit, or NULL.  The lock is held. */
static struct slot *next_in_turn(struct spn_limiter *l)
{
    struct spn__pending_entry *first = spn__pending_first(&l->pending);

    if (first == NULL || l->stats.in_flight >= l->max_in_flight ||
        l->state >= SPN_EXECUTOR_STOP || spn__list_empty(&l->free))
        return NULL;
    spn__pending_dequeue(&l->pending, first);
    l->stats.waiting--;
    return permit(l, first);
}

/* A task that was handed over starts, or leaves: it cannot be taken back any more.  The
 * lock is held, and the task still ours.  Returns a chunk to be freed, or NULL. */
static struct spn__pending_entry *slot_leave(struct slot *s)
{
    spn__list_remove(&s->link);
    s->state = RUNNING;
    return spn__pending_remove(&s->limiter->pending, s->task);
}

/* Who awaits the end, if this is it.  The lock is held. */
static void look_for_end(struct spn_limiter *l, struct after *after)
{
    if (l->state != SPN_EXECUTOR_RUNNING && l->stats.in_flight == 0 &&
        l->stats.waiting == 0 && l->holds == 0) {
        l->state = SPN_EXECUTOR_TERMINATED;
        spn__waitq_choose_all(&l->awaiting, &after->chosen);
    }
}

/* Takes a permit back and frees the slot; returns the next in turn.  The task is still ours
 * unless it has left.  The limiter may be gone if there is no next one. */
static struct slot *end_permit(struct slot *s, enum fate fate)
{
    struct spn_limiter *l = s->limiter;
    struct after after = AFTER_INIT;
    struct slot *next;

    spn__lock(&l->lock);
    if (s->state == HANDED)
        after.chunk = slot_leave(s);
    l->stats.in_flight--;
    count(l, fate);
    free_slot(s, &after);
    next = next_in_turn(l);
    look_for_end(l, &after);
    unlock_and(l, &after);
    return next;
}

/* ---- handing over ---------------------------------------------------------------------- */

/* The task is the user's again. */
static void drop(spn_task *task, int reason)
{
    spn_task_release(task);
    spn__task_drop_guarded(task, reason);
}

static void hand_over_all(struct slot *s);

/* Drops the task of a slot that the executor behind has had and will not run, and ends the
 * slot; returns the next in turn. */
static struct slot *slot_give_up(struct slot *s, int reason)
{
    struct spn_limiter *l = s->limiter;
    struct spn__pending_entry *chunk;

    spn__lock(&l->lock);
    chunk = slot_leave(s);
    spn__unlock(&l->lock);
    if (chunk != NULL)
        spn__free(chunk);
    drop(s->task, reason);
    return end_permit(s, DROPPED);
}

/* Gives a slot with a permit to the executor behind; not ours after that, unless it was
 * refused.  *next: if it has come to its end in there, whose turn it is now. */
static int hand_over(struct slot *s, struct slot **next)
{
    struct spn__limiter_frame frame = { .slot = s };
    struct spn_thread *self = spn__thread_self();
    struct spn__context_frame context;
    int rc;

    if (self != NULL) {
        frame.outer = self->limiter;
        self->limiter = &frame;
    }
    spn__context_enter(&context, self, spn__job_take(s->task));
    rc = spn_executor_execute(s->limiter->behind, &s->job.task);
    spn__context_leave(&context, self);
    if (self != NULL)
        self->limiter = frame.outer;
    *next = frame.next;
    return rc;
}

/* Hands over one after another, as long as what is handed over ends right there. */
static void hand_over_all(struct slot *s)
{
    while (s != NULL) {
        struct slot *next;
        const int rc = hand_over(s, &next);

        if (rc != SPN_OK)
            next = slot_give_up(s, rc);
        s = next;
    }
}

/* A slot that was handed over has come to its end, on this thread: the next one is
 * handed over here, or by the loop that is further out if there is one. */
static void pass_on(const struct slot *s, struct slot *next)
{
    struct spn_thread *self = spn__self_get();
    struct spn__limiter_frame *frame = self != NULL ? self->limiter : NULL;

    if (frame != NULL && frame->slot == s) {
        frame->slot = NULL;
        frame->next = next;
    } else {
        hand_over_all(next);
    }
}

/* ---- as a job of the executor behind --------------------------------------------------- */

/* The task has ended its thread: no loop further out goes on. */
static void slot_ended(void *of, void *held)
{
    (void)held;
    hand_over_all(end_permit(of, FAILED));
}

static int slot_run(spn_task *job)
{
    struct slot *s = (struct slot *)(void *)job;
    struct spn_limiter *l = s->limiter;
    spn_task *task = s->task;
    const int64_t now_ns = now_of(l);
    struct spn_thread *self;
    struct spn__pending_entry *chunk;
    spn_executor_frame inside;
    bool entered;
    int rc;

    spn__lock(&l->lock);
    chunk = slot_leave(s);
    if (l->standing.target_ns != 0)
        sample(l, s, now_ns);
    spn__unlock(&l->lock);
    if (chunk != NULL)
        spn__free(chunk);
    entered = spn_executor_enter(&l->executor, &inside) == SPN_OK;
    self = spn__self_get();
    spn_task_release(task);
    spn__task_entered(self, slot_ended, s, NULL);
    rc = task->fn(task); /* the task may be gone now */
    spn__task_left(self);
    if (entered)
        (void)spn_executor_leave(&inside);
    pass_on(s, end_permit(s, rc == 0 ? COMPLETED : FAILED));
    return rc;
}

static void slot_drop(spn_task *job, int reason)
{
    struct slot *s = (struct slot *)(void *)job;

    pass_on(s, slot_give_up(s, reason));
}

/* ---- as an executor ------------------------------------------------------------------------ */

/* Whether it is a new task's turn at once.  If a task waits for a pinned slot, there is a
 * permit, but that task comes first.  The lock is held. */
static bool has_turn(const struct spn_limiter *l)
{
    return l->stats.in_flight < l->max_in_flight && l->stats.waiting == 0;
}

static int wants_to_refuse(struct spn_limiter *l, int64_t now_ns)
{
    if (l->state != SPN_EXECUTOR_RUNNING) {
        l->stats.refused_shutdown++;
        return SPN_LIMITER_SHUTDOWN;
    }
    if (!has_turn(l) && l->stats.waiting >= l->max_waiting) {
        l->stats.refused_full++;
        return SPN_LIMITER_FULL;
    }
    if (too_slow(l, now_ns)) {
        l->stats.refused_delay++;
        return SPN_LIMITER_DELAY;
    }
    return 0;
}

/* Whether a task can be taken without an allocation.  The lock is held. */
static bool has_room(const struct spn_limiter *l)
{
    return spn__pending_has_room(&l->pending) &&
           (!has_turn(l) || !spn__list_empty(&l->free));
}

/* Makes an entry or a slot.  The lock is held, but not all the while: others may change
 * everything, and take what was made.  SPN_OK or SPN_ENOMEM. */
static int make_room(struct spn_limiter *l)
{
    const uint32_t number = l->pending.chunk_count;
    const bool needs_entry = !spn__pending_has_room(&l->pending);
    struct spn__pending_entry *chunk = NULL;
    struct slot *s = NULL;

    spn__unlock(&l->lock);
    if (needs_entry)
        chunk = spn__pending_chunk_get(number);
    else
        s = spn__alloc(sizeof *s);
    spn__lock(&l->lock);
    if (s != NULL) {
        memset(s, 0, sizeof *s);
        s->limiter = l;
        spn__list_push_front(&l->free, &s->link);
        l->free_count++;
    } else if (chunk == NULL) {
        return SPN_ENOMEM;
    } else if (!spn__pending_chunk_add(&l->pending, number, chunk)) {
        spn__unlock(&l->lock);
        spn__free(chunk);
        spn__lock(&l->lock);
    }
    return SPN_OK;
}

/* Takes a task for which there is room.  Its slot, or NULL: it waits.  The lock is held. */
static struct slot *take_in(struct spn_limiter *l, spn_task *task, int64_t now_ns)
{
    struct spn__pending_entry *entry = spn__pending_add(&l->pending, task, now_ns);

    spn__job_capture(task);
    l->stats.accepted++;
    if (has_turn(l))
        return permit(l, entry);
    task->link[1] = NULL;
    spn__pending_enqueue(&l->pending, entry);
    if (++l->stats.waiting > l->stats.peak_waiting)
        l->stats.peak_waiting = l->stats.waiting;
    return NULL;
}

static int limiter_execute(spn_executor *executor, spn_task *task)
{
    struct spn_limiter *l = limiter_of(executor);
    struct slot *s = NULL, *next = NULL;
    spn_limiter_stats stats;
    int64_t now_ns;
    int reason, rc = spn_task_claim(task);

    if (rc != SPN_OK)
        return rc;
    now_ns = now_of(l);
    spn__lock(&l->lock);
    while ((reason = wants_to_refuse(l, now_ns)) == 0 && !has_room(l))
        if ((rc = make_room(l)) != SPN_OK)
            break;
    if (reason != 0)
        copy_stats(l, &stats);
    else if (rc == SPN_OK)
        s = take_in(l, task, now_ns);
    spn__unlock(&l->lock);
    if (rc != SPN_OK) {
        spn_task_release(task);
        return rc;
    }
    if (reason != 0) {
        spn_task_release(task);
        if (l->refused != NULL)
            l->refused(l->ctx, (spn_limiter_reason)reason, &stats);
        return reason == SPN_LIMITER_SHUTDOWN ? SPN_ESHUTDOWN : SPN_EREJECTED;
    }
    if (s == NULL)
        return SPN_OK; /* it waits, or not any more */
    rc = hand_over(s, &next);
    if (rc != SPN_OK) {
        next = end_permit(s, REFUSED);
        spn_task_release(task);
    }
    hand_over_all(next);
    return rc;
}

/* Takes a task that waits here out; it is the caller's to release.  The lock is held. */
static void take_waiting(struct spn_limiter *l, const spn_task *task,
                         struct after *after)
{
    after->chunk = spn__pending_remove(&l->pending, task);
    l->stats.waiting--;
    count(l, RETURNED);
    look_for_end(l, after);
}

/* The executor behind has answered whether it gives the slot back.  The next in turn, if
 * it had to wait for that. */
static struct slot *unpin(struct slot *s)
{
    struct spn_limiter *l = s->limiter;
    struct after after = AFTER_INIT;
    struct slot *next = NULL;

    spn__lock(&l->lock);
    if (--s->pins == 0 && s->ended) {
        free_slot(s, &after);
        next = next_in_turn(l);
    }
    unlock_and(l, &after);
    return next;
}

/* Takes a task back from the executor behind; the slot is pinned, and is not any more
 * afterwards.  NULL: it has started. */
static spn_task *take_handed(struct slot *s)
{
    spn_task *task = NULL;

    if (spn_executor_remove(s->limiter->behind, &s->job.task) == 1) {
        task = s->task; /* and the slot ours to end */
        (void)unpin(s); /* it has not ended */
        hand_over_all(end_permit(s, RETURNED));
    } else {
        hand_over_all(unpin(s));
    }
    return task;
}

static int limiter_remove(spn_executor *executor, spn_task *task)
{
    struct spn_limiter *l = limiter_of(executor);
    struct after after = AFTER_INIT;
    struct slot *handed = NULL;
    bool found;

    spn__lock(&l->lock);
    found = spn__pending_find(&l->pending, task) != NULL;
    if (found && task->link[1] == NULL) {
        take_waiting(l, task, &after);
    } else if (found) {
        handed = task->link[1];
        handed->pins++;
    }
    unlock_and(l, &after);
    if (handed != NULL)
        found = take_handed(handed) != NULL;
    if (!found)
        return 0;
    spn__job_forget(task); /* nothing, if it was handed over */
    spn__task_given_back(task);
    spn_task_release(task);
    return SPN__GIVEN_BACK;
}

static int limiter_shutdown(spn_executor *executor)
{
    struct spn_limiter *l = limiter_of(executor);
    struct after after = AFTER_INIT;

    spn__lock(&l->lock);
    if (l->state < SPN_EXECUTOR_SHUTDOWN)
        l->state = SPN_EXECUTOR_SHUTDOWN;
    look_for_end(l, &after);
    unlock_and(l, &after);
    return SPN_OK;
}

static void give_back(spn_task *task, spn_unrun_fn unrun, void *ctx)
{
    if (unrun == NULL) {
        drop(task, SPN_ESHUTDOWN);
    } else {
        spn__task_given_back(task);
        spn_task_release(task);
        spn__task_hand_out(task, unrun, ctx);
    }
}

/* Those that wait, one by one. */
static spn_task *take_first_waiting(struct spn_limiter *l)
{
    struct after after = AFTER_INIT;
    const struct spn__pending_entry *first;
    spn_task *task = NULL;

    spn__lock(&l->lock);
    first = spn__pending_first(&l->pending);
    if (first != NULL) {
        task = first->task;
        take_waiting(l, task, &after);
    }
    unlock_and(l, &after);
    if (task != NULL)
        spn__job_forget(task);
    return task;
}

/* Pins every slot that was handed over; linked in order, for shutdown_now only. */
static struct slot *pin_handed(struct spn_limiter *l)
{
    struct slot *first = NULL, **last = &first;
    struct spn__list_node *node;

    spn__list_each (node, &l->handed) {
        struct slot *s = slot_of(node);

        if (s->swept)
            continue; /* another shutdown_now has it */
        s->swept = true;
        s->pins++;
        s->next_swept = NULL;
        *last = s;
        last = &s->next_swept;
    }
    return first;
}

static int limiter_shutdown_now(spn_executor *executor, spn_unrun_fn unrun, void *ctx,
                                int64_t *count_out)
{
    struct spn_limiter *l = limiter_of(executor);
    struct after after = AFTER_INIT;
    struct slot *s, *next;
    spn_task *task;
    int64_t given = 0;

    spn__unrun_unwrap(&unrun, &ctx);
    spn__lock(&l->lock);
    if (l->state < SPN_EXECUTOR_STOP)
        l->state = SPN_EXECUTOR_STOP; /* nobody gets a turn any more */
    s = pin_handed(l);
    look_for_end(l, &after);
    unlock_and(l, &after);
    for (; s != NULL; s = next) {
        next = s->next_swept;
        task = take_handed(s);
        if (task != NULL) {
            given++;
            give_back(task, unrun, ctx);
        }
    }
    for (; (task = take_first_waiting(l)) != NULL; given++)
        give_back(task, unrun, ctx);
    if (count_out != NULL)
        *count_out = given;
    return SPN_OK;
}

static int limiter_await(spn_executor *executor, int64_t timeout_ns)
{
    struct spn_limiter *l = limiter_of(executor);
    struct spn_thread *self = spn__thread_self();
    struct spn__waiter w;
    int64_t deadline_ns;
    int rc = SPN_OK;

    if (self == NULL)
        return SPN_ENOMEM;
    if (spn__thread_is_inside(self, executor))
        return SPN_EDEADLK;
    deadline_ns = spn__deadline(spn__now(), timeout_ns);
    spn__lock(&l->lock);
    if (l->state != SPN_EXECUTOR_TERMINATED) {
        spn__waitq_add(&l->awaiting, &w, self);
        spn__unlock(&l->lock);
        rc = spn__waitq_wait(&w, &l->lock, deadline_ns);
        if (rc == SPN_OK)
            return SPN_OK; /* the limiter may be gone */
    }
    spn__unlock(&l->lock);
    return rc;
}

static int limiter_state(spn_executor *executor)
{
    struct spn_limiter *l = limiter_of(executor);
    uint32_t state;

    spn__lock(&l->lock);
    state = l->state;
    spn__unlock(&l->lock);
    return (int)state;
}

static void limiter_hold(spn_executor *executor)
{
    struct spn_limiter *l = limiter_of(executor);

    spn__lock(&l->lock);
    l->holds++;
    spn__unlock(&l->lock);
}

static void limiter_release(spn_executor *executor)
{
    struct spn_limiter *l = limiter_of(executor);
    struct after after = AFTER_INIT;

    spn__lock(&l->lock);
    l->holds--;
    look_for_end(l, &after);
    unlock_and(l, &after);
}

static void limiter_attach(spn_executor *executor)
{
    struct spn_limiter *l = limiter_of(executor);

    spn__lock(&l->lock);
    l->attached++;
    spn__unlock(&l->lock);
}

/* The limiter may be gone afterwards. */
static void limiter_detach(spn_executor *executor)
{
    struct spn_limiter *l = limiter_of(executor);

    spn__lock(&l->lock);
    l->attached--;
    spn__unlock(&l->lock);
}

/* ---- making and asking ---------------------------------------------------------------------- */

static bool fits(const spn_limiter_opts *o)
{
    const int32_t waiting = o->max_waiting == SPN_UNBOUNDED ? 0 : o->max_waiting;

    return o->executor != NULL && o->max_in_flight >= 0 && waiting >= 0 &&
           o->target_ns >= 0 && o->interval_ns >= 0 &&
           (int64_t)o->max_in_flight + waiting <= SPN_LIMITER_TASKS_MAX;
}

int spn_limiter_create(spn_limiter **out, const spn_limiter_opts *opts)
{
    static const spn_executor_ops ops = { .size = sizeof ops,
                                          .execute = limiter_execute,
                                          .shutdown = limiter_shutdown,
                                          .shutdown_now = limiter_shutdown_now,
                                          .await = limiter_await,
                                          .state = limiter_state,
                                          .remove = limiter_remove,
                                          .hold = limiter_hold,
                                          .release = limiter_release,
                                          .attach = limiter_attach,
                                          .detach = limiter_detach };
    spn_limiter_opts o = SPN_LIMITER_OPTS_INIT;
    struct spn_limiter *l;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (opts == NULL || spn__options_copy(&o, sizeof o, opts) != SPN_OK || !fits(&o))
        return SPN_EINVAL;
    if (o.max_in_flight == 0)
        o.max_in_flight = DEFAULT_IN_FLIGHT;
    if (o.max_waiting == SPN_UNBOUNDED)
        o.max_waiting = INT32_MAX;
    l = spn__alloc(sizeof *l);
    if (l == NULL)
        return SPN_ENOMEM;
    memset(l, 0, sizeof *l);
    l->executor.ops = &ops;
    l->behind = o.executor;
    l->max_in_flight = l->stats.max_in_flight = o.max_in_flight;
    l->max_waiting = l->stats.max_waiting = o.max_waiting;
    spn__standing_init(&l->standing, o.target_ns, o.interval_ns);
    l->clock = o.clock != NULL ? o.clock : spn_clock_monotonic();
    l->refused = o.refused;
    l->ctx = o.ctx;
    spn__lock_init(&l->lock);
    spn__pending_init(&l->pending);
    spn__list_init(&l->free);
    spn__list_init(&l->handed);
    spn__waitq_init(&l->awaiting);
    l->stats.size = sizeof l->stats;
    *out = l;
    return SPN_OK;
}

int spn_limiter_destroy(spn_limiter *l)
{
    struct spn__list_node *node;
    bool busy;

    if (l == NULL)
        return SPN_OK;
    spn__lock(&l->lock); /* waits for the end that released those who await it */
    busy = l->stats.in_flight != 0 || l->stats.waiting != 0 || l->holds != 0 ||
           l->attached != 0 || !spn__waitq_empty(&l->awaiting);
    spn__unlock(&l->lock);
    if (busy)
        return SPN_EBUSY;
    while ((node = spn__list_pop_front(&l->free)) != NULL)
        spn__free(slot_of(node));
    spn__pending_fini(&l->pending);
    spn__free(l);
    return SPN_OK;
}

spn_executor *spn_limiter_executor(spn_limiter *l)
{
    return l != NULL ? &l->executor : NULL;
}

int spn_limiter_stats_get(spn_limiter *l, spn_limiter_stats *stats)
{
    spn_limiter_stats s;

    if (l == NULL || stats == NULL)
        return SPN_EINVAL;
    spn__lock(&l->lock);
    copy_stats(l, &s);
    spn__unlock(&l->lock);
    return spn__output_copy(stats, &s, sizeof s);
}

const char *spn_limiter_reason_name(int reason)
{
    switch (reason) {
    case SPN_LIMITER_FULL:
        return "full";
    case SPN_LIMITER_DELAY:
        return "delay";
    case SPN_LIMITER_SHUTDOWN:
        return "shutdown";
    default:
        return "unknown";
    }
}
