/* SPDX-License-Identifier: MIT */
/*
 * timeout.c - timeouts: scheduling and cancelling.
 *
 * STATE, under the lock of the shard that is the timeout's home
 *   NEW, EXPIRED, CANCELLED --schedule--> PENDING
 *   PENDING --cancel, stop--> CANCELLED
 *   PENDING --taken to run--> EXPIRED, or if periodic REPEATING
 *   REPEATING --after the run--> PENDING, or EXPIRED if it is not to repeat any more
 *   REPEATING --schedule, cancel--> PENDING, CANCELLED; in another timer it is busy
 *   PENDING is linked: in the wheel, among its due nodes, or in `firing`.
 *
 * HOME
 *   A thread adds to the shard its number stands for.  The timeout keeps that shard,
 *   also when it is scheduled again by another thread, because its callback may still
 *   run there, and whoever cancels it must find it.
 *
 * RECKONING
 *   With fast_clock the time of an addition is reckoned from a CPU counter: reckon.c.  If
 *   that was wrong, all that may be meant is filed anew, later.
 *
 * LOCKS  one at a time.
 */
#include "wheel/timer.h"

#include "base/options.h"
#include "base/time.h"
#include "sync/thread_record.h"

#define BURST_MAX 65535

/* Nodes handled, at most, by who adds one. */
#define FOLLOW_NODES 16

/*
 * Scheduling and cancelling are some hundred instructions each way, half of them spent on
 * passing a struct arming from function to function: the calls that servers make all the
 * time have a copy of their own, in which what is constant is gone.
 */
#define HOT static inline __attribute__((always_inline))

/* ---- reckoning ----------------------------------------------------------------- */

/* Nodes that were taken out to be filed anew. */
struct postponed {
    int64_t since_ns;
    spn_wheel_link ring;
};

/* Periodic ones follow the clock. */
static void take_out(spn_wheel_node *node, void *ctx)
{
    struct postponed *p = ctx;

    if (node->due_ns <= p->since_ns || spn__timeout_is_periodic(spn__timeout_of(node)))
        return;
    spn__wheel_unlink(node);
    spn__wheel_push(&p->ring, &node->link);
}

/* Has all that may have been filed by a wrong time since since_ns come later; the lock is
 * held.  `known` may be too early then, which costs a look. */
static void postpone(struct spn__shard *s, int64_t since_ns, int64_t by_ns)
{
    struct postponed p = { .since_ns = since_ns };

    p.ring.next = p.ring.prev = &p.ring;
    (void)spn_wheel_each(s->wheel, take_out, &p);
    while (p.ring.next != &p.ring) {
        spn_wheel_node *node = spn__wheel_node_of(p.ring.next);

        p.ring.next = node->link.next;
        node->due_ns = spn__time_add(node->due_ns, by_ns);
        (void)spn__wheel_link(s->wheel, node);
    }
}

int64_t spn__shard_look(struct spn__shard *s)
{
    const int64_t since_ns = s->reckoning.base_ns;
    int64_t behind_ns;
    const int64_t now_ns = spn__reckoning_look(&s->reckoning, &behind_ns);

    if (behind_ns != 0)
        postpone(s, since_ns, behind_ns);
    return now_ns;
}

/* The time when the counter showed `cycles`, or up to two microseconds more; the lock is
 * held. */
HOT int64_t reckon(struct spn__shard *s, uint64_t cycles)
{
    int64_t now_ns;

    return spn__reckon(&s->reckoning, cycles, &now_ns) ? now_ns : spn__shard_look(s);
}

/* ---- scheduling --------------------------------------------------------------- */

/* What to make of a timeout. */
struct arming {
    spn_timeout_fn fn;
    int64_t due_ns, now_ns;
    int64_t reckon_ns; /* more than 0: due so long from `cycles` */
    uint64_t cycles;
    int64_t period_ns;
    uint32_t policy;
    struct spn__shard *shard; /* a handle's, whose fields are written already */
    bool guest;               /* from now on [guests] */
};

/* The home may be of a timer that is gone, whose memory we have now, and then anywhere
 * in ours: but only a shard has our name in its place. */
HOT bool is_ours(const struct spn_timer *timer, const struct spn__shard *s)
{
    return (uintptr_t)s - (uintptr_t)timer->shards <=
               timer->shard_mask * sizeof *timer->shards &&
           s->timer == timer;
}

