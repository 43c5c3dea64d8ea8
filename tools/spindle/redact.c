/* SPDX-License-Identifier: MIT */
/*
 * redact.c - see redact.h.
 */
#include "redact.h"

#include <string.h>

bool redact_is_secret(const char *key)
{
    static const char *const words[] = { "password",   "passwd",    "pwd",
                                         "passphrase", "token",     "secret",
                                         "credential", "accesskey", "access_key",
                                         "apikey",     "api_key",   "private" };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcasestr(key, words[i]) != NULL)
            return true;
    return false;
}

void redact_url(const spn_url *url, char *text, size_t capacity)
{
    spn_url *shown = spn_url_ref(url);
    spn_url_form form = SPN_URL_STRING; /* has neither user nor password */
    spn_url_parameter parameter;

    for (size_t i = 0; spn_url_at(url, i, &parameter) == SPN_OK; i++) {
        spn_url *next;

        if (!redact_is_secret(parameter.key) || parameter.value[0] == '\0')
            continue;
        if (spn_url_set(shown, parameter.key, "***", &next) != SPN_OK) {
            form = SPN_URL_IDENTITY; /* no memory: rather too little */
            break;
        }
        spn_url_unref(shown);
        shown = next;
    }
    (void)spn_url_print(shown, form, text, capacity);
    spn_url_unref(shown);
}
