/* SPDX-License-Identifier: MIT */
/*
 * outside.c - a program of somebody else's, built against the installed tree only.
 * It sees the headers, calls into the library on two threads, and says which
 * version it runs with.
 */
#include <spindle.h>

#include <stdio.h>
#include <string.h>

static int open_latch(void *arg)
{
    return spn_latch_count_down(arg);
}

int main(void)
{
    spn_latch *latch;
    spn_thread *thread;
    int result = -1;

    if (spn_version() != SPN_VERSION ||
        strcmp(spn_version_string(), SPN_VERSION_STRING) != 0) {
        fprintf(stderr, "headers %s, library %s\n", SPN_VERSION_STRING,
                spn_version_string());
        return 1;
    }
    if (spn_latch_create(&latch, 1) != SPN_OK)
        return 1;
    if (spn_thread_create(&thread, NULL, open_latch, latch) != SPN_OK)
        return 1;
    if (spn_latch_await(latch, SPN_SEC(30)) != SPN_OK)
        return 1;
    if (spn_thread_join(thread, SPN_SEC(30), &result) != SPN_OK || result != SPN_OK)
        return 1;
    spn_thread_unref(thread);
    if (spn_latch_destroy(latch) != SPN_OK)
        return 1;
    printf("spindle %s\n", spn_version_string());
    return 0;
}
