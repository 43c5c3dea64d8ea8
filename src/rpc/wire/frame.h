/* SPDX-License-Identifier: MIT */
/*
 * frame.h - the 16 bytes in front of every message; see frame.c.
 *
 *      0  DA BB
 *      2  80 request | 40 two-way | 20 event | 1F serialization
 *      3  status, of a response
 *      4  id, 8 bytes, opaque
 *     12  length of the body, signed
 *     16  body
 */
#ifndef SPN__FRAME_H
#define SPN__FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SPN__FRAME_BYTES = 16,
    SPN__FRAME_REQUEST = 0x80,
    SPN__FRAME_TWO_WAY = 0x40,
    SPN__FRAME_EVENT = 0x20,
    SPN__FRAME_SERIALIZATION = 0x1f,
    SPN__HESSIAN2 = 2
};

/* Statuses of responses. */
enum {
    SPN__STATUS_OK = 20,
    SPN__STATUS_SERIALIZATION = 25,
    SPN__STATUS_CLIENT_TIMEOUT = 30,
    SPN__STATUS_SERVER_TIMEOUT = 31,
    SPN__STATUS_CHANNEL_INACTIVE = 35,
    SPN__STATUS_BAD_REQUEST = 40,
    SPN__STATUS_BAD_RESPONSE = 50,
    SPN__STATUS_SERVICE_NOT_FOUND = 60,
    SPN__STATUS_SERVICE_ERROR = 70,
    SPN__STATUS_SERVER_ERROR = 80,
    SPN__STATUS_CLIENT_ERROR = 90,
    SPN__STATUS_EXHAUSTED = 100
};

struct spn__frame {
    uint8_t flags; /* SPN__FRAME_... */
    uint8_t status;
    int64_t id;
    int32_t length; /* of the body, as it was said */
};

enum spn__frame_result {
    SPN__FRAME_WHOLE,     /* header and body are there                             */
    SPN__FRAME_MORE,      /* not yet; *needed says how many bytes it takes in all   */
    SPN__FRAME_NO_MAGIC,  /* this is something else                                */
    SPN__FRAME_TOO_LARGE, /* the body is longer than allowed; *frame is there       */
    SPN__FRAME_NEGATIVE   /* its length is below 0; *frame is there                */
};

/* Looks at the beginning of some bytes; `limit` is the longest body that is allowed. */
enum spn__frame_result spn__frame_read(struct spn__frame *frame,
                                       const unsigned char *data, size_t size,
                                       int32_t limit, size_t *needed);

/* Writes a header. */
void spn__frame_write(unsigned char header[SPN__FRAME_BYTES],
                      const struct spn__frame *frame);

static inline bool spn__frame_is_request(const struct spn__frame *frame)
{
    return (frame->flags & SPN__FRAME_REQUEST) != 0;
}

static inline bool spn__frame_is_two_way(const struct spn__frame *frame)
{
    return (frame->flags & SPN__FRAME_TWO_WAY) != 0;
}

static inline bool spn__frame_is_event(const struct spn__frame *frame)
{
    return (frame->flags & SPN__FRAME_EVENT) != 0;
}

static inline unsigned spn__frame_serialization(const struct spn__frame *frame)
{
    return frame->flags & SPN__FRAME_SERIALIZATION;
}

#endif /* SPN__FRAME_H */
