/* SPDX-License-Identifier: MIT */
/*
 * order_service.c - a service that has more to do than to compute: it reads a Java object,
 * asks a bank that takes its time, answers when that has answered, and hands what it does
 * not know itself on to the system it replaces.
 *
 * `place` is deferred, so that the bank's time holds up no thread of the server's pool; it
 * is not begun for a caller that will not wait so long, and given up for one that has gone.
 */
#include <spindle-rpc.h>

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define BANK_NS SPN_MS(20)

enum {
    ARGUMENTS_MAX = 8,
    TOO_LATE = 31
}; /* a status of Dubbo's: the server's timeout */

struct order {
    int64_t number;
    const char *customer;
    double amount;
};

static const spn_hfield order_fields[] = {
    { "number", offsetof(struct order, number), SPN_HFIELD_LONG, 0, NULL },
    { "customer", offsetof(struct order, customer), SPN_HFIELD_TEXT, 0, NULL },
    { "amount", offsetof(struct order, amount), SPN_HFIELD_DOUBLE, 0, NULL },
};
static const spn_hstruct order_struct = { "shop.Order", order_fields, 3,
                                          sizeof(struct order) };

struct receipt {
    int64_t number;
    _Bool paid;
};

static const spn_hfield receipt_fields[] = {
    { "number", offsetof(struct receipt, number), SPN_HFIELD_LONG, 0, NULL },
    { "paid", offsetof(struct receipt, paid), SPN_HFIELD_BOOL, 0, NULL },
};
static const spn_hstruct receipt_struct = { "shop.Receipt", receipt_fields, 2,
                                            sizeof(struct receipt) };

/* ---- the new system ----------------------------------------------------------------- */

struct shop {
    spn_executor *bank; /* threads that wait for the bank */
    spn_client *old;    /* the system that this one replaces */
};

/* In the request's arena: there until the request is finished. */
struct payment {
    spn_request *request;
    struct order order;
};

static int pay(void *arg)
{
    struct payment *payment = arg;
    spn_request *request = payment->request;
    const char *trace = spn_request_attachment(request, "trace");
    const struct receipt receipt = { payment->order.number, 1 };
    const spn_cancel_token *token = spn_request_cancel_token(request);
    /* The bank takes that long, unless whoever asked goes away meanwhile. */
    int rc = spn_cancel_token_wait(spn_request_cancel_token(request), BANK_NS);

    if (spn_cancel_token_is_cancelled(token)) /* it has gone, or this server ends */
        printf("order %" PRId64 " is not paid: %s\n", payment->order.number,
               spn_status_text(spn_cancel_token_reason(token)));
    rc = rc == SPN_ETIMEDOUT ? SPN_OK : SPN_ECANCELED;
    if (rc == SPN_OK && trace != NULL)
        rc = spn_request_attach(request, "trace", trace);
    if (rc == SPN_OK)
        rc = spn_request_return_struct(request, &receipt_struct, &receipt);
    return spn_request_finish(request, rc); /* payment has gone with it */
}

/* Java: Receipt place(Order order) */
static int place(void *arg, spn_request *request)
{
    const struct shop *shop = arg;
    struct payment *payment =
        spn_harena_alloc(spn_request_arena(request), sizeof *payment);
    int rc;

    if (payment == NULL)
        return SPN_ENOMEM;
    *payment = (struct payment){ .request = request };
    rc = spn_request_struct(request, 0, &order_struct, &payment->order);
    if (rc != SPN_OK)
        return rc; /* the client is told what was wrong with its argument */
    if (payment->order.customer == NULL)
        return spn_request_throw(request, "java.lang.IllegalArgumentException",
                                 "an order without a customer");
    if (spn_request_remaining_ns(request) < BANK_NS)
        return spn_request_answer(request, TOO_LATE, "the bank takes 20 ms");
    rc = spn_request_defer(request);
    if (rc == SPN_OK && spn_executor_call(shop->bank, pay, payment) != SPN_OK)
        rc = spn_request_finish(request, SPN_EREJECTED);
    return rc;
}

