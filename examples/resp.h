/* SPDX-License-Identifier: MIT */
/*
 * resp.h - as much of the Redis protocol as GET, SET and PING need: where a request ends, and
 * what the reply is.  No threads and no sockets: those are in resp_server.c.  Any thread may
 * call all of it.
 */
#ifndef RESP_H
#define RESP_H

#include <stddef.h>
#include <stdint.h>

enum { RESP_WORDS = 3 };

struct resp_text {
    const char *data;
    size_t size;
};

/* "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", or a line, "GET k\r\n" */
struct resp_request {
    int count; /* of its words, of which the first few are kept */
    struct resp_text word[RESP_WORDS];
};

/* Reads the request that `data` begins with, and empty lines before it.  The words then point
 * into `data`.  Returns the length of it all; 0: more has to come; -1: it is no request. */
int64_t resp_parse(struct resp_request *request, const char *data, size_t size);

/* Does what the request asks for.  Returns the bytes to send, which the caller frees; NULL:
 * there is no memory. */
char *resp_answer(const struct resp_request *request, size_t *size);

#endif /* RESP_H */
