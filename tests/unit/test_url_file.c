/* SPDX-License-Identifier: MIT */
/* test_url_file.c - a file with a URL in each section: what is read, and what is refused where. */
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <spindle/url.h>

#include "config/url_file.h"

enum { TEXT_BYTES = 4096 };

/* What fn was told, as "section url" lines. */
struct told {
    char text[TEXT_BYTES];
    int count;
    int answer; /* what fn returns */
};

static int tell(void *ctx, const char *section, const spn_url *url)
{
    struct told *told = ctx;
    const size_t length = strlen(told->text);
    char full[1024];

    CHECK(spn_url_print(url, SPN_URL_FULL, full, sizeof full) > 0);
    (void)snprintf(told->text + length, sizeof told->text - length, "%s %s\n", section,
                   full);
    told->count++;
    return told->answer;
}

static struct told told;
static spn_problem problem;

/* Exactly `length` bytes in a block of their own, so that a byte too far is found. */
static int parse_bytes(const char *bytes, size_t length)
{
    char *text = malloc(length + 1);
    int rc;

    REQUIRE(text != NULL);
    memcpy(text, bytes, length);
    told = (struct told){ .count = 0 };
    problem = (spn_problem)SPN_PROBLEM_INIT;
    rc = spn__url_file_parse("s.conf", text, length, tell, &told, &problem);
    free(text);
    return rc;
}

static int parse(const char *text)
{
    return parse_bytes(text, strlen(text));
}

static const char good[] = "# what is served\n"
                           "[dubbo]             ; for this machine\n"
                           "host = 127.0.0.1\n"
                           "port = 20880\n"
                           "dispatcher = message\n"
                           "threadpool=fixed\n"
                           "   threads\t =  200   # many\n"
                           "\n"
                           "[ dubbo   public ]\n"
                           "host = 0.0.0.0\n"
                           "port = 20881\n"
                           "path = demo.Service\n"
                           "user = bob\n"
                           "password = a:b@c\n"
                           "default.timeout = 5\n"
                           "+clock.zone = Europe/Zurich\n"
                           "threadname = two words\n"
                           "[tri]";

static const char good_told[] =
    "dubbo dubbo://127.0.0.1:20880?dispatcher=message&threadpool=fixed&threads=200\n"
    "dubbo public "
    "dubbo://bob:a:b@c@0.0.0.0:20881/demo.Service?clock.zone=Europe/Zurich&"
    "default.timeout=5&threadname=two words&timeout=5\n"
    "tri tri://\n";

/* Every section is a URL, in the order of the file, with its label. */
TEST(url_file__sections__are_urls_in_order, "URL-28")
{
    CHECK_OK(parse(good));
    CHECK_STR(told.text, good_told);
    CHECK_STR(problem.text, "");
}

/* Editors of other systems: a mark in front, CR LF, no end of the last line. */
TEST(url_file__mark_and_line_ends_of_others__are_read, "URL-28")
{
    static const char *const same[] = {
        "[dubbo]\nthreads = 2\n",
        "[dubbo]\nthreads = 2",
        "[dubbo]\r\nthreads = 2\r\n",
        "\xef\xbb\xbf[dubbo]\r\nthreads = 2",
        "\n\n; x\n\t[dubbo]\t#\n#\n \t \nthreads=2\t\t\n\n\n",
    };

    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        CHECK_OK(parse(same[i]));
        CHECK_STR(told.text, "dubbo dubbo://?threads=2\n");
    }
}

struct wrong {
    const char *text, *says;
    int rc;
    size_t offset;
};

static void check_wrong(const struct wrong *w, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        CHECK_STATUS(parse(w[i].text), w[i].rc);
        CHECK_STR(problem.text, w[i].says);
        CHECK_EQ(problem.offset, w[i].offset);
        CHECK_EQ(told.count, 0);
    }
}

/* A key that nobody reads is told with its line and the one that was meant. */
TEST(url_file__unknown_key__names_the_nearest, "URL-29")
{
    static const struct wrong wrong[] = {
        { "# x\n\n[dubbo]\nhost = h\n\nthread = 2\n",
          "s.conf:6: unknown key 'thread', did you mean 'threads'?", SPN_EINVAL, 23 },
        { "[dubbo]\ncore-threads = 2\n",
          "s.conf:2: unknown key 'core-threads', did you mean 'corethreads'?",
          SPN_EINVAL, 8 },
        { "[dubbo]\nthreadPool = fixed\n",
          "s.conf:2: unknown key 'threadPool', did you mean 'threadpool'?", SPN_EINVAL,
          8 },
        { "[dubbo]\nprot = 1\n", "s.conf:2: unknown key 'prot', did you mean 'port'?",
          SPN_EINVAL, 8 },
        { "[dubbo]\nclock.zone = UTC\n",
          "s.conf:2: unknown key 'clock.zone'; the keys are in spn_url(3), and one "
          "that an "
          "extension reads is written +clock.zone",
          SPN_EINVAL, 8 },
        { "[dubbo]\ndefault.thread = 1\n",
          "s.conf:2: unknown key 'default.thread'; the keys are in spn_url(3), and one "
          "that an extension reads is written +default.thread",
          SPN_EINVAL, 8 },
    };

    check_wrong(wrong, sizeof wrong / sizeof *wrong);
}

