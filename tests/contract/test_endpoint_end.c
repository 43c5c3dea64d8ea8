/* SPDX-License-Identifier: MIT */
/*
 * How endpoints are made, what they refuse, and how they end: with messages in flight, with
 * peers that do not read, from threads of their own, in the child of a fork.
 */
#include <stddef.h>
#include <sys/wait.h>

#include <spindle/latch.h>

#include "toy_peer.h"

#include "peer.h"

/* ---- making one ------------------------------------------------------------------------ */

/* Values that cannot be are refused in words, and nothing is made. */
TEST(endpoint__options_that_cannot_be__refused_in_words, "EP-21")
{
    static const struct {
        const char *key;
        spn_endpoint_opts opts;
    } cases[] = {
        { "io_threads", { .size = sizeof(spn_endpoint_opts), .io_threads = -1 } },
        { "max_channels", { .size = sizeof(spn_endpoint_opts), .max_channels = -1 } },
        { "max_in_flight", { .size = sizeof(spn_endpoint_opts), .max_in_flight = -1 } },
        { "heartbeat", { .size = sizeof(spn_endpoint_opts), .heartbeat_ns = 1000 } },
        { "max_frame", { .size = sizeof(spn_endpoint_opts), .max_frame = UINT64_MAX } },
        { "max_unwritten",
          { .size = sizeof(spn_endpoint_opts), .max_unwritten = UINT64_MAX } },
        { "frame_timeout_ns",
          { .size = sizeof(spn_endpoint_opts), .frame_timeout_ns = -1 } },
        { "idle_ns", { .size = sizeof(spn_endpoint_opts), .idle_ns = -1 } },
        { "heartbeat_ns", { .size = sizeof(spn_endpoint_opts), .heartbeat_ns = -1 } },
        { "connect_timeout_ns",
          { .size = sizeof(spn_endpoint_opts), .connect_timeout_ns = -1 } },
    };
    struct toy_end end;

    toy_end_init(&end);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int is_client = 0; is_client < 2; is_client++) {
            spn_problem problem = SPN_PROBLEM_INIT;
            int rc;

            end.endpoint = (void *)&end;
            rc = is_client
                     ? spn_endpoint_connect(&end.endpoint, "127.0.0.1", 1, &toy_codec,
                                            end.handler, &cases[i].opts, &problem)
                     : spn_endpoint_listen(&end.endpoint, "127.0.0.1", 0, &toy_codec,
                                           end.handler, &cases[i].opts, &problem);
            CHECK_STATUS(rc, SPN_EINVAL);
            CHECK(end.endpoint == NULL);
            if (!CHECK(strstr(problem.text, cases[i].key) != NULL))
                printf("  %s: \"%s\"\n", cases[i].key, problem.text);
        }
}

/* Only a client sends heartbeats: an endpoint that listens refuses to be asked for them. */
TEST(endpoint__listens_with_heartbeats__refused_in_words, "EP-21")
{
    const struct toy_out beat = { .letter = 'h' };
    spn_endpoint_opts opts = SPN_ENDPOINT_OPTS_INIT;
    spn_problem problem = SPN_PROBLEM_INIT;
    struct toy_end end;

    toy_end_init(&end);
    opts.heartbeat_ns = SPN_SEC(1);
    opts.heartbeat = &beat;
    CHECK_STATUS(spn_endpoint_listen(&end.endpoint, "127.0.0.1", 0, &toy_codec,
                                     end.handler, &opts, &problem),
                 SPN_EINVAL);
    CHECK(end.endpoint == NULL);
    CHECK(strstr(problem.text, "heartbeat_ns") != NULL);
    CHECK(strstr(problem.text, "client") != NULL);
}

