/* SPDX-License-Identifier: MIT */
/*
 * uv_conn.c - a connection's life on its loop: opened, read, ended, closed.
 *
 * OVERVIEW
 *   Everything that may change (bytes to write, the socket full or no longer, paused,
 *   ended, closed) is noted under the lock, and spn__conn_attend looks at all of it
 *   and does what is due.  Other threads have it called through the loop's inbox; on
 *   the loop it follows every event.  So there is one place where a connection's state
 *   becomes what libuv is told.
 *
 * READING
 *   Into the loop's buffer, and what came is offered where it lies.  What is not used
 *   is copied to the connection's own buffer, and from then on is read behind it until
 *   all is used: a peer that sends byte by byte costs a read for each, not a copy.  The
 *   buffer grows with what comes, by doubling, and never to what was only announced.  Where
 *   it may not grow, the layer above is told (`crowded`), which does without those bytes.
 *   Bytes that were not used because of a pause are `held`: spn__conn_attend offers them again
 *   before anything else is read, so that the peer's end does not overtake them.
 *
 * ENDING
 *   The sending side is shut when all is written; then what the peer still sends is
 *   thrown away until it ends too.  To close at once would make the system answer
 *   unread bytes with a reset, which can destroy what the peer has not yet read of ours.
 *   When the peer has ended its side first, the layer above may still have something to
 *   say: then the socket is not polled for reading, since it would be readable for ever, and
 *   the rest follows when that layer ends the connection.
 *   With a deadline (spn__conn_end_by) the connection also stays until the peer has
 *   acknowledged all: what the system still has of a closed connection is gone when a
 *   container ends with its program.
 *
 * REFERENCES
 *   [ref] a reference is dropped with release, and whoever drops the last one takes an
 *   acquire on top: all that others did with the connection happens before it is freed.
 *   [data] the word of the layer above is stored with release and loaded with acquire.
 */
#include "net/uv_net.h"

#include <errno.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/time.h"

enum {
    READ_LEAST = 4096, /* room behind what is kept */
    READ_MANY = 16     /* connections ready in a turn: each further one reads less */
};

static void on_poll(uv_poll_t *handle, int status, int events);

/* ---- made, counted, freed ------------------------------------------------------- */

struct spn__conn *spn__conn_create(struct spn__transport *transport,
                                   struct spn__loop *loop,
                                   const struct spn__conn_events *events, void *context,
                                   void *data)
{
    struct spn__conn *const conn = spn__alloc(sizeof *conn);

    if (conn == NULL)
        return NULL;
    memset(conn, 0, sizeof *conn);
    spn__init(&conn->refs, 1u); /* the transport's */
    conn->transport = transport;
    spn__init(&conn->loop, loop);
    conn->events = events;
    conn->context = context;
    spn__init(&conn->data, data);
    spn__init(&conn->is_open, 0u);
    spn__init(&conn->pauses, 0);
    spn__init(&conn->pause_calls, 0u);
    conn->fd = -1;
    spn__lock_init(&conn->lock);
    conn->phase = SPN__CONNECTING;
    spn__init(&conn->position, (uint64_t)0);
    spn__init(&conn->written, (uint64_t)0);
    spn__init(&conn->received, (uint64_t)0);
    spn__init(&conn->last_read_ns, spn__now());
    spn__init(&conn->last_write_ns, spn__load(&conn->last_read_ns, relaxed));
    spn__init(&conn->splits, NULL);
    conn->front.budget = conn->back.budget = conn->in.budget = transport->opts.budget;
    spn__fetch_add(&transport->conns, (int64_t)1, relaxed); /* see destroy */
    return conn;
}

void spn__conn_drop(struct spn__conn *conn)
{
    struct spn__transport *const transport = conn->transport;

    if (conn->fd >= 0)
        (void)close(conn->fd);
    spn__bytes_fini(&conn->front);
    spn__bytes_fini(&conn->back);
    spn__bytes_fini(&conn->in);
    spn__free(conn->addresses);
    spn__splits_fini(conn);
    spn__free(conn);
    spn__fetch_sub(&transport->conns, (int64_t)1, release); /* [ref], for destroy */
}

