/* SPDX-License-Identifier: MIT */
/*
 * fuzz_hessian.c - any bytes as a message: refused with a place inside it, or read, within
 * memory in proportion; and what was read is written, read again as the same, and written
 * as the same bytes.
 */
#include "fuzz.h"

#include <string.h>

#include "rpc/wire/hessian.h"
#include "rpc/wire/hessian_value.h"

enum { VALUES = 32 };

static char printed[1 << 16];

static int read_values(spn_harena *arena, const void *data, size_t size,
                       spn_hvalue **values, spn_problem *problem)
{
    struct spn__hreader reader;
    int count = 0;

    spn__hreader_init(&reader, arena, data, size, problem);
    while (spn__hreader_left(&reader) > 0 && count < VALUES) {
        const size_t before = spn__hreader_offset(&reader);
        const int rc = spn__hreader_any(&reader, &values[count]);

        fuzz_require((rc == SPN_OK) == (values[count] != NULL));
        if (rc != SPN_OK) {
            fuzz_require(spn__hreader_offset(&reader) == before);
            return rc;
        }
        fuzz_require(spn__hreader_offset(&reader) > before);
        count++;
    }
    return count;
}

static void write_values(struct spn__hwriter *w, spn_hvalue **values, int count)
{
    spn__hwriter_init(w, NULL, 0, 0);
    for (int i = 0; i < count; i++)
        fuzz_require(spn__hwriter_value(w, values[i]) == SPN_OK);
}

struct loose {
    int32_t id;
    const char *name;
    struct loose *next;
    spn_hvalue *tags;
};

extern const spn_hstruct loose_struct;
static const spn_hfield fields[] = {
    { "id", offsetof(struct loose, id), SPN_HFIELD_INT, 0, NULL },
    { "name", offsetof(struct loose, name), SPN_HFIELD_TEXT, 0, NULL },
    { "next", offsetof(struct loose, next), SPN_HFIELD_STRUCT, 0, &loose_struct },
    { "tags", offsetof(struct loose, tags), SPN_HFIELD_VALUE, 0, NULL },
};
const spn_hstruct loose_struct = { "Golden$P", fields, 4, sizeof(struct loose) };

static void ask(spn_harena *arena, const spn_hvalue *value)
{
    spn_problem problem = SPN_PROBLEM_INIT;
    struct loose loose = { 0 };
    int rc;

    fuzz_require(spn_hvalue_print(value, printed, sizeof printed) > 0);
    for (size_t i = 0; i < spn_hvalue_count(value); i++) {
        fuzz_require(spn_hvalue_at(value, i) != NULL);
        fuzz_require(spn_hvalue_kind(value) != SPN_HMAP ||
                     spn_hvalue_key_at(value, i) != NULL);
        if (spn_hvalue_name_at(value, i) != NULL)
            fuzz_require(spn_hvalue_get(value, spn_hvalue_name_at(value, i)) != NULL);
    }
    rc = spn_hvalue_to_struct(value, arena, &loose_struct, &loose, &problem);
    fuzz_require(rc == SPN_OK || problem.text[0] != '\0');
}

/* The same bytes once more, by the readers that expect a kind, as far as they like it. */
static void read_directly(spn_harena *arena, const uint8_t *data, size_t size)
{
    struct spn__hreader reader;
    int rc = SPN_OK;

    spn__hreader_init(&reader, arena, data, size, NULL);
    while (rc == SPN_OK && spn__hreader_left(&reader) > 0) {
        spn_hspan text;
        spn_hvalue *any;
        int32_t number;
        const uint8_t code = *reader.at;

        if (code < 0x20 || (code >= 'N' && code <= 'S')) /* O and Q are refused */
            rc = spn__hreader_string(&reader, &text);
        else if (code >= 0x80 || (code >= 'D' && code <= 'I'))
            rc = spn__hreader_int(&reader, &number);
        else
            rc = spn__hreader_any(&reader, &any);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    spn_problem problem = { SIZE_MAX, "" };
    spn_hvalue *values[VALUES], *again[VALUES];
    spn_harena *arena, *other;
    struct spn__hwriter one, two;
    size_t length, length_again;
    int count;

    fuzz_require(spn_harena_create(&arena, NULL) == SPN_OK);
    fuzz_require(spn_harena_create(&other, NULL) == SPN_OK);
    read_directly(arena, data, size);
    spn_harena_reset(arena);
    count = read_values(arena, data, size, values, &problem);
    /* Twice what it is, as the arena keeps pieces apart under a sanitizer. */
    fuzz_require(spn__harena_used(arena) <= 4096 + 256 * size);
    if (count < 0) {
        fuzz_require(problem.offset <= size && problem.text[0] != '\0');
        fuzz_require(count == SPN_EINVAL || count == SPN_EEMPTY || count == SPN_ERANGE);
    } else {
        const void *a, *b;

        write_values(&one, values, count);
        a = spn__hwriter_bytes(&one, &length);
        fuzz_require(read_values(other, a, length, again, &problem) == count);
        for (int i = 0; i < count; i++)
            fuzz_require(spn_hvalue_equals(values[i], again[i]) == 1);
        write_values(&two, again, count);
        b = spn__hwriter_bytes(&two, &length_again);
        fuzz_require(length == length_again &&
                     (length == 0 || memcmp(a, b, length) == 0));
        for (int i = 0; i < count; i++)
            ask(arena, values[i]);
        spn__hwriter_fini(&one);
        spn__hwriter_fini(&two);
    }
    spn_harena_destroy(arena);
    spn_harena_destroy(other);
    return 0;
}
