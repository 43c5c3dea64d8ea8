/* SPDX-License-Identifier: MIT */
/*
 * Endpoints: frames and messages on real sockets, what the codec says, who is told, and
 * clients.  The limits are in test_endpoint_limits.c, the end in test_endpoint_end.c.
 */
#include "pool_calls.h"
#include "toy_peer.h"

/* ---- frames --------------------------------------------------------------------------- */

enum { FRAMES = 12, BODY_MAX = 700 };

/* FRAMES requests of several sizes; returns how many bytes they are. */
static size_t make_frames(unsigned char *bytes)
{
    static const size_t sizes[FRAMES] = {
        0, 1, 3, 4, 5, 100, 0, 2, 255, 7, BODY_MAX, 1
    };
    size_t at = 0;

    for (int i = 0; i < FRAMES; i++) {
        toy_head(bytes + at, 'Q', sizes[i]);
        for (size_t n = 0; n < sizes[i]; n++)
            bytes[at + TOY_HEAD + n] = (unsigned char)(i * 31 + (int)n);
        at += TOY_HEAD + sizes[i];
    }
    return at;
}

/* The same bytes come back, with another letter in each frame. */
static void expect_frames(int fd, const unsigned char *bytes, size_t size)
{
    unsigned char body[BODY_MAX];

    for (size_t at = 0; at < size;) {
        const size_t expected = toy_number(bytes + at) - 1;

        CHECK_EQ(raw_expect(fd, 'R', body, sizeof body), expected);
        CHECK(memcmp(body, bytes + at + TOY_HEAD, expected) == 0);
        at += TOY_HEAD + expected;
    }
}

/* However the bytes are cut, the same messages come of them, in order, each once. */
TEST(endpoint__frames_split_and_joined__same_messages, "EP-1", "EP-2")
{
    unsigned char bytes[FRAMES * (TOY_HEAD + BODY_MAX)];
    const size_t size = make_frames(bytes);
    uint64_t random = t_seed();
    struct toy_end end;
    int fd;

    toy_open(&end, NULL);
    fd = raw_connect(end.port);
    raw_send(fd, bytes, size); /* in one piece */
    expect_frames(fd, bytes, size);
    for (size_t at = 0; at < size; at++) /* each byte apart */
        raw_send(fd, bytes + at, 1);
    expect_frames(fd, bytes, size);
    for (size_t cut = 1; cut < 40; cut++) { /* cut at every place of the first frames */
        raw_send(fd, bytes, cut);
        raw_send(fd, bytes + cut, size - cut);
        expect_frames(fd, bytes, size);
    }
    for (int round = 0; round < t_rounds(100); round++) { /* anywhere */
        for (size_t at = 0; at < size;) {
            const size_t left = size - at;
            const size_t part = 1 + (size_t)t_random(&random) % left;

            raw_send(fd, bytes + at, part);
            at += part;
        }
        expect_frames(fd, bytes, size);
    }
    close(fd);
    AWAIT_DISCONNECTED(toy_line(&end, 0), SPN_OK);
    CHECK_EQ(toy_stats(&end).messages, toy_stats(&end).bytes_in / size * FRAMES);
    CHECK_EQ(toy_stats(&end).bytes_in, toy_stats(&end).bytes_out);
    CHECK_EQ(atomic_load(&end.site.caught), 0);
    toy_close(&end);
}

