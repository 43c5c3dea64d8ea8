/* SPDX-License-Identifier: MIT */
/*
 * task_times.c - how long tasks wait and run, and which run now, by a pool's hooks.
 *
 * OVERVIEW
 *   Each worker has a part of its own (metrics_core.h): two histograms, what it runs, and
 *   a number that is odd while it runs something and grows with each start and end.  Of
 *   every so many tasks one is timed, because a look at the clock costs more than a small
 *   task.
 *
 * WAITING
 *   A task has no room for the time it was submitted.  A submitter that is to time one
 *   notes task and time in a small table, at a place found from the task's address, and
 *   the worker that is about to run the task finds them there.  A later note in the same
 *   place replaces an earlier one, whose task is then not timed.  A task that is submitted
 *   without being timed takes an old note of its own away: a task may be refused, or be
 *   taken back, and come again.
 *   A task that leaves without reaching a worker takes its note away; if a policy puts it
 *   into the queue after all, it is not timed.  Nobody tells of those that go with all
 *   others, so a look that finds the pool's queue empty says so, and what was noted before
 *   then does not count as waiting any more.  These notes are left in place: a worker may
 *   hold such a task and be about to ask how long it has waited.  A task that was being
 *   put in at that moment is timed, but not seen waiting.
 *
 * RUNNING
 *   How long a task has run is known without timing it: a look notes the number, and the
 *   next look that finds it unchanged knows that one task has run since then.
 *
 * ORDERING
 *   [note] the release store of a note's task pairs with the acquire of the worker that
 *          finds it: the time is the note's.
 *   [run]  the label is copied word by word, each stored with release, and then the
 *          number, with release; a look loads the number with acquire, the words with
 *          acquire, and the number again: unchanged, the label is that run's.  It is a
 *          copy because the task's own may be gone before anybody has read it.
 *
 * LOCKS  `looks` guards what looks note, in the parts and of the queue; a leaf.
 */
#include "metrics/task_times.h"

#include <string.h>

#include "base/options.h"
#include "metrics/histogram.h"
#include "metrics/metrics_core.h"
#include "metrics/probes.h"

_Static_assert(sizeof(spn_task_times_opts) ==
                   sizeof(size_t) + 2 * sizeof(uint32_t) + sizeof(void *),
               "append only, no holes");

enum { EVERY_DEFAULT = 64, NOTES = 64, LABEL_WORDS = 6 };

struct part {
    struct spn__tally tally;                  /* first */
    SPN__ATOMIC(uint64_t) number;             /* odd: it runs a task [run] */
    SPN__ATOMIC(uint64_t) label[LABEL_WORDS]; /* of that task, cut [run] */
    int64_t start_ns;                         /* its thread's: -1, not timed */
    uint32_t until_timed;                     /* its thread's: tasks to go */
    uint64_t seen_number;                     /* guarded by looks */
    int64_t seen_ns;                          /* guarded by looks */
    struct spn__buckets wait, run;
};

struct note {
    SPN__ATOMIC(const spn_task *) task; /* NULL: none [note] */
    SPN__ATOMIC(int64_t) since_ns;      /* [note] */
};

struct spn_task_times {
    struct spn__tally_set parts;
    uint32_t every;
    spn_trace *trace;
    bool installed;
    spn_pool_hooks next;             /* those that were there before */
    SPN__ATOMIC(uint32_t) submitted; /* a rough count */
    struct note notes[NOTES];
    struct spn__lock looks;
    int64_t empty_ns; /* guarded by looks: nothing waited then */
};

static void init_part(struct spn__tally *tally)
{
    struct part *part = (struct part *)(void *)tally;

    spn__init(&part->number, 0);
    for (int i = 0; i < LABEL_WORDS; i++)
        spn__init(&part->label[i], 0);
    part->start_ns = -1;
    part->until_timed = 1; /* the first is timed */
    part->seen_number = 0;
    part->seen_ns = 0;
    spn__buckets_init(&part->wait);
    spn__buckets_init(&part->run);
}

static struct note *note_of(struct spn_task_times *times, const spn_task *task)
{
    return &times->notes[((uint64_t)(uintptr_t)task * UINT64_C(0x9e3779b97f4a7c15) >>
                          32) %
                         NOTES];
}

/* ---- hooks ------------------------------------------------------------------------------ */

static void submitting(spn_pool *pool, const spn_task *task, void *ctx)
{
    struct spn_task_times *times = ctx;
    struct note *note = note_of(times, task);
    /* relaxed: two at once may have the same number. */
    const uint32_t number = spn__load(&times->submitted, relaxed);

    spn__store(&times->submitted, number + 1, relaxed);
    if (number % times->every == 0) {
        /* relaxed, both: nobody believes a note without a task, and [note] brings it. */
        spn__store(&note->task, NULL, relaxed);
        spn__store(&note->since_ns, spn__now(), relaxed);
        spn__store(&note->task, task, release); /* [note] */
    } else if (spn__load(&note->task, relaxed) == task) {
        spn__store(&note->task, NULL, relaxed); /* an earlier life's: see WAITING */
    }
    SPN__PROBE2(task_submit, spn_pool_name(pool), task);
    if (times->next.submitting != NULL)
        times->next.submitting(pool, task, times->next.ctx);
}

