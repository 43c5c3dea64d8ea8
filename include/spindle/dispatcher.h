/* SPDX-License-Identifier: MIT */
#ifndef SPN_DISPATCHER_H
#define SPN_DISPATCHER_H

#include <spindle/executor.h>
#include <spindle/extension.h>
#include <spindle/problem.h>
#include <spindle/url.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Which thread handles what happens on a connection.  A dispatcher names a place for
 * each event; the URL key `dispatcher` (or `dispather`, `channel.handler`) chooses one:
 *
 *                  all        message    execution  connection  direct
 * connected        pool       io         io         ordered     io
 * disconnected     pool       io         io         ordered     io
 * request          preferred  preferred  preferred  preferred   io
 * response         preferred  preferred  io         preferred   io
 * sent             io         io         io         io          io
 * caught           pool       io         io         pool        io
 *
 * Heartbeats never get here: the I/O thread answers them whatever the pool does.
 */
typedef enum spn_channel_event {
    SPN_CHANNEL_CONNECTED = 0,    /* a connection stands                              */
    SPN_CHANNEL_DISCONNECTED = 1, /* it is gone                                       */
    SPN_CHANNEL_REQUEST = 2,  /* a request came; also an event that is no heartbeat */
    SPN_CHANNEL_RESPONSE = 3, /* a response came                                  */
    SPN_CHANNEL_SENT = 4,     /* a message was handed to the connection           */
    SPN_CHANNEL_CAUGHT = 5,   /* something went wrong with it                     */
    SPN_CHANNEL_EVENTS = 6
} spn_channel_event;

typedef enum spn_place {
    SPN_PLACE_IO = 0,   /* the connection's I/O thread, at once.  Must not block  */
    SPN_PLACE_POOL = 1, /* the pool of the URL; when that is shut down, the executor
                                all share                                             */
    SPN_PLACE_PREFERRED =
        2,                 /* the executor that waits for this response, else the pool;
                                with SPN_PLACE_IO a response still goes to a thread that
                                lent itself (threadless)                              */
    SPN_PLACE_ORDERED = 3, /* one thread of this dispatcher's own, in order          */
    SPN_PLACE_OWN = 4,     /* what `executor` of the dispatcher gives                */
    SPN_PLACES = 5
} spn_place;

/* "connected", "request", ...; "io", "pool", ...; "unknown" for another number.
 * Since 0.1 */
SPN_API const char *spn_channel_event_name(int event);
SPN_API const char *spn_place_name(int place);

/* SPN_KIND_DISPATCHER: asked once for each event when a server or client is made. */
typedef struct spn_dispatcher spn_dispatcher;
struct spn_dispatcher {
    size_t size; /* sizeof(spn_dispatcher) */
    spn_place (*place)(const spn_dispatcher *self, spn_channel_event event);
    /* Required where place says SPN_PLACE_OWN: an executor that lives until the server or
     * client is destroyed.  NULL as a result: the event is handled by the pool. */
    spn_executor *(*executor)(const spn_dispatcher *self, spn_channel_event event,
                              const spn_url *url);
};

/*
 * Registers the five dispatchers with a registry, once however often it is called.
 * Servers and clients do so themselves; a program that wants to list or replace them
 * before it has any calls this.
 * Returns  SPN_OK; SPN_EINVAL (NULL); SPN_ENOMEM.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_dispatchers_register(spn_extensions *extensions, spn_problem *problem);

#ifdef __cplusplus
}
#endif
#endif /* SPN_DISPATCHER_H */
