/* SPDX-License-Identifier: MIT */
/*
 * hessian_read.c - bytes to values without parts: numbers, strings, binaries.
 *
 * Also the readers that expect one of a kind: what a request begins with is strings, and
 * they need no tree.  Lists, maps, objects and the tables of a message are in
 * hessian_read_tree.c.
 *
 * ERRORS
 *   The first one is kept; later calls return it.  `at` then stays where the value began.
 *   That the bytes end too early is told from bytes that are wrong: SPN_EEMPTY.
 */
#include "rpc/wire/hessian_read.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "config/problem.h"
#include "rpc/wire/hessian_code.h"
#include "rpc/wire/hessian_text.h"

/* ---- failures ---------------------------------------------------------------- */

int spn__hread_fail(struct spn__hreader *r, int status, const unsigned char *at,
                    const char *format, ...)
{
    char text[256];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    r->status = status;
    return spn__refuse(r->problem, status, (size_t)(at - r->start), "%s", text);
}

int spn__hread_fail_memory(struct spn__hreader *r)
{
    if (r->arena->status == SPN_ERANGE)
        return spn__hread_fail(r, SPN_ERANGE, r->at,
                               "the message needs more than %zu bytes of memory",
                               r->arena->limit);
    return spn__hread_fail(r, SPN_ENOMEM, r->at, "out of memory");
}

int spn__hread_fail_short(struct spn__hreader *r, const unsigned char *at,
                          const char *what)
{
    return spn__hread_fail(r, SPN_EEMPTY, at, "the message ends inside %s", what);
}

/* ---- bytes ------------------------------------------------------------------- */

static uint32_t big16(const unsigned char *at)
{
    return (uint32_t)at[0] << 8 | at[1];
}

static uint32_t big32(const unsigned char *at)
{
    return big16(at) << 16 | big16(at + 2);
}

static uint64_t big64(const unsigned char *at)
{
    return (uint64_t)big32(at) << 32 | big32(at + 4);
}

#define FOUR(kind)    kind, kind, kind, kind
#define EIGHT(kind)   FOUR(kind), FOUR(kind)
#define SIXTEEN(kind) EIGHT(kind), EIGHT(kind)
enum {
    NONE = SPN_EINVAL,
    NUL = SPN_HNULL,
    BOL = SPN_HBOOL,
    INT = SPN_HINT,
    LNG = SPN_HLONG,
    DBL = SPN_HDOUBLE,
    DAT = SPN_HDATE,
    STR = SPN_HSTRING,
    BIN = SPN_HBINARY,
    LST = SPN_HLIST,
    MAP = SPN_HMAP,
    OBJ = SPN_HOBJECT
};

/* By the first byte; a reference's kind is that of what it refers to. */
const int8_t spn__hread_kinds[256] = {
    SIXTEEN(STR),                           /* 00 */
    SIXTEEN(STR),                           /* 10 */
    SIXTEEN(BIN),                           /* 20 */
    FOUR(STR),    FOUR(BIN),    EIGHT(LNG), /* 30 */
    NONE,         BIN,          BIN,        OBJ,
    DBL,          NONE,         BOL,        NONE, /* @ABC DEFG */
    MAP,          INT,          DAT,        DAT,
    LNG,          MAP,          NUL,        OBJ, /* HIJK LMNO */
    NONE,         NONE,         STR,        STR,
    BOL,          LST,          LST,        LST, /* PQRS TUVW */
    LST,          LNG,          NONE,       DBL,
    DBL,          DBL,          DBL,        DBL, /* XYZ and 5B to 5F */
    SIXTEEN(OBJ),                                /* 60 */
    SIXTEEN(LST),                                /* 70 */
    SIXTEEN(INT), SIXTEEN(INT),                  /* 80 */
    SIXTEEN(INT), SIXTEEN(INT),                  /* A0 */
    SIXTEEN(INT),                                /* C0 */
    EIGHT(INT),   EIGHT(LNG),                    /* D0 */
    SIXTEEN(LNG), SIXTEEN(LNG),                  /* E0 */
};

/* ---- values without parts ---------------------------------------------------- */

