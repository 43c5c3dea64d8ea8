/* SPDX-License-Identifier: MIT */
/*
 * Which thread does what: every event with every dispatcher, when the pool is idle, full, and
 * shut down, and while each of its threads hangs.
 */
#include <pthread.h>

#include "rpc/message.h"
#include "rpc/server/serving.h"
#include "pool_calls.h"
#include "rpc_serving.h"

/* ---- who runs it --------------------------------------------------------------------- */

enum where { NOBODY, IO, POOL, SHARED, ORDERED, OWN };
static const char *const where_names[] = { "nobody", "io",      "pool",
                                           "shared", "ordered", "own" };

struct watch {
    struct serving s;
    spn_server *server;
    spn_executor *own;
    atomic_int events[SPN_CHANNEL_EVENTS]; /* a where */
    atomic_int counts[SPN_CHANNEL_EVENTS];
};

static enum where here(struct watch *w)
{
    spn_server *server = w->server;
    spn_executor *shared;
    char name[32] = "";

    if (spn_executor_is_inside(server->dispatch.executor) == 1)
        return POOL;
    if (server->dispatch.ordered != NULL &&
        spn_executor_is_inside(spn_pool_executor(server->dispatch.ordered)) == 1)
        return ORDERED;
    if (w->own != NULL && spn_executor_is_inside(w->own) == 1)
        return OWN;
    if (spn_repository_shared(server->repository, &shared) == SPN_OK &&
        spn_executor_is_inside(shared) == 1)
        return SHARED;
    pthread_getname_np(pthread_self(), name, sizeof name);
    return strncmp(name, "spn-io", 6) == 0 ? IO : NOBODY;
}

static void on_event(void *ctx, spn_channel_event event, const spn_channel_info *info)
{
    struct watch *w = ctx;

    (void)info;
    /* The server is not there yet when create returns into it: start is later. */
    atomic_store(&w->events[event], (int)here(w));
    atomic_fetch_add(&w->counts[event], 1);
}

static int on_request(void *arg, spn_request *request)
{
    struct watch *w = arg;

    (void)request;
    atomic_store(&w->events[SPN_CHANNEL_REQUEST], (int)here(w));
    atomic_fetch_add(&w->counts[SPN_CHANNEL_REQUEST], 1);
    return 0;
}

static const spn_service watched = {
    .size = sizeof(spn_service),
    .interface = "demo.Watched",
};
static const struct asked ask_where = {
    .id = 42, .method = "where", .path = "demo.Watched", .version = "-", .group = "-"
};

/* A server that is not started yet. */
static void watch_make(struct watch *w, const char *query, spn_extensions *extensions,
                       spn_service *service, spn_method *method)
{
    spn_server_opts opts = SPN_SERVER_OPTS_INIT;
    spn_problem problem = SPN_PROBLEM_INIT;
    char url[400];

    for (int i = 0; i < SPN_CHANNEL_EVENTS; i++) {
        atomic_init(&w->events[i], NOBODY);
        atomic_init(&w->counts[i], 0);
    }
    opts.event = on_event;
    opts.ctx = w;
    opts.extensions = extensions;
    snprintf(url, sizeof url, "dubbo://127.0.0.1:0?dump.enable=false&iothreads=2&%s",
             query);
    REQUIRE_OK(spn_server_create(&w->server, url, &opts, &problem));
    *method = (spn_method){ "where", "", on_request, w };
    *service = watched;
    service->methods = method;
    service->method_count = 1;
    REQUIRE_OK(spn_server_export(w->server, service, &problem));
}

static void watch_with(struct watch *w, const char *query, spn_extensions *extensions,
                       spn_service *service, spn_method *method)
{
    watch_make(w, query, extensions, service, method);
    REQUIRE_OK(spn_server_start(w->server, NULL));
}

static void watch_end(struct watch *w)
{
    CHECK_OK(spn_server_stop(w->server, T_LONG_NS));
    CHECK_OK(spn_server_destroy(w->server));
}

static void check_where(const char *dispatcher, int event, int found, int expected)
{
    if (found != expected) {
        printf("  %s, %s: by %s, not %s\n", dispatcher, spn_channel_event_name(event),
               where_names[found], where_names[expected]);
        CHECK(found == expected);
    }
}

/* The table of dispatcher.h.  Responses are a client's; a server has the other five. */
static const struct {
    const char *name;
    int connected, disconnected, request, sent, caught;
} table[] = {
    { "all", POOL, POOL, POOL, IO, POOL },
    { "direct", IO, IO, IO, IO, IO },
    { "message", IO, IO, POOL, IO, IO },
    { "execution", IO, IO, POOL, IO, IO },
    { "connection", ORDERED, ORDERED, POOL, IO, POOL },
};
enum { DISPATCHERS = sizeof table / sizeof *table };

/* ---- the table ----------------------------------------------------------------------------- */

/* Every event of every dispatcher, with a pool that has room. */
TEST(dispatch__every_event__on_its_thread, "DSP-1", "DSP-11", "X-19", "X-20", "P42")
{
    for (int i = 0; i < DISPATCHERS; i++) {
        spn_server_stats stats;
        struct watch w = { .own = NULL };
        spn_service service;
        spn_method method;
        struct told told;
        char query[100];
        uint64_t sum = 0;
        int fd;

        snprintf(query, sizeof query, "dispatcher=%s&threads=2&queues=50",
                 table[i].name);
        watch_with(&w, query, NULL, &service, &method);
        fd = peer_open(spn_server_port(w.server));
        CHECK(peer_ask(fd, &ask_where, &told));
        CHECK_EQ(told.status, 20);
        T_AWAIT(atomic_load(&w.counts[SPN_CHANNEL_SENT]) > 0);
        peer_write(fd, "garbage", 7);
        CHECK(peer_is_closed(fd));
        T_AWAIT(atomic_load(&w.counts[SPN_CHANNEL_DISCONNECTED]) == 1 &&
                atomic_load(&w.counts[SPN_CHANNEL_CONNECTED]) == 1 &&
                atomic_load(&w.counts[SPN_CHANNEL_CAUGHT]) == 1);
        check_where(table[i].name, SPN_CHANNEL_CONNECTED,
                    atomic_load(&w.events[SPN_CHANNEL_CONNECTED]), table[i].connected);
        check_where(table[i].name, SPN_CHANNEL_DISCONNECTED,
                    atomic_load(&w.events[SPN_CHANNEL_DISCONNECTED]),
                    table[i].disconnected);
        check_where(table[i].name, SPN_CHANNEL_REQUEST,
                    atomic_load(&w.events[SPN_CHANNEL_REQUEST]), table[i].request);
        check_where(table[i].name, SPN_CHANNEL_SENT,
                    atomic_load(&w.events[SPN_CHANNEL_SENT]), table[i].sent);
        check_where(table[i].name, SPN_CHANNEL_CAUGHT,
                    atomic_load(&w.events[SPN_CHANNEL_CAUGHT]), table[i].caught);
        stats = stats_of(w.server);
        for (int place = 0; place < SPN_PLACES; place++)
            sum += stats.dispatched[SPN_CHANNEL_CONNECTED][place] +
                   stats.dispatched[SPN_CHANNEL_DISCONNECTED][place] +
                   stats.dispatched[SPN_CHANNEL_REQUEST][place] +
                   stats.dispatched[SPN_CHANNEL_CAUGHT][place];
        CHECK_EQ(sum, 4);
        close(fd);
        watch_end(&w);
    }
}

