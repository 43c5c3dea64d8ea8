/* SPDX-License-Identifier: MIT */
/* test_url_pool.c - pools made of URLs, and changed by them. */
#include "counting.h"
#include "pool_calls.h"
#include "test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <spindle.h>

static spn_problem problem;

static spn_url *read_url(const char *text)
{
    spn_url *url;

    REQUIRE_OK(spn_url_parse(&url, text, NULL));
    return url;
}

static int make(spn_url_pool **out, const char *text, const spn_url_pool_opts *opts)
{
    spn_url *url = read_url(text);
    const int rc = spn_url_pool_create(out, url, opts, &problem);

    spn_url_unref(url);
    return rc;
}

static void finish(spn_url_pool *up)
{
    CHECK_OK(spn_pool_close(spn_url_pool_pool(up)));
    CHECK_OK(spn_url_pool_destroy(up));
}

/* The four pools with Dubbo's defaults, and with each key. */
TEST(url_pool__each_kind__has_its_defaults, "REP-1", "REP-2", "REP-3", "X-13")
{
    static const struct {
        const char *text;
        int32_t core, max;
        int64_t alive_ns, capacity;
    } shapes[] = {
        { "h:1?x=y", 200, 200, 0, 0 },
        { "h:1?threadpool=fixed&threads=2&queues=0", 2, 2, 0, 0 },
        { "h:1?threadpool=fixed&threads=2&queues=1&alive=7", 2, 2, 0, 1 },
        { "h:1?threadpool=fixed&threads=3&queues=-1", 3, 3, 0, INT64_MAX },
        { "h:1?threadpool=cached", 0, SPN_POOL_THREADS_MAX, SPN_SEC(60), 0 },
        { "h:1?threadpool=cached&corethreads=1&threads=2&alive=1000", 1, 2, SPN_SEC(1),
          0 },
        { "h:1?threadpool=cached&queues=5&threads=2147483647", 0, SPN_POOL_THREADS_MAX,
          SPN_SEC(60), 5 },
        { "h:1?threadpool=limited", 0, 200, SPN_FOREVER, 0 },
        { "h:1?threadpool=limited&corethreads=1&threads=2&queues=1", 1, 2, SPN_FOREVER,
          1 },
        { "h:1?threadpool=eager&corethreads=1&threads=2&alive=1000&queues=0", 1, 2,
          SPN_SEC(1), 1 },
        { "h:1?threadpool=eager&queues=2", 0, SPN_POOL_THREADS_MAX, SPN_SEC(60), 2 },
        { "h:1?threadpool=eager&queues=-3", 0, SPN_POOL_THREADS_MAX, SPN_SEC(60), 1 },
    };

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        spn_pool_stats stats = SPN_POOL_STATS_INIT;
        spn_url_pool *up;

        REQUIRE_OK(make(&up, shapes[i].text, NULL));
        CHECK_OK(spn_pool_stats_get(spn_url_pool_pool(up), &stats));
        CHECK_EQ(stats.core_threads, shapes[i].core);
        CHECK_EQ(stats.max_threads, shapes[i].max);
        CHECK_EQ(stats.keep_alive_ns, shapes[i].alive_ns);
        CHECK_EQ(stats.capacity, shapes[i].capacity);
        CHECK_STR(pool_stats(spn_url_pool_pool(up)).name, "Dubbo");
        CHECK_EQ(pool_stats(spn_url_pool_pool(up)).threads, 0);
        finish(up);
    }
}

static int note_name(void *arg)
{
    return spn_thread_name(spn_thread_current(), arg, 64) >= 0 ? 0 : -1;
}

/* Names: the URL's, the program's, Dubbo's. */
TEST(url_pool__threads__are_named, "REP-4")
{
    spn_url_pool_opts opts = SPN_URL_POOL_OPTS_INIT;
    char name[64] = "";
    spn_url_pool *up;

    opts.name = "mine";
    opts.threadpool = "cached";
    REQUIRE_OK(make(&up, "h:1?threadname=demo", &opts));
    CHECK_EQ(pool_stats(spn_url_pool_pool(up)).core_threads, 0); /* cached */
    CHECK_OK(spn_executor_call(spn_url_pool_executor(up), note_name, name));
    finish(up);
    CHECK_STR(name, "demo-thread-1");
    REQUIRE_OK(make(&up, "h:1?threadpool=fixed", &opts));
    CHECK_EQ(pool_stats(spn_url_pool_pool(up)).core_threads, 200);
    CHECK_STR(pool_stats(spn_url_pool_pool(up)).name, "mine");
    finish(up);
}

