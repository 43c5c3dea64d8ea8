/* SPDX-License-Identifier: MIT */
/*
 * wire.c - see wire.h.
 */
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <spindle.h>

/* ---- addresses --------------------------------------------------------------- */

bool wire_address(const char *text, struct wire_address *address)
{
    static const char scheme[] = "dubbo://";
    const char *end, *colon;
    size_t length;
    char *after;
    long port;

    if (strncmp(text, scheme, sizeof(scheme) - 1) == 0)
        text += sizeof(scheme) - 1;
    end = text + strcspn(text, "/?");
    if (*text == '[') {
        const char *close = strchr(text, ']');

        if (close == NULL || close[1] != ':')
            return false;
        text++;
        length = (size_t)(close - text);
        colon = close + 1;
    } else {
        colon = memchr(text, ':', (size_t)(end - text));
        if (colon == NULL)
            return false;
        length = (size_t)(colon - text);
    }
    if (length == 0 || length >= sizeof(address->host))
        return false;
    if (colon[1] < '0' || colon[1] > '9') /* strtol would pass over more */
        return false;
    port = strtol(colon + 1, &after, 10);
    if (after != end || port <= 0 || port > 65535)
        return false;
    memcpy(address->host, text, length);
    address->host[length] = '\0';
    address->port = (int)port;
    return true;
}

/* One address of several; -1 with errno. */
static int try_connect(const struct addrinfo *to, int timeout_ms)
{
    const int one = 1;
    struct pollfd ready;
    socklen_t size = sizeof(int);
    int error = 0;
    const int fd =
        socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);

    if (fd < 0)
        return -1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (connect(fd, to->ai_addr, to->ai_addrlen) == 0)
        return fd;
    if (errno == EINPROGRESS) {
        int found;

        ready = (struct pollfd){ .fd = fd, .events = POLLOUT };
        do
            found = poll(&ready, 1, timeout_ms);
        while (found < 0 && errno == EINTR);
        if (found == 0)
            error = ETIMEDOUT;
        else if (found < 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
            error = errno;
        if (error == 0)
            return fd;
        errno = error;
    }
    error = errno;
    (void)close(fd);
    errno = error;
    return -1;
}

int wire_connect(const struct wire_address *address, int timeout_ms, char *why,
                 size_t capacity)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
                                    .ai_flags = AI_NUMERICSERV };
    struct addrinfo *found = NULL;
    char port[8];
    int fd = -1, rc;

    snprintf(port, sizeof(port), "%d", address->port);
    rc = getaddrinfo(address->host, port, &hints, &found);
    if (rc != 0) {
        snprintf(why, capacity, "%s: %s", address->host, gai_strerror(rc));
        return -1;
    }
    for (const struct addrinfo *a = found; a != NULL && fd < 0; a = a->ai_next)
        fd = try_connect(a, timeout_ms);
    if (fd < 0)
        snprintf(why, capacity, "%s port %d: %s", address->host, address->port,
                 strerror(errno));
    freeaddrinfo(found);
    return fd;
}

/* ---- arguments ---------------------------------------------------------------- */

bool wire_method(const char *text, struct wire_call *call)
{
    const char *dot = strrchr(text, '.');
    size_t length;

    if (dot == NULL || dot == text || dot[1] == '\0')
        return false;
    length = (size_t)(dot - text);
    if (length >= sizeof(call->interface) || strlen(dot + 1) >= sizeof(call->method))
        return false;
    memcpy(call->interface, text, length);
    call->interface[length] = '\0';
    memcpy(call->method, dot + 1, strlen(dot + 1) + 1);
    return true;
}

/* What is being read: one argument, and the type it turns out to have. */
struct reading {
    spn_harena *arena;
    const char *at;
    char type[300]; /* of the descriptor */
    char *why;
    size_t capacity;
};

static spn_hvalue *wrong(struct reading *r, const char *what)
{
    snprintf(r->why, r->capacity, "%s, at '%.20s'", what, r->at);
    return NULL;
}

