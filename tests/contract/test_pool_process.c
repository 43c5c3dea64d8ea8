/* SPDX-License-Identifier: MIT */
/* test_pool_process.c - pools and the process they live in: exit, fork, signals, and
 * other pools. */
#include "pools.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <spindle/forkjoin.h>
#include <spindle/thread.h>
#include <spindle/timer.h>
#include <spindle/url_pool.h>

/* ---- exit --------------------------------------------------------------------------- */

static void call_exit(struct piece *p)
{
    (void)p;
    exit(3);
}

static spn_pool *kept; /* so that a leak checker finds it */

static void exit_from_a_worker(void *arg)
{
    struct piece p;

    (void)arg;
    kept = pool_of(2, 2, 4);
    piece_init(&p, NULL);
    p.act = call_exit;
    CHECK_OK(execute(kept, &p));
    (void)!pool_await(kept, SPN_FOREVER);
    _exit(99); /* not reached */
}

/* exit from a task ends the process, and waits for nobody. */
TEST(process__exit_from_a_task__ends_with_its_status, "S-9", "P13")
{
    for (int i = 0; i < 2; i++) /* a sanitizer makes each take a second */
        CHECK_EQ(t_child(exit_from_a_worker, NULL, NULL, 0), 3 << 8);
}

static spn_latch *kept_gate;
static struct piece kept_pieces[4];

static void exit_with_a_live_pool(void *arg)
{
    (void)arg;
    kept = pool_of(2, 2, 4);
    kept_gate = gate_new();
    pieces_init(kept_pieces, 4, kept_gate);
    start(kept, &kept_pieces[0]);
    for (int i = 1; i < 4; i++)
        CHECK_OK(execute(kept, &kept_pieces[i]));
    exit(5);
}

/* A pool's threads never keep the process: it exits with tasks running and queued. */
TEST(process__exits_with_a_live_pool__not_held_up, "S-9", "P13")
{
    for (int i = 0; i < 2; i++) /* a sanitizer makes each take a second */
        CHECK_EQ(t_child(exit_with_a_live_pool, NULL, NULL, 0), 5 << 8);
}

/* ---- fork ------------------------------------------------------------------------------ */

static int count_run(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return 0;
}

static void in_child(bool (*fn)(spn_pool *pool), spn_pool *pool)
{
    int status = -1;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        (void)alarm((unsigned)(T_LONG_NS / SPN_SEC(1))); /* one that hangs fails */
        _exit(fn(pool) ? 0 : 1);
    }
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK_EQ(status, 0);
}

/* In the child the parent's pool has no threads: asking and submitting return. */
static bool use_parents_pool(spn_pool *pool)
{
    static struct piece p;
    spn_pool_stats s;
    int rc;

    piece_init(&p, NULL);
    rc = execute(pool, &p); /* queued or refused, but it returns */
    s = pool_stats(pool);
    return (rc <= SPN_OK) && CHECK(s.threads >= 0) &&
           CHECK_STATUS(pool_await(pool, 0), SPN_ESTATE) &&
           CHECK_STATUS(spn_pool_destroy(pool), SPN_EBUSY);
}

static bool end_parents_pool(spn_pool *pool)
{
    return CHECK_STATUS(spn_pool_close(pool), SPN_ESTATE) &&
           CHECK_STATUS(spn_pool_drain(pool, T_LONG_NS, NULL, NULL, NULL),
                        SPN_ESTATE) &&
           CHECK_STATUS(pool_shutdown(pool), SPN_ESTATE) &&
           CHECK_STATUS(pool_shutdown_now(pool, NULL, NULL, NULL), SPN_ESTATE) &&
           CHECK_STATUS(pool_await(pool, SPN_FOREVER), SPN_ESTATE);
}

static bool end_an_idle_one(spn_pool *pool)
{
    return end_parents_pool(pool) && CHECK_OK(spn_pool_destroy(pool));
}

static bool end_a_busy_one(spn_pool *pool)
{
    return end_parents_pool(pool) && CHECK_STATUS(spn_pool_destroy(pool), SPN_EBUSY);
}

