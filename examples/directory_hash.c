/* SPDX-License-Identifier: MIT */
/*
 * directory_hash.c - one number for all that is in a directory: names, and what is in
 * the files.  A task for each file and each directory below; whoever reads one makes
 * room for another thread, and the result does not depend on who was first.
 */
#include <spindle.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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

static uint64_t hash_file(spn_fj fj, const char *path)
{
    static const size_t chunk = 65536;
    unsigned char *buffer = malloc(chunk);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    uint64_t hash = FNV_BEGIN;
    ssize_t got = -1;

    if (buffer != NULL && fd >= 0)
        while ((got = read(fd, buffer, chunk)) > 0)
            hash = hash_bytes(hash, buffer, (size_t)got);
    if (fd >= 0)
        close(fd);
    free(buffer);
    return got == 0 ? hash : fail(fj);
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

static int hash_with(int32_t parallelism, const char *path, uint64_t *hash)
{
    spn_fj_pool_opts opts = SPN_FJ_POOL_OPTS_INIT;
    spn_fj_pool *pool;
    int rc;

    opts.parallelism = parallelism;
    rc = spn_fj_pool_create(&pool, &opts);
    if (rc != SPN_OK)
        return rc;
    rc = hash_path_invoke(pool, hash, path);
    if (spn_fj_pool_close(pool) != SPN_OK || spn_fj_pool_destroy(pool) != SPN_OK)
        return SPN_ESTATE;
    return rc;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : ".";
    uint64_t alone, together;
    int rc = hash_with(1, path, &alone);

    if (rc == SPN_OK)
        rc = hash_with(4, path, &together);
    if (rc != SPN_OK) {
        fprintf(stderr, "%s: %s\n", path, spn_status_text(rc));
        return 1;
    }
    printf("%016jx  %s\n", (uintmax_t)together, path);
    return alone == together ? 0 : 1;
}
