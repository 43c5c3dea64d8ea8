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
/* Rounds of destructors at the end of a thread, as PTHREAD_DESTRUCTOR_ITERATIONS. */
#define DESTRUCTOR_ROUNDS 4

struct engine engine;
static unsigned idle_rounds;
static void (*self_destructor)(void *);
static void *self_outside; /* of code that runs outside of every thread */
static uint64_t random_outside;

static struct sim_site start_site = { .file = "(start)",
                                      .text = "",
                                      .op = SIM_OP_START };
static struct sim_site exit_site = { .file = "(exit)", .text = "", .op = SIM_OP_EXIT };

#if SPN__TSAN || defined(SIM_TSAN)
_Atomic(uint32_t) sim__fence_word;
#endif

static uint32_t bit(const struct thread *t)
{
    return UINT32_C(1) << t->id;
}

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

void sim__assert_failed(const char *condition, const char *file, int line)
{
    sim__stop(SIM_ASSERTION, "%s:%d: %s", file, line, condition);
}

/* ---- the scheduler ---------------------------------------------------------- */

static void make_ready(struct thread *t)
{
    t->state = READY;
    t->fresh = true;
    engine.ready |= bit(t);
    engine.timed &= ~bit(t);
}

/* Something changed that a spinning thread may be waiting for. */
static void progress(void)
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
    make_ready(t);
    progress();
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
            make_ready(&engine.threads[i]);
            progress();
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
    const uint32_t after = engine.ready & ~((bit(me) << 1) - 1);

    engine.yielded = 0;
    return &engine.threads[sim__lowest(after != 0 ? after : engine.ready)];
}

static struct thread *choose_thread(struct thread *me, uint32_t can)
{
    unsigned count = 0;
    enum choice kind = CHOOSE_THREAD;

    if ((can & bit(me)) != 0) {
        kind = CHOOSE_PREEMPT;
        engine.candidates[count++] = me;
        can &= ~bit(me);
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
            progress();
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
        progress();
    sim__event(me, site, site->op, at);
}

/* Sleeps until someone makes the thread ready, or the deadline expires. */
static void block(struct thread *me, enum thread_state state, int64_t deadline)
{
    sim__memory_pause(me);
    me->state = state;
    me->deadline = deadline;
    me->expired = false;
    engine.ready &= ~bit(me);
    if (deadline != SPN_FOREVER)
        engine.timed |= bit(me);
    switch_to(pick(me));
    me->fresh = true; /* it may have been picked without a switch */
}

void sim__yield(struct sim_site *site)
{
    struct thread *me = engine.current;

    sim__site(site);
    if (me == NULL)
        return;
    sim__memory_pause(me);
    me->fresh = false;
    engine.yielded |= bit(me);
    sim__strategy_yield(me);
    sim__point(site, NULL);
}

/* ---- futex -------------------------------------------------------------------- */

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
        return SPN__CHANGED;
    if (deadline_ns <= engine.now)
        return SPN__EXPIRED;
    if (sim__choose(CHOOSE_SPURIOUS, 2) == 1)
        return SPN__WOKEN;
    me->address = word;
    block(me, IN_FUTEX, deadline_ns);
    return me->expired ? SPN__EXPIRED : SPN__WOKEN;
}

void sim__futex_wake(struct sim_site *site, spn__futex_word *word, int count)
{
    unsigned woken = 0;

    sim__point(site, word);
    if (engine.current == NULL || site->dropped)
        return;
    sim__drain(engine.current);
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
        make_ready(asleep[all ? 0 : sim__choose(CHOOSE_WAKE, found)]);
        woken++;
    }
    sim__event_value(woken);
}

/* ---- threads -------------------------------------------------------------------- */

static void run_destructors(struct thread *me)
{
    for (int round = 0; round < DESTRUCTOR_ROUNDS && me->self_kept != NULL; round++) {
        void *self = me->self_kept;
        me->self = me->self_kept = NULL; /* first: the destructor may set it anew */
        self_destructor(self);
    }
}

static bool others_of_body_ended(const struct thread *waiter)
{
    for (int i = 0; i < engine.thread_count; i++) {
        const struct thread *t = &engine.threads[i];
        if (t->started_by_body && t != waiter && t->state != ENDED)
            return false;
    }
    return true;
}

static bool join_is_over(const struct thread *waiter)
{
    if (waiter->joins >= 0)
        return engine.threads[waiter->joins].state == ENDED;
    return others_of_body_ended(waiter);
}

