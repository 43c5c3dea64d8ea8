/* SPDX-License-Identifier: MIT */
/*
 * hessian_value.h - what a value is inside, and the memory it is in.
 *
 * A value without parts is 16 bytes, and the small ones (null, booleans, the numbers with a
 * code of one byte, the empty string) are constants that take none.  Lists, maps and
 * objects have a second half: they grow, have a type, and know their arena, since the
 * items they get must be of the same.  Identity is the address.
 */
#ifndef SPN__HESSIAN_VALUE_H
#define SPN__HESSIAN_VALUE_H

#include <assert.h>
#include <stdbool.h>

#include <spindle/hessian.h>

#include "net/budget.h"

struct spn_hvalue {
    uint8_t kind;   /* spn_hkind                                                  */
    uint8_t frozen; /* a constant, which belongs to every arena                   */
    uint16_t unused;
    uint32_t count; /* bytes of a string or binary; items, pairs or fields        */
    union {
        int64_t integer; /* bool, int, long, date                                 */
        double real;
        const char *bytes;  /* with a zero byte behind                            */
        spn_hvalue **items; /* of a map: key, value, key, value                   */
    } is;
};

/* What objects have in common: shared by those read from one definition, own to each that
 * is made by hand. */
struct spn__hclass {
    const char *name;
    const char **fields;
    uint32_t field_count;
    uint32_t capacity; /* of fields; 0: shared, not to be changed */
};

struct spn__hparts {
    spn_hvalue head;
    union {
        const char *name; /* list, map; NULL: none */
        struct spn__hclass *of;
    } type;
    spn_harena *arena;
    uint32_t capacity; /* of items */
    uint32_t unused;
};

static_assert(sizeof(struct spn_hvalue) == 16, "a value without parts");

static inline bool spn__has_parts(const spn_hvalue *value)
{
    return value->kind >= SPN_HLIST;
}

static inline struct spn__hparts *spn__parts(const spn_hvalue *value)
{
    return (struct spn__hparts *)(uintptr_t)value;
}

/* How many values its items are: two for each pair of a map. */
static inline size_t spn__slots(const spn_hvalue *value)
{
    return value->kind == SPN_HMAP ? (size_t)value->count * 2 : value->count;
}

/* ---- the arena -------------------------------------------------------------- */

struct spn__hblock {
    struct spn__hblock *next;
    size_t bytes; /* usable, behind this header */
};

struct spn_harena {
    unsigned char *at; /* the free rest of the newest block */
    unsigned char *end;
    struct spn__hblock *blocks; /* newest first; the first one made stands last */
    size_t limit;
    size_t total;               /* bytes of all blocks            */
    size_t full;                /* those of all but the newest    */
    int status;                 /* what could not be had, sticky until reset */
    bool is_over;               /* that was for want of room in the budget */
    struct spn__budget *budget; /* for all blocks but the first; NULL: not counted */
};

/*
 * What reading a message of so many bytes may take: SPN__HARENA_FREE, in which a small one
 * need not be weighed, and 36 for each byte; see docs/design/rpc-hessian.md for why so many.
 * Under AddressSanitizer, where pieces have a gap each, twice that.
 */
#define SPN__HARENA_FREE ((size_t)64 << 10)
size_t spn__harena_for(size_t message_bytes);
/* While a message is read: no more than that, beyond what is there.  Returns the limit as it
 * was, for widen; a message that was too large for it leaves the arena usable. */
size_t spn__harena_narrow(spn_harena *arena, size_t message_bytes);
void spn__harena_widen(spn_harena *arena, size_t limit);

/* How many bytes its values take. */
static inline size_t spn__harena_used(const spn_harena *arena)
{
    return arena->total - (size_t)(arena->end - arena->at);
}

/* The slow half: another block. */
void *spn__harena_more(spn_harena *arena, size_t bytes, size_t alignment);

#if defined(__SANITIZE_ADDRESS__)
#define SPN__HARENA_CHECKED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SPN__HARENA_CHECKED 1
#endif
#endif

/* Under AddressSanitizer what was not given out is poisoned, with a gap behind each piece:
 * an arena must not hide what runs over its end. */
#ifdef SPN__HARENA_CHECKED
#include <sanitizer/asan_interface.h>
#define SPN__HARENA_GAP              16
#define spn__harena_give(at, bytes)  __asan_unpoison_memory_region((at), (bytes))
#define spn__harena_close(at, bytes) __asan_poison_memory_region((at), (bytes))
#else
#define spn__harena_give(at, bytes)  ((void)(at), (void)(bytes))
#define spn__harena_close(at, bytes) ((void)(at), (void)(bytes))
#endif

/* Bytes at a multiple of `alignment` (a power of two, at most 16); NULL: see status. */
static inline void *spn__harena_get(spn_harena *arena, size_t bytes, size_t alignment)
{
    unsigned char *const at =
        arena->at + (-(uintptr_t)arena->at & (uintptr_t)(alignment - 1));

    if (__builtin_expect(at > arena->end || (size_t)(arena->end - at) < bytes, 0))
        return spn__harena_more(arena, bytes, alignment);
    spn__harena_give(at, bytes);
    arena->at = at + bytes;
#ifdef SPN__HARENA_CHECKED
    arena->at += (size_t)(arena->end - arena->at) < SPN__HARENA_GAP
                     ? (size_t)(arena->end - arena->at)
                     : SPN__HARENA_GAP;
#endif
    return at;
}

#define spn__harena_new(arena, type, count) \
    ((type *)spn__harena_get((arena), sizeof(type) * (size_t)(count), _Alignof(type)))

/* A larger array in place of one of `used` items; the old one stays until reset.  Growing
 * by doubling, so that all of them together take at most twice the last. */
void *spn__harena_grow(spn_harena *arena, const void *old, size_t used, size_t wanted,
                       size_t item_bytes);

/* ---- making values ----------------------------------------------------------- */

spn_hvalue *spn__hvalue_make(spn_harena *arena, spn_hkind kind);
spn_hvalue *spn__hvalue_parts(spn_harena *arena, spn_hkind kind);
spn_hvalue *spn__hvalue_integer(spn_harena *arena, spn_hkind kind, int64_t number);
spn_hvalue *spn__hvalue_real(spn_harena *arena, double number);
/* Room for that many items (of a map: twice the pairs). */
bool spn__hvalue_reserve(spn_hvalue *value, size_t slots);
/* The empty string and the empty binary. */
spn_hvalue *spn__hvalue_empty(spn_hkind kind);
/* A name in the arena; NULL: no memory. */
const char *spn__harena_name(spn_harena *arena, const char *name, size_t length);

/* Whether a double is that whole number, and fits. */
bool spn__real_to_integer(double number, int64_t *integer);

/* ---- which is which ------------------------------------------------------------ */

/* A table from addresses, with a type where one address may be two things, to numbers. */
struct spn__hids {
    struct spn__hid *ids; /* in the order they came */
    uint32_t *hashed;     /* from 16 on: index + 1, 0 is free; open addressing */
    uint32_t count;
    uint32_t capacity; /* of ids; hashed has twice as many */
};

struct spn__hid {
    const void *key;
    const void *type;
    uint32_t number;
    uint32_t times; /* for the user */
};

/* NULL: not there. */
struct spn__hid *spn__hids_find(const struct spn__hids *ids, const void *key,
                                const void *type);
/* Adds one that is not there; NULL: no memory.  Earlier results may have moved. */
struct spn__hid *spn__hids_add(struct spn__hids *ids, spn_harena *arena,
                               const void *key, const void *type, uint32_t number);

#endif /* SPN__HESSIAN_VALUE_H */
