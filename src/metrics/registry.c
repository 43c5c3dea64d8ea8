/* SPDX-License-Identifier: MIT */
/*
 * registry.c - things by name, and their numbers as text.
 *
 * OVERVIEW
 *   A scrape asks each thing for its numbers, once, and then writes family after family
 *   from tables: a family's samples must stand together.  Text is made under the lock into
 *   a buffer that was allocated before; if it does not fit, the scrape is made again with
 *   one that is large enough.  The program's function is called afterwards, without it.
 *
 * LOCKS  `lock` guards the list and is held during a scrape: adding and removing wait for
 *   it, and nobody else.  Below it come the short locks of what is asked.
 *
 * HISTOGRAMS for Prometheus have a bucket for each power of two from a microsecond to a
 *   minute: the eighths of histogram.c would be hundreds of lines each.
 */
#include "metrics/registry.h"

#include <string.h>

#include "base/options.h"
#include "exec/pool.h"
#include "forkjoin/threads.h"
#include "metrics/histogram.h"
#include "metrics/task_times.h"
#include "metrics/text.h"
#include "objpool/objpool.h"
#include "sync/seam.h"
#include "wheel/timer.h"

_Static_assert(sizeof(spn_metrics_source) == sizeof(size_t) + 10 * sizeof(void *),
               "append only, no holes");
_Static_assert((int)SPN__LATE_BUCKETS == SPN_HISTOGRAM_BUCKETS, "the same buckets");

/* ---- what is told ----------------------------------------------------------------------- */

enum form { COUNT, GAUGE, CAPACITY, SECONDS };

/* Which pools have it. */
enum need { NOTHING, TIMES, STEALING };

/* A number of a thing: where it is in the item, and what it is called. */
struct family {
    enum spn__item_kind kind;
    enum form form;
    enum need need;
    bool wide; /* 64 bits */
    size_t offset;
    const char *name;  /* after "spindle_" */
    const char *label; /* one more; rows of the same name are one family.  NULL: none */
    const char *key;   /* in JSON, if it is not the name without the kind */
    const char *help;
};

#define ROW(kind, form, need, where, name, label, key, help)              \
    {                                                                     \
        kind, form, need, sizeof(((struct spn__item *)NULL)->where) == 8, \
            offsetof(struct spn__item, where), name, label, key, help     \
    }
#define AT(kind, form, where, name, help) \
    ROW(kind, form, NOTHING, where, name, NULL, NULL, help)
#define TIMED(where, name, help) \
    ROW(ITEM_POOL, SECONDS, TIMES, where, name, NULL, NULL, help)
#define STATE(which, name)                                        \
    ROW(ITEM_POOL, GAUGE, NOTHING, states[which], "pool_threads", \
        "state=\"" name "\"", "threads_" name, "Threads by what they do.")
#define REJECTED(where, name)                                 \
    ROW(ITEM_POOL, COUNT, NOTHING, now.pool.rejected_##where, \
        "pool_tasks_rejected_total", "reason=\"" name "\"",   \
        "tasks_rejected_" name "_total", "Tasks refused, by reason.")
#define REFUSED(where)                                                                \
    ROW(ITEM_LIMITER, COUNT, NOTHING, now.limiter.refused_##where,                    \
        "limiter_refused_total", "reason=\"" #where "\"", "refused_" #where "_total", \
        "Tasks the limiter did not let through, by reason.")

