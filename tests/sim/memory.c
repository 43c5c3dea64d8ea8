/* SPDX-License-Identifier: MIT */
/*
 * memory.c - atomics under sequential consistency and under store buffers; the
 * C11 model is in views.c, and this file is the way to it.
 *
 * SC    An access is an access.
 * TSO   A store waits in the thread's buffer, first in first out; the thread
 *       itself reads its own buffer first.  A seq_cst store, a read-modify-write
 *       and a seq_cst fence let the whole buffer reach memory before going on.
 * PSO   The same, but only stores to one location keep their order.  A release
 *       store reaches memory after all that were buffered before it.
 *
 * When a buffered store reaches memory is a choice made between two steps
 * (sim__maybe_flush).  Whatever enters the kernel (futex, thread creation, join,
 * exit) and freeing memory drains the buffer first, and so does a pause in a
 * spin loop: real buffers drain in the time that stands for.
 *
 * Memory always holds the newest value, under every model, so code that runs
 * outside of schedules, the futex and a debugger can read it plainly.
 */
#include "engine.h"

#include <string.h>

uint64_t sim__peek(const volatile void *at, size_t size)
{
    switch (size) {
    case 1:
        return __atomic_load_n((const volatile uint8_t *)at, __ATOMIC_RELAXED);
    case 2:
        return __atomic_load_n((const volatile uint16_t *)at, __ATOMIC_RELAXED);
    case 4:
        return __atomic_load_n((const volatile uint32_t *)at, __ATOMIC_RELAXED);
    default:
        return __atomic_load_n((const volatile uint64_t *)at, __ATOMIC_RELAXED);
    }
}

void sim__poke(volatile void *at, size_t size, uint64_t value)
{
    switch (size) {
    case 1:
        __atomic_store_n((volatile uint8_t *)at, (uint8_t)value, __ATOMIC_RELAXED);
        break;
    case 2:
        __atomic_store_n((volatile uint16_t *)at, (uint16_t)value, __ATOMIC_RELAXED);
        break;
    case 4:
        __atomic_store_n((volatile uint32_t *)at, (uint32_t)value, __ATOMIC_RELAXED);
        break;
    default:
        __atomic_store_n((volatile uint64_t *)at, value, __ATOMIC_RELAXED);
        break;
    }
}

/* What a read-modify-write leaves behind. */
uint64_t sim__apply(const struct sim_site *site, uint64_t old, uint64_t operand,
                    size_t size)
{
    const uint64_t mask = UINT64_MAX >> (64 - 8 * size);

    switch (site->op) {
    case SIM_OP_ADD:
        return (old + operand) & mask;
    case SIM_OP_SUB:
        return (old - operand) & mask;
    case SIM_OP_OR:
        return old | operand;
    case SIM_OP_AND:
        return old & operand;
    default:
        return operand;
    }
}

/* ---- store buffers ---------------------------------------------------------- */

static void commit(struct thread *t, unsigned index)
{
    const struct buffered store = t->buffer[index];

    t->buffer_count--;
    engine.buffered--;
    memmove(&t->buffer[index], &t->buffer[index + 1],
            (t->buffer_count - index) * sizeof store);
    sim__poke(store.at, store.size, store.value);
}

void sim__drain(struct thread *t)
{
    while (t->buffer_count != 0)
        commit(t, 0);
}

static bool may_commit(const struct thread *t, unsigned index)
{
    if (index == 0)
        return true;
    if (engine.config.model == SIM_TSO || t->buffer[index].release)
        return false;
    for (unsigned i = 0; i < index; i++)
        if (t->buffer[i].at == t->buffer[index].at)
            return false;
    return true;
}

bool sim__maybe_flush(void)
{
    struct {
        struct thread *thread;
        unsigned index;
    } candidates[MAX_THREADS * BUFFER_MAX];
    unsigned count = 0, taken;

    for (int i = 0; i < engine.thread_count; i++) {
        struct thread *t = &engine.threads[i];
        for (unsigned k = 0; k < t->buffer_count; k++) {
            if (may_commit(t, k)) {
                candidates[count].thread = t;
                candidates[count++].index = k;
            }
        }
    }
    taken = sim__choose(CHOOSE_FLUSH, count + 1);
    if (taken == 0)
        return false;
    struct thread *t = candidates[taken - 1].thread;
    const struct buffered *store = &t->buffer[candidates[taken - 1].index];
    sim__event(t, store->site, SIM_OP_FLUSH, store->at);
    sim__event_value(store->value);
    commit(t, candidates[taken - 1].index);
    return true;
}

static void buffer_store(struct thread *t, struct sim_site *site, volatile void *at,
                         size_t size, uint64_t value)
{
    if (t->buffer_count == BUFFER_MAX)
        commit(t, 0);
    t->buffer[t->buffer_count++] =
        (struct buffered){ .at = at,
                           .site = site,
                           .value = value,
                           .size = (uint8_t)size,
                           .release = sim__releases(site->order_now) };
    engine.buffered++;
}

/* A thread sees its own newest store. */
static uint64_t load_buffered(const struct thread *t, const volatile void *at,
                              size_t size)
{
    for (unsigned i = t->buffer_count; i-- > 0;)
        if (t->buffer[i].at == at)
            return t->buffer[i].value;
    return sim__peek(at, size);
}

