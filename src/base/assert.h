/* SPDX-License-Identifier: MIT */
/*
 * assert.h - a broken invariant of ours ends the process with its place.
 *
 * Kept in release builds: use it where it is cheap.  A mistake of the caller is
 * a status, never this.  spn__debug_assert is for the dear ones.
 */
#ifndef SPN__ASSERT_H
#define SPN__ASSERT_H

#ifdef SPN_SIM
#include "sim.h"
#define spn__assert(condition) sim_assert(condition)
#else
#include "base/shared.h"

SPN__SHARED __attribute__((noreturn, cold)) void
spn__assert_failed(const char *condition, const char *file, int line);

#define spn__assert(condition)          \
    (__builtin_expect(!!(condition), 1) \
         ? (void)0                      \
         : spn__assert_failed(#condition, __FILE__, __LINE__))
#endif

#ifdef NDEBUG
#define spn__debug_assert(condition) ((void)(1 || (condition)))
#else
#define spn__debug_assert(condition) spn__assert(condition)
#endif

#endif /* SPN__ASSERT_H */
