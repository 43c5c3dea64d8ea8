/* SPDX-License-Identifier: MIT */
/*
 * Servers over sockets, called by a client that writes its frames by hand: services,
 * requests, connections, and the end.
 */
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/cpu.h"
#include "pool_calls.h"
#include "rpc_serving.h"

/* ---- services ---------------------------------------------------------------------- */

/* A call over the loopback, with each dispatcher. */
TEST(server__say_hello__answered_with_each_dispatcher, "EXC-2", "COD-8")
{
    static const char *const queries[] = {
        "dispatcher=direct",
        "dispatcher=all&threads=2&queues=10",
        "dispatcher=message&threads=2&queues=10",
        "dispatcher=execution&threads=2&queues=10",
        "dispatcher=connection&threads=2&queues=10",
    };

    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        struct serving s;
        struct told told;
        int fd;

        serve_with(&s, queries[i], NULL);
        fd = peer_open(s.port);
        CHECK(peer_ask(fd, &ask_hello, &told));
        CHECK(told.id == ask_hello.id);
        CHECK_EQ(told.flags, 0x02);
        CHECK_EQ(told.status, 20);
        CHECK_BODY(&told, "\x91\x09hello bob");
        close(fd);
        serving_end(&s);
    }
}

/* Which service is meant: group, path and version; a version may say nothing. */
TEST(server__unknown_service__status_70_with_its_key, "EXC-1")
{
    static const struct {
        const char *group, *path, *version, *part;
    } cases[] = {
        { "g2", NULL, NULL, "Not found exported service: g2/" DEMO ":1.0.0:" },
        { "-", NULL, NULL, "Not found exported service: " DEMO ":1.0.0:" },
        { NULL, "demo.Other", NULL,
          "Not found exported service: g1/demo.Other:1.0.0:" },
        { NULL, NULL, "2.0.0", "Not found exported service: g1/" DEMO ":2.0.0:" },
        { NULL, NULL, "-", "Not found exported service: g1/" DEMO ":" },
    };
    static const spn_method plain_methods[] = { { "sayHello", NULL, never, NULL } };
    static const char *const plain[] = { "", "0.0.0", "*", "-" };
    spn_service without = DEMO_SERVICE(plain_methods);
    spn_method answers[] = { { "busy", "", busy, NULL } };
    struct asked asked = ask_hello;
    struct serving s;
    struct told told;
    int fd;

    serve_with(&s, "dispatcher=direct", NULL);
    fd = peer_open(s.port);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        asked.group = cases[i].group;
        asked.path = cases[i].path;
        asked.version = cases[i].version;
        CHECK(peer_ask(fd, &asked, &told));
        CHECK_EQ(told.status, 70);
        CHECK_HAS(told_text(&told), cases[i].part);
    }
    without.version = "0.0.0";
    without.group = "";
    without.methods = answers;
    CHECK_OK(spn_server_export(s.server, &without, NULL));
    asked = (struct asked){ .method = "busy", .group = "-" };
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        asked.version = plain[i];
        CHECK(peer_ask(fd, &asked, &told));
        CHECK_EQ(told.status, 100);
    }
    close(fd);
    serving_end(&s);
}

/* A name that is too long for the text is cut between two characters, wherever they are:
 * half a character is none, and the reply would be another one. */
TEST(server__unknown_service_with_a_long_name__status_70_and_cut, "EXC-1")
{
    enum { LETTERS = 500 };
    struct serving s;
    struct told told;
    int fd;

    serve_with(&s, "threads=1&queues=10", NULL);
    fd = peer_open(s.port);
    for (int ascii = 0; ascii < 4; ascii++) { /* letters of one byte in front */
        struct bytes body = { .size = 0 }, b = { .size = 0 };

        put_text(&body, "2.0.2");
        put_byte(&body, 0x30 + (LETTERS >> 8));
        put_byte(&body, LETTERS & 0xff);
        for (int i = 0; i < LETTERS; i++)
            put(&body, i < ascii ? "x" : "\xe2\x82\xac", i < ascii ? 1 : 3);
        put_text(&body, "1.0.0");
        put_text(&body, "m");
        put_text(&body, "");
        put(&body, "HZ", 2);
        put_header(&b, TWO_WAY, 0, 9, (uint32_t)body.size);
        put(&b, body.data, body.size);
        peer_write(fd, b.data, b.size);
        CHECK(peer_told(fd, &told));
        CHECK_EQ(told.id, 9);
        CHECK_EQ(told.status, 70);
        REQUIRE(told.length > 40);
        CHECK(memcmp(told.body + 2, "Not found exported service: ", 28) == 0);
        CHECK(memcmp(told.body + told.length - 3, "\xe2\x82\xac", 3) == 0);
    }
    close(fd);
    serving_end(&s);
}

/* Which method: name and descriptor. */
TEST(server__unknown_method__status_70_with_its_name, "EXC-2")
{
    static const struct asked cases[] = {
        { .method = "sayGoodbye" },
        { .method = "sayHello", .parameters = "I", ARGS("\x91") },
        { .method = "sayHell", .parameters = "Ljava/lang/String;", ARGS("\1x") },
    };
    struct serving s;
    struct told told;
    int fd;

    serve_with(&s, "dispatcher=direct", NULL);
    fd = peer_open(s.port);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK(peer_ask(fd, &cases[i], &told));
        CHECK_EQ(told.status, 70);
        CHECK_HAS(told_text(&told), "no such method");
        CHECK_HAS(told_text(&told), cases[i].method);
    }
    close(fd);
    serving_end(&s);
}

/* Every service echoes. */
TEST(server__echo__gives_its_argument_back, "EXC-3")
{
    static const struct asked asked = { .method = "$echo",
                                        .parameters = "Ljava/lang/Object;",
                                        .dubbo = "2.0.0",
                                        ARGS("x\x91\2ok") }; /* no: a list of none */
    static const struct asked list = { .method = "$echo",
                                       .parameters = "Ljava/lang/Object;",
                                       .dubbo = "2.0.0",
                                       ARGS("z\x91\2ok") };
    struct serving s;
    struct told told;
    int fd;

    serve_with(&s, "dispatcher=direct", NULL);
    fd = peer_open(s.port);
    CHECK(peer_ask(fd, &list, &told));
    CHECK_EQ(told.status, 20);
    CHECK_BODY(&told, "\x91z\x91\2ok");
    CHECK(peer_ask(fd, &asked, &told)); /* what follows the empty list is no map */
    CHECK_EQ(told.status, 40);
    close(fd);
    serving_end(&s);
}

/* A method that fails, and one that says how. */
TEST(server__failing_method__status_70_and_reason, "EXC-4", "EXC-12", "COD-13")
{
    const struct asked failing = { .method = "fails" };
    const struct asked answering = { .method = "busy" };
    struct serving s;
    struct told told;
    int fd;

    serve_with(&s, "threads=2&queues=10", NULL);
    fd = peer_open(s.port);
    CHECK(peer_ask(fd, &failing, &told));
    CHECK_EQ(told.status, 70);
    CHECK_HAS(told_text(&told), DEMO ".fails");
    CHECK_HAS(told_text(&told), "-4711");
    CHECK(peer_ask(fd, &answering, &told));
    CHECK_EQ(told.status, 100);
    CHECK_STR(told_text(&told), "exhausted, says the method");
    close(fd);
    serving_end(&s);
}

/* What a method does before it ends its thread. */
enum farewell { SILENT, RETURNING, THROWING, DROPPING, DEFERRING };

struct dying {
    enum farewell farewell;
    _Atomic(spn_request *) kept; /* by DEFERRING */
};

static int die(void *arg, spn_request *request)
{
    struct dying *d = arg;

    switch (d->farewell) {
    case SILENT:
        break;
    case RETURNING:
        CHECK_OK(spn_request_return_text(request, "never said"));
        break;
    case THROWING:
        CHECK_OK(spn_request_throw(request, "demo.Gone", "with a word"));
        break;
    case DROPPING:
        CHECK_OK(spn_request_drop(request));
        break;
    case DEFERRING:
        CHECK_OK(spn_request_defer(request));
        atomic_store(&d->kept, request);
        break;
    }
    pthread_exit(NULL);
}

/* What a method on an I/O thread found. */
struct io_thread {
    pthread_t thread;
    int found; /* the state of cancellation */
};

static int note_io_thread(void *arg, spn_request *request)
{
    struct io_thread *io = arg;

    (void)request;
    io->thread = pthread_self();
    CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &io->found), 0);
    CHECK_EQ(pthread_setcancelstate(io->found, &(int){ 0 }), 0);
    return SPN_OK;
}

/* pthread_cancel does not end an I/O thread: the next request is answered there. */
TEST(server__io_thread_is_cancelled__goes_on, "G-21")
{
    struct io_thread io[2] = { { .found = -1 }, { .found = -1 } };
    const spn_method methods[] = { { "first", "", note_io_thread, &io[0] },
                                   { "second", "", note_io_thread, &io[1] } };
    const spn_service service = { .size = sizeof(spn_service),
                                  .interface = "demo.Io",
                                  .methods = methods,
                                  .method_count = 2 };
    struct asked asked = { .path = "demo.Io", .version = "-", .group = "-" };
    struct serving s;
    struct told told;
    int fd;

    serve_with(&s, "dispatcher=direct", NULL);
    REQUIRE_OK(spn_server_export(s.server, &service, NULL));
    fd = peer_open(s.port);
    for (int i = 0; i < 2; i++) {
        asked.method = methods[i].name;
        REQUIRE(peer_ask(fd, &asked, &told));
        CHECK_EQ(told.status, 20);
        CHECK_EQ(io[i].found, PTHREAD_CANCEL_DISABLE);
        CHECK_EQ(pthread_cancel(io[i].thread), 0);
    }
    CHECK(pthread_equal(io[0].thread, io[1].thread));
    close(fd);
    serving_end(&s);
}

/* A child of fork that stops its parent's server is told so at once; the server goes on. */
TEST(server__child_stops_the_parents__refused_at_once, "G-29")
{
    struct serving s;
    struct told told;
    int status = -1, fd;
    pid_t pid;

    serve_with(&s, "threads=2&queues=10", NULL);
    fd = peer_open(s.port);
    CHECK(peer_ask(fd, &ask_hello, &told));
    fflush(NULL);
    pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        (void)alarm((unsigned)(T_LONG_NS / SPN_SEC(1))); /* one that hangs fails */
        _exit(CHECK_STATUS(spn_server_stop(s.server, T_LONG_NS), SPN_ESTATE) &&
                      CHECK_STATUS(spn_server_destroy(s.server), SPN_EBUSY)
                  ? 0
                  : 1);
    }
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK_EQ(status, 0);
    CHECK(peer_ask(fd, &ask_hello, &told));
    CHECK_EQ(told.status, 20);
    close(fd);
    serving_end(&s);
}

