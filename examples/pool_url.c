/* SPDX-License-Identifier: MIT */
/*
 * pool_url.c - a pool made of a URL, found again by another part of the program, and made
 * larger while it runs, and smaller again when the peak is over.
 */
#include <spindle.h>

#include <stdio.h>

static spn_pool_stats look_at(spn_pool *pool)
{
    spn_pool_stats stats = SPN_POOL_STATS_INIT;

    (void)spn_pool_stats_get(pool, &stats);
    return stats;
}

static int greet(void *arg)
{
    printf("%s from %s\n", (const char *)arg, look_at(spn_pool_current()).name);
    return 0;
}

/* Another part of the program, which knows the address alone. */
static int greet_from_afar(spn_repository *repository)
{
    spn_problem problem;
    spn_pool *pool;
    spn_url *url;
    int rc = spn_url_parse(&url, "dubbo://10.0.0.1:20880", &problem);

    if (rc == SPN_OK)
        rc = spn_repository_get(repository, url, &pool, &problem);
    if (rc == SPN_OK) {
        rc = spn_executor_call(spn_pool_executor(pool), greet, "hello again");
        (void)spn_repository_release(repository, pool);
    }
    spn_url_unref(url);
    return rc;
}

/* `apply` is spn_repository_reconfigure, which takes all sizes in one step, or
 * spn_repository_update, which has `threads` alone mean what it means to Dubbo. */
static int change(spn_repository *repository, const char *text,
                  int (*apply)(spn_repository *, const spn_url *, spn_problem *))
{
    spn_problem problem;
    spn_url *url;
    int rc = spn_url_parse(&url, text, &problem);

    if (rc == SPN_OK)
        rc = apply(repository, url, &problem);
    if (rc != SPN_OK)
        printf("no: %s\n", problem.text);
    spn_url_unref(url);
    return rc;
}

static int end_peak(void *repository, void **result)
{
    *result = NULL;
    return change(repository, "dubbo://10.0.0.1:20880?threads=4",
                  spn_repository_reconfigure);
}

/* On the scheduled executor that the program's parts share. */
static int await_end_of_peak(spn_repository *repository)
{
    spn_scheduled *shared;
    spn_future *end;
    int rc = spn_repository_scheduled(repository, &shared);

    if (rc == SPN_OK) /* a program says an hour, and does not wait */
        rc = spn_scheduled_schedule(shared, end_peak, repository, SPN_MS(10), &end);
    if (rc == SPN_OK) {
        rc = spn_future_get(end, NULL, SPN_SEC(60));
        spn_future_unref(end);
    }
    return rc;
}

int main(void)
{
    spn_repository *repository;
    spn_problem problem;
    spn_pool *pool;
    spn_url *url;

    if (spn_repository_create(&repository, NULL) != SPN_OK)
        return 1;
    if (spn_url_parse(
            &url,
            "dubbo://10.0.0.1:20880?threadpool=cached&corethreads=1&threads=4&"
            "queues=100&threadname=hello",
            &problem) != SPN_OK ||
        spn_repository_get_or_create(repository, url, &pool, &problem) != SPN_OK) {
        fprintf(stderr, "%s\n", problem.text);
        return 1;
    }
    if (spn_executor_call(spn_pool_executor(pool), greet, "hello") != SPN_OK)
        return 1;
    if (greet_from_afar(repository) != SPN_OK)
        return 1;
    if (change(repository, "dubbo://10.0.0.1:20880?threads=8&alive=500",
               spn_repository_reconfigure) != SPN_OK)
        return 1;
    printf("up to %d threads now\n", (int)look_at(pool).max_threads);
    if (await_end_of_peak(repository) != SPN_OK || look_at(pool).max_threads != 4)
        return 1;
    if (change(repository, "dubbo://10.0.0.1:20880?threads=6", spn_repository_update) !=
            SPN_OK ||
        look_at(pool).max_threads != 6)
        return 1;
    if (change(repository, "dubbo://10.0.0.1:20880?threads=many",
               spn_repository_reconfigure) != SPN_EINVAL)
        return 1;
    if (spn_repository_release(repository, pool) != SPN_OK)
        return 1;
    spn_url_unref(url);
    if (spn_repository_destroy_all(repository, SPN_SEC(10)) != SPN_OK)
        return 1;
    return spn_repository_destroy(repository) == SPN_OK ? 0 : 1;
}
