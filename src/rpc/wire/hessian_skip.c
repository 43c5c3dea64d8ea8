/* SPDX-License-Identifier: MIT */
/*
 * hessian_skip.c - moves over values without making any: to what stands behind the arguments
 * of a request, before these are worth memory.
 *
 * OVERVIEW
 *   The loop is that of hessian_read_tree.c, with a number of values still to come for each
 *   open list, map or object in place of the thing itself.  An object has as many values as
 *   its class has fields, so these numbers are kept; names, types and references are not.
 *
 *   Every round uses up a byte at least, so the work is in proportion to the message.
 */
#include "rpc/wire/hessian_read.h"

#include "rpc/wire/hessian_code.h"

enum { FIELDS_MAX = 4096 };

#define OPEN_ENDED UINT32_MAX

void spn__hskip_init(struct spn__hskip *s, const unsigned char *at,
                     const unsigned char *end)
{
    s->reader = (struct spn__hreader){ .at = at, .start = at, .end = end };
    s->class_count = 0;
}

/* An int where the format wants one: a length, an index. */
static int skip_length(struct spn__hreader *r, uint32_t *length)
{
    struct spn__hscalar scalar = { 0 };
    int kind, rc;

    if (spn__hreader_left(r) == 0)
        return spn__hread_fail_short(r, r->at, "a length");
    kind = spn__hread_kind(*r->at);
    if (kind != SPN_HINT && kind != SPN_HLONG)
        return spn__hread_fail(r, SPN_EINVAL, r->at, "a length is no int");
    rc = spn__hread_scalar(r, kind, &scalar);
    if (rc == SPN_OK && (scalar.integer < 0 || scalar.integer > INT32_MAX))
        rc = spn__hread_fail(r, SPN_EINVAL, r->at, "a length that cannot be");
    *length = (uint32_t)scalar.integer;
    return rc;
}

static int skip_name(struct spn__hreader *r)
{
    if (spn__hreader_left(r) == 0)
        return spn__hread_fail_short(r, r->at, "a name");
    if (spn__hread_kind(*r->at) != SPN_HSTRING)
        return spn__hread_fail(r, SPN_EINVAL, r->at, "a name is no string");
    return spn__hread_skip_span(r, SPN_HSTRING);
}

/* By name, or by number. */
static int skip_type(struct spn__hreader *r)
{
    uint32_t index;

    if (spn__hreader_left(r) > 0 && spn__hread_kind(*r->at) != SPN_HSTRING)
        return skip_length(r, &index);
    return skip_name(r);
}

static int skip_class(struct spn__hskip *s)
{
    struct spn__hreader *const r = &s->reader;
    uint32_t count = 0;
    int rc;

    r->at++;
    rc = skip_name(r);
    if (rc == SPN_OK)
        rc = skip_length(r, &count);
    if (rc == SPN_OK && (s->class_count == SPN__HSKIP_CLASSES || count > FIELDS_MAX))
        rc = spn__hread_fail(r, SPN_ERANGE, r->at, "too many classes or fields");
    for (uint32_t i = 0; i < count && rc == SPN_OK; i++)
        rc = skip_name(r);
    if (rc == SPN_OK)
        s->fields[s->class_count++] = (uint16_t)count;
    return rc;
}

static int skip_list(struct spn__hreader *r, unsigned code, uint32_t *wanted)
{
    const bool typed = code == C_LIST_TYPED_OPEN || code == C_LIST_TYPED ||
                       (code >= C_LIST_TYPED_DIRECT && code < C_LIST_DIRECT);
    int rc = SPN_OK;

    r->at++;
    if (typed)
        rc = skip_type(r);
    if (rc != SPN_OK)
        return rc;
    if (code >= C_LIST_TYPED_DIRECT)
        *wanted = code & 7;
    else if (code == C_LIST || code == C_LIST_TYPED)
        rc = skip_length(r, wanted);
    else
        *wanted = OPEN_ENDED;
    return rc;
}

static int skip_object(struct spn__hskip *s, unsigned code, uint32_t *wanted)
{
    struct spn__hreader *const r = &s->reader;
    uint32_t index = code - C_OBJECT_DIRECT;
    int rc = SPN_OK;

    r->at++;
    if (code == C_OBJECT)
        rc = skip_length(r, &index);
    if (rc == SPN_OK && index >= s->class_count)
        rc = spn__hread_fail(r, SPN_EINVAL, r->at, "a class that is none");
    if (rc == SPN_OK)
        *wanted = s->fields[index];
    return rc;
}

/* The beginning of a value, or all of it; *wanted: values it still has. */
static int skip_one(struct spn__hskip *s, uint32_t *wanted)
{
    struct spn__hreader *const r = &s->reader;
    const unsigned code = *r->at;
    const int kind = spn__hread_kind(*r->at);
    struct spn__hscalar scalar = { 0 };
    uint32_t index;

    *wanted = 0;
    switch (kind) {
    case SPN_HNULL:
        r->at++;
        return SPN_OK;
    case SPN_HSTRING:
    case SPN_HBINARY:
        return spn__hread_skip_span(r, kind);
    case SPN_HLIST:
        return skip_list(r, code, wanted);
    case SPN_HMAP:
        r->at++;
        *wanted = OPEN_ENDED;
        return code == C_MAP_TYPED ? skip_type(r) : SPN_OK;
    case SPN_HOBJECT:
        return skip_object(s, code, wanted);
    case SPN_EINVAL:
        if (code != C_REFERENCE)
            return spn__hread_fail(r, SPN_EINVAL, r->at, "0x%02x is no value", code);
        r->at++;
        return skip_length(r, &index);
    default:
        return spn__hread_scalar(r, kind, &scalar);
    }
}

int spn__hskip_any(struct spn__hskip *s)
{
    uint32_t wanted[SPN__HSKIP_DEPTH];
    struct spn__hreader *const r = &s->reader;
    uint32_t depth = 0, more;
    bool begun = false;
    int rc = SPN_OK;

    while (rc == SPN_OK && (!begun || depth > 0)) {
        if (spn__hreader_left(r) == 0)
            return spn__hread_fail_short(r, r->at, "a value");
        if (*r->at == C_CLASS) {
            rc = skip_class(s);
            continue;
        }
        if (*r->at == C_END) {
            if (depth == 0 || wanted[depth - 1] != OPEN_ENDED)
                return spn__hread_fail(r, SPN_EINVAL, r->at, "an end of nothing");
            r->at++;
            depth--;
        } else {
            if (depth > 0 && wanted[depth - 1] != OPEN_ENDED)
                wanted[depth - 1]--;
            begun = true;
            rc = skip_one(s, &more);
            if (rc == SPN_OK && more > 0) {
                if (depth == SPN__HSKIP_DEPTH)
                    return spn__hread_fail(r, SPN_ERANGE, r->at, "too deep");
                wanted[depth++] = more;
                continue;
            }
        }
        while (depth > 0 && wanted[depth - 1] == 0)
            depth--;
    }
    return rc;
}
