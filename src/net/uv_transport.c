/* SPDX-License-Identifier: MIT */
/*
 * uv_transport.c - the transport as a whole: made, stopped, destroyed.
 *
 * STOPPING goes from the outside in: the acceptor first, so that no connection comes,
 * then the loops, each of which closes its connections and ends when the last `closed`
 * has been called.  A loop takes jobs until then, so whoever still has a connection can
 * post to it, or learns that it is over; nothing is ever taken and not done.
 *
 * Listeners outlive the stop until they are closed: their owners still hold them.
 */
#include "net/uv_net.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include <spindle/cpu.h>

enum {
    MAX_LOOPS = 1024,
    DEFAULT_LOOPS_MAX = 32,
    DEFAULT_UNWRITTEN = 16 << 20,
    KEPT = 128, /* descriptors that are not for connections, but at most a quarter */
};

static int read_opts(struct spn__transport_opts *to,
                     const struct spn__transport_opts *from)
{
    *to = from != NULL ? *from : (struct spn__transport_opts){ 0 };
    if (to->loops < 0 || to->loops > MAX_LOOPS || to->max_connections < 0 ||
        to->linger_ns < 0)
        return SPN_EINVAL;
    if (to->loops == 0) {
        to->loops = spn_cpu_count() + 1;
        if (to->loops > DEFAULT_LOOPS_MAX)
            to->loops = DEFAULT_LOOPS_MAX;
    }
    if (to->max_unwritten == 0)
        to->max_unwritten = DEFAULT_UNWRITTEN;
    if (to->linger_ns == 0)
        to->linger_ns = SPN_SEC(3);
    return SPN_OK;
}

/* Ends the loops that run, and unmakes those that were made. */
static void end_loops(struct spn__transport *transport, int running, int made)
{
    for (int i = 0; i < running; i++)
        spn__loop_stop(&transport->loops[i]);
    for (int i = 0; i < running; i++)
        spn__loop_join(&transport->loops[i]);
    for (int i = 0; i < made; i++)
        spn__loop_fini(&transport->loops[i]);
}

int spn__transport_create(const struct spn__transport_opts *user,
                          struct spn__transport **out)
{
    struct spn__transport_opts opts;
    struct spn__transport *transport;
    const char *prefix;
    int rc, made = 0, running = 0;

    *out = NULL;
    rc = read_opts(&opts, user);
    if (rc != SPN_OK)
        return rc;
    transport =
        spn__alloc(sizeof *transport + (size_t)opts.loops * sizeof transport->loops[0]);
    if (transport == NULL)
        return SPN_ENOMEM;
    memset(transport, 0, sizeof *transport);
    prefix = opts.thread_name != NULL ? opts.thread_name : "spn-io";
    opts.thread_name = NULL;
    transport->opts = opts;
    transport->loop_count = opts.loops;
    spn__lock_init(&transport->lock);
    spn__list_init(&transport->listeners);
    spn__gate_init(&transport->stopped);
    spn__init(&transport->next, 0u);
    spn__init(&transport->used, 1u);
    spn__init(&transport->conns, (int64_t)0);
    spn__init(&transport->accepted_now, (int64_t)0);
    spn__init(&transport->open, (int64_t)0);
    spn__init(&transport->accepted, (uint64_t)0);
    spn__init(&transport->refused, (uint64_t)0);
    spn__init(&transport->accept_failures, (uint64_t)0);
    spn__init(&transport->connected, (uint64_t)0);
    spn__init(&transport->bytes_written, (uint64_t)0);

    rc = spn__loop_init(&transport->acceptor, transport, false);
    if (rc != SPN_OK)
        goto no_acceptor;
    snprintf(transport->acceptor.name, sizeof transport->acceptor.name, "%.10s-acc",
             prefix);
    for (; made < opts.loops; made++) {
        rc = spn__loop_init(&transport->loops[made], transport, true);
        if (rc != SPN_OK)
            goto no_loops;
        snprintf(transport->loops[made].name, sizeof transport->loops[made].name,
                 "%.10s-%u", prefix, (unsigned)made % 10000);
    }
    for (; running < opts.loops; running++) {
        rc = spn__loop_start(&transport->loops[running]);
        if (rc != SPN_OK)
            goto no_loops;
    }
    *out = transport;
    return SPN_OK;

no_loops:
    end_loops(transport, running, made);
    spn__loop_fini(&transport->acceptor);
no_acceptor:
    spn__free(transport);
    return rc;
}

