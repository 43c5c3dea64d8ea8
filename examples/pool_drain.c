/* SPDX-License-Identifier: MIT */
/*
 * pool_drain.c - a server that ends well on SIGTERM.
 *
 * There is no handler: main blocks the signal, workers block all signals anyway, and
 * main takes it with sigwait when it comes.  Then the pool takes no more work, what it
 * has gets two seconds, and what has not started by then comes back, to be saved or
 * refused: here it is counted.  (To show all that without a keyboard, the program sends
 * the signal to itself.)
 */
#include <spindle.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_int served;

static int serve(void *arg)
{
    (void)arg;
    atomic_fetch_add(&served, 1);
    return 0;
}

static void save(void *count, spn_task *task, spn_run_fn fn, void *arg)
{
    (void)fn;
    (void)arg; /* of a call: whose request it is */
    ++*(int *)count;
    if (task != NULL)
        (void)spn_task_drop(task, SPN_ESHUTDOWN); /* tells its owner */
}

int main(void)
{
    spn_pool_opts opts = spn_pool_opts_fixed(2, 100);
    spn_pool *pool;
    sigset_t term;
    int signal = 0, saved = 0, accepted = 0, rc;

    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    if (pthread_sigmask(SIG_BLOCK, &term, NULL) != 0 ||
        spn_pool_create(&pool, &opts) != SPN_OK)
        return 1;
    for (int i = 0; i < 50; i++)
        accepted += spn_executor_call(spn_pool_executor(pool), serve, NULL) == SPN_OK;

    raise(SIGTERM);
    if (sigwait(&term, &signal) != 0)
        return 1;
    rc = spn_pool_drain(pool, SPN_SEC(2), save, &saved, NULL);
    if (rc != SPN_OK &&
        spn_executor_await(spn_pool_executor(pool), SPN_SEC(10)) != SPN_OK) {
        fprintf(stderr, "a request does not end\n");
        return 1;
    }
    printf("%s: %d accepted, %d served, %d saved\n",
           signal == SIGTERM ? "SIGTERM" : "?", accepted, atomic_load(&served), saved);
    return spn_pool_destroy(pool) != SPN_OK || accepted != atomic_load(&served) + saved;
}
