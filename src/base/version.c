/* SPDX-License-Identifier: MIT */
/* version.c - the version the library was built as, whatever headers its user
 * was built with. */
#include <spindle/version.h>

/* Two digits each: beyond, spn_version() would no longer grow. */
_Static_assert(SPN_VERSION_MINOR < 100 && SPN_VERSION_PATCH < 100,
               "SPN_VERSION has room for two digits");

int spn_version(void)
{
    return SPN_VERSION;
}

const char *spn_version_string(void)
{
    return SPN_VERSION_STRING;
}
