/* SPDX-License-Identifier: MIT */
/*
 * What a peer may cost an endpoint: large frames, frames that do not come, silence, replies
 * that are not read, connections, memory.  Each ends that peer's connection or makes it wait,
 * and nothing else: a polite peer is served beside it.
 */
#include <pthread.h>

#include "toy_peer.h"

/* A frame as announced, of which nothing else has come. */
static void announce(int fd, uint32_t behind)
{
    const unsigned char head[] = { (unsigned char)(behind >> 24),
                                   (unsigned char)(behind >> 16),
                                   (unsigned char)(behind >> 8), (unsigned char)behind,
                                   'Q' };

    raw_send(fd, head, sizeof head);
}

static unsigned char *many_bytes(size_t size)
{
    unsigned char *bytes = malloc(size);

    REQUIRE(bytes != NULL);
    memset(bytes, 'y', size);
    return bytes;
}

/* ---- what is said of limits: first, since a hook is set before the first line ------------- */

static struct {
    pthread_mutex_t lock;
    char text[4096];
} heard = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void hear(void *ctx, spn_log_level level, const char *message)
{
    (void)ctx;
    (void)level;
    pthread_mutex_lock(&heard.lock);
    if (strlen(heard.text) + strlen(message) + 2 < sizeof heard.text)
        strcat(strcat(heard.text, message), "\n");
    pthread_mutex_unlock(&heard.lock);
}

static bool was_heard(const char *part)
{
    bool found;

    pthread_mutex_lock(&heard.lock);
    found = strstr(heard.text, part) != NULL;
    pthread_mutex_unlock(&heard.lock);
    return found;
}

static void exceed_both(void *arg)
{
    spn_endpoint_opts opts = SPN_ENDPOINT_OPTS_INIT;
    struct toy_end end;
    int fd, late;

    (void)arg;
    REQUIRE_OK(spn_log_set_hook(hear, NULL));
    opts.io_threads = 1;
    opts.max_channels = 1;
    opts.frame_timeout_ns = t_scaled(SPN_MS(40));
    toy_open(&end, &opts);
    fd = raw_connect(end.port);
    (void)toy_line(&end, 0);
    late = raw_connect(end.port);
    CHECK(raw_is_over(late));
    T_AWAIT(was_heard("max_channels=1"));
    announce(fd, 1000);
    CHECK(raw_is_over(fd));
    T_AWAIT(was_heard("frame_timeout_ns allows"));
    CHECK(!was_heard("accepts") &&
          !was_heard("frame.timeout")); /* those are keys of URLs */
    close(late);
    close(fd);
    toy_close(&end);
}

/* A warning names the option that the program can change. */
TEST(endpoint__limit_is_met__warning_names_the_option, "EP-14", "EP-17")
{
    CHECK_CHILD(exceed_both, NULL);
}

/* ---- large frames -------------------------------------------------------------------- */

/* A frame of max_frame is taken, one byte more is the end as soon as it is announced. */
TEST(endpoint__frame_above_max_frame__closed_when_announced, "EP-13")
{
    enum { MOST = 100000 };
    unsigned char *body = many_bytes(MOST);
    spn_endpoint_opts opts = SPN_ENDPOINT_OPTS_INIT;
    struct toy_end end;
    struct toy_line *line;
    int polite, fd;

    opts.io_threads = 2;
    opts.max_frame = MOST;
    toy_open(&end, &opts);
    polite = raw_connect(end.port);
    raw_frame(polite, 'Q', body, MOST - TOY_HEAD);
    CHECK_EQ(raw_expect(polite, 'R', NULL, 0), MOST - TOY_HEAD);
    for (int i = 0; i < 2; i++) {
        fd = raw_connect(end.port);
        line = toy_line(&end, i + 1);
        announce(fd, i == 0 ? MOST - 4 + 1 : 0x7fffffff);
        CHECK(raw_is_over(fd));
        close(fd);
        AWAIT_DISCONNECTED(line, SPN_ETOOBIG);
        CHECK_EQ(atomic_load(&line->caught), 1);
        CHECK_STATUS(atomic_load(&line->caught_why), SPN_ETOOBIG);
        CHECK_EQ(toy_stats(&end).bad_frames, i + 1);
        raw_ask(polite, "meanwhile");
    }
    /* What is announced is not memory yet. */
    CHECK_EQ(toy_stats(&end).memory_used, 0);
    close(polite);
    toy_close(&end);
    free(body);
}

