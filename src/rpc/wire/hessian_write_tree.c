/* SPDX-License-Identifier: MIT */
/*
 * hessian_write_tree.c - lists, maps, objects: their heads, trees of them, structs.
 *
 * TABLES
 *   A message names each type and class once and has a number for every list, map and
 *   object, in the order of their first bytes.  What is written by hand takes a number but
 *   has no identity; of a tree's values and of structs the address is remembered, so that
 *   what comes again, or contains itself, is written as that number.
 *
 * THE WALK
 *   One loop with a stack for values and structs alike, since each may hold the other: no
 *   depth of a tree reaches the C stack.  A struct's address alone does not tell it from
 *   its own first member, so it is remembered together with its table.
 */
#include "rpc/wire/hessian_write.h"

#include <string.h>

#include "rpc/wire/hessian_code.h"

/* A step of the walk: a value's items, or a struct's fields. */
struct spn__hframe {
    const spn_hvalue *value; /* NULL: a struct */
    const void *from;
    const spn_hstruct *type;
    size_t next;
    size_t count;
};

enum {
    OPEN_INSIDE = sizeof((struct spn__hwriter *)0)->open / sizeof(uint32_t) / 2,
    FIELDS_MAX = 4096
};

/* ---- what is open ------------------------------------------------------------------ */

/* Two numbers for each depth: the values that are still missing (of a map: 1 while a key
 * waits for its value), and the kind. */
enum { LEFT, KIND };

static uint32_t *open_at(struct spn__hwriter *w, uint32_t index)
{
    if (index < OPEN_INSIDE)
        return &w->open[(size_t)index * 2];
    return &w->tables->open[(size_t)(index - OPEN_INSIDE) * 2];
}

int spn__hwriter_count(struct spn__hwriter *w)
{
    uint32_t *open = open_at(w, w->depth - 1);

    if (open[KIND] == SPN_HMAP)
        open[LEFT] ^= 1;
    else if (open[LEFT] == 0)
        return spn__hwriter_fail(w, SPN_ESTATE);
    else
        open[LEFT]--;
    return SPN_OK;
}

static int push_open(struct spn__hwriter *w, spn_hkind kind, size_t values)
{
    uint32_t *open;

    if (w->depth == w->max_depth)
        return spn__hwriter_fail(w, SPN_ERANGE);
    if (w->depth >= OPEN_INSIDE) {
        struct spn__htables *t = spn__hwriter_tables(w);
        const uint32_t used = w->depth - OPEN_INSIDE;

        if (t == NULL)
            return w->status;
        if (used == t->open_capacity) {
            const uint32_t capacity = used == 0 ? 8 : used * 2;
            uint32_t *larger =
                spn__harena_grow(t->arena, t->open, used, capacity, 2 * sizeof *larger);

            if (larger == NULL)
                return spn__hwriter_fail(w, SPN_ENOMEM);
            t->open = larger;
            t->open_capacity = capacity;
        }
    }
    open = open_at(w, w->depth++);
    open[LEFT] = (uint32_t)values;
    open[KIND] = (uint32_t)kind;
    return SPN_OK;
}

/* ---- heads ------------------------------------------------------------------------- */

/* One more entry in a table of pointers; NULL: no memory. */
static void *enter(struct spn__hwriter *w, void *table, uint32_t count,
                   uint32_t *capacity)
{
    const uint32_t wanted = *capacity == 0 ? 8 : *capacity * 2;
    struct spn__htables *t = w->tables;
    void *larger;

    if (count < *capacity)
        return table;
    larger = spn__harena_grow(t->arena, table, count, wanted, sizeof(void *));
    if (larger == NULL)
        (void)spn__hwriter_fail(w, SPN_ENOMEM);
    else
        *capacity = wanted;
    return larger;
}

/* Continues a hash over a name and its end. */
static uint64_t hash(uint64_t h, const char *name)
{
    do {
        h = (h ^ (unsigned char)*name) * UINT64_C(0x100000001B3);
    } while (*name++ != '\0');
    return h;
}

static const void *as_key(uint64_t h)
{
    return (const void *)(uintptr_t)(h ^ h >> 32);
}

#define HASH_START UINT64_C(0xCBF29CE484222325)

/* Types, and classes below, are found by what their names hash to.  Where two share that,
 * the second is written out each time: longer, but the same to who reads it. */
