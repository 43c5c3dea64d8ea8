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
 *   POST /admin/pools   ?threads=N&corethreads=N...: new sizes, at once
 *
 * Who may ask.  The port is for people on this machine.  A page of somebody else, open in
 * a browser here, must neither read nor change anything: requests whose Host is no
 * loopback name are refused when we listen on loopback (a foreign name that resolves to
 * 127.0.0.1), and the admin command wants a header that a foreign page may not send.
 */
#include "http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <microhttpd.h>

#include "page.h"

#define ADMIN_HEADER "X-Spindle-Admin"

enum {
    CONNECTIONS_MAX = 64,
    IDLE_SECONDS = 15,
    QUERY_BYTES = 1024,
    COLUMNS_DEFAULT = 100
};

struct http_server {
    struct MHD_Daemon *daemon;
    struct http_source source;
    bool loopback;
    char host[64];        /* the address it listens on */
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

struct query {
    char text[QUERY_BYTES];
    size_t length;
    bool whole;
};

/* What can be changed while it serves; another wish would be granted by doing nothing. */
static bool is_changeable(const char *key)
{
    static const char *const keys[] = { "threads", "accepts", "heartbeat",
                                        "heartbeat.timeout", "close.timeout" };

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

static enum MHD_Result add_argument(void *context, enum MHD_ValueKind kind,
                                    const char *key, const char *value)
{
    struct query *query = context;
    const size_t left = sizeof(query->text) - query->length;
    const int wrote =
        snprintf(query->text + query->length, left, "%s%s=%s",
                 query->length > 0 ? "&" : "", key, value != NULL ? value : "");

    (void)kind;
    if (wrote < 0 || (size_t)wrote >= left || !is_changeable(key) ||
        (value != NULL && strpbrk(value, "&?#/=;") != NULL)) {
        query->whole = false;
        return MHD_NO;
    }
    query->length += (size_t)wrote;
    return MHD_YES;
}

static enum MHD_Result change_pools(struct http_server *server,
                                    struct MHD_Connection *connection)
{
    struct query query = { .length = 0, .whole = true };
    char problem[256] = "";

    if (MHD_lookup_connection_value(connection, MHD_HEADER_KIND, ADMIN_HEADER) == NULL)
        return say(connection, MHD_HTTP_FORBIDDEN,
                   "The header " ADMIN_HEADER
                   ": 1 is wanted, so that no foreign page in a "
                   "browser can do this.\n");
    (void)MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, add_argument,
                                    &query);
    if (!query.whole || query.length == 0)
        return say(connection, MHD_HTTP_BAD_REQUEST,
                   "Say what to change, as ?threads=N; there are threads, accepts, "
                   "heartbeat, heartbeat.timeout and close.timeout.\n");
    if (server->source.reset(server->source.context, query.text, problem,
                             sizeof(problem)) != 0) {
        char text[300];

        snprintf(text, sizeof(text), "%s\n", problem);
        return say(connection, MHD_HTTP_BAD_REQUEST, text);
    }
    return say(connection, MHD_HTTP_OK, "done\n");
}

/* Whether a Host header names this machine's loopback, or the address of it that we listen
 * on: a name of somebody else's that resolves to it does not. */
static bool is_own_name(const char *host, const char *own)
{
    const char *const names[] = { "127.0.0.1", "localhost", "[::1]", own };

    for (size_t i = 0; host != NULL && i < sizeof(names) / sizeof(names[0]); i++) {
        const size_t length = strlen(names[i]);

        if (strncasecmp(host, names[i], length) == 0 &&
            (host[length] == '\0' || host[length] == ':'))
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
    if (server->loopback &&
        !is_own_name(MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
                                                 MHD_HTTP_HEADER_HOST),
                     server->host))
        return say(connection, MHD_HTTP_FORBIDDEN,
                   "Ask for it as 127.0.0.1 or localhost.\n");
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

struct http_server *http_start(const char *host, int port,
                               const struct http_source *source)
{
    struct http_server *server;
    struct sockaddr_in v4 = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)port) };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6,
                               .sin6_port = htons((uint16_t)port) };
    const bool is_v6 = inet_pton(AF_INET6, host, &v6.sin6_addr) == 1;

    if (!is_v6 &&
        inet_pton(AF_INET, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host,
                  &v4.sin_addr) != 1) {
        fprintf(stderr, "spindle serve: the status page wants an address, not '%s'\n",
                host);
        return NULL;
    }
    server = calloc(1, sizeof(*server));
    if (server == NULL) {
        fputs("spindle serve: out of memory\n", stderr);
        return NULL;
    }
    server->source = *source;
    snprintf(server->host, sizeof(server->host), "%s%s%s", is_v6 ? "[" : "", host,
             is_v6 ? "]" : "");
    server->loopback = is_v6 ? IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr)
                             : (ntohl(v4.sin_addr.s_addr) >> 24) == 127;
    errno = 0;
    server->daemon =
        MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | (is_v6 ? MHD_USE_IPv6 : 0),
                         0, NULL, NULL, answer_request, server, MHD_OPTION_SOCK_ADDR,
                         is_v6 ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4,
                         MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
                         MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS,
                         MHD_OPTION_END);
    if (server->daemon == NULL) {
        fprintf(stderr,
                "spindle serve: the status page cannot listen on %s port %d: %s\n"
                "Choose another port with --status-port=N (0: any free one).\n",
                host, port, errno != 0 ? strerror(errno) : "libmicrohttpd refused");
        free(server);
        return NULL;
    }
    return server;
}

int http_port(const struct http_server *server)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT);

    return info != NULL ? info->port : 0;
}

void http_stop(struct http_server *server)
{
    if (server == NULL)
        return;
    MHD_stop_daemon(server->daemon);
    free(server);
}
