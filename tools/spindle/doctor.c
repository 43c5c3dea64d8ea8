/* SPDX-License-Identifier: MIT */
/*
 * doctor.c - `spindle doctor`: what this machine gives to a pool, what the
 * smallest steps cost on it, and whether that is good.
 *
 * Three stages that share nothing but structs: look (machine.c), measure
 * (measure.c), judge (here).  The judgement is a list of findings, each with
 * what to do about it, and a verdict made from them; text and JSON print the
 * same facts.
 *
 * A finding is a problem when spindle cannot work, or works so badly that a
 * server should not be put here; problems make the exit status 1.  A warning is
 * something to look at, a note something to know; neither changes the status,
 * because a script that asks "can I run here?" gets a yes.
 */
#include "command.h"
#include "json.h"
#include "machine.h"
#include "measure.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where a figure turns into a finding. */
#define CLOCK_COARSE_NS SPN_MS(1) /* timeouts in ms mean nothing above       */
#define CLOCK_SLOW_NS   150.0     /* a vDSO clock takes 20..60; syscalls more */
#define WAKE_DEAR_NS    100000.0  /* deep idle states, or a busy host         */
enum {
    THREADS_TOO_FEW = 64, /* less than a pool and the program around it */
    THREADS_FEW = 1024,   /* less than a Dubbo server's several pools   */
    FILES_FEW = 4096      /* sockets of a server that has many clients  */
};

enum level { NOTE, WARNING, PROBLEM };

struct finding {
    enum level level;
    char text[320];
    char advice[320]; /* what to do; may be empty */
};

enum { FINDINGS_MAX = 24 }; /* more than there are rules below */

struct diagnosis {
    struct machine machine;
    struct floors floors;
    struct finding findings[FINDINGS_MAX];
    int finding_count;
    int level_count[3];
    char verdict[1024];
};

static const char *const level_names[] = { "note", "warning", "problem" };

/* ---- words for numbers ------------------------------------------------- */

/* Three digits that matter, in the unit that suits. */
static const char *in_words_ns(double ns, char *buffer, size_t capacity)
{
    static const char *const units[] = { "ns", "µs", "ms", "s" };
    int unit = 0, decimals;

    while (unit < 3 && ns >= 999.5) {
        ns /= 1000;
        unit++;
    }
    decimals = ns < 9.995 ? 2 : ns < 99.95 ? 1 : 0;
    if (ns == (double)(int)ns)
        decimals = 0; /* 1 ns of resolution is no measurement */
    snprintf(buffer, capacity, "%.*f %s", decimals, ns, units[unit]);
    return buffer;
}

static const char *in_words_bytes(int64_t bytes, char *buffer, size_t capacity)
{
    static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
    double value = (double)bytes;
    int unit = 0;

    while (unit < 4 && value >= 1024) {
        value /= 1024;
        unit++;
    }
    snprintf(buffer, capacity, "%.*f %s", value < 10 && unit > 0 ? 1 : 0, value,
             units[unit]);
    return buffer;
}

static const char *in_words_limit(int64_t limit, char *buffer, size_t capacity)
{
    if (limit == UNLIMITED)
        snprintf(buffer, capacity, "no limit");
    else if (limit == UNKNOWN)
        snprintf(buffer, capacity, "unknown");
    else
        snprintf(buffer, capacity, "%lld", (long long)limit);
    return buffer;
}

/* So that a call site needs no buffer: each use has its own. */
#define NS(ns)       in_words_ns((ns), (char[32]){ "" }, 32)
#define BYTES(bytes) in_words_bytes((bytes), (char[32]){ "" }, 32)
#define LIMIT(limit) in_words_limit((limit), (char[32]){ "" }, 32)

static const char *or_unknown(const char *text)
{
    return text[0] != '\0' ? text : "unknown";
}

