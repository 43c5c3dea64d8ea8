/* SPDX-License-Identifier: MIT */
/*
 * test_interrupt.c - the interrupt flag, against every wait that obeys it and
 * every call that must leave it alone, on threads of the library and others.
 */
#include "counting.h"
#include "test.h"
#include "waits.h"

#include <pthread.h>
#include <signal.h>

/* ---- the flag itself ------------------------------------------------------ */

/* Sets the calling thread's own flag. */
static void interrupt_self(void)
{
    REQUIRE_OK(spn_thread_interrupt(spn_thread_current()));
}

/* Interrupt sets a flag that stays until interrupted() reads and clears it. */
TEST(interrupt__set__sticky_until_cleared, "G-9")
{
    spn_thread *self = spn_thread_current();

    REQUIRE(self != NULL);
    CHECK_EQ(spn_thread_is_interrupted(self), 0);
    CHECK_EQ(spn_thread_interrupted(), 0);
    CHECK_OK(spn_thread_interrupt(self));
    CHECK_EQ(spn_thread_is_interrupted(self), 1);
    CHECK_EQ(spn_thread_is_interrupted(self), 1);
    CHECK_OK(spn_thread_interrupt(self)); /* twice is once */
    CHECK_EQ(spn_thread_interrupted(), 1);
    CHECK_EQ(spn_thread_is_interrupted(self), 0);
    CHECK_EQ(spn_thread_interrupted(), 0);
}

static int return_flag(void *arg)
{
    atomic_int *go = arg;

    T_AWAIT(atomic_load(go) != 0);
    return spn_thread_interrupted();
}

/* The flag belongs to one thread: another's stays as it was. */
TEST(interrupt__one_thread__no_other_sees_it, "G-9")
{
    atomic_int go = 0;
    spn_thread *a, *b;
    int result;

    REQUIRE_OK(spn_thread_create(&a, NULL, return_flag, &go));
    REQUIRE_OK(spn_thread_create(&b, NULL, return_flag, &go));
    CHECK_OK(spn_thread_interrupt(a));
    CHECK_EQ(spn_thread_is_interrupted(a), 1);
    CHECK_EQ(spn_thread_is_interrupted(b), 0);
    CHECK_EQ(spn_thread_interrupted(), 0);
    atomic_store(&go, 1);
    CHECK_OK(spn_thread_join(a, SPN_FOREVER, &result));
    CHECK_EQ(result, 1);
    CHECK_OK(spn_thread_join(b, SPN_FOREVER, &result));
    CHECK_EQ(result, 0);
    spn_thread_unref(a);
    spn_thread_unref(b);
}

static int return_zero(void *arg)
{
    (void)arg;
    return 0;
}

/* Interrupting a thread that has ended does nothing, and a later thread that
 * gets the same memory starts with a clear flag. */
TEST(interrupt__ended_thread__harmless, "G-9")
{
    for (int i = 0; i < 50; i++) {
        atomic_int go = 1;
        spn_thread *ended, *next;
        int result = -1;

        REQUIRE_OK(spn_thread_create(&ended, NULL, return_zero, NULL));
        CHECK_OK(spn_thread_join(ended, SPN_FOREVER, NULL));
        CHECK_OK(spn_thread_interrupt(ended));
        spn_thread_unref(ended);
        REQUIRE_OK(spn_thread_create(&next, NULL, return_flag, &go));
        CHECK_OK(spn_thread_join(next, SPN_FOREVER, &result));
        CHECK_EQ(result, 0);
        spn_thread_unref(next);
    }
}

/* ---- every wait ----------------------------------------------------------- */

/* A wait that would have to wait, entered with the flag set, returns EINTR at
 * once, clears the flag and leaves the object alone. */
TEST(interrupt__before_the_wait__returns_at_once, "G-9", "G-10")
{
    static const int64_t timeouts[] = { SPN_FOREVER, SPN_SEC(3600) };

    for (int k = 0; k < WAIT_KINDS; k++) {
        const struct wait_kind *kind = &wait_kinds[k];

        for (int i = 0; i < 2; i++) {
            struct wait_call c;

            wait_call_open(&c, kind, timeouts[i]);
            interrupt_self();
            name_row(kind, timeouts[i], CHECK_STATUS(wait_call_run(&c), SPN_EINTR));
            name_row(kind, timeouts[i], CHECK_EQ(spn_thread_interrupted(), 0));
            name_row(kind, timeouts[i], CHECK(kind->intact(&c.subject)));
            kind->close(&c.subject);
        }
    }
}

