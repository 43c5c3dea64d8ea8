/* SPDX-License-Identifier: MIT */
/*
 * test_engine.c - what the explorer promises apart from memory models: the same
 * seed is the same schedule in every process, DFS counts are exact, time is
 * virtual and never early, and each way to fail is told as what it is.
 *
 * With arguments this is an ordinary scenario program: the tests run it as a
 * child to replay what it reported.
 */
#include "sync/seam.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "selftest.h"
#include "sim.h"

static SPN__ATOMIC(uint32_t) cells[3];
static spn__futex_word word;
static SPN__ATOMIC(int) counter;

static void reset(void)
{
    for (int i = 0; i < 3; i++)
        spn__init(&cells[i], 0);
    spn__init(&word, 0);
    spn__init(&counter, 0);
}

static int count(void)
{
    return spn__load(&counter, seq_cst);
}

static void stores_twice(void *cell)
{
    spn__store(&cells[(intptr_t)cell], 1, relaxed);
    spn__store(&cells[(intptr_t)cell], 2, relaxed);
}

/* Two threads of two steps: 2, 4 and 6 schedules within 0, 1 and 2 preemptions
 * (AABB BBAA; ABBA BAAB; ABAB BABA), and then no more. */
SCENARIO(two_by_two, "SIM")
{
    reset();
    sim_thread(stores_twice, (void *)0);
    sim_thread(stores_twice, (void *)1);
    sim_join_all();
}

static void stores_once(void *arg)
{
    (void)arg;
    spn__store(&cells[0], 1, relaxed);
}

/* Read before the store, or after it the new or (not in SC) the old value. */
SCENARIO(one_store_one_load, "SIM")
{
    reset();
    sim_thread(stores_once, NULL);
    (void)spn__load(&cells[0], relaxed);
    sim_join_all();
}

SCENARIO(weak_cas_loop, "SIM")
{
    uint32_t old = 0;

    reset();
    while (!spn__cas_weak(&cells[0], &old, 1, relaxed, relaxed))
        ;
    sim_assert(spn__load(&cells[0], relaxed) == 1);
}

SCENARIO(body_chooses, "SIM")
{
    reset();
    sim_outcome(sim_choose(3) * 2 + sim_choose(2));
}

static void wakes(void *arg)
{
    (void)arg;
    spn__store(&word, 1, release);
    spn__futex_wake(&word, 1);
}

static void waits(void *arg)
{
    (void)arg;
    while (spn__load(&word, acquire) == 0)
        (void)spn__futex_wait(&word, 0, SPN_FOREVER);
}

/* One wake for two sleepers: a lost wake-up, sometimes. */
SCENARIO(one_wake_for_two, "SIM")
{
    reset();
    sim_thread(waits, NULL);
    sim_thread(waits, NULL);
    sim_thread(wakes, NULL);
    sim_join_all();
}

SCENARIO(year_long_wait, "SIM")
{
    const int64_t year = SPN_SEC(INT64_C(365) * 24 * 3600), begin = spn__now();

    reset();
    while (spn__futex_wait(&word, 0, begin + year) != SPN__EXPIRED)
        ;
    sim_assert(spn__now() >= begin + year); /* never early */
    sim_assert(spn__futex_wait(&word, 0, begin) == SPN__EXPIRED);
    sim_assert(spn__futex_wait(&word, 1, begin) == SPN__CHANGED);
}

static void sleeps(void *ns)
{
    const int64_t begin = sim_now();

    sim_sleep((intptr_t)ns);
    sim_assert(sim_now() - begin >= (intptr_t)ns);
    spn__store(&counter, count() * 10 + (int)((intptr_t)ns / 1000), seq_cst);
}

SCENARIO(sleepers_wake_in_order, "SIM")
{
    reset();
    sim_thread(sleeps, (void *)3000);
    sim_thread(sleeps, (void *)1000);
    sim_thread(sleeps, (void *)2000);
    sim_join_all();
    sim_assert(count() == 123);
}
SCENARIO_OPTS(sleepers_wake_in_order, .early = SIM_NEVER)

