/* SPDX-License-Identifier: MIT */
/* test_url.c - reading, printing, comparing, changing and asking a URL. */
#include "counting.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

#include <spindle/url.h>

static spn_url *read_url(const char *text)
{
    spn_problem problem = SPN_PROBLEM_INIT;
    spn_url *url;

    if (spn_url_parse(&url, text, &problem) != SPN_OK)
        printf("  %s: %s at %zu\n", text, problem.text, problem.offset);
    REQUIRE(url != NULL);
    return url;
}

static const char *print(const spn_url *url, spn_url_form form)
{
    static char text[8][512];
    static int next;
    char *to = text[next++ % 8];
    const int64_t length = spn_url_print(url, form, to, sizeof text[0]);

    REQUIRE(length >= 0 && length < (int64_t)sizeof text[0]);
    CHECK_EQ(strlen(to), length);
    return to;
}

static const char *or_none(const char *text)
{
    return text != NULL ? text : "-";
}

/* What was read, in full and encoded, is read again as an equal URL. */
static void check_round_trip(const spn_url *url)
{
    spn_url *again;

    CHECK_OK(spn_url_parse(&again, print(url, SPN_URL_FULL), NULL));
    CHECK_EQ(spn_url_equals(url, again), 1);
    CHECK(spn_url_hash(url) == spn_url_hash(again));
    spn_url_unref(again);
    CHECK_OK(spn_url_parse_encoded(&again, print(url, SPN_URL_ENCODED), NULL));
    CHECK_EQ(spn_url_equals(url, again), 1);
    spn_url_unref(again);
}

struct form {
    const char *text, *protocol, *user, *password, *host;
    int port;
    const char *path, *full; /* NULL: as text */
};

/* Every form a URL can have gives its parts. */
TEST(url__every_form__gives_its_parts, "URL-1", "URL-2", "URL-4", "URL-5", "URL-6",
     "URL-8", "URL-14")
{
    static const struct form forms[] = {
        { "dubbo://admin:hello1234@10.20.130.230:20880/context/path?version=1.0.0&x=m",
          "dubbo", "admin", "hello1234", "10.20.130.230", 20880, "context/path", NULL },
        { "10.20.130.230:20880/context/path?version=1.0.0", "-", "-", "-",
          "10.20.130.230", 20880, "context/path", NULL },
        { "10.20.130.230:20880", "-", "-", "-", "10.20.130.230", 20880, "-", NULL },
        { "10.20.130.230", "-", "-", "-", "10.20.130.230", 0, "-", NULL },
        { "10.20.130.230/context/path", "-", "-", "-", "10.20.130.230", 0,
          "context/path", NULL },
        { "context/path", "-", "-", "-", "context", 0, "path", NULL },
        { "/path", "-", "-", "-", "-", 0, "path", NULL },
        { "/context/path", "-", "-", "-", "-", 0, "context/path", NULL },
        { "h//context", "-", "-", "-", "h", 0, "context", "h/context" },
        { "?k=v", "-", "-", "-", "-", 0, "-", NULL },
        { "dubbo://", "dubbo", "-", "-", "-", 0, "-", NULL },
        { "dubbo://h?k=v", "dubbo", "-", "-", "h", 0, "-", NULL },
        { "file:///home.x", "file", "-", "-", "-", 0, "home.x", NULL },
        { "file:/path/to/file.txt", "file", "-", "-", "-", 0, "path/to/file.txt",
          "file:///path/to/file.txt" },
        { "admin:hello1234@10.20.130.230:20880", "-", "admin", "hello1234",
          "10.20.130.230", 20880, "-", NULL },
        { "dubbo://admin@h:1", "dubbo", "admin", "-", "h", 1, "-", NULL },
        { "dubbo://admin:he@llo1234@h:1/p", "dubbo", "admin", "he@llo1234", "h", 1, "p",
          NULL },
        { "dubbo://admin:a:b:c@h", "dubbo", "admin", "a:b:c", "h", 0, "-", NULL },
        { "redis://:secret@h:6379", "redis", "-", "secret", "h", 6379, "-", NULL },
        { "dubbo://@h", "dubbo", "-", "-", "h", 0, "-", "dubbo://h" },
        { "dubbo://u:@h", "dubbo", "u", "-", "h", 0, "-", "dubbo://u@h" },
        { "dubbo://u@/p", "dubbo", "u", "-", "-", 0, "p", NULL },
        { "dubbo://h/a@b:c", "dubbo", "-", "-", "h", 0, "a@b:c", NULL },
        { "dubbo://h:0/p", "dubbo", "-", "-", "h", 0, "p", "dubbo://h/p" },
        { "dubbo://h:65535", "dubbo", "-", "-", "h", 65535, "-", NULL },
        { "dubbo://2001:0db8:85a3:08d3:1319:8a2e:0370:7344:20880/x", "dubbo", "-", "-",
          "2001:0db8:85a3:08d3:1319:8a2e:0370:7344", 20880, "x", NULL },
        { "dubbo://admin:1@2001:0db8:85a3::0370:7344:20880", "dubbo", "admin", "1",
          "2001:0db8:85a3::0370:7344", 20880, "-", NULL },
        { "dubbo://fe80:0:0:0:894:aeec:f37d:23e1%en0/x", "dubbo", "-", "-",
          "fe80:0:0:0:894:aeec:f37d:23e1%en0", 0, "x", NULL },
        { "dubbo://::1:0/x", "dubbo", "-", "-", "::1", 0, "x", NULL },
        { "dubbo://[2001:db8::1]:20880/x", "dubbo", "-", "-", "[2001:db8::1]", 20880,
          "x", NULL },
        { "dubbo://[::1]", "dubbo", "-", "-", "[::1]", 0, "-", NULL },
        { "dubbo://u:p@[fe80::1%eth0]:1", "dubbo", "u", "p", "[fe80::1%eth0]", 1, "-",
          NULL },
        { "dubbo://h:1/p#q", "dubbo", "-", "-", "h", 1, "p", "dubbo://h:1/p" },
        { "dubbo://h#x?k=v", "dubbo", "-", "-", "h", 0, "-", "dubbo://h?k=v" },
        { "dubbo://h/p?k=a#b", "dubbo", "-", "-", "h", 0, "p", NULL },
        { "dubbo://h/p q?k=v w", "dubbo", "-", "-", "h", 0, "p q", NULL },
        { "http+unix_1.0-x://h", "http+unix_1.0-x", "-", "-", "h", 0, "-", NULL },
    };

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const struct form *f = &forms[i];
        spn_url *url = read_url(f->text);

        CHECK_STR(or_none(spn_url_protocol(url)), f->protocol);
        CHECK_STR(or_none(spn_url_user(url)), f->user);
        CHECK_STR(or_none(spn_url_password(url)), f->password);
        CHECK_STR(or_none(spn_url_host(url)), f->host);
        CHECK_EQ(spn_url_port(url), f->port);
        CHECK_STR(or_none(spn_url_path(url)), f->path);
        CHECK_STR(print(url, SPN_URL_FULL), f->full != NULL ? f->full : f->text);
        check_round_trip(url);
        spn_url_unref(url);
    }
}

