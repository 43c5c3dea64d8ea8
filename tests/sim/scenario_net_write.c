/* SPDX-License-Identifier: MIT */
/*
 * scenario_net_write.c - the outgoing stream of the transport on libuv (uv_write.c), with a
 * socket of ours: it takes all, some or nothing as the schedule chooses, and wants to be
 * written by one thread at a time, in order, and never after it was closed.
 *
 * The source itself is included; of the loop there is what it does for a connection that
 * asks: it claims the writing, goes on after a full socket, and closes when nobody writes.
 */
#include "sim.h"

#include <sys/socket.h>

/* What the included file calls. */
#define sendmsg socket_take
static ssize_t socket_take(int fd, const struct msghdr *message, int flags);

#include "../../src/net/uv_write.c" /* NOLINT: its statics too */

#include "sync/parker.h"

enum { LOOP_FD = 5 };

static struct spn__transport transport;
static struct spn__loop loop;
static struct spn__conn conn;
static struct spn__parker parker;
static SPN__ATOMIC(int) inside, done;
static int loop_thread, refusals, conn_closed;
static uint64_t seen_unwritten; /* by the thread that asked to be told */
static char sink[32];
static size_t sink_size;
static bool splits_a; /* the messages of A are written byte by byte */

/* ---- the socket ------------------------------------------------------------------- */

/* What is offered at once: of a split message a byte, of another all that is left. */
static void check_offer(const struct msghdr *message)
{
    const bool is_second = sink_size % 2 == 1;
    const char letter =
        is_second ? sink[sink_size - 1] : *(const char *)message->msg_iov[0].iov_base;
    size_t offered = 0;

    for (size_t i = 0; i < message->msg_iovlen; i++)
        offered += message->msg_iov[i].iov_len;
    if (letter == 'A')
        sim_assert(offered == 1);
    else
        sim_assert(offered >= (is_second ? 1 : 2));
}

static ssize_t socket_take(int fd, const struct msghdr *message, int flags)
{
    const unsigned how = sim_choose(3);
    size_t most = how == 0 ? sizeof sink : 1, taken = 0;

    (void)flags;
    sim_assert(spn__exchange(&inside, 1, relaxed) == 0);
    sim_assert(fd == LOOP_FD);
    if (splits_a)
        check_offer(message);
    if (how == 2 && refusals < 2) {
        refusals++;
        most = 0;
    }
    for (size_t i = 0; i < message->msg_iovlen && taken < most; i++) {
        const struct iovec *const one = &message->msg_iov[i];
        const size_t n = one->iov_len < most - taken ? one->iov_len : most - taken;

        sim_assert(sink_size + n <= sizeof sink);
        memcpy(sink + sink_size, one->iov_base, n);
        sink_size += n;
        taken += n;
    }
    (void)spn__exchange(&inside, 0, relaxed);
    if (taken != 0)
        return (ssize_t)taken;
    errno = EAGAIN;
    return -1;
}

int spn__net_status(int error)
{
    (void)error;
    return SPN_EIO;
}

/* ---- the loop ----------------------------------------------------------------------- */

bool spn__loop_is_mine(const struct spn__loop *l)
{
    (void)l;
    return sim_self() == loop_thread;
}

int64_t spn__loop_now(struct spn__loop *l)
{
    (void)l;
    return 0;
}

void spn__loop_ask(struct spn__loop *l, struct spn__conn *c)
{
    (void)l;
    sim_assert(c == &conn);
    spn__parker_unpark(&parker);
}

bool spn__conn_list_locked(struct spn__conn *c)
{
    if (c->listed || c->phase == SPN__CLOSED)
        return false;
    c->listed = true;
    return true;
}

bool spn__conn_close_locked(struct spn__conn *c, int why)
{
    if (c->phase >= SPN__CLOSING)
        return false;
    c->phase = SPN__CLOSING;
    c->why = why;
    return spn__conn_list_locked(c);
}

