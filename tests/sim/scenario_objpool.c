/* SPDX-License-Identifier: MIT */
/*
 * scenario_objpool.c - borrow against return against passes against shutdown.
 *
 * Things count how often they are made, lent and destroyed; each use raises a number in
 * the thing with a relaxed load and a relaxed store, so that an order that is missing
 * between two borrowers shows as a lost one.
 */
#include "sim.h"

#include <spindle/object_pool.h>
#include <spindle/thread.h>

#include "sync/seam.h"

enum { THINGS = 40 };

static struct thing {
    SPN__ATOMIC(uint32_t) alive; /* 1 from make to destroy */
    SPN__ATOMIC(uint32_t) out;   /* borrowers, as they see it */
    SPN__ATOMIC(uint32_t) used;  /* times */
} things[THINGS];
static SPN__ATOMIC(uint32_t) next_thing, made, destroyed, served, fail_makes;
static SPN__ATOMIC(uint32_t) refuse_thing; /* the number validate does not like, + 1 */
static uint32_t limit;
static spn_object_pool *pool;

static int make(void *ctx, void **object)
{
    uint32_t fails = spn__load(&fail_makes, relaxed);
    struct thing *thing;

    (void)ctx;
    while (fails != 0)
        if (spn__cas(&fail_makes, &fails, fails - 1, relaxed, relaxed))
            return -77;
    sim_assert(spn__fetch_add(&made, 1, relaxed) - spn__load(&destroyed, relaxed) <
               limit);
    thing = &things[spn__fetch_add(&next_thing, 1, relaxed)];
    sim_assert(thing < things + THINGS);
    spn__store(&thing->alive, 1, relaxed);
    *object = thing;
    return 0;
}

static int validate(void *ctx, void *object)
{
    const struct thing *thing = object;

    (void)ctx;
    return spn__load(&refuse_thing, relaxed) == (uint32_t)(thing - things) + 1 ? -1 : 0;
}

static int reset(void *ctx, void *object)
{
    struct thing *thing = object;

    (void)ctx;
    sim_assert(spn__load(&thing->alive, relaxed) == 1);
    sim_assert(spn__load(&thing->out, relaxed) == 0);
    return 0;
}

static void destroy(void *ctx, void *object)
{
    struct thing *thing = object;

    (void)ctx;
    sim_assert(spn__load(&thing->out, relaxed) == 0);
    sim_assert(spn__exchange(&thing->alive, 0, relaxed) == 1);
    (void)spn__fetch_add(&destroyed, 1, relaxed);
}

static spn_object_pool_opts options(uint32_t max)
{
    spn_object_pool_opts opts = SPN_OBJECT_POOL_OPTS_INIT;

    opts.max = limit = max;
    opts.factory.make = make;
    opts.factory.destroy = destroy;
    return opts;
}

static bool create(const spn_object_pool_opts *opts)
{
    for (int i = 0; i < THINGS; i++) {
        spn__init(&things[i].alive, 0);
        spn__init(&things[i].out, 0);
        spn__init(&things[i].used, 0);
    }
    spn__init(&next_thing, 0);
    spn__init(&made, 0);
    spn__init(&destroyed, 0);
    spn__init(&served, 0);
    spn__init(&fail_makes, 0);
    spn__init(&refuse_thing, 0);
    return spn_object_pool_create(&pool, opts) == SPN_OK;
}

/* The end, and the books: each thing made was destroyed, each use is in one. */
static void finish(void)
{
    uint32_t used = 0;

    sim_join_all();
    sim_assert(spn_object_pool_shutdown(pool) == SPN_OK);
    sim_assert(spn_object_pool_destroy(pool) == SPN_OK);
    for (int i = 0; i < THINGS; i++) {
        sim_assert(spn__load(&things[i].alive, relaxed) == 0);
        used += spn__load(&things[i].used, relaxed);
    }
    sim_assert(spn__load(&made, relaxed) == spn__load(&destroyed, relaxed));
    sim_assert(used == spn__load(&served, relaxed));
}

/* What a borrower does with a thing. */
static void use(struct thing *thing)
{
    sim_assert(spn__fetch_add(&thing->out, 1, relaxed) == 0);
    sim_assert(spn__load(&thing->alive, relaxed) == 1);
    spn__store(&thing->used, spn__load(&thing->used, relaxed) + 1, relaxed);
    (void)spn__fetch_add(&served, 1, relaxed);
    (void)spn__fetch_sub(&thing->out, 1, relaxed);
}

