/* SPDX-License-Identifier: MIT */
/*
 * client_call.c - from an invocation to its end.
 *
 * OVERVIEW
 *   The request is encoded on the calling thread, into its stack where it fits, and copied
 *   once, by the transport.  The call is listed and its timeout set before anything is
 *   sent, so that nothing that can happen finds it unknown.
 *
 *   A thread that waits has a threadless executor: the I/O thread hands the response over
 *   and the waiting thread decodes it.  The wait is finite by itself, whatever the timer
 *   does.
 *
 * WHO ENDS A CALL  takes it out of the table first (calls.c); then: the timeout is
 *   taken back, the future completed, the count of pending calls lowered, in that order.
 *
 * ORDERING
 *   [closing] a call counts itself as pending and then looks at `closing`; close sets it
 *             and then looks at the count: seq_cst, so that one of them sees the other.
 *   [ended]   each end is a release of the count and close's look an acquire: what a call
 *             did with the client lies before the client's end.
 *   [parts]   who cancels a future comes to its hook later than others see that it is done,
 *             and looks at the client there: by then a reply may have ended the call.  So
 *             the one that ends a call and its hook each have a part of it, and who gives
 *             the last one up counts the call out: acq_rel, for [ended] of both.
 */
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "base/time.h"
#include "config/problem.h"
#include "rpc/client/client_core.h"
#include "rpc/wire/hessian.h"
#include "sync/blocks.h"

enum { FRAME_ON_STACK = 1024, MESSAGE_BYTES = SPN_FUTURE_MESSAGE_MAX };

/* How long a thread waits beyond its timeout, for a timer that is behind. */
#define GRACE SPN_SEC(1)

/* Beyond that nobody waits, and sums with it still fit. */
#define LONGEST (INT64_MAX / 4)

#define DUBBO_VERSION "2.0.2"

/* ---- ending ----------------------------------------------------------------------------- */

/* The very last touch: close may be waiting for it, and destroy follow. */
static void ended(struct spn_client *client)
{
    (void)spn__fetch_sub(&client->pending, 1, release); /* [ended] */
}

/* What every end has in common: the timeout is taken back, the end counted. */
static void conclude(struct spn__call *call, enum spn__call_end end)
{
    struct spn_client *client = call->client;

    if (spn_timer_cancel(client->timer, &call->timeout) == SPN_TIMEOUT_REMOVED)
        spn__call_unref(call);
    (void)spn__fetch_add(&client->ends[end], 1, relaxed); /* only a number */
}

/* Gives parts of a call up, and references; counts it out if they are the last. */
static void part(struct spn__call *call, uint32_t parts)
{
    struct spn_client *client = call->client;
    /* [parts] Connections that end go through the table's locks later, so that close is
     * after whoever looked there.  mutant: those locks order as much */
    const bool last = spn__fetch_sub(&call->parts, parts, acq_rel) == parts;

    for (uint32_t i = 0; i < parts; i++)
        spn__call_unref(call);
    if (last)
        ended(client);
}

/* Fails the future with what a reply says.  An exception reads as in Java, "class:
 * message".  The future cuts the text to its size, between two characters. */
static void complete_failed(struct spn__call *call, const spn_reply *reply, int code)
{
    const char *class = spn_hvalue_type(spn_reply_exception(reply));
    const char *message = spn_reply_message(reply);
    char text[2 * MESSAGE_BYTES];

    if (message == NULL)
        message = "";
    if (class != NULL && *class != '\0')
        snprintf(text, sizeof text, "%s%s%s", class, *message != '\0' ? ": " : "",
                 message);
    else
        snprintf(text, sizeof text, "%s",
                 *message != '\0' ? message : spn_status_text(code));
    (void)spn_future_complete_error(call->future, code, text);
}

