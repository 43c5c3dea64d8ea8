/* SPDX-License-Identifier: MIT */
/* test_pool_refuse.c - what becomes of a task that a pool cannot take. */
#include "pools.h"

#include <pthread.h>

#include <spindle/report.h>

/* A pool of one thread that is held, and a full queue. */
struct full {
    spn_pool *pool;
    spn_latch *gate;
    struct piece hold, waits[2];
    int32_t capacity;
};

static void full_open(struct full *f, const spn_reject_policy *policy, int32_t capacity)
{
    spn_pool_opts opts = opts_of(1, 1, capacity);

    opts.reject = policy;
    f->pool = pool_with(&opts);
    f->gate = gate_new();
    f->capacity = capacity;
    piece_init(&f->hold, f->gate);
    pieces_init(f->waits, 2, NULL);
    start(f->pool, &f->hold);
    for (int i = 0; i < capacity; i++)
        CHECK_OK(execute(f->pool, &f->waits[i]));
}

static void full_close(struct full *f)
{
    gate_open(f->gate);
    pool_close(f->pool);
    CHECK(ran(&f->hold));
    gate_free(f->gate);
}

static int give_back(void *arg, void **result)
{
    *result = arg;
    return 0;
}

static int count_up(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return 0;
}

/* ---- the four of the contract --------------------------------------------------------- */

/* Abort: the task is refused, as execute, call and submit, and is its owner's. */
TEST(reject__abort__refused_and_untouched, "TPE-76", "TPE-66")
{
    struct full f;
    struct piece p;
    atomic_int runs = 0;
    spn_future *future = (void *)&f;

    full_open(&f, spn_reject_abort(), 1);
    piece_init(&p, NULL);
    CHECK_STATUS(execute(f.pool, &p), SPN_EREJECTED);
    CHECK_STATUS(spn_executor_call(spn_pool_executor(f.pool), count_up, &runs),
                 SPN_EREJECTED);
    CHECK_STATUS(spn_executor_submit(spn_pool_executor(f.pool), give_back, NULL,
                                     &future),
                 SPN_EREJECTED);
    CHECK(future == NULL);
    CHECK_EQ(pool_stats(f.pool).rejected, 3);
    CHECK_EQ(pool_tasks(f.pool), 2);
    full_close(&f);
    CHECK(untouched(&p));
    CHECK_EQ(p.task.queued, 0);
    CHECK_EQ(atomic_load(&runs), 0);
}

/* Discard: it is dropped, with the reason, and the caller is told that all is well. */
TEST(reject__discard__dropped_and_ok, "TPE-76")
{
    struct full f;
    struct piece p;

    full_open(&f, spn_reject_discard(), 1);
    piece_init(&p, NULL);
    CHECK_OK(execute(f.pool, &p));
    CHECK(dropped(&p, SPN_EREJECTED));
    CHECK_EQ(p.tid, peer_gettid());
    CHECK_EQ(pool_stats(f.pool).queued, 1);
    full_close(&f);
    CHECK(ran(&f.waits[0]));
}

/* Caller runs: it has run, here, when execute returns. */
TEST(reject__caller_runs__run_here_before_return, "TPE-76")
{
    struct full f;
    struct piece p;
    atomic_int runs = 0;

    full_open(&f, spn_reject_caller_runs(), 1);
    piece_init(&p, NULL);
    p.code = -3; /* a failure is the task's, not execute's */
    CHECK_OK(execute(f.pool, &p));
    CHECK(ran(&p));
    CHECK_EQ(p.tid, peer_gettid());
    CHECK_OK(spn_executor_call(spn_pool_executor(f.pool), count_up, &runs));
    CHECK_EQ(atomic_load(&runs), 1);
    CHECK_EQ(pool_stats(f.pool).caller_ran, 2);
    CHECK_EQ(pool_stats(f.pool).accepted, 2);
    CHECK_EQ(pool_tasks(f.pool), 2);
    full_close(&f);
}