static void attend(void)
{
    bool drain;

    spn__lock(&conn.lock);
    conn.listed = false;
    conn.blocked = false; /* the socket has room again */
    drain = spn__conn_claim_locked(&conn);
    spn__unlock(&conn.lock);
    if (drain)
        spn__conn_drain(&conn, true);
    spn__lock(&conn.lock);
    if (conn.blocked) /* polled: it will have room */
        spn__parker_unpark(&parker);
    if (conn.phase == SPN__CLOSING && !conn.writing) {
        conn.phase = SPN__CLOSED;
        conn.fd = -1;
        conn_closed++;
    }
    if (conn.tells > 0) /* [tell] as spn__conn_attend does */
        conn.told = spn__conn_written(&conn);
    spn__unlock(&conn.lock);
}

static void run_loop(void *arg)
{
    (void)arg;
    while (spn__load(&done, acquire) == 0) {
        attend();
        (void)spn__parker_park(&parker, SPN_FOREVER);
    }
}

static void begin(void)
{
    memset(&transport, 0, sizeof transport);
    memset(&loop, 0, sizeof loop);
    memset(&conn, 0, sizeof conn);
    transport.opts.max_unwritten = 1000;
    spn__init(&transport.bytes_written, (uint64_t)0);
    loop.transport = &transport;
    conn.transport = &transport;
    spn__init(&conn.loop, &loop);
    conn.fd = LOOP_FD;
    conn.phase = SPN__OPEN;
    {
        static const struct spn__conn_events none;

        conn.events = &none;
    }
    spn__lock_init(&conn.lock);
    spn__init(&conn.position, (uint64_t)0);
    spn__init(&conn.written, (uint64_t)0);
    spn__init(&conn.last_write_ns, (int64_t)0);
    spn__init(&conn.splits, NULL);
    splits_a = false;
    spn__init(&inside, 0);
    spn__init(&done, 0);
    spn__parker_init(&parker);
    sink_size = 0;
    refusals = conn_closed = 0;
    loop_thread = sim_thread(run_loop, NULL);
}

static void end(void)
{
    spn__store(&done, 1, release);
    spn__parker_unpark(&parker);
    sim_join_all();
    spn__bytes_fini(&conn.front);
    spn__bytes_fini(&conn.back);
    spn__splits_fini(&conn);
}

static int send_text(const char *text, unsigned flags)
{
    const struct spn__piece pieces[] = { { text, 1 }, { text + 1, 1 } };

    return spn__conn_send(&conn, pieces, 2, flags, NULL);
}

static void send_two(void *arg)
{
    const char *const text = arg;
    int rc = send_text(text, 0);

    sim_assert(rc == SPN_OK || rc == SPN_ECLOSED);
    if (rc == SPN_OK)
        rc = send_text(text + 2, 0);
    sim_assert(rc == SPN_OK || rc == SPN_ECLOSED);
}

static void send_one_more(void *arg)
{
    sim_assert(send_text(arg, SPN__SEND_MORE) == SPN_OK);
    sim_assert(send_text((const char *)arg + 2, 0) == SPN_OK);
}

static void send_split(void *arg)
{
    sim_assert(send_text(arg, SPN__SEND_SPLIT(1)) == SPN_OK);
    sim_assert(send_text((const char *)arg + 2, SPN__SEND_SPLIT(1)) == SPN_OK);
}

/* Leaves its bytes to the loop. */
static void send_soon(void *arg)
{
    sim_assert(send_text(arg, SPN__SEND_SOON) == SPN_OK);
    sim_assert(send_text((const char *)arg + 2, SPN__SEND_SOON) == SPN_OK);
}

static void ask_to_tell(void *arg)
{
    (void)arg;
    spn__conn_tell_written(&conn, true);
    seen_unwritten = spn__conn_unwritten(&conn);
}

static void close_conn(void *arg)
{
    bool ask;

    (void)arg;
    spn__lock(&conn.lock);
    ask = spn__conn_close_locked(&conn, SPN_ECLOSED);
    spn__unlock(&conn.lock);
    if (ask)
        spn__loop_ask(&loop, &conn);
}

/* The stream is messages of two bytes, an upper case letter and a digit: whole, and each
 * sender's in order. */
