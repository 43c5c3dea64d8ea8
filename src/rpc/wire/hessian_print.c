/* SPDX-License-Identifier: MIT */
/*
 * hessian_print.c - a value for people to read.
 *
 * Twice around: first over all values with parts, to see which ones are met more than once;
 * those get a number, &1, where they are written, and *1 stands wherever they come again.
 * So what is written is never longer than the values there are, though a few shared lists
 * may stand for a tree of any size, and a circle ends where it closes.
 *
 * Text is written as JSON has it; half a surrogate pair, which no UTF-8 can be, as its
 * escape.  Other control characters are escaped too: the terminal of who reads it is not
 * the message's.
 */
#include "rpc/wire/hessian_value.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

/* ---- where it goes ------------------------------------------------------------- */

struct sink {
    char *buffer; /* NULL: the file, or nowhere */
    size_t capacity;
    FILE *file;
    int64_t total;
    bool failed;
};

static void emit(struct sink *s, const char *data, size_t length)
{
    if (s->file != NULL) {
        if (fwrite(data, 1, length, s->file) != length)
            s->failed = true;
    } else if (s->capacity > 0 && (uint64_t)s->total < s->capacity - 1) {
        const size_t room = s->capacity - 1 - (size_t)s->total;

        memcpy(s->buffer + s->total, data, length < room ? length : room);
    }
    s->total += (int64_t)length;
}

static void emit_text(struct sink *s, const char *text)
{
    emit(s, text, strlen(text));
}

__attribute__((format(printf, 2, 3))) static void emit_format(struct sink *s,
                                                              const char *format, ...)
{
    char text[64];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    emit_text(s, text);
}

/* ---- values without parts --------------------------------------------------------- */

/* The length of what needs no escape. */
static size_t plain(const char *at, size_t length)
{
    size_t n = 0;

    for (; n < length; n++) {
        const unsigned char byte = (unsigned char)at[n];

        if (byte < ' ' || byte == '"' || byte == '\\' || byte == 127)
            break;
        if (byte == 0xC2 && (unsigned char)at[n + 1] < 0xA0)
            break; /* control characters of the second kind, 80 to 9F */
        if (byte == 0xED && (unsigned char)at[n + 1] >= 0xA0)
            break; /* half a pair */
    }
    return n;
}

static void print_string(struct sink *s, const char *at, size_t length)
{
    emit(s, "\"", 1);
    while (length > 0) {
        const size_t n = plain(at, length);
        const unsigned char byte = n < length ? (unsigned char)at[n] : 0;
        size_t taken = 1;

        emit(s, at, n);
        at += n;
        length -= n;
        if (length == 0)
            break;
        if (byte == '"' || byte == '\\') {
            emit_format(s, "\\%c", byte);
        } else if (byte == '\n') {
            emit_text(s, "\\n");
        } else if (byte == '\t') {
            emit_text(s, "\\t");
        } else if (byte == 0xC2) {
            emit_format(s, "\\u00%02x", (unsigned char)at[1]);
            taken = 2;
        } else if (byte == 0xED) {
            emit_format(s, "\\ud%x%02x", 0x8 | ((unsigned char)at[1] >> 2 & 7),
                        ((unsigned char)at[1] & 3) << 6 |
                            ((unsigned char)at[2] & 0x3F));
            taken = 3;
        } else {
            emit_format(s, "\\u%04x", byte);
        }
        at += taken;
        length -= taken;
    }
    emit(s, "\"", 1);
}

static void print_double(struct sink *s, double number)
{
    char text[40];

    if (isnan(number)) {
        emit_text(s, "NaN");
        return;
    }
    if (isinf(number)) {
        emit_text(s, number > 0 ? "Infinity" : "-Infinity");
        return;
    }
    /* The fewest digits that are read as the same number. */
    for (int digits = 15; digits <= 17; digits++) {
        double again;

        (void)snprintf(text, sizeof text, "%.*g", digits, number);
        if (sscanf(text, "%lf", &again) == 1 && again == number)
            break;
    }
    emit_text(s, text);
    if (strpbrk(text, ".en") == NULL)
        emit_text(s, ".0"); /* to be told from an int */
}