/* A codec needs its three functions, an endpoint a codec and a handler. */
TEST(endpoint__half_a_codec__refused, "EP-21")
{
    const spn_codec codecs[] = {
        { sizeof(spn_codec), NULL, NULL, toy_decode, toy_encode },
        { sizeof(spn_codec), NULL, toy_length, NULL, toy_encode },
        { sizeof(spn_codec), NULL, toy_length, toy_decode, NULL },
        { 0, NULL, toy_length, toy_decode, toy_encode },
        { offsetof(spn_codec, encode), NULL, toy_length, toy_decode, toy_encode },
        { 7, NULL, toy_length, toy_decode, toy_encode },
    };
    struct toy_end end;

    toy_end_init(&end);
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
        spn_problem problem = SPN_PROBLEM_INIT;

        end.endpoint = (void *)&end;
        CHECK_STATUS(spn_endpoint_listen(&end.endpoint, NULL, 0, &codecs[i],
                                         end.handler, NULL, &problem),
                     SPN_EINVAL);
        CHECK(end.endpoint == NULL);
        CHECK(problem.text[0] != '\0');
    }
    CHECK_STATUS(spn_endpoint_listen(&end.endpoint, NULL, 0, NULL, end.handler, NULL,
                                     NULL),
                 SPN_EINVAL);
    CHECK_STATUS(spn_endpoint_listen(&end.endpoint, NULL, 0, &toy_codec, NULL, NULL,
                                     NULL),
                 SPN_EINVAL);
    CHECK_STATUS(spn_endpoint_listen(NULL, NULL, 0, &toy_codec, end.handler, NULL,
                                     NULL),
                 SPN_EINVAL);
    CHECK_STATUS(spn_endpoint_connect(NULL, "h", 1, &toy_codec, end.handler, NULL,
                                      NULL),
                 SPN_EINVAL);
    CHECK_STATUS(spn_endpoint_connect(&end.endpoint, NULL, 1, &toy_codec, end.handler,
                                      NULL, NULL),
                 SPN_EINVAL);
    CHECK(end.endpoint == NULL);
}

/* Addresses and ports: a free one, a given one, one that is taken, none. */
TEST(endpoint__listen__where_it_is_told, "EP-22")
{
    static const char *const hosts[] = { "127.0.0.1", "localhost", "0.0.0.0", NULL };
    spn_problem problem = SPN_PROBLEM_INIT;
    struct toy_end end, other;
    int fd, port;

    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        toy_end_init(&end);
        REQUIRE_OK(spn_endpoint_listen(&end.endpoint, hosts[i], 0, &toy_codec,
                                       end.handler, NULL, &problem));
        port = spn_endpoint_port(end.endpoint);
        CHECK(port > 0 && port < 65536);
        fd = raw_connect(port);
        raw_ask(fd, "here");
        close(fd);
        toy_end_init(&other);
        CHECK_STATUS(spn_endpoint_listen(&other.endpoint, hosts[i], port, &toy_codec,
                                         other.handler, NULL, &problem),
                     SPN_EADDRINUSE);
        CHECK(other.endpoint == NULL);
        CHECK(problem.text[0] != '\0');
        toy_close(&end);
        toy_end_init(&end); /* and now it is free */
        REQUIRE_OK(spn_endpoint_listen(&end.endpoint, hosts[i], port, &toy_codec,
                                       end.handler, NULL, &problem));
        CHECK_EQ(spn_endpoint_port(end.endpoint), port);
        toy_close(&end);
    }
    toy_end_init(&end);
    for (int i = 0; i < 5; i++) {
        static const int ports[] = { -1, 65536, INT32_MAX, 0, 0 };
        /* The last is an address, of another machine. */
        static const char *const wrong[] = { NULL, NULL, NULL, "no address",
                                             "192.0.2.1" };

        problem.text[0] = '\0';
        CHECK_STATUS(spn_endpoint_listen(&end.endpoint, wrong[i], ports[i], &toy_codec,
                                         end.handler, NULL, &problem),
                     SPN_EINVAL);
        CHECK(end.endpoint == NULL);
        CHECK(problem.text[0] != '\0');
    }
    CHECK_EQ(spn_endpoint_port(NULL), 0);
    CHECK(spn_endpoint_channel(NULL) == NULL);
}

