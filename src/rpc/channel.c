/* SPDX-License-Identifier: MIT */
/*
 * channel.c - bytes of a connection become messages, which go into the chain; replies go
 * out.
 *
 * OVERVIEW
 *   Each read brings any number of frames.  Whole ones become messages at once, with a
 *   copy of their body: the transport's buffer is gone when the read returns, and the
 *   message may wait in a pool.  Of the last, incomplete one nothing is kept here: the
 *   transport offers its bytes again when as many are there as the header says.
 *
 *   Bad frames (see frame.c) end the connection, after a reply with status 40 where
 *   somebody waits for one.
 *
 * MEMORY     a server's budget counts requests whose block is larger than SMALL, one by one.
 *   Of the smaller ones a connection has UNCOUNTED in flight without more ado; beyond that
 *   the I/O thread takes credit for CREDIT of them at a time, and the thread that ends the
 *   last request in flight gives all of it back.  A thread that looked at the credit before
 *   it was taken may be that last one: then the next to end the last request does, or the end
 *   of the channel.
 *
 *   What finds no room is refused: a request is answered with status 100, or 40 if it alone
 *   is too large, and the rest of its frame is passed over, so that the connection goes on.
 *   The transport asks for that (`crowded`) when an unfinished frame may not grow.  Nobody
 *   waits for the budget, so there is nobody to wake.
 *
 *   While half of the budget is in use, reading pauses from a client that has left PRESSED
 *   bytes unread; otherwise, when half of max_unwritten is.  Frames that have been read
 *   wait then too.  If there is no memory to keep them, the connection is closed.
 *   [credit]  the I/O thread adds with release, after it has taken from the budget; the
 *             exchange that gives back acquires: no more is given than was taken.
 *
 * LIFE       the connection, each message and each event under way hold the channel.
 *   [hold]     one word counts both: requests in flight in the upper half, other holders in
 *              the lower.  Each drop is a release, and an acquire for the one that brings
 *              it to 0, which frees: it sees all that others did with the channel.  After
 *              its own drop nobody touches the channel, and only the one that frees it
 *              touches the endpoint, to leave its list.  So an endpoint without channels
 *              may be destroyed.
 *
 * HALF-CLOSED  A client may end its side of the connection behind its requests: they are
 *   answered, and then the server ends its own.  HALF, in the lower half of the word, says
 *   so, together with a hold: no request comes any more, so exactly one drop finds that it
 *   was the last request, and the thread that did it ends the connection and drops that
 *   hold.  Without requests in flight the I/O thread does both at once.
 *
 * ORDERING
 *   [frame]    the I/O thread notes when the first byte of an unfinished frame came, and how
 *              many had come before; the timer reads both.  Between two frames there is a
 *              0, and both stores after it are releases: a timer that saw the number of
 *              another frame finds another time behind it.
 *   [pause]    a sender that has made too much wait pauses reading, and then looks once
 *              more; the I/O thread that has written looks whether it is paused, after
 *              the transport has taken note of what it wrote.  Exchanges of `paused`
 *              decide who resumes: never twice, never nobody.
 *
 *   [deaf]     the I/O thread sets `deaf` when it takes no more requests; stop loads it, and
 *              then looks at the requests in flight: those it took before are among them.
 *
 * CLOSING    stop sets `closing`, and then looks at the list; a connection is listed, and
 *   then looks at `closing`.  Both have the list's lock in between, and whoever has it
 *   second sees the other: no connection is both overlooked and let in.
 *
 * LOCKS      the endpoint's lock, a leaf: around its list, on coming and going only.
 */
#include "rpc/channel.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/time.h"
#include "rpc/places.h"
#include "sync/blocks.h"

/* In the word of holders. */
#define REQUEST (UINT64_C(1) << 32)
#define HALF    (UINT64_C(1) << 31) /* see HALF-CLOSED */

enum {
    EVENT_MAX = 15,  /* bytes of an event's body; longer ones are passed over */
    SMALL = 2048,    /* bytes of a request with its body, at most; see MEMORY */
    UNCOUNTED = 8,   /* such requests in flight that a connection may always have */
    CREDIT = 32,     /* paid for at a time: 64 KiB */
    PRESSED = 65536, /* bytes unwritten that are enough while memory is short */
};

