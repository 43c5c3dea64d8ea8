/* SPDX-License-Identifier: MIT */
/* scenario_repository.c - get-or-create against shutdown against the end of all; changes
 * against each other; an extension that many ask for; a URL that two have. */
#include "pool_calls.h"
#include "sim.h"

#include <spindle.h>

#include "sync/seam.h"

static spn_repository *repository;
static spn_url *url;
static SPN__ATOMIC(int) accepted, ran, dropped, next;
static spn_task tasks[4]; /* one for each use */

static int run(spn_task *task)
{
    (void)task;
    (void)spn__fetch_add(&ran, 1, relaxed);
    return 0;
}

/* No thread could be had for it: it was accepted, and its owner is told. */
static void told(spn_task *task, int reason)
{
    (void)task;
    (void)reason;
    (void)spn__fetch_add(&dropped, 1, relaxed);
}

static bool begin(const char *text)
{
    spn__init(&accepted, 0);
    spn__init(&ran, 0);
    spn__init(&dropped, 0);
    spn__init(&next, 0);
    url = NULL;
    repository = NULL;
    if (spn_url_parse(&url, text, NULL) != SPN_OK)
        return false;
    if (spn_repository_create(&repository, NULL) == SPN_OK)
        return true;
    spn_url_unref(url);
    return false;
}

static void end(void)
{
    int rc = spn_repository_destroy_all(repository, SPN_FOREVER);

    while (rc == SPN_ENOMEM)
        rc = spn_repository_destroy_all(repository, SPN_FOREVER);
    sim_assert(rc == SPN_OK);
    sim_assert(spn__load(&ran, relaxed) + spn__load(&dropped, relaxed) ==
               spn__load(&accepted, relaxed));
    sim_assert(spn_repository_destroy(repository) == SPN_OK);
    spn_url_unref(url);
}

/* Takes the pool, uses it, gives it back.  Whatever else goes on, a pool that was given
 * stays there until then. */
static void use(void *arg)
{
    spn_task *task;
    spn_pool *pool;
    int rc = spn_repository_get_or_create(repository, url, &pool, NULL);

    (void)arg;
    sim_assert(rc == SPN_OK || rc == SPN_ESHUTDOWN || rc == SPN_ENOMEM);
    if (rc != SPN_OK) {
        sim_assert(pool == NULL);
        return;
    }
    task = &tasks[spn__fetch_add(&next, 1, relaxed)];
    *task = (spn_task)SPN_TASK_INIT(run, told);
    rc = spn_executor_execute(spn_pool_executor(pool), task);
    sim_assert(rc == SPN_OK || rc == SPN_EREJECTED || rc == SPN_ENOMEM ||
               rc == SPN_EAGAIN);
    if (rc == SPN_OK)
        (void)spn__fetch_add(&accepted, 1, relaxed);
    sim_assert(spn_repository_release(repository, pool) == SPN_OK);
}

static void shut_down(void *arg)
{
    spn_pool *pool;

    (void)arg;
    if (spn_repository_get_or_create(repository, url, &pool, NULL) != SPN_OK)
        return;
    sim_assert(pool_shutdown(pool) == SPN_OK);
    sim_assert(spn_repository_release(repository, pool) == SPN_OK);
}

static void end_all(void *arg)
{
    const int rc = spn_repository_destroy_all(repository, SPN_FOREVER);

    (void)arg;
    sim_assert(rc == SPN_OK || rc == SPN_ENOMEM);
}

/* Two that want the pool and one that shuts it down: whoever asks gets one that lives, or
 * sees it die in his hands; each is freed once, and none is left. */
SCENARIO(repository__got_while_shut_down__lives_while_taken, "REP-8", "REP-9", "REP-16",
         "X-18")
{
    if (!begin("h:1?threadpool=cached&threads=2&queues=4&reject=abort"))
        return;
    sim_thread(use, NULL);
    sim_thread(shut_down, NULL);
    use(NULL);
    sim_join_all();
    end();
}
SCENARIO_OPTS(repository__got_while_shut_down__lives_while_taken, .faults = true)