static int put_type(struct spn__hwriter *w, const char *type)
{
    const void *const key = as_key(hash(HASH_START, type));
    struct spn__htables *t = spn__hwriter_tables(w);
    const struct spn__hid *known;
    const char **types;
    int rc;

    if (t == NULL)
        return w->status;
    known = spn__hids_find(&t->type_hashes, key, NULL);
    if (known != NULL && strcmp(t->types[known->number], type) == 0)
        return spn__hwriter_put_int(w, (int32_t)known->number);
    rc = spn__hwriter_put_string(w, type, strlen(type));
    if (rc != SPN_OK)
        return rc;
    types = enter(w, (void *)(uintptr_t)t->types, t->type_count, &t->type_capacity);
    if (types == NULL)
        return w->status;
    t->types = types;
    types[t->type_count] = spn__harena_name(t->arena, type, strlen(type));
    if (types[t->type_count] == NULL ||
        (known == NULL &&
         spn__hids_add(&t->type_hashes, t->arena, key, NULL, t->type_count) == NULL))
        return spn__hwriter_fail(w, SPN_ENOMEM);
    t->type_count++;
    return SPN_OK;
}

int spn__hwriter_put_list(struct spn__hwriter *w, const char *type, size_t count)
{
    const unsigned direct = type != NULL ? C_LIST_TYPED_DIRECT : C_LIST_DIRECT;
    const unsigned whole = type != NULL ? C_LIST_TYPED : C_LIST;
    int rc;

    if (count > INT32_MAX)
        return spn__hwriter_fail(w, SPN_ERANGE);
    rc = spn__hwriter_put_byte(w, count <= 7 ? direct + (unsigned)count : whole);
    if (rc == SPN_OK && type != NULL)
        rc = put_type(w, type);
    if (rc == SPN_OK && count > 7)
        rc = spn__hwriter_put_int(w, (int32_t)count);
    w->reference_count++;
    return rc;
}

int spn__hwriter_put_map(struct spn__hwriter *w, const char *type)
{
    int rc = spn__hwriter_put_byte(w, type != NULL ? C_MAP_TYPED : C_MAP);

    if (rc == SPN_OK && type != NULL)
        rc = put_type(w, type);
    w->reference_count++;
    return rc;
}

static bool same_class(const struct spn__hclass *a, const struct spn__hclass *b)
{
    if (a->field_count != b->field_count || strcmp(a->name, b->name) != 0)
        return false;
    for (uint32_t i = 0; i < a->field_count; i++)
        if (strcmp(a->fields[i], b->fields[i]) != 0)
            return false;
    return true;
}

static int put_class(struct spn__hwriter *w, const struct spn__hclass *of)
{
    int rc = spn__hwriter_put_byte(w, C_CLASS);

    if (rc == SPN_OK)
        rc = spn__hwriter_put_string(w, of->name, strlen(of->name));
    if (rc == SPN_OK)
        rc = spn__hwriter_put_int(w, (int32_t)of->field_count);
    for (uint32_t i = 0; rc == SPN_OK && i < of->field_count; i++)
        rc = spn__hwriter_put_string(w, of->fields[i], strlen(of->fields[i]));
    return rc;
}

/* A copy that lives as long as the message. */
static const struct spn__hclass *keep_class(spn_harena *arena,
                                            const struct spn__hclass *of)
{
    struct spn__hclass *copy = spn__harena_new(arena, struct spn__hclass, 1);
    const char **fields = spn__harena_new(arena, const char *, of->field_count);

    if (copy == NULL || fields == NULL)
        return NULL;
    *copy = (struct spn__hclass){
        .name = spn__harena_name(arena, of->name, strlen(of->name)),
        .fields = fields,
        .field_count = of->field_count,
    };
    for (uint32_t i = 0; i < of->field_count; i++)
        fields[i] = spn__harena_name(arena, of->fields[i], strlen(of->fields[i]));
    return arena->status == SPN_OK ? copy : NULL;
}

/* The number of a class that was not met at this address before: that of one with the same
 * names, or a new one, defined here. */
