/* SPDX-License-Identifier: MIT */
/*
 * test_services.c - many threads on the services above a pool: keys that come and go,
 * futures given out, waits that end in every way.  Each task is counted.
 */
#include "executor_kinds.h"
#include "test.h"

#include <stdlib.h>

enum { PRODUCERS = 4, KEYS = 16 };

/* ---- keys -------------------------------------------------------------------------------- */

struct ledger {
    spn_serial *s;
    int per_producer;
    long plain[PRODUCERS][KEYS]; /* guarded by nothing but the order of the key */
    int last[PRODUCERS][KEYS];
    atomic_long accepted, refused, ran, wrong;
};

struct entry {
    struct ledger *l;
    int producer, key, number;
};

static int post(void *arg)
{
    struct entry *e = arg;
    struct ledger *l = e->l;

    l->plain[e->producer][e->key]++;
    atomic_fetch_add(&l->wrong, l->last[e->producer][e->key] >= e->number);
    l->last[e->producer][e->key] = e->number;
    atomic_fetch_add(&l->ran, 1);
    free(e);
    return 0;
}

static void post_many(int index, void *arg)
{
    struct ledger *l = arg;
    uint64_t random = t_seed() + (uint64_t)index;

    for (int i = 1; i <= l->per_producer; i++) {
        const int key = (int)(t_random(&random) % KEYS);
        struct entry *e = malloc(sizeof *e);
        spn_executor *turns;
        int rc;

        REQUIRE(e != NULL);
        *e = (struct entry){ l, index, key, i };
        REQUIRE_OK(spn_serial_open(l->s, (uint64_t)(index * KEYS + key), &turns));
        rc = spn_executor_call(turns, post, e);
        CHECK_OK(spn_serial_close(l->s, turns));
        if (rc == SPN_EREJECTED) { /* it never ran, and is ours */
            free(e);
            atomic_fetch_add(&l->refused, 1);
            continue;
        }
        CHECK_OK(rc);
        atomic_fetch_add(&l->accepted, 1);
    }
}

/* Keys go idle and come back all the time: every posting once, in the order of its
 * key, without a lock. */
TEST(stress_serial__keys_come_and_go__each_once_in_order, "X-15", "G-19")
{
    struct kind k;

    EACH_KIND(k)
    {
        static struct ledger l;
        spn_serial_opts opts = SPN_SERIAL_OPTS_INIT;
        long sum = 0;

        if (k.pool == NULL)
            continue;
        l = (struct ledger){ .per_producer = t_rounds(20000) };
        opts.batch = 5;
        REQUIRE_OK(spn_serial_create(&l.s, k.executor, &opts));
        t_parallel(PRODUCERS, post_many, &l);
        CHECK_OK(spn_executor_shutdown(spn_serial_executor(l.s)));
        CHECK_OK(spn_executor_await(spn_serial_executor(l.s), SPN_FOREVER));
        for (int i = 0; i < PRODUCERS * KEYS; i++)
            sum += l.plain[i / KEYS][i % KEYS];
        /* A hand-off has as many threads as there are keys, and refuses the turn of a key
         * whose last turn is just giving its thread back; the others have room. */
        CHECK(k.at == KIND_CACHED || atomic_load(&l.refused) == 0);
        CHECK_EQ(sum, atomic_load(&l.accepted));
        CHECK_EQ(atomic_load(&l.ran), sum);
        CHECK_EQ(atomic_load(&l.wrong), 0);
        CHECK_OK(spn_serial_destroy(l.s));
    }
}

/* ---- invoke and completion ----------------------------------------------------------------- */

static atomic_long called;

static int count_call(void *arg, void **result)
{
    atomic_fetch_add(&called, 1);
    *result = arg;
    return 0;
}

static void invoke_many(int index, void *arg)
{
    struct kind *k = arg;
    const int rounds = t_rounds(500);
    spn_completion *c;
    uint64_t random = t_seed() + (uint64_t)index;

    REQUIRE_OK(spn_completion_create(&c, k->executor));
    for (int r = 0; r < rounds; r++) {
        spn_call calls[4];
        spn_future *f[4];
        void *value = NULL;

        for (int i = 0; i < 4; i++)
            calls[i] = (spn_call){ count_call, &calls[i] };
        switch (t_random(&random) % 3) {
        case 0:
            CHECK_OK(
                spn_executor_invoke_all(k->executor, calls, 4, SPN_FOREVER, NULL, f));
            for (int i = 0; i < 4; i++) {
                CHECK_OK(spn_future_get(f[i], &value, 0));
                CHECK(value == &calls[i]);
                spn_future_unref(f[i]);
            }
            break;
        case 1:
            CHECK_OK(spn_executor_invoke_any(k->executor, calls, 4, SPN_FOREVER, NULL,
                                             &value, NULL));
            CHECK((spn_call *)value >= calls && (spn_call *)value < calls + 4);
            break;
        default:
            for (int i = 0; i < 4; i++)
                CHECK_OK(spn_completion_submit(c, count_call, NULL, NULL, NULL));
            for (int i = 0; i < 4; i++) {
                CHECK_OK(spn_completion_take(c, &f[0], SPN_FOREVER));
                CHECK(spn_future_get_state(f[0]) != SPN_FUTURE_PENDING);
                spn_future_unref(f[0]);
            }
        }
    }
    CHECK_OK(spn_completion_destroy(c));
}

/* All of it from several threads at once. */
TEST(stress_invoke__many_invokers__each_gets_its_own, "AES-17", "AES-9", "ECS-12")
{
    struct kind k;

    EACH_KIND(k)
    {
        if (k.pool == NULL)
            continue;
        t_parallel(T_THREADS, invoke_many, &k);
    }
}

/* ---- waits from outside ------------------------------------------------------------------------- */

struct closing {
    spn_pool *pool;
    spn_future *f;
};

static void get_or_close(int index, void *arg)
{
    struct closing *c = arg;

    if (index != 0) {
        CHECK_OK(spn_future_get(c->f, NULL, SPN_FOREVER));
        return;
    }
    CHECK_OK(spn_pool_close(c->pool));
    CHECK_OK(spn_pool_destroy(c->pool));
}

/* The pool is closed and freed while others wait for its last future. */
TEST(stress_waits__pool_freed_while_waited_for__is_not_touched)
{
    const int rounds = t_rounds(1500);

    for (int r = 0; r < rounds; r++) {
        spn_pool_opts opts = spn_pool_opts_fixed(1, -1);
        struct closing c;

        REQUIRE_OK(spn_pool_create(&c.pool, &opts));
        REQUIRE_OK(
            spn_executor_submit(spn_pool_executor(c.pool), count_call, NULL, &c.f));
        t_parallel(3, get_or_close, &c);
        CHECK(spn_future_get_state(c.f) != SPN_FUTURE_PENDING);
        spn_future_unref(c.f);
    }
}
