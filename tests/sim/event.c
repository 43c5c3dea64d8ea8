/* SPDX-License-Identifier: MIT */
/*
 * event.c - the pollable descriptor of the seam, as a flag.
 *
 * The flag is a block of the scenario's memory, so that one that is not closed is
 * a leak.  Changing it is no point: the library does so with a lock held.
 */
#include "engine.h"

struct event {
    bool readable;
    int64_t deadline_ns; /* of an alarm */
};

enum { SLOTS = 16 }; /* more than a scenario has open at once */
static struct event *events[SLOTS];
static int next_slot;

static struct sim_site create_site = { .file = "spn__os_event_create",
                                       .text = "",
                                       .op = SIM_OP_ALLOC };
static struct sim_site close_site = { .file = "spn__os_event_close",
                                      .text = "",
                                      .op = SIM_OP_FREE };

int spn__os_event_create(int *fd)
{
    struct event *event = sim__alloc(&create_site, sizeof *event, sizeof(void *));

    engine.counts.syscalls++;
    if (event == NULL)
        return SPN_EAGAIN;
    event->readable = false;
    event->deadline_ns = SPN_FOREVER;
    *fd = next_slot;
    events[next_slot] = event;
    next_slot = (next_slot + 1) % SLOTS;
    return SPN_OK;
}

void spn__os_event_signal(int fd)
{
    engine.counts.syscalls++;
    sim_assert(!events[fd]->readable);
    events[fd]->readable = true;
}

void spn__os_event_clear(int fd)
{
    engine.counts.syscalls++;
    sim_assert(events[fd]->readable);
    events[fd]->readable = false;
}

void spn__os_event_close(int fd)
{
    engine.counts.syscalls++;
    sim__free(&close_site, events[fd]);
    events[fd] = NULL;
}

bool sim_event_readable(int fd)
{
    return events[fd]->readable;
}

/* An alarm is an event that keeps its deadline; scenarios ask for that. */
int spn__os_alarm_create(int *fd)
{
    return spn__os_event_create(fd);
}

void spn__os_alarm_set(int fd, int64_t deadline_ns)
{
    engine.counts.syscalls++;
    events[fd]->deadline_ns = deadline_ns;
}

void spn__os_alarm_close(int fd)
{
    spn__os_event_close(fd);
}

int64_t sim_alarm_deadline(int fd)
{
    return events[fd]->deadline_ns;
}
