/* SPDX-License-Identifier: MIT */
/*
 * connection_pool.c - connections to a database, shared by many tasks.  At most four are
 * open; one that has become useless is found before it is lent; one that was left in a
 * transaction is put right when it comes back.
 */
#include <spindle.h>

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int make(void *path, void **object)
{
    sqlite3 *db;
    int rc = sqlite3_open(path, &db);

    if (rc == SQLITE_OK)
        rc = sqlite3_busy_timeout(db, 10000);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF",
                          NULL, NULL, NULL);
    if (rc != SQLITE_OK) {
        sqlite3_close(db);
        return rc; /* borrow says SPN_EFAILED, and stats which number it was */
    }
    *object = db;
    return 0;
}

static int validate(void *path, void *object)
{
    (void)path;
    return sqlite3_exec(object, "SELECT 1", NULL, NULL, NULL);
}

static int reset(void *path, void *object)
{
    (void)path;
    if (sqlite3_get_autocommit(object) != 0)
        return 0;
    return sqlite3_exec(object, "ROLLBACK", NULL, NULL, NULL);
}

static void destroy(void *path, void *object)
{
    (void)path;
    sqlite3_close(object);
}

/* A task: one row. */
static int insert(void *arg)
{
    spn_object_pool *connections = arg;
    void *db;
    int rc = spn_object_pool_borrow(connections, &db, SPN_SEC(10));

    if (rc != SPN_OK)
        return rc;
    rc = sqlite3_exec(db, "INSERT INTO visit DEFAULT VALUES", NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        return spn_object_pool_return(connections, db);
    spn_object_pool_invalidate(connections, db); /* do not lend it again */
    return rc;
}

/* A connection that nobody returned. */
static void tell_lease(void *ctx, const spn_object_lease *lease)
{
    (void)ctx;
    fprintf(stderr, "connection %p is still out, borrowed by\n%s\n", lease->object,
            lease->trace);
}

static int count(void *out, int columns, char **values, char **names)
{
    (void)columns;
    (void)names;
    *(int *)out = atoi(values[0]);
    return 0;
}

int main(void)
{
    char path[] = "/tmp/spindle-example-XXXXXX", other[sizeof path + 4];
    spn_object_pool_opts opts = SPN_OBJECT_POOL_OPTS_INIT;
    spn_object_pool_stats stats = SPN_OBJECT_POOL_STATS_INIT;
    spn_object_pool *connections;
    spn_pool *pool;
    void *db;
    int rows = -1, fd = mkstemp(path);

    if (fd < 0)
        return 1;
    close(fd);
    opts.name = "sqlite";
    opts.max = 4;
    opts.min_idle = 1;
    opts.trace_frames = 8; /* who borrowed it, for tell_lease */
    opts.factory = (spn_object_factory){ make, validate, reset, destroy, path };
    if (spn_object_pool_create(&connections, &opts) != SPN_OK ||
        spn_object_pool_maintain(connections) != SPN_OK || /* one is open at once */
        spn_object_pool_borrow(connections, &db, 0) != SPN_OK)
        return 1;
    sqlite3_exec(db, "CREATE TABLE visit (id INTEGER PRIMARY KEY)", NULL, NULL, NULL);
    spn_object_pool_return(connections, db);

    if (spn_pool_create(&pool, NULL) != SPN_OK)
        return 1;
    for (int i = 0; i < 200; i++)
        if (spn_executor_call(spn_pool_executor(pool), insert, connections) != SPN_OK)
            return 1;
    spn_pool_close(pool);
    spn_pool_destroy(pool);

    if (spn_object_pool_borrow(connections, &db, 0) != SPN_OK)
        return 1;
    sqlite3_exec(db, "SELECT count(*) FROM visit", count, &rows, NULL);
    spn_object_pool_return(connections, db);
    spn_object_pool_stats_get(connections, &stats);
    printf("%d rows, %lld borrows, at most %u connections, %lld opened\n", rows,
           (long long)stats.borrowed, stats.max, (long long)stats.made);

    spn_object_pool_shutdown(connections);
    if (spn_object_pool_await(connections, SPN_SEC(10)) != SPN_OK) {
        spn_object_pool_leases(connections, tell_lease, NULL);
        return 1;
    }
    spn_object_pool_destroy(connections);
    unlink(path);
    for (int i = 0; i < 2; i++) { /* what the journal leaves when it is not asked */
        snprintf(other, sizeof other, "%s%s", path, i == 0 ? "-wal" : "-shm");
        unlink(other);
    }
    return rows == 200 && stats.made <= 4 ? 0 : 1;
}
