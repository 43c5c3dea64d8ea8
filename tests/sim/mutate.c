/* SPDX-License-Identifier: MIT */
/*
 * mutate.c - the sites of the code under test, and their weakened forms.
 *
 * OVERVIEW
 *   A mutant changes one site: an order one step weaker, a fence or a wake left
 *   out.  A suite that passes with it does not test that site, or the site is
 *   stronger than it need be.  The mutant is a text,
 *
 *       src/sync/lock.c:58:cas@&lock->word:acquire-relaxed
 *
 *   file, line, operation and operand, change.  A CAS has two orders: `cas` is
 *   the one of success, `cas_failure` the other.  The operand may be left out
 *   when asking for a mutant.
 *
 *   A site is known from the first time it is reached, which is when the mutant
 *   takes effect: nothing has used its order before.
 */
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sim_site *reached; /* newest first */
static const char *wanted;
static bool wanted_reached;

const char *sim__order_name(unsigned order)
{
    switch (order) {
    case memory_order_relaxed:
        return "relaxed";
    case memory_order_acquire:
        return "acquire";
    case memory_order_release:
        return "release";
    case memory_order_acq_rel:
        return "acq_rel";
    case memory_order_seq_cst:
        return "seq_cst";
    default:
        return "consume";
    }
}

const char *sim__op_name(unsigned op)
{
    static const char *const names[SIM_OP_COUNT] = {
        [SIM_OP_LOAD] = "load",         [SIM_OP_STORE] = "store",
        [SIM_OP_EXCHANGE] = "exchange", [SIM_OP_ADD] = "fetch_add",
        [SIM_OP_SUB] = "fetch_sub",     [SIM_OP_OR] = "fetch_or",
        [SIM_OP_AND] = "fetch_and",     [SIM_OP_CAS] = "cas",
        [SIM_OP_CAS_WEAK] = "cas_weak", [SIM_OP_FENCE] = "fence",
        [SIM_OP_LIGHT] = "fence_light", [SIM_OP_HEAVY] = "fence_heavy",
        [SIM_OP_RELAX] = "cpu_relax",   [SIM_OP_YIELD] = "yield",
        [SIM_OP_WAIT] = "futex_wait",   [SIM_OP_WAKE] = "futex_wake",
        [SIM_OP_CREATE] = "create",     [SIM_OP_JOIN] = "join",
        [SIM_OP_DETACH] = "detach",     [SIM_OP_NOW] = "now",
        [SIM_OP_ALLOC] = "alloc",       [SIM_OP_FREE] = "free",
        [SIM_OP_SETTLE] = "settle",     [SIM_OP_SLEEP] = "sleep",
        [SIM_OP_START] = "start",       [SIM_OP_EXIT] = "exit",
        [SIM_OP_FLUSH] = "flush",       [SIM_OP_EXPIRE] = "expire",
    };

    return op < SIM_OP_COUNT ? names[op] : "?";
}

/* The orders one step weaker, as the operation allows; returns how many. */
static unsigned weaker(unsigned op, unsigned order, unsigned to[2])
{
    switch (order) {
    case memory_order_seq_cst:
        to[0] = op == SIM_OP_LOAD    ? memory_order_acquire
                : op == SIM_OP_STORE ? memory_order_release
                                     : memory_order_acq_rel;
        return 1;
    case memory_order_acq_rel:
        to[0] = memory_order_acquire;
        to[1] = memory_order_release;
        return 2;
    case memory_order_acquire:
    case memory_order_release:
        to[0] = memory_order_relaxed;
        return 1;
    default:
        return 0;
    }
}

struct mutant {
    char id[512], id_without_operand[512];
};

static void describe(struct mutant *m, const struct sim_site *site, const char *suffix,
                     const char *change)
{
    (void)snprintf(m->id, sizeof m->id, "%s:%d:%s%s@%s:%s", site->file, site->line,
                   sim__op_name(site->op), suffix, site->text, change);
    (void)snprintf(m->id_without_operand, sizeof m->id_without_operand, "%s:%d:%s%s:%s",
                   site->file, site->line, sim__op_name(site->op), suffix, change);
}

static bool is_wanted(const struct mutant *m)
{
    return wanted != NULL &&
           (strcmp(wanted, m->id) == 0 || strcmp(wanted, m->id_without_operand) == 0);
}

/* Calls act for each mutant of the site; apply makes the change. */
struct change {
    struct sim_site *site;
    enum { WEAKEN, WEAKEN_FAILURE, DROP } what;
    unsigned to;
};
typedef void mutant_fn(const struct mutant *m, const struct change *change);

static void each_weaker(struct sim_site *site, unsigned op, unsigned order,
                        bool of_failure, mutant_fn *act)
{
    unsigned to[2];
    const unsigned count = weaker(op, order, to);

    for (unsigned i = 0; i < count; i++) {
        struct change change = { site, of_failure ? WEAKEN_FAILURE : WEAKEN, to[i] };
        struct mutant m;
        char text[40];

        (void)snprintf(text, sizeof text, "%s-%s", sim__order_name(order),
                       sim__order_name(to[i]));
        describe(&m, site, of_failure ? "_failure" : "", text);
        act(&m, &change);
    }
}

static void each_mutant(struct sim_site *site, mutant_fn *act)
{
    switch (site->op) {
    case SIM_OP_FENCE:
    case SIM_OP_LIGHT:
    case SIM_OP_HEAVY:
    case SIM_OP_WAKE: {
        struct change change = { site, DROP, 0 };
        struct mutant m;

        describe(&m, site, "", "dropped");
        act(&m, &change);
        break;
    }
    case SIM_OP_CAS:
    case SIM_OP_CAS_WEAK:
        each_weaker(site, site->op, site->order, false, act);
        each_weaker(site, SIM_OP_LOAD, site->failure, true, act);
        break;
    default:
        each_weaker(site, site->op, site->order, false, act);
        break;
    }
}

static void apply_if_wanted(const struct mutant *m, const struct change *change)
{
    if (!is_wanted(m))
        return;
    wanted_reached = true;
    switch (change->what) {
    case WEAKEN:
        change->site->order_now = (uint8_t)change->to;
        break;
    case WEAKEN_FAILURE:
        change->site->failure_now = (uint8_t)change->to;
        break;
    case DROP:
        change->site->dropped = true;
        break;
    }
}

void sim__site_reached(struct sim_site *site)
{
    site->reached = true;
    site->order_now = site->order;
    site->failure_now = site->failure;
    site->next = reached;
    reached = site;
    if (wanted != NULL)
        each_mutant(site, apply_if_wanted);
}

bool sim__mutate(const char *id)
{
    if (strchr(id, ':') == NULL)
        return false;
    wanted = id;
    return true;
}

const char *sim__mutant(void)
{
    return wanted;
}

bool sim__mutant_reached(void)
{
    return wanted_reached;
}

static void print_mutant(const struct mutant *m, const struct change *change)
{
    (void)change;
    (void)printf("%s\n", m->id);
}

void sim__list_mutants(void)
{
    for (struct sim_site *site = reached; site != NULL; site = site->next)
        each_mutant(site, print_mutant);
}
