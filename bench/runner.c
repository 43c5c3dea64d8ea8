/* SPDX-License-Identifier: MIT */
/*
 * runner.c - runs workloads and says what came out.
 *
 * OVERVIEW
 *   For each workload: rounds.  In a round every (variant, subject) runs once,
 *   in a child process, one after the other; the first round warms up and does
 *   not count.  So repeats are spread over the whole run, and what disturbs the
 *   machine for a second spoils one repeat of many subjects, not all of one.
 *   From the repeats: median, lowest, highest, and the ratios of medians.
 *
 * CHILDREN
 *   A child starts with nothing but its copy of this process, which has one
 *   thread.  It writes "value METRIC NUMBER" or "skip REASON" lines to a pipe
 *   and leaves.  One that crashes, fails or takes too long is reported, its
 *   subject is not run again in that variant, and all others go on.
 *
 *   A child is a session of its own: where the kernel groups tasks by session
 *   (autogroup), only the group's weight protects a run from other logins'
 *   work, and nice does not; the child raises it if it may.
 */
#include "bench.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#include <spindle.h>

enum {
    WORKLOADS_MAX = 64,
    METRICS_MAX = 8, /* figures one run may report */
    RUNS_MAX = 101,
    RUNS_DEFAULT = 7,
    RUNS_QUICK = 3,
    QUICK_DIVISOR = 50,
    TIMEOUT_S = 60,
    CPUS_MAX = 8192
};

static const struct bench_workload *workloads[WORKLOADS_MAX];
static int workload_count;

static struct {
    const char *filters[WORKLOADS_MAX];
    int filter_count;
    const char *subjects[BENCH_SUBJECTS_MAX];
    int subject_count;
    const char *json;
    const char *variant; /* only names that start so; NULL: all */
    int runs;
    int timeout_s;
    bool quick, list;
} options = { .timeout_s = TIMEOUT_S };

void bench_register(const struct bench_workload *workload)
{
    if (workload_count == WORKLOADS_MAX) {
        fprintf(stderr, "more than %d workloads\n", WORKLOADS_MAX);
        abort();
    }
    workloads[workload_count++] = workload;
}

/* ---- inside a child ------------------------------------------------------ */

struct bench {
    const struct bench_workload *workload;
    const struct bench_variant *variant;
    const struct bench_subject *subject;
    FILE *to_parent;
    int64_t wall_ns, cpu_ns; /* at bench_start */
};

struct bench_thread {
    pthread_t id;
    struct bench *bench;
    void (*fn)(void *arg);
    void *arg;
};

bool bench_variant_is(const struct bench *b, const char *name)
{
    return strcmp(b->variant->name, name) == 0;
}

const void *bench_object(const struct bench *b)
{
    return b->subject->object;
}

uint64_t bench_count(const struct bench *b, uint64_t full)
{
    (void)b;
    return options.quick ? full / QUICK_DIVISOR + 1 : full;
}

/* The index-th CPU this process may run on, or -1. */
static int nth_cpu(int index)
{
    cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
    const size_t size = CPU_ALLOC_SIZE(CPUS_MAX);
    int found = -1;

    if (set != NULL && sched_getaffinity(0, size, set) == 0)
        for (int cpu = 0; cpu < CPUS_MAX && found < 0; cpu++)
            if (CPU_ISSET_S((size_t)cpu, size, set) && index-- == 0)
                found = cpu;
    CPU_FREE(set);
    return found;
}

/* Chosen before any thread is pinned: a pinned one sees only its own CPU. */
static int cpus[2] = { -1, -1 };

int bench_cpu(const struct bench *b, int index)
{
    return b->variant->pinned ? cpus[b->variant->cpus > 1 ? index % 2 : 0] : -1;
}