static bool end_ones_own(spn_pool *pool)
{
    static struct piece p;

    piece_init(&p, NULL);
    return CHECK_OK(execute(pool, &p)) && CHECK_OK(spn_pool_close(pool)) &&
           CHECK(ran(&p)) && CHECK_OK(spn_pool_destroy(pool));
}

/* A pool of its own works in the child. */
static bool use_a_pool_of_its_own(spn_pool *pool)
{
    static struct piece p;
    spn_pool *own = pool_of(1, 1, 4);
    bool ok;

    (void)pool;
    piece_init(&p, NULL);
    ok = CHECK_OK(execute(own, &p));
    pool_close(own);
    return ok && CHECK(ran(&p));
}

static void fork_often(spn_pool *pool)
{
    for (int i = 0; i < 10; i++) {
        in_child(use_parents_pool, pool);
        if (!T_INSTRUMENTED) /* their run time forbids new threads after such a fork */
            in_child(use_a_pool_of_its_own, pool);
    }
}

/* A worker that lies down holds the pool's lock for a moment, and a fork then leaves it
 * locked in the child for ever; so the workers sleep, or are inside their tasks. */
TEST(process__forked_while_workers_sleep__child_not_stuck, "P13")
{
    spn_pool *pool = pool_of(2, 2, 8);
    struct piece p[2];

    pieces_init(p, 2, NULL);
    for (int i = 0; i < 2; i++)
        CHECK_OK(execute(pool, &p[i]));
    pool_rest(pool);
    t_await_asleep(pool_stats(pool).name, 2);
    fork_often(pool);
    pool_close(pool); /* the parent's is as it was */
}

TEST(process__forked_while_workers_work__child_not_stuck, "P13")
{
    spn_pool *pool = pool_of(2, 2, 8);
    spn_latch *gate = gate_new();
    struct piece p[2];

    pieces_init(p, 2, gate);
    for (int i = 0; i < 2; i++)
        start(pool, &p[i]);
    t_await_asleep(pool_stats(pool).name,
                   2); /* at the gate, with nothing in their hands */
    fork_often(pool);
    gate_open(gate);
    pool_close(pool);
    gate_free(gate);
}

/* A child that ends its parent's pool, as a destructor or an atexit function would, is told
 * so at once; and destroy frees an idle pool. */
TEST_EACH(process__child_ends_the_parents_pool__refused_at_once, "G-29")
{
    struct bed b = bed_open(k, 2, 2);
    spn_latch *gate = gate_new();
    struct piece p;

    CHECK_EQ(spn_pool_prestart(b.pool, SPN_DEFAULT), 2);
    T_AWAIT(pool_stats(b.pool).parked == 2);
    t_await_asleep(pool_stats(b.pool).name, 2);
    in_child(end_an_idle_one, b.pool);
    piece_init(&p, gate);
    start(b.pool, &p);
    t_await_asleep(pool_stats(b.pool).name, 2);
    in_child(end_a_busy_one, b.pool);
    gate_open(gate);
    bed_close(&b);
    gate_free(gate);
}

/* A pool without threads goes along into the child: a program may fork after it made it. */
TEST(process__forked_before_the_first_task__pool_is_the_childs, "G-29")
{
    spn_pool *pool = pool_of(1, 1, 4);

    if (!T_INSTRUMENTED) /* as above */
        in_child(end_ones_own, pool);
    pool_close(pool);
}

static bool end_parents_stealing(spn_pool *pool)
{
    spn_fj_pool *fj = (spn_fj_pool *)(void *)pool;

    return CHECK_STATUS(spn_fj_pool_close(fj), SPN_ESTATE) &&
           CHECK_STATUS(spn_executor_await(spn_fj_pool_executor(fj), SPN_FOREVER),
                        SPN_ESTATE) &&
           CHECK_OK(spn_fj_pool_destroy(fj));
}

