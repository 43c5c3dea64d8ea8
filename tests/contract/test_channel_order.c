/* SPDX-License-Identifier: MIT */
/*
 * channel.order=true: what the pool handles of one channel is handled one after the other, in
 * the order in which it was told, and channels do not wait for each other.
 */
#include <spindle/threadless.h>

#include "channel_bed.h"
#include "pool_calls.h"

enum { LINES = 3, EACH = 40 };

/* What was told of a channel, and in which order it was handled. */
struct row {
    struct line line;
    struct note notes[EACH];
    int told; /* events so far; its number is what a handler has to see next */
    int numbers[2 * EACH];
    atomic_int handled, running;
    atomic_int hangs; /* 1: the next to be handled waits for the gate */
};

static struct site {
    spn_handler handler;
    spn_dispatch *dispatch;
    spn_latch *gate;
    struct row rows[LINES];
    atomic_int hanging, wrong, refused, refused_why;
} site;

static void row_hang(struct row *row)
{
    if (atomic_exchange(&row->hangs, 0) == 0)
        return;
    atomic_fetch_add(&site.hanging, 1);
    while (spn_latch_await(site.gate, T_LONG_NS) == SPN_EINTR)
        ;
}

/* One at a time, and it is the event that was told next. */
static void row_note(spn_channel *channel, int what)
{
    struct row *row = spn_channel_data(channel);
    const int at = atomic_load(&row->handled);

    if (atomic_fetch_add(&row->running, 1) != 0 || row->numbers[at] != what)
        atomic_fetch_add(&site.wrong, 1);
    row_hang(row);
    atomic_fetch_sub(&row->running, 1);
    atomic_store(&row->handled, at + 1);
}

static void on_connected(spn_handler *self, spn_channel *channel)
{
    (void)self;
    row_note(channel, -CONNECTED - 1);
}

static void on_disconnected(spn_handler *self, spn_channel *channel, int why)
{
    (void)self;
    (void)why;
    row_note(channel, -DISCONNECTED - 1);
}

static void on_caught(spn_handler *self, spn_channel *channel, int why)
{
    (void)self;
    (void)why;
    row_note(channel, -CAUGHT - 1);
}

static int on_received(spn_handler *self, spn_channel *channel, spn_message *message)
{
    struct note *note = (struct note *)message;

    (void)self;
    row_note(channel, note->id);
    atomic_fetch_add(&note->handled, 1);
    spn_message_release(message);
    return 0;
}

static const spn_handler_ops site_ops = { on_connected, on_disconnected, NULL,
                                          on_received, on_caught };

/* In its turn, too. */
static void on_refused(void *ctx, spn_channel *channel, spn_message *message, int why)
{
    (void)ctx;
    row_note(channel, ((struct note *)message)->id);
    atomic_fetch_add(&((struct note *)message)->refused, 1);
    atomic_store(&site.refused_why, why);
    spn_message_release(message);
    atomic_fetch_add(&site.refused, 1);
}

static void site_open(const char *query)
{
    spn_dispatch_opts opts = SPN_DISPATCH_OPTS_INIT;
    char url[200];

    memset(&site, 0, sizeof site);
    site.handler.ops = &site_ops;
    opts.refused = on_refused;
    REQUIRE_OK(spn_latch_create(&site.gate, 1));
    (void)snprintf(url, sizeof url, "toy://h:1?channel.order=true&dump.enable=false&%s",
                   query);
    REQUIRE_OK(spn_dispatch_create(&site.dispatch, url, &site.handler, &opts, NULL));
    for (int i = 0; i < LINES; i++) {
        line_open(&site.rows[i].line);
        spn_channel_set_data(site.rows[i].line.channel, &site.rows[i], NULL);
    }
}

static void site_close(void)
{
    (void)spn_latch_count_down(site.gate);
    CHECK_OK(spn_dispatch_stop(site.dispatch, T_LONG_NS));
    CHECK_OK(spn_dispatch_destroy(site.dispatch));
    for (int i = 0; i < LINES; i++)
        line_end(&site.rows[i].line);
    CHECK_EQ(atomic_load(&site.wrong), 0);
    CHECK_OK(spn_latch_destroy(site.gate));
}

