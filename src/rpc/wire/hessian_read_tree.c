/* SPDX-License-Identifier: MIT */
/*
 * hessian_read_tree.c - bytes to values: lists, maps, objects, and what they share.
 *
 * OVERVIEW
 *   `any` is one loop over the codes with a stack of its own: a list, map or object is made
 *   and put in its place when its first byte is read, gets its number in the table of
 *   references, and then a frame on the stack until it is full or closed.  So nesting takes
 *   no C stack, a value may refer to one that is not complete yet, and a chain of class
 *   definitions, each of which stands in front of a value, is just more rounds.
 *
 * HOW MUCH MEMORY
 *   Every value is at least one byte of the message.  `owed` is how many values (and ends)
 *   the open frames still have coming; a list that says it has n more is believed only if
 *   that many bytes are left beyond those.  So all lengths of a message together are at
 *   most its bytes, however they are nested, and what is allocated for them is a small
 *   multiple.  The arena's limit stands behind that.
 */
#include "rpc/wire/hessian_read.h"

#include <string.h>

#include "rpc/wire/hessian_code.h"

enum { DEPTH_DEFAULT = 128, CLASSES_DEFAULT = 1024, FIELDS_DEFAULT = 4096 };

#define OPEN_ENDED UINT32_MAX

struct frame {
    spn_hvalue *into;
    uint32_t filled; /* items it has got                         */
    uint32_t wanted; /* and will have; OPEN_ENDED: until a Z      */
};

/* ---- tables ------------------------------------------------------------------ */

/* One more entry in a table of pointers; NULL: no memory. */
static void *enter(struct spn__hreader *r, void *table, uint32_t count,
                   uint32_t *capacity)
{
    void *larger;
    uint32_t wanted;

    if (count < *capacity)
        return table;
    wanted = *capacity == 0 ? 8 : *capacity * 2;
    larger = spn__harena_grow(r->arena, table, count, wanted, sizeof(void *));
    if (larger == NULL) {
        (void)spn__hread_fail_memory(r);
        return NULL;
    }
    *capacity = wanted;
    return larger;
}

static int add_reference(struct spn__hreader *r, spn_hvalue *value)
{
    spn_hvalue **table =
        enter(r, r->references, r->reference_count, &r->reference_capacity);

    if (table == NULL)
        return r->status;
    r->references = table;
    table[r->reference_count++] = value;
    return SPN_OK;
}

/* An int where the format wants one: a length, an index. */
static int read_length(struct spn__hreader *r, const char *what, size_t *length)
{
    const unsigned char *const at = r->at;
    struct spn__hscalar s = { 0 };
    int kind, rc;

    if (spn__hreader_left(r) == 0)
        return spn__hread_fail_short(r, at, what);
    kind = spn__hread_kind(*at);
    if (kind != SPN_HINT && kind != SPN_HLONG)
        return spn__hread_fail(r, SPN_EINVAL, at, "%s is no int", what);
    rc = spn__hread_scalar(r, kind, &s);
    if (rc != SPN_OK)
        return rc;
    if (s.integer < 0 || s.integer > INT32_MAX)
        return spn__hread_fail(r, SPN_EINVAL, at, "%s is %lld", what,
                               (long long)s.integer);
    *length = (size_t)s.integer;
    return SPN_OK;
}

/* A name: a string that serves as a C string. */
static int read_name(struct spn__hreader *r, const char *what, const char **name)
{
    const unsigned char *const at = r->at;
    spn_hspan span;
    int rc;

    if (spn__hreader_left(r) == 0)
        return spn__hread_fail_short(r, at, what);
    if (spn__hread_kind(*at) != SPN_HSTRING)
        return spn__hread_fail(r, SPN_EINVAL, at, "%s is no string", what);
    rc = spn__hread_span(r, SPN_HSTRING, &span);
    if (rc != SPN_OK)
        return rc;
    if (memchr(span.data, 0, span.length) != NULL)
        return spn__hread_fail(r, SPN_EINVAL, at, "%s holds a zero byte", what);
    *name = span.data;
    return SPN_OK;
}

/* The type of a list or map: new, or one of the table. */
static int read_type(struct spn__hreader *r, const char **type)
{
    const unsigned char *const at = r->at;
    const char **table;
    size_t index = 0;
    int rc;

    if (spn__hreader_left(r) > 0 && spn__hread_kind(*at) != SPN_HSTRING) {
        rc = read_length(r, "a type", &index);
        if (rc != SPN_OK)
            return rc;
        if (index >= r->type_count)
            return spn__hread_fail(r, SPN_EINVAL, at, "type %zu of %u", index,
                                   r->type_count);
        *type = r->types[index];
        return SPN_OK;
    }
    rc = read_name(r, "a type", type);
    if (rc != SPN_OK)
        return rc;
    table = enter(r, (void *)(uintptr_t)r->types, r->type_count, &r->type_capacity);
    if (table == NULL)
        return r->status;
    r->types = table;
    table[r->type_count++] = *type;
    return SPN_OK;
}

