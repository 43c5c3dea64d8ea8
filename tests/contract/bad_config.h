/* SPDX-License-Identifier: MIT */
/* bad_config.h - what bad_input.h has of configuration: see there. */
#ifndef BAD_CONFIG_H
#define BAD_CONFIG_H

#include <spindle/extension.h>
#include <spindle/repository.h>
#include <spindle/url.h>
#include <spindle/url_pool.h>

static const spn_url_parts some_parts = { .size = sizeof some_parts,
                                          .host = "h",
                                          .port = SPN_DEFAULT };
static const spn_extension_kind taken_kind = { sizeof taken_kind, "reject", NULL,
                                               NULL };
static const spn_extension some_extension = { .size = sizeof some_extension,
                                              .kind = "reject",
                                              .name = "some",
                                              .instance = &taken_kind };
static const spn_url_pool_opts plain_pool = SPN_URL_POOL_OPTS_INIT;

/* For a file without a section. */
static inline int no_url(void *ctx, const char *section, const spn_url *url)
{
    (void)ctx;
    (void)section;
    (void)url;
    return SPN_EFAILED;
}

/* Of the fixture, by themselves, for the header that knows it comes later. */
struct config_fixture {
    spn_url *url;               /* dubbo://u:w@h:1/p?a=x&n=5 */
    spn_url *plain;             /* h:2?threads=2&reject=abort&queues=4 */
    spn_extensions *extensions; /* used by url_pool */
    spn_url_pool *url_pool;     /* of plain, alive */
    spn_repository *repository; /* with a pool of plain, given back */
};

static inline void open_repository_of(struct config_fixture *c)
{
    spn_pool *pool;

    REQUIRE_OK(spn_repository_create(&c->repository, NULL));
    REQUIRE_OK(spn_repository_get_or_create(c->repository, c->plain, &pool, NULL));
    REQUIRE_OK(spn_repository_release(c->repository, pool));
}

static inline void open_config(struct config_fixture *c)
{
    spn_url_pool_opts opts = SPN_URL_POOL_OPTS_INIT;

    REQUIRE_OK(spn_url_parse(&c->url, "dubbo://u:w@h:1/p?a=x&n=5", NULL));
    REQUIRE_OK(spn_url_parse(&c->plain, "h:2?threads=2&reject=abort&queues=4", NULL));
    REQUIRE_OK(spn_extensions_create(&c->extensions, NULL));
    opts.extensions = c->extensions;
    REQUIRE_OK(spn_url_pool_create(&c->url_pool, c->plain, &opts, NULL));
    open_repository_of(c);
}

static inline void end_url_pool(spn_url_pool *url_pool)
{
    CHECK_OK(spn_pool_close(spn_url_pool_pool(url_pool)));
    CHECK_OK(spn_url_pool_destroy(url_pool));
}

static inline void close_config(struct config_fixture *c)
{
    CHECK_OK(spn_repository_destroy_all(c->repository, 0));
    CHECK_OK(spn_repository_destroy(c->repository));
    end_url_pool(c->url_pool);
    CHECK_OK(spn_extensions_destroy(c->extensions));
    spn_url_unref(c->url);
    spn_url_unref(c->plain);
}

static inline void on_extension(void *ctx, const spn_extension *e, const char *origin)
{
    (void)ctx;
    CHECK(e != NULL && origin != NULL);
}

static inline void on_kind(void *ctx, const spn_extension_kind *kind)
{
    (void)ctx;
    CHECK(kind != NULL);
}

static inline void on_pool(void *ctx, const char *key, spn_pool *pool)
{
    (void)ctx;
    CHECK(key != NULL && pool != NULL);
}

#endif /* BAD_CONFIG_H */
