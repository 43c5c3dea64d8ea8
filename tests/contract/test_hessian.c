/* SPDX-License-Identifier: MIT */
/*
 * Hessian form by form: what is read, what is written, how values are made and asked.
 * Bytes are in hexadecimal, values as spn_hvalue_print shows them.
 */
#include "hessian.h"
#include "rpc/wire/hessian_value.h"

#include <math.h>

/* ---- one value, written ------------------------------------------------------------ */

static struct spn__hwriter writer;
static spn_harena *arena;

static void begin(void)
{
    spn__hwriter_init(&writer, NULL, 0, 0);
    REQUIRE_OK(spn_harena_create(&arena, NULL));
}

static void end(void)
{
    spn__hwriter_fini(&writer);
    spn_harena_destroy(arena);
}

/* Writes by a call, wants these bytes, and starts a new message. */
#define CHECK_WRITES(call, hex)         \
    do {                                \
        CHECK_OK(call);                 \
        CHECK_WROTE(&writer, hex);      \
        spn__hwriter_reset(&writer, 0); \
    } while (0)

/* Both ends of every range, in the shortest form; and forms longer than needed are read. */
TEST(hessian__integers__shortest_written_all_read, "HES-2")
{
    static const struct {
        int64_t number;
        const char *as_int, *as_long;
    } cases[] = {
        { 0, "90", "e0" },
        { -8, "88", "d8" },
        { -9, "87", "f7f7" },
        { 15, "9f", "ef" },
        { 16, "a0", "f810" },
        { -16, "80", "f7f0" },
        { -17, "c7ef", "f7ef" },
        { 47, "bf", "f82f" },
        { 48, "c830", "f830" },
        { 255, "c8ff", "f8ff" },
        { 256, "c900", "f900" },
        { -256, "c700", "f700" },
        { -257, "c6ff", "f6ff" },
        { 2047, "cfff", "ffff" },
        { 2048, "d40800", "3c0800" },
        { -2048, "c000", "f000" },
        { -2049, "d3f7ff", "3bf7ff" },
        { 65535, "d4ffff", "3cffff" },
        { 262143, "d7ffff", "3fffff" },
        { 262144, "4900040000", "5900040000" },
        { -262144, "d00000", "380000" },
        { -262145, "49fffbffff", "59fffbffff" },
        { INT32_MAX, "497fffffff", "597fffffff" },
        { INT32_MIN, "4980000000", "5980000000" },
    };

    begin();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[32];

        CHECK_WRITES(spn__hwriter_int(&writer, (int32_t)cases[i].number),
                     cases[i].as_int);
        CHECK_WRITES(spn__hwriter_long(&writer, cases[i].number), cases[i].as_long);
        (void)snprintf(text, sizeof text, "%lld", (long long)cases[i].number);
        CHECK_READS(cases[i].as_int, text);
        (void)snprintf(text, sizeof text, "%lldL", (long long)cases[i].number);
        CHECK_READS(cases[i].as_long, text);
    }
    CHECK_WRITES(spn__hwriter_long(&writer, INT64_C(2147483648)), "4c0000000080000000");
    CHECK_WRITES(spn__hwriter_long(&writer, INT64_MIN), "4c8000000000000000");
    CHECK_READS("4900000005", "5");
    CHECK_READS("c805", "5");
    CHECK_READS("d40005", "5");
    CHECK_READS("4c0000000000000005", "5L");
    CHECK_READS("5900000005", "5L");
    CHECK_READS("f805", "5L");
    CHECK_READS("3c0005", "5L");
    end();
}

/* Each form of a double where it begins and ends. */
TEST(hessian__doubles__as_java_writes_them, "HES-3")
{
    begin();
    CHECK_WRITES(spn__hwriter_double(&writer, 0.0), "5b");
    CHECK_WRITES(spn__hwriter_double(&writer, -0.0), "5b");
    CHECK_WRITES(spn__hwriter_double(&writer, 1.0), "5c");
    CHECK_WRITES(spn__hwriter_double(&writer, 2.0), "5d02");
    CHECK_WRITES(spn__hwriter_double(&writer, 127.0), "5d7f");
    CHECK_WRITES(spn__hwriter_double(&writer, -129.0), "5eff7f");
    CHECK_WRITES(spn__hwriter_double(&writer, 32767.0), "5e7fff");
    CHECK_WRITES(spn__hwriter_double(&writer, -32769.0), "5ffe0bfc18");
    CHECK_WRITES(spn__hwriter_double(&writer, -0.001), "5fffffffff");
    CHECK_WRITES(spn__hwriter_double(&writer, 1e300), "447e37e43c8800759c");
    CHECK_WRITES(spn__hwriter_double(&writer, -1e10), "44c202a05f20000000");
    CHECK_WRITES(spn__hwriter_double(&writer, INFINITY), "447ff0000000000000");
    CHECK_WRITES(spn__hwriter_double(&writer, -INFINITY), "44fff0000000000000");
    CHECK_WRITES(spn__hwriter_double(&writer, NAN), "447ff8000000000000");
    CHECK_WRITES(spn__hwriter_double(&writer, -NAN), "447ff8000000000000");
    CHECK_READS("44fff8000000000001", "NaN");
    CHECK_READS("448000000000000000", "-0.0");
    CHECK_READS("443ff0000000000000", "1.0");
    CHECK_READS("5d80", "-128.0");
    CHECK_READS("5e8000", "-32768.0");
    CHECK_READS("5f80000000", "-2147483.648");
    CHECK_READS("443fb999999999999a", "0.1");
    CHECK_READS("447ff0000000000000", "Infinity");
    CHECK_READS("44fff0000000000000", "-Infinity");
    end();
}

