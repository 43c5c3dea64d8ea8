/* SPDX-License-Identifier: MIT */
/*
 * exchange.c - the innermost handler of a server: finds the method of a request and calls
 * it; tells the program of what happens to connections.
 *
 * Every two-way request that comes here leaves with exactly one reply: of its method, or of
 * whatever kept it from one.  Statuses and texts are those clients of Dubbo know.
 *
 * A method may end a pool's thread (pthread_exit).  The request has its end all the same
 * (method_ended), and whoever unexports the service does not wait for a method that is no
 * more.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "rpc/wire/hessian_value.h"
#include "rpc/server/request.h"
#include "rpc/server/serving.h"
#include "sync/thread_record.h"

/* ---- requests ------------------------------------------------------------------------ */

/* Nobody will run it: the reply says why. */
static void answer(spn_request *request, int status, char *text)
{
    spn__text_end_whole(text);
    (void)spn_request_answer(request, status, text);
    (void)spn__request_send(request);
}

/* The arguments found no room in the server's memory; they may be as they should. */
static void answer_no_room(spn_request *request)
{
    char text[192];

    spn__stream_lacks_memory(spn__message_stream(&request->message), "the arguments",
                             true);
    spn__frames_memory_text(spn__message_stream(&request->message), text, sizeof text);
    answer(request, SPN__STATUS_EXHAUSTED, text);
}

static void answer_broken(spn_request *request)
{
    char text[640];

    if (request->arena != NULL && request->arena->is_over) {
        answer_no_room(request);
        return;
    }
    spn__count(&request->server->endpoint.counts, SPN__COUNT_BAD_BODIES, 1);
    (void)snprintf(text, sizeof text, "Fail to decode request due to: %s",
                   request->problem != NULL ? request->problem->text : "no memory");
    answer(request, SPN__STATUS_BAD_REQUEST, text);
}

static bool is_expired(const spn_request *request)
{
    return !request->server->run_expired && request->timeout_ms > 0 &&
           spn_request_remaining_ns(request) == 0;
}

static void answer_expired(spn_request *request)
{
    char text[] = "the client has stopped waiting: its timeout passed in the queue";

    spn__count(&request->server->endpoint.counts, SPN__COUNT_EXPIRED, 1);
    answer(request, SPN__STATUS_SERVER_TIMEOUT, text);
}

static void answer_unknown_service(spn_request *request)
{
    char text[640];

    (void)
        snprintf(text, sizeof text,
                 "Not found exported service: %.*s%s%.*s%s%.*s:%d, channel: consumer: "
                 "%s --> provider: %s",
                 (int)request->group.length, request->group.data,
                 request->group.length > 0 ? "/" : "", (int)request->path.length,
                 request->path.data, request->version.length > 0 ? ":" : "",
                 (int)request->version.length,
                 request->version.data != NULL ? request->version.data : "",
                 spn_server_port(request->server),
                 spn__conn_remote(spn__message_stream(&request->message)->conn),
                 spn__conn_local(spn__message_stream(&request->message)->conn));
    answer(request, SPN__STATUS_SERVICE_ERROR, text);
}

static void answer_unknown_method(spn_request *request)
{
    char text[640];

    (void)snprintf(text, sizeof text, "no such method: %.*s.%.*s(%.*s)",
                   (int)request->path.length, request->path.data,
                   (int)request->method.length, request->method.data,
                   (int)request->descriptor.length, request->descriptor.data);
    answer(request, SPN__STATUS_SERVICE_ERROR, text);
}

/* $echo of every service: its argument. */
static int echo(void *arg, spn_request *request)
{
    const spn_hvalue *value;
    int rc = spn_request_value(request, 0, &value);

    (void)arg;
    return rc == SPN_OK ? spn_request_return_value(request, value) : rc;
}

static const spn_method echo_method = { "$echo", NULL, echo, NULL };

/* The method has ended its thread. */
static void method_ended(void *request, void *held)
{
    (void)held;
    spn__request_cut_short(request);
    spn__request_returned(request, SPN_ECANCELED);
}