/* Borrows, uses, and returns or invalidates; false if it got none. */
static bool turn(int64_t timeout_ns, bool broken)
{
    void *object;
    const int rc = spn_object_pool_borrow(pool, &object, timeout_ns);

    if (rc != SPN_OK) {
        sim_assert(object == NULL);
        sim_assert(rc == SPN_ESHUTDOWN || rc == SPN_ENOMEM || rc == SPN_EFAILED ||
                   (rc == SPN_ETIMEDOUT && timeout_ns != SPN_FOREVER));
        return false;
    }
    use(object);
    sim_assert((broken ? spn_object_pool_invalidate(pool, object)
                       : spn_object_pool_return(pool, object)) == SPN_OK);
    return true;
}

static void one_turn(void *arg)
{
    (void)arg;
    (void)turn(SPN_FOREVER, false);
}

static void broken_turn(void *arg)
{
    (void)arg;
    (void)turn(SPN_FOREVER, true);
}

/* One thing, three borrowers: one at a time, nobody forgotten. */
SCENARIO(objpool__one_object__lent_to_one_at_a_time, "OBJ-1", "OBJ-4", "S-10", "G-20")
{
    spn_object_pool_opts opts = options(1);

    opts.fair = sim_choose(2);
    if (sim_choose(2) == 1)
        opts.factory.reset = reset;
    if (!create(&opts))
        return;
    sim_thread(one_turn, NULL);
    sim_thread(one_turn, NULL);
    one_turn(NULL);
    finish();
}
SCENARIO_OPTS(objpool__one_object__lent_to_one_at_a_time, .faults = true)

/* The same with two borrowers, all schedules of few preemptions. */
SCENARIO(objpool__two_borrowers__one_waits_for_the_other, "OBJ-1", "OBJ-4", "OBJ-22")
{
    spn_object_pool_opts opts = options(1);

    if (!create(&opts))
        return;
    sim_thread(one_turn, NULL);
    sim_assert(turn(SPN_FOREVER, false));
    finish();
    sim_assert(spn__load(&made, relaxed) == 1);
}
SCENARIO_OPTS(objpool__two_borrowers__one_waits_for_the_other, .dfs = 1,
              .dfs_models = SIM_SC)

/* Invalidation makes room for another object, for one who waits too. */
SCENARIO(objpool__invalidated__another_is_made, "OBJ-2", "OBJ-4", "OBJ-8", "OBJ-12")
{
    const spn_object_pool_opts opts = options(1);

    if (!create(&opts))
        return;
    sim_thread(broken_turn, NULL);
    sim_thread(one_turn, NULL);
    broken_turn(NULL);
    finish();
}

/* A make that fails leaves its place to the next. */
SCENARIO(objpool__make_fails__next_in_turn, "OBJ-4", "OBJ-10")
{
    spn_object_pool_opts opts = options(1);
    bool got;

    opts.fair = sim_choose(2);
    if (!create(&opts))
        return;
    spn__init(&fail_makes, 1);
    sim_thread(one_turn, NULL);
    sim_thread(one_turn, NULL);
    got = turn(SPN_FOREVER, false);
    finish();
    sim_assert(spn__load(&served, relaxed) == 2);
    sim_outcome(got ? 1 : 0);
}

/* What validate refuses is replaced, and nobody has it. */
SCENARIO(objpool__validated__refused_are_replaced, "OBJ-2", "OBJ-11", "OBJ-12")
{
    spn_object_pool_opts opts = options(1);

    opts.factory.validate = validate;
    if (!create(&opts))
        return;
    sim_assert(turn(SPN_FOREVER, false));
    spn__store(&refuse_thing, 1, relaxed);
    sim_thread(one_turn, NULL);
    sim_assert(turn(SPN_FOREVER, false));
    finish();
    sim_assert(spn__load(&made, relaxed) == 2);
}

static void timed_turn(void *arg)
{
    (void)arg;
    (void)turn(400, false);
}

/* A time-out, a return and another borrower: no object is lost between them. */
SCENARIO(objpool__timeout_races_return__object_not_lost, "OBJ-3", "OBJ-4")
{
    spn_object_pool_opts opts = options(1);

    opts.fair = sim_choose(2);
    if (!create(&opts))
        return;
    sim_thread(timed_turn, NULL);
    sim_thread(timed_turn, NULL);
    sim_assert(turn(SPN_FOREVER, false));
    finish();
}

static int interrupted_borrow(void *arg)
{
    void *object;
    const int rc = spn_object_pool_borrow(pool, &object, SPN_FOREVER);

    (void)arg;
    sim_assert(rc == SPN_OK || rc == SPN_EINTR);
    sim_assert(rc == SPN_OK || spn_thread_interrupted() == 0);
    if (rc == SPN_OK) {
        use(object);
        sim_assert(spn_object_pool_return(pool, object) == SPN_OK);
    }
    return 0;
}