static int tell_thread(void *arg, spn_request *request)
{
    char name[64] = "";

    (void)arg;
    CHECK(spn_thread_name(spn_thread_current(), name, sizeof name) >= 0);
    return spn_request_return_text(request, name);
}

/* A method finds out by its name which thread it is on: a pool's, or one that does I/O. */
TEST(dispatch__thread_of_a_method__has_its_name, "DSP-1")
{
    static const char *const queries[] = {
        "dispatcher=direct", "dispatcher=message&threadname=work&threads=1"
    };
    static const char *const names[] = { "spn-io-", "work-thread-1" };
    const spn_method method = { "where", "", tell_thread, NULL };
    spn_service service = watched;

    service.methods = &method;
    service.method_count = 1;
    for (int i = 0; i < 2; i++) {
        spn_server *server;
        struct told told;
        char url[200];
        int fd;

        snprintf(url, sizeof url, "dubbo://127.0.0.1:0?%s", queries[i]);
        REQUIRE_OK(spn_server_create(&server, url, NULL, NULL));
        REQUIRE_OK(spn_server_export(server, &service, NULL));
        REQUIRE_OK(spn_server_start(server, NULL));
        fd = peer_open(spn_server_port(server));
        REQUIRE(peer_ask(fd, &ask_where, &told));
        CHECK_EQ(told.status, 20);
        /* a flag and the length of the text, then the text */
        CHECK(memcmp(told.body + 2, names[i], strlen(names[i])) == 0);
        close(fd);
        CHECK_OK(spn_server_stop(server, T_LONG_NS));
        CHECK_OK(spn_server_destroy(server));
    }
}

/* Replies are written by the pool's threads.  While nobody listens to `sent`, a reply does not
 * wake the I/O thread. */
TEST(dispatch__nobody_listens_to_sent__io_thread_is_not_woken, "NET-14", "X-19")
{
    enum { REQUESTS = 200 };
    struct spn__transport_stats before, after;
    struct serving s;
    struct told told;
    int fd;

    serve_with(&s, "dispatcher=all&threads=2&queues=50", NULL);
    fd = peer_open(s.port);
    peer_send(fd, &ask_hello);
    CHECK(peer_told(fd, &told));
    spn__transport_get_stats(s.server->transport, &before);
    for (int i = 0; i < REQUESTS; i++) {
        /* Two in flight share a write, for which the I/O thread is woken. */
        T_AWAIT(stats_of(s.server).in_flight == 0);
        peer_send(fd, &ask_hello);
        CHECK(peer_told(fd, &told));
    }
    spn__transport_get_stats(s.server->transport, &after);
    CHECK_EQ(after.wakeups - before.wakeups, 0);
    CHECK_EQ(stats_of(s.server).dispatched[SPN_CHANNEL_SENT][SPN_PLACE_IO], 0);
    close(fd);
    serving_end(&s);
}

/* The innermost handler, which fails for every message with an even id. */
static int fail_even(spn_handler *handler, spn_channel *channel, spn_message *message)
{
    if (spn__message_of(message)->frame.id % 2 != 0)
        return spn__serve_ops.received(handler, channel, message);
    return SPN_EFAILED;
}

/* Of messages that came in one piece every second one fails in its handler, one in its
 * method and one while it is decoded: each has its own end, its neighbours are answered,
 * and so is what comes later, over this connection and another; events come once each.  A
 * failure on the I/O thread is told as `caught`; one in the pool goes no further. */
TEST(dispatch__failing_handler__leaves_all_others_alone, "X-19", "DSP-1")
{
    enum { LAST = 9, BROKEN = 11, UNKNOWN = 13, REPLIES = 7 };

    for (int i = 0; i < DISPATCHERS; i++) {
        const bool here = table[i].request == IO;
        spn_handler_ops failing = spn__serve_ops;
        struct asked asked = ask_where;
        struct bytes b = { .size = 0 };
        struct watch w = { .own = NULL };
        uint64_t seen = 0, expected = 0;
        spn_service service;
        spn_method method;
        struct told told;
        char query[100];
        int fds[2];

        snprintf(query, sizeof query, "dispatcher=%s&threads=2&queues=50",
                 table[i].name);
        watch_make(&w, query, NULL, &service, &method);
        failing.received = fail_even;
        w.server->exchange.ops = &failing;
        REQUIRE_OK(spn_server_start(w.server, NULL));
        for (int k = 0; k < 2; k++)
            fds[k] = peer_open(spn_server_port(w.server));
        for (asked.id = 1; asked.id <= LAST; asked.id++) {
            put_request(&b, &asked);
            if (asked.id % 2 != 0)
                expected |= UINT64_C(1) << asked.id;
        }
        put_header(&b, TWO_WAY, 0, BROKEN, 3);
        put(&b, "\xff\xff\xff", 3);
        asked.id = UNKNOWN;
        asked.method = "nowhere";
        put_request(&b, &asked);
        expected |= UINT64_C(1) << BROKEN | UINT64_C(1) << UNKNOWN;
        peer_write(fds[0], b.data, b.size);
        for (int k = 0; k < REPLIES; k++) {
            REQUIRE(peer_told(fds[0], &told));
            REQUIRE(told.id < 64 && (seen & UINT64_C(1) << told.id) == 0);
            seen |= UINT64_C(1) << told.id;
            CHECK_EQ(told.status, told.id == BROKEN    ? 40
                                  : told.id == UNKNOWN ? 70
                                                       : 20);
        }
        CHECK(seen == expected);
        for (int k = 0; k < 2; k++) {
            asked = ask_where;
            asked.id = 101;
            CHECK(peer_ask(fds[k], &asked, &told)); /* and no reply came between */
            CHECK_EQ(told.id, 101);
            CHECK_EQ(told.status, 20);
            close(fds[k]);
        }
        /* Each counts when it is through, in the pool beside the others. */
        T_AWAIT(atomic_load(&w.counts[SPN_CHANNEL_DISCONNECTED]) == 2);
        T_AWAIT(atomic_load(&w.counts[SPN_CHANNEL_CONNECTED]) == 2);
        T_AWAIT(atomic_load(&w.counts[SPN_CHANNEL_REQUEST]) == LAST / 2 + 1 + 2);
        watch_end(&w);
        CHECK_EQ(atomic_load(&w.counts[SPN_CHANNEL_CONNECTED]), 2);
        CHECK_EQ(atomic_load(&w.counts[SPN_CHANNEL_REQUEST]), LAST / 2 + 1 + 2);
        CHECK_EQ(atomic_load(&w.counts[SPN_CHANNEL_CAUGHT]), here ? LAST / 2 : 0);
        CHECK(atomic_load(&w.counts[SPN_CHANNEL_SENT]) >= 2);
        CHECK_EQ(atomic_load(&w.counts[SPN_CHANNEL_DISCONNECTED]), 2);
    }
}

