/* SPDX-License-Identifier: MIT */
/*
 * test_queue_store.c - the three stores of queue/store.h beside plain models, under
 * seeded random operations; and what only the inside shows: slots of removed items hold
 * no reference, memory is asked for and given back as the header says.
 */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "queue/store.h"

enum { ITEMS = 64, MODEL = 600 };

/* Items are many of each index, told apart by a serial number. */
static uint64_t next_serial;

static void *item(int index, uint64_t serial)
{
    return (void *)(uintptr_t)((serial + 1) * ITEMS + (uint64_t)index);
}

static int index_of(const void *p)
{
    return p != NULL ? (int)((uintptr_t)p % ITEMS) : -1;
}

static uint64_t serial_of(const void *p)
{
    return (uintptr_t)p / ITEMS - 1;
}

/* A list of items in the order the store should have. */
struct model {
    int at[MODEL];
    uint64_t serial[MODEL];
    int count;
};

static void model_insert(struct model *m, int place, int index, uint64_t serial)
{
    memmove(&m->at[place + 1], &m->at[place], (size_t)(m->count - place) * sizeof(int));
    memmove(&m->serial[place + 1], &m->serial[place],
            (size_t)(m->count - place) * sizeof(uint64_t));
    m->at[place] = index;
    m->serial[place] = serial;
    m->count++;
}

static void model_remove(struct model *m, int place)
{
    memmove(&m->at[place], &m->at[place + 1],
            (size_t)(m->count - place - 1) * sizeof(int));
    memmove(&m->serial[place], &m->serial[place + 1],
            (size_t)(m->count - place - 1) * sizeof(uint64_t));
    m->count--;
}

static int model_find(const struct model *m, uint64_t serial)
{
    for (int i = 0; i < m->count; i++)
        if (m->serial[i] == serial)
            return i;
    return -1;
}

/* A walk that takes every item whose number passes a test, at most `most`. */
struct picker {
    struct model *m; /* what is taken goes from it, too */
    int modulus, rest, most, taken, shown;
    int last_place; /* array and list: shown in order */
    bool ordered;
    uint64_t seen[MODEL];
};

static int pick(void *p, void *ctx)
{
    struct picker *k = ctx;
    const uint64_t serial = serial_of(p);
    const int place = model_find(k->m, serial);

    CHECK(place >= 0 && k->m->at[place] == index_of(p));
    if (k->ordered)
        CHECK_EQ(place, k->shown - k->taken);
    for (int i = 0; i < k->shown; i++)
        CHECK(k->seen[i] != serial); /* none twice */
    k->seen[k->shown++] = serial;
    if (index_of(p) % k->modulus != k->rest)
        return SPN_QUEUE_KEEP;
    if (place >= 0)
        model_remove(k->m, place);
    k->taken++;
    return k->taken == k->most ? SPN_QUEUE_TAKE | SPN_QUEUE_STOP : SPN_QUEUE_TAKE;
}

static struct picker random_picker(struct model *m, uint64_t *seed, bool ordered)
{
    struct picker k = { .m = m, .ordered = ordered };

    k.modulus = 1 + (int)(t_random(seed) % 9);
    k.rest = (int)(t_random(seed) % (uint64_t)k.modulus);
    k.most = 1 + (int)(t_random(seed) % 6);
    if (t_random(seed) % 3 == 0)
        k.most = MODEL; /* all of them */
    return k;
}

/* ---- array ---------------------------------------------------------------------------- */

static void array_against_model(size_t cells, uint64_t *seed, int steps)
{
    struct spn_queue q = { .kind = SPN_QUEUE_ARRAY, .capacity = (int32_t)cells };
    struct spn__store s = { .queue = &q, .cell_count = cells };
    struct model m = { .count = 0 };

    s.slots = calloc(cells, sizeof *s.slots);
    REQUIRE(s.slots != NULL);
    spn__list_init(&s.nodes);
    for (int step = 0; step < steps; step++) {
        const int index = (int)(t_random(seed) % ITEMS);
        size_t nulls = 0;

        switch (t_random(seed) % 8) {
        case 0:
        case 1:
        case 2:
        case 3: {
            const uint64_t serial = next_serial++;
            const bool pushed = spn__array_push(&s, item(index, serial));

            CHECK_EQ(pushed, (size_t)m.count < cells);
            if (pushed)
                model_insert(&m, m.count, index, serial);
            break;
        }
        case 4:
        case 5:
            if (m.count > 0) {
                CHECK_EQ(index_of(spn__array_pop(&s)), m.at[0]);
                model_remove(&m, 0);
            }
            break;
        default: {
            struct picker k = random_picker(&m, seed, true);

            spn__array_walk(&s, pick, &k);
            break;
        }
        }
        CHECK_EQ(s.count, m.count);
        CHECK_EQ(index_of(spn__array_peek(&s)), m.count > 0 ? m.at[0] : -1);
        /* Slots that are not in use hold no reference. */
        for (size_t i = 0; i < cells; i++)
            nulls += s.slots[i] == NULL;
        CHECK_EQ(nulls, cells - s.count);
    }
    free(s.slots);
}

