/* SPDX-License-Identifier: MIT */
/*
 * threadless.c - a synchronous call: the caller waits, and its own thread decodes the
 * answer that the I/O thread hands over.
 */
#include <spindle.h>

#include <stdio.h>

struct call {
    spn_executor *caller; /* where answers are decoded */
    spn_future *answer;
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

    snprintf(c->raw, sizeof c->raw, "answer %d", 42);
    return spn_executor_call(c->caller, decode, c);
}

int main(void)
{
    spn_threadless *threadless;
    spn_thread *io;
    struct call c = { .decoded = 0 };
    void *value = NULL;
    int status;

    /* What comes after the wait would go to the shared executor: a pool, as a rule. */
    if (spn_threadless_create(&threadless, spn_executor_direct()) != SPN_OK)
        return 1;
    c.caller = spn_threadless_executor(threadless);
    if (spn_future_create(&c.answer, NULL) != SPN_OK)
        return 1;
    if (spn_threadless_set_future(threadless, c.answer) != SPN_OK)
        return 1;
    if (spn_thread_create(&io, NULL, receive, &c) != SPN_OK)
        return 1;

    status = spn_threadless_wait_and_drain(threadless, SPN_SEC(10));
    if (status == SPN_OK)
        status = spn_future_get(c.answer, &value, SPN_SEC(10));
    printf("%s: %d\n", spn_status_text(status), value != NULL ? *(int *)value : -1);

    if (spn_thread_join(io, SPN_FOREVER, NULL) != SPN_OK)
        return 1;
    spn_thread_unref(io);
    spn_future_unref(c.answer);
    return spn_threadless_destroy(threadless) == SPN_OK && status == SPN_OK ? 0 : 1;
}
