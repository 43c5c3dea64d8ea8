/* SPDX-License-Identifier: MIT */
/*
 * recursive_task.c - after "ForkJoin" of the notes on thread pools (document 002): the sum of
 * 1..n, once peeled off number by number and once cut in halves.
 *
 *     ForkJoinPool pool = new ForkJoinPool(4);
 *     System.out.println(pool.invoke(new MyTask(5)));    // 5 + MyTask(4), 4 + MyTask(3), ...
 *     System.out.println(pool.invoke(new AddTask(1, 5)));
 *
 * A RecursiveTask is a function here: the macro adds _fork, _join and _invoke to it.
 */
#include <spindle.h>

#include <stdio.h>

/* class MyTask extends RecursiveTask<Integer>: compute() is the body. */
SPN_FJ_TASK(int, my_task, int, n)
{
    if (n == 1)
        return 1;
    my_task_fork(&fj, n - 1);     /* t1.fork(): another thread may take it */
    return n + my_task_join(&fj); /* t1.join(): runs it here, if nobody did */
}

/* class AddTask: begin and end are arguments, not fields. */
SPN_FJ_TASK(int, add_task, int, begin, int, end)
{
    const int middle = (begin + end) / 2;
    int right;

    if (begin == end)
        return begin;
    if (end - begin == 1)
        return begin + end;
    add_task_fork(&fj, begin, middle);
    right = add_task(fj, middle + 1, end); /* no fork: this thread has time */
    return add_task_join(&fj) + right;
}

int main(void)
{
    spn_fj_pool_opts opts = SPN_FJ_POOL_OPTS_INIT;
    spn_fj_pool *pool;
    int peeled = 0, halved = 0;

    opts.parallelism = 4;
    if (spn_fj_pool_create(&pool, &opts) != SPN_OK ||
        my_task_invoke(pool, &peeled, 5) != SPN_OK ||
        add_task_invoke(pool, &halved, 1, 5) != SPN_OK)
        return 1;
    printf("MyTask(5) = %d\nAddTask(1, 5) = %d\n", peeled, halved);
    if (spn_fj_pool_close(pool) != SPN_OK)
        return 1;
    return spn_fj_pool_destroy(pool) == SPN_OK && peeled == 15 && halved == 15 ? 0 : 1;
}
