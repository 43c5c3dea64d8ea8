/* SPDX-License-Identifier: MIT */
/*
 * hessian_arena.c - the memory of one message, and the table of addresses in it.
 *
 * OVERVIEW
 *   Blocks, of which the newest has a free rest; a piece is cut off its front.  The first
 *   block is made together with the arena and stays when it is reset, so that a server
 *   which uses its arenas again takes no memory from the system for a message of the
 *   usual size.  Further blocks double, up to 1 MiB, and go at the next reset.
 *
 *   The limit counts whole blocks, since those are what the process pays for.  A block
 *   that would pass it is made smaller, down to what is asked for.
 *
 *   Large blocks are mapped, so that the memory of a large message is the system's again
 *   when it is freed.  A request's arena takes all blocks but the first from the server's
 *   budget.
 *
 *   A failure is remembered: those who build a tree look once, at its end.
 */
#include "rpc/wire/hessian_value.h"

#include <string.h>

#include "base/options.h"
#include "sync/seam.h"

enum { BLOCK_DEFAULT = 4096, BLOCK_MIN = 256, BLOCK_MAX = 1 << 20 };
#define LIMIT_DEFAULT ((size_t)64 << 20)
#define ALIGNMENT     16

static struct spn__hblock *block_make(spn_harena *arena, size_t bytes)
{
    struct spn__hblock *block;

    if (!spn__budget_take(arena->budget, bytes, SPN__SHARE_REQUESTS)) {
        arena->is_over = true;
        return NULL;
    }
    block = spn__large_get(sizeof *block + bytes);
    if (block != NULL)
        block->bytes = bytes;
    else
        spn__budget_give(arena->budget, bytes);
    return block;
}

static void block_free(spn_harena *arena, struct spn__hblock *block)
{
    spn__budget_give(arena->budget, block->bytes);
    spn__large_put(block, sizeof *block + block->bytes);
}

static void use_block(spn_harena *arena, struct spn__hblock *block)
{
    arena->at = (unsigned char *)(block + 1);
    arena->end = arena->at + block->bytes;
    spn__harena_close(arena->at, block->bytes);
}

