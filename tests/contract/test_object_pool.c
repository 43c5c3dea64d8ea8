/* SPDX-License-Identifier: MIT */
/*
 * test_object_pool.c - the object pool, line by line of its contract; time is a manual
 * clock's.
 */
#include <spindle/object_pool.h>

#include <spindle/executor.h>
#include <spindle/log.h>
#include <spindle/thread.h>

#include <stdatomic.h>
#include <string.h>

#include "peer.h"
#include "test.h"

enum { THINGS = 80 };

/* What the factory makes, and what became of it. */
static struct thing {
    int made, destroyed, resets, checks;
    int reject, refuse; /* what validate and reset are to return */
} things[THINGS];
static atomic_int next_thing;
static atomic_int make_status; /* what make is to return */
static atomic_int alive;
static void *make_gives; /* instead of a thing, if not NULL */
static spn_object_pool *pool;

static int make(void *ctx, void **object)
{
    CHECK(ctx == things);
    if (atomic_load(&make_status) != 0)
        return atomic_load(&make_status);
    if (make_gives != NULL) {
        *object = make_gives == things ? NULL : make_gives;
        return 0;
    }
    *object = &things[atomic_fetch_add(&next_thing, 1)];
    REQUIRE((struct thing *)*object < things + THINGS);
    ((struct thing *)*object)->made++;
    atomic_fetch_add(&alive, 1);
    return 0;
}

static int validate(void *ctx, void *object)
{
    (void)ctx;
    ((struct thing *)object)->checks++;
    return ((struct thing *)object)->reject;
}

static int reset(void *ctx, void *object)
{
    (void)ctx;
    ((struct thing *)object)->resets++;
    return ((struct thing *)object)->refuse;
}

static void destroy(void *ctx, void *object)
{
    CHECK(ctx == things);
    CHECK_EQ(++((struct thing *)object)->destroyed, 1);
    atomic_fetch_sub(&alive, 1);
}

static spn_object_pool_opts options(uint32_t max)
{
    spn_object_pool_opts opts = SPN_OBJECT_POOL_OPTS_INIT;

    opts.max = max;
    opts.factory = (spn_object_factory){ make, NULL, NULL, destroy, things };
    return opts;
}

static void open_pool(const spn_object_pool_opts *opts)
{
    memset(things, 0, sizeof things);
    atomic_store(&next_thing, 0);
    atomic_store(&make_status, 0);
    atomic_store(&alive, 0);
    make_gives = NULL;
    REQUIRE_OK(spn_object_pool_create(&pool, opts));
}

static spn_object_pool_stats stats_now(void)
{
    spn_object_pool_stats stats = SPN_OBJECT_POOL_STATS_INIT;

    CHECK_OK(spn_object_pool_stats_get(pool, &stats));
    CHECK_EQ(stats.borrowed, stats.returned + stats.invalidated + stats.out);
    CHECK_EQ(stats.made, stats.destroyed + stats.idle + stats.out);
    return stats;
}

/* All that was made is destroyed, once. */
static void close_pool(void)
{
    CHECK_OK(spn_object_pool_shutdown(pool));
    CHECK_OK(spn_object_pool_await(pool, T_LONG_NS));
    CHECK_OK(spn_object_pool_destroy(pool));
    CHECK_EQ(atomic_load(&alive), 0);
    for (int i = 0; i < THINGS; i++)
        CHECK_EQ(things[i].made, things[i].destroyed);
}

static void *borrowed(void)
{
    void *object = NULL;

    CHECK_OK(spn_object_pool_borrow(pool, &object, 0));
    return object;
}

static int borrow_and_return(void *arg)
{
    void *object;
    const int rc = spn_object_pool_borrow(pool, &object, *(int64_t *)arg);

    if (rc == SPN_OK)
        CHECK_OK(spn_object_pool_return(pool, object));
    else
        CHECK(object == NULL);
    return rc;
}

static int64_t forever = SPN_FOREVER;

