/* SPDX-License-Identifier: MIT */
/*
 * Loops, reductions and sorts on a fork/join pool, each against a model that does
 * the same one after the other.
 */
#include "fj_pools.h"
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <spindle.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const size_t sizes[] = { 0, 1, 2, 3, 7, 64, 997, 1025, 4099 };
static const size_t grains[] = { 0, 1, 2, 5, 64, 1000, SIZE_MAX };
#define parallelisms fj_parallelisms

static spn_parallel_opts with_grain(size_t grain)
{
    spn_parallel_opts opts = SPN_PARALLEL_OPTS_INIT;

    opts.grain = grain;
    return opts;
}

/* ---- loops --------------------------------------------------------------------------- */

struct visits {
    size_t begin, count, grain;
    atomic_uchar *times; /* for each index                    */
    atomic_size_t parts;
    atomic_bool odd_part; /* one of a wrong size               */
};

static int visit(void *arg, size_t begin, size_t end)
{
    struct visits *v = arg;

    atomic_fetch_add(&v->parts, 1);
    if (end <= begin || (v->grain != 0 && end - begin > v->grain) ||
        (v->grain != 0 && v->count > v->grain && end - begin < (v->grain + 1) / 2))
        atomic_store(&v->odd_part, true);
    for (size_t i = begin; i < end; i++)
        atomic_fetch_add(&v->times[i - v->begin], 1);
    return 0;
}

static size_t check_loop(spn_fj_pool *pool, size_t begin, size_t count, size_t grain)
{
    struct visits v = { .begin = begin, .count = count, .grain = grain };
    const spn_parallel_opts opts = with_grain(grain);
    size_t wrong = 0;

    v.times = calloc(count + 1, sizeof(v.times[0]));
    REQUIRE(v.times != NULL);
    CHECK_OK(spn_parallel_for(pool, begin, begin + count, visit, &v, &opts));
    for (size_t i = 0; i < count; i++)
        wrong += atomic_load(&v.times[i]) != 1;
    CHECK_EQ(wrong, 0);
    CHECK(!atomic_load(&v.odd_part));
    free(v.times);
    return atomic_load(&v.parts);
}

/* Each index is visited once, in parts of the right size, and there are as many parts
 * whatever the pool. */
TEST(parallel_for__any_size_and_grain__visits_each_index_once)
{
    for (size_t s = 0; s < COUNT(sizes); s++)
        for (size_t g = 0; g < COUNT(grains); g++) {
            size_t parts[COUNT(parallelisms)];

            for (size_t p = 0; p < COUNT(parallelisms); p++) {
                spn_fj_pool *pool = fj_open(parallelisms[p]);

                parts[p] = check_loop(pool, s * 17, sizes[s], grains[g]);
                CHECK_EQ(parts[p], parts[0]);
                fj_shut(pool);
            }
            if (grains[g] == 0)
                CHECK(parts[0] <= 2048);
        }
}

/* A range may end where size_t does. */
TEST(parallel_for__at_the_end_of_size_t__does_not_wrap)
{
    spn_fj_pool *pool = fj_open(2);

    (void)check_loop(pool, SIZE_MAX - 1000, 1000, 1);
    (void)check_loop(pool, SIZE_MAX - 1000, 1000, 0);
    fj_shut(pool);
}

/* Without options the grain is chosen. */
TEST(parallel_for__no_options__works)
{
    spn_fj_pool *pool = fj_open(2);
    struct visits v = { .count = 1000 };

    v.times = calloc(1000, sizeof(v.times[0]));
    REQUIRE(v.times != NULL);
    CHECK_OK(spn_parallel_for(pool, 0, 1000, visit, &v, NULL));
    CHECK_EQ(atomic_load(&v.parts), 1000);
    free(v.times);
    fj_shut(pool);
}

/* ---- who may call ---------------------------------------------------------------------- */

static int add_up(void *arg, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++)
        atomic_fetch_add((atomic_size_t *)arg, i);
    return 0;
}