static int number_class(struct spn__hwriter *w, const struct spn__hclass *of,
                        uint32_t *number)
{
    struct spn__htables *t = w->tables;
    uint64_t h = hash(HASH_START, of->name);
    const struct spn__hclass **classes;
    const struct spn__hid *known;
    int rc;

    for (uint32_t i = 0; i < of->field_count; i++)
        h = hash(h, of->fields[i]);
    known = spn__hids_find(&t->class_hashes, as_key(h), NULL);
    if (known != NULL && same_class(t->classes[known->number], of)) {
        *number = known->number;
        return SPN_OK;
    }
    rc = put_class(w, of);
    if (rc != SPN_OK)
        return rc;
    classes =
        enter(w, (void *)(uintptr_t)t->classes, t->class_count, &t->class_capacity);
    if (classes == NULL)
        return w->status;
    t->classes = classes;
    classes[t->class_count] = keep_class(t->arena, of);
    if (classes[t->class_count] == NULL ||
        (known == NULL && spn__hids_add(&t->class_hashes, t->arena, as_key(h), NULL,
                                        t->class_count) == NULL))
        return spn__hwriter_fail(w, SPN_ENOMEM);
    *number = t->class_count++;
    return SPN_OK;
}

int spn__hwriter_put_object(struct spn__hwriter *w, const struct spn__hclass *of,
                            const void *id)
{
    struct spn__htables *t = spn__hwriter_tables(w);
    const struct spn__hid *known;
    uint32_t number = 0;
    int rc;

    if (t == NULL)
        return w->status;
    known = id != NULL ? spn__hids_find(&t->class_ids, id, NULL) : NULL;
    if (known != NULL) {
        number = known->number;
    } else {
        rc = number_class(w, of, &number);
        if (rc != SPN_OK)
            return rc;
        if (id != NULL &&
            spn__hids_add(&t->class_ids, t->arena, id, NULL, number) == NULL)
            return spn__hwriter_fail(w, SPN_ENOMEM);
    }
    w->reference_count++;
    if (number < 16)
        return spn__hwriter_put_byte(w, C_OBJECT_DIRECT + number);
    rc = spn__hwriter_put_byte(w, C_OBJECT);
    return rc == SPN_OK ? spn__hwriter_put_int(w, (int32_t)number) : rc;
}

static int put_reference(struct spn__hwriter *w, uint32_t number)
{
    const int rc = spn__hwriter_put_byte(w, C_REFERENCE);

    return rc == SPN_OK ? spn__hwriter_put_int(w, (int32_t)number) : rc;
}

/* ---- the walk ------------------------------------------------------------------------ */

/* Whether it was written before: then it is now, as a reference.  Else it gets the next
 * number; 1, 0 or a failure. */
static int seen(struct spn__hwriter *w, const void *key, const void *type)
{
    struct spn__htables *t = spn__hwriter_tables(w);
    const struct spn__hid *known;

    if (t == NULL)
        return w->status;
    known = spn__hids_find(&t->references, key, type);
    if (known != NULL) {
        const int rc = put_reference(w, known->number);

        return rc == SPN_OK ? 1 : rc;
    }
    if (spn__hids_add(&t->references, t->arena, key, type, w->reference_count) == NULL)
        return spn__hwriter_fail(w, SPN_ENOMEM);
    return 0;
}

static int push_frame(struct spn__hwriter *w, uint32_t *depth,
                      const struct spn__hframe *frame)
{
    struct spn__htables *t = w->tables;

    if (*depth + w->depth >= w->max_depth)
        return spn__hwriter_fail(w, SPN_ERANGE);
    if (*depth == t->frame_capacity) {
        const uint32_t capacity = *depth == 0 ? 8 : *depth * 2;
        struct spn__hframe *larger =
            spn__harena_grow(t->arena, t->frames, *depth, capacity, sizeof *larger);

        if (larger == NULL)
            return spn__hwriter_fail(w, SPN_ENOMEM);
        t->frames = larger;
        t->frame_capacity = capacity;
    }
    t->frames[(*depth)++] = *frame;
    return SPN_OK;
}

/* The head of a value with parts, and a frame for them. */
static int begin_parts(struct spn__hwriter *w, const spn_hvalue *value, uint32_t *depth)
{
    const struct spn__hparts *parts = spn__parts(value);
    const struct spn__hframe frame = { .value = value, .count = spn__slots(value) };
    int rc = seen(w, value, NULL);

    if (rc != 0)
        return rc < 0 ? rc : SPN_OK;
    if (value->kind == SPN_HLIST)
        rc = spn__hwriter_put_list(w, parts->type.name, value->count);
    else if (value->kind == SPN_HMAP)
        rc = spn__hwriter_put_map(w, parts->type.name);
    else
        rc = spn__hwriter_put_object(w, parts->type.of, parts->type.of);
    if (rc == SPN_OK && (frame.count > 0 || value->kind == SPN_HMAP))
        rc = push_frame(w, depth, &frame);
    return rc;
}