/* Bytes behind the code of each form. */
static size_t scalar_bytes(unsigned code)
{
    if (code < 0x40)
        return 2; /* C_LONG_3 */
    if (code >= C_LONG_2)
        return 1;
    if (code >= C_LONG_1)
        return 0;
    if (code >= C_INT_3)
        return 2;
    if (code >= C_INT_2)
        return 1;
    if (code >= C_INT_1)
        return 0;
    switch (code) {
    case C_DOUBLE:
    case C_DATE_MS:
    case C_LONG:
        return 8;
    case C_INT:
    case C_DATE_MINUTES:
    case C_LONG_INT:
    case C_DOUBLE_MILLS:
        return 4;
    case C_DOUBLE_SHORT:
        return 2;
    case C_DOUBLE_BYTE:
        return 1;
    default:
        return 0;
    }
}

int spn__hread_scalar(struct spn__hreader *r, int kind, struct spn__hscalar *s)
{
    const unsigned char *at = r->at;
    const unsigned code = *at++;
    const size_t bytes = scalar_bytes(code);
    uint64_t bits;

    if ((size_t)(r->end - at) < bytes)
        return spn__hread_fail_short(r, r->at, spn_hkind_name((spn_hkind)kind));
    r->at = at + bytes;
    s->kind = kind;
    if (code >= C_LONG_2)
        s->integer = ((int64_t)code - 0xF8) * 256 + at[0];
    else if (code >= C_LONG_1)
        s->integer = (int64_t)code - 0xE0;
    else if (code >= C_INT_3)
        s->integer = ((int64_t)code - 0xD4) * 65536 + big16(at);
    else if (code >= C_INT_2)
        s->integer = ((int64_t)code - 0xC8) * 256 + at[0];
    else if (code >= C_INT_1)
        s->integer = (int64_t)code - 0x90;
    else if (code < 0x40)
        s->integer = ((int64_t)code - 0x3C) * 65536 + big16(at);
    else
        switch (code) {
        case C_TRUE:
        case C_FALSE:
            s->integer = code == C_TRUE;
            break;
        case C_INT:
        case C_LONG_INT:
            s->integer = (int32_t)big32(at);
            break;
        case C_LONG:
        case C_DATE_MS:
            s->integer = (int64_t)big64(at);
            break;
        case C_DATE_MINUTES:
            s->integer = (int64_t)(int32_t)big32(at) * 60000;
            break;
        case C_DOUBLE:
            bits = big64(at);
            memcpy(&s->real, &bits, sizeof s->real);
            break;
        case C_DOUBLE_0:
            s->real = 0.0;
            break;
        case C_DOUBLE_1:
            s->real = 1.0;
            break;
        case C_DOUBLE_BYTE:
            s->real = (int8_t)at[0];
            break;
        case C_DOUBLE_SHORT:
            s->real = (int16_t)big16(at);
            break;
        case C_DOUBLE_MILLS:
            s->real = 0.001 * (int32_t)big32(at); /* as the writer tries it */
            break;
        default:
            break;
        }
    return SPN_OK;
}

/* ---- strings and binaries ---------------------------------------------------- */

/*
 * The head of a piece: moves behind it, and gives its units or bytes.  base is that of the
 * direct forms: 0x00 of a string, 0x20 of a binary; the others differ likewise.
 */
struct piece {
    const unsigned char *at;
    size_t size;
    bool last;
};

__attribute__((cold)) static bool no_piece(struct spn__hreader *r, int kind)
{
    (void)spn__hread_fail_short(r, r->at, spn_hkind_name((spn_hkind)kind));
    return false;
}

/* false: there is none, and r->status says why. */
static bool read_piece(struct spn__hreader *r, const unsigned char *at, int kind,
                       struct piece *piece)
{
    const bool text = kind == SPN_HSTRING;
    const unsigned direct = text ? C_STRING_DIRECT : C_BINARY_DIRECT;
    const unsigned direct_end = text ? C_BINARY_DIRECT : C_STRING_SHORT;
    const unsigned brief = text ? C_STRING_SHORT : C_BINARY_SHORT;
    const unsigned chunk = text ? C_STRING_CHUNK : C_BINARY_CHUNK;
    const unsigned whole = text ? C_STRING : C_BINARY;
    const size_t rest = (size_t)(r->end - at);
    unsigned code;

