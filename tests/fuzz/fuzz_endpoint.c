/* SPDX-License-Identifier: MIT */
/*
 * fuzz_endpoint.c - any bytes from the peer of an endpoint with the toy codec, on a transport
 * that is fed by hand: whole, in pieces, and if it is short byte by byte.  The handler sees the same
 * messages each time and the same comes out; the endpoint answers, waits for more, or ends the
 * connection, and keeps nothing.
 *
 * An input whose first byte is 0 is the stream.  Any other is a row of frames, which get their
 * lengths here: a byte says how long the next one is.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "../contract/toy_codec.h"
#include "endpoint/endpoint.h"
#include "net_pipe.h"

/* Replies to `Q` are no longer than the input.  No large one goes out behind LARGE_MOST bytes
 * of large ones, so that all of the output has room. */
enum {
    MOST = 4096,
    INPUT_MAX = 1 << 16,
    LARGE_MOST = 1 << 15,
    OUTPUT_MAX = 1 << 20,
    BY_BYTE_MAX = 512 /* longer inputs are not fed byte by byte: that is dear */
};

static spn_endpoint *endpoint;
static struct spn__transport *transport;
static spn_handler handler;

/* What one connection has seen. */
static struct {
    uint64_t digest;
    int connected, disconnected, messages, caught;
    size_t large; /* bytes of large replies */
} seen;

static void see(uint64_t what)
{
    seen.digest = (seen.digest ^ what) * UINT64_C(0x9E3779B97F4A7C15);
    seen.digest ^= seen.digest >> 31;
}

static void on_connected(spn_handler *self, spn_channel *channel)
{
    (void)self;
    (void)channel;
    seen.connected++;
}

static void on_disconnected(spn_handler *self, spn_channel *channel, int why)
{
    (void)self;
    (void)channel;
    (void)why;
    seen.disconnected++;
}

static void on_caught(spn_handler *self, spn_channel *channel, int why)
{
    (void)self;
    (void)channel;
    fuzz_require(seen.disconnected == 0);
    see((uint64_t)(int64_t)why);
    seen.caught++;
}

static int on_received(spn_handler *self, spn_channel *channel, spn_message *message)
{
    struct toy *toy = (struct toy *)message;
    const char letter = toy->letter;

    (void)self;
    fuzz_require(seen.connected == 1 && seen.disconnected == 0);
    fuzz_require(toy->size + TOY_HEAD <= MOST);
    see((uint64_t)letter << 32 | toy->size);
    for (size_t i = 0; i < toy->size; i++)
        see(toy->body[i]);
    seen.messages++;
    if (letter == 'Q')
        (void)toy_send(channel, 'R', toy->body, toy->size);
    if (letter == 'D' && toy->size >= 2 && seen.large < LARGE_MOST) {
        const size_t size = (size_t)toy->body[0] << 8 | toy->body[1];

        seen.large += size; /* larger than the room */
        (void)toy_send(channel, 'R', NULL, size);
    }
    if (letter == 'C') /* and nothing comes behind it, however it is cut */
        spn_channel_close(channel, SPN_EPERM);
    if (letter == 'F')
        return SPN_EFAILED; /* and it is the caller's */
    spn_message_release(message);
    return 0;
}

static const spn_handler_ops handler_ops = { on_connected, on_disconnected, NULL,
                                             on_received, on_caught };

static void close_endpoint(void)
{
    fuzz_require(spn_endpoint_stop(endpoint, SPN_SEC(10)) == SPN_OK);
    fuzz_require(spn_endpoint_destroy(endpoint) == SPN_OK);
    fuzz_require(spn__transport_destroy(transport) == SPN_OK);
}

static void open_endpoint(void)
{
    spn_endpoint_opts opts = SPN_ENDPOINT_OPTS_INIT;

    handler.ops = &handler_ops;
    opts.max_frame = MOST;
    opts.frame_timeout_ns = SPN_FOREVER;
    fuzz_require(spn__transport_create(NULL, &transport) == SPN_OK);
    fuzz_require(spn__endpoint_listen_on(&endpoint, NULL, 0, &toy_codec, &handler,
                                         &opts, NULL, transport) == SPN_OK);
    fuzz_require(atexit(close_endpoint) == 0);
}

/* Feeds it in pieces of that size; what came out, and its size. */
static size_t feed(const uint8_t *data, size_t size, size_t piece, unsigned char *out)
{
    spn_endpoint_stats stats = SPN_ENDPOINT_STATS_INIT;
    struct spn__conn *conn;
    size_t taken;

    memset(&seen, 0, sizeof seen);
    conn = pipe_open(transport);
    for (size_t at = 0; at < size || at == 0; at += piece)
        if (!pipe_feed(conn, data + at, size - at < piece ? size - at : piece))
            break;
    taken = pipe_take(conn, out, OUTPUT_MAX);
    pipe_close(conn);
    fuzz_require(seen.connected == 1 && seen.disconnected == 1);
    fuzz_require(atomic_load(&toy_counts.made) == atomic_load(&toy_counts.freed));
    fuzz_require(spn_endpoint_stats_get(endpoint, &stats) == SPN_OK);
    fuzz_require(stats.in_flight == 0 && stats.channels == 0 && stats.memory_used == 0);
    return taken;
}

/* What came out must be frames. */
static void check_out(const unsigned char *out, size_t size)
{
    for (size_t at = 0; at < size; at += 4 + toy_number(out + at)) {
        fuzz_require(size - at >= TOY_HEAD);
        fuzz_require(toy_number(out + at) >= 1 &&
                     toy_number(out + at) <= size - at - 4);
        fuzz_require(out[at + 4] == 'R' || out[at + 4] == 'H');
    }
}

static void feed_all(const uint8_t *data, size_t size)
{
    static unsigned char whole[OUTPUT_MAX], pieces[OUTPUT_MAX];
    const size_t cut = size > 0 ? 1 + (size_t)data[size - 1] * size / 256 : 1;
    const size_t sizes[] = { cut, 1 };
    const size_t first = feed(data, size, size > 0 ? size : 1, whole);
    const uint64_t digest = seen.digest;
    const int messages = seen.messages, caught = seen.caught;

    check_out(whole, first);
    for (size_t i = 0; i < (size <= BY_BYTE_MAX ? 2 : 1); i++) {
        const size_t next = feed(data, size, sizes[i], pieces);

        fuzz_require(first == next && memcmp(whole, pieces, first) == 0);
        fuzz_require(seen.digest == digest && seen.messages == messages &&
                     seen.caught == caught);
    }
}

/* Frames of the input's bytes: one says how many follow it in the frame. */
static size_t make_frames(unsigned char *to, const uint8_t *data, size_t size)
{
    size_t used = 0;

    for (size_t at = 0; at < size;) {
        const size_t left = size - at - 1;
        const size_t behind = data[at] % 64u < left ? data[at] % 64u : left;

        to[used] = to[used + 1] = to[used + 2] = 0;
        to[used + 3] = (unsigned char)behind;
        memcpy(to + used + 4, data + at + 1, behind);
        used += 4 + behind;
        at += 1 + behind;
    }
    return used;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned char frames[5 * INPUT_MAX];

    if (size > INPUT_MAX)
        return 0;
    if (endpoint == NULL)
        open_endpoint();
    if (size == 0 || data[0] == 0)
        feed_all(data, size);
    else
        feed_all(frames, make_frames(frames, data, size));
    return 0;
}
