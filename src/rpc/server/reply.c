/* SPDX-License-Identifier: MIT */
/*
 * reply.c - what a request is answered with, written into its frame as soon as it is said.
 *
 * The frame begins with room for the header, then comes a flag: 0 exception, 1 value, 2
 * null, or 3 more if attachments follow, which clients of old versions do not understand.
 * A reply that somebody changes his mind about is written anew behind the header.  Small
 * ones need no memory but the request's own.
 */
#include <string.h>

#include "rpc/server/request.h"
#include "rpc/server/serving.h"

enum { FLAG_EXCEPTION = 0x90, FLAG_VALUE = 0x91, FLAG_NULL = 0x92, FLAG_ATTACHED = 3 };

static const unsigned char no_header[SPN__FRAME_BYTES];
/* { dubbo: "2.0.2" } */
static const unsigned char dubbo_attached[] = "H\5dubbo\0052.0.2Z";

/* A writer with nothing behind the header. */
static void begin(spn_request *request)
{
    const int32_t payload = spn__message_stream(&request->message)->endpoint->payload;

    if (request->has_writer) {
        spn__hwriter_reset(&request->writer, SPN__FRAME_BYTES);
        return;
    }
    spn__hwriter_init(&request->writer, request->room, sizeof request->room,
                      (size_t)payload + SPN__FRAME_BYTES);
    request->writer.budget = &request->server->endpoint.budget;
    request->has_writer = 1;
    (void)spn__hwriter_raw(&request->writer, no_header, sizeof no_header);
}

static struct spn__hwriter *begin_flag(spn_request *request, enum spn__reply reply,
                                       int flag)
{
    const unsigned char byte =
        (unsigned char)(flag + (request->wants_attachments ? FLAG_ATTACHED : 0));

    request->reply = (uint8_t)reply;
    request->status = SPN__STATUS_OK;
    begin(request);
    (void)spn__hwriter_raw(&request->writer, &byte, 1);
    return &request->writer;
}

static struct spn__hwriter *begin_value(spn_request *request)
{
    return begin_flag(request, SPN__REPLY_VALUE, FLAG_VALUE);
}

/* Nobody wants to hear it: one-way. */
static bool is_idle(const spn_request *request)
{
    return !spn__frame_is_two_way(&request->message.frame);
}

static int reply_null(spn_request *request)
{
    if (is_idle(request))
        return SPN_OK;
    return spn__hwriter_status(begin_flag(request, SPN__REPLY_NULL, FLAG_NULL));
}

int spn_request_return_int(spn_request *request, int32_t number)
{
    if (request == NULL)
        return SPN_EINVAL;
    return is_idle(request) ? SPN_OK : spn__hwriter_int(begin_value(request), number);
}

int spn_request_return_long(spn_request *request, int64_t number)
{
    if (request == NULL)
        return SPN_EINVAL;
    return is_idle(request) ? SPN_OK : spn__hwriter_long(begin_value(request), number);
}

int spn_request_return_text(spn_request *request, const char *text)
{
    if (request == NULL)
        return SPN_EINVAL;
    if (text == NULL)
        return reply_null(request);
    return is_idle(request) ? SPN_OK : spn__hwriter_text(begin_value(request), text);
}

int spn_request_return_string(spn_request *request, const char *data, size_t length)
{
    if (request == NULL || (data == NULL && length > 0))
        return SPN_EINVAL;
    if (data == NULL)
        return reply_null(request);
    return is_idle(request) ? SPN_OK
                            : spn__hwriter_string(begin_value(request), data, length);
}

int spn_request_return_value(spn_request *request, const spn_hvalue *value)
{
    if (request == NULL)
        return SPN_EINVAL;
    if (value == NULL && request->arena != NULL &&
        spn_harena_status(request->arena) != SPN_OK)
        return spn_harena_status(request->arena); /* it could not be made */
    if (spn_hvalue_kind(value) == SPN_HNULL)
        return reply_null(request);
    return is_idle(request) ? SPN_OK : spn__hwriter_value(begin_value(request), value);
}

