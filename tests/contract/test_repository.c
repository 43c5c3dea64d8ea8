/* SPDX-License-Identifier: MIT */
/* test_repository.c - one pool for each side and port, replaced, changed and ended. */
#include "counting.h"
#include "pool_calls.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

#include <spindle.h>

static spn_problem problem;
static spn_repository *r;
static atomic_int warnings;

static void count_warnings(void *ctx, spn_log_level level, const char *text)
{
    (void)ctx;
    if (level == SPN_LOG_WARN && strstr(text, "repository") != NULL)
        atomic_fetch_add(&warnings, 1);
}

static void open_repository(uint32_t isolation)
{
    spn_repository_opts opts = SPN_REPOSITORY_OPTS_INIT;

    opts.isolation = isolation;
    REQUIRE_OK(spn_repository_create(&r, &opts));
}

static void close_repository(void)
{
    CHECK_OK(spn_repository_destroy_all(r, T_LONG_NS));
    CHECK_OK(spn_repository_destroy(r));
}

static spn_url *read_url(const char *text)
{
    spn_url *url;

    REQUIRE_OK(spn_url_parse(&url, text, NULL));
    return url;
}

/* Takes the pool; with `back` gives it back at once. */
static spn_pool *take(const char *text, bool back)
{
    spn_url *url = read_url(text);
    spn_pool *pool;

    CHECK_OK(spn_repository_get_or_create(r, url, &pool, &problem));
    spn_url_unref(url);
    if (back)
        CHECK_OK(spn_repository_release(r, pool));
    return pool;
}

static int get(const char *text, spn_pool **pool)
{
    spn_url *url = read_url(text);
    const int rc = spn_repository_get(r, url, pool, &problem);

    spn_url_unref(url);
    return rc;
}

#define REST "threads=2&queues=-1&reject=abort"

/* Side and port are the key; the rest of the URL only shapes the first. */
TEST(repository__same_side_and_port__same_pool, "REP-8", "S-11")
{
    spn_pool *a, *b, *c, *d;

    open_repository(0);
    a = take("dubbo://h:20880/x?" REST, true);
    CHECK(take("tri://other:20880/y?threads=7", true) == a);
    CHECK_EQ(pool_stats(a).max_threads, 2);
    CHECK(take("dubbo://h:20880?side=provider", true) == a);
    b = take("dubbo://h:20881?" REST, true);
    c = take("dubbo://h:20880?side=consumer&reject=abort", true);
    d = take("dubbo://h:20880?side=CONSUMER", true);
    CHECK(b != a && c != a && c == d);
    CHECK_EQ(pool_stats(c).core_threads, 0); /* cached */
    CHECK_EQ(pool_stats(c).max_threads, SPN_POOL_THREADS_MAX);
    CHECK_STR(pool_stats(a).name, "dubbo-protocol-20880");
    close_repository();
}

/* A pool that was shut down is replaced, by either call; the old one lives while taken. */
TEST(repository__shut_down__is_replaced, "REP-9", "REP-16", "X-18", "S-11")
{
    long live;
    spn_pool *a, *b, *c;

    open_repository(0);
    a = take("h:1?" REST, false);
    CHECK_OK(pool_shutdown(a));
    b = take("h:1?" REST, true);
    CHECK(b != a);
    CHECK_EQ(pool_is_shutdown(b), 0);
    CHECK_EQ(pool_is_terminated(a), 1); /* still there */
    CHECK_OK(spn_repository_release(r, a));
    CHECK_STATUS(spn_repository_release(r, b), SPN_EINVAL); /* not taken */
    CHECK_OK(pool_shutdown(b));
    CHECK_OK(get("h:1?" REST, &c));
    CHECK_EQ(pool_is_shutdown(c), 0);
    CHECK_OK(spn_repository_release(r, c));
    live = atomic_load(&counting_live);
    for (int i = 0; i < 20; i++) {
        CHECK_OK(pool_shutdown(take("h:1?" REST, true)));
        (void)take("h:1?" REST, true);
    }
    CHECK_EQ(atomic_load(&counting_live), live); /* replaced ones have gone */
    close_repository();
}

