/* SPDX-License-Identifier: MIT */
/*
 * H1 - Hessian: what a server pays for the bodies of a call, sayHello(String) with five
 * attachments, and for an object with fields and a list, each both ways.  The floor copies
 * the same bytes, which is the least that one can do with them.
 */
#include <string.h>

#include <spindle-rpc.h>

#include "bench.h"
#include "rpc/server/request.h"

#define MESSAGES 3000000

static unsigned char body[1024], buffer[1024];
static size_t body_length;
static volatile unsigned char sink;

static const char *const attachments[][2] = {
    { "path", "org.apache.dubbo.demo.DemoService" },
    { "interface", "org.apache.dubbo.demo.DemoService" },
    { "version", "1.0.0" },
    { "group", "g1" },
    { "timeout", "1000" },
};

static void write_request(struct bench *b)
{
    struct spn__hwriter w;

    spn__hwriter_init(&w, body, sizeof body, 0);
    spn__hwriter_text(&w, "2.0.2");
    spn__hwriter_text(&w, "org.apache.dubbo.demo.DemoService");
    spn__hwriter_text(&w, "1.0.0");
    spn__hwriter_text(&w, "sayHello");
    spn__hwriter_text(&w, "Ljava/lang/String;");
    spn__hwriter_text(&w, "world");
    spn__hwriter_begin_map(&w, NULL);
    for (size_t i = 0; i < sizeof attachments / sizeof attachments[0]; i++) {
        spn__hwriter_text(&w, attachments[i][0]);
        spn__hwriter_text(&w, attachments[i][1]);
    }
    spn__hwriter_end(&w);
    BENCH_CHECK(b, spn__hwriter_status(&w) == SPN_OK);
    (void)spn__hwriter_bytes(&w, &body_length);
}

static bool read_request(spn_harena *arena)
{
    struct spn__hreader r;
    const unsigned char *at = body;
    const unsigned char *const end = body + body_length;
    spn_hspan head;
    spn_hvalue *argument, *map;

    spn_harena_reset(arena);
    for (int i = 0; i < 5; i++)
        if (!spn__plain_text(&at, end, &head))
            return false;
    spn__hreader_init(&r, arena, at, (size_t)(end - at), NULL);
    return spn__hreader_any(&r, &argument) == SPN_OK &&
           spn__hreader_any(&r, &map) == SPN_OK &&
           spn_hvalue_get(map, "timeout") != NULL;
}

static bool write_reply(void)
{
    struct spn__hwriter w;

    spn__hwriter_init(&w, buffer, sizeof buffer, 0);
    spn__hwriter_int(&w, 4);
    spn__hwriter_text(&w, "hello world");
    spn__hwriter_begin_map(&w, NULL);
    spn__hwriter_text(&w, "dubbo");
    spn__hwriter_text(&w, "2.0.2");
    spn__hwriter_end(&w);
    sink = buffer[3];
    return spn__hwriter_status(&w) == SPN_OK;
}

/* com.demo.User{id, name, tags: [a, b]}, from bytes to a value and back to bytes. */
static const unsigned char user[] = "C\x0d"
                                    "com.demo.User\x93\x02id\x04name\x04tags"
                                    "`\x97\x03"
                                    "bob\x7a\x01"
                                    "a\x01"
                                    "b";

static bool echo_object(spn_harena *arena, struct spn__hwriter *w)
{
    struct spn__hreader r;
    spn_hvalue *value;

    spn_harena_reset(arena);
    spn__hreader_init(&r, arena, user, sizeof user - 1, NULL);
    spn__hwriter_reset(w, 0);
    return spn__hreader_any(&r, &value) == SPN_OK &&
           spn__hwriter_value(w, value) == SPN_OK;
}

static bool one(struct bench *b, spn_harena *arena, struct spn__hwriter *w)
{
    if (bench_variant_is(b, "request"))
        return read_request(arena);
    return bench_variant_is(b, "reply") ? write_reply() : echo_object(arena, w);
}

static void run_spindle(struct bench *b)
{
    const uint64_t rounds = bench_count(b, MESSAGES);
    spn_harena *arena;
    struct spn__hwriter w;
    bool ok = true;

    BENCH_CHECK(b, spn_harena_create(&arena, NULL) == SPN_OK);
    spn__hwriter_init(&w, NULL, 0, 0);
    write_request(b);
    for (int i = 0; i < 1000; i++)
        ok = one(b, arena, &w) && ok;
    bench_start(b);
    for (uint64_t i = 0; i < rounds; i++)
        ok = one(b, arena, &w) && ok;
    bench_stop(b, rounds);
    BENCH_CHECK(b, ok);
    spn__hwriter_fini(&w);
    spn_harena_destroy(arena);
}

static void run_floor(struct bench *b)
{
    const uint64_t rounds = bench_count(b, MESSAGES);
    size_t length;

    write_request(b);
    length = bench_variant_is(b, "request") ? body_length
             : bench_variant_is(b, "reply") ? 26
                                            : sizeof user - 1;
    bench_start(b);
    for (uint64_t i = 0; i < rounds; i++) {
        memcpy(buffer, bench_variant_is(b, "object") ? user : body, length);
        sink = buffer[i % length];
    }
    bench_stop(b, rounds);
}

BENCH_WORKLOAD(h1) = {
    .name = "H1",
    .question = "What do the bodies of a call cost, from bytes and to bytes?",
    .metric = "ns_per_message",
    .variants = { { .name = "request" }, { .name = "reply" }, { .name = "object" } },
    .subjects = { { .name = "spindle", .run = run_spindle },
                  { .name = "floor", .run = run_floor, .detail = "the bytes copied" } },
};
