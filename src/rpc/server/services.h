/* SPDX-License-Identifier: MIT */
/* services.h - what a server exports; see services.c. */
#ifndef SPN__SERVICES_H
#define SPN__SERVICES_H

#include <spindle/executor.h>
#include <spindle/server.h>
#include <spindle/service.h>

#include "sync/lock.h"
#include "sync/seam.h"

enum { SPN__SERVICE_SHARDS = 4 };

/* Calls of a service, a part of them. */
struct spn__call_counts {
    SPN__ATOMIC(uint64_t) begun; /* [export] */
    SPN__ATOMIC(uint64_t) ended;
    char pad[SPN__CACHE_LINE - 2 * sizeof(uint64_t)];
};

/* A key that is, or was, exported; there until the server is destroyed. */
struct spn__exported {
    SPN__ATOMIC(const spn_service *) service; /* NULL: not now [export] */
    uint64_t hash;                            /* fixed, as the key */
    spn_hspan group, interface, version;      /* empty: none */
    spn_executor inside; /* runs nothing: marks its methods' threads */
    struct spn__call_counts
        calls[SPN__SERVICE_SHARDS + 1]; /* the last: who only looks */
};

struct spn__service_table;

struct spn__services {
    struct spn__lock lock;                          /* one change at a time; a leaf */
    SPN__ATOMIC(struct spn__service_table *) table; /* [table] */
};

/* SPN_OK, SPN_ENOMEM. */
int spn__services_init(struct spn__services *services);
/* Nobody uses it any more. */
void spn__services_fini(struct spn__services *services);

/* As the public ones. */
int spn__services_export(struct spn__services *services, const spn_service *service,
                         spn_problem *problem);
int spn__services_unexport(struct spn__services *services, const spn_service *service);
void spn__services_each(struct spn__services *services, spn_service_fn fn, void *ctx);

/*
 * Begins a call: the service for these three, which is not unexported until the call ends;
 * NULL: there is none.  The same shard, any number, at both ends.
 */
struct spn__exported *spn__services_begin(struct spn__services *services,
                                          spn_hspan group, spn_hspan interface,
                                          spn_hspan version, unsigned shard,
                                          const spn_service **service);
void spn__services_end(struct spn__exported *exported, unsigned shard);

/* What is there for a request, before its arguments are read. */
enum spn__offer { SPN__OFFERED, SPN__NO_SERVICE, SPN__NO_METHOD };

/* Whether a service of that interface has the method, whatever its group and version. */
bool spn__services_have(struct spn__services *services, spn_hspan interface,
                        spn_hspan name, spn_hspan descriptor);
/* The same for a group and version; a call is begun and ended meanwhile. */
enum spn__offer spn__services_offer(struct spn__services *services, spn_hspan group,
                                    spn_hspan interface, spn_hspan version,
                                    unsigned shard, spn_hspan name,
                                    spn_hspan descriptor);

/* Whether the name is that of the method that every service has: `$echo`, with one
 * argument. */
bool spn__service_is_echo(spn_hspan name, spn_hspan descriptor);

/* The method for a name and descriptor; NULL: none. */
const spn_method *spn__service_method(const spn_service *service, spn_hspan name,
                                      spn_hspan descriptor);

/* How many parameters a descriptor has; negative: it is none. */
int spn__descriptor_count(const char *text, size_t length);

#endif /* SPN__SERVICES_H */