/* Days to a date: by eras of 400 years, which all have as many days. */
static void print_date(struct sink *s, int64_t ms)
{
    const int64_t day_ms = 86400000;
    int64_t days = ms / day_ms, rest = ms % day_ms;
    int64_t era, of_era, year, of_year, month;

    if (rest < 0) {
        rest += day_ms;
        days--;
    }
    days += 719468; /* from the first of March of the year 0 */
    era = (days >= 0 ? days : days - 146096) / 146097;
    of_era = days - era * 146097;
    year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    of_year = of_era - (365 * year + year / 4 - year / 100);
    month = (5 * of_year + 2) / 153; /* from March */
    emit_format(s, "%04" PRId64 "-%02d-%02dT%02d:%02d:%02d.%03dZ",
                year + era * 400 + (month >= 10),
                (int)(month < 10 ? month + 3 : month - 9),
                (int)(of_year - (153 * month + 2) / 5 + 1), (int)(rest / 3600000),
                (int)(rest / 60000 % 60), (int)(rest / 1000 % 60), (int)(rest % 1000));
}

enum { BINARY_SHOWN = 32 };

static void print_binary(struct sink *s, const spn_hvalue *value)
{
    emit_format(s, "<%" PRIu32 ":", value->count);
    for (uint32_t i = 0; i < value->count && i < BINARY_SHOWN; i++)
        emit_format(s, "%s%02x", i == 0 ? " " : "", (unsigned char)value->is.bytes[i]);
    emit_text(s, value->count > BINARY_SHOWN ? "...>" : ">");
}

static void print_leaf(struct sink *s, const spn_hvalue *value)
{
    switch (value->kind) {
    case SPN_HNULL:
        emit_text(s, "null");
        break;
    case SPN_HBOOL:
        emit_text(s, value->is.integer != 0 ? "true" : "false");
        break;
    case SPN_HINT:
        emit_format(s, "%" PRId64, value->is.integer);
        break;
    case SPN_HLONG:
        emit_format(s, "%" PRId64 "L", value->is.integer);
        break;
    case SPN_HDOUBLE:
        print_double(s, value->is.real);
        break;
    case SPN_HDATE:
        print_date(s, value->is.integer);
        break;
    case SPN_HSTRING:
        print_string(s, value->is.bytes, value->count);
        break;
    default:
        print_binary(s, value);
        break;
    }
}

/* ---- the walk ------------------------------------------------------------------------ */

struct step {
    const spn_hvalue *value;
    size_t next; /* item */
};

struct walk {
    spn_harena *arena;
    struct spn__hids ids; /* times it was met; number: its mark, from 1; 0: none yet */
    struct step *steps;
    size_t depth;
    size_t capacity;
    uint32_t marks;
};

static bool push(struct walk *w, const spn_hvalue *value)
{
    if (w->depth == w->capacity) {
        const size_t capacity = w->capacity == 0 ? 32 : w->capacity * 2;
        struct step *larger =
            spn__harena_grow(w->arena, w->steps, w->depth, capacity, sizeof *larger);

        if (larger == NULL)
            return false;
        w->steps = larger;
        w->capacity = capacity;
    }
    w->steps[w->depth++] = (struct step){ value, 0 };
    return true;
}

/* Counts a value; goes into it the first time. */
static bool meet(struct walk *w, const spn_hvalue *value)
{
    struct spn__hid *id;

    if (!spn__has_parts(value))
        return true;
    id = spn__hids_find(&w->ids, value, NULL);
    if (id != NULL) {
        id->times++;
        return true;
    }
    return spn__hids_add(&w->ids, w->arena, value, NULL, 0) != NULL && push(w, value);
}

