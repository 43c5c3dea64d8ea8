/* SPDX-License-Identifier: MIT */
/*
 * test_strip.c - a strip beside a plain array, under seeded random operations, with
 * bounds that come and go; and what only the inside shows: a bounded strip never lacks
 * a slot, tombstones do not pile up, chunks come and go as strip.h says.  One thread.
 */
#include "test.h"

#include <string.h>

#include "counting.h"
#include "exec/strip.h"

enum { TASKS = 8192, CHUNK = SPN__STRIP_CHUNK, MARK = 40 };

/* Entries are numbered: tasks from 0, calls from TASKS. */
static spn_task task[TASKS];
static bool waits[TASKS]; /* what the pool's mark will say */

struct model {
    struct spn__strip_in in;
    struct spn__strip_out out;
    uint64_t capacity; /* 0: none */
    int at[2 * TASKS]; /* what waits */
    int count, calls;
    uint64_t pushed;
};

static int is_call(void *arg)
{
    (void)arg;
    return 0;
}

static int task_fn(spn_task *t)
{
    (void)t;
    return 0;
}

static struct spn__entry entry_of(int n)
{
    if (n >= TASKS)
        return (struct spn__entry){ is_call, (void *)(uintptr_t)n };
    return (struct spn__entry){ spn__entry_task, &task[n] };
}

static int number_of(struct spn__entry entry)
{
    if (entry.fn == spn__entry_task)
        return (int)((spn_task *)entry.arg - task);
    CHECK(entry.fn == is_call);
    return (int)(uintptr_t)entry.arg;
}

static void model_open(struct model *m, uint64_t capacity)
{
    struct spn__strip_chunk *chunks =
        spn__strip_chunks_make(spn__strip_chunks_for(capacity));

    REQUIRE(chunks != NULL);
    memset(m, 0, sizeof *m);
    memset(waits, 0, sizeof waits);
    for (int i = 0; i < TASKS; i++)
        task[i] = (spn_task)SPN_TASK_INIT(task_fn, NULL);
    m->capacity = capacity;
    spn__strip_init(&m->in, &m->out, MARK, capacity, chunks);
}

static void model_forget(struct model *m, int place)
{
    if (m->at[place] < TASKS)
        waits[m->at[place]] = false;
    memmove(&m->at[place], &m->at[place + 1],
            (size_t)(m->count - place - 1) * sizeof(int));
    m->count--;
}

static void free_surplus(struct model *m)
{
    spn__strip_chunks_free(spn__strip_surplus(&m->out));
}

static void tidy_if_crowded(struct model *m)
{
    if (spn__strip_crowded(&m->out))
        spn__strip_tidy(&m->out);
    free_surplus(m);
}

/* A number that does not wait; a call more often than not, where few are free. */
static int fresh_number(struct model *m, uint64_t *seed)
{
    const int n = (int)(t_random(seed) % TASKS);

    if (t_random(seed) % 2 == 0 || waits[n])
        return TASKS + m->calls++;
    return n;
}

static void model_push(struct model *m, uint64_t *seed)
{
    int n;

    if (m->count >= TASKS || (m->capacity != 0 && (uint64_t)m->count >= m->capacity)) {
        CHECK(m->capacity == 0 || !spn__strip_has_room(&m->in, m->capacity));
        return;
    }
    if (m->capacity != 0) {
        CHECK(spn__strip_has_room(&m->in, m->capacity));
        REQUIRE(spn__strip_has_slot(&m->in));
    } else if (!spn__strip_has_slot(&m->in)) {
        spn__strip_give(&m->in, spn__strip_chunks_make(1), 1);
        REQUIRE(spn__strip_has_slot(&m->in));
    }
    n = fresh_number(m, seed);
    spn__strip_push(&m->in, entry_of(n));
    m->at[m->count++] = n;
    m->pushed++;
    if (n < TASKS)
        waits[n] = true;
}

static void model_take(struct model *m)
{
    struct spn__entry entry;
    const bool took = spn__strip_take(&m->out, &entry);

    CHECK_EQ(took, m->count != 0);
    if (took) {
        CHECK_EQ(number_of(entry), m->at[0]);
        model_forget(m, 0);
    }
    free_surplus(m);
}

