/* SPDX-License-Identifier: MIT */
/*
 * test_rpc.c - every allocation and every thread of a script with a server, a client and
 * their calls on the loopback is refused, once.  Each call ends with a status that says
 * what could not be had, every call of the client is counted out, server and client can
 * be ended, and no block is left.
 *
 * A reply that the server had no memory for never comes: such a call ends by its timeout,
 * which is short here.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include <spindle/client.h>
#include <spindle/server.h>
#include <spindle/service.h>

#include "cause.h"
#include "faults.h"
#include "test.h"

#define TIMEOUT_NS SPN_MS(250) /* where something is refused: a call may have no end */

static atomic_int threads, no_thread; /* created; the one to refuse, 0: none */

int __real_pthread_create(pthread_t *id, const pthread_attr_t *attr,
                          void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr,
                          void *(*fn)(void *), void *arg);

/* It runs inside ThreadSanitizer's own start: it must not call it. */
UNSEEN int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr,
                                 void *(*fn)(void *), void *arg)
{
    const int n = atomic_fetch_add(&threads, 1) + 1;

    if (n == atomic_load(&no_thread))
        return EAGAIN;
    return __real_pthread_create(id, attr, fn, arg);
}

/* ---- both ends ------------------------------------------------------------------------ */

static int twice(void *arg, spn_request *request)
{
    int32_t n;
    int rc = spn_request_int(request, 0, &n);

    (void)arg;
    return rc == SPN_OK ? spn_request_return_int(request, 2 * n) : rc;
}

static const spn_method methods[] = { { "twice", "I", twice, NULL } };

static const spn_service service = {
    .size = sizeof service,
    .interface = "demo.Twice",
    .methods = methods,
    .method_count = 1,
};

/* What making something may say. */
static bool made(int rc)
{
    CHECK(rc == SPN_OK || rc == SPN_ENOMEM || rc == SPN_EAGAIN);
    return rc == SPN_OK;
}

static spn_server *serve(const char *query)
{
    spn_problem problem = SPN_PROBLEM_INIT;
    spn_server *server;
    char url[160];

    snprintf(url, sizeof url, "dubbo://127.0.0.1:0?dump.enable=false&iothreads=1&%s",
             query);
    if (!made(spn_server_create(&server, url, NULL, &problem))) {
        CHECK(server == NULL);
        return NULL;
    }
    if (made(spn_server_export(server, &service, &problem)) &&
        made(spn_server_start(server, &problem)))
        return server;
    CHECK_OK(spn_server_destroy(server));
    return NULL;
}

/* A call ends with its value, or says why there is none: in its reply, or `text`. */
static bool check_end(int rc, spn_reply *reply, const char *text)
{
    int32_t n = 0;

    switch (rc) {
    case SPN_OK:
        CHECK_OK(spn_hvalue_as_int(spn_reply_value(reply), &n));
        CHECK_EQ(n, 42);
        return true;
    case SPN_EREMOTE: /* the server had no memory to run the method */
        CHECK(spn_reply_message(reply) != NULL || text[0] != '\0');
        return false;
    case SPN_EREJECTED: /* its pool refused the request; or ours the reply */
        CHECK(reply == NULL || spn_reply_message(reply) != NULL);
        return false;
    default:
        CHECK(rc == SPN_ENOMEM || rc == SPN_EAGAIN || rc == SPN_ETIMEDOUT ||
              rc == SPN_ECLOSED || rc == SPN_EUNREACHABLE);
        CHECK(reply == NULL);
        return false;
    }
}

static bool call(spn_client *client, const spn_invocation *what)
{
    spn_problem problem = SPN_PROBLEM_INIT;
    spn_reply *reply;
    const int rc = spn_client_call(client, what, &reply, &problem);
    const bool ok = check_end(rc, reply, "");

    CHECK(ok || problem.text[0] != '\0');
    spn_reply_destroy(reply);
    return ok;
}

static bool submit(spn_client *client, const spn_invocation *what)
{
    spn_future *future;
    char text[SPN_FUTURE_MESSAGE_MAX] = "";
    void *value = NULL;
    int rc = spn_client_submit(client, what, &future);
    bool ok;

    if (rc != SPN_OK) {
        CHECK(future == NULL);
        return check_end(rc, NULL, "");
    }
    rc = spn_future_get(future, &value, T_LONG_NS);
    if (rc == SPN_EFAILED)
        CHECK_OK(t_cause(future, &rc, text, sizeof text));
    else if (rc == SPN_OK)
        rc = spn_reply_check(value);
    ok = check_end(rc, value, text);
    spn_reply_destroy(value);
    spn_future_unref(future);
    return ok;
}

