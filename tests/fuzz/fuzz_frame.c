/* SPDX-License-Identifier: MIT */
/*
 * fuzz_frame.c - any bytes from a client: a server on a transport that is fed by hand, whole
 * and in two pieces.  It answers with frames, waits for more, or ends the connection; it
 * keeps nothing, and what comes out for pieces is what comes out for the whole.
 *
 * An input that begins as a frame does is the stream.  Any other is the body of one request,
 * which gets its header here: no mutation has to guess a length, and most inputs reach the
 * decoding.  With FUZZ_FULL in the environment some bytes of that body are repeated until it
 * is as large as a server takes it.  The server has the payload of every server, and services as programs export
 * them: methods with and without parameters, overloaded ones, one for all names, a group.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include <spindle-rpc.h>

#include "net_pipe.h"
#include "rpc/server/serving.h"

enum { PAYLOAD = 8 << 20, INPUT_MAX = 16 + PAYLOAD, OUTPUT_MAX = 32 << 20 };

static spn_server *server;
static struct spn__transport *transport;

/* ---- services --------------------------------------------------------------------------- */

/* Asks for everything that a method may ask for. */
static int take_any(void *arg, spn_request *request)
{
    const spn_hvalue *value;
    spn_hspan text;
    int64_t number;
    int32_t narrow;
    double real;
    int flag;

    (void)arg;
    for (size_t i = 0; i < spn_request_count(request); i++) {
        (void)!spn_request_string(request, i, &text);
        (void)!spn_request_long(request, i, &number);
        (void)!spn_request_int(request, i, &narrow);
        fuzz_require(spn_request_value(request, i, &value) == SPN_OK);
        (void)!spn_hvalue_as_double(value, &real);
        (void)!spn_hvalue_as_bool(value, &flag);
    }
    fuzz_require(spn_request_method(request) != NULL);
    fuzz_require(spn_request_parameters(request) != NULL);
    (void)spn_request_remote(request);
    (void)spn_request_attachment(request, "path");
    (void)spn_request_attachment(request, "timeout");
    if (spn_request_count(request) > 0)
        return spn_request_return_value(request, value);
    return spn_request_attachments(request) != NULL;
}

/* A name that is in the table is what was asked for, to its last byte. */
static int take_named(void *arg, spn_request *request)
{
    fuzz_require(strcmp(spn_request_method(request), arg) == 0);
    return take_any(NULL, request);
}

static int add(void *arg, spn_request *request)
{
    int32_t a, b;
    int rc;

    (void)arg;
    if ((rc = spn_request_int(request, 0, &a)) != SPN_OK ||
        (rc = spn_request_int(request, 1, &b)) != SPN_OK)
        return rc;
    return spn_request_return_long(request, (int64_t)a + b);
}

struct user {
    int64_t id;
    const char *name;
    spn_hvalue *tags;
};

static int get_user(void *arg, spn_request *request)
{
    static const spn_hfield fields[] = {
        { "id", offsetof(struct user, id), SPN_HFIELD_LONG, 0, NULL },
        { "name", offsetof(struct user, name), SPN_HFIELD_TEXT, 0, NULL },
        { "tags", offsetof(struct user, tags), SPN_HFIELD_VALUE, 0, NULL },
    };
    static const spn_hstruct type = { "U", fields, 3, sizeof(struct user) };
    struct user user = { 0, NULL, NULL };
    const int rc = spn_request_struct(request, 0, &type, &user);

    (void)arg;
    return rc == SPN_OK ? spn_request_return_struct(request, &type, &user) : rc;
}

static int throw(void *arg, spn_request *request)
{
    (void)arg;
    return spn_request_throw(request, "E", "thrown");
}

static const spn_method methods[] = {
    { "echo", NULL, take_named, "echo" },
    { "hi", "Ljava/lang/String;", take_named, "hi" },
    { "hi", "I", take_named, "hi" },
    { "add", "II", add, NULL },
    { "user", "LU;", get_user, NULL },
    { "throw", "", throw, NULL },
};
static const spn_method all_names[] = { { "*", NULL, take_any, NULL } };

