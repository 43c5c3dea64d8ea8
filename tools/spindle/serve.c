/* SPDX-License-Identifier: MIT */
/*
 * serve.c - `spindle serve`: a Dubbo-protocol server with its pools, its status page and
 * an orderly end.
 *
 * Signals.  All threads block SIGINT, SIGTERM and SIGHUP; the main thread waits for them
 * with a limit of a second, which is also when it samples.  The first SIGTERM or SIGINT
 * drains, the second ends at once.  SIGHUP reads the file of --url-file again.
 *
 * Order of the end: stop the server (the page shows `draining` meanwhile), then the page,
 * then the pools.  What cannot end by the deadline is told, and the exit status is 1.
 */
#include "command.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <spindle.h>
#include <spindle/server.h>

#include "demo.h"
#include "http.h"
#include "options.h"
#include "serving.h"

#define URL_DEFAULT \
    "dubbo://127.0.0.1:20880?dispatcher=all&threadpool=fixed&threads=200"

enum {
    STATUS_PORT_DEFAULT = 20881,
    DRAIN_SECONDS_DEFAULT = 10,
    PLUGINS_MAX = 32,
    URL_BYTES = 4096
};

struct wishes {
    const char *url;
    const char *url_file;
    const char *status_host;
    int status_port; /* -1: no page */
    int64_t seconds; /* how long to serve; -1: until told */
    int64_t drain_seconds;
    bool no_demo;
    const char *plugins[PLUGINS_MAX];
    int plugin_count;
    char url_read[URL_BYTES]; /* from the file */
};

static int complain(const char *what, const spn_problem *problem, int rc)
{
    fprintf(stderr, "spindle serve: %s%s%s\n", what, *what != '\0' ? ": " : "",
            problem->text[0] != '\0' ? problem->text : spn_status_text(rc));
    return EXIT_BAD;
}

/* The first line of the file that is neither empty nor a comment. */
static bool read_url(struct wishes *wishes)
{
    FILE *file = fopen(wishes->url_file, "r");
    char line[URL_BYTES];
    bool found = false, cut = false;
    int error;

    if (file == NULL) {
        fprintf(stderr, "spindle serve: %s: %s\n", wishes->url_file, strerror(errno));
        return false;
    }
    errno = 0;
    while (!found && fgets(line, sizeof(line), file) != NULL) {
        cut = strlen(line) == sizeof(line) - 1 && strchr(line, '\n') == NULL;
        line[strcspn(line, "\r\n")] = '\0';
        found = line[0] != '\0' && line[0] != '#';
    }
    error = ferror(file) ? errno : 0;
    (void)fclose(file);
    if (error != 0 || cut) { /* half a URL would say something else */
        fprintf(stderr, "spindle serve: %s: %s\n", wishes->url_file,
                error != 0 ? strerror(error) : "the line is too long");
        return false;
    }
    if (!found) {
        fprintf(stderr, "spindle serve: there is no URL in %s\n", wishes->url_file);
        return false;
    }
    memcpy(wishes->url_read, line, sizeof(line));
    wishes->url = wishes->url_read;
    return true;
}

static int read_arguments(int argc, char **argv, struct wishes *w)
{
    for (int i = 1; i < argc; i++) {
        const char *value;
        int64_t number = 0;

        if (argv[i][0] != '-') {
            if (w->url != NULL)
                return misused("serve", "one URL, not '%s' too.", argv[i]);
            w->url = argv[i];
        } else if (option_is(argv[i], "status-port", &value)) {
            if (!option_number(value, 0, 65535, &number))
                return misused("serve", "--status-port wants a port, 0 to 65535.");
            w->status_port = (int)number;
        } else if (option_is(argv[i], "status-host", &value) && value != NULL) {
            w->status_host = value;
        } else if (option_is(argv[i], "no-status", &value) && value == NULL) {
            w->status_port = -1;
        } else if (option_is(argv[i], "seconds", &value)) {
            if (!option_number(value, 0, 1000000000, &w->seconds))
                return misused("serve", "--seconds wants a whole number.");
        } else if (option_is(argv[i], "drain", &value)) {
            if (!option_number(value, 0, 1000000, &w->drain_seconds))
                return misused("serve", "--drain wants whole seconds.");
        } else if (option_is(argv[i], "url-file", &value) && value != NULL) {
            w->url_file = value;
        } else if (option_is(argv[i], "plugin", &value) && value != NULL) {
            if (w->plugin_count == PLUGINS_MAX)
                return misused("serve", "at most %d plug-ins.", PLUGINS_MAX);
            w->plugins[w->plugin_count++] = value;
        } else if (option_is(argv[i], "no-demo", &value) && value == NULL) {
            w->no_demo = true;
        } else if (option_is(argv[i], "status-host", &value) ||
                   option_is(argv[i], "url-file", &value) ||
                   option_is(argv[i], "plugin", &value)) {
            return misused("serve", "%s wants a value, as %s=...", argv[i], argv[i]);
        } else {
            return misused("serve", "there is no option '%s'.", argv[i]);
        }
    }
    if (w->url != NULL && w->url_file != NULL)
        return misused("serve", "a URL, or --url-file, not both.");
    return EXIT_GOOD;
}