static void model_remove(struct model *m, uint64_t *seed)
{
    int place;

    if (m->count == 0)
        return;
    place = (int)(t_random(seed) % (uint64_t)m->count);
    if (m->at[place] >= TASKS)
        return;
    CHECK(spn__strip_remove(&m->out, &task[m->at[place]]));
    model_forget(m, place);
    tidy_if_crowded(m);
}

/* Takes what is 0 modulo `modulus`, and ends behind `most` that it was shown. */
struct sweep {
    struct model *m;
    int place, shown, most, modulus;
    uint64_t taken;
};

static enum spn__strip_verdict visit(struct spn__entry entry, void *ctx)
{
    struct sweep *s = ctx;
    const int n = number_of(entry);

    if (s->shown == s->most)
        return SPN__STRIP_STOP;
    s->shown++;
    CHECK(s->place < s->m->count);
    CHECK_EQ(n, s->m->at[s->place]);
    if (s->modulus == 0 || n % s->modulus != 0) {
        s->place++;
        return SPN__STRIP_KEEP;
    }
    model_forget(s->m, s->place);
    s->taken++;
    return SPN__STRIP_TAKE;
}

static void model_sweep(struct model *m, int modulus, int most)
{
    struct sweep s = { .m = m, .modulus = modulus, .most = most };
    const int count = m->count;
    const uint64_t taken = spn__strip_sweep(&m->out, visit, &s);

    CHECK_EQ(taken, s.taken);
    CHECK_EQ(s.shown, most >= 0 && most < count ? most : count);
    free_surplus(m);
}

static void model_bound(struct model *m, uint64_t capacity)
{
    const uint64_t missing = spn__strip_reserve(&m->out, capacity);

    if (missing != 0) {
        struct spn__strip_chunk *chunks = spn__strip_chunks_make(missing);

        REQUIRE(chunks != NULL);
        spn__strip_give(&m->in, chunks, missing);
    }
    spn__strip_bound(&m->out, capacity);
    m->capacity = capacity;
    free_surplus(m);
}

static void model_compare(struct model *m)
{
    const uint64_t tombstones = spn__load(&m->out.gone, relaxed) - m->out.head;

    CHECK_EQ(spn__strip_size(&m->out), m->count);
    CHECK_EQ(spn__strip_any(&m->out), m->count != 0);
    CHECK_EQ(spn__load(&m->in.tail, relaxed), m->pushed);
    if (m->capacity != 0)
        CHECK(tombstones < m->out.slack);
    model_sweep(m, 0, -1);
}

/* Chunks that are alive are those that the strip counts, and no more than it may. */
static void model_count_chunks(struct model *m, long before)
{
    const uint64_t chunks = spn__load(&m->out.chunks, relaxed);

    CHECK_EQ(counting_live - before, chunks);
    if (m->capacity != 0 && m->count == 0)
        CHECK(chunks >= spn__strip_chunks_for(m->capacity));
}

static void model_close(struct model *m, long before)
{
    while (m->count != 0)
        model_take(m);
    model_take(m);
    model_count_chunks(m, before);
    spn__strip_fini(&m->in, &m->out);
    CHECK_EQ(counting_live, before);
}

/* One of the capacities at which chunks, slack and their rounding meet. */
static uint64_t some_capacity(uint64_t *seed)
{
    static const uint64_t some[] = {
        1,    2,         3,         4,    5,         CHUNK - 1,     CHUNK,
        1024, CHUNK + 1, 2 * CHUNK, 2048, CHUNK / 2, 4 * CHUNK + 3, 0,
        0
    };

    return some[t_random(seed) % (sizeof some / sizeof *some)];
}

