/* SPDX-License-Identifier: MIT */
#ifndef SPN_RPC_H
#define SPN_RPC_H

#include <stddef.h>
#include <stdint.h>

#include <spindle/dispatcher.h>
#include <spindle/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * libspindle-rpc: remote calls over TCP, on top of libspindle.
 *
 * A library of its own, because it needs libuv and libspindle does not:
 * -lspindle-rpc -lspindle, spindle-rpc in pkg-config, spindle::rpc in CMake.  The
 * two are of the same version always, which spn_version tells, and the dynamic linker
 * refuses a pair that is not; <spindle-rpc.h> includes both.
 */

/* ---- what servers and clients tell of their connections -------------------------------- */

/* What is known of a connection; valid during the call. */
typedef struct spn_channel_info {
    size_t size;        /* set by the library                                     */
    const char *remote; /* "10.0.0.1:40000"                                       */
    const char *local;
    int64_t age_ns;     /* since it was accepted                                */
    int64_t idle_ns;    /* since something was read or written                  */
    uint64_t requests;  /* that came                                            */
    uint64_t in_flight; /* of these not finished                                */
    size_t unwritten;   /* bytes that wait for the client to read               */
    uint32_t is_open;   /* 0: closed, but a method still runs                   */
    int32_t error;      /* caught, disconnected: a status, 0: none              */
} spn_channel_info;

/* Told of connected, disconnected, sent and caught on the thread the dispatcher names; a client
 * of all but sent.  sent: something was written; one covers all replies that left in the same
 * write. */
typedef void (*spn_channel_event_fn)(void *ctx, spn_channel_event event,
                                     const spn_channel_info *channel);

#ifdef __cplusplus
}
#endif
#endif /* SPN_RPC_H */