/* Objects are made as they are needed, up to max, and used again. */
TEST(object_pool__borrowed_and_returned__made_once, "OBJ-1", "OBJ-2", "OBJ-21")
{
    const spn_object_pool_opts opts = options(2);
    void *a, *b, *c;

    open_pool(&opts);
    a = borrowed();
    b = borrowed();
    CHECK(a != b);
    CHECK_STATUS(spn_object_pool_borrow(pool, &c, 0), SPN_ETIMEDOUT);
    CHECK(c == NULL);
    CHECK_EQ(stats_now().out, 2);
    CHECK_OK(spn_object_pool_return(pool, a));
    CHECK(borrowed() == a);
    CHECK_OK(spn_object_pool_return(pool, a));
    CHECK_OK(spn_object_pool_return(pool, b));
    CHECK_EQ(stats_now().made, 2);
    CHECK_EQ(stats_now().borrowed, 3);
    CHECK_EQ(stats_now().idle, 2);
    close_pool();
}

/* The object returned last is lent first, whatever the order before. */
TEST(object_pool__lifo__returned_last_lent_first, "OBJ-5")
{
    const spn_object_pool_opts opts = options(4);
    void *o[4];

    open_pool(&opts);
    for (int i = 0; i < 4; i++)
        o[i] = borrowed();
    CHECK_OK(spn_object_pool_return(pool, o[2]));
    CHECK_OK(spn_object_pool_return(pool, o[0]));
    CHECK_OK(spn_object_pool_return(pool, o[3]));
    CHECK_OK(spn_object_pool_return(pool, o[1]));
    CHECK(borrowed() == o[1]);
    CHECK(borrowed() == o[3]);
    CHECK(borrowed() == o[0]);
    CHECK(borrowed() == o[2]);
    for (int i = 0; i < 4; i++)
        CHECK_OK(spn_object_pool_return(pool, o[i]));
    close_pool();
}

/* A fair pool lends the object first that has lain idle longest. */
TEST(object_pool__fair__longest_idle_first, "OBJ-6")
{
    spn_object_pool_opts opts = options(3);
    void *o[3];

    opts.fair = 1;
    open_pool(&opts);
    for (int i = 0; i < 3; i++)
        o[i] = borrowed();
    CHECK_OK(spn_object_pool_return(pool, o[1]));
    CHECK_OK(spn_object_pool_return(pool, o[2]));
    CHECK_OK(spn_object_pool_return(pool, o[0]));
    CHECK(borrowed() == o[1]);
    CHECK(borrowed() == o[2]);
    CHECK(borrowed() == o[0]);
    for (int i = 0; i < 3; i++)
        CHECK_OK(spn_object_pool_return(pool, o[i]));
    close_pool();
}

/* However many there are: slots are in groups of 31, which the order must not show. */
TEST(object_pool__fair_and_many__longest_idle_first, "OBJ-6")
{
    enum { MANY = 62 };
    static const int order[] = { 40, 3, 61, 0, 31, 30 };
    const int count = (int)(sizeof order / sizeof *order);
    spn_object_pool_opts opts = options(MANY);
    void *o[MANY];

    opts.fair = 1;
    open_pool(&opts);
    for (int i = 0; i < MANY; i++)
        o[i] = borrowed();
    for (int i = 0; i < count; i++)
        CHECK_OK(spn_object_pool_return(pool, o[order[i]]));
    for (int i = 0; i < count; i++)
        CHECK(borrowed() == o[order[i]]);
    for (int i = 0; i < MANY; i++)
        CHECK_OK(spn_object_pool_return(pool, o[i]));
    close_pool();
}

static atomic_int turn;
static int turn_taken[3];

static int borrow_in_turn(void *arg)
{
    void *object;
    const int rc = spn_object_pool_borrow(pool, &object, SPN_FOREVER);

    turn_taken[(intptr_t)arg] = atomic_fetch_add(&turn, 1);
    if (rc == SPN_OK)
        CHECK_OK(spn_object_pool_return(pool, object));
    return rc;
}

/* Those who wait are served in the order they came. */
TEST(object_pool__three_wait__served_in_order, "OBJ-4", "OBJ-6")
{
    for (uint32_t fair = 0; fair <= 1; fair++) {
        spn_object_pool_opts opts = options(1);
        struct peer p[3];
        void *object;

        opts.fair = fair;
        open_pool(&opts);
        atomic_store(&turn, 0);
        object = borrowed();
        for (intptr_t i = 0; i < 3; i++) {
            peer_start(&p[i], borrow_in_turn, (void *)i);
            T_AWAIT(stats_now().waiting == i + 1);
        }
        CHECK_OK(spn_object_pool_return(pool, object));
        for (int i = 0; i < 3; i++) {
            CHECK_OK(peer_finish(&p[i]));
            CHECK_EQ(turn_taken[i], i);
        }
        CHECK_EQ(stats_now().waited, 3);
        close_pool();
    }
}

