/* SPDX-License-Identifier: MIT */
/* test_extension.c - kinds, extensions, instances, wrappers, activation, shared objects. */
#include "counting.h"
#include "peer.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

#include <spindle/extension.h>
#include <spindle/url_pool.h>

static spn_extensions *x;
static spn_problem problem;

static void open_registry(void)
{
    static const char *const directories[] = { "/nowhere", PLUGIN_DIRECTORY };
    spn_extensions_opts opts = SPN_EXTENSIONS_OPTS_INIT;
    const spn_extension_kind codec = { sizeof codec, "codec", "plain",
                                       "codec,protocol" };

    opts.directories = directories;
    opts.directory_count = 2;
    REQUIRE_OK(spn_extensions_create(&x, &opts));
    REQUIRE_OK(spn_extensions_define(x, &codec, NULL));
}

static void close_registry(void)
{
    CHECK_OK(spn_extensions_destroy(x));
}

static spn_url *read_url(const char *text)
{
    spn_url *url;

    REQUIRE_OK(spn_url_parse(&url, text, NULL));
    return url;
}

static const int things[8];

static spn_extension codec(const char *name, int thing)
{
    spn_extension e = { .size = sizeof e, .kind = "codec", .name = name };

    e.instance = &things[thing];
    return e;
}

static void add(spn_extension e)
{
    REQUIRE_OK(spn_extensions_register(x, &e, NULL));
}

static int thing_of(int rc, const void *instance)
{
    CHECK_OK(rc);
    return instance != NULL ? (int)((const int *)instance - things) : -1;
}

static int get(const char *name)
{
    const void *instance;
    int rc = spn_extensions_get(x, "codec", name, &instance, &problem);

    return thing_of(rc, instance);
}

static int choose(const char *text)
{
    spn_url *url = read_url(text);
    const void *instance;
    int rc = spn_extensions_choose(x, "codec", url, &instance, &problem);

    spn_url_unref(url);
    return thing_of(rc, instance);
}

static void note_kind(void *ctx, const spn_extension_kind *kind)
{
    char *text = ctx;

    strcat(strcat(strcat(strcat(text, kind->name), "="), kind->default_name), " ");
}

static void note(void *ctx, const spn_extension *e, const char *origin)
{
    char *text = ctx;

    strcat(strcat(strcat(strcat(text, e->name), "/"), origin), " ");
}

/* The kinds of the library, and those of the program; each is listed. */
TEST(extension__kinds__have_defaults_and_are_listed, "EXT-1", "EXT-18")
{
    static const char built_in[] =
        "dispatcher=all queue=fifo reject=report threadpool=fixed ";
    const spn_extension_kind again = { sizeof again, "codec", "x", NULL };
    char text[512] = "";

    CHECK_OK(spn_extensions_each_kind(NULL, note_kind, text));
    CHECK_STR(text, built_in);
    open_registry();
    text[0] = '\0';
    CHECK_OK(spn_extensions_each_kind(x, note_kind, text));
    CHECK_EQ(strncmp(text, "codec=plain ", 12), 0);
    CHECK_STR(text + 12, built_in);
    CHECK_STATUS(spn_extensions_define(x, &again, &problem), SPN_EBUSY);
    text[0] = '\0';
    CHECK_OK(spn_extensions_each(x, SPN_KIND_THREADPOOL, note, text));
    CHECK_STR(text, "cached/built in eager/built in fixed/built in limited/built in ");
    add(codec("b", 1));
    add(codec("a", 2));
    text[0] = '\0';
    CHECK_OK(spn_extensions_each(x, "codec", note, text));
    CHECK_STR(text, "a/registered b/registered ");
    close_registry();
}

