/* SPDX-License-Identifier: MIT */
/*
 * Many connections at once: each is served, none makes a thread, an idle one costs little
 * memory, and all go again.  Raw sockets of this process are the other end, so a connection
 * takes two descriptors; where the system gives too few, the test is skipped.
 */
#include "net_bed.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

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

static int threads_now(void)
{
    DIR *const folder = opendir("/proc/self/task");
    int count = 0;

    REQUIRE(folder != NULL);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

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

static void many(int count)
{
    const struct spn__transport_opts opts = { .loops = 2 };
    const struct spn__listen_opts at = { .host = "127.0.0.1" };
    struct spn__transport_stats stats;
    struct spn__transport *transport;
    struct spn__listener *listener;
    int *fds, threads, port;

    if (!allow_descriptors((rlim_t)count * 2 + 100)) {
        t_skip("not enough descriptors");
        return;
    }
    fds = calloc((size_t)count, sizeof fds[0]);
    REQUIRE(fds != NULL);
    atomic_store(&standing, 0);
    atomic_store(&gone, 0);
    REQUIRE_OK(spn__transport_create(&opts, &transport));
    REQUIRE_OK(spn__transport_listen(transport, &at, &events, NULL, &listener));
    port = spn__listener_port(listener);
    threads = threads_now();
    for (int i = 0; i < count; i++)
        fds[i] = raw_connect(port);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < count; i++)
            raw_send(fds[i], &i, sizeof i);
        for (int i = 0; i < count; i++) {
            int answer;

            raw_read(fds[i], &answer, sizeof answer);
            CHECK_EQ(answer, i);
        }
    }
    CHECK_EQ(atomic_load(&standing), count);
    CHECK_EQ(threads_now(), threads);
    spn__transport_get_stats(transport, &stats);
    CHECK_EQ(stats.open, count);
    CHECK_EQ(stats.accepted, count);
    CHECK_EQ(stats.bytes_read, (int64_t)count * 3 * (int64_t)sizeof(int));
    CHECK_EQ(stats.bytes_written, stats.bytes_read);
    for (int i = 0; i < count; i++)
        close(fds[i]);
    T_AWAIT(atomic_load(&gone) == count);
    CHECK_OK(spn__transport_stop(transport));
    CHECK_OK(spn__listener_close(listener));
    CHECK_OK(spn__transport_destroy(transport));
    free(fds);
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
