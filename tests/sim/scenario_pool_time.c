/* SPDX-License-Identifier: MIT */
/*
 * scenario_pool_time.c - what a pool does as time passes: keep-alive, core time-out,
 * shrinking, and waits with a limit.
 *
 * Time is virtual: each step takes a few nanoseconds, and the rest passes only when no
 * thread can run, or when the explorer lets a timer expire early, and then it is that
 * time.  So "not before" is exact, and where no timer may expire early (.early =
 * SIM_NEVER) "at once" is too, but for the steps: a task that a lost wake-up left
 * lying, and a time-out rescued, shows as time that has passed.
 */
#include "pool_calls.h"
#include "sim.h"

#include <spindle.h>

#include "exec/pool.h"
#include "sync/seam.h"

#define KEEP  SPN_MS(10)
#define STEPS SPN_US(200) /* what the steps of a scenario take, at most */

enum { TASKS = 6 };

struct work {
    spn_job job; /* first */
    SPN__ATOMIC(int) started, ended, dropped;
    spn_latch *gate;
    int64_t at; /* when it ran */
    int order;  /* of starting, from 1, where one thread runs them all */
};

static spn_pool *pool;
static spn_scheduled *sched; /* whose pool that is, in some */
static spn_executor *ex;
static spn_latch *gate;
static struct work works[TASKS];
static int runs;

static int run(spn_task *task)
{
    struct work *w = (struct work *)(void *)task;

    w->at = sim_now();
    if (pool_stats(pool).max_threads == 1)
        w->order = ++runs;
    (void)spn__fetch_add(&w->started, 1, release);
    if (w->gate != NULL)
        sim_assert(spn_latch_await(w->gate, SPN_FOREVER) == SPN_OK);
    (void)spn__fetch_add(&w->ended, 1, release);
    return 0;
}

static void drop(spn_task *task, int reason)
{
    (void)reason;
    (void)spn__fetch_add(&((struct work *)(void *)task)->dropped, 1, release);
}

static void init_works(void)
{
    for (int i = 0; i < TASKS; i++) {
        works[i] = (struct work){ .job = SPN_JOB_INIT(run, drop) };
        spn__init(&works[i].started, 0);
        spn__init(&works[i].ended, 0);
        spn__init(&works[i].dropped, 0);
    }
    runs = 0;
    sim_assert(spn_latch_create(&gate, 1) == SPN_OK);
}

static void open_with(const spn_pool_opts *o)
{
    init_works();
    sim_assert(spn_pool_create(&pool, o) == SPN_OK);
    ex = spn_pool_executor(pool);
}

static void open_scheduled(const spn_scheduled_opts *o)
{
    init_works();
    sim_assert(spn_scheduled_create(&sched, o) == SPN_OK);
    pool = spn_scheduled_pool(sched);
    ex = spn_scheduled_executor(sched);
}

static void open_pool(int32_t core, int32_t max, int32_t capacity)
{
    spn_pool_opts o = SPN_POOL_OPTS_INIT;

    o.name = "t";
    o.core_threads = core;
    o.max_threads = max;
    o.queue_capacity = capacity;
    o.keep_alive_ns = KEEP;
    open_with(&o);
}

static void end_pool(void)
{
    spn_pool_stats s = SPN_POOL_STATS_INIT;

    sim_assert(pool_shutdown(pool) == SPN_OK);
    sim_assert(pool_await(pool, SPN_FOREVER) == SPN_OK);
    sim_assert(spn_pool_stats_get(pool, &s) == SPN_OK);
    sim_assert(s.pending == 0 && s.threads == 0 && s.queued == 0 && s.active == 0);
    sim_assert(s.accepted ==
               s.completed + s.failed + s.cancelled + s.returned + s.dropped);
    sim_assert(spn_latch_destroy(gate) == SPN_OK);
}

static void close_pool(void)
{
    end_pool();
    sim_assert(spn_pool_destroy(pool) == SPN_OK);
}

