/* SPDX-License-Identifier: MIT */
/*
 * rpc_client.c - calls of a Dubbo service: one that waits, and several at once whose
 * replies come in any order.
 *
 *     rpc_client [URL]        without one, it serves itself
 */
#include <spindle-rpc.h>

#include <stdio.h>

enum { AT_ONCE = 8 };

/* ---- something to call, where there is no server ------------------------------- */

static int square(void *arg, spn_request *request)
{
    int32_t n;
    const int rc = spn_request_int(request, 0, &n);

    (void)arg;
    if (rc != SPN_OK)
        return rc;
    if (n < 0)
        return spn_request_throw(request, "java.lang.IllegalArgumentException",
                                 "below zero");
    return spn_request_return_long(request, (int64_t)n * n);
}

static const spn_method methods[] = { { "square", "I", square, NULL } };
static const spn_service service = { .size = sizeof service,
                                     .interface = "demo.Math",
                                     .methods = methods,
                                     .method_count = 1 };

/* ---- calls ---------------------------------------------------------------------- */

static spn_invocation squared(spn_hvalue *const *number)
{
    spn_invocation what = SPN_INVOCATION_INIT("demo.Math", "square");

    what.parameters = "I";
    what.arguments = number;
    what.argument_count = 1;
    return what;
}

static int call_one(spn_client *client, spn_harena *arena, int n)
{
    spn_problem problem = SPN_PROBLEM_INIT;
    spn_hvalue *number = spn_harena_int(arena, n);
    const spn_invocation what = squared(&number);
    spn_reply *reply;
    int64_t result;
    int rc = spn_client_call(client, &what, &reply, &problem);

    if (rc == SPN_OK && spn_hvalue_as_long(spn_reply_value(reply), &result) == SPN_OK)
        printf("%d squared is %lld\n", n, (long long)result);
    else /* the server's exception, no reply in time, no connection: all say why */
        printf("%d squared: %s\n", n, problem.text);
    spn_reply_destroy(reply);
    return rc;
}

static int call_many(spn_client *client, spn_harena *arena)
{
    spn_future *replies[AT_ONCE];
    int64_t sum = 0;

    for (int i = 0; i < AT_ONCE; i++) {
        spn_hvalue *number = spn_harena_int(arena, i);
        const spn_invocation what = squared(&number);

        if (spn_client_submit(client, &what, &replies[i]) != SPN_OK)
            return SPN_EFAILED;
    }
    for (int i = 0; i < AT_ONCE; i++) {
        void *reply = NULL;
        int64_t result = 0;

        if (spn_future_get(replies[i], &reply, SPN_SEC(5)) == SPN_OK &&
            spn_hvalue_as_long(spn_reply_value(reply), &result) == SPN_OK)
            sum += result;
        spn_reply_destroy(reply);
        spn_future_unref(replies[i]);
    }
    printf("the squares below %d add up to %lld\n", AT_ONCE, (long long)sum);
    return sum == 140 ? SPN_OK : SPN_EFAILED;
}

int main(int argc, char **argv)
{
    spn_problem problem = SPN_PROBLEM_INIT;
    spn_server *server = NULL;
    spn_client *client;
    spn_harena *arena;
    char url[100] = "";
    int ok;

    if (argc < 2) {
        if (spn_server_create(&server, "dubbo://127.0.0.1:0?threads=2&queues=100", NULL,
                              &problem) != SPN_OK ||
            spn_server_export(server, &service, &problem) != SPN_OK ||
            spn_server_start(server, &problem) != SPN_OK) {
            fprintf(stderr, "%s\n", problem.text);
            return 1;
        }
        snprintf(url, sizeof url, "dubbo://127.0.0.1:%d", spn_server_port(server));
    }
    if (spn_client_create(&client, argc > 1 ? argv[1] : url, NULL, &problem) !=
        SPN_OK) {
        fprintf(stderr, "%s\n", problem.text);
        return 1;
    }
    if (spn_harena_create(&arena, NULL) != SPN_OK)
        return 1;
    ok = call_one(client, arena, 12) == SPN_OK;
    ok &= call_one(client, arena, -1) == SPN_EREMOTE;
    ok &= call_many(client, arena) == SPN_OK;
    spn_harena_destroy(arena);

    ok &= spn_client_close(client, SPN_SEC(5)) == SPN_OK;
    ok &= spn_client_destroy(client) == SPN_OK;
    if (server != NULL) {
        ok &= spn_server_stop(server, SPN_SEC(5)) == SPN_OK;
        ok &= spn_server_destroy(server) == SPN_OK;
    }
    return ok ? 0 : 1;
}
