/* SPDX-License-Identifier: MIT */
/*
 * fiber.c - the context switch: all simulated threads live in one OS thread.
 *
 * OVERVIEW
 *   A stopped fiber is its stack pointer: the registers a called function must
 *   keep lie on its stack.  x86-64 and AArch64 have a dozen instructions of
 *   their own; elsewhere, or with SIM_UCONTEXT, ucontext does it, about five
 *   times slower because it saves the signal mask with two system calls.
 *
 * SANITIZERS
 *   AddressSanitizer must know the bounds of the stack in use.  A schedule that
 *   fails leaves its fibers where they are, with their frames' red zones still
 *   poisoned, so a stack is unpoisoned whenever it is used anew.
 *   ThreadSanitizer gets a fiber of its own per thread, and the switch carries
 *   no order: what is not ordered by the code under test is a race.  This file
 *   is itself compiled without -fsanitize=thread (SIM_TSAN says so).
 */
#include "fiber.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
void __sanitizer_start_switch_fiber(void **fake, const void *bottom, size_t size);
void __sanitizer_finish_switch_fiber(void *fake, const void **bottom, size_t *size);
void __asan_unpoison_memory_region(const volatile void *at, size_t size);
#endif
#ifdef SIM_TSAN
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
void __tsan_acquire(void *token);
void __tsan_release(void *token);
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
#define TSAN_SWITCH_NO_SYNC 1u
#endif

/* Whence the running fiber was switched to; AddressSanitizer tells its bounds. */
static struct fiber *came_from;

#ifndef SIM_UCONTEXT
void sim__switch_stack(void **save, void *load);

#if defined(__x86_64__)
__asm__(".text\n"
        ".globl sim__switch_stack\n"
        ".type sim__switch_stack, @function\n"
        "sim__switch_stack:\n"
        "    push %rbp\n"
        "    push %rbx\n"
        "    push %r12\n"
        "    push %r13\n"
        "    push %r14\n"
        "    push %r15\n"
        "    mov %rsp, (%rdi)\n"
        "    mov %rsi, %rsp\n"
        "    pop %r15\n"
        "    pop %r14\n"
        "    pop %r13\n"
        "    pop %r12\n"
        "    pop %rbx\n"
        "    pop %rbp\n"
        "    ret\n"
        ".size sim__switch_stack, .-sim__switch_stack\n");

/* Six registers, the address to return to, and a zero in its caller's place:
 * the entry finds the stack aligned as after a call. */
enum { FRAME_WORDS = 8, FRAME_ENTRY = 6 };
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl sim__switch_stack\n"
        ".type sim__switch_stack, %function\n"
        "sim__switch_stack:\n"
        "    sub sp, sp, #160\n"
        "    stp x19, x20, [sp, #0]\n"
        "    stp x21, x22, [sp, #16]\n"
        "    stp x23, x24, [sp, #32]\n"
        "    stp x25, x26, [sp, #48]\n"
        "    stp x27, x28, [sp, #64]\n"
        "    stp x29, x30, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n"
        "    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]\n"
        "    mov x9, sp\n"
        "    str x9, [x0]\n"
        "    mov sp, x1\n"
        "    ldp x19, x20, [sp, #0]\n"
        "    ldp x21, x22, [sp, #16]\n"
        "    ldp x23, x24, [sp, #32]\n"
        "    ldp x25, x26, [sp, #48]\n"
        "    ldp x27, x28, [sp, #64]\n"
        "    ldp x29, x30, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n"
        "    ldp d10, d11, [sp, #112]\n"
        "    ldp d12, d13, [sp, #128]\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    add sp, sp, #160\n"
        "    ret\n"
        ".size sim__switch_stack, .-sim__switch_stack\n");

/* Twenty words of registers; x30 is the address to return to. */
enum { FRAME_WORDS = 20, FRAME_ENTRY = 11 };
#endif
#endif /* SIM_UCONTEXT */

static void map_stack(struct fiber *fiber)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, page + FIBER_STACK_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED || mprotect(memory, page, PROT_NONE) != 0) {
        perror("sim: no memory for a stack");
        abort();
    }
    fiber->stack = memory + page;
    fiber->stack_size = FIBER_STACK_BYTES;
}

void fiber_home(struct fiber *home)
{
    /* Its bounds are learnt at the first switch away from it. */
#ifdef SIM_TSAN
    home->tsan = __tsan_get_current_fiber();
#else
    (void)home;
#endif
}

void fiber_prepare(struct fiber *fiber, void (*entry)(void))
{
    if (fiber->stack == NULL)
        map_stack(fiber);
#ifdef __SANITIZE_ADDRESS__
    __asan_unpoison_memory_region(fiber->stack, fiber->stack_size);
#endif
#ifdef SIM_TSAN
    /* A new one each time: an old one would bring its clock with it. */
    if (fiber->tsan != NULL)
        __tsan_destroy_fiber(fiber->tsan);
    fiber->tsan = __tsan_create_fiber(0);
#endif
#ifdef SIM_UCONTEXT
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = fiber->stack_size;
    fiber->context.uc_link = NULL;
    makecontext(&fiber->context, entry, 0);
#else
    uintptr_t *frame =
        (uintptr_t *)(void *)(fiber->stack + fiber->stack_size) - FRAME_WORDS;

    memset(frame, 0, FRAME_WORDS * sizeof *frame);
    frame[FRAME_ENTRY] = (uintptr_t)entry;
    fiber->sp = frame;
#endif
}

void fiber_switch(struct fiber *from, struct fiber *to, bool from_ends)
{
    came_from = from;
#ifdef SIM_TSAN
    __tsan_switch_to_fiber(to->tsan, TSAN_SWITCH_NO_SYNC);
#endif
#ifdef __SANITIZE_ADDRESS__
    void *fake = NULL;

    __sanitizer_start_switch_fiber(from_ends ? NULL : &fake, to->stack, to->stack_size);
#else
    (void)from_ends;
#endif
#ifdef SIM_UCONTEXT
    swapcontext(&from->context, &to->context);
#else
    sim__switch_stack(&from->sp, to->sp);
#endif
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fake, NULL, NULL);
#endif
}

void fiber_entered(void)
{
#ifdef __SANITIZE_ADDRESS__
    const void *bottom;
    size_t size;

    __sanitizer_finish_switch_fiber(NULL, &bottom, &size);
    came_from->stack = (char *)(uintptr_t)bottom;
    came_from->stack_size = size;
#endif
}

void fiber_release(void *token)
{
#ifdef SIM_TSAN
    __tsan_release(token);
#else
    (void)token;
#endif
}

void fiber_acquire(void *token)
{
#ifdef SIM_TSAN
    __tsan_acquire(token);
#else
    (void)token;
#endif
}

void fiber_release_for(struct fiber *fiber, struct fiber *home, void *token)
{
#ifdef SIM_TSAN
    __tsan_switch_to_fiber(fiber->tsan, TSAN_SWITCH_NO_SYNC);
    __tsan_release(token);
    __tsan_switch_to_fiber(home->tsan, TSAN_SWITCH_NO_SYNC);
#else
    (void)fiber;
    (void)home;
    (void)token;
#endif
}

void fiber_ignore_begin(void)
{
#ifdef SIM_TSAN
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
#endif
}

void fiber_ignore_end(void)
{
#ifdef SIM_TSAN
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
#endif
}
