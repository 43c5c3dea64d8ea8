/* SPDX-License-Identifier: MIT */
/*
 * fire.c - from due to done: looking at the shards, sleeping, running callbacks.
 *
 * PASSES
 *   A pass looks at each shard once: moves its wheel's time on, and what is due from
 *   the wheel to `firing`.  Callbacks are then taken from `firing` one by one, each
 *   under the shard's lock, so that one that is cancelled by its neighbour is not run.
 *   What callbacks schedule for at once goes to the wheel and waits for the next pass:
 *   a timeout that schedules itself again and again starves nobody.
 *
 * SLEEPING
 *   A pass leaves in each shard the tick `known` at which it will look there again.
 *   Whoever adds something earlier lowers `known`, and then lowers `wake_ns`, the time
 *   until which the timer sleeps.  So almost no addition touches a word that another
 *   thread writes, and the timer is woken only for an earlier deadline.
 *
 *   [wake] The timer sets wake_ns to SPN_FOREVER with an acquire exchange before it
 *          looks; adders lower it with a release.  Either the exchange comes after the
 *          adder's: then the shard is looked at with the addition in it.  Or it comes
 *          before: then the lowering is found by the compare-and-swap with which the
 *          timer sets what it will sleep until, or comes after that, and wakes it.
 *
 *   [driver] the release store with which run ends pairs with the acquire of the next
 *          thread that runs it.
 *
 * RUNS
 *   A struct spn__run on the runner's stack stands for the callback in the shard's list
 *   `running`.  The timeout is not touched after its function was entered, unless it is
 *   periodic and nobody has cancelled or scheduled it meanwhile (`gone`).
 *
 *   Stop waits until the list is empty, and then the program's hooks may be gone: so who
 *   is about to call one, after a run or for want of one, is in the list (`arm_and_tell`,
 *   `give_up`).
 *
 * ENDS
 *   A callback, or a hook, that ends the thread it runs on (pthread_exit) ends the process
 *   with one line, whosever thread it is: `serve` says so (`stays`, sync/seam_guard.c).
 *
 * EXECUTORS
 *   What is handed over is not one task per timeout but a runner, which takes from
 *   `firing` until nothing is left.  While there is something, there is a runner that
 *   was handed over and has not begun, or that has just begun and will look whether to
 *   hand over another (`spread`): so a callback that hangs keeps one runner and delays
 *   nobody, as long as there are runners.  When all of them are out, whoever finds
 *   something due says so (`wanted`), and the next that would end goes around once more.
 *   One that is run by the very call that hands it over, as the direct executor does,
 *   leaves the work to its caller.
 */
#include "wheel/timer.h"

#include "base/log.h"
#include "base/time.h"
#include "sync/interrupt.h"
#include "sync/thread_record.h"

/* Nodes handled under one hold of a shard's lock. */
#define STEP_NODES 128

/* After how long an executor that refused is asked again, at least. */
#define RETRY_NS SPN_MS(1)

#define REPORT_INTERVAL_NS SPN_SEC(1)

/* Callbacks between two looks at the clock, which costs as much as all the rest: only
 * the lateness of those in between is a little less than it was. */
#define LOOK_EVERY 8

/* ---- waking ------------------------------------------------------------------- */

static bool is_stopped(const struct spn_timer *timer)
{
    /* relaxed: stop unparks the thread, or has the alarm's lock, after it has written it. */
    return spn__load(&timer->state, relaxed) == SPN__TIMER_STOPPED;
}

/* Under a lock, so that whoever comes last sets the latest value. */
void spn__timer_set_alarm(struct spn_timer *timer)
{
    int64_t wake_ns;

    if (timer->fd < 0)
        return;
    spn__lock(&timer->alarm_lock);
    wake_ns = spn__load(&timer->wake_ns, relaxed); /* written before the lock */
    if (is_stopped(timer))
        wake_ns = SPN_FOREVER;
    else if (timer->manual)
        wake_ns = wake_ns <= spn_clock_now(timer->clock) ? 0 : SPN_FOREVER;
    spn__os_alarm_set(timer->fd, wake_ns);
    spn__unlock(&timer->alarm_lock);
}

