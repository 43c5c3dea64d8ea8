/* SPDX-License-Identifier: MIT */
/*
 * heap.c - tracked allocation, and calls that are made to fail.
 *
 * OVERVIEW
 *   Memory of a schedule comes from an arena that is taken back whole at its
 *   end.  Freed blocks are used again at once, last in first out, within a size:
 *   the same schedule sees the same addresses relative to one another in every
 *   process, and a structure that suffers from reuse (ABA) meets it.  Sanitizer
 *   builds use malloc instead, because there it is watched.
 *
 *   What is still allocated when all threads have ended is a leak, named by the
 *   place that allocated it.
 *
 *   New memory holds 0xa5, freed memory 0xdd: what reads either, shows.
 */
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__) || defined(SIM_TSAN)
#define USE_MALLOC 1
#else
#define USE_MALLOC 0
#endif

#define ARENA_BYTES  ((size_t)256 << 20) /* reserved, not used */
#define GRAIN        16
#define REUSED_SIZES 128 /* times GRAIN; larger blocks are not used again */
#define FILL_NEW     0xa5
#define FILL_FREED   0xdd
#define ALIVE        UINT64_C(0x616c6976652e2e2e)

/* Directly before the block. */
struct header {
    struct header *next, *prev; /* of the live ones, or of the free ones */
    const struct sim_site *site;
    size_t bytes;
    void *raw; /* what malloc gave */
    uint64_t alive;
};

static struct header live = { .next = &live, .prev = &live };
static struct header *free_blocks[REUSED_SIZES];
static char *arena, *arena_top;

static struct sim_site os_alloc_site = { .file = "spn__os_alloc",
                                         .text = "",
                                         .op = SIM_OP_ALLOC };
static struct sim_site os_free_site = { .file = "spn__os_free",
                                        .text = "",
                                        .op = SIM_OP_FREE };

/* ---- faults -------------------------------------------------------------------- */

bool sim__fault(enum sim_fault kind)
{
    const struct sim_config *c = &engine.config;

    if (c->fault != SIM_FAULT_ANY && c->fault != kind)
        return false;
    engine.faults++;
    if (c->fail_at == 0)
        return false;
    return c->fail_from ? engine.faults >= c->fail_at : engine.faults == c->fail_at;
}

/* ---- blocks --------------------------------------------------------------------- */

static size_t round_up(size_t bytes, size_t grain)
{
    return (bytes + grain - 1) / grain * grain;
}

static struct header *from_arena(size_t bytes, size_t alignment)
{
    const size_t size = round_up(bytes, GRAIN) / GRAIN;
    struct header *h;
    char *block;

    if (size < REUSED_SIZES && free_blocks[size] != NULL &&
        (uintptr_t)(free_blocks[size] + 1) % alignment == 0) {
        h = free_blocks[size];
        free_blocks[size] = h->next;
        return h;
    }
    if (arena == NULL) {
        arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (arena == MAP_FAILED) {
            perror("sim: no memory for the arena");
            abort();
        }
        arena_top = arena;
    }
    block = (char *)round_up((uintptr_t)arena_top + sizeof *h, alignment);
    if (bytes > ARENA_BYTES || block + bytes > arena + ARENA_BYTES)
        return NULL;
    arena_top = (char *)round_up((uintptr_t)block + bytes, GRAIN);
    return (struct header *)(void *)block - 1;
}

static struct header *from_malloc(size_t bytes, size_t alignment)
{
    struct header *h;
    char *raw;

    if (bytes > SIZE_MAX - alignment - sizeof *h)
        return NULL;
    raw = malloc(bytes + alignment + sizeof *h);
    if (raw == NULL)
        return NULL;
    h = (struct header *)(void *)round_up((uintptr_t)raw + sizeof *h, alignment) - 1;
    h->raw = raw;
    return h;
}

static void give_back(struct header *h)
{
    const size_t size = round_up(h->bytes, GRAIN) / GRAIN;

    if (USE_MALLOC) {
        free(h->raw);
    } else if (size < REUSED_SIZES) {
        h->next = free_blocks[size];
        free_blocks[size] = h;
    }
}

/* ---- what the seam calls --------------------------------------------------------- */

void *sim__alloc(struct sim_site *site, size_t bytes, size_t alignment)
{
    struct header *h;

    sim__point(site, NULL);
    sim__event_value(bytes);
    if (sim__fault(SIM_FAULT_ALLOC))
        return NULL;
    if (alignment < GRAIN)
        alignment = GRAIN;
    h = USE_MALLOC ? from_malloc(bytes, alignment) : from_arena(bytes, alignment);
    if (h == NULL)
        return NULL; /* a request no machine can meet */
    h->next = live.next;
    h->prev = &live;
    live.next->prev = h;
    live.next = h;
    h->site = site;
    h->bytes = bytes;
    h->alive = ALIVE;
    memset(h + 1, FILL_NEW, bytes);
    sim__memory_gone(h + 1, bytes);
    return h + 1;
}

void sim__free(struct sim_site *site, void *memory)
{
    struct header *h;

    if (memory == NULL)
        return;
    h = (struct header *)memory - 1;
    sim__point(site, NULL);
    if (engine.current != NULL)
        sim__drain(engine.current);
    if (h->alive != ALIVE)
        sim__stop(SIM_ASSERTION, "%s:%d: freed twice, or never allocated: %s",
                  site->file, site->line, site->text);
    sim__memory_freed(site, memory, h->bytes);
    h->alive = 0;
    h->next->prev = h->prev;
    h->prev->next = h->next;
    memset(memory, FILL_FREED, h->bytes);
    give_back(h);
}

void *spn__os_alloc(size_t bytes, size_t alignment)
{
    return sim__alloc(&os_alloc_site, bytes, alignment);
}

void spn__os_free(void *memory)
{
    sim__free(&os_free_site, memory);
}

/* ---- what the engine calls ------------------------------------------------------- */

void sim__heap_begin(void)
{
    memset(free_blocks, 0, sizeof free_blocks);
    live.next = live.prev = &live;
    arena_top = arena;
}

bool sim__heap_leaks(char *text, size_t size)
{
    size_t blocks = 0;
    const struct header *oldest = live.prev;

    for (const struct header *h = live.next; h != &live; h = h->next)
        blocks++;
    if (blocks == 0)
        return false;
    (void)snprintf(text, size, "%zu block%s left, the oldest of %zu bytes from %s:%d",
                   blocks, blocks == 1 ? "" : "s", oldest->bytes, oldest->site->file,
                   oldest->site->line);
    return true;
}

void sim__heap_release(void)
{
    while (live.next != &live) {
        struct header *h = live.next;

        live.next = h->next;
        h->next->prev = &live;
        if (USE_MALLOC)
            free(h->raw);
    }
}
