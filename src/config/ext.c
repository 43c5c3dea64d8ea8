/* SPDX-License-Identifier: MIT */
/*
 * ext.c - the registry of extensions, and how an instance comes to be.
 *
 * OVERVIEW
 *   Two lists under one lock: kinds and entries.  What is built in is a constant table
 *   (ext_builtin.c), copied into each registry: no constructor runs before main, nothing
 *   depends on the order of linking, and there is no process-wide registry.  Without a
 *   registry the table itself is asked.
 *
 * STATE of an entry, under the lock
 *   IDLE --first get--> MAKING --create succeeded--> READY (until destroy)
 *                          \--create failed--> IDLE, and the next get tries again
 *   The thread that moved it to MAKING runs create with no lock held; others wait.
 *
 * DEADLOCK
 *   create may ask for other extensions.  While a maker waits for another's making, all it
 *   is making itself say so (`awaited`), so a chain of them can be followed under the lock;
 *   one that leads back to the asking thread is refused before anybody sleeps.
 *
 * WRAPPERS are chosen when the instance is made, from those registered by then: highest
 *   order innermost.  They are marked as used, so that they stay.
 *
 * LOCKS  `lock` is a leaf; functions of extensions run with no lock held.
 */
#include "config/ext.h"

#include <string.h>

#include "base/assert.h"
#include "base/options.h"
#include "config/problem.h"
#include "sync/thread_record.h"

_Static_assert(sizeof(spn_extensions_opts) == 3 * sizeof(void *),
               "append only, no holes");
_Static_assert(sizeof(spn_extension_kind) == 4 * sizeof(void *),
               "append only, no holes");
_Static_assert(sizeof(spn_extension) == 14 * sizeof(void *), "append only, no holes");

/* ---- names and lists -------------------------------------------------------------------- */

bool spn__is_name(const char *name)
{
    size_t length = 0;

    if (name == NULL)
        return false;
    for (; name[length] != '\0'; length++) {
        const char c = name[length];

        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
              c == '-') ||
            length == SPN__NAME_MAX)
            return false;
    }
    return length != 0;
}

struct spn__span spn__list_next(const char **list)
{
    struct spn__span item = { NULL, 0 };

    while (*list != NULL && **list != '\0') {
        size_t length = strcspn(*list, ",");
        const char *at = *list;

        *list += length + (at[length] == ',');
        while (length != 0 && *at == ' ') {
            at++;
            length--;
        }
        while (length != 0 && at[length - 1] == ' ')
            length--;
        if (length != 0) {
            item.text = at;
            item.length = length;
            break;
        }
    }
    return item;
}

bool spn__list_has(const char *list, const char *item, size_t length)
{
    struct spn__span found;

    while ((found = spn__list_next(&list)).text != NULL)
        if (found.length == length && memcmp(found.text, item, length) == 0)
            return true;
    return false;
}

/* ---- kinds ------------------------------------------------------------------------------- */

const spn_extension_kind *spn__kind_find(spn_extensions *x, const char *name)
{
    struct spn__list_node *node;

    if (name == NULL)
        return NULL;
    for (size_t i = 0; x == NULL && i < spn__builtin_kind_count; i++)
        if (strcmp(spn__builtin_kinds[i].name, name) == 0)
            return &spn__builtin_kinds[i];
    if (x == NULL)
        return NULL;
    spn__list_each (node, &x->kinds) {
        const struct spn__kind *kind = spn__list_entry(node, struct spn__kind, link);

        if (strcmp(kind->kind.name, name) == 0)
            return &kind->kind;
    }
    return NULL;
}

int spn__kind_make(struct spn__kind **out, const spn_extension_kind *kind,
                   spn_problem *problem)
{
    spn_extension_kind k;

    *out = NULL;
    if (kind == NULL || spn__options_copy(&k, sizeof k, kind) != SPN_OK)
        return spn__refuse(problem, SPN_EINVAL, 0, "the kind is not filled in right");
    if (!spn__is_name(k.name))
        return spn__refuse(problem, SPN_EINVAL, 0, "'%s' is no name for a kind",
                           k.name != NULL ? k.name : "");
    if (k.default_name != NULL && !spn__is_name(k.default_name))
        return spn__refuse(problem, SPN_EINVAL, 0, "'%s' is no name for an extension",
                           k.default_name);
    *out = spn__alloc(sizeof **out);
    if (*out == NULL)
        return SPN_ENOMEM;
    spn__list_node_init(&(*out)->link);
    (*out)->kind = k;
    return SPN_OK;
}

