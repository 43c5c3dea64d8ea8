/* SPDX-License-Identifier: MIT */
/*
 * fj_peers.h - the fork/join runtimes there are, and their entries among the subjects of
 * a workload, whether they were built or not.
 */
#ifndef FJ_PEERS_H
#define FJ_PEERS_H

#include "fj_load.h"

#ifdef __cplusplus
extern "C" {
#endif

/* fj_spindle.c */
extern const struct fj_kind fj_spindle;
extern const struct fj_kind fj_spindle_body;        /* W4 only */
extern const struct fj_kind fj_spindle_plain_merge; /* W5 only */
extern const struct fj_kind fj_hand;                /* the same */

/* A file of its own each. */
extern const struct fj_kind fj_tbb_invoke;
extern const struct fj_kind fj_tbb_group;
extern const struct fj_kind fj_omp;
const char *fj_tbb_version(void);
const char *fj_omp_version(void);

/* fj_programs.c: those of bench/peers. */
extern const struct fj_kind fj_java;
extern const struct fj_kind fj_go;
extern const struct fj_kind fj_rayon;
extern const struct fj_kind fj_rayon_merge; /* W5 only: merges in parallel, as ours */
const char *fj_java_version(void);
const char *fj_go_version(void);
const char *fj_rayon_version(void);

#ifdef __cplusplus
}
#endif

#define FJ_HAVE(fn, kind, number) .run = (fn), .object = &(kind), .version = (number)

#ifdef BENCH_HAVE_TBB
#define FJ_TBB(fn, kind) FJ_HAVE(fn, kind, fj_tbb_version)
#else
#define FJ_TBB(fn, kind) .package = "libtbb-dev"
#endif
#ifdef BENCH_HAVE_OPENMP
#define FJ_OMP(fn) FJ_HAVE(fn, fj_omp, fj_omp_version)
#else
#define FJ_OMP(fn) .package = "gcc, or libomp-dev with clang"
#endif
#ifdef BENCH_JAVA
#define FJ_JAVA(fn) FJ_HAVE(fn, fj_java, fj_java_version)
#else
#define FJ_JAVA(fn) .package = "default-jdk-headless"
#endif
#ifdef BENCH_GO
#define FJ_GO(fn) FJ_HAVE(fn, fj_go, fj_go_version)
#else
#define FJ_GO(fn) .package = "golang-go"
#endif
#ifdef BENCH_RAYON
#define FJ_RAYON(fn, kind) FJ_HAVE(fn, kind, fj_rayon_version)
#else
#define FJ_RAYON(fn, kind) .package = "rustc librust-rayon-core-dev"
#endif

/* All peers, as subjects of the workload that fn runs. */
#define FJ_PEERS(fn)                                                               \
    { .name = "rayon", FJ_RAYON(fn, fj_rayon), .detail = "rayon_core::join" },     \
        { .name = "java FJP",                                                      \
          FJ_JAVA(fn),                                                             \
          .detail = "ForkJoinPool; what is computed is in Java too" },             \
        { .name = "tbb invoke",                                                    \
          FJ_TBB(fn, fj_tbb_invoke),                                               \
          .detail = "tbb::parallel_invoke" },                                      \
        { .name = "tbb group",                                                     \
          FJ_TBB(fn, fj_tbb_group),                                                \
          .detail = "tbb::task_group" },                                           \
        { .name = "openmp", FJ_OMP(fn), .detail = "tasks of the compiler's own" }, \
    {                                                                              \
        .name = "go", FJ_GO(fn),                                                   \
        .detail = "a goroutine for each task, with a WaitGroup; computed in Go"    \
    }

#endif /* FJ_PEERS_H */