/* Nothing of that side: a warning; of that port: none.  Either way nothing. */
TEST(repository__nothing_there__is_said, "REP-10", "S-11")
{
    spn_pool *pool = (void *)&problem;

    REQUIRE_OK(spn_log_set_hook(count_warnings, NULL));
    open_repository(0);
    CHECK_STATUS(get("h:1", &pool), SPN_EEMPTY);
    CHECK(pool == NULL);
    CHECK_EQ(atomic_load(&warnings), 1);
    (void)take("h:1?" REST, true);
    CHECK_STATUS(get("h:2", &pool), SPN_EEMPTY);
    CHECK_EQ(atomic_load(&warnings), 1);
    CHECK_OK(get("h:1", &pool));
    CHECK_OK(spn_repository_release(r, pool));
    close_repository();
}

/* What the URL gets wrong is told, and nothing stays. */
TEST(repository__wrong_url__leaves_nothing, "REP-6")
{
    spn_url *url = read_url("h:1?threadpool=none");
    spn_pool *pool;

    open_repository(0);
    CHECK_STATUS(spn_repository_get_or_create(r, url, &pool, &problem), SPN_EEMPTY);
    CHECK(pool == NULL && strstr(problem.text, "fixed") != NULL);
    CHECK_STATUS(get("h:1", &pool), SPN_EEMPTY);
    spn_url_unref(url);
    CHECK_OK(spn_repository_destroy(r)); /* never had one */
}

static spn_pool *found[T_THREADS];

static void take_one(int index, void *arg)
{
    found[index] = take(arg, false);
}

/* Many threads at once get one pool. */
TEST(repository__asked_for_by_many__one_pool, "REP-8")
{
    open_repository(0);
    for (int round = 0; round < t_rounds(50); round++) {
        char text[64];

        (void)snprintf(text, sizeof text, "h:%d?" REST, round + 1);
        t_parallel(T_THREADS, take_one, text);
        for (int i = 0; i < T_THREADS; i++) {
            CHECK(found[i] == found[0]);
            CHECK_OK(spn_repository_release(r, found[i]));
        }
    }
    close_repository();
}

/* Changes go to the pool of the key. */
TEST(repository__changes__reach_the_pool, "REP-11", "REP-12", "X-18")
{
    spn_url *two = read_url("h:1?threads=5"), *none = read_url("h:2?threads=5");
    spn_pool *pool;

    open_repository(0);
    pool = take("h:1?" REST, false);
    CHECK_OK(spn_repository_update(r, two, &problem));
    CHECK_EQ(pool_stats(pool).core_threads, 5);
    CHECK_EQ(pool_stats(pool).max_threads, 5);
    CHECK_OK(spn_repository_reconfigure(r, two, &problem));
    CHECK_STATUS(spn_repository_update(r, none, &problem), SPN_EEMPTY);
    CHECK_STATUS(spn_repository_reconfigure(r, none, &problem), SPN_EEMPTY);
    CHECK_OK(spn_repository_release(r, pool));
    spn_url_unref(two);
    spn_url_unref(none);
    close_repository();
}

static spn_pool_stats shape_of(spn_pool *pool)
{
    spn_pool_stats s = SPN_POOL_STATS_INIT;

    CHECK_OK(spn_pool_stats_get(pool, &s));
    return s;
}

/* Whether the settings come before the first user or after it, and whoever asked for
 * the pool without making one: they are what it has in the end.  (The half of P42 that
 * is about dispatchers belongs to those.) */