/* A method that ends its thread is answered for, what it decided on before stays; the pool
 * has another thread for the next request, and unexport and stop find nothing that runs. */
TEST(server__method_ends_its_thread__answered_and_over, "EXC-4", "EXC-6", "EXC-22")
{
    static const char *const queries[] = { "dispatcher=all&threads=1&queues=10",
                                           "dispatcher=message&threads=1&queues=10",
                                           "dispatcher=execution&threads=2&queues=10" };

    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        struct dying dying[] = { { .farewell = SILENT },
                                 { .farewell = RETURNING },
                                 { .farewell = THROWING },
                                 { .farewell = DROPPING },
                                 { .farewell = DEFERRING } };
        const spn_method methods[] = {
            { "silent", "", die, &dying[SILENT] },
            { "returning", "", die, &dying[RETURNING] },
            { "throwing", "", die, &dying[THROWING] },
            { "dropping", "", die, &dying[DROPPING] },
            { "deferring", "", die, &dying[DEFERRING] },
        };
        const spn_service service = { .size = sizeof(spn_service),
                                      .interface = "demo.Dying",
                                      .methods = methods,
                                      .method_count = 5 };
        struct asked asked = { .path = "demo.Dying", .version = "-", .group = "-" };
        spn_server_stats stats;
        spn_request *kept;
        struct serving s;
        struct told told;
        int fd;

        serve_with(&s, queries[i], NULL);
        REQUIRE_OK(spn_server_export(s.server, &service, NULL));
        fd = peer_open(s.port);
        for (int plan = SILENT; plan <= RETURNING; plan++) {
            asked.id = 1;
            asked.method = methods[plan].name;
            CHECK(peer_ask(fd, &asked, &told));
            CHECK_EQ(told.id, 1);
            CHECK_EQ(told.status, 80);
            CHECK_HAS(told_text(&told), "demo.Dying.");
            CHECK_HAS(told_text(&told), asked.method);
            CHECK_HAS(told_text(&told), "ended its thread");
        }
        asked.method = "throwing";
        CHECK(peer_ask(fd, &asked, &told));
        CHECK_EQ(told.status, 20);
        asked.method = "dropping";
        peer_send(fd, &asked);
        asked.method = "silent";
        asked.flags = ONE_WAY;
        peer_send(fd, &asked);
        asked.method = "deferring";
        asked.flags = TWO_WAY;
        peer_send(fd, &asked);
        T_AWAIT((kept = atomic_load(&dying[DEFERRING].kept)) != NULL);
        CHECK_OK(spn_request_return_int(kept, 7));
        CHECK_OK(spn_request_finish(kept, SPN_OK)); /* whenever its thread is gone */
        CHECK(peer_told(fd, &told));
        CHECK_EQ(told.status, 20);
        T_AWAIT(stats_of(s.server).in_flight == 0);
        CHECK(peer_ask(fd, &ask_hello, &told));
        CHECK_EQ(told.status, 20);
        CHECK_OK(spn_server_unexport(s.server, &service));
        T_AWAIT(stats_of(s.server).in_flight == 0);
        stats = stats_of(s.server);
        CHECK_EQ(stats.requests, 7);
        CHECK_EQ(stats.replies, 5);
        CHECK_EQ(stats.dropped, 1);
        CHECK_EQ(stats.one_way, 1);
        CHECK_EQ(stats.exceptions, 1);
        CHECK_EQ(demo_replies(&stats, 80), 2);
        close(fd);
        serving_end(&s);
    }
}

static void die_when_told(void *ctx, spn_channel_event event,
                          const spn_channel_info *info)
{
    (void)info;
    if (event == SPN_CHANNEL_CONNECTED || event == SPN_CHANNEL_DISCONNECTED) {
        atomic_fetch_add((atomic_int *)ctx, 1);
        pthread_exit(NULL);
    }
}

/* The program's function for events ends its thread: the connection is let go of all the
 * same, so that stop and destroy do not wait for it. */
TEST(server__event_ends_its_thread__connection_let_go, "EXC-17", "EXC-20")
{
    spn_server_opts opts = SPN_SERVER_OPTS_INIT;
    atomic_int told_of = 0;
    struct serving s;
    struct told told;
    int fd;

    opts.event = die_when_told;
    opts.ctx = &told_of;
    serve_with(&s, "dispatcher=all&threads=1&queues=10", &opts);
    fd = peer_open(s.port);
    CHECK(peer_ask(fd, &ask_hello, &told));
    CHECK_EQ(told.status, 20);
    close(fd);
    T_AWAIT(atomic_load(&told_of) == 2);
    serving_end(&s);
}

static int export_twice(void *arg)
{
    struct serving *s = arg;

    return spn_server_unexport(s->server, &s->service);
}

struct unexporting {
    struct serving *s;
    atomic_int done;
};

static void *unexport(void *arg)
{
    struct unexporting *u = arg;

    CHECK_OK(export_twice(u->s));
    atomic_store(&u->done, 1);
    return NULL;
}

/* Services come and go; the one that goes waits for its methods. */
TEST(server__unexport__waits_for_methods_that_run, "EXC-6")
{
    const struct asked hanging = { .method = "hang" };
    struct unexporting u;
    struct serving s;
    struct told told;
    pthread_t thread;
    int fd, other;

    serve_with(&s, "threads=2&queues=10", NULL);
    fd = peer_open(s.port);
    other = peer_open(s.port);
    CHECK_STATUS(spn_server_export(s.server, &s.service, NULL), SPN_EBUSY);
    peer_send(fd, &hanging);
    T_AWAIT(atomic_load(&s.demo.hanging) == 1);
    u.s = &s;
    atomic_init(&u.done, 0);
    REQUIRE(pthread_create(&thread, NULL, unexport, &u) == 0);
    /* From some moment on it is not found any more, though it still runs. */
    do
        CHECK(peer_ask(other, &ask_hello, &told));
    while (told.status == 20);
    CHECK_EQ(told.status, 70);
    CHECK_EQ(atomic_load(&u.done), 0);
    CHECK_OK(spn_latch_count_down(s.demo.gate));
    REQUIRE(pthread_join(thread, NULL) == 0);
    CHECK(peer_told(fd, &told));
    CHECK_EQ(told.status, 20);
    CHECK_STATUS(spn_server_unexport(s.server, &s.service), SPN_EEMPTY);
    CHECK_OK(spn_server_export(s.server, &s.service, NULL));
    CHECK(peer_ask(other, &ask_hello, &told));
    CHECK_EQ(told.status, 20);
    close(fd);
    close(other);
    serving_end(&s);
}

/* A method that unexports a service; its reply is the status. */
struct undoing {
    spn_server *server;
    const spn_service *service;
};

static int undo(void *arg, spn_request *request)
{
    struct undoing *u = arg;

    return spn_request_return_int(request, spn_server_unexport(u->server, u->service));
}

/* Its own service it cannot wait for, and is told so; another one it can. */
TEST(server__unexport__refused_in_its_own_method, "EXC-6")
{
    static const char *const queries[] = { "dispatcher=direct", "threads=2&queues=10" };

    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        struct undoing own, other;
        spn_method methods[] = { { "own", "", undo, &own },
                                 { "other", "", undo, &other } };
        spn_service service = { .size = sizeof(spn_service),
                                .interface = "demo.Undo",
                                .methods = methods,
                                .method_count = 2 };
        const struct asked asks[] = {
            { .method = "own",
              .path = "demo.Undo",
              .version = "-",
              .group = "-",
              .dubbo = "2.0.0" },
            { .method = "other",
              .path = "demo.Undo",
              .version = "-",
              .group = "-",
              .dubbo = "2.0.0" },
        };
        struct serving s;
        struct told told;
        char body[2] = { (char)0x91, (char)(0x90 + SPN_EDEADLK) };
        int fd;

        serve_with(&s, queries[i], NULL);
        own = (struct undoing){ s.server, &service };
        other = (struct undoing){ s.server, &s.service };
        REQUIRE_OK(spn_server_export(s.server, &service, NULL));
        fd = peer_open(s.port);
        for (int times = 0; times < 2; times++) { /* nothing has changed */
            CHECK(peer_ask(fd, &asks[0], &told));
            CHECK_EQ(told.status, 20);
            REQUIRE(told.length >= 2);
            CHECK(memcmp(told.body, body, 2) == 0);
        }
        CHECK(peer_ask(fd, &asks[1], &told));
        CHECK_EQ(told.status, 20);
        CHECK_BODY(&told, "\x91\x90"); /* SPN_OK */
        CHECK(peer_ask(fd, &ask_hello, &told));
        CHECK_EQ(told.status, 70);
        CHECK_OK(spn_server_unexport(s.server, &service)); /* from anywhere else */
        close(fd);
        serving_end(&s);
    }
}

/* A method that has returned is waited for too while its request is open. */
TEST(server__unexport__waits_for_deferred_requests, "EXC-6")
{
    const struct asked asked = { .id = 5, .method = "later" };
    spn_request *request;
    struct unexporting u;
    struct serving s;
    struct told told;
    pthread_t thread;
    int fd;

    serve_with(&s, "dispatcher=direct", NULL);
    fd = peer_open(s.port);
    peer_send(fd, &asked);
    T_AWAIT((request = atomic_load(&s.demo.kept)) != NULL);
    u.s = &s;
    atomic_init(&u.done, 0);
    REQUIRE(pthread_create(&thread, NULL, unexport, &u) == 0);
    do
        CHECK(peer_ask(fd, &ask_hello, &told));
    while (told.status == 20);
    CHECK_EQ(told.status, 70);
    CHECK_EQ(atomic_load(&u.done), 0);
    CHECK_OK(spn_request_finish(request, SPN_OK));
    REQUIRE(pthread_join(thread, NULL) == 0);
    CHECK(peer_told(fd, &told));
    CHECK_EQ(told.id, 5);
    CHECK_EQ(told.status, 20);
    close(fd);
    serving_end(&s);
}

