/* SPDX-License-Identifier: MIT */
/*
 * repository.c - pools by side and port.
 *
 * OVERVIEW
 *   A list of slots, each a pool with its key, under one lock.  There are few: a linear
 *   search is fine.  A slot is current, and found by its key, or retired: its pool was shut
 *   down and another has its key, but somebody has it still.
 *
 * MAKING runs functions of extensions, so it happens with no lock held, and the list is
 *   looked at again afterwards: of two threads that make a pool for the same key at the
 *   same time one wins, and the other throws away what nobody has seen.  The other way, a
 *   mark that makes others wait, saves a pool without threads once in a blue moon and costs
 *   a wait that can deadlock.
 *
 * LIFE of a slot: linked -> current -> (shut down, found dead) retired -> gone
 *   It goes when nobody has taken it and its pool has terminated; whoever calls next sees
 *   to that.  A slot that is held stays linked, so a walk over the list holds the slot it
 *   stands on, and needs neither memory nor the lock while it works on it.
 *
 * THE END  `closed` is set under the lock, before pools are shut down: a pool in the making
 *   is thrown away when it comes to be linked.
 *
 * SHARED things are made once on request, each by its own call, and the loser of two that
 *   make one throws his away.  The timer is closed first, as it hands work to the shared
 *   pool; what waits for its timeouts is told as soon as no callback runs.  One that does
 *   not end is interrupted with the pool's tasks, and then the timer ends or is left to
 *   the next call.
 *
 * LOCKS  `lock` guards all that is not fixed.  Under it only the state words of pools are
 *   read.
 */
#include <spindle/repository.h>

#include <stdio.h>
#include <string.h>

#include <spindle/url_pool.h>

#include "base/assert.h"
#include "base/list.h"
#include "base/log.h"
#include "base/options.h"
#include "base/time.h"
#include "config/ext.h"
#include "config/problem.h"
#include "sync/lock.h"
#include "wheel/timer.h"

_Static_assert(sizeof(spn_repository_opts) == 5 * sizeof(void *),
               "append only, no holes");

/* After shutdown_now: for tasks to notice their interrupt. */
#define GRACE_NS SPN_MS(100)

enum { KEY_MAX = 512, PROVIDER = 0, CONSUMER = 1, SCHEDULER_THREADS = 8 };

/* Of a pool, as spn_pool_create has it: room is left for the number of a thread. */
enum { POOL_NAME_MAX = SPN_THREAD_NAME_MAX - 20 };

struct slot {
    struct spn__list_node link;
    spn_url_pool *url_pool; /* fixed, as is the key */
    uint64_t held;          /* how often it is taken */
    bool current;
    char key[];
};

struct spn_repository {
    spn_extensions *extensions; /* fixed; held */
    bool isolation;             /* fixed, as is what follows */
    spn_exhausted_fn exhausted;
    void *ctx;
    struct spn__lock lock;
    struct spn__list slots; /* oldest first */
    bool seen[2];           /* a pool of that side was made */
    bool closed;
    struct slot *shared; /* in slots too */
    spn_timer *timer;
    spn_scheduled *scheduled;
    struct spn__log_limit warned; /* its own */
};

/* ---- keys ------------------------------------------------------------------------------------ */

struct key {
    int side;
    char text[KEY_MAX];
    char name[POOL_NAME_MAX + 1]; /* of its threads, if the URL has none */
};

/* A name of threads may be shorter than a key: the end of a long one is left out, but not
 * half of a character. */
static void name_after(struct key *key, const char *service)
{
    static const char prefix[] = "isolation-";
    size_t length = strlen(service);

    if (length > sizeof key->name - sizeof prefix) {
        length = sizeof key->name - sizeof prefix;
        while (length > 0 && ((unsigned char)service[length] & 0xC0) == 0x80)
            length--;
    }
    (void)snprintf(key->name, sizeof key->name, "%s%.*s", prefix, (int)length, service);
}

/* As Dubbo compares it: in any case. */
static bool is_consumer(const spn_url *url)
{
    static const char word[] = "consumer";
    const char *side = spn_url_get_string(url, NULL, "side", "");
    size_t i = 0;

    for (; i < sizeof word - 1; i++)
        if (side[i] != word[i] && side[i] != word[i] - 'a' + 'A')
            return false;
    return side[i] == '\0';
}

