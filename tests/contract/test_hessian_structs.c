/* SPDX-License-Identifier: MIT */
/*
 * C structs as objects, values for people, values compared, and random trees both ways.
 */
#include "hessian.h"

#include <math.h>
#include <stddef.h>

/* ---- structs ----------------------------------------------------------------------- */

struct point {
    int32_t x, y;
};

struct all {
    unsigned char flag;
    int32_t i;
    int64_t l;
    double d;
    int64_t when;
    const char *text;
    spn_hspan string, bytes;
    spn_hvalue *any;
    struct point *at;
    struct all *next;
};

static const spn_hfield point_fields[] = {
    { "x", offsetof(struct point, x), SPN_HFIELD_INT, 0, NULL },
    { "y", offsetof(struct point, y), SPN_HFIELD_INT, 0, NULL },
};
static const spn_hstruct point_struct = { "Point", point_fields, 2,
                                          sizeof(struct point) };

extern const spn_hstruct all_struct;
static const spn_hfield all_fields[] = {
    { "flag", offsetof(struct all, flag), SPN_HFIELD_BOOL, 0, NULL },
    { "i", offsetof(struct all, i), SPN_HFIELD_INT, 0, NULL },
    { "l", offsetof(struct all, l), SPN_HFIELD_LONG, 0, NULL },
    { "d", offsetof(struct all, d), SPN_HFIELD_DOUBLE, 0, NULL },
    { "when", offsetof(struct all, when), SPN_HFIELD_DATE, 0, NULL },
    { "text", offsetof(struct all, text), SPN_HFIELD_TEXT, 0, NULL },
    { "string", offsetof(struct all, string), SPN_HFIELD_STRING, 0, NULL },
    { "bytes", offsetof(struct all, bytes), SPN_HFIELD_BINARY, 0, NULL },
    { "any", offsetof(struct all, any), SPN_HFIELD_VALUE, 0, NULL },
    { "at", offsetof(struct all, at), SPN_HFIELD_STRUCT, 0, &point_struct },
    { "next", offsetof(struct all, next), SPN_HFIELD_STRUCT, 0, &all_struct },
};
const spn_hstruct all_struct = { "All", all_fields,
                                 sizeof all_fields / sizeof all_fields[0],
                                 sizeof(struct all) };

static spn_harena *arena;
static struct spn__hwriter writer;

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

/* What the writer holds, as one value. */
static spn_hvalue *read_back(void)
{
    size_t length;
    const void *at = spn__hwriter_bytes(&writer, &length);
    spn_hvalue *value = NULL;

    CHECK_OK(spn__hwriter_status(&writer));
    CHECK_EQ(read_all(arena, at, length, &value, 1, NULL), 1);
    return value;
}

static const char *print(const spn_hvalue *value)
{
    static char text[4096];

    CHECK(spn_hvalue_print(value, text, sizeof text) > 0);
    return text;
}