/* In a fair pool nobody overtakes one who waits, not even without waiting. */
TEST(object_pool__fair_and_one_waits__try_borrow_refused, "OBJ-6")
{
    spn_object_pool_opts opts = options(1);
    struct peer p;
    void *object, *other;

    opts.fair = 1;
    open_pool(&opts);
    object = borrowed();
    peer_start(&p, borrow_and_return, &forever);
    T_AWAIT(stats_now().waiting == 1);
    CHECK_STATUS(spn_object_pool_borrow(pool, &other, 0), SPN_ETIMEDOUT);
    CHECK_OK(spn_object_pool_return(pool, object));
    CHECK_OK(peer_finish(&p));
    close_pool();
}

/* A borrow that waits ends with its time, or an interrupt, and takes nothing then. */
TEST(object_pool__none_comes__timed_out_or_interrupted, "OBJ-3", "G-6", "G-7", "G-10",
     "G-11")
{
    const spn_object_pool_opts opts = options(1);
    struct peer p;
    void *object, *other;
    int64_t before;

    open_pool(&opts);
    object = borrowed();
    CHECK_STATUS(spn_object_pool_borrow(pool, &other, 0), SPN_ETIMEDOUT);
    CHECK_STATUS(spn_object_pool_borrow(pool, &other, INT64_MIN), SPN_ETIMEDOUT);
    before = spn_now();
    CHECK_STATUS(spn_object_pool_borrow(pool, &other, 999999), SPN_ETIMEDOUT);
    CHECK(spn_now() - before >= 999999);
    CHECK_EQ(stats_now().timeouts, 3);
    peer_start(&p, borrow_and_return, &forever);
    peer_await_blocked(&p);
    CHECK_OK(spn_thread_interrupt(p.thread));
    CHECK_STATUS(peer_finish(&p), SPN_EINTR);
    CHECK_EQ(p.flag_after, 0);
    CHECK_OK(spn_thread_interrupt(spn_thread_current()));
    CHECK_STATUS(spn_object_pool_borrow(pool, &other, SPN_FOREVER), SPN_EINTR);
    CHECK_OK(spn_object_pool_return(pool, object));
    CHECK(borrowed() == object);
    CHECK_OK(spn_object_pool_return(pool, object));
    CHECK_EQ(stats_now().waiting, 0);
    close_pool();
}

/* What is not the pool's, or not out, is not taken back. */
TEST(object_pool__foreign_or_twice__refused, "OBJ-7", "S-10")
{
    const spn_object_pool_opts opts = options(2);
    int foreign;
    void *object, *other;

    open_pool(&opts);
    CHECK_STATUS(spn_object_pool_return(pool, &foreign), SPN_EINVAL);
    CHECK_STATUS(spn_object_pool_invalidate(pool, &foreign), SPN_EINVAL);
    object = borrowed();
    CHECK_STATUS(spn_object_pool_return(pool, (char *)object + 1), SPN_EINVAL);
    CHECK_OK(spn_object_pool_return(pool, object));
    CHECK_STATUS(spn_object_pool_return(pool, object), SPN_ESTATE);
    CHECK_STATUS(spn_object_pool_invalidate(pool, object), SPN_ESTATE);
    CHECK_EQ(stats_now().idle, 1);
    object = borrowed();
    CHECK_OK(spn_object_pool_invalidate(pool, object));
    CHECK_STATUS(spn_object_pool_return(pool, object), SPN_EINVAL);
    other = borrowed();
    CHECK_OK(spn_object_pool_return(pool, other));
    close_pool();
}