/* Caller runs on a pool that was shut down drops the task. */
TEST(reject__caller_runs_after_shutdown__dropped, "TPE-77")
{
    struct full f;
    struct piece p[2];

    full_open(&f, spn_reject_caller_runs(), 1);
    pieces_init(p, 2, NULL);
    CHECK_OK(pool_shutdown(f.pool));
    CHECK_OK(execute(f.pool, &p[0]));
    CHECK(dropped(&p[0], SPN_ESHUTDOWN));
    gate_open(f.gate);
    CHECK_OK(pool_await(f.pool, SPN_FOREVER));
    CHECK_OK(execute(f.pool, &p[1])); /* terminated: the same */
    CHECK(dropped(&p[1], SPN_ESHUTDOWN));
    CHECK(ran(&f.waits[0]));
    CHECK_OK(spn_pool_destroy(f.pool));
    gate_free(f.gate);
}

/* Discard oldest: the one that waited longest goes, the new one takes its place. */
TEST(reject__discard_oldest__head_dropped_new_one_queued, "TPE-78")
{
    struct full f;
    struct piece p;
    spn_task *seen[3];
    spn_pool_stats s;

    full_open(&f, spn_reject_discard_oldest(), 2);
    piece_init(&p, NULL);
    CHECK_OK(execute(f.pool, &p));
    CHECK(dropped(&f.waits[0], SPN_EREJECTED));
    CHECK_EQ(spn_pool_snapshot(f.pool, seen, 3), 2);
    CHECK(seen[0] == &f.waits[1].task && seen[1] == &p.task);
    s = pool_stats(f.pool);
    CHECK_EQ(s.dropped, 1);
    CHECK_EQ(s.accepted, 4);
    full_close(&f);
    CHECK(ran(&p) && ran(&f.waits[1]));
}

/* Discard oldest with nothing to drop ends: the new task is refused, without endless
 * tries. */
TEST(reject__discard_oldest_of_nothing__refused, "TPE-80")
{
    struct full f;
    struct piece p;

    full_open(&f, spn_reject_discard_oldest(), SPN_HANDOFF);
    piece_init(&p, NULL);
    CHECK_STATUS(execute(f.pool, &p), SPN_EREJECTED);
    CHECK(untouched(&p));
    CHECK_EQ(pool_stats(f.pool).rejected, 1);
    full_close(&f);
}

/* Discard oldest on a pool that was shut down drops the new one. */
TEST(reject__discard_oldest_after_shutdown__new_one_dropped, "TPE-79")
{
    struct full f;
    struct piece p;

    full_open(&f, spn_reject_discard_oldest(), 2);
    piece_init(&p, NULL);
    CHECK_OK(pool_shutdown(f.pool));
    CHECK_OK(execute(f.pool, &p));
    CHECK(dropped(&p, SPN_ESHUTDOWN));
    full_close(&f);
    CHECK(ran(&f.waits[0]) && ran(&f.waits[1]));
}

/* New thread: it runs beside the pool, on a thread that is none of it. */
TEST(reject__new_thread__runs_beside_the_pool, "S-6")
{
    struct full f;
    struct piece p;

    full_open(&f, spn_reject_new_thread(), 1);
    piece_init(&p, NULL);
    CHECK_OK(execute(f.pool, &p));
    T_AWAIT(ended(&p) == 1);
    CHECK(ran(&p));
    CHECK(p.tid != peer_gettid() && p.tid != f.hold.tid);
    CHECK_EQ(pool_stats(f.pool).threads, 1);
    CHECK_EQ(pool_stats(f.pool).caller_ran, 1);
    CHECK_EQ(pool_stats(f.pool).queued, 1);
    CHECK_OK(pool_shutdown(f.pool));
    piece_init(&p, NULL);
    CHECK_STATUS(execute(f.pool, &p), SPN_EREJECTED);
    full_close(&f);
    CHECK(untouched(&p));
}

/* Shut down, saturated or terminated: every policy is asked, and told why. */
struct asked {
    spn_reject_policy policy;
    atomic_int calls;
    uint32_t reason;
    int tid, rc;
    spn_pool *pool;
    spn_task *task;
    spn_pool_stats stats;
    int64_t refused_at_ns;
    int (*then)(struct asked *a, spn_pool *pool, spn_task *task);
    spn_queue *queue; /* of the pool's, for then */
};

