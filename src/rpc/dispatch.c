/* SPDX-License-Identifier: MIT */
/*
 * dispatch.c - moves events to the threads that the dispatcher names.
 *
 * OVERVIEW
 *   What a dispatcher says is asked once and kept as a table of places: on the way of a
 *   message there is one look into it.  A message is its own task, and a channel has the
 *   tasks of its two events, so that handing over allocates nothing; only `caught`, which
 *   is rare, needs memory.
 *
 *   When the pool refuses a message, the message answers for itself, here and now: on the
 *   I/O thread, whatever the pool's threads do.  A pool that was shut down is another
 *   matter: what it would have done is done by the executor that the repository shares.
 *   A response is done there too when the pool has no room: nobody can be told to come
 *   again, and its caller has paid for it.
 *
 *   Before that, the dispatcher refuses a request itself when its connection has as much of
 *   the pool as one may have (places.c), or others wait too long for a thread (waits.c).
 *
 *   Failures inside of a task are logged and go nowhere else: there is nobody to catch them
 *   there.
 *
 * WHY NOT a handler of its own for each dispatcher, as Dubbo has them?  They differ in the
 * table and nothing else, and four copies of the refusal are how one of them came to answer
 * twice.
 */
#include "rpc/dispatch.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/time.h"
#include "config/problem.h"
#include "exec/report.h"
#include "sync/blocks.h"

/* ---- tasks ----------------------------------------------------------------------- */

static struct spn__message *message_of(spn_task *task)
{
    return (struct spn__message *)(void *)((char *)task -
                                           offsetof(struct spn__message, task));
}

static struct spn__event_task *event_of(spn_task *task)
{
    return (struct spn__event_task *)(void *)((char *)task -
                                              offsetof(struct spn__event_task, task));
}

static void log_failure(struct spn__channel *channel, const char *what, int rc)
{
    spn__log_limited(SPN_LOG_WARN, SPN_SEC(1), "rpc: %s of %s failed: %s", what,
                     spn__conn_remote(channel->conn), spn_status_text(rc));
}

/* Follows what a handler did, also when that ended its thread. */
static void let_go(void *channel)
{
    spn__channel_drop(channel);
}

static int run_received(spn_task *task)
{
    struct spn__message *message = message_of(task);
    struct spn__channel *channel = message->channel;
    int rc;

    spn__waits_begun(message);
    spn__channel_hold(channel); /* the message may end in there */
    SPN__CLEANUP_PUSH(let_go, channel);
    rc = spn__handler_received(message->handler, channel, message);
    if (rc != SPN_OK)
        log_failure(channel, "a message", rc);
    SPN__CLEANUP_POP();
    return SPN_OK;
}

static void drop_received(spn_task *task, int why)
{
    struct spn__message *message = message_of(task);

    spn__waits_dropped(message);
    message->refused(message, why);
}

static int run_connected(spn_task *task)
{
    struct spn__event_task *event = event_of(task);
    struct spn__channel *channel = event->channel;

    SPN__CLEANUP_PUSH(let_go, channel);
    spn__handler_connected(event->handler, channel);
    SPN__CLEANUP_POP();
    return SPN_OK;
}

static int run_disconnected(spn_task *task)
{
    struct spn__event_task *event = event_of(task);
    struct spn__channel *channel = event->channel;

    SPN__CLEANUP_PUSH(let_go, channel);
    spn__handler_disconnected(event->handler, channel, event->why);
    SPN__CLEANUP_POP();
    return SPN_OK;
}

static void drop_event(spn_task *task, int why)
{
    struct spn__channel *channel = event_of(task)->channel;

    log_failure(channel, "an event", why);
    spn__channel_drop(channel);
}

static int run_caught(spn_task *task)
{
    struct spn__event_task *event = event_of(task);
    struct spn__handler *handler = event->handler;
    struct spn__channel *channel = event->channel;
    const int why = event->why;

    spn__block_put(event);
    SPN__CLEANUP_PUSH(let_go, channel);
    spn__handler_caught(handler, channel, why);
    SPN__CLEANUP_POP();
    return SPN_OK;
}

static void drop_caught(spn_task *task, int why)
{
    struct spn__channel *channel = event_of(task)->channel;

    log_failure(channel, "a failure", why);
    spn__block_put(event_of(task));
    spn__channel_drop(channel);
}

/* ---- handing over ------------------------------------------------------------------ */

static void count(struct spn__dispatch *d, spn_channel_event event, int place)
{
    spn__count(&d->endpoint->counts,
               SPN__COUNT_DISPATCHED + (int)event * (int)SPN_PLACES + place, 1);
}

