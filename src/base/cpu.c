/* SPDX-License-Identifier: MIT */
/*
 * cpu.c - how many CPUs, and how much memory, this process may really use.
 *
 * OVERVIEW
 *   Four limits, the smallest counts: CPUs that are online, the affinity mask,
 *   the cpuset and the bandwidth quota of the control group.  The last two are
 *   files, and finding them is most of the work:
 *
 *     /proc/self/cgroup      says which group the process is in, once for the
 *                            v2 tree ("0::/a/b") and once per v1 hierarchy
 *                            ("4:cpu,cpuacct:/a/b"); a hybrid system has both.
 *     /proc/self/mountinfo   says where such a tree can be seen, and which group
 *                            of it is at the top of what can be seen (the root
 *                            field: "/" on a host, often the container's own
 *                            group inside a container).
 *
 *   A group is limited by its ancestors too, so the walk goes from the process's
 *   group up to the top of the mount and keeps the smallest value of each kind.
 *   Groups that cannot be seen (hidden by a container, already deleted, without
 *   the controller) have no files and no say.
 *
 *   A mount is trusted if the process's group lies below its root field.  Where
 *   no mount is like that (the paths are seen from different namespaces), the
 *   top of the mounts that exist is read: in a container that is its own limit.
 *   Several mounts of one tree are all read: each tells the truth, some see more.
 *
 * BAD INPUT
 *   What is not exactly as the kernel writes it is no limit.  A wrong limit is
 *   worse than none: the affinity mask and the online count remain, and the
 *   answer is never 0.  Every read is bounded, and so is every loop by it.
 *
 * THE LIMIT OF MEMORY is found in the same way, in the v2 tree and in the v1
 *   hierarchy of its own; of memory.max and memory.high the smaller one counts.
 *
 * MEMORY
 *   No allocation; about 14 KB of stack.  The mount table is scanned once for
 *   each tree rather than all their paths kept at once.
 */
#include "base/cpu.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/options.h"

_Static_assert(sizeof(spn_cpu_limits) == sizeof(size_t) + 8 * sizeof(uint32_t),
               "append only, no holes");

enum {
    CPUS_MAX = 65536,              /* far above any kernel's NR_CPUS           */
    LINE_SIZE = 4096,              /* of a longer line only the start is kept  */
    PATH_SIZE = 4096,              /* the kernel opens nothing longer          */
    FILE_NAME_MAX = 32,            /* of the cgroup files read here            */
    SMALL_FILE_LIMIT = 512 << 10,  /* a list of every other of CPUS_MAX CPUs   */
    LARGE_FILE_LIMIT = 64 << 20,   /* some 100,000 mounts                      */
    PERIOD_DEFAULT_US = 100 * 1000 /* where a quota names none                 */
};

/* Microseconds in 31 years: a quota or a period beyond is not one, and
 * 100 times it does not overflow. */
static const uint64_t number_max = 1000000000000000;

/* ---- reading files ----------------------------------------------------- */

enum { END = -1, BROKEN = -2 }; /* what next_byte returns but bytes */

struct reader {
    int fd;
    size_t left; /* bytes it may still read: see the two limits */
    size_t at, filled;
    unsigned char buffer[512];
};

static bool open_reader(struct reader *reader, const char *path, size_t limit)
{
    do
        reader->fd = open(path, O_RDONLY | O_CLOEXEC);
    while (reader->fd < 0 && errno == EINTR);
    reader->left = limit;
    reader->at = reader->filled = 0;
    return reader->fd >= 0;
}

/* The next byte; END after the last; BROKEN when the file cannot be read or is
 * longer than its limit. */
static int next_byte(struct reader *reader)
{
    ssize_t got;

    if (reader->at < reader->filled)
        return reader->buffer[reader->at++];
    if (reader->left < sizeof reader->buffer)
        return BROKEN;
    do
        got = read(reader->fd, reader->buffer, sizeof reader->buffer);
    while (got < 0 && errno == EINTR);
    if (got <= 0)
        return got == 0 ? END : BROKEN;
    reader->left -= (size_t)got;
    reader->filled = (size_t)got;
    reader->at = 1;
    return reader->buffer[0];
}