void bench_place(const struct bench *b, int index)
{
    const size_t size = CPU_ALLOC_SIZE(CPUS_MAX);
    const int cpu = bench_cpu(b, index);
    cpu_set_t *set;

    if (!b->variant->pinned)
        return;
    set = CPU_ALLOC(CPUS_MAX);
    if (set == NULL || cpu < 0)
        bench_skip(b, "there is no such CPU");
    CPU_ZERO_S(size, set);
    CPU_SET_S((size_t)cpu, size, set);
    if (sched_setaffinity(0, size, set) != 0)
        bench_skip(b, "threads cannot be pinned");
    CPU_FREE(set);
}

static int64_t clock_ns(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

void bench_start(struct bench *b)
{
    b->cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    b->wall_ns = clock_ns(CLOCK_MONOTONIC);
}

void bench_stop(struct bench *b, uint64_t operations)
{
    const int64_t wall_ns = clock_ns(CLOCK_MONOTONIC) - b->wall_ns;
    const int64_t cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - b->cpu_ns;
    char metric[64];

    bench_report(b, b->workload->metric, (double)wall_ns / (double)operations);
    snprintf(metric, sizeof(metric), "cpu_%s", b->workload->metric);
    bench_report(b, metric, (double)cpu_ns / (double)operations);
}

void bench_report(struct bench *b, const char *metric, double value)
{
    fprintf(b->to_parent, "value %s %.6f\n", metric, value);
}

void bench_skip(const struct bench *b, const char *reason)
{
    fprintf(b->to_parent, "skip %s\n", reason);
    fflush(b->to_parent);
    _exit(0);
}

void bench_exec(const struct bench *b, const char *const argv[])
{
    /* The program's environment, limits and session are those of a run in C. */
    fflush(b->to_parent);
    if (dup2(fileno(b->to_parent), STDOUT_FILENO) >= 0)
        (void)execv(argv[0], (char *const *)(uintptr_t)argv);
    fprintf(b->to_parent, "fail %s: %s\n", argv[0], strerror(errno));
    fflush(b->to_parent);
    _exit(1);
}

void bench_fail(const struct bench *b, const char *what, const char *file, int line)
{
    const char *slash = strrchr(file, '/');

    fprintf(b->to_parent, "fail %s:%d: %s is false\n", slash != NULL ? slash + 1 : file,
            line, what);
    fflush(b->to_parent);
    _exit(1);
}

static void *second_thread(void *arg)
{
    struct bench_thread *thread = arg;

    bench_place(thread->bench, 1);
    thread->fn(thread->arg);
    return NULL;
}

struct bench_thread *bench_thread_start(struct bench *b, void (*fn)(void *), void *arg)
{
    struct bench_thread *thread = malloc(sizeof(*thread));

    BENCH_CHECK(b, thread != NULL);
    *thread = (struct bench_thread){ .bench = b, .fn = fn, .arg = arg };
    BENCH_CHECK(b, pthread_create(&thread->id, NULL, second_thread, thread) == 0);
    return thread;
}

void bench_thread_join(struct bench_thread *thread)
{
    (void)pthread_join(thread->id, NULL);
    free(thread);
}

const char *bench_glibc_version(void)
{
#ifdef __GLIBC__
    return gnu_get_libc_version();
#else
    return "";
#endif
}

static _Noreturn void child_main(const struct bench_workload *workload,
                                 const struct bench_variant *variant,
                                 const struct bench_subject *subject, int fd)
{
    struct bench b = { .workload = workload, .variant = variant, .subject = subject };

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)setsid();
    if (!options.quick) {
        FILE *group = fopen("/proc/self/autogroup", "we");

        if (group != NULL) {
            fputs("-20", group);
            fclose(group);
        }
    }
    b.to_parent = fdopen(fd, "w");
    if (b.to_parent == NULL)
        _exit(1);
    if (variant->cpus > 0 && nth_cpu(variant->cpus - 1) < 0)
        bench_skip(&b, "needs more CPUs");
    cpus[0] = nth_cpu(0);
    cpus[1] = nth_cpu(1);
    bench_place(&b, 0);
    subject->run(&b);
    fclose(b.to_parent);
    _exit(0);
}

/* ---- what came out -------------------------------------------------------- */