static bool is_number(const char *text, size_t length)
{
    size_t i = length > 0 && (text[0] == '-' || text[0] == '+');

    if (i == length)
        return false;
    for (; i < length; i++)
        if (text[i] < '0' || text[i] > '9')
            return false;
    return true;
}

static bool is_fraction(const char *word)
{
    char *end;

    if (strpbrk(word, ".eE") == NULL || strpbrk(word, "0123456789") == NULL)
        return false;
    (void)strtod(word, &end);
    return *end == '\0';
}

static void is_of(struct reading *r, const char *type)
{
    snprintf(r->type, sizeof(r->type), "%s", type);
}

static spn_hvalue *read_long(struct reading *r, const char *digits)
{
    char *end;
    long long value;

    errno = 0;
    value = strtoll(digits, &end, 10);
    if (errno != 0 || (*end != '\0' && strcasecmp(end, "L") != 0) || end == digits)
        return wrong(r, "not a long");
    is_of(r, "J");
    return spn_harena_long(r->arena, value);
}

static spn_hvalue *read_int(struct reading *r, const char *digits)
{
    char *end;
    long long value;

    errno = 0;
    value = strtoll(digits, &end, 10);
    if (errno != 0 || *end != '\0' || end == digits || value < INT32_MIN ||
        value > INT32_MAX)
        return wrong(r, "not an int (write 5L for a long)");
    is_of(r, "I");
    return spn_harena_int(r->arena, (int32_t)value);
}

static spn_hvalue *read_double(struct reading *r, const char *digits)
{
    char *end;
    const double value = strtod(digits, &end);

    if (*end != '\0' || end == digits)
        return wrong(r, "not a double");
    is_of(r, "D");
    return spn_harena_double(r->arena, value);
}

static spn_hvalue *read_text(struct reading *r, const char *text)
{
    is_of(r, "Ljava/lang/String;");
    return spn_harena_text(r->arena, text);
}

/* A word without brackets: what it looks like, or what its prefix says. */
static spn_hvalue *read_word(struct reading *r, const char *word)
{
    const size_t length = strlen(word);

    if (strncmp(word, "string:", 7) == 0)
        return read_text(r, word + 7);
    if (strncmp(word, "int:", 4) == 0)
        return read_int(r, word + 4);
    if (strncmp(word, "long:", 5) == 0)
        return read_long(r, word + 5);
    if (strncmp(word, "double:", 7) == 0)
        return read_double(r, word + 7);
    if (strncmp(word, "boolean:", 8) == 0)
        word += 8;
    if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0) {
        is_of(r, "Z");
        return spn_harena_bool(r->arena, word[0] == 't');
    }
    if (strcmp(word, "null") == 0) {
        is_of(r, "Ljava/lang/Object;");
        return spn_harena_null(r->arena);
    }
    if (is_number(word, length))
        return read_int(r, word);
    if (length > 1 && (word[length - 1] == 'L' || word[length - 1] == 'l') &&
        is_number(word, length - 1))
        return read_long(r, word);
    if (is_fraction(word))
        return read_double(r, word);
    return read_text(r, word);
}

static spn_hvalue *read_value(struct reading *r, int depth);

/* Up to the next , ] } or the end, as a string of the arena. */
static const char *read_piece(struct reading *r, const char *stops)
{
    const size_t length = strcspn(r->at, stops);
    char *piece = spn_harena_alloc(r->arena, length + 1);

    if (piece == NULL) {
        (void)wrong(r, "too long");
        return NULL;
    }
    memcpy(piece, r->at, length);
    piece[length] = '\0';
    r->at += length;
    return piece;
}

static spn_hvalue *read_list(struct reading *r, int depth)
{
    spn_hvalue *list = spn_harena_list(r->arena, NULL);

    r->at++;
    while (*r->at != ']') {
        spn_hvalue *item = read_value(r, depth + 1);

        if (item == NULL)
            return NULL;
        if (spn_hvalue_add(list, item) != SPN_OK)
            return wrong(r, "too long");
        if (*r->at == ',')
            r->at++;
        else if (*r->at != ']')
            return wrong(r, "a list ends with ]");
    }
    r->at++;
    is_of(r, "Ljava/util/List;");
    return list;
}