/* The same for a fork/join pool. */
TEST(process__child_ends_the_parents_stealing_pool__refused_at_once, "G-29")
{
    spn_fj_pool_opts opts = SPN_FJ_POOL_OPTS_INIT;
    atomic_int runs = 0;
    spn_fj_pool *fj;

    opts.parallelism = 1;
    opts.name = "orphan";
    REQUIRE_OK(spn_fj_pool_create(&fj, &opts));
    REQUIRE_OK(spn_executor_call(spn_fj_pool_executor(fj), count_run, &runs));
    T_AWAIT(atomic_load(&runs) == 1);
    t_await_asleep("orphan", 1);
    in_child(end_parents_stealing, (spn_pool *)(void *)fj);
    CHECK_OK(spn_fj_pool_close(fj));
    CHECK_OK(spn_fj_pool_destroy(fj));
}

static bool end_parents_url_pool(spn_pool *pool)
{
    spn_url_pool *up = (spn_url_pool *)(void *)pool;

    return CHECK_STATUS(spn_pool_close(spn_url_pool_pool(up)), SPN_ESTATE) &&
           CHECK_OK(spn_url_pool_destroy(up));
}

/* The same for a pool of a URL, whose report has a thread as well. */
TEST(process__child_ends_the_parents_url_pool__refused_at_once, "G-29")
{
    spn_url *url;
    spn_url_pool *up;

    REQUIRE_OK(spn_url_parse(&url,
                             "dubbo://127.0.0.1:1?threads=1&queues=4&threadname=orphan",
                             NULL));
    REQUIRE_OK(spn_url_pool_create(&up, url, NULL, NULL));
    CHECK_EQ(spn_pool_prestart(spn_url_pool_pool(up), SPN_DEFAULT), 1);
    T_AWAIT(pool_stats(spn_url_pool_pool(up)).parked == 1);
    t_await_asleep("orphan", 1);
    t_await_asleep("spindle-report", 1);
    in_child(end_parents_url_pool, (spn_pool *)(void *)up);
    CHECK_OK(spn_pool_close(spn_url_pool_pool(up)));
    CHECK_OK(spn_url_pool_destroy(up));
    spn_url_unref(url);
}

static bool join_parents_thread(spn_pool *pool)
{
    spn_thread *thread = (spn_thread *)(void *)pool;

    return CHECK_STATUS(spn_thread_join(thread, SPN_FOREVER, NULL), SPN_ESTATE) &&
           CHECK_STATUS(spn_thread_join(thread, 0, NULL), SPN_ESTATE) &&
           (spn_thread_unref(thread), true);
}

static int await_gate(void *gate)
{
    return spn_latch_await(gate, SPN_FOREVER);
}

/* A child cannot join a thread of its parent's, but may drop the handle. */
TEST(process__child_joins_the_parents_thread__refused_at_once, "G-29")
{
    spn_thread_opts opts = SPN_THREAD_OPTS_INIT;
    spn_latch *gate = gate_new();
    spn_thread *thread;

    opts.name = "orphan";
    REQUIRE_OK(spn_thread_create(&thread, &opts, await_gate, gate));
    t_await_asleep("orphan", 1);
    in_child(join_parents_thread, (spn_pool *)(void *)thread);
    gate_open(gate);
    CHECK_OK(spn_thread_join(thread, T_LONG_NS, NULL));
    spn_thread_unref(thread);
    gate_free(gate);
}

/* A timer, and a timeout in it. */
struct timing {
    spn_timer *timer;
    spn_timeout timeout;
    atomic_int ran;
};

static int note_fired(spn_timeout *timeout)
{
    atomic_fetch_add(&((struct timing *)(void *)((char *)timeout -
                                                 offsetof(struct timing, timeout)))
                          ->ran,
                     1);
    return 0;
}

static bool end_parents_timer(spn_pool *pool)
{
    struct timing *t = (struct timing *)(void *)pool;
    spn_timeout *left = &t->timeout;

    return CHECK_STATUS(spn_timer_stop(t->timer, &left, NULL), SPN_ESTATE) &&
           CHECK(left == NULL) &&
           CHECK_STATUS(spn_timer_destroy(t->timer), SPN_EBUSY) &&
           CHECK_EQ(spn_timer_cancel(t->timer, &t->timeout), SPN_TIMEOUT_REMOVED) &&
           CHECK_STATUS(spn_timer_stop(t->timer, NULL, NULL), SPN_ESTATE) &&
           CHECK_OK(spn_timer_destroy(t->timer));
}

