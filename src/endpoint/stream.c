/* SPDX-License-Identifier: MIT */
/*
 * stream.c - bytes of a connection become messages of a protocol, which go into the chain of
 * handlers; replies go out.
 *
 * OVERVIEW
 *   Each read brings any number of frames.  The protocol takes whole ones at once: the
 *   transport's buffer is gone when the read returns, and a message may wait in a pool.  Of
 *   the last, incomplete one nothing is kept here: the transport offers its bytes again when
 *   as many are there as the protocol wants.
 *
 *   One message after the other is handed to the chain, not a list of them: a message that
 *   is handled on the spot leaves its memory, still warm, to the next.  One that fails on
 *   the spot is told as `caught`, and those behind it are handled all the same.
 *
 * MEMORY     a server's budget counts requests whose block is larger than SMALL, one by one.
 *   Of the smaller ones a connection has UNCOUNTED in flight without more ado; beyond that
 *   the I/O thread takes credit for CREDIT of them at a time, and the thread that ends the
 *   last request in flight gives all of it back.  A thread that looked at the credit before
 *   it was taken may be that last one: then the next to end the last request does, or the end
 *   of the stream.
 *
 *   What finds no room is refused by its protocol, which says how much of the frame is to be
 *   passed over, so that the connection goes on.  The transport asks for that (`crowded`)
 *   when an unfinished frame may not grow.  Nobody waits for the budget, so there is nobody
 *   to wake.
 *
 *   While half of the budget is in use, reading pauses from a client that has left PRESSED
 *   bytes unread; otherwise, when half of max_unwritten is.  Frames that have been read
 *   wait then too.  If there is no memory to keep them, the connection is closed.
 *   [credit]  the I/O thread adds with release, after it has taken from the budget; the
 *             exchange that gives back acquires: no more is given than was taken.
 *
 * LIFE       the connection, each message and each event under way hold the stream, as any
 *   channel ([hold] in channel/channel.c).  Only the thread that frees it touches the
 *   endpoint, to leave its list.  So an endpoint without streams may be destroyed.
 *
 * HALF-CLOSED  A client may end its side of the connection behind its requests: they are
 *   answered, and then the server ends its own.  HALF, in the lower half of the word of
 *   holders, says so, together with a hold: no request comes any more, so exactly one drop
 *   finds that it was the last request, and the thread that did it ends the connection and
 *   drops that hold.  Without requests in flight the I/O thread does both at once.
 *   A frame of a program's protocol that is none ends a server's connection in the same way:
 *   nothing more is read, and messages before that frame are answered.
 *
 * ORDERING
 *   [frame]    the I/O thread notes when the first byte of an unfinished frame came, and how
 *              many had come before; the timer reads both.  Between two frames there is a
 *              0, and both stores after it are releases: a timer that saw the number of
 *              another frame finds another time behind it.
 *   [pause]    a sender that has made too much wait pauses reading, asks the transport to
 *              tell when something was written, and then looks once more; the I/O thread
 *              that has written looks whether it is paused, after the transport has taken
 *              note of what it wrote.  A bit of `paused` decides who resumes: never
 *              twice, never nobody.  The transport is asked before the exchange, so that the
 *              request is never taken back before it was made.
 *   [flight]   the I/O thread that takes one message too many pauses, sets a bit of `paused`,
 *              and looks once more at how many are in flight; who releases a message counts
 *              it out, and then looks at the bit.  seq_cst, all four: one of the two sees
 *              the other, and the bit decides who resumes.
 *   [deaf]     the I/O thread sets `deaf` when it takes no more requests; stop loads it, and
 *              then looks at the requests in flight: those it took before are among them.
 *
 * CLOSING    stop sets `closing`, and then looks at the list; a connection is listed, and
 *   then looks at `closing`.  Both have the list's lock in between, and whoever has it
 *   second sees the other: no connection is both overlooked and let in.
 *
 * LOCKS      the endpoint's lock, a leaf: around its list, on coming and going only.
 */
#include "endpoint/stream.h"

#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/time.h"
#include "sync/blocks.h"

#define HALF (UINT64_C(1) << 31) /* in the word of holders; see HALF-CLOSED */

