/* SPDX-License-Identifier: MIT */
/* bad_rpc.h - what the bad-input table needs of servers: one that runs, with a request that
 * its method has deferred, and one that was never started. */
#ifndef BAD_RPC_H
#define BAD_RPC_H

#include <stdatomic.h>

#include <spindle/client.h>
#include <spindle/server.h>

#include "bad_hessian.h"
#include "rpc_peer.h"

#define BAD_URL "dubbo://127.0.0.1:0?dispatcher=direct&iothreads=1&dump.enable=false"

#define BAD_CLIENT_URL      "dubbo://127.0.0.1:1?lazy=true&threads=1"
#define BAD_INVOCATION_INIT SPN_INVOCATION_INIT("bad.Rpc", "nothing")

struct bad_rpc {
    spn_server *server, *idle, *made;
    spn_client *client,
        *made_client; /* closed: calls are refused, and nothing is sent */
    spn_invocation what;
    spn_reply *reply;
    spn_future *future;
    spn_client_stats client_stats;
    spn_extensions *extensions;
    _Atomic(spn_request *) kept;
    spn_request *request;
    spn_service service, never; /* exported, and not */
    spn_method method;
    spn_problem problem;
    spn_server_stats stats;
    spn_histogram_snapshot snapshot;
    int port, fd, flag;
    int32_t i;
    int64_t l;
    double d;
    const char *text;
    const spn_hvalue *value;
    spn_hspan span;
    struct bad_point point;
};

static struct bad_rpc rpc;

static inline int bad_keep(void *arg, spn_request *request)
{
    (void)arg;
    if (spn_request_defer(request) == SPN_OK)
        atomic_store(&rpc.kept, request);
    return 0;
}

static inline void bad_channel(void *ctx, const spn_channel_info *channel)
{
    (void)ctx;
    (void)channel;
}

static inline void bad_service(void *ctx, const spn_service *service, uint64_t calls)
{
    (void)ctx;
    (void)service;
    (void)calls;
}

/* Gives up what a large reply needed. */
static inline void rpc_small(void)
{
    CHECK_OK(spn_request_return_text(rpc.request, NULL));
}

/* Has the server get a request, and everything made that is made once. */
static inline void rpc_ask(void)
{
    static const struct asked asked = {
        .id = 77,
        .path = "bad.Rpc",
        .version = "-",
        .group = "-",
        .method = "keep",
        .parameters = "Ljava/lang/String;IZDLPoint;",
        ARGS("\1x\x95T\x5d\x02"
             "C\5Point\x91\1x`\x95"),
        .attached = { "k", "v" },
    };
    struct bytes b = { .size = 0 };

    atomic_store(&rpc.kept, NULL);
    put_request(&b, &asked);
    peer_write(rpc.fd, b.data, b.size);
    T_AWAIT((rpc.request = atomic_load(&rpc.kept)) != NULL);
    REQUIRE(spn_request_arena(rpc.request) != NULL);
    REQUIRE(spn_request_cancel_token(rpc.request) != NULL);
    REQUIRE(spn_request_attachments(rpc.request) != NULL);
    for (size_t i = 0; i < 5; i++)
        CHECK_OK(spn_request_value(rpc.request, i, &rpc.value));
    CHECK_OK(spn_request_throw(rpc.request, "java.lang.Error", "as large as any"));
    CHECK_OK(spn_request_return_text(rpc.request, NULL));
}

/* The request was finished: another one. */
static inline void rpc_again(void)
{
    struct told told;

    CHECK(peer_told(rpc.fd, &told));
    rpc_ask();
}

/* A client that was made, and is given back. */
static inline void bad_client_end(void)
{
    CHECK_OK(spn_client_close(rpc.made_client, T_LONG_NS));
    CHECK_OK(spn_client_destroy(rpc.made_client));
}

static inline void rpc_server_open(void)
{
    memset(&rpc, 0, sizeof rpc);
    REQUIRE_OK(spn_extensions_create(&rpc.extensions, NULL));
    REQUIRE_OK(spn_dispatchers_register(rpc.extensions, NULL));
    REQUIRE_OK(spn_server_create(&rpc.idle, BAD_URL, NULL, NULL));
    REQUIRE_OK(spn_server_stop(rpc.idle, T_LONG_NS));
    REQUIRE_OK(spn_server_create(&rpc.server, BAD_URL, NULL, NULL));
    rpc.method = (spn_method){ "keep", NULL, bad_keep, NULL };
    rpc.service = (spn_service){ .size = sizeof(spn_service),
                                 .interface = "bad.Rpc",
                                 .methods = &rpc.method,
                                 .method_count = 1 };
    rpc.never = rpc.service;
    REQUIRE_OK(spn_server_export(rpc.server, &rpc.service, NULL));
    /* The keys that cases export: an entry once made stays. */
    rpc.never.interface = "bad.Never";
    rpc.never.group = "g";
    REQUIRE_OK(spn_server_export(rpc.server, &rpc.never, NULL));
    REQUIRE_OK(spn_server_unexport(rpc.server, &rpc.never));
    rpc.never.group = NULL;
    rpc.never.version = "1";
    REQUIRE_OK(spn_server_export(rpc.server, &rpc.never, NULL));
    REQUIRE_OK(spn_server_unexport(rpc.server, &rpc.never));
    REQUIRE_OK(spn_server_start(rpc.server, NULL));
    rpc.port = spn_server_port(rpc.server);
    rpc.fd = peer_open(rpc.port);
    rpc_ask();
    /* What is made by the first of each, and kept: records of threads, buffers. */
    CHECK_OK(spn_request_finish(rpc.request, SPN_OK));
    rpc_again();
    REQUIRE_OK(spn_server_create(&rpc.made, BAD_URL, NULL, NULL));
    REQUIRE_OK(spn_server_destroy(rpc.made));
    REQUIRE_OK(spn_client_create(&rpc.client, BAD_CLIENT_URL, NULL, NULL));
    REQUIRE_OK(spn_client_close(rpc.client, T_LONG_NS));
    REQUIRE_OK(spn_client_create(&rpc.made_client, BAD_CLIENT_URL, NULL, NULL));
    bad_client_end();
    rpc.what = (spn_invocation)BAD_INVOCATION_INIT;
}

static inline void rpc_server_close(void)
{
    CHECK_OK(spn_client_destroy(rpc.client));
    CHECK(spn_request_finish(rpc.request, SPN_OK) == SPN_OK);
    close(rpc.fd);
    CHECK_OK(spn_server_stop(rpc.server, T_LONG_NS));
    CHECK_OK(spn_server_destroy(rpc.server));
    CHECK_OK(spn_server_destroy(rpc.idle));
    CHECK_OK(spn_extensions_destroy(rpc.extensions));
}

static spn_method bad_methods[1] = { { "keep", NULL, bad_keep, NULL } };
#define BAD_SERVICE_INIT                                            \
    {                                                               \
        sizeof(spn_service), "bad.Never", "1", "g", bad_methods, 1, \
    }

#endif /* BAD_RPC_H */
