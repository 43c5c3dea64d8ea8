/* SPDX-License-Identifier: MIT */
#ifndef SPINDLE_H
#define SPINDLE_H

#include <spindle/alloc.h>
#include <spindle/clock.h>
#include <spindle/cpu.h>
#include <spindle/executor.h>
#include <spindle/future.h>
#include <spindle/latch.h>
#include <spindle/log.h>
#include <spindle/park.h>
#include <spindle/poll_set.h>
#include <spindle/queue.h>
#include <spindle/semaphore.h>
#include <spindle/status.h>
#include <spindle/thread.h>
#include <spindle/time.h>
#include <spindle/timer.h>
#include <spindle/version.h>
#include <spindle/wheel.h>

#endif /* SPINDLE_H */
