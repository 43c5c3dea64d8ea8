/* SPDX-License-Identifier: MIT */
/*
 * serial_keys.c - which lane a key has.
 *
 * OVERVIEW
 *   A hash table in shards, each with its lock, so that keys do not meet as a rule.  A
 *   lane is there while it has tasks, runs one, or somebody has it open, and no longer:
 *   a million keys that were used once cost nothing.  A shard's table grows with its
 *   lanes and does not shrink; without memory for that its lists just get longer.
 *
 * LOCKS  as in serial.c; memory is asked for with no lock held.
 */
#include "exec/serial.h"

static uint64_t hash_of(uint64_t key)
{
    key ^= key >> 33;
    key *= UINT64_C(0xff51afd7ed558ccd);
    key ^= key >> 33;
    key *= UINT64_C(0xc4ceb9fe1a85ec53);
    return key ^ key >> 33;
}

static struct spn__serial_shard *shard_of(struct spn_serial *s, uint64_t key)
{
    return &s->shards[hash_of(key) % SPN__SERIAL_SHARDS];
}

static struct spn__list *bucket_of(struct spn__serial_shard *shard, uint64_t key)
{
    return &shard->buckets[(hash_of(key) / SPN__SERIAL_SHARDS) &
                           (shard->bucket_count - 1)];
}

static void init_lane(struct spn__serial_lane *lane, struct spn_serial *s, uint64_t key,
                      const spn_executor_ops *ops)
{
    lane->executor.ops = ops;
    lane->serial = s;
    lane->key = key;
    lane->shard = shard_of(s, key);
    spn__list_node_init(&lane->link);
    spn__list_init(&lane->tasks);
    lane->opened = 0;
    lane->active = lane->interrupted = false;
    lane->asker = NULL;
    lane->thread = NULL;
    lane->running = NULL;
    lane->runner = (spn_task)SPN_TASK_INIT(spn__serial_run_lane, spn__serial_drop_lane);
}

/* With the lock held. */
static struct spn__serial_lane *find(struct spn__serial_shard *shard, uint64_t key)
{
    struct spn__list *bucket = bucket_of(shard, key);
    struct spn__list_node *node;

    spn__list_each (node, bucket) {
        struct spn__serial_lane *lane =
            spn__list_entry(node, struct spn__serial_lane, link);

        if (lane->key == key)
            return lane;
    }
    return NULL;
}

/* Twice the buckets, if there is memory: else the lists just get longer. */
static void grow(struct spn__serial_shard *shard, size_t from)
{
    const size_t count = from * 2;
    struct spn__list *buckets = spn__alloc(count * sizeof *buckets), *old = NULL;
    struct spn__list_node *node;

    if (buckets == NULL)
        return;
    for (size_t i = 0; i < count; i++)
        spn__list_init(&buckets[i]);
    spn__lock(&shard->lock);
    if (shard->bucket_count == from) {
        old = shard->buckets;
        shard->buckets = buckets;
        shard->bucket_count = count;
        for (size_t i = 0; i < from; i++)
            while ((node = spn__list_pop_front(&old[i])) != NULL)
                spn__list_push_back(bucket_of(shard,
                                              spn__list_entry(node,
                                                              struct spn__serial_lane,
                                                              link)
                                                  ->key),
                                    node);
    } else {
        old = buckets; /* somebody was faster */
    }
    spn__unlock(&shard->lock);
    if (old != shard->first)
        spn__free(old);
}

/* The lane of a key, opened once more; NULL: no memory. */
struct spn__serial_lane *spn__serial_open_lane(struct spn_serial *s, uint64_t key)
{
    struct spn__serial_shard *shard = shard_of(s, key);
    struct spn__serial_lane *lane, *made = NULL;
    size_t grow_from = 0;

    for (;;) {
        spn__lock(&shard->lock);
        lane = find(shard, key);
        if (lane == NULL && made != NULL) {
            lane = made;
            made = NULL;
            spn__list_push_back(bucket_of(shard, key), &lane->link);
            if (++shard->lanes > 2 * shard->bucket_count)
                grow_from = shard->bucket_count;
        }
        if (lane != NULL)
            lane->opened++;
        spn__unlock(&shard->lock);
        if (lane != NULL)
            break;
        made = spn__alloc(sizeof *made); /* not with a lock held */
        if (made == NULL)
            return NULL;
        init_lane(made, s, key, &spn__serial_ops[SPN__SERIAL_KEY]);
    }
    spn__free(made);
    if (grow_from != 0)
        grow(shard, grow_from);
    return lane;
}

/* With the lock held: takes a lane that nobody needs out of the table, for the caller
 * to free.  NULL: it is needed. */
struct spn__serial_lane *spn__serial_retire(struct spn__serial_lane *lane)
{
    if (lane->active || lane->opened != 0 || !spn__list_empty(&lane->tasks) ||
        lane == &lane->serial->common)
        return NULL;
    spn__list_remove(&lane->link);
    lane->shard->lanes--;
    return lane;
}

void spn__serial_keep_lane(struct spn__serial_lane *lane)
{
    spn__lock(&lane->shard->lock);
    lane->opened++;
    spn__unlock(&lane->shard->lock);
}

void spn__serial_close_lane(struct spn__serial_lane *lane)
{
    struct spn__serial_shard *shard = lane->shard;
    struct spn__serial_lane *retired;

    spn__lock(&shard->lock);
    lane->opened--;
    retired = spn__serial_retire(lane);
    spn__unlock(&shard->lock);
    spn__free(retired);
}

void spn__serial_keys_init(struct spn_serial *s)
{
    for (int i = 0; i < SPN__SERIAL_SHARDS; i++) {
        struct spn__serial_shard *shard = &s->shards[i];

        spn__lock_init(&shard->lock);
        shard->buckets = shard->first;
        shard->bucket_count = SPN__SERIAL_FIRST_BUCKETS;
        shard->lanes = 0;
        for (int b = 0; b < SPN__SERIAL_FIRST_BUCKETS; b++)
            spn__list_init(&shard->first[b]);
    }
    init_lane(&s->common, s, 0, &spn__serial_ops[SPN__SERIAL_WHOLE]);
}

void spn__serial_keys_fini(struct spn_serial *s)
{
    for (int i = 0; i < SPN__SERIAL_SHARDS; i++)
        if (s->shards[i].buckets != s->shards[i].first)
            spn__free(s->shards[i].buckets);
}

bool spn__serial_has_keys(struct spn_serial *s)
{
    bool any = false;

    for (int i = 0; i < SPN__SERIAL_SHARDS; i++) {
        spn__lock(&s->shards[i].lock);
        any = any || s->shards[i].lanes != 0;
        spn__unlock(&s->shards[i].lock);
    }
    return any;
}