SCENARIO(settle_waits_for_all, "SIM")
{
    reset();
    sim_thread(waits, NULL);
    sim_thread(sleeps, (void *)1000);
    sim_settle(); /* the sleeper sleeps still, the waiter is in the futex */
    sim_assert(count() == 0 || sim_now() >= SPN_SEC(1) + 1000);
    spn__store(&word, 1, release);
    spn__futex_wake(&word, 1);
    sim_join_all();
}
SCENARIO_OPTS(settle_waits_for_all, .dfs = 2)

/* To ThreadSanitizer all fibers write the one errno of their OS thread. */
__attribute__((no_sanitize("thread"))) static void sets_errno(void *value)
{
    errno = (int)(intptr_t)value;
    for (int i = 0; i < 3; i++) {
        (void)spn__load(&cells[0], relaxed);
        sim_assert(errno == (int)(intptr_t)value);
    }
}

SCENARIO(errno_is_per_thread, "SIM")
{
    reset();
    sim_thread(sets_errno, (void *)1);
    sim_thread(sets_errno, (void *)2);
    sim_join_all();
}

static int mutant_line = 1; /* of the first release store, once it was reached */

static void publishes(void *arg)
{
    (void)arg;
    spn__store(&cells[0], 7, relaxed);
    mutant_line = __LINE__ + 1;
    spn__store(&cells[1], 1, release);
    spn__store(&cells[2], 1, release); /* stronger than need be: nobody acquires it */
}

/* For the mutants: one order that matters and one that does not. */
SCENARIO(publication, "SIM")
{
    reset();
    sim_thread(publishes, NULL);
    if (spn__load(&cells[1], acquire) == 1)
        sim_assert(spn__load(&cells[0], relaxed) == 7);
    (void)spn__load(&cells[2], relaxed);
    sim_join_all();
}

/* ---- threads, as the seam has them -------------------------------------------------- */

static void destroys(void *self)
{
    (void)spn__fetch_add(&counter, 1, relaxed);
    sim_assert(spn__self_get() == NULL);
    (void)spn__self_set(self, destroys); /* for ever, if it were up to us */
}

static void *sets_self(void *arg)
{
    sim_assert(spn__self_get() == NULL);
    sim_assert(spn__self_set(arg, destroys));
    sim_assert(spn__self_get() == arg);
    return NULL;
}

static const struct spn__os_thread_attr no_attr = { .block_signals = true };

SCENARIO(self_destructor_runs_four_rounds, "SIM")
{
    spn__os_thread thread;

    reset();
    if (spn__os_thread_create(&thread, &no_attr, sets_self, &counter) != SPN_OK)
        return;
    spn__os_thread_join(thread);
    sim_assert(count() == 4);
    sim_assert(spn__self_get() == NULL);
}

static void counts(void *arg)
{
    (void)spn__fetch_add(&counter, (int)(intptr_t)arg, relaxed);
}

static void *exits(void *arg)
{
    (void)arg;
    SPN__CLEANUP_PUSH(counts, (void *)1)
    SPN__CLEANUP_PUSH(counts, (void *)10)
    sim_exit();
    SPN__CLEANUP_POP()
    SPN__CLEANUP_POP()
    return NULL;
}

SCENARIO(exit_runs_cleanups, "SIM")
{
    spn__os_thread thread;

    reset();
    if (spn__os_thread_create(&thread, &no_attr, exits, NULL) != SPN_OK)
        return;
    spn__os_thread_join(thread);
    SPN__CLEANUP_PUSH(counts, (void *)100)
    SPN__CLEANUP_POP()
    sim_assert(count() == 111);
}

static void *returns(void *arg)
{
    return arg;
}

SCENARIO(never_joined, "SIM")
{
    spn__os_thread thread;

    (void)spn__os_thread_create(&thread, &no_attr, returns, NULL);
}

SCENARIO(detached, "SIM")
{
    spn__os_thread thread;

    if (spn__os_thread_create(&thread, &no_attr, returns, NULL) == SPN_OK)
        spn__os_thread_detach(thread);
}

