/* SPDX-License-Identifier: MIT */
/*
 * scenario_lanes.c - the lanes without the pool around them: push, take, steal, remove,
 * collect and close against each other; lanes and batches that change hands.
 *
 * In explorer builds a chunk has three slots and a batch takes all that waits, divided
 * by the number of workers.  `ran` counts what became of each task; `data` is written
 * relaxed before a push and read relaxed after the task came out: only the lanes order
 * the two.
 */
#include "sim.h"

#include <string.h>

#include "exec/pool.h"
#include "exec/work.h"
#include "sync/seat.h"

enum { TASKS = 8, MARK = 40 };

static struct spn__lanes *lanes;
static struct spn__worker worker[3];
static spn_task task[TASKS];
static SPN__ATOMIC(int) ran[TASKS], data[TASKS];
static SPN__ATOMIC(int) total;

static int run_task(spn_task *t)
{
    (void)t;
    return 0;
}

static bool set_up(int workers)
{
    memset(worker, 0, sizeof worker);
    for (int i = 0; i < TASKS; i++) {
        task[i] = (spn_task)SPN_TASK_INIT(run_task, NULL);
        spn__init(&ran[i], 0);
        spn__init(&data[i], 0);
    }
    spn__init(&total, 0);
    if (spn__lanes_create(&lanes, MARK) != SPN_OK)
        return false;
    for (int i = 0; i < workers; i++)
        if (spn__lanes_worker_init(lanes, &worker[i]) != SPN_OK) {
            while (i-- > 0)
                spn__lanes_worker_fini(lanes, &worker[i]);
            spn__lanes_destroy(lanes);
            return false;
        }
    return true;
}

static void tear_down(int workers)
{
    sim_assert(!spn__lanes_any(lanes));
    sim_assert(spn__lanes_size(lanes) == 0);
    for (int i = 0; i < workers; i++)
        spn__lanes_worker_fini(lanes, &worker[i]);
    spn__lanes_destroy(lanes);
}

/* What an executor does when it takes a task in. */
static int push(int i)
{
    int rc;

    spn__store(&data[i], i + 1, relaxed);
    sim_assert(spn_task_claim(&task[i]) == SPN_OK);
    rc = spn__lanes_push(lanes, (struct spn__entry){ spn__entry_task, &task[i] });
    if (rc != SPN_OK)
        spn_task_release(&task[i]);
    return rc;
}

static int index_of(const spn_task *t)
{
    sim_assert(t >= task && t < task + TASKS);
    return (int)(t - task);
}

/* The task is this thread's: it came out here and nowhere else. */
static int came_out(spn_task *t)
{
    const int i = index_of(t);

    sim_assert(spn__load(&data[i], relaxed) == i + 1);
    sim_assert(spn__fetch_add(&ran[i], 1, relaxed) == 0);
    spn_task_release(t);
    (void)spn__fetch_add(&total, 1, relaxed);
    return i;
}

/* One entry, or -1. */
static int take(int w)
{
    struct spn__entry entry;
    bool more;

    if (!spn__lanes_take(lanes, &worker[w], &entry, &more))
        return -1;
    sim_assert(entry.fn == spn__entry_task);
    return came_out(entry.arg);
}

static void remove_one(int i)
{
    if (spn__lanes_remove(lanes, &task[i]))
        (void)came_out(&task[i]);
}

static int collect(bool (*wanted)(spn_task *, const void *), const void *ctx)
{
    struct spn__list out;
    struct spn__list_node *node;
    int64_t count;
    int last = -1, seen = 0;

    spn__list_init(&out);
    count = spn__lanes_collect(lanes, wanted, ctx, &out);
    while ((node = spn__list_pop_front(&out)) != NULL) {
        const int i = came_out(spn__node_task(node));

        sim_assert(i > last || i / 4 != last / 4); /* in order within a lane */
        last = i;
        seen++;
    }
    sim_assert(seen == count);
    return seen;
}

static void take_until(int w, int count)
{
    int last = -1;

    while (spn__load(&total, relaxed) < count) {
        const int i = take(w);

        if (i < 0)
            spn__cpu_relax();
        else
            last = i;
    }
    (void)last;
}

static void push_some(void *count)
{
    for (int i = 0; i < (int)(intptr_t)count; i++)
        sim_assert(push(i) == SPN_OK);
}