static int make_key(const spn_repository *r, const spn_url *url, struct key *key,
                    spn_problem *problem)
{
    char service[KEY_MAX - 16];
    const char *protocol = spn_url_protocol(url);
    int64_t length;

    key->side = is_consumer(url) ? CONSUMER : PROVIDER;
    if (r->isolation && key->side == PROVIDER &&
        spn_url_get_string(url, NULL, "interface", NULL) != NULL) {
        length = spn_url_print(url, SPN_URL_SERVICE_KEY, service, sizeof service);
        if (length >= (int64_t)sizeof service)
            return spn__refuse(problem, SPN_ERANGE, 0, "the service key is too long");
        (void)snprintf(key->text, sizeof key->text, "service/%s", service);
        name_after(key, service);
        return SPN_OK;
    }
    (void)snprintf(key->text, sizeof key->text, "%s/%d",
                   key->side == CONSUMER ? "consumer" : "provider",
                   (int)spn_url_port(url));
    (void)snprintf(key->name, sizeof key->name, "%.64s-protocol-%d",
                   protocol != NULL ? protocol : "none", (int)spn_url_port(url));
    return SPN_OK;
}

/* ---- slots ------------------------------------------------------------------------------------- */

static struct slot *slot_of(struct spn__list_node *node)
{
    return spn__list_entry(node, struct slot, link);
}

static spn_pool *pool_of(const struct slot *slot)
{
    return spn_url_pool_pool(slot->url_pool);
}

static bool is_shutdown(spn_pool *pool)
{
    return spn_executor_is_shutdown(spn_pool_executor(pool)) == 1;
}

static bool is_terminated(spn_pool *pool)
{
    return spn_executor_is_terminated(spn_pool_executor(pool)) == 1;
}

/* With the lock held: the current slot of a key, alive or not. */
static struct slot *find(spn_repository *r, const char *key)
{
    struct spn__list_node *node;

    spn__list_each (node, &r->slots)
        if (slot_of(node)->current && strcmp(slot_of(node)->key, key) == 0)
            return slot_of(node);
    return NULL;
}

/* With the lock held: the current slot of a key if its pool takes tasks, taken. */
static struct slot *take_live(spn_repository *r, const char *key)
{
    struct slot *slot = find(r, key);

    if (slot == NULL || is_shutdown(pool_of(slot)))
        return NULL;
    slot->held++;
    return slot;
}

/* Frees a slot whose pool has ended. */
static void free_slot(struct slot *slot)
{
    const int rc = spn_url_pool_destroy(slot->url_pool);

    spn__assert(rc == SPN_OK);
    spn__free(slot);
}

/* Takes a slot that is not linked apart; its pool never had a task. */
static void throw_away(struct slot *slot)
{
    if (slot == NULL)
        return;
    (void)spn_executor_shutdown(
        spn_pool_executor(pool_of(slot))); /* no thread, no task: that is its end */
    free_slot(slot);
}

/* Frees what was replaced and nobody has any more.  With the lock not held. */
static void reap(spn_repository *r)
{
    struct spn__list_node *node, *next;
    struct spn__list gone;

    spn__list_init(&gone);
    spn__lock(&r->lock);
    spn__list_each_safe (node, next, &r->slots) {
        const struct slot *slot = slot_of(node);

        if (!slot->current && slot->held == 0 && is_terminated(pool_of(slot))) {
            spn__list_remove(node);
            spn__list_push_back(&gone, node);
        }
    }
    spn__unlock(&r->lock);
    while ((node = spn__list_pop_front(&gone)) != NULL)
        free_slot(slot_of(node));
}

/* ---- making -------------------------------------------------------------------------------------- */

static int make_slot(spn_repository *r, const spn_url *url, const struct key *key,
                     struct slot **out, spn_problem *problem)
{
    spn_url_pool_opts opts = SPN_URL_POOL_OPTS_INIT;
    const size_t length = strlen(key->text) + 1;
    struct slot *slot = spn__alloc(sizeof *slot + length);
    int rc;

    if (slot == NULL)
        return SPN_ENOMEM;
    opts.extensions = r->extensions;
    opts.threadpool = key->side == CONSUMER ? "cached" : NULL;
    opts.name = key->name;
    opts.exhausted = r->exhausted;
    opts.ctx = r->ctx;
    rc = spn_url_pool_create(&slot->url_pool, url, &opts, problem);
    if (rc != SPN_OK) {
        spn__free(slot);
        return rc;
    }
    spn__list_node_init(&slot->link);
    slot->held = 1;
    slot->current = true;
    memcpy(slot->key, key->text, length);
    *out = slot;
    return SPN_OK;
}

