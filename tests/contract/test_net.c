/* SPDX-License-Identifier: MIT */
/*
 * Connections: the transport against raw sockets of this process, on free ports.
 *
 * sendmsg and accept4 are wrapped, to count writes, to make them short, and to be out
 * of descriptors on request.
 */
#include "net_bed.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <spindle/clock.h>
#include <spindle/pool.h>
#include <spindle/report.h>
#include <spindle/thread.h>

#include "counting.h"
#include "net/bytes.h"

static atomic_int writes;     /* calls of sendmsg */
static atomic_int write_most; /* bytes each may take; 0: all */
static atomic_int no_accepts; /* so many accepts find no descriptor */
static atomic_int put_off;    /* and did */

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
int __real_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags);

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    const size_t most = (size_t)atomic_load(&write_most);

    atomic_fetch_add(&writes, 1);
    if (most != 0) {
        struct iovec few = message->msg_iov[0];
        const struct msghdr one = { .msg_iov = &few, .msg_iovlen = 1 };

        few.iov_len = few.iov_len < most ? few.iov_len : most;
        return __real_sendmsg(fd, &one, flags);
    }
    return __real_sendmsg(fd, message, flags);
}

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags)
{
    if (atomic_load(&no_accepts) > 0) {
        atomic_fetch_sub(&no_accepts, 1);
        atomic_fetch_add(&put_off, 1);
        errno = EMFILE;
        return -1;
    }
    return __real_accept4(fd, address, size, flags);
}

static struct bed bed;
static unsigned char big[8 << 20];

/* ---- life ------------------------------------------------------------------------ */

/* A connection opens at both ends, carries bytes both ways and closes once at each. */
TEST(net__connect__opens_carries_and_closes, "NET-1", "NET-6")
{
    struct line client;
    const char *colon;

    bed_open(&bed, NULL);
    REQUIRE_OK(bed_connect(&bed, &client, bed.port, SPN_SEC(30)));
    AWAIT_LINES(&bed, 1);
    T_AWAIT(atomic_load(&client.opened));
    CHECK_OK(line_send(&client, "ping", 4));
    AWAIT_GOT(&bed.line[0], 4);
    CHECK(memcmp(bed.line[0].head, "ping", 4) == 0);
    CHECK_OK(line_send(&bed.line[0], "answer", 6));
    AWAIT_GOT(&client, 6);
    CHECK(memcmp(client.head, "answer", 6) == 0);
    CHECK_STR(spn__conn_remote(client.conn), spn__conn_local(bed.line[0].conn));
    CHECK_STR(spn__conn_local(client.conn), spn__conn_remote(bed.line[0].conn));
    colon = strrchr(spn__conn_remote(client.conn), ':');
    CHECK(colon != NULL && atoi(colon + 1) == bed.port);
    CHECK(strncmp(spn__conn_remote(client.conn), "127.0.0.1:", 10) == 0);
    CHECK(!spn__conn_on_loop(client.conn));
    CHECK_EQ(spn__conn_unwritten(client.conn), 0);
    CHECK_EQ(spn__conn_written(client.conn), 4);

    spn__conn_end(client.conn);
    CHECK_WHY(&client, 0);
    CHECK_WHY(&bed.line[0], 0);
    CHECK_STATUS(line_send(&client, "x", 1), SPN_ECLOSED);
    line_close(&client);
    bed_close(&bed);
}

/* Nobody listens: one `closed`, no `opened`. */
TEST(net__connect_to_nobody__closed_as_unreachable, "NET-2")
{
    struct line client;
    int port, fd = raw_reserve(&port);

    bed_open(&bed, NULL);
    REQUIRE_OK(bed_connect(&bed, &client, port, SPN_SEC(30)));
    CHECK_WHY(&client, SPN_EUNREACHABLE);
    CHECK_EQ(atomic_load(&client.opened), 0);
    CHECK(!spn__conn_is_open(client.conn));
    line_close(&client);
    close(fd);
    bed_close(&bed);
}

/* What cannot be begun is told at once, and nothing is left behind. */
TEST(net__connect_badly__refused_at_once, "NET-2")
{
    struct spn__conn *conn = (void *)&bed;

    bed_open(&bed, NULL);
    CHECK_STATUS(spn__transport_connect(bed.transport, "no.such.name.invalid", 80,
                                        SPN_SEC(1), &line_events, &bed, NULL, &conn),
                 SPN_EUNREACHABLE);
    CHECK(conn == NULL);
    CHECK_STATUS(spn__transport_connect(bed.transport, NULL, 80, SPN_SEC(1),
                                        &line_events, &bed, NULL, &conn),
                 SPN_EINVAL);
    CHECK_STATUS(spn__transport_connect(bed.transport, "127.0.0.1", 0, SPN_SEC(1),
                                        &line_events, &bed, NULL, &conn),
                 SPN_EINVAL);
    CHECK_STATUS(spn__transport_connect(bed.transport, "127.0.0.1", 65536, SPN_SEC(1),
                                        &line_events, &bed, NULL, &conn),
                 SPN_EINVAL);
    bed_close(&bed);
}

/* A name with several addresses is tried until one answers: localhost is ::1 first
 * where that exists, and the listener has 127.0.0.1 alone. */
TEST(net__name_with_addresses__tried_in_turn, "NET-2")
{
    struct line client = { .bed = &bed };

    bed_open(&bed, NULL);
    REQUIRE_OK(spn__transport_connect(bed.transport, "localhost", bed.port, SPN_SEC(30),
                                      &line_events, &bed, &client, &client.conn));
    AWAIT_LINES(&bed, 1);
    T_AWAIT(atomic_load(&client.opened));
    spn__conn_close(client.conn, SPN_ECLOSED);
    CHECK_WHY(&client, SPN_ECLOSED);
    line_close(&client);
    bed_close(&bed);
}

/* A listener whose backlog is full lets connects hang: the limit ends them, not before
 * it has passed. */
TEST(net__connect_hangs__timed_out_not_early, "NET-3")
{
    enum { FILL = 8 };
    int port, fill[FILL], listening = raw_listen(&port, 0);
    struct line client;
    int64_t begun;

    raw_fill(listening, port, fill, FILL); /* more than the backlog takes */
    bed_open(&bed, NULL);
    begun = spn_clock_now(spn_clock_monotonic());
    REQUIRE_OK(bed_connect(&bed, &client, port, T_SHORT_NS));
    CHECK_WHY(&client, SPN_ETIMEDOUT);
    CHECK(spn_clock_now(spn_clock_monotonic()) - begun >= T_SHORT_NS);
    CHECK_EQ(atomic_load(&client.opened), 0);
    line_close(&client);
    bed_close(&bed);
    for (int i = 0; i < FILL; i++)
        close(fill[i]);
    close(listening);
}

/* A connect that is closed while it hangs is closed with that reason. */
TEST(net__closed_while_connecting__that_reason, "NET-5", "NET-1")
{
    enum { FILL = 8 };
    int port, fill[FILL], listening = raw_listen(&port, 0);
    struct line client;

    raw_fill(listening, port, fill, FILL);
    bed_open(&bed, NULL);
    REQUIRE_OK(bed_connect(&bed, &client, port, SPN_FOREVER));
    spn__conn_close(client.conn, SPN_ECANCELED);
    spn__conn_close(client.conn, SPN_EIO);
    CHECK_WHY(&client, SPN_ECANCELED);
    line_close(&client);
    REQUIRE_OK(bed_connect(&bed, &client, port, SPN_FOREVER)); /* stop ends this one */
    CHECK_OK(spn__transport_stop(bed.transport));
    CHECK_EQ(atomic_load(&client.closed), 1);
    CHECK_STATUS(atomic_load(&client.why), SPN_ECLOSED);
    line_close(&client);
    bed_close(&bed);
    for (int i = 0; i < FILL; i++)
        close(fill[i]);
    close(listening);
}

static int refuse(struct line *line)
{
    (void)line;
    return SPN_EPERM;
}

/* `opened` may refuse: closed with its status, and the peer sees an end. */
TEST(net__opened_refuses__closed_with_it, "NET-4")
{
    int fd;

    bed_open(&bed, NULL);
    bed.open = refuse;
    fd = raw_connect(bed.port);
    AWAIT_LINES(&bed, 1);
    CHECK_WHY(&bed.line[0], SPN_EPERM);
    raw_check_end(fd);
    close(fd);
    bed_close(&bed);
}