SCENARIO(joined_twice, "SIM")
{
    spn__os_thread thread;

    if (spn__os_thread_create(&thread, &no_attr, returns, NULL) != SPN_OK)
        return;
    spn__os_thread_join(thread);
    spn__os_thread_join(thread);
}

SCENARIO(leaves_memory, "SIM")
{
    (void)spn__alloc(10);
}

SCENARIO(sleeps_for_ever, "SIM")
{
    reset();
    waits(NULL);
}

SCENARIO(spins_for_ever, "SIM")
{
    reset();
    while (spn__load(&word, relaxed) == 0)
        spn__cpu_relax();
}
SCENARIO_OPTS(spins_for_ever, .max_steps = 500)

static void spins(void *arg)
{
    (void)arg;
    while (spn__load(&word, relaxed) == 0)
        spn__cpu_relax();
}

/* Two spin while one works: DFS must not follow the spinners for ever. */
SCENARIO(spinners_let_others_work, "SIM")
{
    reset();
    sim_thread(spins, NULL);
    sim_thread(spins, NULL);
    sim_thread(wakes, NULL);
    sim_join_all();
}
SCENARIO_OPTS(spinners_let_others_work, .dfs = 1)

/* A static that no schedule decides: the second schedule has other choices. */
SCENARIO(depends_on_history, "SIM")
{
    static unsigned runs;

    (void)sim_choose(2 + runs++ % 2);
    (void)sim_choose(2);
}

/* ---- faults -------------------------------------------------------------------------- */

/* What it has a right to: the explorer that is lenient lets it give up. */
SCENARIO(counts_on_memory, "SIM")
{
    void *first = spn__alloc(10), *second;

    sim_assert(first != NULL);
    second = spn__alloc(20);
    sim_assert(second != NULL);
    spn__free(first);
    spn__free(second);
}

/* Not so if it fails for another reason, or goes on and leaves something. */
SCENARIO(loses_its_temper, "SIM")
{
    void *first = spn__alloc(10), *second = spn__alloc(20);

    spn__free(second);
    if (second != NULL)
        spn__free(first);
}

SCENARIO(counts_faults, "SIM")
{
    spn__os_thread thread;
    void *first = spn__alloc(10), *second = spn__alloc(20);

    sim_outcome((first == NULL ? 1u : 0u) + (second == NULL ? 2u : 0u));
    spn__free(first);
    spn__free(second);
    if (spn__os_thread_create(&thread, &no_attr, returns, NULL) == SPN_OK)
        spn__os_thread_join(thread);
    else
        sim_outcome(8);
}

/* ---- run to block ---------------------------------------------------------------------- */

static SPN__ATOMIC(uint64_t) turns; /* the numbers of threads, a digit each */

static void note_turn(void)
{
    spn__store(&turns, spn__load(&turns, relaxed) * 10 + (uint64_t)sim_self(), relaxed);
}

static void takes_turns(void *arg)
{
    (void)arg;
    note_turn();
    note_turn();
    spn__cpu_relax();
    note_turn();
    sim_sleep(1000);
    note_turn();
}

SCENARIO(turns_are_taken, "SIM")
{
    spn__init(&turns, 0);
    for (int i = 0; i < 3; i++)
        sim_thread(takes_turns, NULL);
    sim_join_all();
}

static struct sim_counts counted;

/* Two of everything that is counted, and three of some. */
SCENARIO(counts_events, "SIM")
{
    uint32_t expected = 0;
    void *memory[2];
    int fd;

    reset();
    for (int i = 0; i < 2; i++)
        sim_thread(waits, NULL);
    sim_settle(); /* both sleep */
    (void)spn__fetch_add(&cells[0], 1, relaxed);
    (void)spn__exchange(&cells[0], 0, relaxed);
    (void)spn__cas(&cells[0], &expected, 7, relaxed, relaxed);
    (void)spn__cas_weak(&cells[0], &expected, 8, relaxed, relaxed); /* finds 7 */
    spn__store(&cells[1], 1, seq_cst);
    spn__store(&cells[1], 1, release); /* no fence */
    spn__fence(seq_cst);
    spn__fence_light();
    spn__fence_light();
    spn__fence_light();
    spn__fence_heavy();
    spn__fence_heavy();
    memory[0] = spn__alloc(10);
    memory[1] = spn__alloc(20);
    spn__free(memory[0]);
    spn__free(memory[1]);
    spn__cpu_relax(); /* stays out of the kernel */
    spn__os_yield();
    (void)spn__futex_wait(&word, 1, SPN_FOREVER);    /* it is 0: returns at once */
    sim_assert(spn__os_event_create(&fd) == SPN_OK); /* has a block of memory */
    spn__os_event_signal(fd);
    spn__os_event_clear(fd);
    spn__os_event_close(fd);
    spn__store(&word, 1, release);
    spn__futex_wake(&word, 2);
    spn__futex_wake(&word, 2); /* nobody sleeps */
    spn__futex_wake(&word, 2);
    sim_join_all();
    counted = sim_counts();
}

