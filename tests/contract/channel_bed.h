/* SPDX-License-Identifier: MIT */
/*
 * channel_bed.h - a dispatch in front of a handler that keeps a record of who ran it, and
 * channels and messages that count their ends.
 *
 * The test is the event loop: its thread tells the events.  Channels (struct line) and
 * messages (struct note) are the test's memory, so that an end that comes twice, or late,
 * shows as a number.
 */
#ifndef CHANNEL_BED_H
#define CHANNEL_BED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <spindle/channel.h>
#include <spindle/latch.h>
#include <spindle/log.h>
#include <spindle/thread.h>

#include "pool_calls.h"
#include "test.h"

/* What can be told: the events, of which a request comes as one or as OTHER. */
enum what {
    CONNECTED = SPN_CHANNEL_CONNECTED,
    DISCONNECTED = SPN_CHANNEL_DISCONNECTED,
    REQUEST = SPN_CHANNEL_REQUEST,
    RESPONSE = SPN_CHANNEL_RESPONSE,
    SENT = SPN_CHANNEL_SENT,
    CAUGHT = SPN_CHANNEL_CAUGHT,
    OTHER,
    WHATS
};
static const char *const what_names[] = { "connected", "disconnected", "request",
                                          "response",  "sent",         "caught",
                                          "other" };

/* Who ran it. */
enum who { NOBODY, LOOP, POOL, SHARED, ORDERED, OWN, WAITER };
static const char *const who_names[] = { "nobody",  "the loop", "the pool",  "shared",
                                         "ordered", "its own",  "the waiter" };

/* The thread that lent itself says so. */
static _Thread_local int is_waiter;

struct bed {
    spn_handler handler; /* the innermost */
    spn_repository *repository;
    spn_dispatch *dispatch;
    spn_pool *own; /* of a dispatcher of the program's own; NULL: none */
    pthread_t loop;
    spn_latch *gate;         /* handlers in `hangs` wait for it */
    atomic_uint hangs;       /* bits 1 << what */
    atomic_int hanging;      /* that wait now */
    atomic_int interrupts;   /* that came while they waited */
    atomic_int leaves_early; /* 1: an interrupt ends such a wait */
    atomic_int who[WHATS], count[WHATS], why[WHATS];
    atomic_ullong position; /* of the last `sent` */
    atomic_int result;      /* of received */
    atomic_int keeps;       /* 1: received does not release its message */
    atomic_int refused, refused_by, refused_why;
};

struct line {
    spn_channel *channel; /* the test's reference; NULL: given up */
    atomic_int gone, sends, closes, why;
    int answer; /* of send */
    const void *sent;
};

struct note {
    spn_message head;
    struct bed *bed;
    int id;
    atomic_int handled, refused, released;
};

/* ---- channels -------------------------------------------------------------------- */

static inline int line_send(void *ctx, spn_channel *channel, const void *message)
{
    struct line *line = ctx;

    CHECK(line->channel == NULL || channel == line->channel);
    CHECK_EQ(atomic_load(&line->gone), 0);
    line->sent = message;
    atomic_fetch_add(&line->sends, 1);
    return line->answer;
}

static inline void line_close(void *ctx, spn_channel *channel, int why)
{
    struct line *line = ctx;

    CHECK(line->channel == NULL || channel == line->channel);
    CHECK_EQ(atomic_load(&line->gone), 0);
    atomic_store(&line->why, why);
    atomic_fetch_add(&line->closes, 1);
}

static inline void line_gone(void *ctx)
{
    struct line *line = ctx;

    CHECK_EQ(atomic_fetch_add(&line->gone, 1), 0);
}

static const spn_channel_ops line_ops = { sizeof line_ops, line_send, line_close,
                                          line_gone };

static inline void line_open_from(struct line *line, const char *remote)
{
    memset(line, 0, sizeof *line);
    REQUIRE_OK(spn_channel_create(&line->channel, &line_ops, line, remote));
    spn_channel_set_data(line->channel, line, NULL);
}

static inline void line_open(struct line *line)
{
    line_open_from(line, "10.0.0.1:40000");
}

/* The test gives its reference up. */
static inline void line_drop(struct line *line)
{
    spn_channel *channel = line->channel;

    CHECK_EQ(atomic_load(&line->gone), 0);
    line->channel = NULL;
    spn_channel_unref(channel);
}

/* And was the last to have one. */
static inline void line_end(struct line *line)
{
    line_drop(line);
    CHECK_EQ(atomic_load(&line->gone), 1);
}

/* ---- messages -------------------------------------------------------------------- */

static inline void note_release(spn_message *message)
{
    struct note *note = (struct note *)message;

    CHECK_EQ(atomic_fetch_add(&note->released, 1), 0);
}

