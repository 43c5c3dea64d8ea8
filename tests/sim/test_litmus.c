/* SPDX-License-Identifier: MIT */
/*
 * test_litmus.c - the memory models against litmus programs: for each model the
 * exact set of outcomes, none missing and none more.
 *
 * OVERVIEW
 *   A program is written as text, threads separated by '|':
 *
 *     x=1.rlx r0=y.acq    a store and a load, with their orders
 *     r0=x+1.ar           a fetch_add, r0 gets the old value
 *     r0=x?1:2.ar         a CAS from 1 to 2, r0 gets whether it was done
 *     F  L  H             a seq_cst fence, the light and the heavy one
 *     final x y           after '|', last: the values in the end
 *
 *   An outcome is the digits of the registers in order, then of the finals.
 *   DFS without a bound visits every execution of the model, so what it has seen
 *   is compared for equality.  The random walk must see nothing else, and where
 *   there are only two threads it must see all of it.
 *
 *   The C11 model is RC11: reading from the future is left out, so that LB never
 *   ends in 11.  Hardware and compilers may do it, with relaxed accesses.
 */
#include "sync/seam.h"

#include <stdlib.h>
#include <string.h>

#include "fiber.h" /* __SANITIZE_ADDRESS__ by either compiler */
#include "selftest.h"
#include "sim.h"

enum kind { STORE, LOAD, ADD, CAS, FENCE, LIGHT, HEAVY };

struct op {
    enum kind kind;
    char order; /* x relaxed, a acquire, l release, b both, s seq_cst */
    int variable, reg, value, desired;
};

#define THREADS_MAX 4
#define OPS_MAX     4

static struct {
    int threads, ops[THREADS_MAX], registers, finals, base;
    struct op op[THREADS_MAX][OPS_MAX];
    int final[3];
} program;

static SPN__ATOMIC(int) variables[3];
static int registers[4];

/* ---- running a program ----------------------------------------------------------- */

static void store(int i, int value, char order)
{
    switch (order) {
    case 'x':
        spn__store(&variables[i], value, relaxed);
        break;
    case 'l':
        spn__store(&variables[i], value, release);
        break;
    default:
        spn__store(&variables[i], value, seq_cst);
        break;
    }
}

static int load(int i, char order)
{
    switch (order) {
    case 'x':
        return spn__load(&variables[i], relaxed);
    case 'a':
        return spn__load(&variables[i], acquire);
    default:
        return spn__load(&variables[i], seq_cst);
    }
}

static int add(int i, int value, char order)
{
    switch (order) {
    case 'x':
        return spn__fetch_add(&variables[i], value, relaxed);
    case 'b':
        return spn__fetch_add(&variables[i], value, acq_rel);
    default:
        return spn__fetch_add(&variables[i], value, seq_cst);
    }
}

static int cas(int i, int expected, int desired, char order)
{
    switch (order) {
    case 'x':
        return spn__cas(&variables[i], &expected, desired, relaxed, relaxed);
    case 'b':
        return spn__cas(&variables[i], &expected, desired, acq_rel, acquire);
    default:
        return spn__cas(&variables[i], &expected, desired, seq_cst, seq_cst);
    }
}

static void run_op(const struct op *o)
{
    switch (o->kind) {
    case STORE:
        store(o->variable, o->value, o->order);
        break;
    case LOAD:
        registers[o->reg] = load(o->variable, o->order);
        break;
    case ADD:
        registers[o->reg] = add(o->variable, o->value, o->order);
        break;
    case CAS:
        registers[o->reg] = cas(o->variable, o->value, o->desired, o->order);
        break;
    case FENCE:
        spn__fence(seq_cst);
        break;
    case LIGHT:
        spn__fence_light();
        break;
    case HEAVY:
        spn__fence_heavy();
        break;
    }
}

static void run_thread(void *index)
{
    const int t = (int)(intptr_t)index;

    for (int i = 0; i < program.ops[t]; i++)
        run_op(&program.op[t][i]);
}

static void body(void)
{
    unsigned outcome = 0;

    memset(registers, 0, sizeof registers);
    for (int i = 0; i < 3; i++)
        spn__init(&variables[i], 0);
    for (int t = 0; t < program.threads; t++)
        sim_thread(run_thread, (void *)(intptr_t)t);
    sim_join_all();
    for (int i = 0; i < program.registers; i++)
        outcome = outcome * (unsigned)program.base + (unsigned)registers[i];
    for (int i = 0; i < program.finals; i++)
        outcome = outcome * (unsigned)program.base +
                  (unsigned)spn__load(&variables[program.final[i]], relaxed);
    sim_outcome(outcome);
}