/* Names that are none, kinds that are not there, nothing to give out. */
TEST(extension__wrong_ones__are_refused, "EXT-2")
{
    static const char long_name[] =
        "a234567890123456789012345678901234567890123456789012345678901234";
    static const char *const names[] = {
        "", "A", "a b", "../x", "a/b", "a.b", long_name
    };
    const void *out;
    spn_extension e;

    open_registry();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        e = codec(names[i], 0);
        CHECK_STATUS(spn_extensions_register(x, &e, &problem), SPN_EINVAL);
        CHECK(strstr(problem.text, "name") != NULL);
        if (names[i][0] != '\0')
            CHECK_STATUS(spn_extensions_get(x, "codec", names[i], &out, &problem),
                         SPN_EINVAL);
    }
    e = codec("a", 0);
    e.kind = "nothing";
    CHECK_STATUS(spn_extensions_register(x, &e, &problem), SPN_EINVAL);
    CHECK(strstr(problem.text, "nothing") != NULL);
    e = codec("a", 0);
    e.kind = NULL;
    CHECK_STATUS(spn_extensions_register(x, &e, &problem), SPN_EINVAL);
    e = codec("a", 0);
    e.instance = NULL;
    CHECK_STATUS(spn_extensions_register(x, &e, &problem), SPN_EINVAL);
    e = codec("a", 0);
    e.flags = SPN_EXTENSION_WRAPPER;
    CHECK_STATUS(spn_extensions_register(x, &e, &problem), SPN_EINVAL);
    e = codec("a", 0);
    e.flags = 64;
    CHECK_STATUS(spn_extensions_register(x, &e, &problem), SPN_EINVAL);
    e = codec("a", 0);
    e.size = 1;
    CHECK_STATUS(spn_extensions_register(x, &e, &problem), SPN_EINVAL);
    CHECK_STATUS(spn_extensions_get(x, "nothing", "a", &out, &problem), SPN_EINVAL);
    CHECK_STATUS(spn_extensions_get(NULL, "codec", "a", &out, &problem), SPN_EINVAL);
    CHECK(out == NULL);
    close_registry();
}

/* Unknown names list those that exist; the default has three spellings. */
TEST(extension__by_name__found_or_listed, "EXT-3", "EXT-4")
{
    const void *out;

    open_registry();
    CHECK_STATUS(spn_extensions_get(x, "codec", "x", &out, &problem), SPN_EEMPTY);
    CHECK_STR(problem.text, "there is no codec 'x'; there are: none");
    add(codec("plain", 1));
    add(codec("zip", 2));
    CHECK_EQ(get("zip"), 2);
    CHECK_EQ(get("plain"), 1);
    CHECK_EQ(get(NULL), 1);
    CHECK_EQ(get(""), 1);
    CHECK_EQ(get("true"), 1);
    CHECK_STATUS(spn_extensions_get(x, "codec", "x", &out, &problem), SPN_EEMPTY);
    CHECK_STR(problem.text, "there is no codec 'x'; there are: plain, zip");
    CHECK_STATUS(spn_extensions_get(NULL, SPN_KIND_THREADPOOL, "x", &out, &problem),
                 SPN_EEMPTY);
    CHECK_STR(problem.text,
              "there is no threadpool 'x'; there are: cached, eager, fixed, limited");
    CHECK_OK(spn_extensions_get(NULL, SPN_KIND_THREADPOOL, NULL, &out, &problem));
    close_registry();
}

/* A name is taken once, or replaced; what was replaced comes back. */
TEST(extension__registered_twice__is_refused_or_replaces, "EXT-5", "EXT-17")
{
    spn_extension e;

    open_registry();
    add(codec("plain", 1));
    e = codec("plain", 2);
    CHECK_STATUS(spn_extensions_register(x, &e, &problem), SPN_EBUSY);
    e.flags = SPN_EXTENSION_REPLACE;
    add(e);
    CHECK_OK(spn_extensions_unregister(x, "codec", "plain"));
    CHECK_EQ(get("plain"), 1);
    add(e);
    CHECK_EQ(get("plain"), 2);
    CHECK_STATUS(spn_extensions_unregister(x, "codec", "plain"), SPN_EBUSY);
    CHECK_STATUS(spn_extensions_unregister(x, "codec", "none"), SPN_EEMPTY);
    CHECK_STATUS(spn_extensions_unregister(x, SPN_KIND_THREADPOOL, "fixed"),
                 SPN_EEMPTY);
    close_registry();
}

/* ---- instances ------------------------------------------------------------------------ */

static atomic_int created, destroyed, refusing;
static atomic_int gate;

