/* SPDX-License-Identifier: MIT */
/*
 * test_hessian.c - every allocation of a script that makes values, writes, reads, fills a
 * struct, compares and prints fails, once and from then on.  Each call must succeed or say
 * so, and no block may be left.
 */
#include "faults.h"
#include "test.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "rpc/wire/hessian.h"

static int whole; /* scripts that got to their end */

static bool ok(int rc)
{
    CHECK(rc == SPN_OK || rc == SPN_ENOMEM);
    return rc == SPN_OK;
}

struct node {
    int32_t id;
    const char *name;
    struct node *next;
};

extern const spn_hstruct node_struct;
static const spn_hfield fields[] = {
    { "id", offsetof(struct node, id), SPN_HFIELD_INT, 0, NULL },
    { "name", offsetof(struct node, name), SPN_HFIELD_TEXT, 0, NULL },
    { "next", offsetof(struct node, next), SPN_HFIELD_STRUCT, 0, &node_struct },
};
const spn_hstruct node_struct = { "Node", fields, 3, sizeof(struct node) };

/* Objects in a circle, lists of many types, a long text: enough for every table to grow. */
static spn_hvalue *make(spn_harena *arena)
{
    static char text[3000];
    spn_hvalue *list = spn_harena_list(arena, "all"), *first = NULL, *last = NULL;

    memset(text, 'x', sizeof text);
    for (int i = 0; i < 40; i++) {
        spn_hvalue *node = spn_harena_object(arena, "Node");
        char name[16];

        (void)snprintf(name, sizeof name, "type%d", i);
        if (!ok(spn_harena_status(arena)) ||
            !ok(spn_hvalue_set(node, "id", spn_harena_int(arena, 1000 + i))) ||
            !ok(spn_hvalue_set(node, "name", spn_harena_text(arena, name))) ||
            !ok(spn_hvalue_add(list, node)) ||
            !ok(spn_hvalue_add(list, spn_harena_list(arena, name))) ||
            !ok(spn_hvalue_add(list, spn_harena_object(arena, name))) ||
            (last != NULL && !ok(spn_hvalue_set(last, "next", node))))
            return NULL;
        first = first == NULL ? node : first;
        last = node;
    }
    if (!ok(spn_hvalue_set(last, "next", first)) ||
        !ok(spn_hvalue_add(list, spn_harena_map(arena, NULL))) ||
        !ok(spn_hvalue_set(spn_hvalue_at(list, spn_hvalue_count(list) - 1), "text",
                           spn_harena_string(arena, text, sizeof text))))
        return NULL;
    return list;
}

static void read_and_use(spn_harena *arena, const spn_hvalue *made, const void *bytes,
                         size_t length)
{
    spn_problem problem = SPN_PROBLEM_INIT;
    struct node node = { 0 };
    struct spn__hreader reader;
    spn_hvalue *read;
    int64_t printed;
    int rc;

    spn__hreader_init(&reader, arena, bytes, length, &problem);
    rc = spn__hreader_any(&reader, &read);
    if (!ok(rc)) {
        CHECK_STR(problem.text, "out of memory");
        CHECK(read == NULL);
        CHECK_STATUS(spn__hreader_any(&reader, &read), SPN_ENOMEM);
        return;
    }
    rc = spn_hvalue_equals(made, read);
    CHECK(rc == 1 || rc == SPN_ENOMEM);
    printed = spn_hvalue_print(read, NULL, 0);
    CHECK(printed > 0 || printed == SPN_ENOMEM);
    if (ok(spn_hvalue_to_struct(spn_hvalue_at(read, 0), arena, &node_struct, &node,
                                &problem)))
        whole += rc == 1 && printed > 0 && node.next->next->id == 1002;
}