int spn_extensions_define(spn_extensions *x, const spn_extension_kind *kind,
                          spn_problem *problem)
{
    struct spn__kind *made;
    bool taken;
    int rc;

    if (x == NULL)
        return SPN_EINVAL;
    rc = spn__kind_make(&made, kind, problem);
    if (rc != SPN_OK)
        return rc;
    spn__lock(&x->lock);
    taken = spn__kind_find(x, made->kind.name) != NULL;
    if (!taken)
        spn__list_push_back(&x->kinds, &made->link);
    spn__unlock(&x->lock);
    if (!taken)
        return SPN_OK;
    rc = spn__refuse(problem, SPN_EBUSY, 0, "there is a kind '%s' already",
                     made->kind.name);
    spn__free(made);
    return rc;
}

/* ---- entries ------------------------------------------------------------------------------- */

int spn__ext_entry_make(struct spn__ext_entry **out, const spn_extension *extension,
                        const char *origin, spn_problem *problem)
{
    const uint32_t flags =
        SPN_EXTENSION_WRAPPER | SPN_EXTENSION_ACTIVATE | SPN_EXTENSION_REPLACE;
    spn_extension e;

    *out = NULL;
    if (extension == NULL || spn__options_copy(&e, sizeof e, extension) != SPN_OK)
        return spn__refuse(problem, SPN_EINVAL, 0,
                           "the extension is not filled in right");
    if (!spn__is_name(e.name))
        return spn__refuse(problem, SPN_EINVAL, 0, "'%s' is no name for an extension",
                           e.name != NULL ? e.name : "");
    if ((e.flags & ~flags) != 0)
        return spn__refuse(problem, SPN_EINVAL, 0, "'%s' has flags there are not",
                           e.name);
    if ((e.instance == NULL) == (e.create == NULL) ||
        ((e.flags & SPN_EXTENSION_WRAPPER) != 0 && e.create == NULL))
        return spn__refuse(problem, SPN_EINVAL, 0,
                           "'%s' needs an instance or a create function, and a wrapper "
                           "the latter",
                           e.name);
    *out = spn__alloc(sizeof **out);
    if (*out == NULL)
        return SPN_ENOMEM;
    memset(*out, 0, sizeof **out);
    spn__list_node_init(&(*out)->link);
    spn__list_node_init(&(*out)->made);
    (*out)->extension = e;
    (*out)->origin = origin;
    return SPN_OK;
}

static bool is_wrapper(const struct spn__ext_entry *entry)
{
    return (entry->extension.flags & SPN_EXTENSION_WRAPPER) != 0;
}

/* The newest of that name; the lock is held.  Wrappers have names of their own. */
static struct spn__ext_entry *find(spn_extensions *x, const char *kind,
                                   const char *name, bool wrapper)
{
    struct spn__list_node *node;

    spn__list_each (node, &x->entries) {
        struct spn__ext_entry *entry =
            spn__list_entry(node, struct spn__ext_entry, link);

        if (is_wrapper(entry) == wrapper && strcmp(entry->extension.name, name) == 0 &&
            strcmp(entry->extension.kind, kind) == 0)
            return entry;
    }
    return NULL;
}

int spn__ext_entry_check(spn_extensions *x, const struct spn__ext_entry *entry,
                         spn_problem *problem)
{
    const spn_extension *e = &entry->extension;

    if (e->kind == NULL || spn__kind_find(x, e->kind) == NULL)
        return spn__refuse(problem, SPN_EINVAL, 0,
                           "'%s' is of a kind '%s' there is not", e->name,
                           e->kind != NULL ? e->kind : "");
    if ((e->flags & SPN_EXTENSION_REPLACE) == 0 &&
        find(x, e->kind, e->name, is_wrapper(entry)) != NULL)
        return spn__refuse(problem, SPN_EBUSY, 0, "there is a %s '%s' already", e->kind,
                           e->name);
    return SPN_OK;
}

