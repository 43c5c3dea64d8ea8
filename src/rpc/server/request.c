/* SPDX-License-Identifier: MIT */
/*
 * request.c - a request at the server, from its frame to its reply.
 *
 * OVERVIEW
 *   One block holds the request, its task, the first arguments, room for a small reply and
 *   the body: what most requests need is there when the first byte is copied.  An arena is
 *   made for those that want values, or more arguments.
 *
 * WHO HAS IT
 *   One thread at a time: the I/O thread, the pool's, and, if the method defers it,
 *   whoever the method gives it to.  Handing over orders: execute for the pool, whatever
 *   the program uses later.
 *   [defer]  the return of the method and finish both exchange `turn`: who comes second
 *            concludes, and sees by acquire what the first released.  So neither touches a
 *            request that the other may have freed.
 */
#include "rpc/server/request.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/time.h"
#include "config/problem.h"
#include "exec/report.h"
#include "rpc/wire/hessian_value.h"
#include "rpc/server/serving.h"
#include "sync/blocks.h"

static spn_request *request_of(spn_message *message)
{
    return (spn_request *)(void *)message; /* its first member */
}

static struct spn__counts *counts_of(spn_request *request)
{
    return &spn__message_stream(&request->message)->endpoint->counts;
}

/* ---- coming and going ------------------------------------------------------------- */

/* With the body, and a zero byte behind it. */
static size_t bytes_of(const struct spn__frame *frame)
{
    return sizeof(spn_request) + (size_t)frame->length + 1;
}

static void release(spn_message *message)
{
    spn_request *request = request_of(message);
    struct spn__stream *stream = spn__message_stream(&request->message);

    if (request->has_writer)
        spn__hwriter_fini(&request->writer);
    if (request->arena != NULL)
        spn_harena_destroy(request->arena);
    if (request->exported != NULL)
        spn__services_end(request->exported, request->shard);
    if (request->token != NULL)
        spn_cancel_token_unref(request->token);
    spn__message_leave(message);
    spn__stream_put(stream, request, bytes_of(&request->message.frame));
    spn__stream_end(stream);
}

/* For warnings: "demo.Hello.sayHello", as far as it has been read. */
static void describe(const spn_message *message, char *text, size_t size)
{
    const spn_request *request = (const spn_request *)(const void *)message;

    if (request->path.data == NULL || request->method.data == NULL)
        (void)snprintf(text, size, "request %lld",
                       (long long)request->message.frame.id);
    else
        (void)snprintf(text, size, "%.*s.%.*s", (int)request->path.length,
                       request->path.data, (int)request->method.length,
                       request->method.data);
}

static const spn_message_ops request_ops = { release, describe };

static const char *yes_no(bool yes)
{
    return yes ? "true" : "false";
}

/* "Thread pool is EXHAUSTED! ..." with the state of the pool, for the URL's address. */
static void exhausted_text(spn_pool *pool, const spn_url *url, char *text, size_t size)
{
    spn_pool_stats s = SPN_POOL_STATS_INIT;
    long long done;
    bool over, ended;
    struct spn__report_figures figures;

    if (spn_pool_stats_get(pool, &s) != SPN_OK) {
        text[0] = '\0';
        return;
    }
    spn__report_figures(&s, &figures);
    done = (long long)s.completed + (long long)s.failed;
    over = s.state != SPN_EXECUTOR_RUNNING;
    ended = s.state == SPN_EXECUTOR_TERMINATED;
    (void)snprintf(
        text, size,
        "Thread pool is EXHAUSTED! Thread Name: %s, Pool Size: %d (active: %d, "
        "core: %d, max: %d, largest: %d), Task: %lld (completed: %lld), "
        "Executor status:(isShutdown:%s, isTerminated:%s, isTerminating:%s), "
        "in %s://%s:%d! Queue: %lld (capacity: %s)",
        s.name, (int)s.threads, (int)figures.active, (int)s.core_threads,
        (int)s.max_threads, (int)s.largest, (long long)figures.tasks, done,
        yes_no(over), yes_no(ended), yes_no(over && !ended),
        spn_url_protocol(url) != NULL ? spn_url_protocol(url) : "dubbo",
        spn_url_host(url) != NULL ? spn_url_host(url) : "0.0.0.0",
        (int)spn_url_port(url), (long long)figures.waiting, figures.capacity);
}

