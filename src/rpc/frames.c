/* SPDX-License-Identifier: MIT */
/*
 * frames.c - the frames of Dubbo's protocol: what comes of one that is whole, and what is
 * answered to one that is not.
 *
 * Bad frames (see wire/frame.c) end the connection, after a reply with status 40 where
 * somebody waits for one.  A request that finds no memory is answered with status 100, or 40
 * if it alone is too large, and the rest of its frame is passed over.
 *
 * Heartbeats are answered here, on the I/O thread and outside of the dispatch: a server whose
 * pool is stuck still looks alive, so that clients keep their connection and are told that
 * there is no room, instead of connecting elsewhere in a storm.
 */
#include "rpc/frames.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/time.h"
#include "rpc/wire/hessian.h"
#include "sync/blocks.h"

enum { EVENT_MAX = 15 }; /* bytes of an event's body; longer ones are passed over */

void spn__frames_info(struct spn__stream *stream, int error, spn_channel_info *info)
{
    const int64_t now = spn__now();
    const int64_t read = spn__conn_last_read_ns(stream->conn);
    const int64_t written = spn__conn_last_write_ns(stream->conn);

    memset(info, 0, sizeof *info);
    info->size = sizeof *info;
    info->remote = spn__conn_remote(stream->conn);
    info->local = spn__conn_local(stream->conn);
    info->age_ns = now - stream->opened_ns;
    info->idle_ns = now - (read > written ? read : written);
    info->requests = spn__load(&stream->requests, relaxed); /* only a number */
    info->in_flight = spn__stream_in_flight(stream);
    info->unwritten = spn__conn_unwritten(stream->conn);
    /* relaxed: out of date a moment later anyway. */
    info->is_open = (spn__load(&stream->state, relaxed) & SPN__STREAM_CLOSED) == 0;
    info->error = error;
}

/* ---- messages ---------------------------------------------------------------------- */

static void release_event(spn_message *message)
{
    struct spn__stream *stream = spn__stream_of(message->channel);

    spn__block_put(message);
    spn__stream_drop(stream);
}

static const spn_message_ops event_ops = { release_event, NULL };

/* Events have their message here: they are alike for servers and clients. */
static struct spn__message *make_event(struct spn__stream *stream,
                                       const struct spn__frame *frame,
                                       const unsigned char *body)
{
    struct spn__message *message =
        spn__block_get(sizeof *message + (size_t)frame->length);

    if (message == NULL)
        return NULL;
    spn__message_init(message, &event_ops, stream, frame,
                      (unsigned char *)(message + 1));
    memcpy(message->body, body, (size_t)frame->length);
    spn__stream_hold(stream);
    return message;
}

static struct spn__message *make_message(struct spn__stream *stream,
                                         const struct spn__frame *frame,
                                         const unsigned char *body)
{
    const struct spn__frames_protocol *own =
        (const struct spn__frames_protocol *)(const void *)stream->endpoint->protocol;

    return own->message(stream, frame, body);
}

/* A body of `N`, or none. */
static bool is_heartbeat(const struct spn__frame *frame, const unsigned char *body)
{
    return frame->length == 0 || (frame->length == 1 && body[0] == 'N');
}

static void take_heartbeat(struct spn__stream *stream, const struct spn__frame *frame)
{
    if (!spn__frame_is_request(frame) || !spn__frame_is_two_way(frame))
        return;
    (void)spn__frames_send_event(stream, 0, SPN__STATUS_OK, frame->id, NULL);
    spn__count(&stream->endpoint->counts, SPN__COUNT_HEARTBEATS, 1);
}

void spn__frames_ask(struct spn__stream *stream)
{
    (void)spn__frames_send_event(stream, SPN__FRAME_REQUEST | SPN__FRAME_TWO_WAY, 0,
                                 (int64_t)spn__random(), NULL);
}

/* ---- frames that are refused ----------------------------------------------------------- */

/* Every request that came is counted here, whatever becomes of it: when nothing moves,
 * requests are replies, one-way ones and those whose reply was dropped. */
void spn__frames_count_request(struct spn__stream *stream,
                               const struct spn__frame *frame)
{
    spn__stream_count_request(stream);
    if (!spn__frame_is_two_way(frame))
        spn__count(&stream->endpoint->counts, SPN__COUNT_ONE_WAY, 1);
}

/* A frame that nothing can be made of: if it is a request, it came all the same, counts,
 * and is answered. */
static void refuse_request(struct spn__stream *stream, const struct spn__frame *frame,
                           int status, const char *text, unsigned flags)
{
    if (!spn__frame_is_request(frame) || spn__frame_is_event(frame))
        return;
    if (!stream->endpoint->is_client)
        spn__frames_count_request(stream, frame);
    if (spn__frame_is_two_way(frame))
        (void)spn__frames_answer(stream, frame, status, text, flags);
}

