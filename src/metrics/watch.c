/* SPDX-License-Identifier: MIT */
/*
 * watch.c - thresholds and slow tasks.
 *
 * OVERVIEW
 *   A look goes over the pools of a registry under its lock, compares, and puts what is to
 *   be told into a list; the alarms are given afterwards, without it.  What the watch
 *   remembers of a pool (when it told what, how many it swallowed, how many tasks were
 *   refused until the last look) it keeps by the pool's name.
 *
 *   A task is slow when it runs longer than slow_ns by what looks have seen
 *   (task_times.c), so it is told up to a period late, and never for one that has ended.
 *   Which run was told is kept by thread: a thread runs one task at a time, so a run that
 *   goes on is never forgotten, and there are no more entries than threads.
 *
 * LOCKS  `lock` guards what is remembered and who looks; it is taken before nothing and
 *   after nothing.  A look is made by one thread at a time, and the list is its own.
 */
#include <spindle/watch.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/options.h"
#include "base/time.h"
#include "metrics/registry.h"
#include "sync/clock.h"

_Static_assert(sizeof(spn_watch_opts) ==
                   sizeof(size_t) + 5 * sizeof(void *) + 7 * sizeof(int64_t),
               "append only, no holes");

enum { NAME_SIZE = 256, LABEL_SIZE = 64, KINDS = SPN_ALARM_SLOW, ALARMS_MAX = 256 };
_Static_assert((int)NAME_SIZE > SPN_THREAD_NAME_MAX, "names of pools are whole");
#define PERIOD_DEFAULT_NS   SPN_SEC(1)
#define INTERVAL_DEFAULT_NS SPN_SEC(60)

/* The slow run of a thread that was told last. */
struct told {
    uintptr_t thread;
    uint64_t run;
};

/* What the watch remembers of a pool; the looker's own. */
struct memory {
    struct memory *next;
    char name[NAME_SIZE];
    bool seen; /* in this look */
    int64_t rejected;
    int64_t due_ns[KINDS], swallowed[KINDS];
    struct told *told; /* one for each thread that ever was slow */
    size_t told_count, told_room;
};

/* An alarm to be given. */
struct pending {
    uint32_t kind;
    char pool[NAME_SIZE], label[LABEL_SIZE]; /* task_times.c keeps less of labels */
    bool labelled;
    int64_t value, threshold, suppressed;
};

struct spn_watch {
    spn_watch_opts opts; /* fixed */
    spn_timeout timeout;
    struct spn__clock_listener clock_holder;
    struct spn__lock lock;
    bool looking; /* guarded by lock */

    /* The looker's own. */
    struct memory *memories;
    size_t alarm_count;
    struct pending alarms[ALARMS_MAX];
};

static int64_t now_of(const struct spn_watch *watch)
{
    return watch->opts.clock == NULL ? spn__now() : spn_clock_now(watch->opts.clock);
}

/* ---- a look ------------------------------------------------------------------------------ */

static struct memory *memory_of(struct spn_watch *watch, const struct spn__item *item)
{
    struct memory *m;

    for (m = watch->memories; m != NULL; m = m->next)
        if (strncmp(m->name, item->name, sizeof m->name - 1) == 0)
            return m;
    m = spn__alloc(sizeof *m);
    if (m == NULL)
        return NULL; /* nothing to compare with: the next look tries again */
    memset(m, 0, sizeof *m);
    (void)snprintf(m->name, sizeof m->name, "%s", item->name);
    m->rejected = item->now.pool.rejected; /* those before nobody was watching */
    for (int i = 0; i < KINDS; i++)
        m->due_ns[i] = INT64_MIN;
    m->next = watch->memories;
    watch->memories = m;
    return m;
}

static void put_alarm(struct spn_watch *watch, struct memory *m, uint32_t kind,
                      const char *label, int64_t value, int64_t threshold)
{
    struct pending *p;

    if (watch->alarm_count == ALARMS_MAX) {
        m->swallowed[kind - 1]++;
        return;
    }
    p = &watch->alarms[watch->alarm_count++];
    p->kind = kind;
    (void)snprintf(p->pool, sizeof p->pool, "%s", m->name);
    (void)snprintf(p->label, sizeof p->label, "%s", label != NULL ? label : "");
    p->labelled = label != NULL;
    p->value = value;
    p->threshold = threshold;
    p->suppressed = m->swallowed[kind - 1];
    m->swallowed[kind - 1] = 0;
}

