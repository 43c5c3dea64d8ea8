/* SPDX-License-Identifier: MIT */
/*
 * hessian_value.c - values: made, asked, changed.
 *
 * Nothing here follows values into each other, so that circles do not matter: printing and
 * comparing, which do, are in hessian_print.c and hessian_compare.c.
 */
#include "rpc/wire/hessian_value.h"

#include <string.h>

#include "rpc/wire/hessian_text.h"

/* ---- constants ------------------------------------------------------------------ */

enum { INT_LEAST = -16, INT_MOST = 47, LONG_LEAST = -8, LONG_MOST = 15 };

#define WHOLE(kind, number) \
    {                       \
        kind, 1, 0, 0,      \
        {                   \
            number          \
        }                   \
    }
#define INT4(n)                                                             \
    WHOLE(SPN_HINT, n), WHOLE(SPN_HINT, (n) + 1), WHOLE(SPN_HINT, (n) + 2), \
        WHOLE(SPN_HINT, (n) + 3)
#define LONG4(n)                                                               \
    WHOLE(SPN_HLONG, n), WHOLE(SPN_HLONG, (n) + 1), WHOLE(SPN_HLONG, (n) + 2), \
        WHOLE(SPN_HLONG, (n) + 3)

static const spn_hvalue null_value = WHOLE(SPN_HNULL, 0);
static const spn_hvalue bools[] = { WHOLE(SPN_HBOOL, 0), WHOLE(SPN_HBOOL, 1) };
static const spn_hvalue ints[] = { INT4(-16), INT4(-12), INT4(-8), INT4(-4),
                                   INT4(0),   INT4(4),   INT4(8),  INT4(12),
                                   INT4(16),  INT4(20),  INT4(24), INT4(28),
                                   INT4(32),  INT4(36),  INT4(40), INT4(44) };
static const spn_hvalue longs[] = { LONG4(-8), LONG4(-4), LONG4(0),
                                    LONG4(4),  LONG4(8),  LONG4(12) };
static const spn_hvalue zero_value = { SPN_HDOUBLE, 1, 0, 0, { .real = 0.0 } };
static const spn_hvalue one_value = { SPN_HDOUBLE, 1, 0, 0, { .real = 1.0 } };
static const spn_hvalue empty_string = { SPN_HSTRING, 1, 0, 0, { .bytes = "" } };
static const spn_hvalue empty_binary = { SPN_HBINARY, 1, 0, 0, { .bytes = "" } };

static_assert(sizeof ints / sizeof ints[0] == INT_MOST - INT_LEAST + 1, "all of them");
static_assert(sizeof longs / sizeof longs[0] == LONG_MOST - LONG_LEAST + 1,
              "all of them");

/* Values without parts never change, so that nobody writes to a constant. */
static spn_hvalue *constant(const spn_hvalue *value)
{
    return (spn_hvalue *)(uintptr_t)value;
}

/* ---- making them ------------------------------------------------------------------ */

spn_hvalue *spn__hvalue_make(spn_harena *arena, spn_hkind kind)
{
    spn_hvalue *value = spn__harena_new(arena, spn_hvalue, 1);

    if (value != NULL)
        *value = (spn_hvalue){ .kind = (uint8_t)kind };
    return value;
}

spn_hvalue *spn__hvalue_parts(spn_harena *arena, spn_hkind kind)
{
    struct spn__hparts *parts = spn__harena_new(arena, struct spn__hparts, 1);

    if (parts == NULL)
        return NULL;
    *parts = (struct spn__hparts){ .head = { .kind = (uint8_t)kind }, .arena = arena };
    return &parts->head;
}

spn_hvalue *spn__hvalue_integer(spn_harena *arena, spn_hkind kind, int64_t number)
{
    spn_hvalue *value;

    if (kind == SPN_HINT && number >= INT_LEAST && number <= INT_MOST)
        return constant(&ints[number - INT_LEAST]);
    if (kind == SPN_HLONG && number >= LONG_LEAST && number <= LONG_MOST)
        return constant(&longs[number - LONG_LEAST]);
    if (kind == SPN_HBOOL)
        return constant(&bools[number != 0]);
    if (kind == SPN_HNULL)
        return constant(&null_value);
    value = spn__hvalue_make(arena, kind);
    if (value != NULL)
        value->is.integer = number;
    return value;
}

