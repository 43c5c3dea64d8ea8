/* SPDX-License-Identifier: MIT */
/*
 * poll_set.c - futures that are done, as a readable file descriptor.
 *
 * OVERVIEW
 *   An entry is an edge from its future, like a stage's, that puts itself on the
 *   set's ready list when it fires.
 *
 * STATE  the descriptor is readable if and only if `ready` is not empty
 *   Both change together under the lock, so that they never part: the first entry
 *   signals, taking the last one clears.  The system call under the lock is what
 *   lets next and destroy follow at once: a completer is through with the set when
 *   it has unlocked.
 *
 * LOCKS  `lock` guards the list and the count; a leaf.  A future's lock is never
 *        held together with it.
 */
#include <spindle/poll_set.h>

#include "future/core.h"

struct spn_poll_set {
    struct spn__lock lock;
    struct spn__list ready; /* guarded by lock */
    size_t count;           /* entries, ready or not; guarded by lock */
    int fd;                 /* fixed */
};

struct entry {
    struct spn__edge edge;
    struct spn__list_node link; /* guarded by the set's lock */
    struct spn_poll_set *set;
    struct spn_future *future; /* referenced */
    void *tag;
};

static struct entry *entry_of(struct spn__list_node *node)
{
    return spn__list_entry(node, struct entry, link);
}

int spn_poll_set_create(spn_poll_set **out)
{
    struct spn_poll_set *set;
    int rc;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    set = spn__alloc(sizeof *set);
    if (set == NULL)
        return SPN_ENOMEM;
    rc = spn__os_event_create(&set->fd);
    if (rc != SPN_OK) {
        spn__free(set);
        return rc;
    }
    spn__lock_init(&set->lock);
    spn__list_init(&set->ready);
    set->count = 0;
    *out = set;
    return SPN_OK;
}

int spn_poll_set_destroy(spn_poll_set *set)
{
    bool busy;

    if (set == NULL)
        return SPN_OK;
    spn__lock(&set->lock);
    busy = set->count != 0;
    spn__unlock(&set->lock);
    if (busy)
        return SPN_EBUSY;
    spn__os_event_close(set->fd);
    spn__free(set);
    return SPN_OK;
}

int spn_poll_set_fd(const spn_poll_set *set)
{
    return set != NULL ? set->fd : SPN_EINVAL;
}

/* The future is done. */
static void fire(struct spn__edge *edge, struct spn_future *source,
                 struct spn__work *work)
{
    struct entry *e = edge->owner;
    struct spn_poll_set *set = e->set;

    (void)source;
    (void)work;
    spn__lock(&set->lock);
    if (spn__list_empty(&set->ready))
        spn__os_event_signal(set->fd);
    spn__list_push_back(&set->ready, &e->link);
    spn__unlock(&set->lock); /* the set and the entry may be gone now */
}

int spn_poll_set_add(spn_poll_set *set, spn_future *future, void *tag)
{
    struct entry *e;

    if (set == NULL || future == NULL)
        return SPN_EINVAL;
    e = spn__alloc(sizeof *e);
    if (e == NULL)
        return SPN_ENOMEM;
    spn__list_node_init(&e->edge.link);
    spn__init(&e->edge.source, NULL);
    e->edge.fire = fire;
    e->edge.owner = e;
    spn__list_node_init(&e->link);
    e->set = set;
    e->future = spn__future_ref(future);
    e->tag = tag;
    spn__lock(&set->lock);
    set->count++;
    spn__unlock(&set->lock);
    if (!spn__edge_add(&e->edge, future))
        fire(&e->edge, future, NULL);
    return SPN_OK;
}

/* Takes an entry off the ready list; the lock is held. */
static void take(struct spn_poll_set *set, struct entry *e)
{
    spn__list_remove(&e->link);
    set->count--;
    if (spn__list_empty(&set->ready))
        spn__os_event_clear(set->fd);
}

int spn_poll_set_next(spn_poll_set *set, spn_future **future, void **tag)
{
    struct spn__list_node *node;
    struct entry *e;

    if (set == NULL || future == NULL)
        return SPN_EINVAL;
    *future = NULL;
    spn__lock(&set->lock);
    node = spn__list_first(&set->ready);
    if (node != NULL)
        take(set, entry_of(node));
    spn__unlock(&set->lock);
    if (node == NULL)
        return SPN_EEMPTY;
    e = entry_of(node);
    *future = e->future;
    if (tag != NULL)
        *tag = e->tag;
    spn__free(e);
    return SPN_OK;
}
