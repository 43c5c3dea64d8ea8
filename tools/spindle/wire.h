/* SPDX-License-Identifier: MIT */
/*
 * wire.h - what `spindle call` and `spindle load` send: a request made of words of the
 * command line.
 */
#ifndef WIRE_H
#define WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "rpc/wire/hessian.h"

enum { WIRE_ARGUMENTS_MAX = 32, WIRE_HEADER_BYTES = 16 };

/* HOST:PORT, [V6]:PORT, or dubbo://HOST:PORT...; false: it is none. */
struct wire_address {
    char host[256];
    int port;
};
bool wire_address(const char *text, struct wire_address *address);

/* Opens a connection, in the calling thread, within a time; -1 and a sentence in `why`. */
int wire_connect(const struct wire_address *address, int timeout_ms, char *why,
                 size_t capacity);

/* What is called. */
struct wire_call {
    char interface[256];
    char method[128];
    const char *version; /* "" for none */
    const char *group;   /* "" for none */
    int64_t timeout_ms;
    spn_hvalue *arguments[WIRE_ARGUMENTS_MAX];
    int argument_count;
    char parameters[1024]; /* as the JVM writes them */
};

/* Interface.method into its parts; false: there is no dot. */
bool wire_method(const char *text, struct wire_call *call);

/*
 * An argument of the command line as a value of the arena, and its type for the
 * descriptor: 5 is an int, 5L a long, 5.0 a double, true a boolean, null a null Object,
 * [...] a list of such, {class:a.B,name:x,...} an object; anything else a String, and so
 * is what stands behind `string:`.  Also int:, long:, double:, boolean:.
 * false: it cannot be read so, and `why` says what is wrong.
 */
bool wire_argument(spn_harena *arena, const char *text, struct wire_call *call,
                   char *why, size_t capacity);

/* A whole request frame in `writer`, which must be empty.  A status of spindle's. */
int wire_request(struct spn__hwriter *writer, const struct wire_call *call, int64_t id,
                 bool two_way);

/* The header of a frame. */
struct wire_header {
    bool request, two_way, event;
    int status;
    int64_t id;
    int64_t length;
};
/* false: that is no frame. */
bool wire_read_header(const unsigned char bytes[WIRE_HEADER_BYTES],
                      struct wire_header *header);

/* Sets the id of a frame that was made. */
void wire_set_id(unsigned char *frame, int64_t id);

/* The text in the first bytes of a reply with another status than 20: no longer than
 * these and `capacity` allow. */
void wire_error_text(const unsigned char *body, size_t size, char *text,
                     size_t capacity);

/* Prints what a server said.  Its control characters are not for our terminal. */
void wire_print(FILE *to, const char *text);

#endif /* WIRE_H */
