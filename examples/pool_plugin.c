/* SPDX-License-Identifier: MIT */
/*
 * pool_plugin.c - a pool whose rejection policy comes from a shared object: the URL names
 * it, the program says in which directory such objects lie.
 *
 *     pool_plugin DIRECTORY        where spindle_reject_overflow.so is
 */
#include <spindle.h>

#include <stdio.h>

static int ran;

static int count(spn_task *task)
{
    (void)task;
    ran++; /* one at a time: see below */
    return 0;
}

int main(int argc, char **argv)
{
    const char *directory = argc > 1 ? argv[1] : ".";
    spn_extensions_opts of_extensions = SPN_EXTENSIONS_OPTS_INIT;
    spn_url_pool_opts of_pool = SPN_URL_POOL_OPTS_INIT;
    spn_extensions *extensions;
    spn_problem problem;
    spn_url_pool *made;
    spn_url *url;
    spn_task tasks[3];

    of_extensions.directories = &directory;
    of_extensions.directory_count = 1;
    if (spn_extensions_create(&extensions, &of_extensions) != SPN_OK)
        return 1;
    if (spn_url_parse(&url, "dubbo://0.0.0.0:20880?threads=1&queues=1&reject=overflow",
                      &problem) != SPN_OK)
        return 1;
    of_pool.extensions = extensions;
    if (spn_url_pool_create(&made, url, &of_pool, &problem) != SPN_OK) {
        fprintf(stderr, "%s\n", problem.text);
        return 1;
    }
    /* Paused, so that no task runs meanwhile: the first waits in the thread, the second in
     * the queue of one, and the third overflows. */
    if (spn_pool_pause(spn_url_pool_pool(made)) != SPN_OK)
        return 1;
    for (int i = 0; i < 3; i++) {
        tasks[i] = (spn_task)SPN_TASK_INIT(count, NULL);
        if (spn_executor_execute(spn_url_pool_executor(made), &tasks[i]) != SPN_OK)
            return 1;
    }
    printf("%d of 3 did not fit and ran at once\n", ran);
    if (spn_pool_close(spn_url_pool_pool(made)) != SPN_OK) /* ends the pause */
        return 1;
    printf("%d ran\n", ran);
    if (spn_url_pool_destroy(made) != SPN_OK)
        return 1;
    spn_url_unref(url);
    return ran == 3 && spn_extensions_destroy(extensions) == SPN_OK ? 0 : 1;
}
