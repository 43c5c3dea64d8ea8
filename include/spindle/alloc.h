/* SPDX-License-Identifier: MIT */
#ifndef SPN_ALLOC_H
#define SPN_ALLOC_H

#include <spindle/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Where the library gets its memory: malloc, unless a program names its own
 * allocator before the library has allocated anything.
 *
 * Threads     alloc and release are called from any thread, several at once,
 *             never with a lock of the library held that they could want.
 * Callbacks   must not call the library.
 */
typedef struct spn_allocator {
    size_t size; /* sizeof(spn_allocator), set by SPN_ALLOCATOR_INIT */
    /* At least `bytes` at an address that is a multiple of `alignment` (a power
     * of two, at least sizeof(void *)); NULL when there is no memory. */
    void *(*alloc)(void *ctx, size_t bytes, size_t alignment);
    void (*release)(void *ctx, void *memory); /* memory is never NULL */
    void *ctx;                                /* borrowed for the process's life */
} spn_allocator;

#define SPN_ALLOCATOR_INIT                      \
    {                                           \
        sizeof(spn_allocator), NULL, NULL, NULL \
    }

/*
 * Makes `allocator` the library's allocator, for the rest of the process.
 * The struct is copied.  Never blocks.
 *
 * Returns  SPN_OK; SPN_EINVAL for NULL, a wrong size, or a missing function;
 *          SPN_ESTATE when one was set already or the library has allocated
 *          (memory from one allocator must not be released to another).
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_allocator_set(const spn_allocator *allocator);

#ifdef __cplusplus
}
#endif
#endif /* SPN_ALLOC_H */
