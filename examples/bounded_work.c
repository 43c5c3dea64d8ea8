/* SPDX-License-Identifier: MIT */
/*
 * bounded_work.c - twelve threads, of which three work at a time.
 *
 * The semaphore holds three permits: a thread takes one before the part that must
 * not run too often at once (say, a query to a database) and gives it back after.
 * A latch tells main that all are done.
 */
#include <spindle.h>

#include <stdatomic.h>
#include <stdio.h>

enum { THREADS = 12, AT_ONCE = 3 };

static spn_semaphore *permits;
static spn_latch *done;
static atomic_int working, most;

static int work(void *arg)
{
    unsigned long sum = 0;
    int now, peak;

    (void)arg;
    if (spn_semaphore_acquire(permits, 1, SPN_SEC(10)) != SPN_OK)
        return -1;
    now = atomic_fetch_add(&working, 1) + 1;
    peak = atomic_load(&most);
    while (now > peak && !atomic_compare_exchange_weak(&most, &peak, now)) {
    }

    for (unsigned long i = 0; i < 1000000; i++)
        sum += i % 7;

    atomic_fetch_sub(&working, 1);
    spn_semaphore_release(permits, 1);
    spn_latch_count_down(done);
    return sum == 0;
}

int main(void)
{
    spn_semaphore_opts opts = SPN_SEMAPHORE_OPTS_INIT;
    int rc;

    opts.permits = AT_ONCE;
    if ((rc = spn_semaphore_create(&permits, &opts)) != SPN_OK ||
        (rc = spn_latch_create(&done, THREADS)) != SPN_OK) {
        fprintf(stderr, "%s\n", spn_status_text(rc));
        return 1;
    }
    for (int i = 0; i < THREADS; i++) {
        spn_thread *thread;

        if ((rc = spn_thread_create(&thread, NULL, work, NULL)) != SPN_OK) {
            fprintf(stderr, "thread %d: %s\n", i, spn_status_text(rc));
            return 1;
        }
        spn_thread_unref(thread); /* it goes on by itself; `done` waits for it */
    }
    if ((rc = spn_latch_await(done, SPN_SEC(30))) != SPN_OK) {
        fprintf(stderr, "not done: %s\n", spn_status_text(rc));
        return 1;
    }
    printf("%d threads worked, %d at once at most\n", THREADS, atomic_load(&most));
    spn_latch_destroy(done);
    spn_semaphore_destroy(permits);
    return atomic_load(&most) <= AT_ONCE ? 0 : 1;
}
