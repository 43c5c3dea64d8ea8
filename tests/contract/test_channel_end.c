/* SPDX-License-Identifier: MIT */
/*
 * How a dispatch ends: with messages queued, with handlers that hang, from threads of its own,
 * beside executors of the program's; and what outlives it.
 */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "channel_bed.h"

#include "peer.h"
#include "pool_calls.h"

/* ---- the end ------------------------------------------------------------------------------ */

/* A dispatch with a pool of its own, as most have. */
static void own_open(struct bed *bed, const char *query)
{
    spn_dispatch_opts opts = SPN_DISPATCH_OPTS_INIT;
    char url[200];

    bed_init(bed);
    opts.refused = bed_refused;
    opts.ctx = bed;
    (void)snprintf(url, sizeof url, "toy://h:1?dump.enable=false&inflight=0&%s", query);
    REQUIRE_OK(spn_dispatch_create(&bed->dispatch, url, &bed->handler, &opts, NULL));
}

/* What was handed over before stop is handled before stop returns, and destroy is refused
 * until then. */
TEST(channel__stop__after_what_was_handed_over, "CH-18")
{
    static const char *const queries[] = { "dispatcher=all&threads=1&queues=-1",
                                           "dispatcher=connection&threads=2&queues=50",
                                           "dispatcher=direct" };

    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        enum { COUNT = 20 };
        struct note notes[COUNT];
        struct line lines[COUNT];
        struct bed bed;

        own_open(&bed, queries[i]);
        for (int n = 0; n < COUNT; n++) {
            line_open(&lines[n]);
            (void)bed_tell(&bed, CONNECTED, &lines[n], NULL);
            (void)bed_tell(&bed, REQUEST, &lines[n], &notes[n]);
            (void)bed_tell(&bed, DISCONNECTED, &lines[n], NULL);
            line_drop(&lines[n]);
        }
        CHECK_STATUS(spn_dispatch_destroy(bed.dispatch), SPN_EBUSY);
        CHECK_OK(spn_dispatch_stop(bed.dispatch, T_LONG_NS));
        CHECK_EQ(atomic_load(&bed.count[CONNECTED]), COUNT);
        CHECK_EQ(atomic_load(&bed.count[REQUEST]), COUNT);
        CHECK_EQ(atomic_load(&bed.count[DISCONNECTED]), COUNT);
        for (int n = 0; n < COUNT; n++) {
            CHECK_EQ(atomic_load(&notes[n].released), 1);
            CHECK_EQ(atomic_load(&lines[n].gone), 1);
        }
        CHECK_OK(spn_dispatch_stop(bed.dispatch, T_LONG_NS)); /* again: nothing */
        CHECK_OK(spn_dispatch_stop(bed.dispatch, 0));
        bed_close(&bed);
    }
}

/* A handler that does not end: stop says so, destroy changes nothing, and stop may be called
 * until it has ended. */
TEST(channel__stop_with_a_handler_that_hangs__says_so_and_again, "CH-18")
{
    static const char *const queries[] = {
        "dispatcher=all&threads=1&queues=-1",
        "dispatcher=connection&threads=1&queues=-1"
    };
    const enum what whats[] = { REQUEST, CONNECTED };

    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        struct bed bed;
        struct line line;
        struct note note;

        own_open(&bed, queries[i]);
        atomic_store(&bed.hangs, 1u << whats[i]);
        line_open(&line);
        (void)bed_tell(&bed, whats[i], &line, &note);
        T_AWAIT(atomic_load(&bed.hanging) == 1);
        CHECK_STATUS(spn_dispatch_stop(bed.dispatch, SPN_MS(5)), SPN_ETIMEDOUT);
        CHECK_STATUS(spn_dispatch_destroy(bed.dispatch), SPN_EBUSY);
        CHECK_STATUS(spn_dispatch_stop(bed.dispatch, 0), SPN_ETIMEDOUT);
        CHECK_STATUS(spn_dispatch_stop(bed.dispatch, -1), SPN_ETIMEDOUT);
        T_AWAIT(atomic_load(&bed.interrupts) > 0); /* it was asked to end */
        CHECK_EQ(atomic_load(&bed.hanging), 1);
        CHECK_EQ(atomic_load(&line.gone), 0);
        bed_let_go(&bed);
        CHECK_OK(spn_dispatch_stop(bed.dispatch, T_LONG_NS));
        line_end(&line);
        CHECK_EQ(atomic_load(&bed.count[whats[i]]), 1);
        CHECK_OK(spn_dispatch_destroy(bed.dispatch));
        bed.dispatch = NULL;
        bed_close(&bed);
    }
}