/* Of one with a home elsewhere: whether it is in use there. */
HOT bool is_taken(const spn_timeout *t)
{
    const uint32_t state = spn__state_get(t);

    return state == SPN_TIMEOUT_PENDING || state == SPN__TIMEOUT_REPEATING;
}

/* The shard of this timer that the timeout belongs to, or NULL. */
HOT struct spn__shard *home_of(const struct spn_timer *timer, const spn_timeout *t)
{
    struct spn__shard *home = spn__home_get(t);

    return is_ours(timer, home) ? home : NULL;
}

/* The shard the calling thread adds to. */
HOT struct spn__shard *own_shard(struct spn_timer *timer)
{
    const struct spn_thread *self = spn__self_get();

    if (self == NULL)
        self = spn__thread_self();
    return &timer->shards[self != NULL ? self->number & timer->shard_mask : 0];
}

/* One place of max_pending; true if there was one. */
HOT bool reserve(struct spn_timer *timer)
{
    int64_t taken;

    if (!timer->limited)
        return true;
    /* relaxed, all: see spn__timer_release. */
    taken = spn__load(&timer->taken, relaxed);
    do {
        if (taken >= timer->max_pending)
            return false;
    } while (!spn__cas_weak(&timer->taken, &taken, taken + 1, relaxed, relaxed));
    return true;
}

/* A run of this timeout that is under way is not to arm it again; true if there is
 * one.  The lock is held. */
static bool disown_runs(struct spn__shard *s, const spn_timeout *t)
{
    struct spn__list_node *node;
    bool found = false;

    spn__list_each (node, &s->running) {
        struct spn__run *run = spn__list_entry(node, struct spn__run, link);

        if (run->timeout == t)
            found = run->gone = true;
    }
    return found;
}

/* Takes the place of a run that is under way, which is not to arm it again then; true if
 * there was one.  The lock is held. */
static bool inherit(struct spn__shard *s, const spn_timeout *t)
{
    struct spn__list_node *node;

    spn__list_each (node, &s->running) {
        struct spn__run *run = spn__list_entry(node, struct spn__run, link);

        if (run->timeout == t && run->periodic && !run->inherited) {
            run->gone = run->inherited = true;
            return true;
        }
    }
    return false;
}

/* Fills in and links a timeout that is not linked; the lock is held.  As
 * spn__shard_link. */
HOT bool arm(struct spn__shard *s, spn_timeout *t, const struct arming *a,
             int64_t *wake_ns)
{
    if (!spn__list_empty(&s->running))
        (void)disown_runs(s, t);
    /* The thread may have slept for long: let the wheel's time follow, so that the node
     * is filed where it belongs, and one that is due at once is not kept until the next
     * tick.  What becomes due is left to the thread. */
    if (a->due_ns <= a->now_ns || spn__wheel_is_stale(s->wheel, a->now_ns))
        (void)spn__wheel_step(s->wheel, a->now_ns, FOLLOW_NODES);
    if (a->shard == NULL) {
        spn__home_set(t, s);
        t->fn = a->fn;
        t->period_ns = a->period_ns;
        t->policy = a->policy;
    }
    if (a->guest)
        /* relaxed: it is not known to anybody else yet [guests].  And we are one, too:
         * it may be gone, and the timer, before we have told that it came. */
        (void)spn__fetch_add(&s->guests, 2, relaxed);
    t->node.due_ns = a->due_ns;
    spn__state_set(t, SPN_TIMEOUT_PENDING);
    s->armed++;
    return spn__shard_link(s, t, wake_ns);
}

/* Now that its shard is known; the lock is held. */
HOT void reckon_due(struct spn__shard *s, struct arming *a)
{
    if (a->reckon_ns <= 0)
        return;
    a->due_ns = spn__time_add(reckon(s, a->cycles), a->reckon_ns);
    a->now_ns = s->reckoning.base_ns; /* which the clock has shown */
}

