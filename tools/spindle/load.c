/* SPDX-License-Identifier: MIT */
/*
 * load.c - `spindle load`: asks a server as fast as it answers, or at a fixed rate, and
 * tells how long that took.
 *
 * CLOSED LOOP  each connection keeps `depth` requests under way: a reply is followed by the
 *   next request.  Throughput is what comes out.
 * OPEN LOOP (--rate)  requests are due at fixed times, whatever the server does.  A
 *   request's time counts from when it was due, not from when it could be sent: otherwise
 *   a server that stalls would have stalled the questions too, and look well.
 *
 * A SERVER THAT STOPS says so (the event "R").  Its connection asks no more, has the replies to
 *   what it asked, and is closed.  If the server ends it in order before that, the requests
 *   without a reply were not taken: they are counted apart from those that were lost, as
 *   the server does not count them either.
 *
 * One thread, one epoll, and raw frames: the loader must cost less than what it measures.
 * Requests differ in their id only, so each is a copy of one frame; of a reply the header
 * is read, and the first bytes of an error.
 */
#include "command.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include <spindle.h>
#include <spindle/metrics.h>

#include "json.h"
#include "options.h"
#include "wire.h"

enum {
    CONNECTIONS_MAX = 10000,
    DEPTH_MAX = 4096,
    READ_BYTES = 256 * 1024,
    EVENTS = 64,
    CONNECT_MS = 3000,
    TEXT_BYTES = 200,
    EVENT_BYTES = 16 /* longer ones are none we know */
};

struct connection {
    int fd;             /* -1: lost */
    unsigned char *out; /* bytes to write */
    size_t out_size, out_at, out_capacity;
    unsigned char *in; /* the beginning of a frame */
    size_t in_size, in_capacity;
    size_t skip;     /* bytes of a body that nobody looks at */
    int64_t *due_ns; /* of each request under way, by its slot */
    int32_t *free;   /* slots that are not under way */
    int free_count;
    bool wants_write; /* epoll is asked for it */
    bool is_ending;   /* its server wants no more requests */
    bool is_shut;     /* it takes no more bytes; there may be some to read */
};

struct load {
    struct wire_address address;
    int connections, depth;
    int64_t seconds, rate,
        requests; /* rate 0: closed loop; requests 0: until the time */
    bool json, quiet;
    const unsigned char *frame;
    size_t frame_size;
    struct connection *all;
    unsigned char *buffer;
    int epoll;
    int live;
    spn_histogram *latency;
    uint64_t sent, done, failed, lost, not_taken;
    int ended; /* connections whose server stopped */
    uint64_t by_status[256];
    char text[TEXT_BYTES]; /* of the first error */
    int64_t started_ns, ended_ns;
    int64_t next_due_ns; /* open loop */
    int next;            /* the connection whose turn it is */
};

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

/* ---- one connection ------------------------------------------------------------------ */

/* Closes a connection; its requests that have no reply are added to what became of them. */
static void drop(struct load *l, struct connection *c, uint64_t *became)
{
    if (c->fd < 0)
        return;
    (void)close(c->fd);
    c->fd = -1;
    l->live--;
    *became += (uint64_t)(l->depth - c->free_count);
}

static void lose(struct load *l, struct connection *c)
{
    drop(l, c, &l->lost);
}

static bool can_ask(const struct connection *c)
{
    return c->fd >= 0 && c->free_count > 0 && !c->is_ending && !c->is_shut;
}

static void want_write(struct load *l, struct connection *c, bool wants)
{
    struct epoll_event event = { .events = EPOLLIN | (wants ? EPOLLOUT : 0u),
                                 .data.ptr = c };

    if (c->wants_write == wants)
        return;
    c->wants_write = wants;
    (void)epoll_ctl(l->epoll, EPOLL_CTL_MOD, c->fd, &event);
}