int spn_extensions_register(spn_extensions *x, const spn_extension *extension,
                            spn_problem *problem)
{
    struct spn__ext_entry *entry;
    int rc;

    if (x == NULL)
        return SPN_EINVAL;
    rc = spn__ext_entry_make(&entry, extension, "registered", problem);
    if (rc != SPN_OK)
        return rc;
    entry->registered = true;
    spn__lock(&x->lock);
    rc = spn__ext_entry_check(x, entry, problem);
    if (rc == SPN_OK)
        spn__list_push_front(&x->entries, &entry->link);
    spn__unlock(&x->lock);
    if (rc != SPN_OK)
        spn__free(entry);
    return rc;
}

/* With the lock held.  A maker that waited for it may not have run since it failed, and
 * still say so. */
static void take_out(spn_extensions *x, struct spn__ext_entry *entry)
{
    struct spn__list_node *node;

    spn__list_remove(&entry->link);
    spn__list_each (node, &x->entries) {
        struct spn__ext_entry *e = spn__list_entry(node, struct spn__ext_entry, link);

        if (e->awaited == entry)
            e->awaited = NULL;
    }
}

int spn_extensions_unregister(spn_extensions *x, const char *kind, const char *name)
{
    struct spn__ext_entry *entry;
    int rc = SPN_OK;

    if (x == NULL || kind == NULL || name == NULL)
        return SPN_EINVAL;
    spn__lock(&x->lock);
    entry = find(x, kind, name, false);
    if (entry == NULL)
        entry = find(x, kind, name, true);
    if (entry == NULL || !entry->registered)
        rc = SPN_EEMPTY;
    else if (entry->used || entry->state != SPN__EXT_IDLE)
        rc = SPN_EBUSY;
    else
        take_out(x, entry);
    spn__unlock(&x->lock);
    if (rc == SPN_OK)
        spn__free(entry);
    return rc;
}

/* ---- making an instance -------------------------------------------------------------------- */

static bool goes_around(const struct spn__ext_entry *wrapper, const spn_extension *e)
{
    const size_t length = strlen(e->name);

    return is_wrapper(wrapper) && strcmp(wrapper->extension.kind, e->kind) == 0 &&
           (wrapper->extension.only == NULL || *wrapper->extension.only == '\0' ||
            spn__list_has(wrapper->extension.only, e->name, length)) &&
           !spn__list_has(wrapper->extension.except, e->name, length);
}

/* With the lock held: how many wrappers it will have; `into`, if there is room for them:
 * which, from the inside out, that is by falling order and of equal ones the older. */
static size_t choose_wrappers(spn_extensions *x, const spn_extension *e,
                              struct spn__wrapping *into)
{
    struct spn__list_node *node;
    size_t count = 0;

    spn__list_each (node, &x->entries) {
        struct spn__ext_entry *w = spn__list_entry(node, struct spn__ext_entry, link);
        size_t at = count;

        if (!goes_around(w, e) ||
            find(x, w->extension.kind, w->extension.name, true) != w)
            continue; /* another's, or replaced */
        count++;
        if (into == NULL)
            continue;
        for (; at > 0 && into[at - 1].by->order <= w->extension.order; at--)
            into[at] = into[at - 1];
        into[at] = (struct spn__wrapping){ &w->extension, NULL };
        w->used = true;
    }
    return count;
}

/* Takes the wrappers off, from the outside in, and then the instance itself. */
static void unmake(struct spn__ext_entry *entry)
{
    const spn_extension *e = &entry->extension;

    while (entry->wrapped_count > 0) {
        const struct spn__wrapping *w = &entry->wrapped[--entry->wrapped_count];

        if (w->by->destroy != NULL)
            w->by->destroy(w->by, w->instance);
    }
    spn__free(entry->wrapped);
    entry->wrapped = NULL;
    if (e->create != NULL && e->destroy != NULL)
        e->destroy(e, entry->core);
}

/* A create that says it succeeded and made nothing has failed. */
static int run_create(const spn_extension *e, const void *inner, const void **out,
                      spn_problem *problem)
{
    int rc;

    *out = NULL;
    rc = e->create(e, inner, out);
    if (rc == SPN_OK && *out == NULL)
        rc = SPN_EFAILED;
    if (rc != SPN_OK)
        return spn__refuse(problem, rc, 0, "%s '%s' could not be made: %s", e->kind,
                           e->name, spn_status_text(rc));
    return SPN_OK;
}

