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
 *   When the pool refuses a message, `refused` answers for it here and now: on the I/O
 *   thread, whatever the pool's threads do.  A pool that was shut down is another matter:
 *   what it would have done is done by the executor that the repository shares.  A response
 *   is done there too when the pool has no room: nobody can be told to come again, and its
 *   caller has paid for it.
 *
 *   Before that, the dispatch refuses a request itself when its channel has as much of the
 *   pool as one may have (places.c), or others wait too long for a thread (waits.c).
 *
 *   With channel.order the pool is asked by way of a serial executor whose keys are channels:
 *   what a channel has for the pool runs one after the other.  So a protocol that pipelines
 *   can answer in order without a queue of its own.  A request that is refused takes its
 *   turn there, too: its answer must not pass those of requests before it.
 *
 *   A failure inside of a task is logged, as Dubbo's ChannelEventRunnable does.  The task
 *   also tells a program's handler of it as `caught`, as the I/O thread does, so that what a
 *   program is told does not depend on the dispatcher.
 *
 * ORDERING
 *   [tasks]  each task that is handed to an executor which may outlive the dispatch counts
 *            in `tasks`, and its last touch of the dispatch is to count out, a release.  stop
 *            acquires: when it finds 0, no task touches the dispatch any more.  No event is
 *            told from then on, so none is counted in.
 *
 * WHY NOT a handler of its own for each dispatcher, as Dubbo has them?  They differ in the
 * table and nothing else, and four copies of the refusal are how one of them came to answer
 * twice.
 */
#include "channel/dispatch.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/time.h"
#include "config/problem.h"
#include "exec/pool.h"
#include "sync/blocks.h"
#include "sync/thread_record.h"

/* ---- tasks ----------------------------------------------------------------------- */

static spn_message *message_of(spn_task *task)
{
    return (spn_message *)(void *)((char *)task - offsetof(spn_message, task));
}

static struct spn__event_task *event_of(spn_task *task)
{
    return (struct spn__event_task *)(void *)((char *)task -
                                              offsetof(struct spn__event_task, task));
}

static spn_channel_event event_of_message(const spn_message *message)
{
    return message->kind == SPN_MESSAGE_RESPONSE ? SPN_CHANNEL_RESPONSE
                                                 : SPN_CHANNEL_REQUEST;
}

/* Says which event of which channel went wrong, and of which message. */
static void log_failure(spn_channel *channel, spn_channel_event event,
                        const spn_message *message, int rc)
{
    char what[128] = "";

    if (message != NULL && message->ops->describe != NULL)
        message->ops->describe(message, what, sizeof what);
    what[sizeof what - 1] = '\0';
    spn__log_limited(SPN_LOG_WARN, SPN_SEC(1), "channel %s: handling %s failed: %s%s%s",
                     channel->remote, spn_channel_event_name((int)event),
                     spn_status_text(rc), what[0] != '\0' ? "; message: " : "", what);
}

/* A task that runs, and what it gives back in the end. */
struct running {
    spn_channel *channel;   /* held */
    struct spn_dispatch *d; /* counts it; NULL: it is not counted */
};

static struct running running_message(const spn_message *message)
{
    const bool is_counted = (message->flags & SPN__MESSAGE_COUNTED) != 0;

    return (struct running){ message->channel, is_counted ? message->dispatch : NULL };
}

static struct running running_event(const struct spn__event_task *event)
{
    return (struct running){ event->channel,
                             event->is_counted ? event->dispatch : NULL };
}

/* Follows the handler.  `d` may be NULL, as in struct running. */
static void task_ended(void *channel, void *d)
{
    spn__channel_drop(channel);
    if (d != NULL)
        (void)spn__fetch_sub(&((struct spn_dispatch *)d)->tasks, 1,
                             release); /* [tasks] */
}

static void end_running(const struct running *r)
{
    task_ended(r->channel, r->d);
}

/* Answers for a message that nobody handles. */
static void refuse(struct spn_dispatch *d, spn_message *message, int why)
{
    d->refused(d->ctx, message->channel, message, why);
}

