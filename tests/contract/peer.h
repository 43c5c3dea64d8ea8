/* SPDX-License-Identifier: MIT */
/*
 * peer.h - a second thread that makes one call, and the way to know that the
 * call sleeps.
 *
 *     struct peer p;
 *     peer_start(&p, acquire_one, semaphore);
 *     peer_await_blocked(&p);             // it is asleep inside the call
 *     CHECK_OK(spn_semaphore_release(semaphore, 1));
 *     CHECK_OK(peer_finish(&p));          // what the call returned
 *     CHECK_EQ(p.flag_after, 0);          // its interrupt flag afterwards
 *
 * Asleep is what the kernel says: the peer announces itself right before the
 * call, runs nothing else that sleeps, and its task state is then S.
 */
#ifndef PEER_H
#define PEER_H

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <spindle/thread.h>

#include "test.h"

struct peer {
    int (*call)(void *arg);
    void *arg;
    spn_thread *thread; /* NULL for a foreign one until it has started */
    pthread_t foreign;
    atomic_int tid;  /* 0 until it is about to call */
    atomic_int done; /* 1: the call has returned */
    int rc;          /* what it returned */
    int flag_after;  /* the interrupt flag it left */
};

static inline int peer_gettid(void)
{
    return (int)syscall(SYS_gettid);
}

/* The state letter of a thread of this process; '?' when it is gone. */
static inline char peer_state(int tid)
{
    char path[64], text[512];
    const char *after;
    ssize_t length;
    int fd;

    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return '?';
    length = read(fd, text, sizeof text - 1);
    close(fd);
    if (length <= 0)
        return '?';
    text[length] = '\0';
    after = strrchr(text, ')'); /* the name may hold anything */
    return after != NULL && after[1] == ' ' ? after[2] : '?';
}

static inline int peer_main(void *arg)
{
    struct peer *p = arg;

    atomic_store(&p->tid, peer_gettid());
    p->rc = p->call(p->arg);
    p->flag_after = spn_thread_interrupted();
    atomic_store(&p->done, 1);
    return p->rc;
}

static inline void *peer_foreign_main(void *arg)
{
    struct peer *p = arg;

    p->thread = spn_thread_ref(spn_thread_current());
    (void)peer_main(p);
    return NULL;
}

static inline void peer_prepare(struct peer *p, int (*call)(void *), void *arg)
{
    memset(p, 0, sizeof *p);
    p->call = call;
    p->arg = arg;
}

static inline void peer_start(struct peer *p, int (*call)(void *), void *arg)
{
    peer_prepare(p, call, arg);
    REQUIRE_OK(spn_thread_create(&p->thread, NULL, peer_main, p));
}

/* The same on a thread the library did not make. */
static inline void peer_start_foreign(struct peer *p, int (*call)(void *), void *arg)
{
    peer_prepare(p, call, arg);
    REQUIRE(pthread_create(&p->foreign, NULL, peer_foreign_main, p) == 0);
    T_AWAIT(atomic_load(&p->tid) != 0); /* from here p->thread is set */
}

static inline void peer_await_blocked(struct peer *p)
{
    T_AWAIT(atomic_load(&p->tid) != 0);
    /* Twice in a row: a lock inside the library may put it to sleep for a
     * moment on its way in. */
    for (int seen = 0; seen < 2 && atomic_load(&p->done) == 0;) {
        seen = peer_state(atomic_load(&p->tid)) == 'S' ? seen + 1 : 0;
        t_pause();
    }
}

/* Joins the peer, drops its handle and tells what its call returned. */
static inline int peer_finish(struct peer *p)
{
    if (p->foreign != 0)
        REQUIRE(pthread_join(p->foreign, NULL) == 0);
    else
        CHECK_OK(spn_thread_join(p->thread, SPN_FOREVER, NULL));
    spn_thread_unref(p->thread);
    p->thread = NULL;
    return p->rc;
}

/* True if the peer's call has not returned after T_PROBE_NS. */
static inline bool peer_still_waits(struct peer *p)
{
    const struct timespec probe = { 0, (long)(T_PROBE_NS % 1000000000) };
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += probe.tv_nsec;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    for (;;) {
        struct timespec now;

        if (atomic_load(&p->done) != 0)
            return false;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec > until.tv_sec ||
            (now.tv_sec == until.tv_sec && now.tv_nsec >= until.tv_nsec))
            return true;
        t_pause();
    }
}

#endif /* PEER_H */