TEST(repository__settings_before_or_after_first_use__same_shape, "REP-10", "REP-12",
     "P42")
{
    static const char settings[] = "?corethreads=3&threads=6&queues=9&alive=40";
    spn_pool *early;

    for (int after = 0; after < 2; after++) {
        char text[128];
        spn_pool_stats s;
        spn_pool *pool;
        spn_url *url;

        open_repository(0);
        CHECK_STATUS(get("h:1", &early), SPN_EEMPTY); /* makes nothing of its own */
        (void)snprintf(text, sizeof text, "h:1%s&threadpool=cached&reject=abort",
                       settings);
        if (after != 0) /* somebody who knows nothing of them */
            (void)take("h:1?threadpool=cached&queues=1&reject=abort", true);
        pool = take(text, false);
        (void)snprintf(text, sizeof text, "h:1%s", settings);
        url = read_url(text);
        if (after != 0)
            CHECK_OK(spn_repository_reconfigure(r, url, &problem));
        spn_url_unref(url);
        s = shape_of(pool);
        CHECK_EQ(s.core_threads, 3);
        CHECK_EQ(s.max_threads, 6);
        CHECK_EQ(s.capacity, 9);
        CHECK_EQ(s.keep_alive_ns, SPN_MS(40));
        CHECK_OK(spn_repository_release(r, pool));
        close_repository();
    }
}

static atomic_int fired;

static int fire(spn_timeout *timeout)
{
    (void)timeout;
    atomic_fetch_add(&fired, spn_pool_current() != NULL ? 1 : 100);
    return 0;
}

static int count_one(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return 0;
}

static void note(void *ctx, const char *key, spn_pool *pool)
{
    CHECK(pool != NULL);
    strcat(strcat(ctx, key), " ");
}

/* The shared executor and timer are made once; the timer's callbacks run on the former. */
TEST(repository__shared__made_once, "REP-14")
{
    spn_executor *executor, *again;
    spn_timer *timer, *same;
    spn_scheduled *scheduled, *twin;
    spn_timeout soon = SPN_TIMEOUT_INIT, never = SPN_TIMEOUT_INIT;
    atomic_int ran = 0;
    char keys[128] = "";

    open_repository(0);
    CHECK_OK(spn_repository_shared(r, &executor));
    CHECK_OK(spn_repository_shared(r, &again));
    CHECK(executor == again);
    CHECK_EQ(pool_stats(spn_executor_pool(executor)).max_threads, SPN_POOL_THREADS_MAX);
    CHECK_STR(pool_stats(spn_executor_pool(executor)).name,
              "Dubbo-framework-shared-handler");
    for (int i = 0; i < 3; i++)
        CHECK_OK(spn_executor_call(executor, count_one, &ran));
    T_AWAIT(atomic_load(&ran) == 3);
    CHECK_STATUS(spn_repository_release(r, spn_executor_pool(executor)), SPN_EINVAL);
    CHECK_OK(spn_repository_shared_timer(r, &timer));
    CHECK_OK(spn_repository_shared_timer(r, &same));
    CHECK(timer == same);
    CHECK_OK(spn_timer_schedule(timer, &soon, fire, 0));
    CHECK_OK(spn_timer_schedule(timer, &never, fire, SPN_FOREVER));
    T_AWAIT(atomic_load(&fired) != 0);
    CHECK_EQ(atomic_load(&fired), 1);
    (void)take("h:1?side=consumer&reject=abort", true);
    CHECK_OK(spn_repository_scheduled(r, &scheduled));
    CHECK_OK(spn_repository_scheduled(r, &twin));
    CHECK(scheduled == twin);
    CHECK_EQ(pool_stats(spn_scheduled_pool(scheduled)).core_threads, 8);
    CHECK_OK(spn_executor_call(spn_scheduled_executor(scheduled), count_one, &ran));
    T_AWAIT(atomic_load(&ran) == 4);
    CHECK_OK(spn_repository_each(r, note, keys));
    CHECK_STR(keys, "shared consumer/1 scheduled ");
    close_repository();
    CHECK(spn_timeout_state(&never) != SPN_TIMEOUT_PENDING);
}

static int wait_gate(void *arg)
{
    T_AWAIT(atomic_load((atomic_int *)arg) != 0);
    return 0;
}

static int wait_interrupt(void *arg)
{
    spn_latch *latch = arg;
    const int rc = spn_latch_await(latch, SPN_FOREVER);

    return rc == SPN_EINTR ? 0 : rc;
}