void spn__timer_notify(struct spn_timer *timer, int64_t wake_ns)
{
    /* relaxed: an old value is at most too high, and then the exchange fails. */
    int64_t found = spn__load(&timer->wake_ns, relaxed);

    do {
        if (wake_ns >= found)
            return;
        /* [wake] release: the addition is in its shard.
         * mutant: it would take load buffering to tell, which the explorer has not */
    } while (!spn__cas_weak(&timer->wake_ns, &found, wake_ns, release, relaxed));

    if (timer->drive == SPN_TIMER_THREAD) {
        const struct spn_thread *self = spn__self_get();

        /* relaxed: only the thread itself finds its own name; it looks before it sleeps. */
        if (self == NULL || self != spn__load(&timer->thread, relaxed))
            spn__parker_unpark(&timer->parker);
        return;
    }
    /* relaxed: only the driver itself reads its own name there, and it looks at wake_ns
     * when its pass is over. */
    if (spn__load(&timer->driver, relaxed) == spn__self_get() &&
        spn__self_get() != NULL)
        return;
    spn__timer_set_alarm(timer);
    if (timer->wake != NULL)
        timer->wake(timer->ctx);
}

/* Whatever the clock shows now, look. */
void spn__timer_clock_moved(void *arg)
{
    struct spn_timer *timer = arg;

    if (timer->drive == SPN_TIMER_THREAD) {
        spn__parker_unpark(&timer->parker); /* also of a thread that only starts now */
        return;
    }
    /* relaxed: until run was called once there is nobody to tell. */
    if (spn__load(&timer->state, relaxed) != SPN__TIMER_STARTED)
        return;
    spn__timer_set_alarm(timer);
    if (timer->wake != NULL)
        timer->wake(timer->ctx);
}

/* ---- one callback ------------------------------------------------------------- */

/* An eighth of a power of two per bucket; the first 16 are exact. */
static uint32_t late_bucket(uint64_t ns)
{
    uint32_t power;

    if (ns < 8)
        return (uint32_t)ns;
    power = 63 - (uint32_t)__builtin_clzll(ns);
    return (power - 2) * 8 + (uint32_t)(ns >> (power - 3) & 7);
}

/* Takes the next due timeout out and lists the run; the lock is held. */
static bool take(struct spn__shard *s, struct spn__run *run, int64_t now_ns)
{
    spn_timeout *t;
    int64_t late_ns;

    if (s->firing.next == &s->firing || s->stopped)
        return false;
    t = spn__timeout_of(spn__wheel_node_of(s->firing.next));
    spn__wheel_unlink(&t->node);
    /* While the callback runs: the one after the next.  The next was asked for a callback
     * ago; and this one is written to when that is unlinked, which the unlock, a locked
     * instruction, would wait for. */
    __builtin_prefetch(s->firing.next->next, 1);
    late_ns = spn__time_sub(now_ns, t->node.due_ns);
    if (late_ns < 0)
        late_ns = 0; /* it became due after we had looked at the clock */
    s->late[late_bucket((uint64_t)late_ns)]++;
    if (late_ns > s->late_max_ns)
        s->late_max_ns = late_ns;
    run->periodic = spn__timeout_is_periodic(t);
    spn__state_set(t, run->periodic ? SPN__TIMEOUT_REPEATING : SPN_TIMEOUT_EXPIRED);
    spn__shard_count(s, -1);
    s->fired++;
    run->timeout = t;
    run->fn = (t->policy & SPN__POLICY_HANDLE) != 0 ? spn__handle_expired : t->fn;
    run->gone = run->inherited = false;
    if (!run->periodic)
        spn__timer_release(s->timer);
    spn__list_push_back(&s->running, &run->link);
    return true;
}