/* The same for a timer, which is freed when no timeout waits in it. */
TEST(process__child_stops_the_parents_timer__refused_at_once, "G-29")
{
    struct timing t = { .ran = 0 };
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;
    spn_thread_opts thread = SPN_THREAD_OPTS_INIT;

    thread.name = "orphan";
    opts.thread = &thread;
    REQUIRE_OK(spn_timer_create(&t.timer, &opts));
    REQUIRE_OK(spn_timer_schedule(t.timer, &t.timeout, note_fired, SPN_SEC(3600)));
    t_await_asleep("orphan", 1);
    in_child(end_parents_timer, (spn_pool *)(void *)&t);
    CHECK_EQ(spn_timer_cancel(t.timer, &t.timeout), SPN_TIMEOUT_REMOVED);
    REQUIRE_OK(spn_timer_schedule(t.timer, &t.timeout, note_fired, 0));
    T_AWAIT(atomic_load(&t.ran) == 1); /* the parent's is as it was */
    CHECK_OK(spn_timer_stop(t.timer, NULL, NULL));
    CHECK_OK(spn_timer_destroy(t.timer));
}

/* ---- cancellation ------------------------------------------------------------------------ */

/* What a task or callback finds on its thread, and what it leaves there. */
struct cancelling {
    pthread_t thread;
    int found; /* the state of cancellation */
    bool enable;
    atomic_int ran;
    spn_timeout timeout;
};

static int note_and_leave(void *arg)
{
    struct cancelling *c = arg;

    c->thread = pthread_self();
    CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &c->found), 0);
    /* At once, and not at the next call that is a cancellation point. */
    CHECK_EQ(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &(int){ 0 }), 0);
    if (c->enable)
        CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &(int){ 0 }), 0);
    atomic_fetch_add(&c->ran, 1);
    return 0;
}

/* An idle worker that is cancelled goes on, also after a task that left cancellation
 * enabled and asynchronous. */
TEST_EACH(process__idle_worker_is_cancelled__goes_on, "G-21")
{
    for (int enable = 0; enable < 2; enable++) {
        struct cancelling c = { .enable = enable != 0 }, again = { .enable = false };
        struct bed b = bed_open(k, 1, 1);
        spn_executor *executor = spn_pool_executor(b.pool);

        REQUIRE_OK(spn_executor_call(executor, note_and_leave, &c));
        T_AWAIT(atomic_load(&c.ran) == 1 && pool_stats(b.pool).parked == 1);
        CHECK_EQ(c.found, PTHREAD_CANCEL_DISABLE);
        CHECK_EQ(pthread_cancel(c.thread), 0);
        REQUIRE_OK(spn_executor_call(executor, note_and_leave, &again));
        T_AWAIT(atomic_load(&again.ran) == 1);
        CHECK_EQ(again.found, PTHREAD_CANCEL_DISABLE);
        CHECK(pthread_equal(c.thread, again.thread));
        CHECK_EQ(pool_stats(b.pool).threads_died, 0);
        bed_close(&b);
    }
}

static int note_in_timer(spn_timeout *timeout)
{
    return note_and_leave((char *)timeout - offsetof(struct cancelling, timeout));
}

/* The same for the thread of a timer. */
TEST(process__timer_thread_is_cancelled__goes_on, "G-21")
{
    struct cancelling c = { .enable = false }, again = c;
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;
    spn_timer *timer;

    opts.drive = SPN_TIMER_THREAD;
    REQUIRE_OK(spn_timer_create(&timer, &opts));
    REQUIRE_OK(spn_timer_schedule(timer, &c.timeout, note_in_timer, 0));
    T_AWAIT(atomic_load(&c.ran) == 1);
    CHECK_EQ(c.found, PTHREAD_CANCEL_DISABLE);
    CHECK_EQ(pthread_cancel(c.thread), 0);
    REQUIRE_OK(spn_timer_schedule(timer, &again.timeout, note_in_timer, 0));
    T_AWAIT(atomic_load(&again.ran) == 1);
    CHECK_EQ(again.found, PTHREAD_CANCEL_DISABLE);
    CHECK(pthread_equal(c.thread, again.thread));
    CHECK_OK(spn_timer_stop(timer, NULL, NULL));
    CHECK_OK(spn_timer_destroy(timer));
}