/* Where a request that was refused is counted. */
static int refused_count(const struct spn__message *message, int why)
{
    switch (why) {
    case SPN__REFUSED_CONNECTION:
        return SPN__COUNT_REJECTED_CONNECTION;
    case SPN__REFUSED_ADDRESS:
        return SPN__COUNT_REJECTED_ADDRESS;
    case SPN__REFUSED_DELAY:
        return SPN__COUNT_REJECTED_DELAY;
    default:
        return spn__frame_is_two_way(&message->frame) ? SPN__COUNT_REJECTED
                                                      : SPN__COUNT_REJECTED_ONE_WAY;
    }
}

/* The pool has no room, or the dispatcher left it none: says so, on this thread. */
void spn__request_refused(spn_request *request, int why)
{
    struct spn__message *message = &request->message;
    struct spn_server *server = request->server;
    const char *what = "thread pool is exhausted, detail msg:";
    char detail[480], text[640];
    spn_url *url;

    spn__count(counts_of(request), refused_count(message, why), 1);
    if (!spn__frame_is_two_way(&message->frame)) {
        release(&message->head);
        return;
    }
    url = spn_server_url(server);
    if (why == SPN__REFUSED_DELAY) {
        what = "";
        spn__waits_text(&server->dispatch.waits, detail, sizeof detail);
    } else if (why > 0) {
        what = "";
        spn__places_text(&server->dispatch.places, &message->head, why, detail,
                         sizeof detail);
    } else if (why == SPN_ESHUTDOWN) {
        (void)snprintf(detail, sizeof detail, "%s", spn_status_text(why));
    } else {
        exhausted_text(server->dispatch.pool, url, detail, sizeof detail);
    }
    (void)snprintf(text, sizeof text, "Server side(%s,%d) %s%s",
                   spn_url_host(url) != NULL ? spn_url_host(url) : "0.0.0.0",
                   (int)spn_url_port(url), what, detail);
    spn_url_unref(url);
    (void)spn__frames_answer(spn__message_stream(message), &message->frame,
                             SPN__STATUS_EXHAUSTED, text, SPN__SEND_URGENT);
    release(&message->head);
}

struct spn__message *spn__request_create(struct spn__stream *stream,
                                         const struct spn__frame *frame,
                                         const unsigned char *body)
{
    struct spn_server *server = spn__server_of(stream->endpoint);
    const uint64_t in_flight = spn__stream_begin(stream);
    spn_request *request = spn__stream_get(stream, bytes_of(frame), in_flight);

    if (request == NULL) {
        spn__stream_end(stream);
        return NULL;
    }
    /* Not the rooms at the end: they are written before they are read. */
    memset(request, 0, offsetof(spn_request, inline_arguments));
    spn__message_init(&request->message, &request_ops, stream, frame,
                      (unsigned char *)(request + 1));
    memcpy(request->message.body, body, (size_t)frame->length);
    request->message.decode = spn__request_decode;
    request->server = server;
    request->status = SPN__STATUS_OK;
    spn__init(&request->turn, SPN__TURN_NEITHER);
    request->shard = (unsigned)((uintptr_t)stream >> 6);
    if (stream->until_timed == 0) {
        request->is_timed = 1;
        stream->until_timed = server->latency_every;
    }
    stream->until_timed--;
    spn__frames_count_request(stream, frame);
    return &request->message;
}

/* ---- the reply's way out ------------------------------------------------------------ */

/* For the log: whose memory it was is not known here, and the budget's figures tell. */
static bool is_over(const spn_request *request)
{
    return request->server->endpoint.budget.limit != 0;
}

/* There is no memory for the reply: says that, which takes little. */
static int answer_no_memory(spn_request *request)
{
    struct spn__stream *stream = spn__message_stream(&request->message);
    char text[192];

    spn__stream_lacks_memory(stream, "a reply", is_over(request));
    spn__frames_memory_text(stream, text, sizeof text);
    return spn__frames_answer(stream, &request->message.frame, SPN__STATUS_EXHAUSTED,
                              text, SPN__SEND_URGENT);
}

static int send_reply(spn_request *request)
{
    struct spn__stream *stream = spn__message_stream(&request->message);
    struct spn__counts *counts = counts_of(request);
    unsigned flags = SPN__SEND_SPLIT(request->split);
    unsigned char *bytes;
    size_t size;
    int rc;

    rc = spn__reply_finish(request, &bytes, &size);
    if (rc == SPN_ENOMEM)
        return answer_no_memory(request);
    if (rc != SPN_OK) { /* too large, as a rule */
        char text[160];

        (void)snprintf(text, sizeof text,
                       "Failed to send response: %s, max payload: %d",
                       rc == SPN_ERANGE ? "Data length too large" : spn_status_text(rc),
                       (int)stream->endpoint->payload);
        return spn__frames_answer(stream, &request->message.frame,
                                  SPN__STATUS_SERIALIZATION, text, 0);
    }
    /* Others will answer this client soon: one write for all of them. */
    if (spn__stream_in_flight(stream) > 1)
        flags |= SPN__SEND_SOON;
    rc = spn__stream_send(stream, bytes, size, flags);
    if (rc == SPN_ENOMEM)
        return answer_no_memory(request);
    if (rc != SPN_OK) {
        spn__count(counts, SPN__COUNT_DROPPED, 1);
        return rc;
    }
    spn__count(counts, SPN__COUNT_REPLIES, 1);
    spn__count(counts, SPN__COUNT_STATUS + spn__status_slot(request->status), 1);
    if (request->reply == SPN__REPLY_EXCEPTION)
        spn__count(counts, SPN__COUNT_EXCEPTIONS, 1);
    return SPN_OK;
}