static int64_t never_says(void *ctx, const void *data, size_t size)
{
    (void)ctx;
    (void)data;
    (void)size;
    return 0;
}

/* A codec that can never tell has no more than max_frame bytes to look at. */
TEST(endpoint__length_is_never_told__bounded_by_max_frame, "EP-13")
{
    enum { MOST = 20000 };
    const spn_codec codec = { sizeof codec, NULL, never_says, toy_decode, toy_encode };
    unsigned char *bytes = many_bytes(10 * MOST);
    spn_endpoint_opts opts = SPN_ENDPOINT_OPTS_INIT;
    struct toy_end end;
    int fd;

    opts.io_threads = 1;
    opts.max_frame = MOST;
    toy_end_init(&end);
    REQUIRE_OK(spn_endpoint_listen(&end.endpoint, "127.0.0.1", 0, &codec, end.handler,
                                   &opts, NULL));
    fd = raw_connect(spn_endpoint_port(end.endpoint));
    raw_send(fd, bytes, MOST / 2);
    (void)send(fd, bytes, 9 * MOST, MSG_NOSIGNAL); /* it may be closed meanwhile */
    CHECK(raw_is_over(fd));
    close(fd);
    AWAIT_DISCONNECTED(toy_line(&end, 0), SPN_ETOOBIG);
    CHECK_EQ(atomic_load(&end.site.caught), 1);
    CHECK_EQ(toy_stats(&end).bad_frames, 1);
    toy_close(&end);
    free(bytes);
}

/* ---- frames that do not come, and silence ------------------------------------------------ */

/* A frame of which a part came is waited for as long as frame_timeout_ns, and no shorter. */
TEST(endpoint__frame_does_not_come__closed_and_counted, "EP-14")
{
    const int64_t limit_ns = t_scaled(SPN_MS(60));
    spn_endpoint_opts opts = SPN_ENDPOINT_OPTS_INIT;
    struct toy_end end;
    int polite;

    opts.io_threads = 2;
    opts.frame_timeout_ns = limit_ns;
    toy_open(&end, &opts);
    polite = raw_connect(end.port);
    raw_ask(polite, "first");
    for (int i = 0; i < 3; i++) {
        const int fd = raw_connect(end.port);
        struct toy_line *line = toy_line(&end, i + 1);
        int64_t begun_ns;

        if (i == 2)
            raw_ask(fd, "a whole one");
        begun_ns = spn_now();
        if (i == 0)
            raw_send(fd, "\0", 1); /* not even a length */
        else
            announce(fd, 1000);
        CHECK(raw_is_over(fd));
        CHECK(spn_now() - begun_ns >= limit_ns);
        AWAIT_DISCONNECTED(line, SPN_ETIMEDOUT);
        CHECK_EQ(toy_stats(&end).frames_late, i + 1);
        close(fd);
        raw_ask(polite, "one that says nothing is not late");
    }
    CHECK_EQ(toy_stats(&end).idle_closed, 0);
    close(polite);
    toy_close(&end);
}

/* SPN_FOREVER: it is waited for, longer than by default elsewhere here, and comes. */
TEST(endpoint__frame_may_take_for_ever__taken_when_it_comes, "EP-14")
{
    spn_endpoint_opts opts = SPN_ENDPOINT_OPTS_INIT;
    struct pollfd p = { .events = POLLIN };
    struct toy_end end;

    opts.io_threads = 1;
    opts.frame_timeout_ns = SPN_FOREVER;
    opts.idle_ns = t_scaled(SPN_MS(400)); /* the timer runs */
    toy_open(&end, &opts);
    p.fd = raw_connect(end.port);
    announce(p.fd, 3);
    CHECK_EQ(poll(&p, 1, (int)(t_scaled(SPN_MS(200)) / SPN_MS(1))), 0);
    raw_send(p.fd, "ab", 2);
    CHECK_EQ(raw_expect(p.fd, 'R', NULL, 0), 2);
    CHECK_EQ(toy_stats(&end).frames_late, 0);
    close(p.fd);
    toy_close(&end);
}

