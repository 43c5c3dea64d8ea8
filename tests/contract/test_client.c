/* SPDX-License-Identifier: MIT */
/*
 * Calls from the other side: what each ends with, exactly once, whatever the server, the
 * network and the caller do meanwhile.
 */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <spindle/client.h>

#include "cause.h"
#include "future/core.h"
#include "rpc_serving.h"

int spn__connect_status(int why); /* of client_core.h, whose calls are others than
                                     those of futures */

/* ---- a client and its words ---------------------------------------------------------- */

static spn_client *client_of(int port, const char *query)
{
    spn_problem problem = SPN_PROBLEM_INIT;
    spn_client *client;
    char url[300];

    snprintf(url, sizeof url, "dubbo://127.0.0.1:%d?timeout=%lld&%s", port,
             (long long)(T_LONG_NS / SPN_MS(1)), query);
    if (spn_client_create(&client, url, NULL, &problem) != SPN_OK) {
        printf("  %s: %s\n", url, problem.text);
        REQUIRE(false);
    }
    return client;
}

static spn_client_stats client_stats(spn_client *client)
{
    spn_client_stats stats = SPN_CLIENT_STATS_INIT;

    CHECK_OK(spn_client_stats_get(client, &stats));
    return stats;
}

/* Every call has ended, once. */
static void check_sums(spn_client *client)
{
    const spn_client_stats s = client_stats(client);

    CHECK_EQ(s.pending, 0);
    CHECK_EQ(s.calls, s.replies + s.timeouts + s.lost + s.cancelled);
}

static void client_end(spn_client *client)
{
    CHECK_OK(spn_client_close(client, T_LONG_NS));
    check_sums(client);
    CHECK_OK(spn_client_destroy(client));
}

static spn_invocation of(const char *method)
{
    spn_invocation what =
        SPN_INVOCATION_INIT("org.apache.dubbo.demo.DemoService", method);

    what.version = "1.0.0";
    what.group = "g1";
    return what;
}

static spn_harena *arena_of(void)
{
    spn_harena *arena;

    REQUIRE_OK(spn_harena_create(&arena, NULL));
    return arena;
}

/* A child of fork that closes its parent's client is told so at once; the client goes on. */
TEST(client__child_closes_the_parents__refused_at_once, "G-29")
{
    struct serving s;
    const spn_invocation what = of("nothing");
    spn_client *client;
    spn_reply *reply;
    int status = -1;
    pid_t pid;

    serve_with(&s, "threads=2&queues=10", NULL);
    client = client_of(s.port, "");
    fflush(NULL);
    pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        (void)alarm((unsigned)(T_LONG_NS / SPN_SEC(1))); /* one that hangs fails */
        _exit(CHECK_STATUS(spn_client_close(client, T_LONG_NS), SPN_ESTATE) &&
                      CHECK_STATUS(spn_client_destroy(client), SPN_EBUSY)
                  ? 0
                  : 1);
    }
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK_EQ(status, 0);
    CHECK_OK(spn_client_call(client, &what, &reply, NULL));
    spn_reply_destroy(reply);
    client_end(client);
    serving_end(&s);
}

/* ---- a server that does what it is told --------------------------------------------- */

struct fake {
    int listener, port;
    int fd; /* the connection; -1: none yet */
};

/* Has the port, and nobody listens there. */
static void fake_reserve(struct fake *f)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t size = sizeof address;

    f->fd = -1;
    f->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(f->listener >= 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(bind(f->listener, (struct sockaddr *)&address, sizeof address) == 0);
    REQUIRE(getsockname(f->listener, (struct sockaddr *)&address, &size) == 0);
    f->port = ntohs(address.sin_port);
}

static void fake_open(struct fake *f)
{
    fake_reserve(f);
    REQUIRE(listen(f->listener, 8) == 0);
}

static void fake_accept(struct fake *f)
{
    f->fd = accept(f->listener, NULL, NULL);
    REQUIRE(f->fd >= 0);
}

/* The id of the next request; its body is passed over. */
static uint64_t fake_take(struct fake *f)
{
    static struct told told;

    REQUIRE(peer_told(f->fd, &told));
    return told.id;
}

static void fake_reply(struct fake *f, uint64_t id, int status, const void *body,
                       uint32_t size)
{
    struct bytes b = { .size = 0 };

    put_header(&b, 0x02, status, id, size);
    put(&b, body, size);
    peer_write(f->fd, b.data, b.size);
}

static void fake_close(struct fake *f)
{
    if (f->fd >= 0)
        close(f->fd);
    if (f->listener >= 0)
        close(f->listener);
}

/* ---- events ----------------------------------------------------------------------------- */

struct told_events {
    spn_client *client;
    atomic_int of[SPN_CHANNEL_EVENTS];
    atomic_int on_io[SPN_CHANNEL_EVENTS]; /* of these on the I/O thread */
    atomic_int lost;                      /* why the last one was disconnected */
};

static void note_event(void *ctx, spn_channel_event event, const spn_channel_info *info)
{
    struct told_events *told = ctx;
    char name[32] = "";

    CHECK(strncmp(info->remote, "127.0.0.1:", 10) == 0);
    pthread_getname_np(pthread_self(), name, sizeof name);
    if (strncmp(name, "spn-client", 10) == 0)
        atomic_fetch_add(&told->on_io[event], 1);
    if (event == SPN_CHANNEL_DISCONNECTED)
        atomic_store(&told->lost, info->error);
    atomic_fetch_add(&told->of[event], 1);
}

/* A client hears of its connections where the dispatcher says: that one stands, that what
 * came on it is no frame, and that it is gone. */
TEST(client__events__told_where_the_dispatcher_says, "DSP-1", "CLI-18")
{
    static const struct {
        const char *name;
        bool connected, disconnected, caught; /* on the I/O thread */
    } table[] = {
        { "all", false, false, false },        { "direct", true, true, true },
        { "message", true, true, true },       { "execution", true, true, true },
        { "connection", false, false, false },
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        spn_client_opts opts = SPN_CLIENT_OPTS_INIT;
        struct told_events told;
        struct fake f;
        char url[200];

        memset(&told, 0, sizeof told);
        opts.event = note_event;
        opts.ctx = &told;
        fake_open(&f);
        snprintf(url, sizeof url, "dubbo://127.0.0.1:%d?reconnect=false&dispatcher=%s",
                 f.port, table[i].name);
        REQUIRE_OK(spn_client_create(&told.client, url, &opts, NULL));
        fake_accept(&f);
        T_AWAIT(atomic_load(&told.of[SPN_CHANNEL_CONNECTED]) == 1);
        peer_write(f.fd, "this is no frame", 16);
        T_AWAIT(atomic_load(&told.of[SPN_CHANNEL_DISCONNECTED]) == 1 &&
                atomic_load(&told.of[SPN_CHANNEL_CAUGHT]) == 1);
        CHECK_EQ(atomic_load(&told.lost), SPN_EPROTO);
        CHECK_EQ(atomic_load(&told.on_io[SPN_CHANNEL_CONNECTED]), table[i].connected);
        CHECK_EQ(atomic_load(&told.on_io[SPN_CHANNEL_DISCONNECTED]),
                 table[i].disconnected);
        CHECK_EQ(atomic_load(&told.on_io[SPN_CHANNEL_CAUGHT]), table[i].caught);
        client_end(told.client);
        CHECK_EQ(atomic_load(&told.of[SPN_CHANNEL_CONNECTED]), 1);
        CHECK_EQ(atomic_load(&told.of[SPN_CHANNEL_DISCONNECTED]), 1);
        CHECK_EQ(atomic_load(&told.of[SPN_CHANNEL_SENT]), 0);
        fake_close(&f);
    }
}