void spn__conn_ref(struct spn__conn *conn)
{
    spn__fetch_add(&conn->refs, 1u, relaxed); /* relaxed: the caller has one */
}

void spn__conn_unref(struct spn__conn *conn)
{
    if (spn__fetch_sub(&conn->refs, 1u, release) != 1) /* [ref] */
        return;
    (void)spn__load(&conn->refs, acquire); /* [ref] */
    spn__conn_drop(conn);
}

/* ---- the end ---------------------------------------------------------------------- */

bool spn__conn_list_locked(struct spn__conn *conn)
{
    if (conn->listed || conn->phase == SPN__CLOSED)
        return false;
    conn->listed = true;
    return true;
}

bool spn__conn_close_locked(struct spn__conn *conn, int why)
{
    if (conn->phase >= SPN__CLOSING)
        return false;
    conn->phase = SPN__CLOSING;
    conn->why = why;
    spn__store(&conn->is_open, 0u, relaxed); /* a hint; send decides by the phase */
    return spn__conn_list_locked(conn);
}

void spn__conn_close(struct spn__conn *conn, int why)
{
    bool ask;

    spn__lock(&conn->lock);
    ask = spn__conn_close_locked(conn, why);
    spn__unlock(&conn->lock);
    if (ask)
        spn__loop_ask(spn__conn_loop(conn), conn);
}

void spn__conn_reset(struct spn__conn *conn, int why)
{
    spn__lock(&conn->lock);
    if (conn->phase < SPN__CLOSING)
        conn->resets = true;
    spn__unlock(&conn->lock);
    spn__conn_close(conn, why);
}

void spn__conn_end(struct spn__conn *conn)
{
    bool ask = false;

    spn__lock(&conn->lock);
    if (conn->phase == SPN__CONNECTING) {
        ask = spn__conn_close_locked(conn, SPN_ECLOSED);
    } else if (conn->phase == SPN__OPEN) {
        conn->phase = SPN__ENDING;
        spn__store(&conn->is_open, 0u, relaxed); /* a hint */
        ask = spn__conn_list_locked(conn);
    }
    spn__unlock(&conn->lock);
    if (ask)
        spn__loop_ask(spn__conn_loop(conn), conn);
}

void spn__conn_end_by(struct spn__conn *conn, int64_t deadline_ns)
{
    bool ask = false;

    spn__conn_end(conn);
    spn__lock(&conn->lock);
    if (conn->phase == SPN__ENDING) {
        conn->end_by_ns = deadline_ns != 0 ? deadline_ns : 1;
        ask = spn__conn_list_locked(conn);
    }
    spn__unlock(&conn->lock);
    if (ask)
        spn__loop_ask(spn__conn_loop(conn), conn);
}

/* Bytes that the peer has not acknowledged; our end of the stream counts as one of them. */
static size_t unacknowledged(const struct spn__conn *conn)
{
    int bytes = 0;

    if (!conn->shut || ioctl(conn->fd, SIOCOUTQ, &bytes) != 0 || bytes <= 1)
        return 0;
    return (size_t)bytes - 1;
}

/* libuv has given all handles back. */
static void finish(struct spn__conn *conn)
{
    struct spn__transport *const transport = conn->transport;

    /* relaxed, all: numbers. */
    if (conn->accepted) {
        spn__fetch_sub(&transport->accepted_now, (int64_t)1, relaxed);
        spn__fetch_sub(&spn__conn_loop(conn)->share, 1, relaxed);
    }
    if (conn->opened)
        spn__fetch_sub(&transport->open, (int64_t)1, relaxed);
    conn->events->closed(conn->context, conn, conn->why);
    spn__conn_loop(conn)->live--;
    spn__conn_unref(conn); /* the transport's */
}