/* ---- life ------------------------------------------------------------------- */

static void free_channel(struct spn__channel *channel)
{
    struct spn__endpoint *endpoint = channel->endpoint;

    /* relaxed: the last holder [hold]. */
    spn__budget_give(&endpoint->budget,
                     (uint64_t)spn__load(&channel->credit, relaxed) * SMALL);
    spn__conn_unref(channel->conn);
    spn__address_drop(channel->address);
    spn__channel_free_token(channel);
    spn__lock(&endpoint->lock);
    spn__list_remove(&channel->link);
    spn__unlock(&endpoint->lock);
    spn__free(channel);
}

static void drop(struct spn__channel *channel, uint64_t holds)
{
    if (spn__fetch_sub(&channel->holds, holds, acq_rel) == holds) /* [hold] */
        free_channel(channel);
}

/* relaxed, both: who has a hold may pass another on, and nothing is published by it. */
void spn__channel_hold(struct spn__channel *channel)
{
    (void)spn__fetch_add(&channel->holds, 1, relaxed);
}

uint64_t spn__channel_begin(struct spn__channel *channel)
{
    return spn__fetch_add(&channel->holds, REQUEST, relaxed) / REQUEST + 1;
}

void spn__channel_drop(struct spn__channel *channel)
{
    drop(channel, 1);
}

/* No request is in flight, and none comes. */
static void end_half_closed(struct spn__channel *channel)
{
    /* Its client may read slowly. */
    spn__conn_end_by(channel->conn,
                     spn__time_add(spn__now(), spn__channel_close_after(channel)));
    drop(channel, HALF + 1);
}

static void give_credit(struct spn__channel *channel)
{
    const uint64_t credit = spn__exchange(&channel->credit, 0u, acquire); /* [credit] */

    spn__budget_give(&channel->endpoint->budget, credit * SMALL);
}

/* Where credit was taken: the channel is held while it is given back. */
static void end_with_credit(struct spn__channel *channel)
{
    const uint64_t before =
        spn__fetch_sub(&channel->holds, REQUEST - 1, acq_rel); /* [hold] */

    if (before / REQUEST == 1) {
        give_credit(channel);
        if ((before & HALF) != 0)
            end_half_closed(channel);
    }
    drop(channel, 1);
}

void spn__channel_end(struct spn__channel *channel)
{
    uint64_t before;

    if (spn__load(&channel->credit, relaxed) != 0) { /* relaxed: see MEMORY */
        end_with_credit(channel);
        return;
    }
    before = spn__fetch_sub(&channel->holds, REQUEST, acq_rel); /* [hold] */
    if (before == REQUEST)
        free_channel(channel);
    else if ((before & HALF) != 0 && before / REQUEST == 1)
        end_half_closed(channel);
}

uint64_t spn__channel_in_flight(const struct spn__channel *channel)
{
    /* acquire: what a request did happens before it is seen to have ended [hold].
     * mutant: the I/O thread drops its hold later, and stop waits for that thread */
    return spn__load(&((struct spn__channel *)(uintptr_t)channel)->holds, acquire) >>
           32;
}

/* ---- memory --------------------------------------------------------------------- */

/* Credit for a small request where so many are in flight; false: there is no room. */
static bool take_credit(struct spn__channel *channel, uint64_t in_flight)
{
    /* relaxed: who gives it back meanwhile makes us take some that is not needed. */
    if (in_flight <= UNCOUNTED + spn__load(&channel->credit, relaxed))
        return true;
    if (!spn__budget_take(&channel->endpoint->budget, (uint64_t)CREDIT * SMALL,
                          SPN__SHARE_REQUESTS))
        return false;
    (void)spn__fetch_add(&channel->credit, CREDIT, release); /* [credit] */
    return true;
}

void *spn__channel_get(struct spn__channel *channel, size_t bytes, uint64_t in_flight)
{
    struct spn__budget *budget = &channel->endpoint->budget;
    void *memory;

    if (bytes <= SMALL) {
        channel->is_over = in_flight > UNCOUNTED && !take_credit(channel, in_flight);
        return channel->is_over ? NULL : spn__block_get(bytes);
    }
    channel->is_over = !spn__budget_take(budget, bytes, SPN__SHARE_REQUESTS);
    if (channel->is_over)
        return NULL;
    memory = spn__large_get(bytes);
    if (memory == NULL)
        spn__budget_give(budget, bytes);
    return memory;
}

