/* SPDX-License-Identifier: MIT */
/*
 * scenario_queue_special.c - what only some kinds do: waiting for a taker,
 * items that become due, draining from queue to queue, taking an item from a
 * producer that is about to give up.
 */
#include "sim.h"

#include <string.h>

#include <spindle.h>

#include "sim_queue.h"
#include "sync/seam.h"

static spn_queue *queue, *other;
static spn_clock *manual;
static int got[5]; /* plain: an item is on one thread at a time */

static void count(void *item)
{
    if (item != NULL)
        got[(uintptr_t)item]++;
}

static bool open_queue(spn_queue **out, spn_queue_kind kind, int32_t capacity)
{
    spn_queue_opts opts = SPN_QUEUE_OPTS_INIT;

    opts.capacity = capacity;
    if (kind == SPN_QUEUE_SYNCHRONOUS || kind == SPN_QUEUE_TRANSFER)
        opts.spins_timed = opts.spins_untimed = 1; /* more only lengthen schedules */
    return spn_queue_create(out, kind, &opts) == SPN_OK;
}

/* ---- transfer ------------------------------------------------------------------- */

/* A wait of a microsecond or less is spun out, a longer one sleeps. */
static int64_t short_ns(void)
{
    return sim_choose(2) == 0 ? 300 : SPN_US(2);
}

static void transfer_timed(void *item)
{
    const int rc = spn_queue_transfer(queue, item, short_ns());

    sim_assert(rc == SPN_OK || rc == SPN_ETIMEDOUT);
    if (rc == SPN_ETIMEDOUT)
        count(item); /* withdrawn: it is ours again */
}

static void poll_timed(void *arg)
{
    void *item;
    const int rc = spn_queue_take(queue, &item, short_ns());

    (void)arg;
    sim_assert(rc == SPN_OK || rc == SPN_ETIMEDOUT);
    count(item);
}

/* A producer that withdraws and a consumer that gives up: the item is with one
 * of them. */
SCENARIO(queue_transfer__withdrawn_while_taken__one_has_it, "LTQ-6", "LTQ-13", "SQ-12")
{
    memset(got, 0, sizeof got);
    sim_assert(open_queue(&queue, SPN_QUEUE_TRANSFER, SPN_DEFAULT));
    sim_thread(transfer_timed, (void *)1);
    sim_thread(poll_timed, NULL);
    count(take_now(queue));
    sim_join_all();
    sim_assert(got[1] == 1);
    sim_assert(spn_queue_size(queue) == 0);
    sim_assert(spn_queue_destroy(queue) == SPN_OK);
}

static void transfer_for_ever(void *item)
{
    sim_assert(spn_queue_transfer(queue, item, SPN_FOREVER) == SPN_OK);
    sim_assert(got[(uintptr_t)item] == 1); /* only after the taker has it */
}

static void take_one(void *arg)
{
    void *item;

    (void)arg;
    /* Counted before it is given to anybody: transfer returns after this. */
    sim_assert(first_of(queue) == NULL || spn_queue_size(queue) >= 0);
    sim_assert(spn_queue_take(queue, &item, SPN_FOREVER) == SPN_OK);
    (void)item;
}

/* Transfer returns only when a consumer has the item. */
SCENARIO(queue_transfer__waits_for_its_taker, "LTQ-3")
{
    memset(got, 0, sizeof got);
    got[1] = 1;
    sim_assert(open_queue(&queue, SPN_QUEUE_TRANSFER, SPN_DEFAULT));
    sim_thread(take_one, NULL);
    transfer_for_ever((void *)1);
    sim_join_all();
    sim_assert(spn_queue_destroy(queue) == SPN_OK);
}

static void remove_it(void *item)
{
    if (spn_queue_remove_item(queue, item) == SPN_OK)
        count(item);
}

static void look_for(void *item)
{
    (void)spn_queue_contains(queue, item);
}

/* Taken out from inside, looked at, and withdrawn at once: one has it, and a
 * look keeps nobody from leaving. */
SCENARIO(queue_transfer__removed_from_inside__one_has_it, "LTQ-5", "Q-17")
{
    memset(got, 0, sizeof got);
    sim_assert(open_queue(&queue, SPN_QUEUE_TRANSFER, SPN_DEFAULT));
    sim_thread(transfer_timed, (void *)1);
    sim_thread(look_for, (void *)2);
    remove_it((void *)1);
    sim_join_all();
    sim_assert(got[1] == 1);
    sim_assert(spn_queue_destroy(queue) == SPN_OK);
}

