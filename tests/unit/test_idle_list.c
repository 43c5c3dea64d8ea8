/* SPDX-License-Identifier: MIT */
/*
 * test_idle_list.c - the idle list with a source that is a flag: how a wait ends, and
 * who is woken first.  Races are the explorer's: tests/sim/scenario_idle_list.c.
 */
#include "test.h"

#include <spindle/time.h>

#include "exec/idle_list.h"

enum { SLEEPERS = 3 };

static struct spn__idle_list list;
static SPN__ATOMIC(int) waits; /* 1: something does */
static int passed;             /* how often the push lock was passed; one thread's */

static bool any(void *source)
{
    CHECK(source == &list);
    return spn__load(&waits, acquire) != 0;
}

static void pass(void *source)
{
    CHECK(source == &list);
}

static void pass_and_count(void *source)
{
    pass(source);
    passed++;
}

static void set_up(void)
{
    spn__idle_list_init(&list, any, pass, &list);
    spn__init(&waits, 0);
}

static int entry_fn(void *arg)
{
    (void)arg;
    return 0;
}

/* With nobody there nothing is woken, and nothing is given. */
TEST(idle_list__nobody_listed__nothing_happens)
{
    const struct spn__entry entry = { entry_fn, NULL };

    set_up();
    spn__idle_list_notify(&list);
    spn__idle_list_wake_one(&list);
    spn__idle_list_wake_all(&list);
    CHECK(!spn__idle_list_give(&list, entry, false));
    CHECK(!spn__idle_list_give(&list, entry, true));
    CHECK_EQ(list.wakeups, 0);
    CHECK_EQ(list.given, 0);
}

/* One that finds something when it looks again does not sleep. */
TEST(idle_list__something_waits__looks_at_once)
{
    struct spn__entry entry;
    struct spn__idler w;

    set_up();
    list.pass = pass_and_count;
    passed = 0;
    spn__init(&waits, 1);
    spn__idler_init(&w);
    CHECK_EQ(spn__idle_list_wait(&list, &w, 0, SPN_FOREVER, &entry), SPN__IDLE_LOOK);
    CHECK_EQ(passed, 1);
    CHECK_EQ(spn__load(&list.listed, relaxed), 0);
    CHECK(list.spinner == NULL);
}

/* One that has an old epoch is not listed. */
TEST(idle_list__old_epoch__recheck)
{
    struct spn__entry entry;
    struct spn__idler w;

    set_up();
    spn__idler_init(&w);
    spn__idle_list_raise(&list);
    CHECK_EQ(spn__idle_list_wait(&list, &w, 0, SPN_FOREVER, &entry), SPN__IDLE_RECHECK);
    CHECK_EQ(spn__load(&list.listed, relaxed), 0);
    CHECK_EQ(spn__idle_list_wait(&list, &w, 1, spn__now(), &entry), SPN__IDLE_EXPIRED);
}

/* A deadline ends the wait, again and again, and leaves nobody on the list. */
TEST(idle_list__deadline__expired)
{
    struct spn__entry entry;
    struct spn__idler w;

    set_up();
    spn__idler_init(&w);
    for (int i = 0; i < 20; i++) {
        const int64_t deadline_ns = spn__now() + SPN_US(200);

        CHECK_EQ(spn__idle_list_wait(&list, &w, 0, deadline_ns, &entry),
                 SPN__IDLE_EXPIRED);
        CHECK(spn__now() >= deadline_ns);
        CHECK_EQ(spn__load(&list.listed, relaxed), 0);
        CHECK(list.spinner == NULL);
    }
}

struct sleeper {
    struct spn__idler idler;
    struct spn__entry entry;
    enum spn__idle_end end;
    SPN__ATOMIC(int) awake;
};

/* Listed one after the other; the thread after the last one wakes them. */
static void sleep_or_wake(int index, void *arg)
{
    struct sleeper *s = arg;
    const struct spn__entry entry = { entry_fn, &list };

    T_AWAIT(spn__load(&list.listed, acquire) == index);
    if (index < SLEEPERS) {
        s[index].end = spn__idle_list_wait(&list, &s[index].idler, 0, SPN_FOREVER,
                                           &s[index].entry);
        spn__idle_list_found(&list, &s[index].idler);
        spn__store(&s[index].awake, 1, release);
        return;
    }
    T_AWAIT(spn__load(&list.spinning, relaxed) == 0);
    CHECK(!spn__idle_list_give(&list, entry, false));
    spn__idle_list_notify(&list); /* the last one */
    T_AWAIT(spn__load(&s[SLEEPERS - 1].awake, acquire) != 0);
    CHECK_EQ(spn__load(&list.listed, relaxed), SLEEPERS - 1);
    CHECK(spn__idle_list_give(&list, entry, true)); /* the one before */
    T_AWAIT(spn__load(&s[SLEEPERS - 2].awake, acquire) != 0);
    spn__idle_list_raise(&list);
    spn__idle_list_wake_all(&list);
}

/* The one that came last is woken first, and has what it was given. */
TEST(idle_list__three_sleep__last_come_first_woken)
{
    static struct sleeper s[SLEEPERS];

    set_up();
    for (int i = 0; i < SLEEPERS; i++) {
        spn__idler_init(&s[i].idler);
        spn__init(&s[i].awake, 0);
    }
    t_parallel(SLEEPERS + 1, sleep_or_wake, s);
    CHECK_EQ(s[2].end, SPN__IDLE_LOOK);
    CHECK_EQ(s[1].end, SPN__IDLE_GIVEN);
    CHECK(s[1].entry.fn == entry_fn && s[1].entry.arg == &list);
    CHECK_EQ(s[0].end, SPN__IDLE_LOOK);
    CHECK_EQ(list.wakeups, 3);
    CHECK_EQ(list.given, 1);
    CHECK(!list.waking);
}
