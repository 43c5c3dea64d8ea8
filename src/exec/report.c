/* SPDX-License-Identifier: MIT */
/*
 * report.c - says that a pool is exhausted: one line, a file of stacks, a listener.
 *
 * OVERVIEW
 *   The submitter whose task is refused decides whether a report is due, copies what
 *   the pool looks like into the report's one job, and goes on.  A thread that exists
 *   for nothing else does the rest: when a system has run out of threads is no time to
 *   make one, and a submitter must not wait for a disk.
 *
 * ONCE PER INTERVAL
 *   due_ns is when the next line may be, report_due_ns when that may be a report.  A refusal
 *   before due_ns costs a load and a count.  At or after it, whoever moves `state` from IDLE
 *   looks again, for another may have reported meanwhile, and moves due_ns before the job is
 *   posted.  While a job is under way nobody starts another: an interval shorter than a
 *   report is as long as that.
 *   A report without one stack of the pool's threads is not what the interval waits for: the
 *   next may come RETRY_NS later, and twice as late after each such report, so that threads
 *   that never answer do not fill a disk.
 *
 * STATE   IDLE --submitter, cas--> FILLING --submitter--> POSTED --thread--> IDLE
 *                                  FILLING --not due after all--> IDLE
 *   The job belongs to whoever made the last step, but for IDLE: nobody's.
 *
 * ORDERING
 *   [job] the release stores of IDLE pair with the acquire of the submitter that finds it:
 *         the job, and due_ns with it, passes from one owner to the next.  To the thread
 *         it passes with the parker's permit.
 *
 * LOCKS   the pool's lock is held while its workers are listed, and nothing else.
 *         `spn__report_stranded.lock` guards a list of the process; a leaf.
 *
 * STACKS  The library's threads are asked in batches, the pool's first, so that a slow one
 *   costs its time once and not once each; one that does not answer by the deadline is left
 *   out.  Names come from /proc, and from the dynamic linker, after all answers are in.
 *   The submitter knows a worker that was just made by its record or by the worker, and no
 *   more: the report's thread waits until it has come (spn__os_thread_list).
 *
 * WHY per object and not per process?  The interval protects a disk and a log from a
 * storm, and both are the program's to name.  One object for all pools is one interval.
 */
#include "exec/report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/options.h"
#include "base/time.h"
#include "exec/pool.h"
#include "sync/interrupt.h"
#include "sync/seam_stacks.h"
#include "sync/thread_record.h"

_Static_assert(sizeof(spn_reject_report_opts) == sizeof(size_t) + 5 * sizeof(void *) +
                                                     sizeof(int64_t) +
                                                     4 * sizeof(uint32_t),
               "append only, no holes");

enum {
    FRAMES_DEFAULT = 32,
    BATCH = 32,         /* threads asked at a time */
    THREADS_MAX = 4096, /* listed of a pool, and of the process */
    NAME_SIZE = 256,
    MESSAGE_SIZE = 1024,
    PATH_SIZE = 4096,
    FILES_A_SECOND = 100, /* names tried before giving up */
    KNOWN = 64,           /* names remembered within a report */
    SYMBOL_SIZE = 1024,
    KNOWN_SIZE = 240 /* longer ones are looked up each time */
};
#define INTERVAL_DEFAULT_NS (10 * SPN_SEC(60))
#define BATCH_NS            SPN_SEC(1) /* for the answers of a batch */
#define ANSWERS_NS          SPN_SEC(5) /* for those of a report */
#define COMING_NS           SPN_SEC(1) /* for threads that were just made */
#define LINE_NS             SPN_SEC(1) /* from one line to the next */
#define RETRY_NS            SPN_SEC(1) /* after the first report without stacks */

enum { IDLE, FILLING, POSTED };

/* What the submitter hands to the thread [job]. */
struct job {
    bool line_only;
    spn_refusal refusal;
    spn_pool_stats stats; /* when it was refused */
    char pool[NAME_SIZE];
    int64_t suppressed; /* line_only: since the last line; else since the last report */
    size_t workers;     /* the pool's; more than are in `known`, perhaps */
    size_t known_count;
    const void *known[THREADS_MAX]; /* the note of a worker's thread, or the worker */
};