/* A body that cannot be read is found out about, and answered for, by the pool: not while
 * its only thread hangs. */
TEST(dispatch__bodies__read_by_the_pool, "DSP-9")
{
    const struct asked hanging = { .id = 1, .method = "hang" };
    struct bytes b = { .size = 0 };
    struct serving s;
    struct told told;
    int fd;

    serve_with(&s, "dispatcher=message&threads=1&queues=5", NULL);
    fd = peer_open(s.port);
    peer_send(fd, &hanging);
    T_AWAIT(atomic_load(&s.demo.hanging) == 1);
    put_header(&b, TWO_WAY, 0, 2, 3);
    put(&b, "\xff\xff\xff", 3);
    peer_write(fd, b.data, b.size);
    CHECK(peer_beat(fd, 3)); /* it has been read from the socket */
    CHECK_EQ(stats_of(s.server).requests, 2);
    CHECK_EQ(stats_of(s.server).bad_bodies, 0);
    CHECK_OK(spn_latch_count_down(s.demo.gate));
    CHECK(peer_told(fd, &told));
    CHECK_EQ(told.id, 1);
    CHECK(peer_told(fd, &told));
    CHECK_EQ(told.id, 2);
    CHECK_EQ(told.status, 40);
    CHECK_EQ(stats_of(s.server).bad_bodies, 1);
    close(fd);
    serving_end(&s);
    serve_with(&s, "dispatcher=direct", NULL);
    fd = peer_open(s.port);
    peer_write(fd, b.data, b.size);
    CHECK(peer_told(fd, &told));
    CHECK_EQ(told.status, 40);
    close(fd);
    serving_end(&s);
}

/* What the dispatchers say of each event, responses too. */
TEST(dispatch__places__as_the_table_has_them, "DSP-1", "P42")
{
    static const struct {
        const spn_dispatcher *dispatcher;
        int places[SPN_CHANNEL_EVENTS];
    } places[] = {
        { &spn__dispatcher_all,
          { SPN_PLACE_POOL, SPN_PLACE_POOL, SPN_PLACE_PREFERRED, SPN_PLACE_PREFERRED,
            SPN_PLACE_IO, SPN_PLACE_POOL } },
        { &spn__dispatcher_direct,
          { SPN_PLACE_IO, SPN_PLACE_IO, SPN_PLACE_IO, SPN_PLACE_IO, SPN_PLACE_IO,
            SPN_PLACE_IO } },
        { &spn__dispatcher_message,
          { SPN_PLACE_IO, SPN_PLACE_IO, SPN_PLACE_PREFERRED, SPN_PLACE_PREFERRED,
            SPN_PLACE_IO, SPN_PLACE_IO } },
        { &spn__dispatcher_execution,
          { SPN_PLACE_IO, SPN_PLACE_IO, SPN_PLACE_PREFERRED, SPN_PLACE_IO, SPN_PLACE_IO,
            SPN_PLACE_IO } },
        { &spn__dispatcher_connection,
          { SPN_PLACE_ORDERED, SPN_PLACE_ORDERED, SPN_PLACE_PREFERRED,
            SPN_PLACE_PREFERRED, SPN_PLACE_IO, SPN_PLACE_POOL } },
    };

    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        for (int event = 0; event < SPN_CHANNEL_EVENTS; event++)
            CHECK_EQ(places[i].dispatcher->place(places[i].dispatcher,
                                                 (spn_channel_event)event),
                     places[i].places[event]);
    CHECK_STR(spn_channel_event_name(SPN_CHANNEL_CAUGHT), "caught");
    CHECK_STR(spn_channel_event_name(6), "unknown");
    CHECK_STR(spn_place_name(SPN_PLACE_ORDERED), "ordered");
    CHECK_STR(spn_place_name(-1), "unknown");
}

/* Three keys, in order; a name that is not there. */
TEST(dispatch__chosen_by_url__first_key_counts, "DSP-2", "P42")
{
    static const struct {
        const char *query;
        const spn_dispatcher *dispatcher;
    } cases[] = {
        { "", &spn__dispatcher_all },
        { "dispatcher=direct", &spn__dispatcher_direct },
        { "dispather=message", &spn__dispatcher_message },
        { "channel.handler=execution", &spn__dispatcher_execution },
        { "dispather=message&dispatcher=connection&channel.handler=direct",
          &spn__dispatcher_connection },
        { "dispather=message&channel.handler=direct", &spn__dispatcher_message },
        { "dispatcher=&channel.handler=direct", &spn__dispatcher_direct },
    };
    spn_problem problem = SPN_PROBLEM_INIT;
    spn_server *server;
    char url[200];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(url, sizeof url, "dubbo://127.0.0.1:0?%s", cases[i].query);
        REQUIRE_OK(spn_server_create(&server, url, NULL, &problem));
        CHECK(server->dispatch.dispatcher == cases[i].dispatcher);
        CHECK_OK(spn_server_destroy(server));
    }
    CHECK_STATUS(spn_server_create(&server, "dubbo://127.0.0.1:0?dispatcher=fast", NULL,
                                   &problem),
                 SPN_EEMPTY);
    CHECK_HAS(problem.text, "fast");
    CHECK_HAS(problem.text, "execution");
}

/* ---- a pool without room ---------------------------------------------------------------------- */

/* Fills the pool of a server: one thread that hangs, and one request that waits. */
static int fill(struct serving *s, int fd)
{
    const struct asked hanging = { .id = 1, .method = "hang" };

    peer_send(fd, &hanging);
    T_AWAIT(atomic_load(&s->demo.hanging) == 1);
    peer_send(fd, &hanging);
    T_AWAIT(pool_stats(spn_server_pool(s->server)).queued == 1);
    return fd;
}

/* With every thread of the pool stuck: refusals are told at once, heartbeats answered, one-way
 * requests counted; one reply for each request. */
