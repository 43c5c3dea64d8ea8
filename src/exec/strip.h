/* SPDX-License-Identifier: MIT */
/*
 * strip.h - entries in the order in which they came, in chunks, with one writer and one
 * reader at a time; see strip.c.
 *
 * CALLS THAT MAY OVERLAP  The strip has no lock.  Its owner has two, and may have one
 *   that is both:
 *
 *     push lock             has_room, has_slot, push, give
 *     take lock             take, remove, crowded, reserve, surplus; sweep without TAKE
 *     take, then push lock  tidy, bound; sweep with TAKE
 *     none                  size, any, any_known
 *     nobody else is there  init, fini
 *
 * MEMORY  No call allocates or frees but fini.  Chunks are made and freed by the owner,
 *   outside of its locks, with spn__strip_chunks_make and spn__strip_chunks_free.
 */
#ifndef SPN__STRIP_H
#define SPN__STRIP_H

#include "exec/entry.h"
#include "future/executor.h"
#include "sync/seam.h"

enum {
#ifdef SPN_SIM
    SPN__STRIP_CHUNK = 2, /* scenarios are short, and shall cross chunks */
    SPN__STRIP_SPARES = 1
#else
    SPN__STRIP_CHUNK = 511, /* with `next` just under 8 KiB */
    SPN__STRIP_SPARES = 8   /* read chunks that an unbounded strip keeps */
#endif
};

struct spn__strip_chunk {
    struct spn__entry slots[SPN__STRIP_CHUNK]; /* first: none lies on two lines */
    struct spn__strip_chunk *next;
};

struct spn__strip_out;

/* The writer's half: guarded by the push lock, but for `tail`. */
struct spn__strip_in {
    SPN__ATOMIC(uint64_t) tail;  /* pushed, ever [strip] */
    struct spn__entry *at, *end; /* the next slot, and the last chunk's end */
    uint64_t seen_gone;          /* `gone`, as last looked at */
    struct spn__strip_chunk *last;
    struct spn__strip_chunk *spare; /* to be used next */
    struct spn__strip_out *out;     /* fixed */
    uint32_t mark;                  /* fixed: of tasks that wait here [mark] */
};

/* The mark of a task that was taken out and not yet started. */
#define SPN__STRIP_TAKEN 1u

/* The reader's half: guarded by the take lock, but for the atomics. */
struct spn__strip_out {
    SPN__ATOMIC(uint64_t) gone; /* have left, ever, by take, remove or sweep [room] */
    SPN__ATOMIC(uint64_t) seen; /* `tail`, as last looked at; a hint for any_known */
    struct spn__entry *at, *end;
    uint64_t head; /* passed, tombstones included: gone - head tombstones are ahead */
    struct spn__strip_chunk *first;
    struct spn__strip_chunk *surplus; /* for the owner to free */
    uint64_t keep;                /* bounded: chunks that are never surplus; else 0 */
    uint64_t slack;               /* fewer tombstones than that never matter */
    struct spn__strip_in *in;     /* fixed */
    SPN__ATOMIC(uint64_t) chunks; /* how many there are; raised by the writer */
    SPN__ATOMIC(struct spn__strip_chunk *) back; /* read, for the writer [back] */
};

/* `count` chunks in a list, or NULL: no memory, and none is left. */
struct spn__strip_chunk *spn__strip_chunks_make(uint64_t count);
void spn__strip_chunks_free(struct spn__strip_chunk *list);

/* How many chunks a strip needs from the start, for a capacity at least 1, or 0:
 * unbounded. */
uint64_t spn__strip_chunks_for(uint64_t capacity);

/* Takes spn__strip_chunks_for(capacity) chunks.  `mark`: see spn__task_queued; above 1,
 * and no other strip's. */
void spn__strip_init(struct spn__strip_in *in, struct spn__strip_out *out,
                     uint32_t mark, uint64_t capacity, struct spn__strip_chunk *chunks);
/* Frees all chunks; what still waits is forgotten. */
void spn__strip_fini(struct spn__strip_in *in, struct spn__strip_out *out);

/* ---- the push lock is held ------------------------------------------------------- */

bool spn__strip_extend(struct spn__strip_in *in);

/* Whether fewer than `capacity` entries wait. */
static inline bool spn__strip_has_room(struct spn__strip_in *in, uint64_t capacity)
{
    /* relaxed: only writers write it. */
    const uint64_t tail = spn__load(&in->tail, relaxed);

    if (tail - in->seen_gone < capacity)
        return true;
    in->seen_gone = spn__load(&in->out->gone, acquire); /* [room] */
    return tail - in->seen_gone < capacity;
}