struct series {
    char metric[64];
    double values[RUNS_MAX];
    int count;
    double median, min, max;
};

/* All repeats of one subject in one variant. */
struct cell {
    struct series series[METRICS_MAX];
    int series_count;
    char skipped[128]; /* why it was not run, or ""      */
    char failed[192];  /* how it ended, or ""            */
};

static struct cell cells[BENCH_VARIANTS_MAX][BENCH_SUBJECTS_MAX];
static int failed_cells;

static struct series *series_of(struct cell *cell, const char *metric)
{
    for (int i = 0; i < cell->series_count; i++)
        if (strcmp(cell->series[i].metric, metric) == 0)
            return &cell->series[i];
    return NULL;
}

static void add_value(struct cell *cell, const char *metric, double value)
{
    struct series *series = series_of(cell, metric);

    if (series == NULL) {
        if (cell->series_count == METRICS_MAX)
            return;
        series = &cell->series[cell->series_count++];
        memset(series, 0, sizeof(*series));
        snprintf(series->metric, sizeof(series->metric), "%s", metric);
    }
    if (series->count < RUNS_MAX)
        series->values[series->count++] = value;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void summarise(struct series *s)
{
    const int n = s->count;

    qsort(s->values, (size_t)n, sizeof(s->values[0]), compare_doubles);
    s->min = s->values[0];
    s->max = s->values[n - 1];
    s->median =
        n % 2 != 0 ? s->values[n / 2] : (s->values[n / 2 - 1] + s->values[n / 2]) / 2;
}

/* ---- running -------------------------------------------------------------- */

/* Reads what the child says until it closes the pipe; false: time is up. */
static bool read_all(int fd, char *text, size_t capacity, int timeout_ms)
{
    const int64_t end_ns = clock_ns(CLOCK_MONOTONIC) + timeout_ms * SPN_MS(1);
    size_t used = 0;

    for (;;) {
        const int64_t left_ns = end_ns - clock_ns(CLOCK_MONOTONIC);
        struct pollfd ready = { .fd = fd, .events = POLLIN };
        char lost[256];
        ssize_t got;

        if (left_ns <= 0)
            break;
        if (poll(&ready, 1, (int)(left_ns / 1000000 + 1)) <= 0)
            continue;
        /* What does not fit is read all the same: the child must not block. */
        got = used + 1 < capacity ? read(fd, text + used, capacity - 1 - used)
                                  : read(fd, lost, sizeof(lost));
        if (got == 0) {
            text[used] = '\0';
            return true;
        }
        if (got < 0 && errno != EINTR)
            break;
        if (got > 0 && used + 1 < capacity)
            used += (size_t)got;
    }
    text[used] = '\0';
    return false;
}

/* Takes the lines of one run into the cell. */
static void take_lines(struct cell *cell, char *text, bool counts)
{
    char *rest = text;

    for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n")) {
        char metric[64];
        double value;

        if (sscanf(line, "value %63s %lf", metric, &value) == 2) {
            if (counts)
                add_value(cell, metric, value);
        } else if (strncmp(line, "skip ", 5) == 0) {
            snprintf(cell->skipped, sizeof(cell->skipped), "%s", line + 5);
        } else if (strncmp(line, "fail ", 5) == 0) {
            snprintf(cell->failed, sizeof(cell->failed), "%.180s", line + 5);
        }
    }
}

