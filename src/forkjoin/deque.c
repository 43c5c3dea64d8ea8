/* SPDX-License-Identifier: MIT */
/*
 * deque.c - the split deque: records that only their owner sees until it shares them.
 *
 * OVERVIEW
 *   A worker's records are numbered from the bottom, like the frames of a stack.
 *
 *        0 ........ tail ......... split ........... head
 *          stolen         shared           private
 *
 *   The owner forks and joins at the head.  While that stays above the split nobody
 *   else can see what it does, so it needs no atomic operation and no fence.  Thieves
 *   take the oldest shared record by raising the tail; the owner shares by raising
 *   the split, and takes back by lowering it.  Tail and split are halves of one word, so
 *   that each of the three is one compare-and-swap, and none can miss another.
 *
 *   A record stays where it is from its fork to its join.  Who has stolen it writes the
 *   result into it and says so; the owner cannot reuse it before it has seen that.  So a
 *   thief may read it after the tail was raised, however much later.
 *
 * TRAPS
 *   Fork and join look at one word each, in the head of the piece of memory that the
 *   record lies in: a fork at or above fork_trap, or a join below join_trap, goes the slow
 *   way.  Where the piece ends, where the split is, and that a thief asks for work are
 *   all told by these two words: a thief asks by setting them to "always" [trap].  Only
 *   their owner sets them to anything else, and it does not matter if it thereby
 *   overwrites a question: whoever asks asks again, and whoever goes to sleep says so
 *   first where the owner looks after it has set the traps [hungry].
 *
 * PIECES
 *   Memory grows by pieces in a list, and none moves or goes away before the deque does.
 *   A fork in the last record of a piece goes on in the next; the join below the first
 *   one comes back, for it finds the head of the piece where a record should be, which
 *   is below every trap.  If there is no memory, what is forked goes to the sink, one
 *   record that is never run, and the tree fails.
 *
 * LEAPFROGGING
 *   A join whose record was stolen steals back from the thief, but only what was forked
 *   for that very record: numbers from `base` on, where the thief's head was when it
 *   began, and only while it has not finished.  Anything else might want a lock that
 *   the joiner holds.  That the thief has not finished is made sure by the third part
 *   of its word, which it counts up when it has: the thief's word is read after its
 *   mark in the record, and the mark is read again; what the swap then finds unchanged
 *   was forked for it [leap].
 *
 * NESTING
 *   Where a tree begins inside a body, by a call that was not given the body's place,
 *   nobody knows where the head is, only the piece that it is in.  The tree goes on in
 *   the next piece; what is shared below is taken back, and the split is put where the
 *   tree begins, so that thieves only see what is above.  (spn__deque_enter.)
 *
 * ORDERING
 *   [share] The release of the word that raises the split comes after what was written
 *           into the records; the thief's acquire before it reads them.
 *   [steal] Nothing but the order of the word itself: who raised the tail has the record.
 *   [mark]  The thief writes where it was, then says with release who it is.
 *   [done]  The thief says with release that it is done, after the result was written
 *           and its word counted up; the owner's acquire comes before it reads it.
 *           Both are exchanges where somebody may sleep: the owner that marked the
 *           record is woken.
 *   [leap]  The thief's word is read with acquire: if it tells of anything shared after
 *           the end of the stolen record, the mark that is read next says that it is
 *           done.
 *   [piece] A piece is published with its head.
 *   [trap]  relaxed: see above.
 *   [hungry] Whoever goes to sleep says so, makes a heavy fence and asks.  The owner sets
 *           its traps, makes a light fence and looks whether somebody said so.  If it
 *           does not see it the question comes after its traps.
 *
 * WHY NOT a deque of pointers (Chase and Lev)?  A fence at each join, and memory for what
 *   they point to; Lace measures 1.93 ns where this takes 1.4.
 */
#include "forkjoin/deque.h"

#include <string.h>

#include "base/assert.h"

/* What a shared record's `thief` says, in its low bits. */
enum {
    SHARED = 0, /* nobody has it; the rest is the frame it is of    */
    STOLEN = 1, /* the rest is the thief's deque                    */
    DONE = 2,   /* the thief has finished; no rest                  */
    SLEEPS = 3, /* as STOLEN, and the owner sleeps                  */
    MARKS = 3
};