/* Whether the file is over after `byte`, but for a newline. */
static bool is_last(struct reader *reader, int byte)
{
    return byte == END || (byte == '\n' && next_byte(reader) == END);
}

/* Reads the digits that start with *byte and leaves the byte after them there.
 * False for no digits or too large a number. */
static bool read_number(struct reader *reader, int *byte, uint64_t *number)
{
    bool any = false;

    for (*number = 0; *byte >= '0' && *byte <= '9'; *byte = next_byte(reader)) {
        *number = *number * 10 + (uint64_t)(*byte - '0');
        if (*number > number_max)
            return false;
        any = true;
    }
    return any;
}

/*
 * Reads a line without its newline.  One that does not fit is cut at the last
 * of `separators` that does, lest half a word be taken for a whole one, and the
 * rest of it is skipped.  False at the end.
 */
static bool read_line(struct reader *reader, char line[LINE_SIZE],
                      const char *separators)
{
    size_t length = 0;
    bool fits = true;
    int byte;

    while ((byte = next_byte(reader)) >= 0 && byte != '\n') {
        if (length < LINE_SIZE - 1)
            line[length++] = (char)byte;
        else
            fits = false;
    }
    line[length] = '\0';
    if (byte == BROKEN || (byte == END && length == 0))
        return false;
    if (!fits) {
        while (length > 0 && strchr(separators, line[length - 1]) == NULL)
            length--;
        line[length > 0 ? length - 1 : 0] = '\0';
    }
    return true;
}

/* ---- paths ------------------------------------------------------------- */

struct path {
    char text[PATH_SIZE + FILE_NAME_MAX];
    size_t length; /* at most PATH_SIZE - 1, so that a file name always fits */
};

/* What does not fit is left out, whole components at a time: that leads to an
 * ancestor. */
static void append_path(struct path *path, const char *text)
{
    const size_t room = PATH_SIZE - 1 - path->length;
    size_t length = strlen(text);

    if (length > room) {
        length = room;
        while (length > 0 && text[length] != '/')
            length--;
    }
    memcpy(path->text + path->length, text, length);
    path->length += length;
    path->text[path->length] = '\0';
}

static void go_up(struct path *path, size_t top)
{
    while (path->length > top && path->text[--path->length] != '/') {
    }
    path->text[path->length] = '\0';
}

static bool open_in(struct reader *reader, struct path *directory, const char *name)
{
    bool opened;

    memcpy(directory->text + directory->length, name, strlen(name) + 1);
    opened = open_reader(reader, directory->text, SMALL_FILE_LIMIT);
    directory->text[directory->length] = '\0';
    return opened;
}

static bool open_below(struct reader *reader, const char *root, const char *name)
{
    struct path path = { .length = 0 };

    append_path(&path, root);
    append_path(&path, name);
    return open_reader(reader, path.text, LARGE_FILE_LIMIT);
}

/* ---- the limits in one group -------------------------------------------- */

/* How many CPUs a list like "0-3,8,10-11" names; 0 if it is empty, which means
 * "as the parent", or not in the kernel's form, which is ascending. */
static uint32_t count_list(struct reader *reader)
{
    uint64_t count = 0, lowest = 0, first, last;
    int byte = next_byte(reader);

    for (;; byte = next_byte(reader)) {
        if (!read_number(reader, &byte, &first))
            return 0;
        last = first;
        if (byte == '-') {
            byte = next_byte(reader);
            if (!read_number(reader, &byte, &last))
                return 0;
        }
        if (first < lowest || last < first || last >= CPUS_MAX)
            return 0;
        count += last - first + 1;
        lowest = last + 1;
        if (byte != ',')
            return is_last(reader, byte) ? (uint32_t)count : 0;
    }
}

/* Percent of one CPU, rounded up so that a small share is not 0, "none". */
static uint32_t percent_of(uint64_t quota_us, uint64_t period_us)
{
    uint64_t percent;

    if (period_us == 0)
        return 0;
    percent = (quota_us * 100 + period_us - 1) / period_us;
    return percent <= UINT32_MAX ? (uint32_t)percent : 0;
}

