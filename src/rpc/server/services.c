/* SPDX-License-Identifier: MIT */
/*
 * services.c - services by group, interface and version: found without a lock, changed
 * while calls go on.
 *
 * OVERVIEW
 *   A table with open addressing maps keys to entries.  Entries are never freed before the
 *   server is: unexport only empties one, and a later export under the same key fills it
 *   again, so that there are as many as there were different keys.  A table that became too
 *   small is kept behind its successor for the same reason.
 *
 * ORDERING
 *   [table]   an entry, and a larger table, are published by a release store when they are
 *             complete; who looks something up loads with acquire.
 *   [export]  a call counts itself as begun and then looks whether the service is there;
 *             unexport takes the service out and then looks who has begun: seq_cst, so that
 *             a call without a service, or an unexport that waits, is the outcome, never
 *             neither.  A call's end is a release, for what it did with the service; the
 *             wait for it an acquire.  "Half of a pair": see future/core.c.
 *
 * Counts are kept in several parts, chosen by the channel, since two threads that count in
 * one word for every call would share little else.
 */
#include "rpc/server/services.h"

#include <string.h>

#include "base/options.h"
#include "base/time.h"
#include "config/problem.h"
#include "sync/pause.h"

struct spn__service_table {
    struct spn__service_table *older;            /* NULL: none */
    size_t mask;                                 /* slots - 1 */
    size_t used;                                 /* guarded by the lock */
    SPN__ATOMIC(struct spn__exported *) slots[]; /* NULL: free [table] */
};

enum {
    FIRST_SLOTS = 16,
    PARAMETERS_MAX = 255,
    METHODS_MAX = 65535,
    DIMENSIONS_MAX = 255
};

/* ---- keys ------------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ (hash >> 29);
}

static uint64_t hash_span(uint64_t hash, spn_hspan span)
{
    size_t at = 0;
    uint64_t word;

    for (; span.length - at >= sizeof word; at += sizeof word) {
        memcpy(&word, span.data + at, sizeof word);
        hash = mix(hash, word);
    }
    word = 0;
    if (span.length > at)
        memcpy(&word, span.data + at, span.length - at);
    return mix(mix(hash, word), span.length);
}

static uint64_t hash_key(spn_hspan group, spn_hspan interface, spn_hspan version)
{
    return hash_span(hash_span(hash_span(1, interface), version), group);
}

static bool same(spn_hspan a, spn_hspan b)
{
    return a.length == b.length &&
           (a.length == 0 || memcmp(a.data, b.data, a.length) == 0);
}

static spn_hspan span_of(const char *text)
{
    spn_hspan span = { text, text != NULL ? strlen(text) : 0 };

    return span;
}

/* A version that says nothing is none. */
static spn_hspan plain_version(spn_hspan version)
{
    const spn_hspan none = { NULL, 0 };

    if (same(version, span_of("0.0.0")) || same(version, span_of("*")))
        return none;
    return version;
}

/* ---- descriptors ------------------------------------------------------------------- */

int spn__descriptor_count(const char *text, size_t length)
{
    const char *at = text, *const end = text + length;
    int count = 0;

    while (at < end) {
        int dimensions = 0;

        while (at < end && *at == '[' && dimensions <= DIMENSIONS_MAX) {
            dimensions++;
            at++;
        }
        if (at == end || dimensions > DIMENSIONS_MAX || count == PARAMETERS_MAX)
            return SPN_EINVAL;
        if (*at == 'L') {
            const char *name = at + 1;

            at = memchr(name, ';', (size_t)(end - name));
            if (at == NULL || at == name ||
                memchr(name, '[', (size_t)(at - name)) != NULL)
                return SPN_EINVAL;
        } else if (strchr("IJZBCDFS", *at) == NULL || *at == '\0') {
            return SPN_EINVAL;
        }
        at++;
        count++;
    }
    return count;
}

/* ---- looking up --------------------------------------------------------------------- */

static struct spn__exported *find(struct spn__service_table *table, uint64_t hash,
                                  spn_hspan group, spn_hspan interface,
                                  spn_hspan version)
{
    for (size_t at = (size_t)hash & table->mask;; at = (at + 1) & table->mask) {
        /* [table]
         * mutant: it brings plain fields, and to the explorer what follows is a fence */
        struct spn__exported *entry = spn__load(&table->slots[at], acquire);

        if (entry == NULL)
            return NULL;
        if (entry->hash == hash && same(entry->interface, interface) &&
            same(entry->version, version) && same(entry->group, group))
            return entry;
    }
}

