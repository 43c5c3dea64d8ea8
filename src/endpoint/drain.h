/* SPDX-License-Identifier: MIT */
/* drain.h - the end of an endpoint's connections; see drain.c. */
#ifndef SPN__DRAIN_H
#define SPN__DRAIN_H

#include "endpoint/stream.h"

/* Until when stop takes further messages of a connection. */
enum spn__drain_takes {
    SPN__DRAIN_TAKES_NONE, /* none: a program's protocol */
    SPN__DRAIN_UNTIL_IDLE, /* until none is in flight: Dubbo peers that were not asked */
    SPN__DRAIN_UNTIL_QUIET, /* until none comes any more: peers were asked to send no more */
};

/* Ends each connection when its messages are over, and waits until all have gone, at most
 * until the deadline and then a moment for those that are idle.  No new stream comes.
 * False: some are left; their tokens are cancelled. */
bool spn__drain_streams(struct spn__endpoint *endpoint, int64_t deadline_ns,
                        enum spn__drain_takes takes);
/* Those that are left: resets their connections. */
void spn__drain_cut_off(struct spn__endpoint *endpoint);
/* After that: waits a moment until no stream takes messages any more.  False: an I/O thread
 * is held up by a handler. */
bool spn__drain_await_deaf(struct spn__endpoint *endpoint, int64_t deadline_ns);
/* Closes what is left, and waits a moment until `disconnected` has returned everywhere.  False:
 * as before. */
bool spn__drain_close(struct spn__endpoint *endpoint, int64_t deadline_ns);
/* Connections are gone, but a thread may be inside of a handler, or be about to be.  Waits
 * until none is; false: a message is not released, or it takes too long. */
bool spn__drain_await_handlers(struct spn__endpoint *endpoint, int64_t deadline_ns);
/* Whether the caller is inside an event of one of the streams, on its I/O thread. */
bool spn__drain_is_inside(struct spn__endpoint *endpoint);

#endif /* SPN__DRAIN_H */
