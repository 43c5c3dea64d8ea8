/* SPDX-License-Identifier: MIT */
/*
 * test_park.c - park and unpark, each property for all six forms of park.
 *
 * A park may return for no reason, so a test of "it sleeps" counts early
 * returns against what was given to it rather than expecting none.
 */
#include "peer.h"
#include "test.h"

#include <stdatomic.h>

#include <spindle/clock.h>
#include <spindle/park.h>

/* ---- the six forms --------------------------------------------------------- */

static int blocker_object;

static void form_park(int64_t timeout_ns, const void *blocker)
{
    (void)timeout_ns;
    spn_park(blocker);
}

static void form_until(int64_t timeout_ns, const void *blocker)
{
    const int64_t now = spn_now();
    spn_park_until(timeout_ns > INT64_MAX - now ? INT64_MAX : now + timeout_ns,
                   blocker);
}

static const struct form {
    const char *name;
    void (*park)(int64_t timeout_ns, const void *blocker);
    const void *blocker;
    bool timed;
} forms[] = {
    { "park", form_park, NULL, false },
    { "park with a blocker", form_park, &blocker_object, false },
    { "park_for", spn_park_for, NULL, true },
    { "park_for with a blocker", spn_park_for, &blocker_object, true },
    { "park_until", form_until, NULL, true },
    { "park_until with a blocker", form_until, &blocker_object, true },
};
enum { FORMS = (int)(sizeof forms / sizeof forms[0]) };

static void name_form(const struct form *form, bool ok)
{
    if (!ok)
        fprintf(stderr, "  in: %s\n", form->name);
}

/* Parks up to `most` times for T_PROBE_NS each and tells how many of them came
 * back early, stopping at the first that did not. */
static int early_returns(int most)
{
    for (int i = 0; i < most; i++) {
        const int64_t began = spn_now();

        spn_park_for(T_PROBE_NS, NULL);
        if (spn_now() - began >= T_PROBE_NS)
            return i;
    }
    return most;
}

/* ---- permits --------------------------------------------------------------- */

/* A permit given before makes the next park return at once. */
TEST(park__unpark_came_before__returns_at_once, "LS-1")
{
    for (int f = 0; f < FORMS; f++) {
        const int64_t began = spn_now();

        for (int i = 0; i < 100; i++) {
            spn_unpark(spn_thread_current());
            forms[f].park(SPN_SEC(3600), forms[f].blocker); /* a hang if it slept */
        }
        name_form(&forms[f], CHECK(spn_now() - began < T_LONG_NS));
    }
}

struct parked {
    const struct form *form;
    int64_t timeout_ns;
    atomic_int release; /* the condition it waits for */
    atomic_int returns; /* how often park returned before the condition held */
    atomic_int after;   /* 1: it has left its loop */
    atomic_int leave;   /* it may end */
};

static int park_until_released(void *arg)
{
    struct parked *x = arg;

    while (atomic_load(&x->release) == 0) {
        x->form->park(x->timeout_ns, x->form->blocker);
        atomic_fetch_add(&x->returns, 1);
    }
    atomic_store(&x->after, 1);
    T_AWAIT(atomic_load(&x->leave) != 0);
    return 0;
}

static const void *blocker_of(const spn_thread *thread)
{
    const void *blocker = &blocker; /* overwritten, or the check below fails */

    CHECK_OK(spn_thread_blocker(thread, &blocker));
    return blocker;
}

/* Starts a thread that parks in `form` and waits until it is asleep. */
static void start_parked(struct parked *x, struct peer *p, const struct form *form,
                         bool foreign)
{
    memset(x, 0, sizeof *x);
    x->form = form;
    x->timeout_ns = SPN_SEC(3600);
    if (foreign)
        peer_start_foreign(p, park_until_released, x);
    else
        peer_start(p, park_until_released, x);
    peer_await_blocked(p);
}

static void finish_parked(struct parked *x, struct peer *p)
{
    atomic_store(&x->leave, 1);
    CHECK_OK(peer_finish(p));
}