static void close_it(int index, void *arg)
{
    struct line *const line = arg;

    spn__conn_close(line->conn, SPN_EFAILED);
    (void)index;
}

/* Closed by several threads at once: one `closed`; what is sent then is refused. */
TEST(net__closed_by_many__once, "NET-5")
{
    const int rounds = t_rounds(40);

    for (int i = 0; i < rounds; i++) {
        int fd;

        bed_open(&bed, NULL);
        fd = raw_connect(bed.port);
        AWAIT_LINES(&bed, 1);
        t_parallel(3, close_it, &bed.line[0]);
        CHECK_STATUS(line_send(&bed.line[0], "late", 4), SPN_ECLOSED);
        CHECK_WHY(&bed.line[0], SPN_EFAILED);
        raw_check_end(fd);
        close(fd);
        bed_close(&bed);
    }
}

static int64_t close_inside(struct line *line, const unsigned char *data, size_t size)
{
    (void)data;
    spn__conn_close(line->conn, SPN_EPROTO);
    CHECK_STATUS(line_send(line, "x", 1), SPN_ECLOSED);
    return (int64_t)size;
}

/* Closed inside its own event: `closed` comes later, not inside it. */
TEST(net__closed_inside_bytes__closed_after, "NET-5", "NET-1")
{
    int fd;

    bed_open(&bed, NULL);
    bed.use = close_inside;
    fd = raw_connect(bed.port);
    raw_send(fd, "a", 1);
    AWAIT_LINES(&bed, 1);
    CHECK_WHY(&bed.line[0], SPN_EPROTO);
    CHECK_EQ(atomic_load(&bed.line[0].offers), 1);
    close(fd);
    bed_close(&bed);
}

static int64_t answer_and_end(struct line *line, const unsigned char *data, size_t size)
{
    (void)data;
    CHECK_OK(line_send(line, "last words", 10));
    spn__conn_end(line->conn);
    CHECK_STATUS(line_send(line, "more", 4), SPN_ECLOSED);
    return (int64_t)size;
}

/* End: what was taken arrives whole, though the peer goes on sending, and then the
 * end; `closed` with 0 when the peer has ended too. */
TEST(net__ended__last_bytes_arrive_then_the_end, "NET-6")
{
    const struct spn__transport_opts opts = { .loops = 2, .linger_ns = T_LONG_NS };
    char text[10];
    int fd;

    bed_open(&bed, &opts);
    bed.use = answer_and_end;
    fd = raw_connect(bed.port);
    raw_send(fd, "go", 2);
    raw_read(fd, text, sizeof text);
    CHECK(memcmp(text, "last words", 10) == 0);
    raw_check_end(fd);
    raw_send(fd, "nobody reads this", 17);
    CHECK_EQ(atomic_load(&bed.line[0].closed), 0);
    close(fd);
    CHECK_WHY(&bed.line[0], 0);
    CHECK_EQ(atomic_load(&bed.line[0].offers), 1);
    bed_close(&bed);
}

/* End with much unwritten: all of it arrives. */
TEST(net__ended_with_much_unwritten__all_arrives, "NET-6", "NET-18")
{
    struct spn__transport_opts opts = { .loops = 1,
                                        .max_unwritten = sizeof big,
                                        .linger_ns = T_LONG_NS };
    unsigned char *got = malloc(sizeof big);
    int fd;

    bed_open(&bed, &opts);
    for (size_t i = 0; i < sizeof big; i++)
        big[i] = (unsigned char)(i * 31 + (i >> 11));
    fd = raw_connect(bed.port);
    AWAIT_LINES(&bed, 1);
    CHECK_OK(line_send(&bed.line[0], big, sizeof big));
    spn__conn_end(bed.line[0].conn);
    raw_read(fd, got, sizeof big);
    CHECK(memcmp(got, big, sizeof big) == 0);
    raw_check_end(fd);
    close(fd);
    CHECK_WHY(&bed.line[0], 0);
    free(got);
    bed_close(&bed);
}

/* A peer that never reads does not hold an ended connection for ever. */
TEST(net__ended_but_peer_never_reads__timed_out, "NET-7")
{
    struct spn__transport_opts opts = { .loops = 1,
                                        .max_unwritten = sizeof big,
                                        .linger_ns = T_SHORT_NS };
    const int64_t begun = spn_clock_now(spn_clock_monotonic());
    int fd;

    bed_open(&bed, &opts);
    fd = raw_connect(bed.port);
    AWAIT_LINES(&bed, 1);
    CHECK_OK(line_send(&bed.line[0], big, sizeof big));
    spn__conn_end(bed.line[0].conn);
    CHECK_WHY(&bed.line[0], SPN_ETIMEDOUT);
    CHECK(spn_clock_now(spn_clock_monotonic()) - begun >= T_SHORT_NS);
    close(fd);

    /* One that has read all and does not end: in order, after the same time. */
    fd = raw_connect(bed.port);
    AWAIT_LINES(&bed, 2);
    spn__conn_end(bed.line[1].conn);
    raw_check_end(fd);
    CHECK_WHY(&bed.line[1], 0);
    close(fd);
    bed_close(&bed);
}

/* With a deadline the peer has until then to read, whatever the linger time is, and whether
 * the bytes wait here or in the socket. */
TEST(net__ended_by_a_deadline__reader_has_until_then, "NET-6", "NET-7")
{
    struct spn__transport_opts opts = { .loops = 1,
                                        .max_unwritten = sizeof big,
                                        .linger_ns = T_SHORT_NS };
    const size_t sizes[] = { 1 << 20, sizeof big };
    unsigned char *got = malloc(sizeof big);

    bed_open(&bed, &opts);
    for (int i = 0; i < 2; i++) {
        const int fd = raw_connect(bed.port);
        int64_t begun;

        AWAIT_LINES(&bed, i + 1);
        CHECK_OK(line_send(&bed.line[i], big, sizes[i]));
        begun = spn_clock_now(spn_clock_monotonic());
        spn__conn_end_by(bed.line[i].conn, begun + T_LONG_NS);
        T_AWAIT(spn_clock_now(spn_clock_monotonic()) - begun >= 4 * T_SHORT_NS);
        CHECK_EQ(atomic_load(&bed.line[i].closed), 0);
        raw_read(fd, got, sizes[i]);
        raw_check_end(fd);
        close(fd);
        CHECK_WHY(&bed.line[i], 0);
        CHECK_EQ(spn__conn_lost(bed.line[i].conn), 0);
    }
    free(got);
    bed_close(&bed);
}

/* And no longer; also when it had ended without one before.  It sees that something is
 * missing. */
TEST(net__ended_by_a_deadline__timed_out_then, "NET-7")
{
    struct spn__transport_opts opts = { .loops = 1,
                                        .max_unwritten = sizeof big,
                                        .linger_ns = T_LONG_NS };

    bed_open(&bed, &opts);
    for (int i = 0; i < 2; i++) {
        const int fd = raw_connect(bed.port);
        int64_t begun;
        char byte;
        ssize_t n;

        AWAIT_LINES(&bed, i + 1);
        CHECK_OK(line_send(&bed.line[i], big, sizeof big));
        if (i == 1)
            spn__conn_end(bed.line[i].conn);
        begun = spn_clock_now(spn_clock_monotonic());
        spn__conn_end_by(bed.line[i].conn, begun + T_SHORT_NS);
        CHECK_WHY(&bed.line[i], SPN_ETIMEDOUT);
        CHECK(spn_clock_now(spn_clock_monotonic()) - begun >= T_SHORT_NS);
        CHECK(spn__conn_lost(bed.line[i].conn) > 0);
        do
            n = recv(fd, &byte, 1, 0);
        while (n > 0);
        CHECK(n < 0 && errno == ECONNRESET);
        close(fd);
    }
    bed_close(&bed);
}

static int64_t echo(struct line *line, const unsigned char *data, size_t size)
{
    line_keep(line, data, size);
    CHECK_OK(line_send(line, data, size));
    return (int64_t)size;
}