    if (rest == 0)
        return no_piece(r, kind);
    code = *at;
    if (code >= direct && code < direct_end) {
        *piece = (struct piece){ at + 1, code - direct, true };
    } else if (code >= brief && code < brief + 4) {
        if (rest < 2)
            return no_piece(r, kind);
        *piece = (struct piece){ at + 2, (code - brief) << 8 | at[1], true };
    } else if (code == chunk || code == whole) {
        if (rest < 3)
            return no_piece(r, kind);
        *piece = (struct piece){ at + 3, big16(at + 1), code == whole };
    } else {
        (void)spn__hread_fail(r, SPN_EINVAL, at, "0x%02x does not go on with a %s",
                              code, spn_hkind_name((spn_hkind)kind));
        return false;
    }
    /* A unit is at least one byte. */
    if (piece->size > (size_t)(r->end - piece->at)) {
        (void)spn__hread_fail(r, SPN_EEMPTY, r->at,
                              "a %s of %zu, but only %zu bytes are left",
                              spn_hkind_name((spn_hkind)kind), piece->size,
                              (size_t)(r->end - piece->at));
        return false;
    }
    return true;
}

/* Walks over the units of a piece; gives its bytes. */
static int scan_piece(struct spn__hreader *r, struct spn__text *text,
                      const struct piece *piece, size_t *bytes)
{
    const int64_t n =
        spn__text_scan(text, piece->at, (size_t)(r->end - piece->at), piece->size);

    if (n == -1)
        return spn__hread_fail(r, SPN_EINVAL, piece->at + text->wrong_at, "not UTF-8");
    if (n < 0)
        return spn__hread_fail_short(r, r->at, "string");
    *bytes = (size_t)n;
    return SPN_OK;
}

/* Room for that many bytes of text and a zero. */
static unsigned char *room(struct spn__hreader *r, size_t bytes)
{
    unsigned char *to = NULL;

    if (bytes > UINT32_MAX - 1)
        r->arena->status = SPN_ERANGE;
    else
        to = spn__harena_get(r->arena, bytes + 1, 1);
    if (to == NULL) {
        (void)spn__hread_fail_memory(r);
        return NULL;
    }
    to[bytes] = 0;
    return to;
}

/* Walks over all pieces of a string or binary: where it ends, and its bytes outside. */
static int walk_pieces(struct spn__hreader *r, int kind, const unsigned char **end,
                       size_t *outside)
{
    const unsigned char *at = r->at;
    struct spn__text text = { 0 };
    struct piece piece = { 0 };
    size_t bytes;
    int rc;

    do {
        if (!read_piece(r, at, kind, &piece))
            return r->status;
        bytes = piece.size;
        if (kind == SPN_HSTRING) {
            rc = scan_piece(r, &text, &piece, &bytes);
            if (rc != SPN_OK)
                return rc;
        } else {
            text.outside += bytes;
        }
        at = piece.at + bytes;
    } while (!piece.last);
    *end = at;
    *outside = text.outside;
    return SPN_OK;
}

int spn__hread_skip_span(struct spn__hreader *r, int kind)
{
    size_t outside;

    return walk_pieces(r, kind, &r->at, &outside);
}

/* A string or binary in several pieces, or one that is not the same outside: walks over
 * all of it first, so that there is exactly as much memory as it needs. */
static int read_pieces(struct spn__hreader *r, int kind, spn_hspan *span)
{
    const unsigned char *at;
    struct piece piece = { 0 };
    unsigned char *to;
    bool high = false;
    size_t bytes, n, outside = 0;
    int rc;

    rc = walk_pieces(r, kind, &at, &outside);
    if (rc != SPN_OK)
        return rc;
    to = room(r, outside);
    if (to == NULL)
        return r->status;
    *span = (spn_hspan){ (const char *)to, outside };
    for (at = r->at;; at = piece.at + bytes) {
        struct spn__text again = { 0 };

        if (!read_piece(r, at, kind, &piece))
            return r->status; /* never: it was read above */
        bytes = piece.size;
        if (kind == SPN_HSTRING) {
            (void)scan_piece(r, &again, &piece, &bytes);
            n = spn__text_to_utf8(to, piece.at, bytes, &high);
        } else {
            memcpy(to, piece.at, bytes);
            n = bytes;
        }
        to += n;
        if (piece.last)
            break;
    }
    r->at = piece.at + bytes;
    return SPN_OK;
}