static void close_scheduled(void)
{
    end_pool();
    sim_assert(spn_scheduled_destroy(sched) == SPN_OK);
}

static void submit(int i)
{
    sim_assert(spn_executor_execute(ex, &works[i].job.task) == SPN_OK);
}

/* Submits, and waits until it runs; the waits between looks take time only when
 * nothing else can run. */
static void submit_and_see(int i)
{
    submit(i);
    while (spn__load(&works[i].ended, acquire) == 0)
        sim_sleep(1);
}

/* So many tasks held at the gate, each on a thread of its own. */
static void hold(int count)
{
    for (int i = 0; i < count; i++) {
        works[i].gate = gate;
        submit(i);
        while (spn__load(&works[i].started, acquire) == 0)
            sim_sleep(1);
    }
    sim_assert(pool_stats(pool).threads == count);
}

/* Waits until the pool has so many threads; it must not have fewer on the way. */
static void settle_at(int32_t threads)
{
    while (pool_stats(pool).threads != threads) {
        sim_assert(pool_stats(pool).threads >= threads);
        sim_sleep(KEEP / 4);
    }
}

/* The same, in time.  (What others did during a sleep need not be visible after it.) */
static void settle_within(int32_t threads, int64_t limit_ns)
{
    const int64_t since = sim_now();

    while (pool_stats(pool).threads != threads) {
        sim_assert(pool_stats(pool).threads >= threads);
        sim_assert(sim_now() - since <= limit_ns + STEPS);
        sim_sleep(SPN_US(100));
    }
}

/* Opens the gate and tells when: nobody has been idle before. */
static int64_t let_go(void)
{
    const int64_t now = sim_now();

    sim_assert(spn_latch_count_down(gate) == SPN_OK);
    return now;
}

/* ---- keep-alive ----------------------------------------------------------------- */

/* Threads above core that are idle for the keep-alive leave, not before, and those of
 * the core stay. */
SCENARIO(pool_time__idle_above_core__settles_at_core, "TPE-28 TPE-29 EXE-2 X-13")
{
    int64_t idle_since;

    open_pool(1, 3, SPN_HANDOFF);
    hold(3);
    idle_since = let_go();
    while (pool_stats(pool).threads == 3)
        sim_sleep(KEEP / 4);
    sim_assert(sim_now() - idle_since >= KEEP);
    settle_at(1);
    for (int i = 0; i < 3; i++) {
        sim_sleep(KEEP);
        sim_assert(pool_stats(pool).threads == 1); /* and stays */
    }
    sim_assert(pool_stats(pool).largest == 3);
    close_pool();
}

/* With core time-out all leave after the keep-alive, not before; a later task starts a
 * thread again. */
SCENARIO(pool_time__core_time_out__down_to_none_and_back, "TPE-30")
{
    int64_t idle_since;

    open_pool(2, 2, 4);
    sim_assert(pool_set_core_timeout(pool, 1) == SPN_OK);
    hold(2);
    idle_since = let_go();
    while (pool_stats(pool).threads == 2)
        sim_sleep(KEEP / 4);
    sim_assert(sim_now() - idle_since >= KEEP);
    settle_at(0);
    submit_and_see(2);
    sim_assert(pool_stats(pool).threads <= 1);
    close_pool();
}
SCENARIO_OPTS(pool_time__core_time_out__down_to_none_and_back,
              .no_faults = "waits for a second thread")

/* Time counts from the last task: a thread that is used in between stays. */
SCENARIO(pool_time__used_now_and_then__stays, "TPE-30")
{
    open_pool(0, 1, 4);
    for (int i = 0; i < 3; i++) {
        submit_and_see(i);
        sim_sleep(KEEP / 2);
    }
    close_pool();
}