/* A thousand requests on the way at once. */
TEST(endpoint__pipelined__each_answered_in_order, "EP-1", "EP-2", "EP-20")
{
    enum { COUNT = 1000, SIZE = TOY_HEAD + 4 };
    unsigned char bytes[COUNT * SIZE], back[4];
    struct toy_end end;
    int fd;

    for (unsigned i = 0; i < COUNT; i++) {
        toy_head(bytes + i * SIZE, 'Q', 4);
        memcpy(bytes + i * SIZE + TOY_HEAD, &i, 4);
    }
    toy_open(&end, NULL);
    fd = raw_connect(end.port);
    raw_send(fd, bytes, sizeof bytes);
    for (unsigned i = 0; i < COUNT; i++) {
        CHECK_EQ(raw_expect(fd, 'R', back, sizeof back), 4);
        CHECK(memcmp(back, &i, 4) == 0);
    }
    CHECK_EQ(toy_stats(&end).messages, COUNT);
    T_AWAIT(toy_stats(&end).in_flight == 0); /* the last is being released */
    T_AWAIT(toy_stats(&end).bytes_in == sizeof bytes);
    T_AWAIT(toy_stats(&end).bytes_out == sizeof bytes);
    CHECK_EQ(toy_stats(&end).accepted, 1);
    CHECK_EQ(toy_stats(&end).channels, 1);
    close(fd);
    toy_close(&end);
    CHECK_EQ(atomic_load(&end.site.received), COUNT);
}

/* ---- what encode says --------------------------------------------------------------------- */

/* A reply of any size: encode is asked again at most once. */
TEST(endpoint__reply_larger_than_the_room__asked_once_more, "EP-5")
{
    static const size_t sizes[] = { 0,    1,     500,   1000,  2040,   4090,   5000,
                                    9000, 16379, 65531, 65536, 300000, 3000000 };
    struct toy_end end;
    unsigned char body[4];
    int fd;

    toy_open(&end, NULL);
    fd = raw_connect(end.port);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int before = atomic_load(&toy_counts.encodes);
        int calls;

        body[0] = (unsigned char)(sizes[i] >> 24);
        body[1] = (unsigned char)(sizes[i] >> 16);
        body[2] = (unsigned char)(sizes[i] >> 8);
        body[3] = (unsigned char)sizes[i];
        raw_frame(fd, 'D', body, 4);
        CHECK_EQ(raw_expect(fd, 'R', NULL, 0), sizes[i]);
        calls = atomic_load(&toy_counts.encodes) - before;
        CHECK(calls == 1 || (calls == 2 && sizes[i] > 256));
    }
    raw_ask(fd, "after all");
    CHECK_EQ(atomic_load(&end.site.send_failures), 0);
    close(fd);
    toy_close(&end);
}

/* What encode refuses with is what send returns, and nothing of it is sent; one that needs
 * more than it said sends nothing either. */
TEST(endpoint__encode_refuses__send_says_so, "EP-5")
{
    struct toy_out fails = { .letter = 'R', .fails = SPN_ERANGE };
    const struct toy_out lies = { .letter = 'R', .lies = 1 };
    struct toy_end end;
    spn_channel *channel;
    int fd;

    toy_open(&end, NULL);
    fd = raw_connect(end.port);
    channel = toy_channel(&end, 0);
    CHECK_STATUS(spn_channel_send(channel, &fails), SPN_ERANGE);
    fails.fails = -12345;
    CHECK_EQ(spn_channel_send(channel, &fails), -12345);
    CHECK(spn_channel_send(channel, &lies) < 0);
    CHECK_STATUS(spn_channel_send(channel, NULL), SPN_EINVAL);
    spn_channel_unref(channel);
    raw_ask(fd, "all there is");
    T_AWAIT(toy_stats(&end).bytes_out == toy_stats(&end).bytes_in);
    close(fd);
    toy_close(&end);
}

/* ---- what length and decode say --------------------------------------------------------------- */

/* A frame of which decode makes nothing reaches no handler; what decode answers is sent. */
TEST(endpoint__heartbeat__answered_by_the_codec, "EP-6")
{
    struct toy_end end;
    int fd;

    toy_open(&end, NULL);
    fd = raw_connect(end.port);
    for (int i = 0; i < 10; i++) {
        raw_frame(fd, 'h', "beat", 4);
        CHECK_EQ(raw_expect(fd, 'H', NULL, 0), 0);
        raw_frame(fd, 'H', NULL, 0); /* and one without an answer */
    }
    raw_ask(fd, "a request");
    T_AWAIT(atomic_load(&end.site.received) == 1);
    T_AWAIT(toy_stats(&end).in_flight == 0);
    CHECK_EQ(atomic_load(&end.site.caught), 0);
    close(fd);
    toy_close(&end);
}