/* The peer ends its side: what was answered is written, then `closed` with 0. */
TEST(net__peer_half_closes__answers_arrive, "NET-8")
{
    char text[5];
    int fd;

    bed_open(&bed, NULL);
    bed.use = echo;
    fd = raw_connect(bed.port);
    raw_send(fd, "hello", 5);
    shutdown(fd, SHUT_WR);
    raw_read(fd, text, 5);
    CHECK(memcmp(text, "hello", 5) == 0);
    raw_check_end(fd);
    CHECK_WHY(&bed.line[0], 0);
    close(fd);
    bed_close(&bed);
}

/* The same when the answers do not fit into the socket at once. */
TEST(net__peer_half_closes_with_answers_waiting__all_arrive, "NET-8", "NET-18")
{
    const size_t size = 1 << 20;
    unsigned char *got = malloc(size);
    int fd;

    for (size_t i = 0; i < size; i++)
        big[i] = (unsigned char)(i * 7 + (i >> 9));
    bed_open(&bed, NULL);
    fd = raw_connect(bed.port);
    AWAIT_LINES(&bed, 1);
    CHECK_OK(line_send(&bed.line[0], big, size));
    shutdown(fd, SHUT_WR);
    raw_read(fd, got, size);
    CHECK(memcmp(got, big, size) == 0);
    raw_check_end(fd);
    CHECK_WHY(&bed.line[0], 0);
    close(fd);
    free(got);
    bed_close(&bed);
}

enum { LOOKS = 40 }; /* more than a loop's turns without a look at its sockets */

static atomic_int half_closed; /* the peer has ended its side */
static atomic_size_t got_first;

/* Uses nothing at first, as a layer above that was paused and resumed meanwhile. */
static int64_t use_in_the_end(struct line *line, const unsigned char *data, size_t size)
{
    T_AWAIT(atomic_load(&half_closed) != 0);
    if (atomic_load(&line->offers) <= LOOKS) {
        spn__conn_pause(line->conn);
        spn__conn_resume(line->conn);
        return 0;
    }
    line_keep(line, data, size);
    return (int64_t)size;
}

static bool see_half_closed(void *context, struct spn__conn *conn)
{
    (void)context;
    atomic_store(&got_first, atomic_load(&((struct line *)spn__conn_data(conn))->got));
    return false;
}

static const struct spn__conn_events line_events_half = { .opened = line_opened,
                                                          .bytes = line_bytes,
                                                          .peer_ended = see_half_closed,
                                                          .closed = line_closed };

/* The peer's end does not overtake bytes that came before it and wait to be offered again. */
TEST(net__peer_half_closes_behind_bytes_that_wait__these_come_first, "NET-8", "NET-12")
{
    struct spn__transport_opts opts = { .loops = 1 };
    int fd;

    atomic_store(&half_closed, 0);
    atomic_store(&got_first, 0);
    memset(&bed, 0, sizeof bed);
    bed.use = use_in_the_end;
    REQUIRE_OK(spn__transport_create(&opts, &bed.transport));
    bed_listen(&bed, "127.0.0.1", &line_events_half);
    fd = raw_connect(bed.port);
    raw_send(fd, "hello", 5);
    shutdown(fd, SHUT_WR);
    atomic_store(&half_closed, 1);
    AWAIT_LINES(&bed, 1);
    raw_check_end(fd);
    CHECK_WHY(&bed.line[0], 0);
    CHECK_EQ(atomic_load(&got_first), 5);
    CHECK_EQ(atomic_load(&bed.line[0].got), 5);
    close(fd);
    bed_close(&bed);
}

/* A reset: closed with SPN_EIO, whether anything was being written or not. */
TEST(net__peer_resets__closed_as_broken, "NET-9")
{
    int fd;

    bed_open(&bed, NULL);
    fd = raw_connect(bed.port);
    AWAIT_LINES(&bed, 1);
    raw_reset(fd);
    CHECK_WHY(&bed.line[0], SPN_EIO);

    fd = raw_connect(bed.port);
    AWAIT_LINES(&bed, 2);
    CHECK_OK(line_send(&bed.line[1], big, sizeof big)); /* blocks the socket */
    raw_reset(fd);
    CHECK_WHY(&bed.line[1], SPN_EIO);
    CHECK_STATUS(line_send(&bed.line[1], "x", 1), SPN_ECLOSED);
    bed_close(&bed);
}

/* ---- bytes in ------------------------------------------------------------------------ */

/* Frames of a length byte and that many bytes; wants the whole before it looks. */
static int64_t take_frames(struct line *line, const unsigned char *data, size_t size)
{
    size_t at = 0;

    while (at < size && size - at > data[at]) {
        line_keep(line, data + at + 1, data[at]);
        at += data[at] + 1u;
    }
    if (at < size)
        spn__conn_want(line->conn, data[at] + 1u);
    return (int64_t)at;
}

/* Bytes that come one by one make the same frames as bytes that come together, and
 * nothing is offered before what was wanted is there. */
TEST(net__byte_by_byte__same_frames, "NET-10")
{
    unsigned char stream[200];
    size_t size = 0;
    int fd;

    for (unsigned char n = 0; n < 15; n++) { /* frames of 0 to 14 bytes */
        stream[size++] = n;
        for (unsigned char i = 0; i < n; i++)
            stream[size++] = (unsigned char)(n * 16 + i);
    }
    bed_open(&bed, NULL);
    bed.use = take_frames;
    fd = raw_connect(bed.port);
    for (size_t i = 0; i < size; i++)
        raw_send(fd, &stream[i], 1);
    AWAIT_LINES(&bed, 1);
    AWAIT_GOT(&bed.line[0], size - 15);
    /* Once for each length byte at most, and once for each whole frame. */
    CHECK(atomic_load(&bed.line[0].offers) <= 30);
    close(fd);
    fd = raw_connect(bed.port);
    raw_send(fd, stream, size);
    AWAIT_LINES(&bed, 2);
    AWAIT_GOT(&bed.line[1], size - 15);
    CHECK(memcmp(bed.line[0].head, bed.line[1].head, size - 15) == 0);
    CHECK_EQ(atomic_load(&bed.line[0].got), size - 15);
    close(fd);
    bed_close(&bed);
}

/* A frame of 4 MiB, announced at once. */
static int64_t take_large(struct line *line, const unsigned char *data, size_t size)
{
    const size_t whole = 4u << 20;

    if (size < whole) {
        spn__conn_want(line->conn, whole);
        return 0;
    }
    CHECK(memcmp(data, big, whole) == 0);
    line_keep(line, data, whole);
    return (int64_t)whole;
}

/* A large frame is offered in one piece, and its memory grows with what has come, not
 * with what was announced. */
TEST(net__large_frame__whole_and_grown_by_need, "NET-10", "NET-13")
{
    const size_t whole = 4u << 20;
    int fds[8], fd;
    struct rusage before, after;

    for (size_t i = 0; i < whole; i++)
        big[i] = (unsigned char)(i * 13 + (i >> 10));
    bed_open(&bed, NULL);
    bed.use = take_large;
    fd = raw_connect(bed.port);
    for (size_t at = 0; at < whole; at += 65536)
        raw_send(fd, big + at, 65536);
    AWAIT_LINES(&bed, 1);
    AWAIT_GOT(&bed.line[0], whole);
    CHECK(atomic_load(&bed.line[0].offers) == 2);
    close(fd);

    getrusage(RUSAGE_SELF, &before);
    for (int i = 0; i < 8; i++) { /* 32 MiB announced, 80 bytes sent */
        fds[i] = raw_connect(bed.port);
        raw_send(fds[i], "0123456789", 10);
    }
    AWAIT_LINES(&bed, 9);
    for (int i = 1; i < 9; i++)
        T_AWAIT(atomic_load(&bed.line[i].offers) == 1);
    getrusage(RUSAGE_SELF, &after);
    CHECK(after.ru_maxrss - before.ru_maxrss < 16 << 10);
    for (int i = 0; i < 8; i++)
        close(fds[i]);
    bed_close(&bed);
}

static int64_t not_the_protocol(struct line *line, const unsigned char *data,
                                size_t size)
{
    (void)line;
    (void)data;
    (void)size;
    return SPN_EPROTO;
}

