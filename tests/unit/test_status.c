/* SPDX-License-Identifier: MIT */
/* Status codes: the numbers are ABI, so they are written here a second time. */
#include "test.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static const struct {
    int code, number;
    const char *name, *text;
} pinned[] = {
    { SPN_OK, 0, "SPN_OK", "success" },
    { SPN_EINVAL, -1, "SPN_EINVAL", "invalid argument" },
    { SPN_ENOMEM, -2, "SPN_ENOMEM", "out of memory" },
    { SPN_ESTATE, -3, "SPN_ESTATE", "not possible in the present state" },
    { SPN_EBUSY, -4, "SPN_EBUSY", "still in use" },
    { SPN_EAGAIN, -5, "SPN_EAGAIN", "no thread could be created now" },
    { SPN_EDEADLK, -6, "SPN_EDEADLK", "the caller would wait for itself" },
    { SPN_ENOTSUP, -7, "SPN_ENOTSUP", "not supported on this system" },
    { SPN_EPERM, -8, "SPN_EPERM", "permission denied" },
    { SPN_ERANGE, -9, "SPN_ERANGE", "value would overflow" },
    { SPN_ETIMEDOUT, -10, "SPN_ETIMEDOUT", "deadline passed" },
    { SPN_ECANCELED, -11, "SPN_ECANCELED", "task was cancelled" },
    { SPN_EINTR, -12, "SPN_EINTR", "wait was interrupted" },
    { SPN_EFAILED, -13, "SPN_EFAILED", "task failed" },
    { SPN_EFULL, -20, "SPN_EFULL", "queue is at capacity" },
    { SPN_EEMPTY, -21, "SPN_EEMPTY", "no such element" },
    { SPN_EREJECTED, -22, "SPN_EREJECTED", "executor refused the task" },
    { SPN_ESHUTDOWN, -23, "SPN_ESHUTDOWN", "no longer accepts work" },
    { SPN_ECLOSED, -24, "SPN_ECLOSED", "queue is closed" },
    { SPN_EIO, -30, "SPN_EIO", "connection failed or broke" },
    { SPN_EADDRINUSE, -31, "SPN_EADDRINUSE", "address is in use" },
    { SPN_EUNREACHABLE, -32, "SPN_EUNREACHABLE", "nobody answers there" },
    { SPN_EPROTO, -33, "SPN_EPROTO", "bytes that are not the protocol" },
    { SPN_ETOOBIG, -34, "SPN_ETOOBIG", "larger than the limit" },
    { SPN_EREMOTE, -35, "SPN_EREMOTE", "the other side answered with an error" },
};
enum { PINNED = sizeof pinned / sizeof pinned[0] };

#define COUNT(name, number, text) +1
enum { MAPPED = 0 SPN_STATUS_MAP(COUNT) };

/* Every code has the number, the name and the text it was released with. */
TEST(status__every_code__number_name_and_text_pinned)
{
    CHECK_EQ(PINNED, MAPPED + 1); /* a new code needs a line above */
    for (int i = 0; i < PINNED; i++) {
        CHECK_EQ(pinned[i].code, pinned[i].number);
        CHECK_STR(spn_status_name(pinned[i].number), pinned[i].name);
        CHECK_STR(spn_status_text(pinned[i].number), pinned[i].text);
    }
}

/* No two codes share a number, a name or a text. */
TEST(status__every_code__unique)
{
    for (int i = 0; i < PINNED; i++)
        for (int j = 0; j < i; j++) {
            CHECK(pinned[i].number != pinned[j].number);
            CHECK(strcmp(spn_status_name(pinned[i].number),
                         spn_status_name(pinned[j].number)) != 0);
            CHECK(strcmp(spn_status_text(pinned[i].number),
                         spn_status_text(pinned[j].number)) != 0);
        }
}

/* Any other int is answered too: the gaps, the positive numbers, the ends. */
TEST(status__unknown_number__says_so)
{
    const int far[] = { INT_MIN, INT_MIN + 1, -1000, 1000, INT_MAX };

    for (size_t i = 0; i < sizeof far / sizeof far[0]; i++) {
        CHECK_STR(spn_status_name(far[i]), "SPN_EUNKNOWN");
        CHECK_STR(spn_status_text(far[i]), "unknown status");
    }
    for (int number = -99; number <= 99; number++) {
        bool known = false;

        for (int i = 0; i < PINNED; i++)
            known = known || pinned[i].number == number;
        CHECK_EQ(strcmp(spn_status_name(number), "SPN_EUNKNOWN") != 0, known);
        CHECK_EQ(strcmp(spn_status_text(number), "unknown status") != 0, known);
    }
}
