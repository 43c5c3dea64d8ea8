/* SPDX-License-Identifier: MIT */
/* How a dispatch is made of a URL and options, and what it refuses. */
#include <stddef.h>

#include "channel_bed.h"
#include "pool_calls.h"

/* ---- made of a URL ------------------------------------------------------------------ */

/* What is wrong is named in words; nothing is made, and *out is NULL. */
TEST(channel__urls_that_cannot_be__refused_in_words, "CH-19")
{
    static const struct {
        const char *query;
        int status; /* SPN_EINVAL stands for SPN_ERANGE too */
        const char *texts[3];
    } cases[] = {
        { "dispatcher=fast", SPN_EEMPTY, { "fast", "execution", "connection" } },
        { "dispatcher=fast&threads=x", SPN_EEMPTY, { "fast", "direct", "message" } },
        { "threadpool=elastic", SPN_EEMPTY, { "elastic", "cached", "fixed" } },
        { "threads=many", SPN_EINVAL, { "threads", "many" } },
        { "threads=99999999999", SPN_EINVAL, { "threads" } },
        { "queues=x", SPN_EINVAL, { "queues" } },
        { "inflight=-1", SPN_EINVAL, { "inflight=-1" } },
        { "inflight=some", SPN_EINVAL, { "inflight=some" } },
        { "inflight=5000000000", SPN_EINVAL, { "inflight=5000000000" } },
        { "inflight.address=-2", SPN_EINVAL, { "inflight.address=-2" } },
        { "queue.target=-50", SPN_EINVAL, { "queue.target=-50" } },
        { "queue.target=soon", SPN_EINVAL, { "queue.target=soon" } },
        { "dispatcher=connection&connect.queue.capacity=x",
          SPN_EINVAL,
          { "connect.queue.capacity" } },
        { "dispatcher=connection&connect.queue.warning.size=x",
          SPN_EINVAL,
          { "connect.queue.warning.size" } },
    };
    struct bed bed;

    bed_init(&bed);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        spn_problem problem = SPN_PROBLEM_INIT;
        int rc;

        bed.dispatch = (void *)&bed;
        rc = bed_dispatch(&bed, cases[i].query, NULL, &problem);
        if (!CHECK(rc == cases[i].status ||
                   (cases[i].status == SPN_EINVAL && rc == SPN_ERANGE)))
            printf("  %s: %s\n", cases[i].query, spn_status_name(rc));
        CHECK(bed.dispatch == NULL);
        for (int n = 0; n < 3 && cases[i].texts[n] != NULL; n++)
            CHECK_HAS(problem.text, cases[i].texts[n]);
        CHECK(bed_dispatch(&bed, cases[i].query, NULL, NULL) == rc);
    }
    bed_close(&bed);
}

/* Three keys choose, the first that is not empty counts. */
TEST(channel__dispatcher_of_a_url__first_key_counts, "CH-8")
{
    static const struct {
        const char *query;
        enum who connected, request;
    } cases[] = {
        { "threads=1&queues=9", POOL, POOL },
        { "dispatcher=direct", LOOP, LOOP },
        { "dispather=message&threads=1&queues=9", LOOP, POOL },
        { "channel.handler=connection&threads=1&queues=9", ORDERED, POOL },
        { "dispather=message&dispatcher=connection&channel.handler=direct&threads=1&"
          "queues=9",
          ORDERED, POOL },
        { "dispatcher=&channel.handler=direct", LOOP, LOOP },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bed bed;
        struct line line;
        struct note note;

        bed_open(&bed, cases[i].query);
        line_open(&line);
        (void)bed_tell(&bed, CONNECTED, &line, NULL);
        (void)bed_tell(&bed, REQUEST, &line, &note);
        T_AWAIT(atomic_load(&bed.count[CONNECTED]) == 1);
        T_AWAIT(atomic_load(&note.released) == 1);
        CHECK_EQ(atomic_load(&bed.who[CONNECTED]), cases[i].connected);
        CHECK_EQ(atomic_load(&bed.who[REQUEST]), cases[i].request);
        line_drop(&line);
        bed_close(&bed);
        CHECK_EQ(atomic_load(&line.gone), 1);
    }
}

/* A dispatch in front of another would count what a channel has with the pool twice. */
TEST(channel__dispatch_inside_a_dispatch__refused, "CH-19")
{
    spn_problem problem = SPN_PROBLEM_INIT;
    spn_handler between = { &bed_ops, NULL };
    spn_dispatch *outer;
    struct bed bed;

    bed_open(&bed, "dispatcher=direct");
    for (int i = 0; i < 2; i++) {
        between.inner = spn_dispatch_handler(bed.dispatch);
        outer = (void *)&bed;
        problem.text[0] = '\0';
        CHECK_STATUS(spn_dispatch_create(&outer, "toy://h:1?dispatcher=direct",
                                         i == 0 ? between.inner : &between, NULL,
                                         &problem),
                     SPN_EINVAL);
        CHECK(outer == NULL);
        CHECK_HAS(problem.text, "dispatch");
    }
    bed_close(&bed);
}

/* ---- options ---------------------------------------------------------------------------- */

