/* SPDX-License-Identifier: MIT */
/*
 * strip.c - entries in the order in which they came, in chunks, with one writer and one
 * reader at a time.
 *
 * OVERVIEW
 *   The writer fills the slots of the last chunk, the reader empties those of the
 *   first; chunks that were read go back to the writer.  The writer counts in `tail`,
 *   the reader in `gone`.  Each keeps a copy of the other's counter, and looks again
 *   only when the copy says that there is nothing to do.  So the two sides touch each
 *   other's cache lines once per run of entries, not once per entry.
 *
 * PLACES AND TOMBSTONES
 *   A task's links hold its slot, and what `tail` was when it was pushed.  Removal
 *   clears the slot's function: a tombstone, which the reader passes over.  `head`
 *   counts the slots that the reader has passed and `gone` the entries that have left,
 *   so that gone - head tombstones lie ahead.
 *
 *   Tombstones keep slots, and a task that waits at the head keeps all of them.  So
 *   tidy moves the entries together when the tombstones reach `slack`.  Bounded, that
 *   is a quarter of the capacity: at most five moves a removal, on average.  Unbounded
 *   it is a chunk's worth, and at least as many as wait: two moves a removal.  Tidy
 *   leaves `tail` and `gone` as they are: the slots ahead are then those that wait, so
 *   `head` becomes `gone`.
 *
 * A BOUNDED STRIP NEVER LACKS A SLOT
 *   At most capacity + slack slots are in use with the one that is to be written.
 *   They, and the slot before them, whose chunk the reader may still hold, touch at
 *   most (capacity + slack - 1) / CHUNK + 2 chunks.  So many are given at the start,
 *   and `keep` makes the reader keep them.
 *
 * ORDERING
 *   [strip]  the writer's release store of `tail` follows its writes of the slots and
 *            of the chunks' links, and pairs with the acquire load of the reader.
 *   [mark]   push writes the slot, the task's links, its mark (release), and `tail`, in
 *            this order.  Whoever takes the task out marks it as taken, under the take
 *            lock.  So a removal that finds the strip's mark (acquire) under that lock
 *            reads links that nobody writes.  If it does not see a `tail` behind the
 *            task's, the push has not returned, and the task does not wait yet.
 *   [room]   the reader's release store of `gone` follows its reads of slots and its
 *            giving back of chunks, and pairs with the acquire load of the writer:
 *            slots may be written again, and a chunk is there for it.  It also follows
 *            the reader's look at `tail`, so that size reads a `tail` that is not
 *            older.
 *   [back]   the reader pushes a chunk with release, the writer takes all with acquire:
 *            the chunk's memory is the writer's.
 *
 * LOCKS  the owner's: strip.h has the table.
 * PROGRESS  push and take: no loop but over tombstones, at most `slack` or as many as
 *   wait.  tidy, sweep: as long as the strip.
 *
 * WHY NOT a ring for a bounded strip? Its capacity changes while entries wait, and the
 * bound may go: chunks are then added or left behind, where a ring would be copied
 * under both locks.
 */
#include "exec/strip.h"

#include "base/assert.h"

/* ---- chunks ---------------------------------------------------------------------- */

void spn__strip_chunks_free(struct spn__strip_chunk *list)
{
    while (list != NULL) {
        struct spn__strip_chunk *next = list->next;

        spn__free(list);
        list = next;
    }
}

struct spn__strip_chunk *spn__strip_chunks_make(uint64_t count)
{
    struct spn__strip_chunk *list = NULL;

    for (uint64_t i = 0; i < count; i++) {
        struct spn__strip_chunk *chunk =
            spn__alloc_aligned(sizeof *chunk, SPN__CACHE_LINE);

        if (chunk == NULL) {
            spn__strip_chunks_free(list);
            return NULL;
        }
        chunk->next = list;
        list = chunk;
    }
    return list;
}

static uint64_t slack_for(uint64_t capacity)
{
    if (capacity == 0)
        return SPN__STRIP_CHUNK; /* at least: see spn__strip_crowded */
    return capacity >= 4 ? capacity / 4 : 1;
}

static uint64_t keep_for(uint64_t capacity)
{
    return capacity == 0 ? 0
                         : (capacity + slack_for(capacity) - 1) / SPN__STRIP_CHUNK + 2;
}

uint64_t spn__strip_chunks_for(uint64_t capacity)
{
    return capacity == 0 ? 1 : keep_for(capacity);
}

/* How many chunks the reader is to keep, those that are in use included. */
static uint64_t chunks_to_keep(const struct spn__strip_out *out)
{
    if (out->keep != 0)
        return out->keep;
    /* relaxed: the take lock is held. */
    return (spn__load(&out->seen, relaxed) - out->head) / SPN__STRIP_CHUNK + 2 +
           SPN__STRIP_SPARES;
}