static int begin_value(struct spn__hwriter *w, const spn_hvalue *value, uint32_t *depth)
{
    switch (spn_hvalue_kind(value)) {
    case SPN_HNULL:
        return spn__hwriter_put_byte(w, C_NULL);
    case SPN_HBOOL:
        return spn__hwriter_put_byte(w, value->is.integer != 0 ? C_TRUE : C_FALSE);
    case SPN_HINT:
        return spn__hwriter_put_int(w, (int32_t)value->is.integer);
    case SPN_HLONG:
        return spn__hwriter_put_long(w, value->is.integer);
    case SPN_HDOUBLE:
        return spn__hwriter_put_double(w, value->is.real);
    case SPN_HDATE:
        return spn__hwriter_put_date(w, value->is.integer);
    case SPN_HSTRING:
        return spn__hwriter_put_string(w, value->is.bytes, value->count);
    case SPN_HBINARY:
        return spn__hwriter_put_binary(w, value->is.bytes, value->count);
    default:
        return begin_parts(w, value, depth);
    }
}

/* The head of a struct, and a frame for its fields. */
static int begin_struct(struct spn__hwriter *w, const spn_hstruct *type,
                        const void *from, uint32_t *depth)
{
    const struct spn__hframe frame = { .from = from,
                                       .type = type,
                                       .count = type != NULL ? type->field_count : 0 };
    const char *names[64];
    const char **fields = names;
    struct spn__hclass of;
    int rc;

    if (type == NULL || type->class_name == NULL || type->field_count > FIELDS_MAX ||
        (type->fields == NULL && type->field_count > 0))
        return spn__hwriter_fail(w, SPN_EINVAL);
    if (from == NULL)
        return spn__hwriter_put_byte(w, C_NULL);
    rc = seen(w, from, type);
    if (rc != 0)
        return rc < 0 ? rc : SPN_OK;
    if (type->field_count > sizeof names / sizeof names[0]) {
        fields = spn__harena_new(((struct spn__htables *)w->tables)->arena,
                                 const char *, type->field_count);
        if (fields == NULL)
            return spn__hwriter_fail(w, SPN_ENOMEM);
    }
    for (size_t i = 0; i < type->field_count; i++) {
        if (type->fields[i].name == NULL || type->fields[i].reserved != 0)
            return spn__hwriter_fail(w, SPN_EINVAL);
        fields[i] = type->fields[i].name;
    }
    of = (struct spn__hclass){ .name = type->class_name,
                               .fields = fields,
                               .field_count = (uint32_t)type->field_count };
    rc = spn__hwriter_put_object(w, &of, type);
    if (rc == SPN_OK && frame.count > 0)
        rc = push_frame(w, depth, &frame);
    return rc;
}

/* A member of the struct, read as the bytes it is. */
#define MEMBER(type, from, offset) \
    (*(const type *)(const void *)((const char *)(from) + (offset)))

static int put_span(struct spn__hwriter *w, const spn_hspan *span, bool text)
{
    if (span->data == NULL)
        return span->length == 0 ? spn__hwriter_put_byte(w, C_NULL)
                                 : spn__hwriter_fail(w, SPN_EINVAL);
    return text ? spn__hwriter_put_string(w, span->data, span->length)
                : spn__hwriter_put_binary(w, span->data, span->length);
}

