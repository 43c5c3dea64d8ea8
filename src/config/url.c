/* SPDX-License-Identifier: MIT */
/*
 * url.c - what a URL is asked, printed as, and changed to.
 *
 * A URL is one block that never changes, so there is nothing to lock; only the references
 * are counted.
 *
 * ORDERING
 *   [url]  who drops the last reference acquires what the others released: all they read
 *          was read before the block goes.
 */
#include "config/url.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/options.h"
#include "config/problem.h"

_Static_assert(sizeof(spn_url_parts) == 10 * sizeof(void *), "append only, no holes");

/* ---- references ------------------------------------------------------------------------ */

spn_url *spn_url_ref(const spn_url *url)
{
    spn_url *mine = (spn_url *)(uintptr_t)url; /* the count is not part of the value */

    if (mine != NULL)
        /* relaxed: the caller has a reference, so the block stays. */
        (void)spn__fetch_add(&mine->references, 1, relaxed);
    return mine;
}

void spn_url_unref(const spn_url *url)
{
    spn_url *mine = (spn_url *)(uintptr_t)url;

    if (mine != NULL && spn__fetch_sub(&mine->references, 1, acq_rel) == 1) /* [url] */
        spn__free(mine);
}

/* ---- parts ----------------------------------------------------------------------------- */

const char *spn_url_protocol(const spn_url *url)
{
    return url != NULL ? url->protocol : NULL;
}

const char *spn_url_user(const spn_url *url)
{
    return url != NULL ? url->user : NULL;
}

const char *spn_url_password(const spn_url *url)
{
    return url != NULL ? url->password : NULL;
}

const char *spn_url_host(const spn_url *url)
{
    return url != NULL ? url->host : NULL;
}

int32_t spn_url_port(const spn_url *url)
{
    return url != NULL ? url->port : 0;
}

const char *spn_url_path(const spn_url *url)
{
    return url != NULL ? url->path : NULL;
}

int spn_url_is_any_host(const spn_url *url)
{
    if (url == NULL)
        return 0;
    return (url->host != NULL && strcmp(url->host, "0.0.0.0") == 0) ||
           spn_url_get_bool(url, NULL, "anyhost", 0) != 0;
}

/* ---- parameters -------------------------------------------------------------------------- */

/* Compares a key with "method.key", or with "key" if there is no method. */
static int compare(const char *found, const char *method, const char *key)
{
    size_t length;
    int rc;

    if (method == NULL)
        return strcmp(found, key);
    length = strlen(method);
    rc = strncmp(found, method, length);
    if (rc == 0)
        rc = (unsigned char)found[length] - '.';
    return rc != 0 ? rc : strcmp(found + length + 1, key);
}

