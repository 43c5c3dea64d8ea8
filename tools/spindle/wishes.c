/* SPDX-License-Identifier: MIT */
/*
 * wishes.c - see wishes.h.
 */
#include "wishes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <spindle.h>

#include "command.h"
#include "options.h"

#define STATUS_HOST_DEFAULT "127.0.0.1"

enum { URL_BYTES = 4096 };

int wishes_complain(const char *what, const spn_problem *problem, int rc)
{
    fprintf(stderr, "spindle serve: %s%s%s\n", what, *what != '\0' ? ": " : "",
            problem->text[0] != '\0' ? problem->text : spn_status_text(rc));
    return EXIT_BAD;
}

/* ---- the command line ---------------------------------------------------------------- */

int wishes_read(struct wishes *w, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *value;
        int64_t number = 0;

        if (argv[i][0] != '-') {
            if (w->url != NULL)
                return misused("serve", "one URL, not '%s' too.", argv[i]);
            w->url = argv[i];
        } else if (option_is(argv[i], "status-port", &value)) {
            if (!option_number(value, 0, 65535, &number))
                return misused("serve", "--status-port wants a port, 0 to 65535.");
            w->status_port = (int)number;
            w->has_status_port = true;
        } else if (option_is(argv[i], "status-host", &value) && value != NULL) {
            w->status_host = value;
        } else if (option_is(argv[i], "status-socket", &value) && value != NULL) {
            w->status_socket = value;
        } else if (option_is(argv[i], "status-name", &value) && value != NULL) {
            if (w->guard.name_count == GUARD_NAMES_MAX)
                return misused("serve", "at most %d names.", GUARD_NAMES_MAX);
            w->guard.names[w->guard.name_count++] = value;
        } else if (option_is(argv[i], "admin-token-file", &value) && value != NULL) {
            w->token_file = value;
        } else if (option_is(argv[i], "no-status", &value) && value == NULL) {
            w->status_port = -1;
        } else if (option_is(argv[i], "seconds", &value)) {
            if (!option_number(value, 0, 1000000000, &w->seconds))
                return misused("serve", "--seconds wants a whole number.");
        } else if (option_is(argv[i], "drain", &value)) {
            if (!option_number(value, 0, 1000000, &w->drain_seconds))
                return misused("serve", "--drain wants whole seconds.");
        } else if (option_is(argv[i], "url-file", &value) && value != NULL) {
            w->url_file = value;
        } else if (option_is(argv[i], "config", &value) && value != NULL) {
            w->config = value;
        } else if (option_is(argv[i], "plugin", &value) && value != NULL) {
            if (w->plugin_count == PLUGINS_MAX)
                return misused("serve", "at most %d plug-ins.", PLUGINS_MAX);
            w->plugins[w->plugin_count++] = value;
        } else if (option_is(argv[i], "no-demo", &value) && value == NULL) {
            w->no_demo = true;
        } else if (option_is(argv[i], "status-host", &value) ||
                   option_is(argv[i], "status-socket", &value) ||
                   option_is(argv[i], "status-name", &value) ||
                   option_is(argv[i], "admin-token-file", &value) ||
                   option_is(argv[i], "url-file", &value) ||
                   option_is(argv[i], "config", &value) ||
                   option_is(argv[i], "plugin", &value)) {
            return misused("serve", "%s wants a value, as %s=...", argv[i], argv[i]);
        } else {
            return misused("serve", "there is no option '%s'.", argv[i]);
        }
    }
    if ((w->url != NULL) + (w->url_file != NULL) + (w->config != NULL) > 1)
        return misused("serve", "a URL, --url-file or --config, not two of them.");
    if (w->status_socket != NULL && (w->has_status_port || w->status_host != NULL))
        return misused("serve", "--status-socket, or --status-port and --status-host, "
                                "not both.");
    if (w->status_host == NULL)
        w->status_host = STATUS_HOST_DEFAULT;
    return EXIT_GOOD;
}

/* ---- URLs ---------------------------------------------------------------------------- */

void wishes_drop(struct wish_sections *sections)
{
    for (int i = 0; i < sections->count; i++)
        free(sections->list[i].url);
    sections->count = 0;
}

static int add(struct wish_sections *sections, const char *name, char *url)
{
    struct wish_section *section = &sections->list[sections->count];

    if (url == NULL)
        return SPN_ENOMEM;
    snprintf(section->name, sizeof(section->name), "%s", name);
    section->url = url;
    sections->count++;
    return SPN_OK;
}

/* The first line of the file that is neither empty nor a comment. */
static bool read_url_file(const char *path, char line[URL_BYTES])
{
    FILE *file = fopen(path, "r");
    bool found = false, cut = false;
    int error;

    if (file == NULL) {
        fprintf(stderr, "spindle serve: %s: %s\n", path, strerror(errno));
        return false;
    }
    errno = 0;
    while (!found && fgets(line, URL_BYTES, file) != NULL) {
        cut = strlen(line) == URL_BYTES - 1 && strchr(line, '\n') == NULL;
        line[strcspn(line, "\r\n")] = '\0';
        found = line[0] != '\0' && line[0] != '#';
    }
    error = ferror(file) ? errno : 0;
    (void)fclose(file);
    if (error != 0 || cut) { /* half a URL would say something else */
        fprintf(stderr, "spindle serve: %s: %s\n", path,
                error != 0 ? strerror(error) : "the line is too long");
        return false;
    }
    if (!found)
        fprintf(stderr, "spindle serve: there is no URL in %s\n", path);
    return found;
}

struct reading {
    struct wish_sections *sections;
    const char *path;
    bool is_told;
};

static int take_section(void *context, const char *name, const spn_url *url)
{
    struct reading *reading = context;
    const int64_t length = spn_url_print(url, SPN_URL_FULL, NULL, 0);
    char *text;

    reading->is_told = true;
    if (strcmp(spn_url_protocol(url), "dubbo") != 0) {
        fprintf(stderr,
                "spindle serve: %s: section [%s]: only the protocol dubbo is served; "
                "expected [dubbo] or [dubbo LABEL]\n",
                reading->path, name);
        return SPN_EINVAL;
    }
    if (reading->sections->count == STATUS_SERVERS_MAX) {
        fprintf(stderr, "spindle serve: %s: at most %d sections\n", reading->path,
                STATUS_SERVERS_MAX);
        return SPN_ERANGE;
    }
    reading->is_told = false;
    text = malloc((size_t)length + 1);
    if (text != NULL)
        (void)spn_url_print(url, SPN_URL_FULL, text, (size_t)length + 1);
    return add(reading->sections, name, text);
}

static bool read_config(const char *path, struct wish_sections *sections)
{
    struct reading reading = { sections, path, false };
    spn_problem problem = SPN_PROBLEM_INIT;
    const int rc = spn_url_file_read(path, take_section, &reading, &problem);

    if (rc == SPN_OK)
        return true;
    if (!reading.is_told) /* a problem begins with the file's name */
        (void)wishes_complain(problem.text[0] != '\0' ? "" : path, &problem, rc);
    wishes_drop(sections);
    return false;
}

bool wishes_read_urls(const struct wishes *w, struct wish_sections *sections)
{
    const char *url = w->url != NULL ? w->url : URL_DEFAULT;
    char line[URL_BYTES];

    sections->count = 0;
    if (w->config != NULL)
        return read_config(w->config, sections);
    if (w->url_file != NULL) {
        if (!read_url_file(w->url_file, line))
            return false;
        url = line;
    }
    if (add(sections, "", strdup(url)) == SPN_OK)
        return true;
    fputs("spindle serve: out of memory\n", stderr);
    return false;
}