/* The time after the one that has just been kept; see spn_missed. */
static int64_t next_due(struct spn__shard *s, const spn_timeout *t, int64_t now_ns)
{
    const int64_t period = t->period_ns, due = t->node.due_ns;
    const uint32_t missed = t->policy & SPN__POLICY_MISSED;
    int64_t behind, keep = 0;

    if (missed == SPN_MISSED_DELAY)
        return spn__time_add(now_ns, period);
    if (spn__time_add(due, period) > now_ns)
        return spn__time_add(due, period);
    behind = spn__time_sub(now_ns, due) / period; /* at least 1 */
    if (missed == SPN_MISSED_BURST)
        keep = (int64_t)(t->policy >> SPN__POLICY_BURST_SHIFT);
    if (behind <= keep)
        return due + period;
    s->missed += (uint64_t)(behind - keep);
    return spn__time_add(due + (behind - keep) * period, period);
}

/* Arms a periodic timeout whose run is over; as spn__shard_link. */
static bool arm_next(struct spn__shard *s, const struct spn__run *run, int64_t now_ns,
                     int64_t *wake_ns)
{
    spn_timeout *t = run->timeout;

    if (run->gone || t->period_ns <= 0 ||
        (run->status != 0 && (t->policy & SPN__POLICY_STOP) != 0)) {
        if (!run->inherited)
            spn__timer_release(s->timer);
        if (!run->gone)
            spn__state_set(t, SPN_TIMEOUT_EXPIRED);
        return false;
    }
    t->node.due_ns = next_due(s, t, now_ns);
    spn__state_set(t, SPN_TIMEOUT_PENDING);
    spn__shard_count(s, 1);
    s->armed++;
    return spn__shard_link(s, t, wake_ns);
}

/* The run is over, and nothing of it is left to do; the lock is held. */
static void finish(struct spn__shard *s, struct spn__run *run,
                   struct spn__chosen *chosen)
{
    spn__list_remove(&run->link);
    if (run->status != 0)
        s->failed++;
    if (s->waiting != 0) {
        spn__lock(&s->idle_lock);
        spn__waitq_choose_all(&s->idle, chosen); /* each looks whether it was its own */
        spn__unlock(&s->idle_lock);
    }
}

/* Arms what is periodic, and tells who is to look earlier now.  The run is listed all the
 * while, so that stop waits for that, but no longer as one of the timeout's, which has been
 * armed and may be anywhere.  The lock is held, but not meanwhile. */
static void arm_and_tell(struct spn__shard *s, struct spn__run *run, int64_t now_ns)
{
    int64_t wake_ns;

    if (!run->periodic || !arm_next(s, run, now_ns, &wake_ns))
        return;
    run->timeout = NULL;
    spn__quick_unlock(&s->lock);
    spn__timer_notify(s->timer, wake_ns);
    spn__quick_lock(&s->lock);
}

static void report_failure(struct spn_timer *timer, int status)
{
    if (timer->on_failure != NULL)
        timer->on_failure(timer->ctx, status);
    else if (spn__log_enabled(SPN_LOG_WARN))
        spn__log_limit(&timer->failures, spn__now(), REPORT_INTERVAL_NS, SPN_LOG_WARN,
                       "timer %s: a callback failed with %d (%s)", timer->name, status,
                       spn_status_name(status));
}

static bool hand_over(struct spn_timer *timer, struct spn_thread *self,
                      bool from_runner);
static void ask_again(struct spn_timer *timer);

/* Whether anything waits for a runner. */
static bool has_firing(struct spn_timer *timer)
{
    bool found = false;

    for (uint32_t i = 0; i <= timer->shard_mask && !found; i++) {
        struct spn__shard *s = &timer->shards[i];

        spn__quick_lock(&s->lock);
        found = s->firing.next != &s->firing;
        spn__quick_unlock(&s->lock);
    }
    return found;
}

/* Guarded: no exception leaves it. */
static void call_fn(void *p)
{
    struct spn__run *run = p;

    run->status = run->fn(run->timeout); /* the timeout may be gone now */
}

/*
 * Runs callbacks until `firing` is empty or the timer is stopped; returns how many.
 * With *spread, a runner that begins: sees to it that there is another for the rest.
 */
