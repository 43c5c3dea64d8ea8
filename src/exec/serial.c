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
 * COUNTING
 *   `ctl` holds two flags and the number of tasks and active lanes, so that the last
 *   one out sees that it is, and the one that closes whether anybody is inside.
 *
 * ORDERING
 *   [ctl]  who counts down last acquires what the others released: the end comes after
 *          all tasks.
 *
 * LOCKS  a shard's lock guards its lanes and all that is in them; a leaf.  `lock` guards
 *   the end and who waits for it; a leaf.
 */
#include <spindle/serial.h>

#include "base/assert.h"
#include "base/list.h"
#include "base/log.h"
#include "base/options.h"
#include "base/time.h"
#include "exec/work.h"
#include "future/ambient.h"
#include "future/core.h"
#include "future/executor.h"
#include "sync/interrupt.h"
#include "sync/waitq.h"

enum {
    SHARDS = 16,       /* a power of 2; locks for keys */
    FIRST_BUCKETS = 4, /* of a shard, without memory of their own */
    BATCH = 64         /* some microseconds of short tasks */
};

#define CLOSED  UINT64_C(1) /* takes no more */
#define STOPPED UINT64_C(2) /* and starts no more */
#define ONE     UINT64_C(4)

struct lane {
    struct spn_executor executor; /* first: they are the same object */
    struct spn_serial *serial;    /* fixed */
    uint64_t key;                 /* fixed */
    struct shard *shard;          /* fixed */
    struct spn__list_node link;   /* in a bucket */
    struct spn__list tasks;       /* each by its `link` */
    uint32_t opened;              /* who keeps it though it is idle */
    bool active;
    bool interrupted;          /* `thread` was, by us */
    struct spn_thread *thread; /* that runs a task now, if it has a record */
    const spn_task *running;   /* and which: only to compare */
    spn_task runner;           /* the executor's below */
};

struct shard {
    _Alignas(SPN__CACHE_LINE) struct spn__lock lock;
    struct spn__list *buckets;
    size_t bucket_count; /* a power of 2 */
    size_t lanes;
    struct spn__list first[FIRST_BUCKETS];
};

struct spn_serial {
    spn_executor *below; /* fixed */
    uint32_t batch;      /* fixed */
    struct spn__lock lock;
    struct spn__waitq awaiting;
    bool terminated;
    _Alignas(SPN__CACHE_LINE) SPN__ATOMIC(uint64_t) ctl;
    struct lane common; /* of spn_serial_executor; in no bucket */
    struct shard shards[SHARDS];
};

static struct lane *lane_of(spn_executor *executor)
{
    return (struct lane *)(void *)executor;
}

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
static void count_down(struct spn_serial *s, uint64_t by)
{
    const uint64_t left =
        spn__fetch_sub(&s->ctl, by * ONE, acq_rel) - by * ONE; /* [ctl] */

    if ((left & CLOSED) != 0 && left < ONE)
        terminate(s);
}

/* Counts a task; false: closed. */
static bool count_up(struct spn_serial *s)
{
    /* relaxed: the lock orders the rest. */
    if ((spn__fetch_add(&s->ctl, ONE, relaxed) & CLOSED) == 0)
        return true;
    count_down(s, 1);
    return false;
}

/* ---- lanes ------------------------------------------------------------------------- */

static uint64_t hash_of(uint64_t key)
{
    key ^= key >> 33;
    key *= UINT64_C(0xff51afd7ed558ccd);
    key ^= key >> 33;
    key *= UINT64_C(0xc4ceb9fe1a85ec53);
    return key ^ key >> 33;
}

static struct shard *shard_of(struct spn_serial *s, uint64_t key)
{
    return &s->shards[hash_of(key) % SHARDS];
}

static struct spn__list *bucket_of(struct shard *shard, uint64_t key)
{
    return &shard->buckets[(hash_of(key) / SHARDS) & (shard->bucket_count - 1)];
}

static int run_lane(spn_task *runner);
static void drop_lane(spn_task *runner, int reason);

enum { WHOLE, KEY };
static const spn_executor_ops serial_ops[2];

static void init_lane(struct lane *lane, struct spn_serial *s, uint64_t key,
                      const spn_executor_ops *ops)
{
    lane->executor.ops = ops;
    lane->serial = s;
    lane->key = key;
    lane->shard = shard_of(s, key);
    spn__list_node_init(&lane->link);
    spn__list_init(&lane->tasks);
    lane->opened = 0;
    lane->active = lane->interrupted = false;
    lane->thread = NULL;
    lane->running = NULL;
    lane->runner = (spn_task)SPN_TASK_INIT(run_lane, drop_lane);
}

