/* SPDX-License-Identifier: MIT */
/*
 * trace.c - the last events of a schedule, and the report of a failure.
 *
 * Events go to a ring and cost a few stores; texts are made only when someone
 * reads them.  A report says what failed and where every thread is, shows the
 * last events, and ends with the command that replays the schedule.
 */
#include "engine.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RING 1024 /* a power of two */

struct event {
    uint64_t step, value;
    int64_t now;
    const struct sim_site *site;
    const volatile void *at;
    int16_t thread;
    uint16_t op;
};

static struct event ring[RING];
static uint64_t event_count;

const char *sim__program = "sim";
unsigned sim__events_shown = 60;

/* Weak: the sanitizers' runtimes have it. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void print_event(FILE *out, const struct event *e);

void sim__trace_begin(void)
{
    event_count = 0;
}

/* With --trace an event is printed when the next one begins: its value is known
 * by then. */
static void print_last(void)
{
    if (event_count == 0)
        return;
    fiber_ignore_begin();
    print_event(stdout, &ring[(event_count - 1) % RING]);
    fiber_ignore_end();
}

void sim__trace_end(void)
{
    print_last();
    (void)printf("  schedule %llu: %s, %llu steps, hash %016llx\n",
                 (unsigned long long)engine.seed, sim_kind_name(engine.kind),
                 (unsigned long long)engine.steps, (unsigned long long)engine.hash);
}

void sim__event(const struct thread *t, const struct sim_site *site, unsigned op,
                const volatile void *at)
{
    struct event *e;

    if (engine.config.trace)
        print_last();
    sim__mix((uint64_t)t->id << 24 | (uint64_t)op << 16 | (uint16_t)site->line);
    e = &ring[event_count++ % RING];
    e->step = engine.steps;
    e->now = engine.now;
    e->value = 0;
    e->site = site;
    e->at = at;
    e->thread = (int16_t)t->id;
    e->op = (uint16_t)op;
}

void sim__event_value(uint64_t value)
{
    if (engine.current != NULL && event_count != 0)
        ring[(event_count - 1) % RING].value = value;
}

void sim__saw(uint64_t value)
{
    sim__event_value(value);
}

const char *sim__base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

static void place_of(char *text, size_t size, const struct sim_site *site)
{
    if (site->line == 0)
        (void)snprintf(text, size, "%s", site->file);
    else
        (void)snprintf(text, size, "%s:%d", sim__base_name(site->file), site->line);
}

/* Small numbers are read in decimal, addresses and masks in hexadecimal. */
static void value_of(char *text, size_t size, uint64_t value)
{
    const int64_t number = (int64_t)value;

    if (number > -100000 && number < 100000000)
        (void)snprintf(text, size, "%lld", (long long)number);
    else
        (void)snprintf(text, size, "%#llx", (unsigned long long)value);
}

static void print_event(FILE *out, const struct event *e)
{
    const struct sim_site *site = e->site;
    char place[80], value[32], orders[40] = "";

    place_of(place, sizeof place, site);
    value_of(value, sizeof value, e->value);
    switch (e->op) {
    case SIM_OP_CAS:
    case SIM_OP_CAS_WEAK:
        (void)snprintf(orders, sizeof orders, "%s/%s", sim__order_name(site->order_now),
                       sim__order_name(site->failure_now));
        break;
    case SIM_OP_LOAD:
    case SIM_OP_STORE:
    case SIM_OP_EXCHANGE:
    case SIM_OP_ADD:
    case SIM_OP_SUB:
    case SIM_OP_OR:
    case SIM_OP_AND:
        (void)snprintf(orders, sizeof orders, "%s", sim__order_name(site->order_now));
        break;
    default:
        break;
    }
    (void)fprintf(out, "  %6llu  T%-2d %-11s %-22s %-24s %-10s %s%s\n",
                  (unsigned long long)e->step, e->thread, sim__op_name(e->op), place,
                  site->text, value, orders, site->dropped ? " (dropped)" : "");
}

static const char *state_name(const struct thread *t)
{
    switch (t->state) {
    case READY:
        return "can run";
    case IN_FUTEX:
        return t->deadline == SPN_FOREVER ? "sleeps" : "sleeps, timed";
    case IN_JOIN:
        return "joins";
    case IN_SLEEP:
        return "sleeps, timed";
    case IN_SETTLE:
        return "waits for all";
    default:
        return "ended";
    }
}

const char *sim_model_name(enum sim_model model)
{
    switch (model) {
    case SIM_SC:
        return "sc";
    case SIM_TSO:
        return "tso";
    case SIM_PSO:
        return "pso";
    default:
        return "c11";
    }
}

const char *sim_kind_name(enum sim_kind kind)
{
    switch (kind) {
    case SIM_OK:
        return "ok";
    case SIM_DEADLOCK:
        return "deadlock or lost wake-up";
    case SIM_LIVELOCK:
        return "livelock";
    case SIM_ASSERTION:
        return "assertion";
    case SIM_LEAK:
        return "leak";
    case SIM_GAVE_UP:
        return "gave up";
    default:
        return "divergence";
    }
}