/* Whether there is a slot for push.  A bounded strip that has room has one; an
 * unbounded one may first have to be given a chunk. */
static inline bool spn__strip_has_slot(struct spn__strip_in *in)
{
    return __builtin_expect(in->at != in->end, 1) || spn__strip_extend(in);
}

/* Appends the entry to a strip that has a slot.  A task, which was claimed, has its
 * place in its links from now on, and the strip's mark. */
static inline void spn__strip_push(struct spn__strip_in *in, struct spn__entry entry)
{
    /* relaxed: only writers write it. */
    const uint64_t tail = spn__load(&in->tail, relaxed);

    *in->at = entry;
    if (entry.fn == spn__entry_task) {
        spn_task *task = entry.arg;

        task->link[0] = in->at;
        task->link[1] = (void *)(uintptr_t)tail;
        spn__store(spn__task_queued(task), in->mark, release); /* [mark] */
    }
    in->at++;
    spn__store(&in->tail, tail + 1, release); /* [strip] */
}

/* Takes in a list of `count` chunks. */
void spn__strip_give(struct spn__strip_in *in, struct spn__strip_chunk *list,
                     uint64_t count);

/* ---- the take lock is held ------------------------------------------------------- */

/* The oldest entry; false: nothing waits. */
bool spn__strip_take(struct spn__strip_out *out, struct spn__entry *entry);

/* Takes out a task that waits here.  False: it does not, or its push is under way. */
bool spn__strip_remove(struct spn__strip_out *out, spn_task *task);

/* Keeps from now on as many chunks as a bound of `capacity` needs.  Returns how many
 * are missing, to be given before the strip is bound. */
uint64_t spn__strip_reserve(struct spn__strip_out *out, uint64_t capacity);

/* Chunks to be freed when the lock has been released, or NULL. */
static inline struct spn__strip_chunk *spn__strip_surplus(struct spn__strip_out *out)
{
    struct spn__strip_chunk *list = out->surplus;

    if (__builtin_expect(list != NULL, 0))
        out->surplus = NULL;
    return list;
}

enum spn__strip_verdict { SPN__STRIP_KEEP, SPN__STRIP_TAKE, SPN__STRIP_STOP };

/*
 * Shows what waits, the oldest first.  TAKE takes the entry out (`visit` may use a
 * task's links), and then the push lock is needed too; STOP ends the sweep and leaves
 * this entry and those behind it.  Returns how many were taken.  `visit` calls nothing
 * of the strip.
 */
uint64_t spn__strip_sweep(struct spn__strip_out *out,
                          enum spn__strip_verdict (*visit)(struct spn__entry entry,
                                                           void *ctx),
                          void *ctx);

/* ---- both are held --------------------------------------------------------------- */

/* Moves what waits together, so that no tombstones are left; tasks get new places. */
void spn__strip_tidy(struct spn__strip_out *out);

/* The bound is `capacity` from now on, or none (0).  Where that needs more chunks they
 * were reserved and given before.  More than `capacity` may wait. */
void spn__strip_bound(struct spn__strip_out *out, uint64_t capacity);

/* ---- no lock is needed, but by crowded ------------------------------------------- */

/* How many wait: never negative, and right when nothing moves. */
static inline uint64_t spn__strip_size(struct spn__strip_out *out)
{
    const uint64_t gone = spn__load(&out->gone, acquire); /* [room] before `tail` */

    return spn__load(&out->in->tail, relaxed) - gone;
}

/* After remove: whether there are so many tombstones that tidy is due, before the take
 * lock is released. */
static inline bool spn__strip_crowded(struct spn__strip_out *out)
{
    /* relaxed: only readers write it, and the take lock is held. */
    const uint64_t tombstones = spn__load(&out->gone, relaxed) - out->head;

    return tombstones >= out->slack &&
           (out->keep != 0 || tombstones >= spn__strip_size(out));
}

/* Whether anything waits: a hint, or ordered by the owner. */
static inline bool spn__strip_any(struct spn__strip_out *out)
{
    /* relaxed, both: as it says. */
    return spn__load(&out->in->tail, relaxed) != spn__load(&out->gone, relaxed);
}

/* The same without a look at the line that writers write: true is a hint, too, and
 * false may also mean that nobody has looked. */
static inline bool spn__strip_any_known(struct spn__strip_out *out)
{
    /* relaxed, both: hints.  What is removed unseen makes the difference negative. */
    return (int64_t)(spn__load(&out->seen, relaxed) - spn__load(&out->gone, relaxed)) >
           0;
}

#endif /* SPN__STRIP_H */
