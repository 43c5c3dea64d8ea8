/* SPDX-License-Identifier: MIT */
/*
 * Every event with every dispatcher, a program's own among them, while the pool has room, has
 * none, is closed, hangs, and while the channel is given up: who runs it, what becomes of the
 * message, who is told, and that each message, channel and reference ends once.
 */
#include <spindle/threadless.h>

#include "channel_bed.h"
#include "pool_calls.h"

/* ---- the dispatchers --------------------------------------------------------------- */

static struct bed *own_bed;

static spn_place everything_own(const spn_dispatcher *self, spn_channel_event event)
{
    (void)self;
    (void)event;
    return SPN_PLACE_OWN;
}

static spn_executor *own_execute(const spn_dispatcher *self, spn_channel_event event,
                                 const spn_url *url)
{
    (void)self;
    (void)event;
    CHECK_STR(spn_url_get(url, NULL, "dispatcher"), "mine");
    return spn_pool_executor(own_bed->own);
}

static spn_executor *no_executor(const spn_dispatcher *self, spn_channel_event event,
                                 const spn_url *url)
{
    (void)self;
    (void)event;
    (void)url;
    return NULL;
}

static const spn_dispatcher mine = { sizeof mine, everything_own, own_execute };
static const spn_dispatcher absent = { sizeof absent, everything_own, no_executor };
static const spn_extension extensions_of_ours[] = {
    { .size = sizeof(spn_extension),
      .kind = SPN_KIND_DISPATCHER,
      .name = "mine",
      .instance = &mine },
    { .size = sizeof(spn_extension),
      .kind = SPN_KIND_DISPATCHER,
      .name = "absent",
      .instance = &absent },
};

/* The table of dispatcher.h.  A dispatcher of our own has no say in `sent`; one whose
 * executor is NULL leaves it to the pool. */
static const struct {
    const char *name;
    enum who who
        [WHATS]; /* connected, disconnected, request, response, sent, caught, other */
} table[] = {
    { "all", { POOL, POOL, POOL, POOL, LOOP, POOL, POOL } },
    { "direct", { LOOP, LOOP, LOOP, LOOP, LOOP, LOOP, LOOP } },
    { "message", { LOOP, LOOP, POOL, POOL, LOOP, LOOP, POOL } },
    { "execution", { LOOP, LOOP, POOL, LOOP, LOOP, LOOP, POOL } },
    { "connection", { ORDERED, ORDERED, POOL, POOL, LOOP, POOL, POOL } },
    { "mine", { OWN, OWN, OWN, OWN, LOOP, OWN, OWN } },
    { "absent", { POOL, POOL, POOL, POOL, LOOP, POOL, POOL } },
};
enum { DISPATCHERS = sizeof table / sizeof *table };

/* The state of the pool, and what happens meanwhile. */
enum state { IDLE, FULL, CLOSED, HANGS, GONE, STATES };
static const char *const state_names[] = { "idle", "full", "closed", "hanging",
                                           "channel given up" };

/* One dispatch, one channel, one event. */
struct row {
    struct bed bed;
    struct line line;
    struct note note;
    spn_extensions *extensions;
    int dispatcher;
    enum state state;
    enum what what;
    bool has_refused;
};

static void row_open(struct row *row)
{
    spn_pool_opts one = spn_pool_opts_fixed(1, SPN_UNBOUNDED);
    spn_dispatch_opts opts = SPN_DISPATCH_OPTS_INIT;
    spn_problem problem = SPN_PROBLEM_INIT;
    char query[120];

    bed_init(&row->bed);
    REQUIRE_OK(spn_extensions_create(&row->extensions, NULL));
    for (size_t i = 0; i < sizeof extensions_of_ours / sizeof *extensions_of_ours; i++)
        REQUIRE_OK(
            spn_extensions_register(row->extensions, &extensions_of_ours[i], &problem));
    REQUIRE_OK(spn_pool_create(&row->bed.own, &one));
    own_bed = &row->bed;
    opts.extensions = row->extensions;
    opts.refused = row->has_refused ? bed_refused : NULL;
    opts.ctx = &row->bed;
    (void)snprintf(query, sizeof query, "dispatcher=%s&threads=1&queues=1&inflight=0",
                   table[row->dispatcher].name);
    REQUIRE_OK(bed_dispatch(&row->bed, query, &opts, &problem));
    line_open(&row->line);
}

