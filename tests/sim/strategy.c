/* SPDX-License-Identifier: MIT */
/*
 * strategy.c - the one function that decides whatever is left to chance.
 *
 * RANDOM   Every thread choice is uniform; the other kinds have odds, below.
 * PCT      Threads have random priorities and the highest runs; at d-1 random
 *          steps the running one falls below all others.  A bug that needs d
 *          ordering constraints is found with probability >= 1/(n k^(d-1)) for
 *          n threads and k steps.  k is taken from one random schedule and a
 *          spinning thread is demoted, so for us the bound is approximate.
 * DFS      Enumerates: the path is the list of alternatives taken, the next one
 *          increments its last entry that can be.  Kinds that stand for bad luck
 *          (preemption, early time-out, spurious wake, failing weak CAS) cost 1
 *          for any alternative but 0, and are not offered when the bound is
 *          spent.  What the memory model leaves open costs nothing.
 * RUN TO   A thread runs until it blocks, sleeps or pauses; then the next runnable one
 * BLOCK    by number runs, and after the last the first.  Every other choice is
 *          alternative 0: no early time-out, no spurious wake-up, no weak CAS that
 *          fails, the sleeper with the lowest number is woken, the fence pair is
 *          asymmetric.  There is one such schedule of a scenario, whatever the seed.
 *
 * Choices are hashed, so the hash of a schedule names it, in any process.
 */
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHANGES_MAX 16
#define PATH_MAX_   65536

struct step {
    uint8_t kind;
    uint16_t taken, of;
};

static uint64_t random_state, body_random_state;
/* PCT */
static uint64_t length_estimate = 1;
static uint64_t changes[CHANGES_MAX];
static uint64_t lowest_priority;
/* DFS */
static struct step path[PATH_MAX_];
static unsigned path_length, path_at;
static int spent;
static bool truncated;

/* A Weyl sequence through a mixing function. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static unsigned below(unsigned n)
{
    return (unsigned)(((next_random(&random_state) >> 32) * n) >> 32);
}

static bool one_in(int n)
{
    return n > 0 && below((unsigned)n) == 0;
}

uint64_t sim__random(void)
{
    return next_random(&body_random_state);
}

/* ---- RANDOM and PCT --------------------------------------------------------- */

static unsigned highest_priority(unsigned n)
{
    unsigned best = 0;

    for (unsigned i = 1; i < n; i++)
        if (engine.candidates[i]->priority > engine.candidates[best]->priority)
            best = i;
    return best;
}

static unsigned by_chance(enum choice kind, unsigned n)
{
    switch (kind) {
    case CHOOSE_THREAD:
    case CHOOSE_PREEMPT:
        return engine.config.strategy == SIM_PCT ? highest_priority(n) : below(n);
    case CHOOSE_EARLY:
        return one_in(engine.opts.early);
    case CHOOSE_SPURIOUS:
        return one_in(engine.opts.spurious);
    case CHOOSE_WEAK:
        return one_in(engine.opts.weak);
    case CHOOSE_READ: /* half of the loads are as new as can be */
        return one_in(2) ? 0 : below(n);
    case CHOOSE_PLACE:
        return one_in(4) ? below(n) : 0;
    case CHOOSE_FLUSH:
        return one_in(4) ? 1 + below(n - 1) : 0;
    default:
        return below(n);
    }
}

/* ---- RUN TO BLOCK ----------------------------------------------------------- */

/* Candidates are in the order of their numbers. */
static unsigned next_in_turn(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (engine.candidates[i]->id > engine.current->id)
            return i;
    return 0;
}

/* ---- DFS ------------------------------------------------------------------------ */

static bool is_bad_luck(enum choice kind)
{
    return kind == CHOOSE_PREEMPT || kind == CHOOSE_EARLY || kind == CHOOSE_SPURIOUS ||
           kind == CHOOSE_WEAK;
}

static bool is_offered(enum choice kind)
{
    if (is_bad_luck(kind) && engine.config.bound >= 0 && spent >= engine.config.bound)
        return false;
    switch (kind) {
    case CHOOSE_EARLY:
        return engine.opts.early > 0;
    case CHOOSE_SPURIOUS:
        return engine.opts.spurious > 0;
    case CHOOSE_WEAK:
        return engine.opts.weak > 0;
    default:
        return true;
    }
}