/* Many services: the table grows, and all are found. */
TEST(server__hundred_services__each_found, "EXC-1", "EXC-6")
{
    enum { COUNT = 100 };
    static char names[COUNT][32];
    static spn_service services[COUNT];
    spn_method methods[] = { { "busy", "", busy, NULL } };
    struct asked asked = { .method = "busy", .group = "-", .version = "-" };
    struct serving s;
    struct told told;
    int fd;

    serve_with(&s, "dispatcher=direct", NULL);
    fd = peer_open(s.port);
    for (int i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof names[i], "demo.Service%d", i);
        services[i] = (spn_service){ .size = sizeof(spn_service),
                                     .interface = names[i],
                                     .methods = methods,
                                     .method_count = 1 };
        CHECK_OK(spn_server_export(s.server, &services[i], NULL));
    }
    for (int i = 0; i < COUNT; i++) {
        asked.path = names[i];
        CHECK(peer_ask(fd, &asked, &told));
        CHECK_EQ(told.status, 100);
        if (i % 3 == 0) {
            CHECK_OK(spn_server_unexport(s.server, &services[i]));
            CHECK(peer_ask(fd, &asked, &told));
            CHECK_EQ(told.status, 70);
        }
    }
    close(fd);
    serving_end(&s);
}

/* ---- requests ----------------------------------------------------------------------- */

/* One-way: the method runs, and nobody hears of it. */
TEST(server__one_way__run_and_not_answered, "EXC-8")
{
    static const char *const methods[] = { "nothing", "fails", "fail" };
    struct serving s;
    struct told told;
    spn_server_stats stats;
    int fd;

    serve_with(&s, "dispatcher=direct", NULL);
    fd = peer_open(s.port);
    for (size_t i = 0; i < 3; i++) {
        const struct asked asked = { .flags = ONE_WAY, .method = methods[i] };

        peer_send(fd, &asked);
    }
    CHECK(peer_ask(fd, &ask_hello, &told));
    CHECK(told.id == ask_hello.id);
    CHECK_EQ(atomic_load(&s.demo.calls), 4);
    T_AWAIT(stats_of(s.server).in_flight == 0); /* counted, too */
    stats = stats_of(s.server);
    CHECK_EQ(stats.one_way, 3);
    CHECK_EQ(stats.requests, 4);
    CHECK_EQ(stats.replies, 1);
    close(fd);
    serving_end(&s);
}

/* A deferred request is answered when the program finishes it. */
TEST(server__deferred__answered_once_when_finished, "EXC-9")
{
    const struct asked asked = { .id = 5, .method = "later", .dubbo = "2.0.0" };
    spn_request *request;
    struct serving s;
    struct told told;
    int fd;

    for (int pooled = 0; pooled <= 1; pooled++) {
        serve_with(&s, pooled ? "threads=1&queues=10" : "dispatcher=direct", NULL);
        fd = peer_open(s.port);
        peer_send(fd, &asked);
        T_AWAIT((request = atomic_load(&s.demo.kept)) != NULL);
        CHECK(peer_ask(fd, &ask_hello, &told)); /* others go on meanwhile */
        CHECK(told.id == ask_hello.id);
        T_AWAIT(stats_of(s.server).in_flight == 1);
        CHECK_STATUS(spn_request_defer(request), SPN_ESTATE);
        CHECK_OK(spn_request_return_int(request, 7));
        CHECK_OK(spn_request_finish(request, SPN_OK));
        CHECK(peer_told(fd, &told));
        CHECK_EQ(told.id, 5);
        CHECK_BODY(&told, "\x91\x97");
        T_AWAIT(stats_of(s.server).in_flight == 0);
        close(fd);
        serving_end(&s);
    }
}

/* A reply that is dropped does not come, and is counted. */
TEST(server__dropped__counted_and_not_answered, "EXC-10")
{
    const struct asked asked = { .id = 5, .method = "never" };
    struct serving s;
    struct told told;
    int fd;

    serve_with(&s, "dispatcher=direct", NULL);
    fd = peer_open(s.port);
    peer_send(fd, &asked);
    CHECK(peer_ask(fd, &ask_hello, &told));
    CHECK(told.id == ask_hello.id);
    CHECK_EQ(stats_of(s.server).dropped, 1);
    close(fd);
    serving_end(&s);
}

/* Who waited too long in the queue is told so, and not run; unless the server is told to. */
TEST(server__expired_in_the_queue__status_31_and_not_run, "EXC-11")
{
    const struct asked hanging = { .id = 1, .method = "hang" };
    const struct asked late = { .id = 2,
                                .method = "nothing",
                                .attached = { "timeout", "1" } };
    const struct asked patient = { .id = 3,
                                   .method = "nothing",
                                   .attached = { "timeout", "600000" } };

    for (int run = 0; run <= 1; run++) {
        spn_server_opts opts = SPN_SERVER_OPTS_INIT;
        unsigned statuses[4] = { 0 };
        struct serving s;
        struct told told;
        int fd;

        opts.run_expired = (uint32_t)run;
        serve_with(&s, "threads=1&queues=10&dispatcher=message", &opts);
        fd = peer_open(s.port);
        peer_send(fd, &hanging);
        T_AWAIT(atomic_load(&s.demo.hanging) == 1);
        peer_send(fd, &late);
        peer_send(fd, &patient);
        T_AWAIT(pool_stats(spn_server_pool(s.server)).queued == 2);
        /* Its millisecond passes. */
        CHECK_OK(
            spn_clock_sleep_until(spn_clock_monotonic(),
                                  spn_clock_now(spn_clock_monotonic()) + SPN_MS(2)));
        CHECK_OK(spn_latch_count_down(s.demo.gate));
        for (int i = 0; i < 3; i++) {
            CHECK(peer_told(fd, &told));
            REQUIRE(told.id <= 3);
            statuses[told.id] = told.status;
        }
        CHECK_EQ(statuses[1], 20);
        CHECK_EQ(statuses[2], run ? 20 : 31);
        CHECK_EQ(statuses[3], 20);
        CHECK_EQ(stats_of(s.server).expired, !run);
        CHECK_EQ(atomic_load(&s.demo.calls), run ? 3 : 2);
        close(fd);
        serving_end(&s);
    }
}

/* Replies come as they are ready, each with its own id. */
TEST(server__slow_and_fast__answered_out_of_order, "EXC-13")
{
    const struct asked hanging = { .id = 1, .method = "hang" };
    struct asked quick = { .method = "nothing" };
    struct serving s;
    struct told told;
    int fd;

    serve_with(&s, "threads=4&queues=100", NULL);
    fd = peer_open(s.port);
    peer_send(fd, &hanging);
    T_AWAIT(atomic_load(&s.demo.hanging) == 1);
    for (uint64_t id = 2; id < 50; id++) {
        quick.id = id;
        CHECK(peer_ask(fd, &quick, &told));
        CHECK_EQ(told.id, id);
    }
    CHECK_OK(spn_latch_count_down(s.demo.gate));
    CHECK(peer_told(fd, &told));
    CHECK_EQ(told.id, 1);
    close(fd);
    serving_end(&s);
}

/* A reply in pieces arrives whole. */
TEST(server__split_reply__arrives_whole, "EXC-14")
{
    const struct asked asked = { .id = 5, .method = "split", .dubbo = "2.0.0" };
    struct serving s;
    struct told told;
    int fd;

    for (int pooled = 0; pooled <= 1; pooled++) {
        serve_with(&s, pooled ? "threads=2&queues=10" : "dispatcher=direct", NULL);
        fd = peer_open(s.port);
        for (int i = 0; i < 10; i++)
            peer_send(fd, &asked);
        for (int i = 0; i < 10; i++) {
            CHECK(peer_told(fd, &told));
            CHECK_BODY(&told, "\x91\x08split-ok");
        }
        close(fd);
        serving_end(&s);
    }
}

/* Sizes of what was written to sockets, while a test looks at them. */
enum { WRITES_MAX = 1000 };
static atomic_int writes_seen = -1; /* below 0: nobody looks */
static _Atomic(ssize_t) writes[WRITES_MAX];

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    const ssize_t n = __real_sendmsg(fd, message, flags);

    if (n > 0 && atomic_load(&writes_seen) >= 0) {
        const int at = atomic_fetch_add(&writes_seen, 1);

        if (at < WRITES_MAX)
            atomic_store(&writes[at], n);
    }
    return n;
}

static void forget_writes(void)
{
    for (int i = 0; i < WRITES_MAX; i++)
        atomic_store(&writes[i], 0);
    atomic_store(&writes_seen, 0);
}

/* They are noted behind the call: the peer may be ahead. */
static size_t written_in_all(void)
{
    size_t sum = 0;

    for (int i = 0; i < atomic_load(&writes_seen) && i < WRITES_MAX; i++)
        sum += (size_t)atomic_load(&writes[i]);
    return sum;
}

/* Where a part of the stream lies in the writes: the number of those it is in. */
static int writes_of(size_t from, size_t size)
{
    size_t at = 0;
    int count = 0;

    for (int i = 0; i < atomic_load(&writes_seen) && i < WRITES_MAX; i++) {
        const size_t end = at + (size_t)atomic_load(&writes[i]);

        count += at < from + size && end > from;
        at = end;
    }
    return count;
}

/* Asked for one after the other, and all at once: the reply that is split has many writes,
 * those around it, and a heartbeat's, one each. */
TEST(server__split_reply__others_in_one_write, "EXC-14")
{
    enum { SPLIT = 16 + 10, BEAT = 16 + 1, LARGE = 16 + 3 + 1 + 2000 };
    static const char *const queries[] = { "dispatcher=direct", "threads=1&queues=10" };
    const struct asked split = { .id = 5, .method = "split", .dubbo = "2.0.0" };
    const struct asked large = {
        .method = "large", .parameters = "I", .dubbo = "2.0.0", ARGS("\xcf\xd0")
    };
    struct bytes b = { .size = 0 };
    struct serving s;
    struct told told;
    int fd;

    for (size_t i = 0; i < 2; i++) {
        serve_with(&s, queries[i], NULL);
        fd = peer_open(s.port);
        forget_writes();
        CHECK(peer_ask(fd, &split, &told));
        CHECK_BODY(&told, "\x91\x08split-ok");
        CHECK(peer_beat(fd, 6));
        CHECK(peer_ask(fd, &large, &told));
        CHECK_EQ(told.length, LARGE - 16);
        T_AWAIT(written_in_all() == SPLIT + BEAT + LARGE);
        CHECK_EQ(writes_of(0, SPLIT), 9);
        CHECK_EQ(writes_of(SPLIT, BEAT), 1);
        CHECK_EQ(writes_of(SPLIT + BEAT, LARGE), 1);
        close(fd);
        /* All in one piece, which the server answers in the same order. */
        fd = peer_open(s.port);
        forget_writes();
        b.size = 0;
        put_request(&b, &split);
        put_request(&b, &large);
        put_request(&b, &split);
        peer_write(fd, b.data, b.size);
        for (int reply = 0; reply < 3; reply++) {
            CHECK(peer_told(fd, &told));
            CHECK_EQ(told.length, reply == 1 ? LARGE - 16 : SPLIT - 16);
        }
        T_AWAIT(written_in_all() == 2 * SPLIT + LARGE);
        CHECK_EQ(writes_of(0, SPLIT), 9);
        CHECK_EQ(writes_of(SPLIT, LARGE), 1);
        CHECK_EQ(writes_of(SPLIT + LARGE, SPLIT), 9);
        atomic_store(&writes_seen, -1);
        close(fd);
        serving_end(&s);
    }
}

