/* SPDX-License-Identifier: MIT */
/* test_report.c - the report of an exhausted pool: the line, the file, how often. */
#include "full_pool.h"
#include "peer.h"
#include "test.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <spindle/clock.h>
#include <spindle/log.h>
#include <spindle/report.h>
#include <spindle/timer.h>

#define DEFERRED_SIGNALS T_TSAN /* it delivers them when it sees fit */

/* ---- what the library said --------------------------------------------------------- */

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char log_text[16384];
static int log_lines;

static void note_line(void *ctx, spn_log_level level, const char *message)
{
    const size_t used = strlen(log_text);

    (void)ctx;
    pthread_mutex_lock(&log_lock);
    log_lines++;
    (void)snprintf(log_text + used, sizeof log_text - used, "%s: %s\n",
                   spn_log_level_name((int)level), message);
    pthread_mutex_unlock(&log_lock);
}

__attribute__((constructor)) static void listen_to_log(void)
{
    if (spn_log_set_hook(note_line, NULL) != SPN_OK)
        abort();
}

static bool log_says(const char *words)
{
    bool found;

    pthread_mutex_lock(&log_lock);
    found = strstr(log_text, words) != NULL;
    pthread_mutex_unlock(&log_lock);
    return found;
}

static void clear_log(void)
{
    pthread_mutex_lock(&log_lock);
    log_text[0] = '\0';
    log_lines = 0;
    pthread_mutex_unlock(&log_lock);
}

/* ---- a folder, a listener, a report --------------------------------------------------- */

struct heard {
    atomic_int calls;
    atomic_llong suppressed;
    char message[1024], pool[256], file[4096];
    spn_refusal refusal;
    spn_pool_stats stats;
};

static void listen(void *ctx, const spn_exhaustion *what)
{
    struct heard *h = ctx;

    (void)snprintf(h->message, sizeof h->message, "%s", what->message);
    (void)snprintf(h->pool, sizeof h->pool, "%s", what->pool);
    (void)snprintf(h->file, sizeof h->file, "%s", what->file != NULL ? what->file : "");
    h->refusal = *what->refusal;
    h->stats = *what->stats;
    h->stats.name = NULL; /* gone after the call */
    CHECK_STR(what->stats->name, what->pool);
    atomic_fetch_add(&h->suppressed, what->suppressed);
    atomic_fetch_add(&h->calls, 1);
}

static char folder[64];

static void make_folder(void)
{
    strcpy(folder, "/tmp/spindle-report-XXXXXX");
    REQUIRE(mkdtemp(folder) != NULL);
}

/* How many files are there, and gone now. */
static int empty_folder(const char *path)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;
    char name[512];
    int count = 0;

    REQUIRE(dir != NULL);
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        CHECK_EQ(unlink(name), 0);
        count++;
    }
    closedir(dir);
    return count;
}

static int remove_folder(void)
{
    const int count = empty_folder(folder);

    CHECK_EQ(rmdir(folder), 0);
    return count;
}

static spn_reject_report_opts report_opts(struct heard *h)
{
    spn_reject_report_opts opts = SPN_REJECT_REPORT_OPTS_INIT;

    memset(h, 0, sizeof *h);
    opts.dir = folder;
    opts.exhausted = listen;
    opts.ctx = h;
    return opts;
}

static char file_text[1 << 20];

static const char *read_file(const char *path)
{
    FILE *file = fopen(path, "r");
    size_t length;

    file_text[0] = '\0';
    if (file == NULL)
        return file_text;
    length = fread(file_text, 1, sizeof file_text - 1, file);
    file_text[length] = '\0';
    fclose(file);
    return file_text;
}

/* A full pool that reports what it refuses, and its end. */
static spn_reject_report *
start_reporting(struct full_pool *f, const spn_reject_report_opts *ropts, int queued)
{
    spn_reject_report *report;
    spn_pool_opts opts;

    REQUIRE_OK(spn_reject_report_create(&report, ropts));
    opts = full_pool_opts(spn_reject_report_policy(report), queued);
    full_pool_start(f, &opts);
    return report;
}

static void stop_reporting(struct full_pool *f, spn_reject_report *report)
{
    full_pool_stop(f);
    CHECK_OK(spn_reject_report_destroy(report));
}

/* ---- one report ------------------------------------------------------------------------- */

/* Exported, and with a frame of its own: what the file must show. */
void report_test_stuck_here(spn_latch *gate);
__attribute__((noinline, visibility("default"))) void
report_test_stuck_here(spn_latch *gate)
{
    full_pool_wait(gate);
    __asm__ __volatile__(""); /* not a jump: the frame stays */
}

/* A refusal gives SPN_EREJECTED, a line in the words of Dubbo, a file with the stack of
 * the busy thread, and one call of the listener. */