/* Tells an event of the pool's, or a message. */
static void row_tell(struct row *row, enum what what)
{
    spn_handler *handler = spn_dispatch_handler(site.dispatch);
    spn_channel *channel = row->line.channel;
    struct note *note;

    row->numbers[row->told] = -(int)what - 1;
    switch (what) {
    case CONNECTED:
        row->told++;
        spn_handler_connected(handler, channel);
        return;
    case DISCONNECTED:
        row->told++;
        spn_handler_disconnected(handler, channel, SPN_OK);
        return;
    case CAUGHT:
        row->told++;
        spn_handler_caught(handler, channel, SPN_EPROTO);
        return;
    default:
        break;
    }
    note = &row->notes[row->told];
    (void)note_make(note, NULL,
                    what == REQUEST    ? SPN_MESSAGE_REQUEST
                    : what == RESPONSE ? SPN_MESSAGE_RESPONSE
                                       : SPN_MESSAGE_OTHER);
    row->numbers[row->told++] = note->id;
    CHECK_OK(spn_handler_received(handler, channel, &note->head));
}

static void tell_all(struct row *row, int count)
{
    static const enum what whats[] = { REQUEST, OTHER, REQUEST, CAUGHT, RESPONSE };

    row_tell(row, CONNECTED);
    while (row->told < count - 1)
        row_tell(row, whats[row->told % 5]);
    row_tell(row, DISCONNECTED);
}

/* With more threads than channels, each has its events one after the other, in order; one that
 * hangs holds up its own and no other. */
TEST(channel__order_asked_for__one_after_the_other_in_order, "CH-23")
{
    site_open("dispatcher=all&threads=6&queues=200");
    atomic_store(&site.rows[0].hangs, 1);
    for (int i = 0; i < LINES; i++)
        tell_all(&site.rows[i], EACH);
    for (int i = 1; i < LINES; i++)
        T_AWAIT(atomic_load(&site.rows[i].handled) == EACH);
    T_AWAIT(atomic_load(&site.hanging) == 1);
    CHECK_EQ(atomic_load(&site.rows[0].handled), 0);
    CHECK_OK(spn_latch_count_down(site.gate));
    T_AWAIT(atomic_load(&site.rows[0].handled) == EACH);
    CHECK_EQ(atomic_load(&site.refused), 0);
    site_close();
}

/* The pool is shut down while a channel has events that wait behind one that hangs: the shared
 * executor handles them, in order, and what is told later. */
TEST(channel__order_in_a_pool_that_ends__none_lost, "CH-23", "CH-12")
{
    site_open("dispatcher=all&threads=2&queues=200");
    atomic_store(&site.rows[0].hangs, 1);
    for (int i = 0; i < LINES; i++)
        tell_all(&site.rows[i], EACH / 2);
    T_AWAIT(atomic_load(&site.hanging) == 1);
    /* One channel has nothing more with the pool: the shared executor begins its turns. */
    T_AWAIT(atomic_load(&site.rows[1].handled) == site.rows[1].told);
    CHECK_OK(pool_shutdown(spn_dispatch_pool(site.dispatch)));
    for (int n = 0; n < 5; n++)
        for (int i = 0; i < LINES; i++)
            row_tell(&site.rows[i], n % 2 == 0 ? REQUEST : CAUGHT);
    CHECK_OK(spn_latch_count_down(site.gate));
    for (int i = 0; i < LINES; i++)
        T_AWAIT(atomic_load(&site.rows[i].handled) == site.rows[i].told);
    CHECK_EQ(atomic_load(&site.refused), 0);
    site_close();
}

