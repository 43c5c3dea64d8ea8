/* SPDX-License-Identifier: MIT */
#ifndef SPN_EXTENSION_H
#define SPN_EXTENSION_H

#include <spindle/problem.h>
#include <spindle/status.h>
#include <spindle/url.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What a program can be extended by, by kind and name.
 *
 * A kind      is something of which there are several ("threadpool"): it has a default,
 *             and URL keys that choose.  The library's own are the SPN_KIND_... below.
 * An extension  is one of a kind ("fixed"), and stands for an instance, a pointer to what
 *             the kind says; made at the first request, once, and kept.
 * A registry  holds both.  It begins with what is built in; a program adds its own with a
 *             call, or from shared objects.  Where one is asked for, NULL means what is
 *             built in and nothing else.
 * Unloading   instances and shared objects live until the registry is destroyed: what get
 *             gave out stays valid until then.  Only what was never asked for can be
 *             unregistered before.
 * Threads     every call but destroy is safe from any thread.  The functions of an
 *             extension run with no lock held, on the thread that asked.
 * Lifecycle   create -> define, register, load, get... -> destroy
 */
typedef struct spn_extensions spn_extensions;

/* kind           default     keys                                  instance               */
#define SPN_KIND_THREADPOOL "threadpool" /* fixed     threadpool   spn_threadpool    */
#define SPN_KIND_REJECT     "reject"     /* report    reject       spn_rejection     */
#define SPN_KIND_QUEUE      "queue"      /* fifo      queue        spn_work_queue    */
#define SPN_KIND_DISPATCHER \
    "dispatcher" /* all       dispatcher, dispather,
                                                           channel.handler                */

/* A kind.  Append only. */
typedef struct spn_extension_kind {
    size_t size;              /* sizeof(spn_extension_kind)                          */
    const char *name;         /* [a-z0-9_-]+, at most 63 bytes                        */
    const char *default_name; /* NULL: none                                          */
    const char *keys;         /* of URLs, in order, parted by commas; "protocol" is the
                                 URL's protocol.  NULL: the name of the kind          */
} spn_extension_kind;

enum {
    SPN_EXTENSION_WRAPPER = 1,  /* goes around the others of its kind                 */
    SPN_EXTENSION_ACTIVATE = 2, /* spn_extensions_activate finds it unasked           */
    SPN_EXTENSION_REPLACE = 4   /* takes the place of another of that name            */
};

/*
 * An extension.  The struct is copied; what it points to is borrowed until the registry is
 * destroyed.  Lists are parted by commas; NULL is an empty one.  Append only.
 */
typedef struct spn_extension spn_extension;
struct spn_extension {
    size_t size;          /* sizeof(spn_extension)                                   */
    const char *kind;     /* one that is defined                                     */
    const char *name;     /* [a-z0-9_-]+, at most 63 bytes                            */
    uint32_t flags;       /* SPN_EXTENSION_...                                       */
    int32_t order;        /* wrappers: the lowest is outermost; activation: the lowest
                             is first                                                */
    const void *instance; /* if there is nothing to make; else NULL, and             */
    /* makes the instance in *out: 0, or a status, and nothing is left.  A wrapper gets
     * what it goes around in `inner`, others NULL. */
    int (*create)(const spn_extension *self, const void *inner, const void **out);
    /* gives back what create made; may be NULL */
    void (*destroy)(const spn_extension *self, const void *instance);
    void *ctx;         /* its own                                                   */
    const char *group; /* activation: the groups it is for; empty: for all          */
    const char *keys;  /* activation: `key` or `key:value` of the URL, one of which must
                           be there; empty: always                                   */
    const char *before; /* activation: names that come after it,                     */
    const char *after;  /* and before it                                             */
    const char *only;   /* wrappers: the names they go around; empty: all,           */
    const char *except; /* but not these                                             */
};

/* Zero means default.  Append only. */
typedef struct spn_extensions_opts {
    size_t
        size; /* sizeof(spn_extensions_opts), set by _INIT                           */
    const char *const
        *directories; /* where spindle_<kind>_<name>.so is looked for when a
                                       name is not known.  Copied                       */
    size_t directory_count;
} spn_extensions_opts;

#define SPN_EXTENSIONS_OPTS_INIT             \
    {                                        \
        sizeof(spn_extensions_opts), NULL, 0 \
    }

/*
 * create:  makes a registry in *out with all that is built in; NULL on failure.
 * destroy: gives back all instances, the last made first, and then the shared objects.
 *          No other call on it may be under way; NULL is a no-op.
 * Returns  create: SPN_OK, SPN_EINVAL, SPN_ENOMEM.
 *          destroy: SPN_OK, or SPN_EBUSY and changes nothing while a pool or repository
 *          uses it or an instance is being made.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_extensions_create(spn_extensions **out, const spn_extensions_opts *opts);
SPN_API int spn_extensions_destroy(spn_extensions *extensions);

/*
 * define:      adds a kind.
 * register:    adds an extension.
 * unregister:  takes out one that was registered, not loaded or built in, and never asked
 *              for; what it had replaced is back.
 * None blocks.
 *
 * Returns  SPN_OK; SPN_EINVAL, with a sentence in *problem (may be NULL): a name that is
 *          none, a kind that is not there, nothing to make an instance with; SPN_EBUSY:
 *          the name is taken; it is in use; SPN_EEMPTY: unregister found none; SPN_ENOMEM.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_extensions_define(spn_extensions *extensions, const spn_extension_kind *kind,
                          spn_problem *problem);
SPN_API SPN_NODISCARD
int spn_extensions_register(spn_extensions *extensions, const spn_extension *extension,
                            spn_problem *problem);
SPN_API int spn_extensions_unregister(spn_extensions *extensions, const char *kind,
                                      const char *name);

/* ---- from shared objects ------------------------------------------------------------ */