void spn__channel_put(struct spn__channel *channel, void *memory, size_t bytes)
{
    if (bytes <= SMALL) {
        spn__block_put(memory);
        return;
    }
    spn__large_put(memory, bytes);
    spn__budget_give(&channel->endpoint->budget, bytes);
}

void spn__channel_lacks_memory(struct spn__channel *channel, const char *what,
                               bool is_over)
{
    struct spn__endpoint *endpoint = channel->endpoint;

    spn__count(&endpoint->counts, SPN__COUNT_MEMORY, 1);
    if (is_over)
        spn__log_limited(
            SPN_LOG_WARN, SPN_SEC(10),
            "rpc: no memory for %s of %s: %llu of memory=%llu bytes are in "
            "use",
            what, spn__conn_remote(channel->conn),
            (unsigned long long)spn__budget_used(&endpoint->budget),
            (unsigned long long)endpoint->budget.limit);
    else
        spn__log_limited(SPN_LOG_WARN, SPN_SEC(10),
                         "rpc: no memory for %s of %s: the system refused it", what,
                         spn__conn_remote(channel->conn));
}

void spn__channel_memory_text(const struct spn__channel *channel, char *text,
                              size_t size)
{
    (void)snprintf(text, size,
                   "Server side memory is exhausted: memory=%llu bytes are for all "
                   "connections; try again later, or elsewhere",
                   (unsigned long long)channel->endpoint->budget.limit);
}

void spn__endpoint_init(struct spn__endpoint *endpoint)
{
    spn__budget_init(&endpoint->budget, 0);
    spn__init(&endpoint->heartbeat_ns, 0);
    spn__init(&endpoint->close_ns, 0);
    spn__init(&endpoint->accepts, 0);
    spn__init(&endpoint->closing, 0);
    spn__init(&endpoint->open, 0);
    spn__counts_init(&endpoint->counts);
    spn__lock_init(&endpoint->lock);
    spn__list_init(&endpoint->channels);
}

void spn__endpoint_fini(struct spn__endpoint *endpoint)
{
    spn__counts_fini(&endpoint->counts);
}

/* Takes a hold of a channel in the list; false: it is being freed.  The lock is held, so
 * that it still is there. */
static bool hold_listed(struct spn__channel *channel)
{
    uint64_t holds = spn__load(&channel->holds, relaxed); /* the swap decides */

    do {
        if (holds == 0)
            return false;
    } while (!spn__cas_weak(&channel->holds, &holds, holds + 1, relaxed,
                            relaxed)); /* as spn__channel_hold */
    return true;
}

void spn__endpoint_each(struct spn__endpoint *endpoint,
                        void (*fn)(void *ctx, struct spn__channel *channel), void *ctx)
{
    struct spn__channel *held = NULL;
    struct spn__list_node *node;

    /* The one that is held keeps its place in the list while fn runs. */
    spn__lock(&endpoint->lock);
    node = spn__list_first(&endpoint->channels);
    while (node != NULL) {
        struct spn__channel *channel = spn__list_entry(node, struct spn__channel, link);

        if (hold_listed(channel)) {
            spn__unlock(&endpoint->lock);
            if (held != NULL)
                spn__channel_drop(held);
            held = channel;
            fn(ctx, channel);
            spn__lock(&endpoint->lock);
        }
        node = node->next != &endpoint->channels.head ? node->next : NULL;
    }
    spn__unlock(&endpoint->lock);
    if (held != NULL)
        spn__channel_drop(held);
}

void spn__channel_info(struct spn__channel *channel, int error, spn_channel_info *info)
{
    const int64_t now = spn__now();
    const int64_t read = spn__conn_last_read_ns(channel->conn);
    const int64_t written = spn__conn_last_write_ns(channel->conn);

    memset(info, 0, sizeof *info);
    info->size = sizeof *info;
    info->remote = spn__conn_remote(channel->conn);
    info->local = spn__conn_local(channel->conn);
    info->age_ns = now - channel->opened_ns;
    info->idle_ns = now - (read > written ? read : written);
    info->requests = spn__load(&channel->requests, relaxed); /* only a number */
    info->in_flight = spn__channel_in_flight(channel);
    info->unwritten = spn__conn_unwritten(channel->conn);
    /* relaxed: out of date a moment later anyway. */
    info->is_open = (spn__load(&channel->state, relaxed) & SPN__CHANNEL_CLOSED) == 0;
    info->error = error;
}