/* "max 100000", "50000 100000", or "50000" with the default period. */
static uint32_t parse_cpu_max(struct reader *reader)
{
    uint64_t quota_us, period_us = PERIOD_DEFAULT_US;
    int byte = next_byte(reader);

    if (!read_number(reader, &byte, &quota_us)) /* max */
        return 0;
    if (byte == ' ') {
        byte = next_byte(reader);
        if (!read_number(reader, &byte, &period_us))
            return 0;
    }
    return is_last(reader, byte) ? percent_of(quota_us, period_us) : 0;
}

/* A file with one number; false for anything else, "-1" too. */
static bool parse_lone_number(struct reader *reader, uint64_t *number)
{
    int byte = next_byte(reader);

    return read_number(reader, &byte, number) && is_last(reader, byte);
}

static uint32_t read_quota_v2(struct path *directory)
{
    struct reader reader;
    uint32_t percent;

    if (!open_in(&reader, directory, "/cpu.max"))
        return 0;
    percent = parse_cpu_max(&reader);
    close(reader.fd);
    return percent;
}

static uint32_t read_quota_v1(struct path *directory)
{
    struct reader reader;
    uint64_t quota_us, period_us = PERIOD_DEFAULT_US;
    bool good;

    if (!open_in(&reader, directory, "/cpu.cfs_quota_us"))
        return 0;
    good = parse_lone_number(&reader, &quota_us);
    close(reader.fd);
    if (good && open_in(&reader, directory, "/cpu.cfs_period_us")) {
        good = parse_lone_number(&reader, &period_us);
        close(reader.fd);
    }
    return good ? percent_of(quota_us, period_us) : 0;
}

/* Keeps the smaller of *kept, where 0 is none, and the number in the file; "max", and a number
 * that no machine has, are none.  A group that may have nothing is taken for 1 byte. */
static void read_memory(uint64_t *kept, struct path *directory, const char *name)
{
    struct reader reader;
    uint64_t bytes;

    if (!open_in(&reader, directory, name))
        return;
    if (parse_lone_number(&reader, &bytes) && (*kept == 0 || bytes < *kept))
        *kept = bytes > 0 ? bytes : 1;
    close(reader.fd);
}

static uint32_t read_cpuset(struct path *directory, const char *name)
{
    struct reader reader;
    uint32_t count;

    if (!open_in(&reader, directory, name))
        return 0;
    count = count_list(&reader);
    close(reader.fd);
    return count;
}

/* ---- one tree of groups -------------------------------------------------- */

enum tree { TREE_V2, TREE_V1_CPU, TREE_V1_CPUSET, TREES, TREE_V1_MEMORY = TREES };

struct found {
    bool mounted;
    uint32_t cpuset, quota_percent; /* 0: none */
    uint64_t memory;                /* bytes; 0: none */
};

static void keep_smaller(uint32_t *kept, uint32_t value)
{
    if (value != 0 && (*kept == 0 || value < *kept))
        *kept = value;
}

static void read_group(struct found *found, enum tree tree, struct path *directory)
{
    uint32_t cpuset = 0, quota_percent = 0;

    switch (tree) {
    case TREE_V2:
        quota_percent = read_quota_v2(directory);
        cpuset = read_cpuset(directory, "/cpuset.cpus.effective");
        read_memory(&found->memory, directory, "/memory.max");
        read_memory(&found->memory, directory, "/memory.high");
        break;
    case TREE_V1_MEMORY:
        read_memory(&found->memory, directory, "/memory.limit_in_bytes");
        break;
    case TREE_V1_CPU:
        quota_percent = read_quota_v1(directory);
        break;
    default:
        cpuset = read_cpuset(directory, "/cpuset.effective_cpus");
        if (cpuset == 0)
            cpuset = read_cpuset(directory, "/cpuset.cpus");
        break;
    }
    keep_smaller(&found->quota_percent, quota_percent);
    keep_smaller(&found->cpuset, cpuset);
}

/* Whether `word` is in a list separated by commas. */
static bool has_word(const char *list, const char *word)
{
    const size_t length = strlen(word);

    for (; list != NULL; list = strchr(list, ',')) {
        if (*list == ',')
            list++;
        if (strncmp(list, word, length) == 0 &&
            (list[length] == ',' || list[length] == '\0'))
            return true;
    }
    return false;
}

static const char *controller_of(enum tree tree)
{
    return tree == TREE_V1_CPU ? "cpu" : tree == TREE_V1_CPUSET ? "cpuset" : "memory";
}