/* By the maker, with no lock held; `count` wrappers have been chosen. */
static int make(struct spn__ext_entry *entry, size_t count, spn_problem *problem)
{
    const spn_extension *e = &entry->extension;
    int rc = SPN_OK;

    entry->wrapped_count = 0;
    if (e->create != NULL)
        rc = run_create(e, NULL, &entry->core, problem);
    else
        entry->core = e->instance;
    if (rc != SPN_OK) {
        spn__free(entry->wrapped);
        entry->wrapped = NULL;
        return rc;
    }
    entry->instance = entry->core;
    while (entry->wrapped_count < count) {
        struct spn__wrapping *w = &entry->wrapped[entry->wrapped_count];

        rc = run_create(w->by, entry->instance, &w->instance, problem);
        if (rc != SPN_OK) {
            unmake(entry);
            return rc;
        }
        entry->instance = w->instance;
        entry->wrapped_count++;
    }
    return SPN_OK;
}

/* With the lock held: chooses the wrappers, for which memory may have to be asked for
 * without it.  False: out of memory. */
static bool prepare(spn_extensions *x, struct spn__ext_entry *entry, size_t *count)
{
    size_t room = 0;

    for (;;) {
        *count = choose_wrappers(x, &entry->extension, NULL);
        if (*count <= room)
            break;
        room = *count;
        spn__unlock(&x->lock);
        spn__free(entry->wrapped);
        entry->wrapped = spn__alloc(room * sizeof *entry->wrapped);
        spn__lock(&x->lock);
        if (entry->wrapped == NULL)
            return false;
    }
    if (*count != 0)
        (void)choose_wrappers(x, &entry->extension, entry->wrapped);
    return true;
}

/* With the lock held, which it releases. */
static int become_maker(spn_extensions *x, struct spn__ext_entry *entry,
                        struct spn_thread *self, const void **out, spn_problem *problem)
{
    struct spn__chosen chosen = { NULL, NULL };
    size_t count;
    int rc;

    entry->state = SPN__EXT_MAKING;
    entry->maker = self;
    rc = prepare(x, entry, &count) ? SPN_OK : SPN_ENOMEM;
    spn__unlock(&x->lock);
    if (rc == SPN_OK)
        rc = make(entry, count, problem);
    spn__lock(&x->lock);
    entry->maker = NULL;
    entry->state = rc == SPN_OK ? SPN__EXT_READY : SPN__EXT_IDLE;
    if (rc == SPN_OK) {
        entry->used = true;
        *out = entry->instance;
        spn__list_push_front(&x->made, &entry->made);
    }
    spn__waitq_choose_all(&x->waiting, &chosen);
    spn__unlock(&x->lock);
    spn__chosen_grant(&chosen);
    return rc;
}

/* Marks what `self` is making as waiting for `entry`, or as not waiting (NULL). */
static void mark_awaited(spn_extensions *x, const struct spn_thread *self,
                         struct spn__ext_entry *entry)
{
    struct spn__list_node *node;

    spn__list_each (node, &x->entries) {
        struct spn__ext_entry *e = spn__list_entry(node, struct spn__ext_entry, link);

        if (e->state == SPN__EXT_MAKING && e->maker == self)
            e->awaited = entry;
    }
}

static bool leads_back(const struct spn__ext_entry *entry,
                       const struct spn_thread *self)
{
    for (; entry != NULL && entry->state == SPN__EXT_MAKING; entry = entry->awaited)
        if (entry->maker == self)
            return true;
    return false;
}

/* With the lock held, which it releases: waits until something was made. */
static int wait_for_maker(spn_extensions *x, struct spn__ext_entry *entry,
                          struct spn_thread *self, spn_problem *problem)
{
    struct spn__waiter w;

    if (leads_back(entry, self)) {
        const char *kind = entry->extension.kind, *name = entry->extension.name;

        spn__unlock(&x->lock);
        return spn__refuse(problem, SPN_EDEADLK, 0,
                           "%s '%s' is asked for by what it is being made for", kind,
                           name);
    }
    mark_awaited(x, self, entry);
    spn__waitq_add(&x->waiting, &w, self);
    spn__unlock(&x->lock);
    spn__waitq_sleep(&w);
    spn__lock(&x->lock);
    mark_awaited(x, self, NULL);
    spn__unlock(&x->lock);
    return SPN_OK;
}