/* ---- what the seam calls ------------------------------------------------------ */

static bool c11(void)
{
    return engine.config.model == SIM_C11;
}

void sim__init(volatile void *at, size_t size, uint64_t value)
{
    struct thread *me = engine.current;

    if (me != NULL && c11())
        views_init(me, at, size, value);
    else
        sim__poke(at, size, value);
}

uint64_t sim__load(struct sim_site *site, const volatile void *at, size_t size)
{
    struct thread *me = engine.current;
    uint64_t value;

    sim__point(site, at);
    if (me == NULL)
        return sim__peek(at, size);
    value =
        c11() ? views_load(me, at, size, site->order_now) : load_buffered(me, at, size);
    sim__event_value(value);
    return value;
}

void sim__store(struct sim_site *site, volatile void *at, size_t size, uint64_t value)
{
    struct thread *me = engine.current;

    sim__point(site, at);
    if (me == NULL) {
        sim__poke(at, size, value);
        return;
    }
    sim__event_value(value);
    if (c11()) {
        views_store(me, at, size, value, site->order_now);
    } else if (engine.config.model == SIM_SC ||
               site->order_now == memory_order_seq_cst) {
        sim__drain(me);
        sim__poke(at, size, value);
    } else {
        buffer_store(me, site, at, size, value);
    }
}

uint64_t sim__rmw(struct sim_site *site, volatile void *at, size_t size,
                  uint64_t operand)
{
    struct thread *me = engine.current;
    uint64_t old;

    sim__point(site, at);
    if (me != NULL && c11()) {
        old = views_rmw(me, site, at, size, operand);
    } else {
        if (me != NULL)
            sim__drain(me);
        old = sim__peek(at, size);
        sim__poke(at, size, sim__apply(site, old, operand, size));
    }
    sim__event_value(old);
    return old;
}

bool sim__cas_fails(const struct sim_site *site)
{
    return site->op == SIM_OP_CAS_WEAK && sim__choose(CHOOSE_WEAK, 2) == 1;
}

static bool cas_in_memory(struct sim_site *site, volatile void *at, size_t size,
                          uint64_t *expected, uint64_t desired)
{
    const uint64_t old = sim__peek(at, size);

    if (old != *expected) {
        *expected = old;
        return false;
    }
    if (sim__cas_fails(site))
        return false;
    sim__poke(at, size, desired);
    return true;
}

bool sim__cas(struct sim_site *site, volatile void *at, size_t size, void *expected,
              uint64_t desired)
{
    struct thread *me = engine.current;
    uint64_t wanted = 0;
    bool done;

    sim__point(site, at);
    memcpy(&wanted, expected, size);
    if (me != NULL && c11()) {
        done = views_cas(me, site, at, size, &wanted, desired);
    } else {
        if (me != NULL)
            sim__drain(me);
        done = cas_in_memory(site, at, size, &wanted, desired);
    }
    sim__event_value(done ? desired : wanted);
    if (!done)
        memcpy(expected, &wanted, size);
    return done;
}

void sim__fence(struct sim_site *site)
{
    struct thread *me = engine.current;

    sim__point(site, NULL);
    if (me == NULL || site->dropped)
        return;
    if (site->op == SIM_OP_LIGHT && sim__asymmetric())
        return;
    if (site->op == SIM_OP_HEAVY && sim__asymmetric()) {
        for (int i = 0; i < engine.thread_count; i++)
            sim__drain(&engine.threads[i]);
        if (c11())
            views_fence_everywhere(me);
        return;
    }
    sim__drain(me);
    if (c11())
        views_fence(me);
}

uint32_t sim__memory_newest(struct thread *t, spn__futex_word *word)
{
    if (c11())
        return (uint32_t)views_newest(t, &word->spn__raw, sizeof word->spn__raw);
    return (uint32_t)sim__peek(&word->spn__raw, sizeof word->spn__raw);
}

void sim__memory_begin(void)
{
    if (c11())
        views_begin();
}

void sim__memory_thread(struct thread *child, const struct thread *parent)
{
    if (c11())
        views_thread(child, parent);
}

void sim__memory_join(struct thread *t, const struct thread *ended)
{
    if (c11())
        views_join(t, ended);
}

void sim__memory_pause(struct thread *t)
{
    sim__drain(t);
    if (c11())
        views_pause(t);
}

/* Memory changes hands: what the models know of it is void.  A store that was
 * still on its way to it would hit what is not its own. */
void sim__memory_gone(volatile void *at, size_t size)
{
    const uintptr_t begin = (uintptr_t)at, end = begin + size;

    for (int i = 0; engine.buffered != 0 && i < engine.thread_count; i++) {
        const struct thread *t = &engine.threads[i];
        for (unsigned k = 0; k < t->buffer_count; k++) {
            const uintptr_t store = (uintptr_t)t->buffer[k].at;
            if (store >= begin && store < end)
                sim__stop(SIM_ASSERTION,
                          "memory was freed before T%d's store of %s:%d reached it", i,
                          t->buffer[k].site->file, t->buffer[k].site->line);
        }
    }
    if (c11())
        views_gone(at, size);
}

void sim__memory_freed(const struct sim_site *site, void *memory, size_t size)
{
    if (engine.current != NULL && c11())
        views_freed(engine.current, site, memory, size);
    sim__memory_gone(memory, size);
}