static const char *limit_reason(uint32_t reason)
{
    switch (reason) {
    case SPN_CPU_LIMIT_ONLINE:
        return "online";
    case SPN_CPU_LIMIT_AFFINITY:
        return "affinity";
    case SPN_CPU_LIMIT_CPUSET:
        return "cpuset";
    case SPN_CPU_LIMIT_QUOTA:
        return "quota";
    default:
        return "unknown";
    }
}

static const char *support_name(enum support support)
{
    static const char *const names[] = { "unknown", "missing", "works" };

    return names[support];
}

/* ---- judging ------------------------------------------------------------ */

__attribute__((format(printf, 4, 5))) static void
find(struct diagnosis *d, enum level level, const char *advice, const char *format, ...)
{
    struct finding *f;
    va_list args;

    if (d->finding_count == FINDINGS_MAX)
        return;
    f = &d->findings[d->finding_count++];
    f->level = level;
    d->level_count[level]++;
    snprintf(f->advice, sizeof(f->advice), "%s", advice);
    va_start(args, format);
    vsnprintf(f->text, sizeof(f->text), format, args);
    va_end(args);
}

static bool known(const struct diagnosis *d, enum floor_id id)
{
    return d->floors.of[id].unknown == NULL;
}

static double cost_ns(const struct diagnosis *d, enum floor_id id)
{
    return d->floors.of[id].median_ns;
}

static void judge_system_calls(struct diagnosis *d)
{
    const struct machine *m = &d->machine;

    if (!m->futex_is_posix && m->futex != SUPPORT_WORKS)
        find(d, PROBLEM,
             "Allow futex in the seccomp filter, or build spindle with "
             "-DSPINDLE_FUTEX=posix.",
             "futex(2) does not work here (%s): threads cannot sleep.",
             strerror(m->futex_errno));
    else if (!m->futex_is_posix && m->futex_deadline != SUPPORT_WORKS)
        find(d, PROBLEM,
             "Use Linux 2.6.28 or newer, or build spindle with -DSPINDLE_FUTEX=posix.",
             "futex(2) knows no absolute deadlines here (%s): no timeout would work.",
             strerror(m->futex_errno));
    if (m->membarrier != SUPPORT_WORKS)
        find(d, WARNING,
             "Allow membarrier in the seccomp filter; it needs Linux 4.14 or newer.",
             "membarrier(2) does not work here (%s): hot paths take a full fence, %s "
             "each, where they could take none.",
             strerror(m->membarrier_errno),
             known(d, FLOOR_STORE_FENCE) ? NS(cost_ns(d, FLOOR_STORE_FENCE))
                                         : "unknown");
    else if (!m->fences_asymmetric)
        find(d, NOTE,
             "Build with -DSPINDLE_MEMBARRIER=ON and without sanitizers for speed.",
             "membarrier(2) works, but this build does not use it.");
    if (!d->floors.thread_works)
        find(d, PROBLEM, "See the limits above: one of them is used up.",
             "No thread could be started: %s.", d->floors.of[FLOOR_THREAD].unknown);
}

static void judge_cpus(struct diagnosis *d)
{
    const spn_cpu_limits *cpus = &d->machine.cpus;

    if (cpus->reason == SPN_CPU_LIMIT_QUOTA)
        find(d, WARNING,
             "Raise the quota (cpu.max, --cpus), or keep pools at the usable number "
             "of CPUs: a group that uses up its quota stands still until the next "
             "period.",
             "A cgroup quota of %u %% of a CPU decides how much this process may run.",
             cpus->quota_percent);
    if (cpus->usable == 1)
        find(d, NOTE, "", "With one CPU, spinning only delays the thread waited for.");
    if (!d->floors.pinning)
        find(d, NOTE, "",
             "Threads cannot be pinned here: figures for a placement are unknown.");
    else if (d->floors.shared_core)
        find(d, NOTE, "",
             "CPUs %u and %u, between which pairs were measured, are hyperthreads of "
             "one core.",
             d->floors.cpu_a, d->floors.cpu_b);
    /* Half a CPU of foreign work is enough to show in every figure above 1 µs. */
    if (d->machine.load_percent > 50)
        find(d, WARNING, "Run it again when the machine is quiet.",
             "The machine is busy (load %.1f on %u CPUs): the figures are disturbed.",
             (double)d->machine.load_percent / 100, cpus->online);
}