void spn__frames_memory_text(const struct spn__stream *stream, char *text, size_t size)
{
    (void)snprintf(text, size,
                   "Server side memory is exhausted: memory=%llu bytes are for all "
                   "connections; try again later, or elsewhere",
                   (unsigned long long)stream->endpoint->budget.limit);
}

/* Nor is there memory for what came. */
static void refuse_memory(struct spn__stream *stream, const struct spn__frame *frame)
{
    struct spn__endpoint *endpoint = stream->endpoint;
    const bool is_over = stream->is_over;
    char text[192];

    stream->is_over = false;
    spn__stream_lacks_memory(stream,
                             spn__frame_is_request(frame) ? "a request" : "a response",
                             is_over);
    if (!is_over) {
        refuse_request(stream, frame, SPN__STATUS_SERVER_ERROR, "out of memory",
                       SPN__SEND_URGENT);
        return;
    }
    if ((uint64_t)frame->length > spn__endpoint_message_most(endpoint)) {
        (void)snprintf(text, sizeof text,
                       "Data length too large: %d; with memory=%llu a request has at "
                       "most %llu bytes",
                       (int)frame->length, (unsigned long long)endpoint->budget.limit,
                       (unsigned long long)spn__endpoint_message_most(endpoint));
        refuse_request(stream, frame, SPN__STATUS_BAD_REQUEST, text, SPN__SEND_URGENT);
        return;
    }
    spn__frames_memory_text(stream, text, sizeof text);
    refuse_request(stream, frame, SPN__STATUS_EXHAUSTED, text, SPN__SEND_URGENT);
}

/* A frame that is whole. */
static void take(struct spn__stream *stream, const struct spn__frame *frame,
                 const unsigned char *body, int64_t now_ns)
{
    struct spn__endpoint *endpoint = stream->endpoint;
    const bool is_request = spn__frame_is_request(frame);
    struct spn__message *message;

    if (spn__frame_serialization(frame) != SPN__HESSIAN2) {
        char text[64] = "Unrecognized serialize type ";
        const unsigned id = spn__frame_serialization(frame);
        size_t at = strlen(text);

        spn__count(&endpoint->counts, SPN__COUNT_BAD_FRAMES, 1);
        if (id >= 10)
            text[at++] = (char)('0' + id / 10);
        text[at++] = (char)('0' + id % 10);
        text[at] = '\0';
        refuse_request(stream, frame, SPN__STATUS_BAD_REQUEST, text, 0);
        if (is_request || spn__frame_is_event(frame) || !endpoint->is_client)
            return; /* a client's call hears of a response it cannot read */
    }
    if (spn__frame_is_event(frame)) {
        if (frame->length > EVENT_MAX) {
            spn__count(&endpoint->counts, SPN__COUNT_BAD_FRAMES, 1);
            return;
        }
        if (is_heartbeat(frame, body)) {
            take_heartbeat(stream, frame);
            return;
        }
        message = make_event(stream, frame, body);
    } else if (is_request && !endpoint->is_client &&
               (uint64_t)frame->length > spn__endpoint_message_most(endpoint)) {
        stream->is_over = true;
        message = NULL;
    } else if (is_request || endpoint->is_client) {
        message = make_message(stream, frame, body);
    } else {
        spn__count(&endpoint->counts, SPN__COUNT_RESPONSES, 1);
        return; /* a server asks for nothing */
    }
    if (message == NULL) {
        refuse_memory(stream, frame);
        return;
    }
    message->head.arrived_ns = now_ns;
    spn__stream_received(stream, &message->head);
}

/* A length that cannot be: the stream ends here. */
static void refuse_length(struct spn__stream *stream, const struct spn__frame *frame)
{
    struct spn__endpoint *endpoint = stream->endpoint;
    char text[96];

    spn__count(&endpoint->counts, SPN__COUNT_BAD_FRAMES, 1);
    if (frame->length < 0)
        snprintf(text, sizeof text, "negative length: %d", (int)frame->length);
    else
        snprintf(text, sizeof text, "Data length too large: %d, max payload: %d",
                 (int)frame->length, (int)endpoint->payload);
    refuse_request(stream, frame, SPN__STATUS_BAD_REQUEST, text, SPN__SEND_URGENT);
    stream->ended = true;
    spn__conn_end(stream->conn);
    spn__handler_caught(endpoint->chain, &stream->channel, SPN_ETOOBIG);
}

/* An unfinished frame that may not be kept: it is refused now, and what comes of it is passed
 * over. */
static void refuse_unfinished(struct spn__stream *stream,
                              const struct spn__frame *frame, size_t needed,
                              size_t part)
{
    stream->skip = needed - part;
    stream->is_over = stream->endpoint->budget.limit != 0;
    refuse_memory(stream, frame);
}

