/* SPDX-License-Identifier: MIT */
/*
 * H1 - Hessian: what a server pays for the bodies of a call, sayHello(String) with five
 * attachments, and for an object with fields and a list, each both ways.  The floor copies
 * the same bytes, which is the least that one can do with them.
 */
#include <string.h>

#include <spindle-rpc.h>

#include "bench.h"

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
    spn_hwriter w;

    BENCH_CHECK(b, spn_hwriter_init(&w, body, sizeof body, NULL) == SPN_OK);
    spn_hwriter_text(&w, "2.0.2");
    spn_hwriter_text(&w, "org.apache.dubbo.demo.DemoService");
    spn_hwriter_text(&w, "1.0.0");
    spn_hwriter_text(&w, "sayHello");
    spn_hwriter_text(&w, "Ljava/lang/String;");
    spn_hwriter_text(&w, "world");
    spn_hwriter_begin_map(&w, NULL);
    for (size_t i = 0; i < sizeof attachments / sizeof attachments[0]; i++) {
        spn_hwriter_text(&w, attachments[i][0]);
        spn_hwriter_text(&w, attachments[i][1]);
    }
    spn_hwriter_end(&w);
    BENCH_CHECK(b, spn_hwriter_status(&w) == SPN_OK);
    (void)spn_hwriter_bytes(&w, &body_length);
}

static bool read_request(spn_harena *arena)
{
    spn_hreader r;
    spn_hspan head[5];
    spn_hvalue *argument, *map;
    int rc;

    spn_harena_reset(arena);
    rc = spn_hreader_init(&r, arena, body, body_length, NULL, NULL);
    for (int i = 0; i < 5 && rc == SPN_OK; i++)
        rc = spn_hreader_view(&r, &head[i]);
    if (rc == SPN_OK)
        rc = spn_hreader_any(&r, &argument);
    if (rc == SPN_OK)
        rc = spn_hreader_any(&r, &map);
    return rc == SPN_OK && spn_hvalue_get(map, "timeout") != NULL;
}

static bool write_reply(void)
{
    spn_hwriter w;

    if (spn_hwriter_init(&w, buffer, sizeof buffer, NULL) != SPN_OK)
        return false;
    spn_hwriter_int(&w, 4);
    spn_hwriter_text(&w, "hello world");
    spn_hwriter_begin_map(&w, NULL);
    spn_hwriter_text(&w, "dubbo");
    spn_hwriter_text(&w, "2.0.2");
    spn_hwriter_end(&w);
    sink = buffer[3];
    return spn_hwriter_status(&w) == SPN_OK;
}

/* com.demo.User{id, name, tags: [a, b]}, from bytes to a value and back to bytes. */
static const unsigned char user[] = "C\x0d"
                                    "com.demo.User\x93\x02id\x04name\x04tags"
                                    "`\x97\x03"
                                    "bob\x7a\x01"
                                    "a\x01"
                                    "b";

static bool echo_object(spn_harena *arena, spn_hwriter *w)
{
    spn_hreader r;
    spn_hvalue *value;

    spn_harena_reset(arena);
    return spn_hreader_init(&r, arena, user, sizeof user - 1, NULL, NULL) == SPN_OK &&
           spn_hreader_any(&r, &value) == SPN_OK && spn_hwriter_reset(w, 0) == SPN_OK &&
           spn_hwriter_value(w, value) == SPN_OK;
}

static bool one(struct bench *b, spn_harena *arena, spn_hwriter *w)
{
    if (bench_variant_is(b, "request"))
        return read_request(arena);
    return bench_variant_is(b, "reply") ? write_reply() : echo_object(arena, w);
}

static void run_spindle(struct bench *b)
{
    const uint64_t rounds = bench_count(b, MESSAGES);
    spn_harena *arena;
    spn_hwriter w;
    bool ok = true;

    BENCH_CHECK(b, spn_harena_create(&arena, NULL) == SPN_OK);
    BENCH_CHECK(b, spn_hwriter_init(&w, NULL, 0, NULL) == SPN_OK);
    write_request(b);
    for (int i = 0; i < 1000; i++)
        ok = one(b, arena, &w) && ok;
    bench_start(b);
    for (uint64_t i = 0; i < rounds; i++)
        ok = one(b, arena, &w) && ok;
    bench_stop(b, rounds);
    BENCH_CHECK(b, ok);
    spn_hwriter_fini(&w);
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