static void judge_time(struct diagnosis *d)
{
    const struct machine *m = &d->machine;

    if (m->clock_resolution_ns >= CLOCK_COARSE_NS)
        find(d, PROBLEM, "Boot with high-resolution timers (highres=on).",
             "The monotonic clock moves in steps of %s: every timeout is that coarse.",
             NS((double)m->clock_resolution_ns));
    if (known(d, FLOOR_CLOCK_READ) && cost_ns(d, FLOOR_CLOCK_READ) > CLOCK_SLOW_NS)
        find(d, WARNING,
             "See current_clocksource and available_clocksource under "
             "/sys/devices/system/clocksource/clocksource0: tsc, kvm-clock and "
             "arch_sys_counter are fast.",
             "Reading the clock (%s) costs %s: it is a system call, or emulated.",
             or_unknown(m->clocksource), NS(cost_ns(d, FLOOR_CLOCK_READ)));
    if (known(d, FLOOR_WAKE_IDLE_CPU) && cost_ns(d, FLOOR_WAKE_IDLE_CPU) > WAKE_DEAR_NS)
        find(d, WARNING,
             m->is_virtual
                 ? "Where latency matters, give the guest halt polling (haltpoll "
                   "governor, or kvm.halt_poll_ns on the host)."
                 : "Where latency matters, forbid deep idle states (cpupower idle-set "
                   "-D 10, or /dev/cpu_dma_latency).",
             "Waking a CPU that has been idle for 2 ms costs %s.",
             NS(cost_ns(d, FLOOR_WAKE_IDLE_CPU)));
}

static void judge_limits(struct diagnosis *d)
{
    const struct machine *m = &d->machine;

    if (m->thread_limit != UNKNOWN && m->thread_limit < THREADS_FEW)
        find(d, m->thread_limit < THREADS_TOO_FEW ? PROBLEM : WARNING,
             "Raise that limit, or keep the sum of all pools well below it.",
             "At most %lld threads may exist, and others share them (%s).",
             (long long)m->thread_limit, m->thread_limit_by);
    if (m->files_soft != UNKNOWN && m->files_soft < FILES_FEW)
        find(d, NOTE, "Before serving many clients: ulimit -n 65536, or LimitNOFILE=.",
             "%lld files may be open, a connection each.", (long long)m->files_soft);
    if (m->overcommit == 2)
        find(d, NOTE, "Give threads a smaller stack (spn_thread_opts.stack_size).",
             "Memory is not overcommitted: a thread's stack, %s, counts whole.",
             m->stack_size > 0 ? BYTES(m->stack_size) : "unknown in size");
}

/* Appends to the verdict; it has room for every sentence there is. */
__attribute__((format(printf, 2, 3))) static void say(struct diagnosis *d,
                                                      const char *format, ...)
{
    const size_t used = strlen(d->verdict);
    va_list args;

    va_start(args, format);
    vsnprintf(d->verdict + used, sizeof(d->verdict) - used, format, args);
    va_end(args);
}

/* What waking costs, and what follows from it for a pool. */
static void say_about_waking(struct diagnosis *d)
{
    /* A round trip by spinning must be this much cheaper to be worth the CPU. */
    const double worth = 10;

    if (d->machine.cpus.usable < 2) {
        say(d, " With one CPU, pools should not spin and need no more than one thread "
               "for work that does not block.");
        return;
    }
    if (!known(d, FLOOR_WAKE_OTHER_CPU) || !known(d, FLOOR_LINE_ROUND_TRIP)) {
        say(d, " What it costs to wake a thread on another CPU could not be measured.");
        return;
    }
    say(d, " Waking a thread on another CPU takes %s",
        NS(cost_ns(d, FLOOR_WAKE_OTHER_CPU)));
    if (known(d, FLOOR_WAKE_IDLE_CPU))
        say(d, " (%s when that CPU has long been idle)",
            NS(cost_ns(d, FLOOR_WAKE_IDLE_CPU)));
    say(d, ", a word in memory gets there and back in %s:",
        NS(cost_ns(d, FLOOR_LINE_ROUND_TRIP)));
    /* The lowest figures: other work can only make them higher. */
    if (d->floors.of[FLOOR_WAKE_OTHER_CPU].min_ns >
        worth * d->floors.of[FLOOR_LINE_ROUND_TRIP].min_ns)
        say(d, " a worker that spins for a few microseconds before it sleeps pays off "
               "when work arrives often.");
    else
        say(d, " sleeping is cheap here, spinning gains little.");
}

