/* SPDX-License-Identifier: MIT */
/* resp.c - requests and replies of the Redis protocol, and a store; see resp.h. */
#include "resp.h"

#include <ctype.h>
#include <pthread.h>
#include <search.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { WORDS_MAX = 1000, LINE_BYTES = 65536, WRONG = -1, MORE = -2 };

/* ---- requests ------------------------------------------------------------------------ */

static void word_add(struct resp_request *r, const char *data, size_t size)
{
    if (r->count < RESP_WORDS)
        r->word[r->count] = (struct resp_text){ data, size };
    r->count++;
}

/* Reads "*2\r\n" or "$3\r\n" at *at.  Returns the number, MORE, or WRONG. */
static int64_t number_read(char type, const char *data, size_t size, size_t *at)
{
    int64_t number = 0;

    if (*at < size && data[*at] != type)
        return WRONG;
    while (++*at < size && isdigit((unsigned char)data[*at]) && number < INT32_MAX)
        number = number * 10 + (data[*at] - '0');
    *at += 2;
    if (*at > size)
        return MORE;
    return data[*at - 1] == '\n' ? number : WRONG;
}

static int64_t array_parse(struct resp_request *r, const char *data, size_t size)
{
    size_t at = 0;
    int64_t count = number_read('*', data, size, &at);

    if (count < 0 || count > WORDS_MAX)
        return count == MORE ? MORE : WRONG;
    for (; count > 0; count--) {
        const int64_t bytes = number_read('$', data, size, &at);

        if (bytes < 0)
            return bytes;
        if (at + (size_t)bytes + 2 > size)
            return MORE;
        word_add(r, data + at, (size_t)bytes);
        at += (size_t)bytes + 2;
    }
    return (int64_t)at;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static int64_t line_parse(struct resp_request *r, const char *data, size_t size)
{
    const char *const end = memchr(data, '\n', size);

    if (end == NULL)
        return size < LINE_BYTES ? MORE : WRONG;
    for (const char *at = data, *word; at < end;) {
        if (is_blank(*at)) {
            at++;
            continue;
        }
        for (word = at; at < end && *at != '\0' && !is_blank(*at);)
            at++;
        if (at == word)
            return WRONG; /* a zero byte */
        word_add(r, word, (size_t)(at - word));
    }
    return end - data + 1;
}

int64_t resp_parse(struct resp_request *request, const char *data, size_t size)
{
    size_t at = 0;
    int64_t length;

    request->count = 0;
    do {
        length = at < size && data[at] == '*'
                     ? array_parse(request, data + at, size - at)
                     : line_parse(request, data + at, size - at);
        if (length < 0)
            return length == MORE ? 0 : WRONG;
        at += (size_t)length;
    } while (request->count == 0 && at <= LINE_BYTES);
    return request->count > 0 ? (int64_t)at : WRONG;
}

/* ---- replies --------------------------------------------------------------------------- */

/* "$5\r\nhello\r\n" between two texts. */
static char *reply_bulk(const char *before, struct resp_text text, const char *behind,
                        size_t *size)
{
    const size_t room = strlen(before) + text.size + strlen(behind) + 32;
    char *const reply = malloc(room);

    if (reply != NULL) {
        *size = (size_t)snprintf(reply, room, "%s$%zu\r\n", before, text.size);
        memcpy(reply + *size, text.data, text.size);
        *size += text.size;
        *size += (size_t)snprintf(reply + *size, room - *size, "\r\n%s", behind);
    }
    return reply;
}

static char *reply_text(const char *text, size_t *size)
{
    *size = strlen(text);
    return strdup(text);
}

/* ---- the store ------------------------------------------------------------------------ */

struct pair {
    struct resp_text key, value; /* the key first: pairs are compared with keys */
    char bytes[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *pairs; /* of tsearch; guarded by lock */

static int pair_compare(const void *one, const void *two)
{
    const struct resp_text *a = one, *b = two;

    if (a->size != b->size)
        return a->size < b->size ? -1 : 1;
    return memcmp(a->data, b->data, a->size);
}

static char *get(const struct resp_text *key, size_t *size)
{
    struct pair **found;
    char *reply;

    pthread_mutex_lock(&lock);
    found = tfind(key, &pairs, pair_compare);
    reply = found != NULL ? reply_bulk("", (*found)->value, "", size)
                          : reply_text("$-1\r\n", size);
    pthread_mutex_unlock(&lock);
    return reply;
}

static char *set(const struct resp_text *key, const struct resp_text *value,
                 size_t *size)
{
    struct pair *const pair = malloc(sizeof *pair + key->size + value->size);
    struct pair **found, *old;

    if (pair == NULL)
        return NULL;
    pair->key = (struct resp_text){ pair->bytes, key->size };
    pair->value = (struct resp_text){ pair->bytes + key->size, value->size };
    memcpy(pair->bytes, key->data, key->size);
    memcpy(pair->bytes + key->size, value->data, value->size);

    pthread_mutex_lock(&lock);
    found = tsearch(pair, &pairs, pair_compare);
    old = found == NULL ? pair : *found != pair ? *found : NULL;
    if (found != NULL)
        *found = pair;
    pthread_mutex_unlock(&lock);
    free(old);
    return found != NULL ? reply_text("+OK\r\n", size) : NULL;
}

static bool is(const struct resp_request *r, const char *name, int least, int most)
{
    return r->word[0].size == strlen(name) && r->count >= least && r->count <= most &&
           strncasecmp(r->word[0].data, name, strlen(name)) == 0;
}

char *resp_answer(const struct resp_request *r, size_t *size)
{
    if (is(r, "GET", 2, 2))
        return get(&r->word[1], size);
    if (is(r, "SET", 3, 3))
        return set(&r->word[1], &r->word[2], size);
    if (is(r, "PING", 1, 1))
        return reply_text("+PONG\r\n", size);
    if (is(r, "PING", 2, 2) || is(r, "ECHO", 2, 2))
        return reply_bulk("", r->word[1], "", size);
    if (is(r, "CONFIG", 3, 3)) /* GET: whatever the setting is, it is empty */
        return reply_bulk("*2\r\n", r->word[2], "$0\r\n\r\n", size);
    if (is(r, "COMMAND", 1, WORDS_MAX))
        return reply_text("*0\r\n", size);
    if (is(r, "HELLO", 1, WORDS_MAX))
        return reply_text("-NOPROTO this server speaks version 2 only\r\n", size);
    return reply_text("-ERR unknown command or wrong number of arguments\r\n", size);
}
