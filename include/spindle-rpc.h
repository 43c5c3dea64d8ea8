/* SPDX-License-Identifier: MIT */
#ifndef SPINDLE_RPC_H
#define SPINDLE_RPC_H

#include <spindle.h>

#include <spindle/rpc.h>

#endif /* SPINDLE_RPC_H */