__attribute__((noreturn)) static void end_thread(void)
{
    struct thread *me = engine.current;
    struct thread *next;

    run_destructors(me);
    if (me->buffer_count != 0) /* others may run before the stores are seen */
        sim__point(&exit_site, NULL);
    sim__drain(me);
    me->site = &exit_site;
    sim__event(me, &exit_site, SIM_OP_EXIT, NULL);
    fiber_release(me);
    fiber_release(&engine);
    me->state = ENDED;
    engine.ready &= ~bit(me);
    engine.alive--;
    progress();
    for (int i = 0; i < engine.thread_count; i++) {
        struct thread *t = &engine.threads[i];
        if (t->state == IN_JOIN && join_is_over(t))
            make_ready(t);
    }
    if (engine.alive == 0) {
        engine.current = NULL;
        fiber_switch(&me->fiber, &engine.home, true);
    }
    next = pick(me);
    engine.current = next;
    fiber_switch(&me->fiber, &next->fiber, true);
    abort(); /* an ended thread was picked */
}

static void thread_main(void)
{
    struct thread *me = engine.current;

    fiber_entered();
    fiber_acquire(me);
    errno = 0;
    if (me->entry != NULL)
        (void)me->entry(me->arg);
    else
        me->entry_void(me->arg);
    end_thread();
}

void sim_exit(void)
{
    struct thread *me = engine.current;

    while (me->cleanups != NULL)
        sim__cleanup_pop();
    end_thread();
}

/* Either entry is given; the stack of an earlier schedule is used again. */
static struct thread *spawn(void *(*entry)(void *), void (*entry_void)(void *),
                            void *arg)
{
    struct thread *t = &engine.threads[engine.thread_count];

    if (engine.thread_count == MAX_THREADS)
        sim__stop(SIM_ASSERTION, "more than %d threads in one schedule", MAX_THREADS);
    t->id = engine.thread_count++;
    t->joined = t->detached = t->started_by_body = false;
    t->expired = false;
    t->joins = -1;
    t->address = NULL;
    t->deadline = SPN_FOREVER;
    t->site = &start_site;
    t->entry = entry;
    t->entry_void = entry_void;
    t->arg = arg;
    t->self = t->self_kept = NULL;
    t->cleanups = NULL;
    t->name[0] = '\0';
    if (engine.current != NULL)
        t->sigmask = engine.current->sigmask;
    else
        sigemptyset(&t->sigmask);
    t->buffer_count = 0;
    engine.alive++;
    make_ready(t);
    sim__strategy_thread(t);
    sim__memory_thread(t, engine.current);
    fiber_release(t);
    fiber_prepare(&t->fiber, thread_main);
    return t;
}

int sim__thread_create(struct sim_site *site, spn__os_thread *out,
                       const struct spn__os_thread_attr *attr, void *(*entry)(void *),
                       void *arg)
{
    struct thread *t;

    if (engine.current == NULL)
        sim__stop(SIM_ASSERTION, "a thread is created outside of every thread");
    sim__point(site, NULL);
    sim__drain(engine.current);
    if (sim__fault(SIM_FAULT_THREAD))
        return SPN_EAGAIN;
    t = spawn(entry, NULL, arg);
    if (attr->block_signals) {
        fiber_ignore_begin();
        sigfillset(&t->sigmask);
        fiber_ignore_end();
    }
    sim__event_value((uint64_t)t->id);
    *out = t->id;
    return SPN_OK;
}

static struct thread *joinable(spn__os_thread id, const char *what)
{
    struct thread *t;

    if (id < 0 || id >= engine.thread_count)
        sim__stop(SIM_ASSERTION, "%s of something that is no thread", what);
    t = &engine.threads[id];
    if (t->joined || t->detached)
        sim__stop(SIM_ASSERTION, "%s of T%d, which was %s before", what, id,
                  t->joined ? "joined" : "detached");
    return t;
}

static void wait_for_end(struct thread *me, int id)
{
    sim__drain(me);
    me->joins = id;
    if (!join_is_over(me))
        block(me, IN_JOIN, SPN_FOREVER);
}

static void joined(struct thread *me, struct thread *ended)
{
    ended->joined = true;
    sim__memory_join(me, ended);
    fiber_acquire(ended);
}

void sim__thread_join(struct sim_site *site, spn__os_thread id)
{
    struct thread *me = engine.current;

    sim__point(site, NULL);
    sim__event_value((uint64_t)id);
    (void)joinable(id, "join");
    wait_for_end(me, id);
    joined(me, joinable(id, "join")); /* nobody else may have joined meanwhile */
}

void sim__thread_detach(struct sim_site *site, spn__os_thread id)
{
    sim__point(site, NULL);
    sim__event_value((uint64_t)id);
    joinable(id, "detach")->detached = true;
}

int spn__os_set_nice(int32_t nice)
{
    return nice >= -20 && nice <= 19 ? SPN_OK : SPN_EINVAL;
}

void spn__os_set_name(const char *name)
{
    if (engine.current == NULL)
        return;
    fiber_ignore_begin();
    (void)snprintf(engine.current->name, sizeof engine.current->name, "%s", name);
    fiber_ignore_end();
}

void spn__os_get_name(char name[16])
{
    memset(name, 0, 16);
    if (engine.current != NULL)
        memcpy(name, engine.current->name, 16);
}

void spn__os_get_sigmask(spn__sigmask *mask)
{
    if (engine.current != NULL)
        *mask = engine.current->sigmask;
    else
        sigemptyset(mask);
}