/* Bytes that are no frame, and frames that are no message: `caught` says why, then
 * `disconnected`; what came before is answered, and others are not touched. */
TEST(endpoint__no_frame__caught_then_disconnected, "EP-7")
{
    static const unsigned char no_length[] = { 0x80 };
    static const unsigned char no_letter[] = { 0, 0, 0, 0 };
    static const unsigned char no_message[] = { 0, 0, 0, 3, 'X', 1, 2 };
    static const struct {
        const unsigned char *bytes;
        size_t size;
    } cases[] = {
        { no_length, sizeof no_length },
        { no_letter, sizeof no_letter },
        { no_message, sizeof no_message },
    };
    struct toy_end end;
    int polite;

    toy_open(&end, NULL);
    polite = raw_connect(end.port);
    raw_ask(polite, "first");
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        const size_t n = i / 2;
        unsigned char bytes[64];
        struct toy_line *line;
        size_t at = 0;
        int fd;

        fd = raw_connect(end.port);
        line = toy_line(&end, (int)i + 1);
        if (i % 2 == 1) { /* behind a request in the same read */
            toy_head(bytes, 'Q', 0);
            at = TOY_HEAD;
        }
        memcpy(bytes + at, cases[n].bytes, cases[n].size);
        raw_send(fd, bytes, at + cases[n].size);
        if (i % 2 == 1)
            CHECK_EQ(raw_expect(fd, 'R', NULL, 0), 0);
        CHECK(raw_is_over(fd));
        close(fd);
        AWAIT_DISCONNECTED(line, SPN_EPROTO);
        CHECK_EQ(atomic_load(&line->caught), 1);
        CHECK_STATUS(atomic_load(&line->caught_why), SPN_EPROTO);
        CHECK_EQ(atomic_load(&line->messages), i % 2);
        CHECK_EQ(toy_stats(&end).bad_frames, i + 1);
        raw_ask(polite, "meanwhile");
    }
    close(polite);
    toy_close(&end);
}

/* A bad frame behind messages that are still being handled: nothing behind it is read, those
 * messages are answered, and then the connection ends; also if the peer ends its side first. */
TEST(endpoint__no_frame_behind_messages_in_flight__these_are_answered, "EP-7")
{
    for (int is_half_closed = 0; is_half_closed < 2; is_half_closed++) {
        unsigned char bytes[64];
        struct toy_end end;
        struct toy_line *line;
        size_t at = 0;
        int fd;

        for (int i = 0; i < 2; i++, at += TOY_HEAD)
            toy_head(bytes + at, 'K', 0);
        memset(bytes + at, 0xff, 4);
        at += 4;
        toy_head(bytes + at, 'Q', 0); /* comes too late */
        at += TOY_HEAD;
        toy_open(&end, NULL);
        fd = raw_connect(end.port);
        line = toy_line(&end, 0);
        raw_send(fd, bytes, at);
        T_AWAIT(atomic_load(&line->caught) == 1);
        CHECK_STATUS(atomic_load(&line->caught_why), SPN_EPROTO);
        raw_frame(fd, 'Q', "later still", 11);
        if (is_half_closed)
            CHECK(shutdown(fd, SHUT_WR) == 0);
        for (int i = 0; i < 2; i++) {
            CHECK_EQ(atomic_load(&line->disconnected), 0);
            CHECK_OK(toy_let_go(&end.site, i));
            CHECK_EQ(raw_expect(fd, 'R', NULL, 0), 0);
        }
        raw_check_end(fd);
        close(fd);
        AWAIT_DISCONNECTED(line, SPN_EPROTO);
        CHECK_EQ(toy_stats(&end).bad_frames, 1);
        CHECK_EQ(toy_stats(&end).messages, 2);
        CHECK_EQ(toy_stats(&end).cut_off, 0);
        CHECK_EQ(atomic_load(&line->caught), 1);
        toy_close(&end);
    }
}

