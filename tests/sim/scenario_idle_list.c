/* SPDX-License-Identifier: MIT */
/*
 * scenario_idle_list.c - the idle list with the smallest source that there is: numbers
 * in a list under one lock.  Some entries wait until another has run, so a worker that
 * sleeps beside an entry shows as a deadlock.
 *
 * `data[i]` is written relaxed before entry i is brought and read relaxed when it runs.
 */
#include "sim.h"

#include <string.h>

#include "exec/idle_list.h"

enum { ENTRIES = 4 };

static struct spn__idle_list list;
static struct spn__lock push_lock; /* guards `queue` */
static int queue[ENTRIES];
static SPN__ATOMIC(int) queued; /* written under push_lock */
static SPN__ATOMIC(int) data[ENTRIES], ran[ENTRIES], ended;
static SPN__ATOMIC(int) stopped; /* relaxed: comes with the epoch */
static int entries;              /* how many the scenario brings; the last one stops */
static int waits_for[ENTRIES];   /* an entry that must run meanwhile, or -1 */
static struct spn__parker gate[ENTRIES];

static bool any(void *source)
{
    (void)source;
    return spn__load(&queued, relaxed) != 0; /* ordered by the list */
}

static void pass(void *source)
{
    (void)source;
    spn__lock(&push_lock);
    spn__unlock(&push_lock);
}

static void set_up(int count)
{
    spn__idle_list_init(&list, any, pass, NULL);
    spn__lock_init(&push_lock);
    spn__init(&queued, 0);
    spn__init(&ended, 0);
    spn__init(&stopped, 0);
    for (int i = 0; i < ENTRIES; i++) {
        spn__init(&data[i], 0);
        spn__init(&ran[i], 0);
        spn__parker_init(&gate[i]);
        waits_for[i] = -1;
    }
    entries = count;
}

static void stop(void)
{
    spn__store(&stopped, 1, relaxed);
    spn__idle_list_raise(&list);
    spn__idle_list_wake_all(&list);
}

static int entry_fn(void *arg)
{
    const int i = (int)(uintptr_t)arg;

    sim_assert(spn__load(&data[i], relaxed) == i + 1);
    sim_assert(spn__fetch_add(&ran[i], 1, relaxed) == 0);
    for (int n = 0; n < ENTRIES; n++)
        if (waits_for[n] == i)
            spn__parker_unpark(&gate[n]);
    if (waits_for[i] >= 0)
        (void)spn__parker_park(&gate[i], SPN_FOREVER);
    if (spn__fetch_add(&ended, 1, relaxed) + 1 == entries)
        stop();
    return 0;
}

static struct spn__entry entry_of(int i)
{
    return (struct spn__entry){ entry_fn, (void *)(uintptr_t)i };
}

static bool take(int *i)
{
    bool took = false;

    if (!any(NULL))
        return false;
    spn__lock(&push_lock);
    if (spn__load(&queued, relaxed) != 0) { /* the lock is held, here and below */
        const int n = spn__load(&queued, relaxed) - 1;

        *i = queue[0];
        memmove(&queue[0], &queue[1], (size_t)n * sizeof queue[0]);
        spn__store(&queued, n, relaxed);
        took = true;
    }
    spn__unlock(&push_lock);
    return took;
}

static void push(int i)
{
    spn__store(&data[i], i + 1, relaxed);
    spn__lock(&push_lock);
    queue[spn__load(&queued, relaxed)] = i; /* the lock is held, here and below */
    spn__store(&queued, spn__load(&queued, relaxed) + 1, relaxed);
    spn__unlock(&push_lock);
    spn__idle_list_notify(&list);
}

/* To the one that spins, if nothing waits; else into the queue. */
static void give_or_push(int i)
{
    spn__store(&data[i], i + 1, relaxed);
    if (any(NULL) || !spn__idle_list_give(&list, entry_of(i), false))
        push(i);
}

