/* SPDX-License-Identifier: MIT */
/*
 * What docs/from-the-documents.md says of servers and clients and no other test shows.
 */
#include <spindle/client.h>

#include "pool_calls.h"
#include "rpc_serving.h"

/* ---- messages ------------------------------------------------------------------------------ */

struct slow {
    spn_latch *gate;
    atomic_int running;
};

static void wait_in_event(void *ctx, spn_channel_event event,
                          const spn_channel_info *channel)
{
    struct slow *slow = ctx;

    (void)channel;
    if (event != SPN_CHANNEL_CONNECTED)
        return;
    atomic_fetch_add(&slow->running, 1);
    CHECK_OK(spn_latch_await(slow->gate, T_LONG_NS));
}

/* Five connections while the ordered thread is busy with the first, and room for two. */
static void too_many_connections(void *arg)
{
    spn_server_opts opts = SPN_SERVER_OPTS_INIT;
    struct slow slow = { NULL, 0 };
    struct serving s;
    struct told told;
    int fds[5];

    (void)arg;
    REQUIRE_OK(spn_latch_create(&slow.gate, 1));
    opts.event = wait_in_event;
    opts.ctx = &slow;
    serve_with(&s,
               "dispatcher=connection&threads=2&queues=50&connect.queue.capacity=2&"
               "connect.queue.warning.size=1",
               &opts);
    for (int i = 0; i < 5; i++) {
        fds[i] = peer_open(s.port);
        CHECK(peer_ask(fds[i], &ask_hello, &told));
        if (i == 0)
            T_AWAIT(atomic_load(&slow.running) == 1);
    }
    CHECK_OK(spn_latch_count_down(slow.gate));
    for (int i = 0; i < 5; i++)
        close(fds[i]);
    serving_end(&s);
    CHECK_OK(spn_latch_destroy(slow.gate));
}

/* The warning of the dispatcher `connection`, and of an event that is lost.  First of all,
 * because it forks. */
TEST(documents__ordered_queue_too_long__said, "DSP-6", "S-12")
{
    char output[4000] = "";

    CHECK_EQ(t_child(too_many_connections, NULL, output, sizeof output), 0);
    CHECK_HAS(output,
              "connectionordered channel handler queue size: 2 exceed the warning "
              "limit number :1");
    CHECK_HAS(output, "spindle: warn: channel 127.0.0.1:");
}

/* ---- clients ------------------------------------------------------------------------------- */

struct seen {
    int pools;
    char key[64], name[64];
    spn_pool_stats stats;
};

static void look(void *ctx, const char *key, spn_pool *pool)
{
    struct seen *seen = ctx;

    seen->pools++;
    snprintf(seen->key, sizeof seen->key, "%s", key);
    snprintf(seen->name, sizeof seen->name, "%s", pool_stats(pool).name);
    CHECK_OK(spn_pool_stats_get(pool, &seen->stats));
}

/* A client's pool is cached and named DubboClientHandler, unless its URL says otherwise. */
TEST(documents__pool_of_a_client__cached_and_named, "CLI-1", "S-12")
{
    static const char *const queries[] = {
        "", "threadname=mine&threadpool=fixed&threads=3"
    };
    static const char *const names[] = { "DubboClientHandler", "mine" };
    static const int32_t cores[] = { 0, 3 }, maxima[] = { SPN_POOL_THREADS_MAX, 3 };
    struct serving s;

    serve_with(&s, "threads=2&queues=10", NULL);
    for (int i = 0; i < 2; i++) {
        spn_client_opts opts = SPN_CLIENT_OPTS_INIT;
        struct seen seen = { .stats = SPN_POOL_STATS_INIT };
        char url[200], key[64];
        spn_client *client;

        REQUIRE_OK(spn_repository_create(&opts.repository, NULL));
        snprintf(url, sizeof url, "dubbo://127.0.0.1:%d?%s", s.port, queries[i]);
        REQUIRE_OK(spn_client_create(&client, url, &opts, NULL));
        CHECK_OK(spn_repository_each(opts.repository, look, &seen));
        CHECK_EQ(seen.pools, 1);
        snprintf(key, sizeof key, "consumer/%d", s.port);
        CHECK_STR(seen.key, key);
        CHECK_STR(seen.name, names[i]);
        CHECK_EQ(seen.stats.core_threads, cores[i]);
        CHECK_EQ(seen.stats.max_threads, maxima[i]);
        CHECK_EQ(seen.stats.capacity, 0); /* hand-off */
        CHECK_OK(spn_client_close(client, T_LONG_NS));
        CHECK_OK(spn_client_destroy(client));
        CHECK_OK(spn_repository_destroy_all(opts.repository, T_LONG_NS));
        CHECK_OK(spn_repository_destroy(opts.repository));
    }
    serving_end(&s);
}