static int nested(void *arg, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++) {
        const int rc = spn_parallel_for(NULL, 0, 100, add_up, arg, NULL);

        if (rc != SPN_OK)
            return rc;
    }
    return 0;
}

/* Inside a part there is a pool already: NULL is that one. */
TEST(parallel_for__inside_a_part__uses_the_same_pool)
{
    for (size_t p = 0; p < COUNT(parallelisms); p++) {
        spn_fj_pool *pool = fj_open(parallelisms[p]);
        atomic_size_t sum = 0;

        CHECK_OK(spn_parallel_for(pool, 0, 50, nested, &sum, NULL));
        CHECK_EQ(atomic_load(&sum), 50 * 4950);
        fj_shut(pool);
    }
}

struct crossing {
    spn_fj_pool *other;
    atomic_size_t sum;
};

static int cross(spn_fj fj, void *arg)
{
    struct crossing *c = arg;

    (void)fj;
    return spn_parallel_for(c->other, 0, 1000, add_up, &c->sum, NULL);
}

/* A task of one pool may have another do its loop, at parallelism 1 too. */
TEST(parallel_for__from_another_pool__is_done_there)
{
    spn_fj_pool *here = fj_open(1), *there = fj_open(1);
    struct crossing c = { .other = there };

    CHECK_OK(spn_fj_run(here, cross, &c));
    CHECK_EQ(atomic_load(&c.sum), 499500);
    fj_shut(here);
    fj_shut(there);
}

static int fork_and_loop(spn_fj fj, void *arg)
{
    atomic_size_t *sum = arg;
    int rc, joined;

    /* Records that are out when the loop begins stay what they are. */
    spn_fj_fork(&fj, cross, &(struct crossing){ .other = spn_fj_pool_current() });
    spn_fj_fork(&fj, cross, &(struct crossing){ .other = spn_fj_pool_current() });
    rc = spn_parallel_for(NULL, 0, 1000, add_up, sum, NULL);
    joined = spn_fj_join(&fj);
    if (joined == 0)
        joined = spn_fj_join(&fj);
    return rc != 0 ? rc : joined;
}

/* A body that has forked may call a loop before it joins. */
TEST(parallel_for__between_fork_and_join__leaves_the_records_alone)
{
    for (size_t p = 0; p < COUNT(parallelisms); p++) {
        spn_fj_pool *pool = fj_open(parallelisms[p]);

        for (int i = 0; i < t_rounds(200); i++) {
            atomic_size_t sum = 0;

            CHECK_OK(spn_fj_run(pool, fork_and_loop, &sum));
            CHECK_EQ(atomic_load(&sum), 499500);
        }
        fj_shut(pool);
    }
}

/* With a lock held that other tasks of the pool want (pitfall P7). */
struct locked {
    pthread_mutex_t lock;
    atomic_int ran;
};

static int want_lock(void *arg)
{
    struct locked *l = arg;

    pthread_mutex_lock(&l->lock);
    atomic_fetch_add(&l->ran, 1);
    pthread_mutex_unlock(&l->lock);
    return 0;
}

static int loop_with_lock(spn_fj fj, void *arg)
{
    struct locked *l = arg;
    atomic_size_t sum = 0;
    int rc;

    (void)fj;
    pthread_mutex_lock(&l->lock);
    for (int i = 0; i < 8; i++)
        if (spn_executor_call(spn_fj_pool_executor(spn_fj_pool_current()), want_lock,
                              l) != SPN_OK)
            atomic_fetch_add(&l->ran, 100);
    rc = spn_parallel_for(NULL, 0, 10000, add_up, &sum, NULL);
    CHECK_EQ(atomic_load(&sum), 49995000);
    pthread_mutex_unlock(&l->lock);
    return rc;
}

