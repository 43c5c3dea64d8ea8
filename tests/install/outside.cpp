/* SPDX-License-Identifier: MIT */
/*
 * outside.cpp - the same from C++: the headers are C++, options structs start from
 * their _INIT, and a lambda without captures is a thread function.
 */
#include <spindle.h>

#include <cstdio>
#include <cstring>

int main()
{
    spn_semaphore_opts opts = SPN_SEMAPHORE_OPTS_INIT;
    spn_semaphore *semaphore = nullptr;
    spn_thread *thread = nullptr;
    int result = -1;

    if (std::strcmp(spn_version_string(), SPN_VERSION_STRING) != 0)
        return 1;
    opts.fair = 1;
    if (spn_semaphore_create(&semaphore, &opts) != SPN_OK)
        return 1;
    auto release = [](void *arg) -> int {
        return spn_semaphore_release(static_cast<spn_semaphore *>(arg), 2);
    };
    if (spn_thread_create(&thread, nullptr, release, semaphore) != SPN_OK)
        return 1;
    if (spn_semaphore_acquire(semaphore, 2, SPN_SEC(30)) != SPN_OK)
        return 1;
    if (spn_thread_join(thread, SPN_SEC(30), &result) != SPN_OK || result != SPN_OK)
        return 1;
    spn_thread_unref(thread);
    if (spn_semaphore_destroy(semaphore) != SPN_OK)
        return 1;
    std::printf("spindle %s\n", spn_version_string());
    return 0;
}
