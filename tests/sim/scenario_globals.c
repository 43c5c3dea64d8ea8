/* SPDX-License-Identifier: MIT */
/*
 * scenario_globals.c - brings the library's process-wide state back to its
 * beginning before each schedule, and empties the cache of thread records after
 * it, so that what is left then is a leak.
 */
#include "sim.h"

#include <string.h>

#include "exec/pool.h"
#include "exec/report.h"
#include "sync/thread_record.h"
#include "wheel/timer.h"

/* Weak: only programs that use the network have one. */
__attribute__((weak)) void sim_net_reset(void);

void sim_globals_reset(void)
{
    memset(&spn__thread_cache, 0, sizeof spn__thread_cache);
    spn__pool_reset_numbers();
    memset(&spn__report_stranded, 0, sizeof spn__report_stranded);
    memset(&spn__timer_census, 0, sizeof spn__timer_census);
    if (sim_net_reset != NULL)
        sim_net_reset();
}

void sim_globals_drain(void)
{
    spn__thread_cache_drain();
}