TEST(dispatch__full_pool__refused_at_once_and_once, "DSP-3", "DSP-4", "DSP-8", "X-20",
     "P10", "P11")
{
    static const char *const names[] = { "message", "execution", "connection" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct asked one_way = { .flags = ONE_WAY, .method = "nothing" };
        struct asked asked = ask_hello;
        spn_server_stats stats;
        struct serving s;
        struct told told;
        char query[200], part[200];
        int fd, replies = 0;

        snprintf(query, sizeof query, "dispatcher=%s&threads=1&queues=1&inflight=0",
                 names[i]);
        serve_with(&s, query, NULL);
        fd = fill(&s, peer_open(s.port));
        for (uint64_t id = 100; id < 110; id++) {
            asked.id = id;
            CHECK(peer_ask(fd, &asked, &told));
            CHECK_EQ(told.id, id);
            CHECK_EQ(told.status, 100);
            snprintf(part, sizeof part,
                     "Server side(127.0.0.1,%d) thread pool is exhausted, detail msg:"
                     "Thread pool is EXHAUSTED! Thread Name: DubboServerHandler-",
                     s.port);
            CHECK_HAS(told_text(&told), part);
            CHECK_HAS(told_text(&told), "Pool Size: 1 (active: 1, core: 1, max: 1, ");
            CHECK(peer_beat(fd, id));
        }
        for (int n = 0; n < 3; n++)
            peer_send(fd, &one_way);
        CHECK(peer_beat(fd, 1));
        stats = stats_of(s.server);
        CHECK_EQ(stats.rejected, 10);
        CHECK_EQ(stats.rejected_one_way, 3);
        CHECK_EQ(stats.heartbeats, 11);
        CHECK_EQ(demo_replies(&stats, 100), 10);
        CHECK_OK(spn_latch_count_down(s.demo.gate));
        for (int n = 0; n < 2; n++) { /* those that had a place */
            CHECK(peer_told(fd, &told));
            CHECK_EQ(told.id, 1);
            CHECK_EQ(told.status, 20);
        }
        CHECK(peer_ask(fd, &ask_hello, &told)); /* and nothing comes twice */
        CHECK(told.id == ask_hello.id);
        T_AWAIT(stats_of(s.server).in_flight == 0); /* counted, too */
        replies = (int)stats_of(s.server).replies;
        CHECK_EQ(replies, 13);
        close(fd);
        serving_end(&s);
    }
}

/* The figures of a refusal say who is taken, also in the moment in which all come at once and
 * no thread has begun yet: fifty threads, and nothing that waits. */
TEST(dispatch__full_at_once__says_who_is_taken, "DSP-3", "X-20")
{
    enum { THREADS = 50, MORE = 10 };
    const struct {
        const char *query, *active, *queue;
    } cases[] = {
        { "dispatcher=message&threads=50&queues=0&inflight=0",
          "Pool Size: 50 (active: 50, core: 50, max: 50, ",
          "! Queue: 0 (capacity: 0)" },
        { "dispatcher=message&threads=45&queues=5&inflight=0",
          "Pool Size: 45 (active: 45, core: 45, max: 45, ",
          "! Queue: 5 (capacity: 5)" },
    };
    struct asked hanging = { .method = "hang", .dubbo = "2.0.0" };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bytes b = { .size = 0 };
        struct serving s;
        struct told told;
        int fd;

        serve_with(&s, cases[i].query, NULL);
        fd = peer_open(s.port);
        for (int n = 0; n < THREADS + MORE; n++)
            put_request(&b, &hanging);
        peer_write(fd, b.data, b.size);
        for (int n = 0; n < MORE; n++) {
            CHECK(peer_told(fd, &told));
            CHECK_EQ(told.status, 100);
            CHECK_HAS(told_text(&told), cases[i].active);
            CHECK_HAS(told_text(&told), cases[i].queue);
        }
        CHECK_OK(spn_latch_count_down(s.demo.gate));
        for (int n = 0; n < THREADS; n++) {
            CHECK(peer_told(fd, &told));
            CHECK_EQ(told.status, 20);
        }
        close(fd);
        serving_end(&s);
    }
}

/* ---- more than one connection may have ---------------------------------------------------- */

/* So many requests in a row, with ids from `first`. */
static void send_many(int fd, const struct asked *asked, uint64_t first, int count)
{
    struct asked each = *asked;

    for (int n = 0; n < count; n++) {
        each.id = first + (uint64_t)n;
        peer_send(fd, &each);
    }
}

/* A connection that sends slow calls without end has all of the pool but an eighth: another
 * one, from the same address, is served each time, and soon.  What is refused is refused for
 * the connection, in words, and counted apart from what the pool refuses. */
TEST(dispatch__slow_calls_of_one_connection__leave_places_to_others, "DSP-12", "P10")
{
    enum { CALLS = 400, SHARE = 175, POLITE = 60 };
    const struct asked hanging = { .method = "hang", .dubbo = "2.0.0" };
    const struct asked one_way = { .flags = ONE_WAY, .method = "nothing" };
    struct serving s;
    struct told told;
    char part[100];
    int hog, polite;

    serve_with(&s, "threads=200&queues=0", NULL);
    hog = peer_open(s.port);
    send_many(hog, &hanging, 1, CALLS);
    T_AWAIT(atomic_load(&s.demo.hanging) >= SHARE);
    for (int n = 0; n < POLITE; n++) {
        const int64_t began_ns = spn_now();

        polite = peer_open(s.port);
        CHECK(peer_ask(polite, &ask_hello, &told));
        CHECK_EQ(told.status, 20);
        CHECK(spn_now() - began_ns < 2 * T_SHORT_NS);
        close(polite);
    }
    CHECK_EQ(atomic_load(&s.demo.hanging), SHARE);
    snprintf(part, sizeof part,
             "Server side(127.0.0.1,%d) too many requests of one "
             "connection: 127.0.0.1:",
             s.port);
    for (int n = 0; n < CALLS - SHARE; n++) {
        REQUIRE(peer_told(hog, &told));
        CHECK_EQ(told.status, 100);
        CHECK_HAS(told_text(&told), part);
        CHECK_HAS(
            told_text(&told),
            "has 175 in the pool, which are all that it may have (all but an eighth "
            "of 200 threads and a queue of 0)");
    }
    send_many(hog, &one_way, 1000, 3);
    CHECK(peer_beat(hog, 7));
    CHECK_EQ(stats_of(s.server).rejected_connection, CALLS - SHARE + 3);
    CHECK_EQ(stats_of(s.server).rejected, 0);
    CHECK_EQ(stats_of(s.server).rejected_one_way, 0);
    CHECK_OK(spn_latch_count_down(s.demo.gate));
    for (int n = 0; n < SHARE; n++) {
        REQUIRE(peer_told(hog, &told));
        CHECK_EQ(told.status, 20);
    }
    CHECK(peer_ask(hog, &ask_hello, &told)); /* its places are free again */
    CHECK_EQ(told.status, 20);
    close(hog);
    serving_end(&s);
}

/* How many of a connection's slow calls are taken by a server. */
static int places_of(struct serving *s, int calls)
{
    const struct asked hanging = { .method = "hang", .dubbo = "2.0.0" };
    const int fd = peer_open(s->port);
    struct told told;
    int refused;

    send_many(fd, &hanging, 1, calls);
    CHECK(peer_told(fd, &told)); /* at least one is refused */
    CHECK_EQ(told.status, 100);
    T_AWAIT(stats_of(s->server).requests == (uint64_t)calls);
    T_AWAIT(stats_of(s->server).rejected_connection + stats_of(s->server).rejected +
                stats_of(s->server).in_flight ==
            (uint64_t)calls);
    refused = (int)(stats_of(s->server).rejected_connection);
    close(fd);
    return calls - refused;
}

/* What a connection may have: an eighth is left, one place at least, never all; what the URL
 * says; and what becomes of it when the pool changes. */
