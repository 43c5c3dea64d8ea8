/* SPDX-License-Identifier: MIT */
/*
 * own_threads.h - waits until the threads of a script are gone.  A thread that is over has
 * given its record back when the kernel has forgotten it; a pool that has ended says
 * nothing of that, so that its last threads and the first ones of the next pool may have
 * records at once.
 */
#ifndef OWN_THREADS_H
#define OWN_THREADS_H

#include <dirent.h>

#include <spindle/clock.h>
#include <spindle/thread.h>

#include "test.h"

static int own_threads; /* of the program, and a sanitizer's own */

static int threads_of_process(void)
{
    DIR *dir = opendir("/proc/self/task");
    int count = 0;

    REQUIRE(dir != NULL);
    for (const struct dirent *e; (e = readdir(dir)) != NULL;)
        count += e->d_name[0] != '.';
    closedir(dir);
    return count;
}

static int return_zero(void *arg)
{
    (void)arg;
    return 0;
}

static void count_own_threads(void)
{
    spn_thread *thread;

    /* A sanitizer's come with the first. */
    REQUIRE_OK(spn_thread_create(&thread, NULL, return_zero, NULL));
    CHECK_OK(spn_thread_join(thread, SPN_FOREVER, NULL));
    spn_thread_unref(thread);
    own_threads = threads_of_process();
    for (int i = 0; i < 500; i++) { /* that thread may be leaving still */
        const int now = threads_of_process();

        own_threads = now < own_threads ? now : own_threads;
        t_pause();
    }
}

static void await_threads_gone(void)
{
    while (threads_of_process() > own_threads)
        t_pause();
}

#endif /* OWN_THREADS_H */