/* ---- the tests -------------------------------------------------------------------------- */

static struct sim_scenario *named(const char *name)
{
    struct sim_scenario *s = sim_scenarios();

    while (s != NULL && strcmp(s->name, name) != 0)
        s = s->next;
    if (s == NULL) {
        (void)fprintf(stderr, "no scenario %s\n", name);
        exit(2);
    }
    return s;
}

static struct sim_result dfs(const char *name, enum sim_model model, int bound)
{
    const struct sim_config c = {
        .model = model, .strategy = SIM_DFS, .bound = bound, .quiet = true
    };

    return sim_explore(named(name), &c);
}

static void expect_count(const char *name, enum sim_model model, int bound,
                         uint64_t schedules)
{
    const struct sim_result r = dfs(name, model, bound);

    if ((sim_models() & model) == 0)
        return;
    selftest(r.complete && r.failures == 0 && r.schedules == schedules,
             "%s, %s, bound %d: %llu schedules instead of %llu%s", name,
             sim_model_name(model), bound, (unsigned long long)r.schedules,
             (unsigned long long)schedules, r.complete ? "" : ", incomplete");
}

static void test_counts(void)
{
    expect_count("two_by_two", SIM_SC, 0, 2);
    expect_count("two_by_two", SIM_SC, 1, 4);
    expect_count("two_by_two", SIM_SC, 2, 6);
    expect_count("two_by_two", SIM_SC, SIM_UNBOUNDED, 6);
    expect_count("one_store_one_load", SIM_SC, SIM_UNBOUNDED, 2);
    expect_count("one_store_one_load", SIM_C11, SIM_UNBOUNDED, 3);
    expect_count("weak_cas_loop", SIM_SC, 0, 1);
    expect_count("weak_cas_loop", SIM_SC, 2, 3);
    expect_count("weak_cas_loop", SIM_C11, 2, 3);
    expect_count("body_chooses", SIM_SC, 0, 6);
    selftest(dfs("body_chooses", SIM_SC, 0).outcomes == 0x3f,
             "sim_choose: all of 0..5");
}

static void expect_kind(const char *name, enum sim_kind kind)
{
    const enum sim_model models[] = { SIM_SC, SIM_TSO, SIM_PSO, SIM_C11 };

    for (int i = 0; i < 4 * 3; i++) {
        const struct sim_config c = { .model = models[i / 3],
                                      .strategy = (enum sim_strategy)(i % 3),
                                      .depth = 3,
                                      .bound = 2,
                                      .schedules = 500,
                                      .quiet = true };
        const struct sim_result r = sim_explore(named(name), &c);

        selftest(r.kind == kind, "%s, %s: %s (%s) instead of %s", name,
                 sim_model_name(models[i / 3]), sim_kind_name(r.kind), r.message,
                 sim_kind_name((sim_models() & models[i / 3]) != 0 ? kind : SIM_OK));
        if (sim_models() == SIM_SC && i == 2)
            return;
    }
}

