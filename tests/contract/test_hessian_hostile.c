/* SPDX-License-Identifier: MIT */
/*
 * Messages that nobody's writer writes: cut, turned over, deep, full of promises.  Whatever
 * comes, the answer is a value or an error; and memory stays in proportion.
 */
#include <unistd.h>

#include "hessian.h"
#include "rpc/wire/hessian_value.h"
#include "sync/seam.h"

/* ---- errors, one by one ---------------------------------------------------------- */

TEST(hessian__wrong_bytes__told_with_their_place, "HES-13")
{
    /* Codes that are none. */
    CHECK_READS("40", "SPN_EINVAL at 0: 0x40 is no value");
    CHECK_READS("45", "SPN_EINVAL at 0: 0x45 is no value");
    CHECK_READS("47", "SPN_EINVAL at 0: 0x47 is no value");
    CHECK_READS("50", "SPN_EINVAL at 0: 0x50 is no value");
    CHECK_READS("7a9140", "SPN_EINVAL at 2: 0x40 is no value");
    /* Ends. */
    CHECK_READS("5a", "SPN_EINVAL at 0: an end where a value should be");
    CHECK_READS("7a915a", "SPN_EINVAL at 2: an end where a value should be");
    CHECK_READS("48915a", "SPN_EINVAL at 2: a map ends behind a key");
    CHECK_READS("43015091017860 5a", "SPN_EINVAL at 7: an end where a value should be");
    /* Lengths. */
    CHECK_READS("588f", "SPN_EINVAL at 1: a list's length is -1");
    CHECK_READS("4980000000 58 4980000000",
                "SPN_EINVAL at 6: a list's length is -2147483648");
    CHECK_READS("58 4c0000000100000000",
                "SPN_EINVAL at 1: a list's length is 4294967296");
    CHECK_READS("580161", "SPN_EINVAL at 1: a list's length is no int");
    CHECK_READS("58", "SPN_EEMPTY at 1: the message ends inside a list's length");
    CHECK_READS("585c", "SPN_EINVAL at 1: a list's length is no int");
    /* Names. */
    CHECK_READS("4391", "SPN_EINVAL at 1: a class name is no string");
    CHECK_READS("43026100", "SPN_EINVAL at 1: a class name holds a zero byte");
    CHECK_READS("4301508f", "SPN_EINVAL at 3: a number of fields is -1");
    CHECK_READS("43015091 91", "SPN_EINVAL at 4: a field's name is no string");
    CHECK_READS("43015091 0100", "SPN_EINVAL at 4: a field's name holds a zero byte");
    CHECK_READS("43", "SPN_EEMPTY at 1: the message ends inside a class name");
    /* Classes, types, references. */
    CHECK_READS("60", "SPN_EINVAL at 0: class 0 of 0");
    CHECK_READS("4f91", "SPN_EINVAL at 0: class 1 of 0");
    CHECK_READS("43015090 61", "SPN_EINVAL at 4: class 1 of 1");
    CHECK_READS("4f8f", "SPN_EINVAL at 1: the number of a class is -1");
    CHECK_READS("7090", "SPN_EINVAL at 1: type 0 of 0");
    CHECK_READS("7a 700174 7091", "SPN_EINVAL at 5: type 1 of 1");
    CHECK_READS("70 54", "SPN_EINVAL at 1: a type is no int");
    CHECK_READS("5190", "SPN_EINVAL at 0: reference 0 of 0");
    CHECK_READS("7a 78 5192", "SPN_EINVAL at 2: reference 2 of 2");
    CHECK_READS("78 518f", "SPN_EINVAL at 2: a reference is -1");
    /* A definition without a value. */
    CHECK_READS("43015090", "SPN_EEMPTY at 4: the message ends inside a value");
}

/* A failure stays, and the reader stays where the value began. */
TEST(hessian__failed_reader__says_the_same_again, "HES-19")
{
    spn_problem problem = SPN_PROBLEM_INIT;
    struct bytes b = from_hex("91 7a9140 92");
    spn_harena *arena;
    struct spn__hreader reader;
    spn_hvalue *value = NULL;
    spn_hspan span;
    int32_t number;

    REQUIRE_OK(spn_harena_create(&arena, NULL));
    spn__hreader_init(&reader, arena, b.at, b.length, &problem);
    CHECK_OK(spn__hreader_any(&reader, &value));
    CHECK_STATUS(spn__hreader_any(&reader, &value), SPN_EINVAL);
    CHECK(value == NULL);
    CHECK_EQ(problem.offset, 3);
    CHECK_EQ(spn__hreader_offset(&reader), 1);
    problem.text[0] = '\0';
    CHECK_STATUS(spn__hreader_any(&reader, &value), SPN_EINVAL);
    CHECK_STATUS(spn__hreader_int(&reader, &number), SPN_EINVAL);
    CHECK_STATUS(spn__hreader_string(&reader, &span), SPN_EINVAL);
    CHECK_STR(problem.text, "");
    spn_harena_destroy(arena);
    free(b.at);
}