/* What the pool did not take, for a reason that is returned if this does not either. */
static int execute_shared(struct spn__dispatch *d, spn_task *task, int why)
{
    spn_executor *shared;
    int rc;

    if (spn_repository_shared(d->repository, &shared) != SPN_OK)
        return why; /* all is being ended */
    rc = spn_executor_execute(shared, task);
    if (rc == SPN_OK)
        spn__count(&d->endpoint->counts, SPN__COUNT_SHARED, 1);
    return rc;
}

/* The pool's part, with the shared executor behind it. */
static int execute_in_pool(struct spn__dispatch *d, spn_task *task)
{
    const int rc = spn_executor_execute(d->executor, task);

    if (rc == SPN_OK || spn_executor_is_shutdown(d->executor) != 1)
        return rc;
    return execute_shared(d, task, rc);
}

static int execute_in_order(struct spn__dispatch *d, spn_task *task)
{
    const int64_t waiting = spn_pool_queued(d->ordered);

    if (waiting > d->ordered_warning)
        spn__log_limited(SPN_LOG_WARN, SPN_SEC(1),
                         "connectionordered channel handler queue size: %lld exceed "
                         "the warning limit number :%lld",
                         (long long)waiting, (long long)d->ordered_warning);
    return spn_executor_execute(spn_pool_executor(d->ordered), task);
}

static int execute(struct spn__dispatch *d, spn_channel_event event, int place,
                   spn_task *task)
{
    switch (place) {
    case SPN_PLACE_ORDERED:
        return execute_in_order(d, task);
    case SPN_PLACE_OWN:
        if (d->own[event] != NULL)
            return spn_executor_execute(d->own[event], task);
        return execute_in_pool(d, task);
    default:
        return execute_in_pool(d, task);
    }
}

/* Hands an event of the channel's own over; it holds the channel meanwhile. */
static void hand_over(struct spn__dispatch *d, spn_channel_event event,
                      struct spn__event_task *task)
{
    struct spn__channel *channel = task->channel;
    int rc;

    spn__channel_hold(channel);
    /* Before: when it returns, the task may be gone. */
    count(d, event, d->place[event]);
    rc = execute(d, event, d->place[event], &task->task);
    if (rc != SPN_OK)
        task->task.drop(&task->task, rc);
}

static void connected(struct spn__handler *handler, struct spn__channel *channel)
{
    struct spn__dispatch *d = (struct spn__dispatch *)handler;
    struct spn__event_task *task = &channel->connected;

    spn__places_join(&d->places, channel);
    if (d->place[SPN_CHANNEL_CONNECTED] == SPN_PLACE_IO) {
        count(d, SPN_CHANNEL_CONNECTED, SPN_PLACE_IO);
        spn__handler_connected(handler->inner, channel);
        return;
    }
    task->task = (spn_task)SPN_TASK_INIT(run_connected, drop_event);
    task->handler = handler->inner;
    task->channel = channel;
    hand_over(d, SPN_CHANNEL_CONNECTED, task);
}

static void disconnected(struct spn__handler *handler, struct spn__channel *channel,
                         int why)
{
    struct spn__dispatch *d = (struct spn__dispatch *)handler;
    struct spn__event_task *task = &channel->disconnected;

    if (d->place[SPN_CHANNEL_DISCONNECTED] == SPN_PLACE_IO) {
        count(d, SPN_CHANNEL_DISCONNECTED, SPN_PLACE_IO);
        spn__handler_disconnected(handler->inner, channel, why);
        return;
    }
    task->task = (spn_task)SPN_TASK_INIT(run_disconnected, drop_event);
    task->handler = handler->inner;
    task->channel = channel;
    task->why = why;
    hand_over(d, SPN_CHANNEL_DISCONNECTED, task);
}

static void sent(struct spn__handler *handler, struct spn__channel *channel,
                 uint64_t position)
{
    /* Always here: what was sent is over, and worth no thread. */
    count((struct spn__dispatch *)handler, SPN_CHANNEL_SENT, SPN_PLACE_IO);
    spn__handler_sent(handler->inner, channel, position);
}

static void caught(struct spn__handler *handler, struct spn__channel *channel, int why)
{
    struct spn__dispatch *d = (struct spn__dispatch *)handler;
    struct spn__event_task *task = NULL;

    if (d->place[SPN_CHANNEL_CAUGHT] != SPN_PLACE_IO)
        task = spn__block_get(sizeof *task);
    if (task == NULL) { /* or no memory: better here than not at all */
        count(d, SPN_CHANNEL_CAUGHT, SPN_PLACE_IO);
        spn__handler_caught(handler->inner, channel, why);
        return;
    }
    task->task = (spn_task)SPN_TASK_INIT(run_caught, drop_caught);
    task->handler = handler->inner;
    task->channel = channel;
    task->why = why;
    hand_over(d, SPN_CHANNEL_CAUGHT, task);
}