/* ---- connections ----------------------------------------------------------------------- */

/* One connection too many is closed; when one goes there is room again. */
TEST(server__accepts__closes_what_is_too_much, "EXC-15")
{
    struct serving s;
    struct told told;
    int fds[3];

    serve_with(&s, "dispatcher=direct&accepts=2", NULL);
    for (int i = 0; i < 2; i++) {
        fds[i] = peer_open(s.port);
        CHECK(peer_ask(fds[i], &ask_hello, &told));
    }
    fds[2] = peer_open(s.port);
    CHECK(peer_is_closed(fds[2]));
    close(fds[2]);
    CHECK_EQ(stats_of(s.server).refused, 1);
    close(fds[0]);
    T_AWAIT(stats_of(s.server).connections == 1);
    fds[0] = peer_open(s.port);
    CHECK(peer_ask(fds[0], &ask_hello, &told));
    CHECK_EQ(stats_of(s.server).accepted, 3);
    close(fds[0]);
    close(fds[1]);
    serving_end(&s);
}

/* Without `accepts` the limit on descriptors sets it: some are left for other files. */
TEST(server__accepts_unset__leaves_descriptors, "EXC-15")
{
    enum { LIMIT = 64, KEPT = LIMIT / 4 };
    struct rlimit before, low;
    struct serving s;
    int fds[LIMIT];

    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    low = before;
    low.rlim_cur = LIMIT;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
    serve_with(&s, "dispatcher=direct&iothreads=1", NULL);
    /* The peers of the connections are of this process too. */
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    for (int i = 0; i < LIMIT; i++)
        fds[i] = peer_open(s.port);
    T_AWAIT(stats_of(s.server).accepted + stats_of(s.server).refused == LIMIT);
    CHECK(stats_of(s.server).accepted >= 1);
    CHECK(stats_of(s.server).refused >= KEPT);
    for (int i = 0; i < LIMIT; i++)
        close(fds[i]);
    serving_end(&s);
}

/* Beats once more.  Who was held up by the machine for as long as the server waits has been
 * silent himself, and comes again; *last_ns: when he beat last. */
static int beat_again(int fd, int port, uint64_t id, int64_t *last_ns)
{
    const int64_t before_ns = *last_ns;

    *last_ns = spn_now();
    if (peer_beat(fd, id))
        return fd;
    CHECK(spn_now() - before_ns >= SPN_MS(300));
    close(fd);
    *last_ns = spn_now();
    return peer_open(port);
}

/* A silent connection is closed, though every worker hangs; one with heartbeats is not. */
TEST(server__silence__closed_by_the_timer, "EXC-16", "P11")
{
    const struct asked hanging = { .id = 1, .method = "hang" };
    struct serving s;
    int busy_fd, silent, alive;
    uint64_t beats = 0;
    int64_t last_ns;

    serve_with(&s, "threads=1&heartbeat=100&close.timeout=300&dispatcher=message",
               NULL);
    busy_fd = peer_open(s.port);
    peer_send(busy_fd, &hanging);
    T_AWAIT(atomic_load(&s.demo.hanging) == 1);
    silent = peer_open(s.port);
    last_ns = spn_now();
    alive = peer_open(s.port);
    do {
        struct pollfd p = { .fd = silent, .events = POLLIN };

        alive = beat_again(alive, s.port, ++beats, &last_ns);
        if (poll(&p, 1, 20) != 0)
            break;
    } while (beats < 100000);
    CHECK(peer_is_closed(silent));
    alive = beat_again(alive, s.port, 0, &last_ns);
    CHECK(stats_of(s.server).idle_closed >= 1);
    close(busy_fd);
    close(silent);
    close(alive);
    serving_end(&s);
}

/* Times that make no sense are refused. */
/* The timer that looks after silent connections can be looked at. */
TEST(server__timer__has_one_timeout_for_each_connection, "EXC-16", "EXC-22")
{
    spn_timer_stats timer = SPN_TIMER_STATS_INIT;
    struct serving s;
    int fds[3];

    serve_with(&s, "threads=2&queues=10", NULL);
    for (int i = 0; i < 3; i++) {
        fds[i] = peer_open(s.port);
        CHECK(peer_beat(fds[i], 1));
    }
    CHECK_OK(spn_timer_get_stats(spn_server_timer(s.server), &timer));
    CHECK_EQ(timer.pending, 3);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    T_AWAIT(stats_of(s.server).connections == 0);
    CHECK_OK(spn_timer_get_stats(spn_server_timer(s.server), &timer));
    CHECK_EQ(timer.pending, 0);
    serving_end(&s);
}

TEST(server__times_of_silence__checked, "EXC-16")
{
    static const char *const wrong[] = {
        "heartbeat=100&heartbeat.timeout=199",
        "heartbeat=100&close.timeout=199",
        "heartbeat.timeout=1",
        "heartbeat=abc",
        "close.timeout=99999999999",
        "payload=x",
        "accepts=1.5",
        "iothreads=many",
        "connect.queue.capacity=z&dispatcher=connection",
        "threads=-1",
    };
    static const char *const right[] = { "heartbeat=100&heartbeat.timeout=200",
                                         "heartbeat=0", "heartbeat=-5", "payload=-1" };
    spn_problem problem;
    spn_server *server;
    char url[200];

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int rc;

        problem = (spn_problem)SPN_PROBLEM_INIT;
        snprintf(url, sizeof url, "dubbo://127.0.0.1:0?%s", wrong[i]);
        rc = spn_server_create(&server, url, NULL, &problem);
        CHECK(rc == SPN_EINVAL || rc == SPN_ERANGE);
        CHECK(server == NULL);
        CHECK(problem.text[0] != '\0');
    }
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        snprintf(url, sizeof url, "dubbo://127.0.0.1:0?%s", right[i]);
        CHECK_OK(spn_server_create(&server, url, NULL, &problem));
        CHECK_OK(spn_server_destroy(server));
    }
}

/* There is one transport, one serialization and one codec: a URL may name it, and no other. */
TEST(server__foreign_transport_or_codec__refused_with_what_there_is, "EXC-29")
{
    static const char *const rows[][2] = {
        { "transporter=mina", "there is no transporter 'mina'; there is: uv" },
        { "server=netty", "there is no server 'netty'; there is: uv" },
        { "serialization=java",
          "there is no serialization 'java'; there is: hessian2" },
        { "codec=foo", "there is no codec 'foo'; there is: dubbo" },
        { "transporter=uv&server=uv&serialization=hessian2&codec=dubbo", NULL },
        { "transporter=&serialization=&codec=", NULL },
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        spn_problem problem = SPN_PROBLEM_INIT;
        spn_server *server;
        char url[200];
        int rc;

        (void)snprintf(url, sizeof url, "dubbo://127.0.0.1:0?%s", rows[i][0]);
        rc = spn_server_create(&server, url, NULL, &problem);
        CHECK_STATUS(rc, rows[i][1] != NULL ? SPN_EEMPTY : SPN_OK);
        if (rc == SPN_OK)
            CHECK_OK(spn_server_destroy(server));
        else
            CHECK_STR(problem.text, rows[i][1]);
    }
}

/* Gone without an order: what the other side sends is refused. */
static void peer_reset(int fd)
{
    const struct linger none = { .l_onoff = 1, .l_linger = 0 };

    CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none) == 0);
    close(fd);
}

/* A client that goes away leaves nothing behind. */
TEST(server__client_gone__requests_end_without_reply, "EXC-17")
{
    const struct asked hanging = { .id = 1, .method = "hang" };
    const struct asked keeping = { .id = 2, .method = "later" };
    spn_request *request;
    struct serving s;
    int fd;

    serve_with(&s, "threads=1&queues=10&dispatcher=message", NULL);
    fd = peer_open(s.port);
    peer_send(fd, &keeping);
    T_AWAIT((request = atomic_load(&s.demo.kept)) != NULL);
    peer_send(fd, &hanging);
    T_AWAIT(atomic_load(&s.demo.hanging) == 1);
    peer_send(fd, &ask_hello);
    T_AWAIT(pool_stats(spn_server_pool(s.server)).queued == 1);
    peer_reset(fd); /* an end in order would have its replies */
    T_AWAIT(stats_of(s.server).connections == 0);
    CHECK_EQ(stats_of(s.server).in_flight, 3);
    CHECK_STATUS(spn_request_finish(request, SPN_OK), SPN_ECLOSED);
    CHECK_OK(spn_latch_count_down(s.demo.gate));
    T_AWAIT(stats_of(s.server).in_flight == 0);
    CHECK_EQ(stats_of(s.server).dropped, 3);
    serving_end(&s);
}

struct listening {
    atomic_int waiting; /* methods that wait for the end of their caller */
    atomic_int heard;   /* of these with that reason */
    int reason;
};

static int listen_for_end(void *arg, spn_request *request)
{
    struct listening *l = arg;
    spn_cancel_token *token = spn_request_cancel_token(request);
    int rc;

    CHECK(token != NULL);
    CHECK(token == spn_request_cancel_token(request));
    atomic_fetch_add(&l->waiting, 1);
    rc = spn_cancel_token_wait(token, T_LONG_NS);
    if (rc == SPN_OK && spn_cancel_token_reason(token) == l->reason)
        atomic_fetch_add(&l->heard, 1);
    return spn_request_return_text(request, "heard");
}

static const struct asked ask_listen = { .id = 7,
                                         .method = "listen",
                                         .path = "demo.Listening",
                                         .version = "-",
                                         .group = "-",
                                         .dubbo = "2.0.0" };
#define LISTENING(list)                                                                \
    {                                                                                  \
        .size = sizeof(spn_service), .interface = "demo.Listening", .methods = (list), \
        .method_count = sizeof(list) / sizeof *(list),                                 \
    }

/* However a caller goes, its methods hear of it at once, and those of another do not.  One
 * that has only ended its sending side is answered nevertheless. */
