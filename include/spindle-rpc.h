/* SPDX-License-Identifier: MIT */
#ifndef SPINDLE_RPC_H
#define SPINDLE_RPC_H

#include <spindle.h>

#include <spindle/client.h>
#include <spindle/endpoint.h>
#include <spindle/hessian.h>
#include <spindle/rpc.h>
#include <spindle/server.h>
#include <spindle/service.h>

#endif /* SPINDLE_RPC_H */
