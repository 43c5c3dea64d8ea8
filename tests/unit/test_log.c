/* SPDX-License-Identifier: MIT */
/* The log: level, hook, one line in one piece, rate limit.  Level and hook are
 * process-wide, so most situations have a process of their own. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"

/* ---- a hook that keeps what it hears --------------------------------------- */

enum { HEARD_MAX = 1024 };

static struct heard {
    spn_log_level level;
    char message[SPN__LOG_MESSAGE_MAX + 1];
} heard[HEARD_MAX];
static atomic_int heard_count;

static void hear(void *ctx, spn_log_level level, const char *message)
{
    const int at = atomic_fetch_add(&heard_count, 1);

    CHECK(ctx == heard);
    REQUIRE(at < HEARD_MAX);
    CHECK(strlen(message) <= SPN__LOG_MESSAGE_MAX);
    CHECK(strchr(message, '\n') == NULL);
    heard[at].level = level;
    snprintf(heard[at].message, sizeof heard[at].message, "%s", message);
}

static void listen_to_all(void)
{
    REQUIRE_OK(spn_log_set_hook(hear, heard));
    REQUIRE_OK(spn_log_set_level(SPN_LOG_DEBUG));
}

/* Forgets what was heard and tells how many messages there were. */
static int take_heard(void)
{
    return atomic_exchange(&heard_count, 0);
}

static const char *last_heard(void)
{
    const int count = atomic_load(&heard_count);

    return count > 0 ? heard[count - 1].message : "(nothing)";
}

/* ---- level ----------------------------------------------------------------- */

/* Each level has its name, every other number has "unknown". */
TEST(log__level_names__pinned)
{
    CHECK_EQ(SPN_LOG_OFF, 0);
    CHECK_EQ(SPN_LOG_ERROR, 1);
    CHECK_EQ(SPN_LOG_WARN, 2);
    CHECK_EQ(SPN_LOG_INFO, 3);
    CHECK_EQ(SPN_LOG_DEBUG, 4);
    CHECK_STR(spn_log_level_name(SPN_LOG_OFF), "off");
    CHECK_STR(spn_log_level_name(SPN_LOG_ERROR), "error");
    CHECK_STR(spn_log_level_name(SPN_LOG_WARN), "warn");
    CHECK_STR(spn_log_level_name(SPN_LOG_INFO), "info");
    CHECK_STR(spn_log_level_name(SPN_LOG_DEBUG), "debug");
    CHECK_STR(spn_log_level_name(-1), "unknown");
    CHECK_STR(spn_log_level_name(5), "unknown");
    CHECK_STR(spn_log_level_name(INT32_MIN), "unknown");
    CHECK_STR(spn_log_level_name(INT32_MAX), "unknown");
}

/* The highest that passes. */
static int level_now(void)
{
    int level = SPN_LOG_DEBUG;

    while (level > SPN_LOG_OFF && !spn__log_enabled((spn_log_level)level))
        level--;
    return level;
}

static void change_level(void *arg)
{
    const int bad[] = { INT32_MIN, -1, 5, INT32_MAX };

    (void)arg;
    CHECK_EQ(level_now(), SPN_LOG_WARN); /* the default */
    for (int level = SPN_LOG_OFF; level <= SPN_LOG_DEBUG; level++) {
        CHECK_OK(spn_log_set_level(level));
        CHECK_EQ(level_now(), level);
        for (int i = 0; i < 4; i++) {
            CHECK_STATUS(spn_log_set_level(bad[i]), SPN_EINVAL);
            CHECK_EQ(level_now(), level);
        }
    }
}

/* The level is what was set last; a number that is none changes nothing. */
TEST(log__set_level__read_back, "G-3")
{
    CHECK_CHILD(change_level, NULL);
}

static void filter_all(void *arg)
{
    (void)arg;
    listen_to_all();
    for (int threshold = SPN_LOG_OFF; threshold <= SPN_LOG_DEBUG; threshold++)
        for (int level = SPN_LOG_OFF; level <= SPN_LOG_DEBUG; level++) {
            const bool through = level != SPN_LOG_OFF && level <= threshold;
            struct spn__log_limit limit = { .next_ns = SPN__ATOMIC_INIT(0) };

            CHECK_OK(spn_log_set_level(threshold));
            CHECK_EQ(spn__log_enabled((spn_log_level)level), through);
            spn__log((spn_log_level)level, "plain");
            CHECK_EQ(take_heard(), through);
            if (through)
                CHECK_EQ(heard[0].level, level);
            spn__log_limit(&limit, 1, SPN_SEC(1), (spn_log_level)level, "limited");
            CHECK_EQ(take_heard(), through);
        }
}

