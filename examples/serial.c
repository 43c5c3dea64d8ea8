/* SPDX-License-Identifier: MIT */
/*
 * serial.c - many accounts on a few threads: the bookings of one account in order and
 * one at a time, without a lock; those of different accounts side by side.  A statement
 * comes after the bookings that came before it.
 */
#include <spindle.h>

#include <stdio.h>

enum { ACCOUNTS = 3, BOOKINGS = 1000 };

static long balance[ACCOUNTS]; /* each is only ever touched by the turn of its key */

struct booking {
    spn_task task;
    int account;
    long amount;
};

static struct booking bookings[ACCOUNTS][BOOKINGS];

static int book(spn_task *task)
{
    struct booking *b = (struct booking *)task;

    balance[b->account] += b->amount;
    return 0;
}

static int state_balance(void *arg, void **result)
{
    *result = arg;
    return *(const long *)arg == (long)BOOKINGS * (BOOKINGS - 1) / 2 ? 0 : SPN_EINVAL;
}

/* One account as an executor: what can be asked of any can be asked of it. */
static int print_statement(spn_serial *serial, int account)
{
    spn_executor *turns;
    spn_future *statement;
    void *result;
    int rc;

    if (spn_serial_open(serial, (uint64_t)account, &turns) != SPN_OK)
        return SPN_ENOMEM;
    rc = spn_executor_submit(turns, state_balance, &balance[account], &statement);
    if (rc == SPN_OK) {
        rc = spn_future_get(statement, &result, SPN_SEC(60));
        if (rc == SPN_OK)
            printf("account %d: %ld\n", account, *(const long *)result);
        spn_future_unref(statement);
    }
    (void)spn_serial_close(serial, turns);
    return rc;
}

int main(void)
{
    spn_pool_opts opts = spn_pool_opts_fixed(4, SPN_UNBOUNDED);
    spn_serial *serial;
    spn_pool *pool;

    if (spn_pool_create(&pool, &opts) != SPN_OK)
        return 1;
    if (spn_serial_create(&serial, spn_pool_executor(pool), NULL) != SPN_OK)
        return 1;
    for (int i = 0; i < BOOKINGS; i++)
        for (int account = 0; account < ACCOUNTS; account++) {
            struct booking *b = &bookings[account][i];

            *b = (struct booking){ SPN_TASK_INIT(book, NULL), account, i };
            if (spn_serial_execute(serial, (uint64_t)account, &b->task) != SPN_OK)
                return 1;
        }
    for (int account = 0; account < ACCOUNTS; account++)
        if (print_statement(serial, account) != SPN_OK)
            return 1;
    if (spn_executor_shutdown(spn_serial_executor(serial)) != SPN_OK)
        return 1;
    if (spn_executor_await(spn_serial_executor(serial), SPN_SEC(60)) != SPN_OK)
        return 1;
    if (spn_serial_destroy(serial) != SPN_OK || spn_pool_close(pool) != SPN_OK)
        return 1;
    return spn_pool_destroy(pool) == SPN_OK ? 0 : 1;
}
