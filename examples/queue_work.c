/* SPDX-License-Identifier: MIT */
/*
 * queue_work.c - a bounded work queue, two producers, three workers, and a clean end.
 *
 * The queue holds eight jobs.  When the workers are slower, put blocks and so slows the
 * producers down: memory stays bounded.  The end is a close: producers are refused,
 * workers empty the queue and then see SPN_ECLOSED.  No poison items, no counting.
 */
#include <spindle.h>

#include <stdatomic.h>
#include <stdio.h>

enum { PRODUCERS = 2, WORKERS = 3, JOBS = 50, ROOM = 8 };

struct job {
    int number;
    int done; /* by exactly one worker: a plain int will do */
};

static spn_queue *queue;
static struct job jobs[PRODUCERS][JOBS];
static atomic_int finished;

static int produce(void *arg)
{
    struct job *mine = arg;
    int rc = SPN_OK;

    for (int i = 0; i < JOBS && rc == SPN_OK; i++) {
        mine[i].number = i;
        rc = spn_queue_put(queue, &mine[i], SPN_FOREVER); /* waits while it is full */
    }
    return rc;
}

static int work(void *arg)
{
    void *item;
    int rc;

    (void)arg;
    while ((rc = spn_queue_take(queue, &item, SPN_FOREVER)) == SPN_OK) {
        struct job *job = item;

        job->done++;
        atomic_fetch_add(&finished, 1);
    }
    return rc == SPN_ECLOSED ? 0 : rc;
}

/* Waits for threads to end; the first failure of one of them, or 0. */
static int join_all(spn_thread **threads, int count)
{
    int failure = 0;

    for (int i = 0; i < count; i++) {
        int result = -1, rc = spn_thread_join(threads[i], SPN_SEC(30), &result);

        if (failure == 0)
            failure = rc != SPN_OK ? rc : result;
        spn_thread_unref(threads[i]);
    }
    return failure;
}

int main(void)
{
    spn_queue_opts opts = SPN_QUEUE_OPTS_INIT;
    spn_thread *producers[PRODUCERS], *workers[WORKERS];
    int failure;

    opts.capacity = ROOM;
    if (spn_queue_create(&queue, SPN_QUEUE_ARRAY, &opts) != SPN_OK)
        return 1;
    for (int i = 0; i < WORKERS; i++)
        if (spn_thread_create(&workers[i], NULL, work, NULL) != SPN_OK)
            return 1;
    for (int i = 0; i < PRODUCERS; i++)
        if (spn_thread_create(&producers[i], NULL, produce, jobs[i]) != SPN_OK)
            return 1;

    failure = join_all(producers, PRODUCERS);
    spn_queue_close(queue); /* nothing more comes */
    if (failure == 0)
        failure = join_all(workers, WORKERS);
    if (failure != 0) {
        fprintf(stderr, "%s\n", spn_status_text(failure));
        return 1;
    }
    for (int i = 0; i < PRODUCERS; i++)
        for (int j = 0; j < JOBS; j++)
            if (jobs[i][j].done != 1)
                return 1;
    printf("%d jobs done once each, at most %d waiting\n", atomic_load(&finished),
           ROOM);
    return spn_queue_destroy(queue) == SPN_OK ? 0 : 1;
}