/* Completes the future, with a reply or else a failure, and gives the call up. */
static void complete(struct spn__call *call, spn_reply *reply, int code,
                     const char *message)
{
    spn_executor_frame ending; /* a stage run by this that calls close is told so */
    const bool entered = spn_executor_enter(&call->client->ending, &ending) == SPN_OK;
    bool unread = false; /* nobody else has the reply */

    if (reply == NULL) {
        (void)spn_future_complete_error(call->future, code, message);
    } else if (code != SPN_OK && call->threadless == NULL) {
        unread = true;
        complete_failed(call, reply, code);
    } else { /* a thread that waits takes any reply; see outcome */
        unread = spn_future_complete(call->future, reply) != 1; /* just cancelled */
    }
    if (entered)
        (void)spn_executor_leave(&ending);
    if (unread)
        spn_reply_destroy(reply);
    part(call, 1);
}

void spn__call_fail(struct spn__call *call, enum spn__call_end end, int code,
                    const char *message)
{
    conclude(call, end);
    complete(call, NULL, code, message);
}

void spn__call_fail_if_listed(struct spn__call *call, enum spn__call_end end, int code,
                              const char *message)
{
    if (spn__table_remove(&call->client->table, call))
        spn__call_fail(call, end, code, message);
}

void spn__call_reply(struct spn__call *call, spn_reply *reply)
{
    conclude(call, SPN__END_REPLY);
    complete(call, reply, spn_reply_check(reply), NULL);
}

size_t spn__calls_fail(struct spn_client *client, const struct spn__stream *stream,
                       enum spn__call_end end, int code, const char *message)
{
    struct spn__call *call = spn__table_remove_all(&client->table, stream);
    size_t count = 0;

    while (call != NULL) {
        struct spn__call *next = call->next;

        call->next = NULL;
        spn__call_fail(call, end, code, message);
        call = next;
        count++;
    }
    return count;
}

static int on_timeout(spn_timeout *timeout)
{
    struct spn__call *call =
        (struct spn__call *)(void *)((char *)timeout -
                                     offsetof(struct spn__call, timeout));
    char text[MESSAGE_BYTES];

    if (spn__table_remove(&call->client->table, call)) {
        /* relaxed: it only chooses the words.  The channel is fixed from here on. */
        const uint64_t position = spn__load(&call->position, relaxed);
        const bool was_sent = position != 0 && call->stream != NULL &&
                              spn__conn_written(call->stream->conn) >= position;

        snprintf(text, sizeof text, "%s, timeout: %lld ms",
                 was_sent ? "Waiting server-side response timeout"
                          : "Sending request timeout in client-side",
                 (long long)(call->timeout_ns / SPN_MS(1)));
        spn__call_fail(call, SPN__END_TIMEOUT, SPN_ETIMEDOUT, text);
    }
    spn__call_unref(call); /* the timeout's */
    return SPN_OK;
}

void spn__call_forget(spn_timeout *timeout)
{
    spn__call_unref((struct spn__call *)(void *)((char *)timeout -
                                                 offsetof(struct spn__call, timeout)));
}

/* The future is done: by us, or its holder cancelled it. */
static void on_done(spn_future *future, void *arg)
{
    struct spn__call *call = arg;

    (void)future;
    if (spn__table_remove(&call->client->table, call)) {
        conclude(call, SPN__END_CANCELLED);
        part(call, 2); /* the table's and the hook's */
    } else {
        part(call, 1);
    }
}

static void drop_reply(void *value)
{
    spn_reply_destroy(value);
}

/* ---- encoding ----------------------------------------------------------------------------- */

static void write_pair(struct spn__hwriter *w, const char *key, const char *value)
{
    if (value == NULL || *value == '\0')
        return;
    (void)spn__hwriter_text(w, key);
    (void)spn__hwriter_text(w, value);
}

/* Those of ours first: an attachment of the caller's with the same key is the last, and
 * counts. */