TEST(queue_store__array__as_the_model, "ABQ-2", "ABQ-7")
{
    static const size_t sizes[] = { 1, 2, 3, 7, 8, 33 };
    uint64_t seed = t_seed();

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        array_against_model(sizes[i], &seed, t_rounds(4000));
}

/* ---- heap ------------------------------------------------------------------------------- */

/* By rank, then by arrival. */
static bool less(const struct spn__store *s, const struct spn__kept *a,
                 const struct spn__kept *b)
{
    (void)s;
    return a->due_ns < b->due_ns || (a->due_ns == b->due_ns && a->serial < b->serial);
}

static bool is_heap(const struct spn__store *s)
{
    for (size_t i = 1; i < s->count; i++)
        if (less(s, &s->cells[i], &s->cells[(i - 1) / 2]))
            return false;
    return true;
}

TEST(queue_store__heap__as_the_model, "PBQ-6", "PBQ-8", "DQ-17")
{
    struct spn_queue q = { .kind = SPN_QUEUE_PRIORITY, .capacity = INT32_MAX };
    struct spn__store s = { .queue = &q };
    struct model m = { .count = 0 };
    uint64_t seed = t_seed();
    size_t largest = 0;

    spn__list_init(&s.nodes);
    for (int step = 0; step < t_rounds(20000); step++) {
        const int index = (int)(t_random(&seed) % ITEMS);

        /* It grows first, so that every run outgrows its memory. */
        switch (step < 24 ? 0 : t_random(&seed) % 8) {
        case 0:
        case 1:
        case 2:
        case 3: {
            const uint64_t serial = s.next_serial++;
            struct spn__kept kept = { item(index, serial), serial, index / 4 };
            void *memory = NULL;
            int place = m.count;

            if (m.count >= MODEL - 1)
                break;
            if (!spn__heap_push(&s, kept, less, &memory, 0)) {
                const size_t bytes = spn__store_wants(&s);

                CHECK_EQ(s.count, s.cell_count); /* only when it is full */
                CHECK(bytes > s.cell_count * sizeof *s.cells);
                /* Memory that is too small is not taken. */
                memory = malloc(bytes);
                CHECK(!spn__heap_push(&s, kept, less, &memory,
                                      s.cell_count * sizeof *s.cells));
                CHECK(spn__heap_push(&s, kept, less, &memory, bytes));
                CHECK(s.cell_count * sizeof *s.cells <= bytes);
            }
            free(memory); /* the outgrown array, or nothing */
            while (place > 0 && m.at[place - 1] / 4 > index / 4)
                place--;
            model_insert(&m, place, index, kept.serial);
            break;
        }
        case 4:
        case 5:
        case 6:
            if (m.count > 0) {
                const struct spn__kept head = spn__heap_pop(&s, less);

                CHECK_EQ(index_of(head.item), m.at[0]);
                CHECK(head.serial == m.serial[0]);
                model_remove(&m, 0);
            }
            break;
        default: {
            struct picker k = random_picker(&m, &seed, false);

            spn__heap_walk(&s, less, pick, &k);
            break;
        }
        }
        CHECK_EQ(s.count, m.count);
        CHECK(is_heap(&s));
        if (m.count > 0) {
            CHECK_EQ(index_of(s.cells[0].item), m.at[0]);
            CHECK(s.cells[0].serial == m.serial[0]);
        }
        if (s.count > largest)
            largest = s.count;
        for (size_t i = s.count; i < largest; i++)
            CHECK(s.cells[i].item == NULL); /* used before, empty now */
    }
    CHECK(largest > 20);
    free(s.cells);
}

