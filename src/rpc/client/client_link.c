/* SPDX-License-Identifier: MIT */
/*
 * client_link.c - the connections of a client: made when they are needed, made anew when
 * they are lost.
 *
 * STATES of a link
 *   DOWN        -> CONNECTING   a call comes, or it is time for a try in the background
 *   CONNECTING  -> UP           a connection stands; calls that waited are sent
 *               -> DOWN         none could be had; calls that waited end at once
 *   UP          -> DOWN         the connection is lost, or its server wants no more
 *                               requests: then calls under way there go on
 *
 *   All connections lead to one server, so it does not matter which attempt was whose:
 *   each attempt ends with one connection or one failure, and that goes to any link that
 *   is CONNECTING.  There are always as many of these as attempts under way.
 *
 * A CALL MAKES A TRY AT ONCE, whatever the back-off says: a person who calls again has a
 * reason to.  The back-off is for the background, where nobody waits.
 *
 * THREADS   a try in the background is a task of the client's pool, since a name may have
 *   to be looked up, which blocks; the timer's thread only hands it over.
 *
 * LOCKS   one for each link.  The table's and the transport's may be taken inside; no
 *   call is ended with it held.
 */
#include <string.h>

#include "base/time.h"
#include "rpc/client/client_core.h"
#include "rpc/settings.h"

#define BACKOFF_FIRST SPN_MS(100)
#define BACKOFF_MOST  SPN_SEC(10)

void spn__link_init(struct spn__link *link, struct spn_client *client)
{
    memset(link, 0, sizeof *link);
    link->client = client;
    link->backoff_ns = BACKOFF_FIRST;
    spn__lock_init(&link->lock);
    spn__list_init(&link->waiting);
}

static bool is_closing(struct spn_client *client)
{
    /* relaxed: whoever begins something nevertheless is turned away by the transport. */
    return spn__load(&client->closing, relaxed) != 0;
}

/* ---- sending -------------------------------------------------------------------------- */

/* Sends a call's frame over a channel that is held. */
static int give(struct spn__call *call, struct spn__stream *stream,
                const unsigned char *frame, size_t size)
{
    struct spn_client *client = call->client;
    const struct spn__piece piece = { frame, size };
    uint64_t position;
    int rc;

    if (!call->one_way && !spn__table_bind(&client->table, call, stream))
        return SPN_OK; /* over: its time was up, or its caller gave up */
    rc = spn__conn_send(stream->conn, &piece, 1, 0, &position);
    if (rc != SPN_OK)
        return rc;
    spn__store(&call->position, position, relaxed); /* for the words of a timeout */
    spn__count(&client->endpoint.counts, SPN__COUNT_BYTES_OUT, size);
    return SPN_OK;
}

/* Those who waited for a connection: sent over it, or with NULL ended. */
static void settle(struct spn__list *waiting, struct spn__stream *stream, int why)
{
    struct spn__list_node *node;

    while ((node = spn__list_pop_front(waiting)) != NULL) {
        struct spn__call *call = spn__list_entry(node, struct spn__call, link);
        int rc = why;

        if (stream != NULL)
            rc = give(call, stream, call->frame, call->frame_size);
        if (rc != SPN_OK && !call->one_way)
            spn__call_fail_if_listed(call, SPN__END_LOST, rc,
                                     stream != NULL ? "the request could not be sent"
                                                    : "no connection to the server");
        spn__free(call->frame);
        call->frame = NULL;
        spn__call_unref(call);
    }
}

/* ---- trying --------------------------------------------------------------------------- */

static int on_again(spn_timeout *timeout);

/* Sees to it that there is a try in the background; the lock is held, and let go of. */
static void schedule_again(struct spn__link *link)
{
    struct spn_client *client = link->client;
    const bool wanted = client->reconnects && !is_closing(client) && !link->again_busy;
    const int64_t delay = link->backoff_ns;

    if (wanted) {
        link->again_busy = true;
        link->backoff_ns = delay < BACKOFF_MOST / 2 ? delay * 2 : BACKOFF_MOST;
    }
    spn__unlock(&link->lock);
    if (wanted &&
        spn_timer_schedule(client->timer, &link->again, on_again, delay) != SPN_OK) {
        spn__lock(&link->lock);
        link->again_busy = false;
        spn__unlock(&link->lock);
    }
}

/* The try of a link has failed; its lock is held, and let go of. */
static void failed(struct spn__link *link, int why)
{
    struct spn__list waiting;

    spn__list_init(&waiting);
    link->state = SPN__LINK_DOWN;
    spn__list_splice(&waiting, &link->waiting);
    link->waiting_bytes = 0;
    schedule_again(link);
    settle(&waiting, NULL, why);
}

/* Begins a try; the state is CONNECTING already. */
static void try_now(struct spn__link *link)
{
    struct spn_client *client = link->client;
    struct spn__conn *conn;
    char room[256];
    const int rc =
        spn__transport_connect(client->transport,
                               spn__host_of(client->url, room, sizeof room),
                               spn_url_port(client->url), client->connect_timeout_ns,
                               &spn__stream_events, &client->endpoint, NULL, &conn);

    if (rc == SPN_OK)
        spn__conn_unref(conn);
    else
        spn__links_failed(client, rc);
}

void spn__link_connect(struct spn__link *link)
{
    bool is_down;

    spn__lock(&link->lock);
    is_down = link->state == SPN__LINK_DOWN;
    if (is_down)
        link->state = SPN__LINK_CONNECTING;
    spn__unlock(&link->lock);
    if (is_down)
        try_now(link);
}

