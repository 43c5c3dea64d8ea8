/* SPDX-License-Identifier: MIT */
/*
 * body.c - what a request asks: five texts, the arguments, attachments.
 *
 * OVERVIEW
 *   Nearly every request consists of short ASCII texts and small numbers.  Those are read
 *   here, in place: a text is its bytes in the body, which is the request's own copy, and
 *   gets its zero byte over the first byte of what follows, when all of that has been
 *   read.  At the first value that is anything else a Hessian reader takes over, for good,
 *   since it has the tables that later values refer to; the values before it have none.
 *
 *   Attachments stay as they are when they are a map of plain texts: those the server needs
 *   are noted, others are looked for when somebody asks.  Their bytes are not touched.
 *
 * BEFORE THE READER TAKES OVER, and with it an arena, the service and the method are looked
 *   for: a client that knows neither takes no memory but its bytes.  As a rule the fields of
 *   the body name a service that is there.  If not, the attachments may, which stand behind
 *   the arguments: these are passed over (hessian_skip.c), and only the attachments are read.
 *   The arena is limited by the size of the body while that is read.
 *
 * Nothing here trusts a length: every step asks what is left.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "config/problem.h"
#include "rpc/wire/hessian_read.h"
#include "rpc/server/request.h"
#include "rpc/server/serving.h"

/* Where the reading is. */
struct reading {
    struct spn_request *request;
    const unsigned char *at, *end;
    bool is_slow;  /* the reader has taken over */
    bool is_named; /* the names have been read */
    int left;      /* arguments to come */
    size_t limit;  /* of the arena, when all has been read */
    struct spn__hreader reader;
    spn_problem problem;
};

/* ---- plain values -------------------------------------------------------------------- */

/* Eight bytes at a time. */
static bool is_ascii(const unsigned char *data, size_t length)
{
    uint64_t word, all = 0;

    for (; length >= sizeof word; data += sizeof word, length -= sizeof word) {
        memcpy(&word, data, sizeof word);
        all |= word;
    }
    while (length > 0)
        all |= data[--length];
    return (all & UINT64_C(0x8080808080808080)) == 0;
}

static bool word_has_zero(const char *at)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t word;

    memcpy(&word, at, sizeof word);
    return ((word - ones) & ~word & (ones << 7)) != 0;
}

/* Eight bytes at a time, the last of which may be looked at twice: this is done for every
 * request. */
static bool has_zero(spn_hspan text)
{
    size_t at = 0;

    if (text.data == NULL)
        return false;
    if (text.length < sizeof(uint64_t))
        return memchr(text.data, 0, text.length) != NULL;
    for (; text.length - at > sizeof(uint64_t); at += sizeof(uint64_t))
        if (word_has_zero(text.data + at))
            return true;
    return word_has_zero(text.data + text.length - sizeof(uint64_t));
}

bool spn__plain_text(const unsigned char **at, const unsigned char *end,
                     spn_hspan *text)
{
    const unsigned char *p = *at;
    size_t length;

    if (p == end)
        return false;
    if (*p < 0x20) {
        length = *p++;
    } else if (*p >= 0x30 && *p <= 0x33 && end - p >= 2) {
        length = (size_t)(p[0] - 0x30) << 8 | p[1];
        p += 2;
    } else if (*p == 'N') {
        *text = (spn_hspan){ NULL, 0 };
        *at = p + 1;
        return true;
    } else {
        return false;
    }
    if ((size_t)(end - p) < length || !is_ascii(p, length))
        return false;
    *text = (spn_hspan){ (const char *)p, length };
    *at = p + length;
    return true;
}

static int64_t big_endian(const unsigned char *p, int bytes)
{
    uint64_t value = 0;

    for (int i = 0; i < bytes; i++)
        value = value << 8 | p[i];
    return (int64_t)value;
}

/* Integers of every form. */
static bool plain_integer(const unsigned char **at, const unsigned char *end,
                          struct spn__argument *out)
{
    const unsigned char *p = *at;
    const ptrdiff_t left = end - p;
    int64_t value;
    int used;
    bool is_long = false;

