/* SPDX-License-Identifier: MIT */
/*
 * rejections.c - rejection policies as extensions.
 *
 * Those without settings are constants and belong to nobody.  report and block are made for
 * one pool and given back with it.  A report's interval is therefore one pool's, where
 * Dubbo's is the process's: each message names its own pool and address, and an exhausted
 * pool does not silence another.
 */
#include "config/url_pool.h"

#include <stdio.h>

#include "base/assert.h"
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
    o.dir = spn_url_get_string(url, "dump.directory", NULL);
    o.no_stacks = spn_url_get_bool(url, "dump.enable", 1) == 0;
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
