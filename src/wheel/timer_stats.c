/* SPDX-License-Identifier: MIT */
/*
 * timer_stats.c - what a timer has done, how late it was, and whether its inside is
 * whole.
 *
 * Counters and the histogram of lateness live in the shards and change under their
 * locks, which are taken for other reasons anyway; the sum is made when asked for.
 */
#include "wheel/timer.h"

#include "base/log.h"

int64_t spn_timer_pending(const spn_timer *timer)
{
    int64_t sum = 0;

    if (timer == NULL)
        return 0;
    for (uint32_t i = 0; i <= timer->shard_mask; i++)
        sum += spn__load(&timer->shards[i].pending, relaxed); /* see spn__shard_count */
    return sum;
}

int spn_timer_fd(const spn_timer *timer)
{
    return timer != NULL && timer->fd >= 0 ? timer->fd : SPN_EINVAL;
}

/* ---- what it has done --------------------------------------------------------- */

/* The largest lateness a bucket stands for; see late_bucket. */
static int64_t bucket_ns(uint32_t bucket)
{
    const uint32_t power = bucket / 8 + 2;

    if (bucket < 8)
        return bucket;
    return (int64_t)(((UINT64_C(8) + bucket % 8 + 1) << (power - 3)) - 1);
}

static int64_t quantile(const uint64_t *late, uint64_t total, uint64_t per_mille)
{
    const uint64_t rank = (total * per_mille + 999) / 1000;
    uint64_t seen = 0;

    for (uint32_t i = 0; i < SPN__LATE_BUCKETS && total != 0; i++) {
        seen += late[i];
        if (seen >= rank)
            return bucket_ns(i);
    }
    return 0;
}

int spn_timer_get_stats(spn_timer *timer, spn_timer_stats *stats)
{
    spn_timer_stats sum = SPN_TIMER_STATS_INIT;
    uint64_t late[SPN__LATE_BUCKETS] = { 0 };

    if (timer == NULL || stats == NULL || stats->size != sizeof *stats)
        return SPN_EINVAL;
    for (uint32_t i = 0; i <= timer->shard_mask; i++) {
        struct spn__shard *s = &timer->shards[i];

        spn__quick_lock(&s->lock);
        sum.armed += s->armed;
        sum.fired += s->fired;
        sum.cancelled += s->cancelled;
        sum.replaced += s->replaced;
        sum.returned += s->returned;
        sum.rejected += s->rejected;
        sum.failed += s->failed;
        sum.missed += s->missed;
        sum.pending += (uint64_t)spn__load(&s->pending, relaxed); /* our lock */
        if (s->late_max_ns > sum.late_max_ns)
            sum.late_max_ns = s->late_max_ns;
        for (uint32_t b = 0; b < SPN__LATE_BUCKETS; b++)
            late[b] += s->late[b];
        spn__quick_unlock(&s->lock);
    }
    sum.passes = spn__load(&timer->passes, relaxed); /* for people */
    spn__lock(&timer->exec_lock);
    sum.refused = timer->refused;
    spn__unlock(&timer->exec_lock);
    sum.late_p50_ns = quantile(late, sum.fired, 500);
    sum.late_p99_ns = quantile(late, sum.fired, 990);
    sum.late_p999_ns = quantile(late, sum.fired, 999);
    *stats = sum;
    return SPN_OK;
}

void spn__timer_late(struct spn_timer *timer, uint64_t late[SPN__LATE_BUCKETS])
{
    for (uint32_t i = 0; i <= timer->shard_mask; i++) {
        struct spn__shard *s = &timer->shards[i];

        spn__quick_lock(&s->lock);
        for (uint32_t b = 0; b < SPN__LATE_BUCKETS; b++)
            late[b] += s->late[b];
        spn__quick_unlock(&s->lock);
    }
}

static const char *shard_wrong(struct spn__shard *s)
{
    const int64_t pending = spn__load(&s->pending, relaxed); /* our lock */
    int64_t firing = 0;

    for (const spn_wheel_link *link = s->firing.next; link != &s->firing;
         link = link->next) {
        if (link->next->prev != link || ++firing > pending)
            return "a broken ring of due timeouts";
    }
    return spn__wheel_wrong(s->wheel, (size_t)(pending - firing));
}

int spn__timer_check(struct spn_timer *timer)
{
    const char *wrong = NULL;

    for (uint32_t i = 0; i <= timer->shard_mask && wrong == NULL; i++) {
        spn__quick_lock(&timer->shards[i].lock);
        wrong = shard_wrong(&timer->shards[i]);
        spn__quick_unlock(&timer->shards[i].lock);
    }
    if (wrong == NULL)
        return SPN_OK;
    spn__log(SPN_LOG_ERROR, "timer %s: the check found %s", timer->name, wrong);
    return SPN_ESTATE;
}