/* A place in the code and its name.  Threads of a pool have much of their stacks in
 * common, and the dynamic linker searches, under a lock of its own. */
struct known {
    uintptr_t pc; /* 0: none */
    char name[KNOWN_SIZE];
};

/* Apart from the report, because a signal on its way leads here: what a thread has not
 * answered by then outlives the report. */
struct spn__captures {
    struct spn__captures *next; /* in spn__report_stranded */
    uint32_t signal;            /* 0: no stacks can be had */
    struct spn__os_code code;
    struct spn__os_capture each[BATCH];
    struct spn__os_frame frames[]; /* max_frames and SPN__OS_GUESSES for each */
};

struct spn__stranded spn__report_stranded = { SPN__LOCK_INIT, NULL };

struct spn_reject_report {
    spn_reject_policy policy; /* first: they are the same object */

    /* Fixed. */
    const spn_reject_policy *next;
    int64_t interval_ns;
    uint32_t max_frames;
    uint32_t signal; /* 0: no stacks can be had */
    bool wants_file;
    spn_exhausted_fn exhausted;
    void *ctx;
    char *dir, *address; /* NULL: none */
    spn_thread *thread;
    struct spn__captures *captures; /* the thread's; NULL: no stacks */

    struct spn__parker parker;      /* the thread sleeps here */
    SPN__ATOMIC(uint32_t) stop;     /* relaxed: the unpark that follows orders it */
    SPN__ATOMIC(uint32_t) state;    /* [job] */
    SPN__ATOMIC(int64_t) due_ns;    /* relaxed before the cas: looked at again after */
    SPN__ATOMIC(int64_t) swallowed; /* relaxed: only a count */

    /* The job's owner's [job]. */
    int64_t report_due_ns;
    int64_t retry_ns;   /* from a report without stacks to the next */
    int64_t unreported; /* refused since the last report, and taken from `swallowed` */
    struct job job;

    /* The thread's own. */
    char message[MESSAGE_SIZE];
    char path[PATH_SIZE];
    size_t thread_count;
    struct spn__os_noted threads[THREADS_MAX]; /* the library's, the pool's first */
    int32_t others[THREADS_MAX];
    struct known known[KNOWN];
};

/* ---- in the submitter ------------------------------------------------------------- */

/* The pool's workers, as far as they fit; its lock keeps them from ending. */
static void list_workers(struct job *job, struct spn_pool *pool)
{
    struct spn__list_node *node;

    job->workers = job->known_count = 0;
    spn__lock(&pool->lock);
    spn__list_each (node, &pool->workers) {
        struct spn__worker *worker = spn__list_entry(node, struct spn__worker, link);
        /* relaxed: only a name. */
        const struct spn_thread *thread = spn__load(&worker->self, relaxed);

        job->workers++;
        if (job->known_count < THREADS_MAX)
            job->known[job->known_count++] =
                thread != NULL ? (const void *)&thread->note : worker;
    }
    spn__unlock(&pool->lock);
}

static void swallow(struct spn_reject_report *report)
{
    (void)spn__fetch_add(&report->swallowed, 1, relaxed);
}

static int64_t next_line_ns(const struct spn_reject_report *report, int64_t now_ns)
{
    const int64_t line_ns = spn__time_add(now_ns, LINE_NS);

    return line_ns < report->report_due_ns ? line_ns : report->report_due_ns;
}

/* True for the one who is to report, or to have a line written: the job is its own. */
static bool claim_job(struct spn_reject_report *report, int64_t refused_at_ns,
                      bool report_only)
{
    bool report_due;
    uint32_t found = IDLE;
    int64_t now_ns;

    if (refused_at_ns < spn__load(&report->due_ns, relaxed))
        return false;
    if (!spn__cas(&report->state, &found, FILLING, acquire, relaxed)) /* [job] */
        return false;
    now_ns = spn__now();
    report_due = now_ns >= report->report_due_ns;
    if (now_ns < spn__load(&report->due_ns, relaxed) || /* ordered by [job] */
        (report_only && !report_due)) {
        /* [job] release, though it wrote nothing: the next one may learn of due_ns, and that
         * the thread is through with the job, from us alone. */
        spn__store(&report->state, IDLE, release);
        return false;
    }
    if (report_due)
        report->report_due_ns = spn__time_add(now_ns, report->interval_ns);
    report->job.line_only = !report_due;
    spn__store(&report->due_ns, next_line_ns(report, now_ns), relaxed);
    return true;
}

