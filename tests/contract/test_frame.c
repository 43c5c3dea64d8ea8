/* SPDX-License-Identifier: MIT */
/*
 * Frames and bodies, on a transport that is fed by hand (net_pipe.h): what each byte of a
 * frame leads to.  The same over sockets: test_server.c.
 */
#include "net_pipe.h"
#include "rpc/wire/frame.h"
#include "rpc/server/request.h"
#include "rpc/server/serving.h"
#include "rpc_demo.h"
#include "rpc_peer.h"

/* A server with the demo service on a pipe; methods run in whoever feeds it. */
struct fixture {
    struct demo demo;
    spn_server *server;
    struct spn__transport *transport;
};

static void open_with(struct fixture *f, const char *url)
{
    static spn_method methods[32];
    static spn_service service;
    DEMO_METHODS(list, &f->demo);
    const spn_service exported = DEMO_SERVICE(list);
    spn_problem problem = SPN_PROBLEM_INIT;

    memset(f, 0, sizeof *f);
    memcpy(methods, list, sizeof list);
    service = exported;
    service.methods = methods;
    REQUIRE_OK(spn__transport_create(NULL, &f->transport));
    REQUIRE_OK(spn__server_create_on(&f->server, url, NULL, f->transport, &problem));
    REQUIRE_OK(spn_server_export(f->server, &service, &problem));
    REQUIRE_OK(spn_server_start(f->server, &problem));
}

static void close_all(struct fixture *f)
{
    CHECK_OK(spn_server_stop(f->server, T_LONG_NS));
    CHECK_OK(spn_server_destroy(f->server));
    CHECK_OK(spn__transport_destroy(f->transport));
}

#define DIRECT "dubbo://127.0.0.1:20880?dispatcher=direct&heartbeat=0"

static spn_server_stats stats_of(spn_server *server)
{
    spn_server_stats stats = SPN_SERVER_STATS_INIT;

    CHECK_OK(spn_server_stats_get(server, &stats));
    return stats;
}

/* Takes one frame out of what was sent. */
static bool pipe_told(struct spn__conn *conn, struct told *told)
{
    unsigned char h[16];

    memset(told, 0, offsetof(struct told, body));
    if (pipe_take(conn, h, sizeof h) != sizeof h)
        return false;
    CHECK(h[0] == 0xda && h[1] == 0xbb);
    told->flags = h[2];
    told->status = h[3];
    for (int i = 4; i < 12; i++)
        told->id = told->id << 8 | h[i];
    for (int i = 12; i < 16; i++)
        told->length = told->length << 8 | h[i];
    REQUIRE(told->length < sizeof told->body);
    told->body[told->length] = '\0';
    CHECK_EQ(pipe_take(conn, told->body, told->length), told->length);
    return true;
}

static const struct asked hello = {
    .id = 0x8123456789abcdef,
    .method = "sayHello",
    .parameters = "Ljava/lang/String;",
    ARGS("\3bob"),
};

/* ---- headers ----------------------------------------------------------------------- */

/* A header is sixteen bytes, and what is written is read again. */
TEST(frame__header__as_the_protocol_has_it, "COD-1")
{
    const struct spn__frame frame = { 0xc2, 20, INT64_MIN + 5, 3 };
    struct spn__frame again;
    unsigned char h[16 + 3];
    size_t needed;

    spn__frame_write(h, &frame);
    CHECK(memcmp(h, "\xda\xbb\xc2\x14\x80\0\0\0\0\0\0\5\0\0\0\3", 16) == 0);
    CHECK_EQ(spn__frame_read(&again, h, 16 + 3, 100, &needed), SPN__FRAME_WHOLE);
    CHECK_EQ(needed, 19);
    CHECK_EQ(again.id, INT64_MIN + 5);
    CHECK_EQ(again.flags, 0xc2);
    CHECK_EQ(again.status, 20);
    CHECK_EQ(again.length, 3);
    for (size_t i = 0; i < 16; i++) {
        CHECK_EQ(spn__frame_read(&again, h, i, 100, &needed), SPN__FRAME_MORE);
        CHECK_EQ(needed, i < 2 ? 2 : 16);
    }
    CHECK_EQ(spn__frame_read(&again, h, 18, 100, &needed), SPN__FRAME_MORE);
    CHECK_EQ(needed, 19);
    CHECK_EQ(spn__frame_read(&again, h, 19, 3, &needed), SPN__FRAME_WHOLE);
    CHECK_EQ(spn__frame_read(&again, h, 16, 2, &needed), SPN__FRAME_TOO_LARGE);
    h[12] = 0x80;
    CHECK_EQ(spn__frame_read(&again, h, 16, 100, &needed), SPN__FRAME_NEGATIVE);
    h[1] = 0xbc;
    CHECK_EQ(spn__frame_read(&again, h, 2, 100, &needed), SPN__FRAME_NO_MAGIC);
    h[0] = 'h';
    CHECK_EQ(spn__frame_read(&again, h, 1, 100, &needed), SPN__FRAME_NO_MAGIC);
}

/* ---- the reply's shape ---------------------------------------------------------------- */