/* What is wrong names its key, or lists what there is; no pool is made. */
TEST(url_pool__wrong_values__are_told, "REP-1", "REP-6")
{
    static const struct {
        const char *text, *says;
        int rc;
    } wrong[] = {
        { "h?threadpool=fast", "'fast'; there are: cached, eager, fixed, limited",
          SPN_EEMPTY },
        { "h?reject=x",
          "abort, block, caller-runs, chain, discard, discard-oldest, new-thread, "
          "report",
          SPN_EEMPTY },
        { "h?reject=abort:block", "'abort:block' is no name for a reject", SPN_EINVAL },
        { "h?queue=x", "fifo, lanes, priority", SPN_EEMPTY },
        { "h?threads=many", "threads=many is no number", SPN_EINVAL },
        { "h?threads=0", "threads=0", SPN_ERANGE },
        { "h?threads=-1", "threads=-1", SPN_ERANGE },
        { "h?threads=2147483648", "threads=2147483648", SPN_ERANGE },
        { "h?threadpool=cached&corethreads=-1", "corethreads=-1", SPN_ERANGE },
        { "h?threadpool=cached&corethreads=3&threads=2", "corethreads=3", SPN_EINVAL },
        { "h?threadpool=limited&corethreads=201", "corethreads=201", SPN_EINVAL },
        { "h?threadpool=eager&alive=x", "alive=x", SPN_EINVAL },
        { "h?threadpool=eager&alive=-1", "alive=-1", SPN_ERANGE },
        { "h?queues=1e3", "queues=1e3", SPN_EINVAL },
        { "h?reject=block&reject.timeout=0", "reject.timeout=0", SPN_ERANGE },
        { "h?queue=lanes", "queues=-1", SPN_EINVAL },
        { "h?queue=priority", "queues=-1", SPN_EINVAL },
    };
    const long live = atomic_load(&counting_live);

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        spn_url_pool *up = (void *)&problem;

        CHECK_STATUS(make(&up, wrong[i].text, NULL), wrong[i].rc);
        CHECK(up == NULL);
        if (!CHECK(strstr(problem.text, wrong[i].says) != NULL))
            printf("  %s: %s\n", wrong[i].text, problem.text);
    }
    CHECK_EQ(atomic_load(&counting_live), live);
}

/* ---- refusing ------------------------------------------------------------------------------ */

static char message[1024], dump[1024];
static atomic_int told;

static void on_exhausted(void *ctx, const spn_exhaustion *what)
{
    (void)ctx;
    (void)snprintf(message, sizeof message, "%s", what->message);
    (void)snprintf(dump, sizeof dump, "%s", what->file != NULL ? what->file : "");
    atomic_fetch_add(&told, 1);
}