/* What comes twice would have one of two meanings: both lines are told. */
TEST(url_file__key_or_section_twice__refused, "URL-29")
{
    static const struct wrong wrong[] = {
        { "[dubbo]\nthreads = 1\n\nthreads = 1\n",
          "s.conf:4: 'threads' again in section [dubbo]; it has a value on line 2",
          SPN_EINVAL, 21 },
        { "[dubbo]\nport = 1\n+port = 2\n",
          "s.conf:3: 'port' again in section [dubbo]; it has a value on line 2",
          SPN_EINVAL, 18 },
        { "[dubbo]\n[dubbo]\n",
          "s.conf:2: section [dubbo] again, which began on line 1; a label tells two "
          "apart, "
          "as in [dubbo LABEL]",
          SPN_EINVAL, 9 },
        { "[dubbo a]\n[dubbo]\n[dubbo  a ]\n",
          "s.conf:3: section [dubbo a] again, which began on line 1; a label tells two "
          "apart, as in [dubbo LABEL]",
          SPN_EINVAL, 19 },
    };

    check_wrong(wrong, sizeof wrong / sizeof *wrong);
}

/* What is no line of such a file is told with its line and what was expected. */
TEST(url_file__bad_syntax__says_what_was_expected, "URL-29")
{
    static const struct wrong wrong[] = {
        { "", "s.conf:0: there is no section; begin with [protocol], as [dubbo]",
          SPN_EEMPTY, 0 },
        { "# nothing\n\n",
          "s.conf:2: there is no section; begin with [protocol], as [dubbo]",
          SPN_EEMPTY, 11 },
        { "threads = 2\n",
          "s.conf:1: an entry before the first section; begin with [protocol], as "
          "[dubbo]",
          SPN_EINVAL, 0 },
        { "[dubbo\n",
          "s.conf:1: ']' is missing; expected [protocol] or [protocol label]",
          SPN_EINVAL, 6 },
        { "[dubbo ;]\n",
          "s.conf:1: ']' is missing; expected [protocol] or [protocol label]",
          SPN_EINVAL, 6 },
        { "[]\n", "s.conf:1: a section without a name; expected [protocol], as [dubbo]",
          SPN_EINVAL, 1 },
        { "[dubbo] threads = 2\n",
          "s.conf:1: 'threads = 2' cannot stand behind a section; a comment begins "
          "with # "
          "or ;",
          SPN_EINVAL, 8 },
        { "[dub/bo]\n",
          "s.conf:1: '/' cannot be in the name of a section; expected letters, digits "
          "and + "
          "- . _, as in [dubbo] or [dubbo public]",
          SPN_EINVAL, 4 },
        { "[dubbo a b]\n",
          "s.conf:1: ' ' cannot be in the name of a section; expected letters, digits "
          "and + "
          "- . _, as in [dubbo] or [dubbo public]",
          SPN_EINVAL, 8 },
        { "[dubbo "
          "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa]\n",
          "s.conf:1: the name of a section has 63 bytes at most", SPN_ERANGE, 1 },
        { "[dubbo]\nthreads 2\n",
          "s.conf:2: 'threads 2' is neither a section nor an entry; expected "
          "[protocol] or "
          "key = value",
          SPN_EINVAL, 8 },
        { "[dubbo]\n= 2\n", "s.conf:2: a key is missing; expected key = value",
          SPN_EINVAL, 8 },
        { "[dubbo]\n+ = 2\n", "s.conf:2: a key is missing; expected key = value",
          SPN_EINVAL, 9 },
        { "[dubbo]\n+a&b = 2\n", "s.conf:2: '&' cannot be in a key", SPN_EINVAL, 10 },
        { "[dubbo]\nthreads =\n",
          "s.conf:2: 'threads' has no value; leave the line out for the default",
          SPN_EINVAL, 17 },
        { "[dubbo]\nthreads = # 2\n",
          "s.conf:2: 'threads' has no value; leave the line out for the default",
          SPN_EINVAL, 17 },
        { "[dubbo]\nthreads = \"2\"\n",
          "s.conf:2: 'threads': a value is written without quotes", SPN_EINVAL, 18 },
        { "[dubbo]\nthreads = 2; many\n",
          "s.conf:2: ';' cannot be in a value; a comment needs a blank before it",
          SPN_EINVAL, 19 },
        { "[dubbo]\nport = 65536\n", "s.conf:2: port=65536: not a port (0 to 65535)",
          SPN_EINVAL, 15 },
        { "[dubbo]\nport = -1\n", "s.conf:2: port=-1: not a port (0 to 65535)",
          SPN_EINVAL, 15 },
        { "[dubbo]\nport = 000001\n", "s.conf:2: port=000001: not a port (0 to 65535)",
          SPN_EINVAL, 15 },
        { "[dubbo]\nhost = a\x01\n", "s.conf:2: a control character, number 1",
          SPN_EINVAL, 16 },
        { "[dubbo]\rthreads = 2\n", "s.conf:1: a control character, number 13",
          SPN_EINVAL, 7 },
        { "[tri]\n\n[dubbo]\nport = 7\n",
          "s.conf:3: section [dubbo] has a port and no host; expected host = 127.0.0.1 "
          "for this machine alone, or host = 0.0.0.0",
          SPN_EINVAL, 0 },
        { "[tri]\n\n[dubbo]\n\nhost = a/b\n",
          "s.conf:3: section [dubbo]: these parts make 'dubbo://a/b', which means "
          "something else",
          SPN_EINVAL, 0 },
    };

    check_wrong(wrong, sizeof wrong / sizeof *wrong);
}