/* A walk over a heap that takes one, several, all, from every place. */
TEST(queue_store__heap_walk__removal_from_every_place, "PBQ-6")
{
    enum { N = 31 };

    for (int first = 0; first < N; first++)
        for (int second = first; second < N; second++) {
            struct spn_queue q = { .kind = SPN_QUEUE_PRIORITY, .capacity = INT32_MAX };
            struct spn__store s = { .queue = &q };
            struct model m = { .count = 0 };
            const int modulus = second - first > 0 ? second - first : ITEMS;
            struct picker k = { .m = &m, .modulus = modulus, .most = 2 };
            void *memory;
            size_t bytes = 64 * sizeof *s.cells;

            memory = malloc(bytes);
            for (int i = 0; i < N; i++) {
                const int index = i * 12 % N;
                const uint64_t serial = s.next_serial++;
                struct spn__kept kept = { item(index, serial), serial, index };
                int place = m.count;

                CHECK(spn__heap_push(&s, kept, less, &memory, bytes));
                while (place > 0 && m.at[place - 1] > index)
                    place--;
                model_insert(&m, place, index, kept.serial);
            }
            k.rest = first % modulus;
            spn__heap_walk(&s, less, pick, &k);
            CHECK(k.taken >= 1 && k.taken <= 2);
            CHECK(is_heap(&s));
            while (m.count > 0) {
                CHECK_EQ(index_of(spn__heap_pop(&s, less).item), m.at[0]);
                model_remove(&m, 0);
            }
            CHECK_EQ(s.count, 0);
            free(s.cells);
            free(memory);
        }
}

/* ---- list -------------------------------------------------------------------------------- */

static void list_against_model(int32_t capacity, uint64_t *seed)
{
    struct spn_queue q = { .kind = SPN_QUEUE_DEQUE, .capacity = capacity };
    struct spn__store s = { .queue = &q };
    struct model m = { .count = 0 };
    const int most = capacity == INT32_MAX ? MODEL - 1 : capacity;
    int nodes = 0; /* in use and spare, by our own count */

    spn__list_init(&s.nodes);
    for (int step = 0; step < t_rounds(10000); step++) {
        const int index = (int)(t_random(seed) % ITEMS);
        const enum spn__end end = t_random(seed) % 2 == 0 ? SPN__FIRST : SPN__LAST;
        struct spn__kept_node *node;

        switch (t_random(seed) % 4) {
        case 0:
        case 1: {
            const uint64_t serial = next_serial++;
            void *memory = NULL;

            if (m.count >= most)
                break;
            if (!spn__list_store_push(&s, item(index, serial), end, NULL, &memory)) {
                CHECK_EQ(s.spare_count, 0); /* only when there is no node */
                CHECK_EQ(spn__store_wants(&s), sizeof(struct spn__kept_node));
                memory = spn__alloc(spn__store_wants(&s));
                REQUIRE(memory != NULL);
                CHECK(
                    spn__list_store_push(&s, item(index, serial), end, NULL, &memory));
                CHECK(memory == NULL); /* used */
                nodes++;
            }
            model_insert(&m, end == SPN__FIRST ? 0 : m.count, index, serial);
            break;
        }
        case 2:
            node = spn__list_store_at(&s, end);
            CHECK_EQ(node != NULL, m.count > 0);
            if (node != NULL) {
                const int place = end == SPN__FIRST ? 0 : m.count - 1;

                CHECK_EQ(index_of(node->item), m.at[place]);
                CHECK(serial_of(node->item) == m.serial[place]);
                spn__list_store_remove(&s, node);
                model_remove(&m, place);
            }
            break;
        default:
            if (m.count > 0) { /* from inside */
                struct spn__list_node *link = s.nodes.head.next;
                const int place = (int)(t_random(seed) % (uint64_t)m.count);

                for (int i = 0; i < place; i++)
                    link = link->next;
                node = spn__list_entry(link, struct spn__kept_node, link);
                CHECK_EQ(index_of(node->item), m.at[place]);
                spn__list_store_remove(&s, node);
                model_remove(&m, place);
            }
            break;
        }
        CHECK_EQ(s.count, m.count);
        CHECK(s.spare_count <= (capacity == INT32_MAX ? 64 : (size_t)capacity));
        if (capacity != INT32_MAX) /* a bounded one keeps every node */
            CHECK_EQ(s.spare_count + s.count, nodes);
        for (node = s.spare; node != NULL;
             node = (struct spn__kept_node *)(void *)node->link.next)
            CHECK(node->item == NULL && node->owner == NULL);
    }
    while (s.count != 0)
        spn__list_store_remove(&s, spn__list_store_at(&s, SPN__FIRST));
    spn__list_store_free(&s);
    CHECK(s.spare == NULL);
}

TEST(queue_store__list__as_the_model, "LBD-1", "LTQ-14")
{
    uint64_t seed = t_seed();

    list_against_model(INT32_MAX, &seed);
    list_against_model(1, &seed);
    list_against_model(100, &seed);
}
