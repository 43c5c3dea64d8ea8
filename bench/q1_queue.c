/* SPDX-License-Identifier: MIT */
/*
 * Q1 - items through a bounded queue of 1024, one by one and in batches of 16.
 *
 * All queues block: a thread that finds no room or no item sleeps, maybe after
 * spinning.  Only the floor spins for ever.  queue_pass.h tells what is timed.
 *
 * A free pair of threads has two gaits, and peers differ in which they fall into:
 * on one CPU they fill and drain the queue in turns, on two they meet at every
 * item.  The pinned variant shows the second alone.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

#include <spindle.h>

#include "bench.h"
#include "pair.h"
#include "queue_pass.h"
#include "queue_peers.h"

#define ITEMS 5000000

static const struct pass_work q1_work = { "ns_per_item", ITEMS };

/* ---- spindle ------------------------------------------------------------ */

static inline void spindle_put(spn_queue *queue, void *item)
{
    if (spn_queue_put(queue, item, SPN_FOREVER) != SPN_OK)
        _exit(1);
}
static inline void *spindle_take(spn_queue *queue)
{
    void *item;

    if (spn_queue_take(queue, &item, SPN_FOREVER) != SPN_OK)
        _exit(1);
    return item;
}
static inline void spindle_put_many(spn_queue *queue, void *const *items, size_t count)
{
    if (spn_queue_put_many(queue, items, count, SPN_FOREVER, NULL) != SPN_OK)
        _exit(1);
}
static inline size_t spindle_take_many(spn_queue *queue, void **items, size_t count)
{
    if (spn_queue_take_many(queue, items, count, SPN_FOREVER, &count) != SPN_OK)
        _exit(1);
    return count;
}

PASS_LOOPS(spindle, spn_queue, spindle_put(queue, item), item = spindle_take(queue));
PASS_BATCH_LOOPS(spindle, spn_queue, spindle_put_many(queue, items, count),
                 count = spindle_take_many(queue, items, count));

static void *spindle_create(spn_queue_kind kind)
{
    spn_queue_opts opts = SPN_QUEUE_OPTS_INIT;
    spn_queue *queue;

    opts.capacity = PASS_CAPACITY;
    return spn_queue_create(&queue, kind, &opts) == SPN_OK ? queue : NULL;
}
static void spindle_destroy(void *queue)
{
    if (spn_queue_destroy(queue) != SPN_OK)
        _exit(1);
}

#define SPINDLE_KIND(id, kind)                                           \
    static void *id##_create(void)                                       \
    {                                                                    \
        return spindle_create(kind);                                     \
    }                                                                    \
    static void run_##id(struct bench *b)                                \
    {                                                                    \
        static const struct pass_queue id = {                            \
            id##_create,     spindle_destroy,      spindle_produce,      \
            spindle_consume, spindle_produce_many, spindle_consume_many, \
        };                                                               \
                                                                         \
        pass_run(b, &id, &q1_work);                                      \
    }                                                                    \
    struct pass_queue /* takes the semicolon */

SPINDLE_KIND(ring, SPN_QUEUE_RING);
SPINDLE_KIND(array, SPN_QUEUE_ARRAY);
SPINDLE_KIND(linked, SPN_QUEUE_LINKED);
SPINDLE_KIND(deque, SPN_QUEUE_DEQUE);

/* ---- floor: one producer, one consumer, no sleep ---------------------------- */

/* Each side owns an index and looks at the other's only when it seems to be out of
 * room or items. */
struct spsc {
    alignas(128) _Atomic(uint64_t) tail;
    uint64_t head_seen; /* the producer's */
    alignas(128) _Atomic(uint64_t) head;
    uint64_t tail_seen; /* the consumer's */
    alignas(128) void *cells[PASS_CAPACITY];
};

/* Two on one CPU must take turns soon, or waiting for the time slice to end would
 * be most of what is measured; on two CPUs giving way to nobody is cheap. */