/* The end: waits for what runs, then stops it, and says what it could not end. */
TEST(repository__destroy_all__within_its_deadline, "REP-15")
{
    atomic_int gate = 0, ran = 0;
    spn_executor *executor;
    spn_pool *pool, *other;
    spn_latch *latch;
    spn_url *url = read_url("h:1?" REST);

    REQUIRE_OK(spn_latch_create(&latch, 1));
    open_repository(0);
    pool = take("h:1?" REST, false);
    other = take("h:2?threads=1&queues=-1&reject=abort", true);
    CHECK_STATUS(spn_repository_destroy(r), SPN_EBUSY);
    CHECK_OK(spn_executor_call(spn_pool_executor(pool), wait_gate, &gate));
    CHECK_OK(spn_executor_call(spn_pool_executor(other), wait_interrupt, latch));
    CHECK_OK(spn_executor_call(spn_pool_executor(other), count_one, &ran));
    T_AWAIT(pool_stats(other).active == 1);
    CHECK_STATUS(spn_repository_destroy_all(r, 0), SPN_ETIMEDOUT); /* the gate's */
    CHECK_OK(pool_await(other, T_LONG_NS));                        /* interrupted */
    CHECK_EQ(atomic_load(&ran), 0);                                /* dropped */
    CHECK_STATUS(spn_repository_get_or_create(r, url, &other, &problem), SPN_ESHUTDOWN);
    CHECK_STATUS(spn_repository_get(r, url, &other, &problem), SPN_ESHUTDOWN);
    CHECK_STATUS(spn_repository_shared(r, &executor), SPN_ESHUTDOWN);
    CHECK_STATUS(spn_repository_destroy(r), SPN_EBUSY);
    atomic_store(&gate, 1);
    CHECK_OK(spn_repository_destroy_all(r, T_LONG_NS));
    CHECK_STATUS(spn_repository_destroy(r), SPN_EBUSY); /* taken */
    CHECK_OK(spn_repository_release(r, pool));
    CHECK_OK(spn_repository_destroy(r));
    CHECK_OK(spn_latch_destroy(latch));
    spn_url_unref(url);
}

static spn_latch *callback_latch;
static atomic_int callback_began, callback_interrupted, callback_gate;

static int block_in_callback(spn_timeout *t)
{
    int rc;

    (void)t;
    atomic_store(&callback_began, 1);
    rc = wait_interrupt(callback_latch);
    atomic_store(&callback_interrupted, 1);
    return rc;
}

static int block_for_good(spn_timeout *t)
{
    (void)t;
    atomic_store(&callback_began, 1);
    return wait_gate(&callback_gate);
}

static int never(spn_timeout *t)
{
    (void)t;
    CHECK(false);
    return 0;
}

static spn_timeout first_timeout, second_timeout;

/* Opens a repository whose timer runs a callback, and has a timeout that is far off. */
static void open_in_callback(spn_timeout_fn fn)
{
    spn_timer *timer;

    open_repository(0);
    atomic_store(&callback_began, 0);
    atomic_store(&callback_interrupted, 0);
    atomic_store(&callback_gate, 0);
    first_timeout = (spn_timeout)SPN_TIMEOUT_INIT;
    second_timeout = (spn_timeout)SPN_TIMEOUT_INIT;
    REQUIRE_OK(spn_repository_shared_timer(r, &timer));
    REQUIRE_OK(spn_timer_schedule(timer, &second_timeout, never, SPN_SEC(3600)));
    REQUIRE_OK(spn_timer_schedule(timer, &first_timeout, fn, 0));
    T_AWAIT(atomic_load(&callback_began) != 0);
}

/* A callback of the shared timer is a task of the shared pool: the deadline is for it as
 * well, and then it is interrupted. */
TEST(repository__timer_callback_blocks__is_interrupted, "REP-15")
{
    int rc;

    REQUIRE_OK(spn_latch_create(&callback_latch, 1));
    open_in_callback(block_in_callback);
    rc = spn_repository_destroy_all(r, 999999);
    T_AWAIT(atomic_load(&callback_interrupted) == 1);
    CHECK(rc == SPN_OK || rc == SPN_ETIMEDOUT);
    if (rc != SPN_OK) /* the machine gave it no CPU for the tenth of a second it has */
        CHECK_OK(spn_repository_destroy_all(r, T_LONG_NS));
    CHECK_EQ(spn_timeout_state(&second_timeout), SPN_TIMEOUT_CANCELLED);
    CHECK_OK(spn_repository_destroy(r));
    CHECK_OK(spn_latch_destroy(callback_latch));
}

