/* SPDX-License-Identifier: MIT */
/*
 * test_net.c - every allocation and every thread of a script with a listener, a
 * connection and some traffic is refused, once and from then on.  Each call says what it
 * could not do, each connection that began is closed once, and no block is left.
 *
 * The wrap runs inside ThreadSanitizer's own start: it must not call it.
 */
#include "faults.h"
#include "net_bed.h"

#if defined(__clang__)
#define UNSEEN __attribute__((disable_sanitizer_instrumentation))
#else
#define UNSEEN __attribute__((no_sanitize("thread")))
#endif

static atomic_int threads, no_thread; /* created; the one to refuse, 0: none */

int __real_pthread_create(pthread_t *id, const pthread_attr_t *attr,
                          void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr,
                          void *(*fn)(void *), void *arg);

UNSEEN int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr,
                                 void *(*fn)(void *), void *arg)
{
    const int n = atomic_fetch_add(&threads, 1) + 1;

    if (n == atomic_load(&no_thread))
        return EAGAIN;
    return __real_pthread_create(id, attr, fn, arg);
}

enum { LARGE = 400000 }; /* more than a socket takes at once */

static unsigned char large[LARGE];
static atomic_int closes;

static int opened(void *context, struct spn__conn *conn)
{
    const struct spn__piece piece = { large, LARGE };
    const int rc = spn__conn_send(conn, &piece, 1, 0, NULL);

    (void)context;
    CHECK(rc == SPN_OK || rc == SPN_ENOMEM);
    return rc;
}

/* Wants it whole, so that it is kept. */
static int64_t bytes(void *context, struct spn__conn *conn, const unsigned char *data,
                     size_t size)
{
    (void)context;
    (void)data;
    if (size < LARGE) {
        spn__conn_want(conn, LARGE);
        return 0;
    }
    spn__conn_end(conn);
    return (int64_t)size;
}

static void closed(void *context, struct spn__conn *conn, int why)
{
    (void)context;
    (void)conn;
    CHECK(why == 0 || why == SPN_ENOMEM || why == SPN_EIO || why == SPN_ECLOSED ||
          why == SPN_ETIMEDOUT);
    atomic_fetch_add(&closes, 1);
}

static const struct spn__conn_events events = { .opened = opened,
                                                .bytes = bytes,
                                                .closed = closed };

static bool ok(int rc)
{
    CHECK(rc == SPN_OK || rc == SPN_ENOMEM || rc == SPN_EAGAIN);
    return rc == SPN_OK;
}

static void script(void)
{
    const struct spn__transport_opts opts = { .loops = 2, .linger_ns = T_SMALL_NS };
    const struct spn__listen_opts at = { .host = "127.0.0.1" };
    struct spn__transport *transport;
    struct spn__listener *listener = NULL;
    struct spn__conn *conn = NULL;
    struct spn__transport_stats stats;

    atomic_store(&closes, 0);
    if (!ok(spn__transport_create(&opts, &transport)))
        return;
    if (ok(spn__transport_listen(transport, &at, &events, NULL, &listener)) &&
        ok(spn__transport_connect(transport, "127.0.0.1", spn__listener_port(listener),
                                  SPN_SEC(30), &events, NULL, NULL, &conn)))
        T_AWAIT(atomic_load(&closes) !=
                0); /* one end; the other is stopped if need be */
    CHECK_OK(spn__transport_stop(transport));
    spn__transport_get_stats(transport, &stats);
    CHECK_EQ(atomic_load(&closes), (conn != NULL) + (int)stats.accepted);
    CHECK_EQ(stats.open, 0);
    if (conn != NULL)
        spn__conn_unref(conn);
    if (listener != NULL)
        CHECK_OK(spn__listener_close(listener));
    CHECK_OK(spn__transport_destroy(transport));
}

static void sweep(bool from_there_on)
{
    long before;
    int at;

    for (int i = 0; i < 3; i++) { /* records of threads, and what else stays */
        script();
        before = atomic_load(&live);
    }
    atomic_store(&fail_more, from_there_on);
    for (at = 1; at < 200; at++) {
        atomic_store(&refused, 0);
        atomic_store(&point, 0);
        atomic_store(&fail_at, at);
        script();
        atomic_store(&fail_at, 0);
        CHECK(atomic_load(&live) <= before);
        if (atomic_load(&refused) == 0)
            break;
    }
    CHECK(at > 8 && at < 200);
    atomic_store(&fail_more, 0);
    script();
    CHECK(atomic_load(&live) <= before);
}

/* One allocation after the other fails. */
TEST(net__each_allocation_fails__nothing_is_left, "NET-27", "G-22")
{
    sweep(false);
}

/* All fail from one on. */
TEST(net__all_allocations_fail_from_one_on__nothing_is_left, "NET-27", "G-22")
{
    sweep(true);
}

/* The first, second and third thread is refused: told by create and listen. */
TEST(net__threads_refused__told_and_nothing_is_left, "NET-27")
{
    long before;

    script();
    script();
    before = atomic_load(&live);
    for (int at = 1; at <= 3; at++) {
        atomic_store(&threads, 0);
        atomic_store(&no_thread, at);
        script();
        CHECK(atomic_load(&threads) >= at);
        atomic_store(&no_thread, 0);
        CHECK(atomic_load(&live) <= before);
    }
}