/* One producer, one worker, more than a chunk: in order, each once, with its data. */
SCENARIO(lanes__push_races_take__in_order)
{
    int last = -1;

    if (!set_up(1))
        return;
    sim_thread(push_some, (void *)5);
    while (last < 4) {
        const int i = take(0);

        sim_assert(spn__lanes_size(lanes) >= 0);
        if (i < 0) {
            spn__cpu_relax();
            continue;
        }
        sim_assert(i == last + 1);
        last = i;
    }
    sim_join_all();
    sim_assert(spn__lanes_pushed(lanes) == 5);
    tear_down(1);
}

static void work_1(void *count)
{
    take_until(1, (int)(intptr_t)count);
}

/* One producer, two workers: nothing is lost and nothing comes twice. */
SCENARIO(lanes__two_workers__each_once)
{
    if (!set_up(2))
        return;
    sim_thread(push_some, (void *)4);
    sim_thread(work_1, (void *)4);
    take_until(0, 4);
    sim_join_all();
    tear_down(2);
}
SCENARIO_OPTS(lanes__two_workers__each_once, .max_steps = 60000)

static void push_upper(void *count)
{
    for (int i = 0; i < (int)(intptr_t)count; i++)
        sim_assert(push(4 + i) == SPN_OK);
}

/* Two producers: a lane each. */
SCENARIO(lanes__two_producers__each_once)
{
    if (!set_up(1))
        return;
    sim_thread(push_some, (void *)2);
    sim_thread(push_upper, (void *)2);
    take_until(0, 4);
    sim_join_all();
    sim_assert(spn__lanes_pushed(lanes) == 4);
    tear_down(1);
}

/* Worker 0 has started the first of `count` and has the others in its batch. */
static void fill_batch(int count)
{
    push_some((void *)(intptr_t)count);
    sim_assert(take(0) == 0);
    sim_assert(spn__lanes_size(lanes) == count - 1);
}

static void take_one_1(void *arg)
{
    (void)arg;
    (void)take(1);
}

/* The owner starts entries while a thief takes some of them. */
SCENARIO(lanes__steal_races_owner__each_once)
{
    if (!set_up(1))
        return;
    fill_batch(3);
    if (spn__lanes_worker_init(lanes, &worker[1]) != SPN_OK) {
        (void)collect(NULL, NULL);
        tear_down(1);
        return;
    }
    sim_thread(take_one_1, NULL);
    (void)take(0);
    (void)take(0);
    sim_join_all();
    while (take(1) >= 0 || take(0) >= 0)
        ;
    sim_assert(spn__load(&total, relaxed) == 3);
    tear_down(2);
}
SCENARIO_OPTS(lanes__steal_races_owner__each_once, .dfs = 2, .dfs_models = SIM_SC)

/* A worker with nothing to do takes over what waits behind a task that does not end. */
SCENARIO(lanes__owner_is_busy__another_takes_the_rest)
{
    int seen = 0;

    if (!set_up(1))
        return;
    fill_batch(3);
    sim_assert(spn__lanes_any(lanes));
    if (spn__lanes_worker_init(lanes, &worker[1]) == SPN_OK) {
        while (take(1) >= 0)
            seen++;
        sim_assert(seen == 2);
        tear_down(2);
    } else {
        (void)collect(NULL, NULL);
        tear_down(1);
    }
}
/* Worker 0 is busy with the first task, 1 and 2 are behind it in its batch, and worker 1
 * comes. */
static bool stall(void)
{
    fill_batch(3);
    if (spn__lanes_worker_init(lanes, &worker[1]) == SPN_OK)
        return true;
    (void)collect(NULL, NULL);
    tear_down(1);
    return false;
}

/* Worker 1 takes a millisecond later, and there is something new in the lane. */
static int take_later(int new)
{
    sim_assert(push(new) == SPN_OK);
    sim_sleep(SPN_MS(1));
    return take(1);
}

/* A worker that always finds something in the lanes takes over a stalled batch, all of
 * it, the oldest first, after workers + 1 milliseconds at most. */
SCENARIO(lanes__batch_is_stalled__a_busy_worker_takes_it_in_order)
{
    const int64_t start_ns = sim_now();
    int at = 3;

    if (!set_up(1) || !stall())
        return;
    while (at < TASKS - 1 && take_later(at) != 1)
        at++;
    sim_assert(sim_now() - start_ns <= SPN_MS(2 + 1));
    sim_assert(take_later(at + 1) == 2);
    while (take(1) >= 0)
        ;
    sim_assert(spn__load(&total, relaxed) == at + 2);
    tear_down(2);
}

