/* SPDX-License-Identifier: MIT */
/*
 * test_config.c - every allocation of a script that reads URLs, registers extensions, makes
 * a pool with a report and uses a repository fails, once and from then on.  Each call must
 * succeed or say so, and no block may be left.
 */
#include "faults.h"
#include "test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <spindle.h>

static int whole; /* scripts that got to their end */

static bool ok(int rc)
{
    CHECK(rc == SPN_OK || rc == SPN_ENOMEM || rc == SPN_EAGAIN);
    return rc == SPN_OK;
}

static int make(const spn_extension *self, const void *inner, const void **out)
{
    (void)inner;
    *out = self;
    return SPN_OK;
}

static int wrap(const spn_extension *self, const void *inner, const void **out)
{
    (void)self;
    *out = inner;
    return SPN_OK;
}

static void use_extensions(spn_extensions *x, const spn_url *url)
{
    static const spn_extension_kind kind = { sizeof kind, "codec", "plain", NULL };
    spn_extension e = { .size = sizeof e, .kind = "codec", .name = "plain" };
    const void *found[2];

    if (!ok(spn_extensions_define(x, &kind, NULL)))
        return;
    e.create = make;
    e.flags = SPN_EXTENSION_ACTIVATE;
    if (!ok(spn_extensions_register(x, &e, NULL)))
        return;
    e.name = "around";
    e.flags = SPN_EXTENSION_WRAPPER;
    e.create = wrap;
    if (!ok(spn_extensions_register(x, &e, NULL)))
        return;
    if (ok(spn_extensions_choose(x, "codec", url, &found[0], NULL)))
        whole +=
            spn_extensions_activate(x, "codec", url, NULL, NULL, found, 2, NULL) == 1;
}

/* A chain with two members that are made. */
static void use_chain(spn_extensions *x)
{
    spn_url_pool_opts opts = SPN_URL_POOL_OPTS_INIT;
    spn_url_pool *up = NULL;
    spn_url *url = NULL;

    opts.extensions = x;
    if (ok(spn_url_parse(&url, "h?reject=chain:block,report&dump.enable=false",
                         NULL)) &&
        ok(spn_url_pool_create(&up, url, &opts, NULL))) {
        CHECK_OK(spn_pool_close(spn_url_pool_pool(up)));
        CHECK_OK(spn_url_pool_destroy(up));
        whole++;
    }
    spn_url_unref(url);
}

static void use_repository(spn_repository *r, const spn_url *url)
{
    spn_executor *shared;
    spn_timer *timer;
    spn_pool *pool;
    spn_url *other;

    if (ok(spn_repository_get_or_create(r, url, &pool, NULL)))
        CHECK_OK(spn_repository_release(r, pool));
    if (ok(spn_url_set(url, "threads", "3", &other))) {
        const int rc = spn_repository_update(r, other, NULL);

        CHECK(rc == SPN_OK || rc == SPN_EEMPTY);
        spn_url_unref(other);
    }
    if (ok(spn_repository_shared(r, &shared)))
        whole += ok(spn_repository_shared_timer(r, &timer));
}

/* Two sections of a file, /dev/fd/N of a pipe, so that nothing is left on the disk. */
static int take_url(void *ctx, const char *section, const spn_url *url)
{
    int *told = ctx;

    (void)section;
    *told += spn_url_port(url);
    return SPN_OK;
}

static void read_file(void)
{
    static const char text[] = "[dubbo]\nhost=h\nport=1\n[dubbo b]\nhost=h\nport=2\n";
    char path[32];
    int ends[2], told = 0;

    REQUIRE(pipe(ends) == 0);
    CHECK_EQ(write(ends[1], text, sizeof text - 1), sizeof text - 1);
    CHECK_EQ(close(ends[1]), 0);
    (void)snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    if (ok(spn_url_file_read(path, take_url, &told, NULL)))
        whole += told == 3;
    else
        CHECK_EQ(told, 0);
    CHECK_EQ(close(ends[0]), 0);
}

static void script(void)
{
    spn_repository_opts of_repository = SPN_REPOSITORY_OPTS_INIT;
    spn_repository *r = NULL;
    spn_extensions *x = NULL;
    spn_url *url = NULL;

    if (ok(spn_url_parse(&url, "dubbo://h:1?threads=2&dump.enable=false&default.a=b",
                         NULL)) &&
        ok(spn_extensions_create(&x, NULL))) {
        use_extensions(x, url);
        use_chain(x);
        of_repository.extensions = x;
        if (ok(spn_repository_create(&r, &of_repository)))
            use_repository(r, url);
    }
    read_file();
    if (r != NULL)
        CHECK_OK(spn_repository_destroy_all(r, T_LONG_NS));
    CHECK_OK(spn_repository_destroy(r));
    CHECK_OK(spn_extensions_destroy(x));
    spn_url_unref(url);
}

static void sweep(bool more)
{
    (void)spn_thread_current();
    whole = 0;
    script();
    script(); /* what is kept for good is there */
    CHECK_EQ(whole, 8);
    fault_sweep(script, more, 30);
}

/* One allocation fails. */
TEST(config__each_allocation_fails__nothing_is_left, "EXT-19", "REP-18", "G-22")
{
    sweep(false);
}

/* All fail from one on. */
TEST(config__all_allocations_fail_from_one_on__nothing_is_left, "EXT-19", "REP-18",
     "G-22")
{
    sweep(true);
}