static int make_slowly(const spn_extension *self, const void *inner, const void **out)
{
    (void)inner;
    atomic_fetch_add(&created, 1);
    T_AWAIT(atomic_load(&gate) != 0);
    if (atomic_fetch_sub(&refusing, 1) > 0)
        return SPN_EPERM;
    *out = self->ctx;
    return SPN_OK;
}

static void unmake(const spn_extension *self, const void *instance)
{
    CHECK(instance == self->ctx);
    atomic_fetch_add(&destroyed, 1);
}

static spn_extension made(const char *name)
{
    spn_extension e = { .size = sizeof e, .kind = "codec", .name = name };

    e.create = make_slowly;
    e.destroy = unmake;
    e.ctx = (void *)(uintptr_t)&things[3];
    atomic_store(&created, 0);
    atomic_store(&destroyed, 0);
    atomic_store(&refusing, 0);
    atomic_store(&gate, 1);
    return e;
}

static void ask(int index, void *arg)
{
    (void)arg;
    if (index == 0)
        T_AWAIT(atomic_load(&created) != 0);
    if (index == 0)
        atomic_store(&gate, 1);
    CHECK_EQ(get("slow"), 3);
}

/* Many ask at once: one makes it, all get the same. */
TEST(extension__asked_for_by_many__is_made_once, "EXT-6", "EXT-16")
{
    open_registry();
    add(made("slow"));
    atomic_store(&gate, 0);
    t_parallel(T_THREADS, ask, NULL);
    CHECK_EQ(atomic_load(&created), 1);
    CHECK_EQ(atomic_load(&destroyed), 0);
    close_registry();
    CHECK_EQ(atomic_load(&destroyed), 1);
}

/* A failure is told, and tried again. */
TEST(extension__making_fails__is_tried_again, "EXT-7")
{
    const void *out;

    open_registry();
    add(made("slow"));
    atomic_store(&refusing, 1);
    CHECK_STATUS(spn_extensions_get(x, "codec", "slow", &out, &problem), SPN_EPERM);
    CHECK(out == NULL && strstr(problem.text, "slow") != NULL);
    CHECK_EQ(get("slow"), 3);
    CHECK_EQ(atomic_load(&created), 2);
    close_registry();
    CHECK_EQ(atomic_load(&destroyed), 1);
}

/* An extension that needs another, which needs the first. */
static int make_needing(const spn_extension *self, const void *inner, const void **out)
{
    const char *needed = self->ctx;
    const void *other;
    int rc;

    (void)inner;
    /* Both are on their way before either asks for the other, if there are two threads. */
    if (atomic_fetch_add(&created, 1) == 0)
        T_AWAIT(atomic_load(&gate) != 0 || atomic_load(&created) >= 2);
    rc = spn_extensions_get(x, "codec", needed, &other, NULL);
    *out = &things[0];
    return rc;
}

static int results[2];

static void ask_for_one(int index, void *arg)
{
    const void *out;

    (void)arg;
    results[index] =
        spn_extensions_get(x, "codec", index == 0 ? "hen" : "egg", &out, NULL);
}

/* A circle is refused in one thread, and in two at once. */
TEST(extension__asks_for_itself__is_refused, "EXT-8")
{
    spn_extension hen = { .size = sizeof hen, .kind = "codec", .name = "hen" },
                  egg = hen;
    const void *out;

    hen.create = egg.create = make_needing;
    egg.name = "egg";
    hen.ctx = (void *)(uintptr_t) "egg";
    egg.ctx = (void *)(uintptr_t) "hen";
    open_registry();
    add(hen);
    add(egg);
    atomic_store(&created, 0);
    atomic_store(&gate, 1);
    CHECK_STATUS(spn_extensions_get(x, "codec", "hen", &out, &problem), SPN_EDEADLK);
    atomic_store(&created, 0);
    atomic_store(&gate, 0);
    t_parallel(2, ask_for_one, NULL);
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(results[i], SPN_EDEADLK);
    close_registry();
}

