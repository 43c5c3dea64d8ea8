/* SPDX-License-Identifier: MIT */
/*
 * sim.h - the schedule explorer as the author of a scenario sees it.
 *
 *     static void waker(void *p) { spn__parker_unpark(p); }
 *
 *     // The property, in one sentence.
 *     SCENARIO(parker__unpark_races_park__wakes, "LS-2")
 *     {
 *         static struct spn__parker parker;
 *
 *         spn__parker_init(&parker);
 *         sim_thread(waker, &parker);
 *         sim_assert(spn__parker_park(&parker, SPN_FOREVER));
 *         sim_join_all();
 *     }
 *     SCENARIO_OPTS(parker__unpark_races_park__wakes, .dfs = 2)
 *
 * The body is run once per schedule, as thread 0, always from the same state:
 * it initialises what it uses.  Whatever is left to chance is decided by the
 * explorer, so a schedule is fixed by its seed (or, for DFS, its path) and a
 * failure prints the command that replays it.  README.md tells the rest.
 */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- scenarios --------------------------------------------------------- */

/* How stores become visible.  Bits, so that options can name several. */
enum sim_model { SIM_SC = 1, SIM_TSO = 2, SIM_PSO = 4, SIM_C11 = 8 };
#define SIM_ALL_MODELS (SIM_SC | SIM_TSO | SIM_PSO | SIM_C11)

#define SIM_UNBOUNDED (-1) /* .dfs: every schedule, whatever the preemptions */
#define SIM_NEVER     (-1) /* .spurious, .early, .weak: not at all           */

/* Whether the asymmetric fence pair is one, or two seq_cst fences (as where
 * membarrier is missing).  EITHER lets each schedule choose. */
enum sim_fences { SIM_FENCES_EITHER, SIM_FENCES_ASYMMETRIC, SIM_FENCES_SYMMETRIC };

/* Zero means default. */
struct sim_opts {
    unsigned models;     /* sim_model bits; 0: all                               */
    int dfs;             /* also DFS with this preemption bound, to completion   */
    unsigned dfs_models; /* where DFS is small enough; 0: all of `models`        */
    unsigned dfs_less;   /* and where it is with one preemption less             */
    unsigned dfs_long;   /* of these, where it takes minutes: only with --long   */
    int spurious;        /* 1/n of the futex waits return for nothing; 0: 64     */
    int early;           /* at 1/n of the points a timer expires early; 0: 32    */
    int weak;            /* 1/n of the weak CAS that could succeed fail; 0: 8    */
    int schedules;       /* by default, per strategy: a known bug was rarer; 0: 2000 */
    uint64_t max_steps;  /* a schedule longer than this is a livelock; 0: 20,000 */
    enum sim_fences fences;
    bool faults; /* also fail every allocation and thread creation       */
    const char
        *no_faults; /* why --faults leaves it out: it counts on what would fail */
};

struct sim_scenario {
    const char *name, *ids, *file;
    void (*body)(void);
    struct sim_opts opts;
    struct sim_scenario *next;
};

/* The ids are the lines of docs/contract.md that the scenario proves. */
#define SCENARIO(scenario_name, ...)                                            \
    static void scenario_name(void);                                            \
    __attribute__((constructor)) static void sim_register_##scenario_name(void) \
    {                                                                           \
        static struct sim_scenario scenario = { .name = #scenario_name,         \
                                                .ids = #__VA_ARGS__,            \
                                                .file = __FILE__,               \
                                                .body = scenario_name };        \
        sim__register(&scenario);                                               \
    }                                                                           \
    static void scenario_name(void)

/* Options of a scenario of the same file, before or after it. */
#define SCENARIO_OPTS(scenario_name, ...)                                      \
    __attribute__((constructor)) static void sim_options_##scenario_name(void) \
    {                                                                          \
        static struct sim__named_opts named = {                                \
            #scenario_name, __FILE__, { __VA_ARGS__ }, NULL                    \
        };                                                                     \
        sim__register_opts(&named);                                            \
    }