TEST(hessian__dates__minutes_where_they_fit, "HES-4")
{
    begin();
    CHECK_WRITES(spn__hwriter_value(&writer, spn_harena_date(arena, -60000)),
                 "4bffffffff");
    CHECK_WRITES(spn__hwriter_value(&writer,
                                    spn_harena_date(arena,
                                                    INT64_C(2147483647) * 60000)),
                 "4b7fffffff");
    CHECK_WRITES(spn__hwriter_value(&writer,
                                    spn_harena_date(arena,
                                                    INT64_C(2147483648) * 60000)),
                 "4a0000753000000000");
    CHECK_WRITES(spn__hwriter_value(&writer,
                                    spn_harena_date(arena,
                                                    INT64_C(-2147483648) * 60000)),
                 "4b80000000");
    CHECK_WRITES(spn__hwriter_value(&writer,
                                    spn_harena_date(arena,
                                                    INT64_C(-2147483649) * 60000)),
                 "4affff8acfffff15a0");
    CHECK_WRITES(spn__hwriter_value(&writer, spn_harena_date(arena, 60001)),
                 "4a000000000000ea61");
    CHECK_READS("4b00000000", "1970-01-01T00:00:00.000Z");
    CHECK_READS("4affffffffffffffff", "1969-12-31T23:59:59.999Z");
    CHECK_READS("4b00e3838f", "1998-05-08T09:51:00.000Z");
    CHECK_READS("4b00f0c120", "2000-01-01T00:00:00.000Z");
    CHECK_READS("4a000000dd9aa6e000", "2000-02-29T00:00:00.000Z");
    end();
}

/* ---- text -------------------------------------------------------------------------- */

/* Units on the wire, UTF-8 outside; both forms are read. */
TEST(hessian__text__utf8_outside_cesu8_on_the_wire, "HES-5")
{
    begin();
    CHECK_WRITES(spn__hwriter_text(&writer, "\xC3\xA9"), "01c3a9");
    CHECK_WRITES(spn__hwriter_text(&writer, "\xE4\xB8\xAD"), "01e4b8ad");
    CHECK_WRITES(spn__hwriter_text(&writer, "\xF0\x9F\x98\x80"), "02eda0bdedb880");
    CHECK_WRITES(spn__hwriter_text(&writer, "\xF4\x8F\xBF\xBF"), "02edafbfedbfbf");
    CHECK_WRITES(spn__hwriter_string(&writer, "a\0b", 3), "03610062");
    /* Half a pair, alone; and a pair given in halves. */
    CHECK_WRITES(spn__hwriter_text(&writer, "\xED\xA0\xBD"), "01eda0bd");
    CHECK_WRITES(spn__hwriter_text(&writer, "\xED\xA0\xBD\xED\xB8\x80"),
                 "02eda0bdedb880");
    CHECK_READS("02eda0bdedb880", "\"\xF0\x9F\x98\x80\"");
    CHECK_READS("02f09f9880", "\"\xF0\x9F\x98\x80\"");
    CHECK_READS("0461f09f988062", "\"a\xF0\x9F\x98\x80"
                                  "b\"");
    CHECK_READS("03610062", "\"a\\u0000b\"");
    CHECK_READS("01eda0bd", "\"\\ud83d\"");
    CHECK_READS("01edb880", "\"\\ude00\"");
    CHECK_READS("02edb880eda0bd", "\"\\ude00\\ud83d\"");
    CHECK_READS("03eda0bdeda0bdedb880", "\"\\ud83d\xF0\x9F\x98\x80\"");
    /* The halves of a pair in two chunks, the second of each form. */
    CHECK_READS("520001eda0bd01edb880", "\"\xF0\x9F\x98\x80\"");
    CHECK_READS("520001eda0bd530001edb880", "\"\xF0\x9F\x98\x80\"");
    CHECK_READS("520001eda0bd3001edb880", "\"\xF0\x9F\x98\x80\"");
    CHECK_READS("520001eda0bd520000 01edb880", "\"\xF0\x9F\x98\x80\"");
    CHECK_READS("520001eda0bd0161", "\"\\ud83da\"");
    end();
}

static const char *const not_utf8[] = {
    "\x80",             /* the middle of something    */
    "\xBF",             /* and its end                */
    "\xC0\x80",         /* overlong                   */
    "\xC1\xBF",         /* overlong                   */
    "\xE0\x9F\xBF",     /* overlong                   */
    "\xF0\x8F\xBF\xBF", /* overlong                   */
    "\xF4\x90\x80\x80", /* beyond U+10FFFF            */
    "\xF5\x80\x80\x80", /* beyond                     */
    "\xFF",             /* nothing                    */
    "\xC3z",            /* no rest                    */
    "\xE4\xB8z",        /* no rest                    */
    "\xF0\x9F\x98z",    /* no rest                    */
};

/* What is not UTF-8 is refused wherever it comes from. */
TEST(hessian__wrong_text__refused_both_ways, "HES-6")
{
    begin();
    for (size_t i = 0; i < sizeof not_utf8 / sizeof not_utf8[0]; i++) {
        unsigned char message[16] = { 4 };
        struct spn__hreader reader;
        spn_problem problem = SPN_PROBLEM_INIT;
        spn_hspan span;
        const size_t length = strlen(not_utf8[i]);

        CHECK_STATUS(spn__hwriter_text(&writer, not_utf8[i]), SPN_EINVAL);
        spn__hwriter_reset(&writer, 0);
        CHECK(spn_harena_text(arena, not_utf8[i]) == NULL);
        CHECK(spn_harena_list(arena, not_utf8[i]) == NULL);
        CHECK(spn_harena_object(arena, not_utf8[i]) == NULL);

        message[1] = 'a';
        memcpy(message + 2, not_utf8[i], length);
        memcpy(message + 2 + length, "abcd", 4);
        spn__hreader_init(&reader, arena, message, length + 6, &problem);
        CHECK_STATUS(spn__hreader_string(&reader, &span), SPN_EINVAL);
        CHECK_EQ(problem.offset, 2);
        CHECK_STR(problem.text, "not UTF-8");
    }
    /* Cut at the end of what is given; a message that ends there is too short. */
    CHECK(spn_harena_text(arena, "\xE4\xB8") == NULL);
    CHECK_STATUS(spn__hwriter_text(&writer, "a\xF0\x9F"), SPN_EINVAL);
    CHECK_READS("01e4b8", "SPN_EEMPTY at 0: the message ends inside string");
    CHECK_READS("02e4b8ad", "SPN_EEMPTY at 0: the message ends inside string");
    /* Two units where one is left. */
    CHECK_READS("01f09f9880", "SPN_EINVAL at 1: not UTF-8");
    CHECK_READS("0261f09f9880", "SPN_EINVAL at 2: not UTF-8");
    CHECK_READS("520001f09f988000", "SPN_EINVAL at 3: not UTF-8");
    end();
}

