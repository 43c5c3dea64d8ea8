/* SPDX-License-Identifier: MIT */
/*
 * hessian_write.c - values to bytes: the buffer, and each value in its shortest form.
 *
 * Which form is the shortest is decided as Java's writer does, so that the same values are
 * the same bytes: readers are known to be stricter than the format.  What
 * follows references, classes and trees is in hessian_write_tree.c.
 *
 * The first failure stays, and the calls after it do nothing.  So a caller writes a whole
 * message and looks once.
 */
#include "rpc/wire/hessian_write.h"

#include <string.h>

#include "base/assert.h"
#include "rpc/wire/hessian_code.h"
#include "rpc/wire/hessian_text.h"
#include "sync/seam.h"

#define LIMIT_DEFAULT ((size_t)64 << 20)
enum { CAPACITY_FIRST = 256, DEPTH_DEFAULT = 128 };

/* ---- the buffer ---------------------------------------------------------------- */

/* A buffer up to here is not counted: most replies fit. */
enum { COUNTED_FROM = 4096 };

static size_t counted(size_t capacity)
{
    return capacity > COUNTED_FROM ? capacity : 0;
}

static void free_buffer(struct spn__hwriter *w)
{
    if (w->bytes == w->initial)
        return;
    spn__large_put(w->bytes, w->capacity);
    spn__budget_give(w->budget, counted(w->capacity));
}

void spn__hwriter_init(struct spn__hwriter *writer, void *initial, size_t capacity,
                       size_t limit_bytes)
{
    *writer = (struct spn__hwriter){
        .bytes = initial,
        .capacity = capacity,
        .initial = initial,
        .limit_bytes = limit_bytes != 0 ? limit_bytes : LIMIT_DEFAULT,
        .max_depth = DEPTH_DEFAULT,
    };
}

void spn__hwriter_fini(struct spn__hwriter *writer)
{
    struct spn__htables *const tables = writer->tables;

    if (tables != NULL) {
        spn_harena_destroy(tables->arena);
        spn__free(tables);
    }
    free_buffer(writer);
    /* Zero but for its limits: written to again, it begins anew. */
    *writer = (struct spn__hwriter){ .limit_bytes = writer->limit_bytes,
                                     .max_depth = writer->max_depth };
}

void spn__hwriter_reset(struct spn__hwriter *writer, size_t keep)
{
    struct spn__htables *const tables = writer->tables;

    spn__assert(keep <= writer->length);
    if (tables != NULL) {
        spn_harena *arena = tables->arena;

        spn_harena_reset(arena);
        *tables = (struct spn__htables){ .arena = arena };
    }
    writer->length = keep;
    writer->status = SPN_OK;
    writer->reference_count = 0;
    writer->depth = 0;
}

void *spn__hwriter_bytes(struct spn__hwriter *writer, size_t *length)
{
    if (length != NULL)
        *length = writer->length;
    return writer->length > 0 ? writer->bytes : NULL;
}

int spn__hwriter_status(const struct spn__hwriter *writer)
{
    if (writer->status != SPN_OK)
        return writer->status;
    return writer->depth > 0 ? SPN_ESTATE : SPN_OK;
}

int spn__hwriter_fail(struct spn__hwriter *w, int status)
{
    if (w->status == SPN_OK)
        w->status = status;
    return w->status;
}

struct spn__htables *spn__hwriter_tables(struct spn__hwriter *w)
{
    const spn_harena_opts opts = { sizeof opts, 2048, SIZE_MAX };
    struct spn__htables *tables = w->tables;

    if (tables != NULL)
        return tables;
    tables = spn__alloc(sizeof *tables);
    if (tables == NULL) {
        (void)spn__hwriter_fail(w, SPN_ENOMEM);
        return NULL;
    }
    *tables = (struct spn__htables){ 0 };
    if (spn_harena_create(&tables->arena, &opts) != SPN_OK) {
        spn__free(tables);
        (void)spn__hwriter_fail(w, SPN_ENOMEM);
        return NULL;
    }
    tables->arena->budget = w->budget;
    w->tables = tables;
    return tables;
}

