/* SPDX-License-Identifier: MIT */
/*
 * pool_url.c - a pool made of a URL, found again by another part of the program, and made
 * larger while it runs.
 */
#include <spindle.h>

#include <stdio.h>

static int greet(void *arg)
{
    printf("%s from %s\n", (const char *)arg, spn_pool_name(spn_pool_current()));
    return 0;
}

static int change(spn_repository *repository, const char *text)
{
    spn_problem problem;
    spn_url *url;
    int rc = spn_url_parse(&url, text, &problem);

    if (rc == SPN_OK)
        rc = spn_repository_reconfigure(repository, url, &problem);
    if (rc != SPN_OK)
        printf("no: %s\n", problem.text);
    spn_url_unref(url);
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
    if (change(repository, "dubbo://10.0.0.1:20880?threads=8&alive=500") != SPN_OK)
        return 1;
    printf("up to %d threads now\n", (int)spn_pool_max_threads(pool));
    if (change(repository, "dubbo://10.0.0.1:20880?threads=many") != SPN_EINVAL)
        return 1;
    if (spn_repository_release(repository, pool) != SPN_OK)
        return 1;
    spn_url_unref(url);
    if (spn_repository_destroy_all(repository, SPN_SEC(10)) != SPN_OK)
        return 1;
    return spn_repository_destroy(repository) == SPN_OK ? 0 : 1;
}