static void left(spn_pool *pool, const spn_task *task, void *ctx)
{
    struct spn_task_times *times = ctx;
    const spn_task *noted = task;

    /* relaxed, both: takes its own away and no other. */
    (void)spn__cas(&note_of(times, task)->task, &noted, NULL, relaxed, relaxed);
    if (times->next.left != NULL)
        times->next.left(pool, task, times->next.ctx);
}

/* How long a task has waited, if that was noted; else -1. */
static int64_t waited(struct spn_task_times *times, const spn_task *task)
{
    struct note *note = note_of(times, task);
    const spn_task *noted = task;
    int64_t since_ns, now_ns;

    if (task == NULL || spn__load(&note->task, acquire) != task) /* [note] */
        return -1;
    since_ns = spn__load(&note->since_ns, relaxed); /* [note] */
    /* relaxed: only takes it away; if another note came meanwhile, this one is gone. */
    if (!spn__cas(&note->task, &noted, NULL, relaxed, relaxed))
        return -1;
    now_ns = spn__now();
    return now_ns > since_ns ? now_ns - since_ns : 0;
}

static void store_label(struct part *part, const char *label)
{
    uint64_t words[LABEL_WORDS] = { 0 };

    if (label != NULL)
        memcpy(words, label, strnlen(label, sizeof words - 1));
    for (int i = 0; i < LABEL_WORDS; i++)
        spn__store(&part->label[i], words[i], release); /* [run] */
}

static int before(spn_pool *pool, const spn_task_info *info, void *ctx)
{
    struct spn_task_times *times = ctx;
    struct part *part = (struct part *)(void *)spn__tally_mine(&times->parts);
    const int64_t wait_ns = waited(times, info->task);
    uint64_t number;
    int rc = 0;

    SPN__PROBE3(task_start, spn_pool_name(pool), info->label, wait_ns);
    if (times->next.before != NULL)
        rc = times->next.before(pool, info, times->next.ctx);
    if (part == NULL || rc != 0)
        return rc;
    if (wait_ns >= 0)
        spn__buckets_record(&part->wait, wait_ns, true);
    part->start_ns = -1;
    if (times->trace != NULL || --part->until_timed == 0) {
        part->until_timed = times->every;
        part->start_ns = spn__now();
    }
    /* relaxed: its own.  Odd: the task before ended its thread, and this one has taken
     * over the part. */
    number = spn__load(&part->number, relaxed);
    if ((number & 1) != 0)
        spn__store(&part->number, ++number, relaxed);
    store_label(part, info->label);
    spn__store(&part->number, number + 1, release); /* [run] */
    return 0;
}

static void after(spn_pool *pool, const spn_task_info *info, void *ctx)
{
    struct spn_task_times *times = ctx;
    struct part *part = (struct part *)(void *)spn__tally_mine(&times->parts);
    int64_t run_ns = -1;

    if (part != NULL && (spn__load(&part->number, relaxed) & 1) != 0) { /* its own */
        if (part->start_ns >= 0) {
            const int64_t now_ns = spn__now();

            run_ns = now_ns - part->start_ns;
            spn__buckets_record(&part->run, run_ns, true);
            if (times->trace != NULL)
                spn__trace_run(times->trace, spn_pool_name(pool), info->label,
                               part->start_ns, now_ns);
        }
        spn__tally_add(&part->number, 1); /* relaxed: what is not running is not read */
    }
    SPN__PROBE4(task_done, spn_pool_name(pool), info->label, info->status, run_ns);
    if (times->next.after != NULL)
        times->next.after(pool, info, times->next.ctx);
}

static void uncaught(spn_pool *pool, const spn_task_info *info, void *ctx)
{
    struct spn_task_times *times = ctx;

    times->next.uncaught(pool, info, times->next.ctx);
}

static void terminated(spn_pool *pool, void *ctx)
{
    struct spn_task_times *times = ctx;

    times->next.terminated(pool, times->next.ctx);
}

/* ---- the calls ----------------------------------------------------------------------------- */

int spn_task_times_create(spn_task_times **out, const spn_task_times_opts *opts)
{
    spn_task_times_opts o = SPN_TASK_TIMES_OPTS_INIT;
    struct spn_task_times *times;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (opts != NULL && spn__options_copy(&o, sizeof o, opts) != SPN_OK)
        return SPN_EINVAL;
    if (o.reserved != 0)
        return SPN_EINVAL;
    times = spn__alloc(sizeof *times);
    if (times == NULL)
        return SPN_ENOMEM;
    memset(times, 0, sizeof *times);
    spn__tally_set_init(&times->parts, sizeof(struct part), init_part);
    times->every = o.every != 0 ? o.every : EVERY_DEFAULT;
    times->trace = o.trace;
    spn__init(&times->submitted, 0);
    for (int i = 0; i < NOTES; i++) {
        spn__init(&times->notes[i].task, NULL);
        spn__init(&times->notes[i].since_ns, 0);
    }
    spn__lock_init(&times->looks);
    times->empty_ns = INT64_MIN;
    *out = times;
    return SPN_OK;
}

