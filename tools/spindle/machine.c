/* SPDX-License-Identifier: MIT */
#include "machine.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#include "sync/seam.h"

/* ---- reading what the kernel shows -------------------------------------- */

/* The first line of a file, without its end; "" when it cannot be read. */
static bool read_line(const char *path, char *line, size_t capacity)
{
    FILE *file = fopen(path, "re");

    line[0] = '\0';
    if (file == NULL)
        return false;
    if (fgets(line, (int)capacity, file) == NULL)
        line[0] = '\0';
    fclose(file);
    line[strcspn(line, "\n")] = '\0';
    return line[0] != '\0';
}

static int64_t read_number(const char *path)
{
    char line[64], *end;
    long long number;

    if (!read_line(path, line, sizeof(line)))
        return UNKNOWN;
    if (strcmp(line, "max") == 0)
        return UNLIMITED;
    errno = 0;
    number = strtoll(line, &end, 10);
    return end == line || errno != 0 || number < 0 ? UNKNOWN : (int64_t)number;
}

static int64_t limit_of(int resource, bool hard)
{
    struct rlimit limit;
    rlim_t value;

    if (getrlimit((__rlimit_resource_t)resource, &limit) != 0)
        return UNKNOWN;
    value = hard ? limit.rlim_max : limit.rlim_cur;
    return value == RLIM_INFINITY || value > (rlim_t)INT64_MAX ? UNLIMITED
                                                               : (int64_t)value;
}

/* ---- the parts ----------------------------------------------------------- */

static void look_at_processor(struct machine *m)
{
    /* x86 and others say "model name"; AArch64 shows only numbers, so the
     * machine's own name has to do there. */
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[4096];

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        char *value = strchr(line, ':');

        if (value == NULL)
            continue;
        value += 1 + (value[1] == ' ');
        value[strcspn(value, "\n")] = '\0';
        if (strncmp(line, "model name", 10) == 0 && m->processor[0] == '\0')
            snprintf(m->processor, sizeof(m->processor), "%s", value);
        if (strncmp(line, "flags", 5) == 0 && strstr(value, " hypervisor") != NULL) {
            m->is_virtual = true;
            break; /* flags come after the name */
        }
    }
    if (file != NULL)
        fclose(file);
    if (m->processor[0] == '\0')
        (void)read_line("/sys/firmware/devicetree/base/model", m->processor,
                        sizeof(m->processor));
}

static void look_at_system(struct machine *m)
{
    struct utsname name;

    if (uname(&name) == 0)
        snprintf(m->kernel, sizeof(m->kernel), "%.20s %.60s %.20s", name.sysname,
                 name.release, name.machine);
#ifdef __GLIBC__
    snprintf(m->libc, sizeof(m->libc), "glibc %s", gnu_get_libc_version());
#endif
}

/*
 * A deadline in the past answers ETIMEDOUT and a changed word EAGAIN, at once:
 * each proves the call without sleeping.
 */
static void probe_futex(struct machine *m)
{
    static uint32_t word;
    const struct timespec past = { 0, 1 };
    const int wait = FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG;

#ifdef SPN_FUTEX_POSIX
    m->futex_is_posix = true;
#endif
    m->futex = m->futex_deadline = SUPPORT_MISSING;
    if (syscall(SYS_futex, &word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0) ==
            0 &&
        syscall(SYS_futex, &word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0) ==
            -1 &&
        errno == EAGAIN)
        m->futex = SUPPORT_WORKS;
    else
        m->futex_errno = errno;
    if (syscall(SYS_futex, &word, wait, 0, &past, NULL, FUTEX_BITSET_MATCH_ANY) == -1 &&
        errno == ETIMEDOUT)
        m->futex_deadline = SUPPORT_WORKS;
    else if (m->futex_errno == 0)
        m->futex_errno = errno;
}

static void probe_membarrier(struct machine *m)
{
    const long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);

    m->membarrier = SUPPORT_MISSING;
    if (commands < 0)
        m->membarrier_errno = errno;
    else if ((commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0)
        m->membarrier_errno = ENOSYS;
    else if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) !=
                 0 ||
             syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0)
        m->membarrier_errno = errno;
    else
        m->membarrier = SUPPORT_WORKS;
    m->fences_asymmetric = spn__fence_is_asymmetric();
}

static void look_at_time(struct machine *m)
{
    struct timespec resolution;
    double load;
    int slack;

    m->clock_resolution_ns = UNKNOWN;
    if (clock_getres(CLOCK_MONOTONIC, &resolution) == 0)
        m->clock_resolution_ns =
            (int64_t)resolution.tv_sec * 1000000000 + resolution.tv_nsec;
    (void)read_line("/sys/devices/system/clocksource/clocksource0/current_clocksource",
                    m->clocksource, sizeof(m->clocksource));
    slack = prctl(PR_GET_TIMERSLACK);
    m->timer_slack_ns = slack >= 0 ? slack : UNKNOWN;
    (void)read_line("/sys/devices/system/cpu/cpuidle/current_driver", m->idle_driver,
                    sizeof(m->idle_driver));
    if (!read_line("/sys/devices/system/cpu/cpuidle/current_governor", m->idle_governor,
                   sizeof(m->idle_governor)))
        (void)read_line("/sys/devices/system/cpu/cpuidle/current_governor_ro",
                        m->idle_governor, sizeof(m->idle_governor));
    m->load_percent = getloadavg(&load, 1) == 1 ? (int64_t)(load * 100) : UNKNOWN;
}