TEST(hessian__struct__there_and_back, "HES-30", "HES-31")
{
    struct point origin = { 1, 2 };
    struct all last = { .text = NULL };
    struct all first = { 1,
                         -5,
                         INT64_MAX,
                         0.5,
                         1234567890123,
                         "h\xC3\xA9",
                         { "a\0b", 3 },
                         { "\0\xFF", 2 },
                         NULL,
                         &origin,
                         &last };
    struct all got = { .i = 99 };
    spn_hvalue *value;

    begin();
    first.any = spn_harena_list(arena, NULL);
    CHECK_OK(spn_hvalue_add(first.any, spn_harena_text(arena, "in")));
    last.at = &origin;  /* shared */
    last.next = &first; /* and a circle */
    CHECK_OK(spn__hwriter_struct(&writer, &all_struct, &first));
    value = read_back();
    CHECK_STR(
        print(value),
        "&1 All{flag: true, i: -5, l: 9223372036854775807L, d: 0.5, "
        "when: 2009-02-13T23:31:30.123Z, text: \"h\xC3\xA9\", string: \"a\\u0000b\", "
        "bytes: <2: 00ff>, any: [\"in\"], at: &2 Point{x: 1, y: 2}, "
        "next: All{flag: false, i: 0, l: 0L, d: 0.0, when: 1970-01-01T00:00:00.000Z, "
        "text: null, string: null, bytes: null, any: null, at: *2, next: *1}}");
    CHECK_OK(spn_hvalue_to_struct(value, arena, &all_struct, &got, NULL));
    CHECK_EQ(got.flag, 1);
    CHECK_EQ(got.i, -5);
    CHECK(got.l == INT64_MAX && got.d == 0.5 && got.when == 1234567890123);
    CHECK_STR(got.text, "h\xC3\xA9");
    CHECK(got.string.length == 3 && memcmp(got.string.data, "a\0b", 4) == 0);
    CHECK(got.bytes.length == 2 && memcmp(got.bytes.data, "\0\xFF", 2) == 0);
    CHECK_EQ(spn_hvalue_equals(got.any, first.any), 1);
    REQUIRE(got.next != NULL && got.at != NULL);
    CHECK(got.at->x == 1 && got.at->y == 2);
    CHECK(got.next->at == got.at); /* what is shared stays shared */
    CHECK(got.next->next == &got); /* and the circle closes      */
    CHECK(got.next->text == NULL && got.next->string.data == NULL &&
          got.next->any != NULL);
    /* Written once more: the same bytes. */
    {
        struct spn__hwriter again;
        size_t one, two;
        const void *a = spn__hwriter_bytes(&writer, &one), *b;

        spn__hwriter_init(&again, NULL, 0, 0);
        CHECK_OK(spn__hwriter_struct(&again, &all_struct, &got));
        b = spn__hwriter_bytes(&again, &two);
        CHECK(one == two && memcmp(a, b, one) == 0);
        spn__hwriter_fini(&again);
    }
    end();
}

/* The first member of a struct has its address, and is something else nevertheless. */
TEST(hessian__struct_and_its_first_member__two_objects, "HES-31")
{
    struct outer {
        struct point inner;
        struct point *same;
    } outer = { { 3, 4 }, NULL };
    const spn_hfield fields[] = {
        { "same", offsetof(struct outer, same), SPN_HFIELD_STRUCT, 0, &point_struct },
    };
    const spn_hstruct table = { "Outer", fields, 1, sizeof outer };

    begin();
    outer.same = &outer.inner;
    CHECK_OK(spn__hwriter_struct(&writer, &table, &outer));
    CHECK_STR(print(read_back()), "Outer{same: Point{x: 3, y: 4}}");
    end();
}

/* By names: another order, more, fewer; from a map; null where a number could be. */
TEST(hessian__struct__fields_by_name, "HES-30")
{
    struct bytes b = from_hex("43015093 0179 017a 0178 60 92 0161 91"
                              "48 0178 e7 0171 4e 0178 e9 5a"
                              "43015191 0179 61 4e");
    struct point p = { 7, 7 };
    spn_hvalue *values[3] = { NULL, NULL, NULL };

    begin();
    CHECK_EQ(read_all(arena, b.at, b.length, values, 3, NULL), 3);
    CHECK_OK(spn_hvalue_to_struct(values[0], arena, &point_struct, &p, NULL));
    CHECK_EQ(p.x, 1);
    CHECK_EQ(p.y, 2);
    CHECK_OK(spn_hvalue_to_struct(values[1], arena, &point_struct, &p, NULL));
    CHECK_EQ(p.x, 9); /* the last of two equal keys */
    CHECK_EQ(p.y, 2);
    CHECK_OK(spn_hvalue_to_struct(values[2], arena, &point_struct, &p, NULL));
    CHECK_EQ(p.y, 2);
    free(b.at);
    end();
}