/* Silence of idle_ns ends a connection, any byte keeps it. */
TEST(endpoint__silent_peer__closed_after_idle_ns, "EP-15")
{
    const int64_t idle_ns = t_scaled(SPN_MS(80));
    spn_endpoint_opts opts = SPN_ENDPOINT_OPTS_INIT;
    struct toy_end end;
    int64_t begun_ns;
    int silent, talks;

    opts.io_threads = 2;
    opts.idle_ns = idle_ns;
    toy_open(&end, &opts);
    begun_ns = spn_now();
    silent = raw_connect(end.port);
    (void)toy_line(&end, 0);
    talks = raw_connect(end.port);
    while (toy_stats(&end).idle_closed == 0) {
        raw_ask(talks, "still here");
        t_pause();
    }
    CHECK(spn_now() - begun_ns >= idle_ns);
    CHECK(raw_is_over(silent));
    AWAIT_DISCONNECTED(&end.site.line[0], SPN_ETIMEDOUT);
    raw_ask(talks, "still here");
    CHECK_EQ(toy_stats(&end).channels, 1);
    close(silent);
    T_AWAIT(toy_stats(&end).idle_closed == 2); /* and now that one */
    CHECK(raw_is_over(talks));
    close(talks);
    toy_close(&end);
}

static void await_passed(int64_t begun_ns, int64_t ns)
{
    T_AWAIT(spn_now() - begun_ns >= ns);
}

/* A peer whose message is being handled is not silent, however long that takes: it has its
 * reply, and idle_ns begins when the message is released, answered or not. */
TEST(endpoint__message_is_handled_for_longer_than_idle_ns__answered, "EP-15")
{
    const int64_t idle_ns = t_scaled(SPN_MS(60));
    spn_endpoint_opts opts = SPN_ENDPOINT_OPTS_INIT;

    opts.io_threads = 1;
    opts.idle_ns = idle_ns;
    for (int is_answered = 0; is_answered < 2; is_answered++) {
        struct toy_end end;
        int64_t begun_ns;
        int fd;

        toy_open(&end, &opts);
        fd = raw_connect(end.port);
        begun_ns = spn_now();
        raw_frame(fd, 'K', "kept", 4);
        await_passed(begun_ns, 4 * idle_ns);
        CHECK_EQ(atomic_load(&toy_line(&end, 0)->disconnected), 0);
        CHECK_EQ(toy_stats(&end).idle_closed, 0);
        begun_ns = spn_now();
        if (is_answered) {
            CHECK_OK(toy_let_go(&end.site, 0));
            CHECK_EQ(raw_expect(fd, 'R', NULL, 0), 4);
        } else {
            toy_forget(&end.site, 0);
        }
        CHECK(raw_is_over(fd));
        CHECK(spn_now() - begun_ns >= idle_ns);
        AWAIT_DISCONNECTED(toy_line(&end, 0), SPN_ETIMEDOUT);
        CHECK_EQ(toy_stats(&end).idle_closed, 1);
        CHECK_EQ(toy_stats(&end).cut_off, 0);
        close(fd);
        toy_close(&end);
    }
}

/* A client whose bytes wait for a server that reads them slowly is not silent as long as it
 * reads, although the server says nothing meanwhile. */