HOT int schedule(struct spn_timer *timer, spn_timeout *t, struct arming *a)
{
    struct spn__shard *s = a->shard != NULL ? a->shard : home_of(timer, t);
    int64_t wake_ns = 0;
    bool earlier = false;
    int rc = spn__timer_ensure_started(timer);

    if (rc != SPN_OK)
        return rc;
    if (s == NULL) {
        if (is_taken(t))
            return SPN_EBUSY; /* in another timer */
        s = own_shard(timer);
    }
    spn__quick_lock(&s->lock);
    reckon_due(s, a);
    if (s->stopped) {
        rc = SPN_ESTATE;
    } else if (spn__state_get(t) == SPN_TIMEOUT_PENDING) {
        spn__wheel_unlink(&t->node);
        s->replaced++;
    } else if (timer->limited && !inherit(s, t) && !reserve(timer)) {
        s->rejected++;
        rc = SPN_EREJECTED;
    } else {
        spn__shard_count(s, 1);
    }
    if (rc == SPN_OK)
        earlier = arm(s, t, a, &wake_ns);
    spn__quick_unlock(&s->lock);
    if (earlier)
        spn__timer_notify(timer, wake_ns);
    if (a->guest && rc == SPN_OK)
        spn__shard_guest_leaves(s);
    return rc;
}

/* delay_ns from now. */
HOT int schedule_in(struct spn_timer *timer, spn_timeout *t, struct arming *a,
                    int64_t delay_ns)
{
    if (timer->fast_clock && delay_ns > 0) {
        a->reckon_ns = delay_ns;
        a->cycles = spn__cycles(); /* before the lock, so that the two overlap */
        return schedule(timer, t, a);
    }
    a->now_ns = spn__timer_now(timer);
    a->due_ns = spn__deadline(a->now_ns, delay_ns);
    return schedule(timer, t, a);
}

int spn_timer_schedule(spn_timer *timer, spn_timeout *t, spn_timeout_fn fn,
                       int64_t delay_ns)
{
    struct arming a = { .fn = fn };

    if (timer == NULL || t == NULL || fn == NULL)
        return SPN_EINVAL;
    return schedule_in(timer, t, &a, delay_ns);
}

/* The same, and schedule, for everybody else. */
static int schedule_any_in(struct spn_timer *timer, spn_timeout *t, struct arming *a,
                           int64_t delay_ns)
{
    return schedule_in(timer, t, a, delay_ns);
}

static int schedule_any(struct spn_timer *timer, spn_timeout *t, struct arming *a)
{
    return schedule(timer, t, a);
}

int spn__timer_schedule_owned(struct spn_timer *timer, struct spn__owned *owned,
                              spn_timeout_fn fn, int64_t delay_ns)
{
    struct arming a = { .fn = fn, .policy = SPN__POLICY_OWNED, .guest = true };

    return schedule_any_in(timer, &owned->timeout, &a, delay_ns);
}

int spn__timer_schedule_handle(struct spn__shard *s, spn_timeout *t, int64_t delay_ns)
{
    struct arming a = { .shard = s, .guest = true };

    return schedule_any_in(s->timer, t, &a, delay_ns);
}

int spn__timer_schedule_again(struct spn__shard *s, spn_timeout *t, int64_t delay_ns)
{
    struct spn_timer *timer = s->timer;
    struct arming a = { .shard = s };
    int64_t wake_ns = 0;
    bool earlier = false;
    int rc;

    a.now_ns = spn__timer_now(timer);
    a.due_ns = spn__deadline(a.now_ns, delay_ns);
    spn__quick_lock(&s->lock);
    rc = s->stopped ? SPN_ESHUTDOWN : spn__handle_check(t);
    if (rc == SPN_OK && !reserve(timer)) {
        s->rejected++;
        rc = SPN_EREJECTED;
    }
    if (rc == SPN_OK) {
        spn__handle_rearm(t);
        /* relaxed: stop waits for the caller, who is one already [guests]. */
        (void)spn__fetch_add(&s->guests, 1, relaxed);
        spn__shard_count(s, 1);
        earlier = arm(s, t, &a, &wake_ns);
    }
    spn__quick_unlock(&s->lock);
    if (earlier)
        spn__timer_notify(timer, wake_ns);
    return rc;
}

uint32_t spn__timer_own_shard(const struct spn_timer *timer)
{
    return (uint32_t)(own_shard((struct spn_timer *)(uintptr_t)timer) - timer->shards);
}