/* ---- calls -------------------------------------------------------------------------------- */

TEST(client__call__value_through_each_dispatcher, "CLI-1", "S-12")
{
    static const char *const dispatchers[] = { "all", "direct", "message", "execution",
                                               "connection" };

    for (size_t i = 0; i < sizeof dispatchers / sizeof *dispatchers; i++) {
        struct serving s;
        spn_harena *arena = arena_of();
        spn_hvalue *name = spn_harena_text(arena, "bob");
        spn_invocation hello = of("sayHello");
        spn_client *client;
        spn_reply *reply;
        char query[64];

        serve_with(&s, "threads=4&queues=16", NULL);
        snprintf(query, sizeof query, "dispatcher=%s", dispatchers[i]);
        client = client_of(s.port, query);
        hello.parameters = "Ljava/lang/String;";
        hello.arguments = &name;
        hello.argument_count = 1;
        CHECK_OK(spn_client_call(client, &hello, &reply, NULL));
        CHECK_STR(spn_hvalue_text(spn_reply_value(reply)), "hello bob");
        CHECK_EQ(spn_reply_status(reply), 20);
        CHECK(spn_reply_exception(reply) == NULL);
        CHECK_STR(spn_hvalue_text(
                      spn_hvalue_get(spn_reply_attachments(reply), "dubbo")),
                  "2.0.2");
        spn_reply_destroy(reply);
        client_end(client);
        serving_end(&s);
        spn_harena_destroy(arena);
    }
}

TEST(client__exception_error_and_refusal__each_its_status, "CLI-2")
{
    struct serving s;
    spn_problem problem = SPN_PROBLEM_INIT;
    spn_invocation what = of("fail");
    spn_client *client;
    spn_reply *reply;

    serve_with(&s, "threads=4&queues=16", NULL);
    client = client_of(s.port, "");
    CHECK_STATUS(spn_client_call(client, &what, &reply, &problem), SPN_EREMOTE);
    CHECK_EQ(spn_reply_status(reply), 20);
    CHECK_STR(spn_hvalue_type(spn_reply_exception(reply)),
              "java.lang.IllegalStateException");
    CHECK_STR(spn_reply_message(reply), "boom");
    CHECK_STR(problem.text, "boom");
    CHECK(spn_reply_value(reply) == NULL);
    spn_reply_destroy(reply);

    what = of("busy");
    CHECK_STATUS(spn_client_call(client, &what, &reply, NULL), SPN_EREJECTED);
    CHECK_EQ(spn_reply_status(reply), 100);
    CHECK(strstr(spn_reply_message(reply), "exhausted") != NULL);
    spn_reply_destroy(reply);

    what = of("noSuchMethod");
    CHECK_STATUS(spn_client_call(client, &what, &reply, &problem), SPN_EREMOTE);
    CHECK_EQ(spn_reply_status(reply), 70);
    CHECK(strstr(problem.text, "no such method") != NULL);
    spn_reply_destroy(reply);

    what = of("nothing");
    CHECK_OK(spn_client_call(client, &what, &reply, NULL));
    CHECK_EQ(spn_hvalue_kind(spn_reply_value(reply)), SPN_HNULL);
    CHECK(spn_reply_value(reply) != NULL);
    spn_reply_destroy(reply);
    client_end(client);
    serving_end(&s);
}

/* The same calls with a future: it fails with the code that call returns, and says why. */
TEST(client__submit_of_a_call_that_fails__future_fails_as_call_does, "CLI-2", "CLI-3")
{
    static const struct {
        const char *method;
        int code;
        const char *text; /* what the future's text begins with */
    } cases[] = {
        { "fail", SPN_EREMOTE, "java.lang.IllegalStateException: boom" },
        { "busy", SPN_EREJECTED, "" },
        { "noSuchMethod", SPN_EREMOTE, "" },
    };
    struct serving s;
    spn_client *client;

    serve_with(&s, "threads=4&queues=16", NULL);
    client = client_of(s.port, "");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const spn_invocation what = of(cases[i].method);
        spn_problem problem = SPN_PROBLEM_INIT;
        char text[SPN_FUTURE_MESSAGE_MAX] = "";
        void *value = NULL;
        spn_reply *reply;
        spn_future *future;
        int code = SPN_OK;

        CHECK_STATUS(spn_client_call(client, &what, &reply, &problem), cases[i].code);
        spn_reply_destroy(reply);
        REQUIRE_OK(spn_client_submit(client, &what, &future));
        CHECK_STATUS(spn_future_get(future, &value, T_LONG_NS), SPN_EFAILED);
        spn_reply_destroy(value);
        (void)t_cause(future, &code, text, sizeof text);
        CHECK_STATUS(code, cases[i].code);
        CHECK(strncmp(text, cases[i].text, strlen(cases[i].text)) == 0);
        if (cases[i].text[0] == '\0') /* no exception: the server's own words */
            CHECK(text[0] != '\0' && strncmp(text, problem.text, strlen(text)) == 0);
        spn_future_unref(future);
    }
    client_end(client);
    serving_end(&s);
}

/* A server that gave up has no exception to show; and an exception may have no message. */
TEST(client__submit_answered_without_a_text__status_or_class_is_the_text, "CLI-2",
     "CLI-3")
{
    /* the flag 0, the class "E" without fields, and an object of it */
    static const char exception[] = { (char)0x90, 'C', 1, 'E', (char)0x90, 0x60 };
    static const struct {
        int status;
        const char *body;
        uint32_t size;
        int code;
        const char *text;
    } cases[] = {
        { 20, exception, sizeof exception, SPN_EREMOTE, "E" },
        { 31, "\0", 1, SPN_ETIMEDOUT, "" },
        { 80, "\4gone", 5, SPN_EREMOTE, "gone" },
    };
    const spn_invocation what = of("nothing");
    spn_client *client;
    struct fake f;

    fake_open(&f);
    client = client_of(f.port, "heartbeat=0");
    fake_accept(&f);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *expected =
            cases[i].text[0] != '\0' ? cases[i].text : spn_status_text(cases[i].code);
        char text[SPN_FUTURE_MESSAGE_MAX] = "";
        spn_future *future;
        int code = SPN_OK;

        REQUIRE_OK(spn_client_submit(client, &what, &future));
        fake_reply(&f, fake_take(&f), cases[i].status, cases[i].body, cases[i].size);
        CHECK_STATUS(spn_future_get(future, NULL, T_LONG_NS), SPN_EFAILED);
        (void)t_cause(future, &code, text, sizeof text);
        CHECK_STATUS(code, cases[i].code);
        CHECK_STR(text, expected);
        spn_future_unref(future);
    }
    client_end(client);
    fake_close(&f);
}

struct seen {
    pthread_t thread;
    atomic_int done;
};

static int note_thread(void *arg, const spn_outcome *outcome, void **result)
{
    struct seen *seen = arg;

    (void)outcome;
    (void)result;
    seen->thread = pthread_self();
    atomic_store(&seen->done, 1);
    return 0;
}

