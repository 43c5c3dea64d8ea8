/* SPDX-License-Identifier: MIT */
/*
 * work_heap.c - tasks that wait by priority: a binary heap of (key, sequence).
 *
 * AGEING needs no re-sorting: a task that gains one priority per age_ns of waiting is,
 *   at any moment, ahead of another exactly if priority * age_ns - (time it came) is
 *   greater, which does not change while they wait.
 *
 * ORDERING  [size]  see work_fifo.c.
 * LOCKS     `lock` guards all of it and is the door (work.c); a leaf.
 */
#include "exec/work_kinds.h"

static bool ahead(const struct spn__heap_entry *a, const struct spn__heap_entry *b)
{
    return a->key != b->key ? a->key > b->key : a->sequence < b->sequence;
}

static void heap_place(struct spn__heap *h, size_t at, struct spn__heap_entry e)
{
    h->entries[at] = e;
    e.task->link[0] = (void *)at;
}

static void heap_up(struct spn__heap *h, size_t at, struct spn__heap_entry e)
{
    for (; at > 0 && ahead(&e, &h->entries[(at - 1) / 2]); at = (at - 1) / 2)
        heap_place(h, at, h->entries[(at - 1) / 2]);
    heap_place(h, at, e);
}

static void heap_down(struct spn__heap *h, size_t at, struct spn__heap_entry e)
{
    for (;;) {
        size_t child = 2 * at + 1;

        if (child >= h->used)
            break;
        if (child + 1 < h->used && ahead(&h->entries[child + 1], &h->entries[child]))
            child++;
        if (!ahead(&h->entries[child], &e))
            break;
        heap_place(h, at, h->entries[child]);
        at = child;
    }
    heap_place(h, at, e);
}

/* Takes the entry at a place out; the lock is held. */
static spn_task *heap_cut(struct spn__heap *h, size_t at)
{
    spn_task *task = h->entries[at].task;
    struct spn__heap_entry last = h->entries[--h->used];

    if (at < h->used) {
        if (at > 0 && ahead(&last, &h->entries[(at - 1) / 2]))
            heap_up(h, at, last);
        else
            heap_down(h, at, last);
    }
    spn__task_mark(task, SPN__TASK_TAKEN);
    /* relaxed read: ours.  [size] */
    spn__store(&h->popped, spn__load(&h->popped, relaxed) + 1, release);
    return task;
}

static bool heap_grow(struct spn__heap *h)
{
    const size_t room = h->room == 0 ? 64 : h->room * 2;
    struct spn__heap_entry *entries;

    if (room > SIZE_MAX / sizeof *entries)
        return false;
    entries = spn__alloc(room * sizeof *entries);
    if (entries == NULL)
        return false;
    for (size_t i = 0; i < h->used; i++)
        entries[i] = h->entries[i];
    spn__free(h->entries);
    h->entries = entries;
    h->room = room;
    return true;
}

static int64_t heap_key(struct spn_pool *pool, const spn_task *task)
{
    const int64_t priority =
        spn__task_is_job(task) ? ((const spn_job *)(const void *)task)->priority : 0;
    int64_t key;

    if (pool->work.age_ns == 0)
        return priority;
    if (__builtin_mul_overflow(priority, pool->work.age_ns, &key) ||
        __builtin_sub_overflow(key, spn__now(), &key))
        return priority < 0 ? INT64_MIN : INT64_MAX;
    return key;
}

int spn__work_heap_push(struct spn_pool *pool, struct spn__heap *h, spn_task *task)
{
    const int64_t key = heap_key(pool, task);
    int rc = SPN_OK;

    spn__lock(&h->lock);
    if (h->closed)
        rc = SPN_ESHUTDOWN;
    else if (spn__pool_deserted(pool))
        rc = SPN_EAGAIN;
    else if ((int64_t)h->used >= spn__load(&pool->work.limit, relaxed))
        rc = SPN_EFULL;
    else if (h->used == h->room && !heap_grow(h))
        rc = SPN_ENOMEM;
    if (rc == SPN_OK) {
        spn__task_mark(task, pool->id);
        h->used++;
        heap_up(h, h->used - 1, (struct spn__heap_entry){ key, h->sequence++, task });
        spn__store(&h->pushed, h->sequence, relaxed); /* [size] the lock orders it */
    }
    spn__unlock(&h->lock);
    if (__builtin_expect(rc == SPN_EFULL, 0) && spn__work_seems_full(pool))
        return spn__work_lift(pool, task);
    return rc;
}

spn_task *spn__work_heap_take(struct spn__heap *h)
{
    spn_task *task = NULL;

    spn__lock(&h->lock);
    if (h->used > 0)
        task = heap_cut(h, 0);
    spn__unlock(&h->lock);
    return task;
}

spn_task *spn__work_heap_take_oldest(struct spn__heap *h)
{
    spn_task *task = NULL;
    size_t oldest = 0;

    spn__lock(&h->lock);
    for (size_t i = 1; i < h->used; i++)
        if (h->entries[i].sequence < h->entries[oldest].sequence)
            oldest = i;
    if (h->used > 0)
        task = heap_cut(h, oldest);
    spn__unlock(&h->lock);
    return task;
}

bool spn__work_heap_remove(struct spn__heap *h, spn_task *task, uint32_t as)
{
    bool removed;

    spn__lock(&h->lock);
    removed = spn__task_marked(task, as);
    if (removed)
        (void)heap_cut(h, (size_t)task->link[0]);
    spn__unlock(&h->lock);
    return removed;
}

/* Puts the entries in order, which is a heap as well; the lock is held. */
static void heap_sort(struct spn__heap *h)
{
    const size_t count = h->used;

    /* Heap sort, which leaves the first in order last... */
    while (h->used > 0) {
        const struct spn__heap_entry first = h->entries[0];
        const struct spn__heap_entry last = h->entries[--h->used];

        if (h->used > 0)
            heap_down(h, 0, last);
        h->entries[h->used] = first;
    }
    /* ...so turn it round. */
    for (size_t i = 0, j = count; i < count; i++) {
        const struct spn__heap_entry e = h->entries[i];

        if (i >= --j) {
            heap_place(h, i, e);
            continue;
        }
        heap_place(h, i, h->entries[j]);
        heap_place(h, j, e);
    }
    h->used = count;
}

int64_t spn__work_heap_collect(struct spn__heap *h,
                               bool (*wanted)(spn_task *, const void *),
                               const void *ctx, struct spn__list *out)
{
    int64_t count = 0;
    size_t kept = 0;

    spn__lock(&h->lock);
    heap_sort(h);
    for (size_t i = 0; i < h->used; i++) {
        spn_task *task = h->entries[i].task;

        if (wanted != NULL && !wanted(task, ctx)) {
            heap_place(h, kept++, h->entries[i]);
            continue;
        }
        spn__task_mark(task, SPN__TASK_TAKEN);
        spn__list_push_back(out, spn__task_node(task));
        count++;
    }
    h->used = kept;
    /* relaxed read: ours.  [size] */
    spn__store(&h->popped, spn__load(&h->popped, relaxed) + count, release);
    spn__unlock(&h->lock);
    return count;
}

int64_t spn__work_heap_snapshot(struct spn__heap *h, spn_task **tasks, size_t capacity)
{
    int64_t count;

    spn__lock(&h->lock);
    heap_sort(h);
    for (size_t i = 0; i < h->used && i < capacity; i++)
        tasks[i] = h->entries[i].task;
    count = (int64_t)h->used;
    spn__unlock(&h->lock);
    return count;
}