static void test_kinds(void)
{
    expect_kind("year_long_wait", SIM_OK);
    expect_kind("sleepers_wake_in_order", SIM_OK);
    expect_kind("settle_waits_for_all", SIM_OK);
    expect_kind("errno_is_per_thread", SIM_OK);
    expect_kind("self_destructor_runs_four_rounds", SIM_OK);
    expect_kind("exit_runs_cleanups", SIM_OK);
    expect_kind("detached", SIM_OK);
    expect_kind("spinners_let_others_work", SIM_OK);
    expect_kind("counts_faults", SIM_OK);
    expect_kind("never_joined", SIM_LEAK);
    expect_kind("leaves_memory", SIM_LEAK);
    expect_kind("joined_twice", SIM_ASSERTION);
    expect_kind("sleeps_for_ever", SIM_DEADLOCK);
    expect_kind("spins_for_ever", SIM_LIVELOCK);
    expect_kind("one_wake_for_two", SIM_DEADLOCK);
    selftest(dfs("depends_on_history", SIM_SC, 0).kind == SIM_DIVERGENCE,
             "a schedule that depends on history is not told");
    selftest(dfs("spinners_let_others_work", SIM_SC, 1).complete,
             "DFS does not get past spinning threads");
}

static uint64_t outcomes_with(enum sim_fault fault, uint64_t at, bool from)
{
    const struct sim_config c = { .model = SIM_SC,
                                  .schedules = 1,
                                  .fault = fault,
                                  .fail_at = at,
                                  .fail_from = from,
                                  .quiet = true };

    return sim_explore(named("counts_faults"), &c).outcomes;
}

static void test_faults(void)
{
    const uint64_t none = 1 << 0, first = 1 << 1, second = 1 << 2, both = 1 << 3,
                   thread = 1 << 8;
    struct sim_result r;

    selftest(outcomes_with(SIM_FAULT_ANY, 0, false) == none, "no fault");
    selftest(outcomes_with(SIM_FAULT_ANY, 1, false) == first, "the first call fails");
    selftest(outcomes_with(SIM_FAULT_ANY, 2, false) == second, "the second call fails");
    selftest(outcomes_with(SIM_FAULT_ANY, 3, false) == (none | thread),
             "the third fails");
    selftest(outcomes_with(SIM_FAULT_ANY, 4, false) == none, "there is no fourth");
    selftest(outcomes_with(SIM_FAULT_ANY, 2, true) == (second | thread),
             "from the second");
    selftest(outcomes_with(SIM_FAULT_ALLOC, 1, true) == both, "all allocations fail");
    selftest(outcomes_with(SIM_FAULT_THREAD, 1, false) == (none | thread),
             "the thread");
    r = sim_sweep_faults(named("counts_faults"), SIM_SC, true);
    selftest(r.failures == 0 && r.faults == 6, "the sweep has three points, twice");
    selftest(sim_sweep_faults(named("leaves_memory"), SIM_SC, true).kind == SIM_LEAK,
             "the sweep sees a leak");
    r = sim_sweep_faults(named("counts_on_memory"), SIM_SC, true);
    selftest(r.failures == 1 && r.kind == SIM_ASSERTION, "the sweep sees an assertion");
    r = sim_sweep_faults_leniently(named("counts_on_memory"), SIM_SC, true);
    selftest(r.failures == 0 && r.faults == 4 && r.gave_up > 0,
             "who is lenient goes through all points");
    selftest(sim_sweep_faults_leniently(named("loses_its_temper"), SIM_SC, true).kind ==
                 SIM_LEAK,
             "and sees a leak");
    selftest(sim_sweep_faults_leniently(named("joined_twice"), SIM_SC, true).kind ==
                 SIM_ASSERTION,
             "and what fails by itself");
}

/* One schedule, whatever the seed: each runs until it pauses, sleeps or ends, then the
 * next by number. */