TEST(client__submit__future_has_the_reply, "CLI-3")
{
    struct serving s;
    spn_invocation what = of("nothing");
    struct seen seen = { .done = 0 };
    spn_client *client;
    spn_future *future, *stage;
    void *value;

    serve_with(&s, "threads=4&queues=16", NULL);
    client = client_of(s.port, "");
    REQUIRE_OK(spn_client_submit(client, &what, &future));
    REQUIRE_OK(spn_future_handle(future, NULL, note_thread, &seen, &stage));
    CHECK_OK(spn_future_get(future, &value, T_LONG_NS));
    CHECK_OK(spn_reply_check(value));
    T_AWAIT(atomic_load(&seen.done));
    spn_reply_destroy(value);
    spn_future_unref(stage);
    spn_future_unref(future);

    /* Nobody reads it: freed with the future. */
    REQUIRE_OK(spn_client_submit(client, &what, &future));
    T_AWAIT(spn_future_get_state(future) != SPN_FUTURE_PENDING);
    spn_future_unref(future);
    client_end(client);
    serving_end(&s);
}

struct hanging {
    spn_latch *gate;
    atomic_int began;
};

static int hang_here(void *arg, const spn_outcome *outcome, void **result)
{
    struct hanging *h = arg;

    (void)outcome;
    (void)result;
    atomic_store(&h->began, 1);
    CHECK_OK(spn_latch_await(h->gate, T_LONG_NS));
    return 0;
}

static int note_name(void *arg, const spn_outcome *outcome, void **result)
{
    (void)outcome;
    (void)result;
    return pthread_getname_np(pthread_self(), arg, 16);
}

/* The pool's only thread hangs: the next reply is there all the same, by the thread that
 * each policy leaves for it. */
TEST(client__pool_refuses_the_reply__call_has_it, "CLI-3", "CLI-16", "P10")
{
    static const struct {
        const char *policy, *thread;
    } cases[] = {
        { "abort", "Dubbo-framewo" }, /* refused: the shared executor has it */
        { "discard", "spn-client" },  /* taken and dropped: nobody else is left */
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fake f;
        struct hanging h = { .began = 0 };
        spn_invocation what = of("nothing");
        spn_future *futures[2], *stages[2];
        char query[160], thread[16] = "";
        spn_client *client;
        void *value;

        fake_open(&f);
        snprintf(query, sizeof query,
                 "heartbeat=0&dispatcher=message&threadpool=fixed&threads=1&queues=0&"
                 "dump.enable=false&reject=%s",
                 cases[i].policy);
        client = client_of(f.port, query);
        fake_accept(&f);
        REQUIRE_OK(spn_latch_create(&h.gate, 1));
        REQUIRE_OK(spn_client_submit(client, &what, &futures[0]));
        REQUIRE_OK(spn_future_handle(futures[0], NULL, hang_here, &h, &stages[0]));
        fake_reply(&f, fake_take(&f), 20, "\x92", 1);
        T_AWAIT(atomic_load(&h.began));
        REQUIRE_OK(spn_client_submit(client, &what, &futures[1]));
        REQUIRE_OK(spn_future_handle(futures[1], NULL, note_name, thread, &stages[1]));
        fake_reply(&f, fake_take(&f), 20, "\x91\2ok", 4);
        CHECK_OK(spn_future_get(futures[1], &value, T_LONG_NS));
        CHECK_STR(spn_hvalue_text(spn_reply_value(value)), "ok");
        CHECK_OK(spn_future_get(stages[1], NULL, T_LONG_NS));
        if (strncmp(thread, cases[i].thread, strlen(cases[i].thread)) != 0) {
            printf("  %s: by %s\n", cases[i].policy, thread);
            CHECK(false);
        }
        (void)spn_latch_count_down(h.gate);
        CHECK_OK(spn_future_get(stages[0], NULL, T_LONG_NS));
        spn_reply_destroy(value);
        CHECK_OK(spn_future_get(futures[0], &value, T_LONG_NS));
        spn_reply_destroy(value); /* its stage was a reader, too */
        for (int k = 0; k < 2; k++) {
            spn_future_unref(stages[k]);
            spn_future_unref(futures[k]);
        }
        CHECK_EQ(client_stats(client).replies, 2);
        client_end(client);
        CHECK_OK(spn_latch_destroy(h.gate));
        fake_close(&f);
    }
}

TEST(client__send__runs_and_brings_no_reply, "CLI-4")
{
    struct serving s;
    spn_invocation what = of("nothing");
    spn_client *client;

    serve_with(&s, "threads=4&queues=16", NULL);
    client = client_of(s.port, "lazy=true");
    for (int i = 0; i < 10; i++)
        CHECK_OK(spn_client_send(client, &what));
    T_AWAIT(atomic_load(&s.demo.calls) == 10);
    CHECK_EQ(client_stats(client).one_way, 10);
    CHECK_EQ(client_stats(client).calls, 0);
    T_AWAIT(stats_of(s.server).one_way == 10);
    client_end(client);
    serving_end(&s);
}

/* ---- time ------------------------------------------------------------------------------------ */

TEST(client__no_reply__timeout_says_it_was_sent, "CLI-5")
{
    struct serving s;
    spn_problem problem = SPN_PROBLEM_INIT;
    spn_invocation what = of("never");
    spn_client *client;
    spn_reply *reply = (spn_reply *)&s;
    int64_t start;
    int tries = 0;

    serve_with(&s, "threads=4&queues=16", NULL);
    client = client_of(s.port, "");
    /* Longer and longer: on a busy machine the loop may not have written it so soon. */
    what.timeout_ns = T_SHORT_NS / 2;
    do {
        what.timeout_ns *= 2;
        tries++;
        start = spn_now();
        CHECK_STATUS(spn_client_call(client, &what, &reply, &problem), SPN_ETIMEDOUT);
        CHECK(spn_now() - start >= what.timeout_ns);
        CHECK(reply == NULL);
    } while (strstr(problem.text, "Waiting server-side response timeout") == NULL &&
             what.timeout_ns < T_LONG_NS);
    CHECK(strstr(problem.text, "Waiting server-side response timeout") != NULL);
    CHECK_EQ(client_stats(client).timeouts, tries);
    client_end(client);
    serving_end(&s);
}

/* No limit is one, too. */
TEST(client__endless_timeout__waits_for_the_reply, "CLI-1")
{
    struct serving s;
    spn_invocation what = of("nothing");
    spn_client *client;
    spn_reply *reply;

    serve_with(&s, "threads=4&queues=16", NULL);
    client = client_of(s.port, "");
    what.timeout_ns = SPN_FOREVER;
    CHECK_OK(spn_client_call(client, &what, &reply, NULL));
    spn_reply_destroy(reply);
    client_end(client);
    serving_end(&s);
}

