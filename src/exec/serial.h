/* SPDX-License-Identifier: MIT */
/*
 * serial.h - the serial executor from inside; see serial.c for the whole, and
 *
 *   serial.c       tasks, the runner of a lane, the public calls
 *   serial_keys.c  which lane a key has: made when needed, freed when idle
 *   serial_end.c   the count of what is inside, and the end
 */
#ifndef SPN__SERIAL_H
#define SPN__SERIAL_H

#include <spindle/serial.h>

#include "base/list.h"
#include "sync/lock.h"
#include "sync/seam.h"
#include "sync/waitq.h"

enum {
    SPN__SERIAL_SHARDS = 16,       /* a power of 2; locks for keys */
    SPN__SERIAL_FIRST_BUCKETS = 4, /* of a shard, without memory of their own */
    SPN__SERIAL_BATCH = 64         /* some microseconds of short tasks */
};

#define SPN__SERIAL_CLOSED  UINT64_C(1) /* takes no more */
#define SPN__SERIAL_STOPPED UINT64_C(2) /* and starts no more */
#define SPN__SERIAL_ONE     UINT64_C(4) /* of those that are inside */

struct spn__serial_lane {
    struct spn_executor executor;    /* first: they are the same object */
    struct spn_serial *serial;       /* fixed */
    uint64_t key;                    /* fixed */
    struct spn__serial_shard *shard; /* fixed */
    struct spn__list_node link;      /* in a bucket */
    struct spn__list tasks;          /* each by its `link` */
    uint32_t opened;                 /* who keeps it though it is idle */
    bool active;
    bool interrupted;      /* `thread` was, by us */
    const spn_task *asker; /* that made it active, until it is taken back: not to use */
    struct spn_thread *thread; /* that runs a task now, if it has a record */
    const spn_task *running;   /* and which: only to compare */
    spn_task runner;           /* the executor's below */
};

struct spn__serial_shard {
    _Alignas(SPN__CACHE_LINE) struct spn__lock lock;
    struct spn__list *buckets;
    size_t bucket_count; /* a power of 2 */
    size_t lanes;
    struct spn__list first[SPN__SERIAL_FIRST_BUCKETS];
};

struct spn_serial {
    spn_executor *below; /* fixed */
    uint32_t batch;      /* fixed */
    struct spn__lock lock;
    struct spn__waitq awaiting;
    bool terminated;
    /* Flags, and how many tasks, active lanes and holders are inside, as above. */
    _Alignas(SPN__CACHE_LINE) SPN__ATOMIC(uint64_t) ctl;
    struct spn__serial_lane common; /* of spn_serial_executor; in no bucket */
    struct spn__serial_shard shards[SPN__SERIAL_SHARDS];
};

static inline struct spn__serial_lane *spn__serial_lane_of(spn_executor *executor)
{
    return (struct spn__serial_lane *)(void *)executor;
}

/* serial.c */
extern const spn_executor_ops spn__serial_ops[2]; /* of all of it; of a key */
enum { SPN__SERIAL_WHOLE, SPN__SERIAL_KEY };
int spn__serial_run_lane(spn_task *runner);
void spn__serial_drop_lane(spn_task *runner, int reason);

/* serial_keys.c */
void spn__serial_keys_init(struct spn_serial *s);
void spn__serial_keys_fini(struct spn_serial *s);
bool spn__serial_has_keys(struct spn_serial *s);
/* The lane of a key, opened once more; NULL: no memory. */
struct spn__serial_lane *spn__serial_open_lane(struct spn_serial *s, uint64_t key);
void spn__serial_close_lane(struct spn__serial_lane *lane);
/* Opens a lane that is open, or in use, once more. */
void spn__serial_keep_lane(struct spn__serial_lane *lane);
/* With the lock held: takes a lane that nobody needs out of the table, for the caller
 * to free.  NULL: it is needed. */
struct spn__serial_lane *spn__serial_retire(struct spn__serial_lane *lane);

/* serial_end.c: counts a task; false: closed. */
bool spn__serial_count_up(struct spn_serial *s);
/* Counts down.  The caller has nothing to do with it afterwards, unless it counts
 * otherwise. */
void spn__serial_count_down(struct spn_serial *s, uint64_t by);
/* Operations of the executor. */
int spn__serial_shutdown(spn_executor *executor);
int spn__serial_shutdown_now(spn_executor *executor, spn_unrun_fn unrun, void *ctx,
                             int64_t *count);
int spn__serial_await(spn_executor *executor, int64_t timeout_ns);
int spn__serial_state(spn_executor *executor);
void spn__serial_hold(spn_executor *executor);
void spn__serial_release(spn_executor *executor);

#endif /* SPN__SERIAL_H */
