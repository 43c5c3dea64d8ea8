/* SPDX-License-Identifier: MIT */
/*
 * redact.h - a URL as it may be shown: without user and password, and with "***" in place
 * of the value of each parameter whose key speaks of a secret.
 */
#ifndef REDACT_H
#define REDACT_H

#include <stdbool.h>
#include <stddef.h>

#include <spindle/url.h>

/* Whether a key has one of password, passwd, pwd, passphrase, token, secret, credential,
 * accesskey, access_key, apikey, api_key, private in it, in upper or lower case. */
bool redact_is_secret(const char *key);
/* As much as fits, and a zero byte. */
void redact_url(const spn_url *url, char *text, size_t capacity);

#endif /* REDACT_H */