/* With the lock held. */
static struct lane *find(struct shard *shard, uint64_t key)
{
    struct spn__list *bucket = bucket_of(shard, key);
    struct spn__list_node *node;

    spn__list_each (node, bucket) {
        struct lane *lane = spn__list_entry(node, struct lane, link);

        if (lane->key == key)
            return lane;
    }
    return NULL;
}

/* Twice the buckets, if there is memory: else the lists just get longer. */
static void grow(struct shard *shard, size_t from)
{
    const size_t count = from * 2;
    struct spn__list *buckets = spn__alloc(count * sizeof *buckets), *old = NULL;
    struct spn__list_node *node;

    if (buckets == NULL)
        return;
    for (size_t i = 0; i < count; i++)
        spn__list_init(&buckets[i]);
    spn__lock(&shard->lock);
    if (shard->bucket_count == from) {
        old = shard->buckets;
        shard->buckets = buckets;
        shard->bucket_count = count;
        for (size_t i = 0; i < from; i++)
            while ((node = spn__list_pop_front(&old[i])) != NULL)
                spn__list_push_back(
                    bucket_of(shard, spn__list_entry(node, struct lane, link)->key),
                    node);
    } else {
        old = buckets; /* somebody was faster */
    }
    spn__unlock(&shard->lock);
    if (old != shard->first)
        spn__free(old);
}

/* The lane of a key, opened once more; NULL: no memory. */
static struct lane *open_lane(struct spn_serial *s, uint64_t key)
{
    struct shard *shard = shard_of(s, key);
    struct lane *lane, *made = NULL;
    size_t grow_from = 0;

    for (;;) {
        spn__lock(&shard->lock);
        lane = find(shard, key);
        if (lane == NULL && made != NULL) {
            lane = made;
            made = NULL;
            spn__list_push_back(bucket_of(shard, key), &lane->link);
            if (++shard->lanes > 2 * shard->bucket_count)
                grow_from = shard->bucket_count;
        }
        if (lane != NULL)
            lane->opened++;
        spn__unlock(&shard->lock);
        if (lane != NULL)
            break;
        made = spn__alloc(sizeof *made); /* not with a lock held */
        if (made == NULL)
            return NULL;
        init_lane(made, s, key, &serial_ops[KEY]);
    }
    spn__free(made);
    if (grow_from != 0)
        grow(shard, grow_from);
    return lane;
}

/* With the lock held: takes a lane that nobody needs out of the table, for the caller
 * to free.  NULL: it is needed. */
static struct lane *retire(struct lane *lane)
{
    if (lane->active || lane->opened != 0 || !spn__list_empty(&lane->tasks) ||
        lane == &lane->serial->common)
        return NULL;
    spn__list_remove(&lane->link);
    lane->shard->lanes--;
    return lane;
}

static void close_lane(struct lane *lane)
{
    struct shard *shard = lane->shard;
    struct lane *retired;

    spn__lock(&shard->lock);
    lane->opened--;
    retired = retire(lane);
    spn__unlock(&shard->lock);
    spn__free(retired);
}

/* ---- tasks --------------------------------------------------------------------------- */

static void discard(spn_task *task, int reason)
{
    spn__job_forget(task);
    spn_task_release(task);
    if (task->drop != NULL)
        task->drop(task, reason);
}

/* Goes idle and drops what waited.  The lane may be gone afterwards. */
static void give_up(struct lane *lane, int reason)
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
        discard(spn__node_task(node), reason);
    close_lane(lane);
    count_down(s, dropped + 1); /* and the lane's own */
}

/* With the lock held: takes a task off that waits in the lane; false: it does not. */
static bool unlink_task(struct lane *lane, const spn_task *task)
{
    struct spn__list_node *node;

    spn__list_each (node, &lane->tasks)
        if (spn__node_task(node) == task) {
            spn__list_remove(node);
            return true;
        }
    return false;
}

