/* SPDX-License-Identifier: MIT */
/* rpc_load.c - the loader; see rpc_load.h. */
#include "rpc_load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* ---- frames -------------------------------------------------------------------- */

static unsigned char *put_text(unsigned char *at, const char *text)
{
    const size_t size = strlen(text);

    if (size < 32) {
        *at++ = (unsigned char)size;
    } else { /* up to 1023 */
        *at++ = (unsigned char)(0x30 + (size >> 8));
        *at++ = (unsigned char)size;
    }
    memcpy(at, text, size);
    return at + size;
}

static size_t finish(unsigned char *frame, const unsigned char *end)
{
    const size_t body = (size_t)(end - frame) - RPC_HEAD;

    frame[12] = (unsigned char)(body >> 24);
    frame[13] = (unsigned char)(body >> 16);
    frame[14] = (unsigned char)(body >> 8);
    frame[15] = (unsigned char)body;
    return body + RPC_HEAD;
}

size_t rpc_request(unsigned char frame[512])
{
    static const unsigned char head[4] = { 0xda, 0xbb, 0xc2,
                                           0 }; /* two-way, Hessian 2 */
    unsigned char *at = frame + RPC_HEAD;

    memset(frame, 0, 512);
    memcpy(frame, head, sizeof head);
    at = put_text(at, "2.0.2");
    at = put_text(at, RPC_INTERFACE);
    at = put_text(at, "1.0.0");
    at = put_text(at, "echo");
    at = put_text(at, ""); /* no parameters */
    *at++ = 'H';
    at = put_text(at, "path");
    at = put_text(at, RPC_INTERFACE);
    at = put_text(at, "interface");
    at = put_text(at, RPC_INTERFACE);
    at = put_text(at, "version");
    at = put_text(at, "1.0.0");
    *at++ = 'Z';
    return finish(frame, at);
}

size_t rpc_reply(unsigned char frame[64])
{
    static const unsigned char head[4] = { 0xda, 0xbb, 0x02, 20 };
    unsigned char *at = frame + RPC_HEAD;

    memset(frame, 0, 64);
    memcpy(frame, head, sizeof head);
    *at++ = 0x91; /* a value */
    at = put_text(at, "pang");
    return finish(frame, at);
}

/* ---- the loop ------------------------------------------------------------------------ */

enum { READ_BYTES = 262144, CONNECTIONS_MAX = 64, DEPTH_MAX = 64, SAMPLES = 1 << 20 };

struct connection {
    int fd;
    uint64_t sent, answered;
    int64_t sent_ns[DEPTH_MAX]; /* of the request with this id modulo depth */
    unsigned char *rest;        /* the beginning of a reply */
    size_t rest_size;
};

static struct {
    int connections, depth, epoll;
    uint64_t requests, begun, answered;
    unsigned char request[512], *out, *in;
    size_t request_size;
    uint32_t *samples; /* ns */
    size_t sample_count;
    struct connection list[CONNECTIONS_MAX];
} load;

static int64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* Sends so many requests in one write; small enough that the socket takes them. */
static void send_requests(struct bench *b, struct connection *c, uint64_t count)
{
    unsigned char *at = load.out;
    const int64_t now = now_ns();
    size_t size, done = 0;

    if (count > load.requests - load.begun)
        count = load.requests - load.begun;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t id = c->sent++;

        memcpy(at, load.request, load.request_size);
        for (int byte = 0; byte < 8; byte++)
            at[4 + byte] = (unsigned char)(id >> (56 - 8 * byte));
        c->sent_ns[id % (uint64_t)load.depth] = now;
        at += load.request_size;
    }
    load.begun += count;
    for (size = (size_t)(at - load.out); done < size;) {
        const ssize_t n = send(c->fd, load.out + done, size - done, MSG_NOSIGNAL);

        BENCH_CHECK(b, n > 0);
        done += (size_t)n;
    }
}

