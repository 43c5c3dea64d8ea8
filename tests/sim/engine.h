/* SPDX-License-Identifier: MIT */
/*
 * engine.h - what the files of the explorer share; scenarios see sim.h.
 *
 * READING ORDER
 *   engine.c    who runs next, blocking, time: one schedule
 *   threads.c   lives of threads, their locals, what bodies call
 *   strategy.c  the one function that makes every choice
 *   memory.c    atomics under SC, TSO and PSO     views.c  and under C11
 *   heap.c      tracked allocation, faults        trace.c  events, reports
 *   mutate.c    sites and their weakened forms
 *   explore.c   many schedules                    command.c  the command line
 *
 * Everything runs in one OS thread, so plain variables do.  `engine.current` is
 * NULL outside of schedules; seam calls made then act at once and directly.
 */
#ifndef SIM_ENGINE_H
#define SIM_ENGINE_H

#include "sync/seam.h"

#include "fiber.h"
#include "sim.h"

#define MAX_THREADS 32
#define BUFFER_MAX  16

enum thread_state {
    READY,
    IN_FUTEX,
    IN_JOIN,
    IN_SLEEP,
    IN_SETTLE,
    ENDED,
};

/* A store that has not reached memory yet (TSO, PSO). */
struct buffered {
    volatile void *at;
    struct sim_site *site;
    uint64_t value;
    uint8_t size;
    bool release; /* PSO: waits for all earlier ones */
};

struct thread {
    int id;
    enum thread_state state;
    bool fresh;   /* was scheduled but has done nothing yet; see sim__point */
    bool expired; /* the wait ended by its deadline     */
    bool joined, detached, started_by_body;
    int joins;                    /* IN_JOIN: whom, or -1 for the body's all */
    const volatile void *address; /* IN_FUTEX: the word                      */
    int64_t deadline;
    uint64_t priority;     /* PCT */
    struct sim_site *site; /* where it is or waits */
    void *(*entry)(void *);
    void (*entry_void)(void *); /* the same for sim_thread */
    void *arg;
    void *self;      /* spn__self_get                       */
    void *self_kept; /* what the destructor gets at the end */
    struct sim__cleanup *cleanups;
    spn__sigmask sigmask;
    char name[16];
    int saved_errno;
    uint64_t pauses, sleeps; /* for the body, which may count them */
    unsigned buffer_count;
    struct buffered buffer[BUFFER_MAX];
    struct fiber fiber;
};

/* Kinds of choice; see strategy.c for what they cost and their odds. */
enum choice {
    CHOOSE_THREAD,   /* who runs, the present one being unable to        */
    CHOOSE_PREEMPT,  /* the same, 0 being the present one                */
    CHOOSE_EARLY,    /* 1: the earliest timer expires now                */
    CHOOSE_SPURIOUS, /* 1: this futex wait returns for nothing           */
    CHOOSE_WEAK,     /* 1: this weak CAS fails                           */
    CHOOSE_READ,     /* which store a load reads; 0: the newest          */
    CHOOSE_PLACE,    /* where a store goes in modification order; 0: end */
    CHOOSE_FLUSH,    /* 0: none, else which buffered store               */
    CHOOSE_WAKE,     /* which sleeper is woken                           */
    CHOOSE_FENCES,   /* 0: asymmetric, 1: symmetric                      */
    CHOOSE_BODY,     /* sim_choose                                       */
};

struct engine {
    /* The run: set by explore.c, constant while a schedule runs. */
    const struct sim_scenario *scenario;
    struct sim_config config;
    struct sim_opts opts; /* the scenario's, with defaults filled in */

    /* The schedule. */
    struct thread *current; /* NULL: outside */
    struct thread threads[MAX_THREADS];
    int thread_count;
    uint32_t ready;   /* bit per thread */
    uint32_t yielded; /* ready, but waits for another to do something */
    uint32_t timed;   /* has a deadline */
    int alive;
    struct thread *candidates[MAX_THREADS]; /* of CHOOSE_THREAD and _PREEMPT */
    uint64_t seed, steps, hash, outcomes;
    struct sim_counts counts;
    int64_t now;
    unsigned buffered; /* stores in all buffers */
    int fences;        /* -1: not chosen yet, else as CHOOSE_FENCES */
    uint64_t faults;
    uint32_t cpus;             /* that the code under test is told of */
    uint64_t (*counter)(void); /* as well */
    enum sim_kind kind;
    char message[200];
    struct fiber home;
};
extern struct engine engine;

/* ---- engine.c ---- */
/* Runs the scenario once under the present strategy; engine.kind is the result. */
void sim__run_schedule(uint64_t seed);
/* Ends the schedule as failed.  Outside of one, reports and exits. */
__attribute__((noreturn, cold, format(printf, 2, 3))) void
sim__stop(enum sim_kind kind, const char *format, ...);
/* True when the fence pair is asymmetric in this schedule. */
bool sim__asymmetric(void);
void sim__make_ready(struct thread *t);
/* Something changed that a spinning thread may be waiting for. */
void sim__progress(void);
/* Sleeps until someone makes the thread ready, or the deadline expires. */
void sim__block(struct thread *me, enum thread_state state, int64_t deadline);
__attribute__((noreturn)) void sim__leave(struct thread *me);
static inline uint32_t sim__bit(const struct thread *t)
{
    return UINT32_C(1) << t->id;
}
static inline int sim__lowest(uint32_t mask)
{
    return __builtin_ctz(mask);
}

