/* SPDX-License-Identifier: MIT */
/*
 * bad_input.h - what the generated test of bad input stands on: one object of
 * each kind, and a picture of everything a refused call could have changed.
 *
 * Each case takes the picture, makes its call, undoes what a legal value did,
 * and takes it again: counts, permits, times, flags, the log level, blocks of
 * memory and threads of the process must be the same.
 */
#ifndef BAD_INPUT_H
#define BAD_INPUT_H

#include <signal.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <spindle/audit.h>
#include <spindle/cancel.h>
#include <spindle/clock.h>
#include <spindle/completion.h>
#include <spindle/cpu.h>
#include <spindle/invoke.h>
#include <spindle/latch.h>
#include <spindle/context.h>
#include <spindle/forkjoin.h>
#include <spindle/future.h>
#include <spindle/group.h>
#include <spindle/limiter.h>
#include <spindle/log.h>
#include <spindle/metrics.h>
#include <spindle/object_pool.h>
#include <spindle/parallel.h>
#include <spindle/park.h>
#include <spindle/poll_set.h>
#include <spindle/pool.h>
#include <spindle/queue.h>
#include <spindle/report.h>
#include <spindle/scheduled.h>
#include <spindle/semaphore.h>
#include <spindle/serial.h>
#include <spindle/serial_timer.h>
#include <spindle/threadless.h>
#include <spindle/task_local.h>
#include <spindle/thread.h>
#include <spindle/timer.h>
#include <spindle/version.h>
#include <spindle/watch.h>
#include <spindle/wheel.h>

#include "base/log.h"
#include "counting.h"
#include "peer.h"
#include "pool_calls.h"
#include "test.h"

#include "bad_channel.h"
#include "bad_config.h"

struct fixture {
    spn_latch *latch;         /* count 2 */
    spn_latch *open;          /* count 0 */
    spn_semaphore *semaphore; /* 3 permits */
    spn_clock *clock;         /* manual, shows 100 */
    spn_thread *target;       /* a live library thread, parked */
    spn_thread *ended;        /* one that has returned 7 */
    spn_thread *self;
    spn_queue *deque;             /* room for 4: first, second */
    spn_queue *empty;             /* a transfer queue */
    spn_queue *ring;              /* empty */
    int first, second;            /* items */
    void *both[2];                /* first, second */
    void *news[2];                /* an item that is in no queue, NULL */
    atomic_int gate;              /* 1: the target ends */
    spn_future *future;           /* a promise, pending */
    spn_future *done;             /* one with the value NULL */
    spn_future *failed;           /* one with a cause */
    spn_future *task;             /* one with a function, not run */
    spn_future *pair[2];          /* the pending one, twice */
    spn_future *holed[3];         /* the same around a NULL */
    spn_manual_executor *manual;  /* without tasks */
    spn_manual_executor *refuses; /* closed */
    spn_executor *closed;         /* and as an executor */
    spn_executor bare;            /* without operations */
    spn_task node, hollow;        /* one to run, one without a function */
    spn_poll_set *set;
    spn_pool *pool;             /* core 1, max 2, room for 4, no thread yet */
    spn_pool *ended_pool;       /* one that has terminated */
    spn_refusal refusal;        /* as a policy of the pool gets it */
    spn_pool *single;           /* one that cannot be changed */
    spn_reject_report *report;  /* of no pool */
    spn_completion *completion; /* over the direct executor, nothing submitted */
    spn_threadless
        *threadless;         /* handing over to the direct executor, not waiting yet */
    spn_threadless *drained; /* one whose wait is over */
    spn_serial *serial;      /* over the direct executor */
    spn_executor *lane;      /* key 9 of it */
    spn_call calls[2];       /* good ones */
    spn_call holed_calls[2]; /* one without a function */
    spn_executor *idle, *over;            /* the first two as executors */
    spn_cancel_token *token;              /* not cancelled */
    spn_cancel_token *stopped;            /* cancelled with -5 */
    spn_cancel_callback callback, mute;   /* one to register, one without a function */
    spn_cancel_callback registered;       /* with token */
    spn_context *context;                 /* empty */
    spn_group *group, *stopped_group;     /* without tasks; a cancelled one */
    spn_limiter *limiter;                 /* one in flight, over manual */
    spn_task_local local;                 /* a key */
    spn_wheel *wheel;                     /* with one node, for later */
    spn_wheel_node wheel_node, free_node; /* that one, and one in no wheel */
    spn_timer *timer;                     /* driven by hand; one timeout, for later */
    spn_timer *stopped_timer;
    spn_timeout_handle *spent;      /* one that was cancelled */
    spn_timeout timeout, unused;    /* that one, and one never scheduled */
    spn_url *url;                   /* dubbo://u:w@h:1/p?a=x&n=5 */
    spn_object_pool *objects;       /* room for 2: one is out, nothing idle */
    spn_object_pool *ended_objects; /* one that was shut down */
    void *lent;                     /* the one that is out */
    spn_scheduled *scheduled;       /* paused, without threads; one task, for later */
    spn_scheduled *ended_scheduled, *fixed_scheduled;
    spn_future *waiting;                   /* that one's */
    spn_serial_timer *ended_serial;        /* cancelled, and at its end */
    spn_serial_task *fresh, *spent_serial; /* one never scheduled, a cancelled one */
    struct config_fixture config;
    spn_counter *counter;
    spn_histogram *histogram;
    spn_task_times *times, *installed; /* one that is not installed, and one that is */
    spn_metrics *metrics;              /* has nothing */
    spn_watch *watch;
    spn_trace *trace;                             /* nobody writes to it */
    spn_fj_pool *fj, *ended_fj;                   /* without threads; terminated */
    spn_fj_task object, finished, *fj_objects[2]; /* new; done with NULL; a hole */
    int numbers[3];                               /* in order */
    struct peer waiter;
};

