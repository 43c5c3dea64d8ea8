/* SPDX-License-Identifier: MIT */
/*
 * command.c - the command line of a scenario program.
 *
 * By default every scenario is run under every model: PCT with depth 2 and 3,
 * then the random walk with what those left of their share, then DFS and the
 * fault sweep where the scenario declares them.  One line each; the last line
 * is "N passed, N failed".
 */
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_SCHEDULES 2000
/* DFS of a mutant is cut off: a survivor shall not cost minutes. */
#define MUTANT_DFS_MAX 200000
/* Enough to reach what is reachable at all. */
#define MUTANT_LIST_SCHEDULES 300

static struct {
    const char *scenario;
    unsigned models;
    struct sim_config config; /* strategy, seed, path, faults, trace */
    bool one_strategy;
    uint64_t schedules;
    bool schedules_given;
    uint64_t share_percent; /* of what a scenario would run by itself */
    double seconds;
    bool list, faults, mutants, no_dfs, long_dfs;
} args;

static const enum sim_model all_models[] = { SIM_SC, SIM_TSO, SIM_PSO, SIM_C11 };
#define MODEL_COUNT (sizeof all_models / sizeof *all_models)

static void usage(FILE *out)
{
    (void)fprintf(
        out,
        "usage: %s [options]\n"
        "  --list              the scenarios and their contract ids\n"
        "  --scenario NAME     only this one\n"
        "  --model M           sc, tso, pso or c11; may be given several times\n"
        "  --schedules N       per strategy (default %d; 0: no limit)\n"
        "  --share PERCENT     of the schedules each scenario would run by itself\n"
        "  --seconds S         at most, per scenario and model\n"
        "  --no-dfs            leave out the exhaustive runs\n"
        "  --long              with those exhaustive runs that take minutes\n"
        "  --faults            only the fault sweep, of every scenario that does not\n"
        "                      say why it has none; one that does not ask for it may\n"
        "                      give up: its assertions end a schedule\n"
        "  --strategy S        only random, pct:DEPTH, dfs:BOUND, dfs:all, or\n"
        "                      run-to-block, the one schedule for counting\n"
        "  --seed N            first seed; alone, that one schedule\n"
        "  --first-seed N      where the seeds of every strategy begin (default 1)\n"
        "  --path P            with dfs, the one schedule of that path\n"
        "  --fail KIND:N[+]    the N-th any|alloc|thread call fails [and all after]\n"
        "  --trace             print every event\n"
        "  --events N          how many events a report shows\n"
        "  --mutants           list the mutants of the code the scenarios reach\n"
        "  --mutate ID         run with that mutant: killed or survived\n",
        sim__program, DEFAULT_SCHEDULES);
}

/* ---- arguments ----------------------------------------------------------------- */

__attribute__((noreturn)) static void bad(const char *option, const char *value)
{
    (void)fprintf(stderr, "%s: %s %s?\n", sim__program, option, value);
    usage(stderr);
    exit(2);
}

static uint64_t number(const char *option, const char *text)
{
    char *end;
    const unsigned long long value = strtoull(text, &end, 0);

    if (end == text || *end != '\0')
        bad(option, text);
    return value;
}

static void parse_model(const char *text)
{
    for (size_t i = 0; i < MODEL_COUNT; i++) {
        if (strcmp(text, sim_model_name(all_models[i])) == 0) {
            args.models |= all_models[i];
            return;
        }
    }
    bad("--model", text);
}

static void parse_strategy(const char *text)
{
    args.one_strategy = true;
    if (strcmp(text, "random") == 0) {
        args.config.strategy = SIM_RANDOM;
    } else if (strcmp(text, "run-to-block") == 0) {
        args.config.strategy = SIM_RUN_TO_BLOCK;
    } else if (strncmp(text, "pct:", 4) == 0) {
        args.config.strategy = SIM_PCT;
        args.config.depth = (int)number("--strategy pct", text + 4);
    } else if (strcmp(text, "dfs:all") == 0) {
        args.config.strategy = SIM_DFS;
        args.config.bound = SIM_UNBOUNDED;
    } else if (strncmp(text, "dfs:", 4) == 0) {
        args.config.strategy = SIM_DFS;
        args.config.bound = (int)number("--strategy dfs", text + 4);
    } else {
        bad("--strategy", text);
    }
}