static uint64_t bits_of(double number)
{
    uint64_t bits;

    memcpy(&bits, &number, sizeof bits);
    return bits;
}

spn_hvalue *spn__hvalue_real(spn_harena *arena, double number)
{
    const uint64_t bits = bits_of(number);
    spn_hvalue *value;

    /* By its bits: -0.0 is another number than the constant. */
    if (bits == bits_of(zero_value.is.real))
        return constant(&zero_value);
    if (bits == bits_of(one_value.is.real))
        return constant(&one_value);
    value = spn__hvalue_make(arena, SPN_HDOUBLE);
    if (value != NULL)
        value->is.real = number;
    return value;
}

spn_hvalue *spn__hvalue_empty(spn_hkind kind)
{
    return constant(kind == SPN_HSTRING ? &empty_string : &empty_binary);
}

spn_hvalue *spn_harena_null(spn_harena *arena)
{
    return arena != NULL ? constant(&null_value) : NULL;
}

spn_hvalue *spn_harena_bool(spn_harena *arena, int flag)
{
    return arena != NULL ? constant(&bools[flag != 0]) : NULL;
}

spn_hvalue *spn_harena_int(spn_harena *arena, int32_t number)
{
    return arena != NULL ? spn__hvalue_integer(arena, SPN_HINT, number) : NULL;
}

spn_hvalue *spn_harena_long(spn_harena *arena, int64_t number)
{
    return arena != NULL ? spn__hvalue_integer(arena, SPN_HLONG, number) : NULL;
}

spn_hvalue *spn_harena_double(spn_harena *arena, double number)
{
    return arena != NULL ? spn__hvalue_real(arena, number) : NULL;
}

spn_hvalue *spn_harena_date(spn_harena *arena, int64_t ms)
{
    return arena != NULL ? spn__hvalue_integer(arena, SPN_HDATE, ms) : NULL;
}

/* Text that is UTF-8 already, or bytes. */
static spn_hvalue *copy_bytes(spn_harena *arena, spn_hkind kind, const void *data,
                              size_t length)
{
    spn_hvalue *value;

    if (length == 0)
        return spn__hvalue_empty(kind);
    if (length > UINT32_MAX - 1) {
        arena->status = SPN_ERANGE;
        return NULL;
    }
    value = spn__hvalue_make(arena, kind);
    if (value == NULL)
        return NULL;
    value->is.bytes = spn__harena_name(arena, data, length);
    if (value->is.bytes == NULL)
        return NULL;
    value->count = (uint32_t)length;
    return value;
}

spn_hvalue *spn_harena_string(spn_harena *arena, const char *data, size_t length)
{
    struct spn__text text = { 0 };
    bool high = false;
    spn_hvalue *value;

    if (arena == NULL || data == NULL)
        return NULL;
    if (length > arena->limit) { /* before a look at so many bytes */
        arena->status = SPN_ERANGE;
        return NULL;
    }
    if (!spn__text_measure(&text, (const unsigned char *)data, length))
        return NULL;
    if (text.outside == length || length > UINT32_MAX - 1)
        return copy_bytes(arena, SPN_HSTRING, data, length);
    /* Pairs in halves become one, as the reader would have it. */
    value = spn__hvalue_make(arena, SPN_HSTRING);
    if (value != NULL) {
        unsigned char *copy = spn__harena_get(arena, text.outside + 1, 1);

        if (copy == NULL)
            return NULL;
        copy[spn__text_to_utf8(copy, (const unsigned char *)data, length, &high)] = 0;
        value->is.bytes = (const char *)copy;
        value->count = (uint32_t)text.outside;
    }
    return value;
}

spn_hvalue *spn_harena_text(spn_harena *arena, const char *text)
{
    return text != NULL ? spn_harena_string(arena, text, strlen(text)) : NULL;
}