/* Where calls put what they make. */
struct results {
    spn_latch *latch;
    spn_semaphore *semaphore;
    spn_clock *clock;
    spn_thread *thread;
    spn_queue *queue;
    int cell; /* an item that is in no queue */
    void *taken, *items[4];
    size_t count;
    const void *blocker;
    spn_cpu_limits limits;
    sigset_t mask;
    spn_future *future;
    spn_manual_executor *manual;
    spn_poll_set *set;
    spn_pool *pool;
    spn_completion *completion;
    spn_threadless *threadless;
    spn_serial *serial;
    spn_executor *executor;
    spn_executor_frame frame, other_frame;
    spn_future *futures[2];
    spn_pool_stats stats;
    spn_reject_report *report;
    spn_task *tasks[2];
    spn_cancel_token *token;
    spn_context *context;
    spn_context_scope scope;
    spn_group *group;
    spn_group_stats group_stats;
    spn_limiter *limiter;
    spn_limiter_stats limiter_stats;
    spn_fj_pool *fj;
    spn_fj_stats fj_stats;
    spn_wheel *wheel;
    spn_timer *timer;
    spn_timeout *left;
    spn_timeout_handle *handle;
    spn_timeout_handle_list handles;
    spn_timer_stats timer_stats;
    spn_url *url;
    spn_url_parameter parameter;
    spn_extensions *extensions;
    spn_url_pool *url_pool;
    spn_repository *repository;
    const void *instance;
    spn_problem problem;
    int32_t number;
    spn_object_pool *objects;
    spn_object_pool_stats object_stats;
    spn_scheduled *scheduled;
    spn_serial_timer *serial_timer;
    spn_serial_task *serial_task;
    spn_counter *counter;
    spn_histogram *histogram;
    spn_histogram_snapshot snapshot;
    spn_task_times *times;
    spn_metrics *metrics;
    spn_watch *watch;
    spn_trace *trace;
    spn_pool_opts pool_opts;
    spn_outcome outcome;
    void *value;
    int64_t now;
    int result;
    char name[32];
};

static struct fixture fixture;
static struct results o;
static int bad_input_cases;
static const char *bad_input_label;

/* Everything a refused call might have changed. */
struct state {
    int64_t latch, open, permits, now, level;
    int64_t self_flag, target_flag, live, tasks;
    int64_t deque, empty, ring, waiting;
    const void *first, *last; /* of the deque */
    int64_t future, dependents, task, queued;
    spn_pool_stats pool; /* knobs and counters */
    int64_t cancelled, group_live, limiter_has;
    const void *context;
    int64_t in_wheel, timeouts, timer_stopped;
    int64_t objects_out, objects_idle;
    int64_t scheduled;
};

static inline int return_seven(void *arg)
{
    (void)arg;
    return 7;
}

static inline int await_gate(void *arg)
{
    struct fixture *f = arg;

    while (atomic_load(&f->gate) == 0)
        spn_park(f);
    return 0;
}

/* What stages and futures call when nothing is wrong. */
static inline int good_call(void *arg, void **result)
{
    *result = arg;
    return 0;
}

static inline int good_then(void *arg, void *value, void **result)
{
    (void)value;
    return good_call(arg, result);
}

static inline int good_handle(void *arg, const spn_outcome *outcome, void **result)
{
    (void)outcome;
    return good_call(arg, result);
}

static inline int good_compose(void *arg, void *value, spn_future **next)
{
    (void)arg;
    (void)value;
    *next = spn_future_ref(fixture.done);
    return 0;
}

static inline int good_combine(void *arg, void *first, void *second, void **result)
{
    (void)first;
    (void)second;
    return good_call(arg, result);
}

static inline void good_release(void *arg)
{
    (void)arg;
}

static inline int good_task(spn_task *task)
{
    (void)task;
    return 0;
}

static inline int good_timeout(spn_timeout *timeout)
{
    (void)timeout;
    return 0;
}

static inline void ignore_handle(spn_timeout_handle *handle, void *arg)
{
    (void)handle;
    (void)arg;
}

static inline void ignore_reason(void *arg, int reason)
{
    (void)arg;
    (void)reason;
}

static const spn_period good_period = { sizeof(spn_period), 1000, 0, 0, 0, 0 };

static inline void ignore_node(spn_wheel_node *node, void *ctx)
{
    (void)node;
    (void)ctx;
}

static inline int good_range(void *arg, size_t begin, size_t end)
{
    (void)arg;
    (void)begin;
    (void)end;
    return 0;
}

static inline int good_fold(void *arg, size_t begin, size_t end, void *value)
{
    (void)value;
    return good_range(arg, begin, end);
}

static inline int good_join(void *arg, void *left, void *right)
{
    (void)arg;
    (void)left;
    (void)right;
    return 0;
}

static inline int good_compare(void *arg, const void *a, const void *b)
{
    const int x = *(const int *)a, y = *(const int *)b;

    (void)arg;
    return (x > y) - (x < y);
}

static const spn_parallel_opts one_grain = { sizeof(spn_parallel_opts), 1, NULL, NULL };

/* Ends and drops what a call that makes a future made. */
static inline void drop_stage(void)
{
    (void)spn_future_cancel(o.future, 0);
    spn_future_unref(o.future);
}

/* The one that a row has put into the poll set. */
static inline void take_from_set(void)
{
    spn_future *f;

    CHECK_OK(spn_poll_set_next(fixture.set, &f, NULL));
    spn_future_unref(f);
}

/* Those are the results of invoke_all. */
static inline void drop_futures(void)
{
    for (int i = 0; i < 2; i++)
        spn_future_unref(o.futures[i]);
}

/* Takes what was submitted to the completion service. */
static inline void take_completed(void)
{
    spn_future *taken;

    CHECK_OK(spn_completion_take(fixture.completion, &taken, 0));
    spn_future_unref(taken);
}

/* A task waits in the manual executor. */
static inline void start_task(void)
{
    REQUIRE_OK(spn_executor_execute(spn_manual_executor_executor(fixture.manual),
                                    &fixture.node));
}

static inline int good_run(void *arg)
{
    (void)arg;
    return 0;
}

static inline void open_parallel(void)
{
    for (int i = 0; i < 3; i++)
        fixture.numbers[i] = i;
}