static size_t serve(struct spn__shard *s, struct spn_thread *self, bool *spread)
{
    struct spn_timer *timer = s->timer;
    struct spn__run run = { .thread = self };
    struct spn__chosen chosen = { NULL, NULL };
    const bool stayed = self->stays;
    bool running = false;
    size_t count = 0;
    int64_t now_ns = 0;

    self->stays = true;
    for (;; count++) {
        if (timer->manual || count % LOOK_EVERY == 0 || (running && run.periodic))
            now_ns = spn__timer_now(timer);
        spn__quick_lock(&s->lock);
        if (running) {
            arm_and_tell(s, &run, now_ns);
            finish(s, &run, &chosen);
        }
        running = take(s, &run, now_ns);
        spn__quick_unlock(&s->lock);
        spn__chosen_grant(&chosen);
        if (!running)
            break;
        if (spread != NULL && *spread) {
            *spread = false;
            if (has_firing(timer) && !hand_over(timer, self, true))
                ask_again(timer);
        }
        spn__guarded(call_fn, &run);
        /* relaxed: only the thread itself finds its own name. */
        if (self == spn__load(&timer->thread, relaxed))
            (void)spn__interrupt_take(self); /* not for the next one */
        if (run.status != 0)
            report_failure(timer, run.status);
    }
    self->stays = stayed;
    return count;
}

/* Takes a run off the list, after which the timer may be gone: but its lock must outlast
 * that we let go of it, so stop waits for us as for a guest. */
static void let_go(struct spn__shard *s, struct spn__run *run)
{
    struct spn__chosen chosen = { NULL, NULL };

    spn__quick_lock(&s->lock);
    (void)spn__fetch_add(&s->guests, 1, relaxed); /* stop has the lock after us */
    finish(s, run, &chosen);
    spn__quick_unlock(&s->lock);
    spn__shard_guest_leaves(s); /* [guests] */
    spn__chosen_grant(&chosen);
}

void spn__timer_call(struct spn__shard *s, spn_timeout *t, spn_timeout_fn fn)
{
    struct spn__run run = spn__run_make(spn__thread_self());

    run.timeout = t;
    run.fn = fn;
    spn__quick_lock(&s->lock);
    spn__list_push_back(&s->running, &run.link);
    spn__quick_unlock(&s->lock);
    spn__guarded(call_fn, &run);
    let_go(s, &run);
}

/* ---- executors ---------------------------------------------------------------- */

/* exec_lock is held. */
static void free_runner(struct spn_timer *timer, struct spn__runner *r)
{
    r->next_free = timer->free_runners;
    timer->free_runners = r;
    timer->runners_out--;
}

/* Unlocks exec_lock.  The timer may be gone then: the last runner of one that was
 * destroyed meanwhile frees it. */
static void end_runner(struct spn_timer *timer)
{
    const bool last = timer->doomed && timer->runners_out == 0;

    spn__unlock(&timer->exec_lock);
    if (last)
        spn__timer_free(timer);
}

static void put_runner(struct spn_timer *timer, struct spn__runner *r, bool refused)
{
    spn__lock(&timer->exec_lock);
    free_runner(timer, r);
    timer->refused += refused;
    end_runner(timer);
}

/* Ends a runner that has looked at all shards, unless it is wanted again: in one step
 * with hand_over, so that either that finds a runner or this finds the wish. */
static bool retire(struct spn_timer *timer, struct spn__runner *r)
{
    bool wanted;

    spn__lock(&timer->exec_lock);
    wanted = timer->wanted;
    timer->wanted = false;
    if (!wanted)
        free_runner(timer, r);
    end_runner(timer);
    return !wanted;
}

/* True if the thread is in the call that hands it over, and runs callbacks itself. */
static bool begin_runner(struct spn_timer *timer, const struct spn__runner *r,
                         const struct spn_thread *self)
{
    bool nested;

    spn__lock(&timer->exec_lock);
    timer->runners_queued--;
    nested = r->spreader != NULL && r->spreader == self;
    spn__unlock(&timer->exec_lock);
    return nested;
}

/* The call that handed it over is over: the same thread may get it from a queue now, and
 * is to serve then.  Unless it has ended, and has another turn. */
