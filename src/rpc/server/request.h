/* SPDX-License-Identifier: MIT */
/* request.h - the inside of a request at the server; see request.c, body.c and reply.c. */
#ifndef SPN__REQUEST_H
#define SPN__REQUEST_H

#include <spindle/service.h>

#include "rpc/frames.h"
#include "rpc/server/services.h"
#include "rpc/wire/hessian.h"

enum {
    SPN__ARGUMENTS_INLINE = 3,
    SPN__REPLY_INLINE = 128, /* bytes of a reply that need no further memory */
    SPN__ATTACHMENTS_MAX = 16
};

/* An argument as it was read: what needs no memory is kept as it is, and becomes a value
 * when somebody asks for one. */
struct spn__argument {
    spn_hvalue *value; /* NULL: as below */
    uint32_t kind;     /* spn_hkind: null, bool, int, long, double, string */
    uint32_t unused;
    union {
        int64_t integer;
        double real;
        spn_hspan text; /* a zero byte behind it */
    } is;
};

/* What the reply will be. */
enum spn__reply {
    SPN__REPLY_NULL, /* nothing was said: null */
    SPN__REPLY_VALUE,
    SPN__REPLY_EXCEPTION,
    SPN__REPLY_STATUS /* a text */
};

/* Of a deferred request, whose method has to return and which has to be finished. */
enum spn__turn { SPN__TURN_NEITHER, SPN__TURN_RETURNED, SPN__TURN_FINISHED };

struct spn_request {
    struct spn__message message; /* first */
    struct spn_server *server;
    /* The body, decoded; texts without a value are { NULL, 0 }. */
    spn_hspan dubbo, path, version, method, descriptor, group;
    struct spn__argument *arguments;
    const unsigned char *attachments_at; /* the first key, where they are a plain map of
                                            plain texts; NULL: */
    spn_hvalue *attachments;             /* a value, or NULL: none */
    int64_t timeout_ms;                  /* as attached; 0: none */
    uint16_t argument_count;
    uint8_t is_broken;         /* the body is no request: `problem` says why */
    uint8_t offer;             /* spn__offer: if not SPN__OFFERED, it was not read on */
    uint8_t wants_attachments; /* the reply's flags are 3 to 5 */
    uint8_t is_timed;
    uint8_t reply;      /* spn__reply */
    uint8_t status;     /* of the reply */
    uint8_t dropped;    /* no reply */
    uint8_t is_running; /* its method was called */
    uint8_t is_deferred;
    uint8_t has_writer;
    int finish_status;          /* what finish was told, published by [defer] */
    SPN__ATOMIC(uint32_t) turn; /* spn__turn [defer] */
    unsigned shard;
    size_t split;
    struct spn__exported *exported; /* a call of it was begun; NULL: not yet */
    const spn_method *called;
    spn_harena *arena;       /* made when it is needed */
    spn_problem *problem;    /* in the arena; NULL: none */
    spn_hvalue *attached;    /* to the reply; NULL: nothing */
    spn_cancel_token *token; /* a reference; NULL: nobody asked for it */
    struct spn__hwriter writer;
    struct spn__argument inline_arguments[SPN__ARGUMENTS_INLINE];
    unsigned char room[SPN__FRAME_BYTES + SPN__REPLY_INLINE];
    /* and the body, with a zero byte behind it */
};

/* request.c: makes the message of a frame, for the protocol of servers. */
struct spn__message *spn__request_create(struct spn__stream *stream,
                                         const struct spn__frame *frame,
                                         const unsigned char *body);
/* No thread handles it, for a status or an spn__refused: says so, on this thread. */
void spn__request_refused(struct spn_request *request, int why);
/* Sends what was decided on, and frees the request.  As spn_request_finish. */
int spn__request_send(struct spn_request *request);
/* The same after the method returned that status. */
int spn__request_conclude(struct spn_request *request, int status);
/* The method has ended its thread: decides on the reply, before spn__request_returned. */
void spn__request_cut_short(struct spn_request *request);
/* The method has returned; the request may be gone afterwards. */
void spn__request_returned(struct spn_request *request, int status);
/* A text that was cut to its room ends with a whole character: half a one is no text, and
 * would not be sent. */
void spn__text_end_whole(char *text);
/* What is wrong, for the reply; returns the status. */
__attribute__((format(printf, 3, 4))) int
spn__request_fail(struct spn_request *request, int status, const char *format, ...);

/* body.c: reads the body; message->decode. */
void spn__request_decode(struct spn__message *message);
/* Whether a version of the protocol has attachments in replies. */
bool spn__dubbo_has_attachments(spn_hspan version);
/* The next plain text of a body: moves *at behind it.  False: something else. */
bool spn__plain_text(const unsigned char **at, const unsigned char *end,
                     spn_hspan *text);
/* An argument as a value; NULL: no memory. */
spn_hvalue *spn__argument_value(struct spn_request *request,
                                struct spn__argument *argument);

/* reply.c: makes the frame of the reply complete. */
int spn__reply_finish(struct spn_request *request, unsigned char **frame, size_t *size);

#endif /* SPN__REQUEST_H */