static void run_once(const struct bench_workload *workload,
                     const struct bench_variant *variant,
                     const struct bench_subject *subject, struct cell *cell,
                     bool counts)
{
    char text[4096];
    int ends[2], status;
    bool in_time;
    pid_t child;

    fflush(NULL); /* or the child would write our buffers again */
    if (pipe(ends) != 0 || (child = fork()) < 0) {
        snprintf(cell->failed, sizeof(cell->failed), "no process: %s", strerror(errno));
        return;
    }
    if (child == 0) {
        close(ends[0]);
        child_main(workload, variant, subject, ends[1]);
    }
    close(ends[1]);
    in_time = read_all(ends[0], text, sizeof(text), options.timeout_s * 1000);
    close(ends[0]);
    if (!in_time) {
        (void)kill(-child, SIGKILL); /* its session, and so its own children */
        (void)kill(child, SIGKILL);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    take_lines(cell, text, counts && in_time && status == 0);
    if (!in_time)
        snprintf(cell->failed, sizeof(cell->failed), "no end after %d s, killed",
                 options.timeout_s);
    else if (WIFSIGNALED(status))
        snprintf(cell->failed, sizeof(cell->failed), "died of signal %d (%s)",
                 WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (status != 0 && cell->failed[0] == '\0')
        snprintf(cell->failed, sizeof(cell->failed), "exit status %d",
                 WEXITSTATUS(status));
}

static void progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void progress(const char *format, ...)
{
    const bool terminal = isatty(STDERR_FILENO) != 0;
    va_list args;

    if (terminal)
        fputs("\r\033[K", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    if (!terminal)
        putc('\n', stderr);
    fflush(stderr);
}

static bool is_chosen(const struct bench_subject *s)
{
    for (int i = 0; i < options.subject_count; i++)
        if (strcasestr(s->name, options.subjects[i]) != NULL)
            return true;
    return options.subject_count == 0;
}

static bool is_chosen_variant(const struct bench_variant *v)
{
    return options.variant == NULL ||
           strncmp(v->name, options.variant, strlen(options.variant)) == 0;
}

static void run_workload(const struct bench_workload *w)
{
    memset(cells, 0, sizeof(cells));
    for (int round = 0; round <= options.runs; round++) {
        if (!isatty(STDERR_FILENO))
            progress("%s: round %d of %d%s", w->name, round, options.runs,
                     round == 0 ? " (warm-up)" : "");
        for (int v = 0; v < BENCH_VARIANTS_MAX && w->variants[v].name != NULL; v++) {
            if (!is_chosen_variant(&w->variants[v]))
                continue;
            for (int s = 0; s < BENCH_SUBJECTS_MAX && w->subjects[s].name != NULL;
                 s++) {
                struct cell *cell = &cells[v][s];

                if (w->subjects[s].run == NULL || cell->failed[0] != '\0' ||
                    cell->skipped[0] != '\0' || !is_chosen(&w->subjects[s]))
                    continue;
                if (isatty(STDERR_FILENO))
                    progress("%s: round %d of %d: %s, %s", w->name, round, options.runs,
                             w->variants[v].name, w->subjects[s].name);
                run_once(w, &w->variants[v], &w->subjects[s], cell, round > 0);
            }
        }
    }
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
    for (int v = 0; v < BENCH_VARIANTS_MAX; v++)
        for (int s = 0; s < BENCH_SUBJECTS_MAX; s++)
            for (int i = 0; i < cells[v][s].series_count; i++)
                summarise(&cells[v][s].series[i]);
}

/* ---- telling --------------------------------------------------------------- */

static void subject_label(const struct bench_subject *s, char *label, size_t capacity)
{
    const char *version = s->version != NULL ? s->version() : "";

    snprintf(label, capacity, "%s%s%s", s->name, version[0] != '\0' ? " " : "",
             version);
}

static bool is_floor(const struct bench_subject *s)
{
    return strcmp(s->name, "floor") == 0;
}

static bool is_peer(const struct bench_subject *s)
{
    return strncmp(s->name, "floor", 5) != 0 && strncmp(s->name, "spindle", 7) != 0;
}

static bool higher_is_better(const char *metric)
{
    const size_t length = strlen(metric);

    if (strncmp(metric, "cpu_", 4) == 0 || strncmp(metric, "wakeups_", 8) == 0)
        return false; /* what is spent, not what is done */
    return length > 6 && strcmp(metric + length - 6, "_per_s") == 0;
}

/* The medians everything is compared with; NAN where there is none. */
static void reference_medians(const struct bench_workload *w, int v, const char *metric,
                              double *floor, double *peer)
{
    *floor = *peer = NAN;
    for (int s = 0; s < BENCH_SUBJECTS_MAX && w->subjects[s].name != NULL; s++) {
        const struct series *series = series_of(&cells[v][s], metric);

        if (series == NULL)
            continue;
        if (is_floor(&w->subjects[s]))
            *floor = series->median;
        else if (is_peer(&w->subjects[s]) &&
                 (isnan(*peer) || (higher_is_better(metric) ? series->median > *peer
                                                            : series->median < *peer)))
            *peer = series->median;
    }
}

/* Three digits that matter. */
static void print_figure(double value, int width)
{
    printf("%*.*f", width, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value);
}

static void print_ratio(double value, double reference, int width)
{
    if (isnan(reference) || reference <= 0)
        printf("%*s", width, "-");
    else
        printf("%*.2f", width, value / reference);
}

static void print_table(const struct bench_workload *w, int v, const char *metric)
{
    double floor, peer;
    char cpu_metric[72];

    reference_medians(w, v, metric, &floor, &peer);
    snprintf(cpu_metric, sizeof(cpu_metric), "cpu_%s", metric);
    printf("\n  %s, %s%s\n", w->variants[v].name, metric,
           higher_is_better(metric) ? " (higher is better)" : "");
    printf("    %-30s %10s %10s %10s %10s %8s %10s\n", "", "median", "lowest",
           "highest", "cpu", "/ floor", "/ best peer");
    for (int s = 0; s < BENCH_SUBJECTS_MAX && w->subjects[s].name != NULL; s++) {
        struct cell *cell = &cells[v][s];
        const struct series *series = series_of(cell, metric);
        const struct series *cpu = series_of(cell, cpu_metric);
        char label[96];

        subject_label(&w->subjects[s], label, sizeof(label));
        if (w->subjects[s].run == NULL || !is_chosen(&w->subjects[s]))
            continue; /* those that are not there are named below the tables */
        if (series == NULL || cell->failed[0] != '\0') {
            printf("    %-30s %s%s\n", label,
                   cell->failed[0] != '\0' ? "FAILED: " : "skipped: ",
                   cell->failed[0] != '\0'    ? cell->failed
                   : cell->skipped[0] != '\0' ? cell->skipped
                                              : "no figure");
            continue;
        }
        printf("    %-30s ", label);
        print_figure(series->median, 10);
        print_figure(series->min, 11);
        print_figure(series->max, 11);
        if (cpu != NULL)
            print_figure(cpu->median, 11);
        else
            printf("%11s", "-");
        print_ratio(series->median, floor, 9);
        print_ratio(series->median, peer, 12);
        putchar('\n');
    }
}

static void print_workload(const struct bench_workload *w)
{
    printf("\n%s  %s\n", w->name, w->question);
    for (int s = 0; s < BENCH_SUBJECTS_MAX && w->subjects[s].name != NULL; s++)
        if (w->subjects[s].detail != NULL && is_chosen(&w->subjects[s]))
            printf("    %s is %s\n", w->subjects[s].name, w->subjects[s].detail);
    for (int v = 0; v < BENCH_VARIANTS_MAX && w->variants[v].name != NULL; v++) {
        struct cell *widest = &cells[v][0];
        bool any = false;

        if (!is_chosen_variant(&w->variants[v]))
            continue;

        /* The subject that reported most names the metrics. */
        for (int s = 1; s < BENCH_SUBJECTS_MAX && w->subjects[s].name != NULL; s++)
            if (cells[v][s].series_count > widest->series_count)
                widest = &cells[v][s];
        for (int i = 0; i < widest->series_count; i++) {
            /* The CPU time of another metric is a column of its table. */
            if (strncmp(widest->series[i].metric, "cpu_", 4) == 0 &&
                series_of(widest, widest->series[i].metric + 4) != NULL)
                continue;
            print_table(w, v, widest->series[i].metric);
            any = true;
        }
        if (!any)
            print_table(w, v, w->metric); /* says why there is nothing */
        for (int s = 0; s < BENCH_SUBJECTS_MAX && w->subjects[s].name != NULL; s++)
            failed_cells += cells[v][s].failed[0] != '\0';
    }
    for (int s = 0; s < BENCH_SUBJECTS_MAX && w->subjects[s].name != NULL; s++)
        if (w->subjects[s].run == NULL && is_chosen(&w->subjects[s]))
            printf("\n  skipped peer: %s (install %s)\n", w->subjects[s].name,
                   w->subjects[s].package);
}

/* Names hold letters, digits and a few signs; all else becomes '_'. */
static void write_name(FILE *to, const char *key, const char *name)
{
    fprintf(to, "\"%s\":\"", key);
    for (; *name != '\0'; name++)
        putc(*name == '"' || *name == '\\' || (unsigned char)*name < 0x20 ? '_' : *name,
             to);
    fputs("\",", to);
}

static void write_json(const struct bench_workload *w, FILE *to)
{
    for (int v = 0; v < BENCH_VARIANTS_MAX && w->variants[v].name != NULL; v++) {
        for (int s = 0; s < BENCH_SUBJECTS_MAX && w->subjects[s].name != NULL; s++) {
            const struct cell *cell = &cells[v][s];
            char label[96];

            subject_label(&w->subjects[s], label, sizeof(label));
            for (int i = 0; i < cell->series_count && cell->failed[0] == '\0'; i++) {
                const struct series *series = &cell->series[i];

                putc('{', to);
                write_name(to, "workload", w->name);
                write_name(to, "variant", w->variants[v].name);
                write_name(to, "subject", label);
                write_name(to, "metric", series->metric);
                fprintf(to, "\"median\":%.3f,\"min\":%.3f,\"max\":%.3f,\"runs\":%d}\n",
                        series->median, series->min, series->max, series->count);
            }
        }
    }
    fflush(to);
}

static void print_machine(void)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[1024], model[128] = "";
    struct utsname system;
    double load = 0;

    while (file != NULL && model[0] == '\0' && fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "model name : %127[^\n]", model) != 1)
            model[0] = '\0';
    if (file != NULL)
        fclose(file);
    if (uname(&system) != 0)
        strcpy(system.release, "unknown");
    (void)getloadavg(&load, 1);
    printf("spindle %s, %d usable CPUs%s%s, Linux %s, load %.2f\n",
           spn_version_string(), spn_cpu_count(), model[0] != '\0' ? ", " : "", model,
           system.release, load);
    printf(
        "%d runs each after one to warm up, in turn; time in ns, medians compared%s\n",
        options.runs, options.quick ? "; --quick: the figures are rough" : "");
    /* Half a CPU of other work shows in everything that sleeps and wakes. */
    if (load > 0.5)
        printf("warning: the machine is busy, so expect a wide spread\n");
}

/* ---- the command line ------------------------------------------------------ */

static const char usage[] =
    "Usage: bench [OPTION...] [WORKLOAD...]\n"
    "\n"
    "Runs the workloads (all, unless some are named) and prints a table for each.\n"
    "\n"
    "  --workload NAME  the same as WORKLOAD; may be given several times\n"
    "  --subject TEXT   only subjects with TEXT in their names; may be given again\n"
    "  --variant TEXT   only variants whose names start with TEXT\n"
    "  --json FILE      also writes one line of JSON per result\n"
    "  --runs N         repeats that count, 1 to 101; 7 by default\n"
    "  --quick          little work and 3 repeats: shows that it runs\n"
    "  --timeout S      seconds after which a run is killed; 60 by default\n"
    "  --list           lists the workloads and does not run them\n"
    "  --help           prints this\n"
    "\n"
    "Exit status: 0 all ran, 1 a subject failed or a file could not be written,\n"
    "2 the command line is wrong.\n";

static int number_option(const char *name, const char *text, int min, int max)
{
    char *end;
    long number;

    errno = 0;
    number = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || number < min || number > max) {
        fprintf(stderr, "bench: --%s takes a number from %d to %d, not '%s'\n", name,
                min, max, text);
        exit(2);
    }
    return (int)number;
}

