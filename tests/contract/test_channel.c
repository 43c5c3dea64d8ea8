/* SPDX-License-Identifier: MIT */
/*
 * Channels, messages, handlers and dispatches of a program's own event loop, but for the table
 * of test_channel_table.c: references, decorators, failures, order, limits, the end.
 */
#include <spindle/clock.h>

#include "channel_bed.h"
#include "channel_order.h"
#include "pool_calls.h"

/* ---- channels ------------------------------------------------------------------------ */

/* A channel is what its functions are: the message and the reason go there as they are. */
TEST(channel__send_and_close__are_those_of_the_program, "CH-1")
{
    static const spn_channel_ops only_send = { sizeof only_send, line_send, NULL,
                                               NULL };
    char remote[] = "10.0.0.1:40000";
    struct line line = { .answer = SPN_EFULL };
    int message = 7;

    REQUIRE_OK(spn_channel_create(&line.channel, &line_ops, &line, remote));
    remote[0] = 'x'; /* it was copied */
    CHECK_STR(spn_channel_remote(line.channel), "10.0.0.1:40000");
    CHECK_STATUS(spn_channel_send(line.channel, &message), SPN_EFULL);
    CHECK(line.sent == &message);
    line.answer = 0;
    CHECK_OK(spn_channel_send(line.channel, &message));
    CHECK_EQ(atomic_load(&line.sends), 2);
    spn_channel_close(line.channel, SPN_EPROTO);
    CHECK_EQ(atomic_load(&line.closes), 1);
    CHECK_STATUS(atomic_load(&line.why), SPN_EPROTO);
    CHECK(spn_channel_data(line.channel) == NULL);
    spn_channel_set_data(line.channel, &message, NULL);
    CHECK(spn_channel_data(line.channel) == &message);
    line_end(&line);

    line_open_from(&line, NULL);
    CHECK_STR(spn_channel_remote(line.channel), "");
    line_end(&line);
    line_open_from(&line, "");
    CHECK_STR(spn_channel_remote(line.channel), "");
    line_end(&line);

    memset(&line, 0, sizeof line);
    REQUIRE_OK(spn_channel_create(&line.channel, &only_send, &line, "[::1]:5"));
    CHECK_OK(spn_channel_send(line.channel, &message));
    spn_channel_close(line.channel, SPN_ECLOSED); /* there is nothing to close */
    spn_channel_unref(line.channel);
    CHECK_EQ(atomic_load(&line.gone), 0); /* nor to be told */
}

/* An address of any length is kept, or cut where it must be; it never overruns. */
TEST(channel__address_of_any_length__kept_as_text, "CH-1")
{
    char remote[5000];
    struct line line;

    for (size_t length = 1; length < sizeof remote; length = length * 3 + 1) {
        memset(remote, 'a', length);
        remote[length] = '\0';
        line_open_from(&line, remote);
        CHECK(strncmp(spn_channel_remote(line.channel), remote,
                      strlen(spn_channel_remote(line.channel))) == 0);
        CHECK(length > 100 || strlen(spn_channel_remote(line.channel)) == length);
        line_end(&line);
    }
}

static void ref_and_unref(int index, void *arg)
{
    struct line *line = arg;

    (void)index;
    for (int i = 0; i < t_rounds(2000); i++) {
        CHECK(spn_channel_ref(line->channel) == line->channel);
        CHECK_EQ(atomic_load(&line->gone), 0);
        spn_channel_unref(line->channel);
    }
}

/* References come and go on any thread; the last one ends the channel, once. */
TEST(channel__references_of_many_threads__gone_once_after_the_last, "CH-2")
{
    struct line line;

    line_open(&line);
    t_parallel(T_THREADS, ref_and_unref, &line);
    CHECK_EQ(atomic_load(&line.gone), 0);
    CHECK(spn_channel_ref(line.channel) == line.channel);
    spn_channel_unref(line.channel);
    CHECK_EQ(atomic_load(&line.gone), 0);
    line_end(&line);
}

static atomic_int words_gone;

static void word_gone(void *data)
{
    struct line *line = data;

    CHECK_EQ(atomic_load(&line->gone), 0); /* before the channel's own end */
    atomic_fetch_add(&words_gone, 1);
}

/* A word that is to be told of its end is told so once: when another takes its place, or when
 * the last reference has gone, and a message is one. */