/* How often a join looks at a thief that has nothing for it before it sleeps. */
#ifdef SPN_SIM
enum { LOOKS = 2 };
#else
enum { LOOKS = SPN__SPIN_LIMIT_LONG };
#endif

static spn__trap *mark_of(spn_fj_record *record)
{
    return spn__trap_of(&record->thief);
}

static spn__base_word *base_of(spn_fj_record *record)
{
    return (spn__base_word *)(void *)&record->base;
}

static spn_fj_record *records_of(spn_fj_piece *p)
{
    return (spn_fj_record *)(void *)p + 1;
}

static uint32_t number_of(spn_fj_piece *p, const spn_fj_record *record)
{
    return p->first + (uint32_t)(record - records_of(p));
}

/* The piece that a number lies in.  A thief reads `after` of pieces below it only,
 * which were there when it was shared. */
static spn_fj_piece *piece_of(struct spn__deque *d, uint32_t number)
{
    spn_fj_piece *p = d->first;

    while (number - p->first >= p->count)
        p = p->after;
    return p;
}

static spn_fj_record *record_of(struct spn__deque *d, uint32_t number)
{
    spn_fj_piece *p = piece_of(d, number);

    return records_of(p) + (number - p->first);
}

/* ---- traps --------------------------------------------------------------------- */

static void set_traps(spn_fj_piece *p, uintptr_t fork, uintptr_t join)
{
    /* relaxed, both: [trap]. */
    spn__store(spn__trap_of(&p->fork_trap), fork, relaxed);
    spn__store(spn__trap_of(&p->join_trap), join, relaxed);
}

/* Sets the traps of the piece that the head is in. */
static void arm(struct spn__deque *d, spn_fj_piece *p)
{
    spn_fj_record *records = records_of(p);
    uint32_t open = 0;

    if (d->split > p->first)
        open = d->split - p->first < p->count ? d->split - p->first : p->count;
    set_traps(p, (uintptr_t)(records + p->count - 1), (uintptr_t)(records + open));
    spn__fence_light(); /* [hungry] */
    if (d->ops->hungry != NULL && d->ops->hungry(d))
        spn__store(spn__trap_of(&p->fork_trap), 0, relaxed); /* [trap] */
}

static void move_to(struct spn__deque *d, spn_fj_piece *p)
{
    /* mutant: what comes with it is plain, and only sanitizers see that. */
    spn__store(&d->piece, p, release); /* [piece] */
}

/* relaxed: the owner's own. */
static spn_fj_piece *current(struct spn__deque *d)
{
    return spn__load(&d->piece, relaxed);
}

void spn__deque_ask(struct spn__deque *d)
{
    /* mutant: as in move_to. */
    spn_fj_piece *p = spn__load(&d->piece, acquire); /* [piece] */

    /* relaxed, all: [trap].  Looked at first, for the owner's sake. */
    if (spn__load(spn__trap_of(&p->fork_trap), relaxed) != 0)
        set_traps(p, 0, UINTPTR_MAX);
}

void spn__deque_ask_self(struct spn__deque *d)
{
    spn__store(spn__trap_of(&current(d)->fork_trap), 0, relaxed); /* [trap] */
}

/* ---- memory --------------------------------------------------------------------- */

static spn_fj_piece *make_piece(struct spn__deque *d, uint32_t first, uint32_t count)
{
    spn_fj_piece *p = spn__alloc_aligned(SPN_FJ_PIECE, SPN_FJ_PIECE);

    if (p == NULL)
        return NULL;
    *p = (spn_fj_piece){
        .stack_low = d->stack_low, .worker = d, .first = first, .count = count
    };
    spn__init(spn__trap_of(&p->fork_trap), 0);
    spn__init(spn__trap_of(&p->join_trap), UINTPTR_MAX);
    return p;
}

