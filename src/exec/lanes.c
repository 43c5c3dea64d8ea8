/* SPDX-License-Identifier: MIT */
/*
 * lanes.c - where a pool's tasks wait, the fast way.
 *
 * OVERVIEW
 *   A lane per producing thread: a row of slots {fn, arg} in chunks, written at the
 *   tail by that thread alone, so a push is two stores and the release of the tail: no
 *   locked instruction, no fence.  A worker claims a range of slots at the head of a
 *   lane, under the lane's lock, as its batch, and starts them one by one, with no
 *   locked instruction either.  Slots are not moved: a batch is a range in a chunk, a
 *   thief gets a part of the range, and a chunk is used again when all its slots are
 *   done.
 *
 *   A lane is found through the thread's record (sync/seat.h).  When its thread ends,
 *   the next one that comes takes it over, with what is in it.  Lanes and batches live
 *   as long as the whole; there are as many as there were threads at once.
 *
 * BATCHES
 *   How many slots a worker claims depends on how many wait, so that the others find
 *   something too.  What is in a batch behind a long task is not lost to it.  A worker
 *   that finds the lanes empty looks at the batches of the others and steals one that
 *   gets on too slowly.  Before a claim, at most once per LOOK_NS, a worker looks at one
 *   other batch and steals it if its `taken` is what it was at the last look.  A thief
 *   takes all of a batch and starts with the oldest, as a queue would.
 *
 * STARTING AN ENTRY                                      next <= end, gate <= end
 *   The owner of a batch starts entry n by    next = n + 1; fence; n < gate?
 *   Who wants entries from `at` on does       gate = at; fence; next <= at?
 *   with the batch locked, and each sees the other's store or is seen [gate]: what lies
 *   at or above both numbers is the thief's, and no owner gets there.  An owner that
 *   finds the gate shut takes its step back and asks again under the lock.  The gate
 *   is `end` whenever the lock is free.  The thief's fence is the heavy one.
 *
 *   remove shuts the gate at one entry, makes the slot a tombstone (fn is NULL) and
 *   opens it again; a tombstone is skipped when its turn comes.  Those at the ends are
 *   trimmed at once, so that what is removed first and last leaves nothing to be looked
 *   at; for the others a worker may look, and find nothing.
 *
 * FINDING A TASK
 *   A task's links are its lane and its position there.  A position below the lane's
 *   head is in a batch, or gone; else its chunk is found in the lane's directory.  The
 *   links may be read while the task is being submitted again, anywhere: so they are
 *   only compared, never followed, and the slot that they lead to must hold the task.
 *
 * ORDERING
 *   [tail]  the release of the tail publishes the slot, the chunk and what the
 *           submitter did before; who claims, or looks, acquires it.
 *   [head]  a claim fills its batch before it moves the head, with release; who finds
 *           a lane empty has acquired that and sees the batch: an entry that moves is
 *           not missed by who looks at the lanes first and at the batches then.
 *   [gate]  see above; and when the gate is opened again, with release, the owner that
 *           acquires it sees the tombstones.
 *   [left]  each release of slots of a chunk, and the acquire of the last one: the
 *           chunk is written again after all reads.
 *   [list]  lanes and batches are published complete.
 *   [door]  close sets `closed`, and a heavy fence; push makes a light one after the
 *           tail and looks: either close's callers see the entry, or push takes it
 *           back itself, unless somebody has taken it by then.
 *
 * LOCKS, in this order
 *   lanes->lock  batches do not trade entries, and no lane is added, while it is held
 *   lane->lock   the head, the directory, tombstones in the lane, the claims
 *   batch->lock  its range; two of them only with lanes->lock held
 *   spare_lock   a leaf
 *
 * PROGRESS  push waits for a lock once per chunk.  any, size, pushed never wait.
 *
 * WHY NOT copy the batch out, as is usual?  A task that is removed would have to be
 * found in its copy, and every start would write to the task.
 */
#include "exec/lanes.h"

#include "base/assert.h"

/* ---- chunks ----------------------------------------------------------------------- */