/* True if this one leads to a report. */
static bool notice(struct spn_reject_report *report, struct spn_pool *pool,
                   const spn_refusal *why)
{
    struct job *job = &report->job;

    if (!claim_job(report, why->refused_at_ns != 0 ? why->refused_at_ns : spn__now(),
                   why->reason == 0)) {
        swallow(report);
        return false;
    }
    job->refusal = *why;
    job->refusal.source = NULL; /* the pool may be gone before the report is made */
    job->stats = (spn_pool_stats)SPN_POOL_STATS_INIT;
    spn__pool_stats_fill(pool, &job->stats);
    job->stats.name = job->pool;
    (void)snprintf(job->pool, sizeof job->pool, "%s", pool->name);
    job->suppressed = spn__exchange(&report->swallowed, 0, relaxed);
    report->unreported += job->suppressed;
    if (job->line_only) {
        report->unreported++;
    } else {
        job->suppressed = report->unreported;
        report->unreported = 0;
        list_workers(job, pool);
    }
    /* relaxed: the permit carries the job; the thread looks after it has taken one. */
    spn__store(&report->state, POSTED, relaxed);
    spn__parker_unpark(&report->parker);
    return true;
}

static int refused(const spn_reject_policy *policy, spn_pool *pool, spn_task *task,
                   const spn_refusal *why)
{
    /* Declared const for those who have nothing to note. */
    struct spn_reject_report *report = (struct spn_reject_report *)(uintptr_t)policy;

    if (why->reason != SPN_REFUSED_SHUTDOWN)
        (void)notice(report, pool, why);
    return report->next->refused(report->next, pool, task, why);
}

int spn_report_pool(spn_reject_report *report, spn_pool *pool)
{
    const spn_refusal why = { .reason = 0, .refused_at_ns = spn__now() };

    if (report == NULL || pool == NULL)
        return SPN_EINVAL;
    return notice(report, pool, &why) ? SPN_OK : SPN_EBUSY;
}

uint32_t spn__reject_signal(const spn_reject_policy *policy)
{
    uint32_t signal = 0;

    if (policy->refused == refused) {
        const struct spn_reject_report *report =
            (const struct spn_reject_report *)(const void *)policy;

        return report->signal;
    }
    if (policy->refused == spn_reject_chain_refused) {
        const spn_reject_chain *chain = (const spn_reject_chain *)(const void *)policy;

        for (size_t i = 0; chain->policies != NULL && i < chain->count && signal == 0;
             i++)
            if (chain->policies[i] != NULL)
                signal = spn__reject_signal(chain->policies[i]);
    }
    return signal;
}

/* ---- the line ------------------------------------------------------------------------ */

static const char *yes_no(bool yes)
{
    return yes ? "true" : "false";
}

static const char *reason_name(uint32_t reason)
{
    switch (reason) {
    case 0:
        return "asked for";
    case SPN_REFUSED_FULL:
        return "full";
    case SPN_REFUSED_SHUTDOWN:
        return "shut down";
    case SPN_REFUSED_LIMIT:
        return "limit";
    case SPN_REFUSED_NO_THREAD:
        return "no thread";
    default:
        return "unknown";
    }
}

/* The words that users of Dubbo grep for. */
static void put_message(struct spn_reject_report *report)
{
    const struct job *job = &report->job;
    const spn_pool_stats *s = &job->stats;
    const long long done = s->completed + s->failed;
    const bool terminated = s->state == SPN_EXECUTOR_TERMINATED;
    const bool shut_down = s->state != SPN_EXECUTOR_RUNNING;
    struct spn__report_figures figures;

    spn__report_figures(s, &figures);
    (void)snprintf(report->message, sizeof report->message,
                   "Thread pool is %s! Thread Name: %s, Pool Size: %d (active: "
                   "%d, core: %d, max: %d, largest: %d), Task: %lld (completed: %lld), "
                   "Executor status:(isShutdown:%s, isTerminated:%s, "
                   "isTerminating:%s)%s%s!",
                   job->refusal.reason == 0 ? "reported" : "EXHAUSTED", job->pool,
                   (int)s->threads, (int)figures.active, (int)s->core_threads,
                   (int)s->max_threads, (int)s->largest, (long long)figures.tasks, done,
                   yes_no(shut_down), yes_no(terminated),
                   yes_no(shut_down && !terminated),
                   report->address != NULL ? ", in " : "",
                   report->address != NULL ? report->address : "");
}