TEST(client__server_that_never_reads__timeout_says_it_was_not_sent, "CLI-5")
{
    enum { LARGE = 4 * 1024 * 1024 };
    struct fake f;
    spn_problem problem = SPN_PROBLEM_INIT;
    spn_invocation what = of("sayHello");
    spn_harena *arena = arena_of();
    spn_hvalue *name;
    spn_client *client;
    spn_reply *reply;
    spn_future *before[3];
    char *text = malloc(LARGE);

    REQUIRE(text != NULL);
    memset(text, 'x', LARGE);
    name = spn_harena_string(arena, text, LARGE);
    fake_open(&f);
    client = client_of(f.port, "heartbeat=0");
    fake_accept(&f);
    what.parameters = "Ljava/lang/String;";
    what.arguments = &name;
    what.argument_count = 1;
    what.timeout_ns = T_SHORT_NS;
    /* More than the sockets hold, and nobody reads it. */
    for (int i = 0; i < 3; i++)
        REQUIRE_OK(spn_client_submit(client, &what, &before[i]));
    CHECK_STATUS(spn_client_call(client, &what, &reply, &problem), SPN_ETIMEDOUT);
    CHECK(strstr(problem.text, "Sending request timeout in client-side") != NULL);
    for (int i = 0; i < 3; i++) {
        CHECK_STATUS(spn_future_get(before[i], NULL, T_LONG_NS), SPN_EFAILED);
        spn_future_unref(before[i]);
    }
    client_end(client);
    fake_close(&f);
    free(text);
    spn_harena_destroy(arena);
}

TEST(client__late_reply__counted_and_nothing_else, "CLI-6")
{
    struct fake f;
    spn_invocation what = of("nothing");
    spn_client *client;
    spn_reply *reply;
    spn_future *next;
    void *value;
    uint64_t id;

    fake_open(&f);
    client = client_of(f.port, "heartbeat=0");
    fake_accept(&f);
    what.timeout_ns = T_SHORT_NS;
    CHECK_STATUS(spn_client_call(client, &what, &reply, NULL), SPN_ETIMEDOUT);
    id = fake_take(&f);
    fake_reply(&f, id, 20, "\x92", 1);
    fake_reply(&f, id, 20, "\x92", 1); /* and once more */
    T_AWAIT(client_stats(client).late == 2);

    what.timeout_ns = 0;
    REQUIRE_OK(spn_client_submit(client, &what, &next));
    fake_reply(&f, fake_take(&f), 20, "\x92", 1);
    CHECK_OK(spn_future_get(next, &value, T_LONG_NS));
    spn_reply_destroy(value);
    spn_future_unref(next);
    client_end(client);
    fake_close(&f);
}

/* ---- giving up --------------------------------------------------------------------------------- */

TEST(client__cancel__gives_the_reply_up, "CLI-7")
{
    struct fake f;
    spn_invocation what = of("nothing");
    spn_client *client;
    spn_future *future;
    uint64_t id;

    fake_open(&f);
    client = client_of(f.port, "heartbeat=0");
    fake_accept(&f);
    REQUIRE_OK(spn_client_submit(client, &what, &future));
    id = fake_take(&f);
    CHECK_EQ(client_stats(client).pending, 1);
    CHECK_EQ(spn_future_cancel(future, 0), 1);
    CHECK_EQ(client_stats(client).pending, 0);
    CHECK_EQ(client_stats(client).cancelled, 1);
    fake_reply(&f, id, 20, "\x92", 1);
    T_AWAIT(client_stats(client).late == 1);
    CHECK_STATUS(spn_future_get(future, NULL, 0), SPN_ECANCELED);
    spn_future_unref(future);
    client_end(client);
    fake_close(&f);
}

/* What is told of a future before its own hook is. */
struct early {
    struct spn__edge edge;
    spn_latch *told, *go_on;
    spn_future *future;
};

static void tell_early(struct spn__edge *edge, struct spn_future *source,
                       struct spn__work *work)
{
    struct early *e = edge->owner;

    (void)source;
    (void)work;
    (void)spn_latch_count_down(e->told);
    CHECK_OK(spn_latch_await(e->go_on, T_LONG_NS));
}

static void *cancel_early(void *arg)
{
    struct early *e = arg;

    CHECK_EQ(spn_future_cancel(e->future, 0), 1);
    return NULL;
}

/* The reply comes while a thread cancels: until that is through with the client, the call
 * is pending and close waits. */
TEST(client__reply_while_it_is_cancelled__client_stays_until_both_are_through, "CLI-7")
{
    struct fake f;
    struct early e = { .edge = { .fire = tell_early } };
    spn_invocation what = of("nothing");
    spn_client *client;
    pthread_t thread;

    fake_open(&f);
    client = client_of(f.port, "heartbeat=0");
    fake_accept(&f);
    REQUIRE_OK(spn_latch_create(&e.told, 1));
    REQUIRE_OK(spn_latch_create(&e.go_on, 1));
    REQUIRE_OK(spn_client_submit(client, &what, &e.future));
    e.edge.owner = &e;
    REQUIRE(spn__edge_add(&e.edge, e.future));
    REQUIRE(pthread_create(&thread, NULL, cancel_early, &e) == 0);
    CHECK_OK(spn_latch_await(e.told, T_LONG_NS));
    fake_reply(&f, fake_take(&f), 20, "\x92", 1);
    fake_reply(&f, 1, 20, "\x92", 1); /* nobody's: behind the other */
    T_AWAIT(client_stats(client).replies == 1 && client_stats(client).late == 1);
    CHECK_EQ(client_stats(client).pending, 1);
    (void)spn_latch_count_down(e.go_on);
    client_end(client);
    REQUIRE(pthread_join(thread, NULL) == 0);
    spn_future_unref(e.future);
    CHECK_OK(spn_latch_destroy(e.told));
    CHECK_OK(spn_latch_destroy(e.go_on));
    fake_close(&f);
}

struct caller {
    spn_client *client;
    spn_thread *thread;
    int rc;
};

static int call_never(void *arg)
{
    struct caller *c = arg;
    spn_invocation what = of("never");
    spn_reply *reply;

    c->rc = spn_client_call(c->client, &what, &reply, NULL);
    return 0;
}

TEST(client__interrupt__ends_the_call_that_waits, "CLI-7")
{
    struct fake f;
    struct caller c = { .rc = 1 };

    fake_open(&f);
    c.client = client_of(f.port, "heartbeat=0");
    fake_accept(&f);
    REQUIRE_OK(spn_thread_create(&c.thread, NULL, call_never, &c));
    (void)fake_take(&f); /* it waits, or is about to */
    CHECK_OK(spn_thread_interrupt(c.thread));
    CHECK_OK(spn_thread_join(c.thread, T_LONG_NS, NULL));
    spn_thread_unref(c.thread);
    CHECK_STATUS(c.rc, SPN_EINTR);
    client_end(c.client);
    fake_close(&f);
}

/* ---- connections -------------------------------------------------------------------------------- */

TEST(client__connection_lost__all_its_calls_end_at_once, "CLI-8", "P12")
{
    enum { CALLS = 50 };
    struct fake f;
    spn_invocation what = of("nothing");
    spn_future *futures[CALLS];
    spn_client *client;

    fake_open(&f);
    client = client_of(f.port, "heartbeat=0&reconnect=false");
    fake_accept(&f);
    for (int i = 0; i < CALLS; i++)
        REQUIRE_OK(spn_client_submit(client, &what, &futures[i]));
    for (int i = 0; i < CALLS; i++)
        (void)fake_take(&f);
    close(f.fd);
    f.fd = -1;
    for (int i = 0; i < CALLS; i++) {
        int code = 0;

        CHECK_STATUS(spn_future_get(futures[i], NULL, T_LONG_NS), SPN_EFAILED);
        CHECK_OK(t_cause(futures[i], &code, NULL, 0));
        CHECK_STATUS(code, SPN_ECLOSED);
        spn_future_unref(futures[i]);
    }
    CHECK_EQ(client_stats(client).lost, CALLS);
    client_end(client);
    fake_close(&f);
}

