/* SPDX-License-Identifier: MIT */
/*
 * url_file.c - a file with a URL in each section.
 *
 * OVERVIEW
 *   The file is read into one block and cut there, line by line, into strings that end with a
 *   zero byte.  The entries of a section are collected, and make a URL when the section ends.
 *   fn is called when all of the file was found right, so a program that starts something for
 *   each section starts nothing because of a file that is half wrong.
 *
 * STRICT  an unknown key, a key or section that comes twice, a value that is missing: each is
 *   an error with its line.  Whoever writes `thread = 200` must not get the default in silence.
 *   A key with a + before it is not looked up: an extension reads it.
 *
 * COMMENTS  `;` cannot be in a parameter of a URL, but `#` can; so both begin a comment only
 *   where a line begins and after a blank.
 *
 * BOUNDS  SPN_URL_FILE_BYTES_MAX, SPN_URL_FILE_SECTIONS_MAX, SPN_URL_PARAMETERS_MAX: what is
 *   looked for twice is looked for in a list of so many at most.
 */
#include "config/url_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/problem.h"
#include "config/url.h"
#include "config/url_keys.h"
#include "sync/seam.h"
#include "sync/seam_stacks.h"

enum { SECTION_BYTES = 64, PATH_SHOWN = 200 };

struct section {
    char name[SECTION_BYTES]; /* "dubbo", "dubbo public" */
    size_t line;              /* where it begins */
    spn_url *url;             /* NULL: it has not ended yet */
};

struct reader {
    const char *path;
    char *text, *at, *end;
    size_t line; /* of the one at hand, from 1 */
    spn_problem *problem;
    struct section sections[SPN_URL_FILE_SECTIONS_MAX];
    size_t section_count;
    /* Of the section at hand: parts and parameters as they came. */
    spn_url_parameter entries[SPN_URL_PARAMETERS_MAX];
    size_t lines[SPN_URL_PARAMETERS_MAX];
    size_t entry_count;
    spn_url_parameter parameters[SPN_URL_PARAMETERS_MAX]; /* of these, for its URL */
};

/* Fills in "path:line: " and the sentence. */
#define REFUSE(r, status, at, format, ...)                          \
    spn__refuse((r)->problem, (status), (size_t)((at) - (r)->text), \
                "%.*s:%zu: " format, PATH_SHOWN, (r)->path, (r)->line, __VA_ARGS__)

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static char *skip_blanks(char *at)
{
    while (is_blank(*at))
        at++;
    return at;
}

static void cut_blanks(char *from)
{
    size_t length = strlen(from);

    while (length > 0 && is_blank(from[length - 1]))
        length--;
    from[length] = '\0';
}

/* ---- the end of a section -------------------------------------------------------------- */

/* Every entry of the section is a part of its URL, or a parameter. */
static void sort_entries(struct reader *r, spn_url_parts *parts)
{
    for (size_t i = 0; i < r->entry_count; i++) {
        const spn_url_parameter *e = &r->entries[i];

        if (strcmp(e->key, "host") == 0)
            parts->host = e->value;
        else if (strcmp(e->key, "path") == 0)
            parts->path = e->value;
        else if (strcmp(e->key, "user") == 0)
            parts->user = e->value;
        else if (strcmp(e->key, "password") == 0)
            parts->password = e->value;
        else if (strcmp(e->key, "port") == 0) /* digits: see check_value */
            for (const char *digit = e->value; *digit != '\0'; digit++)
                parts->port = parts->port * 10 + (*digit - '0');
        else
            r->parameters[parts->parameter_count++] = *e;
    }
}