static void row_close(struct row *row)
{
    bed_close(&row->bed);
    CHECK_OK(pool_shutdown(row->bed.own));
    CHECK_OK(pool_await(row->bed.own, T_LONG_NS));
    CHECK_OK(spn_pool_destroy(row->bed.own));
    CHECK_OK(spn_extensions_destroy(row->extensions));
}

/* Who is to run it; NOBODY: an event that is lost, or a message that is refused. */
static enum who expected(const struct row *row)
{
    const enum who who = table[row->dispatcher].who[row->what];

    if (who != POOL)
        return who;
    if (row->state == CLOSED)
        return SHARED;
    if (row->state == FULL)
        return row->what == RESPONSE ? SHARED : NOBODY;
    return POOL;
}

static void check_row(const struct row *row, bool ok)
{
    if (!ok)
        printf("  %s, %s, pool %s, %s refused()\n", table[row->dispatcher].name,
               what_names[row->what], state_names[row->state],
               row->has_refused ? "with" : "without");
}

static uint64_t dispatched_of(const spn_dispatch_stats *stats, enum what what)
{
    const int event = what == OTHER ? REQUEST : (int)what;
    uint64_t sum = 0;

    for (int place = 0; place < SPN_PLACES; place++)
        sum += stats->dispatched[event][place];
    return sum;
}

static uint64_t dispatched_in_all(const spn_dispatch_stats *stats)
{
    uint64_t sum = 0;

    for (int event = 0; event < SPN_CHANNEL_EVENTS; event++)
        sum += dispatched_of(stats, (enum what)event);
    return sum;
}

/* Where it is counted. */
static int place_of(const struct row *row)
{
    static const int places[] = {
        [LOOP] = SPN_PLACE_IO, [ORDERED] = SPN_PLACE_ORDERED
    };
    const enum who who = table[row->dispatcher].who[row->what];

    if (who == LOOP || who == ORDERED)
        return places[who];
    if (who == OWN || row->dispatcher == DISPATCHERS - 1)
        return SPN_PLACE_OWN;
    return is_message(row->what) ? SPN_PLACE_PREFERRED : SPN_PLACE_POOL;
}

static void check_handled(struct row *row, enum who who)
{
    const int event = row->what == OTHER ? REQUEST : (int)row->what;
    struct bed *bed = &row->bed;
    spn_dispatch_stats stats;
    bool ok;

    T_AWAIT(atomic_load(&bed->count[row->what]) == 1);
    if (is_message(row->what))
        T_AWAIT(atomic_load(&row->note.released) == 1);
    stats = bed_stats(bed);
    ok = CHECK_EQ(stats.dispatched[event][place_of(row)], 1);
    ok &= CHECK_EQ(dispatched_in_all(&stats), 1);
    ok &= CHECK_EQ(stats.shared, who == SHARED ? 1 : 0);
    ok &= CHECK_EQ(stats.refused, 0);
    ok &= CHECK_STR(who_names[atomic_load(&bed->who[row->what])], who_names[who]);
    ok &= CHECK_EQ(atomic_load(&bed->refused), 0);
    if (row->what == DISCONNECTED)
        ok &= CHECK_STATUS(atomic_load(&bed->why[DISCONNECTED]), SPN_EIO);
    if (row->what == CAUGHT)
        ok &= CHECK_STATUS(atomic_load(&bed->why[CAUGHT]), SPN_EPROTO);
    if (row->what == SENT)
        ok &= CHECK_EQ(atomic_load(&bed->position), 77);
    check_row(row, ok);
}

/* It came to nobody: at once, on the thread that told it. */
static void check_refused(struct row *row)
{
    struct bed *bed = &row->bed;
    const spn_dispatch_stats stats = bed_stats(bed);
    bool ok = CHECK_EQ(atomic_load(&bed->count[row->what]), 0);

    ok &= CHECK_EQ(stats.shared, 0);
    ok &= CHECK_EQ(dispatched_in_all(&stats), 1); /* that is where it was sent */
    ok &= CHECK_EQ(stats.refused, is_message(row->what) ? 1 : 0);
    if (is_message(row->what)) {
        ok &= CHECK_EQ(atomic_load(&row->note.released), 1);
        ok &= CHECK_EQ(atomic_load(&bed->refused), row->has_refused ? 1 : 0);
    }
    if (is_message(row->what) && row->has_refused) {
        ok &= CHECK_STATUS(atomic_load(&bed->refused_why), SPN_EREJECTED);
        ok &= CHECK_EQ(atomic_load(&bed->refused_by), LOOP);
    }
    check_row(row, ok);
}

