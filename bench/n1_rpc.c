/* SPDX-License-Identifier: MIT */
/*
 * n1_rpc.c - what a remote call costs, loader and server on one machine.
 *
 * The floor is a bare epoll loop that answers every request with the same bytes: what
 * sockets and copying cost, with no thought about the request at all.  spindle-net is our
 * transport doing just that: the difference to the floor is its price.  spindle-direct and
 * spindle-all are the whole server, by Dubbo's dispatchers: the method runs on the I/O
 * thread, or on a pool of 200 threads, with a
 * queue: more than 200 requests are under way, and without one the rest would be refused.
 *
 * A variant is connections x requests under way on each.  Beside the time for a request
 * there are p50_ns and p99_ns of one, and for ours the resident memory after it all.
 */
#include "rpc_load.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <spindle-rpc.h>

#include "net/transport.h"

static void report_memory(struct bench *b)
{
    FILE *const file = fopen("/proc/self/statm", "r");
    long pages = 0, resident = 0;

    if (file == NULL)
        return;
    if (fscanf(file, "%ld %ld", &pages, &resident) == 2)
        bench_report(b, "resident_mb",
                     (double)resident * (double)sysconf(_SC_PAGESIZE) / 1e6);
    fclose(file);
}

/* ---- the floor --------------------------------------------------------------------- */

enum { FLOOR_BYTES = 65536 };

struct floor_conn {
    int fd;
    size_t size;
    unsigned char data[FLOOR_BYTES];
};

static struct {
    int listening, epoll, wake, port;
    unsigned char reply[64], out[FLOOR_BYTES];
    size_t reply_size;
} bare;

/* Answers what has come; false: the end. */
static bool floor_serve(struct floor_conn *c)
{
    unsigned char *at = bare.out, *data = c->data;
    const ssize_t n = recv(c->fd, c->data + c->size, FLOOR_BYTES - c->size, 0);
    size_t size, whole;

    if (n <= 0)
        return false;
    size = c->size + (size_t)n;
    while ((whole = rpc_frame_size(data, size)) != 0 && whole <= size) {
        memcpy(at, bare.reply, bare.reply_size);
        memcpy(at + 4, data + 4, 8); /* the id */
        at += bare.reply_size;
        data += whole;
        size -= whole;
    }
    memmove(c->data, data, size);
    c->size = size;
    for (unsigned char *from = bare.out; from < at;) {
        const ssize_t out = send(c->fd, from, (size_t)(at - from), MSG_NOSIGNAL);

        if (out <= 0)
            return false;
        from += out;
    }
    return true;
}

static void floor_accept(void)
{
    struct floor_conn *const c = malloc(sizeof *c);
    struct epoll_event event = { .events = EPOLLIN, .data = { .ptr = c } };
    const int on = 1;

    c->fd = accept(bare.listening, NULL, NULL);
    c->size = 0;
    (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)epoll_ctl(bare.epoll, EPOLL_CTL_ADD, c->fd, &event);
}

static void *floor_loop(void *arg)
{
    struct epoll_event events[64];

    (void)arg;
    for (;;) {
        const int count = epoll_wait(bare.epoll, events, 64, -1);

        for (int i = 0; i < count; i++) {
            struct floor_conn *const c = events[i].data.ptr;

            if (c == NULL) {
                floor_accept();
            } else if (!floor_serve(c)) {
                close(c->fd);
                free(c);
            }
        }
    }
    return NULL;
}

static void run_floor(struct bench *b)
{
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_addr = { htonl(INADDR_LOOPBACK) } };
    struct epoll_event event = { .events = EPOLLIN };
    socklen_t size = sizeof at;
    pthread_t thread;

    bare.reply_size = rpc_reply(bare.reply);
    bare.listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bare.epoll = epoll_create1(EPOLL_CLOEXEC);
    BENCH_CHECK(b, bare.listening >= 0 && bare.epoll >= 0);
    BENCH_CHECK(b, bind(bare.listening, (struct sockaddr *)&at, sizeof at) == 0);
    BENCH_CHECK(b, listen(bare.listening, 128) == 0);
    BENCH_CHECK(b, getsockname(bare.listening, (struct sockaddr *)&at, &size) == 0);
    BENCH_CHECK(b, epoll_ctl(bare.epoll, EPOLL_CTL_ADD, bare.listening, &event) == 0);
    BENCH_CHECK(b, pthread_create(&thread, NULL, floor_loop, NULL) == 0);
    rpc_load_run(b, ntohs(at.sin_port));
    /* The thread ends with the process. */
}

/* ---- the transport alone ------------------------------------------------------------- */

static int net_opened(void *context, struct spn__conn *conn)
{
    (void)context;
    (void)conn;
    return 0;
}