/* A wait that need not wait succeeds and leaves the flag set. */
TEST(interrupt__condition_holds__succeeds_and_keeps_flag, "G-10", "G-12")
{
    for (int k = 0; k < WAIT_KINDS; k++) {
        const struct wait_kind *kind = &wait_kinds[k];
        struct wait_call c;

        if ((kind->flags & WAIT_HAS_RELEASE) == 0)
            continue;
        wait_call_open(&c, kind, SPN_FOREVER);
        kind->release(&c.subject);
        if (c.subject.target != NULL)
            CHECK_OK(spn_thread_join(c.subject.target, SPN_FOREVER, NULL));
        if (c.subject.sleeper_started != 0)
            CHECK_OK(spn_clock_await_sleepers(c.subject.clock, 1, SPN_FOREVER));
        interrupt_self();
        name_row(kind, SPN_FOREVER, CHECK_OK(wait_call_run(&c)));
        name_row(kind, SPN_FOREVER, CHECK_EQ(spn_thread_interrupted(), 1));
        kind->close(&c.subject);
    }
}

/* With no time to wait and the flag set, the answer and the flag agree: the
 * timeout result leaves it set, EINTR clears it. */
TEST(interrupt__no_time_to_wait__result_and_flag_agree, "G-6", "G-12")
{
    for (int k = 0; k < WAIT_KINDS; k++) {
        const struct wait_kind *kind = &wait_kinds[k];
        struct wait_call c;
        int rc, flag;

        wait_call_open(&c, kind, 0);
        interrupt_self();
        rc = wait_call_run(&c);
        flag = spn_thread_interrupted();
        name_row(kind, 0,
                 CHECK((rc == kind->expired && flag == 1) ||
                       (rc == SPN_EINTR && flag == 0)));
        name_row(kind, 0, CHECK(kind->intact(&c.subject)));
        kind->close(&c.subject);
    }
}

/* An interrupt during the wait ends it promptly with EINTR, clears the flag and
 * leaves the object as if nobody had come; the object still works. */
static void interrupt_while_waiting(bool foreign)
{
    static const int64_t timeouts[] = { SPN_FOREVER, SPN_SEC(3600) };

    for (int k = 0; k < WAIT_KINDS; k++) {
        const struct wait_kind *kind = &wait_kinds[k];

        for (int i = 0; i < 2; i++) {
            struct wait_call c;
            struct peer p;
            int64_t began;

            wait_call_open(&c, kind, timeouts[i]);
            if (foreign)
                peer_start_foreign(&p, wait_call_run, &c);
            else
                peer_start(&p, wait_call_run, &c);
            peer_await_blocked(&p);
            name_row(kind, timeouts[i], CHECK_EQ(atomic_load(&p.done), 0));
            began = spn_now();
            CHECK_OK(spn_thread_interrupt(p.thread));
            name_row(kind, timeouts[i], CHECK_STATUS(peer_finish(&p), SPN_EINTR));
            name_row(kind, timeouts[i], CHECK(spn_now() - began < T_LONG_NS));
            name_row(kind, timeouts[i], CHECK_EQ(p.flag_after, 0));
            name_row(kind, timeouts[i], CHECK(kind->intact(&c.subject)));
            if ((kind->flags & WAIT_HAS_RELEASE) != 0) {
                peer_start(&p, wait_call_run, &c);
                kind->release(&c.subject);
                name_row(kind, timeouts[i], CHECK_OK(peer_finish(&p)));
            }
            kind->close(&c.subject);
        }
    }
}

TEST(interrupt__during_the_wait__returns_promptly, "G-9", "G-11")
{
    interrupt_while_waiting(false);
}

/* The same for a thread the library did not make. */
TEST(interrupt__foreign_thread_waits__returns_promptly, "G-11", "G-14")
{
    interrupt_while_waiting(true);
}

/* Of three waiters only the interrupted one leaves; the two others are served
 * by the two signals that follow. */
