/* SPDX-License-Identifier: MIT */
/*
 * scenario_blocks.c - the cache of small blocks: what one thread got and another
 * lets go of, while the first needs more, ends, or has been followed by another.
 * The explorer's heap finds leaks and blocks given back twice.
 */
#include "sim.h"

#include <spindle.h>

#include "sync/blocks.h"
#include "sync/seam.h"
#include "sync/thread_record.h"

/* What is in a block while it is used. */
struct content {
    SPN__ATOMIC(int) used; /* 1 while somebody has it */
    SPN__ATOMIC(int) last; /* what its last user wrote */
};

static SPN__ATOMIC(struct content *) given; /* from its thread to the other */

static void use_cache(void)
{
    struct spn_thread *self = spn__thread_self();

    sim_assert(self != NULL);
    self->blocks.always = true;
}

/* A block nobody else has. */
static struct content *get(void)
{
    struct content *c = spn__block_get(sizeof *c);

    sim_assert(c != NULL);
    return c;
}

/* Its first use: there is nothing in it yet. */
static struct content *get_new(void)
{
    struct content *c = get();

    spn__init(&c->used, 1);
    spn__init(&c->last, 0);
    return c;
}

static void put(struct content *c)
{
    /* relaxed: that these are seen in the block's next use is the cache's task. */
    spn__store(&c->last, 7, relaxed);
    spn__store(&c->used, 0, relaxed);
    spn__block_put(c);
}

static void give(struct content *c)
{
    spn__store(&given, c, release);
}

static void put_given(void *arg)
{
    struct content *c;

    (void)arg;
    use_cache();
    while ((c = spn__load(&given, acquire)) == NULL)
        spn__cpu_relax();
    put(c);
}

/* A block that another thread returned is used again by its home, after all the
 * other did with it, and by nobody else. */
SCENARIO(blocks__returned_while_home_needs_one__used_again_in_order)
{
    struct content *first, *second, *c[3];

    use_cache();
    spn__init(&given, NULL);
    first = get_new();
    second = get_new();
    sim_thread(put_given, NULL);
    give(first);
    put(second);
    for (int i = 0; i < 3; i++) {
        c[i] = get();
        if (c[i] == first || c[i] == second) {
            sim_assert(spn__load(&c[i]->used, relaxed) == 0);
            sim_assert(spn__load(&c[i]->last, relaxed) == 7);
            sim_outcome(c[i] == first);
            spn__store(&c[i]->used, 1, relaxed);
        } else {
            spn__init(&c[i]->used, 1);
            spn__init(&c[i]->last, 0);
        }
    }
    sim_assert(c[0] != c[1] && c[1] != c[2] && c[0] != c[2]);
    for (int i = 0; i < 3; i++)
        put(c[i]);
    sim_join_all();
}

/* Two threads return at once, and the home takes. */
static struct content *apart[2];

static void put_mine(void *index)
{
    use_cache();
    put(apart[(uintptr_t)index]);
}

SCENARIO(blocks__two_return_at_once__none_lost)
{
    struct content *c[2];

    use_cache();
    apart[0] = get_new();
    apart[1] = get_new();
    sim_thread(put_mine, (void *)0);
    sim_thread(put_mine, (void *)1);
    c[0] = get();
    c[1] = get();
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            if (c[i] == apart[j])
                sim_assert(spn__load(&c[i]->last, relaxed) == 7);
    sim_assert(c[0] != c[1]);
    sim_join_all();
    spn__block_put(c[0]);
    spn__block_put(c[1]);
}

/* ---- the end of the home ---------------------------------------------------------- */

static void make_and_end(void *arg)
{
    struct content *mine;

    (void)arg;
    use_cache();
    mine = get_new();
    give(get_new());
    put(mine);
}

/* The home ends while its block is on its way back: it is freed, once. */
SCENARIO(blocks__returned_while_home_ends__freed_once)
{
    spn__init(&given, NULL);
    sim_thread(make_and_end, NULL);
    put_given(NULL);
    sim_join_all();
}

static void use_two(void *arg)
{
    struct content *a, *b;

    (void)arg;
    use_cache();
    a = get_new();
    b = get_new();
    sim_assert(a != b);
    put(a);
    put(b);
}

/* The home has ended and its record is another thread's when the block comes: the
 * new one may have it. */
SCENARIO(blocks__returned_to_the_next_thread__freed_once)
{
    spn__init(&given, NULL);
    sim_join(sim_thread(make_and_end, NULL));
    sim_thread(use_two, NULL);
    put_given(NULL);
    sim_join_all();
}

/* ---- futures ----------------------------------------------------------------------- */

static spn_future *f;

static void drop(void *arg)
{
    (void)arg;
    use_cache();
    spn_future_unref(f);
}

/* A future made here whose last reference goes there, or here, while others are
 * made: each is as good as new. */
SCENARIO(blocks__last_reference_elsewhere__next_future_is_new, "FUT-1")
{
    spn_future *next[2];
    void *value;

    use_cache();
    sim_assert(spn_future_create(&f, NULL) == SPN_OK);
    sim_assert(spn_future_ref(f) == f);
    sim_thread(drop, NULL);
    sim_assert(spn_future_complete(f, &f) == 1);
    spn_future_unref(f);
    for (int i = 0; i < 2; i++) {
        sim_assert(spn_future_create(&next[i], NULL) == SPN_OK);
        sim_assert(spn_future_get_state(next[i]) == SPN_FUTURE_PENDING);
        sim_assert(spn_future_complete(next[i], next) == 1);
        sim_assert(spn_future_get(next[i], &value, 0) == SPN_OK && value == next);
    }
    sim_assert(next[0] != next[1]);
    spn_future_unref(next[0]);
    spn_future_unref(next[1]);
    sim_join_all();
}

/* No memory: the cache does not hide it, and a block that is kept needs none. */
SCENARIO(blocks__no_memory__said_so)
{
    struct spn_thread *self = spn__thread_self();
    struct content *a, *b;

    if (self == NULL)
        return;
    self->blocks.always = true;
    a = spn__block_get(sizeof *a);
    b = spn__block_get(sizeof *b);
    sim_assert(a == NULL || a != b);
    spn__block_put(a);
    if (a != NULL) {
        struct content *again = spn__block_get(sizeof *again);

        sim_assert(again == a);
        spn__block_put(again);
    }
    spn__block_put(b);
}
SCENARIO_OPTS(blocks__no_memory__said_so, .faults = true)