/* Begins a call of an entry; NULL: its service is not there, and nothing was begun. */
static const spn_service *begin_entry(struct spn__exported *entry, unsigned part)
{
    const spn_service *service;

    /* [export] mutant: half of a pair */
    (void)spn__fetch_add(&entry->calls[part].begun, 1, seq_cst);
    /* [export] mutant: half of a pair */
    service = spn__load(&entry->service, seq_cst);
    if (service == NULL)
        (void)spn__fetch_add(&entry->calls[part].ended, 1, release); /* [export] */
    return service;
}

struct spn__exported *spn__services_begin(struct spn__services *services,
                                          spn_hspan group, spn_hspan interface,
                                          spn_hspan version, unsigned shard,
                                          const spn_service **service)
{
    struct spn__service_table *table =
        spn__load(&services->table, acquire); /* [table] */
    struct spn__exported *entry;

    version = plain_version(version);
    entry = find(table, hash_key(group, interface, version), group, interface, version);
    if (entry == NULL)
        return NULL;
    *service = begin_entry(entry, shard % SPN__SERVICE_SHARDS);
    return *service != NULL ? entry : NULL;
}

void spn__services_end(struct spn__exported *exported, unsigned shard)
{
    (void)spn__fetch_add(&exported->calls[shard % SPN__SERVICE_SHARDS].ended, 1,
                         release); /* [export] */
}

/* By length: text of the wire may have a zero byte in it, and be of any length.  Most names
 * differ in their first letter, which saves counting. */
static bool is_name(const char *name, spn_hspan wanted)
{
    if (wanted.length == 0)
        return name[0] == '\0';
    return name[0] == wanted.data[0] && same(span_of(name), wanted);
}

const spn_method *spn__service_method(const spn_service *service, spn_hspan name,
                                      spn_hspan descriptor)
{
    const spn_method *any = NULL, *last = NULL;

    for (size_t i = 0; i < service->method_count; i++) {
        const spn_method *method = &service->methods[i];

        if (is_name(method->name, name)) {
            if (method->parameters == NULL)
                any = method;
            else if (is_name(method->parameters, descriptor))
                return method;
        } else if (method->name[0] == '*' && method->name[1] == '\0') {
            last = method;
        }
    }
    return any != NULL ? any : last;
}

bool spn__service_is_echo(spn_hspan name, spn_hspan descriptor)
{
    return is_name("$echo", name) &&
           spn__descriptor_count(descriptor.data, descriptor.length) == 1;
}

static bool has_method(const spn_service *service, spn_hspan name, spn_hspan descriptor)
{
    return spn__service_method(service, name, descriptor) != NULL ||
           spn__service_is_echo(name, descriptor);
}

bool spn__services_have(struct spn__services *services, spn_hspan interface,
                        spn_hspan name, spn_hspan descriptor)
{
    struct spn__service_table *table =
        spn__load(&services->table, acquire); /* [table] */
    bool found = false;

    for (size_t i = 0; i <= table->mask && !found; i++) {
        /* [table] mutant: as in find */
        struct spn__exported *entry = spn__load(&table->slots[i], acquire);
        const spn_service *service;

        if (entry == NULL || !same(entry->interface, interface))
            continue;
        service = begin_entry(entry, SPN__SERVICE_SHARDS);
        if (service == NULL)
            continue;
        found = has_method(service, name, descriptor);
        (void)spn__fetch_add(&entry->calls[SPN__SERVICE_SHARDS].ended, 1,
                             release); /* [export] */
    }
    return found;
}

enum spn__offer spn__services_offer(struct spn__services *services, spn_hspan group,
                                    spn_hspan interface, spn_hspan version,
                                    unsigned shard, spn_hspan name,
                                    spn_hspan descriptor)
{
    const spn_service *service;
    struct spn__exported *entry =
        spn__services_begin(services, group, interface, version, shard, &service);
    bool found;

    if (entry == NULL)
        return SPN__NO_SERVICE;
    found = has_method(service, name, descriptor);
    spn__services_end(entry, shard);
    return found ? SPN__OFFERED : SPN__NO_METHOD;
}

/* ---- changing ------------------------------------------------------------------------ */

static struct spn__service_table *make_table(size_t slots)
{
    struct spn__service_table *table =
        spn__alloc(sizeof *table + slots * sizeof *table->slots);

    if (table == NULL)
        return NULL;
    table->older = NULL;
    table->mask = slots - 1;
    table->used = 0;
    for (size_t i = 0; i < slots; i++)
        spn__init(&table->slots[i], NULL);
    return table;
}