static int end_section(struct reader *r)
{
    struct section *section = &r->sections[r->section_count - 1];
    spn_url_parts parts = SPN_URL_PARTS_INIT;
    spn_problem problem = SPN_PROBLEM_INIT;
    char protocol[SECTION_BYTES];
    const size_t length = strcspn(section->name, " ");
    int rc;

    memcpy(protocol, section->name, length);
    protocol[length] = '\0';
    parts.protocol = protocol;
    parts.port = 0;
    parts.parameters = r->parameters;
    sort_entries(r, &parts);
    if (parts.port > 0 && parts.host == NULL) {
        r->line = section->line;
        return REFUSE(
            r, SPN_EINVAL, r->text,
            "section [%s] has a port and no host; expected host = 127.0.0.1 for "
            "this machine alone, or host = 0.0.0.0",
            section->name);
    }
    rc = spn_url_create(&section->url, &parts, &problem);
    r->entry_count = 0;
    if (rc == SPN_EINVAL || rc == SPN_ERANGE) {
        r->line = section->line;
        return REFUSE(r, rc, r->text, "section [%s]: %s", section->name, problem.text);
    }
    return rc;
}

/* ---- lines ------------------------------------------------------------------------------- */

static int check_name(struct reader *r, const char *name)
{
    for (const char *c = name; *c != '\0'; c++)
        if (!spn__url_is_protocol_letter(*c))
            return REFUSE(r, SPN_EINVAL, c,
                          "'%c' cannot be in the name of a section; expected letters, "
                          "digits and + - . _, as in [dubbo] or [dubbo public]",
                          *c);
    return SPN_OK;
}

/* at: behind the bracket. */
static int read_section(struct reader *r, char *at)
{
    char *const bracket = strchr(at, ']');
    struct section *section;
    char *label;
    int rc;

    if (bracket == NULL)
        return REFUSE(r, SPN_EINVAL, at + strlen(at),
                      "'%s' is missing; expected [protocol] or [protocol label]", "]");
    if (*skip_blanks(bracket + 1) != '\0')
        return REFUSE(
            r, SPN_EINVAL, skip_blanks(bracket + 1),
            "'%.40s' cannot stand behind a section; a comment begins with # or ;",
            skip_blanks(bracket + 1));
    *bracket = '\0';
    at = skip_blanks(at);
    cut_blanks(at);
    label = at + strcspn(at, " \t");
    if (*label != '\0') {
        *label++ = '\0';
        label = skip_blanks(label);
    }
    if (*at == '\0')
        return REFUSE(r, SPN_EINVAL, at, "a section without a name; expected %s",
                      "[protocol], as [dubbo]");
    if ((rc = check_name(r, at)) != SPN_OK || (rc = check_name(r, label)) != SPN_OK)
        return rc;
    if (strlen(at) + 1 + strlen(label) >= SECTION_BYTES)
        return REFUSE(r, SPN_ERANGE, at, "the name of a section has %d bytes at most",
                      SECTION_BYTES - 1);
    if (r->section_count == SPN_URL_FILE_SECTIONS_MAX)
        return REFUSE(r, SPN_ERANGE, at, "there are %d sections at most",
                      SPN_URL_FILE_SECTIONS_MAX);
    section = &r->sections[r->section_count];
    *section = (struct section){ .line = r->line };
    memcpy(section->name, at, strlen(at));
    if (*label != '\0') {
        section->name[strlen(at)] = ' ';
        memcpy(section->name + strlen(at) + 1, label, strlen(label));
    }
    for (size_t i = 0; i < r->section_count; i++)
        if (strcmp(r->sections[i].name, section->name) == 0)
            return REFUSE(r, SPN_EINVAL, at,
                          "section [%s] again, which began on line %zu; a label tells "
                          "two apart, as in [%s LABEL]",
                          section->name, r->sections[i].line, at);
    r->section_count++;
    return SPN_OK;
}

static int check_key(struct reader *r, const char *key, bool is_checked)
{
    const char *near;

    if (*key == '\0')
        return REFUSE(r, SPN_EINVAL, key, "a key is missing; expected %s",
                      "key = value");
    for (const char *c = key; *c != '\0'; c++)
        if (is_blank(*c) || *c == '&' || *c == ';')
            return REFUSE(r, SPN_EINVAL, c, "'%c' cannot be in a key", *c);
    if (!is_checked || spn__url_key_is_part(key) || spn__url_key_is_parameter(key))
        return SPN_OK;
    near = spn__url_key_near(key);
    if (near != NULL)
        return REFUSE(r, SPN_EINVAL, key, "unknown key '%.80s', did you mean '%s'?",
                      key, near);
    return REFUSE(r, SPN_EINVAL, key,
                  "unknown key '%.80s'; the keys are in spn_url(3), and one that an "
                  "extension reads is written +%.80s",
                  key, key);
}