TEST(dispatch__places_of_a_connection__by_pool_and_url, "DSP-12")
{
    static const struct {
        const char *query;
        int places;
    } cases[] = {
        { "threads=1&queues=1", 1 },
        { "threads=2&queues=0", 1 },
        { "threads=2&queues=6", 7 },
        { "threads=1&queues=31", 28 },
        { "threads=4&queues=4&queue=priority", 7 },
        { "threads=2&queues=-1&inflight=5", 5 },
        { "threads=2&queues=30&inflight=3", 3 },
        { "threads=2&queues=30&inflight=1", 1 },
        { "threadpool=cached&queues=0&inflight=2", 2 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct serving s;
        char query[100];

        snprintf(query, sizeof query, "dispatcher=message&%s", cases[i].query);
        serve_with(&s, query, NULL);
        CHECK_EQ(places_of(&s, 40), cases[i].places);
        if (i == 1) {
            CHECK_OK(spn_latch_count_down(s.demo.gate));
            T_AWAIT(stats_of(s.server).in_flight == 0);
            CHECK_OK(spn_latch_destroy(s.demo.gate));
            REQUIRE_OK(spn_latch_create(&s.demo.gate, 1));
            CHECK_OK(spn_server_reset(s.server, "dubbo://h?threads=16", NULL));
            {
                const uint64_t before = stats_of(s.server).rejected_connection;
                const struct asked hanging = { .method = "hang", .dubbo = "2.0.0" };
                const int fd = peer_open(s.port);

                send_many(fd, &hanging, 1, 20);
                T_AWAIT(stats_of(s.server).rejected_connection == before + 6);
                T_AWAIT(stats_of(s.server).in_flight == 14);
                close(fd);
            }
        }
        serving_end(&s);
    }
}

/* Values that are none are refused with the key. */
TEST(dispatch__limits_that_cannot_be__refused_in_words, "DSP-12", "DSP-13", "DSP-14")
{
    static const struct {
        const char *query, *text;
    } cases[] = {
        { "inflight=-1", "inflight=-1: not a number of requests (1 to 2147483647" },
        { "inflight=many", "inflight=many" },
        { "inflight.address=-2", "inflight.address=-2: not a number of requests" },
        { "inflight.address=1x&dispatcher=direct", "inflight.address=1x" },
        { "inflight=5000000000", "inflight=5000000000" },
        { "queue.target=-50", "queue.target=-50: not a time in ms (1 to 2147483647" },
        { "queue.target=soon", "queue.target=soon" },
    };
    spn_server *server;
    char url[100];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        spn_problem problem = SPN_PROBLEM_INIT;

        snprintf(url, sizeof url, "dubbo://127.0.0.1:0?%s", cases[i].query);
        CHECK(spn_server_create(&server, url, NULL, &problem) != SPN_OK);
        CHECK_HAS(problem.text, cases[i].text);
    }
}

/* Without a bound of the pool there is none for a connection; 0 lifts it. */
TEST(dispatch__places_without_a_bound__all_taken, "DSP-12")
{
    static const char *const queries[] = { "threads=2&queues=-1",
                                           "threads=2&queues=40&inflight=0",
                                           "threadpool=cached&queues=0" };
    const struct asked hanging = { .method = "hang", .dubbo = "2.0.0" };

    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        struct serving s;
        int fd;

        serve_with(&s, queries[i], NULL);
        fd = peer_open(s.port);
        send_many(fd, &hanging, 1, 40);
        T_AWAIT(stats_of(s.server).requests == 40);
        CHECK(peer_beat(fd, 1));
        CHECK_EQ(stats_of(s.server).in_flight, 40);
        CHECK_EQ(stats_of(s.server).rejected_connection, 0);
        close(fd);
        serving_end(&s);
    }
}

/* A client that waits for each reply before it asks again is never refused, also where its
 * connection may have a single place. */
TEST(dispatch__one_call_at_a_time__never_refused, "DSP-12")
{
    enum { CALLS = 3000 };
    struct serving s;
    struct told told;
    int fd, refused = 0;

    serve_with(&s, "dispatcher=message&threads=1&queues=1", NULL);
    fd = peer_open(s.port);
    for (int n = 0; n < CALLS; n++) {
        REQUIRE(peer_ask(fd, &ask_hello, &told));
        refused += told.status != 20;
    }
    CHECK_EQ(refused, 0);
    close(fd);
    serving_end(&s);
}

struct deferrals {
    spn_request *kept[20];
    atomic_int count;
};

static int defer_it(void *arg, spn_request *request)
{
    struct deferrals *d = arg;
    const int rc = spn_request_defer(request);

    if (rc == SPN_OK) {
        d->kept[atomic_load(&d->count)] = request;
        atomic_fetch_add(&d->count, 1);
    }
    return rc;
}

/* A deferred request whose method has returned takes no thread, and no place either. */
TEST(dispatch__deferred_requests__take_no_place, "DSP-12", "EXC-9")
{
    enum { CALLS = 20 };
    struct deferrals d = { .count = 0 };
    const spn_method methods[] = { { "defer", "", defer_it, &d } };
    const spn_service service = { .size = sizeof(spn_service),
                                  .interface = "demo.Deferring",
                                  .methods = methods,
                                  .method_count = 1 };
    const struct asked asked = {
        .method = "defer", .path = "demo.Deferring", .version = "-", .group = "-"
    };
    struct serving s;
    struct told told;
    int fd;

    serve_with(&s, "dispatcher=message&threads=1&queues=2&inflight.address=2", NULL);
    REQUIRE_OK(spn_server_export(s.server, &service, NULL));
    fd = peer_open(s.port);
    for (int n = 1; n <= CALLS; n++) {
        peer_send(fd, &asked);
        T_AWAIT(atomic_load(&d.count) == n);
        T_AWAIT(pool_stats(spn_server_pool(s.server)).active == 0);
    }
    CHECK_EQ(stats_of(s.server).in_flight, CALLS);
    for (int n = 0; n < CALLS; n++) {
        CHECK_OK(spn_request_finish(d.kept[n], SPN_OK));
        CHECK(peer_told(fd, &told));
        CHECK_EQ(told.status, 20);
    }
    CHECK_EQ(stats_of(s.server).rejected_connection, 0);
    CHECK_EQ(stats_of(s.server).rejected_address, 0);
    close(fd);
    serving_end(&s);
}

