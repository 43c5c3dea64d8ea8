/* SPDX-License-Identifier: MIT */
/*
 * future_epoll.c - an event loop that waits for futures beside its descriptors.
 *
 * The poll set's descriptor is one more entry of epoll: readable means that at
 * least one future is done, and next hands them out.
 */
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <spindle.h>

enum { JOBS = 3, INPUT = 0, FUTURES = 1 };

struct job {
    const char *name;
    int number;
    spn_future *future;
};

/* Works, somewhere else, and completes the job's future. */
static int work(void *arg)
{
    struct job *job = arg;

    if (job->number == 13)
        (void)spn_future_complete_error(job->future, -13, "unlucky");
    else
        (void)spn_future_complete(job->future, (void *)(long)(job->number * 2));
    spn_future_unref(job->future); /* the worker's reference */
    return 0;
}

static void show(const struct job *job, spn_future *future)
{
    spn_outcome outcome;

    if (spn_future_result(future, &outcome) == SPN_OK)
        printf("%s: %ld\n", job->name, (long)outcome.value);
    else
        printf("%s: failed, %s (%d)\n", job->name, outcome.message, outcome.code);
}

int main(void)
{
    struct job jobs[JOBS] = { { "one", 1, NULL },
                              { "bad", 13, NULL },
                              { "six", 6, NULL } };
    struct epoll_event event = { .events = EPOLLIN };
    spn_thread *threads[JOBS] = { NULL };
    spn_poll_set *set;
    int epoll, pipe_fds[2], left = JOBS, heard = 0;

    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0 || pipe(pipe_fds) != 0 || spn_poll_set_create(&set) != SPN_OK)
        return 1;
    event.data.u32 = INPUT; /* stands for the sockets of a server */
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, pipe_fds[0], &event) != 0)
        return 1;
    event.data.u32 = FUTURES;
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, spn_poll_set_fd(set), &event) != 0)
        return 1;

    for (int i = 0; i < JOBS; i++) {
        if (spn_future_create(&jobs[i].future, NULL) != SPN_OK ||
            spn_poll_set_add(set, jobs[i].future, &jobs[i]) != SPN_OK ||
            spn_thread_create(&threads[i], NULL, work, &jobs[i]) != SPN_OK)
            return 1;
    }
    if (write(pipe_fds[1], "x", 1) != 1)
        return 1;

    while (left > 0 || heard == 0) {
        spn_future *done;
        void *job;
        char byte;

        if (epoll_wait(epoll, &event, 1, 5000) != 1)
            return 1;
        if (event.data.u32 == INPUT) {
            heard += (int)read(pipe_fds[0], &byte, 1);
            continue;
        }
        while (spn_poll_set_next(set, &done, &job) == SPN_OK) {
            show(job, done);
            spn_future_unref(done); /* the set's reference, now ours */
            left--;
        }
    }
    for (int i = 0; i < JOBS; i++) {
        if (spn_thread_join(threads[i], SPN_FOREVER, NULL) != SPN_OK)
            return 1;
        spn_thread_unref(threads[i]);
    }
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    close(epoll);
    return spn_poll_set_destroy(set) == SPN_OK ? 0 : 1;
}
