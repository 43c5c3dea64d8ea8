/* SPDX-License-Identifier: MIT */
/*
 * uv_write.c - a connection's outgoing stream.
 *
 * OVERVIEW
 *   At any time at most one thread writes the socket: the one that set `writing`,
 *   under the connection's lock.  Whoever comes meanwhile appends to `back` and goes
 *   away; the writer looks there, under the lock, before it lets go, so nothing
 *   stays behind and nobody is woken.  The socket is written without the lock.
 *
 *   front   what the writer is writing; handed on with `writing`
 *   back    what was taken meanwhile; becomes front in one exchange
 *
 *   A worker thread that finds nobody writing and nothing queued writes its pieces
 *   from where they are, without a copy; only what the socket did not take goes to
 *   front.  Then the connection is `blocked`: the loop polls the socket and goes on.
 *
 *   Where many workers answer one connection, each would pay for a system call of a few
 *   bytes: those who say so (SPN__SEND_SOON) leave their bytes to the loop, which is woken
 *   once and writes what has gathered by then.
 *
 *   On the loop, inside `bytes`, answers are gathered in the loop's own buffer and
 *   written once when the event returns: the loop claims `writing` with the first of
 *   them.  No connection keeps memory for that.
 *
 * POSITIONS   are given under the lock, in the order of the bytes.  When a message
 *   has been counted its bytes are in front, in back, in the gathering buffer or in
 *   the writer's hands.
 *
 * TELLING
 *   [tell]  `tells` is changed and looked at with the lock.  A writer that is not the loop
 *           looks when it lets go, and lists the connection; the loop looks after it has
 *           written itself.  So what is written after somebody asked is told.
 *
 * SPLIT MESSAGES, for tests of peers, are written in small pieces, and nothing else is: a
 *   list says where in the stream they are.
 *   [split]  the list is changed with the lock.  The writer looks without it whether there
 *            are any: it has taken the lock, or has added the message itself, after the
 *            message that it writes was added.
 *
 * A MESSAGE IS SENT WHOLE OR NOT AT ALL.  Once its first byte is out there is no
 *   way back: if there is no memory for the rest, the connection is closed with
 *   SPN_ENOMEM, and send has succeeded.  So the budget is asked before: a large message that
 *   is written from where it is takes its size, in case all of it has to be kept, and what is
 *   kept then is taken whatever the limit.
 */
#include "net/uv_net.h"

#include <errno.h>
#include <sys/uio.h>

enum {
    MAX_PIECES =
        15, /* written without a copy; the kernel takes more, nobody sends more */
    WORKER_TURNS = 8, /* a worker writes for others so many times, then the loop does */
    LOOP_TURNS = 32,  /* and the loop so many times, then others have their turn */
};

bool spn__conn_all_written_locked(const struct spn__conn *conn)
{
    return !conn->writing && conn->front.size == 0 && conn->back.size == 0;
}

bool spn__conn_claim_locked(struct spn__conn *conn)
{
    if (conn->writing || conn->blocked ||
        (conn->phase != SPN__OPEN && conn->phase != SPN__ENDING) ||
        conn->front.size + conn->back.size == 0)
        return false;
    conn->writing = true;
    return true;
}

/* ---- by the one who writes --------------------------------------------------- */

/* Bytes that the next write may have, where some message is split; gives up those that have
 * been written. */
static size_t split_room(struct spn__conn *conn)
{
    const uint64_t at = spn__load(&conn->written, relaxed); /* only we change it */
    struct spn__split *split, *done = NULL;
    size_t room = SIZE_MAX;

    spn__lock(&conn->lock);
    /* relaxed, both: under the lock [split]. */
    split = spn__load(&conn->splits, relaxed);
    while (split != NULL && split->end <= at) {
        struct spn__split *const next_one = split->next;

        split->next = done;
        done = split;
        split = next_one;
    }
    spn__store(&conn->splits, split, relaxed);
    if (split != NULL && at < split->start)
        room = (size_t)(split->start - at);
    else if (split != NULL)
        room =
            split->end - at < split->bytes ? (size_t)(split->end - at) : split->bytes;
    spn__unlock(&conn->lock);
    while (done != NULL) {
        split = done;
        done = split->next;
        spn__free(split);
    }
    return room;
}

void spn__splits_fini(struct spn__conn *conn)
{
    struct spn__split *split = spn__load(&conn->splits, relaxed); /* nobody else is */

    while (split != NULL) {
        struct spn__split *const next_one = split->next;

        spn__free(split);
        split = next_one;
    }
}

/* As much of a vector as there is room for. */
static size_t cut(struct iovec *to, const struct iovec *vector, size_t count,
                  size_t room)
{
    size_t used = 0;

    for (; used < count && room > 0; used++) {
        to[used] = vector[used];
        if (to[used].iov_len > room)
            to[used].iov_len = room;
        room -= to[used].iov_len;
    }
    return used;
}