TEST(endpoint__client_of_a_slow_reader__kept_while_it_reads, "EP-15")
{
    /* AHEAD frames are more than the kernel takes from a sender and, with a fixed buffer, for
     * a reader: some always wait. */
    enum { FRAMES = 18, BODY = 1 << 20, AHEAD = 8 };
    const int buffer = 64 << 10;
    const int64_t idle_ns = t_scaled(SPN_MS(500));
    unsigned char *room = many_bytes(BODY);
    spn_endpoint_opts opts = SPN_ENDPOINT_OPTS_INIT;
    struct toy_end client;
    int port, fd, listening = raw_listen(&port, 5);

    REQUIRE(setsockopt(listening, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer) == 0);
    opts.idle_ns = idle_ns;
    opts.max_unwritten = 64 << 20;
    REQUIRE_OK(toy_connect(&client, port, &opts, NULL));
    fd = raw_accept(listening);
    for (int i = 0; i < FRAMES; i++) {
        const int64_t begun_ns = spn_now();

        CHECK_OK(toy_send(spn_endpoint_channel(client.endpoint), 'O', room,
                          BODY - TOY_HEAD));
        if (i < AHEAD)
            continue;
        raw_read(fd, room, BODY);
        await_passed(begun_ns, idle_ns / 4);
    }
    CHECK_EQ(atomic_load(&client.site.disconnected), 0);
    for (int i = 0; i < AHEAD; i++)
        raw_read(fd, room, BODY);
    AWAIT_DISCONNECTED(toy_line(&client, 0), SPN_ETIMEDOUT); /* and then it is silent */
    close(fd);
    close(listening);
    toy_close(&client);
    free(room);
}

/* A client beats when its peer says nothing, again and again; what the peer says puts that
 * off.  A server that closes silent peers keeps it. */
TEST(endpoint__client_with_heartbeats__beats_and_is_kept, "EP-16")
{
    const struct toy_out beat = { .letter = 'h' };
    spn_endpoint_opts opts = SPN_ENDPOINT_OPTS_INIT;
    spn_endpoint_opts idle = SPN_ENDPOINT_OPTS_INIT;
    struct toy_end client, server;
    int port, fd, listening = raw_listen(&port, 5);

    opts.heartbeat_ns = t_scaled(SPN_MS(20));
    opts.heartbeat = &beat;
    REQUIRE_OK(toy_connect(&client, port, &opts, NULL));
    fd = raw_accept(listening);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(raw_expect(fd, 'h', NULL, 0), 0);
    close(fd);
    close(listening);
    toy_close(&client);

    idle.io_threads = 1;
    idle.idle_ns = t_scaled(SPN_MS(200));
    toy_open(&server, &idle);
    REQUIRE_OK(toy_connect(&client, server.port, &opts, NULL));
    T_AWAIT(toy_stats(&server).bytes_in > 20 * TOY_HEAD); /* 400 ms of beats */
    CHECK_EQ(toy_stats(&server).idle_closed, 0);
    CHECK_EQ(atomic_load(&client.site.disconnected), 0);
    CHECK_EQ(atomic_load(&server.site.received), 0);
    toy_close(&client);
    toy_close(&server);
}

/* A client whose server says nothing at all gives up after idle_ns, beats or not. */
TEST(endpoint__client_of_a_dead_server__closed_after_idle_ns, "EP-15", "EP-16")
{
    const struct toy_out beat = { .letter = 'h' };
    spn_endpoint_opts opts = SPN_ENDPOINT_OPTS_INIT;
    struct toy_end client;
    int port, fd, listening = raw_listen(&port, 5);

    opts.heartbeat_ns = t_scaled(SPN_MS(20));
    opts.heartbeat = &beat;
    opts.idle_ns = t_scaled(SPN_MS(100));
    REQUIRE_OK(toy_connect(&client, port, &opts, NULL));
    fd = raw_accept(listening);
    AWAIT_DISCONNECTED(toy_line(&client, 0), SPN_ETIMEDOUT);
    CHECK_EQ(toy_stats(&client).idle_closed, 1);
    CHECK(toy_stats(&client).bytes_out >= TOY_HEAD);
    close(fd);
    close(listening);
    toy_close(&client);
}

/* ---- connections ------------------------------------------------------------------------- */

/* One more than max_channels is closed at once, and nobody is told of it but the count; when
 * one has gone there is room. */