void spn__os_set_sigmask(const spn__sigmask *mask)
{
    if (engine.current != NULL)
        engine.current->sigmask = *mask;
}

bool spn__os_on_fork_child(void (*restore)(void))
{
    (void)restore; /* nobody forks in a schedule */
    return !sim__fault(SIM_FAULT_ALLOC);
}

static struct sim__cleanup **cleanups(void)
{
    static struct sim__cleanup *outside;

    return engine.current != NULL ? &engine.current->cleanups : &outside;
}

void sim__cleanup_push(struct sim__cleanup *cleanup)
{
    struct sim__cleanup **top = cleanups();

    cleanup->outer = *top;
    *top = cleanup;
}

void sim__cleanup_pop(void)
{
    struct sim__cleanup **top = cleanups(), *cleanup = *top;

    *top = cleanup->outer;
    cleanup->run(cleanup->arg);
}

void *spn__self_get(void)
{
    return engine.current != NULL ? engine.current->self : self_outside;
}

bool spn__self_set(void *self, void (*destructor)(void *))
{
    struct thread *me = engine.current;

    if (destructor != NULL && sim__fault(SIM_FAULT_ALLOC))
        return false;
    if (destructor != NULL)
        self_destructor = destructor;
    if (me == NULL) {
        self_outside = self;
        return true;
    }
    me->self = self;
    if (destructor != NULL)
        me->self_kept = self;
    return true;
}

/* ---- for the body --------------------------------------------------------------- */

/* Sites of calls that only bodies make: rare, so they are looked up. */
static struct sim_site *body_site(enum sim_op op, const char *file, int line)
{
    enum { SITES = 256 };
    static struct sim_site sites[SITES];
    static unsigned count;

    for (unsigned i = 0; i < count; i++)
        if (sites[i].line == line && sites[i].file == file && sites[i].op == op)
            return &sites[i];
    if (count == SITES)
        count = 0; /* begin anew: only the text of old traces suffers */
    sites[count] =
        (struct sim_site){ .file = file, .text = "", .line = line, .op = (uint8_t)op };
    return &sites[count++];
}

/* Not a point: what the creator does next is one, and nobody can tell the
 * difference between a thread that does not exist and one that has not run. */
int sim__thread(void (*fn)(void *), void *arg, const char *file, int line)
{
    struct thread *me = engine.current;
    struct thread *t;

    me->site = body_site(SIM_OP_CREATE, file, line);
    t = spawn(NULL, fn, arg);
    t->started_by_body = true;
    me->fresh = false; /* there is someone new to choose */
    sim__event(me, me->site, SIM_OP_CREATE, NULL);
    sim__event_value((uint64_t)t->id);
    return t->id;
}

void sim__join_started(int id, const char *file, int line)
{
    struct thread *me = engine.current;
    struct sim_site *site = body_site(SIM_OP_JOIN, file, line);

    if (me->buffer_count != 0)
        sim__point(site, NULL);
    me->site = site;
    if (id >= 0)
        (void)joinable(id, "join");
    wait_for_end(me, id);
    for (int i = 0; i < engine.thread_count; i++) {
        struct thread *t = &engine.threads[i];
        if (t != me && t->started_by_body && !t->joined && (id < 0 || id == i))
            joined(me, t);
    }
    sim__event(me, site, SIM_OP_JOIN, NULL);
}

void sim__settle(const char *file, int line)
{
    struct thread *me = engine.current;

    me->site = body_site(SIM_OP_SETTLE, file, line);
    sim__drain(me);
    block(me, IN_SETTLE, SPN_FOREVER);
    for (int i = 0; i < engine.thread_count; i++) {
        struct thread *t = &engine.threads[i];
        if (t != me) {
            sim__memory_join(me, t);
            fiber_release_for(&t->fiber, &me->fiber, &engine.steps);
        }
    }
    fiber_acquire(&engine.steps);
    sim__event(me, me->site, SIM_OP_SETTLE, NULL);
}

void sim__sleep(int64_t ns, const char *file, int line)
{
    struct thread *me = engine.current;
    int64_t deadline;

    if (ns <= 0)
        return;
    me->site = body_site(SIM_OP_SLEEP, file, line);
    sim__drain(me);
    if (__builtin_add_overflow(engine.now, ns, &deadline))
        deadline = SPN_FOREVER;
    block(me, IN_SLEEP, deadline);
}

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
    engine.now = START_NS;
    engine.buffered = 0;
    engine.fences = -1;
    engine.faults = 0;
    engine.kind = SIM_OK;
    engine.message[0] = '\0';
    idle_rounds = 0;
    self_outside = NULL;
    random_outside = 0;
    sim__trace_begin();
    sim__heap_begin();
    sim__strategy_begin();
    sim__memory_begin();
    sim_globals_reset();

    struct thread *body = spawn(NULL, run_body, (void *)(uintptr_t)engine.scenario);

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