static bool is_port(const char *value)
{
    int32_t number = 0;

    if (strlen(value) > 5)
        return false;
    for (; *value >= '0' && *value <= '9'; value++)
        number = number * 10 + (*value - '0');
    return *value == '\0' && number <= 65535;
}

static int check_value(struct reader *r, const char *key, const char *value)
{
    const char *wrong = value + strcspn(value, "&;");

    if (*value == '\0')
        return REFUSE(r, SPN_EINVAL, value,
                      "'%.80s' has no value; leave the line out for the default", key);
    if (*value == '"' || *value == '\'')
        return REFUSE(r, SPN_EINVAL, value,
                      "'%.80s': a value is written without quotes", key);
    if (*wrong != '\0')
        return REFUSE(r, SPN_EINVAL, wrong,
                      "'%c' cannot be in a value; a comment needs a blank before it",
                      *wrong);
    if (strcmp(key, "port") == 0 && !is_port(value))
        return REFUSE(r, SPN_EINVAL, value, "port=%.80s: not a port (0 to 65535)",
                      value);
    return SPN_OK;
}

static int read_entry(struct reader *r, char *key)
{
    char *value = strchr(key, '=');
    const bool is_checked = *key != '+';
    int rc;

    if (value == NULL)
        return REFUSE(r, SPN_EINVAL, key,
                      "'%.80s' is neither a section nor an entry; expected %s", key,
                      "[protocol] or key = value");
    if (r->section_count == 0)
        return REFUSE(r, SPN_EINVAL, key,
                      "an entry before the first section; begin with %s",
                      "[protocol], as [dubbo]");
    *value++ = '\0';
    value = skip_blanks(value);
    key += !is_checked;
    cut_blanks(key);
    if ((rc = check_key(r, key, is_checked)) != SPN_OK ||
        (rc = check_value(r, key, value)) != SPN_OK)
        return rc;
    for (size_t i = 0; i < r->entry_count; i++)
        if (strcmp(r->entries[i].key, key) == 0)
            return REFUSE(r, SPN_EINVAL, key,
                          "'%.80s' again in section [%s]; it has a value on line %zu",
                          key, r->sections[r->section_count - 1].name, r->lines[i]);
    if (r->entry_count == SPN_URL_PARAMETERS_MAX)
        return REFUSE(r, SPN_ERANGE, key, "a section has %d keys at most",
                      SPN_URL_PARAMETERS_MAX);
    r->entries[r->entry_count] = (spn_url_parameter){ key, value };
    r->lines[r->entry_count++] = r->line;
    return SPN_OK;
}

/* Takes the next line out, without its end. */
static char *take_line(struct reader *r, size_t *length)
{
    char *const line = r->at;
    char *end = memchr(line, '\n', (size_t)(r->end - line));

    r->line++;
    r->at = end != NULL ? end + 1 : r->end;
    if (end == NULL)
        end = r->end;
    else if (end > line && end[-1] == '\r')
        end--;
    *end = '\0';
    *length = (size_t)(end - line);
    return line;
}

static int read_line(struct reader *r)
{
    size_t length;
    char *line = take_line(r, &length);
    int rc = SPN_OK;

    for (char *c = line; c < line + length; c++)
        if (*c == '\0')
            return REFUSE(r, SPN_EINVAL, c, "a zero byte; expected %s",
                          "text in ASCII or UTF-8");
        else if (!spn__url_is_text(*c) && *c != '\t')
            return REFUSE(r, SPN_EINVAL, c, "a control character, number %d",
                          (unsigned char)*c);
    for (char *c = line; *c != '\0'; c++)
        if ((*c == '#' || *c == ';') && (c == line || is_blank(c[-1])))
            *c-- = '\0';
    line = skip_blanks(line);
    cut_blanks(line);
    if (*line == '\0')
        return SPN_OK;
    if (*line != '[')
        return read_entry(r, line);
    if (r->section_count > 0)
        rc = end_section(r);
    return rc == SPN_OK ? read_section(r, line + 1) : rc;
}