static void try_transfer(void *item)
{
    const int rc = spn_queue_transfer(queue, item, 0);

    sim_assert(rc == SPN_OK || rc == SPN_EFULL);
    if (rc == SPN_EFULL)
        count(item);
}

/* Handed to a consumer that is just timing out, or kept. */
SCENARIO(queue_transfer__try_races_timeout__one_has_it, "LTQ-2", "LTQ-13")
{
    memset(got, 0, sizeof got);
    sim_assert(open_queue(&queue, SPN_QUEUE_TRANSFER, SPN_DEFAULT));
    sim_thread(poll_timed, NULL);
    try_transfer((void *)1);
    sim_join_all();
    sim_assert(got[1] == 1);
    sim_assert(spn_queue_destroy(queue) == SPN_OK);
}

/* ---- from queue to queue ---------------------------------------------------------- */

static int visit_move(void *item, void *sink)
{
    const int rc = spn_queue_put(sink, item, 0);

    sim_assert(rc == SPN_OK || rc == SPN_EFULL);
    return rc == SPN_OK ? SPN_QUEUE_TAKE : SPN_QUEUE_STOP;
}

static void walk_there(void *arg)
{
    (void)arg;
    sim_assert(spn_queue_walk(queue, visit_move, other) == SPN_OK);
}

/* A walk moves items into a small queue that is taken from, out of one that is put into:
 * every item is somewhere. */
SCENARIO(queue__walked_into_another__nothing_lost, "Q-34", "Q-35")
{
    memset(got, 0, sizeof got);
    sim_assert(open_queue(&queue, SPN_QUEUE_ARRAY, 2));
    sim_assert(open_queue(&other, SPN_QUEUE_LINKED, 1));
    sim_assert(spn_queue_put(queue, (void *)1, 0) == SPN_OK);
    sim_assert(spn_queue_put(queue, (void *)2, 0) == SPN_OK);
    sim_thread(walk_there, NULL);
    count(take_now(other));
    if (spn_queue_put(queue, (void *)3, 0) != SPN_OK)
        count((void *)3);
    sim_join_all();
    for (void *item; (item = take_now(queue)) != NULL;)
        count(item);
    for (void *item; (item = take_now(other)) != NULL;)
        count(item);
    sim_assert(got[1] == 1 && got[2] == 1 && got[3] == 1);
    sim_assert(spn_queue_destroy(queue) == SPN_OK);
    sim_assert(spn_queue_destroy(other) == SPN_OK);
}

static void offer_timed(void *item)
{
    const int rc = spn_queue_put(queue, item, short_ns());

    sim_assert(rc == SPN_OK || rc == SPN_ETIMEDOUT);
    if (rc == SPN_ETIMEDOUT)
        count(item);
}

/* take_many without waiting takes items out of waiting producers' hands, if they have not
 * given up. */
SCENARIO(queue_synchronous__several_taken_at_once__each_item_once, "SQ-7")
{
    void *some[2];
    size_t taken;

    memset(got, 0, sizeof got);
    sim_assert(open_queue(&queue, SPN_QUEUE_SYNCHRONOUS, SPN_DEFAULT));
    sim_thread(offer_timed, (void *)1);
    sim_thread(offer_timed, (void *)2);
    for (int i = 0; i < 2; i++) {
        (void)!spn_queue_take_many(queue, some, 2, 0, &taken);
        for (size_t t = 0; t < taken; t++)
            count(some[t]);
    }
    sim_join_all();
    sim_assert(got[1] == 1 && got[2] == 1);
    sim_assert(spn_queue_destroy(queue) == SPN_OK);
}

/* ---- spinning ------------------------------------------------------------------ */

static void wait_to_take(void *arg)
{
    void *item;

    (void)arg;
    sim_assert(spn_queue_take(queue, &item, SPN_FOREVER) == SPN_OK &&
               item == (void *)1);
}

static void wait_to_put(void *arg)
{
    (void)arg;
    sim_assert(spn_queue_put(queue, (void *)1, SPN_FOREVER) == SPN_OK);
}

static void wait_to_transfer(void *arg)
{
    (void)arg;
    sim_assert(spn_queue_transfer(queue, (void *)1, SPN_FOREVER) == SPN_OK);
}