static struct chunk *get_chunk(struct spn__lanes *lanes)
{
    struct chunk *c;

    spn__lock(&lanes->spare_lock);
    c = lanes->spare;
    if (c != NULL) {
        lanes->spare = c->next_spare;
        lanes->spares--;
    }
    spn__unlock(&lanes->spare_lock);
    if (c == NULL)
        c = spn__alloc_aligned(sizeof *c, SPN__CACHE_LINE);
    if (c != NULL)
        spn__init(&c->left, CHUNK);
    return c;
}

static void put_chunk(struct spn__lanes *lanes, struct chunk *c)
{
    bool kept;

    spn__lock(&lanes->spare_lock);
    kept = lanes->spares < SPARES;
    if (kept) {
        c->next_spare = lanes->spare;
        lanes->spare = c;
        lanes->spares++;
    }
    spn__unlock(&lanes->spare_lock);
    if (!kept)
        spn__free(c);
}

void spn__lanes_done(struct spn__lanes *lanes, struct chunk *c, uint32_t slots)
{
    if (slots != 0 && spn__fetch_sub(&c->left, slots, acq_rel) == slots) /* [left] */
        put_chunk(lanes, c);
}

/* ---- a lane, from its producer's side ------------------------------------------------ */

/* Twice the directory; the lane is locked. */
static bool grow_directory(struct lane *l)
{
    const uint64_t size = l->directory_size;
    struct chunk **bigger = spn__alloc((size_t)(2 * size) * sizeof(struct chunk *));
    /* relaxed: ours, by the lock.  The oldest chunk with an entry. */
    const uint64_t oldest = spn__load(&l->head, relaxed) / CHUNK;

    if (bigger == NULL)
        return false;
    for (uint64_t i = oldest; i < oldest + size; i++)
        bigger[i & (2 * size - 1)] = l->directory[i & (size - 1)];
    if (l->directory != l->few)
        spn__free(l->directory);
    l->directory = bigger;
    l->directory_size = 2 * size;
    return true;
}

/* Takes the lines of a chunk, which the worker that was done with it last still has, to
 * the producer, all at once: one by one they would hold up every fourth push. */
static void own(struct chunk *c)
{
    for (uint32_t i = 0; i < CHUNK; i += SPN__CACHE_LINE / sizeof(struct spn__entry))
        spn__prefetch_write(&c->slots[i]);
}

/* A chunk for the next entry. */
static bool extend(struct lane *l)
{
    struct chunk *c = get_chunk(l->lanes);
    const uint64_t number = l->pushed / CHUNK;
    bool ok = true, has_grown = false;

    if (c == NULL)
        return false;
    spn__lock(&l->lock);
    /* relaxed: ours, by the lock. */
    if (number - spn__load(&l->head, relaxed) / CHUNK >= l->directory_size)
        ok = has_grown = grow_directory(l);
    if (ok)
        l->directory[number & (l->directory_size - 1)] = c;
    spn__unlock(&l->lock);
    if (!ok) {
        put_chunk(l->lanes, c);
        return false;
    }
    l->tail_chunk = c;
    l->slot = c->slots;
    l->slots_end = c->slots + CHUNK;
    own(c);
    if (has_grown && l->directory_size * CHUNK >= TELLING && l->lanes->pool != NULL)
        spn__work_grown(l->lanes->pool);
    return true;
}

static struct lane *make_lane(struct spn__lanes *lanes, struct spn_thread *self)
{
    struct lane *l = spn__alloc_aligned(sizeof *l, APART);

    if (l == NULL)
        return NULL;
    l->tail_chunk = NULL;
    l->slot = l->slots_end = NULL;
    l->pushed = 0;
    spn__seat_init(&l->seat, lanes);
    spn__init(&l->next, NULL);
    l->lanes = lanes;
    spn__init(&l->tail, 0);
    spn__lock_init(&l->lock);
    l->head_index = CHUNK;
    l->head_chunk = NULL;
    spn__init(&l->head, 0);
    l->directory = l->few;
    l->directory_size = DIRECTORY;
    l->claimed = NULL;
    l->seen = 0;
    (void)spn__seat_take(&l->seat, self); /* nobody else knows it */