static void answer_caught(spn_handler *self, spn_channel *channel, int why)
{
    toy_caught(self, channel, why);
    CHECK_OK(toy_send(channel, 'R', "too large", 9));
}

/* A frame above max_frame may be answered in `caught`, on the I/O thread: the answer is written
 * before the end. */
TEST(endpoint__frame_too_large__answered_in_caught, "EP-7", "EP-13")
{
    static const unsigned char head[] = { 0, 0, 1, 0 };
    spn_endpoint_opts opts = SPN_ENDPOINT_OPTS_INIT;
    spn_handler_ops ops = toy_deaf_ops;
    struct toy_end end;
    char text[9];
    int fd;

    ops.caught = answer_caught;
    opts.io_threads = 1;
    opts.max_frame = 100;
    toy_end_init(&end);
    end.site.handler.ops = &ops;
    toy_listen(&end, &opts);
    fd = raw_connect(end.port);
    raw_send(fd, head, sizeof head);
    CHECK_EQ(raw_expect(fd, 'R', text, sizeof text), sizeof text);
    CHECK(memcmp(text, "too large", sizeof text) == 0);
    raw_check_end(fd);
    close(fd);
    AWAIT_DISCONNECTED(toy_line(&end, 0), SPN_ETOOBIG);
    toy_close(&end);
}

/* A handler that fails on the I/O thread is told so itself, and the connection goes on. */
TEST(endpoint__handler_fails__caught_and_goes_on, "EP-8")
{
    struct toy_end end;
    int fd;

    toy_open(&end, NULL);
    fd = raw_connect(end.port);
    for (int i = 1; i <= 3; i++) {
        raw_frame(fd, 'F', NULL, 0);
        raw_ask(fd, "behind it");
        CHECK_EQ(atomic_load(&end.site.caught), i);
        CHECK_STATUS(atomic_load(&toy_line(&end, 0)->caught_why), SPN_EFAILED);
    }
    CHECK_EQ(toy_stats(&end).bad_frames, 0);
    close(fd);
    AWAIT_DISCONNECTED(toy_line(&end, 0), SPN_OK);
    toy_close(&end);
}

/* ---- the end of a connection, as it is told ------------------------------------------------ */

/* `disconnected` comes once, last, with the reason. */
TEST(endpoint__connection_ends__told_why, "EP-3")
{
    struct toy_end end;
    struct toy_line *line;
    spn_channel *channel;
    int fd;

    toy_open(&end, NULL);
    fd = raw_connect(end.port);
    raw_ask(fd, "closes in order");
    close(fd);
    AWAIT_DISCONNECTED(toy_line(&end, 0), SPN_OK);

    fd = raw_connect(end.port);
    raw_ask(fd, "resets");
    raw_reset(fd);
    AWAIT_DISCONNECTED(toy_line(&end, 1), SPN_EIO);

    fd = raw_connect(end.port);
    raw_ask(fd, "is closed from here");
    line = toy_line(&end, 2);
    channel = toy_channel(&end, 2);
    spn_channel_close(channel, SPN_ERANGE);
    spn_channel_close(channel, SPN_EFAILED); /* the first reason counts */
    CHECK(raw_is_over(fd));
    AWAIT_DISCONNECTED(line, SPN_ERANGE);
    CHECK_STATUS(toy_send(channel, 'R', NULL, 0), SPN_ECLOSED);
    spn_channel_close(channel, SPN_EFAILED);
    CHECK_STATUS(atomic_load(&line->why), SPN_ERANGE);
    CHECK(strncmp(spn_channel_remote(channel), "127.0.0.1:", 10) == 0);
    spn_channel_unref(channel);
    close(fd);
    toy_close(&end);
    CHECK_EQ(atomic_load(&end.site.caught), 0);
}

