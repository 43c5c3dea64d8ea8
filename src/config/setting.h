/* SPDX-License-Identifier: MIT */
/* setting.h - numbers of a URL, refused with their key when they are none. */
#ifndef SPN__SETTING_H
#define SPN__SETTING_H

#include <spindle/problem.h>
#include <spindle/url.h>

#include "base/shared.h"

/* A number of the URL; one that is none is refused, with its key. */
SPN__SHARED int spn__setting(const spn_url *url, const char *key, int32_t otherwise,
                             int32_t *value, spn_problem *problem);

#endif /* SPN__SETTING_H */