/* Java: boolean isPaid(long number) */
static int is_paid(void *arg, spn_request *request)
{
    int64_t number;
    const int rc = spn_request_long(request, 0, &number);

    (void)arg;
    return rc == SPN_OK
               ? spn_request_return_value(request,
                                          spn_harena_bool(spn_request_arena(request),
                                                          number > 0))
               : rc;
}

/* Java: double rebate(double amount).  A kind without a function of its own is a value. */
static int rebate(void *arg, spn_request *request)
{
    const spn_hvalue *value;
    double amount;
    int rc = spn_request_value(request, 0, &value);

    (void)arg;
    if (rc == SPN_OK)
        rc = spn_hvalue_as_double(value, &amount);
    return rc == SPN_OK
               ? spn_request_return_value(request,
                                          spn_harena_double(spn_request_arena(request),
                                                            amount / 10))
               : rc;
}

/* Any other method: the old system is asked the same, attachments and all. */
static int forward(void *arg, spn_request *request)
{
    const struct shop *shop = arg;
    spn_invocation same = SPN_INVOCATION_INIT("shop.Orders", NULL);
    spn_hvalue *arguments[ARGUMENTS_MAX];
    spn_problem problem = SPN_PROBLEM_INIT;
    spn_reply *reply;
    int rc;

    printf("%s asks the old system for %s(%s)\n", spn_request_remote(request),
           spn_request_method(request), spn_request_parameters(request));
    if (spn_request_count(request) > ARGUMENTS_MAX)
        return SPN_ERANGE;
    for (size_t i = 0; i < spn_request_count(request); i++) {
        const spn_hvalue *value;

        rc = spn_request_value(request, i, &value);
        if (rc != SPN_OK)
            return rc;
        arguments[i] = (spn_hvalue *)(uintptr_t)value; /* which nobody changes */
    }
    same.method = spn_request_method(request);
    same.parameters = spn_request_parameters(request);
    same.arguments = arguments;
    same.argument_count = spn_request_count(request);
    same.attachments = spn_request_attachments(request);
    rc = spn_client_call(shop->old, &same, &reply, &problem);
    if (rc == SPN_OK)
        rc = spn_request_return_value(request, spn_reply_value(reply));
    else
        rc = spn_request_answer(request, 70, problem.text);
    spn_reply_destroy(reply);
    return rc;
}

/* ---- the old system ----------------------------------------------------------------- */

static int history(void *arg, spn_request *request)
{
    const char *customer;
    char text[128];
    int rc = spn_request_text(request, 0, &customer);

    (void)arg;
    if (rc != SPN_OK)
        return rc;
    snprintf(text, sizeof text, "2 orders of %s", customer != NULL ? customer : "all");
    return spn_request_return_text(request, text);
}

static const spn_method old_methods[] = {
    { "history", "Ljava/lang/String;", history, NULL },
};
static const spn_service old_service = { .size = sizeof old_service,
                                         .interface = "shop.Orders",
                                         .methods = old_methods,
                                         .method_count = 1 };

/* ---- who asks ----------------------------------------------------------------------- */

static int call(spn_client *client, const char *method, const char *parameters,
                spn_hvalue *argument, const spn_hvalue *attachments, int64_t timeout_ns,
                spn_reply **reply)
{
    spn_invocation what = SPN_INVOCATION_INIT("shop.Orders", method);
    spn_problem problem = SPN_PROBLEM_INIT;
    int rc;

    what.parameters = parameters;
    what.arguments = &argument;
    what.argument_count = 1;
    what.attachments = attachments;
    what.timeout_ns = timeout_ns;
    rc = spn_client_call(client, &what, reply, &problem);
    if (rc != SPN_OK)
        printf("%s: %s: %s\n", method, spn_status_text(rc), problem.text);
    return rc;
}

