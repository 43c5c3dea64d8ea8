/* SPDX-License-Identifier: MIT */
/*
 * manual_executor.c - how a program tests code of its own that works in the background: it
 * hands the code an executor that runs nothing until the test says so.
 */
#include <stdio.h>
#include <string.h>

#include <spindle.h>

/* The code under test: an editor that saves in the background, once for many changes. */
struct editor {
    spn_executor *background;
    char text[32], saved[32];
    int saving; /* a save waits in the executor */
};

static int save(void *arg)
{
    struct editor *e = arg;

    e->saving = 0;
    memcpy(e->saved, e->text, sizeof e->saved);
    return 0;
}

static int change(struct editor *e, const char *text)
{
    (void)snprintf(e->text, sizeof e->text, "%s", text);
    if (e->saving)
        return SPN_OK;
    e->saving = 1;
    return spn_executor_call(e->background, save, e);
}

/* The test: what happens between two saves is no matter of luck. */
int main(void)
{
    spn_manual_executor *tasks;
    struct editor e = { .saving = 0 };
    int64_t ran;

    if (spn_manual_executor_create(&tasks) != SPN_OK)
        return 1;
    e.background = spn_manual_executor_executor(tasks);
    if (change(&e, "draft") != SPN_OK || change(&e, "final") != SPN_OK)
        return 1;
    if (e.saved[0] != '\0')
        return 1; /* nothing was saved before its time */
    ran = spn_manual_executor_run(tasks, INT64_MAX);
    printf("%lld save: %s\n", (long long)ran, e.saved);
    if (spn_manual_executor_destroy(tasks) != SPN_OK)
        return 1;
    return ran == 1 && strcmp(e.saved, "final") == 0 ? 0 : 1;
}
