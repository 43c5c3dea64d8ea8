/* SPDX-License-Identifier: MIT */
/*
 * test_sync.c - every place where the system can refuse the library something
 * does so: memory, a thread, a thread-specific key or value, a fork handler.
 *
 * A script uses the whole public interface.  Its calls into the system are
 * counted (the linker wraps them), then the script runs again and again in a
 * child process each time, with call n refused, once or from n on, until n lies
 * behind the last one.  At each point every call of the script must give
 * SPN_OK or a documented status for want of something, what was made must work
 * and be destroyed, and nothing may leak: in the child the script runs a second
 * and a third time without faults and must end with the same number of blocks.
 *
 * Only calls that come from the library's objects are counted: the harness's own
 * threads and memory are made while `armed` is off.
 */
#include "test.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <spindle/clock.h>
#include <spindle/cpu.h>
#include <spindle/latch.h>
#include <spindle/log.h>
#include <spindle/park.h>
#include <spindle/semaphore.h>
#include <spindle/thread.h>

#include "refuse.h"

/* ---- the faults ------------------------------------------------------------------- */

static atomic_long blocks; /* the library's blocks alive */

/* The names the linker gives: __real_x is the system's x, and calls of x from
 * this program, the library in it, come to __wrap_x. */
void *__real_malloc(size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void __real_free(void *memory);
int __real_pthread_atfork(void (*prepare)(void), void (*parent)(void),
                          void (*child)(void));
int __real_pthread_create(pthread_t *id, const pthread_attr_t *attr,
                          void *(*fn)(void *), void *arg);

void *__wrap_malloc(size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void __wrap_free(void *memory);
int __wrap_pthread_atfork(void (*prepare)(void), void (*parent)(void),
                          void (*child)(void));
int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr,
                          void *(*fn)(void *), void *arg);

UNSEEN void *__wrap_malloc(size_t bytes)
{
    void *memory = refuse() ? NULL : __real_malloc(bytes);

    if (memory != NULL && atomic_load(&armed) != 0)
        atomic_fetch_add(&blocks, 1);
    return memory;
}

UNSEEN void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    void *memory = refuse() ? NULL : __real_aligned_alloc(alignment, bytes);

    if (memory != NULL && atomic_load(&armed) != 0)
        atomic_fetch_add(&blocks, 1);
    return memory;
}

UNSEEN void __wrap_free(void *memory)
{
    if (memory != NULL && atomic_load(&armed) != 0)
        atomic_fetch_sub(&blocks, 1);
    __real_free(memory);
}

UNSEEN int __wrap_pthread_atfork(void (*prepare)(void), void (*parent)(void),
                                 void (*child)(void))
{
    return refuse() ? ENOMEM : __real_pthread_atfork(prepare, parent, child);
}

UNSEEN int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr,
                                 void *(*fn)(void *), void *arg)
{
    return refuse() ? EAGAIN : __real_pthread_create(id, attr, fn, arg);
}

#ifdef REFUSE_PTHREAD
int __real_pthread_attr_init(pthread_attr_t *attr);
int __wrap_pthread_attr_init(pthread_attr_t *attr);
int __real_pthread_key_create(pthread_key_t *key, void (*destructor)(void *));
int __real_pthread_setspecific(pthread_key_t key, const void *value);
int __wrap_pthread_key_create(pthread_key_t *key, void (*destructor)(void *));
int __wrap_pthread_setspecific(pthread_key_t key, const void *value);

UNSEEN int __wrap_pthread_attr_init(pthread_attr_t *attr)
{
    return refuse() ? ENOMEM : __real_pthread_attr_init(attr);
}

UNSEEN int __wrap_pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
    return refuse() ? EAGAIN : __real_pthread_key_create(key, destructor);
}

UNSEEN int __wrap_pthread_setspecific(pthread_key_t key, const void *value)
{
    return refuse() ? ENOMEM : __real_pthread_setspecific(key, value);
}
#endif /* REFUSE_PTHREAD */

/* ---- the script -------------------------------------------------------------------- */

/* What a call may say when the system refused it something. */
static bool ok_or_refused(int rc)
{
    const bool known = rc == SPN_OK || ((rc == SPN_ENOMEM || rc == SPN_EAGAIN) &&
                                        atomic_load(&refused) > 0);
    if (!known)
        fprintf(stderr, "  gave %s\n", spn_status_name(rc));
    return known;
}