/* Chunks of strings end where Java's do, and any are read. */
TEST(hessian__chunks__as_java_cuts_them, "HES-7")
{
    enum { UNITS = 0x8000 };
    static char text[UNITS * 4];
    struct spn__hreader reader;
    spn_hspan span;
    const unsigned char *at;
    size_t length;

    begin();
    /* 32768 units of two bytes are one piece, one more are two. */
    for (size_t i = 0; i <= UNITS; i++)
        memcpy(text + i * 2, "\xC3\xA9", 2);
    CHECK_OK(spn__hwriter_string(&writer, text, UNITS * 2));
    at = spn__hwriter_bytes(&writer, &length);
    CHECK_EQ(length, 3 + UNITS * 2);
    CHECK(at[0] == 'S' && at[1] == 0x80 && at[2] == 0);
    spn__hwriter_reset(&writer, 0);
    CHECK_OK(spn__hwriter_string(&writer, text, (UNITS + 1) * 2));
    at = spn__hwriter_bytes(&writer, &length);
    CHECK_EQ(length, 3 + UNITS * 2 + 3);
    CHECK(at[0] == 'R' && at[1] == 0x80 && at[2] == 0 && at[3 + UNITS * 2] == 1);
    spn__hreader_init(&reader, arena, at, length, NULL);
    CHECK_OK(spn__hreader_string(&reader, &span));
    CHECK(span.length == (UNITS + 1) * 2 && memcmp(span.data, text, span.length) == 0);
    /* Half a pair is not the last of a chunk, though its other half never comes. */
    spn__hwriter_reset(&writer, 0);
    memset(text, 'a', UNITS - 1);
    memcpy(text + UNITS - 1, "\xED\xA0\xBDz", 4);
    CHECK_OK(spn__hwriter_string(&writer, text, UNITS + 3));
    at = spn__hwriter_bytes(&writer, &length);
    CHECK(at[0] == 'R' && at[1] == 0x7f && at[2] == 0xff && at[3 + UNITS - 1] == 2);
    spn__hreader_init(&reader, arena, at, length, NULL);
    CHECK_OK(spn__hreader_string(&reader, &span));
    CHECK(span.length == UNITS + 3 && memcmp(span.data, text, span.length) == 0);

    CHECK_READS("5200016152000163 00", "\"ac\"");
    CHECK_READS("520000520000530000", "\"\"");
    CHECK_READS("52000161 3001 62", "\"ab\"");
    CHECK_READS("52000161 530001 62", "\"ab\"");
    CHECK_READS("530000", "\"\"");
    CHECK_READS("3000", "\"\"");
    CHECK_READS("410001 61 20", "<1: 61>");
    CHECK_READS("410001 61 410000 2162", "<2: 6162>");
    CHECK_READS("41000161 3401 62", "<2: 6162>");
    CHECK_READS("41000161 420001 62", "<2: 6162>");
    CHECK_READS("420000", "<0:>");
    /* A chunk of the other kind does not go on. */
    CHECK_READS("52000161 2162", "SPN_EINVAL at 4: 0x21 does not go on with a string");
    CHECK_READS("41000161 0162", "SPN_EINVAL at 4: 0x01 does not go on with a binary");
    CHECK_READS("52000161", "SPN_EEMPTY at 0: the message ends inside string");
    end();
}

/* ---- lists, maps, objects ---------------------------------------------------------------- */

TEST(hessian__lists__all_forms, "HES-8")
{
    CHECK_READS("78", "[]");
    CHECK_READS("7f91929394959697", "[1, 2, 3, 4, 5, 6, 7]");
    CHECK_READS("589191", "[1]");
    CHECK_READS("5790915a", "[0, 1]");
    CHECK_READS("575a", "[]");
    CHECK_READS("710174 91", "t[1]");
    CHECK_READS("560174 92 9192", "t[1, 2]");
    CHECK_READS("550174 915a", "t[1]");
    CHECK_READS("550174 5a", "t[]");
    /* A type by its number, from each form; strings in between are no types. */
    CHECK_READS("73 0174 7090 569090 55905a", "t[t[], t[], t[]]");
    CHECK_READS("7a 700161 7a 700162 7191 0178", "[a[], [b[], b[\"x\"]]]");
    /* Lengths and numbers in every form of an int. */
    CHECK_READS("5849000000019a", "[10]");
    CHECK_READS("58e19a", "[10]");
    CHECK_READS("56 0174 c8019a", "t[10]");
    /* Eight are written with a length of their own. */
    begin();
    CHECK_OK(spn__hwriter_begin_list(&writer, "t", 8));
    for (int i = 0; i < 8; i++)
        CHECK_OK(spn__hwriter_int(&writer, 0));
    CHECK_OK(spn__hwriter_end(&writer));
    CHECK_OK(spn__hwriter_begin_list(&writer, "t", 0));
    CHECK_OK(spn__hwriter_end(&writer));
    CHECK_OK(spn__hwriter_begin_list(&writer, "u", 0));
    CHECK_OK(spn__hwriter_end(&writer));
    CHECK_WROTE(&writer, "560174989090909090909090 7090 700175");
    end();
}

