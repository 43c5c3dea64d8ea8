/* SPDX-License-Identifier: MIT */
/*
 * fj_load.c - times a fork/join runtime, and sees that what it computes is right.
 */
#include "fj_load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"

enum {
    COMMAND_MAX = 8,
    FIB_QUICK = 20,
    FIB_WARM_UP = 4,  /* as much smaller       */
    WARM_UP_PART = 5, /* of the numbers        */
    ROOTS_WARM_UP = 41,
    WARM_UP_MS = 200,
    SETTLE_MS = 1
};

/* Nodes below the root, by roots; the kernel's seed and bounds give these. */
static const struct {
    uint64_t roots, nodes;
} trees[] = { { FJ_ROOTS, 2038992 }, { ROOTS_WARM_UP, 3953 } };

uint64_t fj_fib_number(int n)
{
    uint64_t a = 0, b = 1;

    while (n-- > 0) {
        const uint64_t sum = a + b;

        a = b;
        b = sum;
    }
    return a;
}

/* ---- a program instead ------------------------------------------------------ */

static void run_program(struct bench *b, const struct fj_kind *kind,
                        const char *workload, int workers, uint64_t count)
{
    char numbers[2][24];
    const char *argv[COMMAND_MAX + 5];
    int n = 0;

    while (n < COMMAND_MAX && kind->command[n] != NULL) {
        argv[n] = kind->command[n];
        n++;
    }
    snprintf(numbers[0], sizeof(numbers[0]), "%d", workers);
    snprintf(numbers[1], sizeof(numbers[1]), "%ju", (uintmax_t)count);
    argv[n++] = workload;
    argv[n++] = kind->program_kind;
    argv[n++] = numbers[0];
    argv[n++] = numbers[1];
    argv[n] = NULL;
    bench_exec(b, argv);
}

/* Does not return where a program does the work. */
static void *create(struct bench *b, const struct fj_kind *kind, const char *workload,
                    uint64_t count)
{
    const int workers = bench_variant_is(b, "1w") ? 1 : 2;
    void *pool;

    if (kind->command != NULL)
        run_program(b, kind, workload, workers, count);
    pool = kind->create(workers);
    BENCH_CHECK(b, pool != NULL);
    return pool;
}

static int64_t now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* ---- W4 ------------------------------------------------------------------------- */

void fj_run_fib(struct bench *b)
{
    const struct fj_kind *kind = bench_object(b);
    const int full = kind->fib_max != 0 ? kind->fib_max : FJ_FIB;
    const int n = bench_count(b, 1000) < 1000 ? FIB_QUICK : full;
    void *pool = create(b, kind, "W4", (uint64_t)n);
    const int64_t warm_ms = now_ms() + (int64_t)bench_count(b, WARM_UP_MS);
    uint64_t result;

    do
        BENCH_CHECK(b,
                    kind->fib(pool, n - FIB_WARM_UP) == fj_fib_number(n - FIB_WARM_UP));
    while (now_ms() < warm_ms);
    bench_start(b);
    result = kind->fib(pool, n);
    bench_stop(b, fj_fib_number(n + 1) - 1);
    BENCH_CHECK(b, result == fj_fib_number(n));
    kind->destroy(pool);
}

/* ---- W5 ------------------------------------------------------------------------- */

static uint64_t sum_of(const uint32_t *a, size_t n)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += a[i];
    return sum;
}

static void check_sorted(struct bench *b, const uint32_t *a, size_t n, uint64_t sum)
{
    for (size_t i = 1; i < n; i++)
        BENCH_CHECK(b, a[i - 1] <= a[i]);
    BENCH_CHECK(b, sum_of(a, n) == sum);
}

