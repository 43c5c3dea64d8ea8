/* SPDX-License-Identifier: MIT */
/*
 * The transport at both ends of a bad network: the fault proxy between them, which is
 * tried out by this too.
 */
#include "net_bed.h"

#include <stdlib.h>

#include "fault_proxy.h"

static struct bed bed;
static struct fault_proxy *proxy;

enum { MUCH = 200000 };
static unsigned char much[MUCH];

static int64_t echo(struct line *line, const unsigned char *data, size_t size)
{
    if (line >= bed.line && line < bed.line + LINES) { /* the server's end */
        const int rc = line_send(line, data, size);

        CHECK(rc == SPN_OK || rc == SPN_ECLOSED);
    } else {
        const size_t at = atomic_load(&line->got);

        CHECK(at + size <= MUCH && memcmp(data, much + at, size) == 0);
    }
    line_keep(line, data, size);
    return (int64_t)size;
}

static void begin_with(struct line *client, enum fault_way way, struct fault fault,
                       int64_t (*use)(struct line *, const unsigned char *, size_t))
{
    for (size_t i = 0; i < MUCH; i++)
        much[i] = (unsigned char)(i * 131 + (i >> 7));
    bed_open(&bed, NULL);
    bed.use = use;
    proxy = fault_proxy_start(bed.port);
    fault_proxy_set(proxy, way, fault);
    REQUIRE_OK(bed_connect(&bed, client, fault_proxy_port(proxy), SPN_SEC(30)));
    T_AWAIT(atomic_load(&client->opened) || atomic_load(&client->closed));
}

static void begin(struct line *client, enum fault_way way, struct fault fault)
{
    begin_with(client, way, fault, echo);
}

static void end(struct line *client)
{
    fault_proxy_stop(proxy);
    CHECK_OK(spn__transport_stop(bed.transport));
    CHECK_EQ(atomic_load(&client->closed), 1);
    line_close(client);
    bed_close(&bed);
}

static const enum fault_way ways[] = { FAULT_TO_SERVER, FAULT_TO_CLIENT };

/* Bytes that come one by one, in chunks, slowly, or all at once: the same bytes. */
TEST(net_faults__pieces__same_bytes, "NET-10", "NET-18")
{
    const struct fault kinds[] = { { FAULT_CHUNKS, 1, 100 },
                                   { FAULT_CHUNKS, 7, 0 },
                                   { FAULT_COALESCE, 1500, 0 },
                                   { FAULT_SLOW, 700, 10 } };

    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        for (int w = 0; w < 2; w++) {
            const size_t size = 3000;
            struct line client;

            begin(&client, ways[w], kinds[k]);
            CHECK_OK(line_send(&client, much, size));
            AWAIT_GOT(&client, size);
            CHECK_EQ(atomic_load(&client.got), size);
            spn__conn_end(client.conn);
            CHECK_WHY(&client, 0);
            CHECK_WHY(&bed.line[0], 0);
            end(&client);
        }
}

/* A reset after some bytes: both ends learn of it, and each is closed once. */
TEST(net_faults__reset_in_the_middle__both_ends_told, "NET-9")
{
    const uint64_t after[] = { 1, 10, 65536, 100001 };

    for (size_t a = 0; a < sizeof after / sizeof after[0]; a++)
        for (int w = 0; w < 2; w++) {
            struct line client;

            begin(&client, ways[w], (struct fault){ FAULT_RESET, 0, after[a] });
            CHECK_OK(line_send(&client, much, MUCH));
            CHECK_WHY(&client, SPN_EIO);
            AWAIT_LINES(&bed, 1);
            AWAIT_CLOSED(&bed.line[0]);
            CHECK(atomic_load(ways[w] == FAULT_TO_SERVER ? &bed.line[0].got
                                                         : &client.got) <= after[a]);
            end(&client);
        }
}

/* One side ends after some bytes: what came before has come, and the end is in order. */
TEST(net_faults__half_closed_in_the_middle__closed_in_order, "NET-8")
{
    struct line client;

    begin(&client, FAULT_TO_CLIENT, (struct fault){ FAULT_HALF_CLOSE, 0, 1000 });
    CHECK_OK(line_send(&client, much, 5000));
    CHECK_WHY(&client, 0);
    CHECK_EQ(atomic_load(&client.got), 1000);
    end(&client);
}

/* A black hole: nothing comes, nobody is told, and closing works. */
TEST(net_faults__black_hole__closed_from_here, "NET-5")
{
    struct line client;

    begin(&client, FAULT_TO_SERVER, (struct fault){ FAULT_BLACK_HOLE, 0, 0 });
    CHECK_OK(line_send(&client, much, MUCH));
    T_AWAIT(spn__conn_unwritten(client.conn) == 0);
    AWAIT_LINES(&bed, 1);
    CHECK_EQ(atomic_load(&bed.line[0].got), 0);
    spn__conn_close(client.conn, SPN_ECANCELED);
    CHECK_WHY(&client, SPN_ECANCELED);
    end(&client);
}

/* A network that stands still: what is sent is bounded. */
TEST(net_faults__stuck__bounded, "NET-16")
{
    struct line client;
    int rc;

    begin(&client, FAULT_TO_SERVER, (struct fault){ FAULT_STUCK, 0, 0 });
    do
        rc = line_send(&client, much, MUCH);
    while (rc == SPN_OK);
    CHECK_STATUS(rc, SPN_EFULL);
    CHECK(spn__conn_unwritten(client.conn) <= 16 << 20);
    fault_proxy_reset_all(proxy);
    CHECK_WHY(&client, SPN_EIO);
    end(&client);
}

static int64_t refuse_garbage(struct line *line, const unsigned char *data, size_t size)
{
    line_keep(line, data, size);
    for (size_t i = 0; i < size; i++)
        if (data[i] != 'a')
            return SPN_EPROTO;
    return (int64_t)size;
}

/* Nonsense between the bytes is noticed by the layer above, which closes. */
TEST(net_faults__garbage__closed_by_the_layer_above, "NET-11")
{
    struct line client;

    begin_with(&client, FAULT_TO_SERVER, (struct fault){ FAULT_GARBAGE, 5, 3 },
               refuse_garbage);
    CHECK_OK(line_send(&client, "aaaaaa", 6));
    AWAIT_LINES(&bed, 1);
    CHECK_WHY(&bed.line[0], SPN_EPROTO);
    CHECK(memcmp(bed.line[0].head, "aaa", 3) == 0);
    AWAIT_CLOSED(&client);
    end(&client);
}