/* What is wrong is refused, with its place and a sentence. */
TEST(url__wrong_text__is_refused_with_its_place, "URL-3", "URL-6", "URL-7", "URL-12")
{
    static const struct {
        const char *text;
        size_t offset;
        const char *says;
    } wrong[] = {
        { "", 0, "empty" },
        { "/", 0, "nothing" },
        { "?", 0, "nothing" },
        { "?&;=", 0, "nothing" },
        { "#x", 0, "nothing" },
        { "@", 0, "nothing" },
        { "://1.2.3.4:8080/path", 0, "protocol" },
        { ":/1.2.3.4:8080/path", 0, "protocol" },
        { "du bbo://h", 2, "protocol" },
        { " dubbo://h", 0, "protocol" },
        { "a/b://h", 1, "protocol" },
        { "h/a:/b", 1, "protocol" },
        { "dubbo://h:", 10, "port" },
        { "dubbo://h:x", 10, "port" },
        { "dubbo://h:12x4/p", 12, "port" },
        { "dubbo://h:-1", 10, "port" },
        { "dubbo://h:+1", 10, "port" },
        { "dubbo://h:65536", 10, "65535" },
        { "dubbo://h:100000", 10, "5 digits" },
        { "dubbo://h:99999999999999999999", 10, "5 digits" },
        { "dubbo://:80/p", 8, "host" },
        { "dubbo://u@:80/p", 10, "host" },
        { "dubbo://[::1", 8, "closed" },
        { "dubbo://[::1]x", 13, "]" },
        { "dubbo://[::1]:", 14, "port" },
        { "dubbo://h\n", 9, "control" },
        { "dubbo://h?k=\x7f", 12, "control" },
        { "dubbo://h?k=a\tb", 13, "control" },
    };

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        spn_problem problem = { 99, "untouched" };
        spn_url *url = (void *)&problem;

        CHECK_STATUS(spn_url_parse(&url, wrong[i].text, &problem), SPN_EINVAL);
        CHECK(url == NULL);
        CHECK_EQ(problem.offset, wrong[i].offset);
        if (!CHECK(strstr(problem.text, wrong[i].says) != NULL))
            printf("  %s: %s\n", wrong[i].text, problem.text);
        CHECK_STATUS(spn_url_parse(&url, wrong[i].text, NULL), SPN_EINVAL);
    }
}