/* A zero byte is no end of the text. */
TEST(url_file__zero_byte__refused, "URL-29")
{
    static const char utf16[] = "[\0d\0u\0]\0\n";
    static const char inside[] = "[dubbo]\nthreads = 2\0"
                                 "3\n";

    CHECK_STATUS(parse_bytes(utf16, sizeof utf16), SPN_EINVAL);
    CHECK_STR(problem.text, "s.conf:1: a zero byte; expected text in ASCII or UTF-8");
    CHECK_STATUS(parse_bytes(inside, sizeof inside - 1), SPN_EINVAL);
    CHECK_EQ(problem.offset, 19);
    CHECK_EQ(told.count, 0);
}

/* More sections, or keys of one, than there may be. */
TEST(url_file__too_much__refused, "URL-29")
{
    static char text[64 * SPN_URL_PARAMETERS_MAX];
    size_t length = 0;

    for (int i = 0; i <= SPN_URL_FILE_SECTIONS_MAX; i++)
        length += (size_t)sprintf(text + length, "[s%d]\n", i);
    CHECK_STATUS(parse(text), SPN_ERANGE);
    CHECK_STR(problem.text, "s.conf:257: there are 256 sections at most");
    length = (size_t)sprintf(text, "[dubbo]\n");
    for (int i = 0; i <= SPN_URL_PARAMETERS_MAX; i++)
        length += (size_t)sprintf(text + length, "+k%d = 1\n", i);
    CHECK_STATUS(parse(text), SPN_ERANGE);
    CHECK_STR(problem.text, "s.conf:1026: a section has 1024 keys at most");
}

/* What fn returns ends the reading and is the answer. */
TEST(url_file__function_says_stop__it_does, "URL-28")
{
    char text[] = "[a]\n[b]\n";

    told = (struct told){ .answer = SPN_EBUSY };
    CHECK_STATUS(spn__url_file_parse("s.conf", text, sizeof text - 1, tell, &told,
                                     NULL),
                 SPN_EBUSY);
    CHECK_EQ(told.count, 1);
}

/* Every prefix of a good file gives whole sections, or a sentence with a line of it. */
TEST(url_file__every_prefix__read_or_refused, "URL-29")
{
    int read = 0;

    for (size_t length = 0; length < sizeof good; length++) {
        const int rc = parse_bytes(good, length);

        read += rc == SPN_OK;
        CHECK((rc == SPN_OK) == (told.count > 0));
        CHECK(rc == SPN_OK || rc == SPN_EINVAL || rc == SPN_EEMPTY);
        CHECK((rc == SPN_OK) == (problem.text[0] == '\0'));
        CHECK(problem.offset <= length);
        CHECK(rc == SPN_OK || strncmp(problem.text, "s.conf:", 7) == 0);
    }
    CHECK(read > 50);
}

