/* SPDX-License-Identifier: MIT */
/*
 * metrics_endpoint.c - metrics over HTTP in thirty lines: a socket, and one call.  The rest
 * of the program is a pool that has something to tell, and a client that asks.
 */
#include <spindle.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- the endpoint ----------------------------------------------------------- */

struct endpoint {
    spn_metrics *metrics;
    int listener;
};

static int send_piece(void *connection, const char *text, size_t length)
{
    return send(*(int *)connection, text, length, MSG_NOSIGNAL) < 0 ? -1 : 0;
}

static int serve(void *arg) /* a thread: one request after the other */
{
    static const char head[] = "HTTP/1.0 200 OK\r\n"
                               "Content-Type: text/plain; version=0.0.4\r\n\r\n";
    struct endpoint *e = arg;
    char request[1024];
    int connection;

    while ((connection = accept(e->listener, NULL, NULL)) >= 0) {
        if (recv(connection, request, sizeof request, 0) > 0 &&
            send_piece(&connection, head, sizeof head - 1) == 0)
            (void)spn_metrics_write(e->metrics, SPN_METRICS_PROMETHEUS, send_piece,
                                    &connection);
        close(connection);
    }
    return 0;
}

/* ---- something to tell --------------------------------------------------------- */

static int work(void *arg)
{
    spn_counter_add(arg, 1);
    return 0;
}

/* What `curl http://localhost:PORT/metrics` would show; how many lines of the pool. */
static int ask(const struct sockaddr_in *address)
{
    static char answer[1 << 20];
    size_t used = 0;
    ssize_t got;
    int lines = 0, fd = socket(AF_INET, SOCK_STREAM, 0);

    if (connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 ||
        send(fd, "GET /metrics HTTP/1.0\r\n\r\n", 25, 0) != 25)
        return -1;
    while ((got = recv(fd, answer + used, sizeof answer - 1 - used, 0)) > 0)
        used += (size_t)got;
    close(fd);
    for (char *line = strtok(answer, "\n"); line != NULL; line = strtok(NULL, "\n"))
        if (strncmp(line, "spindle_pool_tasks", 18) == 0 ||
            strncmp(line, "app_", 4) == 0) {
            puts(line);
            lines++;
        }
    return lines;
}

/* What is told: the pool with its tasks' times, and a counter of the program's own. */
static int register_all(spn_metrics *metrics, spn_pool *pool, spn_task_times *times,
                        spn_counter *counter)
{
    spn_metrics_source threads = SPN_METRICS_SOURCE_INIT;
    spn_metrics_source done = SPN_METRICS_SOURCE_INIT;
    int rc;

    threads.pool = pool;
    threads.times = times;
    done.counter = counter;
    done.name = "app_work";
    done.help = "Work done.";
    rc = spn_metrics_add(metrics, &threads);
    return rc == SPN_OK ? spn_metrics_add(metrics, &done) : rc;
}

int main(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    struct endpoint e = { .listener = socket(AF_INET, SOCK_STREAM, 0) };
    spn_pool_opts opts = spn_pool_opts_fixed(2, SPN_UNBOUNDED);
    spn_task_times *times;
    spn_counter *counter;
    spn_thread *thread;
    spn_pool *pool;
    int lines;

    if (bind(e.listener, (struct sockaddr *)&address, size) != 0 ||
        listen(e.listener, 8) != 0 ||
        getsockname(e.listener, (struct sockaddr *)&address, &size) != 0)
        return 1;
    opts.name = "workers";
    if (spn_metrics_create(&e.metrics) != SPN_OK ||
        spn_counter_create(&counter) != SPN_OK ||
        spn_task_times_create(&times, NULL) != SPN_OK ||
        spn_task_times_install(times, &opts.hooks) != SPN_OK ||
        spn_pool_create(&pool, &opts) != SPN_OK ||
        register_all(e.metrics, pool, times, counter) != SPN_OK ||
        spn_thread_create(&thread, NULL, serve, &e) != SPN_OK)
        return 1;
    for (int i = 0; i < 1000; i++)
        if (spn_executor_call(spn_pool_executor(pool), work, counter) != SPN_OK)
            return 1;
    lines = ask(&address);

    shutdown(e.listener, SHUT_RDWR); /* accept fails, and the thread ends */
    if (spn_thread_join(thread, SPN_FOREVER, NULL) != SPN_OK)
        return 1;
    spn_thread_unref(thread);
    close(e.listener);
    spn_metrics_destroy(e.metrics);
    spn_pool_close(pool);
    spn_pool_destroy(pool);
    spn_task_times_destroy(times);
    spn_counter_destroy(counter);
    return lines > 5 ? 0 : 1;
}