static inline void spsc_pause(int *spins)
{
    if (++*spins % 64 == 0)
        sched_yield();
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* Waits for `wanted` free cells; returns the index of the first. */
static inline uint64_t spsc_room(struct spsc *q, uint64_t wanted)
{
    const uint64_t tail = atomic_load_explicit(&q->tail, memory_order_relaxed);
    int spins = 0;

    while (tail + wanted - q->head_seen > PASS_CAPACITY) {
        q->head_seen = atomic_load_explicit(&q->head, memory_order_acquire);
        if (tail + wanted - q->head_seen > PASS_CAPACITY)
            spsc_pause(&spins);
    }
    return tail;
}

/* Waits for an item; returns the index of the first. */
static inline uint64_t spsc_items(struct spsc *q)
{
    const uint64_t head = atomic_load_explicit(&q->head, memory_order_relaxed);
    int spins = 0;

    while (head == q->tail_seen) {
        q->tail_seen = atomic_load_explicit(&q->tail, memory_order_acquire);
        if (head == q->tail_seen)
            spsc_pause(&spins);
    }
    return head;
}

static inline void spsc_put(struct spsc *q, void *const *items, size_t count)
{
    const uint64_t tail = spsc_room(q, count);

    for (size_t i = 0; i < count; i++)
        q->cells[(tail + i) % PASS_CAPACITY] = items[i];
    atomic_store_explicit(&q->tail, tail + count, memory_order_release);
}

static inline size_t spsc_take(struct spsc *q, void **items, size_t count)
{
    const uint64_t head = spsc_items(q);

    if (q->tail_seen - head < count)
        count = (size_t)(q->tail_seen - head);
    for (size_t i = 0; i < count; i++)
        items[i] = q->cells[(head + i) % PASS_CAPACITY];
    atomic_store_explicit(&q->head, head + count, memory_order_release);
    return count;
}

PASS_LOOPS(spsc, struct spsc, spsc_put(queue, &item, 1), spsc_take(queue, &item, 1));
PASS_BATCH_LOOPS(spsc, struct spsc, spsc_put(queue, items, count),
                 count = spsc_take(queue, items, count));

static void *spsc_create(void)
{
    static struct spsc queue;

    return &queue;
}

static void run_floor(struct bench *b)
{
    static const struct pass_queue spsc = {
        spsc_create,       NULL, spsc_produce, spsc_consume, spsc_produce_many,
        spsc_consume_many,
    };

    if (bench_variant_is(b, "2x2") || bench_variant_is(b, "2x2-batch16"))
        bench_skip(b, "it is for one and one");
    pass_run(b, &spsc, &q1_work);
}

/* ---- what people write by hand ---------------------------------------------- */

struct monitor {
    pthread_mutex_t lock;
    pthread_cond_t not_full, not_empty;
    size_t head, count;
    void *cells[PASS_CAPACITY];
};

static inline void monitor_put(struct monitor *m, void *const *items, size_t count)
{
    pthread_mutex_lock(&m->lock);
    for (size_t done = 0; done < count;) {
        while (m->count == PASS_CAPACITY)
            pthread_cond_wait(&m->not_full, &m->lock);
        while (done < count && m->count < PASS_CAPACITY)
            m->cells[(m->head + m->count++) % PASS_CAPACITY] = items[done++];
        /* Before it may sleep again with what it has put in. */
        if (done < count)
            pthread_cond_signal(&m->not_empty);
    }
    pthread_mutex_unlock(&m->lock);
    pthread_cond_signal(&m->not_empty);
}

static inline size_t monitor_take(struct monitor *m, void **items, size_t count)
{
    size_t done = 0;

    pthread_mutex_lock(&m->lock);
    while (m->count == 0)
        pthread_cond_wait(&m->not_empty, &m->lock);
    while (done < count && m->count > 0) {
        items[done++] = m->cells[m->head];
        m->head = (m->head + 1) % PASS_CAPACITY;
        m->count--;
    }
    pthread_mutex_unlock(&m->lock);
    pthread_cond_signal(&m->not_full);
    return done;
}

PASS_LOOPS(monitor, struct monitor, monitor_put(queue, &item, 1),
           monitor_take(queue, &item, 1));
PASS_BATCH_LOOPS(monitor, struct monitor, monitor_put(queue, items, count),
                 count = monitor_take(queue, items, count));

static void *monitor_create(void)
{
    static struct monitor monitor = { .lock = PTHREAD_MUTEX_INITIALIZER,
                                      .not_full = PTHREAD_COND_INITIALIZER,
                                      .not_empty = PTHREAD_COND_INITIALIZER };

    return &monitor;
}

static void run_monitor(struct bench *b)
{
    static const struct pass_queue monitor = {
        monitor_create,       NULL,
        monitor_produce,      monitor_consume,
        monitor_produce_many, monitor_consume_many,
    };

    pass_run(b, &monitor, &q1_work);
}

/* ---- GLib ------------------------------------------------------------------- */

#ifdef BENCH_HAVE_GLIB
/* Its queue has no bound.  The cheapest its users add is a semaphore that counts
 * the free places. */
struct glib_queue {
    GAsyncQueue *queue;
    sem_t room;
};

static inline void glib_put(struct glib_queue *q, void *item)
{
    while (sem_wait(&q->room) != 0) {
    }
    g_async_queue_push(q->queue, item);
}

static inline void *glib_take(struct glib_queue *q)
{
    void *item = g_async_queue_pop(q->queue);

    sem_post(&q->room);
    return item;
}

PASS_LOOPS(glib, struct glib_queue, glib_put(queue, item), item = glib_take(queue));

static void *glib_create(void)
{
    static struct glib_queue q;

    q.queue = g_async_queue_new();
    return sem_init(&q.room, 0, PASS_CAPACITY) == 0 ? &q : NULL;
}

static void run_glib(struct bench *b)
{
    static const struct pass_queue glib = { .create = glib_create,
                                            .produce = glib_produce,
                                            .consume = glib_consume };

    pass_run(b, &glib, &q1_work);
}
#define GLIB_RUN .run = run_glib, .version = glib_version_text
#else
#define GLIB_RUN .package = "libglib2.0-dev"
#endif

/* ---- APR -------------------------------------------------------------------- */

#ifdef BENCH_HAVE_APR
#include <apr_general.h>
#include <apr_queue.h>
#include <apu_version.h>

static inline void apr_put(apr_queue_t *queue, void *item)
{
    apr_status_t status;

    while ((status = apr_queue_push(queue, item)) == APR_EINTR) {
    }
    if (status != APR_SUCCESS)
        _exit(1);
}
static inline void *apr_take(apr_queue_t *queue)
{
    apr_status_t status;
    void *item;

    while ((status = apr_queue_pop(queue, &item)) == APR_EINTR) {
    }
    if (status != APR_SUCCESS)
        _exit(1);
    return item;
}

PASS_LOOPS(apr, apr_queue_t, apr_put(queue, item), item = apr_take(queue));

static void *apr_create(void)
{
    apr_pool_t *pool;
    apr_queue_t *queue;

    if (apr_initialize() != APR_SUCCESS ||
        apr_pool_create(&pool, NULL) != APR_SUCCESS ||
        apr_queue_create(&queue, PASS_CAPACITY, pool) != APR_SUCCESS)
        return NULL;
    return queue;
}

static void run_apr(struct bench *b)
{
    static const struct pass_queue apr = { .create = apr_create,
                                           .produce = apr_produce,
                                           .consume = apr_consume };

    pass_run(b, &apr, &q1_work);
}
#define APR_RUN .run = run_apr, .version = apu_version_string
#else
#define APR_RUN .package = "libaprutil1-dev libapr1-dev"
#endif

/* ---- TBB: q1_tbb.cpp ---------------------------------------------------------- */

#ifdef BENCH_HAVE_TBB
extern const struct pass_queue q1_tbb_queue;
const char *q1_tbb_version(void);

static void run_tbb(struct bench *b)
{
    pass_run(b, &q1_tbb_queue, &q1_work);
}
#define TBB_RUN .run = run_tbb, .version = q1_tbb_version
#else
#define TBB_RUN .package = "libtbb-dev"
#endif

/* ---- other languages ------------------------------------------------------------ */

#ifdef BENCH_JAVA
static void run_java_array(struct bench *b)
{
    pass_exec(b, JAVA_COMMAND, "array", &q1_work, 0);
}
static void run_java_linked(struct bench *b)
{
    pass_exec(b, JAVA_COMMAND, "linked", &q1_work, 0);
}
#endif

#ifdef BENCH_GO
static void run_go(struct bench *b)
{
    pass_exec(b, GO_COMMAND, "1024", &q1_work, 0);
}
#endif

#ifdef BENCH_CROSSBEAM
static void run_crossbeam(struct bench *b)
{
    pass_exec(b, CROSSBEAM_COMMAND, "1024", &q1_work, 1);
}
#endif

BENCH_WORKLOAD(q1) = {
    .name = "Q1",
    .question = "What does an item cost on its way through a bounded queue of 1024?",
    .metric = "ns_per_item",
    .variants = { { .name = "1x1" },
                  { .name = "1x1-pinned", .pinned = true, .cpus = 2 },
                  { .name = "2x2" },
                  { .name = "1x1-batch16" },
                  { .name = "2x2-batch16" } },
    .subjects = { { .name = "spindle-ring", .run = run_ring },
                  { .name = "spindle-array", .run = run_array },
                  { .name = "spindle-linked", .run = run_linked },
                  { .name = "spindle-deque", .run = run_deque },
                  { .name = "floor",
                    .run = run_floor,
                    .detail = "a ring for one producer and one consumer that spin" },
                  { .name = "glibc mutex ring",
                    .run = run_monitor,
                    .version = bench_glibc_version,
                    .detail =
                        "a ring under a pthread mutex with two condition variables" },
                  { .name = "GAsyncQueue",
                    GLIB_RUN,
                    .detail =
                        "GLib's, bounded by a sem_t that counts the free places" },
                  { .name = "apr_queue", APR_RUN },
                  { .name = "tbb bounded_queue", TBB_RUN },
                  { .name = "java ArrayBQ",
                    JAVA_RUN(run_java_array),
                    .detail = "java.util.concurrent.ArrayBlockingQueue" },
                  { .name = "java LinkedBQ",
                    JAVA_RUN(run_java_linked),
                    .detail = "java.util.concurrent.LinkedBlockingQueue" },
                  { .name = "go channel",
                    GO_RUN(run_go),
                    .detail = "between goroutines" },
                  { .name = "crossbeam bounded",
                    CROSSBEAM_RUN(run_crossbeam),
                    .detail = "Rust's crossbeam-channel" } },
};
