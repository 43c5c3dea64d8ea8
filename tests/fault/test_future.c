/* SPDX-License-Identifier: MIT */
/*
 * test_future.c - every allocation of a script that uses all of the futures fails,
 * once and from then on.  Each call must give SPN_OK or SPN_ENOMEM, what was made
 * must work and come to its end, and no block may be left.
 */
#include "faults.h"
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <spindle/alloc.h>
#include <spindle/future.h>
#include <spindle/poll_set.h>
#include <spindle/thread.h>

/* ---- the script ---------------------------------------------------------------------- */

static int calls;

static int call(void *arg, void **result)
{
    calls++;
    *result = arg;
    return 0;
}

static int then(void *arg, void *value, void **result)
{
    (void)value;
    return call(arg, result);
}

static int handle(void *arg, const spn_outcome *outcome, void **result)
{
    (void)outcome;
    return call(arg, result);
}

static int compose(void *arg, void *value, spn_future **next)
{
    calls++;
    (void)value;
    return spn_future_create_completed(next, arg);
}

static int combine(void *arg, void *first, void *second, void **result)
{
    (void)first;
    (void)second;
    return call(arg, result);
}

/* What a call that makes a future may answer; false: there was no memory. */
static bool made(int rc, spn_future *f)
{
    CHECK(rc == SPN_OK || rc == SPN_ENOMEM);
    CHECK((rc == SPN_OK) == (f != NULL));
    return rc == SPN_OK;
}

enum { SLOTS = 24 };

/* Every kind of stage on one source, and the rest of the interface. */
static void use_all(spn_executor *ex, spn_manual_executor *m, spn_future *f,
                    spn_poll_set *set)
{
    spn_future *s[SLOTS] = { NULL }, *ready;
    int n = 0;
    bool in_set;

#define MAKE(...)                      \
    do {                               \
        const int rc_ = (__VA_ARGS__); \
        n += made(rc_, s[n]) ? 1 : 0;  \
    } while (0)
    MAKE(spn_future_then(f, NULL, then, f, &s[n]));
    MAKE(spn_future_then(f, ex, then, f, &s[n]));
    MAKE(spn_future_handle(f, NULL, handle, f, &s[n]));
    MAKE(spn_future_handle(f, ex, handle, f, &s[n]));
    MAKE(spn_future_compose(f, NULL, compose, f, &s[n]));
    MAKE(spn_future_compose(f, ex, compose, f, &s[n]));
    MAKE(spn_future_combine(f, f, NULL, combine, f, &s[n]));
    MAKE(spn_future_combine(f, f, ex, combine, f, &s[n]));
    MAKE(spn_future_either(f, f, NULL, then, f, &s[n]));
    MAKE(spn_future_either(f, f, ex, then, f, &s[n]));
    MAKE(spn_future_any_of(&f, 1, &s[n]));
    MAKE(spn_future_all_of(s, (size_t)n, &s[n]));
    MAKE(spn_future_any_of(s, (size_t)n, &s[n]));
    MAKE(spn_executor_submit(ex, call, f, &s[n]));
    MAKE(spn_future_create_failed(&s[n], 5, "five"));
    in_set = spn_poll_set_add(set, f, NULL) == SPN_OK;

    (void)spn_future_complete(f, f);
    CHECK(spn_manual_executor_run(m, INT64_MAX) >= 0);
    for (int i = 0; i < n; i++) {
        CHECK(spn_future_get_state(s[i]) != SPN_FUTURE_PENDING);
        spn_future_unref(s[i]);
    }
    CHECK_EQ(spn_poll_set_next(set, &ready, NULL), in_set ? SPN_OK : SPN_EEMPTY);
    spn_future_unref(ready);
    CHECK_EQ(spn_manual_executor_pending(m), 0);
}

static void script(void)
{
    spn_manual_executor *m;
    spn_poll_set *set;
    spn_future *f;
    int rc = spn_manual_executor_create(&m);

    CHECK(rc == SPN_OK || rc == SPN_ENOMEM);
    if (rc != SPN_OK)
        return;
    rc = spn_poll_set_create(&set);
    CHECK(rc == SPN_OK || rc == SPN_ENOMEM);
    if (rc == SPN_OK) {
        rc = spn_future_create(&f, NULL);
        if (made(rc, f)) {
            use_all(spn_manual_executor_executor(m), m, f, set);
            spn_future_unref(f);
        }
        CHECK_OK(spn_poll_set_destroy(set));
    }
    CHECK_OK(spn_manual_executor_destroy(m));
}

static void sweep(bool more)
{
    (void)spn_thread_current();
    script();
    fault_sweep(script, more, 20);
}

/* One allocation fails. */
TEST(future__each_allocation_fails__nothing_is_lost, "G-22")
{
    sweep(false);
}

/* All fail from one on. */
TEST(future__all_allocations_fail_from_one_on__nothing_is_lost, "G-22")
{
    sweep(true);
}

/* A thread whose record there is no memory for: it can complete, cancel, run and
 * ask, and only waiting is refused. */
static void *without_record(void *arg)
{
    spn_future *f = arg, *t = NULL;
    void *value = NULL;

    atomic_store(&point, 0);
    atomic_store(&fail_at, 2); /* the first is the task future's own */
    atomic_store(&fail_more, 1);
    if (spn_future_create_task(&t, call, &value, NULL) == SPN_OK) {
        CHECK_STATUS(spn_future_get(t, NULL, SPN_FOREVER), SPN_ENOMEM);
        CHECK_EQ(spn_future_run(t), 1);
        CHECK_OK(spn_future_get(t, &value, SPN_FOREVER));
        CHECK(value == &value);
        spn_future_unref(t);
    }
    CHECK_EQ(spn_future_complete(f, NULL), 1);
    atomic_store(&fail_at, 0);
    return NULL;
}

TEST(future__no_memory_for_the_threads_record__all_but_waiting_works, "G-22", "G-14")
{
    spn_future *f, *s;
    pthread_t thread;

    calls = 0;
    REQUIRE_OK(spn_future_create(&f, NULL));
    REQUIRE_OK(spn_future_then(f, spn_executor_direct(), then, &f, &s));
    REQUIRE(pthread_create(&thread, NULL, without_record, f) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    CHECK_OK(spn_future_get(s, NULL, 0));
    CHECK_EQ(calls, 2);
    spn_future_unref(s);
    spn_future_unref(f);
}
