/* SPDX-License-Identifier: MIT */
/*
 * trace.c - task runs as a file for chrome://tracing and Perfetto: one complete event
 * ("ph":"X") per run, in microseconds, with the pool as its category.
 *
 * Events are put into a buffer under a lock and written when it is full: a trace is for
 * an hour of looking, not for every day.  A write that fails is remembered, and the rest
 * left out.
 */
#include <stdio.h>
#include <string.h>

#include "metrics/task_times.h"
#include "metrics/text.h"
#include "sync/lock.h"
#include "sync/seam_stacks.h"

enum { BUFFER = 65536, EVENT_MAX = 2048, TEXT_MAX = 100 };

_Static_assert(EVENT_MAX >= 2 * 6 * TEXT_MAX + 256,
               "two names, all escapes, and the rest");

struct spn_trace {
    struct spn__lock lock; /* guards the rest; held while a full buffer is written */
    int fd;
    int error;
    bool first;
    size_t used;
    char buffer[BUFFER];
};

int spn_trace_create(spn_trace **out, const char *path)
{
    struct spn_trace *trace;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (path == NULL)
        return SPN_EINVAL;
    trace = spn__alloc(sizeof *trace);
    if (trace == NULL)
        return SPN_ENOMEM;
    if (spn__os_file_create(&trace->fd, path) != 0) {
        spn__free(trace);
        return SPN_EFAILED;
    }
    spn__lock_init(&trace->lock);
    trace->error = 0;
    trace->first = true;
    memcpy(trace->buffer, "[", 1);
    trace->used = 1;
    *out = trace;
    return SPN_OK;
}

static void flush(struct spn_trace *trace)
{
    if (trace->error == 0)
        trace->error = spn__os_file_write(trace->fd, trace->buffer, trace->used);
    trace->used = 0;
}

/* A name as it may stand in a JSON string, cut if it is long. */
static void quote(char text[6 * TEXT_MAX + 1], const char *name)
{
    struct spn__text t = { text, 6 * TEXT_MAX + 1, 0 };
    char cut[TEXT_MAX + 1];

    (void)snprintf(cut, sizeof cut, "%s", name);
    spn__text_json(&t, cut);
    text[t.used] = '\0';
}

void spn__trace_run(spn_trace *trace, const char *pool, const char *name,
                    int64_t start_ns, int64_t end_ns)
{
    char event[EVENT_MAX], label[6 * TEXT_MAX + 1], category[6 * TEXT_MAX + 1];
    int length;

    quote(label, name != NULL ? name : "task");
    quote(category, pool);
    length = snprintf(
        event, sizeof event,
        "\n{\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"ts\":%lld.%03d,\"dur\":%lld.%03d,"
        "\"cat\":\"%s\",\"name\":\"%s\"}",
        (int)spn__os_tid(), (long long)(start_ns / 1000), (int)(start_ns % 1000),
        (long long)((end_ns - start_ns) / 1000), (int)((end_ns - start_ns) % 1000),
        category, label);
    if (length < 0 || (size_t)length >= sizeof event)
        return;
    spn__lock(&trace->lock);
    if (trace->used + (size_t)length + 1 > BUFFER)
        flush(trace);
    if (!trace->first)
        trace->buffer[trace->used++] = ',';
    trace->first = false;
    memcpy(trace->buffer + trace->used, event, (size_t)length);
    trace->used += (size_t)length;
    spn__unlock(&trace->lock);
}

int spn_trace_close(spn_trace *trace)
{
    int error;

    if (trace == NULL)
        return SPN_OK;
    if (trace->used + 3 > BUFFER)
        flush(trace);
    memcpy(trace->buffer + trace->used, "\n]\n", 3);
    trace->used += 3;
    flush(trace);
    error = spn__os_file_close(trace->fd);
    if (trace->error != 0)
        error = trace->error;
    spn__free(trace);
    return error == 0 ? SPN_OK : SPN_EFAILED;
}
