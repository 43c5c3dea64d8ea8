/* SPDX-License-Identifier: MIT */
/*
 * setting.c - see setting.h.  A mistake is never taken for the default.
 */
#include "config/setting.h"

#include "config/problem.h"

int spn__setting(const spn_url *url, const char *key, int32_t otherwise, int32_t *value,
                 spn_problem *problem)
{
    const int rc = spn_url_get_int(url, NULL, key, otherwise, value);

    if (rc != SPN_OK)
        return spn__refuse(problem, rc, 0, "%s=%s is no number that fits", key,
                           spn_url_get(url, NULL, key));
    return SPN_OK;
}