static void check_sink(bool all)
{
    char next_a = '1', next_b = '1';

    for (size_t i = 0; i + 1 < sink_size; i += 2) {
        char *const next = sink[i] == 'A' ? &next_a : &next_b;

        sim_assert(sink[i] == 'A' || sink[i] == 'B');
        sim_assert(sink[i + 1] == *next);
        (*next)++;
    }
    if (!all)
        return;
    sim_assert(sink_size == 8 && next_a == '3' && next_b == '3');
    sim_assert(!conn.writing && conn.front.size + conn.back.size == 0);
    sim_assert(spn__conn_written(&conn) == 8 && spn__conn_unwritten(&conn) == 0);
}

/* Two senders: everything goes out, whole and in order, and nobody has to come by again. */
SCENARIO(net_write__two_senders__nothing_stays_behind, "NET-14", "NET-18")
{
    int a, b;

    begin();
    a = sim_thread(send_two, "A1A2");
    b = sim_thread(send_two, "B1B2");
    sim_join(a);
    sim_join(b);
    sim_settle();
    check_sink(true);
    end();
}
SCENARIO_OPTS(net_write__two_senders__nothing_stays_behind, .schedules = 1000,
              .models = SIM_SC | SIM_C11)

/* A thread asks to be told what is written, and then finds that bytes are not written yet: the
 * loop tells of the last of them.  This is how a paused reader is resumed. */
SCENARIO(net_write__asked_to_tell__the_last_byte_is_told, "NET-14")
{
    int a, asker;

    begin();
    seen_unwritten = 0;
    a = sim_thread(send_two, "A1A2");
    asker = sim_thread(ask_to_tell, NULL);
    sim_join(a);
    sim_join(asker);
    sim_settle();
    sim_assert(spn__conn_written(&conn) == 4);
    if (seen_unwritten != 0)
        sim_assert(conn.told == 4);
    end();
}
SCENARIO_OPTS(net_write__asked_to_tell__the_last_byte_is_told, .schedules = 1000,
              .models = SIM_SC | SIM_C11)

/* The same with messages that are announced to be followed by another. */
SCENARIO(net_write__more_follows__nothing_stays_behind, "NET-14")
{
    int a, b;

    begin();
    a = sim_thread(send_one_more, "A1A2");
    b = sim_thread(send_one_more, "B1B2");
    sim_join(a);
    sim_join(b);
    sim_settle();
    check_sink(true);
    end();
}
SCENARIO_OPTS(net_write__more_follows__nothing_stays_behind, .schedules = 600,
              .models = SIM_SC | SIM_C11)

/* One leaves the writing to the loop, the other writes itself: the loop is woken, and
 * nothing waits for somebody who does not come. */
SCENARIO(net_write__left_to_the_loop__nothing_stays_behind, "NET-14", "NET-18")
{
    int a, b;

    begin();
    a = sim_thread(send_soon, "A1A2");
    b = sim_thread(send_two, "B1B2");
    sim_join(a);
    sim_join(b);
    sim_settle();
    check_sink(true);
    end();
}
SCENARIO_OPTS(net_write__left_to_the_loop__nothing_stays_behind, .schedules = 1000,
              .models = SIM_SC | SIM_C11)

/* Closing while others send: the descriptor is closed once, after the last write. */
SCENARIO(net_write__close_races_send__not_while_it_is_written, "NET-5")
{
    int a, b;

    begin();
    a = sim_thread(send_two, "A1A2");
    b = sim_thread(close_conn, NULL);
    sim_join(a);
    sim_join(b);
    sim_settle();
    sim_assert(conn_closed == 1 && conn.phase == SPN__CLOSED);
    check_sink(false);
    end();
}
SCENARIO_OPTS(net_write__close_races_send__not_while_it_is_written, .schedules = 1000,
              .models = SIM_SC | SIM_C11)

/* One sender's messages are split, the other's are not: whoever writes them. */
SCENARIO(net_write__one_sender_splits__only_its_messages, "NET-14", "NET-31")
{
    int a, b;

    begin();
    splits_a = true;
    a = sim_thread(send_split, "A1A2");
    b = sim_thread(send_two, "B1B2");
    sim_join(a);
    sim_join(b);
    sim_settle();
    check_sink(true);
    end();
}
SCENARIO_OPTS(net_write__one_sender_splits__only_its_messages, .schedules = 1000,
              .models = SIM_SC | SIM_C11)