static int run_again(spn_task *task)
{
    struct spn__link *link =
        (struct spn__link *)(void *)((char *)task -
                                     offsetof(struct spn__link, again_task));

    if (!is_closing(link->client))
        spn__link_connect(link);
    spn__lock(&link->lock);
    link->again_busy = false;
    if (link->state == SPN__LINK_DOWN)
        schedule_again(link); /* it failed at once, while we were busy */
    else
        spn__unlock(&link->lock);
    return SPN_OK;
}

static void drop_again(spn_task *task, int why)
{
    struct spn__link *link =
        (struct spn__link *)(void *)((char *)task -
                                     offsetof(struct spn__link, again_task));

    (void)why;
    spn__lock(&link->lock);
    link->again_busy = false;
    schedule_again(link);
}

static int on_again(spn_timeout *timeout)
{
    struct spn__link *link =
        (struct spn__link *)(void *)((char *)timeout -
                                     offsetof(struct spn__link, again));
    int rc;

    link->again_task = (spn_task)SPN_TASK_INIT(run_again, drop_again);
    rc = spn_executor_execute(link->client->dispatch.executor, &link->again_task);
    if (rc != SPN_OK)
        drop_again(&link->again_task, rc);
    return SPN_OK;
}

/* ---- what the transport tells ----------------------------------------------------------- */

void spn__links_opened(struct spn_client *client, struct spn__stream *stream)
{
    for (int i = 0; i < client->link_count; i++) {
        struct spn__link *link = &client->links[i];
        struct spn__list waiting;

        spn__list_init(&waiting);
        spn__lock(&link->lock);
        if (link->state != SPN__LINK_CONNECTING) {
            spn__unlock(&link->lock);
            continue;
        }
        spn__stream_hold(stream);
        link->state = SPN__LINK_UP;
        link->stream = stream;
        link->backoff_ns = BACKOFF_FIRST;
        spn__list_splice(&waiting, &link->waiting);
        link->waiting_bytes = 0;
        spn__unlock(&link->lock);
        settle(&waiting, stream, SPN_OK);
        (void)spn_future_complete(client->first, NULL);
        return;
    }
    spn__conn_end(stream->conn); /* nobody wants it: close has begun */
}

void spn__links_closed(struct spn_client *client, struct spn__stream *stream)
{
    for (int i = 0; i < client->link_count; i++) {
        struct spn__link *link = &client->links[i];

        spn__lock(&link->lock);
        if (link->state != SPN__LINK_UP || link->stream != stream) {
            spn__unlock(&link->lock);
            continue;
        }
        link->state = SPN__LINK_DOWN;
        link->stream = NULL;
        schedule_again(link);
        spn__stream_drop(stream);
        return;
    }
}

void spn__links_failed(struct spn_client *client, int why)
{
    /* relaxed: only a number. */
    (void)spn__fetch_add(&client->failures, 1, relaxed);
    for (int i = 0; i < client->link_count; i++) {
        struct spn__link *link = &client->links[i];

        spn__lock(&link->lock);
        if (link->state == SPN__LINK_CONNECTING) {
            failed(link, why);
            break;
        }
        spn__unlock(&link->lock);
    }
    (void)spn_future_complete_error(client->first, why, "no connection to the server");
}

/* ---- for calls ---------------------------------------------------------------------------- */

/* Whether too much waits for a connection already: the bound and its exception are those
 * of the transport.  The lock is held. */
static bool is_full(const struct spn__link *link, size_t size)
{
    const size_t most = link->client->endpoint.max_unwritten;

    return link->waiting_bytes != 0 &&
           (link->waiting_bytes > most || size > most - link->waiting_bytes);
}

int spn__link_send(struct spn__link *link, struct spn__call *call,
                   const unsigned char *frame, size_t size)
{
    unsigned char *copy = NULL;

    for (;;) {
        bool is_down;

        spn__lock(&link->lock);
        if (link->state == SPN__LINK_UP) {
            struct spn__stream *stream = link->stream;
            int rc;

            spn__stream_hold(stream);
            spn__unlock(&link->lock);
            spn__free(copy);
            rc = give(call, stream, frame, size);
            spn__stream_drop(stream);
            return rc;
        }
        if (is_full(link, size)) {
            spn__unlock(&link->lock);
            spn__free(copy);
            return SPN_EFULL;
        }
        if (copy != NULL) {
            is_down = link->state == SPN__LINK_DOWN;
            link->state = SPN__LINK_CONNECTING;
            call->frame = copy;
            call->frame_size = size;
            spn__call_ref(call);
            spn__list_push_back(&link->waiting, &call->link);
            link->waiting_bytes += size;
            spn__unlock(&link->lock);
            if (is_down)
                try_now(link);
            return SPN_OK;
        }
        spn__unlock(&link->lock);
        copy =
            spn__alloc(size); /* not under the lock: the allocator is the program's */
        if (copy == NULL)
            return SPN_ENOMEM;
        memcpy(copy, frame, size);
    }
}

/* ---- the end -------------------------------------------------------------------------------- */

bool spn__links_forget(struct spn_client *client, spn_timeout *timeout)
{
    for (int i = 0; i < client->link_count; i++) {
        struct spn__link *link = &client->links[i];

        if (timeout != &link->again)
            continue;
        spn__lock(&link->lock);
        link->again_busy = false;
        spn__unlock(&link->lock);
        return true;
    }
    return false;
}

bool spn__links_busy(struct spn_client *client)
{
    bool busy = false;

    for (int i = 0; i < client->link_count; i++) {
        spn__lock(&client->links[i].lock);
        busy = busy || client->links[i].again_busy;
        spn__unlock(&client->links[i].lock);
    }
    return busy;
}