/* Makes the buffer larger by doubling it, up to the limit. */
static bool grow(struct spn__hwriter *w, size_t bytes)
{
    size_t capacity = w->capacity < CAPACITY_FIRST ? CAPACITY_FIRST : w->capacity;
    unsigned char *larger = NULL;

    if (bytes > w->limit_bytes || w->length > w->limit_bytes - bytes) {
        (void)spn__hwriter_fail(w, SPN_ERANGE);
        return false;
    }
    while (capacity < w->length + bytes)
        capacity = capacity > SIZE_MAX / 2 ? SIZE_MAX : capacity * 2;
    if (capacity > w->limit_bytes)
        capacity = w->limit_bytes;
    if (spn__budget_take(w->budget, counted(capacity), SPN__SHARE_REQUESTS)) {
        larger = spn__large_get(capacity);
        if (larger == NULL)
            spn__budget_give(w->budget, counted(capacity));
    }
    if (larger == NULL) {
        (void)spn__hwriter_fail(w, SPN_ENOMEM);
        return false;
    }
    if (w->length > 0)
        memcpy(larger, w->bytes, w->length);
    free_buffer(w);
    w->bytes = larger;
    w->capacity = capacity;
    return true;
}

unsigned char *spn__hwriter_room(struct spn__hwriter *w, size_t bytes)
{
    /* The initial memory may be more than the limit allows. */
    if (__builtin_expect(bytes > w->capacity - w->length ||
                             bytes + w->length > w->limit_bytes,
                         0) &&
        !grow(w, bytes))
        return NULL;
    w->length += bytes;
    return w->bytes + w->length - bytes;
}

static void big16(unsigned char *to, uint32_t n)
{
    to[0] = (unsigned char)(n >> 8);
    to[1] = (unsigned char)n;
}

static void big32(unsigned char *to, uint32_t n)
{
    big16(to, n >> 16);
    big16(to + 2, n);
}

static void big64(unsigned char *to, uint64_t n)
{
    big32(to, (uint32_t)(n >> 32));
    big32(to + 4, (uint32_t)n);
}

/* ---- values without parts -------------------------------------------------------- */

int spn__hwriter_put_byte(struct spn__hwriter *w, unsigned code)
{
    unsigned char *to = spn__hwriter_room(w, 1);

    if (to == NULL)
        return w->status;
    to[0] = (unsigned char)code;
    return SPN_OK;
}

/* A code with `bytes` bytes of a number behind it. */
static int put_number(struct spn__hwriter *w, unsigned code, uint64_t number,
                      size_t bytes)
{
    unsigned char *to = spn__hwriter_room(w, 1 + bytes);

    if (to == NULL)
        return w->status;
    *to++ = (unsigned char)code;
    if (bytes == 8)
        big64(to, number);
    else if (bytes == 4)
        big32(to, (uint32_t)number);
    else if (bytes == 2)
        big16(to, (uint32_t)number);
    else if (bytes == 1)
        to[0] = (unsigned char)number;
    return SPN_OK;
}

/* Where a range starts and which code is 0 there differs for ints and longs. */
static int put_short(struct spn__hwriter *w, int64_t number, unsigned zero,
                     size_t bytes)
{
    const int64_t unit = INT64_C(1) << (8 * bytes);
    const int64_t low = (int64_t)((uint64_t)number & (uint64_t)(unit - 1));
    const int64_t top = (number - low) / unit; /* rounded down, also below 0 */

    return put_number(w, (unsigned)((int64_t)zero + top), (uint64_t)number, bytes);
}

int spn__hwriter_put_int(struct spn__hwriter *w, int32_t number)
{
    if (number >= -16 && number <= 47)
        return put_short(w, number, 0x90, 0);
    if (number >= -2048 && number <= 2047)
        return put_short(w, number, 0xC8, 1);
    if (number >= -262144 && number <= 262143)
        return put_short(w, number, 0xD4, 2);
    return put_number(w, C_INT, (uint32_t)number, 4);
}