/* A negative answer from `bytes` closes the connection with it. */
TEST(net__bytes_refused__closed_with_it, "NET-11")
{
    int fd;

    bed_open(&bed, NULL);
    bed.use = not_the_protocol;
    fd = raw_connect(bed.port);
    raw_send(fd, "GET", 3);
    AWAIT_LINES(&bed, 1);
    CHECK_WHY(&bed.line[0], SPN_EPROTO);
    close(fd);
    bed_close(&bed);
}

/* Takes one byte and pauses. */
static int64_t one_and_pause(struct line *line, const unsigned char *data, size_t size)
{
    (void)size;
    spn__conn_pause(line->conn);
    line_keep(line, data, 1); /* from here on the test may resume */
    return 1;
}

/* Paused: nothing is offered; each resume brings what was left over, without any new
 * byte from the peer.  Two who pause must both resume. */
TEST(net__paused__nothing_until_resumed, "NET-12")
{
    struct spn__transport_opts opts = { .loops = 1 };
    struct line *const line = &bed.line[0];
    int fd;

    bed_open(&bed, &opts);
    bed.use = one_and_pause;
    fd = raw_connect(bed.port);
    raw_send(fd, "abcdef", 6);
    AWAIT_LINES(&bed, 1);
    AWAIT_GOT(line, 1);
    spn__conn_pause(line->conn);
    spn__conn_resume(line->conn);
    raw_send(fd, "gh", 2);
    close(raw_connect(bed.port)); /* the same loop has been through a turn when */
    T_AWAIT(atomic_load(&bed.line[1].closed));
    CHECK_EQ(atomic_load(&line->got), 1);
    for (size_t n = 2; n <= 8; n++) {
        spn__conn_resume(line->conn);
        AWAIT_GOT(line, n);
        CHECK_EQ(atomic_load(&line->got), n);
    }
    CHECK(memcmp(line->head, "abcdefgh", 8) == 0);
    CHECK_EQ(atomic_load(&line->offers), 8);
    close(fd);
    bed_close(&bed);
}

enum { HELD = 60000, FULL = 1 << 20 };

static struct spn__budget scarce;
static atomic_int has_sent;

static int wait_for_bytes(struct line *line)
{
    (void)line;
    T_AWAIT(atomic_load(&has_sent) != 0);
    return 0;
}

/* Pauses at first and takes nothing.  By then others have taken all of the budget. */
static int64_t pause_at_first(struct line *line, const unsigned char *data, size_t size)
{
    if (atomic_load(&line->offers) == 1) {
        const uint64_t left = FULL - spn__budget_used(&scarce);

        CHECK(spn__budget_take(&scarce, left, SPN__SHARE_REQUESTS));
        spn__conn_pause(line->conn);
        return 0;
    }
    line_keep(line, data, size);
    return (int64_t)size;
}

/* Bytes that were read and that a paused layer does not take yet are kept though the budget is
 * full.  Where it is pressed before they are read, they cost it nothing. */
static void hold_back(uint64_t used)
{
    struct spn__transport_opts opts = { .loops = 1, .budget = &scarce };
    struct line *const line = &bed.line[0];
    unsigned char *bytes = malloc(HELD);
    int fd;

    REQUIRE(bytes != NULL);
    memset(bytes, 'b', HELD);
    spn__budget_init(&scarce, FULL);
    REQUIRE(spn__budget_take(&scarce, used, SPN__SHARE_REQUESTS));
    atomic_store(&has_sent, 0);
    bed_open(&bed, &opts);
    bed.open = wait_for_bytes;
    bed.use = pause_at_first;
    fd = raw_connect(bed.port);
    raw_send(fd, bytes, HELD);
    atomic_store(&has_sent, 1);
    T_AWAIT(atomic_load(&line->offers) != 0);
    close(raw_connect(bed.port)); /* the same loop has been through a turn when */
    T_AWAIT(atomic_load(&bed.line[1].closed));
    CHECK_EQ(atomic_load(&line->closed), 0);
    CHECK(spn__budget_used(&scarce) <= FULL + (used > FULL / 2 ? 0 : 65536));
    spn__conn_resume(line->conn);
    AWAIT_GOT(line, HELD);
    CHECK_EQ(atomic_load(&line->got), HELD);
    CHECK_EQ(atomic_load(&line->closed), 0);
    T_AWAIT(spn__budget_used(&scarce) == FULL); /* once the event has returned */
    close(fd);
    bed_close(&bed);
    free(bytes);
}

TEST(net__paused_and_the_budget_is_full__what_was_read_is_kept, "NET-12", "NET-32")
{
    hold_back(FULL);
}

TEST(net__budget_full_when_it_pauses__what_was_read_is_kept, "NET-12", "NET-32")
{
    hold_back(0);
}

/* ---- bytes out -------------------------------------------------------------------------- */

enum { SENDERS = 4, MESSAGES = 3000 };

struct message {
    uint32_t sender, number, size; /* and then bytes */
};

static void send_many(int index, void *arg)
{
    struct line *const line = arg;
    const int messages = t_rounds(MESSAGES);
    uint64_t last = 0, position = 0;
    unsigned char body[300];

    memset(body, index + 1, sizeof body);
    for (int i = 0; i < messages; i++) {
        const struct message head = { (uint32_t)index, (uint32_t)i,
                                      (uint32_t)(i * 7 % 300) };
        const struct spn__piece pieces[] = { { &head, sizeof head },
                                             { body, head.size } };
        const unsigned flags = i % 5 == 2 && i + 1 < messages ? SPN__SEND_MORE
                               : i % 7 == 3                   ? SPN__SEND_SOON
                                                              : 0;
        int rc;

        do {
            rc = spn__conn_send(line->conn, pieces, 2, flags, &position);
            if (rc == SPN_EFULL)
                t_pause();
        } while (rc == SPN_EFULL);
        CHECK_OK(rc);
        CHECK(position > last);
        last = position;
    }
}

/* Reads the stream and checks it message by message. */
static void *check_many(void *arg)
{
    const int fd = *(const int *)arg, messages = t_rounds(MESSAGES);
    uint32_t next[SENDERS] = { 0 };
    unsigned char body[300];

    for (int i = 0; i < SENDERS * messages; i++) {
        struct message head;

        raw_read(fd, &head, sizeof head);
        REQUIRE(head.sender < SENDERS && head.size < sizeof body);
        CHECK_EQ(head.number, next[head.sender]++);
        raw_read(fd, body, head.size);
        for (uint32_t at = 0; at < head.size; at++)
            REQUIRE(body[at] == head.sender + 1);
    }
    return NULL;
}

static void senders(int most)
{
    struct spn__transport_opts opts = { .loops = 1, .max_unwritten = 256 << 10 };
    pthread_t reader;
    int fd;

    atomic_store(&write_most, most);
    bed_open(&bed, &opts);
    fd = raw_connect(bed.port);
    AWAIT_LINES(&bed, 1);
    REQUIRE(pthread_create(&reader, NULL, check_many, &fd) == 0);
    t_parallel(SENDERS, send_many, &bed.line[0]);
    pthread_join(reader, NULL);
    T_AWAIT(spn__conn_unwritten(bed.line[0].conn) == 0);
    atomic_store(&write_most, 0);
    close(fd);
    bed_close(&bed);
}

/* Messages of several threads arrive whole, each thread's in order, and none is lost or
 * doubled; also when the socket takes a few bytes at a time. */
TEST(net__many_senders__whole_and_in_order, "NET-14")
{
    senders(0);
}

TEST(net__many_senders_short_writes__whole_and_in_order, "NET-14", "NET-18")
{
    senders(101);
}

/* Everything sent inside one event is one write. */
static int64_t answer_thrice(struct line *line, const unsigned char *data, size_t size)
{
    for (int i = 0; i < 3; i++)
        CHECK_OK(line_send(line, data, size));
    return (int64_t)size;
}

TEST(net__sent_inside_an_event__one_write, "NET-15")
{
    char text[12];
    int fd;

    bed_open(&bed, NULL);
    bed.use = answer_thrice;
    fd = raw_connect(bed.port);
    AWAIT_LINES(&bed, 1);
    atomic_store(&writes, 0);
    raw_send(fd, "abcd", 4);
    raw_read(fd, text, 12);
    CHECK_EQ(atomic_load(&writes), 1);
    CHECK(memcmp(text, "abcdabcdabcd", 12) == 0);
    close(fd);
    bed_close(&bed);
}