static bool open_spinning(bool transfer, int32_t timed, int32_t untimed)
{
    spn_queue_opts opts = SPN_QUEUE_OPTS_INIT;

    opts.fair = !transfer && sim_choose(2) == 1;
    opts.spins_timed = timed;
    opts.spins_untimed = untimed;
    return spn_queue_create(&queue,
                            transfer ? SPN_QUEUE_TRANSFER : SPN_QUEUE_SYNCHRONOUS,
                            &opts) == SPN_OK;
}

/* Who waits without a limit looks `rounds` times, and then sleeps. */
static void looks_then_sleeps(int32_t untimed, uint64_t rounds)
{
    const bool transfer = sim_choose(2) == 1, puts = sim_choose(2) == 1;
    void (*const waits)(void *) = !puts      ? wait_to_take
                                  : transfer ? wait_to_transfer
                                             : wait_to_put;
    void *item;
    int waiter;

    sim_assert(open_spinning(transfer, 7, untimed));
    waiter = sim_thread(waits, NULL);
    while (sim_sleeps(waiter) == 0)
        spn__cpu_relax(); /* nothing it could see changes */
    sim_assert(sim_pauses(waiter) == rounds);
    if (puts)
        sim_assert(spn_queue_take(queue, &item, SPN_FOREVER) == SPN_OK &&
                   item == (void *)1);
    else
        sim_assert(spn_queue_put(queue, (void *)1, SPN_FOREVER) == SPN_OK);
    sim_join_all();
    sim_assert(sim_pauses(waiter) == rounds); /* woken, it does not look again */
    sim_assert(spn_queue_destroy(queue) == SPN_OK);
}

/* A timed wait looks `rounds` times and then sleeps until its time has come. */
static void looks_then_sleeps_timed(int32_t timed, uint64_t rounds)
{
    const bool transfer = sim_choose(2) == 1, puts = sim_choose(2) == 1;
    const int64_t deadline_ns = sim_now() + SPN_MS(1);
    void *item;
    int rc;

    sim_assert(open_spinning(transfer, timed, 7));
    if (!puts)
        rc = spn_queue_take(queue, &item, SPN_MS(1));
    else if (transfer)
        rc = spn_queue_transfer(queue, (void *)1, SPN_MS(1));
    else
        rc = spn_queue_put(queue, (void *)1, SPN_MS(1));
    sim_assert(rc == SPN_ETIMEDOUT && sim_now() >= deadline_ns);
    sim_assert(sim_pauses(0) == rounds && sim_sleeps(0) >= 1);
    sim_assert(spn_queue_destroy(queue) == SPN_OK);
}

/* By default 512 looks without a limit, and 32 in a timed wait. */
SCENARIO(queue_synchronous__nobody_comes__looks_512_times, "S-3")
{
    looks_then_sleeps(0, 512);
}
SCENARIO(queue_synchronous__nobody_comes_in_time__looks_32_times, "S-3")
{
    looks_then_sleeps_timed(0, 32);
}

/* On one CPU none: whom it waits for could not come meanwhile. */
SCENARIO(queue_synchronous__one_cpu__sleeps_at_once, "S-3")
{
    sim_set_cpus(1);
    if (sim_choose(2) == 1)
        looks_then_sleeps(0, 0);
    else
        looks_then_sleeps_timed(0, 0);
}

/* A creator that is bound to one CPU is not the whole process: once a thread waits
 * on another CPU, all look. */
SCENARIO(queue_synchronous__waiter_on_another_cpu__looks, "S-3")
{
    void *item;
    int waiter;

    sim_set_cpus(1);
    sim_assert(open_spinning(sim_choose(2) == 1, 0, 0));
    sim_set_cpus(2);
    sim_assert(spn_queue_take(queue, &item, SPN_MS(1)) == SPN_ETIMEDOUT);
    sim_assert(sim_pauses(0) == 0); /* on the same CPU: T0 on 0 */
    waiter = sim_thread(wait_to_take, NULL);
    while (sim_sleeps(waiter) == 0)
        spn__cpu_relax();
    sim_assert(sim_pauses(waiter) == 512); /* T1 on 1 */
    sim_assert(spn_queue_put(queue, (void *)1, SPN_FOREVER) == SPN_OK);
    sim_join_all();
    waiter = (int)sim_pauses(0);
    sim_assert(spn_queue_take(queue, &item, SPN_MS(1)) == SPN_ETIMEDOUT);
    sim_assert((int)sim_pauses(0) - waiter == 32);
    sim_assert(spn_queue_destroy(queue) == SPN_OK);
}

