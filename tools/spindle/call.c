/* SPDX-License-Identifier: MIT */
/*
 * call.c - `spindle call`: one call of a method, with arguments from the command line.
 */
#include "command.h"

#include <stdio.h>
#include <string.h>

#include <spindle.h>
#include <spindle/client.h>

#include "options.h"
#include "wire.h"

enum { EXIT_REMOTE = 3 }; /* the server was reached, and answered with an error */

static int print_reply(const spn_reply *reply)
{
    const int rc = spn_reply_check(reply);

    if (rc == SPN_OK) {
        (void)spn_hvalue_print_file(spn_reply_value(reply), stdout);
        putchar('\n');
        return EXIT_GOOD;
    }
    if (spn_reply_exception(reply) != NULL) {
        const char *type = spn_hvalue_type(spn_reply_exception(reply));

        fputs("exception ", stderr);
        wire_print(stderr, type != NULL ? type : "");
    } else {
        fprintf(stderr, "status %d", spn_reply_status(reply));
    }
    fputs(": ", stderr);
    wire_print(stderr,
               spn_reply_message(reply) != NULL ? spn_reply_message(reply) : "");
    fputc('\n', stderr);
    return EXIT_REMOTE;
}

static int call_server(const struct wire_address *address, const struct wire_call *call,
                       bool one_way)
{
    spn_problem problem = SPN_PROBLEM_INIT;
    spn_invocation what = SPN_INVOCATION_INIT(call->interface, call->method);
    const bool v6 = strchr(address->host, ':') != NULL;
    spn_client *client;
    spn_reply *reply = NULL;
    char url[400];
    int rc, status;

    snprintf(url, sizeof(url), "dubbo://%s%s%s:%d?dispatcher=direct&heartbeat=0",
             v6 ? "[" : "", address->host, v6 ? "]" : "", address->port);
    rc = spn_client_create(&client, url, NULL, &problem);
    if (rc != SPN_OK) {
        fprintf(stderr, "spindle call: %s\n",
                problem.text[0] != '\0' ? problem.text : spn_status_text(rc));
        return EXIT_BAD;
    }
    what.version = *call->version != '\0' ? call->version : NULL;
    what.group = *call->group != '\0' ? call->group : NULL;
    what.parameters = call->parameters;
    what.arguments = call->arguments;
    what.argument_count = (size_t)call->argument_count;
    what.timeout_ns = SPN_MS(call->timeout_ms);
    rc = one_way ? spn_client_send(client, &what)
                 : spn_client_call(client, &what, &reply, &problem);
    if (reply != NULL) {
        status = print_reply(reply);
        spn_reply_destroy(reply);
    } else if (rc == SPN_OK) {
        status = EXIT_GOOD;
    } else {
        fprintf(stderr, "spindle call: %s\n",
                problem.text[0] != '\0' ? problem.text : spn_status_text(rc));
        status = EXIT_BAD;
    }
    if (spn_client_close(client, SPN_SEC(1)) == SPN_OK)
        (void)spn_client_destroy(client);
    return status;
}

static int run(int argc, char **argv)
{
    static struct wire_call call = { .version = "1.0.0",
                                     .group = "g1",
                                     .timeout_ms = 5000 };
    struct wire_address address = { .port = 0 };
    spn_harena *arena;
    bool one_way = false, words_only = false;
    int words = 0, status = EXIT_GOOD;
    char why[200];

    if (spn_harena_create(&arena, NULL) != SPN_OK) {
        fputs("spindle call: out of memory\n", stderr);
        return EXIT_BAD;
    }
    for (int i = 1; i < argc && status == EXIT_GOOD; i++) {
        const char *value;

        /* Options come first: -5 may be an argument. */
        if (!words_only && strcmp(argv[i], "--") == 0)
            words_only = true;
        else if (!words_only && words < 2 && option_is(argv[i], "version", &value))
            call.version = value != NULL ? value : "";
        else if (!words_only && words < 2 && option_is(argv[i], "group", &value))
            call.group = value != NULL ? value : "";
        else if (!words_only && words < 2 && option_is(argv[i], "one-way", &value) &&
                 value == NULL)
            one_way = true;
        else if (!words_only && words < 2 && option_is(argv[i], "timeout", &value)) {
            if (!option_number(value, 1, INT32_MAX, &call.timeout_ms))
                status = misused("call", "--timeout wants milliseconds.");
        } else if (!words_only && words < 2 && argv[i][0] == '-')
            status = misused("call", "there is no option '%s'.", argv[i]);
        else if (words == 0 && words++ == 0) {
            if (!wire_address(argv[i], &address))
                status = misused("call", "'%s' is no HOST:PORT.", argv[i]);
        } else if (words == 1 && words++ == 1) {
            if (!wire_method(argv[i], &call))
                status = misused("call", "'%s' is no Interface.method.", argv[i]);
        } else if (!wire_argument(arena, argv[i], &call, why, sizeof(why)))
            status = misused("call", "argument '%s': %s.", argv[i], why);
    }
    if (status == EXIT_GOOD && words < 2)
        status = misused("call", "say where and what: HOST:PORT Interface.method.");
    if (status == EXIT_GOOD)
        status = call_server(&address, &call, one_way);
    spn_harena_destroy(arena);
    return status;
}

const struct command call_command = {
    .name = "call",
    .summary = "call one method of a server",
    .help = "Usage: spindle call [OPTION...] HOST:PORT Interface.method [ARGUMENT...]\n"
            "\n"
            "Calls a method of any Dubbo server and prints what it returns.\n"
            "\n"
            "An argument is what it looks like: 5 is an int, 5L a long, 5.0 a double, "
            "true a\n"
            "boolean, null a null, [1,2] a List, {class:a.B,name:bob} an object, {k:v} "
            "a Map;\n"
            "anything else a String.  string:5 is a String too; int:, long:, double: "
            "as well.\n"
            "\n"
            "  --version=V    of the service (1.0.0; empty: none)\n"
            "  --group=G      of the service (g1; empty: none)\n"
            "  --timeout=MS   how long to wait (5000)\n"
            "  --one-way      wants no reply\n"
            "\n"
            "Exit status: 0 a result, 1 no answer, 2 misused, 3 the server answered "
            "with an\n"
            "exception or an error.\n",
    .run = run,
};
