/* SPDX-License-Identifier: MIT */
/*
 * directory_hash.c - one number for all that is in a directory: names, and what is in
 * the files.  There is a task for each file and each directory below, and the result does
 * not depend on which worker was first.
 */
#include <spindle.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FNV_BEGIN UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x100000001b3)

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t count)
{
    const unsigned char *b = bytes;

    for (size_t i = 0; i < count; i++)
        hash = (hash ^ b[i]) * FNV_PRIME;
    return hash;
}

/* errno as a status of the tree: whoever waits for it gets the first. */
static uint64_t fail(spn_fj fj)
{
    spn_fj_fail(fj, errno == ENOMEM ? SPN_ENOMEM : SPN_EFAILED);
    return 0;
}

/* Bytes read, a counter for each worker: they do not write to the same cache line. */
enum { WORKERS = 4 };
static struct {
    _Alignas(64) atomic_uint_fast64_t bytes;
} read_by[WORKERS];

static void count_read(ssize_t bytes)
{
    atomic_fetch_add_explicit(&read_by[spn_fj_worker_index() % WORKERS].bytes,
                              (uint64_t)bytes, memory_order_relaxed);
}

static int close_file(void *fd)
{
    return close((int)(intptr_t)fd) == 0 ? 0 : SPN_EFAILED;
}

/* A network file system may take long to close a file, and no task waits for that. */
static void close_later(int fd)
{
    spn_executor *workers = spn_fj_pool_executor(spn_fj_pool_current());

    if (spn_executor_call(workers, close_file, (void *)(intptr_t)fd) != SPN_OK)
        (void)close(fd); /* refused: here, then */
}

static uint64_t hash_file(spn_fj fj, const char *path)
{
    static const size_t chunk = 65536;
    unsigned char *buffer = malloc(chunk);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    uint64_t hash = FNV_BEGIN;
    ssize_t got = -1;

    while (buffer != NULL && fd >= 0) {
        spn_fj_block_begin(); /* a disk may be slow: another thread goes on meanwhile */
        got = read(fd, buffer, chunk);
        spn_fj_block_end();
        if (got <= 0)
            break;
        hash = hash_bytes(hash, buffer, (size_t)got);
        count_read(got);
    }
    if (got != 0)
        hash = fail(fj);
    if (fd >= 0)
        close_later(fd);
    free(buffer);
    return hash;
}

static int is_shown(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

SPN_FJ_TASK_DECLARE(uint64_t, hash_path, const char *, path);

static uint64_t hash_directory(spn_fj fj, const char *path)
{
    struct dirent **entries;
    const int count = scandir(path, &entries, is_shown, alphasort);
    char **paths = count > 0 ? calloc((size_t)count, sizeof *paths) : NULL;
    uint64_t hash = FNV_BEGIN;
    int forked = 0;

    if (count < 0 || (count > 0 && paths == NULL))
        return fail(fj);
    for (; forked < count; forked++) {
        if (asprintf(&paths[forked], "%s/%s", path, entries[forked]->d_name) < 0) {
            (void)fail(fj);
            break;
        }
        hash_path_fork(&fj, paths[forked]);
    }
    /* The last that was forked comes first, every time. */
    while (forked-- > 0) {
        const uint64_t below = hash_path_join(&fj);

        hash =
            hash_bytes(hash, entries[forked]->d_name, strlen(entries[forked]->d_name));
        hash = hash_bytes(hash, &below, sizeof below);
        free(paths[forked]);
    }
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    free(paths);
    return hash;
}

SPN_FJ_TASK_DEFINE(uint64_t, hash_path, 0, 0, const char *, path)
{
    struct stat about;

    if (spn_fj_status(fj) != SPN_OK)
        return 0; /* somebody has failed: no need to go on */
    if (lstat(path, &about) != 0)
        return fail(fj);
    if (S_ISDIR(about.st_mode))
        return hash_directory(fj, path);
    return S_ISREG(about.st_mode) ? hash_file(fj, path) : 0;
}

/* Hashes twice: on one thread, and on all that the pool may have. */
static int hash_both(const char *path, uint64_t *alone, uint64_t *together)
{
    spn_fj_pool_opts opts = SPN_FJ_POOL_OPTS_INIT;
    spn_fj_pool *pool;
    int rc;

    opts.parallelism = 1;
    rc = spn_fj_pool_create(&pool, &opts);
    if (rc != SPN_OK)
        return rc;
    rc = hash_path_invoke(pool, alone, path);
    if (rc == SPN_OK && spn_fj_pool_set_parallelism(pool, WORKERS) != 1)
        rc = SPN_ESTATE;
    if (rc == SPN_OK)
        rc = hash_path_invoke(pool, together, path);
    /* Files may still be open: close waits for all tasks. */
    if (spn_fj_pool_close(pool) != SPN_OK || spn_fj_pool_destroy(pool) != SPN_OK)
        return SPN_ESTATE;
    return rc;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : ".";
    uint64_t alone = 0, together = 0, bytes = 0;
    const int rc = hash_both(path, &alone, &together);

    if (rc != SPN_OK) {
        fprintf(stderr, "%s: %s\n", path, spn_status_text(rc));
        return 1;
    }
    for (int i = 0; i < WORKERS; i++)
        bytes += atomic_load(&read_by[i].bytes);
    printf("%016jx  %s, read twice: %ju bytes\n", (uintmax_t)together, path,
           (uintmax_t)bytes);
    return alone == together ? 0 : 1;
}
