/* SPDX-License-Identifier: MIT */
/*
 * rejection_policies.c - after "参数介绍" of the notes on thread pools (document 002), where
 * the policies of Java, Dubbo, Netty, ActiveMQ and PinPoint are listed, and after
 * AbortPolicyWithReport in documents 000 and 004.
 *
 * A pool of one thread with room for one task: its thread is busy, one task waits, and what
 * becomes of the next one is the policy's to say.
 */
#include <spindle.h>

#include <stdio.h>

struct task {
    spn_task task; /* first: fn and drop get its address */
    const char *end;
};

static spn_thread *submitter;
static spn_latch *busy, *go_on, *ended, *told;
static char report_line[512];

static int block(spn_task *task)
{
    (void)task;
    spn_latch_count_down(busy);
    return spn_latch_await(go_on, SPN_SEC(30));
}

static int run(spn_task *task)
{
    ((struct task *)(void *)task)->end = spn_pool_current() != NULL ? "run by the pool"
                                         : spn_thread_current() == submitter
                                             ? "run by its submitter"
                                             : "run by a new thread";
    spn_latch_count_down(ended);
    return 0;
}

static void drop(spn_task *task, int reason)
{
    (void)reason;
    ((struct task *)(void *)task)->end = "dropped";
    spn_latch_count_down(ended);
}

static int submit(spn_pool *pool, struct task *waiting, struct task *next)
{
    spn_executor *executor = spn_pool_executor(pool);
    spn_task blocking = SPN_TASK_INIT(block, NULL);
    int rc;

    if (spn_executor_execute(executor, &blocking) != SPN_OK ||
        spn_latch_await(busy, SPN_SEC(30)) != SPN_OK ||
        spn_executor_execute(executor, &waiting->task) != SPN_OK)
        return SPN_ESTATE;
    rc = spn_executor_execute(executor, &next->task);
    if (rc != SPN_OK)
        spn_latch_count_down(ended); /* refused: it is the caller's, as before */
    spn_latch_count_down(go_on);
    spn_pool_close(pool);
    return spn_latch_await(ended, SPN_SEC(30)) == SPN_OK ? rc : SPN_ETIMEDOUT;
}

static void try_with(const char *whose, const spn_reject_policy *policy)
{
    spn_pool_opts opts = spn_pool_opts_fixed(1, 1);
    struct task waiting = { SPN_TASK_INIT(run, drop), "" };
    struct task next = { SPN_TASK_INIT(run, drop), "refused" };
    spn_pool *pool;

    opts.name = "work";
    opts.reject = policy;
    if (spn_latch_create(&busy, 1) != SPN_OK || spn_latch_create(&go_on, 1) != SPN_OK ||
        spn_latch_create(&ended, 2) != SPN_OK ||
        spn_pool_create(&pool, &opts) != SPN_OK)
        return;
    printf("%-27s %-13s ", whose, spn_status_name(submit(pool, &waiting, &next)));
    printf("next: %-21s waiting: %s\n", next.end, waiting.end);
    spn_pool_destroy(pool);
    spn_latch_destroy(busy);
    spn_latch_destroy(go_on);
    spn_latch_destroy(ended);
}

static void exhausted(void *ctx, const spn_exhaustion *what) /* the log has it, too */
{
    (void)ctx;
    snprintf(report_line, sizeof report_line, "%s", what->message);
    spn_latch_count_down(told);
}

int main(void)
{
    const spn_reject_block waits = SPN_REJECT_BLOCK_INIT(SPN_MS(1)); /* 0: 60 s */
    const spn_reject_policy *const turns[] = { &waits.policy,
                                               spn_reject_caller_runs() };
    const spn_reject_chain chain = SPN_REJECT_CHAIN_INIT(turns, 2);
    spn_reject_report_opts opts = SPN_REJECT_REPORT_OPTS_INIT;
    spn_reject_report *report;

    submitter = spn_thread_current();
    try_with("AbortPolicy", spn_reject_abort());
    try_with("CallerRunsPolicy", spn_reject_caller_runs());
    try_with("DiscardPolicy", spn_reject_discard());
    try_with("DiscardOldestPolicy", spn_reject_discard_oldest());
    try_with("Netty: a new thread", spn_reject_new_thread());
    try_with("ActiveMQ: waits for room", &waits.policy);
    try_with("PinPoint: one by one", &chain.policy);

    opts.address = "dubbo://10.0.0.1:20880";
    opts.no_stacks = 1; /* by default the stacks of all threads go to a file */
    opts.exhausted = exhausted;
    if (spn_log_set_level(SPN_LOG_OFF) != SPN_OK ||
        spn_latch_create(&told, 1) != SPN_OK ||
        spn_reject_report_create(&report, &opts) != SPN_OK)
        return 1;
    try_with("Dubbo: abort with report", spn_reject_report_policy(report));
    if (spn_latch_await(told, SPN_SEC(30)) != SPN_OK)
        return 1;
    printf("%s\n", report_line);
    spn_latch_destroy(told);
    return spn_reject_report_destroy(report) == SPN_OK ? 0 : 1;
}
