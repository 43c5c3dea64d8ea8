/* SPDX-License-Identifier: MIT */
/*
 * replay.c - gives every file of a corpus to a fuzz target, whole, cut short at every
 * length up to some hundred, and with each of its first bytes changed: no clang needed.
 */
#include "fuzz.h"

#include <dirent.h>
#include <stdbool.h>
#include <string.h>

enum { INPUT_MAX = 1 << 20, VARIED = 256 };

static uint8_t input[INPUT_MAX];

static bool replay(const char *path)
{
    FILE *file = fopen(path, "rb");
    size_t size;

    if (file == NULL)
        return false;
    size = fread(input, 1, sizeof input, file);
    fclose(file);
    (void)LLVMFuzzerTestOneInput(input, size);
    for (size_t cut = 0; cut < size && cut < VARIED; cut++)
        (void)LLVMFuzzerTestOneInput(input, cut);
    for (size_t at = 0; at < size && at < VARIED; at++) {
        static const uint8_t bytes[] = { 0, '%', '/', ':', '&', 0xff };
        const uint8_t was = input[at];

        for (size_t i = 0; i < sizeof bytes; i++) {
            input[at] = bytes[i];
            (void)LLVMFuzzerTestOneInput(input, size);
        }
        input[at] = was;
    }
    return true;
}

int main(int argc, char **argv)
{
    const struct dirent *entry;
    int passed = 0, failed = 0;
    DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
    char path[4096];

    if (folder == NULL) {
        fprintf(stderr, "usage: %s CORPUS\n", argv[0]);
        return 2;
    }
    while ((entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
        if (replay(path))
            passed++;
        else
            failed++;
    }
    closedir(folder);
    printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 && passed > 0 ? 0 : 1;
}
