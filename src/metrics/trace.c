/* SPDX-License-Identifier: MIT */
/*
 * trace.c - task runs as a file for chrome://tracing and Perfetto: one complete event
 * ("ph":"X") per run, in microseconds, with the pool as its category.
 *
 * Runs are seen by a pool's hooks, so a pool without a trace has nothing of it.  When a run
 * began its thread keeps in a part of its own (metrics_core.h).  Events are put into a
 * buffer under a lock and written when it is full: a trace is for an hour of looking, not
 * for every day.  A write that fails is remembered, and the rest left out.
 */
#include <spindle/metrics.h>

#include <stdio.h>
#include <string.h>

#include "exec/pool.h"
#include "metrics/metrics_core.h"
#include "metrics/text.h"
#include "sync/lock.h"
#include "sync/seam_stacks.h"

enum { BUFFER = 65536, EVENT_MAX = 2048, TEXT_MAX = 100 };

_Static_assert(EVENT_MAX >= 2 * 6 * TEXT_MAX + 256,
               "two names, all escapes, and the rest");

/* A pool that writes to it. */
struct traced {
    struct traced *next;
    struct spn_trace *trace;
    spn_pool_hooks hooks; /* those that were there before */
};

struct part {
    struct spn__tally tally; /* first */
    int64_t start_ns;        /* its thread's; -1: it has begun none */
};

struct spn_trace {
    struct spn__tally_set parts;
    struct traced *pools; /* written before they run only */
    struct spn__lock
        lock; /* guards what follows; held while a full buffer is written */
    int fd;
    int error;
    bool first;
    size_t used;
    char buffer[BUFFER];
};

static void init_part(struct spn__tally *tally)
{
    ((struct part *)(void *)tally)->start_ns = -1;
}

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
    spn__tally_set_init(&trace->parts, sizeof(struct part), init_part);
    trace->pools = NULL;
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

static void put_run(struct spn_trace *trace, const char *pool, const char *name,
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

/* ---- hooks ------------------------------------------------------------------------------ */

static int before(spn_pool *pool, const spn_task_info *info, void *ctx)
{
    const struct traced *t = ctx;
    const int rc =
        t->hooks.before != NULL ? t->hooks.before(pool, info, t->hooks.ctx) : 0;
    struct part *part;

    if (rc == 0 && (part = (struct part *)(void *)spn__tally_mine(&t->trace->parts)))
        part->start_ns = spn__now();
    return rc;
}

static void after(spn_pool *pool, const spn_task_info *info, void *ctx)
{
    const struct traced *t = ctx;
    const struct part *part =
        (const struct part *)(const void *)spn__tally_mine(&t->trace->parts);

    if (part != NULL && part->start_ns >= 0) /* else no memory: it is left out */
        put_run(t->trace, pool->name, info->label, part->start_ns, spn__now());
    if (t->hooks.after != NULL)
        t->hooks.after(pool, info, t->hooks.ctx);
}

static void uncaught(spn_pool *pool, const spn_task_info *info, void *ctx)
{
    const struct traced *t = ctx;

    t->hooks.uncaught(pool, info, t->hooks.ctx);
}

static void terminated(spn_pool *pool, void *ctx)
{
    const struct traced *t = ctx;

    t->hooks.terminated(pool, t->hooks.ctx);
}

int spn_trace_install(spn_trace *trace, spn_pool_hooks *hooks)
{
    struct traced *t;

    if (trace == NULL || hooks == NULL)
        return SPN_EINVAL;
    t = spn__alloc(sizeof *t);
    if (t == NULL)
        return SPN_ENOMEM;
    *t = (struct traced){ trace->pools, trace, *hooks };
    trace->pools = t;
    hooks->before = before;
    hooks->after = after;
    if (t->hooks.uncaught != NULL)
        hooks->uncaught = uncaught;
    if (t->hooks.terminated != NULL)
        hooks->terminated = terminated;
    hooks->ctx = t;
    return SPN_OK;
}

int spn_trace_close(spn_trace *trace)
{
    struct traced *t;
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
    spn__tally_set_fini(&trace->parts);
    while ((t = trace->pools) != NULL) {
        trace->pools = t->next;
        spn__free(t);
    }
    spn__free(trace);
    return error == 0 ? SPN_OK : SPN_EFAILED;
}