TEST(parallel_for__with_a_lock_held__runs_no_task_that_wants_it, "P7")
{
    for (size_t p = 0; p < COUNT(parallelisms); p++) {
        struct locked l = { .lock = PTHREAD_MUTEX_INITIALIZER };
        spn_fj_pool *pool = fj_open(parallelisms[p]);

        CHECK_OK(spn_fj_run(pool, loop_with_lock, &l));
        CHECK_OK(spn_fj_pool_await_quiescence(pool, SPN_FOREVER));
        CHECK_EQ(atomic_load(&l.ran), 8);
        fj_shut(pool);
    }
}

/* A pool that is shut down takes no loop from outside, and nothing has run. */
TEST(parallel__pool_shut_down__refuses)
{
    spn_fj_pool *pool = fj_open(2);
    atomic_size_t sum = 0;

    CHECK_OK(spn_executor_shutdown(spn_fj_pool_executor(pool)));
    CHECK_OK(spn_executor_await(spn_fj_pool_executor(pool), SPN_FOREVER));
    CHECK_STATUS(spn_parallel_for(pool, 0, 10, add_up, &sum, NULL), SPN_EREJECTED);
    CHECK_EQ(atomic_load(&sum), 0);
    CHECK_OK(spn_fj_pool_destroy(pool));
}

/* ---- failure and cancelling ---------------------------------------------------------------- */

struct failing {
    size_t at;
    int status;
    atomic_int parts;
    spn_cancel_token *token; /* cancelled at `at`, if there is one */
};

static int fail_at(void *arg, size_t begin, size_t end)
{
    struct failing *f = arg;

    atomic_fetch_add(&f->parts, 1);
    if (f->at < begin || f->at >= end)
        return 0;
    if (f->token != NULL)
        (void)spn_cancel_token_cancel(f->token, SPN_ECANCELED);
    return f->status;
}

/* The call returns what the part did. */
TEST(parallel_for__a_part_fails__returns_its_status)
{
    static const int statuses[] = { -77, 5, SPN_ENOMEM };

    for (size_t p = 0; p < COUNT(parallelisms); p++) {
        spn_fj_pool *pool = fj_open(parallelisms[p]);

        for (size_t i = 0; i < COUNT(statuses); i++)
            for (size_t at = 0; at < 1000; at += 111) {
                const spn_parallel_opts opts = with_grain(1);
                struct failing f = { .at = at, .status = statuses[i] };

                CHECK_STATUS(spn_parallel_for(pool, 0, 1000, fail_at, &f, &opts),
                             statuses[i]);
            }
        fj_shut(pool);
    }
}

/* With one worker parts run in order: after a failure none does. */
TEST(parallel_for__a_part_fails__later_parts_are_left_out)
{
    const spn_parallel_opts opts = with_grain(1);
    spn_fj_pool *pool = fj_open(1);
    struct failing f = { .at = 0, .status = -1 };

    CHECK_STATUS(spn_parallel_for(pool, 0, 1000, fail_at, &f, &opts), -1);
    CHECK_EQ(atomic_load(&f.parts), 1);
    fj_shut(pool);
}

static int fail_inside(spn_fj fj, void *arg)
{
    struct failing f = { .at = 3, .status = -5 };

    (void)arg;
    CHECK_STATUS(spn_parallel_for(NULL, 0, 10, fail_at, &f, NULL), -5);
    return spn_fj_status(fj);
}

/* A failed loop is its caller's business: the tree around it goes on. */
TEST(parallel_for__fails_inside_a_task__the_tree_goes_on)
{
    spn_fj_pool *pool = fj_open(2);

    CHECK_OK(spn_fj_run(pool, fail_inside, NULL));
    fj_shut(pool);
}

TEST(parallel_for__token_cancelled_before__runs_nothing)
{
    spn_parallel_opts opts = with_grain(1);
    spn_fj_pool *pool = fj_open(2);
    struct failing f = { .at = SIZE_MAX };

    REQUIRE_OK(spn_cancel_token_create(&opts.cancel, NULL));
    CHECK_EQ(spn_cancel_token_cancel(opts.cancel, -9), 1);
    CHECK_STATUS(spn_parallel_for(pool, 0, 1000, fail_at, &f, &opts), SPN_ECANCELED);
    CHECK_EQ(atomic_load(&f.parts), 0);
    /* Nothing to do is done. */
    CHECK_OK(spn_parallel_for(pool, 5, 5, fail_at, &f, &opts));
    spn_cancel_token_unref(opts.cancel);
    fj_shut(pool);
}

