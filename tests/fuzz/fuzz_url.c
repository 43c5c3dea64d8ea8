/* SPDX-License-Identifier: MIT */
/*
 * fuzz_url.c - any bytes as a URL: refused with a place inside the text, or read; and what
 * was read prints, in both forms, as what is read as the same again.
 */
#include "fuzz.h"

#include <stdint.h>
#include <string.h>

#include <spindle/url.h>

static char text[SPN_URL_TEXT_MAX + 64], printed[3 * SPN_URL_TEXT_MAX + 64];

static void ask(const spn_url *url)
{
    spn_url_parameter p;
    spn_url *backup;
    int32_t number;
    int64_t wide;

    for (size_t i = 0; spn_url_at(url, i, &p) == SPN_OK; i++) {
        fuzz_require(spn_url_get(url, NULL, p.key) == p.value);
        (void)!spn_url_get_int(url, NULL, p.key, 0, &number);
        (void)!spn_url_get_long(url, NULL, p.key, 0, &wide);
        (void)spn_url_get_bool(url, NULL, p.key, 0);
        (void)spn_url_get(url, p.key, p.value);
    }
    if (spn_url_backup(url, 1, &backup) == SPN_OK)
        spn_url_unref(backup);
}

static void check(const spn_url *url)
{
    spn_url *again;

    fuzz_require(spn_url_print(url, SPN_URL_FULL, printed, sizeof printed) > 0);
    fuzz_require(spn_url_parse(&again, printed, NULL) == SPN_OK);
    fuzz_require(spn_url_equals(url, again) == 1);
    spn_url_unref(again);
    fuzz_require(spn_url_print(url, SPN_URL_ENCODED, printed, sizeof printed) > 0);
    fuzz_require(spn_url_parse_encoded(&again, printed, NULL) == SPN_OK);
    fuzz_require(spn_url_equals(url, again) == 1);
    spn_url_unref(again);
    ask(url);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    spn_problem problem = { SIZE_MAX, "" };
    spn_url *url;
    int rc;

    if (size >= sizeof text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    rc = spn_url_parse(&url, text, &problem);
    fuzz_require((rc == SPN_OK) == (url != NULL));
    if (rc == SPN_OK)
        check(url);
    else
        fuzz_require((rc == SPN_EINVAL || rc == SPN_ERANGE) &&
                     problem.offset <= strlen(text) && problem.text[0] != '\0');
    spn_url_unref(url);
    rc = spn_url_parse_encoded(&url, text, &problem);
    if (rc == SPN_OK)
        check(url);
    else
        fuzz_require(problem.offset <= strlen(text));
    spn_url_unref(url);
    return 0;
}