static int ask(const spn_reject_policy *policy, spn_pool *pool, spn_task *task,
               const spn_refusal *why)
{
    struct asked *a = (struct asked *)(uintptr_t)policy;

    a->reason = why->reason;
    a->stats = (spn_pool_stats)SPN_POOL_STATS_INIT;
    CHECK_OK(spn_refusal_stats(why, &a->stats));
    a->refused_at_ns = why->refused_at_ns;
    a->tid = peer_gettid();
    a->pool = pool;
    a->task = task;
    atomic_fetch_add(&a->calls, 1);
    return a->then != NULL ? a->then(a, pool, task) : a->rc;
}

static void asked_init(struct asked *a, int rc)
{
    memset(a, 0, sizeof *a);
    a->policy = (spn_reject_policy){ sizeof a->policy, "asked", ask };
    a->rc = rc;
}

/* A policy of the user's: once per refused task, on the submitter, with the pool and a
 * picture; what it says is what execute says. */
TEST(reject__own_policy__once_here_and_its_word_counts, "TPE-82", "TPE-66")
{
    static const int words[] = { SPN_OK, SPN_EREJECTED, SPN_EFULL, SPN_EPERM };
    struct asked a;
    struct full f;
    struct piece p[4];
    int64_t before;

    asked_init(&a, SPN_OK);
    full_open(&f, &a.policy, 2);
    pieces_init(p, 4, NULL);
    CHECK_EQ(atomic_load(&a.calls), 0);
    for (int i = 0; i < 4; i++) {
        a.rc = words[i];
        before = spn_now();
        CHECK_STATUS(execute(f.pool, &p[i]), words[i]);
        CHECK_EQ(atomic_load(&a.calls), i + 1);
        CHECK(a.refused_at_ns >= before && a.refused_at_ns <= spn_now());
    }
    CHECK_EQ(a.reason, SPN_REFUSED_FULL);
    CHECK_EQ(a.tid, peer_gettid());
    CHECK(a.pool == f.pool && a.task == &p[3].task);
    CHECK_EQ(a.stats.threads, 1);
    CHECK_EQ(a.stats.active, 1);
    CHECK_EQ(a.stats.queued, 2);
    CHECK_EQ(a.stats.capacity, 2);
    CHECK_EQ(a.stats.core_threads, 1);
    CHECK_EQ(a.stats.max_threads, 1);
    CHECK_EQ(a.stats.state, SPN_EXECUTOR_RUNNING);
    CHECK_OK(pool_shutdown(f.pool));
    CHECK_STATUS(execute(f.pool, &p[1]), SPN_EPERM);
    CHECK_EQ(a.reason, SPN_REFUSED_SHUTDOWN);
    gate_open(f.gate);
    CHECK_OK(pool_await(f.pool, SPN_FOREVER));
    CHECK_STATUS(execute(f.pool, &p[1]), SPN_EPERM);
    CHECK_EQ(a.reason, SPN_REFUSED_SHUTDOWN);
    CHECK_EQ(a.stats.state, SPN_EXECUTOR_TERMINATED);
    CHECK_EQ(atomic_load(&a.calls), 6);
    CHECK_OK(spn_pool_destroy(f.pool));
    gate_free(f.gate);
}

static int make_none(const spn_thread_factory *factory, spn_thread **out,
                     spn_thread_opts *opts, spn_thread_fn fn, void *arg)
{
    (void)factory;
    (void)opts;
    (void)fn;
    (void)arg;
    *out = NULL;
    return SPN_EAGAIN;
}

/* With no thread to be had the policy is told so. */
TEST(reject__no_thread__the_reason_says_so, "TPE-82", "TPE-22")
{
    static const spn_thread_factory none = { sizeof none, make_none };
    spn_pool_opts opts = opts_of(1, 1, 4);
    struct asked a;
    struct piece p;
    spn_pool *pool;

    asked_init(&a, SPN_EPERM);
    opts.reject = &a.policy;
    opts.factory = &none;
    pool = pool_with(&opts);
    piece_init(&p, NULL);
    CHECK_STATUS(execute(pool, &p), SPN_EPERM);
    CHECK_EQ(a.reason, SPN_REFUSED_NO_THREAD);
    CHECK_EQ(atomic_load(&a.calls), 1);
    pool_close(pool);
}

/* The policy may try again on the same pool: nested, one refusal each. */
static int try_again(struct asked *a, spn_pool *pool, spn_task *task)
{
    if (atomic_load(&a->calls) < 3)
        return spn_executor_execute(spn_pool_executor(pool), task);
    return SPN_EREJECTED;
}