static void end_spreading(struct spn_timer *timer, struct spn__runner *r, uint32_t turn)
{
    spn__lock(&timer->exec_lock);
    if (r->turn == turn)
        r->spreader = NULL;
    spn__unlock(&timer->exec_lock);
}

/* Hands a runner to the executor, unless one is on its way or all are out.  False: the
 * executor refuses; ask again later. */
static bool hand_over(struct spn_timer *timer, struct spn_thread *self,
                      bool from_runner)
{
    struct spn__runner *r = NULL;
    uint32_t turn = 0;
    int rc;

    spn__lock(&timer->exec_lock);
    if (timer->runners_queued == 0) {
        r = timer->free_runners;
        timer->wanted = r == NULL;
    }
    if (r != NULL) {
        timer->free_runners = r->next_free;
        timer->runners_queued++;
        timer->runners_out++;
        r->spreader = from_runner ? self : NULL;
        turn = ++r->turn;
    }
    spn__unlock(&timer->exec_lock);
    if (r == NULL)
        return true;
    rc = spn_executor_execute(timer->executor, &r->task);
    if (rc == SPN_OK) {
        if (from_runner)
            end_spreading(timer, r, turn);
        return true;
    }
    (void)begin_runner(timer, r, NULL);
    put_runner(timer, r, true);
    if (!from_runner && spn__log_enabled(SPN_LOG_WARN))
        spn__log_limit(&timer->refusals, spn__now(), REPORT_INTERVAL_NS, SPN_LOG_WARN,
                       "timer %s: the executor refuses what is due: %d (%s)",
                       timer->name, rc, spn_status_name(rc));
    return false;
}

/* What is due still is: have the timer look again in a while. */
static void ask_again(struct spn_timer *timer)
{
    const int64_t after = timer->tick_ns > RETRY_NS ? timer->tick_ns : RETRY_NS;

    spn__timer_notify(timer, spn__time_add(spn__timer_now(timer), after));
}

/* A runner that cannot run: has the timer ask again in a while, but not before there is a
 * runner for that.  No callback runs here that stop would wait for, so a run is listed
 * meanwhile; once the timer is stopped there is nobody to tell. */
static void give_up(struct spn_timer *timer, struct spn__runner *r)
{
    struct spn__run run = spn__run_make(spn__self_get());
    struct spn__shard *s = &timer->shards[0];
    bool stopped;

    spn__quick_lock(&s->lock);
    stopped = s->stopped;
    if (!stopped)
        spn__list_push_back(&s->running, &run.link);
    spn__quick_unlock(&s->lock);
    put_runner(timer, r, true);
    if (stopped) /* and the timer may be gone */
        return;
    ask_again(timer);
    let_go(s, &run);
}

int spn__runner_run(spn_task *task)
{
    struct spn__runner *r = (struct spn__runner *)(void *)task;
    struct spn_timer *timer = r->timer;
    struct spn_thread *self = spn__thread_self();

    if (begin_runner(timer, r, self)) {
        put_runner(timer, r, false);
        return 0;
    }
    if (self == NULL) {
        give_up(timer, r);
        return 0;
    }
    do {
        bool spread = true; /* around once more is as good as another beginning */

        for (uint32_t i = 0; i <= timer->shard_mask; i++)
            (void)serve(&timer->shards[i], self, &spread);
    } while (!retire(timer, r));
    return 0;
}

void spn__runner_drop(spn_task *task, int reason)
{
    struct spn__runner *r = (struct spn__runner *)(void *)task;
    struct spn_timer *timer = r->timer;

    (void)reason;
    (void)begin_runner(timer, r, NULL);
    give_up(timer, r);
}

/* ---- passes ------------------------------------------------------------------- */

/* Moves the shard's time on, and what is due to `firing`.  Returns when to look next. */
static int64_t look(struct spn__shard *s, int64_t now_ns, bool *due)
{
    int64_t next_ns;

    spn__quick_lock(&s->lock);
    if (s->timer->fast_clock)
        (void)spn__shard_look(s);
    while (!spn__wheel_step(s->wheel, now_ns, STEP_NODES)) {
        spn__quick_unlock(&s->lock); /* let others in */
        spn__quick_lock(&s->lock);
    }
    spn__wheel_splice_due(s->wheel, &s->firing);
    *due = s->firing.next != &s->firing;
    s->known = spn__wheel_next_tick(s->wheel);
    next_ns = spn__wheel_time_of(s->wheel, s->known);
    spn__quick_unlock(&s->lock);
    return next_ns;
}