/* One that does not hear the interrupt is said to run; another call ends the rest. */
TEST(repository__timer_callback_hangs__within_its_deadline, "REP-15")
{
    spn_timer *timer;

    open_in_callback(block_for_good);
    CHECK_STATUS(spn_repository_destroy_all(r, 999999), SPN_ETIMEDOUT);
    CHECK_STATUS(spn_repository_shared_timer(r, &timer), SPN_ESHUTDOWN);
    CHECK_STATUS(spn_repository_destroy(r), SPN_EBUSY);
    CHECK_OK(spn_thread_interrupt(spn_thread_current()));
    CHECK_STATUS(spn_repository_destroy_all(r, SPN_FOREVER), SPN_EINTR);
    CHECK_STATUS(spn_repository_destroy(r), SPN_EBUSY);
    atomic_store(&callback_gate, 1);
    CHECK_OK(spn_repository_destroy_all(r, T_LONG_NS));
    CHECK_EQ(spn_timeout_state(&second_timeout), SPN_TIMEOUT_CANCELLED);
    CHECK_OK(spn_repository_destroy(r));
}

static int end_from_inside(void *arg)
{
    *(int *)arg = spn_repository_destroy_all(r, SPN_FOREVER);
    return 0;
}

/* From a task of one of its pools it would wait for itself. */
TEST(repository__destroyed_from_inside__is_refused, "REP-15")
{
    spn_pool *pool;
    int rc = 0;

    open_repository(0);
    pool = take("h:1?" REST, true);
    CHECK_OK(spn_executor_call(spn_pool_executor(pool), end_from_inside, &rc));
    T_AWAIT(pool_ended(pool) == 1);
    CHECK_STATUS(rc, SPN_EDEADLK);
    CHECK(take("h:1", true) == pool);
    close_repository();
}

/* By service key, for providers with an interface. */
TEST(repository__isolation__by_service_key, "REP-17")
{
    spn_pool *a, *b, *c;
    char keys[256] = "";

    open_repository(1);
    a = take("dubbo://h:1/x?interface=demo.A&version=1.0&group=g&" REST, true);
    b = take("dubbo://h:1/x?interface=demo.B&" REST, true);
    c = take("dubbo://h:1/x?" REST, true);
    CHECK(a != b && b != c);
    CHECK(take("dubbo://h:9/x?interface=demo.A&version=1.0&group=g", true) == a);
    CHECK(take("dubbo://h:9/x?interface=demo.A&side=consumer&reject=abort", true) != a);
    CHECK_STR(pool_stats(a).name, "isolation-g/demo.A:1.0");
    CHECK_STR(pool_stats(c).name, "dubbo-protocol-1");
    CHECK_OK(spn_repository_each(r, note, keys));
    CHECK_STR(keys, "service/g/demo.A:1.0 service/demo.B provider/1 consumer/9 ");
    close_repository();
}

/* A key may be longer than the name of a pool: the name is cut, whole characters only. */
TEST(repository__long_service_key__name_is_cut, "REP-17")
{
    enum { ROOM = SPN_THREAD_NAME_MAX - 20 };
    static const int lengths[] = { 225, 226, 400, 495 };
    char service[512], text[1024];

    open_repository(1);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const int length = lengths[i];
        spn_pool *pool;

        memset(service, 'a', sizeof service);
        service[length] = '\0';
        (void)snprintf(text, sizeof text, "dubbo://h:1/x?interface=%s&" REST, service);
        pool = take(text, true);
        REQUIRE(pool != NULL);
        CHECK_EQ((int)strlen(pool_stats(pool).name), ROOM);
        CHECK(strncmp(pool_stats(pool).name, "isolation-aaa", 13) == 0);
    }
    /* The last byte there is room for would be the first of two. */
    memset(service, 'a', sizeof service);
    (void)snprintf(service + ROOM - 11, sizeof service - ROOM + 11, "\xc3\xa4");
    (void)snprintf(text, sizeof text, "dubbo://h:1/x?interface=%s&" REST, service);
    CHECK_EQ((int)strlen(pool_stats(take(text, true)).name), ROOM - 1);
    close_repository();
}