/* An unpark releases a thread that is parked, made by the library or not. */
TEST(park__unpark_while_parked__releases, "LS-2", "G-14")
{
    for (int f = 0; f < FORMS; f++)
        for (int foreign = 0; foreign < 2; foreign++) {
            struct parked x;
            struct peer p;

            start_parked(&x, &p, &forms[f], foreign != 0);
            name_form(&forms[f], CHECK_EQ(atomic_load(&x.after), 0));
            atomic_store(&x.release, 1);
            spn_unpark(p.thread);
            T_AWAIT(atomic_load(&x.after) != 0);
            finish_parked(&x, &p);
        }
}

/* However many unparks, there is one free park; the few more are the spurious
 * returns a park may have. */
TEST(park__many_unparks__one_permit, "LS-3", "LS-5")
{
    (void)early_returns(4); /* what earlier tests left */
    for (int i = 0; i < 1000; i++)
        spn_unpark(spn_thread_current());
    CHECK(early_returns(8) <= 3);
    CHECK(early_returns(4) <= 2); /* and then none is left */
}

/* A park that timed out has not lost the permit that came later. */
TEST(park__timed_out_then_unpark__permit_kept, "LS-1", "LS-5")
{
    for (int f = 0; f < FORMS; f++) {
        spn_park_for(1, NULL);
        spn_unpark(spn_thread_current());
        forms[f].park(SPN_SEC(3600), forms[f].blocker);
    }
    CHECK(early_returns(4) <= 2);
}

/* ---- the interrupt flag ------------------------------------------------------ */

/* With the flag set park returns at once, again and again, and never clears it. */
TEST(park__flag_set_before__returns_every_time, "LS-4", "LS-10", "LS-11", "G-13")
{
    for (int f = 0; f < FORMS; f++) {
        CHECK_OK(spn_thread_interrupt(spn_thread_current()));
        for (int i = 0; i < 100; i++)
            forms[f].park(SPN_SEC(3600), forms[f].blocker);
        name_form(&forms[f],
                  CHECK_EQ(spn_thread_is_interrupted(spn_thread_current()), 1));
        name_form(&forms[f], CHECK_EQ(spn_thread_interrupted(), 1));
        CHECK(early_returns(4) <= 3); /* cleared: it sleeps again */
    }
}

static int park_until_interrupted(void *arg)
{
    const struct form *form = arg;

    while (spn_thread_is_interrupted(spn_thread_current()) == 0)
        form->park(SPN_SEC(3600), form->blocker);
    return 0;
}

/* An interrupt releases a parked thread; the flag stays set. */
TEST(park__interrupt_while_parked__releases_and_keeps_flag, "LS-4", "LS-11")
{
    for (int f = 0; f < FORMS; f++)
        for (int foreign = 0; foreign < 2; foreign++) {
            struct peer p;

            if (foreign != 0)
                peer_start_foreign(&p, park_until_interrupted, (void *)&forms[f]);
            else
                peer_start(&p, park_until_interrupted, (void *)&forms[f]);
            peer_await_blocked(&p);
            name_form(&forms[f], CHECK_EQ(atomic_load(&p.done), 0));
            CHECK_OK(spn_thread_interrupt(p.thread));
            CHECK_OK(peer_finish(&p));
            name_form(&forms[f], CHECK_EQ(p.flag_after, 1));
        }
}

/* ---- time -------------------------------------------------------------------- */

/* A timed park that nobody releases takes at least its time. */
TEST(park__nobody_unparks__lasts_its_time, "LS-5", "G-7", "G-8")
{
    static const int64_t lengths[] = { 1, 999999, 1000001, 4000000 };

    for (int f = 0; f < FORMS; f++)
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
            const int64_t deadline = spn_now() + lengths[i];
            int returns = 0;

            if (!forms[f].timed)
                continue;
            while (spn_now() < deadline) {
                forms[f].park(deadline - spn_now(), forms[f].blocker);
                returns++;
            }
            name_form(&forms[f], CHECK(returns <= 5)); /* it slept, it did not spin */
        }
}

