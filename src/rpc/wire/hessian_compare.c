/* SPDX-License-Identifier: MIT */
/*
 * hessian_compare.c - whether two values are the same, circles included.
 *
 * Two values with parts are supposed to be the same as soon as they are met together, and
 * what follows from that is put on a list of pairs to look at: where a circle comes back
 * to them there is nothing new.  What is supposed is kept as sets that are joined, not as
 * pairs: each join leaves one set less, so there are fewer joins than values, however
 * often the two sides meet each other in different pairs.
 */
#include "rpc/wire/hessian_value.h"

#include <string.h>

struct pair {
    const spn_hvalue *a;
    const spn_hvalue *b;
};

struct comparison {
    spn_harena *arena;
    struct spn__hids
        ids; /* number: the index of another one of the same set, or its own */
    struct pair *pairs;
    size_t pair_count;
    size_t pair_capacity;
};

/* Of values without parts. */
static bool same_leaf(const spn_hvalue *a, const spn_hvalue *b)
{
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case SPN_HDOUBLE: /* NaN is itself */
        return a->is.real == b->is.real ||
               (a->is.real != a->is.real && b->is.real != b->is.real);
    case SPN_HSTRING:
    case SPN_HBINARY:
        return a->count == b->count && memcmp(a->is.bytes, b->is.bytes, a->count) == 0;
    default:
        return a->is.integer == b->is.integer;
    }
}

/* The index of a value; false: no memory. */
static bool index_of(struct comparison *c, const spn_hvalue *value, uint32_t *index)
{
    const struct spn__hid *id = spn__hids_find(&c->ids, value, NULL);

    if (id == NULL)
        id = spn__hids_add(&c->ids, c->arena, value, NULL, c->ids.count);
    if (id == NULL)
        return false;
    *index = (uint32_t)(id - c->ids.ids);
    return true;
}

/* The one that stands for the set; the way there is halved for the next time. */
static uint32_t set_of(struct spn__hid *ids, uint32_t index)
{
    while (ids[index].number != index) {
        ids[index].number = ids[ids[index].number].number;
        index = ids[index].number;
    }
    return index;
}

static bool add_pair(struct comparison *c, const spn_hvalue *a, const spn_hvalue *b)
{
    if (c->pair_count == c->pair_capacity) {
        const size_t capacity = c->pair_capacity == 0 ? 64 : c->pair_capacity * 2;
        struct pair *larger = spn__harena_grow(c->arena, c->pairs, c->pair_count,
                                               capacity, sizeof *larger);

        if (larger == NULL)
            return false;
        c->pairs = larger;
        c->pair_capacity = capacity;
    }
    c->pairs[c->pair_count++] = (struct pair){ a, b };
    return true;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

/* Everything but the items. */
static bool same_head(const spn_hvalue *a, const spn_hvalue *b)
{
    if (a->kind != b->kind || a->count != b->count ||
        !same_text(spn_hvalue_type(a), spn_hvalue_type(b)))
        return false;
    if (a->kind == SPN_HOBJECT && spn__parts(a)->type.of != spn__parts(b)->type.of)
        for (size_t i = 0; i < a->count; i++)
            if (!same_text(spn_hvalue_name_at(a, i), spn_hvalue_name_at(b, i)))
                return false;
    return true;
}

/* 1: as far as one can see; 0; or no memory. */
static int compare_pair(struct comparison *c, const spn_hvalue *a, const spn_hvalue *b)
{
    uint32_t left, right;

    if (a == b)
        return 1;
    if (!spn__has_parts(a) || !spn__has_parts(b))
        return same_leaf(a, b);
    if (!same_head(a, b))
        return 0;
    if (!index_of(c, a, &left) || !index_of(c, b, &right))
        return SPN_ENOMEM;
    left = set_of(c->ids.ids, left);
    right = set_of(c->ids.ids, right);
    if (left == right)
        return 1;
    c->ids.ids[right].number = left;
    for (size_t i = spn__slots(a); i-- > 0;)
        if (!add_pair(c, a->is.items[i], b->is.items[i]))
            return SPN_ENOMEM;
    return 1;
}

static int compare(const spn_hvalue *a, const spn_hvalue *b)
{
    const spn_harena_opts opts = { sizeof opts, 0, SIZE_MAX };
    struct comparison c = { 0 };
    int rc = spn_harena_create(&c.arena, &opts);

    if (rc != SPN_OK)
        return rc;
    rc = compare_pair(&c, a, b);
    while (rc == 1 && c.pair_count > 0) {
        const struct pair next = c.pairs[--c.pair_count];

        rc = compare_pair(&c, next.a, next.b);
    }
    spn_harena_destroy(c.arena);
    return rc;
}

int spn_hvalue_equals(const spn_hvalue *a, const spn_hvalue *b)
{
    if (a == b)
        return 1;
    if (a == NULL || b == NULL) /* NULL is null */
        return spn_hvalue_kind(a) == spn_hvalue_kind(b);
    if (!spn__has_parts(a) || !spn__has_parts(b))
        return same_leaf(a, b);
    return compare(a, b);
}
