/* SPDX-License-Identifier: MIT */
#ifndef SPINDLE_H
#define SPINDLE_H

#include <spindle/alloc.h>
#include <spindle/audit.h>
#include <spindle/cancel.h>
#include <spindle/clock.h>
#include <spindle/completion.h>
#include <spindle/context.h>
#include <spindle/cpu.h>
#include <spindle/delayed.h>
#include <spindle/executor.h>
#include <spindle/extension.h>
#include <spindle/forkjoin.h>
#include <spindle/future.h>
#include <spindle/group.h>
#include <spindle/invoke.h>
#include <spindle/latch.h>
#include <spindle/limiter.h>
#include <spindle/log.h>
#include <spindle/metrics.h>
#include <spindle/object_pool.h>
#include <spindle/parallel.h>
#include <spindle/park.h>
#include <spindle/poll_set.h>
#include <spindle/pool.h>
#include <spindle/problem.h>
#include <spindle/queue.h>
#include <spindle/report.h>
#include <spindle/repository.h>
#include <spindle/scheduled.h>
#include <spindle/semaphore.h>
#include <spindle/serial.h>
#include <spindle/serial_timer.h>
#include <spindle/status.h>
#include <spindle/task_local.h>
#include <spindle/thread.h>
#include <spindle/threadless.h>
#include <spindle/time.h>
#include <spindle/timer.h>
#include <spindle/url.h>
#include <spindle/url_pool.h>
#include <spindle/version.h>
#include <spindle/watch.h>
#include <spindle/wheel.h>

#endif /* SPINDLE_H */