static inline void open_services(void)
{
    open_parallel();
    REQUIRE_OK(spn_completion_create(&fixture.completion, spn_executor_direct()));
    REQUIRE_OK(spn_threadless_create(&fixture.threadless, spn_executor_direct()));
    REQUIRE_OK(spn_threadless_create(&fixture.drained, NULL));
    CHECK_STATUS(spn_threadless_wait_and_drain(fixture.drained, 0), SPN_ETIMEDOUT);
    REQUIRE_OK(spn_serial_create(&fixture.serial, spn_executor_direct(), NULL));
    REQUIRE_OK(spn_serial_open(fixture.serial, 9, &fixture.lane));
    for (int i = 0; i < 2; i++)
        fixture.calls[i] = (spn_call){ good_call, NULL };
    fixture.holed_calls[0] = fixture.calls[0];
}

static inline void close_services(void)
{
    CHECK_OK(spn_completion_destroy(fixture.completion));
    CHECK_OK(spn_threadless_destroy(fixture.threadless));
    CHECK_OK(spn_threadless_destroy(fixture.drained));
    CHECK_OK(spn_serial_close(fixture.serial, fixture.lane));
    CHECK_OK(spn_serial_destroy(fixture.serial));
}

static inline int good_body(spn_fj fj, void *arg)
{
    (void)fj;
    (void)arg;
    return 0;
}

static inline int good_object(spn_fj fj, spn_fj_task *task)
{
    (void)fj;
    (void)task;
    return 0;
}

static inline void end_fj(spn_fj_pool *pool)
{
    CHECK_OK(spn_fj_pool_close(pool));
    CHECK_OK(spn_fj_pool_destroy(pool));
}

static inline void make_objects(void)
{
    spn_fj_task_init(&fixture.object, good_object);
    spn_fj_task_init(&fixture.finished, NULL);
    CHECK_EQ(spn_fj_task_complete(&fixture.finished, NULL), 1);
    fixture.fj_objects[0] = &fixture.object;
}

static inline void open_forkjoin(void)
{
    spn_fj_pool_opts opts = SPN_FJ_POOL_OPTS_INIT;

    opts.parallelism = 2;
    REQUIRE_OK(spn_fj_pool_create(&fixture.fj, &opts));
    REQUIRE_OK(spn_fj_pool_create(&fixture.ended_fj, NULL));
    CHECK_OK(spn_fj_pool_close(fixture.ended_fj));
    make_objects();
}

static inline void close_forkjoin(void)
{
    end_fj(fixture.fj);
    CHECK_OK(spn_fj_pool_destroy(fixture.ended_fj));
}

static inline void keep_unrun(void *ctx, spn_task *task, spn_run_fn fn, void *arg)
{
    (void)fn;
    (void)arg;
    (void)ctx;
    CHECK(task == NULL); /* nothing was queued: nobody calls this */
}

static inline void not_called(spn_cancel_callback *callback, int reason)
{
    (void)callback;
    CHECK_EQ(reason, -5);
}

/* A group in fixture.group. */
static inline void make_inner(void)
{
    spn_group_opts opts = SPN_GROUP_OPTS_INIT;

    opts.parent = fixture.group;
    REQUIRE_OK(spn_group_create(&o.group, &opts));
}

static inline const spn_group_opts *two_masters(void)
{
    static spn_group_opts opts = SPN_GROUP_OPTS_INIT;

    opts.parent = fixture.group;
    opts.token = fixture.token;
    return &opts;
}

/* A task of fixture.group waits in the manual executor. */
static inline void start_member(void)
{
    REQUIRE_OK(spn_group_submit(fixture.group,
                                spn_manual_executor_executor(fixture.manual), good_call,
                                NULL, NULL));
}

static inline void end_member(void)
{
    CHECK(spn_manual_executor_run(fixture.manual, INT64_MAX) >= 0);
}

static inline const spn_limiter_opts *good_limits(void)
{
    static spn_limiter_opts opts = SPN_LIMITER_OPTS_INIT;

    opts.executor = spn_manual_executor_executor(fixture.manual);
    opts.max_in_flight = 1;
    return &opts;
}

static inline void start_limited(void)
{
    REQUIRE_OK(
        spn_executor_execute(spn_limiter_executor(fixture.limiter), &fixture.node));
}

/* A timer that has no memory for handles yet. */
static inline void open_driven(spn_timer **out)
{
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;

    opts.drive = SPN_TIMER_DRIVEN;
    REQUIRE_OK(spn_timer_create(out, &opts));
    REQUIRE_OK(spn_timer_start(*out));
}

static inline void close_driven(spn_timer *timer)
{
    REQUIRE_OK(spn_timer_stop(timer, NULL, NULL));
    CHECK_OK(spn_timer_destroy(timer));
}

static inline int64_t limiter_now(void)
{
    spn_limiter_stats stats = SPN_LIMITER_STATS_INIT;

    CHECK_OK(spn_limiter_stats_get(fixture.limiter, &stats));
    return stats.in_flight + stats.waiting + (int64_t)stats.overloaded;
}

static inline int make_object(void *ctx, void **object)
{
    static int objects[64];
    static int next;

    (void)ctx;
    *object = &objects[next++ % 64];
    return 0;
}

static inline int make_no_object(void *ctx, void **object)
{
    (void)ctx;
    (void)object;
    return -9;
}

static inline const spn_object_pool_opts *good_objects(void)
{
    static spn_object_pool_opts opts = SPN_OBJECT_POOL_OPTS_INIT;

    opts.max = 2;
    opts.factory.make = make_object;
    return &opts;
}

static inline void end_objects(void)
{
    CHECK_OK(spn_object_pool_shutdown(o.objects));
    CHECK_OK(spn_object_pool_destroy(o.objects));
}

static inline void return_taken(void)
{
    CHECK_OK(spn_object_pool_invalidate(fixture.objects, o.taken));
}

static inline void ignore_lease(void *ctx, const spn_object_lease *lease)
{
    (void)ctx;
    (void)lease;
}

static inline void open_objects(void)
{
    REQUIRE_OK(spn_object_pool_create(&fixture.objects, good_objects()));
    REQUIRE_OK(spn_object_pool_borrow(fixture.objects, &fixture.lent, 0));
    REQUIRE_OK(spn_object_pool_create(&fixture.ended_objects, good_objects()));
    CHECK_OK(spn_object_pool_shutdown(fixture.ended_objects));
}