static void check_parameters(const char *text, const char *printed)
{
    spn_url *url = read_url(text);

    CHECK_STR(print(url, SPN_URL_STRING), printed);
    check_round_trip(url);
    spn_url_unref(url);
}

/* How parameters are cut, and which of several counts. */
TEST(url__parameters__are_cut_and_sorted, "URL-9", "URL-10", "URL-15")
{
    check_parameters("h?b=2&a=1", "h?a=1&b=2");
    check_parameters("h?b=2;a=1", "h?a=1&b=2");
    check_parameters("h?k0&k1=&k2=v", "h?k0=&k1=&k2=v");
    check_parameters("h?k=a=b=c", "h?k=a=b=c");
    check_parameters("h?=v", "h?v=");
    check_parameters("h?==k=v", "h?k=v");
    check_parameters("h?&&a=1&;&", "h?a=1");
    check_parameters("h?k=1&k=2&k=3", "h?k=3");
    check_parameters("h?k= a b &c", "h?c=&k= a b ");
    check_parameters("h?k=?x#y", "h?k=?x#y");
    check_parameters("h?k=%20a%zz", "h?k=%20a%zz");
    check_parameters("u:p@h:1?k=v", "h:1?k=v");
    check_parameters("h?timeout=1&default.timeout=2", "h?default.timeout=2&timeout=1");
    check_parameters("h?default.timeout=2&timeout=1", "h?default.timeout=2&timeout=1");
    check_parameters("h?default.timeout=2", "h?default.timeout=2&timeout=2");
    check_parameters("h?default.t=2&default.t=3", "h?default.t=3&t=2");
    check_parameters("h?default.=2", "h?default.=2");
    check_parameters("h?default.default.t=2", "h?default.default.t=2&default.t=2&t=2");
    check_parameters("h?a=1&ab=2&a.b=3", "h?a=1&a.b=3&ab=2");
}

/* The encoded form is decoded once; what is no escape is refused with its place. */
TEST(url__encoded__is_decoded_once, "URL-11")
{
    static const struct {
        const char *text;
        size_t offset;
    } wrong[] = {
        { "dubbo%3A%2F%2Fh%3Fk%3D%", 22 },
        { "h%3Fk%3D%4", 8 },
        { "h%3Fk%3D%G0", 8 },
        { "h%3Fk%3D%0g", 8 },
        { "h%3Fk%3Da%00", 9 },
        { "h%3Fk%3D%0A", 8 },
        { "h%3A12x", 6 },
    };
    spn_problem problem;
    spn_url *url;

    CHECK_OK(spn_url_parse_encoded(
        &url, "dubbo%3a%2F%2Fu%3Ap%40h%3A20880%2Fa.B%3Fk%3Dx+y%252C%26z%3D%2B%C3%A4",
        NULL));
    CHECK_STR(print(url, SPN_URL_FULL), "dubbo://u:p@h:20880/a.B?k=x y%2C&z=+\xc3\xa4");
    CHECK_STR(print(url, SPN_URL_ENCODED),
              "dubbo%3A%2F%2Fu%3Ap%40h%3A20880%2Fa.B%3Fk%3Dx+y%252C%26z%3D%2B%C3%A4");
    spn_url_unref(url);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_STATUS(spn_url_parse_encoded(&url, wrong[i].text, &problem), SPN_EINVAL);
        CHECK(url == NULL);
        CHECK_EQ(problem.offset, wrong[i].offset);
    }
    url = read_url("h?k=a b/*-._~");
    CHECK_STR(print(url, SPN_URL_ENCODED), "h%3Fk%3Da+b%2F*-._%7E");
    spn_url_unref(url);
}

