/* SPDX-License-Identifier: MIT */
/*
 * dispatchers.c - after "消息分派" of document 004: the five dispatchers, and on which thread
 * a server handles what happens on its connections.
 *
 *     <dubbo:protocol name="dubbo" dispatcher="all" threadpool="fixed" threads="100" />
 */
#include <spindle-rpc.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static _Atomic(const char *) places[SPN_CHANNEL_EVENTS];
static spn_latch *gone; /* both connections have ended */

static const char *this_thread(void)
{
    char name[64] = "";

    (void)spn_thread_name(spn_thread_current(), name, sizeof name);
    return strncmp(name, "spn-io", 6) == 0            ? "io"
           : strncmp(name, "ordered-server", 14) == 0 ? "ordered"
           : strncmp(name, "server-thread", 13) == 0  ? "pool"
                                                      : "?";
}

static void on_event(void *ctx, spn_channel_event event,
                     const spn_channel_info *channel)
{
    (void)ctx;
    (void)channel;
    atomic_store(&places[event], this_thread());
    if (event == SPN_CHANNEL_DISCONNECTED)
        spn_latch_count_down(gone);
}

static int on_request(void *arg, spn_request *request)
{
    (void)arg;
    (void)request;
    atomic_store(&places[SPN_CHANNEL_REQUEST], this_thread());
    return 0;
}

/* A peer that sends something else than a frame: `caught`. */
static int send_garbage(int port)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)port) };
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    char end;
    int ok;

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ok = fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0 &&
         write(fd, "garbage", 7) == 7 && read(fd, &end, 1) <= 0; /* it is closed */
    close(fd);
    return ok ? SPN_OK : SPN_EIO;
}

static int call(int port)
{
    const spn_invocation where = SPN_INVOCATION_INIT("demo.Where", "where");
    spn_client *client;
    spn_reply *reply;
    char url[80];
    int rc;

    snprintf(url, sizeof url, "dubbo://127.0.0.1:%d?timeout=30000", port);
    if ((rc = spn_client_create(&client, url, NULL, NULL)) != SPN_OK)
        return rc;
    rc = spn_client_call(client, &where, &reply, NULL);
    spn_reply_destroy(reply);
    return spn_client_close(client, SPN_SEC(30)) == SPN_OK &&
                   spn_client_destroy(client) == SPN_OK
               ? rc
               : SPN_EFAILED;
}

static int serve_with(const char *dispatcher)
{
    static const spn_method methods[] = { { "where", "", on_request, NULL } };
    static const spn_service service = { .size = sizeof service,
                                         .interface = "demo.Where",
                                         .methods = methods,
                                         .method_count = 1 };
    spn_server_opts opts = SPN_SERVER_OPTS_INIT;
    spn_problem problem = SPN_PROBLEM_INIT;
    spn_server *server;
    char url[200];

    opts.event = on_event;
    snprintf(url, sizeof url,
             "dubbo://127.0.0.1:0?dispatcher=%s&threadname=server&threads=2&queues=100",
             dispatcher);
    if (spn_latch_create(&gone, 2) != SPN_OK ||
        spn_server_create(&server, url, &opts, &problem) != SPN_OK ||
        spn_server_export(server, &service, &problem) != SPN_OK ||
        spn_server_start(server, &problem) != SPN_OK ||
        call(spn_server_port(server)) != SPN_OK ||
        send_garbage(spn_server_port(server)) != SPN_OK ||
        spn_latch_await(gone, SPN_SEC(30)) != SPN_OK ||
        spn_server_stop(server, SPN_SEC(30)) != SPN_OK) {
        fprintf(stderr, "%s\n", problem.text);
        return 1;
    }
    printf("%-12s", dispatcher);
    for (int event = 0; event < SPN_CHANNEL_EVENTS; event++)
        if (event != SPN_CHANNEL_RESPONSE) /* those are a client's */
            printf("%14s", atomic_load(&places[event]));
    printf("\n");
    spn_latch_destroy(gone);
    return spn_server_destroy(server) == SPN_OK ? 0 : 1;
}

int main(void)
{
    static const char *const dispatchers[] = { "all", "direct", "message", "execution",
                                               "connection" };
    int failed =
        spn_log_set_level(SPN_LOG_ERROR) != SPN_OK; /* the garbage is a warning */

    printf("%-12s", "");
    for (int event = 0; event < SPN_CHANNEL_EVENTS; event++)
        if (event != SPN_CHANNEL_RESPONSE)
            printf("%14s", spn_channel_event_name(event));
    printf("\n");
    for (size_t i = 0; i < sizeof dispatchers / sizeof *dispatchers; i++)
        failed += serve_with(dispatchers[i]);
    return failed != 0;
}
