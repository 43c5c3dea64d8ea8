/* SPDX-License-Identifier: MIT */
/*
 * test_planted_deque.c - the fork/join deque with mistakes in it, against its own
 * scenarios.
 *
 * deque.c is compiled here as it is, but for the seam's operations: each looks whether it
 * is the place of the mistake that is planted at the moment.  The scenarios are those of
 * scenario_forkjoin_deque.c, and each mistake must be found within the schedules that a
 * run of that program has by default.  So the scenarios are shown to see what they are
 * there for, and are known to have that much margin and no less.
 *
 * The mistakes are those that test_planted.c has for a deque of Chase and Lev, as far as
 * this one can make them, and its own.
 */
#include "forkjoin/deque.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftest.h"
#include "sim.h"

enum bug {
    NONE,
    TAKE_BACK_NO_CAS,     /* the last one is taken back by look and store          */
    OWNER_DOES_NOT_WAIT,  /* a record is used again while its thief has it         */
    NO_HUNGRY_FENCE,      /* traps are set, and the sleeper looked for, in no order */
    SHARE_RELAXED,        /* records are shared without release                    */
    STEAL_RELAXED,        /* and taken without acquire                             */
    DONE_RELAXED,         /* the result does not come with the end                 */
    JOIN_RELAXED,         /* the same at the other end                             */
    LEAP_RELAXED,         /* the mark may be older than the word                   */
    LEAP_LOOKS_ONCE,      /* the mark is not looked at again after the word        */
    LEAP_FROM_THE_BOTTOM, /* what the thief had before is taken as well            */
    NO_EPOCH,             /* the word does not tell that the thief goes on         */
    SLEEP_NO_CAS,         /* the owner says that it sleeps over the thief's end    */
    SLEEPER_NOT_WOKEN     /* the thief does not look whether the owner sleeps      */
};

static enum bug bug;
static uintptr_t marks[32]; /* what each thread has last seen in wait_stolen */

/* Whether the mistake belongs here. */
static bool is_at(enum bug which, const char *function, const char *here)
{
    return bug == which && strcmp(function, here) == 0;
}

static uintptr_t note(const char *function, const char *words, uintptr_t value)
{
    if (strcmp(function, "wait_stolen") == 0)
        marks[sim_self()] = value;
    if (is_at(OWNER_DOES_NOT_WAIT, function, "wait_stolen"))
        return 2; /* DONE */
    if (is_at(LEAP_LOOKS_ONCE, function, "leap") &&
        strcmp(words, "mark_of(record)") == 0)
        return marks[sim_self()];
    if (is_at(LEAP_FROM_THE_BOTTOM, function, "leap") &&
        strcmp(words, "base_of(record)") == 0)
        return 0;
    return value;
}

#undef spn__load
#undef spn__exchange
#undef spn__fetch_add
#undef spn__cas
#undef spn__cas_weak
#undef spn__fence_light