/* The piece behind one, made if need be; NULL: no memory. */
static spn_fj_piece *next_piece(struct spn__deque *d, spn_fj_piece *p)
{
    const uint32_t first = p->first + p->count;
    spn_fj_piece *next = p->after;

    if (next != NULL) {
        next->stack_low = d->stack_low;
        return next;
    }
    if (first > SPN__DEQUE_NUMBER_MAX - SPN__PIECE_RECORDS)
        return NULL;
    next = make_piece(d, first, d->limit);
    if (next == NULL)
        return NULL;
    next->before = p;
    p->after = next;
    return next;
}

int spn__deque_init(struct spn__deque *d, uint32_t records,
                    const struct spn__deque_ops *ops)
{
    spn__init(&d->word, 0);
    spn__init(&d->steals, 0);
    d->split = d->sunk = 0;
    d->limit = records;
    d->stack_low = 0;
    d->frame = NULL;
    d->ops = ops;
    spn__parker_init(&d->parker);
    d->first = make_piece(d, 0, records);
    d->sink = make_piece(d, SPN__DEQUE_NUMBER_MAX, 1);
    if (d->first == NULL || d->sink == NULL) {
        spn__free(d->first);
        spn__free(d->sink);
        return SPN_ENOMEM;
    }
    spn__init(&d->piece, d->first);
    return SPN_OK;
}

void spn__deque_fini(struct spn__deque *d)
{
    spn_fj_piece *p = d->first;

    while (p != NULL) {
        spn_fj_piece *after = p->after;

        spn__free(p);
        p = after;
    }
    spn__free(d->sink);
}

void spn__deque_adopt(struct spn__deque *d, uintptr_t stack_low)
{
    d->stack_low = stack_low;
    d->frame = NULL;
    d->first->stack_low = d->sink->stack_low = stack_low;
}

/* ---- sharing and taking back ------------------------------------------------------ */

/* The frame that a record is of.  It is there as long as the record is not joined, and
 * what is in it comes with the record [share]. */
static struct spn__frame *frame_of(struct spn__deque *d, uint32_t number)
{
    struct spn__frame *f = d->frame;

    while (f != NULL && number < f->base)
        f = f->outer;
    return f;
}

/* Shares the private records below `end`. */
static void share(struct spn__deque *d, uint32_t end)
{
    for (uint32_t n = d->split; n < end; n++) {
        spn_fj_record *record = record_of(d, n);

        spn__init(base_of(record), 0);
        spn__init(mark_of(record), (uintptr_t)frame_of(d, n) | SHARED);
    }
    /* [share] the records come with it. */
    (void)spn__fetch_add(&d->word, (end - d->split) * SPN__DEQUE_SPLIT_ONE, release);
    d->split = end;
    if (d->ops->shared != NULL)
        d->ops->shared(d);
}

/* Half of the private records below `end`, and one at least if there is one. */
static void share_half(struct spn__deque *d, uint32_t end)
{
    const uint32_t count = end > d->split ? end - d->split : 0;

    if (count > 0)
        share(d, d->split + (count + 1) / 2);
}

/* Takes back shared records from the upper end, the one below the split at least: down
 * to the tail, or half of them; false: all are stolen. */
static bool take_back(struct spn__deque *d, bool all)
{
    uint64_t word = spn__load(&d->word, relaxed); /* the swap tells */
    uint32_t tail, split;

    do {
        tail = spn__word_tail(word);
        if (tail == d->split)
            return false;
        split = all ? tail : tail + (d->split - tail) / 2;
    } while (!spn__cas_weak(&d->word, &word, spn__word_make(word, tail, split), relaxed,
                            relaxed)); /* [steal] */
    d->split = split;
    return true;
}

/* Puts tail and split where nothing is shared. */
static void place(struct spn__deque *d, uint32_t number)
{
    const uint64_t word = spn__load(&d->word, relaxed);

    spn__assert(spn__word_tail(word) == spn__word_split(word));
    d->split = number;
    /* relaxed: nothing is shared, so nobody else writes, and nothing comes with it. */
    spn__store(&d->word, spn__word_make(word, number, number), relaxed);
}

/* ---- stealing ------------------------------------------------------------------------ */