/* Options of an older program, and numbers of one. */
TEST(endpoint__structs_of_any_age__understood, "EP-21", "EP-20")
{
    const size_t sizes[] = { offsetof(spn_endpoint_opts, io_threads),
                             offsetof(spn_endpoint_opts, max_frame),
                             offsetof(spn_endpoint_opts, memory),
                             offsetof(spn_endpoint_opts, heartbeat),
                             offsetof(spn_endpoint_opts, name) };
    struct {
        spn_endpoint_stats stats;
        uint64_t behind;
    } both;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        spn_endpoint_opts opts;
        struct toy_end end;
        int fd;

        memset(&opts, 0xff, sizeof opts); /* what it does not have is not read */
        memset(&opts, 0, sizes[i]);
        opts.size = sizes[i];
        if (i > 0)
            opts.io_threads = 1;
        toy_open(&end, &opts);
        fd = raw_connect(end.port);
        raw_ask(fd, "an old program");
        memset(&both, 0xff, sizeof both);
        both.stats.size = offsetof(spn_endpoint_stats, refused);
        CHECK_OK(spn_endpoint_stats_get(end.endpoint, &both.stats));
        CHECK_EQ(both.stats.channels, 1);
        CHECK_EQ(both.stats.accepted, 1);
        CHECK(both.stats.refused == UINT64_MAX);
        both.stats.size = sizeof both;
        CHECK_OK(spn_endpoint_stats_get(end.endpoint, &both.stats));
        CHECK_EQ(both.stats.refused, 0);
        CHECK_EQ(both.behind, 0);
        both.stats.size = 0;
        CHECK_STATUS(spn_endpoint_stats_get(end.endpoint, &both.stats), SPN_EINVAL);
        CHECK_STATUS(spn_endpoint_stats_get(end.endpoint, NULL), SPN_EINVAL);
        CHECK_STATUS(spn_endpoint_stats_get(NULL, &both.stats), SPN_EINVAL);
        close(fd);
        toy_close(&end);
    }
}

/* ---- stop ----------------------------------------------------------------------------------- */

struct stopping {
    spn_endpoint *endpoint;
    int64_t timeout_ns;
};

static int stop_it(void *arg)
{
    const struct stopping *stopping = arg;

    return spn_endpoint_stop(stopping->endpoint, stopping->timeout_ns);
}

/* stop waits for the messages in flight: they are answered, then the connection ends in order;
 * new connections are refused meanwhile. */
TEST(endpoint__stop_with_messages_in_flight__answers_them, "EP-23")
{
    enum { COUNT = 5 };
    struct stopping stopping;
    struct toy_end end;
    struct peer peer;
    int fd, idle, late;

    toy_open(&end, NULL);
    idle = raw_connect(end.port);
    raw_ask(idle, "is here");
    fd = raw_connect(end.port);
    for (int i = 0; i < COUNT; i++)
        raw_frame(fd, 'K', "kept", 4);
    T_AWAIT(toy_stats(&end).in_flight == COUNT);
    stopping = (struct stopping){ end.endpoint, T_LONG_NS };
    peer_start(&peer, stop_it, &stopping);
    raw_check_end(idle); /* it waits for nothing */
    close(idle);
    late = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    {
        const struct sockaddr_in to = raw_address(end.port);

        raw_patient(late);
        if (connect(late, (const struct sockaddr *)&to, sizeof to) == 0)
            CHECK(raw_is_over(late));
    }
    close(late);
    CHECK_STATUS(spn_endpoint_destroy(end.endpoint), SPN_EBUSY);
    CHECK_STATUS(spn_endpoint_stop(end.endpoint, 0), SPN_EBUSY); /* another is in it */
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(atomic_load(&peer.done), 0);
        CHECK_OK(toy_let_go(&end.site, i));
        CHECK_EQ(raw_expect(fd, 'R', NULL, 0), 4);
    }
    raw_check_end(fd);
    close(fd);
    CHECK_OK(peer_finish(&peer));
    CHECK_EQ(toy_stats(&end).cut_off, 0);
    CHECK_EQ(atomic_load(&end.site.connected), 2);
    for (int i = 0; i < 2; i++)
        CHECK_OK(atomic_load(&end.site.line[i].why)); /* they ended in order */
    toy_close(&end);
}

/* What comes after stop has begun is not taken, also on a connection whose message stop waits
 * for; that one is answered. */
TEST(endpoint__requests_after_stop_has_begun__not_taken, "EP-23")
{
    struct stopping stopping;
    struct toy_end end;
    struct peer peer;
    int fd, idle;

    toy_open(&end, NULL);
    idle = raw_connect(end.port);
    raw_ask(idle, "is here");
    fd = raw_connect(end.port);
    raw_frame(fd, 'K', "kept", 4);
    T_AWAIT(toy_stats(&end).in_flight == 1);
    stopping = (struct stopping){ end.endpoint, T_LONG_NS };
    peer_start(&peer, stop_it, &stopping);
    raw_check_end(idle); /* it has begun */
    peer_await_blocked(&peer);
    for (int i = 0; i < 50; i++)
        raw_frame(fd, 'Q', "late", 4);
    CHECK_OK(toy_let_go(&end.site, 0));
    CHECK_EQ(raw_expect(fd, 'R', NULL, 0), 4);
    raw_check_end(fd); /* and nothing else */
    close(fd);
    close(idle);
    CHECK_OK(peer_finish(&peer));
    CHECK_EQ(toy_stats(&end).messages, 2);
    CHECK_EQ(toy_stats(&end).cut_off, 0);
    toy_close(&end);
}