static int make_room_and_try_again(struct asked *a, spn_pool *pool, spn_task *task)
{
    (void)a;
    CHECK_OK(pool_set_capacity(pool, 5));
    return spn_executor_execute(spn_pool_executor(pool), task);
}

TEST(reject__policy_submits_again__nested_not_stuck, "TPE-83", "TPE-82")
{
    struct asked a;
    struct full f;
    struct piece p[2];

    asked_init(&a, 0);
    a.then = try_again;
    full_open(&f, &a.policy, 1);
    pieces_init(p, 2, NULL);
    CHECK_STATUS(execute(f.pool, &p[0]), SPN_EREJECTED);
    CHECK_EQ(atomic_load(&a.calls), 3);
    a.then = make_room_and_try_again;
    CHECK_OK(execute(f.pool, &p[1]));
    CHECK_EQ(pool_stats(f.pool).queued, 2);
    full_close(&f);
    CHECK(untouched(&p[0]) && ran(&p[1]));
}

/* The policy may put the task into the pool's queue itself: it runs. */
static int put_into_queue(struct asked *a, spn_pool *pool, spn_task *task)
{
    int rc;

    (void)pool;
    CHECK_OK(spn_task_claim(task));
    gate_open(((struct piece *)(void *)task)->arg); /* there will be room */
    rc = spn_queue_put(a->queue, task, SPN_FOREVER);
    CHECK_OK(rc);
    return rc;
}

TEST(reject__policy_puts_into_the_queue__runs, "TPE-83")
{
    spn_pool_opts opts = opts_of(1, 1, SPN_DEFAULT);
    spn_queue_opts q = SPN_QUEUE_OPTS_INIT;
    spn_latch *gate = gate_new();
    struct piece p[3];
    struct asked a;
    spn_queue *queue;
    spn_pool *pool;

    q.capacity = 1;
    REQUIRE_OK(spn_queue_create(&queue, SPN_QUEUE_LINKED, &q));
    asked_init(&a, 0);
    a.then = put_into_queue;
    a.queue = queue;
    opts.queue = queue;
    opts.reject = &a.policy;
    pool = pool_with(&opts);
    pieces_init(p, 3, NULL);
    p[0].gate = gate;
    p[2].arg = gate;
    start(pool, &p[0]);
    CHECK_OK(execute(pool, &p[1]));
    CHECK_OK(execute(pool, &p[2]));
    T_AWAIT(ended(&p[2]) == 1);
    pool_close(pool);
    CHECK(ran(&p[1]) && ran(&p[2]));
    CHECK_OK(spn_queue_destroy(queue));
    gate_free(gate);
}

/* Policies called by hand on an idle pool leave it as it is. */
TEST(reject__called_on_an_idle_pool__pool_unchanged, "TPE-76")
{
    const spn_reject_policy *all[] = { spn_reject_abort(), spn_reject_discard(),
                                       spn_reject_caller_runs() };
    spn_pool *pool = pool_of(1, 1, 2);
    const spn_refusal why = { .reason = SPN_REFUSED_FULL };
    struct piece p[3];

    pieces_init(p, 3, NULL);
    CHECK_STATUS(all[0]->refused(all[0], pool, &p[0].task, &why), SPN_EREJECTED);
    CHECK_OK(all[1]->refused(all[1], pool, &p[1].task, &why));
    CHECK_OK(all[2]->refused(all[2], pool, &p[2].task, &why));
    CHECK(untouched(&p[0]));
    CHECK(dropped(&p[1], SPN_EREJECTED));
    CHECK(ran(&p[2]) && p[2].tid == peer_gettid());
    CHECK_EQ(pool_stats(pool).threads, 0);
    CHECK_EQ(pool_stats(pool).queued, 0);
    CHECK_EQ(pool_tasks(pool), 0);
    pool_close(pool);
}