/* A shorter keep-alive, or core time-out turned on, is heard by who waits already. */
SCENARIO(pool_time__keep_alive_shortened__idle_threads_hear, "TPE-31")
{
    int64_t since;

    open_pool(1, 2, SPN_HANDOFF);
    sim_assert(pool_set_keep_alive(pool, SPN_SEC(180)) == SPN_OK);
    hold(2);
    (void)let_go();
    sim_settle(); /* both wait now, one of them for three minutes */
    since = sim_now();
    sim_assert(pool_set_keep_alive(pool, SPN_MS(7)) == SPN_OK);
    settle_within(1, SPN_MS(7));
    sim_assert(pool_set_core_timeout(pool, 1) == SPN_OK);
    settle_within(0, SPN_MS(7));
    sim_assert(sim_now() - since < SPN_SEC(1));
    close_pool();
}
SCENARIO_OPTS(pool_time__keep_alive_shortened__idle_threads_hear, .early = SIM_NEVER)

/* A smaller core lets idle threads go after the keep-alive they have begun. */
SCENARIO(pool_time__core_lowered_while_idle__surplus_leaves, "TPE-32 TPE-28")
{
    open_pool(3, 3, 4);
    sim_assert(spn_pool_prestart(pool, SPN_DEFAULT) == 3);
    sim_sleep(3 * KEEP);
    sim_assert(pool_stats(pool).threads == 3);
    sim_assert(pool_set_core(pool, 1) == SPN_OK);
    settle_within(1, KEEP);
    close_pool();
}
SCENARIO_OPTS(pool_time__core_lowered_while_idle__surplus_leaves, .early = SIM_NEVER)

/* Two leave at once with core 1: one of them stays. */
SCENARIO(pool_time__two_time_out_together__not_below_core, "TPE-28")
{
    open_pool(1, 2, SPN_HANDOFF);
    hold(2);
    (void)let_go();
    settle_at(1);
    sim_sleep(KEEP);
    sim_assert(pool_stats(pool).threads == 1);
    close_pool();
}
SCENARIO_OPTS(pool_time__two_time_out_together__not_below_core, .early = 4)

/* ---- nobody is forgotten ------------------------------------------------------------ */

static void submit_later(void *arg)
{
    const int i = (int)(intptr_t)arg;

    sim_sleep(KEEP);
    submit(i);
}

/* A task that comes in the very moment the last thread leaves runs at once: no time
 * passes, so no time-out came to its rescue. */
SCENARIO(pool_time__task_as_the_last_thread_leaves__runs_at_once, "TPE-35 P1 G-20")
{
    int64_t asked;

    open_pool(0, 1, 4);
    submit_and_see(0);
    sim_thread(submit_later, (void *)1);
    sim_sleep(KEEP);
    asked = sim_now();
    submit(2);
    sim_join_all();
    sim_settle();
    for (int i = 1; i < 3; i++) {
        sim_assert(spn__load(&works[i].ended, acquire) == 1);
        sim_assert(works[i].at - asked <= STEPS);
    }
    close_pool();
}
SCENARIO_OPTS(pool_time__task_as_the_last_thread_leaves__runs_at_once,
              .early = SIM_NEVER, .spurious = SIM_NEVER)

/* The same with a queue of the user's, and with priorities. */
SCENARIO(pool_time__the_same_with_other_queues__runs_at_once, "TPE-35 P1")
{
    spn_pool_opts o = SPN_POOL_OPTS_INIT;
    spn_queue *queue = NULL;
    int64_t asked;

    o.name = "t";
    o.core_threads = 0;
    o.max_threads = 1;
    o.keep_alive_ns = KEEP;
    if (sim_choose(2) == 0) {
        sim_assert(spn_queue_create(&queue, SPN_QUEUE_LINKED, NULL) == SPN_OK);
        o.queue = queue;
    } else {
        o.queue_kind = SPN_POOL_PRIORITY;
    }
    open_with(&o);
    submit_and_see(0);
    sim_sleep(KEEP);
    asked = sim_now();
    submit(1);
    sim_settle();
    sim_assert(spn__load(&works[1].ended, acquire) == 1);
    sim_assert(works[1].at - asked <= STEPS);
    close_pool();
    sim_assert(spn_queue_destroy(queue) == SPN_OK);
}
SCENARIO_OPTS(pool_time__the_same_with_other_queues__runs_at_once, .early = SIM_NEVER,
              .spurious = SIM_NEVER)

