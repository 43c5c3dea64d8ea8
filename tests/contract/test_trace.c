/* SPDX-License-Identifier: MIT */
/* test_trace.c - files of task runs, read as strictly as a viewer may. */
#include <spindle/metrics.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "metrics_text.h"
#include "pool_calls.h"
#include "test.h"

static char folder[32], path[64], text[400000];
static spn_trace *trace;

static void open_trace(void)
{
    snprintf(folder, sizeof folder, "/tmp/spindle-trace-XXXXXX");
    REQUIRE(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/trace.json", folder);
    REQUIRE_OK(spn_trace_create(&trace, path));
}

/* Closes it and reads it: it is JSON as a whole. */
static void close_trace(void)
{
    const char *end;
    size_t length;
    FILE *file;

    CHECK_OK(spn_trace_close(trace));
    file = fopen(path, "r");
    REQUIRE(file != NULL);
    length = fread(text, 1, sizeof text - 1, file);
    text[length] = '\0';
    fclose(file);
    unlink(path);
    rmdir(folder);
    end = json_value(text);
    CHECK(end != NULL && strcmp(end, "\n") == 0);
}

static int count(const char *what)
{
    int found = 0;

    for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
        found++;
    return found;
}

static spn_pool *pool_of(spn_pool_opts opts)
{
    spn_pool *pool;

    REQUIRE_OK(spn_trace_install(trace, &opts.hooks));
    REQUIRE_OK(spn_pool_create(&pool, &opts));
    return pool;
}

static void end_pool(spn_pool *pool)
{
    CHECK_OK(spn_pool_close(pool));
    CHECK_OK(spn_pool_destroy(pool));
}

static int quick(void *arg)
{
    (void)arg;
    return 0;
}

/* Two pools write to one file: an event for each run, with the pool's name. */
TEST(trace__two_pools__one_event_per_run, "MET-11")
{
    spn_pool_opts opts = spn_pool_opts_fixed(2, SPN_UNBOUNDED);
    spn_pool *pools[2];

    open_trace();
    opts.name = "a \"pool\"";
    pools[0] = pool_of(opts);
    opts.name = "other";
    pools[1] = pool_of(opts);
    for (int i = 0; i < 1000; i++)
        CHECK_OK(spn_executor_call(spn_pool_executor(pools[i % 4 == 0]), quick, NULL));
    end_pool(pools[0]);
    end_pool(pools[1]);
    close_trace();
    CHECK_EQ(count("\"ph\":\"X\""), 1000);
    CHECK_EQ(count("\"cat\":\"a \\\"pool\\\"\""), 750);
    CHECK_EQ(count("\"cat\":\"other\""), 250);
}

static int run_job(spn_task *task)
{
    const int64_t until = spn_now() + SPN_MS(2);

    (void)task;
    while (spn_now() < until)
        t_pause();
    return 0;
}

/* An event has the task's label, and is as long as its run. */
TEST(trace__job__with_label_and_time, "MET-11")
{
    spn_job job = SPN_JOB_INIT(run_job, NULL);
    spn_pool *pool;
    const char *duration;

    open_trace();
    job.label = "order 7";
    pool = pool_of(spn_pool_opts_single());
    CHECK_OK(spn_executor_execute(spn_pool_executor(pool), &job.task));
    end_pool(pool);
    close_trace();
    CHECK_EQ(count("\"ph\":\"X\""), 1);
    CHECK_EQ(count("\"name\":\"order 7\""), 1);
    duration = strstr(text, "\"dur\":");
    REQUIRE(duration != NULL);
    CHECK(atof(duration + 6) >= 2000); /* microseconds */
}

/* Names that grow when they are escaped are not cut in the middle of it. */
TEST(trace__names_of_controls__still_json, "MET-11")
{
    spn_pool_opts opts = spn_pool_opts_single();
    spn_job job = SPN_JOB_INIT(run_job, NULL);
    char name[101];
    spn_pool *pool;

    memset(name, 1, sizeof name - 1);
    name[sizeof name - 1] = '\0';
    open_trace();
    opts.name = job.label = name;
    pool = pool_of(opts);
    CHECK_OK(spn_executor_execute(spn_pool_executor(pool), &job.task));
    end_pool(pool);
    close_trace();
    CHECK(strlen(text) > 2 * 6 * strlen(name)); /* both are whole */
}

static atomic_int befores, afters, uncaughts, ends;

static int own_before(spn_pool *pool, const spn_task_info *info, void *ctx)
{
    (void)pool;
    (void)info;
    CHECK(ctx == &befores);
    return atomic_fetch_add(&befores, 1) == 0 ? -1 : 0; /* refuses the first */
}

static void own_after(spn_pool *pool, const spn_task_info *info, void *ctx)
{
    (void)pool;
    (void)info;
    CHECK(ctx == &befores);
    atomic_fetch_add(&afters, 1);
}

static void own_uncaught(spn_pool *pool, const spn_task_info *info, void *ctx)
{
    (void)pool;
    (void)info;
    CHECK(ctx == &befores);
    atomic_fetch_add(&uncaughts, 1);
}

static void own_terminated(spn_pool *pool, void *ctx)
{
    (void)pool;
    CHECK(ctx == &befores);
    atomic_fetch_add(&ends, 1);
}

static int fail(void *arg)
{
    (void)arg;
    return -1;
}

/* Hooks that were there go on, task times among them; what they refuse is no run. */
TEST(trace__over_other_hooks__all_called, "MET-11")
{
    spn_task_times_opts times_opts = SPN_TASK_TIMES_OPTS_INIT;
    spn_histogram_snapshot runs = SPN_HISTOGRAM_SNAPSHOT_INIT;
    spn_pool_opts opts = spn_pool_opts_single();
    spn_task_times *times;
    spn_pool *pool;

    times_opts.every = 1;
    REQUIRE_OK(spn_task_times_create(&times, &times_opts));
    opts.hooks.before = own_before;
    opts.hooks.after = own_after;
    opts.hooks.uncaught = own_uncaught;
    opts.hooks.terminated = own_terminated;
    opts.hooks.ctx = &befores;
    REQUIRE_OK(spn_task_times_install(times, &opts.hooks));
    open_trace();
    pool = pool_of(opts);
    for (int i = 0; i < 3; i++)
        CHECK_OK(spn_executor_call(spn_pool_executor(pool), fail, NULL));
    end_pool(pool);
    close_trace();
    CHECK_EQ(count("\"ph\":\"X\""), 2);
    CHECK_EQ(atomic_load(&befores), 3);
    CHECK_EQ(atomic_load(&afters), 2);
    CHECK_EQ(atomic_load(&uncaughts), 2);
    CHECK_EQ(atomic_load(&ends), 1);
    CHECK_OK(spn_task_times_get(times, NULL, &runs));
    CHECK_EQ(runs.count, 2);
    spn_task_times_destroy(times);
}

/* A file that is there is left alone, and a folder that is not is told. */
TEST(trace__no_file_to_be_had__told, "MET-11")
{
    spn_trace *other;

    open_trace();
    CHECK_STATUS(spn_trace_create(&other, path), SPN_EFAILED);
    CHECK(other == NULL);
    CHECK_STATUS(spn_trace_create(&other, "/nowhere/at/all/trace.json"), SPN_EFAILED);
    close_trace();
    CHECK_STR(text, "[\n]\n");
    CHECK_OK(spn_trace_close(NULL));
}