static void test_run_to_block(void)
{
    const enum sim_model models[] = { SIM_SC, SIM_C11 };

    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct sim_config c = { .model = models[seed % 2],
                                .strategy = SIM_RUN_TO_BLOCK,
                                .seed = seed,
                                .schedules = 3,
                                .quiet = true };
        struct sim_result r;
        uint64_t taken;

        if ((sim_models() & c.model) == 0)
            continue;
        r = sim_explore(named("turns_are_taken"), &c);
        taken = spn__load(&turns, relaxed);
        selftest(r.failures == 0 && r.distinct == 1 && taken == 112233123123,
                 "run to block, seed %llu: %llu, %llu schedules",
                 (unsigned long long)seed, (unsigned long long)taken,
                 (unsigned long long)r.distinct);
        /* Nothing is early, nothing spurious. */
        r = sim_explore(named("year_long_wait"), &c);
        selftest(r.failures == 0 && r.distinct == 1, "run to block: year_long_wait");
        r = sim_explore(named("weak_cas_loop"), &c);
        selftest(r.failures == 0 && r.distinct == 1, "run to block: weak_cas_loop");
    }
}

static void expect_event(const char *event, uint64_t count, uint64_t expected)
{
    selftest(count == expected, "%s: %llu counted instead of %llu", event,
             (unsigned long long)count, (unsigned long long)expected);
}

static void test_event_counts(void)
{
    const struct sim_config c = { .model = SIM_SC,
                                  .strategy = SIM_RUN_TO_BLOCK,
                                  .schedules = 2, /* the second begins from nothing */
                                  .quiet = true };
    const struct sim_result r = sim_explore(named("counts_events"), &c);

    selftest(r.kind == SIM_OK, "counts_events: %s", r.message);
    expect_event("wake-ups", counted.wakeups, 2);
    expect_event("wakes", counted.wakes, 3);
    expect_event("sleeps", counted.sleeps, 2);
    expect_event("read-modify-writes", counted.rmws, 4);
    expect_event("fences", counted.fences, 2);
    expect_event("light fences", counted.light, 3);
    expect_event("heavy fences", counted.heavy, 2);
    expect_event("allocations", counted.allocs, 3);
    expect_event("system calls", counted.syscalls, 6);
}

/* ---- across processes ---------------------------------------------------------------------- */

/* What the program says; the text after `key`, up to the end of its line. */
static bool ask(const char *command, const char *key, char *answer, size_t size)
{
    char line[20000];
    bool found = false;
    FILE *pipe = popen(command, "r");

    while (pipe != NULL && fgets(line, sizeof line, pipe) != NULL) {
        const char *at = strstr(line, key);

        if (at == NULL || found)
            continue;
        found = true;
        (void)snprintf(answer, size, "%s", at + strlen(key));
        answer[strcspn(answer, "\n")] = '\0';
    }
    if (pipe != NULL)
        (void)pclose(pipe);
    return found;
}

static void test_same_hash(const char *program)
{
    static const char *const strategies[] = { "random", "pct:3" };

    for (int i = 0; i < 2; i++) {
        const struct sim_config c = { .model = SIM_SC,
                                      .strategy = i == 0 ? SIM_RANDOM : SIM_PCT,
                                      .depth = 3,
                                      .seed = 77,
                                      .schedules = 1,
                                      .quiet = true };
        const struct sim_result first = sim_explore(named("one_wake_for_two"), &c);
        const struct sim_result again = sim_explore(named("one_wake_for_two"), &c);
        char command[600], answer[64] = "", expected[64];

        selftest(first.hash == again.hash && first.steps == again.steps,
                 "the same seed gives another schedule, %s", strategies[i]);
        (void)snprintf(
            command, sizeof command,
            "%s --scenario one_wake_for_two --model sc --strategy %s --seed 77 "
            "2>&1",
            program, strategies[i]);
        (void)snprintf(expected, sizeof expected, "%016llx",
                       (unsigned long long)first.hash);
        selftest(ask(command, "hash ", answer, sizeof answer) &&
                     strncmp(answer, expected, 16) == 0,
                 "the same seed gives another schedule in another process, %s: %s, %s",
                 strategies[i], answer, expected);
    }
}

/* --first-seed moves the first schedule of every strategy, and a failure still names
 * the schedule that failed. */