int spn_timer_schedule_periodic(spn_timer *timer, spn_timeout *t, spn_timeout_fn fn,
                                int64_t first_ns, const spn_period *period)
{
    struct arming a = { .fn = fn };
    spn_period p;

    if (timer == NULL || t == NULL || fn == NULL || period == NULL ||
        spn__options_copy(&p, sizeof p, period) != SPN_OK)
        return SPN_EINVAL;
    if (p.period_ns <= 0 || p.missed > SPN_MISSED_DELAY || p.burst_max > BURST_MAX ||
        p.stop_on_failure > 1 || p.reserved != 0)
        return SPN_EINVAL;
    if (p.burst_max == 0)
        p.burst_max = BURST_MAX;
    a.period_ns = p.period_ns;
    a.policy = p.missed | (p.stop_on_failure != 0 ? SPN__POLICY_STOP : 0) |
               p.burst_max << SPN__POLICY_BURST_SHIFT;
    a.now_ns = spn__timer_now(timer);
    a.due_ns = spn__deadline(a.now_ns, first_ns);
    return schedule_any(timer, t, &a);
}

int spn_timer_again(spn_timer *timer, spn_timeout *t)
{
    struct arming a;
    struct spn__shard *s;

    if (timer == NULL || t == NULL)
        return SPN_EINVAL;
    s = home_of(timer, t);
    if (s == NULL)
        return SPN_EINVAL; /* never scheduled here */
    spn__quick_lock(&s->lock);
    a = (struct arming){ .fn = t->fn, .period_ns = t->period_ns, .policy = t->policy };
    spn__quick_unlock(&s->lock);
    if (a.period_ns == 0)
        return SPN_OK;
    a.now_ns = spn__timer_now(timer);
    a.due_ns = spn__time_add(a.now_ns, a.period_ns);
    return schedule_any(timer, t, &a);
}

int spn_timer_set_period(spn_timer *timer, spn_timeout *t, int64_t period_ns)
{
    struct spn__shard *s;

    if (timer == NULL || t == NULL || period_ns < 0)
        return SPN_EINVAL;
    s = home_of(timer, t);
    if (s == NULL)
        return SPN_EINVAL;
    spn__quick_lock(&s->lock);
    t->period_ns = period_ns;
    spn__quick_unlock(&s->lock);
    return SPN_OK;
}

/* ---- cancelling --------------------------------------------------------------- */

/* The lock is held. */
HOT int cancel_locked(struct spn__shard *s, spn_timeout *t)
{
    const bool running = !spn__list_empty(&s->running) && disown_runs(s, t);

    if (spn__state_get(t) == SPN_TIMEOUT_PENDING) {
        spn__wheel_unlink(&t->node);
        spn__state_set(t, SPN_TIMEOUT_CANCELLED);
        spn__shard_count(s, -1);
        spn__timer_release(s->timer);
        s->cancelled++;
        return SPN_TIMEOUT_REMOVED;
    }
    if (!running)
        return SPN_TIMEOUT_GONE;
    /* Perhaps its repetition was ended since, by set_period. */
    if (spn__state_get(t) == SPN__TIMEOUT_REPEATING || spn__timeout_is_periodic(t))
        spn__state_set(t, SPN_TIMEOUT_CANCELLED);
    return SPN_TIMEOUT_RUNNING;
}

/* What cancel says of a timeout that had no home in this timer.  One that is scheduled for
 * the first time just now may be pending, and still read as without a home, or have one
 * here: then it comes after the cancel. */
static int not_here(const struct spn_timer *timer, const spn_timeout *t)
{
    const bool taken = is_taken(t);
    const struct spn__shard *home = spn__home_get(t);

    return taken && home != NULL && !is_ours(timer, home) ? SPN_EINVAL
                                                          : SPN_TIMEOUT_GONE;
}

int spn_timer_cancel(spn_timer *timer, spn_timeout *t)
{
    struct spn__shard *s;
    int result;

    if (timer == NULL || t == NULL)
        return SPN_EINVAL;
    s = home_of(timer, t);
    if (s == NULL)
        return not_here(timer, t);
    /* Its neighbours are in nobody's cache: have them on their way while we wait for the
     * lock. */
    spn__prefetch_write(spn__glance(t->node.link.next));
    spn__prefetch_write(spn__glance(t->node.link.prev));
    spn__quick_lock(&s->lock);
    result = cancel_locked(s, t);
    spn__quick_unlock(&s->lock);
    return result;
}

bool spn__timer_take_out(struct spn__shard *s, spn_timeout *t)
{
    int result;

    spn__quick_lock(&s->lock);
    result = cancel_locked(s, t);
    spn__quick_unlock(&s->lock);
    return result == SPN_TIMEOUT_REMOVED;
}