enum {
    SMALL = 2048,    /* bytes of a request with its body, at most; see MEMORY */
    UNCOUNTED = 8,   /* such requests in flight that a connection may always have */
    CREDIT = 32,     /* paid for at a time: 64 KiB */
    PRESSED = 65536, /* bytes unwritten that are enough while memory is short */
};

/* ---- life ------------------------------------------------------------------- */

static void stream_free(spn_channel *channel)
{
    struct spn__stream *stream = spn__stream_of(channel);
    struct spn__endpoint *endpoint = stream->endpoint;

    /* relaxed: the last holder [hold]. */
    spn__budget_give(&endpoint->budget,
                     (uint64_t)spn__load(&stream->credit, relaxed) * SMALL);
    spn__conn_unref(stream->conn);
    spn__channel_fini(channel);
    spn__stream_free_token(stream);
    spn__lock(&endpoint->lock);
    spn__list_remove(&stream->link);
    spn__unlock(&endpoint->lock);
    spn__free(stream);
}

/* No request is in flight, and none comes. */
static void end_half_closed(struct spn__stream *stream)
{
    /* Its client may read slowly.  One that is ending keeps its deadline, which stop may have
     * set. */
    if (spn__conn_is_open(stream->conn))
        spn__conn_end_by(stream->conn,
                         spn__time_add(spn__now(), spn__stream_read_within(stream)));
    spn__channel_drop_of(&stream->channel, HALF + 1);
}

static void give_credit(struct spn__stream *stream)
{
    const uint64_t credit = spn__exchange(&stream->credit, 0u, acquire); /* [credit] */

    spn__budget_give(&stream->endpoint->budget, credit * SMALL);
}

/* Where credit was taken: the channel is held while it is given back. */
static void end_with_credit(struct spn__stream *stream)
{
    const uint64_t before = spn__fetch_sub(&stream->channel.holds, SPN__IN_FLIGHT - 1,
                                           acq_rel); /* [hold] */

    if (before / SPN__IN_FLIGHT == 1) {
        give_credit(stream);
        if ((before & HALF) != 0)
            end_half_closed(stream);
    }
    spn__stream_drop(stream);
}

void spn__stream_end(struct spn__stream *stream)
{
    uint64_t before;

    if (spn__load(&stream->credit, relaxed) != 0) { /* relaxed: see MEMORY */
        end_with_credit(stream);
        return;
    }
    before =
        spn__fetch_sub(&stream->channel.holds, SPN__IN_FLIGHT, acq_rel); /* [hold] */
    if (before == SPN__IN_FLIGHT)
        stream_free(&stream->channel);
    else if ((before & HALF) != 0 && before / SPN__IN_FLIGHT == 1)
        end_half_closed(stream);
}

static void resume(struct spn__stream *stream, uint32_t why);

/* A message of a program's protocol has been released. */
static void message_end(spn_channel *channel, size_t counted)
{
    struct spn__stream *stream = spn__stream_of(channel);
    uint64_t before;

    spn__budget_give(&stream->endpoint->budget, counted);
    /* relaxed, both: a setting; and before the message is counted out, which publishes it. */
    if (spn__load(&stream->endpoint->close_ns, relaxed) > 0)
        spn__store(&stream->released_ns, spn__now(), relaxed);
    /* The message's hold becomes one of this thread, so that the stream is there for the
     * second look. */
    before =
        spn__fetch_sub(&channel->holds, SPN__IN_FLIGHT - 1, seq_cst); /* [flight] */
    /* [flight] counted out before the look */
    if ((spn__load(&stream->paused, seq_cst) & SPN__PAUSED_FLIGHT) != 0 &&
        spn__stream_in_flight(stream) <= stream->endpoint->max_in_flight / 2)
        resume(stream, SPN__PAUSED_FLIGHT);
    if ((before & HALF) != 0 && before / SPN__IN_FLIGHT == 1)
        end_half_closed(stream);
    spn__stream_drop(stream);
}

static const struct spn__channel_kind stream_kind = { stream_free, message_end };