/* Closed for SPN_OK, what was sent is still written, and then the peer sees the end. */
TEST(endpoint__closed_in_order__what_was_sent_arrives, "EP-3")
{
    struct toy_end end;
    struct toy_line *line;
    spn_channel *channel;
    int fd;

    toy_open(&end, NULL);
    fd = raw_connect(end.port);
    line = toy_line(&end, 0);
    channel = toy_channel(&end, 0);
    CHECK_OK(toy_send(channel, 'O', NULL, 3000000));
    CHECK_OK(toy_send(channel, 'O', "last", 4));
    spn_channel_close(channel, SPN_OK);
    CHECK_STATUS(toy_send(channel, 'O', "too late", 8), SPN_ECLOSED);
    CHECK_EQ(raw_expect(fd, 'O', NULL, 0), 3000000);
    CHECK_EQ(raw_expect(fd, 'O', NULL, 0), 4);
    raw_check_end(fd);
    close(fd);
    AWAIT_DISCONNECTED(line, SPN_OK);
    spn_channel_unref(channel);
    toy_close(&end);
}

/* A frame of no bytes is nothing to send. */
static int64_t encode_nothing(void *ctx, const void *message, void *room, size_t size)
{
    (void)ctx;
    (void)message;
    (void)room;
    (void)size;
    return 0;
}

TEST(endpoint__encode_makes_nothing__nothing_is_sent, "EP-5")
{
    const spn_codec codec = { sizeof codec, NULL, toy_length, toy_decode,
                              encode_nothing };
    struct toy_end end;
    spn_channel *channel;
    int fd;

    toy_end_init(&end);
    REQUIRE_OK(spn_endpoint_listen(&end.endpoint, "127.0.0.1", 0, &codec, end.handler,
                                   NULL, NULL));
    fd = raw_connect(spn_endpoint_port(end.endpoint));
    channel = toy_channel(&end, 0);
    for (int i = 0; i < 3; i++)
        CHECK_OK(toy_send(channel, 'O', "x", 1));
    spn_channel_unref(channel);
    CHECK_EQ(toy_stats(&end).bytes_out, 0);
    CHECK(shutdown(fd, SHUT_WR) == 0);
    raw_check_end(fd);
    close(fd);
    toy_close(&end);
}

static void close_in_received(struct toy_site *site, spn_channel *channel,
                              struct toy *toy)
{
    (void)site;
    (void)toy;
    spn_channel_close(channel, SPN_EPERM);
}

static void end_in_received(struct toy_site *site, spn_channel *channel,
                            struct toy *toy)
{
    (void)site;
    (void)toy;
    spn_channel_close(channel, SPN_OK);
}

/* Closed by its own handler: the event ends first, then the end is told, and no other message,
 * though the same read brought some. */
TEST(endpoint__closed_inside_an_event__told_after_it, "EP-3")
{
    unsigned char bytes[20 * TOY_HEAD];

    for (size_t i = 0; i < 20; i++)
        toy_head(bytes + i * TOY_HEAD, 'O', 0);
    for (int in_order = 0; in_order < 2; in_order++) {
        struct toy_end end;
        int fd;

        toy_end_init(&end);
        end.site.see = in_order ? end_in_received : close_in_received;
        toy_listen(&end, NULL);
        fd = raw_connect(end.port);
        raw_send(fd, bytes, sizeof bytes);
        CHECK(raw_is_over(fd));
        close(fd);
        AWAIT_DISCONNECTED(toy_line(&end, 0), in_order ? SPN_OK : SPN_EPERM);
        CHECK_EQ(toy_line(&end, 0)->messages, 1);
        toy_close(&end);
    }
}

/* A peer that ends its side behind its requests has their replies, then the end; one that ends
 * it inside a frame, too, and that is told and counted as a bad frame. */
