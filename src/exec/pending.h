/* SPDX-License-Identifier: MIT */
/*
 * pending.h - the tasks of a limiter that have not started, and the queue of those that
 * wait for their turn; see pending.c.  The caller's lock guards it.
 */
#ifndef SPN__PENDING_H
#define SPN__PENDING_H

#include <spindle/executor.h>

#include <stdbool.h>
#include <stdint.h>

struct spn__pending_entry {
    spn_task *task; /* its link[0] is the number of this entry */
    int64_t accepted_ns;
    uint32_t before, behind; /* numbers of the neighbours in the queue, or NO_ENTRY */
};

#define SPN__NO_ENTRY UINT32_MAX

enum {
    SPN__PENDING_FIRST_BITS = 7, /* the first chunk has 16 entries */
    SPN__PENDING_STEP_BITS = 3,  /* each next one adds an eighth, or a little less */
    SPN__PENDING_CHUNKS = (32 - SPN__PENDING_FIRST_BITS) << SPN__PENDING_STEP_BITS
};

struct spn__pending {
    uint32_t used;        /* the entries are 0 to used - 1 */
    uint32_t first, last; /* of the queue, or NO_ENTRY */
    uint32_t room;        /* in all chunks */
    uint32_t few;         /* the last chunk is given back when no more are used */
    uint32_t chunk_count;
    struct spn__pending_entry *chunks[SPN__PENDING_CHUNKS];
};

void spn__pending_init(struct spn__pending *pending);
void spn__pending_fini(struct spn__pending *pending);

/* Whether there is a free entry. */
static inline bool spn__pending_has_room(const struct spn__pending *pending)
{
    return pending->used < pending->room;
}

/*
 * Room for more.  get allocates the chunk with that number, without the lock; NULL: no
 * memory.  add takes it over if chunk_count still is that number; false: another thread
 * has added that chunk, and this one is to be freed.
 */
struct spn__pending_entry *spn__pending_chunk_get(uint32_t number);
bool spn__pending_chunk_add(struct spn__pending *pending, uint32_t number,
                            struct spn__pending_entry *chunk);

/* Gives a task a free entry, which there is; it is not in the queue yet. */
struct spn__pending_entry *spn__pending_add(struct spn__pending *pending,
                                            spn_task *task, int64_t accepted_ns);
/* Removes a task that has an entry, also from the queue.  Returns a chunk to be freed
 * without the lock, or NULL. */
struct spn__pending_entry *spn__pending_remove(struct spn__pending *pending,
                                               const spn_task *task);
/* The entry of a task, or NULL if the task is elsewhere. */
struct spn__pending_entry *spn__pending_find(const struct spn__pending *pending,
                                             const spn_task *task);

/* The queue: to its end, out of it (the entry stays), and the first or NULL. */
void spn__pending_enqueue(struct spn__pending *pending,
                          struct spn__pending_entry *entry);
void spn__pending_dequeue(struct spn__pending *pending,
                          struct spn__pending_entry *entry);
struct spn__pending_entry *spn__pending_first(const struct spn__pending *pending);

#endif /* SPN__PENDING_H */