/* A threshold: told at most once per interval. */
static void compare(struct spn_watch *watch, struct memory *m, uint32_t kind,
                    int64_t value, int64_t threshold, int64_t now_ns)
{
    if (threshold == 0 || value < threshold)
        return;
    if (now_ns < m->due_ns[kind - 1]) {
        m->swallowed[kind - 1]++;
        return;
    }
    m->due_ns[kind - 1] = spn__time_add(now_ns, watch->opts.interval_ns);
    put_alarm(watch, m, kind, NULL, value, threshold);
}

struct slow {
    struct spn_watch *watch;
    struct memory *memory;
};

/* The thread's entry, made if there is none; NULL: no memory. */
static struct told *told_of(struct memory *m, uintptr_t thread)
{
    for (size_t i = 0; i < m->told_count; i++)
        if (m->told[i].thread == thread)
            return &m->told[i];
    if (m->told_count == m->told_room) {
        const size_t room = m->told_room != 0 ? 2 * m->told_room : 8;
        struct told *larger = spn__alloc(room * sizeof *larger);

        if (larger == NULL)
            return NULL;
        if (m->told_count != 0)
            memcpy(larger, m->told, m->told_count * sizeof *larger);
        spn__free(m->told);
        m->told = larger;
        m->told_room = room;
    }
    m->told[m->told_count] = (struct told){ thread, 0 }; /* runs are odd */
    return &m->told[m->told_count++];
}

static void look_at_run(void *ctx, const spn_running *running)
{
    struct slow *s = ctx;
    struct memory *m = s->memory;
    struct told *told;

    if (running->running_ns < s->watch->opts.slow_ns)
        return;
    told = told_of(m, running->thread);
    if (told == NULL) {
        m->swallowed[SPN_ALARM_SLOW - 1]++; /* the next look tries again */
        return;
    }
    if (told->run == running->run)
        return;
    told->run = running->run;
    put_alarm(s->watch, m, SPN_ALARM_SLOW, running->label, running->running_ns,
              s->watch->opts.slow_ns);
}

static void look_at(struct spn_watch *watch, struct spn__item *item, int64_t now_ns)
{
    const spn_watch_opts *o = &watch->opts;
    const spn_pool_stats *s = &item->now.pool;
    struct memory *m;
    int64_t enough;

    spn__item_look(item);
    m = memory_of(watch, item);
    if (m == NULL)
        return;
    m->seen = true;
    enough = o->active_percent == 0
                 ? 0
                 : ((int64_t)s->max_threads * o->active_percent + 99) / 100;
    compare(watch, m, SPN_ALARM_QUEUED, s->queued, o->queued, now_ns);
    compare(watch, m, SPN_ALARM_ACTIVE, s->active, enough, now_ns);
    compare(watch, m, SPN_ALARM_REJECTED, s->rejected - m->rejected, o->rejected,
            now_ns);
    m->rejected = s->rejected;
    if (item->times != NULL) {
        struct slow slow = { watch, m };

        compare(watch, m, SPN_ALARM_WAIT, item->oldest_ns, o->wait_ns, now_ns);
        if (o->slow_ns != 0)
            (void)spn_task_times_running(item->times, look_at_run, &slow);
    }
}

/* Forgets pools that are not registered any more. */
static void forget(struct spn_watch *watch)
{
    struct memory **at = &watch->memories, *m;

    while ((m = *at) != NULL) {
        if (m->seen) {
            m->seen = false;
            at = &m->next;
        } else {
            *at = m->next;
            spn__free(m->told);
            spn__free(m);
        }
    }
}

static const char *const kind_names[] = { "",
                                          "tasks wait",
                                          "threads are active",
                                          "tasks were refused",
                                          "ns is how long the oldest task has waited",
                                          "ns is how long a task has run" };