/* The keys of the kind in order; then the default. */
TEST(extension__by_url__keys_in_order, "EXT-9")
{
    static const char list[] = "dispatcher,dispather,channel.handler";
    const void *out;
    spn_url *url;

    open_registry();
    add(codec("plain", 1));
    add(codec("zip", 2));
    add(codec("dubbo", 3));
    CHECK_EQ(choose("dubbo://h?codec=zip"), 2);
    CHECK_EQ(choose("dubbo://h?codec="), 3); /* the protocol */
    CHECK_EQ(choose("zip://h"), 2);
    CHECK_EQ(choose("h?x=y"), 1);
    CHECK_EQ(choose("h?codec=true"), 1);
    url = read_url("h?codec=../../tmp/evil");
    CHECK_STATUS(spn_extensions_choose(x, "codec", url, &out, &problem), SPN_EINVAL);
    spn_url_unref(url);
    url = read_url("tri://h");
    CHECK_STATUS(spn_extensions_choose(x, "codec", url, &out, &problem), SPN_EEMPTY);
    spn_url_unref(url);
    (void)list;
    close_registry();
}

/* ---- wrappers -------------------------------------------------------------------------- */

/* What wrappers go around is a string; each puts its name around it. */
static char layers[8][64];
static int layer_count;
static char undone[128];

static int wrap(const spn_extension *self, const void *inner, const void **out)
{
    char *to = layers[layer_count++];

    if (self->ctx != NULL)
        return SPN_ENOMEM;
    (void)snprintf(to, sizeof layers[0], "%s(%.32s)", self->name, (const char *)inner);
    *out = to;
    return SPN_OK;
}

static void unwrap(const spn_extension *self, const void *instance)
{
    (void)instance;
    strcat(strcat(undone, self->name), " ");
}

static void add_wrapper(const char *name, int order, const char *only,
                        const char *except, void *fails)
{
    spn_extension e = { .size = sizeof e, .kind = "codec", .name = name };

    e.flags = SPN_EXTENSION_WRAPPER;
    e.order = order;
    e.create = wrap;
    e.destroy = unwrap;
    e.only = only;
    e.except = except;
    e.ctx = fails;
    add(e);
}

/* A wrapper that was replaced does not go around as well, whatever its order. */
TEST(extension__wrapper_replaced__only_the_newest_goes_around, "EXT-5", "EXT-10")
{
    spn_extension e = { .size = sizeof e, .kind = "codec", .name = "plain" };
    const void *out;

    layer_count = 0;
    undone[0] = '\0';
    open_registry();
    e.instance = "core";
    add(e);
    e.name = "zip";
    add(e);
    add_wrapper("around", 1, NULL, NULL, NULL);
    e = (spn_extension){ .size = sizeof e, .kind = "codec", .name = "around" };
    e.flags = SPN_EXTENSION_WRAPPER | SPN_EXTENSION_REPLACE;
    e.create = wrap;
    e.destroy = unwrap;
    e.except = "zip";
    add(e);
    CHECK_OK(spn_extensions_get(x, "codec", "plain", &out, NULL));
    CHECK_STR(out, "around(core)");
    CHECK_OK(spn_extensions_get(x, "codec", "zip", &out, NULL));
    CHECK_STR(out, "core"); /* the newest leaves it out, and the older is replaced */
    close_registry();
    CHECK_STR(undone, "around ");
}