/* Random bytes, and random changes of a good file, never do anything else. */
TEST(url_file__random_bytes__read_or_refused, "URL-29")
{
    static const char letters[] =
        "[]=#;+ \t\r\n\\\"'%&/.-_ahopstuv0129\xef\xbb\xbf\xff";
    uint64_t seed = t_seed();

    for (int round = t_rounds(20000); round > 0; round--) {
        char text[sizeof good + 16];
        size_t length = sizeof good - 1;

        memcpy(text, good, length);
        if (round % 2 == 0) {
            length = t_random(&seed) % 64;
            for (size_t i = 0; i < length; i++)
                text[i] = letters[t_random(&seed) % sizeof letters];
        } else {
            for (uint64_t i = t_random(&seed) % 4 + 1; i > 0; i--)
                text[t_random(&seed) % length] =
                    i % 2 == 0 ? (char)t_random(&seed)
                               : letters[t_random(&seed) % sizeof letters];
        }
        CHECK((parse_bytes(text, length) == SPN_OK) == (problem.text[0] == '\0'));
        CHECK(problem.offset <= length);
        CHECK((told.count > 0) == (problem.text[0] == '\0'));
    }
}

/* ---- files --------------------------------------------------------------------------- */

static char directory[64], path[96];

static void make_directory(void)
{
    (void)snprintf(directory, sizeof directory, "/tmp/spindle-url-XXXXXX");
    REQUIRE(mkdtemp(directory) != NULL);
    (void)snprintf(path, sizeof path, "%s/f", directory);
}

static void remove_directory(void)
{
    (void)unlink(path);
    CHECK_EQ(rmdir(directory), 0);
}

static void write_file(const char *bytes, size_t length)
{
    FILE *file = fopen(path, "w");

    REQUIRE(file != NULL);
    CHECK_EQ(fwrite(bytes, 1, length, file), length);
    CHECK_EQ(fclose(file), 0);
}

static int read_file(const char *at)
{
    told = (struct told){ .count = 0 };
    problem = (spn_problem)SPN_PROBLEM_INIT;
    return spn_url_file_read(at, tell, &told, &problem);
}

/* The problem begins with the path; what follows is this. */
static void check_says(const char *at, const char *says)
{
    CHECK_EQ(strncmp(problem.text, at, strlen(at)), 0);
    CHECK_STR(problem.text + strlen(at), says);
    CHECK_EQ(told.count, 0);
}

/* A file is read from the disk, as large as it may be. */
TEST(url_file__file__is_read, "URL-28")
{
    static char text[SPN_URL_FILE_BYTES_MAX + 1];

    make_directory();
    write_file(good, sizeof good - 1);
    CHECK_OK(read_file(path));
    CHECK_STR(told.text, good_told);
    CHECK_OK(spn_url_file_read(path, tell, &told, NULL));
    memset(text, '\n', sizeof text);
    memcpy(text, "[dubbo]", 7);
    memcpy(text + SPN_URL_FILE_BYTES_MAX - 9, "threads=2", 9);
    write_file(text, SPN_URL_FILE_BYTES_MAX);
    CHECK_OK(read_file(path));
    CHECK_STR(told.text, "dubbo dubbo://?threads=2\n");
    write_file(text, sizeof text);
    CHECK_STATUS(read_file(path), SPN_ETOOBIG);
    check_says(path, ": more than 1048576 bytes");
    remove_directory();
}

/* What is no file that can be read is told by its name. */
TEST(url_file__no_file__is_told, "URL-29")
{
    make_directory();
    CHECK_STATUS(read_file(directory), SPN_EINVAL);
    check_says(directory, ": a directory; expected a file");
    CHECK_STATUS(read_file(path), SPN_EEMPTY);
    check_says(path, ": No such file or directory");
    CHECK_STATUS(spn_url_file_read(NULL, tell, &told, &problem), SPN_EINVAL);
    CHECK_STATUS(spn_url_file_read(path, NULL, NULL, &problem), SPN_EINVAL);
    write_file(good, 1);
    CHECK_EQ(chmod(path, 0), 0);
    if (geteuid() != 0) { /* root may read it */
        CHECK_STATUS(read_file(path), SPN_EPERM);
        check_says(path, ": Permission denied");
    }
    remove_directory();
}

/* A pipe has no size and no end that is known before. */
TEST(url_file__pipe__is_read_to_its_end, "URL-28")
{
    char name[32];
    int ends[2];

    REQUIRE(pipe(ends) == 0);
    CHECK_EQ(write(ends[1], "[dubbo]\nhost=h\n", 15), 15);
    CHECK_EQ(write(ends[1], "port=7", 6), 6);
    CHECK_EQ(close(ends[1]), 0);
    (void)snprintf(name, sizeof name, "/dev/fd/%d", ends[0]);
    CHECK_OK(read_file(name));
    CHECK_STR(told.text, "dubbo dubbo://h:7\n");
    CHECK_EQ(close(ends[0]), 0);
}
