/* SPDX-License-Identifier: MIT */
/*
 * test_planted.c - the explorer against bugs that are known to be there.
 *
 * Every row names a mistake, the model and strategy that must find it, and how
 * many schedules it may take from seed 1: a bug that is not found is a failure
 * of this test.  The same scenario without the mistake must be clean under
 * every model and strategy.  Some mistakes are invisible to a model, and then
 * complete enumeration must say so: that they need the weaker one is the point.
 *
 * Lifetimes and plain data are the sanitizers' part.  In their builds this
 * program runs itself as a child with such a mistake and expects the report.
 */
#include "subjects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fiber.h" /* __SANITIZE_ADDRESS__ by either compiler */
#include "selftest.h"
#include "sim.h"

static int bug;

/* ---- scenarios --------------------------------------------------------------------- */

static struct parker parker;
static SPN__ATOMIC(int) payload;

static void unparks(void *arg)
{
    (void)arg;
    spn__store(&payload, 7, relaxed);
    parker_unpark(&parker);
}

static void park_gets_payload(void)
{
    parker_init(&parker, bug);
    spn__init(&payload, 0);
    sim_thread(unparks, NULL);
    sim_assert(parker_park(&parker, SPN_FOREVER));
    sim_assert(spn__load(&payload, relaxed) == 7);
    sim_join_all();
}

/* A permit is taken or still there; a time-out does not eat it. */
static void park_keeps_permit(void)
{
    bool got;

    parker_init(&parker, bug);
    spn__init(&payload, 0);
    sim_thread(unparks, NULL);
    got = parker_park(&parker, spn__now() + 300);
    sim_join_all();
    sim_assert(got || spn__load(&parker.state, relaxed) == PERMIT);
}

static struct lock locks[2];

static void increments(void *arg)
{
    (void)arg;
    lock_take(&locks[0]);
    /* Two accesses, so that only the lock makes them one. */
    spn__store(&payload, spn__load(&payload, relaxed) + 1, relaxed);
    lock_drop(&locks[0]);
}

static void lock_excludes(void)
{
    lock_init(&locks[0], bug);
    spn__init(&payload, 0);
    for (int i = 0; i < 3; i++)
        sim_thread(increments, NULL);
    sim_join_all();
    sim_assert(spn__load(&payload, relaxed) == 3);
}

static void takes_both(void *arg)
{
    const int first = bug != 0 && arg != NULL ? 1 : 0;

    lock_take(&locks[first]);
    lock_take(&locks[1 - first]);
    lock_drop(&locks[1 - first]);
    lock_drop(&locks[first]);
}

static void locks_in_order(void)
{
    lock_init(&locks[0], LOCK_OK);
    lock_init(&locks[1], LOCK_OK);
    sim_thread(takes_both, NULL);
    sim_thread(takes_both, &locks[1]);
    sim_join_all();
}

static struct queue queue;
static SPN__ATOMIC(int) seen[16];

static void see_nothing(void)
{
    for (int i = 0; i < 16; i++)
        spn__init(&seen[i], 0);
}

/* True the first time. */
static bool see(int item)
{
    return spn__fetch_add(&seen[item], 1, relaxed) == 0;
}

static int times(int item)
{
    return spn__load(&seen[item], relaxed);
}

static void takes(void *arg)
{
    int item;

    (void)arg;
    if (queue_take(&queue, &item, SPN_FOREVER))
        (void)see(item);
}

static void puts_item(void *arg)
{
    queue_put(&queue, (int)(intptr_t)arg);
}

static void queue_delivers(void)
{
    see_nothing();
    queue_init(&queue, bug);
    sim_thread(takes, NULL);
    sim_thread(takes, NULL);
    sim_thread(puts_item, (void *)1);
    sim_thread(puts_item, (void *)2);
    sim_join_all();
    sim_assert(times(1) == 1 && times(2) == 1);
}

static void takes_timed(void *arg)
{
    int item;

    (void)arg;
    if (queue_take(&queue, &item, spn__now() + SPN_US(1))) {
        (void)see(item);
        queue_put(&queue, 2); /* for the one who waits without limit */
    }
}

/* One item for two takers: whoever gives up must not take the wake-up along. */
static void queue_timeout_passes_on(void)
{
    see_nothing();
    queue_init(&queue, bug);
    sim_thread(takes_timed, NULL);
    sim_thread(takes, NULL);
    sim_thread(puts_item, (void *)1);
    sim_join_all();
    sim_assert(times(1) == 1);
}