static void parse_fail(const char *text)
{
    static const char *const kinds[] = { "any:", "alloc:", "thread:" };

    for (unsigned i = 0; i < 3; i++) {
        if (strncmp(text, kinds[i], strlen(kinds[i])) == 0) {
            char *end;
            args.config.fault = (enum sim_fault)i;
            args.config.fail_at = strtoull(text + strlen(kinds[i]), &end, 10);
            args.config.fail_from = *end == '+';
            return;
        }
    }
    bad("--fail", text);
}

/* Returns true when it took the value. */
static bool parse_valued(const char *option, const char *value)
{
    if (strcmp(option, "--scenario") == 0) {
        args.scenario = value;
    } else if (strcmp(option, "--model") == 0) {
        parse_model(value);
    } else if (strcmp(option, "--schedules") == 0) {
        args.schedules = number(option, value);
        args.schedules_given = true;
    } else if (strcmp(option, "--share") == 0) {
        args.share_percent = number(option, value);
        if (args.share_percent < 1 || args.share_percent > 100)
            bad(option, value);
    } else if (strcmp(option, "--seconds") == 0) {
        args.seconds = strtod(value, NULL);
    } else if (strcmp(option, "--strategy") == 0) {
        parse_strategy(value);
    } else if (strcmp(option, "--seed") == 0) {
        args.config.seed = number(option, value);
    } else if (strcmp(option, "--first-seed") == 0) {
        sim__first_seed = number(option, value);
        if (sim__first_seed == 0) /* 0 means none in a configuration */
            bad(option, value);
    } else if (strcmp(option, "--path") == 0) {
        args.config.path = value;
    } else if (strcmp(option, "--fail") == 0) {
        parse_fail(value);
    } else if (strcmp(option, "--events") == 0) {
        sim__events_shown = (unsigned)number(option, value);
    } else if (strcmp(option, "--mutate") == 0) {
        if (!sim__mutate(value))
            bad(option, value);
    } else {
        return false;
    }
    return true;
}

static void parse(int argc, char **argv)
{
    sim__program = argv[0];
    args.schedules = DEFAULT_SCHEDULES;
    args.share_percent = 100;
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i];

        if (strcmp(option, "--help") == 0) {
            usage(stdout);
            exit(0);
        } else if (strcmp(option, "--list") == 0) {
            args.list = true;
        } else if (strcmp(option, "--no-dfs") == 0) {
            args.no_dfs = true;
        } else if (strcmp(option, "--long") == 0) {
            args.long_dfs = true;
        } else if (strcmp(option, "--faults") == 0) {
            args.faults = true;
        } else if (strcmp(option, "--trace") == 0) {
            args.config.trace = true;
        } else if (strcmp(option, "--mutants") == 0) {
            args.mutants = true;
        } else if (i + 1 < argc && parse_valued(option, argv[i + 1])) {
            i++;
        } else {
            bad(option, "");
        }
    }
    if (args.models == 0)
        args.models = SIM_ALL_MODELS;
    args.models &= sim_models();
    /* A seed or a path names one schedule. */
    if ((args.config.seed != 0 || args.config.path != NULL) && !args.schedules_given) {
        args.schedules = 1;
        args.schedules_given = true;
    }
    if (args.config.seed != 0 && !args.one_strategy)
        parse_strategy("random");
}

static bool is_asked(const struct sim_scenario *s)
{
    return args.scenario == NULL || strcmp(args.scenario, s->name) == 0;
}

/* ---- the default run ------------------------------------------------------------ */

struct tally {
    struct sim_result sum; /* of the seeded strategies */
    struct sim_result dfs, faults;
    bool failed;
    char killer[64]; /* the strategy that failed */
    uint64_t first;
};

static void add(struct tally *t, const struct sim_result *r, const char *strategy)
{
    t->sum.schedules += r->schedules;
    t->sum.steps += r->steps;
    t->sum.distinct += r->distinct;
    t->sum.seconds += r->seconds;
    if (r->failures != 0 && !t->failed) {
        t->failed = true;
        t->first = r->first;
        (void)snprintf(t->killer, sizeof t->killer, "%s", strategy);
    }
}

static double time_left(const struct tally *t)
{
    const double left =
        args.seconds - t->sum.seconds - t->dfs.seconds - t->faults.seconds;

    return left > 0.001 ? left : 0.001;
}

