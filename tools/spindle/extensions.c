/* SPDX-License-Identifier: MIT */
/*
 * extensions.c - `spindle extensions`: what a URL can name, and what a shared object brings.
 */
#include "command.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <spindle.h>
#ifdef SPN_PROGRAM_RPC
#include <spindle/dispatcher.h>
#endif

static void print_extension(void *ctx, const spn_extension *e, const char *origin)
{
    const spn_extension_kind *kind = ctx;
    const bool is_default =
        kind->default_name != NULL && strcmp(kind->default_name, e->name) == 0;

    /* Nobody registers here but `add_dispatchers`. */
    if (strcmp(origin, "registered") == 0)
        origin = "built in";
    printf("  %-20s %s%s%s\n", e->name, origin, is_default ? ", default" : "",
           (e->flags & SPN_EXTENSION_WRAPPER) != 0 ? ", wrapper" : "");
}

static void print_kind(void *ctx, const spn_extension_kind *kind)
{
    printf("%s (%s)\n", kind->name, kind->keys != NULL ? kind->keys : kind->name);
    (void)spn_extensions_each(ctx, kind->name, print_extension,
                              (void *)(uintptr_t)kind);
}

/* Those of libspindle-rpc, which a server registers after the program's own. */
static int add_dispatchers(spn_extensions *extensions, spn_problem *problem)
{
#ifdef SPN_PROGRAM_RPC
    return spn_dispatchers_register(extensions, problem);
#else
    (void)extensions;
    (void)problem;
    return SPN_OK;
#endif
}

static int run(int argc, char **argv)
{
    spn_extensions *extensions;
    spn_problem problem = SPN_PROBLEM_INIT;
    int status = EXIT_GOOD;

    if (spn_extensions_create(&extensions, NULL) != SPN_OK) {
        fputs("spindle extensions: out of memory\n", stderr);
        return EXIT_BAD;
    }
    for (int i = 1; i < argc && status == EXIT_GOOD; i++) {
        if (argv[i][0] == '-')
            status = misused("extensions", "there is no option '%s'.", argv[i]);
        else if (spn_extensions_load(extensions, argv[i], &problem) != SPN_OK) {
            fprintf(stderr, "spindle extensions: %s\n", problem.text);
            status = EXIT_BAD;
        }
    }
    if (status == EXIT_GOOD && add_dispatchers(extensions, &problem) != SPN_OK) {
        fprintf(stderr, "spindle extensions: %s\n", problem.text);
        status = EXIT_BAD;
    }
    if (status == EXIT_GOOD)
        (void)spn_extensions_each_kind(extensions, print_kind, extensions);
    (void)spn_extensions_destroy(extensions);
    return status;
}

const struct command extensions_command = {
    .name = "extensions",
    .summary = "list what a URL can name: thread pools, policies, ...",
    .help =
        "Usage: spindle extensions [FILE...]\n"
        "\n"
        "Lists every kind of extension with the URL keys that choose one, and the\n"
        "extensions of that kind: those built in, and those that the shared objects\n"
        "FILE bring.  A file that cannot be loaded is told, with the reason.\n",
    .run = run,
};