static int read_all(struct reader *r)
{
    static const char mark[] =
        "\xef\xbb\xbf"; /* some editors put it in front of UTF-8 */
    int rc = SPN_OK;

    if (r->end - r->at >= 3 && memcmp(r->at, mark, 3) == 0)
        r->at += 3;
    while (rc == SPN_OK && r->at < r->end)
        rc = read_line(r);
    if (rc != SPN_OK)
        return rc;
    if (r->section_count == 0)
        return REFUSE(r, SPN_EEMPTY, r->end, "there is no section; begin with %s",
                      "[protocol], as [dubbo]");
    return end_section(r);
}

int spn__url_file_parse(const char *path, char *text, size_t length, spn_url_file_fn fn,
                        void *ctx, spn_problem *problem)
{
    struct reader *r = spn__alloc(sizeof *r);
    int rc;

    if (r == NULL)
        return SPN_ENOMEM;
    r->path = path;
    r->text = r->at = text;
    r->end = text + length;
    r->line = 0;
    r->problem = problem;
    r->section_count = r->entry_count = 0;
    rc = read_all(r);
    for (size_t i = 0; rc == SPN_OK && i < r->section_count; i++)
        rc = fn(ctx, r->sections[i].name, r->sections[i].url);
    for (size_t i = 0; i < r->section_count; i++)
        spn_url_unref(r->sections[i].url);
    spn__free(r);
    return rc;
}

/* ---- files ------------------------------------------------------------------------------ */

static int refuse_errno(spn_problem *problem, const char *path, int error)
{
    char text[100];
    int rc = SPN_EIO;

    if (error == ENOENT || error == ENOTDIR)
        rc = SPN_EEMPTY;
    else if (error == EACCES || error == EPERM)
        rc = SPN_EPERM;
    else if (error == ENOMEM)
        rc = SPN_ENOMEM;
    spn__os_error_text(error, text, sizeof text);
    return spn__refuse(problem, rc, 0, "%.*s: %s", PATH_SHOWN, path, text);
}

/* All of the file, up to one byte too many. */
static int read_bytes(int fd, char *text, size_t *length)
{
    ssize_t more = 1;

    *length = 0;
    while (more != 0 && *length <= SPN_URL_FILE_BYTES_MAX) {
        more = read(fd, text + *length, SPN_URL_FILE_BYTES_MAX + 1 - *length);
        if (more < 0 && errno != EINTR)
            return errno;
        if (more > 0)
            *length += (size_t)more;
    }
    return 0;
}

static int read_open_file(int fd, const char *path, spn_url_file_fn fn, void *ctx,
                          spn_problem *problem)
{
    struct stat file;
    size_t length = 0;
    char *text;
    int rc, error;

    if (fstat(fd, &file) == 0 && S_ISDIR(file.st_mode))
        return spn__refuse(problem, SPN_EINVAL, 0, "%.*s: a directory; expected a file",
                           PATH_SHOWN, path);
    text = spn__alloc(SPN_URL_FILE_BYTES_MAX + 1);
    if (text == NULL)
        return SPN_ENOMEM;
    error = read_bytes(fd, text, &length);
    if (error != 0)
        rc = refuse_errno(problem, path, error);
    else if (length > SPN_URL_FILE_BYTES_MAX)
        rc = spn__refuse(problem, SPN_ETOOBIG, SPN_URL_FILE_BYTES_MAX,
                         "%.*s: more than %d bytes", PATH_SHOWN, path,
                         SPN_URL_FILE_BYTES_MAX);
    else
        rc = spn__url_file_parse(path, text, length, fn, ctx, problem);
    spn__free(text);
    return rc;
}

int spn_url_file_read(const char *path, spn_url_file_fn fn, void *ctx,
                      spn_problem *problem)
{
    int fd, rc;

    if (path == NULL || fn == NULL)
        return spn__refuse(problem, SPN_EINVAL, 0, "there is no %s",
                           path == NULL ? "path" : "function");
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return refuse_errno(problem, path, errno);
    rc = read_open_file(fd, path, fn, ctx, problem);
    (void)close(fd);
    return rc;
}
