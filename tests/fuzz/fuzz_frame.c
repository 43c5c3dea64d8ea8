/* SPDX-License-Identifier: MIT */
/*
 * fuzz_frame.c - any bytes from a client: a server on a transport that is fed by hand, whole
 * and in two pieces.  It answers with frames, waits for more, or ends the connection; it
 * keeps nothing, and what comes out for pieces is what comes out for the whole.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include <spindle-rpc.h>

#include "net_pipe.h"
#include "rpc/serving.h"

static spn_server *server;
static struct spn__transport *transport;

static int take_any(void *arg, spn_request *request)
{
    const spn_hvalue *value;
    spn_hspan text;
    int64_t number;
    double real;
    int flag;

    (void)arg;
    for (size_t i = 0; i < spn_request_count(request); i++) {
        (void)!spn_request_string(request, i, &text);
        (void)!spn_request_long(request, i, &number);
        (void)!spn_request_double(request, i, &real);
        (void)!spn_request_bool(request, i, &flag);
        fuzz_require(spn_request_value(request, i, &value) == SPN_OK);
    }
    fuzz_require(strlen(spn_request_method(request)) > 0 ||
                 spn_request_method(request)[0] == '\0');
    (void)spn_request_attachment(request, "path");
    if (spn_request_count(request) > 0)
        return spn_request_return_value(request, value);
    return (int)(spn_request_id(request) & 1);
}

static void open_server(void)
{
    static const spn_method methods[] = { { "*", NULL, take_any, NULL } };
    static const spn_service service = {
        .size = sizeof service, .interface = "s", .methods = methods, .method_count = 1
    };

    fuzz_require(spn__transport_create(NULL, &transport) == SPN_OK);
    fuzz_require(spn__server_create_on(&server,
                                       "dubbo://127.0.0.1:1?dispatcher=direct&"
                                       "heartbeat=0&payload=4096&dump.enable=false",
                                       NULL, transport, NULL) == SPN_OK);
    fuzz_require(spn_server_export(server, &service, NULL) == SPN_OK);
    fuzz_require(spn_server_start(server, NULL) == SPN_OK);
}

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
        fuzz_require(length <= 4096 && size - at - 16 >= length);
        at += 16 + length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned char whole[1 << 20], pieces[1 << 20];
    spn_server_stats stats = SPN_SERVER_STATS_INIT;
    struct spn__conn *conn;
    size_t first, second, cut;

    if (size > 4096)
        return 0;
    if (server == NULL)
        open_server();
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
    return 0;
}
