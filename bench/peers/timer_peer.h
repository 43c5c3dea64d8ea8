/* SPDX-License-Identifier: MIT */
/*
 * timer_peer.h - what a peer in C or C++ brings to timer_peer.c, which does the work of
 * timer_load.h with it.
 */
#ifndef TIMER_PEER_H
#define TIMER_PEER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

extern const int peer_threads_max; /* who may add and cancel at a time */

extern int peer_loop_time; /* 1: the time the loop has will do, as in its callbacks */

void peer_open(size_t timers);
/* When timer `index` fires, peer_fired(index) is to be called. */
void peer_add(size_t index, int64_t delay_ns);
void peer_cancel(size_t index);
/* Runs the loop on the calling thread until peer_enough() says so, or deadline_ns. */
void peer_loop(int64_t deadline_ns);

void peer_fired(size_t index); /* timer_peer.c */
int peer_enough(void);

#ifdef __cplusplus
}
#endif
#endif /* TIMER_PEER_H */