static unsigned by_path(enum choice kind, unsigned n)
{
    struct step *step;

    if (!is_offered(kind))
        return 0;
    if (path_at == PATH_MAX_) {
        truncated = true;
        return 0;
    }
    step = &path[path_at++];
    if (path_at > path_length) {
        path_length = path_at;
        *step = (struct step){ (uint8_t)kind, 0, (uint16_t)n };
    } else if (step->of == 0) { /* from the command line: only `taken` is known */
        if (step->taken >= n)
            sim__stop(SIM_DIVERGENCE,
                      "the path asks for alternative %u of %u at "
                      "choice %u",
                      step->taken, n, path_at - 1);
        step->kind = (uint8_t)kind;
        step->of = (uint16_t)n;
    } else if (step->kind != kind || step->of != n) {
        sim__stop(SIM_DIVERGENCE,
                  "choice %u had %u alternatives before and has %u "
                  "now: something but the schedule decides",
                  path_at - 1, step->of, n);
    }
    if (is_bad_luck(kind) && step->taken != 0)
        spent++;
    return step->taken;
}

bool sim__dfs_next(void)
{
    while (path_length != 0 &&
           path[path_length - 1].taken + 1 == path[path_length - 1].of)
        path_length--;
    if (path_length == 0)
        return false;
    path[path_length - 1].taken++;
    return true;
}

bool sim__dfs_truncated(void)
{
    return truncated;
}

/* "0.0.2.1": what follows the end is 0. */
bool sim__dfs_set_path(const char *text)
{
    path_length = 0;
    while (*text != '\0') {
        char *end;
        const unsigned long taken = strtoul(text, &end, 10);

        if (end == text || taken > UINT16_MAX || path_length == PATH_MAX_ ||
            (*end != '.' && *end != '\0'))
            return false;
        path[path_length++] = (struct step){ 0, (uint16_t)taken, 0 };
        text = *end == '.' ? end + 1 : end;
    }
    return true;
}

void sim__dfs_print_path(char *text, size_t size)
{
    unsigned end = path_at < path_length ? path_at : path_length;
    size_t used = 0;

    while (end > 1 && path[end - 1].taken == 0)
        end--;
    text[0] = '\0';
    for (unsigned i = 0; i < end && used + 8 < size; i++)
        used += (size_t)snprintf(text + used, size - used, i == 0 ? "%u" : ".%u",
                                 path[i].taken);
    if (used == 0)
        (void)snprintf(text, size, "0");
}

/* ---- what the engine calls ---------------------------------------------------- */

unsigned sim__choose(enum choice kind, unsigned n)
{
    unsigned taken;

    if (n <= 1 || engine.current == NULL)
        return 0;
    switch (engine.config.strategy) {
    case SIM_DFS:
        taken = by_path(kind, n);
        break;
    case SIM_RUN_TO_BLOCK:
        taken = kind == CHOOSE_THREAD ? next_in_turn(n) : 0;
        break;
    default:
        taken = by_chance(kind, n);
        break;
    }
    sim__mix((uint64_t)kind << 32 | n << 16 | taken);
    return taken;
}

void sim__strategy_start(void)
{
    path_length = 0;
    truncated = false;
}

void sim__strategy_begin(void)
{
    random_state = engine.seed * 0xd1342543de82ef95u + 1;
    body_random_state =
        engine.config.strategy == SIM_DFS || engine.config.strategy == SIM_RUN_TO_BLOCK
            ? 1
            : ~engine.seed;
    path_at = 0;
    spent = 0;
    if (engine.config.strategy != SIM_PCT)
        return;
    lowest_priority = UINT64_C(1) << 32;
    for (int i = 0; i + 1 < engine.config.depth && i < CHANGES_MAX; i++)
        changes[i] = 1 + below((unsigned)length_estimate);
}

void sim__strategy_thread(struct thread *t)
{
    if (engine.config.strategy == SIM_PCT)
        t->priority = next_random(&random_state) | UINT64_C(1) << 40;
}

void sim__strategy_step(struct thread *t)
{
    if (engine.config.strategy != SIM_PCT)
        return;
    for (int i = 0; i + 1 < engine.config.depth && i < CHANGES_MAX; i++)
        if (changes[i] == engine.steps)
            t->priority = --lowest_priority;
}

void sim__strategy_yield(struct thread *t)
{
    if (engine.config.strategy == SIM_PCT)
        t->priority = --lowest_priority;
}

void sim__strategy_length(uint64_t steps)
{
    length_estimate = steps < UINT32_MAX ? steps + 1 : UINT32_MAX;
}
