/* SPDX-License-Identifier: MIT */
/*
 * threads.c - the lives of simulated threads, as the seam and the body see them.
 *
 * A thread starts READY, runs its entry, then the destructor of its self pointer
 * (as a pthread key: again while that sets it anew), empties its store buffer and
 * is ENDED; whoever joins it then learns all it did.  A thread that the code
 * under test started must be joined or detached once; the body's own are joined
 * by sim_join or sim_join_all.
 */
#include "engine.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Rounds of destructors at the end of a thread, as PTHREAD_DESTRUCTOR_ITERATIONS. */
#define DESTRUCTOR_ROUNDS 4

static void (*self_destructor)(void *);
static void *self_outside; /* of code that runs outside of every thread */

static struct sim_site start_site = { .file = "(start)",
                                      .text = "",
                                      .op = SIM_OP_START };
static struct sim_site exit_site = { .file = "(exit)", .text = "", .op = SIM_OP_EXIT };

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

    run_destructors(me);
    if (me->buffer_count != 0) /* others may run before the stores are seen */
        sim__point(&exit_site, NULL);
    sim__drain(me);
    me->site = &exit_site;
    sim__event(me, &exit_site, SIM_OP_EXIT, NULL);
    fiber_release(me);
    fiber_release(&engine);
    me->state = ENDED;
    engine.ready &= ~sim__bit(me);
    engine.alive--;
    sim__progress();
    for (int i = 0; i < engine.thread_count; i++) {
        struct thread *t = &engine.threads[i];
        if (t->state == IN_JOIN && join_is_over(t))
            sim__make_ready(t);
    }
    sim__leave(me);
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
struct thread *sim__spawn(void *(*entry)(void *), void (*entry_void)(void *), void *arg)
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
    t->pauses = t->sleeps = 0;
    engine.alive++;
    sim__make_ready(t);
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
    t = sim__spawn(entry, NULL, arg);
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
        sim__block(me, IN_JOIN, SPN_FOREVER);
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

int spn__os_set_sched(uint32_t sched, int32_t nice)
{
    (void)sched;
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
    t = sim__spawn(NULL, fn, arg);
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
    sim__block(me, IN_SETTLE, SPN_FOREVER);
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
    sim__block(me, IN_SLEEP, deadline);
}

void sim__threads_begin(void)
{
    self_outside = NULL;
}