/* Messages that are not released in time: the connection is closed, stop says so and is
 * called again; it ends when they have been released. */
TEST(endpoint__stop_at_its_deadline__closed_and_called_again, "EP-23", "EP-24")
{
    struct toy_end end;
    int fd;

    toy_open(&end, NULL);
    fd = raw_connect(end.port);
    raw_frame(fd, 'K', "kept", 4);
    T_AWAIT(toy_stats(&end).in_flight == 1);
    CHECK_STATUS(spn_endpoint_stop(end.endpoint, SPN_MS(5)), SPN_ETIMEDOUT);
    CHECK(raw_is_over(fd));
    CHECK_EQ(atomic_load(&end.site.disconnected), 1);
    CHECK_EQ(toy_stats(&end).cut_off, 1); /* its message was not answered */
    CHECK_STATUS(spn_endpoint_destroy(end.endpoint), SPN_EBUSY);
    CHECK_STATUS(spn_endpoint_stop(end.endpoint, 0), SPN_ETIMEDOUT);
    CHECK_STATUS(spn_endpoint_stop(end.endpoint, -1), SPN_ETIMEDOUT);
    CHECK_STATUS(toy_let_go(&end.site, 0), SPN_ECLOSED);
    close(fd);
    toy_close(&end);
}

static spn_latch *never;

static void hang_until_interrupted(struct toy_site *site, spn_channel *channel,
                                   struct toy *toy)
{
    (void)site;
    (void)channel;
    (void)toy;
    CHECK_STATUS(spn_latch_await(never, T_LONG_NS), SPN_EINTR);
}

/* Handlers of a dispatch that hold their messages: the endpoint's stop says so at its deadline,
 * the dispatch's interrupts them at its own, and then the endpoint's ends. */
TEST(endpoint__stopped_while_handlers_hang__ends_after_the_dispatch, "EP-24", "CH-18")
{
    struct toy_end end;
    spn_dispatch *dispatch;
    int fd, rc;

    REQUIRE_OK(spn_latch_create(&never, 1));
    toy_end_init(&end);
    end.site.is_dispatched = true;
    end.site.see = hang_until_interrupted;
    REQUIRE_OK(spn_dispatch_create(&dispatch,
                                   "toy://?dispatcher=message&threads=2&queues=9",
                                   &end.site.handler, NULL, NULL));
    end.handler = spn_dispatch_handler(dispatch);
    toy_listen(&end, NULL);
    fd = raw_connect(end.port);
    raw_frame(fd, 'Q', "one", 3);
    T_AWAIT(toy_stats(&end).in_flight == 1);
    CHECK_STATUS(spn_endpoint_stop(end.endpoint, SPN_MS(5)), SPN_ETIMEDOUT);
    CHECK_EQ(toy_stats(&end).cut_off, 1);
    rc = spn_dispatch_stop(dispatch, SPN_MS(5));
    CHECK(rc == SPN_OK || rc == SPN_ETIMEDOUT);
    CHECK_OK(spn_dispatch_stop(dispatch, T_LONG_NS));
    CHECK(raw_is_over(fd));
    close(fd);
    toy_close(&end);
    CHECK_OK(spn_dispatch_destroy(dispatch));
    CHECK_OK(spn_latch_destroy(never));
}