/* A connection from an address of the loopback. */
static int open_from(const char *from, int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    REQUIRE(fd >= 0);
    REQUIRE(inet_pton(AF_INET, from, &address.sin_addr) == 1);
    REQUIRE(bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
    address.sin_port = htons((uint16_t)port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    return fd;
}

/* All connections of an address together have what inflight.address says; others are served;
 * when requests end there is room again, also when the connection went first. */
TEST(dispatch__many_connections_of_one_address__bounded, "DSP-13")
{
    const struct asked hanging = { .id = 1, .method = "hang", .dubbo = "2.0.0" };
    struct serving s;
    struct told told;
    int fds[3], other;

    serve_with(&s, "dispatcher=message&threads=8&queues=8&inflight.address=2", NULL);
    for (int i = 0; i < 3; i++)
        fds[i] = peer_open(s.port);
    other = open_from("127.0.0.2", s.port);
    for (int i = 0; i < 2; i++)
        peer_send(fds[i], &hanging);
    T_AWAIT(atomic_load(&s.demo.hanging) == 2);
    CHECK(peer_ask(fds[2], &ask_hello, &told));
    CHECK_EQ(told.status, 100);
    CHECK_HAS(told_text(&told),
              "too many requests of one address: 127.0.0.1 has 2 in the "
              "pool, which are all that inflight.address=2 allows");
    CHECK_EQ(stats_of(s.server).rejected_address, 1);
    CHECK_EQ(stats_of(s.server).rejected_connection, 0);
    CHECK(peer_ask(other, &ask_hello, &told));
    CHECK_EQ(told.status, 20);
    close(fds[0]);
    CHECK(peer_ask(fds[2], &ask_hello, &told)); /* its method still runs */
    CHECK_EQ(told.status, 100);
    CHECK_OK(spn_latch_count_down(s.demo.gate));
    T_AWAIT(stats_of(s.server).in_flight == 0);
    CHECK(peer_ask(fds[2], &ask_hello, &told));
    CHECK_EQ(told.status, 20);
    close(fds[1]);
    close(fds[2]);
    close(other);
    serving_end(&s);
}

/* One that begins on a thread that hangs makes others wait: one-way requests, until one is
 * refused. */
static void let_stand(struct serving *s, int fd)
{
    const struct asked hanging = { .id = 1, .method = "hang", .dubbo = "2.0.0" };
    const struct asked one_way = { .flags = ONE_WAY, .method = "nothing" };

    peer_send(fd, &hanging);
    T_AWAIT(atomic_load(&s->demo.hanging) == 1);
    do {
        peer_send(fd, &one_way);
        CHECK(peer_beat(fd, 9));
        t_pause();
    } while (stats_of(s->server).rejected_delay == 0);
}

/* A queue that stands: what comes is refused at once, with the delay and the target, and not
 * counted with what the pool refused.  When it has drained, requests are taken again. */
TEST(dispatch__queue_that_stands__refused_until_it_drains, "DSP-14")
{
    static const char *const names[] = { "message", "all", "connection" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct serving s;
        struct told told;
        char query[100];
        int fd, other;

        snprintf(query, sizeof query,
                 "dispatcher=%s&threads=1&queues=-1&queue.target=10", names[i]);
        serve_with(&s, query, NULL);
        fd = peer_open(s.port);
        other = peer_open(s.port);
        CHECK(peer_ask(other, &ask_hello, &told));
        CHECK_EQ(told.status, 20);
        let_stand(&s, fd);
        for (int n = 0; n < 20; n++) {
            CHECK(peer_ask(other, &ask_hello, &told));
            CHECK_EQ(told.status, 100);
            CHECK_HAS(told_text(&told),
                      "requests wait too long for a thread: at least ");
            CHECK_HAS(told_text(&told),
                      " ms during the last 200 ms, above queue.target=10");
        }
        CHECK_EQ(stats_of(s.server).rejected_delay, 21);
        CHECK_EQ(stats_of(s.server).rejected, 0);
        CHECK_OK(spn_latch_count_down(s.demo.gate));
        CHECK(peer_told(fd, &told));
        CHECK_EQ(told.status, 20);
        T_AWAIT(stats_of(s.server).in_flight == 0);
        CHECK(peer_ask(other, &ask_hello, &told));
        CHECK_EQ(told.status, 20);
        close(fd);
        close(other);
        serving_end(&s);
    }
}

/* A burst that is longer than the pool, and drains; and a queue that stands where nobody has
 * set a target. */
TEST(dispatch__burst_and_no_target__nobody_refused, "DSP-14")
{
    static const char *const queries[] = {
        "dispatcher=message&threads=1&queues=-1&queue.target=30000",
        "dispatcher=message&threads=1&queues=-1",
        "dispatcher=message&threads=1&queues=-1&queue.target=0",
    };
    enum { CALLS = 500 };

    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        struct serving s;
        struct told told;
        int fd;

        serve_with(&s, queries[i], NULL);
        fd = peer_open(s.port);
        send_many(fd, &ask_hello, 1, CALLS);
        for (int n = 0; n < CALLS; n++) {
            REQUIRE(peer_told(fd, &told));
            CHECK_EQ(told.status, 20);
        }
        CHECK_EQ(stats_of(s.server).rejected_delay, 0);
        close(fd);
        serving_end(&s);
    }
}

/* Requests that the pool refuses or drops do not wait any more: a server that has refused
 * many does not think that they stand. */
TEST(dispatch__refused_and_dropped__do_not_count_as_waiting, "DSP-14", "DSP-10")
{
    static const char *const queries[] = {
        "dispatcher=message&threads=1&queues=0&inflight=0&queue.target=5",
        "dispatcher=message&threads=1&queues=1&inflight=0&queue.target=5&reject="
        "discard",
    };
    const struct asked hanging = { .id = 1, .method = "hang", .dubbo = "2.0.0" };

    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        struct serving s;
        struct told told;
        int fd;

        serve_with(&s, queries[i], NULL);
        fd = peer_open(s.port);
        peer_send(fd, &hanging);
        T_AWAIT(atomic_load(&s.demo.hanging) == 1);
        send_many(fd, &ask_hello, 100, 20);
        for (size_t n = 0; n < 20 - i; n++) {
            CHECK(peer_told(fd, &told));
            CHECK_EQ(told.status, 100);
        }
        CHECK_OK(spn_latch_count_down(s.demo.gate));
        for (size_t n = 0; n < 1 + i; n++) {
            CHECK(peer_told(fd, &told));
            CHECK_EQ(told.status, 20);
        }
        T_AWAIT(stats_of(s.server).in_flight == 0);
        CHECK_EQ(s.server->dispatch.waits.waiting, 0);
        close(fd);
        serving_end(&s);
    }
}

/* With `all`, connections and their ends need the pool too; the requests of a connection
 * whose event was lost are served all the same. */
TEST(dispatch__full_pool_with_all__still_answers, "DSP-3", "DSP-8", "P10")
{
    struct serving s;
    struct told told;
    int fd, other;

    serve_with(&s, "dispatcher=all&threads=1&queues=1&inflight=0", NULL);
    fd = peer_open(s.port);
    CHECK(peer_ask(fd, &ask_hello, &told)); /* its event has run */
    fd = fill(&s, fd);
    other = peer_open(s.port);
    CHECK(peer_beat(other, 5));
    CHECK(peer_ask(other, &ask_hello, &told));
    CHECK_EQ(told.status, 100);
    CHECK_OK(spn_latch_count_down(s.demo.gate));
    T_AWAIT(stats_of(s.server).in_flight == 0);
    CHECK(peer_ask(other, &ask_hello, &told));
    CHECK_EQ(told.status, 20);
    close(fd);
    close(other);
    serving_end(&s);
}

