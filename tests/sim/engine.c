/* SPDX-License-Identifier: MIT */
/*
 * engine.c - one schedule: threads, who runs next, blocking, virtual time.
 *
 * OVERVIEW
 *   Simulated threads are fibers.  Each seam call passes sim__point *before* it
 *   acts; there the scheduler picks the thread whose next operation is done
 *   first.  One pick is one operation, so the operations of a schedule form a
 *   single sequence and a schedule is the list of choices that made it.
 *
 *   What a thread does between two points is invisible to the others.  Hence a
 *   thread that was just picked to start, or to go on after a wait, makes no
 *   choice at its next point (`fresh`): it would only pick again the same.
 *
 * STATE of a thread      READY <--> IN_FUTEX, IN_JOIN, IN_SLEEP, IN_SETTLE
 *                        READY --> ENDED
 *   engine.ready, .timed and .yielded have one bit per thread.
 *
 * TIME
 *   The clock moves a little with every step and jumps to the next deadline
 *   when nobody can run, so that a wait of a year costs nothing.  Choosing to
 *   jump while others can run races a time-out against everything else.
 *
 * SPINNING
 *   A thread that relaxes or yields is not picked until another thread changed
 *   something, or all others spin too.  Without this DFS would follow one spin
 *   loop for ever.  After IDLE_ROUNDS turns in which all only spun, time moves.
 */
#include "engine.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP_NS     20
#define START_NS    SPN_SEC(1)
#define IDLE_ROUNDS 16

struct engine engine;
static unsigned idle_rounds;
static uint64_t random_outside;

#if SPN__TSAN || defined(SIM_TSAN)
_Atomic(uint32_t) sim__fence_word;
#endif

/* ---- ending a schedule --------------------------------------------------- */

void sim__stop(enum sim_kind kind, const char *format, ...)
{
    struct thread *me = engine.current;
    va_list args;

    engine.kind = kind;
    va_start(args, format);
    (void)vsnprintf(engine.message, sizeof engine.message, format, args);
    va_end(args);
    if (me == NULL) {
        (void)fprintf(stderr, "sim: outside of any schedule: %s\n", engine.message);
        sim__report();
        exit(1);
    }
    engine.current = NULL;
    fiber_switch(&me->fiber, &engine.home, true);
    abort(); /* nobody continues a stopped schedule */
}

/* Whether something has failed, and the scenario says that it counted on that. */
static bool gives_up(const char *file)
{
    static const char tests[] = "tests/sim/";

    return engine.config.lenient && engine.faults >= engine.config.fail_at &&
           strncmp(file, tests, sizeof tests - 1) == 0;
}

void sim__assert_failed(const char *condition, const char *file, int line)
{
    sim__stop(gives_up(file) ? SIM_GAVE_UP : SIM_ASSERTION, "%s:%d: %s", file, line,
              condition);
}

/* ---- the scheduler ---------------------------------------------------------- */

void sim__make_ready(struct thread *t)
{
    t->state = READY;
    t->fresh = true;
    engine.ready |= sim__bit(t);
    engine.timed &= ~sim__bit(t);
}

/* Something changed that a spinning thread may be waiting for. */
void sim__progress(void)
{
    engine.yielded = 0;
    idle_rounds = 0;
}

/* The timed thread with the earliest deadline; one must exist. */
static struct thread *earliest(void)
{
    struct thread *first = NULL;

    for (uint32_t left = engine.timed; left != 0; left &= left - 1) {
        struct thread *t = &engine.threads[sim__lowest(left)];
        if (first == NULL || t->deadline < first->deadline)
            first = t;
    }
    return first;
}

static void expire(struct thread *t)
{
    if (engine.now < t->deadline)
        engine.now = t->deadline;
    t->expired = true;
    sim__make_ready(t);
    sim__progress();
    sim__event(t, t->site, SIM_OP_EXPIRE, t->address);
}

static void expire_passed(void)
{
    while (engine.timed != 0) {
        struct thread *t = earliest();
        if (t->deadline > engine.now)
            return;
        expire(t);
    }
}

/* Nobody can run, or all that can only spin: lets the world move on.  False
 * when nothing can. */