    spn__lock(&lanes->lock);
    if (lanes->last_lane == NULL)
        spn__store(&lanes->lanes, l, release); /* [list] */
    else
        spn__store(&lanes->last_lane->next, l, release); /* [list] */
    lanes->last_lane = l;
    spn__unlock(&lanes->lock);
    return l;
}

/* The calling thread's lane, when it has not used it of late or has none. */
static struct lane *find_lane(struct spn__lanes *lanes)
{
    struct spn_thread *self = spn__thread_self();
    struct spn__seat *seat;

    if (self == NULL)
        return NULL;
    seat = spn__seat_find(self, lanes);
    if (seat != NULL)
        return lane_of_seat(seat);
    for (struct lane *l = first_lane(lanes); l != NULL; l = next_lane(l))
        if (spn__seat_take(&l->seat, self))
            return l;
    return make_lane(lanes, self);
}

/* Takes the last entry of the calling thread's lane back. */
static bool take_back(struct lane *l, struct spn__entry entry)
{
    bool mine = false;

    spn__lock(&l->lock);
    /* relaxed: ours, by the lock.  Another one in its place: a tombstone. */
    if (spn__load(&l->head, relaxed) < l->pushed)
        mine = l->slot[-1].fn == entry.fn && l->slot[-1].arg == entry.arg;
    if (mine) {
        l->slot--;
        l->pushed--;
        spn__store(&l->tail, l->pushed, relaxed); /* who acts on it has the lock */
        if (entry.fn == spn__entry_task)
            mark_taken(entry.arg);
    }
    spn__unlock(&l->lock);
    return mine;
}

int spn__lanes_refuse(struct lane *l, struct spn__entry entry)
{
    return take_back(l, entry) ? SPN_ESHUTDOWN : SPN_OK;
}

static __attribute__((noinline)) int push_slowly(struct spn__lanes *lanes,
                                                 struct spn__entry entry)
{
    struct lane *l = recall_lane(lanes);

    if (l == NULL)
        l = find_lane(lanes);
    if (l == NULL || (!has_slot(l) && !extend(l)))
        return SPN_ENOMEM;
    return append(lanes, l, entry) ? SPN_OK : spn__lanes_refuse(l, entry);
}

int spn__lanes_push(struct spn__lanes *lanes, struct spn__entry entry)
{
    struct lane *l = recall_lane(lanes);

    /* No call but the last, so that nothing needs to be kept across one. */
    if (__builtin_expect(l == NULL || !has_slot(l), 0))
        return push_slowly(lanes, entry);
    if (__builtin_expect(!append(lanes, l, entry), 0))
        return spn__lanes_refuse(l, entry);
    return SPN_OK;
}

bool spn__lanes_take_back(struct spn__lanes *lanes, struct spn__entry entry)
{
    struct lane *l = recall_lane(lanes);

    return take_back(l != NULL ? l : find_lane(lanes), entry);
}

void spn__lanes_close(struct spn__lanes *lanes)
{
    spn__store(&lanes->closed, 1, relaxed); /* before the fence [door] */
    spn__fence_heavy();                     /* [door] */
}

/* ---- batches --------------------------------------------------------------------------- */

/*
 * Gives a batch that has nothing the slots [from, to) of a chunk.  The first is the
 * owner's to start at once, so a single one needs no range.
 */
static void fill(struct spn__batch *b, struct lane *l, struct chunk *c, uint64_t base,
                 uint32_t from, uint32_t to)
{
    /* The tasks may well be full of locked instructions, behind which no load goes
     * ahead: fetch now what is read one by one later. */
    for (uint32_t i = from; i < to; i += SPN__CACHE_LINE / sizeof(struct spn__entry))
        __builtin_prefetch(&c->slots[i]);
    b->first = from;
    b->open = to - from > 1;
    if (b->open)
        spn__lock(&b->lock);
    b->chunk = c;
    b->held = to - from;
    if (b->open) {
        b->lane = l;
        b->base = base;
        /* relaxed, all: under the lock, or followed by [head]. */
        spn__store(&b->next, from + 1, relaxed);
        spn__store(&b->end, to, relaxed);
        spn__store(&b->gate, to, relaxed);
        spn__unlock(&b->lock);
    }
}