/* Bytes that are left for something new, beyond what is owed to what is open. */
static size_t spare(const struct spn__hreader *r)
{
    const size_t all = spn__hreader_left(r);

    return all > r->owed ? all - r->owed : 0;
}

static int read_class(struct spn__hreader *r)
{
    const unsigned char *const at = r->at++;
    struct spn__hclass *of;
    const void **table;
    const char *name = NULL;
    size_t count = 0;
    int rc;

    if (r->class_count == r->max_classes)
        return spn__hread_fail(r, SPN_ERANGE, at, "more than %u classes",
                               r->max_classes);
    rc = read_name(r, "a class name", &name);
    if (rc == SPN_OK)
        rc = read_length(r, "a number of fields", &count);
    if (rc != SPN_OK)
        return rc;
    if (count > r->max_fields)
        return spn__hread_fail(r, SPN_ERANGE, at,
                               "a class of %zu fields, the limit is %u", count,
                               r->max_fields);
    if (count > spare(r))
        return spn__hread_fail(r, SPN_EEMPTY, at,
                               "a class of %zu fields, but only %zu bytes are left",
                               count, spn__hreader_left(r));
    table = enter(r, (void *)(uintptr_t)r->classes, r->class_count, &r->class_capacity);
    of = table != NULL ? spn__harena_new(r->arena, struct spn__hclass, 1) : NULL;
    if (of == NULL)
        return spn__hread_fail_memory(r);
    *of = (struct spn__hclass){ .name = name, .field_count = (uint32_t)count };
    of->fields = spn__harena_new(r->arena, const char *, count);
    if (of->fields == NULL)
        return spn__hread_fail_memory(r);
    for (size_t i = 0; i < count; i++) {
        rc = read_name(r, "a field's name", &of->fields[i]);
        if (rc != SPN_OK)
            return rc;
    }
    r->classes = table;
    table[r->class_count++] = of;
    return SPN_OK;
}

/* ---- any value ---------------------------------------------------------------- */

/* Makes a list, map or object of `slots` values (OPEN_ENDED: nobody knows yet). */
static spn_hvalue *make_parts(struct spn__hreader *r, spn_hkind kind, size_t slots,
                              const unsigned char *at)
{
    spn_hvalue *value;

    if (slots != OPEN_ENDED && slots > spare(r)) {
        (void)spn__hread_fail(r, SPN_EEMPTY, at,
                              "%zu values, but only %zu bytes are left", slots,
                              spare(r));
        return NULL;
    }
    value = spn__hvalue_parts(r->arena, kind);
    if (value != NULL && slots != OPEN_ENDED && slots > 0) {
        value->is.items = spn__harena_new(r->arena, spn_hvalue *, slots);
        spn__parts(value)->capacity = (uint32_t)slots;
        if (value->is.items == NULL)
            value = NULL;
    }
    if (value == NULL) {
        (void)spn__hread_fail_memory(r);
        return NULL;
    }
    return add_reference(r, value) == SPN_OK ? value : NULL;
}

static spn_hvalue *open_list(struct spn__hreader *r, unsigned code, uint32_t *wanted)
{
    const unsigned char *const at = r->at++;
    const bool typed = code == C_LIST_TYPED_OPEN || code == C_LIST_TYPED ||
                       (code >= C_LIST_TYPED_DIRECT && code < C_LIST_DIRECT);
    const char *type = NULL;
    size_t slots = OPEN_ENDED;
    spn_hvalue *list;

    if (typed && read_type(r, &type) != SPN_OK)
        return NULL;
    if (code >= C_LIST_TYPED_DIRECT)
        slots = code & 7;
    else if ((code == C_LIST || code == C_LIST_TYPED) &&
             read_length(r, "a list's length", &slots) != SPN_OK)
        return NULL;
    list = make_parts(r, SPN_HLIST, slots, at);
    if (list != NULL)
        spn__parts(list)->type.name = type;
    *wanted = (uint32_t)slots;
    return list;
}

static spn_hvalue *open_map(struct spn__hreader *r, unsigned code, uint32_t *wanted)
{
    const unsigned char *const at = r->at++;
    const char *type = NULL;
    spn_hvalue *map;

    if (code == C_MAP_TYPED && read_type(r, &type) != SPN_OK)
        return NULL;
    map = make_parts(r, SPN_HMAP, OPEN_ENDED, at);
    if (map != NULL)
        spn__parts(map)->type.name = type;
    *wanted = OPEN_ENDED;
    return map;
}