/* ---- threads.c ---- */
/* Either entry is given; the stack of an earlier schedule is used again. */
struct thread *sim__spawn(void *(*entry)(void *), void (*entry_void)(void *),
                          void *arg);
void sim__threads_begin(void); /* of a schedule */

/* ---- strategy.c ---- */
/* Every nondeterministic decision: 0 .. n-1.  With n <= 1 nothing is chosen. */
unsigned sim__choose(enum choice kind, unsigned n);
uint64_t sim__random(void);     /* the schedule's own sequence; not for choices */
void sim__strategy_start(void); /* of a run */
void sim__strategy_begin(void); /* of a schedule */
void sim__strategy_step(struct thread *t);
void sim__strategy_yield(struct thread *t);
void sim__strategy_thread(struct thread *t);
/* PCT's estimate of the length of a schedule. */
void sim__strategy_length(uint64_t steps);
/* DFS: moves to the next path; false when there is none. */
bool sim__dfs_next(void);
bool sim__dfs_truncated(void);
bool sim__dfs_set_path(const char *text);
void sim__dfs_print_path(char *text, size_t size);
static inline void sim__mix(uint64_t bits)
{
    engine.hash = (engine.hash ^ bits) * 0x100000001b3u;
}

/* ---- memory.c ---- */
void sim__memory_begin(void); /* of a schedule */
void sim__memory_thread(struct thread *child, const struct thread *parent);
void sim__memory_join(struct thread *t, const struct thread *ended);
void sim__memory_pause(struct thread *t);              /* spins or goes to sleep */
void sim__memory_gone(volatile void *at, size_t size); /* freed or allocated */
void sim__memory_freed(const struct sim_site *site, void *memory, size_t size);
uint32_t sim__memory_newest(struct thread *t, spn__futex_word *word);
void sim__drain(struct thread *t);
/* Lets one buffered store reach memory if that is chosen. */
bool sim__maybe_flush(void);
static inline bool sim__acquires(unsigned order)
{
    return order == memory_order_acquire || order == memory_order_acq_rel ||
           order == memory_order_seq_cst || order == memory_order_consume;
}
static inline bool sim__releases(unsigned order)
{
    return order == memory_order_release || order == memory_order_acq_rel ||
           order == memory_order_seq_cst;
}
uint64_t sim__peek(const volatile void *at, size_t size);
void sim__poke(volatile void *at, size_t size, uint64_t value);
uint64_t sim__apply(const struct sim_site *site, uint64_t old, uint64_t operand,
                    size_t size);

/* ---- views.c: the C11 model ---- */
void views_begin(void);
void views_thread(struct thread *child, const struct thread *parent);
void views_join(struct thread *t, const struct thread *ended);
void views_pause(struct thread *t);
void views_gone(volatile void *at, size_t size);
void views_freed(struct thread *t, const struct sim_site *site, void *memory,
                 size_t size);
void views_init(struct thread *t, volatile void *at, size_t size, uint64_t value);
uint64_t views_load(struct thread *t, const volatile void *at, size_t size,
                    unsigned order);
uint64_t views_newest(struct thread *t, const volatile void *at, size_t size);
void views_store(struct thread *t, volatile void *at, size_t size, uint64_t value,
                 unsigned order);
uint64_t views_rmw(struct thread *t, const struct sim_site *site, volatile void *at,
                   size_t size, uint64_t operand);
bool views_cas(struct thread *t, const struct sim_site *site, volatile void *at,
               size_t size, uint64_t *expected, uint64_t desired);
void views_fence(struct thread *t);
void views_fence_everywhere(struct thread *t);

/* ---- heap.c ---- */
void sim__heap_begin(void);
bool sim__fault(enum sim_fault kind); /* whether this one shall fail */
/* Names what is still allocated; false when there is nothing. */
bool sim__heap_leaks(char *text, size_t size);
void sim__heap_release(void);

/* ---- trace.c ---- */
void sim__trace_begin(void);
void sim__trace_end(void); /* with --trace: the last line */
void sim__event(const struct thread *t, const struct sim_site *site, unsigned op,
                const volatile void *at);
void sim__event_value(uint64_t value);
void sim__report(void);
void sim__report_on_crash(void); /* installs handlers */
const char *sim__base_name(const char *path);
void sim__replay_command(char *text, size_t size);
extern const char *sim__program;
extern unsigned sim__events_shown;
extern uint64_t sim__first_seed;

/* ---- mutate.c ---- */
void sim__site_reached(struct sim_site *site);
static inline void sim__site(struct sim_site *site)
{
    if (__builtin_expect(!site->reached, 0))
        sim__site_reached(site);
}
/* Chooses the one mutant of this process; false when the text is not one. */
bool sim__mutate(const char *id);
const char *sim__mutant(void); /* its id, or NULL */
bool sim__mutant_reached(void);
void sim__list_mutants(void);
const char *sim__order_name(unsigned order);
const char *sim__op_name(unsigned op);

/* ---- explore.c ---- */
void sim__fill_opts(struct sim_opts *opts, const struct sim_scenario *scenario);

#endif /* SIM_ENGINE_H */