/* As often as the options say, also on one CPU; -1 is not at all. */
SCENARIO(queue_synchronous__told_how_often__looks_so_often, "S-3")
{
    const int32_t told = sim_choose(2) == 1 ? 5 : -1;

    sim_set_cpus(sim_choose(2) + 1);
    if (sim_choose(2) == 1)
        looks_then_sleeps(told, told == 5 ? 5 : 0);
    else
        looks_then_sleeps_timed(told, told == 5 ? 5 : 0);
}

/* What has a microsecond or less to go never sleeps, and is not early; a wait of 0
 * does not look at all. */
SCENARIO(queue_synchronous__a_microsecond_left__not_slept, "S-3")
{
    static const int64_t timeouts_ns[] = { 1, 500, 1000 };
    const int64_t timeout_ns = timeouts_ns[sim_choose(3)];
    int64_t deadline_ns;
    void *item;

    sim_assert(open_spinning(sim_choose(2) == 1, -1, -1));
    deadline_ns = sim_now() + timeout_ns;
    sim_assert(spn_queue_take(queue, &item, timeout_ns) == SPN_ETIMEDOUT);
    sim_assert(sim_now() >= deadline_ns && sim_sleeps(0) == 0);
    sim_assert(timeout_ns < 500 || sim_pauses(0) > 0);
    deadline_ns = (int64_t)sim_pauses(0);
    sim_assert(spn_queue_take(queue, &item, 0) == SPN_EEMPTY);
    sim_assert((int64_t)sim_pauses(0) == deadline_ns && sim_sleeps(0) == 0);
    sim_assert(spn_queue_destroy(queue) == SPN_OK);
}

static void interrupt_body(void *thread)
{
    sim_assert(spn_thread_interrupt(thread) == SPN_OK);
}

/* A thread that looks sees an interrupt: it does not look to the end first. */
SCENARIO(queue_synchronous__interrupted_while_looking__leaves, "S-3", "Q-32")
{
    spn_thread *self = spn_thread_current();
    void *item;

    sim_assert(open_spinning(sim_choose(2) == 1, 0, INT32_MAX));
    sim_thread(interrupt_body, self);
    sim_assert(spn_queue_take(queue, &item, SPN_FOREVER) == SPN_EINTR);
    sim_assert(sim_sleeps(0) == 0);
    sim_join_all();
    sim_assert(spn_queue_destroy(queue) == SPN_OK);
}

/* ---- delay ------------------------------------------------------------------------ */

static int64_t due_at(const void *item, void *ctx)
{
    (void)ctx;
    return (int64_t)(intptr_t)item * 100;
}

static bool open_delay(spn_clock *clock)
{
    spn_queue_opts opts = SPN_QUEUE_OPTS_INIT;

    opts.due = due_at;
    opts.clock = clock;
    return spn_queue_create(&queue, SPN_QUEUE_DELAY, &opts) == SPN_OK;
}

static void take_due(void *arg)
{
    void *item;

    (void)arg;
    sim_assert(spn_queue_take(queue, &item, SPN_FOREVER) == SPN_OK);
    sim_assert(spn_clock_now(manual) >= due_at(item, NULL)); /* never early */
    count(item);
}

static void put_earlier(void *item)
{
    sim_assert(spn_queue_put(queue, item, SPN_FOREVER) == SPN_OK);
}

/* Two consumers sleep, an earlier item comes, the clock moves: both are served
 * in time and none early. */
SCENARIO(queue_delay__earlier_item_and_moving_clock__all_served, "DQ-2", "DQ-13",
         "DQ-14")
{
    memset(got, 0, sizeof got);
    sim_assert(spn_clock_create_manual(&manual, 0) == SPN_OK);
    sim_assert(open_delay(manual));
    sim_assert(spn_queue_put(queue, (void *)3, SPN_FOREVER) == SPN_OK);
    sim_thread(take_due, NULL);
    sim_thread(take_due, NULL);
    sim_thread(put_earlier, (void *)1);
    sim_assert(spn_clock_advance(manual, 100) == SPN_OK);
    sim_assert(spn_clock_destroy(manual) == SPN_EBUSY); /* the queue listens */
    sim_assert(spn_clock_advance(manual, 200) == SPN_OK);
    sim_join_all();
    sim_assert(got[1] == 1 && got[3] == 1);
    sim_assert(spn_queue_destroy(queue) == SPN_OK);
    sim_assert(spn_clock_destroy(manual) == SPN_OK);
}