#define LOAD(p, mo) \
    ((SIM__TYPE(p))note(__func__, #p, (uintptr_t)SIM__LOAD(__COUNTER__, p, #p, mo)))
#define spn__load(p, mo)                                  \
    (is_at(LEAP_RELAXED, __func__, "leap") ||             \
             is_at(JOIN_RELAXED, __func__, "wait_stolen") \
         ? LOAD(p, memory_order_relaxed)                  \
         : LOAD(p, memory_order_##mo))
#define EXCHANGE(p, v, mo) SIM__RMW(__COUNTER__, EXCHANGE, exchange, p, #p, v, mo)
#define spn__exchange(p, v, mo)                         \
    (is_at(DONE_RELAXED, __func__, "run_stolen")        \
         ? EXCHANGE(p, v, memory_order_relaxed)         \
     : is_at(SLEEPER_NOT_WOKEN, __func__, "run_stolen") \
         ? (EXCHANGE(p, v, memory_order_##mo) & 0)      \
         : EXCHANGE(p, v, memory_order_##mo))
#define ADD(p, v, mo) SIM__RMW(__COUNTER__, ADD, fetch_add, p, #p, v, mo)
#define spn__fetch_add(p, v, mo)                                                 \
    (is_at(SHARE_RELAXED, __func__, "share")   ? ADD(p, v, memory_order_relaxed) \
     : is_at(NO_EPOCH, __func__, "run_stolen") ? ADD(p, 0, memory_order_##mo)    \
                                               : ADD(p, v, memory_order_##mo))
#define CAS(KIND, p, expected, desired, mo, failed) \
    SIM__CAS(__COUNTER__, KIND, p, #p, expected, desired, mo, failed)
#define spn__cas(p, expected, desired, mo, failed)                                    \
    (is_at(STEAL_RELAXED, __func__, "spn__deque_steal")                               \
         ? CAS(CAS, p, expected, desired, memory_order_relaxed, memory_order_relaxed) \
     : is_at(SLEEP_NO_CAS, __func__, "sleep_until_done")                              \
         ? (spn__store(p, desired, relaxed), true)                                    \
         : CAS(CAS, p, expected, desired, memory_order_##mo, memory_order_##failed))
#define spn__cas_weak(p, expected, desired, mo, failed)           \
    (is_at(TAKE_BACK_NO_CAS, __func__, "take_back")               \
         ? (spn__store(p, desired, relaxed), true)                \
         : CAS(CAS_WEAK, p, expected, desired, memory_order_##mo, \
               memory_order_##failed))
#define spn__fence_light()                             \
    (is_at(NO_HUNGRY_FENCE, __func__, "arm") ? (void)0 \
                                             : SIM__FENCE(__COUNTER__, LIGHT, ""))

#include "../../src/forkjoin/deque.c" /* in place of the library's */

#include "scenario_forkjoin_deque.c"

static const struct row {
    const char *name;
    void (*body)(void);
    enum bug bug;
    enum sim_model model;
} rows[] = {
    { "the last one is taken back without CAS",
      deque__last_record_wanted_by_two__run_once, TAKE_BACK_NO_CAS, SIM_SC },
    { "a stolen record is used again at once",
      deque__asked_while_it_joins__each_run_once, OWNER_DOES_NOT_WAIT, SIM_SC },
    { "no fence between traps and sleepers, TSO",
      deque__thief_goes_to_sleep__is_given_work, NO_HUNGRY_FENCE, SIM_TSO },
    { "no fence between traps and sleepers, C11",
      deque__thief_goes_to_sleep__is_given_work, NO_HUNGRY_FENCE, SIM_C11 },
    { "shared without release, C11", deque__last_record_wanted_by_two__run_once,
      SHARE_RELAXED, SIM_C11 },
    { "stolen without acquire", deque__last_record_wanted_by_two__run_once,
      STEAL_RELAXED, SIM_C11 },
    { "done without release", deque__last_record_wanted_by_two__run_once, DONE_RELAXED,
      SIM_C11 },
    { "joined without acquire", deque__last_record_wanted_by_two__run_once,
      JOIN_RELAXED, SIM_C11 },
    { "leap: the word without acquire",
      deque__thief_goes_on__its_next_records_are_not_taken, LEAP_RELAXED, SIM_C11 },
    { "leap: the mark is looked at once",
      deque__thief_goes_on__its_next_records_are_not_taken, LEAP_LOOKS_ONCE, SIM_SC },
    { "leap: takes what was there before",
      deque__join_of_stolen_record__helps_only_with_it, LEAP_FROM_THE_BOTTOM, SIM_SC },
    { "leap: the word comes back", deque__thief_goes_on__its_next_records_are_not_taken,
      NO_EPOCH, SIM_SC },
    { "sleeps over the end", deque__last_record_wanted_by_two__run_once, SLEEP_NO_CAS,
      SIM_SC },
    { "the sleeper is not woken", deque__last_record_wanted_by_two__run_once,
      SLEEPER_NOT_WOKEN, SIM_SC },
};

/* As sim_forkjoin_deque does by default, until one fails. */
static struct sim_result explore(const struct row *row, uint64_t schedules)
{
    const struct sim_scenario scenario = { .name = row->name, .body = row->body };
    struct sim_result r = { .failures = 0 };

    for (int depth = 1; depth <= 3 && r.failures == 0; depth++) {
        const struct sim_config config = { .model = row->model,
                                           .strategy =
                                               depth == 1 ? SIM_RANDOM : SIM_PCT,
                                           .depth = depth,
                                           .schedules = schedules,
                                           .seed = 1,
                                           .quiet = true };

        r = sim_explore(&scenario, &config);
    }
    /* That scenario has .dfs = 2: it takes two preemptions, at the right places. */
    if (r.failures == 0 && row->bug == NO_EPOCH) {
        const struct sim_config config = {
            .model = row->model, .strategy = SIM_DFS, .bound = 2, .quiet = true
        };

        r = sim_explore(&scenario, &config);
    }
    return r;
}

/* In a process of its own, for a record that is read too early leads anywhere: how it
 * ended, and what it found if it did not crash. */
static int explore_apart(const struct row *row, struct sim_result *found)
{
    const pid_t child = fork();
    int status = -1;

    if (child == 0) {
        const int nowhere = open("/dev/null", O_WRONLY);

        (void)dup2(nowhere, STDOUT_FILENO);
        (void)dup2(nowhere, STDERR_FILENO);
        bug = row->bug;
        *found = explore(row, 2000);
        _exit(found->failures != 0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -1;
    return status;
}

int main(void)
{
    struct sim_result *found = mmap(NULL, sizeof *found, PROT_READ | PROT_WRITE,
                                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (found == MAP_FAILED)
        return 1;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        struct sim_result r;
        int status;

        if ((sim_models() & row->model) == 0)
            continue;
        *found = (struct sim_result){ .failures = 0 };
        (void)fflush(stdout);
        status = explore_apart(row, found);
        selftest(status > 0, "%s: not found", row->name);
        (void)printf("%-46s %-3s ", row->name, sim_model_name(row->model));
        if (found->failures != 0)
            (void)printf("found at schedule %llu: %s\n",
                         (unsigned long long)found->first, found->message);
        else
            (void)printf(status > 0 ? "found: it crashed\n" : "not found\n");
        r = explore(row, 200);
        selftest(r.failures == 0, "%s, correct: %s", row->name, r.message);
    }
    return selftest_end();
}