int spn__request_send(struct spn_request *request)
{
    int rc = SPN_OK;

    /* Before the reply: who has read it may ask again at once. */
    spn__message_leave(&request->message.head);
    if (spn__frame_is_two_way(&request->message.frame)) {
        if (request->dropped)
            spn__count(counts_of(request), SPN__COUNT_DROPPED, 1);
        else
            rc = send_reply(request);
    }
    if (request->is_timed)
        spn_histogram_record(request->server->latency,
                             spn__now() - request->message.head.arrived_ns);
    release(&request->message.head);
    return rc;
}

void spn__text_end_whole(char *text)
{
    const size_t length = strlen(text);
    size_t lead = length;
    unsigned char byte;
    size_t wanted;

    while (lead > 0 && length - lead < 3 &&
           ((unsigned char)text[lead - 1] & 0xC0) == 0x80)
        lead--;
    if (lead == 0)
        return;
    byte = (unsigned char)text[lead - 1];
    wanted = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    if (length - (lead - 1) < wanted)
        text[lead - 1] = '\0';
}

static bool is_decided(const spn_request *request)
{
    return request->reply == SPN__REPLY_EXCEPTION ||
           request->reply == SPN__REPLY_STATUS;
}

int spn__request_conclude(struct spn_request *request, int status)
{
    /* A reply that could not be written answers for itself in send_reply. */
    const bool is_written =
        !request->has_writer || spn__hwriter_status(&request->writer) == SPN_OK;

    if (status == SPN_ENOMEM)
        spn__stream_lacks_memory(spn__message_stream(&request->message), "a method",
                                 is_over(request));
    if (status != SPN_OK && !is_decided(request) && is_written && !request->dropped) {
        char text[640];
        const char *why =
            request->problem != NULL ? request->problem->text : spn_status_text(status);

        (void)snprintf(text, sizeof text, "Failed to invoke %.*s.%.*s: %s (%d)",
                       (int)request->path.length, request->path.data,
                       (int)request->method.length, request->method.data, why, status);
        spn__text_end_whole(text);
        (void)spn_request_answer(request, SPN__STATUS_SERVICE_ERROR, text);
    }
    return spn__request_send(request);
}

int spn__request_fail(struct spn_request *request, int status, const char *format, ...)
{
    spn_harena *arena = spn_request_arena(request);
    char text[sizeof request->problem->text];
    va_list arguments;

    if (request->problem == NULL && arena != NULL)
        request->problem = spn_harena_alloc(arena, sizeof *request->problem);
    if (request->problem == NULL)
        return status; /* its own words will do */
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    spn__text_end_whole(text);
    return spn__refuse(request->problem, status, 0, "%s", text);
}

int spn_request_defer(spn_request *request)
{
    if (request == NULL)
        return SPN_EINVAL;
    if (request->is_deferred || !request->is_running)
        return SPN_ESTATE;
    request->is_deferred = 1;
    return SPN_OK;
}

int spn_request_finish(spn_request *request, int status)
{
    if (request == NULL)
        return SPN_EINVAL;
    if (!request->is_deferred)
        return SPN_ESTATE;
    request->finish_status = status;
    switch (spn__exchange(&request->turn, SPN__TURN_FINISHED, acq_rel)) { /* [defer] */
    case SPN__TURN_RETURNED:
        return spn__request_conclude(request, status);
    case SPN__TURN_FINISHED:
        return SPN_ESTATE; /* a second time, seen because the method still runs */
    default:
        return SPN_OK; /* its method, when it returns */
    }
}

void spn__request_cut_short(struct spn_request *request)
{
    char text[640];

    /* One that was deferred is another's by now, who finishes it. */
    if (request->is_deferred || is_decided(request) || request->dropped)
        return;
    (void)snprintf(text, sizeof text,
                   "Failed to invoke %.*s.%.*s: the method ended its thread and did "
                   "not return",
                   (int)request->path.length, request->path.data,
                   (int)request->method.length, request->method.data);
    spn__text_end_whole(text);
    (void)spn_request_answer(request, SPN__STATUS_SERVER_ERROR, text);
}

