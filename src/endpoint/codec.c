/* SPDX-License-Identifier: MIT */
/*
 * codec.c - the protocol of a program's streams: its codec says where frames end, makes
 * messages of them, and frames of messages.
 *
 * A frame that is none ends the connection in order: what the codec sent before, an answer to
 * the bad frame as a rule, is still written, and a server's messages before that frame are
 * answered.  The program hears why as `caught`, and once more as `disconnected`.  A stream
 * that ends inside a frame is told as `disconnected` only: nobody waits for an answer.
 *
 * A message is encoded on the thread that sends it, into its stack if it is small.
 */
#include "endpoint/endpoint.h"

#include <string.h>

#include "base/log.h"
#include "base/time.h"

enum { ROOM = 2048 }; /* bytes of the sender's stack; larger frames take memory */

/* For the peer to read what was sent before the end. */
#define READ_NS SPN_SEC(180)

static spn_endpoint *endpoint_of(struct spn__stream *stream)
{
    return (spn_endpoint *)(void *)stream->endpoint; /* its first member */
}

/* The peer may read slowly.  A connection that is ending keeps its deadline, which stop may have
 * set. */
static void end_in_order(struct spn__stream *stream)
{
    if (spn__conn_is_open(stream->conn))
        spn__conn_end_by(stream->conn, spn__time_add(spn__now(), READ_NS));
}

/* ---- what comes ---------------------------------------------------------------------- */

/* The stream ends here. */
static int64_t refuse_frame(struct spn__stream *stream, int why)
{
    struct spn__endpoint *endpoint = stream->endpoint;

    if (why == SPN_ENOMEM)
        spn__stream_lacks_memory(stream, "a message", endpoint->budget.limit != 0);
    else
        spn__count(&endpoint->counts, SPN__COUNT_BAD_FRAMES, 1);
    stream->why = why;
    spn__handler_caught(endpoint->chain, &stream->channel, why);
    if (endpoint->is_client) {
        stream->ended = true;
        end_in_order(stream);
    } else {
        spn__stream_refuse_rest(stream);
    }
    return 0;
}

/* Half a frame is none. */
static void cut_short(struct spn__stream *stream)
{
    spn__count(&stream->endpoint->counts, SPN__COUNT_BAD_FRAMES, 1);
    stream->why = SPN_EPROTO;
}

static int take_message(struct spn__stream *stream, const unsigned char *frame,
                        size_t size, int64_t now_ns)
{
    const spn_codec *codec = endpoint_of(stream)->codec;
    spn_message *message = NULL;
    int rc = codec->decode(codec->ctx, &stream->channel, frame, size, &message);

    if (rc < 0)
        return rc;
    if (message == NULL)
        return SPN_OK; /* a sign of life, or what needs no handler */
    if (message->arrived_ns == 0)
        message->arrived_ns = now_ns;
    if (!spn__stream_begin_counted(stream, message, size)) {
        spn_message_release(message); /* it keeps nothing yet */
        return SPN_ENOMEM;
    }
    spn__stream_count_request(stream);
    spn__stream_received(stream, message);
    return SPN_OK;
}

static int64_t take_frame(struct spn__stream *stream, const unsigned char *data,
                          size_t size, int64_t now_ns, size_t *needed)
{
    const spn_endpoint *endpoint = endpoint_of(stream);
    const spn_codec *codec = endpoint->codec;
    int64_t length;
    int rc;

    if (!spn__conn_is_open(stream->conn)) { /* an event has closed it */
        stream->ended = true;
        return 0;
    }
    length = codec->length(codec->ctx, data, size);
    if (length < 0)
        return refuse_frame(stream, length >= INT32_MIN ? (int)length : SPN_EPROTO);
    if ((uint64_t)length > endpoint->max_frame ||
        (length == 0 && size >= endpoint->max_frame))
        return refuse_frame(stream, SPN_ETOOBIG);
    if (length == 0 || (uint64_t)length > size) {
        *needed = length == 0 ? size + 1 : (size_t)length;
        return 0;
    }
    rc = take_message(stream, data, (size_t)length, now_ns);
    return rc == SPN_OK ? length : refuse_frame(stream, rc);
}

/* ---- what goes ------------------------------------------------------------------------ */

static int send_frame(struct spn__stream *stream, const void *message, unsigned flags)
{
    const spn_codec *codec = endpoint_of(stream)->codec;
    unsigned char room[ROOM], *frame = room;
    int64_t length = codec->encode(codec->ctx, message, room, sizeof room);
    size_t size;
    int rc;

    if (length < 0)
        return length >= INT32_MIN ? (int)length : SPN_EPROTO;
    if (length > INT32_MAX)
        return SPN_ETOOBIG;
    size = (size_t)length;
    if (size > sizeof room) {
        frame = spn__alloc(size);
        if (frame == NULL)
            return SPN_ENOMEM;
        length = codec->encode(codec->ctx, message, frame, size);
        if (length != (int64_t)size) { /* it cannot make up its mind */
            spn__free(frame);
            return length < 0 && length >= INT32_MIN ? (int)length : SPN_EPROTO;
        }
    }
    rc = spn__stream_send(stream, frame, size, flags);
    if (rc == SPN_ENOMEM)
        spn__stream_lacks_memory(stream, "a message to send",
                                 stream->endpoint->budget.limit != 0);
    if (frame != room)
        spn__free(frame);
    return rc;
}

static int send_message(void *ctx, spn_channel *channel, const void *message)
{
    struct spn__stream *stream = spn__stream_of(channel);

    (void)ctx;
    /* Others will answer this peer soon: one write for all of them. */
    return send_frame(stream, message,
                      spn__stream_in_flight(stream) > 1 ? SPN__SEND_SOON : 0);
}

static void close_channel(void *ctx, spn_channel *channel, int why)
{
    struct spn__stream *stream = spn__stream_of(channel);

    (void)ctx;
    if (why == SPN_OK)
        end_in_order(stream);
    else
        spn__conn_close(stream->conn, why < 0 ? why : SPN_ECLOSED);
}

/* The timer's thread.  What cannot be sent now is sent the next time. */
static void ask(struct spn__stream *stream)
{
    const spn_endpoint *endpoint = endpoint_of(stream);

    if (endpoint->heartbeat != NULL)
        (void)send_frame(stream, endpoint->heartbeat, SPN__SEND_URGENT);
}

static const spn_channel_ops channel_ops = { .size = sizeof(spn_channel_ops),
                                             .send = send_message,
                                             .close = close_channel };

static void unopened(struct spn__endpoint *base, struct spn__conn *conn, int why)
{
    spn_endpoint *endpoint = (spn_endpoint *)(void *)base; /* its first member */

    (void)conn;
    if (endpoint->stands != NULL)
        (void)spn_future_complete_error(endpoint->stands, spn__connect_status(why),
                                        "no connection");
}

const struct spn__protocol spn__codec_protocol = {
    .frame = take_frame,
    .cut_short = cut_short,
    .ask = ask,
    .unopened = unopened,
    .ops = &channel_ops,
    .frame_name = "frame_timeout_ns",
    .accepts_name = "max_channels",
};