/* Why the message is to be refused in its turn; 0: it is not. */
static int refused_why(const spn_message *message)
{
    return (int)(message->flags / SPN__MESSAGE_WHY);
}

static int run_received(spn_task *task)
{
    spn_message *message = message_of(task);
    struct spn_dispatch *d = message->dispatch;
    struct running r = running_message(message);
    struct spn_thread *self = spn__self_get();
    spn_channel *channel = message->channel;
    int rc;

    spn__waits_begun(&d->waits, message);
    spn__channel_hold(channel); /* the message may end in there */
    spn__task_entered(self, task_ended, r.channel, r.d);
    if (refused_why(message) != 0) {
        refuse(d, message, refused_why(message));
    } else if ((rc = spn__handler_received(d->handler.inner, channel, message)) !=
               SPN_OK) {
        log_failure(channel, event_of_message(message), message, rc);
        if (d->tells_caught)
            spn__handler_caught(d->handler.inner, channel, rc);
        spn_message_release(message);
    }
    spn__task_left(self);
    end_running(&r);
    return SPN_OK;
}

static void drop_received(spn_task *task, int why)
{
    spn_message *message = message_of(task);
    struct running r = running_message(message);

    spn__waits_dropped(&message->dispatch->waits, message);
    spn__channel_hold(r.channel);
    refuse(message->dispatch, message,
           refused_why(message) != 0 ? refused_why(message) : why);
    end_running(&r);
}

static int run_event(spn_task *task)
{
    struct spn__event_task *event = event_of(task);
    struct running r = running_event(event);
    spn_handler *inner = event->dispatch->handler.inner;
    struct spn_thread *self = spn__self_get();
    const spn_channel_event what = event->event;
    const int why = event->why;

    if (what == SPN_CHANNEL_CAUGHT)
        spn__block_put(event); /* the other two are the channel's */
    spn__task_entered(self, task_ended, r.channel, r.d);
    if (what == SPN_CHANNEL_CONNECTED)
        spn__handler_connected(inner, r.channel);
    else if (what == SPN_CHANNEL_DISCONNECTED)
        spn__handler_disconnected(inner, r.channel, why);
    else
        spn__handler_caught(inner, r.channel, why);
    spn__task_left(self);
    end_running(&r);
    return SPN_OK;
}

static void drop_event(spn_task *task, int why)
{
    struct spn__event_task *event = event_of(task);
    struct running r = running_event(event);

    log_failure(r.channel, event->event, NULL, why);
    if (event->event == SPN_CHANNEL_CAUGHT)
        spn__block_put(event);
    end_running(&r);
}

/* ---- handing over ------------------------------------------------------------------ */

static void count(struct spn_dispatch *d, spn_channel_event event, int place)
{
    spn__count(d->counts, SPN__COUNT_DISPATCHED + (int)event * (int)SPN_PLACES + place,
               1);
}

/* What the pool did not take, for a reason that is returned if this does not either. */
static int execute_shared(struct spn_dispatch *d, spn_task *task, int why)
{
    spn_executor *shared;
    int rc;

    if (spn_repository_shared(d->repository, &shared) != SPN_OK)
        return why; /* all is being ended */
    rc = spn_executor_execute(shared, task);
    if (rc == SPN_OK)
        spn__count(d->counts, SPN__COUNT_SHARED, 1);
    return rc;
}

/* The pool, and when that was shut down the shared executor. */
static int execute_somewhere(struct spn_dispatch *d, spn_task *task)
{
    const int rc = spn_executor_execute(d->executor, task);

    if (rc == SPN_OK || spn_executor_is_shutdown(d->executor) != 1)
        return rc;
    return execute_shared(d, task, rc);
}

/* With channel.order the turn of a channel moves from the pool to the shared executor, and
 * not its single events: these could pass each other there. */
static struct spn_dispatch *dispatch_in_order(spn_executor *executor)
{
    return (struct spn_dispatch *)(void *)((char *)executor -
                                           offsetof(struct spn_dispatch, in_order));
}