static inline void close_objects(void)
{
    CHECK_OK(spn_object_pool_return(fixture.objects, fixture.lent));
    CHECK_OK(spn_object_pool_shutdown(fixture.objects));
    CHECK_OK(spn_object_pool_destroy(fixture.objects));
    CHECK_OK(spn_object_pool_destroy(fixture.ended_objects));
}

static inline int ignore_text(void *ctx, const char *text, size_t length)
{
    (void)ctx;
    (void)text;
    (void)length;
    return 0;
}

static inline void ignore_running(void *ctx, const spn_running *running)
{
    (void)ctx;
    (void)running;
}

static inline const spn_metrics_source *good_source(void)
{
    static spn_metrics_source source = SPN_METRICS_SOURCE_INIT;

    source.counter = fixture.counter;
    source.name = "x";
    return &source;
}

static inline const spn_watch_opts *good_watch(void)
{
    static spn_watch_opts opts = SPN_WATCH_OPTS_INIT;

    opts.metrics = fixture.metrics;
    opts.interval_ns = 1;
    return &opts;
}

static inline void open_metrics(void)
{
    char path[64];
    spn_pool_opts opts = SPN_POOL_OPTS_INIT;

    REQUIRE_OK(spn_counter_create(&fixture.counter));
    REQUIRE_OK(spn_histogram_create(&fixture.histogram));
    REQUIRE_OK(spn_task_times_create(&fixture.times, NULL));
    REQUIRE_OK(spn_task_times_create(&fixture.installed, NULL));
    REQUIRE_OK(spn_task_times_install(fixture.installed, &opts.hooks));
    REQUIRE_OK(spn_metrics_create(&fixture.metrics));
    REQUIRE_OK(spn_watch_create(&fixture.watch, good_watch()));
    snprintf(path, sizeof path, "/tmp/spindle-trace-%d", (int)getpid());
    (void)remove(path);
    REQUIRE_OK(spn_trace_create(&fixture.trace, path));
    CHECK_EQ(remove(path), 0);
    spn_counter_add(fixture.counter, 1); /* the thread has its parts */
    spn_histogram_record(fixture.histogram, 1);
}

static inline void close_metrics(void)
{
    CHECK_OK(spn_watch_destroy(fixture.watch));
    CHECK_OK(spn_trace_close(fixture.trace));
    spn_metrics_destroy(fixture.metrics);
    spn_task_times_destroy(fixture.times);
    spn_task_times_destroy(fixture.installed);
    spn_counter_destroy(fixture.counter);
    spn_histogram_destroy(fixture.histogram);
}

static inline spn_object_pool_stats objects_now(void)
{
    spn_object_pool_stats stats = SPN_OBJECT_POOL_STATS_INIT;

    CHECK_OK(spn_object_pool_stats_get(fixture.objects, &stats));
    return stats;
}

static inline spn_pool_stats pool_now(void)
{
    spn_pool_stats stats = SPN_POOL_STATS_INIT;

    CHECK_OK(spn_pool_stats_get(fixture.pool, &stats));
    stats.threads_failed = 0; /* what was tried in vain is counted */
    stats.rejected = stats.rejected_no_memory = 0;
    return stats;
}

static inline spn_group_stats group_now(void)
{
    spn_group_stats stats = SPN_GROUP_STATS_INIT;

    CHECK_OK(spn_group_stats_get(fixture.group, &stats));
    return stats;
}

/* The deque's ends, looked at and taken out. */
static inline void *first_in_deque(void)
{
    void *item;
    return spn_queue_peek(fixture.deque, &item) == SPN_OK ? item : NULL;
}

static inline void *last_in_deque(void)
{
    void *item;
    return spn_queue_peek_last(fixture.deque, &item) == SPN_OK ? item : NULL;
}

static inline void *out_first(void)
{
    void *item;
    return spn_queue_take(fixture.deque, &item, 0) == SPN_OK ? item : NULL;
}

static inline void *out_last(void)
{
    void *item;
    return spn_queue_take_last(fixture.deque, &item, 0) == SPN_OK ? item : NULL;
}

/* Visitors of a walk: all out; the first that is shown. */
static inline int take_item(void *item, void *ctx)
{
    (void)item;
    (void)ctx;
    return SPN_QUEUE_TAKE;
}

static inline int show_item(void *item, void *ctx)
{
    if (ctx != NULL)
        *(void **)ctx = item;
    return SPN_QUEUE_STOP;
}

static inline struct state state_now(void)
{
    return (struct state){
        .latch = spn_latch_count(fixture.latch),
        .open = spn_latch_count(fixture.open),
        .permits = spn_semaphore_available(fixture.semaphore),
        .now = spn_clock_now(fixture.clock),
        .level = spn__log_enabled(SPN_LOG_WARN) + 2 * spn__log_enabled(SPN_LOG_INFO),
        .self_flag = spn_thread_is_interrupted(fixture.self),
        .target_flag = spn_thread_is_interrupted(fixture.target),
        .live = atomic_load(&counting_live),
        .tasks = t_threads(),
        .deque = spn_queue_size(fixture.deque),
        .empty = spn_queue_size(fixture.empty),
        .ring = spn_queue_size(fixture.ring),
        .waiting = spn_queue_waiting_consumers(fixture.empty),
        .first = first_in_deque(),
        .last = last_in_deque(),
        .future = spn_future_get_state(fixture.future),
        .dependents = spn_future_dependents(fixture.future),
        .task = spn_future_get_state(fixture.task),
        .queued =
            (int64_t)spn_manual_executor_pending(fixture.manual) + fixture.node.queued,
        .pool = pool_now(),
        .cancelled = spn_cancel_token_reason(fixture.token) +
                     spn_cancel_token_reason(spn_group_token(fixture.group)),
        .group_live = group_now().live,
        .limiter_has = limiter_now(),
        .context = spn_context_current(),
        .in_wheel = (int64_t)spn_wheel_count(fixture.wheel),
        .timeouts = spn_timer_pending(fixture.timer),
        .timer_stopped = spn_timer_start(fixture.timer),
        .objects_out = objects_now().out,
        .objects_idle = objects_now().idle,
        .scheduled = pool_stats(spn_scheduled_pool(fixture.scheduled)).queued * 8 +
                     pool_is_shutdown(spn_scheduled_pool(fixture.scheduled)),
    };
}

