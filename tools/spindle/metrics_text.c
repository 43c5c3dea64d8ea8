/* SPDX-License-Identifier: MIT */
/*
 * metrics_text.c - see metrics_text.h.
 *
 * A registry of the library has room for one server, whose families carry no label.  Several
 * servers have a registry each, and write the same families in the same order; so the texts
 * are read side by side, and the label is put into each sample.
 */
#include "metrics_text.h"

#include <string.h>

static size_t line_length(const char *at)
{
    const size_t length = strcspn(at, "\n");

    return length + (at[length] == '\n');
}

/* name{le="1"} 5 becomes name{server="a",le="1"} 5, and name 5 name{server="a"} 5. */
static void put_sample(const char *at, size_t length, const char *server, FILE *to)
{
    const size_t name = strcspn(at, "{ \n");

    (void)fwrite(at, 1, name, to);
    if (*server != '\0' && at[name] == '{')
        fprintf(to, "{server=\"%s\",", server);
    else if (*server != '\0')
        fprintf(to, "{server=\"%s\"}", server);
    else if (at[name] == '{')
        fputc('{', to);
    at += name + (at[name] == '{');
    (void)fwrite(at, 1, length - name - (at[-1] == '{'), to);
}

/* The heading of a family: written, or passed over. */
static const char *take_heading(const char *at, FILE *to)
{
    for (; *at == '#'; at += line_length(at))
        if (to != NULL)
            (void)fwrite(at, 1, line_length(at), to);
    return at;
}

static const char *take_samples(const char *at, const char *server, FILE *to)
{
    for (; *at != '\0' && *at != '#'; at += line_length(at))
        put_sample(at, line_length(at), server, to);
    return at;
}

void metrics_text_merge(const struct metrics_text *texts, int count, FILE *to)
{
    enum { TEXTS_MAX = 16 };
    const char *at[TEXTS_MAX];

    if (count > TEXTS_MAX)
        count = TEXTS_MAX;
    for (int i = 0; i < count; i++)
        at[i] = texts[i].text;
    while (count > 0 && *at[0] != '\0')
        for (int i = 0; i < count; i++)
            at[i] = take_samples(take_heading(at[i], i == 0 ? to : NULL),
                                 texts[i].server, to);
}
