/* SPDX-License-Identifier: MIT */
/*
 * views.c - the C11 memory model, as a machine of views.
 *
 * OVERVIEW
 *   RC11 without load buffering: program order and reads-from together have no
 *   cycle, so operations can be done one after the other, each when its thread
 *   reaches it.  What is left of weak memory is that a load may read an old
 *   store, and that a store may come late in time and early in modification
 *   order.
 *
 *   A location has its stores in modification order.  Each has a timestamp that
 *   grows along that order, with gaps so that a store can be put in between.  A
 *   view maps locations to timestamps: "knows all up to this one".  A thread has
 *     now      what it must see: it reads and writes nowhere before this
 *     pending  what it would know had its relaxed loads been acquire ones; a
 *              fence makes it so
 *     fenced   what it knew at its last fence; its relaxed stores publish that
 *   and a store carries the view its reader acquires: `now` for a release store,
 *   `fenced` for a relaxed one, each with the store itself.
 *
 *   A read-modify-write reads a store and is placed directly after it, and
 *   nothing ever comes between (`followed`); it adds what that store carried to
 *   its own, which is how it, and it alone (C++20), continues a release sequence.
 *
 *   A seq_cst fence exchanges `now` with one global view, both ways.  A seq_cst
 *   access is a seq_cst fence and then the access, and a store is added to the
 *   global view at once.  Programs that mix seq_cst with weaker accesses of the
 *   same locations get slightly less freedom than RC11 gives them.
 *
 * LIFETIME
 *   Views also have one entry per thread, a count of its accesses: whoever has
 *   it knows of them through happens-before.  Memory that is freed must be known
 *   to the freeing thread in all accesses to its atomics.  This is how a missing
 *   order in a reference count shows.
 *
 * COHERENCE  follows from `now`: it contains every store of the location that
 *   the thread read, wrote or learnt of through happens-before.
 *
 * FORGETTING
 *   A location keeps its last HISTORY stores.  Forgetting an old one takes a
 *   behaviour away and adds none.  When memory does not hold what the newest
 *   store left there, a plain write gave it a new life: its history begins anew,
 *   with greater timestamps, so that old views say nothing about it.
 *
 * EVENTUALLY
 *   A thread that spins or sleeps has seen, when it goes on, every store made
 *   before it began to (`pause`).  It learns nothing else from them.  Otherwise a
 *   spin loop could read an old value for ever.
 */
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HISTORY   8
#define LOCATIONS 2048
#define SLOTS     4096 /* of the hash table: twice the locations */
/* Twenty stores fit into one gap, one half of what is left each time. */
#define STAMP_GAP (UINT32_C(1) << 20)
/* A schedule long enough to run out of stamps starts its location anew. */
#define STAMP_MAX (UINT32_MAX - 4 * STAMP_GAP)
/* What a location holds before its initialisation. */
#define POISON UINT64_C(0xa5a5a5a5a5a5a5a5)

typedef uint32_t stamp;

struct store {
    uint64_t value;
    uint64_t serial; /* order in time; for `pause` */
    uint64_t name;   /* no other store of this process has it */
    stamp at;
    bool followed;  /* by a read-modify-write: nothing may come between */
    uint32_t known; /* entries of view; the rest is 0 */
    uint32_t capacity;
    stamp *view; /* owned by the slot, used again by later schedules */
};

struct location {
    const volatile void *address;
    size_t size;
    bool void_; /* freed or allocated since: begin anew */
    unsigned count;
    stamp accessed[MAX_THREADS];   /* by each thread last, by its own count */
    struct store *stores[HISTORY]; /* in modification order */
    struct store slots[HISTORY];
};

/* The first MAX_THREADS entries of a view are the threads', then come the
 * locations'. */
#define VIEW (MAX_THREADS + LOCATIONS)

struct views {
    stamp now[VIEW], pending[VIEW], fenced[VIEW];
    /* The store of each location whose view was added last.  Views only grow, and what a
     * store carries does not change: it need not be added twice. */
    uint64_t in_now[LOCATIONS], in_pending[LOCATIONS];
    uint64_t pause;
};

static struct location locations[LOCATIONS];
static uint32_t location_count;
static struct views threads[MAX_THREADS];
static stamp global[VIEW];
static uint64_t serial, names;

/* Address to location, by open addressing; a slot counts if its generation is
 * the present one. */
static struct {
    uint64_t generation;
    uint32_t location;
} table[SLOTS];
static uint64_t generation;

static uint32_t view_size(void)
{
    return MAX_THREADS + location_count;
}

/* Half of the explorer's time under this model is spent here, so the compiler is to take
 * several entries at a time: it needs to know that the views are two, and no sanitizer that
 * looks at each entry.  Who calls it has looked at the count. */