/* A batch whose owner starts a task now and then is left to it. */
SCENARIO(lanes__batch_goes_on__a_busy_worker_leaves_it)
{
    if (!set_up(1) || !stall())
        return;
    sim_assert(take_later(3) == 3); /* it looked */
    sim_assert(take(0) == 1);
    sim_assert(take_later(4) == 4);
    sim_assert(take(0) == 2);
    tear_down(2);
}

/* The owner starts entries while a busy worker takes the whole batch. */
SCENARIO(lanes__stalled_owner_goes_on__each_once)
{
    if (!set_up(1) || !stall())
        return;
    sim_assert(take_later(3) == 3); /* it looked */
    sim_assert(push(4) == SPN_OK);
    sim_sleep(SPN_MS(1));
    sim_thread(take_one_1, NULL);
    (void)take(0);
    (void)take(0);
    sim_join_all();
    while (take(1) >= 0 || take(0) >= 0)
        ;
    sim_assert(spn__load(&total, relaxed) == 5);
    tear_down(2);
}
SCENARIO_OPTS(lanes__stalled_owner_goes_on__each_once, .dfs = 2, .dfs_models = SIM_SC)

static void remove_1(void *arg)
{
    (void)arg;
    remove_one(1);
}

static void remove_2(void *arg)
{
    (void)arg;
    remove_one(2);
}

/* A task in a batch is removed while its turn comes: one of the two has it. */
SCENARIO(lanes__remove_races_owner__one_wins, "TPE-24")
{
    if (!set_up(1))
        return;
    fill_batch(3);
    sim_thread(remove_1, NULL);
    while (take(0) >= 0)
        ;
    sim_join_all();
    sim_assert(spn__load(&total, relaxed) == 3);
    tear_down(1);
}
SCENARIO_OPTS(lanes__remove_races_owner__one_wins, .dfs = 2, .dfs_models = SIM_SC)

/* The last of a batch is removed: the batch is as if it had been shorter. */
SCENARIO(lanes__remove_of_the_last_races_owner__one_wins, "TPE-24")
{
    if (!set_up(1))
        return;
    fill_batch(3);
    sim_thread(remove_2, NULL);
    (void)take(0);
    (void)take(0);
    sim_join_all();
    sim_assert(!spn__lanes_any(lanes));
    sim_assert(spn__load(&total, relaxed) == 3);
    tear_down(1);
}

/* A task is removed by two threads while a worker claims it: one has it. */
SCENARIO(lanes__removes_race_claim__one_wins, "TPE-24")
{
    if (!set_up(1))
        return;
    push_some((void *)2);
    sim_thread(remove_1, NULL);
    sim_thread(remove_1, NULL);
    (void)take(0);
    (void)take(0);
    sim_join_all();
    sim_assert(!spn__lanes_any(lanes));
    sim_assert(spn__load(&total, relaxed) == 2);
    tear_down(1);
}

/* Entries trade places between batches while one of them is removed: it is found. */
SCENARIO(lanes__remove_races_thief__one_wins, "TPE-24")
{
    if (!set_up(1))
        return;
    fill_batch(3);
    if (spn__lanes_worker_init(lanes, &worker[1]) != SPN_OK) {
        (void)collect(NULL, NULL);
        tear_down(1);
        return;
    }
    sim_thread(take_one_1, NULL);
    remove_one(2);
    sim_join_all();
    while (take(1) >= 0 || take(0) >= 0)
        ;
    sim_assert(spn__load(&total, relaxed) == 3);
    tear_down(2);
}

/* What is removed while it waits, and nobody takes anything, is surely removed. */
SCENARIO(lanes__remove_of_what_waits__succeeds, "TPE-24")
{
    if (!set_up(1))
        return;
    fill_batch(3);
    sim_assert(push(3) == SPN_OK);
    sim_assert(push(4) == SPN_OK);
    sim_assert(spn__lanes_remove(lanes, &task[3]));
    sim_assert(!spn__lanes_remove(lanes, &task[3]));
    sim_assert(spn__lanes_remove(lanes, &task[2]));
    sim_assert(!spn__lanes_remove(lanes, &task[0]));
    sim_assert(spn__lanes_size(lanes) == 2);
    sim_assert(take(0) == 1);
    sim_assert(spn__lanes_remove(lanes, &task[4]));
    sim_assert(take(0) == -1);
    tear_down(1);
}

