/* SPDX-License-Identifier: MIT */
#ifndef SPN_RPC_H
#define SPN_RPC_H

#include <spindle/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * libspindle-rpc: remote calls over TCP, on top of libspindle.
 *
 * A library of its own, because it needs libuv and libspindle does not:
 * -lspindle-rpc -lspindle, spindle-rpc in pkg-config, spindle::rpc in CMake.  The
 * two are of the same version always; <spindle-rpc.h> includes both.
 */

/*
 * The version of libspindle-rpc that is running, as SPN_VERSION and
 * SPN_VERSION_STRING have it (<spindle/version.h>).  Never blocks; the string is
 * static.
 * Since    0.1
 */
SPN_API int spn_rpc_version(void);
SPN_API const char *spn_rpc_version_string(void);

#ifdef __cplusplus
}
#endif
#endif /* SPN_RPC_H */
