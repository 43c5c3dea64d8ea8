/* SPDX-License-Identifier: MIT */
/* The intrusive list: each operation by itself, then all of them in random order
 * against an array. */
#include "test.h"

#include <string.h>

#include "base/list.h"

struct item {
    int before; /* so that the node is not at offset 0 */
    struct spn__list_node node;
    int value;
};

static struct item *item_of(struct spn__list_node *node)
{
    return spn__list_entry(node, struct item, node);
}

/* Whether the list holds exactly these values, seen from both ends. */
static bool holds(const struct spn__list *list, const int *values, int count)
{
    const struct spn__list_node *node;
    int i = 0;

    spn__list_each (node, list) {
        if (i == count || item_of((struct spn__list_node *)node)->value != values[i] ||
            node->next->prev != node || node->prev->next != node)
            return false;
        i++;
    }
    for (node = list->head.prev; node != &list->head; node = node->prev)
        i--;
    return i == 0 && (count == 0) == spn__list_empty(list);
}
#define HOLDS(list, ...)                        \
    holds((list), (const int[]){ __VA_ARGS__ }, \
          (int)(sizeof((const int[]){ __VA_ARGS__ }) / sizeof(int)))

static void make(struct item *items, int count)
{
    for (int i = 0; i < count; i++) {
        items[i] = (struct item){ .value = i };
        spn__list_node_init(&items[i].node);
    }
}

/* A new list is empty and has nothing to give. */
TEST(list__new__empty)
{
    struct spn__list list;

    spn__list_init(&list);
    CHECK(spn__list_empty(&list));
    CHECK(spn__list_first(&list) == NULL);
    CHECK(spn__list_pop_front(&list) == NULL);
    CHECK(holds(&list, NULL, 0));
}

/* push_back keeps the order of arrival, push_front reverses it. */
TEST(list__push_at_either_end__order)
{
    struct spn__list list;
    struct item items[4];

    spn__list_init(&list);
    make(items, 4);
    spn__list_push_back(&list, &items[0].node);
    CHECK(HOLDS(&list, 0));
    spn__list_push_back(&list, &items[1].node);
    CHECK(HOLDS(&list, 0, 1));
    spn__list_push_front(&list, &items[2].node);
    CHECK(HOLDS(&list, 2, 0, 1));
    spn__list_push_front(&list, &items[3].node);
    CHECK(HOLDS(&list, 3, 2, 0, 1));
    CHECK(item_of(spn__list_first(&list)) == &items[3]);
}

/* insert_before puts a node in the middle, at the front and at the end. */
TEST(list__insert_before__position)
{
    struct spn__list list;
    struct item items[4];

    spn__list_init(&list);
    make(items, 4);
    spn__list_push_back(&list, &items[0].node);
    spn__list_insert_before(&items[0].node, &items[1].node);
    CHECK(HOLDS(&list, 1, 0));
    spn__list_insert_before(&items[0].node, &items[2].node);
    CHECK(HOLDS(&list, 1, 2, 0));
    spn__list_insert_before(&list.head, &items[3].node);
    CHECK(HOLDS(&list, 1, 2, 0, 3));
}

/* A node knows whether it is on a list: not before, not after. */
TEST(list__membership__known_by_the_node)
{
    struct spn__list list;
    struct item items[3];

    spn__list_init(&list);
    make(items, 3);
    for (int i = 0; i < 3; i++) {
        CHECK(!spn__list_linked(&items[i].node));
        spn__list_push_back(&list, &items[i].node);
        CHECK(spn__list_linked(&items[i].node));
    }
    spn__list_remove(&items[1].node);
    CHECK(!spn__list_linked(&items[1].node));
    CHECK(HOLDS(&list, 0, 2));
    CHECK(spn__list_pop_front(&list) == &items[0].node);
    CHECK(!spn__list_linked(&items[0].node));
    CHECK(HOLDS(&list, 2));
    spn__list_remove(&items[2].node);
    CHECK(holds(&list, NULL, 0));
    spn__list_push_back(&list, &items[1].node); /* and may be added again */
    CHECK(HOLDS(&list, 1));
}

/* each_safe goes on after its node was removed, whichever nodes those are. */
TEST(list__removal_while_walking__every_subset)
{
    for (unsigned removed = 0; removed < 16; removed++) {
        struct spn__list_node *node, *following;
        struct spn__list list;
        struct item items[4];
        int left[4], count = 0, seen = 0;

        spn__list_init(&list);
        make(items, 4);
        for (int i = 0; i < 4; i++) {
            spn__list_push_back(&list, &items[i].node);
            if ((removed >> i & 1) == 0)
                left[count++] = i;
        }
        spn__list_each_safe (node, following, &list) {
            CHECK_EQ(item_of(node)->value, seen++);
            if ((removed >> item_of(node)->value & 1) != 0)
                spn__list_remove(node);
        }
        CHECK_EQ(seen, 4);
        CHECK(holds(&list, left, count));
    }
}