static int return_seven(void *arg)
{
    (void)arg;
    return 7;
}

static int sleep_a_little(void *clock)
{
    return spn_clock_sleep_until(clock, 10);
}

/* A plain pthread, not counted: the faults are for what it calls. */
static void *visit(void *arg)
{
    spn_semaphore *semaphore = arg;
    int rc = spn_semaphore_acquire(semaphore, 5, SPN_US(10));

    CHECK(rc == SPN_ETIMEDOUT || (rc == SPN_ENOMEM && atomic_load(&refused) > 0));
    spn_park_for(1, NULL); /* says nothing, must not crash */
    if (spn_thread_current() == NULL)
        CHECK(atomic_load(&refused) > 0);
    CHECK_EQ(spn_thread_interrupted(), 0);
    return NULL;
}

static void use_threads(void)
{
    spn_thread_opts opts = SPN_THREAD_OPTS_INIT;
    const uint32_t cpu = 0;
    spn_thread *thread;
    int rc, result;

    for (int variant = 0; variant < 4; variant++) {
        memset(&opts, 0, sizeof opts);
        opts.size = sizeof opts;
        opts.name = "variant-1";
        opts.stack_size = variant == 1 ? 512 * 1024 : 0;
        opts.sched = variant == 2 ? SPN_SCHED_OTHER : SPN_SCHED_INHERIT;
        opts.cpus = variant == 3 ? &cpu : NULL;
        opts.cpu_count = variant == 3 ? 1 : 0;
        thread = (void *)&opts;
        rc = spn_thread_create(&thread, &opts, return_seven, NULL);
        CHECK(ok_or_refused(rc));
        CHECK((rc == SPN_OK) == (thread != NULL));
        if (rc != SPN_OK)
            continue;
        result = -1;
        rc = spn_thread_join(thread, SPN_FOREVER, &result);
        CHECK(ok_or_refused(rc)); /* the caller may lack a record of its own */
        CHECK_EQ(result, rc == SPN_OK ? 7 : -1);
        spn_unpark(thread);
        CHECK_OK(spn_thread_interrupt(thread));
        spn_thread_unref(thread); /* if not joined: detached, it ends by itself */
    }
}

static void use_latch(void)
{
    spn_latch *latch = (void *)&latch;
    int rc = spn_latch_create(&latch, 1);

    CHECK(ok_or_refused(rc));
    CHECK((rc == SPN_OK) == (latch != NULL));
    if (rc != SPN_OK)
        return;
    rc = spn_latch_await(latch, SPN_US(10));
    CHECK(rc == SPN_ETIMEDOUT || (rc == SPN_ENOMEM && atomic_load(&refused) > 0));
    CHECK_EQ(spn_latch_count(latch), 1);
    CHECK_OK(spn_latch_count_down(latch)); /* these cannot fail for want of memory */
    CHECK_OK(spn_latch_await(latch, SPN_FOREVER));
    CHECK_OK(spn_latch_destroy(latch));
}

static void use_semaphore(void)
{
    spn_semaphore *semaphore = (void *)&semaphore;
    pthread_t id;
    int rc = spn_semaphore_create(&semaphore, NULL);

    CHECK(ok_or_refused(rc));
    CHECK((rc == SPN_OK) == (semaphore != NULL));
    if (rc != SPN_OK)
        return;
    CHECK_OK(spn_semaphore_release(semaphore, 2));
    rc = spn_semaphore_acquire(semaphore, 3, SPN_US(10));
    CHECK(rc == SPN_ETIMEDOUT || (rc == SPN_ENOMEM && atomic_load(&refused) > 0));
    CHECK_EQ(spn_semaphore_available(semaphore), 2);
    REQUIRE(__real_pthread_create(&id, NULL, visit, semaphore) == 0);
    REQUIRE(pthread_join(id, NULL) == 0);
    CHECK_OK(spn_semaphore_acquire(semaphore, 2, 0));
    CHECK_OK(spn_semaphore_destroy(semaphore));
}

