/* SPDX-License-Identifier: MIT */
/* frames.h - the protocol of streams that speak Dubbo's frames; see frames.c. */
#ifndef SPN__FRAMES_H
#define SPN__FRAMES_H

#include <spindle/server.h>

#include "endpoint/stream.h"
#include "rpc/message.h"

struct spn__frames_protocol {
    struct spn__protocol protocol; /* first */
    /* Makes the message of a frame that is no event, with a copy of its body; takes a hold
     * of the stream.  NULL: no memory.  Responses only come here at a client. */
    struct spn__message *(*message)(struct spn__stream *stream,
                                    const struct spn__frame *frame,
                                    const unsigned char *body);
};

/* For the protocols of servers and clients. */
int64_t spn__frames_take(struct spn__stream *stream, const unsigned char *data,
                         size_t size, int64_t now_ns, size_t *needed);
int64_t spn__frames_crowded(struct spn__stream *stream, const unsigned char *data,
                            size_t size);
void spn__frames_ask(struct spn__stream *stream);
extern const spn_channel_ops spn__frames_channel_ops;

/* A request of a server's has come; the I/O thread. */
void spn__frames_count_request(struct spn__stream *stream,
                               const struct spn__frame *frame);
/* Sends a response to a request, with another status than 20 and a text; counted. */
int spn__frames_answer(struct spn__stream *stream, const struct spn__frame *request,
                       int status, const char *text, unsigned flags);
/* Sends an event, or the answer to one: body NULL is a heartbeat. */
int spn__frames_send_event(struct spn__stream *stream, uint8_t flags, uint8_t status,
                           int64_t id, const char *body);
/* A text for the peer: something was refused for want of memory. */
void spn__frames_memory_text(const struct spn__stream *stream, char *text, size_t size);

/* What programs are told of a connection. */
void spn__frames_info(struct spn__stream *stream, int error, spn_channel_info *info);

/* Which of the 16 counts a status has: server_stats.c. */
int spn__status_slot(int status);

#endif /* SPN__FRAMES_H */