/* Read into blocks as small as they come, so that they are many. */
static void script(void)
{
    const spn_harena_opts opts = { sizeof opts, 256, SIZE_MAX };
    spn_harena *arena = NULL, *other = NULL;
    struct spn__hwriter writer;
    spn_hvalue *made;
    size_t length;

    spn__hwriter_init(&writer, NULL, 0, 0);
    if (ok(spn_harena_create(&arena, &opts)) && ok(spn_harena_create(&other, &opts)) &&
        (made = make(arena)) != NULL &&
        ok(spn__hwriter_begin_list(&writer, "one", 1)) &&
        ok(spn__hwriter_value(&writer, made)) && ok(spn__hwriter_end(&writer))) {
        spn__hwriter_reset(&writer, 0);
        if (ok(spn__hwriter_value(&writer, made))) {
            const void *bytes = spn__hwriter_bytes(&writer, &length);

            read_and_use(other, made, bytes, length);
        }
    }
    spn__hwriter_fini(&writer);
    spn_harena_destroy(arena);
    spn_harena_destroy(other);
}

/* Whatever allocation fails, the calls say so, nothing is left, and then all is well. */
TEST(hessian__every_allocation_fails__told_and_nothing_left, "HES-34", "G-22")
{
    const long before = atomic_load(&live);
    int points;

    atomic_store(&point, 0);
    script();
    CHECK_EQ(whole, 1);
    points = atomic_load(&point);
    printf("  %d allocations\n", points);
    CHECK(points > 20);
    for (int more = 0; more < 2; more++)
        for (int at = 1; at <= points; at++) {
            atomic_store(&point, 0);
            atomic_store(&refused, 0);
            atomic_store(&fail_more, more);
            atomic_store(&fail_at, at);
            whole = 0;
            script();
            atomic_store(&fail_at, 0);
            CHECK(atomic_load(&refused) > 0);
            CHECK_EQ(whole, 0);
            CHECK_EQ(atomic_load(&live), before);
        }
    script();
    CHECK_EQ(whole, 1);
}

/* A message that fits into the first block takes no memory once there is an arena, nor does
 * a reply that fits into the caller's buffer. */
TEST(hessian__small_message__no_allocation, "HES-27")
{
    static const unsigned char request[] = "\x05"
                                           "2.0.2\x04"
                                           "demo\x05"
                                           "1.0.0\x08sayHello\x12Ljava/lang/String;\x03"
                                           "bobH\x04path\x04"
                                           "demo\x07timeout\x04"
                                           "1000Z";
    unsigned char buffer[256];
    spn_harena *arena;
    int before;

    REQUIRE_OK(spn_harena_create(&arena, NULL));
    before = atomic_load(&point);
    for (int i = 0; i < 10; i++) {
        struct spn__hreader reader;
        struct spn__hwriter writer;
        spn_hvalue *argument, *attachments;
        spn_hspan text;

        spn_harena_reset(arena);
        spn__hreader_init(&reader, arena, request, sizeof request - 1, NULL);
        for (int field = 0; field < 5; field++)
            CHECK_OK(spn__hreader_string(&reader, &text));
        CHECK_OK(spn__hreader_any(&reader, &argument));
        CHECK_OK(spn__hreader_any(&reader, &attachments));
        CHECK_STR(spn_hvalue_text(spn_hvalue_get(attachments, "timeout")), "1000");
        spn__hwriter_init(&writer, buffer, sizeof buffer, 0);
        CHECK_OK(spn__hwriter_int(&writer, 4));
        CHECK_OK(spn__hwriter_value(&writer, argument));
        CHECK_OK(spn__hwriter_begin_map(&writer, NULL));
        CHECK_OK(spn__hwriter_text(&writer, "dubbo"));
        CHECK_OK(spn__hwriter_text(&writer, "2.0.2"));
        CHECK_OK(spn__hwriter_end(&writer));
        CHECK(memcmp(spn__hwriter_bytes(&writer, NULL),
                     "\x94\3bobH\5dubbo\5"
                     "2.0.2Z",
                     18) == 0);
        spn__hwriter_fini(&writer);
    }
    CHECK_EQ(atomic_load(&point), before);
    spn_harena_destroy(arena);
}
