/* SPDX-License-Identifier: MIT */
/*
 * ext_load.c - extensions from shared objects.
 *
 * All or nothing: what an object brings is checked and copied first, then linked under one
 * lock, after a look at every name; whatever goes wrong, the object is closed again and the
 * registry never knew it.  Objects are opened with all symbols resolved, so that one that
 * lacks something fails here and not in the middle of the night, and without showing their
 * own to others.
 *
 * WHERE FROM  a path that the program gives, or a directory that it configured and a file
 *   name made of a kind and a name, whose letters cannot lead elsewhere.  Nothing in a URL
 *   becomes a path.
 *
 * The object's constructors run here with no lock held; two threads that load the same one
 * get the same handle, and the second finds the first's.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/options.h"
#include "config/ext.h"
#include "config/problem.h"

enum { PATH_LENGTH_MAX = 4096, BROUGHT_MAX = 1024 };

/* Copies of what an object brings, not linked yet. */
struct brought {
    struct spn__list kinds, entries;
};

static void drop_brought(struct brought *b)
{
    struct spn__list_node *node;

    while ((node = spn__list_pop_front(&b->entries)) != NULL)
        spn__free(spn__list_entry(node, struct spn__ext_entry, link));
    while ((node = spn__list_pop_front(&b->kinds)) != NULL)
        spn__free(spn__list_entry(node, struct spn__kind, link));
}

static int collect(struct brought *b, const spn_plugin *plugin, const char *origin,
                   spn_problem *problem)
{
    int rc = SPN_OK;

    for (size_t i = 0; i < plugin->kind_count && rc == SPN_OK; i++) {
        struct spn__kind *kind = NULL;

        rc = spn__kind_make(&kind, plugin->kinds[i], problem);
        if (rc == SPN_OK)
            spn__list_push_back(&b->kinds, &kind->link);
    }
    for (size_t i = 0; i < plugin->extension_count && rc == SPN_OK; i++) {
        struct spn__ext_entry *entry = NULL;

        rc = spn__ext_entry_make(&entry, plugin->extensions[i], origin, problem);
        if (rc == SPN_OK)
            spn__list_push_back(&b->entries, &entry->link);
    }
    return rc;
}

/* With the lock held: links everything.  What does not fit takes back what did. */
static int link_all(spn_extensions *x, struct brought *b, spn_problem *problem)
{
    struct spn__list_node *node;
    size_t kinds = 0, entries = 0;
    int rc = SPN_OK;

    while (rc == SPN_OK && (node = spn__list_first(&b->kinds)) != NULL) {
        const struct spn__kind *kind = spn__list_entry(node, struct spn__kind, link);

        if (spn__kind_find(x, kind->kind.name) != NULL) {
            rc = spn__refuse(problem, SPN_EBUSY, 0, "there is a kind '%s' already",
                             kind->kind.name);
            break;
        }
        spn__list_remove(node);
        spn__list_push_front(&x->kinds, node);
        kinds++;
    }
    while (rc == SPN_OK && (node = spn__list_first(&b->entries)) != NULL) {
        rc = spn__ext_entry_check(x, spn__list_entry(node, struct spn__ext_entry, link),
                                  problem);
        if (rc != SPN_OK)
            break;
        spn__list_remove(node);
        spn__list_push_front(&x->entries, node);
        entries++;
    }
    if (rc == SPN_OK)
        return SPN_OK;
    for (; kinds > 0; kinds--)
        spn__list_push_front(&b->kinds, spn__list_pop_front(&x->kinds));
    for (; entries > 0; entries--)
        spn__list_push_front(&b->entries, spn__list_pop_front(&x->entries));
    return rc;
}