static int wait_for(void *arg)
{
    T_AWAIT(atomic_load((atomic_int *)arg) != 0);
    return 0;
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

/* A full pool refuses with a report: the line with its address, a file or none. */
TEST(url_pool__exhausted__reports, "REP-5", "X-14")
{
    spn_url_pool_opts opts = SPN_URL_POOL_OPTS_INIT;
    char directory[] = "/tmp/spindle-url-pool-XXXXXX", text[512];
    spn_url_pool *up;

    REQUIRE(mkdtemp(directory) != NULL);
    opts.exhausted = on_exhausted;
    for (int stacks = 0; stacks < 2; stacks++) {
        atomic_int gate = 0;

        atomic_store(&told, 0);
        (void)
            snprintf(text, sizeof text,
                     "dubbo://10.0.0.1:20880?threads=1&threadname=full&dump.enable=%s&"
                     "dump.directory=%s/made",
                     stacks != 0 ? "true" : "false", directory);
        REQUIRE_OK(make(&up, text, &opts));
        CHECK_OK(spn_executor_call(spn_url_pool_executor(up), wait_for, &gate));
        for (int i = 0; i < 100; i++)
            CHECK_STATUS(spn_executor_call(spn_url_pool_executor(up), nothing, NULL),
                         SPN_EREJECTED);
        T_AWAIT(atomic_load(&told) != 0);
        CHECK(strstr(message, "Thread pool is EXHAUSTED! Thread Name: full") != NULL);
        CHECK(strstr(message, "in dubbo://10.0.0.1:20880!") != NULL);
        CHECK_EQ(strncmp(dump, directory, strlen(directory)) == 0, stacks);
        atomic_store(&gate, 1);
        finish(up);
        CHECK_EQ(atomic_load(&told), 1);
        if (stacks != 0)
            CHECK_EQ(unlink(dump), 0);
    }
    (void)snprintf(text, sizeof text, "%s/made", directory);
    CHECK_EQ(rmdir(text), 0);
    CHECK_EQ(rmdir(directory), 0);
}

/* A task that tells what a policy did with it. */
struct refused {
    spn_task task;
    atomic_int here, elsewhere, dropped; /* how often */
    spn_thread *submitter;
};

static int refused_run(spn_task *task)
{
    struct refused *r = (struct refused *)(void *)task;

    atomic_fetch_add(spn_thread_current() == r->submitter ? &r->here : &r->elsewhere,
                     1);
    return 0;
}

static void refused_drop(spn_task *task, int reason)
{
    (void)reason;
    atomic_fetch_add(&((struct refused *)(void *)task)->dropped, 1);
}

/* Of a pool with one thread, which is held, and a place, which is taken: what becomes of
 * the task that waits and of the next one. */
static void refuse_one(const char *text, struct refused two[2], int expected)
{
    atomic_int gate = 0;
    spn_url_pool *up;

    REQUIRE_OK(make(&up, text, NULL));
    for (int i = 0; i < 2; i++)
        two[i] = (struct refused){ .task = SPN_TASK_INIT(refused_run, refused_drop),
                                   .submitter = spn_thread_current() };
    CHECK_OK(spn_executor_call(spn_url_pool_executor(up), wait_for, &gate));
    CHECK_OK(spn_executor_execute(spn_url_pool_executor(up), &two[0].task));
    CHECK_STATUS(spn_executor_execute(spn_url_pool_executor(up), &two[1].task),
                 expected);
    atomic_store(&gate, 1);
    finish(up);
    CHECK_EQ(two[0].elsewhere + two[0].dropped, 1);
}

/* The other policies by name: each does what it is named for. */
TEST(url_pool__policies__by_name, "REP-5")
{
    static const struct {
        const char *name;
        int rc, here, elsewhere, dropped, oldest_dropped;
    } rows[] = {
        { "abort", SPN_EREJECTED, 0, 0, 0, 0 },
        { "caller-runs", SPN_OK, 1, 0, 0, 0 },
        { "discard", SPN_OK, 0, 0, 1, 0 },
        { "discard-oldest", SPN_OK, 0, 1, 0, 1 },
        { "new-thread", SPN_OK, 0, 1, 0, 0 },
        { "block", SPN_ETIMEDOUT, 0, 0, 0, 0 },
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct refused two[2];
        char text[128];

        (void)snprintf(text, sizeof text,
                       "h?threads=1&queues=1&reject=%s&reject.timeout=1", rows[i].name);
        refuse_one(text, two, rows[i].rc);
        CHECK_EQ(two[1].here, rows[i].here);
        T_AWAIT(atomic_load(&two[1].elsewhere) == rows[i].elsewhere);
        CHECK_EQ(two[1].dropped, rows[i].dropped);
        CHECK_EQ(two[0].dropped, rows[i].oldest_dropped);
    }
}

/* A chain asks its members in order, each with the keys it has alone. */
TEST(url_pool__chain__asks_its_members_in_turn, "REP-19", "S-6")
{
    const int64_t before_ns = spn_now();
    struct refused two[2];
    spn_url_pool *up;

    refuse_one("h?threads=1&queues=1&reject=chain: block , caller-runs,"
               "&reject.timeout=5",
               two, SPN_OK);
    CHECK(spn_now() - before_ns >= SPN_MS(5));
    CHECK_EQ(two[1].here, 1);
    refuse_one("h?threads=1&queues=1&reject=chain:discard,caller-runs", two, SPN_OK);
    CHECK_EQ(two[1].dropped, 1);
    REQUIRE_OK(make(&up,
                    "h?reject=chain:abort,abort,abort,abort,abort,abort,abort,abort",
                    NULL));
    finish(up);
}

static int count_run(void *arg)
{
    return ++*(int *)arg > 0 ? 0 : -1;
}

/* A full pool with a chain: the block policy waits its time, then the submitter runs the
 * task; the report says its line before the next one is asked. */
TEST(url_pool__chain__second_takes_what_the_first_refuses, "REP-19", "REP-5")
{
    static const char *const texts[] = {
        "h?threads=1&reject=chain:block,caller-runs&reject.timeout=1",
        "h?threads=1&reject=chain:report,caller-runs&dump.enable=false"
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        spn_url_pool_opts opts = SPN_URL_POOL_OPTS_INIT;
        spn_pool_stats stats = SPN_POOL_STATS_INIT;
        atomic_int gate = 0;
        spn_url_pool *up;
        int runs = 0;

        opts.exhausted = on_exhausted;
        atomic_store(&told, 0);
        REQUIRE_OK(make(&up, texts[i], &opts));
        CHECK_OK(spn_executor_call(spn_url_pool_executor(up), wait_for, &gate));
        CHECK_OK(spn_executor_call(spn_url_pool_executor(up), count_run, &runs));
        CHECK_EQ(runs, 1); /* by then, so here */
        if (i == 1)
            T_AWAIT(atomic_load(&told) != 0);
        atomic_store(&gate, 1);
        CHECK_OK(spn_pool_stats_get(spn_url_pool_pool(up), &stats));
        CHECK_EQ(stats.caller_ran, 1);
        finish(up);
    }
}

/* What cannot be a chain is told, with what there is, and nothing made for it is left. */
TEST(url_pool__chain__wrong_ones_are_told, "REP-19", "REP-6")
{
    static const struct {
        const char *text, *says;
        int rc;
    } wrong[] = {
        { "h?reject=chain",
          "reject=chain: the chain is empty; expected 1 to 8 policies", SPN_EINVAL },
        { "h?reject=chain:", "the chain is empty", SPN_EINVAL },
        { "h?reject=chain:,, ,", "the chain is empty", SPN_EINVAL },
        { "h?reject=chain:block,fast",
          "there is no reject 'fast'; there are: abort, block", SPN_EEMPTY },
        { "h?reject=chain:report,Block",
          "a name has a-z, 0-9, _ and -; expected 1 to 8 policies", SPN_EINVAL },
        { "h?reject=chain:block,chain", "a chain cannot be in a chain", SPN_EINVAL },
        { "h?reject=chain:chain:block", "there are: abort, block, caller-runs, chain",
          SPN_EINVAL },
        { "h?reject=chain:block,report,block,block,block,block,block,block,abort",
          "too many policies", SPN_ERANGE },
        { "h?reject=chain:abort,block&reject.timeout=x", "reject.timeout=x",
          SPN_EINVAL },
        { "h?reject=chain:abort,"
          "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
          "there are: abort, block, caller-runs, chain, discard", SPN_EINVAL },
    };
    const long live = atomic_load(&counting_live);

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        spn_url_pool *up = (void *)&problem;

        CHECK_STATUS(make(&up, wrong[i].text, NULL), wrong[i].rc);
        CHECK(up == NULL);
        if (!CHECK(strstr(problem.text, wrong[i].says) != NULL))
            printf("  %s: %s\n", wrong[i].text, problem.text);
    }
    CHECK_EQ(atomic_load(&counting_live), live);
}