/* splice moves everything to the end, in order, and empties its source; each of
 * the two may be empty. */
TEST(list__splice__moves_all)
{
    for (int to_count = 0; to_count <= 2; to_count++)
        for (int from_count = 0; from_count <= 2; from_count++) {
            struct spn__list to, from;
            struct item items[4];
            int expected[4], count = 0;

            spn__list_init(&to);
            spn__list_init(&from);
            make(items, 4);
            for (int i = 0; i < to_count; i++) {
                spn__list_push_back(&to, &items[i].node);
                expected[count++] = i;
            }
            for (int i = 2; i < 2 + from_count; i++) {
                spn__list_push_back(&from, &items[i].node);
                expected[count++] = i;
            }
            spn__list_splice(&to, &from);
            CHECK(holds(&to, expected, count));
            CHECK(holds(&from, NULL, 0));
        }
}

/* ---- against a model ------------------------------------------------------ */

enum { ITEMS = 12, LISTS = 2 };

struct model {
    int values[LISTS][ITEMS], count[LISTS];
};

static void model_insert(struct model *m, int l, int at, int value)
{
    memmove(&m->values[l][at + 1], &m->values[l][at],
            (size_t)(m->count[l] - at) * sizeof(int));
    m->values[l][at] = value;
    m->count[l]++;
}

static void model_remove(struct model *m, int l, int at)
{
    m->count[l]--;
    memmove(&m->values[l][at], &m->values[l][at + 1],
            (size_t)(m->count[l] - at) * sizeof(int));
}

/* Where the value is: false for on no list. */
static bool model_find(const struct model *m, int value, int *l, int *at)
{
    for (*l = 0; *l < LISTS; ++*l)
        for (*at = 0; *at < m->count[*l]; ++*at)
            if (m->values[*l][*at] == value)
                return true;
    return false;
}

/* Any sequence of operations on two lists leaves what an array would hold. */
TEST(list__random_operations__as_an_array)
{
    struct model m = { .count = { 0 } };
    struct spn__list lists[LISTS];
    struct item items[ITEMS];
    uint64_t state = t_seed();

    for (int l = 0; l < LISTS; l++)
        spn__list_init(&lists[l]);
    make(items, ITEMS);
    for (int round = 0; round < t_rounds(100000); round++) {
        const int l = (int)(t_random(&state) % LISTS);
        const int value = (int)(t_random(&state) % ITEMS);
        struct spn__list_node *const node = &items[value].node;
        int on, at;
        const bool linked = model_find(&m, value, &on, &at);

        REQUIRE(spn__list_linked(node) == linked);
        switch (t_random(&state) % 6) {
        case 0:
            if (!linked) {
                spn__list_push_back(&lists[l], node);
                model_insert(&m, l, m.count[l], value);
            }
            break;
        case 1:
            if (!linked) {
                spn__list_push_front(&lists[l], node);
                model_insert(&m, l, 0, value);
            }
            break;
        case 2:
            if (!linked && m.count[l] > 0) {
                const int where = (int)(t_random(&state) % (uint64_t)m.count[l]);
                spn__list_insert_before(&items[m.values[l][where]].node, node);
                model_insert(&m, l, where, value);
            }
            break;
        case 3:
            if (linked) {
                spn__list_remove(node);
                model_remove(&m, on, at);
            }
            break;
        case 4: {
            struct spn__list_node *first = spn__list_first(&lists[l]);
            struct spn__list_node *popped = spn__list_pop_front(&lists[l]);
            REQUIRE(first == popped && (popped == NULL) == (m.count[l] == 0));
            if (popped != NULL) {
                REQUIRE(item_of(popped)->value == m.values[l][0]);
                model_remove(&m, l, 0);
            }
            break;
        }
        default:
            if (t_random(&state) % 4 == 0) { /* seldom, or one list is always empty */
                spn__list_splice(&lists[l], &lists[1 - l]);
                for (int i = 0; i < m.count[1 - l]; i++)
                    model_insert(&m, l, m.count[l], m.values[1 - l][i]);
                m.count[1 - l] = 0;
            }
            break;
        }
        for (int i = 0; i < LISTS; i++)
            REQUIRE(holds(&lists[i], m.values[i], m.count[i]));
    }
}
