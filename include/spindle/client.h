/* SPDX-License-Identifier: MIT */
#ifndef SPN_CLIENT_H
#define SPN_CLIENT_H

#include <spindle/extension.h>
#include <spindle/future.h>
#include <spindle/hessian.h>
#include <spindle/problem.h>
#include <spindle/repository.h>
#include <spindle/rpc.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A client of Dubbo servers, written in whatever language.
 *
 *     spn_client *client;
 *     spn_reply *reply;
 *     spn_invocation hello = SPN_INVOCATION_INIT("demo.Hello", "sayHello");
 *     spn_hvalue *name = spn_harena_text(arena, "bob");
 *
 *     rc = spn_client_create(&client, "dubbo://10.0.0.1:20880?timeout=3000", NULL, NULL);
 *     hello.parameters = "Ljava/lang/String;";
 *     hello.arguments = &name;
 *     hello.argument_count = 1;
 *     rc = spn_client_call(client, &hello, &reply, NULL);
 *
 * The URL:
 * host, port             the server
 * timeout                ms a call may take                                        1000
 * connect.timeout        ms a connection may take to stand                         3000
 * connections            how many are kept and used by turns                          1
 * reconnect              false: a lost connection is made anew by the next call only;
 *                        else also in the background, at first after 100 ms, then after
 *                        twice as long each time, up to 10 s                       true
 * check                  false: create does not mind that the server cannot be reached
 *                                                                                   true
 * lazy                   true: the first call connects, create does not           false
 * payload                bytes of a reply's body at most                        8388608
 * heartbeat              ms of silence after which the server is asked            60000
 * heartbeat.timeout      ms of silence after which the connection is given up
 *                                                                        heartbeat * 3
 * dispatcher             which thread handles what comes                            all
 * threadpool, threads... the pool for that                       cached, for `consumer`
 *
 * Threads     every call but destroy is safe from any thread: one client is enough for
 *             all of a program.
 * A call that waits lends its thread: the reply is decoded there, and no pool is used.
 * A call that does not wait has a future.  A stage that was attached without an executor
 *             runs on the thread that ends the call, and must not block there: where the
 *             dispatcher says for a reply, the timer's for a timeout, the I/O thread for a
 *             lost connection.  A reply that the pool has no room for is handled by the
 *             executor its repository shares, and where that refuses too by the I/O
 *             thread: none is lost.
 * Every call ends exactly once: with a reply, in time or not at all; when its
 *             connection is lost, all its calls end at once with SPN_ECLOSED, but those
 *             whose reply has come before, and waits for a thread.  Nothing is
 *             sent twice: whether to try again only its caller can know.
 * Events      `event` of the options is told of connected, disconnected (each connection once)
 *             and caught, on the thread that the dispatcher names.
 * Lifecycle   create -> call, submit, send... -> close -> destroy
 */
typedef struct spn_client spn_client;
typedef struct spn_reply spn_reply;

/* Zero means default.  Append only. */
typedef struct spn_client_opts {
    size_t size;                /* sizeof(spn_client_opts), set by _INIT              */
    spn_extensions *extensions; /* in use until destroy; NULL: what is built in       */
    spn_repository *repository; /* where its pool is, in use until destroy; NULL: one of
                                   its own                                            */
    size_t max_unwritten; /* bytes that wait for a server to read; more is refused.
                             0: 16 MiB                                                */
    spn_channel_event_fn event; /* told of connections; NULL: not told               */
    void *ctx;                  /* its argument                                       */
} spn_client_opts;

#define SPN_CLIENT_OPTS_INIT                               \
    {                                                      \
        sizeof(spn_client_opts), NULL, NULL, 0, NULL, NULL \
    }

/*
 * create:   makes a client of a URL, and a connection; blocks for that, up to
 *           connect.timeout.  *out is NULL on failure.  opts may be NULL.
 * close:    no new calls; those that wait for a reply may have it, up to timeout_ns, then
 *           they fail with SPN_ESHUTDOWN; connections are closed and a pool of its own
 *           ended.  Blocks.  Not from a stage of a future of its own (SPN_EDEADLK).
 * destroy:  frees it after close; NULL is a no-op.
 *
 * Returns  create: SPN_OK; SPN_EINVAL, SPN_ERANGE: a value is wrong, *problem (may be NULL)
 *          says of which key; SPN_EUNREACHABLE, SPN_ETIMEDOUT: there is no connection, and
 *          check is not false; SPN_EEMPTY: no such dispatcher or thread pool; SPN_ENOMEM;
 *          SPN_EAGAIN (no thread, no descriptor, no port of our own); SPN_EINTR: while it
 *          waited for the connection, and there is no client.
 *          close: SPN_OK; SPN_ETIMEDOUT: calls were cut off, or something still runs: call
 *          again before destroy; SPN_EBUSY: another thread closes it; SPN_EDEADLK;
 *          SPN_ESTATE at once in the child of a fork, if the parent made it; SPN_EINVAL
 *          (NULL).
 *          destroy: SPN_OK; SPN_EBUSY and changes nothing before close, or while a reply
 *          is on its way.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_client_create(spn_client **out, const char *url, const spn_client_opts *opts,
                      spn_problem *problem);
SPN_API SPN_NODISCARD
int spn_client_close(spn_client *client, int64_t timeout_ns);
SPN_API int spn_client_destroy(spn_client *client);

/* ---- calling -------------------------------------------------------------------- */

/* What is called.  All of it is the caller's, and not used after the call that takes it
 * has returned.  Append only. */