/* Limits hold also for what is derived, and at the very limit all is well. */
TEST(url__beyond_limits__is_refused, "URL-13")
{
    static char text[SPN_URL_TEXT_MAX + 2], many[SPN_URL_PARAMETERS_MAX * 8];
    spn_url_parameter last;
    spn_problem problem;
    spn_url *url;
    size_t length;

    memset(text, 'a', sizeof text);
    text[SPN_URL_TEXT_MAX] = '\0';
    CHECK_OK(spn_url_parse(&url, text, NULL));
    spn_url_unref(url);
    text[SPN_URL_TEXT_MAX] = 'a';
    text[SPN_URL_TEXT_MAX + 1] = '\0';
    CHECK_STATUS(spn_url_parse(&url, text, &problem), SPN_ERANGE);
    CHECK(url == NULL);

    memcpy(text, "?default.k=", 11);
    text[SPN_URL_TEXT_MAX - 100] = '\0';
    CHECK_STATUS(spn_url_parse(&url, text, &problem), SPN_ERANGE); /* twice as long */

    for (int extra = 0; extra < 2; extra++) {
        length = (size_t)sprintf(many, "h?");
        for (int i = 0; i < SPN_URL_PARAMETERS_MAX + extra; i++)
            length += (size_t)sprintf(many + length, "k%d&", i);
        CHECK_STATUS(spn_url_parse(&url, many, &problem),
                     extra == 0 ? SPN_OK : SPN_ERANGE);
        if (extra == 0)
            CHECK_OK(spn_url_at(url, SPN_URL_PARAMETERS_MAX - 1, &last));
        spn_url_unref(url);
    }
    /* A key that stands in for thousands. */
    length = (size_t)sprintf(text, "h?");
    while (length < SPN_URL_TEXT_MAX - 16)
        length += (size_t)sprintf(text + length, "default.");
    (void)sprintf(text + length, "k=v");
    CHECK_STATUS(spn_url_parse(&url, text, &problem), SPN_ERANGE);
}

/* The printed forms, whole and cut. */
TEST(url__forms__are_printed, "URL-15", "URL-16", "URL-17")
{
    static const char whole[] = "dubbo://u:p@h:20880/p.S?a=1&interface=i.S";
    spn_url *url = read_url("dubbo://u:p@h:20880/p.S?interface=i.S&a=1"), *other;
    char text[64];

    CHECK_STR(print(url, SPN_URL_STRING), "dubbo://h:20880/p.S?a=1&interface=i.S");
    CHECK_STR(print(url, SPN_URL_FULL), whole);
    CHECK_STR(print(url, SPN_URL_IDENTITY), "dubbo://h:20880/p.S");
    CHECK_STR(print(url, SPN_URL_ADDRESS), "h:20880");
    CHECK_STR(print(url, SPN_URL_SERVICE_KEY), "i.S");
    CHECK_STR(print(url, SPN_URL_COLON_KEY), "i.S::");
    for (size_t capacity = 0; capacity < sizeof text; capacity++) {
        memset(text, '!', sizeof text);
        CHECK_EQ(spn_url_print(url, SPN_URL_FULL, text, capacity), sizeof whole - 1);
        if (capacity > 0)
            CHECK_EQ(strlen(text),
                     capacity < sizeof whole ? capacity - 1 : sizeof whole - 1);
        CHECK_EQ(memcmp(text, whole, capacity > 0 ? strlen(text) : 0), 0);
        CHECK_EQ(text[capacity < sizeof whole ? capacity : sizeof whole], '!');
    }
    spn_url_unref(url);

    other = read_url("dubbo://h:1/p.S?group=g&version=2.0");
    CHECK_STR(print(other, SPN_URL_SERVICE_KEY), "g/p.S:2.0");
    CHECK_STR(print(other, SPN_URL_COLON_KEY), "p.S:2.0:g");
    spn_url_unref(other);
    other = read_url("dubbo://h:1?group=g");
    CHECK_STR(print(other, SPN_URL_SERVICE_KEY), "");
    spn_url_unref(other);
}

/* Equality is that of the parts and parameters, not of the text. */
TEST(url__equality__is_by_value, "URL-18")
{
    static const char *const others[] = {
        "dubbo://u:p@h:1/x?a=1&b=3",
        "dubbo://u:p@h:1/x?a=1",
        "dubbo://u:p@h:1/y?a=1&b=2",
        "dubbo://u:p@h:2/x?a=1&b=2",
        "dubbo://u:p@i:1/x?a=1&b=2",
        "dubbo://u:q@h:1/x?a=1&b=2",
        "dubbo://v:p@h:1/x?a=1&b=2",
        "tri://u:p@h:1/x?a=1&b=2",
        "h:1/x?a=1&b=2",
        "dubbo://u:p@h:1/x?a=1&c=2",
    };
    spn_url *a = read_url("dubbo://u:p@h:1/x?a=1&b=2");
    spn_url *b = read_url("dubbo://u:p@h:1//x#y?;b=2&;a=1");

    CHECK_EQ(spn_url_equals(a, a), 1);
    CHECK_EQ(spn_url_equals(a, b), 1);
    CHECK(spn_url_hash(a) == spn_url_hash(b));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        spn_url *other = read_url(others[i]);

        CHECK_EQ(spn_url_equals(a, other), 0);
        CHECK_EQ(spn_url_equals(other, a), 0);
        CHECK(spn_url_hash(a) != spn_url_hash(other));
        spn_url_unref(other);
    }
    CHECK_EQ(spn_url_equals(a, NULL), 0);
    CHECK_EQ(spn_url_equals(NULL, NULL), 1);
    spn_url_unref(a);
    spn_url_unref(b);
}

