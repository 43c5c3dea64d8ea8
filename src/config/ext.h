/* SPDX-License-Identifier: MIT */
/* ext.h - the inside of a registry of extensions; see ext.c. */
#ifndef SPN__EXT_H
#define SPN__EXT_H

#include <spindle/extension.h>

#include "base/list.h"
#include "config/url.h"
#include "sync/lock.h"
#include "sync/waitq.h"

enum { SPN__NAME_MAX = 63 };

/* A shared object that was loaded. */
struct spn__object {
    struct spn__list_node link;
    void *handle;
    char path[];
};

enum spn__ext_entry_state { SPN__EXT_IDLE, SPN__EXT_MAKING, SPN__EXT_READY };

struct spn__wrapping {
    const spn_extension *by;
    const void *instance;
};

struct spn__ext_entry {
    struct spn__list_node
        link; /* all guarded by the registry's lock, but where it says */
    struct spn__list_node
        made;                /* in the order of making, the last first                */
    spn_extension extension; /* fixed */
    const char *origin;      /* fixed */
    enum spn__ext_entry_state state;
    bool used;                /* it, or what it is around, was given out              */
    bool registered;          /* by a call: may be taken out again                    */
    struct spn_thread *maker; /* MAKING: who                                          */
    struct spn__ext_entry
        *awaited;         /* MAKING: what the maker waits for meanwhile           */
    const void *core;     /* READY: without wrappers, */
    const void *instance; /* and with                                             */
    struct spn__wrapping
        *wrapped; /* from the inside out; the maker's while MAKING        */
    size_t wrapped_count;
};

struct spn__kind {
    struct spn__list_node link;
    spn_extension_kind kind; /* fixed */
};

struct spn_extensions {
    struct spn__lock lock;
    struct spn__list kinds,
        entries; /* entries: the newest first, so that it is found */
    struct spn__list made, objects;
    struct spn__waitq waiting; /* for an instance that is being made */
    size_t users;
    char **directories; /* fixed */
    size_t directory_count;
};

/* What is built in: ext_builtin.c. */
extern const spn_extension_kind spn__builtin_kinds[];
extern const size_t spn__builtin_kind_count;
extern const spn_extension spn__builtin_extensions[];
extern const size_t spn__builtin_extension_count;

/* Keeps the registry from being destroyed; NULL is a no-op. */
void spn__extensions_hold(spn_extensions *extensions);
void spn__extensions_release(spn_extensions *extensions);

bool spn__is_name(const char *name);
/* Whether a comma list has the item; NULL has none. */
bool spn__list_has(const char *list, const char *item, size_t length);
/* The next item of a comma list, without blanks; an empty span at the end. */
struct spn__span spn__list_next(const char **list);

/* The names of a kind, as a text for people. */
struct spn__names {
    char text[400];
    size_t length;
};
const char *spn__extensions_names(spn_extensions *extensions, const char *kind,
                                  struct spn__names *names);

/* The kind, or NULL; the lock is held, if there is a registry. */
const spn_extension_kind *spn__kind_find(spn_extensions *extensions, const char *name);

/* Checks an extension, or a kind, and makes a copy that is not linked yet. */
int spn__ext_entry_make(struct spn__ext_entry **out, const spn_extension *extension,
                        const char *origin, spn_problem *problem);
int spn__kind_make(struct spn__kind **out, const spn_extension_kind *kind,
                   spn_problem *problem);
/* Whether it can be linked; the lock is held. */
int spn__ext_entry_check(spn_extensions *extensions, const struct spn__ext_entry *entry,
                         spn_problem *problem);
/* As the public one, for a file that was found by its name: says nothing if there is none
 * (SPN_EEMPTY). */
int spn__extensions_find_file(spn_extensions *extensions, const char *kind,
                              const char *name, spn_problem *problem);
void spn__objects_close(spn_extensions *extensions);

#endif /* SPN__EXT_H */