/* A message passes exactly if its level is up to the one set; "off" is none. */
TEST(log__every_level_at_every_threshold__filtered)
{
    CHECK_CHILD(filter_all, NULL);
}

/* ---- hook --------------------------------------------------------------------- */

static void set_hooks(void *arg)
{
    (void)arg;
    CHECK_STATUS(spn_log_set_hook(NULL, heard), SPN_EINVAL);
    spn__log(SPN_LOG_INFO, "below the level"); /* no message, so no first use */
    CHECK_OK(spn_log_set_hook(hear, heard));
    CHECK_STATUS(spn_log_set_hook(hear, NULL), SPN_ESTATE);
    CHECK_STATUS(spn_log_set_hook(NULL, NULL), SPN_EINVAL);
    spn__log(SPN_LOG_WARN, "%s %d", "number", 7);
    CHECK_STATUS(spn_log_set_hook(hear, NULL), SPN_ESTATE);
    CHECK_STR(last_heard(), "number 7");
    CHECK_EQ(heard[0].level, SPN_LOG_WARN);
    CHECK_EQ(take_heard(), 1);
}

/* The first hook stays; it gets ctx, level and text, and stderr gets nothing. */
TEST(log__hook__set_once_and_called)
{
    char output[256];

    CHECK_EQ(t_child(set_hooks, NULL, output, sizeof output), 0);
    CHECK_STR(output, "");
}

static void set_hook_late(void *arg)
{
    (void)arg;
    spn__log(SPN_LOG_ERROR, "first");
    if (spn_log_set_hook(hear, heard) == SPN_ESTATE)
        spn__log(SPN_LOG_ERROR, "second");
}

/* After the first message the way to stderr is frozen. */
TEST(log__hook_after_a_message__refused)
{
    char output[256];

    CHECK_EQ(t_child(set_hook_late, NULL, output, sizeof output), 0);
    CHECK_STR(output, "spindle: error: first\nspindle: error: second\n");
}

/* ---- the line -------------------------------------------------------------------- */

/* Runs fn with a socket that keeps packets as its stderr; returns the other end. */
static int run_on_socket(void (*fn)(void *), int *fds)
{
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds) == 0);
    CHECK_CHILD(fn, fds);
    close(fds[1]);
    return fds[0];
}

static void write_to_socket(void *arg)
{
    dup2(((int *)arg)[1], STDERR_FILENO);
    REQUIRE_OK(spn_log_set_level(SPN_LOG_DEBUG));
    spn__log(SPN_LOG_ERROR, "%d of %d", 1, 4);
    spn__log(SPN_LOG_WARN, "plain");
    spn__log(SPN_LOG_INFO, "%s", "");
    spn__log(SPN_LOG_DEBUG, "%0600d", 7);
}

/* Without a hook each message is one line, written with one call. */
TEST(log__default__one_line_in_one_write)
{
    char packet[1024], expected[1024];
    const char *lines[] = { "spindle: error: 1 of 4\n", "spindle: warn: plain\n",
                            "spindle: info: \n", expected };
    int fds[2];
    const int fd = run_on_socket(write_to_socket, fds);

    snprintf(expected, sizeof expected, "spindle: debug: %0*d...\n",
             SPN__LOG_MESSAGE_MAX - 3, 0);
    for (int i = 0; i < 4; i++) {
        const ssize_t length = recv(fd, packet, sizeof packet - 1, 0);

        REQUIRE(length > 0);
        packet[length] = '\0';
        CHECK_STR(packet, lines[i]);
        CHECK(length <= 512); /* POSIX: written to a pipe in one piece */
    }
    CHECK_EQ(recv(fd, packet, sizeof packet, 0), 0);
    close(fd);
}

enum { LINES = 200 };

static void write_lines(int index, void *arg)
{
    (void)arg;
    for (int i = 0; i < LINES; i++)
        spn__log(SPN_LOG_WARN, "%c %0300d", 'a' + index, i);
}

static void write_from_threads(void *arg)
{
    (void)arg;
    t_parallel(T_THREADS, write_lines, NULL);
}