static void judge(struct diagnosis *d)
{
    const struct machine *m = &d->machine;
    const int problems = d->level_count[PROBLEM], warnings = d->level_count[WARNING];

    if (problems > 0)
        say(d, "This machine does not suit spindle as it is: %d problem%s above.",
            problems, problems == 1 ? "" : "s");
    else
        say(d, "This machine suits spindle");
    if (problems == 0 && warnings > 0)
        say(d, ", with %d warning%s above", warnings, warnings == 1 ? "" : "s");
    if (problems == 0)
        say(d, ":");
    say(d, " %u CPU%s usable", m->cpus.usable, m->cpus.usable == 1 ? "" : "s");
    if (m->cpus.online > 0)
        say(d, " (of %u)", m->cpus.online);
    if (m->futex == SUPPORT_WORKS && m->membarrier == SUPPORT_WORKS)
        say(d, ", futex and membarrier work.");
    else
        say(d, ", futex %s, membarrier %s.", support_name(m->futex),
            support_name(m->membarrier));
    say_about_waking(d);
}

static void diagnose(struct diagnosis *d)
{
    judge_system_calls(d);
    judge_cpus(d);
    judge_time(d);
    judge_limits(d);
    judge(d);
}

/* ---- the report for people --------------------------------------------- */

static void heading(const char *text)
{
    printf("\n%s\n", text);
}

