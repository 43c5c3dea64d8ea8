/* SPDX-License-Identifier: MIT */
/*
 * Q1's peer in C++: tbb::concurrent_bounded_queue.
 */
#include <tbb/concurrent_queue.h>
#include <tbb/version.h>

#include "queue_pass.h"

using tbb_queue = tbb::concurrent_bounded_queue<void *>;

PASS_LOOPS(tbb_queue, tbb_queue, queue->push(item), queue->pop(item));

static void *tbb_queue_create()
{
    auto *queue = new tbb_queue;

    queue->set_capacity(PASS_CAPACITY);
    return queue;
}

static void tbb_queue_destroy(void *queue)
{
    delete static_cast<tbb_queue *>(queue);
}

extern "C" {
extern const struct pass_queue q1_tbb_queue;
const char *q1_tbb_version();

const struct pass_queue q1_tbb_queue = { tbb_queue_create,  tbb_queue_destroy,
                                         tbb_queue_produce, tbb_queue_consume,
                                         nullptr,           nullptr };

const char *q1_tbb_version()
{
    return TBB_runtime_version();
}
}
