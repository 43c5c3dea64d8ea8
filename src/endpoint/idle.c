/* SPDX-License-Identifier: MIT */
/*
 * idle.c - silent peers: asking them for a sign of life, and giving up.
 *
 * When something was last read or written the transport knows.  Each channel has one
 * timeout, which looks at that and sleeps until the earliest moment at which anything could
 * be due: traffic costs it nothing.  Callbacks run on the timer's thread and only send and
 * close, so no worker is needed for them.
 *
 * A server closes a channel on which nothing was read or written for close_ns.  A client
 * asks after heartbeat_ns without a byte from the server, and closes, for the sake of
 * connecting anew, after close_ns without one.
 *
 * BUSY       A program's connection is not closed while messages of its peer are not released:
 *   their handlers may answer later than close_ns.  close_ns begins again when the last one is
 *   released.  While bytes wait for a client's peer, close_ns begins with the last write: an
 *   upload is not closed because the server answers behind it.  A peer that takes none of the
 *   bytes that wait for it is silent.  A Dubbo server (busy_is_idle) closes by bytes alone, as
 *   the clients of that protocol send heartbeats while they wait.
 *
 * UNFINISHED FRAMES  A server closes a connection that does not bring a frame it has begun.
 *   From its first byte it has frame_ns, and on top the time that what has come takes at
 *   SLOWEST bytes a second.  So a peer that sends a byte now and then is closed soon after
 *   frame_ns, and an upload goes on as long as it is faster than that on average: slower
 *   than any line that this protocol is used on, and 8 MiB are over after 35 minutes.  While
 *   reading is paused, which is not the peer's doing, no time passes.
 *   [frame] is explained in stream.c.
 *
 * HALF-CLOSED connections (stream.c) have close_ns too, since nothing is read any more;
 *   without it HALF_CLOSED_NS, so that a request that is never finished does not keep them
 *   for ever.  A program's connection has the longer of the two while messages are not
 *   released.
 *
 * LIFE       the timeout holds its channel from start until the callback that does not
 *            schedule it again, or until stop took it out.
 *   [idle]   `closed` is set before stop cancels; a callback that has scheduled the timeout
 *            looks at it afterwards, holding the channel once more meanwhile.  Both took
 *            the timer's lock in between, so that one of the two takes the timeout out.
 */
#include "base/log.h"
#include "base/time.h"
#include "endpoint/stream.h"

enum { SLOWEST = 4096 };
#define HALF_CLOSED_NS SPN_SEC(180)

/* How long until an unfinished frame is late, not above 0 if it is; where there is none, until
 * the next look: one that begins now is not late before that. */
static int64_t frame_left(struct spn__stream *stream, int64_t now)
{
    const int64_t limit = stream->endpoint->frame_ns;
    /* acquire, both [frame]: the number is not older than the time, and not of a frame that
     * began later, unless the time has changed. */
    const int64_t since = spn__load(&stream->frame_since_ns, acquire);
    const uint64_t from = spn__load(&stream->frame_from, acquire);
    int64_t begin = since, allowed;

    if (limit <= 0)
        return INT64_MAX;
    if (spn__load(&stream->paused, relaxed) != 0) /* a hint: looked at again */
        stream->unpaused_ns = now;
    if (since == 0 || spn__load(&stream->frame_since_ns, relaxed) != since)
        return limit / 2 > 0 ? limit / 2 : 1;
    if (begin < stream->unpaused_ns)
        begin = stream->unpaused_ns;
    allowed = spn__time_add(limit, (int64_t)((spn__conn_received(stream->conn) - from) *
                                             (uint64_t)SPN_SEC(1) / SLOWEST));
    return spn__time_add(begin, allowed) - now;
}

static void close_late(struct spn__stream *stream)
{
    struct spn__endpoint *endpoint = stream->endpoint;

    spn__count(&endpoint->counts, SPN__COUNT_FRAMES_LATE, 1);
    spn__log_limited(SPN_LOG_WARN, SPN_SEC(10),
                     "channel %s closed: it began a frame and did not bring the rest; "
                     "%s allows %lld ms, and %d bytes a second",
                     spn__conn_remote(stream->conn), endpoint->protocol->frame_name,
                     (long long)(endpoint->frame_ns / SPN_MS(1)), SLOWEST);
    spn__conn_close(stream->conn, SPN_ETIMEDOUT);
}

int64_t spn__stream_close_after(struct spn__stream *stream)
{
    /* relaxed, both: a setting, and a change counts from the next look on; a hint. */
    const int64_t close = spn__load(&stream->endpoint->close_ns, relaxed);

    if (close <= 0 && (spn__load(&stream->state, relaxed) & SPN__STREAM_HALF) != 0)
        return HALF_CLOSED_NS;
    return close;
}