/* An invalidated object is destroyed, and one who waits gets another. */
TEST(object_pool__invalidated__destroyed_and_replaced, "OBJ-4", "OBJ-8")
{
    const spn_object_pool_opts opts = options(1);
    struct peer p;
    void *object;

    open_pool(&opts);
    object = borrowed();
    peer_start(&p, borrow_and_return, &forever);
    T_AWAIT(stats_now().waiting == 1);
    CHECK_OK(spn_object_pool_invalidate(pool, object));
    CHECK_EQ(((struct thing *)object)->destroyed, 1);
    CHECK_OK(peer_finish(&p));
    CHECK_EQ(stats_now().made, 2);
    CHECK_EQ(stats_now().invalidated, 1);
    close_pool();
}

/* A failing make fails the borrow, and leaves the place free. */
TEST(object_pool__make_fails__status_readable_and_room_left, "OBJ-10", "OBJ-13")
{
    const spn_object_pool_opts opts = options(1);
    void *object, *other;

    open_pool(&opts);
    atomic_store(&make_status, -55);
    CHECK_STATUS(spn_object_pool_borrow(pool, &object, SPN_FOREVER), SPN_EFAILED);
    CHECK(object == NULL);
    CHECK_EQ(stats_now().last_failure, -55);
    CHECK_EQ(stats_now().make_failures, 1);
    atomic_store(&make_status, 0);
    make_gives = things; /* NULL */
    CHECK_STATUS(spn_object_pool_borrow(pool, &object, 0), SPN_EINVAL);
    make_gives = NULL;
    object = borrowed();
    CHECK_OK(spn_object_pool_return(pool, object));
    CHECK_OK(spn_object_pool_shutdown(pool));
    CHECK_OK(spn_object_pool_destroy(pool));
    {
        const spn_object_pool_opts two = options(2);

        open_pool(&two);
        object = borrowed();
        make_gives = object; /* the pool has it already */
        CHECK_STATUS(spn_object_pool_borrow(pool, &other, 0), SPN_EINVAL);
        CHECK_EQ(((struct thing *)object)->destroyed, 0);
        CHECK_OK(spn_object_pool_return(pool, object));
        close_pool();
    }
}

/* validate before an idle object is lent, reset when one comes back. */
TEST(object_pool__refused_by_factory__destroyed, "OBJ-9", "OBJ-11")
{
    spn_object_pool_opts opts = options(1);
    struct thing *a, *b;

    opts.factory.validate = validate;
    opts.factory.reset = reset;
    open_pool(&opts);
    a = borrowed();
    CHECK_EQ(a->checks, 0); /* new ones are not asked */
    CHECK_OK(spn_object_pool_return(pool, a));
    CHECK_EQ(a->resets, 1);
    CHECK(borrowed() == a);
    CHECK_EQ(a->checks, 1);
    CHECK_OK(spn_object_pool_return(pool, a));
    a->reject = 1;
    b = borrowed();
    CHECK(b != a);
    CHECK_EQ(a->destroyed, 1);
    b->refuse = 1;
    CHECK_OK(spn_object_pool_return(pool, b));
    CHECK_EQ(b->destroyed, 1);
    CHECK_EQ(stats_now().refused, 2);
    CHECK_EQ(stats_now().idle, 0);
    close_pool();
}

/* A destroy that borrows and returns another object of the same pool. */
static void destroy_and_borrow(void *ctx, void *object)
{
    static int nested;
    void *other;

    destroy(ctx, object);
    if (nested++ == 0) {
        CHECK_OK(spn_object_pool_borrow(pool, &other, 0));
        CHECK_OK(spn_object_pool_return(pool, other));
    }
}

/* No lock is held while the factory's functions run. */
TEST(object_pool__factory_calls_the_pool__works, "OBJ-9", "G-23")
{
    spn_object_pool_opts opts = options(2);

    opts.factory.destroy = destroy_and_borrow;
    open_pool(&opts);
    CHECK_OK(spn_object_pool_invalidate(pool, borrowed()));
    CHECK_EQ(stats_now().idle, 1);
    close_pool();
}

/* An object is evicted when it has lain idle for idle_ns, no sooner, and not below
 * min_idle; a use starts the time anew. */
