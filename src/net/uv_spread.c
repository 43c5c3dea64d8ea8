/* SPDX-License-Identifier: MIT */
/*
 * uv_spread.c - which loop an accepted connection is on: dealt, and handed over.
 *
 * OVERVIEW
 *   Few connections with a request now and then are served fastest by one loop: it has
 *   the next request ready when it has answered the last, where several loops sleep in
 *   between and are woken for every one.  Connections with much to do are served fastest
 *   by several.  So connections begin together, on as few loops as are in use (one at
 *   first), and a loop that is crowded hands some over to the loop in use that has the
 *   fewest, or to one more when all have about as many.
 *
 * WHEN A LOOP IS CROWDED
 *   A turn is what lies between two sleeps.  Of a turn that finds two connections ready
 *   or more, the others wait while one is served, on average for half of the turn.  That
 *   is the price of one loop; the price of another is a wake-up, some 10 us on either
 *   side.  A turn from LONG_NS on is clearly dearer.  Some long turns may be an accident (the
 *   thread lost its CPU, or shares it with its peers for a while), so `strain` counts long
 *   turns up and others down, to STRAIN_MOST; with 8 instead of 64 one run in six of 8 x 1
 *   was spread for nothing.
 *
 *   The clock is read for one turn in LOOK_EVERY, and for every one while they are long:
 *   no request pays for it, and a loop that sleeps is not woken to look.
 *
 *   How many connections were ready says less: with eight peers that wait for each answer,
 *   six or seven are ready in every turn of a single loop, as many as with 32 requests
 *   under way on each; but the former makes turns of 37 us, the latter of 130 us.
 *
 * THAT IT ENDS
 *   A loop gives only to one that has two connections less, at most half the difference:
 *   the sum of the squares shrinks with each, and when the numbers are even nobody gives
 *   any more.  Nothing is ever handed to and fro, and nothing is gathered again before
 *   the last accepted connection has gone.
 *
 * HANDING OVER    (its own loop's thread, when it has been attended to)
 *   1. Under the connection's lock, if it is open, not listed and not pinned: `loop` becomes
 *      the new one, and it is listed.  Nobody asks for a connection that is listed, so
 *      neither inbox has it.
 *   2. Its poll handle is closed; libuv gives the memory back at the end of the turn.
 *   3. It is posted to the new loop, which polls it, unlists it, and attends to whatever
 *      was noted meanwhile: bytes to write, paused, resumed, ended, closed.  If that loop
 *      has ended, the transport is being stopped, and the old loop takes it back.
 *   In between there are no events.  Others may send, and write the socket themselves: the
 *   descriptor is the same all the time.  The old loop counts it as alive until it has
 *   been posted, and a loop does not end with something in its inbox: one of the two
 *   always calls `closed`.
 *
 * A LOOP THAT IS HELD UP by a method that waits cannot hand over anything.  The acceptor
 *   sees that what it dealt there has not begun for HELD_UP_NS, and deals to others.
 */
#include "net/uv_net.h"

enum {
    LONG_NS = 80 * 1000,
    VERY_LONG_NS = 1000 * 1000,
    TOO_LONG_NS = 10 * 1000 * 1000,
    HELD_UP_NS = 10 * 1000 * 1000,
    STRAIN_MOST = 64,
    LOOK_EVERY = 16,
};

/* ---- dealing ------------------------------------------------------------------------ */

/* The acceptor: whether connections dealt to the loop wait there to begin. */
static bool is_held_up(struct spn__loop *loop)
{
    const int64_t now = spn__now();
    /* relaxed: a number; the acceptor's own are compared with it. */
    const uint32_t begun = spn__load(&loop->begun, relaxed);

    if (begun != loop->begun_seen || begun == loop->dealt) {
        loop->begun_seen = begun;
        loop->waits_since_ns = now;
    }
    return now - loop->waits_since_ns > HELD_UP_NS;
}

/* The loop in use with the fewest connections.  For the acceptor, of those that are not
 * held up; NULL: all are. */
static struct spn__loop *least(struct spn__transport *transport, uint32_t used,
                               bool acceptor)
{
    struct spn__loop *found = NULL;
    int32_t fewest = 0;

    for (uint32_t i = 0; i < used; i++) {
        struct spn__loop *const loop = &transport->loops[i];
        const int32_t share = spn__load(&loop->share, relaxed); /* a number */

        if ((found == NULL || share < fewest) && (!acceptor || !is_held_up(loop))) {
            found = loop;
            fewest = share;
        }
    }
    return found;
}

/* Takes one more loop into use; NULL: there is none. */
static struct spn__loop *one_more(struct spn__transport *transport, uint32_t used)
{
    struct spn__loop *const loop = &transport->loops[used];