static void deafen(struct spn__net_job *job)
{
    struct spn__channel *channel =
        (struct spn__channel *)((char *)job - offsetof(struct spn__channel, drain.job));

    channel->ended = true;
    /* [deaf] mutant: stop holds the channel with a swap of the same word a moment before it
     * looks, and what came later was not seen to get lost in some thousand schedules */
    spn__store(&channel->drain.deaf, 1, release);
    spn__channel_drop(channel);
}

void spn__channel_deafen(struct spn__channel *channel)
{
    spn__channel_hold(channel);
    channel->drain.job.fn = deafen;
    if (spn__conn_post(channel->conn, &channel->drain.job) == SPN_OK)
        return;
    spn__store(&channel->drain.deaf, 1, relaxed); /* its thread has ended */
    spn__channel_drop(channel);
}

bool spn__channel_is_deaf(const struct spn__channel *channel)
{
    struct spn__channel *own = (struct spn__channel *)(uintptr_t)channel;

    return spn__load(&own->drain.deaf, acquire) != 0; /* [deaf] mutant: as in deafen */
}

/* ---- events of the transport -------------------------------------------------- */

static int opened(void *context, struct spn__conn *conn)
{
    struct spn__endpoint *endpoint = context;
    struct spn__channel *channel;
    /* relaxed, both: only a number. */
    const int32_t standing = spn__fetch_add(&endpoint->open, 1, relaxed) + 1;
    const int32_t accepts = spn__load(&endpoint->accepts, relaxed);
    int rc = SPN_EFULL;

    if (accepts > 0 && standing > accepts) {
        spn__log_limited(SPN_LOG_WARN, SPN_SEC(10),
                         "rpc: connection from %s refused: %d stand, accepts=%d",
                         spn__conn_remote(conn), (int)standing - 1, (int)accepts);
        goto refuse;
    }
    rc = SPN_ENOMEM;
    channel = spn__alloc(sizeof *channel);
    if (channel == NULL)
        goto refuse;
    memset(channel, 0, sizeof *channel);
    channel->endpoint = endpoint;
    channel->conn = conn;
    spn__conn_ref(conn);
    spn__init(&channel->holds, 1); /* the connection's */
    spn__init(&channel->left, 0);
    spn__init(&channel->token, 0);
    spn__init(&channel->state, 0);
    spn__init(&channel->paused, 0);
    spn__init(&channel->requests, 0);
    spn__init(&channel->credit, 0);
    spn__init(&channel->frame_since_ns, 0);
    spn__init(&channel->frame_from, 0);
    spn__init(&channel->drain.deaf, 0);
    channel->opened_ns = spn__now();
    spn__lock(&endpoint->lock);
    spn__list_push_back(&endpoint->channels, &channel->link);
    spn__unlock(&endpoint->lock);
    if (spn__load(&endpoint->closing, relaxed) != 0) { /* relaxed: see CLOSING */
        spn__channel_drop(channel);
        rc = SPN_ESHUTDOWN;
        goto refuse;
    }
    spn__conn_set_data(conn, channel);
    spn__count(&endpoint->counts, SPN__COUNT_ACCEPTED, 1);
    spn__idle_start(channel);
    spn__handler_connected(endpoint->chain, channel);
    return SPN_OK;

refuse:
    (void)spn__fetch_sub(&endpoint->open, 1, relaxed); /* only a number */
    spn__count(&endpoint->counts, SPN__COUNT_REFUSED, 1);
    return rc;
}

static void release_event(struct spn__message *message)
{
    struct spn__channel *channel = message->channel;

    spn__block_put(message);
    spn__channel_drop(channel);
}

static void refuse_event(struct spn__message *message, int why)
{
    (void)why; /* the pool's own count has it */
    release_event(message);
}