TEST(object_pool__idle__evicted_in_time, "OBJ-14")
{
    spn_object_pool_opts opts = options(3);
    spn_clock *clock;
    void *o[3];

    REQUIRE_OK(spn_clock_create_manual(&clock, 0));
    opts.clock = clock;
    opts.idle_ns = 100;
    opts.min_idle = 1;
    open_pool(&opts);
    for (int i = 0; i < 3; i++)
        o[i] = borrowed();
    for (int i = 0; i < 3; i++)
        CHECK_OK(spn_object_pool_return(pool, o[i]));
    CHECK_OK(spn_object_pool_maintain(pool)); /* sees them idle, at 0 */
    CHECK_OK(spn_clock_advance(clock, 99));
    CHECK_OK(spn_object_pool_maintain(pool));
    CHECK_EQ(stats_now().idle, 3);
    CHECK(borrowed() == o[2]);
    CHECK_OK(spn_object_pool_return(pool, o[2]));
    CHECK_OK(spn_clock_advance(clock, 1));
    CHECK_OK(spn_object_pool_maintain(pool));
    CHECK_EQ(stats_now().idle, 1); /* the one that was used */
    CHECK_EQ(stats_now().evicted_idle, 2);
    CHECK_EQ(((struct thing *)o[2])->destroyed, 0);
    CHECK_OK(spn_clock_advance(clock, 1000));
    CHECK_OK(spn_object_pool_maintain(pool));
    CHECK_OK(spn_object_pool_maintain(pool));
    CHECK_EQ(stats_now().idle, 1); /* min_idle */
    CHECK_EQ(stats_now().made, 3);
    CHECK_STATUS(spn_clock_destroy(clock), SPN_EBUSY); /* the pool uses it */
    close_pool();
    CHECK_OK(spn_clock_destroy(clock));
}

/* Age counts from make, whether the object is idle or out. */
TEST(object_pool__old__destroyed_idle_or_on_return, "OBJ-15")
{
    spn_object_pool_opts opts = options(2);
    spn_clock *clock;
    void *a, *b;

    REQUIRE_OK(spn_clock_create_manual(&clock, 5));
    opts.clock = clock;
    opts.max_age_ns = 100;
    open_pool(&opts);
    a = borrowed();
    b = borrowed();
    CHECK_OK(spn_object_pool_return(pool, b));
    CHECK_OK(spn_clock_advance(clock, 99));
    CHECK_OK(spn_object_pool_maintain(pool));
    CHECK_EQ(stats_now().idle, 1);
    CHECK_OK(spn_clock_advance(clock, 1));
    CHECK_OK(spn_object_pool_maintain(pool));
    CHECK_EQ(stats_now().idle, 0);
    CHECK_EQ(((struct thing *)a)->destroyed, 0);
    CHECK_OK(spn_object_pool_return(pool, a));
    CHECK_EQ(((struct thing *)a)->destroyed, 1);
    CHECK_EQ(stats_now().evicted_age, 2);
    close_pool();
    CHECK_OK(spn_clock_destroy(clock));
}

/* Objects are kept ready, as many as max allows; a make that fails is told. */
TEST(object_pool__min_idle__made_by_passes, "OBJ-16")
{
    spn_object_pool_opts opts = options(3);
    void *o[2];

    opts.min_idle = 2;
    open_pool(&opts);
    atomic_store(&make_status, -1);
    CHECK_STATUS(spn_object_pool_maintain(pool), SPN_EFAILED);
    CHECK_EQ(stats_now().make_failures, 1);
    atomic_store(&make_status, 0);
    CHECK_OK(spn_object_pool_maintain(pool));
    CHECK_EQ(stats_now().idle, 2);
    o[0] = borrowed();
    o[1] = borrowed();
    CHECK_OK(spn_object_pool_maintain(pool));
    CHECK_EQ(stats_now().idle, 1); /* max is 3 */
    CHECK_OK(spn_object_pool_return(pool, o[0]));
    CHECK_OK(spn_object_pool_return(pool, o[1]));
    close_pool();
}

