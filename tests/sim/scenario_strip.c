/* SPDX-License-Identifier: MIT */
/*
 * scenario_strip.c - the strip under two locks, as a source of work has it: one pushes,
 * one takes, one removes, and the bound changes meanwhile.
 *
 * In explorer builds a chunk has two slots.  `data[i]` is written relaxed before task i
 * is pushed and read relaxed when it has come out: only the strip orders the two,
 * because those who push and those who take have a lock each.  `out_count` counts how
 * often each task came out, and is guarded by the take lock.
 */
#include "sim.h"

#include <string.h>

#include "exec/strip.h"
#include "sync/lock.h"

enum { TASKS = 6, MARK = 40 };

static struct spn__lock push_lock, take_lock;
static struct spn__strip_in in;
static struct spn__strip_out out;
static uint64_t capacity; /* guarded by push_lock; 0: none */
static spn_task task[TASKS];
static SPN__ATOMIC(int) data[TASKS];
static int out_count[TASKS], last_taken;
static SPN__ATOMIC(int) left; /* tasks that have come out */

static int task_fn(spn_task *t)
{
    (void)t;
    return 0;
}

static bool set_up(uint64_t bound)
{
    struct spn__strip_chunk *chunks =
        spn__strip_chunks_make(spn__strip_chunks_for(bound));

    if (chunks == NULL)
        return false;
    memset(out_count, 0, sizeof out_count);
    spn__lock_init(&push_lock);
    spn__lock_init(&take_lock);
    for (int i = 0; i < TASKS; i++) {
        task[i] = (spn_task)SPN_TASK_INIT(task_fn, NULL);
        spn__init(&data[i], 0);
    }
    spn__init(&left, 0);
    last_taken = -1;
    capacity = bound;
    spn__strip_init(&in, &out, MARK, bound, chunks);
    return true;
}

/* take_lock is held. */
static void came_out(struct spn__entry entry)
{
    const int i = (int)((spn_task *)entry.arg - task);

    sim_assert(entry.fn == spn__entry_task && i >= 0 && i < TASKS);
    sim_assert(spn__load(&data[i], relaxed) == i + 1);
    sim_assert(out_count[i]++ == 0);
    (void)spn__fetch_add(&left, 1, relaxed);
}

static bool take_one(void)
{
    struct spn__strip_chunk *surplus;
    struct spn__entry entry;
    bool took;

    spn__lock(&take_lock);
    took = spn__strip_take(&out, &entry);
    if (took) {
        const int i = (int)((spn_task *)entry.arg - task);

        came_out(entry);
        sim_assert(i > last_taken);
        last_taken = i;
    }
    surplus = spn__strip_surplus(&out);
    spn__unlock(&take_lock);
    spn__strip_chunks_free(surplus);
    return took;
}

static void tear_down(int pushed)
{
    sim_join_all();
    while (take_one()) {
    }
    sim_assert(spn__strip_size(&out) == 0);
    sim_assert(!spn__strip_any(&out));
    for (int i = 0; i < TASKS; i++)
        sim_assert(out_count[i] == (i < pushed));
    spn__strip_fini(&in, &out);
}

/* Pushes task i if there is room; false: there is none. */
static bool push_if_room(int i)
{
    bool room;

    spn__lock(&push_lock);
    room = capacity == 0 || spn__strip_has_room(&in, capacity);
    if (room) {
        sim_assert(spn__strip_has_slot(&in)); /* a bounded one never lacks it */
        spn__strip_push(&in, (struct spn__entry){ spn__entry_task, &task[i] });
    }
    spn__unlock(&push_lock);
    return room;
}

static void push_bounded(int from, int to)
{
    for (int i = from; i < to; i++) {
        spn__store(&data[i], i + 1, relaxed);
        while (!push_if_room(i))
            spn__cpu_relax();
    }
}

/* Takes task i out if it waits. */
static void remove_one(int i)
{
    struct spn__strip_chunk *surplus;

    spn__lock(&take_lock);
    if (spn__strip_remove(&out, &task[i])) {
        came_out((struct spn__entry){ spn__entry_task, &task[i] });
        if (spn__strip_crowded(&out)) {
            spn__lock(&push_lock);
            spn__strip_tidy(&out);
            spn__unlock(&push_lock);
        }
    }
    surplus = spn__strip_surplus(&out);
    spn__unlock(&take_lock);
    spn__strip_chunks_free(surplus);
}

static void take_until(int count)
{
    while (spn__load(&left, relaxed) < count) /* a number */
        if (!take_one())
            spn__cpu_relax();
}