/* The owner is done with its range, which is empty: nobody else touches it. */
static void finish(struct spn__lanes *lanes, struct spn__batch *b)
{
    const uint32_t held = b->held;

    b->held = 0;
    if (held != 0)
        spn__lanes_done(lanes, b->chunk, held);
}

bool spn__batch_ask(struct spn__batch *b, uint32_t n)
{
    bool mine;

    spn__store(&b->next, n, relaxed); /* a step back; see STARTING AN ENTRY */
    spn__lock(&b->lock);
    mine = n < spn__load(&b->end, relaxed); /* ours, by the lock */
    if (mine)
        spn__store(&b->next, n + 1, relaxed); /* no thief is about */
    else
        b->open = false;
    spn__unlock(&b->lock);
    return mine;
}

/* Starts the entry that came with a claim, or the one behind it. */
static bool pop_first(struct spn__batch *b, struct spn__entry *entry)
{
    *entry = b->chunk->slots[b->first];
    if (entry->fn == NULL)
        return spn__batch_pop(b, entry);
    spn__batch_count(b);
    return true;
}

/* ---- taking ------------------------------------------------------------------------------- */

static bool lane_waits(struct lane *l)
{
    /* [head] acquire: what was claimed is in a batch by now.  relaxed: who acts on it
     * reads the tail again. */
    return spn__load(&l->head, acquire) != spn__load(&l->tail, relaxed);
}

/* How much of a backlog one worker claims, if so much is in one chunk. */
static uint32_t share(struct spn__lanes *lanes, uint64_t backlog, uint32_t limit)
{
    const uint32_t workers = spn__load(&lanes->workers, relaxed); /* a hint */
    const uint32_t parts = workers > 1 ? SHARES * workers : 1;
    uint32_t n = BATCH;

    if (backlog < (uint64_t)BATCH * parts)
        n = (uint32_t)backlog / parts;
    if (n > limit)
        n = limit;
    return n > 0 ? n : 1;
}

/* Claims entries of a lane, which is locked and then no more. */
static bool claim(struct spn__lanes *lanes, struct spn__batch *b, struct lane *l,
                  bool *more)
{
    const uint64_t tail = spn__load(&l->tail, acquire); /* [tail] */
    const uint64_t head = spn__load(&l->head, relaxed); /* ours, by the lock */
    uint32_t n;

    if (head == tail) {
        spn__unlock(&l->lock);
        return false;
    }
    if (l->head_index == CHUNK) {
        l->head_chunk = chunk_at(l, head);
        l->head_index = 0;
    }
    n = share(lanes, tail - head, CHUNK - l->head_index);
    fill(b, l, l->head_chunk, head - l->head_index, l->head_index, l->head_index + n);
    l->head_index += n;
    spn__store(&l->head, head + n, release); /* [head] */
    spn__unlock(&l->lock);
    *more = tail - head > 1;
    return true;
}

static uint64_t backlog_of(struct lane *l)
{
    /* relaxed, both: a hint. */
    return spn__load(&l->tail, relaxed) - spn__load(&l->head, relaxed);
}

/*
 * Before a claim.  A worker that is right behind its producer and claims but a few
 * entries at a time takes the lines of the tail and of the slot away from it for each
 * of them, which costs both many times what the entries do.  So where claims are small
 * again and again it lets some pile up.  Where none do, because who submits them waits
 * for them or has other things to do, it is not tried again for long.
 */
static void let_pile_up(struct spn__batch *b, struct lane *l)
{
    if (backlog_of(l) >= FEW) {
        b->small = 0;
        return;
    }
    if (++b->small < TIMES)
        return;
    for (int i = 0; i < PATIENCE; i++)
        spn__cpu_relax();
    b->small = backlog_of(l) >= FEW ? TIMES - 1 : -RARELY;
}

