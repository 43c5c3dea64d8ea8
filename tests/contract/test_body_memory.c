/* SPDX-License-Identifier: MIT */
/*
 * What the body of a request may take of memory, and when: counted by an allocator of the
 * program's, on a transport that is fed by hand.
 */
#include <malloc.h>
#include <stdlib.h>

#include "net_pipe.h"
#include "rpc/wire/hessian.h"
#include "rpc/wire/hessian_value.h"
#include "rpc/server/serving.h"
#include "rpc_demo.h"
#include "rpc_peer.h"

/* ---- counting -------------------------------------------------------------------------- */

static _Atomic(size_t) live, peak;

static void *count_alloc(void *ctx, size_t bytes, size_t alignment)
{
    void *memory = NULL;
    size_t now, before;

    (void)ctx;
    if (posix_memalign(&memory, alignment, bytes) != 0)
        return NULL;
    now = atomic_fetch_add(&live, malloc_usable_size(memory)) +
          malloc_usable_size(memory);
    before = atomic_load(&peak);
    while (now > before && !atomic_compare_exchange_weak(&peak, &before, now))
        ;
    return memory;
}

static void count_release(void *ctx, void *memory)
{
    (void)ctx;
    atomic_fetch_sub(&live, malloc_usable_size(memory));
    free(memory);
}

/* Before anything is allocated. */
__attribute__((constructor)) static void count_all(void)
{
    const spn_allocator counting = { sizeof counting, count_alloc, count_release,
                                     NULL };

    if (spn_allocator_set(&counting) != SPN_OK)
        abort();
}

/* ---- a server --------------------------------------------------------------------------- */

struct fixture {
    struct demo demo;
    spn_server *server;
    struct spn__transport *transport;
    struct spn__conn *conn;
};

static void open_all(struct fixture *f)
{
    static spn_method methods[32];
    static spn_service service;
    DEMO_METHODS(list, &f->demo);
    const spn_service exported = DEMO_SERVICE(list);

    memset(f, 0, sizeof *f);
    memcpy(methods, list, sizeof list);
    service = exported;
    service.methods = methods;
    REQUIRE_OK(spn__transport_create(NULL, &f->transport));
    REQUIRE_OK(
        spn__server_create_on(&f->server,
                              "dubbo://127.0.0.1:20880?dispatcher=direct&heartbeat=0",
                              NULL, f->transport, NULL));
    REQUIRE_OK(spn_server_export(f->server, &service, NULL));
    REQUIRE_OK(spn_server_start(f->server, NULL));
    f->conn = pipe_open(f->transport);
}

static void close_all(struct fixture *f)
{
    pipe_close(f->conn);
    CHECK_OK(spn_server_stop(f->server, T_LONG_NS));
    CHECK_OK(spn_server_destroy(f->server));
    CHECK_OK(spn__transport_destroy(f->transport));
}

/* The parts of a request: what stands in front of its one argument, the argument, and the
 * attachments behind it. */
struct parts {
    const char *path, *version, *method, *parameters;
    const void *argument;
    size_t argument_size;
    const char *attachments;
    size_t attachments_size;
};

/* Asks, and tells how many bytes the server had at most beyond those it had before. */
static size_t ask(struct fixture *f, const struct parts *parts, struct told *told)
{
    struct bytes begin = { .size = 0 }, header = { .size = 0 };
    unsigned char *frame, h[16];
    size_t size, before;

    put_text(&begin, "2.0.0");
    put_text(&begin, parts->path);
    put_text(&begin, parts->version);
    put_text(&begin, parts->method);
    put_text(&begin, parts->parameters);
    size = begin.size + parts->argument_size + parts->attachments_size;
    put_header(&header, TWO_WAY, 0, 5, (uint32_t)size);
    frame = malloc(16 + size);
    REQUIRE(frame != NULL);
    memcpy(frame, header.data, 16);
    memcpy(frame + 16, begin.data, begin.size);
    memcpy(frame + 16 + begin.size, parts->argument, parts->argument_size);
    memcpy(frame + 16 + begin.size + parts->argument_size, parts->attachments,
           parts->attachments_size);
    before = atomic_load(&live);
    atomic_store(&peak, before);
    CHECK(pipe_feed(f->conn, frame, 16 + size));
    free(frame);
    memset(told, 0, offsetof(struct told, body));
    REQUIRE(pipe_take(f->conn, h, 16) == 16);
    told->status = h[3];
    told->length = (uint32_t)h[14] << 8 | h[15];
    REQUIRE(told->length < sizeof told->body);
    CHECK_EQ(pipe_take(f->conn, told->body, told->length), told->length);
    told->body[told->length] = '\0';
    return atomic_load(&peak) - before;
}

/* One and a half million bytes: a list of empty lists. */
enum { LISTS = 1536 * 1024 };

static unsigned char *make_lists(void)
{
    unsigned char *lists = malloc(LISTS);

    REQUIRE(lists != NULL);
    memset(lists, 0x78, LISTS);
    lists[0] = 'W';
    lists[LISTS - 1] = 'Z';
    return lists;
}

