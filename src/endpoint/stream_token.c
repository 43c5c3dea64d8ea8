/* SPDX-License-Identifier: MIT */
/*
 * stream_token.c - tells the requests of a connection that their caller has gone.
 *
 * OVERVIEW
 *   A channel gets a token when the first of its requests asks for one; each request that
 *   asks has a child of it.  When the connection ends, the channel's token is cancelled, and
 *   its children with it.  What is never asked for costs nothing on the way of a request,
 *   and one read-modify-write for each connection.
 *
 * ORDERING
 *   [token]  one word has both the token and ENDED.  Who stores the token and who sets ENDED
 *            change the same word, so the second of the two sees the other and cancels:
 *            no token is left standing.  Storing releases the token's content, and all who
 *            find it acquire that.  The token stays until the channel is freed.
 */
#include <spindle/cancel.h>

#include "endpoint/stream.h"

#define ENDED ((uintptr_t)1)

static spn_cancel_token *token_in(uintptr_t word)
{
    return (spn_cancel_token *)(word & ~ENDED);
}

/* Makes the channel's token; another request may do so at the same time. */
static spn_cancel_token *make_token(struct spn__stream *stream)
{
    spn_cancel_token *token;
    uintptr_t word = 0;

    if (spn_cancel_token_create(&token, NULL) != SPN_OK)
        return NULL;
    while (!spn__cas_weak(&stream->token, &word, (uintptr_t)token | word, release,
                          acquire)) /* [token] */
        if (token_in(word) != NULL) {
            spn_cancel_token_unref(token);
            return token_in(word);
        }
    if ((word & ENDED) != 0)
        (void)spn_cancel_token_cancel(token, SPN_ECLOSED);
    return token;
}

spn_cancel_token *spn__stream_child_token(struct spn__stream *stream)
{
    spn_cancel_token *parent, *child;

    parent = token_in(spn__load(&stream->token, acquire)); /* [token] */
    if (parent == NULL)
        parent = make_token(stream);
    if (parent == NULL || spn_cancel_token_create(&child, parent) != SPN_OK)
        return NULL;
    return child;
}

void spn__stream_cancel(struct spn__stream *stream, int reason)
{
    /* [token] mutant: it brings plain fields, and those behind the token's lock */
    const uintptr_t before = spn__fetch_or(&stream->token, ENDED, acquire);

    (void)spn_cancel_token_cancel(token_in(before), reason); /* NULL: there is none */
}

void spn__stream_free_token(struct spn__stream *stream)
{
    /* relaxed: the last drop has acquired all of it, see [hold] in channel.c. */
    spn_cancel_token_unref(token_in(spn__load(&stream->token, relaxed)));
}
