/* SPDX-License-Identifier: MIT */
/*
 * Many connections at once: each is served, none makes a thread, an idle one costs little
 * memory, and all go again.  Raw sockets of a child process are the other end, so that a
 * connection takes one descriptor here; where the system gives too few, the test is skipped.
 *
 * And connections that are handed over from loop to loop while other threads send, pause and
 * resume: every message is counted once, in order.
 */
#include "net_bed.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <spindle/clock.h>

static atomic_int standing, gone;

static int opened(void *context, struct spn__conn *conn)
{
    (void)context;
    (void)conn;
    atomic_fetch_add(&standing, 1);
    return 0;
}

static int64_t echo(void *context, struct spn__conn *conn, const unsigned char *data,
                    size_t size)
{
    const struct spn__piece piece = { data, size };

    (void)context;
    CHECK_OK(spn__conn_send(conn, &piece, 1, 0, NULL));
    return (int64_t)size;
}

static void closed(void *context, struct spn__conn *conn, int why)
{
    (void)context;
    (void)conn;
    CHECK_STATUS(why, 0);
    atomic_fetch_add(&gone, 1);
}

static const struct spn__conn_events events = { .opened = opened,
                                                .bytes = echo,
                                                .closed = closed };

static bool allow_descriptors(rlim_t count)
{
    struct rlimit limit;

    REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    if (limit.rlim_cur >= count)
        return true;
    limit.rlim_cur = count < limit.rlim_max ? count : limit.rlim_max;
    REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    return limit.rlim_cur >= count;
}

/* The child: waits for the port, connects, asks three times on each connection, says so,
 * and stays until it is told to go. */
static void ask_all(int orders, int count)
{
    int *const fds = calloc((size_t)count, sizeof fds[0]);
    int port, answer;

    REQUIRE(fds != NULL);
    REQUIRE(read(orders, &port, sizeof port) == (ssize_t)sizeof port);
    for (int i = 0; i < count; i++)
        fds[i] = raw_connect(port);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < count; i++)
            raw_send(fds[i], &i, sizeof i);
        for (int i = 0; i < count; i++) {
            raw_read(fds[i], &answer, sizeof answer);
            REQUIRE(answer == i);
        }
    }
    REQUIRE(write(orders, &port, sizeof port) == (ssize_t)sizeof port);
    REQUIRE(read(orders, &port, sizeof port) == (ssize_t)sizeof port);
    free(fds);
    _exit(0); /* and all its connections end */
}

static void many(int count)
{
    const struct spn__transport_opts opts = { .loops = 2 };
    const struct spn__listen_opts at = { .host = "127.0.0.1" };
    struct spn__transport_stats stats;
    struct spn__transport *transport;
    struct spn__listener *listener;
    int orders[2], threads, port, status;
    pid_t child;

    if (!allow_descriptors((rlim_t)count + 100)) {
        t_skip("not enough descriptors");
        return;
    }
    atomic_store(&standing, 0);
    atomic_store(&gone, 0);
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, orders) == 0);
    child = fork(); /* before there are threads */
    REQUIRE(child >= 0);
    if (child == 0) {
        close(orders[0]);
        ask_all(orders[1], count);
    }
    close(orders[1]);
    REQUIRE_OK(spn__transport_create(&opts, &transport));
    REQUIRE_OK(spn__transport_listen(transport, &at, &events, NULL, &listener));
    port = spn__listener_port(listener);
    threads = t_threads();
    REQUIRE(write(orders[0], &port, sizeof port) == (ssize_t)sizeof port);
    REQUIRE(read(orders[0], &port, sizeof port) ==
            (ssize_t)sizeof port); /* all asked */
    CHECK_EQ(atomic_load(&standing), count);
    CHECK_EQ(t_threads(), threads);
    do /* the last answer is counted after it was written */
        spn__transport_get_stats(transport, &stats);
    while (stats.bytes_written < stats.bytes_read);
    CHECK_EQ(stats.open, count);
    CHECK_EQ(stats.accepted, count);
    CHECK_EQ(stats.bytes_read, (int64_t)count * 3 * (int64_t)sizeof(int));
    CHECK_EQ(stats.bytes_written, stats.bytes_read);
    REQUIRE(write(orders[0], &port, sizeof port) == (ssize_t)sizeof port);
    T_AWAIT(atomic_load(&gone) == count);
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK_EQ(status, 0);
    close(orders[0]);
    CHECK_OK(spn__transport_stop(transport));
    CHECK_OK(spn__listener_close(listener));
    CHECK_OK(spn__transport_destroy(transport));
}

/* Two thousand connections are held and served by two threads. */
TEST(net__two_thousand_connections__served_by_two_threads, "NET-28", "P38")
{
    many(2000);
}

/* And ten thousand: make test-long. */
TEST_WHEN_NAMED(net__ten_thousand_connections__served_by_two_threads)
{
    many(10000);
}

/* ---- handed over under traffic ------------------------------------------------------------- */

