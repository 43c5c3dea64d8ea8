/* SPDX-License-Identifier: MIT */
/* serving.h - the inside of a server; see server.c. */
#ifndef SPN__SERVING_H
#define SPN__SERVING_H

#include <spindle/server.h>

#include "net/transport.h"
#include "channel/dispatch.h"
#include "endpoint/stream.h"
#include "rpc/server/services.h"
#include "sync/lock.h"

enum spn__server_state {
    SPN__SERVER_NEW,
    SPN__SERVER_STARTING,
    SPN__SERVER_RUNNING,
    SPN__SERVER_STOPPING,
    SPN__SERVER_STOPPED
};

struct spn_server {
    struct spn__endpoint endpoint; /* first: handlers find the server by it */
    spn_handler decode, exchange;  /* inside of the dispatch, in that order */
    spn_dispatch dispatch;
    struct spn__services services;
    spn_histogram *latency;
    uint32_t latency_every; /* fixed, as all up to `lock` */
    bool run_expired, send_read_only;
    int32_t io_threads;
    spn_channel_event_fn event;
    void *ctx;
    spn_extensions *own_extensions, *extensions;
    spn_repository *own_repository, *repository;
    spn_timer *timer;
    struct spn__transport *transport; /* made by start, or given */
    bool owns_transport;
    int bound; /* a socket that has the port until it is listened on; -1: none */
    SPN__ATOMIC(int32_t) process; /* that has the threads; 0: there are none */
    struct spn__lock lock;        /* guards what follows; a leaf */
    enum spn__server_state state;
    bool is_being_stopped; /* a thread is inside stop */
    spn_url *url;
    struct spn__listener *listener;
    SPN__ATOMIC(int) port;              /* 0: none yet */
    SPN__ATOMIC(int32_t) accepts_unset; /* what holds without `accepts`; 0: no limit */
};

static inline struct spn_server *spn__server_of(struct spn__endpoint *endpoint)
{
    return (struct spn_server *)(void *)endpoint;
}

/* exchange.c: the innermost handler of a server. */
extern const spn_handler_ops spn__serve_ops;

/* As spn_server_create, on a transport that is the caller's: for the explorer. */
int spn__server_create_on(spn_server **out, const char *url,
                          const spn_server_opts *opts, struct spn__transport *transport,
                          spn_problem *problem);

#endif /* SPN__SERVING_H */
