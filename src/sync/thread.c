/* SPDX-License-Identifier: MIT */
/*
 * thread.c - threads: create, join, handles, names, signals, interrupt.
 *
 * LIFE of a created thread
 *   create -> (class asked for: granted or refused) -> on_start -> fn -> on_stop
 *          -> ended, joiners released -> record left -> the system's thread ends
 *
 *   What follows fn is a cleanup handler, so that pthread_exit in fn passes
 *   through it too.
 *
 * JOIN
 *   Joiners wait for `ended` like any other waiter: timed and interruptible.
 *   Then one of them waits for the system's thread, which may still run the
 *   program's thread-specific destructors, while the others wait on; so every
 *   join returns after the thread is really gone.  If the one gives up, another
 *   goes on.  The last handle dropped without a join detaches it.
 *
 * LOCKS  a record's `lock` is a leaf, but for the moment of creation.
 *
 * SIGNALS
 *   New threads have every signal blocked unless told otherwise: handlers run
 *   on the program's own threads.  A program started from such a thread would
 *   inherit the mask, so the child of a fork gets back the one the thread's
 *   creator had.  A thread made with `signal` lets that one through from before its
 *   hooks: by it others ask where the thread is (seam_stacks.c).  So does every thread
 *   with the signals of the reports that exist when it starts.
 *
 * ORDERING
 *   [life]    see thread_record.c.
 */
#include <spindle/park.h>
#include <spindle/thread.h>

#include <string.h>

#include "base/assert.h"
#include "base/options.h"
#include "base/time.h"
#include "sync/interrupt.h"
#include "sync/thread_record.h"

_Static_assert(sizeof(spn_thread_opts) ==
                   3 * sizeof(size_t) + 5 * sizeof(void *) + 4 * sizeof(uint32_t),
               "append only, no holes");

/* ---- the new thread ---------------------------------------------------- */

/* `started`: 0 while undecided, else 1 - status. */
static uint32_t encode_started(int status)
{
    return (uint32_t)(1 - status);
}

static int decode_started(uint32_t started)
{
    return 1 - (int)started;
}

/* The kernel's 15 bytes: of a longer "prefix-17" the number is kept, because
 * threads are told apart by it; a cut never leaves half a UTF-8 character. */
static void kernel_name(char out[16], const char *name)
{
    const size_t length = strlen(name);
    size_t suffix = length, prefix;

    if (length <= 15) {
        memcpy(out, name, length + 1);
        return;
    }
    while (suffix > 0 && name[suffix - 1] >= '0' && name[suffix - 1] <= '9')
        suffix--;
    if (suffix == length || suffix == 0 || name[suffix - 1] != '-' ||
        length - suffix > 10)
        suffix = length; /* no "-number" worth keeping */
    else
        suffix--;
    prefix = 15 - (length - suffix);
    while (prefix > 0 && ((unsigned char)name[prefix] & 0xc0) == 0x80)
        prefix--;
    memcpy(out, name, prefix);
    memcpy(out + prefix, name + suffix, length - suffix + 1);
}

static void call_fn(void *p)
{
    struct spn_thread *self = p;

    if (self->on_start != NULL)
        self->on_start(self->hook_arg);
    self->result = self->fn(self->arg);
}

static void call_stop(void *p)
{
    struct spn_thread *self = p;

    self->on_stop(self->hook_arg);
}

static void finish(void *p)
{
    struct spn_thread *self = p;
    struct spn__chosen chosen = { NULL, NULL };

    if (self->on_stop != NULL)
        spn__guarded(call_stop, self);

    spn__lock(&self->lock);
    self->ended = true;
    spn__waitq_choose_all(&self->joiners, &chosen);
    spn__unlock(&self->lock);
    spn__chosen_grant(&chosen);

    /* A thread-specific destructor of the program that calls the library after
     * this attaches the thread as a foreign one. */
    (void)spn__self_set(NULL, NULL);
    spn__os_thread_gone(&self->note);
    spn__thread_record_leave(self);
}

static void *run(void *p)
{
    struct spn_thread *self = p;
    char name[16];

    spn__os_cancel_disable();
    if (self->set_sched) {
        const int status = spn__os_set_sched(self->sched, self->priority);

        /* relaxed: an answer and nothing else; a refused thread is joined. */
        spn__store(&self->started, encode_started(status), relaxed);
        spn__futex_wake(&self->started, 1);
        if (status != SPN_OK)
            return NULL;
    }
    (void)spn__self_set(self, NULL);
    spn__os_thread_here(&self->note, self->signal);
    kernel_name(name, self->name);
    spn__os_set_name(name);

    SPN__CLEANUP_PUSH(finish, self);
    self->result = SPN_ECANCELED; /* what stays if fn leaves by pthread_exit */
    spn__guarded(call_fn, self);
    SPN__CLEANUP_POP();
    return NULL;
}

/* ---- create ------------------------------------------------------------ */

