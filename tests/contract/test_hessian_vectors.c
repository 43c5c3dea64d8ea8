/* SPDX-License-Identifier: MIT */
/*
 * Bytes that Java's own writer wrote, both ways: read, and compared with what the vector's
 * description says; made by hand from that description, and written.
 */
#include "hessian.h"

/* ---- SHA-1, by which the long vectors are given ----------------------------------- */

static uint32_t turn(uint32_t x, int n)
{
    return x << n | x >> (32 - n);
}

static void sha1_block(uint32_t h[5], const unsigned char *at)
{
    uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];

    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)at[i * 4] << 24 | (uint32_t)at[i * 4 + 1] << 16 |
               (uint32_t)at[i * 4 + 2] << 8 | at[i * 4 + 3];
    for (int i = 16; i < 80; i++)
        w[i] = turn(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    for (int i = 0; i < 80; i++) {
        const uint32_t f = i < 20   ? (b & c) | (~b & d)
                           : i < 40 ? b ^ c ^ d
                           : i < 60 ? (b & c) | (b & d) | (c & d)
                                    : b ^ c ^ d;
        const uint32_t k = i < 20   ? 0x5A827999
                           : i < 40 ? 0x6ED9EBA1
                           : i < 60 ? 0x8F1BBCDC
                                    : 0xCA62C1D6;
        const uint32_t next = turn(a, 5) + f + e + k + w[i];

        e = d;
        d = c;
        c = turn(b, 30);
        b = a;
        a = next;
    }
    h[0] += a;
    h[1] += b;
    h[2] += c;
    h[3] += d;
    h[4] += e;
}

static void sha1(const unsigned char *at, size_t length, char hex[41])
{
    uint32_t h[5] = { 0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0 };
    unsigned char last[128] = { 0 };
    const size_t rest = length % 64, blocks = rest < 56 ? 1 : 2;

    for (size_t i = 0; i + 64 <= length; i += 64)
        sha1_block(h, at + i);
    memcpy(last, at + (length - rest), rest);
    last[rest] = 0x80;
    for (int i = 0; i < 8; i++)
        last[blocks * 64 - 1 - (size_t)i] =
            (unsigned char)((uint64_t)length * 8 >> (8 * i));
    for (size_t i = 0; i < blocks; i++)
        sha1_block(h, last + i * 64);
    for (int i = 0; i < 5; i++)
        (void)snprintf(hex + i * 8, 9, "%08x", h[i]);
}

/* ---- values by hand ------------------------------------------------------------------- */

static spn_hvalue *list_of(spn_harena *a, const char *type, size_t count,
                           spn_hvalue **items)
{
    spn_hvalue *list = spn_harena_list(a, type);

    for (size_t i = 0; i < count; i++)
        CHECK_OK(spn_hvalue_add(list, items[i]));
    return list;
}

#define LIST(a, type, ...)                                                           \
    list_of(a, type, sizeof((spn_hvalue *[]){ __VA_ARGS__ }) / sizeof(spn_hvalue *), \
            (spn_hvalue *[]){ __VA_ARGS__ })
#define INT(n)  spn_harena_int(a, n)
#define TEXT(t) spn_harena_text(a, t)

static spn_hvalue *map_with(spn_harena *a, const char *type)
{
    spn_hvalue *map = spn_harena_map(a, type);

    CHECK_OK(spn_hvalue_put(map, TEXT("a"), INT(1)));
    return map;
}

static spn_hvalue *object_with(spn_harena *a, const char *name, const char *field,
                               spn_hvalue *value)
{
    spn_hvalue *object = spn_harena_object(a, name);

    CHECK_OK(spn_hvalue_set(object, field, value));
    return object;
}

static spn_hvalue *bob(spn_harena *a, spn_hvalue *next)
{
    spn_hvalue *p = spn_harena_object(a, "Golden$P");

    CHECK_OK(spn_hvalue_set(p, "tags", LIST(a, NULL, TEXT("a"), TEXT("b"))));
    CHECK_OK(spn_hvalue_set(p, "next", next));
    CHECK_OK(spn_hvalue_set(p, "name", TEXT("bob")));
    CHECK_OK(spn_hvalue_set(p, "id", INT(7)));
    return p;
}

static spn_hvalue *boom(spn_harena *a)
{
    spn_hvalue *e = spn_harena_object(a, "java.lang.IllegalStateException");

    CHECK_OK(spn_hvalue_set(e, "suppressedExceptions",
                            spn_harena_list(a, "java.util.Collections$EmptyList")));
    CHECK_OK(spn_hvalue_set(e, "stackTrace",
                            spn_harena_list(a, "[java.lang.StackTraceElement")));
    CHECK_OK(spn_hvalue_set(e, "cause", e));
    CHECK_OK(spn_hvalue_set(e, "detailMessage", TEXT("boom")));
    return e;
}