/* A keep-alive of nothing: threads come and go, each task runs. */
SCENARIO(pool_time__no_keep_alive__each_task_runs, "TPE-2 TPE-35 P1 P37")
{
    spn_pool_opts o = SPN_POOL_OPTS_INIT;

    o.name = "t";
    o.core_threads = 0;
    o.max_threads = 2;
    o.queue_capacity = 4;
    o.keep_alive_ns = 0;
    open_with(&o);
    sim_thread(submit_later, (void *)0);
    sim_sleep(KEEP);
    submit(1);
    submit(2);
    sim_join_all();
    sim_settle();
    for (int i = 0; i < 3; i++)
        while (spn__load(&works[i].ended, acquire) == 0)
            sim_sleep(KEEP);
    settle_at(0);
    close_pool();
}

/* ---- who waits for a delayed task ---------------------------------------------------- */

/* One worker is made to wait for a delayed task, and stays although its keep-alive
 * passes many times; the task runs when it is due. */
SCENARIO(pool_time__delayed_task__one_worker_waits_for_it, "TPE-36 TPE-27")
{
    spn_scheduled_opts o = SPN_SCHEDULED_OPTS_INIT;
    spn_pool_stats s;
    int64_t due_ns;

    o.name = "t";
    o.core_threads = 0;
    o.core_timeout = 1;
    o.keep_alive_ns = SPN_MS(1);
    open_scheduled(&o);
    due_ns = sim_now() + SPN_MS(9);
    sim_assert(spn_scheduled_execute(sched, &works[0].job.task, SPN_MS(9)) == SPN_OK);
    while (spn__load(&works[0].ended, acquire) == 0)
        sim_sleep(SPN_MS(1));
    sim_assert(works[0].at >= due_ns);
    s = pool_stats(pool);
    sim_assert(s.threads_started == 1);
    settle_at(0);
    close_scheduled();
}

/* Two workers stay for a delayed task when the pool is shut down; the one that runs it
 * leaves, and so does the other. */
SCENARIO(pool_time__delayed_task_in_a_shut_down_pool__both_leave, "TPE-36 TPE-61")
{
    spn_scheduled_opts o = SPN_SCHEDULED_OPTS_INIT;
    int64_t due_ns;

    o.name = "t";
    o.core_threads = 2;
    open_scheduled(&o);
    submit(0); /* these start the workers */
    submit(1);
    due_ns = sim_now() + SPN_MS(9);
    sim_assert(spn_scheduled_execute(sched, &works[2].job.task, SPN_MS(9)) == SPN_OK);
    close_scheduled();
    sim_assert(works[2].at >= due_ns);
}

/* ---- after a burst --------------------------------------------------------------------- */

/* The eager pool is back at its core after the burst. */
SCENARIO(pool_time__eager_after_a_burst__shrinks_to_core, "X-12 TPE-28 P37")
{
    spn_pool_opts o = spn_pool_opts_eager(1, 3, 2, KEEP);
    spn_pool_stats s = SPN_POOL_STATS_INIT;

    o.name = "t";
    open_with(&o);
    hold(3);
    (void)let_go();
    settle_at(1);
    do { /* the one that stays may be about to end its task */
        sim_sleep(KEEP);
        sim_assert(spn_pool_stats_get(pool, &s) == SPN_OK);
    } while (s.submitted != 0);
    sim_assert(s.largest == 3);
    close_pool();
}
SCENARIO_OPTS(pool_time__eager_after_a_burst__shrinks_to_core,
              .no_faults = "waits for a second thread")

/* A spike and then a trickle: the pool converges to its core though there is always a
 * little to do, and makes no thread again. */