bool spn__stream_begin_counted(struct spn__stream *stream, spn_message *message,
                               size_t bytes)
{
    struct spn__endpoint *endpoint = stream->endpoint;
    const size_t counted = bytes > SMALL ? bytes : 0;

    if (!spn__budget_take(&endpoint->budget, counted, SPN__SHARE_REQUESTS))
        return false;
    message->counted = counted;
    message->channel = &stream->channel;
    message->flags |= SPN__MESSAGE_KEEPS;
    if (spn__stream_begin(stream) < endpoint->max_in_flight)
        return true;
    spn__conn_pause(stream->conn);
    /* Only this thread sets the bit.  [flight] paused before the second look */
    (void)spn__fetch_or(&stream->paused, SPN__PAUSED_FLIGHT, seq_cst);
    if (spn__load(&stream->channel.holds, seq_cst) / SPN__IN_FLIGHT <=
        endpoint->max_in_flight / 2)
        resume(stream, SPN__PAUSED_FLIGHT);
    return true;
}

/* ---- memory --------------------------------------------------------------------- */

/* Credit for a small request where so many are in flight; false: there is no room. */
static bool take_credit(struct spn__stream *stream, uint64_t in_flight)
{
    /* relaxed: who gives it back meanwhile makes us take some that is not needed. */
    if (in_flight <= UNCOUNTED + spn__load(&stream->credit, relaxed))
        return true;
    if (!spn__budget_take(&stream->endpoint->budget, (uint64_t)CREDIT * SMALL,
                          SPN__SHARE_REQUESTS))
        return false;
    (void)spn__fetch_add(&stream->credit, CREDIT, release); /* [credit] */
    return true;
}

void *spn__stream_get(struct spn__stream *stream, size_t bytes, uint64_t in_flight)
{
    struct spn__budget *budget = &stream->endpoint->budget;
    void *memory;

    if (bytes <= SMALL) {
        stream->is_over = in_flight > UNCOUNTED && !take_credit(stream, in_flight);
        return stream->is_over ? NULL : spn__block_get(bytes);
    }
    stream->is_over = !spn__budget_take(budget, bytes, SPN__SHARE_REQUESTS);
    if (stream->is_over)
        return NULL;
    memory = spn__large_get(bytes);
    if (memory == NULL)
        spn__budget_give(budget, bytes);
    return memory;
}

void spn__stream_put(struct spn__stream *stream, void *memory, size_t bytes)
{
    if (bytes <= SMALL) {
        spn__block_put(memory);
        return;
    }
    spn__large_put(memory, bytes);
    spn__budget_give(&stream->endpoint->budget, bytes);
}

void spn__stream_lacks_memory(struct spn__stream *stream, const char *what,
                              bool is_over)
{
    struct spn__endpoint *endpoint = stream->endpoint;

    spn__count(&endpoint->counts, SPN__COUNT_MEMORY, 1);
    if (is_over)
        spn__log_limited(
            SPN_LOG_WARN, SPN_SEC(10),
            "channel: no memory for %s of %s: %llu of memory=%llu bytes are in "
            "use",
            what, spn__conn_remote(stream->conn),
            (unsigned long long)spn__budget_used(&endpoint->budget),
            (unsigned long long)endpoint->budget.limit);
    else
        spn__log_limited(SPN_LOG_WARN, SPN_SEC(10),
                         "channel: no memory for %s of %s: the system refused it", what,
                         spn__conn_remote(stream->conn));
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
    spn__list_init(&endpoint->streams);
}

void spn__endpoint_fini(struct spn__endpoint *endpoint)
{
    spn__counts_fini(&endpoint->counts);
}

/* Takes a hold of a channel in the list; false: it is being freed.  The lock is held, so
 * that it still is there. */
static bool hold_listed(struct spn__stream *stream)
{
    uint64_t holds = spn__load(&stream->channel.holds, relaxed); /* the swap decides */

    do {
        if (holds == 0)
            return false;
    } while (!spn__cas_weak(&stream->channel.holds, &holds, holds + 1, relaxed,
                            relaxed)); /* as spn__channel_hold */
    return true;
}