static const struct family families[] = {
    STATE(SPN__STATE_IDLE, "idle"),
    STATE(SPN__STATE_BUSY, "busy"),
    STATE(SPN__STATE_PARKED, "parked"),
    ROW(ITEM_POOL, GAUGE, STEALING, states[SPN__STATE_BLOCKING], "pool_threads",
        "state=\"blocking\"", "threads_blocking", "Threads by what they do."),
    AT(ITEM_POOL, GAUGE, now.pool.threads, "pool_threads_now", "Threads of the pool."),
    AT(ITEM_POOL, GAUGE, now.pool.active, "pool_threads_active",
       "Threads that run a task."),
    ROW(ITEM_POOL, GAUGE, STEALING, states[SPN__STATE_BLOCKING], "pool_threads_blocked",
        NULL, NULL, "Of those, threads that said that they block: fork/join."),
    AT(ITEM_POOL, GAUGE, now.pool.core_threads, "pool_threads_core", "Core threads."),
    AT(ITEM_POOL, GAUGE, now.pool.max_threads, "pool_threads_max", "Threads at most."),
    AT(ITEM_POOL, GAUGE, now.pool.largest, "pool_threads_max_seen",
       "Most threads at any time."),
    AT(ITEM_POOL, GAUGE, now.pool.queued, "pool_queue_length", "Tasks that wait."),
    AT(ITEM_POOL, CAPACITY, now.pool.capacity, "pool_queue_capacity",
       "Room in the queue."),
    AT(ITEM_POOL, COUNT, submitted, "pool_tasks_submitted_total",
       "Tasks accepted, refused or run by their submitter."),
    AT(ITEM_POOL, COUNT, now.pool.accepted, "pool_tasks_accepted_total",
       "Tasks accepted."),
    AT(ITEM_POOL, COUNT, now.pool.started, "pool_tasks_started_total",
       "Tasks that a thread has begun with."),
    AT(ITEM_POOL, COUNT, now.pool.completed, "pool_tasks_completed_total",
       "Tasks that returned 0."),
    AT(ITEM_POOL, COUNT, now.pool.failed, "pool_tasks_failed_total",
       "Tasks that failed."),
    REJECTED(full, "full"),
    REJECTED(shutdown, "shutdown"),
    REJECTED(no_thread, "no_thread"),
    REJECTED(no_memory, "no_memory"),
    AT(ITEM_POOL, COUNT, now.pool.expired, "pool_tasks_expired_total",
       "Tasks whose deadline passed before they started."),
    AT(ITEM_POOL, COUNT, now.pool.cancelled, "pool_tasks_cancelled_total",
       "Tasks cancelled before they started."),
    AT(ITEM_POOL, COUNT, now.pool.returned, "pool_tasks_returned_total",
       "Tasks taken back, or returned by shutdown."),
    AT(ITEM_POOL, COUNT, now.pool.dropped, "pool_tasks_dropped_total",
       "Tasks discarded by a policy, or expired."),
    AT(ITEM_POOL, COUNT, now.pool.caller_ran, "pool_tasks_caller_ran_total",
       "Tasks run by their submitter, or on a thread of their own."),
    AT(ITEM_POOL, COUNT, now.pool.threads_started, "pool_threads_started_total",
       "Threads made."),
    AT(ITEM_POOL, COUNT, now.pool.threads_failed, "pool_thread_spawn_failures_total",
       "Threads that could not be made."),
    AT(ITEM_POOL, COUNT, now.pool.threads_died, "pool_threads_died_total",
       "Threads ended by a task."),
    AT(ITEM_POOL, COUNT, now.pool.wakeups, "pool_wakeups_total",
       "Threads woken by the pool."),
    ROW(ITEM_POOL, COUNT, STEALING, steals, "pool_steals_total", NULL, NULL,
        "Pieces of work taken from the thread that made them."),
    TIMED(longest_ns, "pool_longest_running_seconds",
          "How long the longest running task has run, at least."),
    TIMED(oldest_ns, "pool_oldest_queued_seconds",
          "How long the oldest timed task has waited."),
    AT(ITEM_TIMER, GAUGE, now.timer.pending, "timer_pending", "Timeouts pending."),
    AT(ITEM_TIMER, COUNT, now.timer.armed, "timer_armed_total", "Timeouts scheduled."),
    AT(ITEM_TIMER, COUNT, now.timer.fired, "timer_fired_total", "Callbacks started."),
    AT(ITEM_TIMER, COUNT, now.timer.cancelled, "timer_cancelled_total",
       "Timeouts cancelled in time."),
    AT(ITEM_TIMER, COUNT, now.timer.replaced, "timer_replaced_total",
       "Timeouts scheduled again while pending."),
    AT(ITEM_TIMER, COUNT, now.timer.returned, "timer_returned_total",
       "Timeouts returned by stop."),
    AT(ITEM_TIMER, COUNT, now.timer.refused, "timer_refused_total",
       "Times the executor did not take what was handed over."),
    AT(ITEM_TIMER, COUNT, now.timer.rejected, "timer_rejected_total",
       "Timeouts refused."),
    AT(ITEM_TIMER, COUNT, now.timer.failed, "timer_failed_total",
       "Callbacks that failed."),
    AT(ITEM_TIMER, COUNT, now.timer.missed, "timer_missed_total", "Periods left out."),
    AT(ITEM_TIMER, COUNT, now.timer.passes, "timer_wakeups_total",
       "Times the timer woke up to look."),
    AT(ITEM_OBJECT_POOL, GAUGE, now.objects.max, "objects_max", "Objects at most."),
    AT(ITEM_OBJECT_POOL, GAUGE, now.objects.idle, "objects_idle", "Objects idle."),
    AT(ITEM_OBJECT_POOL, GAUGE, now.objects.out, "objects_out", "Objects lent."),
    AT(ITEM_OBJECT_POOL, GAUGE, now.objects.waiting, "objects_waiting",
       "Borrowers that wait."),
    AT(ITEM_OBJECT_POOL, COUNT, now.objects.borrowed, "objects_borrowed_total",
       "Borrows."),
    AT(ITEM_OBJECT_POOL, COUNT, now.objects.waited, "objects_waited_total",
       "Borrows that had to wait."),
    AT(ITEM_OBJECT_POOL, COUNT, now.objects.timeouts, "objects_timeouts_total",
       "Borrows that timed out."),
    AT(ITEM_OBJECT_POOL, COUNT, now.objects.made, "objects_made_total",
       "Objects made."),
    AT(ITEM_OBJECT_POOL, COUNT, now.objects.make_failures,
       "objects_make_failures_total", "Objects that could not be made."),
    AT(ITEM_OBJECT_POOL, COUNT, now.objects.destroyed, "objects_destroyed_total",
       "Objects destroyed."),
    AT(ITEM_OBJECT_POOL, COUNT, now.objects.leaks, "objects_leaks_total",
       "Objects reported as leaked."),
    AT(ITEM_LIMITER, GAUGE, now.limiter.max_in_flight, "limiter_in_flight_max",
       "Tasks with the executor behind, at most."),
    AT(ITEM_LIMITER, GAUGE, now.limiter.max_waiting, "limiter_waiting_max",
       "Tasks that wait for their turn, at most."),
    AT(ITEM_LIMITER, GAUGE, now.limiter.in_flight, "limiter_in_flight",
       "Tasks with the executor behind."),
    AT(ITEM_LIMITER, GAUGE, now.limiter.waiting, "limiter_waiting",
       "Tasks that wait for their turn."),
    AT(ITEM_LIMITER, GAUGE, now.limiter.overloaded, "limiter_overloaded",
       "1 while tasks are refused because of the time they would wait."),
    AT(ITEM_LIMITER, SECONDS, now.limiter.delay_ns, "limiter_delay_seconds",
       "The least time a task that started in the last interval had waited."),
    AT(ITEM_LIMITER, COUNT, now.limiter.accepted, "limiter_accepted_total",
       "Tasks let through, or waiting."),
    AT(ITEM_LIMITER, COUNT, now.limiter.completed, "limiter_completed_total",
       "Tasks that returned 0."),
    AT(ITEM_LIMITER, COUNT, now.limiter.failed, "limiter_failed_total",
       "Tasks that failed."),
    AT(ITEM_LIMITER, COUNT, now.limiter.dropped, "limiter_dropped_total",
       "Tasks the executor behind dropped, or refused after a wait."),
    AT(ITEM_LIMITER, COUNT, now.limiter.returned, "limiter_returned_total",
       "Tasks taken back, or returned by shutdown."),
    REFUSED(full),
    REFUSED(delay),
    REFUSED(shutdown),
    REFUSED(behind),
};

