/* SPDX-License-Identifier: MIT */
/* test_future.c - what is inside a future: its phases, its edges, its memory. */
#include "test.h"

#include <string.h>

#include <spindle/future.h>
#include <spindle/thread.h>

#include "future/core.h"

static uint32_t phase(const spn_future *f)
{
    return spn__phase(spn__load(&f->state, acquire));
}

static spn_future *promise(void)
{
    spn_future *f;

    REQUIRE_OK(spn_future_create(&f, NULL));
    return f;
}

static int answer(void *arg, void **result)
{
    *result = arg;
    return 0;
}

static int fail_seven(void *arg, void **result)
{
    (void)arg;
    (void)result;
    return spn_future_fail(7, "seven");
}

static int same(void *arg, void *value, void **result)
{
    (void)arg;
    *result = value;
    return 0;
}

/* A state that nobody attends to goes straight to its end. */
TEST(core__completed_alone__ends_without_attention)
{
    spn_future *f = promise();

    CHECK_EQ(spn__phase(spn__load(&f->state, relaxed)), SPN__NEW);
    CHECK_EQ(spn_future_complete(f, &f), 1);
    CHECK_EQ(spn__phase(spn__load(&f->state, relaxed)), SPN__NORMAL);
    spn_future_unref(f);
}

/* Each way to the end leaves its own phase. */
TEST(core__each_way__has_its_phase)
{
    spn_future *f = promise();

    CHECK_EQ(spn_future_complete_error(f, -3, NULL), 1);
    CHECK_EQ(phase(f), SPN__EXCEPTIONAL);
    spn_future_unref(f);
    f = promise();
    CHECK_EQ(spn_future_cancel(f, 1), 1);
    CHECK_EQ(phase(f), SPN__CANCELLED); /* a promise has nobody to interrupt */
    spn_future_unref(f);
    REQUIRE_OK(spn_future_create_task(&f, answer, NULL, NULL));
    CHECK_EQ(spn_future_cancel(f, 0), 1);
    CHECK_EQ(phase(f), SPN__CANCELLED);
    spn_future_unref(f);
    REQUIRE_OK(spn_future_create_task(&f, answer, NULL, NULL));
    CHECK_EQ(spn_future_cancel(f, 1), 1);
    CHECK_EQ(phase(f), SPN__INTERRUPTED);
    spn_future_unref(f);
    REQUIRE_OK(spn_future_create_task(&f, fail_seven, NULL, NULL));
    CHECK_EQ(spn_future_run(f), 1);
    CHECK_EQ(phase(f), SPN__EXCEPTIONAL);
    spn_future_unref(f);
}

/* While the winner writes the outcome the future is not done, and nobody else can
 * win. */
TEST(core__completing__is_pending_for_all)
{
    spn_future *f = promise();
    struct spn__work work = SPN__WORK_INIT;
    void *value = NULL;

    CHECK(spn__future_claim(f));
    CHECK_EQ(phase(f), SPN__COMPLETING);
    CHECK_EQ(spn_future_get_state(f), SPN_FUTURE_PENDING);
    CHECK_EQ(spn_future_get_state(f), SPN_FUTURE_PENDING);
    CHECK(!spn__future_claim(f));
    CHECK_STATUS(spn_future_get(f, &value, 0), SPN_ETIMEDOUT);
    f->value = f;
    spn__future_finish(f, SPN__NORMAL, &work);
    CHECK_OK(spn_future_get(f, &value, 0));
    CHECK(value == f);
    spn_future_unref(f);
}

static int complete_other(void *f)
{
    return spn_future_complete(f, NULL) * 10 +
           (spn_future_get_state(f) == SPN_FUTURE_SUCCEEDED);
}

/* A call that lost says so when the winner is through, and not before. */
TEST(core__completing__losers_wait_for_the_winner)
{
    spn_future *f = promise();
    struct spn__work work = SPN__WORK_INIT;
    spn_thread *loser;
    int result = -1;

    CHECK(spn__future_claim(f));
    REQUIRE_OK(spn_thread_create(&loser, NULL, complete_other, f));
    /* It lists itself when looking does not help. */
    T_AWAIT((spn__load(&f->state, relaxed) & SPN__ATTENDED) != 0);
    spn__future_finish(f, SPN__NORMAL, &work);
    CHECK_OK(spn_thread_join(loser, SPN_FOREVER, &result));
    CHECK_EQ(result, 1); /* lost, and done */
    spn_thread_unref(loser);
    spn_future_unref(f);
}

/* An edge is on the list while it waits and off when it cannot fire. */
TEST(edge__stage_done_first__is_taken_off)
{
    spn_future *f = promise(), *s;

    REQUIRE_OK(spn_future_then(f, NULL, same, NULL, &s));
    CHECK_EQ(f->edge_count, 1);
    CHECK_EQ(spn__load(&f->holds, relaxed), 2);
    CHECK_EQ(spn__refs(spn__load(&s->state, relaxed)), 2);
    CHECK_EQ(spn_future_complete(s, NULL), 1);
    CHECK_EQ(f->edge_count, 0);
    CHECK(spn__list_empty(&f->edges));
    CHECK_EQ(spn__load(&f->holds, relaxed), 1);
    CHECK_EQ(spn__refs(spn__load(&s->state, relaxed)), 1);
    spn_future_unref(s);
    spn_future_unref(f);
}

/* A cause is kept once, by the future it happened to. */
TEST(core__failure_through_stages__refers_to_its_origin)
{
    spn_future *f = promise(), *a, *b;
    spn_outcome outcome;

    REQUIRE_OK(spn_future_then(f, NULL, same, NULL, &a));
    REQUIRE_OK(spn_future_then(a, NULL, same, NULL, &b));
    CHECK_EQ(spn_future_complete_error(f, 12, "twelve"), 1);
    CHECK(a->origin == f);
    CHECK(b->origin == f);
    CHECK(f->origin == NULL);
    CHECK_EQ(spn__refs(spn__load(&f->state, relaxed)), 3);
    spn_future_unref(f);
    spn_future_unref(a);
    CHECK_STATUS(spn_future_result(b, &outcome), SPN_EFAILED);
    CHECK_EQ(outcome.code, 12);
    CHECK_STR(outcome.message, "twelve");
    spn_future_unref(b);
}

/* A message that does not fit is cut between characters. */
TEST(core__long_message__is_cut_between_characters)
{
    char text[3 * SPN_FUTURE_MESSAGE_MAX], back[4];
    spn_outcome outcome;
    spn_future *f;

    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    memcpy(text + SPN_FUTURE_MESSAGE_MAX - 2, "\xc3\xa9", 2); /* across the edge */
    REQUIRE_OK(spn_future_create_failed(&f, -1, text));
    CHECK_STATUS(spn_future_result(f, &outcome), SPN_EFAILED);
    CHECK_EQ(strlen(outcome.message), SPN_FUTURE_MESSAGE_MAX - 2);
    CHECK_EQ(strncmp(outcome.message, text, strlen(outcome.message)), 0);
    spn__message_copy(back, sizeof back, outcome.message);
    CHECK_STR(back, "xxx");
    spn_future_unref(f);
}

/* A future is small: the first cache line has what completing and getting touch. */
TEST(core__layout__hot_fields_share_a_line)
{
    CHECK(offsetof(struct spn_future, read) + 4 <= 64);
#ifndef SPN_AUDIT /* which adds who made it */
    CHECK(sizeof(struct spn_future) <= 256);
#endif
    CHECK(sizeof(spn_task) <= 40);
}