static inline struct state begin_case(const char *label)
{
    bad_input_label = label;
    return state_now();
}

static inline void end_case(const struct state *was)
{
    struct state is;

    t_await_threads((int)was->tasks); /* those the case joined may still be leaving */
    is = state_now();
    /* Fewer: a thread of an earlier case was still leaving when this one began. */
    if (is.tasks < was->tasks)
        is.tasks = was->tasks;
    if (!CHECK(memcmp(&is, was, sizeof is) == 0))
        fprintf(stderr, "  changed something: %s\n", bad_input_label);
    bad_input_cases++;
}

static inline void refill_deque(void)
{
    CHECK_OK(spn_queue_put(fixture.deque, &fixture.first, 0));
    CHECK_OK(spn_queue_put(fixture.deque, &fixture.second, 0));
}

/* Queues keep a few nodes: have them made now. */
static inline void open_queues(void)
{
    spn_queue_opts opts = SPN_QUEUE_OPTS_INIT;

    opts.capacity = 4;
    REQUIRE_OK(spn_queue_create(&fixture.deque, SPN_QUEUE_DEQUE, &opts));
    REQUIRE_OK(spn_queue_create(&fixture.ring, SPN_QUEUE_RING, &opts));
    REQUIRE_OK(spn_queue_create(&fixture.empty, SPN_QUEUE_TRANSFER, NULL));
    for (int i = 0; i < 2; i++) {
        refill_deque();
        CHECK_OK(spn_queue_put(fixture.empty, &fixture.first, 0));
    }
    CHECK_OK(spn_queue_walk(fixture.deque, take_item, NULL));
    CHECK_OK(spn_queue_walk(fixture.empty, take_item, NULL));
    refill_deque();
    fixture.both[0] = &fixture.first;
    fixture.both[1] = &fixture.second;
    fixture.news[0] = &o.cell;
    fixture.news[1] = NULL;
}

static inline void close_queues(void)
{
    CHECK_OK(spn_queue_destroy(fixture.deque));
    CHECK_OK(spn_queue_destroy(fixture.ring));
    CHECK_OK(spn_queue_destroy(fixture.empty));
}

static inline void open_pools(void)
{
    spn_pool_opts opts = SPN_POOL_OPTS_INIT;

    opts.name = "bad";
    opts.core_threads = 1;
    opts.max_threads = 2;
    opts.queue_capacity = 4;
    REQUIRE_OK(spn_reject_report_create(&fixture.report, NULL));
    REQUIRE_OK(spn_pool_create(&fixture.pool, &opts));
    fixture.refusal = (spn_refusal){ SPN_REFUSED_FULL, 0, 1, fixture.pool };
    REQUIRE_OK(spn_pool_create(&fixture.ended_pool, &opts));
    CHECK_OK(pool_shutdown(fixture.ended_pool));
    opts = spn_pool_opts_single();
    REQUIRE_OK(spn_pool_create(&fixture.single, &opts));
    fixture.idle = spn_pool_executor(fixture.pool);
    fixture.over = spn_pool_executor(fixture.ended_pool);
}

/* A pool without threads ends in shutdown. */
static inline void shut_pool(spn_pool *pool)
{
    CHECK_OK(pool_shutdown(pool));
    CHECK_OK(spn_pool_destroy(pool));
}

static inline void close_pools(void)
{
    shut_pool(fixture.pool);
    shut_pool(fixture.ended_pool);
    shut_pool(fixture.single);
    CHECK_OK(spn_reject_report_destroy(fixture.report));
}

static inline void open_groups(void)
{
    REQUIRE_OK(spn_cancel_token_create(&fixture.token, NULL));
    REQUIRE_OK(spn_cancel_token_create(&fixture.stopped, NULL));
    CHECK_EQ(spn_cancel_token_cancel(fixture.stopped, -5), 1);
    fixture.callback = fixture.registered =
        (spn_cancel_callback)SPN_CANCEL_CALLBACK_INIT(not_called);
    REQUIRE_OK(spn_cancel_token_register(fixture.token, &fixture.registered));
    REQUIRE_OK(spn_context_create(&fixture.context, NULL));
    REQUIRE_OK(spn_group_create(&fixture.group, NULL));
    REQUIRE_OK(spn_group_create(&fixture.stopped_group, NULL));
    CHECK_EQ(spn_group_cancel(fixture.stopped_group, -5, 0), 1);
    REQUIRE_OK(spn_limiter_create(&fixture.limiter, good_limits()));
    start_limited(); /* the limiter has memory for a task from then on */
    CHECK(spn_manual_executor_run(fixture.manual, INT64_MAX) >= 0);
}

static inline void close_groups(void)
{
    CHECK_EQ(spn_cancel_token_deregister(fixture.token, &fixture.registered), 1);
    spn_cancel_token_unref(fixture.token);
    spn_cancel_token_unref(fixture.stopped);
    spn_context_unref(fixture.context);
    CHECK_OK(spn_group_destroy(fixture.group));
    CHECK_OK(spn_group_destroy(fixture.stopped_group));
    CHECK_OK(spn_limiter_destroy(fixture.limiter));
}

static inline void open_timers(void)
{
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;

    REQUIRE_OK(spn_wheel_create(&fixture.wheel, NULL));
    REQUIRE_OK(spn_wheel_add(fixture.wheel, &fixture.wheel_node, SPN_SEC(100)));
    opts.drive = SPN_TIMER_DRIVEN;
    REQUIRE_OK(spn_timer_create(&fixture.timer, &opts));
    REQUIRE_OK(spn_timer_schedule(fixture.timer, &fixture.timeout, good_timeout,
                                  SPN_SEC(3600)));
    REQUIRE_OK(spn_timer_new_timeout(fixture.timer, ignore_handle, ignore_reason, NULL,
                                     SPN_SEC(1), &fixture.spent));
    CHECK_EQ(spn_timeout_handle_cancel(fixture.spent), SPN_TIMEOUT_REMOVED);
    CHECK_EQ(spn_timer_run(fixture.timer), 1);
    REQUIRE_OK(spn_timer_create(&fixture.stopped_timer, &opts));
    REQUIRE_OK(spn_timer_stop(fixture.stopped_timer, NULL, NULL));
}

