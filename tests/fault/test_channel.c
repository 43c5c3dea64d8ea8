/* SPDX-License-Identifier: MIT */
/*
 * test_channel.c - every allocation and every thread of a script with a dispatch, its channels
 * and their messages is refused, once and from then on.  Each call gives SPN_OK or says for
 * want of what; each message ends once, handled or refused; each channel goes once; no block
 * is left.  The linker wraps pthread_create, the allocator is ours; both are counted in one
 * sequence.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <spindle/channel.h>
#include <spindle/log.h>

#define FAULTS_ARMED 0
#include "faults.h"
#include "own_threads.h"
#include "pool_calls.h"

int __real_pthread_create(pthread_t *id, const pthread_attr_t *attr,
                          void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr,
                          void *(*fn)(void *), void *arg);

UNSEEN int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr,
                                 void *(*fn)(void *), void *arg)
{
    return refuse() ? EAGAIN : __real_pthread_create(id, attr, fn, arg);
}

/* ---- the program ------------------------------------------------------------------------- */

enum { NOTES = 6, AT_MOST = 1000 };

struct note {
    spn_message head;
    atomic_int ends; /* handled or refused */
    atomic_int released;
};

static struct note notes[NOTES];
static atomic_int gone, events, whole;
static int made_channels, told_messages;

static int do_send(void *ctx, spn_channel *channel, const void *message)
{
    (void)ctx;
    (void)channel;
    (void)message;
    return 0;
}

static void on_gone(void *ctx)
{
    (void)ctx;
    atomic_fetch_add(&gone, 1);
}

static const spn_channel_ops channel_ops = { sizeof channel_ops, do_send, NULL,
                                             on_gone };

static void note_release(spn_message *message)
{
    CHECK_EQ(atomic_fetch_add(&((struct note *)message)->released, 1), 0);
}

static const spn_message_ops note_ops = { note_release, NULL };

static void on_connected(spn_handler *self, spn_channel *channel)
{
    (void)self;
    (void)channel;
    atomic_fetch_add(&events, 1);
}

static void on_disconnected(spn_handler *self, spn_channel *channel, int why)
{
    (void)why;
    on_connected(self, channel);
}

static int on_received(spn_handler *self, spn_channel *channel, spn_message *message)
{
    (void)self;
    CHECK_OK(spn_channel_send(channel, message));
    atomic_fetch_add(&((struct note *)message)->ends, 1);
    atomic_fetch_add(&whole, 1);
    spn_message_release(message);
    return 0;
}

static const spn_handler_ops handler_ops = { on_connected, on_disconnected, NULL,
                                             on_received, on_disconnected };

static void on_refused(void *ctx, spn_channel *channel, spn_message *message, int why)
{
    (void)ctx;
    CHECK(channel != NULL);
    CHECK(why == SPN_EREJECTED || why == SPN_ESHUTDOWN || why == SPN_ENOMEM ||
          why == SPN_EAGAIN);
    CHECK(atomic_load(&refused) > 0);
    atomic_fetch_add(&((struct note *)message)->ends, 1);
    spn_message_release(message);
}

/* ---- the script --------------------------------------------------------------------------- */

static bool ok(int rc)
{
    CHECK(rc == SPN_OK ||
          ((rc == SPN_ENOMEM || rc == SPN_EAGAIN) && atomic_load(&refused) > 0));
    return rc == SPN_OK;
}

static void tell(spn_handler *outer, spn_channel *channel, int kind)
{
    struct note *note = &notes[told_messages++];

    memset(note, 0, sizeof *note);
    note->head = (spn_message)SPN_MESSAGE_INIT(&note_ops, kind);
    CHECK_OK(spn_handler_received(outer, channel, &note->head));
}

