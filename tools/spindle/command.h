/* SPDX-License-Identifier: MIT */
/*
 * command.h - what a command of the program is.
 *
 * A command is one file that defines one `struct command`, and one line in the
 * table in main.c.  Commands write their answer to standard output and
 * everything else to standard error; main checks that the answer got out.
 */
#ifndef COMMAND_H
#define COMMAND_H

/* Exit statuses, the same for every command. */
enum {
    EXIT_GOOD = 0,   /* done, and all is well                        */
    EXIT_BAD = 1,    /* a problem was found, or output was not taken */
    EXIT_MISUSED = 2 /* the command line makes no sense              */
};

struct command {
    const char *name;
    const char *summary; /* one line, for `spindle help`       */
    const char *help;    /* the whole text of --help           */
    /* argv[0] is the command's name; returns an exit status. */
    int (*run)(int argc, char **argv);
};

extern const struct command call_command;
extern const struct command doctor_command;
extern const struct command extensions_command;
extern const struct command load_command;
extern const struct command serve_command;
extern const struct command top_command;

/* Says what is wrong with the command line and where to look; EXIT_MISUSED. */
int misused(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif /* COMMAND_H */
