/* SPDX-License-Identifier: MIT */
/*
 * metrics_text.h - strict readers of what metrics are written as: Prometheus text, and
 * JSON.  They take nothing that the formats do not allow, and less.
 */
#ifndef METRICS_TEXT_H
#define METRICS_TEXT_H

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- JSON -------------------------------------------------------------------------- */

static inline const char *json_value(const char *at);

static inline const char *json_string(const char *at)
{
    if (at == NULL || *at++ != '"')
        return NULL;
    while (*at != '"') {
        if ((unsigned char)*at < 0x20)
            return NULL;
        if (*at == '\\') {
            at++;
            if (*at == 'u') {
                for (int i = 0; i < 4; i++)
                    if (!isxdigit((unsigned char)*++at))
                        return NULL;
            } else if (*at == '\0' || strchr("\"\\/bfnrt", *at) == NULL) {
                return NULL;
            }
        }
        at++;
    }
    return at + 1;
}

static inline const char *json_number(const char *at)
{
    const char *start = at;

    if (*at == '-')
        at++;
    if (*at == '0' ? isdigit((unsigned char)at[1]) : !isdigit((unsigned char)*at))
        return NULL;
    while (isdigit((unsigned char)*at))
        at++;
    if (*at == '.') {
        if (!isdigit((unsigned char)*++at))
            return NULL;
        while (isdigit((unsigned char)*at))
            at++;
    }
    return at > start ? at : NULL;
}

/* A list of values, or of names with values, after its first bracket. */
static inline const char *json_list(const char *at, char end, bool named)
{
    while (isspace((unsigned char)*at))
        at++;
    if (*at == end)
        return at + 1;
    for (;;) {
        while (isspace((unsigned char)*at))
            at++;
        if (named && ((at = json_string(at)) == NULL || *at++ != ':'))
            return NULL;
        at = json_value(at);
        if (at == NULL)
            return NULL;
        while (isspace((unsigned char)*at))
            at++;
        if (*at == end)
            return at + 1;
        if (*at++ != ',')
            return NULL;
    }
}

/* After the value that begins at `at`; NULL: it is none. */
static inline const char *json_value(const char *at)
{
    switch (*at) {
    case '{':
        return json_list(at + 1, '}', true);
    case '[':
        return json_list(at + 1, ']', false);
    case '"':
        return json_string(at);
    case 'n':
        return strncmp(at, "null", 4) == 0 ? at + 4 : NULL;
    default:
        return json_number(at);
    }
}

/* ---- Prometheus ------------------------------------------------------------------------ */

struct prometheus {
    const char *error; /* what is wrong; NULL: nothing */
    int families, samples;
    char seen[256][128]; /* families that had their TYPE */
    char family[128], type[16], helped[128];
    /* The histogram that is being read. */
    char series[256];
    double last_le, last_count, infinite;
};

static inline size_t metric_name_length(const char *at)
{
    size_t n = 0;

    if (isdigit((unsigned char)*at))
        return 0;
    while (isalnum((unsigned char)at[n]) || at[n] == '_' || at[n] == ':')
        n++;
    return n;
}

/* After the labels; copies them without `le`, which goes to *le. */
static inline const char *read_labels(struct prometheus *p, const char *at,
                                      char *others, char *le)
{
    size_t used = 0;

    others[0] = le[0] = '\0';
    if (*at != '{')
        return at;
    at++;
    for (;;) {
        const char *name = at;
        const size_t length = metric_name_length(at);
        char value[160];
        size_t n = 0;

        if (length == 0 || at[length] != '=' || at[length + 1] != '"') {
            p->error = "a label without a name or a value";
            return at;
        }
        for (at += length + 2; *at != '"'; at++) {
            if (*at == '\\' && *++at != '\\' && *at != '"' && *at != 'n') {
                p->error = "a bad escape in a label";
                return at;
            }
            if (*at == '\0' || *at == '\n' || n == sizeof value - 1) {
                p->error = "a label that does not end";
                return at;
            }
            value[n++] = *at;
        }
        value[n] = '\0';
        if (length == 2 && strncmp(name, "le", 2) == 0)
            snprintf(le, 32, "%.31s", value);
        else
            used += (size_t)snprintf(others + used, 200 - used, "%.*s=%.80s;",
                                     (int)length, name, value);
        at++;
        if (*at == '}')
            return at + 1;
        if (*at++ != ',') {
            p->error = "labels without a comma";
            return at;
        }
    }
}