/* A channel has no more with the pool than inflight allows, in order or not. */
TEST(channel__order_and_inflight__bounded, "CH-23", "CH-16")
{
    site_open("dispatcher=message&threads=2&queues=200&inflight=5");
    atomic_store(&site.rows[0].hangs, 1);
    for (int i = 0; i < 12; i++)
        row_tell(&site.rows[0], REQUEST);
    T_AWAIT(atomic_load(&site.hanging) == 1);
    CHECK_EQ(atomic_load(&site.refused), 0); /* that is said in its turn */
    row_tell(&site.rows[1], REQUEST);
    T_AWAIT(atomic_load(&site.rows[1].handled) == 1);
    CHECK_OK(spn_latch_count_down(site.gate));
    T_AWAIT(atomic_load(&site.rows[0].handled) == 12);
    T_AWAIT(atomic_load(&site.refused) == 7); /* counted after it is handled */
    CHECK_STATUS(atomic_load(&site.refused_why), SPN_EREJECTED);
    for (int i = 0; i < 12; i++)
        CHECK_EQ(atomic_load(&site.rows[0].notes[i].handled), i < 5 ? 1 : 0);
    row_tell(&site.rows[0], REQUEST); /* and has room again */
    T_AWAIT(atomic_load(&site.rows[0].handled) == 13);
    CHECK_EQ(atomic_load(&site.refused), 7);
    site_close();
}

/* stop waits for what a channel has waiting; at the deadline it is refused. */
TEST(channel__order_and_stop__waited_for_or_refused, "CH-23", "CH-18")
{
    site_open("dispatcher=message&threads=2&queues=200");
    for (int i = 0; i < 10; i++)
        row_tell(&site.rows[0], REQUEST);
    CHECK_OK(spn_dispatch_stop(site.dispatch, T_LONG_NS));
    CHECK_EQ(atomic_load(&site.rows[0].handled), 10);
    site_close();

    site_open("dispatcher=message&threads=2&queues=200");
    atomic_store(&site.rows[0].hangs, 1);
    for (int i = 0; i < 10; i++)
        row_tell(&site.rows[0], REQUEST);
    T_AWAIT(atomic_load(&site.hanging) == 1);
    CHECK_STATUS(spn_dispatch_stop(site.dispatch, SPN_MS(5)), SPN_ETIMEDOUT);
    CHECK_STATUS(spn_dispatch_destroy(site.dispatch), SPN_EBUSY);
    CHECK_OK(spn_latch_count_down(site.gate));
    CHECK_OK(spn_dispatch_stop(site.dispatch, T_LONG_NS));
    CHECK_EQ(atomic_load(&site.rows[0].handled), 10);
    CHECK(atomic_load(&site.refused) <= 9);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(atomic_load(&site.rows[0].notes[i].released), 1);
    site_close();
}

static int on_received_anyhow(spn_handler *self, spn_channel *channel,
                              spn_message *message)
{
    struct row *row = spn_channel_data(channel);

    (void)self;
    row_hang(row);
    atomic_fetch_add(&((struct note *)message)->handled, 1);
    spn_message_release(message);
    return 0;
}

static const spn_handler_ops anyhow_ops = { NULL, NULL, NULL, on_received_anyhow,
                                            NULL };

/* A response that somebody waits for does not wait for its turn. */
TEST(channel__order_and_a_waiter__passes_the_others, "CH-23", "CH-13")
{
    spn_threadless *threadless;
    struct note *note = &site.rows[0].notes[EACH - 1];

    site_open("dispatcher=all&threads=2&queues=200");
    site.handler.ops = &anyhow_ops;
    atomic_store(&site.rows[0].hangs, 1);
    row_tell(&site.rows[0], REQUEST);
    row_tell(&site.rows[0], REQUEST);
    T_AWAIT(atomic_load(&site.hanging) == 1);
    REQUIRE_OK(spn_threadless_create(&threadless, NULL));
    (void)note_make(note, NULL, SPN_MESSAGE_RESPONSE);
    note->head.waiting = spn_threadless_executor(threadless);
    CHECK_OK(spn_handler_received(spn_dispatch_handler(site.dispatch),
                                  site.rows[0].line.channel, &note->head));
    CHECK_OK(spn_threadless_wait_and_drain(threadless, T_LONG_NS));
    CHECK_EQ(atomic_load(&note->handled), 1);
    CHECK_EQ(atomic_load(&site.rows[0].notes[1].handled), 0);
    CHECK_OK(spn_threadless_destroy(threadless));
    CHECK_OK(spn_latch_count_down(site.gate));
    T_AWAIT(atomic_load(&site.rows[0].notes[1].released) == 1);
    site_close();
}