TEST(server__caller_gone__methods_hear_of_it, "EXC-25", "EXC-23")
{
    static const char *const queries[] = { "dispatcher=all&threads=4&queues=4",
                                           "dispatcher=message&threads=4&queues=4" };
    enum { CLOSED, RESET, HALF_CLOSED, KINDS };

    for (int kind = 0; kind < KINDS * 2; kind++) {
        struct listening l = { .reason = SPN_ECLOSED };
        const spn_method methods[] = { { "listen", "", listen_for_end, &l } };
        const spn_service service = LISTENING(methods);
        struct serving s;
        struct told told;
        int fd, other;

        serve_with(&s, queries[kind % 2], NULL);
        REQUIRE_OK(spn_server_export(s.server, &service, NULL));
        fd = peer_open(s.port);
        other = peer_open(s.port);
        peer_send(fd, &ask_listen);
        peer_send(fd, &ask_listen);
        peer_send(other, &ask_listen);
        T_AWAIT(atomic_load(&l.waiting) == 3);
        if (kind / 2 == CLOSED)
            close(fd);
        else if (kind / 2 == RESET)
            peer_reset(fd);
        else
            CHECK(shutdown(fd, SHUT_WR) == 0);
        T_AWAIT(stats_of(s.server).in_flight == 1);
        CHECK_EQ(atomic_load(&l.heard), 2);
        if (kind / 2 == HALF_CLOSED) {
            for (int n = 0; n < 2; n++) {
                CHECK(peer_told(fd, &told));
                CHECK_BODY(&told, "\x91\x05heard");
            }
            CHECK(peer_is_closed(fd));
            close(fd);
        }
        close(other);
        T_AWAIT(stats_of(s.server).in_flight == 0);
        CHECK_EQ(atomic_load(&l.heard), 3);
        serving_end(&s);
    }
}

struct hearing {
    spn_cancel_callback callback;
    atomic_int calls, reason;
};

static void on_gone(spn_cancel_callback *callback, int reason)
{
    struct hearing *h = (struct hearing *)(void *)callback;

    atomic_store(&h->reason, reason);
    atomic_fetch_add(&h->calls, 1);
}

/* A deferred request has a token, too, with callbacks; one that is asked for when the caller
 * has gone is cancelled from the start; a reference outlives the request. */
TEST(server__token_of_a_deferred_request__cancelled_with_its_caller, "EXC-25", "EXC-9")
{
    const struct asked keeping = { .id = 2, .method = "later" };
    struct hearing h = { SPN_CANCEL_CALLBACK_INIT(on_gone), 0, 0 };
    spn_cancel_token *kept;
    spn_request *request, *second;
    struct serving s;
    int fd;

    serve_with(&s, "threads=1&queues=10&dispatcher=message", NULL);
    fd = peer_open(s.port);
    peer_send(fd, &keeping);
    T_AWAIT((request = atomic_load(&s.demo.kept)) != NULL);
    peer_send(fd, &keeping);
    T_AWAIT((second = atomic_load(&s.demo.kept)) != request);
    kept = spn_cancel_token_ref(spn_request_cancel_token(request));
    REQUIRE(kept != NULL);
    CHECK_EQ(spn_cancel_token_is_cancelled(kept), 0);
    CHECK_OK(spn_cancel_token_register(kept, &h.callback));
    peer_reset(fd);
    T_AWAIT(atomic_load(&h.calls) == 1);
    CHECK_EQ(atomic_load(&h.reason), SPN_ECLOSED);
    CHECK_EQ(spn_cancel_token_reason(spn_request_cancel_token(second)), SPN_ECLOSED);
    T_AWAIT(stats_of(s.server).connections == 0);
    CHECK_STATUS(spn_request_finish(request, SPN_OK), SPN_ECLOSED);
    CHECK_STATUS(spn_request_finish(second, SPN_OK), SPN_ECLOSED);
    CHECK_EQ(spn_cancel_token_is_cancelled(kept), 1);
    spn_cancel_token_unref(kept);
    CHECK(spn_request_cancel_token(NULL) == NULL);
    serving_end(&s);
}

/* The token of a channel is made when the first asks, also when that is after the end. */
TEST(server__asked_when_the_caller_has_gone__cancelled_from_the_start, "EXC-25")
{
    const struct asked keeping = { .id = 2, .method = "later" };
    spn_request *request;
    struct serving s;
    int fd;

    serve_with(&s, "threads=1&queues=10&dispatcher=message", NULL);
    fd = peer_open(s.port);
    peer_send(fd, &keeping);
    T_AWAIT((request = atomic_load(&s.demo.kept)) != NULL);
    peer_reset(fd);
    T_AWAIT(stats_of(s.server).connections == 0);
    CHECK_EQ(spn_cancel_token_reason(spn_request_cancel_token(request)), SPN_ECLOSED);
    CHECK_STATUS(spn_request_finish(request, SPN_OK), SPN_ECLOSED);
    serving_end(&s);
}

/* stop waits up to its deadline, and then tells the methods that are left; also one that has
 * the I/O thread, which nobody can interrupt. */
TEST(server__stop_at_its_deadline__methods_hear_of_it, "EXC-25", "EXC-19")
{
    static const char *const queries[] = { "dispatcher=message&threads=2&queues=2",
                                           "dispatcher=direct" };

    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        struct listening l = { .reason = SPN_ESHUTDOWN };
        const spn_method methods[] = { { "listen", "", listen_for_end, &l } };
        const spn_service service = LISTENING(methods);
        struct serving s;
        int fd, rc;

        serve_with(&s, queries[i], NULL);
        REQUIRE_OK(spn_server_export(s.server, &service, NULL));
        fd = peer_open(s.port);
        peer_send(fd, &ask_listen);
        T_AWAIT(atomic_load(&l.waiting) == 1);
        rc = spn_server_stop(s.server, SPN_MS(5));
        CHECK(rc == SPN_OK || rc == SPN_ETIMEDOUT);
        T_AWAIT(stats_of(s.server).in_flight == 0);
        CHECK_EQ(atomic_load(&l.heard), 1);
        close(fd);
        serving_end(&s);
    }
}

static void find_unwritten(void *ctx, const spn_channel_info *channel)
{
    size_t *most = ctx;

    if (channel->unwritten > *most)
        *most = channel->unwritten;
}

/* A client that does not read is not read from either, and costs no memory without end:
 * 400 replies of 65 KB are more than sockets and the bound hold. */
TEST(server__client_that_does_not_read__bounded, "EXC-18", "P18")
{
    enum { REQUESTS = 400, BOUND = 1 << 20 };
    const struct asked asked = { .method = "large",
                                 .parameters = "I",
                                 ARGS("\xd4\xfd\xe8") };
    struct told *told = malloc(sizeof *told);
    spn_server_opts opts = SPN_SERVER_OPTS_INIT;
    uint64_t received = 0;
    size_t most = 0;
    struct serving s;
    int fd;

    REQUIRE(told != NULL);
    opts.max_unwritten = BOUND;
    serve_with(&s, "dispatcher=direct", &opts);
    fd = peer_open(s.port);
    for (int i = 0; i < REQUESTS; i++)
        peer_send(fd, &asked);
    for (;;) {
        const spn_server_stats stats = stats_of(s.server);

        CHECK_OK(spn_server_each_channel(s.server, find_unwritten, &most));
        CHECK(most <= BOUND);
        if (received < stats.replies) {
            REQUIRE(peer_told(fd, told));
            received++;
        } else if (stats.replies + stats.dropped == REQUESTS) {
            break;
        } else {
            t_pause();
        }
    }
    CHECK_EQ(stats_of(s.server).requests, REQUESTS);
    CHECK(peer_beat(fd, 1));
    close(fd);
    free(told);
    serving_end(&s);
}

/* ---- half-closed connections, and frames that do not come ---------------------------------- */

/* A client that sends its requests and ends its side has a reply to each, with every
 * dispatcher, and then the end. */
TEST(server__half_closed__answered_and_then_closed, "EXC-23")
{
    static const char *const queries[] = {
        "dispatcher=direct",
        "dispatcher=all&threads=2&queues=10",
        "dispatcher=message&threads=1&queues=10&heartbeat=0&frame.timeout=0",
        "dispatcher=execution&threads=2&queues=10",
        "dispatcher=connection&threads=2&queues=10",
    };
    const struct asked split = { .id = 5, .method = "split", .dubbo = "2.0.0" };
    struct serving s;
    struct told told;

    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        struct bytes b = { .size = 0 };
        int fd;

        serve_with(&s, queries[i], NULL);
        for (int round = 0; round < 20; round++) {
            fd = peer_open(s.port);
            b.size = 0;
            for (int request = 0; request < round % 4; request++)
                put_request(&b, request == 1 ? &split : &ask_hello);
            put(&b, "\xda\xbb\xc2", (size_t)(round % 3)); /* and a beginning */
            peer_write(fd, b.data, b.size);
            CHECK(shutdown(fd, SHUT_WR) == 0);
            for (int request = 0; request < round % 4; request++) {
                CHECK(peer_told(fd, &told));
                CHECK_EQ(told.status, 20);
            }
            CHECK(peer_is_closed(fd));
            close(fd);
        }
        T_AWAIT(stats_of(s.server).connections == 0);
        CHECK_EQ(stats_of(s.server).dropped, 0);
        CHECK_EQ(stats_of(s.server).replies, 5 * (1 + 2 + 3));
        serving_end(&s);
    }
}

/* What this process has worked, in nanoseconds. */
static int64_t cpu_ns(void)
{
    struct timespec used;

    CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0);
    return SPN_SEC((int64_t)used.tv_sec) + used.tv_nsec;
}

/* Requests that take their time: the connection waits for them, asleep, whoever finishes
 * them. */
TEST(server__half_closed_with_slow_requests__waits_asleep, "EXC-23", "NET-8")
{
    const struct asked hanging = { .id = 1, .method = "hang", .dubbo = "2.0.0" };
    const struct asked keeping = { .id = 2, .method = "later", .dubbo = "2.0.0" };
    spn_request *request;
    struct serving s;
    struct told told;
    int64_t before;
    int fd;

    serve_with(&s, "threads=1&queues=10&dispatcher=message", NULL);
    fd = peer_open(s.port);
    peer_send(fd, &keeping);
    T_AWAIT((request = atomic_load(&s.demo.kept)) != NULL);
    peer_send(fd, &hanging);
    T_AWAIT(atomic_load(&s.demo.hanging) == 1);
    CHECK(shutdown(fd, SHUT_WR) == 0);
    before = cpu_ns();
    {
        struct pollfd p = { .fd = fd, .events = POLLIN };

        CHECK_EQ(poll(&p, 1, (int)(T_SMALL_NS / SPN_MS(1))), 0);
    }
    CHECK(cpu_ns() - before < T_SMALL_NS / 2);
    CHECK_EQ(stats_of(s.server).connections, 1);
    CHECK_OK(spn_request_return_int(request, 7));
    CHECK_OK(spn_request_finish(request, SPN_OK));
    CHECK(peer_told(fd, &told));
    CHECK_EQ(told.id, 2);
    CHECK_OK(spn_latch_count_down(s.demo.gate));
    CHECK(peer_told(fd, &told));
    CHECK_EQ(told.id, 1);
    CHECK_BODY(&told, "\x91\x04hung");
    CHECK(peer_is_closed(fd));
    close(fd);
    serving_end(&s);
}

