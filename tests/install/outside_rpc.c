/* SPDX-License-Identifier: MIT */
/* outside_rpc.c - a program of somebody else's that uses both libraries. */
#include <spindle-rpc.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
    if (spn_rpc_version() != SPN_VERSION || spn_version() != SPN_VERSION ||
        strcmp(spn_rpc_version_string(), spn_version_string()) != 0) {
        fprintf(stderr, "headers %s, libraries %s and %s\n", SPN_VERSION_STRING,
                spn_version_string(), spn_rpc_version_string());
        return 1;
    }
    printf("spindle %s\n", spn_rpc_version_string());
    return 0;
}
