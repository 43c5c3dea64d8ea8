/* SPDX-License-Identifier: MIT */
/*
 * host_hooks.c - a server that has an allocator and a log already gives them to the
 * library, before anything else, and looks at the end whether all came back.
 *
 * Here the allocator counts blocks and the log goes to standard output.
 */
#include <spindle.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_long blocks, most;

static void *host_alloc(void *ctx, size_t bytes, size_t alignment)
{
    void *memory;
    long now;

    (void)ctx;
    if (posix_memalign(&memory, alignment, bytes) != 0)
        return NULL;
    now = atomic_fetch_add(&blocks, 1) + 1;
    if (now > atomic_load(&most)) /* of one thread here */
        atomic_store(&most, now);
    return memory;
}

static void host_release(void *ctx, void *memory)
{
    (void)ctx;
    atomic_fetch_sub(&blocks, 1);
    free(memory);
}

/* Called by any thread, several at once: one write for a line. */
static void host_log(void *ctx, spn_log_level level, const char *message)
{
    fprintf(ctx, "[%s] %s\n", spn_log_level_name((int)level), message);
}

int main(void)
{
    static char job[] = "a job";
    spn_allocator allocator = SPN_ALLOCATOR_INIT;
    spn_queue *queue;
    void *item;

    allocator.alloc = host_alloc;
    allocator.release = host_release;
    if (spn_allocator_set(&allocator) != SPN_OK ||
        spn_log_set_hook(host_log, stdout) != SPN_OK ||
        spn_log_set_level(SPN_LOG_INFO) != SPN_OK)
        return 1;

    if (spn_queue_create(&queue, SPN_QUEUE_LINKED, NULL) != SPN_OK ||
        spn_queue_put(queue, job, 0) != SPN_OK ||
        spn_queue_take(queue, &item, 0) != SPN_OK || item != job ||
        spn_queue_destroy(queue) != SPN_OK)
        return 1;
    printf("at most %ld blocks\n", atomic_load(&most));
    /* A library that was built with SPINDLE_AUDIT knows; others say SPN_ENOTSUP. */
    if (spn_audit_each(NULL, NULL) > 0)
        return 1;
    return atomic_load(&most) > 0 ? 0 : 1;
}
