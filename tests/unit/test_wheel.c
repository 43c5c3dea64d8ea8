/* SPDX-License-Identifier: MIT */
/*
 * test_wheel.c - the pure wheel beside a model that knows only arithmetic: a node is
 * due at the first tick boundary at or after its time, and what is due comes out by
 * tick and then in the order of adding.  Small wheels are tried with everything there
 * is; large ones at random, over spans up to the end of time.  No clock is read.
 */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include <spindle/log.h>
#include <spindle/wheel.h>

#include "counting.h"
#include "wheel/wheel.h"

struct item {
    spn_wheel_node node;
    int64_t due_ns;
    uint64_t tick;   /* at which it must come out; 0: at once */
    uint64_t serial; /* order of adding */
    bool in;
};

static struct item *item_of(spn_wheel_node *node)
{
    return (struct item *)(void *)node;
}

static spn_wheel *make(uint32_t layout, uint32_t slots, int64_t tick_ns, int64_t origin)
{
    spn_wheel_opts opts = SPN_WHEEL_OPTS_INIT;
    spn_wheel *wheel;

    opts.layout = layout;
    opts.slots = slots;
    opts.tick_ns = tick_ns;
    opts.origin_ns = origin;
    REQUIRE_OK(spn_wheel_create(&wheel, &opts));
    return wheel;
}

/* The model: when a node comes out, in ticks from the origin. */
static uint64_t tick_up(int64_t due_ns, int64_t origin, int64_t tick_ns)
{
    const uint64_t span = due_ns <= origin ? 0 : (uint64_t)due_ns - (uint64_t)origin;

    return span / (uint64_t)tick_ns + (span % (uint64_t)tick_ns != 0);
}

static uint64_t tick_down(int64_t now_ns, int64_t origin, int64_t tick_ns)
{
    return ((uint64_t)now_ns - (uint64_t)origin) / (uint64_t)tick_ns;
}

/* ---- everything, on small wheels ------------------------------------------------ */

struct shape {
    uint32_t layout, slots;
    int64_t tick_ns;
};

