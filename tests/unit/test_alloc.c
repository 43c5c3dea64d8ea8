/* SPDX-License-Identifier: MIT */
/* The allocator hook.  It is process-wide and frozen by first use, so each
 * situation has a process of its own. */
#include "test.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <spindle/alloc.h>

#include "sync/seam.h"

/* An allocator that counts what it gives and takes, and marks its blocks. */
struct counting {
    atomic_int allocated, released, strangers;
    atomic_size_t bytes, alignment; /* of the last request */
    bool empty;                     /* has no memory to give */
};

enum { MARK = 0x5ca1ab1e };

struct header {
    void *block;
    uint32_t mark;
};

static void *counting_alloc(void *ctx, size_t bytes, size_t alignment)
{
    struct counting *c = ctx;
    char *block;
    uintptr_t at;

    atomic_store(&c->bytes, bytes);
    atomic_store(&c->alignment, alignment);
    if (c->empty)
        return NULL;
    block = malloc(bytes + alignment + sizeof(struct header));
    if (block == NULL)
        return NULL;
    at = ((uintptr_t)block + sizeof(struct header) + alignment - 1) & ~(alignment - 1);
    memcpy((char *)at - sizeof(struct header), &(struct header){ block, MARK },
           sizeof(struct header));
    atomic_fetch_add(&c->allocated, 1);
    return (void *)at;
}

static void counting_release(void *ctx, void *memory)
{
    struct counting *c = ctx;
    struct header header;

    memcpy(&header, (char *)memory - sizeof header, sizeof header);
    if (header.mark != MARK) {
        atomic_fetch_add(&c->strangers, 1);
        return;
    }
    atomic_fetch_add(&c->released, 1);
    free(header.block);
}

static spn_allocator make(struct counting *c)
{
    return (spn_allocator){ sizeof(spn_allocator), counting_alloc, counting_release,
                            c };
}

/* ---- what set accepts ------------------------------------------------------ */

static void bad_then_good(void *arg)
{
    struct counting c = { .empty = false };
    const spn_allocator good = make(&c);
    struct {
        spn_allocator known;
        void *unknown;
    } newer = { make(&c), &c };
    spn_allocator bad;

    (void)arg;
    CHECK_STATUS(spn_allocator_set(NULL), SPN_EINVAL);
    bad = (spn_allocator)SPN_ALLOCATOR_INIT;
    CHECK_STATUS(spn_allocator_set(&bad), SPN_EINVAL);
    bad = good;
    bad.alloc = NULL;
    CHECK_STATUS(spn_allocator_set(&bad), SPN_EINVAL);
    bad = good;
    bad.release = NULL;
    CHECK_STATUS(spn_allocator_set(&bad), SPN_EINVAL);
    bad = good;
    bad.size = 0;
    CHECK_STATUS(spn_allocator_set(&bad), SPN_EINVAL);
    bad.size = SIZE_MAX;
    CHECK_STATUS(spn_allocator_set(&bad), SPN_EINVAL);
    bad.size = offsetof(spn_allocator, release); /* older, lacks release */
    CHECK_STATUS(spn_allocator_set(&bad), SPN_EINVAL);
    newer.known.size = sizeof newer;
    CHECK_STATUS(spn_allocator_set(&newer.known), SPN_EINVAL);

    newer.unknown = NULL;
    CHECK_OK(spn_allocator_set(&newer.known));
    spn__mem_free(spn__mem_alloc(1, sizeof(void *)));
    CHECK_EQ(c.allocated, 1);
}

/* Each bad argument is refused and changes nothing: a good one still works. */
TEST(alloc__bad_allocators__refused_without_effect, "G-2", "G-3")
{
    CHECK_CHILD(bad_then_good, NULL);
}

static void set_twice(void *arg)
{
    struct counting first = { .empty = false }, second = { .empty = false };
    spn_allocator a = make(&first), b = make(&second);

    (void)arg;
    CHECK_OK(spn_allocator_set(&a));
    CHECK_STATUS(spn_allocator_set(&b), SPN_ESTATE);
    CHECK_STATUS(spn_allocator_set(&a), SPN_ESTATE);
    CHECK_STATUS(spn_allocator_set(NULL), SPN_EINVAL); /* the argument comes first */
    memset(&a, 0, sizeof a);                           /* the struct was copied */
    spn__mem_free(spn__mem_alloc(100, sizeof(void *)));
    CHECK_EQ(first.allocated, 1);
    CHECK_EQ(first.released, 1);
    CHECK_EQ(second.allocated, 0);
    CHECK_STATUS(spn_allocator_set(&b), SPN_ESTATE);
}

