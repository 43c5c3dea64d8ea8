/* SPDX-License-Identifier: MIT */
#include "fj_kernel.h"

#include <string.h>

enum { INSERTION_MAX = 32, HASH_ROUNDS = 32 };

#define GAMMA UINT64_C(0x9e3779b97f4a7c15)

/* 2^64 x 0.1248: how often a node has children. */
#define FERTILE UINT64_C(2302153660398951936)

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* ---- the sort ------------------------------------------------------------- */

static void insertion_sort(uint32_t *a, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        const uint32_t x = a[i];
        size_t j = i;

        for (; j > 0 && a[j - 1] > x; j--)
            a[j] = a[j - 1];
        a[j] = x;
    }
}

/* The loop lies within one line of 64 bytes if the function begins in the middle of one.
 * Across two lines the whole sort takes 5 to 8 percent longer, and which it is was the
 * linker's choice, another one in the program of each peer. */
__attribute__((aligned(64), patchable_function_entry(32, 32))) void
fj_merge(uint32_t *to, const uint32_t *x, size_t nx, const uint32_t *y, size_t ny)
{
    const uint32_t *const x_end = x + nx, *const y_end = y + ny;

    while (x < x_end && y < y_end)
        *to++ = *y < *x ? *y++ : *x++;
    memcpy(to, x, (size_t)(x_end - x) * sizeof(*to));
    memcpy(to + (x_end - x), y, (size_t)(y_end - y) * sizeof(*to));
}

void fj_sort(uint32_t *a, size_t n, uint32_t *t, bool into_t)
{
    const size_t half = n / 2;

    if (n <= INSERTION_MAX) {
        insertion_sort(a, n);
        if (into_t)
            memcpy(t, a, n * sizeof(*a));
        return;
    }
    fj_sort(a, half, t, !into_t);
    fj_sort(a + half, n - half, t + half, !into_t);
    if (into_t)
        fj_merge(t, a, half, a + half, n - half);
    else
        fj_merge(a, t, half, t + half, n - half);
}

/* How many of a[0..n) come before x; equal ones too if `equal_too`. */
static size_t rank(const uint32_t *a, size_t n, uint32_t x, bool equal_too)
{
    size_t low = 0;

    while (n > 0) {
        const size_t half = n / 2;

        if (a[low + half] < x || (equal_too && a[low + half] == x)) {
            low += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return low;
}

size_t fj_merge_cut(const uint32_t *x, size_t nx, const uint32_t *y, size_t ny,
                    size_t *ix)
{
    if (nx >= ny) {
        *ix = nx / 2;
        return rank(y, ny, x[nx / 2], false);
    }
    *ix = rank(x, nx, y[ny / 2], true);
    return ny / 2;
}

void fj_fill(uint32_t *a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        a[i] = (uint32_t)(mix((uint64_t)i * GAMMA) >> 32);
}

/* ---- the tree ------------------------------------------------------------- */

uint64_t fj_child(uint64_t node, uint64_t index)
{
    uint64_t x = node + (index + 1) * GAMMA;

    for (int i = 0; i < HASH_ROUNDS; i++)
        x = mix(x + GAMMA);
    return x;
}

unsigned fj_children(uint64_t node)
{
    return node < FERTILE ? FJ_TREE_FAN : 0;
}
