/* SPDX-License-Identifier: MIT */
/*
 * idle_list.c - workers that found nothing to do, and who wakes them.
 *
 * OVERVIEW
 *   A worker that finds nothing puts itself first on a list, looks once more, and then
 *   sleeps on its parker.  A push that finds workers on the list takes one off and
 *   wakes it.  The worker that came last is woken first: its caches are warm, and those
 *   that nobody needs sleep until their deadlines.
 *
 *   At most one worker on the list spins: it polls a word of its own for as long as a
 *   wake-up takes (spin.h), and then sleeps like the others.  A push may give it an
 *   entry through its slot, past the queue.
 *
 * POPPED
 *   Whoever takes a worker off the list fills its slot, releases the lock, and then
 *   gives the permit.  The worker takes that permit before it does anything else, also
 *   if its deadline has come or it has seen by itself that something waits.  So its
 *   memory is there until the permit has come.
 *
 * ONE WAKE-UP AT A TIME
 *   A wake-up is a system call.  `waking` says that a worker was woken to look and has
 *   not done so; a push leaves it at that.  The worker clears it when it has found an
 *   entry, lists itself again, or looks no more, and wakes the next if more waits: a
 *   burst wakes as many workers as it can use, one after another.
 *
 * ORDERING  Both sides write first and look second.
 *   [wake]   The worker lists itself, passes through the push lock, and looks whether
 *            something waits.  A push adds its entry under that lock, and looks at
 *            `listed` afterwards.  If the push comes first, the worker sees the entry;
 *            if the worker does, the push sees it listed.
 *   [search] The worker clears `waking` under the lock and then looks whether something
 *            waits, and whether anybody is listed.  A push that has added its entry
 *            looks at `waking` under the lock.  If it finds it set, the worker looks
 *            later.
 *   [epoch]  raise changes the epoch, and wake_all takes everybody off the list.  A
 *            worker compares the epoch under the lock before it lists itself.  So it is
 *            woken, or sees the new one.
 *   [permit] see parker.c: the slot comes with it.
 *
 * LOCKS  `lock` is a leaf: `any` and `pass` are called without it.
 * PROGRESS  notify, give: one short lock.  wait: blocking.
 */
#include "exec/idle_list.h"

#include "base/assert.h"

enum { PROBE = 64 }; /* every so many-th spin is tried whole: spin.h */

void spn__idle_list_init(struct spn__idle_list *l, bool (*any)(void *source),
                         void (*pass)(void *source), void *source)
{
    *l = (struct spn__idle_list){ .any = any, .pass = pass, .source = source };
    spn__init(&l->listed, 0);
    spn__init(&l->spinning, 0);
    spn__init(&l->epoch, 0);
    spn__lock_init(&l->lock);
    spn__list_init(&l->idlers);
}

void spn__idler_init(struct spn__idler *w)
{
    *w = (struct spn__idler){ .waking = false };
    spn__list_node_init(&w->link);
    spn__parker_init(&w->parker);
    spn__init(&w->popped, 0);
    spn__spin_init(&w->spin);
}

/* ---- the lock is held ------------------------------------------------------------ */

static void spinner_set(struct spn__idle_list *l, struct spn__idler *w)
{
    l->spinner = w;
    spn__store(&l->spinning, w != NULL, relaxed); /* a hint */
}

static void count_listed(struct spn__idle_list *l, int32_t by)
{
    /* relaxed, both: under the lock; pushes see it by [wake]. */
    spn__store(&l->listed, spn__load(&l->listed, relaxed) + by, relaxed);
}

static void idler_unlist(struct spn__idle_list *l, struct spn__idler *w)
{
    spn__list_remove(&w->link);
    count_listed(l, -1);
    if (l->spinner == w)
        spinner_set(l, NULL);
}

static struct spn__idler *idler_of(struct spn__list_node *node)
{
    return spn__list_entry(node, struct spn__idler, link);
}

/* The one that spins or, if `sleepers`, else the one that came last; NULL: none. */
static struct spn__idler *idler_choose(struct spn__idle_list *l, bool sleepers)
{
    if (l->spinner != NULL || !sleepers)
        return l->spinner;
    return spn__list_empty(&l->idlers) ? NULL : idler_of(spn__list_first(&l->idlers));
}

/* Off the list by another, who gives it the permit when the lock has been released. */
static void idler_pop(struct spn__idle_list *l, struct spn__idler *w)
{
    idler_unlist(l, w);
    spn__store(&w->popped, 1, relaxed); /* a hint; the permit follows */
}

/* ---- those who wake -------------------------------------------------------------- */

void spn__idle_list_wake_one(struct spn__idle_list *l)
{
    struct spn__idler *w;

    spn__lock(&l->lock);
    w = l->waking ? NULL : idler_choose(l, true); /* [search] */
    if (w != NULL) {
        idler_pop(l, w);
        l->waking = w->waking = true;
        l->wakeups++;
    }
    spn__unlock(&l->lock);
    if (w != NULL)
        spn__parker_unpark(&w->parker); /* [permit] */
}

