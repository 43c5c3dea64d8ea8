/* SPDX-License-Identifier: MIT */
#ifndef SPN_SERVICE_H
#define SPN_SERVICE_H

#include <spindle/cancel.h>
#include <spindle/hessian.h>
#include <spindle/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Services in C: methods that clients of Dubbo call.
 *
 *     static int say_hello(void *arg, spn_request *request)
 *     {
 *         const char *name;
 *         int rc = spn_request_text(request, 0, &name);
 *
 *         return rc != 0 ? rc : spn_request_return_text(request, name);
 *     }
 *
 *     static const spn_method methods[] = {
 *         { "sayHello", "Ljava/lang/String;", say_hello, NULL },
 *     };
 *     static const spn_service service = {
 *         .size = sizeof(spn_service), .interface = "demo.Hello", .version = "1.0.0",
 *         .methods = methods, .method_count = 1,
 *     };
 *
 * Threads     a method runs on the thread that the server's dispatcher chose, several
 *             requests at once.  A request is used by one thread at a time.
 */
typedef struct spn_request spn_request;

/*
 * A method.  0: the reply is what was returned, null if nothing was.  Another number: the
 * reply has status 70 and says so, unless a reply was decided on with throw or answer.
 * The request is gone when the method returns, unless it was deferred.  A method that ends
 * its thread (pthread_exit) in a pool is answered for with status 80, unless it decided on a
 * reply or deferred the request before; a thread that does I/O must not be ended.
 */
typedef int (*spn_method_fn)(void *arg, spn_request *request);

typedef struct spn_method {
    const char *name; /* several may have one name and other parameters; "*": any
                               name that no other method has                            */
    const char
        *parameters; /* as the JVM writes them: "ILjava/lang/String;[B"; "": none;
                               NULL: whatever comes                                     */
    spn_method_fn fn;
    void *arg;
} spn_method;

/* What is exported; borrowed until it is unexported.  Append only. */
typedef struct spn_service {
    size_t size; /* sizeof(spn_service)                                            */
    const char *interface;
    const char *version; /* NULL, "" and "0.0.0": none                              */
    const char *group;   /* NULL and "": none                                       */
    const spn_method *methods;
    size_t method_count;
} spn_service;

/* ---- what was asked ------------------------------------------------------ */

/*
 * What is called, with which parameters; who asks ("10.0.0.1:40000").  Texts live as long
 * as the request.  NULL for NULL.
 * Since    0.1
 */
SPN_API const char *spn_request_method(const spn_request *request);
SPN_API const char *spn_request_parameters(const spn_request *request);
SPN_API const char *spn_request_remote(const spn_request *request);

/* How long the client still waits: SPN_FOREVER if it does not say, 0 if its time is up.
 * Since 0.1 */
SPN_API int64_t spn_request_remaining_ns(const spn_request *request);

/*
 * A token that is cancelled when nobody waits for the reply any more: with SPN_ECLOSED when
 * the connection ends or the client ends its sending side, with SPN_ESHUTDOWN when
 * spn_server_stop has waited up to its deadline.  A method that takes long asks it now and
 * then, or waits on it in place of sleeping.  One that goes on is not disturbed, and its
 * reply is sent if there is still a connection.
 * Borrowed: valid as long as the request; take a reference to keep it.  Callbacks run on an
 * I/O thread, or on the one that stops the server, so they must not block; deregister them
 * before the request ends.  The first call makes the token, a request without one costs
 * nothing.  With the dispatcher `direct` the method is on the I/O thread that would see the
 * end, so only stop cancels.
 * A client that ended its sending side and waits for replies (nc -N) looks the same as one
 * that has gone: a method that is called by such clients should not ask.
 * NULL: no memory, or a NULL.  Since 0.1
 */
SPN_API spn_cancel_token *spn_request_cancel_token(spn_request *request);

/* What came along: a text, or a number in decimal; NULL: no such attachment.
 * attachments: all of them, a map; NULL: none, or no memory.  Since 0.1 */
SPN_API const char *spn_request_attachment(spn_request *request, const char *key);
SPN_API const spn_hvalue *spn_request_attachments(spn_request *request);