/* ---- reading a program ------------------------------------------------------------ */

static char order_of(const char *text)
{
    static const char *const names[] = { "rlx", "acq", "rel", "ar", "sc" };

    for (int i = 0; i < 5; i++)
        if (strcmp(text, names[i]) == 0)
            return "xalbs"[i];
    (void)fprintf(stderr, "no order: %s\n", text);
    exit(2);
}

static void note_value(int value)
{
    if (value >= program.base)
        program.base = value + 1;
}

static struct op parse_access(const char *word)
{
    struct op o = { .order = order_of(strchr(word, '.') + 1) };

    if (word[0] != 'r') {
        o.kind = STORE;
        o.variable = word[0] - 'x';
        o.value = word[2] - '0';
        note_value(o.value);
        return o;
    }
    o.reg = word[1] - '0';
    o.variable = word[3] - 'x';
    if (o.reg >= program.registers)
        program.registers = o.reg + 1;
    if (word[4] == '+') {
        o.kind = ADD;
        o.value = word[5] - '0';
    } else if (word[4] == '?') {
        o.kind = CAS;
        o.value = word[5] - '0';
        o.desired = word[7] - '0';
        note_value(o.desired);
    } else {
        o.kind = LOAD;
    }
    return o;
}

static void parse(const char *text, int base)
{
    char copy[200], *word;
    bool in_finals = false;

    memset(&program, 0, sizeof program);
    program.base = base;
    program.threads = 1;
    (void)snprintf(copy, sizeof copy, "%s", text);
    for (word = strtok(copy, " "); word != NULL; word = strtok(NULL, " ")) {
        struct op o = { .kind = FENCE };

        if (in_finals) {
            program.final[program.finals++] = word[0] - 'x';
            continue;
        } else if (strcmp(word, "final") == 0) {
            in_finals = true;
            program.threads--;
            continue;
        } else if (strcmp(word, "|") == 0) {
            program.threads++;
            continue;
        } else if (strcmp(word, "L") == 0) {
            o.kind = LIGHT;
        } else if (strcmp(word, "H") == 0) {
            o.kind = HEAVY;
        } else if (strcmp(word, "F") != 0) {
            o = parse_access(word);
        }
        program.op[program.threads - 1][program.ops[program.threads - 1]++] = o;
    }
}

/* "00 01 11" to bits. */
static uint64_t outcomes_of(const char *text)
{
    uint64_t set = 0;

    while (*text != '\0') {
        unsigned outcome = 0;

        for (; *text != ' ' && *text != '\0'; text++)
            outcome = outcome * (unsigned)program.base + (unsigned)(*text - '0');
        set |= UINT64_C(1) << outcome;
        if (*text == ' ')
            text++;
    }
    return set;
}

static void print_set(uint64_t set)
{
    const int digits = program.registers + program.finals;

    for (unsigned outcome = 0; outcome < 64; outcome++) {
        char text[8] = "";
        unsigned rest = outcome;

        if ((set >> outcome & 1) == 0)
            continue;
        for (int i = digits; i-- > 0; rest /= (unsigned)program.base)
            text[i] = (char)('0' + rest % (unsigned)program.base);
        (void)printf(" %s", text);
    }
}

/* ---- the programs --------------------------------------------------------------- */

#define ALL_2   "00 01 10 11"
#define NOT_00  "01 10 11"
#define NOT_10  "00 01 11"
#define NOT_11  "00 01 10"
#define ALL_3   "000 001 010 011 100 101 110 111"
#define NOT_110 "000 001 010 011 100 101 111"
#define IRIW_SC \
    "0000 0001 0010 0011 0100 0101 0110 0111 1000 1001 1011 1100 1101 1110 1111"
#define IRIW_WEAK IRIW_SC " 1010"