/* The reply has the id bit for bit, the flags of the version asked with. */
TEST(reply__of_a_value__as_the_version_wants_it, "COD-6", "COD-8", "COD-12")
{
    struct asked asked = hello;
    struct spn__conn *conn;
    struct fixture f;
    struct bytes b;
    struct told told;

    open_with(&f, DIRECT);
    conn = pipe_open(f.transport);
    b.size = 0;
    put_request(&b, &asked);
    CHECK(pipe_feed(conn, b.data, b.size));
    CHECK(pipe_told(conn, &told));
    CHECK_EQ(told.flags, 0x02);
    CHECK_EQ(told.status, 20);
    CHECK(told.id == hello.id);
    CHECK_BODY(&told, "\x94\x09hello bobH\5dubbo\0052.0.2Z");
    asked.dubbo = "2.0.0";
    b.size = 0;
    put_request(&b, &asked);
    CHECK(pipe_feed(conn, b.data, b.size));
    CHECK(pipe_told(conn, &told));
    CHECK_BODY(&told, "\x91\x09hello bob");
    asked.method = "nothing";
    asked.parameters = "";
    asked.arguments_size = 0;
    b.size = 0;
    put_request(&b, &asked);
    CHECK(pipe_feed(conn, b.data, b.size));
    CHECK(pipe_told(conn, &told));
    CHECK_BODY(&told, "\x92");
    asked.dubbo = "2.0.99";
    b.size = 0;
    put_request(&b, &asked);
    CHECK(pipe_feed(conn, b.data, b.size));
    CHECK(pipe_told(conn, &told));
    CHECK_BODY(&told, "\x95H\5dubbo\0052.0.2Z");
    pipe_close(conn);
    close_all(&f);
}

static bool has(const char *version)
{
    const spn_hspan span = { version, strlen(version) };

    return spn__dubbo_has_attachments(span);
}

/* Which versions take attachments. */
TEST(reply__attachments__by_version, "COD-12")
{
    static const char *const yes[] = { "2.0.2",  "2.0.3",   "2.0.10",
                                       "2.0.99", "2.0.2.1", "2.0.5-beta" };
    static const char *const no[] = {
        "2.0.0",          "2.0.1",     "2.1.0",     "2.6.2",
        "2.7.0",          "3.0.0",     "",          "2.0.contains",
        "version.string", "prefix2.0", "2.6.6.RC1", "2.0.",
        "2.0.100",        "2..2",      "1.0.0",     "2.6.6-stable",
        "2.0.2.0.0.0.0.0"
    };

    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        if (!has(yes[i]))
            CHECK_STR(yes[i], "taken for one without");
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (has(no[i]))
            CHECK_STR(no[i], "taken for one with");
}

/* An exception has the four fields that clients read. */
TEST(reply__of_an_exception__object_with_four_fields, "COD-14", "EXC-5")
{
    const struct asked asked = { .id = 1, .method = "fail", .dubbo = "2.0.0" };
    struct spn__conn *conn;
    struct fixture f;
    struct bytes b = { .size = 0 };
    struct told told;
    spn_harena *arena;
    struct spn__hreader reader;
    spn_hvalue *value;
    int32_t flag;

    open_with(&f, DIRECT);
    conn = pipe_open(f.transport);
    put_request(&b, &asked);
    CHECK(pipe_feed(conn, b.data, b.size));
    CHECK(pipe_told(conn, &told));
    CHECK_EQ(told.status, 20);
    REQUIRE_OK(spn_harena_create(&arena, NULL));
    spn__hreader_init(&reader, arena, told.body, told.length, NULL);
    CHECK_OK(spn__hreader_int(&reader, &flag));
    CHECK_EQ(flag, 0);
    REQUIRE_OK(spn__hreader_any(&reader, &value));
    CHECK_EQ(spn__hreader_left(&reader), 0);
    CHECK_EQ(spn_hvalue_kind(value), SPN_HOBJECT);
    CHECK_STR(spn_hvalue_type(value), "java.lang.IllegalStateException");
    CHECK_STR(spn_hvalue_text(spn_hvalue_get(value, "detailMessage")), "boom");
    CHECK_EQ(spn_hvalue_kind(spn_hvalue_get(value, "stackTrace")), SPN_HLIST);
    CHECK_EQ(spn_hvalue_count(spn_hvalue_get(value, "stackTrace")), 0);
    CHECK_EQ(spn_hvalue_count(value), 4);
    CHECK_EQ(spn_hvalue_kind(spn_hvalue_get(value, "cause")), SPN_HNULL);
    CHECK_EQ(stats_of(f.server).exceptions, 1);
    spn_harena_destroy(arena);
    pipe_close(conn);
    close_all(&f);
}

/* ---- what is wrong ----------------------------------------------------------------------- */

/* Cut at every place, and several at once: each is answered once, in order. */
TEST(frame__cut_anywhere_or_joined__answered_once_each, "COD-1", "COD-2")
{
    struct bytes one = { .size = 0 };
    struct bytes three = { .size = 0 };
    struct asked asked = hello;
    struct fixture f;
    struct told told;

    open_with(&f, DIRECT);
    put_request(&one, &hello);
    for (size_t cut = 0; cut <= one.size; cut++) {
        struct spn__conn *conn = pipe_open(f.transport);

        CHECK(pipe_feed(conn, one.data, cut));
        CHECK_EQ(pipe_waiting(conn), cut < one.size ? cut : 0);
        CHECK(pipe_feed(conn, one.data + cut, one.size - cut));
        CHECK(pipe_told(conn, &told));
        CHECK_EQ(told.status, 20);
        CHECK(!pipe_told(conn, &told));
        pipe_close(conn);
    }
    for (uint64_t id = 1; id <= 3; id++) {
        asked.id = id;
        put_request(&three, &asked);
    }
    for (size_t step = 1; step <= three.size; step += 7) {
        struct spn__conn *conn = pipe_open(f.transport);

        for (size_t at = 0; at < three.size; at += step)
            CHECK(pipe_feed(conn, three.data + at,
                            three.size - at < step ? three.size - at : step));
        for (uint64_t id = 1; id <= 3; id++) {
            CHECK(pipe_told(conn, &told));
            CHECK_EQ(told.id, id);
            CHECK_EQ(told.status, 20);
        }
        pipe_close(conn);
    }
    close_all(&f);
}