/* What the pool drops after it took it is answered for, too. */
TEST(dispatch__dropped_by_the_pool__answered, "DSP-10")
{
    struct asked asked = ask_hello;
    struct serving s;
    struct told told;
    int fd;

    serve_with(&s,
               "dispatcher=message&threads=1&queues=1&inflight=0&reject=discard-oldest",
               NULL);
    fd = peer_open(s.port);
    {
        const struct asked hanging = { .id = 1, .method = "hang" };

        peer_send(fd, &hanging);
        T_AWAIT(atomic_load(&s.demo.hanging) == 1);
    }
    asked.id = 10;
    peer_send(fd, &asked);
    T_AWAIT(pool_stats(spn_server_pool(s.server)).queued == 1);
    asked.id = 11;
    CHECK(peer_ask(fd, &asked, &told)); /* pushes 10 out */
    CHECK_EQ(told.id, 10);
    CHECK_EQ(told.status, 100);
    CHECK_OK(spn_latch_count_down(s.demo.gate));
    CHECK(peer_told(fd, &told));
    CHECK_EQ(told.id, 1);
    CHECK(peer_told(fd, &told));
    CHECK_EQ(told.id, 11);
    CHECK_EQ(told.status, 20);
    close(fd);
    serving_end(&s);
}

/* ---- a pool that was shut down ------------------------------------------------------------------ */

/* Everything of the pool's is done by the shared executor. */
TEST(dispatch__closed_pool__shared_executor, "DSP-5")
{
    for (int i = 0; i < DISPATCHERS; i++) {
        struct watch w = { .own = NULL };
        spn_service service;
        spn_method method;
        struct told told;
        char query[100];
        int fd;

        snprintf(query, sizeof query, "dispatcher=%s&threads=2&queues=50",
                 table[i].name);
        watch_with(&w, query, NULL, &service, &method);
        CHECK_OK(pool_shutdown(spn_server_pool(w.server)));
        CHECK_OK(pool_await(spn_server_pool(w.server), T_LONG_NS));
        fd = peer_open(spn_server_port(w.server));
        CHECK(peer_ask(fd, &ask_where, &told));
        CHECK_EQ(told.status, 20);
        T_AWAIT(atomic_load(&w.counts[SPN_CHANNEL_CONNECTED]) == 1);
        check_where(table[i].name, SPN_CHANNEL_REQUEST,
                    atomic_load(&w.events[SPN_CHANNEL_REQUEST]),
                    table[i].request == POOL ? SHARED : table[i].request);
        check_where(table[i].name, SPN_CHANNEL_CONNECTED,
                    atomic_load(&w.events[SPN_CHANNEL_CONNECTED]),
                    table[i].connected == POOL ? SHARED : table[i].connected);
        if (table[i].request == POOL)
            T_AWAIT(stats_of(w.server).shared > 0);
        CHECK(peer_beat(fd, 3));
        close(fd);
        watch_end(&w);
    }
}

/* ---- connections in order ------------------------------------------------------------------------ */

struct names {
    spn_latch *gate;
    char on_connected[256], in_request[256], message[1024];
    atomic_int running, reported;
};

static void note_connected(void *ctx, spn_channel_event event,
                           const spn_channel_info *info)
{
    struct names *names = ctx;

    (void)info;
    if (event == SPN_CHANNEL_CONNECTED)
        CHECK(spn_thread_name(spn_thread_current(), names->on_connected,
                              sizeof names->on_connected) > 0);
}

static int note_request(void *arg, spn_request *request)
{
    struct names *names = arg;

    (void)request;
    CHECK(spn_thread_name(spn_thread_current(), names->in_request,
                          sizeof names->in_request) > 0);
    atomic_store(&names->running, 1);
    while (spn_latch_await(names->gate, T_LONG_NS) == SPN_EINTR)
        ;
    return 0;
}

static void note_exhaustion(void *ctx, const spn_exhaustion *what)
{
    struct names *names = ctx;

    (void)snprintf(names->message, sizeof names->message, "%s", what->message);
    atomic_store(&names->reported, 1);
}

/* With port 0 the threads and the report are called after the port that was found, as the
 * refusal is; the ordered thread has a name of its own, also for the kernel. */
TEST(dispatch__port_0__threads_and_report_have_the_real_one, "DSP-6", "REP-5")
{
    spn_repository_opts ropts = SPN_REPOSITORY_OPTS_INIT;
    spn_server_opts opts = SPN_SERVER_OPTS_INIT;
    struct names names = { .message = "" };
    spn_method method = { "where", "", note_request, &names };
    spn_service service = watched;
    spn_repository *repository;
    char expected[320];
    struct told told;
    spn_server *server;
    int fd, port;

    REQUIRE_OK(spn_latch_create(&names.gate, 1));
    ropts.exhausted = note_exhaustion;
    ropts.ctx = &names;
    REQUIRE_OK(spn_repository_create(&repository, &ropts));
    opts.repository = repository;
    opts.event = note_connected;
    opts.ctx = &names;
    REQUIRE_OK(spn_server_create(&server,
                                 "dubbo://127.0.0.1:0?dump.enable=false&iothreads=1&"
                                 "dispatcher=connection&threads=1&queues=0&inflight=0",
                                 &opts, NULL));
    service.methods = &method;
    service.method_count = 1;
    REQUIRE_OK(spn_server_export(server, &service, NULL));
    CHECK_EQ(spn_server_port(server), 0); /* not before start */
    REQUIRE_OK(spn_server_start(server, NULL));
    port = spn_server_port(server);
    fd = peer_open(port);
    peer_send(fd, &ask_where);
    T_AWAIT(atomic_load(&names.running) == 1);
    CHECK(peer_ask(fd, &ask_where, &told)); /* is refused */
    CHECK_EQ(told.status, 100);
    snprintf(expected, sizeof expected, "Server side(127.0.0.1,%d) ", port);
    CHECK_HAS(told_text(&told), expected);
    T_AWAIT(atomic_load(&names.reported) == 1);
    snprintf(expected, sizeof expected,
             "Thread Name: DubboServerHandler-127.0.0.1:%d, Pool", port);
    CHECK_HAS(names.message, expected);
    snprintf(expected, sizeof expected, ", in dubbo://127.0.0.1:%d!", port);
    CHECK_HAS(names.message, expected);
    snprintf(expected, sizeof expected, "DubboServerHandler-127.0.0.1:%d-thread-1",
             port);
    CHECK_STR(names.in_request, expected);
    CHECK_OK(spn_latch_count_down(names.gate));
    CHECK(peer_told(fd, &told));
    close(fd);
    CHECK_OK(spn_server_stop(server, T_LONG_NS));
    snprintf(expected, sizeof expected,
             "ordered-DubboServerHandler-127.0.0.1:%d-thread-1", port);
    CHECK_STR(names.on_connected, expected);
    CHECK_OK(spn_server_destroy(server));
    CHECK_OK(spn_repository_destroy_all(repository, T_LONG_NS));
    CHECK_OK(spn_repository_destroy(repository));
    CHECK_OK(spn_latch_destroy(names.gate));
}