/* Returns how many bytes went out: 0 when the socket is full; or a status. */
static int64_t put(struct spn__conn *conn, struct iovec *vector, size_t count)
{
    struct msghdr message = { .msg_iov = vector, .msg_iovlen = count };
    struct iovec little[MAX_PIECES + 1];
    ssize_t n;

    if (spn__load(&conn->splits, relaxed) != NULL) { /* [split] */
        message.msg_iovlen = cut(little, vector, count, split_room(conn));
        message.msg_iov = little;
    }
    do
        n = sendmsg(conn->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : spn__net_status(errno);
    /* relaxed: a number; who needs to know what is behind it asks with the lock. */
    spn__store(&conn->written, spn__load(&conn->written, relaxed) + (uint64_t)n,
               relaxed);
    spn__fetch_add(&conn->transport->bytes_written, (uint64_t)n, relaxed);
    return n;
}

static void note_time(struct spn__conn *conn, bool on_loop)
{
    /* relaxed: a number. */
    spn__store(&conn->last_write_ns,
               on_loop ? spn__loop_now(spn__conn_loop(conn)) : spn__now(), relaxed);
}

/* Lets go.  With why != 0 the connection is closed; with blocked the loop polls. */
static void let_go(struct spn__conn *conn, bool blocked, int why, bool on_loop)
{
    bool ask = false;

    spn__lock(&conn->lock);
    conn->writing = false;
    conn->blocked = blocked;
    if (why != 0)
        ask = spn__conn_close_locked(conn, why);
    /* The loop itself looks at all this when the writing is over. */
    if (!on_loop)
        ask = spn__conn_list_locked(conn) || ask;
    spn__unlock(&conn->lock);
    if (ask)
        spn__loop_ask(spn__conn_loop(conn), conn);
}

/* Gets more to write into front; false: there is none, and we have let go. */
static bool next(struct spn__conn *conn, bool on_loop)
{
    struct spn__bytes empty;
    bool ask = false;

    spn__lock(&conn->lock);
    if (conn->phase < SPN__CLOSING && conn->back.size != 0) {
        empty = conn->front;
        conn->front = conn->back;
        conn->back = empty;
        spn__unlock(&conn->lock);
        return true;
    }
    conn->writing = false;
    /* The loop waits for this to close or to shut, or is asked to tell [tell]. */
    if (!on_loop && (conn->phase != SPN__OPEN || conn->tells > 0))
        ask = spn__conn_list_locked(conn);
    spn__unlock(&conn->lock);
    if (ask)
        spn__loop_ask(spn__conn_loop(conn), conn);
    return false;
}

void spn__conn_drain(struct spn__conn *conn, bool on_loop)
{
    int turns = 0;
    int64_t n;

    do {
        while (conn->front.size != 0) {
            struct iovec one = { spn__bytes_first(&conn->front), conn->front.size };

            if (++turns > (on_loop ? LOOP_TURNS : WORKER_TURNS)) {
                let_go(conn, false, 0, false); /* the loop comes back to it */
                return;
            }
            n = put(conn, &one, 1);
            if (n <= 0) {
                let_go(conn, n == 0, (int)n, on_loop);
                return;
            }
            note_time(conn, on_loop);
            spn__bytes_take(&conn->front, (size_t)n);
        }
    } while (next(conn, on_loop));
}

/* Writes the vector, which belongs to the caller; keeps in front what did not go.
 * false: not all went, and we have let go. */
static bool put_now(struct spn__conn *conn, struct iovec *vector, size_t count,
                    bool on_loop)
{
    struct spn__piece rest[MAX_PIECES + 1];
    size_t left = 0;
    int64_t n = put(conn, vector, count);

    if (n < 0) {
        let_go(conn, false, (int)n, on_loop);
        return false;
    }
    if (n > 0)
        note_time(conn, on_loop);
    for (size_t i = 0; i < count; i++) {
        const size_t out =
            (uint64_t)n < vector[i].iov_len ? (size_t)n : vector[i].iov_len;

        n -= (int64_t)out;
        if (out < vector[i].iov_len)
            rest[left++] = (struct spn__piece){ (char *)vector[i].iov_base + out,
                                                vector[i].iov_len - out };
    }
    if (left == 0)
        return true;
    if (spn__bytes_append(&conn->front, rest, left, SPN__SHARE_ALWAYS))
        let_go(conn, true, 0, on_loop);
    else
        let_go(conn, false, SPN_ENOMEM, on_loop);
    return false;
}

/* ---- gathering in an event -------------------------------------------------------- */

void spn__conn_gather_begin(struct spn__conn *conn)
{
    spn__conn_loop(conn)->gathers = conn;
    spn__conn_loop(conn)->gathering = false;
    spn__conn_loop(conn)->gathered = 0;
}

/* Writes what was gathered, and maybe one message that did not fit behind it.  false:
 * the socket is full, and others may write. */
static bool put_gathered(struct spn__conn *conn, const struct spn__piece *pieces,
                         size_t count)
{
    struct iovec vector[MAX_PIECES + 1];
    struct spn__loop *const loop = spn__conn_loop(conn);
    size_t used = 0;

    if (loop->gathered != 0)
        vector[used++] = (struct iovec){ loop->out, loop->gathered };
    for (size_t i = 0; i < count; i++)
        if (pieces[i].size != 0)
            vector[used++] =
                (struct iovec){ (void *)(uintptr_t)pieces[i].data, pieces[i].size };
    loop->gathered = 0;
    loop->gathering = put_now(conn, vector, used, true);
    return loop->gathering;
}

void spn__conn_gather_end(struct spn__conn *conn)
{
    struct spn__loop *const loop = spn__conn_loop(conn);
    bool closing;

    loop->gathers = NULL;
    if (!loop->gathering)
        return;
    spn__lock(&conn->lock);
    closing = conn->phase >= SPN__CLOSING;
    if (closing)
        conn->writing = false;
    spn__unlock(&conn->lock);
    if (!closing && (loop->gathered == 0 || put_gathered(conn, NULL, 0)))
        spn__conn_drain(conn, true); /* what others added, and let go */
    loop->gathering = false;
}

/* On the loop, inside this connection's `bytes`, with the lock held.  Takes the message
 * if it may be gathered. */
static bool gather_locked(struct spn__conn *conn, const struct spn__piece *pieces,
                          size_t count, size_t total)
{
    struct spn__loop *const loop = spn__conn_loop(conn);

    if (!loop->gathering) {
        if (conn->writing || conn->blocked || conn->phase != SPN__OPEN ||
            conn->front.size + conn->back.size != 0)
            return false;
        conn->writing = true;
        loop->gathering = true;
    }
    if (conn->back.size != 0 || total > SPN__LOOP_OUT - loop->gathered)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (pieces[i].size != 0)
            memcpy(loop->out + loop->gathered, pieces[i].data, pieces[i].size);
        loop->gathered += pieces[i].size;
    }
    return true;
}