static int read_plugin(void *handle, spn_plugin *plugin, spn_problem *problem)
{
    spn_plugin_entry_fn entry;
    const spn_plugin *found;

    *(void **)(void *)&entry = dlsym(handle, SPN_PLUGIN_ENTRY);
    if (entry == NULL)
        return spn__refuse(problem, SPN_EINVAL, 0, "it has no %s", SPN_PLUGIN_ENTRY);
    found = entry();
    if (found == NULL)
        return spn__refuse(problem, SPN_EINVAL, 0, "it refuses to work here");
    /* The ABI before anything else that it might change. */
    if (found->size < offsetof(spn_plugin, version) + sizeof found->version ||
        found->size > SPN__OPTIONS_MAX)
        return spn__refuse(problem, SPN_EINVAL, 0,
                           "its plug-in struct has a wrong size");
    if (found->abi != SPN_PLUGIN_ABI)
        return spn__refuse(problem, SPN_EINVAL, 0,
                           "it is made for plug-in ABI %u, this is %d", found->abi,
                           SPN_PLUGIN_ABI);
    if (spn__options_copy(plugin, sizeof *plugin, found) != SPN_OK ||
        plugin->kind_count > BROUGHT_MAX || plugin->extension_count > BROUGHT_MAX ||
        (plugin->kinds == NULL && plugin->kind_count != 0) ||
        (plugin->extensions == NULL && plugin->extension_count != 0))
        return spn__refuse(problem, SPN_EINVAL, 0, "its plug-in struct is wrong");
    return SPN_OK;
}

/* Adds an object whose handle is the caller's until SPN_OK. */
static int add(spn_extensions *x, struct spn__object *object, spn_problem *problem)
{
    struct brought b;
    struct spn__list_node *node;
    spn_plugin plugin = { .size = 0 };
    bool known = false;
    int rc = read_plugin(object->handle, &plugin, problem);

    if (rc != SPN_OK)
        return rc;
    spn__list_init(&b.kinds);
    spn__list_init(&b.entries);
    rc = collect(&b, &plugin, object->path, problem);
    if (rc == SPN_OK) {
        spn__lock(&x->lock);
        spn__list_each (node, &x->objects)
            known = known || spn__list_entry(node, struct spn__object, link)->handle ==
                                 object->handle;
        if (!known)
            rc = link_all(x, &b, problem);
        if (rc == SPN_OK && !known)
            spn__list_push_front(&x->objects, &object->link);
        spn__unlock(&x->lock);
    }
    drop_brought(&b);
    return rc == SPN_OK && known ? SPN_EEMPTY : rc;
}

static void put_path_before(const char *path, spn_problem *problem)
{
    char reason[sizeof problem->text];

    if (problem == NULL)
        return;
    memcpy(reason, problem->text, sizeof reason);
    (void)spn__refuse(problem, 0, 0, "%.200s: %s", path, reason);
}

int spn_extensions_load(spn_extensions *x, const char *path, spn_problem *problem)
{
    struct spn__object *object;
    const char *why;
    int rc;

    if (x == NULL || path == NULL || *path == '\0')
        return spn__refuse(problem, SPN_EINVAL, 0, "there is no file to load");
    object = spn__alloc(sizeof *object + strlen(path) + 1);
    if (object == NULL)
        return SPN_ENOMEM;
    memcpy(object->path, path, strlen(path) + 1);
    spn__list_node_init(&object->link);
    object->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (object->handle == NULL) {
        why = dlerror();
        rc = spn__refuse(problem, SPN_EINVAL, 0, "%.200s: cannot be opened: %s", path,
                         why != NULL ? why : "no reason given");
        spn__free(object);
        return rc;
    }
    rc = add(x, object, problem);
    if (rc == SPN_OK)
        return SPN_OK;
    if (rc == SPN_EEMPTY)
        rc = SPN_OK; /* it was loaded before: only the handle was counted up */
    else if (rc != SPN_ENOMEM)
        put_path_before(path, problem);
    (void)dlclose(object->handle);
    spn__free(object);
    return rc;
}

int spn__extensions_find_file(spn_extensions *x, const char *kind, const char *name,
                              spn_problem *problem)
{
    for (size_t i = 0; i < x->directory_count; i++) {
        char path[PATH_LENGTH_MAX];
        const int length = snprintf(path, sizeof path, "%s/spindle_%s_%s.so",
                                    x->directories[i], kind, name);

        if (length > 0 && (size_t)length < sizeof path && access(path, R_OK) == 0)
            return spn_extensions_load(x, path, problem);
    }
    return SPN_EEMPTY;
}

void spn__objects_close(spn_extensions *x)
{
    struct spn__list_node *node;

    while ((node = spn__list_pop_front(&x->objects)) != NULL) {
        struct spn__object *object = spn__list_entry(node, struct spn__object, link);

        (void)dlclose(object->handle);
        spn__free(object);
    }
}