    if (left == 0)
        return false;
    if (*p >= 0x80 && *p <= 0xbf) {
        value = *p - 0x90;
        used = 1;
    } else if (*p >= 0xc0 && *p <= 0xcf && left >= 2) {
        value = (*p - 0xc8) * 256 + p[1];
        used = 2;
    } else if (*p >= 0xd0 && *p <= 0xd7 && left >= 3) {
        value = (*p - 0xd4) * 65536 + p[1] * 256 + p[2];
        used = 3;
    } else if (*p == 'I' && left >= 5) {
        value = (int32_t)big_endian(p + 1, 4);
        used = 5;
    } else if (*p >= 0xd8 && *p <= 0xef) {
        value = *p - 0xe0;
        used = 1;
        is_long = true;
    } else if (*p >= 0xf0 && left >= 2) {
        value = (*p - 0xf8) * 256 + p[1];
        used = 2;
        is_long = true;
    } else if (*p >= 0x38 && *p <= 0x3f && left >= 3) {
        value = (*p - 0x3c) * 65536 + p[1] * 256 + p[2];
        used = 3;
        is_long = true;
    } else if (*p == 'Y' && left >= 5) {
        value = (int32_t)big_endian(p + 1, 4);
        used = 5;
        is_long = true;
    } else if (*p == 'L' && left >= 9) {
        value = big_endian(p + 1, 8);
        used = 9;
        is_long = true;
    } else {
        return false;
    }
    out->kind = is_long ? SPN_HLONG : SPN_HINT;
    out->is.integer = value;
    *at = p + used;
    return true;
}

static bool plain_value(const unsigned char **at, const unsigned char *end,
                        struct spn__argument *out)
{
    if (*at == end)
        return false;
    if (**at == 'T' || **at == 'F') {
        out->kind = SPN_HBOOL;
        out->is.integer = **at == 'T';
        (*at)++;
        return true;
    }
    if (plain_integer(at, end, out))
        return true;
    if (!spn__plain_text(at, end, &out->is.text))
        return false; /* doubles too: the reader knows all their forms */
    out->kind = out->is.text.data != NULL ? SPN_HSTRING : SPN_HNULL;
    return true;
}

/* ---- the reader ------------------------------------------------------------------------ */

static bool is_wanted(struct reading *r);

static int go_slow(struct reading *r)
{
    spn_harena *arena;

    if (r->is_slow)
        return SPN_OK;
    if (r->is_named && !is_wanted(r))
        return SPN_EEMPTY;
    arena = spn_request_arena(r->request);
    if (arena == NULL)
        return spn__refuse(&r->problem, SPN_ENOMEM, 0, "out of memory");
    r->is_slow = true;
    r->limit = spn__harena_narrow(arena, (size_t)r->request->message.frame.length);
    spn__hreader_init(&r->reader, arena, r->at, (size_t)(r->end - r->at), &r->problem);
    return SPN_OK;
}

static int read_text(struct reading *r, spn_hspan *text)
{
    int rc;

    if (!r->is_slow && spn__plain_text(&r->at, r->end, text))
        return SPN_OK;
    rc = go_slow(r);
    return rc == SPN_OK ? spn__hreader_string(&r->reader, text) : rc;
}

static int read_argument(struct reading *r, struct spn__argument *out)
{
    int rc;

    memset(out, 0, sizeof *out);
    if (!r->is_slow && plain_value(&r->at, r->end, out))
        return SPN_OK;
    rc = go_slow(r);
    return rc == SPN_OK ? spn__hreader_any(&r->reader, &out->value) : rc;
}

/* ---- attachments ------------------------------------------------------------------------- */

static bool is(spn_hspan text, const char *word, size_t length)
{
    return text.length == length && memcmp(text.data, word, length) == 0;
}

/* A decimal number without anything around it; 0: none, or none that makes sense. */
static int64_t number_of(spn_hspan text)
{
    int64_t value = 0;

    if (text.length == 0 || text.length > 10)
        return 0;
    for (size_t i = 0; i < text.length; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return 0;
        value = value * 10 + (text.data[i] - '0');
    }
    return value;
}

