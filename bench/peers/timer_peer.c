/* SPDX-License-Identifier: MIT */
/*
 * timer_peer.c - the timer workloads for a peer in C or C++.
 *
 *     timer_peer_X T1 THREADS PENDING PAIRS
 *     timer_peer_X T2 TIMERS
 *     timer_peer_X T3 TIMERS MILLISECONDS
 *     timer_peer_X T4 TIMERS
 *     timer_peer_X T5 TASKS
 *     timer_peer_X T6 TIMERS MILLISECONDS
 *
 * Prints what bench_exec expects.
 */
#include "timer_peer.h"

#include <pthread.h>
#include <stdatomic.h>

#include "timer_load.h"

static struct fire fire;
static atomic_size_t fired, wanted = SIZE_MAX;

int peer_loop_time;

void peer_fired(size_t index)
{
    if (fire.count != 0)
        fire_note(&fire, index);
    atomic_fetch_add_explicit(&fired, 1, memory_order_relaxed);
}

int peer_enough(void)
{
    return atomic_load_explicit(&fired, memory_order_relaxed) >=
           atomic_load_explicit(&wanted, memory_order_relaxed);
}

static void value(void *ctx, const char *metric, double number)
{
    (void)ctx;
    printf("value %s %.6f\n", metric, number);
}

struct part {
    struct churn churn;
    size_t first, count;
    uint64_t pairs, warm_up;
};
static pthread_barrier_t barrier;

static void *churn_part(void *arg)
{
    struct part *p = arg;

    churn_run(&p->churn, p->warm_up, peer_add, peer_cancel);
    pthread_barrier_wait(&barrier);
    churn_run(&p->churn, p->pairs, peer_add, peer_cancel);
    return NULL;
}

static int churn(int threads, size_t pending, uint64_t pairs)
{
    struct part parts[2];
    pthread_t second;
    int64_t begun;
    double cpu_s, wall;

    if (threads > peer_threads_max) {
        printf("skip only the loop's own thread may use it\n");
        return 0;
    }
    peer_loop_time = 1;
    peer_open(pending + (size_t)threads);
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++) {
        parts[i].count = pending / (size_t)threads;
        parts[i].first = (size_t)i * (parts[i].count + 1);
        parts[i].pairs = pairs / (uint64_t)threads;
        parts[i].warm_up = pairs / 20;
        churn_fill(&parts[i].churn, parts[i].first, parts[i].count, peer_add);
    }
    if (threads == 2 && pthread_create(&second, NULL, churn_part, &parts[1]) != 0)
        return 1;
    churn_run(&parts[0].churn, parts[0].warm_up, peer_add, peer_cancel);
    cpu_s = load_cpu_s();
    pthread_barrier_wait(&barrier);
    begun = load_now();
    churn_run(&parts[0].churn, parts[0].pairs, peer_add, peer_cancel);
    if (threads == 2)
        pthread_join(second, NULL);
    wall = (double)(load_now() - begun);
    value(NULL, "ns_per_pair", wall / (double)pairs);
    value(NULL, "cpu_ns_per_pair", (load_cpu_s() - cpu_s) * 1e9 / (double)pairs);
    return 0;
}

static int shoot(size_t count)
{
    uint64_t seed = 88172645463325252u;
    double cpu_s;
    int64_t begun;

    fire_init(&fire, count);
    peer_open(count);
    atomic_store(&wanted, count);
    cpu_s = load_cpu_s();
    begun = load_now();
    for (size_t i = 0; i < count; i++) {
        const int64_t delay_ns = fire_delay_ms(&seed) * 1000000;

        fire.shots[i].due_ns = load_now() + delay_ns;
        peer_add(i, delay_ns);
    }
    value(NULL, "insert_ns", (double)(load_now() - begun) / (double)count);
    peer_loop(INT64_MAX);
    fire_figures(&fire, load_cpu_s() - cpu_s, value, NULL);
    return 0;
}

/* Adds timers an hour away and lets the loop run. */
static int wait_long(size_t count, int64_t ms, int t6)
{
    double cpu_s, spent;
    long switches;

    peer_open(count + 1);
    for (size_t i = 0; i < count; i++)
        peer_add(i, t6 ? 600000000000 + (int64_t)i * 1000 : 3600000000000);
    peer_add(count, ms * 1000000 + 200000000); /* ends the wait of those who poll */
    peer_loop(load_now() + 100000000);
    switches = load_switches();
    cpu_s = load_cpu_s();
    peer_loop(load_now() + ms * 1000000);
    spent = load_cpu_s() - cpu_s;
    if (t6) {
        value(NULL, "cpu_ms_per_s", spent * 1e6 / (double)ms);
    } else {
        double often = (double)(load_switches() - switches - 1) * 1000 / (double)ms;

        value(NULL, "wakeups_per_s", often > 0 ? often : 0);
        value(NULL, "cpu_ms", spent * 1e3);
    }
    return 0;
}

static int insert(size_t count)
{
    uint64_t seed = 88172645463325252u;
    double cpu_s;
    int64_t begun;

    if (peer_threads_max < 2) {
        printf("skip only the loop's own thread may use it\n");
        return 0;
    }
    peer_open(count);
    atomic_store_explicit(&wanted, count, memory_order_relaxed);
    cpu_s = load_cpu_s();
    begun = load_now();
    for (size_t i = 0; i < count; i++)
        peer_add(i, insert_delay(&seed));
    value(NULL, "insert_ns", (double)(load_now() - begun) / (double)count);
    peer_loop(INT64_MAX);
    value(NULL, "cpu_s", load_cpu_s() - cpu_s);
    return 0;
}

static int weigh(size_t count)
{
    double before = load_resident();

    peer_open(count);
    for (size_t i = 0; i < count; i++)
        peer_add(i, 600000000000 + (int64_t)i * 1000);
    value(NULL, "bytes_per_timer", (load_resident() - before) / (double)count);
    return 0;
}

static int work(const char *name, const uint64_t n[3])
{
    if (strcmp(name, "T1") == 0)
        return churn((int)n[0], n[1], n[2]);
    if (strcmp(name, "T2") == 0)
        return shoot(n[0]);
    if (strcmp(name, "T3") == 0)
        return wait_long(n[0], (int64_t)n[1], 0);
    if (strcmp(name, "T4") == 0)
        return weigh(n[0]);
    if (strcmp(name, "T5") == 0)
        return insert(n[0]);
    if (strcmp(name, "T6") == 0)
        return wait_long(n[0], (int64_t)n[1], 1);
    fprintf(stderr, "usage: timer_peer_X T1|T2|T3|T4|T5|T6 NUMBER...\n");
    return 2;
}

int main(int argc, char **argv)
{
    uint64_t n[3] = { 0, 0, 0 };
    int status;

    for (int i = 0; i < 3 && i + 2 < argc; i++)
        n[i] = strtoull(argv[i + 2], NULL, 10);
    status = work(argc > 1 ? argv[1] : "", n);
    fflush(stdout);
    _Exit(status); /* a thread of the peer may still use what exit would destroy */
}
