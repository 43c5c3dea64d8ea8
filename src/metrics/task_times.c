/* SPDX-License-Identifier: MIT */
/*
 * task_times.c - times of tasks, as programs see them; what pools note is in
 * metrics_core_times.c, whose opening comment is this file's too.
 *
 * ORDERING
 *   [note] and [run] are explained there.
 */
#include "metrics/task_times.h"

#include "base/options.h"
#include "metrics/metrics_core_times.h"

_Static_assert(sizeof(spn_task_times_opts) == sizeof(size_t) + 2 * sizeof(uint32_t),
               "append only, no holes");

enum { EVERY_DEFAULT = 64 };

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
    spn__times_init(times, o.every != 0 ? o.every : EVERY_DEFAULT);
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
    hooks->times = times;
    return SPN_OK;
}

void spn_task_times_destroy(spn_task_times *times)
{
    if (times == NULL)
        return;
    spn__times_fini(times);
    spn__free(times);
}

static bool snapshot_fits(const spn_histogram_snapshot *snapshot)
{
    return snapshot == NULL || snapshot->size == sizeof *snapshot;
}

static void add_up(spn_task_times *times, spn_histogram_snapshot *snapshot, bool wait)
{
    struct spn__tally *tally;

    if (snapshot == NULL)
        return;
    *snapshot = (spn_histogram_snapshot)SPN_HISTOGRAM_SNAPSHOT_INIT;
    /* mutant: the same walk is in histogram.c, where it is killed */
    spn__tally_each (tally, &times->parts) {
        const struct spn__times_part *part =
            (const struct spn__times_part *)(const void *)tally;

        spn__buckets_add_up(wait ? &part->wait : &part->run, snapshot);
    }
}

int spn_task_times_get(spn_task_times *times, spn_histogram_snapshot *wait,
                       spn_histogram_snapshot *run)
{
    if (times == NULL || !snapshot_fits(wait) || !snapshot_fits(run))
        return SPN_EINVAL;
    add_up(times, wait, true);
    add_up(times, run, false);
    return SPN_OK;
}

/* What a look sees of a thread. */
struct picture {
    spn_running running;
    uint64_t label[SPN__TIMES_LABEL_WORDS];
};

/* True if the part's thread runs a task now. */
static bool look(struct spn_task_times *times, struct spn__times_part *part,
                 struct picture *p)
{
    const uint64_t number = spn__load(&part->number, acquire); /* [run] */
    const int64_t now_ns = spn__now();

    for (int i = 0; i < SPN__TIMES_LABEL_WORDS; i++)
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
        if (look(times, (struct spn__times_part *)(void *)tally, &p)) {
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
        if (look(times, (struct spn__times_part *)(void *)tally, &p) &&
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
    for (int i = 0; i < SPN__TIMES_NOTES; i++) {
        struct spn__times_note *note = &times->notes[i];

        if (spn__load(&note->task, acquire) != NULL) {                    /* [note] */
            const int64_t since_ns = spn__load(&note->since_ns, relaxed); /* [note] */

            if (since_ns >= empty_ns && now_ns - since_ns > oldest)
                oldest = now_ns - since_ns;
        }
    }
    return oldest;
}