static void add_filter(const char *name)
{
    if (options.filter_count < WORKLOADS_MAX)
        options.filters[options.filter_count++] = name;
}

static void parse(int argc, char **argv)
{
    static const struct option known[] = {
        { "workload", required_argument, NULL, 'w' },
        { "subject", required_argument, NULL, 's' },
        { "variant", required_argument, NULL, 'v' },
        { "json", required_argument, NULL, 'j' },
        { "runs", required_argument, NULL, 'r' },
        { "quick", no_argument, NULL, 'q' },
        { "timeout", required_argument, NULL, 't' },
        { "list", no_argument, NULL, 'l' },
        { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    int option;

    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case 'w':
            add_filter(optarg);
            break;
        case 's':
            if (options.subject_count < BENCH_SUBJECTS_MAX)
                options.subjects[options.subject_count++] = optarg;
            break;
        case 'v':
            options.variant = optarg;
            break;
        case 'j':
            options.json = optarg;
            break;
        case 'r':
            options.runs = number_option("runs", optarg, 1, RUNS_MAX);
            break;
        case 'q':
            options.quick = true;
            break;
        case 't':
            options.timeout_s = number_option("timeout", optarg, 1, 86400);
            break;
        case 'l':
            options.list = true;
            break;
        case 'h':
            fputs(usage, stdout);
            exit(0);
        default:
            fputs("Run 'bench --help' to see how it is used.\n", stderr);
            exit(2);
        }
    }
    while (optind < argc)
        add_filter(argv[optind++]);
    if (options.runs == 0)
        options.runs = options.quick ? RUNS_QUICK : RUNS_DEFAULT;
}