/* A submitted future swallowed by a policy that only says OK, or one that drops it. */
TEST(reject__future_discarded__never_done_by_itself_or_told, "TPE-81")
{
    struct asked a;
    struct full f;
    spn_future *future;

    asked_init(&a, SPN_OK); /* swallows it without a word */
    full_open(&f, &a.policy, 1);
    REQUIRE_OK(
        spn_executor_submit(spn_pool_executor(f.pool), give_back, NULL, &future));
    CHECK_STATUS(spn_future_get(future, NULL, T_PROBE_NS), SPN_ETIMEDOUT);
    CHECK_EQ(spn_future_get_state(future), SPN_FUTURE_PENDING);
    CHECK_EQ(spn_future_cancel(future, 0), 1);
    CHECK_STATUS(spn_future_get(future, NULL, 0), SPN_ECANCELED);
    (void)spn_task_drop(a.task, SPN_EREJECTED); /* what the policy owed */
    spn_future_unref(future);
    /* The library's own discard tells it. */
    CHECK_OK(pool_set_reject(f.pool, spn_reject_discard()));
    REQUIRE_OK(
        spn_executor_submit(spn_pool_executor(f.pool), give_back, NULL, &future));
    CHECK_STATUS(spn_future_get(future, NULL, SPN_FOREVER), SPN_EFAILED);
    spn_future_unref(future);
    full_close(&f);
}

/* Replacing the policy takes effect for the next refusal. */
TEST(reject__policy_replaced__next_refusal_goes_to_it, "TPE-5", "TPE-82")
{
    struct asked a;
    struct full f;
    struct piece p;

    asked_init(&a, SPN_EPERM);
    full_open(&f, spn_reject_abort(), 1);
    piece_init(&p, NULL);
    CHECK_STATUS(execute(f.pool, &p), SPN_EREJECTED);
    CHECK_OK(pool_set_reject(f.pool, &a.policy));
    CHECK_STATUS(execute(f.pool, &p), SPN_EPERM);
    CHECK_EQ(atomic_load(&a.calls), 1);
    full_close(&f);
}

/* ---- block ------------------------------------------------------------------------------- */

/* The default of the block policy is a minute. */
TEST(reject__block_default__sixty_seconds, "S-6")
{
    static const spn_reject_block block = SPN_REJECT_BLOCK_INIT(0);

    CHECK_EQ(block.timeout_ns, 0); /* the comment says: 60 s; see the explorer for it */
    CHECK_STR(block.policy.name, "block");
}

struct submission {
    spn_pool *pool;
    struct piece *piece;
};

static int submit(void *arg)
{
    struct submission *s = arg;

    return execute(s->pool, s->piece);
}

/* Block: waits for room, takes it when it comes, gives up in time, never early. */
TEST(reject__block__waits_for_room_or_gives_up, "S-6", "G-7")
{
    spn_reject_block block = SPN_REJECT_BLOCK_INIT(SPN_MS(5));
    spn_reject_block patient = SPN_REJECT_BLOCK_INIT(SPN_FOREVER);
    struct submission s;
    struct peer peer;
    struct full f;
    struct piece p[2];
    int64_t began;

    full_open(&f, &block.policy, 1);
    pieces_init(p, 2, NULL);
    began = spn_now();
    CHECK_STATUS(execute(f.pool, &p[0]), SPN_ETIMEDOUT);
    CHECK(spn_now() - began >= SPN_MS(5));
    CHECK(untouched(&p[0]));
    CHECK_OK(pool_set_reject(f.pool, &patient.policy));
    s = (struct submission){ f.pool, &p[1] };
    peer_start(&peer, submit, &s);
    peer_await_blocked(&peer);
    CHECK(peer_still_waits(&peer));
    CHECK_EQ(pool_remove(f.pool, &f.waits[0].task), 1); /* room */
    CHECK_OK(peer_finish(&peer));
    CHECK_EQ(pool_stats(f.pool).queued, 1);
    full_close(&f);
    CHECK(ran(&p[1]));
}

/* A worker that takes a task lets a blocked submitter in. */
TEST(reject__block_and_work_goes_on__submitter_gets_in, "S-6", "G-20")
{
    spn_reject_block patient = SPN_REJECT_BLOCK_INIT(SPN_FOREVER);
    struct submission s;
    struct peer peer;
    struct full f;
    struct piece p;

    full_open(&f, &patient.policy, 1);
    piece_init(&p, NULL);
    s = (struct submission){ f.pool, &p };
    peer_start(&peer, submit, &s);
    peer_await_blocked(&peer);
    gate_open(f.gate);
    CHECK_OK(peer_finish(&peer));
    T_AWAIT(ended(&p) == 1);
    pool_close(f.pool);
    gate_free(f.gate);
}

