/* SPDX-License-Identifier: MIT */
/*
 * uv_loop.c - a loop: its thread, its inbox, sleeping and waking.
 *
 * OVERVIEW
 *   Other threads put jobs and connections into the inbox, under the loop's lock.
 *   The loop empties it just before it would sleep (uv_prepare) and, if it found it
 *   empty, says under the same lock that it is asleep.  So whoever adds to the inbox
 *   either comes before that look, or sees `asleep`, clears it and wakes the loop:
 *   once for any number of senders, and not at all while the loop is busy.
 *
 *   What connections gathered in events of this turn is written in the same place:
 *   they are in the inbox too.
 *
 * THE END
 *   `stop` closes every connection; when the last one's `closed` has been called and
 *   the inbox is empty, the inbox shuts (open = false) and the handles are closed.
 *   [senders] A thread that wakes the loop counts itself under the lock, while the
 *   inbox is open, and leaves with a release after uv_async_send has returned.  The
 *   loop shuts the inbox and waits for the count to be 0, with acquire, before it
 *   closes the async handle: nobody is inside then and nobody can come.
 *
 * ORDERING
 *   [asleep] all of it is under the lock; nothing else is needed.
 */
#include "net/uv_net.h"

#include "sync/thread_record.h"

/* The inbox is emptied at most so many times in a row before the sockets have
 * their turn. */
enum { INBOX_TURNS = 8 };

bool spn__loop_is_mine(const struct spn__loop *loop)
{
    void *self = spn__self_get();

    /* relaxed: only the loop's own thread stores its own record here, so only there
     * the two can be equal. */
    return self != NULL && spn__load(&loop->self, relaxed) == self;
}

int64_t spn__loop_now(struct spn__loop *loop)
{
    return (int64_t)uv_now(&loop->uv) * 1000000;
}

/* ---- the inbox ------------------------------------------------------------ */

/* With the lock held: whether the caller must wake the loop when he has released it. */
static bool must_wake(struct spn__loop *loop)
{
    if (!loop->asleep)
        return false;
    loop->asleep = false;
    /* relaxed: the lock is what orders it with the loop's look [senders]. */
    spn__fetch_add(&loop->senders, 1u, relaxed);
    return true;
}

static void wake(struct spn__loop *loop)
{
    const int rc = uv_async_send(&loop->wake);

    spn__assert(rc == 0);
    spn__fetch_add(&loop->wakeups, (uint64_t)1, relaxed);
    spn__fetch_sub(&loop->senders, 1u, release); /* [senders] */
}

bool spn__loop_post(struct spn__loop *loop, struct spn__net_job *job)
{
    bool woken;

    spn__lock(&loop->lock);
    if (!loop->open) {
        spn__unlock(&loop->lock);
        return false;
    }
    job->next = NULL;
    *loop->jobs_end = job;
    loop->jobs_end = &job->next;
    woken = must_wake(loop);
    spn__unlock(&loop->lock);
    if (woken)
        wake(loop);
    return true;
}

void spn__loop_ask(struct spn__loop *loop, struct spn__conn *conn)
{
    bool woken;

    spn__lock(&loop->lock);
    if (!loop->open) { /* and so this connection has been closed */
        spn__unlock(&loop->lock);
        return;
    }
    spn__conn_ref(conn); /* until it has been attended to */
    conn->next_asked = NULL;
    *loop->asked_end = conn;
    loop->asked_end = &conn->next_asked;
    woken = must_wake(loop);
    spn__unlock(&loop->lock);
    if (woken)
        wake(loop);
}

/* Takes all there is and works on it; false: there was nothing, and the loop may
 * sleep. */
static bool empty_inbox(struct spn__loop *loop)
{
    struct spn__net_job *job;
    struct spn__conn *conn;

    spn__lock(&loop->lock);
    job = loop->jobs;
    conn = loop->asked;
    loop->jobs = NULL;
    loop->jobs_end = &loop->jobs;
    loop->asked = NULL;
    loop->asked_end = &loop->asked;
    loop->asleep = job == NULL && conn == NULL;
    spn__unlock(&loop->lock);
    if (job == NULL && conn == NULL)
        return false;
    while (job != NULL) {
        struct spn__net_job *const next = job->next; /* fn may free the job */

        job->fn(job);
        job = next;
    }
    while (conn != NULL) {
        struct spn__conn *const next = conn->next_asked;

        spn__conn_unlist(conn); /* from here on it may be asked for again */
        spn__conn_attend(conn);
        if (loop->give != 0)
            spn__spread_give(conn);
        spn__conn_unref(conn);
        conn = next;
    }
    return true;
}

/* ---- a turn --------------------------------------------------------------- */

static void close_handles(struct spn__loop *loop)
{
    bool empty;

    spn__lock(&loop->lock);
    empty = loop->jobs == NULL && loop->asked == NULL;
    if (empty)
        loop->open = false;
    spn__unlock(&loop->lock);
    if (!empty) {
        const int rc = uv_async_send(&loop->wake); /* not to sleep over it */

        spn__assert(rc == 0);
        return;
    }
    loop->ended = true;
    while (spn__load(&loop->senders, acquire) != 0) /* [senders] */
        spn__os_yield();
    uv_close((uv_handle_t *)&loop->wake, NULL);
    uv_close((uv_handle_t *)&loop->before, NULL);
    uv_close((uv_handle_t *)&loop->after, NULL);
}

