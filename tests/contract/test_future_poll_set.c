/* SPDX-License-Identifier: MIT */
/* test_future_poll_set.c - futures and a file descriptor. */
#include "counting.h"
#include "peer.h"
#include "test.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include <spindle/poll_set.h>

static spn_poll_set *make(void)
{
    spn_poll_set *set;

    REQUIRE_OK(spn_poll_set_create(&set));
    return set;
}

static spn_future *promise(void)
{
    spn_future *f;

    REQUIRE_OK(spn_future_create(&f, NULL));
    return f;
}

static bool readable(spn_poll_set *set, int timeout_ms)
{
    struct pollfd p = { .fd = spn_poll_set_fd(set), .events = POLLIN };

    return poll(&p, 1, timeout_ms) == 1;
}

/* Readable from the first that is done to the last that is taken. */
TEST(poll_set__futures_complete__readable_until_taken, "G-16")
{
    enum { COUNT = 4 };
    spn_poll_set *set = make();
    spn_future *f[COUNT], *got;
    int tags[COUNT];
    void *tag;

    CHECK(!readable(set, 0));
    for (int i = 0; i < COUNT; i++) {
        f[i] = promise();
        REQUIRE_OK(spn_poll_set_add(set, f[i], &tags[i]));
        CHECK_EQ(spn_future_dependents(f[i]), 1);
    }
    CHECK(!readable(set, 0));
    CHECK_STATUS(spn_poll_set_next(set, &got, &tag), SPN_EEMPTY);
    CHECK(got == NULL);
    CHECK_STATUS(spn_poll_set_destroy(set), SPN_EBUSY);
    CHECK_EQ(spn_future_complete(f[2], NULL), 1);
    CHECK(readable(set, -1));
    CHECK_EQ(spn_future_cancel(f[0], 0), 1);
    CHECK(readable(set, 0));
    CHECK_OK(spn_poll_set_next(set, &got, &tag)); /* in the order they were done */
    CHECK(got == f[2] && tag == &tags[2]);
    spn_future_unref(got);
    CHECK(readable(set, 0));
    CHECK_OK(spn_poll_set_next(set, &got, NULL));
    CHECK(got == f[0]);
    spn_future_unref(got);
    CHECK(!readable(set, 0));
    CHECK_EQ(spn_future_complete_error(f[1], 5, NULL), 1);
    CHECK(readable(set, 0)); /* and again */
    CHECK_OK(spn_poll_set_next(set, &got, NULL));
    CHECK(got == f[1]);
    spn_future_unref(got);
    CHECK(!readable(set, 0));
    CHECK_STATUS(spn_poll_set_destroy(set), SPN_EBUSY);
    CHECK_EQ(spn_future_complete(f[3], NULL), 1);
    CHECK(readable(set, 0));
    CHECK_OK(spn_poll_set_next(set, &got, NULL));
    CHECK(got == f[3]);
    spn_future_unref(got);
    CHECK(!readable(set, 0));
    CHECK_OK(spn_poll_set_destroy(set));
    for (int i = 0; i < COUNT; i++)
        spn_future_unref(f[i]);
}

/* One that is done is ready at once; one may be in several times. */
TEST(poll_set__done_already_or_twice__each_comes_out)
{
    spn_poll_set *set = make(), *other = make();
    spn_future *f, *got;

    REQUIRE_OK(spn_future_create_completed(&f, &set));
    REQUIRE_OK(spn_poll_set_add(set, f, NULL));
    CHECK(readable(set, 0));
    REQUIRE_OK(spn_poll_set_add(set, f, NULL));
    REQUIRE_OK(spn_poll_set_add(other, f, NULL));
    spn_future_unref(f); /* the sets have their own */
    for (int i = 0; i < 3; i++) {
        void *value;

        CHECK_OK(spn_poll_set_next(i < 2 ? set : other, &got, NULL));
        CHECK_OK(spn_future_get(got, &value, 0));
        CHECK(value == &set);
        spn_future_unref(got);
    }
    CHECK(!readable(set, 0));
    CHECK_OK(spn_poll_set_destroy(set));
    CHECK_OK(spn_poll_set_destroy(other));
    CHECK_OK(spn_poll_set_destroy(NULL));
}

