/* SPDX-License-Identifier: MIT */
/*
 * filters.c - a program with a kind of extension of its own: filters that a request passes.
 *
 * A URL chooses them: some are active for every provider, some if the URL has their key, and
 * `filter=` adds and excludes by name.  A filter that turns out to be of no use here is taken
 * out again before anything asks for it.
 */
#include <spindle.h>

#include <stdio.h>
#include <string.h>

enum { FILTERS_MAX = 8 };

struct filter {
    const char *name;
    int (*admits)(const char *request);
};

static int admit_signed(const char *request)
{
    return strstr(request, "token=") != NULL;
}

static int admit_short(const char *request)
{
    return strlen(request) < 40;
}

static int admit_and_log(const char *request)
{
    printf("  log: %s\n", request);
    return 1;
}

static const struct filter token = { "token", admit_signed };
static const struct filter size = { "size", admit_short };
static const struct filter log_filter = { "log", admit_and_log };
static const struct filter words = { "words", NULL }; /* needs a list of words */

static int add_filter(spn_extensions *extensions, const struct filter *filter,
                      const char *keys, int order)
{
    spn_extension extension = { .size = sizeof extension, .kind = "filter" };

    extension.name = filter->name;
    extension.instance = filter;
    extension.flags = SPN_EXTENSION_ACTIVATE;
    extension.group = "provider";
    extension.keys = keys;
    extension.order = order;
    return spn_extensions_register(extensions, &extension, NULL);
}

/* Whether a request passes all filters that the URL chooses; -1: a filter is missing. */
static int passes(spn_extensions *extensions, const char *text, const char *request)
{
    const void *filters[FILTERS_MAX];
    spn_problem problem = SPN_PROBLEM_INIT;
    int64_t count = -1;
    int admitted = 1;
    spn_url *url;

    if (spn_url_parse(&url, text, &problem) == SPN_OK)
        count = spn_extensions_activate(extensions, "filter", url,
                                        spn_url_get(url, NULL, "filter"), "provider",
                                        filters, FILTERS_MAX, &problem);
    spn_url_unref(url);
    if (count < 0 || count > FILTERS_MAX) {
        printf("%s: %s\n", text, problem.text);
        return -1;
    }
    printf("%s:", text);
    for (int64_t i = 0; i < count; i++)
        printf(" %s", ((const struct filter *)filters[i])->name);
    printf("\n");
    for (int64_t i = 0; i < count && admitted; i++)
        admitted = ((const struct filter *)filters[i])->admits(request);
    return admitted;
}

int main(void)
{
    const spn_extension_kind kind = { .size = sizeof kind, .name = "filter" };
    spn_extensions *extensions;
    int failures;

    if (spn_extensions_create(&extensions, NULL) != SPN_OK ||
        spn_extensions_define(extensions, &kind, NULL) != SPN_OK ||
        add_filter(extensions, &size, NULL, 1) != SPN_OK ||
        add_filter(extensions, &words, NULL, 2) != SPN_OK ||
        add_filter(extensions, &token, "token", 3) != SPN_OK ||
        add_filter(extensions, &log_filter, "accesslog", 4) != SPN_OK)
        return 1;
    if (words.admits == NULL && /* there is no list */
        spn_extensions_unregister(extensions, "filter", "words") != SPN_OK)
        return 1;

    failures = passes(extensions, "dubbo://10.0.0.1:20880", "GET /orders") != 1;
    failures += passes(extensions, "dubbo://10.0.0.1:20880?token=true&accesslog=true",
                       "GET /orders") != 0;
    failures +=
        passes(extensions, "dubbo://10.0.0.1:20880?token=true&filter=-token,log",
               "GET /orders") != 1;
    failures +=
        passes(extensions, "dubbo://10.0.0.1:20880?filter=words", "GET /orders") != -1;
    return spn_extensions_destroy(extensions) != SPN_OK || failures != 0;
}