static struct handoff handoff;

static void submits(void *arg)
{
    (void)arg;
    spn__store(&payload, 7, relaxed);
    handoff_submit(&handoff);
}

static void handoff_wakes(void)
{
    handoff_init(&handoff, bug);
    spn__init(&payload, 0);
    sim_thread(submits, NULL);
    handoff_await(&handoff);
    sim_assert(spn__load(&payload, relaxed) == 7);
    sim_join_all();
}

static struct deque deque;

static void note(int item)
{
    sim_assert(item >= DEQUE_LOST && item <= 6);
    if (item > 0)
        sim_assert(see(item));
}

static void steals(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++)
        note(deque_steal(&deque));
}

static void owns(void *arg)
{
    int item = 1;

    (void)arg;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 3; i++)
            if (deque_push(&deque, item))
                item++;
        note(deque_pop(&deque));
        note(deque_pop(&deque));
    }
    while (item <= 6 && deque_push(&deque, item))
        item++;
}

static void deque_once_each(void)
{
    int item;

    see_nothing();
    deque_init(&deque, bug);
    sim_thread(owns, NULL);
    sim_thread(steals, NULL);
    sim_thread(steals, NULL);
    sim_join_all();
    while ((item = deque_pop(&deque)) != DEQUE_EMPTY)
        note(item);
    for (item = 1; item <= 6; item++)
        sim_assert(times(item) == 1);
}

static struct stack stack;

static void pops_one(void *arg)
{
    const uint32_t node = stack_pop(&stack);

    (void)arg;
    if (node != 0)
        sim_assert(see((int)node));
}

static void pops_two_gives_one_back(void *arg)
{
    const uint32_t first = stack_pop(&stack), second = stack_pop(&stack);

    (void)arg;
    if (second != 0)
        sim_assert(see((int)second));
    if (first != 0)
        stack_push(&stack, first);
}

static void stack_once_each(void)
{
    uint32_t node;

    see_nothing();
    stack_init(&stack, bug);
    stack_push(&stack, 3);
    stack_push(&stack, 2);
    stack_push(&stack, 1);
    sim_thread(pops_one, NULL);
    sim_thread(pops_two_gives_one_back, NULL);
    sim_join_all();
    while ((node = stack_pop(&stack)) != 0)
        sim_assert(see((int)node));
    for (node = 1; node <= STACK_NODES; node++)
        sim_assert(times((int)node) == 1);
}

static struct pool pool;

/* Submissions are spread over the keep-alive; each accepted one runs. */
static void pool_runs_all(void)
{
    int accepted = 0;

    pool_init(&pool, bug, SPN_US(1));
    for (int i = 0; i < 3; i++) {
        accepted += pool_submit(&pool);
        sim_sleep(600 + 150 * (int64_t)sim_choose(6));
    }
    for (int i = 0; i < pool.started; i++)
        spn__os_thread_join(pool.threads[i]);
    sim_assert(pool.ran == accepted);
}

static void pair_undone(void)
{
    pair_destroy(pair_create(bug));
}

static void drops(void *arg)
{
    counted_use_and_drop(arg, bug);
}

static void counted_freed_after_use(void)
{
    struct counted *c = spn__alloc(sizeof *c);

    spn__init(&c->references, 2);
    spn__init(&c->value, 0);
    sim_thread(drops, c);
    drops(c);
    sim_join_all();
}

struct message {
    SPN__ATOMIC(int) text;
};
static SPN__ATOMIC(struct message *) mailbox;

static void sends(void *arg)
{
    struct message *m = arg;

    spn__init(&m->text, 7);
    if (bug != 0)
        spn__store(&mailbox, m, relaxed);
    else
        spn__store(&mailbox, m, release);
}

static void publication(void)
{
    struct message *m = spn__alloc(sizeof *m), *received;

    spn__init(&mailbox, NULL);
    sim_assert(m != NULL);
    sim_thread(sends, m);
    received = spn__load(&mailbox, acquire);
    if (received != NULL)
        sim_assert(spn__load(&received->text, relaxed) == 7);
    sim_join_all();
    spn__free(m);
}

static SPN__ATOMIC(int) stopping;

