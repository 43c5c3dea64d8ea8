/* SPDX-License-Identifier: MIT */
/*
 * Boost.Asio's thread_pool: post, and post of a packaged_task for an answer.
 */
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/version.hpp>
#include <future>
#include <string>

#include "pool_peers.h"

using boost::asio::thread_pool;

static void *create(int workers)
{
    return new thread_pool(static_cast<std::size_t>(workers));
}

static void destroy(void *pool)
{
    auto *threads = static_cast<thread_pool *>(pool);

    threads->join();
    delete threads;
}

static void spray(struct pool_lane *lane)
{
    auto &pool = *static_cast<thread_pool *>(lane->pool);

    for (uint64_t i = 0; i < lane->count; i++)
        boost::asio::post(pool, [] { pool_count_one(); });
}

static void submit(void *pool, pool_body body)
{
    boost::asio::post(*static_cast<thread_pool *>(pool), body);
}

static uint64_t ask(void *pool, uint64_t count)
{
    uint64_t sum = 0;

    for (uint64_t i = 0; i < count; i++) {
        std::packaged_task<int()> task([] { return static_cast<int>(POOL_ANSWER); });
        std::future<int> answer = task.get_future();

        boost::asio::post(*static_cast<thread_pool *>(pool), std::move(task));
        sum += static_cast<uint64_t>(answer.get());
    }
    return sum;
}

const char *pool_asio_version(void)
{
    static const std::string text = std::to_string(BOOST_VERSION / 100000) + "." +
                                    std::to_string(BOOST_VERSION / 100 % 1000);

    return text.c_str();
}

static pool_kind make()
{
    pool_kind kind = {};

    kind.create = create;
    kind.destroy = destroy;
    kind.spray = spray;
    kind.ask = ask;
    kind.submit = submit;
    return kind;
}

const struct pool_kind pool_asio = make();