/* Options of an older program: what it does not know is the default. */
TEST(channel__options_of_any_age__understood, "CH-20")
{
    const size_t sizes[] = { offsetof(spn_dispatch_opts, extensions),
                             offsetof(spn_dispatch_opts, repository),
                             offsetof(spn_dispatch_opts, refused),
                             offsetof(spn_dispatch_opts, ctx),
                             sizeof(spn_dispatch_opts) };
    struct {
        spn_dispatch_opts opts;
        unsigned char tail[sizeof(size_t)];
    } newer = { .opts = SPN_DISPATCH_OPTS_INIT };
    struct bed bed;
    struct line line;
    struct note note;

    CHECK_OK(spn_log_set_level(SPN_LOG_OFF));
    bed_init(&bed);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        spn_dispatch_opts opts = { sizes[i], NULL, bed.repository, bed_refused, &bed };
        const bool knows_repository =
            sizes[i] > offsetof(spn_dispatch_opts, repository);
        const bool knows_refused = sizes[i] > offsetof(spn_dispatch_opts, ctx);

        if (sizes[i] == offsetof(spn_dispatch_opts, ctx))
            continue; /* refused without its ctx: our callback wants it */
        atomic_store(&bed.refused, 0);
        REQUIRE_OK(spn_dispatch_create(
            &bed.dispatch, "toy://h:1?threads=1&queues=0&inflight=0&dump.enable=false",
            &bed.handler, &opts, NULL));
        line_open(&line);
        bed_fill(&bed, 1, 0);
        (void)bed_tell(&bed, REQUEST, &line, &note);
        CHECK_EQ(atomic_load(&note.released), 1);
        CHECK_EQ(atomic_load(&bed.refused), knows_refused ? 1 : 0);
        CHECK_OK(spn_latch_count_down(bed.gate));
        T_AWAIT(atomic_load(&bed.hanging) == 0);
        CHECK_OK(spn_latch_destroy(bed.gate));
        REQUIRE_OK(spn_latch_create(&bed.gate, 1));
        line_end(&line);
        CHECK_OK(spn_dispatch_stop(bed.dispatch, T_LONG_NS));
        if (knows_repository) { /* whose pool it was */
            spn_url *url;
            spn_pool *pool;

            REQUIRE_OK(spn_url_parse(&url, "toy://h:1", NULL));
            CHECK_OK(spn_repository_get(bed.repository, url, &pool, NULL));
            CHECK(pool == spn_dispatch_pool(bed.dispatch));
            CHECK_EQ(pool_is_shutdown(pool), 0);
            CHECK_OK(spn_repository_release(bed.repository, pool));
            spn_url_unref(url);
        }
        CHECK_OK(spn_dispatch_destroy(bed.dispatch));
        bed.dispatch = NULL;
    }
    newer.opts.size = sizeof newer;
    newer.opts.repository = bed.repository;
    memset(newer.tail, 0, sizeof newer.tail);
    CHECK_OK(spn_dispatch_create(&bed.dispatch, "toy://h:1?threads=1", &bed.handler,
                                 &newer.opts, NULL));
    CHECK_OK(spn_dispatch_stop(bed.dispatch, T_LONG_NS));
    CHECK_OK(spn_dispatch_destroy(bed.dispatch));
    newer.tail[3] = 1;
    CHECK_STATUS(spn_dispatch_create(&bed.dispatch, "toy://h:1?threads=1", &bed.handler,
                                     &newer.opts, NULL),
                 SPN_EINVAL);
    CHECK(bed.dispatch == NULL);
    bed_close(&bed);
    CHECK_OK(spn_log_set_level(SPN_LOG_WARN));
}

/* Numbers are filled in as far as the program knows them, and not beyond. */
TEST(channel__stats_of_any_size__filled_as_far, "CH-20")
{
    struct {
        spn_dispatch_stats stats;
        uint64_t behind;
    } both;
    struct bed bed;
    struct line line;
    struct note note;

    bed_open(&bed, "dispatcher=direct");
    line_open(&line);
    CHECK_OK(bed_tell(&bed, REQUEST, &line, &note));
    memset(&both, 0xff, sizeof both);
    both.stats.size = offsetof(spn_dispatch_stats, shared);
    CHECK_OK(spn_dispatch_stats_get(bed.dispatch, &both.stats));
    CHECK_EQ(both.stats.dispatched[SPN_CHANNEL_REQUEST][SPN_PLACE_IO], 1);
    CHECK_EQ(both.stats.size, offsetof(spn_dispatch_stats, shared));
    CHECK(both.stats.shared == UINT64_MAX);
    memset(&both, 0xff, sizeof both);
    both.stats.size = sizeof both;
    CHECK_OK(spn_dispatch_stats_get(bed.dispatch, &both.stats));
    CHECK_EQ(both.stats.shared, 0);
    CHECK_EQ(both.stats.refused, 0);
    CHECK_EQ(both.behind, 0);
    both.stats.size = 0;
    CHECK_STATUS(spn_dispatch_stats_get(bed.dispatch, &both.stats), SPN_EINVAL);
    line_end(&line);
    bed_close(&bed);
}

/* Two dispatches of one URL and repository have one pool, which outlives them. */
TEST(channel__dispatches_of_one_repository__share_the_pool, "CH-20")
{
    struct bed one, other;
    spn_dispatch_opts opts = SPN_DISPATCH_OPTS_INIT;
    spn_pool *pool;

    bed_open(&one, "threads=2");
    bed_init(&other);
    opts.repository = one.repository;
    REQUIRE_OK(bed_dispatch(&other, "threads=2&dispatcher=direct", &opts, NULL));
    pool = spn_dispatch_pool(one.dispatch);
    CHECK(pool != NULL && pool == spn_dispatch_pool(other.dispatch));
    CHECK_OK(spn_dispatch_stop(other.dispatch, T_LONG_NS));
    CHECK_OK(spn_dispatch_destroy(other.dispatch));
    other.dispatch = NULL;
    CHECK_EQ(pool_is_shutdown(pool), 0);
    bed_close(&other);
    bed_close(&one);
}