__attribute__((noinline, no_sanitize("address", "undefined"))) static void
join(stamp *restrict to, const stamp *restrict from, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        to[i] = to[i] < from[i] ? from[i] : to[i];
}

/* ---- locations ---------------------------------------------------------------- */

static void begin_anew(struct location *l, uint64_t value)
{
    const stamp last = l->count != 0 ? l->stores[l->count - 1]->at : 0;
    struct store *first = l->stores[0];

    l->count = 1;
    l->void_ = false;
    if (last > STAMP_MAX)
        sim__stop(SIM_LIVELOCK, "too many stores to one location");
    memset(l->accessed, 0, sizeof l->accessed);
    first->value = value;
    first->serial = 0;
    first->at = last + STAMP_GAP;
    first->followed = false;
    first->known = 0;
}

static struct location *add_location(const volatile void *at, size_t size,
                                     uint64_t value)
{
    struct location *l = &locations[location_count];

    if (location_count == LOCATIONS)
        sim__stop(SIM_ASSERTION, "more than %d atomics in one schedule", LOCATIONS);
    const uint32_t here = view_size();

    for (int i = 0; i < engine.thread_count; i++)
        threads[i].now[here] = threads[i].pending[here] = threads[i].fenced[here] = 0;
    global[here] = 0;
    location_count++;
    l->address = at;
    l->size = size;
    l->count = 0;
    for (unsigned i = 0; i < HISTORY; i++)
        l->stores[i] = &l->slots[i];
    begin_anew(l, value);
    return l;
}

/* The location, or NULL and the slot where it belongs. */
static struct location *find(const volatile void *at, uint32_t *slot)
{
    uint32_t i = (uint32_t)(((uintptr_t)at * 0x9e3779b97f4a7c15u) >> 52) % SLOTS;

    while (table[i].generation == generation) {
        if (locations[table[i].location].address == at)
            return &locations[table[i].location];
        i = (i + 1) % SLOTS;
    }
    *slot = i;
    return NULL;
}

static struct location *enter(const volatile void *at, size_t size, uint64_t value)
{
    uint32_t slot = 0;
    struct location *l = find(at, &slot);

    if (l != NULL)
        return l;
    table[slot].generation = generation;
    table[slot].location = location_count;
    return add_location(at, size, value);
}

static struct location *locate(const volatile void *at, size_t size)
{
    const uint64_t value = sim__peek(at, size);
    struct location *l = enter(at, size, value);

    if (l->void_ || l->size != size || l->stores[l->count - 1]->value != value) {
        l->size = size;
        begin_anew(l, value);
    }
    return l;
}

static uint32_t index_of(const struct location *l)
{
    return MAX_THREADS + (uint32_t)(l - locations);
}

static void note_access(const struct thread *t, struct location *l)
{
    l->accessed[t->id] = ++threads[t->id].now[t->id];
}

/* ---- reading -------------------------------------------------------------------- */

/* The oldest store that a thread may read, given the least timestamp. */
static unsigned oldest_visible(const struct views *v, const struct location *l,
                               stamp least)
{
    for (unsigned i = l->count - 1; i > 0; i--)
        if (l->stores[i]->at <= least || l->stores[i]->serial <= v->pause)
            return i;
    return 0;
}

static void learn(struct views *v, struct location *l, const struct store *s,
                  unsigned order)
{
    const uint32_t here = index_of(l), which = here - MAX_THREADS;

    if (v->now[here] < s->at)
        v->now[here] = s->at;
    if (s->known == 0 || v->in_now[which] == s->name)
        return; /* `pending` is only ever added to `now` */
    if (sim__acquires(order)) {
        v->in_now[which] = s->name;
        join(v->now, s->view, s->known);
    } else if (v->in_pending[which] != s->name) {
        v->in_pending[which] = s->name;
        join(v->pending, s->view, s->known);
    }
}

/* ---- writing -------------------------------------------------------------------- */

static void carry(struct store *s, const stamp *view, uint32_t count)
{
    if (s->capacity < count) {
        s->capacity = count + 16;
        s->view = realloc(s->view, s->capacity * sizeof *s->view);
        if (s->view == NULL) {
            perror("sim: no memory for a view");
            abort();
        }
    }
    s->known = count;
    memcpy(s->view, view, count * sizeof *view);
}

/* Opens a place after stores[after]; forgets the oldest when there is none. */
static struct store *open_place(struct location *l, unsigned after)
{
    struct store *s;
    unsigned position = after + 1;

