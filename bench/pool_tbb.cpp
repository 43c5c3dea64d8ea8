/* SPDX-License-Identifier: MIT */
/*
 * TBB, both ways: task_arena::enqueue, which is for tasks nobody waits for, and
 * task_group, whose waiters work too.
 */
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>
#include <oneapi/tbb/version.h>
#include <semaphore.h>

#include "pool_peers.h"

namespace
{
/* Threads TBB may have: the workers, and the most that wait in a group. */
constexpr int WAITERS_MAX = 2;

struct tbb_pool {
    tbb::global_control threads;
    tbb::task_arena arena;
    tbb::task_group group;

    tbb_pool(int workers, int waiters)
        : threads(tbb::global_control::max_allowed_parallelism,
                  static_cast<std::size_t>(workers + WAITERS_MAX)),
          arena(workers + waiters, static_cast<unsigned>(waiters))
    {
    }
};

tbb_pool &of(void *pool)
{
    return *static_cast<tbb_pool *>(pool);
}

/* ---- enqueue ---------------------------------------------------------------- */

void *arena_create(int workers)
{
    return new tbb_pool(workers, 0);
}

void destroy(void *pool)
{
    delete static_cast<tbb_pool *>(pool);
}

void arena_spray(pool_lane *lane)
{
    tbb::task_arena &arena = of(lane->pool).arena;

    for (uint64_t i = 0; i < lane->count; i++)
        arena.enqueue([] { pool_count_one(); });
}

void arena_submit(void *pool, pool_body body)
{
    of(pool).arena.enqueue(body);
}

uint64_t arena_ask(void *pool, uint64_t count)
{
    static sem_t done; /* used again, not made each time */
    static int value;
    uint64_t sum = 0;

    (void)sem_init(&done, 0, 0);
    for (uint64_t i = 0; i < count; i++) {
        of(pool).arena.enqueue([] {
            value = POOL_ANSWER;
            sem_post(&done);
        });
        while (sem_wait(&done) != 0) {
        }
        sum += static_cast<uint64_t>(value);
    }
    return sum;
}

/* ---- groups ------------------------------------------------------------------ */

void *group_create(int workers)
{
    return new tbb_pool(workers, WAITERS_MAX);
}

void group_spray(pool_lane *lane)
{
    auto *group = new tbb::task_group; /* the producer's own */

    lane->own = group;
    of(lane->pool).arena.execute([&] {
        for (uint64_t i = 0; i < lane->count; i++)
            group->run([] { pool_count_one(); });
    });
}

void group_finish(pool_lane *lane)
{
    auto *group = static_cast<tbb::task_group *>(lane->own);

    of(lane->pool).arena.execute([&] { group->wait(); });
    delete group;
}

void group_submit(void *pool, pool_body body)
{
    of(pool).arena.execute([&] { of(pool).group.run(body); });
}

void group_drain(void *pool)
{
    of(pool).arena.execute([&] { of(pool).group.wait(); });
}

uint64_t group_ask(void *pool, uint64_t count)
{
    uint64_t sum = 0;

    of(pool).arena.execute([&] {
        for (uint64_t i = 0; i < count; i++) {
            int value = 0;

            of(pool).group.run([&value] { value = POOL_ANSWER; });
            of(pool).group.wait();
            sum += static_cast<uint64_t>(value);
        }
    });
    return sum;
}

pool_kind make_arena()
{
    pool_kind kind = {};

    kind.create = arena_create;
    kind.destroy = destroy;
    kind.spray = arena_spray;
    kind.ask = arena_ask;
    kind.submit = arena_submit;
    return kind;
}

pool_kind make_group()
{
    pool_kind kind = {};

    kind.create = group_create;
    kind.destroy = destroy;
    kind.spray = group_spray;
    kind.finish = group_finish;
    kind.ask = group_ask;
    kind.submit = group_submit;
    kind.drain = group_drain;
    return kind;
}
} // namespace

const char *pool_tbb_version(void)
{
    return TBB_runtime_version();
}

const struct pool_kind pool_tbb_arena = make_arena();
const struct pool_kind pool_tbb_group = make_group();
