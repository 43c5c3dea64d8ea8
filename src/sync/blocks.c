/* SPDX-License-Identifier: MIT */
/*
 * blocks.c - a cache of small blocks for each thread.
 *
 * OVERVIEW
 *   A block belongs to the thread whose record its header names, its home, from
 *   when the allocator gave it until it goes back there.  Its own thread keeps a
 *   list of free ones by size, without atomics.  Another thread that lets go of a
 *   block returns it home; the owner takes all that came back when its own list is
 *   empty, or about to be.  So a submitter whose tasks' futures end on the workers' threads gets its
 *   blocks back, and submits without asking the allocator.
 *
 *   Both lists are bounded; what is too much goes to the allocator, and so does
 *   everything at the end of the thread.
 *
 * REST
 *   A block that comes back goes behind the first of its list.  What another thread wrote
 *   in it is in that one's cache, and would have to be waited for by who gets it at once;
 *   the block in front has rested for a turn, and who gets a block ahead (get_ahead) has
 *   the lines of the next one fetched meanwhile, and a second block made if there is none.
 *   Of a round trip to a worker that was a fifth.
 *
 *   Where every block is watched (the program has an allocator of its own, which may
 *   count, limit or fail on purpose; AddressSanitizer; the explorer) there is no
 *   cache: each block is asked for and given back at once.
 *
 * STATE of `returned`   a stack of blocks; CLOSED: the thread has ended, and whoever
 *   comes with a block frees it.  The record may be another thread's by then, which
 *   takes the block for one of its own: they are all alike.
 *
 * ORDERING
 *   [return] the release by which a block is pushed pairs with the acquire exchange
 *            by which the owner takes them all: whatever the last user did with the
 *            block lies before its next use.  A push continues the release sequence
 *            of those before it, as a read-modify-write.  Only the owner takes, and
 *            it takes all: no ABA.
 *
 * WHY NOT leave it to malloc, which has caches of its own?  Not every malloc has;
 * the usual ones hand what another thread frees to that thread, so that a submitter
 * and a worker pass every block through the allocator's locks.
 */
#include "sync/blocks.h"

#include "base/assert.h"
#include "sync/thread_record.h"

/*
 * In front of every block.  `home` is 0 for a block of the allocator's, else
 *
 *   bits 0 to 3   the class: index of its size
 *   bits 4 and 5  how far behind the allocator's address it begins, in steps of STEP
 *   bits 6 on     the address of the record, which begins with a line
 */
struct spn__block {
    uintptr_t home;          /* fixed */
    struct spn__block *next; /* while it is free */
};

enum {
    CLASS_MASK = 15,
    SHIFT_BITS = 4,
    SHIFT_MASK = 3 << SHIFT_BITS,
    STEP = 2 * sizeof(void *), /* how the allocator aligns what is for anything */
    HEADER = SPN__BLOCK_HEADER
};
_Static_assert(SPN__CACHE_LINE / STEP <= (SHIFT_MASK >> SHIFT_BITS) + 1,
               "a shift fits its bits");
_Static_assert((CLASS_MASK | SHIFT_MASK) < SPN__CACHE_LINE, "and a record's are free");
_Static_assert(sizeof(struct spn__block) == HEADER, "the header says so");
_Static_assert(SPN__BLOCK_CLASSES <= CLASS_MASK + 1, "a class fits its bits");
_Static_assert(HEADER % (2 * sizeof(void *)) == 0, "what follows is as well aligned");

static size_t class_of(const struct spn__block *block)
{
    return block->home & CLASS_MASK;
}

static struct spn_thread *home_of(const struct spn__block *block)
{
    return (struct spn_thread *)(block->home & ~(uintptr_t)(CLASS_MASK | SHIFT_MASK));
}

/* To the allocator. */
static void let_go(struct spn__block *block)
{
    const size_t steps = (block->home & SHIFT_MASK) >> SHIFT_BITS;

    spn__free((char *)block - steps * STEP);
}