void spn__endpoint_each(struct spn__endpoint *endpoint,
                        void (*fn)(void *ctx, struct spn__stream *stream), void *ctx)
{
    struct spn__stream *held = NULL;
    struct spn__list_node *node;

    /* The one that is held keeps its place in the list while fn runs. */
    spn__lock(&endpoint->lock);
    node = spn__list_first(&endpoint->streams);
    while (node != NULL) {
        struct spn__stream *stream = spn__list_entry(node, struct spn__stream, link);

        if (hold_listed(stream)) {
            spn__unlock(&endpoint->lock);
            if (held != NULL)
                spn__stream_drop(held);
            held = stream;
            fn(ctx, stream);
            spn__lock(&endpoint->lock);
        }
        node = node->next != &endpoint->streams.head ? node->next : NULL;
    }
    spn__unlock(&endpoint->lock);
    if (held != NULL)
        spn__stream_drop(held);
}

static void add_in_flight(void *ctx, struct spn__stream *stream)
{
    *(uint64_t *)ctx += spn__stream_in_flight(stream);
}

uint64_t spn__endpoint_in_flight(struct spn__endpoint *endpoint)
{
    uint64_t sum = 0;

    spn__endpoint_each(endpoint, add_in_flight, &sum);
    return sum;
}

bool spn__endpoint_has_streams(struct spn__endpoint *endpoint)
{
    bool has;

    spn__lock(&endpoint->lock);
    has = !spn__list_empty(&endpoint->streams);
    spn__unlock(&endpoint->lock);
    return has;
}

static void deafen(struct spn__net_job *job)
{
    struct spn__stream *stream =
        (struct spn__stream *)((char *)job - offsetof(struct spn__stream, drain.job));

    stream->ended = true;
    /* [deaf] mutant: stop holds the channel with a swap of the same word a moment before it
     * looks, and what came later was not seen to get lost in some thousand schedules */
    spn__store(&stream->drain.deaf, 1, release);
    spn__stream_drop(stream);
}

void spn__stream_deafen(struct spn__stream *stream)
{
    spn__stream_hold(stream);
    stream->drain.job.fn = deafen;
    if (spn__conn_post(stream->conn, &stream->drain.job) == SPN_OK)
        return;
    spn__store(&stream->drain.deaf, 1, relaxed); /* its thread has ended */
    spn__stream_drop(stream);
}

bool spn__stream_is_deaf(const struct spn__stream *stream)
{
    struct spn__stream *own = (struct spn__stream *)(uintptr_t)stream;

    return spn__load(&own->drain.deaf, acquire) != 0; /* [deaf] mutant: as in deafen */
}

/* ---- events of the transport -------------------------------------------------- */

static int opened(void *context, struct spn__conn *conn)
{
    struct spn__endpoint *endpoint = context;
    struct spn__stream *stream;
    /* relaxed, both: only a number. */
    const int32_t standing = spn__fetch_add(&endpoint->open, 1, relaxed) + 1;
    const int32_t accepts = spn__load(&endpoint->accepts, relaxed);
    int rc = SPN_EFULL;

    if (accepts > 0 && standing > accepts) {
        spn__log_limited(SPN_LOG_WARN, SPN_SEC(10),
                         "channel: connection from %s refused: %d stand, %s=%d",
                         spn__conn_remote(conn), (int)standing - 1,
                         endpoint->protocol->accepts_name, (int)accepts);
        goto refuse;
    }
    rc = SPN_ENOMEM;
    stream = spn__alloc(sizeof *stream);
    if (stream == NULL)
        goto refuse;
    memset(stream, 0, sizeof *stream);
    stream->endpoint = endpoint;
    stream->conn = conn;
    spn__conn_ref(conn);
    /* It begins with one holder, the connection. */
    spn__channel_init(&stream->channel, &stream_kind, endpoint->protocol->ops, NULL,
                      spn__conn_remote(conn));
    spn__init(&stream->token, 0);
    spn__init(&stream->state, 0);
    spn__init(&stream->paused, 0);
    spn__init(&stream->requests, 0);
    spn__init(&stream->credit, 0);
    spn__init(&stream->frame_since_ns, 0);
    spn__init(&stream->frame_from, 0);
    spn__init(&stream->released_ns, 0);
    spn__init(&stream->drain.deaf, 0);
    stream->opened_ns = spn__now();
    spn__lock(&endpoint->lock);
    spn__list_push_back(&endpoint->streams, &stream->link);
    spn__unlock(&endpoint->lock);
    if (spn__load(&endpoint->closing, relaxed) != 0) { /* relaxed: see CLOSING */
        spn__stream_drop(stream);
        rc = SPN_ESHUTDOWN;
        goto refuse;
    }
    spn__conn_set_data(conn, stream);
    spn__count(&endpoint->counts, SPN__COUNT_ACCEPTED, 1);
    if (endpoint->tells_sent)
        spn__conn_tell_written(conn, true);
    spn__idle_start(stream);
    spn__handler_connected(endpoint->chain, &stream->channel);
    return SPN_OK;

refuse:
    (void)spn__fetch_sub(&endpoint->open, 1, relaxed); /* only a number */
    spn__count(&endpoint->counts, SPN__COUNT_REFUSED, 1);
    return rc;
}

