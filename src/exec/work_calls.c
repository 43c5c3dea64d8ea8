/* SPDX-License-Identifier: MIT */
/*
 * work_calls.c - functions and arguments that wait in a FIFO.
 *
 * ROWS
 *   Calls that come one after another, with no task between them, wait in a row: 16
 *   bytes each, side by side.  The row is one node of the FIFO's lists.  Whoever pushes
 *   writes to the end of the last row of the inbox, under the lock it holds anyway; a
 *   row ends when a task comes, or when the inbox goes over to the outbox, or with its
 *   block.  A worker copies the first call of a row out under the lock it holds anyway.
 *   So a line that crosses from one CPU to the other carries four calls, and nothing is
 *   allocated but a block for a thousand of them.
 *
 *   A row is some lines of a block: the first has the node, which is a task whose
 *   function says that it is none, and the first call.
 *
 * BLOCKS
 *   are used again when all their rows are over.  A FIFO keeps at most 2 * SPARES of them
 *   for later, of 80 KiB each, of which 16 are ever written: see LENT.  They are given
 *   back at the end of the pool, the others at once.
 *
 * LENT
 *   A call may leave the queue without being run by a worker: to the caller of remove or
 *   shutdown_now, or to a policy.  These know only tasks, so it becomes one, which says
 *   when it is over by being run or dropped, on any thread and perhaps after the pool's
 *   end; the block lives until then.  Nothing is to be allocated when a pool ends; so
 *   there is room in the block for all its calls to be tasks, behind the rows, where no
 *   memory is used up as long as nobody writes to it.  A snapshot shows calls that way,
 *   too.
 *
 * A call that was taken out of the middle of its row leaves an empty place (fn is NULL).
 * The first of a row that is in the outbox is never empty, and no row is without calls.
 *
 * ORDERING
 *   The locks of the FIFO hand rows from one side to the other; see work_fifo.c.
 *   [lent]  `refs` of a block: one for the FIFO, one for each call that is lent.  Each is
 *           let go of with release, and whoever frees the block, or uses it again, has
 *           acquired them all.
 *
 * WHY NOT a node for each call, from the cache of small blocks (sync/blocks.c)?  It is
 * bounded by what one thread may keep, and a producer that is ahead of its workers
 * overflows it; then each node went through the allocator twice, on two threads.  Nodes
 * in blocks like these were better by a quarter, and still a line for each call.
 */
#include "exec/work_kinds.h"

#include "base/assert.h"

#ifdef SPN_SIM /* short scenarios shall see all of it */
enum { LINES = 2, SPARES = 1 };
#else
enum { LINES = 256, SPARES = 4 };
#endif
enum { PER_LINE = SPN__CACHE_LINE / sizeof(struct spn__entry) };

/* The first line of a row. */
struct spn__row {
    spn_task task;           /* fn is is_row */
    struct spn__entry first; /* the others follow, PER_LINE to a line */
    uint16_t line;           /* its number in the block */
    uint16_t count;          /* calls; guarded by in_lock while it may grow */
    uint16_t next;           /* the first that waits; guarded by out_lock, as is: */
    uint16_t shown;          /* 1: some are tasks too, and marked as waiting */
};

/* A call as a task: `shown` while it waits, and its links are the row and its number
 * there; then `lent`. */
struct call {
    spn_task task; /* with the entry it is a spn__call_head */
    struct spn__entry entry;
    struct spn__calls *home;
};

_Static_assert(offsetof(struct call, entry.fn) == offsetof(struct spn__call_head, fn) &&
                   offsetof(struct call, entry.arg) ==
                       offsetof(struct spn__call_head, arg),
               "as hand_out has it");

