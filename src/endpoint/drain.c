/* SPDX-License-Identifier: MIT */
/*
 * drain.c - the end of an endpoint's connections, without losing what was taken.
 *
 * OVERVIEW
 *   Each connection ends by itself, in three steps.  A client has sent requests before it
 *   learns that it should not: they are taken until none came for SETTLE_NS.  A client that
 *   goes on is not waited for longer than INSISTS_NS.  Then the stream is made deaf, on its
 *   I/O thread, so that the requests in flight are all that were taken.  When these are
 *   over the connection ends, as slowly as its client reads, until the deadline.  So
 *   whatever was taken is answered, and what was not is left unanswered by a stream that
 *   ends in order.  A connection that is not that far at the deadline is reset.
 *
 *   Where Dubbo's clients are not asked to send no more, there is nothing to settle: a stream
 *   is made deaf when nothing is in flight.  The streams of a program's protocol are made deaf
 *   at once: stop cannot ask their clients, and a client that goes on would hold stop up.
 *
 *   All this is looked at now and then: a request that told us when it ends would pay for
 *   that every time.
 */
#include "endpoint/drain.h"

#include "base/time.h"
#include "sync/pause.h"

#define SETTLE_NS  SPN_MS(20)
#define INSISTS_NS SPN_SEC(1)
#define EVENTS_NS  SPN_SEC(1) /* for handlers of events, beyond the deadline */

/* What stop knows while it looks at connections. */
struct draining {
    enum spn__drain_takes takes;
    int64_t now_ns, deadline_ns;
    int64_t insists_ns; /* from then on a new request is one too many */
    bool is_late;       /* the deadline has passed */
    int left;           /* channels that were not ended */
};

/* Whether no more of its requests are taken: it is idle, or its client goes on. */
static bool has_settled(const struct draining *d, struct spn__stream *stream)
{
    struct spn__drain *drain = &stream->drain;
    /* relaxed, both: hints, since the channel becomes deaf after the look. */
    const uint64_t requests = spn__load(&stream->requests, relaxed);
    const bool is_new = !drain->begun || requests != drain->requests;

    if (d->takes == SPN__DRAIN_TAKES_NONE)
        return true;
    if (is_new) {
        drain->requests = requests;
        drain->since_ns = d->now_ns;
    }
    if (!drain->begun) {
        drain->begun = true;
        return d->is_late || (d->takes == SPN__DRAIN_UNTIL_IDLE &&
                              spn__stream_in_flight(stream) == 0);
    }
    if (d->is_late)
        return true;
    if (is_new)
        return d->now_ns >= d->insists_ns;
    return spn__stream_in_flight(stream) == 0 &&
           spn__load(&stream->paused, relaxed) == 0 &&
           (d->takes == SPN__DRAIN_UNTIL_IDLE ||
            d->now_ns - drain->since_ns >= SETTLE_NS);
}

static void drain_stream(void *ctx, struct spn__stream *stream)
{
    struct draining *d = ctx;
    struct spn__drain *drain = &stream->drain;

    if (!drain->asked && has_settled(d, stream)) {
        drain->asked = true;
        spn__stream_deafen(stream);
    }
    /* In this order [deaf]. */
    if ((!drain->ended || drain->end_by_ns != d->deadline_ns) &&
        spn__stream_is_deaf(stream) && spn__stream_in_flight(stream) == 0) {
        spn__conn_end_by(stream->conn, d->deadline_ns);
        drain->ended = true;
        drain->end_by_ns = d->deadline_ns;
    }
    d->left += !drain->ended;
}

/* At the deadline those that are idle are ended, which takes the I/O threads a moment. */
static bool end_streams(struct spn__endpoint *endpoint, int64_t deadline_ns,
                        enum spn__drain_takes takes)
{
    struct draining d = { .takes = takes, .deadline_ns = deadline_ns };
    int64_t pause_ns = 0;

    d.insists_ns = spn__time_add(spn__now(), INSISTS_NS);
    for (;;) {
        int64_t left_ns;

        d.now_ns = spn__now();
        d.is_late = d.now_ns >= deadline_ns;
        d.left = 0;
        spn__endpoint_each(endpoint, drain_stream, &d);
        /* relaxed: only a number */
        if (spn__load(&endpoint->open, relaxed) <= 0 &&
            spn__endpoint_in_flight(endpoint) == 0)
            return true;
        if (d.is_late && (d.left == 0 || spn__endpoint_in_flight(endpoint) > 0 ||
                          d.now_ns >= spn__time_add(deadline_ns, EVENTS_NS)))
            return d.left == 0;
        left_ns = d.is_late ? INT64_MAX : deadline_ns - d.now_ns;
        spn__pause_longer(&pause_ns, left_ns);
    }
}