static int begin_field(struct spn__hwriter *w, const spn_hfield *field,
                       const void *from, uint32_t *depth)
{
    const char *text;

    switch (field->type) {
    case SPN_HFIELD_BOOL:
        return spn__hwriter_put_byte(w, MEMBER(unsigned char, from, field->offset) != 0
                                            ? C_TRUE
                                            : C_FALSE);
    case SPN_HFIELD_INT:
        return spn__hwriter_put_int(w, MEMBER(int32_t, from, field->offset));
    case SPN_HFIELD_LONG:
        return spn__hwriter_put_long(w, MEMBER(int64_t, from, field->offset));
    case SPN_HFIELD_DOUBLE:
        return spn__hwriter_put_double(w, MEMBER(double, from, field->offset));
    case SPN_HFIELD_DATE:
        return spn__hwriter_put_date(w, MEMBER(int64_t, from, field->offset));
    case SPN_HFIELD_TEXT:
        text = MEMBER(char *, from, field->offset);
        return text != NULL ? spn__hwriter_put_string(w, text, strlen(text))
                            : spn__hwriter_put_byte(w, C_NULL);
    case SPN_HFIELD_STRING:
        return put_span(w, &MEMBER(spn_hspan, from, field->offset), true);
    case SPN_HFIELD_BINARY:
        return put_span(w, &MEMBER(spn_hspan, from, field->offset), false);
    case SPN_HFIELD_VALUE:
        return begin_value(w, MEMBER(spn_hvalue *, from, field->offset), depth);
    case SPN_HFIELD_STRUCT:
        return begin_struct(w, field->of, MEMBER(void *, from, field->offset), depth);
    default:
        return spn__hwriter_fail(w, SPN_EINVAL);
    }
}

/* Writes what the frames hold, until none is left. */
static int walk(struct spn__hwriter *w, uint32_t depth)
{
    struct spn__htables *t = w->tables;
    int rc = SPN_OK;

    while (depth > 0 && rc == SPN_OK) {
        struct spn__hframe *frame = &t->frames[depth - 1];

        if (frame->next == frame->count) {
            if (frame->value != NULL && frame->value->kind == SPN_HMAP)
                rc = spn__hwriter_put_byte(w, C_END);
            depth--;
        } else if (frame->value != NULL) {
            rc = begin_value(w, frame->value->is.items[frame->next++], &depth);
        } else {
            rc = begin_field(w, &frame->type->fields[frame->next++], frame->from,
                             &depth);
        }
    }
    return rc;
}

int spn__hwriter_value(struct spn__hwriter *writer, const spn_hvalue *value)
{
    uint32_t depth = 0;
    int rc = spn__hwriter_begin(writer);

    if (rc == SPN_OK)
        rc = begin_value(writer, value, &depth);
    return rc == SPN_OK && depth > 0 ? walk(writer, depth) : rc;
}

int spn__hwriter_struct(struct spn__hwriter *writer, const spn_hstruct *type,
                        const void *from)
{
    uint32_t depth = 0;
    int rc = spn__hwriter_begin(writer);

    if (rc == SPN_OK)
        rc = begin_struct(writer, type, from, &depth);
    return rc == SPN_OK && depth > 0 ? walk(writer, depth) : rc;
}

/* ---- by hand --------------------------------------------------------------------------- */

int spn__hwriter_begin_list(struct spn__hwriter *writer, const char *type, size_t count)
{
    int rc = spn__hwriter_begin(writer);

    if (rc == SPN_OK)
        rc = spn__hwriter_put_list(writer, type, count);
    return rc == SPN_OK ? push_open(writer, SPN_HLIST, count) : rc;
}

int spn__hwriter_begin_map(struct spn__hwriter *writer, const char *type)
{
    int rc = spn__hwriter_begin(writer);

    if (rc == SPN_OK)
        rc = spn__hwriter_put_map(writer, type);
    return rc == SPN_OK ? push_open(writer, SPN_HMAP, 0) : rc;
}

int spn__hwriter_begin_object(struct spn__hwriter *writer, const char *class_name,
                              const char *const *names, size_t count)
{
    struct spn__hclass of;
    int rc = spn__hwriter_begin(writer);

    if (rc != SPN_OK)
        return rc;
    of = (struct spn__hclass){ .name = class_name,
                               .fields = (const char **)(uintptr_t)names,
                               .field_count = (uint32_t)count };
    rc = spn__hwriter_put_object(writer, &of, NULL);
    return rc == SPN_OK ? push_open(writer, SPN_HOBJECT, count) : rc;
}

int spn__hwriter_end(struct spn__hwriter *writer)
{
    const uint32_t *open;

    if (writer->status != SPN_OK)
        return writer->status;
    if (writer->depth == 0)
        return spn__hwriter_fail(writer, SPN_ESTATE);
    open = open_at(writer, writer->depth - 1);
    if (open[LEFT] != 0)
        return spn__hwriter_fail(writer, SPN_ESTATE);
    writer->depth--;
    return open[KIND] == SPN_HMAP ? spn__hwriter_put_byte(writer, C_END) : SPN_OK;
}