TEST(endpoint__more_than_max_channels__closed_at_once, "EP-17")
{
    spn_endpoint_opts opts = SPN_ENDPOINT_OPTS_INIT;
    struct toy_end end;
    int fds[3];

    CHECK_OK(spn_log_set_level(SPN_LOG_OFF));
    opts.io_threads = 2;
    opts.max_channels = 2;
    toy_open(&end, &opts);
    for (int i = 0; i < 2; i++) {
        fds[i] = raw_connect(end.port);
        raw_ask(fds[i], "in");
    }
    for (int i = 0; i < 5; i++) {
        fds[2] = raw_connect(end.port);
        CHECK(raw_is_over(fds[2]));
        close(fds[2]);
        T_AWAIT(toy_stats(&end).refused == (uint64_t)i + 1);
    }
    CHECK_EQ(atomic_load(&end.site.connected), 2);
    close(fds[0]);
    T_AWAIT(atomic_load(&end.site.disconnected) == 1);
    T_AWAIT(toy_stats(&end).channels == 1);
    fds[0] = raw_connect(end.port);
    raw_ask(fds[0], "there is room");
    raw_ask(fds[1], "still in");
    CHECK_EQ(toy_stats(&end).accepted, 3);
    close(fds[0]);
    close(fds[1]);
    toy_close(&end);
    CHECK_OK(spn_log_set_level(SPN_LOG_WARN));
}

/* ---- peers that do not read ----------------------------------------------------------------- */

/* Sends until the sockets are full and nothing moves any more: how many bytes went. */
static size_t send_until_paused(int fd, struct toy_end *end, const unsigned char *frame,
                                size_t size, size_t most)
{
    size_t sent = 0;
    int idle = 0;

    while (sent < most && idle < 50) {
        const size_t at = sent % size;
        const uint64_t before = toy_stats(end).bytes_in;
        const ssize_t n = send(fd, frame + at, size - at, MSG_DONTWAIT | MSG_NOSIGNAL);
        struct pollfd p = { .fd = fd, .events = POLLOUT };

        REQUIRE(n > 0 || errno == EAGAIN);
        if (n > 0) {
            sent += (size_t)n;
            idle = 0;
        } else if (poll(&p, 1, 10) == 0 && toy_stats(end).bytes_in == before) {
            idle++;
        }
    }
    return sent;
}

/* A peer that asks and does not read is read no more once half of max_unwritten waits for it,
 * and no reply is refused; when it reads, all goes on and every request is answered. */
TEST(endpoint__peer_does_not_read__paused_then_served, "EP-18")
{
    enum { BODY = 8000, SIZE = TOY_HEAD + BODY, MOST = 256 << 20 };
    unsigned char *frame = many_bytes(SIZE);
    spn_endpoint_opts opts = SPN_ENDPOINT_OPTS_INIT;
    struct toy_end end;
    size_t sent, whole;
    int fd, polite;

    opts.io_threads = 1;
    opts.max_unwritten = 1 << 20;
    toy_head(frame, 'Q', BODY);
    toy_open(&end, &opts);
    polite = raw_connect(end.port);
    fd = raw_connect(end.port);
    sent = send_until_paused(fd, &end, frame, SIZE, MOST);
    CHECK(sent < MOST);
    CHECK(toy_stats(&end).memory_used <= 2 << 20);
    raw_ask(polite, "meanwhile");
    whole = sent / SIZE;
    CHECK(toy_stats(&end).messages < whole); /* it is not read any more */
    for (size_t i = 0; i < whole; i++)
        REQUIRE(raw_expect(fd, 'R', NULL, 0) == BODY);
    if (sent % SIZE != 0) {
        raw_send(fd, frame + sent % SIZE, SIZE - sent % SIZE);
        CHECK_EQ(raw_expect(fd, 'R', NULL, 0), BODY);
    }
    raw_ask(fd, "and again");
    CHECK_EQ(atomic_load(&end.site.send_failures), 0);
    CHECK_EQ(toy_stats(&end).cut_off, 0);
    close(fd);
    close(polite);
    toy_close(&end);
    free(frame);
}

/* What is sent to a peer that does not read, unasked, is refused above max_unwritten; nothing
 * of it was taken, and there is room again when the peer has read. */
