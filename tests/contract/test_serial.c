/* SPDX-License-Identifier: MIT */
/* test_serial.c - order over an executor that has none. */
#include "counting.h"
#include "executor_kinds.h"
#include "peer.h"
#include "pool_calls.h"
#include "test.h"

struct item {
    spn_task task;
    atomic_int runs, drops, reason;
    int code, number;
    struct log *log;
};

/* The order in which tasks of one key ran; not locked, for they run one at a time. */
struct log {
    int next, bad, inside, overlaps;
};

static int run_item(spn_task *task)
{
    struct item *i = (struct item *)(void *)task;

    if (i->log != NULL) {
        i->log->overlaps += i->log->inside++ != 0;
        i->log->bad += i->log->next++ != i->number;
        i->log->inside--;
    }
    atomic_fetch_add(&i->runs, 1);
    return i->code;
}

static void drop_item(spn_task *task, int reason)
{
    struct item *i = (struct item *)(void *)task;

    atomic_fetch_add(&i->drops, 1);
    atomic_store(&i->reason, reason);
}

static void init(struct item *i, struct log *log, int number)
{
    *i = (struct item){ .task = SPN_TASK_INIT(run_item, drop_item),
                        .number = number,
                        .log = log };
}

static spn_serial *serial(spn_executor *executor, uint32_t batch)
{
    spn_serial_opts opts = SPN_SERIAL_OPTS_INIT;
    spn_serial *s;

    opts.batch = batch;
    REQUIRE_OK(spn_serial_create(&s, executor, &opts));
    return s;
}

static spn_manual_executor *manual(void)
{
    spn_manual_executor *m;

    REQUIRE_OK(spn_manual_executor_create(&m));
    return m;
}

/* A call of one key. */
static int call_key(spn_serial *s, uint64_t key, spn_run_fn fn, void *arg)
{
    spn_executor *turns;
    int rc;

    REQUIRE_OK(spn_serial_open(s, key, &turns));
    rc = spn_executor_call(turns, fn, arg);
    CHECK_OK(spn_serial_close(s, turns));
    return rc;
}

static int submit_key(spn_serial *s, uint64_t key, spn_call_fn fn, void *arg,
                      spn_future **out)
{
    spn_executor *turns;
    int rc;

    REQUIRE_OK(spn_serial_open(s, key, &turns));
    rc = spn_executor_submit(turns, fn, arg, out);
    CHECK_OK(spn_serial_close(s, turns));
    return rc;
}

/* Shuts down, waits and frees. */
static void finish(spn_serial *s)
{
    CHECK_OK(spn_executor_shutdown(spn_serial_executor(s)));
    CHECK_OK(spn_executor_await(spn_serial_executor(s), SPN_FOREVER));
    CHECK_EQ(spn_executor_is_terminated(spn_serial_executor(s)), 1);
    CHECK_OK(spn_serial_destroy(s));
}

/* Ten thousand tasks run one at a time, in the order in which they came. */
TEST(serial__many_tasks__run_one_at_a_time_in_order, "X-15")
{
    enum { TASKS = 10000 };
    static struct item items[TASKS];
    struct kind k;

    EACH_KIND(k)
    {
        const int count = k.pool != NULL ? TASKS : 200;
        spn_serial *s = serial(k.executor, 0);
        struct log log = { 0 };

        for (int i = 0; i < count; i++) {
            init(&items[i], &log, i);
            items[i].code =
                i % 100 == 7 ? SPN_ETIMEDOUT : 0; /* does not stop the rest */
            CHECK_OK(spn_executor_execute(spn_serial_executor(s), &items[i].task));
        }
        finish(s);
        CHECK_EQ(log.next, count);
        CHECK_EQ(log.bad, 0);
        CHECK_EQ(log.overlaps, 0);
    }
}

enum { KEYS = 7, PER_KEY = 300, PRODUCERS = 3 };

