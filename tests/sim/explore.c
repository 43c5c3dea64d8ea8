/* SPDX-License-Identifier: MIT */
/*
 * explore.c - many schedules of one scenario, and what came of them.
 *
 * Schedules are told apart by their hash.  A strategy is saturated when of the
 * last WINDOW schedules less than one in a hundred was new; more of the same
 * would mostly repeat.
 */
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WINDOW           1000
#define DEFAULT_STEPS    20000
#define DEFAULT_SPURIOUS 64
#define DEFAULT_EARLY    32
#define DEFAULT_WEAK     8
#define SWEEP_SEEDS      8
#define SWEEP_POINTS_MAX 10000
#define HASHES_MAX       ((size_t)1 << 23) /* 64 MiB; beyond it nothing is new */

/* Seeds of runs that have none of their own begin here, with every strategy. */
uint64_t sim__first_seed = 1;

static struct sim_scenario *first_scenario, **last_scenario = &first_scenario;
static struct sim__named_opts *named_opts;

void sim__register(struct sim_scenario *scenario)
{
    *last_scenario = scenario;
    last_scenario = &scenario->next;
}

void sim__register_opts(struct sim__named_opts *named)
{
    named->next = named_opts;
    named_opts = named;
}

/* Constructors run in no promised order: options find their scenario here. */
struct sim_scenario *sim_scenarios(void)
{
    for (; named_opts != NULL; named_opts = named_opts->next) {
        struct sim_scenario *s = first_scenario;

        while (s != NULL && (strcmp(s->name, named_opts->name) != 0 ||
                             strcmp(s->file, named_opts->file) != 0))
            s = s->next;
        if (s == NULL) {
            (void)fprintf(stderr, "sim: SCENARIO_OPTS(%s) in %s has no scenario\n",
                          named_opts->name, named_opts->file);
            exit(2);
        }
        s->opts = named_opts->opts;
    }
    return first_scenario;
}

unsigned sim_models(void)
{
#ifdef SIM_TSAN
    return SIM_SC;
#else
    return SIM_ALL_MODELS;
#endif
}

static void fill(int *value, int otherwise)
{
    if (*value == 0)
        *value = otherwise;
}

void sim__fill_opts(struct sim_opts *opts, const struct sim_scenario *scenario)
{
    *opts = scenario->opts;
    if (opts->models == 0)
        opts->models = SIM_ALL_MODELS;
    if (opts->dfs_models == 0)
        opts->dfs_models = opts->models;
    if (opts->max_steps == 0)
        opts->max_steps = DEFAULT_STEPS;
    fill(&opts->spurious, DEFAULT_SPURIOUS);
    fill(&opts->early, DEFAULT_EARLY);
    fill(&opts->weak, DEFAULT_WEAK);
}

/* ---- distinct schedules --------------------------------------------------------- */

struct hashes {
    uint64_t *slots; /* 0: empty */
    size_t capacity, count;
};

static bool insert(struct hashes *set, uint64_t hash)
{
    size_t i = (size_t)(hash * 0x9e3779b97f4a7c15u) & (set->capacity - 1);

    for (; set->slots[i] != 0; i = (i + 1) & (set->capacity - 1))
        if (set->slots[i] == hash)
            return false;
    set->slots[i] = hash;
    set->count++;
    return true;
}

static void grow(struct hashes *set)
{
    struct hashes larger = { .capacity =
                                 set->capacity == 0 ? 1024 : set->capacity * 2 };

    larger.slots = calloc(larger.capacity, sizeof *larger.slots);
    if (larger.slots == NULL) {
        perror("sim: no memory for the schedules' hashes");
        abort();
    }
    for (size_t i = 0; i < set->capacity; i++)
        if (set->slots[i] != 0)
            (void)insert(&larger, set->slots[i]);
    free(set->slots);
    *set = larger;
}

static bool is_new(struct hashes *set, uint64_t hash)
{
    if (set->count * 2 >= set->capacity) {
        if (set->capacity >= HASHES_MAX)
            return false;
        grow(set);
    }
    return insert(set, hash | 1);
}

/* ---- exploring --------------------------------------------------------------------- */

static double seconds_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* PCT wants to know how long schedules are: as long as a random one.  The seed
 * is fixed, so that a replay gets the same answer. */
static void estimate_length(void)
{
    const struct sim_config config = engine.config;

    engine.config.strategy = SIM_RANDOM;
    engine.config.trace = false;
    sim__run_schedule(1);
    sim__strategy_length(engine.steps);
    engine.config = config;
}

static void prepare(const struct sim_scenario *scenario,
                    const struct sim_config *config)
{
    static bool prepared;

    if (!prepared) {
        prepared = true;
        fiber_home(&engine.home);
        sim__report_on_crash();
    }
    engine.scenario = scenario;
    engine.config = *config;
    if (config->seed == 0)
        engine.config.seed = sim__first_seed;
    sim__fill_opts(&engine.opts, scenario);
    sim__strategy_start();
    if (config->strategy == SIM_PCT)
        estimate_length();
}

