/* SPDX-License-Identifier: MIT */
/*
 * hessian_struct.c - an object's fields into a C struct.
 *
 * A struct that a field points to is made empty and put on a list, and filled in when its
 * turn comes; a value that is met again gives the struct it has.  So objects may go in
 * circles, or be a chain of any length, and this never calls itself.
 */
#include "rpc/wire/hessian_value.h"

#include <string.h>

#include "config/problem.h"

enum { FIELDS_MAX = 4096 };

struct filling {
    spn_harena *arena;
    spn_problem *problem;
    struct spn__hids made; /* value and table, to the index of its struct */
    void **structs;        /* by that index; those from `next` on are still empty */
    uint32_t capacity;
};

static int check_table(const spn_hstruct *type, spn_problem *problem)
{
    if (type == NULL || type->field_count > FIELDS_MAX ||
        (type->fields == NULL && type->field_count > 0)) {
        (void)spn__refuse(problem, SPN_EINVAL, 0, "a struct without a table");
        return SPN_EINVAL;
    }
    for (size_t i = 0; i < type->field_count; i++) {
        const spn_hfield *field = &type->fields[i];

        if (field->name == NULL || field->type > SPN_HFIELD_STRUCT ||
            field->reserved != 0 || field->offset >= type->struct_bytes ||
            (field->type == SPN_HFIELD_STRUCT && field->of == NULL))
            return spn__refuse(problem, SPN_EINVAL, field->offset,
                               "field %zu of the table for %s is wrong", i,
                               type->class_name != NULL ? type->class_name
                                                        : "a struct");
    }
    return SPN_OK;
}

static int fail_memory(const struct filling *f)
{
    return spn__refuse(f->problem, f->arena->status, 0, "%s",
                       spn_status_text(f->arena->status));
}

/* The struct of a value, made if there is none. */
static int struct_of(struct filling *f, const spn_hvalue *value,
                     const spn_hstruct *type, void *here, void **made)
{
    const struct spn__hid *id =
        f->made.count > 0 ? spn__hids_find(&f->made, value, type) : NULL;
    int rc;

    if (id != NULL) {
        *made = f->structs[id->number];
        return SPN_OK;
    }
    rc = check_table(type, f->problem);
    if (rc != SPN_OK)
        return rc;
    if (f->made.count == f->capacity) {
        const uint32_t wanted = f->capacity == 0 ? 8 : f->capacity * 2;
        void **larger = spn__harena_grow(f->arena, f->structs, f->made.count, wanted,
                                         sizeof *larger);

        if (larger == NULL)
            return fail_memory(f);
        f->structs = larger;
        f->capacity = wanted;
    }
    if (here == NULL) {
        here = spn_harena_alloc(f->arena, type->struct_bytes);
        if (here == NULL)
            return fail_memory(f);
        memset(here, 0, type->struct_bytes);
    }
    id = spn__hids_add(&f->made, f->arena, value, type, f->made.count);
    if (id == NULL)
        return fail_memory(f);
    f->structs[id->number] = here;
    *made = here;
    return SPN_OK;
}

static int fill_text(const spn_hvalue *value, void *at)
{
    const char *text = spn_hvalue_text(value);

    if (text == NULL && value->kind != SPN_HNULL)
        return SPN_EINVAL;
    memcpy(at, &text, sizeof text);
    return SPN_OK;
}

static int fill_span(const spn_hvalue *value, bool text, void *at)
{
    spn_hspan span;
    const int rc =
        text ? spn_hvalue_as_string(value, &span) : spn_hvalue_as_binary(value, &span);

    if (rc == SPN_OK)
        memcpy(at, &span, sizeof span);
    return rc;
}

