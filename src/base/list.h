/* SPDX-License-Identifier: MIT */
/*
 * list.h - intrusive doubly linked list: the node lives in the element, so
 * adding cannot fail and removing needs no search.
 *
 * A list is a head whose ends point at itself.  A node that is on no list has
 * next == NULL, so that membership can be asked; every function keeps that.
 * Callers bring their own lock.
 */
#ifndef SPN__LIST_H
#define SPN__LIST_H

#include <stdbool.h>
#include <stddef.h>

struct spn__list_node {
    struct spn__list_node *next, *prev;
};

struct spn__list {
    struct spn__list_node head;
};

/* The element a node is embedded in. */
#define spn__list_entry(node, type, member) \
    ((type *)(void *)((char *)(node)-offsetof(type, member)))

/* Walks the list; the _safe form allows the current node to be removed. */
#define spn__list_each(node, list) \
    for ((node) = (list)->head.next; (node) != &(list)->head; (node) = (node)->next)
#define spn__list_each_safe(node, following, list)               \
    for ((node) = (list)->head.next, (following) = (node)->next; \
         (node) != &(list)->head; (node) = (following), (following) = (node)->next)

static inline void spn__list_init(struct spn__list *list)
{
    list->head.next = list->head.prev = &list->head;
}

static inline bool spn__list_empty(const struct spn__list *list)
{
    return list->head.next == &list->head;
}

static inline void spn__list_node_init(struct spn__list_node *node)
{
    node->next = node->prev = NULL;
}

/* Whether the node is on a list. */
static inline bool spn__list_linked(const struct spn__list_node *node)
{
    return node->next != NULL;
}

static inline void spn__list_insert_before(struct spn__list_node *position,
                                           struct spn__list_node *node)
{
    node->prev = position->prev;
    node->next = position;
    position->prev->next = node;
    position->prev = node;
}

static inline void spn__list_push_back(struct spn__list *list,
                                       struct spn__list_node *node)
{
    spn__list_insert_before(&list->head, node);
}

static inline void spn__list_push_front(struct spn__list *list,
                                        struct spn__list_node *node)
{
    spn__list_insert_before(list->head.next, node);
}

static inline void spn__list_remove(struct spn__list_node *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    node->next = node->prev = NULL;
}

/* The first node without removing it, or NULL. */
static inline struct spn__list_node *spn__list_first(const struct spn__list *list)
{
    return spn__list_empty(list) ? NULL : list->head.next;
}

static inline struct spn__list_node *spn__list_pop_front(struct spn__list *list)
{
    struct spn__list_node *node = spn__list_first(list);

    if (node != NULL)
        spn__list_remove(node);
    return node;
}

/* Moves all of `from` to the end of `to`. */
static inline void spn__list_splice(struct spn__list *to, struct spn__list *from)
{
    if (spn__list_empty(from))
        return;
    from->head.next->prev = to->head.prev;
    from->head.prev->next = &to->head;
    to->head.prev->next = from->head.next;
    to->head.prev = from->head.prev;
    spn__list_init(from);
}

#endif /* SPN__LIST_H */