TEST(report__pool_exhausted__line_file_and_listener, "X-14", "P33")
{
    struct heard h;
    spn_reject_report_opts ropts = report_opts(&h);
    spn_reject_report *report;
    spn_pool_opts opts;
    struct full_pool f;
    struct item item;
    struct stat info;
    const char *text;

    clear_log();
    make_folder();
    ropts.address = "dubbo://10.0.0.1:20880";
    REQUIRE_OK(spn_reject_report_create(&report, &ropts));
    opts = full_pool_opts(spn_reject_report_policy(report), 2);
    full_pool_start_with(&f, &opts, report_test_stuck_here);
    t_await_asleep("full", 1); /* it is stuck there now */
    item_init(&item);
    CHECK_STATUS(spn_executor_execute(f.executor, &item.task), SPN_EREJECTED);
    T_AWAIT(atomic_load(&h.calls) == 1);
    CHECK_STR(h.message,
              "Thread pool is EXHAUSTED! Thread Name: full, Pool Size: 1 (active: 1, "
              "core: 1, max: 1, largest: 1), Task: 3 (completed: 0), Executor "
              "status:(isShutdown:false, isTerminated:false, isTerminating:false), in "
              "dubbo://10.0.0.1:20880!");
    CHECK(log_says("warn: Thread pool is EXHAUSTED! Thread Name: full, Pool Size: 1"));
    CHECK(log_says(
        "Reason: full, Queue: 2 (capacity: 2), Refused before: 0, unreported: 0"));
    CHECK_EQ(log_lines, 1);
    CHECK_STR(h.pool, "full");
    CHECK_EQ(h.refusal.reason, SPN_REFUSED_FULL);
    CHECK_EQ(h.stats.queued, 2);
    CHECK_STATUS(spn_refusal_stats(&h.refusal, &h.stats), SPN_EINVAL); /* it is over */
    CHECK(strstr(h.file, "/spindle_stacks.20") != NULL);
    CHECK_EQ(stat(h.file, &info), 0);
    CHECK_EQ(info.st_mode & 0777, 0600);
    text = read_file(h.file);
    CHECK(strstr(text, "Thread pool is EXHAUSTED!") == text);
    CHECK(strstr(text, "Threads of the pool: 1") != NULL);
    CHECK(strstr(text, "\"full-thread-1\" tid=") != NULL);
    CHECK(strstr(text, " S (sleeping)") != NULL);
    CHECK(strstr(text, "\"spindle-report\"") != NULL); /* the others are listed too */
    CHECK(strstr(text, "Other threads of the process") != NULL);
    if (!DEFERRED_SIGNALS) {
        CHECK(strstr(text, "report_test_stuck_here+0x") != NULL);
        CHECK(strstr(text, "#0 ") != NULL);
    }
    CHECK_EQ(item.task.queued, 0);
    full_pool_stop(&f);
    CHECK_OK(spn_reject_report_destroy(report));
    CHECK_EQ(atomic_load(&h.calls), 1);
    CHECK_EQ(remove_folder(), 1);
}

/* Whether the file has a stack of the thread of this name. */
static bool has_stack(const char *text, const char *name)
{
    char head[64];
    const char *at;

    (void)snprintf(head, sizeof head, "\n\"%s\" tid=", name);
    at = strstr(text, head);
    at = at != NULL ? strchr(at + 1, '\n') : NULL;
    return at != NULL && strncmp(at, "\n    #0 ", 8) == 0;
}

static spn_latch *start_gate;

static void await_start(void *arg)
{
    (void)arg;
    full_pool_wait(start_gate);
}

static int run_nothing(spn_task *task)
{
    (void)task;
    return 0;
}

/* A refusal right after the pool's first thread was made: its stack is there, also if the
 * thread has not come to its pool yet. */
TEST(report__thread_just_made__stack_there, "X-14", "REP-5")
{
    for (int held = 0; held < 2; held++) {
        struct heard h;
        spn_reject_report_opts ropts = report_opts(&h);
        spn_thread_opts thread = SPN_THREAD_OPTS_INIT;
        spn_task first = SPN_TASK_INIT(run_nothing, NULL);
        spn_reject_report *report;
        spn_pool_opts opts;
        struct item item;
        spn_pool *pool;
        int rc;

        if (DEFERRED_SIGNALS) {
            t_skip("signals come late here");
            return;
        }
        make_folder();
        REQUIRE_OK(spn_latch_create(&start_gate, 1));
        REQUIRE_OK(spn_reject_report_create(&report, &ropts));
        opts = full_pool_opts(spn_reject_report_policy(report), 0);
        thread.on_start = await_start;
        opts.thread = &thread;
        REQUIRE_OK(spn_pool_create(&pool, &opts));
        if (!held)
            CHECK_OK(spn_latch_count_down(start_gate));
        REQUIRE_OK(spn_executor_execute(spn_pool_executor(pool), &first));
        item_init(&item);
        rc = spn_executor_execute(spn_pool_executor(pool), &item.task);
        if (held || rc != SPN_OK) { /* else the first was done by then */
            CHECK_STATUS(rc, SPN_EREJECTED);
            T_AWAIT(atomic_load(&h.calls) == 1);
            CHECK(has_stack(read_file(h.file), "full-thread-1"));
            CHECK(strstr(file_text, "Threads of the pool: 1\n\n\"full-thread-1\"") !=
                  NULL);
        }
        if (held)
            CHECK_OK(spn_latch_count_down(start_gate));
        CHECK_OK(spn_pool_close(pool));
        CHECK_OK(spn_pool_destroy(pool));
        CHECK_OK(spn_reject_report_destroy(report));
        CHECK_OK(spn_latch_destroy(start_gate));
        (void)remove_folder();
    }
}

/* The library's other threads have their stacks in the file: a timer's, another pool's.  If
 * they started before the report they let no signal through, and are looked at from outside. */