static bool valid_sched(const spn_thread_opts *o)
{
    switch (o->sched) {
    case SPN_SCHED_INHERIT:
    case SPN_SCHED_IDLE:
        return o->priority == 0;
    case SPN_SCHED_OTHER:
    case SPN_SCHED_BATCH:
        return o->priority >= -20 && o->priority <= 19;
    case SPN_SCHED_FIFO:
    case SPN_SCHED_RR:
        return o->priority >= 1 && o->priority <= 99;
    default:
        return false;
    }
}

static bool valid_opts(const spn_thread_opts *o)
{
    if (o->name != NULL &&
        strnlen(o->name, SPN_THREAD_NAME_MAX + 1) > SPN_THREAD_NAME_MAX)
        return false;
    if ((o->cpus == NULL) != (o->cpu_count == 0))
        return false;
    if (o->signal != 0 && !spn__os_is_realtime_signal(o->signal))
        return false;
    return valid_sched(o) && o->signals <= SPN_SIGNALS_INHERIT;
}

/* Waits for the answer of a thread that was asked to change its class. */
static int await_started(struct spn_thread *thread)
{
    uint32_t started;

    while ((started = spn__load(&thread->started, relaxed)) == 0) /* see run */
        (void)spn__futex_wait(&thread->started, 0, SPN_FOREVER);
    return decode_started(started);
}

static int start(struct spn_thread *thread, const spn_thread_opts *o)
{
    const struct spn__os_thread_attr attr = {
        .stack_size = o->stack_size,
        .cpus = o->cpus,
        .cpu_count = o->cpu_count,
        .sched = o->sched,
        .priority = o->priority,
        .block_signals = o->signals == SPN_SIGNALS_BLOCKED,
    };
    int rc;

    /* Not the creator's present mask, which the library may have blocked. */
    (void)spn_thread_exec_sigmask(&thread->exec_mask);
    spn__os_thread_coming(&thread->note, thread->arg);
    spn__lock(&thread->lock); /* `os` may be written after the thread runs */
    rc = spn__os_thread_create(&thread->os, &attr, run, thread);
    spn__unlock(&thread->lock);
    if (rc == SPN_OK && thread->set_sched) {
        rc = await_started(thread);
        if (rc != SPN_OK)
            spn__os_thread_join(thread->os);
    }
    return rc;
}

int spn_thread_create(spn_thread **out, const spn_thread_opts *opts, spn_thread_fn fn,
                      void *arg)
{
    spn_thread_opts o = SPN_THREAD_OPTS_INIT;
    struct spn_thread *thread;
    int rc;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (fn == NULL)
        return SPN_EINVAL;
    if (opts != NULL && spn__options_copy(&o, sizeof o, opts) != SPN_OK)
        return SPN_EINVAL;
    if (!valid_opts(&o))
        return SPN_EINVAL;
    thread = spn__thread_record_create(1);
    if (thread == NULL)
        return SPN_ENOMEM;
    thread->fn = fn;
    thread->arg = arg;
    thread->on_start = o.on_start;
    thread->on_stop = o.on_stop;
    thread->hook_arg = o.hook_arg;
    thread->set_sched = o.sched == SPN_SCHED_OTHER || o.sched == SPN_SCHED_BATCH ||
                        o.sched == SPN_SCHED_IDLE;
    thread->sched = o.sched;
    thread->priority = o.priority;
    thread->process = spn__os_process();
    thread->signal = o.signal;
    if (o.name == NULL)
        o.name = "spindle";
    memcpy(thread->name, o.name, strlen(o.name) + 1); /* valid_opts: it fits */

    rc = start(thread, &o);
    if (rc != SPN_OK) {
        spn__os_thread_gone(&thread->note);
        spn__thread_record_recycle(thread);
        return rc;
    }
    *out = thread;
    return SPN_OK;
}

/* ---- factories ----------------------------------------------------------- */

static int default_create(const spn_thread_factory *factory, spn_thread **out,
                          spn_thread_opts *opts, spn_thread_fn fn, void *arg)
{
    (void)factory;
    return spn_thread_create(out, opts, fn, arg);
}

const spn_thread_factory *spn_thread_factory_default(void)
{
    static const spn_thread_factory factory = { sizeof factory, default_create };

    return &factory;
}

int spn__thread_make(const spn_thread_factory *factory, spn_thread **out,
                     spn_thread_opts *opts, spn_thread_fn fn, void *arg)
{
    int rc;

    *out = NULL;
    rc = factory->create(factory, out, opts, fn, arg);
    if (rc == SPN_OK && *out != NULL)
        return SPN_OK;
    *out = NULL;
    return rc == SPN_ENOMEM ? SPN_ENOMEM : SPN_EAGAIN;
}

/* ---- join and handles -------------------------------------------------- */

/* Whether a joiner has to wait for somebody else; the lock is held. */
static bool must_wait(const struct spn_thread *thread)
{
    return !thread->ended || thread->reaping;
}

/*
 * Waits for the system's thread, unless that was done or cannot be; the lock is
 * held before and after, but not meanwhile.
 */