/* A worker's life. */
static void work(void *arg)
{
    struct spn__idler w;

    (void)arg;
    spn__idler_init(&w);
    for (;;) {
        /* acquire: with the epoch comes `stopped` [epoch]. */
        const uint32_t epoch = spn__load(&list.epoch, acquire);
        struct spn__entry entry = { NULL, NULL };
        int i;

        if (spn__load(&stopped, relaxed) != 0)
            break;
        if (take(&i))
            entry = entry_of(i);
        else if (spn__idle_list_wait(&list, &w, epoch, SPN_FOREVER, &entry) !=
                 SPN__IDLE_GIVEN)
            continue;
        spn__idle_list_found(&list, &w);
        (void)entry.fn(entry.arg);
    }
    spn__idle_list_found(&list, &w);
}

static void tear_down(void)
{
    sim_join_all();
    for (int i = 0; i < ENTRIES; i++)
        sim_assert(spn__load(&ran[i], relaxed) == (i < entries));
    sim_assert(spn__load(&list.listed, relaxed) == 0);
    sim_assert(list.spinner == NULL && !list.waking);
}

/* An entry that comes while its only worker goes to sleep is taken. */
SCENARIO(idle_list__push_races_sleep__woken)
{
    set_up(2);
    sim_thread(work, NULL);
    push(0);
    push(1);
    tear_down();
}
SCENARIO_OPTS(idle_list__push_races_sleep__woken, .dfs = 1,
              .dfs_models = SIM_SC | SIM_C11)

/* Two entries, of which the first waits for the second: two workers come for them. */
SCENARIO(idle_list__burst__wakes_as_many_as_it_can_use)
{
    set_up(2);
    waits_for[0] = 1;
    sim_thread(work, NULL);
    sim_thread(work, NULL);
    push(0);
    push(1);
    tear_down();
}

static void push_one(void *arg)
{
    push((int)(uintptr_t)arg);
}

/* The same from two threads, and three workers: the search is handed on. */
SCENARIO(idle_list__two_push_a_burst__search_is_handed_on)
{
    set_up(3);
    waits_for[0] = 2;
    waits_for[1] = 2;
    for (int i = 0; i < 3; i++)
        sim_thread(work, NULL);
    sim_thread(push_one, (void *)(uintptr_t)2);
    push(0);
    push(1);
    tear_down();
}

static void give_or_push_one(void *arg)
{
    give_or_push((int)(uintptr_t)arg);
}

/* Two submitters and one that spins: it gets one entry, and the other is taken too. */
SCENARIO(idle_list__two_give_to_one_spinner__each_once)
{
    set_up(3);
    waits_for[0] = 1;
    sim_thread(work, NULL);
    sim_thread(work, NULL);
    sim_thread(give_or_push_one, (void *)(uintptr_t)1);
    give_or_push(0);
    give_or_push(2);
    tear_down();
}

/* Without a queue: an entry goes to a worker on the list, or is refused. */
SCENARIO(idle_list__hand_off__each_once)
{
    set_up(2);
    sim_thread(work, NULL);
    sim_thread(work, NULL);
    for (int i = 0; i < 2; i++) {
        spn__store(&data[i], i + 1, relaxed);
        while (!spn__idle_list_give(&list, entry_of(i), true))
            spn__cpu_relax();
    }
    tear_down();
    sim_assert(list.given == 2);
}

static void look_around(void *arg)
{
    (void)arg;
    spn__idle_list_raise(&list);
    spn__idle_list_wake_all(&list);
}

/* Workers that go to sleep see that the pool stops, also while others look around. */
SCENARIO(idle_list__recheck_races_sleep__nobody_sleeps_on)
{
    set_up(1);
    waits_for[0] = -1;
    sim_thread(work, NULL);
    sim_thread(work, NULL);
    sim_thread(look_around, NULL);
    push(0); /* and stops */
    tear_down();
}

