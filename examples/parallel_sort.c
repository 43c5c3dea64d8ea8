/* SPDX-License-Identifier: MIT */
/*
 * parallel_sort.c - a million orders on all CPUs: sorted by customer, those of one
 * customer still in the order they came; then their total, to the last bit the same on
 * every run.
 */
#include <spindle.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { ORDERS = 1000000, CUSTOMERS = 5000 };

struct order {
    uint32_t customer;
    uint32_t number; /* rises with time */
    double amount;
};

/* Fills [begin, end): a part of the array is whoever's turn it is. */
static int receive(void *arg, size_t begin, size_t end)
{
    struct order *orders = arg;

    for (size_t i = begin; i < end; i++)
        orders[i] = (struct order){ (uint32_t)(i * 2654435761u % CUSTOMERS),
                                    (uint32_t)i, 1.0 / (double)(i + 1) };
    return 0;
}

static int by_customer(void *arg, const void *a, const void *b)
{
    const struct order *x = a, *y = b;

    (void)arg;
    return (x->customer > y->customer) - (x->customer < y->customer);
}

static int add_amounts(void *arg, size_t begin, size_t end, void *value)
{
    const struct order *orders = arg;

    for (size_t i = begin; i < end; i++)
        *(double *)value += orders[i].amount;
    return 0;
}

static int add_sums(void *arg, void *left, void *right)
{
    (void)arg;
    *(double *)left += *(const double *)right;
    return 0;
}

static bool in_order(const struct order *orders)
{
    for (size_t i = 1; i < ORDERS; i++)
        if (orders[i - 1].customer > orders[i].customer ||
            (orders[i - 1].customer == orders[i].customer &&
             orders[i - 1].number >= orders[i].number))
            return false;
    return true;
}

static int sort_and_add(spn_fj_pool *pool, struct order *orders, double *total)
{
    int rc = spn_parallel_for(pool, 0, ORDERS, receive, orders, NULL);

    if (rc == SPN_OK)
        rc = spn_parallel_sort(pool, orders, ORDERS, sizeof *orders, by_customer, NULL,
                               NULL);
    if (rc == SPN_OK)
        rc = spn_parallel_reduce(pool, 0, ORDERS, total, sizeof *total, add_amounts,
                                 add_sums, orders, NULL);
    return rc;
}

int main(void)
{
    struct order *orders = malloc(ORDERS * sizeof *orders);
    double total = 0;
    spn_fj_pool *pool = NULL;
    int rc = SPN_ENOMEM;

    if (orders != NULL)
        rc = spn_fj_pool_create(&pool, NULL);
    if (rc == SPN_OK)
        rc = sort_and_add(pool, orders, &total);
    if (rc == SPN_OK && !in_order(orders))
        rc = SPN_ESTATE;
    printf("%d orders sorted: %s, %.12f in all\n", ORDERS, spn_status_text(rc), total);
    if (pool != NULL) {
        (void)spn_fj_pool_close(pool);
        (void)spn_fj_pool_destroy(pool);
    }
    free(orders);
    return rc == SPN_OK ? 0 : 1;
}
