/* SPDX-License-Identifier: MIT */
/*
 * settings.c - see settings.h.  A mistake is never taken for the default.
 */
#include "rpc/settings.h"

#include <string.h>

#include <spindle/time.h>

#include "config/problem.h"

/* How far k, m and g shift; -1: none of them. */
static int shift_of(char unit)
{
    switch (unit) {
    case 'k':
    case 'K':
        return 10;
    case 'm':
    case 'M':
        return 20;
    case 'g':
    case 'G':
        return 30;
    default:
        return -1;
    }
}

int spn__setting_bytes(const spn_url *url, const char *key, uint64_t otherwise,
                       uint64_t *value, spn_problem *problem)
{
    const char *text = spn_url_get(url, NULL, key), *at = text;
    uint64_t number = 0;
    int shift = 0;

    *value = otherwise;
    if (text == NULL || *text == '\0')
        return SPN_OK;
    for (; *at >= '0' && *at <= '9'; at++) {
        number = number * 10 + (uint64_t)(*at - '0');
        if (number > (uint64_t)1 << 50)
            return spn__refuse(problem, SPN_ERANGE, 0, "%s=%s: more than 1024 TiB", key,
                               text);
    }
    if (at != text && *at != '\0')
        shift = shift_of(*at++);
    if (at == text || shift < 0 || *at != '\0')
        return spn__refuse(
            problem, SPN_EINVAL, 0,
            "%s=%s: not a size; give a number of bytes, or one with k, m "
            "or g, as in %s=64m",
            key, text, key);
    if (number > (uint64_t)1 << (50 - shift))
        return spn__refuse(problem, SPN_ERANGE, 0, "%s=%s: more than 1024 TiB", key,
                           text);
    *value = number << shift;
    return SPN_OK;
}

static int check_twice(const char *key, int32_t value, int32_t heartbeat,
                       spn_problem *problem)
{
    if (value >= heartbeat * 2)
        return SPN_OK;
    return spn__refuse(problem, SPN_EINVAL, 0, "%s=%d is less than twice heartbeat=%d",
                       key, (int)value, (int)heartbeat);
}

int spn__silence_read(const spn_url *url, struct spn__silence *out,
                      spn_problem *problem)
{
    int32_t heartbeat, idle, close;
    int rc;

    rc = spn__setting(url, "heartbeat", SPN__HEARTBEAT_MS, &heartbeat, problem);
    if (rc != SPN_OK)
        return rc;
    if (heartbeat < 0)
        heartbeat = 0;
    if (heartbeat > INT32_MAX / 3)
        return spn__refuse(problem, SPN_ERANGE, 0, "heartbeat=%d is too large",
                           (int)heartbeat);
    if ((rc = spn__setting(url, "heartbeat.timeout", heartbeat * 3, &idle, problem)) !=
            SPN_OK ||
        (rc = spn__setting(url, "close.timeout", idle, &close, problem)) != SPN_OK ||
        (rc = check_twice("heartbeat.timeout", idle, heartbeat, problem)) != SPN_OK ||
        (rc = check_twice("close.timeout", close, heartbeat, problem)) != SPN_OK)
        return rc;
    out->heartbeat_ns = SPN_MS((int64_t)heartbeat);
    out->idle_ns = idle > 0 ? SPN_MS((int64_t)idle) : 0;
    out->close_ns = close > 0 ? SPN_MS((int64_t)close) : 0;
    return SPN_OK;
}

const char *spn__host_of(const spn_url *url, char *room, size_t size)
{
    const char *host = spn_url_host(url);
    const size_t length = host != NULL ? strlen(host) : 0;

    if (length < 2 || host[0] != '[' || length > size)
        return host;
    memcpy(room, host + 1, length - 2);
    room[length - 2] = '\0';
    return room;
}