/* Reads what there is; replies may come in any order.  Returns how many were whole. */
static uint64_t read_replies(struct bench *b, struct connection *c)
{
    unsigned char *data = load.in;
    size_t size = c->rest_size, whole;
    uint64_t count = 0;
    int64_t now;
    ssize_t n;

    memcpy(load.in, c->rest, c->rest_size);
    n = recv(c->fd, load.in + size, READ_BYTES - size, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    BENCH_CHECK(b, n > 0);
    now = now_ns();
    size += (size_t)n;
    while ((whole = rpc_frame_size(data, size)) != 0 && whole <= size) {
        const uint64_t id = (uint64_t)data[10] << 8 | data[11];

        BENCH_CHECK(b, data[0] == 0xda && data[1] == 0xbb && data[3] == 20);
        if (load.sample_count < SAMPLES) /* 65536 is a multiple of the depth */
            load.samples[load.sample_count++] =
                (uint32_t)(now - c->sent_ns[id % (uint64_t)load.depth]);
        data += whole;
        size -= whole;
        count++;
    }
    BENCH_CHECK(b, size < 4096);
    memcpy(c->rest, data, size);
    c->rest_size = size;
    c->answered += count;
    load.answered += count;
    return count;
}

static void open_connection(struct bench *b, struct connection *c, int port)
{
    const struct sockaddr_in to = { .sin_family = AF_INET,
                                    .sin_port = htons((uint16_t)port),
                                    .sin_addr = { htonl(INADDR_LOOPBACK) } };
    struct epoll_event event = { .events = EPOLLIN, .data = { .ptr = c } };
    const int on = 1;

    memset(c, 0, sizeof *c);
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    c->rest = malloc(4096);
    BENCH_CHECK(b, c->fd >= 0 && c->rest != NULL);
    (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    BENCH_CHECK(b, connect(c->fd, (const struct sockaddr *)&to, sizeof to) == 0);
    BENCH_CHECK(b, epoll_ctl(load.epoll, EPOLL_CTL_ADD, c->fd, &event) == 0);
}

static void run_requests(struct bench *b, uint64_t requests)
{
    struct epoll_event events[CONNECTIONS_MAX];

    load.requests = requests;
    load.begun = load.answered = 0;
    load.sample_count = 0;
    for (int i = 0; i < load.connections; i++)
        send_requests(b, &load.list[i], (uint64_t)load.depth);
    while (load.answered < load.requests) {
        const int count = epoll_wait(load.epoll, events, CONNECTIONS_MAX, -1);

        for (int i = 0; i < count; i++) {
            struct connection *const c = events[i].data.ptr;
            const uint64_t answered = read_replies(b, c);

            if (answered != 0)
                send_requests(b, c, answered);
        }
    }
}

static int by_size(const void *left, const void *right)
{
    const uint32_t a = *(const uint32_t *)left, c = *(const uint32_t *)right;

    return a < c ? -1 : a > c;
}

void rpc_load_run(struct bench *b, int port)
{
    static const struct {
        const char *name;
        int connections, depth;
        uint64_t requests;
    } variants[] = { { "1x1", 1, 1, 20000 },
                     { "8x1", 8, 1, 100000 },
                     { "8x32", 8, 32, 1500000 },
                     { "64x16", 64, 16, 1000000 } };
    uint64_t requests = 0;

    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++)
        if (bench_variant_is(b, variants[i].name)) {
            load.connections = variants[i].connections;
            load.depth = variants[i].depth;
            requests = bench_count(b, variants[i].requests);
        }
    BENCH_CHECK(b, requests != 0);
    load.request_size = rpc_request(load.request);
    load.in = malloc(READ_BYTES);
    load.out = malloc(sizeof load.request * DEPTH_MAX);
    load.samples = malloc(SAMPLES * sizeof load.samples[0]);
    load.epoll = epoll_create1(EPOLL_CLOEXEC);
    BENCH_CHECK(b, load.in && load.out && load.samples && load.epoll >= 0);
    for (int i = 0; i < load.connections; i++)
        open_connection(b, &load.list[i], port);
    run_requests(b, requests / 5 + 64); /* warm up */
    bench_start(b);
    run_requests(b, requests);
    bench_stop(b, requests);
    qsort(load.samples, load.sample_count, sizeof load.samples[0], by_size);
    bench_report(b, "p50_ns", load.samples[load.sample_count / 2]);
    bench_report(b, "p99_ns", load.samples[load.sample_count * 99 / 100]);
    for (int i = 0; i < load.connections; i++) {
        close(load.list[i].fd);
        free(load.list[i].rest);
    }
    close(load.epoll);
    free(load.in);
    free(load.out);
    free(load.samples);
}