/* ---- bounded --------------------------------------------------------------------- */

static void push_five(void *arg)
{
    (void)arg;
    push_bounded(0, 5);
}

static void take_five(void *arg)
{
    (void)arg;
    take_until(5);
}

/* What one pushes another takes, once and in order, through two locks. */
SCENARIO(strip__bounded__in_order_each_once)
{
    sim_assert(set_up(2));
    sim_thread(push_five, NULL);
    sim_thread(take_five, NULL);
    tear_down(5);
}

SCENARIO_OPTS(strip__bounded__in_order_each_once, .dfs = 1,
              .dfs_models = SIM_SC | SIM_C11)

static void remove_some(void *arg)
{
    (void)arg;
    remove_one(1);
    remove_one(3);
    remove_one(2);
}

/* A third removes meanwhile: each comes out once, and there is always a slot where
 * there is room. */
SCENARIO(strip__push_take_remove__each_once)
{
    sim_assert(set_up(4));
    sim_thread(push_five, NULL);
    sim_thread(take_five, NULL);
    sim_thread(remove_some, NULL);
    tear_down(5);
}

static SPN__ATOMIC(int) again; /* how often task 0 has come out */

/* Takes task 0, and pushes it again as its own function would. */
static void take_and_push_again(void *arg)
{
    (void)arg;
    for (int n = 0; n < 3; n++) {
        struct spn__entry entry;
        bool took;

        spn__lock(&take_lock);
        took = spn__strip_take(&out, &entry);
        spn__unlock(&take_lock);
        if (!took)
            return; /* it was removed */
        (void)spn__fetch_add(&again, 1, relaxed);
        spn_task_release(&task[0]);
        sim_assert(spn_task_claim(&task[0]) == SPN_OK);
        sim_assert(push_if_room(0));
    }
}

static void remove_again(void *arg)
{
    bool removed = false;

    (void)arg;
    for (int n = 0; n < 2 && !removed; n++) {
        spn__lock(&take_lock);
        removed = spn__strip_remove(&out, &task[0]);
        spn__unlock(&take_lock);
    }
    if (removed)
        (void)spn__fetch_add(&again, 1, relaxed);
}

/* A task that pushes itself again is removed meanwhile, or not: each push comes out
 * once. */
SCENARIO(strip__pushed_again_while_removed__each_once)
{
    uint64_t pushed;

    sim_assert(set_up(8));
    spn__init(&again, 0);
    sim_assert(spn_task_claim(&task[0]) == SPN_OK);
    sim_assert(push_if_room(0));
    sim_thread(take_and_push_again, NULL);
    sim_thread(remove_again, NULL);
    sim_join_all();
    pushed = spn__load(&in.tail, relaxed); /* joined */
    sim_assert(spn__strip_size(&out) + (uint64_t)spn__load(&again, relaxed) == pushed);
    sim_assert(spn__strip_size(&out) <= 1);
    spn__strip_fini(&in, &out);
}

SCENARIO_OPTS(strip__pushed_again_while_removed__each_once, .dfs = 2,
              .dfs_models = SIM_SC | SIM_C11)

static void look(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++) {
        sim_assert((int64_t)spn__strip_size(&out) >= 0);
        (void)spn__strip_any_known(&out);
        (void)spn__strip_any(&out);
    }
}

/* The size is never negative. */
SCENARIO(strip__size_while_it_moves__not_negative)
{
    sim_assert(set_up(4));
    sim_thread(push_five, NULL);
    sim_thread(take_five, NULL);
    sim_thread(look, NULL);
    remove_some(NULL);
    tear_down(5);
}

/* ---- unbounded ------------------------------------------------------------------- */

/* False: no memory. */
static bool push_unbounded(int i)
{
    struct spn__strip_chunk *chunk = NULL;

    spn__store(&data[i], i + 1, relaxed);
    for (;;) {
        spn__lock(&push_lock);
        if (chunk != NULL)
            spn__strip_give(&in, chunk, 1);
        if (spn__strip_has_slot(&in))
            break;
        spn__unlock(&push_lock);
        chunk = spn__strip_chunks_make(1);
        if (chunk == NULL)
            return false;
    }
    spn__strip_push(&in, (struct spn__entry){ spn__entry_task, &task[i] });
    spn__unlock(&push_lock);
    return true;
}

static SPN__ATOMIC(int) accepted; /* tasks from 0 that were pushed; -1: not known yet */

static void push_until_refused(void *arg)
{
    int i = 0;

    (void)arg;
    while (i < TASKS && push_unbounded(i))
        i++;
    spn__store(&accepted, i, relaxed); /* a number */
}