/* Whether a request may go to the pool: 0, or an spn__refused. */
static int admit(struct spn__dispatch *d, struct spn__message *message)
{
    const int why = spn__places_take(&d->places, message);

    if (why != 0)
        return why;
    return spn__waits_enter(&d->waits, message) ? 0 : SPN__REFUSED_DELAY;
}

static int received(struct spn__handler *handler, struct spn__channel *channel,
                    struct spn__message *message)
{
    struct spn__dispatch *d = (struct spn__dispatch *)handler;
    const spn_channel_event event = spn__frame_is_request(&message->frame)
                                        ? SPN_CHANNEL_REQUEST
                                        : SPN_CHANNEL_RESPONSE;
    int place = d->place[event];
    spn_executor *waiting = NULL;
    bool is_threadless = false;
    int rc;

    if (event == SPN_CHANNEL_RESPONSE && d->waiting != NULL)
        waiting = d->waiting(d, message, &is_threadless);
    if (is_threadless)
        place = SPN_PLACE_PREFERRED; /* it waits for nothing else */
    count(d, event, place);
    if (place == SPN_PLACE_IO)
        return spn__handler_received(handler->inner, channel, message);
    rc = event == SPN_CHANNEL_REQUEST ? admit(d, message) : 0;
    if (rc != 0) {
        message->refused(message, rc);
        return SPN_OK;
    }
    message->handler = handler->inner;
    message->task = (spn_task)SPN_TASK_INIT(run_received, drop_received);
    rc = waiting != NULL && place == SPN_PLACE_PREFERRED
             ? spn_executor_execute(waiting, &message->task)
             : execute(d, event, place, &message->task);
    if (rc != SPN_OK && waiting != NULL)
        rc = execute_in_pool(d, &message->task); /* that one has left */
    if (rc != SPN_OK && event == SPN_CHANNEL_RESPONSE)
        rc = execute_shared(d, &message->task, rc);
    if (rc != SPN_OK) {
        spn__waits_dropped(message);
        message->refused(message, rc);
    }
    return SPN_OK;
}

static const struct spn__handler_ops dispatch_ops = {
    .connected = connected,
    .disconnected = disconnected,
    .sent = sent,
    .received = received,
    .caught = caught,
};

/* ---- making one ---------------------------------------------------------------------- */

static int make_ordered(struct spn__dispatch *d, const spn_url *url,
                        spn_problem *problem)
{
    spn_pool_opts opts = spn_pool_opts_fixed(1, SPN_UNBOUNDED);
    int32_t capacity, warning;
    char name[200];
    int rc;

    rc = spn_url_get_positive(url, "connect.queue.capacity", INT32_MAX, &capacity);
    if (rc != SPN_OK)
        return spn__refuse(problem, rc, 0, "connect.queue.capacity is no number");
    rc = spn_url_get_int(url, "connect.queue.warning.size", 1000, &warning);
    if (rc != SPN_OK)
        return spn__refuse(problem, rc, 0, "connect.queue.warning.size is no number");
    if (capacity != INT32_MAX)
        opts.queue_capacity = capacity;
    /* In front: the kernel keeps the first letters of a thread's name. */
    (void)snprintf(name, sizeof name, "ordered-%s",
                   spn_url_get_string(url, "threadname", "Dubbo"));
    opts.name = name;
    d->ordered_warning = warning;
    return spn_pool_create(&d->ordered, &opts);
}

static int fill_places(struct spn__dispatch *d, const spn_url *url,
                       spn_problem *problem)
{
    for (int i = 0; i < SPN_CHANNEL_EVENTS; i++) {
        const spn_channel_event event = (spn_channel_event)i;
        const spn_place place = d->dispatcher->place(d->dispatcher, event);

        if ((int)place < 0 || place >= SPN_PLACES)
            return spn__refuse(problem, SPN_EINVAL, 0,
                               "the dispatcher names no place for the event %s",
                               spn_channel_event_name(i));
        d->place[i] = (uint8_t)place;
        if (place == SPN_PLACE_OWN && d->dispatcher->executor != NULL)
            d->own[i] = d->dispatcher->executor(d->dispatcher, event, url);
    }
    d->place[SPN_CHANNEL_SENT] = SPN_PLACE_IO;
    return SPN_OK;
}

