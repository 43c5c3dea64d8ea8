/* SPDX-License-Identifier: MIT */
/* scenario_semaphore.c - permits are neither lost nor doubled, whoever leaves. */
#include "sim.h"

#include <spindle.h>

#include "sync/seam.h"

static spn_semaphore *semaphore;
static SPN__ATOMIC(int) inside, payload;

static bool create(int32_t permits, bool fair)
{
    spn_semaphore_opts opts = SPN_SEMAPHORE_OPTS_INIT;

    opts.permits = permits;
    opts.fair = fair;
    spn__init(&inside, 0);
    spn__init(&payload, 0);
    return spn_semaphore_create(&semaphore, &opts) == SPN_OK;
}

static void finish(int32_t permits)
{
    sim_join_all();
    sim_assert(spn_semaphore_available(semaphore) == permits);
    sim_assert(spn_semaphore_destroy(semaphore) == SPN_OK);
}

static void use_one(void *arg)
{
    (void)arg;
    sim_assert(spn_semaphore_acquire(semaphore, 1, SPN_FOREVER) == SPN_OK);
    sim_assert(spn__load(&inside, relaxed) == 0);
    spn__store(&inside, 1, relaxed);
    spn__store(&inside, 0, relaxed);
    sim_assert(spn_semaphore_release(semaphore, 1) == SPN_OK);
}

/* One permit is a mutex: exclusion, hand-over, nobody forgotten. */
SCENARIO(semaphore__one_permit__excludes, "G-19", "G-20")
{
    if (!create(1, sim_choose(2) == 1))
        return;
    sim_thread(use_one, NULL);
    sim_thread(use_one, NULL);
    use_one(NULL);
    finish(1);
}

static void release_with_payload(void *count)
{
    spn__store(&payload, 7, relaxed);
    sim_assert(spn_semaphore_release(semaphore, (int32_t)(intptr_t)count) == SPN_OK);
}

/* Release and acquire in any order: the permit arrives, with what came before;
 * the thread that got it destroys the semaphore at once. */
SCENARIO(semaphore__destroyed_by_the_served__release_touches_nothing, "G-17", "G-19")
{
    if (!create(0, sim_choose(2) == 1))
        return;
    sim_thread(release_with_payload, (void *)1);
    sim_assert(spn_semaphore_acquire(semaphore, 1, SPN_FOREVER) == SPN_OK);
    sim_assert(spn__load(&payload, relaxed) == 7);
    sim_assert(spn_semaphore_destroy(semaphore) == SPN_OK);
    sim_join_all();
}
SCENARIO_OPTS(semaphore__destroyed_by_the_served__release_touches_nothing, .dfs = 2,
              .dfs_models = SIM_SC)

static void acquire_timed(void *count)
{
    const int32_t wants = (int32_t)(intptr_t)count;
    const int rc = spn_semaphore_acquire(semaphore, wants, 400);

    sim_assert(rc == SPN_OK || rc == SPN_ETIMEDOUT);
    if (rc == SPN_OK)
        sim_assert(spn_semaphore_release(semaphore, wants) == SPN_OK);
}

/* A large request at the head times out: those behind it, who want less, are
 * served from what was there. */
SCENARIO(semaphore__head_leaves__smaller_ones_served, "G-11", "G-20")
{
    if (!create(1, true))
        return;
    sim_thread(acquire_timed, (void *)2);
    use_one(NULL);
    finish(1);
}
SCENARIO_OPTS(semaphore__head_leaves__smaller_ones_served, .dfs = 1,
              .dfs_models = SIM_SC)

/* Served and timed out at once: the permits are taken or still there. */
SCENARIO(semaphore__timeout_races_release__permits_exact, "G-7", "G-11")
{
    if (!create(0, sim_choose(2) == 1))
        return;
    sim_thread(release_with_payload, (void *)2);
    sim_thread(acquire_timed, (void *)1);
    acquire_timed((void *)2);
    finish(2);
}

static void acquire_two(void *arg)
{
    (void)arg;
    sim_assert(spn_semaphore_acquire(semaphore, 2, SPN_FOREVER) == SPN_OK);
    sim_assert(spn__load(&payload, relaxed) == 7);
    sim_assert(spn_semaphore_release(semaphore, 2) == SPN_OK);
}

/* Two releases of one serve a request for two. */
SCENARIO(semaphore__bulk_request__served_by_two_releases, "G-20")
{
    if (!create(0, sim_choose(2) == 1))
        return;
    sim_thread(release_with_payload, (void *)1);
    sim_thread(release_with_payload, (void *)1);
    acquire_two(NULL);
    finish(2);
}

static void try_one(void *arg)
{
    (void)arg;
    if (spn_semaphore_acquire(semaphore, 1, 0) == SPN_OK)
        sim_assert(spn_semaphore_release(semaphore, 1) == SPN_OK);
}

/* One that does not wait among those that do: nothing lost. */
SCENARIO(semaphore__try_races_waiters__permits_exact, "G-11")
{
    if (!create(2, sim_choose(2) == 1))
        return;
    sim_thread(try_one, NULL);
    sim_thread(use_one, NULL);
    sim_assert(spn_semaphore_acquire(semaphore, 2, SPN_FOREVER) == SPN_OK);
    sim_assert(spn_semaphore_release(semaphore, 2) == SPN_OK);
    finish(2);
}

/* More than fits is refused, and nothing is added. */
SCENARIO(semaphore__release_overflows__refused, "G-3")
{
    if (!create(SPN_SEMAPHORE_MAX, false))
        return;
    sim_assert(spn_semaphore_release(semaphore, 1) == SPN_ERANGE);
    finish(SPN_SEMAPHORE_MAX);
}

/* A permit that was taken without waiting brings what came before its release. */
SCENARIO(semaphore__taken_at_once__work_before_the_release_seen, "G-19")
{
    int rc;

    if (!create(0, false))
        return;
    sim_thread(release_with_payload, (void *)2);
    rc = spn_semaphore_acquire(semaphore, 1, 0);
    if (rc == SPN_OK)
        sim_assert(spn__load(&payload, relaxed) == 7);
    sim_join_all();
    sim_assert(spn_semaphore_available(semaphore) == (rc == SPN_OK ? 1 : 2));
    sim_assert(spn_semaphore_destroy(semaphore) == SPN_OK);
}
SCENARIO_OPTS(semaphore__taken_at_once__work_before_the_release_seen, .dfs = 2)

static int waiter_status;

static void acquire_two_timed(void *arg)
{
    (void)arg;
    waiter_status = spn_semaphore_acquire(semaphore, 2, 400);
}

/* A permit that nobody gets is never out of sight: a try fails only if
 * the waiter for two was served. */
SCENARIO(semaphore__waiter_gives_up__permits_stay_in_sight, "G-11")
{
    int rc;

    if (!create(1, false))
        return;
    waiter_status = SPN_OK;
    sim_thread(acquire_two_timed, NULL);
    sim_thread(release_with_payload, (void *)1);
    rc = spn_semaphore_acquire(semaphore, 1, 0);
    sim_join_all();
    sim_assert(rc == SPN_OK || waiter_status == SPN_OK);
    sim_assert(spn_semaphore_destroy(semaphore) == SPN_OK);
}