/* Links a slot, unless there is a live one of its key by now, or the end has come.  The
 * one to use, taken; NULL: the end. */
static struct slot *settle(spn_repository *r, struct slot *made, int side)
{
    struct slot *slot = NULL, *old;

    spn__lock(&r->lock);
    if (!r->closed) {
        slot = take_live(r, made->key);
        if (slot == NULL) {
            old = find(r, made->key);
            if (old != NULL)
                old->current = false;
            slot = made;
            spn__list_push_back(&r->slots, &made->link);
            r->seen[side] = true;
        }
    }
    spn__unlock(&r->lock);
    if (slot != made)
        throw_away(made);
    return slot;
}

static int create(spn_repository *r, const spn_url *url, const struct key *key,
                  spn_pool **out, spn_problem *problem)
{
    struct slot *made, *slot;
    int rc = make_slot(r, url, key, &made, problem);

    if (rc != SPN_OK)
        return rc;
    slot = settle(r, made, key->side);
    reap(r);
    if (slot == NULL)
        return spn__refuse(problem, SPN_ESHUTDOWN, 0, "the repository is at its end");
    *out = pool_of(slot);
    return SPN_OK;
}

/* What there is of a key. */
enum found { NO_SIDE, NO_PORT, DEAD, LIVE, CLOSED };

static enum found look(spn_repository *r, const struct key *key, spn_pool **out)
{
    enum found found;
    struct slot *slot;

    spn__lock(&r->lock);
    slot = take_live(r, key->text);
    if (r->closed)
        found = CLOSED;
    else if (slot != NULL)
        found = LIVE;
    else if (find(r, key->text) != NULL)
        found = DEAD;
    else
        found = r->seen[key->side] ? NO_PORT : NO_SIDE;
    if (slot != NULL && found == CLOSED)
        slot->held--;
    if (found == LIVE)
        *out = pool_of(slot);
    spn__unlock(&r->lock);
    return found;
}

/* What both ways to get a pool begin with: *out is NULL, and the key is made. */
static int begin_get(spn_repository *r, const spn_url *url, struct key *key,
                     spn_pool **out, spn_problem *problem)
{
    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (r == NULL || url == NULL)
        return spn__refuse(problem, SPN_EINVAL, 0, "there is no repository or no URL");
    return make_key(r, url, key, problem);
}

int spn_repository_get_or_create(spn_repository *r, const spn_url *url, spn_pool **out,
                                 spn_problem *problem)
{
    struct key key;
    const int rc = begin_get(r, url, &key, out, problem);

    if (rc != SPN_OK)
        return rc;
    switch (look(r, &key, out)) {
    case LIVE:
        return SPN_OK;
    case CLOSED:
        return spn__refuse(problem, SPN_ESHUTDOWN, 0, "the repository is at its end");
    default:
        return create(r, url, &key, out, problem);
    }
}

int spn_repository_get(spn_repository *r, const spn_url *url, spn_pool **out,
                       spn_problem *problem)
{
    struct key key;
    const int rc = begin_get(r, url, &key, out, problem);

    if (rc != SPN_OK)
        return rc;
    switch (look(r, &key, out)) {
    case LIVE:
        return SPN_OK;
    case DEAD:
        return create(r, url, &key, out, problem);
    case CLOSED:
        return spn__refuse(problem, SPN_ESHUTDOWN, 0, "the repository is at its end");
    case NO_SIDE:
        if (spn__log_enabled(SPN_LOG_WARN))
            spn__log_limit(&r->warned, spn__now(), SPN_SEC(10), SPN_LOG_WARN,
                           "repository: no pool of a %s was made, %s asked for",
                           key.side == CONSUMER ? "consumer" : "provider", key.text);
        break;
    case NO_PORT:
    default:
        break;
    }
    return spn__refuse(problem, SPN_EEMPTY, 0, "there is no pool %s", key.text);
}

int spn_repository_release(spn_repository *r, spn_pool *pool)
{
    struct spn__list_node *node;
    int rc = SPN_EINVAL;

    if (r == NULL || pool == NULL)
        return SPN_EINVAL;
    spn__lock(&r->lock);
    spn__list_each (node, &r->slots)
        if (pool_of(slot_of(node)) == pool && slot_of(node)->held != 0 &&
            slot_of(node) != r->shared) {
            slot_of(node)->held--;
            rc = SPN_OK;
            break;
        }
    spn__unlock(&r->lock);
    reap(r);
    return rc;
}

