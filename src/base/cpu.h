/* SPDX-License-Identifier: MIT */
/* cpu.h - the CPU limits as read from a file tree, for tests with fake ones. */
#ifndef SPN__CPU_H
#define SPN__CPU_H

#include <spindle/cpu.h>

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

#endif /* SPN__CPU_H */
