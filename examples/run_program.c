/* SPDX-License-Identifier: MIT */
/*
 * run_program.c - a task that runs another program.
 *
 * Workers block all signals, and posix_spawn hands their mask on: a program that was
 * started so could not be ended by SIGTERM.  spn_thread_exec_sigmask says which mask it
 * should have.
 */
#include <spindle.h>

#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

extern char **environ;

/* Its exit status, or the signal that ended it, negative. */
static int run_program(void *arg)
{
    char *argv[] = { "sh", "-c", arg, NULL };
    posix_spawnattr_t attributes;
    sigset_t mask;
    pid_t pid;
    int status, rc;

    if (spn_thread_exec_sigmask(&mask) != SPN_OK ||
        posix_spawnattr_init(&attributes) != 0)
        return 127;
    rc = posix_spawnattr_setsigmask(&attributes, &mask);
    if (rc == 0)
        rc = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    if (rc == 0)
        rc = posix_spawn(&pid, "/bin/sh", NULL, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    if (rc != 0 || waitpid(pid, &status, 0) != pid)
        return 127;
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static int run(void *arg, void **result)
{
    static int codes[2];
    static int next; /* one thread */

    codes[next] = run_program(arg);
    *result = &codes[next++];
    return 0;
}

int main(void)
{
    static char succeeds[] = "exit 3", ends[] = "kill -TERM $$; exit 4";
    spn_pool_opts opts = spn_pool_opts_fixed(1, 10);
    spn_future *first, *second;
    void *code, *end;
    spn_pool *pool;
    int as_expected;

    if (spn_pool_create(&pool, &opts) != SPN_OK ||
        spn_executor_submit(spn_pool_executor(pool), run, succeeds, &first) != SPN_OK ||
        spn_executor_submit(spn_pool_executor(pool), run, ends, &second) != SPN_OK ||
        spn_future_get(first, &code, SPN_SEC(60)) != SPN_OK ||
        spn_future_get(second, &end, SPN_SEC(60)) != SPN_OK)
        return 1;
    printf("the first returned %d, the second was ended by signal %d\n", *(int *)code,
           -*(int *)end);
    as_expected = *(int *)code == 3 && *(int *)end == -SIGTERM;
    spn_future_unref(first);
    spn_future_unref(second);
    if (spn_pool_close(pool) != SPN_OK || spn_pool_destroy(pool) != SPN_OK)
        return 1;
    return as_expected ? 0 : 1;
}