void spn__request_returned(struct spn_request *request, int status)
{
    uint32_t turn;

    if (!request->is_deferred) {
        (void)spn__request_conclude(request, status);
        return;
    }
    spn__message_leave(&request->message.head);
    turn = spn__exchange(&request->turn, SPN__TURN_RETURNED, acq_rel); /* [defer] */
    if (turn == SPN__TURN_FINISHED)
        (void)spn__request_conclude(request, request->finish_status);
}

int spn_request_drop(spn_request *request)
{
    if (request == NULL)
        return SPN_EINVAL;
    request->dropped = 1;
    return SPN_OK;
}

int spn_request_split(spn_request *request, size_t bytes)
{
    if (request == NULL)
        return SPN_EINVAL;
    request->split = bytes;
    return SPN_OK;
}

/* ---- what was asked ------------------------------------------------------------------ */

const char *spn_request_method(const spn_request *request)
{
    return request != NULL ? request->method.data : NULL;
}

const char *spn_request_parameters(const spn_request *request)
{
    return request != NULL ? request->descriptor.data : NULL;
}

const char *spn_request_remote(const spn_request *request)
{
    return request != NULL
               ? spn__conn_remote(spn__message_stream(&request->message)->conn)
               : NULL;
}

int64_t spn_request_remaining_ns(const spn_request *request)
{
    int64_t left;

    if (request == NULL)
        return 0;
    if (request->timeout_ms <= 0 || request->timeout_ms > INT32_MAX)
        return SPN_FOREVER;
    left = request->message.head.arrived_ns + SPN_MS(request->timeout_ms) - spn__now();
    return left > 0 ? left : 0;
}

spn_cancel_token *spn_request_cancel_token(spn_request *request)
{
    if (request == NULL)
        return NULL;
    if (request->token == NULL)
        request->token =
            spn__stream_child_token(spn__message_stream(&request->message));
    return request->token;
}

spn_harena *spn_request_arena(spn_request *request)
{
    if (request == NULL)
        return NULL;
    if (request->arena == NULL && spn_harena_create(&request->arena, NULL) == SPN_OK)
        request->arena->budget = &request->server->endpoint.budget;
    return request->arena;
}

/* ---- attachments ----------------------------------------------------------------------- */

/* Those that were left where they are. */
static spn_hvalue *read_attachments(spn_request *request)
{
    const unsigned char *at = request->attachments_at - 1; /* with its 'H' */
    const unsigned char *const end =
        request->message.body + request->message.frame.length;
    spn_harena *arena = spn_request_arena(request);
    unsigned char *copy;
    struct spn__hreader reader;
    spn_hvalue *map;

    if (arena == NULL)
        return NULL;
    /* In front of the first key a text may have its zero byte by now. */
    copy = spn_harena_alloc(arena, (size_t)(end - at));
    if (copy == NULL)
        return NULL;
    memcpy(copy, at, (size_t)(end - at));
    copy[0] = 'H';
    spn__hreader_init(&reader, arena, copy, (size_t)(end - at), NULL);
    return spn__hreader_any(&reader, &map) == SPN_OK ? map : NULL;
}

const spn_hvalue *spn_request_attachments(spn_request *request)
{
    if (request == NULL)
        return NULL;
    if (request->attachments == NULL && request->attachments_at != NULL)
        request->attachments = read_attachments(request);
    return request->attachments;
}

const char *spn_request_attachment(spn_request *request, const char *key)
{
    const spn_hvalue *value;
    int64_t number;
    char *text;

    if (request == NULL || key == NULL)
        return NULL;
    value = spn_hvalue_get(spn_request_attachments(request), key);
    if (value == NULL)
        return NULL;
    if (spn_hvalue_kind(value) == SPN_HSTRING)
        return spn_hvalue_text(value);
    if ((spn_hvalue_kind(value) != SPN_HINT && spn_hvalue_kind(value) != SPN_HLONG) ||
        spn_hvalue_as_long(value, &number) != SPN_OK)
        return NULL;
    text = spn_harena_alloc(request->arena, 24);
    if (text != NULL)
        (void)snprintf(text, 24, "%lld", (long long)number);
    return text;
}

/* ---- arguments --------------------------------------------------------------------------- */

size_t spn_request_count(const spn_request *request)
{
    return request != NULL ? request->argument_count : 0;
}

