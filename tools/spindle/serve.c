/* SPDX-License-Identifier: MIT */
/*
 * serve.c - `spindle serve`: Dubbo-protocol servers with their pools, a status page and an
 * orderly end.
 *
 * Servers.  A URL is one server, a file of --config one for each section.  Each has a
 * repository of its own, because a repository keeps pools by port, and two sections may have
 * the same port of two addresses.  All are made before the first one listens.
 *
 * Signals.  All threads block SIGINT, SIGTERM and SIGHUP; the main thread waits for them
 * with a limit of a second, which is also when it samples.  The first SIGTERM or SIGINT
 * drains, the second ends at once.  SIGHUP reads the file of --url-file or
 * --config again.
 *
 * Order of the end: stop the servers, all at once, each on a thread of its own (the page shows
 * `draining` meanwhile), then the page, then the pools.  What cannot end by the deadline is told, and the exit status is 1.
 */
#include "command.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <spindle.h>
#include <spindle/server.h>

#include "demo.h"
#include "http.h"
#include "serving.h"
#include "wishes.h"

enum { STATUS_PORT_DEFAULT = 20881, DRAIN_SECONDS_DEFAULT = 10 };

/* Says something about one server: with its section, where there are several. */
__attribute__((format(printf, 2, 3))) static void tell(const struct served *served,
                                                       const char *format, ...)
{
    va_list args;

    fputs("spindle serve: ", stderr);
    if (served->section[0] != '\0')
        fprintf(stderr, "[%s]: ", served->section);
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

static int complain(const struct served *served, const spn_problem *problem, int rc)
{
    tell(served, "%s", problem->text[0] != '\0' ? problem->text : spn_status_text(rc));
    return EXIT_BAD;
}

/* ---- services of plug-ins -------------------------------------------------------- */

struct exporting {
    const struct serving *serving;
    const struct served *served;
    int count;
    int rc;
    spn_problem problem;
};

static void export_extension(void *context, const spn_extension *e, const char *origin)
{
    struct exporting *exporting = context;
    const void *service;

    (void)origin;
    if (exporting->rc != SPN_OK)
        return;
    exporting->rc = spn_extensions_get(exporting->serving->extensions, "service",
                                       e->name, &service, &exporting->problem);
    if (exporting->rc == SPN_OK)
        exporting->rc =
            spn_server_export(exporting->served->server, service, &exporting->problem);
    exporting->count += exporting->rc == SPN_OK;
}

static int export_services(const struct serving *serving, const struct served *served,
                           const struct wishes *w)
{
    struct exporting exporting = { .serving = serving, .served = served };

    if (w->plugin_count > 0) {
        (void)spn_extensions_each(serving->extensions, "service", export_extension,
                                  &exporting);
        if (exporting.rc != SPN_OK)
            return wishes_complain("a plug-in's service", &exporting.problem,
                                   exporting.rc);
        if (exporting.count == 0)
            fputs("spindle serve: no plug-in has a service\n", stderr);
    }
    if (!w->no_demo) {
        const int rc =
            spn_server_export(served->server, &demo_service, &exporting.problem);

        if (rc != SPN_OK)
            return wishes_complain("the demo service", &exporting.problem, rc);
    }
    return EXIT_GOOD;
}

/* ---- begin and end ----------------------------------------------------------------- */

static int load_extensions(struct serving *serving, const struct wishes *w)
{
    const spn_extension_kind services = { .size = sizeof(services), .name = "service" };
    spn_problem problem = SPN_PROBLEM_INIT;
    int rc;

    if ((rc = spn_extensions_create(&serving->extensions, NULL)) != SPN_OK ||
        (rc = spn_extensions_define(serving->extensions, &services, &problem)) !=
            SPN_OK)
        return wishes_complain("", &problem, rc);
    for (int i = 0; i < w->plugin_count; i++)
        if ((rc = spn_extensions_load(serving->extensions, w->plugins[i], &problem)) !=
            SPN_OK)
            return wishes_complain(w->plugins[i], &problem, rc);
    return EXIT_GOOD;
}

static int add_metrics(struct served *served)
{
    spn_metrics_source pool = SPN_METRICS_SOURCE_INIT;
    spn_metrics_source timer = SPN_METRICS_SOURCE_INIT;
    int rc;

    pool.pool = spn_server_pool(served->server);
    timer.timer = spn_server_timer(served->server);
    timer.name = "idle";
    if ((rc = spn_metrics_create(&served->metrics)) != SPN_OK ||
        (rc = spn_server_add_metrics(served->server, served->metrics)) != SPN_OK ||
        (rc = spn_metrics_add(served->metrics, &pool)) != SPN_OK)
        return rc;
    return spn_metrics_add(served->metrics, &timer);
}

static int make_server(struct serving *serving, const struct wish_section *section,
                       const struct wishes *w)
{
    struct served *served = &serving->servers[serving->server_count++];
    spn_repository_opts repository = SPN_REPOSITORY_OPTS_INIT;
    spn_server_opts server = SPN_SERVER_OPTS_INIT;
    spn_problem problem = SPN_PROBLEM_INIT;
    int rc;

    snprintf(served->section, sizeof(served->section), "%s", section->name);
    repository.extensions = serving->extensions;
    repository.exhausted = serving_exhausted;
    repository.ctx = serving;
    if ((rc = spn_repository_create(&served->repository, &repository)) != SPN_OK)
        return complain(served, &problem, rc);
    server.extensions = serving->extensions;
    server.repository = served->repository;
    rc = spn_server_create(&served->server, section->url, &server, &problem);
    if (rc != SPN_OK)
        return complain(served, &problem, rc);
    if (export_services(serving, served, w) != EXIT_GOOD)
        return EXIT_BAD;
    rc = add_metrics(served);
    return rc == SPN_OK ? EXIT_GOOD : wishes_complain("metrics", &problem, rc);
}

static int begin(struct serving *serving, const struct wish_sections *sections,
                 const struct wishes *w)
{
    spn_problem problem = SPN_PROBLEM_INIT;
    int rc;

    if (load_extensions(serving, w) != EXIT_GOOD)
        return EXIT_BAD;
    for (int i = 0; i < sections->count; i++)
        if (make_server(serving, &sections->list[i], w) != EXIT_GOOD)
            return EXIT_BAD;
    serving->started_ns = spn_now();
    for (int i = 0; i < serving->server_count; i++)
        if ((rc = spn_server_start(serving->servers[i].server, &problem)) != SPN_OK)
            return complain(&serving->servers[i], &problem, rc);
    return EXIT_GOOD;
}

static int end_server(struct served *served, int64_t drain_ns)
{
    int status = EXIT_GOOD;

    if (served->server != NULL) {
        (void)spn_metrics_remove(served->metrics, spn_server_timer(served->server));
        (void)spn_metrics_remove(served->metrics, spn_server_pool(served->server));
        (void)spn_server_remove_metrics(served->server, served->metrics);
        if (spn_server_destroy(served->server) != SPN_OK) {
            tell(served, "requests still run; they are left behind");
            return EXIT_BAD;
        }
    }
    if (served->repository != NULL &&
        (spn_repository_destroy_all(served->repository, drain_ns) != SPN_OK ||
         spn_repository_destroy(served->repository) != SPN_OK)) {
        tell(served, "a pool did not end in time");
        status = EXIT_BAD;
    }
    spn_metrics_destroy(served->metrics);
    return status;
}

/* Undoes what begin did, as far as it got. */
static int end(struct serving *serving, int64_t drain_ns)
{
    int status = EXIT_GOOD;

    for (int i = 0; i < serving->server_count; i++)
        status |= end_server(&serving->servers[i], drain_ns);
    if (status == EXIT_GOOD)
        (void)spn_extensions_destroy(serving->extensions);
    return status;
}

/* ---- the file, read again -------------------------------------------------------------- */

static const struct wish_section *section_of(const struct wish_sections *sections,
                                             const char *name)
{
    for (int i = 0; i < sections->count; i++)
        if (strcmp(sections->list[i].name, name) == 0)
            return &sections->list[i];
    return NULL;
}

/* Each server becomes what its section says now. */
static int reset_all(const struct serving *serving,
                     const struct wish_sections *sections)
{
    int status = EXIT_GOOD, found = 0;

    for (int i = 0; i < serving->server_count; i++) {
        const struct served *served = &serving->servers[i];
        const struct wish_section *section = section_of(sections, served->section);
        spn_problem problem = SPN_PROBLEM_INIT;
        int rc;

        if (section == NULL) {
            tell(served, "the section is gone; its server stays until the end");
            continue;
        }
        found++;
        rc = spn_server_reset(served->server, section->url, &problem);
        if (rc != SPN_OK)
            status = complain(served, &problem, rc);
    }
    if (found < sections->count)
        fputs("spindle serve: new sections are served from the next start on\n",
              stderr);
    return status;
}

static void reload(const struct serving *serving, const struct wishes *w)
{
    const char *const path = w->config != NULL ? w->config : w->url_file;
    struct wish_sections sections;

    if (path == NULL) {
        fputs("spindle serve: SIGHUP changes nothing without --url-file or --config\n",
              stderr);
        return;
    }
    if (!wishes_read_urls(w, &sections))
        return;
    if (reset_all(serving, &sections) == EXIT_GOOD)
        fprintf(stderr, "spindle serve: now as %s says\n", path);
    wishes_drop(&sections);
}

/* Serves until a signal says to end, or the time is up. */
static void serve_on(struct serving *serving, const struct wishes *w,
                     const sigset_t *signals)
{
    const struct timespec second = { 1, 0 };
    const int64_t end_ns = w->seconds < 0 ? INT64_MAX : spn_now() + SPN_SEC(w->seconds);

    for (;;) {
        const int64_t left = end_ns - spn_now();
        struct timespec wait = second;
        int number;

        if (left <= 0)
            return;
        if (left < SPN_SEC(1))
            wait = (struct timespec){ 0, (long)left };
        number = sigtimedwait(signals, NULL, &wait);
        if (number == SIGINT || number == SIGTERM)
            return;
        if (number == SIGHUP)
            reload(serving, w);
        else
            serving_sample(serving);
    }
}

enum { ADDRESS_BYTES = 300 };

/* host:port, with brackets around an IPv6 address. */
static void address_print(const char *host, int port, char *text, size_t capacity)
{
    const bool v6 = strchr(host, ':') != NULL && host[0] != '[';

    snprintf(text, capacity, "%s%s%s:%d", v6 ? "[" : "", host, v6 ? "]" : "", port);
}

/* The address to ask on this machine. */
static const char *near_address(const char *host)
{
    if (strcmp(host, "0.0.0.0") == 0)
        return "127.0.0.1";
    return strcmp(host, "::") == 0 ? "::1" : host;
}

/* "serving dubbo://127.0.0.1:20880  dispatcher all"; the address is for others to ask. */
static void introduce_server(const struct served *served, char address[ADDRESS_BYTES])
{
    spn_url *url = spn_server_url(served->server);
    const char *host = /* which the server takes for a URL without one */
        url != NULL && spn_url_host(url) != NULL ? spn_url_host(url) : "127.0.0.1";

    address_print(host, spn_server_port(served->server), address, ADDRESS_BYTES);
    printf("serving dubbo://%s  dispatcher %s", address,
           url != NULL ? spn_url_get_string(url, NULL, "dispatcher", "all") : "all");
    printf(served->section[0] != '\0' ? "  [%s]\n" : "%s\n", served->section);
    spn_url_unref(url);
}

static void introduce(const struct serving *serving, const struct wishes *w,
                      const struct http_server *page)
{
    char address[ADDRESS_BYTES], other[ADDRESS_BYTES], status[ADDRESS_BYTES];

    introduce_server(&serving->servers[0], address);
    for (int i = 1; i < serving->server_count; i++)
        introduce_server(&serving->servers[i], other);
    if (page != NULL && w->status_socket != NULL) {
        printf("status  unix:%s\n", w->status_socket);
    } else if (page != NULL) {
        address_print(w->status_host, http_port(page), status, sizeof(status));
        printf("status  http://%s/\n", status);
    } else if (!http_is_built_in()) {
        printf("status  none: built without libmicrohttpd\n");
    }
    if (page != NULL && http_made_token(page))
        printf("admin   X-Spindle-Admin: %s\n", w->guard.token);
    if (!w->no_demo)
        printf("\nTry, in another terminal:\n"
               "  spindle call %s org.apache.dubbo.demo.DemoService.sayHello bob\n"
               "  spindle load %s\n",
               address, address);
    if (page != NULL && w->status_socket != NULL) {
        printf("  spindle top --status-socket=%s\n", w->status_socket);
    } else if (page != NULL) {
        address_print(near_address(w->status_host), http_port(page), status,
                      sizeof(status));
        printf("  spindle top %s\n", status);
    }
    if (w->seconds < 0)
        printf("\nCtrl-C drains and ends.\n");
    (void)fflush(stdout);
}

/* ---- the end ----------------------------------------------------------------------------- */

/* The end of one server. */
struct stopping {
    const struct served *served;
    int64_t seconds; /* it may take */
    spn_server_stats before, after;
    int rc;
    bool has_thread;
    pthread_t thread;
};

/* What became of the requests, in one line for each thing that did not go well. */
static void tell_end(const struct stopping *stopping)
{
    const struct served *const served = stopping->served;
    const spn_server_stats *const before = &stopping->before;
    const spn_server_stats *const after = &stopping->after;
    const unsigned long long dropped = after->dropped - before->dropped;
    const unsigned long long cut_off = after->cut_off - before->cut_off;
    const unsigned long long requests = after->in_flight + dropped;
    const long long seconds = (long long)stopping->seconds;
    const int rc = stopping->rc;

    if (rc == SPN_OK && dropped == 0)
        tell(served, "every request was answered, %llu in all; bye",
             (unsigned long long)after->replies);
    else if (rc == SPN_OK)
        tell(served,
             "every request was answered, %llu in all, but for %llu "
             "whose clients had gone, or whose methods said nothing; bye",
             (unsigned long long)after->replies, dropped);
    else if (rc != SPN_ETIMEDOUT)
        tell(served, "the server did not stop: %s", spn_status_text(rc));
    if (rc != SPN_ETIMEDOUT)
        return;
    if (requests > 0)
        tell(served,
             "cut off after %lld s: requests without a reply: %llu; "
             "--drain=SECONDS gives more time",
             seconds, requests);
    if (cut_off > 0)
        tell(served,
             "cut off after %lld s: clients that had not read all "
             "replies: %llu (%llu bytes); --drain=SECONDS gives more time",
             seconds, cut_off,
             (unsigned long long)(after->cut_off_bytes - before->cut_off_bytes));
    if (requests + cut_off == 0)
        tell(served, "the server did not stop within %lld s", seconds);
}

static void *stop_server(void *context)
{
    struct stopping *stopping = context;
    spn_server *const server = stopping->served->server;

    (void)spn_server_stats_get(server, &stopping->before);
    stopping->rc = spn_server_stop(server, SPN_SEC(stopping->seconds));
    (void)spn_server_stats_get(server, &stopping->after);
    if (stopping->rc == SPN_ETIMEDOUT) /* what was cut off is told; is anything left? */
        (void)!spn_server_stop(server, 0);
    return NULL;
}

/* Stops those that were started, side by side: each has all of the time. */
static int stop(struct serving *serving, const struct wishes *w)
{
    struct stopping list[SERVERS_MAX];
    int count = 0, status = EXIT_GOOD;

    for (int i = 0; i < serving->server_count; i++)
        if (spn_server_port(serving->servers[i].server) != 0)
            list[count++] = (struct stopping){ .served = &serving->servers[i],
                                               .seconds = w->drain_seconds,
                                               .before = SPN_SERVER_STATS_INIT,
                                               .after = SPN_SERVER_STATS_INIT };
    if (count == 0)
        return EXIT_GOOD;
    (void)pthread_mutex_lock(&serving->lock);
    serving->draining = true;
    (void)pthread_mutex_unlock(&serving->lock);
    fputs("spindle serve: draining\n", stderr);
    for (int i = 1; i < count; i++)
        list[i].has_thread =
            pthread_create(&list[i].thread, NULL, stop_server, &list[i]) == 0;
    for (int i = 0; i < count; i++) {
        if (list[i].has_thread)
            (void)pthread_join(list[i].thread, NULL);
        else
            (void)stop_server(&list[i]);
        tell_end(&list[i]);
        status |= list[i].rc == SPN_OK ? EXIT_GOOD : EXIT_BAD;
    }
    return status;
}

static int run(int argc, char **argv)
{
    static struct serving serving = { .lock = PTHREAD_MUTEX_INITIALIZER };
    static struct wishes w = { .seconds = -1, .drain_seconds = DRAIN_SECONDS_DEFAULT };
    const struct http_source source = { serving_take, serving_metrics, serving_reset,
                                        &serving };
    struct wish_sections sections;
    struct http_server *page = NULL;
    char problem[500];
    sigset_t signals;
    int status;

    w.status_port = http_is_built_in() ? STATUS_PORT_DEFAULT : -1;
    status = wishes_read(&w, argc, argv);
    if (status != EXIT_GOOD)
        return status;
    if (w.status_socket != NULL && !http_is_built_in())
        w.status_port = 0; /* http_start says why there is none */
    if (w.token_file != NULL &&
        !guard_token_read(w.token_file, w.guard.token, problem, sizeof(problem))) {
        fprintf(stderr, "spindle serve: --admin-token-file: %s\n", problem);
        return EXIT_BAD;
    }
    if (!wishes_read_urls(&w, &sections))
        return EXIT_BAD;

    /* Before there are threads, so that all of them have it so. */
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGHUP);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
    (void)signal(SIGPIPE, SIG_IGN);

    status = begin(&serving, &sections, &w);
    wishes_drop(&sections);
    if (status == EXIT_GOOD && w.status_port >= 0) {
        const struct http_opts opts = { w.status_host, w.status_port, w.status_socket,
                                        &w.guard };

        page = http_start(&opts, &source);
        if (page == NULL)
            status = EXIT_BAD;
    }
    if (status == EXIT_GOOD) {
        serving_sample(&serving);
        introduce(&serving, &w, page);
        serve_on(&serving, &w, &signals);
    }
    /* From now on a second signal ends at once. */
    (void)pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
    status |= stop(&serving, &w);
    http_stop(page);
    status |= end(&serving, SPN_SEC(w.drain_seconds));
    return status;
}

