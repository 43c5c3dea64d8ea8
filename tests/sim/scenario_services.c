/* SPDX-License-Identifier: MIT */
/* scenario_services.c - services that come and go beside calls, in a table that grows. */
#include "sim.h"

#include <spindle-rpc.h>

#include "rpc/server/services.h"

static struct spn__services services;
static SPN__ATOMIC(int) alive, inside;

static int nothing(void *arg, spn_request *request)
{
    (void)arg;
    (void)request;
    return 0;
}

static const spn_method methods[] = { { "m", NULL, nothing, NULL } };
static const spn_service first = {
    .size = sizeof(spn_service), .interface = "a", .methods = methods, .method_count = 1
};
static const spn_service second = {
    .size = sizeof(spn_service), .interface = "a", .methods = methods, .method_count = 1
};

static void call(void *shard)
{
    const spn_hspan none = { NULL, 0 }, name = { "a", 1 };
    const spn_service *service;
    struct spn__exported *entry =
        spn__services_begin(&services, none, name, none, (unsigned)(uintptr_t)shard,
                            &service);

    if (entry == NULL)
        return;
    (void)spn__fetch_add(&inside, 1, relaxed);
    /* What was exported is there as long as the call is. */
    sim_assert(service == &second ||
               (service == &first && spn__load(&alive, relaxed) == 1));
    (void)spn__fetch_sub(&inside, 1, relaxed);
    spn__services_end(entry, (unsigned)(uintptr_t)shard);
}

static bool open_services(void)
{
    spn__init(&alive, 1);
    spn__init(&inside, 0);
    if (spn__services_init(&services) != SPN_OK)
        return false;
    if (spn__services_export(&services, &first, NULL) == SPN_OK)
        return true;
    spn__services_fini(&services);
    return false;
}

/* After unexport no call is inside the service, and none gets in. */
SCENARIO(services__unexported_beside_calls__none_is_inside_afterwards, "EXC-6")
{
    if (!open_services())
        return;
    sim_thread(call, (void *)0);
    sim_thread(call, (void *)1);
    sim_assert(spn__services_unexport(&services, &first) == SPN_OK);
    sim_assert(spn__load(&inside, relaxed) == 0);
    spn__store(&alive, 0, relaxed);
    sim_join_all();
    call(NULL);
    spn__services_fini(&services);
}

static void is_there(void *found, const spn_service *service, uint64_t calls)
{
    *(int *)found += service == &first && calls == 0;
    sim_assert(service->methods == methods);
    (void)spn__fetch_add(&inside, 1, relaxed);
    sim_assert(spn__load(&alive, relaxed) == 1);
    (void)spn__fetch_sub(&inside, 1, relaxed);
}

static void look(void *arg)
{
    int found = 0;

    (void)arg;
    spn__services_each(&services, is_there, &found);
}

/* The same for who looks at all services. */
SCENARIO(services__unexported_beside_a_look__none_is_inside_afterwards, "EXC-6")
{
    if (!open_services())
        return;
    sim_thread(look, NULL);
    sim_assert(spn__services_unexport(&services, &first) == SPN_OK);
    sim_assert(spn__load(&inside, relaxed) == 0);
    spn__store(&alive, 0, relaxed);
    sim_join_all();
    look(NULL);
    spn__services_fini(&services);
}

static void ask_for_method(void *arg)
{
    const spn_hspan interface = { "a", 1 }, none = { NULL, 0 }, name = { "m", 1 };
    const spn_hspan other = { "n", 1 };

    (void)arg;
    if (sim_choose(2) == 0) {
        (void)spn__services_have(&services, interface, name, none);
        sim_assert(!spn__services_have(&services, interface, other, none));
    } else {
        sim_assert(spn__services_offer(&services, none, interface, none, 0, other,
                                       none) != SPN__OFFERED);
        (void)spn__services_offer(&services, none, interface, none, 0, name, none);
    }
}

/* Questions for a method count as calls do, and are counted out: unexport returns, and what
 * asks later does not look at the table of methods, which is the program's again. */
SCENARIO(services__unexported_beside_a_question__returns, "EXC-6", "COD-18")
{
    spn_service short_lived = first;

    spn__init(&alive, 1);
    spn__init(&inside, 0);
    if (spn__services_init(&services) != SPN_OK)
        return;
    if (spn__services_export(&services, &short_lived, NULL) == SPN_OK) {
        sim_thread(ask_for_method, NULL);
        sim_thread(ask_for_method, NULL);
        sim_assert(spn__services_unexport(&services, &short_lived) == SPN_OK);
        short_lived.methods = NULL; /* who reads it now does not come back */
        ask_for_method(NULL);
        sim_join_all();
    }
    spn__services_fini(&services);
}

static void export_first(void *arg)
{
    (void)arg;
    (void)spn__services_export(&services, &first, NULL);
}

/* Exported for the first time beside a call: that finds all of it, or nothing. */
SCENARIO(services__exported_beside_a_call__whole_or_not_there, "EXC-1")
{
    spn__init(&alive, 1);
    spn__init(&inside, 0);
    if (spn__services_init(&services) != SPN_OK)
        return;
    sim_thread(export_first, NULL);
    call(NULL);
    sim_join_all();
    spn__services_fini(&services);
}

/* The same key is exported again at once: calls get the old service or the new. */
SCENARIO(services__replaced_beside_a_call__old_or_new, "EXC-6")
{
    if (!open_services())
        return;
    sim_thread(call, (void *)0);
    sim_assert(spn__services_unexport(&services, &first) == SPN_OK);
    spn__store(&alive, 0, relaxed);
    sim_assert(spn__services_export(&services, &second, NULL) == SPN_OK);
    sim_join_all();
    spn__services_fini(&services);
}

static void grow(void *arg)
{
    static const char *const names[] = { "b", "c", "d", "e", "f", "g", "h", "i", "j" };
    static spn_service others[9];

    (void)arg;
    for (int i = 0; i < 9; i++) {
        others[i] = first;
        others[i].interface = names[i];
        if (spn__services_export(&services, &others[i], NULL) != SPN_OK)
            return; /* no memory */
    }
}

/* A call beside the growing of the table finds what was there before. */
SCENARIO(services__table_grows_beside_a_call__found, "EXC-1", "EXC-6")
{
    const spn_hspan none = { NULL, 0 }, name = { "a", 1 };
    const spn_service *service;
    struct spn__exported *entry;

    if (!open_services())
        return;
    sim_thread(grow, NULL);
    entry = spn__services_begin(&services, none, name, none, 0, &service);
    sim_assert(entry != NULL && service == &first);
    spn__services_end(entry, 0);
    sim_join_all();
    spn__services_fini(&services);
}

/* So does a look at all of them. */
SCENARIO(services__table_grows_beside_a_look__found, "EXC-1", "EXC-6")
{
    int found = 0;

    if (!open_services())
        return;
    sim_thread(grow, NULL);
    spn__services_each(&services, is_there, &found);
    sim_assert(found == 1);
    sim_join_all();
    spn__services_fini(&services);
}