static void set_to(spn_url **url, const char *key, const char *value)
{
    spn_url *old = *url;

    CHECK_OK(spn_url_set(old, key, value, url));
    spn_url_unref(old);
}

/* A URL never changes: what changes one gives another, or the very same. */
TEST(url__set__gives_a_copy_or_the_same, "URL-19")
{
    spn_url *url = read_url("dubbo://h:1/p?a=1&e="), *other;

    CHECK_OK(spn_url_set(url, "b", "2", &other));
    CHECK(other != url);
    CHECK_STR(print(other, SPN_URL_FULL), "dubbo://h:1/p?a=1&b=2&e=");
    CHECK_STR(print(url, SPN_URL_FULL), "dubbo://h:1/p?a=1&e=");
    spn_url_unref(other);
    CHECK_OK(spn_url_set(url, "a", "1", &other));
    CHECK(other == url);
    spn_url_unref(other);
    CHECK_OK(spn_url_set(url, "z", NULL, &other));
    CHECK(other == url);
    spn_url_unref(other);
    CHECK_OK(spn_url_set_absent(url, "a", "2", &other));
    CHECK(other == url);
    spn_url_unref(other);
    CHECK_OK(spn_url_set_absent(url, "e", "2", &other));
    CHECK_STR(spn_url_get(other, NULL, "e"), "2");
    spn_url_unref(other);

    set_to(&url, "default.x", "7");
    CHECK_STR(spn_url_get(url, NULL, "x"), "7");
    set_to(&url, "x", "8");
    CHECK_STR(print(url, SPN_URL_FULL), "dubbo://h:1/p?a=1&default.x=7&e=&x=8");
    set_to(&url, "x", NULL); /* the default is back */
    CHECK_STR(spn_url_get(url, NULL, "x"), "7");
    CHECK_OK(spn_url_set(url, "x", NULL, &other));
    CHECK(other == url);
    spn_url_unref(other);
    set_to(&url, "a", NULL);
    CHECK(spn_url_get(url, NULL, "a") == NULL);
    check_round_trip(url);
    spn_url_unref(url);

    url = read_url("?a=1");
    CHECK_STATUS(spn_url_set(url, "a", NULL, &other), SPN_EINVAL); /* nothing left */
    CHECK_STATUS(spn_url_set(url, "b", "x&y", &other), SPN_EINVAL);
    CHECK_STATUS(spn_url_set(url, "b", "x;y", &other), SPN_EINVAL);
    CHECK_STATUS(spn_url_set(url, "b=", "x", &other), SPN_EINVAL);
    CHECK_STATUS(spn_url_set(url, "", "x", &other), SPN_EINVAL);
    CHECK_STATUS(spn_url_set(url, "b", "x\ny", &other), SPN_EINVAL);
    CHECK(other == NULL);
    spn_url_unref(url);
}

/* A URL from parts, and one with parts replaced. */
TEST(url__parts__make_a_url, "URL-20")
{
    static const spn_url_parameter first[] = { { "b", "2" },
                                               { "a", "0" },
                                               { "a", "1" } };
    static const spn_url_parameter second[] = { { "a", NULL }, { "c", "" } };
    spn_url_parts parts = SPN_URL_PARTS_INIT;
    spn_problem problem;
    spn_url *url, *other;

    parts.protocol = "dubbo";
    parts.user = "u";
    parts.password = "p@:";
    parts.host = "h";
    parts.port = 20880;
    parts.path = "//x/y";
    parts.parameters = first;
    parts.parameter_count = 3;
    CHECK_OK(spn_url_create(&url, &parts, &problem));
    CHECK_STR(print(url, SPN_URL_FULL), "dubbo://u:p@:@h:20880/x/y?a=1&b=2");

    parts = (spn_url_parts)SPN_URL_PARTS_INIT;
    parts.base = url;
    CHECK_OK(spn_url_create(&other, &parts, NULL));
    CHECK_EQ(spn_url_equals(url, other), 1);
    spn_url_unref(other);
    parts.user = parts.password = "";
    parts.port = 0;
    parts.path = "z";
    parts.parameters = second;
    parts.parameter_count = 2;
    CHECK_OK(spn_url_create(&other, &parts, NULL));
    CHECK_STR(print(other, SPN_URL_FULL), "dubbo://h/z?b=2&c=");
    check_round_trip(other);
    spn_url_unref(other);

#define REFUSED(field, content)                                             \
    do {                                                                    \
        spn_url_parts wrong = SPN_URL_PARTS_INIT;                           \
        wrong.base = url;                                                   \
        wrong.field = content;                                              \
        problem.text[0] = '\0';                                             \
        CHECK_STATUS(spn_url_create(&other, &wrong, &problem), SPN_EINVAL); \
        CHECK(other == NULL && problem.text[0] != '\0');                    \
    } while (0)
    REFUSED(protocol, "a/b");
    REFUSED(protocol, "a b");
    REFUSED(host, "a/b");
    REFUSED(host, "a@b");
    REFUSED(host, "a?b");
    REFUSED(host, "a#b");
    REFUSED(user, "a:b");
    REFUSED(user, "a/b");
    REFUSED(password, "a/b");
    REFUSED(path, "a?b");
    REFUSED(path, "a#b");
    REFUSED(path, "a\nb");
    REFUSED(port, 65536);
    REFUSED(port, -1);
#undef REFUSED
    spn_url_unref(url);
}