/* What is longer than any key is refused, and the message says what is too long. */
TEST(repository__service_key_too_long__is_refused, "REP-6")
{
    char text[1024] = "dubbo://h:1/x?" REST "&interface=";
    const size_t length = strlen(text);
    spn_pool *pool;
    spn_url *url;

    memset(text + length, 'a', 496);
    text[length + 496] = '\0';
    url = read_url(text);
    open_repository(1);
    CHECK_STATUS(spn_repository_get_or_create(r, url, &pool, &problem), SPN_ERANGE);
    CHECK_STR(problem.text, "the service key is too long");
    spn_url_unref(url);
    close_repository();
}

/* ---- changing under load --------------------------------------------------------------- */

static atomic_long ran_under_load, accepted;
static const char *const settings[] = {
    "h:1?threads=1",
    "h:1?threads=2",
    "h:1?threads=3",
    "h:1?threads=6",
    "h:1?corethreads=1&threads=4",
    "h:1?corethreads=0&threads=1&alive=1",
    "h:1?corethreads=3&threads=3&queues=50",
    "h:1?queues=100000&alive=100",
};

static int run_under_load(void *arg)
{
    (void)arg;
    atomic_fetch_add(&ran_under_load, 1);
    return 0;
}

static void load(int index, void *arg)
{
    enum { CHANGERS = 2 };
    spn_pool *pool = arg;
    uint64_t seed = t_seed() + (uint64_t)index;

    for (int i = 0; i < t_rounds(4000); i++) {
        if (index < CHANGERS) {
            spn_url *url = read_url(
                settings[t_random(&seed) % (sizeof settings / sizeof *settings)]);
            const int rc = (t_random(&seed) & 1) != 0
                               ? spn_repository_update(r, url, NULL)
                               : spn_repository_reconfigure(r, url, NULL);
            spn_pool_stats stats = SPN_POOL_STATS_INIT;

            CHECK(rc == SPN_OK || rc == SPN_EINVAL);
            CHECK_OK(spn_pool_stats_get(pool, &stats));
            spn_url_unref(url);
        } else if (spn_executor_call(spn_pool_executor(pool), run_under_load, NULL) ==
                   SPN_OK) {
            atomic_fetch_add(&accepted, 1);
        }
    }
}

/* Random changes while tasks run: none is lost, and the last change is what there is. */
TEST(repository__changed_under_load__nothing_lost, "REP-13", "X-18", "P36")
{
    spn_pool_stats stats = SPN_POOL_STATS_INIT;
    spn_url *last = read_url("h:1?corethreads=2&threads=4&queues=77&alive=5000");
    spn_pool *pool;

    open_repository(0);
    pool = take("h:1?threadpool=cached&corethreads=1&threads=2&queues=100000&"
                "reject=abort",
                false);
    t_parallel(T_THREADS, load, pool);
    CHECK_OK(spn_repository_reconfigure(r, last, &problem));
    T_AWAIT(atomic_load(&ran_under_load) == atomic_load(&accepted));
    T_AWAIT(pool_stats(pool).threads <= 4);
    CHECK_OK(spn_pool_stats_get(pool, &stats));
    CHECK_EQ(stats.core_threads, 2);
    CHECK_EQ(stats.max_threads, 4);
    CHECK_EQ(stats.capacity, 77);
    CHECK_EQ(stats.keep_alive_ns, SPN_SEC(5));
    CHECK_OK(spn_repository_release(r, pool));
    spn_url_unref(last);
    close_repository();
    CHECK_EQ(atomic_load(&ran_under_load), atomic_load(&accepted));
}