struct producers {
    spn_serial *s;
    struct item (*items)[KEYS][PER_KEY];
};

static void produce(int index, void *arg)
{
    struct producers *p = arg;

    for (int i = 0; i < PER_KEY; i++)
        for (int key = 0; key < KEYS; key++)
            CHECK_OK(spn_serial_execute(p->s, (uint64_t)(index * KEYS + key),
                                        &p->items[index][key][i].task));
}

/* Several keys, several producers: an order for each, and nothing is left of a key. */
TEST(serial__many_keys__each_has_its_order, "X-15")
{
    static struct item items[PRODUCERS][KEYS][PER_KEY];
    struct log logs[PRODUCERS][KEYS];
    struct kind k;

    EACH_KIND(k)
    {
        struct producers p = { NULL, items };
        const int per_key = k.pool != NULL ? PER_KEY : PER_KEY;

        if (k.pool == NULL)
            continue; /* a thread for each task would be many */
        p.s = serial(k.executor, 3);
        for (int a = 0; a < PRODUCERS; a++)
            for (int key = 0; key < KEYS; key++) {
                logs[a][key] = (struct log){ 0 };
                for (int i = 0; i < per_key; i++)
                    init(&items[a][key][i], &logs[a][key], i);
            }
        t_parallel(PRODUCERS, produce, &p);
        finish(p.s);
        for (int a = 0; a < PRODUCERS; a++)
            for (int key = 0; key < KEYS; key++) {
                CHECK_EQ(logs[a][key].next, per_key);
                CHECK_EQ(logs[a][key].bad, 0);
                CHECK_EQ(logs[a][key].overlaps, 0);
            }
    }
}

/* Keys without tasks take no memory, however many there were. */
TEST(serial__keys_gone_idle__memory_is_released)
{
    spn_manual_executor *m = manual();
    spn_serial *s = serial(spn_manual_executor_executor(m), 0);
    enum { COUNT = 2000 };
    static struct item items[COUNT];
    spn_executor *open;
    long before;

    (void)spn_thread_current();
    before = atomic_load(&counting_live);
    for (int i = 0; i < COUNT; i++) {
        init(&items[i], NULL, 0);
        CHECK_OK(spn_serial_execute(s, (uint64_t)i * 1000003, &items[i].task));
    }
    CHECK(atomic_load(&counting_live) - before >= COUNT);
    CHECK_STATUS(spn_serial_destroy(s), SPN_EBUSY);
    CHECK(spn_manual_executor_run(m, INT64_MAX) >= 0);
    CHECK(atomic_load(&counting_live) - before <= 16); /* the tables */
    REQUIRE_OK(spn_serial_open(s, 5, &open));
    CHECK_STATUS(spn_serial_destroy(s), SPN_EBUSY);
    init(&items[0], NULL, 0);
    CHECK_OK(spn_executor_execute(open, &items[0].task));
    CHECK(spn_manual_executor_run(m, INT64_MAX) >= 0);
    CHECK_EQ(atomic_load(&items[0].runs), 1);
    CHECK_STATUS(spn_executor_shutdown(open), SPN_ENOTSUP);
    CHECK_OK(spn_serial_close(s, open));
    CHECK_STATUS(spn_serial_close(s, spn_serial_executor(s)), SPN_EINVAL);
    CHECK_OK(spn_serial_destroy(s));
    CHECK_OK(spn_manual_executor_destroy(m));
    CHECK(atomic_load(&counting_live) < before);
}

