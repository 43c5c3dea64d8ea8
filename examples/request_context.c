/* SPDX-License-Identifier: MIT */
/*
 * request_context.c - a trace id and a deadline that go with a request, over two pools.
 *
 * The front pool gets the requests; each has a context with its id, who asks and the time
 * by which an answer is worth having.  What it submits to the back pool carries the same context,
 * without anybody passing it on, and waits no longer than what is left of the time.  What
 * belongs to one task and not to the request, here the buffer for its lines of the log, is
 * a local value of the task.
 */
#include <spindle.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REQUESTS = 3, LINE_SIZE = 128 };

static spn_pool *front, *back;
static char customers[REQUESTS][8] = { "Ann", "Bob", "Eve" };
static const char customer; /* its address is the key of who asks */

/* The name in front of every line of a log. */
static const char *trace(void)
{
    const char *id = spn_context_trace(spn_context_current(), NULL);

    return id != NULL ? id : "-";
}

/* The buffer is made by the first line of a task, and freed when the task ends. */
static void log_line(const char *text)
{
    static const spn_task_local buffer = { free };
    char *line = spn_task_local_get(&buffer);

    if (line == NULL) {
        line = malloc(LINE_SIZE);
        if (spn_task_local_set(&buffer, line) != SPN_OK) {
            free(line);
            return;
        }
    }
    if (line != NULL && snprintf(line, LINE_SIZE, "%s: %s", trace(), text) > 0)
        puts(line);
}

static int look_up(void *arg, void **result)
{
    char text[64];

    if (snprintf(text, sizeof text, "back, looking up for %s",
                 (const char *)spn_context_get(spn_context_current(), &customer)) > 0)
        log_line(text);
    *result = arg;
    return 0;
}

static int handle(void *arg, void **result)
{
    spn_future *answer;
    int status;

    log_line("front");
    if (spn_executor_submit(spn_pool_executor(back), look_up, arg, &answer) != SPN_OK)
        return -1;
    status =
        spn_future_get(answer, result, spn_context_remaining(spn_context_current()));
    spn_future_unref(answer);
    log_line(status == SPN_OK ? "front, answered" : "front, not answered");
    return status;
}

static spn_future *receive(int number)
{
    const spn_context_value value = { &customer, customers[number - 1], NULL };
    spn_context_opts opts = SPN_CONTEXT_OPTS_INIT;
    spn_context *context;
    spn_context_scope scope;
    spn_future *future = NULL;
    char id[16];

    opts.trace = id;
    opts.trace_size = (size_t)snprintf(id, sizeof id, "request-%d", number);
    opts.deadline_ns = spn_now() + SPN_SEC(10);
    opts.values = &value;
    opts.value_count = 1;
    if (spn_context_create(&context, &opts) != SPN_OK)
        return NULL;
    if (spn_context_enter(&scope, context) == SPN_OK) {
        if (spn_executor_submit(spn_pool_executor(front), handle, "found", &future) !=
            SPN_OK)
            future = NULL;
        (void)spn_context_leave(&scope);
    }
    spn_context_unref(context); /* the task has its own reference */
    return future;
}

static int end(spn_pool *pool)
{
    return spn_pool_close(pool) == SPN_OK ? spn_pool_destroy(pool) : -1;
}

int main(void)
{
    spn_pool_opts opts = spn_pool_opts_fixed(2, 16);
    spn_future *futures[REQUESTS];
    int found = 0;

    if (spn_pool_create(&front, &opts) != SPN_OK ||
        spn_pool_create(&back, &opts) != SPN_OK)
        return 1;
    for (int i = 0; i < REQUESTS; i++)
        futures[i] = receive(i + 1);
    for (int i = 0; i < REQUESTS; i++) {
        void *value = NULL;

        if (futures[i] != NULL &&
            spn_future_get(futures[i], &value, SPN_FOREVER) == SPN_OK)
            found += strcmp(value, "found") == 0;
        spn_future_unref(futures[i]);
    }
    printf("%s: %d of %d answered\n", trace(), found, REQUESTS);
    return end(front) == SPN_OK && end(back) == SPN_OK && found == REQUESTS ? 0 : 1;
}
