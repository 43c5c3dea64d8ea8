/* SPDX-License-Identifier: MIT */
/*
 * deny - runs a program for which some system calls do not work, as in a
 * container with a strict seccomp filter.
 *
 *     deny NAME[,NAME...] PROGRAM [ARGUMENT...]
 *
 * The calls answer EPERM.  Exit status 77 where filters cannot be installed.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
    const char *name;
    unsigned number;
} calls[] = {
    { "membarrier", SYS_membarrier },
    { "sched_setaffinity", SYS_sched_setaffinity },
    { "sched_getaffinity", SYS_sched_getaffinity },
    { "clone3", SYS_clone3 },
    { "clone", SYS_clone },
    { "prctl", SYS_prctl },
};
enum { CALL_COUNT = sizeof(calls) / sizeof(calls[0]) };

int main(int argc, char **argv)
{
    struct sock_filter program[2 + 2 * CALL_COUNT];
    unsigned short length = 0;

    if (argc < 3) {
        fputs("usage: deny NAME[,NAME...] PROGRAM [ARGUMENT...]\n", stderr);
        return 2;
    }
    program[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                                     offsetof(struct seccomp_data, nr));
    for (char *name = strtok(argv[1], ","); name != NULL; name = strtok(NULL, ",")) {
        int i = 0;

        while (i < CALL_COUNT && strcmp(calls[i].name, name) != 0)
            i++;
        if (i == CALL_COUNT ||
            length + 3 > (int)(sizeof(program) / sizeof(program[0]))) {
            fprintf(stderr, "deny: cannot deny '%s'\n", name);
            return 2;
        }
        program[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                                         calls[i].number, 0, 1);
        program[length++] =
            (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    }
    program[length++] =
        (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);

    const struct sock_fprog filter = { length, program };

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
        return 77;
    execv(argv[2], argv + 2);
    perror(argv[2]);
    return 2;
}
