/* SPDX-License-Identifier: MIT */
/* test_limiter.c - what a limiter's memory follows: the tasks there are, not its limits. */
#include "test.h"

#include <stdlib.h>

#include <spindle.h>

#include "exec/pending.h"

/* ---- an allocator that counts bytes ------------------------------------------------- */

enum { HEAD = 64 }; /* in front of each block, where its size is; keeps it aligned */

static long bytes_live, allocs;
static long fail_from; /* 0, or the number of the first that fails, as all behind it */

static void *count_alloc(void *ctx, size_t bytes, size_t alignment)
{
    void *memory = NULL;

    (void)ctx;
    if ((fail_from != 0 && allocs + 1 >= fail_from) ||
        posix_memalign(&memory, alignment > HEAD ? alignment : HEAD, HEAD + bytes) != 0)
        return NULL;
    REQUIRE(alignment <= HEAD);
    allocs++;
    bytes_live += (long)bytes;
    *(size_t *)memory = bytes;
    return (char *)memory + HEAD;
}

static void count_release(void *ctx, void *memory)
{
    size_t *head = (void *)((char *)memory - HEAD);

    (void)ctx;
    bytes_live -= (long)*head;
    free(head);
}

__attribute__((constructor)) static void count_set(void)
{
    const spn_allocator allocator = { sizeof allocator, count_alloc, count_release,
                                      NULL };

    if (spn_allocator_set(&allocator) != SPN_OK)
        abort();
}

/* ---- tasks ---------------------------------------------------------------------------- */

enum { MANY = 100000 };

struct numbered {
    spn_task task; /* first */
    int number;
    bool is_here; /* accepted, and neither run nor taken back */
};

static struct numbered tasks[MANY];
static int ran, last_ran, told;
static spn_manual_executor *behind;
static spn_limiter *limiter;

static int run(spn_task *task)
{
    struct numbered *t = (struct numbered *)(void *)task;

    CHECK(t->is_here);
    t->is_here = false;
    last_ran = t->number;
    ran++;
    return 0;
}

static void count_refused(void *ctx, spn_limiter_reason reason,
                          const spn_limiter_stats *stats)
{
    (void)ctx;
    (void)reason;
    (void)stats;
    told++;
}

static void open_limiter(int32_t in_flight, int32_t waiting)
{
    spn_limiter_opts opts = SPN_LIMITER_OPTS_INIT;

    for (int i = 0; i < MANY; i++)
        tasks[i] = (struct numbered){ SPN_TASK_INIT(run, NULL), i, false };
    ran = told = 0;
    opts.refused = count_refused;
    REQUIRE_OK(spn_manual_executor_create(&behind));
    opts.executor = spn_manual_executor_executor(behind);
    opts.max_in_flight = in_flight;
    opts.max_waiting = waiting;
    REQUIRE_OK(spn_limiter_create(&limiter, &opts));
}

static void close_limiter(void)
{
    CHECK_OK(spn_limiter_destroy(limiter));
    CHECK_OK(spn_manual_executor_destroy(behind));
}

static int submit(int i)
{
    const int rc = spn_executor_execute(spn_limiter_executor(limiter), &tasks[i].task);

    tasks[i].is_here = rc == SPN_OK;
    return rc;
}

static int take_back(int i)
{
    const int rc = spn_executor_remove(spn_limiter_executor(limiter), &tasks[i].task);

    if (rc == 1)
        tasks[i].is_here = false;
    return rc;
}

static spn_limiter_stats stats_of(void)
{
    spn_limiter_stats s = SPN_LIMITER_STATS_INIT;

    CHECK_OK(spn_limiter_stats_get(limiter, &s));
    return s;
}

/* ---- memory --------------------------------------------------------------------------- */

/* The limits cost nothing. */
TEST(limiter__created_for_a_million__few_kilobytes, "LIM-1")
{
    long before;

    CHECK(spn_thread_current() != NULL); /* has a record */
    before = bytes_live;
    open_limiter(SPN_LIMITER_TASKS_MAX / 2, SPN_LIMITER_TASKS_MAX / 2);
    CHECK(bytes_live - before <= 4096);
    close_limiter();
    CHECK_EQ(bytes_live, before);
}

/* While many come and while they go, in the order they came, a task that waits takes no
 * more than 32 bytes; in the end nothing is left but what one task needs. */
