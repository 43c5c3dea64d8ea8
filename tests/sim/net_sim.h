/* SPDX-License-Identifier: MIT */
/*
 * net_sim.h - the network of the explorer: src/net/transport.h without sockets.
 *
 * A scenario links it in place of the transport on libuv.  Loops are threads of the
 * explorer, addresses are ports of one imaginary machine, bytes go from one end's
 * memory to the other's, and a script says what goes wrong.  Time is virtual.
 */
#ifndef NET_SIM_H
#define NET_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sim_net_cut {
    SIM_CUT_NONE,
    SIM_CUT_RESET, /* both ends break */
    SIM_CUT_END,   /* the receiver sees an end, as if the sender had shut down */
    SIM_CUT_HOLE,  /* bytes vanish, and nobody is told */
};

/* What becomes of one direction. */
struct sim_net_way {
    enum sim_net_cut cut;
    uint64_t after;   /* so many bytes have passed */
    int64_t delay_ns; /* each piece arrives so much later */
};

/* Of connections that are begun from now on; zero is a network without faults. */
struct sim_net_script {
    struct sim_net_way to_server, to_client;
    bool split;      /* what is received is cut in pieces as the schedule chooses */
    bool hang;       /* connects neither succeed nor fail */
    size_t capacity; /* bytes on their way in one direction; 0: any number */
};

void sim_net_set(const struct sim_net_script *script);
/* Connections that stand now break: as a pulled cable that is noticed. */
void sim_net_break_all(void);

/* Before each schedule. */
void sim_net_reset(void);

#endif /* NET_SIM_H */