    if (l->count == HISTORY) {
        s = l->stores[0];
        memmove(&l->stores[0], &l->stores[1], (HISTORY - 1) * sizeof s);
        l->count--;
        position--;
    } else {
        s = l->stores[l->count];
    }
    memmove(&l->stores[position + 1], &l->stores[position],
            (l->count - position) * sizeof s);
    l->stores[position] = s;
    l->count++;
    s->at = position + 1 == l->count
                ? l->stores[position - 1]->at + STAMP_GAP
                : l->stores[position - 1]->at +
                      (l->stores[position + 1]->at - l->stores[position - 1]->at) / 2;
    return s;
}

static bool has_room(const struct location *l, unsigned after)
{
    if (after + 1 == l->count)
        return true;
    /* With a full history the oldest goes, and it must not be our neighbour. */
    return !l->stores[after]->followed &&
           l->stores[after + 1]->at - l->stores[after]->at >= 2 &&
           !(l->count == HISTORY && after == 0);
}

/* Puts a value after stores[after].  `continued` is that store when a
 * read-modify-write has read it, else NULL; has_room keeps it from being the one
 * that is forgotten. */
static void put(struct thread *t, struct location *l, unsigned after, uint64_t value,
                unsigned order, struct store *continued)
{
    struct views *v = &threads[t->id];
    const uint32_t here = index_of(l);
    const bool newest = after + 1 == l->count;
    struct store *s;

    if (l->stores[l->count - 1]->at > STAMP_MAX)
        sim__stop(SIM_LIVELOCK, "too many stores to one location");
    s = open_place(l, after);
    s->value = value;
    s->serial = ++serial;
    s->name = ++names;
    s->followed = false;
    v->now[here] = s->at;
    carry(s, sim__releases(order) ? v->now : v->fenced, view_size());
    if (continued != NULL) {
        continued->followed = true;
        if (!sim__releases(order) || !sim__acquires(order)) /* else `now` has it */
            join(s->view, continued->view, continued->known);
    }
    s->view[here] = s->at;
    if (newest)
        sim__poke((volatile void *)(uintptr_t)l->address, l->size, value);
    if (order == memory_order_seq_cst && global[here] < s->at)
        global[here] = s->at;
}

/* ---- the operations ---------------------------------------------------------------- */

void views_fence(struct thread *t)
{
    struct views *v = &threads[t->id];

    join(v->now, v->pending, view_size());
    join(v->now, global, view_size());
    memcpy(global, v->now, view_size() * sizeof *global);
    memcpy(v->fenced, v->now, view_size() * sizeof *global);
}

/* membarrier: each thread passes a fence somewhere between two of its
 * instructions, while the caller is in the call.  Threads that have ended passed
 * one when the kernel took their CPU away. */
void views_fence_everywhere(struct thread *t)
{
    views_fence(t);
    for (int i = 0; i < engine.thread_count; i++)
        views_fence(&engine.threads[i]);
    views_fence(t);
}

uint64_t views_load(struct thread *t, const volatile void *at, size_t size,
                    unsigned order)
{
    struct views *v = &threads[t->id];
    struct location *l = locate(at, size);
    unsigned oldest, taken;

    note_access(t, l);
    if (order == memory_order_seq_cst)
        views_fence(t);
    oldest = oldest_visible(v, l, v->now[index_of(l)]);
    taken = l->count - 1 - sim__choose(CHOOSE_READ, l->count - oldest);
    learn(v, l, l->stores[taken], order);
    return l->stores[taken]->value;
}

/* The kernel compares with what is newest; the thread has then seen it. */
uint64_t views_newest(struct thread *t, const volatile void *at, size_t size)
{
    struct location *l = locate(at, size);
    const struct store *s = l->stores[l->count - 1];

    learn(&threads[t->id], l, s, memory_order_relaxed);
    return s->value;
}

void views_store(struct thread *t, volatile void *at, size_t size, uint64_t value,
                 unsigned order)
{
    struct views *v = &threads[t->id];
    struct location *l = locate(at, size);
    unsigned places[HISTORY], count = 0;

    note_access(t, l);
    if (order == memory_order_seq_cst)
        views_fence(t);
    const unsigned oldest = oldest_visible(v, l, v->now[index_of(l)]);
    for (unsigned i = l->count; i-- > oldest;)
        if (has_room(l, i))
            places[count++] = i;
    put(t, l, places[sim__choose(CHOOSE_PLACE, count)], value, order, NULL);
}

/* The least timestamp an access may read; a seq_cst one will pass a fence. */
static stamp least(const struct views *v, uint32_t here, unsigned order)
{
    stamp at = v->now[here];

    if (order != memory_order_seq_cst)
        return at;
    if (at < v->pending[here])
        at = v->pending[here];
    return at < global[here] ? global[here] : at;
}

/* Reads stores[taken] and puts a value directly after it. */
static void read_and_put(struct thread *t, struct location *l, unsigned taken,
                         uint64_t value, unsigned order)
{
    struct store *read = l->stores[taken];

    if (order == memory_order_seq_cst)
        views_fence(t);
    learn(&threads[t->id], l, read, order);
    put(t, l, taken, value, order, read);
}

