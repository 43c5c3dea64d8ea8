/* SPDX-License-Identifier: MIT */
/* lanes.h - the lanes from inside, for lanes.c, which tells the whole, and
 * lanes_out.c. */
#ifndef SPN__LANES_H
#define SPN__LANES_H

#include "exec/pool.h"
#include "exec/work.h"
#include "future/executor.h"
#include "sync/seat.h"

#ifdef SPN_SIM /* the explorer's scenarios are short, and shall see all of it */
enum {
    CHUNK = 3,
    DIRECTORY = 2,
    BATCH = 3,
    SHARES = 1,
    SPARES = 1,
    SLOW = 4,
    FEW = 1,
    TIMES = 1,
    PATIENCE = 1,
    RARELY = 1,
    AHEAD = 1,
    TELLING = 1 << 20
};
#else
enum {
    CHUNK = 511,   /* slots: with its head 8192 bytes                               */
    DIRECTORY = 8, /* chunks of a lane that need no directory from the heap         */
    BATCH = 255,   /* slots claimed at once, at most                                */
    SHARES = 2,    /* a worker claims 1/(SHARES * workers) of what waits in a lane  */
    SPARES = 32,   /* chunks kept for later                                         */
    SLOW = 4,      /* looks that a batch may take to the end, or it is slow         */
    FEW = 32,      /* a claim of fewer entries is a small one: see let_pile_up       */
    TIMES = 4,     /* so many of them in a row, and the worker waits a moment        */
    PATIENCE = 64, /* pauses: so many in that time, or they do not come fast         */
    RARELY = 1000, /* small claims before it tries again where that brought nothing  */
    AHEAD = 4,     /* entries that are fetched before their turn                     */
    TELLING = 8192 /* a lane that has room for so many asks how many wait in all     */
};
#endif

/* At least between two looks of a worker at another's batch. */
enum { LOOK_NS = SPN_MS(1) };

struct chunk {
    SPN__ATOMIC(uint32_t) left; /* slots that are not done [left] */
    struct chunk *next_spare;   /* guarded by spare_lock */
    struct spn__entry slots[CHUNK];
};

/* Two lines, because processors like to fetch their neighbours too. */
#define APART ((size_t)2 * SPN__CACHE_LINE)

struct lane {
    /* The producer's; read by nobody else. */
    _Alignas(APART) struct spn__entry *slot; /* of tail_chunk: for the next entry */
    struct spn__entry *slots_end;            /* the same, behind the last */
    struct chunk *tail_chunk;
    uint64_t pushed; /* what `tail` is: its line is mostly with who looks at it */
    struct spn__seat seat;

    /* Position behind the last entry.  Alone: its readers shall not slow down the
     * rest.  Stored by the producer. */
    _Alignas(APART) SPN__ATOMIC(uint64_t) tail; /* [tail] */

    _Alignas(APART) SPN__ATOMIC(struct lane *) next; /* [list] */
    struct spn__lanes *lanes;                        /* fixed */
    struct spn__lock lock;                           /* guards the rest */
    uint32_t head_index;        /* in head_chunk; CHUNK: at the start of the next */
    struct chunk *head_chunk;   /* NULL: at the start of the first */
    SPN__ATOMIC(uint64_t) head; /* position of the first that is not claimed [head] */
    struct chunk **directory;   /* by number of the chunk, modulo its size */
    uint64_t directory_size;    /* a power of two */
    struct spn__batch *claimed; /* scratch of visit, as is the next */
    uint64_t seen;              /* tail */
    struct chunk *few[DIRECTORY];
};

struct spn__batch {
    /* The owner's, read by others. */
    _Alignas(SPN__CACHE_LINE) SPN__ATOMIC(uint32_t) next; /* index [gate] */
    SPN__ATOMIC(int64_t) taken; /* entries ever started; relaxed: only a count */

    /* The owner's alone. */
    bool open;                  /* there may be something between next and end */
    uint32_t first;             /* index of the entry that came with a claim */
    int32_t small;              /* claims in a row that were small: let_pile_up */
    struct lane *cursor;        /* where to look next, or NULL */
    struct spn__batch *watched; /* see steal_stalled */
    int64_t watched_taken;      /* its `taken` at the last look */
    int64_t looked_ns;          /* the time of that look */