/* A server answers and closes: a reply that waits for the pool's only thread is not
 * overtaken by the loss of its connection. */
TEST(client__connection_lost_behind_a_reply__call_has_it, "CLI-8", "CLI-3")
{
    struct fake f;
    struct hanging h = { .began = 0 };
    spn_invocation what = of("nothing");
    spn_future *futures[3], *stage;
    spn_client *client;
    void *value;
    int code = 0;

    fake_open(&f);
    client = client_of(f.port, "heartbeat=0&reconnect=false&dispatcher=message&"
                               "threadpool=fixed&threads=1&queues=10");
    fake_accept(&f);
    REQUIRE_OK(spn_latch_create(&h.gate, 1));
    REQUIRE_OK(spn_client_submit(client, &what, &futures[0]));
    REQUIRE_OK(spn_future_handle(futures[0], NULL, hang_here, &h, &stage));
    fake_reply(&f, fake_take(&f), 20, "\x92", 1);
    T_AWAIT(atomic_load(&h.began));
    REQUIRE_OK(spn_client_submit(client, &what, &futures[1]));
    fake_reply(&f, fake_take(&f), 20, "\x91\2ok", 4);
    REQUIRE_OK(spn_client_submit(client, &what, &futures[2]));
    (void)fake_take(&f);
    close(f.fd);
    f.fd = -1;
    CHECK_STATUS(spn_future_get(futures[2], NULL, T_LONG_NS), SPN_EFAILED);
    CHECK_OK(t_cause(futures[2], &code, NULL, 0));
    CHECK_STATUS(code, SPN_ECLOSED); /* so the loss is known */
    (void)spn_latch_count_down(h.gate);
    CHECK_OK(spn_future_get(futures[1], &value, T_LONG_NS));
    CHECK_STR(spn_hvalue_text(spn_reply_value(value)), "ok");
    spn_reply_destroy(value);
    CHECK_OK(spn_future_get(stage, NULL, T_LONG_NS));
    CHECK_OK(spn_future_get(futures[0], &value, T_LONG_NS));
    spn_reply_destroy(value);
    spn_future_unref(stage);
    for (int i = 0; i < 3; i++)
        spn_future_unref(futures[i]);
    CHECK_EQ(client_stats(client).lost, 1);
    client_end(client);
    CHECK_OK(spn_latch_destroy(h.gate));
    fake_close(&f);
}

TEST(client__nobody_listens__create_says_so_unless_told_not_to, "CLI-9")
{
    struct fake f;
    spn_problem problem = SPN_PROBLEM_INIT;
    spn_invocation what = of("nothing");
    spn_client *client;
    spn_reply *reply;
    char url[100];

    fake_reserve(&f);
    snprintf(url, sizeof url, "dubbo://127.0.0.1:%d", f.port);
    CHECK_STATUS(spn_client_create(&client, url, NULL, &problem), SPN_EUNREACHABLE);
    CHECK(client == NULL);
    CHECK(strstr(problem.text, "127.0.0.1") != NULL);

    snprintf(url, sizeof url, "dubbo://127.0.0.1:%d?check=false&reconnect=false",
             f.port);
    REQUIRE_OK(spn_client_create(&client, url, NULL, NULL));
    CHECK_STATUS(spn_client_call(client, &what, &reply, NULL), SPN_EUNREACHABLE);
    CHECK(client_stats(client).failures >= 2);
    client_end(client);
    fake_close(&f);
}

/* Whatever a connection ends with before it stands, its caller is told a status that the
 * header has. */
