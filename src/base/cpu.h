/* SPDX-License-Identifier: MIT */
/* cpu.h - limits of CPUs and memory as read from a file tree, for tests with fake ones. */
#ifndef SPN__CPU_H
#define SPN__CPU_H

#include <spindle/cpu.h>

#include "base/shared.h"

/*
 * Fills *limits from root/proc/self/{cgroup,mountinfo} and the cgroup files
 * under root, given what the kernel said of online CPUs and affinity (0: not
 * known).  root is "" for the real system; mount points are looked up below it.
 */
void spn__cpu_limits_read(spn_cpu_limits *limits, const char *root, uint32_t online,
                          uint32_t affinity);

/* How many CPUs are online, by root/sys/devices/system/cpu/online; where that
 * cannot be read, by the C library.  0: nobody knows. */
uint32_t spn__cpu_online_read(const char *root);

/*
 * The bytes of memory this process may use: what the machine has, or less if a control
 * group allows less; 0: nobody knows.  _read is for tests, as above, given what the
 * machine has.
 */
uint64_t spn__memory_limit_read(const char *root, uint64_t machine);
SPN__SHARED uint64_t spn__memory_limit(void);

#endif /* SPN__CPU_H */