/* Lines of several threads do not mix, and those of one stay in order. */
TEST(log__many_threads__lines_whole)
{
    static char output[T_THREADS * LINES * 330];
    int next[T_THREADS] = { 0 }, count = 0;
    char *rest = output, *line;

    CHECK_EQ(t_child(write_from_threads, NULL, output, sizeof output), 0);
    while ((line = strsep(&rest, "\n")) != NULL && rest != NULL) {
        char expected[400], name = '?';

        REQUIRE(sscanf(line, "spindle: warn: %c ", &name) == 1);
        REQUIRE(name >= 'a' && name < 'a' + T_THREADS);
        snprintf(expected, sizeof expected, "spindle: warn: %c %0300d", name,
                 next[name - 'a']++);
        CHECK_STR(line, expected);
        count++;
    }
    CHECK_EQ(count, T_THREADS * LINES);
}

/* ---- what a message can be --------------------------------------------------------- */

static void say_lengths(void *arg)
{
    static char text[5000];

    (void)arg;
    listen_to_all();
    memset(text, 'x', sizeof text - 1);
    for (int length = 0;
         length<(int)sizeof text; length += length> SPN__LOG_MESSAGE_MAX + 10 ? 997
                                                                              : 1) {
        const char *message = heard[0].message;

        spn__log(SPN_LOG_INFO, "%.*s", length, text);
        CHECK_EQ(take_heard(), 1);
        if (length <= SPN__LOG_MESSAGE_MAX) {
            CHECK_EQ(strlen(message), length);
            CHECK_EQ(strspn(message, "x"), length);
        } else {
            CHECK_EQ(strlen(message), SPN__LOG_MESSAGE_MAX);
            CHECK_EQ(strspn(message, "x"), SPN__LOG_MESSAGE_MAX - 3);
            CHECK_STR(message + SPN__LOG_MESSAGE_MAX - 3, "...");
        }
    }
}

/* A message up to the longest passes whole; a longer one ends in "...". */
TEST(log__every_length__whole_or_cut)
{
    CHECK_CHILD(say_lengths, NULL);
}

static void say_characters(void *arg)
{
    const char *characters[] = { "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\xa7\xb5" };

    (void)arg;
    listen_to_all();
    for (size_t c = 0; c < 3; c++)
        for (size_t shift = 0; shift < 4; shift++) {
            const size_t size = strlen(characters[c]);
            char text[1000] = "....";
            size_t length = shift;

            while (length + size < sizeof text) {
                memcpy(text + length, characters[c], size);
                length += size;
            }
            text[length] = '\0';
            spn__log(SPN_LOG_INFO, "%s", text);
            CHECK_EQ(take_heard(), 1);
            length = strlen(heard[0].message);
            CHECK(length <= SPN__LOG_MESSAGE_MAX &&
                  length > SPN__LOG_MESSAGE_MAX - size);
            CHECK_STR(heard[0].message + length - 3, "...");
            CHECK_EQ((length - 3 - shift) % size, 0); /* whole characters only */
        }
}

/* The cut never leaves half a UTF-8 character. */
TEST(log__cut_inside_a_character__before_it)
{
    CHECK_CHILD(say_characters, NULL);
}

static void say_continuations(void *arg)
{
    static char text[1000];

    (void)arg;
    listen_to_all();
    memset(text, 0x80, sizeof text - 1);
    spn__log(SPN_LOG_INFO, "%s", text);
    CHECK_STR(last_heard(), "...");
}

/* Bytes that are no text at all do no harm. */
TEST(log__cut_in_garbage__terminates)
{
    CHECK_CHILD(say_continuations, NULL);
}

static void say_controls(void *arg)
{
    (void)arg;
    listen_to_all();
    spn__log(SPN_LOG_WARN, "pool %s",
             "a\nspindle: error: forged\r\t\x1b[2J\x7f \xc3\xa4");
    CHECK_STR(last_heard(), "pool a?spindle: error: forged???[2J? \xc3\xa4");
}

/* Control characters become '?': a name cannot forge a line or a colour. */
TEST(log__control_characters__replaced)
{
    CHECK_CHILD(say_controls, NULL);
}

static void say_unformattable(void *arg)
{
    const wchar_t lonely[] = { 0xd800, 0 }; /* has no bytes in any locale */

    (void)arg;
    listen_to_all();
    spn__log(SPN_LOG_WARN, "name %ls", lonely);
    CHECK_STR(last_heard(), "(a message that could not be formatted)");
}