static bool is_wanted(const struct bench_workload *w)
{
    for (int i = 0; i < options.filter_count; i++)
        if (strcasecmp(options.filters[i], w->name) == 0)
            return true;
    return options.filter_count == 0 && !w->hidden;
}

static void check_filters(void)
{
    for (int i = 0; i < options.filter_count; i++) {
        bool found = false;

        for (int w = 0; w < workload_count; w++)
            found |= strcasecmp(options.filters[i], workloads[w]->name) == 0;
        if (!found) {
            fprintf(stderr,
                    "bench: there is no workload '%s'; 'bench --list' shows them\n",
                    options.filters[i]);
            exit(2);
        }
    }
}

/* Constructors run in the order of linking; people want the order of names. */
static int compare_workloads(const void *a, const void *b)
{
    const struct bench_workload *const *x = a, *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

int main(int argc, char **argv)
{
    FILE *json = NULL;
    bool written = true;

    parse(argc, argv);
    qsort(workloads, (size_t)workload_count, sizeof(workloads[0]), compare_workloads);
    check_filters();
    if (options.list) {
        for (int i = 0; i < workload_count; i++)
            if (is_wanted(workloads[i]))
                printf("%-4s %s\n", workloads[i]->name, workloads[i]->question);
        return fflush(stdout) == 0 ? 0 : 1;
    }
    if (options.json != NULL && (json = fopen(options.json, "we")) == NULL) {
        fprintf(stderr, "bench: cannot write %s: %s\n", options.json, strerror(errno));
        return 1;
    }
    print_machine();
    for (int i = 0; i < workload_count; i++) {
        if (!is_wanted(workloads[i]))
            continue;
        run_workload(workloads[i]);
        print_workload(workloads[i]);
        if (json != NULL)
            write_json(workloads[i], json);
    }
    if (failed_cells > 0)
        printf("\n%d failed; see FAILED above\n", failed_cells);
    if (json != NULL) {
        written = ferror(json) == 0;
        if (fclose(json) != 0)
            written = false;
    }
    if (!written)
        fprintf(stderr, "bench: cannot write %s\n", options.json);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fputs("bench: cannot write to standard output\n", stderr);
        written = false;
    }
    return failed_cells > 0 || !written ? 1 : 0;
}
