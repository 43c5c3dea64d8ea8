/* SPDX-License-Identifier: MIT */
/*
 * rejections.c - rejection policies as extensions.
 *
 * Those without settings are constants and belong to nobody.  report and block are made for
 * one pool and given back with it.  A report's interval is therefore one pool's, where
 * Dubbo's is the process's: each message names its own pool and address, and an exhausted
 * pool does not silence another.
 *
 * A chain is made of others, each with what the URL says of it: the keys of a member are
 * those it has alone.  What a member needs is given back with the chain.
 */
#include "config/url_pool.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "config/ext.h"
#include "config/problem.h"
#include "sync/seam.h"

/* ---- without settings --------------------------------------------------------------------- */

#define CONSTANT(name)                                                                \
    static int make_##name(const spn_rejection *self, const spn_url *url,             \
                           const spn_url_pool_opts *opts,                             \
                           const spn_reject_policy **out, spn_problem *problem)       \
    {                                                                                 \
        (void)self;                                                                   \
        (void)url;                                                                    \
        (void)opts;                                                                   \
        (void)problem;                                                                \
        *out = spn_reject_##name();                                                   \
        return SPN_OK;                                                                \
    }                                                                                 \
    const spn_rejection spn__rejection_##name = { sizeof(spn_rejection), make_##name, \
                                                  NULL }

CONSTANT(abort);
CONSTANT(caller_runs);
CONSTANT(discard);
CONSTANT(discard_oldest);
CONSTANT(new_thread);

/* ---- block ---------------------------------------------------------------------------------- */

enum { DEFAULT_BLOCK_MS = 60000 };

static int make_block(const spn_rejection *self, const spn_url *url,
                      const spn_url_pool_opts *opts, const spn_reject_policy **out,
                      spn_problem *problem)
{
    spn_reject_block *block;
    int64_t timeout_ms = 0;
    int rc = spn__url_number(url, "reject.timeout", 1, INT32_MAX, DEFAULT_BLOCK_MS,
                             &timeout_ms, problem);

    (void)self;
    (void)opts;
    if (rc != SPN_OK)
        return rc;
    block = spn__alloc(sizeof *block);
    if (block == NULL)
        return SPN_ENOMEM;
    *block = (spn_reject_block)SPN_REJECT_BLOCK_INIT(SPN_MS(timeout_ms));
    *out = &block->policy;
    return SPN_OK;
}

static void free_block(const spn_rejection *self, const spn_reject_policy *policy)
{
    (void)self;
    spn__free((void *)(uintptr_t)policy); /* the policy is first */
}

const spn_rejection spn__rejection_block = { sizeof(spn_rejection), make_block,
                                             free_block };

/* ---- report ----------------------------------------------------------------------------------- */

static int make_report(const spn_rejection *self, const spn_url *url,
                       const spn_url_pool_opts *opts, const spn_reject_policy **out,
                       spn_problem *problem)
{
    spn_reject_report_opts o = SPN_REJECT_REPORT_OPTS_INIT;
    spn_reject_report *report;
    char address[512];
    int rc;

    (void)self;
    (void)snprintf(address, sizeof address, "%s://%s:%d",
                   spn_url_protocol(url) != NULL ? spn_url_protocol(url) : "-",
                   spn_url_host(url) != NULL ? spn_url_host(url) : "-",
                   (int)spn_url_port(url));
    o.address = address;
    o.dir = spn_url_get_string(url, NULL, "dump.directory", NULL);
    o.no_stacks = spn_url_get_bool(url, NULL, "dump.enable", 1) == 0;
    o.exhausted = opts->exhausted;
    o.ctx = opts->ctx;
    rc = spn_reject_report_create(&report, &o);
    if (rc != SPN_OK)
        return spn__refuse(problem, rc, 0, "the report could not be made: %s",
                           spn_status_text(rc));
    *out = spn_reject_report_policy(report);
    return SPN_OK;
}

/* The policy is the first part of its report: they are one object. */
static void free_report(const spn_rejection *self, const spn_reject_policy *policy)
{
    const int rc =
        spn_reject_report_destroy((spn_reject_report *)(void *)(uintptr_t)policy);

    (void)self;
    /* The caller's own record of a thread may be refused; then the report is left. */
    spn__debug_assert(rc == SPN_OK || rc == SPN_ENOMEM);
    (void)rc;
}

const spn_rejection spn__rejection_report = { sizeof(spn_rejection), make_report,
                                              free_report };

/* ---- chain ------------------------------------------------------------------------------------ */

static const char chain_prefix[] = "chain:";

enum { CHAIN_MAX = 8, PREFIX_LENGTH = sizeof chain_prefix - 1 };