/* Finds the process's group in the tree.  The path is part of `line`; NULL if
 * the process is in no group there. */
static const char *find_group(const char *root, enum tree tree, char line[LINE_SIZE])
{
    const char *group = NULL;
    struct reader reader;

    if (!open_below(&reader, root, "/proc/self/cgroup"))
        return NULL;
    while (group == NULL && read_line(&reader, line, "/")) {
        /* id:controllers:path, and the path may have colons of its own */
        char *rest = line;
        const char *id = strsep(&rest, ":"), *controllers = strsep(&rest, ":");

        if (rest == NULL || (rest[0] != '/' && rest[0] != '\0'))
            continue;
        if (tree == TREE_V2 ? strcmp(id, "0") == 0 && controllers[0] == '\0'
                            : has_word(controllers, controller_of(tree)))
            group = rest;
    }
    close(reader.fd);
    return group;
}

/* Undoes the escapes of mountinfo, in place: "\040" is a space. */
static void unescape(char *text)
{
    char *to = text;

    for (const char *from = text; *from != '\0'; from++) {
        if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' &&
            from[2] <= '7' && from[3] >= '0' && from[3] <= '7') {
            *to++ =
                (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
            from += 3;
        } else {
            *to++ = *from;
        }
    }
    *to = '\0';
}

/*
 * Takes a line of mountinfo apart, in place:
 *   id parent major:minor ROOT POINT options [tags...] - TYPE source SUPER-OPTIONS
 * False unless it mounts the tree.
 */
static bool parse_mount(char *line, enum tree tree, char **root, char **point)
{
    char *fields[6], *field, *type, *super_options;

    for (int i = 0; i < 6; i++)
        if ((fields[i] = strsep(&line, " ")) == NULL)
            return false;
    do
        field = strsep(&line, " ");
    while (field != NULL && strcmp(field, "-") != 0);
    type = strsep(&line, " ");
    (void)strsep(&line, " "); /* the source, which may be empty */
    super_options = line;
    if (type == NULL)
        return false;
    if (tree == TREE_V2) {
        if (strcmp(type, "cgroup2") != 0)
            return false;
    } else if (strcmp(type, "cgroup") != 0 ||
               !has_word(super_options, controller_of(tree))) {
        return false;
    }
    *root = fields[3];
    *point = fields[4];
    unescape(*root);
    unescape(*point);
    return **root == '/' && **point == '/';
}

/* A path seen from inside a namespace may lead out of it. */
static bool has_dotdot(const char *path)
{
    for (; (path = strstr(path, "/..")) != NULL; path += 3)
        if (path[3] == '/' || path[3] == '\0')
            return true;
    return false;
}

/* The part of `group` below `top`, "" if they are the same; NULL if the one is
 * not below the other or that cannot be told. */
static const char *below(const char *top, const char *group)
{
    const size_t length = strcmp(top, "/") == 0 ? 0 : strlen(top);

    if (has_dotdot(top) || has_dotdot(group) || strncmp(top, group, length) != 0 ||
        (group[length] != '/' && group[length] != '\0'))
        return NULL;
    return group + length;
}

static struct found read_tree(const char *root, enum tree tree)
{
    struct found trusted = { .mounted = false }, guessed = { .mounted = false };
    char group_line[LINE_SIZE], line[LINE_SIZE], *top, *point;
    const char *group = find_group(root, tree, group_line);
    struct path directory;
    struct reader reader;

    if (group == NULL || !open_below(&reader, root, "/proc/self/mountinfo"))
        return trusted;
    while (read_line(&reader, line, ", ")) {
        struct found *found = &trusted;
        const char *rest;
        size_t top_length;

        if (!parse_mount(line, tree, &top, &point))
            continue;
        rest = below(top, group);
        if (rest == NULL) {
            found = &guessed;
            rest = "";
        }
        found->mounted = true;
        directory.length = 0;
        append_path(&directory, root);
        append_path(&directory, point);
        top_length = directory.length;
        append_path(&directory, rest);
        while (read_group(found, tree, &directory), directory.length > top_length)
            go_up(&directory, top_length);
    }
    close(reader.fd);
    return trusted.mounted ? trusted : guessed;
}