/* ---- services of plug-ins -------------------------------------------------------- */

struct exporting {
    struct serving *serving;
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
            spn_server_export(exporting->serving->server, service, &exporting->problem);
    exporting->count += exporting->rc == SPN_OK;
}

static int export_services(struct serving *serving, const struct wishes *w)
{
    struct exporting exporting = { .serving = serving };

    if (w->plugin_count > 0) {
        (void)spn_extensions_each(serving->extensions, "service", export_extension,
                                  &exporting);
        if (exporting.rc != SPN_OK)
            return complain("a plug-in's service", &exporting.problem, exporting.rc);
        if (exporting.count == 0)
            fputs("spindle serve: no plug-in has a service\n", stderr);
    }
    if (!w->no_demo) {
        const int rc =
            spn_server_export(serving->server, &demo_service, &exporting.problem);

        if (rc != SPN_OK)
            return complain("the demo service", &exporting.problem, rc);
    }
    return EXIT_GOOD;
}

/* ---- begin and end ----------------------------------------------------------------- */

static int begin(struct serving *serving, const struct wishes *w)
{
    spn_problem problem = SPN_PROBLEM_INIT;
    spn_repository_opts repository = SPN_REPOSITORY_OPTS_INIT;
    spn_server_opts server = SPN_SERVER_OPTS_INIT;
    const spn_extension_kind services = { .size = sizeof(services), .name = "service" };
    int rc;

    if ((rc = spn_extensions_create(&serving->extensions, NULL)) != SPN_OK ||
        (rc = spn_extensions_define(serving->extensions, &services, &problem)) !=
            SPN_OK)
        return complain("", &problem, rc);
    for (int i = 0; i < w->plugin_count; i++)
        if ((rc = spn_extensions_load(serving->extensions, w->plugins[i], &problem)) !=
            SPN_OK)
            return complain(w->plugins[i], &problem, rc);

    repository.extensions = serving->extensions;
    repository.exhausted = serving_exhausted;
    repository.ctx = serving;
    if ((rc = spn_repository_create(&serving->repository, &repository)) != SPN_OK ||
        (rc = spn_metrics_create(&serving->metrics)) != SPN_OK)
        return complain("", &problem, rc);
    server.extensions = serving->extensions;
    server.repository = serving->repository;
    if ((rc = spn_server_create(&serving->server, w->url, &server, &problem)) != SPN_OK)
        return complain("", &problem, rc);
    if (export_services(serving, w) != EXIT_GOOD)
        return EXIT_BAD;
    if ((rc = spn_server_add_metrics(serving->server, serving->metrics)) != SPN_OK ||
        (rc = spn_metrics_add_pool(serving->metrics, spn_server_pool(serving->server),
                                   NULL)) != SPN_OK ||
        (rc = spn_metrics_add_timer(serving->metrics, "idle",
                                    spn_server_timer(serving->server))) != SPN_OK)
        return complain("metrics", &problem, rc);
    serving->started_ns = spn_now();
    if ((rc = spn_server_start(serving->server, &problem)) != SPN_OK)
        return complain("", &problem, rc);
    return EXIT_GOOD;
}

/* Undoes what begin did, as far as it got. */
static int end(struct serving *serving, int64_t drain_ns)
{
    int status = EXIT_GOOD;

    if (serving->server != NULL) {
        if (serving->metrics != NULL) {
            (void)spn_metrics_remove(serving->metrics,
                                     spn_server_timer(serving->server));
            (void)spn_metrics_remove(serving->metrics,
                                     spn_server_pool(serving->server));
            (void)spn_server_remove_metrics(serving->server, serving->metrics);
        }
        if (spn_server_destroy(serving->server) != SPN_OK) {
            fputs("spindle serve: requests still run; they are left behind\n", stderr);
            return EXIT_BAD;
        }
    }
    if (serving->repository != NULL) {
        if (spn_repository_destroy_all(serving->repository, drain_ns) != SPN_OK ||
            spn_repository_destroy(serving->repository) != SPN_OK) {
            fputs("spindle serve: a pool did not end in time\n", stderr);
            status = EXIT_BAD;
        }
    }
    if (status == EXIT_GOOD) {
        spn_metrics_destroy(serving->metrics);
        (void)spn_extensions_destroy(serving->extensions);
    }
    return status;
}

static void reload(struct serving *serving, struct wishes *w)
{
    spn_problem problem = SPN_PROBLEM_INIT;
    int rc;

    if (w->url_file == NULL) {
        fputs("spindle serve: SIGHUP changes nothing without --url-file\n", stderr);
        return;
    }
    if (!read_url(w))
        return;
    rc = spn_server_reset(serving->server, w->url, &problem);
    if (rc != SPN_OK)
        (void)complain(w->url_file, &problem, rc);
    else
        fprintf(stderr, "spindle serve: now as %s says\n", w->url_file);
}

