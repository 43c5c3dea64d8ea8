/* SPDX-License-Identifier: MIT */
/*
 * url_keys.c - every key that the library reads from a URL, so that a file of URLs can refuse
 * a misspelt one.  `scripts/lint keys` compares the table with the sources and the man page.
 *
 * libspindle-rpc's keys are here too: a file is read before anybody knows who will use it.
 */
#include "config/url_keys.h"

#include <stddef.h>
#include <string.h>

static const char *const parts[] = { "host", "password", "path", "port", "user" };

/* Sorted. */
static const char *const parameters[] = {
    "accepts",
    "alive",
    "anyhost",
    "backup",
    "channel.handler",
    "channel.order",
    "channel.readonly.send",
    "check",
    "close.timeout",
    "codec",
    "connect.queue.capacity",
    "connect.queue.warning.size",
    "connect.timeout",
    "connections",
    "corethreads",
    "dispatcher",
    "dispather",
    "dump.directory",
    "dump.enable",
    "frame.timeout",
    "group",
    "heartbeat",
    "heartbeat.timeout",
    "inflight",
    "inflight.address",
    "interface",
    "iothreads",
    "lazy",
    "memory",
    "methods",
    "payload",
    "queue",
    "queue.target",
    "queues",
    "reconnect",
    "reject",
    "reject.timeout",
    "serialization",
    "server",
    "side",
    "threadname",
    "threadpool",
    "threads",
    "timeout",
    "transporter",
    "version",
};

enum {
    PARTS = sizeof parts / sizeof *parts,
    PARAMETERS = sizeof parameters / sizeof *parameters,
    LENGTH_MAX = 40, /* of a key that is worth comparing */
    CHANGES_MAX = 3
};

static bool has(const char *const *keys, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(keys[i], key) == 0)
            return true;
    return false;
}

bool spn__url_key_is_part(const char *key)
{
    return has(parts, PARTS, key);
}

bool spn__url_key_is_parameter(const char *key)
{
    static const char prefix[] = "default.";

    while (strncmp(key, prefix, sizeof prefix - 1) == 0)
        key += sizeof prefix - 1;
    return has(parameters, PARAMETERS, key);
}

static char lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
}

static int smallest(int a, int b, int c)
{
    const int least = a < b ? a : b;

    return least < c ? least : c;
}

/* How many letters must be put in, taken out, replaced or swapped with the next to make b of a;
 * upper and lower case count as the same. */
static int changes_between(const char *a, const char *b)
{
    int changes[LENGTH_MAX + 1]
               [LENGTH_MAX + 1]; /* between the first y of a and x of b */
    int y = 0, x = 0;

    for (x = 0; x == 0 || b[x - 1] != '\0'; x++)
        changes[0][x] = x;
    for (y = 1; a[y - 1] != '\0'; y++) {
        changes[y][0] = y;
        for (x = 1; b[x - 1] != '\0'; x++) {
            const char last = lower(a[y - 1]), other = lower(b[x - 1]);

            changes[y][x] = smallest(changes[y - 1][x] + 1, changes[y][x - 1] + 1,
                                     changes[y - 1][x - 1] + (last != other));
            if (x > 1 && y > 1 && last == lower(b[x - 2]) && other == lower(a[y - 2]))
                changes[y][x] =
                    smallest(changes[y][x], changes[y - 2][x - 2] + 1, changes[y][x]);
        }
    }
    return changes[y - 1][x - 1];
}

const char *spn__url_key_near(const char *key)
{
    const size_t length = strlen(key);
    const char *nearest = NULL;
    int least;

    if (length > LENGTH_MAX)
        return NULL;
    least = (int)length / 3 < CHANGES_MAX ? (int)length / 3 : CHANGES_MAX;
    for (size_t i = 0; i < PARTS + PARAMETERS; i++) {
        const char *candidate = i < PARTS ? parts[i] : parameters[i - PARTS];
        const int changes = changes_between(key, candidate);

        if (changes <= least && (nearest == NULL || changes < least)) {
            least = changes;
            nearest = candidate;
        }
    }
    return nearest;
}
