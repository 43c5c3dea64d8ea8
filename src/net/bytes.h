/* SPDX-License-Identifier: MIT */
/* bytes.h - a run of bytes that grows at its end and is used up at its start.  What is more
 * than it may keep when it is empty counts against a budget. */
#ifndef SPN__NET_BYTES_H
#define SPN__NET_BYTES_H

#include <string.h>

#include "base/assert.h"
#include "net/budget.h"
#include "net/transport.h"
#include "sync/seam.h"

/* What an empty run keeps of its memory; more is given back. */
#define SPN__BYTES_KEPT 16384

struct spn__bytes {
    unsigned char *data;
    size_t start, size, capacity; /* data[start .. start + size) */
    struct spn__budget *budget;   /* NULL: not counted */
};

/* What of a capacity counts. */
static inline size_t spn__bytes_counted(size_t capacity)
{
    return capacity > SPN__BYTES_KEPT ? capacity : 0;
}

static inline unsigned char *spn__bytes_first(const struct spn__bytes *b)
{
    return b->data + b->start;
}

static inline unsigned char *spn__bytes_end(const struct spn__bytes *b)
{
    return b->data + b->start + b->size;
}

static inline size_t spn__bytes_room(const struct spn__bytes *b)
{
    return b->capacity - b->start - b->size;
}

static inline void spn__bytes_fini(struct spn__bytes *b)
{
    spn__large_put(b->data, b->capacity);
    spn__budget_give(b->budget, spn__bytes_counted(b->capacity));
    *b = (struct spn__bytes){ .budget = b->budget };
}

/* Makes room for `more` bytes at the end, and not for many others.  False: no memory, or none
 * for that share of the budget. */
static inline bool spn__bytes_reserve(struct spn__bytes *b, size_t more,
                                      enum spn__share share)
{
    size_t capacity, growth;
    unsigned char *data;

    if (more > SIZE_MAX / 4 - b->size)
        return false;
    if (b->data != NULL) {
        if (spn__bytes_room(b) >= more)
            return true;
        if (b->start != 0)
            memmove(b->data, spn__bytes_first(b), b->size);
        b->start = 0;
        if (b->size + more <= b->capacity)
            return true;
    }
    capacity = (b->size + more + 1023) & ~(size_t)1023;
    growth = spn__bytes_counted(capacity) - spn__bytes_counted(b->capacity);
    if (!spn__budget_take(b->budget, growth, share))
        return false;
    data = spn__large_grow(b->data, b->capacity, b->size, capacity);
    if (data == NULL) {
        spn__budget_give(b->budget, growth);
        return false;
    }
    *b = (struct spn__bytes){ data, 0, b->size, capacity, b->budget };
    return true;
}

static inline bool spn__bytes_append(struct spn__bytes *b,
                                     const struct spn__piece *pieces, size_t count,
                                     enum spn__share share)
{
    size_t total = 0;

    for (size_t i = 0; i < count; i++)
        total += pieces[i].size;
    /* Half as much again at least, so that growing costs no more than filling. */
    if (b->data == NULL || spn__bytes_room(b) < total)
        if (!spn__bytes_reserve(b, total > b->size / 2 ? total : b->size / 2, share))
            return false;
    for (size_t i = 0; i < count; i++) {
        if (pieces[i].size != 0)
            memcpy(spn__bytes_end(b), pieces[i].data, pieces[i].size);
        b->size += pieces[i].size;
    }
    return true;
}

/* Uses up the first n bytes. */
static inline void spn__bytes_take(struct spn__bytes *b, size_t n)
{
    spn__assert(n <= b->size);
    b->start += n;
    b->size -= n;
    if (b->size != 0)
        return;
    b->start = 0;
    if (b->capacity > SPN__BYTES_KEPT)
        spn__bytes_fini(b);
}

#endif /* SPN__NET_BYTES_H */
