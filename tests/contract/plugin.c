/* SPDX-License-Identifier: MIT */
/*
 * plugin.c - shared objects for test_extension.c, one for each PLUGIN_...: a good one, and
 * those with one thing wrong.  They call nothing of the library, which the test has linked
 * statically.
 */
#include <spindle/extension.h>

#define PLUGIN_GOOD    0
#define PLUGIN_ABI     1
#define PLUGIN_MUTE    2 /* no entry point */
#define PLUGIN_REFUSES 3
#define PLUGIN_SIZE    4
#define PLUGIN_HALF    5 /* a good extension, then a wrong one */
#define PLUGIN_TAKEN   6 /* a name of its own, then one that is built in */

static const int letter = 42, wrong = 13;

static const spn_extension_kind kind = { sizeof kind,
                                         PLUGIN == PLUGIN_GOOD ? "letter" : "half",
                                         "loaded", NULL };
static const spn_extension_kind *const kinds[] = { &kind };

static const spn_extension first = { .size = sizeof first,
                                     .kind = PLUGIN == PLUGIN_GOOD ? "letter" : "half",
                                     .name = "loaded",
                                     .instance = &letter };
static const spn_extension second = { .size = sizeof second,
                                      .kind = PLUGIN == PLUGIN_TAKEN ? "threadpool"
                                                                     : "letter",
                                      .name = PLUGIN == PLUGIN_TAKEN  ? "fixed"
                                              : PLUGIN == PLUGIN_HALF ? "No Name"
                                                                      : "other",
                                      .instance = &wrong };
static const spn_extension *const extensions[] = { &first, &second };

static const spn_plugin plugin = { .size = PLUGIN == PLUGIN_SIZE ? 3 : sizeof plugin,
                                   .abi = PLUGIN == PLUGIN_ABI ? SPN_PLUGIN_ABI + 1
                                                               : SPN_PLUGIN_ABI,
                                   .kinds = kinds,
                                   .kind_count = 1,
                                   .extensions = extensions,
                                   .extension_count = 2 };

#if PLUGIN == PLUGIN_MUTE
const spn_plugin *not_the_entry(void);
__attribute__((visibility("default"))) const spn_plugin *not_the_entry(void)
#else
SPN_PLUGIN_EXPORT
#endif
{
    return PLUGIN == PLUGIN_REFUSES ? NULL : &plugin;
}