/* Events have their message here: they are alike for servers and clients. */
static struct spn__message *make_event(struct spn__channel *channel,
                                       const struct spn__frame *frame,
                                       const unsigned char *body)
{
    struct spn__message *message =
        spn__block_get(sizeof *message + (size_t)frame->length);

    if (message == NULL)
        return NULL;
    memset(message, 0, sizeof *message);
    message->channel = channel;
    message->frame = *frame;
    message->body = (unsigned char *)(message + 1);
    memcpy(message->body, body, (size_t)frame->length);
    message->refused = refuse_event;
    message->release = release_event;
    spn__channel_hold(channel);
    return message;
}

/* Every request that came is counted here, whatever becomes of it: when nothing moves,
 * requests are replies, one-way ones and those whose reply was dropped. */
void spn__channel_count_request(struct spn__channel *channel,
                                const struct spn__frame *frame)
{
    struct spn__counts *counts = &channel->endpoint->counts;

    spn__store(&channel->requests, spn__load(&channel->requests, relaxed) + 1,
               relaxed); /* only a number, which this thread alone writes */
    spn__count(counts, SPN__COUNT_REQUESTS, 1);
    if (!spn__frame_is_two_way(frame))
        spn__count(counts, SPN__COUNT_ONE_WAY, 1);
}

/* A frame that nothing can be made of: if it is a request, it came all the same, counts,
 * and is answered. */
static void refuse_request(struct spn__channel *channel, const struct spn__frame *frame,
                           int status, const char *text, unsigned flags)
{
    if (!spn__frame_is_request(frame) || spn__frame_is_event(frame))
        return;
    if (!channel->endpoint->is_client)
        spn__channel_count_request(channel, frame);
    if (spn__frame_is_two_way(frame))
        (void)spn__channel_answer(channel, frame, status, text, flags);
}

/* The largest body that the budget has room for when nothing else is in use: as long as it
 * is unfinished, and then as a request beside that. */
static uint64_t body_most(const struct spn__endpoint *endpoint)
{
    const uint64_t most = endpoint->budget.limit / 4;

    return endpoint->budget.limit == 0 ? UINT64_MAX : most > SMALL ? most : SMALL;
}

/* Nor is there memory for what came. */
static void refuse_memory(struct spn__channel *channel, const struct spn__frame *frame)
{
    struct spn__endpoint *endpoint = channel->endpoint;
    const bool is_over = channel->is_over;
    char text[192];

    channel->is_over = false;
    spn__channel_lacks_memory(channel,
                              spn__frame_is_request(frame) ? "a request" : "a response",
                              is_over);
    if (!is_over) {
        refuse_request(channel, frame, SPN__STATUS_SERVER_ERROR, "out of memory",
                       SPN__SEND_URGENT);
        return;
    }
    if ((uint64_t)frame->length > body_most(endpoint)) {
        (void)snprintf(text, sizeof text,
                       "Data length too large: %d; with memory=%llu a request has at "
                       "most %llu bytes",
                       (int)frame->length, (unsigned long long)endpoint->budget.limit,
                       (unsigned long long)body_most(endpoint));
        refuse_request(channel, frame, SPN__STATUS_BAD_REQUEST, text, SPN__SEND_URGENT);
        return;
    }
    spn__channel_memory_text(channel, text, sizeof text);
    refuse_request(channel, frame, SPN__STATUS_EXHAUSTED, text, SPN__SEND_URGENT);
}

/* A frame that is whole. */
static void take(struct spn__channel *channel, const struct spn__frame *frame,
                 const unsigned char *body, int64_t now_ns)
{
    struct spn__endpoint *endpoint = channel->endpoint;
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
        refuse_request(channel, frame, SPN__STATUS_BAD_REQUEST, text, 0);
        if (is_request || spn__frame_is_event(frame) || !endpoint->is_client)
            return; /* a client's call hears of a response it cannot read */
    }
    if (spn__frame_is_event(frame)) {
        if (frame->length > EVENT_MAX) {
            spn__count(&endpoint->counts, SPN__COUNT_BAD_FRAMES, 1);
            return;
        }
        message = make_event(channel, frame, body);
    } else if (is_request && !endpoint->is_client &&
               (uint64_t)frame->length > body_most(endpoint)) {
        channel->is_over = true;
        message = NULL;
    } else if (is_request || endpoint->is_client) {
        message = endpoint->message(channel, frame, body);
    } else {
        spn__count(&endpoint->counts, SPN__COUNT_RESPONSES, 1);
        return; /* a server asks for nothing */
    }
    if (message == NULL) {
        refuse_memory(channel, frame);
        return;
    }
    message->arrived_ns = now_ns;
    /* multi_message keeps failures to itself. */
    (void)spn__handler_received(endpoint->chain, channel, message);
}