/* Limits are a server's: nobody sends requests to a client. */
static int init_limits(struct spn__dispatch *d, const spn_url *url,
                       spn_problem *problem)
{
    const int place = d->place[SPN_CHANNEL_REQUEST];
    const bool is_pools =
        place != SPN_PLACE_IO && place != SPN_PLACE_ORDERED &&
        (place != SPN_PLACE_OWN || d->own[SPN_CHANNEL_REQUEST] == NULL);
    int rc;

    if (d->endpoint->is_client)
        return SPN_OK;
    rc = spn__waits_init(&d->waits, url, place != SPN_PLACE_IO, problem);
    if (rc != SPN_OK)
        return rc;
    return spn__places_init(&d->places, url, place != SPN_PLACE_IO,
                            is_pools ? d->pool : NULL, problem);
}

int spn__dispatch_init(struct spn__dispatch *d, struct spn__endpoint *endpoint,
                       struct spn__handler *inner, spn_extensions *extensions,
                       spn_repository *repository, const spn_url *url,
                       spn_problem *problem)
{
    const void *instance;
    int rc;

    memset(d, 0, sizeof *d);
    d->handler.ops = &dispatch_ops;
    d->handler.inner = inner;
    d->endpoint = endpoint;
    d->repository = repository;
    rc =
        spn_extensions_choose(extensions, SPN_KIND_DISPATCHER, url, &instance, problem);
    if (rc != SPN_OK)
        return rc;
    d->dispatcher = instance;
    if (d->dispatcher->size < offsetof(spn_dispatcher, executor) ||
        d->dispatcher->place == NULL)
        return spn__refuse(problem, SPN_EINVAL, 0, "the dispatcher has no place()");
    rc = fill_places(d, url, problem);
    if (rc == SPN_OK)
        rc = spn_repository_get_or_create(repository, url, &d->pool, problem);
    if (rc != SPN_OK)
        return rc;
    d->executor = spn_pool_executor(d->pool);
    rc = init_limits(d, url, problem);
    if (rc != SPN_OK) {
        spn__dispatch_fini(d);
        return rc;
    }
    if (memchr(d->place, SPN_PLACE_ORDERED, sizeof d->place) != NULL) {
        rc = make_ordered(d, url, problem);
        if (rc != SPN_OK)
            spn__dispatch_fini(d);
    }
    return rc;
}

int spn__dispatch_stop(struct spn__dispatch *d, int64_t timeout_ns)
{
    int rc = SPN_OK;

    if (d->ordered != NULL) {
        (void)spn_pool_shutdown(d->ordered);
        rc = spn_pool_await(d->ordered, timeout_ns);
    }
    return rc;
}

void spn__dispatch_fini(struct spn__dispatch *d)
{
    /* Not ended yet if the server was never started: then it has nothing to do. */
    (void)!spn__dispatch_stop(d, SPN_SEC(1));
    if (d->ordered != NULL && spn_pool_destroy(d->ordered) != SPN_OK)
        spn__log(SPN_LOG_ERROR, "rpc: the thread of the dispatcher still runs");
    d->ordered = NULL;
    spn__places_fini(&d->places);
    if (d->pool != NULL)
        (void)spn_repository_release(d->repository, d->pool);
    d->pool = NULL;
}

/* ---- words --------------------------------------------------------------------------- */

static const char *yes_no(bool yes)
{
    return yes ? "true" : "false";
}

void spn__exhausted_text(spn_pool *pool, const spn_url *url, char *text, size_t size)
{
    spn_pool_stats s = SPN_POOL_STATS_INIT;
    long long done;
    bool over, ended;
    struct spn__report_figures figures;

    if (spn_pool_stats_get(pool, &s) != SPN_OK) {
        text[0] = '\0';
        return;
    }
    spn__report_figures(&s, &figures);
    done = (long long)s.completed + (long long)s.failed;
    over = s.state != SPN_EXECUTOR_RUNNING;
    ended = s.state == SPN_EXECUTOR_TERMINATED;
    (void)snprintf(
        text, size,
        "Thread pool is EXHAUSTED! Thread Name: %s, Pool Size: %d (active: %d, "
        "core: %d, max: %d, largest: %d), Task: %lld (completed: %lld), "
        "Executor status:(isShutdown:%s, isTerminated:%s, isTerminating:%s), "
        "in %s://%s:%d! Queue: %lld (capacity: %s)",
        spn_pool_name(pool), (int)s.threads, (int)figures.active, (int)s.core_threads,
        (int)s.max_threads, (int)s.largest, (long long)figures.tasks, done,
        yes_no(over), yes_no(ended), yes_no(over && !ended),
        spn_url_protocol(url) != NULL ? spn_url_protocol(url) : "dubbo",
        spn_url_host(url) != NULL ? spn_url_host(url) : "0.0.0.0",
        (int)spn_url_port(url), (long long)figures.waiting, figures.capacity);
}