/* Runs the record that the thief got by raising the victim's tail, at `at`. */
static void run_stolen(struct spn__deque *d, spn_fj at, struct spn__deque *victim,
                       uint32_t number)
{
    spn_fj_record *record = record_of(victim, number);
    const struct spn__frame *from =
        (const struct spn__frame *)spn__load(mark_of(record), relaxed);
    struct spn__frame frame = { .base = number_of(spn__fj_piece(at), at),
                                .outer = d->frame };

    if (from != NULL) { /* [share] */
        frame.job = from->job;
        frame.stand = from->stand;
    }
    d->frame = &frame;
    /* relaxed, all: a count of its own, and what comes with the mark. */
    spn__store(&d->steals, spn__load(&d->steals, relaxed) + 1, relaxed);
    spn__store(base_of(record), frame.base, relaxed);
    spn__store(mark_of(record), (uintptr_t)d | STOLEN, release); /* [mark] */
    record->run(at, record);
    d->frame = frame.outer;
    /* [leap] what was forked for the record is no longer; [done] comes after it.
     * relaxed: nothing is published by it. */
    (void)spn__fetch_add(&d->word, SPN__DEQUE_EPOCH_ONE, relaxed);
    /* [done] release is enough: nothing that the owner wrote is read. */
    if (spn__exchange(mark_of(record), DONE, release) % (MARKS + 1) == SLEEPS)
        spn__parker_unpark(&victim->parker);
}

bool spn__deque_any(struct spn__deque *d)
{
    const uint64_t word = spn__load(&d->word, relaxed); /* a hint, or after a fence */

    return spn__word_tail(word) < spn__word_split(word);
}

bool spn__deque_steal(struct spn__deque *thief, spn_fj at, struct spn__deque *victim)
{
    uint64_t word = spn__load(&victim->word, relaxed); /* the swap tells */

    if (spn__word_tail(word) >= spn__word_split(word)) {
        spn__deque_ask(victim);
        return false;
    }
    if (!spn__cas(&victim->word, &word, word + 1, acquire, relaxed)) /* [share] */
        return false;
    arm(thief, current(thief));
    run_stolen(thief, at, victim, spn__word_tail(word));
    return true;
}

spn_fj spn__deque_bottom(struct spn__deque *d)
{
    return records_of(d->first);
}

/* ---- joining what was stolen ------------------------------------------------------------ */

/* Steals back what was forked for the record, which `mark` says the thief has. */
static bool leap(struct spn__deque *d, spn_fj_record *record, spn_fj at, uintptr_t mark)
{
    struct spn__deque *thief = (void *)(mark & ~(uintptr_t)MARKS);
    const uint32_t base = spn__load(base_of(record), relaxed); /* [mark] */
    uint64_t word = spn__load(&thief->word, acquire);          /* [leap] */

    if (spn__word_tail(word) >= spn__word_split(word)) {
        spn__deque_ask(thief);
        return false;
    }
    if (spn__word_tail(word) < base)
        return false;
    if (spn__load(mark_of(record), relaxed) != mark) /* [leap] after the word */
        return false;
    /* [share] mutant: the load was one; this is for a word that has come back since. */
    if (!spn__cas(&thief->word, &word, word + 1, acquire, relaxed))
        return false;
    run_stolen(d, at, thief, spn__word_tail(word));
    return true;
}

/* Sleeps until the record is done. */
static void sleep_until_done(struct spn__deque *d, spn_fj_record *record)
{
    uintptr_t mark = spn__load(mark_of(record), relaxed); /* as below */

    if (mark == DONE)
        return;
    if (d->ops->block != NULL)
        d->ops->block(d);
    /* relaxed, both: whatever it says, the caller looks again [done]. */
    if (mark % (MARKS + 1) == STOLEN &&
        spn__cas(mark_of(record), &mark, mark | SLEEPS, relaxed, relaxed))
        (void)spn__parker_park(&d->parker, SPN_FOREVER);
    if (d->ops->unblock != NULL)
        d->ops->unblock(d);
}

