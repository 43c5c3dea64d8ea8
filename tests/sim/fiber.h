/* SPDX-License-Identifier: MIT */
/* fiber.h - stacks and the switch between them; sanitizers are told. */
#ifndef SIM_FIBER_H
#define SIM_FIBER_H

#include <stdbool.h>
#include <stddef.h>

/* clang names its sanitizers by feature. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

#if !defined(SIM_UCONTEXT) && !defined(__x86_64__) && !defined(__aarch64__)
#define SIM_UCONTEXT 1
#endif
#ifdef SIM_UCONTEXT
#include <ucontext.h>
#endif

#define FIBER_STACK_BYTES ((size_t)64 * 1024)

struct fiber {
    void *sp;          /* where a stopped fiber continues             */
    char *stack;       /* lowest usable byte; below it a guard page   */
    size_t stack_size; /* differs only for the program's own stack    */
    void *tsan;        /* ThreadSanitizer's idea of the fiber         */
#ifdef SIM_UCONTEXT
    ucontext_t context;
#endif
};

/* Makes *home stand for the stack this is called on. */
void fiber_home(struct fiber *home);
/* Makes the fiber start entry() when next switched to; reuses its stack. */
void fiber_prepare(struct fiber *fiber, void (*entry)(void));
/* Stops `from` and continues `to`; with from_ends `from` never continues. */
void fiber_switch(struct fiber *from, struct fiber *to, bool from_ends);
/* The first thing entry() does. */
void fiber_entered(void);

/* Tells ThreadSanitizer of an order that no atomic access shows. */
void fiber_release(void *token);
void fiber_acquire(void *token);
/* The same release on behalf of a fiber that will never continue. */
void fiber_release_for(struct fiber *fiber, struct fiber *home, void *token);
/* Between these ThreadSanitizer does not look: libc calls of the engine's own. */
void fiber_ignore_begin(void);
void fiber_ignore_end(void);

#endif /* SIM_FIBER_H */
