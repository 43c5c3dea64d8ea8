/* SPDX-License-Identifier: MIT */
/*
 * fj_kernel.h - what fork/join programs compute, without any fork or join.
 *
 * One object file serves every subject that is C, C++ or Rust, so that nothing but
 * the scheduling differs between them; Java and Go have the same lines in their own
 * words.
 *
 * THE SORT   A stable merge sort of 32-bit numbers that goes to and fro between the
 *   array and a scratch array of the same size: where the result of a part has to be
 *   is decided from above, so that a level costs one move for each number.
 *
 * THE TREE   A node is a 64-bit number, and that of a child is a hash of its parent's
 *   and of its index.  One node of eight, a trifle less, has eight children, so
 *   subtrees have a thousand nodes on average and a few have most of them: how the
 *   work divides cannot be known before it is done.  A hash takes about as long as
 *   the SHA-1 of one block, which the Unbalanced Tree Search benchmark uses.
 */
#ifndef FJ_KERNEL_H
#define FJ_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    FJ_SORT_CUTOFF = 2048, /* parts of so many are sorted by one task      */
    FJ_TREE_FAN = 8        /* children of a node that has any              */
};

/* Sorts a[0..n) with t[0..n) as scratch; the result is in t if into_t, else in a. */
void fj_sort(uint32_t *a, size_t n, uint32_t *t, bool into_t);

/* Merges two sorted parts; of equal numbers those of x come first. */
void fj_merge(uint32_t *to, const uint32_t *x, size_t nx, const uint32_t *y, size_t ny);

/* Cuts such a merge in two that can be done side by side: *ix of x and the returned
 * number of y make the first. */
size_t fj_merge_cut(const uint32_t *x, size_t nx, const uint32_t *y, size_t ny,
                    size_t *ix);

/* Fills a with numbers in no order; the same ones each time. */
void fj_fill(uint32_t *a, size_t n);

#define FJ_TREE_SEED UINT64_C(40)
uint64_t fj_child(uint64_t node, uint64_t index);
unsigned fj_children(uint64_t node); /* 0 or FJ_TREE_FAN */

#ifdef __cplusplus
}
#endif
#endif /* FJ_KERNEL_H */
