/* SPDX-License-Identifier: MIT */
/*
 * hessian.h - what tests of Hessian stand on: bytes from hexadecimal text, the vectors,
 * values read and written in one call.
 */
#ifndef TESTS_HESSIAN_H
#define TESTS_HESSIAN_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/wire/hessian.h"
#include "test.h"

struct bytes {
    unsigned char *at;
    size_t length;
};

/* The bytes of hexadecimal text, blanks allowed; the caller frees them. */
static inline struct bytes from_hex(const char *text)
{
    struct bytes b = { malloc(strlen(text) / 2 + 1), 0 };
    unsigned high = 0;
    int half = 0;

    REQUIRE(b.at != NULL);
    for (; *text != '\0'; text++) {
        const char *digits = "0123456789abcdef";
        const char *digit = strchr(digits, *text);

        if (*text == ' ')
            continue;
        REQUIRE(digit != NULL);
        if (half == 0)
            high = (unsigned)(digit - digits);
        else
            b.at[b.length++] = (unsigned char)(high << 4 | (unsigned)(digit - digits));
        half = !half;
    }
    REQUIRE(half == 0);
    return b;
}

/* Reads all values of a message; how many there were, or why not. */
static inline int read_all(spn_harena *arena, const void *at, size_t length,
                           spn_hvalue **values, size_t capacity, spn_problem *problem)
{
    struct spn__hreader reader;
    int count = 0;

    spn__hreader_init(&reader, arena, at, length, problem);
    while (spn__hreader_left(&reader) > 0) {
        spn_hvalue *value;
        const int rc = spn__hreader_any(&reader, &value);

        if (rc != SPN_OK)
            return rc;
        if ((size_t)count < capacity)
            values[count] = value;
        count++;
    }
    return count;
}

/* The printed value of hexadecimal text, all values of it, each on a line. */
static inline const char *printed(const char *hex)
{
    static char text[65536];
    struct bytes b = from_hex(hex);
    spn_problem problem = SPN_PROBLEM_INIT;
    spn_hvalue *values[16];
    spn_harena *arena;
    size_t length = 0;
    int count;

    REQUIRE_OK(spn_harena_create(&arena, NULL));
    count = read_all(arena, b.at, b.length, values, 16, &problem);
    if (count < 0)
        (void)snprintf(text, sizeof text, "%s at %zu: %s", spn_status_name(count),
                       problem.offset, problem.text);
    for (int i = 0; i < count; i++) {
        if (i > 0)
            text[length++] = '\n';
        length +=
            (size_t)spn_hvalue_print(values[i], text + length, sizeof text - length);
    }
    spn_harena_destroy(arena);
    free(b.at);
    return text;
}

#define CHECK_READS(hex, expected) CHECK_STR(printed(hex), (expected))

/* Whether the writer holds exactly these bytes. */
#define CHECK_WROTE(writer, hex)                                          \
    do {                                                                  \
        struct bytes expected_ = from_hex(hex);                           \
        size_t length_;                                                   \
        const void *at_ = spn__hwriter_bytes((writer), &length_);         \
        CHECK_EQ(length_, expected_.length);                              \
        CHECK(length_ == expected_.length &&                              \
              (length_ == 0 || memcmp(at_, expected_.at, length_) == 0)); \
        free(expected_.at);                                               \
    } while (0)

/* ---- the vectors --------------------------------------------------------------- */

struct vector {
    char name[64];
    struct bytes bytes;
    bool whole; /* the line holds all bytes; else bytes are made by the caller */
    size_t length;
    char sha1[41];
    unsigned char head[20];
};

/* Calls fn for each line of the file; how many there were. */
static inline int each_vector(void (*fn)(const struct vector *vector, void *arg),
                              void *arg)
{
    FILE *file = fopen(HESSIAN_VECTORS, "r");
    static char line[65536];
    int count = 0;

    REQUIRE(file != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        struct vector v = { .whole = true };
        char *tab = strchr(line, '\t'), head[64];

        REQUIRE(tab != NULL);
        *tab++ = '\0';
        tab[strcspn(tab, "\n")] = '\0';
        REQUIRE(strlen(line) < sizeof v.name);
        memcpy(v.name, line, strlen(line) + 1);
        if (strncmp(tab, "len=", 4) == 0) {
            REQUIRE(sscanf(tab, "len=%zu sha1=%40s head=%63s", &v.length, v.sha1,
                           head) == 3);
            v.whole = false;
            v.bytes = from_hex(head);
            REQUIRE(v.bytes.length <= sizeof v.head);
            memcpy(v.head, v.bytes.at, v.bytes.length);
        } else {
            v.bytes = from_hex(tab);
            v.length = v.bytes.length;
        }
        fn(&v, arg);
        free(v.bytes.at);
        count++;
    }
    fclose(file);
    return count;
}

#endif /* TESTS_HESSIAN_H */