/* No time left: park_for returns at once whatever the number. */
TEST(park__no_time__returns_at_once, "LS-6", "G-6")
{
    static const int64_t none[] = { 0, -1, -SPN_SEC(5), INT64_MIN + 1, INT64_MIN };
    const int64_t began = spn_now();

    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        spn_park_for(none[i], NULL);
        spn_park_for(none[i], &blocker_object);
        /* As deadlines they lie in the past: the clock is beyond zero. */
        spn_park_until(none[i], NULL);
        spn_park_until(none[i], &blocker_object);
    }
    spn_park_until(spn_now(), NULL);
    spn_park_until(spn_now() - 1, &blocker_object);
    CHECK(spn_now() - began < T_LONG_NS);
    CHECK(blocker_of(spn_thread_current()) == NULL);
}

/* The longest times do not wrap into the past. */
TEST(park__longest_times__sleep_until_unpark, "LS-5", "G-8")
{
    static const int64_t longest[] = { INT64_MAX, INT64_MAX - 1, INT64_MAX / 2 };

    for (int f = 0; f < FORMS; f++)
        for (size_t i = 0; i < sizeof longest / sizeof longest[0]; i++) {
            struct parked x;
            struct peer p;

            memset(&x, 0, sizeof x);
            x.form = &forms[f];
            x.timeout_ns = longest[i];
            peer_start(&p, park_until_released, &x);
            peer_await_blocked(&p);
            name_form(&forms[f], CHECK(atomic_load(&x.returns) <= 2));
            atomic_store(&x.release, 1);
            spn_unpark(p.thread);
            finish_parked(&x, &p);
        }
}

/* ---- the blocker --------------------------------------------------------------- */

/* The blocker is visible while the thread is parked with one, and only then. */
TEST(park__blocker__visible_only_while_parked, "LS-7")
{
    for (int f = 0; f < FORMS; f++) {
        struct parked x;
        struct peer p;

        memset(&x, 0, sizeof x);
        x.form = &forms[f];
        x.timeout_ns = SPN_SEC(3600);
        atomic_store(&x.release, 1); /* at first it does not park at all */
        peer_start(&p, park_until_released, &x);
        T_AWAIT(atomic_load(&x.after) != 0);
        name_form(&forms[f], CHECK(blocker_of(p.thread) == NULL));
        finish_parked(&x, &p);

        start_parked(&x, &p, &forms[f], false);
        if (forms[f].blocker != NULL)
            T_AWAIT(blocker_of(p.thread) == forms[f].blocker);
        else
            name_form(&forms[f], CHECK(blocker_of(p.thread) == NULL));
        atomic_store(&x.release, 1);
        spn_unpark(p.thread);
        T_AWAIT(atomic_load(&x.after) != 0);
        name_form(&forms[f], CHECK(blocker_of(p.thread) == NULL));
        finish_parked(&x, &p);
    }
}

/* Whatever ends a park, no blocker stays behind. */
TEST(park__returned_for_any_reason__no_blocker_left, "LS-7")
{
    spn_thread *self = spn_thread_current();

    for (int f = 0; f < FORMS; f++) {
        spn_unpark(self);
        forms[f].park(SPN_SEC(3600), forms[f].blocker);
        CHECK(blocker_of(self) == NULL);
        CHECK_OK(spn_thread_interrupt(self));
        forms[f].park(SPN_SEC(3600), forms[f].blocker);
        CHECK(blocker_of(self) == NULL);
        CHECK_EQ(spn_thread_interrupted(), 1);
        if (forms[f].timed)
            forms[f].park(1000, forms[f].blocker);
        CHECK(blocker_of(self) == NULL);
    }
}

/* Asking with NULL is refused and stores nothing. */
TEST(park__blocker_of_null__refused, "LS-7", "G-2")
{
    const void *blocker = &blocker_object;

    CHECK_STATUS(spn_thread_blocker(NULL, &blocker), SPN_EINVAL);
    CHECK(blocker == &blocker_object);
    CHECK_STATUS(spn_thread_blocker(spn_thread_current(), NULL), SPN_EINVAL);
    CHECK_STATUS(spn_thread_blocker(NULL, NULL), SPN_EINVAL);
}