/* A field of another kind is named, and one that does not fit. */
TEST(hessian__struct__wrong_fields_are_named, "HES-30")
{
    static const struct {
        const char *field;
        int kind;
        const char *text;
    } cases[] = {
        { "flag", SPN_HINT, "field flag: bool expected, found int" },
        { "i", SPN_HSTRING, "field i: int expected, found string" },
        { "l", SPN_HDATE, "field l: long expected, found date" },
        { "d", SPN_HBOOL, "field d: double expected, found bool" },
        { "when", SPN_HLONG, "field when: date expected, found long" },
        { "text", SPN_HBINARY, "field text: string expected, found binary" },
        { "string", SPN_HLIST, "field string: string expected, found list" },
        { "bytes", SPN_HSTRING, "field bytes: binary expected, found string" },
        { "at", SPN_HLIST, "field at: object expected, found list" },
    };
    spn_problem problem = SPN_PROBLEM_INIT;
    struct all to = { 0 };
    spn_hvalue *object;

    begin();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        spn_hvalue *wrong = NULL;

        switch (cases[i].kind) {
        case SPN_HINT:
            wrong = spn_harena_int(arena, 1);
            break;
        case SPN_HSTRING:
            wrong = spn_harena_text(arena, "x");
            break;
        case SPN_HDATE:
            wrong = spn_harena_date(arena, 1);
            break;
        case SPN_HBOOL:
            wrong = spn_harena_bool(arena, 1);
            break;
        case SPN_HLONG:
            wrong = spn_harena_long(arena, 1);
            break;
        case SPN_HBINARY:
            wrong = spn_harena_binary(arena, "x", 1);
            break;
        default:
            wrong = spn_harena_list(arena, NULL);
            break;
        }
        object = spn_harena_object(arena, "All");
        CHECK_OK(spn_hvalue_set(object, cases[i].field, wrong));
        CHECK_STATUS(spn_hvalue_to_struct(object, arena, &all_struct, &to, &problem),
                     SPN_EINVAL);
        CHECK_STR(problem.text, cases[i].text);
    }
    object = spn_harena_object(arena, "All");
    CHECK_OK(spn_hvalue_set(object, "i", spn_harena_long(arena, INT64_MAX)));
    CHECK_STATUS(spn_hvalue_to_struct(object, arena, &all_struct, &to, &problem),
                 SPN_ERANGE);
    CHECK_STR(problem.text, "field i: the number does not fit into an int");
    CHECK_EQ(problem.offset, offsetof(struct all, i));
    object = spn_harena_object(arena, "All");
    CHECK_OK(spn_hvalue_set(object, "text", spn_harena_string(arena, "a\0b", 3)));
    CHECK_STATUS(spn_hvalue_to_struct(object, arena, &all_struct, &to, &problem),
                 SPN_EINVAL);
    CHECK_STR(problem.text,
              "field text: string expected, found string with a zero byte");
    CHECK_STATUS(spn_hvalue_to_struct(spn_harena_int(arena, 1), arena, &all_struct, &to,
                                      &problem),
                 SPN_EINVAL);
    CHECK_STR(problem.text, "object expected, found int");
    end();
}

/* Tables that cannot be right. */
TEST(hessian__struct__wrong_tables, "HES-30", "HES-19")
{
    const spn_hfield good = { "x", 0, SPN_HFIELD_INT, 0, NULL };
    struct {
        spn_hfield field;
        spn_hstruct table;
    } bad[6];
    struct point p = { 1, 2 };
    spn_hvalue *object;

    begin();
    object = spn_harena_object(arena, "P");
    CHECK_OK(spn_hvalue_set(object, "x", spn_harena_object(arena, "P")));
    for (int i = 0; i < 6; i++) {
        bad[i].field = good;
        bad[i].table = (spn_hstruct){ "P", &bad[i].field, 1, sizeof p };
    }
    bad[0].field.name = NULL;
    bad[1].field.type = 77;
    bad[2].field.reserved = 1;
    bad[3].field.type = SPN_HFIELD_STRUCT;
    bad[4].table.fields = NULL;
    bad[5].table.field_count = 5000;
    for (int i = 0; i < 6; i++) {
        spn_problem problem = SPN_PROBLEM_INIT;

        if (!CHECK_STATUS(spn_hvalue_to_struct(object, arena, &bad[i].table, &p,
                                               &problem),
                          SPN_EINVAL))
            printf("  table %d\n", i);
        CHECK(problem.text[0] != '\0');
        CHECK_STATUS(spn__hwriter_struct(&writer, &bad[i].table, &p), SPN_EINVAL);
        CHECK_STATUS(spn__hwriter_null(&writer), SPN_EINVAL);
        spn__hwriter_reset(&writer, 0);
    }
    /* Reading also knows how large the struct is; writing needs a class. */
    bad[0].field = good;
    bad[0].field.offset = sizeof p;
    CHECK_STATUS(spn_hvalue_to_struct(object, arena, &bad[0].table, &p, NULL),
                 SPN_EINVAL);
    bad[0].field = good;
    bad[0].table.class_name = NULL;
    CHECK_STATUS(spn__hwriter_struct(&writer, &bad[0].table, &p), SPN_EINVAL);
    CHECK(p.x == 1 && p.y == 2);
    end();
}