spn_hvalue *spn_harena_binary(spn_harena *arena, const void *data, size_t length)
{
    if (arena == NULL || (data == NULL && length > 0))
        return NULL;
    return copy_bytes(arena, SPN_HBINARY, data, length);
}

static bool is_name(const char *name)
{
    struct spn__text text = { 0 };

    return spn__text_measure(&text, (const unsigned char *)name, strlen(name));
}

static spn_hvalue *make_typed(spn_harena *arena, spn_hkind kind, const char *type)
{
    spn_hvalue *value;

    if (arena == NULL || (type != NULL && (type[0] == '\0' || !is_name(type))))
        return NULL;
    value = spn__hvalue_parts(arena, kind);
    if (value == NULL || type == NULL)
        return value;
    spn__parts(value)->type.name = spn__harena_name(arena, type, strlen(type));
    return spn__parts(value)->type.name != NULL ? value : NULL;
}

spn_hvalue *spn_harena_list(spn_harena *arena, const char *type)
{
    return make_typed(arena, SPN_HLIST, type);
}

spn_hvalue *spn_harena_map(spn_harena *arena, const char *type)
{
    return make_typed(arena, SPN_HMAP, type);
}

enum { FIELDS_FIRST = 8 };

spn_hvalue *spn_harena_object(spn_harena *arena, const char *class_name)
{
    struct spn__hclass *own;
    spn_hvalue *value;

    if (arena == NULL || class_name == NULL || !is_name(class_name))
        return NULL;
    value = spn__hvalue_parts(arena, SPN_HOBJECT);
    own = spn__harena_new(arena, struct spn__hclass, 1);
    if (value == NULL || own == NULL)
        return NULL;
    *own = (struct spn__hclass){
        .name = spn__harena_name(arena, class_name, strlen(class_name)),
        .fields = spn__harena_new(arena, const char *, FIELDS_FIRST),
        .capacity = FIELDS_FIRST,
    };
    spn__parts(value)->type.of = own;
    return own->name != NULL && own->fields != NULL ? value : NULL;
}

/* ---- asking them ------------------------------------------------------------------- */

spn_hkind spn_hvalue_kind(const spn_hvalue *value)
{
    return value != NULL ? (spn_hkind)value->kind : SPN_HNULL;
}

const char *spn_hkind_name(spn_hkind kind)
{
    static const char *const names[] = { "null",   "bool", "int",    "long",
                                         "double", "date", "string", "binary",
                                         "list",   "map",  "object" };

    return (unsigned)kind < sizeof names / sizeof names[0] ? names[kind] : "unknown";
}

int spn_hvalue_as_bool(const spn_hvalue *value, int *flag)
{
    if (value == NULL || flag == NULL || value->kind != SPN_HBOOL)
        return SPN_EINVAL;
    *flag = (int)value->is.integer;
    return SPN_OK;
}

bool spn__real_to_integer(double number, int64_t *integer)
{
    /* The bounds are exact as doubles; NaN passes neither. */
    if (!(number >= -9223372036854775808.0 && number < 9223372036854775808.0))
        return false;
    *integer = (int64_t)number;
    return (double)*integer == number;
}

int spn_hvalue_as_long(const spn_hvalue *value, int64_t *number)
{
    int64_t whole;

    if (value == NULL || number == NULL)
        return SPN_EINVAL;
    switch (value->kind) {
    case SPN_HINT:
    case SPN_HLONG:
        *number = value->is.integer;
        return SPN_OK;
    case SPN_HDOUBLE:
        if (!spn__real_to_integer(value->is.real, &whole))
            return SPN_ERANGE;
        *number = whole;
        return SPN_OK;
    default:
        return SPN_EINVAL;
    }
}

int spn_hvalue_as_int(const spn_hvalue *value, int32_t *number)
{
    int64_t wide;
    const int rc = number != NULL ? spn_hvalue_as_long(value, &wide) : SPN_EINVAL;

    if (rc != SPN_OK)
        return rc;
    if (wide < INT32_MIN || wide > INT32_MAX)
        return SPN_ERANGE;
    *number = (int32_t)wide;
    return SPN_OK;
}

