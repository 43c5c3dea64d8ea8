/* SPDX-License-Identifier: MIT */
/*
 * queue_transfer.c - records are put and forgotten; a checkpoint is handed over.
 *
 * put returns at once.  transfer returns when a shipper has the item; the queue is FIFO, so
 * all records before it are with shippers, too, and the caller may say so to its client.
 * A shipper is started when a record comes and none waits for one, up to SHIPPERS.
 */
#include <spindle.h>

#include <stdatomic.h>
#include <stdio.h>

enum { SHIPPERS = 2, RECORDS = 20, CHECKPOINT_EVERY = 5 };

struct record {
    int number;
    int is_checkpoint;
};

static spn_queue *queue;
static spn_thread *shippers[SHIPPERS];
static int shipper_count;
static atomic_int taken;

static int ship(void *arg)
{
    void *record;
    int rc;

    (void)arg;
    while ((rc = spn_queue_take(queue, &record, SPN_FOREVER)) == SPN_OK)
        atomic_fetch_add(&taken, 1);
    return rc == SPN_ECLOSED ? 0 : rc;
}

static int start_shipper_if_none_waits(void)
{
    if (shipper_count == SHIPPERS || spn_queue_waiting_consumers(queue) > 0)
        return SPN_OK;
    return spn_thread_create(&shippers[shipper_count++], NULL, ship, NULL);
}

static int send_record(struct record *record)
{
    int rc = start_shipper_if_none_waits();

    if (rc != SPN_OK)
        return rc;
    if (!record->is_checkpoint)
        return spn_queue_put(queue, record, 0); /* unbounded: there is always room */
    rc = spn_queue_transfer(queue, record, SPN_SEC(30));
    if (rc == SPN_OK)
        printf("all up to record %d are with a shipper\n", record->number);
    return rc;
}

int main(void)
{
    static struct record records[RECORDS];

    if (spn_queue_create(&queue, SPN_QUEUE_TRANSFER, NULL) != SPN_OK)
        return 1;
    for (int i = 0; i < RECORDS; i++) {
        records[i].number = i + 1;
        records[i].is_checkpoint = (i + 1) % CHECKPOINT_EVERY == 0;
        if (send_record(&records[i]) != SPN_OK)
            return 1;
    }
    if (spn_queue_size(queue) != 0) /* the last one was a checkpoint */
        return 1;
    spn_queue_close(queue);
    for (int i = 0; i < shipper_count; i++) {
        int failure = -1;

        if (spn_thread_join(shippers[i], SPN_SEC(30), &failure) != SPN_OK ||
            failure != 0)
            return 1;
        spn_thread_unref(shippers[i]);
    }
    return spn_queue_destroy(queue) == SPN_OK && atomic_load(&taken) == RECORDS ? 0 : 1;
}