/* Served and interrupted at once: one of the two, and the object is there. */
SCENARIO(objpool__interrupt_races_return__one_of_the_two, "OBJ-3", "G-12")
{
    const spn_object_pool_opts opts = options(1);
    spn_thread *thread;
    void *object;

    if (!create(&opts))
        return;
    sim_assert(spn_object_pool_borrow(pool, &object, 0) == SPN_OK);
    sim_assert(spn_thread_create(&thread, NULL, interrupted_borrow, NULL) == SPN_OK);
    sim_assert(spn_thread_interrupt(thread) == SPN_OK);
    use(object);
    sim_assert(spn_object_pool_return(pool, object) == SPN_OK);
    sim_assert(spn_thread_join(thread, SPN_FOREVER, NULL) == SPN_OK);
    spn_thread_unref(thread);
    sim_assert(turn(0, false));
    finish();
}

static void pass(void *arg)
{
    (void)arg;
    const int rc = spn_object_pool_maintain(pool);

    sim_assert(rc == SPN_OK || rc == SPN_EBUSY || rc == SPN_ESHUTDOWN ||
               rc == SPN_EFAILED);
}

/* Eviction, borrowing and returning in any order: no more than max, each destroyed
 * once, and whoever waits is served. */
SCENARIO(objpool__evicted_while_borrowed__each_destroyed_once, "OBJ-2", "OBJ-12",
         "OBJ-14", "OBJ-15")
{
    spn_object_pool_opts opts = options(1);

    opts.idle_ns = 1;
    opts.max_age_ns = sim_choose(2) == 1 ? 1 : 0;
    opts.min_idle = sim_choose(2);
    if (!create(&opts))
        return;
    sim_assert(turn(SPN_FOREVER, false));
    pass(NULL);
    sim_sleep(10);
    sim_thread(pass, NULL);
    sim_thread(one_turn, NULL);
    one_turn(NULL);
    sim_join_all();
    pass(NULL);
    finish();
}

static void end(void *arg)
{
    (void)arg;
    sim_assert(spn_object_pool_shutdown(pool) == SPN_OK);
}

/* Shutdown while one has an object, one waits, and a pass goes round. */
SCENARIO(objpool__shut_down_in_the_middle__all_leave_nothing_left, "OBJ-12", "OBJ-19",
         "OBJ-20")
{
    spn_object_pool_opts opts = options(1);

    opts.fair = sim_choose(2);
    if (sim_choose(2) == 1)
        opts.factory.reset = reset;
    opts.min_idle = 1;
    if (!create(&opts))
        return;
    sim_thread(one_turn, NULL);
    sim_thread(one_turn, NULL);
    sim_thread(pass, NULL);
    end(NULL);
    sim_assert(spn_object_pool_await(pool, SPN_FOREVER) == SPN_OK);
    sim_assert(spn__load(&made, relaxed) == spn__load(&destroyed, relaxed));
    finish();
}

/* Who awaited the end may free the pool at once: nobody else touches it. */
static void return_last(void *object)
{
    use(object);
    sim_assert(spn_object_pool_return(pool, object) == SPN_OK);
}

SCENARIO(objpool__destroyed_by_who_awaited__return_touches_nothing, "OBJ-19", "OBJ-20")
{
    const spn_object_pool_opts opts = options(2);
    void *object;

    if (!create(&opts))
        return;
    sim_assert(spn_object_pool_borrow(pool, &object, 0) == SPN_OK);
    sim_thread(return_last, object);
    sim_thread(end, NULL);
    sim_assert(spn_object_pool_await(pool, SPN_FOREVER) == SPN_OK);
    sim_assert(spn_object_pool_destroy(pool) == SPN_OK);
    sim_join_all();
    sim_assert(spn__load(&destroyed, relaxed) == 1);
}
SCENARIO_OPTS(objpool__destroyed_by_who_awaited__return_touches_nothing, .dfs = 1,
              .dfs_models = SIM_SC)

/* Beyond one word of states: room in any of them is told of. */
static void *held[32];

static void return_one(void *index)
{
    sim_assert(spn_object_pool_return(pool, held[(intptr_t)index]) == SPN_OK);
}

SCENARIO(objpool__two_words__room_in_either_serves, "OBJ-4")
{
    const spn_object_pool_opts opts = options(32);

    if (!create(&opts))
        return;
    for (int i = 0; i < 32; i++)
        sim_assert(spn_object_pool_borrow(pool, &held[i], 0) == SPN_OK);
    sim_thread(return_one, (void *)(intptr_t)3);
    sim_thread(return_one, (void *)(intptr_t)31);
    sim_thread(one_turn, NULL);
    one_turn(NULL);
    sim_join_all();
    for (int i = 0; i < 31; i++)
        if (i != 3)
            return_one((void *)(intptr_t)i);
    finish();
}
SCENARIO_OPTS(objpool__two_words__room_in_either_serves, .models = SIM_SC | SIM_TSO)

