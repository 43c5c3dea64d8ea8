/* SPDX-License-Identifier: MIT */
/*
 * ext_builtin.c - what is built in: constant tables, so that linking the library is all it
 * takes to have them.
 *
 * Dispatchers are a kind without extensions here: they come with the library that has a
 * network, which registers its own.
 */
#include "config/ext.h"
#include "config/url_pool.h"

const spn_extension_kind spn__builtin_kinds[] = {
    { sizeof(spn_extension_kind), SPN_KIND_THREADPOOL, "fixed", "threadpool" },
    { sizeof(spn_extension_kind), SPN_KIND_REJECT, "report", "reject" },
    { sizeof(spn_extension_kind), SPN_KIND_QUEUE, "fifo", "queue" },
    { sizeof(spn_extension_kind), SPN_KIND_DISPATCHER, "all",
      "dispatcher,dispather,channel.handler" },
};
const size_t spn__builtin_kind_count =
    sizeof spn__builtin_kinds / sizeof *spn__builtin_kinds;

#define BUILT_IN(of, called, what)                                     \
    {                                                                  \
        .size = sizeof(spn_extension), .kind = (of), .name = (called), \
        .instance = (what)                                             \
    }

const spn_extension spn__builtin_extensions[] = {
    BUILT_IN(SPN_KIND_THREADPOOL, "fixed", &spn__threadpool_fixed),
    BUILT_IN(SPN_KIND_THREADPOOL, "cached", &spn__threadpool_cached),
    BUILT_IN(SPN_KIND_THREADPOOL, "limited", &spn__threadpool_limited),
    BUILT_IN(SPN_KIND_THREADPOOL, "eager", &spn__threadpool_eager),
    BUILT_IN(SPN_KIND_REJECT, "report", &spn__rejection_report),
    BUILT_IN(SPN_KIND_REJECT, "abort", &spn__rejection_abort),
    BUILT_IN(SPN_KIND_REJECT, "caller-runs", &spn__rejection_caller_runs),
    BUILT_IN(SPN_KIND_REJECT, "discard", &spn__rejection_discard),
    BUILT_IN(SPN_KIND_REJECT, "discard-oldest", &spn__rejection_discard_oldest),
    BUILT_IN(SPN_KIND_REJECT, "new-thread", &spn__rejection_new_thread),
    BUILT_IN(SPN_KIND_REJECT, "block", &spn__rejection_block),
    BUILT_IN(SPN_KIND_REJECT, "chain", &spn__rejection_chain),
    BUILT_IN(SPN_KIND_QUEUE, "fifo", &spn__work_queue_fifo),
    BUILT_IN(SPN_KIND_QUEUE, "lanes", &spn__work_queue_lanes),
    BUILT_IN(SPN_KIND_QUEUE, "priority", &spn__work_queue_priority),
};
const size_t spn__builtin_extension_count =
    sizeof spn__builtin_extensions / sizeof *spn__builtin_extensions;