static const struct litmus {
    const char *name, *text;
    const char *sc, *tso, *pso, *c11;
    int base; /* when values arise that the text does not name */
} programs[] = {
    /* Store buffering: both threads miss the other's store. */
    { "SB rlx", "x=1.rlx r0=y.rlx | y=1.rlx r1=x.rlx", NOT_00, ALL_2, ALL_2, ALL_2, 2 },
    { "SB rel/acq", "x=1.rel r0=y.acq | y=1.rel r1=x.acq", NOT_00, ALL_2, ALL_2, ALL_2,
      2 },
    { "SB sc", "x=1.sc r0=y.sc | y=1.sc r1=x.sc", NOT_00, NOT_00, NOT_00, NOT_00, 2 },
    { "SB fences", "x=1.rlx F r0=y.rlx | y=1.rlx F r1=x.rlx", NOT_00, NOT_00, NOT_00,
      NOT_00, 2 },
    { "SB one fence", "x=1.rlx F r0=y.rlx | y=1.rlx r1=x.rlx", NOT_00, ALL_2, ALL_2,
      ALL_2, 2 },
    { "SB light and heavy", "x=1.rlx L r0=y.rlx | y=1.rlx H r1=x.rlx", NOT_00, NOT_00,
      NOT_00, NOT_00, 2 },
    { "SB both heavy", "x=1.rlx H r0=y.rlx | y=1.rlx H r1=x.rlx", NOT_00, NOT_00,
      NOT_00, NOT_00, 2 },
    { "SB both light", "x=1.rlx L r0=y.rlx | y=1.rlx L r1=x.rlx", NOT_00, ALL_2, ALL_2,
      ALL_2, 2 },
    /* A locked instruction drains the buffer; a relaxed RMW of C11 does not. */
    { "SB rmw rlx", "r2=x+1.rlx r0=y.rlx | r3=y+1.rlx r1=x.rlx", "0100 1000 1100",
      "0100 1000 1100", "0100 1000 1100", "0000 0100 1000 1100", 2 },
    { "SB rmw sc", "r2=x+1.sc r0=y.sc | r3=y+1.sc r1=x.sc", "0100 1000 1100",
      "0100 1000 1100", "0100 1000 1100", "0100 1000 1100", 2 },

    /* Message passing: the flag arrives before the message. */
    { "MP rlx", "x=1.rlx y=1.rlx | r0=y.rlx r1=x.rlx", NOT_10, NOT_10, ALL_2, ALL_2,
      2 },
    { "MP rel/acq", "x=1.rlx y=1.rel | r0=y.acq r1=x.rlx", NOT_10, NOT_10, NOT_10,
      NOT_10, 2 },
    { "MP rel/rlx", "x=1.rlx y=1.rel | r0=y.rlx r1=x.rlx", NOT_10, NOT_10, NOT_10,
      ALL_2, 2 },
    { "MP rlx/acq", "x=1.rlx y=1.rlx | r0=y.acq r1=x.rlx", NOT_10, NOT_10, ALL_2, ALL_2,
      2 },
    { "MP sc", "x=1.sc y=1.sc | r0=y.sc r1=x.sc", NOT_10, NOT_10, NOT_10, NOT_10, 2 },
    { "MP fences", "x=1.rlx F y=1.rlx | r0=y.rlx F r1=x.rlx", NOT_10, NOT_10, NOT_10,
      NOT_10, 2 },
    { "MP fence/acq", "x=1.rlx F y=1.rlx | r0=y.acq r1=x.rlx", NOT_10, NOT_10, NOT_10,
      NOT_10, 2 },
    { "MP rel/fence", "x=1.rlx y=1.rel | r0=y.rlx F r1=x.rlx", NOT_10, NOT_10, NOT_10,
      NOT_10, 2 },
    { "MP fence/rlx", "x=1.rlx F y=1.rlx | r0=y.rlx r1=x.rlx", NOT_10, NOT_10, NOT_10,
      ALL_2, 2 },

    /* Load buffering: never, in any of the models. */
    { "LB rlx", "r0=x.rlx y=1.rlx | r1=y.rlx x=1.rlx", NOT_11, NOT_11, NOT_11, NOT_11,
      2 },
    { "LB acq/rel", "r0=x.acq y=1.rel | r1=y.acq x=1.rel", NOT_11, NOT_11, NOT_11,
      NOT_11, 2 },

    /* Independent readers disagree about the order of independent writes. */
    { "IRIW rlx", "x=1.rlx | y=1.rlx | r0=x.rlx r1=y.rlx | r2=y.rlx r3=x.rlx", IRIW_SC,
      IRIW_SC, IRIW_SC, IRIW_WEAK, 2 },
    { "IRIW rel/acq", "x=1.rel | y=1.rel | r0=x.acq r1=y.acq | r2=y.acq r3=x.acq",
      IRIW_SC, IRIW_SC, IRIW_SC, IRIW_WEAK, 2 },
    { "IRIW sc", "x=1.sc | y=1.sc | r0=x.sc r1=y.sc | r2=y.sc r3=x.sc", IRIW_SC,
      IRIW_SC, IRIW_SC, IRIW_SC, 2 },
    { "IRIW fences", "x=1.rlx | y=1.rlx | r0=x.rlx F r1=y.rlx | r2=y.rlx F r3=x.rlx",
      IRIW_SC, IRIW_SC, IRIW_SC, IRIW_SC, 2 },

    /* Coherence, within a thread and across happens-before. */
    { "CoRR", "x=1.rlx | r0=x.rlx r1=x.rlx", NOT_10, NOT_10, NOT_10, NOT_10, 2 },
    { "CoRR, two writes", "x=1.rlx x=2.rlx | r0=x.rlx r1=x.rlx", "00 01 02 11 12 22",
      "00 01 02 11 12 22", "00 01 02 11 12 22", "00 01 02 11 12 22", 3 },
    { "CoWR", "x=1.rlx r0=x.rlx | x=2.rlx | final x", "11 12 22", "11 12 22",
      "11 12 22", "11 12 22", 3 },
    { "CoRW", "r0=x.rlx x=1.rlx | x=2.rlx | final x", "01 02 21", "01 02 21",
      "01 02 21", "01 02 21", 3 },
    { "CoWW", "x=1.rlx x=2.rlx | final x", "2", "2", "2", "2", 3 },
    { "CoRR across happens-before", "r0=x.rlx y=1.rel | r1=y.acq r2=x.rlx | x=1.rlx",
      NOT_110, NOT_110, NOT_110, NOT_110, 2 },
    { "CoRR across nothing", "r0=x.rlx y=1.rlx | r1=y.rlx r2=x.rlx | x=1.rlx", NOT_110,
      NOT_110, NOT_110, ALL_3, 2 },
    { "CoWW across happens-before", "x=2.rlx y=1.rel | r0=y.acq x=1.rlx | final x",
      "01 02 11", "01 02 11", "01 02 11", "01 02 11", 3 },
    { "S rlx", "x=2.rlx y=1.rlx | r0=y.rlx x=1.rlx | final x", "01 02 11", "01 02 11",
      "01 02 11 12", "01 02 11 12", 3 },

    /* Two writes each, in opposite order: the first of each thread wins. */
    { "2+2W rlx", "x=1.rlx y=2.rlx | y=1.rlx x=2.rlx | final x y", "12 21 22",
      "12 21 22", "11 12 21 22", "11 12 21 22", 3 },
    { "2+2W rel", "x=1.rel y=2.rel | y=1.rel x=2.rel | final x y", "12 21 22",
      "12 21 22", "12 21 22", "11 12 21 22", 3 },
    { "2+2W sc", "x=1.sc y=2.sc | y=1.sc x=2.sc | final x y", "12 21 22", "12 21 22",
      "12 21 22", "12 21 22", 3 },
    { "2+2W fences", "x=1.rlx F y=2.rlx | y=1.rlx F x=2.rlx | final x y", "12 21 22",
      "12 21 22", "12 21 22", "12 21 22", 3 },
    { "R rlx", "x=1.rlx y=1.rlx | y=2.rlx r0=x.rlx | final y", "01 11 12",
      "01 02 11 12", "01 02 11 12", "01 02 11 12", 3 },
    { "R sc", "x=1.sc y=1.sc | y=2.sc r0=x.sc | final y", "01 11 12", "01 11 12",
      "01 11 12", "01 11 12", 3 },
    { "R fences", "x=1.rlx F y=1.rlx | y=2.rlx F r0=x.rlx | final y", "01 11 12",
      "01 11 12", "01 11 12", "01 11 12", 3 },

    /* Causality through a third thread. */
    { "WRC rlx", "x=1.rlx | r0=x.rlx y=1.rlx | r1=y.rlx r2=x.rlx", NOT_110, NOT_110,
      NOT_110, ALL_3, 2 },
    { "WRC rel/acq", "x=1.rel | r0=x.acq y=1.rel | r1=y.acq r2=x.rlx", NOT_110, NOT_110,
      NOT_110, NOT_110, 2 },
    { "ISA2 rlx", "x=1.rlx y=1.rlx | r0=y.rlx z=1.rlx | r1=z.rlx r2=x.rlx", NOT_110,
      NOT_110, ALL_3, ALL_3, 2 },
    { "ISA2 rel/acq", "x=1.rlx y=1.rel | r0=y.acq z=1.rel | r1=z.acq r2=x.rlx", NOT_110,
      NOT_110, NOT_110, NOT_110, 2 },

    /* A release sequence is continued by a read-modify-write of any thread and,
     * since C++20, broken by a plain store even of the same one. */
    { "release, then relaxed store", "x=1.rlx y=1.rel y=2.rlx | r0=y.acq r1=x.rlx",
      "00 01 11 21", "00 01 11 21", "00 01 11 21", "00 01 11 20 21", 3 },
    { "release, then relaxed rmw", "x=1.rlx y=2.rel | r0=y+1.rlx | r1=y.acq r2=x.rlx",
      "000 001 010 011 021 200 201 221 231", "000 001 010 011 021 200 201 221 231",
      "000 001 010 011 021 200 201 221 231", "000 001 010 011 021 200 201 221 231", 4 },

    /* Two read-modify-writes never read the same store. */
    { "RMW atomicity", "r0=x+1.rlx | r1=x+1.rlx | final x", "012 102", "012 102",
      "012 102", "012 102", 3 },
    { "CAS atomicity", "r0=x?0:1.rlx | r1=x?0:2.rlx | final x", "101 012", "101 012",
      "101 012", "101 012", 3 },
    { "RMW and a store", "r0=x+1.rlx | x=2.rlx | final x", "02 23", "02 23", "02 23",
      "02 23", 4 },
};