/* ---- every prefix, every bit -------------------------------------------------------- */

enum { VALUES = 64 };

/* Reads exactly these bytes, at the end of their own memory, so that a sanitizer sees one
 * byte too many; and uses what was read in every way. */
static int use(spn_harena *arena, const unsigned char *at, size_t length)
{
    unsigned char *own = malloc(length > 0 ? length : 1);
    spn_problem problem = { SIZE_MAX, "" };
    spn_hvalue *values[VALUES];
    struct spn__hwriter w;
    int count;

    REQUIRE(own != NULL);
    if (length > 0)
        memcpy(own, at, length);
    spn_harena_reset(arena);
    count = read_all(arena, own, length, values, VALUES, &problem);
    free(own);
    if (count < 0) {
        CHECK(count == SPN_EINVAL || count == SPN_EEMPTY || count == SPN_ERANGE);
        CHECK(problem.offset <= length && problem.text[0] != '\0');
        return count;
    }
    /* The dearest byte is an empty list: see docs/design/rpc-hessian.md. */
    CHECK(spn__harena_used(arena) <= 1024 + 128 * length);
    spn__hwriter_init(&w, NULL, 0, 0);
    for (int i = 0; i < count && i < VALUES; i++) {
        CHECK(spn_hvalue_print(values[i], NULL, 0) > 0);
        CHECK_EQ(spn_hvalue_equals(values[i], values[i]), 1);
        CHECK_OK(spn__hwriter_value(&w, values[i]));
    }
    if (count < VALUES) {
        spn_harena *again;
        spn_hvalue *copies[VALUES];
        size_t written;
        const void *bytes = spn__hwriter_bytes(&w, &written);

        REQUIRE_OK(spn_harena_create(&again, NULL));
        CHECK_EQ(read_all(again, bytes, written, copies, VALUES, NULL), count);
        for (int i = 0; i < count; i++)
            CHECK_EQ(spn_hvalue_equals(values[i], copies[i]), 1);
        spn_harena_destroy(again);
    }
    spn__hwriter_fini(&w);
    return count;
}

struct sweep {
    spn_harena *arena;
    size_t prefixes, flips, read;
};

static void cut(const struct vector *v, void *arg)
{
    struct sweep *s = arg;
    const int whole = v->whole ? use(s->arena, v->bytes.at, v->bytes.length) : 1;

    CHECK(whole > 0);
    for (size_t n = 0; n < v->bytes.length; n++) {
        const int rc = use(s->arena, v->bytes.at, n);

        /* What is left is whole values, fewer of them, or it ends too early. */
        if (!CHECK(rc == SPN_EEMPTY || (rc >= 0 && rc < whole)))
            printf("  %d: the first %zu bytes of %s\n", rc, n, v->name);
        s->prefixes++;
    }
}

static void turn(const struct vector *v, void *arg)
{
    struct sweep *s = arg;

    for (size_t bit = 0; bit < v->bytes.length * 8; bit++) {
        v->bytes.at[bit / 8] ^= (unsigned char)(1 << bit % 8);
        s->read += use(s->arena, v->bytes.at, v->bytes.length) >= 0;
        v->bytes.at[bit / 8] ^= (unsigned char)(1 << bit % 8);
        s->flips++;
    }
}

TEST(hessian__every_prefix_of_every_vector__ends_too_early, "HES-14")
{
    struct sweep s = { 0 };

    REQUIRE_OK(spn_harena_create(&s.arena, NULL));
    CHECK_EQ(each_vector(cut, &s), 93);
    printf("  %zu prefixes\n", s.prefixes);
    spn_harena_destroy(s.arena);
}

TEST(hessian__every_bit_of_every_vector__a_value_or_an_error, "HES-15")
{
    struct sweep s = { 0 };

    REQUIRE_OK(spn_harena_create(&s.arena, NULL));
    CHECK_EQ(each_vector(turn, &s), 93);
    printf("  %zu bits, %zu still read\n", s.flips, s.read);
    CHECK(s.read > 0 && s.read < s.flips);
    spn_harena_destroy(s.arena);
}