int spn__services_init(struct spn__services *services)
{
    struct spn__service_table *table = make_table(FIRST_SLOTS);

    spn__lock_init(&services->lock);
    spn__init(&services->table, table);
    return table != NULL ? SPN_OK : SPN_ENOMEM;
}

void spn__services_fini(struct spn__services *services)
{
    /* relaxed, all: nobody else is there. */
    struct spn__service_table *table = spn__load(&services->table, relaxed);

    if (table != NULL)
        for (size_t i = 0; i <= table->mask; i++)
            spn__free(spn__load(&table->slots[i], relaxed));
    while (table != NULL) {
        struct spn__service_table *older = table->older;

        spn__free(table);
        table = older;
    }
}

/* Puts an entry into a table that has room; the lock is held. */
static void put(struct spn__service_table *table, struct spn__exported *entry)
{
    size_t at = (size_t)entry->hash & table->mask;

    while (spn__load(&table->slots[at], relaxed) != NULL) /* written under the lock */
        at = (at + 1) & table->mask;
    spn__store(&table->slots[at], entry, release); /* [table] */
    table->used++;
}

static spn_hspan copy_to(char **at, spn_hspan from)
{
    spn_hspan copy = { *at, from.length };

    if (from.length > 0)
        memcpy(*at, from.data, from.length);
    *at += from.length;
    return copy;
}

static struct spn__exported *make_entry(uint64_t hash, spn_hspan group,
                                        spn_hspan interface, spn_hspan version)
{
    struct spn__exported *entry =
        spn__alloc_aligned((sizeof *entry + group.length + interface.length +
                            version.length + SPN__CACHE_LINE - 1) /
                               SPN__CACHE_LINE * SPN__CACHE_LINE,
                           SPN__CACHE_LINE);
    char *text;

    if (entry == NULL)
        return NULL;
    text = (char *)(entry + 1);
    spn__init(&entry->service, NULL);
    entry->hash = hash;
    entry->group = copy_to(&text, group);
    entry->interface = copy_to(&text, interface);
    entry->version = copy_to(&text, version);
    for (int i = 0; i <= SPN__SERVICE_SHARDS; i++) {
        spn__init(&entry->calls[i].begun, 0);
        spn__init(&entry->calls[i].ended, 0);
    }
    return entry;
}

/* The entry of a key, made if there is none; the lock is held.  NULL: no memory. */
static struct spn__exported *have_entry(struct spn__services *services, spn_hspan group,
                                        spn_hspan interface, spn_hspan version)
{
    const uint64_t hash = hash_key(group, interface, version);
    struct spn__service_table *table =
        spn__load(&services->table, relaxed); /* written under the lock */
    struct spn__exported *entry = find(table, hash, group, interface, version);

    if (entry != NULL)
        return entry;
    entry = make_entry(hash, group, interface, version);
    if (entry == NULL)
        return NULL;
    if (table->used * 2 > table->mask) {
        struct spn__service_table *larger = make_table((table->mask + 1) * 2);

        if (larger == NULL) {
            spn__free(entry);
            return NULL;
        }
        for (size_t i = 0; i <= table->mask; i++) {
            struct spn__exported *old =
                spn__load(&table->slots[i], relaxed); /* as above */

            if (old != NULL)
                put(larger, old);
        }
        larger->older = table;
        put(larger, entry);
        spn__store(&services->table, larger, release); /* [table] */
        return entry;
    }
    put(table, entry);
    return entry;
}

static int check_method(const spn_service *service, size_t index, spn_problem *problem)
{
    const spn_method *method = &service->methods[index];

    if (method->name == NULL || method->name[0] == '\0' || method->fn == NULL)
        return spn__refuse(problem, SPN_EINVAL, 0,
                           "%s: method %d has no name or no function",
                           service->interface, (int)index);
    if (method->parameters != NULL &&
        spn__descriptor_count(method->parameters, strlen(method->parameters)) < 0)
        return spn__refuse(problem, SPN_EINVAL, 0,
                           "%s.%s: \"%s\" is no list of parameters, as in "
                           "\"ILjava/lang/String;\"",
                           service->interface, method->name, method->parameters);
    for (size_t i = 0; i < index; i++) {
        const spn_method *other = &service->methods[i];

        if (strcmp(method->name, other->name) == 0 &&
            (method->parameters == NULL || other->parameters == NULL
                 ? method->parameters == other->parameters
                 : strcmp(method->parameters, other->parameters) == 0))
            return spn__refuse(problem, SPN_EINVAL, 0, "%s.%s(%s) is there twice",
                               service->interface, method->name,
                               method->parameters != NULL ? method->parameters : "*");
    }
    return SPN_OK;
}

