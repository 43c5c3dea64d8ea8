/* SPDX-License-Identifier: MIT */
/*
 * main.c - the program `spindle`: finds the command and runs it.
 *
 * To add a command: a file that defines its `struct command`, a declaration in
 * command.h, a line in the table below, its source in CMakeLists.txt.
 */
#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <spindle.h>

static int run_help(int argc, char **argv);
static int run_version(int argc, char **argv);

static const struct command help_command = {
    .name = "help",
    .summary = "tell what the program, or one command, can do",
    .help = "Usage: spindle help [COMMAND]\n"
            "\n"
            "Without COMMAND lists the commands; with one it is the same as\n"
            "`spindle COMMAND --help`.\n",
    .run = run_help,
};

static const struct command version_command = {
    .name = "version",
    .summary = "print the version",
    .help = "Usage: spindle version\n"
            "\n"
            "Prints the program's name and the version of the library in it.\n",
    .run = run_version,
};

/* In the order of `spindle help`: the most useful first. */
static const struct command *const commands[] = {
#ifdef SPN_PROGRAM_RPC
    &serve_command,  &call_command,       &load_command, &top_command,
#endif
    &doctor_command, &extensions_command, &help_command, &version_command,
};
enum { COMMAND_COUNT = sizeof(commands) / sizeof(commands[0]) };

int misused(const char *command, const char *format, ...)
{
    va_list args;

    fprintf(stderr, "spindle%s%s: ", command != NULL ? " " : "",
            command != NULL ? command : "");
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    if (command != NULL)
        fprintf(stderr, "\nRun 'spindle %s --help' to see how it is used.\n", command);
    else
        fprintf(stderr, "\nRun 'spindle help' for the list of commands.\n");
    return EXIT_MISUSED;
}

static void print_help(FILE *to)
{
    fputs("Usage: spindle COMMAND [OPTION...]\n\nCommands:\n", to);
    for (int i = 0; i < COMMAND_COUNT; i++)
        fprintf(to, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    fputs("\n`spindle COMMAND --help` tells more about one of them; start with\n"
          "`spindle doctor`, which looks at this machine.\n",
          to);
}

static const struct command *find_command(const char *name)
{
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

/*
 * How many single-letter edits (change, add, drop, swap neighbours) part two
 * words.  Words longer than the longest command cannot be a slip of one.
 */
static int edit_distance(const char *a, const char *b)
{
    enum { LETTERS_MAX = 16 };
    int d[LETTERS_MAX + 1][LETTERS_MAX + 1];
    const int n = (int)strnlen(a, LETTERS_MAX + 1);
    const int m = (int)strnlen(b, LETTERS_MAX + 1);

    if (n > LETTERS_MAX || m > LETTERS_MAX)
        return LETTERS_MAX;
    for (int i = 0; i <= n; i++) {
        for (int j = 0; j <= m; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best)
                best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best)
                best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    }
    return d[n][m];
}

static int unknown_command(const char *name)
{
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (edit_distance(name, commands[i]->name) <= 2)
            return misused(NULL, "there is no command '%s'; did you mean '%s'?", name,
                           commands[i]->name);
    return misused(NULL, "there is no command '%s'.", name);
}

static int run_help(int argc, char **argv)
{
    const struct command *command;

    if (argc > 2)
        return misused("help", "one command at a time.");
    if (argc < 2) {
        print_help(stdout);
        return EXIT_GOOD;
    }
    command = find_command(argv[1]);
    if (command == NULL)
        return unknown_command(argv[1]);
    fputs(command->help, stdout);
    return EXIT_GOOD;
}

static int run_version(int argc, char **argv)
{
    (void)argv;
    if (argc > 1)
        return misused("version", "it takes no arguments.");
    printf("spindle %s\n", spn_version_string());
    if (spn_version() != SPN_VERSION) /* the library was replaced under the program */
        printf("built with the headers of %s\n", SPN_VERSION_STRING);
    return EXIT_GOOD;
}

static bool wants_help(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

static int dispatch(int argc, char **argv)
{
    const struct command *command;

    if (argc < 2) {
        print_help(stderr);
        return EXIT_MISUSED;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(stdout);
        return EXIT_GOOD;
    }
    if (strcmp(argv[1], "--version") == 0)
        return run_version(1, argv);
    if (argv[1][0] == '-')
        return misused(NULL, "there is no option '%s'; a command comes first.",
                       argv[1]);
    command = find_command(argv[1]);
    if (command == NULL)
        return unknown_command(argv[1]);
    if (wants_help(argc - 1, argv + 1)) {
        fputs(command->help, stdout);
        return EXIT_GOOD;
    }
    return command->run(argc - 1, argv + 1);
}

/*
 * A file opened while a standard descriptor is closed would take its number,
 * and output meant for people would go into it.
 */
static bool standard_files_are_open(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) != -1)
            continue;
        if (fd == STDOUT_FILENO) {
            fputs("spindle: standard output is closed\n", stderr);
            return false;
        }
        if (open("/dev/null", O_RDWR) != fd)
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    int status;

    if (!standard_files_are_open())
        return EXIT_BAD;
    status = dispatch(argc, argv);
    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "spindle: cannot write to standard output%s%s\n",
                errno != 0 ? ": " : "", errno != 0 ? strerror(errno) : "");
        return EXIT_BAD;
    }
    return status;
}