SCENARIO(pool_time__trickle_after_a_spike__converges, "P37 TPE-28")
{
    spn_pool_stats s = SPN_POOL_STATS_INIT;

    open_pool(1, 3, 1);
    /* The queue is full after the second: the third and fourth make threads. */
    works[0].gate = works[1].gate = works[2].gate = works[3].gate = gate;
    for (int i = 0; i < 4; i++)
        submit(i);
    sim_assert(pool_stats(pool).threads == 3);
    (void)let_go();
    sim_settle();
    for (int i = 0; i < 8; i++) {
        spn__init(&works[4].ended, 0);
        submit_and_see(4); /* every half keep-alive */
        sim_sleep(KEEP / 2);
    }
    sim_assert(spn_pool_stats_get(pool, &s) == SPN_OK);
    sim_assert(s.threads == 1);
    sim_assert(s.threads_started == 3);
    close_pool();
}
SCENARIO_OPTS(pool_time__trickle_after_a_spike__converges, .early = SIM_NEVER)

/* Since `began` this long has passed, and no more than the steps took. */
static bool took(int64_t began, int64_t length_ns)
{
    const int64_t passed = sim_now() - began;

    return passed >= length_ns && passed <= length_ns + STEPS;
}

/* ---- waits with a limit ------------------------------------------------------------------ */

/* await gives up at its time, exactly. */
SCENARIO(pool_time__await__gives_up_at_its_time, "TPE-59 G-7")
{
    int64_t began;

    open_pool(1, 1, 4);
    hold(1);
    began = sim_now();
    sim_assert(pool_await(pool, SPN_MS(12)) == SPN_ETIMEDOUT);
    sim_assert(took(began, SPN_MS(12)));
    (void)let_go();
    close_pool();
}
SCENARIO_OPTS(pool_time__await__gives_up_at_its_time, .early = SIM_NEVER)

/* The block policy waits a minute by default; see S-6. */
SCENARIO(pool_time__block_by_default__a_minute, "S-6 G-7")
{
    static const spn_reject_block block = SPN_REJECT_BLOCK_INIT(0);
    int64_t began;

    open_pool(1, 1, 1);
    sim_assert(pool_set_reject(pool, &block.policy) == SPN_OK);
    hold(1);
    submit(1);
    began = sim_now();
    sim_assert(spn_executor_execute(ex, &works[2].job.task) == SPN_ETIMEDOUT);
    sim_assert(took(began, SPN_SEC(60)));
    sim_assert(works[2].job.task.queued == 0);
    (void)let_go();
    close_pool();
}
SCENARIO_OPTS(pool_time__block_by_default__a_minute, .early = SIM_NEVER)

static void free_a_place(void *arg)
{
    (void)arg;
    sim_sleep(SPN_MS(3));
    (void)let_go();
}

/* Room that comes in time is taken at once. */
SCENARIO(pool_time__block_and_room_in_time__taken_at_once, "S-6 G-20")
{
    static const spn_reject_block block = SPN_REJECT_BLOCK_INIT(SPN_MS(5));
    int64_t began;

    open_pool(1, 1, 1);
    sim_assert(pool_set_reject(pool, &block.policy) == SPN_OK);
    hold(1);
    submit(1);
    sim_thread(free_a_place, NULL);
    began = sim_now();
    submit(2);
    sim_assert(took(began, SPN_MS(3)));
    sim_join_all();
    close_pool();
}
SCENARIO_OPTS(pool_time__block_and_room_in_time__taken_at_once, .early = SIM_NEVER,
              .spurious = SIM_NEVER)

static int64_t returned;

static void take_back(void *ctx, spn_task *task, spn_run_fn fn, void *arg)
{
    (void)fn;
    (void)arg;
    (void)ctx;
    (void)task;
    returned++;
}