/* Wrappers by order, the lowest outermost; restricted by name; taken off in order. */
TEST(extension__wrappers__go_around_in_order, "EXT-10", "EXT-16")
{
    spn_extension e = { .size = sizeof e, .kind = "codec", .instance = "core" };
    const void *out;

    layer_count = 0;
    undone[0] = '\0';
    open_registry();
    e.name = "plain";
    add(e);
    e.name = "zip";
    add(e);
    e.name = "raw";
    add(e);
    add_wrapper("mid", 5, NULL, "raw", NULL);
    add_wrapper("outer", -1, NULL, " raw ,x", NULL);
    add_wrapper("inner", 9, "plain,x", NULL, NULL);
    CHECK_OK(spn_extensions_get(x, "codec", "plain", &out, NULL));
    CHECK_STR(out, "outer(mid(inner(core)))");
    CHECK_OK(spn_extensions_get(x, "codec", "zip", &out, NULL));
    CHECK_STR(out, "outer(mid(core))");
    CHECK_OK(spn_extensions_get(x, "codec", "raw", &out, NULL));
    CHECK_STR(out, "core");
    CHECK_STATUS(spn_extensions_get(x, "codec", "mid", &out, &problem), SPN_EEMPTY);
    CHECK_STR(problem.text, "there is no codec 'mid'; there are: plain, raw, zip");
    CHECK_STATUS(spn_extensions_unregister(x, "codec", "mid"), SPN_EBUSY);
    close_registry();
    CHECK_STR(undone, "outer mid outer mid inner ");
    /* One that fails takes the others with it. */
    layer_count = 0;
    undone[0] = '\0';
    open_registry();
    e.name = "plain";
    add(e);
    add_wrapper("fails", 1, NULL, NULL, layers);
    add_wrapper("made", 2, NULL, NULL, NULL);
    CHECK_STATUS(spn_extensions_get(x, "codec", "plain", &out, NULL), SPN_ENOMEM);
    CHECK_STR(undone, "made ");
    close_registry();
}

/* ---- activation --------------------------------------------------------------------------- */

static void add_filter(const char *name, int order, const char *group, const char *keys)
{
    spn_extension e = { .size = sizeof e, .kind = "codec", .name = name };

    e.flags = SPN_EXTENSION_ACTIVATE;
    e.instance = name;
    e.order = order;
    e.group = group;
    e.keys = keys;
    if (strcmp(name, "first") == 0)
        e.before = "a,b";
    if (strcmp(name, "last") == 0)
        e.after = "e";
    add(e);
}

static void check_active(const char *text, const char *names, const char *group,
                         const char *expected)
{
    const void *found[8];
    spn_url *url = read_url(text);
    const int64_t count =
        spn_extensions_activate(x, "codec", url, names, group, found, 8, &problem);
    char line[128] = "";

    for (int64_t i = 0; i < count; i++)
        strcat(strcat(line, found[i]), i + 1 < count ? " " : "");
    CHECK_STR(line, expected);
    spn_url_unref(url);
}

/* Found unasked by group and key, sorted; named, excluded, and in their place. */
TEST(extension__activation__by_group_key_and_names, "EXT-11", "EXT-12")
{
    const void *found[2] = { NULL, NULL };
    spn_extension plain = { .size = sizeof plain, .kind = "codec", .name = "plain" };
    spn_url *url = read_url("h");

    open_registry();
    plain.instance = "plain";
    add(plain);
    add_filter("b", 2, "provider", NULL);
    add_filter("a", 2, "provider,consumer", NULL);
    add_filter("c", 1, "consumer", NULL);
    add_filter("first", 9, "provider", NULL);
    add_filter("e", 5, "", "cache,mode:fast");
    add_filter("last", -9, "", "cache");
    check_active("h", NULL, "provider", "first a b");
    check_active("h", NULL, "consumer", "c a");
    check_active("h", "", "", "c first a b");
    check_active("h?cache=1", NULL, "consumer", "c a e last");
    check_active("h?cache=", NULL, "consumer", "c a");
    check_active("h?mode=fast", NULL, "consumer", "c a e");
    check_active("h?mode=slow", NULL, "consumer", "c a");
    check_active("h?say.cache=1", NULL, "consumer", "c a e last");
    check_active("h", "-a", "provider", "first b");
    check_active("h", "-default,c", "provider", "c");
    check_active("h", "plain,default,c", "provider", "plain first a b c");
    check_active("h", "b,default", "provider", "b first a");
    check_active("h", "plain,c", "provider", "plain c first a b");
    check_active("h", "plain,-plain,default", "consumer", "c a");
    CHECK_EQ(spn_extensions_activate(x, "codec", url, "nobody", NULL, found, 2,
                                     &problem),
             SPN_EEMPTY);
    CHECK_EQ(spn_extensions_activate(x, "codec", url, NULL, NULL, found, 2, &problem),
             4);
    CHECK(found[1] != NULL);
    spn_url_unref(url);
    close_registry();
}

/* ---- shared objects --------------------------------------------------------------------------- */

static void note_names(void *ctx, const spn_extension *e, const char *origin)
{
    (void)origin;
    strcat(strcat(ctx, e->name), " ");
}

