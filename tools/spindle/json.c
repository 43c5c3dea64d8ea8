/* SPDX-License-Identifier: MIT */
#include "json.h"

#include <inttypes.h>
#include <math.h>

/* The bytes of the UTF-8 character at text; 0: it is none. */
static int utf8_length(const unsigned char *text)
{
    const unsigned char c = text[0];
    const int length = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;

    if (length <= 1)
        return length;
    if (c > 0xf4 || (c == 0xe0 && text[1] < 0xa0) || (c == 0xed && text[1] > 0x9f) ||
        (c == 0xf0 && text[1] < 0x90) || (c == 0xf4 && text[1] > 0x8f))
        return 0; /* longer than it need be, half of a pair, or beyond the last one */
    for (int i = 1; i < length; i++)
        if ((text[i] & 0xc0) != 0x80) /* ends at the NUL too */
            return 0;
    return length;
}

/* Names come from URLs, from plug-ins and cut off: what is no UTF-8 in them becomes the
 * character that stands for such bytes. */
static void write_quoted(FILE *to, const char *text)
{
    const unsigned char *c = (const unsigned char *)text;

    putc('"', to);
    while (*c != '\0') {
        const int length = utf8_length(c);

        if (length == 0)
            fputs("\xef\xbf\xbd", to);
        else if (*c == '"' || *c == '\\')
            fprintf(to, "\\%c", *c);
        else if (*c < 0x20)
            fprintf(to, "\\u%04x", *c);
        else
            fwrite(c, 1, (size_t)length, to);
        c += length == 0 ? 1 : length;
    }
    putc('"', to);
}

/* The comma, the new line and the key that come before every value. */
static void lead_in(struct json *j, const char *key)
{
    if (j->depth > 0)
        fprintf(j->to, "%s\n%*s", j->first ? "" : ",", 2 * j->depth, "");
    j->first = false;
    if (key != NULL) {
        write_quoted(j->to, key);
        fputs(": ", j->to);
    }
}

void json_begin(struct json *j, FILE *to)
{
    *j = (struct json){ .to = to, .depth = 0, .first = true };
}

void json_open(struct json *j, const char *key, char bracket)
{
    lead_in(j, key);
    putc(bracket, j->to);
    j->depth++;
    j->first = true;
}

void json_close(struct json *j, char bracket)
{
    j->depth--;
    if (!j->first)
        fprintf(j->to, "\n%*s", 2 * j->depth, "");
    putc(bracket, j->to);
    j->first = false;
    if (j->depth == 0)
        putc('\n', j->to);
}

void json_string(struct json *j, const char *key, const char *value)
{
    if (value == NULL) {
        json_null(j, key);
        return;
    }
    lead_in(j, key);
    write_quoted(j->to, value);
}

void json_integer(struct json *j, const char *key, int64_t value)
{
    lead_in(j, key);
    fprintf(j->to, "%" PRId64, value);
}

void json_number(struct json *j, const char *key, double value)
{
    if (!isfinite(value)) {
        json_null(j, key);
        return;
    }
    lead_in(j, key);
    fprintf(j->to, "%.2f", value);
}

void json_bool(struct json *j, const char *key, bool value)
{
    lead_in(j, key);
    fputs(value ? "true" : "false", j->to);
}

void json_null(struct json *j, const char *key)
{
    lead_in(j, key);
    fputs("null", j->to);
}