/* A length that cannot be: the stream ends here. */
static void refuse_length(struct spn__channel *channel, const struct spn__frame *frame)
{
    struct spn__endpoint *endpoint = channel->endpoint;
    char text[96];

    spn__count(&endpoint->counts, SPN__COUNT_BAD_FRAMES, 1);
    if (frame->length < 0)
        snprintf(text, sizeof text, "negative length: %d", (int)frame->length);
    else
        snprintf(text, sizeof text, "Data length too large: %d, max payload: %d",
                 (int)frame->length, (int)endpoint->payload);
    refuse_request(channel, frame, SPN__STATUS_BAD_REQUEST, text, SPN__SEND_URGENT);
    channel->ended = true;
    spn__conn_end(channel->conn);
    spn__handler_caught(endpoint->chain, channel, SPN_ETOOBIG);
}

/* What has come ends inside a frame, of which there are `part` bytes; `begins`: it is not the
 * one that was unfinished before. */
static void note_frame(struct spn__channel *channel, size_t part, bool begins,
                       int64_t now_ns)
{
    if (channel->in_frame && (begins || part == 0))
        spn__store(&channel->frame_since_ns, 0, relaxed); /* before the next [frame] */
    if (part > 0 && (begins || !channel->in_frame)) {
        spn__store(&channel->frame_from, spn__conn_received(channel->conn) - part,
                   release);                                   /* [frame] */
        spn__store(&channel->frame_since_ns, now_ns, release); /* [frame] */
    }
    channel->in_frame = part > 0;
}

/* An unfinished frame that may not be kept: it is refused now, and what comes of it is passed
 * over. */
static int64_t refuse_unfinished(struct spn__channel *channel,
                                 const struct spn__frame *frame, size_t needed,
                                 size_t part)
{
    channel->skip = needed - part;
    channel->is_over = channel->endpoint->budget.limit != 0;
    refuse_memory(channel, frame);
    return (int64_t)part;
}

static int64_t crowded(void *context, struct spn__conn *conn, const unsigned char *data,
                       size_t size)
{
    struct spn__endpoint *endpoint = context;
    struct spn__channel *channel = spn__conn_data(conn);
    struct spn__frame frame;
    size_t needed;

    /* A client's call hears from the end of its connection. */
    if (channel == NULL || endpoint->is_client || size < SPN__FRAME_BYTES ||
        spn__frame_read(&frame, data, size, endpoint->payload, &needed) !=
            SPN__FRAME_MORE)
        return SPN_ENOMEM;
    return refuse_unfinished(channel, &frame, needed, size);
}

/* The rest of a frame that was refused; returns how much of it is here. */
static size_t skip(struct spn__channel *channel, size_t size)
{
    const size_t n = channel->skip < size ? channel->skip : size;

    channel->skip -= n;
    return n;
}

