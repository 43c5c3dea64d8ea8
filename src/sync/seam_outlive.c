/* SPDX-License-Identifier: MIT */
/*
 * seam_outlive.c - a cleanup that may itself call what ends the thread.
 *
 * OVERVIEW
 *   A worker whose task has ended the thread, and in whose place none can be made, goes
 *   on serving from inside its cleanup: and the next task may end the thread again.
 *   Where the compiler makes cleanups part of the unwinding (-fexceptions, as all
 *   other files have it), that is a second unwinding out of a frame that is being
 *   unwound: gcc's code bears it, clang's ends the process.  This file is compiled
 *   without.  pthread_cleanup_push is then a setjmp, and the end of the thread a jump
 *   here: the cleanup runs as any other code, in a frame that lives, and whatever it
 *   calls may end the thread as the first one did.
 *
 *   When an inner end has passed its own cleanup it comes by the outer ones once more,
 *   for they are not taken off before they have returned: cleanup is then called again,
 *   and must find nothing left to do.
 */
#include "sync/seam.h"

void spn__outlive(void (*body)(void *arg), void (*cleanup)(void *arg), void *arg)
{
    pthread_cleanup_push(cleanup, arg);
    body(arg);
    pthread_cleanup_pop(1);
}