/* Claims entries of any lane, the one behind the last claim first. */
static bool claim_any(struct spn__lanes *lanes, struct spn__batch *b, bool *more)
{
    struct lane *const first = first_lane(lanes);
    struct lane *const start = b->cursor != NULL ? b->cursor : first;
    bool wait = false, busy = false;

    if (first == NULL)
        return false;
    for (;;) {
        struct lane *l = start;

        do {
            struct lane *const following = next_lane(l);

            if (lane_waits(l)) {
                bool locked;

                let_pile_up(b, l);
                locked = spn__lock_try(&l->lock);
                if (!locked && wait)
                    spn__lock(&l->lock);
                if (!locked && !wait) {
                    busy = true;
                } else if (claim(lanes, b, l, more)) {
                    b->cursor = following;
                    return true;
                }
            }
            l = following != NULL ? following : first;
        } while (l != start);
        /* Where another was at it and nothing else was found, stand in line: it may
         * be preempted, and spinning would not help it. */
        if (!busy || wait)
            return false;
        wait = true;
    }
}

/* Takes all that waits in a batch. */
static bool steal(struct spn__lanes *lanes, struct spn__batch *b, struct spn__batch *v,
                  bool *more)
{
    struct chunk *chunk = NULL;
    struct lane *lane = NULL;
    uint64_t base = 0;
    uint32_t next, end, from;

    spn__lock(&lanes->lock);
    spn__lock(&v->lock);
    next = spn__load(&v->next, relaxed); /* of the owner: shut decides */
    end = spn__load(&v->end, relaxed);   /* ours, by the lock */
    from = end;
    if (next < end) {
        from = shut(v, next);
        v->held -= end - from;
        spn__store(&v->end, from, relaxed); /* seen by waiting, which only hints */
        if (from < end) {                   /* else the owner may be filling it anew */
            chunk = v->chunk;
            lane = v->lane;
            base = v->base;
        }
        reopen(v);
    }
    spn__unlock(&v->lock);
    /* Still with lanes->lock, so that remove finds them here or there. */
    if (from < end)
        fill(b, lane, chunk, base, from, end);
    spn__unlock(&lanes->lock);
    *more = end - from > 1;
    return from < end;
}

enum found { NOTHING, SOMETHING, LOOK_AGAIN };

static bool any_lane_waits(struct spn__lanes *lanes)
{
    for (struct lane *l = first_lane(lanes); l != NULL; l = next_lane(l))
        if (lane_waits(l))
            return true;
    return false;
}

/*
 * The lanes are empty: takes from another worker's batch, if that gets on too slowly.
 * A theft costs both some microseconds; a batch that is at its end by then is better
 * left alone.  Waits for an end that is near, or new work, so that its caller does not
 * go to sleep and wake up for nothing.
 */
static enum found steal_any(struct spn__lanes *lanes, struct spn__batch *b, bool *more)
{
    for (struct spn__batch *v = first_batch(lanes); v != NULL; v = next_batch(v)) {
        const int64_t before =
            spn__load(&v->taken, relaxed); /* a hint, here and below */
        uint32_t left = waiting(v);

        if (left == 0 || v == b)
            continue;
        for (int i = 0; i < SPN__SPIN_LIMIT && left != 0; i++) {
            spn__cpu_relax();
            if (any_lane_waits(lanes))
                return LOOK_AGAIN;
            left = waiting(v);
        }
        if (left == 0)
            return LOOK_AGAIN;
        if (left / SLOW < (uint64_t)(spn__load(&v->taken, relaxed) - before))
            return LOOK_AGAIN;
        return steal(lanes, b, v, more) ? SOMETHING : LOOK_AGAIN;
    }
    return NOTHING;
}

/*
 * Before a claim: steals the batch that this worker watches if its owner started nothing
 * since the last look, and watches the next one.  So a worker that claims finds a stalled
 * batch within as many looks as there are batches and one.
 */
