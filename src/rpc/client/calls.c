/* SPDX-License-Identifier: MIT */
/*
 * calls.c - which reply belongs to which call, and who ends a call.
 *
 * OVERVIEW
 *   A call can be ended by its reply, its timeout, the loss of its connection, its caller
 *   and the client's close, all at once and on any thread.  Whoever takes it out of this
 *   table ends it; all others find it gone and leave it alone.  That is the whole of
 *   "exactly once".
 *
 *   A reply goes through the dispatcher, and a connection may be lost behind it: calls
 *   whose reply has come are not the loss's to end.  A reply that is let go of without
 *   ending its call ends it as lost.
 *
 *   The table is a hash by id, in shards with a lock each.  Ids count up, so the lowest
 *   bits choose the shard and spread calls of all threads evenly.  A shard grows when it
 *   has more calls than buckets; where there is no memory for that, its chains get longer
 *   and nothing fails.
 *
 * LIFE
 *   [refs] the table, the timeout, the future's hook, each response under way and the
 *          thread that made the call have a reference each.  Each drop is a release, and
 *          an acquire for the last, which frees.
 *
 * LOCKS  one for each shard, a leaf.
 */
#include "rpc/client/calls.h"

#include <string.h>

#include "base/assert.h"
#include "sync/blocks.h"

/* ---- calls -------------------------------------------------------------------------- */

void spn__call_ref(struct spn__call *call)
{
    /* relaxed: who has a reference may pass another on. */
    (void)spn__fetch_add(&call->refs, 1, relaxed);
}

void spn__call_unref(struct spn__call *call)
{
    if (spn__fetch_sub(&call->refs, 1, acq_rel) != 1) /* [refs] */
        return;
    if (call->threadless != NULL) {
        const int rc = spn_threadless_destroy(call->threadless);

        spn__assert(rc ==
                    SPN_OK); /* who hands tasks to it has a reference to the call */
        (void)rc;
    }
    if (call->stream != NULL)
        spn__stream_drop(call->stream);
    spn_future_unref(call->future);
    spn__free(call->frame);
    spn__block_put(call);
}

/* ---- the table ------------------------------------------------------------------------ */

static struct spn__call_shard *shard_of(struct spn__call_table *table, int64_t id)
{
    return &table->shards[(uint64_t)id % SPN__CALL_SHARDS];
}

static struct spn__call **bucket_of(struct spn__call_shard *shard, int64_t id)
{
    return &shard->buckets[((uint64_t)id / SPN__CALL_SHARDS) & shard->mask];
}

void spn__table_init(struct spn__call_table *table)
{
    memset(table, 0, sizeof *table);
    for (int i = 0; i < SPN__CALL_SHARDS; i++) {
        struct spn__call_shard *shard = &table->shards[i];

        spn__lock_init(&shard->lock);
        shard->buckets = shard->first;
        shard->mask = SPN__CALL_BUCKETS - 1;
    }
}

void spn__table_fini(struct spn__call_table *table)
{
    for (int i = 0; i < SPN__CALL_SHARDS; i++) {
        struct spn__call_shard *shard = &table->shards[i];

        spn__assert(shard->count == 0);
        if (shard->buckets != shard->first)
            spn__free(shard->buckets);
    }
}

/* Twice as many buckets; the lock is held. */
static void grow(struct spn__call_shard *shard)
{
    const size_t size = (shard->mask + 1) * 2;
    struct spn__call **old = shard->buckets;
    const size_t old_size = shard->mask + 1;
    struct spn__call **buckets = spn__alloc(size * sizeof(void *));

    if (buckets == NULL)
        return; /* longer chains, then */
    memset(buckets, 0, size * sizeof(void *));
    shard->buckets = buckets;
    shard->mask = size - 1;
    for (size_t i = 0; i < old_size; i++) {
        struct spn__call *call = old[i];

        while (call != NULL) {
            struct spn__call *next = call->next;
            struct spn__call **bucket = bucket_of(shard, call->id);

            call->next = *bucket;
            *bucket = call;
            call = next;
        }
    }
    if (old != shard->first)
        spn__free(old);
}

void spn__table_add(struct spn__call_table *table, struct spn__call *call)
{
    struct spn__call_shard *shard = shard_of(table, call->id);
    struct spn__call **bucket;

    spn__call_ref(call);
    spn__lock(&shard->lock);
    if (shard->count > shard->mask)
        grow(shard);
    bucket = bucket_of(shard, call->id);
    call->next = *bucket;
    *bucket = call;
    call->listed = true;
    shard->count++;
    spn__unlock(&shard->lock);
}

bool spn__table_remove(struct spn__call_table *table, struct spn__call *call)
{
    struct spn__call_shard *shard = shard_of(table, call->id);
    bool found;

    spn__lock(&shard->lock);
    found = call->listed;
    if (found) {
        struct spn__call **at = bucket_of(shard, call->id);

        while (*at != call)
            at = &(*at)->next;
        *at = call->next;
        call->next = NULL;
        call->listed = false;
        shard->count--;
    }
    spn__unlock(&shard->lock);
    return found;
}

static struct spn__call *find(struct spn__call_table *table, int64_t id, bool answer)
{
    struct spn__call_shard *shard = shard_of(table, id);
    struct spn__call *call;

    spn__lock(&shard->lock);
    call = *bucket_of(shard, id);
    while (call != NULL && call->id != id)
        call = call->next;
    if (call != NULL) {
        spn__call_ref(call);
        call->answered = call->answered || answer;
    }
    spn__unlock(&shard->lock);
    return call;
}

struct spn__call *spn__table_find(struct spn__call_table *table, int64_t id)
{
    return find(table, id, false);
}

struct spn__call *spn__table_answer(struct spn__call_table *table, int64_t id)
{
    return find(table, id, true);
}

bool spn__table_bind(struct spn__call_table *table, struct spn__call *call,
                     struct spn__stream *stream)
{
    struct spn__call_shard *shard = shard_of(table, call->id);
    bool found;

    spn__lock(&shard->lock);
    found = call->listed;
    if (found) {
        spn__assert(call->stream == NULL);
        spn__stream_hold(stream);
        call->stream = stream;
    }
    spn__unlock(&shard->lock);
    return found;
}

struct spn__call *spn__table_remove_all(struct spn__call_table *table,
                                        const struct spn__stream *stream)
{
    struct spn__call *all = NULL;

    for (int i = 0; i < SPN__CALL_SHARDS; i++) {
        struct spn__call_shard *shard = &table->shards[i];

        spn__lock(&shard->lock);
        for (size_t b = 0; shard->count > 0 && b <= shard->mask; b++) {
            struct spn__call **at = &shard->buckets[b];

            while (*at != NULL) {
                struct spn__call *call = *at;

                if (stream != NULL && (call->stream != stream || call->answered)) {
                    at = &call->next;
                    continue;
                }
                *at = call->next;
                call->listed = false;
                shard->count--;
                call->next = all;
                all = call;
            }
        }
        spn__unlock(&shard->lock);
    }
    return all;
}