static void push_3_4(void *arg)
{
    (void)arg;
    for (int i = 3; i < 5; i++)
        sim_assert(push(i) == SPN_OK);
}

/* Everything is collected while it is pushed and taken: each once. */
SCENARIO(lanes__collect_races_all__each_once, "TPE-19")
{
    if (!set_up(1))
        return;
    fill_batch(3);
    sim_assert(spn__lanes_worker_init(lanes, &worker[1]) == SPN_OK);
    sim_thread(push_3_4, NULL);
    sim_thread(take_one_1, NULL);
    (void)collect(NULL, NULL);
    (void)take(0);
    sim_join_all();
    (void)collect(NULL, NULL);
    sim_assert(spn__load(&total, relaxed) == 5);
    tear_down(2);
}

static bool is_even(spn_task *t, const void *ctx)
{
    (void)ctx;
    return index_of(t) % 2 == 0;
}

/* Some are collected while the owner works on its batch: of those that wait all
 * along, none is missed. */
SCENARIO(lanes__collect_of_some_races_owner__each_once)
{
    if (!set_up(1))
        return;
    fill_batch(3);
    sim_assert(push(3) == SPN_OK);
    sim_assert(push(4) == SPN_OK);
    sim_assert(spn__lanes_worker_init(lanes, &worker[1]) == SPN_OK);
    sim_thread(take_one_1, NULL);
    (void)collect(is_even, NULL);
    sim_join_all();
    while (take(0) >= 0 || take(1) >= 0)
        ;
    sim_assert(spn__load(&total, relaxed) == 5);
    tear_down(2);
}

static void take_two_0(void *arg)
{
    (void)arg;
    (void)take(0);
    (void)take(0);
}

/* All are collected while the owner starts those of its batch: each once. */
SCENARIO(lanes__collect_races_owner__each_once, "TPE-19")
{
    if (!set_up(1))
        return;
    fill_batch(3);
    sim_thread(take_two_0, NULL);
    (void)collect(NULL, NULL);
    sim_join_all();
    sim_assert(spn__load(&total, relaxed) == 3);
    tear_down(1);
}
SCENARIO_OPTS(lanes__collect_races_owner__each_once, .dfs = 2, .dfs_models = SIM_SC)

static void push_two(void *arg)
{
    (void)arg;
    sim_assert(push(0) == SPN_OK);
    sim_assert(push(1) == SPN_OK);
}

/* What is collected, removed or seen was published by its push alone. */
SCENARIO(lanes__collect_races_push__sees_what_was_written)
{
    if (!set_up(1))
        return;
    sim_thread(push_two, NULL);
    (void)collect(NULL, NULL); /* without a pause, which would order too much */
    (void)collect(NULL, NULL);
    (void)collect(NULL, NULL);
    sim_join_all();
    (void)collect(NULL, NULL);
    sim_assert(spn__load(&total, relaxed) == 2);
    tear_down(1);
}

SCENARIO(lanes__remove_races_push__sees_what_was_written)
{
    if (!set_up(1))
        return;
    sim_thread(push_two, NULL);
    remove_one(1);
    remove_one(1);
    remove_one(1);
    sim_join_all();
    (void)collect(NULL, NULL);
    sim_assert(spn__load(&total, relaxed) == 2);
    tear_down(1);
}

static SPN__ATOMIC(int) pushed_rc;

static void push_against_close(void *arg)
{
    (void)arg;
    spn__store(&pushed_rc, push(0) == SPN_OK ? 1 : 2, relaxed);
}

/* A push that says SPN_OK is seen by who collects after close; the others left
 * nothing behind. */
SCENARIO(lanes__push_races_close__seen_or_refused, "TPE-16")
{
    if (!set_up(1))
        return;
    spn__init(&pushed_rc, 0);
    sim_thread(push_against_close, NULL);
    spn__lanes_close(lanes);
    (void)collect(NULL, NULL);
    sim_join_all();
    sim_assert((spn__load(&pushed_rc, relaxed) == 1) ==
               (spn__load(&ran[0], relaxed) == 1));
    sim_assert(push(1) == SPN_ESHUTDOWN);
    sim_assert(spn_task_claim(&task[1]) == SPN_OK); /* and it is free again */
    tear_down(1);
}
SCENARIO_OPTS(lanes__push_races_close__seen_or_refused, .dfs = 2, .dfs_models = SIM_SC)