enum { FAMILIES = sizeof families / sizeof families[0] };

static const char *label_of(enum spn__item_kind kind)
{
    static const char *const labels[] = { "pool", "timer", "objects", "limiter" };

    return labels[kind];
}

static int64_t number_of(const struct spn__item *item, const struct family *f)
{
    const char *at = (const char *)item + f->offset;
    int64_t wide;
    int32_t narrow;

    if (f->wide) {
        memcpy(&wide, at, sizeof wide);
        return wide;
    }
    memcpy(&narrow, at, sizeof narrow);
    return narrow;
}

static bool has_family(const struct spn__item *item, const struct family *f)
{
    return item->kind == f->kind && (f->need != TIMES || item->times != NULL) &&
           (f->need != STEALING || item->stealing != NULL);
}

static struct spn__item *item_of(struct spn__list_node *node)
{
    return spn__list_entry(node, struct spn__item, link);
}

static int32_t at_least_none(int32_t number)
{
    return number > 0 ? number : 0;
}

/* Each was true at a moment of its own: no state is negative. */
static void look_at_states(struct spn__item *item, int32_t blocked)
{
    const spn_pool_stats *s = &item->now.pool;

    item->states[SPN__STATE_IDLE] = at_least_none(s->threads - s->active - s->parked);
    item->states[SPN__STATE_BUSY] = at_least_none(s->active - blocked);
    item->states[SPN__STATE_PARKED] = s->parked;
    item->states[SPN__STATE_BLOCKING] = blocked;
}