static int fill_number(const spn_hvalue *value, uint32_t type, void *at)
{
    int64_t wide = 0;
    double real = 0;
    int32_t narrow = 0;
    int flag = 0, rc;

    if (value->kind == SPN_HNULL)
        return SPN_OK; /* as if it were not there */
    switch (type) {
    case SPN_HFIELD_BOOL:
        rc = spn_hvalue_as_bool(value, &flag);
        if (rc == SPN_OK)
            *(unsigned char *)at = (unsigned char)flag;
        return rc;
    case SPN_HFIELD_INT:
        rc = spn_hvalue_as_int(value, &narrow);
        if (rc == SPN_OK)
            memcpy(at, &narrow, sizeof narrow);
        return rc;
    case SPN_HFIELD_DOUBLE:
        rc = spn_hvalue_as_double(value, &real);
        if (rc == SPN_OK)
            memcpy(at, &real, sizeof real);
        return rc;
    default:
        rc = type == SPN_HFIELD_DATE ? spn_hvalue_as_date(value, &wide)
                                     : spn_hvalue_as_long(value, &wide);
        if (rc == SPN_OK)
            memcpy(at, &wide, sizeof wide);
        return rc;
    }
}

static int fill_struct(struct filling *f, const spn_hvalue *value,
                       const spn_hfield *field, void *at)
{
    void *made = NULL;
    int rc = SPN_OK;

    if (value->kind == SPN_HMAP || value->kind == SPN_HOBJECT)
        rc = struct_of(f, value, field->of, NULL, &made);
    else if (value->kind != SPN_HNULL)
        rc = SPN_EINVAL;
    if (rc == SPN_OK)
        memcpy(at, &made, sizeof made);
    return rc;
}

static int fill_field(struct filling *f, const spn_hvalue *value,
                      const spn_hfield *field, void *at)
{
    switch (field->type) {
    case SPN_HFIELD_TEXT:
        return fill_text(value, at);
    case SPN_HFIELD_STRING:
    case SPN_HFIELD_BINARY:
        return fill_span(value, field->type == SPN_HFIELD_STRING, at);
    case SPN_HFIELD_VALUE:
        memcpy(at, &value, sizeof(const spn_hvalue *));
        return SPN_OK;
    case SPN_HFIELD_STRUCT:
        return fill_struct(f, value, field, at);
    default:
        return fill_number(value, field->type, at);
    }
}

static int fill_fields(struct filling *f, const spn_hvalue *from,
                       const spn_hstruct *type, void *to)
{
    static const char *const wanted[] = { "bool",  "int",    "long",   "double",
                                          "date",  "string", "string", "binary",
                                          "value", "object" };

    for (size_t i = 0; i < type->field_count; i++) {
        const spn_hfield *field = &type->fields[i];
        const spn_hvalue *value = spn_hvalue_get(from, field->name);
        int rc;

        if (value == NULL)
            continue; /* it keeps what it has */
        if (f->problem != NULL)
            f->problem->text[0] = '\0';
        rc = fill_field(f, value, field, (char *)to + field->offset);
        if (rc == SPN_OK)
            continue;
        if (f->problem != NULL && f->problem->text[0] != '\0')
            return rc; /* said already */
        if (rc == SPN_ERANGE)
            return spn__refuse(f->problem, rc, field->offset,
                               "field %s: the number does not fit into %s %s",
                               field->name, field->type == SPN_HFIELD_INT ? "an" : "a",
                               wanted[field->type]);
        return spn__refuse(f->problem, rc, field->offset,
                           "field %s: %s expected, found %s%s", field->name,
                           wanted[field->type], spn_hkind_name((spn_hkind)value->kind),
                           value->kind == SPN_HSTRING && field->type == SPN_HFIELD_TEXT
                               ? " with a zero byte"
                               : "");
    }
    return SPN_OK;
}

int spn_hvalue_to_struct(const spn_hvalue *value, spn_harena *arena,
                         const spn_hstruct *type, void *to, spn_problem *problem)
{
    struct filling f = { .arena = arena, .problem = problem };
    void *made;
    int rc;

    if (value == NULL || arena == NULL || type == NULL || to == NULL)
        return spn__refuse(problem, SPN_EINVAL, 0, "a NULL");
    if (value->kind != SPN_HOBJECT && value->kind != SPN_HMAP)
        return spn__refuse(problem, SPN_EINVAL, 0, "object expected, found %s",
                           spn_hkind_name((spn_hkind)value->kind));
    rc = struct_of(&f, value, type, to, &made);
    for (uint32_t next = 0; rc == SPN_OK && next < f.made.count; next++)
        rc = fill_fields(&f, f.made.ids[next].key, f.made.ids[next].type,
                         f.structs[next]);
    return rc;
}