static void note_failure(struct sim_result *r)
{
    if (r->failures++ != 0)
        return;
    r->first = r->schedules;
    r->seed = engine.seed;
    r->kind = engine.kind;
    memcpy(r->message, engine.message, sizeof r->message);
    if (!engine.config.quiet)
        sim__report();
}

struct sim_result sim_explore(const struct sim_scenario *scenario,
                              const struct sim_config *config)
{
    const double start = seconds_now();
    struct sim_result r = { 0 };
    struct hashes hashes = { 0 };
    uint64_t new_in_window = 0;

    if ((sim_models() & config->model) == 0)
        return r;
    prepare(scenario, config);
    if (config->path != NULL && !sim__dfs_set_path(config->path)) {
        (void)fprintf(stderr, "sim: not a path: %s\n", config->path);
        exit(2);
    }
    while (config->schedules == 0 || r.schedules < config->schedules) {
        sim__run_schedule(config->strategy == SIM_DFS
                              ? engine.config.seed
                              : engine.config.seed + r.schedules);
        if (config->trace)
            sim__trace_end();
        r.schedules++;
        r.steps += engine.steps;
        r.hash = engine.hash;
        r.outcomes |= engine.outcomes;
        r.faults = engine.faults;
        if (config->strategy == SIM_DFS)
            r.distinct++; /* paths never repeat */
        else if (is_new(&hashes, engine.hash))
            r.distinct++, new_in_window++;
        if (engine.kind == SIM_GAVE_UP) {
            r.gave_up++;
        } else if (engine.kind != SIM_OK) {
            note_failure(&r);
            if (!config->keep_going || engine.kind == SIM_DIVERGENCE)
                break;
        }
        if (config->path != NULL)
            break;
        if (config->strategy == SIM_DFS && !sim__dfs_next()) {
            r.complete = !sim__dfs_truncated();
            break;
        }
        if (r.schedules % WINDOW == 0) {
            r.saturated = config->strategy != SIM_DFS && new_in_window * 100 < WINDOW;
            if (config->saturate && r.saturated)
                break;
            new_in_window = 0;
        }
        if (config->seconds > 0 && r.schedules % 64 == 0 &&
            seconds_now() - start > config->seconds)
            break;
    }
    free(hashes.slots);
    r.seconds = seconds_now() - start;
    return r;
}

/* ---- faults ------------------------------------------------------------------------ */

/* One fault point under several seeds; true when any of them reached it. */
static bool sweep_point(const struct sim_scenario *scenario, struct sim_config *config,
                        struct sim_result *sum)
{
    bool reached = false;

    for (unsigned i = 0; i < SWEEP_SEEDS && sum->failures == 0; i++) {
        struct sim_result r;

        config->seed = sim__first_seed + i;
        r = sim_explore(scenario, config);
        reached |= r.faults >= config->fail_at;
        sum->schedules += r.schedules;
        sum->steps += r.steps;
        sum->seconds += r.seconds;
        sum->gave_up += r.gave_up;
        if (r.failures != 0) {
            sum->failures = 1;
            sum->first = sum->schedules;
            sum->seed = r.seed;
            sum->kind = r.kind;
            memcpy(sum->message, r.message, sizeof sum->message);
        }
    }
    return reached;
}

static struct sim_result sweep(const struct sim_scenario *scenario,
                               enum sim_model model, bool quiet, bool lenient)
{
    struct sim_config config = {
        .model = model, .schedules = 1, .quiet = quiet, .lenient = lenient
    };
    struct sim_result sum = { 0 };

    for (int from = 0; from < 2; from++) {
        config.fail_from = from != 0;
        for (config.fail_at = 1; sum.failures == 0; config.fail_at++) {
            if (config.fail_at == SWEEP_POINTS_MAX) {
                sum.failures = 1;
                sum.kind = SIM_LIVELOCK;
                (void)snprintf(sum.message, sizeof sum.message,
                               "still failing calls after %d of them",
                               SWEEP_POINTS_MAX);
            } else if (!sweep_point(scenario, &config, &sum)) {
                break;
            }
            sum.faults++;
        }
    }
    sum.complete = sum.failures == 0;
    return sum;
}

struct sim_result sim_sweep_faults(const struct sim_scenario *scenario,
                                   enum sim_model model, bool quiet)
{
    return sweep(scenario, model, quiet, false);
}

struct sim_result sim_sweep_faults_leniently(const struct sim_scenario *scenario,
                                             enum sim_model model, bool quiet)
{
    return sweep(scenario, model, quiet, true);
}
