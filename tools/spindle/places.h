/* SPDX-License-Identifier: MIT */
/*
 * places.h - the connections of the status port: who gets a place, and for how long.
 */
#ifndef PLACES_H
#define PLACES_H

#include <microhttpd.h>

struct places;

/* Starts the thread that accepts connections of `listener`, which stays the caller's, and
 * answers them.  NULL: no memory, thread or descriptor. */
struct places *places_start(int listener, MHD_AccessHandlerCallback answer,
                            void *context);
/* To be called when a response is queued. */
void places_answered(struct MHD_Connection *connection);
/* Closes all connections. */
void places_stop(struct places *places);

#endif /* PLACES_H */
