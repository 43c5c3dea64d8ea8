/* SPDX-License-Identifier: MIT */
/*
 * reload.c - loads the shared library, uses it from a thread and lets it go, a
 * thousand times, as a host does with a plug-in that is linked with spindle.
 *
 * The thread that used the library ends after dlclose: its record is released by
 * a destructor inside the library, which must still be there (-z nodelete).
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <spindle.h>

enum { ROUNDS = 1000 };

struct round {
    void *library;
    pthread_barrier_t closed; /* passed twice: before dlclose, and after */
};

static void *use(void *arg)
{
    struct round *round = arg;
    spn_thread *(*current)(void);
    void (*unpark)(spn_thread *);
    void (*park)(const void *);

    *(void **)&current = dlsym(round->library, "spn_thread_current");
    *(void **)&unpark = dlsym(round->library, "spn_unpark");
    *(void **)&park = dlsym(round->library, "spn_park");
    const bool usable =
        current != NULL && unpark != NULL && park != NULL && current() != NULL;
    if (usable) {
        unpark(current()); /* attaches this thread: the library has a record of it */
        park(NULL);
    }
    pthread_barrier_wait(&round->closed); /* used */
    pthread_barrier_wait(&round->closed); /* closed */
    return usable ? NULL : "a call of the library is missing or failed";
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: reload LIBRARY\n");
        return 2;
    }
    for (int i = 0; i < ROUNDS; i++) {
        struct round round;
        pthread_t thread;
        void *problem;

        round.library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        if (round.library == NULL) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        pthread_barrier_init(&round.closed, NULL, 2);
        if (pthread_create(&thread, NULL, use, &round) != 0)
            return 1;
        pthread_barrier_wait(&round.closed);
        if (dlclose(round.library) != 0) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        pthread_barrier_wait(&round.closed);
        pthread_join(thread, &problem);
        pthread_barrier_destroy(&round.closed);
        if (problem != NULL) {
            fprintf(stderr, "round %d: %s\n", i, (const char *)problem);
            return 1;
        }
    }
    return 0;
}