static bool move_on(void)
{
    for (int i = 0; i < engine.thread_count; i++) {
        if (engine.threads[i].state == IN_SETTLE) {
            sim__make_ready(&engine.threads[i]);
            sim__progress();
            return true;
        }
    }
    if (engine.timed == 0)
        return false;
    expire(earliest());
    return true;
}

/* Everybody who is ready spins: they take turns, without a choice. */
static struct thread *next_spinner(const struct thread *me)
{
    const uint32_t after = engine.ready & ~((sim__bit(me) << 1) - 1);

    engine.yielded = 0;
    return &engine.threads[sim__lowest(after != 0 ? after : engine.ready)];
}

static struct thread *choose_thread(struct thread *me, uint32_t can)
{
    unsigned count = 0;
    enum choice kind = CHOOSE_THREAD;

    if ((can & sim__bit(me)) != 0) {
        kind = CHOOSE_PREEMPT;
        engine.candidates[count++] = me;
        can &= ~sim__bit(me);
    }
    for (; can != 0; can &= can - 1)
        engine.candidates[count++] = &engine.threads[sim__lowest(can)];
    return engine.candidates[sim__choose(kind, count)];
}

static struct thread *pick(struct thread *me)
{
    for (;;) {
        if (engine.steps > engine.opts.max_steps)
            sim__stop(SIM_LIVELOCK, "no end after %llu steps: some thread goes round",
                      (unsigned long long)engine.opts.max_steps);
        if (engine.timed != 0)
            expire_passed();
        if (engine.ready == 0) {
            if (!move_on())
                sim__stop(SIM_DEADLOCK, "no thread can run and no timer is armed");
            continue;
        }
        const uint32_t can = engine.ready & ~engine.yielded;
        if (can == 0) {
            engine.steps++;
            if (++idle_rounds > IDLE_ROUNDS && move_on())
                continue;
            return next_spinner(me);
        }
        if (engine.buffered != 0 && sim__maybe_flush()) {
            sim__progress();
            continue;
        }
        if (engine.timed != 0 && sim__choose(CHOOSE_EARLY, 2) == 1) {
            expire(earliest());
            continue;
        }
        return choose_thread(me, can);
    }
}

static void switch_to(struct thread *next)
{
    struct thread *me = engine.current;

    if (next == me)
        return;
    me->saved_errno = errno;
    engine.current = next;
    fiber_switch(&me->fiber, &next->fiber, false);
    errno = me->saved_errno;
}

static bool changes_nothing(unsigned op)
{
    return op == SIM_OP_LOAD || op == SIM_OP_RELAX || op == SIM_OP_YIELD ||
           op == SIM_OP_NOW || op == SIM_OP_WAIT;
}

/* Waits and wakes are counted where it is known what came of them. */
static void count_op(const struct sim_site *site)
{
    struct sim_counts *c = &engine.counts;

    switch (site->op) {
    case SIM_OP_EXCHANGE:
    case SIM_OP_ADD:
    case SIM_OP_SUB:
    case SIM_OP_OR:
    case SIM_OP_AND:
    case SIM_OP_CAS:
    case SIM_OP_CAS_WEAK:
        c->rmws++;
        break;
    case SIM_OP_STORE:
        c->fences += site->order_now == memory_order_seq_cst;
        break;
    case SIM_OP_FENCE:
        c->fences++;
        break;
    case SIM_OP_LIGHT:
        c->light++;
        break;
    case SIM_OP_HEAVY:
        c->heavy++;
        break;
    case SIM_OP_ALLOC:
        c->allocs++;
        break;
    case SIM_OP_YIELD:
    case SIM_OP_CREATE:
        c->syscalls++;
        break;
    default:
        break;
    }
}

void sim__point(struct sim_site *site, const volatile void *at)
{
    struct thread *me = engine.current;

    sim__site(site);
    if (me == NULL)
        return;
    me->site = site;
    engine.steps++;
    engine.now += STEP_NS;
    sim__strategy_step(me);
    if (me->fresh) {
        me->fresh = false;
        /* The bound must hold for a thread that is always fresh, too. */
        if (engine.steps > engine.opts.max_steps)
            sim__stop(SIM_LIVELOCK, "no end after %llu steps: some thread goes round",
                      (unsigned long long)engine.opts.max_steps);
    } else {
        switch_to(pick(me));
        me->fresh = false;
    }
    if (engine.yielded != 0 && !changes_nothing(site->op))
        sim__progress();
    count_op(site);
    sim__event(me, site, site->op, at);
}