/* ---- sending -------------------------------------------------------------------------- */

/* With the lock held: where the message that is taken now lies in the stream. */
static void split_locked(struct spn__conn *conn, struct spn__split *split, uint64_t end,
                         size_t total)
{
    struct spn__split *last = spn__load(&conn->splits, relaxed); /* [split] */

    split->next = NULL;
    split->start = end - total;
    split->end = end;
    if (last == NULL) {
        spn__store(&conn->splits, split, relaxed); /* [split] */
        return;
    }
    while (last->next != NULL)
        last = last->next;
    last->next = split;
}

/* With the lock held: the message has been taken. */
static void advance_locked(struct spn__conn *conn, size_t total,
                           struct spn__split *split, uint64_t *position)
{
    /* relaxed: a number, changed under the lock. */
    const uint64_t end = spn__load(&conn->position, relaxed) + total;

    spn__store(&conn->position, end, relaxed);
    if (split != NULL)
        split_locked(conn, split, end, total);
    if (position != NULL)
        *position = end;
}

static int refuse_locked(const struct spn__conn *conn, size_t total, unsigned flags)
{
    const uint64_t waiting =
        spn__load(&conn->position, relaxed) - spn__load(&conn->written, relaxed);

    if (conn->phase > SPN__OPEN)
        return SPN_ECLOSED;
    /* A message that is larger than the bound goes when nothing waits. */
    if ((flags & SPN__SEND_URGENT) == 0 && waiting != 0 &&
        (waiting > conn->transport->opts.max_unwritten ||
         total > conn->transport->opts.max_unwritten - waiting))
        return SPN_EFULL;
    return SPN_OK;
}

static enum spn__share share_of(unsigned flags)
{
    return (flags & SPN__SEND_URGENT) != 0 ? SPN__SHARE_ALWAYS : SPN__SHARE_REPLIES;
}

/* What to take from the budget before a message is written from where it is: small ones do
 * not count. */
static size_t deposit_of(size_t total)
{
    return spn__bytes_counted(total);
}

/* From another thread, which writes itself if it can. */
static int send_apart(struct spn__conn *conn, const struct spn__piece *pieces,
                      size_t count, size_t total, unsigned flags,
                      struct spn__split *split, uint64_t *position)
{
    const size_t deposit = deposit_of(total);
    struct iovec vector[MAX_PIECES];
    bool direct, drain = false, ask = false;
    size_t used = 0;
    int rc;

