/* SPDX-License-Identifier: MIT */
/*
 * threadless.c - synchronous calls: the caller waits, and its own thread decodes the
 * answer that the I/O thread hands over.  The second call gets none, and hears why.
 */
#include <spindle.h>

#include <stdio.h>

struct call {
    spn_threadless *caller; /* where answers are decoded */
    spn_future *answer;
    int connected;
    char raw[16];
    int decoded;
};

/* On the caller's thread, while it waits. */
static int decode(void *arg)
{
    struct call *c = arg;

    if (sscanf(c->raw, "answer %d", &c->decoded) != 1)
        return spn_future_complete_error(c->answer, -1, "no answer") >= 0 ? 0 : -1;
    return spn_future_complete(c->answer, &c->decoded) == 1 ? 0 : -1;
}

/* The I/O thread: bytes have come; it must not spend its time on them. */
static int receive(void *arg)
{
    struct call *c = arg;

    if (!c->connected) /* none will come: the caller need not wait for its timeout */
        return spn_threadless_notify_return(c->caller, SPN_ECLOSED, "disconnected") >= 0
                   ? 0
                   : -1;
    snprintf(c->raw, sizeof c->raw, "answer %d", 42);
    return spn_executor_call(spn_threadless_executor(c->caller), decode, c);
}

/* What a call over a connection that is there, or is not, ends with. */
static int call(int connected)
{
    struct call c = { .connected = connected };
    spn_thread *io;
    void *value = NULL;
    spn_outcome outcome;
    int status;

    /* What comes after the wait would go to the shared executor: a pool, as a rule. */
    if (spn_threadless_create(&c.caller, spn_executor_direct()) != SPN_OK)
        return -1;
    if (spn_future_create(&c.answer, NULL) != SPN_OK)
        return -1;
    if (spn_threadless_set_future(c.caller, c.answer) != SPN_OK)
        return -1;
    if (spn_thread_create(&io, NULL, receive, &c) != SPN_OK)
        return -1;

    status = spn_threadless_wait_and_drain(c.caller, SPN_SEC(10));
    if (status == SPN_OK)
        status = spn_future_get(c.answer, &value, SPN_SEC(10));
    if (status == SPN_EFAILED && spn_future_result(c.answer, &outcome) == SPN_EFAILED)
        printf("%s\n", outcome.message);
    else
        printf("%s: %d\n", spn_status_text(status), value != NULL ? *(int *)value : -1);

    if (spn_thread_join(io, SPN_FOREVER, NULL) != SPN_OK)
        return -1;
    spn_thread_unref(io);
    spn_future_unref(c.answer);
    return spn_threadless_destroy(c.caller) == SPN_OK ? status : -1;
}

int main(void)
{
    return call(1) == SPN_OK && call(0) == SPN_EFAILED ? 0 : 1;
}