/* One that the server itself needs.  A zero byte is not looked for: a name with one is found
 * nowhere, since names are compared by length. */
static void note(struct spn_request *request, spn_hspan key, spn_hspan value)
{
    if (value.length == 0)
        return;
    if (is(key, "path", 4))
        request->path = value;
    else if (is(key, "group", 5))
        request->group = value;
    else if (is(key, "version", 7))
        request->version = value;
    else if (is(key, "timeout", 7))
        request->timeout_ms = number_of(value);
}

/* The next pair of a plain map.  1: a pair; 0: its end; negative: something else. */
static int plain_pair(const unsigned char **at, const unsigned char *end,
                      spn_hspan *key, struct spn__argument *value)
{
    if (*at != end && **at == 'Z') {
        (*at)++;
        return 0;
    }
    if (!spn__plain_text(at, end, key) || key->data == NULL ||
        !plain_value(at, end, value))
        return -1;
    return 1;
}

/* Reads all of them without a reader; false: not so plain, and nothing was noted. */
static bool read_plain_attachments(struct reading *r)
{
    const unsigned char *at = r->at;
    struct spn__argument value;
    spn_hspan key;
    int more;

    if (at == r->end || *at != 'H')
        return false;
    at++;
    while ((more = plain_pair(&at, r->end, &key, &value)) == 1)
        ;
    if (more < 0)
        return false;
    r->request->attachments_at = r->at + 1;
    at = r->at + 1;
    r->at = at;
    while (plain_pair(&r->at, r->end, &key, &value) == 1) {
        if (value.kind == SPN_HSTRING)
            note(r->request, key, value.is.text);
        else if (value.kind >= SPN_HINT && value.kind <= SPN_HLONG &&
                 is(key, "timeout", 7) && value.is.integer > 0)
            r->request->timeout_ms = value.is.integer;
    }
    return true;
}

static int read_attachments(struct reading *r)
{
    struct spn_request *request = r->request;
    spn_hvalue *map;
    int rc;

    if (!r->is_slow) {
        if (r->at != r->end && *r->at == 'N') {
            r->at++;
            return SPN_OK;
        }
        if (read_plain_attachments(r))
            return SPN_OK;
    }
    rc = go_slow(r);
    if (rc == SPN_OK)
        rc = spn__hreader_any(&r->reader, &map);
    if (rc != SPN_OK)
        return rc;
    if (spn_hvalue_kind(map) == SPN_HNULL)
        return SPN_OK;
    if (spn_hvalue_kind(map) != SPN_HMAP)
        return spn__refuse(&r->problem, SPN_EINVAL, 0,
                           "attachments are no map but of kind %s",
                           spn_hkind_name(spn_hvalue_kind(map)));
    request->attachments = map;
    for (size_t i = 0; i < spn_hvalue_count(map); i++) {
        spn_hspan key, value;
        int64_t number;

        if (spn_hvalue_as_string(spn_hvalue_key_at(map, i), &key) != SPN_OK ||
            key.data == NULL)
            continue;
        if (spn_hvalue_as_string(spn_hvalue_at(map, i), &value) == SPN_OK)
            note(r->request, key, value);
        else if (is(key, "timeout", 7) &&
                 spn_hvalue_as_long(spn_hvalue_at(map, i), &number) == SPN_OK &&
                 number > 0)
            request->timeout_ms = number;
    }
    return SPN_OK;
}

/* ---- whether it is worth an arena ---------------------------------------------------------- */

static bool is_name_key(spn_hspan key)
{
    return is(key, "path", 4) || is(key, "group", 5) || is(key, "version", 7);
}

/* Hears what the attachments say without reading what is in front of them.  False: they name
 * something in a way that only the reader understands. */
