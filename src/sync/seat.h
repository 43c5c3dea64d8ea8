/* SPDX-License-Identifier: MIT */
/*
 * seat.h - a place that one thread has in an object, and finds again; see seat.c.
 *
 *     seat = spn__seat_recall(self, object);        // a few loads
 *     if (seat == NULL)
 *         seat = spn__seat_find(self, object);      // had one, not used of late
 *     if (seat == NULL)                             // take a free one, or make one
 *         ... spn__seat_take(&place->seat, self) ...
 */
#ifndef SPN__SEAT_H
#define SPN__SEAT_H

#include "base/list.h"
#include "sync/thread_record.h"

struct spn__seat {
    struct spn__list_node link; /* in the holder's seats; guarded by its seat_lock */
    SPN__ATOMIC(struct spn_thread *) holder; /* NULL: free [seat] */
    const void *of;                          /* fixed */
};

void spn__seat_init(struct spn__seat *seat, const void *of);

/* Takes a free seat for the calling thread; false: it is not free. */
bool spn__seat_take(struct spn__seat *seat, struct spn_thread *self);

/* The calling thread's seat in the object, or NULL. */
struct spn__seat *spn__seat_find(struct spn_thread *self, const void *of);

/* The object goes, and nobody is using the seat: whoever holds it forgets it. */
void spn__seat_clear(struct spn__seat *seat);

/* As find, for the seats that were used last: NULL says little. */
static inline struct spn__seat *spn__seat_recall(struct spn_thread *self,
                                                 const void *of)
{
    for (unsigned i = 0; i < SPN__SEAT_MEMOS; i++)
        /* relaxed: only this thread writes what is not NULL here, and a NULL for an
         * object that is gone comes before another has its address. */
        if (spn__load(&self->seat_memos[i].of, relaxed) == of)
            return self->seat_memos[i].seat;
    return NULL;
}

#endif /* SPN__SEAT_H */