/* The end of all while pools are asked for: no pool outlives it, no task is lost. */
SCENARIO(repository__got_while_all_end__nothing_is_left, "REP-15")
{
    if (!begin("h:1?threadpool=cached&threads=2&queues=4&reject=abort"))
        return;
    sim_thread(use, NULL);
    sim_thread(end_all, NULL);
    use(NULL);
    sim_join_all();
    end();
}

static void change(void *arg)
{
    spn_problem problem;
    spn_url *to;

    if (spn_url_parse(&to, arg, NULL) != SPN_OK)
        return;
    (void)spn_repository_update(repository, to, &problem);
    spn_url_unref(to);
}

static void watch(void *arg)
{
    spn_pool_stats stats = SPN_POOL_STATS_INIT;

    sim_assert(spn_pool_stats_get(arg, &stats) == SPN_OK);
    sim_assert(stats.core_threads <= stats.max_threads);
}

/* Two updates and a task at once: the end is that of either order, and no task is lost. */
SCENARIO(repository__updates_at_once__end_as_one_after_the_other, "REP-11", "REP-13",
         "X-18")
{
    spn_pool *pool;
    int32_t core, max;

    if (!begin("h:1?threads=2&queues=4&reject=abort"))
        return;
    sim_assert(spn_repository_get_or_create(repository, url, &pool, NULL) == SPN_OK);
    sim_thread(change, "h:1?threads=1");
    sim_thread(change, "h:1?threads=3");
    use(NULL);
    sim_join_all();
    watch(pool);
    core = pool_stats(pool).core_threads;
    max = pool_stats(pool).max_threads;
    sim_assert(core <= max);
    /* The pool was fixed, and is: whichever came last. */
    sim_assert((core == 1 && max == 1) || (core == 3 && max == 3));
    sim_assert(spn_repository_release(repository, pool) == SPN_OK);
    end();
}

/* ---- an extension that several ask for ------------------------------------------------ */

static spn_extensions *extensions;
static SPN__ATOMIC(int) made, unmade;
static const int thing;

static int make(const spn_extension *self, const void *inner, const void **out)
{
    (void)self;
    (void)inner;
    sim_assert(spn__fetch_add(&made, 1, relaxed) == 0);
    *out = &thing;
    return 0;
}

static void unmake(const spn_extension *self, const void *instance)
{
    (void)self;
    sim_assert(instance == &thing);
    (void)spn__fetch_add(&unmade, 1, relaxed);
}

static void ask(void *arg)
{
    const void *out;
    const int rc = spn_extensions_get(extensions, "reject", "thing", &out, NULL);

    (void)arg;
    sim_assert(rc == SPN_OK || rc == SPN_ENOMEM);
    sim_assert((rc == SPN_OK) == (out == &thing));
}

/* Made once, whoever asks when; those who wait are woken. */
SCENARIO(extension__asked_for_at_once__is_made_once, "EXT-6", "EXT-19")
{
    const spn_extension e = { .size = sizeof e,
                              .kind = "reject",
                              .name = "thing",
                              .create = make,
                              .destroy = unmake };

    spn__init(&made, 0);
    spn__init(&unmade, 0);
    if (spn_extensions_create(&extensions, NULL) != SPN_OK)
        return;
    if (spn_extensions_register(extensions, &e, NULL) == SPN_OK) {
        sim_thread(ask, NULL);
        sim_thread(ask, NULL);
        ask(NULL);
        sim_join_all();
    }
    sim_assert(spn_extensions_destroy(extensions) == SPN_OK);
    sim_assert(spn__load(&made, relaxed) == spn__load(&unmade, relaxed));
}
SCENARIO_OPTS(extension__asked_for_at_once__is_made_once, .faults = true)

/* ---- a URL that two have ------------------------------------------------------------- */

static void lets_go_of_it(void *arg)
{
    spn_url_unref(arg);
}

/* Who lets go of it last frees it, after all that the other did with it. */
SCENARIO(url__two_let_go_of_it__freed_once)
{
    if (spn_url_parse(&url, "a://b", NULL) != SPN_OK)
        return;
    sim_thread(lets_go_of_it, spn_url_ref(url));
    spn_url_unref(url);
    sim_join_all();
}
SCENARIO_OPTS(url__two_let_go_of_it__freed_once, .dfs = 2)