/* All names of a kind into a sentence. */
static int say_unknown(spn_extensions *x, const char *kind, const char *name,
                       spn_problem *problem);

/* Gives out the instance of an entry that is there.  SPN_EEMPTY: it is not. */
static int get_known(spn_extensions *x, const char *kind, const char *name,
                     const void **out, spn_problem *problem)
{
    for (;;) {
        struct spn_thread *self = NULL;
        struct spn__ext_entry *entry;
        int rc;

        spn__lock(&x->lock);
        entry = find(x, kind, name, false);
        if (entry != NULL && entry->state == SPN__EXT_READY)
            *out = entry->instance;
        if (entry == NULL || *out != NULL) {
            spn__unlock(&x->lock);
            return *out != NULL ? SPN_OK : SPN_EEMPTY;
        }
        spn__unlock(&x->lock);
        self = spn__thread_self(); /* may ask for memory: not with the lock held */
        if (self == NULL)
            return SPN_ENOMEM;
        spn__lock(&x->lock);
        entry = find(x, kind, name, false); /* things may have changed */
        if (entry != NULL && entry->state == SPN__EXT_IDLE)
            return become_maker(x, entry, self, out, problem);
        if (entry != NULL && entry->state == SPN__EXT_MAKING) {
            rc = wait_for_maker(x, entry, self, problem);
            if (rc != SPN_OK)
                return rc;
        } else {
            spn__unlock(&x->lock);
        }
    }
}

static int get_builtin(const char *kind, const char *name, const void **out)
{
    for (size_t i = 0; i < spn__builtin_extension_count; i++) {
        const spn_extension *e = &spn__builtin_extensions[i];

        if (strcmp(e->kind, kind) == 0 && strcmp(e->name, name) == 0) {
            *out = e->instance;
            return SPN_OK;
        }
    }
    return SPN_EEMPTY;
}

int spn_extensions_get(spn_extensions *x, const char *kind, const char *name,
                       const void **out, spn_problem *problem)
{
    const spn_extension_kind *k;
    int rc;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (x != NULL)
        spn__lock(&x->lock);
    k = spn__kind_find(x, kind); /* stays, once it is there */
    if (x != NULL)
        spn__unlock(&x->lock);
    if (k == NULL)
        return spn__refuse(problem, SPN_EINVAL, 0, "there is no kind '%s'",
                           kind != NULL ? kind : "");
    if (name == NULL || *name == '\0' || strcmp(name, "true") == 0)
        name = k->default_name;
    if (name == NULL)
        return spn__refuse(problem, SPN_EEMPTY, 0,
                           "no %s is named, and there is no default", kind);
    if (!spn__is_name(name))
        return spn__refuse(problem, SPN_EINVAL, 0, "'%.80s' is no name for a %s", name,
                           kind);
    rc = x == NULL ? get_builtin(kind, name, out)
                   : get_known(x, kind, name, out, problem);
    if (rc == SPN_EEMPTY && x != NULL && *out == NULL) {
        rc = spn__extensions_find_file(x, kind, name, problem);
        if (rc == SPN_OK)
            rc = get_known(x, kind, name, out, problem);
    }
    return rc == SPN_EEMPTY ? say_unknown(x, kind, name, problem) : rc;
}

static void add_name(void *ctx, const spn_extension *e, const char *origin)
{
    struct spn__names *names = ctx;
    const size_t length = strlen(e->name);

    (void)origin;
    if ((e->flags & SPN_EXTENSION_WRAPPER) != 0 ||
        names->length + length + 3 > sizeof names->text)
        return;
    if (names->length != 0) {
        memcpy(names->text + names->length, ", ", 2);
        names->length += 2;
    }
    memcpy(names->text + names->length, e->name, length + 1);
    names->length += length;
}

const char *spn__extensions_names(spn_extensions *x, const char *kind,
                                  struct spn__names *names)
{
    names->length = 0;
    (void)spn_extensions_each(x, kind, add_name, names);
    return names->length != 0 ? names->text : "none";
}

static int say_unknown(spn_extensions *x, const char *kind, const char *name,
                       spn_problem *problem)
{
    struct spn__names names;

    return spn__refuse(problem, SPN_EEMPTY, 0, "there is no %s '%s'; there are: %s",
                       kind, name, spn__extensions_names(x, kind, &names));
}

