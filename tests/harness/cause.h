/* SPDX-License-Identifier: MIT */
/* cause.h - why a future failed, as a test asks for it. */
#ifndef CAUSE_H
#define CAUSE_H

#include <stdio.h>

#include <spindle/future.h>

/* Stores code and message of a future that has failed; text may be NULL.
 * Returns  SPN_OK; SPN_ESTATE unless it has failed. */
static inline int t_cause(spn_future *future, int *code, char *text, size_t capacity)
{
    spn_outcome outcome;
    const int rc = spn_future_result(future, &outcome);

    *code = outcome.code;
    if (rc != SPN_EFAILED)
        return SPN_ESTATE;
    if (text != NULL)
        (void)snprintf(text, capacity, "%s", outcome.message);
    return SPN_OK;
}

#endif /* CAUSE_H */
