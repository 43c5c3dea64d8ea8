/* SPDX-License-Identifier: MIT */
/*
 * Many connections at once: each is served, none makes a thread, an idle one costs little
 * memory, and all go again.  Raw sockets of a child process are the other end, so that a
 * connection takes one descriptor here; where the system gives too few, the test is skipped.
 */
#include "net_bed.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

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

static const struct spn__conn_events events = { opened, echo, NULL, closed };

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
TEST(net__two_thousand_connections__served_by_two_threads, "NET-28")
{
    many(2000);
}

/* And ten thousand: make test-long. */
TEST_WHEN_NAMED(net__ten_thousand_connections__served_by_two_threads)
{
    many(10000);
}
