/* SPDX-License-Identifier: MIT */
/* outside_rpc.c - a program of somebody else's that uses both libraries. */
#include <spindle-rpc.h>

#include <stdio.h>

int main(void)
{
    spn_problem problem = SPN_PROBLEM_INIT;
    spn_server *server;

    if (spn_version() != SPN_VERSION) {
        fprintf(stderr, "headers %s, library %s\n", SPN_VERSION_STRING,
                spn_version_string());
        return 1;
    }
    if (spn_server_create(&server, "dubbo://127.0.0.1:0", NULL, &problem) != SPN_OK) {
        fprintf(stderr, "%s\n", problem.text);
        return 1;
    }
    printf("spindle %s\n", spn_version_string());
    return spn_server_destroy(server) == SPN_OK ? 0 : 1;
}
