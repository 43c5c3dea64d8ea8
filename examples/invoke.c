/* SPDX-License-Identifier: MIT */
/*
 * invoke.c - ask three replicas: all of them with a deadline, then whoever answers
 * first.  With a path as its argument it writes a trace there, for chrome://tracing: which
 * thread was with which replica, and for how long.
 */
#include <spindle.h>

#include <stdio.h>

struct replica {
    const char *name;
    int64_t delay_ns;
};

/* Waits as a network would; gives up when nobody wants the answer any more. */
static int ask(void *arg, void **result)
{
    struct replica *r = arg;

    if (spn_clock_sleep_until(spn_clock_monotonic(), spn_now() + r->delay_ns) != SPN_OK)
        return spn_future_fail(1, "interrupted");
    *result = r;
    return 0;
}

int main(int argc, char **argv)
{
    struct replica replicas[] = { { "near", SPN_MS(1) },
                                  { "far", SPN_MS(5) },
                                  { "gone", SPN_SEC(3600) } };
    spn_pool_opts opts = spn_pool_opts_fixed(3, SPN_UNBOUNDED);
    spn_trace *trace = NULL;
    spn_future *answers[3];
    spn_call calls[3];
    spn_pool *pool;
    void *value;
    int status;

    for (int i = 0; i < 3; i++)
        calls[i] = (spn_call){ ask, &replicas[i] };
    if (argc > 1) {
        (void)remove(argv[1]); /* of the last time */
        if (spn_trace_create(&trace, argv[1]) != SPN_OK ||
            spn_trace_install(trace, &opts.hooks) != SPN_OK)
            return 1;
    }
    if (spn_pool_create(&pool, &opts) != SPN_OK)
        return 1;

    /* All of them, as far as they answer within 100 ms; the rest is cancelled. */
    status = spn_executor_invoke_all(spn_pool_executor(pool), calls, 3, SPN_MS(100),
                                     NULL, answers);
    if (status != SPN_OK)
        return 1;
    for (int i = 0; i < 3; i++) {
        printf("%s: %s\n", replicas[i].name,
               spn_future_state_name(spn_future_get_state(answers[i])));
        spn_future_unref(answers[i]);
    }

    /* The first one will do. */
    status = spn_executor_invoke_any(spn_pool_executor(pool), calls, 3, SPN_SEC(10),
                                     NULL, &value, NULL);
    if (status != SPN_OK)
        return 1;
    printf("first: %s\n", ((struct replica *)value)->name);

    if (spn_pool_close(pool) != SPN_OK || spn_pool_destroy(pool) != SPN_OK)
        return 1;
    return spn_trace_close(trace) == SPN_OK ? 0 : 1;
}