/* With a timer the passes come by themselves, and end with the pool. */
TEST(object_pool__timer__passes_come_by_themselves, "OBJ-17")
{
    spn_timer_opts timer_opts = SPN_TIMER_OPTS_INIT;
    spn_object_pool_opts opts = options(1);
    spn_clock *clock;
    spn_timer *timer;

    REQUIRE_OK(spn_clock_create_manual(&clock, 0));
    timer_opts.drive = SPN_TIMER_DRIVEN;
    timer_opts.clock = clock;
    timer_opts.tick_ns = SPN_MS(1);
    REQUIRE_OK(spn_timer_create(&timer, &timer_opts));
    opts.clock = clock;
    opts.timer = timer;
    opts.min_idle = 1;
    opts.period_ns = SPN_MS(10);
    opts.max_age_ns = SPN_MS(25);
    open_pool(&opts);
    CHECK_EQ(spn_timer_run(timer), 0);
    CHECK_EQ(stats_now().made, 0);
    for (int i = 0; i < 5; i++) { /* 10: made; 20; 30; 40: old; 50 */
        CHECK_OK(spn_clock_advance(clock, SPN_MS(10)));
        CHECK_EQ(spn_timer_run(timer), 1);
        CHECK_EQ(stats_now().idle, 1);
    }
    CHECK_EQ(stats_now().made, 2);
    CHECK_EQ(stats_now().evicted_age, 1);
    CHECK_OK(spn_object_pool_shutdown(pool));
    CHECK_EQ(spn_timer_pending(timer), 0);
    close_pool();
    CHECK_OK(spn_timer_stop(timer, NULL, NULL));
    CHECK_OK(spn_timer_destroy(timer));
    CHECK_OK(spn_clock_destroy(clock));
}

static int nested_pass;

static int make_and_pass(void *ctx, void **object)
{
    nested_pass = spn_object_pool_maintain(pool);
    return make(ctx, object);
}

/* Two passes never run at a time; destroy waits for nobody. */
TEST(object_pool__pass_in_a_pass__busy, "OBJ-17", "OBJ-20")
{
    spn_object_pool_opts opts = options(1);

    opts.factory.make = make_and_pass;
    opts.min_idle = 1;
    open_pool(&opts);
    CHECK_OK(spn_object_pool_maintain(pool));
    CHECK_STATUS(nested_pass, SPN_EBUSY);
    CHECK_STATUS(spn_object_pool_destroy(pool), SPN_EBUSY);
    close_pool();
}

static struct {
    int calls;
    void *object;
    int64_t held_ns;
    size_t frames;
    char trace[4096];
} leak;

static void on_leak(void *ctx, const spn_object_lease *lease)
{
    CHECK(ctx == &leak);
    leak.calls++;
    leak.object = lease->object;
    leak.held_ns = lease->held_ns;
    leak.frames = lease->frame_count;
    snprintf(leak.trace, sizeof leak.trace, "%s", lease->trace);
}

__attribute__((noinline, visibility("default"))) void borrowing_function(void **object);
__attribute__((noinline)) void borrowing_function(void **object)
{
    CHECK_OK(spn_object_pool_borrow(pool, object, 0));
    __asm__ __volatile__("" ::: "memory"); /* no tail call */
}

/* A leak is reported once per borrow, with the caller of borrow. */
TEST(object_pool__leaked__reported_once_with_its_borrower, "OBJ-18")
{
    spn_object_pool_opts opts = options(2);
    spn_clock *clock;
    void *object;

    REQUIRE_OK(spn_clock_create_manual(&clock, 0));
    opts.clock = clock;
    opts.leak_ns = 50;
    opts.trace_frames = 4;
    opts.leaked = on_leak;
    opts.ctx = &leak;
    open_pool(&opts);
    memset(&leak, 0, sizeof leak);
    borrowing_function(&object);
    CHECK_OK(spn_clock_advance(clock, 49));
    CHECK_OK(spn_object_pool_maintain(pool));
    CHECK_EQ(leak.calls, 0);
    CHECK_OK(spn_clock_advance(clock, 1));
    CHECK_OK(spn_object_pool_maintain(pool));
    CHECK_OK(spn_object_pool_maintain(pool));
    CHECK_EQ(leak.calls, 1);
    CHECK(leak.object == object);
    CHECK_EQ(leak.held_ns, 50);
    CHECK(leak.frames >= 2 && leak.frames <= 4);
    CHECK(strstr(leak.trace, "borrowing_function") != NULL);
    CHECK_EQ(stats_now().leaks, 1);
    CHECK_EQ(spn_object_pool_leases(pool, on_leak, &leak), 1);
    CHECK_EQ(leak.calls, 2);
    CHECK_OK(spn_object_pool_return(pool, object));
    CHECK_EQ(spn_object_pool_leases(pool, on_leak, &leak), 0);
    borrowing_function(&object);
    CHECK_OK(spn_clock_advance(clock, 50));
    CHECK_OK(spn_object_pool_maintain(pool));
    CHECK_EQ(stats_now().leaks, 2); /* another borrow, another report */
    CHECK_OK(spn_object_pool_return(pool, object));
    close_pool();
    CHECK_OK(spn_clock_destroy(clock));
}