/* The type of an object: "a.B" is La/B;  False: the name is none, or too long. */
static bool is_of_class(struct reading *r, const char *name)
{
    const int length = snprintf(r->type, sizeof(r->type), "L%s;", name);

    for (char *c = r->type; *c != '\0'; c++)
        if (*c == '.')
            *c = '/';
    return *name != '\0' && strpbrk(name, ";[") == NULL && length > 0 &&
           (size_t)length < sizeof(r->type);
}

static spn_hvalue *read_object(struct reading *r, int depth)
{
    const char *class_name = NULL;
    spn_hvalue *object = NULL;

    r->at++;
    if (*r->at == '}') {
        r->at++;
        is_of(r, "Ljava/util/Map;");
        return spn_harena_map(r->arena, NULL);
    }
    do {
        const char *name = read_piece(r, ":,}");

        if (name == NULL)
            return NULL;
        if (*r->at != ':')
            return wrong(r, "an object is {class:a.B,name:value,...}");
        r->at++;
        if (strcmp(name, "class") == 0 && object == NULL) {
            class_name = read_piece(r, ",}");
            if (class_name == NULL)
                return NULL;
            if (!is_of_class(r, class_name))
                return wrong(r, "no name of a class, or too long");
            object = spn_harena_object(r->arena, class_name);
        } else {
            spn_hvalue *value = read_value(r, depth + 1);

            if (value == NULL)
                return NULL;
            if (object == NULL)
                object = spn_harena_map(r->arena, NULL);
            if (spn_hvalue_set(object, name, value) != SPN_OK)
                return wrong(r, "a field that cannot be set");
        }
    } while (*r->at == ',' && *r->at++ != '\0');
    if (*r->at != '}')
        return wrong(r, "an object ends with }");
    r->at++;
    if (class_name != NULL)
        (void)is_of_class(r, class_name); /* its fields had types of their own */
    else
        is_of(r, "Ljava/util/Map;");
    return object;
}

static spn_hvalue *read_value(struct reading *r, int depth)
{
    enum { DEPTH_MAX = 16 };
    const char *word;

    if (depth > DEPTH_MAX)
        return wrong(r, "too deep");
    if (*r->at == '[')
        return read_list(r, depth);
    if (*r->at == '{')
        return read_object(r, depth);
    word = read_piece(r, depth == 0 ? "" : ",]}");
    return word != NULL ? read_word(r, word) : NULL;
}

bool wire_argument(spn_harena *arena, const char *text, struct wire_call *call,
                   char *why, size_t capacity)
{
    struct reading r = { .arena = arena, .at = text, .why = why, .capacity = capacity };
    const size_t used = strlen(call->parameters);
    spn_hvalue *value;

    *why = '\0';
    if (call->argument_count == WIRE_ARGUMENTS_MAX) {
        snprintf(why, capacity, "at most %d arguments", WIRE_ARGUMENTS_MAX);
        return false;
    }
    value = read_value(&r, 0);
    if (value != NULL && *r.at != '\0')
        value = wrong(&r, "something behind the value");
    if (value == NULL) {
        if (*why == '\0')
            snprintf(why, capacity, "not UTF-8, or too long");
        return false;
    }
    if (used + strlen(r.type) >= sizeof(call->parameters)) {
        snprintf(why, capacity, "the types of the arguments are too long");
        return false;
    }
    memcpy(call->parameters + used, r.type, strlen(r.type) + 1);
    call->arguments[call->argument_count++] = value;
    return true;
}

/* ---- frames --------------------------------------------------------------------- */

static void put_be(unsigned char *to, uint64_t value, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--, value >>= 8)
        to[i] = (unsigned char)value;
}

static uint64_t get_be(const unsigned char *from, int bytes)
{
    uint64_t value = 0;

    for (int i = 0; i < bytes; i++)
        value = value << 8 | from[i];
    return value;
}