enum { MOVERS = 12, SENDERS = 2, ASKED_AT_ONCE = 4 };

struct message {
    uint32_t from; /* 0: the answer to the peer's; else a sender */
    uint32_t number;
};

static struct bed bed;
static atomic_int paused[MOVERS];
static atomic_bool senders_end;
static atomic_uint may_send; /* messages of each sender, so that they do not run away */
static uint32_t sent_by[SENDERS][MOVERS]; /* after they have ended */

/* Long enough for the others to wait.  It pauses itself, and a sender resumes. */
static int64_t answer_slowly(struct line *line, const unsigned char *data, size_t size)
{
    const int64_t until = spn_clock_now(spn_clock_monotonic()) + SPN_MS(1) / 5;
    const size_t whole = size / sizeof(struct message) * sizeof(struct message);
    const ptrdiff_t index = line - bed.line;

    while (spn_clock_now(spn_clock_monotonic()) < until)
        ;
    if (whole != 0)
        CHECK_OK(line_send(line, data, whole));
    if (!atomic_load(&paused[index])) { /* one pause at a time */
        spn__conn_pause(line->conn);
        atomic_store(&paused[index], 1);
    }
    return (int64_t)whole;
}

static void *send_on(void *arg)
{
    const int me = (int)(intptr_t)arg;
    uint32_t number[MOVERS] = { 0 };

    while (!atomic_load(&senders_end)) {
        for (int i = 0; i < MOVERS; i++) {
            const struct message message = { (uint32_t)me + 1, number[i] };
            const struct spn__piece piece = { &message, sizeof message };

            if (atomic_exchange(&paused[i], 0) == 1)
                spn__conn_resume(bed.line[i].conn);
            if (number[i] >= atomic_load(&may_send))
                continue;
            number[i]++;
            CHECK_OK(spn__conn_send(bed.line[i].conn, &piece, 1,
                                    number[i] % 3 == 0 ? SPN__SEND_SOON : 0, NULL));
        }
        t_pause();
    }
    memcpy(sent_by[me], number, sizeof number);
    return NULL;
}

/* What a peer has got so far of each. */
struct peer {
    int fd;
    uint32_t next[SENDERS + 1];
};

static void read_until(struct peer *peer, uint32_t from, uint32_t count)
{
    while (peer->next[from] < count) {
        struct message message;

        raw_read(peer->fd, &message, sizeof message);
        REQUIRE(message.from <= SENDERS);
        REQUIRE(message.number == peer->next[message.from]);
        peer->next[message.from]++;
    }
}

static void move_once(int asks)
{
    const struct spn__transport_opts opts = { .loops = 4, .max_unwritten = 64 << 20 };
    struct spn__transport_stats stats;
    struct peer peers[MOVERS];
    pthread_t senders[SENDERS];
    uint32_t asked = 0;

    memset(peers, 0, sizeof peers);
    memset(paused, 0, sizeof paused);
    atomic_store(&senders_end, false);
    atomic_store(&may_send, 0);
    bed_open(&bed, &opts);
    bed.use = answer_slowly;
    for (int i = 0; i < MOVERS; i++) {
        peers[i].fd = raw_connect(bed.port);
        AWAIT_LINES(&bed, i + 1); /* so that lines and peers are in the same order */
    }
    for (int i = 0; i < SENDERS; i++)
        REQUIRE(pthread_create(&senders[i], NULL, send_on, (void *)(intptr_t)i) == 0);
    do {
        for (int i = 0; i < MOVERS; i++) {
            struct message ask[ASKED_AT_ONCE];

            for (int j = 0; j < ASKED_AT_ONCE; j++)
                ask[j] = (struct message){ 0, asked + (uint32_t)j };
            raw_send(peers[i].fd, ask, sizeof ask);
        }
        asked += ASKED_AT_ONCE;
        atomic_store(&may_send, asked * 2);
        for (int i = 0; i < MOVERS; i++)
            read_until(&peers[i], 0, asked);
        spn__transport_get_stats(bed.transport, &stats);
    } while (stats.moved < MOVERS / 2 || (int)asked < asks);
    atomic_store(&senders_end, true);
    for (int i = 0; i < SENDERS; i++)
        pthread_join(senders[i], NULL);
    for (int i = 0; i < MOVERS; i++) {
        for (uint32_t from = 1; from <= SENDERS; from++)
            read_until(&peers[i], from, sent_by[from - 1][i]);
        if (i % 2 == 0)
            close(peers[i].fd);
    }
    bed_close(&bed); /* the others are closed by it */
    for (int i = 1; i < MOVERS; i += 2)
        close(peers[i].fd);
}

/* Handed over while others send, pause and resume: nothing is lost, doubled or disordered. */
TEST(net__handed_over_under_traffic__each_message_once, "NET-29", "NET-14", "NET-12")
{
    const int rounds = t_rounds(10);

    for (int i = 0; i < rounds; i++)
        move_once(40);
}