/*
 * From the allocator, for a home.  Those of several lines start with one; that is done by
 * hand, because the usual allocators cut what is aligned out of something larger, and
 * sweep up the pieces.
 */
static struct spn__block *make(struct spn_thread *home, size_t class)
{
    const size_t total = class == 0 ? SPN__BLOCK_SMALL : (class + 1) * SPN__BLOCK_GRAIN;
    char *memory = spn__alloc(class == 0 ? total : total + SPN__CACHE_LINE - STEP);
    struct spn__block *block;
    size_t shift = 0;

    if (memory == NULL)
        return NULL;
    if (class != 0)
        shift = -(uintptr_t)memory % SPN__CACHE_LINE;
    block = (struct spn__block *)(void *)(memory + shift);
    block->home = (uintptr_t)home | class | shift / STEP << SHIFT_BITS;
    spn__debug_assert(home_of(block) == home && shift % STEP == 0);
    return block;
}

#define CLOSED ((struct spn__block *)(uintptr_t)1)

static struct spn__block *block_of(void *memory)
{
    return (struct spn__block *)(void *)((char *)memory - HEADER);
}

static void *memory_of(struct spn__block *block)
{
    return (char *)block + HEADER;
}

/* Puts a block on the owner's own list, or lets go of it. */
static void keep(struct spn__blocks *blocks, struct spn__block *block)
{
    const size_t class = class_of(block);

    if (blocks->kept_count[class] == SPN__BLOCK_KEPT) {
        let_go(block);
        return;
    }
    if (blocks->kept[class] != NULL) { /* REST */
        block->next = blocks->kept[class]->next;
        blocks->kept[class]->next = block;
    } else {
        block->next = NULL;
        blocks->kept[class] = block;
    }
    blocks->kept_count[class]++;
}

/* Takes back what the others returned, and leaves `instead`. */
static struct spn__block *take_returned(struct spn__blocks *blocks,
                                        struct spn__block *instead)
{
    /* [return] acquire: from those who used the blocks. */
    struct spn__block *first = spn__exchange(&blocks->returned, instead, acquire);
    uint32_t count = 0;

    for (const struct spn__block *b = first; b != NULL; b = b->next)
        count++;
    /* relaxed: a bound, which the others look at before they push. */
    (void)spn__fetch_sub(&blocks->returned_count, count, relaxed);
    return first;
}

static void fetch_returned(struct spn__blocks *blocks)
{
    struct spn__block *block, *next;

    /* relaxed: the exchange is what orders. */
    if (spn__load(&blocks->returned, relaxed) == NULL)
        return;
    for (block = take_returned(blocks, NULL); block != NULL; block = next) {
        next = block->next;
        keep(blocks, block);
    }
}

static struct spn__block *pop_kept(struct spn__blocks *blocks, size_t class)
{
    struct spn__block *block = blocks->kept[class];

    if (block != NULL) {
        blocks->kept[class] = block->next;
        blocks->kept_count[class]--;
    }
    return block;
}

/* The record whose cache is to be used; NULL: none. */
static struct spn_thread *home_for(size_t class)
{
    struct spn_thread *self = spn__self_get();

    if (class >= SPN__BLOCK_CLASSES)
        return NULL;
    if (self != NULL && self->blocks.always)
        return self;
    if (spn__mem_watched())
        return NULL;
    return self != NULL ? self : spn__thread_self();
}

/* See REST; at most one block is made each time. */
static void see_to_next(struct spn_thread *home, size_t class, bool made)
{
    struct spn__block *next = home->blocks.kept[class];

    if (next == NULL) {
        fetch_returned(&home->blocks);
        next = home->blocks.kept[class];
    }
    if (next == NULL && !made) {
        next = make(home, class);
        if (next != NULL)
            keep(&home->blocks, next);
    }
    for (size_t at = 0; next != NULL && at < (class + 1) * SPN__BLOCK_GRAIN;
         at += SPN__CACHE_LINE)
        spn__prefetch_write((char *)next + at);
}