TEST(report__other_threads_of_the_library__stacks_there, "X-14", "REP-5")
{
    for (int early = 0; early < 2; early++) {
        struct heard h;
        spn_reject_report_opts ropts = report_opts(&h);
        spn_timer_opts topts = SPN_TIMER_OPTS_INIT;
        spn_thread_opts tthread = SPN_THREAD_OPTS_INIT;
        spn_reject_report *report = NULL;
        struct full_pool f, other;
        spn_pool_opts opts;
        struct item item;
        spn_timer *timer;

        if (DEFERRED_SIGNALS) {
            t_skip("signals come late here");
            return;
        }
        if (early && access("/proc/self/syscall", R_OK) != 0) {
            t_skip("the kernel does not say where a thread sleeps");
            return;
        }
        make_folder();
        if (!early)
            REQUIRE_OK(spn_reject_report_create(&report, &ropts));
        tthread.name = early ? "clock-early" : "clockwork";
        topts.thread = &tthread;
        REQUIRE_OK(spn_timer_create(&timer, &topts));
        REQUIRE_OK(spn_timer_start(timer));
        opts = full_pool_opts(NULL, 0);
        opts.name = early ? "early" : "other";
        full_pool_start_with(&other, &opts, report_test_stuck_here);
        t_await_asleep(tthread.name, 1);
        t_await_asleep(opts.name, 1);
        if (early)
            REQUIRE_OK(spn_reject_report_create(&report, &ropts));
        opts = full_pool_opts(spn_reject_report_policy(report), 0);
        full_pool_start(&f, &opts);
        item_init(&item);
        CHECK_STATUS(spn_executor_execute(f.executor, &item.task), SPN_EREJECTED);
        T_AWAIT(atomic_load(&h.calls) == 1);
        CHECK(has_stack(read_file(h.file), "full-thread-1"));
        CHECK(strstr(file_text, "Other threads of the library: ") != NULL);
        CHECK(has_stack(file_text, early ? "early-thread-1" : "other-thread-1"));
        CHECK(strstr(file_text, "report_test_stuck_here+0x") != NULL);
        CHECK(has_stack(file_text, tthread.name));
        stop_reporting(&f, report);
        full_pool_stop(&other);
        CHECK_OK(spn_timer_stop(timer, NULL, NULL));
        CHECK_OK(spn_timer_destroy(timer));
        CHECK_EQ(remove_folder(), 1);
    }
}

static int pipe_ends[2];

void report_test_stuck_in_read(spn_latch *gate);
__attribute__((noinline, visibility("default"))) void
report_test_stuck_in_read(spn_latch *gate)
{
    char byte;

    while (read(pipe_ends[0], &byte, 1) < 0) {
    }
    full_pool_wait(gate);
    __asm__ __volatile__(""); /* not a jump: the frame stays */
}

/* A thread that is stuck in a function of the C library, which keeps no frame pointers,
 * shows who called that all the same; its call goes on afterwards. */
TEST(report__stuck_in_library_call__caller_shown, "X-14")
{
    struct heard h;
    spn_reject_report_opts ropts = report_opts(&h);
    spn_reject_report *report;
    spn_pool_opts opts;
    struct full_pool f;
    struct item item;

    if (DEFERRED_SIGNALS) {
        t_skip("signals come late here");
        return;
    }
    make_folder();
    REQUIRE(pipe(pipe_ends) == 0);
    REQUIRE_OK(spn_reject_report_create(&report, &ropts));
    opts = full_pool_opts(spn_reject_report_policy(report), 0);
    full_pool_start_with(&f, &opts, report_test_stuck_in_read);
    t_await_asleep("full", 1);
    item_init(&item);
    CHECK_STATUS(spn_executor_execute(f.executor, &item.task), SPN_EREJECTED);
    T_AWAIT(atomic_load(&h.calls) == 1);
    CHECK(strstr(read_file(h.file), "report_test_stuck_in_read+0x") != NULL);
    CHECK_EQ(write(pipe_ends[1], "", 1), 1);
    full_pool_stop(&f);
    CHECK_OK(spn_reject_report_destroy(report));
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    CHECK_EQ(remove_folder(), 1);
}

/* A stack deeper than max_frames is cut, and says so. */
TEST(report__deep_stack__cut, "X-14")
{
    struct heard h;
    spn_reject_report_opts ropts = report_opts(&h);
    spn_reject_report *report;
    struct full_pool f;
    struct item item;

    if (DEFERRED_SIGNALS) {
        t_skip("signals come late here");
        return;
    }
    make_folder();
    ropts.max_frames = 2;
    report = start_reporting(&f, &ropts, 0);
    item_init(&item);
    CHECK_STATUS(spn_executor_execute(f.executor, &item.task), SPN_EREJECTED);
    T_AWAIT(atomic_load(&h.calls) == 1);
    CHECK(strstr(read_file(h.file), "    #1 ") != NULL);
    CHECK(strstr(read_file(h.file), "    #2 ") == NULL);
    CHECK(strstr(read_file(h.file), "    ...\n") != NULL);
    stop_reporting(&f, report);
    CHECK_EQ(remove_folder(), 1);
}

/* no_stacks: the line and the listener, no file, and the signal is left alone. */
TEST(report__without_stacks__no_file_no_signal, "X-14")
{
    const int number = SIGRTMIN + 10;
    struct heard h;
    spn_reject_report_opts ropts = report_opts(&h);
    struct sigaction action;
    spn_reject_report *report;
    struct full_pool f;
    struct item item;

    make_folder();
    ropts.no_stacks = 1;
    report = start_reporting(&f, &ropts, 0);
    CHECK_EQ(sigaction(number, NULL, &action), 0);
    CHECK(action.sa_handler == SIG_DFL);
    item_init(&item);
    CHECK_STATUS(spn_executor_execute(f.executor, &item.task), SPN_EREJECTED);
    T_AWAIT(atomic_load(&h.calls) == 1);
    CHECK_STR(h.file, "");
    stop_reporting(&f, report);
    CHECK_EQ(remove_folder(), 0);
}