TEST(limiter__many_wait__32_bytes_each_given_back, "LIM-1")
{
    enum { FEW = 500 };
    long empty, most = 0;

    open_limiter(1, SPN_UNBOUNDED);
    REQUIRE_OK(submit(0));
    empty = bytes_live;
    for (int i = 1; i < MANY; i++) {
        REQUIRE_OK(submit(i));
        if (i >= FEW && bytes_live - empty > 32 * (long)i)
            CHECK_EQ(bytes_live - empty, 32 * (long)i); /* tells how many */
    }
    most = bytes_live - empty;
    CHECK(most > 8 * MANY);
    for (int i = 0; i < MANY; i++) {
        REQUIRE(spn_manual_executor_run(behind, 1) == 1);
        CHECK_EQ(last_ran, i);
        if (i < MANY - FEW && bytes_live - empty > 32 * (long)(MANY - i))
            CHECK_EQ(bytes_live - empty, 32 * (long)(MANY - i));
    }
    CHECK_EQ(ran, MANY);
    CHECK_EQ(bytes_live, empty);
    close_limiter();
}

/* The same for those that are taken back while nothing ends, every other one first: no
 * gap is left that nobody fills. */
TEST(limiter__taken_back_from_the_middle__memory_given_back, "LIM-1", "TPE-43")
{
    long empty;

    open_limiter(1, SPN_UNBOUNDED);
    REQUIRE_OK(submit(0));
    empty = bytes_live;
    for (int i = 1; i < MANY; i++)
        REQUIRE_OK(submit(i));
    for (int i = 1; i < MANY; i += 2)
        CHECK_EQ(take_back(i), 1);
    CHECK(bytes_live - empty <= 32 * MANY / 2);
    for (int i = 2; i < MANY - 2; i += 2)
        CHECK_EQ(take_back(i), 1);
    CHECK(bytes_live - empty <= 512); /* an empty chunk is kept */
    CHECK(spn_manual_executor_run(behind, INT64_MAX) >= 0);
    CHECK_EQ(last_ran, MANY - 2);
    CHECK_EQ(ran, 2);
    CHECK_EQ(stats_of().returned, MANY - 2);
    close_limiter();
}

/* What was in flight is given back but for a few, which the next ones get. */
TEST(limiter__many_in_flight__slots_given_back, "LIM-1")
{
    long empty, before;

    open_limiter(MANY, 0);
    empty = bytes_live;
    for (int i = 0; i < MANY; i++)
        REQUIRE_OK(submit(i));
    CHECK(spn_manual_executor_run(behind, INT64_MAX) >= 0);
    CHECK_EQ(ran, MANY);
    CHECK(bytes_live - empty < 8192);
    before = allocs;
    for (int i = 0; i < 10; i++)
        REQUIRE_OK(submit(i));
    CHECK(spn_manual_executor_run(behind, INT64_MAX) >= 0);
    CHECK_EQ(allocs, before);
    close_limiter();
}

/* A number of tasks that goes up and down a little, wherever that is, costs no
 * allocation. */
TEST(limiter__up_and_down_a_little__allocates_nothing, "LIM-1")
{
    long before;

    open_limiter(1, SPN_UNBOUNDED);
    for (int i = 0; i < 2000; i++) {
        REQUIRE_OK(submit(i));
        REQUIRE_OK(submit(MANY - 1));
        CHECK_EQ(take_back(MANY - 1), 1);
        before = allocs;
        for (int n = 0; n < 3; n++) {
            REQUIRE_OK(submit(MANY - 1));
            CHECK_EQ(take_back(MANY - 1), 1);
        }
        CHECK_EQ(allocs, before);
    }
    CHECK(spn_manual_executor_run(behind, INT64_MAX) >= 0);
    close_limiter();
}

/* Without a limit none is refused, and the stats say so. */
TEST(limiter__unbounded__none_refused, "LIM-4")
{
    open_limiter(2, SPN_UNBOUNDED);
    CHECK_EQ(stats_of().max_waiting, INT32_MAX);
    for (int i = 0; i < MANY; i++)
        REQUIRE_OK(submit(i));
    CHECK_EQ(stats_of().waiting, MANY - 2);
    CHECK_EQ(stats_of().refused_full, 0);
    CHECK(spn_manual_executor_run(behind, INT64_MAX) >= 0);
    CHECK_EQ(stats_of().completed, MANY);
    close_limiter();
}