uint64_t spn__endpoint_message_most(const struct spn__endpoint *endpoint)
{
    const uint64_t most = endpoint->budget.limit / 4;

    return endpoint->budget.limit == 0 ? UINT64_MAX : most > SMALL ? most : SMALL;
}

/* What has come ends inside a frame, of which there are `part` bytes; `begins`: it is not the
 * one that was unfinished before. */
static void note_frame(struct spn__stream *stream, size_t part, bool begins,
                       int64_t now_ns)
{
    if (stream->in_frame && (begins || part == 0))
        spn__store(&stream->frame_since_ns, 0, relaxed); /* before the next [frame] */
    if (part > 0 && (begins || !stream->in_frame)) {
        spn__store(&stream->frame_from, spn__conn_received(stream->conn) - part,
                   release);                                  /* [frame] */
        spn__store(&stream->frame_since_ns, now_ns, release); /* [frame] */
    }
    stream->in_frame = part > 0;
}

static int64_t crowded(void *context, struct spn__conn *conn, const unsigned char *data,
                       size_t size)
{
    struct spn__endpoint *endpoint = context;
    struct spn__stream *stream = spn__conn_data(conn);

    /* A client's call hears from the end of its connection. */
    if (stream == NULL || endpoint->is_client || endpoint->protocol->crowded == NULL)
        return SPN_ENOMEM;
    return endpoint->protocol->crowded(stream, data, size);
}

/* The rest of a frame that was refused; returns how much of it is here. */
static size_t skip(struct spn__stream *stream, size_t size)
{
    const size_t n = stream->skip < size ? stream->skip : size;

    stream->skip -= n;
    return n;
}

void spn__stream_received(struct spn__stream *stream, spn_message *message)
{
    spn_handler *chain = stream->endpoint->chain;
    const int rc = spn__handler_received(chain, &stream->channel, message);

    if (rc == SPN_OK)
        return;
    spn__handler_caught(chain, &stream->channel, rc);
    spn_message_release(message);
}

/* Takes all frames that are whole; how many bytes these had, or a failure. */
static int64_t take_frames(struct spn__stream *stream, const unsigned char *data,
                           size_t size, size_t used, int64_t now_ns)
{
    const struct spn__protocol *protocol = stream->endpoint->protocol;

    while (used < size) {
        size_t needed = 0;
        int64_t n;

        /* What is answered here is not bounded otherwise.  relaxed: a hint; who resumes
         * has what is left offered again. */
        if (spn__load(&stream->paused, relaxed) != 0) {
            spn__conn_want(stream->conn, 1);
            break;
        }
        n = protocol->frame(stream, data + used, size - used, now_ns, &needed);
        if (n < 0) {
            stream->ended = true;
            spn__handler_caught(stream->endpoint->chain, &stream->channel, (int)n);
            return n;
        }
        if (stream->skip > 0)
            note_frame(stream, size - used, used > 0, now_ns);
        if (stream->skip > 0 || stream->ended)
            return (int64_t)size;
        if (n == 0) {
            spn__conn_want(stream->conn, needed);
            break;
        }
        used += (size_t)n;
    }
    return (int64_t)used;
}