/* More than the gathering buffer holds, in one event, is still in order. */
static int64_t answer_much(struct line *line, const unsigned char *data, size_t size)
{
    (void)data;
    for (size_t at = 0; at < sizeof big / 8; at += 20000)
        CHECK_OK(line_send(line, big + at, 20000));
    return (int64_t)size;
}

TEST(net__much_sent_inside_an_event__in_order, "NET-15", "NET-14", "NET-18")
{
    const size_t size = (sizeof big / 8 + 19999) / 20000 * 20000;
    unsigned char *got = malloc(size);
    int fd;

    for (size_t i = 0; i < size; i++)
        big[i] = (unsigned char)(i * 11 + (i >> 8));
    bed_open(&bed, NULL);
    bed.use = answer_much;
    fd = raw_connect(bed.port);
    raw_send(fd, "go", 2);
    raw_read(fd, got, size);
    CHECK(memcmp(got, big, size) == 0);
    close(fd);
    free(got);
    bed_close(&bed);
}

/* The bound: refused whole, urgent ones pass, a message larger than the bound goes when
 * nothing waits, and there is room again when the peer has read. */
TEST(net__peer_never_reads__bounded, "NET-16", "P18")
{
    struct spn__transport_opts opts = { .loops = 1, .max_unwritten = 100000 };
    struct line *const line = &bed.line[0];
    const struct spn__piece small = { big, 10 };
    uint64_t before, after;
    unsigned char *got;
    size_t waiting;
    int fd;

    bed_open(&bed, &opts);
    fd = raw_connect(bed.port);
    AWAIT_LINES(&bed, 1);
    CHECK_OK(line_send(line, big, sizeof big)); /* larger than the bound */
    waiting = spn__conn_unwritten(line->conn);
    CHECK(waiting > 100000);
    CHECK_STATUS(line_send(line, big, 10), SPN_EFULL);
    CHECK_STATUS(spn__conn_send(line->conn, &small, 1, SPN__SEND_MORE, &before),
                 SPN_EFULL);
    CHECK_OK(spn__conn_send(line->conn, &small, 1, SPN__SEND_URGENT, &after));
    CHECK_EQ(after, sizeof big + 10); /* nothing else was counted */
    got = malloc(sizeof big + 10);
    raw_read(fd, got, sizeof big + 10);
    CHECK(memcmp(got, big, sizeof big) == 0);
    T_AWAIT(spn__conn_unwritten(line->conn) == 0);
    CHECK_EQ(spn__conn_written(line->conn), after);
    CHECK_OK(line_send(line, big, 10));
    raw_read(fd, got, 10);
    free(got);
    close(fd);
    bed_close(&bed);
}

/* A thread that is not the loop's writes by itself and wakes nobody; and any number of
 * messages that wait wake the loop once. */
TEST(net__sent_from_elsewhere__loop_not_woken, "NET-17", "P39")
{
    struct spn__transport_opts opts = { .loops = 1 };
    struct spn__transport_stats before, after;
    char text[4];
    int fd;

    bed_open(&bed, &opts);
    fd = raw_connect(bed.port);
    AWAIT_LINES(&bed, 1);
    raw_send(fd, "sync", 4);
    AWAIT_GOT(&bed.line[0], 4);
    spn__transport_get_stats(bed.transport, &before);
    for (int i = 0; i < 100; i++) {
        CHECK_OK(line_send(&bed.line[0], "abcd", 4));
        raw_read(fd, text, 4);
    }
    spn__transport_get_stats(bed.transport, &after);
    CHECK_EQ(after.wakeups, before.wakeups);
    CHECK_OK(line_send(&bed.line[0], big, 4 << 20)); /* fills the socket */
    for (int i = 0; i < 100; i++)
        CHECK_OK(line_send(&bed.line[0], "abcd", 4));
    spn__transport_get_stats(bed.transport, &after);
    CHECK(after.wakeups - before.wakeups <= 1);
    close(fd);
    bed_close(&bed);
}

static int ask_to_tell(struct line *line)
{
    spn__conn_tell_written(line->conn, true);
    return 0;
}

/* `written` tells how far the stream has gone, on the loop, whoever wrote, and once nobody
 * asks any more nothing is told, nor is the loop woken. */
TEST(net__written__told_on_the_loop, "NET-14")
{
    struct spn__transport_opts opts = { .loops = 1 };
    struct spn__transport_stats before, after;
    char text[12];
    int fd;

    memset(&bed, 0, sizeof bed);
    bed.open = ask_to_tell;
    REQUIRE_OK(spn__transport_create(&opts, &bed.transport));
    bed_listen(&bed, "127.0.0.1", &line_events_written);
    fd = raw_connect(bed.port);
    AWAIT_LINES(&bed, 1);
    CHECK_OK(line_send(&bed.line[0], "abcd", 4));
    T_AWAIT(atomic_load(&bed.line[0].written) == 4);
    CHECK_OK(line_send(&bed.line[0], "efgh", 4));
    T_AWAIT(atomic_load(&bed.line[0].written) == 8);
    spn__conn_tell_written(bed.line[0].conn, false);
    spn__transport_get_stats(bed.transport, &before);
    CHECK_OK(line_send(&bed.line[0], "ijkl", 4));
    raw_read(fd, text, sizeof text);
    CHECK(memcmp(text, "abcdefghijkl", 12) == 0);
    spn__transport_get_stats(bed.transport, &after);
    CHECK_EQ(after.wakeups, before.wakeups);
    CHECK_EQ(atomic_load(&bed.line[0].written), 8);
    close(fd);
    bed_close(&bed);
}

/* Answers the first byte.  With the second the connection has something to look after, and is
 * closed. */
static int64_t answer_then_close(struct line *line, const unsigned char *data,
                                 size_t size)
{
    if (data[0] == 'a') {
        CHECK_OK(line_send(line, "abcd", 4));
        return (int64_t)size;
    }
    spn__conn_pause(line->conn);
    spn__conn_resume(line->conn);
    spn__conn_close(line->conn, SPN_EPROTO);
    return (int64_t)size;
}

/* As a sender does that finds too much unwritten. */
static void ask_when_closed(void *context, struct spn__conn *conn, int why)
{
    line_closed(context, conn, why);
    spn__conn_tell_written(conn, true);
}

static const struct spn__conn_events line_events_asking = { .opened = line_opened,
                                                            .bytes = line_bytes,
                                                            .written = line_written,
                                                            .closed = ask_when_closed };

/* `written` is not told behind `closed`, whoever asks for it then. */
TEST(net__written_asked_for_when_closed__not_told, "NET-1")
{
    struct spn__transport_opts opts = { .loops = 1 };
    char text[4];
    int fd;

    memset(&bed, 0, sizeof bed);
    bed.use = answer_then_close;
    REQUIRE_OK(spn__transport_create(&opts, &bed.transport));
    bed_listen(&bed, "127.0.0.1", &line_events_asking);
    fd = raw_connect(bed.port);
    raw_send(fd, "a", 1);
    raw_read(fd, text, sizeof text);
    raw_send(fd, "b", 1);
    AWAIT_LINES(&bed, 1);
    CHECK_WHY(&bed.line[0], SPN_EPROTO);
    close(fd);
    bed_close(&bed); /* the loop has looked after all there was */
    CHECK_EQ(atomic_load(&bed.line[0].written), 0);
}

/* ---- the acceptor --------------------------------------------------------------------------- */

enum { POSTERS = 3, JOBS = 300 };

struct numbered {
    struct spn__net_job job;
    int poster, number;
};

static struct numbered jobs[POSTERS][JOBS];
static int next_job[POSTERS]; /* the loop's */
static atomic_int jobs_run, jobs_refused;

static void run_numbered(struct spn__net_job *job)
{
    const struct numbered *const mine = (const struct numbered *)job;

    CHECK(spn__conn_on_loop(bed.line[0].conn));
    CHECK(next_job[mine->poster] <= mine->number);
    next_job[mine->poster] = mine->number + 1;
    atomic_fetch_add(&jobs_run, 1);
}