static void *get(size_t bytes, bool ahead)
{
    size_t class, total;
    struct spn__block *block;
    struct spn_thread *home;
    bool made = false;

    if (bytes > SIZE_MAX - HEADER - SPN__BLOCK_GRAIN)
        return NULL;
    total = bytes + HEADER;
    class = total <= SPN__BLOCK_SMALL ? 0 : (total - 1) / SPN__BLOCK_GRAIN;
    home = home_for(class);
    if (home != NULL) {
        block = pop_kept(&home->blocks, class);
        if (block == NULL) {
            fetch_returned(&home->blocks);
            block = pop_kept(&home->blocks, class);
        }
        if (block == NULL) {
            block = make(home, class);
            made = true;
        }
        if (ahead)
            see_to_next(home, class, made);
        return block != NULL ? memory_of(block) : NULL;
    }
    /* Those that are too large to be kept have no lines that matter, and what is aligned
     * is slow (see make). */
    block = total > SPN__BLOCK_SMALL && class < SPN__BLOCK_CLASSES
                ? spn__alloc_aligned(total, SPN__CACHE_LINE)
                : spn__alloc(total);
    if (block == NULL)
        return NULL;
    block->home = 0;
    return memory_of(block);
}

void *spn__block_get(size_t bytes)
{
    return get(bytes, false);
}

void *spn__block_get_ahead(size_t bytes)
{
    return get(bytes, true);
}

/* To another thread's record; false: it does not want it. */
static bool return_home(struct spn__block *block)
{
    struct spn__blocks *blocks = &home_of(block)->blocks;
    struct spn__block *found;

    /* relaxed: a bound. */
    if (spn__fetch_add(&blocks->returned_count, 1, relaxed) < SPN__BLOCK_RETURNED) {
        found = spn__load(&blocks->returned, relaxed); /* checked by the exchange */
        while (found != CLOSED) {
            block->next = found;
            /* [return] release: to the owner.  relaxed when it fails: try again. */
            if (spn__cas_weak(&blocks->returned, &found, block, release, relaxed))
                return true;
        }
    }
    (void)spn__fetch_sub(&blocks->returned_count, 1, relaxed); /* as above */
    return false;
}

void spn__block_put(void *memory)
{
    struct spn__block *block;

    if (memory == NULL)
        return;
    block = block_of(memory);
    if (block->home != 0) {
        struct spn_thread *self = spn__self_get();

        if (home_of(block) == self) {
            keep(&self->blocks, block);
            return;
        }
        if (return_home(block))
            return;
    }
    let_go(block);
}

/* ---- for the record -------------------------------------------------------- */

static void empty(struct spn__blocks *blocks)
{
    for (size_t i = 0; i < SPN__BLOCK_CLASSES; i++) {
        blocks->kept[i] = NULL;
        blocks->kept_count[i] = 0;
    }
    blocks->always = false;
}

void spn__blocks_init(struct spn__blocks *blocks)
{
    empty(blocks);
    spn__init(&blocks->returned, NULL);
    spn__init(&blocks->returned_count, 0);
}

void spn__blocks_open(struct spn__blocks *blocks)
{
    empty(blocks);
    /* relaxed: it was CLOSED, so nobody has pushed; a late block of the last thread
     * may come now.  The count goes on: whoever is just coming has counted itself. */
    spn__store(&blocks->returned, NULL, relaxed);
}

void spn__blocks_close(struct spn__blocks *blocks)
{
    struct spn__block *block, *next;

    for (block = take_returned(blocks, CLOSED); block != NULL; block = next) {
        next = block->next;
        let_go(block);
    }
    for (size_t i = 0; i < SPN__BLOCK_CLASSES; i++)
        while ((block = pop_kept(blocks, i)) != NULL)
            let_go(block);
}
