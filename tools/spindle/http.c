/* SPDX-License-Identifier: MIT */
/*
 * http.c - see http.h.  libmicrohttpd speaks HTTP; here is what is answered.
 *
 *   GET  /              the page
 *   GET  /status.json   the status; ?after=MS leaves out the older part of its history
 *   GET  /status.txt    the status, drawn as text; ?columns=N&colour=1
 *   GET  /metrics       Prometheus text
 *   GET  /report        the last exhaustion report
 *   GET  /healthz       200 "running", or 503 "draining"
 *   POST /admin/pools   ?threads=N&accepts=N...: new sizes, at once
 *
 * Who may ask (guard.h).  Host must name us and Origin, where there is one, our own page:
 * otherwise 403.  The admin command wants the header X-Spindle-Admin, which a foreign page
 * may not send: with the token, if there is one, or with 1.  Off the loopback there always
 * is one.
 */
#include "http.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <microhttpd.h>

#include "listen.h"
#include "page.h"
#include "places.h"

#define ADMIN_HEADER "X-Spindle-Admin"

enum {
    QUERY_BYTES = 1024,
    COLUMNS_DEFAULT = 100,
    THREADS_MOST = 10000,
    ACCEPTS_MOST = 1000000,
    MS_MOST = 86400000 /* a day */
};

struct http_server {
    struct places *places;
    int listener;
    struct http_opts opts;
    struct http_source source;
    bool made_token;
    struct status status; /* too large for a stack; only the one thread uses it */
};

struct answer {
    unsigned code;
    const char *type;
    char *text; /* malloc'ed */
    size_t size;
};

static enum MHD_Result reply(struct MHD_Connection *connection, unsigned code,
                             const char *type, struct MHD_Response *response)
{
    enum MHD_Result result;

    if (response == NULL)
        return MHD_NO;
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    (void)MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    (void)MHD_add_response_header(response, "Content-Security-Policy",
                                  "default-src 'none'; style-src 'unsafe-inline'; "
                                  "script-src 'unsafe-inline'; connect-src 'self'; "
                                  "img-src data:; frame-ancestors 'none'");
    if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    result = MHD_queue_response(connection, code, response);
    places_answered(connection);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result say(struct MHD_Connection *connection, unsigned code,
                           const char *text)
{
    return reply(connection, code, "text/plain; charset=utf-8",
                 MHD_create_response_from_buffer(strlen(text), (void *)(uintptr_t)text,
                                                 MHD_RESPMEM_MUST_COPY));
}

static int64_t number_of(struct MHD_Connection *connection, const char *key,
                         int64_t otherwise)
{
    const char *text =
        MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, key);
    char *end;
    long long value;

    if (text == NULL || *text == '\0')
        return otherwise;
    errno = 0;
    value = strtoll(text, &end, 10);
    return errno != 0 || *end != '\0' ? otherwise : value;
}

/* Writes one of the documents that are made anew each time; false: there is no such. */
static bool write_document(struct http_server *server,
                           struct MHD_Connection *connection, const char *path,
                           FILE *to, struct answer *answer)
{
    const struct http_source *source = &server->source;

    answer->code = MHD_HTTP_OK;
    answer->type = "text/plain; charset=utf-8";
    if (strcmp(path, "/metrics") == 0) {
        answer->type = "text/plain; version=0.0.4; charset=utf-8";
        if (source->metrics(source->context, to) != 0)
            answer->code = MHD_HTTP_INTERNAL_SERVER_ERROR;
        return true;
    }
    source->take(source->context, &server->status);
    if (strcmp(path, "/status.json") == 0) {
        answer->type = "application/json";
        status_write_json(&server->status, number_of(connection, "after", 0), to);
    } else if (strcmp(path, "/status.txt") == 0) {
        const int64_t columns = number_of(connection, "columns", COLUMNS_DEFAULT);

        status_write_text(&server->status, columns > 1000 ? 1000 : (int)columns,
                          number_of(connection, "colour", 0) == 1, to);
    } else if (strcmp(path, "/report") == 0) {
        fputs(server->status.report[0] != '\0' ? server->status.report : "none", to);
        fputc('\n', to);
    } else if (strcmp(path, "/healthz") == 0) {
        if (strcmp(server->status.state, "running") != 0)
            answer->code = MHD_HTTP_SERVICE_UNAVAILABLE;
        fprintf(to, "%s\n", server->status.state);
    } else {
        return false;
    }
    return true;
}

