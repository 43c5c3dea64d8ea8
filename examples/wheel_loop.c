/* SPDX-License-Identifier: MIT */
/*
 * wheel_loop.c - a program with a loop of its own keeps its timeouts in a wheel.
 *
 * The wheel has no clock: the loop tells it the time, asks when to come back, and takes
 * out what is due.  That also makes it easy to test; here a day passes in an instant.
 */
#include <stdio.h>

#include <spindle.h>

struct session {
    spn_wheel_node node; /* first, so that one is the other's address */
    const char *user;
    int64_t ends_ns;
};

/* Whose session goes on when the program ends. */
static void end_session(spn_wheel_node *node, void *wheel)
{
    printf("         the session of %s is cut short\n",
           ((struct session *)(void *)node)->user);
    spn_wheel_remove(wheel, node);
}

int main(void)
{
    struct session sessions[] = { { .user = "ann", .ends_ns = SPN_SEC(3600) },
                                  { .user = "bob", .ends_ns = SPN_SEC(60) },
                                  { .user = "eve", .ends_ns = SPN_SEC(86400) },
                                  { .user = "zoe", .ends_ns = SPN_SEC(200000) } };
    spn_wheel_opts opts = SPN_WHEEL_OPTS_INIT;
    spn_wheel *wheel;
    int64_t now_ns = 0;
    int turns = 0;

    opts.tick_ns = SPN_SEC(1);
    if (spn_wheel_create(&wheel, &opts) != SPN_OK)
        return 1;
    for (int i = 0; i < 4; i++)
        if (spn_wheel_add(wheel, &sessions[i].node, sessions[i].ends_ns) != SPN_OK)
            return 1;
    spn_wheel_remove(wheel, &sessions[1].node); /* bob says good-bye */

    /* The program runs until the session of eve has ended. */
    while (spn_wheel_node_state(&sessions[2].node) != SPN_WHEEL_NODE_OUT) {
        spn_wheel_node *node;

        now_ns = spn_wheel_next_expiry(wheel); /* a server would poll() until then */
        spn_wheel_advance_to(wheel, now_ns);
        while ((node = spn_wheel_take_due(wheel)) != NULL)
            printf("%6lld s: the session of %s ends\n",
                   (long long)(now_ns / SPN_SEC(1)),
                   ((struct session *)(void *)node)->user);
        turns++;
    }
    printf("a day in %d turns of the loop, %d left\n", turns,
           (int)spn_wheel_count(wheel));
    if (spn_wheel_each(wheel, end_session, wheel) != SPN_OK)
        return 1;
    return now_ns == SPN_SEC(86400) && spn_wheel_destroy(wheel) == SPN_OK ? 0 : 1;
}