static bool count_all(struct walk *w, const spn_hvalue *root)
{
    bool ok = meet(w, root);

    while (ok && w->depth > 0) {
        struct step *step = &w->steps[w->depth - 1];

        if (step->next == spn__slots(step->value))
            w->depth--;
        else
            ok = meet(w, step->value->is.items[step->next++]);
    }
    return ok;
}

static void print_name(struct sink *s, const char *name)
{
    const size_t length = strlen(name);

    if (plain(name, length) == length)
        emit(s, name, length);
    else
        print_string(s, name, length);
}

/* A value, or the beginning of one. */
static bool begin_print(struct walk *w, struct sink *s, const spn_hvalue *value)
{
    struct spn__hid *id;

    if (!spn__has_parts(value)) {
        print_leaf(s, value);
        return true;
    }
    id = spn__hids_find(&w->ids, value, NULL);
    if (id->number != 0) {
        emit_format(s, "*%" PRIu32, id->number);
        return true;
    }
    if (id->times > 0) {
        id->number = ++w->marks;
        emit_format(s, "&%" PRIu32 " ", id->number);
    }
    if (spn_hvalue_type(value) != NULL)
        print_name(s, spn_hvalue_type(value));
    emit_text(s, value->kind == SPN_HLIST ? "[" : "{");
    return push(w, value);
}

/* What stands in front of the next item; whether there is one. */
static void print_between(struct sink *s, const struct step *step)
{
    const bool second = step->value->kind == SPN_HMAP && step->next % 2 == 1;

    if (second)
        emit_text(s, ": ");
    else if (step->next > 0)
        emit_text(s, ", ");
    if (step->value->kind == SPN_HOBJECT) {
        print_name(s, spn_hvalue_name_at(step->value, step->next));
        emit_text(s, ": ");
    }
}

static bool print_all(struct walk *w, struct sink *s, const spn_hvalue *root)
{
    bool ok = begin_print(w, s, root);

    while (ok && w->depth > 0) {
        struct step *step = &w->steps[w->depth - 1];

        if (step->next == spn__slots(step->value)) {
            emit_text(s, step->value->kind == SPN_HLIST ? "]" : "}");
            w->depth--;
        } else {
            print_between(s, step);
            ok = begin_print(w, s, step->value->is.items[step->next++]);
        }
    }
    return ok;
}

static int64_t print(struct sink *s, const spn_hvalue *value)
{
    const spn_harena_opts opts = { sizeof opts, 0, SIZE_MAX };
    struct walk w = { 0 };
    bool ok;
    int rc;

    if (value == NULL) {
        emit_text(s, "null");
        return s->total;
    }
    if (!spn__has_parts(value)) {
        print_leaf(s, value);
        return s->total;
    }
    rc = spn_harena_create(&w.arena, &opts);
    if (rc != SPN_OK)
        return rc;
    /* The second time around goes as deep as the first: only that one can fail. */
    ok = count_all(&w, value) && print_all(&w, s, value);
    spn_harena_destroy(w.arena);
    return ok ? s->total : SPN_ENOMEM;
}

int64_t spn_hvalue_print(const spn_hvalue *value, char *buffer, size_t capacity)
{
    struct sink s = { .buffer = buffer, .capacity = capacity };
    int64_t length;

    if (buffer == NULL && capacity > 0)
        return SPN_EINVAL;
    if (capacity > 0)
        buffer[0] = '\0';
    length = print(&s, value);
    if (length >= 0 && capacity > 0)
        buffer[(uint64_t)length < capacity ? (size_t)length : capacity - 1] = '\0';
    return length;
}

int64_t spn_hvalue_print_file(const spn_hvalue *value, FILE *file)
{
    struct sink s = { .file = file };
    int64_t length;

    if (file == NULL)
        return SPN_EINVAL;
    length = print(&s, value);
    return length >= 0 && s.failed ? SPN_EFAILED : length;
}