/* ---- for scenario bodies ------------------------------------------------ */

/* Ends the schedule as failed when the condition does not hold. */
#define sim_assert(condition)           \
    (__builtin_expect(!!(condition), 1) \
         ? (void)0                      \
         : sim__assert_failed(#condition, __FILE__, __LINE__))

/* Starts a thread.  It never fails: faults are for the code under test. */
#define sim_thread(fn, arg) sim__thread((fn), (arg), __FILE__, __LINE__)
/* Waits for one thread started by sim_thread, or for all of them. */
#define sim_join(id)   sim__join_started((id), __FILE__, __LINE__)
#define sim_join_all() sim__join_started(-1, __FILE__, __LINE__)

/* Waits until every other thread is asleep or has ended, before any timer
 * expires: "and now the waiter is surely parked".  What they did before happens
 * before it returns: do not look for a missing order behind it. */
#define sim_settle() sim__settle(__FILE__, __LINE__)
/* Sleeps in virtual time. */
#define sim_sleep(ns) sim__sleep((ns), __FILE__, __LINE__)

/* Ends the calling thread as pthread_exit would: cleanups, then destructors. */
__attribute__((noreturn)) void sim_exit(void);

unsigned sim_choose(unsigned n); /* 0 .. n-1, explored like every other choice */
int sim_self(void);              /* number of the calling thread; the body is 0 */
int64_t sim_now(void);           /* virtual time, and not a point              */

/* How often a thread has paused (spn__cpu_relax, spn__os_yield) and how often it
 * went to sleep in a futex; by its number, as sim_self and sim_thread give it. */
uint64_t sim_pauses(int id);
uint64_t sim_sleeps(int id);

/* What the threads of the schedule have done so far, all together.  The difference of two
 * is what lies between; with SIM_RUN_TO_BLOCK it is the same in every process. */
struct sim_counts {
    uint64_t wakeups; /* threads that a futex wake took out of a wait                */
    uint64_t wakes;   /* futex wakes, whether or not somebody slept                  */
    uint64_t sleeps;  /* futex waits that slept                                      */
    uint64_t rmws;    /* read-modify-writes, also a CAS that found another value      */
    uint64_t fences;  /* seq_cst fences, and seq_cst stores                          */
    uint64_t light, heavy; /* of the asymmetric pair; the heavy one is a system call */
    uint64_t allocs;
    uint64_t syscalls; /* others: futex waits that return at once, yields, threads
                          created, descriptors made, signalled, cleared, closed      */
};
struct sim_counts sim_counts(void);

/* How many CPUs the code under test is told of from now on; 2 at first.  Thread n
 * says it runs on CPU n modulo that.  Any two threads run at once in any case. */
void sim_set_cpus(uint32_t count);

/* What the code under test gets from the CPU's counter from now on, which is not a point;
 * NULL, as at first: there is no counter to be used. */
void sim_set_counter(uint64_t (*counter)(void));

/* Marks an outcome, 0 .. 63, as seen; the result tells which were. */
void sim_outcome(unsigned outcome);

/*
 * Defined by whoever has process-wide state: reset is called before every
 * schedule; drain after its last thread has ended and before leaks are counted.
 * Both run outside of all threads.
 */
void sim_globals_reset(void);
void sim_globals_drain(void);

/* ---- exploring from a program ------------------------------------------- */

enum sim_strategy {
    SIM_RANDOM,
    SIM_PCT,
    SIM_DFS,
    SIM_RUN_TO_BLOCK, /* one fixed schedule, the same for every seed: for counting */
};

enum sim_kind {
    SIM_OK,
    SIM_DEADLOCK,   /* nobody can run and no timer is armed: lost wake-up too */
    SIM_LIVELOCK,   /* the step bound was reached                             */
    SIM_ASSERTION,  /* sim_assert, or misuse of the seam                      */
    SIM_LEAK,       /* memory or an unjoined thread left behind               */
    SIM_DIVERGENCE, /* the same choices led elsewhere: hidden nondeterminism  */
    SIM_GAVE_UP,    /* lenient: it asserts that what failed does not          */
};

/* Which calls count towards fail_at. */
enum sim_fault { SIM_FAULT_ANY, SIM_FAULT_ALLOC, SIM_FAULT_THREAD };

struct sim_config {
    enum sim_model model;
    enum sim_strategy strategy;
    int depth;          /* PCT: number of ordering constraints of the bug     */
    int bound;          /* DFS: preemption bound, or SIM_UNBOUNDED            */
    uint64_t schedules; /* at most                                            */
    uint64_t seed;      /* of the first schedule; the next has the next seed  */
    double seconds;     /* at most; 0: no limit                               */
    enum sim_fault fault;
    uint64_t fail_at; /* the n-th such call fails; 0: none                  */
    bool fail_from;   /* and all after it                                   */
    bool lenient;     /* from then on an assertion of the scenario just ends it */
    const char *path; /* DFS: run this one path, as printed                 */
    bool keep_going;  /* count failures instead of stopping at the first    */
    bool quiet;       /* no report                                          */
    bool trace;       /* print every event of every schedule                */
    bool saturate;    /* stop when under 1 % of the schedules are new       */
};

struct sim_result {
    uint64_t schedules, steps, failures, distinct;
    uint64_t first;    /* number of the first failing schedule, from 1 */
    uint64_t seed;     /* and its seed                                 */
    uint64_t hash;     /* of the last schedule's steps                 */
    uint64_t outcomes; /* bit n: sim_outcome(n) was called             */
    uint64_t faults;   /* fault points the last schedule reached       */
    uint64_t gave_up;  /* lenient: schedules that the scenario ended   */
    double seconds;
    enum sim_kind kind; /* of the first failure                         */
    bool complete;      /* DFS: nothing is left within the bound        */
    bool saturated;
    char message[200];
};

struct sim_result sim_explore(const struct sim_scenario *scenario,
                              const struct sim_config *config);

/*
 * Fails every allocation and thread creation of the scenario in turn, once and
 * from there on, under a few seeds each, until a run reaches no further point.
 * Every schedule must end clean.  Returns the first failure, or the counts.
 *
 * leniently: of a scenario that asserts that all succeeds.  Its assertions, once something
 * has failed, end the schedule and mean nothing; what the library asserts does, and so does
 * a deadlock, a crash, and what is left behind by a schedule that the scenario did not end.
 */
struct sim_result sim_sweep_faults(const struct sim_scenario *scenario,
                                   enum sim_model model, bool quiet);
struct sim_result sim_sweep_faults_leniently(const struct sim_scenario *scenario,
                                             enum sim_model model, bool quiet);

const char *sim_model_name(enum sim_model model);
const char *sim_kind_name(enum sim_kind kind);

/* The models this build can run: all, or SC alone under ThreadSanitizer. */
unsigned sim_models(void);

/* The registered scenarios in the order they were written. */
struct sim_scenario *sim_scenarios(void);
/* The command line over them: what main() of a scenario program is. */
int sim_main(int argc, char **argv);

/* ---- what the macros call ------------------------------------------------ */

struct sim__named_opts {
    const char *name, *file;
    struct sim_opts opts;
    struct sim__named_opts *next;
};

void sim__register(struct sim_scenario *scenario);
void sim__register_opts(struct sim__named_opts *named);
__attribute__((noreturn, cold)) void sim__assert_failed(const char *condition,
                                                        const char *file, int line);
int sim__thread(void (*fn)(void *), void *arg, const char *file, int line);
void sim__join_started(int id, const char *file, int line);
void sim__settle(const char *file, int line);
void sim__sleep(int64_t ns, const char *file, int line);

#endif /* SIM_H */