TEST(interrupt__one_of_three_waiters__others_go_on_waiting, "G-11", "G-20")
{
    for (int k = 0; k < WAIT_KINDS; k++) {
        const struct wait_kind *kind = &wait_kinds[k];
        struct wait_call c;
        struct peer p[3];

        if ((kind->flags & WAIT_HAS_RELEASE) == 0)
            continue;
        wait_call_open(&c, kind, SPN_FOREVER);
        for (int i = 0; i < 3; i++) {
            peer_start(&p[i], wait_call_run, &c);
            peer_await_blocked(&p[i]);
        }
        CHECK_OK(spn_thread_interrupt(p[1].thread));
        name_row(kind, SPN_FOREVER, CHECK_STATUS(peer_finish(&p[1]), SPN_EINTR));
        CHECK_EQ(p[1].flag_after, 0);
        name_row(kind, SPN_FOREVER, CHECK_EQ(atomic_load(&p[0].done), 0));
        name_row(kind, SPN_FOREVER, CHECK_EQ(atomic_load(&p[2].done), 0));
        kind->release(&c.subject);
        if (c.subject.semaphore != NULL || atomic_load(&c.subject.room) != 0)
            kind->release(&c.subject); /* one release serves one wait */
        name_row(kind, SPN_FOREVER, CHECK_OK(peer_finish(&p[0])));
        name_row(kind, SPN_FOREVER, CHECK_OK(peer_finish(&p[2])));
        kind->close(&c.subject);
    }
}

/* ---- the race ------------------------------------------------------------- */

/* One waiter thread for all rounds; main plays both signals in either order,
 * with a moment of random length between them and the wait. */
struct collision {
    struct wait_call call;
    atomic_int round;    /* main: go, round n */
    atomic_int finished; /* waiter: done with round n */
    atomic_int interrupt_sent;
    int rounds, rc, flag;
    spn_thread *waiter;
    uint64_t seed;
};

static void dawdle(uint64_t *state, unsigned most)
{
    for (volatile unsigned i = (unsigned)(t_random(state) % most); i > 0; i--) {
    }
}

static int collide_waiter(void *arg)
{
    struct collision *x = arg;
    uint64_t state = x->seed ^ 1;

    for (int i = 1; i <= x->rounds; i++) {
        T_AWAIT(atomic_load(&x->round) == i);
        dawdle(&state, 300);
        x->rc = wait_call_run(&x->call);
        /* Only after the interrupt was sent does the flag say anything. */
        T_AWAIT(atomic_load(&x->interrupt_sent) == i);
        x->flag = spn_thread_interrupted();
        atomic_store(&x->finished, i);
    }
    return 0;
}

static int collide_interrupter(void *arg)
{
    struct collision *x = arg;
    uint64_t state = x->seed ^ 2;

    for (int i = 1; i <= x->rounds; i++) {
        T_AWAIT(atomic_load(&x->round) == i);
        dawdle(&state, 1500);
        if (spn_thread_interrupt(x->waiter) != SPN_OK)
            return 1;
        atomic_store(&x->interrupt_sent, i);
    }
    return 0;
}

/* When the event and the interrupt collide, the wait either succeeds and the
 * flag is still set, or returns EINTR and the flag is clear; an object whose
 * wait was interrupted has given nothing away. */
TEST(interrupt__collides_with_the_event__one_of_two_outcomes, "G-11", "G-12")
{
    for (int k = 0; k < WAIT_KINDS; k++) {
        const struct wait_kind *kind = &wait_kinds[k];
        struct collision x;
        spn_thread *interrupter;
        uint64_t state = t_seed() + (uint64_t)k;
        int won = 0, lost = 0;

        if ((kind->flags & WAIT_HAS_RELEASE) == 0)
            continue;
        memset(&x, 0, sizeof x);
        x.rounds = t_rounds(2000);
        x.seed = t_random(&state);
        wait_call_open(&x.call, kind, SPN_FOREVER);
        REQUIRE_OK(spn_thread_create(&x.waiter, NULL, collide_waiter, &x));
        REQUIRE_OK(spn_thread_create(&interrupter, NULL, collide_interrupter, &x));
        for (int i = 1; i <= x.rounds; i++) {
            bool ok;

            atomic_store(&x.round, i);
            dawdle(&state, 1500);
            kind->release(&x.call.subject);
            T_AWAIT(atomic_load(&x.finished) == i);
            ok = (x.rc == SPN_OK && x.flag == 1) || (x.rc == SPN_EINTR && x.flag == 0);
            name_row(kind, SPN_FOREVER, CHECK(ok));
            won += x.rc == SPN_OK;
            lost += x.rc == SPN_EINTR;
            if (x.call.subject.semaphore != NULL)
                CHECK_EQ(spn_semaphore_available(x.call.subject.semaphore),
                         x.rc == SPN_OK ? 0 : x.call.subject.permits);
            kind->close(&x.call.subject);
            wait_call_open(&x.call, kind, SPN_FOREVER);
            if (!ok)
                fprintf(stderr, "  rc %d, flag %d in round %d\n", x.rc, x.flag, i);
        }
        kind->close(&x.call.subject);
        CHECK_OK(spn_thread_join(x.waiter, SPN_FOREVER, NULL));
        CHECK_OK(spn_thread_join(interrupter, SPN_FOREVER, NULL));
        spn_thread_unref(x.waiter);
        spn_thread_unref(interrupter);
        CHECK_EQ(won + lost, x.rounds);
    }
}

