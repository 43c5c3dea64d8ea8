/* SPDX-License-Identifier: MIT */
/*
 * rpc_server.c - a service in C that any Dubbo client can call.
 *
 * The URL decides which thread runs the methods: with dispatcher=all a pool does, so that
 * the threads that read sockets are always free; dispatcher=direct is the fastest for
 * methods that never wait.
 */
#include <spindle/server.h>

#include <signal.h>
#include <stdio.h>

static int say_hello(void *arg, spn_request *request)
{
    const char *name;
    char text[256];
    int rc = spn_request_text(request, 0, &name);

    (void)arg;
    if (rc != SPN_OK)
        return rc; /* the client is told what was wrong with its argument */
    snprintf(text, sizeof text, "hello %s", name != NULL ? name : "nobody");
    return spn_request_return_text(request, text);
}

static int add(void *arg, spn_request *request)
{
    int32_t a, b;
    int rc;

    (void)arg;
    if ((rc = spn_request_int(request, 0, &a)) != SPN_OK ||
        (rc = spn_request_int(request, 1, &b)) != SPN_OK)
        return rc;
    if (b > 0 ? a > INT32_MAX - b : a < INT32_MIN - b)
        return spn_request_throw(request, "java.lang.ArithmeticException", "overflow");
    return spn_request_return_int(request, a + b);
}

static const spn_method methods[] = {
    { "sayHello", "Ljava/lang/String;", say_hello, NULL },
    { "add", "II", add, NULL },
};
static const spn_service demo = {
    .size = sizeof(spn_service),
    .interface = "org.apache.dubbo.demo.DemoService",
    .version = "1.0.0",
    .methods = methods,
    .method_count = sizeof methods / sizeof *methods,
};

int main(int argc, char **argv)
{
    const char *url =
        argc > 1 ? argv[1] : "dubbo://127.0.0.1:0?dispatcher=all&threads=4&queues=100";
    spn_problem problem = SPN_PROBLEM_INIT;
    spn_server *server;
    sigset_t ends;

    /* Before there are threads, so that none of them is ended by ^C. */
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, NULL);

    if (spn_server_create(&server, url, NULL, &problem) != SPN_OK ||
        spn_server_export(server, &demo, &problem) != SPN_OK ||
        spn_server_start(server, &problem) != SPN_OK) {
        fprintf(stderr, "%s\n", problem.text);
        return 1;
    }
    printf("serving %s on port %d\n", demo.interface, spn_server_port(server));

    if (argc > 1) {
        int number;

        sigwait(&ends, &number);
    }
    /* What runs may end, for up to five seconds; then connections are closed. */
    if (spn_server_stop(server, SPN_SEC(5)) != SPN_OK)
        fprintf(stderr, "some requests were cut off\n");
    return spn_server_destroy(server) == SPN_OK ? 0 : 1;
}
