/* SPDX-License-Identifier: MIT */
/*
 * machine.h - what the machine and the system give to this process.
 *
 * A number that could not be found out is UNKNOWN, one without a limit is
 * UNLIMITED, a text that could not be found out is empty.  Nothing here fails:
 * a container may hide any file and refuse any call.
 */
#ifndef MACHINE_H
#define MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include <spindle.h>

#define UNKNOWN   ((int64_t)-1)
#define UNLIMITED INT64_MAX

enum support { SUPPORT_UNKNOWN, SUPPORT_MISSING, SUPPORT_WORKS };

struct machine {
    spn_cpu_limits cpus;
    char processor[128]; /* the model's name                     */
    bool is_virtual;     /* the CPU says it is a guest           */
    char kernel[128];    /* "Linux 6.1.0 x86_64"                 */
    char libc[64];       /* "glibc 2.36"                         */

    enum support futex;          /* wait and wake, private words         */
    enum support futex_deadline; /* FUTEX_WAIT_BITSET, absolute deadline */
    int futex_errno;             /* why one of them is missing           */
    enum support membarrier;     /* private expedited, registered        */
    int membarrier_errno;
    bool fences_asymmetric; /* the library uses it                       */
    bool futex_is_posix;    /* this build sleeps on condition variables  */

    int64_t clock_resolution_ns; /* CLOCK_MONOTONIC                      */
    char clocksource[32];
    int64_t timer_slack_ns; /* how late a sleep may end               */
    char idle_driver[32];   /* cpuidle                                */
    char idle_governor[32];
    int64_t load_percent; /* runnable tasks in the last minute, 100 is one  */

    int64_t nproc_limit;   /* RLIMIT_NPROC; UNLIMITED where not enforced   */
    int64_t threads_max;   /* kernel.threads-max                           */
    int64_t pid_max;       /* kernel.pid_max                               */
    int64_t pids_limit;    /* the smallest pids.max of a cgroup above us   */
    int64_t map_count_max; /* vm.max_map_count: two maps a thread          */
    int64_t thread_limit;  /* the smallest of these                        */
    const char *thread_limit_by;
    int64_t stack_size; /* of a thread, by default                         */
    int64_t files_soft; /* RLIMIT_NOFILE                                   */
    int64_t files_hard;
    int64_t address_space; /* RLIMIT_AS                                    */
    int64_t memory_bytes;
    int64_t overcommit; /* vm.overcommit_memory: 0, 1 or 2                 */
};

void machine_look(struct machine *m);

#endif /* MACHINE_H */