static const struct shape shapes[] = {
    { SPN_WHEEL_HIERARCHICAL, 4, 1 },  { SPN_WHEEL_HIERARCHICAL, 4, 3 },
    { SPN_WHEEL_HIERARCHICAL, 8, 1 },  { SPN_WHEEL_HIERARCHICAL, 8, 3 },
    { SPN_WHEEL_HIERARCHICAL, 16, 1 }, { SPN_WHEEL_HASHED, 1, 1 },
    { SPN_WHEEL_HASHED, 1, 3 },        { SPN_WHEEL_HASHED, 2, 2 },
    { SPN_WHEEL_HASHED, 4, 3 },        { SPN_WHEEL_HASHED, 8, 1 },
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Polled every nanosecond to every turn and one; and jumps over 2, 3 and 4 whole turns, with
 * a nanosecond less and more. */
static int64_t next_spacing(int64_t spacing, int64_t turn)
{
    if (spacing <= turn)
        return spacing + 1;
    for (int64_t turns = 2; turns <= 4; turns++)
        for (int64_t by = -1; by <= 1; by++)
            if (turns * turn + by > spacing)
                return turns * turn + by;
    return SPN_FOREVER;
}

/* One node alone: it comes out in the first poll whose time has reached its tick, and
 * next_expiry never points behind that. */
static void lone_node(const struct shape *s, int64_t phase, int64_t delay,
                      int64_t spacing)
{
    spn_wheel *wheel = make(s->layout, s->slots, s->tick_ns, 0);
    struct item it = { SPN_WHEEL_NODE_INIT, phase + delay, 0, 0, true };
    const int64_t fires_ns =
        delay == 0 ? phase : (int64_t)tick_up(it.due_ns, 0, s->tick_ns) * s->tick_ns;
    int64_t now = phase;

    CHECK_OK(spn_wheel_advance_to(wheel, phase));
    CHECK_OK(spn_wheel_add(wheel, &it.node, it.due_ns));
    while (it.in) {
        spn_wheel_node *node;

        CHECK_EQ(spn_wheel_next_expiry(wheel) <= now, fires_ns <= now);
        if (!CHECK(spn_wheel_next_expiry(wheel) <= fires_ns || fires_ns <= now))
            break;
        CHECK_EQ(spn_wheel_node_state(&it.node) == SPN_WHEEL_NODE_DUE, fires_ns <= now);
        node = spn_wheel_take_due(wheel);
        if (!CHECK_EQ(node != NULL, fires_ns <= now))
            break;
        if (node != NULL)
            it.in = false;
        now += spacing;
        CHECK_OK(spn_wheel_advance_to(wheel, now));
    }
    CHECK_OK(spn__wheel_check(wheel));
    CHECK_EQ(spn_wheel_count(wheel), 0);
    CHECK(spn_wheel_next_expiry(wheel) == SPN_FOREVER);
    CHECK_OK(spn_wheel_destroy(wheel));
}

/* All delays from 0 to four turns, from all phases, polled at all spacings, also of several
 * turns. */
TEST(wheel__every_delay_phase_and_spacing__due_in_its_tick, "HWT-17", "HWT-18",
     "HWT-19", "HWT-21", "HWT-43", "HWT-44", "HWT-45", "P21")
{
    for (int i = 0; i < SHAPES; i++) {
        const int64_t turn = shapes[i].slots * shapes[i].tick_ns;

        for (int64_t phase = 0; phase < turn; phase++)
            for (int64_t delay = 0; delay <= 4 * turn; delay++)
                for (int64_t spacing = 1; spacing != SPN_FOREVER;
                     spacing = next_spacing(spacing, turn))
                    lone_node(&shapes[i], phase, delay, spacing);
    }
}

/* The same delays all at once: each comes out once, in its poll, in order.  Of a hashed
 * wheel that has jumped over more than a turn only those of one tick are in order. */
static void all_delays(const struct shape *s, int64_t phase, int64_t spacing)
{
    enum { MOST = 4 * 24 + 1, TICKS = 5 * 24 + 2 };
    static struct item items[2 * MOST];
    const int64_t turn = s->slots * s->tick_ns;
    const int count = (int)(4 * turn) + 1;
    const bool sorted = s->layout == SPN_WHEEL_HIERARCHICAL || spacing <= turn;
    spn_wheel *wheel = make(s->layout, s->slots, s->tick_ns, 0);
    uint64_t served[TICKS] = { 0 }; /* the next serial that a tick may show */
    int64_t now = phase;
    int left = 2 * count;

    REQUIRE(count <= MOST);
    memset(items, 0, sizeof items);
    CHECK_OK(spn_wheel_advance_to(wheel, phase));
    for (int i = 0; i < 2 * count; i++) { /* up and down again: equal ones apart */
        const int64_t delay = i < count ? i : 2 * count - 1 - i;

        items[i].due_ns = phase + delay;
        items[i].tick = delay == 0 ? 0 : tick_up(items[i].due_ns, 0, s->tick_ns);
        items[i].serial = (uint64_t)i;
        items[i].in = true;
        CHECK_OK(spn_wheel_add(wheel, &items[i].node, items[i].due_ns));
    }
    CHECK_OK(spn__wheel_check(wheel));
    while (left > 0) {
        const uint64_t now_tick = tick_down(now, 0, s->tick_ns);
        const struct item *last = NULL;
        spn_wheel_node *node;

        while ((node = spn_wheel_take_due(wheel)) != NULL) {
            struct item *it = item_of(node);

            CHECK(it->in);
            CHECK(it->tick <= now_tick);
            CHECK(last == NULL || !sorted || last->tick <= it->tick);
            REQUIRE(it->tick < TICKS);
            CHECK(it->serial >= served[it->tick]);
            served[it->tick] = it->serial + 1;
            it->in = false;
            last = it;
            left--;
        }
        for (int i = 0; i < 2 * count; i++)
            CHECK_EQ(items[i].in, items[i].tick > now_tick);
        if (!CHECK_OK(spn__wheel_check(wheel)))
            break;
        now += spacing;
        CHECK_OK(spn_wheel_advance_to(wheel, now));
    }
    CHECK_EQ(spn_wheel_count(wheel), 0);
    CHECK_OK(spn_wheel_destroy(wheel));
}

TEST(wheel__all_delays_together__in_order_of_tick_and_adding, "HWT-23", "HWT-26",
     "HWT-43", "X-2", "P21")
{
    for (int i = 0; i < SHAPES; i++) {
        const int64_t turn = shapes[i].slots * shapes[i].tick_ns;

        for (int64_t phase = 0; phase < turn; phase++)
            for (int64_t spacing = 1; spacing != SPN_FOREVER;
                 spacing = next_spacing(spacing, turn))
                all_delays(&shapes[i], phase, spacing);
    }
}

/* ---- at random, on large ones ------------------------------------------------------- */

enum { NODES = 3000 };

/* 0 .. 2^bits, small values as likely as large ones. */
static int64_t span(uint64_t *seed, unsigned bits)
{
    const uint64_t width = t_random(seed) % (bits + 1);

    return width == 0 ? 0 : (int64_t)(t_random(seed) >> (64 - width));
}

struct world {
    spn_wheel *wheel;
    struct item items[NODES];
    int64_t origin, tick_ns, now;
    int64_t
        turn_ns;  /* beyond which a jump leaves no order by tick; SPN_FOREVER: none */
    bool ordered; /* what is due is by tick, after the last jump */
    uint64_t serial;
};

static void add_one(struct world *x, struct item *it, int64_t due_ns)
{
    it->due_ns = due_ns;
    it->tick = due_ns <= x->now ? 0 : tick_up(due_ns, x->origin, x->tick_ns);
    it->serial = ++x->serial;
    it->in = true;
    CHECK_OK(spn_wheel_add(x->wheel, &it->node, due_ns));
    CHECK_EQ(spn_wheel_node_state(&it->node) == SPN_WHEEL_NODE_DUE, due_ns <= x->now);
}

static bool is_out(const struct world *x, const struct item *it)
{
    if (x->now == SPN_FOREVER)
        return true;
    return it->tick <= tick_down(x->now, x->origin, x->tick_ns);
}

/* Takes what is due and compares with the model. */
static void take_all(struct world *x)
{
    const struct item *last = NULL;
    spn_wheel_node *node;

    while ((node = spn_wheel_take_due(x->wheel)) != NULL) {
        struct item *it = item_of(node);

        CHECK(it->in);
        CHECK(is_out(x, it));
        CHECK(it->due_ns <= x->now); /* never early, to the nanosecond */
        CHECK_EQ(node->due_ns, it->due_ns);
        if (last != NULL && x->ordered)
            CHECK(last->tick <= it->tick);
        if (last != NULL && last->tick == it->tick)
            CHECK(last->serial < it->serial);
        it->in = false;
        last = it;
    }
    for (int i = 0; i < NODES; i++)
        if (x->items[i].in && !CHECK(!is_out(x, &x->items[i])))
            break;
}

static void count_visit(spn_wheel_node *node, void *ctx)
{
    CHECK(item_of(node)->in);
    ++*(size_t *)ctx;
}

static void check_world(struct world *x)
{
    size_t in = 0, visited = 0;
    int64_t first = SPN_FOREVER;

    for (int i = 0; i < NODES; i++) {
        const struct item *it = &x->items[i];
        uint64_t at;

        in += it->in;
        CHECK_EQ(spn_wheel_node_state(&it->node) != SPN_WHEEL_NODE_OUT, it->in);
        if (!it->in)
            continue;
        at = it->tick * (uint64_t)x->tick_ns + (uint64_t)x->origin;
        if (at < (uint64_t)first)
            first = (int64_t)at;
    }
    CHECK_EQ(spn_wheel_count(x->wheel), in);
    CHECK_OK(spn_wheel_each(x->wheel, count_visit, &visited));
    CHECK_EQ(visited, in);
    CHECK(spn_wheel_next_expiry(x->wheel) <= first);
    CHECK(spn_wheel_next_expiry(x->wheel) > x->now);
    CHECK_OK(spn__wheel_check(x->wheel));
}

static void random_world(struct world *x, uint64_t *seed, uint32_t layout,
                         uint32_t slots, int64_t tick_ns, unsigned bits)
{
    memset(x, 0, sizeof *x);
    x->origin = x->now = span(seed, 40);
    x->tick_ns = tick_ns;
    x->turn_ns = layout == SPN_WHEEL_HASHED ? slots * tick_ns : SPN_FOREVER;
    x->wheel = make(layout, slots, tick_ns, x->origin);
    for (int round = 0; round < t_rounds(150) && x->now != SPN_FOREVER; round++) {
        const unsigned kind = (unsigned)(t_random(seed) % 8);
        const int64_t before = x->now;

        for (int i = 0; i < 60; i++) {
            struct item *it = &x->items[t_random(seed) % NODES];

            if (it->in && t_random(seed) % 4 != 0) {
                CHECK_EQ(spn_wheel_remove(x->wheel, &it->node), 1);
                CHECK_EQ(spn_wheel_remove(x->wheel, &it->node), 0);
                it->in = false;
            } else if (!it->in) {
                const int64_t delay = span(seed, bits);

                add_one(x, it, delay > INT64_MAX - x->now ? INT64_MAX : x->now + delay);
            } else {
                CHECK_STATUS(spn_wheel_add(x->wheel, &it->node, 1), SPN_EBUSY);
            }
        }
        if (kind < 4) { /* as far as the wheel asks for */
            if (spn_wheel_next_expiry(x->wheel) > x->now)
                x->now = spn_wheel_next_expiry(x->wheel);
        } else {
            const int64_t jump = span(seed, kind == 7 ? bits : bits / 2);

            x->now = jump > INT64_MAX - x->now ? INT64_MAX : x->now + jump;
        }
        x->ordered = x->now - before <= x->turn_ns;
        CHECK_OK(spn_wheel_advance_to(x->wheel, x->now));
        CHECK_OK(spn__wheel_check(x->wheel));
        CHECK_OK(spn_wheel_advance_to(x->wheel, x->now - 1)); /* changes nothing */
        CHECK_EQ(x->wheel->now_ns, x->now);
        take_all(x);
        if (x->now != SPN_FOREVER)
            check_world(x);
    }
    x->now = SPN_FOREVER;
    x->ordered = x->turn_ns == SPN_FOREVER;
    CHECK_OK(spn_wheel_advance_to(x->wheel, SPN_FOREVER));
    take_all(x);
    CHECK_EQ(spn_wheel_count(x->wheel), 0);
    CHECK_OK(spn__wheel_check(x->wheel));
    CHECK_OK(spn_wheel_destroy(x->wheel));
}

/* Adds, removals and jumps at random, over spans from nanoseconds to centuries. */
TEST(wheel__random_life__as_the_model, "HWT-43", "HWT-44", "HWT-45", "HWT-46", "X-4",
     "P20", "P21", "P29")
{
    static const uint32_t slots[] = { 4, 64, 512, 2048, 8192 };
    static const int64_t ticks[] = { 1, 7, SPN_US(1), SPN_MS(1), 1 << 20, SPN_MS(100) };
    static struct world world;
    uint64_t seed = t_seed();

    for (int s = 0; s < 5; s++)
        for (int t = 0; t < 6; t++)
            for (unsigned bits = 20; bits <= 63; bits += 43) {
                random_world(&world, &seed, SPN_WHEEL_HIERARCHICAL, slots[s], ticks[t],
                             bits);
                random_world(&world, &seed, SPN_WHEEL_HASHED, slots[s], ticks[t], bits);
            }
}

/* A century passes tick by tick of the wheel's own asking: everything on time, and a
 * lone node is asked for no more often than there are levels. */
TEST(wheel__driven_by_next_expiry__on_time_and_seldom_asked, "HWT-44", "HWT-18")
{
    static const int64_t tick_ns = SPN_MS(1);
    uint64_t seed = t_seed();

    for (int round = 0; round < t_rounds(2000); round++) {
        spn_wheel *wheel = make(SPN_WHEEL_HIERARCHICAL, 512, tick_ns, 0);
        struct item it = { SPN_WHEEL_NODE_INIT, 1 + span(&seed, 62), 0, 0, true };
        int asked = 0;

        CHECK_OK(spn_wheel_add(wheel, &it.node, it.due_ns));
        while (spn_wheel_take_due(wheel) == NULL && asked < 100) {
            const int64_t next = spn_wheel_next_expiry(wheel);

            CHECK(next > wheel->now_ns);
            CHECK_OK(spn_wheel_advance_to(wheel, next));
            asked++;
        }
        CHECK(asked <= 10);
        CHECK(wheel->now_ns >= it.due_ns);
        CHECK(wheel->now_ns - it.due_ns < tick_ns);
        CHECK_OK(spn_wheel_destroy(wheel));
    }
}

/* ---- many nodes in few slots -------------------------------------------------------- */

/* A slot of the second level with far more nodes than are moved at a time: they are
 * moved over several calls and still come out in order, in their ticks. */
TEST(wheel__crowded_slot__moved_bit_by_bit_in_order, "HWT-23", "HWT-24")
{
    enum { CROWD = 20000 };
    struct item *items = calloc(CROWD, sizeof *items);
    spn_wheel *wheel = make(SPN_WHEEL_HIERARCHICAL, 512, 1, 0);
    uint64_t seed = t_seed();
    uint64_t serial = 0;
    int taken = 0;

    REQUIRE(items != NULL);
    for (int i = 0; i < CROWD / 2; i++) {
        items[i].due_ns = 1600 + (int64_t)(t_random(&seed) % 64);
        CHECK_OK(spn_wheel_add(wheel, &items[i].node, items[i].due_ns));
    }
    for (int64_t now = 1; now < 1700; now++) {
        int64_t last = 0;
        spn_wheel_node *node;

        CHECK_OK(spn_wheel_advance_to(wheel, now));
        if (now == 1599)
            CHECK(spn_wheel_next_expiry(wheel) == 1600);
        if (now % 13 == 0 && now > 1200 && now < 1590) { /* while it is being moved */
            for (int i = 0; i < 50 && serial < CROWD / 2; i++, serial++) {
                struct item *it = &items[CROWD / 2 + serial];

                it->due_ns = 1600 + (int64_t)(t_random(&seed) % 64);
                CHECK_OK(spn_wheel_add(wheel, &it->node, it->due_ns));
            }
            CHECK_OK(spn__wheel_check(wheel));
        }
        while ((node = spn_wheel_take_due(wheel)) != NULL) {
            const int64_t index = item_of(node) - items;

            CHECK_EQ(item_of(node)->due_ns, now);
            CHECK(index >= last);
            last = index;
            taken++;
        }
    }
    CHECK_EQ(taken, CROWD / 2 + (int)serial);
    CHECK(serial > 500);
    CHECK_OK(spn__wheel_check(wheel));
    CHECK_OK(spn_wheel_destroy(wheel));
    free(items);
}

/* ---- edges ------------------------------------------------------------------------- */

/* Slots are rounded up to a power of two: two nodes a turn of the rounded wheel apart
 * share a slot, so a hashed wheel asks to be called a turn early for the later one. */
TEST(wheel__slots__rounded_up_to_a_power_of_two, "HWT-3")
{
    spn_wheel *wheel = make(SPN_WHEEL_HASHED, 5, 10, 0);
    spn_wheel_node node = SPN_WHEEL_NODE_INIT;

    CHECK_OK(spn_wheel_add(wheel, &node, 90)); /* tick 9, slot 1 of 8 */
    CHECK_EQ(spn_wheel_next_expiry(wheel), 10);
    CHECK_OK(spn_wheel_advance_to(wheel, 10));
    CHECK(spn_wheel_take_due(wheel) == NULL);
    CHECK_EQ(spn_wheel_next_expiry(wheel), 90);
    CHECK_EQ(spn_wheel_remove(wheel, &node), 1);
    CHECK_OK(spn_wheel_destroy(wheel));
}

/* Whoever was removed is not waited for: the next expiry is that of the first who is
 * left, also in a slot that had others, and there is none when all are gone. */
TEST(wheel__removed__no_longer_the_next_to_expire, "HWT-44")
{
    static const uint32_t layouts[] = { SPN_WHEEL_HIERARCHICAL, SPN_WHEEL_HASHED };

    for (size_t i = 0; i < 2; i++) {
        spn_wheel *wheel = make(layouts[i], 64, 10, 0);
        spn_wheel_node nodes[3] = { SPN_WHEEL_NODE_INIT, SPN_WHEEL_NODE_INIT,
                                    SPN_WHEEL_NODE_INIT };

        CHECK_OK(spn_wheel_add(wheel, &nodes[0], 50));
        CHECK_OK(spn_wheel_add(wheel, &nodes[1], 90));
        CHECK_OK(spn_wheel_add(wheel, &nodes[2], 90));
        CHECK_EQ(spn_wheel_remove(wheel, &nodes[0]), 1);
        CHECK_EQ(spn_wheel_next_expiry(wheel), 90);
        CHECK_EQ(spn_wheel_remove(wheel, &nodes[1]), 1);
        CHECK_EQ(spn_wheel_next_expiry(wheel), 90);
        CHECK_OK(spn_wheel_add(wheel, &nodes[0], 50)); /* where one was before */
        CHECK_EQ(spn_wheel_next_expiry(wheel), 50);
        CHECK_EQ(spn_wheel_remove(wheel, &nodes[0]), 1);
        CHECK_EQ(spn_wheel_remove(wheel, &nodes[2]), 1);
        CHECK_OK(spn__wheel_check(wheel));
        CHECK(spn_wheel_next_expiry(wheel) == SPN_FOREVER);
        CHECK_OK(spn_wheel_advance_to(wheel, 1000));
        CHECK(spn_wheel_take_due(wheel) == NULL);
        CHECK_OK(spn_wheel_destroy(wheel));
    }
}

/* A tick of any length ends neither a nanosecond early nor late, however many there were
 * before it. */
TEST(wheel__ticks_of_any_length__told_exactly, "HWT-17", "HWT-18")
{
    static const int64_t ticks[] = {
        1,          3,          7,         64,
        1000003,    999999937,  INT32_MAX, INT64_C(1) << 32,
        4294967297, SPN_SEC(1), SPN_MS(1), INT64_MAX / 5
    };
    uint64_t random = UINT64_C(0x9e3779b97f4a7c15);

    for (size_t i = 0; i < sizeof ticks / sizeof *ticks; i++)
        for (int round = 0; round < 64; round++) {
            const uint64_t most = (uint64_t)(INT64_MAX / ticks[i]);
            const int64_t due =
                (int64_t)((round == 0 ? most : (random >> 1) % most + 1) *
                          (uint64_t)ticks[i]);
            spn_wheel *wheel = make(SPN_WHEEL_HIERARCHICAL, 4, ticks[i], 0);
            spn_wheel_node node = SPN_WHEEL_NODE_INIT;

            random = random * UINT64_C(6364136223846793005) + 1;
            CHECK_OK(spn_wheel_add(wheel, &node, due));
            CHECK_OK(spn_wheel_advance_to(wheel, due - 1));
            CHECK(spn_wheel_take_due(wheel) == NULL);
            CHECK_OK(spn_wheel_advance_to(wheel, due));
            CHECK(spn_wheel_take_due(wheel) == &node);
            CHECK_OK(spn_wheel_destroy(wheel));
        }
}

TEST(wheel__bad_options__refused, "HWT-2")
{
    static const struct {
        int64_t tick_ns, origin_ns;
        uint32_t slots, layout;
        int expected;
    } cases[] = {
        { -1, 0, 8, 0, SPN_EINVAL },
        { INT64_MIN, 0, 8, 0, SPN_EINVAL },
        { 1, -1, 8, 0, SPN_EINVAL },
        { 1, 0, SPN_WHEEL_SLOTS_MAX + 1, 1, SPN_EINVAL },
        { INT64_MAX / 8, 0, 8, 1, SPN_EINVAL },
        { INT64_MAX / 8 - 1, 0, 8, 1, SPN_OK },
        { INT64_MAX / 8 - 1, 0, 8, 0, SPN_OK },
        /* A turn of the slots asked for fits, one of those rounded up does not. */
        { INT64_MAX / 6, 0, 5, 0, SPN_EINVAL },
        { INT64_MAX / 6, 0, 5, 1, SPN_EINVAL },
        { INT64_MAX / 8 - 1, 0, 5, 1, SPN_OK },
        { INT64_MAX / 3, 0, 1, 0, SPN_EINVAL },
        { INT64_MAX / 3, 0, 1, 1, SPN_OK },
        { 1, 0, 8, 2, SPN_EINVAL },
        { 1, INT64_MAX, 8, 0, SPN_OK },
        { 0, 0, 0, 0, SPN_OK },
        { 1, 0, 1, 0, SPN_OK },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        spn_wheel_opts opts = SPN_WHEEL_OPTS_INIT;
        spn_wheel *wheel = (spn_wheel *)(void *)&opts;
        spn_wheel_node node = SPN_WHEEL_NODE_INIT;

        opts.tick_ns = cases[i].tick_ns;
        opts.origin_ns = cases[i].origin_ns;
        opts.slots = cases[i].slots;
        opts.layout = cases[i].layout;
        CHECK_STATUS(spn_wheel_create(&wheel, &opts), cases[i].expected);
        CHECK_EQ(wheel != NULL, cases[i].expected == SPN_OK);
        if (wheel == NULL)
            continue;
        CHECK_OK(spn_wheel_add(wheel, &node, SPN_FOREVER));
        CHECK_STATUS(spn_wheel_destroy(wheel), SPN_EBUSY); /* and changes nothing */
        CHECK_OK(spn__wheel_check(wheel));
        CHECK_OK(spn_wheel_advance_to(wheel, SPN_FOREVER));
        CHECK(spn_wheel_take_due(wheel) == &node);
        CHECK_OK(spn_wheel_destroy(wheel));
    }
}

/* Short nodes are not disturbed by huge ones beside them; those never come early. */
TEST(wheel__huge_times__saturate, "X-4", "HWT-20", "P20")
{
    spn_wheel *wheel = make(SPN_WHEEL_HIERARCHICAL, 64, 1000, INT64_MAX - 5000000);
    spn_wheel_node far[3], near = SPN_WHEEL_NODE_INIT;

    memset(far, 0, sizeof far);
    CHECK_OK(spn_wheel_add(wheel, &far[0], SPN_FOREVER));
    CHECK_OK(spn_wheel_add(wheel, &far[1], SPN_FOREVER - 1));
    CHECK_OK(spn_wheel_add(wheel, &far[2], INT64_MIN));
    CHECK_OK(spn_wheel_add(wheel, &near, INT64_MAX - 4000000));
    CHECK(spn_wheel_take_due(wheel) == &far[2]);
    CHECK(spn_wheel_take_due(wheel) == NULL);
    CHECK_OK(spn_wheel_advance_to(wheel, INT64_MAX - 3999000));
    CHECK(spn_wheel_take_due(wheel) == &near);
    CHECK_OK(spn_wheel_advance_to(wheel, INT64_MAX - 1));
    CHECK(spn_wheel_take_due(wheel) == NULL);
    CHECK_EQ(spn_wheel_remove(wheel, &far[1]), 1);
    CHECK_OK(spn_wheel_advance_to(wheel, SPN_FOREVER));
    CHECK(spn_wheel_take_due(wheel) == &far[0]);
    CHECK_OK(spn__wheel_check(wheel));
    CHECK_OK(spn_wheel_destroy(wheel));
}

static void mute(void *ctx, spn_log_level level, const char *message)
{
    (void)level;
    (void)message;
    ++*(int *)ctx;
}

/* The check finds what a program has written over. */
TEST(wheel__node_damaged__check_says_so, "HWT-43")
{
    static int logged;
    spn_wheel *wheel = make(SPN_WHEEL_HIERARCHICAL, 8, 1, 0);
    spn_wheel_node a = SPN_WHEEL_NODE_INIT, b = SPN_WHEEL_NODE_INIT, kept;
    spn_wheel_link *prev;

    CHECK_OK(spn_log_set_hook(mute, &logged));
    CHECK_OK(spn_wheel_add(wheel, &a, 5));
    CHECK_OK(spn_wheel_add(wheel, &b, 500));
    CHECK_OK(spn__wheel_check(wheel));
    kept = a;
    a.due_ns = 6;
    CHECK_STATUS(spn__wheel_check(wheel), SPN_ESTATE);
    a = kept;
    a.place = 3;
    CHECK_STATUS(spn__wheel_check(wheel), SPN_ESTATE);
    a = kept;
    a.due_ns = INT64_MIN;
    CHECK_STATUS(spn__wheel_check(wheel), SPN_ESTATE);
    a = kept;
    prev = b.link.prev;
    b.link.prev = &a.link;
    CHECK_STATUS(spn__wheel_check(wheel), SPN_ESTATE);
    b.link.prev = prev;
    CHECK_OK(spn__wheel_check(wheel));
    CHECK_EQ(logged, 4);
    CHECK_EQ(spn_wheel_remove(wheel, &a), 1);
    CHECK_EQ(spn_wheel_remove(wheel, &b), 1);
    CHECK_OK(spn_wheel_destroy(wheel));
}

static void remove_visit(spn_wheel_node *node, void *ctx)
{
    CHECK_EQ(spn_wheel_remove(ctx, node), 1);
}

/* Every node may be removed by the walk that shows it. */
TEST(wheel__removed_while_walking__visits_each_once, "HWT-45")
{
    enum { MANY = 500 };
    static spn_wheel_node nodes[MANY];
    spn_wheel *wheel = make(SPN_WHEEL_HIERARCHICAL, 16, 1, 100);
    const long live = atomic_load(&counting_live);

    for (int i = 0; i < MANY; i++)
        CHECK_OK(spn_wheel_add(wheel, &nodes[i], i * (int64_t)i));
    CHECK_EQ(spn_wheel_count(wheel), MANY);
    CHECK_OK(spn_wheel_each(wheel, remove_visit, wheel));
    CHECK_EQ(spn_wheel_count(wheel), 0);
    CHECK_OK(spn__wheel_check(wheel));
    CHECK_EQ(atomic_load(&counting_live), live); /* nothing but create allocates */
    CHECK_OK(spn_wheel_destroy(wheel));
    atomic_store(&counting_refuse, 1);
    CHECK_STATUS(spn_wheel_create(&wheel, NULL), SPN_ENOMEM);
    atomic_store(&counting_refuse, 0);
    CHECK(wheel == NULL);
}

/* A wheel that was just made reaches as far ahead in each level as it ever does, but for what
 * the width of a slot takes: nodes are not filed a level too high, to be moved once more. */
TEST(wheel__new__each_level_reaches_all_its_slots)
{
    for (uint32_t slots = 64; slots <= 4096; slots *= 2) {
        spn_wheel_opts opts = SPN_WHEEL_OPTS_INIT;
        spn_wheel *w;

        opts.slots = slots;
        REQUIRE_OK(spn_wheel_create(&w, &opts));
        for (uint32_t i = 0; i < w->top; i++)
            CHECK(w->levels[i].limit + (UINT64_C(2) << w->step_bits) >=
                  w->levels[i].cursor + slots);
        CHECK_OK(spn__wheel_check(w));
        CHECK_OK(spn_wheel_destroy(w));
    }
}