static void handle_closed(uv_handle_t *handle)
{
    struct spn__conn *const conn = handle->data;

    if (--conn->handles == 0)
        finish(conn);
}

void spn__conn_closed_meanwhile(struct spn__conn *conn)
{
    bool closed;

    spn__lock(&conn->lock);
    closed = conn->phase == SPN__CLOSED;
    spn__unlock(&conn->lock);
    if (closed && conn->handles == 0)
        finish(conn);
}

static void close_socket(struct spn__conn *conn, bool resets)
{
    const struct linger at_once = { 1, 0 };

    if (conn->timed_by_ns != 0 && spn__now() >= conn->deadline_ns)
        conn->unacknowledged = unacknowledged(conn);
    if (resets) /* or it ends in order, no worse than without */
        (void)setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    (void)close(conn->fd); /* libuv has forgotten it, uv_close sees to that */
}

/* Phase CLOSING, and nobody writes. */
static void close_now(struct spn__conn *conn)
{
    bool resets;

    spn__lock(&conn->lock);
    conn->phase = SPN__CLOSED; /* nobody lists it from here on */
    resets =
        conn->resets || (conn->end_by_ns != 0 && !spn__conn_all_written_locked(conn));
    spn__unlock(&conn->lock);
    spn__list_remove(&conn->link);
    if (conn->has_poll) {
        conn->has_poll = false;
        uv_close((uv_handle_t *)&conn->poll, handle_closed);
    }
    if (conn->has_timer) {
        conn->has_timer = false;
        uv_close((uv_handle_t *)&conn->timer, handle_closed);
    }
    if (conn->fd >= 0)
        close_socket(conn, resets);
    conn->fd = -1;
    spn__bytes_fini(&conn->front);
    spn__bytes_fini(&conn->back);
    spn__bytes_fini(&conn->in);
    if (conn->handles == 0)
        finish(conn);
}

/* ---- what libuv is told --------------------------------------------------------------- */

int spn__conn_poll(struct spn__conn *conn, unsigned events, uv_poll_cb callback)
{
    int rc;

    if (!conn->has_poll) {
        rc = uv_poll_init_socket(&spn__conn_loop(conn)->uv, &conn->poll, conn->fd);
        if (rc != 0)
            return rc == UV_ENOMEM ? SPN_ENOMEM : SPN_EIO;
        conn->poll.data = conn;
        conn->has_poll = true;
        conn->handles++;
        conn->interest = 0;
    }
    if (events == conn->interest)
        return SPN_OK;
    conn->interest = events;
    rc = events == 0 ? uv_poll_stop(&conn->poll)
                     : uv_poll_start(&conn->poll, (int)events, callback);
    spn__assert(rc == 0); /* neither can fail on a handle that is not closing */
    return SPN_OK;
}

/* Gives the peer linger_ns to end its side, but not beyond the latest; 0: there is none. */
static void linger(struct spn__conn *conn, int64_t latest_ns)
{
    const int64_t deadline = spn__deadline(spn__now(), conn->transport->opts.linger_ns);

    spn__conn_start_timer(conn, latest_ns != 0 && latest_ns < deadline ? latest_ns
                                                                       : deadline);
}

static void on_timer(uv_timer_t *handle)
{
    struct spn__conn *const conn = handle->data;
    const int64_t now = spn__now();
    bool ending;

    if (now < conn->deadline_ns) { /* libuv counts in milliseconds */
        spn__conn_start_timer(conn, conn->deadline_ns);
        return;
    }
    if (now < conn->timed_by_ns && unacknowledged(conn) > 0) {
        linger(conn, conn->timed_by_ns);
        return;
    }
    spn__lock(&conn->lock);
    ending = conn->phase == SPN__ENDING && spn__conn_all_written_locked(conn);
    spn__unlock(&conn->lock);
    spn__conn_close(conn, ending && unacknowledged(conn) == 0 ? 0 : SPN_ETIMEDOUT);
}

