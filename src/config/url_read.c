/* SPDX-License-Identifier: MIT */
/*
 * url_read.c - from text to a URL.
 *
 * OVERVIEW
 *   The text is cut into spans, which a draft collects; then one block is made that holds
 *   everything, with the parameters sorted.  Nothing is copied twice, and a URL that is
 *   refused has cost at most the list of its parameters.
 *
 * THE ORDER OF CUTTING is Dubbo's and decides what an ambiguous text means: parameters off
 *   at the first `?`; then, in the body, what follows `#`; the protocol at the first `://`,
 *   else the first `:/`; the path at the first `/` after that; user and password at the
 *   last `@`; the port at the last `:`.
 *   Stricter than Dubbo, which takes anything: a protocol has the letters of one, a port is
 *   a number with a host before it, brackets are understood, control characters are
 *   refused.  So whatever was read prints as a text that is read as the same again: there
 *   is nothing in a part that would end it.
 *
 * DEFAULTS
 *   `default.x=v` is also x=v, unless x is given.  That holds for `default.default.x` too,
 *   step by step, because its printed form would mean it.  Which of several counts: the
 *   one with fewest steps; of those given, the last, as in a map; of those derived, the
 *   first, as "if absent".
 *
 * BOUNDS  SPN_URL_TEXT_MAX and SPN_URL_PARAMETERS_MAX, also for what is derived.
 */
#include "config/url.h"

#include "config/problem.h"

static const char default_prefix[] = "default.";
enum { PREFIX_LENGTH = sizeof default_prefix - 1, FIRST_ITEMS = 16 };

/* ---- drafts ------------------------------------------------------------------------- */

void spn__url_drop_draft(struct spn__url_draft *draft)
{
    spn__free(draft->items);
    draft->items = NULL;
    draft->count = draft->capacity = 0;
}

static int append(struct spn__url_draft *draft, struct spn__span key,
                  struct spn__span value, uint32_t depth)
{
    struct spn__url_item *items;

    if (draft->count >= SPN_URL_PARAMETERS_MAX)
        return SPN_ERANGE;
    if (draft->count == draft->capacity) {
        const size_t capacity =
            draft->capacity == 0 ? FIRST_ITEMS : draft->capacity * 2;

        items = spn__alloc(capacity * sizeof *items);
        if (items == NULL)
            return SPN_ENOMEM;
        if (draft->count != 0)
            memcpy(items, draft->items, draft->count * sizeof *items);
        spn__free(draft->items);
        draft->items = items;
        draft->capacity = capacity;
    }
    draft->items[draft->count] =
        (struct spn__url_item){ key, value, depth, (uint32_t)draft->count };
    draft->count++;
    return SPN_OK;
}

int spn__url_add(struct spn__url_draft *draft, struct spn__span key,
                 struct spn__span value)
{
    int rc = append(draft, key, value, 0);

    for (uint32_t depth = 1; rc == SPN_OK && key.length > PREFIX_LENGTH &&
                             memcmp(key.text, default_prefix, PREFIX_LENGTH) == 0;
         depth++) {
        key.text += PREFIX_LENGTH;
        key.length -= PREFIX_LENGTH;
        rc = append(draft, key, value, depth);
    }
    return rc;
}

static int compare_keys(struct spn__span a, struct spn__span b)
{
    const size_t shorter = a.length < b.length ? a.length : b.length;
    const int found = memcmp(a.text, b.text, shorter);

    return found != 0 ? found : (a.length > b.length) - (a.length < b.length);
}

/* By key; of equal ones the one that counts comes first. */
static bool comes_before(const struct spn__url_item *a, const struct spn__url_item *b)
{
    const int found = compare_keys(a->key, b->key);

    if (found != 0)
        return found < 0;
    if (a->depth != b->depth)
        return a->depth < b->depth;
    return a->depth == 0 ? a->place > b->place : a->place < b->place;
}

/* Shell's: in place, and far from quadratic for what a stranger may send. */
static void sort(struct spn__url_item *items, size_t count)
{
    static const size_t gaps[] = { 701, 301, 132, 57, 23, 10, 4, 1 };

    for (size_t g = 0; g < sizeof gaps / sizeof *gaps; g++)
        for (size_t i = gaps[g]; i < count; i++) {
            const struct spn__url_item item = items[i];
            size_t to = i;

            for (; to >= gaps[g] && comes_before(&item, &items[to - gaps[g]]);
                 to -= gaps[g])
                items[to] = items[to - gaps[g]];
            items[to] = item;
        }
}

