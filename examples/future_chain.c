/* SPDX-License-Identifier: MIT */
/*
 * future_chain.c - pages made of answers that come later: stages say what happens with an
 * answer, and a failure goes past them to the one that handles failures.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <spindle.h>

enum { PAGES = 3, PAGE_BYTES = 100, NO_SUCH_USER = 404 };

struct account {
    const char *user;
    long cents; /* 0: nothing to ask the bank for */
};

static struct account accounts[] = { { "ann", 1250 }, { "bob", 0 } };

/* Asks a service for the account of a user. */
static int find_account(void *arg, void **result)
{
    const char *user = arg;

    for (size_t i = 0; i < sizeof accounts / sizeof accounts[0]; i++)
        if (strcmp(accounts[i].user, user) == 0) {
            *result = &accounts[i];
            return 0;
        }
    return spn_future_fail(NO_SUCH_USER, "no such user");
}

/* Asks another service for what is in it. */
static int read_balance(void *arg, void **result)
{
    const struct account *account = arg;

    *result = (void *)account->cents;
    return 0;
}

/* After find_account: goes on with another future. */
static int ask_bank(void *pool, void *account, spn_future **next)
{
    if (((struct account *)account)->cents == 0)
        return spn_future_create_completed(next, NULL);
    return spn_executor_submit(spn_pool_executor(pool), read_balance, account, next);
}

/* After the balance: short enough to run where that came. */
static int in_euros(void *arg, void *cents, void **result)
{
    (void)arg;
    *result = (void *)((long)cents / 100);
    return 0;
}

/* With the headline that came first, whoever sent it. */
static int choose(void *arg, void *headline, void **result)
{
    (void)arg;
    *result = headline;
    return 0;
}

/* When euros and headline are there. */
static int render(void *arg, void *euros, void *headline, void **result)
{
    char *page = malloc(PAGE_BYTES);

    (void)arg;
    if (page == NULL)
        return SPN_ENOMEM;
    (void)snprintf(page, PAGE_BYTES, "%ld euros; %s", (long)euros, (char *)headline);
    *result = page;
    return 0;
}

/* After success and after failure: there is always a page. */
static int apologise(void *arg, const spn_outcome *outcome, void **result)
{
    char *page = outcome->value;

    (void)arg;
    if (outcome->status != SPN_OK && (page = malloc(PAGE_BYTES)) != NULL)
        (void)snprintf(page, PAGE_BYTES, "sorry, %s (%d)", outcome->message,
                       outcome->code);
    *result = page;
    return page != NULL ? 0 : SPN_ENOMEM;
}

static int make_page(spn_pool *pool, const char *user, spn_future *headline,
                     spn_future **out)
{
    spn_executor *executor = spn_pool_executor(pool);
    spn_future_opts opts = SPN_FUTURE_OPTS_INIT;
    spn_future *account = NULL, *balance = NULL, *euros = NULL, *rendered = NULL;
    char *name = strdup(user);
    int rc;

    opts.release_arg = free; /* name, when find_account is through with it */
    *out = NULL;
    rc = name == NULL
             ? SPN_ENOMEM
             : spn_executor_submit_with(executor, find_account, name, &opts, &account);
    if (rc != SPN_OK)
        free(name);
    /* Short functions run inline, where the one before has run: no executor. */
    if (rc == SPN_OK)
        rc = spn_future_compose(account, NULL, ask_bank, pool, &balance);
    if (rc == SPN_OK)
        rc = spn_future_then(balance, NULL, in_euros, NULL, &euros);
    /* Rendering takes its time: a thread of the pool does it. */
    if (rc == SPN_OK)
        rc = spn_future_combine(euros, headline, executor, render, NULL, &rendered);
    if (rc == SPN_OK)
        rc = spn_future_handle(rendered, NULL, apologise, NULL, out);
    if (rc == SPN_OK)
        (void)spn_future_set_drop_value(*out, free); /* a page that nobody reads */
    spn_future_unref(rendered);
    spn_future_unref(euros);
    spn_future_unref(balance);
    spn_future_unref(account);
    return rc;
}

static int show_pages(spn_pool *pool, spn_future *headline)
{
    static const char *const users[PAGES] = { "ann", "bob", "eve" };
    spn_future *pages[PAGES] = { NULL }, *all = NULL, *first = NULL;
    void *text = NULL;
    int shown = 0, rc = SPN_OK;

    for (int i = 0; i < PAGES && rc == SPN_OK; i++)
        rc = make_page(pool, users[i], headline, &pages[i]);
    if (rc == SPN_OK && spn_future_any_of(pages, PAGES, &first) == SPN_OK &&
        spn_future_all_of(pages, PAGES, &all) == SPN_OK &&
        spn_future_get(first, NULL, SPN_SEC(5)) == SPN_OK && printf("one is there\n") &&
        spn_future_get(all, NULL, SPN_SEC(5)) == SPN_OK)
        for (; shown < PAGES && spn_future_get(pages[shown], &text, 0) == SPN_OK;
             shown++) {
            printf("%s: %s\n", users[shown], (char *)text);
            free(text); /* a value that was read is the reader's */
        }
    spn_future_unref(all);
    spn_future_unref(first);
    for (int i = 0; i < PAGES; i++)
        spn_future_unref(pages[i]);
    return shown;
}

int main(void)
{
    spn_future *near = NULL, *far = NULL, *headline = NULL;
    char news[] = "sunny";
    spn_pool *pool;
    int shown;

    if (spn_pool_create(&pool, NULL) != SPN_OK ||
        spn_future_create(&near, NULL) != SPN_OK ||
        spn_future_create(&far, NULL) != SPN_OK ||
        spn_future_either(near, far, NULL, choose, NULL, &headline) != SPN_OK)
        return 1;
    (void)spn_future_complete(near,
                              news); /* far never answers, and is not waited for */
    shown = show_pages(pool, headline);
    spn_future_unref(headline);
    spn_future_unref(near);
    spn_future_unref(far);
    if (spn_pool_close(pool) != SPN_OK || spn_pool_destroy(pool) != SPN_OK)
        return 1;
    return shown == PAGES ? 0 : 1;
}