int spn_task_times_install(spn_task_times *times, spn_pool_hooks *hooks)
{
    if (times == NULL || hooks == NULL)
        return SPN_EINVAL;
    if (times->installed)
        return SPN_ESTATE;
    times->installed = true;
    times->next = *hooks;
    hooks->submitting = submitting;
    hooks->before = before;
    hooks->after = after;
    hooks->left = left;
    if (times->next.uncaught != NULL)
        hooks->uncaught = uncaught;
    if (times->next.terminated != NULL)
        hooks->terminated = terminated;
    hooks->ctx = times;
    return SPN_OK;
}

void spn_task_times_destroy(spn_task_times *times)
{
    if (times == NULL)
        return;
    spn__tally_set_fini(&times->parts);
    spn__free(times);
}

static int add_up(spn_task_times *times, spn_histogram_snapshot *snapshot, bool wait)
{
    struct spn__tally *tally;

    if (times == NULL || snapshot == NULL || snapshot->size != sizeof *snapshot)
        return SPN_EINVAL;
    *snapshot = (spn_histogram_snapshot)SPN_HISTOGRAM_SNAPSHOT_INIT;
    /* mutant: the same walk is in histogram.c, where it is killed */
    spn__tally_each (tally, &times->parts) {
        const struct part *part = (const struct part *)(const void *)tally;

        spn__buckets_add_up(wait ? &part->wait : &part->run, snapshot);
    }
    return SPN_OK;
}

int spn_task_times_wait(spn_task_times *times, spn_histogram_snapshot *snapshot)
{
    return add_up(times, snapshot, true);
}

int spn_task_times_run(spn_task_times *times, spn_histogram_snapshot *snapshot)
{
    return add_up(times, snapshot, false);
}

/* What a look sees of a thread. */
struct picture {
    spn_running running;
    uint64_t label[LABEL_WORDS];
};

/* True if the part's thread runs a task now. */
static bool look(struct spn_task_times *times, struct part *part, struct picture *p)
{
    const uint64_t number = spn__load(&part->number, acquire); /* [run] */
    const int64_t now_ns = spn__now();

    for (int i = 0; i < LABEL_WORDS; i++)
        p->label[i] = spn__load(&part->label[i], acquire); /* [run] */
    /* relaxed, both: after the acquires; nobody there: a task that ended its thread. */
    if ((number & 1) == 0 || spn__load(&part->number, relaxed) != number ||
        spn__load(&part->tally.seat.holder, relaxed) == NULL)
        return false;
    spn__lock(&times->looks);
    if (part->seen_number != number) {
        part->seen_number = number;
        part->seen_ns = now_ns;
    }
    p->running =
        (spn_running){ .label = p->label[0] != 0 ? (const char *)p->label : NULL,
                       .running_ns = now_ns - part->seen_ns,
                       .run = number,
                       .thread = (uintptr_t)part };
    spn__unlock(&times->looks);
    return true;
}

int spn_task_times_running(spn_task_times *times, spn_running_fn fn, void *ctx)
{
    struct spn__tally *tally;
    struct picture p;
    int count = 0;

    if (times == NULL || fn == NULL)
        return SPN_EINVAL;
    spn__tally_each (tally, &times->parts) {
        if (look(times, (struct part *)(void *)tally, &p)) {
            fn(ctx, &p.running);
            count++;
        }
    }
    return count;
}

int64_t spn__task_times_longest(spn_task_times *times)
{
    struct spn__tally *tally;
    struct picture p;
    int64_t longest = 0;

    /* mutant: the same walk as in running, where it is killed */
    spn__tally_each (tally, &times->parts) {
        if (look(times, (struct part *)(void *)tally, &p) &&
            p.running.running_ns > longest)
            longest = p.running.running_ns;
    }
    return longest;
}

void spn__task_times_empty(spn_task_times *times, int64_t at_ns)
{
    spn__lock(&times->looks);
    if (at_ns > times->empty_ns)
        times->empty_ns = at_ns;
    spn__unlock(&times->looks);
}

int64_t spn__task_times_oldest(spn_task_times *times)
{
    const int64_t now_ns = spn__now();
    int64_t oldest = 0, empty_ns;

    spn__lock(&times->looks);
    empty_ns = times->empty_ns;
    spn__unlock(&times->looks);
    for (int i = 0; i < NOTES; i++) {
        struct note *note = &times->notes[i];

        if (spn__load(&note->task, acquire) != NULL) {                    /* [note] */
            const int64_t since_ns = spn__load(&note->since_ns, relaxed); /* [note] */

            if (since_ns >= empty_ns && now_ns - since_ns > oldest)
                oldest = now_ns - since_ns;
        }
    }
    return oldest;
}