void spn__conn_start_timer(struct spn__conn *conn, int64_t deadline_ns)
{
    const int64_t left_ns = deadline_ns - spn__now();
    const uint64_t ms = left_ns <= 0 ? 0 : (uint64_t)left_ns / 1000000 + 1;

    if (!conn->has_timer) {
        (void)uv_timer_init(&spn__conn_loop(conn)->uv, &conn->timer); /* cannot fail */
        conn->timer.data = conn;
        conn->has_timer = true;
        conn->handles++;
    }
    conn->deadline_ns = deadline_ns;
    uv_update_time(&spn__conn_loop(conn)->uv);
    (void)uv_timer_start(&conn->timer, on_timer, ms, 0); /* nor this */
}

/* ---- reading ------------------------------------------------------------------------------ */

static bool is_reading(struct spn__conn *conn)
{
    bool open;

    spn__lock(&conn->lock);
    open = conn->phase == SPN__OPEN;
    spn__unlock(&conn->lock);
    /* relaxed: who pauses from elsewhere also asks the loop to look. */
    return open && spn__load(&conn->pauses, relaxed) == 0;
}

/* There is no memory to keep that, which is all that has not been used. */
static void crowd_out(struct spn__conn *conn, const unsigned char *data, size_t size)
{
    int64_t used = SPN_ENOMEM;

    conn->want = 0;
    if (conn->events->crowded != NULL) {
        spn__conn_gather_begin(conn);
        used = conn->events->crowded(conn->context, conn, data, size);
        spn__conn_gather_end(conn);
    }
    if (used < 0)
        spn__conn_close(conn, (int)used);
    else
        spn__assert((uint64_t)used == size);
}

/* Offers what lies at data, in the loop's buffer or in the connection's own. */
static void offer(struct spn__conn *conn, const unsigned char *data, size_t size,
                  bool own)
{
    /* relaxed: see is_reading. */
    const uint32_t before = spn__load(&conn->pause_calls, relaxed);
    struct spn__piece rest;
    int64_t used = 0;

    if (size >= conn->want) {
        conn->want = 0;
        spn__conn_gather_begin(conn);
        used = conn->events->bytes(conn->context, conn, data, size);
        spn__conn_gather_end(conn);
    }
    if (used < 0) {
        spn__conn_close(conn, (int)used);
        return;
    }
    spn__assert((uint64_t)used <= size);
    rest = (struct spn__piece){ data + used, size - (size_t)used };
    /* Whole messages that a paused layer above does not take yet.  Somebody may have resumed
     * already what was paused in the event, or what the layer found paused: its attendance is
     * on its way and must find this.  relaxed: as before. */
    conn->held = rest.size != 0 && ((conn->want != 0 && rest.size >= conn->want) ||
                                    spn__load(&conn->pauses, relaxed) != 0 ||
                                    spn__load(&conn->pause_calls, relaxed) != before);
    if (own) {
        spn__bytes_take(&conn->in, (size_t)used);
    } else if (rest.size != 0 &&
               !spn__bytes_append(&conn->in, &rest, 1,
                                  conn->held ? SPN__SHARE_ALWAYS : SPN__SHARE_FRAMES)) {
        conn->held = false;
        crowd_out(conn, rest.data, rest.size);
    }
}

/* How much to read: the more have something to read in this turn, the longer the others wait
 * for theirs.  While the budget is pressed it is what a run of bytes keeps uncounted: messages
 * that were read and must wait, because the layer above has paused, then cost the budget
 * nothing. */
static size_t read_most(struct spn__conn *conn)
{
    if (spn__budget_is_pressed(conn->in.budget))
        return SPN__BYTES_KEPT;
    return spn__conn_loop(conn)->visits > READ_MANY ? SPN__LOOP_IN / 4 : SPN__LOOP_IN;
}