static void write_attachments(struct spn__hwriter *w, const spn_invocation *what,
                              int64_t timeout_ns)
{
    const size_t count = spn_hvalue_count(what->attachments);
    /* Rounded up: the server is not to give up first. */
    const int64_t timeout_ms =
        timeout_ns / SPN_MS(1) + (timeout_ns % SPN_MS(1) != 0 ? 1 : 0);
    char timeout[24];

    snprintf(timeout, sizeof timeout, "%lld", (long long)timeout_ms);
    (void)spn__hwriter_begin_map(w, NULL);
    write_pair(w, "path", what->interface);
    write_pair(w, "interface", what->interface);
    write_pair(w, "version", what->version);
    write_pair(w, "group", what->group);
    write_pair(w, "timeout", timeout);
    for (size_t i = 0; i < count; i++) {
        (void)spn__hwriter_value(w, spn_hvalue_key_at(what->attachments, i));
        (void)spn__hwriter_value(w, spn_hvalue_at(what->attachments, i));
    }
    (void)spn__hwriter_end(w);
}

static int encode(struct spn__hwriter *w, const spn_invocation *what, int64_t id,
                  bool one_way, int64_t timeout_ns)
{
    struct spn__frame frame = { .flags = SPN__FRAME_REQUEST | SPN__HESSIAN2, .id = id };
    unsigned char header[SPN__FRAME_BYTES] = { 0 };
    unsigned char *bytes;
    size_t length;
    int rc;

    (void)spn__hwriter_raw(w, header, sizeof header);
    (void)spn__hwriter_text(w, DUBBO_VERSION);
    (void)spn__hwriter_text(w, what->interface);
    (void)spn__hwriter_text(w, what->version); /* null if there is none */
    (void)spn__hwriter_text(w, what->method);
    (void)spn__hwriter_text(w, what->parameters != NULL ? what->parameters : "");
    for (size_t i = 0; i < what->argument_count; i++)
        (void)spn__hwriter_value(w, what->arguments[i]);
    write_attachments(w, what, timeout_ns);
    rc = spn__hwriter_status(w);
    if (rc != SPN_OK)
        return rc;
    bytes = spn__hwriter_bytes(w, &length);
    if (!one_way)
        frame.flags |= SPN__FRAME_TWO_WAY;
    frame.length = (int32_t)(length - SPN__FRAME_BYTES);
    spn__frame_write(bytes, &frame);
    return SPN_OK;
}

/* How many parameters a descriptor has; -1: it is none. */
static int64_t count_parameters(const char *d)
{
    int64_t count = 0;

    if (d == NULL)
        return 0;
    for (; *d != '\0'; d++, count++) {
        while (*d == '[')
            d++;
        if (*d == 'L') {
            d = strchr(d, ';');
            if (d == NULL)
                return -1;
        } else if (*d == '\0' || strchr("ZBCDFIJS", *d) == NULL) {
            return -1;
        }
    }
    return count;
}

/* A copy of the size that is known here, if it makes sense. */
static int check(const struct spn_client *client, const spn_invocation *given,
                 spn_invocation *what)
{
    memset(what, 0, sizeof *what);
    if (client == NULL || given == NULL ||
        spn__options_copy(what, sizeof *what, given) != SPN_OK ||
        what->interface == NULL || *what->interface == '\0' || what->method == NULL ||
        *what->method == '\0' || what->timeout_ns < 0)
        return SPN_EINVAL;
    if (what->argument_count > 0 && what->arguments == NULL)
        return SPN_EINVAL;
    if (what->attachments != NULL && spn_hvalue_kind(what->attachments) != SPN_HMAP)
        return SPN_EINVAL;
    if (count_parameters(what->parameters) != (int64_t)what->argument_count)
        return SPN_EINVAL;
    return SPN_OK;
}

/* ---- making -------------------------------------------------------------------------------- */

enum kind { WAITS, HAS_FUTURE, ONE_WAY };