static void take_real(void *arg)
{
    void *item;

    (void)arg;
    sim_assert(spn_queue_take(queue, &item, SPN_FOREVER) == SPN_OK);
    sim_assert(spn__now() >= due_at(item, NULL));
    count(item);
}

/* The same on the monotonic clock: the leader's deadline passes by itself. */
SCENARIO(queue_delay__earlier_item_while_leader_sleeps__all_served, "DQ-6", "DQ-13",
         "DQ-14")
{
    memset(got, 0, sizeof got);
    sim_assert(open_delay(NULL));
    sim_assert(spn_queue_put(queue, (void *)4, SPN_FOREVER) == SPN_OK);
    sim_thread(take_real, NULL);
    sim_thread(take_real, NULL);
    sim_thread(put_earlier, (void *)2);
    sim_join_all();
    sim_assert(got[2] == 1 && got[4] == 1);
    sim_assert(spn_queue_destroy(queue) == SPN_OK);
}

static void remove_head(void *item)
{
    (void)spn_queue_remove_item(queue, item);
}

static void poll_long(void *arg)
{
    void *item;
    const int rc = spn_queue_take(queue, &item, 5000);

    (void)arg;
    sim_assert(rc == SPN_OK || rc == SPN_ETIMEDOUT);
    if (rc == SPN_OK)
        sim_assert(spn__now() >= due_at(item, NULL));
}

/* The head the leader sleeps for is taken out: it is not returned, and the
 * leader does not return early. */
SCENARIO(queue_delay__head_removed_while_leader_sleeps__not_returned, "DQ-16")
{
    sim_assert(open_delay(NULL));
    sim_assert(spn_queue_put(queue, (void *)4, SPN_FOREVER) == SPN_OK);
    sim_thread(poll_long, NULL);
    remove_head((void *)4);
    sim_join_all();
    sim_assert(spn_queue_size(queue) == 0);
    sim_assert(spn_queue_destroy(queue) == SPN_OK);
}

/* ---- delay: a leader, and one who follows ----------------------------------------- */

#define LATER SPN_MS(1)
#define STEPS SPN_US(200) /* what the steps of a scenario take, at most */

struct taker {
    SPN__ATOMIC(spn_thread *) thread;
    int64_t timeout_ns;
    int rc;
};

static int64_t dues[5]; /* of each item */
static struct taker takers[2];

static int64_t due_of(const void *item, void *ctx)
{
    (void)ctx;
    return dues[(uintptr_t)item];
}

/* Item 1 is due later, 2 and 3 later still; some of them are there. */
static void open_led(int items)
{
    spn_queue_opts opts = SPN_QUEUE_OPTS_INIT;

    opts.due = due_of;
    memset(got, 0, sizeof got);
    sim_assert(spn_queue_create(&queue, SPN_QUEUE_DELAY, &opts) == SPN_OK);
    dues[1] = sim_now() + LATER;
    dues[2] = dues[3] = sim_now() + 2 * LATER;
    for (intptr_t i = 1; i <= items; i++)
        sim_assert(spn_queue_put(queue, (void *)i, SPN_FOREVER) == SPN_OK);
}

/* Takes one, when it is due and not later; or has had to leave. */
static void follow_or_lead(void *arg)
{
    struct taker *t = arg;
    void *item;

    spn__store(&t->thread, spn_thread_ref(spn_thread_current()), release);
    if (t->timeout_ns == SPN_FOREVER)
        t->rc = spn_queue_take(queue, &item, SPN_FOREVER);
    else
        t->rc = spn_queue_take(queue, &item, t->timeout_ns);
    if (t->rc == SPN_OK) {
        const int64_t late_ns = sim_now() - due_of(item, NULL);

        sim_assert(late_ns >= 0 && late_ns <= STEPS);
    }
    sim_assert((t->rc == SPN_OK) == (item != NULL));
    sim_assert(spn_thread_interrupted() == 0); /* G-12 */
    count(item);
}