/* Strings and truth values, there, empty and missing. */
TEST(url__strings_and_bools__have_defaults, "URL-21", "URL-24", "URL-27")
{
    spn_url *url = read_url("h?s=x&e=&t=true&u=TrUe&f=false&o=1&long=truest&short=tru"),
            *any;

    CHECK_STR(spn_url_get(url, NULL, "s"), "x");
    CHECK_STR(spn_url_get(url, NULL, "e"), "");
    CHECK(spn_url_get(url, NULL, "m") == NULL);
    CHECK_STR(spn_url_get_string(url, NULL, "s", "d"), "x");
    CHECK_STR(spn_url_get_string(url, NULL, "e", "d"), "d");
    CHECK_STR(spn_url_get_string(url, NULL, "m", "d"), "d");
    CHECK(spn_url_get_string(url, NULL, "m", NULL) == NULL);
    CHECK_EQ(spn_url_get_bool(url, NULL, "t", 0), 1);
    CHECK_EQ(spn_url_get_bool(url, NULL, "u", 0), 1);
    CHECK_EQ(spn_url_get_bool(url, NULL, "f", 1), 0);
    CHECK_EQ(spn_url_get_bool(url, NULL, "o", 1), 0);
    CHECK_EQ(spn_url_get_bool(url, NULL, "long", 1), 0);
    CHECK_EQ(spn_url_get_bool(url, NULL, "short", 1), 0);
    CHECK_EQ(spn_url_get_bool(url, NULL, "e", 7), 1);
    CHECK_EQ(spn_url_get_bool(url, NULL, "m", 0), 0);
    CHECK_EQ(spn_url_is_any_host(url), 0);
    spn_url_unref(url);
    any = read_url("dubbo://0.0.0.0:1");
    CHECK_EQ(spn_url_is_any_host(any), 1);
    spn_url_unref(any);
    any = read_url("dubbo://h:1?anyhost=true");
    CHECK_EQ(spn_url_is_any_host(any), 1);
    spn_url_unref(any);
}