static int execute_turn(spn_executor *executor, spn_task *turn)
{
    return execute_somewhere(dispatch_in_order(executor), turn);
}

static int state_of_turns(spn_executor *executor)
{
    return spn_executor_get_state(dispatch_in_order(executor)->executor);
}

static const spn_executor_ops in_order_ops = { .size = sizeof in_order_ops,
                                               .execute = execute_turn,
                                               .state = state_of_turns };

static int execute_in_pool(struct spn_dispatch *d, const spn_channel *channel,
                           spn_task *task)
{
    return d->serial != NULL ? spn_serial_execute(d->serial, (uintptr_t)channel, task)
                             : execute_somewhere(d, task);
}

static int execute_in_order(struct spn_dispatch *d, spn_task *task)
{
    const int64_t waiting = spn__work_size(d->ordered);

    if (waiting > d->ordered_warning)
        spn__log_limited(SPN_LOG_WARN, SPN_SEC(1),
                         "connectionordered channel handler queue size: %lld exceed "
                         "the warning limit number :%lld",
                         (long long)waiting, (long long)d->ordered_warning);
    return spn_executor_execute(spn_pool_executor(d->ordered), task);
}

static int execute(struct spn_dispatch *d, const spn_channel *channel,
                   spn_channel_event event, spn_task *task)
{
    switch (d->place[event]) {
    case SPN_PLACE_ORDERED:
        return execute_in_order(d, task);
    case SPN_PLACE_OWN:
        if (d->own[event] != NULL)
            return spn_executor_execute(d->own[event], task);
        return execute_in_pool(d, channel, task);
    default:
        return execute_in_pool(d, channel, task);
    }
}

/* Counts a task in that is about to be handed over. */
static void enter(struct spn_dispatch *d)
{
    (void)spn__fetch_add(&d->tasks, 1, relaxed); /* published with the task */
}

/* Hands an event of the channel's own over; it holds the channel meanwhile. */
static void hand_over(struct spn_dispatch *d, struct spn__event_task *task,
                      spn_channel *channel, spn_channel_event event, int why)
{
    int rc;

    task->task = (spn_task)SPN_TASK_INIT(run_event, drop_event);
    task->dispatch = d;
    task->channel = channel;
    task->event = event;
    task->why = why;
    task->is_counted = d->counts_tasks;
    spn__channel_hold(channel);
    if (task->is_counted)
        enter(d);
    /* Before: when it returns, the task may be gone. */
    count(d, event, d->place[event]);
    rc = execute(d, channel, event, &task->task);
    if (rc != SPN_OK)
        drop_event(&task->task, rc);
}

static struct spn_dispatch *dispatch_of(spn_handler *handler)
{
    return (struct spn_dispatch *)(void *)handler; /* its first member */
}

static void connected(spn_handler *handler, spn_channel *channel)
{
    struct spn_dispatch *d = dispatch_of(handler);

    spn__places_join(&d->places, channel);
    if (d->place[SPN_CHANNEL_CONNECTED] == SPN_PLACE_IO) {
        count(d, SPN_CHANNEL_CONNECTED, SPN_PLACE_IO);
        spn__handler_connected(handler->inner, channel);
        return;
    }
    hand_over(d, &channel->connected, channel, SPN_CHANNEL_CONNECTED, SPN_OK);
}

static void disconnected(spn_handler *handler, spn_channel *channel, int why)
{
    struct spn_dispatch *d = dispatch_of(handler);

    if (d->place[SPN_CHANNEL_DISCONNECTED] == SPN_PLACE_IO) {
        count(d, SPN_CHANNEL_DISCONNECTED, SPN_PLACE_IO);
        spn__handler_disconnected(handler->inner, channel, why);
        return;
    }
    hand_over(d, &channel->disconnected, channel, SPN_CHANNEL_DISCONNECTED, why);
}

static void sent(spn_handler *handler, spn_channel *channel, uint64_t position)
{
    /* Always here: what was sent is over, and worth no thread. */
    count(dispatch_of(handler), SPN_CHANNEL_SENT, SPN_PLACE_IO);
    spn__handler_sent(handler->inner, channel, position);
}