static void flush(struct load *l, struct connection *c)
{
    while (c->fd >= 0 && c->out_at < c->out_size) {
        const ssize_t wrote = write(c->fd, c->out + c->out_at, c->out_size - c->out_at);

        if (wrote > 0) {
            c->out_at += (size_t)wrote;
        } else if (wrote < 0 && errno == EINTR) {
            continue;
        } else if (wrote < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            want_write(l, c, true);
            return;
        } else {
            c->is_shut = true; /* what is there to read tells what became of it */
            break;
        }
    }
    c->out_at = c->out_size = 0;
    if (c->fd >= 0)
        want_write(l, c, false);
}

/* Puts one more request into the buffer, which has room for all that can be under way:
 * there is none left only if some were answered before they were sent. */
static void ask(struct load *l, struct connection *c, int64_t due_ns)
{
    int32_t slot;

    if (c->out_size - c->out_at + l->frame_size > c->out_capacity) {
        fprintf(stderr, "spindle load: the server answers what was never sent\n");
        lose(l, c);
        return;
    }
    slot = c->free[--c->free_count];
    if (c->out_size + l->frame_size > c->out_capacity) {
        memmove(c->out, c->out + c->out_at, c->out_size - c->out_at);
        c->out_size -= c->out_at;
        c->out_at = 0;
    }
    memcpy(c->out + c->out_size, l->frame, l->frame_size);
    wire_set_id(c->out + c->out_size, slot);
    c->out_size += l->frame_size;
    c->due_ns[slot] = due_ns;
    l->sent++;
}

static bool has_more(const struct load *l)
{
    return !interrupted && (l->requests == 0 || l->sent < (uint64_t)l->requests);
}

static void take_reply(struct load *l, struct connection *c,
                       const struct wire_header *header, const unsigned char *body,
                       size_t have, int64_t now)
{
    if (header->request || header->event) { /* it will stop, or asks whether we live */
        if (header->request && have == 2 && body[0] == 1 && body[1] == 'R')
            c->is_ending = true;
        return;
    }
    if (header->id < 0 || header->id >= l->depth || c->due_ns[header->id] == 0) {
        l->failed++;
        return;
    }
    spn_histogram_record(l->latency, now - c->due_ns[header->id]);
    c->due_ns[header->id] = 0;
    c->free[c->free_count++] = (int32_t)header->id;
    l->by_status[header->status]++;
    l->done++;
    if (header->status != 20) {
        if (l->failed++ == 0)
            wire_error_text(body, have, l->text, sizeof(l->text));
    }
}

/* Reads frames out of some bytes; returns how many were used up, or -1: not ours. */
static int64_t take_bytes(struct load *l, struct connection *c,
                          const unsigned char *data, size_t size, int64_t now)
{
    size_t used = 0;

    while (size - used >= WIRE_HEADER_BYTES) {
        struct wire_header header;
        size_t have;

        if (!wire_read_header(data + used, &header))
            return -1;
        have = size - used - WIRE_HEADER_BYTES;
        if (have > (size_t)header.length)
            have = (size_t)header.length;
        else if (header.event && header.length < EVENT_BYTES &&
                 have < (size_t)header.length)
            break; /* it is looked at as a whole */
        take_reply(l, c, &header, data + used + WIRE_HEADER_BYTES, have, now);
        used += WIRE_HEADER_BYTES + have;
        c->skip = (size_t)header.length - have;
        if (c->skip > 0)
            break;
    }
    return (int64_t)used;
}

static bool keep(struct connection *c, const unsigned char *data, size_t size)
{
    if (size > c->in_capacity) {
        unsigned char *larger = realloc(c->in, size);

        if (larger == NULL)
            return false;
        c->in = larger;
        c->in_capacity = size;
    }
    memmove(c->in, data, size);
    c->in_size = size;
    return true;
}