/* After a batch the thread serves others before the rest of a busy key. */
TEST(serial__busy_key__gives_the_thread_back)
{
    spn_manual_executor *m = manual();
    spn_serial *s = serial(spn_manual_executor_executor(m), 4);
    struct item busy[10], other;

    for (int i = 0; i < 10; i++) {
        init(&busy[i], NULL, i);
        CHECK_OK(spn_serial_execute(s, 1, &busy[i].task));
    }
    init(&other, NULL, 0);
    CHECK_OK(spn_serial_execute(s, 2, &other.task));
    CHECK_EQ(spn_manual_executor_run(m, 1), 1); /* four, and it queues up again */
    CHECK_EQ(atomic_load(&busy[3].runs), 1);
    CHECK_EQ(atomic_load(&busy[4].runs), 0);
    CHECK_EQ(atomic_load(&other.runs), 0);
    CHECK_EQ(spn_manual_executor_run(m, 1), 1);
    CHECK_EQ(atomic_load(&other.runs), 1);
    CHECK_EQ(spn_manual_executor_run(m, 1), 1);
    CHECK_EQ(atomic_load(&busy[7].runs), 1);
    CHECK_EQ(atomic_load(&busy[8].runs), 0);
    CHECK_EQ(spn_manual_executor_run(m, 1), 1);
    CHECK_EQ(atomic_load(&busy[9].runs), 1);
    CHECK_EQ(spn_manual_executor_pending(m), 0);
    CHECK_OK(spn_serial_destroy(s));
    CHECK_OK(spn_manual_executor_destroy(m));
}

/* Over an executor that runs within execute there is no recursion. */
TEST(serial__over_the_direct_executor__runs_here_without_recursion)
{
    enum { TASKS = 5000 };
    static struct item items[TASKS];
    spn_serial *s = serial(spn_executor_direct(), 1);
    struct log log = { 0 };
    spn_manual_executor *m = manual();

    for (int i = 0; i < TASKS; i++) {
        init(&items[i], &log, i);
        CHECK_OK(spn_serial_execute(s, 9, &items[i].task));
        CHECK_EQ(atomic_load(&items[i].runs), 1);
    }
    CHECK_OK(spn_serial_destroy(s));
    /* All at once, each a turn of its own. */
    s = serial(spn_manual_executor_executor(m), 1);
    log = (struct log){ 0 };
    for (int i = 0; i < TASKS; i++) {
        init(&items[i], &log, i);
        CHECK_OK(spn_serial_execute(s, 9, &items[i].task));
    }
    CHECK_OK(spn_executor_shutdown(spn_manual_executor_executor(m)));
    CHECK(spn_manual_executor_run(m, INT64_MAX) >= 0); /* refused turns: it goes on */
    CHECK_EQ(log.next, TASKS);
    CHECK_EQ(log.bad, 0);
    CHECK_OK(spn_serial_destroy(s));
    CHECK_OK(spn_manual_executor_destroy(m));
}

/* An executor that refuses, and lets somebody in before it does. */
struct refusing {
    spn_executor executor;
    spn_serial *s;
    struct item *late; /* comes while it refuses */
    int refusals;      /* to come */
    spn_executor *inner;
};

static int refuse(spn_executor *executor, spn_task *task)
{
    struct refusing *r = (struct refusing *)(void *)executor;
    struct item *late = r->late;

    if (late != NULL) {
        r->late = NULL;
        CHECK_OK(spn_serial_execute(r->s, 1, &late->task));
    }
    return r->refusals-- > 0 ? SPN_EFULL : spn_executor_execute(r->inner, task);
}

static const spn_executor_ops refusing_ops = { .size = sizeof refusing_ops,
                                               .execute = refuse };