static int check(const spn_service *service, spn_problem *problem)
{
    spn_service copy;

    if (service->size < sizeof *service ||
        spn__options_copy(&copy, sizeof copy, service) != SPN_OK)
        return spn__refuse(problem, SPN_EINVAL, 0, "the service's size is wrong");
    if (service->interface == NULL || service->interface[0] == '\0')
        return spn__refuse(problem, SPN_EINVAL, 0, "a service needs an interface");
    if ((service->methods == NULL && service->method_count > 0) ||
        service->method_count > METHODS_MAX)
        return spn__refuse(problem, SPN_EINVAL, 0, "%s: no methods, or too many",
                           service->interface);
    for (size_t i = 0; i < service->method_count; i++) {
        const int rc = check_method(service, i, problem);

        if (rc != SPN_OK)
            return rc;
    }
    return SPN_OK;
}

int spn__services_export(struct spn__services *services, const spn_service *service,
                         spn_problem *problem)
{
    struct spn__exported *entry;
    int rc = check(service, problem);

    if (rc != SPN_OK)
        return rc;
    spn__lock(&services->lock);
    entry = have_entry(services, span_of(service->group), span_of(service->interface),
                       plain_version(span_of(service->version)));
    if (entry == NULL)
        rc = SPN_ENOMEM;
    else if (spn__load(&entry->service, relaxed) != NULL) /* written under the lock */
        rc = SPN_EBUSY;
    else
        /* Nothing is looked at afterwards.  [export] mutant: what it brings is plain */
        spn__store(&entry->service, service, release);
    spn__unlock(&services->lock);
    if (rc == SPN_EBUSY)
        return spn__refuse(problem, rc, 0, "%s is exported already",
                           service->interface);
    return rc;
}

static bool is_quiet(struct spn__exported *entry)
{
    for (int i = 0; i <= SPN__SERVICE_SHARDS; i++) {
        /* In this order: those that ended had begun before.  acquire: what they did;
         * seq_cst: who did not see the service taken out has begun.
         * [export] mutant: to the explorer the look that follows is a fence */
        const uint64_t ended = spn__load(&entry->calls[i].ended, acquire);

        /* [export] mutant: half of a pair */
        if (spn__load(&entry->calls[i].begun, seq_cst) != ended)
            return false;
    }
    return true;
}

int spn__services_unexport(struct spn__services *services, const spn_service *service)
{
    struct spn__service_table *table;
    struct spn__exported *entry;
    const spn_hspan interface = span_of(service->interface);
    const spn_hspan version = plain_version(span_of(service->version));
    const spn_hspan group = span_of(service->group);
    int64_t pause_ns = 0;
    int rc = SPN_OK;

    spn__lock(&services->lock);
    table = spn__load(&services->table, relaxed); /* written under the lock */
    entry = find(table, hash_key(group, interface, version), group, interface, version);
    if (entry == NULL || spn__load(&entry->service, relaxed) != service) /* as above */
        rc = SPN_EEMPTY;
    else if (spn_executor_is_inside(&entry->inside) == 1)
        rc = SPN_EDEADLK; /* it would wait for the method that calls */
    else
        /* [export] mutant: half of a pair */
        spn__store(&entry->service, NULL, seq_cst);
    spn__unlock(&services->lock);
    if (rc != SPN_OK)
        return rc;
    /* A look now and then: a call that told us when it ends would pay for it each time,
     * and this hardly ever happens. */
    while (!is_quiet(entry)) {
        spn__pause_longer(&pause_ns, INT64_MAX);
    }
    return SPN_OK;
}

void spn__services_each(struct spn__services *services, spn_service_fn fn, void *ctx)
{
    struct spn__service_table *table =
        spn__load(&services->table, acquire); /* [table] */

    for (size_t i = 0; i <= table->mask; i++) {
        /* [table] mutant: as in find */
        struct spn__exported *entry = spn__load(&table->slots[i], acquire);
        const spn_service *service;
        uint64_t calls = 0;

        if (entry == NULL)
            continue;
        for (int shard = 0; shard < SPN__SERVICE_SHARDS; shard++)
            calls += spn__load(&entry->calls[shard].begun, relaxed); /* a number */
        service = begin_entry(entry, SPN__SERVICE_SHARDS);
        if (service == NULL)
            continue;
        fn(ctx, service, calls);
        (void)spn__fetch_add(&entry->calls[SPN__SERVICE_SHARDS].ended, 1,
                             release); /* [export] */
    }
}