/* ---- nobody there --------------------------------------------------------------- */

static int return_zero(void *arg)
{
    (void)arg;
    return 0;
}

/* unpark of nobody and of an ended thread are harmless. */
TEST(park__unpark_nobody__harmless, "LS-8")
{
    spn_thread *ended;

    spn_unpark(NULL);
    REQUIRE_OK(spn_thread_create(&ended, NULL, return_zero, NULL));
    CHECK_OK(spn_thread_join(ended, SPN_FOREVER, NULL));
    for (int i = 0; i < 100; i++)
        spn_unpark(ended);
    CHECK(blocker_of(ended) == NULL);
    spn_thread_unref(ended);
}

/* ---- races ----------------------------------------------------------------------- */

/* A parker puts itself into a free slot and parks until it is no longer there;
 * an unparker empties a slot and wakes whom it found. */
struct exchange {
    _Atomic(spn_thread *) slots[4];
    int rounds;
    uint64_t seed;
    atomic_long parked, unparked;
};

static void exchange_park(struct exchange *x, int index)
{
    spn_thread *self = spn_thread_current();
    uint64_t state = x->seed + (uint64_t)index;

    for (int i = 0; i < x->rounds; i++) {
        const struct form *form = &forms[i % FORMS];
        _Atomic(spn_thread *) *slot;
        spn_thread *empty;

        do {
            slot = &x->slots[t_random(&state) % 4];
            empty = NULL;
        } while (!atomic_compare_exchange_weak(slot, &empty, self));
        while (atomic_load(slot) == self)
            form->park(SPN_SEC(3600), form->blocker);
        atomic_fetch_add(&x->parked, 1);
    }
}

static void exchange_unpark(struct exchange *x, int index)
{
    uint64_t state = x->seed + (uint64_t)index;

    for (int i = 0; i < x->rounds;) {
        spn_thread *found = atomic_exchange(&x->slots[t_random(&state) % 4], NULL);

        if (found != NULL) {
            spn_unpark(found);
            atomic_fetch_add(&x->unparked, 1);
            i++;
        } else {
            t_pause();
        }
    }
}

static void exchange_role(int index, void *arg)
{
    if (index < 4)
        exchange_park(arg, index);
    else
        exchange_unpark(arg, index);
}

/* Four parkers and four unparkers exchange 30,000 rounds each without a stall. */
TEST(park__four_parkers_four_unparkers__never_stall, "LS-9", "G-20")
{
    struct exchange x = { .rounds = t_rounds(30000), .seed = t_seed() };

    t_parallel(8, exchange_role, &x);
    CHECK_EQ(atomic_load(&x.parked), 4L * x.rounds);
    CHECK_EQ(atomic_load(&x.unparked), 4L * x.rounds);
}

struct stray {
    atomic_int stop;
    spn_thread *target;
};

static int unpark_all_the_time(void *arg)
{
    struct stray *s = arg;

    while (atomic_load(&s->stop) == 0)
        spn_unpark(s->target);
    return 0;
}

/* A thread under a rain of unparks still waits correctly elsewhere: a timed
 * wait of the library lasts its time. */
TEST(park__stray_unparks__other_waits_last_their_time, "LS-5", "G-7")
{
    struct stray s = { .target = spn_thread_current() };
    spn_thread *rain;
    const int64_t wait = SPN_MS(5), began = spn_now();

    REQUIRE_OK(spn_thread_create(&rain, NULL, unpark_all_the_time, &s));
    CHECK_OK(spn_clock_sleep_until(spn_clock_monotonic(), began + wait));
    CHECK(spn_now() - began >= wait);
    CHECK_STATUS(spn_thread_join(rain, wait, NULL), SPN_ETIMEDOUT);
    CHECK(spn_now() - began >= 2 * wait);
    atomic_store(&s.stop, 1);
    CHECK_OK(spn_thread_join(rain, SPN_FOREVER, NULL));
    spn_thread_unref(rain);
}