/* What the line leaves out. */
static void put_rest(const struct job *job, char *text, size_t capacity)
{
    const spn_pool_stats *s = &job->stats;
    struct spn__report_figures figures;

    spn__report_figures(s, &figures);
    (void)snprintf(text, capacity,
                   "Reason: %s, Queue: %lld (capacity: %s), Refused before: %lld, "
                   "%s: %lld",
                   reason_name(job->refusal.reason), (long long)figures.waiting,
                   figures.capacity, (long long)s->rejected,
                   job->line_only ? "not logged" : "unreported",
                   (long long)job->suppressed);
}

/* ---- the file --------------------------------------------------------------------------- */

/* Text on its way to a file; after an error the rest is dropped. */
struct out {
    int fd, error;
    size_t used;
    char bytes[8192];
};

static void flush(struct out *out)
{
    if (out->error == 0)
        out->error = spn__os_file_write(out->fd, out->bytes, out->used);
    out->used = 0;
}

__attribute__((format(printf, 2, 3))) static void put(struct out *out,
                                                      const char *format, ...)
{
    char text[2048]; /* longer than any line; a path that is not is cut */
    va_list args;
    size_t length;
    int wanted;

    va_start(args, format);
    wanted = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (wanted < 0)
        return;
    length = (size_t)wanted < sizeof text ? (size_t)wanted : sizeof text - 1;
    if (out->used + length > sizeof out->bytes)
        flush(out);
    memcpy(out->bytes + out->used, text, length);
    out->used += length;
}

static const char *state_name(char state)
{
    switch (state) {
    case 'R':
        return "running";
    case 'S':
        return "sleeping";
    case 'D':
        return "disk sleep";
    case 'T':
    case 't':
        return "stopped";
    case 'Z':
    case 'X':
        return "ended";
    default:
        return "unknown";
    }
}

/* What the kernel knows of a thread, or that it knows nothing. */
static void look_at(int32_t tid, struct spn__os_task *task)
{
    if (!spn__os_task_look(tid, task))
        *task = (struct spn__os_task){ .name = "?", .state = '?' };
}

static void put_thread(struct out *out, int32_t tid, const struct spn__os_task *task)
{
    put(out, "\"%s\" tid=%d %c (%s)%s%s\n", task->name, (int)tid, task->state,
        state_name(task->state), task->wchan[0] != '\0' ? " in " : "", task->wchan);
}

/* What was loaded then may be gone now. */
static void forget_names(struct spn_reject_report *report)
{
    for (int i = 0; i < KNOWN; i++)
        report->known[i].pc = 0;
}

static const char *name_of(struct spn_reject_report *report, uintptr_t pc, char *text)
{
    struct known *known = &report->known[(pc ^ pc >> 6) % KNOWN];
    size_t length;

    if (known->pc == pc)
        return known->name;
    spn__os_symbol(pc, text, SYMBOL_SIZE);
    length = strlen(text);
    if (length < KNOWN_SIZE) {
        memcpy(known->name, text, length + 1);
        known->pc = pc;
    }
    return text;
}

static void put_stack(struct spn_reject_report *report, struct out *out,
                      const struct spn__os_capture *c)
{
    const uint32_t max_frames = report->max_frames;
    uint32_t number = 0, i;
    char text[SYMBOL_SIZE];

    for (i = 0; i < c->count && number < max_frames; i++) {
        const struct spn__os_frame *frame = &c->frames[i];

        if (frame->guessed && !spn__os_follows_call(frame->pc))
            continue;
        /* A return address belongs to the call before it. */
        put(out, "    #%-3u 0x%016llx %s%s\n", (unsigned)number,
            (unsigned long long)frame->pc, frame->guessed ? "(guessed) " : "",
            name_of(report, frame->pc - (i == 0 ? 0 : 1), text));
        number++;
    }
    if (c->cut || i < c->count)
        put(out, "    ...\n");
}