static void row_run(struct row *row)
{
    const enum who who = expected(row);
    struct bed *bed = &row->bed;
    spn_pool *pool;

    row_open(row);
    pool = spn_dispatch_pool(bed->dispatch);
    if (row->state == FULL)
        bed_fill(bed, 1, 1);
    if (row->state == HANGS || row->state == GONE)
        bed_fill(bed, 1, 0);
    if (row->state == CLOSED) {
        CHECK_OK(pool_shutdown(pool));
        CHECK_OK(pool_await(pool, T_LONG_NS));
    }
    check_row(row, CHECK_OK(bed_tell(bed, row->what, &row->line, &row->note)));
    if (row->state == GONE)
        line_drop(&row->line);
    if (who == NOBODY) {
        check_refused(row);
    } else if ((row->state == HANGS || row->state == GONE) && who == POOL) {
        /* It waits, and keeps its channel. */
        check_row(row, CHECK_EQ(pool_stats(pool).queued, 1));
        check_row(row, CHECK_EQ(atomic_load(&bed->count[row->what]), 0));
        check_row(row, CHECK_EQ(atomic_load(&row->line.gone), 0));
        bed_let_go(bed);
        check_handled(row, who);
    } else {
        check_handled(row, who); /* whatever the pool does */
    }
    bed_let_go(bed);
    if (row->state != GONE) {
        if (who == LOOP || who == NOBODY) { /* nobody else had it */
            line_end(&row->line);
        } else {
            line_drop(&row->line);
            T_AWAIT(atomic_load(&row->line.gone) == 1);
        }
    } else {
        T_AWAIT(atomic_load(&row->line.gone) == 1);
    }
    row_close(row);
    check_row(row, CHECK_EQ(atomic_load(&row->line.gone), 1));
    if (is_message(row->what))
        check_row(row, CHECK_EQ(atomic_load(&row->note.released), 1));
}

static void rows_run(enum state state, bool has_refused)
{
    CHECK_OK(spn_log_set_level(SPN_LOG_OFF));
    for (int dispatcher = 0; dispatcher < DISPATCHERS; dispatcher++)
        for (int what = 0; what < WHATS; what++) {
            struct row row = { .dispatcher = dispatcher,
                               .state = state,
                               .what = (enum what)what,
                               .has_refused = has_refused };

            row_run(&row);
        }
    CHECK_OK(spn_log_set_level(SPN_LOG_WARN));
}

TEST(channel__pool_with_room__every_event_on_its_thread, "CH-8", "CH-9", "CH-15")
{
    rows_run(IDLE, true);
}

TEST(channel__pool_full__messages_refused_here_responses_shared, "CH-10", "CH-12",
     "CH-15")
{
    rows_run(FULL, true);
}

TEST(channel__pool_full_and_nobody_told__messages_released_and_counted, "CH-11",
     "CH-15")
{
    rows_run(FULL, false);
}

TEST(channel__pool_closed__shared_executor, "CH-12", "CH-15")
{
    rows_run(CLOSED, true);
}

TEST(channel__pool_hangs__events_wait_and_others_go_on, "CH-8", "CH-9")
{
    rows_run(HANGS, true);
}

TEST(channel__given_up_while_queued__lives_until_handled, "CH-3", "CH-5")
{
    rows_run(GONE, true);
}

/* ---- a response that somebody waits for ---------------------------------------------- */

static int lend(void *arg)
{
    is_waiter = 1;
    return spn_threadless_wait_and_drain(arg, T_LONG_NS);
}

static int make_response(struct row *row, spn_executor *waiting)
{
    (void)note_make(&row->note, &row->bed, SPN_MESSAGE_RESPONSE);
    row->note.head.waiting = waiting;
    return spn_handler_received(spn_dispatch_handler(row->bed.dispatch),
                                row->line.channel, &row->note.head);
}