/* A worker that goes for good when the epoch has changed. */
static void work_until_recheck(void *arg)
{
    struct spn__idler w;

    (void)arg;
    spn__idler_init(&w);
    for (;;) {
        struct spn__entry entry = { NULL, NULL };
        enum spn__idle_end end = SPN__IDLE_LOOK;
        int i;

        if (take(&i))
            entry = entry_of(i);
        else
            end = spn__idle_list_wait(&list, &w, 0, SPN_FOREVER, &entry);
        if (end == SPN__IDLE_RECHECK)
            return;
        if (entry.fn == NULL)
            continue;
        spn__idle_list_found(&list, &w);
        (void)entry.fn(entry.arg);
    }
}

/* A worker was woken for an entry and goes instead: another one that came later to the
 * list, and that the push relied on no more, is woken. */
SCENARIO(idle_list__woken_one_leaves__another_is_woken)
{
    set_up(2);
    sim_thread(work_until_recheck, NULL);
    sim_thread(work, NULL);
    push(0);
    look_around(NULL);
    push(1);
    tear_down();
}

static void wait_for_a_moment(void *arg)
{
    struct spn__entry entry;
    struct spn__idler w;

    spn__idler_init(&w);
    *(enum spn__idle_end *)arg = spn__idle_list_wait(&list, &w, 0, SPN_FOREVER, &entry);
    spn__idle_list_found(&list, &w);
}

/* While one worker is awake to look, a push wakes no other. */
SCENARIO(idle_list__one_is_awake_to_look__no_other_is_woken)
{
    enum spn__idle_end end;

    set_up(1);
    list.waking = true;
    sim_thread(wait_for_a_moment, &end);
    sim_settle();
    spn__idle_list_notify(&list);
    sim_assert(list.wakeups == 0 && spn__load(&list.listed, relaxed) == 1);
    list.waking = false;
    spn__idle_list_notify(&list);
    sim_assert(list.wakeups == 1);
    sim_join_all();
    sim_assert(end == SPN__IDLE_LOOK && !list.waking);
}

/* A worker that waits for a moment only. */
static void work_for_a_moment(void *arg)
{
    struct spn__entry entry;
    struct spn__idler w;
    enum spn__idle_end end;
    int i;

    (void)arg;
    spn__idler_init(&w);
    end = spn__idle_list_wait(&list, &w, 0, sim_now() + 100, &entry);
    if (end == SPN__IDLE_GIVEN)
        (void)entry.fn(entry.arg);
    if (end == SPN__IDLE_LOOK && take(&i)) {
        spn__idle_list_found(&list, &w);
        (void)entry_fn((void *)(uintptr_t)i);
    }
    spn__idle_list_found(&list, &w);
    /* Its memory goes: who popped it has given the permit. */
    memset(&w, 0xff, sizeof w);
}

/* A deadline that comes with an entry: the worker has it, or it was never given. */
SCENARIO(idle_list__deadline_races_gift__once_or_refused)
{
    bool given;

    set_up(2);
    sim_thread(work_for_a_moment, NULL);
    spn__store(&data[0], 1, relaxed);
    given = spn__idle_list_give(&list, entry_of(0), true);
    sim_join_all();
    sim_assert(spn__load(&ran[0], relaxed) == given);
    sim_assert(spn__load(&list.listed, relaxed) == 0 && list.spinner == NULL);
}

/* After close nothing is given, and what was given before runs. */
static void close_list(void *arg)
{
    (void)arg;
    spn__idle_list_close(&list);
    sim_assert(!spn__idle_list_give(&list, entry_of(1), true));
    stop();
}

SCENARIO(idle_list__close_races_gift__once_or_refused)
{
    bool given;

    set_up(2);
    sim_thread(work, NULL);
    sim_thread(close_list, NULL);
    spn__store(&data[0], 1, relaxed);
    given = spn__idle_list_give(&list, entry_of(0), true);
    sim_join_all();
    sim_assert(spn__load(&ran[0], relaxed) == given);
}
