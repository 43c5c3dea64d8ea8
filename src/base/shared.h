/* SPDX-License-Identifier: MIT */
/*
 * shared.h - functions of libspindle that libspindle-rpc calls and nobody else.
 *
 * They are exported under the version node SPINDLE_PRIVATE_<version> and change
 * with every version: the two libraries are always installed together, and the
 * dynamic linker refuses a pair that is not.  src/spindle.map lists them one by
 * one; scripts/check-symbols wants exactly those.
 *
 * Inside libspindle they are protected, so that its own calls stay direct; seen
 * from outside they are like any function of another library.
 */
#ifndef SPN__BASE_SHARED_H
#define SPN__BASE_SHARED_H

#if !defined(__GNUC__)
#define SPN__SHARED
#elif defined(SPN_BUILDS_SPINDLE)
#define SPN__SHARED __attribute__((visibility("protected")))
#else
#define SPN__SHARED __attribute__((visibility("default")))
#endif

#endif /* SPN__BASE_SHARED_H */
