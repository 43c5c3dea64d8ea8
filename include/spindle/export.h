/* SPDX-License-Identifier: MIT */
#ifndef SPN_EXPORT_H
#define SPN_EXPORT_H

/* What every header needs to declare a function.  Nothing here is a promise
 * but the spelling of SPN_API and SPN_NODISCARD. */

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define SPN_API       __attribute__((visibility("default")))
#define SPN_NODISCARD __attribute__((warn_unused_result))
#else
#define SPN_API
#define SPN_NODISCARD
#endif

/* "Use the default", in option fields where 0 is a value of its own. */
#define SPN_DEFAULT INT_MIN

#endif /* SPN_EXPORT_H */