/* The task goes to the policy behind it. */
TEST(report__next_policy__gets_the_task, "X-14", "TPE-82")
{
    struct heard h;
    spn_reject_report_opts ropts = report_opts(&h);
    spn_reject_report *report;
    struct full_pool f;
    struct item item;

    make_folder();
    ropts.no_stacks = 1;
    ropts.next = spn_reject_caller_runs();
    report = start_reporting(&f, &ropts, 0);
    item_init(&item);
    CHECK_OK(spn_executor_execute(f.executor, &item.task));
    CHECK_EQ(atomic_load(&item.runs), 1);
    T_AWAIT(atomic_load(&h.calls) == 1);
    stop_reporting(&f, report);
    CHECK_EQ(remove_folder(), 0);
}

/* A pool that was shut down is not exhausted: no report, and the interval is kept for
 * one that is. */
TEST(report__shut_down_pool__not_reported, "X-14")
{
    struct heard h;
    spn_reject_report_opts ropts = report_opts(&h);
    spn_reject_report *report;
    struct full_pool f;
    struct item item;

    make_folder();
    report = start_reporting(&f, &ropts, 0);
    CHECK_OK(pool_shutdown(f.pool));
    item_init(&item);
    CHECK_STATUS(spn_executor_execute(f.executor, &item.task), SPN_EREJECTED);
    stop_reporting(&f, report);
    CHECK_EQ(atomic_load(&h.calls), 0);
    CHECK_EQ(remove_folder(), 0);
}

/* A report under way when destroy is called is finished first. */
TEST(report__destroyed_at_once__report_finished, "X-14")
{
    struct heard h;
    spn_reject_report_opts ropts = report_opts(&h);
    spn_reject_report *report;
    struct full_pool f;
    struct item item;

    make_folder();
    report = start_reporting(&f, &ropts, 0);
    item_init(&item);
    CHECK_STATUS(spn_executor_execute(f.executor, &item.task), SPN_EREJECTED);
    stop_reporting(&f, report);
    CHECK_EQ(atomic_load(&h.calls), 1);
    CHECK_EQ(remove_folder(), 1);
}

/* ---- how often ---------------------------------------------------------------------------- */

struct storm {
    struct full_pool *f;
    atomic_llong refused;
    atomic_int stop;
    int64_t rounds; /* each thread; 0: until stop */
};

static void refuse_many(int index, void *arg)
{
    struct storm *storm = arg;
    struct item item;

    (void)index;
    item_init(&item);
    for (int64_t i = 0; atomic_load(&storm->stop) == 0; i++) {
        if (storm->rounds != 0 && i == storm->rounds)
            break;
        CHECK_STATUS(spn_executor_execute(storm->f->executor, &item.task),
                     SPN_EREJECTED);
        atomic_fetch_add(&storm->refused, 1);
    }
}

/* A storm of refusals from many threads gives one report per interval. */
TEST(report__storm__one_report, "X-14", "P33")
{
    struct heard h;
    spn_reject_report_opts ropts = report_opts(&h);
    struct storm storm = { .rounds = t_rounds(50000) };
    const int64_t began_ns = spn_now();
    spn_reject_report *report;
    struct full_pool f;

    make_folder();
    clear_log();
    report = start_reporting(&f, &ropts, 1);
    storm.f = &f;
    t_parallel(T_THREADS, refuse_many, &storm);
    T_AWAIT(atomic_load(&h.calls) == 1);
    CHECK_EQ(pool_stats(f.pool).rejected, atomic_load(&storm.refused));
    stop_reporting(&f, report);
    CHECK_EQ(atomic_load(&h.calls), 1);
    CHECK(log_lines <= 1 + (spn_now() - began_ns) / SPN_SEC(1));
    CHECK_EQ(remove_folder(), 1);
}

struct intervals {
    atomic_int calls;
    atomic_llong suppressed;
    int64_t last_ns, shortest_ns;
};

static void time_reports(void *ctx, const spn_exhaustion *what)
{
    struct intervals *t = ctx;
    const int64_t now_ns = spn_now();

    if (atomic_load(&t->calls) > 0 && now_ns - t->last_ns < t->shortest_ns)
        t->shortest_ns = now_ns - t->last_ns;
    t->last_ns = now_ns;
    atomic_fetch_add(&t->suppressed, what->suppressed);
    atomic_fetch_add(&t->calls, 1);
}

static void storm_until_three(int index, void *arg)
{
    refuse_many(index, arg);
}

static void *stop_after_three(void *arg)
{
    void **both = arg;
    struct intervals *t = both[0];
    struct storm *storm = both[1];

    T_AWAIT(atomic_load(&t->calls) >= 3);
    atomic_store(&storm->stop, 1);
    return NULL;
}