TEST(hessian__maps__pairs_in_order_last_key_counts, "HES-9")
{
    struct bytes b = from_hex("480161910162920161935a");
    spn_hvalue *map = NULL, *list;

    begin();
    CHECK_EQ(read_all(arena, b.at, b.length, &map, 1, NULL), 1);
    CHECK_EQ(spn_hvalue_count(map), 3);
    CHECK_EQ(spn_hvalue_at(map, 0) == spn_harena_int(arena, 1), 1);
    CHECK_STR(spn_hvalue_text(spn_hvalue_key_at(map, 1)), "b");
    CHECK(spn_hvalue_get(map, "a") == spn_harena_int(arena, 3));
    CHECK(spn_hvalue_get(map, "c") == NULL);
    /* set gives the one that counts a value. */
    CHECK_OK(spn_hvalue_set(map, "a", spn_harena_int(arena, 4)));
    CHECK_EQ(spn_hvalue_count(map), 3);
    CHECK(spn_hvalue_get(map, "a") == spn_harena_int(arena, 4));
    free(b.at);

    CHECK_READS("485a", "{}");
    CHECK_READS("4d0174 5a", "t{}");
    CHECK_READS("4d0174 4d9091925a 91 5a", "t{t{1: 2}: 1}");
    CHECK_READS("48915a", "SPN_EINVAL at 2: a map ends behind a key");
    CHECK_READS("489146 4e54 d40800 5b 5a", "{1: false, null: true, 2048: 0.0}");
    /* Lists and maps are keys as well. */
    CHECK_READS("48 7a9192 485a 5a", "{[1, 2]: {}}");
    CHECK_READS("48 5190 5190 5a", "&1 {*1: *1}");
    /* Numbers of different kinds are different keys, a list may be one. */
    map = spn_harena_map(arena, NULL);
    CHECK_OK(
        spn_hvalue_put(map, spn_harena_int(arena, 1), spn_harena_text(arena, "int")));
    CHECK_OK(
        spn_hvalue_put(map, spn_harena_long(arena, 1), spn_harena_text(arena, "long")));
    CHECK_OK(spn_hvalue_put(map, spn_harena_double(arena, NAN),
                            spn_harena_text(arena, "nan")));
    list = spn_harena_list(arena, NULL);
    CHECK_OK(spn_hvalue_put(map, list, list));
    CHECK_WRITES(spn__hwriter_value(&writer, map),
                 "48 91 03696e74 e1 046c6f6e67 447ff8000000000000 036e616e 78 5191 5a");
    CHECK(spn_hvalue_key_at(map, 3) == list);
    end();
}

/* Many pairs, so that the table grows between a key and its value. */
TEST(hessian__open_map_of_many__keeps_all, "HES-9")
{
    enum { MANY = 1000 };
    static unsigned char message[2 + MANY * 8];
    spn_hvalue *map = NULL;
    size_t length = 0;

    begin();
    message[length++] = 'H';
    for (int i = 0; i < MANY; i++) {
        const unsigned char pair[] = { 'I',
                                       0,
                                       0,
                                       (unsigned char)(i >> 8),
                                       (unsigned char)i,
                                       0xD4,
                                       (unsigned char)(i >> 8),
                                       (unsigned char)i };

        memcpy(message + length, pair, sizeof pair);
        length += sizeof pair;
    }
    message[length++] = 'Z';
    CHECK_EQ(read_all(arena, message, length, &map, 1, NULL), 1);
    CHECK_EQ(spn_hvalue_count(map), MANY);
    for (int i = 0; i < MANY; i++) {
        int32_t key = -1, value = -1;

        CHECK_OK(spn_hvalue_as_int(spn_hvalue_key_at(map, (size_t)i), &key));
        CHECK_OK(spn_hvalue_as_int(spn_hvalue_at(map, (size_t)i), &value));
        if (key != i || value != i)
            CHECK_EQ(key, i);
    }
    end();
}

TEST(hessian__objects__defined_once_named_by_number, "HES-10")
{
    char hex[4096] = "", expected[8192] = "";

    CHECK_READS("43 0150 92 0178 0179 60 9192", "P{x: 1, y: 2}");
    CHECK_READS("43 0150 90 60", "P{}");
    CHECK_READS("43 0150 91 0178 4f90 91", "P{x: 1}");
    /* Two definitions, the later used first; one in front of something else. */
    CHECK_READS("43 0150 90 43 0151 90 7a 61 60", "[Q{}, P{}]");
    CHECK_READS("43 0150 90 91", "1");
    CHECK_READS("7a 43 0150 90 91 60", "[1, P{}]");
    /* The same name twice: the last counts, and both are kept. */
    CHECK_READS("43 0150 92 0178 0178 60 9192", "P{x: 1, x: 2}");
    /* Seventeen classes: the last one needs a number of its own. */
    for (int i = 0; i < 17; i++)
        (void)snprintf(hex + strlen(hex), 64, "4301%02x90", 'a' + i);
    (void)snprintf(hex + strlen(hex), 64, "7a6f4fa0");
    CHECK_READS(hex, "[p{}, q{}]");

    begin();
    for (int i = 0; i < 17; i++) {
        const char name[2] = { (char)('a' + i), 0 };

        CHECK_OK(spn__hwriter_begin_object(&writer, name, NULL, 0));
        CHECK_OK(spn__hwriter_end(&writer));
        (void)snprintf(expected + strlen(expected), 64,
                       i < 16 ? "4301%02x906%x" : "4301%02x904f%x", 'a' + i,
                       i < 16 ? (unsigned)i : 0xa0u);
    }
    CHECK_WROTE(&writer, expected);
    CHECK_OK(spn__hwriter_begin_object(&writer, "q", NULL, 0));
    CHECK_OK(spn__hwriter_end(&writer));
    (void)snprintf(expected + strlen(expected), 64, "4fa0");
    CHECK_WROTE(&writer, expected);
    end();
}

/* Two objects made by hand have the same fields and share a definition; one with another
 * order, or fewer, does not. */
