/* SPDX-License-Identifier: MIT */
/*
 * rpc_demo.h - the service that the tests of servers call: a method for each thing a method
 * can do.
 */
#ifndef RPC_DEMO_H
#define RPC_DEMO_H

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <spindle-rpc.h>

#include "test.h"

/* What the methods of a test share. */
struct demo {
    atomic_int calls;            /* of all methods */
    spn_latch *gate;             /* hang() waits for it */
    _Atomic(spn_request *) kept; /* by later() */
    atomic_int hanging;
};

struct user {
    int64_t id;
    const char *name;
    spn_hvalue *tags;
};
static const spn_hfield user_fields[] = {
    { "id", offsetof(struct user, id), SPN_HFIELD_LONG, 0, NULL },
    { "name", offsetof(struct user, name), SPN_HFIELD_TEXT, 0, NULL },
    { "tags", offsetof(struct user, tags), SPN_HFIELD_VALUE, 0, NULL },
};
static const spn_hstruct user_type = { "com.demo.User", user_fields, 3,
                                       sizeof(struct user) };

/* How many replies had that status, one of those that have a slot of their own. */
static inline uint64_t demo_replies(const spn_server_stats *stats, int status)
{
    for (int slot = 0; slot < 16; slot++)
        if (spn_server_slot_status(slot) == status)
            return stats->statuses[slot];
    CHECK_EQ(status, 0); /* it has no slot of its own */
    return 0;
}

static int say_hello(void *arg, spn_request *request)
{
    struct demo *demo = arg;
    const char *name;
    char text[512];
    int rc = spn_request_text(request, 0, &name);

    atomic_fetch_add(&demo->calls, 1);
    if (rc != SPN_OK)
        return rc;
    snprintf(text, sizeof text, "hello %s", name != NULL ? name : "(null)");
    return spn_request_return_text(request, text);
}

static int add(void *arg, spn_request *request)
{
    struct demo *demo = arg;
    int32_t a, b;
    int rc;

    atomic_fetch_add(&demo->calls, 1);
    if ((rc = spn_request_int(request, 0, &a)) != SPN_OK ||
        (rc = spn_request_int(request, 1, &b)) != SPN_OK)
        return rc;
    return spn_request_return_int(request, a + b);
}

static int nothing(void *arg, spn_request *request)
{
    (void)request;
    atomic_fetch_add(&((struct demo *)arg)->calls, 1);
    return 0;
}

static int get_user(void *arg, spn_request *request)
{
    struct user in = { 0, NULL, NULL }, out = { 7, NULL, NULL };
    spn_harena *arena = spn_request_arena(request);
    int rc = spn_request_struct(request, 0, &user_type, &in);

    atomic_fetch_add(&((struct demo *)arg)->calls, 1);
    if (rc != SPN_OK)
        return rc;
    out.name = in.name;
    out.tags = spn_harena_list(arena, NULL);
    if ((rc = spn_hvalue_add(out.tags, spn_harena_text(arena, "a"))) != SPN_OK ||
        (rc = spn_hvalue_add(out.tags, spn_harena_text(arena, "b"))) != SPN_OK)
        return rc;
    return spn_request_return_struct(request, &user_type, &out);
}

static int boom(void *arg, spn_request *request)
{
    atomic_fetch_add(&((struct demo *)arg)->calls, 1);
    return spn_request_throw(request, "java.lang.IllegalStateException", "boom");
}

static int fails(void *arg, spn_request *request)
{
    (void)request;
    atomic_fetch_add(&((struct demo *)arg)->calls, 1);
    return -4711;
}

static int busy(void *arg, spn_request *request)
{
    (void)arg;
    return spn_request_answer(request, 100, "exhausted, says the method");
}

static int never(void *arg, spn_request *request)
{
    (void)arg;
    return spn_request_drop(request);
}

static int split(void *arg, spn_request *request)
{
    int rc = spn_request_split(request, 3);

    (void)arg;
    return rc != SPN_OK ? rc : spn_request_return_text(request, "split-ok");
}

static int large(void *arg, spn_request *request)
{
    int32_t size;
    char *text;
    int rc = spn_request_int(request, 0, &size);

    (void)arg;
    if (rc != SPN_OK)
        return rc;
    text = spn_harena_alloc(spn_request_arena(request), (size_t)size);
    if (text == NULL)
        return SPN_ENOMEM;
    memset(text, 'x', (size_t)size);
    return spn_request_return_string(request, text, (size_t)size);
}

/* Waits for the gate, on whatever thread it is. */
static int hang(void *arg, spn_request *request)
{
    struct demo *demo = arg;

    atomic_fetch_add(&demo->calls, 1);
    atomic_fetch_add(&demo->hanging, 1);
    while (spn_latch_await(demo->gate, T_LONG_NS) == SPN_EINTR)
        ;
    atomic_fetch_sub(&demo->hanging, 1);
    return spn_request_return_text(request, "hung");
}

/* Is finished by the test. */
static int later(void *arg, spn_request *request)
{
    struct demo *demo = arg;
    int rc = spn_request_defer(request);

    if (rc == SPN_OK)
        atomic_store(&demo->kept, request);
    return rc;
}

/* Says what it was asked: attachment by attachment. */
static int about(void *arg, spn_request *request)
{
    const char *key, *value;
    char text[512];
    int rc = spn_request_text(request, 0, &key);

    (void)arg;
    if (rc != SPN_OK)
        return rc;
    value = spn_request_attachment(request, key);
    snprintf(text, sizeof text, "%s|%s|%zu|%s", spn_request_method(request),
             spn_request_parameters(request), spn_request_count(request),
             value != NULL ? value : "(none)");
    return spn_request_return_text(request, text);
}

#define DEMO_METHODS(name, demo)                                   \
    const spn_method name[] = {                                    \
        { "sayHello", "Ljava/lang/String;", say_hello, (demo) },   \
        { "add", "II", add, (demo) },                              \
        { "nothing", "", nothing, (demo) },                        \
        { "getUser", "Lcom/demo/UserRequest;", get_user, (demo) }, \
        { "fail", "", boom, (demo) },                              \
        { "fails", "", fails, (demo) },                            \
        { "busy", "", busy, (demo) },                              \
        { "never", "", never, (demo) },                            \
        { "split", "", split, (demo) },                            \
        { "large", "I", large, (demo) },                           \
        { "hang", "", hang, (demo) },                              \
        { "later", "", later, (demo) },                            \
        { "about", NULL, about, (demo) },                          \
    }
#define DEMO_SERVICE(methods_)                                                         \
    {                                                                                  \
        .size = sizeof(spn_service), .interface = "org.apache.dubbo.demo.DemoService", \
        .version = "1.0.0", .group = "g1", .methods = (methods_),                      \
        .method_count = sizeof(methods_) / sizeof *(methods_),                         \
    }

#endif /* RPC_DEMO_H */