/* The same for who takes. */
SCENARIO(lanes__push_races_close__taken_or_refused, "TPE-16")
{
    if (!set_up(1))
        return;
    spn__init(&pushed_rc, 0);
    sim_thread(push_against_close, NULL);
    spn__lanes_close(lanes);
    (void)take(0);
    sim_join_all();
    sim_assert(take(0) < 0);
    sim_assert((spn__load(&pushed_rc, relaxed) == 1) ==
               (spn__load(&ran[0], relaxed) == 1));
    tear_down(1);
}
SCENARIO_OPTS(lanes__push_races_close__taken_or_refused, .dfs = 2, .dfs_models = SIM_SC)

static SPN__ATOMIC(int) idle;
static spn__futex_word bell;

static void push_and_ring(void *arg)
{
    (void)arg;
    sim_assert(push(0) == SPN_OK);
    spn__fence_light();
    if (spn__load(&idle, relaxed) != 0) {
        spn__store(&bell, 1, relaxed);
        spn__futex_wake(&bell, 1);
    }
}

/* A worker that says it is idle, makes a heavy fence and asks, does not sleep on. */
SCENARIO(lanes__push_races_sleep__no_wake_is_lost)
{
    if (!set_up(1))
        return;
    spn__init(&idle, 0);
    spn__init(&bell, 0);
    sim_thread(push_and_ring, NULL);
    while (take(0) < 0) {
        spn__store(&idle, 1, relaxed);
        spn__fence_heavy();
        if (!spn__lanes_any(lanes))
            while (spn__load(&bell, relaxed) == 0)
                (void)spn__futex_wait(&bell, 0, SPN_FOREVER);
        spn__store(&idle, 0, relaxed);
    }
    sim_join_all();
    tear_down(1);
}

static void take_one_0(void *arg)
{
    (void)arg;
    (void)take(0);
}

/* An entry that goes from a lane to a batch is seen all the way. */
SCENARIO(lanes__any_races_claim__sees_what_waits)
{
    if (!set_up(1))
        return;
    push_some((void *)2);
    sim_thread(take_one_0, NULL);
    sim_assert(spn__lanes_any(lanes));
    sim_join_all();
    sim_assert(take(0) >= 0);
    tear_down(1);
}
SCENARIO_OPTS(lanes__any_races_claim__sees_what_waits, .dfs = 2, .dfs_models = SIM_SC)

/* The same for a worker that takes: it finds the second, wherever it is. */
SCENARIO(lanes__take_races_claim__finds_what_waits)
{
    if (!set_up(1))
        return;
    push_some((void *)3);
    sim_assert(spn__lanes_worker_init(lanes, &worker[1]) == SPN_OK);
    sim_thread(take_one_0, NULL);
    sim_assert(take(1) >= 0);
    sim_join_all();
    while (take(1) >= 0 || take(0) >= 0)
        ;
    sim_assert(spn__load(&total, relaxed) == 3);
    tear_down(2);
}

static void push_and_end(void *first)
{
    const int i = (int)(intptr_t)first;

    sim_assert(push(i) == SPN_OK);
    sim_assert(push(i + 1) == SPN_OK);
}

/* A lane whose thread has ended is taken over with what is in it. */
SCENARIO(lanes__thread_ends__its_lane_goes_on)
{
    if (!set_up(1))
        return;
    sim_join(sim_thread(push_and_end, (void *)0));
    sim_thread(push_and_end, (void *)2);
    sim_thread(push_and_end, (void *)4);
    take_until(0, 6);
    sim_join_all();
    tear_down(1);
}

static SPN__ATOMIC(int) phase;

static void push_to_two(void *arg)
{
    (void)arg;
    sim_assert(push(0) == SPN_OK);
    spn__store(&phase, 1, release);
    while (spn__load(&phase, acquire) != 2)
        spn__cpu_relax();
    sim_assert(push(1) == SPN_OK);
}

/* A thread outlives the lanes it pushed to; the next, maybe at the same address, are
 * new to it. */