/* I/O threads. */
TEST(url_pool__io_threads__by_cpus, "REP-7")
{
    const int32_t cpus = spn_cpu_count();
    spn_url *url = read_url("h?iothreads=5"), *none = read_url("h?iothreads=0");
    int32_t threads;

    CHECK_OK(spn_url_io_threads(url, &threads));
    CHECK_EQ(threads, 5);
    CHECK_OK(spn_url_io_threads(none, &threads));
    CHECK_EQ(threads, cpus + 1 < 32 ? cpus + 1 : 32);
    spn_url_unref(none);
    none = read_url("h?iothreads=x");
    CHECK_STATUS(spn_url_io_threads(none, &threads), SPN_EINVAL);
    spn_url_unref(none);
    spn_url_unref(url);
}

/* ---- changing ------------------------------------------------------------------------------- */

static void change(spn_pool *pool, bool update, const char *text, int rc, int core,
                   int max)
{
    spn_url *url = read_url(text);

    CHECK_STATUS(update ? spn_url_pool_update(pool, url, &problem)
                        : spn_url_pool_reconfigure(pool, url, &problem),
                 rc);
    CHECK_EQ(pool_stats(pool).core_threads, core);
    CHECK_EQ(pool_stats(pool).max_threads, max);
    spn_url_unref(url);
}

