/* SPDX-License-Identifier: MIT */
/*
 * test_report.c - every allocation, thread, file, folder and signal that a report asks
 * for is refused, once and from then on.  The task is refused as it should be, the
 * listener is called, the file is whole or not there, and nothing is left.
 */
#include "full_pool.h"
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <spindle/log.h>
#include <spindle/report.h>

#define FAULTS_ARMED 0
#include "faults.h"

/* ---- the faults --------------------------------------------------------------------- */

__attribute__((constructor)) static void be_quiet(void)
{
    (void)spn_log_set_level(SPN_LOG_OFF);
}

/* The linker leads the library's calls here. */
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    va_list args;

    va_start(args, flags);
    if ((flags & O_CREAT) != 0)
        mode = (mode_t)va_arg(args, int);
    va_end(args);
    if (refuse()) {
        errno = EMFILE;
        return -1;
    }
    return __real_open(path, flags, mode);
}

ssize_t __real_write(int fd, const void *bytes, size_t count);
ssize_t __wrap_write(int fd, const void *bytes, size_t count);
ssize_t __wrap_write(int fd, const void *bytes, size_t count)
{
    if (refuse()) {
        errno = ENOSPC;
        return -1;
    }
    /* In small pieces: the rest must follow. */
    return __real_write(fd, bytes, count > 100 ? count / 2 : count);
}

int __real_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode)
{
    if (refuse()) {
        errno = EACCES;
        return -1;
    }
    return __real_mkdir(path, mode);
}

FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode)
{
    if (refuse()) {
        errno = EMFILE;
        return NULL;
    }
    return __real_fopen(path, mode);
}

DIR *__real_opendir(const char *path);
DIR *__wrap_opendir(const char *path);
DIR *__wrap_opendir(const char *path)
{
    if (refuse()) {
        errno = EMFILE;
        return NULL;
    }
    return __real_opendir(path);
}

#ifdef REFUSE_PTHREAD
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*fn)(void *), void *arg)
{
    return refuse() ? EAGAIN : __real_pthread_create(thread, attr, fn, arg);
}
#endif

/* ---- the script ------------------------------------------------------------------------- */

static char folder[64], home[64];
static atomic_int heard;
static char file[4096];

static void listen(void *ctx, const spn_exhaustion *what)
{
    (void)ctx;
    (void)snprintf(file, sizeof file, "%s", what->file != NULL ? what->file : "");
    CHECK(strstr(what->message, "EXHAUSTED! Thread Name: full") != NULL);
    atomic_fetch_add(&heard, 1);
}

/* A file that is told of is whole, and there is no other. */
static void check_file(bool threads_listed)
{
    static char text[1 << 16];
    FILE *stream;
    size_t length;

    if (file[0] == '\0')
        return;
    stream = fopen(file, "r");
    REQUIRE(stream != NULL);
    length = fread(text, 1, sizeof text - 1, stream);
    text[length] = '\0';
    fclose(stream);
    CHECK(strstr(text, "Thread pool is EXHAUSTED!") == text);
    CHECK(strstr(text, "Threads of the pool: 1\n") != NULL);
    CHECK(text[length - 1] == '\n');
    if (threads_listed)
        CHECK(strstr(text, "Other threads of the process") != NULL);
    CHECK_EQ(unlink(file), 0);
}

static int own_threads; /* before there is a pool */

/* True if the report could be made. */
static bool script(bool faults)
{
    spn_reject_report_opts ropts = SPN_REJECT_REPORT_OPTS_INIT;
    spn_reject_report *report;
    spn_pool_opts opts;
    struct full_pool f;
    struct item item;
    int rc;

    ropts.dir = folder;
    ropts.address = "here";
    ropts.exhausted = listen;
    atomic_store(&heard, 0);
    REQUIRE(spn_thread_current() != NULL);
    atomic_store(&armed, faults);
    rc = spn_reject_report_create(&report, &ropts);
    atomic_store(&armed, 0);
    if (rc != SPN_OK) {
        CHECK(rc == SPN_ENOMEM || rc == SPN_EAGAIN);
        CHECK(report == NULL);
        return false;
    }
    opts = full_pool_opts(spn_reject_report_policy(report), 1);
    full_pool_start(&f, &opts);
    item_init(&item);
    atomic_store(&armed, faults);
    CHECK_STATUS(spn_executor_execute(f.executor, &item.task), SPN_EREJECTED);
    T_AWAIT(atomic_load(&heard) == 1);
    atomic_store(&armed, 0);
    check_file(atomic_load(&refused) == 0);
    full_pool_stop(&f);
    CHECK_OK(spn_reject_report_destroy(report));
    CHECK_EQ(atomic_load(&heard), 1);
    t_await_threads(own_threads); /* they have things until they are gone */
    return true;
}

static void check_nothing_left(void)
{
    (void)rmdir(folder); /* made by the report, and empty */
    CHECK_EQ(rmdir(home), 0);
    REQUIRE(mkdir(home, 0700) == 0);
}

/* Each call is refused once, and from there on, until there are no more. */
TEST(report__each_call_refused__task_refused_and_nothing_left, "X-14", "P30")
{
    struct sigaction action;
    long before;
    int last = 0;

    strcpy(home, "/tmp/spindle-report-XXXXXX");
    REQUIRE(mkdtemp(home) != NULL);
    (void)snprintf(folder, sizeof folder, "%.32s.dir", home);
    REQUIRE(setenv("HOME", home, 1) == 0);
    own_threads = t_threads();
    CHECK(script(false)); /* what stays with the library is there now */
    check_nothing_left();
    before = atomic_load(&live);
    for (int more = 0; more < 2; more++) {
        for (int n = 1;; n++) {
            atomic_store(&point, 0);
            atomic_store(&refused, 0);
            atomic_store(&fail_at, n);
            atomic_store(&fail_more, more);
            (void)script(true);
            check_nothing_left();
            last = n;
            if (atomic_load(&refused) == 0)
                break; /* behind the last one */
        }
    }
    atomic_store(&fail_at, 0);
    CHECK(last > 10);
    CHECK(script(false));
    check_nothing_left();
    CHECK_EQ(atomic_load(&live), before);
    CHECK_EQ(sigaction(SIGRTMIN + 10, NULL, &action), 0);
    CHECK(action.sa_handler == SIG_DFL);
    CHECK_EQ(rmdir(home), 0);
}