static void run_method(spn_request *request)
{
    const spn_method *method = request->called;
    spn_executor_frame inside; /* marks the thread: see spn__services_unexport */
    const bool entered =
        spn_executor_enter(&request->exported->inside, &inside) == SPN_OK;
    struct spn_thread *self = spn__self_get();
    int status;

    spn__task_entered(self, method_ended, request, NULL);
    status = method->fn(method->arg, request);
    spn__task_left(self);
    if (entered)
        (void)spn_executor_leave(&inside);
    spn__request_returned(request, status);
}

static void serve(spn_request *request)
{
    const spn_service *service;

    if (request->is_broken) {
        answer_broken(request);
        return;
    }
    if (is_expired(request)) {
        answer_expired(request);
        return;
    }
    /* Looked for before the arguments were read, and not there then. */
    if (request->offer == SPN__NO_SERVICE) {
        answer_unknown_service(request);
        return;
    }
    if (request->offer == SPN__NO_METHOD) {
        answer_unknown_method(request);
        return;
    }
    request->exported =
        spn__services_begin(&request->server->services, request->group, request->path,
                            request->version, request->shard, &service);
    if (request->exported == NULL) {
        answer_unknown_service(request);
        return;
    }
    request->called =
        spn__service_method(service, request->method, request->descriptor);
    if ((request->called == NULL || request->called->name[0] == '*') &&
        spn__service_is_echo(request->method, request->descriptor))
        request->called = &echo_method;
    if (request->called == NULL) {
        answer_unknown_method(request);
        return;
    }
    request->is_running = 1;
    run_method(request);
}

/* ---- the handler ------------------------------------------------------------------------ */

/* An event that is no heartbeat. */
static void take_event(struct spn__stream *stream, const struct spn__message *message)
{
    const unsigned char *body = message->body;

    spn__count(&stream->endpoint->counts, SPN__COUNT_EVENTS, 1);
    if (message->frame.length != 2 || body[0] != 1)
        return;
    /* relaxed, both: a wish of the peer's that nothing hangs on. */
    if (body[1] == 'R')
        (void)spn__fetch_or(&stream->state, SPN__STREAM_READ_ONLY, relaxed);
    else if (body[1] == 'W')
        (void)spn__fetch_and(&stream->state, ~(uint32_t)SPN__STREAM_READ_ONLY, relaxed);
}

static int received(spn_handler *handler, spn_channel *channel, spn_message *message)
{
    struct spn__message *own = spn__message_of(message);

    (void)handler;
    if (spn__frame_is_event(&own->frame)) {
        take_event(spn__stream_of(channel), own);
        spn_message_release(message);
        return SPN_OK;
    }
    serve((spn_request *)(void *)own);
    return SPN_OK;
}

static void tell(spn_channel *channel, spn_channel_event event, int why)
{
    struct spn__stream *stream = spn__stream_of(channel);
    struct spn_server *server = spn__server_of(stream->endpoint);
    spn_channel_info info;

    if (server->event == NULL)
        return;
    spn__frames_info(stream, why, &info);
    server->event(server->ctx, event, &info);
}

static void connected(spn_handler *handler, spn_channel *channel)
{
    (void)handler;
    tell(channel, SPN_CHANNEL_CONNECTED, SPN_OK);
}

static void disconnected(spn_handler *handler, spn_channel *channel, int why)
{
    (void)handler;
    tell(channel, SPN_CHANNEL_DISCONNECTED, why);
}

static void sent(spn_handler *handler, spn_channel *channel, uint64_t position)
{
    (void)handler;
    (void)position;
    tell(channel, SPN_CHANNEL_SENT, SPN_OK);
}

static void caught(spn_handler *handler, spn_channel *channel, int why)
{
    (void)handler;
    spn__log_limited(SPN_LOG_WARN, SPN_SEC(1), "rpc: %s: %s", channel->remote,
                     spn_status_text(why));
    tell(channel, SPN_CHANNEL_CAUGHT, why);
}

const spn_handler_ops spn__serve_ops = {
    .connected = connected,
    .disconnected = disconnected,
    .sent = sent,
    .received = received,
    .caught = caught,
};