/* What became of the question to one thread. */
enum answer { ANSWERED, NOT_ALLOWED, NOT_ASKED, GONE, LATE };

static const char *const no_stack[] = {
    [ANSWERED] = "",
    [NOT_ALLOWED] = "(no stack: it runs, and does not let the signal through)",
    [NOT_ASKED] = "(no stack: the system has no room for the signal)",
    [GONE] = "(ended meanwhile)",
    [LATE] = "(no stack: it did not answer)",
};

/* Asks up to BATCH threads, and waits for them all, until limit_ns at most.  Before it
 * looks what they do: the question itself makes a sleeping thread run. */
static void ask(struct spn_reject_report *report, const struct spn__os_noted *targets,
                size_t count, enum answer *answers, struct spn__os_task *tasks,
                int64_t limit_ns)
{
    struct spn__os_capture *each = report->captures->each;
    bool asked[BATCH] = { false };
    int64_t deadline_ns;

    for (size_t i = 0; i < count; i++) {
        int rc;

        look_at(targets[i].tid, &tasks[i]);
        answers[i] = targets[i].allowed ? LATE : NOT_ALLOWED;
        if (!spn__os_capture_idle(&each[i]))
            continue; /* the place still waits for a late answer */
        each[i].tid = targets[i].tid;
        if (!targets[i].allowed) {
            if (spn__os_capture_peek(&each[i], &targets[i].stack))
                answers[i] = ANSWERED;
            continue;
        }
        rc = spn__os_capture_ask(&each[i], report->signal);
        asked[i] = rc == SPN_OK;
        if (rc != SPN_OK)
            answers[i] = rc == SPN_EEMPTY ? GONE : NOT_ASKED;
    }
    /* From here on: what the looks took is not taken from those who answer. */
    deadline_ns = spn__time_add(spn__now(), BATCH_NS);
    if (deadline_ns > limit_ns)
        deadline_ns = limit_ns;
    for (size_t i = 0; i < count; i++)
        if (asked[i] && spn__os_capture_await(&each[i], deadline_ns))
            answers[i] = ANSWERED;
}

/* How many of these threads have told where they are. */
static size_t put_stacks(struct spn_reject_report *report, struct out *out,
                         const struct spn__os_noted *threads, size_t all,
                         int64_t limit_ns)
{
    struct spn__os_task tasks[BATCH];
    enum answer answers[BATCH];
    size_t answered = 0;

    for (size_t i = 0; i < all; i += BATCH) {
        const size_t rest = all - i;
        const size_t count = rest < BATCH ? rest : BATCH;

        ask(report, &threads[i], count, answers, tasks, limit_ns);
        for (size_t j = 0; j < count; j++) {
            put_thread(out, threads[i + j].tid, &tasks[j]);
            if (answers[j] == ANSWERED) {
                put_stack(report, out, &report->captures->each[j]);
                answered++;
            } else {
                put(out, "    %s\n", no_stack[answers[j]]);
            }
            put(out, "\n");
        }
    }
    return answered;
}

static bool is_of_pool(const struct job *job, const struct spn__os_noted *thread)
{
    for (size_t i = 0; i < job->known_count; i++)
        if (job->known[i] == thread->note || job->known[i] == thread->arg)
            return true;
    return false;
}

/* Has the library's threads in report->threads, the pool's first: how many these are. */
static size_t list_threads(struct spn_reject_report *report)
{
    struct spn__os_noted *all = report->threads;
    size_t of_pool = 0;

    report->thread_count = spn__os_thread_list(all, THREADS_MAX, report->signal,
                                               spn__time_add(spn__now(), COMING_NS));
    for (size_t i = 0; i < report->thread_count; i++)
        if (is_of_pool(&report->job, &all[i])) {
            const struct spn__os_noted thread = all[i];

            all[i] = all[of_pool];
            all[of_pool++] = thread;
        }
    return of_pool;
}

