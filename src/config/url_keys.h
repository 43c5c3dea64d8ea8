/* SPDX-License-Identifier: MIT */
/* url_keys.h - the keys that the library reads from a URL; see url_keys.c. */
#ifndef SPN__URL_KEYS_H
#define SPN__URL_KEYS_H

#include <stdbool.h>

/* A part of the URL that a file of URLs writes as a key: host, port, ... */
bool spn__url_key_is_part(const char *key);
/* A parameter; `default.x` is known if x is. */
bool spn__url_key_is_parameter(const char *key);
/* The part or parameter that somebody who wrote `key` may have meant; NULL: none is near. */
const char *spn__url_key_near(const char *key);

#endif /* SPN__URL_KEYS_H */