/* The common case is one piece of ASCII: looked at once and copied once. */
int spn__hread_span(struct spn__hreader *r, int kind, spn_hspan *span)
{
    struct piece piece = { 0 }; /* for gcc -O3, which does not see it written below */
    unsigned char *to;
    size_t bytes;
    int rc;

    if (!read_piece(r, r->at, kind, &piece))
        return r->status;
    if (!piece.last)
        return read_pieces(r, kind, span);
    bytes = piece.size;
    if (kind == SPN_HSTRING && spn__text_ascii(piece.at, bytes) != bytes) {
        struct spn__text text = { 0 };

        rc = scan_piece(r, &text, &piece, &bytes);
        if (rc != SPN_OK)
            return rc;
        if (text.outside != bytes)
            return read_pieces(r, kind, span);
    }
    r->at = piece.at + bytes;
    to = room(r, bytes);
    if (to == NULL)
        return r->status;
    memcpy(to, piece.at, bytes);
    *span = (spn_hspan){ (const char *)to, bytes };
    return SPN_OK;
}

/* ---- one of a kind ------------------------------------------------------------- */

/* What every reading of one kind begins with: the kind of the next value. */
static int expect_one(struct spn__hreader *r, int *kind)
{
    if (r->status != SPN_OK)
        return r->status;
    if (spn__hreader_left(r) == 0)
        return spn__hread_fail_short(r, r->at, "the values");
    if (r->values_left == 0)
        return spn__hread_fail(r, SPN_ERANGE, r->at, "too many values");
    *kind = spn__hread_kind(*r->at);
    return SPN_OK;
}

__attribute__((cold)) static int fail_kind(struct spn__hreader *r, spn_hkind wanted,
                                           int kind)
{
    if (kind < 0) /* no value starts like this, or it is a reference */
        return spn__hread_fail(r, SPN_EINVAL, r->at, "0x%02x is no %s", *r->at,
                               spn_hkind_name(wanted));
    return spn__hread_fail(r, SPN_EINVAL, r->at, "%s expected, found %s",
                           spn_hkind_name(wanted), spn_hkind_name((spn_hkind)kind));
}

/* Takes a long or a double, too, if it is a whole number that fits. */
int spn__hreader_int(struct spn__hreader *reader, int32_t *number)
{
    const unsigned char *const at = reader->at;
    struct spn__hscalar s = { 0 };
    int kind = SPN_HNULL;
    int rc = expect_one(reader, &kind);

    if (rc != SPN_OK)
        return rc;
    if (kind != SPN_HINT && kind != SPN_HLONG && kind != SPN_HDOUBLE)
        return fail_kind(reader, SPN_HINT, kind);
    rc = spn__hread_scalar(reader, kind, &s);
    if (rc != SPN_OK)
        return rc;
    reader->values_left--;
    if ((s.kind == SPN_HDOUBLE && !spn__real_to_integer(s.real, &s.integer)) ||
        s.integer < INT32_MIN || s.integer > INT32_MAX) {
        reader->at = at;
        return spn__hread_fail(reader, SPN_ERANGE, at,
                               "the number does not fit into an int");
    }
    *number = (int32_t)s.integer;
    return SPN_OK;
}
int spn__hreader_string(struct spn__hreader *reader, spn_hspan *text)
{
    spn_hspan span = { NULL, 0 };
    int kind = SPN_HNULL;
    int rc = expect_one(reader, &kind);

    if (rc != SPN_OK)
        return rc;
    if (kind == SPN_HSTRING)
        rc = spn__hread_span(reader, SPN_HSTRING, &span);
    else if (kind == SPN_HNULL)
        reader->at++;
    else
        rc = fail_kind(reader, SPN_HSTRING, kind);
    if (rc == SPN_OK) {
        reader->values_left--;
        *text = span;
    }
    return rc;
}