/* A call with one reference, the caller's, that nobody knows of yet. */
static int make(struct spn_client *client, int64_t id, enum kind kind,
                int64_t timeout_ns, struct spn__call **out)
{
    spn_future_opts opts = SPN_FUTURE_OPTS_INIT;
    struct spn__call *call = spn__block_get(sizeof *call);
    int rc = SPN_OK;

    *out = NULL;
    if (call == NULL)
        return SPN_ENOMEM;
    memset(call, 0, sizeof *call);
    call->id = id;
    call->client = client;
    call->one_way = kind == ONE_WAY;
    call->started_ns = spn__now();
    call->timeout_ns = timeout_ns;
    spn__init(&call->refs, 1);
    spn__init(&call->parts, 0); /* not counted in */
    spn__init(&call->position, 0);
    opts.drop_value = drop_reply;
    opts.done = on_done;
    opts.done_arg = call;
    if (kind != ONE_WAY)
        rc = spn_future_create(&call->future, &opts);
    if (rc == SPN_OK && kind == WAITS) {
        rc = spn_threadless_create(&call->threadless, client->dispatch.executor);
        if (rc == SPN_OK)
            rc = spn_threadless_set_future(call->threadless, call->future);
    }
    if (rc != SPN_OK) {
        if (call->future != NULL) {
            spn__call_ref(call); /* for the hook */
            (void)spn_future_complete_error(call->future, rc, NULL);
        }
        spn__call_unref(call);
        return rc;
    }
    if (kind != ONE_WAY)
        spn__call_ref(call); /* the hook's */
    *out = call;
    return SPN_OK;
}

/* Counts a call in; false: the client is being closed. */
static bool count_in(struct spn_client *client)
{
    /* [closing] before the look.  mutant: half of a pair */
    (void)spn__fetch_add(&client->pending, 1, seq_cst);
    /* [closing] mutant: half of a pair; to the explorer the addition is a fence, too */
    if (spn__load(&client->closing, seq_cst) == 0)
        return true;
    ended(client);
    return false;
}

/* Lists a call and sees to its end in time. */
static int list(struct spn_client *client, struct spn__call *call)
{
    int rc;

    if (!count_in(client)) {
        (void)spn_future_complete_error(call->future, SPN_ESHUTDOWN, NULL);
        return SPN_ESHUTDOWN;
    }
    (void)spn__fetch_add(&client->calls, 1, relaxed); /* only a number */
    spn__store(&call->parts, 2, relaxed); /* [parts] nobody knows of it yet */
    spn__table_add(&client->table, call);
    spn__call_ref(call); /* the timeout's */
    rc =
        spn_timer_schedule(client->timer, &call->timeout, on_timeout, call->timeout_ns);
    if (rc == SPN_ESTATE)
        rc = SPN_ESHUTDOWN; /* close has ended the call, and stopped the timer */
    if (rc != SPN_OK) {
        spn__call_unref(call);
        spn__call_fail_if_listed(call, SPN__END_CANCELLED, rc,
                                 "no timeout could be set");
    }
    return rc;
}

/* Makes a call and sends it; *out is a reference of the caller's. */
static int begin(struct spn_client *client, const spn_invocation *given, enum kind kind,
                 struct spn__call **out)
{
    spn_invocation copy;
    const spn_invocation *const what = &copy;
    unsigned char room[FRAME_ON_STACK];
    struct spn__hwriter writer;
    int64_t id, timeout_ns;
    uint32_t link;
    size_t size;
    int rc = check(client, given, &copy);

