/* SPDX-License-Identifier: MIT */
/*
 * O1 - an object pool: borrow and return one of a few objects that lie ready, alone and
 * with a second thread that does the same.  `alone` is the only thread of its process, for
 * which the C library's mutex leaves its locked instructions out; in `one-of-two` another
 * thread exists, and sleeps.
 */
#include <pthread.h>

#include <spindle.h>

#include "bench.h"
#include "pair.h"

#ifdef BENCH_HAVE_APR
#include <apr_general.h>
#include <apr_reslist.h>
#include <apr_version.h>
#endif

#define PAIRS   5000000
#define OBJECTS 8

struct lender {
    void *(*borrow)(void *pool);
    void (*give)(void *pool, void *object);
    void *pool;
    uint64_t rounds;
};

static int cells[OBJECTS];

static void lend(void *arg)
{
    const struct lender *l = arg;

    for (uint64_t i = 0; i < l->rounds; i++) {
        void *object = l->borrow(l->pool);

        BENCH_KEEP(object);
        l->give(l->pool, object);
    }
}

static struct word over;

static void sleep_through(void *arg)
{
    (void)arg;
    futex_wait_while(&over.value, 0);
}

/* One thread, or two, which have enough objects both. */
static void run(struct bench *b, struct lender *l)
{
    const uint64_t rounds = bench_count(b, PAIRS);
    struct bench_thread *second = NULL;

    l->rounds = 1000;
    lend(l);
    l->rounds = rounds;
    if (bench_variant_is(b, "one-of-two"))
        second = bench_thread_start(b, sleep_through, NULL);
    bench_start(b);
    if (bench_variant_is(b, "two-free") || bench_variant_is(b, "two-cpus"))
        second = bench_thread_start(b, lend, l);
    lend(l);
    if (bench_variant_is(b, "one-of-two"))
        futex_set(&over.value, 1);
    if (second != NULL)
        bench_thread_join(second);
    bench_stop(b, bench_variant_is(b, "two-free") || bench_variant_is(b, "two-cpus")
                      ? 2 * rounds
                      : rounds);
}

/* ---- spindle ------------------------------------------------------------ */

static int spindle_make(void *ctx, void **object)
{
    static int next;

    (void)ctx;
    *object = &cells[__atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % OBJECTS];
    return 0;
}

static void *spindle_borrow(void *pool)
{
    void *object;

    if (spn_object_pool_borrow(pool, &object, SPN_FOREVER) != SPN_OK)
        _exit(1);
    return object;
}

static void spindle_give(void *pool, void *object)
{
    (void)spn_object_pool_return(pool, object);
}

static void run_spindle_with(struct bench *b, spn_object_pool_opts *opts)
{
    struct lender l = { .borrow = spindle_borrow, .give = spindle_give };
    spn_object_pool *pool;

    opts->max = opts->min_idle = OBJECTS;
    opts->factory.make = spindle_make;
    BENCH_CHECK(b, spn_object_pool_create(&pool, opts) == SPN_OK);
    BENCH_CHECK(b, spn_object_pool_maintain(pool) == SPN_OK);
    l.pool = pool;
    run(b, &l);
    BENCH_CHECK(b, spn_object_pool_shutdown(pool) == SPN_OK);
    BENCH_CHECK(b, spn_object_pool_destroy(pool) == SPN_OK);
}

static void run_spindle(struct bench *b)
{
    spn_object_pool_opts opts = SPN_OBJECT_POOL_OPTS_INIT;

    run_spindle_with(b, &opts);
}

static void run_spindle_fair(struct bench *b)
{
    spn_object_pool_opts opts = SPN_OBJECT_POOL_OPTS_INIT;

    opts.fair = 1;
    run_spindle_with(b, &opts);
}

static void run_spindle_traced(struct bench *b)
{
    spn_object_pool_opts opts = SPN_OBJECT_POOL_OPTS_INIT;

    opts.leak_ns = SPN_SEC(1000);
    opts.trace_frames = 8;
    run_spindle_with(b, &opts);
}

/* ---- what one writes by hand: a mutex, a condition, a stack ----------------- */