static void give_alarms(struct spn_watch *watch)
{
    for (size_t i = 0; i < watch->alarm_count; i++) {
        const struct pending *p = &watch->alarms[i];
        const spn_alarm alarm = { .kind = p->kind,
                                  .pool = p->pool,
                                  .label = p->labelled ? p->label : NULL,
                                  .value = p->value,
                                  .threshold = p->threshold,
                                  .suppressed = p->suppressed };

        if (watch->opts.alarm != NULL)
            watch->opts.alarm(watch->opts.ctx, &alarm);
        else
            spn__log(SPN_LOG_WARN, "pool %s: %lld %s (threshold %lld)%s%s", p->pool,
                     (long long)p->value, kind_names[p->kind], (long long)p->threshold,
                     p->labelled ? ", " : "", p->label);
    }
}

int spn_watch_check(spn_watch *watch)
{
    struct spn__list_node *node;
    int64_t now_ns;
    int count;
    bool busy;

    if (watch == NULL)
        return SPN_EINVAL;
    spn__lock(&watch->lock);
    busy = watch->looking;
    watch->looking = true;
    spn__unlock(&watch->lock);
    if (busy)
        return SPN_EBUSY;
    watch->alarm_count = 0;
    now_ns = now_of(watch);
    spn__lock(&watch->opts.metrics->lock);
    spn__list_each (node, &watch->opts.metrics->items) {
        struct spn__item *item = spn__list_entry(node, struct spn__item, link);

        if (item->kind == ITEM_POOL)
            look_at(watch, item, now_ns);
    }
    spn__unlock(&watch->opts.metrics->lock);
    forget(watch);
    give_alarms(watch);
    count = (int)watch->alarm_count;
    spn__lock(&watch->lock);
    watch->looking = false;
    spn__unlock(&watch->lock);
    return count;
}

/* ---- making ----------------------------------------------------------------------------------- */

static int on_time(spn_timeout *timeout)
{
    struct spn_watch *watch =
        (struct spn_watch *)(void *)((char *)timeout -
                                     offsetof(struct spn_watch, timeout));

    (void)spn_watch_check(watch);
    return 0;
}

static void ignore_move(void *ctx)
{
    (void)ctx;
}

static bool valid_opts(const spn_watch_opts *o)
{
    return o->metrics != NULL && o->period_ns >= 0 && o->interval_ns >= 0 &&
           o->queued >= 0 && o->active_percent >= 0 && o->active_percent <= 100 &&
           o->rejected >= 0 && o->wait_ns >= 0 && o->slow_ns >= 0;
}

int spn_watch_create(spn_watch **out, const spn_watch_opts *opts)
{
    spn_watch_opts o = SPN_WATCH_OPTS_INIT;
    spn_period period = SPN_PERIOD_INIT;
    struct spn_watch *watch;
    int rc = SPN_OK;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (opts == NULL || spn__options_copy(&o, sizeof o, opts) != SPN_OK ||
        !valid_opts(&o))
        return SPN_EINVAL;
    watch = spn__alloc(sizeof *watch);
    if (watch == NULL)
        return SPN_ENOMEM;
    memset(watch, 0, sizeof *watch);
    if (o.interval_ns == 0)
        o.interval_ns = INTERVAL_DEFAULT_NS;
    period.period_ns = o.period_ns != 0 ? o.period_ns : PERIOD_DEFAULT_NS;
    watch->opts = o;
    spn__lock_init(&watch->lock);
    if (o.clock != NULL)
        spn__clock_listen(o.clock, &watch->clock_holder, ignore_move, NULL);
    if (o.timer != NULL)
        rc = spn_timer_schedule_periodic(o.timer, &watch->timeout, on_time,
                                         period.period_ns, &period);
    if (rc != SPN_OK) {
        if (o.clock != NULL)
            spn__clock_unlisten(o.clock, &watch->clock_holder);
        spn__free(watch);
        return rc;
    }
    *out = watch;
    return SPN_OK;
}

int spn_watch_destroy(spn_watch *watch)
{
    bool busy;

    if (watch == NULL)
        return SPN_OK;
    if (watch->opts.timer != NULL &&
        spn_timer_cancel_sync(watch->opts.timer, &watch->timeout, 0) < 0)
        return SPN_EBUSY;
    spn__lock(&watch->lock);
    busy = watch->looking;
    spn__unlock(&watch->lock);
    if (busy)
        return SPN_EBUSY;
    if (watch->opts.clock != NULL)
        spn__clock_unlisten(watch->opts.clock, &watch->clock_holder);
    forget(watch);
    forget(watch); /* now that none has been seen */
    spn__free(watch);
    return SPN_OK;
}
