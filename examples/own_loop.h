/* SPDX-License-Identifier: MIT */
/*
 * own_loop.h - what the program in own_loop.c wants of an event loop.  There are two:
 * own_loop_epoll.c and own_loop_uv.c.
 *
 * The protocol: a client sends lines, and has each of them back in capital letters.  A
 * connection has one line with the handler at a time, and reads no further while the reply
 * to it is not written.  So replies are in order, and no buffer is longer than a line.
 */
#ifndef OWN_LOOP_H
#define OWN_LOOP_H

#include <spindle/channel.h>

/* A program would leave the send buffer as it is.  Here a few lines fill it, so that the loop
 * has to wait until a client reads. */
enum { LINE_BYTES = 512, SEND_BUFFER = 4096 };

/* A line that came, or that is sent; its last byte is '\n'. */
struct line {
    spn_message head;
    size_t size;
    char text[LINE_BYTES];
};

/* Makes the message of the line that `size` bytes of text begin with, in *out.  How long it
 * is; 0: there is no whole line; negative: it is too long, or there is no memory. */
int line_read(struct line **out, const char *text, size_t size);

struct loop;

/* Listens on a free port of this machine, and tells the handler what happens there. */
int loop_create(struct loop **out, spn_handler *handler, int *port);
/* Runs until loop_stop was called and the last connection has ended. */
int loop_run(void *loop);
/* Any thread: no more connections, nothing more is read; what was read is answered. */
void loop_stop(struct loop *loop);
void loop_destroy(struct loop *loop);

#endif /* OWN_LOOP_H */
