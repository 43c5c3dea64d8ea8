/* SPDX-License-Identifier: MIT */
/*
 * test_endpoint.c - every allocation and every thread of a script with a server, a client and
 * messages between them on the loopback is refused, once.  Each call ends with a status that
 * says what could not be had, each message is released, each connection told of once, both can
 * be ended, and no block is left.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include <spindle/clock.h>
#include <spindle/endpoint.h>
#include <spindle/log.h>

#include "faults.h"
#include "toy.h"

static atomic_int threads, no_thread; /* created; the one to refuse, 0: none */

int __real_pthread_create(pthread_t *id, const pthread_attr_t *attr,
                          void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr,
                          void *(*fn)(void *), void *arg);

/* It runs inside ThreadSanitizer's own start: it must not call it. */
UNSEEN int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr,
                                 void *(*fn)(void *), void *arg)
{
    const int n = atomic_fetch_add(&threads, 1) + 1;

    if (n == atomic_load(&no_thread))
        return EAGAIN;
    return __real_pthread_create(id, attr, fn, arg);
}

/* ---- both ends ------------------------------------------------------------------------ */

static struct toy_site server_site, client_site;

/* What making something may say. */
static bool made(int rc)
{
    CHECK(rc == SPN_OK || rc == SPN_ENOMEM || rc == SPN_EAGAIN);
    return rc == SPN_OK;
}

/* The ends may lack memory too, and are tried again. */
static void end_endpoint(spn_endpoint *endpoint, struct toy_site *site)
{
    int rc;

    do
        rc = spn_endpoint_stop(endpoint, T_LONG_NS);
    while (rc == SPN_ENOMEM);
    CHECK_OK(rc);
    CHECK_EQ(atomic_load(&site->connected), atomic_load(&site->disconnected));
    CHECK_OK(spn_endpoint_destroy(endpoint));
}

/* How many of its messages came back; `gives_up`: not before all have, or the connection is
 * gone, or that time is over. */
static int script(int64_t gives_up_ns)
{
    spn_endpoint_opts opts = SPN_ENDPOINT_OPTS_INIT;
    spn_problem problem = SPN_PROBLEM_INIT;
    spn_endpoint *server, *client;
    char large[5000] = "";
    int sent = 0, rc;
    int64_t until_ns;

    toy_site_init(&server_site);
    toy_site_init(&client_site);
    opts.io_threads = 1;
    opts.idle_ns = SPN_SEC(60); /* with a timer */
    if (!made(spn_endpoint_listen(&server, "127.0.0.1", 0, &toy_codec,
                                  &server_site.handler, &opts, &problem))) {
        CHECK(server == NULL);
        return 0;
    }
    rc = spn_endpoint_connect(&client, "127.0.0.1", spn_endpoint_port(server),
                              &toy_codec, &client_site.handler, &opts, &problem);
    CHECK(rc == SPN_OK || rc == SPN_ENOMEM || rc == SPN_EAGAIN || rc == SPN_ECLOSED ||
          rc == SPN_EIO || rc == SPN_EUNREACHABLE);
    CHECK((rc == SPN_OK) == (client != NULL));
    if (client != NULL) {
        spn_channel *channel = spn_endpoint_channel(client);

        for (int i = 0; i < 3; i++) {
            rc = toy_send(channel, 'Q', large, i == 1 ? sizeof large : 10);
            CHECK(rc == SPN_OK || rc == SPN_ENOMEM || rc == SPN_ECLOSED);
            sent += rc == SPN_OK;
        }
        until_ns = spn_now() + gives_up_ns;
        while (atomic_load(&client_site.received) < sent &&
               atomic_load(&client_site.disconnected) == 0 && spn_now() < until_ns)
            t_pause();
        end_endpoint(client, &client_site);
    }
    end_endpoint(server, &server_site);
    CHECK_EQ(atomic_load(&toy_counts.made), atomic_load(&toy_counts.freed));
    return atomic_load(&client_site.received);
}

/* ---- what is refused --------------------------------------------------------------------- */

enum { AT_MOST = 400 };
#define SOON_NS SPN_MS(100) /* an answer that had no memory never comes */

/* With nothing refused all goes well, on a machine that stands still at times as well. */
static void check_script(void)
{
    CHECK_EQ(script(T_LONG_NS), 3);
}

/* What stays: records of threads, and blocks they keep. */
static long settle_down(void)
{
    for (int i = 0; i < 3; i++)
        check_script();
    return atomic_load(&live);
}

static void script_without(int at)
{
    atomic_store(&point, 0);
    atomic_store(&fail_at, at);
    (void)script(SOON_NS);
    atomic_store(&fail_at, 0);
}

/* Now and then one thread more than ever before is there at once, and its record stays.
 * That happens once; what leaks does so each time. */
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

TEST(endpoint__each_allocation_fails__told_and_nothing_is_left, "EP-27", "G-22")
{
    long before;
    int at;

    CHECK_OK(spn_log_set_level(SPN_LOG_OFF));
    before = settle_down();
    for (at = 1; at < AT_MOST; at++) {
        atomic_store(&refused, 0);
        script_without(at);
        if (!CHECK(nothing_is_left(at, &before)))
            printf("  allocation %d\n", at);
        if (atomic_load(&refused) == 0)
            break;
    }
    CHECK(at > 15 && at < AT_MOST);
    check_script(); /* and all is well again */
    CHECK_OK(spn_log_set_level(SPN_LOG_WARN));
}

TEST(endpoint__each_thread_is_refused__told_and_nothing_is_left, "EP-27", "P2")
{
    long before;
    int made_in_all;

    CHECK_OK(spn_log_set_level(SPN_LOG_OFF));
    before = settle_down();
    atomic_store(&threads, 0);
    check_script();
    made_in_all = atomic_load(&threads);
    CHECK(made_in_all >= 2);
    for (int at = 1; at <= made_in_all; at++) {
        atomic_store(&threads, 0);
        atomic_store(&no_thread, at);
        (void)script(SOON_NS);
        atomic_store(&no_thread, 0);
        CHECK(atomic_load(&live) <= before + made_in_all);
    }
    check_script();
    CHECK_OK(spn_log_set_level(SPN_LOG_WARN));
}
