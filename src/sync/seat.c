/* SPDX-License-Identifier: MIT */
/*
 * seat.c - places that threads have in objects.
 *
 * OVERVIEW
 *   An object that keeps something for each thread embeds a seat in it.  The thread's
 *   record lists its seats and remembers the last few, so finding one again is a
 *   compare.  A seat ends from either side: the thread ends, and then it is free for
 *   the next that comes, with all that is in it; or the object goes, and then nothing
 *   of it is left in the record, where a later object at the same address would find
 *   it.
 *
 * ORDERING
 *   [seat] a thread that ends leaves a seat with release; who takes it, or clears it,
 *          reads that with acquire: what the seat belongs to is its own now.
 *
 * LOCKS  a record's seat_lock guards its list, and is a leaf.  It is made once and
 *        never made anew, because a clear may come for it when the record has been
 *        given to another thread; it then finds that the seat is held no more.
 */
#include "sync/seat.h"

void spn__seat_init(struct spn__seat *seat, const void *of)
{
    spn__list_node_init(&seat->link);
    spn__init(&seat->holder, NULL);
    seat->of = of;
}

/* The calling thread's own: no lock. */
static void remember(struct spn_thread *self, struct spn__seat *seat)
{
    const unsigned i = self->seat_memo_next++ % SPN__SEAT_MEMOS;

    self->seat_memos[i].seat = seat;
    spn__store(&self->seat_memos[i].of, seat->of, relaxed); /* see recall */
}

bool spn__seat_take(struct spn__seat *seat, struct spn_thread *self)
{
    struct spn_thread *none = NULL;

    /* relaxed: a hint that spares others the write. */
    if (spn__load(&seat->holder, relaxed) != NULL)
        return false;
    /* [seat] acquire: what the last holder did. */
    if (!spn__cas(&seat->holder, &none, self, acquire, relaxed))
        return false;
    spn__lock(&self->seat_lock);
    spn__list_push_back(&self->seats, &seat->link);
    spn__unlock(&self->seat_lock);
    remember(self, seat);
    return true;
}

struct spn__seat *spn__seat_find(struct spn_thread *self, const void *of)
{
    struct spn__list_node *node;
    struct spn__seat *found = NULL;

    spn__lock(&self->seat_lock);
    spn__list_each (node, &self->seats) {
        struct spn__seat *seat = spn__list_entry(node, struct spn__seat, link);

        if (seat->of == of)
            found = seat;
    }
    spn__unlock(&self->seat_lock);
    if (found != NULL)
        remember(self, found);
    return found;
}

void spn__seat_clear(struct spn__seat *seat)
{
    struct spn_thread *holder = spn__load(&seat->holder, acquire); /* [seat] */

    if (holder == NULL)
        return;
    spn__lock(&holder->seat_lock);
    /* relaxed: the lock orders it after a leave that was quicker. */
    if (spn__load(&seat->holder, relaxed) == holder) {
        spn__list_remove(&seat->link);
        for (unsigned i = 0; i < SPN__SEAT_MEMOS; i++)
            /* relaxed, both: if its thread is just writing there another object, that
             * one is forgotten, and found by the longer way. */
            if (spn__load(&holder->seat_memos[i].of, relaxed) == seat->of)
                spn__store(&holder->seat_memos[i].of, NULL, relaxed);
        spn__store(&seat->holder, NULL, relaxed); /* nobody comes any more */
    }
    spn__unlock(&holder->seat_lock);
}

void spn__seats_leave(struct spn_thread *record)
{
    struct spn__list_node *node;

    spn__lock(&record->seat_lock);
    while ((node = spn__list_pop_front(&record->seats)) != NULL)
        /* [seat] release: all this thread did there.  Its last use of the seat. */
        spn__store(&spn__list_entry(node, struct spn__seat, link)->holder, NULL,
                   release);
    spn__unlock(&record->seat_lock);
}