static void take_input(struct load *l, struct connection *c)
{
    /* What was kept is in front of what comes. */
    const size_t kept = c->in_size;
    unsigned char *data = l->buffer;
    ssize_t got;
    size_t size, skipped;
    int64_t used;

    memcpy(data, c->in, kept);
    got = read(c->fd, data + kept, READ_BYTES - kept);
    if (got <= 0) {
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (got == 0 && c->is_ending && c->in_size == 0 && c->skip == 0) {
            l->ended++;
            drop(l, c, &l->not_taken);
        } else {
            lose(l, c);
        }
        return;
    }
    size = kept + (size_t)got;
    skipped = size < c->skip ? size : c->skip;
    c->skip -= skipped;
    used = take_bytes(l, c, data + skipped, size - skipped, spn_now());
    if (used < 0 || !keep(c, data + skipped + used, size - skipped - (size_t)used)) {
        fprintf(stderr, "spindle load: that is no Dubbo server\n");
        lose(l, c);
        return;
    }
    if (c->is_ending && c->free_count == l->depth) { /* all was answered */
        l->ended++;
        drop(l, c, &l->not_taken);
    }
}

/* ---- the loops --------------------------------------------------------------------------- */

static void refill(struct load *l, struct connection *c, int64_t now)
{
    while (can_ask(c) && has_more(l))
        ask(l, c, now);
    flush(l, c);
}

/* Sends what is due by now, by turns; what finds no free place waits, and its time runs. */
static void send_due(struct load *l, int64_t now)
{
    const int64_t step = SPN_SEC(1) / l->rate;

    while (l->next_due_ns <= now && has_more(l)) {
        struct connection *c = NULL;

        for (int i = 0; i < l->connections && c == NULL; i++) {
            struct connection *at = &l->all[(l->next + i) % l->connections];

            if (can_ask(at))
                c = at;
        }
        if (c == NULL)
            return;
        l->next = (int)(c - l->all + 1) % l->connections;
        ask(l, c, l->next_due_ns);
        flush(l, c);
        l->next_due_ns += step > 0 ? step : 1;
    }
}

static void say_progress(struct load *l, int64_t now, uint64_t *last_done,
                         int64_t *last_ns)
{
    spn_histogram_snapshot snapshot = SPN_HISTOGRAM_SNAPSHOT_INIT;
    const double seconds = (double)(now - *last_ns) / 1e9;

    (void)spn_histogram_snapshot_get(l->latency, &snapshot);
    fprintf(stderr,
            "\r%5.0f s  %10.0f requests/s  p50 %8.1f us  p99 %8.1f us  %" PRIu64
            " failed  \033[K",
            (double)(now - l->started_ns) / 1e9,
            (double)(l->done - *last_done) / seconds,
            (double)spn_histogram_quantile(&snapshot, 0.5) / 1e3,
            (double)spn_histogram_quantile(&snapshot, 0.99) / 1e3, l->failed + l->lost);
    *last_done = l->done;
    *last_ns = now;
}

static bool all_answered(const struct load *l)
{
    return l->sent == l->done + l->lost + l->not_taken;
}

static int wait_ms(const struct load *l, int64_t now, int64_t until)
{
    int64_t wait = until - now;

    if (l->rate > 0 && l->next_due_ns - now < wait && has_more(l))
        wait = l->next_due_ns - now;
    if (wait <= 0)
        return 0;
    /* Below a millisecond it is not worth to sleep: the times would not be kept. */
    return wait < SPN_MS(1)
               ? 0
               : (int)((wait < SPN_MS(200) ? wait : SPN_MS(200)) / SPN_MS(1));
}

