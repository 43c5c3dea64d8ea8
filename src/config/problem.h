/* SPDX-License-Identifier: MIT */
/* problem.h - how the library fills in what a person got wrong. */
#ifndef SPN__PROBLEM_H
#define SPN__PROBLEM_H

#include <spindle/problem.h>

#include "base/shared.h"

/* Fills in *problem, if there is one, and returns the status, so that a refusal is one
 * statement.  Control characters become '?': the text quotes what others wrote. */
SPN__SHARED __attribute__((format(printf, 4, 5))) int
spn__refuse(spn_problem *problem, int status, size_t offset, const char *format, ...);

#endif /* SPN__PROBLEM_H */