/* Numbers at, below and beyond their limits; a mistake is never the default. */
TEST(url__numbers__are_exact, "URL-22", "URL-23")
{
    static const struct {
        const char *text;
        int as_int, as_long;
        int64_t value;
    } numbers[] = {
        { "0", SPN_OK, SPN_OK, 0 },
        { "-0", SPN_OK, SPN_OK, 0 },
        { "+7", SPN_OK, SPN_OK, 7 },
        { "-12", SPN_OK, SPN_OK, -12 },
        { "0000000000000000000000012", SPN_OK, SPN_OK, 12 },
        { "2147483647", SPN_OK, SPN_OK, INT32_MAX },
        { "2147483648", SPN_ERANGE, SPN_OK, INT64_C(2147483648) },
        { "-2147483648", SPN_OK, SPN_OK, INT32_MIN },
        { "-2147483649", SPN_ERANGE, SPN_OK, INT64_C(-2147483649) },
        { "9223372036854775807", SPN_ERANGE, SPN_OK, INT64_MAX },
        { "9223372036854775808", SPN_ERANGE, SPN_ERANGE, 0 },
        { "-9223372036854775808", SPN_ERANGE, SPN_OK, INT64_MIN },
        { "-9223372036854775809", SPN_ERANGE, SPN_ERANGE, 0 },
        { "99999999999999999999999999", SPN_ERANGE, SPN_ERANGE, 0 },
        { "x", SPN_EINVAL, SPN_EINVAL, 0 },
        { "1x", SPN_EINVAL, SPN_EINVAL, 0 },
        { " 1", SPN_EINVAL, SPN_EINVAL, 0 },
        { "1 ", SPN_EINVAL, SPN_EINVAL, 0 },
        { "-", SPN_EINVAL, SPN_EINVAL, 0 },
        { "+", SPN_EINVAL, SPN_EINVAL, 0 },
        { "--1", SPN_EINVAL, SPN_EINVAL, 0 },
        { "0x10", SPN_EINVAL, SPN_EINVAL, 0 },
        { "1.5", SPN_EINVAL, SPN_EINVAL, 0 },
        { "99999999999999999999999999x", SPN_EINVAL, SPN_EINVAL, 0 },
    };
    spn_url *empty = read_url("h?k="), *url;

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        int32_t i32 = 77, positive = 77;
        int64_t i64 = 77;

        CHECK_OK(spn_url_set(empty, "k", numbers[i].text, &url));
        CHECK_STATUS(spn_url_get_int(url, NULL, "k", 5, &i32), numbers[i].as_int);
        CHECK_EQ(i32, numbers[i].as_int == SPN_OK ? numbers[i].value : 77);
        CHECK_STATUS(spn_url_get_long(url, NULL, "k", 5, &i64), numbers[i].as_long);
        CHECK_EQ(i64, numbers[i].as_long == SPN_OK ? numbers[i].value : 77);
        CHECK_STATUS(spn_url_get_positive(url, NULL, "k", 5, &positive),
                     numbers[i].as_int);
        if (numbers[i].as_int == SPN_OK)
            CHECK_EQ(positive, numbers[i].value > 0 ? numbers[i].value : 5);
        CHECK_STATUS(spn_url_get_positive(url, NULL, "k", 0, &positive), SPN_EINVAL);
        spn_url_unref(url);
    }
    for (int i = 0; i < 2; i++) {
        const char *key = i == 0 ? "k" : "missing";
        int32_t i32 = 77, positive = 77;
        int64_t i64 = 77;

        CHECK_OK(spn_url_get_int(empty, NULL, key, -5, &i32));
        CHECK_EQ(i32, -5);
        CHECK_OK(spn_url_get_long(empty, NULL, key, INT64_MIN, &i64));
        CHECK_EQ(i64, INT64_MIN);
        CHECK_OK(spn_url_get_positive(empty, NULL, key, 5, &positive));
        CHECK_EQ(positive, 5);
    }
    spn_url_unref(empty);
}

/* A method's own value, else the common one. */
TEST(url__methods__have_their_own_values, "URL-25")
{
    spn_url *url =
        read_url("h?timeout=1&sayHello.timeout=2&say.timeout=3&flag=true&"
                 "sayHello.flag=false&sayHello.big=9223372036854775807&bad=x&"
                 "sayHello.retries=-1&sayHello.e=");
    spn_url *some;
    int32_t value;
    int64_t big;

    CHECK_STR(spn_url_get(url, "sayHello", "timeout"), "2");
    CHECK_STR(spn_url_get(url, "say", "timeout"), "3");
    CHECK_STR(spn_url_get(url, "sayH", "timeout"), "1");
    CHECK_STR(spn_url_get(url, "sayHello", "bad"), "x");
    CHECK(spn_url_get_own(url, "sayHello", "bad") == NULL);
    CHECK_STR(spn_url_get_own(url, "sayHello", "e"), "");
    CHECK(spn_url_get(url, "sayHello", "none") == NULL);
    CHECK_OK(spn_url_get_int(url, "sayHello", "timeout", 9, &value));
    CHECK_EQ(value, 2);
    CHECK_OK(spn_url_get_int(url, "other", "timeout", 9, &value));
    CHECK_EQ(value, 1);
    CHECK_OK(spn_url_get_int(url, "other", "none", 9, &value));
    CHECK_EQ(value, 9);
    CHECK_STATUS(spn_url_get_int(url, "sayHello", "bad", 9, &value), SPN_EINVAL);
    CHECK_OK(spn_url_get_long(url, "sayHello", "big", 9, &big));
    CHECK_EQ(big, INT64_MAX);
    CHECK_OK(spn_url_get_positive(url, "sayHello", "retries", 9, &value));
    CHECK_EQ(value, 9);
    CHECK_EQ(spn_url_get_bool(url, "sayHello", "flag", 1), 0);
    CHECK_EQ(spn_url_get_bool(url, "other", "flag", 0), 1);
    CHECK_EQ(spn_url_get_bool(url, "other", "none", 1), 1);

    CHECK_OK(spn_url_set(url, "methods", "sayHello,other", &some));
    CHECK_STR(spn_url_get(some, "sayHello", "timeout"), "2");
    CHECK_STR(spn_url_get(some, "say", "timeout"), "3"); /* a part will do */
    spn_url_unref(some);
    CHECK_OK(spn_url_set(url, "methods", "other", &some));
    CHECK(spn_url_get_own(some, "sayHello", "timeout") == NULL);
    CHECK_STR(spn_url_get(some, "sayHello", "timeout"), "1");
    spn_url_unref(some);
    spn_url_unref(url);
}