/* Where to read to. */
static unsigned char *room_for(struct spn__conn *conn, size_t *room)
{
    size_t missing = READ_LEAST; /* of what is wanted */

    if (conn->in.size == 0) {
        *room = read_most(conn);
        return spn__conn_loop(conn)->in;
    }
    if (conn->want > conn->in.size)
        missing = conn->want - conn->in.size;
    if (spn__bytes_room(&conn->in) < (missing < READ_LEAST ? missing : READ_LEAST)) {
        size_t more = missing > READ_LEAST ? missing : READ_LEAST;

        if (more > conn->in.size + READ_LEAST) /* not before half of it is there */
            more = conn->in.size + READ_LEAST;
        if (!spn__bytes_reserve(&conn->in, more, SPN__SHARE_FRAMES))
            return NULL;
    }
    *room = spn__bytes_room(&conn->in);
    if (*room > read_most(conn))
        *room = read_most(conn);
    return spn__bytes_end(&conn->in);
}

static ssize_t get(struct spn__conn *conn, unsigned char *to, size_t room)
{
    ssize_t n;

    do
        n = recv(conn->fd, to, room, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n > 0) {
        /* relaxed, all: numbers. */
        spn__fetch_add(&spn__conn_loop(conn)->bytes_read, (uint64_t)n, relaxed);
        spn__store(&conn->last_read_ns, spn__loop_now(spn__conn_loop(conn)), relaxed);
        spn__store(&conn->received, spn__load(&conn->received, relaxed) + (uint64_t)n,
                   relaxed);
    }
    return n;
}

/* The peer has ended its side. */
static void peer_ended(struct spn__conn *conn)
{
    conn->eof = true;
    if (conn->events->peer_ended == NULL ||
        !conn->events->peer_ended(conn->context, conn))
        spn__conn_end(conn);
}

/* One buffer; then others have their turn, however much there is: a hundred peers with large
 * frames would hold up everybody else for as long as four buffers of each take. */
static void read_once(struct spn__conn *conn)
{
    const bool own = conn->in.size != 0;
    unsigned char *to;
    size_t room;
    ssize_t n;

    to = room_for(conn, &room);
    if (to == NULL) {
        crowd_out(conn, spn__bytes_first(&conn->in), conn->in.size);
        spn__bytes_fini(&conn->in);
        return; /* what comes now goes to the loop's buffer */
    }
    n = get(conn, to, room);
    if (n == 0) {
        peer_ended(conn);
        return;
    }
    if (n < 0) {
        if (errno != EAGAIN && errno != EWOULDBLOCK)
            spn__conn_close(conn, spn__net_status(errno));
        return;
    }
    if (own) {
        conn->in.size += (size_t)n;
        offer(conn, spn__bytes_first(&conn->in), conn->in.size, true);
    } else {
        offer(conn, to, (size_t)n, false);
    }
}

static void throw_away(struct spn__conn *conn)
{
    const ssize_t n = get(conn, spn__conn_loop(conn)->in, SPN__LOOP_IN);

    if (n == 0)
        conn->eof = true;
    else if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
        spn__conn_close(conn, conn->shut ? 0 : spn__net_status(errno));
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
    struct spn__conn *const conn = handle->data;
    struct spn__loop *const loop = spn__conn_loop(conn);
    bool ending, drain = false;

    spn__spread_visit(loop);
    if (status < 0) /* libuv has stopped polling; a read tells what is wrong */
        conn->interest = 0;
    spn__lock(&conn->lock);
    ending = conn->phase == SPN__ENDING;
    if (events & UV_WRITABLE || status < 0) {
        conn->blocked = false;
        drain = spn__conn_claim_locked(conn);
    }
    spn__unlock(&conn->lock);
    if (drain)
        spn__conn_drain(conn, true);
    if (events & UV_READABLE || status < 0) {
        if (ending)
            throw_away(conn);
        else if (is_reading(conn) && !conn->held) /* see READING */
            read_once(conn);
    }
    spn__conn_attend(conn);
    if (loop->give != 0)
        spn__spread_give(conn);
}