static struct sim_config base_config(const struct sim_scenario *s, enum sim_model model,
                                     const struct tally *t)
{
    struct sim_config c = args.config;

    c.model = model;
    c.quiet = sim__mutant() != NULL && !c.trace;
    c.schedules = args.schedules;
    if (!args.schedules_given && s->opts.schedules > 0)
        c.schedules = (uint64_t)s->opts.schedules;
    if (!args.schedules_given)
        c.schedules = (c.schedules * args.share_percent + 99) / 100;
    if (args.seconds > 0)
        c.seconds = time_left(t);
    return c;
}

static void run_seeded(const struct sim_scenario *s, enum sim_model model,
                       struct tally *t)
{
    static const struct {
        enum sim_strategy strategy;
        int depth;
        const char *name;
    } turns[] = { { SIM_PCT, 2, "pct:2" },
                  { SIM_PCT, 3, "pct:3" },
                  { SIM_RANDOM, 0, "random" } };
    uint64_t spare = 0;

    for (size_t i = 0; i < 3 && !t->failed; i++) {
        struct sim_config c = base_config(s, model, t);
        struct sim_result r;

        c.strategy = turns[i].strategy;
        c.depth = turns[i].depth;
        c.saturate = true;
        if (c.schedules != 0 && i == 2)
            c.schedules += spare;
        else if (args.seconds > 0) /* each gets its share of the time */
            c.seconds /= (double)(3 - i);
        r = sim_explore(s, &c);
        add(t, &r, turns[i].name);
        if (c.schedules != 0)
            spare += c.schedules - r.schedules;
    }
}

/* The preemptions that an exhaustive run allows in this model; 0: there is none. */
static int dfs_bound(const struct sim_opts *opts, enum sim_model model)
{
    if (args.no_dfs || ((opts->dfs_long & model) != 0 && !args.long_dfs))
        return 0;
    if ((opts->dfs_less & model) != 0)
        return opts->dfs - 1;
    return (opts->dfs_models & model) != 0 ? opts->dfs : 0;
}

static void run_dfs(const struct sim_scenario *s, enum sim_model model, int bound,
                    struct tally *t)
{
    struct sim_config c = base_config(s, model, t);

    c.strategy = SIM_DFS;
    c.bound = bound;
    c.schedules = sim__mutant() != NULL ? MUTANT_DFS_MAX : 0;
    t->dfs = sim_explore(s, &c);
    if (t->dfs.failures != 0 || (!t->dfs.complete && sim__mutant() == NULL)) {
        t->failed = true;
        t->first = t->dfs.first;
        (void)snprintf(t->killer, sizeof t->killer, "dfs:%d", c.bound);
    }
}

static void run_faults(const struct sim_scenario *s, enum sim_model model,
                       struct tally *t)
{
    const bool quiet = sim__mutant() != NULL;

    t->faults = s->opts.faults ? sim_sweep_faults(s, model, quiet)
                               : sim_sweep_faults_leniently(s, model, quiet);
    if (t->faults.failures != 0) {
        t->failed = true;
        t->first = t->faults.first;
        (void)snprintf(t->killer, sizeof t->killer, "faults");
    }
}

static void print_line(const struct sim_scenario *s, enum sim_model model,
                       const struct tally *t)
{
    const double seconds = t->sum.seconds + t->dfs.seconds + t->faults.seconds;
    const uint64_t schedules =
        t->sum.schedules + t->dfs.schedules + t->faults.schedules;

    (void)printf("%-6s %-56s %-3s %9llu schedules", t->failed ? "FAILED" : "ok",
                 s->name, sim_model_name(model), (unsigned long long)schedules);
    if (t->sum.schedules != 0)
        (void)printf(", %llu distinct", (unsigned long long)t->sum.distinct);
    if (seconds > 0)
        (void)printf(", %.0f/s", (double)schedules / seconds);
    if (t->dfs.schedules != 0)
        (void)printf(", dfs %llu %s", (unsigned long long)t->dfs.schedules,
                     t->dfs.complete ? "complete" : "INCOMPLETE");
    if (t->faults.schedules != 0)
        (void)printf(", %llu fault points", (unsigned long long)t->faults.faults);
    if (t->faults.gave_up != 0)
        (void)printf(", %llu times it gave up", (unsigned long long)t->faults.gave_up);
    if (t->failed)
        (void)printf(", %s", t->killer);
    (void)printf("\n");
    (void)fflush(stdout);
}

