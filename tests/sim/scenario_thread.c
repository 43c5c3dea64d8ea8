/* SPDX-License-Identifier: MIT */
/* scenario_thread.c - handles, joins and records of threads that come and go. */
#include "sim.h"

#include <spindle.h>

#include "sync/thread_record.h"

static SPN__ATOMIC(int) payload, stopped;

static int work(void *arg)
{
    (void)arg;
    spn__store(&payload, 7, relaxed);
    return 5;
}

static void on_stop(void *arg)
{
    (void)arg;
    spn__store(&stopped, 1, relaxed);
}

static void reset(void)
{
    spn__init(&payload, 0);
    spn__init(&stopped, 0);
}

static int start(spn_thread **thread)
{
    spn_thread_opts opts = SPN_THREAD_OPTS_INIT;

    opts.on_stop = on_stop;
    return spn_thread_create(thread, &opts, work, NULL);
}

/* Join returns after the thread and its hook, sees what they did, and gives
 * the result; threads and records all go. */
SCENARIO(thread__join_races_end__sees_all, "G-19", "G-22")
{
    spn_thread *thread;
    int result = 0, rc;

    reset();
    rc = start(&thread);
    if (rc != SPN_OK) {
        sim_assert(thread == NULL && (rc == SPN_ENOMEM || rc == SPN_EAGAIN));
        return;
    }
    rc = spn_thread_join(thread, SPN_FOREVER, &result);
    if (rc == SPN_OK) {
        sim_assert(result == 5);
        sim_assert(spn__load(&payload, relaxed) == 7);
        sim_assert(spn__load(&stopped, relaxed) == 1);
    } else {
        sim_assert(rc == SPN_ENOMEM); /* no record for ourselves */
    }
    spn_thread_unref(thread);
}
SCENARIO_OPTS(thread__join_races_end__sees_all, .dfs = 1, .dfs_models = SIM_SC,
              .faults = true)

static void join_it(void *thread)
{
    int result = 0;

    sim_assert(spn_thread_join(thread, SPN_FOREVER, &result) == SPN_OK);
    sim_assert(result == 5);
    spn_thread_unref(thread);
}

/* Two joiners: both get the result, one of them reaps. */
SCENARIO(thread__two_joiners__both_get_the_result)
{
    spn_thread *thread;

    reset();
    sim_assert(start(&thread) == SPN_OK);
    sim_thread(join_it, spn_thread_ref(thread));
    join_it(thread);
    sim_join_all();
}

static void drop_it(void *thread)
{
    spn_thread_unref(thread);
}

/* Handles dropped by two threads while the thread ends: detached exactly once,
 * its record recycled exactly once. */
SCENARIO(thread__handles_dropped_while_it_ends__detached_once)
{
    spn_thread *thread;

    reset();
    sim_assert(start(&thread) == SPN_OK);
    sim_thread(drop_it, spn_thread_ref(thread));
    drop_it(thread);
    sim_join_all();
}
SCENARIO_OPTS(thread__handles_dropped_while_it_ends__detached_once, .dfs = 2,
              .dfs_models = SIM_SC)

/* A timed join gives up and a later one succeeds. */
SCENARIO(thread__timed_join__gives_up_or_succeeds, "G-7")
{
    spn_thread *thread;
    int rc;

    reset();
    sim_assert(start(&thread) == SPN_OK);
    rc = spn_thread_join(thread, 200, NULL);
    sim_assert(rc == SPN_OK || rc == SPN_ETIMEDOUT);
    sim_assert(spn_thread_join(thread, SPN_FOREVER, NULL) == SPN_OK);
    spn_thread_unref(thread);
}

static void foreign(void *arg)
{
    spn_thread *self = spn_thread_current();

    (void)arg;
    if (self != NULL) {
        sim_assert(spn_thread_current() == self);
        sim_assert(spn_thread_join(self, SPN_NOWAIT, NULL) == SPN_EINVAL);
    }
}