/* A peer that never reads costs the time that stop has, and is counted; others do not wait. */
TEST(endpoint__stop_with_a_dead_reader__cut_off_and_counted, "EP-24")
{
    static const unsigned char large[] = { 0, 40, 0, 0 }; /* 2.6 MB */
    const int64_t timeout_ns = t_scaled(SPN_MS(200));
    spn_endpoint_opts opts = SPN_ENDPOINT_OPTS_INIT;
    struct stopping stopping;
    struct toy_end end;
    struct peer peer;
    int64_t begun_ns;
    int dead, idle;

    opts.io_threads = 2;
    opts.max_unwritten = 64 << 20;
    toy_open(&end, &opts);
    dead = raw_connect(end.port);
    for (int i = 0; i < 6; i++)
        raw_frame(dead, 'D', large, 4);
    T_AWAIT(toy_stats(&end).messages == 6);
    idle = raw_connect(end.port);
    raw_ask(idle, "is here");
    begun_ns = spn_now();
    stopping = (struct stopping){ end.endpoint, timeout_ns };
    peer_start(&peer, stop_it, &stopping);
    raw_check_end(idle);
    close(idle);
    CHECK_STATUS(peer_finish(&peer), SPN_ETIMEDOUT);
    CHECK(spn_now() - begun_ns >= timeout_ns);
    CHECK_EQ(toy_stats(&end).cut_off, 1);
    CHECK_STATUS(spn_endpoint_destroy(end.endpoint), SPN_EBUSY);
    close(dead);
    toy_close(&end);
}

/* The same of a client's connection, whose server does not read. */
TEST(endpoint__client_stops_with_a_dead_reader__cut_off_and_counted, "EP-24")
{
    spn_endpoint_opts opts = SPN_ENDPOINT_OPTS_INIT;
    struct toy_end client;
    int port, listening = raw_listen(&port, 1);

    opts.max_unwritten = 64 << 20;
    REQUIRE_OK(toy_connect(&client, port, &opts, NULL));
    CHECK_OK(toy_send(spn_endpoint_channel(client.endpoint), 'Q', NULL, 32 << 20));
    CHECK_STATUS(spn_endpoint_stop(client.endpoint, SPN_MS(5)), SPN_ETIMEDOUT);
    CHECK_EQ(toy_stats(&client).cut_off, 1);
    AWAIT_DISCONNECTED(toy_line(&client, 0), SPN_ETIMEDOUT);
    close(listening);
    toy_close(&client);
}

/* A peer that reads late, but in time, has everything. */
TEST(endpoint__stop_with_a_late_reader__has_everything, "EP-23")
{
    static const unsigned char large[] = { 0, 40, 0, 0 };
    spn_endpoint_opts opts = SPN_ENDPOINT_OPTS_INIT;
    struct stopping stopping;
    struct toy_end end;
    struct peer peer;
    int fd;

    opts.io_threads = 1;
    opts.max_unwritten = 64 << 20;
    toy_open(&end, &opts);
    fd = raw_connect(end.port);
    for (int i = 0; i < 6; i++)
        raw_frame(fd, 'D', large, 4);
    T_AWAIT(toy_stats(&end).messages == 6);
    stopping = (struct stopping){ end.endpoint, T_LONG_NS };
    peer_start(&peer, stop_it, &stopping);
    peer_await_blocked(&peer);
    for (int i = 0; i < 6; i++)
        CHECK_EQ(raw_expect(fd, 'R', NULL, 0), 40 << 16);
    raw_check_end(fd);
    close(fd);
    CHECK_OK(peer_finish(&peer));
    CHECK_EQ(toy_stats(&end).cut_off, 0);
    toy_close(&end);
}

static spn_endpoint *own_endpoint;
static atomic_int own_rc;

static void stop_in_received(struct toy_site *site, spn_channel *channel,
                             struct toy *toy)
{
    (void)site;
    (void)channel;
    (void)toy;
    atomic_store(&own_rc, spn_endpoint_stop(own_endpoint, SPN_MS(5)));
}

/* From one of its I/O threads stop is refused, and nothing has changed: of a server, of a
 * client. */
TEST(endpoint__client_stopped_on_its_io_thread__refused, "EP-25")
{
    struct toy_end server, client;
    spn_problem problem = SPN_PROBLEM_INIT;

    toy_open(&server, NULL);
    toy_end_init(&client);
    client.site.see = stop_in_received;
    atomic_store(&own_rc, 1);
    REQUIRE_OK(spn_endpoint_connect(&client.endpoint, "127.0.0.1", server.port,
                                    &toy_codec, client.handler, NULL, &problem));
    own_endpoint = client.endpoint;
    for (int i = 1; i <= 2; i++) { /* and the connection goes on */
        CHECK_OK(toy_send(spn_endpoint_channel(client.endpoint), 'Q', "x", 1));
        T_AWAIT(atomic_load(&client.site.received) == i);
        CHECK_STATUS(atomic_load(&own_rc), SPN_EDEADLK);
    }
    CHECK_EQ(atomic_load(&client.site.disconnected), 0);
    toy_close(&client);
    toy_close(&server);
}