/* ---- calls that leave the flag alone --------------------------------------- */

/* Calls that are not interruptible neither fail for the flag nor clear it. */
TEST(interrupt__calls_that_do_not_wait__flag_stays, "G-13")
{
    spn_thread *self = spn_thread_current(), *thread;
    spn_semaphore_opts opts = SPN_SEMAPHORE_OPTS_INIT;
    spn_semaphore *semaphore;
    spn_latch *latch;
    spn_clock *clock;
    const void *blocker;
    sigset_t mask;
    char name[32];

#define STAYS(call) (CHECK(call), CHECK_EQ(spn_thread_is_interrupted(self), 1))
    interrupt_self();
    STAYS(spn_latch_create(&latch, 2) == SPN_OK);
    STAYS(spn_latch_count_down(latch) == SPN_OK);
    STAYS(spn_latch_count(latch) == 1);
    STAYS(spn_latch_count_down(latch) == SPN_OK);
    STAYS(spn_latch_destroy(latch) == SPN_OK);
    opts.permits = 3;
    STAYS(spn_semaphore_create(&semaphore, &opts) == SPN_OK);
    STAYS(spn_semaphore_acquire(semaphore, 1, 0) == SPN_OK);
    STAYS(spn_semaphore_release(semaphore, 1) == SPN_OK);
    STAYS(spn_semaphore_available(semaphore) == 3);
    STAYS(spn_semaphore_destroy(semaphore) == SPN_OK);
    STAYS(spn_clock_create_manual(&clock, 1) == SPN_OK);
    STAYS(spn_clock_now(clock) == 1);
    STAYS(spn_clock_advance(clock, 4) == SPN_OK);
    STAYS(spn_clock_advance_to_next(clock, NULL) == SPN_EEMPTY);
    STAYS(spn_clock_destroy(clock) == SPN_OK);
    STAYS(spn_now() > 0);
    STAYS(spn_thread_create(&thread, NULL, return_zero, NULL) == SPN_OK);
    STAYS(spn_thread_name(thread, name, sizeof name) == 7);
    STAYS(spn_thread_current() == self);
    STAYS(spn_thread_ref(thread) == thread);
    spn_thread_unref(thread);
    STAYS(spn_thread_interrupt(thread) == SPN_OK);
    STAYS(spn_thread_is_interrupted(thread) >= 0);
    STAYS(spn_thread_blocker(thread, &blocker) == SPN_OK);
    STAYS(spn_thread_exec_sigmask(&mask) == SPN_OK);
    STAYS((spn_unpark(self), true));
    STAYS((spn_park(NULL), true));
    STAYS((spn_park_for(SPN_SEC(100), NULL), true));
    STAYS((spn_park_until(SPN_FOREVER, NULL), true));
#undef STAYS
    CHECK_EQ(spn_thread_interrupted(), 1);
    CHECK_OK(spn_thread_join(thread, SPN_FOREVER, NULL));
    spn_thread_unref(thread);
}

/* ---- foreign threads -------------------------------------------------------- */

struct foreign_use {
    spn_semaphore *permits;
    spn_latch *all_done;
    atomic_int used;
};

/* Uses the library the way a stranger would: waits, is counted, interrupts
 * itself, parks; then simply exits. */
static void *use_library(void *arg)
{
    struct foreign_use *f = arg;

    if (spn_thread_current() == NULL)
        return NULL;
    if (spn_semaphore_acquire(f->permits, 1, SPN_FOREVER) != SPN_OK)
        return NULL;
    spn_unpark(spn_thread_current());
    spn_park(NULL);
    if (spn_thread_interrupt(spn_thread_current()) != SPN_OK ||
        spn_thread_interrupted() != 1)
        return NULL;
    atomic_fetch_add(&f->used, 1);
    spn_semaphore_release(f->permits, 1);
    spn_latch_count_down(f->all_done);
    return NULL;
}