static void look_at_pool(struct spn__item *item)
{
    struct spn_pool *pool = (void *)(uintptr_t)item->thing;
    int32_t blocked = 0; /* fork/join only */
    const int64_t from_ns = item->times != NULL ? spn__now() : 0;

    if (item->stealing != NULL) {
        spn_fj_stats fj = SPN_FJ_STATS_INIT;

        (void)spn_fj_pool_stats_get(item->stealing, &fj);
        item->steals = fj.steals;
        blocked = fj.blocked;
        pool = spn__fj_pool_threads(item->stealing);
    }
    item->now.pool = (spn_pool_stats)SPN_POOL_STATS_INIT;
    (void)spn_pool_stats_get(pool, &item->now.pool);
    look_at_states(item, blocked);
    item->submitted =
        item->now.pool.accepted + item->now.pool.rejected + item->now.pool.caller_ran;
    if (item->times == NULL)
        return;
    item->longest_ns = spn__task_times_longest(item->times);
    item->oldest_ns = 0;
    if (item->now.pool.queued == 0)
        spn__task_times_empty(item->times, from_ns);
    else
        item->oldest_ns = spn__task_times_oldest(item->times);
}

void spn__item_look(struct spn__item *item)
{
    void *thing = (void *)(uintptr_t)item->thing;

    switch (item->kind) {
    case ITEM_POOL:
        look_at_pool(item);
        break;
    case ITEM_TIMER:
        item->now.timer = (spn_timer_stats)SPN_TIMER_STATS_INIT;
        (void)spn_timer_get_stats(thing, &item->now.timer);
        break;
    case ITEM_OBJECT_POOL:
        item->now.objects = (spn_object_pool_stats)SPN_OBJECT_POOL_STATS_INIT;
        (void)spn_object_pool_stats_get(thing, &item->now.objects);
        break;
    case ITEM_LIMITER:
        item->now.limiter = (spn_limiter_stats)SPN_LIMITER_STATS_INIT;
        (void)spn_limiter_stats_get(thing, &item->now.limiter);
        break;
    case ITEM_COUNTER:
        item->now.counter = spn_counter_value(thing);
        break;
    case ITEM_HISTOGRAM:
        break; /* large: taken when it is written */
    case ITEM_READING:
        item->now.counter = item->read((void *)(uintptr_t)item->thing, item->which);
        break;
    }
}

/* ---- Prometheus --------------------------------------------------------------------------- */

enum {
    FIRST_POWER = 10,
    LAST_POWER = 36
}; /* of nanoseconds: a microsecond, a minute */

static void put_head(struct spn__text *t, const char *name, const char *suffix,
                     const char *type, const char *help)
{
    spn__text_add(t, "# HELP %s%s ", name, suffix);
    for (; *help != '\0'; help++) /* as a label, but quotes stay */
        if (*help == '\\' || *help == '\n')
            spn__text_add(t, *help == '\\' ? "\\\\" : "\\n");
        else
            spn__text_add(t, "%c", *help);
    spn__text_add(t, "\n# TYPE %s%s %s\n", name, suffix, type);
}