static spn_hvalue *make_order(spn_harena *arena, int64_t number, const char *customer)
{
    spn_hvalue *order = spn_harena_object(arena, "shop.Order");
    spn_hvalue *name =
        customer != NULL ? spn_harena_text(arena, customer) : spn_harena_null(arena);

    if (spn_hvalue_set(order, "number", spn_harena_long(arena, number)) != SPN_OK ||
        spn_hvalue_set(order, "customer", name) != SPN_OK ||
        spn_hvalue_set(order, "amount", spn_harena_double(arena, 9.95)) != SPN_OK)
        return NULL;
    return order;
}

static int ask(spn_client *client, spn_harena *arena)
{
    spn_hvalue *traced = spn_harena_map(arena, NULL);
    struct receipt receipt = { 0, 0 };
    spn_reply *reply;
    const char *text;
    double number = 0;
    int flag = 0, failures = 0;

    if (spn_hvalue_set(traced, "trace", spn_harena_text(arena, "t-1")) != SPN_OK)
        return 1;
    failures += call(client, "place", "Lshop/Order;", make_order(arena, 7, "Ann"),
                     traced, SPN_SEC(5), &reply) != SPN_OK;
    failures += spn_hvalue_to_struct(spn_reply_value(reply), arena, &receipt_struct,
                                     &receipt, NULL) != SPN_OK;
    text = spn_hvalue_text(spn_hvalue_get(spn_reply_attachments(reply), "trace"));
    printf("order %" PRId64 "%s paid, trace %s\n", receipt.number,
           receipt.paid ? "" : " not", text != NULL ? text : "lost");
    failures += !receipt.paid || text == NULL || strcmp(text, "t-1") != 0;
    spn_reply_destroy(reply);

    /* Nobody to pay for it; nobody who waits for the bank. */
    failures += call(client, "place", "Lshop/Order;", make_order(arena, 8, NULL), NULL,
                     0, &reply) != SPN_EREMOTE;
    spn_reply_destroy(reply);
    failures += call(client, "place", "Lshop/Order;", make_order(arena, 9, "Bob"), NULL,
                     SPN_MS(10), &reply) != SPN_ETIMEDOUT;
    spn_reply_destroy(reply);

    failures += call(client, "isPaid", "J", spn_harena_long(arena, 7), NULL, 0,
                     &reply) != SPN_OK;
    failures += spn_hvalue_as_bool(spn_reply_value(reply), &flag) != SPN_OK || !flag;
    spn_reply_destroy(reply);

    failures += call(client, "rebate", "D", spn_harena_double(arena, 40), NULL, 0,
                     &reply) != SPN_OK;
    failures += spn_hvalue_as_double(spn_reply_value(reply), &number) != SPN_OK;
    printf("a rebate of %.2f\n", number);
    spn_reply_destroy(reply);

    failures += call(client, "history", "Ljava/lang/String;",
                     spn_harena_text(arena, "Ann"), traced, 0, &reply) != SPN_OK;
    text = spn_hvalue_text(spn_reply_value(reply));
    printf("history: %s\n", text != NULL ? text : "none");
    failures += text == NULL || strcmp(text, "2 orders of Ann") != 0;
    spn_reply_destroy(reply);
    return failures;
}

/* ---- what went on ------------------------------------------------------------------- */

static void tell_channel(void *whose, const spn_channel_info *channel)
{
    printf("%s asked the %s %" PRIu64 " times\n", channel->remote, (const char *)whose,
           channel->requests);
}