static void before_sleep(uv_prepare_t *handle)
{
    struct spn__loop *const loop = handle->data;
    int turns = 0;

    while (empty_inbox(loop)) {
        if (++turns < INBOX_TURNS)
            continue;
        /* More may have come: look at the sockets, but do not sleep. */
        if (uv_async_send(&loop->wake) != 0)
            spn__assert(false);
        break;
    }
    if (loop->visits != 0)
        spn__spread_turn(loop);
    if (loop->stopping && !loop->ended && loop->live == 0 &&
        spn__list_empty(&loop->listeners))
        close_handles(loop);
}

static void after_sleep(uv_check_t *handle)
{
    struct spn__loop *const loop = handle->data;

    spn__lock(&loop->lock); /* [asleep] */
    loop->asleep = false;
    spn__unlock(&loop->lock);
}

static void woken_up(uv_async_t *handle)
{
    (void)handle; /* the inbox is looked at before the next sleep */
}

static void turn(void *arg)
{
    (void)uv_run(&((struct spn__loop *)arg)->uv, UV_RUN_DEFAULT);
}

static void *run(void *arg)
{
    struct spn__loop *const loop = arg;
    struct spn_thread *self;

    spn__os_cancel_disable();
    spn__os_set_name(loop->name);
    self = spn__thread_self();              /* copies the name */
    spn__store(&loop->self, self, relaxed); /* see spn__loop_is_mine */
    loop->has_record = self != NULL;
    spn__os_thread_here(&loop->note, 0);
    spn__gate_open(&loop->started);
    if (self != NULL) {
        self->stays = true;
        spn__guarded(turn, loop);
    }
    return NULL;
}

static void begin_stop(struct spn__net_job *job)
{
    struct spn__loop *const loop =
        (struct spn__loop *)((char *)job - offsetof(struct spn__loop, stop));
    struct spn__list_node *node;

    loop->stopping = true;
    spn__list_each (node, &loop->conns)
        spn__conn_close(spn__list_entry(node, struct spn__conn, link), SPN_ECLOSED);
    while (!spn__list_empty(&loop->listeners))
        spn__listener_stop_on_loop(spn__list_entry(spn__list_first(&loop->listeners),
                                                   struct spn__listener, on_loop));
}

void spn__loop_stop(struct spn__loop *loop)
{
    loop->stop.fn = begin_stop;
    if (!spn__loop_post(loop, &loop->stop))
        spn__assert(false); /* only this shuts the inbox */
}

/* ---- made and unmade -------------------------------------------------------- */

int spn__loop_init(struct spn__loop *loop, struct spn__transport *transport,
                   bool for_conns)
{
    int rc;

    memset(loop, 0, sizeof *loop);
    loop->transport = transport;
    spn__init(&loop->self, NULL);
    spn__lock_init(&loop->lock);
    loop->jobs_end = &loop->jobs;
    loop->asked_end = &loop->asked;
    loop->open = true;
    spn__init(&loop->senders, 0u);
    spn__init(&loop->bytes_read, (uint64_t)0);
    spn__init(&loop->wakeups, (uint64_t)0);
    spn__init(&loop->moved, (uint64_t)0);
    spn__init(&loop->share, 0);
    spn__init(&loop->begun, 0u);
    loop->until_look = 1;
    spn__list_init(&loop->conns);
    spn__list_init(&loop->listeners);
    if (for_conns) {
        loop->in = spn__alloc(SPN__LOOP_IN);
        loop->out = spn__alloc(SPN__LOOP_OUT);
        if (loop->in == NULL || loop->out == NULL)
            goto no_memory;
    }
    rc = uv_loop_init(&loop->uv);
    if (rc != 0)
        goto no_loop;
    loop->uv.data = loop;
    rc = uv_async_init(&loop->uv, &loop->wake, woken_up);
    if (rc != 0) {
        (void)uv_loop_close(&loop->uv);
        goto no_loop;
    }
    (void)uv_prepare_init(&loop->uv, &loop->before); /* these three cannot fail */
    (void)uv_check_init(&loop->uv, &loop->after);
    loop->before.data = loop;
    loop->after.data = loop;
    (void)uv_prepare_start(&loop->before, before_sleep);
    (void)uv_check_start(&loop->after, after_sleep);
    return SPN_OK;

no_loop:
    spn__free(loop->in);
    spn__free(loop->out);
    return rc == UV_ENOMEM ? SPN_ENOMEM : SPN_EAGAIN;
no_memory:
    spn__free(loop->in);
    spn__free(loop->out);
    return SPN_ENOMEM;
}

int spn__loop_start(struct spn__loop *loop)
{
    struct spn__os_thread_attr attr = { .block_signals = true };
    int rc;

    spn__gate_init(&loop->started);
    rc = spn__os_thread_create(&loop->thread, &attr, run, loop);
    if (rc != SPN_OK)
        return rc;
    spn__gate_wait(&loop->started);
    if (loop->has_record)
        return SPN_OK;
    spn__loop_join(loop);
    return SPN_ENOMEM;
}

void spn__loop_join(struct spn__loop *loop)
{
    spn__os_thread_join(loop->thread);
    spn__os_thread_gone(&loop->note); /* here: whatever ended the thread */
}

void spn__loop_fini(struct spn__loop *loop)
{
    int rc;

    if (!loop->ended) { /* never started: libuv wants its handles closed and a turn */
        uv_close((uv_handle_t *)&loop->wake, NULL);
        uv_close((uv_handle_t *)&loop->before, NULL);
        uv_close((uv_handle_t *)&loop->after, NULL);
        (void)uv_run(&loop->uv, UV_RUN_DEFAULT);
    }
    rc = uv_loop_close(&loop->uv);
    spn__assert(rc == 0);
    (void)rc;
    spn__free(loop->in);
    spn__free(loop->out);
}