/* The smaller of two limits, where UNKNOWN says nothing. */
static int64_t tighter(int64_t a, int64_t b)
{
    if (a == UNKNOWN)
        return b;
    return b == UNKNOWN || a < b ? a : b;
}

/* pids.max of the group `path` under `mount` and of every group above it. */
static int64_t pids_limit_under(const char *mount, const char *path)
{
    char group[3072], file[4096];
    int64_t limit = UNKNOWN;

    /* A path that leads out of our own view of the tree names nothing here. */
    if (strstr(path, "..") != NULL)
        path = "";
    snprintf(group, sizeof(group), "%s", path);
    for (;;) {
        char *slash;

        snprintf(file, sizeof(file), "%s%s/pids.max", mount, group);
        limit = tighter(limit, read_number(file));
        slash = strrchr(group, '/');
        if (slash == NULL)
            return limit;
        *slash = '\0';
    }
}

static int64_t cgroup_pids_limit(void)
{
    FILE *file = fopen("/proc/self/cgroup", "re");
    int64_t limit = UNKNOWN;
    char line[3072];

    /* Each line is number:controllers:path; version 2 has number 0 and no
     * controllers. */
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        char *controllers = strchr(line, ':');
        char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;

        if (path == NULL)
            continue;
        *path++ = '\0';
        controllers++;
        path[strcspn(path, "\n")] = '\0';
        if (*controllers == '\0') {
            limit = tighter(limit, pids_limit_under("/sys/fs/cgroup", path));
            limit = tighter(limit, pids_limit_under("/sys/fs/cgroup/unified", path));
        } else if (strstr(controllers, "pids") != NULL) {
            limit = tighter(limit, pids_limit_under("/sys/fs/cgroup/pids", path));
        }
    }
    if (file != NULL)
        fclose(file);
    return limit;
}

/* RLIMIT_NPROC does not bind a process with one of these capabilities. */
static bool nproc_is_enforced(void)
{
    struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct data[2] = { { 0, 0, 0 }, { 0, 0, 0 } };
    const uint32_t exempt = 1U << CAP_SYS_RESOURCE | 1U << CAP_SYS_ADMIN;

    if (getuid() == 0)
        return false;
    return syscall(SYS_capget, &header, data) != 0 || (data[0].effective & exempt) == 0;
}

static void consider(struct machine *m, int64_t limit, const char *name)
{
    if (limit == UNKNOWN || (m->thread_limit != UNKNOWN && limit >= m->thread_limit))
        return;
    m->thread_limit = limit;
    m->thread_limit_by = name;
}

static void look_at_threads(struct machine *m)
{
    pthread_attr_t attr;
    size_t stack_size;

    m->nproc_limit = nproc_is_enforced() ? limit_of(RLIMIT_NPROC, false) : UNLIMITED;
    m->threads_max = read_number("/proc/sys/kernel/threads-max");
    m->pid_max = read_number("/proc/sys/kernel/pid_max");
    m->pids_limit = cgroup_pids_limit();
    m->map_count_max = read_number("/proc/sys/vm/max_map_count");
    m->address_space = limit_of(RLIMIT_AS, false);
    m->stack_size = UNKNOWN;
    if (pthread_attr_init(&attr) == 0) {
        if (pthread_attr_getstacksize(&attr, &stack_size) == 0)
            m->stack_size = (int64_t)stack_size;
        pthread_attr_destroy(&attr);
    }

    m->thread_limit = UNKNOWN;
    m->thread_limit_by = "";
    consider(m, m->nproc_limit, "RLIMIT_NPROC");
    consider(m, m->threads_max, "kernel.threads-max");
    consider(m, m->pid_max, "kernel.pid_max");
    consider(m, m->pids_limit, "the cgroup's pids.max");
    /* A stack and its guard page are two mappings. */
    if (m->map_count_max != UNKNOWN && m->map_count_max != UNLIMITED)
        consider(m, m->map_count_max / 2, "vm.max_map_count");
    if (m->address_space != UNKNOWN && m->address_space != UNLIMITED &&
        m->stack_size > 0)
        consider(m, m->address_space / m->stack_size,
                 "RLIMIT_AS, at the default stack size");
}

static void look_at_memory(struct machine *m)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

    m->memory_bytes = pages > 0 && page > 0 ? (int64_t)pages * page : UNKNOWN;
    m->overcommit = read_number("/proc/sys/vm/overcommit_memory");
    m->files_soft = limit_of(RLIMIT_NOFILE, false);
    m->files_hard = limit_of(RLIMIT_NOFILE, true);
}

void machine_look(struct machine *m)
{
    memset(m, 0, sizeof(*m));
    m->cpus = (spn_cpu_limits)SPN_CPU_LIMITS_INIT;
    if (spn_cpu_limits_get(&m->cpus) != SPN_OK)
        m->cpus.usable = 1;
    look_at_processor(m);
    look_at_system(m);
    probe_futex(m);
    probe_membarrier(m);
    look_at_time(m);
    look_at_threads(m);
    look_at_memory(m);
}