    *out = NULL;
    if (rc != SPN_OK)
        return rc;
    if (kind == ONE_WAY && !count_in(client)) /* until it is sent */
        return SPN_ESHUTDOWN;
    /* relaxed, both: only numbers, different ones for each. */
    id = spn__fetch_add(&client->next_id, 1, relaxed);
    link =
        spn__fetch_add(&client->next_link, 1, relaxed) % (uint32_t)client->link_count;
    timeout_ns = what->timeout_ns > 0 ? what->timeout_ns : client->timeout_ns;
    if (timeout_ns > LONGEST)
        timeout_ns = LONGEST;
    spn__hwriter_init(&writer, room, sizeof room,
                      (size_t)client->endpoint.payload + SPN__FRAME_BYTES);
    rc = encode(&writer, what, id, kind == ONE_WAY, timeout_ns);
    if (rc == SPN_OK)
        rc = make(client, id, kind, timeout_ns, out);
    if (rc == SPN_OK && kind != ONE_WAY)
        rc = list(client, *out);
    if (rc == SPN_OK) {
        const unsigned char *frame = spn__hwriter_bytes(&writer, &size);

        rc = spn__link_send(&client->links[link], *out, frame, size);
        if (rc != SPN_OK && kind != ONE_WAY)
            spn__call_fail_if_listed(*out, SPN__END_LOST, rc,
                                     "the request could not be sent");
    }
    spn__hwriter_fini(&writer);
    if (rc != SPN_OK && *out != NULL) {
        spn__call_unref(*out);
        *out = NULL;
    }
    if (kind == ONE_WAY) {
        if (rc == SPN_OK)
            (void)spn__fetch_add(&client->one_way, 1, relaxed); /* only a number */
        ended(client);
    }
    return rc;
}

/* ---- the public half ------------------------------------------------------------------------ */

/* How long a thread still waits: until its timeout is over, and what a timer may be
 * behind; never for ever, and never twice. */
static int64_t patience(const struct spn__call *call)
{
    const int64_t end_ns =
        spn__time_add(spn__time_add(call->started_ns, call->timeout_ns), GRACE);
    const int64_t left = end_ns - spn__now();

    return left > 0 ? left : 0;
}

/* The outcome of a call whose wait is over. */
static int outcome(struct spn__call *call, spn_reply **out, spn_problem *problem)
{
    spn_outcome ended;
    void *value;
    int rc = spn_future_get(call->future, &value, patience(call));

    if (rc == SPN_OK) {
        *out = value;
        rc = spn_reply_check(*out);
        if (rc != SPN_OK)
            (void)spn__refuse(problem, rc, 0, "%s",
                              spn_reply_message(*out) != NULL ? spn_reply_message(*out)
                                                              : spn_status_text(rc));
        return rc;
    }
    if (rc == SPN_EFAILED && spn_future_result(call->future, &ended) == rc)
        return spn__refuse(problem, ended.code, 0, "%s",
                           ended.message[0] != '\0' ? ended.message
                                                    : spn_status_text(ended.code));
    (void)spn_future_cancel(call->future, 0);
    return spn__refuse(problem, rc, 0, "%s", spn_status_text(rc));
}

int spn_client_call(spn_client *client, const spn_invocation *invocation,
                    spn_reply **out, spn_problem *problem)
{
    struct spn__call *call;
    int rc;

    if (out == NULL)
        return spn__refuse(problem, SPN_EINVAL, 0, "there is no place for the reply");
    *out = NULL;
    rc = begin(client, invocation, WAITS, &call);
    if (rc != SPN_OK)
        return spn__refuse(problem, rc, 0, "%s", spn_status_text(rc));
    rc = spn_threadless_wait_and_drain(call->threadless, patience(call));
    if (rc == SPN_EINTR || rc == SPN_ENOMEM) {
        (void)spn_future_cancel(call->future, 0);
        (void)spn__refuse(problem, rc, 0, "%s", spn_status_text(rc));
    } else {
        rc = outcome(call, out, problem);
    }
    spn__call_unref(call);
    return rc;
}

int spn_client_submit(spn_client *client, const spn_invocation *invocation,
                      spn_future **out)
{
    struct spn__call *call;
    int rc;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    rc = begin(client, invocation, HAS_FUTURE, &call);
    if (rc != SPN_OK)
        return rc;
    *out = spn_future_ref(call->future);
    spn__call_unref(call);
    return SPN_OK;
}

int spn_client_send(spn_client *client, const spn_invocation *invocation)
{
    struct spn__call *call;
    const int rc = begin(client, invocation, ONE_WAY, &call);

    if (rc == SPN_OK)
        spn__call_unref(call);
    return rc;
}
