/* SPDX-License-Identifier: MIT */
/*
 * bench.h - a workload in a few lines.
 *
 *     static void run_spindle(struct bench *b)
 *     {
 *         const uint64_t rounds = bench_count(b, 1000000);
 *
 *         ... set up, do a few rounds to warm up ...
 *         bench_start(b);
 *         for (uint64_t i = 0; i < rounds; i++)
 *             ... the operation ...
 *         bench_stop(b, rounds);
 *     }
 *
 *     BENCH_WORKLOAD(s9) = {
 *         .name = "S9",
 *         .question = "What does the operation cost?",
 *         .metric = "ns_per_op",
 *         .variants = { { "free" }, { "pinned", .pinned = true, .cpus = 2 } },
 *         .subjects = { { "spindle", run_spindle },
 *                       { "floor", run_floor, .detail = "one atomic add" },
 *                       { "peer", run_peer, .version = peer_version } },
 *     };
 *
 * Each (variant, subject) runs in a child process of its own, several times,
 * in turn with all others, so that a disturbance hits everybody.  Every subject
 * does the same work.  The first subject named "floor" and the fastest peer are
 * what the others are compared with: subjects whose name starts with "spindle"
 * and the floor are no peers.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stdint.h>

struct bench; /* one run, in its own process */

typedef void (*bench_fn)(struct bench *b);

struct bench_variant {
    const char *name;
    bool pinned; /* bench_place binds threads, to one CPU or to two          */
    int cpus;    /* how many it takes; skipped, and said so, where there are fewer */
};

struct bench_subject {
    const char *name;             /* "spindle", "spindle-…", "floor", or a peer's  */
    bench_fn run;                 /* NULL: a peer that is not installed            */
    const char *detail;           /* shown beside the name: what the floor is      */
    const char *(*version)(void); /* a peer's; part of its name in the results     */
    const char *package;          /* what to install when run is NULL              */
    const void *object;           /* for a run that several subjects share: what
                                     it is about, see bench_object                 */
};

enum { BENCH_VARIANTS_MAX = 8, BENCH_SUBJECTS_MAX = 24 };

struct bench_workload {
    const char *name;
    const char *question; /* what the figures answer                          */
    const char *metric;   /* what bench_stop reports, "ns_per_…"              */
    bool hidden;          /* runs only when asked for by name                 */
    struct bench_variant variants[BENCH_VARIANTS_MAX]; /* up to the first NULL */
    struct bench_subject subjects[BENCH_SUBJECTS_MAX]; /* up to the first NULL */
};

void bench_register(const struct bench_workload *workload);

#define BENCH_WORKLOAD(id)                                             \
    static const struct bench_workload id;                             \
    __attribute__((constructor)) static void bench_register_##id(void) \
    {                                                                  \
        bench_register(&id);                                           \
    }                                                                  \
    static const struct bench_workload id

/* ---- for the code of a subject ----------------------------------------- */

/* The variant's name, to choose by. */
bool bench_variant_is(const struct bench *b, const char *name);

/* The subject's `object`. */
const void *bench_object(const struct bench *b);

/* How often to do the work: `full`, or a fiftieth of it with --quick. */
uint64_t bench_count(const struct bench *b, uint64_t full);

/* In a pinned variant binds the calling thread: index 0 and 1 are two CPUs, or
 * the same one where the variant has one.  In others it does nothing.  The
 * thread that runs the subject has been placed at 0.  bench_cpu gives the number
 * of that CPU, for another program, or -1 in a variant that is not pinned. */
void bench_place(const struct bench *b, int index);
int bench_cpu(const struct bench *b, int index);

/* Time starts; time stops after `operations`, and the workload's metric and
 * cpu_<metric> (CPU time of all threads) are reported. */
void bench_start(struct bench *b);
void bench_stop(struct bench *b, uint64_t operations);

/* Reports another figure.  A name that ends in "_per_s" is better when high, unless it
 * starts with "cpu_" or "wakeups_". */
void bench_report(struct bench *b, const char *metric, double value);

/* Ends the run: this subject cannot do this variant here. */
_Noreturn void bench_skip(const struct bench *b, const char *reason);

/* Becomes another program, for a peer in another language, which measures itself:
 * argv[0] is its path and the list ends with NULL.  On its standard output it
 * writes "value METRIC NUMBER", "skip REASON" or "fail WHAT", a line each, and it
 * exits with 0 if its figures count. */
_Noreturn void bench_exec(const struct bench *b, const char *const argv[]);

/* Ends the run as failed unless the condition holds. */
#define BENCH_CHECK(b, condition) \
    ((condition) ? (void)0 : bench_fail((b), #condition, __FILE__, __LINE__))
_Noreturn void bench_fail(const struct bench *b, const char *what, const char *file,
                          int line);

/* Runs fn(arg) on a second thread, on the CPU bench_place(1) gives. */
struct bench_thread;
struct bench_thread *bench_thread_start(struct bench *b, void (*fn)(void *), void *arg);
void bench_thread_join(struct bench_thread *thread);

/* Keeps the compiler from moving or dropping what is measured. */
#define BENCH_KEEP(pointer) __asm__ __volatile__("" : : "r"(pointer) : "memory")

/* Versions of the peers everybody has. */
const char *bench_glibc_version(void);

#endif /* BENCH_H */
