/* SPDX-License-Identifier: MIT */
/*
 * probes.h - places where a tracer can look in: USDT probes of the provider `spindle`, if
 * the build found <sys/sdt.h>.  A probe nobody looks at is one instruction that does
 * nothing.  tools/bpftrace has scripts.
 *
 *     task_submit  pool's name, task
 *     task_start   pool's name, label or NULL, nanoseconds it waited or -1
 *     task_done    pool's name, label or NULL, status, nanoseconds it ran or -1
 */
#ifndef SPN__PROBES_H
#define SPN__PROBES_H

#if defined(SPN_USDT) && !defined(SPN_SIM)
#include <sys/sdt.h>
#define SPN__PROBE2(name, a, b)       DTRACE_PROBE2(spindle, name, a, b)
#define SPN__PROBE3(name, a, b, c)    DTRACE_PROBE3(spindle, name, a, b, c)
#define SPN__PROBE4(name, a, b, c, d) DTRACE_PROBE4(spindle, name, a, b, c, d)
#else
#define SPN__PROBE2(name, a, b)       ((void)(a), (void)(b))
#define SPN__PROBE3(name, a, b, c)    ((void)(a), (void)(b), (void)(c))
#define SPN__PROBE4(name, a, b, c, d) ((void)(a), (void)(b), (void)(c), (void)(d))
#endif

#endif /* SPN__PROBES_H */