int spn_request_return_struct(spn_request *request, const spn_hstruct *type,
                              const void *from)
{
    if (request == NULL || type == NULL)
        return SPN_EINVAL;
    if (from == NULL)
        return reply_null(request);
    return is_idle(request) ? SPN_OK
                            : spn__hwriter_struct(begin_value(request), type, from);
}

int spn_request_throw(spn_request *request, const char *class_name, const char *message)
{
    static const char *const fields[] = { "detailMessage", "cause", "stackTrace",
                                          "suppressedExceptions" };
    struct spn__hwriter *writer;

    if (request == NULL || class_name == NULL || class_name[0] == '\0')
        return SPN_EINVAL;
    if (is_idle(request)) {
        request->reply = SPN__REPLY_EXCEPTION;
        return SPN_OK;
    }
    writer = begin_flag(request, SPN__REPLY_EXCEPTION, FLAG_EXCEPTION);
    (void)spn__hwriter_begin_object(writer, class_name, fields,
                                    sizeof fields / sizeof *fields);
    (void)(message != NULL ? spn__hwriter_text(writer, message)
                           : spn__hwriter_null(writer));
    (void)spn__hwriter_null(writer);
    (void)spn__hwriter_begin_list(writer, NULL, 0);
    (void)spn__hwriter_end(writer);
    (void)spn__hwriter_null(writer);
    (void)spn__hwriter_end(writer);
    return spn__hwriter_status(writer);
}

int spn_request_answer(spn_request *request, int status, const char *text)
{
    if (request == NULL || text == NULL || status < 0 || status > 255 ||
        status == SPN__STATUS_OK)
        return SPN_EINVAL;
    request->reply = SPN__REPLY_STATUS;
    request->status = (uint8_t)status;
    if (is_idle(request))
        return SPN_OK;
    begin(request);
    return spn__hwriter_text(&request->writer, text);
}

int spn_request_attach(spn_request *request, const char *key, const char *value)
{
    spn_harena *arena;

    if (request == NULL || key == NULL || value == NULL)
        return SPN_EINVAL;
    arena = spn_request_arena(request);
    if (arena == NULL)
        return SPN_ENOMEM;
    if (request->attached == NULL) {
        request->attached = spn_harena_map(arena, NULL);
        if (request->attached == NULL)
            return spn_harena_status(arena);
    }
    if (spn_hvalue_count(request->attached) >= SPN__ATTACHMENTS_MAX &&
        spn_hvalue_get(request->attached, key) == NULL)
        return SPN_ERANGE;
    return spn_hvalue_set(request->attached, key, spn_harena_text(arena, value));
}

/* The attachments, behind the value.  A map written piece by piece: those of the value
 * would otherwise count as its neighbours. */
static void put_attachments(spn_request *request)
{
    struct spn__hwriter *writer = &request->writer;

    if (request->attached == NULL) {
        (void)spn__hwriter_raw(writer, dubbo_attached, sizeof dubbo_attached - 1);
        return;
    }
    (void)spn__hwriter_begin_map(writer, NULL);
    (void)spn__hwriter_text(writer, "dubbo");
    (void)spn__hwriter_text(writer, "2.0.2");
    for (size_t i = 0; i < spn_hvalue_count(request->attached); i++) {
        (void)spn__hwriter_value(writer, spn_hvalue_key_at(request->attached, i));
        (void)spn__hwriter_value(writer, spn_hvalue_at(request->attached, i));
    }
    (void)spn__hwriter_end(writer);
}

int spn__reply_finish(struct spn_request *request, unsigned char **bytes, size_t *size)
{
    struct spn__frame frame = {
        .flags = request->message.frame.flags & SPN__FRAME_SERIALIZATION,
        .id = request->message.frame.id,
    };
    int rc;

    if (!request->has_writer) /* nothing was said */
        (void)begin_flag(request, SPN__REPLY_NULL, FLAG_NULL);
    if (request->reply != SPN__REPLY_STATUS && request->wants_attachments)
        put_attachments(request);
    rc = spn__hwriter_status(&request->writer);
    if (rc != SPN_OK)
        return rc;
    *bytes = spn__hwriter_bytes(&request->writer, size);
    frame.status = request->status;
    frame.length = (int32_t)(*size - SPN__FRAME_BYTES);
    spn__frame_write(*bytes, &frame);
    return SPN_OK;
}