/* more: another label, as it is written; NULL: none. */
static void put_labels(struct spn__text *t, const struct spn__item *item,
                       const char *more)
{
    const bool named = item->kind <= ITEM_LIMITER;

    if (!named && more == NULL)
        return;
    spn__text_add(t, "{");
    if (named) {
        spn__text_add(t, "%s=\"", label_of(item->kind));
        spn__text_label(t, item->name);
        spn__text_add(t, "\"%s", more != NULL ? "," : "");
    }
    spn__text_add(t, "%s}", more != NULL ? more : "");
}

static void put_buckets(struct spn__text *t, const char *name,
                        const struct spn__item *item, const spn_histogram_snapshot *h,
                        bool has_sum)
{
    uint64_t below = 0;
    int32_t bucket = 0;

    for (int power = FIRST_POWER; power <= LAST_POWER; power++) {
        const int64_t most = (INT64_C(1) << power) - 1;
        char le[40];
        struct spn__text label = { le, sizeof le, 0 };

        for (; bucket < SPN_HISTOGRAM_BUCKETS && spn__bucket_max(bucket) <= most;
             bucket++)
            below += h->buckets[bucket];
        spn__text_add(&label, "le=\"");
        spn__text_seconds(&label, most);
        spn__text_add(&label, "\"");
        spn__text_add(t, "%s_bucket", name);
        put_labels(t, item, le);
        spn__text_add(t, " %llu\n", (unsigned long long)below);
    }
    spn__text_add(t, "%s_bucket", name);
    put_labels(t, item, "le=\"+Inf\"");
    spn__text_add(t, " %llu\n", (unsigned long long)h->count);
    if (has_sum) {
        spn__text_add(t, "%s_sum", name);
        put_labels(t, item, NULL);
        spn__text_add(t, " ");
        spn__text_seconds(t, (int64_t)(h->sum & INT64_MAX));
        spn__text_add(t, "\n");
    }
    spn__text_add(t, "%s_count", name);
    put_labels(t, item, NULL);
    spn__text_add(t, " %llu\n", (unsigned long long)h->count);
}

static void put_value(struct spn__text *t, int64_t value, enum form form)
{
    if (form == SECONDS)
        spn__text_seconds(t, value);
    else if (form == CAPACITY && value == INT64_MAX)
        spn__text_add(t, "+Inf");
    else
        spn__text_add(t, "%lld", (long long)value);
}

static void put_family(struct spn__text *t, struct spn_metrics *m,
                       const struct family *f)
{
    struct spn__list_node *node;
    char name[96];
    struct spn__text full = { name, sizeof name, 0 };
    bool first = f == families || strcmp(f->name, f[-1].name) != 0;

    spn__text_add(&full, "spindle_%s", f->name);
    spn__list_each (node, &m->items) {
        const struct spn__item *item = item_of(node);

        if (!has_family(item, f))
            continue;
        if (first)
            put_head(t, name, "", f->form == COUNT ? "counter" : "gauge", f->help);
        first = false;
        spn__text_add(t, "%s", name);
        put_labels(t, item, f->label);
        spn__text_add(t, " ");
        put_value(t, number_of(item, f), f->form);
        spn__text_add(t, "\n");
    }
}

/* The histograms of pools and timers: which of them, by number. */
enum { HIST_WAIT, HIST_RUN, HIST_LATE, HISTS };
static const struct {
    const char *name, *json, *help;
} hists[HISTS] = {
    { "spindle_pool_queue_wait_seconds", "wait", "How long timed tasks waited." },
    { "spindle_pool_run_seconds", "run", "How long timed tasks ran." },
    { "spindle_timer_lateness_seconds", "late",
      "From due time to start of the callback." },
};

static bool get_hist(const struct spn__item *item, int which, spn_histogram_snapshot *h)
{
    *h = (spn_histogram_snapshot)SPN_HISTOGRAM_SNAPSHOT_INIT;
    if (which == HIST_LATE) {
        if (item->kind != ITEM_TIMER)
            return false;
        spn__timer_late((spn_timer *)(uintptr_t)item->thing, h->buckets);
        for (int i = 0; i < SPN_HISTOGRAM_BUCKETS; i++)
            h->count += h->buckets[i];
        h->max = INT64_MAX;
        return true;
    }
    if (item->kind != ITEM_POOL || item->times == NULL)
        return false;
    return spn_task_times_get(item->times, which == HIST_WAIT ? h : NULL,
                              which == HIST_RUN ? h : NULL) == SPN_OK;
}