enum { BATCH = 8 }; /* foreign threads at once */

static void churn_foreign(int threads)
{
    spn_semaphore_opts opts = SPN_SEMAPHORE_OPTS_INIT;
    struct foreign_use f = { .used = 0 };

    opts.permits = 3; /* fewer than threads: some have to wait */
    REQUIRE_OK(spn_semaphore_create(&f.permits, &opts));
    for (int done = 0; done < threads; done += BATCH) {
        pthread_t ids[BATCH];

        REQUIRE_OK(spn_latch_create(&f.all_done, BATCH));
        for (int i = 0; i < BATCH; i++)
            REQUIRE(pthread_create(&ids[i], NULL, use_library, &f) == 0);
        CHECK_OK(spn_latch_await(f.all_done, SPN_FOREVER));
        for (int i = 0; i < BATCH; i++)
            REQUIRE(pthread_join(ids[i], NULL) == 0);
        CHECK_OK(spn_latch_destroy(f.all_done));
    }
    CHECK_EQ(atomic_load(&f.used), threads);
    CHECK_EQ(spn_semaphore_available(f.permits), 3);
    CHECK_OK(spn_semaphore_destroy(f.permits));
}

/* Threads that come, use the library and go leave nothing behind: after the
 * first few, ten thousand more need no new record. */
TEST(interrupt__ten_thousand_foreign_threads__no_record_leaks, "G-14", "P46")
{
    long before, allocations;

    churn_foreign(64);
    before = atomic_load(&counting_live);
    allocations = atomic_load(&counting_allocs);
    churn_foreign(t_rounds(10000) / 8 * 8);
    /* The first pass may never have had all of a batch alive at once. */
    CHECK(atomic_load(&counting_live) <= before + BATCH);
    /* One latch a batch and the semaphore, and no record per thread. */
    CHECK(atomic_load(&counting_allocs) - allocations <=
          t_rounds(10000) / BATCH + BATCH + 1);
}

static void *attach_and_note(void *arg)
{
    spn_thread **handle = arg;

    *handle = spn_thread_ref(spn_thread_current());
    return NULL;
}

/* A handle of a foreign thread that has exited stays valid and harmless. */
TEST(interrupt__foreign_thread_exited__handle_stays_harmless, "G-14", "LS-8")
{
    spn_thread *handle = NULL;
    const void *blocker = &handle;
    pthread_t id;
    char name[64];

    REQUIRE(pthread_create(&id, NULL, attach_and_note, &handle) == 0);
    REQUIRE(pthread_join(id, NULL) == 0);
    REQUIRE(handle != NULL);
    spn_unpark(handle);
    CHECK_OK(spn_thread_interrupt(handle));
    CHECK(spn_thread_is_interrupted(handle) >= 0);
    CHECK_OK(spn_thread_blocker(handle, &blocker));
    CHECK(blocker == NULL);
    CHECK(spn_thread_name(handle, name, sizeof name) > 0);
    CHECK_STATUS(spn_thread_join(handle, 0, NULL), SPN_EINVAL);
    spn_thread_unref(handle);
}

static pthread_key_t late_key;
static atomic_int late_uses;

/* Runs among the key destructors of an exiting thread, before or after the
 * library's own. */
static void use_library_late(void *value)
{
    if (spn_thread_current() != NULL && spn_thread_interrupted() == 0)
        atomic_fetch_add(&late_uses, 1);
    (void)value;
}

static void *exit_with_late_use(void *arg)
{
    REQUIRE(pthread_setspecific(late_key, arg) == 0);
    return spn_thread_current() != NULL ? arg : NULL;
}

/* A thread may use the library even from its own key destructors, and still
 * leaves nothing behind. */
TEST(interrupt__used_in_a_key_destructor__attaches_again, "G-14")
{
    long before = 0;

    REQUIRE(pthread_key_create(&late_key, use_library_late) == 0);
    for (int i = 0; i < 200; i++) {
        pthread_t id;

        if (i == 8)
            before = atomic_load(&counting_live);
        REQUIRE(pthread_create(&id, NULL, exit_with_late_use, &before) == 0);
        REQUIRE(pthread_join(id, NULL) == 0);
    }
    CHECK_EQ(atomic_load(&late_uses), 200);
    CHECK(atomic_load(&counting_live) <= before);
    REQUIRE(pthread_key_delete(late_key) == 0);
}
