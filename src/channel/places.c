/* SPDX-License-Identifier: MIT */
/*
 * places.c - how much of the pool one connection, and one address, may have.
 *
 * OVERVIEW
 *   A pool has as many places as it has threads and its queue has room.  A request has one
 *   from the moment the dispatcher hands it over until its reply is about to be sent, or
 *   its method has returned and deferred it.  A connection that sends slow requests without
 *   waiting for replies would take every place; by default it may have seven eighths, so
 *   that others always find some.  A pool without a bound has none for a connection either.
 *
 *   The pool knows nothing of connections, so the dispatcher decides.  Each channel counts
 *   requests that entered, which its I/O thread alone does, and requests that left.
 *
 * WHY NOT the channel's requests in flight?  They end behind the reply.  A client that has
 *   read a reply may ask again before that, and would be refused though it waits for each
 *   reply, where a connection may have only one place.  They also contain deferred requests,
 *   which take no thread.  So a request that leaves costs one more read-modify-write, of the
 *   channel's line, which its thread has anyway.
 *
 * ADDRESSES  are counted only if the URL sets inflight.address.  Many clients may be behind
 *   one address, so there is no default.  Channels of one address share a record, found when
 *   the connection comes.  Channels for which there was no memory share one too, so that
 *   running out of memory lifts no bound.
 *
 *   A channel may outlive the dispatch.  So the table is freed by whichever of the two lets
 *   go of it last.
 *
 * LOCKS      `lock` guards the table of addresses: on coming and going of connections only;
 *   a leaf.
 */
#include "channel/places.h"

#include <stdio.h>
#include <string.h>

#include "config/problem.h"
#include "config/setting.h"
#include "exec/pool.h"

enum { BUCKETS = 512 };

struct spn__addresses {
    struct spn__lock lock; /* guards refs and the buckets */
    uint64_t refs;         /* the places, and channels that have an address */
    uint64_t seed;         /* fixed */
    struct spn__address unknown;
    struct spn__list buckets[BUCKETS];
};

/* ---- what the URL says -------------------------------------------------------------- */

static int read_bound(const spn_url *url, const char *key, int32_t *bound,
                      spn_problem *problem)
{
    const int rc = spn__setting(url, key, 0, bound, problem);

    if (rc != SPN_OK || *bound >= 0)
        return rc;
    return spn__refuse(problem, SPN_EINVAL, 0,
                       "%s=%d: not a number of requests (1 to 2147483647; 0: no limit)",
                       key, (int)*bound);
}

static struct spn__addresses *make_table(void)
{
    struct spn__addresses *table = spn__alloc(sizeof *table);

    if (table == NULL)
        return NULL;
    memset(table, 0, sizeof *table);
    spn__lock_init(&table->lock);
    table->refs = 1;
    table->seed = spn__random();
    table->unknown.table = table;
    spn__init(&table->unknown.taken, 0);
    for (int i = 0; i < BUCKETS; i++)
        spn__list_init(&table->buckets[i]);
    return table;
}

static void drop_table(struct spn__addresses *table)
{
    bool is_last;

    spn__lock(&table->lock);
    is_last = --table->refs == 0;
    spn__unlock(&table->lock);
    if (is_last)
        spn__free(table);
}

int spn__places_init(struct spn__places *places, const spn_url *url, bool is_queued,
                     spn_pool *pool, spn_problem *problem)
{
    int rc;

    memset(places, 0, sizeof *places);
    places->pool = pool;
    if ((rc = read_bound(url, "inflight", &places->of_connection, problem)) != SPN_OK ||
        (rc = read_bound(url, "inflight.address", &places->of_address, problem)) !=
            SPN_OK)
        return rc;
    if (!is_queued)
        places->of_address = 0; /* a thread that reads has one request at a time */
    places->is_share = pool != NULL && spn_url_get(url, NULL, "inflight") == NULL;
    places->is_on = is_queued && (places->is_share || places->of_connection > 0 ||
                                  places->of_address > 0);
    if (places->of_address == 0)
        return SPN_OK;
    places->addresses = make_table();
    return places->addresses != NULL ? SPN_OK : SPN_ENOMEM;
}

void spn__places_fini(struct spn__places *places)
{
    if (places->addresses != NULL)
        drop_table(places->addresses);
    places->addresses = NULL;
}

/* ---- addresses ---------------------------------------------------------------------- */

/* The host of "10.0.0.1:40000" or "[::1]:40000". */
static void copy_host(const char *remote, char *text, size_t size)
{
    const char *const colon = strrchr(remote, ':');
    size_t length = colon != NULL ? (size_t)(colon - remote) : strlen(remote);

    if (length >= size)
        length = size - 1;
    memcpy(text, remote, length);
    text[length] = '\0';
}

static uint64_t hash_text(uint64_t seed, const char *text)
{
    uint64_t hash = seed;

    for (; *text != '\0'; text++) {
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 29;
    }
    return hash;
}

/* The record of that address, with a reference; the lock is held. */
static struct spn__address *find_address(struct spn__list *bucket, const char *text)
{
    struct spn__list_node *node;

