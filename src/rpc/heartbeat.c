/* SPDX-License-Identifier: MIT */
/*
 * heartbeat.c - signs of life: answering them, asking for them, and giving up.
 *
 * The handler answers heartbeats on the I/O thread, outside of the dispatcher: a server
 * whose pool is stuck still looks alive, so that clients keep their connection and are told
 * that there is no room instead of connecting elsewhere in a storm.
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
 * UNFINISHED FRAMES  A server closes a connection that does not bring a frame it has begun.
 *   From its first byte it has frame_ns, and on top the time that what has come takes at
 *   SLOWEST bytes a second.  So a peer that sends a byte now and then is closed soon after
 *   frame_ns, and an upload goes on as long as it is faster than that on average: slower
 *   than any line that this protocol is used on, and 8 MiB are over after 35 minutes.  While
 *   reading is paused, which is not the peer's doing, no time passes.
 *   [frame] is explained in channel.c.
 *
 * HALF-CLOSED connections (channel.c) have close_ns too, since nothing is read any more;
 *   without it HALF_CLOSED_NS, so that a request that is never finished does not keep them
 *   for ever.
 *
 * LIFE       the timeout holds its channel from start until the callback that does not
 *            schedule it again, or until stop took it out.
 *   [idle]   `closed` is set before stop cancels; a callback that has scheduled the timeout
 *            looks at it afterwards, holding the channel once more meanwhile.  Both took
 *            the timer's lock in between, so that one of the two takes the timeout out.
 */
#include "base/log.h"
#include "base/time.h"
#include "rpc/channel.h"

enum { SLOWEST = 4096 };
#define HALF_CLOSED_NS SPN_SEC(180)

bool spn__is_heartbeat(const struct spn__frame *frame, const unsigned char *body)
{
    return spn__frame_is_event(frame) &&
           (frame->length == 0 || (frame->length == 1 && body[0] == 'N'));
}

static int received(struct spn__handler *handler, struct spn__channel *channel,
                    struct spn__message *message)
{
    const struct spn__frame *frame = &message->frame;

    if (!spn__is_heartbeat(frame, message->body))
        return spn__handler_received(handler->inner, channel, message);
    if (spn__frame_is_request(frame) && spn__frame_is_two_way(frame)) {
        (void)spn__channel_send_event(channel, 0, SPN__STATUS_OK, frame->id, NULL);
        spn__count(&channel->endpoint->counts, SPN__COUNT_HEARTBEATS, 1);
    }
    message->release(message);
    return 0;
}

const struct spn__handler_ops spn__heartbeat_ops = { .received = received };

/* ---- silent peers ---------------------------------------------------------------- */

/* How long until an unfinished frame is late, not above 0 if it is; where there is none, until
 * the next look: one that begins now is not late before that. */
static int64_t frame_left(struct spn__channel *channel, int64_t now)
{
    const int64_t limit = channel->endpoint->frame_ns;
    /* acquire, both [frame]: the number is not older than the time, and not of a frame that
     * began later, unless the time has changed. */
    const int64_t since = spn__load(&channel->frame_since_ns, acquire);
    const uint64_t from = spn__load(&channel->frame_from, acquire);
    int64_t begin = since, allowed;

    if (limit <= 0)
        return INT64_MAX;
    if (spn__load(&channel->paused, relaxed) != 0) /* a hint: looked at again */
        channel->unpaused_ns = now;
    if (since == 0 || spn__load(&channel->frame_since_ns, relaxed) != since)
        return limit / 2 > 0 ? limit / 2 : 1;
    if (begin < channel->unpaused_ns)
        begin = channel->unpaused_ns;
    allowed =
        spn__time_add(limit, (int64_t)((spn__conn_received(channel->conn) - from) *
                                       (uint64_t)SPN_SEC(1) / SLOWEST));
    return spn__time_add(begin, allowed) - now;
}

static void close_late(struct spn__channel *channel)
{
    struct spn__endpoint *endpoint = channel->endpoint;

    spn__count(&endpoint->counts, SPN__COUNT_FRAMES_LATE, 1);
    spn__log_limited(SPN_LOG_WARN, SPN_SEC(10),
                     "rpc: %s closed: it began a frame and did not bring the rest; "
                     "frame.timeout=%lld ms, and %d bytes a second",
                     spn__conn_remote(channel->conn),
                     (long long)(endpoint->frame_ns / SPN_MS(1)), SLOWEST);
    spn__conn_close(channel->conn, SPN_ETIMEDOUT);
}