TEST(endpoint__stop_on_an_io_thread__refused, "EP-25")
{
    struct toy_end end;
    int fd;

    toy_end_init(&end);
    end.site.see = stop_in_received;
    atomic_store(&own_rc, 1);
    toy_listen(&end, NULL);
    own_endpoint = end.endpoint;
    fd = raw_connect(end.port);
    raw_ask(fd, "stop");
    CHECK_STATUS(atomic_load(&own_rc), SPN_EDEADLK);
    raw_ask(fd, "goes on");
    close(fd);
    fd = raw_connect(end.port);
    raw_ask(fd, "and takes others");
    close(fd);
    toy_close(&end);
}

static atomic_int is_held_up; /* inside `disconnected`, which waits until it is 0 */

static void disconnected_waits(spn_handler *self, spn_channel *channel, int why)
{
    toy_disconnected(self, channel, why);
    atomic_store(&is_held_up, 1);
    T_AWAIT(atomic_load(&is_held_up) == 0);
}

/* `disconnected` holds its I/O thread up, of a connection that the peer has ended or stop does:
 * stop says so in time, and the next one comes to its end. */
TEST(endpoint__disconnected_holds_its_thread_up__stop_says_so, "EP-30")
{
    const spn_handler_ops ops = { toy_connected, disconnected_waits, NULL, toy_received,
                                  toy_caught };

    for (int by_peer = 0; by_peer < 2; by_peer++) {
        struct toy_end end;
        int fd;

        toy_end_init(&end);
        end.site.handler.ops = &ops;
        toy_listen(&end, NULL);
        fd = raw_connect(end.port);
        raw_ask(fd, "here");
        if (by_peer) {
            close(fd);
            T_AWAIT(atomic_load(&is_held_up) != 0);
        }
        CHECK_STATUS(spn_endpoint_stop(end.endpoint, SPN_MS(5)), SPN_ETIMEDOUT);
        CHECK_EQ(atomic_load(&is_held_up), 1);
        CHECK_STATUS(spn_endpoint_destroy(end.endpoint), SPN_EBUSY);
        atomic_store(&is_held_up, 0);
        if (!by_peer)
            close(fd);
        toy_close(&end);
    }
}

/* ---- destroy -------------------------------------------------------------------------------- */

/* destroy is refused while it runs, and while a channel of it is referenced. */
TEST(endpoint__destroy_while_in_use__busy, "EP-26")
{
    struct toy_end end, client;
    spn_channel *channel;
    int fd;

    toy_open(&end, NULL);
    CHECK_STATUS(spn_endpoint_destroy(end.endpoint), SPN_EBUSY);
    fd = raw_connect(end.port);
    raw_ask(fd, "goes on");
    channel = toy_channel(&end, 0);
    REQUIRE_OK(toy_connect(&client, end.port, NULL, NULL));
    CHECK_STATUS(spn_endpoint_destroy(client.endpoint), SPN_EBUSY);
    toy_close(&client);
    close(fd);
    CHECK_OK(spn_endpoint_stop(end.endpoint, T_LONG_NS));
    CHECK_OK(spn_endpoint_stop(end.endpoint, T_LONG_NS)); /* again: nothing */
    CHECK_STATUS(spn_endpoint_destroy(end.endpoint), SPN_EBUSY);
    CHECK_STATUS(toy_send(channel, 'R', NULL, 0), SPN_ECLOSED);
    CHECK(strncmp(spn_channel_remote(channel), "127.0.0.1:", 10) == 0);
    CHECK(spn_channel_data(channel) == toy_line(&end, 0));
    spn_channel_close(channel, SPN_EIO);
    spn_channel_unref(channel);
    toy_destroy(&end);
    CHECK_OK(spn_endpoint_destroy(NULL));
    CHECK_STATUS(spn_endpoint_stop(NULL, 0), SPN_EINVAL);
}

static int connect_it(void *arg)
{
    struct toy_end *client = arg;
    const int port = client->port;

    (void)spn_thread_interrupt(spn_thread_current());
    return toy_connect(client, port, NULL, NULL);
}