/* Sorts, and leaves the one that counts of each key. */
static void settle(struct spn__url_draft *draft)
{
    size_t kept = 0;

    sort(draft->items, draft->count);
    for (size_t i = 0; i < draft->count; i++)
        if (kept == 0 ||
            compare_keys(draft->items[kept - 1].key, draft->items[i].key) != 0)
            draft->items[kept++] = draft->items[i];
    draft->count = kept;
}

/* An empty part is none. */
static const char *keep(char **room, struct spn__span span)
{
    char *at = *room;

    if (span.length == 0)
        return NULL;
    memcpy(at, span.text, span.length);
    at[span.length] = '\0';
    *room += span.length + 1;
    return at;
}

int spn__url_build(spn_url **out, struct spn__url_draft *draft)
{
    enum { PARTS = 5 }; /* each ends with a zero byte */
    size_t text = draft->protocol.length + draft->user.length + draft->password.length +
                  draft->host.length + draft->path.length + PARTS;
    int64_t printed;
    spn_url *url;
    char *room;

    *out = NULL;
    if (draft->count != 0)
        settle(draft);
    for (size_t i = 0; i < draft->count; i++)
        text += draft->items[i].key.length + draft->items[i].value.length + 2;
    /* Before the memory is asked for: what is derived may be many times the text. */
    if (text - PARTS > SPN_URL_TEXT_MAX) {
        spn__url_drop_draft(draft);
        return SPN_ERANGE;
    }
    url = spn__alloc(sizeof *url + draft->count * sizeof *url->parameters + text);
    if (url == NULL) {
        spn__url_drop_draft(draft);
        return SPN_ENOMEM;
    }
    room = (char *)&url->parameters[draft->count];
    spn__init(&url->references, 1);
    url->port = draft->host.length != 0 ? draft->port : 0;
    url->protocol = keep(&room, draft->protocol);
    url->user = keep(&room, draft->user);
    url->password = keep(&room, draft->password);
    url->host = keep(&room, draft->host);
    url->path = keep(&room, draft->path);
    url->count = draft->count;
    for (size_t i = 0; i < draft->count; i++) {
        url->parameters[i].key = keep(&room, draft->items[i].key);
        url->parameters[i].value = keep(&room, draft->items[i].value);
        if (url->parameters[i].value == NULL)
            url->parameters[i].value = "";
    }
    spn__url_drop_draft(draft);
    printed = spn_url_print(url, SPN_URL_FULL, NULL, 0);
    if (printed == 0 || printed > SPN_URL_TEXT_MAX) {
        spn__free(url);
        return printed == 0 ? SPN_EINVAL : SPN_ERANGE; /* nothing, or too much */
    }
    *out = url;
    return SPN_OK;
}

/* ---- cutting ------------------------------------------------------------------------- */

/* What is read: [at, end) of text, which the offsets of problems are from. */
struct reader {
    const char *text;
    const char *at, *end;
    spn_problem *problem;
};

static size_t offset_of(const struct reader *r, const char *at)
{
    return (size_t)(at - r->text);
}

static const char *find(const char *from, const char *to, char what)
{
    return from < to ? memchr(from, what, (size_t)(to - from)) : NULL;
}

static const char *find_last(const char *from, const char *to, char what)
{
    while (to > from)
        if (*--to == what)
            return to;
    return NULL;
}

/* Where ":" and what follows it start. */
static const char *find_mark(const char *from, const char *to, const char *mark)
{
    const size_t length = strlen(mark);

    for (; (from = find(from, to, ':')) != NULL; from++)
        if ((size_t)(to - from) >= length && memcmp(from, mark, length) == 0)
            return from;
    return NULL;
}

static struct spn__span span_from(const char *from, const char *to)
{
    struct spn__span span = { from, (size_t)(to - from) };

    return span;
}

static int read_protocol(struct reader *r, struct spn__url_draft *draft)
{
    const char *mark = find_mark(r->at, r->end, "://");
    size_t skipped = 3;

    if (mark == NULL) {
        mark = find_mark(r->at, r->end, ":/");
        skipped = 1; /* the slash begins the path */
    }
    if (mark == NULL)
        return SPN_OK;
    if (mark == r->at)
        return spn__refuse(r->problem, SPN_EINVAL, offset_of(r, mark),
                           "the protocol before '%s' is missing",
                           skipped == 3 ? "://" : ":/");
    for (const char *at = r->at; at < mark; at++)
        if (!spn__url_is_protocol_letter(*at))
            return spn__refuse(r->problem, SPN_EINVAL, offset_of(r, at),
                               "'%c' cannot be in a protocol, which ends at ':/'", *at);
    draft->protocol = span_from(r->at, mark);
    r->at = mark + skipped;
    return SPN_OK;
}