static void works_until_stopped(void *arg)
{
    (void)arg;
    if (bug != 0)
        spn__store(&stopping, 0, relaxed); /* belongs before the thread's start */
    while (spn__load(&stopping, relaxed) == 0)
        spn__cpu_relax();
}

static void stop_is_seen(void)
{
    spn__init(&stopping, 0);
    sim_thread(works_until_stopped, NULL);
    spn__store(&stopping, 1, relaxed);
    sim_join_all();
}

/* ---- the table ------------------------------------------------------------------------- */

#define RANDOM SIM_RANDOM, 0
#define PCT(d) SIM_PCT, d
#define SWEEP  SIM_DFS, -1 /* fail every allocation in turn */

static const struct row {
    const char *name;
    void (*body)(void);
    int bug;
    enum sim_model model;
    enum sim_strategy strategy;
    int depth;
    uint64_t budget; /* schedules, several times what it takes */
    enum sim_kind kind;
} rows[] = {
    { "parker: time-out drops the permit", park_keeps_permit, PARKER_DROPS_PERMIT,
      SIM_SC, RANDOM, 2000, SIM_ASSERTION },
    { "parker: a spurious wake counts as a permit", park_gets_payload, PARKER_NO_LOOP,
      SIM_SC, RANDOM, 30000, SIM_ASSERTION },
    { "parker: park does not acquire", park_gets_payload, PARKER_RELAXED, SIM_C11,
      RANDOM, 500, SIM_ASSERTION },
    { "lock: a sleeper takes it as if alone", lock_excludes, LOCK_SLEEPER_TAKES_AS_1,
      SIM_SC, RANDOM, 2000, SIM_DEADLOCK },
    { "lock: unlock does not release", lock_excludes, LOCK_RELAXED_UNLOCK, SIM_C11,
      RANDOM, 500, SIM_ASSERTION },
    { "locks: taken in opposite order", locks_in_order, 1, SIM_SC, PCT(2), 1000,
      SIM_DEADLOCK },
    { "queue: no re-check before sleeping", queue_delivers, QUEUE_NO_RECHECK, SIM_SC,
      RANDOM, 500, SIM_DEADLOCK },
    { "queue: wakes on empty to non-empty only", queue_delivers, QUEUE_EDGE_ONLY,
      SIM_SC, PCT(3), 1000, SIM_DEADLOCK },
    { "queue: a time-out eats a wake-up", queue_timeout_passes_on, QUEUE_TIMEOUT_EATS,
      SIM_SC, RANDOM, 5000, SIM_DEADLOCK },
    { "hand-off: fence missing, TSO", handoff_wakes, HANDOFF_NO_FENCE, SIM_TSO, RANDOM,
      2000, SIM_DEADLOCK },
    { "hand-off: fence missing, C11", handoff_wakes, HANDOFF_NO_FENCE, SIM_C11, RANDOM,
      500, SIM_DEADLOCK },
    { "hand-off: both fences light, TSO", handoff_wakes, HANDOFF_BOTH_LIGHT, SIM_TSO,
      RANDOM, 2000, SIM_DEADLOCK },
    { "hand-off: both fences light, C11", handoff_wakes, HANDOFF_BOTH_LIGHT, SIM_C11,
      RANDOM, 500, SIM_DEADLOCK },
    { "deque: pop of the last one without CAS", deque_once_each, DEQUE_POP_NO_CAS,
      SIM_SC, RANDOM, 2000, SIM_ASSERTION },
    { "deque: pop without fence, TSO", deque_once_each, DEQUE_POP_NO_FENCE, SIM_TSO,
      RANDOM, 5000, SIM_ASSERTION },
    { "deque: pop without fence, C11", deque_once_each, DEQUE_POP_NO_FENCE, SIM_C11,
      RANDOM, 500, SIM_ASSERTION },
    { "deque: steal reads the slot after its CAS", deque_once_each,
      DEQUE_STEAL_READS_LATE, SIM_SC, PCT(4), 20000, SIM_ASSERTION },
    { "deque: push does not release, PSO", deque_once_each, DEQUE_PUSH_RELAXED, SIM_PSO,
      RANDOM, 2000, SIM_ASSERTION },
    { "deque: push does not release, C11", deque_once_each, DEQUE_PUSH_RELAXED, SIM_C11,
      RANDOM, 500, SIM_ASSERTION },
    { "deque: pop does not release", deque_once_each, DEQUE_POP_RELAXED, SIM_C11,
      RANDOM, 2000, SIM_ASSERTION },
    { "deque: steal does not acquire", deque_once_each, DEQUE_STEAL_RELAXED, SIM_C11,
      RANDOM, 500, SIM_ASSERTION },
    { "stack: ABA", stack_once_each, STACK_ABA, SIM_SC, RANDOM, 20000, SIM_ASSERTION },
    { "pool: an idle worker leaves work behind", pool_runs_all, POOL_LEAVES_WORK,
      SIM_SC, RANDOM, 5000, SIM_ASSERTION },
    { "publication by a relaxed store", publication, 1, SIM_C11, RANDOM, 500,
      SIM_ASSERTION },
    { "reference dropped without release", counted_freed_after_use, COUNTED_NO_RELEASE,
      SIM_C11, RANDOM, 500, SIM_ASSERTION },
    { "last reference dropped without acquire", counted_freed_after_use,
      COUNTED_NO_ACQUIRE, SIM_C11, RANDOM, 500, SIM_ASSERTION },
    { "stop flag cleared too late", stop_is_seen, 1, SIM_SC, RANDOM, 500,
      SIM_LIVELOCK },
    { "pair: leaks when the second allocation fails", pair_undone, PAIR_LEAKS, SIM_SC,
      SWEEP, 0, SIM_LEAK },
#ifndef __SANITIZE_ADDRESS__ /* it would see that first */
    { "pair: frees twice when the first fails", pair_undone, PAIR_FREES_TWICE, SIM_SC,
      SWEEP, 0, SIM_ASSERTION },
#endif
};

