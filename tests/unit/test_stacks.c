/* SPDX-License-Identifier: MIT */
/* test_stacks.c - the list of the library's threads: who waits for a thread just made. */
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>

#include <spindle/clock.h>

#include "sync/seam_stacks.h"

enum { MOST = 16 };

static struct spn__os_noted listed[MOST];
static atomic_int lists;

static void *list_all(void *deadline_ns)
{
    pthread_setname_np(pthread_self(), "lister");
    atomic_store(&lists, (int)spn__os_thread_list(listed, MOST, 0,
                                                  *(const int64_t *)deadline_ns));
    return NULL;
}

static pthread_t start_lister(int64_t *deadline_ns)
{
    pthread_t lister;

    atomic_store(&lists, -1);
    REQUIRE(pthread_create(&lister, NULL, list_all, deadline_ns) == 0);
    return lister;
}

/* A thread that was coming at the call is waited for, one that comes later is not. */
TEST(stacks__thread_coming__list_waits_until_it_is_here, "X-14")
{
    struct spn__os_note note = { .at = NULL }, late = { .at = NULL };
    int64_t deadline_ns = INT64_MAX;
    pthread_t lister;
    int arg = 0;

    spn__os_thread_coming(&note, &arg);
    lister = start_lister(&deadline_ns);
    t_await_asleep("lister", 1);
    CHECK_EQ(atomic_load(&lists), -1);
    spn__os_thread_coming(&late, NULL);
    spn__os_thread_here(&note, 0);
    REQUIRE(pthread_join(lister, NULL) == 0);
    CHECK_EQ(atomic_load(&lists), 1);
    CHECK(listed[0].note == &note);
    CHECK(listed[0].arg == &arg);
    CHECK_EQ(listed[0].tid, spn__os_tid());
    CHECK(!listed[0].allowed);
    spn__os_thread_gone(&late);
    spn__os_thread_gone(&note);
    CHECK_EQ(spn__os_thread_list(listed, MOST, 0, INT64_MAX), 0);
}

/* One that could not be made ends the wait, too. */
TEST(stacks__thread_not_made__list_goes_on, "X-14")
{
    struct spn__os_note note = { .at = NULL };
    int64_t deadline_ns = INT64_MAX;
    pthread_t lister;

    spn__os_thread_coming(&note, NULL);
    lister = start_lister(&deadline_ns);
    t_await_asleep("lister", 1);
    spn__os_thread_gone(&note);
    REQUIRE(pthread_join(lister, NULL) == 0);
    CHECK_EQ(atomic_load(&lists), 0);
}

/* The wait ends at its deadline. */
TEST(stacks__thread_never_comes__list_ends_at_deadline, "X-14")
{
    struct spn__os_note note = { .at = NULL };
    const int64_t deadline_ns = spn_now() + SPN_MS(2);

    spn__os_thread_coming(&note, NULL);
    CHECK_EQ(spn__os_thread_list(listed, MOST, 0, deadline_ns), 0);
    CHECK(spn_now() >= deadline_ns);
    spn__os_thread_gone(&note);
}

static void in_child(void *note)
{
    CHECK_EQ(spn__os_thread_list(listed, MOST, 0, INT64_MAX), 0);
    spn__os_thread_gone(note); /* of a thread that the child does not have */
    spn__os_thread_here(note, 0);
    CHECK_EQ(spn__os_thread_list(listed, MOST, 0, INT64_MAX), 1);
    spn__os_thread_gone(note);
}

/* The child of a fork has none of its parent's threads. */
TEST(stacks__forked__list_empty_in_child, "X-14")
{
    struct spn__os_note note = { .at = NULL };

    REQUIRE(spn__os_threads_watch_fork());
    REQUIRE(spn__os_threads_watch_fork()); /* once is enough */
    spn__os_thread_coming(&note, NULL);
    spn__os_thread_here(&note, 0);
    CHECK_CHILD(in_child, &note);
    CHECK_EQ(spn__os_thread_list(listed, MOST, 0, INT64_MAX), 1);
    spn__os_thread_gone(&note);
}