/* A request that is never finished does not keep its half-closed connection. */
TEST(server__half_closed_for_too_long__closed, "EXC-23")
{
    const struct asked keeping = { .id = 2, .method = "later" };
    spn_request *request;
    struct serving s;
    int fd;

    serve_with(&s, "threads=1&queues=10&heartbeat=50&close.timeout=200", NULL);
    fd = peer_open(s.port);
    peer_send(fd, &keeping);
    T_AWAIT((request = atomic_load(&s.demo.kept)) != NULL);
    CHECK(shutdown(fd, SHUT_WR) == 0);
    CHECK(peer_is_closed(fd));
    T_AWAIT(stats_of(s.server).connections == 0);
    CHECK_EQ(stats_of(s.server).in_flight, 1);
    CHECK_STATUS(spn_request_finish(request, SPN_OK), SPN_ECLOSED);
    close(fd);
    serving_end(&s);
}

/* Sends bytes, each a little later than the one before, as long as nothing comes back.
 * How many went out. */
static size_t trickle(int fd, const unsigned char *data, size_t size)
{
    for (size_t at = 0; at < size; at++) {
        struct pollfd p = { .fd = fd, .events = POLLIN };

        peer_write(fd, data + at, 1);
        if (poll(&p, 1, 20) != 0)
            return at + 1;
    }
    return size;
}

/* A frame that comes byte by byte is not waited for for ever: neither its header, nor its
 * body, nor one behind others. */
TEST(server__frame_that_trickles__closed_and_counted, "EXC-24")
{
    enum { LIMIT_MS = 200 };
    struct serving s;
    struct told told;
    struct bytes b = { .size = 0 };
    int fd, polite;

    put_header(&b, TWO_WAY, 0, 1, 5000);
    while (b.size < 5016)
        put_byte(&b, 'x');
    serve_with(&s, "threads=1&queues=10&frame.timeout=200", NULL);
    polite = peer_open(s.port);
    for (int kind = 0; kind < 3; kind++) {
        const int64_t begin = spn_now();
        size_t sent;

        fd = peer_open(s.port);
        if (kind == 1)
            peer_write(fd, b.data, 2000);
        if (kind == 2)
            CHECK(peer_ask(fd, &ask_hello, &told));
        sent = trickle(fd, b.data, b.size);
        CHECK(spn_now() - begin >= SPN_MS(LIMIT_MS));
        CHECK(sent < b.size / 4);
        CHECK(peer_is_closed(fd));
        T_AWAIT(stats_of(s.server).frames_late == (uint64_t)kind + 1);
        close(fd);
        /* Others are not meant, though they say nothing. */
        CHECK(peer_ask(polite, &ask_hello, &told));
        CHECK_EQ(told.status, 20);
    }
    CHECK_EQ(stats_of(s.server).idle_closed, 0);
    close(polite);
    serving_end(&s);
}

/* A large request that takes many times as long as frame.timeout, but comes all the while, is
 * taken; and so is whatever there is for it, with 0. */
TEST(server__large_frame_that_comes_steadily__taken, "EXC-24")
{
    enum { SIZE = 100000, PART = 4000 };
    static const char *const queries[] = { "dispatcher=direct&frame.timeout=100",
                                           "dispatcher=direct&frame.timeout=0" };
    unsigned char *frame = malloc(SIZE);
    struct bytes b = { .size = 0 };
    struct serving s;
    struct told told;

    REQUIRE(frame != NULL);
    memset(frame, 0xff, SIZE);
    put_request(&b, &ask_hello);
    memcpy(frame, b.data, b.size); /* what follows the attachments is passed over */
    frame[12] = 0;
    frame[13] = (SIZE - 16) >> 16 & 0xff;
    frame[14] = (SIZE - 16) >> 8 & 0xff;
    frame[15] = (SIZE - 16) & 0xff;
    for (size_t i = 0; i < 2; i++) {
        int fd;

        serve_with(&s, queries[i], NULL);
        fd = peer_open(s.port);
        for (size_t at = 0; at < SIZE; at += PART) {
            struct pollfd p = { .fd = fd, .events = POLLIN };

            peer_write(fd, frame + at, PART);
            if (at + PART < SIZE)
                CHECK_EQ(poll(&p, 1, 20), 0);
        }
        CHECK(peer_told(fd, &told));
        CHECK_EQ(told.status, 20);
        CHECK_EQ(stats_of(s.server).frames_late, 0);
        close(fd);
        serving_end(&s);
    }
    free(frame);
}

/* ---- the end -------------------------------------------------------------------------------- */

struct stopping {
    spn_server *server;
    int64_t timeout_ns;
    int rc;
};

static void *stop(void *arg)
{
    struct stopping *stopping = arg;

    stopping->rc = spn_server_stop(stopping->server, stopping->timeout_ns);
    return NULL;
}

/* Clients are told, requests in flight are answered, then connections are closed. */
TEST(server__stop__tells_waits_and_closes, "EXC-19")
{
    const struct asked hanging = { .id = 1, .method = "hang", .dubbo = "2.0.0" };

    for (int silent = 0; silent <= 1; silent++) {
        struct stopping stopping;
        struct serving s;
        struct told told;
        pthread_t thread;
        int fd;

        serve_with(&s,
                   silent ? "threads=2&queues=10&channel.readonly.send=false"
                          : "threads=2&queues=10",
                   NULL);
        fd = peer_open(s.port);
        peer_send(fd, &hanging);
        T_AWAIT(atomic_load(&s.demo.hanging) == 1);
        CHECK_STATUS(spn_server_destroy(s.server), SPN_EBUSY);
        stopping = (struct stopping){ s.server, T_LONG_NS, 0 };
        REQUIRE(pthread_create(&thread, NULL, stop, &stopping) == 0);
        if (!silent) {
            CHECK(peer_told(fd, &told));
            CHECK_EQ(told.flags, 0xa2);
            CHECK_BODY(&told, "\1R");
        }
        CHECK(peer_beat(fd, 9)); /* still alive */
        CHECK_OK(spn_latch_count_down(s.demo.gate));
        CHECK(peer_told(fd, &told));
        CHECK_EQ(told.id, 1);
        CHECK_BODY(&told, "\x91\4hung");
        CHECK(peer_is_closed(fd));
        close(fd);
        REQUIRE(pthread_join(thread, NULL) == 0);
        CHECK_OK(stopping.rc);
        CHECK_OK(spn_server_stop(s.server, 0));
        CHECK_OK(spn_server_destroy(s.server));
        CHECK_OK(spn_latch_destroy(s.demo.gate));
    }
}

/* What does not end in time is cut off, so that the client does not take its request for one
 * that was not taken; the server is destroyed when it has ended. */
TEST(server__stop_with_a_hanging_method__timed_out, "EXC-19", "EXC-20")
{
    const struct asked keeping = { .id = 1, .method = "later" };
    spn_request *request;
    struct serving s;
    struct told told;
    char byte;
    int fd;

    serve_with(&s, "threads=2&queues=10", NULL);
    fd = peer_open(s.port);
    peer_send(fd, &keeping);
    T_AWAIT((request = atomic_load(&s.demo.kept)) != NULL);
    CHECK_STATUS(spn_server_stop(s.server, SPN_MS(5)), SPN_ETIMEDOUT);
    CHECK(peer_told(fd, &told)); /* that it stops */
    CHECK(recv(fd, &byte, 1, 0) < 0 && errno == ECONNRESET);
    CHECK_STATUS(spn_server_destroy(s.server), SPN_EBUSY);
    CHECK_STATUS(spn_request_finish(request, SPN_OK), SPN_ECLOSED);
    CHECK_OK(spn_server_stop(s.server, T_LONG_NS));
    CHECK_OK(spn_server_destroy(s.server));
    CHECK_OK(spn_latch_destroy(s.demo.gate));
    close(fd);
}

static int64_t monotonic(void)
{
    return spn_clock_now(spn_clock_monotonic());
}

/* Sends requests for `large`, more than the sockets hold, and reads nothing. */
static int peer_ask_much(int port, int requests)
{
    const struct asked asked = { .method = "large",
                                 .parameters = "I",
                                 ARGS("\xd4\xfd\xe8") };
    const int fd = peer_open(port);

    for (int i = 0; i < requests; i++)
        peer_send(fd, &asked);
    return fd;
}

/* A client that begins to read when an ended connection would have been given up: it is
 * within the time stop has, so it gets every reply, also to the requests that the server had
 * paused to read. */
TEST(server__stop_with_a_late_reader__all_replies_arrive, "EXC-18", "EXC-19")
{
    enum { REQUESTS = 200 };
    const int64_t late_ns = SPN_MS(1500); /* an ended connection lingers 1 s */
    struct told *told = malloc(sizeof *told);
    int64_t begun_ns = monotonic();
    struct stopping stopping;
    struct serving s;
    pthread_t thread;
    int fd, replies = 0;

    REQUIRE(told != NULL);
    serve_with(&s, "dispatcher=direct", NULL);
    fd = peer_ask_much(s.port, REQUESTS);
    T_AWAIT(stats_of(s.server).requests > REQUESTS / 2);
    stopping = (struct stopping){ s.server, late_ns + T_LONG_NS, 0 };
    begun_ns = monotonic();
    REQUIRE(pthread_create(&thread, NULL, stop, &stopping) == 0);
    T_AWAIT(monotonic() - begun_ns > late_ns);
    while (peer_told(fd, told))
        replies += told->flags == 0x02 && told->status == 20 && told->length > 65000;
    CHECK_EQ(replies, REQUESTS);
    close(fd);
    REQUIRE(pthread_join(thread, NULL) == 0);
    CHECK_OK(stopping.rc);
    CHECK_EQ(stats_of(s.server).replies, REQUESTS);
    CHECK_EQ(stats_of(s.server).cut_off, 0);
    CHECK_EQ(stats_of(s.server).cut_off_bytes, 0);
    free(told);
    serving_end(&s);
}

/* A client that never reads costs the time stop has, and no more; others do not wait for it,
 * and what it did not get is told. */
