/* SPDX-License-Identifier: MIT */
#include "json.h"

#include <inttypes.h>
#include <math.h>

static void write_quoted(FILE *to, const char *text)
{
    putc('"', to);
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(to, "\\%c", *c);
        else if (*c < 0x20)
            fprintf(to, "\\u%04x", *c);
        else
            putc(*c, to);
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