SCENARIO(lanes__destroyed_before_the_thread_ends__nothing_dangles)
{
    if (!set_up(1))
        return;
    spn__init(&phase, 0);
    sim_thread(push_to_two, NULL);
    take_until(0, 1);
    while (spn__load(&phase, acquire) != 1)
        spn__cpu_relax();
    tear_down(1);
    sim_assert(set_up(1));
    spn__store(&phase, 2, release);
    take_until(0, 1);
    sim_join_all();
    tear_down(1);
}

/* The thread ends while the lanes it pushed to are destroyed. */
SCENARIO(lanes__destroyed_while_the_thread_ends__nothing_dangles)
{
    if (!set_up(1))
        return;
    sim_thread(push_some, (void *)1);
    take_until(0, 1);
    while (spn__lanes_size(lanes) != 0)
        spn__cpu_relax();
    spn__lanes_close(lanes);
    sim_join_all();
    tear_down(1);
}

struct place {
    struct spn__seat seat;
};
static struct place *place;
static SPN__ATOMIC(int) seated;

static void sit_and_end(void *arg)
{
    struct spn_thread *self = spn__thread_self();

    (void)arg;
    sim_assert(self != NULL);
    sim_assert(spn__seat_recall(self, place) == NULL);
    if (spn__seat_take(&place->seat, self)) {
        spn__store(&seated, spn__load(&seated, relaxed) + 1, relaxed);
        sim_assert(spn__seat_recall(self, place) == &place->seat);
        sim_assert(spn__seat_find(self, place) == &place->seat);
        sim_assert(!spn__seat_take(&place->seat, self));
    }
}

/* Of two threads one has the seat at a time; the second sees what the first did. */
SCENARIO(seat__thread_ends__the_next_takes_it)
{
    place = spn__alloc(sizeof *place);
    if (place == NULL)
        return;
    spn__seat_init(&place->seat, place);
    spn__init(&seated, 0);
    sim_thread(sit_and_end, NULL);
    sim_thread(sit_and_end, NULL);
    sim_join_all();
    sim_assert(spn__load(&seated, relaxed) >= 1);
    if (spn__load(&seated, relaxed) == 2)
        sim_outcome(1);
    spn__seat_clear(&place->seat);
    spn__free(place);
}

static void sit_and_tell(void *arg)
{
    (void)arg;
    sim_assert(spn__thread_self() != NULL);
    sim_assert(spn__seat_take(&place->seat, spn__thread_self()));
    spn__store(&seated, 1, release);
}

/* The object goes, and its memory, as soon as the seat is not held: the thread that
 * ends has let go. */
SCENARIO(seat__object_goes_while_the_thread_ends__both_let_go)
{
    place = spn__alloc(sizeof *place);
    if (place == NULL)
        return;
    spn__seat_init(&place->seat, place);
    spn__init(&seated, 0);
    sim_thread(sit_and_tell, NULL);
    while (spn__load(&seated, acquire) == 0)
        spn__cpu_relax();
    spn__seat_clear(&place->seat);
    spn__free(place);
    sim_join_all();
}
SCENARIO_OPTS(seat__object_goes_while_the_thread_ends__both_let_go, .dfs = 2,
              .dfs_models = SIM_SC | SIM_C11)

static void leave_worker_0(void *arg)
{
    (void)arg;
    spn__lanes_worker_fini(lanes, &worker[0]);
}

/* A worker leaves with a batch: others take it over, and so does the next worker. */
SCENARIO(lanes__worker_leaves__its_batch_stays)
{
    if (!set_up(1))
        return;
    fill_batch(3);
    sim_assert(spn__lanes_worker_init(lanes, &worker[1]) == SPN_OK);
    sim_thread(leave_worker_0, NULL);
    sim_thread(take_one_1, NULL);
    sim_join_all();
    sim_assert(spn__lanes_worker_init(lanes, &worker[0]) == SPN_OK);
    while (take(0) >= 0)
        ;
    while (take(1) >= 0)
        ;
    sim_assert(spn__load(&total, relaxed) == 3);
    tear_down(2);
}