static void put_hists(struct spn__text *t, struct spn_metrics *m)
{
    struct spn__list_node *node;
    spn_histogram_snapshot h;

    for (int which = 0; which < HISTS; which++) {
        bool first = true;

        spn__list_each (node, &m->items) {
            const struct spn__item *item = item_of(node);

            if (!get_hist(item, which, &h))
                continue;
            if (first)
                put_head(t, hists[which].name, "", "histogram", hists[which].help);
            first = false;
            put_buckets(t, hists[which].name, item, &h, which != HIST_LATE);
        }
    }
}

static void put_own(struct spn__text *t, const struct spn__item *item)
{
    spn_histogram_snapshot h = SPN_HISTOGRAM_SNAPSHOT_INIT;
    char name[280];
    struct spn__text full = { name, sizeof name, 0 };

    if (item->kind == ITEM_COUNTER) {
        put_head(t, item->name, "_total", "counter", item->help);
        spn__text_add(t, "%s_total %lld\n", item->name, (long long)item->now.counter);
    } else if (item->kind == ITEM_READING) {
        const char *end = item->is_gauge ? "" : "_total";

        put_head(t, item->name, end, item->is_gauge ? "gauge" : "counter", item->help);
        spn__text_add(t, "%s%s %lld\n", item->name, end, (long long)item->now.counter);
    } else if (item->kind == ITEM_HISTOGRAM) {
        (void)spn_histogram_snapshot_get((spn_histogram *)(uintptr_t)item->thing, &h);
        spn__text_add(&full, "%s_seconds", item->name);
        put_head(t, name, "", "histogram", item->help);
        put_buckets(t, name, item, &h, true);
    }
}