static void use_clocks(void)
{
    spn_clock *clock = (void *)&clock;
    spn_thread *thread = NULL;
    int rc = spn_clock_create_manual(&clock, 0), result = -1;

    CHECK(ok_or_refused(rc));
    CHECK((rc == SPN_OK) == (clock != NULL));
    CHECK(
        ok_or_refused(spn_clock_sleep_until(spn_clock_monotonic(), spn_now() + 1000)));
    if (rc != SPN_OK)
        return;
    rc = spn_thread_create(&thread, NULL, sleep_a_little, clock);
    CHECK(ok_or_refused(rc));
    if (rc == SPN_OK) {
        rc = spn_clock_await_sleepers(clock, 1, SPN_FOREVER);
        CHECK(ok_or_refused(rc));
        CHECK_OK(spn_clock_advance(clock, 10));
        rc = spn_thread_join(thread, SPN_FOREVER, &result);
        CHECK(ok_or_refused(rc));
        if (rc == SPN_OK)
            CHECK(ok_or_refused(result));
        else
            T_AWAIT(spn_clock_destroy(clock) == SPN_OK); /* it still sleeps on it */
        spn_thread_unref(thread);
    }
    if (rc == SPN_OK || thread == NULL)
        CHECK_OK(spn_clock_destroy(clock));
}

static void run_script(void)
{
    spn_cpu_limits limits = SPN_CPU_LIMITS_INIT;
    sigset_t mask;

    use_latch();
    use_semaphore();
    use_clocks();
    use_threads();
    spn_unpark(spn_thread_current());
    spn_park(NULL);
    (void)spn_thread_interrupted();
    CHECK_OK(spn_thread_exec_sigmask(&mask));
    CHECK(spn_cpu_count() >= 1);
    CHECK_OK(spn_cpu_limits_get(&limits));
    CHECK_OK(spn_log_set_level(SPN_LOG_WARN));
}

/* ---- the sweep ---------------------------------------------------------------------- */

struct fault {
    int at;
    int more;
    int points; /* how many there were; only in the process that counts */
};

/* In a fresh process, so that caches are empty and what is done once is not yet
 * done. */
static void run_with_fault(void *arg)
{
    const struct fault *f = arg;
    long after_first, after_second;

    atomic_store(&fail_at, f->at);
    atomic_store(&fail_more, f->more);
    atomic_store(&armed, 1);
    run_script();
    CHECK(atomic_load(&refused) >= 1);

    atomic_store(&fail_at, 0); /* all is well again: everything works */
    atomic_store(&refused, 0);
    run_script();
    after_first = atomic_load(&blocks);
    run_script();
    after_second = atomic_load(&blocks);
    atomic_store(&armed, 0);
    CHECK(after_second <= after_first + 1); /* a detached thread's record at most */
    if (after_second > after_first + 1)
        fprintf(stderr, "  blocks %ld, then %ld\n", after_first, after_second);
}

static void count_points(void *arg)
{
    (void)arg;
    atomic_store(&armed, 1);
    run_script();
    atomic_store(&armed, 0);
    CHECK_EQ(atomic_load(&refused), 0);
    printf("points=%d\n", atomic_load(&point));
}

static int number_of_points(void)
{
    char text[256];
    const char *found;

    CHECK_EQ(t_child(count_points, NULL, text, sizeof text), 0);
    found = strstr(text, "points=");
    return found != NULL ? atoi(found + 7) : 0;
}

static void sweep(int more)
{
    const int points = number_of_points();

    REQUIRE(points > 10); /* or the wraps do not reach the library */
    for (int at = 1; at <= points; at++) {
        struct fault f = { .at = at, .more = more };

        if (!CHECK_CHILD(run_with_fault, &f))
            fprintf(stderr, "  in: call %d refused%s\n", at,
                    more ? ", and all that follow" : "");
    }
    printf("  %d points at which the system may refuse\n", points);
}

/* Each call into the system is refused once; the next one succeeds. */
TEST(fault__each_call_refused_once__documented_status_and_no_leak, "G-1", "G-22")
{
    sweep(0);
}

/* From each call on, all are refused. */
TEST(fault__all_calls_refused_from_each_on__documented_status_and_no_leak, "G-1",
     "G-22")
{
    sweep(1);
}