/* drain ends with the last task, if that is in time. */
SCENARIO(pool_time__drain_in_time__ends_with_the_last_task, "X-17")
{
    int64_t began, count = -1;

    returned = 0;
    open_pool(1, 1, 4);
    works[0].gate = gate;
    submit(0);
    while (spn__load(&works[0].started, acquire) == 0)
        sim_sleep(1);
    submit(1);
    began = sim_now();
    sim_thread(free_a_place, NULL);
    sim_assert(spn_pool_drain(pool, SPN_MS(5), take_back, NULL, &count) == SPN_OK);
    sim_assert(took(began, SPN_MS(3)));
    sim_assert(count == 0 && returned == 0);
    sim_join_all();
    close_pool();
}
SCENARIO_OPTS(pool_time__drain_in_time__ends_with_the_last_task, .early = SIM_NEVER,
              .spurious = SIM_NEVER)

static int run_until_told(spn_task *task)
{
    struct work *w = (struct work *)(void *)task;

    (void)spn__fetch_add(&w->started, 1, release);
    sim_assert(spn_latch_await(gate, SPN_FOREVER) == SPN_EINTR);
    (void)spn__fetch_add(&w->ended, 1, release);
    return 0;
}

/* Else it gives back what did not start, at its time, and waits no longer. */
SCENARIO(pool_time__drain_out_of_time__stops_the_rest, "X-17 TPE-52")
{
    int64_t began, count = -1;

    returned = 0;
    open_pool(1, 1, 4);
    works[0].job.task.fn = run_until_told;
    submit(0);
    while (spn__load(&works[0].started, acquire) == 0)
        sim_sleep(1);
    submit(1);
    began = sim_now();
    sim_assert(spn_pool_drain(pool, SPN_MS(5), take_back, NULL, &count) ==
               SPN_ETIMEDOUT);
    sim_assert(took(began, SPN_MS(5)));
    sim_assert(count == 1 && returned == 1);
    close_pool();
}
SCENARIO_OPTS(pool_time__drain_out_of_time__stops_the_rest, .early = SIM_NEVER,
              .spurious = SIM_NEVER)

/* ---- jobs --------------------------------------------------------------------------------- */

/* A job whose deadline passes in the queue is dropped at its turn; one a moment later
 * runs. */
SCENARIO(pool_time__deadline_in_the_queue__dropped_or_run, "P19")
{
    spn_pool_stats s = SPN_POOL_STATS_INIT;

    open_pool(1, 1, 4);
    hold(1);
    works[1].job.deadline_ns = spn_now() + KEEP - 1;
    works[2].job.deadline_ns = spn_now() + 2 * KEEP;
    submit(1);
    submit(2);
    sim_sleep(KEEP);
    (void)let_go();
    sim_settle();
    sim_assert(spn__load(&works[1].dropped, acquire) == 1);
    sim_assert(spn__load(&works[1].started, acquire) == 0);
    sim_assert(spn__load(&works[2].ended, acquire) == 1);
    sim_assert(spn_pool_stats_get(pool, &s) == SPN_OK);
    sim_assert(s.expired == 1 && s.dropped == 1);
    close_pool();
}
SCENARIO_OPTS(pool_time__deadline_in_the_queue__dropped_or_run, .early = SIM_NEVER)

/* A low priority that has waited age_ns for each step it is behind comes first. */
SCENARIO(pool_time__ageing__a_step_for_each_age, "P43")
{
    spn_pool_opts o = SPN_POOL_OPTS_INIT;

    o.name = "t";
    o.core_threads = o.max_threads = 1;
    o.queue_kind = SPN_POOL_PRIORITY;
    o.age_ns = SPN_MS(1);
    open_with(&o);
    hold(1);
    submit(1);            /* priority 0 */
    sim_sleep(SPN_MS(5)); /* five steps old */
    works[2].job.priority = 4;
    works[3].job.priority = 6;
    submit(2);
    submit(3);
    (void)let_go();
    sim_settle();
    sim_assert(works[3].order == 2 && works[1].order == 3 && works[2].order == 4);
    close_pool();
}
SCENARIO_OPTS(pool_time__ageing__a_step_for_each_age, .early = SIM_NEVER)