/* Threads of the library, with stacks; true if there is one of the pool. */
static bool put_threads(struct spn_reject_report *report, struct out *out)
{
    const size_t of_pool = list_threads(report);
    const int64_t limit_ns = spn__time_add(spn__now(), ANSWERS_NS);
    size_t answered;

    spn__os_code_look(&report->captures->code); /* nobody is being asked now */
    forget_names(report);
    put(out, "Threads of the pool: %zu\n\n", report->job.workers);
    answered = put_stacks(report, out, report->threads, of_pool, limit_ns);
    put(out, "Other threads of the library: %zu\n\n", report->thread_count - of_pool);
    (void)put_stacks(report, out, report->threads + of_pool,
                     report->thread_count - of_pool, limit_ns);
    return answered != 0;
}

static bool is_listed(const struct spn_reject_report *report, int32_t tid)
{
    for (size_t i = 0; i < report->thread_count; i++)
        if (report->threads[i].tid == tid)
            return true;
    return false;
}

/* The process's other threads: their names and states, no stacks. */
static void put_others(struct spn_reject_report *report, struct out *out)
{
    const size_t all = spn__os_task_list(report->others, THREADS_MAX);
    struct spn__os_task task;

    if (all == 0)
        return;
    put(out, "Other threads of the process\n\n");
    for (size_t i = 0; i < all && i < THREADS_MAX; i++) {
        if (is_listed(report, report->others[i]))
            continue;
        look_at(report->others[i], &task);
        put_thread(out, report->others[i], &task);
    }
    if (all > THREADS_MAX)
        put(out, "...\n");
}

/* A new file in the folder, named after the time; 0 or an errno. */
static int create_file(struct spn_reject_report *report, const char *dir, int *fd)
{
    char date[20];
    int error = EEXIST;

    spn__os_date(date);
    for (int i = 1; i <= FILES_A_SECOND && error == EEXIST; i++) {
        char number[16] = "";
        int length;

        if (i > 1)
            (void)snprintf(number, sizeof number, ".%d", i);
        length = snprintf(report->path, sizeof report->path, "%s/spindle_stacks.%s%s",
                          dir, date, number);
        if (length < 0 || (size_t)length >= sizeof report->path)
            return ENAMETOOLONG;
        error = spn__os_file_create(fd, report->path);
    }
    return error;
}

/* In the folder asked for or, with a warning, at home. */
static int create_file_somewhere(struct spn_reject_report *report, int *fd)
{
    char text[128];
    int error;

    if (report->dir != NULL) {
        error = spn__os_folder_create(report->dir);
        if (error == 0)
            error = create_file(report, report->dir, fd);
        if (error == 0)
            return 0;
        spn__os_error_text(error, text, sizeof text);
        spn__log(SPN_LOG_WARN, "no stacks into %s: %s; into %s instead", report->dir,
                 text, spn__os_home());
    }
    return create_file(report, spn__os_home(), fd);
}

/* True if report->path is a complete file; then *stacks says whether it has any. */
static bool write_file(struct spn_reject_report *report, const char *rest, bool *stacks)
{
    struct out out = { .fd = -1, .error = 0, .used = 0 };
    char text[128];
    int error = create_file_somewhere(report, &out.fd);

    if (error == 0) {
        put(&out, "%s\n%s\n", report->message, rest);
        if (report->captures != NULL)
            *stacks = put_threads(report, &out);
        put_others(report, &out);
        flush(&out);
        error = spn__os_file_close(out.fd);
        if (out.error != 0)
            error = out.error;
        if (error != 0)
            spn__os_file_remove(report->path); /* half a report is a riddle */
    }
    if (error != 0) {
        spn__os_error_text(error, text, sizeof text);
        spn__log(SPN_LOG_ERROR, "stacks of pool %s could not be written: %s",
                 report->job.pool, text);
    }
    return error == 0;
}

/* ---- the thread --------------------------------------------------------------------------- */

/* The report just made does not count: the next may come sooner. */
static void allow_retry(struct spn_reject_report *report)
{
    const int64_t now_ns = spn__now();
    const int64_t due_ns = spn__time_add(now_ns, report->retry_ns);

    if (due_ns < report->report_due_ns) {
        report->report_due_ns = due_ns;
        report->retry_ns *= 2;
        /* relaxed: [job] */
        spn__store(&report->due_ns, next_line_ns(report, now_ns), relaxed);
    }
}

