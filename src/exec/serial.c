/* SPDX-License-Identifier: MIT */
/*
 * serial.c - order over an executor that has none.
 *
 * OVERVIEW
 *   A key with tasks has a lane: their list, and a task of its own, the runner,
 *   which the executor below runs.  A lane is active from when its runner is handed
 *   over until the runner finds the list empty; there is one runner at a time, so its
 *   tasks run one at a time.
 *
 * STATE of a lane, under its shard's lock
 *   idle    no tasks, not active; freed unless somebody has it open
 *   active  the runner is at the executor below, on its way there, or running
 *   A task that finds the lane idle makes it active and hands the runner over; one that
 *   finds it active only queues up: the runner looks at the list under the lock before
 *   it goes idle, so it is seen.
 *
 * A REFUSED HAND-OVER
 *   Who handed over takes its own task back and reports.  Others may have queued up
 *   behind it meanwhile, trusting in the runner: for them it is tried once more,
 *   and they are dropped if that fails.  The runner itself, refused when it wanted to
 *   queue up again, just goes on.
 *
 * RUN WITHIN execute
 *   The executor below may run the runner inside execute (the direct one, a pool whose
 *   callers run what does not fit).  A runner that queues up again would then be a
 *   recursion: found running in a thread that is inside its lane already, it only
 *   leaves word, and the outer one goes on.
 *
 * ORDERING
 *   [ctl]  see serial_end.c.
 *
 * LOCKS  a shard's lock guards its lanes and all that is in them; a leaf.
 */
#include "exec/serial.h"

#include "base/assert.h"
#include "base/log.h"
#include "base/options.h"
#include "exec/work.h"
#include "future/ambient.h"
#include "future/core.h"
#include "future/executor.h"
#include "sync/interrupt.h"

/* ---- tasks --------------------------------------------------------------------------- */

/* Goes idle and drops what waited.  The lane may be gone afterwards. */
static void give_up(struct spn__serial_lane *lane, int reason)
{
    struct spn_serial *s = lane->serial;
    struct spn__list_node *node;
    struct spn__list tasks;
    uint64_t dropped = 0;

    spn__list_init(&tasks);
    spn__lock(&lane->shard->lock);
    spn__list_splice(&tasks, &lane->tasks);
    lane->active = false; /* first: what a drop submits asks for a turn of its own */
    lane->opened++;
    spn__unlock(&lane->shard->lock);
    for (; (node = spn__list_pop_front(&tasks)) != NULL; dropped++)
        spn__task_discard(spn__node_task(node), reason);
    spn__serial_close_lane(lane);
    spn__serial_count_down(s, dropped + 1); /* and the lane's own */
}

/* With the lock held: takes a task off that waits in the lane; false: it does not. */
static bool unlink_task(struct spn__serial_lane *lane, const spn_task *task)
{
    struct spn__list_node *node;

    spn__list_each (node, &lane->tasks)
        if (spn__node_task(node) == task) {
            if (lane->asker == task)
                lane->asker = NULL;
            spn__list_remove(node);
            return true;
        }
    return false;
}

/* Hands the runner of a lane over that `task` has made active. */
static int start(struct spn__serial_lane *lane, spn_task *task)
{
    struct spn_serial *s = lane->serial;
    struct spn__serial_shard *shard = lane->shard;
    int rc = spn_executor_execute(s->below, &lane->runner), again;
    bool ours;

    if (rc == SPN_OK)
        return SPN_OK;
    spn__lock(&shard->lock);
    /* Taken back it may have come again, and is then another's. */
    ours = lane->asker == task && unlink_task(lane, task);
    spn__unlock(&shard->lock);
    if (ours) {
        spn__job_forget(task);
        spn_task_release(task);
        spn__serial_count_down(s, 1); /* never the last: the lane is counted */
    }
    /* Those behind it have been accepted. */
    spn__lock(&shard->lock);
    if (spn__list_empty(&lane->tasks)) {
        lane->active = false; /* the caller has it open */
        spn__unlock(&shard->lock);
        spn__serial_count_down(s, 1);
    } else {
        spn__unlock(&shard->lock);
        again = spn_executor_execute(s->below, &lane->runner);
        if (again != SPN_OK)
            give_up(lane, again);
    }
    return ours ? rc : SPN_OK; /* it was taken back by whoever asked for it */
}