/* After shutdown nobody gets an object; those out are destroyed when they come back. */
TEST(object_pool__shut_down_with_objects_out__destroyed_on_return, "OBJ-12", "OBJ-19",
     "OBJ-20")
{
    const spn_object_pool_opts opts = options(2);
    struct peer p;
    void *a, *b, *other;

    open_pool(&opts);
    CHECK_STATUS(spn_object_pool_await(pool, 0), SPN_ETIMEDOUT);
    a = borrowed();
    b = borrowed();
    peer_start(&p, borrow_and_return, &forever);
    T_AWAIT(stats_now().waiting == 1);
    CHECK_OK(spn_object_pool_shutdown(pool));
    CHECK_STATUS(peer_finish(&p), SPN_ESHUTDOWN);
    CHECK_OK(spn_object_pool_shutdown(pool));
    CHECK_STATUS(spn_object_pool_borrow(pool, &other, SPN_FOREVER), SPN_ESHUTDOWN);
    CHECK_STATUS(spn_object_pool_borrow(pool, &other, 0), SPN_ESHUTDOWN);
    CHECK_STATUS(spn_object_pool_maintain(pool), SPN_ESHUTDOWN);
    CHECK_STATUS(spn_object_pool_await(pool, 0), SPN_ETIMEDOUT);
    CHECK_STATUS(spn_object_pool_destroy(pool), SPN_EBUSY);
    CHECK_EQ(stats_now().shut_down, 1);
    CHECK_OK(spn_object_pool_return(pool, a));
    CHECK_EQ(((struct thing *)a)->destroyed, 1);
    CHECK_STATUS(spn_object_pool_destroy(pool), SPN_EBUSY);
    CHECK_OK(spn_object_pool_return(pool, b));
    close_pool();
}

static int await_end(void *arg)
{
    (void)arg;
    return spn_object_pool_await(pool, SPN_FOREVER);
}

/* await sleeps until the last object is gone, and can be interrupted. */
TEST(object_pool__awaited__until_the_last_object_is_back, "OBJ-20")
{
    const spn_object_pool_opts opts = options(1);
    struct peer p;
    void *object;

    open_pool(&opts);
    object = borrowed();
    peer_start(&p, await_end, NULL);
    peer_await_blocked(&p);
    CHECK_OK(spn_thread_interrupt(p.thread));
    CHECK_STATUS(peer_finish(&p), SPN_EINTR);
    peer_start(&p, await_end, NULL);
    peer_await_blocked(&p);
    CHECK_OK(spn_object_pool_shutdown(pool));
    CHECK_EQ(atomic_load(&p.done), 0);
    CHECK_OK(spn_object_pool_return(pool, object));
    CHECK_OK(peer_finish(&p));
    close_pool();
}

/* More objects than fit a word of states. */
TEST(object_pool__seventy_objects__all_lent_and_found_again, "OBJ-2", "OBJ-5")
{
    const spn_object_pool_opts opts = options(70);
    void *o[70], *other;

    open_pool(&opts);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 70; i++)
            o[i] = borrowed();
        CHECK_STATUS(spn_object_pool_borrow(pool, &other, 0), SPN_ETIMEDOUT);
        for (int i = 0; i < 70; i++)
            for (int j = 0; j < i; j++)
                CHECK(o[i] != o[j]);
        CHECK_OK(spn_object_pool_return(pool, o[65]));
        CHECK(borrowed() == o[65]);
        for (int i = 0; i < 70; i++)
            CHECK_OK(spn_object_pool_return(pool, o[(i * 37) % 70]));
    }
    CHECK_EQ(stats_now().made, 70);
    CHECK_EQ(stats_now().idle, 70);
    close_pool();
}
