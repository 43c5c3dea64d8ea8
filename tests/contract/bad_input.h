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

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include <spindle/clock.h>
#include <spindle/cpu.h>
#include <spindle/latch.h>
#include <spindle/future.h>
#include <spindle/log.h>
#include <spindle/park.h>
#include <spindle/queue.h>
#include <spindle/poll_set.h>
#include <spindle/semaphore.h>
#include <spindle/thread.h>
#include <spindle/timer.h>
#include <spindle/version.h>
#include <spindle/wheel.h>

#include "counting.h"
#include "peer.h"
#include "test.h"

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
    spn_queue_iter *iter;         /* over the deque, nothing shown yet */
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
    spn_wheel *wheel;                     /* with one node, for later */
    spn_wheel_node wheel_node, free_node; /* that one, and one in no wheel */
    spn_timer *timer;                     /* driven by hand; one timeout, for later */
    spn_timer *stopped;
    spn_timeout_handle *over;   /* one that was cancelled */
    spn_timeout timeout, idle;  /* that one, and one never scheduled */
    spn_timer_entry entries[3]; /* idle; the pending one; one without a function */
    struct peer waiter;
};

/* Where calls put what they make. */
struct results {
    spn_latch *latch;
    spn_semaphore *semaphore;
    spn_clock *clock;
    spn_thread *thread;
    spn_queue *queue;
    spn_queue_iter *iter;
    int cell; /* an item that is in no queue */
    void *taken, *items[4];
    size_t count;
    const void *blocker;
    spn_cpu_limits limits;
    sigset_t mask;
    spn_future *future;
    spn_manual_executor *manual;
    spn_poll_set *set;
    spn_wheel *wheel;
    spn_timer *timer;
    spn_timeout *left;
    spn_timeout_handle *handle;
    spn_timer_stats stats;
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
    int64_t deque, empty, ring, waiting, closed;
    const void *first, *last; /* of the deque */
    int64_t future, dependents, task, queued, in_set;
    int64_t in_wheel, timeouts, timer_stopped;
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

static inline int good_when(void *arg, const spn_outcome *outcome)
{
    (void)arg;
    (void)outcome;
    return 0;
}

static inline int good_compose(void *arg, void *value, spn_future **next)
{
    (void)arg;
    (void)value;
    *next = spn_future_ref(fixture.done);
    return 0;
}

static inline int good_compose_error(void *arg, const spn_outcome *outcome,
                                     spn_future **next)
{
    (void)outcome;
    return good_compose(arg, NULL, next);
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

/* Ends and drops what a call that makes a future made. */
static inline void drop_stage(void)
{
    (void)spn_future_cancel(o.future, 0);
    spn_future_unref(o.future);
}

/* A task waits in the manual executor. */
static inline void start_task(void)
{
    REQUIRE_OK(spn_executor_execute(spn_manual_executor_executor(fixture.manual),
                                    &fixture.node));
}

static inline int64_t tasks_of_process(void)
{
    DIR *dir = opendir("/proc/self/task");
    int64_t count = 0;

    REQUIRE(dir != NULL);
    for (const struct dirent *e; (e = readdir(dir)) != NULL;)
        count += e->d_name[0] != '.';
    closedir(dir);
    return count;
}

static inline struct state state_now(void)
{
    return (struct state){
        .latch = spn_latch_count(fixture.latch),
        .open = spn_latch_count(fixture.open),
        .permits = spn_semaphore_available(fixture.semaphore),
        .now = spn_clock_now(fixture.clock),
        .level = spn_log_get_level(),
        .self_flag = spn_thread_is_interrupted(fixture.self),
        .target_flag = spn_thread_is_interrupted(fixture.target),
        .live = atomic_load(&counting_live),
        .tasks = tasks_of_process(),
        .deque = spn_queue_size(fixture.deque),
        .empty = spn_queue_size(fixture.empty),
        .ring = spn_queue_size(fixture.ring),
        .waiting = spn_queue_waiting_consumers(fixture.empty),
        .closed =
            spn_queue_is_closed(fixture.deque) + spn_queue_is_closed(fixture.empty),
        .first = spn_queue_peek(fixture.deque),
        .last = spn_queue_peek_last(fixture.deque),
        .future = spn_future_get_state(fixture.future),
        .dependents = spn_future_dependents(fixture.future),
        .task = spn_future_get_state(fixture.task),
        .queued =
            (int64_t)spn_manual_executor_pending(fixture.manual) + fixture.node.queued,
        .in_set = (int64_t)spn_poll_set_count(fixture.set),
        .in_wheel = (int64_t)spn_wheel_count(fixture.wheel),
        .timeouts = spn_timer_pending(fixture.timer),
        .timer_stopped = spn_timer_is_stopped(fixture.timer),
    };
}

static inline struct state begin_case(const char *label)
{
    bad_input_label = label;
    return state_now();
}

static inline void end_case(const struct state *was)
{
    struct state is = state_now();

    /* A joined thread leaves the process's list a moment later. */
    for (int i = 0; i < 1000 && is.tasks > was->tasks; i++) {
        t_pause();
        is.tasks = tasks_of_process();
    }
    /* Fewer: a thread of an earlier case was still leaving when this one began. */
    if (is.tasks < was->tasks)
        is.tasks = was->tasks;
    if (!CHECK(memcmp(&is, was, sizeof is) == 0))
        fprintf(stderr, "  changed something: %s\n", bad_input_label);
    bad_input_cases++;
}

static inline void refill_deque(void)
{
    CHECK_OK(spn_queue_add(fixture.deque, &fixture.first));
    CHECK_OK(spn_queue_add(fixture.deque, &fixture.second));
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
        CHECK_OK(spn_queue_add(fixture.empty, &fixture.first));
    }
    CHECK_EQ(spn_queue_clear(fixture.deque), 4);
    CHECK_EQ(spn_queue_clear(fixture.empty), 2);
    refill_deque();
    REQUIRE_OK(spn_queue_iter_begin(&fixture.iter, fixture.deque));
    fixture.both[0] = &fixture.first;
    fixture.both[1] = &fixture.second;
    fixture.news[0] = &o.cell;
    fixture.news[1] = NULL;
}

static inline void close_queues(void)
{
    spn_queue_iter_end(fixture.iter);
    CHECK_OK(spn_queue_destroy(fixture.deque));
    CHECK_OK(spn_queue_destroy(fixture.ring));
    CHECK_OK(spn_queue_destroy(fixture.empty));
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
    REQUIRE_OK(spn_timer_new_timeout(fixture.timer, ignore_reason, NULL, SPN_SEC(1),
                                     &fixture.over));
    CHECK_EQ(spn_timeout_handle_cancel(fixture.over), SPN_TIMEOUT_REMOVED);
    CHECK_EQ(spn_timer_run(fixture.timer), 1);
    REQUIRE_OK(spn_timer_create(&fixture.stopped, &opts));
    REQUIRE_OK(spn_timer_stop(fixture.stopped, NULL));
    fixture.entries[0] = (spn_timer_entry){ &fixture.idle, good_timeout, SPN_SEC(1) };
    fixture.entries[1] = (spn_timer_entry){ &fixture.timeout, good_timeout, 1 };
    fixture.entries[2] = (spn_timer_entry){ &fixture.idle, NULL, 1 };
}

static inline void close_timers(void)
{
    spn_timeout *left;

    CHECK_EQ(spn_wheel_remove(fixture.wheel, &fixture.wheel_node), 1);
    CHECK_OK(spn_wheel_destroy(fixture.wheel));
    REQUIRE_OK(spn_timer_stop(fixture.timer, &left));
    CHECK(spn_timeout_pop(&left) == &fixture.timeout);
    CHECK(spn_timeout_pop(&left) == NULL);
    CHECK_OK(spn_timer_destroy(fixture.timer));
    CHECK_OK(spn_timer_destroy(fixture.stopped));
    spn_timeout_handle_unref(fixture.over);
}

static inline void open_fixture(void)
{
    spn_semaphore_opts opts = SPN_SEMAPHORE_OPTS_INIT;

    memset(&fixture, 0, sizeof fixture);
    opts.permits = 3;
    REQUIRE_OK(spn_latch_create(&fixture.latch, 2));
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
    CHECK_OK(spn_manual_executor_close(fixture.refuses));
    fixture.closed = spn_manual_executor_executor(fixture.refuses);
    fixture.node = (spn_task)SPN_TASK_INIT(good_task, NULL);
    REQUIRE_OK(spn_poll_set_create(&fixture.set));
    REQUIRE_OK(spn_thread_create(&fixture.ended, NULL, return_seven, NULL));
    REQUIRE_OK(spn_thread_join(fixture.ended, SPN_FOREVER, NULL));
    REQUIRE_OK(spn_thread_create(&fixture.target, NULL, await_gate, &fixture));
    fixture.self = spn_thread_current();
    open_queues();
    open_timers();
    /* Two spare records, so that a legal create does not look like a leak. */
    for (int i = 0; i < 2; i++) {
        peer_start(&fixture.waiter, return_seven, NULL);
        CHECK_EQ(peer_finish(&fixture.waiter), 7);
    }
}

static inline void close_fixture(void)
{
    atomic_store(&fixture.gate, 1);
    spn_unpark(fixture.target);
    CHECK_OK(spn_thread_join(fixture.target, SPN_FOREVER, NULL));
    spn_thread_unref(fixture.target);
    spn_thread_unref(fixture.ended);
    CHECK_OK(spn_latch_destroy(fixture.latch));
    CHECK_OK(spn_latch_destroy(fixture.open));
    CHECK_OK(spn_semaphore_destroy(fixture.semaphore));
    CHECK_OK(spn_clock_destroy(fixture.clock));
    close_queues();
    close_timers();
    spn_future_unref(fixture.future);
    spn_future_unref(fixture.done);
    spn_future_unref(fixture.failed);
    spn_future_unref(fixture.task);
    CHECK_OK(spn_manual_executor_destroy(fixture.manual));
    CHECK_OK(spn_manual_executor_destroy(fixture.refuses));
    CHECK_OK(spn_poll_set_destroy(fixture.set));
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
        grown.opts = (type)__VA_ARGS__;                  \
        return grown;                                    \
    }

GROWN(spn_allocator, { sizeof(spn_allocator), counting_alloc, counting_release, NULL })
GROWN(spn_cpu_limits, SPN_CPU_LIMITS_INIT)
GROWN(spn_queue_opts, SPN_QUEUE_OPTS_INIT)
GROWN(spn_future_opts, SPN_FUTURE_OPTS_INIT)
GROWN(spn_semaphore_opts, SPN_SEMAPHORE_OPTS_INIT)
GROWN(spn_thread_opts, SPN_THREAD_OPTS_INIT)
GROWN(spn_period, { sizeof(spn_period), 1000, 0, 0, 0, 0 })
GROWN(spn_timer_opts, SPN_TIMER_OPTS_INIT)
GROWN(spn_timer_stats, SPN_TIMER_STATS_INIT)
GROWN(spn_wheel_opts, SPN_WHEEL_OPTS_INIT)

/* Field values that want a name. */
static const uint32_t no_cpu[] = { UINT32_MAX };
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
    return spn_queue_take(fixture.empty, &item);
}

/* The deque is full for the case, and as it was afterwards. */
static inline void fill_deque(void)
{
    CHECK_OK(spn_queue_add(fixture.deque, &fixture.gate));
    CHECK_OK(spn_queue_add(fixture.deque, &fixture.gate));
}

static inline void drop_fill(void)
{
    CHECK(spn_queue_poll_last(fixture.deque) == &fixture.gate);
    CHECK(spn_queue_poll_last(fixture.deque) == &fixture.gate);
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

static inline void interrupt_self(void)
{
    CHECK_OK(spn_thread_interrupt(fixture.self));
}

#endif /* BAD_INPUT_H */
