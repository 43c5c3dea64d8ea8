/* SPDX-License-Identifier: MIT */
/*
 * thread_pools.c - after getExecutor of FixedThreadPool, CachedThreadPool, LimitedThreadPool
 * and EagerThreadPool in documents 000 (16.1, 16.4) and 004: the pools that a URL describes,
 * with Dubbo's defaults; updateThreadpool (16.5), and what it cannot change.
 */
#include <spindle.h>

#include <stdio.h>

static spn_url_pool *pool_of(const char *query)
{
    char text[200];
    spn_problem problem = SPN_PROBLEM_INIT;
    spn_url_pool *made = NULL;
    spn_url *url;

    snprintf(text, sizeof text, "dubbo://10.0.0.1:20880?dump.enable=false&%s", query);
    if (spn_url_parse(&url, text, &problem) != SPN_OK)
        return NULL;
    if (spn_url_pool_create(&made, url, NULL, &problem) != SPN_OK)
        printf("%-40s %s\n", query, problem.text);
    spn_url_unref(url);
    return made;
}

static void show(const char *query, spn_url_pool *made)
{
    spn_pool_stats s = SPN_POOL_STATS_INIT;

    if (spn_pool_stats_get(spn_url_pool_pool(made), &s) != SPN_OK)
        return;
    printf("%-40s core %d, max ", query, (int)s.core_threads);
    printf(s.max_threads == SPN_POOL_THREADS_MAX ? "no limit" : "%d",
           (int)s.max_threads);
    printf(s.keep_alive_ns == INT64_MAX ? ", alive for ever" : ", alive %lld ms",
           (long long)(s.keep_alive_ns / SPN_MS(1)));
    printf(s.capacity == INT64_MAX ? ", queue without limit\n" : ", queue %d\n",
           (int)s.capacity);
}

static void end(spn_url_pool *made)
{
    spn_pool_close(spn_url_pool_pool(made));
    spn_url_pool_destroy(made);
}

static int wait_for(void *gate)
{
    return spn_latch_await(gate, SPN_SEC(30));
}

int main(void)
{
    static const char *const queries[] = {
        "threadpool=fixed",
        "threadpool=cached",
        "threadpool=limited",
        "threadpool=eager",
        "threadpool=fixed&threads=8&queues=-1",
        "threadpool=cached&corethreads=2&alive=5",
        "threadpool=virtual",
    };
    const char *eager = "threadpool=eager&threads=2&queues=1";
    spn_url_pool *made;
    spn_url *url;
    spn_latch *gate;

    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++)
        if ((made = pool_of(queries[i])) != NULL) {
            show(queries[i], made);
            end(made);
        }

    /* Eager: threads first, then the queue, then the policy. */
    if (spn_latch_create(&gate, 1) != SPN_OK || (made = pool_of(eager)) == NULL ||
        spn_log_set_level(SPN_LOG_OFF) != SPN_OK) /* the report's line */
        return 1;
    for (int task = 1; task <= 4; task++) {
        const int rc = spn_executor_call(spn_url_pool_executor(made), wait_for, gate);
        spn_pool_stats s = SPN_POOL_STATS_INIT;

        if (spn_pool_stats_get(spn_url_pool_pool(made), &s) != SPN_OK)
            return 1;
        printf("eager, task %d: %s, %d threads, %d submitted\n", task,
               spn_status_name(rc), (int)s.threads, (int)s.submitted);
    }
    if (spn_url_parse(&url, "dubbo://10.0.0.1:20880?threads=4", NULL) != SPN_OK ||
        spn_url_pool_update(spn_url_pool_pool(made), url, NULL) != SPN_OK)
        return 1;
    show("updateThreadpool with threads=4", made);
    spn_url_unref(url);
    /* What Dubbo cannot: all sizes in one step. */
    if (spn_url_parse(&url, "dubbo://10.0.0.1:20880?corethreads=1&queues=8&alive=500",
                      NULL) != SPN_OK ||
        spn_url_pool_reconfigure(spn_url_pool_pool(made), url, NULL) != SPN_OK)
        return 1;
    show("corethreads=1&queues=8&alive=500", made);
    spn_url_unref(url);
    spn_latch_count_down(gate);
    end(made);
    spn_latch_destroy(gate);
    return 0;
}