const struct command serve_command = {
    .name = "serve",
    .summary = "serve Dubbo clients, with a live status page",
    .help =
        "Usage: spindle serve [OPTION...] [URL]\n"
        "\n"
        "Serves the Dubbo protocol as URL says; without one, as\n"
        "  " URL_DEFAULT "\n"
        "Exports a demo service and those of plug-ins.  SIGTERM or Ctrl-C drains: "
        "clients\n"
        "are told, requests in flight are answered, then it ends; a second one "
        "ends at once.\n"
        "\n"
        "  --status-port=N   where the status page and /metrics are (20881; 0: any "
        "free)\n"
        "  --status-host=A   their address (127.0.0.1).  Off the loopback changes "
        "want a token,\n"
        "                    which is made and printed at the start\n"
        "  --status-name=N   a name they are asked for by, beside that address\n"
        "  --status-socket=PATH  a Unix socket for them instead, mode 0600\n"
        "  --admin-token-file=FILE  changes want the token in FILE's first line, on "
        "any address\n"
        "  --no-status       no page\n"
        "  --config=FILE     serves each section of FILE, as [dubbo] with lines like "
        "threads = 200;\n"
        "                    see spn_url(3).  SIGHUP as for --url-file\n"
        "  --url-file=FILE   the URL is in FILE; SIGHUP reads it again and changes "
        "the\n"
        "                    pools' sizes while they run\n"
        "  --plugin=FILE     loads a shared object with services, dispatchers, "
        "pools, ...\n"
        "  --no-demo         does not export the demo service\n"
        "  --drain=SECONDS   how long requests in flight, and clients that read their\n"
        "                    replies, may take at the end (10)\n"
        "  --seconds=N       ends by itself after N seconds\n"
        "\n"
        "Sizes can also be changed over the status port:\n"
        "  curl -X POST -H 'X-Spindle-Admin: 1' "
        "'http://127.0.0.1:20881/admin/pools?threads=50'\n"
        "with the token in place of 1, where there is one.\n",
    .run = run,
};