uint64_t views_rmw(struct thread *t, const struct sim_site *site, volatile void *at,
                   size_t size, uint64_t operand)
{
    const struct views *v = &threads[t->id];
    struct location *l = locate(at, size);
    const unsigned order = site->order_now;
    const unsigned oldest = oldest_visible(v, l, least(v, index_of(l), order));
    unsigned readable[HISTORY], count = 0, taken;
    uint64_t old;

    note_access(t, l);
    for (unsigned i = l->count; i-- > oldest;)
        if (has_room(l, i))
            readable[count++] = i;
    taken = readable[sim__choose(CHOOSE_READ, count)];
    old = l->stores[taken]->value;
    read_and_put(t, l, taken, sim__apply(site, old, operand, size), order);
    return old;
}

/*
 * A CAS that finds the expected value succeeds and needs a place after that
 * store; one that finds another value is a load.  A store with the expected
 * value that is followed already can be neither.
 */
bool views_cas(struct thread *t, const struct sim_site *site, volatile void *at,
               size_t size, uint64_t *expected, uint64_t desired)
{
    struct views *v = &threads[t->id];
    struct location *l = locate(at, size);
    const uint32_t here = index_of(l);
    const unsigned for_success = oldest_visible(v, l, least(v, here, site->order_now));
    const unsigned for_failure =
        oldest_visible(v, l, least(v, here, site->failure_now));
    unsigned readable[HISTORY], count = 0, taken;

    note_access(t, l);
    for (unsigned i = l->count; i-- > 0;) {
        const bool equal = l->stores[i]->value == *expected;
        if (equal ? i >= for_success && has_room(l, i) : i >= for_failure)
            readable[count++] = i;
    }
    taken = readable[sim__choose(CHOOSE_READ, count)];
    if (l->stores[taken]->value == *expected && !sim__cas_fails(site)) {
        read_and_put(t, l, taken, desired, site->order_now);
        return true;
    }
    if (site->failure_now == memory_order_seq_cst)
        views_fence(t);
    learn(v, l, l->stores[taken], site->failure_now);
    *expected = l->stores[taken]->value;
    return false;
}

/*
 * A new life, known to this thread.  To a thread it was not published to, the
 * location still holds what it held before: a use without happens-before shows.
 */
void views_init(struct thread *t, volatile void *at, size_t size, uint64_t value)
{
    const uint64_t mask = UINT64_MAX >> (64 - 8 * size);
    struct location *l = enter(at, size, POISON & mask);

    l->size = size;
    begin_anew(l, l->void_ ? POISON & mask : l->stores[l->count - 1]->value);
    put(t, l, 0, value, memory_order_relaxed, NULL);
}

/* ---- lives of schedules, threads and memory ------------------------------------ */

void views_begin(void)
{
    generation++;
    location_count = 0;
    serial = 0;
    memset(global, 0, MAX_THREADS * sizeof *global);
}

void views_thread(struct thread *child, const struct thread *parent)
{
    struct views *v = &threads[child->id];
    const size_t bytes = view_size() * sizeof *v->now;

    memset(v->pending, 0, bytes);
    memset(v->fenced, 0, bytes);
    v->pause = 0;
    if (parent != NULL)
        memcpy(v->now, threads[parent->id].now, bytes);
    else
        memset(v->now, 0, bytes);
}

void views_join(struct thread *t, const struct thread *ended)
{
    join(threads[t->id].now, threads[ended->id].now, view_size());
}

void views_pause(struct thread *t)
{
    threads[t->id].pause = serial;
}

void views_gone(volatile void *at, size_t size)
{
    const uintptr_t begin = (uintptr_t)at, end = begin + size;

    for (uint32_t i = 0; i < location_count; i++) {
        const uintptr_t address = (uintptr_t)locations[i].address;
        if (address >= begin && address < end)
            locations[i].void_ = true;
    }
}

void views_freed(struct thread *t, const struct sim_site *site, void *memory,
                 size_t size)
{
    const uintptr_t begin = (uintptr_t)memory, end = begin + size;
    const stamp *now = threads[t->id].now;

    for (uint32_t i = 0; i < location_count; i++) {
        const struct location *l = &locations[i];
        const uintptr_t address = (uintptr_t)l->address;

        if (address < begin || address >= end || l->void_)
            continue;
        for (int k = 0; k < engine.thread_count; k++)
            if (l->accessed[k] > now[k])
                sim__stop(
                    SIM_ASSERTION,
                    "%s:%d: freed, though nothing orders T%d's last access to the "
                    "word at offset %zu before it",
                    site->file, site->line, k, (size_t)(address - begin));
    }
}