static int64_t net_bytes(void *context, struct spn__conn *conn,
                         const unsigned char *data, size_t size)
{
    const struct spn__piece piece = { bare.reply, bare.reply_size };
    unsigned char reply[64];
    size_t used = 0, whole;

    (void)context;
    memcpy(reply, piece.data, piece.size);
    while ((whole = rpc_frame_size(data + used, size - used)) != 0 &&
           whole <= size - used) {
        const struct spn__piece one = { reply, piece.size };
        int rc;

        memcpy(reply + 4, data + used + 4, 8);
        rc = spn__conn_send(conn, &one, 1, 0, NULL);
        if (rc != 0)
            return rc;
        used += whole;
    }
    return (int64_t)used;
}

static void net_closed(void *context, struct spn__conn *conn, int why)
{
    (void)context;
    (void)conn;
    (void)why;
}

static void run_net_loops(struct bench *b, int loops)
{
    const struct spn__transport_opts how = { .loops = loops };
    static const struct spn__conn_events events = { .opened = net_opened,
                                                    .bytes = net_bytes,
                                                    .closed = net_closed };
    const struct spn__listen_opts opts = { .host = "127.0.0.1" };
    struct spn__transport *transport;
    struct spn__listener *listener;

    bare.reply_size = rpc_reply(bare.reply);
    BENCH_CHECK(b, spn__transport_create(&how, &transport) == SPN_OK);
    BENCH_CHECK(b, spn__transport_listen(transport, &opts, &events, NULL, &listener) ==
                       SPN_OK);
    rpc_load_run(b, spn__listener_port(listener));
    report_memory(b);
    BENCH_CHECK(b, spn__transport_stop(transport) == SPN_OK);
    BENCH_CHECK(b, spn__listener_close(listener) == SPN_OK);
    BENCH_CHECK(b, spn__transport_destroy(transport) == SPN_OK);
}

static void run_net(struct bench *b)
{
    run_net_loops(b, 0);
}

static void run_net_1(struct bench *b)
{
    run_net_loops(b, 1);
}

/* ---- the server ------------------------------------------------------------------------ */

#if __has_include(<spindle/server.h>)
static int echo(void *arg, spn_request *request)
{
    (void)arg;
    return spn_request_return_text(request, "pang");
}

static void run_server(struct bench *b, const char *url)
{
    static const spn_method methods[] = { { "echo", "", echo, NULL } };
    static const spn_service service = { .size = sizeof(spn_service),
                                         .interface = RPC_INTERFACE,
                                         .version = "1.0.0",
                                         .methods = methods,
                                         .method_count = 1 };
    spn_server *server;

    BENCH_CHECK(b, spn_server_create(&server, url, NULL, NULL) == SPN_OK);
    BENCH_CHECK(b, spn_server_export(server, &service, NULL) == SPN_OK);
    BENCH_CHECK(b, spn_server_start(server, NULL) == SPN_OK);
    rpc_load_run(b, spn_server_port(server));
    report_memory(b);
    BENCH_CHECK(b, spn_server_stop(server, SPN_SEC(10)) == SPN_OK);
    BENCH_CHECK(b, spn_server_destroy(server) == SPN_OK);
}

static void run_direct(struct bench *b)
{
    run_server(b, "dubbo://127.0.0.1?dispatcher=direct&threadpool=fixed&threads=200");
}

static void run_direct_1(struct bench *b)
{
    run_server(b, "dubbo://127.0.0.1?dispatcher=direct&threadpool=fixed&threads=200&"
                  "iothreads=1");
}

static void run_all(struct bench *b)
{
    run_server(
        b, "dubbo://127.0.0.1?dispatcher=all&threadpool=fixed&threads=200&queues=4096");
}
#else
#define run_direct   NULL
#define run_direct_1 NULL
#define run_all      NULL
#endif

BENCH_WORKLOAD(n1) = {
    .name = "N1",
    .question = "What does a remote call cost, of connections x requests under way?",
    .metric = "ns_per_request",
    .variants = { { .name = "1x1" },
                  { .name = "8x1" },
                  { .name = "8x32" },
                  { .name = "64x16" } },
    .subjects = { { .name = "spindle-direct", .run = run_direct },
                  { .name = "spindle-direct-1",
                    .run = run_direct_1,
                    .detail = "with one loop" },
                  { .name = "spindle-all", .run = run_all },
                  { .name = "spindle-net", .run = run_net },
                  { .name = "spindle-net-1",
                    .run = run_net_1,
                    .detail = "with one loop" },
                  { .name = "floor",
                    .run = run_floor,
                    .detail = "an epoll loop, always the same reply" } },
};