bool spn__timer_bring_forward(struct spn__shard *s, spn_timeout *t)
{
    struct arming a = { .shard = s };
    int64_t wake_ns = 0;
    bool earlier = false, out = false;

    a.now_ns = a.due_ns = spn__timer_now(s->timer);
    spn__quick_lock(&s->lock);
    if (spn__state_get(t) == SPN_TIMEOUT_PENDING && s->stopped) {
        (void)cancel_locked(s, t);
        out = true;
    } else if (spn__state_get(t) == SPN_TIMEOUT_PENDING) {
        spn__wheel_unlink(&t->node);
        s->cancelled++;
        earlier = arm(s, t, &a, &wake_ns);
    }
    spn__quick_unlock(&s->lock);
    if (earlier)
        spn__timer_notify(s->timer, wake_ns);
    return !out;
}

/* Whether a callback of the timeout runs, and on this very thread; the lock is held. */
static bool find_run(const struct spn__shard *s, const spn_timeout *t,
                     const struct spn_thread *self, bool *own)
{
    struct spn__list_node *node;
    bool found = false;

    *own = false;
    spn__list_each (node, &s->running) {
        const struct spn__run *run = spn__list_entry(node, struct spn__run, link);

        if (run->timeout == t) {
            found = true;
            *own = *own || spn__run_is_own(run, self);
        }
    }
    return found;
}

/* Waits for the end of a run; the lock is held before, and after SPN_OK. */
static int await_run(struct spn__shard *s, struct spn_thread *self, int64_t deadline_ns)
{
    struct spn__waiter w;
    int rc;

    spn__shard_enlist(s, &w, self);
    spn__quick_unlock(&s->lock);
    rc = spn__waitq_wait(&w, &s->idle_lock, deadline_ns);
    if (rc != SPN_OK)
        spn__unlock(&s->idle_lock);
    spn__quick_lock(&s->lock);
    s->waiting--;
    if (rc != SPN_OK)
        spn__quick_unlock(&s->lock);
    return rc;
}

int spn_timer_cancel_sync(spn_timer *timer, spn_timeout *t, int64_t timeout_ns)
{
    struct spn_thread *self;
    struct spn__shard *s;
    int64_t deadline_ns;
    bool own, guest = false;
    int result = SPN_TIMEOUT_GONE, rc;

    if (timer == NULL || t == NULL)
        return SPN_EINVAL;
    self = spn__thread_self();
    if (self == NULL)
        return SPN_ENOMEM;
    s = home_of(timer, t);
    if (s == NULL)
        return not_here(timer, t);
    deadline_ns = spn__deadline(spn__now(), timeout_ns);
    spn__quick_lock(&s->lock);
    if (find_run(s, t, self, &own) && own) {
        spn__quick_unlock(&s->lock);
        return SPN_EDEADLK;
    }
    for (;;) { /* a callback may have scheduled it again meanwhile */
        rc = cancel_locked(s, t);
        if (result == SPN_TIMEOUT_GONE)
            result = rc;
        if (!find_run(s, t, self, &own)) {
            spn__quick_unlock(&s->lock);
            break;
        }
        if (!guest)
            /* relaxed: stop, and destroy, have the lock after us. */
            (void)spn__fetch_add(&s->guests, 1, relaxed);
        guest = true;
        rc = await_run(s, self, deadline_ns); /* an error: without the lock */
        if (rc != SPN_OK) {
            result = rc;
            break;
        }
    }
    if (guest)
        spn__shard_guest_leaves(
            s); /* [guests] the lock outlasts that we let go of it */
    return result;
}

/* ---- asking ------------------------------------------------------------------- */

int spn_timeout_state(const spn_timeout *t)
{
    uint32_t state;

    if (t == NULL)
        return SPN_EINVAL;
    state = spn__state_get(t);
    return state == SPN__TIMEOUT_REPEATING ? SPN_TIMEOUT_EXPIRED : (int)state;
}

int64_t spn_timer_remaining(spn_timer *timer, spn_timeout *t)
{
    struct spn__shard *s = timer != NULL && t != NULL ? home_of(timer, t) : NULL;
    int64_t now_ns, left_ns = 0;

    if (s == NULL)
        return 0;
    now_ns = spn__timer_now(timer);
    spn__quick_lock(&s->lock);
    if (spn__state_get(t) == SPN_TIMEOUT_PENDING && t->node.due_ns > now_ns)
        left_ns = t->node.due_ns == SPN_FOREVER ? SPN_FOREVER : t->node.due_ns - now_ns;
    spn__quick_unlock(&s->lock);
    return left_ns;
}