/* Of a hand-off: the room is a thread that becomes free. */
TEST(reject__block_on_a_hand_off__waits_for_a_thread, "S-6")
{
    spn_reject_block patient = SPN_REJECT_BLOCK_INIT(SPN_FOREVER);
    struct submission s;
    struct peer peer;
    struct full f;
    struct piece p;

    full_open(&f, &patient.policy, SPN_HANDOFF);
    piece_init(&p, NULL);
    s = (struct submission){ f.pool, &p };
    peer_start(&peer, submit, &s);
    peer_await_blocked(&peer);
    CHECK(peer_still_waits(&peer));
    gate_open(f.gate);
    CHECK_OK(peer_finish(&peer));
    T_AWAIT(ended(&p) == 1);
    pool_close(f.pool);
    gate_free(f.gate);
}

/* A larger max is room as well: the new thread takes the task. */
TEST(reject__block_and_max_raised__submitter_gets_in, "S-6")
{
    spn_reject_block patient = SPN_REJECT_BLOCK_INIT(SPN_FOREVER);
    struct submission s;
    struct peer peer;
    struct full f;
    struct piece p;

    full_open(&f, &patient.policy, 1);
    piece_init(&p, NULL);
    s = (struct submission){ f.pool, &p };
    peer_start(&peer, submit, &s);
    peer_await_blocked(&peer);
    CHECK_OK(pool_set_max(f.pool, 2));
    CHECK_OK(peer_finish(&peer));
    T_AWAIT(ended(&p) == 1);
    full_close(&f);
}

/* Shutdown releases who waits for room: refused. */
TEST(reject__block_and_shutdown__refused, "S-6", "TPE-66")
{
    for (int now = 0; now < 2; now++) {
        spn_reject_block patient = SPN_REJECT_BLOCK_INIT(SPN_FOREVER);
        struct submission s;
        struct peer peer;
        struct full f;
        struct piece p;
        int rc;

        full_open(&f, &patient.policy, 1);
        piece_init(&p, NULL);
        s = (struct submission){ f.pool, &p };
        peer_start(&peer, submit, &s);
        peer_await_blocked(&peer);
        if (now != 0)
            CHECK_OK(pool_shutdown_now(f.pool, NULL, NULL, NULL));
        else
            CHECK_OK(pool_shutdown(f.pool));
        rc = peer_finish(&peer);
        CHECK(rc == SPN_EREJECTED || rc == SPN_ESHUTDOWN);
        CHECK(untouched(&p));
        full_close(&f);
    }
}

static int blocked_rc;

static void submit_to_own_pool(struct piece *p)
{
    blocked_rc = execute(p->current, p->arg);
}

/* A task that would wait for room in its own pool is refused at once. */
TEST(reject__block_from_inside__edeadlk, "S-6", "G-1", "P9")
{
    spn_reject_block patient = SPN_REJECT_BLOCK_INIT(SPN_FOREVER);
    spn_pool_opts opts = opts_of(1, 1, 1);
    spn_latch *gate = gate_new();
    struct piece p[3];
    spn_pool *pool;

    opts.reject = &patient.policy;
    pool = pool_with(&opts);
    pieces_init(p, 3, NULL);
    p[0].gate = gate;
    p[0].act = submit_to_own_pool;
    p[0].arg = &p[2];
    start(pool, &p[0]);
    CHECK_OK(execute(pool, &p[1])); /* the queue is full now */
    gate_open(gate);
    T_AWAIT(ended(&p[0]) == 1);
    CHECK_STATUS(blocked_rc, SPN_EDEADLK);
    pool_close(pool);
    CHECK(untouched(&p[2]) && ran(&p[1]));
    gate_free(gate);
}

struct turn {
    spn_pool *other;
    struct piece *late;
    pthread_barrier_t *both;
    int rc;
};

static void submit_to_the_other(struct piece *p)
{
    struct turn *turn = p->arg;

    (void)pthread_barrier_wait(turn->both);
    turn->rc = execute(turn->other, turn->late);
}