static bool skip_to_attachments(struct reading *r)
{
    struct spn__hskip skip;
    const unsigned char **at = &skip.reader.at;

    spn__hskip_init(&skip, r->is_slow ? r->reader.at : r->at, r->end);
    for (int i = 0; i < r->left; i++)
        if (spn__hskip_any(&skip) != SPN_OK)
            return true; /* then it names nothing */
    if (*at == r->end || **at != 'H')
        return *at == r->end || **at != 'M';
    (*at)++;
    while (*at != r->end && **at != 'Z') {
        spn_hspan key = { NULL, 0 }, value = { NULL, 0 };

        if (!spn__plain_text(at, r->end, &key) && spn__hskip_any(&skip) != SPN_OK)
            return true;
        if (spn__plain_text(at, r->end, &value))
            note(r->request, key, value);
        else if (key.data != NULL && is_name_key(key))
            return false;
        else if (spn__hskip_any(&skip) != SPN_OK)
            return true;
    }
    return true;
}

/* False: no service, or no method, is there for it, and request->offer says which. */
static bool is_wanted(struct reading *r)
{
    struct spn_request *request = r->request;
    struct spn__services *services = &request->server->services;

    if (spn__services_have(services, request->path, request->method,
                           request->descriptor) ||
        !skip_to_attachments(r))
        return true;
    request->offer =
        (uint8_t)spn__services_offer(services, request->group, request->path,
                                     request->version, request->shard, request->method,
                                     request->descriptor);
    return request->offer == SPN__OFFERED;
}

/* ---- all of it ------------------------------------------------------------------------------ */

static int read_arguments(struct reading *r)
{
    struct spn_request *request = r->request;
    const int count =
        spn__descriptor_count(request->descriptor.data, request->descriptor.length);

    if (count < 0)
        return spn__refuse(&r->problem, SPN_EINVAL, 0,
                           "the parameters are no descriptor");
    r->left = count;
    r->is_named = true;
    if (r->is_slow && !is_wanted(r))
        return SPN_EEMPTY;
    request->arguments = request->inline_arguments;
    if (count > SPN__ARGUMENTS_INLINE) {
        spn_harena *arena = spn_request_arena(request);

        if (arena != NULL)
            request->arguments =
                spn_harena_alloc(arena, (size_t)count * sizeof *request->arguments);
        if (arena == NULL || request->arguments == NULL)
            return spn__refuse(&r->problem, SPN_ENOMEM, 0, "out of memory");
    }
    for (int i = 0; i < count; i++) {
        const int rc = read_argument(r, &request->arguments[i]);

        if (rc != SPN_OK)
            return rc;
        request->argument_count = (uint16_t)(i + 1);
        r->left--;
    }
    return SPN_OK;
}

/* Names become C strings, for methods and in the texts of replies: with a zero byte in it
 * one would be taken for another. */
static int refuse_zero(struct reading *r, const char *what)
{
    return spn__refuse(&r->problem, SPN_EINVAL, 0, "%s has a zero byte in it", what);
}

static int read_texts(struct reading *r)
{
    struct spn_request *request = r->request;
    spn_hspan all;
    int rc;

    if ((rc = read_text(r, &request->dubbo)) != SPN_OK ||
        (rc = read_text(r, &request->path)) != SPN_OK ||
        (rc = read_text(r, &request->version)) != SPN_OK ||
        (rc = read_text(r, &request->method)) != SPN_OK ||
        (rc = read_text(r, &request->descriptor)) != SPN_OK)
        return rc;
    if (request->path.data == NULL || request->method.data == NULL ||
        request->descriptor.data == NULL)
        return spn__refuse(&r->problem, SPN_EINVAL, 0,
                           "path, method and parameters must not be null");
    /* In place they lie one behind the other, and as a rule there is no zero even between
     * them. */
    if (!r->is_slow) {
        all.data =
            request->dubbo.data != NULL ? request->dubbo.data : request->path.data;
        all.length = (size_t)((const char *)r->at - all.data);
        if (!has_zero(all))
            return SPN_OK;
    }
    if (has_zero(request->dubbo))
        return refuse_zero(r, "the version of the protocol");
    if (has_zero(request->path))
        return refuse_zero(r, "the path");
    if (has_zero(request->version))
        return refuse_zero(r, "the version");
    if (has_zero(request->method))
        return refuse_zero(r, "the method");
    if (has_zero(request->descriptor))
        return refuse_zero(r, "the list of parameters");
    return SPN_OK;
}

