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

    if (event == NULL)
        return SPN_EAGAIN;
    event->readable = false;
    *fd = next_slot;
    events[next_slot] = event;
    next_slot = (next_slot + 1) % SLOTS;
    return SPN_OK;
}

void spn__os_event_signal(int fd)
{
    sim_assert(!events[fd]->readable);
    events[fd]->readable = true;
}

void spn__os_event_clear(int fd)
{
    sim_assert(events[fd]->readable);
    events[fd]->readable = false;
}

void spn__os_event_close(int fd)
{
    sim__free(&close_site, events[fd]);
    events[fd] = NULL;
}

bool sim_event_readable(int fd)
{
    return events[fd]->readable;
}