TEST(hessian__classes_by_hand__shared_when_the_same, "HES-10", "HES-26")
{
    static const char *const orders[3][2] = { { "x", "y" },
                                              { "x", "y" },
                                              { "y", "x" } };
    spn_hvalue *list, *read = NULL, *first, *second;
    struct bytes b;

    begin();
    list = spn_harena_list(arena, NULL);
    for (int i = 0; i < 3; i++) {
        spn_hvalue *o = spn_harena_object(arena, "P");

        CHECK_OK(spn_hvalue_set(o, orders[i][0], spn_harena_int(arena, 1)));
        CHECK_OK(spn_hvalue_set(o, orders[i][1], spn_harena_int(arena, 2)));
        CHECK_OK(spn_hvalue_add(list, o));
    }
    CHECK_WRITES(spn__hwriter_value(&writer, list),
                 "7b 43015092 01780179 609192 609192 43015092 01790178 619192");
    /* A field more for one object of a class that was read: the other keeps its own. */
    b = from_hex("7a 43015091 0178 6091 6092");
    CHECK_EQ(read_all(arena, b.at, b.length, &read, 1, NULL), 1);
    first = spn_hvalue_at(read, 0);
    second = spn_hvalue_at(read, 1);
    CHECK_OK(spn_hvalue_set(first, "z", spn_harena_int(arena, 9)));
    CHECK_OK(spn_hvalue_set(first, "x", spn_harena_int(arena, 8)));
    CHECK_EQ(spn_hvalue_count(first), 2);
    CHECK_EQ(spn_hvalue_count(second), 1);
    CHECK(spn_hvalue_get(first, "x") == spn_harena_int(arena, 8));
    CHECK(spn_hvalue_get(second, "x") == spn_harena_int(arena, 2));
    CHECK(spn_hvalue_get(second, "z") == NULL);
    CHECK(spn_hvalue_name_at(second, 1) == NULL);
    free(b.at);
    /* More fields than there is room for at first. */
    first = spn_harena_object(arena, "Wide");
    for (int i = 0; i < 100; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "f%d", i);
        CHECK_OK(spn_hvalue_set(first, name, spn_harena_int(arena, i % 40)));
    }
    CHECK_EQ(spn_hvalue_count(first), 100);
    CHECK_STR(spn_hvalue_name_at(first, 99), "f99");
    CHECK(spn_hvalue_get(first, "f57") == spn_harena_int(arena, 17));
    end();
}

TEST(hessian__references__numbered_as_they_begin, "HES-11")
{
    spn_hvalue *list, *map, *object;

    CHECK_READS("7a 78 5191", "[&1 [], *1]");
    CHECK_READS("7b 78 485a 5192", "[[], &1 {}, *1]");
    CHECK_READS("7a 43015091 0178 60 5191 5191", "[&1 P{x: *1}, *1]");
    /* Neither strings, nor binaries, dates and definitions have numbers. */
    CHECK_READS(
        "7d 0161 2161 4b00000000 91 7e78 5191 91929394",
        "[\"a\", <1: 61>, 1970-01-01T00:00:00.000Z, 1, &1 [[], *1, 1, 2, 3, 4]]");
    /* To a value that is still open. */
    CHECK_READS("79 79 5190", "&1 [[*1]]");

    begin();
    list = spn_harena_list(arena, NULL);
    map = spn_harena_map(arena, "m");
    object = spn_harena_object(arena, "P");
    CHECK_OK(spn_hvalue_add(list, map));
    CHECK_OK(spn_hvalue_add(list, object));
    CHECK_OK(spn_hvalue_add(list, list));
    CHECK_OK(spn_hvalue_set(map, "o", object));
    CHECK_OK(spn_hvalue_set(object, "m", map));
    CHECK_WRITES(spn__hwriter_value(&writer, list),
                 "7b 4d016d 016f 43015091 016d 60 5191 5a 5192 5190");
    end();
}

/* The same values by value, and twenty thousand of them: the table is hashed by then. */
TEST(hessian__many_references__all_found, "HES-11")
{
    enum { MANY = 20000 };
    spn_hvalue *list, *read = NULL;
    const void *at;
    size_t length;

    begin();
    list = spn_harena_list(arena, NULL);
    for (int i = 0; i < MANY; i++)
        CHECK_OK(spn_hvalue_add(list, spn_harena_list(arena, NULL)));
    for (int i = 0; i < MANY; i++)
        CHECK_OK(spn_hvalue_add(list, spn_hvalue_at(list, (size_t)(MANY - 1 - i))));
    CHECK_OK(spn__hwriter_value(&writer, list));
    at = spn__hwriter_bytes(&writer, &length);
    CHECK_EQ(read_all(arena, at, length, &read, 1, NULL), 1);
    CHECK_EQ(spn_hvalue_count(read), 2 * MANY);
    for (size_t i = 0; i < MANY; i++)
        if (spn_hvalue_at(read, i) != spn_hvalue_at(read, 2 * MANY - 1 - i))
            CHECK_EQ(i, -1);
    CHECK_EQ(spn_hvalue_equals(list, read), 1);
    end();
}

TEST(hessian__one_message__shares_tables, "HES-12")
{
    struct spn__hreader reader;
    spn_hvalue *a, *b;
    struct bytes bytes = from_hex("7001745190 7090");

    CHECK_READS("43015090 60 60 5190", "P{}\nP{}\nP{}");
    CHECK_READS("700174 7090 5190", "t[]\nt[]\nt[]");
    begin();
    CHECK_OK(spn__hwriter_begin_list(&writer, "t", 0));
    CHECK_OK(spn__hwriter_end(&writer));
    CHECK_OK(spn__hwriter_begin_list(&writer, "t", 0));
    CHECK_OK(spn__hwriter_end(&writer));
    CHECK_EQ(writer.reference_count, 2);
    CHECK_WROTE(&writer, "700174 7090");
    /* A new message behind it knows nothing of the first. */
    spn__hwriter_reset(&writer, 5);
    CHECK_EQ(writer.reference_count, 0);
    CHECK_OK(spn__hwriter_begin_list(&writer, "t", 0));
    CHECK_OK(spn__hwriter_end(&writer));
    CHECK_WROTE(&writer, "700174 7090 700174");
    /* And so with a reader that is started again. */
    spn__hreader_init(&reader, arena, bytes.at, bytes.length, NULL);
    CHECK_OK(spn__hreader_any(&reader, &a));
    CHECK_OK(spn__hreader_any(&reader, &b));
    CHECK(a == b);
    spn__hreader_init(&reader, arena, bytes.at + 3, 2, NULL);
    CHECK_STATUS(spn__hreader_any(&reader, &a), SPN_EINVAL);
    free(bytes.at);
    end();
}