static int64_t bytes(void *context, struct spn__conn *conn, const unsigned char *data,
                     size_t size)
{
    struct spn__endpoint *endpoint = context;
    struct spn__channel *channel = spn__conn_data(conn);
    const int64_t now_ns = spn__now();
    size_t used = 0;

    if (channel == NULL || channel->ended)
        return (int64_t)size;
    if (channel->skip > 0)
        used = skip(channel, size);
    while (used < size) {
        struct spn__frame frame;
        size_t needed;

        /* What is answered here is not bounded otherwise.  relaxed: a hint; who resumes
         * has what is left offered again. */
        if (spn__load(&channel->paused, relaxed) != 0) {
            spn__conn_want(conn, 1);
            break;
        }
        switch (spn__frame_read(&frame, data + used, size - used, endpoint->payload,
                                &needed)) {
        case SPN__FRAME_WHOLE:
            take(channel, &frame, data + used + SPN__FRAME_BYTES, now_ns);
            used += needed;
            continue;
        case SPN__FRAME_MORE:
            spn__conn_want(conn, needed);
            if (!endpoint->is_client && size - used >= SPN__FRAME_BYTES &&
                needed - SPN__FRAME_BYTES > body_most(endpoint)) {
                spn__conn_want(conn, 0);
                note_frame(channel, size - used, used > 0, now_ns);
                used += (size_t)refuse_unfinished(channel, &frame, needed, size - used);
            }
            break;
        case SPN__FRAME_NO_MAGIC:
            spn__count(&endpoint->counts, SPN__COUNT_BAD_FRAMES, 1);
            channel->ended = true;
            spn__handler_caught(endpoint->chain, channel, SPN_EPROTO);
            return SPN_EPROTO;
        case SPN__FRAME_TOO_LARGE:
        case SPN__FRAME_NEGATIVE:
            refuse_length(channel, &frame);
            used = size;
            break;
        }
        break;
    }
    if (channel->skip == 0 && (channel->in_frame || used < size))
        note_frame(channel, size - used, used > 0, now_ns);
    spn__count(&endpoint->counts, SPN__COUNT_BYTES_IN, used);
    return (int64_t)used;
}

/* Bytes that may wait for a client before reading from it pauses.  It goes on at half of
 * that: also at 0, whatever the budget does meanwhile. */
static size_t unread_limit(struct spn__endpoint *endpoint)
{
    const size_t limit = endpoint->max_unwritten / 2;

    return limit > PRESSED && spn__budget_is_pressed(&endpoint->budget) ? PRESSED
                                                                        : limit;
}

static void resume(struct spn__channel *channel)
{
    /* [pause] acq_rel: of all who find it paused one resumes.
     * mutant: the explorer's network counts pauses under a lock; the sockets' does not */
    if (spn__exchange(&channel->paused, 0, acq_rel) != 0)
        spn__conn_resume(channel->conn);
}

static void written(void *context, struct spn__conn *conn, uint64_t position)
{
    struct spn__endpoint *endpoint = context;
    struct spn__channel *channel = spn__conn_data(conn);

    if (channel == NULL)
        return;
    /* [pause] written before the look.  mutant: a lock in the explorer's network, as there */
    spn__fence(seq_cst);
    if (spn__load(&channel->paused, relaxed) != 0 && /* ordered by the fence */
        spn__conn_unwritten(conn) <= unread_limit(endpoint) / 2)
        resume(channel);
    spn__handler_sent(endpoint->chain, channel, position);
}

/* A server answers what was asked before the end. */
static bool peer_ended(void *context, struct spn__conn *conn)
{
    const struct spn__endpoint *endpoint = context;
    struct spn__channel *channel = spn__conn_data(conn);

    if (channel == NULL || endpoint->is_client)
        return false;
    note_frame(channel, 0, false, 0); /* of what is unfinished nothing will come */
    (void)spn__fetch_or(&channel->state, SPN__CHANNEL_HALF,
                        relaxed);              /* for the timer */
    spn__channel_cancel(channel, SPN_ECLOSED); /* as a rule the peer has gone */
    /* relaxed: as spn__channel_hold; the drop of the last request orders what it did. */
    if (spn__fetch_add(&channel->holds, HALF + 1, relaxed) / REQUEST == 0)
        end_half_closed(channel);
    return true;
}

/* The server closed a connection whose client had not read all replies. */
static void count_lost(struct spn__endpoint *endpoint, size_t bytes)
{
    if (bytes == 0)
        return;
    spn__count(&endpoint->counts, SPN__COUNT_CUT_OFF, 1);
    spn__count(&endpoint->counts, SPN__COUNT_CUT_OFF_BYTES, bytes);
}