static void take_what_was_accepted(void *arg)
{
    int count;

    (void)arg;
    while ((count = spn__load(&accepted, relaxed)) < 0 || /* numbers */
           spn__load(&left, relaxed) < count)
        if (!take_one())
            spn__cpu_relax();
}

static void remove_two(void *arg)
{
    (void)arg;
    remove_one(2);
    remove_one(1);
}

/* Chunks are made outside of the locks and may be refused: what was pushed comes out.
 */
SCENARIO(strip__unbounded__each_once)
{
    if (!set_up(0))
        return;
    spn__init(&accepted, -1);
    sim_thread(push_until_refused, NULL);
    sim_thread(take_what_was_accepted, NULL);
    sim_thread(remove_two, NULL);
    sim_join_all();
    tear_down(spn__load(&accepted, relaxed)); /* joined */
}
SCENARIO_OPTS(strip__unbounded__each_once, .faults = true)

/* ---- the bound changes ----------------------------------------------------------- */

static void change_bound(uint64_t bound)
{
    struct spn__strip_chunk *chunks = NULL, *surplus;
    uint64_t missing, old;

    spn__lock(&push_lock); /* lowered: the limit first */
    old = capacity;
    if (bound < old)
        capacity = bound;
    spn__unlock(&push_lock);

    spn__lock(&take_lock);
    missing = bound > old ? spn__strip_reserve(&out, bound) : 0;
    spn__unlock(&take_lock);
    if (missing != 0) {
        chunks = spn__strip_chunks_make(missing);
        sim_assert(chunks != NULL);
    }

    spn__lock(&take_lock);
    spn__lock(&push_lock);
    spn__strip_give(&in, chunks, missing);
    spn__strip_bound(&out, bound);
    capacity = bound;
    spn__unlock(&push_lock);
    surplus = spn__strip_surplus(&out);
    spn__unlock(&take_lock);
    spn__strip_chunks_free(surplus);
}

static void change_twice(void *arg)
{
    (void)arg;
    change_bound(1);
    remove_one(2);
    change_bound(4);
}

/* Lowered and raised while entries come and go, the bound never leaves a push without a
 * slot. */
SCENARIO(strip__bound_changes__each_once)
{
    sim_assert(set_up(3));
    sim_thread(push_five, NULL);
    sim_thread(take_five, NULL);
    sim_thread(change_twice, NULL);
    tear_down(5);
}
SCENARIO_OPTS(strip__bound_changes__each_once, .no_faults = "its chunks are asserted")

/* ---- sweeps ---------------------------------------------------------------------- */

/* Takes the odd ones, and stops behind the third. */
static enum spn__strip_verdict odd_ones(struct spn__entry entry, void *ctx)
{
    const int i = (int)((spn_task *)entry.arg - task);
    int *shown = ctx;

    if ((*shown)++ == 3)
        return SPN__STRIP_STOP;
    if (i % 2 == 0)
        return SPN__STRIP_KEEP;
    came_out(entry);
    return SPN__STRIP_TAKE;
}

static void sweep_twice(void *arg)
{
    (void)arg;
    for (int n = 0; n < 2; n++) {
        int shown = 0;

        spn__lock(&take_lock);
        spn__lock(&push_lock);
        (void)spn__strip_sweep(&out, odd_ones, &shown);
        spn__unlock(&push_lock);
        spn__unlock(&take_lock);
    }
}

/* A sweep takes some out while others come and go. */
SCENARIO(strip__sweep_races_push_and_take__each_once)
{
    sim_assert(set_up(3));
    sim_thread(push_five, NULL);
    sim_thread(take_five, NULL);
    sim_thread(sweep_twice, NULL);
    tear_down(5);
}

static enum spn__strip_verdict in_order(struct spn__entry entry, void *ctx)
{
    const int i = (int)((spn_task *)entry.arg - task);
    int *last = ctx;

    sim_assert(i > *last);
    sim_assert(spn__load(&data[i], relaxed) == i + 1);
    *last = i;
    return SPN__STRIP_KEEP;
}

static void look_inside(void *arg)
{
    int last = -1;

    (void)arg;
    spn__lock(&take_lock);
    sim_assert(spn__strip_sweep(&out, in_order, &last) == 0);
    spn__unlock(&take_lock);
}

/* One that only looks needs the take lock alone, and sees entries that are whole. */
SCENARIO(strip__look_races_push__whole_and_in_order)
{
    sim_assert(set_up(2));
    sim_thread(push_five, NULL);
    sim_thread(look_inside, NULL);
    take_until(5);
    tear_down(5);
}