__attribute__((format(printf, 2, 3))) static void row(const char *label,
                                                      const char *format, ...)
{
    va_list args;

    printf("  %-14s ", label);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

/* Bytes that start a character; what a terminal makes columns of. */
static int columns(const char *text, size_t length)
{
    int count = 0;

    for (size_t i = 0; i < length; i++)
        count += (text[i] & 0xC0) != 0x80;
    return count;
}

/* Right-aligned by columns, not bytes. */
static void print_right(const char *text, int width)
{
    printf("%*s%s", width - columns(text, strlen(text)), "", text);
}

/* Prints words in lines of at most 78 columns, the first after `lead`. */
static void print_wrapped(const char *lead, const char *text)
{
    const int indent = columns(lead, strlen(lead));
    int column = indent;

    fputs(lead, stdout);
    while (*text != '\0') {
        const size_t length = strcspn(text, " ");
        const int width = columns(text, length);

        if (column > indent && column + 1 + width > 78) {
            printf("\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            putchar(' ');
            column++;
        }
        fwrite(text, 1, length, stdout);
        column += width;
        text += length + (text[length] == ' ');
    }
    putchar('\n');
}

static void print_cpus(const spn_cpu_limits *cpus)
{
    char why[160];

    switch (cpus->reason) {
    case SPN_CPU_LIMIT_AFFINITY:
        snprintf(why, sizeof(why), "the affinity mask has %u", cpus->affinity);
        break;
    case SPN_CPU_LIMIT_CPUSET:
        snprintf(why, sizeof(why), "the cgroup's cpuset has %u", cpus->cpuset);
        break;
    case SPN_CPU_LIMIT_QUOTA:
        snprintf(why, sizeof(why), "the cgroup's quota is %u %% of a CPU",
                 cpus->quota_percent);
        break;
    default:
        snprintf(why, sizeof(why), "nothing restricts them");
    }
    if (cpus->online > 0)
        row("CPUs", "%u usable of %u online: %s", cpus->usable, cpus->online, why);
    else
        row("CPUs", "%u usable: %s", cpus->usable, why);
}

static void print_machine(const struct machine *m)
{
    static const char *const overcommit[] = { "heuristic", "always", "never" };

    heading("Machine");
    print_cpus(&m->cpus);
    row("processor", "%s%s", or_unknown(m->processor),
        m->is_virtual ? ", in a virtual machine" : "");
    row("system", "%s, %s", or_unknown(m->kernel), or_unknown(m->libc));
    row("futex", "%s, %s absolute deadlines%s", support_name(m->futex),
        m->futex_deadline == SUPPORT_WORKS ? "with" : "without",
        m->futex_is_posix ? " (this build uses condition variables)" : "");
    row("membarrier", "%s%s%s", support_name(m->membarrier),
        m->membarrier == SUPPORT_WORKS ? "" : ": ",
        m->membarrier == SUPPORT_WORKS ? "" : strerror(m->membarrier_errno));
    row("clock", "resolution %s, source %s, timer slack %s",
        m->clock_resolution_ns > 0 ? NS((double)m->clock_resolution_ns) : "unknown",
        or_unknown(m->clocksource),
        m->timer_slack_ns >= 0 ? NS((double)m->timer_slack_ns) : "unknown");
    row("idle CPUs", "driver %s, governor %s", or_unknown(m->idle_driver),
        or_unknown(m->idle_governor));
    if (m->load_percent != UNKNOWN)
        row("load", "%.2f in the last minute", (double)m->load_percent / 100);

    heading("Limits");
    row("threads", "%s%s%s", LIMIT(m->thread_limit),
        m->thread_limit_by[0] != '\0' ? ", by " : "", m->thread_limit_by);
    row("", "RLIMIT_NPROC %s, threads-max %s, pid_max %s, pids.max %s",
        LIMIT(m->nproc_limit), LIMIT(m->threads_max), LIMIT(m->pid_max),
        LIMIT(m->pids_limit));
    row("stack", "%s a thread by default",
        m->stack_size > 0 ? BYTES(m->stack_size) : "unknown");
    row("open files", "%s, can be raised to %s", LIMIT(m->files_soft),
        LIMIT(m->files_hard));
    row("address space", "%s",
        m->address_space == UNLIMITED || m->address_space == UNKNOWN
            ? LIMIT(m->address_space)
            : BYTES(m->address_space));
    row("memory", "%s, overcommit %s",
        m->memory_bytes > 0 ? BYTES(m->memory_bytes) : "unknown",
        m->overcommit >= 0 && m->overcommit <= 2 ? overcommit[m->overcommit]
                                                 : "unknown");
}

static void print_floors(const struct floors *floors)
{
    heading("Floors, per operation");
    printf("  %-37s ", "");
    print_right("median", 10);
    print_right("lowest", 12);
    print_right("highest", 12);
    putchar('\n');
    for (int i = 0; i < FLOOR_COUNT; i++) {
        const struct floor *f = &floors->of[i];

        printf("  %-37s ", f->what);
        if (f->unknown != NULL) {
            printf("   unknown: %s\n", f->unknown);
            continue;
        }
        print_right(NS(f->median_ns), 10);
        print_right(NS(f->min_ns), 12);
        print_right(NS(f->max_ns), 12);
        putchar('\n');
    }
    if (floors->pinning && floors->cpu_a != floors->cpu_b)
        printf("  (two CPUs: %u and %u)\n", floors->cpu_a, floors->cpu_b);
}

static void print_report(const struct diagnosis *d)
{
    printf("spindle doctor %s\n", spn_version_string());
    print_machine(&d->machine);
    print_floors(&d->floors);
    if (d->finding_count > 0)
        heading("Findings");
    for (int level = PROBLEM; level >= NOTE; level--) {
        for (int i = 0; i < d->finding_count; i++) {
            const struct finding *f = &d->findings[i];
            char lead[32];

            if ((int)f->level != level)
                continue;
            snprintf(lead, sizeof(lead), "  %-8s ", level_names[level]);
            print_wrapped(lead, f->text);
            if (f->advice[0] != '\0')
                print_wrapped("           ", f->advice);
        }
    }
    putchar('\n');
    print_wrapped("Verdict: ", d->verdict);
}

/* ---- the report for programs ------------------------------------------- */

/* A limit as JSON: null is unknown, -1 is no limit. */
static void json_limit(struct json *j, const char *key, int64_t limit)
{
    if (limit == UNKNOWN)
        json_null(j, key);
    else
        json_integer(j, key, limit == UNLIMITED ? -1 : limit);
}

static void json_text(struct json *j, const char *key, const char *text)
{
    json_string(j, key, text[0] != '\0' ? text : NULL);
}

static void json_machine(struct json *j, const struct machine *m)
{
    json_open(j, "cpus", '{');
    json_integer(j, "usable", m->cpus.usable);
    json_string(j, "reason", limit_reason(m->cpus.reason));
    json_integer(j, "online", m->cpus.online);
    json_integer(j, "affinity", m->cpus.affinity);
    json_integer(j, "cpuset", m->cpus.cpuset);
    json_integer(j, "quota_percent", m->cpus.quota_percent);
    json_integer(j, "cgroup", m->cpus.cgroup);
    json_close(j, '}');

    json_open(j, "system", '{');
    json_text(j, "processor", m->processor);
    json_bool(j, "virtual", m->is_virtual);
    json_text(j, "kernel", m->kernel);
    json_text(j, "libc", m->libc);
    json_string(j, "futex", support_name(m->futex));
    json_string(j, "futex_deadline", support_name(m->futex_deadline));
    json_string(j, "membarrier", support_name(m->membarrier));
    json_bool(j, "fences_asymmetric", m->fences_asymmetric);
    json_string(j, "sleep", m->futex_is_posix ? "posix" : "futex");
    json_limit(j, "clock_resolution_ns", m->clock_resolution_ns);
    json_text(j, "clocksource", m->clocksource);
    json_limit(j, "timer_slack_ns", m->timer_slack_ns);
    json_text(j, "idle_driver", m->idle_driver);
    json_text(j, "idle_governor", m->idle_governor);
    json_limit(j, "load_percent", m->load_percent);
    json_close(j, '}');

    json_open(j, "limits", '{');
    json_limit(j, "threads", m->thread_limit);
    json_text(j, "threads_by", m->thread_limit_by);
    json_limit(j, "rlimit_nproc", m->nproc_limit);
    json_limit(j, "threads_max", m->threads_max);
    json_limit(j, "pid_max", m->pid_max);
    json_limit(j, "cgroup_pids", m->pids_limit);
    json_limit(j, "max_map_count", m->map_count_max);
    json_limit(j, "stack_bytes", m->stack_size);
    json_limit(j, "files_soft", m->files_soft);
    json_limit(j, "files_hard", m->files_hard);
    json_limit(j, "address_space_bytes", m->address_space);
    json_limit(j, "memory_bytes", m->memory_bytes);
    json_limit(j, "overcommit", m->overcommit);
    json_close(j, '}');
}

static void json_floors(struct json *j, const struct floors *floors)
{
    json_open(j, "placement", '{');
    json_bool(j, "pinning", floors->pinning);
    json_integer(j, "cpu_a", floors->cpu_a);
    json_integer(j, "cpu_b", floors->cpu_b);
    json_bool(j, "shared_core", floors->shared_core);
    json_close(j, '}');

    json_open(j, "floors", '{');
    for (int i = 0; i < FLOOR_COUNT; i++) {
        const struct floor *f = &floors->of[i];

        json_open(j, f->key, '{');
        json_string(j, "what", f->what);
        if (f->unknown != NULL) {
            json_string(j, "unknown", f->unknown);
        } else {
            json_number(j, "median_ns", f->median_ns);
            json_number(j, "min_ns", f->min_ns);
            json_number(j, "max_ns", f->max_ns);
            json_integer(j, "repeats", f->repeats);
        }
        json_close(j, '}');
    }
    json_close(j, '}');
}

static void print_json(const struct diagnosis *d)
{
    struct json j;

    json_begin(&j, stdout);
    json_open(&j, NULL, '{');
    json_string(&j, "spindle", spn_version_string());
    json_machine(&j, &d->machine);
    json_floors(&j, &d->floors);
    json_open(&j, "findings", '[');
    for (int i = 0; i < d->finding_count; i++) {
        json_open(&j, NULL, '{');
        json_string(&j, "level", level_names[d->findings[i].level]);
        json_string(&j, "text", d->findings[i].text);
        json_text(&j, "advice", d->findings[i].advice);
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_bool(&j, "suits", d->level_count[PROBLEM] == 0);
    json_string(&j, "verdict", d->verdict);
    json_close(&j, '}');
}

/* ---- the command -------------------------------------------------------- */

struct options {
    bool json, quick, quiet;
};

/* On a terminal one line that rewrites itself; in a log, a line each. */
static void show_progress(void *ctx, int index, int count, const char *what)
{
    const struct options *options = ctx;

    if (options->quiet)
        return;
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[Kmeasuring %d of %d: %s", index, count, what);
    else
        fprintf(stderr, "measuring %d of %d: %s\n", index, count, what);
    fflush(stderr);
}

static void clear_progress(const struct options *options)
{
    if (!options->quiet && isatty(STDERR_FILENO)) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
}

/* 0, or an exit status. */
static int parse(struct options *options, int argc, char **argv)
{
    static const struct option known_options[] = {
        { "json", no_argument, NULL, 'j' },
        { "quick", no_argument, NULL, 'q' },
        { "quiet", no_argument, NULL, 's' },
        { NULL, 0, NULL, 0 },
    };
    int option;

    opterr = 0; /* misused() says it better */
    while ((option = getopt_long(argc, argv, "", known_options, NULL)) != -1) {
        switch (option) {
        case 'j':
            options->json = true;
            break;
        case 'q':
            options->quick = true;
            break;
        case 's':
            options->quiet = true;
            break;
        default:
            return misused("doctor", "there is no option '%s'.", argv[optind - 1]);
        }
    }
    if (optind < argc)
        return misused("doctor", "'%s' is one argument too many.", argv[optind]);
    return 0;
}

static int run_doctor(int argc, char **argv)
{
    struct options options = { false, false, false };
    static struct diagnosis d; /* large, and there is one */
    const int status = parse(&options, argc, argv);

    if (status != 0)
        return status;
    machine_look(&d.machine);
    measure_floors(&d.floors, options.quick, show_progress, &options);
    clear_progress(&options);
    diagnose(&d);
    if (options.json)
        print_json(&d);
    else
        print_report(&d);
    return d.level_count[PROBLEM] > 0 ? EXIT_BAD : EXIT_GOOD;
}

const struct command doctor_command = {
    .name = "doctor",
    .summary = "look at this machine: what it gives a pool, and what things cost",
    .help = "Usage: spindle doctor [--quick] [--json] [--quiet]\n"
            "\n"
            "Reports what this machine gives to spindle (CPUs and what limits them,\n"
            "system calls, clock, limits), measures what the smallest steps of a\n"
            "thread pool cost here, and ends in a verdict.  It changes nothing and\n"
            "takes about four seconds.\n"
            "\n"
            "  --quick   measure for half a second only; the figures are rough\n"
            "  --json    print one JSON object instead of text\n"
            "  --quiet   no progress on standard error\n"
            "\n"
            "Exit status: 0 the machine suits spindle, with or without warnings; 1 it\n"
            "has a problem (no futex, no threads, a clock in milliseconds, fewer than\n"
            "64 threads allowed), or the report could not be written; 2 the command\n"
            "line is wrong.\n",
    .run = run_doctor,
};