/* What is no frame closes the connection by its first byte, and without a word. */
TEST(frame__no_magic__closed_without_answer, "COD-3")
{
    struct fixture f;
    struct told told;
    struct spn__conn *conn;
    struct bytes b = { .size = 0 };

    open_with(&f, DIRECT);
    conn = pipe_open(f.transport);
    CHECK(!pipe_feed(conn, "s", 1));
    CHECK(!pipe_told(conn, &told));
    pipe_close(conn);
    conn = pipe_open(f.transport);
    CHECK(pipe_feed(conn, "\xda", 1));
    CHECK(!pipe_feed(conn, "\xda\xbb", 2));
    pipe_close(conn);
    /* A frame behind garbage is not searched for; one in front of it is answered. */
    conn = pipe_open(f.transport);
    put_request(&b, &hello);
    put(&b, "status\r\n", 8);
    put_request(&b, &hello);
    CHECK(!pipe_feed(conn, b.data, b.size));
    CHECK(pipe_told(conn, &told));
    CHECK(!pipe_told(conn, &told));
    pipe_close(conn);
    CHECK_EQ(stats_of(f.server).bad_frames, 3);
    close_all(&f);
}

/* What came is accounted for: each request has its reply, or wants none. */
static void check_sum(spn_server *server, uint64_t requests, uint64_t replies,
                      uint64_t one_way)
{
    const spn_server_stats stats = stats_of(server);

    CHECK_EQ(stats.requests, requests);
    CHECK_EQ(stats.replies, replies);
    CHECK_EQ(stats.one_way, one_way);
    CHECK_EQ(stats.requests,
             stats.replies + stats.dropped + stats.one_way + stats.in_flight);
}

static void note_requests(void *ctx, const spn_channel_info *channel)
{
    *(uint64_t *)ctx = channel->requests;
}

/* A length that cannot be is refused before a byte of the body is there. */
TEST(frame__length_beyond_payload__status_40_and_closed, "COD-4", "EXC-22")
{
    static const struct {
        uint32_t length;
        int flags, answers, closes;
    } cases[] = {
        { 1000, TWO_WAY, 0, 0 },       { 1001, TWO_WAY, 1, 1 },
        { 0x7fffffff, TWO_WAY, 1, 1 }, { 0xffffffff, TWO_WAY, 1, 1 },
        { 0x80000000, TWO_WAY, 1, 1 }, { 1001, ONE_WAY, 0, 1 },
        { 1001, 0x02, 0, 1 },          { 1001, 0xe2, 0, 1 },
    };
    struct fixture f;

    open_with(&f, DIRECT "&payload=1000");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct spn__conn *conn = pipe_open(f.transport);
        struct bytes b = { .size = 0 };
        struct told told;

        put_header(&b, cases[i].flags, 0, 77, cases[i].length);
        CHECK_EQ(pipe_feed(conn, b.data, b.size), !cases[i].closes);
        CHECK_EQ(pipe_told(conn, &told), cases[i].answers);
        if (cases[i].answers) {
            CHECK_EQ(told.id, 77);
            CHECK_EQ(told.status, 40);
            if (cases[i].length < 0x80000000)
                CHECK_HAS(told_text(&told), "Data length too large: ");
            else
                CHECK_HAS(told_text(&told), "negative length");
        }
        pipe_close(conn);
    }
    CHECK_EQ(stats_of(f.server).bad_frames, 7);
    check_sum(f.server, 5, 4, 1);
    close_all(&f);
}

/* Another serialization is passed over; who asked two-way is told. */
TEST(frame__unknown_serialization__status_40_and_goes_on, "COD-5", "EXC-22")
{
    struct fixture f;
    struct spn__conn *conn;
    struct bytes b = { .size = 0 };
    struct told told;
    uint64_t requests = 0;

    open_with(&f, DIRECT);
    conn = pipe_open(f.transport);
    put_header(&b, 0xcf, 0, 5, 3); /* two-way */
    put(&b, "abc", 3);
    put_header(&b, 0x8f, 0, 6, 3); /* one-way */
    put(&b, "abc", 3);
    put_header(&b, 0xef, 0, 7, 3); /* an event */
    put(&b, "abc", 3);
    put_header(&b, 0x0f, 20, 8, 3); /* a response */
    put(&b, "abc", 3);
    put_request(&b, &hello);
    CHECK(pipe_feed(conn, b.data, b.size));
    CHECK(pipe_told(conn, &told));
    CHECK_EQ(told.id, 5);
    CHECK_EQ(told.status, 40);
    CHECK_HAS(told_text(&told), "serialize type 15");
    CHECK(pipe_told(conn, &told));
    CHECK(told.id == hello.id);
    CHECK(!pipe_told(conn, &told));
    CHECK_OK(spn_server_each_channel(f.server, note_requests, &requests));
    CHECK_EQ(requests, 3);
    pipe_close(conn);
    CHECK_EQ(stats_of(f.server).bad_frames, 4);
    check_sum(f.server, 3, 2, 1);
    close_all(&f);
}