/* Under these models complete enumeration, within two preemptions, finds nothing. */
static const struct {
    const char *name;
    void (*body)(void);
    int bug;
    enum sim_model model;
} invisible[] = {
    { "parker: park does not acquire", park_gets_payload, PARKER_RELAXED, SIM_PSO },
    { "hand-off: fence missing", handoff_wakes, HANDOFF_NO_FENCE, SIM_SC },
    { "hand-off: both fences light", handoff_wakes, HANDOFF_BOTH_LIGHT, SIM_SC },
    { "publication by a relaxed store", publication, 1, SIM_TSO },
};

#if defined(__SANITIZE_ADDRESS__) || SPN__TSAN
enum { CLEAN_SCHEDULES = 1000 };
#else
enum { CLEAN_SCHEDULES = 10000 };
#endif

static const enum sim_model models[] = { SIM_SC, SIM_TSO, SIM_PSO, SIM_C11 };

static void find(const struct row *row)
{
    const struct sim_scenario scenario = { .name = row->name, .body = row->body };
    const struct sim_config config = { .model = row->model,
                                       .strategy = row->strategy,
                                       .depth = row->depth,
                                       .schedules = row->budget,
                                       .seed = 1,
                                       .quiet = true };
    struct sim_result r;

    if ((sim_models() & row->model) == 0)
        return;
    bug = row->bug;
    r = row->strategy == SIM_DFS ? sim_sweep_faults(&scenario, row->model, true)
                                 : sim_explore(&scenario, &config);
    selftest(r.failures != 0 && r.kind == row->kind, "%s: not found in %llu schedules",
             row->name, (unsigned long long)r.schedules);
    (void)printf("%-46s %-3s found at schedule %llu: %s\n", row->name,
                 sim_model_name(row->model), (unsigned long long)r.first, r.message);
}

static void find_nothing(const char *name, void (*body)(void), int which,
                         const struct sim_config *config)
{
    const struct sim_scenario scenario = { .name = name, .body = body };
    struct sim_result r;

    if ((sim_models() & config->model) == 0)
        return;
    bug = which;
    r = sim_explore(&scenario, config);
    selftest(r.failures == 0 && (config->strategy != SIM_DFS || r.complete),
             "%s, %s: %s", name, sim_model_name(config->model),
             r.failures == 0 ? "not complete" : r.message);
}