/* The lane is open. */
static int lane_execute(spn_executor *executor, spn_task *task)
{
    struct spn__serial_lane *lane = spn__serial_lane_of(executor);
    struct spn_serial *s = lane->serial;
    bool starts = false;
    int rc = SPN_EREJECTED;

    if (!spn__serial_count_up(s))
        return SPN_EREJECTED;
    spn__lock(&lane->shard->lock);
    /* relaxed: shutdown_now looks for tasks under the lock, after setting it. */
    if ((spn__load(&s->ctl, relaxed) & SPN__SERIAL_STOPPED) == 0)
        rc = spn_task_claim(task);
    if (rc == SPN_OK) {
        spn__job_capture(task);
        spn__list_push_back(&lane->tasks, spn__task_node(task));
        starts = !lane->active;
        if (starts) {
            lane->active = true;
            lane->asker = task;
            (void)spn__fetch_add(&s->ctl, SPN__SERIAL_ONE,
                                 relaxed); /* [ctl] the lane's own */
        }
    }
    spn__unlock(&lane->shard->lock);
    if (rc != SPN_OK)
        spn__serial_count_down(s, 1);
    return rc == SPN_OK && starts ? start(lane, task) : rc;
}

static int lane_remove(spn_executor *executor, spn_task *task)
{
    struct spn__serial_lane *lane = spn__serial_lane_of(executor);
    struct spn_serial *s = lane->serial;
    bool found;

    spn__lock(&lane->shard->lock);
    found = unlink_task(lane, task);
    spn__unlock(&lane->shard->lock);
    if (!found)
        return 0;
    spn__job_forget(task);
    spn__task_given_back(task);
    spn_task_release(task);
    spn__serial_count_down(s, 1);
    return SPN__GIVEN_BACK;
}

/* A future of this lane is waited for inside it. */
static int lane_wait_begin(spn_executor *executor, spn_task *task)
{
    struct spn__serial_lane *lane = spn__serial_lane_of(executor);
    struct spn__list_node *node;
    bool behind;

    spn__lock(&lane->shard->lock);
    behind = lane->running == task;
    spn__list_each (node, &lane->tasks)
        behind = behind || spn__node_task(node) == task;
    spn__unlock(&lane->shard->lock);
    return behind ? SPN_EDEADLK : SPN_OK;
}

/* ---- the runner ------------------------------------------------------------------------ */

/* A runner at work, on the stack of its thread. */
struct running {
    spn_executor_frame frame; /* first: how a nested one finds it */
    struct spn__serial_lane *lane;
    struct spn_thread *self; /* NULL: no record, no frame */
    bool in_task;
    bool bounced; /* it was run within execute */
};

/* The task that ran is through: forgets it and takes the next.  Without one the lane is
 * idle and may be gone. */
static spn_task *next_task(struct running *r)
{
    struct spn__serial_lane *lane = r->lane;
    struct spn_serial *s = lane->serial;
    struct spn__serial_shard *shard = lane->shard;
    const uint64_t ran = r->in_task;
    struct spn__serial_lane *retired = NULL;
    struct spn__list_node *node;

    spn__lock(&shard->lock);
    lane->thread = NULL;
    lane->running = NULL;
    if (lane->interrupted) {
        lane->interrupted = false;
        (void)spn__interrupt_take(r->self); /* it was meant for that task */
    }
    node = spn__list_pop_front(&lane->tasks);
    if (node != NULL) {
        lane->thread = r->self;
        lane->running = spn__node_task(node);
    } else {
        lane->active = false;
        retired = spn__serial_retire(lane);
    }
    spn__unlock(&shard->lock);
    r->in_task = false;
    if (node == NULL) {
        if (r->self != NULL)
            (void)spn_executor_leave(&r->frame);
        spn__free(retired);
        r->lane = NULL;
        spn__serial_count_down(s,
                               ran +
                                   1); /* and the lane's own: s is not ours any more */
        return NULL;
    }
    if (ran != 0)
        spn__serial_count_down(s, ran);
    return spn__node_task(node);
}