/* Heartbeats are answered, other events are not. */
TEST(frame__events__only_heartbeats_are_answered, "COD-7")
{
    struct fixture f;
    struct spn__conn *conn;
    struct bytes b = { .size = 0 };
    unsigned char out[64];
    struct told told;
    spn_server_stats stats;

    open_with(&f, DIRECT);
    conn = pipe_open(f.transport);
    put_header(&b, 0xe2, 0, 0x0102030405060708, 1);
    put(&b, "N", 1);
    CHECK(pipe_feed(conn, b.data, b.size));
    CHECK_EQ(pipe_take(conn, out, sizeof out), 17);
    CHECK(memcmp(out, "\xda\xbb\x22\x14\1\2\3\4\5\6\7\x08\0\0\0\1N", 17) == 0);
    b.size = 0;
    put_header(&b, 0xe2, 0, 9, 0); /* an empty one will do */
    CHECK(pipe_feed(conn, b.data, b.size));
    CHECK(pipe_told(conn, &told));
    CHECK_EQ(told.id, 9);
    b.size = 0;
    put_header(&b, 0xa2, 0, 1, 1); /* one-way */
    put(&b, "N", 1);
    put_header(&b, 0x22, 20, 1, 1); /* an answer */
    put(&b, "N", 1);
    put_header(&b, 0xa2, 0, 1, 2);
    put(&b, "\1R", 2);
    put_header(&b, 0xe2, 0, 1, 2); /* two-way, and no answer */
    put(&b, "\1W", 2);
    put_header(&b, 0xe2, 0, 1, 16); /* too long */
    put(&b, "\017123456789012345", 16);
    CHECK(pipe_feed(conn, b.data, b.size));
    CHECK(!pipe_told(conn, &told));
    stats = stats_of(f.server);
    CHECK_EQ(stats.heartbeats, 2);
    CHECK_EQ(stats.events, 2);
    CHECK_EQ(stats.bad_frames, 1);
    CHECK_EQ(stats.requests, 0);
    pipe_close(conn);
    close_all(&f);
}

/* The mark of a peer that wants no more requests. */
TEST(frame__read_only_event__marks_the_channel, "COD-7")
{
    struct fixture f;
    struct spn__conn *conn;
    struct spn__stream *stream;
    struct bytes b = { .size = 0 };

    open_with(&f, DIRECT);
    conn = pipe_open(f.transport);
    stream = spn__conn_data(conn);
    put_header(&b, 0xa2, 0, 1, 2);
    put(&b, "\1R", 2);
    CHECK(pipe_feed(conn, b.data, b.size));
    CHECK_EQ(spn__load(&stream->state, relaxed), SPN__STREAM_READ_ONLY);
    b.data[17] = 'W';
    CHECK(pipe_feed(conn, b.data, b.size));
    CHECK_EQ(spn__load(&stream->state, relaxed), 0);
    pipe_close(conn);
    close_all(&f);
}

/* A body that ends early is answered with status 40, and the next request is served. */
TEST(body__cut_short__status_40_and_goes_on, "COD-9")
{
    struct fixture f;
    struct bytes body = { .size = 0 };
    struct spn__conn *conn;

    open_with(&f, DIRECT);
    conn = pipe_open(f.transport);
    put_body(&body, &hello);
    for (size_t length = 0; length < body.size; length++) {
        struct bytes b = { .size = 0 };
        struct told told;

        put_header(&b, TWO_WAY, 0, length, (uint32_t)length);
        put(&b, body.data, length);
        put_header(&b, ONE_WAY, 0, length, (uint32_t)length);
        put(&b, body.data, length);
        put_request(&b, &hello);
        CHECK(pipe_feed(conn, b.data, b.size));
        CHECK(pipe_told(conn, &told));
        CHECK_EQ(told.id, length);
        CHECK_EQ(told.status, 40);
        CHECK_HAS(told_text(&told), "Fail to decode request due to: ");
        CHECK(pipe_told(conn, &told));
        CHECK(told.id == hello.id);
        CHECK_EQ(told.status, 20);
        CHECK(!pipe_told(conn, &told));
    }
    CHECK_EQ(stats_of(f.server).bad_bodies, 2 * body.size);
    CHECK_EQ(atomic_load(&f.demo.calls), body.size);
    pipe_close(conn);
    close_all(&f);
}

/* Bytes behind the attachments are passed over. */
TEST(body__with_more_behind__taken, "COD-8")
{
    struct fixture f;
    struct bytes body = { .size = 0 };
    struct bytes b = { .size = 0 };
    struct spn__conn *conn;
    struct told told;

    open_with(&f, DIRECT);
    conn = pipe_open(f.transport);
    put_body(&body, &hello);
    for (int i = 0; i < 512; i++)
        put_byte(&body, 0xff);
    put_header(&b, TWO_WAY, 0, 1, (uint32_t)body.size);
    put(&b, body.data, body.size);
    put_request(&b, &hello);
    CHECK(pipe_feed(conn, b.data, b.size));
    CHECK(pipe_told(conn, &told));
    CHECK_EQ(told.status, 20);
    CHECK(pipe_told(conn, &told));
    CHECK(told.id == hello.id);
    pipe_close(conn);
    close_all(&f);
}

