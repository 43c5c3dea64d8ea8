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
 * LIFE       the timeout holds its channel from start until the callback that does not
 *            schedule it again, or until stop took it out.
 *   [idle]   `closed` is set before stop cancels; a callback that has scheduled the timeout
 *            looks at it afterwards, holding the channel once more meanwhile.  Both took
 *            the timer's lock in between, so that one of the two takes the timeout out.
 */
#include "base/time.h"
#include "rpc/channel.h"

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

/* How long until the next look; 0: never again. */
static int64_t look(struct spn__channel *channel)
{
    struct spn__endpoint *endpoint = channel->endpoint;
    /* relaxed, both: settings; a change counts from the next look on. */
    const int64_t heartbeat = spn__load(&endpoint->heartbeat_ns, relaxed);
    const int64_t close = spn__load(&endpoint->close_ns, relaxed);
    const int64_t read = spn__conn_last_read_ns(channel->conn);
    const int64_t wrote = spn__conn_last_write_ns(channel->conn);
    const int64_t now = spn__now();
    int64_t silent = now - read, next;

    if (!endpoint->is_client && now - wrote < silent)
        silent = now - wrote;
    if (close <= 0 && (heartbeat <= 0 || !endpoint->is_client))
        return 0;
    if (close > 0 && silent >= close) {
        spn__count(&endpoint->counts, SPN__COUNT_IDLE_CLOSED, 1);
        spn__conn_close(channel->conn, SPN_ETIMEDOUT);
        return 0;
    }
    next = close > 0 ? close - silent : INT64_MAX;
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