int spn__hwriter_put_long(struct spn__hwriter *w, int64_t number)
{
    if (number >= -8 && number <= 15)
        return put_short(w, number, 0xE0, 0);
    if (number >= -2048 && number <= 2047)
        return put_short(w, number, 0xF8, 1);
    if (number >= -262144 && number <= 262143)
        return put_short(w, number, 0x3C, 2);
    if (number >= INT32_MIN && number <= INT32_MAX)
        return put_number(w, C_LONG_INT, (uint32_t)number, 4);
    return put_number(w, C_LONG, (uint64_t)number, 8);
}

/* As Java casts: NaN is 0, and what does not fit is the nearest that does. */
static int32_t cast(double number)
{
    if (!(number == number))
        return 0;
    if (number >= (double)INT32_MAX)
        return INT32_MAX;
    if (number <= (double)INT32_MIN)
        return INT32_MIN;
    return (int32_t)number;
}

int spn__hwriter_put_double(struct spn__hwriter *w, double number)
{
    const int32_t whole = cast(number);
    const int32_t mills = cast(number * 1000);
    uint64_t bits;

    if (whole == number) {
        if (whole == 0 || whole == 1)
            return spn__hwriter_put_byte(w, whole == 0 ? C_DOUBLE_0 : C_DOUBLE_1);
        if (whole >= INT8_MIN && whole <= INT8_MAX)
            return put_number(w, C_DOUBLE_BYTE, (uint8_t)whole, 1);
        if (whole >= INT16_MIN && whole <= INT16_MAX)
            return put_number(w, C_DOUBLE_SHORT, (uint16_t)whole, 2);
    }
    if (0.001 * mills == number)
        return put_number(w, C_DOUBLE_MILLS, (uint32_t)mills, 4);
    memcpy(&bits, &number, sizeof bits);
    if (number != number)
        bits = UINT64_C(0x7FF8000000000000); /* there is one NaN */
    return put_number(w, C_DOUBLE, bits, 8);
}

int spn__hwriter_put_date(struct spn__hwriter *w, int64_t ms)
{
    const int64_t minutes = ms / 60000;

    if (ms % 60000 == 0 && minutes >= INT32_MIN && minutes <= INT32_MAX)
        return put_number(w, C_DATE_MINUTES, (uint32_t)minutes, 4);
    return put_number(w, C_DATE_MS, (uint64_t)ms, 8);
}

/* The head of the last piece; direct and brief are the codes of the two short forms. */
static unsigned char *put_last_head(unsigned char *to, size_t size, unsigned direct,
                                    size_t direct_max, unsigned brief, unsigned whole)
{
    if (size <= direct_max) {
        *to++ = (unsigned char)(direct + size);
    } else if (size <= 1023) {
        *to++ = (unsigned char)(brief + (size >> 8));
        *to++ = (unsigned char)size;
    } else {
        *to++ = (unsigned char)whole;
        big16(to, (uint32_t)size);
        to += 2;
    }
    return to;
}

static size_t last_head_bytes(size_t size, size_t direct_max)
{
    return size <= direct_max ? 1 : size <= 1023 ? 2 : 3;
}

static unsigned char *put_string_head(unsigned char *to, size_t units)
{
    return put_last_head(to, units, C_STRING_DIRECT, 31, C_STRING_SHORT, C_STRING);
}

/* More than one piece: walks from piece to piece.  Rare, so each is appended by itself. */
static int put_long_string(struct spn__hwriter *w, const unsigned char *at,
                           size_t length, size_t units)
{
    while (units > CHUNK_UNITS) {
        struct spn__text text = { 0 };
        size_t taken;
        const size_t bytes = spn__text_piece(at, length, CHUNK_UNITS, &taken);
        unsigned char *to;

        (void)spn__text_measure(&text, at, bytes);
        to = spn__hwriter_room(w, 3 + text.wire);
        if (to == NULL)
            return w->status;
        to[0] = C_STRING_CHUNK;
        big16(to + 1, (uint32_t)taken);
        (void)spn__text_to_cesu8(to + 3, at, bytes);
        at += bytes;
        length -= bytes;
        units -= taken;
    }
    return spn__hwriter_put_string(w, (const char *)at, length);
}