static void caught(spn_handler *handler, spn_channel *channel, int why)
{
    struct spn_dispatch *d = dispatch_of(handler);
    struct spn__event_task *task = NULL;

    if (d->place[SPN_CHANNEL_CAUGHT] != SPN_PLACE_IO)
        task = spn__block_get(sizeof *task);
    if (task == NULL) { /* or no memory: better here than not at all */
        count(d, SPN_CHANNEL_CAUGHT, SPN_PLACE_IO);
        spn__handler_caught(handler->inner, channel, why);
        return;
    }
    hand_over(d, task, channel, SPN_CHANNEL_CAUGHT, why);
}

/* Whether a request may go to the pool: 0, or an spn__refused. */
static int admit(struct spn_dispatch *d, spn_message *message)
{
    const int why = spn__places_take(&d->places, message);

    if (why != 0)
        return why;
    return spn__waits_enter(&d->waits, message) ? 0 : SPN__REFUSED_DELAY;
}

/* Hands a message over; 0, or why nobody takes it. */
static int hand_message(struct spn_dispatch *d, spn_channel_event event,
                        spn_message *message)
{
    spn_executor *waiting = event == SPN_CHANNEL_RESPONSE ? message->waiting : NULL;
    int rc;

    rc = waiting != NULL ? spn_executor_execute(waiting, &message->task)
                         : execute(d, message->channel, event, &message->task);
    if (rc != SPN_OK && waiting != NULL) /* that one has left */
        rc = execute_in_pool(d, message->channel, &message->task);
    if (rc != SPN_OK && event == SPN_CHANNEL_RESPONSE)
        rc = execute_shared(d, &message->task, rc);
    return rc;
}

static int received(spn_handler *handler, spn_channel *channel, spn_message *message)
{
    struct spn_dispatch *d = dispatch_of(handler);
    const spn_channel_event event = event_of_message(message);
    int place = d->place[event];
    int rc;

    if (event == SPN_CHANNEL_RESPONSE && message->waiting != NULL)
        place = SPN_PLACE_PREFERRED; /* it waits for nothing else */
    count(d, event, place);
    if (place == SPN_PLACE_IO)
        return spn__handler_received(handler->inner, channel, message);
    message->dispatch = d;
    rc = event == SPN_CHANNEL_REQUEST ? admit(d, message) : 0;
    if (rc != 0 && d->serial == NULL) {
        refuse(d, message, rc);
        return SPN_OK;
    }
    message->flags |= (uint32_t)rc * SPN__MESSAGE_WHY; /* in its turn */
    message->task = (spn_task)SPN_TASK_INIT(run_received, drop_received);
    if (d->counts_tasks || (d->awaits_tasks && message->waiting != NULL)) {
        message->flags |= SPN__MESSAGE_COUNTED;
        enter(d);
    }
    rc = hand_message(d, event, message);
    if (rc != SPN_OK)
        drop_received(&message->task, rc);
    return SPN_OK;
}

static const spn_handler_ops dispatch_ops = {
    .connected = connected,
    .disconnected = disconnected,
    .sent = sent,
    .received = received,
    .caught = caught,
};

bool spn__handler_is_dispatch(const spn_handler *handler)
{
    return handler->ops == &dispatch_ops;
}

/* ---- making one ---------------------------------------------------------------------- */

static int make_ordered(struct spn_dispatch *d, const spn_url *url,
                        spn_problem *problem)
{
    spn_pool_opts opts = spn_pool_opts_fixed(1, SPN_UNBOUNDED);
    int32_t capacity, warning;
    char name[200];
    int rc;

    rc =
        spn_url_get_positive(url, NULL, "connect.queue.capacity", INT32_MAX, &capacity);
    if (rc != SPN_OK)
        return spn__refuse(problem, rc, 0, "connect.queue.capacity is no number");
    rc = spn_url_get_int(url, NULL, "connect.queue.warning.size", 1000, &warning);
    if (rc != SPN_OK)
        return spn__refuse(problem, rc, 0, "connect.queue.warning.size is no number");
    if (capacity != INT32_MAX)
        opts.queue_capacity = capacity;
    /* In front: the kernel keeps the first letters of a thread's name. */
    (void)snprintf(name, sizeof name, "ordered-%s",
                   spn_url_get_string(url, NULL, "threadname", "Dubbo"));
    opts.name = name;
    d->ordered_warning = warning;
    return spn_pool_create(&d->ordered, &opts);
}