/* The policy is first, and what it points to lies behind it. */
struct chain {
    spn_reject_chain policy;
    size_t count;
    const spn_reject_policy *policies[CHAIN_MAX];
    const spn_rejection *makers[CHAIN_MAX];
};

int spn__rejection_find(spn_extensions *extensions, const char *text,
                        const spn_rejection **out, spn_problem *problem)
{
    const bool is_chain =
        text != NULL && strncmp(text, chain_prefix, PREFIX_LENGTH) == 0;
    const void *instance;
    int rc = spn_extensions_get(extensions, SPN_KIND_REJECT, is_chain ? "chain" : text,
                                &instance, problem);

    if (rc != SPN_OK)
        return rc;
    *out = instance;
    if ((*out)->size < sizeof **out)
        return spn__refuse(problem, SPN_EINVAL, 0, "this %s has a wrong size",
                           SPN_KIND_REJECT);
    return SPN_OK;
}

/* In reverse: who was made last may rely on the others. */
static void free_chain(const spn_rejection *self, const spn_reject_policy *policy)
{
    struct chain *chain = (struct chain *)(void *)(uintptr_t)policy;

    (void)self;
    for (size_t i = chain->count; i-- > 0;)
        if (chain->makers[i]->destroy != NULL)
            chain->makers[i]->destroy(chain->makers[i], chain->policies[i]);
    spn__free(chain);
}

/* Says what can be in a chain. */
static int refuse_chain(const spn_url_pool_opts *opts, int rc, const char *text,
                        const char *why, spn_problem *problem)
{
    struct spn__names names;

    return spn__refuse(problem, rc, 0,
                       "reject=%.80s: %s; expected 1 to %d policies, as in "
                       "reject=chain:block,caller-runs; there are: %s",
                       text, why, CHAIN_MAX,
                       spn__extensions_names(opts->extensions, SPN_KIND_REJECT,
                                             &names));
}

static bool is_name(struct spn__span item)
{
    char name[SPN__NAME_MAX + 2]; /* what is cut is still too long */

    (void)snprintf(name, sizeof name, "%.*s", (int)item.length, item.text);
    return spn__is_name(name);
}

static int add_member(struct chain *chain, struct spn__span item, const spn_url *url,
                      const spn_url_pool_opts *opts, spn_problem *problem)
{
    const spn_rejection **maker = &chain->makers[chain->count];
    char name[SPN__NAME_MAX + 1];
    int rc;

    (void)snprintf(name, sizeof name, "%.*s", (int)item.length, item.text);
    rc = spn__rejection_find(opts->extensions, name, maker, problem);
    if (rc == SPN_OK)
        rc = (*maker)->create(*maker, url, opts, &chain->policies[chain->count],
                              problem);
    chain->count += rc == SPN_OK;
    return rc;
}

static int fill_chain(struct chain *chain, const spn_url *url,
                      const spn_url_pool_opts *opts, spn_problem *problem)
{
    const char *const text = spn_url_get_string(url, NULL, "reject", "chain");
    const char *list =
        strncmp(text, chain_prefix, PREFIX_LENGTH) == 0 ? text + PREFIX_LENGTH : "";
    struct spn__span item;
    int rc = SPN_OK;

    while (rc == SPN_OK && (item = spn__list_next(&list)).text != NULL) {
        if (strncmp(item.text, "chain", 5) == 0 &&
            (item.length == 5 || item.text[5] == ':'))
            return refuse_chain(opts, SPN_EINVAL, text, "a chain cannot be in a chain",
                                problem);
        if (chain->count == CHAIN_MAX)
            return refuse_chain(opts, SPN_ERANGE, text, "too many policies", problem);
        if (!is_name(item))
            return refuse_chain(opts, SPN_EINVAL, text, "a name has a-z, 0-9, _ and -",
                                problem);
        rc = add_member(chain, item, url, opts, problem);
    }
    if (rc == SPN_OK && chain->count == 0)
        return refuse_chain(opts, SPN_EINVAL, text, "the chain is empty", problem);
    return rc;
}

static int make_chain(const spn_rejection *self, const spn_url *url,
                      const spn_url_pool_opts *opts, const spn_reject_policy **out,
                      spn_problem *problem)
{
    struct chain *chain = spn__alloc(sizeof *chain);
    int rc;

    if (chain == NULL)
        return SPN_ENOMEM;
    chain->count = 0;
    rc = fill_chain(chain, url, opts, problem);
    chain->policy =
        (spn_reject_chain)SPN_REJECT_CHAIN_INIT(chain->policies, chain->count);
    if (rc != SPN_OK)
        free_chain(self, &chain->policy.policy);
    else
        *out = &chain->policy.policy;
    return rc;
}

const spn_rejection spn__rejection_chain = { sizeof(spn_rejection), make_chain,
                                             free_chain };