/* The same scenario in its correct form, once per scenario. */
static void find_nothing_in_twin(const struct row *row)
{
    static const int right[][2] = { { 0, 0 }, { HANDOFF_ASYMMETRIC, 1 } };
    char name[100];

    for (const struct row *earlier = rows; earlier < row; earlier++)
        if (earlier->body == row->body)
            return;
    (void)snprintf(name, sizeof name, "%s, correct", row->name);
    for (unsigned i = 0; i < 2; i++) {
        if (right[i][1] != 0 && row->body != handoff_wakes)
            continue;
        for (unsigned k = 0; k < 4 * 3; k++) {
            const struct sim_config config = { .model = models[k / 3],
                                               .strategy =
                                                   k % 3 == 0 ? SIM_RANDOM : SIM_PCT,
                                               .depth = 1 + (int)(k % 3),
                                               .schedules = CLEAN_SCHEDULES };
            find_nothing(name, row->body, right[i][0], &config);
        }
    }
    if (row->strategy == SIM_DFS) {
        const struct sim_scenario scenario = { .name = row->name, .body = row->body };

        bug = 0;
        selftest(sim_sweep_faults(&scenario, SIM_SC, false).failures == 0, "%s, faults",
                 name);
    }
}

/* ---- with sanitizers ---------------------------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__) || SPN__TSAN
/* A future whose getter frees it as soon as it is done. */
struct future {
    struct parker parker;
    SPN__ATOMIC(uint32_t) done, references;
    int value; /* plain: published by done */
};

static void drop(struct future *f)
{
    if (spn__fetch_sub(&f->references, 1, acq_rel) == 1)
        spn__free(f);
}

static void completes(void *arg)
{
    struct future *f = arg;

    f->value = 7;
    if (bug == 2)
        spn__store(&f->done, 1, relaxed);
    else
        spn__store(&f->done, 1, release);
    parker_unpark(&f->parker); /* bug 1: it may be gone by now */
    if (bug != 1)
        drop(f);
}

static void future_lives(void)
{
    struct future *f = spn__alloc(sizeof *f);

    parker_init(&f->parker, PARKER_OK);
    spn__init(&f->done, 0);
    spn__init(&f->references, 2);
    sim_thread(completes, f);
    while (spn__load(&f->done, acquire) == 0)
        (void)parker_park(&f->parker, SPN_FOREVER);
    sim_assert(f->value == 7);
    if (bug == 1)
        spn__free(f);
    else
        drop(f);
    sim_join_all();
}

static int child(int which)
{
    const struct sim_scenario scenario = { .name = "future", .body = future_lives };
    const struct sim_config config = { .model = SIM_SC, .schedules = 3000 };

    bug = which;
    return sim_explore(&scenario, &config).failures != 0 ? 3 : 0;
}

/* Runs this program with the mistake; the text must be in what it says. */
static void expect_report(const char *program, int which, const char *text)
{
    char command[512], output[65536];
    size_t length;
    FILE *pipe;
    int status;

    (void)snprintf(command, sizeof command, "%s --child %d 2>&1", program, which);
    pipe = popen(command, "r");
    length = pipe != NULL ? fread(output, 1, sizeof output - 1, pipe) : 0;
    output[length] = '\0';
    while (pipe != NULL && fgetc(pipe) != EOF)
        ; /* the rest, so that the child can end */
    status = pipe != NULL ? pclose(pipe) : -1;
    if (text == NULL)
        selftest(status == 0, "future, correct: %s", output);
    else
        selftest(status != 0 && strstr(output, text) != NULL &&
                     strstr(output, "replay: ") != NULL,
                 "future, mistake %d: no report of %s", which, text);
}
#endif

int main(int argc, char **argv)
{
    const size_t count = sizeof rows / sizeof *rows;

#if defined(__SANITIZE_ADDRESS__) || SPN__TSAN
    if (argc == 3 && strcmp(argv[1], "--child") == 0)
        return child(atoi(argv[2]));
    expect_report(argv[0], 0, NULL);
#if SPN__TSAN
    expect_report(argv[0], 1, "ThreadSanitizer");
    expect_report(argv[0], 2, "data race");
#else
    expect_report(argv[0], 1, "heap-use-after-free");
#endif
#else
    (void)argc;
    (void)argv;
#endif
    for (size_t i = 0; i < count; i++)
        find(&rows[i]);
    for (size_t i = 0; i < sizeof invisible / sizeof *invisible; i++) {
        const struct sim_config config = { .model = invisible[i].model,
                                           .strategy = SIM_DFS,
                                           .bound = 2 };
        find_nothing(invisible[i].name, invisible[i].body, invisible[i].bug, &config);
    }
    for (size_t i = 0; i < count; i++)
        find_nothing_in_twin(&rows[i]);
    return selftest_end();
}