#define ATTACHED(literal) \
    .attachments = (literal), .attachments_size = sizeof(literal) - 1

/* Who names no service and no method that is there takes his bytes, and no arena. */
TEST(body__unknown_name_and_a_large_argument__no_arena, "COD-18")
{
    unsigned char *lists = make_lists();
    const struct parts cases[] = {
        { "demo.Other", "1.0.0", "sayHello", "Ljava/lang/String;", lists, LISTS,
          ATTACHED("H\5group\2g1Z") },
        { DEMO, "1.0.0", "sayGoodbye", "Ljava/lang/String;", lists, LISTS,
          ATTACHED("H\5group\2g1Z") },
        { DEMO, "1.0.0", "sayHello", "Ljava/util/List;", lists, LISTS,
          ATTACHED("H\5group\2g1Z") },
        { "demo.Other", "1.0.0", "$echo", "Ljava/lang/Object;", lists, LISTS,
          ATTACHED("N") },
        { "demo.Other", "1.0.0", "$echo", "Ljava/lang/Object;", lists, LISTS - 1,
          ATTACHED("") }, /* and never ends */
    };
    struct fixture f;
    struct told told;

    open_all(&f);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t taken = ask(&f, &cases[i], &told);

        CHECK_EQ(told.status, 70);
        CHECK_HAS(told_text(&told), i == 1 || i == 2 ? "no such method: "
                                                     : "Not found exported service: ");
        if (!CHECK(taken < LISTS + 65536))
            printf("  case %zu took %zu bytes\n", i, taken);
    }
    close_all(&f);
    free(lists);
}

/* A service that only the attachments name is found behind any argument. */
TEST(body__named_by_attachments_behind_an_object__found, "COD-18", "COD-11")
{
    static const struct {
        const char *argument;
        size_t size;
    } arguments[] = {
#define ARGUMENT(literal) { literal, sizeof(literal) - 1 }
        ARGUMENT("x"),
        ARGUMENT("z\x91\2ok"),
        ARGUMENT("W\x91\2ok\x78Z"),
        ARGUMENT("r\4[int\x91\x92"),
        ARGUMENT("y\x73\4[int\x91\x92\x93"),
        ARGUMENT("U\4list\x91Z"),
        ARGUMENT("V\4list\x92\x91\x91"),
        ARGUMENT("zV\4list\x91\x91V\x90\x91\x91"),
        ARGUMENT("X\x92NN"),
        ARGUMENT("H\1ay\x51\x90\1b\xc9\1Z"),
        ARGUMENT("M\3map\1aM\x90ZZ"),
        ARGUMENT("C\1P\x92\1a\1b`\x91`NN"),
        ARGUMENT("C\1P\x90`"),
        ARGUMENT("C\1P\x91\1aC\1Q\x90O\x90O\x91"),
        ARGUMENT("z\x5c\x5d\1"),
        ARGUMENT("z\x4a\0\0\0\0\0\0\0\1\x4b\0\0\0\1"),
        ARGUMENT("D\0\0\0\0\0\0\0\0"),
        ARGUMENT("\x23"
                 "abc"),
        ARGUMENT("\x34\3"
                 "abc"),
        ARGUMENT("A\0\1aB\0\1b"),
        ARGUMENT("R\0\1aS\0\1\xc3\xa4"),
        ARGUMENT("\2\xc3\xa4\xe2\x82\xac"),
#undef ARGUMENT
    };
    struct fixture f;
    struct told told;

    open_all(&f);
    for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++) {
        struct parts parts = { "demo.Other",
                               "9",
                               "$echo",
                               "Ljava/lang/Object;",
                               arguments[i].argument,
                               arguments[i].size,
                               ATTACHED("H\1k\x78\4path\x30\x21" DEMO
                                        "\7version\0051.0.0\5group\2g1Z") };

        (void)ask(&f, &parts, &told);
        if (!CHECK_EQ(told.status, 20))
            printf("  argument %zu: %s\n", i, told_text(&told));
        /* And not, if they name another. */
        parts.attachments = "H\4path\3x.YZ";
        parts.attachments_size = 11;
        (void)ask(&f, &parts, &told);
        CHECK_EQ(told.status, 70);
        CHECK_HAS(told_text(&told), "Not found exported service: x.Y:9");
        /* Or if the argument is cut anywhere. */
        for (size_t cut = 0; cut < arguments[i].size; cut++) {
            parts.argument_size = cut;
            parts.attachments_size = 0;
            (void)ask(&f, &parts, &told);
            CHECK(told.status == 70 || told.status == 40);
        }
    }
    close_all(&f);
}