TEST(endpoint__half_closed__has_its_replies_then_the_end, "EP-9", "EP-7")
{
    struct toy_end end;
    int keeps = 0, bad = 0;

    toy_open(&end, NULL);
    for (int round = 0; round < 12; round++) {
        const int requests = round % 3;
        const bool kept = round % 4 >= 2;
        const int fd = raw_connect(end.port);
        struct toy_line *line = toy_line(&end, round);

        if (kept)
            raw_frame(fd, 'K', "kept", 4);
        for (int i = 0; i < requests; i++)
            raw_frame(fd, 'Q', "ask", 3);
        raw_send(fd, "\0\0\0\7Q", (size_t)(round % 5)); /* and a beginning */
        CHECK(shutdown(fd, SHUT_WR) == 0);
        for (int i = 0; i < requests; i++)
            CHECK_EQ(raw_expect(fd, 'R', NULL, 0), 3);
        if (kept) { /* it waits for that one */
            T_AWAIT(atomic_load(&end.site.keeps) == keeps + 1);
            CHECK_EQ(atomic_load(&line->disconnected), 0);
            CHECK_OK(toy_let_go(&end.site, keeps++));
            CHECK_EQ(raw_expect(fd, 'R', NULL, 0), 4);
        }
        raw_check_end(fd);
        AWAIT_DISCONNECTED(line, round % 5 == 0 ? SPN_OK : SPN_EPROTO);
        bad += round % 5 != 0;
        CHECK_EQ(toy_stats(&end).bad_frames, bad);
        CHECK_EQ(atomic_load(&line->caught), 0);
        close(fd);
    }
    CHECK_EQ(atomic_load(&end.site.send_failures), 0);
    CHECK_EQ(toy_stats(&end).cut_off, 0);
    toy_close(&end);
}

/* ---- sent ----------------------------------------------------------------------------------- */

/* A handler that has `sent` hears of all that was sent, up to the last byte. */
TEST(endpoint__handler_with_sent__told_up_to_the_last_byte, "EP-4")
{
    static const unsigned char large[] = { 0, 4, 0, 0 };
    struct toy_end end;
    uint64_t bytes;
    int fd;

    toy_end_init(&end);
    end.site.handler.ops = &toy_handler_ops;
    toy_listen(&end, NULL);
    fd = raw_connect(end.port);
    for (int i = 0; i < 50; i++)
        raw_ask(fd, "a request");
    raw_frame(fd, 'D', large, 4);
    CHECK_EQ(raw_expect(fd, 'R', NULL, 0), 4 << 16);
    bytes = 50 * (TOY_HEAD + 9) + TOY_HEAD + (4 << 16);
    T_AWAIT(toy_stats(&end).bytes_out == bytes);
    T_AWAIT(atomic_load(&toy_line(&end, 0)->sent) == bytes);
    close(fd);
    toy_close(&end);
}

/* ---- clients -------------------------------------------------------------------------------- */

/* A client and a server of the library: requests one way, responses the other. */
TEST(endpoint__client__asks_and_is_answered, "EP-10", "EP-2")
{
    struct toy_end server, client;
    spn_channel *channel;

    toy_open(&server, NULL);
    REQUIRE_OK(toy_connect(&client, server.port, NULL, NULL));
    CHECK_EQ(spn_endpoint_port(client.endpoint), 0);
    CHECK(spn_endpoint_channel(server.endpoint) == NULL);
    channel = spn_endpoint_channel(client.endpoint);
    REQUIRE(channel != NULL);
    CHECK_EQ(atomic_load(&client.site.connected), 1); /* before connect returned */
    for (int i = 0; i < 100; i++)
        CHECK_OK(toy_send(channel, 'Q', "from here", 9));
    T_AWAIT(atomic_load(&client.site.received) == 100);
    T_AWAIT(atomic_load(&server.site.received) == 100);
    /* The other way round: the server asks. */
    channel = toy_channel(&server, 0);
    CHECK_OK(toy_send(channel, 'Q', "from there", 10));
    spn_channel_unref(channel);
    T_AWAIT(atomic_load(&server.site.received) == 101);
    toy_close(&client);
    AWAIT_DISCONNECTED(toy_line(&server, 0), SPN_OK);
    toy_close(&server);
}