/* Two pools that are full and whose tasks submit to each other. */
static void close_the_circle(int64_t timeout_ns, struct turn turns[2])
{
    spn_reject_block block = SPN_REJECT_BLOCK_INIT(timeout_ns);
    spn_pool_opts opts = opts_of(1, 1, 1);
    spn_latch *gate = gate_new();
    struct piece p[2], fill[2], late[2];
    pthread_barrier_t both;
    spn_pool *pools[2];

    REQUIRE(pthread_barrier_init(&both, NULL, 2) == 0);
    opts.reject = &block.policy;
    for (int i = 0; i < 2; i++)
        pools[i] = pool_with(&opts);
    pieces_init(p, 2, gate);
    pieces_init(fill, 2, NULL);
    pieces_init(late, 2, NULL);
    for (int i = 0; i < 2; i++) {
        turns[i] = (struct turn){ pools[1 - i], &late[i], &both, 1 };
        p[i].act = submit_to_the_other;
        p[i].arg = &turns[i];
        start(pools[i], &p[i]);
        CHECK_OK(execute(pools[i], &fill[i])); /* the queue is full now */
    }
    gate_open(gate);
    for (int i = 0; i < 2; i++)
        T_AWAIT(ended(&p[i]) == 1);
    pool_close(pools[0]);
    pool_close(pools[1]);
    for (int i = 0; i < 2; i++) {
        CHECK(turns[i].rc == SPN_OK ? ran(&late[i]) : untouched(&late[i]));
        CHECK(ran(&p[i]) && ran(&fill[i]));
    }
    (void)pthread_barrier_destroy(&both);
    gate_free(gate);
}

/* One of them at least gives up in the policy's time, and nobody hangs. */
TEST(reject__block_in_a_cycle_of_pools__ends, "S-6", "P9")
{
    struct turn turns[2];

    close_the_circle(SPN_MS(5), turns);
    for (int i = 0; i < 2; i++)
        CHECK(turns[i].rc == SPN_OK || turns[i].rc == SPN_ETIMEDOUT);
    CHECK(turns[0].rc == SPN_ETIMEDOUT || turns[1].rc == SPN_ETIMEDOUT);
}

/* ---- chain --------------------------------------------------------------------------------- */

/* A chain asks each in turn until one has seen to it; else the last one's word counts. */
TEST(reject__chain__each_in_turn_until_one_says_ok, "S-6")
{
    struct asked a[3];
    const spn_reject_policy *list[] = { &a[0].policy, &a[1].policy, &a[2].policy };
    spn_reject_chain chain = SPN_REJECT_CHAIN_INIT(list, 3);
    struct full f;
    struct piece p;

    for (int i = 0; i < 3; i++)
        asked_init(&a[i], -100 - i);
    full_open(&f, &chain.policy, 1);
    piece_init(&p, NULL);
    CHECK_EQ(execute(f.pool, &p), -102);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(atomic_load(&a[i].calls), 1);
    a[1].rc = SPN_OK;
    CHECK_OK(execute(f.pool, &p));
    CHECK_EQ(atomic_load(&a[0].calls), 2);
    CHECK_EQ(atomic_load(&a[1].calls), 2);
    CHECK_EQ(atomic_load(&a[2].calls), 1);
    CHECK_EQ(a[1].reason, SPN_REFUSED_FULL);
    CHECK_EQ(pool_stats(f.pool).rejected, 1); /* the one nobody saw to */
    full_close(&f);
}

/* Wait a little, then run it here: a chain of the library's own. */
TEST(reject__chain_of_block_and_caller_runs__waits_then_runs, "S-6")
{
    spn_reject_block block = SPN_REJECT_BLOCK_INIT(SPN_MS(2));
    const spn_reject_policy *list[] = { &block.policy, spn_reject_caller_runs() };
    spn_reject_chain chain = SPN_REJECT_CHAIN_INIT(list, 2);
    struct full f;
    struct piece p;
    int64_t began = spn_now();

    full_open(&f, &chain.policy, 1);
    piece_init(&p, NULL);
    CHECK_OK(execute(f.pool, &p));
    CHECK(ran(&p) && p.tid == peer_gettid());
    CHECK(spn_now() - began >= SPN_MS(2));
    full_close(&f);
}

/* ---- report --------------------------------------------------------------------------------- */