static spn_hvalue *open_object(struct spn__hreader *r, unsigned code, uint32_t *wanted)
{
    const unsigned char *const at = r->at++;
    size_t index = code - C_OBJECT_DIRECT;
    struct spn__hclass *of;
    spn_hvalue *object;

    if (code == C_OBJECT && read_length(r, "the number of a class", &index) != SPN_OK)
        return NULL;
    if (index >= r->class_count) {
        (void)spn__hread_fail(r, SPN_EINVAL, at, "class %zu of %u", index,
                              r->class_count);
        return NULL;
    }
    of = (struct spn__hclass *)(uintptr_t)r->classes[index];
    object = make_parts(r, SPN_HOBJECT, of->field_count, at);
    if (object != NULL)
        spn__parts(object)->type.of = of;
    *wanted = of->field_count;
    return object;
}

static spn_hvalue *refer(struct spn__hreader *r)
{
    const unsigned char *const at = r->at++;
    size_t index = 0;

    if (read_length(r, "a reference", &index) != SPN_OK)
        return NULL;
    if (index >= r->reference_count) {
        (void)spn__hread_fail(r, SPN_EINVAL, at, "reference %zu of %u", index,
                              r->reference_count);
        return NULL;
    }
    return r->references[index];
}

/* A short string, with its text behind it: they are read together. */
static spn_hvalue *read_short(struct spn__hreader *r, const spn_hspan *span)
{
    spn_hvalue *value = spn__harena_get(r->arena, sizeof *value + span->length + 1,
                                        _Alignof(spn_hvalue));
    char *text;

    if (value == NULL) {
        (void)spn__hread_fail_memory(r);
        return NULL;
    }
    text = (char *)(value + 1);
    memcpy(text, span->data, span->length);
    text[span->length] = '\0';
    *value = (spn_hvalue){ .kind = SPN_HSTRING,
                           .count = (uint32_t)span->length,
                           .is.bytes = text };
    r->at += 1 + span->length;
    return value;
}

static spn_hvalue *read_leaf(struct spn__hreader *r, int kind)
{
    struct spn__hscalar s = { 0 };
    spn_hspan span;
    spn_hvalue *value;

    if (kind == SPN_HSTRING || kind == SPN_HBINARY) {
        if (*r->at == C_STRING_DIRECT || *r->at == C_BINARY_DIRECT) {
            r->at++;
            return spn__hvalue_empty((spn_hkind)kind);
        }
        if (spn__hread_short(r, &span))
            return read_short(r, &span);
        value = spn__hvalue_make(r->arena, (spn_hkind)kind);
        if (value == NULL) {
            (void)spn__hread_fail_memory(r);
            return NULL;
        }
        if (spn__hread_span(r, kind, &span) != SPN_OK)
            return NULL;
        value->is.bytes = span.data;
        value->count = (uint32_t)span.length;
        return value;
    }
    if (spn__hread_scalar(r, kind, &s) != SPN_OK)
        return NULL;
    value = kind == SPN_HDOUBLE
                ? spn__hvalue_real(r->arena, s.real)
                : spn__hvalue_integer(r->arena, (spn_hkind)kind, s.integer);
    if (value == NULL)
        (void)spn__hread_fail_memory(r);
    return value;
}

static int push(struct spn__hreader *r, uint32_t depth, spn_hvalue *into,
                uint32_t wanted, const unsigned char *at)
{
    struct frame *frames = r->frames;

    if (depth == r->max_depth)
        return spn__hread_fail(r, SPN_ERANGE, at, "more than %u values deep",
                               r->max_depth);
    if (depth == r->frame_capacity) {
        const uint32_t capacity = depth == 0 ? 8 : depth * 2;

        frames = spn__harena_grow(r->arena, frames, depth, capacity, sizeof *frames);
        if (frames == NULL)
            return spn__hread_fail_memory(r);
        r->frames = frames;
        r->frame_capacity = capacity;
    }
    r->owed += wanted == OPEN_ENDED ? 1 : wanted;
    frames[depth] = (struct frame){ into, 0, wanted };
    return SPN_OK;
}

