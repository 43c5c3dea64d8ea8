/* SPDX-License-Identifier: MIT */
/* options.c - the part of an options struct that only a newer program knows. */
#include "base/options.h"

bool spn__options_tail_is_zero(const void *options, size_t size, size_t user_size)
{
    const unsigned char *bytes = options;

    for (size_t i = size; i < user_size; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}
