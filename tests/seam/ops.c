/* SPDX-License-Identifier: MIT */
/*
 * ops.c - every operation of the seam's atomics, in every order, written once and
 * compiled twice: through src/sync/seam.h, and with RAW as plain C11 atomics that
 * never see the seam.  tests/seam/check compares the machine code byte for byte.
 *
 * With PLANTED one order of the raw variant is weaker than it should be: the
 * comparison must notice that.
 */
#include <stdbool.h>
#include <stdint.h>

#ifdef RAW

#include <stdatomic.h>
#include <time.h>

#define ATOMIC(type)        _Atomic(type)
#define INIT(p, v)          atomic_init(p, v)
#define LOAD(p, mo)         atomic_load_explicit(p, memory_order_##mo)
#define STORE(p, v, mo)     atomic_store_explicit(p, v, memory_order_##mo)
#define EXCHANGE(p, v, mo)  atomic_exchange_explicit(p, v, memory_order_##mo)
#define FETCH(op, p, v, mo) atomic_fetch_##op##_explicit(p, v, memory_order_##mo)
#define FENCE()             atomic_thread_fence(memory_order_seq_cst)
#define CAS_STRONG(p, e, d, success, fail)                                   \
    atomic_compare_exchange_strong_explicit(p, e, d, memory_order_##success, \
                                            memory_order_##fail)
#define CAS_WEAK(p, e, d, success, fail)                                   \
    atomic_compare_exchange_weak_explicit(p, e, d, memory_order_##success, \
                                          memory_order_##fail)

static inline int64_t now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

#else

#include "sync/seam.h"

#define ATOMIC(type)                       SPN__ATOMIC(type)
#define INIT(p, v)                         spn__init(p, v)
#define LOAD(p, mo)                        spn__load(p, mo)
#define STORE(p, v, mo)                    spn__store(p, v, mo)
#define EXCHANGE(p, v, mo)                 spn__exchange(p, v, mo)
#define FETCH(op, p, v, mo)                spn__fetch_##op(p, v, mo)
#define FENCE()                            spn__fence(seq_cst)
#define CAS_STRONG(p, e, d, success, fail) spn__cas(p, e, d, success, fail)
#define CAS_WEAK(p, e, d, success, fail)   spn__cas_weak(p, e, d, success, fail)
#define now()                              spn__now()

#endif

#ifdef PLANTED
#define STORE_SEQ_CST relaxed
#else
#define STORE_SEQ_CST seq_cst
#endif

typedef ATOMIC(uint8_t) word8;
typedef ATOMIC(uint32_t) word32;
typedef ATOMIC(uint64_t) word64;
typedef ATOMIC(void *) wordp;
typedef ATOMIC(bool) wordb;

#define STORE_AS(p, v, mo) STORE(p, v, mo)

#define LOADS(tag, type, atomic, mo) \
    type tag##_load_##mo(atomic *p); \
    type tag##_load_##mo(atomic *p)  \
    {                                \
        return LOAD(p, mo);          \
    }
#define STORES(tag, type, atomic, name, mo)     \
    void tag##_store_##name(atomic *p, type v); \
    void tag##_store_##name(atomic *p, type v)  \
    {                                           \
        STORE_AS(p, v, mo);                     \
    }
#define EXCHANGES(tag, type, atomic, mo)         \
    type tag##_exchange_##mo(atomic *p, type v); \
    type tag##_exchange_##mo(atomic *p, type v)  \
    {                                            \
        return EXCHANGE(p, v, mo);               \
    }
#define FETCHES(tag, type, atomic, op, mo)           \
    type tag##_fetch_##op##_##mo(atomic *p, type v); \
    type tag##_fetch_##op##_##mo(atomic *p, type v)  \
    {                                                \
        return FETCH(op, p, v, mo);                  \
    }
#define CASES(tag, type, atomic, success, fail)                     \
    bool tag##_cas_##success##_##fail(atomic *p, type *e, type d);  \
    bool tag##_cas_##success##_##fail(atomic *p, type *e, type d)   \
    {                                                               \
        return CAS_STRONG(p, e, d, success, fail);                  \
    }                                                               \
    bool tag##_weak_##success##_##fail(atomic *p, type *e, type d); \
    bool tag##_weak_##success##_##fail(atomic *p, type *e, type d)  \
    {                                                               \
        return CAS_WEAK(p, e, d, success, fail);                    \
    }

#define EVERY_ORDER(X, ...) \
    X(__VA_ARGS__, relaxed) \
    X(__VA_ARGS__, acquire) \
    X(__VA_ARGS__, release) \
    X(__VA_ARGS__, acq_rel) \
    X(__VA_ARGS__, seq_cst)

#define MOVES(tag, type, atomic)                      \
    void tag##_init(atomic *p, type v);               \
    void tag##_init(atomic *p, type v)                \
    {                                                 \
        INIT(p, v);                                   \
    }                                                 \
    LOADS(tag, type, atomic, relaxed)                 \
    LOADS(tag, type, atomic, acquire)                 \
    LOADS(tag, type, atomic, seq_cst)                 \
    STORES(tag, type, atomic, relaxed, relaxed)       \
    STORES(tag, type, atomic, release, release)       \
    STORES(tag, type, atomic, seq_cst, STORE_SEQ_CST) \
    EVERY_ORDER(EXCHANGES, tag, type, atomic)         \
    CASES(tag, type, atomic, relaxed, relaxed)        \
    CASES(tag, type, atomic, acquire, relaxed)        \
    CASES(tag, type, atomic, acquire, acquire)        \
    CASES(tag, type, atomic, release, relaxed)        \
    CASES(tag, type, atomic, acq_rel, relaxed)        \
    CASES(tag, type, atomic, acq_rel, acquire)        \
    CASES(tag, type, atomic, seq_cst, relaxed)        \
    CASES(tag, type, atomic, seq_cst, acquire)        \
    CASES(tag, type, atomic, seq_cst, seq_cst)

#define ARITHMETIC(tag, type, atomic)            \
    EVERY_ORDER(FETCHES, tag, type, atomic, add) \
    EVERY_ORDER(FETCHES, tag, type, atomic, sub) \
    EVERY_ORDER(FETCHES, tag, type, atomic, or)  \
    EVERY_ORDER(FETCHES, tag, type, atomic, and)

MOVES(u8, uint8_t, word8)
MOVES(u32, uint32_t, word32)
MOVES(u64, uint64_t, word64)
MOVES(ptr, void *, wordp)
MOVES(flag, bool, wordb)
ARITHMETIC(u8, uint8_t, word8)
ARITHMETIC(u32, uint32_t, word32)
ARITHMETIC(u64, uint64_t, word64)

/* As code uses them: in structs, in loops, results unused. */
struct cell {
    word32 state;
    void *value;
    word64 count;
};

bool cell_fill(struct cell *c, void *value);
bool cell_fill(struct cell *c, void *value)
{
    uint32_t expected = 0;

    if (!CAS_STRONG(&c->state, &expected, 1u, relaxed, relaxed))
        return false;
    c->value = value;
    STORE(&c->state, 2u, release);
    (void)FETCH(add, &c->count, 1u, relaxed);
    return true;
}

uint64_t cell_raise(struct cell *c, uint64_t to);
uint64_t cell_raise(struct cell *c, uint64_t to)
{
    uint64_t seen = LOAD(&c->count, relaxed);

    while (seen < to && !CAS_WEAK(&c->count, &seen, to, acq_rel, relaxed)) {
    }
    FENCE();
    return LOAD(&c->state, acquire) == 2 ? seen : 0;
}

int64_t deadline(int64_t timeout_ns);
int64_t deadline(int64_t timeout_ns)
{
    return now() + timeout_ns;
}