int spn_hvalue_as_double(const spn_hvalue *value, double *number)
{
    if (value == NULL || number == NULL)
        return SPN_EINVAL;
    if (value->kind == SPN_HDOUBLE)
        *number = value->is.real;
    else if (value->kind == SPN_HINT || value->kind == SPN_HLONG)
        *number = (double)value->is.integer;
    else
        return SPN_EINVAL;
    return SPN_OK;
}

int spn_hvalue_as_date(const spn_hvalue *value, int64_t *ms)
{
    if (value == NULL || ms == NULL || value->kind != SPN_HDATE)
        return SPN_EINVAL;
    *ms = value->is.integer;
    return SPN_OK;
}

static int as_span(const spn_hvalue *value, spn_hkind kind, spn_hspan *span)
{
    if (value == NULL || span == NULL)
        return SPN_EINVAL;
    if (value->kind == SPN_HNULL)
        *span = (spn_hspan){ NULL, 0 };
    else if (value->kind == kind)
        *span = (spn_hspan){ value->is.bytes, value->count };
    else
        return SPN_EINVAL;
    return SPN_OK;
}

int spn_hvalue_as_string(const spn_hvalue *value, spn_hspan *text)
{
    return as_span(value, SPN_HSTRING, text);
}

int spn_hvalue_as_binary(const spn_hvalue *value, spn_hspan *bytes)
{
    return as_span(value, SPN_HBINARY, bytes);
}

const char *spn_hvalue_text(const spn_hvalue *value)
{
    if (value == NULL || value->kind != SPN_HSTRING ||
        memchr(value->is.bytes, 0, value->count) != NULL)
        return NULL;
    return value->is.bytes;
}

const char *spn_hvalue_type(const spn_hvalue *value)
{
    if (value == NULL || !spn__has_parts(value))
        return NULL;
    return value->kind == SPN_HOBJECT ? spn__parts(value)->type.of->name
                                      : spn__parts(value)->type.name;
}

size_t spn_hvalue_count(const spn_hvalue *value)
{
    return value != NULL && spn__has_parts(value) ? value->count : 0;
}

spn_hvalue *spn_hvalue_at(const spn_hvalue *value, size_t index)
{
    if (index >= spn_hvalue_count(value))
        return NULL;
    return value->is.items[value->kind == SPN_HMAP ? index * 2 + 1 : index];
}

spn_hvalue *spn_hvalue_key_at(const spn_hvalue *value, size_t index)
{
    if (index >= spn_hvalue_count(value) || value->kind != SPN_HMAP)
        return NULL;
    return value->is.items[index * 2];
}

const char *spn_hvalue_name_at(const spn_hvalue *value, size_t index)
{
    if (index >= spn_hvalue_count(value) || value->kind != SPN_HOBJECT)
        return NULL;
    return spn__parts(value)->type.of->fields[index];
}

/* The index of the last field or pair of that name; count: none. */
static size_t index_of(const spn_hvalue *value, const char *name, size_t length)
{
    size_t i = value->count;

    while (i-- > 0) {
        if (value->kind == SPN_HMAP) {
            const spn_hvalue *key = value->is.items[i * 2];

            if (key->kind == SPN_HSTRING && key->count == length &&
                memcmp(key->is.bytes, name, length) == 0)
                return i;
        } else if (strcmp(spn__parts(value)->type.of->fields[i], name) == 0) {
            return i;
        }
    }
    return value->count;
}

spn_hvalue *spn_hvalue_get(const spn_hvalue *value, const char *name)
{
    if (value == NULL || name == NULL || value->kind < SPN_HMAP)
        return NULL;
    return spn_hvalue_at(value, index_of(value, name, strlen(name)));
}

/* ---- changing them ------------------------------------------------------------------ */

bool spn__hvalue_reserve(spn_hvalue *value, size_t slots)
{
    struct spn__hparts *parts = spn__parts(value);
    spn_hvalue **larger;
    size_t wanted;

    if (slots <= parts->capacity)
        return true;
    wanted = (size_t)parts->capacity * 2;
    if (wanted < 4)
        wanted = value->kind == SPN_HMAP ? 8 : 4;
    if (wanted < slots)
        wanted = slots;
    if (wanted > UINT32_MAX) {
        parts->arena->status = SPN_ERANGE;
        return false;
    }
    larger = spn__harena_grow(parts->arena, value->is.items, spn__slots(value), wanted,
                              sizeof(spn_hvalue *));
    if (larger == NULL)
        return false;
    value->is.items = larger;
    parts->capacity = (uint32_t)wanted;
    return true;
}