static const char *look_up(const spn_url *url, const char *method, const char *key)
{
    size_t low = 0, high;

    if (url == NULL || key == NULL)
        return NULL;
    for (high = url->count; low < high;) {
        const size_t middle = low + (high - low) / 2;
        const int rc = compare(url->parameters[middle].key, method, key);

        if (rc == 0)
            return url->parameters[middle].value;
        if (rc < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static const char *not_empty(const char *value)
{
    return value != NULL && *value != '\0' ? value : NULL;
}

const char *spn_url_get_own(const spn_url *url, const char *method, const char *key)
{
    const char *methods = not_empty(look_up(url, NULL, "methods"));

    if (method == NULL || key == NULL)
        return NULL;
    /* As Dubbo does: a part of the text, not a name of the list. */
    if (methods != NULL && strstr(methods, method) == NULL)
        return NULL;
    return look_up(url, method, key);
}

const char *spn_url_get(const spn_url *url, const char *method, const char *key)
{
    const char *value =
        method != NULL ? not_empty(spn_url_get_own(url, method, key)) : NULL;

    return value != NULL ? value : look_up(url, NULL, key);
}

const char *spn_url_get_string(const spn_url *url, const char *method, const char *key,
                               const char *otherwise)
{
    const char *value = not_empty(spn_url_get(url, method, key));

    return value != NULL ? value : otherwise;
}

/* tolower knows the locale; a configuration does not. */
static bool is_true(const char *value)
{
    static const char word[] = "true";
    size_t i = 0;

    for (; i < sizeof word - 1; i++)
        if (value[i] != word[i] && value[i] != word[i] - 'a' + 'A')
            return false;
    return value[i] == '\0';
}

int spn_url_get_bool(const spn_url *url, const char *method, const char *key,
                     int otherwise)
{
    const char *value = not_empty(spn_url_get(url, method, key));

    return value != NULL ? is_true(value) : otherwise != 0;
}

/* A decimal number of [low, high], gathered below zero, where there is one more. */
static int number_of(const char *text, int64_t low, int64_t high, int64_t *value)
{
    const bool negative = *text == '-';
    int64_t sum = 0;
    bool too_large = false;

    if (*text == '-' || *text == '+')
        text++;
    if (*text == '\0')
        return SPN_EINVAL;
    for (; *text != '\0'; text++) {
        const int digit = *text - '0';

        if (digit < 0 || digit > 9)
            return SPN_EINVAL;
        too_large = too_large || sum < (INT64_MIN + digit) / 10;
        if (!too_large)
            sum = sum * 10 - digit;
    }
    if (too_large || (!negative && sum == INT64_MIN))
        return SPN_ERANGE;
    sum = negative ? sum : -sum;
    if (sum < low || sum > high)
        return SPN_ERANGE;
    *value = sum;
    return SPN_OK;
}

static int get_number(const char *text, int64_t low, int64_t high, int64_t otherwise,
                      int64_t *value)
{
    if (not_empty(text) != NULL)
        return number_of(text, low, high, value);
    *value = otherwise;
    return SPN_OK;
}

static int get_int(const char *text, int32_t otherwise, bool positive, int32_t *value)
{
    int64_t found;
    int rc;

    if (positive && otherwise <= 0)
        return SPN_EINVAL;
    rc = get_number(text, INT32_MIN, INT32_MAX, otherwise, &found);
    if (rc == SPN_OK)
        *value = positive && found <= 0 ? otherwise : (int32_t)found;
    return rc;
}

int spn_url_get_int(const spn_url *url, const char *method, const char *key,
                    int32_t otherwise, int32_t *value)
{
    if (url == NULL || key == NULL || value == NULL)
        return SPN_EINVAL;
    return get_int(spn_url_get(url, method, key), otherwise, false, value);
}

int spn_url_get_long(const spn_url *url, const char *method, const char *key,
                     int64_t otherwise, int64_t *value)
{
    if (url == NULL || key == NULL || value == NULL)
        return SPN_EINVAL;
    return get_number(spn_url_get(url, method, key), INT64_MIN, INT64_MAX, otherwise,
                      value);
}

int spn_url_get_positive(const spn_url *url, const char *method, const char *key,
                         int32_t otherwise, int32_t *value)
{
    if (url == NULL || key == NULL || value == NULL)
        return SPN_EINVAL;
    return get_int(spn_url_get(url, method, key), otherwise, true, value);
}

int spn_url_at(const spn_url *url, size_t index, spn_url_parameter *parameter)
{
    if (url == NULL || parameter == NULL)
        return SPN_EINVAL;
    if (index >= url->count)
        return SPN_EEMPTY;
    *parameter = url->parameters[index];
    return SPN_OK;
}

/* ---- printing ------------------------------------------------------------------------------ */

/* Where text goes: what does not fit is only counted. */
struct sink {
    char *buffer;
    size_t capacity;
    size_t length;
    bool encode;
};

static void put(struct sink *s, char c)
{
    if (s->length + 1 < s->capacity)
        s->buffer[s->length] = c;
    s->length++;
}

/* Letters, digits and .-*_ stay, a blank becomes '+': as forms are encoded. */
static bool stays(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '.' || c == '-' || c == '*' || c == '_';
}

static void put_encoded(struct sink *s, char c)
{
    static const char digits[] = "0123456789ABCDEF";
    const unsigned byte = (unsigned char)c;

    if (stays(c)) {
        put(s, c);
    } else if (c == ' ') {
        put(s, '+');
    } else {
        put(s, '%');
        put(s, digits[byte >> 4]);
        put(s, digits[byte & 15]);
    }
}

static void put_text(struct sink *s, const char *text)
{
    if (text == NULL)
        return;
    for (; *text != '\0'; text++) {
        if (s->encode)
            put_encoded(s, *text);
        else
            put(s, *text);
    }
}

static int64_t finish(struct sink *s)
{
    if (s->capacity != 0)
        s->buffer[s->length < s->capacity ? s->length : s->capacity - 1] = '\0';
    return (int64_t)s->length;
}

/* Whether the end of a host would be read as a port: "::1". */
static bool ends_like_a_port(const char *host)
{
    const char *colon = host != NULL && *host != '[' ? strrchr(host, ':') : NULL;

    return colon != NULL && strchr(colon, '%') == NULL;
}

static void put_address(struct sink *s, const spn_url *url)
{
    char port[16];

    put_text(s, url->host);
    if (url->port > 0 || ends_like_a_port(url->host)) {
        (void)snprintf(port, sizeof port, ":%d", (int)url->port);
        put_text(s, port);
    }
}

static void put_whole(struct sink *s, const spn_url *url, bool user, bool parameters)
{
    if (url->protocol != NULL) {
        put_text(s, url->protocol);
        put_text(s, "://");
    }
    if (user && (url->user != NULL || url->password != NULL)) {
        put_text(s, url->user);
        if (url->password != NULL) {
            put_text(s, ":");
            put_text(s, url->password);
        }
        put_text(s, "@");
    }
    put_address(s, url);
    if (url->path != NULL) {
        put_text(s, "/");
        put_text(s, url->path);
    }
    for (size_t i = 0; parameters && i < url->count; i++) {
        put_text(s, i == 0 ? "?" : "&");
        put_text(s, url->parameters[i].key);
        put_text(s, "=");
        put_text(s, url->parameters[i].value);
    }
}

static void put_service(struct sink *s, const spn_url *url, bool colons)
{
    const char *service = spn_url_get_string(url, NULL, "interface", url->path);
    const char *group = spn_url_get_string(url, NULL, "group", NULL);
    const char *version = spn_url_get_string(url, NULL, "version", NULL);

    if (service == NULL)
        return;
    if (!colons && group != NULL) {
        put_text(s, group);
        put_text(s, "/");
    }
    put_text(s, service);
    if (colons || version != NULL)
        put_text(s, ":");
    put_text(s, version);
    if (colons) {
        put_text(s, ":");
        put_text(s, group);
    }
}

int64_t spn_url_print(const spn_url *url, spn_url_form form, char *buffer,
                      size_t capacity)
{
    struct sink s = { buffer, capacity, 0, form == SPN_URL_ENCODED };

    if (url == NULL || (buffer == NULL && capacity != 0))
        return SPN_EINVAL;
    switch ((int)form) {
    case SPN_URL_STRING:
        put_whole(&s, url, false, true);
        break;
    case SPN_URL_FULL:
    case SPN_URL_ENCODED:
        put_whole(&s, url, true, true);
        break;
    case SPN_URL_IDENTITY:
        put_whole(&s, url, false, false);
        break;
    case SPN_URL_ADDRESS:
        put_address(&s, url);
        break;
    case SPN_URL_SERVICE_KEY:
    case SPN_URL_COLON_KEY:
        put_service(&s, url, form == SPN_URL_COLON_KEY);
        break;
    default:
        return SPN_EINVAL;
    }
    return finish(&s);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The byte of an escape, or -1. */
static int escaped_byte(const char *text)
{
    const int high = hex_digit(text[1]);
    const int low = high < 0 ? -1 : hex_digit(text[2]);

    return low < 0 || high * 16 + low == 0 ? -1 : high * 16 + low;
}

int64_t spn__url_decode(const char *text, char *buffer, size_t capacity)
{
    struct sink s = { buffer, capacity, 0, false };

    for (const char *at = text; *at != '\0'; at++)
        if (*at == '%' && escaped_byte(at) < 0)
            return SPN_EINVAL; /* before anything is written */
    for (; *text != '\0'; text++) {
        if (*text == '%') {
            put(&s, (char)escaped_byte(text));
            text += 2;
        } else {
            put(&s, (char)(*text == '+' ? ' ' : *text));
        }
    }
    return finish(&s);
}

/* ---- comparing ------------------------------------------------------------------------------ */

static bool same(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

int spn_url_equals(const spn_url *a, const spn_url *b)
{
    if (a == b)
        return 1;
    if (a == NULL || b == NULL || a->port != b->port || a->count != b->count ||
        !same(a->protocol, b->protocol) || !same(a->user, b->user) ||
        !same(a->password, b->password) || !same(a->host, b->host) ||
        !same(a->path, b->path))
        return 0;
    for (size_t i = 0; i < a->count; i++)
        if (strcmp(a->parameters[i].key, b->parameters[i].key) != 0 ||
            strcmp(a->parameters[i].value, b->parameters[i].value) != 0)
            return 0;
    return 1;
}

/* FNV-1a; the zero byte parts one piece from the next. */
static uint64_t mix(uint64_t hash, const char *text)
{
    for (; text != NULL && *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash * UINT64_C(0x100000001b3);
}

uint64_t spn_url_hash(const spn_url *url)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    if (url == NULL)
        return 0;
    hash = mix(hash, url->protocol);
    hash = mix(hash, url->user);
    hash = mix(hash, url->password);
    hash = mix(hash, url->host);
    hash = mix(hash ^ (uint64_t)url->port, url->path);
    for (size_t i = 0; i < url->count; i++)
        hash = mix(mix(hash, url->parameters[i].key), url->parameters[i].value);
    return hash;
}

/* ---- changing -------------------------------------------------------------------------------- */

static struct spn__span either(const char *part, const char *base)
{
    return spn__span_of(part != NULL ? part : base);
}

/* Takes over the parameters of a URL, but for those of `parts`, which come after. */
static int collect(struct spn__url_draft *draft, const spn_url_parts *parts)
{
    const spn_url *base = parts->base;
    int rc = SPN_OK;

    for (size_t i = 0; base != NULL && i < base->count && rc == SPN_OK; i++) {
        const spn_url_parameter *p = &base->parameters[i];
        bool replaced = false;

        for (size_t j = 0; j < parts->parameter_count && !replaced; j++)
            replaced = strcmp(parts->parameters[j].key, p->key) == 0;
        if (!replaced)
            rc = spn__url_add(draft, spn__span_of(p->key), spn__span_of(p->value));
    }
    for (size_t i = 0; i < parts->parameter_count && rc == SPN_OK; i++) {
        const spn_url_parameter *p = &parts->parameters[i];
        bool last = true; /* of those with this key */

        for (size_t j = i + 1; j < parts->parameter_count && last; j++)
            last = strcmp(parts->parameters[j].key, p->key) != 0;
        if (last && p->value != NULL)
            rc = spn__url_add(draft, spn__span_of(p->key), spn__span_of(p->value));
    }
    return rc;
}

static bool is_text(const char *text, const char *excluded)
{
    for (; *text != '\0'; text++)
        if (!spn__url_is_text(*text) || strchr(excluded, *text) != NULL)
            return false;
    return true;
}

static bool is_parameter(const char *key, const char *value)
{
    return key != NULL && *key != '\0' && is_text(key, "&;=") &&
           (value == NULL || is_text(value, "&;"));
}

/* Whether the full form is read as the same URL. */
static int read_back(const spn_url *url, spn_problem *problem)
{
    const int64_t length = spn_url_print(url, SPN_URL_FULL, NULL, 0);
    char *text = spn__alloc((size_t)length + 1);
    spn_url *again;
    int rc;

    if (text == NULL)
        return SPN_ENOMEM;
    (void)spn_url_print(url, SPN_URL_FULL, text, (size_t)length + 1);
    rc = spn__url_read(&again, text, (size_t)length, problem);
    if (rc == SPN_OK && spn_url_equals(url, again) == 0)
        rc = spn__refuse(problem, SPN_EINVAL, 0,
                         "these parts make '%.200s', which means something else", text);
    spn_url_unref(again);
    spn__free(text);
    return rc;
}

static int make(spn_url **out, const spn_url_parts *parts, spn_problem *problem)
{
    const spn_url *base = parts->base;
    struct spn__url_draft draft = { .count = 0 };
    int rc = collect(&draft, parts);

    if (rc != SPN_OK) {
        spn__url_drop_draft(&draft);
        return rc == SPN_ERANGE
                   ? spn__refuse(problem, rc, 0, "there are more than %d parameters",
                                 SPN_URL_PARAMETERS_MAX)
                   : rc;
    }
    draft.protocol = either(parts->protocol, spn_url_protocol(base));
    draft.user = either(parts->user, spn_url_user(base));
    draft.password = either(parts->password, spn_url_password(base));
    draft.host = either(parts->host, spn_url_host(base));
    draft.path = either(parts->path, spn_url_path(base));
    while (draft.path.length != 0 && *draft.path.text == '/') {
        draft.path.text++;
        draft.path.length--;
    }
    draft.port = parts->port != SPN_DEFAULT ? parts->port : spn_url_port(base);
    rc = spn__url_build(out, &draft);
    if (rc == SPN_EINVAL)
        (void)spn__refuse(problem, rc, 0, "there is nothing in the URL");
    if (rc == SPN_ERANGE)
        (void)spn__refuse(problem, rc, 0, "in full it has more than %d bytes",
                          SPN_URL_TEXT_MAX);
    return rc;
}

int spn_url_create(spn_url **out, const spn_url_parts *parts, spn_problem *problem)
{
    spn_url_parts p;
    int rc;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (parts == NULL)
        return spn__refuse(problem, SPN_EINVAL, 0, "there are no parts");
    rc = spn__options_copy(&p, sizeof p, parts);
    if (rc != SPN_OK || p.reserved != 0 ||
        (p.parameters == NULL && p.parameter_count != 0))
        return spn__refuse(problem, SPN_EINVAL, 0, "the parts are not filled in right");
    if (p.port != SPN_DEFAULT && (p.port < 0 || p.port > 65535))
        return spn__refuse(problem, SPN_EINVAL, 0, "a port is 0 to 65535");
    if (p.parameter_count > SPN_URL_PARAMETERS_MAX)
        return spn__refuse(problem, SPN_ERANGE, 0, "there are more than %d parameters",
                           SPN_URL_PARAMETERS_MAX);
    for (size_t i = 0; i < p.parameter_count; i++)
        if (!is_parameter(p.parameters[i].key, p.parameters[i].value))
            return spn__refuse(problem, SPN_EINVAL, 0,
                               "parameter %zu has no key, or a character that wants "
                               "encoding",
                               i);
    rc = make(out, &p, problem);
    if (rc == SPN_OK)
        rc = read_back(*out, problem);
    if (rc != SPN_OK) {
        spn_url_unref(*out);
        *out = NULL;
    }
    return rc;
}

int spn_url_set(const spn_url *url, const char *key, const char *value, spn_url **out)
{
    const spn_url_parameter parameter = { key, value };
    spn_url_parts parts = SPN_URL_PARTS_INIT;
    int rc;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (url == NULL || !is_parameter(key, value))
        return SPN_EINVAL;
    if (same(value, spn_url_get(url, NULL, key))) {
        *out = spn_url_ref(url);
        return SPN_OK;
    }
    parts.base = url;
    parts.parameters = &parameter;
    parts.parameter_count = 1;
    rc = make(out, &parts, NULL);
    if (rc == SPN_OK && spn_url_equals(*out, url) != 0) {
        /* What was removed has its default back. */
        spn_url_unref(*out);
        *out = spn_url_ref(url);
    }
    return rc;
}

int spn_url_set_absent(const spn_url *url, const char *key, const char *value,
                       spn_url **out)
{
    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (url == NULL || value == NULL || !is_parameter(key, value))
        return SPN_EINVAL;
    if (not_empty(spn_url_get(url, NULL, key)) == NULL)
        return spn_url_set(url, key, value, out);
    *out = spn_url_ref(url);
    return SPN_OK;
}

/* The index-th of a list "a, b": commas part, blanks around them do not count. */
static struct spn__span list_item(const char *list, size_t index)
{
    struct spn__span item = { NULL, 0 };

    while (list != NULL && *list != '\0') {
        const size_t length = strcspn(list, ","), skipped = strspn(list, " ");

        if (length > skipped && index-- == 0) {
            item.text = list + skipped;
            item.length = length - skipped;
            while (item.length != 0 && item.text[item.length - 1] == ' ')
                item.length--;
            return item;
        }
        list += length + (list[length] == ',');
    }
    return item;
}

int spn_url_backup(const spn_url *url, size_t index, spn_url **out)
{
    struct spn__span address;
    spn_url_parts parts = SPN_URL_PARTS_INIT;
    spn_url *other;
    int rc;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (url == NULL)
        return SPN_EINVAL;
    if (index == 0) {
        *out = spn_url_ref(url);
        return SPN_OK;
    }
    address = list_item(spn_url_get(url, NULL, "backup"), index - 1);
    if (address.text == NULL)
        return SPN_EEMPTY;
    rc = spn__url_read(&other, address.text, address.length, NULL);
    if (rc != SPN_OK)
        return rc;
    if (other->host == NULL || other->protocol != NULL || other->path != NULL) {
        spn_url_unref(other);
        return SPN_EINVAL; /* more than an address, or less */
    }
    parts.base = url;
    parts.host = other->host;
    parts.port = other->port != 0 ? other->port : SPN_DEFAULT;
    rc = spn_url_create(out, &parts, NULL);
    spn_url_unref(other);
    return rc;
}