/* One pass; returns the number of callbacks run, and in *next_ns when to look next. */
static size_t pass(struct spn_timer *timer, struct spn_thread *self, int64_t *next_ns)
{
    const int64_t now_ns = spn__timer_now(timer);
    bool any = false;
    size_t count = 0;

    *next_ns = SPN_FOREVER;
    /* relaxed: a counter for people; one thread at a time makes passes. */
    spn__store(&timer->passes, spn__load(&timer->passes, relaxed) + 1, relaxed);
    for (uint32_t i = 0; i <= timer->shard_mask; i++) {
        bool due;
        const int64_t next = look(&timer->shards[i], now_ns, &due);

        if (next < *next_ns)
            *next_ns = next;
        any = any || due;
        if (due && timer->executor == NULL)
            count += serve(&timer->shards[i], self, NULL);
    }
    if (!any || timer->executor == NULL)
        return count;
    if (!hand_over(timer, self, false))
        ask_again(timer);
    return 1;
}

/* Settles until when to sleep: what the pass found, or what came since if earlier. */
static int64_t settle(struct spn_timer *timer, int64_t next_ns)
{
    /* relaxed, all: see [wake]; what is in the shards is ordered by their locks. */
    int64_t found = spn__load(&timer->wake_ns, relaxed);

    while (next_ns < found &&
           !spn__cas_weak(&timer->wake_ns, &found, next_ns, relaxed, relaxed)) {
    }
    return next_ns < found ? next_ns : found;
}

int spn__timer_main(void *arg)
{
    struct spn_timer *timer = arg;
    struct spn_thread *self = spn__self_get();

    /* relaxed: for notify, on this thread; whoever made us stores the same. */
    spn__store(&timer->thread, self, relaxed);
    spn__os_sleep_precisely();
    while (!is_stopped(timer)) {
        int64_t next_ns;

        /* [wake] acquire: looks at what those have added who lowered it.
         * mutant: as in notify */
        (void)spn__exchange(&timer->wake_ns, SPN_FOREVER, acquire);
        (void)pass(timer, self, &next_ns);
        next_ns = settle(timer, next_ns);
        if (is_stopped(timer))
            break;
        if (!timer->manual)
            (void)spn__parker_park(&timer->parker, next_ns);
        else if (next_ns > spn_clock_now(timer->clock))
            (void)spn__parker_park(&timer->parker, SPN_FOREVER);
    }
    return 0;
}

int spn_timer_run(spn_timer *timer)
{
    struct spn_thread *self, *found = NULL;
    int64_t next_ns;
    size_t count;
    int rc;

    if (timer == NULL)
        return SPN_EINVAL;
    if (timer->drive == SPN_TIMER_THREAD)
        return SPN_ESTATE;
    self = spn__thread_self();
    if (self == NULL)
        return SPN_ENOMEM;
    rc = spn_timer_start(timer);
    if (rc != SPN_OK)
        return rc;
    /* [driver] acquire: what the driver before us did. */
    if (!spn__cas(&timer->driver, &found, self, acquire, relaxed))
        return SPN_EBUSY;
    /* [wake] mutant: as in notify */
    (void)spn__exchange(&timer->wake_ns, SPN_FOREVER, acquire);
    count = pass(timer, self, &next_ns);
    (void)settle(timer, next_ns);
    spn__timer_set_alarm(timer);
    spn__store(&timer->driver, NULL, release); /* [driver] to the next one */
    return count > INT32_MAX ? INT32_MAX : (int)count;
}

int64_t spn_timer_next_expiry(const spn_timer *timer)
{
    /* relaxed: a time, perhaps out of date; those who make it earlier call wake. */
    return timer != NULL ? spn__load(&timer->wake_ns, relaxed) : SPN_FOREVER;
}