/* ---- limits ---------------------------------------------------------------------------- */

/* What is not 0 counts instead of the reader's own limit. */
struct limits {
    size_t max_values;
    uint32_t max_depth, max_classes, max_fields;
};

static int read_with(const struct limits *limits, const void *at, size_t length,
                     spn_problem *problem)
{
    spn_harena *arena;
    struct spn__hreader reader;
    spn_hvalue *value = NULL;
    int rc = SPN_OK;

    REQUIRE_OK(spn_harena_create(&arena, NULL));
    spn__hreader_init(&reader, arena, at, length, problem);
    if (limits != NULL && limits->max_values != 0)
        reader.values_left = limits->max_values;
    if (limits != NULL && limits->max_depth != 0)
        reader.max_depth = limits->max_depth;
    if (limits != NULL && limits->max_classes != 0)
        reader.max_classes = limits->max_classes;
    if (limits != NULL && limits->max_fields != 0)
        reader.max_fields = limits->max_fields;
    while (rc == SPN_OK && spn__hreader_left(&reader) > 0)
        rc = spn__hreader_any(&reader, &value);
    spn_harena_destroy(arena);
    return rc;
}

static int read_hex_with(const struct limits *limits, const char *hex)
{
    struct bytes b = from_hex(hex);
    const int rc = read_with(limits, b.at, b.length, NULL);

    free(b.at);
    return rc;
}

TEST(hessian__limits__hold_to_the_last, "HES-16")
{
    struct limits limits = { .max_depth = 2 };
    spn_problem problem = SPN_PROBLEM_INIT;
    unsigned char deep[200];
    static unsigned char classes[4096 * 4 + 64];
    size_t length;

    /* Depth: 128 lists in each other, the innermost empty or not. */
    memset(deep, 0x79, sizeof deep);
    deep[128] = 'N';
    CHECK_OK(read_with(NULL, deep, 129, NULL));
    deep[128] = 0x79;
    deep[129] = 'N';
    CHECK_STATUS(read_with(NULL, deep, 130, &problem), SPN_ERANGE);
    CHECK_STR(problem.text, "more than 128 values deep");
    CHECK_EQ(problem.offset, 128);
    CHECK_OK(read_hex_with(&limits, "79 79 91"));
    CHECK_OK(read_hex_with(&limits, "79 48 91 78 5a"));
    CHECK_STATUS(read_hex_with(&limits, "79 79 79 91"), SPN_ERANGE);
    CHECK_STATUS(read_hex_with(&limits, "79 48 91 575a 5a"), SPN_ERANGE);
    /* Values, over the whole message. */
    limits = (struct limits){ .max_values = 3 };
    CHECK_OK(read_hex_with(&limits, "7a 91 92"));
    CHECK_OK(read_hex_with(&limits, "91 92 93"));
    CHECK_STATUS(read_hex_with(&limits, "7a 91 92 93"), SPN_ERANGE);
    CHECK_STATUS(read_hex_with(&limits, "7b 91 92 93"), SPN_ERANGE);
    /* Classes. */
    limits = (struct limits){ .max_classes = 1 };
    CHECK_OK(read_hex_with(&limits, "43015090 60"));
    CHECK_STATUS(read_hex_with(&limits, "43015090 43015190 60"), SPN_ERANGE);
    for (length = 0; length < 1024 * 4; length += 4)
        memcpy(classes + length, "C\1P\x90", 4);
    classes[length] = 'N';
    CHECK_OK(read_with(NULL, classes, length + 1, NULL));
    memcpy(classes + length, "C\1P\x90N", 5);
    CHECK_STATUS(read_with(NULL, classes, length + 5, &problem), SPN_ERANGE);
    CHECK_STR(problem.text, "more than 1024 classes");
    /* Fields. */
    limits = (struct limits){ .max_fields = 1 };
    CHECK_OK(read_hex_with(&limits, "43015091 0178 60 91"));
    CHECK_STATUS(read_hex_with(&limits, "43015092 0178 0179 60 9192"), SPN_ERANGE);
    memset(classes, 0, sizeof classes); /* 4096 names, all empty, then as many values */
    memcpy(classes, "C\1P\xd4\x10\0", 6);
    classes[6 + 4096] = 0x60;
    CHECK_OK(read_with(NULL, classes, 6 + 4096 + 1 + 4096, NULL));
    memcpy(classes, "C\1P\xd4\x10\1", 6);
    CHECK_STATUS(read_with(NULL, classes, sizeof classes, &problem), SPN_ERANGE);
    CHECK_STR(problem.text, "a class of 4097 fields, the limit is 4096");
    /* Readers of one kind count as well. */
    {
        spn_harena *arena;
        struct spn__hreader reader;
        spn_hspan text;
        int32_t number;

        REQUIRE_OK(spn_harena_create(&arena, NULL));
        spn__hreader_init(&reader, arena, "\1a\x91\x92", 4, NULL);
        reader.values_left = 2;
        CHECK_OK(spn__hreader_string(&reader, &text));
        CHECK_OK(spn__hreader_int(&reader, &number));
        CHECK_STATUS(spn__hreader_int(&reader, &number), SPN_ERANGE);
        spn_harena_destroy(arena);
    }
}