static bool steal_stalled(struct spn__lanes *lanes, struct spn__batch *b, bool *more)
{
    struct spn__batch *const v = b->watched;
    struct spn__batch *following = NULL;
    bool stalled = false;
    int64_t now_ns;

    if (next_batch(first_batch(lanes)) == NULL)
        return false; /* a single worker saves the clock */
    now_ns = spn__now_coarse();
    if (now_ns - b->looked_ns < LOOK_NS)
        return false;
    b->looked_ns = now_ns;
    if (v != NULL) {
        /* relaxed: a hint. */
        stalled = v != b && spn__load(&v->taken, relaxed) == b->watched_taken &&
                  waiting(v) != 0;
        following = next_batch(v);
    }
    b->watched = following != NULL ? following : first_batch(lanes);
    b->watched_taken = spn__load(&b->watched->taken, relaxed); /* a hint */
    return stalled && steal(lanes, b, v, more);
}

static __attribute__((noinline)) bool refill(struct spn__lanes *lanes,
                                             struct spn__batch *b,
                                             struct spn__entry *entry, bool *more)
{
    for (;;) {
        enum found found;

        finish(lanes, b);
        if (steal_stalled(lanes, b, more))
            found = SOMETHING;
        else if (claim_any(lanes, b, more))
            found = SOMETHING;
        else
            found = steal_any(lanes, b, more);
        if (found == NOTHING)
            return false;
        if (found == SOMETHING && pop_first(b, entry))
            return true;
    }
}

bool spn__lanes_take(struct spn__lanes *lanes, struct spn__worker *worker,
                     struct spn__entry *entry, bool *more)
{
    *more = false;
    return spn__batch_pop(worker->batch, entry) ||
           refill(lanes, worker->batch, entry, more);
}

/* ---- asking --------------------------------------------------------------------------------- */

bool spn__lanes_any(struct spn__lanes *lanes)
{
    /* In this order [head].  An entry that goes from one batch to another may be
     * missed; the thief is told of `more`, and wakes. */
    if (any_lane_waits(lanes))
        return true;
    for (struct spn__batch *b = first_batch(lanes); b != NULL; b = next_batch(b))
        if (waiting(b) != 0)
            return true;
    return false;
}

int64_t spn__lanes_pushed(struct spn__lanes *lanes)
{
    int64_t pushed = 0;

    for (struct lane *l = first_lane(lanes); l != NULL; l = next_lane(l))
        pushed += (int64_t)spn__load(&l->tail, relaxed); /* only a count */
    return pushed;
}

int64_t spn__lanes_size(struct spn__lanes *lanes)
{
    /* The rest are only counts.  [hold] acquire: who took one out held the pool
     * before. */
    int64_t size = -spn__load(&lanes->removed, acquire);

    for (struct spn__batch *b = first_batch(lanes); b != NULL; b = next_batch(b))
        size -= spn__load(&b->taken, relaxed);
    size += spn__lanes_pushed(lanes);
    return size > 0 ? size : 0;
}

/* ---- workers come and go ------------------------------------------------------------------------ */

/* A batch that a worker has given up, or NULL. */
static struct spn__batch *adopt_batch(struct spn__lanes *lanes)
{
    for (struct spn__batch *b = first_batch(lanes); b != NULL; b = next_batch(b)) {
        uint32_t unused = 0;

        /* relaxed, all: who has it is all they say; the lock hands it over. */
        if (spn__load(&b->in_use, relaxed) == 0 &&
            spn__cas(&b->in_use, &unused, 1, relaxed, relaxed)) {
            spn__lock(&b->lock);
            b->open = waiting(b) != 0; /* thieves may be about, and it is theirs then */
            spn__unlock(&b->lock);
            return b;
        }
    }
    return NULL;
}

static struct spn__batch *make_batch(struct spn__lanes *lanes)
{
    struct spn__batch *b = spn__alloc_aligned(sizeof *b, SPN__CACHE_LINE);