/* ---- looking after it ----------------------------------------------------------------------- */

void spn__conn_unlist(struct spn__conn *conn)
{
    spn__lock(&conn->lock);
    conn->listed = false;
    spn__unlock(&conn->lock);
}

void spn__conn_enlist(struct spn__conn *conn)
{
    spn__list_push_back(&spn__conn_loop(conn)->conns, &conn->link);
    spn__conn_loop(conn)->live++;
    if (spn__conn_loop(conn)->stopping)
        spn__conn_close(conn, SPN_ECLOSED);
}

void spn__conn_established(struct spn__conn *conn)
{
    struct spn__transport *const transport = conn->transport;
    bool stands;
    int rc;

    if (conn->has_timer)
        (void)uv_timer_stop(&conn->timer); /* of the attempt */
    spn__net_name_ends(conn);
    /* relaxed, all: numbers. */
    spn__store(&conn->last_read_ns, spn__now(), relaxed);
    spn__store(&conn->last_write_ns, spn__load(&conn->last_read_ns, relaxed), relaxed);
    spn__lock(&conn->lock);
    stands = conn->phase == SPN__CONNECTING;
    if (stands) {
        conn->phase = SPN__OPEN;
        spn__store(&conn->is_open, 1u, relaxed); /* a hint */
    }
    spn__unlock(&conn->lock);
    if (stands) {
        conn->opened = true;
        spn__fetch_add(&transport->open, (int64_t)1, relaxed);
        rc = conn->events->opened(conn->context, conn);
        if (rc != 0)
            spn__conn_close(conn, rc < 0 ? rc : SPN_EFAILED);
    }
    spn__conn_attend(conn);
}

/* What poll should wait for. */
static unsigned interest_locked(const struct spn__conn *conn)
{
    unsigned events = 0;

    /* relaxed: see is_reading. */
    if (!conn->eof &&
        (conn->phase != SPN__OPEN || spn__load(&conn->pauses, relaxed) == 0))
        events |= UV_READABLE;
    if (conn->blocked)
        events |= UV_WRITABLE;
    return events;
}

static void tell_written(struct spn__conn *conn)
{
    const uint64_t written = spn__conn_written(conn);

    if (written != conn->told) {
        conn->told = written;
        conn->events->written(conn->context, conn, written);
    }
}

/* With all written: nothing more comes from us, and once the peer has ended too, that
 * was it. */
static void end_now(struct spn__conn *conn)
{
    if (!conn->shut && !conn->eof)
        (void)shutdown(conn->fd, SHUT_WR); /* an error shows at the next read */
    conn->shut = true;
    if (conn->eof)
        spn__conn_close(conn, 0);
}

/* Sets the timer of an ending connection when something about its time has changed. */
static void time_end(struct spn__conn *conn, int64_t end_by_ns, bool all)
{
    const bool is_new = !conn->lingers || conn->timed_by_ns != end_by_ns;

    conn->lingers = true;
    conn->timed_by_ns = end_by_ns;
    if (end_by_ns != 0 && !all) {
        if (is_new)
            spn__conn_start_timer(conn, end_by_ns);
    } else if (is_new || (end_by_ns != 0 && !conn->shut)) {
        linger(conn, end_by_ns);
    }
}

