/* SPDX-License-Identifier: MIT */
/*
 * metrics_core_times.c - how long tasks wait and run, and which run now.
 *
 * OVERVIEW
 *   Each worker has a part of its own (metrics_core.h): two histograms, what it runs, and
 *   a number that is odd while it runs something and grows with each start and end.  Of
 *   every so many tasks one is timed, because a look at the clock costs more than a small
 *   task.  The pool calls what is inline here beside each task, so that it runs tasks as it
 *   does without: in batches, and functions without a node.  task_times.c is what programs
 *   see of it.
 *
 * WAITING
 *   A task has no room for the time it was submitted.  A submitter that is to time one
 *   notes task and time in a small table, at a place found from the task's address, and
 *   the worker that is about to run the task finds them there.  A later note in the same
 *   place replaces an earlier one, whose task is then not timed.  A task that is submitted
 *   without being timed takes an old note of its own away: a task may be refused, or be
 *   taken back, and come again.
 *   A task that leaves without reaching a worker takes its note away.  One that a policy
 *   keeps waiting for room has its note all the while.  A function that is submitted without
 *   a node gets one if it is to be timed.  Nobody tells of those that go with all
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
#include "metrics/metrics_core_times.h"

#include <string.h>

static void init_part(struct spn__tally *tally)
{
    struct spn__times_part *part = (struct spn__times_part *)(void *)tally;

    spn__init(&part->number, 0);
    for (int i = 0; i < SPN__TIMES_LABEL_WORDS; i++)
        spn__init(&part->label[i], 0);
    part->start_ns = -1;
    part->until_timed = 1; /* the first is timed */
    part->labelled = false;
    part->seen_number = 0;
    part->seen_ns = 0;
    spn__buckets_init(&part->wait);
    spn__buckets_init(&part->run);
}

static void init_sender(struct spn__tally *tally)
{
    ((struct spn__times_sender *)(void *)tally)->until_timed = 1; /* as above */
}

void spn__times_init(struct spn_task_times *times, uint32_t every)
{
    memset(times, 0, sizeof *times);
    spn__tally_set_init(&times->parts, sizeof(struct spn__times_part), init_part);
    spn__tally_set_init(&times->senders, sizeof(struct spn__times_sender), init_sender);
    times->every = every;
    for (int i = 0; i < SPN__TIMES_NOTES; i++) {
        spn__init(&times->notes[i].task, NULL);
        spn__init(&times->notes[i].since_ns, 0);
    }
    spn__lock_init(&times->looks);
    times->empty_ns = INT64_MIN;
}

void spn__times_fini(struct spn_task_times *times)
{
    spn__tally_set_fini(&times->parts);
    spn__tally_set_fini(&times->senders);
}

void spn__times_note(struct spn_task_times *times, const spn_task *task)
{
    struct spn__times_note *note = spn__times_note_of(times, task);

    /* relaxed, both: nobody believes a note without a task, and [note] brings it. */
    spn__store(&note->task, NULL, relaxed);
    spn__store(&note->since_ns, spn__now(), relaxed);
    spn__store(&note->task, task, release); /* [note] */
}

void spn__times_left(struct spn_task_times *times, const spn_task *task)
{
    const spn_task *noted = task;

    /* relaxed, both: takes its own away and no other. */
    (void)spn__cas(&spn__times_note_of(times, task)->task, &noted, NULL, relaxed,
                   relaxed);
}

int64_t spn__times_waited(struct spn_task_times *times, const spn_task *task)
{
    struct spn__times_note *note = spn__times_note_of(times, task);
    const spn_task *noted = task;
    int64_t since_ns, now_ns;

    if (spn__load(&note->task, acquire) != task) /* [note] */
        return -1;
    since_ns = spn__load(&note->since_ns, relaxed); /* [note] */
    /* relaxed: only takes it away; if another note came meanwhile, this one is gone. */
    if (!spn__cas(&note->task, &noted, NULL, relaxed, relaxed))
        return -1;
    now_ns = spn__now();
    return now_ns > since_ns ? now_ns - since_ns : 0;
}

void spn__times_label(struct spn__times_part *part, const char *label)
{
    uint64_t words[SPN__TIMES_LABEL_WORDS] = { 0 };

    if (label != NULL)
        memcpy(words, label, strnlen(label, sizeof words - 1));
    for (int i = 0; i < SPN__TIMES_LABEL_WORDS; i++)
        spn__store(&part->label[i], words[i], release); /* [run] */
    part->labelled = label != NULL;
}

int64_t spn__times_ran(struct spn__times_part *part)
{
    const int64_t run_ns = spn__now() - part->start_ns;

    spn__buckets_record(&part->run, run_ns, true);
    return run_ns;
}
