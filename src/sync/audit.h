/* SPDX-License-Identifier: MIT */
/*
 * audit.h - what is made and given back, in builds with SPN_AUDIT; see audit.c.
 *
 *     struct spn_queue { ... SPN__AUDIT_FIELD };
 *     spn__audit_made(q, "queue", "linked");       in create, when nothing can fail any more
 *     spn__audit_state(q, "closed");
 *     spn__audit_gone(q);                          in destroy, likewise
 *     spn__misuse("queue %p: ...", q);             with no lock held
 *
 * Without SPN_AUDIT all of it is nothing.
 */
#ifndef SPN__AUDIT_H
#define SPN__AUDIT_H

#include <spindle/audit.h>

#ifdef SPN_AUDIT

#include "base/log.h"

enum { SPN__AUDIT_NAME = 48, SPN__AUDIT_CALLERS = 8 };

/* All of it guarded by audit.c's lock. */
struct spn__audit {
    uintptr_t next, prev; /* hidden: see audit.c */
    uint64_t number;      /* in the order of making; 0: not listed */
    uint32_t generation;  /* of the process: see audit.c */
    uint32_t caller_count;
    const void *object;
    const char *kind, *state;
    char name[SPN__AUDIT_NAME];
    uintptr_t callers[SPN__AUDIT_CALLERS];
};

void spn__audit_add(struct spn__audit *audit, const void *object, const char *kind,
                    const char *name, const char *state, const void *frame);
void spn__audit_say(struct spn__audit *audit, const char *state);
void spn__audit_remove(struct spn__audit *audit);

#define SPN__AUDIT_FIELD struct spn__audit audit;
#define spn__audit_made(thing, kind, name, state)                     \
    spn__audit_add(&(thing)->audit, (thing), (kind), (name), (state), \
                   __builtin_frame_address(0))
#define spn__audit_state(thing, state) spn__audit_say(&(thing)->audit, (state))
#define spn__audit_gone(thing)         spn__audit_remove(&(thing)->audit)
/* At most one a second from a place: see log.h. */
#define spn__misuse(...) \
    spn__log_limited(SPN_LOG_WARN, SPN_SEC(1), "misuse: " __VA_ARGS__)

#else

#define SPN__AUDIT_FIELD
#define spn__audit_made(thing, kind, name, state) ((void)0)
#define spn__audit_state(thing, state)            ((void)0)
#define spn__audit_gone(thing)                    ((void)0)
#define spn__misuse(...)                          ((void)0)

#endif

#endif /* SPN__AUDIT_H */
