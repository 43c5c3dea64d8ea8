/* SPDX-License-Identifier: MIT */
/*
 * store.c - the three stores of monitor queues; see store.h.
 *
 * array  `count` slots from `first`, in a circle.  Removal from inside closes
 *        the gap from the side of the tail, so the order of the rest stays and
 *        the room is there for the next insert.
 * heap   binary, in an array.  Of equal items the one that came first is less,
 *        by its serial: nobody is promised that, everybody likes it.
 * list   nodes; SPARE_MAX of those that are not in use are kept, so that a queue
 *        in steady use allocates nothing.  A bounded deque keeps them all, at
 *        most its capacity: when a walk has made room for many waiting
 *        producers at once, there is a node for each.
 */
#include "queue/store.h"

#include <string.h>

enum { SPARE_MAX = 64, HEAP_FIRST = 16 };

/* ---- array --------------------------------------------------------------- */

static void **array_at(const struct spn__store *s, size_t i)
{
    const size_t at = s->first + i;

    return &s->slots[at < s->cell_count ? at : at - s->cell_count];
}

bool spn__array_push(struct spn__store *s, void *item)
{
    if (s->count == s->cell_count)
        return false;
    *array_at(s, s->count++) = item;
    return true;
}

void *spn__array_pop(struct spn__store *s)
{
    void **head = array_at(s, 0);
    void *item = *head;

    *head = NULL; /* no reference stays behind (ABQ-7) */
    s->first = s->first + 1 < s->cell_count ? s->first + 1 : 0;
    s->count--;
    return item;
}

void *spn__array_peek(const struct spn__store *s)
{
    return s->count != 0 ? *array_at(s, 0) : NULL;
}

/* One pass that moves what stays over what goes. */
void spn__array_walk(struct spn__store *s, spn_queue_visit_fn visit, void *ctx)
{
    const size_t count = s->count;
    size_t kept = 0;
    int verdict = SPN_QUEUE_KEEP;

    for (size_t i = 0; i < count; i++) {
        void *const item = *array_at(s, i);

        if ((verdict & SPN_QUEUE_STOP) == 0)
            verdict = visit(item, ctx);
        else if (kept == i)
            return; /* nothing was taken, and nothing will be */
        else
            verdict = SPN_QUEUE_STOP;
        if ((verdict & SPN_QUEUE_TAKE) == 0)
            *array_at(s, kept++) = item;
    }
    for (size_t i = kept; i < count; i++)
        *array_at(s, i) = NULL;
    s->count = kept;
}

/* ---- heap ---------------------------------------------------------------- */

static void sift_up(struct spn__store *s, size_t at, struct spn__kept kept,
                    spn__less_fn less)
{
    while (at > 0) {
        const size_t parent = (at - 1) / 2;

        if (!less(s, &kept, &s->cells[parent]))
            break;
        s->cells[at] = s->cells[parent];
        at = parent;
    }
    s->cells[at] = kept;
}

static void sift_down(struct spn__store *s, size_t at, struct spn__kept kept,
                      spn__less_fn less)
{
    for (;;) {
        size_t child = 2 * at + 1;

        if (child >= s->count)
            break;
        if (child + 1 < s->count && less(s, &s->cells[child + 1], &s->cells[child]))
            child++;
        if (!less(s, &s->cells[child], &kept))
            break;
        s->cells[at] = s->cells[child];
        at = child;
    }
    s->cells[at] = kept;
}

bool spn__heap_push(struct spn__store *s, struct spn__kept kept, spn__less_fn less,
                    void **memory, size_t bytes)
{
    const size_t offered = bytes / sizeof s->cells[0];

    if (s->count == s->cell_count) {
        struct spn__kept *old = s->cells;

        if (*memory == NULL || offered <= s->cell_count)
            return false;
        if (s->count != 0)
            memcpy(*memory, old, s->count * sizeof old[0]);
        s->cells = *memory;
        s->cell_count = offered;
        *memory = old;
    }
    s->count++;
    sift_up(s, s->count - 1, kept, less);
    return true;
}

