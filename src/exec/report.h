/* SPDX-License-Identifier: MIT */
/* report.h - the exhaustion report, for the pool; see report.c. */
#ifndef SPN__REPORT_H
#define SPN__REPORT_H

#include <spindle/report.h>

#include "sync/lock.h"

/* The signal that a thread of a pool with this policy must let through, so that it
 * can be asked for its stack; 0: none.  For spn_thread_opts.signal. */
uint32_t spn__reject_signal(const spn_reject_policy *policy);

/* Questions to threads that outlived the report that asked them; freed when the next
 * one is made or destroyed after the answers have come. */
struct spn__captures;
struct spn__stranded {
    struct spn__lock lock; /* guards first; a leaf */
    struct spn__captures *first;
};
extern struct spn__stranded spn__report_stranded;

#endif /* SPN__REPORT_H */