static void use_dispatch(spn_dispatch *dispatch)
{
    spn_handler *outer = spn_dispatch_handler(dispatch);

    for (int i = 0; i < 2; i++) {
        spn_channel *channel;

        if (!ok(spn_channel_create(&channel, &channel_ops, NULL, "10.0.0.1:7"))) {
            CHECK(channel == NULL);
            continue;
        }
        made_channels++;
        spn_handler_connected(outer, channel);
        tell(outer, channel, SPN_MESSAGE_REQUEST);
        tell(outer, channel, SPN_MESSAGE_RESPONSE);
        if (i == 1)
            CHECK_OK(pool_shutdown(spn_dispatch_pool(dispatch)));
        tell(outer, channel, SPN_MESSAGE_OTHER);
        spn_handler_caught(outer, channel, SPN_EPROTO);
        spn_handler_disconnected(outer, channel, SPN_OK);
        spn_channel_unref(channel);
    }
}

static const char *url;

static void script(void)
{
    spn_dispatch_opts opts = SPN_DISPATCH_OPTS_INIT;
    spn_handler handler = { &handler_ops, NULL };
    spn_dispatch *dispatch;
    int rc;

    made_channels = told_messages = 0;
    atomic_store(&gone, 0);
    atomic_store(&events, 0);
    atomic_store(&whole, 0);
    opts.refused = on_refused;
    atomic_store(&armed, 1);
    if (ok(spn_dispatch_create(&dispatch, url, &handler, &opts, NULL))) {
        use_dispatch(dispatch);
        do /* this may lack memory too, and is tried again */
            rc = spn_dispatch_stop(dispatch, T_LONG_NS);
        while (rc == SPN_ENOMEM && atomic_exchange(&armed, 0) != 0);
        CHECK_OK(rc);
        CHECK_OK(spn_dispatch_destroy(dispatch));
    } else {
        CHECK(dispatch == NULL);
    }
    atomic_store(&armed, 0);
    for (int i = 0; i < told_messages; i++) {
        CHECK_EQ(atomic_load(&notes[i].ends), 1);
        CHECK_EQ(atomic_load(&notes[i].released), 1);
    }
    CHECK_EQ(atomic_load(&gone), made_channels);
    CHECK(atomic_load(&events) <= 3 * made_channels);
    await_threads_gone();
}

/* Once with the call `at` refused, and all that follow if `fail_more` says so. */
static void script_without(int at)
{
    atomic_store(&point, 0);
    atomic_store(&fail_at, at);
    script();
    atomic_store(&fail_at, 0);
}

/* Now and then one thread more than ever before is there at once, and its record and a block
 * stay.  That happens once or twice; what leaks does so each time. */
static bool nothing_is_left(int at, long *before)
{
    enum { TIMES = 8 };
    const long found = atomic_load(&live);

    if (found <= *before)
        return true;
    for (int i = 0; i < TIMES; i++)
        script_without(at);
    *before = atomic_load(&live);
    return *before < found + TIMES;
}

static void sweep(bool more)
{
    static const char *const urls[] = {
        "toy://h:1?dispatcher=all&threads=1&queues=-1&dump.enable=false",
        "toy://h:1?dispatcher=connection&threadpool=cached&dump.enable=false",
        "toy://h:1?threads=1&queues=-1&inflight.address=5&queue.target=9",
    };

    CHECK_OK(spn_log_set_level(SPN_LOG_OFF));
    (void)spn_thread_current();
    count_own_threads();
    atomic_store(&fail_more, more);
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        long before;
        int at = 0;

        url = urls[i];
        for (int n = 0; n < 3; n++) { /* what is kept for good is there */
            script();
            CHECK_EQ(atomic_load(&whole), 6);
            CHECK_EQ(atomic_load(&events), 6);
        }
        before = atomic_load(&live);
        do {
            atomic_store(&refused, 0);
            script_without(++at);
            if (!CHECK(nothing_is_left(at, &before)))
                printf("  %s, call %d\n", url, at);
        } while (atomic_load(&refused) != 0 && at < AT_MOST);
        CHECK(at > 10 && at < AT_MOST);
        script(); /* and all is well again */
        CHECK_EQ(atomic_load(&whole), 6);
    }
    CHECK_OK(spn_log_set_level(SPN_LOG_WARN));
}

/* One is refused. */
TEST(channel__each_allocation_and_thread_fails__nothing_is_left, "CH-21", "G-22")
{
    sweep(false);
}

/* All are refused from one on. */
TEST(channel__all_fail_from_one_on__nothing_is_left, "CH-21", "G-22")
{
    sweep(true);
}