static enum MHD_Result give_document(struct http_server *server,
                                     struct MHD_Connection *connection,
                                     const char *path)
{
    struct answer answer = { 0 };
    FILE *to = open_memstream(&answer.text, &answer.size);
    bool known, whole;

    if (to == NULL)
        return say(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory\n");
    known = write_document(server, connection, path, to, &answer);
    whole = ferror(to) == 0;
    if (fclose(to) != 0)
        whole = false;
    if (!known || !whole) {
        free(answer.text);
        return known ? say(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory\n")
                     : say(connection, MHD_HTTP_NOT_FOUND,
                           "There is no such page.  See / /status.json /status.txt "
                           "/metrics /report /healthz\n");
    }
    return reply(connection, answer.code, answer.type,
                 MHD_create_response_from_buffer(answer.size, answer.text,
                                                 MHD_RESPMEM_MUST_FREE));
}

/* What can be changed while it serves, from where to where. */
static const struct wish {
    const char *key;
    int64_t least, most;
} wishes[] = {
    { "threads", 1, THREADS_MOST },  { "accepts", 0, ACCEPTS_MOST },
    { "heartbeat", 0, MS_MOST },     { "heartbeat.timeout", 0, MS_MOST },
    { "close.timeout", 0, MS_MOST },
};
enum { WISHES = sizeof(wishes) / sizeof(wishes[0]) };

struct query {
    char text[QUERY_BYTES];
    size_t length;
    bool given[WISHES];
    char problem[400]; /* "": none */
};

/* Digits only, so that the query carries nothing else, and no zeros in front of others, so
 * that it is as short as it seems. */
static bool is_within(const struct wish *wish, const char *value)
{
    int64_t number = 0;

    if (value == NULL || *value == '\0' || (value[0] == '0' && value[1] != '\0'))
        return false;
    for (; *value >= '0' && *value <= '9' && number <= wish->most; value++)
        number = number * 10 + (*value - '0');
    return *value == '\0' && number >= wish->least && number <= wish->most;
}

static enum MHD_Result add_argument(void *context, enum MHD_ValueKind kind,
                                    const char *key, const char *value)
{
    struct query *query = context;
    int i = 0;

    (void)kind;
    while (i < WISHES && strcmp(key, wishes[i].key) != 0)
        i++;
    if (i == WISHES)
        snprintf(query->problem, sizeof(query->problem),
                 "%.80s: cannot be changed while it serves; there are threads, "
                 "accepts, heartbeat, heartbeat.timeout and close.timeout.",
                 key);
    else if (query->given[i])
        snprintf(query->problem, sizeof(query->problem), "%s: is given twice.", key);
    else if (!is_within(&wishes[i], value))
        snprintf(query->problem, sizeof(query->problem),
                 "%s=%.80s: not a whole number from %lld to %lld.", key,
                 value != NULL ? value : "", (long long)wishes[i].least,
                 (long long)wishes[i].most);
    if (query->problem[0] != '\0')
        return MHD_NO;
    query->given[i] = true;
    query->length += (size_t)snprintf(query->text + query->length,
                                      sizeof(query->text) - query->length, "%s%s=%s",
                                      query->length > 0 ? "&" : "", key, value);
    return MHD_YES;
}

static enum MHD_Result change_pools(struct http_server *server,
                                    struct MHD_Connection *connection)
{
    const char *const token = server->opts.guard->token;
    struct query query = { .length = 0 };
    char text[sizeof(query.problem) + 2];

    if (!guard_token_is(token[0] != '\0' ? token : "1",
                        MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
                                                    ADMIN_HEADER)))
        return say(connection, MHD_HTTP_FORBIDDEN,
                   token[0] != '\0'
                       ? "The header " ADMIN_HEADER " must have the admin token, which "
                         "`spindle serve` printed when it began or read from "
                         "--admin-token-file.\n"
                       : "The header " ADMIN_HEADER
                         ": 1 is wanted, so that no foreign page in a "
                         "browser can do this.\n");
    (void)MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, add_argument,
                                    &query);
    if (query.problem[0] == '\0' && query.length == 0)
        snprintf(query.problem, sizeof(query.problem),
                 "Say what to change, as ?threads=N; there are threads, accepts, "
                 "heartbeat, heartbeat.timeout and close.timeout.");
    if (query.problem[0] == '\0' &&
        server->source.reset(server->source.context, query.text, query.problem,
                             sizeof(query.problem)) == 0)
        return say(connection, MHD_HTTP_OK, "done\n");
    snprintf(text, sizeof(text), "%s\n", query.problem);
    return say(connection, MHD_HTTP_BAD_REQUEST, text);
}