/* The next interval reports again, and again; no refusal goes uncounted. */
TEST(report__storm_over_intervals__each_reports_once, "X-14", "P33")
{
    struct intervals t = { .shortest_ns = INT64_MAX };
    spn_reject_report_opts ropts = SPN_REJECT_REPORT_OPTS_INIT;
    struct storm storm = { .rounds = 0 };
    void *both[] = { &t, &storm };
    const int64_t interval_ns = SPN_MS(100);
    spn_reject_report *report;
    struct full_pool f;
    pthread_t watcher;
    int64_t began_ns, reports;

    ropts.no_stacks = 1;
    ropts.interval_ns = interval_ns;
    ropts.exhausted = time_reports;
    ropts.ctx = &t;
    report = start_reporting(&f, &ropts, 1);
    storm.f = &f;
    REQUIRE(pthread_create(&watcher, NULL, stop_after_three, both) == 0);
    began_ns = spn_now();
    t_parallel(T_THREADS, storm_until_three, &storm);
    REQUIRE(pthread_join(watcher, NULL) == 0);
    reports = (spn_now() - began_ns) / interval_ns + 1;
    stop_reporting(&f, report);
    CHECK(atomic_load(&t.calls) >= 3);
    CHECK(atomic_load(&t.calls) <= reports);
    /* Reported or suppressed: every one but those after the last report. */
    CHECK(atomic_load(&t.suppressed) + atomic_load(&t.calls) <=
          atomic_load(&storm.refused));
}

/* Two pools with one report share its interval. */
TEST(report__two_pools_one_report__one_interval, "X-14")
{
    struct heard h;
    spn_reject_report_opts ropts = report_opts(&h);
    spn_reject_report *report;
    struct full_pool f[2];
    spn_pool_opts opts;
    struct item item;

    make_folder();
    REQUIRE_OK(spn_reject_report_create(&report, &ropts));
    opts = full_pool_opts(spn_reject_report_policy(report), 0);
    full_pool_start(&f[0], &opts);
    full_pool_start(&f[1], &opts);
    item_init(&item);
    CHECK_STATUS(spn_executor_execute(f[0].executor, &item.task), SPN_EREJECTED);
    CHECK_STATUS(spn_executor_execute(f[1].executor, &item.task), SPN_EREJECTED);
    full_pool_stop(&f[0]);
    full_pool_stop(&f[1]);
    CHECK_OK(spn_reject_report_destroy(report));
    CHECK_EQ(atomic_load(&h.calls), 1);
    CHECK_EQ(remove_folder(), 1);
}

/* ---- where the file goes --------------------------------------------------------------------- */

/* A folder that is not there is made, with those above it. */
TEST(report__folder_missing__made, "X-14")
{
    char above[128], deep[192];
    struct heard h;
    spn_reject_report_opts ropts = report_opts(&h);
    spn_reject_report *report;
    struct full_pool f;
    struct item item;

    make_folder();
    (void)snprintf(above, sizeof above, "%s/a", folder);
    (void)snprintf(deep, sizeof deep, "%s/b", above);
    ropts.dir = deep;
    report = start_reporting(&f, &ropts, 0);
    deep[strlen(deep) - 1] = '?'; /* it was copied */
    item_init(&item);
    CHECK_STATUS(spn_executor_execute(f.executor, &item.task), SPN_EREJECTED);
    T_AWAIT(atomic_load(&h.calls) == 1);
    stop_reporting(&f, report);
    deep[strlen(deep) - 1] = 'b';
    CHECK(strncmp(h.file, deep, strlen(deep)) == 0);
    CHECK_EQ(empty_folder(deep), 1);
    CHECK_EQ(rmdir(deep), 0);
    CHECK_EQ(rmdir(above), 0);
    CHECK_EQ(remove_folder(), 0);
}

/* A folder that cannot be made: the file goes home, with a warning. */
TEST(report__folder_impossible__home_instead, "X-14")
{
    struct heard h;
    spn_reject_report_opts ropts = report_opts(&h);
    spn_reject_report *report;
    struct full_pool f;
    struct item item;

    clear_log();
    make_folder();
    REQUIRE(setenv("HOME", folder, 1) == 0);
    ropts.dir = "/proc/nowhere";
    report = start_reporting(&f, &ropts, 0);
    item_init(&item);
    CHECK_STATUS(spn_executor_execute(f.executor, &item.task), SPN_EREJECTED);
    T_AWAIT(atomic_load(&h.calls) == 1);
    CHECK(strncmp(h.file, folder, strlen(folder)) == 0);
    CHECK(log_says("warn: no stacks into /proc/nowhere: "));
    stop_reporting(&f, report);
    CHECK_EQ(remove_folder(), 1);
}

/* Nowhere to write: an error is logged, and the rest of the report is made. */
TEST(report__nowhere_to_write__said_and_refused_all_the_same, "X-14")
{
    struct heard h;
    spn_reject_report_opts ropts = report_opts(&h);
    spn_reject_report *report;
    struct full_pool f;
    struct item item;

    clear_log();
    REQUIRE(setenv("HOME", "/proc/nowhere", 1) == 0);
    ropts.dir = NULL;
    report = start_reporting(&f, &ropts, 0);
    item_init(&item);
    CHECK_STATUS(spn_executor_execute(f.executor, &item.task), SPN_EREJECTED);
    T_AWAIT(atomic_load(&h.calls) == 1);
    CHECK_STR(h.file, "");
    CHECK(log_says("error: stacks of pool full could not be written: "));
    stop_reporting(&f, report);
    REQUIRE(unsetenv("HOME") == 0);
}

/* ---- signals ----------------------------------------------------------------------------------- */

static void own_handler(int number)
{
    (void)number;
}