TEST(channel__word_with_an_end__told_once, "CH-22")
{
    struct line line;
    struct note note;
    struct bed bed;

    atomic_store(&words_gone, 0);
    bed_init(&bed);
    atomic_store(&bed.keeps, 1);
    line_open(&line);
    spn_channel_set_data(line.channel, &line, word_gone);
    CHECK_EQ(atomic_load(&words_gone), 0);
    spn_channel_set_data(line.channel, NULL, word_gone); /* nothing has no end */
    CHECK_EQ(atomic_load(&words_gone), 1);
    CHECK(spn_channel_data(line.channel) == NULL);
    spn_channel_set_data(line.channel, &line, NULL);
    spn_channel_set_data(line.channel, &line, word_gone);
    CHECK_EQ(atomic_load(&words_gone), 1);
    CHECK_OK(spn_handler_received(&bed.handler, line.channel,
                                  note_make(&note, &bed, SPN_MESSAGE_REQUEST)));
    line_drop(&line);
    CHECK_EQ(atomic_load(&words_gone), 1);
    CHECK(spn_channel_data(note.head.channel) == &line);
    spn_message_release(&note.head);
    CHECK_EQ(atomic_load(&words_gone), 2);
    CHECK_EQ(atomic_load(&line.gone), 1);
    spn_channel_set_data(NULL, &line, word_gone);
    CHECK_EQ(atomic_load(&words_gone), 2);
    bed_close(&bed);
}

/* ---- messages and handlers ------------------------------------------------------------ */

/* Told to a handler without a dispatch, the message is the handler's, and keeps its channel
 * until it is released. */
TEST(channel__message_kept_by_its_handler__keeps_the_channel, "CH-3", "CH-6")
{
    struct note notes[3];
    struct bed bed;
    struct line line;

    bed_init(&bed);
    atomic_store(&bed.keeps, 1);
    line_open(&line);
    for (int i = 0; i < 3; i++)
        CHECK_OK(spn_handler_received(&bed.handler, line.channel,
                                      note_make(&notes[i], &bed,
                                                i == 0 ? SPN_MESSAGE_OTHER : i)));
    CHECK_EQ(atomic_load(&bed.who[REQUEST]), LOOP);
    line_drop(&line);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(atomic_load(&line.gone), 0);
        CHECK_EQ(atomic_load(&notes[i].released), 0);
        CHECK_STR(spn_channel_remote(notes[i].head.channel), "10.0.0.1:40000");
        spn_message_release(&notes[i].head);
        CHECK_EQ(atomic_load(&notes[i].released), 1);
    }
    CHECK_EQ(atomic_load(&line.gone), 1);
    spn_message_release(NULL);
    bed_close(&bed);
}

/* A message that was never told to a handler has no channel to give up. */
TEST(channel__message_that_was_never_told__released_all_the_same, "CH-6")
{
    struct note note;

    spn_message_release(note_make(&note, NULL, SPN_MESSAGE_REQUEST));
    CHECK_EQ(atomic_load(&note.released), 1);
}

/* A decorator that has some of the functions, and counts. */
struct decorator {
    spn_handler handler;
    int count;
};

static void counts_sent(spn_handler *self, spn_channel *channel, uint64_t position)
{
    ((struct decorator *)self)->count++;
    spn_handler_sent(self->inner, channel, position + 1);
}

static int counts_received(spn_handler *self, spn_channel *channel,
                           spn_message *message)
{
    ((struct decorator *)self)->count++;
    return spn_handler_received(self->inner, channel, message);
}

static const spn_handler_ops no_functions = { NULL, NULL, NULL, NULL, NULL };
static const spn_handler_ops two_functions = { NULL, NULL, counts_sent, counts_received,
                                               NULL };

/* What a decorator does not have goes to the next one inside, however many of these there
 * are; a dispatch may be among them. */