static inline void note_describe(const spn_message *message, char *text, size_t size)
{
    const struct note *note = (const struct note *)message;

    CHECK_EQ(atomic_load(&((struct note *)(uintptr_t)note)->released), 0);
    (void)snprintf(text, size, "note %d", note->id);
}

static const spn_message_ops note_ops = { note_release, note_describe };
static const spn_message_ops mute_ops = { note_release, NULL };

static inline spn_message *note_make(struct note *note, struct bed *bed, int kind)
{
    static atomic_int ids;

    memset(note, 0, sizeof *note);
    note->head = (spn_message)SPN_MESSAGE_INIT(&note_ops, kind);
    note->bed = bed;
    note->id = atomic_fetch_add(&ids, 1) + 1;
    return &note->head;
}

/* ---- the handler ------------------------------------------------------------------- */

static inline enum who who_am_i(struct bed *bed)
{
    spn_executor *shared;
    char name[64] = "";

    if (is_waiter)
        return WAITER;
    if (pthread_equal(pthread_self(), bed->loop))
        return LOOP;
    if (bed->dispatch != NULL && spn_executor_is_inside(spn_pool_executor(
                                     spn_dispatch_pool(bed->dispatch))) == 1)
        return POOL;
    if (bed->own != NULL && spn_executor_is_inside(spn_pool_executor(bed->own)) == 1)
        return OWN;
    if (spn_repository_shared(bed->repository, &shared) == SPN_OK &&
        spn_executor_is_inside(shared) == 1)
        return SHARED;
    (void)spn_thread_name(spn_thread_current(), name, sizeof name);
    return strncmp(name, "ordered-", 8) == 0 ? ORDERED : NOBODY;
}

static inline void bed_hang(struct bed *bed)
{
    atomic_fetch_add(&bed->hanging, 1);
    while (spn_latch_await(bed->gate, T_LONG_NS) == SPN_EINTR) {
        atomic_fetch_add(&bed->interrupts, 1);
        if (atomic_load(&bed->leaves_early) != 0)
            break;
    }
    atomic_fetch_sub(&bed->hanging, 1);
}

static inline void bed_note(struct bed *bed, enum what what, spn_channel *channel,
                            int why)
{
    struct line *line = spn_channel_data(channel);

    if (line != NULL) /* it is kept for us */
        CHECK_EQ(atomic_load(&line->gone), 0);
    atomic_store(&bed->who[what], (int)who_am_i(bed));
    atomic_store(&bed->why[what], why);
    if ((atomic_load(&bed->hangs) & 1u << what) != 0)
        bed_hang(bed);
    atomic_fetch_add(&bed->count[what], 1);
}

static inline void bed_connected(spn_handler *self, spn_channel *channel)
{
    bed_note((struct bed *)self, CONNECTED, channel, 0);
}

static inline void bed_disconnected(spn_handler *self, spn_channel *channel, int why)
{
    bed_note((struct bed *)self, DISCONNECTED, channel, why);
}

static inline void bed_sent(spn_handler *self, spn_channel *channel, uint64_t position)
{
    atomic_store(&((struct bed *)self)->position, position);
    bed_note((struct bed *)self, SENT, channel, 0);
}

static inline int bed_received(spn_handler *self, spn_channel *channel,
                               spn_message *message)
{
    static const enum what whats[] = { OTHER, REQUEST, RESPONSE };
    struct bed *bed = (struct bed *)self;
    struct note *note = (struct note *)message;
    const int result = atomic_load(&bed->result);
    const bool keeps = atomic_load(&bed->keeps) != 0;
    const enum what what = whats[message->kind];

    CHECK_EQ(atomic_load(&note->released), 0);
    CHECK_EQ(atomic_fetch_add(&note->handled, 1), 0);
    bed_note(bed, what, channel, 0);
    if (!keeps && result == 0) /* after a failure it is the caller's */
        spn_message_release(message);
    return result;
}

static inline void bed_caught(spn_handler *self, spn_channel *channel, int why)
{
    bed_note((struct bed *)self, CAUGHT, channel, why);
}

static const spn_handler_ops bed_ops = { bed_connected, bed_disconnected, bed_sent,
                                         bed_received, bed_caught };

static inline void bed_refused(void *ctx, spn_channel *channel, spn_message *message,
                               int why)
{
    struct bed *bed = ctx;
    struct note *note = (struct note *)message;
    struct line *line = spn_channel_data(channel);

    CHECK(line == NULL || atomic_load(&line->gone) == 0);
    CHECK_EQ(atomic_load(&note->released), 0);
    CHECK_EQ(atomic_fetch_add(&note->refused, 1), 0);
    atomic_store(&bed->refused_by, (int)who_am_i(bed));
    atomic_store(&bed->refused_why, why);
    spn_message_release(message);
    atomic_fetch_add(&bed->refused, 1);
}

/* ---- the bed ------------------------------------------------------------------------- */