static void read_path(struct reader *r, struct spn__url_draft *draft)
{
    const char *slash = find(r->at, r->end, '/'), *from = slash;

    if (slash == NULL)
        return;
    while (from < r->end && *from == '/')
        from++;
    draft->path = span_from(from, r->end);
    r->end = slash;
}

static void read_user(struct reader *r, struct spn__url_draft *draft)
{
    const char *mark = find_last(r->at, r->end, '@'), *colon;

    if (mark == NULL)
        return;
    colon = find(r->at, mark, ':');
    draft->user = span_from(r->at, colon != NULL ? colon : mark);
    if (colon != NULL)
        draft->password = span_from(colon + 1, mark);
    r->at = mark + 1;
}

static int read_port(struct reader *r, const char *at, int32_t *port)
{
    int32_t value = 0;

    if (at == r->end)
        return spn__refuse(r->problem, SPN_EINVAL, offset_of(r, at),
                           "a port is missing after ':'");
    if (r->end - at > 5)
        return spn__refuse(r->problem, SPN_EINVAL, offset_of(r, at),
                           "a port has 5 digits at most (an IPv6 address wants "
                           "brackets, or a port behind it)");
    for (const char *digit = at; digit < r->end; digit++) {
        if (*digit < '0' || *digit > '9')
            return spn__refuse(r->problem, SPN_EINVAL, offset_of(r, digit),
                               "'%c' cannot be in a port", *digit);
        value = value * 10 + (*digit - '0');
    }
    if (value > 65535)
        return spn__refuse(r->problem, SPN_EINVAL, offset_of(r, at),
                           "a port is 65535 at most");
    *port = value;
    return SPN_OK;
}

static int read_host(struct reader *r, struct spn__url_draft *draft)
{
    const char *colon, *bracket;
    int rc;

    if (r->at < r->end && *r->at == '[') {
        bracket = find(r->at, r->end, ']');
        if (bracket == NULL)
            return spn__refuse(r->problem, SPN_EINVAL, offset_of(r, r->at),
                               "this '[' is not closed");
        colon = bracket + 1;
        if (colon < r->end && *colon != ':')
            return spn__refuse(r->problem, SPN_EINVAL, offset_of(r, colon),
                               "only a port can follow ']'");
        if (colon == r->end)
            colon = NULL;
    } else {
        colon = find_last(r->at, r->end, ':');
        if (colon != NULL && find(colon, r->end, '%') != NULL)
            colon = NULL; /* part of an IPv6 address with a scope */
    }
    if (colon != NULL) {
        rc = read_port(r, colon + 1, &draft->port);
        if (rc != SPN_OK)
            return rc;
        if (colon == r->at)
            return spn__refuse(r->problem, SPN_EINVAL, offset_of(r, colon),
                               "a port needs a host before it");
        r->end = colon;
    }
    draft->host = span_from(r->at, r->end);
    return SPN_OK;
}

/* One parameter, or nothing between two marks. */
static int read_parameter(struct reader *r, const char *from, const char *to,
                          struct spn__url_draft *draft)
{
    struct spn__span value = { to, 0 };
    const char *equals;
    int rc;

    while (from < to && *from == '=')
        from++; /* a name that is empty */
    if (from == to)
        return SPN_OK;
    equals = find(from, to, '=');
    if (equals != NULL)
        value = span_from(equals + 1, to);
    rc = spn__url_add(draft, span_from(from, equals != NULL ? equals : to), value);
    if (rc == SPN_ERANGE)
        return spn__refuse(r->problem, rc, offset_of(r, from),
                           "there are more than %d parameters", SPN_URL_PARAMETERS_MAX);
    return rc;
}

static int read_parameters(struct reader *r, const char *from, const char *to,
                           struct spn__url_draft *draft)
{
    int rc = SPN_OK;

    while (rc == SPN_OK && from <= to) {
        const char *end = from;

        while (end < to && *end != '&' && *end != ';')
            end++;
        rc = read_parameter(r, from, end, draft);
        from = end + 1;
    }
    return rc;
}