static int64_t later(int64_t a_ns, int64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

int64_t spn__stream_read_within(struct spn__stream *stream)
{
    const int64_t close = spn__stream_close_after(stream);

    /* A peer that takes no bytes meanwhile is closed after close_ns. */
    return stream->endpoint->protocol->busy_is_idle ? close
                                                    : later(close, HALF_CLOSED_NS);
}

/* When a channel that is closed for silence fell silent, and in *close after how long: `now`
 * while it is busy. */
static int64_t silent_since(struct spn__stream *stream, int64_t now, int64_t *close)
{
    struct spn__endpoint *endpoint = stream->endpoint;
    const int64_t read = spn__conn_last_read_ns(stream->conn);
    const int64_t wrote = spn__conn_last_write_ns(stream->conn);
    const bool is_behind = spn__conn_unwritten(stream->conn) > 0;
    int64_t since;

    if (endpoint->protocol->busy_is_idle)
        return endpoint->is_client ? read : later(read, wrote);
    if (is_behind || stream->is_behind) /* the rest may have gone since the last look */
        stream->behind_ns = wrote;
    stream->is_behind = is_behind;
    since = later(read, endpoint->is_client ? stream->behind_ns : wrote);
    if (spn__stream_in_flight(stream) == 0)
        /* relaxed: published by the count of messages, see message_end. */
        return later(since, spn__load(&stream->released_ns, relaxed));
    /* relaxed: a hint; looked at again. */
    if ((spn__load(&stream->state, relaxed) & SPN__STREAM_HALF) == 0)
        return now;
    *close = later(*close, HALF_CLOSED_NS);
    return since;
}

/* How long until the next look; 0: never again. */
static int64_t look(struct spn__stream *stream)
{
    struct spn__endpoint *endpoint = stream->endpoint;
    /* relaxed: a setting; a change counts from the next look on. */
    const int64_t heartbeat = spn__load(&endpoint->heartbeat_ns, relaxed);
    int64_t close = spn__stream_close_after(stream);
    const int64_t read = spn__conn_last_read_ns(stream->conn);
    const int64_t wrote = spn__conn_last_write_ns(stream->conn);
    const int64_t now = spn__now();
    const int64_t frame = frame_left(stream, now);
    int64_t idle = 0, next;

    if (close <= 0 && (heartbeat <= 0 || !endpoint->is_client) && frame == INT64_MAX)
        return 0;
    if (frame <= 0) {
        close_late(stream);
        return 0;
    }
    if (close > 0)
        idle = later(now - silent_since(stream, now, &close), 0);
    if (close > 0 && idle >= close) {
        spn__count(&endpoint->counts, SPN__COUNT_IDLE_CLOSED, 1);
        spn__conn_close(stream->conn, SPN_ETIMEDOUT);
        return 0;
    }
    next = close > 0 && close - idle < frame ? close - idle : frame;
    if (endpoint->is_client && heartbeat > 0) {
        /* One question for each interval, until something comes. */
        const int64_t silent = now - read, asked = now - wrote;

        if (silent >= heartbeat && asked >= heartbeat)
            endpoint->protocol->ask(stream);
        else if (heartbeat - (silent < asked ? silent : asked) < next)
            next = heartbeat - (silent < asked ? silent : asked);
        if (heartbeat < next)
            next = heartbeat;
    }
    return next > 0 ? next : 1;
}

/* [idle] A cancel that came while the callback ran was of no use to what that has
 * scheduled: it shows in `closed`, since both took the timer's lock. */
static void unless_closed(struct spn__stream *stream)
{
    spn_timer *timer = stream->endpoint->timer;

    /* [idle] mutant: the timer's lock orders as much */
    if ((spn__load(&stream->state, acquire) & SPN__STREAM_CLOSED) != 0 &&
        spn_timer_cancel(timer, &stream->idle) == SPN_TIMEOUT_REMOVED)
        spn__stream_drop(stream);
}

static int on_idle(spn_timeout *timeout)
{
    struct spn__stream *stream =
        (struct spn__stream *)((char *)timeout - offsetof(struct spn__stream, idle));
    int64_t next = 0;

    spn__stream_hold(stream); /* stop may drop the other one at any moment */
    /* [idle] acquire: closed from the I/O thread.  mutant: only saves a look */
    if ((spn__load(&stream->state, acquire) & SPN__STREAM_CLOSED) == 0)
        next = look(stream);
    if (next == 0 || spn_timer_schedule(stream->endpoint->timer, &stream->idle, on_idle,
                                        next) != SPN_OK)
        spn__stream_drop(stream);
    else
        unless_closed(stream);
    spn__stream_drop(stream);
    return 0;
}

void spn__idle_start(struct spn__stream *stream)
{
    struct spn__endpoint *endpoint = stream->endpoint;
    int64_t first;

    if (endpoint->timer == NULL || (first = look(stream)) == 0)
        return;
    spn__stream_hold(stream);
    if (spn_timer_schedule(endpoint->timer, &stream->idle, on_idle, first) != SPN_OK)
        spn__stream_drop(stream);
}

void spn__idle_stop(struct spn__stream *stream)
{
    struct spn__endpoint *endpoint = stream->endpoint;

    /* [idle] before the cancel.  mutant: the timer's lock orders as much */
    (void)spn__fetch_or(&stream->state, SPN__STREAM_CLOSED, release);
    if (endpoint->timer != NULL &&
        spn_timer_cancel(endpoint->timer, &stream->idle) == SPN_TIMEOUT_REMOVED)
        spn__stream_drop(stream);
}

/* ---- the timer ---------------------------------------------------------------------- */

static int64_t shorter(int64_t a_ns, int64_t b_ns)
{
    if (a_ns <= 0 || b_ns <= 0)
        return a_ns > 0 ? a_ns : b_ns;
    return a_ns < b_ns ? a_ns : b_ns;
}

int spn__idle_timer_create(struct spn__endpoint *endpoint, const char *name,
                           spn_timer **timer)
{
    /* relaxed, both: nobody else is there yet. */
    int64_t shortest_ns =
        shorter(spn__load(&endpoint->close_ns, relaxed), endpoint->frame_ns);
    spn_thread_opts thread = SPN_THREAD_OPTS_INIT;
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;

    if (endpoint->is_client)
        shortest_ns = shorter(shortest_ns, spn__load(&endpoint->heartbeat_ns, relaxed));
    thread.name = name;
    opts.thread = &thread;
    opts.tick_ns = shortest_ns / 32;
    if (opts.tick_ns < SPN_MS(2))
        opts.tick_ns = SPN_MS(2);
    if (opts.tick_ns > SPN_SEC(1))
        opts.tick_ns = SPN_SEC(1);
    opts.shards = 1;
    return spn_timer_create(timer, &opts);
}