TEST(parallel_for__token_cancelled_by_a_part__later_parts_are_left_out)
{
    spn_parallel_opts opts = with_grain(1);
    spn_fj_pool *pool = fj_open(1);
    struct failing f = { .at = 10 };

    REQUIRE_OK(spn_cancel_token_create(&opts.cancel, NULL));
    f.token = opts.cancel;
    CHECK_STATUS(spn_parallel_for(pool, 0, 1000, fail_at, &f, &opts), SPN_ECANCELED);
    CHECK_EQ(atomic_load(&f.parts), 11);
    spn_cancel_token_unref(opts.cancel);
    fj_shut(pool);
}

/* If the last part cancels, all has been done. */
TEST(parallel_for__token_cancelled_by_the_last_part__is_done)
{
    spn_parallel_opts opts = with_grain(1);
    spn_fj_pool *pool = fj_open(1);
    struct failing f = { .at = 99 };

    REQUIRE_OK(spn_cancel_token_create(&opts.cancel, NULL));
    f.token = opts.cancel;
    CHECK_OK(spn_parallel_for(pool, 0, 100, fail_at, &f, &opts));
    CHECK_EQ(atomic_load(&f.parts), 100);
    spn_cancel_token_unref(opts.cancel);
    fj_shut(pool);
}

/* ---- reductions ---------------------------------------------------------------------------------- */

/* x -> a x + b: composition is associative and not commutative, so any wrong order
 * shows; the padding makes values too large for a frame. */
struct affine {
    uint64_t a, b;
};
struct large {
    struct affine f;
    uint64_t padding[30];
};

static struct affine compose(struct affine first, struct affine then)
{
    return (struct affine){ then.a * first.a, then.a * first.b + then.b };
}

static struct affine at_index(size_t i)
{
    return (struct affine){ 2 * i + 3, i * i + 1 };
}

static int fold_affine(void *arg, size_t begin, size_t end, void *value)
{
    struct affine *f = value;

    (void)arg;
    for (size_t i = begin; i < end; i++)
        *f = compose(*f, at_index(i));
    return 0;
}

static int join_affine(void *arg, void *left, void *right)
{
    struct affine *f = left;

    (void)arg;
    *f = compose(*f, *(const struct affine *)right);
    return 0;
}

TEST(parallel_reduce__any_size_and_grain__keeps_the_order)
{
    for (size_t p = 0; p < COUNT(parallelisms); p++) {
        spn_fj_pool *pool = fj_open(parallelisms[p]);

        for (size_t s = 0; s < COUNT(sizes); s++)
            for (size_t g = 0; g < COUNT(grains); g++) {
                const spn_parallel_opts opts = with_grain(grains[g]);
                struct affine model = { 1, 0 }, small = { 1, 0 };
                struct large large = { .f = { 1, 0 } };
                const size_t begin = s * 31;

                for (size_t i = 0; i < COUNT(large.padding); i++)
                    large.padding[i] = i;
                (void)fold_affine(NULL, begin, begin + sizes[s], &model);
                CHECK_OK(spn_parallel_reduce(pool, begin, begin + sizes[s], &small,
                                             sizeof small, fold_affine, join_affine,
                                             NULL, &opts));
                CHECK_OK(spn_parallel_reduce(pool, begin, begin + sizes[s], &large,
                                             sizeof large, fold_affine, join_affine,
                                             NULL, &opts));
                CHECK(memcmp(&small, &model, sizeof model) == 0);
                CHECK(memcmp(&large.f, &model, sizeof model) == 0);
                for (size_t i = 0; i < COUNT(large.padding); i++)
                    CHECK_EQ(large.padding[i], i);
            }
        fj_shut(pool);
    }
}