void wire_set_id(unsigned char *frame, int64_t id)
{
    put_be(frame + 4, (uint64_t)id, 8);
}

static void write_attachments(struct spn__hwriter *w, const struct wire_call *call)
{
    char timeout[24];

    snprintf(timeout, sizeof(timeout), "%lld", (long long)call->timeout_ms);
    (void)spn__hwriter_begin_map(w, NULL);
    (void)spn__hwriter_text(w, "path");
    (void)spn__hwriter_text(w, call->interface);
    (void)spn__hwriter_text(w, "interface");
    (void)spn__hwriter_text(w, call->interface);
    if (*call->version != '\0') {
        (void)spn__hwriter_text(w, "version");
        (void)spn__hwriter_text(w, call->version);
    }
    if (*call->group != '\0') {
        (void)spn__hwriter_text(w, "group");
        (void)spn__hwriter_text(w, call->group);
    }
    (void)spn__hwriter_text(w, "timeout");
    (void)spn__hwriter_text(w, timeout);
    (void)spn__hwriter_end(w);
}

int wire_request(struct spn__hwriter *w, const struct wire_call *call, int64_t id,
                 bool two_way)
{
    unsigned char header[WIRE_HEADER_BYTES] = { 0xda, 0xbb, two_way ? 0xc2 : 0x82, 0 };
    unsigned char *frame;
    size_t length;
    int rc;

    wire_set_id(header, id);
    (void)spn__hwriter_raw(w, header, sizeof(header));
    (void)spn__hwriter_text(w, "2.0.2");
    (void)spn__hwriter_text(w, call->interface);
    (void)spn__hwriter_text(w, *call->version != '\0' ? call->version : "0.0.0");
    (void)spn__hwriter_text(w, call->method);
    (void)spn__hwriter_text(w, call->parameters);
    for (int i = 0; i < call->argument_count; i++)
        (void)spn__hwriter_value(w, call->arguments[i]);
    write_attachments(w, call);
    rc = spn__hwriter_status(w);
    if (rc != SPN_OK)
        return rc;
    frame = spn__hwriter_bytes(w, &length);
    put_be(frame + 12, length - WIRE_HEADER_BYTES, 4);
    return SPN_OK;
}

bool wire_read_header(const unsigned char b[WIRE_HEADER_BYTES],
                      struct wire_header *header)
{
    if (b[0] != 0xda || b[1] != 0xbb)
        return false;
    header->request = (b[2] & 0x80) != 0;
    header->two_way = (b[2] & 0x40) != 0;
    header->event = (b[2] & 0x20) != 0;
    header->status = b[3];
    header->id = (int64_t)get_be(b + 4, 8);
    header->length = (int64_t)get_be(b + 12, 4);
    return header->length <= INT32_MAX;
}

/* ---- what a server said ------------------------------------------------------------- */

void wire_error_text(const unsigned char *body, size_t size, char *text,
                     size_t capacity)
{
    /* The forms of a Hessian string, by how long what stands in front is; of one in
     * several parts the first. */
    const size_t front = size == 0                            ? 0
                         : body[0] < 0x20                     ? 1
                         : body[0] >= 0x30 && body[0] <= 0x33 ? 2
                         : body[0] == 'S' || body[0] == 'R'   ? 3
                                                              : 0;
    const size_t length = size > front ? size - front : 0;
    const size_t copied = length < capacity ? length : capacity - 1;

    if (front == 0) {
        snprintf(text, capacity, "(no text)");
        return;
    }
    memcpy(text, body + (copied > 0 ? front : 0), copied);
    text[copied] = '\0';
}

void wire_print(FILE *to, const char *text)
{
    for (; *text != '\0'; text++) {
        const unsigned char byte = (unsigned char)text[0];
        const unsigned char next = (unsigned char)text[1];

        if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {
            fprintf(to, "\\u%04x", next); /* control characters of the second kind */
            text++;
        } else if ((byte < ' ' && byte != '\n' && byte != '\t') || byte == 127) {
            fprintf(to, "\\u%04x", byte);
        } else {
            putc(byte, to);
        }
    }
}