enum { PEERS = 6 };

/* Pairs of connections that have the same thread. */
static int pairs(void)
{
    int same = 0;

    for (int i = 0; i < PEERS; i++)
        for (int j = 0; j < i; j++)
            same += pthread_equal(bed.line[i].thread, bed.line[j].thread) != 0;
    return same;
}

static void connect_peers(int fds[PEERS])
{
    for (int i = 0; i < PEERS; i++) {
        fds[i] = raw_connect(bed.port);
        AWAIT_LINES(&bed, i + 1);
    }
}

/* Each asks once and is answered. */
static void ask_peers(const int fds[PEERS], unsigned number)
{
    unsigned answer;

    for (int i = 0; i < PEERS; i++)
        raw_send(fds[i], &number, sizeof number);
    for (int i = 0; i < PEERS; i++) {
        raw_read(fds[i], &answer, sizeof answer);
        CHECK_EQ(answer, number);
    }
}

static void close_peers(const int fds[PEERS])
{
    for (int i = 0; i < PEERS; i++)
        close(fds[i]);
}

/* Connections that have little to do are together on one loop. */
TEST(net__accepted__together_on_one_loop, "NET-19", "NET-28")
{
    struct spn__transport_opts opts = { .loops = 3 };
    struct spn__transport_stats stats;
    unsigned answer;
    int fds[PEERS];

    bed_open(&bed, &opts);
    bed.use = echo;
    connect_peers(fds);
    for (unsigned i = 0; i < 200; i++) { /* one ready at a time: nobody waits */
        raw_send(fds[i % PEERS], &i, sizeof i);
        raw_read(fds[i % PEERS], &answer, sizeof answer);
        CHECK_EQ(answer, i);
    }
    CHECK_EQ(pairs(), PEERS * (PEERS - 1) / 2);
    spn__transport_get_stats(bed.transport, &stats);
    CHECK_EQ(stats.moved, 0);
    close_peers(fds);
    bed_close(&bed);
}

/* Takes a millisecond for every request, so that those who wait do so for long. */
static int64_t echo_slowly(struct line *line, const unsigned char *data, size_t size)
{
    const int64_t until = spn_clock_now(spn_clock_monotonic()) + SPN_MS(1);

    while (spn_clock_now(spn_clock_monotonic()) < until)
        ;
    return echo(line, data, size);
}

/* Until there are two on each of three loops; some rounds more, since a connection shows
 * where it is by its events. */
static void ask_until_even(const int fds[PEERS])
{
    int even = 0;

    for (unsigned i = 0; i < 10000 && even < 3; i++) {
        ask_peers(fds, i);
        even = pairs() == 3 ? even + 1 : 0;
    }
    CHECK_EQ(even, 3);
}

/* A loop whose connections wait for each other hands some over: in the end there are as
 * many on each of the loops, and from then on they stay. */
TEST(net__crowded_loop__hands_over_until_even, "NET-29")
{
    struct spn__transport_opts opts = { .loops = 3 };
    struct spn__transport_stats before, after;
    int fds[PEERS];

    bed_open(&bed, &opts);
    bed.use = echo_slowly;
    connect_peers(fds);
    CHECK_EQ(pairs(), PEERS * (PEERS - 1) / 2);
    ask_until_even(fds);
    spn__transport_get_stats(bed.transport, &before);
    CHECK(before.moved >= 4);
    for (unsigned i = 0; i < 50; i++)
        ask_peers(fds, i);
    spn__transport_get_stats(bed.transport, &after);
    CHECK_EQ(after.moved, before.moved);
    CHECK_EQ(after.open, PEERS);
    close_peers(fds);
    bed_close(&bed);
}

/* Those that were made by connect, and those that a job was posted to, stay; and when the
 * last accepted one has gone, the next are together again. */
TEST(net__handed_over__not_if_it_must_stay, "NET-29", "NET-19", "NET-24")
{
    struct spn__transport_opts opts = { .loops = 3 };
    int fds[PEERS];

    memset(next_job, 0, sizeof next_job);
    atomic_store(&jobs_run, 0);
    bed_open(&bed, &opts);
    bed.use = echo_slowly;
    connect_peers(fds);
    jobs[0][0] = (struct numbered){ { .fn = run_numbered }, 0, 0 };
    CHECK_OK(spn__conn_post(bed.line[0].conn, &jobs[0][0].job));
    ask_until_even(fds);
    CHECK_EQ(atomic_load(&bed.line[0].moves), 0);
    CHECK_EQ(atomic_load(&jobs_run), 1);
    close_peers(fds);
    for (int i = 0; i < PEERS; i++)
        AWAIT_CLOSED(&bed.line[i]);
    for (int i = 0; i < 3; i++) {
        fds[i] = raw_connect(bed.port);
        AWAIT_LINES(&bed, PEERS + i + 1);
        CHECK(pthread_equal(bed.line[PEERS].thread, bed.line[PEERS + i].thread));
    }
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    bed_close(&bed);
}

static atomic_int holds;

/* Does not come back before it may. */
static int64_t hold(struct line *line, const unsigned char *data, size_t size)
{
    (void)line;
    (void)data;
    while (atomic_load(&holds))
        t_pause();
    return (int64_t)size;
}

/* While a handler holds its loop up, connections are dealt to others. */
TEST(net__loop_held_up__dealt_to_others, "NET-30")
{
    struct spn__transport_opts opts = { .loops = 2 };
    struct spn__transport_stats stats;
    int64_t since;
    int fds[4];

    atomic_store(&holds, 1);
    bed_open(&bed, &opts);
    bed.use = hold;
    fds[0] = raw_connect(bed.port);
    AWAIT_LINES(&bed, 1);
    raw_send(fds[0], "x", 1);
    T_AWAIT(atomic_load(&bed.line[0].inside));
    fds[1] = raw_connect(bed.port); /* this one has to wait: nobody knows yet */
    do
        spn__transport_get_stats(bed.transport, &stats);
    while (stats.accepted < 2);
    since = spn_clock_now(spn_clock_monotonic());
    T_AWAIT(spn_clock_now(spn_clock_monotonic()) - since > SPN_MS(20));
    for (int i = 2; i < 4; i++) {
        fds[i] = raw_connect(bed.port);
        AWAIT_LINES(&bed, i);
        CHECK(!pthread_equal(bed.line[0].thread, bed.line[i - 1].thread));
    }
    CHECK_EQ(atomic_load(&bed.line[0].inside), 1);
    atomic_store(&holds, 0);
    AWAIT_LINES(&bed, 4); /* the one that waited is served */
    CHECK(pthread_equal(bed.line[0].thread, bed.line[3].thread));
    for (int i = 0; i < 4; i++)
        close(fds[i]);
    bed_close(&bed);
}

/* Without descriptors the acceptor waits a little and tries again; the connection that
 * waited is taken in the end. */
TEST(net__no_descriptor__waits_and_goes_on, "NET-20")
{
    struct spn__transport_stats stats;
    int fd;

    bed_open(&bed, NULL);
    atomic_store(&put_off, 0);
    atomic_store(&no_accepts, 3);
    fd = raw_connect(bed.port); /* the kernel's backlog takes it */
    AWAIT_LINES(&bed, 1);
    CHECK_EQ(atomic_load(&put_off), 3);
    spn__transport_get_stats(bed.transport, &stats);
    CHECK_EQ(stats.accept_failures, 3);
    CHECK_EQ(stats.accepted, 1);
    close(fd);
    bed_close(&bed);
}

