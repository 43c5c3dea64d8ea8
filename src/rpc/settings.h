/* SPDX-License-Identifier: MIT */
/*
 * settings.h - what servers and clients read from their URL alike.
 */
#ifndef SPN__SETTINGS_H
#define SPN__SETTINGS_H

#include <spindle/problem.h>
#include <spindle/url.h>

#include "config/setting.h"

enum {
    SPN__HEARTBEAT_MS = 60000,
    SPN__PAYLOAD = 8 * 1024 * 1024,
    SPN__FRAME_MS = 30000
};

/* A size of the URL: bytes, or with k, m or g so many KiB, MiB or GiB.  As above. */
int spn__setting_bytes(const spn_url *url, const char *key, uint64_t otherwise,
                       uint64_t *value, spn_problem *problem);

/* Times of silence, as heartbeat, heartbeat.timeout and close.timeout have them. */
struct spn__silence {
    int64_t heartbeat_ns, idle_ns, close_ns; /* 0: never */
};
int spn__silence_read(const spn_url *url, struct spn__silence *out,
                      spn_problem *problem);

/* The host without the brackets of an IPv6 address, in `room` where that is needed; NULL:
 * there is none. */
const char *spn__host_of(const spn_url *url, char *room, size_t size);

#endif /* SPN__SETTINGS_H */