/* Dubbo's rule in all its cases. */
TEST(url_pool__update__follows_the_asymmetric_rule, "REP-11", "S-11")
{
    spn_url_pool *up;
    spn_pool *pool;

    REQUIRE_OK(make(&up, "h?threadpool=cached&corethreads=4&threads=8", NULL));
    pool = spn_url_pool_pool(up);
    change(pool, true, "h?x=y", SPN_OK, 4, 8);
    change(pool, true, "h?threads=0", SPN_OK, 4, 8);
    change(pool, true, "h?threads=-5", SPN_OK, 4, 8);
    change(pool, true, "h?threads=x", SPN_EINVAL, 4, 8);
    change(pool, true, "h?threads=2", SPN_OK, 2, 8);   /* below core: max stays */
    change(pool, true, "h?threads=6", SPN_OK, 2, 6);   /* between: max is lowered */
    change(pool, true, "h?threads=10", SPN_OK, 2, 10); /* above: max only */
    change(pool, true, "h?threads=2", SPN_OK, 2, 2);   /* equal to core: max */
    change(pool, true, "h?threads=5", SPN_OK, 5, 5);   /* fixed: both, up */
    change(pool, true, "h?threads=5", SPN_OK, 5, 5);
    change(pool, true, "h?threads=3", SPN_OK, 3, 3); /* fixed: both, down */
    change(pool, true, "h?threads=4&corethreads=1&alive=5&queues=7", SPN_OK, 4, 4);
    CHECK_EQ(pool_stats(pool).keep_alive_ns, SPN_SEC(60));
    change(pool, true, "h?threads=2147483647", SPN_OK, SPN_POOL_THREADS_MAX,
           SPN_POOL_THREADS_MAX);
    CHECK_OK(spn_pool_close(pool));
    change(pool, true, "h?threads=9", SPN_OK, SPN_POOL_THREADS_MAX,
           SPN_POOL_THREADS_MAX);
    CHECK_OK(spn_url_pool_destroy(up));
}

/* All knobs in one step, or none. */
TEST(url_pool__reconfigure__all_or_nothing, "REP-12")
{
    spn_pool_stats stats = SPN_POOL_STATS_INIT;
    spn_url_pool *up;
    spn_pool *pool;

    REQUIRE_OK(
        make(&up, "h?threadpool=cached&corethreads=4&threads=8&queues=10", NULL));
    pool = spn_url_pool_pool(up);
    change(pool, false, "h?x=y", SPN_OK, 4, 8);
    change(pool, false, "h?corethreads=10&threads=20&queues=30&alive=40", SPN_OK, 10,
           20);
    CHECK_OK(spn_pool_stats_get(pool, &stats));
    CHECK_EQ(stats.capacity, 30);
    CHECK_EQ(stats.keep_alive_ns, SPN_MS(40));
    change(pool, false, "h?threads=5&alive=1", SPN_EINVAL, 10, 20); /* core above */
    CHECK_EQ(pool_stats(pool).keep_alive_ns, SPN_MS(40));
    CHECK_STR(problem.text, "corethreads=10 is more than threads, which is 5");
    change(pool, false, "h?queues=0&threads=30", SPN_EINVAL, 10, 20); /* to hand-off */
    change(pool, false, "h?threads=0", SPN_ERANGE, 10, 20);
    change(pool, false, "h?corethreads=x", SPN_EINVAL, 10, 20);
    change(pool, false, "h?corethreads=2&threads=3", SPN_OK, 2, 3);
    change(pool, false, "h?threads=2", SPN_OK, 2, 2);
    change(pool, false, "h?threads=7", SPN_OK, 7, 7); /* fixed stays fixed */
    change(pool, false, "h?corethreads=1", SPN_OK, 1, 7);
    finish(up);
}