/* The signal is taken while reports exist, by any number of them, and given back. */
TEST(report__signal__taken_and_given_back, "X-14")
{
    const int number = SIGRTMIN + 12;
    spn_reject_report_opts ropts = SPN_REJECT_REPORT_OPTS_INIT;
    spn_reject_report *first, *second;
    struct sigaction action;

    ropts.signal = (uint32_t)number;
    REQUIRE(signal(number, SIG_IGN) != SIG_ERR);
    REQUIRE_OK(spn_reject_report_create(&first, &ropts));
    REQUIRE_OK(spn_reject_report_create(&second, &ropts));
    CHECK_OK(spn_reject_report_destroy(first)); /* the first comes, the first goes */
    CHECK_EQ(sigaction(number, NULL, &action), 0);
    CHECK((action.sa_flags & SA_SIGINFO) != 0); /* the second still has it */
    CHECK_OK(spn_reject_report_destroy(second));
    CHECK_EQ(sigaction(number, NULL, &action), 0);
    CHECK(action.sa_handler == SIG_IGN);

    REQUIRE(signal(number, own_handler) != SIG_ERR); /* the program's: hands off */
    CHECK_STATUS(spn_reject_report_create(&first, &ropts), SPN_EBUSY);
    CHECK(first == NULL);
    CHECK_EQ(sigaction(number, NULL, &action), 0);
    CHECK(action.sa_handler == own_handler);

    ropts.signal = 0; /* any: one that is free */
    REQUIRE(signal(SIGRTMIN + 10, own_handler) != SIG_ERR);
    REQUIRE_OK(spn_reject_report_create(&first, &ropts));
    CHECK_OK(spn_reject_report_destroy(first));
    REQUIRE(signal(number, SIG_DFL) != SIG_ERR);
    REQUIRE(signal(SIGRTMIN + 10, SIG_DFL) != SIG_ERR);
}

/* The signals that a thread of this name has blocked; false: it was not seen.  Who reads the
 * folder may miss one while another ends. */
static bool find_blocked(const char *name, unsigned long long *mask)
{
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *entry;
    bool found = false;

    REQUIRE(tasks != NULL);
    while (!found && (entry = readdir(tasks)) != NULL) {
        char path[64], line[256];
        bool named = false;
        FILE *status;

        (void)snprintf(path, sizeof path, "/proc/self/task/%.20s/status",
                       entry->d_name);
        status = fopen(path, "r");
        if (status == NULL)
            continue;
        while (!found && fgets(line, sizeof line, status) != NULL) {
            if (strncmp(line, "Name:\t", 6) == 0)
                named = strncmp(line + 6, name, strlen(name)) == 0;
            found = named && sscanf(line, "SigBlk: %llx", mask) == 1;
        }
        fclose(status);
    }
    closedir(tasks);
    return found;
}

static void check_blocked(const char *pool, const spn_reject_policy *policy,
                          int blocked)
{
    spn_pool_opts opts = full_pool_opts(policy, 1);
    unsigned long long mask = 0;
    struct full_pool f;
    char thread[32];

    opts.name = pool; /* threads of others may be on their way out */
    full_pool_start(&f, &opts);
    (void)snprintf(thread, sizeof thread, "%s-thread-1", pool);
    T_AWAIT(find_blocked(thread, &mask));
    CHECK_EQ((mask >> (SIGRTMIN + 11 - 1)) & 1, blocked);
    CHECK_EQ((mask >> (SIGRTMIN + 12 - 1)) & 1, 1);
    CHECK_EQ((mask >> (SIGTERM - 1)) & 1, 1);
    full_pool_stop(&f);
}

/* Threads that start while there is a report let its signal through, and no other one. */
TEST(report__threads__let_one_signal_through, "X-14")
{
    spn_reject_report_opts ropts = SPN_REJECT_REPORT_OPTS_INIT;
    const spn_reject_policy *list[1];
    spn_reject_report *report;

    ropts.signal = (uint32_t)SIGRTMIN + 11;
    check_blocked("early", NULL, 1);
    REQUIRE_OK(spn_reject_report_create(&report, &ropts));
    list[0] = spn_reject_report_policy(report);
    {
        const spn_reject_chain chain = SPN_REJECT_CHAIN_INIT(list, 1);

        check_blocked("lets", &chain.policy, 0);
    }
    check_blocked("too", NULL, 0);
    CHECK_OK(spn_reject_report_destroy(report));
    check_blocked("late", NULL, 1);
}

static atomic_int blocked, unblock, unblocked;

static void wait_with_signals_blocked(spn_latch *gate)
{
    sigset_t all, old;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    atomic_store(&blocked, 1);
    T_AWAIT(atomic_load(&unblock) == 1);
    pthread_sigmask(SIG_SETMASK, &old, NULL); /* what was sent arrives now */
    atomic_store(&unblocked, 1);
    full_pool_wait(gate);
}

/* A thread that cannot answer costs its stack and a second, nothing else; its late
 * answer does no harm, during the report's life and after. */
