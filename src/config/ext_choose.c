/* SPDX-License-Identifier: MIT */
/*
 * ext_choose.c - which extensions a URL means: one by its keys, several by activation; and
 * the list of all of them.
 *
 * Each call takes a picture of the entries under the lock, as copies of their structs, and
 * works on that: what is in the strings outlives the registry's own lists, and functions of
 * the program run with no lock held.
 */
#include <string.h>

#include "config/ext.h"
#include "config/problem.h"

/* ---- pictures ----------------------------------------------------------------------------- */

struct shown {
    spn_extension extension;
    const char *origin;
    bool named; /* activate: by the caller's list */
};

struct picture {
    struct shown *shown;
    size_t count;
};

static bool is_new(const struct picture *p, const spn_extension *e)
{
    const uint32_t wrapper = e->flags & SPN_EXTENSION_WRAPPER;

    for (size_t i = 0; i < p->count; i++)
        if ((p->shown[i].extension.flags & SPN_EXTENSION_WRAPPER) == wrapper &&
            strcmp(p->shown[i].extension.name, e->name) == 0)
            return false; /* replaced by a newer one */
    return true;
}

static void show(struct picture *p, const spn_extension *e, const char *kind,
                 const char *origin)
{
    if (strcmp(e->kind, kind) == 0 && is_new(p, e))
        p->shown[p->count++] = (struct shown){ *e, origin, false };
}

static size_t count_entries(spn_extensions *x)
{
    struct spn__list_node *node;
    size_t count = 0;

    if (x == NULL)
        return spn__builtin_extension_count;
    spn__list_each (node, &x->entries)
        count++;
    return count;
}

/* All of a kind.  SPN_EINVAL: there is no such kind; SPN_ENOMEM. */
static int take_picture(spn_extensions *x, const char *kind, struct picture *p)
{
    struct spn__list_node *node;
    size_t room = 0, needed;
    bool there;

    p->shown = NULL;
    p->count = 0;
    for (;;) {
        if (x != NULL)
            spn__lock(&x->lock);
        there = spn__kind_find(x, kind) != NULL;
        needed = count_entries(x);
        if ((p->shown != NULL && needed <= room) || !there)
            break;
        if (x != NULL)
            spn__unlock(&x->lock);
        spn__free(p->shown);
        p->shown = spn__alloc((needed + 1) * sizeof *p->shown);
        if (p->shown == NULL)
            return SPN_ENOMEM;
        room = needed;
    }
    for (size_t i = 0; there && x == NULL && i < spn__builtin_extension_count; i++)
        show(p, &spn__builtin_extensions[i], kind, "built in");
    if (x != NULL) {
        if (there)
            spn__list_each (node, &x->entries) {
                const struct spn__ext_entry *e =
                    spn__list_entry(node, struct spn__ext_entry, link);

                show(p, &e->extension, kind, e->origin);
            }
        spn__unlock(&x->lock);
    }
    if (there)
        return SPN_OK;
    spn__free(p->shown);
    p->shown = NULL;
    return SPN_EINVAL;
}

/* ---- lists ----------------------------------------------------------------------------------- */

static bool has_name(const char *list, const spn_extension *e)
{
    return spn__list_has(list, e->name, strlen(e->name));
}

static bool by_order(const spn_extension *a, const spn_extension *b)
{
    return a->order != b->order ? a->order < b->order : strcmp(a->name, b->name) < 0;
}

static bool by_name(const spn_extension *a, const spn_extension *b)
{
    return strcmp(a->name, b->name) < 0;
}

static void sort(struct shown *shown, size_t count,
                 bool (*before)(const spn_extension *, const spn_extension *))
{
    for (size_t i = 1; i < count; i++) {
        const struct shown moved = shown[i];
        size_t to = i;

        for (; to > 0 && before(&moved.extension, &shown[to - 1].extension); to--)
            shown[to] = shown[to - 1];
        shown[to] = moved;
    }
}

/* Whether one that comes later in the picture has to stand before the one at `at`. */
static bool must_wait(const struct picture *p, size_t at)
{
    const spn_extension *e = &p->shown[at].extension;

    for (size_t i = 0; i < p->count; i++)
        if (i != at && (has_name(e->after, &p->shown[i].extension) ||
                        has_name(p->shown[i].extension.before, e)))
            return true;
    return false;
}

/* By order and name, but each after those it has to wait for; where they wait for each
 * other in a circle, the first goes. */
static void arrange(struct picture *p)
{
    sort(p->shown, p->count, by_order);
    for (size_t placed = 0; placed < p->count; placed++) {
        struct picture rest = { p->shown + placed, p->count - placed };
        struct shown moved;
        size_t next = 0;

        while (next < rest.count && must_wait(&rest, next))
            next++;
        if (next == rest.count)
            next = 0;
        moved = rest.shown[next];
        memmove(rest.shown + 1, rest.shown, next * sizeof *rest.shown);
        rest.shown[0] = moved;
    }
}