static void make_report(struct spn_reject_report *report)
{
    char rest[256];
    bool written = false, stacks = false;

    put_message(report);
    put_rest(&report->job, rest, sizeof rest);
    spn__log(SPN_LOG_WARN, "%s %s", report->message, rest);
    if (report->job.line_only)
        return;
    if (report->wants_file)
        written = write_file(report, rest, &stacks);
    if (report->exhausted != NULL) {
        const spn_exhaustion what = {
            .message = report->message,
            .pool = report->job.pool,
            .file = written ? report->path : NULL,
            .refusal = &report->job.refusal,
            .stats = &report->job.stats,
            .suppressed = report->job.suppressed,
        };

        report->exhausted(report->ctx, &what);
    }
    if (stacks)
        report->retry_ns = RETRY_NS;
    else if (report->signal != 0)
        allow_retry(report);
}

static int serve(void *arg)
{
    struct spn_reject_report *report = arg;
    struct spn_thread *self = spn__self_get();
    bool stop;

    self->stays = true;
    do {
        (void)spn__parker_park(&report->parker, SPN_FOREVER);
        /* First: a report posted before the end is made. */
        stop = spn__load(&report->stop, relaxed) != 0;
        if (spn__load(&report->state, relaxed) == POSTED) { /* with the permit */
            make_report(report);
            spn__store(&report->state, IDLE, release); /* [job] */
        }
    } while (!stop);
    return 0;
}

/* ---- making --------------------------------------------------------------------------------- */

/* A copy in *out, NULL for NULL and ""; false: no memory. */
static bool copy_text(char **out, const char *text)
{
    size_t size;

    *out = NULL;
    if (text == NULL || text[0] == '\0')
        return true;
    size = strlen(text) + 1;
    *out = spn__alloc(size);
    if (*out == NULL)
        return false;
    memcpy(*out, text, size);
    return true;
}

static struct spn__captures *make_captures(uint32_t max_frames)
{
    const uint32_t capacity = max_frames + SPN__OS_GUESSES;
    struct spn__captures *captures =
        spn__alloc(sizeof *captures + sizeof(struct spn__os_frame) * BATCH * capacity);

    if (captures == NULL)
        return NULL;
    captures->signal = 0;
    captures->code.count = 0;
    for (size_t i = 0; i < BATCH; i++)
        spn__os_capture_init(&captures->each[i], &captures->code,
                             &captures->frames[i * capacity], capacity);
    return captures;
}

static bool all_idle(struct spn__captures *captures)
{
    for (size_t i = 0; i < BATCH; i++)
        if (!spn__os_capture_idle(&captures->each[i]))
            return false;
    return true;
}

/* Gives the signal back, and then the memory; all are idle. */
static void free_captures(struct spn__captures *captures)
{
    if (captures->signal != 0)
        spn__os_capture_close(captures->signal);
    spn__free(captures);
}

/* Frees what was stranded and is idle now. */
static void sweep_stranded(void)
{
    struct spn__captures *idle = NULL, *each, **at = &spn__report_stranded.first;

    spn__lock(&spn__report_stranded.lock);
    while ((each = *at) != NULL) {
        if (all_idle(each)) {
            *at = each->next;
            each->next = idle;
            idle = each;
        } else {
            at = &each->next;
        }
    }
    spn__unlock(&spn__report_stranded.lock);
    while ((each = idle) != NULL) {
        idle = each->next;
        free_captures(each);
    }
}

/* Takes the signal, if stacks are wanted and can be had. */
static int open_stacks(struct spn_reject_report *report, uint32_t signal)
{
    int rc;

    if (!report->wants_file)
        return SPN_OK;
    report->captures = make_captures(report->max_frames);
    if (report->captures == NULL)
        return SPN_ENOMEM;
    rc = spn__os_capture_open(signal, &report->signal);
    if (rc != SPN_OK)
        report->signal = 0;
    report->captures->signal = report->signal;
    /* Without signals, or if every one is taken, the file has names and states. */
    return rc == SPN_ENOTSUP || (rc == SPN_EBUSY && signal == 0) ? SPN_OK : rc;
}

