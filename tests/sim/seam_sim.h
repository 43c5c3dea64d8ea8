/* SPDX-License-Identifier: MIT */
/*
 * seam_sim.h - the names of src/sync/seam.h, routed to the schedule explorer.
 *
 * OVERVIEW
 *   Every use of a name below is a place in the source, a `site`: a static
 *   record with file, line, the text of the operand and the memory order.  The
 *   site is what a trace prints and what a mutant changes.
 *
 *   Values travel as 64 bits.  The engine, which keeps the histories and store
 *   buffers of the memory models, reads and writes the memory itself.
 *
 *   Under ThreadSanitizer the operation must be seen by the instrumentation, so
 *   there the macro makes the real atomic access, with the order as written,
 *   and the engine only schedules: sequential consistency is the one model.
 *
 * Names of temporaries carry __COUNTER__: a load may stand in the argument of a
 * store, and -Wshadow is on.
 */
#ifndef SEAM_SIM_H
#define SEAM_SIM_H

#ifndef SPN__SEAM_H
#error "include sync/seam.h, which includes this file in simulation builds"
#endif

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>

#include "sim.h"

/* ---- sites --------------------------------------------------------------- */

enum sim_op {
    SIM_OP_LOAD,
    SIM_OP_STORE,
    SIM_OP_EXCHANGE,
    SIM_OP_ADD,
    SIM_OP_SUB,
    SIM_OP_OR,
    SIM_OP_AND,
    SIM_OP_CAS,
    SIM_OP_CAS_WEAK,
    SIM_OP_FENCE,
    SIM_OP_LIGHT,
    SIM_OP_HEAVY,
    SIM_OP_RELAX,
    SIM_OP_YIELD,
    SIM_OP_WAIT,
    SIM_OP_WAKE,
    SIM_OP_CREATE,
    SIM_OP_JOIN,
    SIM_OP_DETACH,
    SIM_OP_NOW,
    SIM_OP_ALLOC,
    SIM_OP_FREE,
    SIM_OP_SETTLE,
    SIM_OP_SLEEP,
    SIM_OP_START,
    SIM_OP_EXIT,
    SIM_OP_FLUSH,
    SIM_OP_EXPIRE,
    SIM_OP_COUNT
};

struct sim_site {
    const char *file, *text;
    int line;
    uint8_t op;                     /* sim_op                                        */
    uint8_t order;                  /* memory_order as written                       */
    uint8_t failure;                /* of a CAS                                      */
    bool reached;                   /* known to mutate.c; the rest is set by then    */
    bool dropped;                   /* mutant: a fence or wake that does nothing     */
    uint8_t order_now, failure_now; /* as written, or weakened by a mutant */
    struct sim_site *next;
};

#define SIM__CAT_(a, b) a##b
#define SIM__CAT(a, b)  SIM__CAT_(a, b)
#define SIM__SITE(n, operation, words, order_, failure_) \
    static struct sim_site SIM__CAT(sim_site_, n) = {    \
        .file = __FILE__,                                \
        .text = words,                                   \
        .line = __LINE__,                                \
        .op = operation,                                 \
        .order = order_,                                 \
        .failure = failure_,                             \
    }
#define SIM__HERE(n) &SIM__CAT(sim_site_, n)

/* The type in the atomic, and its values to and from 64 bits. */
#define SIM__TYPE(p) \
    __typeof__(atomic_load_explicit(&(p)->spn__raw, memory_order_relaxed))
#define SIM__BITS(type, v)     \
    (((union {                 \
         type value;           \
         uint64_t bits;        \
     }){ .value = (type)(v) }) \
         .bits &               \
     (UINT64_MAX >> (64 - 8 * sizeof(type))))
#define SIM__VALUE(type, b) \
    (((union {              \
         uint64_t bits;     \
         type value;        \
     }){ .bits = (b) })     \
         .value)
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "low bytes come first");

/* ---- atomics ------------------------------------------------------------- */

#define SPN__ATOMIC(type)       \
    struct {                    \
        _Atomic(type) spn__raw; \
    }
#define SPN__ATOMIC_INIT(value) \
    {                           \
        value                   \
    }