static inline void bed_init(struct bed *bed)
{
    memset(bed, 0, sizeof *bed);
    bed->handler.ops = &bed_ops;
    bed->loop = pthread_self();
    REQUIRE_OK(spn_latch_create(&bed->gate, 1));
    REQUIRE_OK(spn_repository_create(&bed->repository, NULL));
}

/* A dispatch of that query, with the bed's repository and refused callback where opts has
 * none; opts may be NULL. */
static inline int bed_dispatch(struct bed *bed, const char *query,
                               const spn_dispatch_opts *opts, spn_problem *problem)
{
    spn_dispatch_opts with = SPN_DISPATCH_OPTS_INIT;
    char url[400];

    if (opts != NULL)
        with = *opts;
    if (with.repository == NULL)
        with.repository = bed->repository;
    (void)snprintf(url, sizeof url, "toy://127.0.0.1:4000?dump.enable=false&%s", query);
    return spn_dispatch_create(&bed->dispatch, url, &bed->handler, &with, problem);
}

static inline void bed_open(struct bed *bed, const char *query)
{
    spn_dispatch_opts opts = SPN_DISPATCH_OPTS_INIT;
    spn_problem problem = SPN_PROBLEM_INIT;
    int rc;

    bed_init(bed);
    opts.refused = bed_refused;
    opts.ctx = bed;
    rc = bed_dispatch(bed, query, &opts, &problem);
    if (rc != SPN_OK)
        printf("  %s: %s\n", query, problem.text);
    REQUIRE_OK(rc);
}

static inline void bed_let_go(struct bed *bed)
{
    (void)spn_latch_count_down(bed->gate);
}

/* The dispatch ends first, then what it stood on. */
static inline void bed_close(struct bed *bed)
{
    bed_let_go(bed);
    if (bed->dispatch != NULL) {
        CHECK_OK(spn_dispatch_stop(bed->dispatch, T_LONG_NS));
        CHECK_OK(spn_dispatch_destroy(bed->dispatch));
    }
    CHECK_OK(spn_repository_destroy_all(bed->repository, T_LONG_NS));
    CHECK_OK(spn_repository_destroy(bed->repository));
    CHECK_OK(spn_latch_destroy(bed->gate));
}

static inline spn_dispatch_stats bed_stats(struct bed *bed)
{
    spn_dispatch_stats stats = SPN_DISPATCH_STATS_INIT;

    CHECK_OK(spn_dispatch_stats_get(bed->dispatch, &stats));
    return stats;
}

/* Tells the dispatch; of a message the note is used. */
static inline int bed_tell(struct bed *bed, enum what what, struct line *line,
                           struct note *note)
{
    spn_handler *handler = spn_dispatch_handler(bed->dispatch);
    int rc;

    switch (what) {
    case CONNECTED:
        spn_handler_connected(handler, line->channel);
        return 0;
    case DISCONNECTED:
        spn_handler_disconnected(handler, line->channel, SPN_EIO);
        return 0;
    case SENT:
        spn_handler_sent(handler, line->channel, UINT64_C(77));
        return 0;
    case CAUGHT:
        spn_handler_caught(handler, line->channel, SPN_EPROTO);
        return 0;
    default:
        (void)note_make(note, bed,
                        what == REQUEST    ? SPN_MESSAGE_REQUEST
                        : what == RESPONSE ? SPN_MESSAGE_RESPONSE
                                           : SPN_MESSAGE_OTHER);
        rc = spn_handler_received(handler, line->channel, &note->head);
        if (rc != 0) {
            CHECK_EQ(atomic_load(&note->released), 0);
            spn_message_release(&note->head);
        }
        return rc;
    }
}

static inline bool is_message(enum what what)
{
    return what == REQUEST || what == RESPONSE || what == OTHER;
}

static inline int hang_in_pool(void *arg)
{
    bed_hang(arg);
    return 0;
}

/* Each thread of the pool hangs, and so many calls wait behind them. */
static inline void bed_fill(struct bed *bed, int threads, int queued)
{
    spn_pool *pool = spn_dispatch_pool(bed->dispatch);

    for (int i = 0; i < threads; i++) {
        CHECK_OK(spn_executor_call(spn_pool_executor(pool), hang_in_pool, bed));
        T_AWAIT(atomic_load(&bed->hanging) == i + 1);
    }
    for (int i = 0; i < queued; i++)
        CHECK_OK(spn_executor_call(spn_pool_executor(pool), hang_in_pool, bed));
    CHECK_EQ(pool_stats(pool).queued, queued);
}

#define CHECK_HAS(text, part)                                          \
    do {                                                               \
        const char *const has_text = (text);                           \
        if (!CHECK(strstr(has_text, part) != NULL))                    \
            printf("  \"%s\" is not in \"%s\"\n", (part), (has_text)); \
    } while (0)

#endif /* CHANNEL_BED_H */