#define HANDLE "com.alibaba.com.caucho.hessian.io."

/* Values of the vectors that a description names but does not tell; up to three. */
static int by_name(spn_harena *a, const char *name, spn_hvalue **v)
{
    const spn_hvalue *none = spn_harena_null(a);
    spn_hvalue *null = (spn_hvalue *)(uintptr_t)none;

#define IS(text) (strcmp(name, text) == 0)
    if (IS("ArrayList[1,2]"))
        v[0] = LIST(a, NULL, INT(1), INT(2));
    else if (IS("ArrayList 8"))
        v[0] = LIST(a, NULL, INT(1), INT(2), INT(3), INT(4), INT(5), INT(6), INT(7),
                    INT(8));
    else if (IS("Arrays.asList(1)"))
        v[0] = LIST(a, "java.util.Arrays$ArrayList", INT(1));
    else if (IS("HashSet{1}"))
        v[0] = LIST(a, "java.util.HashSet", INT(1));
    else if (IS("String[]{a,b}"))
        v[0] = LIST(a, "[string", TEXT("a"), TEXT("b"));
    else if (IS("Object[]{1,a}"))
        v[0] = LIST(a, "[object", INT(1), TEXT("a"));
    else if (IS("boolean[]{true}"))
        v[0] = LIST(a, "[boolean", spn_harena_bool(a, 1));
    else if (IS("double[]{1}"))
        v[0] = LIST(a, "[double", spn_harena_double(a, 1));
    else if (IS("int[][]"))
        v[0] = LIST(a, "[[int", LIST(a, "[int", INT(1)), LIST(a, "[int", INT(2)));
    else if (IS("short[]"))
        v[0] = LIST(a, "[short", INT(1));
    else if (IS("Integer[]"))
        v[0] = LIST(a, "[java.lang.Integer", INT(1));
    else if (IS("HashMap{}"))
        v[0] = spn_harena_map(a, NULL);
    else if (IS("LinkedHashMap{a=1}"))
        v[0] = map_with(a, "java.util.LinkedHashMap");
    else if (IS("TreeMap{a=1}"))
        v[0] = map_with(a, "java.util.TreeMap");
    else if (IS("Hashtable"))
        v[0] = map_with(a, "java.util.Hashtable");
    else if (IS("self-ref list")) {
        v[0] = spn_harena_list(a, NULL);
        CHECK_OK(spn_hvalue_add(v[0], v[0]));
    } else if (IS("shared list twice")) {
        spn_hvalue *x = spn_harena_list(a, NULL);

        v[0] = LIST(a, NULL, x, x);
    } else if (IS("same string twice"))
        v[0] = LIST(a, NULL, TEXT("abc"), TEXT("abc"));
    else if (IS("POJO"))
        v[0] = bob(a, null);
    else if (IS("POJO twice (two writeObject)")) {
        v[0] = bob(a, null);
        v[1] = bob(a, null);
        return 2;
    } else if (IS("POJO nested"))
        v[0] = bob(a, bob(a, null));
    else if (IS("LinkedList twice (type ref)")) {
        v[0] = LIST(a, "java.util.LinkedList", TEXT("a"));
        v[1] = LIST(a, "java.util.LinkedList", TEXT("b"));
        return 2;
    } else if (IS("enum RED,GREEN,RED")) {
        v[0] = v[2] = object_with(a, "Golden$E", "name", TEXT("RED"));
        v[1] = object_with(a, "Golden$E", "name", TEXT("GREEN"));
        return 3;
    } else if (IS("BigDecimal 1.23"))
        v[0] = object_with(a, "java.math.BigDecimal", "value", TEXT("1.23"));
    else if (IS("Class String"))
        v[0] = object_with(a, "java.lang.Class", "name", TEXT("java.lang.String"));
    else if (IS("Locale"))
        v[0] = object_with(a, HANDLE "LocaleHandle", "value", TEXT("en_US"));
    else if (IS("UUID")) {
        v[0] = object_with(a, "java.util.UUID", "leastSigBits", spn_harena_long(a, 2));
        CHECK_OK(spn_hvalue_set(v[0], "mostSigBits", spn_harena_long(a, 1)));
    } else if (IS("Calendar")) {
        v[0] = object_with(a, HANDLE "CalendarHandle", "date",
                           spn_harena_date(a, INT64_C(946684800000)));
        CHECK_OK(spn_hvalue_set(v[0], "type", null));
    } else if (IS("exception no stack"))
        v[0] = boom(a);
    else if (IS("multi-write shared refs")) {
        v[0] = v[1] = spn_harena_map(a, NULL);
        CHECK_OK(spn_hvalue_set(v[0], "me", v[0]));
        v[2] = spn_harena_list(a, NULL);
        CHECK_OK(spn_hvalue_add(v[2], v[2]));
        return 3;
    } else
        return 0;
#undef IS
    return 1;
}

