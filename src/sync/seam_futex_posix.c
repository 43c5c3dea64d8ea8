/* SPDX-License-Identifier: MIT */
/*
 * seam_futex_posix.c - futex wait and wake for systems without the call: a
 * table of buckets, each a mutex and a condition variable, picked by address.
 *
 * The word is compared under the bucket's mutex and a waker takes that mutex
 * before it signals, so that "compare, then sleep" is one step with respect to
 * a wake.  A wake signals everybody in the bucket: threads that wait for other
 * words get a spurious wake-up, which every caller of a futex expects.
 *
 * WHY condition variables here and nowhere else?  Because there is nothing
 * else; with a broadcast under the mutex the known lost-signal fault of glibc's
 * (BZ 25847) cannot strand a waiter for good.
 *
 * Built instead of the Linux futex with -DSPINDLE_FUTEX=posix.
 */
#include "sync/seam.h"

#include <errno.h>

#include "base/assert.h"

#if defined(SPN_FUTEX_POSIX) && !defined(SPN_SIM)

enum { BUCKETS = 64 }; /* a power of two; false sharing costs only wake-ups */

static struct bucket {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint32_t sleepers; /* guarded by mutex */
} buckets[BUCKETS];

static pthread_once_t buckets_once = PTHREAD_ONCE_INIT;

static void reset_buckets(void)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    for (int i = 0; i < BUCKETS; i++) {
        pthread_mutex_init(&buckets[i].mutex, NULL);
        pthread_cond_init(&buckets[i].changed, &attr);
        buckets[i].sleepers = 0;
    }
    pthread_condattr_destroy(&attr);
}

static void init_buckets(void)
{
    reset_buckets();
    /* The child of a fork has none of the sleepers, and a broadcast would wait
     * for them; a mutex may be held by a thread that is not there. */
    (void)pthread_atfork(NULL, NULL, reset_buckets);
}

static struct bucket *bucket_of(const spn__futex_word *word)
{
    pthread_once(&buckets_once, init_buckets);
    return &buckets[((uintptr_t)word >> 2) * 2654435761u >> 8 & (BUCKETS - 1)];
}

enum spn__futex_result spn__futex_wait(spn__futex_word *word, uint32_t expected,
                                       int64_t deadline_ns)
{
    struct bucket *b = bucket_of(word);
    enum spn__futex_result result = SPN__WOKEN;

    pthread_mutex_lock(&b->mutex);
    /* relaxed: the mutex orders this against the waker; callers re-check. */
    if (atomic_load_explicit(&word->spn__raw, memory_order_relaxed) != expected) {
        result = SPN__CHANGED;
    } else if (deadline_ns == SPN_FOREVER) {
        b->sleepers++;
        pthread_cond_wait(&b->changed, &b->mutex);
        b->sleepers--;
    } else {
        const int64_t at = deadline_ns < 0 ? 0 : deadline_ns;
        const struct timespec ts = { .tv_sec = (time_t)(at / 1000000000),
                                     .tv_nsec = (long)(at % 1000000000) };
        b->sleepers++;
        if (pthread_cond_timedwait(&b->changed, &b->mutex, &ts) == ETIMEDOUT)
            result = SPN__EXPIRED;
        b->sleepers--;
    }
    pthread_mutex_unlock(&b->mutex);
    return result;
}

void spn__futex_wake(spn__futex_word *word, int count)
{
    struct bucket *b = bucket_of(word);

    (void)count; /* the bucket is shared, so waking some might wake the wrong ones */
    pthread_mutex_lock(&b->mutex);
    if (b->sleepers != 0)
        pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->mutex);
}

#endif