/* What waits behind it at the deadline will not be handled: it is refused, once each, or
 * released where nobody is told. */
TEST(channel__stop_at_its_deadline__queued_messages_are_refused, "CH-18", "CH-10")
{
    for (int has_refused = 0; has_refused < 2; has_refused++) {
        enum { COUNT = 10 };
        spn_dispatch_opts opts = SPN_DISPATCH_OPTS_INIT;
        struct note hanging, notes[COUNT];
        struct bed bed;
        struct line line;
        int ended = 0;

        bed_init(&bed);
        if (has_refused) {
            opts.refused = bed_refused;
            opts.ctx = &bed;
        }
        REQUIRE_OK(
            spn_dispatch_create(&bed.dispatch,
                                "toy://h:1?threads=1&queues=-1&dump.enable=false",
                                &bed.handler, &opts, NULL));
        atomic_store(&bed.hangs, 1u << REQUEST);
        line_open(&line);
        (void)bed_tell(&bed, REQUEST, &line, &hanging);
        T_AWAIT(atomic_load(&bed.hanging) == 1);
        for (int n = 0; n < COUNT; n++)
            (void)bed_tell(&bed, REQUEST, &line, &notes[n]);
        line_drop(&line);
        CHECK_STATUS(spn_dispatch_stop(bed.dispatch, SPN_MS(5)), SPN_ETIMEDOUT);
        CHECK_EQ(atomic_load(&line.gone), 0); /* the one that runs has it */
        for (int n = 0; n < COUNT; n++)
            ended += atomic_load(&notes[n].released);
        CHECK_EQ(ended, COUNT);
        CHECK_EQ(atomic_load(&bed.refused), has_refused ? COUNT : 0);
        if (has_refused)
            CHECK_STATUS(atomic_load(&bed.refused_why), SPN_ESHUTDOWN);
        CHECK_EQ(bed_stats(&bed).refused, COUNT);
        bed_let_go(&bed);
        CHECK_OK(spn_dispatch_stop(bed.dispatch, T_LONG_NS));
        CHECK_EQ(atomic_load(&hanging.released), 1);
        CHECK_EQ(atomic_load(&line.gone), 1);
        CHECK_EQ(atomic_load(&bed.count[REQUEST]), 1);
        bed_close(&bed);
    }
}

/* A pool that drops what it took, to make room for what came later, refuses that. */
TEST(channel__dropped_by_the_pool__refused, "CH-10")
{
    struct note notes[3];
    struct bed bed;
    struct line line;

    CHECK_OK(spn_log_set_level(SPN_LOG_OFF));
    bed_open(&bed, "threads=1&queues=1&inflight=0&reject=discard-oldest");
    atomic_store(&bed.hangs, 1u << REQUEST);
    line_open(&line);
    (void)bed_tell(&bed, REQUEST, &line, &notes[0]);
    T_AWAIT(atomic_load(&bed.hanging) == 1);
    (void)bed_tell(&bed, REQUEST, &line, &notes[1]);
    (void)bed_tell(&bed, REQUEST, &line, &notes[2]); /* in place of the one before */
    CHECK_EQ(atomic_load(&notes[1].refused), 1);
    CHECK_EQ(atomic_load(&notes[1].released), 1);
    CHECK_EQ(atomic_load(&bed.refused), 1);
    CHECK_EQ(atomic_load(&bed.refused_by), LOOP);
    CHECK_STATUS(atomic_load(&bed.refused_why), SPN_EREJECTED);
    CHECK_EQ(bed_stats(&bed).refused, 1);
    line_drop(&line);
    bed_let_go(&bed);
    T_AWAIT(atomic_load(&notes[2].released) == 1);
    bed_close(&bed);
    CHECK_EQ(atomic_load(&notes[0].handled), 1);
    CHECK_EQ(atomic_load(&notes[1].handled), 0);
    CHECK_EQ(atomic_load(&notes[2].handled), 1);
    CHECK_EQ(atomic_load(&line.gone), 1);
    CHECK_OK(spn_log_set_level(SPN_LOG_WARN));
}

/* What the pool's policy does with a message that the pool has no room for: a policy that
 * discards has it refused, one that runs it does so on the thread that told it, which is an
 * I/O thread, and one that waits holds that thread up, and has it refused in the end. */