int64_t spn__frames_crowded(struct spn__stream *stream, const unsigned char *data,
                            size_t size)
{
    struct spn__frame frame;
    size_t needed;

    if (size < SPN__FRAME_BYTES ||
        spn__frame_read(&frame, data, size, stream->endpoint->payload, &needed) !=
            SPN__FRAME_MORE)
        return SPN_ENOMEM;
    refuse_unfinished(stream, &frame, needed, size);
    return (int64_t)size;
}

/* ---- frames ------------------------------------------------------------------------------ */

int64_t spn__frames_take(struct spn__stream *stream, const unsigned char *data,
                         size_t size, int64_t now_ns, size_t *needed)
{
    struct spn__endpoint *endpoint = stream->endpoint;
    struct spn__frame frame;

    switch (spn__frame_read(&frame, data, size, endpoint->payload, needed)) {
    case SPN__FRAME_WHOLE:
        take(stream, &frame, data + SPN__FRAME_BYTES, now_ns);
        return (int64_t)*needed;
    case SPN__FRAME_MORE:
        if (!endpoint->is_client && size >= SPN__FRAME_BYTES &&
            *needed - SPN__FRAME_BYTES > spn__endpoint_message_most(endpoint))
            refuse_unfinished(stream, &frame, *needed, size);
        return 0;
    case SPN__FRAME_NO_MAGIC:
        spn__count(&endpoint->counts, SPN__COUNT_BAD_FRAMES, 1);
        return SPN_EPROTO;
    case SPN__FRAME_TOO_LARGE:
    case SPN__FRAME_NEGATIVE:
        break;
    }
    refuse_length(stream, &frame);
    return 0;
}

/* ---- sending ------------------------------------------------------------------------------ */

/* Programs see channels of this protocol as figures only (spn_channel_info). */
static int send_nothing(void *ctx, spn_channel *channel, const void *message)
{
    (void)ctx;
    (void)channel;
    (void)message;
    return SPN_ENOTSUP;
}

const spn_channel_ops spn__frames_channel_ops = { .size = sizeof(spn_channel_ops),
                                                  .send = send_nothing };

int spn__frames_answer(struct spn__stream *stream, const struct spn__frame *request,
                       int status, const char *text, unsigned flags)
{
    struct spn__counts *counts = &stream->endpoint->counts;
    struct spn__frame frame = {
        .flags =
            SPN__HESSIAN2, /* also if the request had another: it is what we write */
        .status = (uint8_t)status,
        .id = request->id,
    };
    unsigned char room[1024], *bytes_out;
    struct spn__hwriter writer;
    size_t size;
    int rc;

    spn__hwriter_init(&writer, room, sizeof room, 0);
    (void)spn__hwriter_raw(&writer, room, SPN__FRAME_BYTES); /* made out below */
    (void)spn__hwriter_text(&writer, text);
    rc = spn__hwriter_status(&writer);
    if (rc != SPN_OK) { /* what others wrote may be no text at all */
        spn__hwriter_reset(&writer, SPN__FRAME_BYTES);
        rc = spn__hwriter_text(&writer, "a text that cannot be written");
    }
    if (rc == SPN_OK) {
        bytes_out = spn__hwriter_bytes(&writer, &size);
        frame.length = (int32_t)(size - SPN__FRAME_BYTES);
        spn__frame_write(bytes_out, &frame);
        rc = spn__stream_send(stream, bytes_out, size, flags);
    }
    spn__hwriter_fini(&writer);
    if (rc == SPN_OK) {
        spn__count(counts, SPN__COUNT_REPLIES, 1);
        spn__count(counts, SPN__COUNT_STATUS + spn__status_slot(status), 1);
    } else {
        spn__count(counts, SPN__COUNT_DROPPED, 1);
    }
    return rc;
}

int spn__frames_send_event(struct spn__stream *stream, uint8_t flags, uint8_t status,
                           int64_t id, const char *body)
{
    const struct spn__frame frame = {
        .flags = flags | SPN__FRAME_EVENT | SPN__HESSIAN2,
        .status = status,
        .id = id,
        .length = body != NULL ? (int32_t)strlen(body) + 1 : 1,
    };
    unsigned char out[SPN__FRAME_BYTES + EVENT_MAX];

    spn__assert(frame.length <= EVENT_MAX);
    spn__frame_write(out, &frame);
    if (body != NULL) { /* a short string: its length, and the bytes */
        out[SPN__FRAME_BYTES] = (unsigned char)(frame.length - 1);
        memcpy(out + SPN__FRAME_BYTES + 1, body, (size_t)frame.length - 1);
    } else {
        out[SPN__FRAME_BYTES] = 'N';
    }
    return spn__stream_send(stream, out, SPN__FRAME_BYTES + (size_t)frame.length,
                            SPN__SEND_URGENT);
}