static int read_all(struct reader *r, struct spn__url_draft *draft)
{
    const char *end = r->end, *query, *pound;
    int rc = SPN_OK;

    for (const char *at = r->at; at < end; at++)
        if (!spn__url_is_text(*at))
            return spn__refuse(r->problem, SPN_EINVAL, offset_of(r, at),
                               "a control character, number %d", (unsigned char)*at);
    query = find(r->at, end, '?');
    if (query != NULL) {
        rc = read_parameters(r, query + 1, end, draft);
        r->end = query;
    }
    pound = find(r->at, r->end, '#');
    if (pound != NULL)
        r->end = pound;
    if (rc == SPN_OK)
        rc = read_protocol(r, draft);
    if (rc == SPN_OK) {
        read_path(r, draft);
        read_user(r, draft);
        rc = read_host(r, draft);
    }
    return rc;
}

int spn__url_read(spn_url **out, const char *text, size_t length, spn_problem *problem)
{
    struct spn__url_draft draft = { .count = 0 };
    struct reader r = { text, text, text + length, problem };
    int rc;

    *out = NULL;
    if (length == 0)
        return spn__refuse(problem, SPN_EINVAL, 0, "the URL is empty");
    if (length > SPN_URL_TEXT_MAX)
        return spn__refuse(problem, SPN_ERANGE, SPN_URL_TEXT_MAX,
                           "a URL has %d bytes at most", SPN_URL_TEXT_MAX);
    rc = read_all(&r, &draft);
    if (rc != SPN_OK) {
        spn__url_drop_draft(&draft);
        return rc;
    }
    rc = spn__url_build(out, &draft);
    if (rc == SPN_EINVAL)
        return spn__refuse(problem, rc, 0, "there is nothing in the URL");
    if (rc == SPN_ERANGE)
        return spn__refuse(problem, rc, 0, "in full it has more than %d bytes",
                           SPN_URL_TEXT_MAX);
    return rc;
}

/* strnlen, so that a text without an end is left alone after the limit. */
int spn_url_parse(spn_url **out, const char *text, spn_problem *problem)
{
    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (text == NULL)
        return spn__refuse(problem, SPN_EINVAL, 0, "there is no URL");
    return spn__url_read(out, text, strnlen(text, SPN_URL_TEXT_MAX + 1), problem);
}

/* Where byte `decoded` of the decoded text comes from. */
static size_t encoded_offset(const char *text, size_t decoded)
{
    size_t at = 0;

    for (; decoded > 0 && text[at] != '\0'; decoded--)
        at += text[at] == '%' ? 3 : 1;
    return at;
}

/* The first escape that is wrong, or the length of the text. */
static size_t wrong_escape(const char *text)
{
    size_t at = 0;
    char byte[2];

    while (text[at] != '\0') {
        char escape[4] = { 0 };

        if (text[at] != '%') {
            at++;
            continue;
        }
        memcpy(escape, text + at, strnlen(text + at, 3));
        if (strlen(escape) < 3 || spn__url_decode(escape, byte, sizeof byte) != 1)
            return at;
        at += 3;
    }
    return at;
}

int spn_url_parse_encoded(spn_url **out, const char *text, spn_problem *problem)
{
    int64_t length;
    size_t wrong;
    char *decoded;
    int rc;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (text == NULL)
        return spn__refuse(problem, SPN_EINVAL, 0, "there is no URL");
    /* Three bytes for one at most. */
    if (strnlen(text, (size_t)3 * SPN_URL_TEXT_MAX + 1) > (size_t)3 * SPN_URL_TEXT_MAX)
        return spn__refuse(problem, SPN_ERANGE, (size_t)3 * SPN_URL_TEXT_MAX,
                           "a URL has %d bytes at most", SPN_URL_TEXT_MAX);
    length = spn__url_decode(text, NULL, 0);
    if (length < 0) {
        wrong = wrong_escape(text);
        return spn__refuse(problem, SPN_EINVAL, wrong,
                           "'%.3s' is no escape: two hexadecimal digits follow '%%', "
                           "and not 00",
                           text + wrong);
    }
    decoded = spn__alloc((size_t)length + 1);
    if (decoded == NULL)
        return SPN_ENOMEM;
    (void)spn__url_decode(text, decoded, (size_t)length + 1);
    rc = spn__url_read(out, decoded, (size_t)length, problem);
    if (problem != NULL && (rc == SPN_EINVAL || rc == SPN_ERANGE))
        problem->offset = encoded_offset(text, problem->offset);
    spn__free(decoded);
    return rc;
}