/* The values of a vector's description; how many, 0: it is not understood. */
static int describe(spn_harena *a, const char *name, spn_hvalue **v)
{
    static char text[70016];
    long long number;
    double real;
    char rest[32] = "";

    if (strcmp(name, "null") == 0)
        v[0] = spn_harena_null(a);
    else if (strcmp(name, "true") == 0 || strcmp(name, "false") == 0)
        v[0] = spn_harena_bool(a, name[0] == 't');
    else if (sscanf(name, "int %lld", &number) == 1 ||
             sscanf(name, "short %lld", &number) == 1)
        v[0] = spn_harena_int(a, (int32_t)number);
    else if (sscanf(name, "long %lld", &number) == 1)
        v[0] = spn_harena_long(a, number);
    else if (sscanf(name, "double %lf", &real) == 1)
        v[0] = spn_harena_double(a, real);
    else if (sscanf(name, "float %lf", &real) == 1)
        v[0] = spn_harena_double(a, (float)real);
    else if (sscanf(name, "date %lld", &number) == 1)
        v[0] = spn_harena_date(a, number);
    else if (strcmp(name, "char x") == 0)
        v[0] = TEXT("x");
    else if (strcmp(name, "string e-acute") == 0)
        v[0] = TEXT("\xC3\xA9");
    else if (strcmp(name, "string emoji U+1F600") == 0)
        v[0] = TEXT("\xF0\x9F\x98\x80");
    else if (sscanf(name, "string a*%lld%31s", &number, rest) >= 1) {
        memset(text, 'a', (size_t)number);
        if (rest[0] != '\0')
            memcpy(text + number, "\xF0\x9F\x98\x80", 4);
        v[0] = spn_harena_string(a, text, (size_t)number + (rest[0] != '\0' ? 4 : 0));
    } else if (sscanf(name, "bytes %lld", &number) == 1) {
        memset(text, 0, (size_t)number);
        v[0] = spn_harena_binary(a, text, (size_t)number);
    } else
        return by_name(a, name, v);
    return 1;
}

/* ---- both ways ---------------------------------------------------------------------------- */

static void check_bytes(const struct vector *v, const void *at, size_t length)
{
    char hex[41];

    if (!CHECK(length == v->length))
        return;
    if (v->whole) {
        CHECK(memcmp(at, v->bytes.at, length) == 0);
    } else {
        CHECK(memcmp(at, v->head, sizeof v->head) == 0);
        sha1(at, length, hex);
        CHECK_STR(hex, v->sha1);
    }
}

static void write_values(struct spn__hwriter *w, spn_hvalue **values, int count)
{
    spn__hwriter_init(w, NULL, 0, 0);
    for (int i = 0; i < count; i++)
        CHECK_OK(spn__hwriter_value(w, values[i]));
    CHECK_OK(spn__hwriter_status(w));
}

static void check_vector(const struct vector *v, void *arg)
{
    spn_hvalue *made[3], *got[3] = { NULL, NULL, NULL };
    spn_harena *arena;
    struct spn__hwriter one, two;
    size_t length;
    const void *at;
    int count;

    (void)arg;
    REQUIRE_OK(spn_harena_create(&arena, NULL));
    count = describe(arena, v->name, made);
    if (count == 0)
        printf("  not understood: %s\n", v->name);
    REQUIRE(count > 0);
    write_values(&one, made, count);
    at = spn__hwriter_bytes(&one, &length);
    check_bytes(v, at, length);

    /* A long vector is read from the bytes whose hash was just compared. */
    if (v->whole) {
        at = v->bytes.at;
        length = v->length;
    }
    CHECK_EQ(read_all(arena, at, length, got, 3, NULL), count);
    for (int i = 0; i < count; i++)
        if (!CHECK_EQ(spn_hvalue_equals(got[i], made[i]), 1))
            printf("  value %d of: %s\n", i, v->name);
    write_values(&two, got, count);
    at = spn__hwriter_bytes(&two, &length);
    check_bytes(v, at, length);
    spn__hwriter_fini(&one);
    spn__hwriter_fini(&two);
    spn_harena_destroy(arena);
}

/* Every vector is the value it describes, and that value is the vector. */
TEST(hessian__every_vector__reads_and_writes_the_same, "HES-1")
{
    CHECK_EQ(each_vector(check_vector, NULL), 93);
}

/* The hash by which the long vectors are given is the right one. */
TEST(hessian__sha1_of_abc__known)
{
    char hex[41];

    sha1((const unsigned char *)"abc", 3, hex);
    CHECK_STR(hex, "a9993e364706816aba3e25717850c26c9cd0d89d");
}