bool spn__transport_is_mine(const struct spn__transport *transport)
{
    for (int i = 0; i < transport->loop_count; i++)
        if (spn__loop_is_mine(&transport->loops[i]))
            return true;
    return spn__loop_is_mine(&transport->acceptor);
}

int spn__transport_stop(struct spn__transport *transport)
{
    bool first, acceptor;

    if (spn__transport_is_mine(transport))
        return SPN_EDEADLK;
    spn__lock(&transport->lock);
    first = !transport->stopping;
    transport->stopping = true;
    acceptor = transport->has_acceptor;
    spn__unlock(&transport->lock);
    if (!first) {
        spn__gate_wait(&transport->stopped);
        return SPN_OK;
    }
    if (acceptor) {
        spn__loop_stop(&transport->acceptor);
        spn__loop_join(&transport->acceptor);
    }
    for (int i = 0; i < transport->loop_count; i++)
        spn__loop_stop(&transport->loops[i]);
    for (int i = 0; i < transport->loop_count; i++)
        spn__loop_join(&transport->loops[i]);
    spn__gate_open(&transport->stopped);
    return SPN_OK;
}

int spn__transport_destroy(struct spn__transport *transport)
{
    bool busy;

    if (transport == NULL)
        return SPN_OK;
    spn__lock(&transport->lock);
    busy = !spn__list_empty(&transport->listeners);
    spn__unlock(&transport->lock);
    if (busy || spn__load(&transport->stopped.open, acquire) == 0 || /* [gate] */
        spn__load(&transport->conns, acquire) != 0)                  /* [ref] */
        return SPN_EBUSY;
    spn__loop_fini(&transport->acceptor);
    for (int i = 0; i < transport->loop_count; i++)
        spn__loop_fini(&transport->loops[i]);
    spn__free(transport);
    return SPN_OK;
}

int spn__transport_room(const struct spn__transport *transport)
{
    /* The system gives out the lowest number that is free: so many are open, at least. */
    const int lowest =
        fcntl(uv_backend_fd(&transport->acceptor.uv), F_DUPFD_CLOEXEC, 0);
    struct rlimit limit;
    rlim_t kept, used;

    if (lowest >= 0)
        (void)close(lowest);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return 0;
    kept = limit.rlim_cur / 4 < KEPT ? limit.rlim_cur / 4 : KEPT;
    used = lowest >= 0 ? (rlim_t)lowest : limit.rlim_cur;
    if (used + kept >= limit.rlim_cur)
        return 1;
    limit.rlim_cur -= used + kept;
    return limit.rlim_cur < INT32_MAX ? (int)limit.rlim_cur : 0;
}

void spn__transport_get_stats(struct spn__transport *transport,
                              struct spn__transport_stats *stats)
{
    const int64_t open =
        spn__load(&transport->open, relaxed); /* relaxed, all: numbers */

    *stats = (struct spn__transport_stats){
        .accepted = spn__load(&transport->accepted, relaxed),
        .refused = spn__load(&transport->refused, relaxed),
        .accept_failures = spn__load(&transport->accept_failures, relaxed),
        .connected = spn__load(&transport->connected, relaxed),
        .open = open > 0 ? (uint64_t)open : 0,
        .bytes_written = spn__load(&transport->bytes_written, relaxed),
    };
    for (int i = 0; i < transport->loop_count; i++) {
        stats->bytes_read += spn__load(&transport->loops[i].bytes_read, relaxed);
        stats->wakeups += spn__load(&transport->loops[i].wakeups, relaxed);
        stats->moved += spn__load(&transport->loops[i].moved, relaxed);
    }
}