static int fill_places(struct spn_dispatch *d, const spn_url *url, spn_problem *problem)
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
static int init_limits(struct spn_dispatch *d, const spn_url *url, spn_problem *problem)
{
    const int place = d->place[SPN_CHANNEL_REQUEST];
    const bool is_pools =
        place != SPN_PLACE_IO && place != SPN_PLACE_ORDERED &&
        (place != SPN_PLACE_OWN || d->own[SPN_CHANNEL_REQUEST] == NULL);
    int rc;

    if (!d->has_limits)
        return SPN_OK;
    rc = spn__waits_init(&d->waits, url, place != SPN_PLACE_IO, problem);
    if (rc != SPN_OK)
        return rc;
    return spn__places_init(&d->places, url, place != SPN_PLACE_IO,
                            is_pools ? d->pool : NULL, problem);
}

int spn__dispatch_init(struct spn_dispatch *d, spn_handler *inner,
                       spn_extensions *extensions, const spn_url *url,
                       spn_problem *problem)
{
    const void *instance;
    int rc;

    d->handler = (spn_handler){ &dispatch_ops, inner };
    spn__init(&d->tasks, 0);
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
        rc = spn_repository_get_or_create(d->repository, url, &d->pool, problem);
    if (rc != SPN_OK)
        return rc;
    d->executor = spn_pool_executor(d->pool);
    rc = init_limits(d, url, problem);
    d->in_order.ops = &in_order_ops;
    if (rc == SPN_OK && spn_url_get_bool(url, NULL, "channel.order", 0))
        rc = spn_serial_create(&d->serial, &d->in_order, NULL);
    if (rc != SPN_OK) {
        spn__dispatch_fini(d);
        return rc;
    }
    if (d->awaits_tasks && memchr(d->place, SPN_PLACE_OWN, sizeof d->place) != NULL)
        d->counts_tasks = true;
    if (memchr(d->place, SPN_PLACE_ORDERED, sizeof d->place) != NULL) {
        rc = make_ordered(d, url, problem);
        if (rc != SPN_OK)
            spn__dispatch_fini(d);
    }
    return rc;
}

int spn__dispatch_stop(struct spn_dispatch *d, int64_t timeout_ns)
{
    const int64_t deadline_ns = spn__deadline(spn__now(), timeout_ns);
    spn_executor *serial = spn_serial_executor(d->serial);
    int rc = SPN_OK;

    if (d->ordered != NULL) {
        (void)spn_executor_shutdown(spn_pool_executor(d->ordered));
        rc = spn_executor_await(spn_pool_executor(d->ordered), timeout_ns);
    }
    if (serial != NULL && rc == SPN_OK) {
        const int64_t left_ns = deadline_ns - spn__now();

        (void)spn_executor_shutdown(serial);
        rc = spn_executor_await(serial, left_ns > 0 ? left_ns : 0);
    }
    return rc;
}

void spn__dispatch_fini(struct spn_dispatch *d)
{
    /* Not ended yet if the server was never started: then it has nothing to do. */
    (void)!spn__dispatch_stop(d, SPN_SEC(1));
    if (d->ordered != NULL && spn_pool_destroy(d->ordered) != SPN_OK)
        spn__log(SPN_LOG_ERROR, "channel: the ordered thread of a dispatch still runs");
    d->ordered = NULL;
    if (spn_serial_destroy(d->serial) != SPN_OK)
        spn__log(SPN_LOG_ERROR,
                 "channel: a thread still runs the events of a dispatch");
    d->serial = NULL;
    spn__places_fini(&d->places);
    if (d->pool != NULL)
        (void)spn_repository_release(d->repository, d->pool);
    d->pool = NULL;
}