static int fold_harmonic(void *arg, size_t begin, size_t end, void *value)
{
    (void)arg;
    for (size_t i = begin; i < end; i++)
        *(double *)value += 1.0 / (double)(i + 1);
    return 0;
}

static int join_double(void *arg, void *left, void *right)
{
    (void)arg;
    *(double *)left += *(const double *)right;
    return 0;
}

/* A floating point sum has the same bits on every run and every pool. */
TEST(parallel_reduce__floating_point__is_repeatable)
{
    double first = 0;

    for (size_t p = 0; p < COUNT(parallelisms); p++) {
        spn_fj_pool *pool = fj_open(parallelisms[p]);

        for (int i = 0; i < 5; i++) {
            double sum = 0;

            CHECK_OK(spn_parallel_reduce(pool, 0, 50000, &sum, sizeof sum,
                                         fold_harmonic, join_double, NULL, NULL));
            if (p == 0 && i == 0)
                first = sum;
            CHECK(memcmp(&sum, &first, sizeof sum) == 0);
        }
        fj_shut(pool);
    }
    CHECK(first > 11.396 && first < 11.398);
}

static int fold_failing(void *arg, size_t begin, size_t end, void *value)
{
    *(int *)value += 1;
    return fail_at(arg, begin, end);
}

static int join_failing(void *arg, void *left, void *right)
{
    (void)arg;
    *(int *)left += *(int *)right;
    return -6;
}

static int join_ints(void *arg, void *left, void *right)
{
    (void)arg;
    *(int *)left += *(int *)right;
    return 0;
}

/* The caller's value is replaced by the result or not at all. */
TEST(parallel_reduce__fails_or_is_cancelled__leaves_the_value)
{
    spn_parallel_opts opts = with_grain(1);
    spn_fj_pool *pool = fj_open(2);
    struct failing f = { .at = 60, .status = -8 }, none = { .at = SIZE_MAX };
    int value = 42;

    CHECK_STATUS(spn_parallel_reduce(pool, 0, 100, &value, sizeof value, fold_failing,
                                     join_ints, &f, &opts),
                 -8);
    CHECK_EQ(value, 42);
    CHECK_STATUS(spn_parallel_reduce(pool, 0, 100, &value, sizeof value, fold_failing,
                                     join_failing, &none, &opts),
                 -6);
    CHECK_EQ(value, 42);
    REQUIRE_OK(spn_cancel_token_create(&opts.cancel, NULL));
    CHECK_EQ(spn_cancel_token_cancel(opts.cancel, SPN_ECANCELED), 1);
    CHECK_STATUS(spn_parallel_reduce(pool, 0, 100, &value, sizeof value, fold_failing,
                                     join_ints, &none, &opts),
                 SPN_ECANCELED);
    CHECK_EQ(value, 42);
    CHECK_OK(spn_parallel_reduce(pool, 7, 7, &value, sizeof value, fold_failing,
                                 join_ints, &none, &opts));
    CHECK_EQ(value, 42);
    spn_cancel_token_unref(opts.cancel);
    fj_shut(pool);
}

/* ---- sorts ------------------------------------------------------------------------------------------ */

/* An element of `size` bytes: as much of a key and of its first position as fit, then
 * bytes that follow from both, so that a torn element shows. */
enum { KEY_BYTES = 4, PLACE_BYTES = 4 };

struct shape {
    size_t size;
    atomic_long compares;
    spn_cancel_token *cancel_at; /* cancelled by comparison number `limit` */
    long limit;
    bool nonsense; /* answers what it likes */
};

static uint32_t key_of(const struct shape *s, const void *element)
{
    uint32_t key = 0;

    memcpy(&key, element, s->size < KEY_BYTES ? s->size : KEY_BYTES);
    return key;
}

static uint32_t place_of(const struct shape *s, const unsigned char *element)
{
    uint32_t place = 0;

    if (s->size >= KEY_BYTES + PLACE_BYTES)
        memcpy(&place, element + KEY_BYTES, PLACE_BYTES);
    return place;
}