TEST(channel__decorators_without_functions__pass_events_on, "CH-4")
{
    struct decorator outer[50], inner;
    struct bed bed;
    struct line line;
    struct note note;
    spn_handler *handler;

    bed_init(&bed);
    inner = (struct decorator){ { &two_functions, &bed.handler }, 0 };
    REQUIRE_OK(spn_dispatch_create(&bed.dispatch, "toy://h:1?dispatcher=direct",
                                   &inner.handler, NULL, NULL));
    handler = spn_dispatch_handler(bed.dispatch);
    for (int i = 0; i < 50; i++) {
        outer[i] =
            (struct decorator){ { i == 20 ? &two_functions : &no_functions, handler },
                                0 };
        handler = &outer[i].handler;
    }
    line_open(&line);
    spn_handler_connected(handler, line.channel);
    spn_handler_sent(handler, line.channel, 5);
    CHECK_OK(spn_handler_received(handler, line.channel,
                                  note_make(&note, &bed, SPN_MESSAGE_REQUEST)));
    spn_handler_caught(handler, line.channel, SPN_EPROTO);
    spn_handler_disconnected(handler, line.channel, SPN_OK);
    for (int what = 0; what < OTHER; what++)
        if (what != RESPONSE)
            CHECK_EQ(atomic_load(&bed.count[what]), 1);
    CHECK_EQ(atomic_load(&bed.position), 7);
    CHECK_EQ(outer[20].count, 2);
    CHECK_EQ(inner.count, 2);
    CHECK_STATUS(atomic_load(&bed.why[CAUGHT]), SPN_EPROTO);
    CHECK_OK(atomic_load(&bed.why[DISCONNECTED]));
    CHECK_EQ(atomic_load(&note.released), 1);
    line_end(&line);
    bed_close(&bed);
}

/* Behind the last handler nothing happens, and a message is released: also behind a dispatch,
 * on whatever thread that is. */
TEST(channel__no_handler_has_the_function__message_released, "CH-4")
{
    static const char *const urls[] = {
        NULL, "toy://h:1?dispatcher=direct",
        "toy://h:1?dispatcher=all&threads=1&queues=50"
    };

    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        struct decorator outer, inner = { { &no_functions, NULL }, 0 };
        spn_dispatch *dispatch = NULL;
        struct line line;
        struct note note;

        if (urls[i] != NULL)
            REQUIRE_OK(
                spn_dispatch_create(&dispatch, urls[i], &inner.handler, NULL, NULL));
        outer = (struct decorator){ { &no_functions,
                                      dispatch != NULL ? spn_dispatch_handler(dispatch)
                                                       : &inner.handler },
                                    0 };
        line_open(&line);
        spn_handler_connected(&outer.handler, line.channel);
        spn_handler_sent(&outer.handler, line.channel, 5);
        CHECK_OK(spn_handler_received(&outer.handler, line.channel,
                                      note_make(&note, NULL, SPN_MESSAGE_REQUEST)));
        spn_handler_caught(&outer.handler, line.channel, SPN_EPROTO);
        spn_handler_disconnected(&outer.handler, line.channel, SPN_OK);
        line_drop(&line);
        T_AWAIT(atomic_load(&line.gone) == 1);
        CHECK_EQ(atomic_load(&note.released), 1);
        if (dispatch != NULL) {
            CHECK_OK(spn_dispatch_stop(dispatch, T_LONG_NS));
            CHECK_OK(spn_dispatch_destroy(dispatch));
        }
    }
}

/* ---- failures of handlers --------------------------------------------------------------- */

/* A failure of `received` comes back where the handler ran here, with the message; where the
 * message was handed over, that was 0, and the task releases it. */
TEST(channel__received_fails__told_to_the_thread_it_ran_on, "CH-7")
{
    static const char *const queries[] = { "dispatcher=direct",
                                           "dispatcher=all&threads=1&queues=5" };

    CHECK_OK(spn_log_set_level(SPN_LOG_OFF));
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        struct bed bed;
        struct line line;
        struct note note;

        bed_open(&bed, queries[i]);
        atomic_store(&bed.result, SPN_EFAILED);
        line_open(&line);
        CHECK_STATUS(bed_tell(&bed, REQUEST, &line, &note),
                     i == 0 ? SPN_EFAILED : SPN_OK);
        T_AWAIT(atomic_load(&note.released) == 1);
        /* On the loop it is the loop's to tell; the task tells the handler itself. */
        CHECK_EQ(atomic_load(&bed.count[CAUGHT]), (int)i);
        if (i == 1) {
            CHECK_EQ(atomic_load(&bed.who[CAUGHT]), POOL);
            CHECK_STATUS(atomic_load(&bed.why[CAUGHT]), SPN_EFAILED);
        }
        line_drop(&line);
        T_AWAIT(atomic_load(&line.gone) == 1);
        bed_close(&bed);
    }
    CHECK_OK(spn_log_set_level(SPN_LOG_WARN));
}

/* ---- order ---------------------------------------------------------------------------- */

/* Connections that come and go while the one thread is held up are told one after the other,
 * in the order they happened, and messages do not wait for them. */
