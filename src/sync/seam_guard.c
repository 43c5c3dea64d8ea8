/* SPDX-License-Identifier: MIT */
/*
 * seam_guard.c - a frame that no C++ exception passes.
 *
 * OVERVIEW
 *   A program's function that throws would unwind our frames, which know nothing of
 *   it: locks stay held, stages are forgotten, and whoever waits for them waits for
 *   ever.  So users' functions are called from below spn__guarded, whose frame has a
 *   personality routine of ours.  Looking for a handler, the unwinder asks it; it
 *   says what happened, and that the search has failed.  The C++ runtime then calls
 *   std::terminate, with nothing unwound yet: a core file shows who threw.  Other
 *   languages' runtimes might go on after a failed search: there we abort.
 *
 *   pthread_exit and pthread_cancel unwind as well, but without a search.  In a task of a
 *   pool's worker they pass, up to the worker's root (exec/worker.c); so they do on a thread
 *   of the program's.  A thread of ours that is no pool's worker `stays` (thread_record.h):
 *   there the process ends, with a line and nothing of ours unwound.
 *
 * WHY assembler?  A personality routine belongs to a function, and C has no word for
 * it.  A cleanup handler cannot do it: it runs when a handler has been found and the
 * frames below are gone, and is not told why.  Elsewhere than on x86-64 and AArch64
 * the call is a plain one.
 */
#include "sync/thread_record.h"

#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <unwind.h>

#if defined(__x86_64__) && defined(__LP64__) && defined(__ELF__)
#define GUARD_CODE                   \
    "endbr64\n\t"                    \
    "pushq %rbp\n\t"                 \
    ".cfi_def_cfa_offset 16\n\t"     \
    ".cfi_offset %rbp, -16\n\t"      \
    "movq %rsp, %rbp\n\t"            \
    ".cfi_def_cfa_register %rbp\n\t" \
    "movq %rdi, %rax\n\t"            \
    "movq %rsi, %rdi\n\t"            \
    "call *%rax\n\t"                 \
    "popq %rbp\n\t"                  \
    ".cfi_def_cfa %rsp, 8\n\t"       \
    "ret\n\t"
#elif defined(__aarch64__) && defined(__ELF__)
#define GUARD_CODE                  \
    "hint #34\n\t" /* bti c */      \
    "stp x29, x30, [sp, #-16]!\n\t" \
    ".cfi_def_cfa_offset 16\n\t"    \
    ".cfi_offset 29, -16\n\t"       \
    ".cfi_offset 30, -8\n\t"        \
    "mov x29, sp\n\t"               \
    "mov x2, x0\n\t"                \
    "mov x0, x1\n\t"                \
    "blr x2\n\t"                    \
    "ldp x29, x30, [sp], #16\n\t"   \
    ".cfi_restore 30\n\t"           \
    ".cfi_restore 29\n\t"           \
    ".cfi_def_cfa_offset 0\n\t"     \
    "ret\n\t"
#endif

#ifdef GUARD_CODE

/* Called by the unwinder, through the assembler below. */
_Unwind_Reason_Code spn__guard_personality(int version, _Unwind_Action actions,
                                           _Unwind_Exception_Class class,
                                           struct _Unwind_Exception *exception,
                                           struct _Unwind_Context *context);

/* The last four bytes of the class are the language: "C++" and a variant. */
static bool is_cplusplus(_Unwind_Exception_Class class)
{
    return (class & 0xffffff00u) == 0x432b2b00u;
}

static void say(const char *text, size_t length)
{
    if (write(STDERR_FILENO, text, length) < 0) {
        /* Nobody to tell; the core file still says where. */
    }
}

static _Unwind_Reason_Code end_of_thread(void)
{
    static const char text[] =
        "spindle: a function that spindle called ended its thread (pthread_exit or "
        "pthread_cancel), which only a task of a pool may: return a status instead\n";
    const struct spn_thread *self = spn__self_get();

    if (self == NULL || !self->stays)
        return _URC_CONTINUE_UNWIND;
    say(text, sizeof text - 1);
    abort();
}

__attribute__((used, visibility("hidden"))) _Unwind_Reason_Code spn__guard_personality(
    int version, _Unwind_Action actions, _Unwind_Exception_Class class,
    struct _Unwind_Exception *exception, struct _Unwind_Context *context)
{
    static const char text[] =
        "spindle: an exception left a function that spindle called, which nothing "
        "above can catch: catch it in that function and return a status instead\n";

    (void)version;
    (void)exception;
    (void)context;
    if ((actions & _UA_SEARCH_PHASE) == 0)
        return end_of_thread();
    say(text, sizeof text - 1);
    if (!is_cplusplus(class))
        abort();
    return _URC_FATAL_PHASE1_ERROR;
}

/* 0x1b: a 32-bit distance from here; the routine is in the same object. */
__asm__(".text\n\t"
        ".p2align 4\n\t"
        ".globl spn__guarded\n\t"
        ".protected spn__guarded\n\t"
        ".type spn__guarded, %function\n"
        "spn__guarded:\n\t"
        ".cfi_startproc\n\t"
        ".cfi_personality 0x1b, spn__guard_personality\n\t" GUARD_CODE
        ".cfi_endproc\n\t"
        ".size spn__guarded, . - spn__guarded\n");

#else

void spn__guarded(void (*body)(void *ctx), void *ctx)
{
    body(ctx);
}

#endif