/* ---- readers of one kind ------------------------------------------------------------------- */

static struct spn__hreader reader;
static struct bytes message;

static void read_hex(const char *hex, spn_problem *problem)
{
    free(message.at);
    message = from_hex(hex);
    spn__hreader_init(&reader, arena, message.at, message.length, problem);
}

TEST(hessian__readers_of_a_kind__coerce_numbers, "HES-21")
{
    spn_problem problem = SPN_PROBLEM_INIT;
    int32_t i = 7;
    spn_hspan text;

    begin();
    read_hex("91 e2 5d03", NULL);
    CHECK_OK(spn__hreader_int(&reader, &i));
    CHECK_EQ(i, 1);
    CHECK_OK(spn__hreader_int(&reader, &i));
    CHECK_EQ(i, 2);
    CHECK_OK(spn__hreader_int(&reader, &i));
    CHECK_EQ(i, 3);
    CHECK_EQ(spn__hreader_left(&reader), 0);
    CHECK_STATUS(spn__hreader_int(&reader, &i), SPN_EEMPTY);

    /* What does not fit. */
    i = 7;
    read_hex("4c0000000080000000", &problem);
    CHECK_STATUS(spn__hreader_int(&reader, &i), SPN_ERANGE);
    CHECK_STR(problem.text, "the number does not fit into an int");
    CHECK_EQ(spn__hreader_offset(&reader), 0);
    read_hex("4cffffffff7fffffff", NULL); /* -2^31 - 1 */
    CHECK_STATUS(spn__hreader_int(&reader, &i), SPN_ERANGE);
    read_hex("5f00000001", NULL);
    CHECK_STATUS(spn__hreader_int(&reader, &i), SPN_ERANGE);
    read_hex("447ff8000000000000", NULL);
    CHECK_STATUS(spn__hreader_int(&reader, &i), SPN_ERANGE);
    CHECK_EQ(i, 7);
    read_hex("44c1e0000000000000", NULL); /* -2^31 */
    CHECK_OK(spn__hreader_int(&reader, &i));
    CHECK_EQ(i, INT32_MIN);

    /* Another kind: both are named. */
    read_hex("0178", &problem);
    CHECK_STATUS(spn__hreader_int(&reader, &i), SPN_EINVAL);
    CHECK_STR(problem.text, "int expected, found string");
    read_hex("4b00000001", &problem);
    CHECK_STATUS(spn__hreader_int(&reader, &i), SPN_EINVAL);
    CHECK_STR(problem.text, "int expected, found date");
    read_hex("91", &problem);
    CHECK_STATUS(spn__hreader_string(&reader, &text), SPN_EINVAL);
    CHECK_STR(problem.text, "string expected, found int");
    read_hex("40", &problem);
    CHECK_STATUS(spn__hreader_string(&reader, &text), SPN_EINVAL);
    CHECK_STR(problem.text, "0x40 is no string");
    read_hex("78 5190", &problem);
    {
        spn_hvalue *list;

        CHECK_OK(spn__hreader_any(&reader, &list));
        CHECK_STATUS(spn__hreader_int(&reader, &i), SPN_EINVAL);
        CHECK_STR(problem.text, "0x51 is no int");
    }

    /* null where a string may be. */
    read_hex("4e 00", NULL);
    CHECK_OK(spn__hreader_string(&reader, &text));
    CHECK(text.data == NULL && text.length == 0);
    CHECK_OK(spn__hreader_string(&reader, &text));
    CHECK_STR(text.data, "");
    end();
}

TEST(hessian__strings__copied_with_a_zero_byte, "HES-22")
{
    spn_hspan text;

    begin();
    read_hex("03616263 01c3a9 02eda0bdedb880 02f09f9880 5200016101 62", NULL);
    CHECK_OK(spn__hreader_string(&reader, &text));
    CHECK(text.length == 3 && memcmp(text.data, "abc", 4) == 0);
    CHECK_OK(spn__hreader_string(&reader, &text));
    CHECK(text.length == 2 && memcmp(text.data, "\xC3\xA9", 3) == 0);
    /* A pair becomes four bytes; four bytes stay. */
    CHECK_OK(spn__hreader_string(&reader, &text));
    CHECK(text.length == 4 && memcmp(text.data, "\xF0\x9F\x98\x80", 5) == 0);
    CHECK_OK(spn__hreader_string(&reader, &text));
    CHECK(text.length == 4 && memcmp(text.data, "\xF0\x9F\x98\x80", 5) == 0);
    /* Two pieces are put together. */
    CHECK_OK(spn__hreader_string(&reader, &text));
    CHECK(text.length == 2 && memcmp(text.data, "ab", 3) == 0);
    /* It outlives the message. */
    memset(message.at, 'z', message.length);
    CHECK(memcmp(text.data, "ab", 3) == 0);
    end();
}

/* ---- asking and making ------------------------------------------------------------------------ */