static int64_t bytes(void *context, struct spn__conn *conn, const unsigned char *data,
                     size_t size)
{
    struct spn__endpoint *endpoint = context;
    struct spn__stream *stream = spn__conn_data(conn);
    const int64_t now_ns = spn__now();
    size_t skipped = 0;
    int64_t used;

    if (stream == NULL || stream->ended)
        return (int64_t)size;
    if (stream->skip > 0)
        skipped = skip(stream, size);
    used = take_frames(stream, data, size, skipped, now_ns);
    if (used < 0)
        return used;
    if (stream->skip == 0 && (stream->in_frame || (size_t)used < size))
        note_frame(stream, size - (size_t)used, used > 0, now_ns);
    spn__count(&endpoint->counts, SPN__COUNT_BYTES_IN, (uint64_t)used);
    return used;
}

/* Bytes that may wait for a client before reading from it pauses.  It goes on at half of
 * that: also at 0, whatever the budget does meanwhile. */
static size_t unread_limit(struct spn__endpoint *endpoint)
{
    const size_t limit = endpoint->max_unwritten / 2;

    return limit > PRESSED && spn__budget_is_pressed(&endpoint->budget) ? PRESSED
                                                                        : limit;
}

static void resume(struct spn__stream *stream, uint32_t why)
{
    /* [pause] [flight] acq_rel: of all who find it paused for that one resumes.
     * mutant: the explorer's network counts pauses under a lock; the sockets' does not */
    if ((spn__fetch_and(&stream->paused, ~why, acq_rel) & why) == 0)
        return;
    if (why == SPN__PAUSED_UNREAD)
        spn__conn_tell_written(stream->conn, false);
    spn__conn_resume(stream->conn);
}

static void written(void *context, struct spn__conn *conn, uint64_t position)
{
    struct spn__endpoint *endpoint = context;
    struct spn__stream *stream = spn__conn_data(conn);

    if (stream == NULL)
        return;
    /* [pause] written before the look.  mutant: a lock in the explorer's network, as there */
    spn__fence(seq_cst);
    if ((spn__load(&stream->paused, relaxed) & SPN__PAUSED_UNREAD) !=
            0 && /* ordered by the fence */
        spn__conn_unwritten(conn) <= unread_limit(endpoint) / 2)
        resume(stream, SPN__PAUSED_UNREAD);
    if (endpoint->tells_sent)
        spn__handler_sent(endpoint->chain, &stream->channel, position);
}

/* No request comes any more: the connection ends when those in flight are over. */
static void half_close(struct spn__stream *stream)
{
    (void)spn__fetch_or(&stream->state, SPN__STREAM_HALF, relaxed); /* for the timer */
    /* relaxed: as spn__channel_hold; the drop of the last request orders what it did. */
    if (spn__fetch_add(&stream->channel.holds, HALF + 1, relaxed) / SPN__IN_FLIGHT == 0)
        end_half_closed(stream);
}

void spn__stream_refuse_rest(struct spn__stream *stream)
{
    stream->ended = true;
    spn__conn_pause(
        stream->conn); /* for good; an ended connection is read all the same */
    note_frame(stream, 0, false, 0);
    half_close(stream);
}

/* A server answers what was asked before the end. */
static bool peer_ended(void *context, struct spn__conn *conn)
{
    const struct spn__endpoint *endpoint = context;
    struct spn__stream *stream = spn__conn_data(conn);

    if (stream == NULL)
        return false;
    if (stream->in_frame && !stream->ended && endpoint->protocol->cut_short != NULL)
        endpoint->protocol->cut_short(stream);
    if (endpoint->is_client)
        return false;
    /* relaxed: only this thread sets it. */
    if ((spn__load(&stream->state, relaxed) & SPN__STREAM_HALF) != 0)
        return true;
    note_frame(stream, 0, false, 0); /* of what is unfinished nothing will come */
    spn__stream_cancel(stream, SPN_ECLOSED); /* as a rule the peer has gone */
    half_close(stream);
    return true;
}