/* The ends may lack memory too, and are tried again. */
static void end_client(spn_client *client)
{
    spn_client_stats s = SPN_CLIENT_STATS_INIT;
    int rc;

    do
        rc = spn_client_close(client, T_LONG_NS);
    while (rc == SPN_ENOMEM);
    CHECK_OK(rc);
    CHECK_OK(spn_client_stats_get(client, &s));
    CHECK_EQ(s.pending, 0);
    CHECK_EQ(s.calls, s.replies + s.timeouts + s.lost + s.cancelled);
    CHECK_OK(spn_client_destroy(client));
}

static void end_server(spn_server *server)
{
    int rc;

    do
        rc = spn_server_stop(server, T_LONG_NS);
    while (rc == SPN_ENOMEM);
    CHECK_OK(rc);
    CHECK_OK(spn_server_destroy(server));
}

/* How many of its three calls had their value; each is made as another one. */
static int script(const char *query, int64_t timeout_ns)
{
    spn_invocation what = SPN_INVOCATION_INIT("demo.Twice", "twice");
    spn_server *server = serve(query);
    spn_client *client = NULL;
    spn_harena *arena = NULL;
    spn_hvalue *number;
    char url[160];
    int done = 0, rc;

    if (server == NULL)
        return 0;
    snprintf(url, sizeof url,
             "dubbo://127.0.0.1:%d?dump.enable=false&timeout=%d&reconnect=false",
             spn_server_port(server), (int)(timeout_ns / SPN_MS(1)));
    rc = spn_client_create(&client, url, NULL, NULL);
    CHECK(rc == SPN_OK || rc == SPN_ENOMEM || rc == SPN_EAGAIN || rc == SPN_ECLOSED);
    CHECK((rc == SPN_OK) == (client != NULL));
    if (client != NULL && spn_harena_create(&arena, NULL) == SPN_OK &&
        (number = spn_harena_int(arena, 21)) != NULL) {
        what.parameters = "I";
        what.arguments = &number;
        what.argument_count = 1;
        done += call(client, &what);
        done += submit(client, &what);
        rc = spn_client_send(client, &what);
        CHECK(rc == SPN_OK || rc == SPN_ENOMEM || rc == SPN_ECLOSED);
        done += rc == SPN_OK;
    }
    spn_harena_destroy(arena);
    if (client != NULL)
        end_client(client);
    end_server(server);
    return done;
}

/* ---- what is refused --------------------------------------------------------------------- */

static const char *const queries[] = { "dispatcher=all&threadpool=cached",
                                       "dispatcher=direct&threads=1" };

enum { QUERIES = sizeof queries / sizeof *queries, AT_MOST = 400 };

/* With nothing refused all goes well, on a machine that stands still at times as well. */
static void check_script(const char *query)
{
    CHECK_EQ(script(query, T_LONG_NS), 3);
}

/* What stays: records of threads, and blocks they keep. */
static long settle_down(const char *query)
{
    for (int i = 0; i < 3; i++)
        check_script(query);
    return atomic_load(&live);
}

static void script_without(const char *query, int at)
{
    atomic_store(&point, 0);
    atomic_store(&fail_at, at);
    (void)script(query, TIMEOUT_NS);
    atomic_store(&fail_at, 0);
}

/* Now and then one thread more than ever before is there at once, and its record stays.
 * That happens once; what leaks does so each time. */
static bool nothing_is_left(const char *query, int at, long *before)
{
    enum { TIMES = 8 };
    const long found = atomic_load(&live);

    if (found <= *before)
        return true;
    for (int i = 0; i < TIMES; i++)
        script_without(query, at);
    *before = atomic_load(&live);
    return *before < found + TIMES;
}

TEST(rpc__each_allocation_fails__told_and_nothing_is_left, "CLI-17", "G-22")
{
    for (int i = 0; i < QUERIES; i++) {
        long before = settle_down(queries[i]);
        int at;

        for (at = 1; at < AT_MOST; at++) {
            atomic_store(&refused, 0);
            script_without(queries[i], at);
            CHECK(nothing_is_left(queries[i], at, &before));
            if (atomic_load(&refused) == 0)
                break;
        }
        CHECK(at > 50 && at < AT_MOST);
        check_script(queries[i]); /* and all is well again */
    }
}

TEST(rpc__each_thread_is_refused__told_and_nothing_is_left, "CLI-17", "P2")
{
    for (int i = 0; i < QUERIES; i++) {
        const long before = settle_down(queries[i]);
        int at, made_in_all;

        atomic_store(&threads, 0);
        check_script(queries[i]);
        made_in_all = atomic_load(&threads);
        CHECK(made_in_all >= 3); /* the server's, and two of the client's */
        for (at = 1; at <= made_in_all; at++) {
            atomic_store(&threads, 0);
            atomic_store(&no_thread, at);
            (void)script(queries[i], TIMEOUT_NS);
            atomic_store(&no_thread, 0);
            CHECK(atomic_load(&live) <= before + made_in_all);
        }
        check_script(queries[i]);
    }
}
