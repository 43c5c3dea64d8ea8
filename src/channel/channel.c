/* SPDX-License-Identifier: MIT */
/*
 * channel.c - channels, messages and handlers of any protocol.
 *
 * OVERVIEW
 *   A channel is a connection: where its peer is, how to send, a word of the program's.  A
 *   program that has its own event loop makes one for each connection; streams
 *   (endpoint/stream.c) are channels of the library's own loops.
 *
 *   A message that comes by spn_handler_received is in flight on its channel until it is
 *   released.  So a handler may keep it and answer later, whatever becomes of the connection.
 *
 * LIFE       the program, each message in flight and each event under way hold the channel.
 *   [hold]     one word counts both: messages in flight in the upper half, other holders in
 *              the lower.  Each drop is a release, and an acquire for the one that brings
 *              it to 0, which frees: it sees all that others did with the channel.  After
 *              its own drop nobody touches the channel.
 */
#include "channel/channel.h"

#include <string.h>

#include "base/options.h"
#include "base/time.h"
#include "channel/dispatch.h"
#include "channel/places.h"

/* Whether the program's table, of whatever age, has an operation. */
#define has_op(ops, op)                                                       \
    ((ops)->size >= offsetof(spn_channel_ops, op) + sizeof(void (*)(void)) && \
     (ops)->op != NULL)

/* ---- life ------------------------------------------------------------------- */

void spn__channel_init(spn_channel *channel, const struct spn__channel_kind *kind,
                       const spn_channel_ops *ops, void *ctx, const char *remote)
{
    channel->kind = kind;
    channel->ops = ops;
    channel->ctx = ctx;
    channel->remote = remote;
    spn__init(&channel->holds, 1);
    spn__init(&channel->refs, 0);
    spn__init(&channel->left, 0);
}

/* Lets go of the program's word. */
static void drop_data(spn_channel *channel)
{
    void *data = channel->data;

    channel->data = NULL;
    if (channel->data_gone != NULL && data != NULL)
        channel->data_gone(data);
}

void spn__channel_fini(spn_channel *channel)
{
    drop_data(channel);
    spn__address_drop(channel->address);
}

static void free_plain(spn_channel *channel)
{
    const spn_channel_ops *ops = channel->ops;
    void *ctx = channel->ctx;

    spn__channel_fini(channel);
    spn__free(channel);
    if (has_op(ops, gone))
        ops->gone(ctx);
}

static void end_plain(spn_channel *channel, size_t counted)
{
    (void)counted; /* it has no memory of its own */
    spn__channel_drop_of(channel, SPN__IN_FLIGHT);
}

static const struct spn__channel_kind plain = { free_plain, end_plain };

/* Whether the table is one, of this age or another. */
static bool is_table(const spn_channel_ops *ops)
{
    if (ops->size > SPN__OPTIONS_MAX || ops->size % sizeof ops->size != 0 ||
        !has_op(ops, send))
        return false;
    return ops->size <= sizeof *ops ||
           spn__options_tail_is_zero(ops, sizeof *ops, ops->size);
}

int spn_channel_create(spn_channel **out, const spn_channel_ops *ops, void *ctx,
                       const char *remote)
{
    const size_t length = remote != NULL ? strlen(remote) : 0;
    spn_channel *channel;
    char *text;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (ops == NULL || !is_table(ops))
        return SPN_EINVAL;
    channel = spn__alloc(sizeof *channel + length + 1);
    if (channel == NULL)
        return SPN_ENOMEM;
    memset(channel, 0, sizeof *channel);
    text = (char *)(channel + 1);
    if (length > 0)
        memcpy(text, remote, length);
    text[length] = '\0';
    spn__channel_init(channel, &plain, ops, ctx, text);
    spn__store(&channel->refs, 1, relaxed); /* nobody else has it */
    *out = channel;
    return SPN_OK;
}

/* relaxed, both: only a number.  It is never more than the holders, so that who looks for
 * holders of another kind finds too many rather than too few. */
spn_channel *spn_channel_ref(spn_channel *channel)
{
    if (channel == NULL)
        return NULL;
    spn__channel_hold(channel);
    (void)spn__fetch_add(&channel->refs, 1, relaxed);
    return channel;
}

void spn_channel_unref(spn_channel *channel)
{
    if (channel == NULL)
        return;
    (void)spn__fetch_sub(&channel->refs, 1, relaxed);
    spn__channel_drop(channel);
}

int spn_channel_send(spn_channel *channel, const void *message)
{
    if (channel == NULL || message == NULL)
        return SPN_EINVAL;
    return channel->ops->send(channel->ctx, channel, message);
}

void spn_channel_close(spn_channel *channel, int why)
{
    if (channel != NULL && has_op(channel->ops, close))
        channel->ops->close(channel->ctx, channel, why);
}

const char *spn_channel_remote(spn_channel *channel)
{
    return channel != NULL ? channel->remote : NULL;
}

void *spn_channel_data(spn_channel *channel)
{
    return channel != NULL ? channel->data : NULL;
}

void spn_channel_set_data(spn_channel *channel, void *data, spn_data_gone_fn gone)
{
    if (channel == NULL)
        return;
    drop_data(channel);
    channel->data = data;
    channel->data_gone = gone;
}

/* ---- messages ------------------------------------------------------------------- */

void spn_message_release(spn_message *message)
{
    spn_channel *channel;
    size_t counted;

    if (message == NULL)
        return;
    spn__message_leave(message);
    channel = (message->flags & SPN__MESSAGE_KEEPS) != 0 ? message->channel : NULL;
    counted = message->counted;
    message->ops->release(message);
    if (channel != NULL)
        channel->kind->end(channel, counted);
}

/* ---- handlers -------------------------------------------------------------------- */

void spn_handler_connected(spn_handler *handler, spn_channel *channel)
{
    if (channel != NULL)
        spn__handler_connected(handler, channel);
}

void spn_handler_disconnected(spn_handler *handler, spn_channel *channel, int why)
{
    if (channel != NULL)
        spn__handler_disconnected(handler, channel, why);
}

void spn_handler_sent(spn_handler *handler, spn_channel *channel, uint64_t position)
{
    if (channel != NULL)
        spn__handler_sent(handler, channel, position);
}

int spn_handler_received(spn_handler *handler, spn_channel *channel,
                         spn_message *message)
{
    if (message == NULL || channel == NULL)
        return SPN_EINVAL; /* a failure: the message is still the caller's */
    if (message->channel == NULL) {
        (void)spn__channel_begin(channel);
        message->channel = channel;
        message->flags |= SPN__MESSAGE_KEEPS;
    }
    return spn__handler_received(handler, channel, message);
}

void spn_handler_caught(spn_handler *handler, spn_channel *channel, int why)
{
    if (channel != NULL)
        spn__handler_caught(handler, channel, why);
}

bool spn__handler_has_sent(const spn_handler *handler)
{
    for (; handler != NULL; handler = handler->inner)
        if (handler->ops->sent != NULL && !spn__handler_is_dispatch(handler))
            return true;
    return false;
}
