/* SPDX-License-Identifier: MIT */
/*
 * log.c - the library's messages: level, hook, rate limit, and the one line to
 * standard error where there is no hook.
 *
 * A message is put together in a buffer on the stack and handed over whole:
 * nothing is allocated and no lock is taken, so a message may come from any
 * place that holds none.  A control character in a message (out of a name the
 * program gave us, say) becomes '?': one message is one line, whoever reads it.
 *
 * HOOK       set once, before the first message that is let through; messages
 *            below the level do not count.  [hook], explained in base/hook.h.
 *
 * LIMIT      next_ns only grows.  Of the threads that find the interval over,
 *            the one whose compare-and-swap moves next_ns speaks; the others
 *            count themselves.  The speaker takes the count with an exchange,
 *            so each swallowed message is reported once or still in the count.
 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/hook.h"
#include "base/time.h"

enum {
    MESSAGE_SIZE = SPN__LOG_MESSAGE_MAX + 1,
    PREFIX_MAX = sizeof "spindle: unknown: ",
    SUFFIX_SIZE = sizeof " (18446744073709551615 similar messages swallowed)"
};

_Static_assert(PREFIX_MAX + MESSAGE_SIZE + 1 <= 512, "POSIX allows a PIPE_BUF of 512");

/* relaxed everywhere: a number that stands alone and publishes nothing.  A
 * change made in one thread reaches the others soon, which is all it says. */
static struct {
    SPN__ATOMIC(int) level;
} threshold = { SPN__ATOMIC_INIT(SPN_LOG_WARN) };

static struct spn__hook hook;
static spn_log_fn custom_fn; /* both published by [hook] */
static void *custom_ctx;

int spn_log_set_hook(spn_log_fn fn, void *ctx)
{
    if (fn == NULL)
        return SPN_EINVAL;
    if (!spn__hook_claim(&hook))
        return SPN_ESTATE;
    custom_fn = fn;
    custom_ctx = ctx;
    return spn__hook_publish(&hook) ? SPN_OK : SPN_ESTATE;
}

int spn_log_set_level(int level)
{
    if (level < SPN_LOG_OFF || level > SPN_LOG_DEBUG)
        return SPN_EINVAL;
    spn__store(&threshold.level, level, relaxed);
    return SPN_OK;
}

const char *spn_log_level_name(int level)
{
    switch (level) {
    case SPN_LOG_OFF:
        return "off";
    case SPN_LOG_ERROR:
        return "error";
    case SPN_LOG_WARN:
        return "warn";
    case SPN_LOG_INFO:
        return "info";
    case SPN_LOG_DEBUG:
        return "debug";
    default:
        return "unknown";
    }
}

bool spn__log_enabled(spn_log_level level)
{
    return (int)level <= spn__load(&threshold.level, relaxed) && level != SPN_LOG_OFF;
}

/* ---- one message ------------------------------------------------------- */

/* Ends a text that is longer than `room` bytes in "..." within them and returns
 * its length.  Bytes 10xxxxxx continue a UTF-8 character: the cut
 * goes before its first byte. */
static size_t cut(char *text, size_t room)
{
    size_t length = room - 3;

    while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80)
        length--;
    memcpy(text + length, "...", 4);
    return length + 3;
}

static void make_printable(char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
}

__attribute__((format(printf, 3, 0))) static void
put_together(char message[MESSAGE_SIZE], uint64_t swallowed, const char *format,
             va_list args)
{
    char suffix[SUFFIX_SIZE] = "";
    size_t suffix_length = 0, room, length;
    int wanted;

    if (swallowed != 0)
        suffix_length =
            (size_t)snprintf(suffix, sizeof suffix,
                             " (%llu similar message%s swallowed)",
                             (unsigned long long)swallowed, swallowed == 1 ? "" : "s");
    room = MESSAGE_SIZE - 1 - suffix_length;
    wanted = vsnprintf(message, MESSAGE_SIZE, format, args);
    if (wanted < 0) {
        wanted =
            snprintf(message, MESSAGE_SIZE, "(a message that could not be formatted)");
    }
    length = (size_t)wanted;
    if (length > room)
        length = cut(message, room);
    memcpy(message + length, suffix, suffix_length + 1);
    make_printable(message);
}

static void write_line(spn_log_level level, const char *message)
{
    char line[PREFIX_MAX + MESSAGE_SIZE + 1];
    const int length = snprintf(line, sizeof line, "spindle: %s: %s\n",
                                spn_log_level_name((int)level), message);

    /* One write, so that it stays in one piece.  A failure is not reported:
     * there is nobody left to report it to. */
    while (write(STDERR_FILENO, line, (size_t)length) < 0 && errno == EINTR) {
    }
}

__attribute__((format(printf, 3, 0))) static void
speak(spn_log_level level, uint64_t swallowed, const char *format, va_list args)
{
    const int saved_errno = errno;
    char message[MESSAGE_SIZE];

    put_together(message, swallowed, format, args);
    if (spn__hook_use(&hook))
        custom_fn(custom_ctx, level, message);
    else
        write_line(level, message);
    errno = saved_errno;
}

void spn__log(spn_log_level level, const char *format, ...)
{
    va_list args;

    if (!spn__log_enabled(level))
        return;
    va_start(args, format);
    speak(level, 0, format, args);
    va_end(args);
}

/* ---- the limit --------------------------------------------------------- */

/* Whether the caller may speak now; then *swallowed is what it speaks for. */
static bool may_speak(struct spn__log_limit *limit, int64_t now_ns, int64_t interval_ns,
                      uint64_t *swallowed)
{
    const int64_t next_ns = spn__deadline(now_ns, interval_ns);
    /* relaxed, all of them: each word is judged by itself, and the messages
     * of two threads need no order. */
    int64_t due_ns = spn__load(&limit->next_ns, relaxed);

    if (now_ns < due_ns ||
        !spn__cas(&limit->next_ns, &due_ns, next_ns, relaxed, relaxed)) {
        spn__fetch_add(&limit->swallowed, (uint64_t)1, relaxed);
        return false;
    }
    *swallowed = spn__exchange(&limit->swallowed, (uint64_t)0, relaxed);
    return true;
}

void spn__log_limit(struct spn__log_limit *limit, int64_t now_ns, int64_t interval_ns,
                    spn_log_level level, const char *format, ...)
{
    uint64_t swallowed;
    va_list args;

    if (!spn__log_enabled(level) || !may_speak(limit, now_ns, interval_ns, &swallowed))
        return;
    va_start(args, format);
    speak(level, swallowed, format, args);
    va_end(args);
}