struct hand {
    pthread_mutex_t lock;
    pthread_cond_t idle;
    int count;
    void *stack[OBJECTS];
};

static void *hand_borrow(void *pool)
{
    struct hand *h = pool;
    void *object;

    pthread_mutex_lock(&h->lock);
    while (h->count == 0)
        pthread_cond_wait(&h->idle, &h->lock);
    object = h->stack[--h->count];
    pthread_mutex_unlock(&h->lock);
    return object;
}

static void hand_give(void *pool, void *object)
{
    struct hand *h = pool;

    pthread_mutex_lock(&h->lock);
    h->stack[h->count++] = object;
    pthread_cond_signal(&h->idle);
    pthread_mutex_unlock(&h->lock);
}

static void run_hand(struct bench *b)
{
    static struct hand h = { .lock = PTHREAD_MUTEX_INITIALIZER,
                             .idle = PTHREAD_COND_INITIALIZER };
    struct lender l = { hand_borrow, hand_give, &h, 0 };

    for (h.count = 0; h.count < OBJECTS; h.count++)
        h.stack[h.count] = &cells[h.count];
    run(b, &l);
}

/* ---- APR's resource list ------------------------------------------------------ */

#ifdef BENCH_HAVE_APR
static apr_status_t apr_make(void **resource, void *params, apr_pool_t *pool)
{
    (void)params;
    (void)pool;
    (void)spindle_make(NULL, resource);
    return APR_SUCCESS;
}

static apr_status_t apr_unmake(void *resource, void *params, apr_pool_t *pool)
{
    (void)resource;
    (void)params;
    (void)pool;
    return APR_SUCCESS;
}

static void *apr_borrow(void *list)
{
    void *object;

    if (apr_reslist_acquire(list, &object) != APR_SUCCESS)
        _exit(1);
    return object;
}

static void apr_give(void *list, void *object)
{
    (void)apr_reslist_release(list, object);
}

static void run_apr(struct bench *b)
{
    struct lender l = { .borrow = apr_borrow, .give = apr_give };
    apr_reslist_t *list;
    apr_pool_t *pool;

    BENCH_CHECK(b, apr_initialize() == APR_SUCCESS);
    BENCH_CHECK(b, apr_pool_create(&pool, NULL) == APR_SUCCESS);
    BENCH_CHECK(b, apr_reslist_create(&list, OBJECTS, OBJECTS, OBJECTS, 0, apr_make,
                                      apr_unmake, NULL, pool) == APR_SUCCESS);
    l.pool = list;
    run(b, &l);
    apr_pool_destroy(pool);
}

static const char *reslist_version(void)
{
    return apr_version_string();
}
#else
#define run_apr         NULL
#define reslist_version NULL
#endif

/* ---- floor ---------------------------------------------------------------- */

static _Alignas(64) uint64_t word;

static void *floor_borrow(void *pool)
{
    (void)__atomic_fetch_add((uint64_t *)pool, 1, __ATOMIC_ACQUIRE);
    return cells;
}

static void floor_give(void *pool, void *object)
{
    (void)object;
    (void)__atomic_fetch_sub((uint64_t *)pool, 1, __ATOMIC_RELEASE);
}

static void run_floor(struct bench *b)
{
    struct lender l = { floor_borrow, floor_give, &word, 0 };

    run(b, &l);
}

BENCH_WORKLOAD(o1) = {
    .name = "O1",
    .question = "What does it cost to borrow and return an object that lies ready?",
    .metric = "ns_per_pair",
    .variants = { { .name = "alone" },
                  { .name = "one-of-two" },
                  { .name = "two-free" },
                  { .name = "two-cpus", .pinned = true, .cpus = 2 } },
    .subjects = { { .name = "spindle", .run = run_spindle },
                  { .name = "spindle-fair", .run = run_spindle_fair },
                  { .name = "spindle-traced", .run = run_spindle_traced },
                  { .name = "floor", .run = run_floor, .detail = "two atomic adds" },
                  { .name = "mutex+cond",
                    .run = run_hand,
                    .version = bench_glibc_version },
                  { .name = "apr_reslist",
                    .run = run_apr,
                    .version = reslist_version,
                    .package = "libaprutil1-dev" } },
};