static struct tally run_scenario(const struct sim_scenario *s, enum sim_model model)
{
    struct tally t = { .failed = false };
    struct sim_opts opts;

    sim__fill_opts(&opts, s);
    if (args.faults) {
        run_faults(s, model, &t);
    } else if (args.one_strategy || args.config.path != NULL) {
        const struct sim_config c = base_config(s, model, &t);
        const struct sim_result r = sim_explore(s, &c);
        if (c.strategy == SIM_DFS) {
            t.dfs = r;
            t.failed = r.failures != 0;
        } else {
            add(&t, &r, "");
        }
        if (c.schedules == 1)
            (void)printf("hash %016llx\n", (unsigned long long)r.hash);
    } else {
        const int bound = dfs_bound(&opts, model);

        run_seeded(s, model, &t);
        if (!t.failed && bound != 0)
            run_dfs(s, model, bound, &t);
        if (!t.failed && opts.faults)
            run_faults(s, model, &t);
    }
    return t;
}

static int run_all(void)
{
    unsigned passed = 0, failed = 0, left = 0;

    for (struct sim_scenario *s = sim_scenarios(); s != NULL; s = s->next) {
        struct sim_opts opts;

        if (!is_asked(s))
            continue;
        sim__fill_opts(&opts, s);
        if (args.faults && opts.no_faults != NULL) {
            (void)printf("left   %-56s %s\n", s->name, opts.no_faults);
            left++;
            continue;
        }
        for (size_t i = 0; i < MODEL_COUNT; i++) {
            if ((all_models[i] & args.models & opts.models) == 0)
                continue;
            const struct tally t = run_scenario(s, all_models[i]);
            print_line(s, all_models[i], &t);
            if (t.failed)
                failed++;
            else
                passed++;
        }
    }
    if (passed + failed + left == 0) {
        (void)fprintf(stderr, "%s: no such scenario or model\n", sim__program);
        return 2;
    }
    (void)printf("%u passed, %u failed\n", passed, failed);
    return failed != 0;
}

/* ---- mutants ----------------------------------------------------------------------- */

static int list_mutants(void)
{
    for (struct sim_scenario *s = sim_scenarios(); s != NULL; s = s->next) {
        struct sim_opts opts;

        if (!is_asked(s))
            continue;
        sim__fill_opts(&opts, s);
        for (size_t i = 0; i < MODEL_COUNT; i++) {
            const struct sim_config c = { .model = all_models[i],
                                          .quiet = true,
                                          .schedules = MUTANT_LIST_SCHEDULES,
                                          .keep_going = true };
            if ((all_models[i] & args.models & opts.models) != 0)
                (void)sim_explore(s, &c);
        }
        if (opts.faults)
            (void)sim_sweep_faults(s, SIM_SC, true);
    }
    sim__list_mutants();
    return 0;
}

/* C11 first: it is the model in which most mutants die. */
static int run_mutant(void)
{
    for (size_t i = MODEL_COUNT; i-- > 0;) {
        for (struct sim_scenario *s = sim_scenarios(); s != NULL; s = s->next) {
            struct sim_opts opts;

            sim__fill_opts(&opts, s);
            if (!is_asked(s) || (all_models[i] & args.models & opts.models) == 0)
                continue;
            const struct tally t = run_scenario(s, all_models[i]);
            if (t.failed) {
                (void)printf("killed %s by %s, %s, %s, schedule %llu\n", sim__mutant(),
                             s->name, sim_model_name(all_models[i]), t.killer,
                             (unsigned long long)t.first);
                return 0;
            }
        }
    }
    if (!sim__mutant_reached()) {
        (void)printf("unreached %s\n", sim__mutant());
        return 2;
    }
    (void)printf("survived %s\n", sim__mutant());
    return 1;
}

int sim_main(int argc, char **argv)
{
    parse(argc, argv);
    if (args.list) {
        for (struct sim_scenario *s = sim_scenarios(); s != NULL; s = s->next)
            (void)printf("%s %s\n", s->name, s->ids);
        return 0;
    }
    if (args.mutants)
        return list_mutants();
    if (sim__mutant() != NULL && !args.one_strategy && args.config.path == NULL)
        return run_mutant();
    return run_all();
}