/* Answers a stranger, and says so; false: it is none. */
static bool is_refused(struct http_server *server, struct MHD_Connection *connection,
                       enum MHD_Result *result)
{
    const char *const host =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    const char *const origin = MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
                                                           MHD_HTTP_HEADER_ORIGIN);
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

    if (info == NULL ||
        !guard_host_is_ours(server->opts.guard, info->connect_fd, host)) {
        *result = say(connection, MHD_HTTP_FORBIDDEN,
                      "The header Host must name the address and port this server "
                      "listens on, on its own machine 127.0.0.1 or localhost; other "
                      "names are allowed by `spindle serve --status-name=NAME`.\n");
        return true;
    }
    if (!guard_origin_is_ours(origin, host)) {
        *result = say(connection, MHD_HTTP_FORBIDDEN,
                      "The header Origin is that of another site's page.\n");
        return true;
    }
    return false;
}

static enum MHD_Result answer_request(void *context, struct MHD_Connection *connection,
                                      const char *path, const char *method,
                                      const char *version, const char *upload,
                                      size_t *upload_size, void **state)
{
    struct http_server *server = context;
    const bool reads = strcmp(method, MHD_HTTP_METHOD_GET) == 0 ||
                       strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    enum MHD_Result result;

    (void)version;
    (void)upload;
    /* Called first with the headers alone, then with each part of a body, which nobody
     * wants, and at last with none. */
    if (*state == NULL) {
        *state = server;
        return MHD_YES;
    }
    if (*upload_size != 0) {
        *upload_size = 0;
        return MHD_YES;
    }
    if (is_refused(server, connection, &result))
        return result;
    if (strcmp(path, "/admin/pools") == 0)
        return strcmp(method, MHD_HTTP_METHOD_POST) == 0
                   ? change_pools(server, connection)
                   : say(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "POST it.\n");
    if (!reads)
        return say(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET it.\n");
    if (strcmp(path, "/") == 0)
        return reply(connection, MHD_HTTP_OK, "text/html; charset=utf-8",
                     MHD_create_response_from_buffer(page_status_size,
                                                     (void *)(uintptr_t)page_status,
                                                     MHD_RESPMEM_PERSISTENT));
    return give_document(server, connection, path);
}

bool http_is_built_in(void)
{
    return true;
}

/* Off the loopback nobody changes anything without a token. */
static bool give_token(struct http_server *server)
{
    server->made_token = guard_token_make(server->opts.guard->token);
    if (!server->made_token)
        fputs("spindle serve: the system has no random bits for an admin token; give "
              "one with --admin-token-file=FILE\n",
              stderr);
    return server->made_token;
}

static void http_free(struct http_server *server)
{
    if (server->listener >= 0 && server->opts.socket != NULL)
        listen_path_remove(server->listener, server->opts.socket);
    else if (server->listener >= 0)
        (void)close(server->listener);
    free(server);
}

struct http_server *http_start(const struct http_opts *opts,
                               const struct http_source *source)
{
    struct http_server *server = calloc(1, sizeof(*server));
    bool is_local = true; /* a Unix socket is for its owner alone */

    if (server == NULL) {
        fputs("spindle serve: out of memory\n", stderr);
        return NULL;
    }
    server->opts = *opts;
    server->source = *source;
    server->listener = opts->socket != NULL
                           ? listen_path(opts->socket)
                           : listen_address(opts->host, opts->port, &is_local);
    if (server->listener < 0 ||
        (!is_local && opts->guard->token[0] == '\0' && !give_token(server))) {
        http_free(server);
        return NULL;
    }
    server->places = places_start(server->listener, answer_request, server);
    if (server->places == NULL) {
        fputs("spindle serve: no memory, thread or descriptor for the status page\n",
              stderr);
        http_free(server);
        return NULL;
    }
    return server;
}

int http_port(const struct http_server *server)
{
    return server->opts.socket == NULL ? listen_port(server->listener) : 0;
}

bool http_made_token(const struct http_server *server)
{
    return server->made_token;
}

void http_stop(struct http_server *server)
{
    if (server == NULL)
        return;
    places_stop(server->places);
    http_free(server);
}
