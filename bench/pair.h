/* SPDX-License-Identifier: MIT */
/*
 * pair.h - what workloads with two threads share: words on cache lines of their
 * own, the bare futex, and a spin that ends even when both share a CPU.
 */
#ifndef PAIR_H
#define PAIR_H

#include <linux/futex.h>
#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

struct word {
    alignas(64) _Atomic(uint32_t) value;
};

static inline void futex_wait_while(_Atomic(uint32_t) *word, uint32_t old)
{
    while (atomic_load_explicit(word, memory_order_acquire) == old)
        (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
}

static inline void futex_set(_Atomic(uint32_t) *word, uint32_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Spins, and lets another thread run after some 10 µs of that. */
static inline void spin_pause(int *spins)
{
    if (++*spins % 1000 == 0)
        sched_yield();
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

#ifdef BENCH_HAVE_GLIB
#include <glib.h>
#include <stdio.h>

static inline const char *glib_version_text(void)
{
    static char text[32];

    snprintf(text, sizeof(text), "%u.%u.%u", glib_major_version, glib_minor_version,
             glib_micro_version);
    return text;
}
#define GLIB_SUBJECT(title, fn)                                \
    {                                                          \
        .name = title, .run = fn, .version = glib_version_text \
    }
#else
#define GLIB_SUBJECT(title, fn)                    \
    {                                              \
        .name = title, .package = "libglib2.0-dev" \
    }
#endif

#endif /* PAIR_H */