static unsigned char filler(uint32_t key, uint32_t place, size_t i)
{
    return (unsigned char)(key * 31 + place * 17 + i);
}

static void put(const struct shape *s, unsigned char *element, uint32_t key,
                uint32_t place)
{
    memcpy(element, &key, s->size < KEY_BYTES ? s->size : KEY_BYTES);
    if (s->size >= KEY_BYTES + PLACE_BYTES)
        memcpy(element + KEY_BYTES, &place, PLACE_BYTES);
    for (size_t i = KEY_BYTES + PLACE_BYTES; i < s->size; i++)
        element[i] = filler(key, place, i);
}

static bool is_whole(const struct shape *s, const unsigned char *element)
{
    const uint32_t key = key_of(s, element), place = place_of(s, element);

    for (size_t i = KEY_BYTES + PLACE_BYTES; i < s->size; i++)
        if (element[i] != filler(key, place, i))
            return false;
    return true;
}

static int compare_keys(void *arg, const void *a, const void *b)
{
    struct shape *s = arg;
    const long n = atomic_fetch_add(&s->compares, 1);
    const uint32_t x = key_of(s, a), y = key_of(s, b);

    if (s->cancel_at != NULL && n == s->limit)
        (void)spn_cancel_token_cancel(s->cancel_at, SPN_ECANCELED);
    if (s->nonsense) {
        uint64_t seed = (uint64_t)n;

        return (int)(t_random(&seed) % 3) - 1;
    }
    return (x > y) - (x < y);
}

enum pattern { RANDOM, FEW_KEYS, ALL_EQUAL, SORTED, REVERSED, ORGAN, PATTERNS };

static uint32_t key_at(enum pattern pattern, size_t i, size_t n, uint64_t *seed)
{
    switch (pattern) {
    case RANDOM:
        return (uint32_t)t_random(seed);
    case FEW_KEYS:
        return (uint32_t)(t_random(seed) % 7);
    case ALL_EQUAL:
        return 5;
    case SORTED:
        return (uint32_t)i;
    case REVERSED:
        return (uint32_t)(n - i);
    default:
        return (uint32_t)(i < n / 2 ? i : n - i);
    }
}

/* What was put in, to compare with: keys and places in the stable order. */
struct expected {
    uint32_t key, place;
};