    if (used == (uint32_t)transport->loop_count)
        return NULL;
    /* relaxed: a number.  If somebody else was quicker, his will do. */
    (void)spn__cas(&transport->used, &used, used + 1, relaxed, relaxed);
    return loop;
}

struct spn__loop *spn__spread_deal(struct spn__transport *transport)
{
    struct spn__loop *loop;
    uint32_t used;

    /* relaxed, all: numbers. */
    if (spn__load(&transport->accepted_now, relaxed) == 0)
        spn__store(&transport->used, 1u, relaxed);
    used = spn__load(&transport->used, relaxed);
    loop = least(transport, used, true);
    if (loop == NULL)
        loop = one_more(transport, used);
    if (loop == NULL) /* all wait; so does this one */
        loop = least(transport, used, false);
    return loop;
}

/* ---- looking ------------------------------------------------------------------------ */

static int weight(int64_t took_ns)
{
    if (took_ns < LONG_NS)
        return -1;
    return took_ns < VERY_LONG_NS  ? 1
           : took_ns < TOO_LONG_NS ? STRAIN_MOST / 8
                                   : STRAIN_MOST / 2;
}

/* Finds somebody to hand connections to in the next turn. */
static void relieve(struct spn__loop *loop, unsigned visits)
{
    struct spn__transport *const transport = loop->transport;
    const uint32_t used = spn__load(&transport->used, relaxed); /* numbers, all */
    const int32_t mine = spn__load(&loop->share, relaxed);
    struct spn__loop *to = least(transport, used, false);
    int32_t half = (mine - spn__load(&to->share, relaxed)) / 2;

    if (half < 1) {
        to = one_more(transport, used);
        if (to == NULL || to == loop)
            return;
        half = (mine - spn__load(&to->share, relaxed)) / 2;
    }
    if (half < 1)
        return;
    loop->give_to = to;
    loop->give = visits / 2 < (unsigned)half ? visits / 2 : (unsigned)half;
}

void spn__spread_turn(struct spn__loop *loop)
{
    const unsigned visits = loop->visits;

    loop->visits = 0;
    loop->give = 0;
    if (loop->until_look != 0) {
        if (loop->transport->loop_count > 1)
            loop->until_look--;
        return;
    }
    /* Nobody waited, if only one was ready. */
    loop->strain += visits < 2 ? -1 : weight(spn__now() - loop->began_ns);
    if (loop->strain <= 0) {
        loop->strain = 0;
        loop->until_look = LOOK_EVERY;
    } else if (loop->strain >= STRAIN_MOST) {
        loop->strain = 0;
        relieve(loop, visits);
    }
}

/* ---- handing over ------------------------------------------------------------------- */

/* On the loop that has it now: looks after all that was noted meanwhile. */
static void arrive(struct spn__conn *conn)
{
    spn__conn_enlist(conn);
    spn__conn_unlist(conn);
    spn__conn_attend(conn); /* it may be freed by now */
}

static void arrive_job(struct spn__net_job *job)
{
    arrive((struct spn__conn *)((char *)job - offsetof(struct spn__conn, begin)));
}

/* libuv has given its handle back. */
static void left(uv_handle_t *handle)
{
    struct spn__conn *const conn = handle->data;
    struct spn__loop *const to = spn__conn_loop(conn);
    struct spn__loop *const home = handle->loop->data;

    conn->handles--;
    conn->begin.fn = arrive_job;
    home->live--;
    /* relaxed, all: numbers.  Counted before its next event can come. */
    spn__fetch_add(&home->moved, (uint64_t)1, relaxed);
    if (spn__loop_post(to, &conn->begin))
        return;
    spn__fetch_sub(&home->moved, (uint64_t)1, relaxed);
    spn__fetch_sub(&to->share, 1, relaxed);
    spn__fetch_add(&home->share, 1, relaxed);
    spn__lock(&conn->lock);
    spn__store(&conn->loop, home, relaxed); /* see spn__conn_loop */
    spn__unlock(&conn->lock);
    arrive(conn);
}

void spn__spread_give(struct spn__conn *conn)
{
    struct spn__loop *const home = spn__conn_loop(conn);
    struct spn__loop *const to = home->give_to;
    bool goes;

    if (!conn->accepted || !conn->has_poll || conn->handles != 1 || home->stopping)
        return;
    spn__lock(&conn->lock);
    goes = conn->phase == SPN__OPEN && !conn->listed && !conn->pinned;
    if (goes) {
        conn->listed = true;
        spn__store(&conn->loop, to, relaxed); /* see spn__conn_loop */
    }
    spn__unlock(&conn->lock);
    if (!goes)
        return;
    home->give--;
    spn__fetch_sub(&home->share, 1, relaxed); /* numbers */
    spn__fetch_add(&to->share, 1, relaxed);
    spn__list_remove(&conn->link);
    conn->has_poll = false;
    uv_close((uv_handle_t *)&conn->poll, left);
}