static int count(const char *descriptor)
{
    return spn__descriptor_count(descriptor, strlen(descriptor));
}

/* Descriptors, right and wrong. */
TEST(body__descriptor__counted_or_refused, "COD-10")
{
    char many[600];

    CHECK_EQ(count(""), 0);
    CHECK_EQ(count("I"), 1);
    CHECK_EQ(count("IJZBCDFS"), 8);
    CHECK_EQ(count("Ljava/lang/String;I[[J[Ljava/lang/Object;"), 4);
    CHECK_EQ(count("V"), SPN_EINVAL);
    CHECK_EQ(count("L;"), SPN_EINVAL);
    CHECK_EQ(count("Ljava/lang/String"), SPN_EINVAL);
    CHECK_EQ(count("["), SPN_EINVAL);
    CHECK_EQ(count("I["), SPN_EINVAL);
    CHECK_EQ(count("La[b;"), SPN_EINVAL);
    CHECK_EQ(count("ILjava.lang.String;x"), SPN_EINVAL);
    CHECK_EQ(spn__descriptor_count("I\0I", 3), SPN_EINVAL);
    memset(many, 'I', 256);
    many[255] = '\0';
    CHECK_EQ(count(many), 255);
    many[255] = 'I';
    many[256] = '\0';
    CHECK_EQ(count(many), SPN_EINVAL);
    memset(many, '[', 256);
    strcpy(many + 255, "I");
    CHECK_EQ(count(many), 1);
    strcpy(many + 255, "[I");
    CHECK_EQ(count(many), SPN_EINVAL);
}

/* ---- names ---------------------------------------------------------------------------- */

/* A string of any length, with any bytes of ASCII, in pieces of up to 65535. */
static unsigned char *put_long(unsigned char *at, const char *text, size_t length)
{
    for (bool last = false; !last;) {
        const size_t piece = length < 0xffff ? length : 0xffff;

        last = piece == length;
        *at++ = last ? 'S' : 'R';
        *at++ = (unsigned char)(piece >> 8);
        *at++ = (unsigned char)piece;
        memcpy(at, text, piece);
        at += piece;
        text += piece;
        length -= piece;
    }
    return at;
}

/* The texts a request begins with, and which of them is as a test wants it. */
enum { DUBBO, PATH, VERSION, METHOD, PARAMETERS, TEXTS };

/* A request whose text `which` is `length` bytes of `text`, and the reply to it.  Texts of up to
 * 31 bytes have one byte in front, as most have; longer ones are read by the reader. */
static void ask_with_text(struct spn__conn *conn, int which, const char *text,
                          size_t length, struct told *told)
{
    static const char *const texts[TEXTS] = { "2.0.0", DEMO, "1.0.0", "sayHello",
                                              "Ljava/lang/String;" };
    unsigned char *frame = malloc(length + 500), *at = frame + 16;
    struct bytes header = { .size = 0 };

    REQUIRE(frame != NULL);
    for (int i = 0; i < TEXTS; i++) {
        const char *data = i == which ? text : texts[i];
        const size_t size = i == which ? length : strlen(texts[i]);

        if (size < 32) {
            *at++ = (unsigned char)size;
            memcpy(at, data, size);
            at += size;
        } else {
            at = put_long(at, data, size);
        }
    }
    memcpy(at, "\3bobH\5group\2g1Z", 15);
    at += 15;
    put_header(&header, TWO_WAY, 0, 7, (uint32_t)(at - frame - 16));
    memcpy(frame, header.data, 16);
    CHECK(pipe_feed(conn, frame, (size_t)(at - frame)));
    CHECK(pipe_told(conn, told));
    free(frame);
}

/* No text that a request begins with may hold a zero byte: outside it would be a shorter one.
 * However long what follows the zero is, nothing is read behind the name it looks like. */
TEST(body__text_with_a_zero_byte__status_40, "COD-17")
{
    static const char *const begins[TEXTS] = { "2.0.0", DEMO, "1.0.0", "sayHello",
                                               "Ljava/lang/String;" };
    static char text[1000000];
    struct fixture f;
    struct spn__conn *conn;
    struct told told;

    open_with(&f, DIRECT);
    conn = pipe_open(f.transport);
    for (int which = 0; which < TEXTS; which++) {
        const size_t name = strlen(begins[which]);
        const size_t lengths[] = { name + 1, name + 2, name + 40, 1000, sizeof text };

        memset(text, 'x', sizeof text);
        memcpy(text, begins[which], name + 1);
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            ask_with_text(conn, which, text, lengths[i], &told);
            CHECK_EQ(told.id, 7);
            CHECK_EQ(told.status, 40);
            CHECK_HAS(told_text(&told), "zero byte");
        }
        memset(text, 0, sizeof text);
        ask_with_text(conn, which, text, sizeof text, &told);
        CHECK_EQ(told.status, 40);
    }
    CHECK_EQ(atomic_load(&f.demo.calls), 0);
    ask_with_text(conn, METHOD, "sayHello", 8, &told);
    CHECK_EQ(told.status, 20);
    pipe_close(conn);
    close_all(&f);
}

