/* SPDX-License-Identifier: MIT */
/*
 * What dispatches say in the log.  Each in a process of its own: the hook is set once, and a line
 * that repeats is left out for a second.
 */
#include "channel_bed.h"
#include "channel_order.h"

static struct {
    atomic_int lines;
    char last[512]; /* published by lines */
    char all[8192];
    pthread_mutex_t lock;
} heard = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void hear(void *ctx, spn_log_level level, const char *message)
{
    (void)ctx;
    CHECK(level == SPN_LOG_WARN || level == SPN_LOG_ERROR);
    pthread_mutex_lock(&heard.lock);
    (void)snprintf(heard.last, sizeof heard.last, "%s", message);
    if (strlen(heard.all) + strlen(message) + 2 < sizeof heard.all) {
        strcat(heard.all, message);
        strcat(heard.all, "\n");
    }
    pthread_mutex_unlock(&heard.lock);
    atomic_fetch_add(&heard.lines, 1);
}

static void hear_all(void)
{
    REQUIRE_OK(spn_log_set_hook(hear, NULL));
}

static bool was_heard(const char *part)
{
    bool found;

    pthread_mutex_lock(&heard.lock);
    found = strstr(heard.all, part) != NULL;
    pthread_mutex_unlock(&heard.lock);
    if (!found)
        printf("  no \"%s\" in:\n%s", part, heard.all);
    return found;
}

static void fail_in_task(void *arg)
{
    const spn_message_ops *ops = arg;
    struct bed bed;
    struct line line;
    struct note note;

    hear_all();
    bed_open(&bed, "dispatcher=all&threads=1&queues=5");
    atomic_store(&bed.result, SPN_EFAILED);
    line_open(&line);
    (void)note_make(&note, &bed, SPN_MESSAGE_REQUEST);
    note.head.ops = ops;
    note.id = 4711;
    CHECK_OK(spn_handler_received(spn_dispatch_handler(bed.dispatch), line.channel,
                                  &note.head));
    T_AWAIT(atomic_load(&heard.lines) == 1);
    CHECK_HAS(heard.last, spn_status_text(SPN_EFAILED));
    CHECK_HAS(heard.last, "10.0.0.1:40000");
    CHECK_HAS(heard.last, "request");
    if (ops == &note_ops)
        CHECK_HAS(heard.last, "note 4711");
    line_drop(&line);
    bed_close(&bed);
    CHECK_EQ(atomic_load(&line.gone), 1);
}

/* A failure in a task is a line of the log, with the event, the channel, and what the message
 * says it is, if it says so. */
TEST(channel__received_fails_in_a_task__logged_with_event_channel_and_message, "CH-7")
{
    CHECK_CHILD(fail_in_task, (void *)(uintptr_t)&note_ops);
    CHECK_CHILD(fail_in_task, (void *)(uintptr_t)&mute_ops);
}

static void lose_event(void *arg)
{
    const enum what what = *(const enum what *)arg;
    struct bed bed;
    struct line line;
    struct note note;

    hear_all();
    bed_open(&bed, "dispatcher=all&threads=1&queues=1&inflight=0");
    line_open(&line);
    bed_fill(&bed, 1, 1);
    (void)bed_tell(&bed, what, &line, &note);
    CHECK(was_heard(what_names[what]));
    CHECK(was_heard("10.0.0.1:40000"));
    CHECK_EQ(atomic_load(&bed.count[what]), 0);
    line_end(&line);
    bed_close(&bed);
}

/* An event that the pool has no room for is lost, and the log says which. */
TEST(channel__event_without_room__lost_with_a_warning, "CH-11")
{
    enum what lost[] = { CONNECTED, DISCONNECTED, CAUGHT };

    for (size_t i = 0; i < sizeof lost / sizeof *lost; i++)
        CHECK_CHILD(lose_event, &lost[i]);
}

static void overflow_order(void *arg)
{
    struct order o;
    spn_dispatch *dispatch;
    spn_handler *handler;

    (void)arg;
    hear_all();
    order_open(&o, &dispatch,
               "toy://h:1?dispatcher=connection&threads=1&connect.queue.capacity=3&"
               "connect.queue.warning.size=1");
    handler = spn_dispatch_handler(dispatch);
    spn_handler_connected(handler, o.lines[0].channel);
    T_AWAIT(atomic_load(&o.running) == 1);
    for (int i = 1; i < 3; i++)
        spn_handler_connected(handler, o.lines[i].channel);
    CHECK_EQ(atomic_load(&heard.lines), 0);
    spn_handler_connected(handler, o.lines[3].channel); /* two wait */
    CHECK_EQ(atomic_load(&heard.lines), 1);
    CHECK_HAS(heard.last, "connectionordered channel handler queue size: 2 exceed the "
                          "warning limit number :1");
    spn_handler_connected(handler, o.lines[4].channel); /* three do: it is lost */
    CHECK_EQ(atomic_load(&heard.lines), 2);
    CHECK_HAS(heard.last, "10.0.0.1:40000");
    CHECK_OK(spn_latch_count_down(o.gate));
    T_AWAIT(atomic_load(&o.told) == 4);
    spn_handler_disconnected(handler, o.lines[4].channel, SPN_OK);
    T_AWAIT(atomic_load(&o.told) == 5);
    CHECK(o.seen[4].is_end && o.seen[4].line == 4);
    order_close(&o, dispatch);
}

/* Above connect.queue.warning.size there is a warning, above connect.queue.capacity an event
 * is lost, and nothing else. */
TEST(channel__order_overflows__warned_of_and_event_lost, "CH-14", "CH-11")
{
    CHECK_CHILD(overflow_order, NULL);
}
