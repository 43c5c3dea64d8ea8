/* SPDX-License-Identifier: MIT */
/*
 * The CPUs a process may use, read from fake trees: each case writes its own
 * /proc/self/{cgroup,mountinfo} and cgroup files below a temporary directory.
 */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cpu.h"

/* ---- fake trees -------------------------------------------------------------- */

static char tree[512]; /* "" when there is none */

static void make_tree(void)
{
    const char *where = getenv("TMPDIR");

    snprintf(tree, sizeof tree, "%s/spindle-cpu-XXXXXX",
             where != NULL ? where : "/tmp");
    REQUIRE(mkdtemp(tree) != NULL);
}

static int remove_entry(const char *path, const struct stat *st, int type,
                        struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static void remove_tree(void)
{
    CHECK_EQ(nftw(tree, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
    tree[0] = '\0';
}

static void write_bytes(const char *path, const char *bytes, size_t length)
{
    char whole[4096];
    int fd;

    REQUIRE(snprintf(whole, sizeof whole, "%s%s", tree, path) < (int)sizeof whole);
    for (char *slash = whole + strlen(tree) + 1; (slash = strchr(slash, '/')) != NULL;
         slash++) {
        *slash = '\0';
        REQUIRE(mkdir(whole, 0700) == 0 || errno == EEXIST);
        *slash = '/';
    }
    (void)unlink(whole); /* some file systems flush a file that is truncated */
    fd = open(whole, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    REQUIRE(fd >= 0);
    REQUIRE(write(fd, bytes, length) == (ssize_t)length);
    close(fd);
}

static void write_text(const char *path, const char *text)
{
    write_bytes(path, text, strlen(text));
}

static spn_cpu_limits read_tree(uint32_t online, uint32_t affinity)
{
    spn_cpu_limits limits;

    memset(&limits, 0xff, sizeof limits);
    spn__cpu_limits_read(&limits, tree, online, affinity);
    CHECK_EQ(limits.size, sizeof limits);
    CHECK_EQ(limits.online, online);
    CHECK_EQ(limits.affinity, affinity);
    CHECK_EQ(limits.reserved, 0);
    return limits;
}

#define CGROUP    "/proc/self/cgroup"
#define MOUNTINFO "/proc/self/mountinfo"

#define MOUNT_OTHERS                                           \
    "22 1 0:21 / /proc rw,relatime - proc proc rw\n"           \
    "23 1 0:22 / /sys rw,relatime shared:2 - sysfs sysfs rw\n" \
    "27 1 254:0 / / rw,relatime shared:1 master:3 - ext4 /dev/vda rw,discard\n"
#define MOUNT_V2(root) \
    MOUNT_OTHERS       \
    "30 23 0:26 " root \
    " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define MOUNT_V1_CPU(root)                                                       \
    "33 31 0:30 " root " /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup" \
    " rw,cpu,cpuacct\n"
#define MOUNT_V1_CPUSET(root) \
    "34 31 0:31 " root " /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
#define MOUNT_V1(root) MOUNT_OTHERS MOUNT_V1_CPU(root) MOUNT_V1_CPUSET(root)
#define MOUNT_HYBRID \
    MOUNT_V1("/")    \
    "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"

#define V2  "/sys/fs/cgroup"
#define V1  "/sys/fs/cgroup/cpu,cpuacct"
#define V1S "/sys/fs/cgroup/cpuset"
#define V1M "/sys/fs/cgroup/memory"
#define MOUNT_V1_MEMORY \
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"

/* ---- the table ----------------------------------------------------------------- */

enum { ONLINE, AFFINITY, CPUSET, QUOTA }; /* spn_cpu_limit, short */
enum { FILES_MAX = 10 };

static const struct {
    const char *name;
    struct {
        uint32_t online, affinity;
    } given;
    struct {
        uint32_t usable, reason, cpuset, quota_percent, cgroup;
    } expected;
    struct {
        const char *path, *text;
    } files[FILES_MAX];
} cases[] = {
    { "no /proc at all", { 8, 8 }, { 8, ONLINE, 0, 0, 0 }, { { 0 } } },
    { "nothing known: still one CPU", { 0, 0 }, { 1, ONLINE, 0, 0, 0 }, { { 0 } } },
    { "affinity alone", { 8, 3 }, { 3, AFFINITY, 0, 0, 0 }, { { 0 } } },
    { "affinity known, online not", { 0, 3 }, { 3, AFFINITY, 0, 0, 0 }, { { 0 } } },
    { "cgroup without mountinfo",
      { 8, 8 },
      { 8, ONLINE, 0, 0, 0 },
      { { CGROUP, "0::/\n" } } },
    { "mountinfo without cgroup",
      { 8, 8 },
      { 8, ONLINE, 0, 0, 0 },
      { { MOUNTINFO, MOUNT_V2("/") }, { V2 "/cpu.max", "100000 100000\n" } } },
    { "group without a mount",
      { 8, 8 },
      { 8, ONLINE, 0, 0, 0 },
      { { CGROUP, "0::/a\n" }, { MOUNTINFO, MOUNT_OTHERS } } },
    /* v2 */
    { "v2, no files (the controllers are off)",
      { 8, 8 },
      { 8, ONLINE, 0, 0, 2 },
      { { CGROUP, "0::/a\n" }, { MOUNTINFO, MOUNT_V2("/") } } },
    { "v2, max",
      { 8, 8 },
      { 8, ONLINE, 0, 0, 2 },
      { { CGROUP, "0::/a\n" },
        { MOUNTINFO, MOUNT_V2("/") },
        { V2 "/a/cpu.max", "max 100000\n" } } },
    { "v2, half a CPU is one",
      { 8, 8 },
      { 1, QUOTA, 0, 50, 2 },
      { { CGROUP, "0::/a\n" },
        { MOUNTINFO, MOUNT_V2("/") },
        { V2 "/a/cpu.max", "50000 100000\n" } } },
    { "v2, one and a half are two",
      { 8, 8 },
      { 2, QUOTA, 0, 150, 2 },
      { { CGROUP, "0::/a\n" },
        { MOUNTINFO, MOUNT_V2("/") },
        { V2 "/a/cpu.max", "150000 100000\n" } } },
    { "v2, a hair more than two are three",
      { 8, 8 },
      { 3, QUOTA, 0, 201, 2 },
      { { CGROUP, "0::/a\n" },
        { MOUNTINFO, MOUNT_V2("/") },
        { V2 "/a/cpu.max", "200001 100000\n" } } },
    { "v2, a quota above what the machine has",
      { 2, 2 },
      { 2, ONLINE, 0, 1600, 2 },
      { { CGROUP, "0::/a\n" },
        { MOUNTINFO, MOUNT_V2("/") },
        { V2 "/a/cpu.max", "1600000 100000\n" } } },
    { "v2, the parent has less",
      { 8, 8 },
      { 3, QUOTA, 0, 300, 2 },
      { { CGROUP, "0::/a/b/c\n" },
        { MOUNTINFO, MOUNT_V2("/") },
        { V2 "/a/b/c/cpu.max", "600000 100000\n" },
        { V2 "/a/b/cpu.max", "max 100000\n" },
        { V2 "/a/cpu.max", "300000 100000\n" } } },
    { "v2, the parent has more",
      { 8, 8 },
      { 2, QUOTA, 0, 200, 2 },
      { { CGROUP, "0::/a/b\n" },
        { MOUNTINFO, MOUNT_V2("/") },
        { V2 "/a/b/cpu.max", "200000 100000\n" },
        { V2 "/a/cpu.max", "300000 100000\n" } } },
    { "v2, siblings and children do not count",
      { 8, 8 },
      { 8, ONLINE, 0, 0, 2 },
      { { CGROUP, "0::/a/b\n" },
        { MOUNTINFO, MOUNT_V2("/") },
        { V2 "/a/b/child/cpu.max", "100000 100000\n" },
        { V2 "/a/sibling/cpu.max", "100000 100000\n" },
        { V2 "/b/cpu.max", "100000 100000\n" } } },
    { "v2, cpuset",
      { 8, 8 },
      { 5, CPUSET, 5, 0, 2 },
      { { CGROUP, "0::/a\n" },
        { MOUNTINFO, MOUNT_V2("/") },
        { V2 "/a/cpuset.cpus.effective", "0-1,4,6-7\n" } } },
    { "v2, an empty cpuset inherits",
      { 8, 8 },
      { 3, CPUSET, 3, 0, 2 },
      { { CGROUP, "0::/a/b\n" },
        { MOUNTINFO, MOUNT_V2("/") },
        { V2 "/a/b/cpuset.cpus.effective", "\n" },
        { V2 "/a/cpuset.cpus.effective", "2-4\n" },
        { V2 "/cpuset.cpus.effective", "0-7\n" } } },
    { "v2, equal limits: the first is the reason",
      { 4, 4 },
      { 4, ONLINE, 4, 400, 2 },
      { { CGROUP, "0::/a\n" },
        { MOUNTINFO, MOUNT_V2("/") },
        { V2 "/a/cpu.max", "400000 100000\n" },
        { V2 "/a/cpuset.cpus.effective", "0-3\n" } } },
    { "v2, cpuset and quota equal and smallest",
      { 8, 4 },
      { 2, CPUSET, 2, 150, 2 },
      { { CGROUP, "0::/a\n" },
        { MOUNTINFO, MOUNT_V2("/") },
        { V2 "/a/cpu.max", "150000 100000\n" },
        { V2 "/a/cpuset.cpus.effective", "0-1\n" } } },
    { "v2, group deleted under the process",
      { 8, 8 },
      { 2, QUOTA, 0, 200, 2 },
      { { CGROUP, "0::/a/gone (deleted)\n" },
        { MOUNTINFO, MOUNT_V2("/") },
        { V2 "/a/cpu.max", "200000 100000\n" } } },
    { "v2, colons and spaces in the group's name",
      { 8, 8 },
      { 2, QUOTA, 0, 200, 2 },
      { { CGROUP, "0::/a:b c:/d\n" },
        { MOUNTINFO, MOUNT_V2("/") },
        { V2 "/a:b c:/d/cpu.max", "200000 100000\n" } } },
    { "v2, no newline at the end of any file",
      { 8, 8 },
      { 3, QUOTA, 5, 300, 2 },
      { { CGROUP, "0::/a" },
        { MOUNTINFO, "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw" },
        { V2 "/a/cpu.max", "300000 100000" },
        { V2 "/a/cpuset.cpus.effective", "0-4" } } },
    /* containers */
    { "container with a cgroup namespace",
      { 8, 8 },
      { 3, QUOTA, 0, 250, 2 },
      { { CGROUP, "0::/\n" },
        { MOUNTINFO, MOUNT_V2("/") },
        { V2 "/cpu.max", "250000 100000\n" } } },
    { "container, the mount's root is the group",
      { 8, 8 },
      { 3, QUOTA, 0, 250, 2 },
      { { CGROUP, "0::/docker/abc\n" },
        { MOUNTINFO, MOUNT_V2("/docker/abc") },
        { V2 "/cpu.max", "250000 100000\n" },
        { V2 "/docker/abc/cpu.max", "100000 100000\n" } } },
    { "container, the group is below the mount's root",
      { 8, 8 },
      { 2, QUOTA, 0, 150, 2 },
      { { CGROUP, "0::/docker/abc/in/side\n" },
        { MOUNTINFO, MOUNT_V2("/docker/abc") },
        { V2 "/cpu.max", "250000 100000\n" },
        { V2 "/in/side/cpu.max", "150000 100000\n" },
        { V2 "/in/cpu.max", "max 100000\n" } } },
    { "container, the mount's root is unrelated: its top is read",
      { 8, 8 },
      { 3, QUOTA, 0, 250, 2 },
      { { CGROUP, "0::/user/me\n" },
        { MOUNTINFO, MOUNT_V2("/docker/abc") },
        { V2 "/cpu.max", "250000 100000\n" },
        { V2 "/user/me/cpu.max", "100000 100000\n" } } },
    { "a root that is a prefix of the name only is unrelated",
      { 8, 8 },
      { 3, QUOTA, 0, 250, 2 },
      { { CGROUP, "0::/docker/abc\n" },
        { MOUNTINFO, MOUNT_V2("/docker/ab") },
        { V2 "/cpu.max", "250000 100000\n" },
        { V2 "/c/cpu.max", "100000 100000\n" },
        { V2 "c/cpu.max", "100000 100000\n" } } },
    { "a mount from above the namespace: its top is an ancestor",
      { 8, 8 },
      { 3, QUOTA, 0, 250, 2 },
      { { CGROUP, "0::/\n" },
        { MOUNTINFO, MOUNT_V2("/..") },
        { V2 "/cpu.max", "250000 100000\n" } } },
    { "a group outside the namespace leads nowhere",
      { 8, 8 },
      { 3, QUOTA, 0, 250, 2 },
      { { CGROUP, "0::/../other\n" },
        { MOUNTINFO, MOUNT_V2("/") },
        { "/sys/fs/other/cpu.max", "100000 100000\n" },
        { V2 "/cpu.max", "250000 100000\n" } } },
    { "two dots that begin a name are a name",
      { 8, 8 },
      { 3, QUOTA, 0, 250, 2 },
      { { CGROUP, "0::/..a/b..\n" },
        { MOUNTINFO, MOUNT_V2("/") },
        { V2 "/..a/b../cpu.max", "250000 100000\n" } } },
    { "another container's mount does not count where one's own is seen",
      { 8, 8 },
      { 3, QUOTA, 0, 250, 2 },
      { { CGROUP, "0::/a\n" },
        { MOUNTINFO,
          "50 1 0:26 /docker/abc /run/c rw - cgroup2 cgroup2 rw\n" MOUNT_V2(
              "/") "51 1 0:26 /docker/abd /run/d rw - cgroup2 cgroup2 rw\n" },
        { "/run/c/cpu.max", "100000 100000\n" },
        { "/run/d/cpu.max", "100000 100000\n" },
        { V2 "/a/cpu.max", "250000 100000\n" } } },
    { "two mounts of one tree: the one that sees more counts",
      { 8, 8 },
      { 3, QUOTA, 0, 250, 2 },
      { { CGROUP, "0::/a/b\n" },
        { MOUNTINFO, "50 1 0:26 /a/b /run/c rw - cgroup2 cgroup2 rw\n" MOUNT_V2("/") },
        { "/run/c/cpu.max", "500000 100000\n" },
        { V2 "/a/b/cpu.max", "500000 100000\n" },
        { V2 "/a/cpu.max", "250000 100000\n" } } },
    /* v1 */
    { "v1, no quota",
      { 8, 8 },
      { 8, ONLINE, 0, 0, 1 },
      { { CGROUP, "4:cpu,cpuacct:/a\n3:cpuset:/a\n" },
        { MOUNTINFO, MOUNT_V1("/") },
        { V1 "/a/cpu.cfs_quota_us", "-1\n" },
        { V1 "/a/cpu.cfs_period_us", "100000\n" } } },
    { "v1, quota",
      { 8, 8 },
      { 3, QUOTA, 0, 250, 1 },
      { { CGROUP, "4:cpu,cpuacct:/a\n" },
        { MOUNTINFO, MOUNT_V1("/") },
        { V1 "/a/cpu.cfs_quota_us", "50000\n" },
        { V1 "/a/cpu.cfs_period_us", "20000\n" } } },
    { "v1, quota without a period",
      { 8, 8 },
      { 3, QUOTA, 0, 250, 1 },
      { { CGROUP, "4:cpu,cpuacct:/a\n" },
        { MOUNTINFO, MOUNT_V1("/") },
        { V1 "/a/cpu.cfs_quota_us", "250000\n" } } },
    { "v1, period 0",
      { 8, 8 },
      { 8, ONLINE, 0, 0, 1 },
      { { CGROUP, "4:cpu,cpuacct:/a\n" },
        { MOUNTINFO, MOUNT_V1("/") },
        { V1 "/a/cpu.cfs_quota_us", "50000\n" },
        { V1 "/a/cpu.cfs_period_us", "0\n" } } },
    { "v1, garbage for a period",
      { 8, 8 },
      { 8, ONLINE, 0, 0, 1 },
      { { CGROUP, "4:cpu,cpuacct:/a\n" },
        { MOUNTINFO, MOUNT_V1("/") },
        { V1 "/a/cpu.cfs_quota_us", "50000\n" },
        { V1 "/a/cpu.cfs_period_us", "100000 us\n" } } },
    { "v1, the parent has less",
      { 8, 8 },
      { 2, QUOTA, 0, 200, 1 },
      { { CGROUP, "4:cpu,cpuacct:/a/b\n" },
        { MOUNTINFO, MOUNT_V1("/") },
        { V1 "/a/b/cpu.cfs_quota_us", "400000\n" },
        { V1 "/a/b/cpu.cfs_period_us", "100000\n" },
        { V1 "/a/cpu.cfs_quota_us", "100000\n" },
        { V1 "/a/cpu.cfs_period_us", "50000\n" } } },
    { "v1, each hierarchy has its own group",
      { 8, 8 },
      { 3, CPUSET, 3, 500, 1 },
      { { CGROUP, "4:cpu,cpuacct:/a\n3:cpuset:/s\n2:memory:/m\n1:name=systemd:/n\n" },
        { MOUNTINFO, MOUNT_V1("/") },
        { V1 "/a/cpu.cfs_quota_us", "500000\n" },
        { V1 "/a/cpu.cfs_period_us", "100000\n" },
        { V1S "/s/cpuset.cpus", "0,2,4\n" },
        { V1S "/a/cpuset.cpus", "0\n" },
        { V1 "/s/cpu.cfs_quota_us", "100000\n" } } },
    { "v1, the effective cpuset before the configured one",
      { 8, 8 },
      { 3, CPUSET, 3, 0, 1 },
      { { CGROUP, "3:cpuset:/a\n" },
        { MOUNTINFO, MOUNT_V1("/") },
        { V1S "/a/cpuset.effective_cpus", "0-2\n" },
        { V1S "/a/cpuset.cpus", "0-1\n" } } },
    { "v1, the configured cpuset where the effective one is empty",
      { 8, 8 },
      { 2, CPUSET, 2, 0, 1 },
      { { CGROUP, "3:cpuset:/a\n" },
        { MOUNTINFO, MOUNT_V1("/") },
        { V1S "/a/cpuset.effective_cpus", "\n" },
        { V1S "/a/cpuset.cpus", "0-1\n" } } },
    { "v1, an empty cpuset inherits",
      { 8, 8 },
      { 2, CPUSET, 2, 0, 1 },
      { { CGROUP, "3:cpuset:/a/b\n" },
        { MOUNTINFO, MOUNT_V1("/") },
        { V1S "/a/b/cpuset.cpus", "\n" },
        { V1S "/a/cpuset.cpus", "0-1\n" },
        { V1S "/cpuset.cpus", "0-7\n" } } },
    { "v1, container with the mount's root",
      { 8, 8 },
      { 2, QUOTA, 4, 150, 1 },
      { { CGROUP, "4:cpu,cpuacct:/docker/abc\n3:cpuset:/docker/abc\n" },
        { MOUNTINFO, MOUNT_V1("/docker/abc") },
        { V1 "/cpu.cfs_quota_us", "150000\n" },
        { V1 "/cpu.cfs_period_us", "100000\n" },
        { V1S "/cpuset.cpus", "0-3\n" } } },
    { "v1, cpu and cpuset mounted together",
      { 8, 8 },
      { 3, QUOTA, 5, 300, 1 },
      { { CGROUP, "4:cpuset,cpu,cpuacct:/a\n" },
        { MOUNTINFO,
          "33 31 0:30 / /cg rw - cgroup none rw,relatime,cpuset,cpu,cpuacct\n" },
        { "/cg/a/cpu.cfs_quota_us", "300000\n" },
        { "/cg/a/cpu.cfs_period_us", "100000\n" },
        { "/cg/a/cpuset.cpus", "0-4\n" } } },
    { "v1, cpuacct and cpuset are not cpu",
      { 8, 8 },
      { 4, QUOTA, 0, 400, 1 },
      { { CGROUP, "5:cpuacct:/a\n3:cpuset:/a\n4:cpu:/b\n" },
        { MOUNTINFO, "33 31 0:30 / /acct rw - cgroup cgroup rw,cpuacct\n"
                     "34 31 0:31 / /set rw - cgroup cgroup rw,cpuset\n"
                     "35 31 0:32 / /cpu rw - cgroup cgroup rw,cpu\n" },
        { "/acct/a/cpu.cfs_quota_us", "100000\n" },
        { "/acct/b/cpu.cfs_quota_us", "100000\n" },
        { "/set/b/cpu.cfs_quota_us", "100000\n" },
        { "/cpu/a/cpu.cfs_quota_us", "100000\n" },
        { "/cpu/b/cpu.cfs_quota_us", "400000\n" } } },
    /* hybrid */
    { "hybrid, the controllers are in v1",
      { 8, 8 },
      { 3, QUOTA, 8, 250, 3 },
      { { CGROUP, "4:cpu,cpuacct:/a\n3:cpuset:/\n0::/a/unit\n" },
        { MOUNTINFO, MOUNT_HYBRID },
        { V1 "/a/cpu.cfs_quota_us", "250000\n" },
        { V1 "/a/cpu.cfs_period_us", "100000\n" },
        { "/sys/fs/cgroup/unified/a/unit/cgroup.procs", "1\n" },
        { V1S "/cpuset.effective_cpus", "0-7\n" } } },
    { "hybrid, both have limits: the smaller ones",
      { 8, 8 },
      { 3, CPUSET, 3, 350, 3 },
      { { CGROUP, "4:cpu,cpuacct:/a\n3:cpuset:/\n0::/a\n" },
        { MOUNTINFO, MOUNT_HYBRID },
        { V1 "/a/cpu.cfs_quota_us", "350000\n" },
        { V1 "/a/cpu.cfs_period_us", "100000\n" },
        { V1S "/cpuset.effective_cpus", "0-5\n" },
        { "/sys/fs/cgroup/unified/a/cpu.max", "450000 100000\n" },
        { "/sys/fs/cgroup/unified/a/cpuset.cpus.effective", "0-2\n" } } },
    /* the form of mountinfo and of cgroup */
    { "escapes in root and mount point",
      { 8, 8 },
      { 3, QUOTA, 0, 250, 2 },
      { { CGROUP, "0::/a b/c\\d\n" },
        { MOUNTINFO,
          "30 23 0:26 /a\\040b /m\\134n\\011o\\999p rw - cgroup2 cgroup2 rw\n" },
        { "/m\\n\to\\999p/c\\d/cpu.max", "250000 100000\n" } } },
    { "no source, no super options",
      { 8, 8 },
      { 2, QUOTA, 0, 200, 3 },
      { { CGROUP, "0::/\n4:cpu:/\n" },
        { MOUNTINFO, "30 23 0:26 / /m rw shared:1 master:2 unbindable - cgroup2\n"
                     "31 23 0:27 / /n rw - cgroup  rw,cpu\n" },
        { "/m/cpu.max", "250000 100000\n" },
        { "/n/cpu.cfs_quota_us", "200000\n" } } },
    { "a mount at /",
      { 8, 8 },
      { 3, QUOTA, 0, 250, 2 },
      { { CGROUP, "0::/a\n" },
        { MOUNTINFO, "30 23 0:26 / / rw - cgroup2 none rw\n" },
        { "/a/cpu.max", "250000 100000\n" } } },
    { "lines that are no mounts",
      { 8, 8 },
      { 8, ONLINE, 0, 0, 0 },
      { { CGROUP, "0::/\n" },
        { MOUNTINFO,
          "\n\n30\n30 23 0:26 /\n30 23 0:26 / /m rw\n30 23 0:26 / /m rw -\n"
          "30 23 0:26 / /m rw cgroup2 cgroup2 rw\n30 23 0:26 x /m rw - cgroup2 c rw\n"
          "30 23 0:26 / m rw - cgroup2 c rw\n30 23 0:26 / /m rw - cgroup22 c rw\n"
          "30 23 0:26 / /m rw - cgroup c rw\n - cgroup2 c rw\n" },
        { "/m/cpu.max", "100000 100000\n" },
        { "m/cpu.max", "100000 100000\n" } } },
    { "lines that are no groups",
      { 8, 8 },
      { 8, ONLINE, 0, 0, 0 },
      { { CGROUP, "\n0\n0:\n0::a\n0:x:/\n:::/\n00::/\n0:cpu\n1::/\nname\n" },
        { MOUNTINFO, MOUNT_HYBRID },
        { "/sys/fs/cgroup/unified/cpu.max", "100000 100000\n" } } },
};
enum { CASES = sizeof cases / sizeof cases[0] };

/* For each tree of the table, the answer and every part of it. */
TEST(cpu__fake_trees__as_in_the_table, "P47")
{
    for (int i = 0; i < CASES; i++) {
        spn_cpu_limits limits;
        bool ok = true;

        make_tree();
        for (int f = 0; f < FILES_MAX && cases[i].files[f].path != NULL; f++)
            write_text(cases[i].files[f].path, cases[i].files[f].text);
        limits = read_tree(cases[i].given.online, cases[i].given.affinity);
        ok &= CHECK_EQ(limits.usable, cases[i].expected.usable);
        ok &= CHECK_EQ(limits.reason, cases[i].expected.reason);
        ok &= CHECK_EQ(limits.cpuset, cases[i].expected.cpuset);
        ok &= CHECK_EQ(limits.quota_percent, cases[i].expected.quota_percent);
        ok &= CHECK_EQ(limits.cgroup, cases[i].expected.cgroup);
        if (!ok)
            fprintf(stderr, "  in the case \"%s\"\n", cases[i].name);
        remove_tree();
    }
}

/* ---- contents ---------------------------------------------------------------------- */

static void make_v2_tree(void)
{
    make_tree();
    write_text(CGROUP, "0::/a\n");
    write_text(MOUNTINFO, MOUNT_V2("/"));
}

/* cpu.max in every form that is one, and in those that are none. */
TEST(cpu__contents_of_cpu_max__percent_or_no_limit, "P47")
{
    static const struct {
        const char *text;
        uint32_t percent;
    } contents[] = {
        { "100000 100000\n", 100 },
        { "100000 100000", 100 },
        { "1000 1000000\n", 1 },
        { "1 1000000\n", 1 }, /* never rounded to "none" */
        { "50000\n", 50 },
        { "50000", 50 },
        { "999999999999999 1000000\n", 0 }, /* more percent than 32 bits hold */
        { "42949672 1\n", 4294967200 },
        { "42949673 1\n", 0 },
        { "1000000000000000 1000000000000000\n", 100 },
        { "1000000000000001 1000000000000001\n", 0 },
        { "18446744073709551616 100000\n", 0 },
        { "99999999999999999999999999999999999 100000\n", 0 },
        { "50000 99999999999999999999999999999999999\n", 0 },
        { "0 100000\n", 0 },
        { "50000 0\n", 0 },
        { "0 0\n", 0 },
        { "max\n", 0 },
        { "max", 0 },
        { "", 0 },
        { "\n", 0 },
        { " ", 0 },
        { "50000 \n", 0 },
        { "50000 max\n", 0 },
        { "50000  100000\n", 0 },
        { " 50000 100000\n", 0 },
        { "50000\t100000\n", 0 },
        { "-50000 100000\n", 0 },
        { "+50000 100000\n", 0 },
        { "50000 -100000\n", 0 },
        { "0x500 100000\n", 0 },
        { "50000.5 100000\n", 0 },
        { "50000 100000 7\n", 0 },
        { "50000 100000\n7", 0 },
        { "50000 100000\n\n", 0 },
        { "50000 100000x", 0 },
    };

    make_v2_tree();
    for (size_t i = 0; i < sizeof contents / sizeof contents[0]; i++) {
        write_text(V2 "/a/cpu.max", contents[i].text);
        if (!CHECK_EQ(read_tree(9, 9).quota_percent, contents[i].percent))
            fprintf(stderr, "  for \"%s\"\n", contents[i].text);
    }
    remove_tree();
}

/* A CPU list in every form that is one, and in those that are none. */
TEST(cpu__contents_of_a_cpuset__count_or_no_limit, "P47")
{
    static const struct {
        const char *text;
        uint32_t count;
    } contents[] = {
        { "0\n", 1 },
        { "0", 1 },
        { "7\n", 1 },
        { "0-3\n", 4 },
        { "0-3,8,10-11\n", 7 },
        { "0-3,8,10-11", 7 },
        { "0,1,2,3\n", 4 },
        { "5-5\n", 1 },
        { "0-8191\n", 8192 },
        { "65535\n", 1 },
        { "0-65535\n", 65536 },
        { "65536\n", 0 },
        { "0-65536\n", 0 },
        { "18446744073709551615\n", 0 },
        { "0-18446744073709551616\n", 0 },
        { "99999999999999999999999\n", 0 },
        { "3-1\n", 0 },
        { "0-3,2-5\n", 0 },
        { "4,3\n", 0 },
        { "1,1\n", 0 },
        { "0-\n", 0 },
        { "0-,3\n", 0 },
        { "-3\n", 0 },
        { "0--3\n", 0 },
        { "0-3-5\n", 0 },
        { ",1\n", 0 },
        { "1,\n", 0 },
        { "1,,2\n", 0 },
        { "0-3 5\n", 0 },
        { "0-3, 5\n", 0 },
        { " 0-3\n", 0 },
        { "0-3\n4\n", 0 },
        { "0-31:2/8\n", 0 },
        { "abc\n", 0 },
        { "ffffffff\n", 0 },
        { "", 0 },
        { "\n", 0 },
        { "\n0-3\n", 0 },
    };

    make_v2_tree();
    for (size_t i = 0; i < sizeof contents / sizeof contents[0]; i++) {
        write_text(V2 "/a/cpuset.cpus.effective", contents[i].text);
        if (!CHECK_EQ(read_tree(9, 9).cpuset, contents[i].count))
            fprintf(stderr, "  for \"%s\"\n", contents[i].text);
    }
    remove_tree();
}

static char large[1 << 20];

/* Every second of very many CPUs is a long list, and counted. */
TEST(cpu__long_list__counted)
{
    size_t length = 0;

    make_v2_tree();
    for (int cpu = 0; cpu < 65536; cpu += 2)
        length += (size_t)sprintf(large + length, "%s%d", cpu == 0 ? "" : ",", cpu);
    write_bytes(V2 "/a/cpuset.cpus.effective", large, length);
    CHECK_EQ(read_tree(65536, 0).cpuset, 32768);
    remove_tree();
}

/* A file of a megabyte, of any kind, is no limit. */
TEST(cpu__files_of_a_megabyte__no_limit)
{
    const char *fillings[] = {
        "0", "9", " ", "\n", ",", "1,", "0-3,", "max ", "", "/"
    };
    const char *files[] = { V2 "/a/cpu.max", V2 "/a/cpuset.cpus.effective" };

    make_v2_tree();
    for (size_t i = 0; i < sizeof fillings / sizeof fillings[0]; i++) {
        const size_t size = strlen(fillings[i]) + (fillings[i][0] == '\0');

        for (size_t at = 0; at + size <= sizeof large; at += size)
            memcpy(large + at, fillings[i], size);
        for (int f = 0; f < 2; f++) {
            write_bytes(files[f], large, sizeof large);
            CHECK_EQ(read_tree(9, 9).usable, 9);
            write_text(files[f], "");
        }
        write_bytes(MOUNTINFO, large, sizeof large);
        CHECK_EQ(read_tree(9, 9).usable, 9);
        write_text(MOUNTINFO, MOUNT_V2("/"));
        write_bytes(CGROUP, large, sizeof large);
        CHECK_EQ(read_tree(9, 9).usable, 9);
        write_text(CGROUP, "0::/a\n");
    }
    /* A good beginning does not help. */
    memset(large, ' ', sizeof large);
    memcpy(large, "100000 100000\n", 14);
    write_bytes(files[0], large, sizeof large);
    memset(large, '0', sizeof large); /* 0000...01: a number, but what a file */
    memcpy(large + sizeof large - 2, "1\n", 2);
    write_bytes(files[1], large, sizeof large);
    CHECK_EQ(read_tree(9, 9).usable, 9);
    remove_tree();
}

/* Lines of mountinfo beyond any buffer: the mounts after them are found. */
TEST(cpu__long_lines_in_mountinfo__later_mounts_found)
{
    static const size_t lengths[] = { 4000, 4094, 4095, 4096, 4097, 8192, 100000 };

    make_v2_tree();
    write_text(V2 "/a/cpu.max", "250000 100000\n");
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        size_t length =
            (size_t)sprintf(large, "28 1 0:25 / /o rw - overlay overlay rw,lowerdir=/");

        memset(large + length, 'l', lengths[i] - length);
        length = lengths[i];
        length += (size_t)sprintf(large + length, "\n%s", MOUNT_V2("/"));
        write_bytes(MOUNTINFO, large, length);
        CHECK_EQ(read_tree(9, 9).quota_percent, 250);
    }
    remove_tree();
}

/* Wherever a long line is cut, no word is taken for a shorter one: "cpuset" does
 * not become "cpu", and what comes before the cut counts. */
TEST(cpu__line_cut_in_a_word__word_not_halved)
{
    make_tree();
    write_text(CGROUP, "4:cpu:/\n3:cpuset:/\n");
    write_text("/m/cpu.cfs_quota_us", "250000\n");
    write_text("/m/cpuset.cpus", "0-3\n");
    for (size_t at = 4080; at < 4110; at++) {
        const char *head = "33 31 0:30 / /m rw - cgroup cgroup rw,";
        size_t length = (size_t)sprintf(large, "%s", head);
        spn_cpu_limits limits;

        memset(large + length, 'x', at - length);
        length = at;
        length += (size_t)sprintf(large + length, ",cpuset,noprefix\n");
        write_bytes(MOUNTINFO, large, length);
        limits = read_tree(9, 9);
        CHECK_EQ(limits.quota_percent, 0);
        CHECK(limits.cpuset == 0 || limits.cpuset == 4);
        CHECK_EQ(limits.cpuset != 0, at + strlen(",cpuset,") <= 4095);

        memcpy(large + strlen(head) - 1, ",cpu,", 5); /* near the front */
        write_bytes(MOUNTINFO, large, length);
        CHECK_EQ(read_tree(9, 9).quota_percent, 250);
    }
    remove_tree();
}

/* A group too deep to be opened still has the ancestors that can be, wherever in
 * a name the longest path ends. */
TEST(cpu__very_deep_group__ancestors_count, "P47")
{
    make_v2_tree();
    for (int name = 1; name <= 7; name++) {
        char path[64];

        snprintf(path, sizeof path, V2 "/%0*d/%0*d/cpu.max", name, 0, name, 0);
        write_text(path, "250000 100000\n");
        for (size_t total = 3900; total < 4300; total += 61) {
            size_t length = (size_t)sprintf(large, "0::");

            while (length < total)
                length += (size_t)sprintf(large + length, "/%0*d", name, 0);
            large[length++] = '\n';
            write_bytes(CGROUP, large, length);
            CHECK_EQ(read_tree(9, 9).quota_percent, 250);
        }
    }
    /* One component that is too long by itself leaves the top. */
    memset(large + 4, 'd', 10000 - 4);
    write_bytes(CGROUP, large, 10000);
    write_text(V2 "/cpu.max", "350000 100000\n");
    CHECK_EQ(read_tree(9, 9).quota_percent, 350);
    remove_tree();
}

/* Directories in place of files are no limit. */
TEST(cpu__directories_in_place_of_files__no_limit)
{
    make_v2_tree();
    write_text(V2 "/a/cpu.max/x", "");
    write_text(V2 "/a/cpuset.cpus.effective/x", "");
    CHECK_EQ(read_tree(9, 9).usable, 9);
    CHECK_EQ(read_tree(9, 9).cgroup, 2);
    remove_tree();
    make_tree();
    write_text(CGROUP "/x", "");
    CHECK_EQ(read_tree(9, 9).cgroup, 0);
    remove_tree();
    make_tree();
    write_text(CGROUP, "0::/a\n");
    write_text(MOUNTINFO "/x", "");
    CHECK_EQ(read_tree(9, 9).cgroup, 0);
    remove_tree();
}

/* The CPUs online are those of the list; without one, what the C library says. */
TEST(cpu__online_list__or_the_library)
{
    const long library = sysconf(_SC_NPROCESSORS_ONLN);

    make_tree();
    CHECK_EQ(spn__cpu_online_read(tree), library);
    write_text("/sys/devices/system/cpu/online", "0-2,4-6\n");
    CHECK_EQ(spn__cpu_online_read(tree), 6);
    write_text("/sys/devices/system/cpu/online", "none\n");
    CHECK_EQ(spn__cpu_online_read(tree), library);
    remove_tree();
}

/* ---- random changes -------------------------------------------------------------------- */

static const struct {
    const char *path, *text;
} seeds[] = {
    { CGROUP, "4:cpu,cpuacct:/a/b\n3:cpuset:/a\n0::/a/b\n" },
    { MOUNTINFO, MOUNT_HYBRID },
    { V1 "/a/b/cpu.cfs_quota_us", "350000\n" },
    { V1 "/a/b/cpu.cfs_period_us", "100000\n" },
    { V1 "/a/cpu.cfs_quota_us", "-1\n" },
    { V1S "/a/cpuset.cpus", "0-3,5,7\n" },
    { "/sys/fs/cgroup/unified/a/b/cpu.max", "450000 100000\n" },
    { "/sys/fs/cgroup/unified/a/cpu.max", "max 100000\n" },
    { "/sys/fs/cgroup/unified/a/b/cpuset.cpus.effective", "0-2,4\n" },
};
enum { SEEDS = sizeof seeds / sizeof seeds[0] };

/* Changes a text at a random place; returns its new length. */
static size_t mutate(char *text, size_t length, size_t capacity, uint64_t *state)
{
    static const char *words[] = {
        "-",  "0",     "9", "18446744073709551615", "\n", ",", " ", ":", "/..", "\\040",
        "\\", "/a/..", "-", "99999999999999999",    "max"
    };
    const size_t at = length == 0 ? 0 : t_random(state) % length;
    const char *word = words[t_random(state) % (sizeof words / sizeof words[0])];
    size_t size = strlen(word), end;

    switch (t_random(state) % 6) {
    case 0: /* another byte */
        if (length > 0)
            text[at] = (char)t_random(state);
        return length;
    case 1: /* another bit */
        if (length > 0)
            text[at] ^= (char)(1 << t_random(state) % 8);
        return length;
    case 2: /* shorter */
        return at;
    case 3: /* without a piece */
        end = at + t_random(state) % (length - at + 1);
        memmove(text + at, text + end, length - end);
        return length - (end - at);
    case 4: /* with a word more */
        if (length + size > capacity)
            return length;
        memmove(text + at + size, text + at, length - at);
        memcpy(text + at, word, size);
        return length + size;
    default: /* a piece twice */
        size = t_random(state) % (length - at + 1);
        if (length + size > capacity)
            return length;
        memmove(text + at + size, text + at, length - at);
        return length + size;
    }
}

/* Whatever the files say, the answer is from 1 to what the machine has, and
 * explained by one of its parts. */
TEST(cpu__random_files__answer_stays_sane)
{
    uint64_t state = 20; /* the same files in every run */

    make_tree();
    for (int i = 0; i < SEEDS; i++)
        write_text(seeds[i].path, seeds[i].text);
    CHECK_EQ(read_tree(6, 6).usable, 4);
    for (int round = 0; round < t_rounds(2000); round++) {
        const size_t which = t_random(&state) % SEEDS;
        static char text[8192];
        size_t length = strlen(seeds[which].text);
        spn_cpu_limits l;

        memcpy(text, seeds[which].text, length);
        for (uint64_t i = t_random(&state) % 4 + 1; i > 0; i--)
            length = mutate(text, length, sizeof text, &state);
        write_bytes(seeds[which].path, text, length);
        l = read_tree(6, 5);
        write_text(seeds[which].path, seeds[which].text);

        const uint32_t parts[] = { l.online, l.affinity, l.cpuset,
                                   l.quota_percent / 100 +
                                       (l.quota_percent % 100 != 0) };
        CHECK(l.usable >= 1 && l.usable <= 5);
        CHECK(l.cgroup <= 3);
        REQUIRE(l.reason <= QUOTA);
        CHECK_EQ(l.usable, parts[l.reason]);
        for (uint32_t i = 0; i < 4; i++)
            CHECK(parts[i] == 0 || parts[i] > l.usable ||
                  (parts[i] == l.usable && i >= l.reason));
    }
    remove_tree();
}

/* ---- the real system ---------------------------------------------------------------------- */

/* The system's own answer: at least one CPU, and not more than any limit. */
TEST(cpu__this_system__sane)
{
    spn_cpu_limits limits = SPN_CPU_LIMITS_INIT;

    CHECK_OK(spn_cpu_limits_get(&limits));
    CHECK_EQ(limits.size, sizeof limits);
    CHECK(limits.usable >= 1);
    CHECK(limits.online >= 1);
    CHECK(limits.usable <= limits.online);
    CHECK(limits.affinity == 0 || limits.usable <= limits.affinity);
    CHECK(limits.reason <= SPN_CPU_LIMIT_QUOTA);
    CHECK_EQ(limits.reserved, 0);
    CHECK_EQ(spn_cpu_count(), limits.usable);
}

/* ---- memory ---------------------------------------------------------------------------- */

/* The least of what the machine has and what the groups above the process allow, v1 and v2;
 * "max", and what is no number, is no limit. */
TEST(cpu__memory_of_groups__least_counts, "P47")
{
    static const struct {
        const char *cgroup, *mounts, *path, *text;
        uint64_t machine, expected;
    } limits[] = {
        { "0::/a\n", MOUNT_V2("/"), V2 "/a/memory.max", "max\n", 1000, 1000 },
        { "0::/a\n", MOUNT_V2("/"), V2 "/a/memory.max", "700\n", 1000, 700 },
        { "0::/a\n", MOUNT_V2("/"), V2 "/a/memory.high", "600\n", 1000, 600 },
        { "0::/a/b\n", MOUNT_V2("/"), V2 "/a/memory.max", "500\n", 1000, 500 },
        { "0::/a\n", MOUNT_V2("/"), V2 "/a/memory.max", "7000\n", 1000, 1000 },
        { "0::/a\n", MOUNT_V2("/"), V2 "/a/memory.max", "700\n", 0, 700 },
        { "0::/a\n", MOUNT_V2("/"), V2 "/a/memory.max", "0\n", 1000, 1 },
        { "0::/a\n", MOUNT_V2("/"), V2 "/a/memory.max", "-1\n", 1000, 1000 },
        { "0::/a\n", MOUNT_V2("/"), V2 "/a/memory.max", "7x\n", 1000, 1000 },
        { "9:memory:/a\n", MOUNT_V1_MEMORY, V1M "/a/memory.limit_in_bytes", "400\n",
          1000, 400 },
        { "9:memory:/a\n", MOUNT_V1_MEMORY, V1M "/a/memory.limit_in_bytes",
          "9223372036854771712\n", 1000, 1000 },
        { "9:cpu:/a\n", MOUNT_V1_MEMORY, V1M "/a/memory.limit_in_bytes", "400\n", 1000,
          1000 },
    };

    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        make_tree();
        write_text(CGROUP, limits[i].cgroup);
        write_text(MOUNTINFO, limits[i].mounts);
        write_text(limits[i].path, limits[i].text);
        if (!CHECK_EQ(spn__memory_limit_read(tree, limits[i].machine),
                      limits[i].expected))
            fprintf(stderr, "  in case %zu\n", i);
        remove_tree();
    }
    CHECK(spn__memory_limit() >= 1 << 20);
}

static void pin_to_one(void *arg)
{
    spn_cpu_limits limits = SPN_CPU_LIMITS_INIT;
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(*(size_t *)arg, &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK_EQ(spn_cpu_count(), 1);
    CHECK_OK(spn_cpu_limits_get(&limits));
    CHECK_EQ(limits.affinity, 1);
    CHECK_EQ(limits.usable, 1);
}

/* A process pinned to one CPU has one, though the machine has more. */
TEST(cpu__pinned_to_one__one, "P14")
{
    cpu_set_t now;
    size_t first = 0;

    if (sched_getaffinity(0, sizeof now, &now) != 0) {
        t_skip("more than 1024 CPUs");
        return;
    }
    while (!CPU_ISSET(first, &now))
        first++;
    CHECK_CHILD(pin_to_one, &first);
}

/* A bad argument is refused and nothing is written. */
TEST(cpu__bad_arguments__refused, "G-2", "G-3")
{
    const size_t sizes[] = { 0,    1,       sizeof(size_t), sizeof(spn_cpu_limits) - 1,
                             4097, SIZE_MAX };

    CHECK_STATUS(spn_cpu_limits_get(NULL), SPN_EINVAL);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        spn_cpu_limits limits, before;

        memset(&limits, 0xab, sizeof limits);
        limits.size = sizes[i];
        before = limits;
        CHECK_STATUS(spn_cpu_limits_get(&limits), SPN_EINVAL);
        CHECK_EQ(memcmp(&limits, &before, sizeof limits), 0);
    }
}

/* A newer program's larger struct is filled: fields not known here read as 0. */
TEST(cpu__newer_caller__unknown_fields_zero)
{
    struct {
        spn_cpu_limits known;
        uint64_t unknown, behind;
    } newer;

    memset(&newer, 0xab, sizeof newer);
    newer.known.size = offsetof(__typeof__(newer), behind);
    CHECK_OK(spn_cpu_limits_get(&newer.known));
    CHECK_EQ(newer.known.size, offsetof(__typeof__(newer), behind));
    CHECK(newer.known.usable >= 1);
    CHECK_EQ(newer.unknown, 0);
    CHECK_EQ(newer.behind, (int64_t)0xababababababababu);
}