static inline void close_timers(void)
{
    spn_timeout *left;

    CHECK_EQ(spn_wheel_remove(fixture.wheel, &fixture.wheel_node), 1);
    CHECK_OK(spn_wheel_destroy(fixture.wheel));
    REQUIRE_OK(spn_timer_stop(fixture.timer, &left, NULL));
    CHECK(spn_timeout_pop(&left) == &fixture.timeout);
    CHECK(spn_timeout_pop(&left) == NULL);
    CHECK_OK(spn_timer_destroy(fixture.timer));
    CHECK_OK(spn_timer_destroy(fixture.stopped_timer));
    spn_timeout_handle_unref(fixture.spent);
}

#define GOOD_SCHEDULE                                                    \
    {                                                                    \
        sizeof(spn_schedule), NULL, good_run, NULL, SPN_SEC(1), 0, 1000, \
            SPN_REPEAT_RATE, 0, 0, 0, NULL                               \
    }
static const spn_schedule good_schedule = GOOD_SCHEDULE;

/* Ends a scheduled executor that has nothing to do. */
static inline void end_scheduled(spn_scheduled *scheduled)
{
    CHECK_OK(pool_shutdown(spn_scheduled_pool(scheduled)));
    CHECK_OK(pool_await(spn_scheduled_pool(scheduled), T_LONG_NS));
    CHECK_OK(spn_scheduled_destroy(scheduled));
}

static inline int tries_scheduled(const spn_scheduled_opts *opts)
{
    spn_scheduled *scheduled;
    const int rc = spn_scheduled_create(&scheduled, opts);

    if (rc == SPN_OK)
        end_scheduled(scheduled);
    return rc;
}

static inline void end_serial_timer(spn_serial_timer *timer)
{
    CHECK_OK(spn_serial_timer_cancel(timer));
    CHECK_OK(spn_serial_timer_destroy(timer));
}

static inline void open_scheduled(void)
{
    spn_scheduled_opts opts = spn_scheduled_opts_pool(1);
    spn_future *warm;

    REQUIRE_OK(spn_scheduled_create(&fixture.scheduled, &opts));
    REQUIRE_OK(spn_pool_pause(spn_scheduled_pool(fixture.scheduled)));
    REQUIRE_OK(spn_scheduled_schedule(fixture.scheduled, good_call, NULL, SPN_SEC(3600),
                                      &fixture.waiting));
    /* A block to spare. */
    REQUIRE_OK(spn_scheduled_schedule(fixture.scheduled, good_call, NULL, 0, &warm));
    CHECK_EQ(spn_future_cancel(warm, 0), 1);
    spn_future_unref(warm);
    REQUIRE_OK(spn_scheduled_create(&fixture.ended_scheduled, &opts));
    CHECK_OK(pool_shutdown(spn_scheduled_pool(fixture.ended_scheduled)));
    opts.fixed = 1;
    REQUIRE_OK(spn_scheduled_create(&fixture.fixed_scheduled, &opts));
    REQUIRE_OK(spn_serial_timer_create(&fixture.ended_serial, NULL));
    CHECK_OK(spn_serial_timer_cancel(fixture.ended_serial));
    REQUIRE_OK(spn_serial_task_create(&fixture.fresh, good_run, NULL));
    REQUIRE_OK(spn_serial_task_create(&fixture.spent_serial, good_run, NULL));
    CHECK_EQ(spn_serial_task_cancel(fixture.spent_serial), 0);
}

static inline void close_scheduled(void)
{
    CHECK_EQ(spn_future_cancel(fixture.waiting, 0), 1);
    spn_future_unref(fixture.waiting);
    end_scheduled(fixture.scheduled);
    CHECK_OK(spn_scheduled_destroy(fixture.ended_scheduled));
    end_scheduled(fixture.fixed_scheduled);
    CHECK_OK(spn_serial_timer_destroy(fixture.ended_serial));
    spn_serial_task_unref(fixture.fresh);
    spn_serial_task_unref(fixture.spent_serial);
}

static inline void open_fixture(void)
{
    spn_semaphore_opts opts = SPN_SEMAPHORE_OPTS_INIT;

    memset(&fixture, 0, sizeof fixture);
    opts.permits = 3;
    open_config(&fixture.config);
    REQUIRE_OK(spn_latch_create(&fixture.latch, 2));
    open_forkjoin();
    REQUIRE_OK(spn_latch_create(&fixture.open, 0));
    REQUIRE_OK(spn_semaphore_create(&fixture.semaphore, &opts));
    REQUIRE_OK(spn_clock_create_manual(&fixture.clock, 100));
    REQUIRE_OK(spn_future_create(&fixture.future, NULL));
    REQUIRE_OK(spn_future_create_completed(&fixture.done, NULL));
    REQUIRE_OK(spn_future_create_failed(&fixture.failed, 5, "five"));
    REQUIRE_OK(spn_future_create_task(&fixture.task, good_call, NULL, NULL));
    fixture.pair[0] = fixture.pair[1] = fixture.future;
    fixture.holed[0] = fixture.holed[2] = fixture.future;
    REQUIRE_OK(spn_manual_executor_create(&fixture.manual));
    REQUIRE_OK(spn_manual_executor_create(&fixture.refuses));
    CHECK_OK(spn_executor_shutdown(spn_manual_executor_executor(fixture.refuses)));
    fixture.closed = spn_manual_executor_executor(fixture.refuses);
    fixture.node = (spn_task)SPN_TASK_INIT(good_task, NULL);
    REQUIRE_OK(spn_poll_set_create(&fixture.set));
    REQUIRE_OK(spn_thread_create(&fixture.ended, NULL, return_seven, NULL));
    REQUIRE_OK(spn_thread_join(fixture.ended, SPN_FOREVER, NULL));
    REQUIRE_OK(spn_thread_create(&fixture.target, NULL, await_gate, &fixture));
    fixture.self = spn_thread_current();
    open_queues();
    open_pools();
    open_services();
    open_groups();
    open_timers();
    open_objects();
    open_scheduled();
    open_metrics();
    open_channels();
    /* Two spare records, so that a legal create does not look like a leak. */
    for (int i = 0; i < 2; i++) {
        peer_start(&fixture.waiter, return_seven, NULL);
        CHECK_EQ(peer_finish(&fixture.waiter), 7);
    }
}

