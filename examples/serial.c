/* SPDX-License-Identifier: MIT */
/*
 * serial.c - many accounts on a few threads: the bookings of one account in order and
 * one at a time, without a lock; those of different accounts side by side.
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
    if (spn_executor_shutdown(spn_serial_executor(serial)) != SPN_OK)
        return 1;
    if (spn_executor_await(spn_serial_executor(serial), SPN_SEC(60)) != SPN_OK)
        return 1;
    for (int account = 0; account < ACCOUNTS; account++) {
        printf("account %d: %ld\n", account, balance[account]);
        if (balance[account] != (long)BOOKINGS * (BOOKINGS - 1) / 2)
            return 1;
    }
    if (spn_serial_destroy(serial) != SPN_OK || spn_pool_close(pool) != SPN_OK)
        return 1;
    return spn_pool_destroy(pool) == SPN_OK ? 0 : 1;
}
