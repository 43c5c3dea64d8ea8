/* SPDX-License-Identifier: MIT */
/*
 * toy.h - a handler that speaks the protocol of toy_codec.h, and checks what it is told.
 */
#ifndef TOY_H
#define TOY_H

#include "test.h"
#include "toy_codec.h"

enum { TOY_KEPT = 256 };

/* ---- the handler ---------------------------------------------------------------------- */

/* What a connection has been told; the word of its channel. */
struct toy_line {
    atomic_int connected, caught, disconnected, inside, messages, moves;
    atomic_int caught_why, why;
    atomic_ullong sent;
    atomic_uintptr_t channel;
};

enum { TOY_LINES = 512 };

struct toy_site {
    spn_handler handler;
    atomic_int lines;
    struct toy_line line[TOY_LINES];
    atomic_int connected, disconnected, caught, received;
    atomic_int send_failures, send_why;
    atomic_int keeps; /* messages that are kept, ever */
    _Atomic(spn_message *) kept[TOY_KEPT];
    bool is_dispatched; /* events may come on several threads at once */
    /* Optional: called first, for every message. */
    void (*see)(struct toy_site *site, spn_channel *channel, struct toy *toy);
};

static inline struct toy_line *toy_enter(struct toy_site *site, spn_channel *channel)
{
    struct toy_line *line = spn_channel_data(channel);

    REQUIRE(line != NULL);
    if (!site->is_dispatched) {
        CHECK_EQ(atomic_exchange(&line->inside, 1), 0);
        CHECK_EQ(atomic_load(&line->connected), 1);
        CHECK_EQ(atomic_load(&line->disconnected), 0);
    }
    return line;
}

static inline void toy_leave(struct toy_site *site, struct toy_line *line)
{
    if (!site->is_dispatched)
        atomic_store(&line->inside, 0);
}

static inline void toy_connected(spn_handler *self, spn_channel *channel)
{
    struct toy_site *site = (struct toy_site *)self;
    const int at = atomic_fetch_add(&site->lines, 1);
    struct toy_line *line = &site->line[at];

    REQUIRE(at < TOY_LINES);
    CHECK(spn_channel_data(channel) == NULL);
    spn_channel_set_data(channel, line, NULL);
    atomic_store(&line->channel, (uintptr_t)channel);
    CHECK_EQ(atomic_fetch_add(&line->connected, 1), 0);
    atomic_fetch_add(&site->connected, 1);
}

static inline void toy_disconnected(spn_handler *self, spn_channel *channel, int why)
{
    struct toy_site *site = (struct toy_site *)self;
    struct toy_line *line = toy_enter(site, channel);

    atomic_store(&line->why, why);
    toy_leave(site, line);
    CHECK_EQ(atomic_fetch_add(&line->disconnected, 1), 0);
    atomic_fetch_add(&site->disconnected, 1);
}

static inline void toy_sent(spn_handler *self, spn_channel *channel, uint64_t position)
{
    struct toy_site *site = (struct toy_site *)self;
    struct toy_line *line = toy_enter(site, channel);

    CHECK(position > atomic_load(&line->sent));
    atomic_store(&line->sent, position);
    toy_leave(site, line);
}

static inline void toy_answer(struct toy_site *site, spn_channel *channel, char letter,
                              const void *body, size_t size)
{
    const int rc = toy_send(channel, letter, body, size);

    if (rc == SPN_OK)
        return;
    atomic_store(&site->send_why, rc);
    atomic_fetch_add(&site->send_failures, 1);
}

static inline int toy_received(spn_handler *self, spn_channel *channel,
                               spn_message *message)
{
    struct toy_site *site = (struct toy_site *)self;
    struct toy *toy = (struct toy *)message;
    struct toy_line *line = toy_enter(site, channel);
    char letter;

    CHECK(message->channel == channel);
    atomic_fetch_add(&line->messages, 1);
    if (site->see != NULL)
        site->see(site, channel, toy);
    letter = toy->letter;
    if (letter == 'Q')
        toy_answer(site, channel, 'R', toy->body, toy->size);
    if (letter == 'D' && toy->size >= 4)
        toy_answer(site, channel, 'R', NULL, toy_number(toy->body));
    if (letter == 'K') {
        const int at = atomic_fetch_add(&site->keeps, 1);

        REQUIRE(at < TOY_KEPT);
        atomic_store(&site->kept[at], message);
    } else if (letter != 'F') {
        spn_message_release(message);
    }
    toy_leave(site, line);
    atomic_fetch_add(&site->received, 1);
    return letter == 'F' ? SPN_EFAILED : 0; /* and it is the caller's */
}

static inline void toy_caught(spn_handler *self, spn_channel *channel, int why)
{
    struct toy_site *site = (struct toy_site *)self;
    struct toy_line *line = toy_enter(site, channel);

    atomic_store(&line->caught_why, why);
    atomic_fetch_add(&line->caught, 1);
    toy_leave(site, line);
    atomic_fetch_add(&site->caught, 1);
}

static const spn_handler_ops toy_handler_ops = { toy_connected, toy_disconnected,
                                                 toy_sent, toy_received, toy_caught };
/* As most have it: nobody asks for `sent`. */
static const spn_handler_ops toy_deaf_ops = { toy_connected, toy_disconnected, NULL,
                                              toy_received, toy_caught };

static inline void toy_site_init(struct toy_site *site)
{
    memset(site, 0, sizeof *site);
    site->handler.ops = &toy_deaf_ops;
}

/* Answers the n-th kept message, and lets it go. */
static inline int toy_let_go(struct toy_site *site, int n)
{
    spn_message *message;
    int rc;

    T_AWAIT((message = atomic_load(&site->kept[n])) != NULL);
    rc = toy_send(message->channel, 'R', ((struct toy *)message)->body,
                  ((struct toy *)message)->size);
    atomic_store(&site->kept[n], NULL);
    spn_message_release(message);
    return rc;
}

/* Lets it go without an answer. */
static inline void toy_forget(struct toy_site *site, int n)
{
    spn_message *message;

    T_AWAIT((message = atomic_load(&site->kept[n])) != NULL);
    atomic_store(&site->kept[n], NULL);
    spn_message_release(message);
}

#endif /* TOY_H */