/* NULL: there is none, or nowhere to put it, and *rc says which. */
static struct spn__argument *find(spn_request *request, size_t index, const void *out,
                                  int *rc)
{
    *rc = SPN_EINVAL;
    if (request == NULL || out == NULL)
        return NULL;
    if (index >= request->argument_count) {
        *rc = spn__request_fail(request, SPN_EEMPTY,
                                "there is no argument %llu, but %u in all",
                                (unsigned long long)index, request->argument_count);
        return NULL;
    }
    *rc = SPN_OK;
    return &request->arguments[index];
}

static int wrong(spn_request *request, size_t index, int rc, const char *wanted)
{
    const struct spn__argument *argument = &request->arguments[index];
    const spn_hkind kind = argument->value != NULL ? spn_hvalue_kind(argument->value)
                                                   : (spn_hkind)argument->kind;

    if (rc == SPN_ERANGE)
        return spn__request_fail(request, rc, "argument %llu does not fit into %s",
                                 (unsigned long long)index, wanted);
    return spn__request_fail(request, rc, "argument %llu is of kind %s, not %s",
                             (unsigned long long)index, spn_hkind_name(kind), wanted);
}

int spn_request_value(spn_request *request, size_t index, const spn_hvalue **value)
{
    int rc;
    struct spn__argument *argument = find(request, index, value, &rc);

    if (argument == NULL)
        return rc;
    *value = spn__argument_value(request, argument);
    return *value != NULL ? SPN_OK : SPN_ENOMEM;
}

static int as_long(struct spn__argument *argument, int64_t *number)
{
    if (argument->value != NULL)
        return spn_hvalue_as_long(argument->value, number);
    if (argument->kind != SPN_HINT && argument->kind != SPN_HLONG)
        return SPN_EINVAL;
    *number = argument->is.integer;
    return SPN_OK;
}

int spn_request_int(spn_request *request, size_t index, int32_t *number)
{
    int64_t value;
    int rc;
    struct spn__argument *argument = find(request, index, number, &rc);

    if (argument == NULL)
        return rc;
    rc = as_long(argument, &value);
    if (rc == SPN_OK && (value < INT32_MIN || value > INT32_MAX))
        rc = SPN_ERANGE;
    if (rc != SPN_OK)
        return wrong(request, index, rc, "int");
    *number = (int32_t)value;
    return SPN_OK;
}

int spn_request_long(spn_request *request, size_t index, int64_t *number)
{
    int rc;
    struct spn__argument *argument = find(request, index, number, &rc);

    if (argument == NULL)
        return rc;
    rc = as_long(argument, number);
    return rc == SPN_OK ? rc : wrong(request, index, rc, "long");
}

int spn_request_string(spn_request *request, size_t index, spn_hspan *text)
{
    int rc;
    struct spn__argument *argument = find(request, index, text, &rc);

    if (argument == NULL)
        return rc;
    if (argument->value != NULL)
        rc = spn_hvalue_as_string(argument->value, text);
    else if (argument->kind == SPN_HSTRING)
        *text = argument->is.text;
    else if (argument->kind == SPN_HNULL)
        *text = (spn_hspan){ NULL, 0 };
    else
        rc = SPN_EINVAL;
    return rc == SPN_OK ? rc : wrong(request, index, rc, "string");
}

int spn_request_text(spn_request *request, size_t index, const char **text)
{
    spn_hspan span = { NULL, 0 };
    int rc;

    if (text == NULL)
        return SPN_EINVAL;
    rc = spn_request_string(request, index, &span);
    if (rc != SPN_OK)
        return rc;
    if (span.data != NULL && memchr(span.data, '\0', span.length) != NULL)
        return spn__request_fail(request, SPN_EINVAL,
                                 "argument %llu has a zero byte in it",
                                 (unsigned long long)index);
    *text = span.data;
    return SPN_OK;
}

int spn_request_struct(spn_request *request, size_t index, const spn_hstruct *type,
                       void *to)
{
    spn_problem problem = SPN_PROBLEM_INIT;
    spn_hvalue *value;
    int rc;
    struct spn__argument *argument = find(request, index, to, &rc);

    if (argument == NULL)
        return rc;
    if (type == NULL)
        return SPN_EINVAL;
    value = spn__argument_value(request, argument);
    if (value == NULL)
        return SPN_ENOMEM;
    rc = spn_hvalue_to_struct(value, spn_request_arena(request), type, to, &problem);
    if (rc != SPN_OK)
        return spn__request_fail(request, rc, "argument %llu: %s",
                                 (unsigned long long)index,
                                 problem.text[0] != '\0' ? problem.text
                                                         : spn_status_text(rc));
    return SPN_OK;
}
