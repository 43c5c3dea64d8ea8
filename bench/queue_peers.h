/* SPDX-License-Identifier: MIT */
/*
 * queue_peers.h - how the programs of bench/peers are started, and their entries
 * among the subjects, whether they were built or not.
 */
#ifndef QUEUE_PEERS_H
#define QUEUE_PEERS_H

#include <stddef.h>

#ifdef BENCH_JAVA
#define JAVA_COMMAND \
    ((const char *const[]){ BENCH_JAVA, "-cp", BENCH_PEERS, "QueuePeer", NULL })
static inline const char *java_version(void)
{
    return BENCH_JAVA_VERSION;
}
#define JAVA_RUN(fn) .run = (fn), .version = java_version
#else
#define JAVA_RUN(fn) .package = "default-jdk-headless"
#endif

#ifdef BENCH_GO
#define GO_COMMAND ((const char *const[]){ BENCH_PEERS "/queue_peer_go", NULL })
static inline const char *go_version(void)
{
    return BENCH_GO;
}
#define GO_RUN(fn) .run = (fn), .version = go_version
#else
#define GO_RUN(fn) .package = "golang-go"
#endif

#ifdef BENCH_CROSSBEAM
#define CROSSBEAM_COMMAND \
    ((const char *const[]){ BENCH_PEERS "/queue_peer_rust", NULL })
static inline const char *crossbeam_version(void)
{
    return BENCH_CROSSBEAM;
}
#define CROSSBEAM_RUN(fn) .run = (fn), .version = crossbeam_version
#else
#define CROSSBEAM_RUN(fn) .package = "rustc librust-crossbeam-channel-dev"
#endif

#endif /* QUEUE_PEERS_H */
