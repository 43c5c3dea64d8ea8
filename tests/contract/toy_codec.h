/* SPDX-License-Identifier: MIT */
/*
 * toy_codec.h - a small protocol for tests of endpoints.
 *
 * A frame is four bytes with the number of bytes behind them, a letter, and a body:
 *
 *     Q   a request: is answered with R and the same body
 *     D   the same, after the length in the body's first four bytes: a large reply
 *     K   a request that the handler keeps until toy_let_go
 *     F   a request that the handler fails with SPN_EFAILED, and does not release
 *     O   neither a request nor a response, and no answer
 *     R   a response
 *     h   a heartbeat, which the codec answers with H; H is for nobody
 *     X   is no message: decode says SPN_EPROTO
 *
 * A length with its highest bit set is no frame: length says SPN_EPROTO.
 */
#ifndef TOY_CODEC_H
#define TOY_CODEC_H

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <spindle/endpoint.h>

enum { TOY_HEAD = 5 };

/* What the peer sent. */
struct toy {
    spn_message head;
    char letter;
    size_t size;
    unsigned char body[];
};

/* What spn_channel_send takes. */
struct toy_out {
    char letter;
    const void *body; /* NULL: as many 'x' */
    size_t size;
    int fails; /* encode says that */
    int lies;  /* encode needs more than it said before */
};

/* All messages of the process. */
static struct {
    atomic_long made, freed;
    atomic_int encodes; /* calls of encode */
} toy_counts;

/* ---- frames ----------------------------------------------------------------------- */

static inline void toy_head(unsigned char *to, char letter, size_t size)
{
    const size_t behind = size + 1;

    to[0] = (unsigned char)(behind >> 24);
    to[1] = (unsigned char)(behind >> 16);
    to[2] = (unsigned char)(behind >> 8);
    to[3] = (unsigned char)behind;
    to[4] = (unsigned char)letter;
}

static inline size_t toy_number(const unsigned char *at)
{
    return (size_t)at[0] << 24 | (size_t)at[1] << 16 | (size_t)at[2] << 8 | at[3];
}

/* ---- the codec ---------------------------------------------------------------------- */

static inline int64_t toy_length(void *ctx, const void *data, size_t size)
{
    const unsigned char *at = data;

    (void)ctx;
    if (size >= 1 && (at[0] & 0x80) != 0)
        return SPN_EPROTO;
    if (size < 4)
        return 0;
    if (toy_number(at) == 0)
        return SPN_EPROTO; /* not even a letter */
    return (int64_t)toy_number(at) + 4;
}

static inline void toy_release(spn_message *message)
{
    atomic_fetch_add(&toy_counts.freed, 1);
    free(message);
}

static inline void toy_describe(const spn_message *message, char *text, size_t size)
{
    const struct toy *toy = (const struct toy *)message;

    (void)snprintf(text, size, "%c of %zu bytes", toy->letter, toy->size);
}

static const spn_message_ops toy_ops = { toy_release, toy_describe };

static inline int toy_send(spn_channel *channel, char letter, const void *body,
                           size_t size)
{
    const struct toy_out out = { .letter = letter, .body = body, .size = size };

    return spn_channel_send(channel, &out);
}

static inline int toy_decode(void *ctx, spn_channel *channel, const void *frame,
                             size_t size, spn_message **out)
{
    const unsigned char *at = frame;
    const char letter = (char)at[4];
    struct toy *toy;

    (void)ctx;
    *out = NULL;
    if (letter == 'X')
        return SPN_EPROTO;
    if (letter == 'h') {
        (void)toy_send(channel, 'H', NULL, 0); /* or it has gone */
        return 0;
    }
    if (letter == 'H')
        return 0;
    toy = malloc(sizeof *toy + size - TOY_HEAD + 1);
    if (toy == NULL)
        return SPN_ENOMEM;
    toy->head =
        (spn_message)SPN_MESSAGE_INIT(&toy_ops, letter == 'R'   ? SPN_MESSAGE_RESPONSE
                                                : letter == 'O' ? SPN_MESSAGE_OTHER
                                                                : SPN_MESSAGE_REQUEST);
    toy->letter = letter;
    toy->size = size - TOY_HEAD;
    memcpy(toy->body, at + TOY_HEAD, toy->size);
    atomic_fetch_add(&toy_counts.made, 1);
    *out = &toy->head;
    return 0;
}

static inline int64_t toy_encode(void *ctx, const void *message, void *room,
                                 size_t size)
{
    const struct toy_out *what = message;
    unsigned char *to = room;

    (void)ctx;
    atomic_fetch_add(&toy_counts.encodes, 1);
    if (what->fails != 0)
        return what->fails;
    if (what->lies != 0)
        return (int64_t)size + 1;
    if (what->size + TOY_HEAD > size)
        return (int64_t)what->size + TOY_HEAD;
    toy_head(to, what->letter, what->size);
    if (what->body != NULL)
        memcpy(to + TOY_HEAD, what->body, what->size);
    else
        memset(to + TOY_HEAD, 'x', what->size);
    return (int64_t)what->size + TOY_HEAD;
}

static const spn_codec toy_codec = { sizeof toy_codec, NULL, toy_length, toy_decode,
                                     toy_encode };

#endif /* TOY_CODEC_H */
