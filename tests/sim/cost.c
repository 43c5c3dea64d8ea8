/* SPDX-License-Identifier: MIT */
/*
 * cost.c - the events that scripts/cost counts: how often an operation wakes, sleeps,
 * locks the bus, fences, allocates and enters the kernel.
 *
 *     sim_cost --list         one case a line: name, what the operation is
 *     sim_cost [CASE...]      one event a line: case, event, count per operation
 *
 * OVERVIEW
 *   Each case is one schedule: sequential consistency, run to block (strategy.c).  The
 *   operation is done ROUNDS times between two looks at sim_counts, after as many that
 *   warm up; before each, all other threads sleep.  So what a case says depends on the
 *   source alone: not on the machine, the compiler or the load.
 *
 *   Everything of the process counts: submitter and worker, or client, server and the
 *   network between them (net_sim.c).
 *
 *   The library is compiled as for the explorer: LANES has chunks of 3 tasks, and a wait
 *   spins once.  Counts are for comparing with each other, not with a running process.
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <spindle-rpc.h>
#include <spindle.h>

/* A multiple of what fills a chunk of LANES, so that each round has its share. */
enum { ROUNDS = 12, BURST = 8, SERVER_THREADS = 2 };

struct event_case {
    const char *name, *about;
    void (*prepare)(const struct event_case *c);
    void (*operate)(void);
    void (*end)(void);
    spn_pool_queue_kind kind; /* of a pool */
    int32_t threads;          /* of a pool */
    const char *dispatcher;   /* of a server */
};

/* ---- pools ------------------------------------------------------------------ */

static spn_pool *pool;

static int run_nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int give_arg(void *arg, void **value)
{
    *value = arg;
    return 0;
}

static int give_arg_late(void *arg, void **value)
{
    sim_sleep(SPN_US(1)); /* virtual time: the waiter sleeps by then */
    *value = arg;
    return 0;
}

static void prepare_pool(const struct event_case *c)
{
    spn_pool_opts opts = SPN_POOL_OPTS_INIT;

    opts.core_threads = opts.max_threads = c->threads;
    opts.queue_capacity = SPN_UNBOUNDED;
    opts.queue_kind = (uint32_t)c->kind;
    sim_assert(spn_pool_create(&pool, &opts) == SPN_OK);
}

static void end_pool(void)
{
    sim_assert(spn_pool_close(pool) == SPN_OK);
    sim_assert(spn_pool_destroy(pool) == SPN_OK);
}

static void submit_and_get(spn_call_fn fn)
{
    spn_future *future;
    void *value;

    sim_assert(spn_executor_submit(spn_pool_executor(pool), fn, &pool, &future) ==
               SPN_OK);
    sim_assert(spn_future_get(future, &value, SPN_FOREVER) == SPN_OK);
    sim_assert(value == &pool);
    spn_future_unref(future);
}

static void round_trip(void)
{
    submit_and_get(give_arg);
}

static void round_trip_late(void)
{
    submit_and_get(give_arg_late);
}

static void call_one(void)
{
    sim_assert(spn_executor_call(spn_pool_executor(pool), run_nothing, NULL) == SPN_OK);
}

static void call_burst(void)
{
    for (int i = 0; i < BURST; i++)
        call_one();
}

/* ---- a server and its client ------------------------------------------------- */

static spn_server *server;
static spn_client *client;

static int method(void *arg, spn_request *request)
{
    (void)arg;
    (void)request;
    return 0;
}

static const spn_method methods[] = { { "m", NULL, method, NULL } };
static const spn_service service = {
    .size = sizeof(spn_service), .interface = "a", .methods = methods, .method_count = 1
};

static void prepare_server(const struct event_case *c)
{
    char url[200];

    (void)spn_log_set_level(SPN_LOG_OFF);
    (void)snprintf(url, sizeof url,
                   "dubbo://sim:7?iothreads=1&dump.enable=false&heartbeat=0"
                   "&threadpool=fixed&threads=%d&queues=-1&dispatcher=%s",
                   SERVER_THREADS, c->dispatcher);
    sim_assert(spn_server_create(&server, url, NULL, NULL) == SPN_OK);
    sim_assert(spn_server_export(server, &service, NULL) == SPN_OK);
    sim_assert(spn_server_start(server, NULL) == SPN_OK);
    sim_assert(spn_client_create(&client, "dubbo://sim:7?heartbeat=0&dispatcher=direct",
                                 NULL, NULL) == SPN_OK);
}