/* Both sides have counted. */
static int compare_counts(spn_server *server, spn_client *client)
{
    spn_server_stats served = SPN_SERVER_STATS_INIT;
    spn_client_stats asked = SPN_CLIENT_STATS_INIT;

    if (spn_server_stats_get(server, &served) != SPN_OK ||
        spn_client_stats_get(client, &asked) != SPN_OK)
        return 1;
    printf("%" PRIu64 " calls, %" PRIu64 " replies, %" PRIu64 " without one in time\n",
           asked.calls, asked.replies, asked.timeouts);
    return served.requests < asked.replies ||
           asked.replies + asked.timeouts != asked.calls;
}

/* The old system's last day: who still asks, and then it answers nobody any more. */
static int retire(spn_server *old_server, spn_client *client, spn_harena *arena)
{
    spn_reply *reply;
    int failures =
        spn_server_each_channel(old_server, tell_channel, "old system") != SPN_OK;

    failures += spn_server_unexport(old_server, &old_service) != SPN_OK;
    failures += call(client, "history", "Ljava/lang/String;",
                     spn_harena_text(arena, "Ann"), NULL, 0, &reply) != SPN_EREMOTE;
    spn_reply_destroy(reply);
    return failures;
}

/* ---- the program -------------------------------------------------------------------- */

static int serve(spn_server **server, const spn_service *service)
{
    spn_problem problem = SPN_PROBLEM_INIT;

    if (spn_server_create(server, "dubbo://127.0.0.1:0?threads=2&queues=100", NULL,
                          &problem) != SPN_OK ||
        spn_server_export(*server, service, &problem) != SPN_OK ||
        spn_server_start(*server, &problem) != SPN_OK) {
        fprintf(stderr, "%s\n", problem.text);
        return -1;
    }
    return spn_server_port(*server);
}

static int connect_to(spn_client **client, int port)
{
    char url[64];

    snprintf(url, sizeof url, "dubbo://127.0.0.1:%d?timeout=5000", port);
    return spn_client_create(client, url, NULL, NULL);
}

int main(void)
{
    /* A thread that asks the bank waits nine tenths of its time. */
    spn_pool_opts bank_threads = spn_pool_opts_fixed(spn_pool_size_for_io(0.9), 100);
    struct shop shop = { NULL, NULL };
    const spn_method methods[] = {
        { "place", "Lshop/Order;", place, &shop },
        { "isPaid", "J", is_paid, &shop },
        { "rebate", "D", rebate, NULL },
        { "*", NULL, forward, &shop },
    };
    const spn_service service = { .size = sizeof service,
                                  .interface = "shop.Orders",
                                  .methods = methods,
                                  .method_count = 4 };
    spn_server *old_server, *server;
    spn_client *client;
    spn_harena *arena;
    spn_pool *bank;
    int port, failures = 1;

    if (spn_pool_create(&bank, &bank_threads) != SPN_OK ||
        spn_harena_create(&arena, NULL) != SPN_OK)
        return 1;
    shop.bank = spn_pool_executor(bank);
    port = serve(&old_server, &old_service);
    if (port < 0 || connect_to(&shop.old, port) != SPN_OK)
        return 1;
    port = serve(&server, &service);
    if (port < 0 || connect_to(&client, port) != SPN_OK)
        return 1;
    failures = ask(client, arena);
    failures += compare_counts(server, client);
    failures += retire(old_server, client, arena);

    failures += spn_client_close(client, SPN_SEC(5)) != SPN_OK ||
                spn_client_destroy(client) != SPN_OK;
    failures += spn_server_stop(server, SPN_SEC(5)) != SPN_OK ||
                spn_server_destroy(server) != SPN_OK;
    failures += spn_client_close(shop.old, SPN_SEC(5)) != SPN_OK ||
                spn_client_destroy(shop.old) != SPN_OK;
    failures += spn_server_stop(old_server, SPN_SEC(5)) != SPN_OK ||
                spn_server_destroy(old_server) != SPN_OK;
    failures += spn_pool_close(bank) != SPN_OK || spn_pool_destroy(bank) != SPN_OK;
    spn_harena_destroy(arena);
    return failures != 0;
}