static inline void reopen_repository(void)
{
    CHECK_OK(spn_repository_destroy(fixture.config.repository));
    open_repository_of(&fixture.config);
}

static inline void close_fixture(void)
{
    close_channels();
    close_forkjoin();
    atomic_store(&fixture.gate, 1);
    spn_unpark(fixture.target);
    CHECK_OK(spn_thread_join(fixture.target, SPN_FOREVER, NULL));
    spn_thread_unref(fixture.target);
    spn_thread_unref(fixture.ended);
    close_config(&fixture.config);
    CHECK_OK(spn_latch_destroy(fixture.latch));
    CHECK_OK(spn_latch_destroy(fixture.open));
    CHECK_OK(spn_semaphore_destroy(fixture.semaphore));
    CHECK_OK(spn_clock_destroy(fixture.clock));
    close_queues();
    close_groups();
    close_timers();
    close_objects();
    close_scheduled();
    close_metrics();
    spn_future_unref(fixture.future);
    spn_future_unref(fixture.done);
    spn_future_unref(fixture.failed);
    spn_future_unref(fixture.task);
    CHECK_OK(spn_manual_executor_destroy(fixture.manual));
    CHECK_OK(spn_manual_executor_destroy(fixture.refuses));
    CHECK_OK(spn_poll_set_destroy(fixture.set));
    close_services();
    close_pools();
}

/* ---- options with room behind them ------------------------------------------- */

#define GROWN(type, ...)                                 \
    struct grown_##type {                                \
        type opts;                                       \
        unsigned char tail[64];                          \
    };                                                   \
    static inline struct grown_##type grown_##type(void) \
    {                                                    \
        struct grown_##type grown = { .opts = { 0 } };   \
        const type good = __VA_ARGS__;                   \
        grown.opts = good;                               \
        return grown;                                    \
    }

GROWN(spn_allocator, { sizeof(spn_allocator), counting_alloc, counting_release, NULL })
GROWN(spn_channel_ops, CHANNEL_OPS_INIT)
GROWN(spn_dispatch_opts, SPN_DISPATCH_OPTS_INIT)
GROWN(spn_dispatch_stats, SPN_DISPATCH_STATS_INIT)
GROWN(spn_context_opts, SPN_CONTEXT_OPTS_INIT)
GROWN(spn_cpu_limits, SPN_CPU_LIMITS_INIT)
GROWN(spn_fj_pool_opts, SPN_FJ_POOL_OPTS_INIT)
GROWN(spn_fj_stats, SPN_FJ_STATS_INIT)
GROWN(spn_parallel_opts, SPN_PARALLEL_OPTS_INIT)
GROWN(spn_group_opts, SPN_GROUP_OPTS_INIT)
GROWN(spn_group_stats, SPN_GROUP_STATS_INIT)
GROWN(spn_histogram_snapshot, SPN_HISTOGRAM_SNAPSHOT_INIT)
GROWN(spn_limiter_opts, *good_limits())
GROWN(spn_limiter_stats, SPN_LIMITER_STATS_INIT)
GROWN(spn_object_pool_opts, *good_objects())
GROWN(spn_object_pool_stats, SPN_OBJECT_POOL_STATS_INIT)
GROWN(spn_pool_change, SPN_POOL_CHANGE_INIT)
GROWN(spn_pool_opts, SPN_POOL_OPTS_INIT)
GROWN(spn_pool_stats, SPN_POOL_STATS_INIT)
GROWN(spn_reject_report_opts, SPN_REJECT_REPORT_OPTS_INIT)
GROWN(spn_queue_opts, SPN_QUEUE_OPTS_INIT)
GROWN(spn_future_opts, SPN_FUTURE_OPTS_INIT)
GROWN(spn_metrics_source, *good_source())
GROWN(spn_schedule, GOOD_SCHEDULE)
GROWN(spn_scheduled_opts, SPN_SCHEDULED_OPTS_INIT)
GROWN(spn_serial_opts, SPN_SERIAL_OPTS_INIT)
GROWN(spn_url_parts, SPN_URL_PARTS_INIT)
GROWN(spn_serial_timer_opts, SPN_SERIAL_TIMER_OPTS_INIT)
GROWN(spn_url_pool_opts, SPN_URL_POOL_OPTS_INIT)
GROWN(spn_repository_opts, SPN_REPOSITORY_OPTS_INIT)
GROWN(spn_extensions_opts, SPN_EXTENSIONS_OPTS_INIT)
#define TAKEN_KIND_INIT                                  \
    {                                                    \
        sizeof(spn_extension_kind), "reject", NULL, NULL \
    }
GROWN(spn_extension_kind, TAKEN_KIND_INIT)

GROWN(spn_or_timeout_opts, SPN_OR_TIMEOUT_OPTS_INIT)
GROWN(spn_semaphore_opts, SPN_SEMAPHORE_OPTS_INIT)
GROWN(spn_task_times_opts, SPN_TASK_TIMES_OPTS_INIT)
GROWN(spn_thread_opts, SPN_THREAD_OPTS_INIT)
GROWN(spn_period, { sizeof(spn_period), 1000, 0, 0, 0, 0 })
GROWN(spn_timer_opts, SPN_TIMER_OPTS_INIT)
GROWN(spn_timer_stats, SPN_TIMER_STATS_INIT)
GROWN(spn_watch_opts, *good_watch())
GROWN(spn_wheel_opts, SPN_WHEEL_OPTS_INIT)