void spn__conn_attend(struct spn__conn *conn)
{
    enum spn__conn_phase phase;
    bool drain, writing, all, tells;
    int64_t end_by_ns;
    unsigned interest;
    int rc;

    spn__lock(&conn->lock);
    drain = spn__conn_claim_locked(conn);
    spn__unlock(&conn->lock);
    if (drain)
        spn__conn_drain(conn, true);
    if (conn->held && is_reading(conn)) {
        conn->held = false;
        offer(conn, spn__bytes_first(&conn->in), conn->in.size, true);
    }

    spn__lock(&conn->lock);
    phase = conn->phase;
    writing = conn->writing;
    all = spn__conn_all_written_locked(conn);
    interest = interest_locked(conn);
    end_by_ns = conn->end_by_ns;
    /* [tell] after the drain above.  `closed` is the last event, though a thread that sent
     * before may ask only now: then the layer above may have freed its part. */
    tells = conn->tells > 0 && conn->phase != SPN__CLOSED;
    spn__unlock(&conn->lock);
    /* What the handler changes is looked at when the connection is attended to again. */
    if (tells && conn->opened && conn->events->written != NULL)
        tell_written(conn);
    switch (phase) {
    case SPN__ENDING:
        time_end(conn, end_by_ns, all);
        if (all)
            end_now(conn);
        /* fall through */
    case SPN__OPEN:
        rc = spn__conn_poll(conn, interest, on_poll);
        if (rc != SPN_OK)
            spn__conn_close(conn, rc);
        break;
    case SPN__CLOSING:
        if (!writing)
            close_now(conn);
        else if (conn->has_poll) /* he asks again when he is done */
            (void)spn__conn_poll(conn, 0, NULL);
        break;
    case SPN__CONNECTING:
    case SPN__CLOSED:
        break;
    }
}

/* ---- calls from anywhere ---------------------------------------------------------------------- */

void spn__conn_want(struct spn__conn *conn, size_t bytes)
{
    conn->want = bytes;
}

static void look_again(struct spn__conn *conn)
{
    bool ask;

    spn__lock(&conn->lock);
    ask = spn__conn_list_locked(conn);
    spn__unlock(&conn->lock);
    if (ask)
        spn__loop_ask(spn__conn_loop(conn), conn);
}

/* relaxed, both: the loop learns of it through its inbox, under locks. */
void spn__conn_pause(struct spn__conn *conn)
{
    spn__fetch_add(&conn->pause_calls, 1u, relaxed);
    if (spn__fetch_add(&conn->pauses, 1, relaxed) == 0)
        look_again(conn);
}

void spn__conn_resume(struct spn__conn *conn)
{
    const int32_t pauses = spn__fetch_sub(&conn->pauses, 1, relaxed);

    spn__assert(pauses > 0);
    if (pauses == 1)
        look_again(conn);
}

void *spn__conn_data(const struct spn__conn *conn)
{
    return spn__load(&conn->data, acquire); /* [data] */
}

void spn__conn_set_data(struct spn__conn *conn, void *data)
{
    spn__store(&conn->data, data, release); /* [data] */
}

/* relaxed, all: hints and numbers. */
bool spn__conn_is_open(const struct spn__conn *conn)
{
    return spn__load(&conn->is_open, relaxed) != 0;
}

const char *spn__conn_local(const struct spn__conn *conn)
{
    return conn->local;
}

const char *spn__conn_remote(const struct spn__conn *conn)
{
    return conn->remote;
}

size_t spn__conn_lost(const struct spn__conn *conn)
{
    return spn__conn_unwritten(conn) + conn->unacknowledged;
}

int64_t spn__conn_last_read_ns(const struct spn__conn *conn)
{
    return spn__load(&conn->last_read_ns, relaxed);
}

int64_t spn__conn_last_write_ns(const struct spn__conn *conn)
{
    return spn__load(&conn->last_write_ns, relaxed);
}

uint64_t spn__conn_received(const struct spn__conn *conn)
{
    return spn__load(&conn->received, relaxed);
}

bool spn__conn_on_loop(const struct spn__conn *conn)
{
    return spn__loop_is_mine(spn__conn_loop(conn));
}

int spn__conn_post(struct spn__conn *conn, struct spn__net_job *job)
{
    struct spn__loop *loop;

    spn__lock(&conn->lock);
    conn->pinned = true; /* or the job would find that it has gone */
    loop = spn__conn_loop(conn);
    spn__unlock(&conn->lock);
    return spn__loop_post(loop, job) ? SPN_OK : SPN_ESHUTDOWN;
}