/* Hands the runner of a lane over that `task` has made active. */
static int start(struct lane *lane, spn_task *task)
{
    struct spn_serial *s = lane->serial;
    struct shard *shard = lane->shard;
    int rc = spn_executor_execute(s->below, &lane->runner), again;
    bool ours;

    if (rc == SPN_OK)
        return SPN_OK;
    spn__lock(&shard->lock);
    ours = unlink_task(lane, task);
    spn__unlock(&shard->lock);
    if (ours) {
        spn__job_forget(task);
        spn_task_release(task);
        count_down(s, 1); /* never the last: the lane is counted */
    }
    /* Those behind it have been accepted. */
    spn__lock(&shard->lock);
    if (spn__list_empty(&lane->tasks)) {
        lane->active = false; /* the caller has it open */
        spn__unlock(&shard->lock);
        count_down(s, 1);
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
    struct lane *lane = lane_of(executor);
    struct spn_serial *s = lane->serial;
    bool starts = false;
    int rc = SPN_EREJECTED;

    if (!count_up(s))
        return SPN_EREJECTED;
    spn__lock(&lane->shard->lock);
    /* relaxed: shutdown_now looks for tasks under the lock, after setting it. */
    if ((spn__load(&s->ctl, relaxed) & STOPPED) == 0)
        rc = spn_task_claim(task);
    if (rc == SPN_OK) {
        spn__job_capture(task);
        spn__list_push_back(&lane->tasks, spn__task_node(task));
        starts = !lane->active;
        if (starts) {
            lane->active = true;
            (void)spn__fetch_add(&s->ctl, ONE, relaxed); /* [ctl] the lane's own */
        }
    }
    spn__unlock(&lane->shard->lock);
    if (rc != SPN_OK)
        count_down(s, 1);
    return rc == SPN_OK && starts ? start(lane, task) : rc;
}

static int lane_remove(spn_executor *executor, spn_task *task)
{
    struct lane *lane = lane_of(executor);
    struct spn_serial *s = lane->serial;
    bool found;

    spn__lock(&lane->shard->lock);
    found = unlink_task(lane, task);
    spn__unlock(&lane->shard->lock);
    if (found) {
        spn__job_forget(task);
        spn_task_release(task);
        count_down(s, 1);
    }
    return found;
}

/* A future of this lane is waited for inside it. */
static int lane_wait_begin(spn_executor *executor, spn_task *task)
{
    struct lane *lane = lane_of(executor);
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
    struct lane *lane;
    struct spn_thread *self; /* NULL: no record, no frame */
    bool in_task;
    bool bounced; /* it was run within execute */
};

/* The task that ran is through: forgets it and takes the next.  Without one the lane is
 * idle and may be gone. */
static spn_task *next_task(struct running *r)
{
    struct lane *lane = r->lane;
    struct spn_serial *s = lane->serial;
    struct shard *shard = lane->shard;
    const uint64_t ran = r->in_task;
    struct lane *retired = NULL;
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
        retired = retire(lane);
    }
    spn__unlock(&shard->lock);
    r->in_task = false;
    if (node == NULL) {
        if (r->self != NULL)
            (void)spn_executor_leave(&r->frame);
        spn__free(retired);
        r->lane = NULL;
        count_down(s, ran + 1); /* and the lane's own: s is not ours any more */
        return NULL;
    }
    if (ran != 0)
        count_down(s, ran);
    spn_task_release(spn__node_task(node));
    return spn__node_task(node);
}

/* A task has ended the thread: the lane goes on elsewhere. */
static void after_death(void *p)
{
    struct running *r = p;
    struct lane *lane = r->lane;
    int rc;

    if (lane == NULL || !r->in_task)
        return;
    spn__lock(&lane->shard->lock);
    lane->thread = NULL;
    lane->running = NULL;
    lane->interrupted = false;
    spn__unlock(&lane->shard->lock);
    if (r->self != NULL)
        (void)spn_executor_leave(&r->frame);
    count_down(lane->serial, 1); /* the lane is counted */
    rc = spn_executor_execute(lane->serial->below, &lane->runner);
    if (rc != SPN_OK)
        give_up(lane, rc);
}