static void put_prometheus(struct spn__text *t, struct spn_metrics *m)
{
    struct spn__list_node *node;

    for (int i = 0; i < FAMILIES; i++)
        put_family(t, m, &families[i]);
    put_hists(t, m);
    spn__list_each (node, &m->items)
        put_own(t, item_of(node));
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void put_summary(struct spn__text *t, const char *name,
                        const spn_histogram_snapshot *h)
{
    spn__text_add(t,
                  ",\"%s_count\":%llu,\"%s_p50_ns\":%lld,\"%s_p99_ns\":%lld,"
                  "\"%s_p999_ns\":%lld",
                  name, (unsigned long long)h->count, name,
                  (long long)spn_histogram_quantile(h, 0.5), name,
                  (long long)spn_histogram_quantile(h, 0.99), name,
                  (long long)spn_histogram_quantile(h, 0.999));
}

static void put_json_item(struct spn__text *t, const struct spn__item *item,
                          int64_t now_ns)
{
    static const char *const kinds[] = { "pool",    "timer",     "objects", "limiter",
                                         "counter", "histogram", "reading" };
    spn_histogram_snapshot h = SPN_HISTOGRAM_SNAPSHOT_INIT;

    spn__text_add(t, "{\"time_ns\":%lld,\"kind\":\"%s\",\"name\":\"", (long long)now_ns,
                  kinds[item->kind]);
    spn__text_json(t, item->name);
    spn__text_add(t, "\"");
    for (int i = 0; i < FAMILIES; i++) {
        const struct family *f = &families[i];
        const char *key = f->key != NULL ? f->key : strchr(f->name, '_') + 1;

        if (!has_family(item, f))
            continue;
        if (f->form == CAPACITY && number_of(item, f) == INT64_MAX) {
            spn__text_add(t, ",\"%s\":null", key);
            continue;
        }
        spn__text_add(t, ",\"%s\":", key);
        put_value(t, number_of(item, f), f->form);
    }
    if (item->kind == ITEM_POOL)
        spn__text_add(t, ",\"tasks_rejected_total\":%lld",
                      (long long)item->now.pool.rejected);
    for (int which = 0; which < HISTS; which++)
        if (get_hist(item, which, &h))
            put_summary(t, hists[which].json, &h);
    if (item->kind == ITEM_COUNTER || item->kind == ITEM_READING)
        spn__text_add(t, ",\"value\":%lld", (long long)item->now.counter);
    if (item->kind == ITEM_HISTOGRAM) {
        (void)spn_histogram_snapshot_get((spn_histogram *)(uintptr_t)item->thing, &h);
        put_summary(t, "value", &h);
    }
    spn__text_add(t, "}\n");
}

static void put_json(struct spn__text *t, struct spn_metrics *m)
{
    const int64_t now_ns = spn__now();
    struct spn__list_node *node;

    spn__list_each (node, &m->items)
        put_json_item(t, item_of(node), now_ns);
}

int spn_metrics_write(spn_metrics *metrics, spn_metrics_format format,
                      spn_write_fn write, void *ctx)
{
    enum { PIECE = 65536, SPARE = 4096 };
    struct spn__text t = { NULL, 0, 0 };
    struct spn__list_node *node;
    int rc = SPN_OK;

    if (metrics == NULL || write == NULL || (unsigned)format > SPN_METRICS_JSON)
        return SPN_EINVAL;
    do {
        spn__lock(&metrics->lock);
        if (t.used < metrics->last_size)
            t.used = metrics->last_size;
        spn__unlock(&metrics->lock);
        spn__free(t.bytes);
        t.capacity = t.used + SPARE;
        t.used = 0;
        t.bytes = spn__alloc(t.capacity);
        if (t.bytes == NULL)
            return SPN_ENOMEM;
        spn__lock(&metrics->lock);
        spn__list_each (node, &metrics->items)
            spn__item_look(item_of(node));
        if (format == SPN_METRICS_PROMETHEUS)
            put_prometheus(&t, metrics);
        else
            put_json(&t, metrics);
        metrics->last_size = t.used;
        spn__unlock(&metrics->lock);
    } while (t.used >= t.capacity);
    for (size_t at = 0; at < t.used && rc == SPN_OK; at += PIECE)
        rc = write(ctx, t.bytes + at, t.used - at < PIECE ? t.used - at : PIECE);
    spn__free(t.bytes);
    return rc;
}

/* ---- adding and removing ----------------------------------------------------------------------- */

int spn_metrics_create(spn_metrics **out)
{
    struct spn_metrics *metrics;

    if (out == NULL)
        return SPN_EINVAL;
    *out = metrics = spn__alloc(sizeof *metrics);
    if (metrics == NULL)
        return SPN_ENOMEM;
    spn__lock_init(&metrics->lock);
    spn__list_init(&metrics->items);
    metrics->last_size = 0;
    return SPN_OK;
}

static void free_item(struct spn__item *item)
{
    spn__free(item->name);
    spn__free(item->help);
    spn__free(item);
}

void spn_metrics_destroy(spn_metrics *metrics)
{
    struct spn__list_node *node;

    if (metrics == NULL)
        return;
    while ((node = spn__list_pop_front(&metrics->items)) != NULL)
        free_item(item_of(node));
    spn__free(metrics);
}

static char *copy_of(const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = spn__alloc(size);

    if (copy != NULL)
        memcpy(copy, text, size);
    return copy;
}

/* Adds a copy of what is said in `like`. */
static int add_like(struct spn_metrics *m, const struct spn__item *like,
                    const char *name, const char *help)
{
    struct spn__item *item = spn__alloc(sizeof *item);
    struct spn__list_node *node;
    bool taken = false;

    if (item == NULL)
        return SPN_ENOMEM;
    *item = *like;
    item->name = copy_of(name);
    item->help = copy_of(help);
    if (item->name == NULL || item->help == NULL) {
        free_item(item);
        return SPN_ENOMEM;
    }
    spn__lock(&m->lock);
    spn__list_each (node, &m->items) {
        const struct spn__item *other = item_of(node);

        taken |= other->kind == like->kind && strcmp(other->name, name) == 0;
    }
    if (!taken)
        spn__list_push_back(&m->items, &item->link);
    spn__unlock(&m->lock);
    if (taken)
        free_item(item);
    return taken ? SPN_EBUSY : SPN_OK;
}

int spn__metrics_add_reading(struct spn_metrics *metrics, const char *name,
                             const char *help, bool is_gauge,
                             int64_t (*read)(void *thing, int which), void *thing,
                             int which)
{
    const struct spn__item like = { .kind = ITEM_READING,
                                    .thing = thing,
                                    .read = read,
                                    .which = which,
                                    .is_gauge = is_gauge };

    return add_like(metrics, &like, name, help);
}

int spn__metrics_add_named(struct spn_metrics *metrics, const char *name,
                           const char *help, spn_histogram *histogram)
{
    const struct spn__item like = { .kind = ITEM_HISTOGRAM, .thing = histogram };

    return add_like(metrics, &like, name, help);
}

/* Letters, digits and '_', at most 200, not of those that are the library's. */
static bool is_metric_name(const char *name)
{
    size_t length = 0;

    if (name == NULL || (name[0] >= '0' && name[0] <= '9') ||
        strncmp(name, "spindle_", 8) == 0)
        return false;
    for (; name[length] != '\0'; length++) {
        const char c = name[length];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
              (c >= '0' && c <= '9') || c == '_'))
            return false;
    }
    return length >= 1 && length <= 200;
}