static inline void read_bucket(struct prometheus *p, const char *others, const char *le,
                               double value)
{
    char series[256];
    const double bound = strcmp(le, "+Inf") == 0 ? -1 : atof(le);

    snprintf(series, sizeof series, "%.200s", others);
    if (strcmp(series, p->series) != 0 || p->last_le == -1) {
        memcpy(p->series, series, sizeof series);
        p->last_le = p->last_count = 0;
    }
    if (le[0] == '\0' || (bound != -1 && bound <= p->last_le))
        p->error = "buckets that do not ascend";
    if (value < p->last_count)
        p->error = "buckets that are not cumulative";
    p->last_le = bound;
    p->last_count = value;
    if (bound == -1)
        p->infinite = value;
}

static inline void read_sample(struct prometheus *p, const char *line)
{
    const size_t length = metric_name_length(line);
    const size_t family = strlen(p->family);
    char others[256], le[32], *end;
    const char *at, *suffix = line + family;
    double value;

    if (length < family || family == 0 || strncmp(line, p->family, family) != 0) {
        p->error = "a sample outside of its family";
        return;
    }
    at = read_labels(p, line + length, others, le);
    if (p->error != NULL)
        return;
    if (*at != ' ') {
        p->error = "a sample without a value";
        return;
    }
    value = strcmp(at + 1, "+Inf") == 0 ? 1e300 : strtod(at + 1, &end);
    if (value != 1e300 && (*end != '\0' || end == at + 1))
        p->error = "a value that is no number";
    if (strcmp(p->type, "histogram") == 0) {
        if (strncmp(suffix, "_bucket", 7) == 0)
            read_bucket(p, others, le, value);
        else if (strncmp(suffix, "_count", 6) == 0 && value != p->infinite)
            p->error = "a count that is not the last bucket";
        else if (strncmp(suffix, "_count", 6) != 0 && strncmp(suffix, "_sum", 4) != 0)
            p->error = "a histogram's sample of no kind";
    } else if (length != family) {
        p->error = "a sample with another name than its family";
    } else if (value < 0) {
        p->error = "a negative count";
    }
    p->samples++;
}

static inline void read_type(struct prometheus *p, const char *line)
{
    const size_t length = metric_name_length(line);

    if (length == 0 || line[length] != ' ' || length >= sizeof p->family) {
        p->error = "a TYPE without a name";
        return;
    }
    snprintf(p->family, sizeof p->family, "%.*s", (int)length, line);
    snprintf(p->type, sizeof p->type, "%.15s", line + length + 1);
    if (strcmp(p->family, p->helped) != 0)
        p->error = "a TYPE without its HELP before it";
    for (int i = 0; i < p->families; i++)
        if (strcmp(p->seen[i], p->family) == 0)
            p->error = "a family twice";
    if (strcmp(p->type, "counter") == 0
            ? length < 6 || strcmp(p->family + length - 6, "_total") != 0
            : strcmp(p->type, "gauge") != 0 && strcmp(p->type, "histogram") != 0)
        p->error = "a type that does not fit";
    memcpy(p->seen[p->families++ % 256], p->family, sizeof p->family);
    p->series[0] = '\1';
    p->series[1] = '\0';
    p->infinite = -1;
}

/* Reads a whole exposition; p.error says what is wrong with it. */
static inline struct prometheus prometheus_read(const char *text)
{
    static struct prometheus p;
    char line[1024];

    memset(&p, 0, sizeof p);
    while (*text != '\0' && p.error == NULL) {
        const size_t length = strcspn(text, "\n");

        if (text[length] != '\n') {
            p.error = "a last line that does not end";
            break;
        }
        if (length >= sizeof line) {
            p.error = "a line that is too long";
            break;
        }
        memcpy(line, text, length);
        line[length] = '\0';
        if (strncmp(line, "# HELP ", 7) == 0)
            snprintf(p.helped, sizeof p.helped, "%.*s",
                     (int)metric_name_length(line + 7) % 127, line + 7);
        else if (strncmp(line, "# TYPE ", 7) == 0)
            read_type(&p, line + 7);
        else
            read_sample(&p, line);
        text += length + 1;
    }
    return p;
}

#endif /* METRICS_TEXT_H */