struct node {
    int32_t id;
    struct node *next;
};

extern const spn_hstruct node_struct;
static const spn_hfield node_fields[] = {
    { "id", offsetof(struct node, id), SPN_HFIELD_INT, 0, NULL },
    { "next", offsetof(struct node, next), SPN_HFIELD_STRUCT, 0, &node_struct },
};
const spn_hstruct node_struct = { "Node", node_fields, 2, sizeof(struct node) };

/* A chain far deeper than the C stack would bear, both ways. */
TEST(hessian__struct_chain__without_recursion, "HES-31", "HES-18")
{
    enum { DEEP = 200000 };
    spn_harena_opts opts = SPN_HARENA_OPTS_INIT;
    struct node *chain = calloc(DEEP, sizeof *chain);
    const struct node *at;
    struct node got = { 0 };
    struct spn__hreader reader;
    spn_hvalue *value;
    struct spn__hwriter w;
    size_t length;
    const void *bytes;
    int32_t i = 0;

    REQUIRE(chain != NULL);
    for (int32_t n = 0; n < DEEP; n++)
        chain[n] = (struct node){ n, n + 1 < DEEP ? &chain[n + 1] : NULL };
    begin();
    spn_harena_destroy(arena);
    opts.limit_bytes = SIZE_MAX;
    REQUIRE_OK(spn_harena_create(&arena, &opts));
    spn__hwriter_init(&w, NULL, 0, 0);
    w.max_depth = DEEP;
    CHECK_OK(spn__hwriter_struct(&w, &node_struct, chain));
    bytes = spn__hwriter_bytes(&w, &length);
    spn__hreader_init(&reader, arena, bytes, length, NULL);
    reader.max_depth = DEEP;
    REQUIRE_OK(spn__hreader_any(&reader, &value));
    REQUIRE_OK(spn_hvalue_to_struct(value, arena, &node_struct, &got, NULL));
    for (at = &got; at != NULL && at->id == i; at = at->next)
        i++;
    CHECK_EQ(i, DEEP);
    CHECK(at == NULL);
    spn__hwriter_fini(&w);
    free(chain);
    end();
}

/* More fields than fit where a few are kept. */
TEST(hessian__struct_of_many_fields__written, "HES-31")
{
    enum { MANY = 200 };
    static spn_hfield fields[MANY];
    static char names[MANY][16];
    static int32_t numbers[MANY], got[MANY];
    const spn_hstruct table = { "Wide", fields, MANY, sizeof numbers };

    begin();
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(names[i], sizeof names[i], "f%d", i);
        fields[i] = (spn_hfield){ names[i], (size_t)i * sizeof numbers[0],
                                  SPN_HFIELD_INT, 0, NULL };
        numbers[i] = i * i;
    }
    CHECK_OK(spn__hwriter_struct(&writer, &table, numbers));
    CHECK_OK(spn_hvalue_to_struct(read_back(), arena, &table, got, NULL));
    CHECK(memcmp(numbers, got, sizeof got) == 0);
    end();
}

/* ---- compared --------------------------------------------------------------------------- */

