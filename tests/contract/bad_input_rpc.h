/* SPDX-License-Identifier: MIT */
/*
 * bad_input_rpc.h - bad_input.h and, on top, one object of each kind of
 * libspindle-rpc.  A new object goes into the struct, rpc_open and rpc_close; new
 * options get a GROWN line.
 */
#ifndef BAD_INPUT_RPC_H
#define BAD_INPUT_RPC_H

/* The rows of libspindle use more of it. */
#pragma GCC diagnostic ignored "-Wunused-function"
#include "bad_input.h"

#include <spindle-rpc.h>

#include "bad_endpoint.h"
#include "bad_hessian.h"
#include "bad_rpc.h"

GROWN(spn_client_opts, SPN_CLIENT_OPTS_INIT)
GROWN(spn_client_stats, SPN_CLIENT_STATS_INIT)
GROWN(spn_codec, CODEC_INIT)
GROWN(spn_endpoint_opts, SPN_ENDPOINT_OPTS_INIT)
GROWN(spn_endpoint_stats, SPN_ENDPOINT_STATS_INIT)
GROWN(spn_harena_opts, SPN_HARENA_OPTS_INIT)
GROWN(spn_invocation, BAD_INVOCATION_INIT)
GROWN(spn_server_opts, SPN_SERVER_OPTS_INIT)
GROWN(spn_server_stats, SPN_SERVER_STATS_INIT)
GROWN(spn_service, BAD_SERVICE_INIT)

static inline void rpc_open(void)
{
    hes_open();
    rpc_server_open();
    ep_open();
}

static inline void rpc_close(void)
{
    ep_close();
    rpc_server_close();
    hes_close();
}

/* What the generated tests call. */
#define open_fixture()  (open_fixture(), rpc_open())
#define close_fixture() (rpc_close(), close_fixture())

#endif /* BAD_INPUT_RPC_H */