TEST(hessian__values__asked_for_what_they_are, "HES-24")
{
    int32_t i = 7;
    int64_t l = 7;
    double d = 7;
    int flag = 7;
    spn_hspan span = { "kept", 4 };

    begin();
    CHECK_OK(spn_hvalue_as_int(spn_harena_long(arena, INT32_MAX), &i));
    CHECK_EQ(i, INT32_MAX);
    CHECK_OK(spn_hvalue_as_int(spn_harena_double(arena, -3), &i));
    CHECK_EQ(i, -3);
    CHECK_STATUS(spn_hvalue_as_int(spn_harena_long(arena, (int64_t)INT32_MAX + 1), &i),
                 SPN_ERANGE);
    CHECK_STATUS(spn_hvalue_as_int(spn_harena_double(arena, 0.5), &i), SPN_ERANGE);
    CHECK_STATUS(spn_hvalue_as_int(spn_harena_double(arena, 1e18), &i), SPN_ERANGE);
    CHECK_STATUS(spn_hvalue_as_int(spn_harena_double(arena, NAN), &i), SPN_ERANGE);
    CHECK_STATUS(spn_hvalue_as_int(spn_harena_text(arena, "1"), &i), SPN_EINVAL);
    CHECK_STATUS(spn_hvalue_as_int(spn_harena_null(arena), &i), SPN_EINVAL);
    CHECK_EQ(i, -3);
    CHECK_OK(spn_hvalue_as_double(spn_harena_long(arena, INT64_MAX), &d));
    CHECK(d == 9223372036854775808.0);
    CHECK_OK(spn_hvalue_as_double(spn_harena_int(arena, 2), &d));
    CHECK(d == 2);
    CHECK_STATUS(spn_hvalue_as_double(spn_harena_bool(arena, 1), &d), SPN_EINVAL);
    CHECK_STATUS(spn_hvalue_as_long(spn_harena_date(arena, 1), &l), SPN_EINVAL);
    CHECK_STATUS(spn_hvalue_as_date(spn_harena_long(arena, 1), &l), SPN_EINVAL);
    CHECK_EQ(l, 7);
    CHECK_STATUS(spn_hvalue_as_bool(spn_harena_int(arena, 1), &flag), SPN_EINVAL);
    CHECK_EQ(flag, 7);
    CHECK_STATUS(spn_hvalue_as_string(spn_harena_binary(arena, "x", 1), &span),
                 SPN_EINVAL);
    CHECK_STATUS(spn_hvalue_as_binary(spn_harena_text(arena, "x"), &span), SPN_EINVAL);
    CHECK_STR(span.data, "kept");
    CHECK_OK(spn_hvalue_as_string(spn_harena_null(arena), &span));
    CHECK(span.data == NULL);
    CHECK_OK(spn_hvalue_as_binary(spn_harena_binary(arena, NULL, 0), &span));
    CHECK(span.data != NULL && span.length == 0);
    CHECK(spn_hvalue_text(spn_harena_string(arena, "a\0b", 3)) == NULL);
    CHECK_EQ(spn_hvalue_kind(NULL), SPN_HNULL);
    CHECK_EQ(spn_hvalue_count(spn_harena_text(arena, "abc")), 0);
    /* A text in halves is made whole. */
    CHECK_STR(spn_hvalue_text(spn_harena_text(arena, "\xED\xA0\xBD\xED\xB8\x80")),
              "\xF0\x9F\x98\x80");
    end();
}

/* A construction is looked at once, at its end: what could not be made is answered for. */
TEST(hessian__value_not_made__answered_for, "HES-25", "HES-27")
{
    spn_harena_opts opts = SPN_HARENA_OPTS_INIT;
    spn_harena *small;
    spn_hvalue *list, *map;
    static char large[1000];

    memset(large, 'x', sizeof large);
    opts.block_bytes = 512;
    opts.limit_bytes = 512;
    REQUIRE_OK(spn_harena_create(&small, &opts));
    list = spn_harena_list(small, NULL);
    map = spn_harena_map(small, NULL);
    CHECK_OK(spn_harena_status(small));
    CHECK_STATUS(spn_hvalue_add(list, NULL), SPN_EINVAL);
    CHECK_STATUS(spn_hvalue_add(list, spn_harena_text(small, "\xFF")), SPN_EINVAL);
    CHECK_STATUS(spn_hvalue_add(list, spn_harena_string(small, large, sizeof large)),
                 SPN_ERANGE);
    CHECK_STATUS(spn_harena_status(small), SPN_ERANGE);
    CHECK_STATUS(spn_hvalue_put(map, NULL, spn_harena_null(small)), SPN_ERANGE);
    CHECK_STATUS(spn_hvalue_set(map, "x", NULL), SPN_ERANGE);
    CHECK_EQ(spn_hvalue_count(list), 0);
    spn_harena_reset(small);
    CHECK_OK(spn_harena_status(small));
    CHECK(spn_harena_alloc(small, 300) != NULL);
    CHECK(spn_harena_alloc(small, 300) == NULL);
    CHECK_STATUS(spn_harena_status(small), SPN_ERANGE);
    /* Without a limit it grows; reset gives the rest back. */
    spn_harena_destroy(small);
    REQUIRE_OK(spn_harena_create(&small, NULL));
    list = spn_harena_list(small, NULL);
    for (int i = 0; i < 10000; i++)
        CHECK_OK(spn_hvalue_add(list, spn_harena_int(small, 1000 + i)));
    CHECK(spn__harena_used(small) > 100000);
    spn_harena_reset(small);
    CHECK_EQ(spn__harena_used(small), 0);
    spn_harena_destroy(small);
}

TEST(hessian__parts__only_of_the_same_arena, "HES-26")
{
    spn_harena *other;
    spn_hvalue *list, *foreign;

    begin();
    REQUIRE_OK(spn_harena_create(&other, NULL));
    list = spn_harena_list(arena, NULL);
    foreign = spn_harena_map(other, NULL);
    CHECK_STATUS(spn_hvalue_add(list, foreign), SPN_EINVAL);
    CHECK_STATUS(spn_hvalue_put(foreign, list, spn_harena_null(other)), SPN_EINVAL);
    CHECK_STATUS(spn_hvalue_set(foreign, "x", list), SPN_EINVAL);
    CHECK_EQ(spn_hvalue_count(list) + spn_hvalue_count(foreign), 0);
    CHECK_STATUS(spn_hvalue_set(list, "x", spn_harena_null(arena)), SPN_EINVAL);
    CHECK_STATUS(spn_hvalue_set(foreign, "\xFF", spn_harena_null(other)), SPN_EINVAL);
    spn_harena_destroy(other);
    end();
}