/* The owner has waited for a stolen record; `at` is the place above it. */
static void wait_stolen(struct spn__deque *d, spn_fj_record *record, spn_fj at)
{
    for (int looks = 0;;) {
        const uintptr_t mark = spn__load(mark_of(record), acquire); /* [done] [mark] */

        if (mark == DONE)
            return;
        if (mark % (MARKS + 1) == STOLEN && at != NULL && leap(d, record, at, mark)) {
            looks = 0;
            continue;
        }
        if (mark % (MARKS + 1) == STOLEN && ++looks > LOOKS) {
            sleep_until_done(d, record);
            looks = 0;
            continue;
        }
        if (mark % (MARKS + 1) == SHARED && ++looks > LOOKS) {
            spn__os_yield(); /* a thief that has it was stopped before its mark */
            looks = 0;
            continue;
        }
        spn__cpu_relax();
    }
}

/* The place above a record, in the next piece if need be. */
static spn_fj above(struct spn__deque *d, spn_fj_record *record)
{
    spn_fj_piece *p = spn__fj_piece(record), *next;

    if (number_of(p, record) - p->first + 1 < p->count)
        return record + 1;
    next = p->after;
    if (next == NULL)
        return NULL; /* what was forked above it went to the sink */
    next->stack_low = d->stack_low;
    move_to(d, next);
    arm(d, next);
    return records_of(next);
}

/* ---- the slow ways ------------------------------------------------------------------------ */

spn_fj spn_fj_fork_slow(spn_fj_record *record)
{
    spn_fj_piece *p = spn__fj_piece(record), *next = p;
    struct spn__deque *d;
    uint32_t number;
    bool asked;
    spn_fj at;

    if (record == NULL)
        return NULL;
    d = p->worker;
    number = number_of(p, record);
    asked = spn__load(spn__trap_of(&p->fork_trap), relaxed) == 0; /* [trap] */
    at = record + 1;
    if (p == d->sink) {
        d->sunk++;
        spn_fj_fail(record, SPN_ENOMEM);
        return record;
    }
    if (number - p->first + 1 == p->count) {
        next = next_piece(d, p);
        if (next == NULL) {
            next = d->sink;
            next->before = p;
        }
        at = records_of(next);
        move_to(d, next);
    }
    if (asked)
        share_half(d, number + 1);
    arm(d, next);
    return at;
}

uintptr_t spn_fj_join_slow(spn_fj_record *record)
{
    spn_fj_piece *p = spn__fj_piece(record);
    struct spn__deque *d;
    uint32_t number;

    if (record == NULL)
        return 0;
    d = p->worker;
    if (p == d->sink && d->sunk > 0) { /* it was not run */
        d->sunk--;
        record = records_of(p);
        memset(&record->args, 0, sizeof record->args);
        return (uintptr_t)record | 1;
    }
    if (record == (spn_fj_record *)(void *)p) { /* below the first: see PIECES */
        p = p->before;
        record = records_of(p) + p->count - 1;
        move_to(d, p);
        arm(d, p);
    }
    number = number_of(p, record);
    if (number >= d->split) { /* somebody asks, or the piece is another */
        share_half(d, number);
    } else if (!take_back(d, false)) {
        wait_stolen(d, record, above(d, record));
        move_to(d, p);
        place(d, number);
        arm(d, p);
        return (uintptr_t)record | 1;
    }
    arm(d, p);
    return (uintptr_t)record;
}

/* ---- nesting -------------------------------------------------------------------------------- */

spn_fj spn__deque_enter(struct spn__deque *d, struct spn__nested *n, void *job)
{
    spn_fj_piece *p = current(d), *next = p;

    if (d->frame != NULL) {
        if (p == d->sink)
            return NULL;
        next = next_piece(d, p);
        if (next == NULL)
            return NULL;
    }
    n->piece = p;
    (void)take_back(d, true);
    n->split = d->split;
    n->frame = (struct spn__frame){ job, NULL, next->first, d->frame };
    d->frame = &n->frame;
    move_to(d, next);
    place(d, next->first);
    arm(d, next);
    return records_of(next);
}

void spn__deque_leave(struct spn__deque *d, struct spn__nested *n)
{
    d->frame = n->frame.outer;
    move_to(d, n->piece);
    place(d, n->split);
    if (d->frame != NULL)
        arm(d, n->piece);
}