/* Queues up again, if there is something left to do.  True: the lane is another's. */
static bool yield_turn(struct running *r)
{
    struct lane *lane = r->lane;
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
    count_down(s, 1); /* the task; the lane is counted */
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
static struct running *outer_of(const struct spn_thread *self, const struct lane *lane)
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
        rc = spn__task_run_here(task);
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

static int run_lane(spn_task *runner)
{
    struct running r = { .lane = spn__list_entry(runner, struct lane, runner) };
    struct running *outer;

    outer = outer_of(spn__self_get(), r.lane);
    if (outer != NULL) {
        outer->bounced = true;
        return 0;
    }
    if (spn_executor_enter(&r.lane->executor, &r.frame) == SPN_OK)
        r.self = spn__self_get();
    SPN__CLEANUP_PUSH(after_death, &r);
    run_tasks(&r);
    SPN__CLEANUP_POP();
    return 0;
}

/* The executor below will not run it after all. */
static void drop_lane(spn_task *runner, int reason)
{
    struct lane *lane = spn__list_entry(runner, struct lane, runner);
    struct running *outer = outer_of(spn__self_get(), lane);

    if (outer != NULL)
        outer->bounced = true; /* the outer one goes on */
    else
        give_up(lane, reason);
}

/* ---- the end ---------------------------------------------------------------------------- */

static int serial_shutdown(spn_executor *executor)
{
    struct spn_serial *s = lane_of(executor)->serial;

    /* [ctl] */
    if (spn__fetch_or(&s->ctl, CLOSED, acq_rel) < ONE)
        terminate(s);
    return SPN_OK;
}

/* Takes all tasks of a lane, and interrupts the one that runs.  With the lock held. */
static void stop_lane(struct lane *lane, struct spn__list *out)
{
    spn__list_splice(out, &lane->tasks);
    if (lane->thread != NULL) {
        lane->interrupted = true;
        spn__interrupt_set(lane->thread);
    }
}

static int serial_shutdown_now(spn_executor *executor, spn_unrun_fn unrun, void *ctx,
                               int64_t *count)
{
    struct spn_serial *s = lane_of(executor)->serial;
    struct spn__list_node *node;
    struct spn__list tasks;
    uint64_t returned = 0;

    spn__list_init(&tasks);
    (void)spn__fetch_add(&s->ctl, ONE, relaxed); /* it does not end before we do */
    (void)spn__fetch_or(&s->ctl, CLOSED | STOPPED, acq_rel); /* [ctl] */
    for (int i = 0; i < SHARDS; i++) {
        struct shard *shard = &s->shards[i];

        spn__lock(&shard->lock);
        if (s->common.shard == shard)
            stop_lane(&s->common, &tasks);
        for (size_t b = 0; b < shard->bucket_count; b++)
            spn__list_each (node, &shard->buckets[b])
                stop_lane(spn__list_entry(node, struct lane, link), &tasks);
        spn__unlock(&shard->lock);
    }
    for (; (node = spn__list_pop_front(&tasks)) != NULL; returned++) {
        spn_task *task = spn__node_task(node);

        if (unrun == NULL) {
            discard(task, SPN_ESHUTDOWN);
        } else {
            spn__job_forget(task);
            spn_task_release(task);
            unrun(ctx, task);
        }
    }
    if (count != NULL)
        *count = (int64_t)returned;
    count_down(s, returned + 1);
    return SPN_OK;
}

static bool is_inside(const struct spn_thread *self, const struct spn_serial *s)
{
    const spn_executor_frame *frame = self->executing;

    for (; frame != NULL; frame = frame->outer)
        if ((frame->executor->ops == &serial_ops[WHOLE] ||
             frame->executor->ops == &serial_ops[KEY]) &&
            lane_of(frame->executor)->serial == s)
            return true;
    return false;
}

static int serial_await(spn_executor *executor, int64_t timeout_ns)
{
    struct spn_serial *s = lane_of(executor)->serial;
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

static int serial_state(spn_executor *executor)
{
    struct spn_serial *s = lane_of(executor)->serial;
    uint64_t ctl;
    bool terminated;

    spn__lock(&s->lock);
    terminated = s->terminated;
    spn__unlock(&s->lock);
    if (terminated)
        return SPN_EXECUTOR_TERMINATED;
    ctl = spn__load(&s->ctl, relaxed); /* only told */
    if ((ctl & STOPPED) != 0)
        return SPN_EXECUTOR_STOP;
    return (ctl & CLOSED) != 0 ? SPN_EXECUTOR_SHUTDOWN : SPN_EXECUTOR_RUNNING;
}

/* ---- making ------------------------------------------------------------------------------ */

static const spn_executor_ops serial_ops[2] = {
    { .size = sizeof serial_ops[WHOLE],
      .execute = lane_execute,
      .shutdown = serial_shutdown,
      .shutdown_now = serial_shutdown_now,
      .await = serial_await,
      .state = serial_state,
      .remove = lane_remove,
      .wait_begin = lane_wait_begin },
    { .size = sizeof serial_ops[KEY],
      .execute = lane_execute,
      .state = serial_state,
      .remove = lane_remove,
      .wait_begin = lane_wait_begin },
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
    s->batch = o.batch != 0 ? o.batch : BATCH;
    spn__lock_init(&s->lock);
    spn__waitq_init(&s->awaiting);
    s->terminated = false;
    spn__init(&s->ctl, 0);
    for (int i = 0; i < SHARDS; i++) {
        struct shard *shard = &s->shards[i];

        spn__lock_init(&shard->lock);
        shard->buckets = shard->first;
        shard->bucket_count = FIRST_BUCKETS;
        shard->lanes = 0;
        for (int b = 0; b < FIRST_BUCKETS; b++)
            spn__list_init(&shard->first[b]);
    }
    init_lane(&s->common, s, 0, &serial_ops[WHOLE]);
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
    /* [ctl] acquire: all tasks are through. */
    if (busy || spn__load(&s->ctl, acquire) >= ONE || spn_serial_keys(s) != 0)
        return SPN_EBUSY;
    for (int i = 0; i < SHARDS; i++)
        if (s->shards[i].buckets != s->shards[i].first)
            spn__free(s->shards[i].buckets);
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
    struct lane *lane;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (s == NULL)
        return SPN_EINVAL;
    lane = open_lane(s, key);
    if (lane == NULL)
        return SPN_ENOMEM;
    *out = &lane->executor;
    return SPN_OK;
}

int spn_serial_close(spn_serial *s, spn_executor *executor)
{
    struct lane *lane = lane_of(executor);
    bool opened;

    if (s == NULL || executor == NULL || executor->ops != &serial_ops[KEY] ||
        lane->serial != s)
        return SPN_EINVAL;
    spn__lock(&lane->shard->lock);
    opened = lane->opened != 0;
    spn__unlock(&lane->shard->lock);
    if (!opened)
        return SPN_EINVAL;
    close_lane(lane);
    return SPN_OK;
}

int spn_serial_execute(spn_serial *s, uint64_t key, spn_task *task)
{
    struct lane *lane;
    int rc;

    if (s == NULL || task == NULL || task->fn == NULL)
        return SPN_EINVAL;
    lane = open_lane(s, key);
    if (lane == NULL)
        return SPN_ENOMEM;
    rc = lane_execute(&lane->executor, task);
    close_lane(lane);
    return rc;
}

int spn_serial_call(spn_serial *s, uint64_t key, spn_run_fn fn, void *arg)
{
    struct lane *lane;
    int rc;

    if (s == NULL || fn == NULL)
        return SPN_EINVAL;
    lane = open_lane(s, key);
    if (lane == NULL)
        return SPN_ENOMEM;
    rc = spn_executor_call(&lane->executor, fn, arg);
    close_lane(lane);
    return rc;
}

int spn_serial_submit(spn_serial *s, uint64_t key, spn_call_fn fn, void *arg,
                      spn_future **out)
{
    struct lane *lane;
    int rc;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (s == NULL || fn == NULL)
        return SPN_EINVAL;
    lane = open_lane(s, key);
    if (lane == NULL)
        return SPN_ENOMEM;
    rc = spn_executor_submit(&lane->executor, fn, arg, out);
    close_lane(lane);
    return rc;
}

int64_t spn_serial_pending(spn_serial *s)
{
    int64_t pending;

    if (s == NULL)
        return SPN_EINVAL;
    /* relaxed: a picture.  Lanes are counted too, and taken off again. */
    pending = (int64_t)(spn__load(&s->ctl, relaxed) / ONE);
    for (int i = 0; i < SHARDS; i++) {
        struct shard *shard = &s->shards[i];
        struct spn__list_node *node;

        spn__lock(&shard->lock);
        if (s->common.shard == shard)
            pending -= s->common.active;
        for (size_t b = 0; b < shard->bucket_count; b++)
            spn__list_each (node, &shard->buckets[b])
                pending -= spn__list_entry(node, struct lane, link)->active;
        spn__unlock(&shard->lock);
    }
    return pending > 0 ? pending : 0;
}

int64_t spn_serial_keys(spn_serial *s)
{
    int64_t keys = 0;

    if (s == NULL)
        return SPN_EINVAL;
    for (int i = 0; i < SHARDS; i++) {
        spn__lock(&s->shards[i].lock);
        keys += (int64_t)s->shards[i].lanes;
        spn__unlock(&s->shards[i].lock);
    }
    return keys;
}
