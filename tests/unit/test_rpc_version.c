/* SPDX-License-Identifier: MIT */
#include "test.h"

#include <spindle-rpc.h>

/* The two libraries, and the headers they were built from, are of one version. */
TEST(rpc_version__library__same_as_libspindle)
{
    CHECK_EQ(spn_rpc_version(), SPN_VERSION);
    CHECK_EQ(spn_rpc_version(), spn_version());
    CHECK_STR(spn_rpc_version_string(), spn_version_string());
}