/* Field values that want a name. */
static const uint32_t no_cpu[] = { UINT32_MAX };
static const spn_reject_policy no_policy = { sizeof no_policy, "none", NULL };
static const spn_thread_factory no_factory = { sizeof no_factory, NULL };
static inline int refuse_badly(const spn_reject_policy *policy, spn_pool *pool,
                               spn_task *task, const spn_refusal *why)
{
    (void)policy;
    (void)pool;
    (void)task;
    (void)why;
    return SPN_EREJECTED;
}
static inline int make_badly(const spn_thread_factory *factory, spn_thread **out,
                             spn_thread_opts *opts, spn_thread_fn fn, void *arg)
{
    (void)factory;
    return spn_thread_create(out, opts, fn, arg);
}
static const spn_reject_policy small_policy = { sizeof(size_t), "small", refuse_badly };
static const spn_thread_factory small_factory = { sizeof(size_t), make_badly };
static const spn_thread_opts small_thread = { .size = 1 };
/* A real-time signal that the program itself uses. */
static spn_reject_report_opts taken_signal = SPN_REJECT_REPORT_OPTS_INIT;

static inline void handle_signal(int number)
{
    (void)number;
}

static inline void take_signal(void)
{
    taken_signal.signal = (uint32_t)SIGRTMIN + 2;
    REQUIRE(signal(SIGRTMIN + 2, handle_signal) != SIG_ERR);
}

static inline void give_signal(void)
{
    REQUIRE(signal(SIGRTMIN + 2, SIG_DFL) != SIG_ERR);
}

static const spn_object_pool_opts no_make = SPN_OBJECT_POOL_OPTS_INIT;
static const spn_pool_change change = SPN_POOL_CHANGE_INIT;
static const spn_pool_change half_change = { .size = sizeof half_change,
                                             .core_threads = 2,
                                             .max_threads = 2,
                                             .keep_alive_ns = -1,
                                             .queue_capacity = 5,
                                             .core_timeout = 1 };
static const spn_context_value no_key[] = { { NULL, NULL, NULL } };
static const spn_context_opts keyless = { .size = sizeof keyless,
                                          .values = no_key,
                                          .value_count = 1 };
static const spn_reject_block block = SPN_REJECT_BLOCK_INIT(1);
static const spn_refusal refusal = { .reason = SPN_REFUSED_FULL };
static const spn_reject_policy *const chained[] = { &small_policy };
static const spn_reject_chain chain = SPN_REJECT_CHAIN_INIT(chained, 1);
static const spn_reject_chain no_chain = SPN_REJECT_CHAIN_INIT(NULL, 0);
#define NAME_64       "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define NAME_TOO_LONG NAME_64 NAME_64 NAME_64 NAME_64 /* 256 bytes */

static const spn_thread_opts bad_thread_opts = { 0, NULL, 0, NULL, 0,    0,
                                                 0, 0,    0, NULL, NULL, NULL };

/* ---- wrong states ------------------------------------------------------------- */

static inline int wait_on_latch(void *arg)
{
    (void)arg;
    return spn_latch_await(fixture.latch, SPN_FOREVER);
}

static inline int wait_on_semaphore(void *arg)
{
    (void)arg;
    return spn_semaphore_acquire(fixture.semaphore, 100, SPN_FOREVER);
}

static inline int wait_on_clock(void *arg)
{
    (void)arg;
    return spn_clock_sleep_until(fixture.clock, 200);
}

static inline int watch_clock(void *arg)
{
    (void)arg;
    return spn_clock_await_sleepers(fixture.clock, 1, SPN_FOREVER);
}

static inline int wait_on_queue(void *arg)
{
    void *item;

    (void)arg;
    return spn_queue_take(fixture.empty, &item, SPN_FOREVER);
}

static inline int wait_on_completion(void *arg)
{
    spn_future *future;

    (void)arg;
    return spn_completion_take(fixture.completion, &future, SPN_FOREVER);
}

/* The deque is full for the case, and as it was afterwards. */
static inline void fill_deque(void)
{
    CHECK_OK(spn_queue_put(fixture.deque, &fixture.gate, 0));
    CHECK_OK(spn_queue_put(fixture.deque, &fixture.gate, 0));
}

static inline void drop_fill(void)
{
    CHECK(out_last() == &fixture.gate);
    CHECK(out_last() == &fixture.gate);
}

static inline int compare_items(const void *a, const void *b, void *ctx)
{
    (void)ctx;
    return (a > b) - (a < b);
}

static inline int64_t due_at_once(const void *item, void *ctx)
{
    (void)item;
    (void)ctx;
    return 0;
}

/* A thread waits on an object of the fixture... */
static inline void start_waiter(int (*wait)(void *))
{
    peer_start(&fixture.waiter, wait, NULL);
    peer_await_blocked(&fixture.waiter);
}

/* ...and goes on waiting whatever was tried, until it is interrupted. */
static inline void stop_waiter(void)
{
    CHECK_EQ(atomic_load(&fixture.waiter.done), 0);
    CHECK_OK(spn_thread_interrupt(fixture.waiter.thread));
    CHECK_STATUS(peer_finish(&fixture.waiter), SPN_EINTR);
}

/* Ends what a legal spn_pool_create made. */
static inline void end_pool(void)
{
    shut_pool(o.pool);
}

/* What create says to options, which it leaves nothing of. */
static inline int tries(const spn_pool_opts *opts)
{
    spn_pool *pool;
    const int rc = spn_pool_create(&pool, opts);

    CHECK((rc == SPN_OK) == (pool != NULL));
    if (rc == SPN_OK)
        shut_pool(pool);
    return rc;
}

/* Joins and drops what a legal spn_thread_create made. */
static inline void end_thread(void)
{
    int result = -1;

    CHECK_OK(spn_thread_join(o.thread, SPN_FOREVER, &result));
    CHECK_EQ(result, 7);
    spn_thread_unref(o.thread);
}

static inline void ignore_message(void *ctx, spn_log_level level, const char *message)
{
    (void)ctx;
    (void)level;
    (void)message;
}

/* A debug build logs the misuse of every other case, and who comes first decides where
 * messages go: there it is we, before all cases. */
#ifdef SPN_AUDIT
__attribute__((constructor)) static void take_the_log(void)
{
    if (spn_log_set_hook(ignore_message, NULL) != SPN_OK)
        abort(); /* something was logged before: the cases would tell other things */
}
#define LOG_HOOK_IN_TIME SPN_ESTATE
#else
#define LOG_HOOK_IN_TIME SPN_OK
#endif

static inline void interrupt_self(void)
{
    CHECK_OK(spn_thread_interrupt(fixture.self));
}

#endif /* BAD_INPUT_H */