/* The connection is lost: the client is told, and makes no other. */
TEST(endpoint__client_loses_its_connection__told_once, "EP-10")
{
    for (int resets = 0; resets < 2; resets++) {
        struct toy_end client;
        int port, fd, listening = raw_listen(&port, 5);

        REQUIRE_OK(toy_connect(&client, port, NULL, NULL));
        fd = raw_accept(listening);
        raw_frame(fd, 'R', "one", 3);
        T_AWAIT(atomic_load(&client.site.received) == 1);
        if (resets)
            raw_reset(fd);
        else
            close(fd);
        AWAIT_DISCONNECTED(toy_line(&client, 0), resets ? SPN_EIO : SPN_OK);
        CHECK_STATUS(toy_send(spn_endpoint_channel(client.endpoint), 'Q', "x", 1),
                     SPN_ECLOSED);
        CHECK_EQ(toy_stats(&client).channels, 0);
        toy_close(&client);
        CHECK_EQ(atomic_load(&client.site.connected), 1);
        close(listening);
    }
}

/* Connects that come to nothing say what it was, in words, and leave nothing. */
TEST(endpoint__connect_comes_to_nothing__says_why, "EP-11")
{
    const int64_t limit_ns = t_scaled(SPN_MS(60));
    spn_endpoint_opts opts = SPN_ENDPOINT_OPTS_INIT;
    spn_problem problem = SPN_PROBLEM_INIT;
    struct toy_end client;
    int port, fds[8], taken, listening;
    int64_t begun_ns;

    taken = raw_reserve(&port);
    CHECK_STATUS(toy_connect(&client, port, NULL, &problem), SPN_EUNREACHABLE);
    CHECK(client.endpoint == NULL);
    CHECK(problem.text[0] != '\0');
    CHECK_EQ(atomic_load(&client.site.connected), 0);
    close(taken);

    listening = raw_listen(&port, 0);
    raw_fill(listening, port, fds, 8);
    opts.connect_timeout_ns = limit_ns;
    begun_ns = spn_now();
    CHECK_STATUS(toy_connect(&client, port, &opts, &problem), SPN_ETIMEDOUT);
    CHECK(spn_now() - begun_ns >= limit_ns);
    CHECK(client.endpoint == NULL);
    CHECK_EQ(atomic_load(&client.site.connected), 0);
    for (int i = 0; i < 8; i++)
        close(fds[i]);
    close(listening);

    toy_end_init(&client);
    CHECK_STATUS(spn_endpoint_connect(&client.endpoint, "no.such.host.invalid", 1,
                                      &toy_codec, client.handler, NULL, &problem),
                 SPN_EUNREACHABLE);
    CHECK(client.endpoint == NULL);
    CHECK(strstr(problem.text, "there is no host no.such.host.invalid") != NULL);
}

/* ---- with a dispatch ---------------------------------------------------------------------- */

static void refuse_busy(void *ctx, spn_channel *channel, spn_message *message, int why)
{
    (void)ctx;
    CHECK_STATUS(why, SPN_EREJECTED);
    (void)toy_send(channel, 'R', "busy", 4);
    spn_message_release(message);
}

/* Every dispatcher between the endpoint and the handler: all is answered, and a pool without
 * room answers too. */