static void strategy_name(char *text, size_t size)
{
    const struct sim_config *c = &engine.config;

    if (c->strategy == SIM_RANDOM)
        (void)snprintf(text, size, "random");
    else if (c->strategy == SIM_RUN_TO_BLOCK)
        (void)snprintf(text, size, "run-to-block");
    else if (c->strategy == SIM_PCT)
        (void)snprintf(text, size, "pct:%d", c->depth);
    else if (c->bound < 0)
        (void)snprintf(text, size, "dfs:all");
    else
        (void)snprintf(text, size, "dfs:%d", c->bound);
}

void sim__replay_command(char *text, size_t size)
{
    const struct sim_config *c = &engine.config;
    static const char *const faults[] = { "any", "alloc", "thread" };
    char strategy[24];
    size_t used;

    strategy_name(strategy, sizeof strategy);
    used = (size_t)snprintf(text, size, "%s --scenario %s --model %s --strategy %s",
                            sim__program, engine.scenario->name,
                            sim_model_name(c->model), strategy);
    if (c->strategy == SIM_DFS && used + 16 < size) {
        used += (size_t)snprintf(text + used, size - used, " --path ");
        sim__dfs_print_path(text + used, size - used - 1);
        used = strlen(text);
    } else if (used < size) {
        used += (size_t)snprintf(text + used, size - used, " --seed %llu",
                                 (unsigned long long)engine.seed);
    }
    if (c->fail_at != 0 && used < size)
        used += (size_t)snprintf(text + used, size - used, " --fail %s:%llu%s",
                                 faults[c->fault], (unsigned long long)c->fail_at,
                                 c->fail_from ? "+" : "");
    if (sim__mutant() != NULL && used < size)
        used +=
            (size_t)snprintf(text + used, size - used, " --mutate '%s'", sim__mutant());
    if (used < size)
        (void)snprintf(text + used, size - used, " --trace");
}

void sim__report(void)
{
    static char command[16384]; /* a path may be long */
    char strategy[24], place[80];
    uint64_t first;

    if (engine.scenario == NULL)
        return;
    strategy_name(strategy, sizeof strategy);
    (void)fflush(stdout);
    (void)fprintf(stderr, "\nFAILED %s: %s\n  %s\n", engine.scenario->name,
                  sim_kind_name(engine.kind), engine.message);
    (void)fprintf(stderr,
                  "  model %s, strategy %s, seed %llu, %llu steps, hash %016llx\n",
                  sim_model_name(engine.config.model), strategy,
                  (unsigned long long)engine.seed, (unsigned long long)engine.steps,
                  (unsigned long long)engine.hash);
    (void)fprintf(stderr, "threads:\n");
    for (int i = 0; i < engine.thread_count; i++) {
        const struct thread *t = &engine.threads[i];
        place_of(place, sizeof place, t->site);
        (void)fprintf(stderr, "  T%-2d %-14s %s %s %s %s\n", i, state_name(t),
                      sim__op_name(t->site->op), place, t->site->text, t->name);
    }
    first = event_count < sim__events_shown ? 0 : event_count - sim__events_shown;
    (void)fprintf(stderr,
                  "last %llu events: step, thread, operation, place, operand, "
                  "value, order\n",
                  (unsigned long long)(event_count - first));
    for (uint64_t i = first; i < event_count; i++)
        print_event(stderr, &ring[i % RING]);
    sim__replay_command(command, sizeof command);
    (void)fprintf(stderr, "replay: %s\n\n", command);
}

/* ---- crashes -------------------------------------------------------------------- */

static void on_death(void)
{
    engine.kind = SIM_ASSERTION;
    (void)snprintf(engine.message, sizeof engine.message,
                   "a sanitizer stopped the program, see above");
    sim__report();
}

#ifdef SIM_TSAN
/* The first race ends the run, while its schedule is still the present one. */
const char *__tsan_default_options(void);
__attribute__((visibility("default"))) const char *__tsan_default_options(void)
{
    return "halt_on_error=1:atexit_sleep_ms=0";
}
#endif

/* Not safe in a signal handler by the letter; the process is lost anyway, and
 * which schedule it was is worth the try. */
static void on_signal(int number)
{
    signal(number, SIG_DFL);
    engine.kind = SIM_ASSERTION;
    (void)snprintf(engine.message, sizeof engine.message, "signal %d", number);
    sim__report();
    raise(number);
}

void sim__report_on_crash(void)
{
    static char stack[65536]; /* the fiber's own may be what overflowed */
    const stack_t alternative = { .ss_sp = stack, .ss_size = sizeof stack };
    const int numbers[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };

    if (__sanitizer_set_death_callback != NULL) {
        __sanitizer_set_death_callback(on_death);
        return;
    }
    (void)sigaltstack(&alternative, NULL);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction action = { .sa_flags = SA_ONSTACK };
        action.sa_handler = on_signal;
        (void)sigaction(numbers[i], &action, NULL);
    }
}