/* If there are more chunks than are kept, this one is to be freed. */
static bool chunk_is_surplus(struct spn__strip_out *out, struct spn__strip_chunk *chunk)
{
    /* relaxed, both: only readers lower it, and a higher one only frees the next. */
    if (spn__load(&out->chunks, relaxed) <= chunks_to_keep(out))
        return false;
    (void)spn__fetch_sub(&out->chunks, 1, relaxed);
    chunk->next = out->surplus;
    out->surplus = chunk;
    return true;
}

/* ---- the beginning and the end --------------------------------------------------- */

void spn__strip_init(struct spn__strip_in *in, struct spn__strip_out *out,
                     uint32_t mark, uint64_t capacity, struct spn__strip_chunk *chunks)
{
    struct spn__strip_chunk *first = chunks;

    *in = (struct spn__strip_in){ .at = first->slots,
                                  .end = first->slots + SPN__STRIP_CHUNK,
                                  .last = first,
                                  .spare = first->next,
                                  .out = out,
                                  .mark = mark };
    *out = (struct spn__strip_out){ .at = in->at,
                                    .end = in->end,
                                    .first = first,
                                    .keep = keep_for(capacity),
                                    .slack = slack_for(capacity),
                                    .in = in };
    first->next = NULL;
    spn__init(&in->tail, 0);
    spn__init(&out->gone, 0);
    spn__init(&out->seen, 0);
    spn__init(&out->chunks, spn__strip_chunks_for(capacity));
    spn__init(&out->back, NULL);
}

void spn__strip_fini(struct spn__strip_in *in, struct spn__strip_out *out)
{
    spn__strip_chunks_free(out->first);
    spn__strip_chunks_free(in->spare);
    spn__strip_chunks_free(out->surplus);
    spn__strip_chunks_free(spn__load(&out->back, relaxed)); /* nobody else is there */
}

/* ---- the writer ------------------------------------------------------------------ */

void spn__strip_give(struct spn__strip_in *in, struct spn__strip_chunk *list,
                     uint64_t count)
{
    struct spn__strip_chunk *last = list;

    if (list == NULL)
        return;
    while (last->next != NULL)
        last = last->next;
    last->next = in->spare;
    in->spare = list;
    /* relaxed: a number; see chunk_is_surplus. */
    (void)spn__fetch_add(&in->out->chunks, count, relaxed);
}

bool spn__strip_extend(struct spn__strip_in *in)
{
    struct spn__strip_chunk *chunk;

    /* relaxed: a look before the exchange; bounded, [room] has shown what it needs. */
    if (in->spare == NULL && spn__load(&in->out->back, relaxed) != NULL)
        /* [back] mutant: it orders plain memory, which ThreadSanitizer watches */
        in->spare = spn__exchange(&in->out->back, NULL, acquire);
    chunk = in->spare;
    if (chunk == NULL)
        return false;
    in->spare = chunk->next;
    chunk->next = NULL;
    in->last->next = chunk;
    in->last = chunk;
    in->at = chunk->slots;
    in->end = chunk->slots + SPN__STRIP_CHUNK;
    return true;
}

/* ---- the reader ------------------------------------------------------------------ */

static void chunk_give_back(struct spn__strip_out *out, struct spn__strip_chunk *chunk)
{
    struct spn__strip_chunk *top;

    if (chunk_is_surplus(out, chunk))
        return;
    top = spn__load(&out->back, relaxed); /* the loop tells */
    do
        chunk->next = top;
    /* mutant: as in spn__strip_extend */
    while (!spn__cas_weak(&out->back, &top, chunk, release, relaxed)); /* [back] */
}

/* Goes on to the next chunk, which is there. */
static void reader_advance(struct spn__strip_out *out)
{
    struct spn__strip_chunk *done = out->first;

    out->first = done->next;
    out->at = out->first->slots;
    out->end = out->at + SPN__STRIP_CHUNK;
    chunk_give_back(out, done);
}

/* Whether a slot that was written is ahead. */
static bool reader_has_slot(struct spn__strip_out *out)
{
    uint64_t tail;

    /* relaxed: only readers write it. */
    if (out->head != spn__load(&out->seen, relaxed))
        return true;
    tail = spn__load(&out->in->tail, acquire); /* [strip] */
    spn__store(&out->seen, tail, relaxed);     /* a hint for others */
    return out->head != tail;
}

/* An entry is taken out; of a task nobody reads the links from now on. */
static void entry_mark_taken(struct spn__entry entry)
{
    if (entry.fn == spn__entry_task)
        /* relaxed: believed only under the take lock [mark]. */
        spn__store(spn__task_queued((spn_task *)entry.arg), SPN__STRIP_TAKEN, relaxed);
}

/* `by` entries have left. */
static void count_gone(struct spn__strip_out *out, uint64_t by)
{
    /* relaxed read: only readers write it. */
    spn__store(&out->gone, spn__load(&out->gone, relaxed) + by, release); /* [room] */
}

bool spn__strip_take(struct spn__strip_out *out, struct spn__entry *entry)
{
    while (reader_has_slot(out)) {
        if (__builtin_expect(out->at == out->end, 0))
            reader_advance(out);
        *entry = *out->at++;
        out->head++;
        if (__builtin_expect(entry->fn != NULL, 1)) {
            entry_mark_taken(*entry);
            count_gone(out, 1);
            return true;
        }
    }
    return false;
}