    spn__list_each (node, bucket) {
        struct spn__address *address = spn__list_entry(node, struct spn__address, link);

        if (strcmp(address->text, text) == 0) {
            address->refs++;
            return address;
        }
    }
    return NULL;
}

static struct spn__address *make_address(struct spn__addresses *table, const char *text)
{
    struct spn__address *address = spn__alloc(sizeof *address);

    if (address == NULL)
        return NULL;
    memset(address, 0, sizeof *address);
    address->table = table;
    address->refs = 1;
    spn__init(&address->taken, 0);
    memcpy(address->text, text, sizeof address->text);
    return address;
}

void spn__places_join(struct spn__places *places, spn_channel *channel)
{
    struct spn__addresses *table = places->addresses;
    char text[sizeof table->unknown.text] = "";
    struct spn__address *address, *made;
    struct spn__list *bucket;

    if (table == NULL || channel->address != NULL)
        return;
    copy_host(channel->remote, text, sizeof text);
    bucket = &table->buckets[hash_text(table->seed, text) % BUCKETS];
    made = make_address(table,
                        text); /* not under the lock: the allocator is the program's */
    spn__lock(&table->lock);
    address = find_address(bucket, text);
    if (address == NULL && made != NULL) {
        address = made;
        made = NULL;
        spn__list_push_back(bucket, &address->link);
    }
    table->refs++;
    spn__unlock(&table->lock);
    spn__free(made);
    channel->address = address != NULL ? address : &table->unknown;
}

void spn__address_drop(struct spn__address *address)
{
    struct spn__addresses *table;
    bool is_last = false;

    if (address == NULL)
        return;
    table = address->table;
    if (address != &table->unknown) {
        spn__lock(&table->lock);
        is_last = --address->refs == 0;
        if (is_last)
            spn__list_remove(&address->link);
        spn__unlock(&table->lock);
    }
    if (is_last)
        spn__free(address);
    drop_table(table);
}

/* ---- requests ------------------------------------------------------------------------ */

/* Of that many places of a pool a connection may have these: an eighth is left, one at
 * least, unless there is only one. */
static int64_t share_of(int64_t all)
{
    const int64_t others = all >= 16 ? all / 8 : 1;

    return all > 1 ? all - others : 1;
}

/* INT64_MAX: any number.  The pool may change while it runs. */
static int64_t connection_bound(const struct spn__places *places)
{
    int64_t all;

    if (!places->is_share)
        return places->of_connection > 0 ? places->of_connection : INT64_MAX;
    all = spn__pool_places(places->pool);
    return all != INT64_MAX ? share_of(all) : INT64_MAX;
}

int spn__places_take(struct spn__places *places, spn_message *message)
{
    spn_channel *channel = message->channel;
    int32_t taken;
    bool is_over = false;

    if (!places->is_on)
        return 0;
    message->flags |= SPN__MESSAGE_HAS_PLACE;
    channel->entered++;
    /* relaxed, both: only numbers. */
    taken = (int32_t)(channel->entered - spn__load(&channel->left, relaxed));
    if (channel->address != NULL)
        is_over =
            spn__fetch_add(&channel->address->taken, 1, relaxed) >= places->of_address;
    if (taken > 1 && taken > connection_bound(places))
        return SPN__REFUSED_CONNECTION;
    return is_over ? SPN__REFUSED_ADDRESS : 0;
}

void spn__message_leave_place(spn_message *message)
{
    spn_channel *channel = message->channel;

    message->flags &= ~(uint32_t)SPN__MESSAGE_HAS_PLACE;
    /* relaxed, both: only numbers. */
    (void)spn__fetch_add(&channel->left, 1, relaxed);
    if (channel->address != NULL)
        (void)spn__fetch_sub(&channel->address->taken, 1, relaxed);
}

/* Where the bound of a connection comes from. */
static void bound_text(const struct spn__places *places, char *text, size_t size)
{
    spn_pool_stats stats = SPN_POOL_STATS_INIT;

    if (places->is_share && spn_pool_stats_get(places->pool, &stats) == SPN_OK)
        (void)snprintf(text, size,
                       "all but an eighth of %d threads and a queue of %lld",
                       (int)stats.max_threads, (long long)stats.capacity);
    else
        (void)snprintf(text, size, "inflight=%d", (int)places->of_connection);
}

void spn__places_text(const struct spn__places *places, const spn_message *message,
                      int why, char *text, size_t size)
{
    spn_channel *channel = message->channel;
    char bound[128];

    if (why == SPN__REFUSED_ADDRESS) {
        (void)snprintf(
            text, size,
            "too many requests of one address: %s has %d in the pool, which "
            "are all that inflight.address=%d allows; send fewer at a time, or "
            "raise inflight.address",
            channel->address->text[0] != '\0' ? channel->address->text
                                              : "a group of addresses",
            (int)places->of_address, (int)places->of_address);
        return;
    }
    bound_text(places, bound, sizeof bound);
    (void)
        snprintf(text, size,
                 "too many requests of one connection: %s has %lld in the pool, which "
                 "are all that it may have (%s); send fewer at a time, raise threads "
                 "or queues, or set inflight",
                 channel->remote, (long long)connection_bound(places), bound);
}
