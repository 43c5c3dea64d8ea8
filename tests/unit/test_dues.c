/* SPDX-License-Identifier: MIT */
/*
 * test_dues.c - what waits, beside a model that looks at everything: the first is what is
 * due first and, of equals, came first.  Times are chosen so that every place is used:
 * thousands in one tick, the tick that is being taken from, the far end, the past.
 */
#include "test.h"

#include "sched/dues.h"

#define TICK   (INT64_C(1) << 20)
#define ALL    4000
#define ROUNDS 6000

struct item {
    int64_t due_ns;
    uint64_t sequence;
    uint32_t slot;
    bool waits;
};

static struct item items[ALL];
static struct spn__dues q;
static uint64_t sequence;
static int64_t now_ns;

static struct spn__entry entry_of(const struct item *item)
{
    return (struct spn__entry){ NULL, (void *)(uintptr_t)item };
}

static bool comes_before(const struct item *a, const struct item *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->sequence < b->sequence;
}

static struct item *first_in_model(void)
{
    struct item *first = NULL;

    for (int i = 0; i < ALL; i++)
        if (items[i].waits && (first == NULL || comes_before(&items[i], first)))
            first = &items[i];
    return first;
}

static void add(struct item *item, int64_t due_ns)
{
    while (q.used >= q.room) {
        struct spn__dues_room room;

        REQUIRE_OK(spn__dues_room_get(&room, q.part_count));
        REQUIRE(spn__dues_room_add(&q, &room));
        spn__dues_room_free(&room);
    }
    if (spn__dues_is_far(&q, due_ns))
        spn__dues_advance(&q, now_ns);
    item->due_ns = due_ns;
    item->sequence = ++sequence;
    item->waits = true;
    item->slot = spn__dues_add(&q, entry_of(item), due_ns, item->sequence);
}

static void cut(struct item *item)
{
    REQUIRE(spn__dues_remove(&q, item->slot).arg == item);
    item->waits = false;
}

/* Takes what is due, in the model's order; up to `most`. */
static void take(uint32_t most)
{
    uint32_t slot;

    while (most-- > 0 && (slot = spn__dues_first(&q, now_ns)) != SPN__NO_SLOT) {
        struct item *first = first_in_model();

        REQUIRE(first != NULL && first->slot == slot && first->due_ns <= now_ns);
        REQUIRE(spn__dues_next(&q) <= first->due_ns);
        cut(first);
    }
    if (most != UINT32_MAX) { /* nothing is due any more */
        const struct item *first = first_in_model();

        REQUIRE(first == NULL || first->due_ns > now_ns);
        REQUIRE(spn__dues_next(&q) <= (first == NULL ? SPN_FOREVER : first->due_ns));
    }
}

/* All that waits, in order; every third goes. */
static void thin_out(void)
{
    uint32_t kept = 0;

    spn__dues_line_up(&q);
    REQUIRE(q.run.end == spn__dues_waiting(&q));
    for (uint32_t i = 0; i < q.run.end; i++) {
        const struct spn__due due = q.run.entries[i];
        struct item *item = spn__dues_slot(&q, due.slot)->entry.arg;

        REQUIRE(item->waits && item->due_ns == due.due_ns);
        if (i > 0)
            REQUIRE(due.due_ns >= q.run.entries[kept > 0 ? kept - 1 : 0].due_ns);
        if (i % 3 == 0) {
            item->waits = false;
            spn__dues_drop(&q, due.slot);
        } else {
            spn__dues_keep(&q, kept++, due);
        }
    }
    spn__dues_kept(&q, kept);
}

static int64_t some_time(uint64_t *seed)
{
    const int64_t within = (int64_t)(t_random(seed) % (uint64_t)TICK);

    switch (t_random(seed) % 8) {
    case 0:
        return now_ns - within; /* the past, and the tick that is taken from */
    case 1:
        return now_ns + within;
    case 2: /* many of one time */
        return (now_ns / TICK + 3) * TICK + within % 4;
    case 3: /* the far end */
        return now_ns + (int64_t)(t_random(seed) % 3000) * TICK + within;
    case 4:
        return SPN_FOREVER;
    default: /* many in one tick */
        return (now_ns / TICK + 2) * TICK + within;
    }
}

/* Any order of adding, taking out, and taking gives what the model gives. */
TEST(dues__at_random__in_the_order_of_the_model, "STPE-12")
{
    uint64_t seed = t_seed();

    now_ns = SPN_SEC(1);
    spn__dues_init(&q, now_ns);
    for (int round = 0; round < ROUNDS; round++) {
        struct item *item = &items[t_random(&seed) % ALL];

        switch (t_random(&seed) % 64) {
        case 0:
            now_ns += (int64_t)(t_random(&seed) % (4 * (uint64_t)TICK));
            take(UINT32_MAX);
            break;
        case 1:
            take((uint32_t)(t_random(&seed) % 8));
            break;
        case 2:
            spn__dues_sweep(&q);
            break;
        case 3:
            if (t_random(&seed) % 16 == 0)
                thin_out();
            break;
        default:
            if (item->waits && t_random(&seed) % 4 == 0)
                cut(item);
            else if (!item->waits)
                add(item, some_time(&seed));
        }
    }
    spn__dues_fini(&q);
}

/* Thousands in one tick, some of them at the same time, come out in order: sorted by
 * digits and put behind those of the tick before. */
TEST(dues__thousands_in_a_tick__in_order, "STPE-12")
{
    uint64_t seed = t_seed();
    uint64_t last = 0;
    uint32_t slot;

    now_ns = SPN_SEC(1);
    spn__dues_init(&q, now_ns);
    for (int i = 0; i < ALL; i++)
        add(&items[i], (now_ns / TICK + 2 + i % 2) * TICK +
                           (int64_t)(t_random(&seed) % 1000) * (TICK / 1000));
    for (int i = 0; i < ALL; i += 7)
        cut(&items[i]);
    now_ns += 5 * TICK;
    for (int64_t before = 0; (slot = spn__dues_first(&q, now_ns)) != SPN__NO_SLOT;) {
        struct item *item = spn__dues_slot(&q, slot)->entry.arg;

        REQUIRE(item->due_ns > before ||
                (item->due_ns == before && item->sequence > last));
        before = item->due_ns;
        last = item->sequence;
        cut(item);
    }
    REQUIRE(spn__dues_waiting(&q) == 0);
    spn__dues_fini(&q);
}