/* A server with port 0 that is never started gives its port back. */
TEST(dispatch__port_0_never_started__nothing_left)
{
    const int before = dup(0);

    close(before);
    for (int i = 0; i < 2; i++) {
        spn_server *server;
        int after;

        REQUIRE_OK(spn_server_create(&server,
                                     i == 0 ? "dubbo://127.0.0.1:0?threads=1"
                                            : "dubbo:///demo?threads=1",
                                     NULL, NULL));
        CHECK_OK(spn_server_destroy(server));
        after = dup(0);
        close(after);
        CHECK_EQ(after, before);
    }
}

struct order {
    spn_latch *gate;
    atomic_int running, most, connected, disconnected, wrong;
};

static void in_order(void *ctx, spn_channel_event event, const spn_channel_info *info)
{
    struct order *o = ctx;
    int now;

    (void)info;
    if (event != SPN_CHANNEL_CONNECTED && event != SPN_CHANNEL_DISCONNECTED)
        return;
    now = atomic_fetch_add(&o->running, 1) + 1;
    if (now > atomic_load(&o->most))
        atomic_store(&o->most, now);
    while (spn_latch_await(o->gate, T_LONG_NS) == SPN_EINTR)
        ;
    if (event == SPN_CHANNEL_CONNECTED)
        atomic_fetch_add(&o->connected, 1);
    else if (atomic_fetch_add(&o->disconnected, 1) >= atomic_load(&o->connected))
        atomic_store(&o->wrong, 1);
    atomic_fetch_sub(&o->running, 1);
}

/* Twenty connections come and go while the one thread is held up: all wait, one runs. */
TEST(dispatch__connection__one_after_the_other, "DSP-6")
{
    enum { COUNT = 20 };
    spn_server_opts opts = SPN_SERVER_OPTS_INIT;
    struct order o;
    struct serving s;
    struct told told;
    int fds[COUNT];

    memset(&o, 0, sizeof o);
    REQUIRE_OK(spn_latch_create(&o.gate, 1));
    opts.event = in_order;
    opts.ctx = &o;
    serve_with(&s, "dispatcher=connection&threads=2&queues=50", &opts);
    for (int i = 0; i < COUNT; i++)
        fds[i] = peer_open(s.port);
    for (int i = 0; i < COUNT; i++) { /* requests do not wait for that */
        CHECK(peer_ask(fds[i], &ask_hello, &told));
        CHECK_EQ(told.status, 20);
        close(fds[i]);
    }
    T_AWAIT(pool_stats(s.server->dispatch.ordered).queued == 2 * COUNT - 1);
    T_AWAIT(atomic_load(&o.running) == 1); /* the one that was taken has begun */
    CHECK_OK(spn_latch_count_down(o.gate));
    T_AWAIT(atomic_load(&o.disconnected) == COUNT);
    CHECK_EQ(atomic_load(&o.connected), COUNT);
    CHECK_EQ(atomic_load(&o.most), 1);
    CHECK_EQ(atomic_load(&o.wrong), 0);
    serving_end(&s);
    CHECK_OK(spn_latch_destroy(o.gate));
}

/* A queue that is too short loses events, and nothing else. */
TEST(dispatch__connection_queue_full__event_lost, "DSP-6")
{
    spn_server_opts opts = SPN_SERVER_OPTS_INIT;
    struct order o;
    struct serving s;
    struct told told;
    int fds[5];

    memset(&o, 0, sizeof o);
    REQUIRE_OK(spn_latch_create(&o.gate, 1));
    opts.event = in_order;
    opts.ctx = &o;
    serve_with(&s,
               "dispatcher=connection&threads=2&queues=50&connect.queue.capacity=2&"
               "connect.queue.warning.size=1",
               &opts);
    for (int i = 0; i < 5; i++) {
        fds[i] = peer_open(s.port);
        CHECK(peer_ask(fds[i], &ask_hello, &told));
        CHECK_EQ(told.status, 20);
        if (i == 0)
            T_AWAIT(atomic_load(&o.running) == 1);
    }
    CHECK_EQ(pool_stats(s.server->dispatch.ordered).queued, 2);
    CHECK_OK(spn_latch_count_down(o.gate));
    T_AWAIT(atomic_load(&o.connected) == 3);
    for (int i = 0; i < 5; i++)
        close(fds[i]);
    serving_end(&s);
    CHECK_OK(spn_latch_destroy(o.gate));
}

/* ---- one of the program's own ---------------------------------------------------------------------- */

static spn_executor *own_executor;

static spn_place own_place(const spn_dispatcher *self, spn_channel_event event)
{
    (void)self;
    return event == SPN_CHANNEL_REQUEST ? SPN_PLACE_OWN : SPN_PLACE_IO;
}

static spn_executor *own_execute(const spn_dispatcher *self, spn_channel_event event,
                                 const spn_url *url)
{
    (void)self;
    (void)event;
    CHECK_STR(spn_url_get(url, NULL, "dispatcher"), "mine");
    return own_executor;
}

/* A dispatcher that the program registered, with an executor of its own. */
TEST(dispatch__registered_by_the_program__chosen_and_obeyed, "DSP-7")
{
    static const spn_dispatcher mine = { sizeof mine, own_place, own_execute };
    const spn_extension extension = { .size = sizeof extension,
                                      .kind = SPN_KIND_DISPATCHER,
                                      .name = "mine",
                                      .instance = &mine };
    spn_pool_opts one = spn_pool_opts_fixed(1, SPN_UNBOUNDED);
    struct watch w = { .own = NULL };
    spn_extensions *extensions;
    spn_service service;
    spn_method method;
    struct told told;
    spn_pool *pool;
    int fd;

    REQUIRE_OK(spn_pool_create(&pool, &one));
    own_executor = w.own = spn_pool_executor(pool);
    REQUIRE_OK(spn_extensions_create(&extensions, NULL));
    CHECK_OK(spn_dispatchers_register(extensions, NULL));
    CHECK_OK(spn_dispatchers_register(extensions, NULL));
    REQUIRE_OK(spn_extensions_register(extensions, &extension, NULL));
    watch_with(&w, "dispatcher=mine", extensions, &service, &method);
    fd = peer_open(spn_server_port(w.server));
    CHECK(peer_ask(fd, &ask_where, &told));
    CHECK_EQ(told.status, 20);
    check_where("mine", SPN_CHANNEL_REQUEST,
                atomic_load(&w.events[SPN_CHANNEL_REQUEST]), OWN);
    check_where("mine", SPN_CHANNEL_CONNECTED,
                atomic_load(&w.events[SPN_CHANNEL_CONNECTED]), IO);
    CHECK_EQ(stats_of(w.server).dispatched[SPN_CHANNEL_REQUEST][SPN_PLACE_OWN], 1);
    close(fd);
    watch_end(&w);
    CHECK_OK(pool_shutdown(pool));
    CHECK_OK(pool_await(pool, T_LONG_NS));
    CHECK_OK(spn_pool_destroy(pool));
    CHECK_OK(spn_extensions_destroy(extensions));
}