/* The first allocator set stays, for the process's life. */
TEST(alloc__set_twice__first_one_stays)
{
    CHECK_CHILD(set_twice, NULL);
}

static void set_late(void *arg)
{
    struct counting c = { .empty = false };
    const spn_allocator a = make(&c);
    void *early = spn__mem_alloc(10, sizeof(void *));

    (void)arg;
    REQUIRE(early != NULL);
    CHECK_STATUS(spn_allocator_set(&a), SPN_ESTATE);
    spn__mem_free(early);
    spn__mem_free(spn__mem_alloc(10, sizeof(void *)));
    CHECK_EQ(c.allocated, 0);
    CHECK_EQ(c.released, 0);
    CHECK_EQ(c.strangers, 0);
    CHECK_STATUS(spn_allocator_set(&a), SPN_ESTATE);
}

/* After the first allocation the system's allocator is frozen. */
TEST(alloc__set_after_first_use__refused)
{
    CHECK_CHILD(set_late, NULL);
}

static void free_null_first(void *arg)
{
    struct counting c = { .empty = false };
    const spn_allocator a = make(&c);

    (void)arg;
    spn__mem_free(NULL); /* not a use */
    CHECK_OK(spn_allocator_set(&a));
    spn__mem_free(NULL);
    CHECK_EQ(c.released + c.strangers, 0);
}

/* Releasing NULL does nothing: it neither freezes the hook nor reaches it. */
TEST(alloc__free_null__nothing)
{
    CHECK_CHILD(free_null_first, NULL);
}

static void *alloc_without_ctx(void *ctx, size_t bytes, size_t alignment)
{
    (void)alignment;
    CHECK(ctx == NULL);
    return malloc(bytes);
}

static void release_without_ctx(void *ctx, void *memory)
{
    CHECK(ctx == NULL);
    free(memory);
}

static void set_without_ctx(void *arg)
{
    spn_allocator a = { offsetof(spn_allocator, ctx), alloc_without_ctx,
                        release_without_ctx, &a };

    (void)arg;
    CHECK_OK(spn_allocator_set(&a));
    spn__mem_free(spn__mem_alloc(1, sizeof(void *)));
}

/* A struct that ends before ctx has none, whatever lies behind it. */
TEST(alloc__older_struct__accepted)
{
    CHECK_CHILD(set_without_ctx, NULL);
}

/* ---- what the library gets ------------------------------------------------- */

static void check_alignments(void)
{
    for (size_t alignment = sizeof(void *); alignment <= 4096; alignment *= 2)
        for (size_t bytes = 1; bytes <= 5000; bytes = bytes * 3 + 1) {
            unsigned char *memory = spn__mem_alloc(bytes, alignment);

            REQUIRE(memory != NULL);
            CHECK_EQ((uintptr_t)memory % alignment, 0);
            memset(memory, 0xee, bytes); /* ASan watches the ends */
            spn__mem_free(memory);
        }
}

static void use_system(void *arg)
{
    (void)arg;
    check_alignments();
    /* More than there is: no memory, no overflow of a rounded size. */
    for (size_t alignment = sizeof(void *); alignment <= 4096; alignment *= 2) {
        CHECK(spn__mem_alloc(SIZE_MAX, alignment) == NULL);
        CHECK(spn__mem_alloc(SIZE_MAX - alignment, alignment) == NULL);
        CHECK(spn__mem_alloc(SIZE_MAX / 2 + 2, alignment) == NULL);
    }
}

static void use_counting(void *arg)
{
    struct counting c = { .empty = false };
    const spn_allocator a = make(&c);

    (void)arg;
    CHECK_OK(spn_allocator_set(&a));
    check_alignments();
    CHECK(c.allocated > 0);
    CHECK_EQ(c.released, c.allocated);
    CHECK_EQ(c.strangers, 0);

    void *memory = spn__mem_alloc(123, 64); /* passed on as they are */
    CHECK_EQ(c.bytes, 123);
    CHECK_EQ(c.alignment, 64);
    spn__mem_free(memory);

    memory = spn__alloc(5);
    CHECK_EQ(c.alignment, sizeof(void *) * 2);
    spn__free(memory);
    CHECK_EQ(c.released, c.allocated);

    c.empty = true;
    CHECK(spn__mem_alloc(1, sizeof(void *)) == NULL);
}