static void cancel_stream(void *ctx, struct spn__stream *stream)
{
    (void)ctx;
    spn__stream_cancel(stream, SPN_ESHUTDOWN);
}

bool spn__drain_streams(struct spn__endpoint *endpoint, int64_t deadline_ns,
                        enum spn__drain_takes takes)
{
    const bool is_quiet = end_streams(endpoint, deadline_ns, takes);

    if (!is_quiet) /* methods that ask for their token end soon */
        spn__endpoint_each(endpoint, cancel_stream, NULL);
    return is_quiet;
}

/* Its requests are not over: their client is not to take that for requests which were not
 * taken. */
static void cut_off_stream(void *ctx, struct spn__stream *stream)
{
    (void)ctx;
    if (spn__stream_in_flight(stream) > 0)
        spn__conn_reset(stream->conn, SPN_ETIMEDOUT);
}

void spn__drain_cut_off(struct spn__endpoint *endpoint)
{
    spn__endpoint_each(endpoint, cut_off_stream, NULL);
}

/* Waits until `see` clears its flag for no stream, a moment beyond the deadline at most. */
static bool await_all(struct spn__endpoint *endpoint, int64_t deadline_ns,
                      void (*see)(void *is_all, struct spn__stream *stream))
{
    int64_t pause_ns = 0;

    for (;;) {
        bool is_all = true;

        spn__endpoint_each(endpoint, see, &is_all);
        if (is_all || spn__now() >= spn__time_add(deadline_ns, EVENTS_NS))
            return is_all;
        spn__pause_longer(&pause_ns, INT64_MAX);
    }
}

static void see_deaf(void *is_all, struct spn__stream *stream)
{
    if (!spn__stream_is_deaf(stream))
        *(bool *)is_all = false;
}

bool spn__drain_await_deaf(struct spn__endpoint *endpoint, int64_t deadline_ns)
{
    return await_all(endpoint, deadline_ns, see_deaf);
}

static void close_stream(void *ctx, struct spn__stream *stream)
{
    (void)ctx;
    spn__conn_close(stream->conn, SPN_ETIMEDOUT); /* what is left has had its time */
}

static void see_told(void *is_all, struct spn__stream *stream)
{
    /* relaxed: a hint; stop joins the thread that has told. */
    if ((spn__load(&stream->state, relaxed) & SPN__STREAM_TOLD) == 0)
        *(bool *)is_all = false;
}

bool spn__drain_close(struct spn__endpoint *endpoint, int64_t deadline_ns)
{
    spn__endpoint_each(endpoint, close_stream, NULL);
    return await_all(endpoint, deadline_ns, see_told);
}

/* Events that run or wait, and messages; not the program's references. */
static void count_holders(void *ctx, struct spn__stream *stream)
{
    /* relaxed, both: a hint, looked at again; in this order there are never too few.  One
     * holder is spn__endpoint_each. */
    const uint32_t refs = spn__load(&stream->channel.refs, relaxed);

    *(uint64_t *)ctx += spn__load(&stream->channel.holds, relaxed) - 1 - refs;
}

bool spn__drain_await_handlers(struct spn__endpoint *endpoint, int64_t deadline_ns)
{
    int64_t pause_ns = 0;

    for (;;) {
        uint64_t holders = 0;

        spn__endpoint_each(endpoint, count_holders, &holders);
        if (holders == 0)
            return true;
        if (spn__endpoint_in_flight(endpoint) > 0 ||
            spn__now() >= spn__time_add(deadline_ns, EVENTS_NS))
            return false;
        spn__pause_longer(&pause_ns, INT64_MAX);
    }
}

static void see_loop(void *ctx, struct spn__stream *stream)
{
    if (spn__conn_on_loop(stream->conn))
        *(bool *)ctx = true;
}

bool spn__drain_is_inside(struct spn__endpoint *endpoint)
{
    bool is_inside = false;

    spn__endpoint_each(endpoint, see_loop, &is_inside);
    return is_inside;
}