    if (b == NULL)
        return NULL;
    *b = (struct spn__batch){ .open = false };
    spn__init(&b->next, 0);
    spn__init(&b->taken, 0);
    spn__init(&b->gate, 0);
    spn__init(&b->end, 0);
    spn__lock_init(&b->lock);
    spn__init(&b->in_use, 1);
    spn__init(&b->following, NULL);
    spn__lock(&lanes->lock);
    if (lanes->last_batch == NULL)
        spn__store(&lanes->batches, b, release); /* [list] */
    else
        spn__store(&lanes->last_batch->following, b, release); /* [list] */
    lanes->last_batch = b;
    spn__unlock(&lanes->lock);
    return b;
}

int spn__lanes_worker_init(struct spn__lanes *lanes, struct spn__worker *worker)
{
    struct spn__batch *b = adopt_batch(lanes);

    if (b == NULL)
        b = make_batch(lanes);
    if (b == NULL)
        return SPN_ENOMEM;
    worker->batch = b;
    (void)spn__fetch_add(&lanes->workers, 1, relaxed); /* a hint */
    return SPN_OK;
}

void spn__lanes_worker_fini(struct spn__lanes *lanes, struct spn__worker *worker)
{
    struct spn__batch *b = worker->batch;
    struct chunk *c;
    uint32_t over;

    spn__lock(&b->lock);
    c = b->chunk;
    over = b->held - waiting(b);
    b->held -= over;
    spn__unlock(&b->lock);
    if (over != 0)
        spn__lanes_done(lanes, c, over);
    worker->batch = NULL;
    (void)spn__fetch_sub(&lanes->workers, 1, relaxed); /* a hint */
    spn__store(&b->in_use, 0, relaxed);                /* see adopt_batch */
}

int spn__lanes_create(struct spn__lanes **out, uint32_t mark)
{
    struct spn__lanes *lanes = spn__alloc_aligned(sizeof *lanes, SPN__CACHE_LINE);

    *out = lanes;
    if (lanes == NULL)
        return SPN_ENOMEM;
    lanes->pool = NULL;
    lanes->mark = mark;
    spn__init(&lanes->closed, 0);
    spn__init(&lanes->workers, 0);
    spn__init(&lanes->lanes, NULL);
    spn__init(&lanes->batches, NULL);
    spn__lock_init(&lanes->lock);
    spn__init(&lanes->removed, 0);
    lanes->last_lane = NULL;
    lanes->last_batch = NULL;
    spn__lock_init(&lanes->spare_lock);
    lanes->spare = NULL;
    lanes->spares = 0;
    return SPN_OK;
}

/* Nothing but tombstones is left in a lane. */
static void free_lane(struct spn__lanes *lanes, struct lane *l)
{
    /* relaxed, both: nobody else is left. */
    const uint64_t tail = spn__load(&l->tail, relaxed);

    spn__seat_clear(&l->seat);
    for (uint64_t p = spn__load(&l->head, relaxed); p < tail; p++) {
        struct chunk *c = chunk_at(l, p);

        spn__assert(c->slots[p % CHUNK].fn == NULL);
        spn__lanes_done(lanes, c, 1);
    }
    /* The last chunk, unless all its slots are done. */
    if (has_slot(l))
        spn__free(l->tail_chunk);
    if (l->directory != l->few)
        spn__free(l->directory);
    spn__free(l);
}

void spn__lanes_destroy(struct spn__lanes *lanes)
{
    struct lane *l = first_lane(lanes);
    struct spn__batch *b = first_batch(lanes);

    spn__assert(spn__lanes_size(lanes) == 0);
    for (; b != NULL; b = next_batch(b))
        spn__lanes_done(lanes, b->chunk, b->held); /* tombstones */
    b = first_batch(lanes);
    while (l != NULL) {
        struct lane *const following = next_lane(l);

        free_lane(lanes, l);
        l = following;
    }
    while (b != NULL) {
        struct spn__batch *const following = next_batch(b);

        spn__free(b);
        b = following;
    }
    while (lanes->spare != NULL) {
        struct chunk *c = lanes->spare;

        lanes->spare = c->next_spare;
        spn__free(c);
    }
    spn__free(lanes);
}