/* A task of the lane has ended its thread: the lane goes on elsewhere. */
static void lane_ended(void *of, void *held)
{
    struct spn__serial_lane *lane = of;
    int rc;

    (void)held;
    spn__lock(&lane->shard->lock);
    lane->thread = NULL;
    lane->running = NULL;
    lane->interrupted = false;
    spn__unlock(&lane->shard->lock);
    spn__serial_count_down(lane->serial, 1); /* the task; the lane is counted */
    rc = spn_executor_execute(lane->serial->below, &lane->runner);
    if (rc != SPN_OK)
        give_up(lane, rc);
}

/* Queues up again, if there is something left to do.  True: the lane is another's. */
static bool yield_turn(struct running *r)
{
    struct spn__serial_lane *lane = r->lane;
    struct spn_serial *s = lane->serial;
    bool more;
    int rc;

    spn__lock(&lane->shard->lock);
    more = !spn__list_empty(&lane->tasks);
    lane->thread = NULL;
    lane->running = NULL;
    if (lane->interrupted) {
        lane->interrupted = false;
        (void)spn__interrupt_take(r->self);
    }
    spn__unlock(&lane->shard->lock);
    if (!more || r->self == NULL)
        return false;
    r->in_task = false;
    spn__serial_count_down(s, 1); /* the task; the lane is counted */
    r->bounced = false;
    rc = spn_executor_execute(s->below, &lane->runner);
    if (r->bounced ||
        (rc != SPN_OK && spn_executor_get_state(s->below) < SPN_EXECUTOR_STOP))
        return false; /* ours as before */
    r->lane = NULL;
    (void)spn_executor_leave(&r->frame);
    if (rc != SPN_OK)
        give_up(lane, SPN_ESHUTDOWN); /* it starts nothing any more */
    return true;
}

/* The runner of this lane that the thread is inside of, or NULL. */
static struct running *outer_of(const struct spn_thread *self,
                                const struct spn__serial_lane *lane)
{
    spn_executor_frame *frame = self != NULL ? self->executing : NULL;

    while (frame != NULL && frame->executor != &lane->executor)
        frame = frame->outer;
    return (struct running *)(void *)frame;
}

static void run_tasks(struct running *r)
{
    const uint32_t batch = r->lane->serial->batch;
    spn_task *task;
    int rc;

    for (uint32_t n = 0; (task = next_task(r)) != NULL;) {
        r->in_task = true;
        rc = spn__task_run_claimed(task);
        if (rc != 0)
            spn__log(SPN_LOG_WARN, "serial executor: a task failed with %d (%s)", rc,
                     spn_status_name(rc));
        if (++n >= batch) {
            if (yield_turn(r))
                return;
            n = 0;
        }
    }
}

int spn__serial_run_lane(spn_task *runner)
{
    struct running r = { .lane =
                             spn__list_entry(runner, struct spn__serial_lane, runner) };
    struct running *outer;

    outer = outer_of(spn__self_get(), r.lane);
    if (outer != NULL) {
        outer->bounced = true;
        return 0;
    }
    if (spn_executor_enter(&r.lane->executor, &r.frame) == SPN_OK)
        r.self = spn__self_get();
    spn__task_entered(r.self, lane_ended, r.lane, NULL);
    run_tasks(&r);
    spn__task_left(r.self);
    return 0;
}

/* The executor below will not run it after all. */
void spn__serial_drop_lane(spn_task *runner, int reason)
{
    struct spn__serial_lane *lane =
        spn__list_entry(runner, struct spn__serial_lane, runner);
    struct running *outer = outer_of(spn__self_get(), lane);

    if (outer != NULL)
        outer->bounced = true; /* the outer one goes on */
    else
        give_up(lane, reason);
}

/* ---- making ------------------------------------------------------------------------------ */

/* A stage has its lane open. */
static void attach(spn_executor *executor)
{
    spn__serial_keep_lane(spn__serial_lane_of(executor));
}

static void detach(spn_executor *executor)
{
    spn__serial_close_lane(spn__serial_lane_of(executor));
}