/* An interrupt does not end connect, and is not lost in it. */
TEST(endpoint__interrupted_in_connect__connects_and_stays_so, "EP-10")
{
    struct toy_end end, client;
    struct peer peer;

    toy_open(&end, NULL);
    client.port = end.port;
    peer_start(&peer, connect_it, &client);
    CHECK_OK(peer_finish(&peer));
    CHECK_EQ(peer.flag_after, 1);
    toy_close(&client);
    toy_close(&end);
}

/* Again and again nothing is left: neither descriptors nor threads. */
TEST(endpoint__again_and_again__nothing_left, "EP-26")
{
    const int before = dup(0);
    int threads = 0, after;

    close(before);
    for (int i = 0; i < t_rounds(30); i++) {
        struct toy_end end, client;
        int fd;

        if (i == 1)
            threads = t_threads();
        toy_open(&end, NULL);
        REQUIRE_OK(toy_connect(&client, end.port, NULL, NULL));
        CHECK_OK(toy_send(spn_endpoint_channel(client.endpoint), 'Q', "x", 1));
        T_AWAIT(atomic_load(&client.site.received) == 1);
        fd = raw_connect(end.port);
        raw_ask(fd, "here");
        if (i % 2 == 0)
            toy_close(&client);
        close(fd);
        toy_close(&end);
        if (i % 2 != 0)
            toy_close(&client); /* its server has gone */
    }
    t_await_threads(threads);
    after = dup(0);
    close(after);
    CHECK_EQ(after, before);
}

/* A child of fork that stops its parent's endpoint is told so at once; the endpoint goes on. */
TEST(endpoint__child_stops_the_parents__refused_at_once, "EP-25", "G-29")
{
    struct toy_end end;
    int status = -1, fd;
    pid_t pid;

    toy_open(&end, NULL);
    fd = raw_connect(end.port);
    raw_ask(fd, "before");
    fflush(NULL);
    pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        (void)alarm((unsigned)(T_LONG_NS / SPN_SEC(1))); /* one that hangs fails */
        _exit(CHECK_STATUS(spn_endpoint_stop(end.endpoint, T_LONG_NS), SPN_ESTATE) &&
                      CHECK_STATUS(spn_endpoint_destroy(end.endpoint), SPN_EBUSY)
                  ? 0
                  : 1);
    }
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK_EQ(status, 0);
    raw_ask(fd, "after");
    close(fd);
    toy_close(&end);
}

/* ---- races ------------------------------------------------------------------------------------ */

struct traffic {
    struct toy_end end;
    atomic_int over;
};

static void ask_until_over(struct traffic *traffic)
{
    const struct sockaddr_in to = raw_address(traffic->end.port);

    while (atomic_load(&traffic->over) == 0) {
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        unsigned char frame[TOY_HEAD], back[TOY_HEAD];

        raw_patient(fd);
        toy_head(frame, 'Q', 0);
        if (connect(fd, (const struct sockaddr *)&to, sizeof to) == 0)
            for (int i = 0; i < 10; i++)
                if (send(fd, frame, sizeof frame, MSG_NOSIGNAL) != sizeof frame ||
                    recv(fd, back, sizeof back, MSG_WAITALL) != sizeof back)
                    break;
        close(fd);
    }
}

static void stop_or_ask(int index, void *arg)
{
    struct traffic *traffic = arg;

    if (index > 0) {
        ask_until_over(traffic);
        return;
    }
    T_AWAIT(atomic_load(&traffic->end.site.received) > 3);
    CHECK_OK(spn_endpoint_stop(traffic->end.endpoint, T_LONG_NS));
    atomic_store(&traffic->over, 1);
}

/* stop while connections come, ask and go: all that was taken is answered or told of, and
 * stop comes to its end. */
TEST(endpoint__stop_with_traffic__nothing_left, "EP-23", "EP-3")
{
    static struct traffic traffic;

    for (int i = 0; i < t_rounds(20); i++) {
        atomic_store(&traffic.over, 0);
        toy_open(&traffic.end, NULL);
        t_parallel(T_THREADS, stop_or_ask, &traffic);
        CHECK_EQ(toy_stats(&traffic.end).channels, 0);
        CHECK_EQ(toy_stats(&traffic.end).in_flight, 0);
        CHECK_EQ(toy_stats(&traffic.end).memory_used, 0);
        toy_destroy(&traffic.end);
    }
}