TEST(client__connection_cannot_be_made__each_reason_has_its_status, "CLI-9")
{
    static const struct {
        int why, told;
    } cases[] = {
        { SPN_OK, SPN_EUNREACHABLE },     { SPN_EIO, SPN_EUNREACHABLE },
        { SPN_EPERM, SPN_EUNREACHABLE },  { SPN_EUNREACHABLE, SPN_EUNREACHABLE },
        { SPN_EADDRINUSE, SPN_EAGAIN },   { SPN_EAGAIN, SPN_EAGAIN },
        { SPN_ETIMEDOUT, SPN_ETIMEDOUT }, { SPN_ENOMEM, SPN_ENOMEM },
        { SPN_ESHUTDOWN, SPN_ESHUTDOWN },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_STATUS(spn__connect_status(cases[i].why), cases[i].told);
}

TEST(client__no_descriptor__call_says_so, "CLI-9")
{
    struct fake f;
    struct rlimit before, none;
    spn_invocation what = of("nothing");
    spn_client *client;
    spn_reply *reply;
    int rc;

    fake_open(&f);
    client = client_of(f.port, "lazy=true&reconnect=false&heartbeat=0");
    REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
    none = before;
    none.rlim_cur = 3;
    REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
    rc = spn_client_call(client, &what, &reply, NULL);
    REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK_STATUS(rc, SPN_EAGAIN);
    client_end(client);
    fake_close(&f);
}

TEST(client__server_comes_back__next_call_connects, "CLI-10")
{
    struct serving s;
    spn_invocation what = of("nothing");
    spn_client *client;
    spn_reply *reply;
    int port;

    serve_with(&s, "threads=4&queues=16", NULL);
    port = s.port;
    client = client_of(port, "reconnect=false");
    CHECK_OK(spn_client_call(client, &what, &reply, NULL));
    spn_reply_destroy(reply);
    serving_end(&s);
    T_AWAIT(client_stats(client).connections == 0);
    CHECK_STATUS(spn_client_call(client, &what, &reply, NULL), SPN_EUNREACHABLE);

    serve_at(&s, port, "threads=4&queues=16", NULL);
    CHECK_OK(spn_client_call(client, &what, &reply, NULL));
    spn_reply_destroy(reply);
    CHECK_EQ(client_stats(client).connects, 2);
    client_end(client);
    serving_end(&s);
}

TEST(client__reconnect__in_the_background, "CLI-10")
{
    struct fake f;
    spn_client *client;

    fake_open(&f);
    client = client_of(f.port, "heartbeat=0");
    fake_accept(&f);
    close(f.fd);
    fake_accept(&f); /* nobody called */
    T_AWAIT(client_stats(client).connects == 2);
    client_end(client);
    fake_close(&f);
}

/* A listener whose queue is full, and nobody accepts: a try neither succeeds nor fails.
 * Its queue is filled by connections, the last of which hang, too. */
enum { IN_QUEUE = 3 };

static void fake_fill(struct fake *f, int *fds)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    struct pollfd ready = { .fd = f->listener, .events = POLLIN };

    REQUIRE(listen(f->listener, 0) == 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons((uint16_t)f->port);
    for (int i = 0; i < IN_QUEUE; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        REQUIRE(fds[i] >= 0);
        (void)!connect(fds[i], (struct sockaddr *)&address, sizeof address);
        /* The first is in the queue before another tries: on a busy machine the system takes
         * its time, and answers meanwhile whoever comes. */
        REQUIRE(i > 0 || poll(&ready, 1, (int)(T_LONG_NS / SPN_MS(1))) == 1);
    }
}

struct waiter {
    char url[100];
    spn_client *client;
    int rc;
};

static int create_here(void *arg)
{
    struct waiter *w = arg;

    w->rc = spn_client_create(&w->client, w->url, NULL, NULL);
    return 0;
}

TEST(client__interrupt__ends_create_that_waits, "CLI-9")
{
    struct waiter w = { .rc = 1 };
    struct fake f;
    spn_thread *thread;
    int fds[IN_QUEUE];

    fake_open(&f);
    fake_fill(&f, fds);
    w.client = (spn_client *)&f;
    snprintf(w.url, sizeof w.url, "dubbo://127.0.0.1:%d?connect.timeout=600000",
             f.port);
    REQUIRE_OK(spn_thread_create(&thread, NULL, create_here, &w));
    CHECK_OK(spn_thread_interrupt(thread)); /* before it waits, or while it does */
    CHECK_OK(spn_thread_join(thread, T_LONG_NS, NULL));
    spn_thread_unref(thread);
    CHECK_STATUS(w.rc, SPN_EINTR);
    CHECK(w.client == NULL);
    for (int i = 0; i < IN_QUEUE; i++)
        close(fds[i]);
    fake_close(&f);
}

/* What waits for a connection has the bound that what waits in one has. */
TEST(client__too_much_waits_for_a_connection__refused, "CLI-4", "P18")
{
    enum { LARGE = 60000, BOUND = 200000 };
    struct fake f;
    spn_client_opts opts = SPN_CLIENT_OPTS_INIT;
    spn_invocation what = of("sayHello");
    spn_harena *arena = arena_of();
    spn_client *client;
    spn_hvalue *name;
    char url[100], *text = malloc(LARGE + 1);
    int fds[IN_QUEUE], sent = 0, rc;

    REQUIRE(text != NULL);
    memset(text, 'x', LARGE);
    text[LARGE] = '\0';
    name = spn_harena_text(arena, text);
    REQUIRE(name != NULL);
    fake_open(&f);
    fake_fill(&f, fds);
    opts.max_unwritten = BOUND;
    snprintf(url, sizeof url, "dubbo://127.0.0.1:%d?lazy=true&connect.timeout=600000",
             f.port);
    REQUIRE_OK(spn_client_create(&client, url, &opts, NULL));
    what.parameters = "Ljava/lang/String;";
    what.arguments = &name;
    what.argument_count = 1;
    while ((rc = spn_client_send(client, &what)) == SPN_OK && sent <= BOUND / LARGE)
        sent++;
    CHECK_STATUS(rc, SPN_EFULL);
    CHECK_EQ(sent, BOUND / LARGE);
    client_end(client);
    for (int i = 0; i < IN_QUEUE; i++)
        close(fds[i]);
    fake_close(&f);
    spn_harena_destroy(arena);
    free(text);
}

TEST(client__several_connections__used_by_turns, "CLI-11")
{
    struct serving s;
    spn_invocation what = of("nothing");
    spn_client *client;
    spn_reply *reply;

    serve_with(&s, "threads=4&queues=64", NULL);
    client = client_of(s.port, "connections=3");
    T_AWAIT(client_stats(client).connections == 3);
    for (int i = 0; i < 30; i++) {
        CHECK_OK(spn_client_call(client, &what, &reply, NULL));
        spn_reply_destroy(reply);
    }
    CHECK_EQ(stats_of(s.server).accepted, 3);
    client_end(client);
    serving_end(&s);
}

TEST(client__read_only_server__new_calls_go_elsewhere, "CLI-12")
{
    struct fake f;
    struct bytes b = { .size = 0 };
    spn_invocation what = of("nothing");
    spn_client *client;
    spn_future *old, *new;
    void *value;
    int first;
    uint64_t id;

    fake_open(&f);
    client = client_of(f.port, "heartbeat=0");
    fake_accept(&f);
    first = f.fd;
    REQUIRE_OK(spn_client_submit(client, &what, &old));
    id = fake_take(&f);
    put_header(&b, 0xa2, 0, 1, 2);
    put(&b, "\1R", 2);
    peer_write(first, b.data, b.size);
    T_AWAIT(client_stats(client).read_only == 1);

    REQUIRE_OK(spn_client_submit(client, &what, &new));
    fake_accept(&f);
    fake_reply(&f, fake_take(&f), 20, "\x92", 1);
    CHECK_OK(spn_future_get(new, &value, T_LONG_NS));
    spn_reply_destroy(value);
    /* The call under way has its reply where it was. */
    f.fd = first;
    fake_reply(&f, id, 20, "\x92", 1);
    CHECK_OK(spn_future_get(old, &value, T_LONG_NS));
    spn_reply_destroy(value);
    spn_future_unref(old);
    spn_future_unref(new);
    client_end(client);
    fake_close(&f);
}

/* ---- replies that are none ------------------------------------------------------------------------ */

TEST(client__reply_that_makes_no_sense__ends_its_call_and_no_other, "CLI-13")
{
    static const struct {
        int status;
        const char *body;
        uint32_t size;
    } wrong[] = {
        { 20, "", 0 },         /* nothing                        */
        { 20, "\x96", 1 },     /* no such flag                   */
        { 20, "\x8f", 1 },     /* below all                      */
        { 20, "\x8dN", 2 },    /* the same, by a multiple of 3   */
        { 20, "\x91", 1 },     /* a value, and none there        */
        { 20, "\x91\x40", 2 }, /* no Hessian                     */
        { 20, "\x94\1a", 3 },  /* attachments, and none there    */
        { 70, "\x90", 1 },     /* a number in place of the text  */
        { 20,
          "\x91\x1f"
          "a",
          3 }, /* cut short                     */
    };
    struct fake f;
    spn_invocation what = of("nothing");
    spn_client *client;
    spn_future *future;
    void *value;
    int code;

    fake_open(&f);
    client = client_of(f.port, "heartbeat=0");
    fake_accept(&f);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        REQUIRE_OK(spn_client_submit(client, &what, &future));
        fake_reply(&f, fake_take(&f), wrong[i].status, wrong[i].body, wrong[i].size);
        CHECK_STATUS(spn_future_get(future, NULL, T_LONG_NS), SPN_EFAILED);
        CHECK_OK(t_cause(future, &code, NULL, 0));
        CHECK_STATUS(code, SPN_EPROTO);
        spn_future_unref(future);
    }
    REQUIRE_OK(spn_client_submit(client, &what, &future));
    fake_reply(&f, fake_take(&f), 20, "\x91\2ok", 4);
    CHECK_OK(spn_future_get(future, &value, T_LONG_NS));
    CHECK_STR(spn_hvalue_text(spn_reply_value(value)), "ok");
    spn_reply_destroy(value);
    spn_future_unref(future);
    client_end(client);
    fake_close(&f);
}