static int compare_expected(const void *a, const void *b)
{
    const struct expected *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

struct sorting {
    struct shape shape;
    size_t count;
    unsigned char *elements, *scratch;
    struct expected *model; /* sorted */
};

static void sorting_open(struct sorting *s, size_t size, size_t count,
                         enum pattern pattern, uint64_t *seed)
{
    *s = (struct sorting){ .count = count };
    s->shape.size = size;
    s->elements = malloc(count * size + 1);
    s->scratch = malloc(count * size + 1);
    s->model = malloc(count * sizeof(s->model[0]) + 1);
    REQUIRE(s->elements != NULL && s->scratch != NULL && s->model != NULL);
    for (size_t i = 0; i < count; i++) {
        put(&s->shape, s->elements + i * size, key_at(pattern, i, count, seed),
            (uint32_t)i);
        s->model[i] =
            (struct expected){ key_of(&s->shape, s->elements + i * size), (uint32_t)i };
    }
    qsort(s->model, count, sizeof(s->model[0]), compare_expected);
}

static void sorting_close(struct sorting *s)
{
    free(s->elements);
    free(s->scratch);
    free(s->model);
}

/* Sorted, stable, and each element whole. */
static size_t sorting_wrong(const struct sorting *s)
{
    const struct shape *shape = &s->shape;
    size_t wrong = 0;

    for (size_t i = 0; i < s->count; i++) {
        const unsigned char *element = s->elements + i * shape->size;
        const bool has_place = shape->size >= KEY_BYTES + PLACE_BYTES;

        wrong += key_of(shape, element) != s->model[i].key ||
                 (has_place && place_of(shape, element) != s->model[i].place) ||
                 !is_whole(shape, element);
    }
    return wrong;
}

/* The same elements in any order. */
static size_t sorting_lost(struct sorting *s)
{
    struct expected *found = malloc(s->count * sizeof(found[0]) + 1);
    size_t wrong = 0;

    REQUIRE(found != NULL);
    for (size_t i = 0; i < s->count; i++) {
        const unsigned char *element = s->elements + i * s->shape.size;

        found[i] = (struct expected){ key_of(&s->shape, element),
                                      place_of(&s->shape, element) };
        wrong += !is_whole(&s->shape, element);
    }
    qsort(found, s->count, sizeof(found[0]), compare_expected);
    for (size_t i = 0; i < s->count; i++)
        wrong += memcmp(&found[i], &s->model[i], sizeof(found[i])) != 0;
    free(found);
    return wrong;
}

/* Sorted, stable and whole, whatever the size, order and grain. */
TEST(parallel_sort__any_array__is_sorted_and_stable, "FJT-28")
{
    static const size_t counts[] = { 0, 1, 2, 3, 13, 97, 1007 };
    static const size_t element_sizes[] = { 1, 4, 8, 12, 16, 100 };
    static const size_t some_grains[] = { 0, 1, 3, 50 };
    uint64_t seed = t_seed();

    for (size_t p = 0; p < COUNT(parallelisms); p++) {
        spn_fj_pool *pool = fj_open(parallelisms[p]);

        for (size_t c = 0; c < COUNT(counts); c++)
            for (size_t z = 0; z < COUNT(element_sizes); z++)
                for (int pattern = 0; pattern < PATTERNS; pattern++) {
                    spn_parallel_opts opts = with_grain(some_grains[(c + z) % 4]);
                    struct sorting s;

                    sorting_open(&s, element_sizes[z], counts[c], (enum pattern)pattern,
                                 &seed);
                    if (pattern % 2 != 0)
                        opts.scratch = s.scratch;
                    s.scratch[counts[c] * element_sizes[z]] = 0x5a;
                    CHECK_OK(spn_parallel_sort(pool, s.elements, s.count, s.shape.size,
                                               compare_keys, &s.shape, &opts));
                    CHECK_EQ(sorting_wrong(&s), 0);
                    CHECK_EQ(s.scratch[counts[c] * element_sizes[z]], 0x5a);
                    sorting_close(&s);
                }
        fj_shut(pool);
    }
}

/* Large enough that every part is stolen now and then. */
TEST(parallel_sort__large__is_sorted_and_stable)
{
    const size_t count = (size_t)t_rounds(200000);
    uint64_t seed = t_seed();

    for (size_t p = 0; p < COUNT(parallelisms); p++) {
        spn_fj_pool *pool = fj_open(parallelisms[p]);
        struct sorting s;

        sorting_open(&s, 8, count, FEW_KEYS, &seed);
        CHECK_OK(spn_parallel_sort(pool, s.elements, count, 8, compare_keys, &s.shape,
                                   NULL));
        CHECK_EQ(sorting_wrong(&s), 0);
        sorting_close(&s);
        fj_shut(pool);
    }
}

/* An array that is sorted takes no more than two comparisons an element. */
TEST(parallel_sort__sorted_already__compares_little)
{
    spn_fj_pool *pool = fj_open(1);
    uint64_t seed = t_seed();
    struct sorting s;

    sorting_open(&s, 4, 20000, SORTED, &seed);
    CHECK_OK(
        spn_parallel_sort(pool, s.elements, s.count, 4, compare_keys, &s.shape, NULL));
    CHECK_EQ(sorting_wrong(&s), 0);
    CHECK(atomic_load(&s.shape.compares) < 40000);
    sorting_close(&s);
    fj_shut(pool);
}

/* A compare function that makes no sense cannot lose or tear an element. */
TEST(parallel_sort__compare_is_no_order__keeps_the_elements)
{
    uint64_t seed = t_seed();

    for (size_t p = 0; p < COUNT(parallelisms); p++) {
        spn_fj_pool *pool = fj_open(parallelisms[p]);

        for (size_t count = 0; count < 3000; count = count * 2 + 1) {
            const spn_parallel_opts opts = with_grain(count % 5 + 1);
            struct sorting s;

            sorting_open(&s, 24, count, RANDOM, &seed);
            s.shape.nonsense = true;
            CHECK_OK(spn_parallel_sort(pool, s.elements, count, 24, compare_keys,
                                       &s.shape, &opts));
            CHECK_EQ(sorting_lost(&s), 0);
            sorting_close(&s);
        }
        fj_shut(pool);
    }
}

/* Cancelled at any time, it has all its elements; cancelled too late, it is sorted. */
TEST(parallel_sort__cancelled__keeps_the_elements)
{
    uint64_t seed = t_seed();
    int cancelled = 0;

    for (size_t p = 0; p < COUNT(parallelisms); p++) {
        spn_fj_pool *pool = fj_open(parallelisms[p]);

        for (long limit = -1; limit < 20000; limit += 1 + limit / 4 + (limit < 0)) {
            spn_parallel_opts opts = with_grain(16);
            struct sorting s;
            int rc;

            REQUIRE_OK(spn_cancel_token_create(&opts.cancel, NULL));
            if (limit < 0)
                (void)spn_cancel_token_cancel(opts.cancel, -1);
            sorting_open(&s, 12, 1009, RANDOM, &seed);
            s.shape.cancel_at = opts.cancel;
            s.shape.limit = limit;
            rc = spn_parallel_sort(pool, s.elements, s.count, 12, compare_keys,
                                   &s.shape, &opts);
            CHECK(rc == SPN_OK || rc == SPN_ECANCELED);
            cancelled += rc == SPN_ECANCELED;
            CHECK_EQ(rc == SPN_OK ? sorting_wrong(&s) : sorting_lost(&s), 0);
            sorting_close(&s);
            spn_cancel_token_unref(opts.cancel);
        }
        fj_shut(pool);
    }
    CHECK(cancelled > 10);
}

/* ---- arguments --------------------------------------------------------------------------------------- */

TEST(parallel__no_pool__is_refused)
{
    atomic_size_t sum = 0;
    int value = 0, array[2] = { 2, 1 };
    struct shape shape = { .size = sizeof(int) };

    CHECK_STATUS(spn_parallel_for(NULL, 0, 10, add_up, &sum, NULL), SPN_EINVAL);
    CHECK_STATUS(spn_parallel_reduce(NULL, 0, 10, &value, sizeof value, fold_failing,
                                     join_ints, NULL, NULL),
                 SPN_EINVAL);
    CHECK_STATUS(spn_parallel_sort(NULL, array, 2, sizeof(int), compare_keys, &shape,
                                   NULL),
                 SPN_EINVAL);
    CHECK_EQ(atomic_load(&sum), 0);
    CHECK_EQ(array[0], 2);
}

/* All of it from within: the sort and the reduction as tasks of a pool. */
static void sort_within(void *arg)
{
    uint64_t seed = t_seed();
    double sum = 0;
    struct sorting s;

    (void)arg;
    sorting_open(&s, 8, 5003, RANDOM, &seed);
    CHECK_OK(
        spn_parallel_sort(NULL, s.elements, s.count, 8, compare_keys, &s.shape, NULL));
    CHECK_EQ(sorting_wrong(&s), 0);
    sorting_close(&s);
    CHECK_OK(spn_parallel_reduce(NULL, 0, 1000, &sum, sizeof sum, fold_harmonic,
                                 join_double, NULL, NULL));
    CHECK(sum > 7.48 && sum < 7.49);
}

TEST(parallel__inside_a_task__works)
{
    FJ_EACH_PARALLELISM(p)
    fj_inside_new(p, sort_within, NULL);
}
