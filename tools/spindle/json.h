/* SPDX-License-Identifier: MIT */
/*
 * json.h - writes one JSON document, indented, without ever building it in
 * memory.  Keys are NULL inside an array.  Numbers that are not finite are
 * written as null: JSON has no word for them.
 */
#ifndef JSON_H
#define JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
    FILE *to;
    int depth;
    bool first; /* nothing written yet at this depth: no comma before */
};

void json_begin(struct json *j, FILE *to);
void json_open(struct json *j, const char *key, char bracket);        /* '{' or '[' */
void json_close(struct json *j, char bracket);                        /* '}' or ']' */
void json_string(struct json *j, const char *key, const char *value); /* NULL: null */
void json_integer(struct json *j, const char *key, int64_t value);
void json_number(struct json *j, const char *key, double value);
void json_bool(struct json *j, const char *key, bool value);
void json_null(struct json *j, const char *key);

#endif /* JSON_H */
