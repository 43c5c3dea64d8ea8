/* SPDX-License-Identifier: MIT */
/* metrics_core_times.h - how long tasks wait and run: what a pool calls for each task.  See
 * metrics_core_times.c. */
#ifndef SPN__METRICS_CORE_TIMES_H
#define SPN__METRICS_CORE_TIMES_H

#include <spindle/metrics.h>

#include "metrics/histogram.h"
#include "metrics/metrics_core.h"
#include "metrics/probes.h"

enum { SPN__TIMES_NOTES = 64, SPN__TIMES_LABEL_WORDS = 6 };

/* A worker's. */
struct spn__times_part {
    struct spn__tally tally;                             /* first */
    SPN__ATOMIC(uint64_t) number;                        /* odd: it runs a task [run] */
    SPN__ATOMIC(uint64_t) label[SPN__TIMES_LABEL_WORDS]; /* of that task, cut [run] */
    int64_t start_ns;     /* its thread's: -1, not timed */
    uint32_t until_timed; /* its thread's: tasks to go */
    bool labelled;        /* its thread's: label is not empty */
    uint64_t seen_number; /* guarded by looks */
    int64_t seen_ns;      /* guarded by looks */
    struct spn__buckets wait, run;
};

/* A submitter's. */
struct spn__times_sender {
    struct spn__tally tally; /* first */
    uint32_t until_timed;    /* its thread's: tasks to go */
};

struct spn__times_note {
    SPN__ATOMIC(const spn_task *) task; /* NULL: none [note] */
    SPN__ATOMIC(int64_t) since_ns;      /* [note] */
};

struct spn_task_times {
    struct spn__tally_set parts, senders;
    uint32_t every;
    bool installed;
    struct spn__times_note notes[SPN__TIMES_NOTES];
    struct spn__lock looks;
    int64_t empty_ns; /* guarded by looks: nothing waited then */
};

void spn__times_init(struct spn_task_times *times, uint32_t every);
void spn__times_fini(struct spn_task_times *times);

static inline struct spn__times_note *spn__times_note_of(struct spn_task_times *times,
                                                         const spn_task *task)
{
    return &times->notes[((uint64_t)(uintptr_t)task * UINT64_C(0x9e3779b97f4a7c15) >>
                          32) %
                         SPN__TIMES_NOTES];
}

/* Whether what the calling thread submits next is to be timed; asked once for each. */
static inline bool spn__times_due(struct spn_task_times *times)
{
    struct spn__times_sender *sender =
        (struct spn__times_sender *)(void *)spn__tally_mine(&times->senders);

    if (sender == NULL || --sender->until_timed != 0) /* no memory: it is not timed */
        return false;
    sender->until_timed = times->every;
    return true;
}

/* The task is submitted now; timed: as spn__times_due said. */
void spn__times_note(struct spn_task_times *times, const spn_task *task);
static inline void spn__times_submitted(struct spn_task_times *times,
                                        const spn_task *task, bool timed)
{
    struct spn__times_note *note = spn__times_note_of(times, task);

    if (timed)
        spn__times_note(times, task);
    else if (spn__load(&note->task, relaxed) == task) /* only its own is taken away */
        spn__store(&note->task, NULL, relaxed); /* an earlier life's: see WAITING */
}

/* The task, which may be gone, does not wait any more and will not reach a worker. */
void spn__times_left(struct spn_task_times *times, const spn_task *task);

/* The calling worker's part; NULL: no memory. */
static inline struct spn__times_part *spn__times_mine(struct spn_task_times *times)
{
    return (struct spn__times_part *)(void *)spn__tally_mine(&times->parts);
}

/* How long a task has waited, if that was noted; else -1. */
int64_t spn__times_waited(struct spn_task_times *times, const spn_task *task);
void spn__times_label(struct spn__times_part *part, const char *label);
/* A timed task has run; returns how long. */
int64_t spn__times_ran(struct spn__times_part *part);

/* The worker is about to run a task; NULL: a function without one. */
static inline void spn__times_start(struct spn_task_times *times,
                                    struct spn__times_part *part, const char *pool,
                                    const spn_task *task, const char *label)
{
    int64_t wait_ns = -1;
    uint64_t number;

    /* relaxed: waited looks again. */
    if (task != NULL &&
        spn__load(&spn__times_note_of(times, task)->task, relaxed) == task)
        wait_ns = spn__times_waited(times, task);
    SPN__PROBE3(task_start, pool, label, wait_ns);
    if (part == NULL)
        return;
    if (wait_ns >= 0)
        spn__buckets_record(&part->wait, wait_ns, true);
    part->start_ns = -1;
    if (--part->until_timed == 0) {
        part->until_timed = times->every;
        part->start_ns = spn__now();
    }
    /* relaxed: its own.  Odd: the task before ended its thread, and this one has taken
     * over the part. */
    number = spn__load(&part->number, relaxed);
    if ((number & 1) != 0)
        spn__store(&part->number, ++number, relaxed);
    if (label != NULL || part->labelled)
        spn__times_label(part, label);
    spn__store(&part->number, number + 1, release); /* [run] */
}

/* The task has run; status: what it returned. */
static inline void spn__times_end(struct spn__times_part *part, const char *pool,
                                  const char *label, int status)
{
    int64_t run_ns = -1;

    if (part != NULL && (spn__load(&part->number, relaxed) & 1) != 0) { /* its own */
        if (part->start_ns >= 0)
            run_ns = spn__times_ran(part);
        spn__tally_add(&part->number, 1); /* relaxed: what is not running is not read */
    }
    SPN__PROBE4(task_done, pool, label, status, run_ns);
}

#endif /* SPN__METRICS_CORE_TIMES_H */