TEST(channel__dispatcher_connection__in_order_on_one_thread, "CH-14")
{
    struct order o;
    spn_dispatch *dispatch;
    spn_handler *handler;
    struct note note;

    order_open(&o, &dispatch,
               "toy://h:1?dispatcher=connection&threads=2&threadname=Toy&queues=50");
    handler = spn_dispatch_handler(dispatch);
    for (int i = 0; i < LINES; i++) {
        spn_handler_connected(handler, o.lines[i].channel);
        if (i % 2 == 1)
            spn_handler_disconnected(handler, o.lines[i - 1].channel, SPN_OK);
    }
    CHECK_OK(spn_handler_received(handler, o.lines[0].channel,
                                  note_make(&note, NULL, SPN_MESSAGE_REQUEST)));
    T_AWAIT(atomic_load(&note.released) == 1);
    T_AWAIT(atomic_load(&o.running) == 1);
    CHECK_EQ(atomic_load(&o.told), 0);
    CHECK_OK(spn_latch_count_down(o.gate));
    T_AWAIT(atomic_load(&o.told) == LINES + LINES / 2);
    CHECK_EQ(atomic_load(&o.most), 1);
    for (int i = 0, at = 0; i < LINES; i++) {
        CHECK_EQ(o.seen[at].line, i);
        CHECK(!o.seen[at++].is_end);
        if (i % 2 == 1) {
            CHECK_EQ(o.seen[at].line, i - 1);
            CHECK(o.seen[at++].is_end);
        }
    }
    CHECK_STR(o.name, "ordered-Toy-thread-1");
    order_close(&o, dispatch);
}

/* ---- limits ------------------------------------------------------------------------------ */

static int offer(struct bed *bed, struct line *line, struct note *notes, int count,
                 int kind)
{
    const int before = atomic_load(&bed->refused);

    for (int i = 0; i < count; i++)
        CHECK_OK(spn_handler_received(spn_dispatch_handler(bed->dispatch),
                                      line->channel, note_make(&notes[i], bed, kind)));
    return count - (atomic_load(&bed->refused) - before);
}

/* How many messages of one channel the pool may have: seven eighths of its places, or what
 * the URL says.  Responses and other channels are not bound by it. */