int spn_harena_create(spn_harena **out, const spn_harena_opts *opts)
{
    spn_harena_opts o = SPN_HARENA_OPTS_INIT;
    struct spn__hblock *block;
    spn_harena *arena;
    size_t bytes;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (opts != NULL && spn__options_copy(&o, sizeof o, opts) != SPN_OK)
        return SPN_EINVAL;
    if (o.limit_bytes == 0)
        o.limit_bytes = LIMIT_DEFAULT;
    if (o.block_bytes == 0)
        o.block_bytes = BLOCK_DEFAULT < o.limit_bytes ? BLOCK_DEFAULT : o.limit_bytes;
    if (o.block_bytes > o.limit_bytes || o.block_bytes > PTRDIFF_MAX / 2)
        return SPN_EINVAL;
    bytes = o.block_bytes < BLOCK_MIN ? BLOCK_MIN : o.block_bytes;
    bytes = (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    arena = spn__alloc(sizeof *arena + sizeof *block + bytes);
    if (arena == NULL)
        return SPN_ENOMEM;
    block = (struct spn__hblock *)(arena + 1);
    block->next = NULL;
    block->bytes = bytes;
    *arena = (spn_harena){
        .blocks = block,
        .limit = o.limit_bytes < bytes ? bytes : o.limit_bytes,
        .total = bytes,
    };
    use_block(arena, block);
    *out = arena;
    return SPN_OK;
}

void spn_harena_reset(spn_harena *arena)
{
    if (arena == NULL)
        return;
    while (arena->blocks->next != NULL) {
        struct spn__hblock *block = arena->blocks;

        arena->blocks = block->next;
        spn__harena_give(block + 1, block->bytes);
        block_free(arena, block);
    }
    arena->total = arena->blocks->bytes;
    arena->full = 0;
    arena->status = SPN_OK;
    arena->is_over = false;
    use_block(arena, arena->blocks);
}

void spn_harena_destroy(spn_harena *arena)
{
    if (arena == NULL)
        return;
    spn_harena_reset(arena);
    spn__harena_give(arena->blocks + 1, arena->blocks->bytes);
    spn__free(arena);
}

#ifdef SPN__HARENA_CHECKED
enum { FACTOR = 2 * 36 };
#else
enum { FACTOR = 36 };
#endif

size_t spn__harena_for(size_t message_bytes)
{
    return message_bytes < (LIMIT_DEFAULT - SPN__HARENA_FREE) / FACTOR
               ? SPN__HARENA_FREE + FACTOR * message_bytes
               : LIMIT_DEFAULT;
}

size_t spn__harena_narrow(spn_harena *arena, size_t message_bytes)
{
    const size_t limit = arena->limit;
    const size_t more = spn__harena_for(message_bytes);

    if (limit - arena->total > more)
        arena->limit = arena->total + more;
    return limit;
}

void spn__harena_widen(spn_harena *arena, size_t limit)
{
    arena->limit = limit;
    if (arena->status == SPN_ERANGE)
        arena->status = SPN_OK;
}

void *spn__harena_more(spn_harena *arena, size_t bytes, size_t alignment)
{
    const size_t left = arena->limit - arena->total;
    size_t size = arena->blocks->bytes * 2;
    struct spn__hblock *block;

    if (arena->status != SPN_OK)
        return NULL; /* what is missing one piece needs no more of them */
    if (bytes > left ||
        (bytes = (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1)) > left) {
        arena->status = SPN_ERANGE;
        return NULL;
    }
    if (size > BLOCK_MAX)
        size = BLOCK_MAX;
    if (size > left)
        size = left & ~(size_t)(ALIGNMENT - 1);
    if (size < bytes)
        size = bytes;
    block = block_make(arena, size);
    if (block == NULL) {
        arena->status = SPN_ENOMEM;
        return NULL;
    }
    block->next = arena->blocks;
    arena->blocks = block;
    arena->full = arena->total;
    arena->total += size;
    use_block(arena, block);
    return spn__harena_get(arena, bytes, alignment);
}

void *spn__harena_grow(spn_harena *arena, const void *old, size_t used, size_t wanted,
                       size_t item_bytes)
{
    void *grown = NULL;

    if (wanted > SIZE_MAX / 2 / item_bytes) {
        arena->status = SPN_ERANGE;
        return NULL;
    }
    grown = spn__harena_get(arena, wanted * item_bytes, sizeof(void *));
    if (grown != NULL && used > 0)
        memcpy(grown, old, used * item_bytes);
    return grown;
}

void *spn_harena_alloc(spn_harena *arena, size_t bytes)
{
    return arena != NULL ? spn__harena_get(arena, bytes, ALIGNMENT) : NULL;
}

int spn_harena_status(const spn_harena *arena)
{
    return arena != NULL ? arena->status : SPN_EINVAL;
}

const char *spn__harena_name(spn_harena *arena, const char *name, size_t length)
{
    char *copy = spn__harena_get(arena, length + 1, 1);

    if (copy == NULL)
        return NULL;
    memcpy(copy, name, length);
    copy[length] = '\0';
    return copy;
}

/* ---- addresses ----------------------------------------------------------------- */

/* Up to here one looks at all: they are in one or two cache lines. */
enum { HASHED_FROM = 8 };

static uint32_t place(const struct spn__hid *id, uint32_t mask)
{
    uint64_t x = (uint64_t)(uintptr_t)id->key ^ ((uint64_t)(uintptr_t)id->type << 1);

    x ^= x >> 32;
    x *= UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(x >> 32) & mask;
}

struct spn__hid *spn__hids_find(const struct spn__hids *ids, const void *key,
                                const void *type)
{
    const struct spn__hid wanted = { .key = key, .type = type };
    const uint32_t mask = ids->capacity * 2 - 1;

    if (ids->hashed == NULL) {
        for (uint32_t i = 0; i < ids->count; i++)
            if (ids->ids[i].key == key && ids->ids[i].type == type)
                return &ids->ids[i];
        return NULL;
    }
    for (uint32_t at = place(&wanted, mask);; at = (at + 1) & mask) {
        struct spn__hid *id;

        if (ids->hashed[at] == 0)
            return NULL;
        id = &ids->ids[ids->hashed[at] - 1];
        if (id->key == key && id->type == type)
            return id;
    }
}

static void hash(struct spn__hids *ids, uint32_t index)
{
    const uint32_t mask = ids->capacity * 2 - 1;
    uint32_t at = place(&ids->ids[index], mask);

    while (ids->hashed[at] != 0)
        at = (at + 1) & mask;
    ids->hashed[at] = index + 1;
}

static bool grow(struct spn__hids *ids, spn_harena *arena)
{
    const uint32_t capacity = ids->capacity == 0 ? HASHED_FROM : ids->capacity * 2;
    struct spn__hid *larger;

    if (capacity > UINT32_MAX / 4) {
        arena->status = SPN_ERANGE;
        return false;
    }
    larger = spn__harena_grow(arena, ids->ids, ids->count, capacity, sizeof *larger);
    if (larger == NULL)
        return false;
    if (capacity > HASHED_FROM) {
        uint32_t *hashed = spn__harena_new(arena, uint32_t, (size_t)capacity * 2);

        if (hashed == NULL)
            return false;
        memset(hashed, 0, sizeof *hashed * (size_t)capacity * 2);
        ids->hashed = hashed;
    }
    ids->ids = larger;
    ids->capacity = capacity;
    if (ids->hashed != NULL)
        for (uint32_t i = 0; i < ids->count; i++)
            hash(ids, i);
    return true;
}

struct spn__hid *spn__hids_add(struct spn__hids *ids, spn_harena *arena,
                               const void *key, const void *type, uint32_t number)
{
    struct spn__hid *id;

    if (ids->count == ids->capacity && !grow(ids, arena))
        return NULL;
    id = &ids->ids[ids->count++];
    *id = (struct spn__hid){ .key = key, .type = type, .number = number };
    if (ids->hashed != NULL)
        hash(ids, ids->count - 1);
    return id;
}