struct heard {
    atomic_int reports;
    char message[512];
    int64_t suppressed;
};

static void hear(void *ctx, const spn_exhaustion *what)
{
    struct heard *h = ctx;

    snprintf(h->message, sizeof h->message, "%s", what->message);
    h->suppressed = what->suppressed;
    atomic_fetch_add(&h->reports, 1);
}

struct storm {
    spn_pool *pool;
    atomic_int refused;
};

static void be_refused(int index, void *arg)
{
    struct storm *s = arg;
    struct piece p;

    (void)index;
    piece_init(&p, NULL);
    for (int i = 0; i < 200; i++) {
        CHECK_STATUS(execute(s->pool, &p), SPN_EREJECTED);
        atomic_fetch_add(&s->refused, 1);
    }
    CHECK(untouched(&p));
}

/* However many threads are refused at once, there is one report in the interval, and
 * every task is refused all the same. */
TEST(reject__report_under_a_storm__one_report, "X-14")
{
    spn_reject_report_opts opts = SPN_REJECT_REPORT_OPTS_INIT;
    struct heard heard = { 0 };
    spn_reject_report *report;
    struct storm s = { 0 };
    struct full f;

    opts.no_stacks = 1;
    opts.exhausted = hear;
    opts.ctx = &heard;
    REQUIRE_OK(spn_reject_report_create(&report, &opts));
    full_open(&f, spn_reject_report_policy(report), 1);
    s.pool = f.pool;
    t_parallel(4, be_refused, &s);
    T_AWAIT(atomic_load(&heard.reports) == 1);
    CHECK_EQ(atomic_load(&s.refused), 800);
    CHECK_EQ(pool_stats(f.pool).rejected, 800);
    CHECK(strstr(heard.message, "EXHAUSTED") != NULL);
    CHECK_OK(pool_shutdown(f.pool));
    full_close(&f);
    CHECK_OK(spn_reject_report_destroy(report));
    CHECK_EQ(atomic_load(&heard.reports), 1);
}

/* ---- a closed loop -------------------------------------------------------------------------- */

struct loop {
    spn_pool *pool;
    atomic_long refused, served;
    int rounds;
};

static void call_and_wait(int index, void *arg)
{
    struct loop *l = arg;
    void *value;

    (void)index;
    for (int i = 0; i < l->rounds; i++) {
        spn_future *f;
        const int rc =
            spn_executor_submit(spn_pool_executor(l->pool), give_back, l, &f);

        if (rc == SPN_EREJECTED) {
            atomic_fetch_add(&l->refused, 1);
            continue;
        }
        REQUIRE_OK(rc);
        CHECK_OK(spn_future_get(f, &value, SPN_FOREVER));
        atomic_fetch_add(&l->served, 1);
        spn_future_unref(f);
    }
}

/* As many clients as threads, no queue: a client that got its answer is never refused
 * for want of the thread that gave it... but for the moment that thread needs to come
 * back.  With a queue of as many places it is never refused at all. */
TEST(reject__closed_loop_with_a_queue__never_refused, "P32")
{
    struct loop l = { .pool = pool_of(T_THREADS, T_THREADS, T_THREADS),
                      .rounds = t_rounds(3000) };

    t_parallel(T_THREADS, call_and_wait, &l);
    CHECK_EQ(atomic_load(&l.refused), 0);
    CHECK_EQ(atomic_load(&l.served), (long)T_THREADS * l.rounds);
    pool_close(l.pool);
}

/* The same on a hand-off, where that moment shows: who waits it out is served. */
TEST(reject__closed_loop_on_a_hand_off__served_by_waiting_a_moment, "P32")
{
    static const spn_reject_block moment = SPN_REJECT_BLOCK_INIT(SPN_SEC(60));
    struct loop l = { .pool = pool_of(T_THREADS, T_THREADS, SPN_HANDOFF),
                      .rounds = t_rounds(3000) };

    REQUIRE_OK(pool_set_reject(l.pool, &moment.policy));
    t_parallel(T_THREADS, call_and_wait, &l);
    CHECK_EQ(atomic_load(&l.refused), 0);
    CHECK_EQ(atomic_load(&l.served), (long)T_THREADS * l.rounds);
    pool_close(l.pool);
}