static void closed(void *context, struct spn__conn *conn, int why)
{
    struct spn__endpoint *endpoint = context;
    struct spn__channel *channel = spn__conn_data(conn);

    if (channel == NULL) { /* refused, or it never stood */
        if (endpoint->unopened != NULL)
            endpoint->unopened(endpoint, conn, why);
        return;
    }
    if (!endpoint->is_client && (why == SPN_ECLOSED || why == SPN_ETIMEDOUT))
        count_lost(endpoint, spn__conn_lost(conn));
    if (why == SPN_ENOMEM)
        spn__channel_lacks_memory(channel, "the connection", false);
    spn__idle_stop(channel);
    (void)spn__fetch_sub(&endpoint->open, 1, relaxed); /* only a number */
    if (!endpoint->is_client)
        spn__channel_cancel(channel, SPN_ECLOSED);
    spn__handler_disconnected(endpoint->chain, channel, why);
    spn__channel_drop(channel);
}

const struct spn__conn_events spn__channel_events = {
    .opened = opened,
    .bytes = bytes,
    .crowded = crowded,
    .written = written,
    .peer_ended = peer_ended,
    .closed = closed,
};

/* ---- sending -------------------------------------------------------------------- */

/* Reading goes on when the peer has read some of what waits for it. */
static void pause_if_behind(struct spn__channel *channel)
{
    struct spn__endpoint *endpoint = channel->endpoint;
    const size_t unread = spn__conn_unwritten(channel->conn);
    size_t limit = endpoint->max_unwritten / 2;

    if (limit == 0 || unread <= (limit < PRESSED ? limit : PRESSED))
        return; /* without a look at the budget */
    limit = unread_limit(endpoint);
    if (unread <= limit)
        return;
    /* [pause] Paused before it is said: who finds it said resumes at once.  acq_rel: of all
     * who pause one does, and the others take theirs back. */
    spn__conn_pause(channel->conn);
    /* mutant: as in resume */
    if (spn__exchange(&channel->paused, 1, acq_rel) != 0) {
        spn__conn_resume(channel->conn);
        return;
    }
    /* [pause] paused before the second look.  mutant: as in written */
    spn__fence(seq_cst);
    if (spn__conn_unwritten(channel->conn) <= limit / 2)
        resume(channel);
}

int spn__channel_send(struct spn__channel *channel, const void *frame, size_t size,
                      unsigned flags)
{
    const struct spn__piece piece = { frame, size };
    const int rc = spn__conn_send(channel->conn, &piece, 1, flags, NULL);

    if (rc == SPN_OK)
        spn__count(&channel->endpoint->counts, SPN__COUNT_BYTES_OUT, size);
    pause_if_behind(channel);
    return rc;
}

int spn__channel_answer(struct spn__channel *channel, const struct spn__frame *request,
                        int status, const char *text, unsigned flags)
{
    struct spn__counts *counts = &channel->endpoint->counts;
    struct spn__frame frame = {
        .flags =
            SPN__HESSIAN2, /* also if the request had another: it is what we write */
        .status = (uint8_t)status,
        .id = request->id,
    };
    unsigned char room[1024], *bytes_out;
    spn_hwriter writer;
    size_t size;
    int rc;

    (void)!spn_hwriter_init(&writer, room, sizeof room, NULL);
    (void)spn_hwriter_raw(&writer, room, SPN__FRAME_BYTES); /* made out below */
    (void)spn_hwriter_text(&writer, text);
    rc = spn_hwriter_status(&writer);
    if (rc != SPN_OK) { /* what others wrote may be no text at all */
        (void)spn_hwriter_reset(&writer, SPN__FRAME_BYTES);
        rc = spn_hwriter_text(&writer, "a text that cannot be written");
    }
    if (rc == SPN_OK) {
        bytes_out = spn_hwriter_bytes(&writer, &size);
        frame.length = (int32_t)(size - SPN__FRAME_BYTES);
        spn__frame_write(bytes_out, &frame);
        rc = spn__channel_send(channel, bytes_out, size, flags);
    }
    spn_hwriter_fini(&writer);
    if (rc == SPN_OK) {
        spn__count(counts, SPN__COUNT_REPLIES, 1);
        spn__count(counts, SPN__COUNT_STATUS + spn__status_slot(status), 1);
    } else {
        spn__count(counts, SPN__COUNT_DROPPED, 1);
    }
    return rc;
}

int spn__channel_send_event(struct spn__channel *channel, uint8_t flags, uint8_t status,
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
    return spn__channel_send(channel, out, SPN__FRAME_BYTES + (size_t)frame.length,
                             SPN__SEND_URGENT);
}