/* Foreign threads attach, and their records come back. */
SCENARIO(thread__foreign_threads__attach_and_leave, "G-14", "G-22")
{
    sim_thread(foreign, NULL);
    sim_thread(foreign, NULL);
    foreign(NULL);
    sim_join_all();
}
SCENARIO_OPTS(thread__foreign_threads__attach_and_leave, .faults = true)

static spn_thread *published;

static void publish_self(void *arg)
{
    (void)arg;
    published = spn_thread_ref(spn_thread_current());
}

/* An ended thread's handle stays good: unpark, interrupt and name do no harm. */
SCENARIO(thread__ended__handle_harmless, "LS-8", "G-14")
{
    const void *blocker = &published;
    char name[8];

    published = NULL;
    sim_thread(publish_self, NULL);
    sim_join_all();
    spn_unpark(published);
    sim_assert(spn_thread_interrupt(published) == SPN_OK);
    sim_assert(spn_thread_blocker(published, &blocker) == SPN_OK && blocker == NULL);
    sim_assert(spn_thread_name(published, name, sizeof name) >= 0);
    spn_thread_unref(published);
}

static int leave_early(void *arg)
{
    (void)arg;
    sim_exit();
}

/* A thread that leaves through pthread_exit still runs its hook and releases
 * its joiners. */
SCENARIO(thread__leaves_by_exit__joined_as_cancelled, "G-21")
{
    spn_thread_opts opts = SPN_THREAD_OPTS_INIT;
    spn_thread *thread;
    int result = 0;

    reset();
    opts.on_stop = on_stop;
    sim_assert(spn_thread_create(&thread, &opts, leave_early, NULL) == SPN_OK);
    sim_assert(spn_thread_join(thread, SPN_FOREVER, &result) == SPN_OK);
    sim_assert(result == SPN_ECANCELED);
    sim_assert(spn__load(&stopped, relaxed) == 1);
    spn_thread_unref(thread);
}

/* A nice value is asked for on the new thread, and create waits for the
 * answer. */
SCENARIO(thread__nice_requested__create_waits_for_the_answer)
{
    spn_thread_opts opts = SPN_THREAD_OPTS_INIT;
    spn_thread *thread;
    int rc;

    reset();
    opts.sched = SPN_SCHED_OTHER;
    opts.priority = 5;
    if (spn_thread_create(&thread, &opts, work, NULL) != SPN_OK)
        return;
    rc = spn_thread_join(thread, SPN_FOREVER, NULL);
    sim_assert(rc == SPN_OK || rc == SPN_ENOMEM); /* no record for ourselves */
    spn_thread_unref(thread);
}
SCENARIO_OPTS(thread__nice_requested__create_waits_for_the_answer, .faults = true)

static void use_and_drop(void *thread)
{
    spn_unpark(thread);
    spn_thread_unref(thread);
}

static void free_records(void *arg)
{
    (void)arg;
    spn__thread_cache_drain();
}

static void publish_and_end(void *arg)
{
    (void)arg;
    sim_thread(use_and_drop, spn_thread_ref(spn_thread_current()));
}

/* A record is free only when its thread and every handle are done with it,
 * whoever is last: freeing it then must not surprise anybody. */
SCENARIO(thread__record_freed_once_free__nobody_uses_it, "G-14", "G-16")
{
    sim_thread(publish_and_end, NULL);
    sim_thread(free_records, NULL);
    free_records(NULL);
    sim_join_all();
}

/* The same for a thread of the library that is dropped while it ends. */
SCENARIO(thread__own_record_freed_once_free__nobody_uses_it, "G-16")
{
    spn_thread *thread;

    reset();
    sim_assert(start(&thread) == SPN_OK);
    sim_thread(free_records, NULL);
    use_and_drop(thread);
    free_records(NULL);
    sim_join_all();
}
