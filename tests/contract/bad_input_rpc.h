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

static inline void rpc_open(void)
{
}

static inline void rpc_close(void)
{
}

/* What the generated tests call. */
#define open_fixture()  (open_fixture(), rpc_open())
#define close_fixture() (rpc_close(), close_fixture())

#endif /* BAD_INPUT_RPC_H */
