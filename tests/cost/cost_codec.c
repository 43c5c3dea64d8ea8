/* SPDX-License-Identifier: MIT */
/*
 * cost_codec.c - the bytes of a remote call: sayHello(String) with five attachments, as a
 * client writes it and a server reads it, and the 16 bytes in front of it.
 */
#include <spindle-rpc.h>

#include "cost.h"
#include "rpc/server/request.h"

enum { BODY_MAX = 1024, FRAMES = 64 };

static const char *const head[] = { "2.0.2", "org.apache.dubbo.demo.DemoService",
                                    "1.0.0", "sayHello", "Ljava/lang/String;" };
static const char *const attachments[][2] = {
    { "path", "org.apache.dubbo.demo.DemoService" },
    { "interface", "org.apache.dubbo.demo.DemoService" },
    { "version", "1.0.0" },
    { "group", "g1" },
    { "timeout", "1000" },
};
enum { HEAD = sizeof head / sizeof *head };
enum { ATTACHMENTS = sizeof attachments / sizeof *attachments };

static size_t write_call(unsigned char *body)
{
    struct spn__hwriter w;
    size_t length;

    spn__hwriter_init(&w, body, BODY_MAX, 0);
    for (size_t i = 0; i < HEAD; i++)
        spn__hwriter_text(&w, head[i]);
    spn__hwriter_text(&w, "world");
    spn__hwriter_begin_map(&w, NULL);
    for (size_t i = 0; i < ATTACHMENTS; i++) {
        spn__hwriter_text(&w, attachments[i][0]);
        spn__hwriter_text(&w, attachments[i][1]);
    }
    spn__hwriter_end(&w);
    COST_CHECK(spn__hwriter_status(&w) == SPN_OK);
    COST_CHECK(spn__hwriter_bytes(&w, &length) == body); /* nothing was allocated */
    return length;
}

void cost_hessian_write(size_t n)
{
    static unsigned char body[BODY_MAX];

    for (size_t i = 0; i < n; i++)
        COST_CHECK(write_call(body) > 0);
}

void cost_hessian_read(size_t n)
{
    static unsigned char body[BODY_MAX];
    const size_t length = write_call(body);
    spn_harena *arena;

    COST_CHECK(spn_harena_create(&arena, NULL) == SPN_OK);
    for (size_t i = 0; i < n; i++) {
        struct spn__hreader r;
        spn_hspan text;
        spn_hvalue *argument, *map;

        const unsigned char *at = body, *const end = body + length;

        spn_harena_reset(arena);
        for (size_t k = 0; k < HEAD; k++)
            COST_CHECK(spn__plain_text(&at, end, &text));
        spn__hreader_init(&r, arena, at, (size_t)(end - at), NULL);
        COST_CHECK(spn__hreader_any(&r, &argument) == SPN_OK);
        COST_CHECK(spn__hreader_any(&r, &map) == SPN_OK);
        COST_CHECK(spn_hvalue_get(map, "timeout") != NULL);
    }
}

static unsigned char frames[FRAMES][SPN__FRAME_BYTES];

static void write_frame(size_t i)
{
    const struct spn__frame frame = {
        .flags = SPN__FRAME_REQUEST | SPN__FRAME_TWO_WAY | SPN__HESSIAN2,
        .id = (int64_t)i,
    };

    spn__frame_write(frames[i % FRAMES], &frame);
}

void cost_frame_write(size_t n)
{
    for (size_t i = 0; i < n; i++)
        write_frame(i);
}

void cost_frame_read(size_t n)
{
    struct spn__frame frame;
    size_t needed;

    for (size_t i = 0; i < FRAMES; i++)
        write_frame(i);
    for (size_t i = 0; i < n; i++)
        COST_CHECK(spn__frame_read(&frame, frames[i % FRAMES], SPN__FRAME_BYTES,
                                   BODY_MAX, &needed) == SPN__FRAME_WHOLE);
}