/* Two threads that find no room: the chunk of the slower one is of no use. */
TEST(limiter__chunk_came_meanwhile__not_added)
{
    struct spn__pending pending;
    struct spn__pending_entry *first = spn__pending_chunk_get(0),
                              *second = spn__pending_chunk_get(0);

    REQUIRE(first != NULL && second != NULL);
    spn__pending_init(&pending);
    CHECK(!spn__pending_has_room(&pending));
    CHECK(spn__pending_chunk_add(&pending, 0, first));
    CHECK(spn__pending_has_room(&pending));
    CHECK(!spn__pending_chunk_add(&pending, 0, second));
    CHECK_EQ(pending.chunk_count, 1);
    count_release(NULL, second);
    spn__pending_fini(&pending);
}

/* ---- without memory --------------------------------------------------------------------- */

/* What was accepted needs no memory any more, to be handed over or taken back. */
TEST(limiter__no_memory_once_accepted__all_run_in_order, "LIM-3")
{
    open_limiter(2, 1000);
    for (int i = 0; i < 1000; i++)
        REQUIRE_OK(submit(i));
    fail_from = 1;
    CHECK_EQ(take_back(1), 1); /* in flight */
    CHECK_EQ(take_back(500), 1);
    for (int i = 0; i < 1000; i++) {
        if (i == 1 || i == 500)
            continue;
        REQUIRE(spn_manual_executor_run(behind, 1) == 1);
        CHECK_EQ(last_ran, i);
    }
    fail_from = 0;
    CHECK_EQ(ran, 998);
    close_limiter();
}

/* A task for which there is no memory is not accepted, refused or touched. */
TEST(limiter__no_memory__told_and_nothing_changes, "LIM-2", "G-22")
{
    open_limiter(1, SPN_UNBOUNDED);
    fail_from = 1;
    CHECK_STATUS(submit(0), SPN_ENOMEM); /* for its entry */
    fail_from = allocs + 2;
    CHECK_STATUS(submit(0), SPN_ENOMEM); /* for its slot */
    fail_from = 0;
    CHECK_EQ(tasks[0].task.queued, 0);
    CHECK_EQ(stats_of().accepted, 0);
    CHECK_OK(submit(0));
    fail_from = 1;
    for (int i = 1; i < 1000; i++) {
        const int rc = submit(i);

        CHECK_STATUS(rc, i < 16 ? SPN_OK : SPN_ENOMEM); /* the first chunk */
    }
    CHECK_EQ(stats_of().waiting, 15);
    CHECK_EQ(stats_of().refused_full + stats_of().refused_behind + told, 0);
    CHECK_EQ(spn_manual_executor_run(behind, 1), 1);
    CHECK_OK(submit(16)); /* one has gone */
    fail_from = 0;
    CHECK_OK(submit(17));
    CHECK(spn_manual_executor_run(behind, INT64_MAX) >= 0);
    CHECK_EQ(ran, 18);
    CHECK_EQ(last_ran, 17);
    close_limiter();
}

/* ---- order ------------------------------------------------------------------------------ */

/* Whoever comes, is taken back and runs, at random: the next to run is always the one
 * that has been there longest. */
TEST(limiter__random_order_of_leaving__oldest_runs_next, "TPE-18", "TPE-43")
{
    enum { SOME = 700, STEPS = 40000 };
    uint64_t seed = t_seed();
    int64_t came[SOME] = { 0 }, now = 0; /* came: when; of those who are here */
    int here = 0, most = 0;

    open_limiter(3, SPN_UNBOUNDED);
    for (int step = 0; step < STEPS; step++) {
        const bool fills = step / 2000 % 2 == 0;
        const int i = (int)(t_random(&seed) % SOME);

        if (tasks[i].is_here) {
            if (t_random(&seed) % (fills ? 8 : 2) == 0) {
                CHECK_EQ(take_back(i), 1);
                here--;
            }
        } else if (t_random(&seed) % (fills ? 1 : 8) == 0) {
            CHECK_EQ(take_back(i), 0);
            REQUIRE_OK(submit(i));
            came[i] = ++now;
            here++;
        }
        most = here > most ? here : most;
        if (here != 0 && t_random(&seed) % 8 == 0) {
            int oldest = -1;

            for (int n = 0; n < SOME; n++)
                if (tasks[n].is_here && (oldest < 0 || came[n] < came[oldest]))
                    oldest = n;
            REQUIRE(spn_manual_executor_run(behind, 1) == 1);
            CHECK_EQ(last_ran, oldest);
            here--;
        }
        CHECK_EQ(stats_of().in_flight + stats_of().waiting, here);
    }
    CHECK(most > 300);
    CHECK(spn_manual_executor_run(behind, INT64_MAX) >= 0);
    CHECK_EQ(stats_of().in_flight + stats_of().waiting, 0);
    close_limiter();
}
