/* SPDX-License-Identifier: MIT */
/* report.h - the exhaustion report, for the pool; see report.c. */
#ifndef SPN__REPORT_H
#define SPN__REPORT_H

#include <spindle/report.h>

/* The signal that a thread of a pool with this policy must let through, so that it
 * can be asked for its stack; 0: none.  For spn_thread_opts.signal. */
uint32_t spn__reject_signal(const spn_reject_policy *policy);

#endif /* SPN__REPORT_H */