bool spn__idle_list_give(struct spn__idle_list *l, struct spn__entry entry,
                         bool sleepers)
{
    struct spn__idler *w;

    /* relaxed, both: hints. */
    if (sleepers ? spn__load(&l->listed, relaxed) == 0
                 : spn__load(&l->spinning, relaxed) == 0)
        return false;
    spn__lock(&l->lock);
    w = l->closed ? NULL : idler_choose(l, sleepers);
    if (w != NULL) {
        idler_pop(l, w);
        w->slot = entry;
        l->given++;
        l->wakeups++;
    }
    spn__unlock(&l->lock);
    if (w != NULL)
        spn__parker_unpark(&w->parker); /* [permit] */
    return w != NULL;
}

void spn__idle_list_close(struct spn__idle_list *l)
{
    spn__lock(&l->lock);
    l->closed = true;
    spn__unlock(&l->lock);
}

void spn__idle_list_raise(struct spn__idle_list *l)
{
    (void)spn__fetch_add(&l->epoch, 1, release); /* [epoch] with it come the knobs */
}

void spn__idle_list_wake_all(struct spn__idle_list *l)
{
    struct spn__list all;
    struct spn__list_node *node;

    spn__list_init(&all);
    spn__lock(&l->lock);
    while (!spn__list_empty(&l->idlers)) {
        node = spn__list_first(&l->idlers);
        idler_pop(l, idler_of(node));
        spn__list_push_back(&all, node);
        l->wakeups++;
    }
    spn__unlock(&l->lock);
    /* Off its list first: the worker may be gone once it has the permit. */
    while ((node = spn__list_pop_front(&all)) != NULL)
        spn__parker_unpark(&idler_of(node)->parker); /* [permit] */
}

/* ---- the worker ------------------------------------------------------------------ */

void spn__idle_list_found(struct spn__idle_list *l, struct spn__idler *w)
{
    if (!w->waking)
        return;
    w->waking = false;
    spn__lock(&l->lock);
    l->waking = false; /* [search] */
    spn__unlock(&l->lock);
    if (l->any(l->source))
        spn__idle_list_notify(l);
}

/* Lists the worker; false: the epoch is another one. */
static bool idler_list(struct spn__idle_list *l, struct spn__idler *w, uint32_t epoch,
                       bool spins)
{
    bool lists;

    spn__lock(&l->lock);
    lists = spn__load(&l->epoch, relaxed) == epoch; /* [epoch] by the lock */
    if (lists) {
        if (w->waking)
            l->waking = false; /* [search] it looks again, below */
        w->waking = false;
        w->slot.fn = NULL;
        spn__store(&w->popped, 0, relaxed); /* its own until it is listed */
        spn__list_push_front(&l->idlers, &w->link);
        count_listed(l, 1);
        w->spins = spins && l->spinner == NULL;
        if (w->spins)
            spinner_set(l, w);
    }
    spn__unlock(&l->lock);
    return lists;
}

/* Takes the worker off the list; false: another did, and a permit is on its way. */
static bool idler_withdraw(struct spn__idle_list *l, struct spn__idler *w)
{
    bool listed;

    spn__lock(&l->lock);
    listed = spn__load(&w->popped, relaxed) == 0; /* written under the lock */
    if (listed)
        idler_unlist(l, w);
    spn__unlock(&l->lock);
    return listed;
}

/* Polls for the permit; gives the role up if none comes. */
static void idler_spin(struct spn__idle_list *l, struct spn__idler *w, uint32_t span_ns)
{
    struct spn__look look = spn__look_begin(span_ns);
    bool on;

    do
        on = spn__look_on(&look);
    while (on && spn__load(&w->popped, relaxed) == 0); /* a hint; park takes it */
    if (spn__load(&w->popped, relaxed) != 0) {
        spn__spin_rewarded(&w->spin, spn__parker_wake_ns(&w->parker));
        return;
    }
    spn__spin_in_vain(&w->spin);
    spn__lock(&l->lock);
    if (l->spinner == w)
        spinner_set(l, NULL);
    spn__unlock(&l->lock);
}

/* It was popped: takes the permit, and what came with it. */
static enum spn__idle_end idler_take_permit(struct spn__idler *w,
                                            struct spn__entry *entry)
{
    const bool came = spn__parker_park(&w->parker, SPN_FOREVER);

    spn__assert(came);
    *entry = w->slot;
    w->slot.fn = NULL;
    return entry->fn != NULL ? SPN__IDLE_GIVEN : SPN__IDLE_LOOK;
}

enum spn__idle_end spn__idle_list_wait(struct spn__idle_list *l, struct spn__idler *w,
                                       uint32_t epoch, int64_t deadline_ns,
                                       struct spn__entry *entry)
{
    const uint32_t span_ns =
        spn__spin_span(&w->spin, spn__parker_wake_ns(&w->parker), PROBE);

    if (!idler_list(l, w, epoch, span_ns != 0)) {
        spn__idle_list_found(l, w);
        return SPN__IDLE_RECHECK;
    }
    l->pass(l->source); /* [wake] */
    if (l->any(l->source))
        return idler_withdraw(l, w) ? SPN__IDLE_LOOK : idler_take_permit(w, entry);
    if (w->spins)
        idler_spin(l, w, span_ns);
    if (!spn__parker_park(&w->parker, deadline_ns))
        return idler_withdraw(l, w) ? SPN__IDLE_EXPIRED : idler_take_permit(w, entry);
    *entry = w->slot;
    w->slot.fn = NULL;
    return entry->fn != NULL ? SPN__IDLE_GIVEN : SPN__IDLE_LOOK;
}
