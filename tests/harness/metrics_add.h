/* SPDX-License-Identifier: MIT */
/* metrics_add.h - registers a thing in one line: METRICS_ADD(metrics, .pool = pool). */
#ifndef METRICS_ADD_H
#define METRICS_ADD_H

#include <spindle/metrics.h>

#define METRICS_ADD(metrics, ...)                     \
    spn_metrics_add((metrics), &(spn_metrics_source){ \
                                   .size = sizeof(spn_metrics_source), __VA_ARGS__ })

#endif /* METRICS_ADD_H */