/* A picture of the whole registry. */
static const char *all(void)
{
    static char text[2][1024];
    static int next;
    char *to = text[next++ % 2];

    to[0] = '\0';
    CHECK_OK(spn_extensions_each_kind(x, note_kind, to));
    CHECK_OK(spn_extensions_each(x, SPN_KIND_THREADPOOL, note_names, to));
    CHECK_OK(spn_extensions_each(x, "codec", note_names, to));
    return to;
}

/* Every way an object can be wrong: told with its name, and nothing of it stays. */
TEST(extension__wrong_objects__leave_nothing, "EXT-14")
{
    static const struct {
        const char *file, *says;
        int rc;
    } wrong[] = {
        { "/nowhere/x.so", "cannot be opened", SPN_EINVAL },
        { __FILE__, "cannot be opened", SPN_EINVAL },
        { PLUGIN_DIRECTORY "/plugin_abi.so", "ABI", SPN_EINVAL },
        { PLUGIN_DIRECTORY "/plugin_mute.so", SPN_PLUGIN_ENTRY, SPN_EINVAL },
        { PLUGIN_DIRECTORY "/plugin_refuses.so", "refuses", SPN_EINVAL },
        { PLUGIN_DIRECTORY "/plugin_size.so", "size", SPN_EINVAL },
        { PLUGIN_DIRECTORY "/plugin_half.so", "No Name", SPN_EINVAL },
        { PLUGIN_DIRECTORY "/plugin_taken.so", "'fixed'", SPN_EBUSY },
    };
    const char *before;
    long live;

    open_registry();
    before = all();
    live = atomic_load(&counting_live);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_STATUS(spn_extensions_load(x, wrong[i].file, &problem), wrong[i].rc);
        if (!CHECK(strstr(problem.text, wrong[i].says) != NULL &&
                   strstr(problem.text, wrong[i].file) != NULL))
            printf("  %s\n", problem.text);
        CHECK_STR(all(), before);
        CHECK_EQ(atomic_load(&counting_live), live);
        CHECK_STATUS(spn_extensions_load(x, wrong[i].file, NULL), wrong[i].rc);
    }
    close_registry();
}

/* A good object: by path, twice, and found by kind and name. */
TEST(extension__good_object__is_loaded_once, "EXT-13", "EXT-15", "EXT-18")
{
    static const char good[] = PLUGIN_DIRECTORY "/spindle_codec_fromfile.so";
    const void *out;
    char text[512] = "";

    open_registry();
    CHECK_OK(spn_extensions_load(x, good, &problem));
    CHECK_OK(spn_extensions_load(x, good, &problem));
    CHECK_OK(spn_extensions_get(x, "letter", NULL, &out, &problem));
    CHECK_EQ(*(const int *)out, 42);
    CHECK_OK(spn_extensions_each(x, "letter", note, text));
    CHECK(strstr(text, "loaded/" PLUGIN_DIRECTORY) != NULL);
    CHECK_STATUS(spn_extensions_unregister(x, "letter", "other"), SPN_EEMPTY);
    close_registry();

    open_registry();
    /* The file is there, but has no such codec: loaded, and said so. */
    CHECK_STATUS(spn_extensions_get(x, "codec", "fromfile", &out, &problem),
                 SPN_EEMPTY);
    CHECK_OK(spn_extensions_get(x, "letter", "loaded", &out, &problem));
    CHECK_STATUS(spn_extensions_get(x, "codec", "notthere", &out, &problem),
                 SPN_EEMPTY);
    close_registry();
}

static void load_one(int index, void *arg)
{
    (void)index;
    (void)arg;
    CHECK_OK(
        spn_extensions_load(x, PLUGIN_DIRECTORY "/spindle_codec_fromfile.so", NULL));
}

/* Many threads load the same object: once. */
TEST(extension__loaded_by_many__is_there_once, "EXT-15")
{
    char text[512] = "";

    open_registry();
    t_parallel(T_THREADS, load_one, NULL);
    CHECK_OK(spn_extensions_each(x, "letter", note_names, text));
    CHECK_STR(text, "loaded other ");
    close_registry();
}
