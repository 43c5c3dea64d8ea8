/* SPDX-License-Identifier: MIT */
/* rpc_serving.h - a server with the demo service on a free port of the loopback. */
#ifndef RPC_SERVING_H
#define RPC_SERVING_H

#include "rpc_demo.h"
#include "rpc_peer.h"

struct serving {
    struct demo demo;
    spn_method methods[32];
    spn_service service;
    spn_server *server;
    int port;
};

static inline void serve_at(struct serving *s, int port, const char *query,
                            const spn_server_opts *opts)
{
    DEMO_METHODS(list, &s->demo);
    const spn_service exported = DEMO_SERVICE(list);
    spn_problem problem = SPN_PROBLEM_INIT;
    char url[512];

    memset(s, 0, sizeof *s);
    memcpy(s->methods, list, sizeof list);
    s->service = exported;
    s->service.methods = s->methods;
    REQUIRE_OK(spn_latch_create(&s->demo.gate, 1));
    snprintf(url, sizeof url, "dubbo://127.0.0.1:%d?dump.enable=false&iothreads=2&%s",
             port, query);
    if (spn_server_create(&s->server, url, opts, &problem) != SPN_OK) {
        printf("  %s: %s\n", url, problem.text);
        REQUIRE(false);
    }
    REQUIRE_OK(spn_server_export(s->server, &s->service, &problem));
    REQUIRE_OK(spn_server_start(s->server, &problem));
    s->port = spn_server_port(s->server);
    REQUIRE(s->port > 0);
}

static inline void serve_with(struct serving *s, const char *query,
                              const spn_server_opts *opts)
{
    serve_at(s, 0, query, opts);
}

static inline void serving_end(struct serving *s)
{
    (void)spn_latch_count_down(s->demo.gate);
    CHECK_OK(spn_server_stop(s->server, T_LONG_NS));
    CHECK_OK(spn_server_destroy(s->server));
    CHECK_OK(spn_latch_destroy(s->demo.gate));
}

static inline spn_server_stats stats_of(spn_server *server)
{
    spn_server_stats stats = SPN_SERVER_STATS_INIT;

    CHECK_OK(spn_server_stats_get(server, &stats));
    return stats;
}

static const struct asked ask_hello = {
    .id = 0x8123456789abcdef,
    .method = "sayHello",
    .parameters = "Ljava/lang/String;",
    .dubbo = "2.0.0",
    ARGS("\3bob"),
};

/* A request is sent, and nothing is read. */
static inline void peer_send(int fd, const struct asked *asked)
{
    struct bytes b = { .size = 0 };

    put_request(&b, asked);
    peer_write(fd, b.data, b.size);
}

/* A heartbeat, and its answer. */
static inline bool peer_beat(int fd, uint64_t id)
{
    struct bytes b = { .size = 0 };
    struct told told;

    put_header(&b, 0xe2, 0, id, 1);
    put(&b, "N", 1);
    peer_write(fd, b.data, b.size);
    return peer_told(fd, &told) && told.id == id && told.flags == 0x22 &&
           told.status == 20 && told.length == 1 && told.body[0] == 'N';
}

#endif /* RPC_SERVING_H */