/* Depth, classes and what they promise end the walk as they end the reading. */
TEST(body__hostile_argument_of_an_unknown_service__status_70, "COD-18")
{
    enum { SIZE = 200000 };
    unsigned char *argument = malloc(SIZE);
    struct parts parts = { "demo.Other", "9",  "m",         "Ljava/lang/Object;",
                           argument,     SIZE, ATTACHED("") };
    static const char *const units[] = { "W",           "\x79",         "H\1k",
                                         "C\1P\x90",    "C\1P\xcf\xff", "Q",
                                         "V\1t\xcf\xff" };
    struct fixture f;
    struct told told;

    REQUIRE(argument != NULL);
    open_all(&f);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        for (size_t at = 0; at < SIZE; at++)
            argument[at] = (unsigned char)units[i][at % strlen(units[i])];
        CHECK(ask(&f, &parts, &told) < SIZE + 65536);
        CHECK_EQ(told.status, 70);
    }
    close_all(&f);
    free(argument);
}

/* A service that is there: the arena has a limit in proportion to the body, and the reply
 * says so; what the method itself takes has the arena's own. */
TEST(body__dearest_argument_of_a_method__in_proportion, "COD-19", "HES-17")
{
    unsigned char *lists = make_lists();
    const struct parts parts = { DEMO,
                                 "1.0.0",
                                 "$echo",
                                 "Ljava/lang/Object;",
                                 lists,
                                 LISTS,
                                 ATTACHED("H\5group\2g1Z") };
    const struct parts large = {
        DEMO, "1.0.0", "large", "I", "I\0\0\x40\0", 5, ATTACHED("H\5group\2g1Z")
    };
    struct fixture f;
    struct told told;
    size_t taken;

    open_all(&f);
    taken = ask(&f, &parts, &told);
    CHECK_EQ(told.status, 40);
    CHECK_HAS(told_text(&told), "the message needs more than ");
    CHECK(taken <= LISTS + spn__harena_for(LISTS) + 65536);
    (void)ask(&f, &large, &told); /* 16 KiB for a body of some dozen bytes */
    CHECK_EQ(told.status, 20);
    close_all(&f);
    free(lists);
}

/* ---- the factor ----------------------------------------------------------------------------- */

/* How many: tables double, so just behind a power of two is where they take most. */
enum { MANY = (1 << 18) + 1 };

/* A list of many items, as Java writes it, with its length; or, from 'H', a map. */
struct shape {
    const char *begin; /* of the map; or a class, in front of the first item */
    size_t begin_size;
    const char *unit;
    size_t unit_size;
};

static double bytes_a_byte(const struct shape *shape)
{
    const bool is_map = shape->begin_size == 1;
    unsigned char *message = malloc(64 + shape->unit_size * MANY), *at = message;
    spn_harena_opts opts = SPN_HARENA_OPTS_INIT;
    spn_harena *arena;
    struct spn__hreader reader;
    spn_hvalue *value;
    double ratio;

    REQUIRE(message != NULL);
    if (!is_map) {
        memcpy(at, "XI\0\4\0\1", 6);
        at += 6;
    }
    memcpy(at, shape->begin, shape->begin_size);
    at += shape->begin_size;
    for (int i = 0; i < MANY; i++, at += shape->unit_size)
        memcpy(at, shape->unit, shape->unit_size);
    if (is_map)
        *at++ = 'Z';
    opts.limit_bytes = SIZE_MAX;
    REQUIRE_OK(spn_harena_create(&arena, &opts));
    spn__hreader_init(&reader, arena, message, (size_t)(at - message), NULL);
    REQUIRE_OK(spn__hreader_any(&reader, &value));
    ratio = (double)spn__harena_used(arena) / (double)(at - message);
    spn_harena_destroy(arena);
    free(message);
    return ratio;
}

/* What programs in Java send in masses is read within the limit. */
TEST(body__masses_of_small_things__within_the_limit, "COD-19")
{
#define SHAPE(begin, unit)                               \
    {                                                    \
        begin, sizeof(begin) - 1, unit, sizeof(unit) - 1 \
    }
    static const struct shape shapes[] = {
        SHAPE("", "T"),                                   /* booleans           */
        SHAPE("", "\xc9\1"),                              /* ints of two bytes  */
        SHAPE("", "\xd4\x30\1"),                          /* ints of three      */
        SHAPE("", "\1a"),                                 /* texts of a letter  */
        SHAPE("", "\10abcdefgh"),                         /* words              */
        SHAPE("", "D\1\2\3\4\5\6\7\10"),                  /* doubles            */
        SHAPE("H", "\1a\x91"),                            /* texts to digits    */
        SHAPE("H", "\xd4\x30\1\xd4\x30\1"),               /* ints to ints       */
        SHAPE("C\1P\x92\1x\1y", "`\xc9\1\xc9\1"),         /* points             */
        SHAPE("C\1P\x92\1x\1y", "`\x91\x92"),             /* with one digit     */
        SHAPE("C\1U\x93\2id\4name\2ok", "`\xf9\1\3bobT"), /* users              */
        SHAPE("", "z\x91\x92"),                           /* lists of two       */
        SHAPE("", "H\1a\x91Z"),                           /* maps of one pair   */
    };
    const double limit = (double)spn__harena_for(1 << 20) / (1 << 20);

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const double ratio = bytes_a_byte(&shapes[i]);

        printf("  shape %zu: %.1f bytes a byte\n", i, ratio);
        CHECK(ratio <= limit);
    }
#undef SHAPE
}
