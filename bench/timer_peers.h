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

/* What a workload tells its peers, as the `object` of their subjects. */
struct timer_work {
    const char *name;
    void (*numbers)(const struct bench *b, uint64_t numbers[3]); /* zero at first */
};

/* Becomes the peer's program: its arguments, the workload's name, three numbers. */
static inline void timer_peer(const struct bench *b, const char *program,
                              const char *const extra[])
{
    const struct timer_work *work = bench_object(b);
    uint64_t numbers[3] = { 0, 0, 0 };
    char text[3][24];
    const char *argv[16];
    int n = 0;

    if (bench_count(b, 50) != 50) /* starting a virtual machine takes longer than all */
        bench_skip(b, "not in a quick run");

    argv[n++] = program;
    for (; extra != NULL && *extra != NULL; extra++)
        argv[n++] = *extra;
    argv[n++] = work->name;
    work->numbers(b, numbers);
    for (int i = 0; i < 3; i++) {
        snprintf(text[i], sizeof text[i], "%llu", (unsigned long long)numbers[i]);
        argv[n++] = text[i];
    }
    argv[n] = NULL;
    bench_exec(b, argv);
}

#define TIMER_PEER(id, program, extra)             \
    static inline void run_##id(struct bench *b)   \
    {                                              \
        timer_peer(b, BENCH_PEERS program, extra); \
    }

/* A peer that is not installed.  It names the workload, which nothing else may use. */
#define TIMER_ABSENT(title, packages, work)                   \
    {                                                         \
        .name = title, .package = packages, .object = &(work) \
    }

#ifdef BENCH_LIBUV
TIMER_PEER(uv, "/timer_peer_uv", NULL)
static inline const char *uv_text(void)
{
    return BENCH_LIBUV;
}
#define SUBJECT_UV(work)                                                      \
    {                                                                         \
        .name = "libuv", .run = run_uv, .version = uv_text, .object = &(work) \
    }
#else
#define SUBJECT_UV(work) TIMER_ABSENT("libuv", "libuv1-dev", work)
#endif

#ifdef BENCH_LIBEV
TIMER_PEER(ev, "/timer_peer_ev", NULL)
static inline const char *ev_text(void)
{
    return BENCH_LIBEV;
}
#define SUBJECT_EV(work)                                                      \
    {                                                                         \
        .name = "libev", .run = run_ev, .version = ev_text, .object = &(work) \
    }
#else
#define SUBJECT_EV(work) TIMER_ABSENT("libev", "libev-dev", work)
#endif

#ifdef BENCH_LIBEVENT
TIMER_PEER(event, "/timer_peer_event", NULL)
static inline const char *event_text(void)
{
    return BENCH_LIBEVENT;
}
#define SUBJECT_EVENT(work)                                                            \
    {                                                                                  \
        .name = "libevent", .run = run_event, .version = event_text, .object = &(work) \
    }
#else
#define SUBJECT_EVENT(work) TIMER_ABSENT("libevent", "libevent-dev", work)
#endif

#ifdef BENCH_ASIO
TIMER_PEER(asio, "/timer_peer_asio", NULL)
static inline const char *asio_text(void)
{
    return BENCH_ASIO;
}
#define SUBJECT_ASIO(work)                                                             \
    {                                                                                  \
        .name = "Boost.Asio", .run = run_asio, .version = asio_text, .object = &(work) \
    }
#else
#define SUBJECT_ASIO(work) TIMER_ABSENT("Boost.Asio", "libboost-dev", work)
#endif

#ifdef BENCH_GO
TIMER_PEER(go, "/timer_peer_go", NULL)
static inline const char *timer_go_text(void)
{
    return BENCH_GO;
}
#define SUBJECT_GO(work)                                                 \
    {                                                                    \
        .name = "Go AfterFunc", .run = run_go, .version = timer_go_text, \
        .object = &(work)                                                \
    }
#else
#define SUBJECT_GO(work) TIMER_ABSENT("Go AfterFunc", "golang-go", work)
#endif

#if defined(BENCH_JAVA) && defined(BENCH_NETTY)
#define JAVA_PEER(id, kind)                                                            \
    static inline void run_##id(struct bench *b)                                       \
    {                                                                                  \
        static const char *const extra[] = { "-Xms4g",    "-Xmx4g",                    \
                                             "-cp",       BENCH_PEERS ":" BENCH_NETTY, \
                                             "TimerPeer", kind,                        \
                                             NULL };                                   \
        timer_peer(b, BENCH_JAVA, extra);                                              \
    }
JAVA_PEER(stpe, "stpe")
static inline const char *timer_java_text(void)
{
    return BENCH_JAVA_VERSION;
}
#define SUBJECT_STPE(work)                                                          \
    {                                                                               \
        .name = "Java scheduled pool", .run = run_stpe, .version = timer_java_text, \
        .object = &(work)                                                           \
    }
#else
#define SUBJECT_STPE(work) \
    TIMER_ABSENT("Java scheduled pool", "default-jdk-headless", work)
#endif

#if defined(BENCH_JAVA) && defined(BENCH_NETTY)
JAVA_PEER(netty, "netty")
static inline const char *netty_text(void)
{
    return BENCH_NETTY_VERSION;
}
#define SUBJECT_NETTY(work)                                                  \
    {                                                                        \
        .name = "Netty wheel 1 ms", .run = run_netty, .version = netty_text, \
        .object = &(work)                                                    \
    }
#else
#define SUBJECT_NETTY(work) TIMER_ABSENT("Netty wheel 1 ms", "libnetty-java", work)
#endif

/* Those that only their own thread may use; those that any may; struct timer_work. */
#define TIMER_LOOP_PEERS(work) SUBJECT_UV(work), SUBJECT_EV(work), SUBJECT_EVENT(work)
#define TIMER_SHARED_PEERS(work) \
    SUBJECT_ASIO(work), SUBJECT_GO(work), SUBJECT_STPE(work), SUBJECT_NETTY(work)

#endif /* TIMER_PEERS_H */