/* The kind, thing and name of a source that has one thing and a name for it. */
static bool item_of_source(struct spn__item *item, const spn_metrics_source *s,
                           const char **name)
{
    int things = 0;

    *name = s->name;
    if (s->pool != NULL && ++things)
        *item = (struct spn__item){ .kind = ITEM_POOL, .thing = s->pool };
    if (s->fj_pool != NULL && ++things)
        *item = (struct spn__item){ .kind = ITEM_POOL, .thing = s->fj_pool };
    if (s->timer != NULL && ++things)
        *item = (struct spn__item){ .kind = ITEM_TIMER, .thing = s->timer };
    if (s->object_pool != NULL && ++things)
        *item = (struct spn__item){ .kind = ITEM_OBJECT_POOL, .thing = s->object_pool };
    if (s->limiter != NULL && ++things)
        *item = (struct spn__item){ .kind = ITEM_LIMITER, .thing = s->limiter };
    if (s->counter != NULL && ++things)
        *item = (struct spn__item){ .kind = ITEM_COUNTER, .thing = s->counter };
    if (s->histogram != NULL && ++things)
        *item = (struct spn__item){ .kind = ITEM_HISTOGRAM, .thing = s->histogram };
    if (things != 1)
        return false;
    item->times = s->times;
    item->stealing = s->fj_pool;
    if (s->pool != NULL)
        *name = s->pool->name;
    if (s->fj_pool != NULL)
        *name = spn__fj_pool_threads(s->fj_pool)->name;
    if (s->object_pool != NULL)
        *name = s->object_pool->name;
    if (s->counter != NULL || s->histogram != NULL)
        return is_metric_name(*name);
    return *name != NULL;
}

int spn_metrics_add(spn_metrics *metrics, const spn_metrics_source *source)
{
    spn_metrics_source copy;
    struct spn__item like;
    const char *name;

    if (metrics == NULL || source == NULL ||
        spn__options_copy(&copy, sizeof copy, source) != SPN_OK ||
        !item_of_source(&like, &copy, &name))
        return SPN_EINVAL;
    return add_like(metrics, &like, name, copy.help != NULL ? copy.help : "");
}

int spn_metrics_remove(spn_metrics *metrics, const void *thing)
{
    struct spn__list_node *node, *following;
    struct spn__list found; /* one for each name */
    int rc = SPN_EEMPTY;

    if (metrics == NULL || thing == NULL)
        return SPN_EINVAL;
    spn__list_init(&found);
    spn__lock(&metrics->lock);
    spn__list_each_safe (node, following, &metrics->items) {
        if (item_of(node)->thing == thing) {
            spn__list_remove(node);
            spn__list_push_back(&found, node);
        }
    }
    spn__unlock(&metrics->lock);
    while ((node = spn__list_pop_front(&found)) != NULL) {
        free_item(item_of(node));
        rc = SPN_OK;
    }
    return rc;
}