/* Whatever is done, the strip has what the array has, in its order. */
TEST(strip__random_operations__as_the_array)
{
    static struct model m;
    uint64_t seed = t_seed();
    const long before = counting_live;

    for (int round = 0; round < t_rounds(60); round++) {
        int balance = 5;

        model_open(&m, some_capacity(&seed));
        for (int i = 0; i < 4000; i++) {
            const int what = (int)(t_random(&seed) % 20);

            if (i % 500 == 0) { /* pushes prevail, or takes */
                balance = 3 + (int)(t_random(&seed) % 10);
                model_compare(&m);
            }
            if (what < balance)
                for (int n = (int)(t_random(&seed) % 40); n >= 0; n--)
                    model_push(&m, &seed);
            else if (what < 16)
                for (int n = (int)(t_random(&seed) % 40); n >= 0; n--)
                    model_take(&m);
            else if (what < 19)
                for (int n = (int)(t_random(&seed) % 20); n >= 0; n--)
                    model_remove(&m, &seed);
            else if (t_random(&seed) % 8 != 0)
                model_sweep(&m, 1 + (int)(t_random(&seed) % 5),
                            (int)(t_random(&seed) % 60) - 10);
            else
                model_bound(&m, some_capacity(&seed));
        }
        model_close(&m, before);
    }
}

/* One task waits at the head; those behind it come and are taken back, for ever: no
 * slot is lacking, and no chunk more is there. */
TEST(strip__removal_behind_one_that_waits__keeps_its_memory)
{
    static const uint64_t capacities[] = { 1, 2, 3, 5, CHUNK, 1024, 4 * CHUNK, 0 };
    const long before = counting_live;

    for (size_t c = 0; c < sizeof capacities / sizeof *capacities; c++) {
        static struct model m;
        const uint64_t capacity = capacities[c];
        const uint64_t more = capacity == 0 ? 100 : capacity - 1;

        model_open(&m, capacity);
        spn__strip_push(&m.in, entry_of(0));
        for (int round = 0; round < t_rounds(2000); round++)
            for (uint64_t n = 1; n <= more && n < 64; n++) {
                if (!spn__strip_has_slot(&m.in)) {
                    REQUIRE(capacity == 0);
                    spn__strip_give(&m.in, spn__strip_chunks_make(1), 1);
                    REQUIRE(spn__strip_has_slot(&m.in));
                }
                CHECK(capacity == 0 || spn__strip_has_room(&m.in, capacity));
                spn__strip_push(&m.in, entry_of((int)n));
                CHECK(spn__strip_remove(&m.out, &task[n]));
                tidy_if_crowded(&m);
            }
        CHECK_EQ(spn__strip_size(&m.out), 1);
        CHECK(counting_live - before <=
              (long)(capacity == 0 ? 4 : spn__strip_chunks_for(capacity)));
        m.count = 1;
        waits[0] = true;
        model_close(&m, before);
    }
}

/* A bounded strip, full, emptied and filled again in any pieces: no chunk is asked for.
 */
TEST(strip__bounded__never_allocates)
{
    for (uint64_t capacity = 1; capacity <= 4 * CHUNK; capacity += 1 + capacity / 7) {
        static struct model m;
        uint64_t seed = capacity;
        const long before = counting_live;
        long allocs;

        model_open(&m, capacity);
        allocs = counting_allocs;
        for (int i = 0; i < t_rounds(400); i++) {
            const uint64_t pieces = 1 + t_random(&seed) % capacity;

            for (uint64_t n = 0; n < pieces; n++)
                model_push(&m, &seed);
            for (uint64_t n = t_random(&seed) % (pieces + 1); n != 0; n--)
                model_take(&m);
            model_remove(&m, &seed);
        }
        CHECK_EQ(counting_allocs, allocs);
        model_close(&m, before);
    }
}

/* After a burst an unbounded strip keeps a few chunks. */
TEST(strip__unbounded_after_a_burst__gives_memory_back)
{
    static struct model m;
    uint64_t seed = 1;
    const long before = counting_live;

    model_open(&m, 0);
    for (int i = 0; i < 12 * CHUNK; i++)
        model_push(&m, &seed);
    CHECK(counting_live - before >= 12);
    while (m.count != 0)
        model_take(&m);
    CHECK(counting_live - before <= 2 + SPN__STRIP_SPARES + 1);
    model_close(&m, before);
}