/* A reply that was written by other rules than Hessian's: counted once. */
TEST(client__foreign_serialization__counted_once, "CLI-13")
{
    struct fake f;
    struct bytes b = { .size = 0 };
    spn_invocation what = of("nothing");
    spn_client *client;
    spn_future *future;
    int code;

    fake_open(&f);
    client = client_of(f.port, "heartbeat=0");
    fake_accept(&f);
    REQUIRE_OK(spn_client_submit(client, &what, &future));
    put_header(&b, 0x03, 20, fake_take(&f), 1);
    put(&b, "\x92", 1);
    peer_write(f.fd, b.data, b.size);
    CHECK_STATUS(spn_future_get(future, NULL, T_LONG_NS), SPN_EFAILED);
    CHECK_OK(t_cause(future, &code, NULL, 0));
    CHECK_STATUS(code, SPN_EPROTO);
    spn_future_unref(future);
    CHECK_EQ(client_stats(client).bad, 1);
    client_end(client);
    fake_close(&f);
}

TEST(client__bytes_that_are_no_frame__connection_ends_and_so_do_its_calls, "CLI-13")
{
    struct fake f;
    spn_invocation what = of("nothing");
    spn_client *client;
    spn_future *future;
    int code;

    fake_open(&f);
    client = client_of(f.port, "heartbeat=0&reconnect=false");
    fake_accept(&f);
    REQUIRE_OK(spn_client_submit(client, &what, &future));
    (void)fake_take(&f);
    peer_write(f.fd, "HTTP/1.1 400 Bad Request\r\n\r\n", 28);
    CHECK_STATUS(spn_future_get(future, NULL, T_LONG_NS), SPN_EFAILED);
    CHECK_OK(t_cause(future, &code, NULL, 0));
    CHECK_STATUS(code, SPN_ECLOSED);
    spn_future_unref(future);
    client_end(client);
    fake_close(&f);
}

/* ---- the end -------------------------------------------------------------------------------------- */

TEST(client__close__waits_for_calls_and_then_ends_them, "CLI-14", "P12")
{
    struct fake f;
    spn_invocation what = of("nothing");
    spn_client *client;
    spn_future *future, *refused;
    spn_reply *reply;
    int code;

    fake_open(&f);
    client = client_of(f.port, "heartbeat=0");
    fake_accept(&f);
    CHECK_STATUS(spn_client_destroy(client), SPN_EBUSY);
    REQUIRE_OK(spn_client_submit(client, &what, &future));
    (void)fake_take(&f);
    CHECK_STATUS(spn_client_close(client, T_SHORT_NS), SPN_ETIMEDOUT);
    CHECK_STATUS(spn_future_get(future, NULL, 0), SPN_EFAILED);
    CHECK_OK(t_cause(future, &code, NULL, 0));
    CHECK_STATUS(code, SPN_ESHUTDOWN);
    CHECK_STATUS(spn_client_submit(client, &what, &refused), SPN_ESHUTDOWN);
    CHECK_STATUS(spn_client_call(client, &what, &reply, NULL), SPN_ESHUTDOWN);
    CHECK_STATUS(spn_client_send(client, &what), SPN_ESHUTDOWN);
    CHECK_OK(spn_client_close(client, 0));
    check_sums(client);
    CHECK_OK(spn_client_destroy(client));
    spn_future_unref(future);
    fake_close(&f);
}

struct closing {
    spn_client *client;
    _Atomic(pthread_t) attaching; /* the thread that does; 0: none */
    atomic_int rc;                /* 1: not yet; 2: not tried */
};

static int close_inside(void *arg, const spn_outcome *outcome, void **result)
{
    struct closing *c = arg;

    (void)outcome;
    (void)result;
    if (pthread_equal(pthread_self(), c->attaching)) /* it had ended before */
        atomic_store(&c->rc, 2);
    else
        atomic_store(&c->rc, spn_client_close(c->client, 0));
    return 0;
}

static int wait_for(void *gate)
{
    return spn_latch_await(gate, T_LONG_NS);
}

static void keep_busy(void *gate, const char *key, spn_pool *pool)
{
    (void)key;
    CHECK_OK(spn_executor_call(spn_pool_executor(pool), wait_for, gate));
}

/* In a pool that goes on an event of the client's may still wait for a thread: close says so,
 * and when it has said SPN_OK destroy succeeds. */
TEST(client__close_beside_an_event_in_a_shared_pool__destroyed, "CLI-14")
{
    spn_client_opts opts = SPN_CLIENT_OPTS_INIT;
    spn_client *client;
    spn_latch *gate;
    struct serving s;
    char url[100];

    serve_with(&s, "threads=2&queues=10", NULL);
    REQUIRE_OK(spn_repository_create(&opts.repository, NULL));
    REQUIRE_OK(spn_latch_create(&gate, 1));
    snprintf(url, sizeof url,
             "dubbo://127.0.0.1:%d?threadpool=fixed&threads=1&queues=10", s.port);
    REQUIRE_OK(spn_client_create(&client, url, &opts, NULL));
    CHECK_OK(spn_repository_each(opts.repository, keep_busy, gate));
    CHECK_STATUS(spn_client_close(client, 0), SPN_ETIMEDOUT);
    CHECK_STATUS(spn_client_destroy(client), SPN_EBUSY);
    CHECK_OK(spn_latch_count_down(gate));
    CHECK_OK(spn_client_close(client, T_LONG_NS));
    CHECK_OK(spn_client_destroy(client));
    CHECK_OK(spn_repository_destroy_all(opts.repository, T_LONG_NS));
    CHECK_OK(spn_repository_destroy(opts.repository));
    CHECK_OK(spn_latch_destroy(gate));
    serving_end(&s);
}

/* Whichever thread ends the call: of the timer, of the connection, of close itself. */
TEST(client__close_in_a_stage__refused_on_every_thread, "CLI-14")
{
    struct fake f;
    spn_invocation what = of("nothing");
    int64_t timeout_ns = T_SHORT_NS;
    struct closing c;

    fake_open(&f);
    c.client = client_of(f.port, "heartbeat=0&reconnect=false");
    fake_accept(&f);
    for (int i = 0; i < 3; i++) {
        spn_future *future, *stage;

        atomic_store(&c.rc, 1);
        what.timeout_ns = i == 0 ? timeout_ns : T_LONG_NS;
        REQUIRE_OK(spn_client_submit(c.client, &what, &future));
        c.attaching = pthread_self();
        REQUIRE_OK(spn_future_handle(future, NULL, close_inside, &c, &stage));
        c.attaching = 0;
        if (i == 1) {
            close(f.fd);
            f.fd = -1;
        } else if (i == 2) {
            CHECK_STATUS(spn_client_close(c.client, 0), SPN_ETIMEDOUT);
        }
        T_AWAIT(atomic_load(&c.rc) != 1);
        if (atomic_load(&c.rc) == 2) { /* once more, with more time */
            timeout_ns *= 2;
            i--;
        } else {
            CHECK_STATUS(atomic_load(&c.rc), SPN_EDEADLK);
        }
        spn_future_unref(stage);
        spn_future_unref(future);
    }
    client_end(c.client);
    fake_close(&f);
}

static void *close_in_time(void *arg)
{
    struct closing *c = arg;

    atomic_store(&c->rc, spn_client_close(c->client, T_LONG_NS));
    return NULL;
}