/* Two who return the same object: one is told off, and it is idle once. */
static SPN__ATOMIC(uint32_t) accepted;

static void return_again(void *object)
{
    const int rc = spn_object_pool_return(pool, object);

    sim_assert(rc == SPN_OK || rc == SPN_ESTATE);
    if (rc == SPN_OK)
        (void)spn__fetch_add(&accepted, 1, relaxed);
}

SCENARIO(objpool__returned_twice_at_once__one_is_refused, "OBJ-7")
{
    spn_object_pool_opts opts = options(1);
    void *object, *other;

    if (sim_choose(2) == 1)
        opts.factory.reset = reset;
    if (!create(&opts))
        return;
    spn__init(&accepted, 0);
    sim_assert(spn_object_pool_borrow(pool, &object, 0) == SPN_OK);
    sim_thread(return_again, object);
    return_again(object);
    sim_join_all();
    sim_assert(spn__load(&accepted, relaxed) == 1);
    sim_assert(spn_object_pool_borrow(pool, &object, 0) == SPN_OK);
    sim_assert(spn_object_pool_borrow(pool, &other, 0) == SPN_ETIMEDOUT);
    sim_assert(spn_object_pool_return(pool, object) == SPN_OK);
    finish();
}

/* A trace is of one borrower, whole: frames and their number tell who it was, and the
 * time when. */
static void see_lease(void *ctx, const spn_object_lease *lease)
{
    (void)ctx;
    if (lease->frame_count == 0)
        return; /* just being borrowed */
    sim_assert(lease->frames[0] != 0);
    for (size_t i = 1; i < lease->frame_count; i++)
        sim_assert(lease->frames[i] == lease->frames[0]);
    sim_assert(lease->frame_count == 3 - (lease->frames[0] - 1) % 3);
    sim_assert(lease->held_ns == 0 || (lease->frames[0] == 1 && lease->held_ns == 100));
    sim_outcome((unsigned)lease->frames[0]);
}

static void list_leases(void *arg)
{
    (void)arg;
    (void)spn_object_pool_leases(pool, see_lease, NULL);
}

SCENARIO(objpool__leases_listed_while_lent__traces_are_whole, "OBJ-18")
{
    spn_object_pool_opts opts = options(1);
    spn_clock *clock;
    void *object;

    sim_assert(spn_clock_create_manual(&clock, 100) == SPN_OK);
    opts.clock = clock;
    opts.trace_frames = 3;
    sim_assert(create(&opts));
    sim_assert(spn_object_pool_borrow(pool, &object, 0) == SPN_OK);
    sim_assert(spn_clock_advance(clock, 100) == SPN_OK);
    sim_thread(one_turn, NULL);
    sim_thread(list_leases, NULL);
    sim_assert(spn_object_pool_return(pool, object) == SPN_OK);
    finish();
    sim_assert(spn_clock_destroy(clock) == SPN_OK);
}

/* What is out is known by its object, also if it was just made. */
static void see_object(void *ctx, const spn_object_lease *lease)
{
    (void)ctx;
    sim_assert(lease->object == &things[0]);
}

SCENARIO(objpool__leases_listed__objects_are_known, "OBJ-18")
{
    const spn_object_pool_opts opts = options(1);

    if (!create(&opts))
        return;
    sim_thread(one_turn, NULL);
    (void)spn_object_pool_leases(pool, see_object, NULL);
    finish();
}

/* A new object is not taken for as old as the one before. */
static void replace(void *object)
{
    sim_assert(spn_object_pool_invalidate(pool, object) == SPN_OK);
    sim_assert(turn(0, false));
}

SCENARIO(objpool__replaced_while_judged__new_one_is_not_old, "OBJ-15")
{
    spn_object_pool_opts opts = options(1);
    spn_object_pool_stats stats = SPN_OBJECT_POOL_STATS_INIT;
    spn_clock *clock;
    void *object;

    sim_assert(spn_clock_create_manual(&clock, 100) == SPN_OK);
    opts.clock = clock;
    opts.max_age_ns = 50;
    sim_assert(create(&opts));
    sim_assert(spn_object_pool_borrow(pool, &object, 0) == SPN_OK);
    sim_assert(spn_clock_advance(clock, 1000) == SPN_OK);
    sim_thread(replace, object);
    pass(NULL);
    sim_join_all();
    sim_assert(spn_object_pool_stats_get(pool, &stats) == SPN_OK);
    sim_assert(stats.evicted_age == 0 && stats.idle == 1);
    finish();
    sim_assert(spn_clock_destroy(clock) == SPN_OK);
}