static void drive(struct load *l)
{
    struct epoll_event events[EVENTS];
    const int64_t until = l->started_ns + SPN_SEC(l->seconds);
    const int64_t give_up = until + SPN_SEC(5); /* for the last replies */
    int64_t now = l->started_ns, last_ns = now;
    uint64_t last_done = 0;
    bool sending = true;

    if (l->rate == 0)
        for (int i = 0; i < l->connections; i++)
            refill(l, &l->all[i], now);
    while (l->live > 0 && (sending || !all_answered(l)) && now < give_up) {
        int count;

        if (sending && l->rate > 0)
            send_due(l, now);
        count = epoll_wait(l->epoll, events, EVENTS,
                           wait_ms(l, now, sending ? until : give_up));
        for (int i = 0; i < count; i++) {
            struct connection *c = events[i].data.ptr;

            if (c->fd >= 0 && (events[i].events & EPOLLOUT) != 0)
                flush(l, c);
            if (c->fd >= 0 &&
                (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
                take_input(l, c);
                if (sending && l->rate == 0)
                    refill(l, c, spn_now());
            }
        }
        now = spn_now();
        if (now >= until || !has_more(l))
            sending = false;
        if (!l->quiet && now - last_ns >= SPN_SEC(1))
            say_progress(l, now, &last_done, &last_ns);
    }
    l->ended_ns = now;
    if (!l->quiet)
        fputs("\r\033[K", stderr);
}

/* ---- telling ------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    double part;
} quantiles[] = { { "p50", 0.5 }, { "p90", 0.9 }, { "p99", 0.99 }, { "p99.9", 0.999 } };

static void tell_json(const struct load *l, const spn_histogram_snapshot *latency)
{
    const double seconds = (double)(l->ended_ns - l->started_ns) / 1e9;
    struct json j;

    json_begin(&j, stdout);
    json_open(&j, NULL, '{');
    json_integer(&j, "connections", l->connections);
    json_integer(&j, "depth", l->depth);
    json_integer(&j, "rate", l->rate);
    json_number(&j, "seconds", seconds);
    json_integer(&j, "requests", (int64_t)l->done);
    json_number(&j, "requests_per_second", (double)l->done / seconds);
    json_integer(&j, "failed", (int64_t)l->failed);
    json_integer(&j, "lost", (int64_t)l->lost);
    json_integer(&j, "not_taken", (int64_t)l->not_taken);
    json_open(&j, "latency_us", '{');
    for (size_t i = 0; i < sizeof(quantiles) / sizeof(quantiles[0]); i++)
        json_number(&j, quantiles[i].name,
                    (double)spn_histogram_quantile(latency, quantiles[i].part) / 1e3);
    json_number(&j, "max", (double)latency->max / 1e3);
    json_close(&j, '}');
    json_close(&j, '}');
    putchar('\n');
}

static void tell(const struct load *l, const spn_histogram_snapshot *latency)
{
    const double seconds = (double)(l->ended_ns - l->started_ns) / 1e9;

    printf("%d connections x %d, %s, %.1f s\n", l->connections, l->depth,
           l->rate > 0 ? "open loop" : "closed loop", seconds);
    printf("%12" PRIu64 "  requests answered\n", l->done);
    printf("%12.0f  requests per second\n", (double)l->done / seconds);
    for (int status = 0; status < 256; status++)
        if (l->by_status[status] > 0 && status != 20)
            printf("%12" PRIu64 "  with status %d\n", l->by_status[status], status);
    if (l->lost > 0)
        printf("%12" PRIu64 "  never answered\n", l->lost);
    if (l->not_taken > 0)
        printf("%12" PRIu64 "  not taken: the server had said that it stops\n",
               l->not_taken);
    if (l->ended > 0)
        printf("%12d  connections ended: the server stops\n", l->ended);
    for (size_t i = 0; i < sizeof(quantiles) / sizeof(quantiles[0]); i++)
        printf("%12.1f  us %s\n",
               (double)spn_histogram_quantile(latency, quantiles[i].part) / 1e3,
               quantiles[i].name);
    printf("%12.1f  us at most\n", (double)latency->max / 1e3);
    if (l->text[0] != '\0') {
        fputs("the first error: ", stdout);
        wire_print(stdout, l->text);
        putchar('\n');
    }
}

/* ---- begin and end ---------------------------------------------------------------------------- */

static bool open_one(struct load *l, struct connection *c, char *why, size_t capacity)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = c };

    c->out_capacity = l->frame_size * (size_t)(l->depth + 1);
    c->out = malloc(c->out_capacity);
    c->in = malloc(WIRE_HEADER_BYTES);
    c->in_capacity = WIRE_HEADER_BYTES;
    c->due_ns = calloc((size_t)l->depth, sizeof(*c->due_ns));
    c->free = calloc((size_t)l->depth, sizeof(*c->free));
    if (c->out == NULL || c->in == NULL || c->due_ns == NULL || c->free == NULL) {
        snprintf(why, capacity, "out of memory");
        return false;
    }
    for (int i = 0; i < l->depth; i++)
        c->free[c->free_count++] = l->depth - 1 - i;
    c->fd = wire_connect(&l->address, CONNECT_MS, why, capacity);
    if (c->fd < 0)
        return false;
    if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, c->fd, &event) != 0) {
        snprintf(why, capacity, "%s", strerror(errno));
        return false;
    }
    l->live++;
    return true;
}