int spn__hwriter_put_string(struct spn__hwriter *w, const char *data, size_t length)
{
    const unsigned char *const at = (const unsigned char *)data;
    struct spn__text text = { 0 };
    unsigned char *to;

    if (length > w->limit_bytes) /* before a look at so many bytes */
        return spn__hwriter_fail(w, SPN_ERANGE);
    if (length <= CHUNK_UNITS && spn__text_is_ascii(at, length)) {
        to = spn__hwriter_room(w, last_head_bytes(length, 31) + length);
        if (to == NULL)
            return w->status;
        if (length > 0)
            memcpy(put_string_head(to, length), data, length);
        else
            *to = C_STRING_DIRECT;
        return SPN_OK;
    }
    if (!spn__text_measure(&text, at, length))
        return spn__hwriter_fail(w, SPN_EINVAL);
    if (text.units > CHUNK_UNITS)
        return put_long_string(w, at, length, text.units);
    to = spn__hwriter_room(w, last_head_bytes(text.units, 31) + text.wire);
    if (to == NULL)
        return w->status;
    (void)spn__text_to_cesu8(put_string_head(to, text.units), at, length);
    return SPN_OK;
}

int spn__hwriter_put_binary(struct spn__hwriter *w, const void *data, size_t length)
{
    const unsigned char *at = data;
    unsigned char *to;

    if (length > w->limit_bytes)
        return spn__hwriter_fail(w, SPN_ERANGE);
    for (; length > CHUNK_BYTES; at += CHUNK_BYTES, length -= CHUNK_BYTES) {
        to = spn__hwriter_room(w, 3 + CHUNK_BYTES);
        if (to == NULL)
            return w->status;
        to[0] = C_BINARY_CHUNK;
        big16(to + 1, CHUNK_BYTES);
        memcpy(to + 3, at, CHUNK_BYTES);
    }
    to = spn__hwriter_room(w, last_head_bytes(length, 15) + length);
    if (to == NULL)
        return w->status;
    to = put_last_head(to, length, C_BINARY_DIRECT, 15, C_BINARY_SHORT, C_BINARY);
    if (length > 0)
        memcpy(to, at, length);
    return SPN_OK;
}

/* ---- one value each --------------------------------------------------------------- */

int spn__hwriter_raw(struct spn__hwriter *writer, const void *data, size_t length)
{
    unsigned char *to;

    if (writer->status != SPN_OK)
        return writer->status;
    to = spn__hwriter_room(writer, length);
    if (to == NULL && length > 0)
        return writer->status;
    if (length > 0)
        memcpy(to, data, length);
    return SPN_OK;
}

int spn__hwriter_null(struct spn__hwriter *writer)
{
    const int rc = spn__hwriter_begin(writer);

    return rc == SPN_OK ? spn__hwriter_put_byte(writer, C_NULL) : rc;
}

int spn__hwriter_bool(struct spn__hwriter *writer, int flag)
{
    const int rc = spn__hwriter_begin(writer);

    return rc == SPN_OK ? spn__hwriter_put_byte(writer, flag != 0 ? C_TRUE : C_FALSE)
                        : rc;
}

int spn__hwriter_int(struct spn__hwriter *writer, int32_t number)
{
    const int rc = spn__hwriter_begin(writer);

    return rc == SPN_OK ? spn__hwriter_put_int(writer, number) : rc;
}

int spn__hwriter_long(struct spn__hwriter *writer, int64_t number)
{
    const int rc = spn__hwriter_begin(writer);

    return rc == SPN_OK ? spn__hwriter_put_long(writer, number) : rc;
}

int spn__hwriter_double(struct spn__hwriter *writer, double number)
{
    const int rc = spn__hwriter_begin(writer);

    return rc == SPN_OK ? spn__hwriter_put_double(writer, number) : rc;
}

int spn__hwriter_string(struct spn__hwriter *writer, const char *data, size_t length)
{
    const int rc = spn__hwriter_begin(writer);

    if (rc != SPN_OK)
        return rc;
    if (data == NULL)
        return length == 0 ? spn__hwriter_put_byte(writer, C_NULL)
                           : spn__hwriter_fail(writer, SPN_EINVAL);
    return spn__hwriter_put_string(writer, data, length);
}

int spn__hwriter_text(struct spn__hwriter *writer, const char *text)
{
    return spn__hwriter_string(writer, text, text != NULL ? strlen(text) : 0);
}