TEST(hessian__equals__through_circles, "HES-32")
{
    spn_hvalue *one, *two, *three, *a, *b;

    begin();
    /* A list that holds itself; two that hold each other; with a number they are not. */
    one = spn_harena_list(arena, NULL);
    CHECK_OK(spn_hvalue_add(one, one));
    two = spn_harena_list(arena, NULL);
    three = spn_harena_list(arena, NULL);
    CHECK_OK(spn_hvalue_add(two, three));
    CHECK_OK(spn_hvalue_add(three, two));
    CHECK_EQ(spn_hvalue_equals(one, two), 1);
    CHECK_EQ(spn_hvalue_equals(two, three), 1);
    CHECK_OK(spn_hvalue_add(three, spn_harena_int(arena, 1)));
    CHECK_EQ(spn_hvalue_equals(one, two), 0);
    CHECK_EQ(spn_hvalue_equals(two, one), 0);
    /* Each part counts. */
    a = spn_harena_list(arena, "t");
    b = spn_harena_list(arena, "t");
    CHECK_EQ(spn_hvalue_equals(a, b), 1);
    CHECK_EQ(spn_hvalue_equals(a, spn_harena_list(arena, "u")), 0);
    CHECK_EQ(spn_hvalue_equals(a, spn_harena_list(arena, NULL)), 0);
    CHECK_EQ(spn_hvalue_equals(a, spn_harena_map(arena, "t")), 0);
    CHECK_OK(spn_hvalue_add(a, spn_harena_int(arena, 1)));
    CHECK_OK(spn_hvalue_add(b, spn_harena_long(arena, 1)));
    CHECK_EQ(spn_hvalue_equals(a, b), 0);
    a = spn_harena_object(arena, "P");
    b = spn_harena_object(arena, "P");
    CHECK_OK(spn_hvalue_set(a, "x", spn_harena_double(arena, NAN)));
    CHECK_OK(spn_hvalue_set(b, "y", spn_harena_double(arena, NAN)));
    CHECK_EQ(spn_hvalue_equals(a, b), 0);
    b = spn_harena_object(arena, "P");
    CHECK_OK(spn_hvalue_set(b, "x", spn_harena_double(arena, -NAN)));
    CHECK_EQ(spn_hvalue_equals(a, b), 1);
    CHECK_EQ(spn_hvalue_equals(spn_harena_text(arena, "a"),
                               spn_harena_text(arena, "b")),
             0);
    CHECK_EQ(spn_hvalue_equals(spn_harena_text(arena, "a"),
                               spn_harena_binary(arena, "a", 1)),
             0);
    CHECK_EQ(spn_hvalue_equals(NULL, spn_harena_null(arena)), 1);
    CHECK_EQ(spn_hvalue_equals(spn_harena_int(arena, 0), NULL), 0);
    CHECK_EQ(spn_hvalue_equals(NULL, NULL), 1);
    end();
}

/* Lists that each hold the next one twice stand for a tree of 2^60 values: compared,
 * printed and written as the sixty that they are. */
TEST(hessian__shared_sixty_deep__in_proportion, "HES-32", "HES-33")
{
    spn_hvalue *tops[2];
    size_t length;

    begin();
    for (int t = 0; t < 2; t++) {
        tops[t] = spn_harena_list(arena, NULL);
        for (int i = 0; i < 60; i++) {
            spn_hvalue *next = spn_harena_list(arena, NULL);

            CHECK_OK(spn_hvalue_add(next, tops[t]));
            CHECK_OK(spn_hvalue_add(next, tops[t]));
            tops[t] = next;
        }
    }
    CHECK_EQ(spn_hvalue_equals(tops[0], tops[1]), 1);
    CHECK(spn_hvalue_print(tops[0], NULL, 0) < 1000);
    CHECK_OK(spn__hwriter_value(&writer, tops[0]));
    (void)spn__hwriter_bytes(&writer, &length);
    CHECK(length < 300);
    CHECK_EQ(spn_hvalue_equals(read_back(), tops[1]), 1);
    end();
}

/* ---- printed ------------------------------------------------------------------------------ */

