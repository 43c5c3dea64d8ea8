/* SPDX-License-Identifier: MIT */
/*
 * wishes.h - what the command line of `spindle serve` asks for, and the files it names.
 */
#ifndef WISHES_H
#define WISHES_H

#include <stdbool.h>
#include <stdint.h>

#include <spindle/problem.h>

#include "guard.h"
#include "status.h"

enum { PLUGINS_MAX = 32, SECTION_BYTES = 64 };

#define URL_DEFAULT \
    "dubbo://127.0.0.1:20880?dispatcher=all&threadpool=fixed&threads=200"

/* What one server is to serve. */
struct wish_section {
    char name[SECTION_BYTES]; /* of the file's section; "": the URL stood alone */
    char *url;
};

struct wish_sections {
    struct wish_section list[STATUS_SERVERS_MAX];
    int count;
};

struct wishes {
    const char *url;      /* of the command line, or NULL                  */
    const char *url_file; /* a file with one URL                           */
    const char *config;   /* a file with a section for each server         */
    const char *status_host;
    const char *status_socket; /* NULL: a port instead */
    const char *token_file;
    struct guard guard;
    int status_port; /* -1: no page */
    bool has_status_port;
    int64_t seconds; /* how long to serve; -1: until told */
    int64_t drain_seconds;
    bool no_demo;
    const char *plugins[PLUGINS_MAX];
    int plugin_count;
};

/* Fills in *wishes, which has its defaults; an exit status. */
int wishes_read(struct wishes *wishes, int argc, char **argv);

/* Reads the URLs that are asked for, of the command line or of the file, which may have
 * changed; false: a sentence was said, and *sections is empty. */
bool wishes_read_urls(const struct wishes *wishes, struct wish_sections *sections);
void wishes_drop(struct wish_sections *sections);

/* Says what is wrong with `what` (may be ""); EXIT_BAD. */
int wishes_complain(const char *what, const spn_problem *problem, int rc);

#endif /* WISHES_H */