int spn_extensions_each(spn_extensions *x, const char *kind, spn_extension_fn fn,
                        void *ctx)
{
    struct picture p;
    int rc;

    if (kind == NULL || fn == NULL)
        return SPN_EINVAL;
    rc = take_picture(x, kind, &p);
    if (rc != SPN_OK)
        return rc;
    sort(p.shown, p.count, by_name);
    for (size_t i = 0; i < p.count; i++)
        fn(ctx, &p.shown[i].extension, p.shown[i].origin);
    spn__free(p.shown);
    return SPN_OK;
}

/* The kind whose name comes next after `last`; kinds are never taken out. */
static const spn_extension_kind *next_kind(spn_extensions *x, const char *last)
{
    const spn_extension_kind *next = NULL;
    struct spn__list_node *node;

    for (size_t i = 0; x == NULL && i < spn__builtin_kind_count; i++) {
        const spn_extension_kind *k = &spn__builtin_kinds[i];

        if (strcmp(k->name, last) > 0 &&
            (next == NULL || strcmp(k->name, next->name) < 0))
            next = k;
    }
    if (x == NULL)
        return next;
    spn__lock(&x->lock);
    spn__list_each (node, &x->kinds) {
        const spn_extension_kind *k =
            &spn__list_entry(node, struct spn__kind, link)->kind;

        if (strcmp(k->name, last) > 0 &&
            (next == NULL || strcmp(k->name, next->name) < 0))
            next = k;
    }
    spn__unlock(&x->lock);
    return next;
}

int spn_extensions_each_kind(spn_extensions *x, spn_extension_kind_fn fn, void *ctx)
{
    const spn_extension_kind *kind;
    const char *last = "";

    if (fn == NULL)
        return SPN_EINVAL;
    while ((kind = next_kind(x, last)) != NULL) {
        fn(ctx, kind);
        last = kind->name;
    }
    return SPN_OK;
}

/* ---- one, by the keys of its kind ------------------------------------------------------------- */

/* A parameter whose key is a span; the URL's own strings end with a zero byte. */
static const char *parameter(const spn_url *url, struct spn__span key)
{
    for (size_t i = 0; url != NULL && i < url->count; i++)
        if (strncmp(url->parameters[i].key, key.text, key.length) == 0 &&
            url->parameters[i].key[key.length] == '\0')
            return url->parameters[i].value;
    return NULL;
}

/* Whether the URL has the key, as its own or as a method's. */
static const char *parameter_or_method(const spn_url *url, struct spn__span key)
{
    const char *value = parameter(url, key);

    for (size_t i = 0;
         (value == NULL || *value == '\0') && url != NULL && i < url->count; i++) {
        const char *dot = strrchr(url->parameters[i].key, '.');

        if (dot != NULL && strncmp(dot + 1, key.text, key.length) == 0 &&
            dot[1 + key.length] == '\0')
            value = url->parameters[i].value;
    }
    return value;
}

static const char *name_by(const spn_extension_kind *kind, const spn_url *url)
{
    const char *keys = kind->keys != NULL ? kind->keys : kind->name;
    struct spn__span key;

    while ((key = spn__list_next(&keys)).text != NULL) {
        const char *value = key.length == strlen("protocol") &&
                                    memcmp(key.text, "protocol", key.length) == 0
                                ? spn_url_protocol(url)
                                : parameter(url, key);

        if (value != NULL && *value != '\0')
            return value;
    }
    return NULL;
}

int spn_extensions_choose(spn_extensions *x, const char *kind, const spn_url *url,
                          const void **out, spn_problem *problem)
{
    const spn_extension_kind *k;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (url == NULL)
        return spn__refuse(problem, SPN_EINVAL, 0, "there is no URL");
    if (x != NULL)
        spn__lock(&x->lock);
    k = spn__kind_find(x, kind);
    if (x != NULL)
        spn__unlock(&x->lock);
    if (k == NULL)
        return spn__refuse(problem, SPN_EINVAL, 0, "there is no kind '%s'",
                           kind != NULL ? kind : "");
    return spn_extensions_get(x, kind, name_by(k, url), out, problem);
}

/* ---- several, by activation -------------------------------------------------------------------- */

static bool in_group(const spn_extension *e, const char *group)
{
    return group == NULL || *group == '\0' || e->group == NULL || *e->group == '\0' ||
           spn__list_has(e->group, group, strlen(group));
}