/* Whether an item may go into that value, and if not, why. */
static int check_item(const spn_hvalue *value, const spn_hvalue *item)
{
    const spn_harena *arena = spn__parts(value)->arena;

    if (item == NULL)
        return arena->status != SPN_OK ? arena->status : SPN_EINVAL;
    if (spn__has_parts(item) && spn__parts(item)->arena != arena)
        return SPN_EINVAL;
    return SPN_OK;
}

int spn_hvalue_add(spn_hvalue *list, spn_hvalue *item)
{
    int rc;

    if (list == NULL || list->kind != SPN_HLIST)
        return SPN_EINVAL;
    rc = check_item(list, item);
    if (rc != SPN_OK)
        return rc;
    if (!spn__hvalue_reserve(list, (size_t)list->count + 1))
        return spn__parts(list)->arena->status;
    list->is.items[list->count++] = item;
    return SPN_OK;
}

int spn_hvalue_put(spn_hvalue *map, spn_hvalue *key, spn_hvalue *item)
{
    int rc;

    if (map == NULL || map->kind != SPN_HMAP)
        return SPN_EINVAL;
    rc = check_item(map, key);
    if (rc == SPN_OK)
        rc = check_item(map, item);
    if (rc != SPN_OK)
        return rc;
    if (!spn__hvalue_reserve(map, spn__slots(map) + 2))
        return spn__parts(map)->arena->status;
    map->is.items[spn__slots(map)] = key;
    map->is.items[spn__slots(map) + 1] = item;
    map->count++;
    return SPN_OK;
}

/* Makes the class of an object its own, with room for one more field. */
static struct spn__hclass *own_class(spn_hvalue *object)
{
    struct spn__hparts *parts = spn__parts(object);
    struct spn__hclass *is = parts->type.of;
    const uint32_t wanted = (is->field_count + FIELDS_FIRST) * 2;
    const char **fields;

    if (is->capacity > is->field_count)
        return is;
    fields = spn__harena_grow(parts->arena, is->fields, is->field_count, wanted,
                              sizeof *fields);
    if (fields == NULL)
        return NULL;
    if (is->capacity == 0) { /* shared */
        struct spn__hclass *own = spn__harena_new(parts->arena, struct spn__hclass, 1);

        if (own == NULL)
            return NULL;
        *own = *is;
        is = own;
    }
    is->fields = fields;
    is->capacity = wanted;
    parts->type.of = is;
    return is;
}

static int append_field(spn_hvalue *object, const char *name, spn_hvalue *item)
{
    spn_harena *arena = spn__parts(object)->arena;
    struct spn__hclass *own;
    const char *copy;

    if (!is_name(name))
        return SPN_EINVAL;
    copy = spn__harena_name(arena, name, strlen(name));
    if (copy == NULL || !spn__hvalue_reserve(object, (size_t)object->count + 1))
        return arena->status;
    own = own_class(object);
    if (own == NULL)
        return arena->status;
    own->fields[own->field_count++] = copy;
    object->is.items[object->count++] = item;
    return SPN_OK;
}

int spn_hvalue_set(spn_hvalue *value, const char *name, spn_hvalue *item)
{
    size_t index;
    int rc;

    if (value == NULL || name == NULL || value->kind < SPN_HMAP)
        return SPN_EINVAL;
    rc = check_item(value, item);
    if (rc != SPN_OK)
        return rc;
    index = index_of(value, name, strlen(name));
    if (index < value->count) {
        value->is.items[value->kind == SPN_HMAP ? index * 2 + 1 : index] = item;
        return SPN_OK;
    }
    if (value->kind == SPN_HOBJECT)
        return append_field(value, name, item);
    return spn_hvalue_put(value, spn_harena_text(spn__parts(value)->arena, name), item);
}
