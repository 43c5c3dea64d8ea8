/* SPDX-License-Identifier: MIT */
#ifndef SPN_PROBLEM_H
#define SPN_PROBLEM_H

#include <spindle/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What is wrong with something a person wrote: filled in by calls that refuse it, next to
 * the status, and left alone by calls that succeed.  Wherever one is asked for, NULL will
 * do.  The caller's own memory; nothing in it points anywhere.
 */
typedef struct spn_problem spn_problem;
struct spn_problem {
    size_t
        offset; /* of the first byte that is wrong, in the text that was read: the URL,
                      or the value of the parameter the message names            */
    char text
        [504]; /* a sentence for people, without a newline; what is too long is cut */
};

#define SPN_PROBLEM_INIT \
    {                    \
        0,               \
        {                \
            0            \
        }                \
    }

#ifdef __cplusplus
}
#endif
#endif /* SPN_PROBLEM_H */