/* A refused turn: the task is the caller's again; what came meanwhile is not lost. */
TEST(serial__turn_refused__task_comes_back_and_none_is_stranded, "X-15", "P30")
{
    struct refusing r = { .executor = { &refusing_ops },
                          .inner = spn_executor_direct() };
    struct item first, late, next;

    r.s = serial(&r.executor, 0);
    init(&first, NULL, 0);
    r.refusals = 1;
    CHECK_STATUS(spn_serial_execute(r.s, 1, &first.task), SPN_EFULL);
    CHECK_EQ(atomic_load(&first.runs) + atomic_load(&first.drops), 0);
    CHECK_OK(spn_serial_execute(r.s, 1, &first.task)); /* as if it had never been */
    CHECK_EQ(atomic_load(&first.runs), 1);

    init(&first, NULL, 0);
    init(&late, NULL, 0);
    r.late = &late;
    r.refusals = 1; /* and then not any more: the late one gets its turn */
    CHECK_STATUS(spn_serial_execute(r.s, 1, &first.task), SPN_EFULL);
    CHECK_EQ(atomic_load(&first.runs), 0);
    CHECK_EQ(atomic_load(&late.runs), 1);

    init(&late, NULL, 0);
    r.late = &late;
    r.refusals = 2; /* both times: the late one hears of it */
    CHECK_STATUS(spn_serial_execute(r.s, 1, &first.task), SPN_EFULL);
    CHECK_EQ(atomic_load(&late.runs), 0);
    CHECK_EQ(atomic_load(&late.drops), 1);
    CHECK_EQ(atomic_load(&late.reason), SPN_EFULL);
    init(&next, NULL, 0);
    CHECK_OK(spn_serial_execute(r.s, 1, &next.task));
    CHECK_EQ(atomic_load(&next.runs), 1);
    finish(r.s);
}

/* The executor below drops a turn: so are the tasks. */
TEST(serial__turn_dropped__drops_its_tasks, "X-15")
{
    spn_manual_executor *m = manual();
    spn_serial *s = serial(spn_manual_executor_executor(m), 0);
    struct item i[3];

    for (int n = 0; n < 3; n++) {
        init(&i[n], NULL, 0);
        CHECK_OK(spn_serial_execute(s, 3, &i[n].task));
    }
    CHECK_OK(spn_manual_executor_drop_all(m, SPN_ECANCELED, NULL));
    for (int n = 0; n < 3; n++) {
        CHECK_EQ(atomic_load(&i[n].drops), 1);
        CHECK_EQ(atomic_load(&i[n].reason), SPN_ECANCELED);
    }
    CHECK_OK(spn_serial_destroy(s));
    CHECK_OK(spn_manual_executor_destroy(m));
}

static void count_back(void *ctx, spn_task *task, spn_run_fn fn, void *arg)
{
    struct item *i = (struct item *)(void *)task;

    (void)fn;
    (void)arg;
    ((int *)ctx)[i->number]++;
}

struct blocker {
    spn_latch *begun, *gate;
    atomic_int interrupted;
};

static int block(void *arg)
{
    struct blocker *b = arg;

    CHECK_OK(spn_latch_count_down(b->begun));
    if (spn_latch_await(b->gate, SPN_FOREVER) == SPN_EINTR)
        atomic_fetch_add(&b->interrupted, 1);
    return 0;
}

