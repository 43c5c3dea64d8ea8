/* SPDX-License-Identifier: MIT */
/*
 * pool_peers.h - the pools there are, and their entries among the subjects of a
 * workload, whether they were built or not.
 */
#ifndef POOL_PEERS_H
#define POOL_PEERS_H

#include "pool_load.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { POOL_APR_TASKS = 20000 };

/* pool_spindle.c */
extern const struct pool_kind pool_spindle;               /* execute */
extern const struct pool_kind pool_spindle_call;          /* call    */
extern const struct pool_kind pool_spindle_lanes;         /* call    */
extern const struct pool_kind pool_spindle_lanes_execute; /* execute */

/* A file of its own each. */
extern const struct pool_kind pool_hand;
extern const struct pool_kind pool_glib;
extern const struct pool_kind pool_uv;
extern const struct pool_kind pool_apr;
extern const struct pool_kind pool_tbb_group;
extern const struct pool_kind pool_tbb_arena;
extern const struct pool_kind pool_asio;
const char *pool_glib_version(void);
const char *pool_uv_version(void);
const char *pool_apr_version(void);
const char *pool_tbb_version(void);
const char *pool_asio_version(void);

/* pool_programs.c: those of bench/peers. */
extern const struct pool_kind pool_java_executor;
extern const struct pool_kind pool_java_fork_join;
extern const struct pool_kind pool_go_goroutine;
extern const struct pool_kind pool_go_channel;
extern const struct pool_kind pool_crossbeam;
extern const struct pool_kind pool_rayon;
const char *pool_java_version(void);
const char *pool_go_version(void);
const char *pool_crossbeam_version(void);
const char *pool_rayon_version(void);

#ifdef __cplusplus
}
#endif

#define POOL_HAVE(fn, kind, number) .run = (fn), .object = &(kind), .version = (number)

#ifdef BENCH_HAVE_GLIB
#define POOL_GLIB(fn) POOL_HAVE(fn, pool_glib, pool_glib_version)
#else
#define POOL_GLIB(fn) .package = "libglib2.0-dev"
#endif
#ifdef BENCH_HAVE_UV
#define POOL_UV(fn) POOL_HAVE(fn, pool_uv, pool_uv_version)
#else
#define POOL_UV(fn) .package = "libuv1-dev"
#endif
#ifdef BENCH_HAVE_APR
#define POOL_APR(fn) POOL_HAVE(fn, pool_apr, pool_apr_version)
#else
#define POOL_APR(fn) .package = "libaprutil1-dev libapr1-dev"
#endif
#ifdef BENCH_HAVE_TBB
#define POOL_TBB(fn, kind) POOL_HAVE(fn, kind, pool_tbb_version)
#else
#define POOL_TBB(fn, kind) .package = "libtbb-dev"
#endif
#ifdef BENCH_HAVE_ASIO
#define POOL_ASIO(fn) POOL_HAVE(fn, pool_asio, pool_asio_version)
#else
#define POOL_ASIO(fn) .package = "libboost-dev"
#endif
#ifdef BENCH_JAVA
#define POOL_JAVA(fn, kind) POOL_HAVE(fn, kind, pool_java_version)
#else
#define POOL_JAVA(fn, kind) .package = "default-jdk-headless"
#endif
#ifdef BENCH_GO
#define POOL_GO(fn, kind) POOL_HAVE(fn, kind, pool_go_version)
#else
#define POOL_GO(fn, kind) .package = "golang-go"
#endif
#ifdef BENCH_CROSSBEAM
#define POOL_CROSSBEAM(fn) POOL_HAVE(fn, pool_crossbeam, pool_crossbeam_version)
#else
#define POOL_CROSSBEAM(fn) .package = "rustc librust-crossbeam-channel-dev"
#endif
#ifdef BENCH_RAYON
#define POOL_RAYON(fn) POOL_HAVE(fn, pool_rayon, pool_rayon_version)
#else
#define POOL_RAYON(fn) .package = "rustc librust-rayon-core-dev"
#endif

/* All peers, as subjects of the workload that fn runs. */
#define POOL_PEERS(fn)                                                              \
    { .name = "hand-made mutex+cond",                                               \
      POOL_HAVE(fn, pool_hand, bench_glibc_version),                                \
      .detail = "a list under a pthread mutex, with a condition variable" },        \
        { .name = "GThreadPool", POOL_GLIB(fn), .detail = "GLib's" },               \
        { .name = "libuv",                                                          \
          POOL_UV(fn),                                                              \
          .detail = "uv_queue_work, with its completion" },                         \
        { .name = "apr_thread_pool",                                                \
          POOL_APR(fn),                                                             \
          .detail = "APR's, with 20,000 tasks at most: a push walks its queue" },   \
        { .name = "tbb group",                                                      \
          POOL_TBB(fn, pool_tbb_group),                                             \
          .detail = "tbb::task_group, whose waiters work too" },                    \
        { .name = "tbb enqueue",                                                    \
          POOL_TBB(fn, pool_tbb_arena),                                             \
          .detail = "tbb::task_arena::enqueue" },                                   \
        { .name = "asio", POOL_ASIO(fn), .detail = "boost::asio::thread_pool" },    \
        { .name = "java TPE",                                                       \
          POOL_JAVA(fn, pool_java_executor),                                        \
          .detail = "ThreadPoolExecutor with a LinkedBlockingQueue" },              \
        { .name = "java FJP",                                                       \
          POOL_JAVA(fn, pool_java_fork_join),                                       \
          .detail = "ForkJoinPool" },                                               \
        { .name = "go goroutines",                                                  \
          POOL_GO(fn, pool_go_goroutine),                                           \
          .detail = "a goroutine for each task, on as many threads as Go likes" },  \
        { .name = "go channel",                                                     \
          POOL_GO(fn, pool_go_channel),                                             \
          .detail = "goroutines that take tasks from a channel of 1024: bounded" }, \
        { .name = "crossbeam",                                                      \
          POOL_CROSSBEAM(fn),                                                       \
          .detail = "Rust threads that take boxed closures from a channel" },       \
    {                                                                               \
        .name = "rayon", POOL_RAYON(fn), .detail = "Rust's ThreadPool, rayon-core"  \
    }

#endif /* POOL_PEERS_H */