/* Lengths that the message could never fill: refused at once, and nothing was allocated
 * for them. */
TEST(hessian__promised_lengths__not_believed, "HES-17")
{
    static const char *const promises[] = {
        "58 497fffffff",                  /* a list                                   */
        "56 0174 497fffffff 90",          /* with a type                              */
        "58 497fffffff 58 497fffffff 90", /* lists in each other                      */
        "7a 58 93 9091",      /* one that would take what its parent needs */
        "7f 90 7f 90 7f",     /* and the same by short forms              */
        "4301 50 497fffffff", /* fields: beyond the limit, at once        */
        "430150 d40fff 0178", /* fields, within the limit                 */
        "43015094 0178 0179 017a 0177 609192", /* an object                               */
        "53ffff 61", /* strings                                  */
        "52ffff 61",
        "33ff 61",
        "1f 61",
        "42ffff 61", /* binaries */
        "41ffff 61",
        "37ff 61",
        "2f 61",
    };

    for (size_t i = 0; i < sizeof promises / sizeof promises[0]; i++) {
        struct bytes b = from_hex(promises[i]);
        spn_harena *arena;
        spn_hvalue *value = NULL;
        int rc;

        REQUIRE_OK(spn_harena_create(&arena, NULL));
        rc = read_all(arena, b.at, b.length, &value, 1, NULL);
        if (!CHECK(rc == SPN_EEMPTY || rc == SPN_ERANGE) ||
            !CHECK(spn__harena_used(arena) < 1024))
            printf("  %s: %s, %zu bytes\n", promises[i], spn_status_name(rc),
                   spn__harena_used(arena));
        spn_harena_destroy(arena);
        free(b.at);
    }
}

/* The most memory that a byte can take, and the arena's limit in front of it. */
TEST(hessian__dearest_message__in_proportion, "HES-17")
{
    enum { LENGTH = 1 << 20 };
    unsigned char *message = malloc(LENGTH);
    spn_harena_opts opts = SPN_HARENA_OPTS_INIT;
    spn_problem problem = SPN_PROBLEM_INIT;
    spn_harena *arena;
    spn_hvalue *value = NULL;

    REQUIRE(message != NULL);
    memset(message, 0x78, LENGTH); /* empty lists */
    message[0] = 'W';
    message[LENGTH - 1] = 'Z';
    opts.limit_bytes = SIZE_MAX;
    REQUIRE_OK(spn_harena_create(&arena, &opts));
    CHECK_EQ(read_all(arena, message, LENGTH, &value, 1, NULL), 1);
    CHECK_EQ(spn_hvalue_count(value), LENGTH - 2);
    printf("  %.1f bytes a byte\n", (double)spn__harena_used(arena) / LENGTH);
    CHECK(spn__harena_used(arena) < (size_t)128 * LENGTH);
    spn_harena_destroy(arena);

    opts.limit_bytes = 1 << 20;
    REQUIRE_OK(spn_harena_create(&arena, &opts));
    CHECK_STATUS(read_all(arena, message, LENGTH, &value, 1, &problem), SPN_ERANGE);
    CHECK_STR(problem.text, "the message needs more than 1048576 bytes of memory");
    CHECK(spn__harena_used(arena) <= opts.limit_bytes);
    spn_harena_destroy(arena);
    free(message);
}