static void end_server(void)
{
    sim_assert(spn_client_close(client, SPN_SEC(1)) == SPN_OK);
    sim_assert(spn_client_destroy(client) == SPN_OK);
    sim_assert(spn_server_stop(server, SPN_SEC(1)) == SPN_OK);
    sim_assert(spn_server_destroy(server) == SPN_OK);
}

static void call_server(void)
{
    const spn_invocation invocation = SPN_INVOCATION_INIT("a", "m");
    spn_reply *reply = NULL;

    sim_assert(spn_client_call(client, &invocation, &reply, NULL) == SPN_OK);
    spn_reply_destroy(reply);
}

/* ---- the cases ------------------------------------------------------------------ */

#define POOL(case_name, text, operation, queue_kind, thread_count)     \
    {                                                                  \
        .name = (case_name), .about = (text), .prepare = prepare_pool, \
        .operate = (operation), .end = end_pool, .kind = (queue_kind), \
        .threads = (thread_count)                                      \
    }
#define SERVER(dispatcher_name)                                               \
    {                                                                         \
        .name = "rpc-" dispatcher_name,                                       \
        .about = "a call of a server with the dispatcher " dispatcher_name,   \
        .prepare = prepare_server, .operate = call_server, .end = end_server, \
        .dispatcher = dispatcher_name                                         \
    }

static const struct event_case cases[] = {
    POOL("round-trip", "a task with a future, submitted and waited for", round_trip,
         SPN_POOL_FIFO, 1),
    POOL("round-trip-late", "the same, the waiter being asleep when it ends",
         round_trip_late, SPN_POOL_FIFO, 1),
    POOL("wake-idle", "a call to two idle workers, of which one is to wake", call_one,
         SPN_POOL_FIFO, 2),
    POOL("burst", "8 calls to two idle workers", call_burst, SPN_POOL_FIFO, 2),
    POOL("lanes-round-trip", "LANES: a task with a future, submitted and waited for",
         round_trip, SPN_POOL_LANES, 1),
    POOL("lanes-wake-idle",
         "LANES: a call to two idle workers, of which one is to wake", call_one,
         SPN_POOL_LANES, 2),
    POOL("lanes-burst", "LANES: 8 calls to two idle workers", call_burst,
         SPN_POOL_LANES, 2),
    SERVER("all"),
    SERVER("direct"),
    SERVER("message"),
    SERVER("execution"),
    SERVER("connection"),
};
enum { CASES = sizeof cases / sizeof *cases };

static const struct event_case *current;
static struct sim_counts before, after;

static void operate_rounds(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        current->operate();
        sim_settle();
    }
}

static void run_case(void)
{
    current->prepare(current);
    operate_rounds();
    before = sim_counts();
    operate_rounds();
    after = sim_counts();
    current->end();
}

static void print_event(const char *event, uint64_t from, uint64_t to)
{
    (void)printf("%s\t%s\t%.6g\n", current->name, event, (double)(to - from) / ROUNDS);
}

static bool count_case(const struct event_case *c)
{
    static const struct sim_config config = { .model = SIM_SC,
                                              .strategy = SIM_RUN_TO_BLOCK,
                                              .schedules = 1 };
    const struct sim_scenario scenario = { .name = c->name,
                                           .ids = "",
                                           .file = __FILE__,
                                           .body = run_case,
                                           .opts = { .max_steps = 1000000 } };

    current = c;
    if (sim_explore(&scenario, &config).failures != 0)
        return false;
    print_event("wake-ups", before.wakeups, after.wakeups);
    print_event("wakes", before.wakes, after.wakes);
    print_event("sleeps", before.sleeps, after.sleeps);
    print_event("rmws", before.rmws, after.rmws);
    print_event("fences", before.fences, after.fences);
    print_event("light-fences", before.light, after.light);
    print_event("heavy-fences", before.heavy, after.heavy);
    print_event("allocations", before.allocs, after.allocs);
    print_event("system-calls", before.syscalls, after.syscalls);
    return true;
}

static const struct event_case *find_case(const char *name)
{
    for (size_t i = 0; i < CASES; i++)
        if (strcmp(cases[i].name, name) == 0)
            return &cases[i];
    (void)fprintf(stderr, "no case '%s': --list prints them\n", name);
    exit(2);
}

int main(int argc, char **argv)
{
    bool ok = true;

    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (size_t i = 0; i < CASES; i++)
            (void)printf("%s\t%s\n", cases[i].name, cases[i].about);
        return 0;
    }
    for (int i = 1; i < argc; i++)
        ok = count_case(find_case(argv[i])) && ok;
    for (size_t i = 0; argc == 1 && i < CASES; i++)
        ok = count_case(&cases[i]) && ok;
    return !ok;
}
