/* SPDX-License-Identifier: MIT */
/*
 * test_report.c - reports under fire: stacks asked of threads that are in the middle
 * of malloc and of the dynamic linker, and a storm of refusals while reports are made.
 */
#include "full_pool.h"
#include "test.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <spindle/clock.h>
#include <spindle/log.h>
#include <spindle/report.h>

#define DEFERRED_SIGNALS T_TSAN /* it delivers them when it sees fit */

static char folder[64];

/* Reports are counted here, not read. */
__attribute__((constructor)) static void be_quiet(void)
{
    (void)spn_log_set_level(SPN_LOG_OFF);
}

static void make_folder(void)
{
    strcpy(folder, "/tmp/spindle-report-XXXXXX");
    REQUIRE(mkdtemp(folder) != NULL);
}

/* ---- P34: in the middle of malloc and dlopen ----------------------------------------- */

enum { CHURNERS = 4 };
#define ANSWER_NS SPN_SEC(1) /* the report waits for answers so long */

struct churn {
    spn_task task;
    uint64_t random;
    int64_t longest_ns; /* from one round to the next; read when it has ended */
};

static atomic_int churning, stop_churning;

static int churn(spn_task *task)
{
    struct churn *c = (struct churn *)(void *)task;
    int64_t last_ns = spn_now();

    atomic_fetch_add(&churning, 1);
    while (atomic_load_explicit(&stop_churning, memory_order_relaxed) == 0) {
        const int64_t now_ns = spn_now();
        void *blocks[16], *library;

        if (now_ns - last_ns > c->longest_ns)
            c->longest_ns = now_ns - last_ns;
        last_ns = now_ns;
        for (int i = 0; i < 16; i++) {
            blocks[i] = malloc(1 + t_random(&c->random) % 20000);
            REQUIRE(blocks[i] != NULL);
            *(volatile char *)blocks[i] = 1;
        }
        /* Not all the time: the names in a report want the linker's lock too. */
        library = t_random(&c->random) % 8 == 0
                      ? dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL)
                      : NULL;
        if (library != NULL) {
            CHECK(dlsym(library, "cos") != NULL);
            dlclose(library);
        }
        for (int i = 0; i < 16; i++)
            free(blocks[i]);
    }
    return 0;
}

struct answers {
    atomic_int reports, frames, silent, unwritten;
};

static void count_answers(void *ctx, const spn_exhaustion *what)
{
    struct answers *a = ctx;
    FILE *file = what->file != NULL ? fopen(what->file, "r") : NULL;
    char line[4096];

    if (file == NULL) {
        atomic_fetch_add(&a->unwritten, 1);
    } else {
        while (fgets(line, sizeof line, file) != NULL) {
            if (strncmp(line, "    #", 5) == 0)
                atomic_fetch_add(&a->frames, 1);
            if (strstr(line, "did not answer") != NULL)
                atomic_fetch_add(&a->silent, 1);
        }
        fclose(file);
        unlink(what->file);
    }
    atomic_fetch_add(&a->reports, 1);
}

static void dump_many_times(int times)
{
    spn_reject_report_opts ropts = SPN_REJECT_REPORT_OPTS_INIT;
    spn_pool_opts opts = SPN_POOL_OPTS_INIT;
    struct churn tasks[CHURNERS];
    struct answers a = { 0 };
    spn_reject_report *report;
    struct item item;
    spn_pool *pool;
    uint64_t seed = t_seed();
    int64_t longest_ns = 0;

    make_folder();
    atomic_store(&churning, 0);
    atomic_store(&stop_churning, 0);
    ropts.dir = folder;
    ropts.interval_ns = 1;
    ropts.max_frames = 6;
    ropts.exhausted = count_answers;
    ropts.ctx = &a;
    REQUIRE_OK(spn_reject_report_create(&report, &ropts));
    opts.name = "churn";
    opts.core_threads = opts.max_threads = CHURNERS;
    opts.queue_capacity = SPN_HANDOFF;
    opts.reject = spn_reject_report_policy(report);
    REQUIRE_OK(spn_pool_create(&pool, &opts));
    for (int i = 0; i < CHURNERS; i++) {
        tasks[i] = (struct churn){ .task = SPN_TASK_INIT(churn, NULL),
                                   .random = t_random(&seed) };
        REQUIRE_OK(spn_executor_execute(spn_pool_executor(pool), &tasks[i].task));
    }
    T_AWAIT(atomic_load(&churning) == CHURNERS);
    item_init(&item);
    for (int i = 0; i < times; i++) {
        /* A report that is just coming to its end swallows the refusal.  The pause
         * leaves the CPUs to those who are asked: theirs is the time it takes. */
        while (atomic_load(&a.reports) == i) {
            CHECK_STATUS(spn_executor_execute(spn_pool_executor(pool), &item.task),
                         SPN_EREJECTED);
            t_pause();
        }
    }
    atomic_store(&stop_churning, 1);
    CHECK_OK(spn_pool_close(pool));
    check_law(pool);
    CHECK_OK(spn_pool_destroy(pool));
    CHECK_OK(spn_reject_report_destroy(report));
    CHECK_EQ(atomic_load(&a.unwritten), 0);
    for (int i = 0; i < CHURNERS; i++)
        if (tasks[i].longest_ns > longest_ns)
            longest_ns = tasks[i].longest_ns;
    if (!DEFERRED_SIGNALS) {
        /* A thread has a second to answer, and one that gets no CPU for so long, which
         * happens on a machine with much else to do, is left out: in that report, and
         * in those that begin before it goes on.  A thread that ran did answer. */
        if (!CHECK(atomic_load(&a.silent) == 0 || longest_ns >= ANSWER_NS))
            fprintf(stderr, "  %d silent, but the longest stop was %.3f s\n",
                    atomic_load(&a.silent), (double)longest_ns / 1e9);
        CHECK(atomic_load(&a.frames) >= times * CHURNERS - atomic_load(&a.silent));
    }
    CHECK_EQ(rmdir(folder), 0);
}