/* A message that cannot be formatted is reported as such, not left out. */
TEST(log__format_fails__said_so)
{
    CHECK_CHILD(say_unformattable, NULL);
}

static void fail_to_write(void *arg)
{
    struct spn__log_limit limit = { .next_ns = SPN__ATOMIC_INIT(0) };

    (void)arg;
    close(STDERR_FILENO);
    errno = ERANGE;
    spn__log(SPN_LOG_WARN, "nobody hears");
    spn__log_limit(&limit, 1, 1, SPN_LOG_WARN, "nobody hears");
    if (errno != ERANGE)
        exit(1); /* CHECK would have to print */
}

/* errno is left alone, though the write fails; nothing else happens. */
TEST(log__stderr_closed__errno_kept)
{
    CHECK_CHILD(fail_to_write, NULL);
}

static atomic_int signals_seen;
static atomic_int writer_tid;

static void on_signal(int number)
{
    (void)number;
    atomic_fetch_add(&signals_seen, 1);
}

static void *write_when_full(void *arg)
{
    (void)arg;
    atomic_store(&writer_tid, (int)syscall(SYS_gettid));
    spn__log(SPN_LOG_WARN, "after all");
    return NULL;
}

static bool is_asleep(int tid)
{
    char path[64], state = '?';
    FILE *file;

    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    file = fopen(path, "r");
    if (file == NULL)
        return false;
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
        state = '?';
    fclose(file);
    return state == 'S';
}

