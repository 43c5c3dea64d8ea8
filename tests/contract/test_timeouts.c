/* SPDX-License-Identifier: MIT */
/*
 * test_timeouts.c - what a timeout means, for every call that takes one.
 */
#include "test.h"
#include "waits.h"

static const int64_t no_wait[] = { 0, -1, -SPN_SEC(1), INT64_MIN + 1, INT64_MIN };

/* A timeout of zero or less never blocks: it gives the timeout result. */
TEST(timeout__zero_or_negative__returns_at_once, "G-5", "G-6")
{
    for (int k = 0; k < WAIT_KINDS; k++) {
        const struct wait_kind *kind = &wait_kinds[k];

        for (size_t i = 0; i < sizeof no_wait / sizeof no_wait[0]; i++) {
            struct wait_call c;
            int64_t began;

            wait_call_open(&c, kind, no_wait[i]);
            began = spn_now();
            name_row(kind, no_wait[i], CHECK_STATUS(wait_call_run(&c), kind->expired));
            name_row(kind, no_wait[i], CHECK(spn_now() - began < T_LONG_NS));
            name_row(kind, no_wait[i], CHECK(kind->intact(&c.subject)));
            kind->close(&c.subject);
        }
    }
}

/* A timeout of zero or less still takes what is there. */
TEST(timeout__zero_or_negative_and_condition_holds__succeeds, "G-6")
{
    for (int k = 0; k < WAIT_KINDS; k++) {
        const struct wait_kind *kind = &wait_kinds[k];

        for (size_t i = 0; i < sizeof no_wait / sizeof no_wait[0]; i++) {
            struct wait_call c;

            if ((kind->flags & WAIT_HAS_RELEASE) == 0)
                continue;
            wait_call_open(&c, kind, no_wait[i]);
            kind->release(&c.subject);
            if (c.subject.target != NULL) /* released is not yet ended */
                CHECK_OK(spn_thread_join(c.subject.target, SPN_FOREVER, NULL));
            if (c.subject.sleeper_started != 0)
                CHECK_OK(spn_clock_await_sleepers(c.subject.clock, 1, SPN_FOREVER));
            name_row(kind, no_wait[i], CHECK_OK(wait_call_run(&c)));
            kind->close(&c.subject);
        }
    }
}

/* A wait that reports a timeout has waited at least that long. */
TEST(timeout__expires__not_before_its_time, "G-5", "G-7", "P22")
{
    static const int64_t lengths[] = { 1, 1000, 999999, 1000001, 5000000 };

    for (int k = 0; k < WAIT_KINDS; k++) {
        const struct wait_kind *kind = &wait_kinds[k];

        if ((kind->flags & WAIT_REAL_TIME) == 0)
            continue;
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
            struct wait_call c;
            int64_t began;

            wait_call_open(&c, kind, lengths[i]);
            began = spn_now();
            name_row(kind, lengths[i], CHECK_STATUS(wait_call_run(&c), kind->expired));
            name_row(kind, lengths[i], CHECK(spn_now() - began >= lengths[i]));
            name_row(kind, lengths[i], CHECK(kind->intact(&c.subject)));
            kind->close(&c.subject);
        }
    }
}

/* The longest timeouts mean "no limit" and do not wrap into the past: the wait
 * goes on until its event. */
TEST(timeout__int64_max__waits_for_the_event, "G-5", "G-8")
{
    for (int k = 0; k < WAIT_KINDS; k++) {
        const struct wait_kind *kind = &wait_kinds[k];
        const int64_t longest[] = { SPN_FOREVER, INT64_MAX - 1,
                                    INT64_MAX - spn_now() + SPN_SEC(1), INT64_MAX / 2 };

        for (size_t i = 0; i < sizeof longest / sizeof longest[0]; i++) {
            struct wait_call c;
            struct peer p;

            wait_call_open(&c, kind, longest[i]);
            peer_start(&p, wait_call_run, &c);
            peer_await_blocked(&p);
            name_row(kind, longest[i], CHECK(peer_still_waits(&p)));
            if ((kind->flags & WAIT_HAS_RELEASE) != 0) {
                kind->release(&c.subject);
                name_row(kind, longest[i], CHECK_OK(peer_finish(&p)));
            } else {
                CHECK_OK(spn_thread_interrupt(p.thread));
                name_row(kind, longest[i], CHECK_STATUS(peer_finish(&p), SPN_EINTR));
            }
            kind->close(&c.subject);
        }
    }
}

/* A wait with a long but finite timeout ends with its event, not its time. */
TEST(timeout__event_comes_first__succeeds_early, "G-5", "G-20")
{
    for (int k = 0; k < WAIT_KINDS; k++) {
        const struct wait_kind *kind = &wait_kinds[k];
        struct wait_call c;
        struct peer p;

        if ((kind->flags & WAIT_HAS_RELEASE) == 0)
            continue;
        wait_call_open(&c, kind, T_LONG_NS * 100);
        peer_start(&p, wait_call_run, &c);
        peer_await_blocked(&p);
        kind->release(&c.subject);
        name_row(kind, c.timeout_ns, CHECK_OK(peer_finish(&p)));
        CHECK_EQ(p.flag_after, 0);
        kind->close(&c.subject);
    }
}