static void test_first_seed(const char *program)
{
    static const char *const runs[] = { "one_wake_for_two --strategy random",
                                        "one_wake_for_two --strategy pct:2",
                                        "one_wake_for_two",
                                        "loses_its_temper --faults" };
    char command[600], hash[64] = "", again[64] = "", seed[64] = "";

    (void)snprintf(command, sizeof command,
                   "%s --scenario publication --model sc --strategy random "
                   "--seed 123456 2>&1",
                   program);
    selftest(ask(command, "hash ", hash, sizeof hash), "no hash: %s", command);
    (void)snprintf(command, sizeof command,
                   "%s --scenario publication --model sc --strategy random "
                   "--first-seed 123456 --schedules 1 2>&1",
                   program);
    selftest(ask(command, "hash ", again, sizeof again) && strcmp(hash, again) == 0,
             "--first-seed 123456 runs another schedule: %s, not %s", again, hash);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        (void)snprintf(command, sizeof command,
                       "%s --model sc --first-seed 123456 --scenario %s 2>&1", program,
                       runs[i]);
        seed[0] = '\0';
        selftest(ask(command, " --seed ", seed, sizeof seed) &&
                     strtoul(seed, NULL, 10) >= 123456,
                 "seeds begin elsewhere: %s: %s", command, seed);
    }
    (void)snprintf(command, sizeof command, "%s --first-seed 0 2>&1", program);
    selftest(ask(command, "--first-seed 0?", again, sizeof again), "0 is taken: %s",
             command);
}

/* The command that a report ends with leads to the same steps. */
static void test_replay(const char *program, const char *options)
{
    char command[20100], replay[20000], hash[64] = "", again[64] = "";

    (void)snprintf(command, sizeof command, "%s --scenario one_wake_for_two %s 2>&1",
                   program, options);
    if (!ask(command, "replay: ", replay, sizeof replay) ||
        !ask(command, "hash ", hash, sizeof hash)) {
        selftest(false, "no report: %s", command);
        return;
    }
    (void)snprintf(command, sizeof command, "%s 2>&1", replay);
    selftest(ask(command, "FAILED", again, sizeof again), "no failure again: %s",
             command);
    selftest(ask(command, "hash ", again, sizeof again) && strcmp(hash, again) == 0,
             "another schedule, %s instead of %s: %s", again, hash, command);
}

/* Mutants are listed, and each of these three is killed, survives or is unknown. */
static void test_mutants(const char *program)
{
    static const struct {
        const char *operand, *change, *expected;
    } mutants[] = {
        { "&cells[1]", "release-relaxed", "killed" },
        { "&cells[2]", "release-relaxed", "survived" },
        { "&cells[1]", "release-dropped", "unreached" },
    };
    char command[700], rest[200], place[300];

    for (int i = 0; i < 3; i++) {
        (void)snprintf(command, sizeof command, "%s --scenario publication --mutants",
                       program);
        (void)snprintf(place, sizeof place, ":store@%s:%s", mutants[i].operand,
                       mutants[0].change);
        selftest(ask(command, place, rest, sizeof rest), "%s is not listed", place);
    }
    for (int i = 0; i < 3; i++) {
        (void)snprintf(command, sizeof command,
                       "%s --scenario publication --mutate '%s:%d:store@%s:%s'",
                       program, __FILE__, mutant_line + (i == 1 ? 1 : 0),
                       mutants[i].operand, mutants[i].change);
        selftest(ask(command, mutants[i].expected, rest, sizeof rest), "not %s: %s",
                 mutants[i].expected, command);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return sim_main(argc, argv);
    test_counts();
    test_kinds();
    test_faults();
    test_run_to_block();
    test_event_counts();
    test_same_hash(argv[0]);
    test_first_seed(argv[0]);
    test_replay(argv[0], "--model sc --strategy dfs:2");
    test_replay(argv[0], "--model sc --first-seed 123456");
    test_replay(argv[0], "--model sc --strategy pct:2 --seed 1 --schedules 1000");
    test_replay(argv[0], "--model sc");
    test_replay(argv[0], "--model sc --strategy run-to-block");
    if (sim_models() != SIM_SC) {
        expect_kind("publication", SIM_OK);
        test_mutants(argv[0]);
        test_replay(argv[0], "--model c11 --strategy dfs:2");
        test_replay(argv[0], "--model c11");
        test_replay(argv[0], "--model pso --strategy dfs:2");
    }
    return selftest_end();
}