/* The thread that waits handles it, whatever the dispatcher and the pool. */
TEST(channel__response_that_a_thread_waits_for__handled_by_it, "CH-13")
{
    CHECK_OK(spn_log_set_level(SPN_LOG_OFF));
    for (int dispatcher = 0; dispatcher < DISPATCHERS; dispatcher++)
        for (int state = IDLE; state <= HANGS; state++) {
            struct row row = { .dispatcher = dispatcher,
                               .state = (enum state)state,
                               .what = RESPONSE,
                               .has_refused = true };
            spn_threadless *threadless;
            spn_thread *thread;
            int rc = -1;

            row_open(&row);
            if (state == FULL)
                bed_fill(&row.bed, 1, 1);
            if (state == CLOSED)
                CHECK_OK(pool_shutdown(spn_dispatch_pool(row.bed.dispatch)));
            if (state == HANGS)
                bed_fill(&row.bed, 1, 0);
            REQUIRE_OK(spn_threadless_create(&threadless, NULL));
            REQUIRE_OK(spn_thread_create(&thread, NULL, lend, threadless));
            CHECK_OK(make_response(&row, spn_threadless_executor(threadless)));
            CHECK_OK(spn_thread_join(thread, SPN_FOREVER, &rc));
            CHECK_OK(rc);
            spn_thread_unref(thread);
            check_row(&row, CHECK_EQ(atomic_load(&row.bed.who[RESPONSE]), WAITER));
            check_row(&row, CHECK_EQ(atomic_load(&row.note.released), 1));
            check_row(&row, CHECK_EQ(bed_stats(&row.bed)
                                         .dispatched[RESPONSE][SPN_PLACE_PREFERRED],
                                     1));
            CHECK_OK(spn_threadless_destroy(threadless));
            line_end(&row.line);
            row_close(&row);
        }
    CHECK_OK(spn_log_set_level(SPN_LOG_WARN));
}

/* One that has left is no loss: the pool has the response, or the shared executor. */
TEST(channel__response_whose_waiter_has_left__handled_by_the_pool, "CH-13", "CH-12")
{
    CHECK_OK(spn_log_set_level(SPN_LOG_OFF));
    for (int dispatcher = 0; dispatcher < DISPATCHERS; dispatcher++)
        for (int state = IDLE; state <= CLOSED; state++) {
            struct row row = { .dispatcher = dispatcher,
                               .state = (enum state)state,
                               .what = RESPONSE,
                               .has_refused = true };
            spn_threadless *threadless;
            enum who who;

            row_open(&row);
            if (state == FULL)
                bed_fill(&row.bed, 1, 1);
            if (state == CLOSED)
                CHECK_OK(pool_shutdown(spn_dispatch_pool(row.bed.dispatch)));
            REQUIRE_OK(spn_threadless_create(&threadless, NULL));
            CHECK_STATUS(spn_threadless_wait_and_drain(threadless, 0), SPN_ETIMEDOUT);
            CHECK_OK(make_response(&row, spn_threadless_executor(threadless)));
            T_AWAIT(atomic_load(&row.note.released) == 1);
            who = (enum who)atomic_load(&row.bed.who[RESPONSE]);
            check_row(&row, CHECK_STR(who_names[who],
                                      who_names[state == IDLE ? POOL : SHARED]));
            CHECK_OK(spn_threadless_destroy(threadless));
            line_drop(&row.line);
            T_AWAIT(atomic_load(&row.line.gone) == 1);
            row_close(&row);
        }
    CHECK_OK(spn_log_set_level(SPN_LOG_WARN));
}

/* Any executor may wait: it runs the response when it runs its tasks, and not before.  What a
 * request says of `waiting` means nothing. */
TEST(channel__response_that_an_executor_waits_for__run_by_it, "CH-13")
{
    struct row row = { .dispatcher = 0, .what = RESPONSE, .has_refused = true };
    spn_manual_executor *manual;
    struct note request;

    row_open(&row);
    REQUIRE_OK(spn_manual_executor_create(&manual));
    CHECK_OK(make_response(&row, spn_manual_executor_executor(manual)));
    CHECK_EQ(spn_manual_executor_pending(manual), 1);
    CHECK_EQ(atomic_load(&row.note.handled), 0);
    CHECK_EQ(spn_manual_executor_run(manual, INT64_MAX), 1);
    CHECK_EQ(atomic_load(&row.note.released), 1);
    (void)note_make(&request, &row.bed, SPN_MESSAGE_REQUEST);
    request.head.waiting = spn_manual_executor_executor(manual);
    CHECK_OK(spn_handler_received(spn_dispatch_handler(row.bed.dispatch),
                                  row.line.channel, &request.head));
    T_AWAIT(atomic_load(&request.released) == 1);
    CHECK_EQ(atomic_load(&row.bed.who[REQUEST]), POOL);
    CHECK_EQ(spn_manual_executor_pending(manual), 0);
    CHECK_OK(spn_manual_executor_destroy(manual));
    line_drop(&row.line);
    T_AWAIT(atomic_load(&row.line.gone) == 1);
    row_close(&row);
}