/* The same of `$echo`, which every service has, and of attachments that say what is meant. */
TEST(body__zero_byte_in_echo_and_attachments__refused, "COD-17", "EXC-3")
{
    struct fixture f;
    struct spn__conn *conn;
    struct bytes body = { .size = 0 }, b = { .size = 0 };
    struct told told;

    open_with(&f, DIRECT);
    conn = pipe_open(f.transport);
    ask_with_text(conn, METHOD, "$echo\0$", 7, &told);
    CHECK_EQ(told.status, 40);
    for (int reader = 0; reader < 2;
         reader++) { /* with a list, it is not read in place */
        body.size = b.size = 0;
        put_text(&body, "2.0.0");
        put_text(&body, DEMO);
        put_text(&body, "1.0.0");
        put_text(&body, "sayHello");
        put_text(&body, "Ljava/lang/String;");
        put(&body, "\3bobH", 5);
        if (reader)
            put(&body, "\1xx", 3); /* a list of none */
        put(&body, "\5group\3g1\0", 10);
        put_byte(&body, 'Z');
        put_header(&b, TWO_WAY, 0, 3, (uint32_t)body.size);
        put(&b, body.data, body.size);
        CHECK(pipe_feed(conn, b.data, b.size));
        CHECK(pipe_told(conn, &told));
        CHECK_EQ(told.status, 70);
        CHECK_HAS(told_text(&told), "Not found exported service: ");
    }
    CHECK_EQ(atomic_load(&f.demo.calls), 0);
    pipe_close(conn);
    close_all(&f);
}