/* Takes out the cell at `at` and mends the order around the gap. */
static void heap_remove(struct spn__store *s, size_t at, spn__less_fn less)
{
    const struct spn__kept last = s->cells[--s->count];

    s->cells[s->count].item = NULL;
    if (at == s->count)
        return;
    if (at > 0 && less(s, &last, &s->cells[(at - 1) / 2]))
        sift_up(s, at, last, less);
    else
        sift_down(s, at, last, less);
}

struct spn__kept spn__heap_pop(struct spn__store *s, spn__less_fn less)
{
    const struct spn__kept head = s->cells[0];

    heap_remove(s, 0, less);
    return head;
}

/*
 * A removal moves other cells, perhaps to places the walk has passed.  So what
 * goes is marked first and taken out afterwards; if much went, the heap is
 * built anew.
 */
void spn__heap_walk(struct spn__store *s, spn__less_fn less, spn_queue_visit_fn visit,
                    void *ctx)
{
    size_t kept = 0, taken = 0, only = 0;
    int verdict = SPN_QUEUE_KEEP;

    for (size_t i = 0; i < s->count && (verdict & SPN_QUEUE_STOP) == 0; i++) {
        verdict = visit(s->cells[i].item, ctx);
        if ((verdict & SPN_QUEUE_TAKE) != 0) {
            s->cells[i].item = NULL;
            only = i;
            taken++;
        }
    }
    if (taken == 0)
        return;
    if (taken == 1) {
        heap_remove(s, only, less);
        return;
    }
    for (size_t i = 0; i < s->count; i++)
        if (s->cells[i].item != NULL)
            s->cells[kept++] = s->cells[i];
    for (size_t i = kept; i < s->count; i++)
        s->cells[i].item = NULL;
    s->count = kept;
    for (size_t i = kept / 2; i-- > 0;)
        sift_down(s, i, s->cells[i], less);
}

/* ---- list ---------------------------------------------------------------- */

bool spn__list_store_push(struct spn__store *s, void *item, enum spn__end end,
                          struct spn__hand *owner, void **memory)
{
    struct spn__kept_node *node = s->spare;

    if (node != NULL) {
        s->spare = (struct spn__kept_node *)(void *)node->link.next;
        s->spare_count--;
    } else if (memory != NULL && *memory != NULL) {
        node = *memory;
        *memory = NULL;
    } else {
        return false;
    }
    node->item = item;
    node->owner = owner;
    if (end == SPN__FIRST)
        spn__list_push_front(&s->nodes, &node->link);
    else
        spn__list_push_back(&s->nodes, &node->link);
    s->count++;
    return true;
}

/* Nodes beyond the spare ones are freed with the lock held: rare, and bounded
 * by the allocator. */
void spn__list_store_remove(struct spn__store *s, struct spn__kept_node *node)
{
    const bool bounded = s->queue->capacity != INT32_MAX;

    spn__list_remove(&node->link);
    s->count--;
    if (s->spare_count >= SPARE_MAX && !bounded) {
        spn__free(node);
        return;
    }
    node->item = NULL;
    node->owner = NULL;
    node->link.next = (struct spn__list_node *)(void *)s->spare;
    s->spare = node;
    s->spare_count++;
}

struct spn__kept_node *spn__list_store_at(const struct spn__store *s, enum spn__end end)
{
    struct spn__list_node *node =
        end == SPN__FIRST ? s->nodes.head.next : s->nodes.head.prev;

    return node == &s->nodes.head ? NULL
                                  : spn__list_entry(node, struct spn__kept_node, link);
}

void spn__list_store_free(struct spn__store *s)
{
    while (s->spare != NULL) {
        struct spn__kept_node *node = s->spare;

        s->spare = (struct spn__kept_node *)(void *)node->link.next;
        spn__free(node);
    }
}

/* ---- all ------------------------------------------------------------------ */

size_t spn__store_wants(const struct spn__store *s)
{
    if (s->queue->kind == SPN_QUEUE_PRIORITY || s->queue->kind == SPN_QUEUE_DELAY) {
        const size_t cells =
            s->cell_count < HEAP_FIRST ? HEAP_FIRST : 2 * s->cell_count;
        return cells * sizeof(struct spn__kept);
    }
    return sizeof(struct spn__kept_node);
}