/* Lowered, the bound lets what waits stay, and the memory goes as it is read. */
TEST(strip__bound_lowered__what_waits_stays)
{
    static struct model m;
    uint64_t seed = 2;
    const long before = counting_live;

    model_open(&m, 8 * CHUNK);
    for (int i = 0; i < 8 * CHUNK; i++)
        model_push(&m, &seed);
    model_bound(&m, 2);
    CHECK_EQ(spn__strip_size(&m.out), 8 * CHUNK);
    while (m.count > 1) {
        CHECK_EQ(spn__strip_has_room(&m.in, 2), m.count < 2);
        model_take(&m);
    }
    CHECK_EQ(counting_live - before, spn__strip_chunks_for(2));
    model_push(&m, &seed);
    model_close(&m, before);
}

/* Chunks that are read while the missing ones are made are kept. */
TEST(strip__takes_before_the_bound_goes_up__chunks_are_kept)
{
    static struct model m;
    uint64_t seed = 3, missing;
    const long before = counting_live;

    model_open(&m, 8 * CHUNK);
    for (int i = 0; i < 8 * CHUNK; i++)
        model_push(&m, &seed);
    model_bound(&m, 2); /* and all that waits keeps its chunks */
    missing = spn__strip_reserve(&m.out, 8 * CHUNK);
    while (m.count > 1)
        model_take(&m);
    spn__strip_give(&m.in, spn__strip_chunks_make(missing), missing);
    spn__strip_bound(&m.out, 8 * CHUNK);
    CHECK_EQ(counting_live - before, spn__strip_chunks_for(8 * CHUNK));
    m.capacity = 8 * CHUNK;
    for (int i = 1; i < 8 * CHUNK; i++)
        model_push(&m, &seed);
    model_compare(&m);
    model_close(&m, before);
}

/* A task that was taken, removed or never pushed is not there to be removed, also after
 * others were moved. */
TEST(strip__remove_of_one_that_does_not_wait__false)
{
    static struct model m;
    struct spn__entry entry;

    model_open(&m, 100);
    for (int i = 0; i < 60; i++)
        spn__strip_push(&m.in, entry_of(i));
    CHECK(spn__strip_take(&m.out, &entry));
    CHECK(!spn__strip_remove(&m.out, &task[0]));
    for (int i = 1; i < 30; i++)
        CHECK(spn__strip_remove(&m.out, &task[i]));
    CHECK(!spn__strip_remove(&m.out, &task[29]));
    CHECK(!spn__strip_remove(&m.out, &task[60]));
    CHECK(spn__strip_crowded(&m.out));
    spn__strip_tidy(&m.out);
    CHECK(!spn__strip_crowded(&m.out));
    CHECK(!spn__strip_remove(&m.out, &task[0]));
    CHECK(spn__strip_remove(&m.out, &task[59]));
    CHECK(spn__strip_take(&m.out, &entry));
    CHECK_EQ(number_of(entry), 30);
    spn__strip_fini(&m.in, &m.out);
}

/* Without memory there are no chunks, and none is left. */
TEST(strip__allocation_refused__nothing_is_left)
{
    static struct model m;
    const long before = counting_live;

    counting_refuse = 1;
    CHECK(spn__strip_chunks_make(3) == NULL);
    counting_refuse = 0;
    CHECK_EQ(counting_live, before);

    /* An unbounded strip that gets none keeps what it has. */
    model_open(&m, 0);
    for (int i = 0; i < CHUNK; i++) {
        REQUIRE(spn__strip_has_slot(&m.in));
        spn__strip_push(&m.in, entry_of(i));
        m.at[m.count++] = i;
    }
    CHECK(!spn__strip_has_slot(&m.in));
    spn__strip_give(&m.in, NULL, 0);
    CHECK(!spn__strip_has_slot(&m.in));
    m.pushed = CHUNK;
    model_compare(&m);

    /* Neither does one whose bound was to go up: it keeps the old one. */
    (void)spn__strip_reserve(&m.out, 100 * CHUNK);
    spn__strip_bound(&m.out, 0);
    model_close(&m, before);
}