    _Alignas(SPN__CACHE_LINE) SPN__ATOMIC(uint32_t) gate; /* [gate] */
    SPN__ATOMIC(uint32_t) end; /* index behind the last; written under lock */
    struct spn__lock lock;     /* guards the range; see the owner's finish */
    uint32_t held;             /* slots of chunk that are the batch's, done ones too */
    struct chunk *chunk;
    struct lane *lane; /* that the chunk belongs to */
    uint64_t base;     /* position of the chunk's first slot */

    SPN__ATOMIC(uint32_t) in_use;               /* 1: a worker has it; relaxed */
    SPN__ATOMIC(struct spn__batch *) following; /* [list] */
    struct spn__batch *next_claimed;            /* scratch of visit */
    uint32_t from;                              /* scratch of visit */
};

struct spn__lanes {
    struct spn_pool *pool;                    /* fixed; NULL: none is told of growth */
    uint32_t mark;                            /* fixed */
    SPN__ATOMIC(uint32_t) closed;             /* 0 or 1 [door] */
    SPN__ATOMIC(uint32_t) workers;            /* relaxed: a hint for shares */
    SPN__ATOMIC(struct lane *) lanes;         /* in the order they came [list] */
    SPN__ATOMIC(struct spn__batch *) batches; /* [list] */

    _Alignas(SPN__CACHE_LINE) struct spn__lock lock; /* see LOCKS */
    SPN__ATOMIC(int64_t) removed; /* entries ever taken out; written under lock */
    struct lane *last_lane;
    struct spn__batch *last_batch;

    _Alignas(SPN__CACHE_LINE) struct spn__lock spare_lock; /* guards the rest */
    struct chunk *spare;
    uint32_t spares;
};

/* That many slots of the chunk are done: nobody will look at them again. */
void spn__lanes_done(struct spn__lanes *lanes, struct chunk *c, uint32_t slots);

/* The chunk in which a position that is not claimed lies; the lane is locked. */
static inline struct chunk *chunk_at(struct lane *l, uint64_t position)
{
    return l->directory[(position / CHUNK) & (l->directory_size - 1)];
}

static inline struct lane *first_lane(struct spn__lanes *lanes)
{
    return spn__load(&lanes->lanes, acquire); /* [list] */
}

static inline struct lane *next_lane(struct lane *l)
{
    return spn__load(&l->next, acquire); /* [list] */
}

static inline struct spn__batch *first_batch(struct spn__lanes *lanes)
{
    return spn__load(&lanes->batches, acquire); /* [list] */
}

static inline struct spn__batch *next_batch(struct spn__batch *b)
{
    return spn__load(&b->following, acquire); /* [list] */
}

/* How many entries of a batch nobody has started, as far as can be seen. */
static inline uint32_t waiting(struct spn__batch *b)
{
    /* relaxed, both: a hint, or made sure of by [head] and the caller's fence. */
    const uint32_t next = spn__load(&b->next, relaxed);
    const uint32_t end = spn__load(&b->end, relaxed);

    return next < end ? end - next : 0;
}

/* A task's links: its lane and its position.  Relaxed, as `queued`: they come with
 * the slot, and without it are only compared. */
typedef SPN__ATOMIC(void *) link_word;
_Static_assert(sizeof(link_word) == sizeof(void *), "the same word");

static inline link_word *link_of(spn_task *task, int i)
{
    return (link_word *)(void *)&task->link[i];
}

#define TAKEN 1u /* `queued` of a task that is neither waiting nor released */

static inline void mark_taken(spn_task *task)
{
    spn__store(spn__task_queued(task), TAKEN, relaxed); /* see link_of */
}

/*
 * Shuts the gate of a batch at an index: from the returned one on, and up to end, the
 * entries are the caller's.  The batch is locked.
 */