/* One thread closes; another one is told so, and changes nothing. */
TEST(client__close_by_two_threads__the_second_is_refused, "CLI-14")
{
    struct fake f;
    spn_invocation what = of("nothing");
    struct closing c = { .rc = 1 };
    spn_future *future, *refused = NULL;
    pthread_t thread;
    uint64_t id;

    fake_open(&f);
    c.client = client_of(f.port, "heartbeat=0");
    fake_accept(&f);
    REQUIRE_OK(spn_client_submit(c.client, &what, &future));
    id = fake_take(&f);
    REQUIRE(pthread_create(&thread, NULL, close_in_time, &c) == 0);
    do { /* until it has begun: each is a call that it waits for, too */
        spn_future_cancel(refused, 0);
        spn_future_unref(refused);
    } while (spn_client_submit(c.client, &what, &refused) != SPN_ESHUTDOWN);
    CHECK_STATUS(spn_client_close(c.client, 0), SPN_EBUSY);
    CHECK_EQ(spn_future_get_state(future), SPN_FUTURE_PENDING);
    fake_reply(&f, id, 20, "\x92", 1);
    REQUIRE(pthread_join(thread, NULL) == 0);
    CHECK_OK(atomic_load(&c.rc));
    client_end(c.client);
    spn_future_unref(future);
    fake_close(&f);
}

struct creating {
    spn_client_opts opts;
    char url[100];
    int before, after;
    atomic_int rc; /* 1: not yet */
};

static int create_inside(void *arg, const spn_outcome *outcome, void **result)
{
    struct creating *c = arg;
    spn_client *client;
    int rc;

    *result = outcome->value;
    c->before = t_threads();
    rc = spn_client_create(&client, c->url, &c->opts, NULL);
    c->after = t_threads();
    atomic_store(&c->rc, rc);
    return 0;
}

/* On a thread of the pool that the client would have used, too. */
TEST(client__create_fails_in_a_shared_pool__nothing_is_left, "CLI-9")
{
    struct fake f;
    struct creating c = { .opts = SPN_CLIENT_OPTS_INIT };
    spn_invocation what = of("nothing");
    spn_client *client;
    spn_repository *repository;
    spn_future *future, *stage;
    void *value;

    REQUIRE_OK(spn_repository_create(&repository, NULL));
    c.opts.repository = repository;
    atomic_store(&c.rc, 1);
    fake_open(&f);
    snprintf(c.url, sizeof c.url, "dubbo://127.0.0.1:%d?heartbeat=0&timeout=%lld",
             f.port, (long long)(T_LONG_NS / SPN_MS(1)));
    REQUIRE_OK(spn_client_create(&client, c.url, &c.opts, NULL));
    fake_accept(&f);
    close(f.listener); /* the next one finds nobody */
    f.listener = -1;
    REQUIRE_OK(spn_client_submit(client, &what, &future));
    REQUIRE_OK(spn_future_handle(future, NULL, create_inside, &c, &stage));
    fake_reply(&f, fake_take(&f), 20, "\x92", 1);
    CHECK_OK(spn_future_get(stage, &value, T_LONG_NS));
    spn_reply_destroy(value);
    CHECK_STATUS(atomic_load(&c.rc), SPN_EUNREACHABLE);
    CHECK(c.after <= c.before); /* fewer: those of an earlier test have ended */
    spn_future_unref(stage);
    spn_future_unref(future);
    CHECK_OK(spn_client_close(client, T_LONG_NS));
    T_AWAIT(spn_client_destroy(client) ==
            SPN_OK); /* its task in the pool may end later */
    CHECK_OK(spn_repository_destroy_all(repository, T_LONG_NS));
    CHECK_OK(spn_repository_destroy(repository));
    fake_close(&f);
}

TEST(client__arguments_that_do_not_fit__refused_before_anything_is_sent, "CLI-15")
{
    struct serving s;
    spn_harena *arena = arena_of();
    spn_hvalue *number = spn_harena_int(arena, 1);
    spn_hvalue *const two[] = { number, number };
    spn_invocation what = of("add");
    spn_client *client;
    spn_reply *reply;

    serve_with(&s, "threads=4&queues=16", NULL);
    client = client_of(s.port, "payload=1000");
    what.arguments = two;
    what.argument_count = 2;
    what.parameters = "I";
    CHECK_STATUS(spn_client_call(client, &what, &reply, NULL), SPN_EINVAL);
    what.parameters = "IIX";
    CHECK_STATUS(spn_client_call(client, &what, &reply, NULL), SPN_EINVAL);
    what.parameters = "ILnot/closed";
    CHECK_STATUS(spn_client_call(client, &what, &reply, NULL), SPN_EINVAL);
    what.parameters = "I[";
    CHECK_STATUS(spn_client_call(client, &what, &reply, NULL), SPN_EINVAL);
    what.parameters = "II";
    what.attachments = number;
    CHECK_STATUS(spn_client_call(client, &what, &reply, NULL), SPN_EINVAL);
    what.attachments = NULL;
    CHECK_OK(spn_client_call(client, &what, &reply, NULL));
    spn_reply_destroy(reply);

    /* Larger than the payload allows. */
    {
        char text[2000];
        spn_hvalue *large;

        memset(text, 'x', sizeof text);
        large = spn_harena_string(arena, text, sizeof text);
        what = of("sayHello");
        what.parameters = "Ljava/lang/String;";
        what.arguments = &large;
        what.argument_count = 1;
        CHECK_STATUS(spn_client_call(client, &what, &reply, NULL), SPN_ERANGE);
    }
    CHECK_EQ(stats_of(s.server).requests, 1);
    client_end(client);
    serving_end(&s);
    spn_harena_destroy(arena);
}

/* ---- all at once ------------------------------------------------------------------------------------ */

struct crowd {
    spn_client *client;
    atomic_int right;
};

static void call_many(int index, void *arg)
{
    struct crowd *crowd = arg;
    const int rounds = t_rounds(200);
    spn_harena *arena = arena_of();

    for (int i = 0; i < rounds; i++) {
        const int32_t sum = index * 1000 + i;
        spn_hvalue *const both[] = { spn_harena_int(arena, sum),
                                     spn_harena_int(arena, 1) };
        spn_invocation what = of("add");
        spn_reply *reply;
        int32_t result = 0;

        what.parameters = "II";
        what.arguments = both;
        what.argument_count = 2;
        if (i % 2 == 0) {
            CHECK_OK(spn_client_call(crowd->client, &what, &reply, NULL));
        } else {
            spn_future *future;
            void *value = NULL;

            REQUIRE_OK(spn_client_submit(crowd->client, &what, &future));
            CHECK_OK(spn_future_get(future, &value, T_LONG_NS));
            reply = value;
            spn_future_unref(future);
        }
        if (reply != NULL &&
            spn_hvalue_as_int(spn_reply_value(reply), &result) == SPN_OK &&
            result == sum + 1)
            atomic_fetch_add(&crowd->right, 1);
        spn_reply_destroy(reply);
        spn_harena_reset(arena);
    }
    spn_harena_destroy(arena);
}

TEST(client__many_threads__each_has_its_own_reply, "CLI-16")
{
    struct serving s;
    struct crowd crowd = { .right = 0 };

    serve_with(&s, "threads=4&queues=1000", NULL);
    crowd.client = client_of(s.port, "connections=2");
    t_parallel(T_THREADS, call_many, &crowd);
    CHECK_EQ(atomic_load(&crowd.right), T_THREADS * t_rounds(200));
    client_end(crowd.client);
    serving_end(&s);
}
