/* SPDX-License-Identifier: MIT */
/*
 * fuzz.h - what a fuzz target stands on.  A target is one function, which libFuzzer calls
 * (clang), or replay.c with the files of its corpus (any compiler).
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define fuzz_require(condition)                                             \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                        \
        }                                                                   \
    } while (0)

#endif /* FUZZ_H */