static int reap(struct spn_thread *thread, int64_t deadline_ns)
{
    struct spn__chosen chosen = { NULL, NULL };
    int rc;

    if (thread->reaped || thread->detached)
        return SPN_OK;
    thread->reaping = true;
    spn__unlock(&thread->lock);
    rc = spn__os_thread_join_until(thread->os, deadline_ns);
    spn__lock(&thread->lock);
    thread->reaping = false;
    thread->reaped = rc == SPN_OK;
    spn__waitq_choose_all(&thread->joiners, &chosen); /* it is done, or their turn */
    spn__unlock(&thread->lock);
    spn__chosen_grant(&chosen);
    spn__lock(&thread->lock);
    return rc;
}

int spn_thread_join(spn_thread *thread, int64_t timeout_ns, int *result)
{
    struct spn_thread *self;
    int64_t deadline_ns;
    int rc = SPN_OK;

    if (thread == NULL || thread->foreign)
        return SPN_EINVAL;
    self = spn__thread_self();
    if (self == NULL)
        return SPN_ENOMEM;
    if (self == thread)
        return SPN_EDEADLK;
    deadline_ns = spn__deadline(spn__now(), timeout_ns);

    spn__lock(&thread->lock);
    if (must_wait(thread) && thread->process != spn__os_process())
        rc = SPN_ESTATE;
    while (rc == SPN_OK && must_wait(thread)) {
        struct spn__waiter w;

        spn__waitq_add(&thread->joiners, &w, self);
        spn__unlock(&thread->lock);
        rc = spn__waitq_wait(&w, &thread->lock, deadline_ns);
        if (rc == SPN_OK)
            spn__lock(&thread->lock); /* the caller's handle keeps the record */
    }
    if (rc == SPN_OK)
        rc = reap(thread, deadline_ns);
    if (rc == SPN_OK && result != NULL)
        *result = thread->result;
    spn__unlock(&thread->lock);
    return rc;
}

spn_thread *spn_thread_current(void)
{
    return spn__thread_self();
}

spn_thread *spn_thread_ref(spn_thread *thread)
{
    if (thread != NULL)
        /* relaxed: the caller has a handle already, or is the thread. */
        (void)spn__fetch_add(&thread->life, SPN__LIFE_HANDLE, relaxed);
    return thread;
}

static void detach(struct spn_thread *thread)
{
    if (thread->process != spn__os_process())
        return; /* in the child of a fork: there is no such thread */
    spn__lock(&thread->lock);
    if (!thread->reaped && !thread->detached && !thread->foreign) {
        spn__os_thread_detach(thread->os);
        thread->detached = true;
    }
    spn__unlock(&thread->lock);
}

void spn_thread_unref(spn_thread *thread)
{
    uint64_t life;

    if (thread == NULL)
        return;
    /* relaxed: checked again by the exchange. */
    life = spn__load(&thread->life, relaxed);
    do {
        spn__assert(life >= SPN__LIFE_HANDLE); /* dropped more often than taken */
        /* The last handle: nobody can join any more.  Detach before the drop,
         * after which the record may be another thread's. */
        if (life < 2 * SPN__LIFE_HANDLE)
            detach(thread);
        /* [life] */
    } while (!spn__cas_weak(&thread->life, &life, life - SPN__LIFE_HANDLE, acq_rel,
                            relaxed));
    if (life == SPN__LIFE_HANDLE)
        spn__thread_record_recycle(thread);
}

int spn_thread_name(const spn_thread *thread, char *buf, size_t capacity)
{
    size_t length, copied;

    if (thread == NULL || buf == NULL || capacity == 0)
        return SPN_EINVAL;
    length = strlen(thread->name);
    copied = length < capacity ? length : capacity - 1;
    memcpy(buf, thread->name, copied);
    buf[copied] = '\0';
    return (int)length;
}

int spn_thread_exec_sigmask(sigset_t *mask)
{
    const struct spn_thread *self = spn__self_get();

    if (mask == NULL)
        return SPN_EINVAL;
    if (self != NULL && !self->foreign)
        *mask = self->exec_mask;
    else
        spn__os_get_sigmask(mask);
    return SPN_OK;
}

/* ---- interrupt --------------------------------------------------------- */

int spn_thread_interrupt(spn_thread *thread)
{
    if (thread == NULL)
        return SPN_EINVAL;
    /* relaxed: whoever knows that it has ended has been told by join. */
    if ((spn__load(&thread->life, relaxed) & SPN__LIFE_ALIVE) != 0)
        spn__interrupt_set(thread);
    return SPN_OK;
}

int spn_thread_interrupted(void)
{
    struct spn_thread *self = spn__self_get();

    /* A thread without a record was never interrupted. */
    return self != NULL && spn__interrupt_take(self);
}

int spn_thread_is_interrupted(const spn_thread *thread)
{
    if (thread == NULL)
        return SPN_EINVAL;
    return spn__interrupt_pending(thread);
}