TEST(endpoint__sent_to_a_peer_that_does_not_read__full, "EP-18")
{
    enum { BODY = 10000, MOST = 100000 };
    unsigned char *body = many_bytes(BODY);
    spn_endpoint_opts opts = SPN_ENDPOINT_OPTS_INIT;
    struct toy_end end;
    spn_channel *channel;
    int fd, taken = 0, rc;

    opts.io_threads = 1;
    opts.max_unwritten = 200000;
    toy_open(&end, &opts);
    fd = raw_connect(end.port);
    channel = toy_channel(&end, 0);
    while ((rc = toy_send(channel, 'O', body, BODY)) == SPN_OK && taken < MOST)
        taken++;
    CHECK_STATUS(rc, SPN_EFULL);
    CHECK_STATUS(toy_send(channel, 'O', body, BODY), SPN_EFULL);
    CHECK_EQ(atomic_load(&toy_line(&end, 0)->disconnected), 0);
    for (int i = 0; i < taken; i++)
        REQUIRE(raw_expect(fd, 'O', body, BODY) == BODY);
    T_AWAIT(toy_send(channel, 'O', "again", 5) == SPN_OK);
    CHECK_EQ(raw_expect(fd, 'O', body, BODY), 5);
    CHECK_EQ(toy_stats(&end).bytes_out,
             (uint64_t)taken * (TOY_HEAD + BODY) + TOY_HEAD + 5);
    spn_channel_unref(channel);
    raw_ask(fd, "reading goes on");
    close(fd);
    toy_close(&end);
    free(body);
}

/* ---- messages in flight --------------------------------------------------------------------- */

/* With max_in_flight of its messages not released a peer is read no more, and others are; when
 * half of them have been, reading goes on, and every request is answered. */
TEST(endpoint__more_than_max_in_flight__read_later, "EP-29")
{
    static const int mosts[] = { 1, 2, 5 };

    for (size_t i = 0; i < sizeof mosts / sizeof *mosts; i++) {
        enum { COUNT = 23 };
        unsigned char bytes[COUNT * TOY_HEAD];
        spn_endpoint_opts opts = SPN_ENDPOINT_OPTS_INIT;
        struct toy_end end;
        int fd, polite, done = 0;

        for (size_t n = 0; n < COUNT; n++)
            toy_head(bytes + n * TOY_HEAD, 'K', 0);
        opts.io_threads = 1;
        opts.max_in_flight = mosts[i];
        toy_open(&end, &opts);
        polite = raw_connect(end.port);
        fd = raw_connect(end.port);
        raw_send(fd, bytes, sizeof bytes);
        T_AWAIT(atomic_load(&end.site.keeps) == mosts[i]);
        while (done < COUNT) {
            T_AWAIT(atomic_load(&end.site.keeps) > done);
            for (int n = 0; n < 3; n++) /* on the same I/O thread */
                raw_ask(polite, "meanwhile");
            CHECK(atomic_load(&end.site.keeps) - done <= mosts[i]);
            if (done < mosts[i] - mosts[i] / 2)
                CHECK_EQ(atomic_load(&end.site.keeps), mosts[i]);
            CHECK_OK(toy_let_go(&end.site, done++));
            CHECK_EQ(raw_expect(fd, 'R', NULL, 0), 0);
        }
        close(fd);
        close(polite);
        toy_close(&end);
    }
}

/* ---- all of it at once ------------------------------------------------------------------------ */

struct attack {
    int port;
    uint64_t seed;
};

/* Frames, half of which are wrong in some way, and no manners. */
static void attack_once(const struct attack *attack, uint64_t *random)
{
    static const char letters[] = "QQQDKhFORX";
    const int fd = raw_connect(attack->port);

    for (int i = 0; i < 20; i++) {
        unsigned char bytes[400], rest[4096];
        size_t size = TOY_HEAD + (size_t)t_random(random) % 300;

        for (size_t n = 0; n < size; n++)
            bytes[n] = (unsigned char)(t_random(random) % 3); /* D: not 2 GB */
        toy_head(bytes, letters[t_random(random) % (sizeof letters - 1)],
                 size - TOY_HEAD);
        if (t_random(random) % 4 == 0)
            bytes[t_random(random) % 5] = (unsigned char)t_random(random);
        if (t_random(random) % 4 == 0)
            size = 1 + (size_t)t_random(random) % size;
        if (send(fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT) <= 0)
            break;
        if (t_random(random) % 2 == 0)
            (void)recv(fd, rest, sizeof rest, MSG_DONTWAIT);
    }
    switch (t_random(random) % 3) {
    case 0:
        raw_reset(fd);
        return;
    case 1:
        (void)shutdown(fd, SHUT_WR);
        break;
    default:
        break;
    }
    close(fd);
}