/* ---- the tests -------------------------------------------------------------------- */

/* Under sanitizers, whose part is the engine's own memory, not all is repeated:
 * long enumerations are cut off and then only checked to see nothing else. */
#if defined(__SANITIZE_ADDRESS__) || SPN__TSAN
enum { FULL = 0, RANDOM_SCHEDULES = 500, DFS_MAX = 20000 };
#else
enum { FULL = 1, RANDOM_SCHEDULES = 30000, DFS_MAX = 0 };
#endif

static void print_difference(uint64_t seen, uint64_t allowed)
{
    (void)printf("  missing:");
    print_set(allowed & ~seen);
    (void)printf("\n  not allowed:");
    print_set(seen & ~allowed);
    (void)printf("\n");
}

static void check(const struct litmus *l, struct sim_scenario *scenario,
                  enum sim_model model, const char *allowed_text)
{
    const uint64_t allowed = outcomes_of(allowed_text);
    struct sim_config c = { .model = model,
                            .strategy = SIM_DFS,
                            .bound = SIM_UNBOUNDED,
                            .schedules = DFS_MAX };
    struct sim_result r = sim_explore(scenario, &c);
    const bool all = FULL || r.complete;

    selftest(r.failures == 0 && r.complete >= all && (r.outcomes & ~allowed) == 0 &&
                 (!all || r.outcomes == allowed),
             "%s, %s, dfs", l->name, sim_model_name(model));
    if (all && r.outcomes != allowed)
        print_difference(r.outcomes, allowed);
    (void)printf("%-30s %-3s %8llu executions:", l->name, sim_model_name(model),
                 (unsigned long long)r.schedules);
    print_set(r.outcomes);
    (void)printf("\n");
    c.strategy = SIM_RANDOM;
    c.schedules = RANDOM_SCHEDULES;
    r = sim_explore(scenario, &c);
    selftest(r.failures == 0 && (r.outcomes & ~allowed) == 0 &&
                 (program.threads > 2 || !FULL || r.outcomes == allowed),
             "%s, %s, random walk", l->name, sim_model_name(model));
}

