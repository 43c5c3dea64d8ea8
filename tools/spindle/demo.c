/* SPDX-License-Identifier: MIT */
/*
 * demo.c - org.apache.dubbo.demo.DemoService, version 1.0.0, group g1.
 *
 * One method for each thing a client can meet: values, null, an object, an exception, a
 * pool without room, a method that is not there, no reply at all, a reply in pieces, a
 * slow one.  Clients that nobody here wrote are tested with it, and a person can try them
 * with `spindle call`.
 */
#include "demo.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <spindle.h>

static int say_hello(void *arg, spn_request *request)
{
    static const char hello[] = "hello ";
    const size_t start = sizeof(hello) - 1;
    spn_hspan name;
    char small[256], *text = small;
    int rc = spn_request_string(request, 0, &name);

    (void)arg;
    if (rc != SPN_OK)
        return rc;
    if (name.data == NULL)
        name = (spn_hspan){ "null", 4 };
    if (name.length > sizeof(small) - start) {
        spn_harena *arena = spn_request_arena(request);

        text = arena != NULL ? spn_harena_alloc(arena, start + name.length) : NULL;
        if (text == NULL)
            return SPN_ENOMEM;
    }
    memcpy(text, hello, start);
    memcpy(text + start, name.data, name.length);
    return spn_request_return_string(request, text, start + name.length);
}

static int echo(void *arg, spn_request *request)
{
    (void)arg;
    return spn_request_return_text(request, "pang");
}

static int add(void *arg, spn_request *request)
{
    int32_t a, b;
    int rc;

    (void)arg;
    if ((rc = spn_request_int(request, 0, &a)) != SPN_OK ||
        (rc = spn_request_int(request, 1, &b)) != SPN_OK)
        return rc;
    /* As Java adds: around the end. */
    return spn_request_return_int(request, (int32_t)((uint32_t)a + (uint32_t)b));
}

static int nothing(void *arg, spn_request *request)
{
    (void)arg;
    (void)request;
    return 0; /* which Java reads as null, or void */
}

struct user_request {
    int64_t id;
    const char *name;
    const char *email;
};

static const spn_hfield user_request_fields[] = {
    { "id", offsetof(struct user_request, id), SPN_HFIELD_LONG, 0, NULL },
    { "name", offsetof(struct user_request, name), SPN_HFIELD_TEXT, 0, NULL },
    { "email", offsetof(struct user_request, email), SPN_HFIELD_TEXT, 0, NULL },
};
static const spn_hstruct user_request_type = { "com.demo.UserRequest",
                                               user_request_fields,
                                               sizeof(user_request_fields) /
                                                   sizeof(user_request_fields[0]),
                                               sizeof(struct user_request) };

static int get_user(void *arg, spn_request *request)
{
    struct user_request asked = { 0, NULL, NULL };
    spn_harena *arena = spn_request_arena(request);
    spn_hvalue *user, *tags;
    int rc;

    (void)arg;
    if (arena == NULL)
        return SPN_ENOMEM;
    if ((rc = spn_request_struct(request, 0, &user_request_type, &asked)) != SPN_OK)
        return rc;
    user = spn_harena_object(arena, "com.demo.User");
    tags = spn_harena_list(arena, NULL);
    if ((rc = spn_hvalue_add(tags, spn_harena_text(arena, "a"))) != SPN_OK ||
        (rc = spn_hvalue_add(tags, spn_harena_text(arena, "b"))) != SPN_OK ||
        (rc = spn_hvalue_set(user, "id", spn_harena_int(arena, 7))) != SPN_OK ||
        (rc = spn_hvalue_set(user, "name",
                             asked.name != NULL ? spn_harena_text(arena, asked.name)
                                                : spn_harena_null(arena))) != SPN_OK ||
        (rc = spn_hvalue_set(user, "tags", tags)) != SPN_OK)
        return rc;
    return spn_request_return_value(request, user);
}

static int fail(void *arg, spn_request *request)
{
    (void)arg;
    return spn_request_throw(request, "java.lang.IllegalStateException", "boom");
}

static int busy(void *arg, spn_request *request)
{
    (void)arg;
    return spn_request_answer(request, 100,
                              "Server side thread pool is exhausted, detail msg: the "
                              "demo's busy() always says so");
}

static int missing(void *arg, spn_request *request)
{
    (void)arg;
    return spn_request_answer(request, 70, "no such method: missing()");
}

static int never(void *arg, spn_request *request)
{
    (void)arg;
    return spn_request_drop(request);
}

static int split(void *arg, spn_request *request)
{
    const int rc = spn_request_split(request, 3);

    (void)arg;
    return rc != SPN_OK ? rc : spn_request_return_text(request, "split-ok");
}

/* Sleeps on the thread that the dispatcher chose, as a method that waits for a database
 * does: with dispatcher=direct that is an I/O thread, and its connections wait too. */
static int sleep_for(void *arg, spn_request *request)
{
    int32_t ms;
    int64_t end;
    const int rc = spn_request_int(request, 0, &ms);

    (void)arg;
    if (rc != SPN_OK)
        return rc;
    end = spn_now() + SPN_MS((int64_t)(ms > 0 ? ms : 0));
    while (spn_now() < end) {
        if (spn_thread_interrupted()) /* the server is being stopped */
            return SPN_EINTR;
        spn_park_until(end, request);
    }
    return spn_request_return_int(request, ms);
}

/* The same, until the caller has gone: what a method does that would work for nobody. */
static int sleep_for_caller(void *arg, spn_request *request)
{
    int32_t ms;
    int rc = spn_request_int(request, 0, &ms);

    (void)arg;
    if (rc != SPN_OK)
        return rc;
    rc = spn_cancel_token_wait(spn_request_cancel_token(request),
                               SPN_MS((int64_t)(ms > 0 ? ms : 0)));
    if (rc == SPN_OK)
        return SPN_ECANCELED;
    return rc == SPN_ETIMEDOUT ? spn_request_return_int(request, ms) : rc;
}

static const spn_method methods[] = {
    { "sayHello", "Ljava/lang/String;", say_hello, NULL },
    { "echo", "", echo, NULL },
    { "add", "II", add, NULL },
    { "nothing", "", nothing, NULL },
    { "getUser", "Lcom/demo/UserRequest;", get_user, NULL },
    { "fail", "", fail, NULL },
    { "busy", "", busy, NULL },
    { "missing", "", missing, NULL },
    { "never", "", never, NULL },
    { "split", "", split, NULL },
    { "sleep", "I", sleep_for, NULL },
    { "sleepForCaller", "I", sleep_for_caller, NULL },
};

const spn_service demo_service = {
    .size = sizeof(spn_service),
    .interface = "org.apache.dubbo.demo.DemoService",
    .version = "1.0.0",
    .group = "g1",
    .methods = methods,
    .method_count = sizeof(methods) / sizeof(methods[0]),
};
