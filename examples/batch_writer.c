/* SPDX-License-Identifier: MIT */
/*
 * batch_writer.c - lines are written in batches, by whichever thread offers to be the writer.
 *
 * The writer parks until a batch is full, at most 5 ms, and then writes what has come.  It
 * leaves a reference to its handle, so that a producer may unpark it after it has ended.
 * It parks with the batch as its blocker: a watchdog can tell that it waits for lines and is
 * not stuck in a write.
 */
#include <spindle.h>

#include <stdatomic.h>
#include <stdio.h>

enum { BATCH = 16, LINES = 100 };

struct batch {
    _Atomic(spn_thread *) writer; /* NULL: nobody has offered yet */
    spn_latch *offered;
    atomic_int lines; /* that wait                    */
    atomic_int ending;
    int written, writes; /* the writer's own             */
};

static int write_batches(void *arg)
{
    struct batch *batch = arg;
    int ending;

    atomic_store(&batch->writer, spn_thread_ref(spn_thread_current()));
    spn_latch_count_down(batch->offered);
    do {
        int lines;

        spn_park_for(SPN_MS(5), batch); /* may return early: the loop looks */
        ending = atomic_load(&batch->ending);
        lines = atomic_exchange(&batch->lines, 0);
        batch->written += lines; /* here a program calls write */
        batch->writes += lines > 0;
    } while (!ending);
    return 0;
}

static void add_line(struct batch *batch)
{
    if (atomic_fetch_add(&batch->lines, 1) + 1 == BATCH)
        spn_unpark(atomic_load(&batch->writer)); /* NULL does no harm */
}

static void watch(struct batch *batch)
{
    const void *blocker = NULL;

    if (spn_thread_blocker(atomic_load(&batch->writer), &blocker) == SPN_OK)
        printf("the writer %s\n", blocker == batch ? "waits for lines" : "works");
}

int main(void)
{
    static struct batch batch;
    spn_thread *thread;

    if (spn_latch_create(&batch.offered, 1) != SPN_OK ||
        spn_thread_create(&thread, NULL, write_batches, &batch) != SPN_OK)
        return 1;
    for (int i = 0; i < LINES / 2; i++) /* these wait for a writer */
        add_line(&batch);
    if (spn_latch_await(batch.offered, SPN_SEC(30)) != SPN_OK)
        return 1;
    for (int i = LINES / 2; i < LINES; i++)
        add_line(&batch);
    watch(&batch);
    atomic_store(&batch.ending, 1);
    spn_unpark(thread);
    if (spn_thread_join(thread, SPN_SEC(30), NULL) != SPN_OK)
        return 1;
    spn_unpark(atomic_load(&batch.writer)); /* late, and harmless */
    spn_thread_unref(atomic_load(&batch.writer));
    spn_thread_unref(thread);
    spn_latch_destroy(batch.offered);
    printf("%d lines in %d writes\n", batch.written, batch.writes);
    return batch.written == LINES ? 0 : 1;
}