static void check_backup(const spn_url *url, size_t index, const char *address)
{
    spn_url *backup;

    CHECK_OK(spn_url_backup(url, index, &backup));
    CHECK_STR(print(backup, SPN_URL_ADDRESS), address);
    CHECK_STR(spn_url_path(backup), "p");
    spn_url_unref(backup);
}

/* The URL, then its backups. */
TEST(url__backups__have_other_addresses, "URL-26")
{
    spn_url *url = read_url("dubbo://h:1/p?backup=a:2, b ,[::1]:3,,fe80::1:4"), *out;

    check_backup(url, 0, "h:1");
    check_backup(url, 1, "a:2");
    check_backup(url, 2, "b:1");
    check_backup(url, 3, "[::1]:3");
    check_backup(url, 4, "fe80::1:4");
    CHECK_STATUS(spn_url_backup(url, 5, &out), SPN_EEMPTY);
    CHECK(out == NULL);
    spn_url_unref(url);
    url = read_url("dubbo://h:1/p?backup=a:x");
    CHECK_STATUS(spn_url_backup(url, 1, &out), SPN_EINVAL);
    spn_url_unref(url);
    url = read_url("dubbo://h:1/p");
    CHECK_STATUS(spn_url_backup(url, 1, &out), SPN_EEMPTY);
    spn_url_unref(url);
}

/* The parameters by index are those by key. */
TEST(url__by_index__every_parameter_once, "URL-9")
{
    spn_url *url = read_url("h?c=3&a=1&b=");
    spn_url_parameter p = { NULL, NULL };

    CHECK_OK(spn_url_at(url, 0, &p));
    CHECK_STR(p.key, "a");
    CHECK_OK(spn_url_at(url, 1, &p));
    CHECK_STR(p.value, "");
    CHECK_OK(spn_url_at(url, 2, &p));
    CHECK_STR(p.value, "3");
    CHECK_STATUS(spn_url_at(url, 3, &p), SPN_EEMPTY);
    spn_url_unref(url);
}

/* Random texts of the characters that matter: refused, or read, printed and read as the
 * same. */
TEST(url__random_text__round_trips_or_is_refused, "URL-14")
{
    static const char alphabet[] = "ab12:/@?&;=#%+[]. default.\x01\xff,-";
    const int rounds = t_rounds(40000);
    uint64_t seed = t_seed();
    int read = 0;

    for (int i = 0; i < rounds; i++) {
        const size_t length = t_random(&seed) % 24;
        spn_problem problem = { SIZE_MAX, "" };
        char text[64];
        spn_url *url;
        int rc;

        for (size_t j = 0; j < length; j++)
            text[j] = alphabet[t_random(&seed) % (sizeof alphabet - 1)];
        text[length] = '\0';
        if (t_random(&seed) % 4 == 0 && length > 11)
            memcpy(text + length / 4, "default.", 8);
        rc = spn_url_parse(&url, text, &problem);
        if (rc == SPN_OK) {
            read++;
            check_round_trip(url);
            spn_url_unref(url);
        } else {
            CHECK_STATUS(rc, SPN_EINVAL);
            CHECK(problem.offset <= length && problem.text[0] != '\0');
        }
        if (spn_url_parse_encoded(&url, text, NULL) == SPN_OK) {
            check_round_trip(url);
            spn_url_unref(url);
        }
    }
    CHECK(read > rounds / 50);
}

/* Every allocation refused in turn: SPN_ENOMEM, nothing left. */
TEST(url__no_memory__is_said, "URL-14")
{
    spn_url *url = read_url("dubbo://h:1/p?a=1&b=2&backup=c:3"), *out;
    const spn_url_parts parts = { .size = sizeof parts, .base = url, .port = 5 };
    const long live = atomic_load(&counting_live);

    atomic_store(&counting_refuse, 1);
    CHECK_STATUS(spn_url_parse(&out, "h", NULL), SPN_ENOMEM);
    CHECK_STATUS(spn_url_parse_encoded(&out, "h", NULL), SPN_ENOMEM);
    CHECK_STATUS(spn_url_set(url, "c", "d", &out), SPN_ENOMEM);
    CHECK_STATUS(spn_url_create(&out, &parts, NULL), SPN_ENOMEM);
    CHECK_STATUS(spn_url_backup(url, 1, &out), SPN_ENOMEM);
    atomic_store(&counting_refuse, 0);
    CHECK(out == NULL);
    CHECK_EQ(atomic_load(&counting_live), live);
    spn_url_unref(url);
}