TEST(channel__pool_has_a_policy__message_ends_as_that_says, "CH-10")
{
    static const struct {
        const char *query;
        int handled_by, refused_by;
    } cases[] = {
        { "threads=1&queues=1&inflight=0&reject=caller-runs", LOOP, NOBODY },
        { "threads=1&queues=1&inflight=0&reject=discard", NOBODY, LOOP },
        { "threads=1&queues=1&inflight=0&reject=block&reject.timeout=20", NOBODY,
          LOOP },
    };

    CHECK_OK(spn_log_set_level(SPN_LOG_OFF));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t begun_ns = spn_now();
        struct note note;
        struct bed bed;
        struct line line;

        bed_open(&bed, cases[i].query);
        line_open(&line);
        bed_fill(&bed, 1, 1);
        CHECK_OK(bed_tell(&bed, REQUEST, &line, &note));
        CHECK_EQ(atomic_load(&bed.who[REQUEST]), cases[i].handled_by);
        CHECK_EQ(atomic_load(&bed.refused), cases[i].refused_by != NOBODY);
        CHECK_EQ(atomic_load(&bed.refused_by), cases[i].refused_by);
        CHECK_EQ(atomic_load(&note.released), 1);
        if (i == 2)
            CHECK(spn_now() - begun_ns >= SPN_MS(20));
        line_end(&line);
        bed_let_go(&bed);
        bed_close(&bed);
    }
    CHECK_OK(spn_log_set_level(SPN_LOG_WARN));
}

/* Stops the dispatch from one of its threads. */
struct inside {
    spn_handler handler;
    spn_dispatch *dispatch;
    atomic_int rc, told;
};

static void stop_inside(struct inside *inside)
{
    atomic_store(&inside->rc, spn_dispatch_stop(inside->dispatch, SPN_MS(5)));
    atomic_fetch_add(&inside->told, 1);
}

static void inside_connected(spn_handler *self, spn_channel *channel)
{
    (void)channel;
    stop_inside((struct inside *)self);
}

static int inside_received(spn_handler *self, spn_channel *channel,
                           spn_message *message)
{
    (void)channel;
    stop_inside((struct inside *)self);
    spn_message_release(message);
    return 0;
}

static const spn_handler_ops inside_ops = { inside_connected, NULL, NULL,
                                            inside_received, NULL };

/* From a thread that stop would wait for, it is refused and nothing has changed. */
TEST(channel__stop_on_a_thread_of_its_own__refused, "CH-18")
{
    static const char *const urls[] = { "toy://h:1?dispatcher=all&threads=2&queues=9",
                                        "toy://h:1?dispatcher=connection&queues=9",
                                        "toy://h:1?dispatcher=message&queues=9" };

    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        struct inside inside = { .handler = { &inside_ops, NULL } };
        struct line line;
        struct note note;
        spn_handler *handler;

        atomic_init(&inside.rc, 1);
        atomic_init(&inside.told, 0);
        REQUIRE_OK(spn_dispatch_create(&inside.dispatch, urls[i], &inside.handler, NULL,
                                       NULL));
        handler = spn_dispatch_handler(inside.dispatch);
        line_open(&line);
        if (i < 2) {
            spn_handler_connected(handler, line.channel);
            T_AWAIT(atomic_load(&inside.told) == 1);
            CHECK_STATUS(atomic_load(&inside.rc), SPN_EDEADLK);
        }
        CHECK_OK(spn_handler_received(handler, line.channel,
                                      note_make(&note, NULL, SPN_MESSAGE_REQUEST)));
        T_AWAIT(atomic_load(&note.released) == 1);
        CHECK_STATUS(atomic_load(&inside.rc), SPN_EDEADLK);
        CHECK_EQ(pool_is_shutdown(spn_dispatch_pool(inside.dispatch)), 0);
        line_drop(&line);
        CHECK_OK(spn_dispatch_stop(inside.dispatch, T_LONG_NS));
        CHECK_EQ(atomic_load(&line.gone), 1);
        CHECK_OK(spn_dispatch_destroy(inside.dispatch));
    }
}

struct stopping {
    struct bed *bed;
    int64_t timeout_ns;
};

static int stop_it(void *arg)
{
    const struct stopping *stopping = arg;

    return spn_dispatch_stop(stopping->bed->dispatch, stopping->timeout_ns);
}