/* ---- changing -------------------------------------------------------------------------------------- */

static int change(spn_repository *r, const spn_url *url,
                  int (*by)(spn_pool *, const spn_url *, spn_problem *),
                  spn_problem *problem)
{
    spn_pool *pool = NULL;
    struct key key;
    int rc;

    if (r == NULL || url == NULL)
        return spn__refuse(problem, SPN_EINVAL, 0, "there is no repository or no URL");
    rc = make_key(r, url, &key, problem);
    if (rc != SPN_OK)
        return rc;
    if (look(r, &key, &pool) != LIVE)
        return spn__refuse(problem, SPN_EEMPTY, 0, "there is no living pool %s",
                           key.text);
    rc = by(pool, url, problem);
    (void)spn_repository_release(r, pool);
    return rc;
}

int spn_repository_update(spn_repository *r, const spn_url *url, spn_problem *problem)
{
    return change(r, url, spn_url_pool_update, problem);
}

int spn_repository_reconfigure(spn_repository *r, const spn_url *url,
                               spn_problem *problem)
{
    return change(r, url, spn_url_pool_reconfigure, problem);
}

/* ---- shared ------------------------------------------------------------------------------------------ */

/* The shared pool's slot, made if there is none; it is held for good. */
static int share(spn_repository *r, struct slot **out)
{
    static const char text[] = "?threadpool=cached&reject=abort&"
                               "threadname=Dubbo-framework-shared-handler";
    struct key key = { PROVIDER, "shared", "" };
    struct slot *made, *slot;
    spn_url *url;
    int rc;

    spn__lock(&r->lock);
    *out = r->shared;
    rc = r->closed ? SPN_ESHUTDOWN : SPN_OK;
    spn__unlock(&r->lock);
    if (rc != SPN_OK || *out != NULL)
        return rc;
    rc = spn_url_parse(&url, text, NULL);
    if (rc != SPN_OK)
        return rc;
    rc = make_slot(r, url, &key, &made, NULL);
    spn_url_unref(url);
    if (rc != SPN_OK)
        return rc;
    spn__lock(&r->lock);
    if (!r->closed && r->shared == NULL) {
        r->shared = made;
        spn__list_push_back(&r->slots, &made->link);
        made = NULL;
    }
    slot = r->shared;
    rc = r->closed ? SPN_ESHUTDOWN : SPN_OK;
    spn__unlock(&r->lock);
    throw_away(made);
    if (rc == SPN_OK)
        *out = slot;
    return rc;
}

int spn_repository_shared(spn_repository *r, spn_executor **out)
{
    struct slot *slot;
    int rc;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (r == NULL)
        return SPN_EINVAL;
    rc = share(r, &slot);
    if (rc == SPN_OK)
        *out = spn_url_pool_executor(slot->url_pool);
    return rc;
}

int spn_repository_shared_timer(spn_repository *r, spn_timer **out)
{
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;
    spn_timer *made, *kept = NULL;
    int rc;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (r == NULL)
        return SPN_EINVAL;
    rc = spn_repository_shared(r, &opts.executor);
    if (rc != SPN_OK)
        return rc;
    opts.tick_ns = SPN_MS(1);
    rc = spn_timer_create(&made, &opts);
    if (rc != SPN_OK)
        return rc;
    spn__lock(&r->lock);
    if (!r->closed && r->timer == NULL) {
        r->timer = made;
        made = NULL;
    }
    if (!r->closed)
        kept = r->timer;
    spn__unlock(&r->lock);
    (void)spn_timer_destroy(made); /* it was never used */
    *out = kept;
    return kept != NULL ? SPN_OK : SPN_ESHUTDOWN;
}

/* One that was never used. */
static void throw_scheduled_away(spn_scheduled *made)
{
    int rc;

    if (made == NULL)
        return;
    (void)spn_executor_shutdown(spn_scheduled_executor(made));
    rc = spn_scheduled_destroy(made);
    spn__assert(rc == SPN_OK);
}

