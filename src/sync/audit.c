/* SPDX-License-Identifier: MIT */
/*
 * audit.c - a list of all that was made and not given back, for debug builds.
 *
 * OVERVIEW
 *   Whatever is audited has an entry in itself, so that nothing is allocated for it and
 *   nothing can fail.  One list, one lock: this is not for speed.  When the process exits,
 *   what is on the list is told.
 *
 * HIDDEN  The list must not keep what was forgotten from a leak checker: LeakSanitizer
 *   takes for reachable whatever an address leads to.  So the list has addresses with all
 *   bits inverted, and a program that leaks fails under AddressSanitizer.
 *
 * NAMES are copied: the entry of something that is just being freed may be read.  What is
 *   told is copied as well, some at a time, and told without the lock.
 *
 * FORK  The child has the memory of what its parent made, and cannot be asked to give it
 *   back: it begins with an empty list and another generation, and what is given back of
 *   an older one is not touched.
 *
 * LOCKS  `lock` is a leaf.
 */
#include "sync/audit.h"

#ifdef SPN_AUDIT

#include <string.h>

#include "sync/lock.h"
#include "sync/seam_stacks.h"

/* Told at exit one by one; the others are only counted. */
enum { TOLD_MAX = 16, AT_A_TIME = 8 };

static struct {
    struct spn__lock lock;
    uintptr_t first, last; /* hidden */
    uint64_t last_number;
    uint32_t generation;
    bool fork_hook;
} all = { .lock = SPN__LOCK_INIT, .first = ~(uintptr_t)0, .last = ~(uintptr_t)0 };

static uintptr_t hide(const struct spn__audit *a)
{
    return ~(uintptr_t)a;
}

static struct spn__audit *show(uintptr_t hidden)
{
    return (struct spn__audit *)~hidden;
}

/* Where the address of what follows is kept, of an entry or, NULL, of the list; and of
 * what precedes. */
static uintptr_t *next_of(struct spn__audit *a)
{
    return a != NULL ? &a->next : &all.first;
}

static uintptr_t *prev_of(struct spn__audit *a)
{
    return a != NULL ? &a->prev : &all.last;
}

static void after_fork(void)
{
    spn__lock_init(&all.lock);
    all.first = all.last = hide(NULL);
    all.generation++;
}

void spn__audit_add(struct spn__audit *a, const void *object, const char *kind,
                    const char *name, const char *state, const void *frame)
{
    bool hook = false;

    a->caller_count = spn__os_callers(frame, a->callers, SPN__AUDIT_CALLERS);
    a->object = object;
    a->kind = kind;
    a->state = state;
    strncpy(a->name, name, sizeof a->name - 1);
    a->name[sizeof a->name - 1] = '\0';
    spn__lock(&all.lock);
    if (!all.fork_hook)
        hook = all.fork_hook = true;
    a->number = ++all.last_number;
    a->generation = all.generation;
    a->next = hide(NULL);
    a->prev = all.last;
    *next_of(show(all.last)) = hide(a);
    all.last = hide(a);
    spn__unlock(&all.lock);
    if (hook) /* not under the lock: a fork meanwhile would copy it held */
        (void)spn__os_on_fork_child(after_fork);
}

void spn__audit_say(struct spn__audit *a, const char *state)
{
    spn__lock(&all.lock);
    a->state = state;
    spn__unlock(&all.lock);
}

void spn__audit_remove(struct spn__audit *a)
{
    spn__lock(&all.lock);
    if (a->number != 0 && a->generation == all.generation) {
        *next_of(show(a->prev)) = a->next;
        *prev_of(show(a->next)) = a->prev;
    }
    a->number = 0;
    spn__unlock(&all.lock);
}

/* Copies those that come after `number` and no later than `last`; how many. */
static size_t copy_some(struct spn__audit *to, uint64_t number, uint64_t last)
{
    const struct spn__audit *a;
    size_t count = 0;

    spn__lock(&all.lock);
    for (a = show(all.first); a != NULL; a = show(a->next))
        if (a->number > number && a->number <= last && count < AT_A_TIME)
            to[count++] = *a;
    spn__unlock(&all.lock);
    return count;
}

int64_t spn_audit_each(spn_audit_fn fn, void *ctx)
{
    struct spn__audit some[AT_A_TIME];
    uint64_t number = 0, last;
    int64_t total = 0;
    size_t count;

    spn__lock(&all.lock);
    last = all.last_number; /* what fn makes is not told */
    spn__unlock(&all.lock);
    while ((count = copy_some(some, number, last)) != 0) {
        for (size_t i = 0; i < count; i++) {
            const spn_audit_item item = { some[i].kind,    some[i].name,
                                          some[i].state,   some[i].object,
                                          some[i].callers, some[i].caller_count };

            if (fn != NULL)
                fn(ctx, &item);
        }
        total += (int64_t)count;
        number = some[count - 1].number;
    }
    return total;
}

/* The program's own frames say most: all are told, innermost first. */
static void tell(void *ctx, const spn_audit_item *item)
{
    int64_t *told = ctx;
    char text[SPN__LOG_MESSAGE_MAX + 1], symbol[128];
    size_t used = 0;

    /* The wheel tells of timers that were forgotten, unless it was told not to. */
    if (strcmp(item->kind, "timer") == 0 || ++*told > TOLD_MAX)
        return;
    text[0] = '\0';
    for (size_t i = 0; i < item->caller_count; i++) {
        size_t length;

        spn__os_symbol(item->callers[i], symbol, sizeof symbol);
        length = strlen(symbol);
        if (used + length + 4 > sizeof text)
            break;
        memcpy(text + used, " < ", 3);
        memcpy(text + used + 3, symbol, length + 1);
        used += length + 3;
    }
    spn__log(SPN_LOG_WARN, "leak: %s %s%s%s was never destroyed; made by%s", item->kind,
             item->name, item->state[0] != '\0' ? ", " : "", item->state, text + 2);
}

__attribute__((destructor)) static void tell_what_is_left(void)
{
    int64_t told = 0;

    (void)spn_audit_each(tell, &told);
    if (told > TOLD_MAX)
        spn__log(SPN_LOG_WARN, "leak: and %lld more", (long long)(told - TOLD_MAX));
}

#else

int64_t spn_audit_each(spn_audit_fn fn, void *ctx)
{
    (void)fn;
    (void)ctx;
    return SPN_ENOTSUP;
}

#endif