typedef struct spn_invocation {
    size_t size; /* sizeof(spn_invocation), set by _INIT                          */
    const char *interface;
    const char *version; /* NULL: none                                            */
    const char *group;   /* NULL: none                                            */
    const char *method;
    const char
        *parameters; /* as the JVM writes them: "ILjava/lang/String;"; NULL: none */
    spn_hvalue *const *arguments; /* one for each parameter                       */
    size_t argument_count;
    const spn_hvalue *attachments; /* a map with strings as keys; NULL: none      */
    int64_t timeout_ns;            /* 0: what the URL says                        */
} spn_invocation;

#define SPN_INVOCATION_INIT(interface_name, method_name)                           \
    {                                                                              \
        sizeof(spn_invocation), (interface_name), NULL, NULL, (method_name), NULL, \
            NULL, 0, NULL, 0                                                       \
    }

/*
 * call:    sends it and waits for the reply, at most for its timeout; interruptible.
 * submit:  sends it; the future has the reply as its value if call would have returned
 *          SPN_OK.  Otherwise the future fails with the code that call would have
 *          returned, also where a reply came, and spn_future_result has the text: an
 *          exception as "class: message", else the server's message.  The text is cut to
 *          SPN_FUTURE_MESSAGE_MAX bytes; call gives the whole exception.  Cancelling the
 *          future gives the reply up.  What is read from it is the reader's, to give back
 *          with spn_reply_destroy.  Does not block, but for the look-up of a name when a
 *          connection must be made.
 * send:    sends it and wants no reply; SPN_OK: it is on its way.
 *
 * Returns  SPN_OK; with a reply in *out too, which is otherwise NULL: SPN_EREMOTE (the
 *          method threw an exception, or the server answered with an error), SPN_EREJECTED
 *          (it has no room), SPN_ETIMEDOUT (it gave up).  SPN_ETIMEDOUT: no reply in time,
 *          and *problem (may be NULL) says whether the request was ever sent;
 *          SPN_ECLOSED: the connection was lost; SPN_EUNREACHABLE: there is none and
 *          none could be made, SPN_EAGAIN: for want of a descriptor or a port of our own;
 *          SPN_EFULL: too much waits to be sent; SPN_ESHUTDOWN: after
 *          close; SPN_EPROTO: the reply makes no sense; SPN_EINTR; SPN_ERANGE: larger than
 *          the payload allows; SPN_EINVAL: a NULL, no name, other arguments than
 *          parameters, not UTF-8; SPN_ENOMEM.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_client_call(spn_client *client, const spn_invocation *invocation,
                    spn_reply **out, spn_problem *problem);
SPN_API SPN_NODISCARD
int spn_client_submit(spn_client *client, const spn_invocation *invocation,
                      spn_future **out);
SPN_API SPN_NODISCARD
int spn_client_send(spn_client *client, const spn_invocation *invocation);

/* ---- replies ---------------------------------------------------------------------- */

/*
 * check:       what call would have returned for it: SPN_OK, SPN_EREMOTE, SPN_EREJECTED,
 *              SPN_ETIMEDOUT; SPN_EINVAL for NULL.
 * status:      Dubbo's: 20 is a result or an exception; 0 for NULL.
 * value:       the result, null too; NULL if there is none.  Lives as long as the reply.
 * exception:   the exception; NULL if there is none.
 * message:     of an exception its detailMessage, of another status its text; NULL: none.
 * attachments: a map; NULL: none.
 * destroy:     frees all of it; NULL is a no-op.
 * Since    0.1
 */
SPN_API int spn_reply_check(const spn_reply *reply);
SPN_API int spn_reply_status(const spn_reply *reply);
SPN_API const spn_hvalue *spn_reply_value(const spn_reply *reply);
SPN_API const spn_hvalue *spn_reply_exception(const spn_reply *reply);
SPN_API const char *spn_reply_message(const spn_reply *reply);
SPN_API const spn_hvalue *spn_reply_attachments(const spn_reply *reply);
SPN_API void spn_reply_destroy(spn_reply *reply);

/* ---- what goes on --------------------------------------------------------------------- */

/* Set size before (SPN_CLIENT_STATS_INIT).  Counts are since create. */
typedef struct spn_client_stats {
    size_t size;
    uint64_t connections; /* that stand now                                     */
    uint64_t connects;    /* that stood, in all                                 */
    uint64_t failures;    /* that never did                                     */
    uint64_t calls;       /* that were taken; with the one below, what ended, is: */
    uint64_t pending;     /* calls without an end                               */
    uint64_t replies;     /* ended by a reply, of any status                    */
    uint64_t timeouts;    /* ended without one in time                          */
    uint64_t lost;      /* ended by the loss of their connection, or for want of one */
    uint64_t cancelled; /* ended by their callers, or by close                */
    uint64_t one_way;   /* sent without a wish for a reply                    */
    uint64_t late;      /* replies that nobody waited for any more            */
    uint64_t bad;       /* frames and bodies that make no sense               */
    uint64_t bytes_in;
    uint64_t bytes_out;
    uint32_t read_only; /* connections whose server wants no more requests      */
    uint32_t reserved;
} spn_client_stats;

#define SPN_CLIENT_STATS_INIT            \
    {                                    \
        .size = sizeof(spn_client_stats) \
    }

/* Fills in *stats.  calls = pending + replies + timeouts + lost + cancelled, exactly when
 * nothing is under way.  SPN_OK; SPN_EINVAL (a NULL, a wrong size).  Since 0.1 */
SPN_API int spn_client_stats_get(spn_client *client, spn_client_stats *stats);

#ifdef __cplusplus
}
#endif
#endif /* SPN_CLIENT_H */
