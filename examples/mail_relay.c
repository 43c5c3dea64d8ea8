/* SPDX-License-Identifier: MIT */
/*
 * mail_relay.c - mail is sent in the order it came, and none while the relay restarts.
 *
 * The pool has one thread and is paused for the restart: the first mail waits in the thread,
 * the others in the queue, and nothing is sent.  The operator lists the queue.  A customer
 * closes an account: the customer's mail leaves the queue, and each is told why.  After the
 * restart the rest is sent.
 */
#include <spindle.h>

#include <stdio.h>

enum { MAILS = 5 };

struct mail {
    spn_job job; /* first: the task that sends it */
    const char *to;
    int sent; /* the how manyth; 0: not yet */
};

static int sent, dropped;

static int send_mail(spn_task *task)
{
    struct mail *mail = (struct mail *)task;

    mail->sent = ++sent; /* one thread */
    printf("sent to %s\n", mail->to);
    return 0;
}

static void drop_mail(spn_task *task, int status)
{
    dropped++;
    printf("not sent to %s: %s\n", ((struct mail *)task)->to, spn_status_text(status));
}

/* The mails are the caller's own, so that what a task points to is there. */
static int list_queue(spn_pool *pool)
{
    spn_task *waiting[MAILS];
    const int64_t count = spn_pool_snapshot(pool, waiting, MAILS);

    for (int64_t i = 0; i < count && i < MAILS; i++)
        printf("waits: mail to %s\n", ((struct mail *)waiting[i])->to);
    return count <= MAILS ? 0 : -1;
}

int main(void)
{
    static const char ann[] = "ann", bob[] = "bob"; /* customers */
    static const char *const customers[MAILS] = { ann, bob, ann, bob, ann };
    static const char *const to[MAILS] = { "cy", "dan", "eve", "flo", "gus" };
    spn_pool_opts opts = spn_pool_opts_single();
    struct mail mails[MAILS];
    spn_pool *pool;

    opts.name = "mail";
    if (spn_pool_create(&pool, &opts) != SPN_OK || spn_pool_pause(pool) != SPN_OK)
        return 1;
    for (int i = 0; i < MAILS; i++) {
        mails[i] = (struct mail){ SPN_JOB_INIT(send_mail, drop_mail), to[i], 0 };
        mails[i].job.owner = customers[i];
        if (spn_executor_execute(spn_pool_executor(pool), &mails[i].job.task) != SPN_OK)
            return 1;
    }
    if (list_queue(pool) != 0)
        return 1;
    printf("bob leaves: %d mails dropped\n", (int)spn_pool_cancel_owner(pool, bob));
    if (sent != 0 || spn_pool_resume(pool) != SPN_OK) /* the relay is back */
        return 1;
    if (spn_pool_close(pool) != SPN_OK || spn_pool_destroy(pool) != SPN_OK)
        return 1;
    return sent == 3 && dropped == 2 && mails[0].sent == 1 && mails[4].sent == 3 ? 0
                                                                                 : 1;
}
