/* SPDX-License-Identifier: MIT */
/*
 * frame.c - where a message begins and ends.
 *
 * A stream that is out of step stays so: nothing here searches for the next magic, since
 * whoever sends a body may put one into it.  A length is judged as soon as the header is
 * there, so that no peer makes us wait for, and keep, more than we would take.
 */
#include "rpc/wire/frame.h"

enum { MAGIC_HIGH = 0xda, MAGIC_LOW = 0xbb };

static uint32_t read_32(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void write_32(unsigned char *p, uint32_t value)
{
    p[0] = (unsigned char)(value >> 24);
    p[1] = (unsigned char)(value >> 16);
    p[2] = (unsigned char)(value >> 8);
    p[3] = (unsigned char)value;
}

enum spn__frame_result spn__frame_read(struct spn__frame *frame,
                                       const unsigned char *data, size_t size,
                                       int32_t limit, size_t *needed)
{
    /* One byte of the magic says nothing yet; two decide. */
    *needed = size < 2 ? 2 : SPN__FRAME_BYTES;
    if ((size >= 1 && data[0] != MAGIC_HIGH) || (size >= 2 && data[1] != MAGIC_LOW))
        return SPN__FRAME_NO_MAGIC; /* told by its first byte, not after sixteen */
    if (size < SPN__FRAME_BYTES)
        return SPN__FRAME_MORE;
    frame->flags = data[2];
    frame->status = data[3];
    frame->id = (int64_t)((uint64_t)read_32(data + 4) << 32 | read_32(data + 8));
    frame->length = (int32_t)read_32(data + 12);
    if (frame->length < 0)
        return SPN__FRAME_NEGATIVE;
    if (frame->length > limit)
        return SPN__FRAME_TOO_LARGE;
    *needed += (size_t)frame->length;
    return size < *needed ? SPN__FRAME_MORE : SPN__FRAME_WHOLE;
}

void spn__frame_write(unsigned char header[SPN__FRAME_BYTES],
                      const struct spn__frame *frame)
{
    header[0] = MAGIC_HIGH;
    header[1] = MAGIC_LOW;
    header[2] = frame->flags;
    header[3] = frame->status;
    write_32(header + 4, (uint32_t)((uint64_t)frame->id >> 32));
    write_32(header + 8, (uint32_t)frame->id);
    write_32(header + 12, (uint32_t)frame->length);
}