int spn_repository_scheduled(spn_repository *r, spn_scheduled **out)
{
    spn_scheduled_opts opts = spn_scheduled_opts_pool(SCHEDULER_THREADS);
    spn_scheduled *made;
    bool closed;
    int rc;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (r == NULL)
        return SPN_EINVAL;
    spn__lock(&r->lock);
    closed = r->closed;
    *out = closed ? NULL : r->scheduled;
    spn__unlock(&r->lock);
    if (closed || *out != NULL)
        return closed ? SPN_ESHUTDOWN : SPN_OK;
    opts.name = "Dubbo-framework-shared-scheduler";
    opts.delayed_after_shutdown = 0; /* the end does not wait for what is far off */
    rc = spn_scheduled_create(&made, &opts);
    if (rc != SPN_OK)
        return rc;
    spn__lock(&r->lock);
    if (!r->closed && r->scheduled == NULL) {
        r->scheduled = made;
        made = NULL;
    }
    *out = r->closed ? NULL : r->scheduled;
    spn__unlock(&r->lock);
    throw_scheduled_away(made);
    return *out != NULL ? SPN_OK : SPN_ESHUTDOWN;
}

/* Its pool, if it was made; it stays until destroy. */
static spn_pool *scheduled_pool(spn_repository *r)
{
    spn_scheduled *scheduled;

    spn__lock(&r->lock);
    scheduled = r->scheduled;
    spn__unlock(&r->lock);
    return spn_scheduled_pool(scheduled);
}

/* ---- walking ------------------------------------------------------------------------------------------ */

/* The slot after one that is held (NULL: the first), held in its place. */
static struct slot *step(spn_repository *r, struct slot *from)
{
    struct spn__list_node *node;
    struct slot *next = NULL;

    spn__lock(&r->lock);
    node = from != NULL ? from->link.next : r->slots.head.next;
    if (node != &r->slots.head) {
        next = slot_of(node);
        next->held++;
    }
    if (from != NULL)
        from->held--;
    spn__unlock(&r->lock);
    return next;
}

int spn_repository_each(spn_repository *r, spn_repository_fn fn, void *ctx)
{
    spn_pool *scheduled;
    bool current;

    if (r == NULL || fn == NULL)
        return SPN_EINVAL;
    scheduled = scheduled_pool(r);
    for (struct slot *slot = step(r, NULL); slot != NULL; slot = step(r, slot)) {
        spn__lock(&r->lock);
        current = slot->current;
        spn__unlock(&r->lock);
        if (current)
            fn(ctx, slot->key, pool_of(slot));
    }
    if (scheduled != NULL)
        fn(ctx, "scheduled", scheduled);
    reap(r);
    return SPN_OK;
}

/* ---- the end ---------------------------------------------------------------------------------------- */

static bool is_inside_any(spn_repository *r)
{
    spn_pool *scheduled = scheduled_pool(r);
    bool inside =
        scheduled != NULL && spn_executor_is_inside(spn_pool_executor(scheduled)) == 1;

    for (struct slot *slot = step(r, NULL); slot != NULL; slot = step(r, slot))
        inside = inside ||
                 spn_executor_is_inside(spn_url_pool_executor(slot->url_pool)) == 1;
    return inside;
}

/* Its callbacks run on the shared pool: they are waited for until the deadline. */
static int end_timer(spn_repository *r, int64_t deadline_ns)
{
    spn_timeout *left = NULL;
    spn_timer *timer;
    int rc = SPN_OK;

    spn__lock(&r->lock);
    timer = r->timer;
    spn__unlock(&r->lock);
    if (timer != NULL)
        rc = spn__timer_stop_until(timer, &left, deadline_ns);
    while (spn_timeout_pop(&left) != NULL)
        ;
    return rc;
}

/* Waits for one until the deadline, or only looks if `worst` says why not to; the worst of
 * what was said. */
static int await_one(spn_pool *pool, int64_t deadline_ns, int worst)
{
    const bool only_look = worst == SPN_EINTR || worst == SPN_ENOMEM;
    const int64_t now = spn__now();
    const int rc =
        spn_executor_await(spn_pool_executor(pool),
                           only_look || deadline_ns <= now ? 0 : deadline_ns - now);

    return rc == SPN_OK || only_look ? worst : rc;
}

static int await_all(spn_repository *r, int64_t deadline_ns, int worst)
{
    spn_pool *scheduled = scheduled_pool(r);

    for (struct slot *slot = step(r, NULL); slot != NULL; slot = step(r, slot))
        worst = await_one(pool_of(slot), deadline_ns, worst);
    return scheduled != NULL ? await_one(scheduled, deadline_ns, worst) : worst;
}