struct spn__calls {
    struct spn__calls *next;    /* of those to be used again, or freed */
    SPN__ATOMIC(uint32_t) refs; /* [lent] */
    uint32_t done;              /* lines of rows that are over; guarded by out_lock */
    _Alignas(SPN__CACHE_LINE) struct spn__row lines[LINES];
    struct call tasks[LINES * PER_LINE];
};
_Static_assert(sizeof(struct spn__row) == SPN__CACHE_LINE, "it is a line");
_Static_assert(sizeof(struct call) == SPN__CACHE_LINE, "and so is this");
_Static_assert(LINES *PER_LINE <= UINT16_MAX, "the numbers fit");

static int is_row(spn_task *task)
{
    (void)task;
    return SPN_EINVAL; /* never called */
}

static int is_shown(spn_task *task)
{
    (void)task;
    return SPN_EINVAL; /* nor is this */
}

static struct spn__entry *entry_at(struct spn__row *row, uint32_t n)
{
    return n == 0 ? &row->first : (struct spn__entry *)(void *)(row + 1) + (n - 1);
}

/* How many lines so many calls take. */
static uint32_t lines_of(uint32_t count)
{
    return 1 + (count - 1 + PER_LINE - 1) / PER_LINE;
}

static struct spn__calls *home_of(struct spn__row *row)
{
    return spn__list_entry(row - row->line, struct spn__calls, lines);
}

struct spn__row *spn__row_of(spn_task *task)
{
    return task->fn == is_row ? spn__list_entry(task, struct spn__row, task) : NULL;
}

/* ---- those who push: in_lock is held ------------------------------------------------- */

struct spn__calls *spn__calls_make(void)
{
    struct spn__calls *c =
        spn__alloc_aligned(sizeof(struct spn__calls), SPN__CACHE_LINE);

    if (c != NULL)
        spn__init(&c->refs, 1);
    return c;
}

void spn__row_end(struct spn__fifo *f)
{
    f->row = NULL;
    if (f->lines_used == LINES)
        f->calls = NULL; /* whoever takes its last call is done with it */
}

bool spn__calls_append(struct spn__fifo *f, struct spn__entry call)
{
    struct spn__row *row = f->row;

    if (row == NULL)
        return false;
    if (row->count % PER_LINE == 1) { /* a new line */
        if (f->lines_used == LINES) {
            spn__row_end(f);
            return false;
        }
        f->lines_used++;
    }
    *entry_at(row, row->count++) = call;
    return true;
}

bool spn__calls_have_line(struct spn__fifo *f, struct spn__calls **fresh)
{
    struct spn__calls *c = f->calls;

    if (c != NULL)
        return true;
    if (f->spare != NULL) {
        c = f->spare;
        f->spare = c->next;
    } else {
        c = *fresh;
        *fresh = NULL;
    }
    f->calls = c;
    f->lines_used = 0;
    if (c != NULL)
        c->done = 0; /* nobody has it but us */
    return c != NULL;
}

spn_task *spn__row_begin(struct spn__fifo *f, struct spn__entry call)
{
    struct spn__row *row = &f->calls->lines[f->lines_used];

    row->task = (spn_task)SPN_TASK_INIT(is_row, NULL);
    row->first = call;
    row->line = f->lines_used++;
    row->count = 1;
    row->next = 0;
    row->shown = 0;
    f->row = row;
    return &row->task;
}

/* ---- those who take: out_lock is held -------------------------------------------------- */

/* Lines of a block are over. */
static void lines_done(struct spn__fifo *f, struct spn__calls *c, uint32_t lines,
                       struct spn__calls **over)
{
    c->done += lines;
    if (c->done < LINES)
        return;
    if (spn__load(&c->refs, acquire) == 1) { /* [lent] none is, or all are back */
        if (f->spent_count < SPARES) {
            c->next = f->spent;
            f->spent = c;
            f->spent_count++;
            return;
        }
    } else if (spn__fetch_sub(&c->refs, 1, acq_rel) != 1) { /* [lent] */
        return;
    }
    c->next = *over;
    *over = c;
}