/* The sanitizers' allocators answer a request they cannot serve with NULL, as
 * malloc does, rather than with a report. */
const char *__asan_default_options(void);
const char *__tsan_default_options(void);

const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

const char *__tsan_default_options(void)
{
    return "allocator_may_return_null=1";
}

/* Memory is aligned as asked and all of it usable, from the system ... */
TEST(alloc__system__aligned)
{
    static char output[65536]; /* the sanitizers' warnings, if all is well */

    if (!CHECK_EQ(t_child(use_system, NULL, output, sizeof output), 0))
        fputs(output, stderr);
}

/* ... and from a program's allocator, which gets the request unchanged and whose
 * NULL is passed on. */
TEST(alloc__custom__aligned_and_balanced)
{
    CHECK_CHILD(use_counting, NULL);
}

/* ---- threads ------------------------------------------------------------------ */

enum { SLOTS = 64 };

struct exchange {
    _Atomic(void *) slots[SLOTS];
    uint64_t seed;
};

/* Puts new blocks into random slots and releases what was there, so that most
 * blocks are released by another thread than their own. */
static void trade(int index, void *arg)
{
    struct exchange *x = arg;
    uint64_t state = x->seed + (uint64_t)index;

    for (int i = 0; i < t_rounds(5000); i++) {
        const size_t bytes = t_random(&state) % 200 + 1;
        unsigned char *memory = spn__mem_alloc(bytes, 16);

        REQUIRE(memory != NULL);
        memset(memory, index, bytes);
        spn__mem_free(atomic_exchange(&x->slots[t_random(&state) % SLOTS], memory));
    }
}

static void trade_all(void *arg)
{
    static struct exchange x;
    struct counting c = { .empty = false };
    const spn_allocator a = make(&c);

    (void)arg;
    x.seed = t_seed();
    CHECK_OK(spn_allocator_set(&a));
    t_parallel(T_THREADS, trade, &x);
    for (int i = 0; i < SLOTS; i++)
        spn__mem_free(atomic_load(&x.slots[i]));
    CHECK_EQ(c.allocated, T_THREADS * t_rounds(5000));
    CHECK_EQ(c.released, c.allocated);
    CHECK_EQ(c.strangers, 0);
}

/* Every block goes back to the allocator it came from, once, from any thread. */
TEST(alloc__many_threads__balanced)
{
    CHECK_CHILD(trade_all, NULL);
}

struct race {
    struct counting counts[T_THREADS];
    int status[T_THREADS]; /* of set; 1: did not call it */
    int setters;
    uint64_t seed;
};

/* Some threads set, the others allocate, all at once. */
static void set_or_use(int index, void *arg)
{
    struct race *r = arg;
    const spn_allocator a = make(&r->counts[index]);
    uint64_t spins = (r->seed >> (8 * index)) % 64;

    while (spins-- > 0)
        spn__cpu_relax();
    r->status[index] = 1;
    if (index < r->setters)
        r->status[index] = spn_allocator_set(&a);
    for (int i = 0; i < 3; i++)
        spn__mem_free(spn__mem_alloc(32, 16));
}

static void race_once(void *arg)
{
    static struct race r;
    int winner = -1;

    r = *(struct race *)arg;
    t_parallel(T_THREADS, set_or_use, &r);
    for (int i = 0; i < r.setters; i++) {
        if (r.status[i] == SPN_OK) {
            CHECK_EQ(winner, -1);
            winner = i;
        } else {
            CHECK_STATUS(r.status[i], SPN_ESTATE);
        }
    }
    for (int i = 0; i < T_THREADS; i++) {
        CHECK_EQ(r.counts[i].allocated, i == winner ? 3 * T_THREADS : 0);
        CHECK_EQ(r.counts[i].released, r.counts[i].allocated);
        CHECK_EQ(r.counts[i].strangers, 0);
    }
}

/* set races with set and with first use: at most one set succeeds, and it then
 * serves every allocation of the process; if none does, none is served. */
TEST(alloc__set_races_with_first_use__all_or_none)
{
    static struct race r;
    uint64_t state = t_seed();

    for (int i = 0; i < t_rounds(300); i++) {
        r.setters = 1 + i % T_THREADS;
        r.seed = t_random(&state);
        CHECK_CHILD(race_once, &r);
    }
}
