/* SPDX-License-Identifier: MIT */
/*
 * tray.c - a task goes from its submitter's hands into those of the worker that looks for
 * one, past the queue.
 *
 * IDEA
 *   Where one task comes at a time, submitter and worker meet at the lock of the queue: a
 *   line that the worker looks at all the while, so that the submitter loses it between
 *   locking, appending and unlocking, and then the worker needs it once more to take the
 *   task out.  A crossing takes 50 to 100 ns, and four of them were half of a round trip.
 *   So the worker that spins puts out a tray, one word on a line of its own; a submitter
 *   that finds it out, and the queue empty, lays the task on it with one exchange.
 *
 * STATE  of the word
 *   AWAY -> OUT      a worker begins to look; one at a time has it
 *   OUT  -> a task   a submitter lays one on it
 *   OUT  -> AWAY     the worker takes it in, with nothing on it
 *   task -> COUNTING -> AWAY   or with the task, which it counts and then runs
 *
 * WHAT IT IS TO OTHERS
 *   As if the worker had taken the task out of the queue the moment it came in.  So it is
 *   accepted, and no longer queued; remove does not find it, shutdown_now does not return
 *   it.  Nobody is to be woken for it: it has a worker, who is counted, and does not leave
 *   or sleep before it has taken the tray in.  All that a submitter asks before it queues a
 *   task (the state, the threads there are) it has asked before; what changes after that,
 *   the worker could have been too fast for.  In a paused pool a submitter does not use
 *   the tray: it queues the task, so that remove and shutdown_now find it.
 *
 *   ORDER  Nothing overtakes: a submitter that has seen a task queued, or queued one itself,
 *   finds the queue not empty until a worker has taken that, and then queues as well.
 *
 *   ROOM  A submitter that was woken because there is room may lay its task here instead,
 *   and the room is still there; so who takes a task off the tray tells the next that waits
 *   for room, as if it had been queued.
 *
 *   Not in a pool that hands off: its capacity is the number of free workers.
 *
 * ORDERING
 *   [tray]  the release of who lays a task there pairs with the acquire of the worker that
 *           finds it: the task is as it was submitted.
 *   [pause] as in worker.c: who puts the tray out has seen the end of a pause, and with it
 *           what was done before; and so has, if a pause comes and goes while it is out, the
 *           submitter (give).
 *   [given] Who has the tray counts what it was given, in between two changes of the word:
 *           so a picture knows of a task on it that it is not counted yet, and if it finds
 *           COUNTING, by whether the number is odd; unless the word is another one when the
 *           number has been read, then it looks again.  To who has the tray next the number
 *           goes with the release of AWAY, which the exchanges that follow pass on, and the
 *           acquire of the next task.
 *
 * WHY NOT have the submitter count?  Before it lays the task there, the number would have to
 * go down if that fails.  After that, the task may have met its fate uncounted, and a
 * picture would miss another one for it.
 */
#include "exec/pool.h"

#include "exec/work.h"
#include "future/task.h"

#define AWAY   ((uintptr_t)0)
#define OUT    ((uintptr_t)1)
#define FUTURE ((uintptr_t)2) /* beside the address of a task: a future's */
/* Or it was odd: one more. */
#define COUNTING ((uintptr_t)4)

void spn__tray_init(struct spn_pool *pool)
{
    pool->has_tray = pool->kind == SPN__WORK_FIFO && !pool->handoff;
    spn__init(&pool->tray, AWAY);
    spn__init(&pool->given, 0);
}

bool spn__tray_give(struct spn_pool *pool, spn_task *task)
{
    uintptr_t found = OUT;

    /* relaxed: a hint.  By its size: what is queued is not hidden by what goes meanwhile,
     * and is ordered by who queued it. */
    if (spn__load(&pool->tray, relaxed) != OUT || spn__work_size(pool) != 0)
        return false;
    if (spn__load(&pool->paused, acquire) != 0) /* [pause] */
        return false;
    return spn__cas(&pool->tray, &found,
                    (uintptr_t)task | (task->fn == spn__task_future_fn ? FUTURE : 0),
                    release, relaxed); /* [tray] */
}

bool spn__tray_put_out(struct spn__worker *w)
{
    struct spn_pool *pool = w->pool;
    uintptr_t away = AWAY;

    if (!pool->has_tray || spn__load(&pool->paused, acquire) != 0) /* [pause] */
        return false;
    /* relaxed: it says nothing but that it is there; the number comes with the task. */
    return spn__cas(&pool->tray, &away, OUT, relaxed, relaxed);
}

/* The tray is ours alone while a task is on it. */
static void count_one(struct spn_pool *pool)
{
    const int64_t given = spn__load(&pool->given, relaxed); /* as that is */

    /* Who sees the number that follows sees this.  [given] release: and who sees this sees
     * the number before, which another worker may have written. */
    spn__store(&pool->tray, COUNTING | (uintptr_t)(given & 1), release);
    spn__store(&pool->given, given + 1, release); /* [given] */
    spn__store(&pool->tray, AWAY, release);       /* [given] */
}

int64_t spn__tray_given(struct spn_pool *pool)
{
    uintptr_t found;
    int64_t given;

    do {
        found = spn__load(&pool->tray, acquire);        /* [given] */
        given = spn__load(&pool->given, acquire);       /* [given] */
    } while (spn__load(&pool->tray, relaxed) != found); /* not before the number */
    if (found <= OUT || found == (COUNTING | (uintptr_t)(~given & 1)))
        return given;
    return given + 1;
}

bool spn__tray_take_in(struct spn__worker *w)
{
    struct spn_pool *pool = w->pool;
    uintptr_t found = OUT;

    /* relaxed, all: with nothing on it nothing comes, and a task stays there. */
    if (spn__load(&pool->tray, relaxed) == OUT &&
        spn__cas(&pool->tray, &found, AWAY, relaxed, relaxed))
        return false;
    found = spn__load(&pool->tray, acquire); /* [tray], [given] */
    w->given = (spn_task *)(found & ~FUTURE);
    if ((found & FUTURE) != 0)
        spn__task_fetch(w->given);
    count_one(pool);
    return true;
}
