/* SPDX-License-Identifier: MIT */
#ifndef SPN_CPU_H
#define SPN_CPU_H

#include <spindle/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Which limit decided spn_cpu_limits.usable; the first that is smallest. */
typedef enum spn_cpu_limit {
    SPN_CPU_LIMIT_ONLINE = 0,   /* the machine has no more            */
    SPN_CPU_LIMIT_AFFINITY = 1, /* sched_setaffinity, taskset         */
    SPN_CPU_LIMIT_CPUSET = 2,   /* the cgroup's cpuset                */
    SPN_CPU_LIMIT_QUOTA = 3     /* the cgroup's CPU bandwidth quota   */
} spn_cpu_limit;

/* How many CPUs this process may really use, and why.  0 in a count means the
 * limit does not exist or could not be read.  Append only. */
typedef struct spn_cpu_limits {
    size_t size;            /* sizeof(spn_cpu_limits), set by the caller      */
    uint32_t usable;        /* the answer: at least 1                         */
    uint32_t reason;        /* spn_cpu_limit                                  */
    uint32_t online;        /* CPUs the machine has switched on               */
    uint32_t affinity;      /* CPUs in the calling thread's affinity mask     */
    uint32_t cpuset;        /* CPUs of the smallest cpuset above this process */
    uint32_t quota_percent; /* the smallest quota; 150 is one and a half CPUs */
    uint32_t cgroup;        /* 0 none found, 1 cgroup v1, 2 cgroup v2, 3 both */
    uint32_t reserved;      /* 0                                              */
} spn_cpu_limits;

#define SPN_CPU_LIMITS_INIT                            \
    {                                                  \
        sizeof(spn_cpu_limits), 0, 0, 0, 0, 0, 0, 0, 0 \
    }

/*
 * Asks the system now: affinity mask, cgroup v1 and v2 quota and cpuset, each
 * ancestor included.  A fraction of a CPU counts as a whole one.  Reads a few
 * files under /proc and the cgroup mounts, so keep the answer rather than ask
 * for each task; ask again when the answer may have changed.
 *
 * Returns  spn_cpu_count: at least 1, always.
 *          spn_cpu_limits_get: SPN_OK; SPN_EINVAL for NULL or a wrong size.
 * Since    0.1
 */
SPN_API int spn_cpu_count(void);
SPN_API SPN_NODISCARD
int spn_cpu_limits_get(spn_cpu_limits *limits);

#ifdef __cplusplus
}
#endif
#endif /* SPN_CPU_H */