/* An interrupt ends the wait of stop, not the dispatch. */
TEST(channel__stop_is_interrupted__says_so_and_again, "CH-18")
{
    struct bed bed;
    struct line line;
    struct note note;
    struct stopping stopping = { &bed, SPN_FOREVER };
    struct peer peer;

    own_open(&bed, "threads=1&queues=-1");
    atomic_store(&bed.hangs, 1u << REQUEST);
    line_open(&line);
    (void)bed_tell(&bed, REQUEST, &line, &note);
    T_AWAIT(atomic_load(&bed.hanging) == 1);
    peer_start(&peer, stop_it, &stopping);
    peer_await_blocked(&peer);
    CHECK_OK(spn_thread_interrupt(peer.thread));
    CHECK_STATUS(peer_finish(&peer), SPN_EINTR);
    CHECK_EQ(peer.flag_after, 0);
    CHECK_STATUS(spn_dispatch_destroy(bed.dispatch), SPN_EBUSY);
    line_drop(&line);
    bed_let_go(&bed);
    bed_close(&bed);
    CHECK_EQ(atomic_load(&note.released), 1);
    CHECK_EQ(atomic_load(&line.gone), 1);
}

/* ---- an executor of the program's --------------------------------------------------------- */

static spn_executor *own_executor;

static spn_place everything_own(const spn_dispatcher *self, spn_channel_event event)
{
    (void)self;
    (void)event;
    return SPN_PLACE_OWN;
}

static spn_executor *own_execute(const spn_dispatcher *self, spn_channel_event event,
                                 const spn_url *url)
{
    (void)self;
    (void)event;
    (void)url;
    return own_executor;
}

/* What an executor of the program's has, stop waits for: it does not end that executor, but
 * its tasks stand on the dispatch. */
TEST(channel__stop_with_messages_at_the_programs_executor__waits, "CH-18")
{
    static const spn_dispatcher mine = { sizeof mine, everything_own, own_execute };
    const spn_extension extension = { .size = sizeof extension,
                                      .kind = SPN_KIND_DISPATCHER,
                                      .name = "mine",
                                      .instance = &mine };
    spn_manual_executor *manual;
    spn_extensions *extensions;

    REQUIRE_OK(spn_extensions_create(&extensions, NULL));
    REQUIRE_OK(spn_extensions_register(extensions, &extension, NULL));
    REQUIRE_OK(spn_manual_executor_create(&manual));
    own_executor = spn_manual_executor_executor(manual);
    for (int is_waiting = 0; is_waiting < 2; is_waiting++) {
        spn_dispatch_opts opts = SPN_DISPATCH_OPTS_INIT;
        struct note notes[2];
        struct bed bed;
        struct line line;
        int expected = 1;

        bed_init(&bed);
        opts.extensions = extensions;
        REQUIRE_OK(spn_dispatch_create(&bed.dispatch,
                                       is_waiting ? "toy://h:1?dispatcher=all&threads=1"
                                                  : "toy://h:1?dispatcher=mine",
                                       &bed.handler, &opts, NULL));
        line_open(&line);
        if (is_waiting) {
            (void)note_make(&notes[0], &bed, SPN_MESSAGE_RESPONSE);
            notes[0].head.waiting = own_executor;
            CHECK_OK(spn_handler_received(spn_dispatch_handler(bed.dispatch),
                                          line.channel, &notes[0].head));
        } else {
            (void)bed_tell(&bed, CONNECTED, &line, NULL);
            (void)bed_tell(&bed, REQUEST, &line, &notes[0]);
            expected = 2;
        }
        line_drop(&line);
        CHECK_EQ(spn_manual_executor_pending(manual), expected);
        CHECK_STATUS(spn_dispatch_stop(bed.dispatch, SPN_MS(2)), SPN_ETIMEDOUT);
        if (CHECK_STATUS(spn_dispatch_destroy(bed.dispatch), SPN_EBUSY)) {
            CHECK(spn_manual_executor_run(manual, INT64_MAX) >= 0);
            CHECK_OK(spn_dispatch_stop(bed.dispatch, T_LONG_NS));
            CHECK_OK(spn_dispatch_destroy(bed.dispatch));
        } else {
            CHECK_OK(spn_manual_executor_drop_all(manual, SPN_ESHUTDOWN, NULL));
        }
        CHECK_EQ(atomic_load(&notes[0].released), 1);
        CHECK_EQ(atomic_load(&notes[0].handled), 1);
        CHECK_EQ(atomic_load(&line.gone), 1);
        bed.dispatch = NULL;
        bed_close(&bed);
    }
    CHECK_OK(spn_manual_executor_destroy(manual));
    CHECK_OK(spn_extensions_destroy(extensions));
}