static void attack_or_ask(int index, void *arg)
{
    const struct attack *attack = arg;
    uint64_t random = attack->seed + (uint64_t)index;

    for (int i = 0; i < t_rounds(60); i++) {
        if (index > 0) {
            attack_once(attack, &random);
        } else {
            const int fd = raw_connect(attack->port);

            for (int n = 0; n < 5; n++)
                raw_ask(fd, "politely");
            close(fd);
        }
    }
}

static void forget_at_once(struct toy_site *site, spn_channel *channel, struct toy *toy)
{
    (void)site;
    (void)channel;
    if (toy->letter == 'K')
        toy->letter = 'O'; /* nobody keeps that many */
}

/* Peers that send what they like, do not read and leave without a word: a polite one has its
 * answers, every connection is told of once, and nothing is left of them. */
TEST(endpoint__hostile_peers__polite_one_is_served, "EP-28", "EP-3")
{
    spn_endpoint_opts opts = SPN_ENDPOINT_OPTS_INIT;
    struct toy_end end;
    struct attack attack;

    CHECK_OK(spn_log_set_level(SPN_LOG_OFF));
    opts.io_threads = 2;
    opts.max_frame = 70000;
    opts.max_unwritten = 300000;
    opts.max_in_flight = 8;
    opts.frame_timeout_ns = t_scaled(SPN_MS(300));
    toy_end_init(&end);
    end.site.see = forget_at_once;
    toy_listen(&end, &opts);
    attack = (struct attack){ end.port, t_seed() };
    t_parallel(T_THREADS, attack_or_ask, &attack);
    T_AWAIT(toy_stats(&end).channels == 0);
    T_AWAIT(toy_stats(&end).memory_used == 0);
    T_AWAIT(atomic_load(&end.site.disconnected) == t_rounds(60) * T_THREADS);
    CHECK(toy_stats(&end).bad_frames > 0);
    toy_close_badly(&end);
    CHECK_OK(spn_log_set_level(SPN_LOG_WARN));
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Unfinished frames of all peers have a part of `memory`; the one that finds no room ends, the
 * others go on, and all is given back. */
TEST(endpoint__unfinished_frames__bounded_by_memory, "EP-19")
{
    enum { PEERS = 12, SIZE = 60000, PART = 50000, LIMIT = 256 << 10 };
    unsigned char *frame = many_bytes(SIZE);
    spn_endpoint_opts opts = SPN_ENDPOINT_OPTS_INIT;
    struct toy_end end;
    int fds[PEERS], polite, answered = 0, ended = 0;

    CHECK_OK(spn_log_set_level(SPN_LOG_OFF));
    opts.io_threads = 2;
    opts.memory = LIMIT;
    toy_head(frame, 'Q', SIZE - TOY_HEAD);
    toy_open(&end, &opts);
    CHECK_EQ(toy_stats(&end).memory_limit, LIMIT);
    polite = raw_connect(end.port);
    for (int i = 0; i < PEERS; i++) {
        fds[i] = raw_connect(end.port);
        raw_send(fds[i], frame, PART);
        raw_ask(polite, "meanwhile");
        CHECK(toy_stats(&end).memory_used <= LIMIT);
    }
    T_AWAIT(toy_stats(&end).memory_refused > 0);
    T_AWAIT(atomic_load(&end.site.disconnected) > 0);
    for (int i = 0; i < PEERS; i++)
        (void)send(fds[i], frame + PART, SIZE - PART, MSG_NOSIGNAL);
    for (int i = 0; i < PEERS; i++) {
        unsigned char head[TOY_HEAD];

        if (raw_receive(fds[i], head, 1) == 1) {
            raw_read(fds[i], head + 1, TOY_HEAD - 1);
            for (size_t got = 0; got < SIZE - TOY_HEAD; got += 1000)
                raw_read(fds[i], frame,
                         1000 < SIZE - TOY_HEAD - got ? 1000 : SIZE - TOY_HEAD - got);
            answered++;
        } else {
            ended++;
        }
        close(fds[i]);
    }
    CHECK(answered > 0 && ended > 0);
    raw_ask(polite, "afterwards");
    T_AWAIT(toy_stats(&end).memory_used == 0);
    close(polite);
    toy_close(&end);
    free(frame);
    CHECK_OK(spn_log_set_level(SPN_LOG_WARN));
}

/* Messages of large frames count until they are released; the one that finds no room ends its
 * connection, and `caught` tells. */
TEST(endpoint__large_messages_kept__bounded_by_memory, "EP-19")
{
    enum { PEERS = 12, SIZE = 50000, LIMIT = 256 << 10 };
    unsigned char *frame = many_bytes(SIZE);
    spn_endpoint_opts opts = SPN_ENDPOINT_OPTS_INIT;
    struct toy_end end;
    int fds[PEERS], polite, kept;

    CHECK_OK(spn_log_set_level(SPN_LOG_OFF));
    opts.io_threads = 1;
    opts.memory = LIMIT;
    toy_head(frame, 'K', SIZE - TOY_HEAD);
    toy_open(&end, &opts);
    polite = raw_connect(end.port);
    raw_ask(polite, "first");
    for (int i = 0; i < PEERS; i++) {
        struct toy_line *line;

        fds[i] = raw_connect(end.port);
        line = toy_line(&end, i + 1);
        (void)send(fds[i], frame, SIZE, MSG_NOSIGNAL); /* it may be closed meanwhile */
        T_AWAIT(atomic_load(&line->messages) == 1 || atomic_load(&line->caught) == 1 ||
                atomic_load(&line->disconnected) == 1);
        CHECK(toy_stats(&end).memory_used <= LIMIT);
        raw_ask(polite, "meanwhile");
    }
    kept = atomic_load(&end.site.keeps);
    CHECK(kept >= 1 && kept < PEERS);
    CHECK(toy_stats(&end).memory_used >= (uint64_t)kept * SIZE);
    CHECK(toy_stats(&end).memory_refused >= 1);
    for (int i = 0; i < kept; i++)
        toy_forget(&end.site, i);
    T_AWAIT(toy_stats(&end).memory_used == 0);
    for (int i = 0; i < PEERS; i++)
        close(fds[i]);
    raw_ask(polite, "afterwards");
    close(polite);
    toy_close(&end);
    free(frame);
    CHECK_OK(spn_log_set_level(SPN_LOG_WARN));
}

/* Replies that nobody reads have no more than `memory` either. */
TEST(endpoint__unread_replies__bounded_by_memory, "EP-19")
{
    enum { BODY = 10000, LIMIT = 512 << 10, PEERS = 4, MOST = 1 << 16 };
    unsigned char *body = many_bytes(BODY);
    spn_endpoint_opts opts = SPN_ENDPOINT_OPTS_INIT;
    struct toy_end end;
    int fds[PEERS], polite;

    CHECK_OK(spn_log_set_level(SPN_LOG_OFF));
    opts.io_threads = 1;
    opts.memory = LIMIT;
    toy_open(&end, &opts);
    polite = raw_connect(end.port);
    raw_ask(polite, "first");
    for (int i = 0; i < PEERS; i++) {
        spn_channel *channel;
        int sent = 0, rc;

        fds[i] = raw_connect(end.port);
        channel = toy_channel(&end, i + 1);
        while ((rc = toy_send(channel, 'O', body, BODY)) == SPN_OK && sent < MOST) {
            CHECK(toy_stats(&end).memory_used <= LIMIT);
            sent++;
        }
        CHECK(rc == SPN_ENOMEM || rc == SPN_EFULL);
        spn_channel_unref(channel);
        raw_ask(polite, "meanwhile");
    }
    CHECK(toy_stats(&end).memory_refused > 0);
    for (int i = 0; i < PEERS; i++)
        close(fds[i]);
    T_AWAIT(toy_stats(&end).memory_used == 0);
    raw_ask(polite, "afterwards");
    close(polite);
    toy_close(&end);
    free(body);
    CHECK_OK(spn_log_set_level(SPN_LOG_WARN));
}