/* ---- signals ----------------------------------------------------------------------------- */

static atomic_int handled_here, handled_elsewhere;
static pthread_t main_thread;

static void on_signal(int number)
{
    (void)number;
    atomic_fetch_add(pthread_equal(pthread_self(), main_thread) ? &handled_here
                                                                : &handled_elsewhere,
                     1);
}

static void child_of_worker(struct piece *p)
{
    sigset_t mask;

    sigemptyset(&mask);
    CHECK_OK(spn_thread_exec_sigmask(&mask));
    *(int *)p->arg = sigismember(&mask, SIGTERM);
}

/* Signals to the process reach the program's own threads, never a worker; and what a
 * worker starts has the mask the program had. */
TEST(process__signals__never_on_a_worker, "P35")
{
    struct sigaction action = { .sa_handler = on_signal }, before;
    spn_pool *pool = pool_of(4, 4, 8);
    const int rounds = t_rounds(500);
    struct piece p;
    int blocked = -1;

    main_thread = pthread_self();
    REQUIRE(sigaction(SIGTERM, &action, &before) == 0);
    CHECK_EQ(spn_pool_prestart(pool, SPN_DEFAULT), 4);
    for (int i = 0; i < rounds; i++) {
        REQUIRE(kill(getpid(), SIGTERM) == 0);
        T_AWAIT(atomic_load(&handled_here) + atomic_load(&handled_elsewhere) == i + 1);
    }
    CHECK_EQ(atomic_load(&handled_elsewhere), 0);
    piece_init(&p, NULL);
    p.act = child_of_worker;
    p.arg = &blocked;
    CHECK_OK(execute(pool, &p));
    pool_close(pool);
    CHECK_EQ(blocked, 0);
    REQUIRE(sigaction(SIGTERM, &before, NULL) == 0);
}

/* ---- idle ---------------------------------------------------------------------------------- */

static int64_t cpu_ns(void)
{
    struct timespec t;

    REQUIRE(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) == 0);
    return SPN_SEC(t.tv_sec) + t.tv_nsec;
}

static int sleep_on_clock(void *arg)
{
    return spn_clock_sleep_until(spn_clock_monotonic(), *(int64_t *)arg);
}

/* The CPU that the process uses while this thread sleeps. */
static int64_t used_in(int64_t length_ns)
{
    const int64_t before = cpu_ns();
    int64_t until = spn_now() + length_ns;

    CHECK_OK(sleep_on_clock(&until));
    return cpu_ns() - before;
}

/* An idle pool uses no CPU to speak of, whatever its shape.  The first looks may find some
 * of the spinning before sleep, which a busy machine puts off. */
TEST_EACH(process__idle_pool__burns_nothing, "P16")
{
    struct bed b = bed_with(k, opts_of(3, 4, 0), SPN_UNBOUNDED);
    const int64_t length = SPN_MS(60);
    struct piece p;
    int looks = 0;

    piece_init(&p, NULL);
    CHECK_EQ(spn_pool_prestart(b.pool, SPN_DEFAULT), 3);
    CHECK_OK(execute(b.pool, &p));
    pool_rest(b.pool);
    (void)used_in(length / 3);
    while (used_in(length) >= length / 20 && !T_INSTRUMENTED && looks < 50)
        looks++;
    CHECK(looks < 50);
    bed_close(&b);
}

/* ---- wakes --------------------------------------------------------------------------------- */

static int do_nothing(void *arg)
{
    (void)arg;
    return 0;
}