TEST(hessian__print__kinds_told_apart_and_safe, "HES-33")
{
    char small[8], large[128];
    spn_hvalue *list;
    FILE *file;

    CHECK_READS("7f 4e 54 91 e1 5c 0161 2161",
                "[null, true, 1, 1L, 1.0, \"a\", <1: 61>]");
    /* What a terminal would act upon; quotes; both kinds of control characters. */
    CHECK_READS("0a 0a 09 22 5c 1b 7f 61 c285 c3bc 62",
                "\"\\n\\t\\\"\\\\\\u001b\\u007fa\\u0085"
                "\xC3\xBC"
                "b\"");
    CHECK_READS("70 021b61", "\"\\u001ba\"[]");
    CHECK_READS("4301 0a 91 0122 60 91", "\"\\n\"{\"\\\"\": 1}");
    CHECK_READS(
        "3428 "
        "00000000000000000000000000000000000000000000000000000000000000000000000000"
        "000000",
        "<40: 0000000000000000000000000000000000000000000000000000000000000000...>");
    CHECK_READS("4a7fffffffffffffff", "292278994-08-17T07:12:55.807Z");
    CHECK_READS("4a8000000000000000", "-292275055-05-16T16:47:04.192Z");
    CHECK_READS("443fd5555555555555", "0.3333333333333333");
    CHECK_READS("447e37e43c8800759c", "1e+300");

    begin();
    list = spn_harena_list(arena, NULL);
    CHECK_OK(spn_hvalue_add(list, spn_harena_text(arena, "hello")));
    CHECK_EQ(spn_hvalue_print(list, small, sizeof small), 9);
    CHECK_STR(small, "[\"hello");
    CHECK_EQ(spn_hvalue_print(list, small, 1), 9);
    CHECK_STR(small, "");
    CHECK_EQ(spn_hvalue_print(list, NULL, 0), 9);
    file = tmpfile();
    REQUIRE(file != NULL);
    CHECK_EQ(spn_hvalue_print_file(list, file), 9);
    rewind(file);
    CHECK_EQ(fread(large, 1, sizeof large, file), 9);
    CHECK(memcmp(large, "[\"hello\"]", 9) == 0);
    fclose(file);
    file = fopen("/dev/full", "w");
    if (file != NULL) {
        setvbuf(file, NULL, _IONBF, 0);
        CHECK_STATUS((int)spn_hvalue_print_file(list, file), SPN_EFAILED);
        fclose(file);
    }
    end();
}

/* ---- random trees -------------------------------------------------------------------------- */

static uint64_t state;

static uint64_t chance(uint64_t n)
{
    return t_random(&state) % n;
}

/* Text of all sorts of characters, some of it long. */
static spn_hvalue *random_text(void)
{
    static const char *const pieces[] = {
        "a",  "hello ", "\xC3\xA9", "\xE4\xB8\xAD", "\xF0\x9F\x98\x80", "\xED\xA0\xBD",
        "\n", ""
    };
    static char text[200000];
    size_t length = 0;
    const uint64_t count = chance(100) == 0 ? 20000 : chance(20);

    for (uint64_t i = 0; i < count; i++) {
        const char *piece = pieces[chance(sizeof pieces / sizeof pieces[0])];

        memcpy(text + length, piece, strlen(piece));
        length += strlen(piece);
        if (chance(50) == 0)
            text[length++] = '\0';
    }
    return spn_harena_string(arena, text, length);
}

static int64_t random_number(void)
{
    const int64_t shifted = (int64_t)(t_random(&state) >> chance(64));

    return chance(2) == 0 ? shifted : -shifted - 1;
}

static spn_hvalue *random_leaf(void)
{
    static unsigned char bytes[9000];
    double real;
    uint64_t bits;

    switch (chance(9)) {
    case 0:
        return spn_harena_null(arena);
    case 1:
        return spn_harena_bool(arena, (int)chance(2));
    case 2:
        return spn_harena_int(arena, (int32_t)random_number());
    case 3:
        return spn_harena_long(arena, random_number());
    case 4:
        bits = t_random(&state);
        memcpy(&real, &bits, sizeof real);
        return spn_harena_double(arena, chance(2) == 0
                                            ? real
                                            : (double)random_number() / 1000);
    case 5:
        return spn_harena_date(arena, random_number());
    case 6:
        return spn_harena_binary(arena, bytes,
                                 chance(50) == 0 ? chance(sizeof bytes) : chance(40));
    default:
        return random_text();
    }
}

