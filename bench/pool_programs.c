/* SPDX-License-Identifier: MIT */
/*
 * The pools of other languages: how their programs of bench/peers are started.
 */
#include "pool_peers.h"

#ifdef BENCH_JAVA
static const char *const java[] = { BENCH_JAVA, "-cp", BENCH_PEERS, "PoolPeer", NULL };

const struct pool_kind pool_java_executor = { .command = java,
                                              .program_kind = "executor" };
const struct pool_kind pool_java_fork_join = { .command = java,
                                               .program_kind = "fork-join" };
const char *pool_java_version(void)
{
    return BENCH_JAVA_VERSION;
}
#endif

#ifdef BENCH_GO
static const char *const go[] = { BENCH_PEERS "/pool_peer_go", NULL };

const struct pool_kind pool_go_goroutine = { .command = go,
                                             .program_kind = "goroutine" };
const struct pool_kind pool_go_channel = { .command = go, .program_kind = "channel" };
const char *pool_go_version(void)
{
    return BENCH_GO;
}
#endif

#ifdef BENCH_CROSSBEAM
static const char *const crossbeam[] = { BENCH_PEERS "/pool_peer_crossbeam", NULL };

const struct pool_kind pool_crossbeam = { .command = crossbeam,
                                          .program_kind = "crossbeam",
                                          .places = true };
const char *pool_crossbeam_version(void)
{
    return BENCH_CROSSBEAM;
}
#endif

#ifdef BENCH_RAYON
static const char *const rayon[] = { BENCH_PEERS "/pool_peer_rayon", NULL };

const struct pool_kind pool_rayon = { .command = rayon,
                                      .program_kind = "rayon",
                                      .places = true };
const char *pool_rayon_version(void)
{
    return BENCH_RAYON;
}
#endif