/* shutdown_now gives back what waits and interrupts what runs; remove takes one. */
TEST(serial__shut_down_now__gives_back_and_interrupts)
{
    struct kind k;

    EACH_KIND(k)
    {
        spn_serial *s = serial(k.executor, 0);
        spn_executor *ex = spn_serial_executor(s), *five;
        struct item i[4], refused;
        struct blocker b = { 0 };
        int back[4] = { 0 };
        int64_t count = 0;

        REQUIRE_OK(spn_latch_create(&b.begun, 2));
        REQUIRE_OK(spn_latch_create(&b.gate, 1));
        CHECK_OK(spn_executor_call(ex, block, &b));
        CHECK_OK(call_key(s, 5, block, &b));
        CHECK_OK(spn_latch_await(b.begun, SPN_FOREVER));
        REQUIRE_OK(spn_serial_open(s, 5, &five));
        for (int n = 0; n < 4; n++) {
            init(&i[n], NULL, n);
            CHECK_OK(spn_executor_execute(n % 2 == 0 ? ex : five, &i[n].task));
        }
        CHECK_STATUS(spn_executor_execute(five, &i[3].task), SPN_EBUSY);
        CHECK_EQ(spn_executor_remove(five, &i[3].task), 1);
        CHECK_EQ(spn_executor_remove(five, &i[3].task), 0);
        CHECK_EQ(spn_executor_remove(five, &i[2].task), 0); /* not there */
        CHECK_OK(spn_executor_shutdown_now(ex, count_back, back, &count));
        CHECK_EQ(count, 3);
        CHECK(back[0] == 1 && back[1] == 1 && back[2] == 1 && back[3] == 0);
        CHECK_OK(spn_executor_await(ex, SPN_FOREVER));
        CHECK_EQ(atomic_load(&b.interrupted), 2);
        init(&refused, NULL, 0);
        CHECK_STATUS(spn_executor_execute(ex, &refused.task), SPN_EREJECTED);
        CHECK_STATUS(spn_serial_execute(s, 8, &refused.task), SPN_EREJECTED);
        CHECK_STATUS(spn_executor_execute(five, &refused.task), SPN_EREJECTED);
        CHECK_OK(spn_serial_close(s, five));
        for (int n = 0; n < 4; n++)
            CHECK_EQ(atomic_load(&i[n].runs) + atomic_load(&i[n].drops), 0);
        CHECK_OK(spn_serial_destroy(s));
        kind_close(&k);
        kind_open(&k);
        CHECK_OK(spn_latch_destroy(b.begun));
        CHECK_OK(spn_latch_destroy(b.gate));
    }
}

static int is_interrupted(void *arg)
{
    atomic_store((atomic_int *)arg,
                 1 + spn_thread_is_interrupted(spn_thread_current()));
    return 0;
}

static int interrupt_self(void *arg)
{
    (void)arg;
    return spn_thread_interrupt(spn_thread_current());
}

struct deadlock {
    spn_serial *s;
    spn_future *own, *behind, *other;
    atomic_int ready;
    int own_rc, behind_rc, other_rc, await_rc;
};

static int nothing(void *arg, void **result)
{
    (void)arg;
    (void)result;
    return 0;
}

static int wait_for_itself(void *arg, void **result)
{
    struct deadlock *d = arg;

    (void)result;
    while (atomic_load(&d->ready) == 0)
        t_pause();
    d->own_rc = spn_future_get(d->own, NULL, T_LONG_NS);
    d->behind_rc = spn_future_get(d->behind, NULL, SPN_FOREVER);
    d->other_rc = spn_future_get(d->other, NULL, T_LONG_NS);
    d->await_rc = spn_executor_await(spn_serial_executor(d->s), T_LONG_NS);
    return 0;
}

/* A task that waits for one of its own key would wait for ever; for another's it may. */
TEST(serial__task_waits_for_its_own_key__would_deadlock)
{
    struct kind k;

    EACH_KIND(k)
    {
        struct deadlock d = { .s = serial(k.executor, 0) };

        REQUIRE_OK(submit_key(d.s, 1, wait_for_itself, &d, &d.own));
        REQUIRE_OK(submit_key(d.s, 1, nothing, NULL, &d.behind));
        REQUIRE_OK(submit_key(d.s, 2, nothing, NULL, &d.other));
        atomic_store(&d.ready, 1);
        CHECK_OK(spn_future_get(d.own, NULL, SPN_FOREVER));
        CHECK_OK(spn_future_get(d.behind, NULL, SPN_FOREVER));
        CHECK_STATUS(d.own_rc, SPN_EDEADLK);
        CHECK_STATUS(d.behind_rc, SPN_EDEADLK);
        CHECK_OK(d.other_rc);
        CHECK_STATUS(d.await_rc, SPN_EDEADLK);
        spn_future_unref(d.own);
        spn_future_unref(d.behind);
        spn_future_unref(d.other);
        finish(d.s);
    }
}