/* Serves until a signal says to end, or the time is up. */
static void serve_on(struct serving *serving, struct wishes *w, const sigset_t *signals)
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

static void introduce(const struct serving *serving, const struct wishes *w,
                      const struct http_server *page)
{
    spn_url *url = spn_server_url(serving->server);
    const char *host =
        url != NULL && spn_url_host(url) != NULL ? spn_url_host(url) : "";
    const int port = spn_server_port(serving->server);
    const bool v6 = strchr(host, ':') != NULL && host[0] != '[';
    char address[300];

    snprintf(address, sizeof(address), "%s%s%s:%d", v6 ? "[" : "", host, v6 ? "]" : "",
             port);
    printf("serving dubbo://%s  dispatcher %s\n", address,
           url != NULL ? spn_url_get_string(url, "dispatcher", "all") : "all");
    if (page != NULL)
        printf("status  http://%s%s%s:%d/\n", strchr(w->status_host, ':') ? "[" : "",
               w->status_host, strchr(w->status_host, ':') ? "]" : "", http_port(page));
    else if (!http_is_built_in())
        printf("status  none: built without libmicrohttpd\n");
    if (!w->no_demo)
        printf("\nTry, in another terminal:\n"
               "  spindle call %s org.apache.dubbo.demo.DemoService.sayHello bob\n"
               "  spindle load %s\n",
               address, address);
    if (page != NULL)
        printf("  spindle top %s:%d\n", w->status_host, http_port(page));
    if (w->seconds < 0)
        printf("\nCtrl-C drains and ends.\n");
    (void)fflush(stdout);
    spn_url_unref(url);
}

static int stop(struct serving *serving, const struct wishes *w)
{
    int rc;

    (void)pthread_mutex_lock(&serving->lock);
    serving->draining = true;
    (void)pthread_mutex_unlock(&serving->lock);
    fputs("spindle serve: draining\n", stderr);
    rc = spn_server_stop(serving->server, SPN_SEC(w->drain_seconds));
    if (rc != SPN_OK)
        fprintf(stderr, "spindle serve: requests were cut off after %lld s: %s\n",
                (long long)w->drain_seconds, spn_status_text(rc));
    else
        fputs("spindle serve: every request was answered; bye\n", stderr);
    return rc == SPN_OK ? EXIT_GOOD : EXIT_BAD;
}

static int run(int argc, char **argv)
{
    static struct serving serving = { .lock = PTHREAD_MUTEX_INITIALIZER };
    static struct wishes w = { .status_host = "127.0.0.1",
                               .seconds = -1,
                               .drain_seconds = DRAIN_SECONDS_DEFAULT };
    const struct http_source source = { serving_take, serving_metrics, serving_reset,
                                        &serving };
    struct http_server *page = NULL;
    sigset_t signals;
    int status;

    w.status_port = http_is_built_in() ? STATUS_PORT_DEFAULT : -1;
    status = read_arguments(argc, argv, &w);
    if (status != EXIT_GOOD)
        return status;
    if (w.url_file != NULL && !read_url(&w))
        return EXIT_BAD;
    if (w.url == NULL)
        w.url = URL_DEFAULT;

    /* Before there are threads, so that all of them have it so. */
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGHUP);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
    (void)signal(SIGPIPE, SIG_IGN);

    status = begin(&serving, &w);
    if (status == EXIT_GOOD && w.status_port >= 0) {
        page = http_start(w.status_host, w.status_port, &source);
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
    if (serving.server != NULL && spn_server_port(serving.server) != 0)
        status |= stop(&serving, &w);
    http_stop(page);
    status |= end(&serving, SPN_SEC(w.drain_seconds));
    return status;
}

const struct command serve_command = {
    .name = "serve",
    .summary = "serve Dubbo clients, with a live status page",
    .help = "Usage: spindle serve [OPTION...] [URL]\n"
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
            "  --status-host=A   their address (127.0.0.1)\n"
            "  --no-status       no page\n"
            "  --url-file=FILE   the URL is in FILE; SIGHUP reads it again and changes "
            "the\n"
            "                    pools' sizes while they run\n"
            "  --plugin=FILE     loads a shared object with services, dispatchers, "
            "pools, ...\n"
            "  --no-demo         does not export the demo service\n"
            "  --drain=SECONDS   how long requests in flight may take at the end (10)\n"
            "  --seconds=N       ends by itself after N seconds\n"
            "\n"
            "Sizes can also be changed over the status port:\n"
            "  curl -X POST -H 'X-Spindle-Admin: 1' "
            "'http://127.0.0.1:20881/admin/pools?threads=50'\n",
    .run = run,
};