void fj_run_sort(struct bench *b)
{
    const struct fj_kind *kind = bench_object(b);
    const size_t n = bench_count(b, FJ_SORTED), part = n / WARM_UP_PART;
    void *pool = create(b, kind, "W5", n);
    uint32_t *a = malloc(n * sizeof(*a)), *t = malloc(n * sizeof(*t));
    uint64_t sum;

    BENCH_CHECK(b, a != NULL && t != NULL);
    memset(t, 1, n * sizeof(*t));
    fj_fill(a, n);
    sum = sum_of(a, part);
    kind->sort(pool, a, part, t);
    check_sorted(b, a, part, sum);

    fj_fill(a, n);
    sum = sum_of(a, n);
    bench_start(b);
    kind->sort(pool, a, n, t);
    bench_stop(b, 1000000); /* nanoseconds to milliseconds */
    check_sorted(b, a, n, sum);
    kind->destroy(pool);
    free(a);
    free(t);
}

/* ---- W7 ------------------------------------------------------------------------- */

static uint64_t search(struct bench *b, const struct fj_kind *kind, void *pool,
                       uint64_t roots)
{
    const uint64_t nodes = kind->search(pool, roots);

    for (size_t i = 0; i < sizeof(trees) / sizeof(trees[0]); i++)
        BENCH_CHECK(b, trees[i].roots != roots || trees[i].nodes == nodes);
    return nodes;
}

void fj_run_search(struct bench *b)
{
    const struct fj_kind *kind = bench_object(b);
    const uint64_t roots = bench_count(b, FJ_ROOTS);
    void *pool = create(b, kind, "W7", roots);
    const int64_t warm_ms = now_ms() + (int64_t)bench_count(b, WARM_UP_MS);
    uint64_t nodes;

    do
        (void)search(b, kind, pool, ROOTS_WARM_UP);
    while (now_ms() < warm_ms);
    bench_start(b);
    nodes = search(b, kind, pool, roots);
    bench_stop(b, nodes);
    kind->destroy(pool);
}

/* ---- W8 ------------------------------------------------------------------------- */

static void nap(uint64_t ms)
{
    const struct timespec t = { (time_t)(ms / 1000), (long)(ms % 1000) * 1000000 };

    nanosleep(&t, NULL);
}

static double cpu_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

void fj_run_idle(struct bench *b)
{
    const struct fj_kind *kind = bench_object(b);
    const uint64_t ms = bench_count(b, FJ_IDLE_MS);
    void *pool = create(b, kind, "W8", ms);
    double before;

    (void)search(b, kind, pool, FJ_ROOTS);
    nap(SETTLE_MS);
    before = cpu_ms();
    nap(ms);
    bench_report(b, "cpu_ms_per_s", (cpu_ms() - before) * 1000 / (double)ms);
    kind->destroy(pool);
}

/* ---- the sequential twin ------------------------------------------------------------ */

static void *sequential_create(int workers)
{
    static char nothing;

    (void)workers;
    return &nothing;
}

static void sequential_destroy(void *pool)
{
    (void)pool;
}

static __attribute__((noinline)) uint64_t fib(int n)
{
    return n < 2 ? (uint64_t)n : fib(n - 1) + fib(n - 2);
}

static uint64_t sequential_fib(void *pool, int n)
{
    (void)pool;
    return fib(n);
}

static void sequential_sort(void *pool, uint32_t *a, size_t n, uint32_t *t)
{
    (void)pool;
    fj_sort(a, n, t, false);
}

static uint64_t visit(uint64_t parent, uint64_t index)
{
    const uint64_t node = fj_child(parent, index);
    const unsigned children = fj_children(node);
    uint64_t nodes = 1;

    for (unsigned i = 0; i < children; i++)
        nodes += visit(node, i);
    return nodes;
}

static uint64_t sequential_search(void *pool, uint64_t roots)
{
    uint64_t nodes = 0;

    (void)pool;
    for (uint64_t i = 0; i < roots; i++)
        nodes += visit(FJ_TREE_SEED, i);
    return nodes;
}

const struct fj_kind fj_sequential = { .create = sequential_create,
                                       .destroy = sequential_destroy,
                                       .fib = sequential_fib,
                                       .sort = sequential_sort,
                                       .search = sequential_search };