TEST(server__stop_with_a_dead_reader__cut_off_and_counted, "EXC-18", "EXC-19", "EXC-20")
{
    const int64_t timeout_ns = t_scaled(SPN_MS(500));
    struct stopping stopping;
    struct serving s;
    struct told told;
    int64_t begun_ns;
    pthread_t thread;
    int dead, idle;

    serve_with(&s, "dispatcher=direct", NULL);
    dead = peer_ask_much(s.port, 200);
    T_AWAIT(stats_of(s.server).requests > 100);
    idle = peer_open(s.port);
    CHECK(peer_ask(idle, &ask_hello, &told));
    stopping = (struct stopping){ s.server, timeout_ns, 0 };
    begun_ns = monotonic();
    REQUIRE(pthread_create(&thread, NULL, stop, &stopping) == 0);
    CHECK(peer_told(idle, &told));
    CHECK_BODY(&told, "\1R");
    CHECK(peer_is_closed(idle));
    CHECK(monotonic() - begun_ns < timeout_ns);
    close(idle);
    REQUIRE(pthread_join(thread, NULL) == 0);
    CHECK_STATUS(stopping.rc, SPN_ETIMEDOUT);
    CHECK(monotonic() - begun_ns >= timeout_ns);
    CHECK(monotonic() - begun_ns < timeout_ns + T_LONG_NS / 2);
    CHECK_EQ(stats_of(s.server).cut_off, 1);
    CHECK(stats_of(s.server).cut_off_bytes > 65000);
    REQUIRE(spn_server_destroy(s.server) == SPN_EBUSY); /* it is to be called again */
    close(dead);
    serving_end(&s);
}

/* A client that goes on asking though it was told not to: stop does not wait for it for ever,
 * and the stream ends in order behind the reply to the last request that was taken. */
TEST(server__stop_with_a_client_that_insists__what_was_taken_is_answered, "EXC-19",
     "EXC-22")
{
    struct stopping stopping;
    struct serving s;
    struct told told;
    pthread_t thread;
    uint64_t replies = 1;
    int fd, told_to_stop = 0;

    serve_with(&s, "threads=2&queues=10", NULL);
    fd = peer_open(s.port);
    CHECK(peer_ask(fd, &ask_hello, &told));
    stopping = (struct stopping){ s.server, T_LONG_NS, 0 };
    REQUIRE(pthread_create(&thread, NULL, stop, &stopping) == 0);
    peer_send(fd, &ask_hello);
    while (peer_told(fd, &told)) {
        if (told.flags == 0x02) {
            replies++;
            peer_send(fd, &ask_hello);
        } else {
            told_to_stop++;
        }
    }
    close(fd);
    REQUIRE(pthread_join(thread, NULL) == 0);
    CHECK_OK(stopping.rc);
    CHECK_EQ(told_to_stop, 1);
    CHECK_EQ(stats_of(s.server).requests, replies);
    CHECK_EQ(stats_of(s.server).replies, replies);
    CHECK_EQ(stats_of(s.server).dropped, 0);
    serving_end(&s);
}

struct slow_event {
    spn_latch *may_end;
    atomic_int entered;
};

static void end_slowly(void *ctx, spn_channel_event event, const spn_channel_info *info)
{
    struct slow_event *slow = ctx;

    (void)info;
    if (event != SPN_CHANNEL_DISCONNECTED)
        return;
    atomic_store(&slow->entered, 1);
    CHECK_OK(spn_latch_await(slow->may_end, SPN_FOREVER));
}

/* The pool is the program's, and goes on.  Its thread that tells of the end of a connection is
 * waited for, so that a server which was stopped can be destroyed. */
TEST(server__stop_beside_an_event_in_a_shared_pool__destroyed, "EXC-19", "EXC-20")
{
    spn_repository_opts shared = SPN_REPOSITORY_OPTS_INIT;
    spn_server_opts opts = SPN_SERVER_OPTS_INIT;
    struct stopping stopping;
    struct slow_event slow;
    struct serving s;
    struct told told;
    pthread_t thread;
    int fd;

    atomic_init(&slow.entered, 0);
    REQUIRE_OK(spn_latch_create(&slow.may_end, 1));
    REQUIRE_OK(spn_extensions_create(&shared.extensions, NULL));
    REQUIRE_OK(spn_repository_create(&opts.repository, &shared));
    opts.extensions = shared.extensions;
    opts.event = end_slowly;
    opts.ctx = &slow;
    serve_with(&s, "threads=2&queues=10&dispatcher=all", &opts);
    fd = peer_open(s.port);
    CHECK(peer_ask(fd, &ask_hello, &told));
    close(fd);
    T_AWAIT(atomic_load(&slow.entered) == 1);
    CHECK_STATUS(spn_server_stop(s.server, 0), SPN_ETIMEDOUT); /* a second later */
    stopping = (struct stopping){ s.server, T_LONG_NS, 0 };
    REQUIRE(pthread_create(&thread, NULL, stop, &stopping) == 0);
    CHECK_STATUS(spn_server_destroy(s.server), SPN_EBUSY);
    CHECK_OK(spn_latch_count_down(slow.may_end));
    REQUIRE(pthread_join(thread, NULL) == 0);
    CHECK_OK(stopping.rc);
    CHECK_OK(spn_server_destroy(s.server));
    CHECK_OK(spn_latch_destroy(s.demo.gate));
    CHECK_OK(spn_repository_destroy_all(opts.repository, T_LONG_NS));
    CHECK_OK(spn_repository_destroy(opts.repository));
    CHECK_OK(spn_extensions_destroy(shared.extensions));
    CHECK_OK(spn_latch_destroy(slow.may_end));
}

struct self_stop {
    spn_server *server;
    atomic_int rc;
};

static int stop_itself(void *arg, spn_request *request)
{
    struct self_stop *self = arg;

    (void)request;
    atomic_store(&self->rc, spn_server_stop(self->server, SPN_SEC(1)));
    return 0;
}

/* A method that stops its own server is told that it would wait for itself. */
TEST(server__stopped_by_its_own_method__deadlock_told, "EXC-19")
{
    for (int direct = 0; direct <= 1; direct++) {
        struct self_stop self = { NULL, 1 };
        const spn_method methods[] = { { "stop", "", stop_itself, &self } };
        const spn_service service = { .size = sizeof service,
                                      .interface = "demo.Stop",
                                      .methods = methods,
                                      .method_count = 1 };
        const struct asked asked = {
            .method = "stop", .path = "demo.Stop", .version = "-", .group = "-"
        };
        struct serving s;
        struct told told;
        int fd;

        serve_with(&s, direct ? "dispatcher=direct" : "threads=2&queues=5", NULL);
        self.server = s.server;
        CHECK_OK(spn_server_export(s.server, &service, NULL));
        fd = peer_open(s.port);
        CHECK(peer_ask(fd, &asked, &told));
        CHECK_EQ(told.status, 20);
        CHECK_EQ(atomic_load(&self.rc), SPN_EDEADLK);
        CHECK(peer_ask(fd, &ask_hello, &told)); /* and nothing was stopped */
        close(fd);
        serving_end(&s);
    }
}

/* Two servers on one port, one on another machine's address, a server without a start, one
 * that was stopped. */
TEST(server__states__refused_in_words, "EXC-20")
{
    spn_problem problem = SPN_PROBLEM_INIT;
    spn_server *server;
    struct serving s;
    char url[100];

    serve_with(&s, "dispatcher=direct", NULL);
    CHECK_STATUS(spn_server_start(s.server, &problem), SPN_ESTATE);
    snprintf(url, sizeof url, "dubbo://127.0.0.1:%d?dispatcher=direct", s.port);
    REQUIRE_OK(spn_server_create(&server, url, NULL, &problem));
    CHECK_EQ(spn_server_port(server), 0);
    CHECK_STATUS(spn_server_start(server, &problem), SPN_EADDRINUSE);
    CHECK_HAS(problem.text, "127.0.0.1");
    CHECK_OK(spn_server_destroy(server));
    REQUIRE_OK(spn_server_create(&server, "dubbo://192.0.2.1:1?dispatcher=direct", NULL,
                                 &problem)); /* an address of another machine */
    CHECK_STATUS(spn_server_start(server, &problem), SPN_EINVAL);
    CHECK_HAS(problem.text, "192.0.2.1");
    CHECK_HAS(problem.text, "this machine");
    CHECK_OK(spn_server_destroy(server));
    REQUIRE_OK(spn_server_create(&server, url, NULL, &problem));
    CHECK_OK(spn_server_stop(server, 0));
    CHECK_STATUS(spn_server_start(server, &problem), SPN_ESTATE);
    CHECK_OK(spn_server_destroy(server));
    serving_end(&s);
}

/* A live change of the pool, as Dubbo does it; a wrong one changes nothing. */
TEST(server__reset__changes_the_pool, "EXC-21")
{
    spn_problem problem = SPN_PROBLEM_INIT;
    struct serving s;
    spn_pool *pool;
    spn_url *url;

    serve_with(&s, "threads=4", NULL);
    pool = spn_server_pool(s.server);
    CHECK_OK(spn_server_reset(s.server, "dubbo://x:1?threads=7", &problem));
    CHECK_EQ(pool_stats(pool).core_threads, 7);
    CHECK_EQ(pool_stats(pool).max_threads, 7);
    CHECK_STATUS(spn_server_reset(s.server, "dubbo://x:1?threads=x", &problem),
                 SPN_EINVAL);
    CHECK_STATUS(spn_server_reset(s.server, "dubbo://x:1?threads=9&accepts=x",
                                  &problem),
                 SPN_EINVAL);
    CHECK_EQ(pool_stats(pool).max_threads, 7);
    CHECK_OK(spn_server_reset(s.server, "dubbo://x:1?accepts=3", &problem));
    url = spn_server_url(s.server);
    CHECK_STR(spn_url_get(url, NULL, "threads"), "7");
    CHECK_STR(spn_url_get(url, NULL, "accepts"), "3");
    CHECK_EQ(spn_url_port(url), s.port);
    spn_url_unref(url);
    serving_end(&s);
}

static void count_channel(void *ctx, const spn_channel_info *channel)
{
    uint64_t *sums = ctx;

    sums[0]++;
    sums[1] += channel->requests;
    CHECK(channel->is_open);
    CHECK(strncmp(channel->remote, "127.0.0.1:", 10) == 0);
}

static void count_service(void *ctx, const spn_service *service, uint64_t calls)
{
    CHECK_STR(service->interface, DEMO);
    *(uint64_t *)ctx = calls;
}