static bool open_all(struct load *l)
{
    char why[300] = "out of memory";

    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    l->all = calloc((size_t)l->connections, sizeof(*l->all));
    l->buffer = malloc(READ_BYTES);
    if (l->epoll < 0 || l->all == NULL || l->buffer == NULL ||
        spn_histogram_create(&l->latency) != SPN_OK) {
        fprintf(stderr, "spindle load: %s\n", why);
        return false;
    }
    for (int i = 0; i < l->connections; i++)
        l->all[i].fd = -1;
    for (int i = 0; i < l->connections; i++) {
        if (open_one(l, &l->all[i], why, sizeof(why)))
            continue;
        fprintf(stderr, "spindle load: connection %d: %s\n", i + 1, why);
        return false;
    }
    return true;
}

static void close_all(struct load *l)
{
    for (int i = 0; l->all != NULL && i < l->connections; i++) {
        struct connection *c = &l->all[i];

        if (c->fd >= 0)
            (void)close(c->fd);
        free(c->out);
        free(c->in);
        free(c->due_ns);
        free(c->free);
    }
    free(l->all);
    free(l->buffer);
    spn_histogram_destroy(l->latency);
    if (l->epoll >= 0)
        (void)close(l->epoll);
}

static int put_load(struct load *l)
{
    spn_histogram_snapshot latency = SPN_HISTOGRAM_SNAPSHOT_INIT;
    const struct sigaction stop = { .sa_handler = on_signal };

    if (!open_all(l)) {
        close_all(l);
        return EXIT_BAD;
    }
    (void)sigaction(SIGINT, &stop, NULL);
    (void)sigaction(SIGTERM, &stop, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    l->started_ns = l->next_due_ns = spn_now();
    drive(l);
    l->lost = l->sent - l->done - l->not_taken;
    (void)spn_histogram_snapshot_get(l->latency, &latency);
    if (l->json)
        tell_json(l, &latency);
    else
        tell(l, &latency);
    close_all(l);
    return l->failed + l->lost == 0 && l->done > 0 ? EXIT_GOOD : EXIT_BAD;
}

static int read_option(struct load *l, struct wire_call *call, const char *argument)
{
    const char *value;
    int64_t number;

    if (option_is(argument, "connections", &value)) {
        if (!option_number(value, 1, CONNECTIONS_MAX, &number))
            return misused("load", "--connections wants 1 to %d.", CONNECTIONS_MAX);
        l->connections = (int)number;
    } else if (option_is(argument, "depth", &value)) {
        if (!option_number(value, 1, DEPTH_MAX, &number))
            return misused("load", "--depth wants 1 to %d.", DEPTH_MAX);
        l->depth = (int)number;
    } else if (option_is(argument, "seconds", &value)) {
        if (!option_number(value, 1, 86400, &l->seconds))
            return misused("load", "--seconds wants 1 to 86400.");
    } else if (option_is(argument, "rate", &value)) {
        if (!option_number(value, 1, 100000000, &l->rate))
            return misused("load", "--rate wants requests per second.");
    } else if (option_is(argument, "requests", &value)) {
        if (!option_number(value, 1, INT64_MAX, &l->requests))
            return misused("load", "--requests wants a whole number.");
    } else if (option_is(argument, "version", &value)) {
        call->version = value != NULL ? value : "";
    } else if (option_is(argument, "group", &value)) {
        call->group = value != NULL ? value : "";
    } else if (option_is(argument, "json", &value) && value == NULL) {
        l->json = true;
    } else if (option_is(argument, "quiet", &value) && value == NULL) {
        l->quiet = true;
    } else {
        return misused("load", "there is no option '%s'.", argument);
    }
    return EXIT_GOOD;
}

static int run(int argc, char **argv)
{
    static struct load l = { .connections = 8, .depth = 1, .seconds = 10, .epoll = -1 };
    static struct wire_call call = { .version = "1.0.0",
                                     .group = "g1",
                                     .timeout_ms = 10000 };
    spn_harena *arena;
    struct spn__hwriter writer;
    int words = 0, status = EXIT_GOOD;
    char why[200];

    spn__hwriter_init(&writer, NULL, 0, 0);
    if (spn_harena_create(&arena, NULL) != SPN_OK) {
        fputs("spindle load: out of memory\n", stderr);
        return EXIT_BAD;
    }
    for (int i = 1; i < argc && status == EXIT_GOOD; i++) {
        if (words < 2 && argv[i][0] == '-')
            status = read_option(&l, &call, argv[i]);
        else if (words == 0 && words++ == 0) {
            if (!wire_address(argv[i], &l.address))
                status = misused("load", "'%s' is no HOST:PORT.", argv[i]);
        } else if (words == 1 && words++ == 1) {
            if (!wire_method(argv[i], &call))
                status = misused("load", "'%s' is no Interface.method.", argv[i]);
        } else if (!wire_argument(arena, argv[i], &call, why, sizeof(why)))
            status = misused("load", "argument '%s': %s.", argv[i], why);
    }
    if (status == EXIT_GOOD && words < 1)
        status = misused("load", "say where: HOST:PORT.");
    if (status == EXIT_GOOD && words == 1) {
        (void)wire_method("org.apache.dubbo.demo.DemoService.sayHello", &call);
        (void)wire_argument(arena, "bob", &call, why, sizeof(why));
    }
    if (status == EXIT_GOOD) {
        if (wire_request(&writer, &call, 0, true) != SPN_OK) {
            fputs("spindle load: the request cannot be made\n", stderr);
            status = EXIT_BAD;
        } else {
            l.frame = spn__hwriter_bytes(&writer, &l.frame_size);
            l.quiet = l.quiet || !isatty(STDERR_FILENO);
            status = put_load(&l);
        }
    }
    spn__hwriter_fini(&writer);
    spn_harena_destroy(arena);
    return status;
}

const struct command load_command = {
    .name = "load",
    .summary = "put load on a server and tell how fast it answers",
    .help =
        "Usage: spindle load [OPTION...] HOST:PORT [Interface.method [ARGUMENT...]]\n"
        "\n"
        "Without a method it is sayHello of the demo service.  Arguments are those of\n"
        "`spindle call`.\n"
        "\n"
        "  --connections=N  connections (8)\n"
        "  --depth=N        requests under way on each (1)\n"
        "  --seconds=N      for how long (10)\n"
        "  --requests=N     ends after so many\n"
        "  --rate=N         requests per second in all, whether the server keeps up "
        "or\n"
        "                   not; without it, as fast as the server answers\n"
        "  --version=V, --group=G   of the service (1.0.0, g1)\n"
        "  --json           the result as JSON\n"
        "  --quiet          no progress\n"
        "\n"
        "With --rate a request's time counts from when it was due, so that a server "
        "that\n"
        "stalls shows.  Exit status: 0 when every request was answered with status "
        "20,\n"
        "but for those that a server which stops did not take.\n",
    .run = run,
};