/* Chunks are done by two workers, in any order, and used again or freed. */
SCENARIO(lanes__chunk_done_by_two__freed_once)
{
    if (!set_up(1))
        return;
    fill_batch(3);
    sim_assert(spn__lanes_worker_init(lanes, &worker[1]) == SPN_OK);
    sim_assert(push(3) == SPN_OK);
    sim_thread(take_one_1, NULL);
    (void)take(0);
    (void)take(0);
    (void)take(0);
    sim_join_all();
    for (int i = 4; i < TASKS; i++)
        sim_assert(push(i) == SPN_OK);
    while (take(0) >= 0 || take(1) >= 0)
        ;
    sim_assert(spn__load(&total, relaxed) == TASKS);
    tear_down(2);
}

static void take_two_1(void *arg)
{
    (void)arg;
    (void)take(1);
    (void)take(1);
}

/* With a spare there already, the last of two workers that are done frees the chunk. */
SCENARIO(lanes__chunk_done_by_two_at_once__freed_after_both)
{
    if (!set_up(1))
        return;
    push_some((void *)3);
    for (int i = 0; i < 3; i++)
        sim_assert(take(0) == i);
    for (int i = 3; i < 6; i++)
        sim_assert(push(i) == SPN_OK);
    sim_assert(take(0) == 3); /* the first chunk is spare now */
    sim_assert(spn__lanes_worker_init(lanes, &worker[1]) == SPN_OK);
    sim_thread(take_two_1, NULL);
    (void)take(0);
    (void)take(0);
    sim_join_all();
    while (take(0) >= 0 || take(1) >= 0)
        ;
    sim_assert(spn__load(&total, relaxed) == 6);
    tear_down(2);
}

static void leave_with_news(void *arg)
{
    (void)arg;
    spn__store(&data[7], 1, relaxed);
    spn__lanes_worker_fini(lanes, &worker[0]);
}

/* A worker that takes over a batch sees what the last owner did. */
SCENARIO(lanes__worker_comes_as_one_goes__batch_complete)
{
    struct spn__batch *batch;

    if (!set_up(1))
        return;
    batch = worker[0].batch;
    fill_batch(3);
    sim_thread(leave_with_news, NULL);
    sim_assert(spn__lanes_worker_init(lanes, &worker[1]) == SPN_OK);
    if (worker[1].batch == batch)
        sim_assert(spn__load(&data[7], relaxed) == 1);
    sim_join_all();
    while (take(1) >= 0)
        ;
    sim_assert(spn__load(&total, relaxed) == 3);
    worker[0] = worker[1];
    tear_down(1);
}

static void take_back_0(void *arg)
{
    (void)arg;
    sim_assert(push(0) == SPN_OK);
    if (spn__lanes_take_back(lanes, (struct spn__entry){ spn__entry_task, &task[0] }))
        (void)came_out(&task[0]);
}

/* The producer takes its last entry back while a worker claims it: one has it. */
SCENARIO(lanes__take_back_races_take__one_wins)
{
    if (!set_up(1))
        return;
    sim_thread(take_back_0, NULL);
    (void)take(0);
    sim_join_all();
    (void)take(0);
    sim_assert(spn__load(&ran[0], relaxed) == 1);
    tear_down(1);
}

static SPN__ATOMIC(int) calls;

static int count_call(void *arg)
{
    (void)spn__fetch_add(&calls, (int)(intptr_t)arg, relaxed);
    return 0;
}

/* Where memory ends nothing is half done: all calls that were accepted come out. */
SCENARIO(lanes__no_memory__nothing_lost)
{
    struct spn__entry entry, entries[2];
    int accepted = 0, got = 0;
    size_t count;
    bool more;

    spn__init(&calls, 0);
    if (!set_up(1))
        return;
    for (int i = 0; i < TASKS; i++)
        accepted += spn__lanes_push(lanes, (struct spn__entry){ count_call,
                                                                (void *)1 }) == SPN_OK;
    sim_assert(spn__lanes_size(lanes) == accepted);
    if (spn__lanes_take(lanes, &worker[0], &entry, &more)) {
        sim_assert(entry.fn == count_call);
        got++;
    }
    do {
        count = spn__lanes_drain(lanes, entries, 2);
        for (size_t i = 0; i < count; i++)
            sim_assert(entries[i].fn(entries[i].arg) == 0);
        got += (int)count;
        sim_assert(spn__lanes_size(lanes) == accepted - got);
    } while (count == 2);
    sim_assert(got == accepted);
    tear_down(1);
}
SCENARIO_OPTS(lanes__no_memory__nothing_lost, .faults = true)