/* ---- the answer --------------------------------------------------------- */

void spn__cpu_limits_read(spn_cpu_limits *limits, const char *root, uint32_t online,
                          uint32_t affinity)
{
    memset(limits, 0, sizeof *limits);
    limits->size = sizeof *limits;
    limits->online = online;
    limits->affinity = affinity;
    for (enum tree tree = 0; tree < TREES; tree++) {
        const struct found found = read_tree(root, tree);

        if (found.mounted)
            limits->cgroup |= tree == TREE_V2 ? 2u : 1u;
        keep_smaller(&limits->cpuset, found.cpuset);
        keep_smaller(&limits->quota_percent, found.quota_percent);
    }

    const uint32_t counts[] = {
        [SPN_CPU_LIMIT_ONLINE] = limits->online,
        [SPN_CPU_LIMIT_AFFINITY] = limits->affinity,
        [SPN_CPU_LIMIT_CPUSET] = limits->cpuset,
        /* Without a sum, which could overflow.  The percentage was rounded up;
         * rounding up again gives what rounding once would have given. */
        [SPN_CPU_LIMIT_QUOTA] =
            limits->quota_percent / 100 + (limits->quota_percent % 100 != 0),
    };
    for (uint32_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (counts[i] != 0 && (limits->usable == 0 || counts[i] < limits->usable)) {
            limits->usable = counts[i];
            limits->reason = i;
        }
    if (limits->usable == 0) {
        limits->usable = 1; /* we run on something */
        limits->reason = SPN_CPU_LIMIT_ONLINE;
    }
}

/* Not from sysconf alone: some C libraries answer it with the affinity mask. */
uint32_t spn__cpu_online_read(const char *root)
{
    struct reader reader;
    uint32_t count = 0;
    long answer;

    if (open_below(&reader, root, "/sys/devices/system/cpu/online")) {
        count = count_list(&reader);
        close(reader.fd);
    }
    if (count == 0) {
        answer = sysconf(_SC_NPROCESSORS_ONLN);
        count = answer > 0 && answer <= CPUS_MAX ? (uint32_t)answer : 0;
    }
    return count;
}

/* cpu_set_t ends at 1024 CPUs, and the kernel refuses a mask smaller than its
 * own; a larger one it takes, so one call with the largest will do. */
static uint32_t count_affinity(void)
{
    cpu_set_t mask[CPUS_MAX / CPU_SETSIZE];

    if (sched_getaffinity(0, sizeof mask, mask) != 0)
        return 0;
    return (uint32_t)CPU_COUNT_S(sizeof mask, mask);
}

int spn_cpu_limits_get(spn_cpu_limits *limits)
{
    const size_t size_0_1 =
        offsetof(spn_cpu_limits, reserved) + sizeof limits->reserved;
    spn_cpu_limits answer;
    size_t size;

    if (limits == NULL)
        return SPN_EINVAL;
    size = limits->size;
    if (size < size_0_1 || size > SPN__OPTIONS_MAX)
        return SPN_EINVAL;
    spn__cpu_limits_read(&answer, "", spn__cpu_online_read(""), count_affinity());
    /* A newer program has fields this library does not know: they read as 0. */
    answer.size = size;
    memset(limits, 0, size);
    memcpy(limits, &answer, size < sizeof answer ? size : sizeof answer);
    return SPN_OK;
}

int spn_cpu_count(void)
{
    spn_cpu_limits limits = SPN_CPU_LIMITS_INIT;
    const int rc = spn_cpu_limits_get(&limits);

    return rc == SPN_OK ? (int)limits.usable : 1;
}

/* ---- memory --------------------------------------------------------------- */

uint64_t spn__memory_limit_read(const char *root, uint64_t machine)
{
    const enum tree trees[] = { TREE_V2, TREE_V1_MEMORY };

    for (size_t i = 0; i < sizeof trees / sizeof trees[0]; i++) {
        const struct found found = read_tree(root, trees[i]);

        if (found.memory != 0 && (machine == 0 || found.memory < machine))
            machine = found.memory;
    }
    return machine;
}

uint64_t spn__memory_limit(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);

    return spn__memory_limit_read("", pages > 0 && bytes > 0
                                          ? (uint64_t)pages * (uint64_t)bytes
                                          : 0);
}
