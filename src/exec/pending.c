/* SPDX-License-Identifier: MIT */
/*
 * pending.c - where a limiter keeps the tasks that have not started.
 *
 * OVERVIEW
 *   Each task has an entry.  The entries are numbered from 0 without a gap.  A task knows
 *   the number of its entry (link[0]), and the entry knows the task, so that a task is
 *   found without a search and a task that is elsewhere is not taken for one of ours.
 *   When a task leaves, the last entry moves to where its entry was.  So memory depends
 *   on how many tasks there are now, in whatever order they leave.
 *
 *   The queue is a doubly linked list of numbers through the entries.
 *
 * CHUNKS
 *   Entries lie in chunks, and no entry moves when a chunk is added.  The number of an
 *   entry plus 128 is a binary number: its highest bit and the next three tell the chunk,
 *   and the bits below tell the place in it.  So the first eight chunks have 16 entries,
 *   the next eight 32, and a chunk is at most an eighth of what is in use before it, once
 *   that is much more than 128.  With 24 bytes an entry, one chunk that is not full and
 *   one that is empty, a task takes 30 bytes at most then.
 *
 *   One empty chunk is kept.  A number of tasks that goes up and down by less than a
 *   chunk costs no allocation.
 *
 * WHY NOT a list through the tasks, which needs no memory?  Its links of a task that is
 *   elsewhere point anywhere, and remove must tell such a task from one of ours.
 */
#include "exec/pending.h"

#include "base/assert.h"
#include "sync/seam.h"

enum {
    FIRST_BITS = SPN__PENDING_FIRST_BITS,
    STEP_BITS = SPN__PENDING_STEP_BITS,
    STEPS = 1 << STEP_BITS
};

_Static_assert(sizeof(struct spn__pending_entry) <= 24,
               "a waiter takes 32 bytes at most");

/* Entries in a chunk. */
static uint32_t chunk_size(uint32_t chunk)
{
    return UINT32_C(1) << ((chunk >> STEP_BITS) + FIRST_BITS - STEP_BITS);
}

/* The number of its first entry. */
static uint64_t chunk_begin(uint32_t chunk)
{
    return (uint64_t)(STEPS + chunk % STEPS) * chunk_size(chunk) -
           (UINT64_C(1) << FIRST_BITS);
}

static struct spn__pending_entry *entry_at(const struct spn__pending *p,
                                           uint32_t number)
{
    const uint32_t n = number + (UINT32_C(1) << FIRST_BITS);
    const uint32_t shift = 31 - (uint32_t)__builtin_clz(n) - STEP_BITS;
    const uint32_t chunk =
        ((shift + STEP_BITS - FIRST_BITS) << STEP_BITS) + (n >> shift) % STEPS;

    spn__debug_assert(chunk < p->chunk_count);
    return &p->chunks[chunk][n & ((UINT32_C(1) << shift) - 1)];
}

static uint32_t number_of(const spn_task *task)
{
    return (uint32_t)(uintptr_t)task->link[0];
}

static void set_number(struct spn__pending_entry *entry, uint32_t number)
{
    entry->task->link[0] = (void *)(uintptr_t)number;
}

/* ---- chunks -------------------------------------------------------------------------- */

/* There is one more, or one less. */
static void set_chunk_count(struct spn__pending *p, uint32_t count)
{
    p->chunk_count = count;
    p->room = (uint32_t)chunk_begin(count);
    p->few = count >= 2 ? (uint32_t)chunk_begin(count - 2) : 0;
}

void spn__pending_init(struct spn__pending *p)
{
    p->used = 0;
    p->first = p->last = SPN__NO_ENTRY;
    set_chunk_count(p, 0);
}

void spn__pending_fini(struct spn__pending *p)
{
    while (p->chunk_count != 0)
        spn__free(p->chunks[--p->chunk_count]);
}

struct spn__pending_entry *spn__pending_chunk_get(uint32_t number)
{
    return spn__alloc(chunk_size(number) * sizeof(struct spn__pending_entry));
}

bool spn__pending_chunk_add(struct spn__pending *p, uint32_t number,
                            struct spn__pending_entry *chunk)
{
    if (p->chunk_count != number)
        return false;
    p->chunks[number] = chunk;
    set_chunk_count(p, number + 1);
    return true;
}

/* ---- the queue ----------------------------------------------------------------------- */

void spn__pending_enqueue(struct spn__pending *p, struct spn__pending_entry *entry)
{
    const uint32_t number = number_of(entry->task);

    entry->before = p->last;
    if (p->last != SPN__NO_ENTRY)
        entry_at(p, p->last)->behind = number;
    else
        p->first = number;
    p->last = number;
}

/* What refers to an entry of the queue refers to these from now on.  Not in the queue:
 * nothing does. */
static void relink(struct spn__pending *p, const struct spn__pending_entry *entry,
                   uint32_t number, uint32_t for_before, uint32_t for_behind)
{
    if (entry->before != SPN__NO_ENTRY)
        entry_at(p, entry->before)->behind = for_before;
    else if (p->first == number)
        p->first = for_before;
    if (entry->behind != SPN__NO_ENTRY)
        entry_at(p, entry->behind)->before = for_behind;
    else if (p->last == number)
        p->last = for_behind;
}

void spn__pending_dequeue(struct spn__pending *p, struct spn__pending_entry *entry)
{
    relink(p, entry, number_of(entry->task), entry->behind, entry->before);
    entry->before = entry->behind = SPN__NO_ENTRY;
}

struct spn__pending_entry *spn__pending_first(const struct spn__pending *p)
{
    return p->first != SPN__NO_ENTRY ? entry_at(p, p->first) : NULL;
}

/* ---- tasks --------------------------------------------------------------------------- */

struct spn__pending_entry *spn__pending_add(struct spn__pending *p, spn_task *task,
                                            int64_t accepted_ns)
{
    struct spn__pending_entry *entry = entry_at(p, p->used);

    spn__debug_assert(spn__pending_has_room(p));
    *entry =
        (struct spn__pending_entry){ task, accepted_ns, SPN__NO_ENTRY, SPN__NO_ENTRY };
    set_number(entry, p->used++);
    return entry;
}

struct spn__pending_entry *spn__pending_find(const struct spn__pending *p,
                                             const spn_task *task)
{
    const uintptr_t number = (uintptr_t)task->link[0];
    struct spn__pending_entry *entry;

    if (number >= p->used) /* the links of a task that is elsewhere point anywhere */
        return NULL;
    entry = entry_at(p, (uint32_t)number);
    return entry->task == task ? entry : NULL;
}

struct spn__pending_entry *spn__pending_remove(struct spn__pending *p,
                                               const spn_task *task)
{
    const uint32_t number = number_of(task), last = p->used - 1;
    struct spn__pending_entry *entry = entry_at(p, number);

    spn__debug_assert(entry->task == task);
    relink(p, entry, number, entry->behind, entry->before);
    if (number != last) {
        const struct spn__pending_entry *moves = entry_at(p, last);

        relink(p, moves, last, number, number);
        *entry = *moves;
        set_number(entry, number);
    }
    p->used = last;
    if (p->chunk_count < 2 || p->used > p->few)
        return NULL;
    set_chunk_count(p, p->chunk_count - 1);
    return p->chunks[p->chunk_count]; /* it is empty, and so is the one before it */
}