/* Sleeps until someone makes the thread ready, or the deadline expires. */
void sim__block(struct thread *me, enum thread_state state, int64_t deadline)
{
    sim__memory_pause(me);
    me->state = state;
    me->deadline = deadline;
    me->expired = false;
    engine.ready &= ~sim__bit(me);
    if (deadline != SPN_FOREVER)
        engine.timed |= sim__bit(me);
    switch_to(pick(me));
    me->fresh = true; /* it may have been picked without a switch */
}

/* An ended thread gives way for the last time. */
void sim__leave(struct thread *me)
{
    struct thread *next;

    if (engine.alive == 0) {
        engine.current = NULL;
        fiber_switch(&me->fiber, &engine.home, true);
    }
    next = pick(me);
    engine.current = next;
    fiber_switch(&me->fiber, &next->fiber, true);
    abort(); /* an ended thread was picked */
}

void sim__yield(struct sim_site *site)
{
    struct thread *me = engine.current;

    sim__site(site);
    if (me == NULL)
        return;
    sim__memory_pause(me);
    me->pauses++;
    me->fresh = false;
    engine.yielded |= sim__bit(me);
    sim__strategy_yield(me);
    sim__point(site, NULL);
}

/* ---- futex -------------------------------------------------------------------- */

static enum spn__futex_result returns_at_once(enum spn__futex_result result)
{
    engine.counts.syscalls++;
    return result;
}

enum spn__futex_result sim__futex_wait(struct sim_site *site, spn__futex_word *word,
                                       uint32_t expected, int64_t deadline_ns)
{
    struct thread *me = engine.current;

    if (me == NULL)
        sim__stop(SIM_ASSERTION, "a futex wait outside of every thread");
    sim__point(site, word);
    sim__event_value(expected);
    sim__drain(me);
    if (sim__memory_newest(me, word) != expected)
        return returns_at_once(SPN__CHANGED);
    if (deadline_ns <= engine.now)
        return returns_at_once(SPN__EXPIRED);
    if (sim__choose(CHOOSE_SPURIOUS, 2) == 1)
        return returns_at_once(SPN__WOKEN);
    engine.counts.sleeps++;
    me->address = word;
    me->sleeps++;
    sim__block(me, IN_FUTEX, deadline_ns);
    return me->expired ? SPN__EXPIRED : SPN__WOKEN;
}

void sim__futex_wake(struct sim_site *site, spn__futex_word *word, int count)
{
    unsigned woken = 0;

    sim__point(site, word);
    if (engine.current == NULL || site->dropped)
        return;
    sim__drain(engine.current);
    engine.counts.wakes++;
    while (count-- > 0) {
        struct thread *asleep[MAX_THREADS];
        unsigned found = 0;

        for (int i = 0; i < engine.thread_count; i++) {
            struct thread *t = &engine.threads[i];
            if (t->state == IN_FUTEX && t->address == (const volatile void *)word)
                asleep[found++] = t;
        }
        if (found == 0)
            break;
        /* Which one matters only while some stay asleep. */
        const bool all = (int64_t)count + 1 >= (int64_t)found;
        sim__make_ready(asleep[all ? 0 : sim__choose(CHOOSE_WAKE, found)]);
        woken++;
    }
    engine.counts.wakeups += woken;
    sim__event_value(woken);
}

/* ---- for the body --------------------------------------------------------------- */

unsigned sim_choose(unsigned n)
{
    return sim__choose(CHOOSE_BODY, n);
}

int sim_self(void)
{
    return engine.current != NULL ? engine.current->id : -1;
}

int64_t sim_now(void)
{
    return engine.now;
}

static const struct thread *started(int id)
{
    if (id < 0 || id >= engine.thread_count)
        sim__stop(SIM_ASSERTION, "there is no thread %d", id);
    return &engine.threads[id];
}