static void exhaust(void *arg)
{
    struct spn__transport_opts opts = { .loops = 1 };
    struct spn__transport_stats stats;
    struct rlimit limit;
    struct rusage before, after;
    int fds[3], spare[256], spares = 0, used;
    int64_t cpu_us;

    (void)arg;
    bed_open(&bed, &opts);
    fds[0] = raw_connect(bed.port);
    AWAIT_LINES(&bed, 1);
    used = dup(0);
    limit = (struct rlimit){ (rlim_t)used + 20, (rlim_t)used + 20 };
    close(used);
    REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    fds[1] = socket(AF_INET, SOCK_STREAM, 0);
    while (spares < 256 && (spare[spares] = dup(0)) >= 0)
        spares++;
    REQUIRE(spares > 0 && spares < 256);
    {
        const struct sockaddr_in to = raw_address(bed.port);

        getrusage(RUSAGE_SELF, &before);
        REQUIRE(connect(fds[1], (const struct sockaddr *)&to, sizeof to) == 0);
    }
    do { /* it comes back again and again, and does not spin */
        t_pause();
        spn__transport_get_stats(bed.transport, &stats);
    } while (stats.accept_failures < 5);
    getrusage(RUSAGE_SELF, &after);
    cpu_us = (after.ru_stime.tv_sec - before.ru_stime.tv_sec) * 1000000 +
             after.ru_stime.tv_usec - before.ru_stime.tv_usec;
    CHECK(stats.accept_failures < 1000);
    CHECK(cpu_us < 5000000);
    CHECK_EQ(atomic_load(&bed.lines), 1);
    raw_send(fds[0], "still served", 12);
    AWAIT_GOT(&bed.line[0], 12);
    while (spares > 0)
        close(spare[--spares]);
    AWAIT_LINES(&bed, 2);
    raw_send(fds[1], "now too", 7);
    AWAIT_GOT(&bed.line[1], 7);
    close(fds[0]);
    close(fds[1]);
    bed_close(&bed);
}

/* The same with the real limit, in a process of its own. */
TEST(net__descriptors_exhausted__served_later, "NET-20")
{
    CHECK_CHILD(exhaust, NULL);
}

/* Beyond the limit a connection is closed at once; when one has gone there is room. */
TEST(net__more_than_max__closed_at_once, "NET-21")
{
    struct spn__transport_opts opts = { .loops = 1, .max_connections = 2 };
    struct spn__transport_stats stats;
    int fds[4];

    bed_open(&bed, &opts);
    for (int i = 0; i < 3; i++)
        fds[i] = raw_connect(bed.port);
    raw_check_end(fds[2]);
    AWAIT_LINES(&bed, 2);
    spn__transport_get_stats(bed.transport, &stats);
    CHECK_EQ(stats.accepted, 2);
    CHECK_EQ(stats.refused, 1);
    CHECK_EQ(stats.open, 2);
    close(fds[0]);
    CHECK_WHY(&bed.line[0], 0);
    fds[3] = raw_connect(bed.port);
    AWAIT_LINES(&bed, 3);
    for (int i = 1; i < 4; i++)
        close(fds[i]);
    bed_close(&bed);
}

static void listen_on(const char *host)
{
    struct line client = { .bed = &bed };

    memset(&bed, 0, sizeof bed);
    REQUIRE_OK(spn__transport_create(NULL, &bed.transport));
    bed_listen(&bed, host, &line_events);
    REQUIRE_OK(
        spn__transport_connect(bed.transport,
                               host != NULL && host[0] == ':' ? host : "127.0.0.1",
                               bed.port, SPN_SEC(30), &line_events, &bed, &client,
                               &client.conn));
    AWAIT_LINES(&bed, 1);
    T_AWAIT(atomic_load(&client.opened));
    CHECK_STR(spn__conn_remote(client.conn), spn__conn_local(bed.line[0].conn));
    CHECK_EQ(spn__conn_remote(client.conn)[0] == '[', host != NULL && host[0] == ':');
    CHECK_OK(line_send(&client, "x", 1));
    AWAIT_GOT(&bed.line[0], 1);
    CHECK_OK(spn__transport_stop(bed.transport));
    line_close(&client);
    bed_close(&bed);
}

/* IPv4, localhost, all addresses; IPv6 where there is any. */
TEST(net__listen_addresses__reachable, "NET-22")
{
    listen_on("127.0.0.1");
    listen_on("localhost");
    listen_on("0.0.0.0");
    listen_on(NULL);
}

TEST(net__listen_ipv6__reachable, "NET-22")
{
    const struct sockaddr_in6 at = { .sin6_family = AF_INET6,
                                     .sin6_addr = IN6ADDR_LOOPBACK_INIT };
    const int fd = socket(AF_INET6, SOCK_STREAM, 0);
    const bool there =
        fd >= 0 && bind(fd, (const struct sockaddr *)&at, sizeof at) == 0;

    if (fd >= 0)
        close(fd);
    if (!there) {
        t_skip("no IPv6 here");
        return;
    }
    listen_on("::1");
}

/* An address that is taken, a host that is none or another machine, a port that is none. */
TEST(net__listen_badly__refused, "NET-22")
{
    struct spn__listener *listener;
    struct spn__listen_opts opts = { .host = "127.0.0.1" };

    bed_open(&bed, NULL);
    opts.port = bed.port;
    CHECK_STATUS(spn__transport_listen(bed.transport, &opts, &line_events, &bed,
                                       &listener),
                 SPN_EADDRINUSE);
    CHECK(listener == NULL);
    opts = (struct spn__listen_opts){ .host = "not an address" };
    CHECK_STATUS(spn__transport_listen(bed.transport, &opts, &line_events, &bed,
                                       &listener),
                 SPN_EINVAL);
    opts = (struct spn__listen_opts){ .host = "192.0.2.1" };
    CHECK_STATUS(spn__transport_listen(bed.transport, &opts, &line_events, &bed,
                                       &listener),
                 SPN_EINVAL);
    opts = (struct spn__listen_opts){ .host = "127.0.0.1", .port = 65536 };
    CHECK_STATUS(spn__transport_listen(bed.transport, &opts, &line_events, &bed,
                                       &listener),
                 SPN_EINVAL);
    opts = (struct spn__listen_opts){ .host = "127.0.0.1", .backlog = -1 };
    CHECK_STATUS(spn__transport_listen(bed.transport, &opts, &line_events, &bed,
                                       &listener),
                 SPN_EINVAL);
    bed_close(&bed);
}

/* A closed listener takes nobody; its connections live on. */
TEST(net__listener_closed__connections_live_on, "NET-23")
{
    struct line client;
    int fd, port;

    bed_open(&bed, NULL);
    port = bed.port;
    fd = raw_connect(port);
    AWAIT_LINES(&bed, 1);
    CHECK_OK(spn__listener_close(bed.listener));
    bed.listener = NULL;
    REQUIRE_OK(bed_connect(&bed, &client, port, SPN_SEC(30)));
    CHECK_WHY(&client, SPN_EUNREACHABLE);
    line_close(&client);
    raw_send(fd, "x", 1);
    AWAIT_GOT(&bed.line[0], 1);
    close(fd);
    bed_close(&bed);
}

/* ---- jobs, stop, destroy ----------------------------------------------------------------------- */

static void post_all(int index, void *arg)
{
    (void)arg;
    for (int i = 0; i < JOBS; i++) {
        int rc;

        jobs[index][i] = (struct numbered){ { .fn = run_numbered }, index, i };
        rc = spn__conn_post(bed.line[0].conn, &jobs[index][i].job);
        CHECK(rc == SPN_OK || rc == SPN_ESHUTDOWN);
        if (rc != SPN_OK)
            atomic_fetch_add(&jobs_refused, 1);
    }
}

static void *stop_it(void *arg)
{
    (void)arg;
    CHECK_OK(spn__transport_stop(bed.transport));
    return NULL;
}

/* Each job that was taken runs once, in its poster's order, on the loop; while the
 * transport is stopped each one is either run or refused. */
TEST(net__jobs__run_once_in_order_or_refused, "NET-24")
{
    for (int stops = 0; stops < 2; stops++) {
        pthread_t stopper;
        int fd;

        memset(next_job, 0, sizeof next_job);
        atomic_store(&jobs_run, 0);
        atomic_store(&jobs_refused, 0);
        bed_open(&bed, NULL);
        fd = raw_connect(bed.port);
        AWAIT_LINES(&bed, 1);
        if (stops)
            REQUIRE(pthread_create(&stopper, NULL, stop_it, NULL) == 0);
        t_parallel(POSTERS, post_all, NULL);
        if (stops)
            pthread_join(stopper, NULL);
        T_AWAIT(atomic_load(&jobs_run) + atomic_load(&jobs_refused) >= POSTERS * JOBS);
        CHECK_EQ(atomic_load(&jobs_run) + atomic_load(&jobs_refused), POSTERS * JOBS);
        if (!stops)
            CHECK_EQ(atomic_load(&jobs_refused), 0);
        CHECK_OK(spn__transport_stop(bed.transport));
        CHECK_STATUS(spn__conn_post(bed.line[0].conn, &jobs[0][0].job), SPN_ESHUTDOWN);
        close(fd);
        bed_close(&bed);
    }
}