static bool has_key(const spn_extension *e, const spn_url *url)
{
    const char *keys = e->keys;
    struct spn__span item;

    if (keys == NULL || *keys == '\0')
        return true;
    while ((item = spn__list_next(&keys)).text != NULL) {
        const char *colon = memchr(item.text, ':', item.length);
        struct spn__span key = item;
        const char *value;

        if (colon != NULL)
            key.length = (size_t)(colon - item.text);
        value = parameter_or_method(url, key);
        if (value == NULL || *value == '\0')
            continue;
        if (colon == NULL)
            return true;
        if (strlen(value) == item.length - key.length - 1 &&
            memcmp(value, colon + 1, strlen(value)) == 0)
            return true;
    }
    return false;
}

/* Whether a list has "-name". */
static bool is_excluded(const char *names, const char *name, size_t length)
{
    struct spn__span item;

    while ((item = spn__list_next(&names)).text != NULL)
        if (item.length == length + 1 && item.text[0] == '-' &&
            memcmp(item.text + 1, name, length) == 0)
            return true;
    return false;
}

/* Leaves those that are found unasked, and those that are named if they are to be sorted
 * in with them. */
static void filter(struct picture *p, const spn_url *url, const char *names,
                   const char *group, bool sort_named_in)
{
    const bool none = is_excluded(names, "default", strlen("default"));
    size_t kept = 0;

    for (size_t i = 0; i < p->count; i++) {
        struct shown s = p->shown[i];
        const spn_extension *e = &s.extension;
        const size_t length = strlen(e->name);
        bool wanted;

        if ((e->flags & SPN_EXTENSION_WRAPPER) != 0 ||
            is_excluded(names, e->name, length))
            continue;
        s.named = spn__list_has(names, e->name, length);
        wanted = s.named ? sort_named_in
                         : (e->flags & SPN_EXTENSION_ACTIVATE) != 0 && !none &&
                               in_group(e, group) && has_key(e, url);
        if (wanted)
            p->shown[kept++] = s;
    }
    p->count = kept;
    arrange(p);
}

struct result {
    const void **instances;
    size_t capacity;
    int64_t count;
};

static int add(spn_extensions *x, const char *kind, struct spn__span name,
               struct result *to, spn_problem *problem)
{
    char text[SPN__NAME_MAX + 1];
    const void *instance;
    int rc;

    if (name.length > SPN__NAME_MAX)
        return spn__refuse(problem, SPN_EINVAL, 0, "'%.80s' is no name for a %s",
                           name.text, kind);
    memcpy(text, name.text, name.length);
    text[name.length] = '\0';
    rc = spn_extensions_get(x, kind, text, &instance, problem);
    if (rc == SPN_OK && (size_t)to->count < to->capacity)
        to->instances[to->count] = instance;
    if (rc == SPN_OK)
        to->count++;
    return rc;
}

static int add_found(spn_extensions *x, const char *kind, const struct picture *p,
                     struct result *to, spn_problem *problem)
{
    int rc = SPN_OK;

    for (size_t i = 0; i < p->count && rc == SPN_OK; i++)
        rc = add(x, kind, spn__span_of(p->shown[i].extension.name), to, problem);
    return rc;
}

static bool is_default(struct spn__span item)
{
    return item.length == strlen("default") &&
           memcmp(item.text, "default", item.length) == 0;
}

/* A name of the list that the picture has not: from a directory, or a mistake. */
static bool is_shown(const struct picture *p, struct spn__span name)
{
    for (size_t i = 0; i < p->count; i++)
        if (strlen(p->shown[i].extension.name) == name.length &&
            memcmp(p->shown[i].extension.name, name.text, name.length) == 0)
            return true;
    return false;
}

int64_t spn_extensions_activate(spn_extensions *x, const char *kind, const spn_url *url,
                                const char *names, const char *group,
                                const void **instances, size_t capacity,
                                spn_problem *problem)
{
    static const char word[] = "default";
    const bool in_place = spn__list_has(names, word, sizeof word - 1);
    struct result to = { instances, capacity, 0 };
    const char *list = names;
    struct spn__span item;
    struct picture p;
    int rc;

    if (kind == NULL || url == NULL || (instances == NULL && capacity != 0))
        return SPN_EINVAL;
    rc = take_picture(x, kind, &p);
    if (rc == SPN_EINVAL)
        return spn__refuse(problem, rc, 0, "there is no kind '%s'", kind);
    if (rc != SPN_OK)
        return rc;
    filter(&p, url, names, group, !in_place);
    if (!in_place)
        rc = add_found(x, kind, &p, &to, problem);
    while (rc == SPN_OK && (item = spn__list_next(&list)).text != NULL) {
        if (item.text[0] == '-' || is_excluded(names, item.text, item.length))
            continue;
        if (is_default(item))
            rc = add_found(x, kind, &p, &to, problem);
        else if (in_place || !is_shown(&p, item))
            rc = add(x, kind, item, &to, problem);
    }
    spn__free(p.shown);
    return rc == SPN_OK ? to.count : rc;
}