static const char *random_name(void)
{
    static const char *const names[] = { "a", "java.util.LinkedList", "[int",
                                         "\xC3\xA9", "P" };

    return names[chance(sizeof names / sizeof names[0])];
}

/* Some values with parts, made first, then filled with each other and leaves: so they are
 * shared and go in circles as chance has it. */
static spn_hvalue *random_tree(void)
{
    enum { PARTS = 12 };
    const uint64_t count = 1 + chance(PARTS);
    spn_hvalue *parts[PARTS];

    for (uint64_t i = 0; i < count; i++) {
        const char *type = chance(2) == 0 ? random_name() : NULL;
        const uint64_t kind = chance(3);

        parts[i] = kind == 0   ? spn_harena_list(arena, type)
                   : kind == 1 ? spn_harena_map(arena, type)
                               : spn_harena_object(arena, random_name());
        REQUIRE(parts[i] != NULL);
    }
    for (uint64_t i = 0; i < count; i++)
        for (uint64_t n = chance(12); n > 0; n--) {
            spn_hvalue *item = chance(3) == 0 ? parts[chance(count)] : random_leaf();
            spn_hvalue *key = chance(5) == 0 ? parts[chance(count)] : random_leaf();

            if (spn_hvalue_kind(parts[i]) == SPN_HLIST)
                REQUIRE_OK(spn_hvalue_add(parts[i], item));
            else if (spn_hvalue_kind(parts[i]) == SPN_HMAP)
                REQUIRE_OK(spn_hvalue_put(parts[i], key, item));
            else
                REQUIRE_OK(spn_hvalue_set(parts[i], random_name(), item));
        }
    return parts[0];
}

/* -0.0 comes back as 0, which is equal; all else is as it was. */
TEST(hessian__random_trees__come_back_the_same, "HES-35")
{
    const int rounds = t_rounds(2000);
    spn_harena *other;
    struct spn__hwriter again;

    state = t_seed();
    begin();
    REQUIRE_OK(spn_harena_create(&other, NULL));
    spn__hwriter_init(&again, NULL, 0, 0);
    for (int round = 0; round < rounds; round++) {
        spn_hvalue *made[3], *read[3] = { NULL, NULL, NULL };
        const int count = 1 + (int)chance(3);
        size_t one, two;
        const void *a, *b;

        spn_harena_reset(arena);
        spn_harena_reset(other);
        spn__hwriter_reset(&writer, 0);
        spn__hwriter_reset(&again, 0);
        for (int i = 0; i < count; i++) {
            made[i] = i > 0 && chance(3) == 0 ? made[0] : random_tree();
            REQUIRE_OK(spn__hwriter_value(&writer, made[i]));
        }
        a = spn__hwriter_bytes(&writer, &one);
        REQUIRE(read_all(other, a, one, read, 3, NULL) == count);
        for (int i = 0; i < count; i++) {
            REQUIRE(spn_hvalue_equals(made[i], read[i]) == 1);
            REQUIRE_OK(spn__hwriter_value(&again, read[i]));
        }
        b = spn__hwriter_bytes(&again, &two);
        REQUIRE(one == two && memcmp(a, b, one) == 0);
        /* Printing tells the same of both: marks are by shape, not by address. */
        for (int i = 0; i < count; i++) {
            static char left[1 << 20], right[1 << 20];

            (void)spn_hvalue_print(made[i], left, sizeof left);
            (void)spn_hvalue_print(read[i], right, sizeof right);
            if (strstr(left, "-0.0") == NULL)
                CHECK(strcmp(left, right) == 0);
        }
    }
    spn__hwriter_fini(&again);
    spn_harena_destroy(other);
    end();
}