/* A pool of the program's repository goes on, and so stop waits for what it has: with a pool
 * that hangs it says so, and nothing is interrupted. */
TEST(channel__stop_with_messages_in_a_shared_pool__waits, "CH-18")
{
    struct bed bed;
    struct line line;
    struct note notes[3];

    bed_open(&bed, "threads=1&queues=-1&inflight=0");
    atomic_store(&bed.hangs, 1u << REQUEST);
    line_open(&line);
    for (int i = 0; i < 3; i++)
        (void)bed_tell(&bed, REQUEST, &line, &notes[i]);
    line_drop(&line);
    T_AWAIT(atomic_load(&bed.hanging) == 1);
    CHECK_STATUS(spn_dispatch_stop(bed.dispatch, SPN_MS(5)), SPN_ETIMEDOUT);
    CHECK_STATUS(spn_dispatch_destroy(bed.dispatch), SPN_EBUSY);
    CHECK_EQ(atomic_load(&bed.interrupts), 0);
    CHECK_EQ(pool_is_shutdown(spn_dispatch_pool(bed.dispatch)), 0);
    bed_let_go(&bed);
    CHECK_OK(spn_dispatch_stop(bed.dispatch, T_LONG_NS));
    for (int i = 0; i < 3; i++)
        CHECK_EQ(atomic_load(&notes[i].handled), 1);
    CHECK_EQ(atomic_load(&line.gone), 1);
    bed_close(&bed);
}

/* Channels, and messages that a handler keeps, may outlive the dispatch that they went
 * through. */
TEST(channel__outlives_its_dispatch__nothing_touched, "CH-3", "CH-16")
{
    static const char *const queries[] = { "threads=1&queues=9&inflight.address=4",
                                           "threads=1&inflight=2&queues=8",
                                           "dispatcher=direct" };

    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        struct line lines[3];
        struct note note;
        struct bed bed;

        own_open(&bed, queries[i]);
        atomic_store(&bed.keeps, 1);
        for (int n = 0; n < 3; n++) {
            line_open_from(&lines[n], n == 2 ? NULL : "10.0.0.9:1");
            (void)bed_tell(&bed, CONNECTED, &lines[n], NULL);
        }
        (void)bed_tell(&bed, REQUEST, &lines[0], &note);
        CHECK_OK(spn_dispatch_stop(bed.dispatch, T_LONG_NS));
        CHECK_OK(spn_dispatch_destroy(bed.dispatch));
        bed.dispatch = NULL;
        CHECK_EQ(atomic_load(&note.handled), 1);
        CHECK_STR(spn_channel_remote(note.head.channel), "10.0.0.9:1");
        line_drop(&lines[0]);
        CHECK_EQ(atomic_load(&lines[0].gone), 0);
        spn_message_release(&note.head);
        CHECK_EQ(atomic_load(&lines[0].gone), 1);
        line_end(&lines[1]);
        line_end(&lines[2]);
        bed_close(&bed);
    }
}

/* One thread at a time is in stop. */
TEST(channel__stopped_by_two__one_is_refused, "CH-18")
{
    struct bed bed;
    struct line line;
    struct note note;
    struct stopping stopping = { &bed, T_LONG_NS };
    struct peer peer;

    own_open(&bed, "threads=1&queues=-1");
    atomic_store(&bed.hangs, 1u << REQUEST);
    line_open(&line);
    (void)bed_tell(&bed, REQUEST, &line, &note);
    T_AWAIT(atomic_load(&bed.hanging) == 1);
    peer_start(&peer, stop_it, &stopping);
    peer_await_blocked(&peer);
    CHECK_STATUS(spn_dispatch_stop(bed.dispatch, T_LONG_NS), SPN_EBUSY);
    CHECK_STATUS(spn_dispatch_destroy(bed.dispatch), SPN_EBUSY);
    bed_let_go(&bed);
    CHECK_OK(peer_finish(&peer));
    line_end(&line);
    bed_close(&bed);
}