/* Tasks handed to a busy worker wake nobody: far fewer context switches than tasks. */
TEST_EACH(process__tasks_for_a_busy_worker__no_wake_each, "P39")
{
    struct bed b = bed_open(k, 1, 1);
    spn_latch *gate = gate_new();
    const int count = t_rounds(3000);
    struct rusage before, after;
    struct piece hold;

    piece_init(&hold, gate);
    start(b.pool, &hold);
    REQUIRE(getrusage(RUSAGE_SELF, &before) == 0);
    for (int i = 0; i < count; i++)
        CHECK_OK(spn_executor_call(spn_pool_executor(b.pool), do_nothing, NULL));
    gate_open(gate);
    pool_rest(b.pool);
    REQUIRE(getrusage(RUSAGE_SELF, &after) == 0);
    CHECK(after.ru_nvcsw - before.ru_nvcsw < count / 4 + 50);
    bed_close(&b);
    gate_free(gate);
}

static int be_busy(void *arg)
{
    const int64_t until = spn_now() + SPN_US(50);

    (void)arg;
    while (spn_now() < until) {
    }
    return 0;
}

/* How often the other threads of this process went to sleep. */
static long sleeps_of_others(void)
{
    struct rusage all, own;

    REQUIRE(getrusage(RUSAGE_SELF, &all) == 0 && getrusage(RUSAGE_THREAD, &own) == 0);
    return all.ru_nvcsw - own.ru_nvcsw;
}

/* Half the time there is a task, and else all sleep: each wakes one of them, who finds it,
 * and no other.  Some more may sleep on a lock; where locks are the system's own, and not a
 * futex, that is not counted. */
TEST_EACH(process__half_load__one_wake_per_task, "P39")
{
    struct bed b = bed_open(k, 4, 4);
    const int count = t_rounds(300);
    int64_t wakeups;
    long sleeps;

    CHECK_EQ(spn_pool_prestart(b.pool, SPN_DEFAULT), 4);
    T_AWAIT(pool_stats(b.pool).parked == 4);
    wakeups = pool_stats(b.pool).wakeups;
    sleeps = sleeps_of_others();
    for (int i = 0; i < count; i++) {
        CHECK_OK(spn_executor_call(spn_pool_executor(b.pool), be_busy, NULL));
        T_AWAIT(pool_stats(b.pool).completed == i + 1 &&
                pool_stats(b.pool).parked == 4);
    }
    wakeups = pool_stats(b.pool).wakeups - wakeups;
    sleeps = sleeps_of_others() - sleeps;
    CHECK(wakeups <= count);
#ifndef SPN_FUTEX_POSIX
    CHECK(T_INSTRUMENTED || sleeps <= count + count / 4 + 20);
#else
    (void)sleeps;
#endif
    bed_close(&b);
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static bool uses_pools_at_fork;

/* What a program's handlers of fork may do: make a pool, and end it. */
static void use_a_pool(void)
{
    spn_pool_opts opts = spn_pool_opts_fixed(1, 4);
    spn_pool *pool;

    if (!uses_pools_at_fork)
        return;
    REQUIRE_OK(spn_pool_create(&pool, &opts));
    CHECK_OK(spn_executor_call(spn_pool_executor(pool), nothing, NULL));
    CHECK_OK(spn_pool_close(pool));
    CHECK_OK(spn_pool_destroy(pool));
}

static void use_a_pool_in_child(void)
{
    if (!T_TSAN) /* which allows no thread there */
        use_a_pool();
}

/* Before the program uses the library. */
__attribute__((constructor)) static void handle_fork(void)
{
    (void)pthread_atfork(use_a_pool, use_a_pool, use_a_pool_in_child);
}

static void fork_with_handlers(void *arg)
{
    int status;
    pid_t pid;

    (void)arg;
    uses_pools_at_fork = true;
    use_a_pool();
    pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0)
        _exit(0);
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK_EQ(status, 0);
}

TEST(process__handlers_of_fork_use_pools__not_stuck, "G-29")
{
    CHECK_CHILD(fork_with_handlers, NULL);
}