static void start_takers(int64_t timeout_of_the_first_ns)
{
    for (int i = 0; i < 2; i++) {
        spn__init(&takers[i].thread, NULL);
        takers[i].timeout_ns = i == 0 ? timeout_of_the_first_ns : SPN_FOREVER;
        takers[i].rc = 1;
        sim_thread(follow_or_lead, &takers[i]);
    }
    if (sim_choose(2) == 0)
        sim_settle(); /* one leads, one follows */
}

static void interrupt_taker(struct taker *t)
{
    spn_thread *thread;

    while ((thread = spn__load(&t->thread, acquire)) == NULL)
        spn__cpu_relax();
    sim_assert(spn_thread_interrupt(thread) == SPN_OK);
}

static void close_led(void)
{
    sim_join_all();
    for (int i = 0; i < 2; i++)
        spn_thread_unref(spn__load(&takers[i].thread, relaxed));
    sim_assert(spn_queue_size(queue) == 0);
    sim_assert(spn_queue_destroy(queue) == SPN_OK);
}

/* One of two consumers is interrupted, perhaps the one that sleeps until the head is due:
 * the other takes it, and not late. */
SCENARIO(queue_delay__leader_interrupted__follower_is_on_time, "DQ-14", "DQ-7", "G-12")
{
    const unsigned which = sim_choose(2);

    open_led(1);
    start_takers(SPN_FOREVER);
    interrupt_taker(&takers[which]);
    close_led();
    sim_assert(takers[which].rc == SPN_EINTR && takers[1 - which].rc == SPN_OK);
    sim_assert(got[1] == 1);
}
SCENARIO_OPTS(queue_delay__leader_interrupted__follower_is_on_time, .early = SIM_NEVER,
              .dfs = 2, .dfs_models = SIM_SC, .dfs_less = SIM_TSO | SIM_C11,
              .dfs_long = SIM_TSO | SIM_C11,
              .no_faults = "its takers need records to wait")

/* The same with one that gives up before the head is due. */
SCENARIO(queue_delay__leader_gives_up__follower_is_on_time, "DQ-14", "DQ-5")
{
    open_led(1);
    start_takers(LATER / 2);
    close_led();
    sim_assert(takers[0].rc == SPN_ETIMEDOUT && takers[1].rc == SPN_OK);
    sim_assert(got[1] == 1);
}
SCENARIO_OPTS(queue_delay__leader_gives_up__follower_is_on_time, .early = SIM_NEVER)

/* The head is taken out while one sleeps for it and another follows; the next ones, which
 * are there or come now, are taken by both, and not late. */
SCENARIO(queue_delay__head_removed__leader_and_follower_on_time, "DQ-16", "DQ-14",
         "DQ-15")
{
    const bool there = sim_choose(2) == 0;

    open_led(there ? 3 : 1);
    start_takers(SPN_FOREVER);
    sim_assert(spn_queue_remove_item(queue, (void *)1) == SPN_OK);
    if (!there) {
        sim_thread(put_earlier, (void *)2);
        sim_thread(put_earlier, (void *)3);
    }
    close_led();
    sim_assert(takers[0].rc == SPN_OK && takers[1].rc == SPN_OK);
    sim_assert(got[1] == 0 && got[2] == 1 && got[3] == 1);
}
SCENARIO_OPTS(queue_delay__head_removed__leader_and_follower_on_time,
              .early = SIM_NEVER)

static void remove_first(void *arg)
{
    (void)arg;
    sim_assert(spn_queue_remove_item(queue, (void *)1) == SPN_OK);
}

/* Both at once: the head goes, and one of the two that wait is interrupted. */
SCENARIO(queue_delay__head_removed_leader_interrupted__follower_is_on_time, "DQ-14",
         "DQ-16", "G-12")
{
    const unsigned which = sim_choose(2);

    open_led(2);
    start_takers(SPN_FOREVER);
    sim_thread(remove_first, NULL);
    interrupt_taker(&takers[which]);
    close_led();
    sim_assert(takers[which].rc == SPN_EINTR && takers[1 - which].rc == SPN_OK);
    sim_assert(got[1] == 0 && got[2] == 1);
}
SCENARIO_OPTS(queue_delay__head_removed_leader_interrupted__follower_is_on_time,
              .early = SIM_NEVER, .no_faults = "its takers need records to wait")
