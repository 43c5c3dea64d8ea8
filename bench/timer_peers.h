/* SPDX-License-Identifier: MIT */
/*
 * timer_peers.h - the peers of the timer workloads.  Each is a program of its own (two
 * of the libraries cannot even be linked together), which is given the workload's name
 * and its numbers and does what timer_load.h tells of.
 */
#ifndef TIMER_PEERS_H
#define TIMER_PEERS_H

#include <stdio.h>

#include "bench.h"

/* Becomes the peer's program, with up to three numbers after the workload's name. */
static inline void timer_peer(const struct bench *b, const char *program,
                              const char *const extra[], const char *work, uint64_t x,
                              uint64_t y, uint64_t z)
{
    char numbers[3][24];
    const char *argv[16];
    int n = 0;

    if (bench_count(b, 50) != 50) /* starting a virtual machine takes longer than all */
        bench_skip(b, "not in a quick run");

    argv[n++] = program;
    for (; extra != NULL && *extra != NULL; extra++)
        argv[n++] = *extra;
    argv[n++] = work;
    snprintf(numbers[0], sizeof numbers[0], "%llu", (unsigned long long)x);
    snprintf(numbers[1], sizeof numbers[1], "%llu", (unsigned long long)y);
    snprintf(numbers[2], sizeof numbers[2], "%llu", (unsigned long long)z);
    for (int i = 0; i < 3; i++)
        argv[n++] = numbers[i];
    argv[n] = NULL;
    bench_exec(b, argv);
}

/* A workload defines PEER_WORK(b, program, extra), which calls timer_peer, and then
 * has these subjects. */
#define TIMER_PEER(id, program, extra)            \
    static void run_##id(struct bench *b)         \
    {                                             \
        PEER_WORK(b, BENCH_PEERS program, extra); \
    }

#ifdef BENCH_LIBUV
#define DEFINE_UV TIMER_PEER(uv, "/timer_peer_uv", NULL)
static inline const char *uv_text(void)
{
    return BENCH_LIBUV;
}
#define SUBJECT_UV                                         \
    {                                                      \
        .name = "libuv", .run = run_uv, .version = uv_text \
    }
#else
#define DEFINE_UV
#define SUBJECT_UV                               \
    {                                            \
        .name = "libuv", .package = "libuv1-dev" \
    }
#endif

#ifdef BENCH_LIBEV
#define DEFINE_EV TIMER_PEER(ev, "/timer_peer_ev", NULL)
static inline const char *ev_text(void)
{
    return BENCH_LIBEV;
}
#define SUBJECT_EV                                         \
    {                                                      \
        .name = "libev", .run = run_ev, .version = ev_text \
    }
#else
#define DEFINE_EV
#define SUBJECT_EV                              \
    {                                           \
        .name = "libev", .package = "libev-dev" \
    }
#endif

#ifdef BENCH_LIBEVENT
#define DEFINE_EVENT TIMER_PEER(event, "/timer_peer_event", NULL)
static inline const char *event_text(void)
{
    return BENCH_LIBEVENT;
}
#define SUBJECT_EVENT                                               \
    {                                                               \
        .name = "libevent", .run = run_event, .version = event_text \
    }
#else
#define DEFINE_EVENT
#define SUBJECT_EVENT                                 \
    {                                                 \
        .name = "libevent", .package = "libevent-dev" \
    }
#endif

#ifdef BENCH_ASIO
#define DEFINE_ASIO TIMER_PEER(asio, "/timer_peer_asio", NULL)
static inline const char *asio_text(void)
{
    return BENCH_ASIO;
}
#define SUBJECT_ASIO                                                \
    {                                                               \
        .name = "Boost.Asio", .run = run_asio, .version = asio_text \
    }
#else
#define DEFINE_ASIO
#define SUBJECT_ASIO                                    \
    {                                                   \
        .name = "Boost.Asio", .package = "libboost-dev" \
    }
#endif

#ifdef BENCH_GO
#define DEFINE_GO TIMER_PEER(go, "/timer_peer_go", NULL)
static inline const char *timer_go_text(void)
{
    return BENCH_GO;
}
#define SUBJECT_GO                                                      \
    {                                                                   \
        .name = "Go AfterFunc", .run = run_go, .version = timer_go_text \
    }
#else
#define DEFINE_GO
#define SUBJECT_GO                                     \
    {                                                  \
        .name = "Go AfterFunc", .package = "golang-go" \
    }
#endif

#if defined(BENCH_JAVA) && defined(BENCH_NETTY)
#define JAVA_PEER(id, kind)                                                            \
    static void run_##id(struct bench *b)                                              \
    {                                                                                  \
        static const char *const extra[] = { "-Xms4g",    "-Xmx4g",                    \
                                             "-cp",       BENCH_PEERS ":" BENCH_NETTY, \
                                             "TimerPeer", kind,                        \
                                             NULL };                                   \
        PEER_WORK(b, BENCH_JAVA, extra);                                               \
    }
#define DEFINE_STPE JAVA_PEER(stpe, "stpe")
static inline const char *timer_java_text(void)
{
    return BENCH_JAVA_VERSION;
}
#define SUBJECT_STPE                                                               \
    {                                                                              \
        .name = "Java scheduled pool", .run = run_stpe, .version = timer_java_text \
    }
#else
#define DEFINE_STPE
#define SUBJECT_STPE                                                     \
    {                                                                    \
        .name = "Java scheduled pool", .package = "default-jdk-headless" \
    }
#endif

#if defined(BENCH_JAVA) && defined(BENCH_NETTY)
#define DEFINE_NETTY JAVA_PEER(netty, "netty")
static inline const char *netty_text(void)
{
    return BENCH_NETTY_VERSION;
}
#define SUBJECT_NETTY                                                       \
    {                                                                       \
        .name = "Netty wheel 1 ms", .run = run_netty, .version = netty_text \
    }
#else
#define DEFINE_NETTY
#define SUBJECT_NETTY                                          \
    {                                                          \
        .name = "Netty wheel 1 ms", .package = "libnetty-java" \
    }
#endif

#endif /* TIMER_PEERS_H */