/* ---- the registry ------------------------------------------------------------------------- */

void spn__extensions_hold(spn_extensions *x)
{
    if (x == NULL)
        return;
    spn__lock(&x->lock);
    x->users++;
    spn__unlock(&x->lock);
}

void spn__extensions_release(spn_extensions *x)
{
    if (x == NULL)
        return;
    spn__lock(&x->lock);
    x->users--;
    spn__unlock(&x->lock);
}

static void free_all(spn_extensions *x)
{
    struct spn__list_node *node, *following;

    spn__list_each (node, &x->made)
        unmake(spn__list_entry(node, struct spn__ext_entry, made));
    spn__list_each_safe (node, following, &x->entries)
        spn__free(spn__list_entry(node, struct spn__ext_entry, link));
    spn__list_each_safe (node, following, &x->kinds)
        spn__free(spn__list_entry(node, struct spn__kind, link));
    spn__objects_close(x); /* after the last of their functions has run */
    for (size_t i = 0; i < x->directory_count; i++)
        spn__free(x->directories[i]);
    spn__free(x->directories);
    spn__free(x);
}

static int copy_directories(spn_extensions *x, const spn_extensions_opts *o)
{
    if (o->directory_count == 0)
        return SPN_OK;
    x->directories = spn__alloc(o->directory_count * sizeof *x->directories);
    if (x->directories == NULL)
        return SPN_ENOMEM;
    for (; x->directory_count < o->directory_count; x->directory_count++) {
        const char *from = o->directories[x->directory_count];
        char *to;

        if (from == NULL || *from == '\0')
            return SPN_EINVAL;
        to = spn__alloc(strlen(from) + 1);
        if (to == NULL)
            return SPN_ENOMEM;
        memcpy(to, from, strlen(from) + 1);
        x->directories[x->directory_count] = to;
    }
    return SPN_OK;
}

/* The table's first is found first, as it was written last. */
static int add_builtin(spn_extensions *x)
{
    int rc = SPN_OK;

    for (size_t i = 0; i < spn__builtin_kind_count && rc == SPN_OK; i++) {
        struct spn__kind *kind = NULL;

        rc = spn__kind_make(&kind, &spn__builtin_kinds[i], NULL);
        if (kind != NULL)
            spn__list_push_back(&x->kinds, &kind->link);
    }
    for (size_t i = 0; i < spn__builtin_extension_count && rc == SPN_OK; i++) {
        struct spn__ext_entry *entry = NULL;

        rc = spn__ext_entry_make(&entry, &spn__builtin_extensions[i], "built in", NULL);
        if (entry != NULL)
            spn__list_push_back(&x->entries, &entry->link);
    }
    return rc;
}

int spn_extensions_create(spn_extensions **out, const spn_extensions_opts *opts)
{
    spn_extensions_opts o = SPN_EXTENSIONS_OPTS_INIT;
    spn_extensions *x;
    int rc;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (opts != NULL && spn__options_copy(&o, sizeof o, opts) != SPN_OK)
        return SPN_EINVAL;
    if (o.directory_count > 64 || (o.directories == NULL && o.directory_count != 0))
        return SPN_EINVAL;
    x = spn__alloc(sizeof *x);
    if (x == NULL)
        return SPN_ENOMEM;
    memset(x, 0, sizeof *x);
    spn__lock_init(&x->lock);
    spn__list_init(&x->kinds);
    spn__list_init(&x->entries);
    spn__list_init(&x->made);
    spn__list_init(&x->objects);
    spn__waitq_init(&x->waiting);
    rc = copy_directories(x, &o);
    if (rc == SPN_OK)
        rc = add_builtin(x);
    if (rc != SPN_OK) {
        free_all(x);
        return rc;
    }
    *out = x;
    return SPN_OK;
}

int spn_extensions_destroy(spn_extensions *x)
{
    struct spn__list_node *node;
    bool busy;

    if (x == NULL)
        return SPN_OK;
    spn__lock(&x->lock);
    busy = x->users != 0;
    spn__list_each (node, &x->entries)
        busy = busy || spn__list_entry(node, struct spn__ext_entry, link)->state ==
                           SPN__EXT_MAKING;
    spn__unlock(&x->lock);
    if (busy)
        return SPN_EBUSY;
    free_all(x);
    return SPN_OK;
}