TEST(report__thread_does_not_answer__left_out, "X-14", "P34")
{
    for (int after = 0; after < 2; after++) {
        struct heard h;
        spn_reject_report_opts ropts = report_opts(&h);
        const spn_reject_policy *policy;
        spn_reject_report *report;
        spn_pool_opts opts;
        struct full_pool f;
        struct item item;

        make_folder();
        atomic_store(&blocked, 0);
        atomic_store(&unblock, 0);
        atomic_store(&unblocked, 0);
        REQUIRE_OK(spn_reject_report_create(&report, &ropts));
        policy = spn_reject_report_policy(report);
        opts = full_pool_opts(policy, 0);
        full_pool_start_with(&f, &opts, wait_with_signals_blocked);
        T_AWAIT(atomic_load(&blocked) == 1);
        item_init(&item);
        CHECK_STATUS(spn_executor_execute(f.executor, &item.task), SPN_EREJECTED);
        T_AWAIT(atomic_load(&h.calls) == 1);
        CHECK(strstr(read_file(h.file), "(no stack: it did not answer)") != NULL);
        if (after) { /* the pool lives on with another policy */
            CHECK_OK(pool_set_reject(f.pool, spn_reject_abort()));
            CHECK_OK(spn_reject_report_destroy(report));
        }
        atomic_store(&unblock, 1);
        T_AWAIT(atomic_load(&unblocked) == 1);
        full_pool_stop(&f);
        if (!after)
            CHECK_OK(spn_reject_report_destroy(report));
        CHECK_EQ(remove_folder(), 1);
    }
}

/* A report without one stack does not use up the interval: the next one comes a second
 * later. */
TEST(report__no_stack__does_not_count, "X-14", "REP-5")
{
    struct heard h;
    spn_reject_report_opts ropts = report_opts(&h);
    spn_reject_report *report;
    spn_pool_opts opts;
    struct full_pool f;
    struct item item;
    int64_t until_ns;

    if (DEFERRED_SIGNALS) {
        t_skip("signals come late here");
        return;
    }
    make_folder();
    atomic_store(&blocked, 0);
    atomic_store(&unblock, 0);
    REQUIRE_OK(spn_reject_report_create(&report, &ropts));
    opts = full_pool_opts(spn_reject_report_policy(report), 0);
    full_pool_start_with(&f, &opts, wait_with_signals_blocked);
    T_AWAIT(atomic_load(&blocked) == 1);
    item_init(&item);
    CHECK_STATUS(spn_executor_execute(f.executor, &item.task), SPN_EREJECTED);
    T_AWAIT(atomic_load(&h.calls) == 1);
    CHECK(!has_stack(read_file(h.file), "full-thread-1"));
    atomic_store(&unblock, 1);
    t_await_asleep("full", 1);
    until_ns = spn_now() + SPN_SEC(60);
    while (atomic_load(&h.calls) == 1 && spn_now() < until_ns) {
        CHECK_STATUS(spn_executor_execute(f.executor, &item.task), SPN_EREJECTED);
        t_pause();
    }
    CHECK_EQ(atomic_load(&h.calls), 2);
    CHECK(has_stack(read_file(h.file), "full-thread-1"));
    CHECK_STATUS(spn_report_pool(report, f.pool), SPN_EBUSY);
    stop_reporting(&f, report);
    CHECK_EQ(atomic_load(&h.calls), 2);
    CHECK_EQ(remove_folder(), 2);
}

static int mute_tid;

static void end_with_signals_blocked(spn_latch *gate)
{
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    mute_tid = peer_gettid();
    atomic_store(&blocked, 1);
    full_pool_wait(gate);
}

/* A signal that nobody answered is with its handler still when its report has gone.  What
 * the program does with it then does not harm the next report, and it is given back when
 * the thread has ended. */
TEST(report__unanswered_signal__taken_again_and_given_back, "X-14", "P34")
{
    const int number = SIGRTMIN + 10;
    struct heard h, h2;
    const spn_reject_report_opts ropts = report_opts(&h), ropts2 = report_opts(&h2);
    spn_reject_report *report;
    struct sigaction action;
    struct full_pool f, f2;
    struct item item, item2;
    spn_pool_opts opts;

    make_folder();
    atomic_store(&blocked, 0);
    REQUIRE_OK(spn_reject_report_create(&report, &ropts));
    opts = full_pool_opts(spn_reject_report_policy(report), 0);
    full_pool_start_with(&f, &opts, end_with_signals_blocked);
    T_AWAIT(atomic_load(&blocked) == 1);
    item_init(&item);
    CHECK_STATUS(spn_executor_execute(f.executor, &item.task), SPN_EREJECTED);
    T_AWAIT(atomic_load(&h.calls) == 1);
    CHECK(strstr(read_file(h.file), "(no stack: it did not answer)") != NULL);
    CHECK_OK(pool_set_reject(f.pool, spn_reject_abort()));
    CHECK_OK(spn_reject_report_destroy(report));
    CHECK_EQ(sigaction(number, NULL, &action), 0);
    CHECK((action.sa_flags & SA_SIGINFO) != 0); /* it waits for the answer */

    REQUIRE(signal(number, SIG_DFL) != SIG_ERR);
    report = start_reporting(&f2, &ropts2, 0);
    item_init(&item2);
    CHECK_STATUS(spn_executor_execute(f2.executor, &item2.task), SPN_EREJECTED);
    T_AWAIT(atomic_load(&h2.calls) == 1);
    CHECK(DEFERRED_SIGNALS || strstr(read_file(h2.file), "    #1 ") != NULL);

    full_pool_stop(&f);
    full_pool_stop(&f2);
    T_AWAIT(syscall(SYS_tgkill, getpid(), mute_tid, 0) != 0); /* forgotten */
    CHECK_OK(spn_reject_report_destroy(report));
    CHECK_EQ(sigaction(number, NULL, &action), 0);
    CHECK(action.sa_handler == SIG_DFL);
    CHECK_EQ(remove_folder(), 2);
}