bool spn__strip_remove(struct spn__strip_out *out, spn_task *task)
{
    struct spn__entry *slot;
    uintptr_t tail;

    if (spn__load(spn__task_queued(task), acquire) != out->in->mark) /* [mark] */
        return false;
    /* relaxed: what came before the push came with the mark. */
    tail = (uintptr_t)spn__load(&out->in->tail, relaxed);
    if ((intptr_t)((uintptr_t)task->link[1] - tail) >= 0)
        return false;
    slot = task->link[0];
    spn__assert(slot->fn == spn__entry_task && slot->arg == task);
    entry_mark_taken(*slot);
    slot->fn = NULL;
    count_gone(out, 1);
    return true;
}

uint64_t spn__strip_reserve(struct spn__strip_out *out, uint64_t capacity)
{
    const uint64_t keep = keep_for(capacity);
    uint64_t chunks;

    if (out->keep < keep)
        out->keep = keep;
    /* relaxed: no reader lowers it below `keep` now. */
    chunks = spn__load(&out->chunks, relaxed);
    return chunks < keep ? keep - chunks : 0;
}

/* ---- a walk ---------------------------------------------------------------------- */

/* A slot between head and tail, or the place behind the last one of a chunk. */
struct cursor {
    struct spn__strip_chunk *chunk;
    struct spn__entry *at;
};

static struct cursor cursor_at_head(const struct spn__strip_out *out)
{
    return (struct cursor){ out->first, out->at };
}

static struct spn__entry *cursor_end(const struct cursor *c)
{
    return c->chunk->slots + SPN__STRIP_CHUNK;
}

/* The slot, and on to the next one. */
static struct spn__entry *cursor_step(struct cursor *c)
{
    if (c->at == cursor_end(c)) {
        c->chunk = c->chunk->next;
        c->at = c->chunk->slots;
    }
    return c->at++;
}

/* Slots from head to tail, tombstones included. */
static uint64_t slots_ahead(struct spn__strip_out *out)
{
    const uint64_t tail = spn__load(&out->in->tail, acquire); /* [strip] */

    spn__store(&out->seen, tail, relaxed); /* as in reader_has_slot */
    return tail - out->head;
}

uint64_t spn__strip_sweep(struct spn__strip_out *out,
                          enum spn__strip_verdict (*visit)(struct spn__entry, void *),
                          void *ctx)
{
    struct cursor c = cursor_at_head(out);
    uint64_t taken = 0;

    for (uint64_t n = slots_ahead(out); n != 0; n--) {
        struct spn__entry *slot = cursor_step(&c);
        enum spn__strip_verdict verdict;

        if (slot->fn == NULL)
            continue;
        verdict = visit(*slot, ctx);
        if (verdict == SPN__STRIP_STOP)
            break;
        if (verdict == SPN__STRIP_TAKE) {
            entry_mark_taken(*slot);
            slot->fn = NULL;
            taken++;
        }
    }
    if (taken != 0) {
        count_gone(out, taken);
        if (spn__strip_crowded(out))
            spn__strip_tidy(out);
    }
    return taken;
}

/* Spare chunks beyond those that are kept are surplus. */
static void spares_trim(struct spn__strip_out *out)
{
    struct spn__strip_in *in = out->in;
    struct spn__strip_chunk *next;

    while (in->spare != NULL) {
        next = in->spare->next;
        if (!chunk_is_surplus(out, in->spare))
            return;
        in->spare = next;
    }
}

/* The writer goes on behind the cursor; the chunks behind that one are spare. */
static void writer_continue_at(struct spn__strip_out *out, const struct cursor *c)
{
    struct spn__strip_in *in = out->in;
    struct spn__strip_chunk *rest = c->chunk->next, *next;

    c->chunk->next = NULL;
    in->last = c->chunk;
    in->at = c->at;
    in->end = cursor_end(c);
    for (; rest != NULL; rest = next) {
        next = rest->next;
        rest->next = in->spare;
        in->spare = rest;
    }
    spares_trim(out);
}

void spn__strip_tidy(struct spn__strip_out *out)
{
    struct cursor from = cursor_at_head(out), to = from;

    for (uint64_t n = slots_ahead(out); n != 0; n--) {
        const struct spn__entry entry = *cursor_step(&from);
        struct spn__entry *slot;

        if (entry.fn == NULL)
            continue;
        slot = cursor_step(&to);
        *slot = entry;
        if (entry.fn == spn__entry_task)
            ((spn_task *)entry.arg)->link[0] = slot;
    }
    out->head = spn__load(&out->gone, relaxed); /* the lock is held */
    writer_continue_at(out, &to);
}

void spn__strip_bound(struct spn__strip_out *out, uint64_t capacity)
{
    out->keep = keep_for(capacity);
    out->slack = slack_for(capacity);
    if (spn__strip_crowded(out))
        spn__strip_tidy(out);
    spares_trim(out);
}