/* A waiting poll wakes up. */
static int complete_call(void *f)
{
    return spn_future_complete(f, NULL);
}

static int poll_call(void *set)
{
    return readable(set, -1) ? 1 : 0;
}

TEST(poll_set__polled_while_pending__wakes_up, "G-20")
{
    spn_poll_set *set = make();
    spn_future *f = promise(), *got;
    struct peer poller, completer;

    REQUIRE_OK(spn_poll_set_add(set, f, NULL));
    peer_start(&poller, poll_call, set);
    peer_await_blocked(&poller);
    peer_start(&completer, complete_call, f);
    CHECK_EQ(peer_finish(&poller), 1);
    CHECK_EQ(peer_finish(&completer), 1);
    CHECK_OK(spn_poll_set_next(set, &got, NULL));
    spn_future_unref(got);
    spn_future_unref(f);
    CHECK_OK(spn_poll_set_destroy(set));
}

enum { FUTURES = 64, COMPLETERS = 3 };

struct storm {
    spn_poll_set *set;
    spn_future *f[FUTURES];
    int seen[FUTURES];
};

static void complete_or_poll(int index, void *arg)
{
    struct storm *s = arg;
    spn_future *got;
    void *tag;

    if (index < COMPLETERS) {
        for (int i = index; i < FUTURES; i += COMPLETERS) {
            CHECK_EQ(spn_future_complete(s->f[i], NULL), 1);
            spn_future_unref(s->f[i]);
        }
        return;
    }
    for (int left = FUTURES; left > 0;) {
        CHECK(readable(s->set, -1));
        while (spn_poll_set_next(s->set, &got, &tag) == SPN_OK) {
            (*(int *)tag)++;
            CHECK(spn_future_get_state(got) != SPN_FUTURE_PENDING);
            spn_future_unref(got);
            left--;
        }
    }
    /* Nobody is in it: it may go, though completers may still be returning. */
    CHECK_OK(spn_poll_set_destroy(s->set));
}

/* Completed by many, each comes out once, and the set can be destroyed at once. */
TEST(poll_set__many_complete_at_once__each_comes_out_once, "G-19", "G-20")
{
    const int rounds = t_rounds(100);
    const long live = atomic_load(&counting_live);

    for (int r = 0; r < rounds; r++) {
        struct storm s = { .set = make() };

        for (int i = 0; i < FUTURES; i++) {
            s.f[i] = promise();
            REQUIRE_OK(spn_poll_set_add(s.set, s.f[i], &s.seen[i]));
        }
        t_parallel(COMPLETERS + 1, complete_or_poll, &s);
        for (int i = 0; i < FUTURES; i++)
            CHECK_EQ(s.seen[i], 1);
    }
    CHECK_EQ(atomic_load(&counting_live), live);
}

static void without_descriptors(void *arg)
{
    struct rlimit limit, none;
    spn_poll_set *set = (spn_poll_set *)(void *)&none;

    (void)arg;
    REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    none = limit;
    none.rlim_cur = 0;
    REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
    CHECK_STATUS(spn_poll_set_create(&set), SPN_EAGAIN);
    CHECK(set == NULL);
    REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0); /* a leak checker wants some */
}

/* Without a descriptor there is no set, and no memory is kept. */
TEST(poll_set__no_descriptor__again, "G-22")
{
    const long live = atomic_load(&counting_live);

    CHECK_CHILD(without_descriptors, NULL);
    CHECK_EQ(atomic_load(&counting_live), live);
}

/* A set that is destroyed gives its descriptor back. */
TEST(poll_set__destroyed__descriptor_is_closed)
{
    spn_poll_set *set = make();
    const int fd = spn_poll_set_fd(set);

    CHECK(fd >= 0);
    CHECK_OK(spn_poll_set_destroy(set));
    for (int i = 0; i < 2000; i++) {
        set = make();
        CHECK_EQ(spn_poll_set_fd(set), fd);
        CHECK_OK(spn_poll_set_destroy(set));
    }
}