/* Pages of the process that are in memory, in bytes. */
static size_t resident(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long all = 0, pages = 0;

    REQUIRE(file != NULL);
    CHECK_EQ(fscanf(file, "%lu %lu", &all, &pages), 2);
    fclose(file);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* The memory of a large message is the system's again when the arena goes, also where malloc
 * would keep it: it has seen large blocks before, and something small lies behind them. */
TEST(hessian__large_message_freed__memory_goes_back, "HES-36")
{
    enum { LARGE = 32 << 20, PIECE = 1000 };
    const size_t before = resident();
    spn_harena *arena;
    void *volatile seen;
    void *volatile last;
    size_t with;

    if (spn__mem_watched())
        return; /* a sanitizer keeps what is freed */
    seen = malloc(2 << 20);
    free(seen);
    REQUIRE_OK(spn_harena_create(&arena, NULL));
    for (size_t taken = 0; taken < LARGE; taken += PIECE) {
        void *piece = spn_harena_alloc(arena, PIECE);

        REQUIRE(piece != NULL);
        memset(piece, 1, PIECE);
    }
    last = malloc(100000);
    with = resident();
    spn_harena_destroy(arena);
    printf("  %zu KiB, then %zu KiB, then %zu KiB\n", before >> 10, with >> 10,
           resident() >> 10);
    CHECK(with >= before + LARGE);
    CHECK(resident() < before + (2 << 20));
    free(last);
}

/* A million lists in each other, where limits allow it: no C stack is used, since
 * the thread's would not suffice for one frame each. */
TEST(hessian__long_chains__without_recursion, "HES-18")
{
    enum { DEEP = 1000000 };
    spn_harena_opts opts = SPN_HARENA_OPTS_INIT;
    unsigned char *message = malloc(DEEP + 1);
    spn_hvalue *one = NULL, *two = NULL;
    spn_harena *arena;
    struct spn__hreader reader;
    struct spn__hwriter w;
    size_t length;

    REQUIRE(message != NULL);
    memset(message, 0x79, DEEP);
    message[DEEP] = 'N';
    opts.limit_bytes = SIZE_MAX;
    REQUIRE_OK(spn_harena_create(&arena, &opts));
    spn__hreader_init(&reader, arena, message, DEEP + 1, NULL);
    reader.max_depth = DEEP;
    REQUIRE_OK(spn__hreader_any(&reader, &one));
    spn__hreader_init(&reader, arena, message, DEEP + 1, NULL);
    reader.max_depth = DEEP;
    REQUIRE_OK(spn__hreader_any(&reader, &two));
    CHECK_EQ(spn_hvalue_equals(one, two), 1);
    CHECK_EQ(spn_hvalue_print(one, NULL, 0), 2 * DEEP + 4);
    spn__hwriter_init(&w, NULL, 0, 0);
    w.max_depth = DEEP;
    CHECK_OK(spn__hwriter_value(&w, one));
    CHECK(memcmp(spn__hwriter_bytes(&w, &length), message, DEEP + 1) == 0);
    CHECK_EQ(length, DEEP + 1);
    spn__hwriter_fini(&w);
    /* The writer's own limit. */
    spn__hwriter_init(&w, NULL, 0, 0);
    CHECK_STATUS(spn__hwriter_value(&w, one), SPN_ERANGE);
    spn__hwriter_fini(&w);
    spn_harena_destroy(arena);
    free(message);
}

/* Fifty thousand types, all different, and as many times the same one: each message is
 * written again in one pass.  A look through all names for each would take minutes. */
TEST(hessian__many_types__written_in_proportion, "HES-20")
{
    enum { MANY = 50000 };
    spn_hvalue *list, *read = NULL;
    spn_harena *arena;
    struct spn__hwriter w;
    const void *at;
    size_t length;

    REQUIRE_OK(spn_harena_create(&arena, NULL));
    list = spn_harena_list(arena, NULL);
    for (int i = 0; i < MANY; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "t%d", i);
        CHECK_OK(spn_hvalue_add(list, spn_harena_list(arena, name)));
        CHECK_OK(spn_hvalue_add(list, spn_harena_object(arena, name)));
    }
    spn__hwriter_init(&w, NULL, 0, 0);
    CHECK_OK(spn__hwriter_value(&w, list));
    at = spn__hwriter_bytes(&w, &length);
    {
        struct spn__hreader reader;

        spn__hreader_init(&reader, arena, at, length, NULL);
        reader.max_classes = MANY;
        CHECK_OK(spn__hreader_any(&reader, &read));
    }
    CHECK_EQ(spn_hvalue_equals(list, read), 1);
    spn__hwriter_fini(&w);
    spn_harena_destroy(arena);
}
