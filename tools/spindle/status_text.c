/* SPDX-License-Identifier: MIT */
/*
 * status_text.c - the status drawn for a terminal: `spindle top` shows it, and so does
 * `curl .../status.txt`.
 */
#include "status.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include <spindle.h>

struct drawing {
    FILE *to;
    int columns;
    bool colour;
};

static const char *mark(const struct drawing *d, const char *sequence)
{
    return d->colour ? sequence : "";
}

#define BOLD  "\033[1m"
#define SOFT  "\033[2m"
#define RED   "\033[31m"
#define AMBER "\033[33m"
#define GREEN "\033[32m"
#define PLAIN "\033[0m"

/* A duration with three digits or so, in `text`. */
static const char *duration(double us, char text[static 16])
{
    if (us >= 1e6)
        snprintf(text, 16, "%.2f s", us / 1e6);
    else if (us >= 1e3)
        snprintf(text, 16, "%.1f ms", us / 1e3);
    else
        snprintf(text, 16, "%.0f us", us);
    return text;
}

/* [####......] of `width` signs; red when it is full. */
static void bar(const struct drawing *d, double share, int width)
{
    const double within = share < 0 ? 0 : share > 1 ? 1 : share;
    const int filled = (int)(within * width + 0.5);
    const char *colour = share >= 1 ? RED : share >= 0.8 ? AMBER : GREEN;

    fprintf(d->to, "[%s", mark(d, colour));
    for (int i = 0; i < width; i++)
        fputc(i < filled ? '#' : '.', d->to);
    fprintf(d->to, "%s]", mark(d, PLAIN));
}

/* The last `width` samples as a row of blocks, the highest being eight eighths. */
static void curve(const struct drawing *d, const struct status *s, int width)
{
    static const char *const blocks[] = { " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    const int first = s->history_count > width ? s->history_count - width : 0;
    double top = 1;

    for (int i = first; i < s->history_count; i++)
        if (s->history[i].rate > top)
            top = s->history[i].rate;
    for (int i = first; i < s->history_count; i++)
        fputs(blocks[(int)(s->history[i].rate / top * 8 + 0.5)], d->to);
    fprintf(d->to, "  most %.0f/s\n", top);
}

static void heading(const struct drawing *d, const char *text)
{
    fprintf(d->to, "\n%s%s%s\n", mark(d, BOLD), text, mark(d, PLAIN));
}

static void draw_server(const struct drawing *d, const struct status_server *s)
{
    if (s->section[0] != '\0')
        fprintf(d->to, "[%s] %" PRIu64 " requests, %" PRIu64 " in flight  ", s->section,
                s->received, s->in_flight);
    fprintf(d->to, "%s%s  dispatcher %s%s\n", mark(d, SOFT), s->url, s->dispatcher,
            mark(d, PLAIN));
}

static void draw_traffic(const struct drawing *d, const struct status *s)
{
    char p50[16], p99[16], p999[16], worst[16];
    const uint64_t refused = s->rejected + s->rejected_one_way +
                             s->rejected_connection + s->rejected_address +
                             s->rejected_delay;

    fprintf(d->to,
            "%s%.0f%s requests/s   %" PRIu64 " in all   %" PRIu64
            " in flight   %" PRIu64 " connections (%" PRIu64 " accepted)\n",
            mark(d, BOLD), s->rate, mark(d, PLAIN), s->received, s->in_flight,
            s->connections_open, s->connections_accepted);
    fprintf(d->to, "time in the server: p50 %s   p99 %s   p99.9 %s   worst %s\n",
            duration(s->p50_us, p50), duration(s->p99_us, p99),
            duration(s->p999_us, p999), duration(s->max_us, worst));
    fprintf(d->to,
            "%srefused %" PRIu64 "   failed %" PRIu64 "   too late %" PRIu64
            "   bad frames %" PRIu64 "%s   heartbeats %" PRIu64 "\n",
            refused + s->failed + s->expired + s->bad_frames > 0 ? mark(d, RED) : "",
            refused, s->failed, s->expired, s->bad_frames, mark(d, PLAIN),
            s->heartbeats);
}

static void draw_pools(const struct drawing *d, const struct status *s)
{
    heading(d, "POOL                             BUSY THREADS    MOST   WAITING"
               "          RUN    REFUSED");
    for (int i = 0; i < s->pool_count; i++) {
        const struct status_pool *p = &s->pools[i];
        const bool endless = p->max > 100000000;
        const int most = endless ? p->threads : p->max;

        fprintf(d->to, "%-32.32s %4" PRId32 " %7" PRId32 " ", p->name, p->active,
                p->threads);
        if (endless)
            fprintf(d->to, "%7s ", "-");
        else
            fprintf(d->to, "%7" PRId32 " ", p->max);
        fprintf(d->to, "%9" PRId64 " %12" PRId64 " %10" PRId64 " ", p->queued,
                p->completed, p->rejected);
        bar(d, most > 0 ? (double)p->active / most : 0, 12);
        fputc('\n', d->to);
    }
}

static void draw_dispatch(const struct drawing *d, const struct status *s)
{
    heading(d, "EVENT            I/O THREAD         POOL   ONE THREAD    ITS OWN");
    for (int i = 0; i < STATUS_EVENTS; i++) {
        const struct status_dispatch *e = &s->dispatch[i];

        fprintf(d->to,
                "%-14s %12" PRIu64 " %12" PRIu64 " %12" PRIu64 " %10" PRIu64 "\n",
                e->event, e->io, e->pool, e->ordered, e->own);
    }
}

static void draw_timers(const struct drawing *d, const struct status *s)
{
    char late[16];

    heading(d, "TIMER               PENDING        FIRED    CANCELLED   LATE P99"
               "     WAKE-UPS");
    for (int i = 0; i < s->timer_count; i++) {
        const struct status_timer *t = &s->timers[i];

        fprintf(d->to,
                "%-14s %12" PRIu64 " %12" PRIu64 " %12" PRIu64 " %10s %12" PRIu64 "\n",
                t->name, t->pending, t->fired, t->cancelled,
                duration(t->late_p99_us, late), t->wakeups);
    }
}

void status_write_text(const struct status *s, int columns, int colour, FILE *to)
{
    const struct drawing d = { to, columns > 40 ? columns : 40, colour != 0 };
    const char *state =
        strcmp(s->state, "running") == 0 ? mark(&d, GREEN) : mark(&d, AMBER);

    fprintf(to, "%sspindle %s%s  %s%s%s  up %.0f s\n", mark(&d, BOLD),
            spn_version_string(), mark(&d, PLAIN), state, s->state, mark(&d, PLAIN),
            s->uptime_s);
    for (int i = 0; i < s->server_count; i++)
        draw_server(&d, &s->servers[i]);
    draw_traffic(&d, s);
    if (s->history_count > 1)
        curve(&d, s, d.columns - 20);
    draw_pools(&d, s);
    draw_dispatch(&d, s);
    draw_timers(&d, s);
    if (s->report[0] != '\0') {
        /* The message; the stacks are for the page and for /report. */
        heading(&d, "LAST EXHAUSTION REPORT (all of it: /report)");
        fprintf(to, "%.*s\n", (int)strcspn(s->report, "\n"), s->report);
    }
}