/*
 * The arguments.  Numbers take each other's values, a text or span may be null (NULL).
 * spn_request_value is for all others: spn_hvalue_as_bool and its family read what it gives.
 * What is wrong is kept with the request, so that a method may return the status as it
 * is: the reply has status 70 and names argument, method, and what came instead.
 *
 * Returns  SPN_OK; SPN_EINVAL: another kind, a NULL; SPN_ERANGE: the number does not fit;
 *          SPN_EEMPTY: there are not so many arguments; SPN_ENOMEM.
 * Since    0.1
 */
SPN_API size_t spn_request_count(const spn_request *request);
SPN_API SPN_NODISCARD
int spn_request_value(spn_request *request, size_t index, const spn_hvalue **value);
SPN_API SPN_NODISCARD
int spn_request_int(spn_request *request, size_t index, int32_t *number);
SPN_API SPN_NODISCARD
int spn_request_long(spn_request *request, size_t index, int64_t *number);
SPN_API SPN_NODISCARD
int spn_request_text(spn_request *request, size_t index, const char **text);
SPN_API SPN_NODISCARD
int spn_request_string(spn_request *request, size_t index, spn_hspan *text);
SPN_API SPN_NODISCARD
int spn_request_struct(spn_request *request, size_t index, const spn_hstruct *type,
                       void *to);

/* Memory for values of the reply, and for whatever else lives as long as the request.
 * NULL: no memory, or a NULL.  Since 0.1 */
SPN_API spn_harena *spn_request_arena(spn_request *request);

/* ---- what is answered ------------------------------------------------------ */

/*
 * Decides what the reply is; the last one counts.  Nothing is sent before the method
 * returns, or the deferred request is finished.
 *
 * return_...:  a value, copied or written at once; a NULL is Java's null.  return_value is
 *              for all kinds that have no function of their own.
 * throw:       a Java exception of that class, for the caller to catch.
 * answer:      a status of Dubbo's other than 20, and a text: 70 for a service that
 *              failed, 100 for one that has no room.
 * attach:      an attachment of the reply, for clients that take some.  At most 16.
 *
 * Returns  SPN_OK; SPN_EINVAL: a NULL, not UTF-8, a status that is none (0 to 255, not
 *          20); SPN_ERANGE: larger than `payload` allows; SPN_ENOMEM.
 * Since    0.1
 */
SPN_API int spn_request_return_int(spn_request *request, int32_t number);
SPN_API int spn_request_return_long(spn_request *request, int64_t number);
SPN_API int spn_request_return_text(spn_request *request, const char *text);
SPN_API int spn_request_return_string(spn_request *request, const char *data,
                                      size_t length);
SPN_API int spn_request_return_value(spn_request *request, const spn_hvalue *value);
SPN_API int spn_request_return_struct(spn_request *request, const spn_hstruct *type,
                                      const void *from);
SPN_API int spn_request_throw(spn_request *request, const char *class_name,
                              const char *message);
SPN_API int spn_request_answer(spn_request *request, int status, const char *text);
SPN_API int spn_request_attach(spn_request *request, const char *key,
                               const char *value);

/* ---- and when ---------------------------------------------------------------- */

/*
 * defer:   keeps the request beyond the method, which then returns 0; whoever finishes it
 *          may do so at once, on any thread; the reply goes out when the method has
 *          returned, too.
 * finish:  sends the reply of a deferred request, as if its method returned `status` now,
 *          and gives the request up.  Exactly once.
 * drop:    the method, or finish, will send no reply at all.  Counted.
 * split:   a test of clients: this reply, and no other, is written in pieces of at most so
 *          many bytes, each by a call of its own.  0, and more than 16777215: whole.
 *
 * Returns  defer, drop, split: SPN_OK; SPN_EINVAL (NULL); defer: SPN_ESTATE: it is deferred.
 *          finish: SPN_OK: the reply is on its way, or nobody wants one; SPN_ECLOSED: the
 *          connection is gone; SPN_EFULL: too much waits to be written there; SPN_ESTATE:
 *          not deferred, and it is kept; SPN_EINVAL (NULL).
 * Orders   what precedes finish happens-before what the thread does that frees the request.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_request_defer(spn_request *request);
SPN_API int spn_request_finish(spn_request *request, int status);
SPN_API int spn_request_drop(spn_request *request);
SPN_API int spn_request_split(spn_request *request, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif /* SPN_SERVICE_H */
