// SPDX-License-Identifier: MIT
// timer_peer_asio.cpp - Boost.Asio's steady_timer, used from threads beside the loop's.
#include <boost/asio.hpp>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "timer_load.h"
#include "timer_peer.h"

namespace asio = boost::asio;

extern "C" {
extern const int peer_threads_max;
const int peer_threads_max = 2;
}

static asio::io_context context;
static std::vector<std::unique_ptr<asio::steady_timer>> timers;
static std::thread runner;

void peer_open(size_t count)
{
    static auto work = asio::make_work_guard(context);

    timers.resize(count);
    for (auto &timer : timers)
        timer = std::make_unique<asio::steady_timer>(context);
    runner = std::thread([] { context.run(); });
    runner.detach();
}

void peer_add(size_t index, int64_t delay_ns)
{
    timers[index]->expires_after(std::chrono::nanoseconds(delay_ns));
    timers[index]->async_wait([index](const boost::system::error_code &error) {
        if (!error)
            peer_fired(index);
    });
}

void peer_cancel(size_t index)
{
    timers[index]->cancel();
}

void peer_loop(int64_t deadline_ns)
{
    while (!peer_enough() && load_now() < deadline_ns)
        std::this_thread::sleep_for(std::chrono::nanoseconds(
            deadline_ns == INT64_MAX ? 20000000 : deadline_ns - load_now()));
}