static int stop_status, close_status;

static int64_t stop_inside(struct line *line, const unsigned char *data, size_t size)
{
    (void)data;
    stop_status = spn__transport_stop(line->bed->transport);
    close_status = spn__listener_close(line->bed->listener);
    line_keep(line, data, size);
    return (int64_t)size;
}

/* From an I/O thread neither stop nor listener_close waits for itself. */
TEST(net__stopped_from_its_own_thread__deadlock_told, "NET-25")
{
    int fd;

    bed_open(&bed, NULL);
    bed.use = stop_inside;
    fd = raw_connect(bed.port);
    raw_send(fd, "x", 1);
    AWAIT_LINES(&bed, 1);
    AWAIT_GOT(&bed.line[0], 1);
    CHECK_STATUS(stop_status, SPN_EDEADLK);
    CHECK_STATUS(close_status, SPN_EDEADLK);
    close(fd);
    bed_close(&bed);
}

static atomic_int pouring;

static void *pour(void *arg)
{
    struct line *const line = arg;

    while (line_send(line, big, 1000) != SPN_ECLOSED)
        atomic_store(&pouring, 1);
    return NULL;
}

/* Stop with traffic in both directions: every `closed` has been called when it returns,
 * senders learn of it, and what is called afterwards fails in order. */
TEST(net__stopped_with_traffic__every_connection_closed, "NET-25", "NET-26")
{
    enum { PAIRS = 4 };
    const int rounds = t_rounds(20);

    for (int round = 0; round < rounds; round++) {
        struct line clients[PAIRS], late;
        pthread_t threads[PAIRS];

        bed_open(&bed, NULL);
        bed.use = NULL;
        atomic_store(&pouring, 0);
        for (int i = 0; i < PAIRS; i++)
            REQUIRE_OK(bed_connect(&bed, &clients[i], bed.port, SPN_SEC(30)));
        AWAIT_LINES(&bed, PAIRS);
        for (int i = 0; i < PAIRS; i++)
            REQUIRE(pthread_create(&threads[i], NULL, pour,
                                   i % 2 != 0 ? &clients[i] : &bed.line[i]) == 0);
        T_AWAIT(atomic_load(&pouring));
        CHECK_STATUS(spn__transport_destroy(bed.transport), SPN_EBUSY);
        CHECK_OK(spn__transport_stop(bed.transport));
        for (int i = 0; i < PAIRS; i++) {
            CHECK_EQ(atomic_load(&clients[i].closed), 1);
            CHECK_EQ(atomic_load(&bed.line[i].closed), 1);
        }
        for (int i = 0; i < PAIRS; i++)
            pthread_join(threads[i], NULL);
        CHECK_OK(spn__transport_stop(bed.transport));
        CHECK_STATUS(bed_connect(&bed, &late, bed.port, SPN_SEC(1)), SPN_ESHUTDOWN);
        CHECK_STATUS(spn__transport_destroy(bed.transport), SPN_EBUSY); /* references */
        for (int i = 0; i < PAIRS; i++)
            line_close(&clients[i]);
        bed_close(&bed);
    }
}

/* Connecting while the transport is stopped: refused, or one `closed`. */
static void *connect_on(void *arg)
{
    struct line *const lines = arg;

    for (int i = 0; i < 50; i++) {
        const int rc = bed_connect(&bed, &lines[i], bed.port, SPN_SEC(30));

        CHECK(rc == SPN_OK || rc == SPN_ESHUTDOWN);
    }
    return NULL;
}

TEST(net__connect_races_stop__closed_once_or_refused, "NET-25")
{
    static struct line lines[50];
    const int rounds = t_rounds(20);

    for (int round = 0; round < rounds; round++) {
        pthread_t thread;

        bed_open(&bed, NULL);
        memset(lines, 0, sizeof lines);
        REQUIRE(pthread_create(&thread, NULL, connect_on, lines) == 0);
        if (round % 2 != 0)
            T_AWAIT(atomic_load(&bed.lines) > 0);
        CHECK_OK(spn__transport_stop(bed.transport));
        pthread_join(thread, NULL);
        for (int i = 0; i < 50; i++) {
            CHECK_EQ(atomic_load(&lines[i].closed), lines[i].conn != NULL);
            line_close(&lines[i]);
        }
        bed_close(&bed);
    }
}

/* Options that make no sense. */
TEST(net__bad_options__refused, "NET-26")
{
    const struct spn__transport_opts bad[] = { { .loops = -1 },
                                               { .loops = INT_MAX },
                                               { .max_connections = -1 },
                                               { .linger_ns = -1 } };
    struct spn__transport *transport;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        transport = (void *)&bed;
        CHECK_STATUS(spn__transport_create(&bad[i], &transport), SPN_EINVAL);
        CHECK(transport == NULL);
    }
    CHECK_OK(spn__transport_destroy(NULL));
}

static void keep_stack(void *ctx, const spn_exhaustion *what)
{
    FILE *file = what->file != NULL ? fopen(what->file, "r") : NULL;
    char line[512] = "";

    while (file != NULL && fgets(line, sizeof line, file) != NULL &&
           strncmp(line, "\"stacked-0\" ", 12) != 0) {
    }
    if (file == NULL || fgets(line, sizeof line, file) == NULL)
        strcpy(line, "no such thread");
    if (file != NULL)
        (void)fclose(file);
    CHECK_EQ(unlink(what->file), 0);
    if (!CHECK(strncmp(line, "    #0 ", 7) == 0 || T_TSAN)) /* which delays signals */
        fprintf(stderr, "  %s\n", line);
    atomic_store((atomic_int *)ctx, 1);
}

/* The report of an exhausted pool has the stacks of I/O threads, too. */
TEST(net__pool_exhausted__report_has_io_threads, "X-14", "REP-5")
{
    const struct spn__transport_opts two = { .loops = 2, .thread_name = "stacked" };
    spn_reject_report_opts ropts = SPN_REJECT_REPORT_OPTS_INIT;
    spn_pool_opts opts = SPN_POOL_OPTS_INIT;
    atomic_int heard = 0;
    spn_reject_report *report;
    spn_pool *pool;

    ropts.dir = "/tmp";
    ropts.exhausted = keep_stack;
    ropts.ctx = &heard;
    REQUIRE_OK(spn_reject_report_create(&report, &ropts));
    bed_open(&bed, &two);
    opts.reject = spn_reject_report_policy(report);
    REQUIRE_OK(spn_pool_create(&pool, &opts));
    CHECK_OK(spn_report_pool(report, pool));
    T_AWAIT(atomic_load(&heard));
    CHECK_OK(spn_pool_close(pool));
    CHECK_OK(spn_pool_destroy(pool));
    CHECK_OK(spn_reject_report_destroy(report));
    bed_close(&bed);
}

/* After all this no block of memory is left, pass after pass. */
TEST(net__again_and_again__no_memory_left, "NET-26")
{
    long before = 0;

    for (int pass = 0; pass < 4; pass++) {
        struct line client;
        int fd;

        bed_open(&bed, NULL);
        bed.use = take_frames;
        fd = raw_connect(bed.port);
        raw_send(fd, "\7abc", 4); /* a frame that stays incomplete */
        REQUIRE_OK(bed_connect(&bed, &client, bed.port, SPN_SEC(30)));
        AWAIT_LINES(&bed, 2);
        CHECK_OK(line_send(&bed.line[0], big, 1 << 20));
        T_AWAIT(atomic_load(&client.opened));
        CHECK_OK(spn__transport_stop(bed.transport));
        line_close(&client);
        bed_close(&bed);
        close(fd);
        if (pass == 1)
            before = atomic_load(&counting_live);
        else if (pass > 1)
            CHECK_EQ(atomic_load(&counting_live), before);
    }
}
