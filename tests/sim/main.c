/* SPDX-License-Identifier: MIT */
/* main.c - what a program of scenarios is: the command line over them. */
#include "sim.h"

int main(int argc, char **argv)
{
    return sim_main(argc, argv);
}
