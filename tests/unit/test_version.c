/* SPDX-License-Identifier: MIT */
#include "test.h"

#include <stdio.h>

#include <spindle/version.h>

/* The library and the headers it was built from agree. */
TEST(version__library__same_as_headers)
{
    CHECK_EQ(spn_version(), SPN_VERSION);
    CHECK_STR(spn_version_string(), SPN_VERSION_STRING);
}

/* The string spells the three numbers, and the one number is made of them: the
 * four lines of version.h are edited by hand. */
TEST(version__string__spells_the_numbers)
{
    char expected[32];

    snprintf(expected, sizeof expected, "%d.%d.%d", SPN_VERSION_MAJOR,
             SPN_VERSION_MINOR, SPN_VERSION_PATCH);
    CHECK_STR(SPN_VERSION_STRING, expected);
    CHECK_EQ(SPN_VERSION,
             SPN_VERSION_MAJOR * 10000 + SPN_VERSION_MINOR * 100 + SPN_VERSION_PATCH);
    CHECK(SPN_VERSION >= 100); /* 0.1.0 was the first */
}
