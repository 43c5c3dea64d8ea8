/* SPDX-License-Identifier: MIT */
#ifndef SPN_VERSION_H
#define SPN_VERSION_H

#include <spindle/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The headers' version.  Before 1.0 a new minor may change the ABI, and the
 * soname says so (libspindle.so.0.1). */
#define SPN_VERSION_MAJOR  0
#define SPN_VERSION_MINOR  1
#define SPN_VERSION_PATCH  0
#define SPN_VERSION_STRING "0.1.0"

/* One number that grows: 0.1.0 is 100, 1.2.3 is 10203. */
#define SPN_VERSION \
    (SPN_VERSION_MAJOR * 10000 + SPN_VERSION_MINOR * 100 + SPN_VERSION_PATCH)

/*
 * The version of the library that is running, which may be newer than the
 * headers a program was built with: SPN_VERSION and SPN_VERSION_STRING as the
 * library saw them.  Never blocks; the string is static.
 * Since    0.1
 */
SPN_API int spn_version(void);
SPN_API const char *spn_version_string(void);

#ifdef __cplusplus
}
#endif
#endif /* SPN_VERSION_H */