static int leave_thread(void *arg)
{
    (void)arg;
    pthread_exit(NULL);
}

/* A task that ends its thread does not end its key. */
TEST(serial__task_ends_its_thread__key_goes_on, "G-21")
{
    struct kind k;

    EACH_KIND(k)
    {
        spn_serial *s;
        atomic_int seen = 0;

        if (k.pool == NULL)
            continue; /* that executor counts only threads that return */
        s = serial(k.executor, 0);
        CHECK_OK(call_key(s, 4, leave_thread, NULL));
        CHECK_OK(call_key(s, 4, interrupt_self, NULL));
        CHECK_OK(call_key(s, 4, is_interrupted, &seen));
        finish(s);
        CHECK(atomic_load(&seen) != 0);
    }
}

/* Shut down with tasks: they run; nothing more is taken. */
TEST(serial__shut_down__runs_what_it_has, "AES-7")
{
    spn_manual_executor *m = manual();
    spn_serial *s = serial(spn_manual_executor_executor(m), 0);
    spn_executor *ex = spn_serial_executor(s);
    struct item i[2];
    spn_future *f;

    init(&i[0], NULL, 0);
    init(&i[1], NULL, 0);
    CHECK_OK(spn_serial_execute(s, 6, &i[0].task));
    CHECK_EQ(spn_executor_get_state(ex), SPN_EXECUTOR_RUNNING);
    CHECK_OK(spn_executor_shutdown(ex));
    CHECK_EQ(spn_executor_get_state(ex), SPN_EXECUTOR_SHUTDOWN);
    CHECK_STATUS(spn_serial_execute(s, 6, &i[1].task), SPN_EREJECTED);
    CHECK_STATUS(call_key(s, 6, is_interrupted, NULL), SPN_EREJECTED);
    CHECK_STATUS(submit_key(s, 6, nothing, NULL, &f), SPN_EREJECTED);
    CHECK(f == NULL);
    CHECK_STATUS(spn_executor_await(ex, 0), SPN_ETIMEDOUT);
    CHECK_STATUS(spn_executor_await(ex, T_PROBE_NS), SPN_ETIMEDOUT);
    CHECK(spn_manual_executor_run(m, INT64_MAX) >= 0);
    CHECK_EQ(atomic_load(&i[0].runs), 1);
    CHECK_EQ(spn_executor_is_terminated(ex), 1);
    CHECK_OK(spn_executor_await(ex, 0));
    CHECK_OK(spn_serial_destroy(s));
    CHECK_OK(spn_manual_executor_destroy(m));
}

/* The pool below is stopped under it: what waits is given back or dropped, not lost. */
TEST(serial__pool_stopped_below__nothing_is_lost)
{
    enum { TASKS = 200 };
    static struct item items[TASKS];
    const int rounds = t_rounds(30);

    for (int r = 0; r < rounds; r++) {
        spn_pool_opts opts = spn_pool_opts_fixed(2, -1);
        spn_pool *pool;
        spn_serial *s;
        int accepted = 0, ran = 0, dropped = 0;

        REQUIRE_OK(spn_pool_create(&pool, &opts));
        s = serial(spn_pool_executor(pool), 2);
        for (int i = 0; i < TASKS; i++) {
            init(&items[i], NULL, i);
            if (spn_serial_execute(s, (uint64_t)i % 3, &items[i].task) == SPN_OK)
                accepted++;
            if (i == TASKS / 2)
                CHECK_OK(pool_shutdown_now(pool, NULL, NULL, NULL));
        }
        CHECK_OK(pool_await(pool, SPN_FOREVER));
        for (int i = 0; i < TASKS; i++) {
            ran += atomic_load(&items[i].runs);
            dropped += atomic_load(&items[i].drops);
        }
        CHECK_EQ(ran + dropped, accepted);
        CHECK_OK(spn_serial_destroy(s));
        CHECK_OK(spn_pool_destroy(pool));
    }
}