/* Numbers add up when nothing moves. */
TEST(server__numbers__exact_when_quiet, "EXC-22")
{
    enum { EACH = 50, PEERS = 3 };
    spn_histogram_snapshot latency = SPN_HISTOGRAM_SNAPSHOT_INIT;
    spn_server_opts opts = SPN_SERVER_OPTS_INIT;
    const struct asked failing = { .method = "fails" };
    uint64_t sums[2] = { 0, 0 }, calls = 0, sent = 0;
    spn_server_stats stats;
    struct serving s;
    struct told told;
    int fds[PEERS];

    opts.latency_every = 1;
    serve_with(&s, "threads=3&queues=1000", &opts);
    for (int i = 0; i < PEERS; i++)
        fds[i] = peer_open(s.port);
    for (int n = 0; n < EACH; n++)
        for (int i = 0; i < PEERS; i++) {
            struct bytes b = { .size = 0 };

            put_request(&b, n % 5 == 0 ? &failing : &ask_hello);
            sent += b.size;
            peer_write(fds[i], b.data, b.size);
        }
    for (int n = 0; n < EACH * PEERS; n++)
        CHECK(peer_told(fds[n % PEERS], &told));
    T_AWAIT(stats_of(s.server).in_flight == 0);
    stats = stats_of(s.server);
    CHECK_EQ(stats.connections, PEERS);
    CHECK_EQ(stats.accepted, PEERS);
    CHECK_EQ(stats.requests, EACH * PEERS);
    CHECK_EQ(stats.replies, EACH * PEERS);
    CHECK_EQ(demo_replies(&stats, 20), EACH * PEERS * 4 / 5);
    CHECK_EQ(demo_replies(&stats, 70), EACH * PEERS / 5);
    CHECK_EQ(stats.bytes_in, sent);
    CHECK(stats.bytes_out > EACH * PEERS * 17);
    CHECK_EQ(stats.dispatched[SPN_CHANNEL_REQUEST][SPN_PLACE_PREFERRED], EACH * PEERS);
    CHECK_OK(spn_server_latency(s.server, &latency));
    CHECK_EQ(latency.count, EACH * PEERS);
    CHECK_OK(spn_server_each_channel(s.server, count_channel, sums));
    CHECK_EQ(sums[0], PEERS);
    CHECK_EQ(sums[1], EACH * PEERS);
    CHECK_OK(spn_server_each_service(s.server, count_service, &calls));
    CHECK_EQ(calls, EACH * PEERS);
    for (int i = 0; i < PEERS; i++)
        close(fds[i]);
    serving_end(&s);
}

/* ---- memory ------------------------------------------------------------------------------- */

/* What `memory` may be, and what it may not. */
TEST(server__memory_of_the_url__read_or_refused, "EXC-26")
{
    static const struct {
        const char *value;
        uint64_t limit;
    } good[] = {
        { "0", 0 },          { "65536", 65536 },          { "8k", 8 << 10 },
        { "64m", 64 << 20 }, { "3G", (uint64_t)3 << 30 },
    };
    static const struct {
        const char *value;
        int status;
    } bad[] = {
        { "abc", SPN_EINVAL },  { "64x", SPN_EINVAL },
        { "-1", SPN_EINVAL },   { "1mm", SPN_EINVAL },
        { "m", SPN_EINVAL },    { "99999999999999999", SPN_ERANGE },
        { "1g g", SPN_EINVAL }, { "9999999g", SPN_ERANGE },
    };
    spn_problem problem = SPN_PROBLEM_INIT;
    spn_server *server;
    char url[128];

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        (void)snprintf(url, sizeof url, "dubbo://127.0.0.1:0?memory=%s", good[i].value);
        REQUIRE_OK(spn_server_create(&server, url, NULL, NULL));
        CHECK_EQ(stats_of(server).memory_limit, good[i].limit);
        CHECK_OK(spn_server_destroy(server));
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        (void)snprintf(url, sizeof url, "dubbo://127.0.0.1:0?memory=%s", bad[i].value);
        CHECK_STATUS(spn_server_create(&server, url, NULL, &problem), bad[i].status);
        CHECK_HAS(problem.text, "memory=");
    }
    REQUIRE_OK(spn_server_create(&server, "dubbo://127.0.0.1:0", NULL, NULL));
    CHECK_EQ(stats_of(server).memory_limit, spn__memory_limit() / 4);
    CHECK_OK(spn_server_destroy(server));
}

/* A sayHello whose frame has so many bytes behind the attachments; free it. */
static unsigned char *make_large(size_t size)
{
    unsigned char *frame = malloc(size);
    struct bytes b = { .size = 0 };

    REQUIRE(frame != NULL);
    memset(frame, 0xff, size);
    put_request(&b, &ask_hello);
    memcpy(frame, b.data, b.size);
    frame[12] = 0;
    frame[13] = (size - 16) >> 16 & 0xff;
    frame[14] = (size - 16) >> 8 & 0xff;
    frame[15] = (size - 16) & 0xff;
    return frame;
}

/* A message for which the budget can never have room is refused with its header, and the rest
 * of it passed over: what follows on the connection is answered. */
TEST(server__message_above_the_budget__refused_others_go_on, "EXC-26")
{
    enum { SIZE = 100000, FIRST = 20 };
    unsigned char *frame = make_large(SIZE);
    struct serving s;
    struct told told;
    int fd;

    serve_with(&s, "threads=2&queues=10&memory=64k", NULL);
    fd = peer_open(s.port);
    for (int i = 1; i <= 2; i++) {
        peer_write(fd, frame, FIRST);
        CHECK(peer_told(fd, &told));
        CHECK_EQ(told.status, 40);
        CHECK_HAS(told_text(&told),
                  "with memory=65536 a request has at most 16384 bytes");
        peer_write(fd, frame + FIRST, SIZE - FIRST);
        CHECK(peer_ask(fd, &ask_hello, &told));
        CHECK_EQ(told.status, 20);
        CHECK_EQ(stats_of(s.server).memory_refused, i);
    }
    T_AWAIT(stats_of(s.server).memory_used == 0);
    close(fd);
    serving_end(&s);
    free(frame);
}

/* Unfinished frames have half of the budget.  The one that finds no room is refused at once,
 * and its connection goes on; others are not touched; when one is given up there is room. */
TEST(server__unfinished_frames__bounded_and_refused, "EXC-26", "EXC-27", "NET-32")
{
    enum { SIZE = 50000, PART = 45000 };
    unsigned char *frame = make_large(SIZE);
    struct serving s;
    struct told told;
    int fds[3], polite;

    serve_with(&s, "threads=2&queues=10&memory=256k", NULL);
    polite = peer_open(s.port);
    for (int i = 0; i < 3; i++) {
        fds[i] = peer_open(s.port);
        peer_write(fds[i], frame, PART);
        if (i < 2)
            T_AWAIT(stats_of(s.server).memory_used >
                    (uint64_t)PART * (unsigned)(i + 1));
        CHECK(peer_ask(polite, &ask_hello, &told));
        CHECK_EQ(told.status, 20);
    }
    CHECK(peer_told(fds[2], &told));
    CHECK_EQ(told.status, 100);
    CHECK_HAS(told_text(&told), "memory=262144 bytes are for all connections");
    CHECK_EQ(stats_of(s.server).memory_refused, 1);
    peer_write(fds[2], frame + PART, SIZE - PART);
    CHECK(peer_ask(fds[2], &ask_hello, &told));
    CHECK_EQ(told.status, 20);
    close(fds[0]);
    T_AWAIT(stats_of(s.server).memory_used < 2 * PART);
    peer_write(fds[1], frame + PART, SIZE - PART);
    CHECK(peer_told(fds[1], &told));
    CHECK_EQ(told.status, 20);
    T_AWAIT(stats_of(s.server).memory_used == 0);
    close(fds[1]);
    close(fds[2]);
    close(polite);
    serving_end(&s);
    free(frame);
}

/* No request is in flight, and memory is in use: replies that nobody reads. */
static bool holds_replies(spn_server *server)
{
    const spn_server_stats stats = stats_of(server);

    return stats.in_flight == 0 && stats.memory_used > 0;
}

/* A client that never reads has replies up to three quarters of the budget, and others are
 * answered beside it; when it goes, all is given back. */
TEST(server__unread_replies__bounded, "EXC-26", "EXC-27", "NET-32")
{
    enum { PIECE = 30000, LIMIT = 1 << 20 };
    static const struct asked around = { .id = 7,
                                         .method = "$echo",
                                         .parameters = "Ljava/lang/Object;" };
    unsigned char *frame = malloc(PIECE + 256);
    struct bytes b = { .size = 0 };
    struct serving s;
    struct told told;
    size_t head, size, at = 0;
    int fd, polite;

    REQUIRE(frame != NULL);
    put_request(&b, &around); /* and its argument where the attachments begin */
    head = b.size - 1;
    while (head > 0 && memcmp(b.data + head, "H\5group", 7) != 0)
        head--;
    REQUIRE(head > 0);
    memcpy(frame, b.data, head);
    frame[head] = 'B';
    frame[head + 1] = PIECE >> 8;
    frame[head + 2] = PIECE & 0xff;
    memset(frame + head + 3, 'x', PIECE);
    memcpy(frame + head + 3 + PIECE, b.data + head, b.size - head);
    size = b.size + 3 + PIECE;
    frame[13] = 0;
    frame[14] = (size - 16) >> 8 & 0xff;
    frame[15] = (size - 16) & 0xff;
    serve_with(&s, "threads=2&queues=10000&memory=1m", NULL);
    polite = peer_open(s.port);
    fd = peer_open(s.port);
    for (int i = 0; i < 1000;) {
        struct pollfd p = { .fd = fd, .events = POLLOUT };
        ssize_t sent;

        if (poll(&p, 1, 200) != 1) {
            if (holds_replies(s.server))
                break; /* it reads no more */
            continue;  /* it has not come to it */
        }
        sent = send(fd, frame + at, size - at, MSG_DONTWAIT | MSG_NOSIGNAL);
        REQUIRE(sent > 0);
        at += (size_t)sent;
        if (at == size) {
            at = 0;
            i++;
        }
        CHECK(stats_of(s.server).memory_used <= LIMIT + LIMIT / 5);
    }
    CHECK(peer_ask(polite, &ask_hello, &told));
    CHECK_EQ(told.status, 20);
    CHECK(stats_of(s.server).memory_used > 0);
    close(fd);
    T_AWAIT(stats_of(s.server).memory_used == 0);
    close(polite);
    serving_end(&s);
    free(frame);
}

/* What is refused for want of memory is counted each time, also where all of it has come at
 * once. */
TEST(server__memory_refused__counted_each_time, "EXC-26", "EXC-28")
{
    enum { SIZE = 30000, TIMES = 20 };
    unsigned char *frame = make_large(SIZE);
    struct serving s;
    struct told told;
    int fd;

    serve_with(&s, "threads=2&queues=10&memory=64k", NULL);
    fd = peer_open(s.port);
    for (int i = 0; i < TIMES; i++) {
        peer_write(fd, frame, SIZE);
        CHECK(peer_told(fd, &told));
        CHECK_EQ(told.status, 40);
    }
    CHECK_EQ(stats_of(s.server).memory_refused, TIMES);
    close(fd);
    serving_end(&s);
    free(frame);
}