static int read_all(struct reading *r)
{
    int rc;

    if ((rc = read_texts(r)) != SPN_OK || (rc = read_arguments(r)) != SPN_OK)
        return rc;
    return read_attachments(r);
}

/* All has been read, so that the byte behind a text is free; not so among the attachments,
 * which are read again.  Texts of the reader have their zero byte. */
static void end_text(struct spn_request *request, spn_hspan text)
{
    const unsigned char *const last =
        request->attachments_at != NULL
            ? request->attachments_at
            : request->message.body + request->message.frame.length + 1;
    unsigned char *end;

    if (text.data == NULL)
        return;
    end = (unsigned char *)(uintptr_t)text.data + text.length;
    if (end >= request->message.body && end < last)
        *end = '\0';
}

static void end_texts(struct spn_request *request)
{
    end_text(request, request->method);
    end_text(request, request->descriptor);
    for (unsigned i = 0; i < request->argument_count; i++)
        if (request->arguments[i].value == NULL &&
            request->arguments[i].kind == SPN_HSTRING)
            end_text(request, request->arguments[i].is.text);
}

void spn__request_decode(struct spn__message *message)
{
    struct spn_request *request = (struct spn_request *)(void *)message;
    struct reading r;
    size_t offset;
    int rc;

    r.request = request;
    r.at = message->body;
    r.end = message->body + message->frame.length;
    r.is_slow = false;
    r.is_named = false;
    r.problem = (spn_problem)SPN_PROBLEM_INIT;
    rc = read_all(&r);
    if (r.is_slow)
        spn__harena_widen(request->arena, r.limit);
    if (request->offer != SPN__OFFERED)
        return; /* the exchange says so */
    if (rc == SPN_OK) {
        end_texts(request);
        request->wants_attachments = spn__dubbo_has_attachments(request->dubbo);
        return;
    }
    offset = (size_t)(r.at - message->body);
    if (r.is_slow)
        offset += spn__hreader_offset(&r.reader);
    request->is_broken = 1;
    (void)spn__request_fail(request, SPN_EINVAL, "%s (byte %llu of %d)",
                            r.problem.text[0] != '\0' ? r.problem.text
                                                      : "the body ends too early",
                            (unsigned long long)offset, (int)message->frame.length);
}

spn_hvalue *spn__argument_value(struct spn_request *request,
                                struct spn__argument *argument)
{
    spn_harena *arena;

    if (argument->value != NULL)
        return argument->value;
    arena = spn_request_arena(request);
    if (arena == NULL)
        return NULL;
    switch (argument->kind) {
    case SPN_HBOOL:
        argument->value = spn_harena_bool(arena, (int)argument->is.integer);
        break;
    case SPN_HINT:
        argument->value = spn_harena_int(arena, (int32_t)argument->is.integer);
        break;
    case SPN_HLONG:
        argument->value = spn_harena_long(arena, argument->is.integer);
        break;
    case SPN_HSTRING:
        argument->value =
            spn_harena_string(arena, argument->is.text.data, argument->is.text.length);
        break;
    default:
        argument->value = spn_harena_null(arena);
        break;
    }
    return argument->value;
}

/* ---- versions -------------------------------------------------------------------------------- */

/*
 * A version as a number: parts of the text between dots, of each its leading digits, base
 * 100, and once more times 100 when there are three.  A part without digits makes the whole
 * none.
 */
bool spn__dubbo_has_attachments(spn_hspan version)
{
    int64_t number = 0;
    int parts = 0;
    size_t at = 0;

    if (version.length == 0 || version.length > 32)
        return false;
    while (at <= version.length) {
        int64_t part = 0;
        size_t digits = 0;

        while (at < version.length && version.data[at] >= '0' &&
               version.data[at] <= '9' && digits < 6) {
            part = part * 10 + (version.data[at] - '0');
            at++;
            digits++;
        }
        if (digits == 0)
            return false;
        while (at < version.length && version.data[at] != '.')
            at++;
        at++;
        if (++parts > 4)
            return false;
        number = number * 100 + part;
    }
    if (parts == 3)
        number *= 100;
    return number >= 2000200 && number <= 2009900;
}
