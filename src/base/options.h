/* SPDX-License-Identifier: MIT */
/*
 * options.h - options structs that can grow.
 *
 * The first field is the caller's sizeof, so a program and a library of
 * different age understand each other:
 *   older caller (smaller struct)   the fields it lacks read as 0, the default
 *   newer caller (larger struct)    fine while the fields we lack are 0
 *
 * A struct that begins with a size_t is a whole number of them long, and its fields
 * are numbers and pointers that do not lie across two: so a size that is not a
 * multiple is no struct's, and one that is cuts no field.
 */
#ifndef SPN__OPTIONS_H
#define SPN__OPTIONS_H

#include <stdbool.h>
#include <string.h>

#include <spindle/status.h>

#include "base/shared.h"

/* Larger than any options struct will be: a size beyond it was never set. */
#define SPN__OPTIONS_MAX 4096

/* Whether the bytes from `size` to user_size are all 0. */
SPN__SHARED bool spn__options_tail_is_zero(const void *options, size_t size,
                                           size_t user_size);

/* Copies caller options into a struct of this build's size, once, so that the
 * rest of the code never asks whether a field is present. */
static inline int spn__options_copy(void *to, size_t size, const void *from)
{
    size_t user_size;

    memcpy(&user_size, from, sizeof user_size);
    if (user_size < sizeof user_size || user_size > SPN__OPTIONS_MAX)
        return SPN_EINVAL; /* .size was never set */
    if (user_size % sizeof user_size != 0)
        return SPN_EINVAL; /* no sizeof: would end inside a field */
    if (user_size > size && !spn__options_tail_is_zero(from, size, user_size))
        return SPN_EINVAL; /* asks for what we do not have */
    memset(to, 0, size);
    memcpy(to, from, user_size < size ? user_size : size);
    return SPN_OK;
}

/* Copies a struct the library fills into a caller's of any age: what that one does not
 * know is left out, what we do not know reads as 0.  Its size field is the caller's. */
static inline int spn__output_copy(void *to, const void *from, size_t size)
{
    size_t user_size;

    memcpy(&user_size, to, sizeof user_size);
    if (user_size < sizeof user_size || user_size > SPN__OPTIONS_MAX)
        return SPN_EINVAL; /* .size was never set */
    memset(to, 0, user_size);
    memcpy(to, from, user_size < size ? user_size : size);
    memcpy(to, &user_size, sizeof user_size);
    return SPN_OK;
}

#endif /* SPN__OPTIONS_H */