static const spn_service services[] = {
    { .size = sizeof(spn_service),
      .interface = "s",
      .methods = methods,
      .method_count = 6 },
    { .size = sizeof(spn_service),
      .interface = "s",
      .group = "g",
      .version = "1",
      .methods = methods,
      .method_count = 2 },
    { .size = sizeof(spn_service),
      .interface = "any",
      .methods = all_names,
      .method_count = 1 },
};

/* Requests run however long they took: a timeout that passes in one of the two runs of an
 * input would tell them apart. */
static void open_server(void)
{
    spn_server_opts opts = SPN_SERVER_OPTS_INIT;

    opts.run_expired = 1;
    (void)spn_log_set_level(SPN_LOG_OFF);
    fuzz_require(spn__transport_create(NULL, &transport) == SPN_OK);
    fuzz_require(spn__server_create_on(&server,
                                       "dubbo://127.0.0.1:1?dispatcher=direct&"
                                       "heartbeat=0&frame.timeout=0&dump.enable=false",
                                       &opts, transport, NULL) == SPN_OK);
    for (size_t i = 0; i < sizeof services / sizeof *services; i++)
        fuzz_require(spn_server_export(server, &services[i], NULL) == SPN_OK);
    fuzz_require(spn_server_start(server, NULL) == SPN_OK);
}

/* ---- one input ---------------------------------------------------------------------------- */

/* What came out must be frames. */
static void check_out(const unsigned char *out, size_t size)
{
    size_t at = 0;

    while (at < size) {
        uint32_t length;

        fuzz_require(size - at >= 16);
        fuzz_require(out[at] == 0xda && out[at + 1] == 0xbb);
        fuzz_require((out[at + 2] & 0xc0) == 0);
        length = (uint32_t)out[at + 12] << 24 | (uint32_t)out[at + 13] << 16 |
                 (uint32_t)out[at + 14] << 8 | out[at + 15];
        fuzz_require(length <= PAYLOAD && size - at - 16 >= length);
        at += 16 + length;
    }
}

static void feed(const uint8_t *data, size_t size)
{
    static unsigned char whole[OUTPUT_MAX], pieces[OUTPUT_MAX];
    spn_server_stats stats = SPN_SERVER_STATS_INIT;
    struct spn__conn *conn;
    size_t first, second, cut;

    conn = pipe_open(transport);
    (void)pipe_feed(conn, data, size);
    first = pipe_take(conn, whole, sizeof whole);
    check_out(whole, first);
    pipe_close(conn);
    /* In two pieces, cut where the input says. */
    cut = size > 0 ? (size_t)data[size - 1] * size / 256 : 0;
    conn = pipe_open(transport);
    if (pipe_feed(conn, data, cut))
        (void)pipe_feed(conn, data + cut, size - cut);
    second = pipe_take(conn, pieces, sizeof pieces);
    fuzz_require(first == second && memcmp(whole, pieces, first) == 0);
    pipe_close(conn);
    fuzz_require(spn_server_stats_get(server, &stats) == SPN_OK);
    fuzz_require(stats.in_flight == 0 && stats.connections == 0);
    fuzz_require(stats.requests == stats.replies + stats.dropped + stats.one_way);
}

/* Up to 32 bytes, of where the last byte says, as often as there is room for. */
static size_t stretch(unsigned char *to, const uint8_t *data, size_t size)
{
    const size_t at = (size_t)data[size - 1] * size / 256;
    const size_t unit = 1 + data[size - 1] % 32u;
    size_t used = at;

    memcpy(to, data, at);
    if (unit <= size - at)
        for (; used + unit + (size - at) <= PAYLOAD; used += unit)
            memcpy(to + used, data + at, unit);
    memcpy(to + used, data + at, size - at);
    return used + size - at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned char frame[INPUT_MAX];
    size_t length = size;

    if (size > PAYLOAD)
        return 0;
    if (server == NULL)
        open_server();
    if (size == 0 || data[0] == 0xda) {
        feed(data, size);
        return 0;
    }
    memcpy(frame, "\xda\xbb\xc2\0\0\0\0\0\0\0\0\1", 12);
    if (getenv("FUZZ_FULL") != NULL)
        length = stretch(frame + 16, data, size);
    else
        memcpy(frame + 16, data, size);
    for (int i = 0; i < 4; i++)
        frame[12 + i] = (unsigned char)(length >> (24 - 8 * i));
    feed(frame, 16 + length);
    return 0;
}