TEST(endpoint__with_each_dispatcher__all_answered, "EP-12")
{
    static const char *const names[] = { "all", "direct", "message", "execution",
                                         "connection" };

    CHECK_OK(spn_log_set_level(SPN_LOG_OFF));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        spn_dispatch_opts opts = SPN_DISPATCH_OPTS_INIT;
        spn_dispatch_stats stats = SPN_DISPATCH_STATS_INIT;
        spn_dispatch *dispatch;
        struct toy_end end;
        char url[120];
        int fd;

        toy_end_init(&end);
        end.site.is_dispatched = true;
        opts.refused = refuse_busy;
        (void)snprintf(url, sizeof url,
                       "toy://h:1?dispatcher=%s&threads=1&queues=1&inflight=0&"
                       "dump.enable=false",
                       names[i]);
        REQUIRE_OK(spn_dispatch_create(&dispatch, url, &end.site.handler, &opts, NULL));
        end.handler = spn_dispatch_handler(dispatch);
        toy_listen(&end, NULL);
        fd = raw_connect(end.port);
        (void)toy_line(&end, 0); /* its event has run */
        raw_ask(fd, "a request");
        if (strcmp(names[i], "direct") != 0) {
            spn_pool *pool = spn_dispatch_pool(dispatch);
            char back[8];

            T_AWAIT(pool_stats(pool).active == 0);
            CHECK_OK(spn_pool_pause(pool));
            raw_frame(fd, 'Q', "later", 5);
            raw_frame(fd, 'Q', "never", 5);
            T_AWAIT(pool_stats(pool).queued == 1);
            CHECK_EQ(raw_expect(fd, 'R', back, sizeof back), 4);
            CHECK(memcmp(back, "busy", 4) == 0);
            CHECK_OK(spn_pool_resume(pool));
            CHECK_EQ(raw_expect(fd, 'R', back, sizeof back), 5);
            CHECK(memcmp(back, "later", 5) == 0);
            CHECK_OK(spn_dispatch_stats_get(dispatch, &stats));
            CHECK_EQ(stats.refused, 1);
        }
        close(fd);
        T_AWAIT(atomic_load(&end.site.disconnected) == 1);
        CHECK_OK(spn_endpoint_stop(end.endpoint, T_LONG_NS));
        CHECK_OK(spn_dispatch_stop(dispatch, T_LONG_NS));
        toy_destroy(&end);
        CHECK_OK(spn_dispatch_destroy(dispatch));
    }
    CHECK_OK(spn_log_set_level(SPN_LOG_WARN));
}

/* ---- many --------------------------------------------------------------------------------- */

struct crowd {
    int port;
    uint64_t seed;
};

static void crowd_ask(int index, void *arg)
{
    const struct crowd *crowd = arg;
    uint64_t random = crowd->seed + (uint64_t)index;
    unsigned char bytes[FRAMES * (TOY_HEAD + BODY_MAX)];
    const size_t size = make_frames(bytes);

    for (int round = 0; round < t_rounds(40); round++) {
        const int fd = raw_connect(crowd->port);

        for (int n = 0; n < 3; n++) {
            for (size_t at = 0; at < size;) {
                const size_t part = 1 + (size_t)t_random(&random) % (size - at);

                raw_send(fd, bytes + at, part);
                at += part;
            }
            expect_frames(fd, bytes, size);
        }
        if (round % 3 == 0)
            raw_reset(fd);
        else
            close(fd);
    }
}

/* Connections that come and go on several threads, cut anywhere: each request is answered
 * once, and each connection told of once. */
TEST(endpoint__many_connections__all_answered, "EP-2", "EP-3", "EP-20")
{
    struct toy_end end;
    struct crowd crowd;
    int rounds = t_rounds(40) * T_THREADS;

    toy_open(&end, NULL);
    crowd = (struct crowd){ end.port, t_seed() };
    t_parallel(T_THREADS, crowd_ask, &crowd);
    T_AWAIT(atomic_load(&end.site.disconnected) == rounds);
    CHECK_EQ(toy_stats(&end).accepted, rounds);
    CHECK_EQ(toy_stats(&end).messages, rounds * 3 * FRAMES);
    CHECK_EQ(atomic_load(&end.site.caught), 0);
    toy_close(&end);
}