/* ---- writing ------------------------------------------------------------------------------------- */

TEST(hessian__writer__grows_to_its_limit, "HES-28", "HES-19")
{
    unsigned char initial[8];
    struct spn__hwriter w;
    size_t length;

    spn__hwriter_init(&w, initial, sizeof initial, 600);
    CHECK(spn__hwriter_bytes(&w, &length) == NULL && length == 0);
    CHECK_OK(spn__hwriter_raw(&w, "\xDA\xBB", 2));
    CHECK_OK(spn__hwriter_text(&w, "hello"));
    CHECK(spn__hwriter_bytes(&w, &length) == initial && length == 8);
    CHECK_OK(spn__hwriter_int(&w, 1));
    CHECK(spn__hwriter_bytes(&w, &length) != initial && length == 9);
    CHECK(memcmp(spn__hwriter_bytes(&w, NULL), "\xDA\xBB\5hello\x91", 9) == 0);
    for (int i = 9; i < 600; i++)
        CHECK_OK(spn__hwriter_null(&w));
    CHECK_STATUS(spn__hwriter_null(&w), SPN_ERANGE);
    CHECK_STATUS(spn__hwriter_raw(&w, "", 0), SPN_ERANGE);
    CHECK_STATUS(spn__hwriter_begin_map(&w, NULL), SPN_ERANGE);
    CHECK_STATUS(spn__hwriter_end(&w), SPN_ERANGE);
    CHECK_STATUS(spn__hwriter_status(&w), SPN_ERANGE);
    (void)spn__hwriter_bytes(&w, &length);
    CHECK_EQ(length, 600);
    /* Another message, behind the first two bytes. */
    spn__hwriter_reset(&w, 2);
    CHECK_OK(spn__hwriter_bool(&w, 1));
    CHECK_WROTE(&w, "dabb54");
    CHECK_STATUS(spn__hwriter_string(&w, (const char *)initial, 601), SPN_ERANGE);
    spn__hwriter_fini(&w);
    spn__hwriter_fini(&w);
    /* The initial memory may be more than the limit. */
    spn__hwriter_init(&w, initial, sizeof initial, 4);
    CHECK_OK(spn__hwriter_text(&w, "abc"));
    CHECK_STATUS(spn__hwriter_null(&w), SPN_ERANGE);
    spn__hwriter_fini(&w);
}

TEST(hessian__by_hand__counted, "HES-29")
{
    static const char *const names[] = { "x", "y" };
    spn_hvalue *list;

    begin();
    CHECK_OK(spn__hwriter_begin_list(&writer, NULL, 1));
    CHECK_STATUS(spn__hwriter_status(&writer), SPN_ESTATE);
    CHECK_OK(spn__hwriter_int(&writer, 1));
    CHECK_STATUS(spn__hwriter_int(&writer, 2), SPN_ESTATE);
    spn__hwriter_reset(&writer, 0);
    CHECK_OK(spn__hwriter_begin_list(&writer, NULL, 2));
    CHECK_OK(spn__hwriter_int(&writer, 1));
    CHECK_STATUS(spn__hwriter_end(&writer), SPN_ESTATE);
    spn__hwriter_reset(&writer, 0);
    CHECK_OK(spn__hwriter_begin_map(&writer, NULL));
    CHECK_OK(spn__hwriter_text(&writer, "key"));
    CHECK_STATUS(spn__hwriter_end(&writer), SPN_ESTATE);
    spn__hwriter_reset(&writer, 0);
    CHECK_STATUS(spn__hwriter_end(&writer), SPN_ESTATE);
    spn__hwriter_reset(&writer, 0);
    /* All kinds in each other; a value of a tree in the middle. */
    CHECK_OK(spn__hwriter_begin_object(&writer, "P", names, 2));
    CHECK_OK(spn__hwriter_begin_map(&writer, "m"));
    CHECK_OK(spn__hwriter_begin_list(&writer, NULL, 1));
    CHECK_OK(spn__hwriter_int(&writer, 1));
    CHECK_OK(spn__hwriter_end(&writer));
    list = spn_harena_list(arena, "m");
    CHECK_OK(spn__hwriter_value(&writer, list));
    CHECK_OK(spn__hwriter_end(&writer));
    CHECK_EQ(writer.reference_count, 4);
    CHECK_OK(spn__hwriter_value(&writer, list)); /* as the number it has by now */
    CHECK_OK(spn__hwriter_end(&writer));
    CHECK_OK(spn__hwriter_status(&writer));
    CHECK_WROTE(&writer, "43015092 01780179 60 4d016d 79 91 7090 5a 5193");
    CHECK_READS("43015092 01780179 60 4d016d 79 91 7090 5a 5193",
                "P{x: m{[1]: &1 m[]}, y: *1}");
    /* Deeper than what the writer itself has room for, and to the limit. */
    spn__hwriter_reset(&writer, 0);
    for (int i = 0; i < 128; i++)
        CHECK_OK(spn__hwriter_begin_list(&writer, NULL, 1));
    CHECK_STATUS(spn__hwriter_begin_list(&writer, NULL, 1), SPN_ERANGE);
    spn__hwriter_reset(&writer, 0);
    for (int i = 0; i < 128; i++)
        CHECK_OK(spn__hwriter_begin_list(&writer, NULL, 1));
    CHECK_OK(spn__hwriter_null(&writer));
    for (int i = 0; i < 128; i++)
        CHECK_OK(spn__hwriter_end(&writer));
    CHECK_OK(spn__hwriter_status(&writer));
    end();
}