/* A child of fork that stops its parent's dispatch is told so at once; the dispatch goes on. */
TEST(channel__child_stops_the_parents__refused_at_once, "CH-18", "G-29")
{
    struct bed bed;
    struct line line;
    struct note note;
    int status = -1;
    pid_t pid;

    own_open(&bed, "threads=1&queues=-1");
    line_open(&line);
    (void)bed_tell(&bed, REQUEST, &line, &note);
    T_AWAIT(atomic_load(&note.released) == 1);
    fflush(NULL);
    pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        (void)alarm((unsigned)(T_LONG_NS / SPN_SEC(1))); /* one that hangs fails */
        _exit(CHECK_STATUS(spn_dispatch_stop(bed.dispatch, T_LONG_NS), SPN_ESTATE) &&
                      CHECK_STATUS(spn_dispatch_destroy(bed.dispatch), SPN_EBUSY)
                  ? 0
                  : 1);
    }
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK_EQ(status, 0);
    (void)bed_tell(&bed, REQUEST, &line, &note);
    T_AWAIT(atomic_load(&note.released) == 1);
    line_drop(&line);
    bed_close(&bed);
}

/* ---- many threads ----------------------------------------------------------------------- */

struct crowd {
    struct bed bed;
    struct line lines[T_THREADS];
    struct note *notes[T_THREADS];
    int count;
};

static void crowd_tell(int index, void *arg)
{
    struct crowd *crowd = arg;
    struct line *line = &crowd->lines[index];
    spn_handler *handler = spn_dispatch_handler(crowd->bed.dispatch);

    spn_handler_connected(handler, line->channel);
    for (int i = 0; i < crowd->count; i++) {
        struct note *note = &crowd->notes[index][i];

        (void)note_make(note, &crowd->bed, 1 + i % 2); /* requests, responses */
        CHECK_OK(spn_handler_received(handler, line->channel, &note->head));
        if (i == crowd->count / 2 && index == 0)
            CHECK_OK(pool_shutdown(spn_dispatch_pool(crowd->bed.dispatch)));
    }
    spn_handler_disconnected(handler, line->channel, SPN_OK);
    line_drop(line);
}

/* Several loops at once, a small pool that is shut down in the middle: every message ends
 * once, handled or refused, and every channel after its last one. */
TEST(channel__many_loops_and_a_pool_that_ends__each_message_once, "CH-10", "CH-12",
     "CH-15", "CH-3")
{
    static struct crowd crowd;
    spn_dispatch_stats stats;
    uint64_t handled = 0;

    CHECK_OK(spn_log_set_level(SPN_LOG_OFF));
    memset(&crowd, 0, sizeof crowd);
    crowd.count = t_rounds(2000);
    bed_open(&crowd.bed, "dispatcher=connection&threads=2&queues=20");
    for (int i = 0; i < T_THREADS; i++) {
        line_open(&crowd.lines[i]);
        crowd.notes[i] = calloc((size_t)crowd.count, sizeof *crowd.notes[i]);
        REQUIRE(crowd.notes[i] != NULL);
    }
    t_parallel(T_THREADS, crowd_tell, &crowd);
    for (int i = 0; i < T_THREADS; i++) {
        for (int n = 0; n < crowd.count; n++)
            T_AWAIT(atomic_load(&crowd.notes[i][n].released) == 1);
        T_AWAIT(atomic_load(&crowd.lines[i].gone) == 1);
    }
    CHECK_EQ(atomic_load(&crowd.bed.count[CONNECTED]), T_THREADS);
    CHECK_EQ(atomic_load(&crowd.bed.count[DISCONNECTED]), T_THREADS);
    stats = bed_stats(&crowd.bed);
    for (int i = 0; i < T_THREADS; i++) {
        for (int n = 0; n < crowd.count; n++) {
            const struct note *note = &crowd.notes[i][n];

            CHECK_EQ(atomic_load(&note->handled) + atomic_load(&note->refused), 1);
            handled += (uint64_t)atomic_load(&note->handled);
        }
        free(crowd.notes[i]);
    }
    CHECK_EQ(stats.refused, (uint64_t)(T_THREADS * crowd.count) - handled);
    CHECK_EQ(stats.dispatched[SPN_CHANNEL_REQUEST][SPN_PLACE_PREFERRED] +
                 stats.dispatched[SPN_CHANNEL_RESPONSE][SPN_PLACE_PREFERRED],
             T_THREADS * crowd.count);
    bed_close(&crowd.bed);
    CHECK_OK(spn_log_set_level(SPN_LOG_WARN));
}