static void interrupt_the_write(void *arg)
{
    const struct sigaction action = { .sa_handler = on_signal }; /* no SA_RESTART */
    const int terminal = dup(STDERR_FILENO);
    static char full[1 << 20], got[1 << 20];
    ssize_t filled, length = 0, more;
    pthread_t writer;
    int fds[2];

    (void)arg;
    REQUIRE(pipe(fds) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    dup2(fds[1], STDERR_FILENO);
    close(fds[1]);
    fcntl(STDERR_FILENO, F_SETFL, O_NONBLOCK);
    filled = write(STDERR_FILENO, full, sizeof full);
    fcntl(STDERR_FILENO, F_SETFL, 0);
    REQUIRE(filled > 0);

    REQUIRE(pthread_create(&writer, NULL, write_when_full, NULL) == 0);
    T_AWAIT(atomic_load(&writer_tid) != 0 && is_asleep(atomic_load(&writer_tid)));
    pthread_kill(writer, SIGUSR1);
    T_AWAIT(atomic_load(&signals_seen) == 1);

    while (length < filled + (ssize_t)strlen("spindle: warn: after all\n") &&
           (more = read(fds[0], got + length, sizeof got - (size_t)length)) > 0)
        length += more;
    pthread_join(writer, NULL);
    dup2(terminal, STDERR_FILENO); /* closes the pipe: the rest can be read */
    while ((more = read(fds[0], got + length, sizeof got - (size_t)length)) > 0)
        length += more;
    got[length] = '\0';
    CHECK_STR(got + filled, "spindle: warn: after all\n");
}

/* A signal during the write does not lose the line, nor write it twice. */
TEST(log__signal_during_write__line_arrives_once)
{
    CHECK_CHILD(interrupt_the_write, NULL);
}

/* ---- the limit ------------------------------------------------------------------------ */

static void limit_in_time(void *arg)
{
    struct spn__log_limit limit = { .next_ns = SPN__ATOMIC_INIT(0) };

    (void)arg;
    listen_to_all();
#define SAY(now) spn__log_limit(&limit, (now), 100, SPN_LOG_WARN, "at %d", (int)(now))
    SAY(1000); /* the first passes, whatever the time */
    CHECK_STR(last_heard(), "at 1000");
    SAY(1000);
    SAY(1099);
    CHECK_EQ(take_heard(), 1);
    SAY(1100); /* the interval is over */
    CHECK_STR(last_heard(), "at 1100 (2 similar messages swallowed)");
    SAY(1199);
    CHECK_EQ(take_heard(), 1);
    SAY(5000);
    CHECK_STR(last_heard(), "at 5000 (1 similar message swallowed)");
    SAY(5100); /* none was swallowed: nothing is said of them */
    CHECK_STR(last_heard(), "at 5100");
    SAY(4000); /* a thread that read the clock long ago */
    CHECK_EQ(take_heard(), 2);
    CHECK_EQ(spn__load(&limit.next_ns, relaxed), 5200);
}

/* One message per interval; the next one says how many were swallowed. */
TEST(log__limit__one_per_interval)
{
    CHECK_CHILD(limit_in_time, NULL);
}

static void limit_at_the_end_of_time(void *arg)
{
    struct spn__log_limit once = { .next_ns = SPN__ATOMIC_INIT(0) };
    struct spn__log_limit late = { .next_ns = SPN__ATOMIC_INIT(0) };

    (void)arg;
    listen_to_all();
    spn__log_limit(&once, 5, SPN_FOREVER, SPN_LOG_WARN, "once");
    spn__log_limit(&once, INT64_MAX - 1, SPN_FOREVER, SPN_LOG_WARN, "never again");
    CHECK_EQ(take_heard(), 1);
    spn__log_limit(&late, INT64_MAX - 5, 10, SPN_LOG_WARN, "late");
    spn__log_limit(&late, INT64_MAX - 1, 10, SPN_LOG_WARN, "does not wrap");
    CHECK_EQ(take_heard(), 1);
}

/* An interval without end lets one message through; sums saturate. */
TEST(log__limit_for_ever__one_message, "G-8")
{
    CHECK_CHILD(limit_at_the_end_of_time, NULL);
}

static void limit_below_level(void *arg)
{
    struct spn__log_limit limit = { .next_ns = SPN__ATOMIC_INIT(0) };

    (void)arg;
    listen_to_all();
    REQUIRE_OK(spn_log_set_level(SPN_LOG_ERROR));
    for (int i = 0; i < 5; i++)
        spn__log_limit(&limit, 10, 100, SPN_LOG_WARN, "not wanted");
    REQUIRE_OK(spn_log_set_level(SPN_LOG_WARN));
    spn__log_limit(&limit, 10, 100, SPN_LOG_WARN, "wanted");
    CHECK_STR(last_heard(), "wanted");
    CHECK_EQ(take_heard(), 1);
}

/* A message below the level is not a swallowed one and uses up no interval. */
TEST(log__limit_below_level__not_counted)
{
    CHECK_CHILD(limit_below_level, NULL);
}

static void limit_long_message(void *arg)
{
    const uint64_t counts[] = { 1, 9, 10, 12345678, UINT64_MAX };
    static char text[1000];

    (void)arg;
    listen_to_all();
    memset(text, 'x', sizeof text - 1);
    for (int i = 0; i < 5; i++)
        for (int length = SPN__LOG_MESSAGE_MAX - 60; length < 600; length++) {
            struct spn__log_limit limit = { .swallowed = SPN__ATOMIC_INIT(counts[i]) };
            char suffix[100], expected[1100];
            int room;

            snprintf(suffix, sizeof suffix, " (%llu similar message%s swallowed)",
                     (unsigned long long)counts[i], counts[i] == 1 ? "" : "s");
            room = SPN__LOG_MESSAGE_MAX - (int)strlen(suffix);
            snprintf(expected, sizeof expected, "%.*s%s%s",
                     length <= room ? length : room - 3, text,
                     length <= room ? "" : "...", suffix);
            spn__log_limit(&limit, 1, 1, SPN_LOG_WARN, "%.*s", length, text);
            CHECK_STR(last_heard(), expected);
            CHECK_EQ(take_heard(), 1);
        }
}

/* The count is never cut, however long the message and the number. */
TEST(log__limit_with_long_message__count_whole)
{
    CHECK_CHILD(limit_long_message, NULL);
}

static void two_sites(void *arg)
{
    (void)arg;
    listen_to_all();
    for (int i = 0; i < 10; i++) {
        spn__log_limited(SPN_LOG_WARN, SPN_FOREVER, "one %d", i);
        spn__log_limited(SPN_LOG_WARN, SPN_FOREVER, "other %d", i);
    }
    CHECK_EQ(take_heard(), 2);
    CHECK_STR(heard[0].message, "one 0");
    CHECK_STR(heard[1].message, "other 0");
    REQUIRE_OK(spn_log_set_level(SPN_LOG_OFF));
    spn__log_limited(SPN_LOG_WARN, 1, "third");
    CHECK_EQ(take_heard(), 0);
}

/* Each place in the code has a limit of its own. */
TEST(log__limit_in_two_places__independent)
{
    CHECK_CHILD(two_sites, NULL);
}

struct storm {
    struct spn__log_limit limit;
    _Atomic(int64_t) now;
    int calls;
    uint64_t seed;
};

static void call_at_one_time(int index, void *arg)
{
    struct storm *s = arg;

    (void)index;
    for (int i = 0; i < s->calls; i++)
        spn__log_limit(&s->limit, 7, 1000, SPN_LOG_WARN, "storm");
}

static void storm_at_one_time(void *arg)
{
    static struct storm s = { .calls = 500 };
    unsigned long long reported = 0;

    (void)arg;
    listen_to_all();
    t_parallel(T_THREADS, call_at_one_time, &s);
    CHECK(sscanf(last_heard(), "storm (%llu", &reported) != 0);
    CHECK_EQ(take_heard(), 1);
    /* The winner takes along those that lost before it looked. */
    CHECK_EQ(reported + spn__load(&s.limit.swallowed, relaxed),
             T_THREADS * s.calls - 1);
}

/* Of many threads that find the interval over at one time exactly one speaks,
 * and every other call is counted. */
TEST(log__limit_storm__one_winner)
{
    for (int i = 0; i < t_rounds(20); i++)
        CHECK_CHILD(storm_at_one_time, NULL);
}

/* The clock goes on while the threads call. */
static void call_as_time_passes(int index, void *arg)
{
    struct storm *s = arg;
    uint64_t state = s->seed + (uint64_t)index;

    for (int i = 0; i < s->calls; i++) {
        const int64_t step = (int64_t)(t_random(&state) % 3);
        const int64_t now = atomic_fetch_add(&s->now, step) + step;

        spn__log_limit(&s->limit, now, 40, SPN_LOG_WARN, "at %lld", (long long)now);
    }
}

static int by_number(const void *a, const void *b)
{
    const long long x = *(const long long *)a, y = *(const long long *)b;

    return (x > y) - (x < y);
}

static void storm_as_time_passes(void *arg)
{
    static struct storm s = { .calls = 2000 };
    static long long times[HEARD_MAX];
    long long sum = 0, swallowed;
    int count;

    (void)arg;
    s.seed = t_seed();
    listen_to_all();
    t_parallel(T_THREADS, call_as_time_passes, &s);
    count = take_heard();
    CHECK(count > 1);
    for (int i = 0; i < count; i++) {
        swallowed = 0;
        CHECK(sscanf(heard[i].message, "at %lld (%lld", &times[i], &swallowed) >= 1);
        sum += swallowed;
    }
    sum += (long long)spn__load(&s.limit.swallowed, relaxed);
    CHECK_EQ(count + sum, T_THREADS * s.calls);
    qsort(times, (size_t)count, sizeof times[0], by_number);
    for (int i = 1; i < count; i++)
        CHECK(times[i] - times[i - 1] >= 40);
}

/* In a storm that goes on, messages are an interval apart, and what was said,
 * reported as swallowed or still in the count adds up to the calls. */
TEST(log__limit_storm_in_time__apart_and_accounted_for)
{
    for (int i = 0; i < t_rounds(5); i++)
        CHECK_CHILD(storm_as_time_passes, NULL);
}

/* ---- races on the hook ------------------------------------------------------------------ */

struct race {
    int set_status;
    atomic_int said;
};

static void set_or_say(int index, void *arg)
{
    struct race *r = arg;

    if (index == 0)
        r->set_status = spn_log_set_hook(hear, heard);
    for (int i = 0; i < 3; i++) {
        spn__log(SPN_LOG_WARN, "said");
        atomic_fetch_add(&r->said, 1);
    }
}

static void race_once(void *arg)
{
    struct race r = { .set_status = 1 };

    (void)arg;
    t_parallel(T_THREADS, set_or_say, &r);
    if (r.set_status == SPN_OK)
        CHECK_EQ(take_heard(), r.said);
    else {
        CHECK_STATUS(r.set_status, SPN_ESTATE);
        CHECK_EQ(take_heard(), 0);
    }
    printf("set: %d\n", r.set_status);
}

/* set races with the first message: all messages go to the hook, or none. */
TEST(log__hook_races_with_first_message__all_or_none)
{
    for (int i = 0; i < t_rounds(200); i++) {
        char output[4096];
        int lines = 0;

        CHECK_EQ(t_child(race_once, NULL, output, sizeof output), 0);
        for (const char *at = output;
             (at = strstr(at, "spindle: warn: said\n")) != NULL; at++)
            lines++;
        CHECK_EQ(lines, strstr(output, "set: 0\n") != NULL ? 0 : 3 * T_THREADS);
    }
}