static void stop_all(spn_repository *r)
{
    spn_pool *scheduled = scheduled_pool(r);

    for (struct slot *slot = step(r, NULL); slot != NULL; slot = step(r, slot))
        (void)spn_executor_shutdown_now(spn_pool_executor(pool_of(slot)), NULL, NULL,
                                        NULL);
    if (scheduled != NULL)
        (void)spn_executor_shutdown_now(spn_pool_executor(scheduled), NULL, NULL, NULL);
}

static void shut_all_down(spn_repository *r)
{
    spn_pool *scheduled = scheduled_pool(r);

    for (struct slot *slot = step(r, NULL); slot != NULL; slot = step(r, slot))
        (void)spn_executor_shutdown(spn_pool_executor(pool_of(slot)));
    if (scheduled != NULL)
        (void)spn_executor_shutdown(spn_pool_executor(scheduled));
}

int spn_repository_destroy_all(spn_repository *r, int64_t timeout_ns)
{
    int64_t deadline_ns, grace_ns;
    int rc, again;

    if (r == NULL)
        return SPN_EINVAL;
    if (is_inside_any(r))
        return SPN_EDEADLK;
    deadline_ns = spn__deadline(spn__now(), timeout_ns);
    spn__lock(&r->lock);
    r->closed = true;
    spn__unlock(&r->lock);
    rc = end_timer(r, spn__now());
    if (rc == SPN_ENOMEM || rc == SPN_ESTATE)
        return rc == SPN_ESTATE ? SPN_EDEADLK : rc; /* it was not stopped */
    shut_all_down(r);
    if (rc == SPN_ETIMEDOUT)
        rc = end_timer(r, deadline_ns);
    rc = await_all(r, deadline_ns, rc);
    if (rc != SPN_OK) {
        stop_all(r);
        grace_ns = spn__deadline(spn__now(), GRACE_NS);
        again = await_all(r, grace_ns, end_timer(r, grace_ns));
        rc = again == SPN_OK && rc == SPN_ETIMEDOUT ? SPN_OK : rc;
    }
    reap(r);
    return rc;
}

int spn_repository_create(spn_repository **out, const spn_repository_opts *opts)
{
    spn_repository_opts o = SPN_REPOSITORY_OPTS_INIT;
    spn_repository *r;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (opts != NULL && spn__options_copy(&o, sizeof o, opts) != SPN_OK)
        return SPN_EINVAL;
    if (o.isolation > 1 || o.reserved != 0)
        return SPN_EINVAL;
    r = spn__alloc(sizeof *r);
    if (r == NULL)
        return SPN_ENOMEM;
    memset(r, 0, sizeof *r);
    r->extensions = o.extensions;
    r->isolation = o.isolation != 0;
    r->exhausted = o.exhausted;
    r->ctx = o.ctx;
    spn__lock_init(&r->lock);
    spn__init(&r->warned.next_ns, 0);
    spn__init(&r->warned.swallowed, 0);
    spn__list_init(&r->slots);
    spn__extensions_hold(r->extensions);
    *out = r;
    return SPN_OK;
}

/* Whether all slots but the shared one are given back, and all pools have ended. */
static bool is_over(spn_repository *r)
{
    struct spn__list_node *node;
    bool over = true;

    spn__lock(&r->lock);
    spn__list_each (node, &r->slots)
        over = over && is_terminated(pool_of(slot_of(node))) &&
               slot_of(node)->held == (slot_of(node) == r->shared ? 1 : 0);
    spn__unlock(&r->lock);
    return over;
}

int spn_repository_destroy(spn_repository *r)
{
    struct spn__list_node *node;
    int rc;

    if (r == NULL)
        return SPN_OK;
    if (!is_over(r) ||
        (r->scheduled != NULL && !is_terminated(spn_scheduled_pool(r->scheduled))))
        return SPN_EBUSY;
    if (r->timer != NULL && spn_timer_destroy(r->timer) != SPN_OK)
        return SPN_EBUSY;
    rc = spn_scheduled_destroy(r->scheduled);
    spn__assert(rc == SPN_OK);
    while ((node = spn__list_pop_front(&r->slots)) != NULL)
        free_slot(slot_of(node));
    spn__extensions_release(r->extensions);
    spn__free(r);
    return SPN_OK;
}