static inline uint32_t shut(struct spn__batch *b, uint32_t at)
{
    const uint32_t end = spn__load(&b->end, relaxed); /* ours, by the lock */
    uint32_t next;

    spn__store(&b->gate, at, relaxed); /* before the fence [gate] */
    spn__fence_heavy();                /* [gate] */
    next = spn__load(&b->next, relaxed);
    if (next < at)
        next = at;
    return next < end ? next : end;
}

/* Opens it again, as far as the range goes now. */
static inline void reopen(struct spn__batch *b)
{
    /* relaxed: ours, by the lock.  [gate] release: the tombstones.
     * mutant: as in spn__batch_pop */
    spn__store(&b->gate, spn__load(&b->end, relaxed), release);
}

/* ---- a producer's lane ------------------------------------------------------------- */

/* The parts of spn__lanes_push that mostly suffice, for who wants them inline. */

/* The pool is closed: takes back what came in too late, if it is still there. */
int spn__lanes_refuse(struct lane *l, struct spn__entry entry);

static inline struct lane *lane_of_seat(struct spn__seat *seat)
{
    return spn__list_entry(seat, struct lane, seat);
}

/* The calling thread's lane, if it has used it of late, or NULL. */
static inline struct lane *recall_lane(struct spn__lanes *lanes)
{
    struct spn_thread *self = spn__self_get();
    struct spn__seat *seat = self != NULL ? spn__seat_recall(self, lanes) : NULL;

    return seat != NULL ? lane_of_seat(seat) : NULL;
}

static inline bool has_slot(const struct lane *l)
{
    return l->slot != l->slots_end;
}

/* Writes the entry into the next slot, which is there.  False: the lanes are closed, and
 * it is to be refused. */
static inline bool append(struct spn__lanes *lanes, struct lane *l,
                          struct spn__entry entry)
{
    const uint64_t position = l->pushed;
    struct spn__entry *slot = l->slot;

    *slot = entry;
    l->slot = slot + 1;
    if (entry.fn == spn__entry_task) {
        spn_task *task = entry.arg;

        spn__store(link_of(task, 0), l, relaxed); /* see link_of */
        spn__store(link_of(task, 1), (void *)(uintptr_t)position, relaxed);
        spn__store(spn__task_queued(task), lanes->mark, relaxed);
    }
    l->pushed = position + 1;
    spn__store(&l->tail, position + 1, release); /* [tail] */
    spn__fence_light();                          /* [door] */
    /* relaxed: after the fence [door]. */
    return spn__load(&lanes->closed, relaxed) == 0;
}

/* ---- an owner's batch -------------------------------------------------------------- */

/* The owner found the gate shut before entry n: whether it is its own after all. */
bool spn__batch_ask(struct spn__batch *b, uint32_t n);

static inline void spn__batch_count(struct spn__batch *b)
{
    /* relaxed, both: only the owner writes it. */
    spn__store(&b->taken, spn__load(&b->taken, relaxed) + 1, relaxed);
}

/* Starts the next entry of the owner's batch; false: there is none. */
static inline bool spn__batch_pop(struct spn__batch *b, struct spn__entry *entry)
{
    while (b->open) {
        const uint32_t n = spn__load(&b->next, relaxed); /* the owner's */
        const struct spn__entry *slot;
        uint32_t gate;

        spn__store(&b->next, n + 1, relaxed); /* before the fence [gate] */
        spn__fence_light();                   /* [gate] */
        /* [gate] acquire: tombstones.
         * mutant: they are plain; tests/stress shows it to ThreadSanitizer */
        gate = spn__load(&b->gate, acquire);
        if (__builtin_expect(n >= gate, 0) && !spn__batch_ask(b, n))
            break;
        slot = &b->chunk->slots[n];
        /* What an entry is called with is fixed until the chunk is used again, whoever
         * has it by then; mostly it is a node that its submitter has just written. */
        if (n + AHEAD < gate)
            __builtin_prefetch(slot[AHEAD].arg, 1);
        if (__builtin_expect(slot->fn != NULL, 1)) {
            *entry = (struct spn__entry){ slot->fn, slot->arg };
            spn__batch_count(b);
            return true;
        }
    }
    return false;
}

#endif /* SPN__LANES_H */