/* Where the system queues no more signals, the report says so. */
TEST(report__signal_cannot_be_queued__said, "X-14")
{
    struct heard h;
    spn_reject_report_opts ropts = report_opts(&h);
    struct rlimit before, none;
    spn_reject_report *report;
    struct full_pool f;
    struct item item;

    make_folder();
    REQUIRE(getrlimit(RLIMIT_SIGPENDING, &before) == 0);
    none = before;
    none.rlim_cur = 0;
    report = start_reporting(&f, &ropts, 0);
    item_init(&item);
    REQUIRE(setrlimit(RLIMIT_SIGPENDING, &none) == 0);
    CHECK_STATUS(spn_executor_execute(f.executor, &item.task), SPN_EREJECTED);
    T_AWAIT(atomic_load(&h.calls) == 1);
    REQUIRE(setrlimit(RLIMIT_SIGPENDING, &before) == 0);
    CHECK(strstr(read_file(h.file), "(no stack: the system has no room") != NULL);
    CHECK(strstr(file_text, "did not answer") == NULL);
    stop_reporting(&f, report);
    CHECK_EQ(remove_folder(), 1);
}

/* ---- life --------------------------------------------------------------------------------------- */

static spn_reject_report *itself;
static atomic_int itself_rc, itself_done;

static void destroy_from_listener(void *ctx, const spn_exhaustion *what)
{
    (void)ctx;
    (void)what;
    atomic_store(&itself_rc, spn_reject_report_destroy(itself));
    atomic_store(&itself_done, 1);
}

/* The listener cannot destroy the report it is called by. */
TEST(report__destroyed_by_listener__deadlock_told, "P9")
{
    spn_reject_report_opts ropts = SPN_REJECT_REPORT_OPTS_INIT;
    spn_pool_opts opts;
    struct full_pool f;
    struct item item;

    ropts.no_stacks = 1;
    ropts.exhausted = destroy_from_listener;
    REQUIRE_OK(spn_reject_report_create(&itself, &ropts));
    opts = full_pool_opts(spn_reject_report_policy(itself), 0);
    full_pool_start(&f, &opts);
    item_init(&item);
    CHECK_STATUS(spn_executor_execute(f.executor, &item.task), SPN_EREJECTED);
    T_AWAIT(atomic_load(&itself_done) == 1);
    CHECK_EQ(atomic_load(&itself_rc), SPN_EDEADLK);
    full_pool_stop(&f);
    CHECK_OK(spn_reject_report_destroy(itself));
}

/* A report that somebody asks for is made as for an exhausted pool, once per interval. */
TEST(report__asked_for__as_for_an_exhausted_pool, "X-14", "MET-15")
{
    struct heard h;
    spn_reject_report_opts opts = report_opts(&h);
    spn_pool_opts pool_opts = SPN_POOL_OPTS_INIT;
    spn_reject_report *report;
    spn_pool *pool;

    opts.no_stacks = 1;
    pool_opts.name = "io";
    REQUIRE_OK(spn_reject_report_create(&report, &opts));
    REQUIRE_OK(spn_pool_create(&pool, &pool_opts));
    CHECK_OK(spn_report_pool(report, pool));
    CHECK_STATUS(spn_report_pool(report, pool), SPN_EBUSY);
    T_AWAIT(atomic_load(&h.calls) == 1);
    CHECK(strstr(h.message, "Thread pool is reported! Thread Name: io,") != NULL);
    CHECK_OK(spn_pool_close(pool));
    CHECK_OK(spn_pool_destroy(pool));
    CHECK_OK(spn_reject_report_destroy(report));
    CHECK_EQ(atomic_load(&h.calls), 1);
}

/* An interrupt does not keep destroy from its end, and is not lost. */
TEST(report__destroyed_while_interrupted__flag_kept, "G-12")
{
    spn_reject_report *report;

    REQUIRE_OK(spn_reject_report_create(&report, NULL));
    CHECK_OK(spn_thread_interrupt(spn_thread_current()));
    CHECK_OK(spn_reject_report_destroy(report));
    CHECK_EQ(spn_thread_interrupted(), 1);
}

/* Bad options are told; nothing is there then. */
TEST(report__bad_options__refused, "G-1")
{
    spn_reject_report_opts opts = SPN_REJECT_REPORT_OPTS_INIT;
    spn_reject_report *report = (spn_reject_report *)&opts;

    CHECK_STATUS(spn_reject_report_create(NULL, &opts), SPN_EINVAL);
    opts.interval_ns = -1;
    CHECK_STATUS(spn_reject_report_create(&report, &opts), SPN_EINVAL);
    CHECK(report == NULL);
    opts.interval_ns = 0;
    opts.max_frames = SPN_REPORT_FRAMES_MAX + 1;
    CHECK_STATUS(spn_reject_report_create(&report, &opts), SPN_EINVAL);
    opts.max_frames = SPN_REPORT_FRAMES_MAX;
    opts.signal = SIGTERM;
    CHECK_STATUS(spn_reject_report_create(&report, &opts), SPN_EINVAL);
    opts.signal = 0;
    CHECK_OK(spn_reject_report_create(&report, &opts));
    CHECK_OK(spn_reject_report_destroy(report));
    CHECK_OK(spn_reject_report_destroy(NULL));
    CHECK(spn_reject_report_policy(NULL) == NULL);
}