#define SPN_PLUGIN_ABI 1 /* grows when an older object would no longer be understood */

/* What a shared object brings; static in it.  Append only. */
typedef struct spn_plugin {
    size_t size;      /* sizeof(spn_plugin)                                        */
    uint32_t abi;     /* SPN_PLUGIN_ABI                                            */
    uint32_t version; /* SPN_VERSION of the headers it was made with; to be shown   */
    const spn_extension_kind *const *kinds;
    size_t kind_count;
    const spn_extension *const *extensions;
    size_t extension_count;
} spn_plugin;

/* The one function such an object must have: it says what it brings, or NULL if it cannot
 * work here. */
typedef const spn_plugin *(*spn_plugin_entry_fn)(void);
#define SPN_PLUGIN_ENTRY "spn_plugin_entry"
#ifdef __cplusplus
#define SPN__PLUGIN_LINKAGE extern "C"
#else
#define SPN__PLUGIN_LINKAGE
#endif
/* SPN_PLUGIN_EXPORT { return &my_plugin; } */
#define SPN_PLUGIN_EXPORT                                                         \
    SPN__PLUGIN_LINKAGE __attribute__((visibility("default"))) const spn_plugin * \
    spn_plugin_entry(void);                                                       \
    const spn_plugin *spn_plugin_entry(void)

/*
 * Opens a shared object and registers all it brings, or nothing.  One that was loaded
 * before is left as it is.  May block, as opening a file may; runs the object's
 * constructors.
 *
 * Returns  SPN_OK; SPN_EINVAL: no such file, no object, no entry point, another ABI,
 *          something wrong in it; SPN_EBUSY: a name is taken; SPN_ENOMEM.  *problem (may
 *          be NULL) has a sentence with the file and the reason.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_extensions_load(spn_extensions *extensions, const char *path,
                        spn_problem *problem);

/* ---- asking ----------------------------------------------------------------------------- */

/*
 * get:     the instance of a name, with its wrappers around it; NULL, "" and "true" are the
 *          kind's default.  A name that is not known is looked for in the directories.
 * choose:  the same for the name that the URL gives with the first key of the kind that is
 *          not empty, else the default.
 * Both may make the instance, or wait for a thread that is making it.
 *
 * Returns  SPN_OK; SPN_EEMPTY: there is none of that name, and *problem (may be NULL) lists
 *          those there are; SPN_EINVAL: no such kind, or no name; SPN_EDEADLK: it is being
 *          made by a call that waits for this one; what create or load refused with;
 *          SPN_ENOMEM.  On failure *out is NULL.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_extensions_get(spn_extensions *extensions, const char *kind, const char *name,
                       const void **out, spn_problem *problem);
SPN_API SPN_NODISCARD
int spn_extensions_choose(spn_extensions *extensions, const char *kind,
                          const spn_url *url, const void **out, spn_problem *problem);

/*
 * All of a kind that are for this URL and group, in order, then or among them those of the
 * list `names`: "a,-b,default,c" has a first, not b, those found unasked, then c;
 * "-default" leaves out those that are not named.  Stores as many instances as fit.
 *
 * Returns  how many there are; SPN_EINVAL: no such kind, no instances to store in; as get.
 * Since    0.1
 */
SPN_API int64_t spn_extensions_activate(spn_extensions *extensions, const char *kind,
                                        const spn_url *url, const char *names,
                                        const char *group, const void **instances,
                                        size_t capacity, spn_problem *problem);

/* Told of each extension; `origin` is "built in", "registered" or the file it came from. */
typedef void (*spn_extension_fn)(void *ctx, const spn_extension *extension,
                                 const char *origin);
typedef void (*spn_extension_kind_fn)(void *ctx, const spn_extension_kind *kind);

/*
 * Calls fn for each extension of a kind, sorted by name, wrappers too; for each kind,
 * sorted.  A picture: fn may use the registry.
 * Returns  SPN_OK; SPN_EINVAL: a NULL, no such kind; SPN_ENOMEM.
 * Since    0.1
 */
SPN_API int spn_extensions_each(spn_extensions *extensions, const char *kind,
                                spn_extension_fn fn, void *ctx);
SPN_API int spn_extensions_each_kind(spn_extensions *extensions,
                                     spn_extension_kind_fn fn, void *ctx);

#ifdef __cplusplus
}
#endif
#endif /* SPN_EXTENSION_H */
