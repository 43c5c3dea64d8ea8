/* SPDX-License-Identifier: MIT */
/*
 * client_reply.c - a response becomes a reply: on the thread that waits for it, or where
 * the dispatcher says.
 *
 * A reply is one arena, and lives in it.  A response that cannot be decoded ends its call
 * with SPN_EPROTO: the connection goes on, since the frame around it was whole.
 *
 * WHEN NO THREAD TAKES IT, neither of the pool nor of the shared executor, it is handled
 * by the one that brought it, the I/O thread as a rule: a reply that has come is never
 * lost for want of a thread, and who overloads his pool is slowed down by it.
 */
#include <string.h>

#include "rpc/client/client_core.h"
#include "rpc/wire/hessian.h"
#include "rpc/wire/hessian_value.h"
#include "sync/blocks.h"

struct spn_reply {
    spn_harena *arena;
    int status;
    spn_hvalue *value;
    spn_hvalue *exception;
    spn_hvalue *attachments;
    const char *message;
};

/* The first thing in the body of a response with status 20. */
enum flag {
    FLAG_EXCEPTION = 0,
    FLAG_VALUE = 1,
    FLAG_NULL = 2,
    FLAG_ATTACHMENTS = 3 /* added to one of these */
};

static int read_result(spn_reply *reply, struct spn__hreader *reader)
{
    int32_t flag;
    int rc = spn__hreader_int(reader, &flag);

    if (rc != SPN_OK)
        return rc;
    if (flag < 0 || flag >= 2 * FLAG_ATTACHMENTS)
        return SPN_EINVAL;
    switch (flag % FLAG_ATTACHMENTS) {
    case FLAG_EXCEPTION:
        rc = spn__hreader_any(reader, &reply->exception);
        if (rc == SPN_OK)
            reply->message =
                spn_hvalue_text(spn_hvalue_get(reply->exception, "detailMessage"));
        break;
    case FLAG_VALUE:
        rc = spn__hreader_any(reader, &reply->value);
        break;
    default: /* FLAG_NULL */
        reply->value = spn_harena_null(reply->arena);
        rc = reply->value != NULL ? SPN_OK : SPN_ENOMEM;
        break;
    }
    if (rc == SPN_OK && flag >= FLAG_ATTACHMENTS)
        rc = spn__hreader_any(reader, &reply->attachments);
    return rc;
}

static int read_body(spn_reply *reply, const struct spn__message *message)
{
    struct spn__hreader reader;
    spn_hspan text;
    int rc;

    spn__hreader_init(&reader, reply->arena, message->body,
                      (size_t)message->frame.length, NULL);
    if (reply->status == SPN__STATUS_OK)
        return read_result(reply, &reader);
    rc = spn__hreader_string(&reader, &text);
    if (rc == SPN_OK)
        reply->message = text.data;
    return rc;
}

static void decode(struct spn__message *message)
{
    struct spn__response *response = (struct spn__response *)message;
    spn_harena_opts opts = SPN_HARENA_OPTS_INIT;
    spn_harena *arena;
    spn_reply *reply;
    int rc;

    if (response->call == NULL)
        return;
    if (spn__frame_serialization(&message->frame) != SPN__HESSIAN2) {
        response->failure = SPN_EPROTO;
        return;
    }
    opts.limit_bytes = spn__harena_for((size_t)message->frame.length);
    rc = spn_harena_create(&arena, &opts);
    reply = rc == SPN_OK ? spn_harena_alloc(arena, sizeof *reply) : NULL;
    if (reply == NULL) {
        spn_harena_destroy(arena);
        response->failure = SPN_ENOMEM;
        return;
    }
    memset(reply, 0, sizeof *reply);
    reply->arena = arena;
    reply->status = message->frame.status;
    rc = read_body(reply, message);
    if (rc != SPN_OK) {
        spn_harena_destroy(arena);
        response->failure = rc == SPN_ENOMEM ? SPN_ENOMEM : SPN_EPROTO;
        return;
    }
    response->reply = reply;
}

static void release(spn_message *message)
{
    struct spn__response *response = (struct spn__response *)(void *)message;
    struct spn__stream *stream = spn__message_stream(&response->message);

    /* Nobody took it, and the loss of its connection does not end the call any more. */
    if (response->call != NULL && !response->settled)
        spn__call_fail_if_listed(response->call, SPN__END_LOST, SPN_ECLOSED,
                                 "the reply was lost");
    if (response->call != NULL)
        spn__call_unref(response->call);
    spn_reply_destroy(response->reply);
    spn__block_put(response);
    spn__stream_drop(stream);
}

static const spn_message_ops response_ops = { release, NULL };

struct spn__message *spn__response_create(struct spn__stream *stream,
                                          const struct spn__frame *frame,
                                          const unsigned char *body)
{
    struct spn_client *client =
        (struct spn_client *)(void *)((char *)stream->endpoint -
                                      offsetof(struct spn_client, endpoint));
    struct spn__response *response =
        spn__block_get(sizeof *response + (size_t)frame->length);

    if (response == NULL) {
        struct spn__call *call = spn__frame_is_request(frame)
                                     ? NULL
                                     : spn__table_find(&client->table, frame->id);

        if (call != NULL) {
            spn__call_fail_if_listed(call, SPN__END_LOST, SPN_ENOMEM,
                                     "no memory for the reply");
            spn__call_unref(call);
        }
        return NULL;
    }
    memset(response, 0, sizeof *response);
    spn__message_init(&response->message, &response_ops, stream, frame,
                      (unsigned char *)(response + 1));
    memcpy(response->message.body, body, (size_t)frame->length);
    if (!spn__frame_is_request(frame)) {
        response->message.decode = decode;
        response->call = spn__table_answer(&client->table, frame->id);
        if (response->call != NULL && response->call->threadless != NULL)
            response->message.head.waiting =
                spn_threadless_executor(response->call->threadless);
    }
    spn__stream_hold(stream);
    return &response->message;
}

/* ---- the public half ---------------------------------------------------------------- */

int spn_reply_check(const spn_reply *reply)
{
    if (reply == NULL)
        return SPN_EINVAL;
    switch (reply->status) {
    case SPN__STATUS_OK:
        return reply->exception != NULL ? SPN_EREMOTE : SPN_OK;
    case SPN__STATUS_CLIENT_TIMEOUT:
    case SPN__STATUS_SERVER_TIMEOUT:
        return SPN_ETIMEDOUT;
    case SPN__STATUS_EXHAUSTED:
        return SPN_EREJECTED;
    default:
        return SPN_EREMOTE;
    }
}

int spn_reply_status(const spn_reply *reply)
{
    return reply != NULL ? reply->status : 0;
}

const spn_hvalue *spn_reply_value(const spn_reply *reply)
{
    return reply != NULL ? reply->value : NULL;
}

const spn_hvalue *spn_reply_exception(const spn_reply *reply)
{
    return reply != NULL ? reply->exception : NULL;
}

const char *spn_reply_message(const spn_reply *reply)
{
    return reply != NULL ? reply->message : NULL;
}

const spn_hvalue *spn_reply_attachments(const spn_reply *reply)
{
    return reply != NULL ? reply->attachments : NULL;
}

void spn_reply_destroy(spn_reply *reply)
{
    if (reply != NULL)
        spn_harena_destroy(reply->arena); /* which it is in */
}