/* Goes on to the next call that waits; without one the row is over.  It is ended. */
static void go_on(struct spn__fifo *f, struct spn__row *row, struct spn__calls **over)
{
    while (row->next < row->count && entry_at(row, row->next)->fn == NULL)
        row->next++;
    if (row->next < row->count)
        return;
    spn__list_remove(spn__task_node(&row->task));
    lines_done(f, home_of(row), lines_of(row->count), over);
}

static struct call *call_at(struct spn__row *row, uint32_t n)
{
    struct spn__calls *c = home_of(row);

    /* The first line has one call, and place for as many tasks as the others. */
    return &c->tasks[row->line * PER_LINE + (n == 0 ? 0 : PER_LINE + n - 1)];
}

struct spn__entry spn__row_take(struct spn__fifo *f, struct spn__row *row,
                                struct spn__calls **over)
{
    const uint32_t n = row->next++;
    const struct spn__entry entry = *entry_at(row, n);

    if (row->shown != 0)
        spn__task_mark(&call_at(row, n)->task, SPN__TASK_TAKEN);
    go_on(f, row, over);
    return entry;
}

void spn__calls_reuse(struct spn__fifo *f)
{
    if (f->spare != NULL)
        return;
    f->spare = f->spent;
    f->spent = NULL;
    f->spent_count = 0;
}

bool spn__calls_pile_up(const struct spn__fifo *f)
{
    return f->spent_count == SPARES;
}

/* ---- calls as tasks --------------------------------------------------------------------- */

static struct call *call_of(spn_task *task)
{
    return spn__list_entry(task, struct call, task);
}

static void give_back(struct spn__calls *c)
{
    if (spn__fetch_sub(&c->refs, 1, acq_rel) == 1) /* [lent] */
        spn__free(c);
}

static int lent_run(spn_task *task)
{
    const struct call *call = call_of(task);
    const struct spn__entry entry = call->entry;

    give_back(call->home); /* before fn, which may end the thread */
    return entry.fn(entry.arg);
}

static void lent_drop(spn_task *task, int reason)
{
    (void)reason;
    give_back(call_of(task)->home);
}

spn_task *spn__row_show(struct spn__row *row, uint32_t n, uint32_t as)
{
    struct call *call;

    if (n >= row->count || entry_at(row, n)->fn == NULL)
        return NULL;
    call = call_at(row, n);
    call->task = (spn_task)SPN_TASK_INIT(is_shown, lent_drop);
    call->task.flags = SPN__TASK_CALL;
    call->task.link[0] = row;
    call->task.link[1] = (void *)(uintptr_t)n;
    call->entry = *entry_at(row, n);
    call->home = home_of(row);
    spn__task_mark(&call->task, as);
    row->shown = 1;
    return &call->task;
}

uint32_t spn__row_first(const struct spn__row *row)
{
    return row->next;
}

uint32_t spn__row_count(const struct spn__row *row)
{
    return row->count;
}

bool spn__call_is_shown(const spn_task *task)
{
    return task->fn == is_shown;
}

void spn__call_lend(struct spn__fifo *f, spn_task *task, struct spn__calls **over)
{
    struct spn__row *row = task->link[0];

    spn__task_mark(task, SPN__TASK_TAKEN);
    task->fn = lent_run;
    entry_at(row, (uint32_t)(uintptr_t)task->link[1])->fn = NULL;
    (void)spn__fetch_add(&home_of(row)->refs, 1, relaxed); /* [lent] ours is one */
    go_on(f, row, over);
}

/* ---- the end ------------------------------------------------------------------------------ */

void spn__calls_free(struct spn__calls *list)
{
    struct spn__calls *c;

    while ((c = list) != NULL) {
        list = c->next;
        spn__free(c);
    }
}

void spn__calls_fini(struct spn__fifo *f)
{
    spn__calls_free(f->spare);
    spn__calls_free(f->spent);
    if (f->calls != NULL) {
        spn__assert(f->calls->done == f->lines_used);
        give_back(f->calls);
    }
}