int spn__connect_status(int why)
{
    switch (why) {
    case SPN_ETIMEDOUT:
    case SPN_ENOMEM:
    case SPN_EAGAIN: /* no descriptor */
    case SPN_ESHUTDOWN:
    case SPN_ECLOSED: /* by close */
        return why;
    case SPN_EADDRINUSE: /* no port of our own is left */
        return SPN_EAGAIN;
    default: /* ended or reset before it stood, or forbidden: out of reach */
        return SPN_EUNREACHABLE;
    }
}

/* A connection was closed from here: counts it if its peer had not read all that was sent, or
 * if messages of a program's protocol were not answered yet.  A Dubbo server counts such
 * requests itself, and its stop does not fail for a connection that close.timeout ends
 * meanwhile. */
static void count_cut_off(struct spn__stream *stream, size_t lost)
{
    struct spn__endpoint *endpoint = stream->endpoint;

    if (lost == 0 &&
        (endpoint->protocol->busy_is_idle || spn__stream_in_flight(stream) == 0))
        return;
    spn__count(&endpoint->counts, SPN__COUNT_CUT_OFF, 1);
    spn__count(&endpoint->counts, SPN__COUNT_CUT_OFF_BYTES, lost);
}

static void closed(void *context, struct spn__conn *conn, int why)
{
    struct spn__endpoint *endpoint = context;
    struct spn__stream *stream = spn__conn_data(conn);

    if (stream == NULL) { /* refused, or it never stood */
        if (endpoint->protocol->unopened != NULL)
            endpoint->protocol->unopened(endpoint, conn, why);
        return;
    }
    if (why == SPN_ECLOSED || why == SPN_ETIMEDOUT)
        count_cut_off(stream, spn__conn_lost(conn));
    if (why == SPN_ENOMEM)
        spn__stream_lacks_memory(stream, "the connection", false);
    spn__idle_stop(stream);
    (void)spn__fetch_sub(&endpoint->open, 1, relaxed); /* only a number */
    if (!endpoint->is_client)
        spn__stream_cancel(stream, SPN_ECLOSED);
    /* After a bad frame the connection ended in order; the reason is the frame. */
    if (stream->why != 0)
        why = stream->why;
    spn__handler_disconnected(endpoint->chain, &stream->channel, why);
    (void)spn__fetch_or(&stream->state, SPN__STREAM_TOLD, relaxed); /* for stop */
    spn__stream_drop(stream);
}

const struct spn__conn_events spn__stream_events = {
    .opened = opened,
    .bytes = bytes,
    .crowded = crowded,
    .written = written,
    .peer_ended = peer_ended,
    .closed = closed,
};

/* ---- sending -------------------------------------------------------------------- */

/* Reading goes on when the peer has read some of what waits for it. */
static void pause_if_behind(struct spn__stream *stream)
{
    struct spn__endpoint *endpoint = stream->endpoint;
    const size_t unread = spn__conn_unwritten(stream->conn);
    size_t limit = endpoint->max_unwritten / 2;

    if (limit == 0 || unread <= (limit < PRESSED ? limit : PRESSED))
        return; /* without a look at the budget */
    limit = unread_limit(endpoint);
    if (unread <= limit)
        return;
    /* [pause] Paused before it is said: who finds it said resumes at once.  acq_rel: of all
     * who pause one does, and the others take theirs back. */
    spn__conn_pause(stream->conn);
    spn__conn_tell_written(stream->conn, true);
    /* mutant: as in resume */
    if ((spn__fetch_or(&stream->paused, SPN__PAUSED_UNREAD, acq_rel) &
         SPN__PAUSED_UNREAD) != 0) {
        spn__conn_tell_written(stream->conn, false);
        spn__conn_resume(stream->conn);
        return;
    }
    /* [pause] paused before the second look.  mutant: as in written */
    spn__fence(seq_cst);
    if (spn__conn_unwritten(stream->conn) <= limit / 2)
        resume(stream, SPN__PAUSED_UNREAD);
}

int spn__stream_send(struct spn__stream *stream, const void *frame, size_t size,
                     unsigned flags)
{
    const struct spn__piece piece = { frame, size };
    const int rc = spn__conn_send(stream->conn, &piece, 1, flags, NULL);

    if (rc == SPN_OK)
        spn__count(&stream->endpoint->counts, SPN__COUNT_BYTES_OUT, size);
    pause_if_behind(stream);
    return rc;
}