    spn__lock(&conn->lock);
    rc = refuse_locked(conn, total, flags);
    direct = rc == SPN_OK && (flags & (SPN__SEND_MORE | SPN__SEND_SOON)) == 0 &&
             count <= MAX_PIECES && conn->phase == SPN__OPEN && !conn->writing &&
             !conn->blocked && conn->front.size + conn->back.size == 0;
    if (direct && !spn__budget_take(conn->back.budget, deposit, share_of(flags))) {
        direct = false;
        rc = SPN_ENOMEM;
    }
    if (direct)
        conn->writing = true;
    else if (rc == SPN_OK &&
             !spn__bytes_append(&conn->back, pieces, count, share_of(flags)))
        rc = SPN_ENOMEM;
    if (rc == SPN_OK)
        advance_locked(conn, total, split, position);
    /* Also when refused: messages that were to be followed by this one must go. */
    if (rc == SPN_OK && (flags & (SPN__SEND_MORE | SPN__SEND_SOON)) == SPN__SEND_SOON)
        ask = !conn->writing && spn__conn_list_locked(conn);
    else if (!direct && (flags & SPN__SEND_MORE) == 0)
        drain = spn__conn_claim_locked(conn);
    spn__unlock(&conn->lock);
    if (ask)
        spn__loop_ask(spn__conn_loop(conn), conn);
    if (direct) {
        for (size_t i = 0; i < count; i++)
            vector[used++] =
                (struct iovec){ (void *)(uintptr_t)pieces[i].data, pieces[i].size };
        drain = put_now(conn, vector, used, false);
        spn__budget_give(conn->transport->opts.budget, deposit);
    }
    if (drain)
        spn__conn_drain(conn, false);
    return rc;
}

/* On the connection's loop: written at the end of the event or of the turn. */
static int send_here(struct spn__conn *conn, const struct spn__piece *pieces,
                     size_t count, size_t total, unsigned flags,
                     struct spn__split *split, uint64_t *position)
{
    struct spn__loop *const loop = spn__conn_loop(conn);
    const size_t deposit = deposit_of(total);
    bool ask = false, flush = false;
    int rc;

    spn__lock(&conn->lock);
    rc = refuse_locked(conn, total, flags);
    if (rc == SPN_OK &&
        (loop->gathers != conn || !gather_locked(conn, pieces, count, total))) {
        /* What fills the gathering buffer goes out behind it at once. */
        flush = loop->gathers == conn && loop->gathering && conn->back.size == 0 &&
                count <= MAX_PIECES;
        if (flush && !spn__budget_take(conn->back.budget, deposit, share_of(flags))) {
            flush = false;
            rc = SPN_ENOMEM;
        } else if (!flush &&
                   !spn__bytes_append(&conn->back, pieces, count, share_of(flags)))
            rc = SPN_ENOMEM;
        else if (!flush && !conn->writing)
            ask = spn__conn_list_locked(conn);
    }
    if (rc == SPN_OK)
        advance_locked(conn, total, split, position);
    spn__unlock(&conn->lock);
    if (flush) {
        (void)put_gathered(conn, pieces, count);
        spn__budget_give(conn->transport->opts.budget, deposit);
    }
    if (ask)
        spn__loop_ask(loop, conn);
    return rc;
}

int spn__conn_send(struct spn__conn *conn, const struct spn__piece *pieces,
                   size_t count, unsigned flags, uint64_t *position)
{
    const size_t piece = flags >> SPN__SPLIT_SHIFT;
    struct spn__split *split = NULL;
    size_t total = 0;
    int rc;

    for (size_t i = 0; i < count; i++)
        total += pieces[i].size;
    if (total == 0)
        flags |= SPN__SEND_MORE; /* nothing to write for */
    if (piece != 0 && piece < total) {
        split = spn__alloc(sizeof *split);
        if (split == NULL)
            return SPN_ENOMEM;
        split->bytes = piece;
    }
    rc = spn__loop_is_mine(spn__conn_loop(conn))
             ? send_here(conn, pieces, count, total, flags, split, position)
             : send_apart(conn, pieces, count, total, flags, split, position);
    if (rc != SPN_OK)
        spn__free(split);
    return rc;
}

uint64_t spn__conn_written(const struct spn__conn *conn)
{
    return spn__load(&conn->written, relaxed); /* relaxed: a number */
}

void spn__conn_tell_written(struct spn__conn *conn, bool wanted)
{
    spn__lock(&conn->lock);
    conn->tells += wanted ? 1 : -1; /* [tell] */
    spn__unlock(&conn->lock);
}

size_t spn__conn_unwritten(const struct spn__conn *conn)
{
    /* relaxed: two numbers, which may be of different moments. */
    const uint64_t written = spn__load(&conn->written, relaxed);
    const uint64_t position = spn__load(&conn->position, relaxed);

    return position > written ? (size_t)(position - written) : 0;
}
