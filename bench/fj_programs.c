/* SPDX-License-Identifier: MIT */
/*
 * Fork/join in other languages: how the programs of bench/peers are started.
 */
#include "fj_peers.h"

#ifdef BENCH_JAVA
/* A join there runs whatever it finds, on the joiner's stack: the tree search overflows
 * the usual 1 MiB now and then.  What is not touched of the larger one costs nothing. */
static const char *const java[] = { BENCH_JAVA,  "-Xss512m", "-cp",
                                    BENCH_PEERS, "FjPeer",   NULL };

const struct fj_kind fj_java = { .command = java, .program_kind = "fork-join" };
const char *fj_java_version(void)
{
    return BENCH_JAVA_VERSION;
}
#endif

#ifdef BENCH_GO
static const char *const go[] = { BENCH_PEERS "/fj_peer_go", NULL };

const struct fj_kind fj_go = { .command = go,
                               .program_kind = "goroutine",
                               .fib_max = FJ_FIB_SLOW };
const char *fj_go_version(void)
{
    return BENCH_GO;
}
#endif

#ifdef BENCH_RAYON
static const char *const rayon[] = { BENCH_PEERS "/fj_peer_rayon", NULL };

const struct fj_kind fj_rayon = { .command = rayon, .program_kind = "join" };
const struct fj_kind fj_rayon_merge = { .command = rayon, .program_kind = "merge" };
const char *fj_rayon_version(void)
{
    return BENCH_RAYON;
}
#endif