uint64_t sim_pauses(int id)
{
    return started(id)->pauses;
}

uint64_t sim_sleeps(int id)
{
    return started(id)->sleeps;
}

struct sim_counts sim_counts(void)
{
    return engine.counts;
}

void sim_set_cpus(uint32_t count)
{
    engine.cpus = count;
}

void sim_set_counter(uint64_t (*counter)(void))
{
    engine.counter = counter;
}

bool spn__cycles_usable(void)
{
    return engine.counter != NULL;
}

uint64_t spn__cycles(void)
{
    return engine.counter != NULL ? engine.counter() : 0;
}

uintptr_t spn__os_stack_low(void)
{
    return (uintptr_t)__builtin_frame_address(0) - 32 * 1024;
}

int32_t spn__os_only_cpu(void)
{
    return engine.cpus == 1 ? 0 : -1;
}

int32_t spn__os_cpu(void)
{
    return (int32_t)((uint32_t)sim_self() % engine.cpus);
}

int64_t sim__now(struct sim_site *site)
{
    sim__point(site, NULL);
    return engine.now;
}

uint64_t spn__random(void)
{
    return engine.current != NULL ? sim__random() : random_outside++;
}

void sim_outcome(unsigned outcome)
{
    if (outcome > 63)
        sim__stop(SIM_ASSERTION, "outcome %u: there are 64", outcome);
    engine.outcomes |= UINT64_C(1) << outcome;
}

bool sim__asymmetric(void)
{
    if (engine.fences < 0) {
        switch (engine.opts.fences) {
        case SIM_FENCES_ASYMMETRIC:
            engine.fences = 0;
            break;
        case SIM_FENCES_SYMMETRIC:
            engine.fences = 1;
            break;
        default:
            engine.fences = (int)sim__choose(CHOOSE_FENCES, 2);
            break;
        }
    }
    return engine.fences == 0;
}

bool spn__fence_is_asymmetric(void)
{
    return sim__asymmetric();
}

/* ---- one schedule ---------------------------------------------------------------- */

__attribute__((weak)) void sim_globals_reset(void)
{
}

__attribute__((weak)) void sim_globals_drain(void)
{
}

static void run_body(void *scenario)
{
    ((const struct sim_scenario *)scenario)->body();
}

static void check_left_behind(void)
{
    for (int i = 1; i < engine.thread_count; i++) {
        const struct thread *t = &engine.threads[i];
        if (!t->joined && !t->detached) {
            engine.kind = SIM_LEAK;
            (void)snprintf(engine.message, sizeof engine.message,
                           "thread never joined: T%d %s", i, t->name);
            return;
        }
    }
    if (sim__heap_leaks(engine.message, sizeof engine.message))
        engine.kind = SIM_LEAK;
}

void sim__run_schedule(uint64_t seed)
{
    engine.seed = seed;
    engine.thread_count = 0;
    engine.ready = engine.yielded = engine.timed = 0;
    engine.alive = 0;
    engine.steps = 0;
    engine.hash = 0xcbf29ce484222325u;
    engine.outcomes = 0;
    memset(&engine.counts, 0, sizeof engine.counts);
    engine.now = START_NS;
    engine.buffered = 0;
    engine.fences = -1;
    engine.faults = 0;
    engine.cpus = 2;
    engine.counter = NULL;
    engine.kind = SIM_OK;
    engine.message[0] = '\0';
    idle_rounds = 0;
    sim__threads_begin();
    random_outside = 0;
    sim__trace_begin();
    sim__heap_begin();
    sim__strategy_begin();
    sim__memory_begin();
    sim_globals_reset();

    struct thread *body =
        sim__spawn(NULL, run_body, (void *)(uintptr_t)engine.scenario);

    engine.current = body;
    fiber_switch(&engine.home, &body->fiber, false);
    if (engine.kind != SIM_OK) /* it was stopped, and no thread said goodbye */
        for (int i = 0; i < engine.thread_count; i++)
            fiber_release_for(&engine.threads[i].fiber, &engine.home, &engine);
    fiber_acquire(&engine);
    if (engine.kind == SIM_OK) {
        sim_globals_drain();
        check_left_behind();
    }
    sim__heap_release();
}