/* With symmetric fences a light fence is a fence. */
static void check_symmetric(void)
{
    struct sim_scenario scenario = { .name = "SB both light, symmetric",
                                     .body = body,
                                     .opts = { .fences = SIM_FENCES_SYMMETRIC } };
    const enum sim_model models[] = { SIM_SC, SIM_TSO, SIM_PSO, SIM_C11 };

    parse("x=1.rlx L r0=y.rlx | y=1.rlx L r1=x.rlx", 2);
    for (int i = 0; i < 4; i++) {
        const struct sim_config c = { .model = models[i],
                                      .strategy = SIM_DFS,
                                      .bound = SIM_UNBOUNDED };
        struct sim_result r;

        if ((sim_models() & models[i]) == 0)
            continue;
        r = sim_explore(&scenario, &c);
        selftest(r.complete && r.outcomes == outcomes_of(NOT_00),
                 "SB both light, symmetric, %s", sim_model_name(models[i]));
    }
}

int main(void)
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        const struct litmus *l = &programs[i];
        struct sim_scenario scenario = { .name = l->name,
                                         .body = body,
                                         .opts = { .fences = SIM_FENCES_ASYMMETRIC } };

        parse(l->text, l->base);
        check(l, &scenario, SIM_SC, l->sc);
        if (sim_models() == SIM_SC)
            continue;
        check(l, &scenario, SIM_TSO, l->tso);
        check(l, &scenario, SIM_PSO, l->pso);
        check(l, &scenario, SIM_C11, l->c11);
    }
    check_symmetric();
    return selftest_end();
}