/* Reports come through, complete, whatever the threads are in the middle of. */
TEST(report__threads_allocate_and_load__every_report_complete, "P34", "X-14")
{
    dump_many_times(DEFERRED_SIGNALS ? 3 : t_rounds(50));
}

/* The same ten thousand times; with other allocators it is run with LD_PRELOAD. */
TEST_WHEN_NAMED(report__ten_thousand_dumps__all_complete)
{
    dump_many_times(DEFERRED_SIGNALS ? 30 : 10000);
}

/* ---- P33: a storm ---------------------------------------------------------------------- */

enum { BUCKETS = 64 };

struct storm {
    spn_executor *executor;
    int64_t until_ns;
    const atomic_int *reports; /* NULL: none; else it goes on until there are so many */
    int least;
    atomic_llong refused, slowest_ns;
    atomic_llong times[BUCKETS]; /* by the power of two of nanoseconds */
};

static void be_refused(int index, void *arg)
{
    struct storm *storm = arg;
    struct item item;
    int64_t now_ns = spn_now();

    (void)index;
    item_init(&item);
    while (now_ns < storm->until_ns ||
           (storm->reports != NULL && atomic_load(storm->reports) < storm->least)) {
        const int64_t began_ns = now_ns;
        int bucket = 0;

        CHECK_STATUS(spn_executor_execute(storm->executor, &item.task), SPN_EREJECTED);
        now_ns = spn_now();
        while ((now_ns - began_ns) >> bucket > 1)
            bucket++;
        atomic_fetch_add_explicit(&storm->times[bucket], 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&storm->refused, 1, memory_order_relaxed);
    }
}

/* The upper end of the bucket in which the 99th percentile lies. */
static int64_t p99_of(struct storm *storm)
{
    const int64_t wanted = atomic_load(&storm->refused) * 99 / 100;
    int64_t sum = 0;

    for (int i = 0; i < BUCKETS - 1; i++) {
        sum += atomic_load(&storm->times[i]);
        if (sum >= wanted)
            return INT64_C(2) << i;
    }
    return INT64_MAX;
}

static int64_t storm_with(const spn_reject_policy *policy, int64_t for_ns,
                          const atomic_int *reports, int least, int64_t *refused)
{
    const spn_pool_opts opts = full_pool_opts(policy, 1);
    struct storm storm = { .reports = reports, .least = least };
    struct full_pool f;

    full_pool_start(&f, &opts);
    storm.executor = f.executor;
    storm.until_ns = spn_now() + for_ns;
    t_parallel(T_THREADS, be_refused, &storm);
    CHECK_EQ(pool_stats(f.pool).rejected, atomic_load(&storm.refused));
    full_pool_stop(&f);
    *refused = atomic_load(&storm.refused);
    return p99_of(&storm);
}

/* 99 of 100 refusals take no longer while reports are made than without any, within
 * what a busy machine does to both; and there is at most one report per interval, with
 * another one in the next. */
TEST(report__storm__submitters_not_slowed, "P33", "X-14")
{
    const int64_t for_ns = SPN_SEC(1), interval_ns = SPN_MS(100);
    spn_reject_report_opts ropts = SPN_REJECT_REPORT_OPTS_INIT;
    struct answers a = { 0 };
    int64_t without_ns, with_ns, refused, refused_with, began_ns, most;
    spn_reject_report *report;

    make_folder();
    without_ns = storm_with(spn_reject_abort(), for_ns, NULL, 0, &refused);
    ropts.dir = folder;
    ropts.interval_ns = interval_ns;
    ropts.exhausted = count_answers;
    ropts.ctx = &a;
    REQUIRE_OK(spn_reject_report_create(&report, &ropts));
    began_ns = spn_now();
    /* Two reports: a machine that stands still may leave time for one in a second.  Where
     * threads do not answer, a report takes as long as it waits for them. */
    with_ns = storm_with(spn_reject_report_policy(report), for_ns, &a.reports,
                         DEFERRED_SIGNALS ? 1 : 2, &refused_with);
    most = (spn_now() - began_ns) / interval_ns + 1;
    CHECK_OK(spn_reject_report_destroy(report));
    printf("     refused %lld/s, p99 below %lld ns; with %d reports %lld/s, %lld ns\n",
           (long long)(refused * SPN_SEC(1) / for_ns), (long long)without_ns,
           atomic_load(&a.reports), (long long)(refused_with * SPN_SEC(1) / for_ns),
           (long long)with_ns);
    CHECK(with_ns <= 8 * without_ns || with_ns <= SPN_US(100));
    CHECK(atomic_load(&a.reports) <= most);
    CHECK_EQ(rmdir(folder), 0);
}
