// SPDX-License-Identifier: MIT
//
// test_exception.cpp - a C++ exception that leaves a function the library called ends
// the process with a message, and no handler above is reached; one that the function
// catches itself is its own affair.  A function that ends a thread of the library ends the
// process with a message, too, unless it is a task of a pool.
//
// Each case is a child process: what it writes and how it ends is looked at.
#include <spindle.h>
#ifdef SPN_TEST_RPC
#include <spindle-rpc.h>
#endif

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace
{

struct test {
    const char *name;
    const char *says; // and ends the process; NULL: it does not
    void (*body)();
    test *next;
};
test *tests, **last = &tests;

// The ids are the lines of docs/contract.md that the test proves.
#define TEST_(test_name, says)                                                  \
    void test_name();                                                           \
    test test_of_##test_name = { #test_name, says, test_name, nullptr };        \
    const bool registered_##test_name =                                         \
        (*last = &test_of_##test_name, last = &test_of_##test_name.next, true); \
    void test_name()
#define TEST(test_name, id)      TEST_(test_name, "an exception left a function")
#define TEST_ENDS(test_name, id) TEST_(test_name, "ended its thread (pthread_exit")
#define TEST_FINE(test_name, id) TEST_(test_name, nullptr)

void require(bool holds, const char *what)
{
    if (holds)
        return;
    std::fprintf(stderr, "does not hold: %s\n", what);
    std::_Exit(3);
}
#define REQUIRE(condition) require((condition), #condition)

[[noreturn]] void nobody_gets_here()
{
    std::fprintf(stderr, "a handler above was reached\n");
    std::_Exit(4);
}

int throws(void *, void **)
{
    throw std::runtime_error("thrown by the test");
}
int then_throws(void *, void *, void **)
{
    throw std::runtime_error("thrown by the test");
}
int throws_on_thread(void *)
{
    throw std::runtime_error("thrown by the test");
}
int task_throws(spn_task *)
{
    throw std::runtime_error("thrown by the test");
}
void done_throws(spn_future *, void *)
{
    throw std::runtime_error("thrown by the test");
}
void drop_throws(void *)
{
    throw std::runtime_error("thrown by the test");
}

spn_future *task_future(spn_call_fn fn, void *arg = nullptr)
{
    spn_future *f;

    REQUIRE(spn_future_create_task(&f, fn, arg, nullptr) == SPN_OK);
    return f;
}

int run_future(void *f)
{
    return spn_future_run(static_cast<spn_future *>(f));
}

void on_thread(spn_thread_fn fn, void *arg)
{
    spn_thread *thread;

    REQUIRE(spn_thread_create(&thread, nullptr, fn, arg) == SPN_OK);
    REQUIRE(spn_thread_join(thread, SPN_FOREVER, nullptr) == SPN_OK);
    spn_thread_unref(thread);
}

// Calls with a handler that must not be reached.
template <typename Call> void expect_end(Call call)
{
    try {
        call();
    } catch (...) {
        nobody_gets_here();
    }
    nobody_gets_here();
}

// ---- it ends the process ------------------------------------------------------

TEST(exception__task_on_a_thread_of_ours__ends_the_process, "G-21")
{
    expect_end([] { on_thread(run_future, task_future(throws)); });
}

TEST(exception__task_run_by_a_caller_that_catches__ends_the_process, "G-21")
{
    expect_end([] { spn_future_run(task_future(throws)); });
}

TEST(exception__task_of_the_direct_executor__ends_the_process, "G-21")
{
    expect_end([] {
        spn_future *f;

        (void)!spn_executor_submit(spn_executor_direct(), throws, nullptr, &f);
    });
}

TEST(exception__bare_task_of_the_direct_executor__ends_the_process, "G-21")
{
    expect_end([] {
        spn_task task = SPN_TASK_INIT(task_throws, nullptr);

        (void)!spn_executor_execute(spn_executor_direct(), &task);
    });
}

TEST(exception__task_of_the_manual_executor__ends_the_process, "G-21")
{
    expect_end([] {
        spn_task task = SPN_TASK_INIT(task_throws, nullptr);
        spn_manual_executor *m;

        REQUIRE(spn_manual_executor_create(&m) == SPN_OK);
        REQUIRE(spn_executor_execute(spn_manual_executor_executor(m), &task) == SPN_OK);
        spn_manual_executor_run(m, INT64_MAX);
    });
}

TEST(exception__stage_inside_complete__ends_the_process, "G-21")
{
    expect_end([] {
        spn_future *f, *s;

        REQUIRE(spn_future_create(&f, nullptr) == SPN_OK);
        REQUIRE(spn_future_then(f, NULL, then_throws, nullptr, &s) == SPN_OK);
        spn_future_complete(f, nullptr);
    });
}

TEST(exception__done_hook__ends_the_process, "G-21")
{
    expect_end([] {
        spn_future_opts opts = SPN_FUTURE_OPTS_INIT;
        spn_future *f;

        opts.done = done_throws;
        REQUIRE(spn_future_create(&f, &opts) == SPN_OK);
        spn_future_complete(f, nullptr);
    });
}

TEST(exception__destructor_of_a_value__ends_the_process, "G-21")
{
    expect_end([] {
        spn_future *f;

        REQUIRE(spn_future_create_completed(&f, &f) == SPN_OK);
        REQUIRE(spn_future_set_drop_value(f, drop_throws) == SPN_OK);
        spn_future_unref(f);
    });
}

TEST(exception__function_of_a_thread__ends_the_process, "G-21")
{
    expect_end([] { on_thread(throws_on_thread, nullptr); });
}

void callback_throws(spn_cancel_callback *, int)
{
    throw std::runtime_error("thrown by the test");
}

TEST(exception__callback_of_a_token__ends_the_process, "G-21")
{
    expect_end([] {
        spn_cancel_callback callback = SPN_CANCEL_CALLBACK_INIT(callback_throws);
        spn_cancel_token *token;

        REQUIRE(spn_cancel_token_create(&token, nullptr) == SPN_OK);
        REQUIRE(spn_cancel_token_register(token, &callback) == SPN_OK);
        spn_cancel_token_cancel(token, SPN_ECANCELED);
    });
}

TEST(exception__callback_of_a_cancelled_token__ends_the_process, "G-21")
{
    expect_end([] {
        spn_cancel_callback callback = SPN_CANCEL_CALLBACK_INIT(callback_throws);
        spn_cancel_token *token;

        REQUIRE(spn_cancel_token_create(&token, nullptr) == SPN_OK);
        REQUIRE(spn_cancel_token_cancel(token, SPN_ECANCELED) == 1);
        (void)!spn_cancel_token_register(token, &callback);
    });
}

// A periodic task does not stop without a word, whatever it was told to do on failure.
TEST(exception__periodic_task__ends_the_process, "P26")
{
    spn_scheduled_opts opts = spn_scheduled_opts_pool(1);
    spn_schedule what = SPN_SCHEDULE_INIT;
    spn_scheduled *s;
    spn_future *f;

    what.run = throws_on_thread;
    what.repeat = SPN_REPEAT_RATE;
    what.period_ns = SPN_MS(1);
    what.on_failure = SPN_FAILURE_GO_ON;
    REQUIRE(spn_scheduled_create(&s, &opts) == SPN_OK);
    REQUIRE(spn_scheduled_schedule_with(s, &what, &f) == SPN_OK);
    (void)!spn_future_get(f, nullptr, SPN_FOREVER);
    nobody_gets_here();
}

int timeout_throws(spn_timeout *)
{
    throw std::runtime_error("thrown by the test");
}

TEST(exception__periodic_timeout__ends_the_process, "P26")
{
    expect_end([] {
        spn_timer_opts opts = SPN_TIMER_OPTS_INIT;
        spn_period period = SPN_PERIOD_INIT;
        spn_timeout timeout = SPN_TIMEOUT_INIT;
        spn_timer *timer;

        opts.drive = SPN_TIMER_DRIVEN;
        period.period_ns = SPN_MS(1);
        REQUIRE(spn_timer_create(&timer, &opts) == SPN_OK);
        REQUIRE(spn_timer_schedule_periodic(timer, &timeout, timeout_throws, 0,
                                            &period) == SPN_OK);
        for (;;)
            spn_timer_run(timer);
    });
}

// ---- it does not ----------------------------------------------------------------

int throws_and_catches(void *arg, void **result)
{
    try {
        throw std::runtime_error("its own");
    } catch (const std::exception &) {
        *result = arg;
    }
    return 0;
}

// What a function catches itself is its own affair.
TEST_FINE(exception__caught_in_the_function__goes_on, "G-21")
{
    spn_future *f = task_future(throws_and_catches, &tests);
    void *value = nullptr;

    REQUIRE(spn_future_run(f) == 1);
    REQUIRE(spn_future_get(f, &value, 0) == SPN_OK && value == &tests);
    spn_future_unref(f);
}

// ---- a thread that ends --------------------------------------------------------

struct noted {
    bool *flag;
    ~noted()
    {
        *flag = true;
    }
};

int exits(void *arg, void **)
{
    noted object = { static_cast<bool *>(arg) };

    pthread_exit(nullptr);
    return 0;
}

// pthread_exit in a task of a pool unwinds through the library, runs destructors and fails the
// future; the pool has another thread.
TEST_FINE(exception__end_of_a_pools_thread__passes, "G-21")
{
    spn_pool_opts opts = spn_pool_opts_fixed(1, 4);
    spn_pool *pool;

    REQUIRE(spn_pool_create(&pool, &opts) == SPN_OK);
    for (int i = 0; i < 2; i++) {
        bool unwound = false;
        spn_future *f = task_future(exits, &unwound);
        spn_outcome outcome;

        REQUIRE(spn_future_submit(f, spn_pool_executor(pool)) == SPN_OK);
        REQUIRE(spn_future_get(f, nullptr, SPN_FOREVER) == SPN_EFAILED);
        REQUIRE(unwound);
        REQUIRE(spn_future_result(f, &outcome) == SPN_EFAILED &&
                outcome.code == SPN_EFAILED);
        spn_future_unref(f);
    }
    REQUIRE(spn_pool_close(pool) == SPN_OK && spn_pool_destroy(pool) == SPN_OK);
}

[[noreturn]] int timeout_exits(spn_timeout *)
{
    pthread_exit(nullptr);
}

void timer_exits(spn_timer_opts opts)
{
    spn_timeout timeout = SPN_TIMEOUT_INIT;
    spn_timer *timer;

    REQUIRE(spn_timer_create(&timer, &opts) == SPN_OK);
    REQUIRE(spn_timer_schedule(timer, &timeout, timeout_exits, 0) == SPN_OK);
    for (;;) {
        if (opts.drive != SPN_TIMER_THREAD)
            (void)spn_timer_run(timer);
        usleep(1000);
    }
}

TEST_ENDS(ends__callback_on_the_timers_thread__ends_the_process, "G-21")
{
    timer_exits(SPN_TIMER_OPTS_INIT);
}

TEST_ENDS(ends__callback_of_a_driver__ends_the_process, "G-21")
{
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;

    opts.drive = SPN_TIMER_DRIVEN;
    timer_exits(opts);
}

spn_pool *pool_of(int32_t capacity)
{
    spn_pool_opts opts = spn_pool_opts_fixed(1, capacity);
    spn_pool *pool;

    REQUIRE(spn_pool_create(&pool, &opts) == SPN_OK);
    return pool;
}

TEST_ENDS(ends__callback_of_a_timer_over_a_pool__ends_the_process, "G-21")
{
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;

    opts.executor = spn_pool_executor(pool_of(4));
    timer_exits(opts);
}

int call_exits(void *)
{
    pthread_exit(nullptr);
}

int waits(void *)
{
    for (;;)
        pause();
}

TEST_ENDS(ends__refused_task_on_a_thread_of_its_own__ends_the_process, "G-21")
{
    spn_pool_opts opts = spn_pool_opts_fixed(1, 1);
    spn_pool *pool;

    opts.reject = spn_reject_new_thread();
    REQUIRE(spn_pool_create(&pool, &opts) == SPN_OK);
    REQUIRE(spn_executor_call(spn_pool_executor(pool), waits, nullptr) == SPN_OK);
    for (int i = 0; i < 2; i++) // one waits, and there is no room for the other
        REQUIRE(spn_executor_call(spn_pool_executor(pool), call_exits, nullptr) ==
                SPN_OK);
    pause();
}

spn_fj_pool *fj_pool()
{
    spn_fj_pool_opts opts = SPN_FJ_POOL_OPTS_INIT;
    spn_fj_pool *fj;

    opts.parallelism = 2;
    REQUIRE(spn_fj_pool_create(&fj, &opts) == SPN_OK);
    return fj;
}

int body_exits(spn_fj, void *)
{
    pthread_exit(nullptr);
}

TEST_ENDS(ends__body_in_fork_join__ends_the_process, "G-21")
{
    (void)spn_fj_run(fj_pool(), body_exits, nullptr);
}

TEST_ENDS(ends__task_of_a_fork_join_pool__ends_the_process, "G-21")
{
    REQUIRE(spn_executor_call(spn_fj_pool_executor(fj_pool()), call_exits, nullptr) ==
            SPN_OK);
    pause();
}

[[noreturn]] void listener_exits(void *, const spn_exhaustion *)
{
    pthread_exit(nullptr);
}

TEST_ENDS(ends__listener_of_a_report__ends_the_process, "G-21")
{
    spn_reject_report_opts opts = SPN_REJECT_REPORT_OPTS_INIT;
    spn_reject_report *report;

    opts.no_stacks = 1;
    opts.exhausted = listener_exits;
    REQUIRE(spn_reject_report_create(&report, &opts) == SPN_OK);
    REQUIRE(spn_report_pool(report, pool_of(4)) == SPN_OK);
    pause();
}

#ifdef SPN_TEST_RPC
int method_exits(void *, spn_request *)
{
    pthread_exit(nullptr);
}

TEST_ENDS(ends__method_on_an_io_thread__ends_the_process, "G-21")
{
    static const spn_method methods[] = { { "exits", "", method_exits, nullptr } };
    spn_service service = {};
    spn_invocation what = SPN_INVOCATION_INIT("demo.Exits", "exits");
    spn_server *server;
    spn_client *client;
    spn_reply *reply;

    service.size = sizeof service;
    service.interface = "demo.Exits";
    service.methods = methods;
    service.method_count = 1;
    REQUIRE(spn_server_create(&server, "dubbo://127.0.0.1:0?dispatcher=direct", nullptr,
                              nullptr) == SPN_OK);
    REQUIRE(spn_server_export(server, &service, nullptr) == SPN_OK);
    REQUIRE(spn_server_start(server, nullptr) == SPN_OK);
    const std::string url =
        "dubbo://127.0.0.1:" + std::to_string(spn_server_port(server));
    REQUIRE(spn_client_create(&client, url.c_str(), nullptr, nullptr) == SPN_OK);
    (void)!spn_client_call(client, &what, &reply, nullptr);
}
#endif

// ---- running them ----------------------------------------------------------------

std::string read_all(int fd)
{
    std::string text;
    char buffer[512];
    ssize_t got;

    while ((got = read(fd, buffer, sizeof buffer)) > 0)
        text.append(buffer, static_cast<size_t>(got));
    return text;
}

bool passes(const test &t)
{
    std::string text;
    int fds[2], status;
    pid_t child;

    if (pipe(fds) != 0 || (child = fork()) < 0)
        return false;
    if (child == 0) {
        const rlimit none = { 0, 0 };

        setrlimit(RLIMIT_CORE, &none);
        alarm(60);
        dup2(fds[1], STDERR_FILENO);
        close(fds[0]);
        close(fds[1]);
        t.body();
        std::_Exit(0);
    }
    close(fds[1]);
    text = read_all(fds[0]);
    close(fds[0]);
    if (waitpid(child, &status, 0) != child)
        return false;
    if (t.says == nullptr && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    // A sanitizer may turn the abort into an exit of its own.
    if (t.says != nullptr && text.compare(0, 9, "spindle: ") == 0 &&
        text.find(t.says) != text.npos &&
        text.find("return a status instead") != text.npos &&
        (std::strncmp(t.says, "ended", 5) == 0 ||
         text.find("thrown by the test") != text.npos) &&
        text.find("handler above") == text.npos &&
        (WIFSIGNALED(status) ? WTERMSIG(status) == SIGABRT : WEXITSTATUS(status) != 0))
        return true;
    std::printf("%s\nstatus %#x\n", text.c_str(), static_cast<unsigned>(status));
    return false;
}

} // namespace

int main()
{
    int passed = 0, failed = 0;

    for (const test *t = tests; t != nullptr; t = t->next) {
        const bool ok = passes(*t);

        std::printf("%s %s\n", ok ? "ok  " : "FAIL", t->name);
        ++(ok ? passed : failed);
    }
    std::printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