#define spn__load(p, mo)     SIM__LOAD(__COUNTER__, p, #p, memory_order_##mo)
#define spn__store(p, v, mo) SIM__STORE(__COUNTER__, p, #p, v, memory_order_##mo)
#define spn__exchange(p, v, mo) \
    SIM__RMW(__COUNTER__, EXCHANGE, exchange, p, #p, v, memory_order_##mo)
#define spn__fetch_add(p, v, mo) \
    SIM__RMW(__COUNTER__, ADD, fetch_add, p, #p, v, memory_order_##mo)
#define spn__fetch_sub(p, v, mo) \
    SIM__RMW(__COUNTER__, SUB, fetch_sub, p, #p, v, memory_order_##mo)
#define spn__fetch_or(p, v, mo) \
    SIM__RMW(__COUNTER__, OR, fetch_or, p, #p, v, memory_order_##mo)
#define spn__fetch_and(p, v, mo) \
    SIM__RMW(__COUNTER__, AND, fetch_and, p, #p, v, memory_order_##mo)
#define spn__cas(p, expected, desired, success, failure)                         \
    SIM__CAS(__COUNTER__, CAS, p, #p, expected, desired, memory_order_##success, \
             memory_order_##failure)
#define spn__cas_weak(p, expected, desired, success, failure)                         \
    SIM__CAS(__COUNTER__, CAS_WEAK, p, #p, expected, desired, memory_order_##success, \
             memory_order_##failure)

/* What an expected value is compared through: the types must agree. */
#define SIM__EXPECTED(p, expected) (1 ? (expected) : (SIM__TYPE(p) *)NULL)

#if SPN__TSAN

#define spn__init(p, v) atomic_init(&(p)->spn__raw, (v))
#define SIM__LOAD(n, p, words, mo)                                        \
    __extension__({                                                       \
        SIM__SITE(n, SIM_OP_LOAD, words, mo, mo);                         \
        __typeof__(&(p)->spn__raw) SIM__CAT(sim_at_, n) = &(p)->spn__raw; \
        sim__point(SIM__HERE(n), SIM__CAT(sim_at_, n));                   \
        const SIM__TYPE(p) SIM__CAT(sim_v_, n) =                          \
            atomic_load_explicit(SIM__CAT(sim_at_, n), mo);               \
        sim__saw(SIM__BITS(SIM__TYPE(p), SIM__CAT(sim_v_, n)));           \
        SIM__CAT(sim_v_, n);                                              \
    })
#define SIM__STORE(n, p, words, v, mo)                                        \
    __extension__({                                                           \
        SIM__SITE(n, SIM_OP_STORE, words, mo, mo);                            \
        __typeof__(&(p)->spn__raw) SIM__CAT(sim_at_, n) = &(p)->spn__raw;     \
        const SIM__TYPE(p) SIM__CAT(sim_v_, n) = (SIM__TYPE(p))(v);           \
        sim__point(SIM__HERE(n), SIM__CAT(sim_at_, n));                       \
        atomic_store_explicit(SIM__CAT(sim_at_, n), SIM__CAT(sim_v_, n), mo); \
        sim__saw(SIM__BITS(SIM__TYPE(p), SIM__CAT(sim_v_, n)));               \
    })
#define SIM__RMW(n, OPERATION, operation, p, words, v, mo)                           \
    __extension__({                                                                  \
        SIM__SITE(n, SIM_OP_##OPERATION, words, mo, mo);                             \
        __typeof__(&(p)->spn__raw) SIM__CAT(sim_at_, n) = &(p)->spn__raw;            \
        const SIM__TYPE(p) SIM__CAT(sim_v_, n) = (SIM__TYPE(p))(v);                  \
        sim__point(SIM__HERE(n), SIM__CAT(sim_at_, n));                              \
        const SIM__TYPE(p) SIM__CAT(sim_old_, n) =                                   \
            atomic_##operation##_explicit(SIM__CAT(sim_at_, n), SIM__CAT(sim_v_, n), \
                                          mo);                                       \
        sim__saw(SIM__BITS(SIM__TYPE(p), SIM__CAT(sim_old_, n)));                    \
        SIM__CAT(sim_old_, n);                                                       \
    })
#define SIM__CAS(n, OPERATION, p, words, expected, desired, mo, failure)         \
    __extension__({                                                              \
        SIM__SITE(n, SIM_OP_##OPERATION, words, mo, failure);                    \
        __typeof__(&(p)->spn__raw) SIM__CAT(sim_at_, n) = &(p)->spn__raw;        \
        SIM__TYPE(p) * SIM__CAT(sim_e_, n) = (expected);                         \
        const SIM__TYPE(p) SIM__CAT(sim_v_, n) = (SIM__TYPE(p))(desired);        \
        sim__point(SIM__HERE(n), SIM__CAT(sim_at_, n));                          \
        bool SIM__CAT(sim_ok_, n) = false;                                       \
        if (sim__cas_fails(SIM__HERE(n)))                                        \
            *SIM__CAT(sim_e_, n) =                                               \
                atomic_load_explicit(SIM__CAT(sim_at_, n), failure);             \
        else                                                                     \
            SIM__CAT(sim_ok_, n) =                                               \
                atomic_compare_exchange_strong_explicit(SIM__CAT(sim_at_, n),    \
                                                        SIM__CAT(sim_e_, n),     \
                                                        SIM__CAT(sim_v_, n), mo, \
                                                        failure);                \
        sim__saw(SIM__CAT(sim_ok_, n));                                          \
        SIM__CAT(sim_ok_, n);                                                    \
    })

#else

/* Gives a value to an atomic that no other thread can reach yet.  The model
 * keeps what was there before as an older store: a thread to which the
 * initialisation was not published may still read it. */
#define spn__init(p, v) \
    sim__init(&(p)->spn__raw, sizeof((p)->spn__raw), SIM__BITS(SIM__TYPE(p), v))
#define SIM__LOAD(n, p, words, mo)                                                  \
    __extension__({                                                                 \
        SIM__SITE(n, SIM_OP_LOAD, words, mo, mo);                                   \
        SIM__VALUE(SIM__TYPE(p),                                                    \
                   sim__load(SIM__HERE(n), &(p)->spn__raw, sizeof((p)->spn__raw))); \
    })
#define SIM__STORE(n, p, words, v, mo)                                  \
    __extension__({                                                     \
        SIM__SITE(n, SIM_OP_STORE, words, mo, mo);                      \
        sim__store(SIM__HERE(n), &(p)->spn__raw, sizeof((p)->spn__raw), \
                   SIM__BITS(SIM__TYPE(p), v));                         \
    })
#define SIM__RMW(n, OPERATION, operation, p, words, v, mo)                       \
    __extension__({                                                              \
        SIM__SITE(n, SIM_OP_##OPERATION, words, mo, mo);                         \
        SIM__VALUE(SIM__TYPE(p),                                                 \
                   sim__rmw(SIM__HERE(n), &(p)->spn__raw, sizeof((p)->spn__raw), \
                            SIM__BITS(SIM__TYPE(p), v)));                        \
    })
#define SIM__CAS(n, OPERATION, p, words, expected, desired, mo, failure)        \
    __extension__({                                                             \
        SIM__SITE(n, SIM_OP_##OPERATION, words, mo, failure);                   \
        sim__cas(SIM__HERE(n), &(p)->spn__raw, sizeof((p)->spn__raw),           \
                 SIM__EXPECTED(p, expected), SIM__BITS(SIM__TYPE(p), desired)); \
    })

#endif

void sim__init(volatile void *at, size_t size, uint64_t value);
uint64_t sim__load(struct sim_site *site, const volatile void *at, size_t size);
void sim__store(struct sim_site *site, volatile void *at, size_t size, uint64_t value);
uint64_t sim__rmw(struct sim_site *site, volatile void *at, size_t size,
                  uint64_t operand);
bool sim__cas(struct sim_site *site, volatile void *at, size_t size, void *expected,
              uint64_t desired);
/* For ThreadSanitizer builds: the point alone, and then what was seen. */
void sim__point(struct sim_site *site, const volatile void *at);
void sim__saw(uint64_t value);
bool sim__cas_fails(const struct sim_site *site);

/* ---- fences ---------------------------------------------------------------- */

#if SPN__TSAN
/* The release seam does the same: ThreadSanitizer does not understand fences. */
extern _Atomic(uint32_t) sim__fence_word;
#define SIM__REAL_FENCE() \
    ((void)atomic_fetch_add_explicit(&sim__fence_word, 0u, memory_order_seq_cst))
#else
#define SIM__REAL_FENCE() ((void)0)
#endif
#define SIM__FENCE(n, OPERATION, words)                               \
    __extension__({                                                   \
        SIM__SITE(n, SIM_OP_##OPERATION, words, memory_order_seq_cst, \
                  memory_order_seq_cst);                              \
        sim__fence(SIM__HERE(n));                                     \
        SIM__REAL_FENCE();                                            \
    })

/* Only seq_cst exists; another word does not compile. */
#define SIM__FENCE_seq_cst(n) SIM__FENCE(n, FENCE, "")
#define spn__fence(mo)        SIM__FENCE_##mo(__COUNTER__)
/* A full one: no model but x86 says more of a read-modify-write. */
#define spn__fence_after_rmw() SIM__FENCE_seq_cst(__COUNTER__)
#define spn__fence_light()     SIM__FENCE(__COUNTER__, LIGHT, "")
#define spn__fence_heavy()     SIM__FENCE(__COUNTER__, HEAVY, "")
void sim__fence(struct sim_site *site);
bool spn__fence_is_asymmetric(void);

#define SIM__PLAIN(n, OPERATION, words, call)                         \
    __extension__({                                                   \
        SIM__SITE(n, SIM_OP_##OPERATION, words, memory_order_relaxed, \
                  memory_order_relaxed);                              \
        call;                                                         \
    })

/* A spinning thread runs again only after another one had its turn. */
#define spn__cpu_relax()         SIM__RELAX(__COUNTER__, RELAX)
#define spn__prefetch_write(p)   ((void)(p))
#define spn__glance(x)           ((void)sizeof(x), (void *)NULL)
#define SIM__RELAX(n, OPERATION) SIM__PLAIN(n, OPERATION, "", sim__yield(SIM__HERE(n)))
void sim__yield(struct sim_site *site);

/* One more look is all a spin can add; more would only lengthen schedules. */
#define SPN__SPIN_LIMIT      1
#define SPN__SPIN_LIMIT_LONG 1
#define SPN__WAKE_GUESS_NS   1
#define SPN__WAKES_ARE_TIMED 0
#define SPN__LOOKS_MAX       1

/* ---- futex ------------------------------------------------------------------ */

typedef SPN__ATOMIC(uint32_t) spn__futex_word;

#define spn__futex_wait(word, expected, deadline_ns) \
    SIM__WAIT(__COUNTER__, word, #word, expected, deadline_ns)
#define SIM__WAIT(n, word, words, expected, deadline_ns) \
    SIM__PLAIN(n, WAIT, words,                           \
               sim__futex_wait(SIM__HERE(n), (word), (expected), (deadline_ns)))
#define spn__futex_wake(word, count) SIM__WAKE(__COUNTER__, word, #word, count)
#define SIM__WAKE(n, word, words, count) \
    SIM__PLAIN(n, WAKE, words, sim__futex_wake(SIM__HERE(n), (word), (count)))
enum spn__futex_result sim__futex_wait(struct sim_site *site, spn__futex_word *word,
                                       uint32_t expected, int64_t deadline_ns);
void sim__futex_wake(struct sim_site *site, spn__futex_word *word, int count);

/* ---- threads ------------------------------------------------------------------ */

typedef int spn__os_thread;
typedef sigset_t spn__sigmask;

#define spn__os_thread_create(out, attr, entry, arg) \
    SIM__CREATE(__COUNTER__, out, attr, entry, arg, #entry)
#define SIM__CREATE(n, out, attr, entry, arg, words) \
    SIM__PLAIN(n, CREATE, words,                     \
               sim__thread_create(SIM__HERE(n), (out), (attr), (entry), (arg)))
#define spn__os_thread_join(thread) SIM__JOIN(__COUNTER__, thread, #thread)
/* What is left of a thread after its end is short: the limit does not matter. */
#define spn__os_thread_join_until(thread, deadline_ns) \
    ((void)(deadline_ns), spn__os_thread_join(thread), SPN_OK)
#define SIM__JOIN(n, thread, words) \
    SIM__PLAIN(n, JOIN, words, sim__thread_join(SIM__HERE(n), (thread)))
#define spn__os_thread_detach(thread) SIM__DETACH(__COUNTER__, thread, #thread)
#define SIM__DETACH(n, thread, words) \
    SIM__PLAIN(n, DETACH, words, sim__thread_detach(SIM__HERE(n), (thread)))
#define spn__os_yield() SIM__RELAX(__COUNTER__, YIELD)
int sim__thread_create(struct sim_site *site, spn__os_thread *out,
                       const struct spn__os_thread_attr *attr, void *(*entry)(void *),
                       void *arg);
void sim__thread_join(struct sim_site *site, spn__os_thread thread);
void sim__thread_detach(struct sim_site *site, spn__os_thread thread);

/* These touch only the calling thread: no point. */
int spn__os_set_sched(uint32_t sched, int32_t nice);
void spn__os_set_name(const char *name);
void spn__os_get_name(char name[16]);
void spn__os_get_sigmask(spn__sigmask *mask);
void spn__os_set_sigmask(const spn__sigmask *mask);
bool spn__os_on_fork_child(void (*restore)(void)); /* may be made to fail */
uintptr_t spn__os_stack_low(void);                 /* half a fiber's stack ahead */
int32_t spn__os_only_cpu(void);                    /* see sim_set_cpus */
int32_t spn__os_cpu(void);

struct sim__cleanup {
    void (*run)(void *);
    void *arg;
    struct sim__cleanup *outer;
};
#define SPN__CLEANUP_PUSH(cleanup, argument) \
    SIM__CLEANUP_PUSH(__COUNTER__, cleanup, argument)
#define SIM__CLEANUP_PUSH(n, cleanup, argument)                                  \
    {                                                                            \
        struct sim__cleanup SIM__CAT(sim_cleanup_, n) = { (cleanup), (argument), \
                                                          NULL };                \
        sim__cleanup_push(&SIM__CAT(sim_cleanup_, n));
#define SPN__CLEANUP_POP() \
    sim__cleanup_pop();    \
    }
void sim__cleanup_push(struct sim__cleanup *cleanup);
void sim__cleanup_pop(void);

static inline void spn__outlive(void (*body)(void *arg), void (*cleanup)(void *arg),
                                void *arg)
{
    SPN__CLEANUP_PUSH(cleanup, arg)
    body(arg);
    SPN__CLEANUP_POP()
}

#define spn__guarded(body, ctx) ((body)(ctx))

/* ---- the thread-local self pointer ------------------------------------------- */

void *spn__self_get(void);
bool spn__self_set(void *self, void (*destructor)(void *));

/* ---- clock, memory, randomness ------------------------------------------------ */

#define spn__now()  SIM__NOW(__COUNTER__)
#define SIM__NOW(n) SIM__PLAIN(n, NOW, "", sim__now(SIM__HERE(n)))
int64_t sim__now(struct sim_site *site);
#define spn__now_coarse() spn__now()

#define spn__alloc(bytes) SIM__ALLOC(__COUNTER__, bytes, sizeof(void *) * 2, #bytes)
#define spn__alloc_aligned(bytes, aligned) \
    SIM__ALLOC(__COUNTER__, bytes, aligned, #bytes)
#define SIM__ALLOC(n, bytes, aligned, words) \
    SIM__PLAIN(n, ALLOC, words, sim__alloc(SIM__HERE(n), (bytes), (aligned)))
#define spn__free(memory) SIM__FREE(__COUNTER__, memory, #memory)
#define SIM__FREE(n, memory, words) \
    SIM__PLAIN(n, FREE, words, sim__free(SIM__HERE(n), (memory)))
void *sim__alloc(struct sim_site *site, size_t bytes, size_t alignment);
void sim__free(struct sim_site *site, void *memory);
void *spn__os_alloc(size_t bytes, size_t alignment);
void spn__os_free(void *memory);
void *spn__mem_alloc(size_t bytes, size_t alignment); /* base/alloc.c */
void spn__mem_free(void *memory);
#define spn__mem_watched()           true                          /* by heap.c */
#define spn__os_map(bytes)           ((void)(bytes), (void *)NULL) /* never: watched */
#define spn__os_unmap(memory, bytes) ((void)(memory), (void)(bytes))
#define spn__os_remap(memory, bytes, more) \
    ((void)(memory), (void)(bytes), (void)(more), (void *)NULL) /* never, either */
#define spn__expect_use(memory, bytes) ((void)(memory), (void)(bytes))

/* ---- a descriptor that others can poll: a flag, see event.c ------------------- */

int spn__os_event_create(int *fd);
void spn__os_event_signal(int fd);
void spn__os_event_clear(int fd);
void spn__os_event_close(int fd);
bool sim_event_readable(int fd);
int spn__os_alarm_create(int *fd);
void spn__os_alarm_set(int fd, int64_t deadline_ns);
void spn__os_alarm_close(int fd);
int64_t sim_alarm_deadline(int fd);
#define spn__os_sleep_precisely() ((void)0)
#define spn__os_cancel_disable()  ((void)0)
#define spn__os_process()         INT32_C(1)
uint64_t spn__cycles(void); /* see sim_set_counter */
bool spn__cycles_usable(void);

uint64_t spn__random(void);

#endif /* SEAM_SIM_H */