/* Puts a value where the frame wants the next one. */
static int put(struct spn__hreader *r, struct frame *frame, spn_hvalue *value)
{
    spn_hvalue *into = frame->into;

    if (frame->wanted == OPEN_ENDED) {
        if (frame->filled >= spn__parts(into)->capacity) {
            /* count says how many are kept: of a map, whole pairs only, so a key that
             * stands alone is moved along by hand. */
            spn_hvalue *const key = frame->filled % 2 == 1 && into->kind == SPN_HMAP
                                        ? into->is.items[frame->filled - 1]
                                        : NULL;

            if (!spn__hvalue_reserve(into, (size_t)frame->filled + 1))
                return spn__hread_fail_memory(r);
            if (key != NULL)
                into->is.items[frame->filled - 1] = key;
        }
    }
    into->is.items[frame->filled++] = value;
    into->count = into->kind == SPN_HMAP ? frame->filled / 2 : frame->filled;
    return SPN_OK;
}

/* A Z: ends the innermost list or map. */
static int close_frame(struct spn__hreader *r, const struct frame *frame)
{
    if (frame == NULL || frame->wanted != OPEN_ENDED)
        return spn__hread_fail(r, SPN_EINVAL, r->at, "an end where a value should be");
    if (frame->into->kind == SPN_HMAP && frame->filled % 2 == 1)
        return spn__hread_fail(r, SPN_EINVAL, r->at, "a map ends behind a key");
    r->at++;
    r->owed--;
    return SPN_OK;
}

/* Reads the beginning of a value, or all of it; *wanted: values it still needs. */
static spn_hvalue *begin_value(struct spn__hreader *r, uint32_t *wanted)
{
    const unsigned code = *r->at;
    const int kind = spn__hread_kind(*r->at);

    *wanted = 0;
    switch (kind) {
    case SPN_HNULL:
        r->at++;
        return spn__hvalue_integer(r->arena, SPN_HNULL, 0);
    case SPN_HLIST:
        return open_list(r, code, wanted);
    case SPN_HMAP:
        return open_map(r, code, wanted);
    case SPN_HOBJECT:
        return open_object(r, code, wanted);
    case SPN_EINVAL:
        if (code == C_REFERENCE)
            return refer(r);
        (void)spn__hread_fail(r, SPN_EINVAL, r->at, "0x%02x is no value", code);
        return NULL;
    default:
        return read_leaf(r, kind);
    }
}

static int read_any(struct spn__hreader *r, spn_hvalue **out)
{
    spn_hvalue *root = NULL;
    uint32_t depth = 0;

    do {
        struct frame *frames = r->frames;
        const unsigned char *at = r->at;
        spn_hvalue *value;
        uint32_t wanted;

        if (spn__hreader_left(r) == 0)
            return spn__hread_fail_short(r, at,
                                         depth > 0 ? "a list, map or object"
                                                   : "a value");
        if (*at == C_CLASS) {
            if (read_class(r) != SPN_OK)
                return r->status;
            continue;
        }
        if (*at == C_END) {
            if (close_frame(r, depth > 0 ? &frames[depth - 1] : NULL) != SPN_OK)
                return r->status;
            depth--;
        } else {
            if (r->values_left-- == 0)
                return spn__hread_fail(r, SPN_ERANGE, at, "too many values");
            /* What is owed is paid now: it may itself ask for all that is left. */
            if (depth > 0 && frames[depth - 1].wanted != OPEN_ENDED)
                r->owed--;
            value = begin_value(r, &wanted);
            if (value == NULL)
                return r->status;
            if (depth == 0)
                root = value;
            else if (put(r, &frames[depth - 1], value) != SPN_OK)
                return r->status;
            if (wanted > 0) {
                if (push(r, depth, value, wanted, at) != SPN_OK)
                    return r->status;
                depth++;
                continue;
            }
        }
        frames = r->frames;
        while (depth > 0 && frames[depth - 1].filled == frames[depth - 1].wanted)
            depth--;
    } while (depth > 0 || root == NULL);
    *out = root;
    return SPN_OK;
}

/* ---- a message, and its values ---------------------------------------------------- */

void spn__hreader_init(struct spn__hreader *reader, spn_harena *arena,
                       const void *bytes, size_t length, spn_problem *problem)
{
    *reader = (struct spn__hreader){
        .at = bytes,
        .start = bytes,
        .end = length > 0 ? (const unsigned char *)bytes + length : bytes,
        .arena = arena,
        .problem = problem,
        .values_left = length,
        .max_depth = DEPTH_DEFAULT,
        .max_classes = CLASSES_DEFAULT,
        .max_fields = FIELDS_DEFAULT,
    };
}

int spn__hreader_any(struct spn__hreader *reader, spn_hvalue **out)
{
    const unsigned char *const at = reader->at;
    int rc;

    *out = NULL;
    if (reader->status != SPN_OK)
        return reader->status;
    rc = read_any(reader, out);
    if (rc != SPN_OK)
        reader->at = at;
    return rc;
}