const spn_executor_ops spn__serial_ops[2] = {
    { .size = sizeof spn__serial_ops[SPN__SERIAL_WHOLE],
      .execute = lane_execute,
      .shutdown = spn__serial_shutdown,
      .shutdown_now = spn__serial_shutdown_now,
      .await = spn__serial_await,
      .state = spn__serial_state,
      .remove = lane_remove,
      .wait_begin = lane_wait_begin,
      .hold = spn__serial_hold,
      .release = spn__serial_release,
      .attach = attach,
      .detach = detach },
    { .size = sizeof spn__serial_ops[SPN__SERIAL_KEY],
      .execute = lane_execute,
      .state = spn__serial_state,
      .remove = lane_remove,
      .wait_begin = lane_wait_begin,
      .hold = spn__serial_hold,
      .release = spn__serial_release,
      .attach = attach,
      .detach = detach },
};

int spn_serial_create(spn_serial **out, spn_executor *executor,
                      const spn_serial_opts *opts)
{
    spn_serial_opts o = SPN_SERIAL_OPTS_INIT;
    struct spn_serial *s;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (executor == NULL || executor->ops == NULL)
        return SPN_EINVAL;
    if (opts != NULL && spn__options_copy(&o, sizeof o, opts) != SPN_OK)
        return SPN_EINVAL;
    if (o.reserved != 0)
        return SPN_EINVAL;
    s = spn__alloc_aligned(sizeof *s, SPN__CACHE_LINE);
    if (s == NULL)
        return SPN_ENOMEM;
    s->below = executor;
    s->batch = o.batch != 0 ? o.batch : SPN__SERIAL_BATCH;
    spn__lock_init(&s->lock);
    spn__waitq_init(&s->awaiting);
    s->terminated = false;
    spn__init(&s->ctl, 0);
    spn__serial_keys_init(s);
    *out = s;
    return SPN_OK;
}

int spn_serial_destroy(spn_serial *s)
{
    bool busy;

    if (s == NULL)
        return SPN_OK;
    spn__lock(&s->lock);
    busy = !spn__waitq_empty(&s->awaiting);
    spn__unlock(&s->lock);
    spn__lock(&s->common.shard->lock);
    busy = busy || s->common.opened != 0; /* stages wait; before the look at ctl */
    spn__unlock(&s->common.shard->lock);
    /* [ctl] acquire: all tasks are through.  Last, as a stage holds before it detaches. */
    if (busy || spn__serial_has_keys(s) ||
        spn__load(&s->ctl, acquire) >= SPN__SERIAL_ONE)
        return SPN_EBUSY;
    spn__serial_keys_fini(s);
    spn__free(s);
    return SPN_OK;
}

spn_executor *spn_serial_executor(spn_serial *s)
{
    return s != NULL ? &s->common.executor : NULL;
}

/* ---- by key -------------------------------------------------------------------------------- */

int spn_serial_open(spn_serial *s, uint64_t key, spn_executor **out)
{
    struct spn__serial_lane *lane;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (s == NULL)
        return SPN_EINVAL;
    lane = spn__serial_open_lane(s, key);
    if (lane == NULL)
        return SPN_ENOMEM;
    *out = &lane->executor;
    return SPN_OK;
}

int spn_serial_close(spn_serial *s, spn_executor *executor)
{
    struct spn__serial_lane *lane = spn__serial_lane_of(executor);
    bool opened;

    if (s == NULL || executor == NULL ||
        executor->ops != &spn__serial_ops[SPN__SERIAL_KEY] || lane->serial != s)
        return SPN_EINVAL;
    spn__lock(&lane->shard->lock);
    opened = lane->opened != 0;
    spn__unlock(&lane->shard->lock);
    if (!opened)
        return SPN_EINVAL;
    spn__serial_close_lane(lane);
    return SPN_OK;
}

int spn_serial_execute(spn_serial *s, uint64_t key, spn_task *task)
{
    struct spn__serial_lane *lane;
    int rc;

    if (s == NULL || task == NULL || task->fn == NULL)
        return SPN_EINVAL;
    lane = spn__serial_open_lane(s, key);
    if (lane == NULL)
        return SPN_ENOMEM;
    rc = lane_execute(&lane->executor, task);
    spn__serial_close_lane(lane);
    return rc;
}