/* A change of the queue that cannot be is refused with a sentence that names the key. */
TEST(url_pool__reconfigure_queues_in_vain__the_key_is_named, "REP-12")
{
    static const char *const rows[][3] = {
        { "h?threads=2", "h?queues=7&threads=3",
          "queues=7: this pool was made with queues=0 and cannot get a queue while it "
          "lives" },
        { "h?threads=2&queues=5", "h?queues=0",
          "queues=0: this pool was made with a queue and cannot lose it while it "
          "lives" },
        { "h?threads=2&queues=-1&queue=lanes", "h?queues=7",
          "queues=7: lanes are unbounded and have no capacity to change" },
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        spn_url_pool *up;

        REQUIRE_OK(make(&up, rows[i][0], NULL));
        change(spn_url_pool_pool(up), false, rows[i][1], SPN_EINVAL, 2, 2);
        CHECK_STR(problem.text, rows[i][2]);
        finish(up);
    }
}

/* As above for the other reasons of the pool: idle core threads that end, and a pool that
 * cannot be changed at all. */
TEST(url_pool__reconfigure_in_vain__the_reason_is_told, "REP-12")
{
    spn_pool_opts opts = SPN_POOL_OPTS_INIT;
    spn_pool *pool;

    opts.core_threads = 1;
    opts.core_timeout = 1;
    REQUIRE_OK(spn_pool_create(&pool, &opts));
    change(pool, false, "h?alive=0", SPN_EINVAL, 1, 1);
    CHECK_STR(
        problem.text,
        "alive=0: this pool ends idle core threads, so alive must be more than 0");
    CHECK_OK(spn_pool_close(pool));
    CHECK_OK(spn_pool_destroy(pool));
    opts = spn_pool_opts_single();
    REQUIRE_OK(spn_pool_create(&pool, &opts));
    change(pool, false, "h?queues=3", SPN_ESTATE, 1, 1);
    CHECK(strncmp(problem.text, "this pool cannot be changed: ", 29) == 0);
    CHECK_OK(spn_pool_close(pool));
    CHECK_OK(spn_pool_destroy(pool));
}

/* ---- extensions ------------------------------------------------------------------------------ */

struct doubling {
    spn_threadpool threadpool; /* first */
    const spn_threadpool *inner;
};

static int shape_twice(const spn_threadpool *self, const spn_url *url,
                       spn_pool_opts *opts, spn_problem *p)
{
    const struct doubling *d = (const struct doubling *)(const void *)self;
    const int rc = d->inner->shape(d->inner, url, opts, p);

    opts->max_threads *= 2;
    return rc;
}

static int wrap(const spn_extension *self, const void *inner, const void **out)
{
    static struct doubling d;

    (void)self;
    d = (struct doubling){ { sizeof(spn_threadpool), shape_twice }, inner };
    *out = &d;
    return 0;
}

/* A wrapper around the built-in pools; the registry is in use while the pool is there. */
TEST(url_pool__wrapped_threadpool__is_used, "EXT-10", "EXT-16")
{
    spn_extension e = { .size = sizeof e,
                        .kind = SPN_KIND_THREADPOOL,
                        .name = "twice" };
    spn_url_pool_opts opts = SPN_URL_POOL_OPTS_INIT;
    spn_extensions *x;
    spn_url_pool *up;

    e.flags = SPN_EXTENSION_WRAPPER;
    e.create = wrap;
    REQUIRE_OK(spn_extensions_create(&x, NULL));
    CHECK_OK(spn_extensions_register(x, &e, NULL));
    opts.extensions = x;
    REQUIRE_OK(make(&up, "h?threadpool=limited&threads=3", &opts));
    CHECK_EQ(pool_stats(spn_url_pool_pool(up)).max_threads, 6);
    CHECK_STATUS(spn_extensions_destroy(x), SPN_EBUSY);
    finish(up);
    CHECK_OK(spn_extensions_destroy(x));
}
