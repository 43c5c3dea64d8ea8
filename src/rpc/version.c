/* SPDX-License-Identifier: MIT */
/* version.c - the version libspindle-rpc was built as; libspindle has its own. */
#include <spindle/rpc.h>
#include <spindle/version.h>

int spn_rpc_version(void)
{
    return SPN_VERSION;
}

const char *spn_rpc_version_string(void)
{
    return SPN_VERSION_STRING;
}