int64_t spn__channel_close_after(struct spn__channel *channel)
{
    /* relaxed, both: a setting, and a change counts from the next look on; a hint. */
    const int64_t close = spn__load(&channel->endpoint->close_ns, relaxed);

    if (close <= 0 && (spn__load(&channel->state, relaxed) & SPN__CHANNEL_HALF) != 0)
        return HALF_CLOSED_NS;
    return close;
}

/* How long until the next look; 0: never again. */
static int64_t look(struct spn__channel *channel)
{
    struct spn__endpoint *endpoint = channel->endpoint;
    /* relaxed: a setting; a change counts from the next look on. */
    const int64_t heartbeat = spn__load(&endpoint->heartbeat_ns, relaxed);
    const int64_t close = spn__channel_close_after(channel);
    const int64_t read = spn__conn_last_read_ns(channel->conn);
    const int64_t wrote = spn__conn_last_write_ns(channel->conn);
    const int64_t now = spn__now();
    const int64_t frame = frame_left(channel, now);
    int64_t silent = now - read, next;

    if (!endpoint->is_client && now - wrote < silent)
        silent = now - wrote;
    if (close <= 0 && (heartbeat <= 0 || !endpoint->is_client) && frame == INT64_MAX)
        return 0;
    if (frame <= 0) {
        close_late(channel);
        return 0;
    }
    if (close > 0 && silent >= close) {
        spn__count(&endpoint->counts, SPN__COUNT_IDLE_CLOSED, 1);
        spn__conn_close(channel->conn, SPN_ETIMEDOUT);
        return 0;
    }
    next = close > 0 && close - silent < frame ? close - silent : frame;
    if (endpoint->is_client && heartbeat > 0) {
        /* One question for each interval, until something comes. */
        const int64_t asked = now - wrote;

        if (silent >= heartbeat && asked >= heartbeat)
            (void)spn__channel_send_event(channel,
                                          SPN__FRAME_REQUEST | SPN__FRAME_TWO_WAY, 0,
                                          (int64_t)spn__random(), NULL);
        else if (heartbeat - (silent < asked ? silent : asked) < next)
            next = heartbeat - (silent < asked ? silent : asked);
        if (heartbeat < next)
            next = heartbeat;
    }
    return next > 0 ? next : 1;
}

/* [idle] A cancel that came while the callback ran was of no use to what that has
 * scheduled: it shows in `closed`, since both took the timer's lock. */
static void unless_closed(struct spn__channel *channel)
{
    spn_timer *timer = channel->endpoint->timer;

    /* [idle] mutant: the timer's lock orders as much */
    if ((spn__load(&channel->state, acquire) & SPN__CHANNEL_CLOSED) != 0 &&
        spn_timer_cancel(timer, &channel->idle) == SPN_TIMEOUT_REMOVED)
        spn__channel_drop(channel);
}

static int on_idle(spn_timeout *timeout)
{
    struct spn__channel *channel =
        (struct spn__channel *)((char *)timeout - offsetof(struct spn__channel, idle));
    int64_t next = 0;

    spn__channel_hold(channel); /* stop may drop the other one at any moment */
    /* [idle] acquire: closed from the I/O thread.  mutant: only saves a look */
    if ((spn__load(&channel->state, acquire) & SPN__CHANNEL_CLOSED) == 0)
        next = look(channel);
    if (next == 0 || spn_timer_schedule(channel->endpoint->timer, &channel->idle,
                                        on_idle, next) != SPN_OK)
        spn__channel_drop(channel);
    else
        unless_closed(channel);
    spn__channel_drop(channel);
    return 0;
}

void spn__idle_start(struct spn__channel *channel)
{
    struct spn__endpoint *endpoint = channel->endpoint;
    int64_t first;

    if (endpoint->timer == NULL || (first = look(channel)) == 0)
        return;
    spn__channel_hold(channel);
    if (spn_timer_schedule(endpoint->timer, &channel->idle, on_idle, first) != SPN_OK)
        spn__channel_drop(channel);
}

void spn__idle_stop(struct spn__channel *channel)
{
    struct spn__endpoint *endpoint = channel->endpoint;

    /* [idle] before the cancel.  mutant: the timer's lock orders as much */
    (void)spn__fetch_or(&channel->state, SPN__CHANNEL_CLOSED, release);
    if (endpoint->timer != NULL &&
        spn_timer_cancel(endpoint->timer, &channel->idle) == SPN_TIMEOUT_REMOVED)
        spn__channel_drop(channel);
}
