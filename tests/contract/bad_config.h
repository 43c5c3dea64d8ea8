/* SPDX-License-Identifier: MIT */
/* bad_config.h - what bad_input.h has of configuration: see there. */
#ifndef BAD_CONFIG_H
#define BAD_CONFIG_H

#include <spindle/url.h>

static const spn_url_parts some_parts = { .size = sizeof some_parts,
                                          .host = "h",
                                          .port = SPN_DEFAULT };

static inline void open_config(spn_url **url)
{
    REQUIRE_OK(spn_url_parse(url, "dubbo://u:w@h:1/p?a=x&n=5", NULL));
}

static inline void close_config(spn_url *url)
{
    spn_url_unref(url);
}

#endif /* BAD_CONFIG_H */