TEST(channel__messages_of_one_channel__bounded_by_inflight, "CH-16")
{
    static const struct {
        const char *query;
        int taken;
    } cases[] = {
        { "threads=1&queues=1", 1 },
        { "threads=2&queues=6", 7 },
        { "threads=1&queues=31", 28 },
        { "threads=2&queues=30&inflight=3", 3 },
        { "threads=2&queues=30&inflight=1", 1 },
        { "threads=2&queues=-1&inflight=5", 5 },
        { "threads=2&queues=-1", 40 },
        { "threads=2&queues=38&inflight=0", 40 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct note notes[40], others[2], response;
        struct line line, other;
        struct bed bed;

        bed_open(&bed, cases[i].query);
        atomic_store(&bed.hangs, 1u << REQUEST | 1u << OTHER);
        line_open(&line);
        line_open(&other);
        CHECK_EQ(offer(&bed, &line, notes, 40, (int)(i % 2)), cases[i].taken);
        if (cases[i].taken < 40) {
            CHECK_STATUS(atomic_load(&bed.refused_why), SPN_EREJECTED);
            CHECK_EQ(atomic_load(&bed.refused_by), LOOP);
            CHECK_EQ(offer(&bed, &other, others, 1, SPN_MESSAGE_REQUEST), 1);
            CHECK_EQ(offer(&bed, &line, &response, 1, SPN_MESSAGE_RESPONSE), 1);
        }
        CHECK_EQ(bed_stats(&bed).refused, (uint64_t)(40 - cases[i].taken));
        bed_let_go(&bed);
        if (cases[i].taken < 40) {
            T_AWAIT(atomic_load(&others[0].released) == 1);
            T_AWAIT(atomic_load(&response.released) == 1);
        }
        for (int n = 0; n < 40; n++)
            T_AWAIT(atomic_load(&notes[n].released) == 1);
        /* All places are free again. */
        T_AWAIT(pool_stats(spn_dispatch_pool(bed.dispatch)).active == 0);
        atomic_store(&bed.hangs, 0);
        CHECK_EQ(offer(&bed, &line, notes, 1, SPN_MESSAGE_REQUEST), 1);
        line_drop(&line);
        line_drop(&other);
        bed_close(&bed);
        CHECK_EQ(atomic_load(&line.gone), 1);
        CHECK_EQ(atomic_load(&other.gone), 1);
    }
}

/* One message at a time is never refused, however few places there are. */
TEST(channel__one_message_at_a_time__never_refused, "CH-16")
{
    struct bed bed;
    struct line line;
    struct note note;

    bed_open(&bed, "threads=1&queues=1");
    line_open(&line);
    for (int i = 0; i < t_rounds(3000); i++) {
        CHECK_EQ(offer(&bed, &line, &note, 1, SPN_MESSAGE_REQUEST), 1);
        T_AWAIT(atomic_load(&note.released) == 1);
    }
    CHECK_EQ(bed_stats(&bed).refused, 0);
    line_drop(&line);
    bed_close(&bed);
}

/* inflight.address binds all channels of one address, whatever their ports. */
TEST(channel__messages_of_one_address__bounded_by_inflight_address, "CH-16")
{
    static const char *const remotes[] = { "10.0.0.1:1",  "10.0.0.1:2",  "10.0.0.2:1",
                                           "[fe80::1]:1", "[fe80::1]:2", NULL };
    struct note notes[8], more;
    struct line lines[6];
    struct bed bed;

    bed_open(&bed, "threads=1&queues=-1&inflight.address=3");
    atomic_store(&bed.hangs, 1u << REQUEST);
    for (int i = 0; i < 6; i++) {
        line_open_from(&lines[i], remotes[i]);
        spn_handler_connected(spn_dispatch_handler(bed.dispatch), lines[i].channel);
    }
    CHECK_EQ(offer(&bed, &lines[0], &notes[0], 2, SPN_MESSAGE_REQUEST), 2);
    CHECK_EQ(offer(&bed, &lines[1], &notes[2], 2, SPN_MESSAGE_REQUEST), 1);
    CHECK_STATUS(atomic_load(&bed.refused_why), SPN_EREJECTED);
    CHECK_EQ(offer(&bed, &lines[2], &notes[4], 1, SPN_MESSAGE_REQUEST), 1);
    CHECK_EQ(offer(&bed, &lines[3], &notes[5], 1, SPN_MESSAGE_REQUEST), 1);
    CHECK_EQ(offer(&bed, &lines[5], &notes[6], 1, SPN_MESSAGE_REQUEST), 1);
    bed_let_go(&bed);
    for (int n = 0; n < 7; n++)
        T_AWAIT(atomic_load(&notes[n].released) == 1);
    T_AWAIT(pool_stats(spn_dispatch_pool(bed.dispatch)).active == 0);
    CHECK_EQ(offer(&bed, &lines[1], &more, 1, SPN_MESSAGE_REQUEST), 1);
    for (int i = 0; i < 6; i++) {
        spn_handler_disconnected(spn_dispatch_handler(bed.dispatch), lines[i].channel,
                                 SPN_OK);
        line_drop(&lines[i]);
    }
    bed_close(&bed);
    for (int i = 0; i < 6; i++)
        CHECK_EQ(atomic_load(&lines[i].gone), 1);
}

/* With queue.target requests are refused while those before them wait longer than that: by
 * the time that the messages say they came, which is virtual here. */
TEST(channel__messages_wait_too_long__refused_by_queue_target, "CH-17")
{
    struct note slow, notes[40];
    struct line line;
    struct bed bed;
    int taken = 0;

    bed_open(&bed, "threads=1&queues=-1&inflight=0&queue.target=5");
    atomic_store(&bed.hangs, 1u << REQUEST);
    line_open(&line);
    CHECK_EQ(offer(&bed, &line, &slow, 1, SPN_MESSAGE_REQUEST), 1);
    T_AWAIT(atomic_load(&bed.hanging) == 1);
    for (int i = 0; i < 40; i++) { /* 4 s pass */
        (void)note_make(&notes[i], &bed, SPN_MESSAGE_REQUEST);
        notes[i].head.arrived_ns = spn_now() + SPN_MS(100) * (i + 1);
        CHECK_OK(spn_handler_received(spn_dispatch_handler(bed.dispatch), line.channel,
                                      &notes[i].head));
        taken += atomic_load(&notes[i].refused) == 0;
    }
    CHECK(taken < 40);
    CHECK_EQ(atomic_load(&notes[0].refused), 0);
    CHECK_EQ(atomic_load(&notes[39].refused), 1);
    CHECK_STATUS(atomic_load(&bed.refused_why), SPN_EREJECTED);
    CHECK_EQ(bed_stats(&bed).refused, (uint64_t)(40 - taken));
    bed_let_go(&bed);
    for (int i = 0; i < 40; i++)
        T_AWAIT(atomic_load(&notes[i].released) == 1);
    line_drop(&line);
    bed_close(&bed);
    CHECK_EQ(atomic_load(&line.gone), 1);
}