static void close_stacks(struct spn__captures *captures)
{
    if (captures != NULL && all_idle(captures)) {
        free_captures(captures);
    } else if (captures != NULL) {
        /* A signal is on its way: it needs the handler and the memory. */
        spn__lock(&spn__report_stranded.lock);
        captures->next = spn__report_stranded.first;
        spn__report_stranded.first = captures;
        spn__unlock(&spn__report_stranded.lock);
    }
    sweep_stranded();
}

static void free_report(struct spn_reject_report *report)
{
    close_stacks(report->captures);
    spn__free(report->dir);
    spn__free(report->address);
    spn__free(report);
}

static bool valid_opts(const spn_reject_report_opts *o)
{
    if (o->next != NULL && !spn__reject_is_whole(o->next))
        return false;
    return o->interval_ns >= 0 && o->max_frames <= SPN_REPORT_FRAMES_MAX &&
           o->no_stacks <= 1 && o->reserved == 0 &&
           (o->signal == 0 || spn__os_is_realtime_signal(o->signal));
}

static int fill(struct spn_reject_report *report, const spn_reject_report_opts *o)
{
    spn_thread_opts opts = SPN_THREAD_OPTS_INIT;
    int rc;

    report->policy =
        (spn_reject_policy){ sizeof(spn_reject_policy), "report", refused };
    report->next = o->next != NULL ? o->next : spn_reject_abort();
    report->interval_ns = o->interval_ns != 0 ? o->interval_ns : INTERVAL_DEFAULT_NS;
    report->max_frames = o->max_frames != 0 ? o->max_frames : FRAMES_DEFAULT;
    report->signal = 0;
    report->wants_file = o->no_stacks == 0;
    report->exhausted = o->exhausted;
    report->ctx = o->ctx;
    report->dir = report->address = NULL;
    report->captures = NULL;
    spn__parker_init(&report->parker);
    spn__init(&report->stop, 0);
    spn__init(&report->state, IDLE);
    spn__init(&report->due_ns, INT64_MIN);
    spn__init(&report->swallowed, 0);
    report->report_due_ns = INT64_MIN;
    report->retry_ns = RETRY_NS;
    report->unreported = 0;
    if (!copy_text(&report->dir, o->dir) || !copy_text(&report->address, o->address))
        return SPN_ENOMEM;
    rc = open_stacks(report, o->signal);
    if (rc != SPN_OK)
        return rc;
    opts.name = "spindle-report";
    return spn_thread_create(&report->thread, &opts, serve, report);
}

int spn_reject_report_create(spn_reject_report **out,
                             const spn_reject_report_opts *opts)
{
    spn_reject_report_opts o = SPN_REJECT_REPORT_OPTS_INIT;
    struct spn_reject_report *report;
    int rc;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (opts != NULL && spn__options_copy(&o, sizeof o, opts) != SPN_OK)
        return SPN_EINVAL;
    if (!valid_opts(&o))
        return SPN_EINVAL;
    sweep_stranded();
    report = spn__alloc(sizeof *report);
    if (report == NULL)
        return SPN_ENOMEM;
    rc = fill(report, &o);
    if (rc != SPN_OK) {
        free_report(report);
        return rc;
    }
    *out = report;
    return SPN_OK;
}

int spn_reject_report_destroy(spn_reject_report *report)
{
    struct spn_thread *self;
    bool interrupted = false;

    if (report == NULL)
        return SPN_OK;
    self = spn__thread_self();
    if (self == NULL)
        return SPN_ENOMEM;
    if (self == report->thread)
        return SPN_EDEADLK;
    spn__store(&report->stop, 1, relaxed);
    spn__parker_unpark(&report->parker);
    /* An interrupt is for another wait: this one leaves no thread behind. */
    while (spn_thread_join(report->thread, SPN_FOREVER, NULL) == SPN_EINTR)
        interrupted = true;
    if (interrupted)
        spn__interrupt_set(self);
    spn_thread_unref(report->thread);
    free_report(report);
    return SPN_OK;
}

const spn_reject_policy *spn_reject_report_policy(spn_reject_report *report)
{
    return report == NULL ? NULL : &report->policy;
}