/* Names are the same if all of their bytes are: no beginning and no longer one will do. */
TEST(service__method__found_by_all_of_its_name, "EXC-2", "COD-17")
{
    /* Behind the zero of each name are more. */
    static const char echo[64] = "echo", add[64] = "add", two[64] = "II";
    static const spn_method methods[] = { { echo, NULL, NULL, NULL },
                                          { add, two, NULL, NULL } };
    static const spn_service service = {
        .size = sizeof service, .interface = "s", .methods = methods, .method_count = 2
    };
    static const spn_hspan none = { NULL, 0 };
    const struct {
        spn_hspan name, parameters;
        int index; /* -1: none */
    } cases[] = {
        { { "echo", 4 }, none, 0 },
        { { "echo", 3 }, none, -1 },
        { { "echo\0", 5 }, none, -1 },
        { { "echo\0xxxxxxxxxxxxxxx", 20 }, none, -1 },
        { { "", 0 }, none, -1 },
        { { "echoo", 5 }, none, -1 },
        { { "add", 3 }, { "II", 2 }, 1 },
        { { "add", 3 }, { "I", 1 }, -1 },
        { { "add", 3 }, { "II\0", 3 }, -1 },
        { { "add", 3 }, { "II\0IIIIIIII", 11 }, -1 },
        { { "add", 3 }, none, -1 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK(spn__service_method(&service, cases[i].name, cases[i].parameters) ==
              (cases[i].index < 0 ? NULL : &methods[cases[i].index]));
}

/* ---- arguments ------------------------------------------------------------------------------ */

/* Asks a two-way request of the pipe; what came is in told. */
static void ask(struct spn__conn *conn, const struct asked *asked, struct told *told)
{
    struct bytes b = { .size = 0 };

    put_request(&b, asked);
    CHECK(pipe_feed(conn, b.data, b.size));
    CHECK(pipe_told(conn, told));
}

/* Every form of a number is taken where one is wanted; what does not fit is told. */
TEST(arguments__numbers__of_every_form, "EXC-7", "EXC-4")
{
#define ADDED(literal, reply)                                                    \
    do {                                                                         \
        const struct asked sum = {                                               \
            .method = "add", .parameters = "II", .dubbo = "2.0.0", ARGS(literal) \
        };                                                                       \
        ask(conn, &sum, &told);                                                  \
        CHECK_EQ(told.status, 20);                                               \
        CHECK_BODY(&told, "\x91" reply);                                         \
    } while (0)
#define REFUSED(literal, part)                         \
    do {                                               \
        const struct asked sum = { .method = "add",    \
                                   .parameters = "II", \
                                   ARGS(literal) };    \
        ask(conn, &sum, &told);                        \
        CHECK_EQ(told.status, 70);                     \
        CHECK_HAS(told_text(&told), part);             \
        CHECK_HAS(told_text(&told), "add");            \
    } while (0)
    struct fixture f;
    struct spn__conn *conn;
    struct told told;

    open_with(&f, DIRECT);
    conn = pipe_open(f.transport);
    ADDED("\x91\x92", "\x93");
    ADDED("\x80\xbf", "\xaf");
    ADDED("\xc8\x30\x90", "\xc8\x30");
    ADDED("\xd4\x30\x00\x90", "\xd4\x30\x00");
    ADDED("I\x00\x10\x00\x00\x90", "I\x00\x10\x00\x00");
    ADDED("I\xff\xff\xff\xff\x91", "\x90");
    ADDED("\xe1\xef", "\xa0"); /* longs that fit */
    ADDED("\xf8\x10\x90", "\xa0");
    ADDED("\x3c\x01\x00\x90", "\xc9\x00");
    ADDED("Y\x00\x00\x00\x05\x90", "\x95");
    ADDED("L\x00\x00\x00\x00\x00\x00\x00\x05\x90", "\x95");
    ADDED("\x5c\x5d\x07", "\x98"); /* whole doubles */
    REFUSED("L\x00\x00\x00\x01\x00\x00\x00\x05\x90", "argument 0 does not fit");
    REFUSED("\x91\3two", "argument 1 is of kind string, not int");
    REFUSED("NN", "argument 0 is of kind null, not int");
    REFUSED("TF", "argument 0 is of kind bool, not int");
    {
        const struct asked none = { .method = "about" };

        ask(conn, &none, &told);
        CHECK_EQ(told.status, 70);
        CHECK_HAS(told_text(&told), "there is no argument 0");
    }
    pipe_close(conn);
    close_all(&f);
#undef ADDED
#undef REFUSED
}

/* Texts of every form: short, long, in pieces, beyond ASCII, null. */
TEST(arguments__texts__of_every_form, "COD-8", "EXC-7")
{
    struct fixture f;
    struct spn__conn *conn;
    struct told told;
    struct asked asked = hello;
    struct bytes argument = { .size = 0 };

    open_with(&f, DIRECT);
    conn = pipe_open(f.transport);
    asked.dubbo = "2.0.0";
    asked.arguments = "N";
    asked.arguments_size = 1;
    ask(conn, &asked, &told);
    CHECK_BODY(&told, "\x91\x0chello (null)");
    asked.arguments = "\x02\xc3\xa4\xe2\x82\xac"; /* two characters, five bytes */
    asked.arguments_size = 6;
    ask(conn, &asked, &told);
    CHECK_BODY(&told, "\x91\x08hello \xc3\xa4\xe2\x82\xac");
    asked.arguments = "R\0\1aS\0\1b";
    asked.arguments_size = 8;
    ask(conn, &asked, &told);
    CHECK_BODY(&told, "\x91\x08hello ab");
    asked.arguments = "\x02\xc3\x28"; /* no UTF-8 */
    asked.arguments_size = 3;
    ask(conn, &asked, &told);
    CHECK_EQ(told.status, 40);
    for (int i = 0; i < 40; i++)
        argument.data[2 + i] = 'y';
    argument.data[0] = 0x30;
    argument.data[1] = 40;
    asked.arguments = argument.data;
    asked.arguments_size = 42;
    ask(conn, &asked, &told);
    CHECK_EQ(told.status, 20);
    CHECK_EQ(told.length, 1 + 2 + 46);
    asked.arguments = "\3a\0b"; /* a zero byte is no C string */
    asked.arguments_size = 4;
    ask(conn, &asked, &told);
    CHECK_EQ(told.status, 70);
    CHECK_HAS(told_text(&told), "zero byte");
    pipe_close(conn);
    close_all(&f);
}

/* An object becomes a struct, and a struct an object; tables go on behind it. */
TEST(arguments__struct__both_ways, "COD-8")
{
    const struct asked asked = {
        .method = "getUser",
        .parameters = "Lcom/demo/UserRequest;",
        .dubbo = "2.0.0",
        ARGS("C\x14"
             "com.demo.UserRequest\x93\2id\4name\5email`\xe1\3bob\5x@y.z"),
    };
    struct fixture f;
    struct spn__conn *conn;
    struct told told;
    spn_harena *arena;
    struct spn__hreader reader;
    spn_hvalue *value;
    char text[200];
    int32_t flag;

    open_with(&f, DIRECT);
    conn = pipe_open(f.transport);
    ask(conn, &asked, &told);
    CHECK_EQ(told.status, 20);
    REQUIRE_OK(spn_harena_create(&arena, NULL));
    spn__hreader_init(&reader, arena, told.body, told.length, NULL);
    CHECK_OK(spn__hreader_int(&reader, &flag));
    CHECK_EQ(flag, 1);
    REQUIRE_OK(spn__hreader_any(&reader, &value));
    CHECK(spn_hvalue_print(value, text, sizeof text) > 0);
    CHECK_STR(spn_hvalue_type(value), "com.demo.User");
    CHECK_STR(spn_hvalue_text(spn_hvalue_get(value, "name")), "bob");
    CHECK_EQ(spn_hvalue_count(spn_hvalue_get(value, "tags")), 2);
    spn_harena_destroy(arena);
    pipe_close(conn);
    close_all(&f);
}

/* Which attachments count, and what they count for. */
TEST(attachments__path_version_group__say_what_is_meant, "COD-11")
{
    struct asked asked = { .method = "about",
                           .parameters = "Ljava/lang/String;",
                           .dubbo = "2.0.0",
                           ARGS("\1k"),
                           .attached = { "k", "v" } };
    struct fixture f;
    struct spn__conn *conn;
    struct bytes b = { .size = 0 };
    struct bytes body = { .size = 0 };
    struct told told;

    open_with(&f, DIRECT);
    conn = pipe_open(f.transport);
    ask(conn, &asked, &told);
    CHECK_EQ(told.status, 20);
    CHECK(strstr((char *)told.body, "about|Ljava/lang/String;|1|v") != NULL);
    /* Those of the map win over the fields. */
    asked.path = "wrong";
    asked.version = "9.9";
    asked.attached[2] = "path";
    asked.attached[3] = DEMO;
    asked.attached[4] = "version";
    asked.attached[5] = "1.0.0";
    ask(conn, &asked, &told);
    CHECK_EQ(told.status, 20);
    CHECK(strstr((char *)told.body, "about|") != NULL);
    /* A number is its text; a map that is not so plain does as well. */
    put_text(&body, "2.0.0");
    put_text(&body, DEMO);
    put_text(&body, "1.0.0");
    put_text(&body, "about");
    put_text(&body, "Ljava/lang/String;");
    put_text(&body, "timeout");
    put(&body, "H\7timeout\xd4\x30\x00\5group\2g1", 21);
    put_text(&body, "list");
    put(&body, "z\x91\x92Z", 4);
    put_header(&b, TWO_WAY, 0, 3, (uint32_t)body.size);
    put(&b, body.data, body.size);
    CHECK(pipe_feed(conn, b.data, b.size));
    CHECK(pipe_told(conn, &told));
    CHECK_EQ(told.status, 20);
    CHECK(strstr((char *)told.body, "|1|12288") != NULL);
    /* None at all: then the fields, and no group. */
    body.size = b.size = 0;
    put_text(&body, "2.0.0");
    put_text(&body, DEMO);
    put_text(&body, "1.0.0");
    put_text(&body, "nothing");
    put_text(&body, "");
    put_byte(&body, 'N');
    put_header(&b, TWO_WAY, 0, 3, (uint32_t)body.size);
    put(&b, body.data, body.size);
    CHECK(pipe_feed(conn, b.data, b.size));
    CHECK(pipe_told(conn, &told));
    CHECK_EQ(told.status, 70);
    CHECK_HAS(told_text(&told), "Not found exported service: " DEMO ":1.0.0:20880");
    /* Something that is no map. */
    body.data[body.size - 1] = 0x91;
    b.size = 0;
    put_header(&b, TWO_WAY, 0, 3, (uint32_t)body.size);
    put(&b, body.data, body.size);
    CHECK(pipe_feed(conn, b.data, b.size));
    CHECK(pipe_told(conn, &told));
    CHECK_EQ(told.status, 40);
    CHECK_HAS(told_text(&told), "attachments are no map");
    pipe_close(conn);
    close_all(&f);
}

/* A reply beyond the limit is replaced by one that says so. */
TEST(reply__larger_than_payload__status_25, "COD-15")
{
    struct asked asked = { .method = "large", .parameters = "I", ARGS("\xcb\xe8") };
    struct fixture f;
    struct spn__conn *conn;
    struct told told;

    open_with(&f, DIRECT "&payload=1000");
    conn = pipe_open(f.transport);
    ask(conn, &asked, &told);
    CHECK_EQ(told.status, 25);
    CHECK_HAS(told_text(&told), "Data length too large, max payload: 1000");
    asked.arguments = "\xca\xe8"; /* 744 */
    ask(conn, &asked, &told);
    CHECK_EQ(told.status, 20);
    pipe_close(conn);
    close_all(&f);
}

/* ---- every bit -------------------------------------------------------------------------------- */

/* Feeds a frame, then a good one; whatever comes of the first, the server lives, and the
 * second is answered unless the connection ended or waits for more. */
static void feed_hostile(struct fixture *f, const struct bytes *frame)
{
    struct spn__conn *conn = pipe_open(f->transport);
    struct bytes good = { .size = 0 };
    struct told told;

    put_request(&good, &hello);
    if (pipe_feed(conn, frame->data, frame->size) && pipe_waiting(conn) == 0 &&
        pipe_feed(conn, good.data, good.size)) {
        bool is_answered = false;

        while (pipe_told(conn, &told))
            is_answered = is_answered || (told.id == hello.id && told.status == 20);
        CHECK(is_answered);
    }
    pipe_close(conn);
}

/* Every prefix and every single flipped bit of frames of each kind. */
TEST(frame__every_prefix_and_flipped_bit__survived, "COD-16")
{
    static const struct asked kinds[] = {
        { .id = 1,
          .method = "sayHello",
          .parameters = "Ljava/lang/String;",
          ARGS("\3bob"),
          .attached = { "path", DEMO, "timeout", "1000" } },
        { .id = 2, .method = "add", .parameters = "II", ARGS("\x91\xc8\x30") },
        { .id = 3,
          .method = "getUser",
          .parameters = "Lcom/demo/UserRequest;",
          ARGS("C\x14"
               "com.demo.UserRequest\x93\2id\4name\5email`\xe1\3bob\5x@y.z") },
        { .id = 4,
          .method = "$echo",
          .parameters = "Ljava/lang/Object;",
          ARGS("H\1ay\x51\x90\1bV\4[int\x92\x91\x92Z") },
        { .id = 5, .method = "nothing", .flags = ONE_WAY },
    };
    struct fixture f;

    open_with(&f, DIRECT);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        struct bytes frame = { .size = 0 };

        put_request(&frame, &kinds[k]);
        for (size_t size = 0; size < frame.size; size++) {
            struct bytes prefix = frame;

            prefix.size = size;
            feed_hostile(&f, &prefix);
        }
        for (size_t bit = 0; bit < frame.size * 8; bit++) {
            frame.data[bit / 8] ^= (unsigned char)(1u << bit % 8);
            feed_hostile(&f, &frame);
            frame.data[bit / 8] ^= (unsigned char)(1u << bit % 8);
        }
    }
    CHECK_EQ(stats_of(f.server).in_flight, 0);
    CHECK_EQ(stats_of(f.server).connections, 0);
    close_all(&f);
}
