/* SPDX-License-Identifier: MIT */
/* text.c - text of metrics: growing, escaped. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include "metrics/text.h"

void spn__text_add(struct spn__text *t, const char *format, ...)
{
    const size_t room = t->used < t->capacity ? t->capacity - t->used : 0;
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(room != 0 ? t->bytes + t->used : NULL, room, format, args);
    va_end(args);
    if (length > 0)
        t->used += (size_t)length;
}

/* The length of the UTF-8 character at text; 0: it is none. */
static size_t utf8_length(const unsigned char *text)
{
    const unsigned char c = text[0];
    size_t length;
    uint32_t value;

    if (c < 0x80)
        return 1;
    if (c >= 0xc2 && c <= 0xdf)
        length = 2;
    else if (c >= 0xe0 && c <= 0xef)
        length = 3;
    else if (c >= 0xf0 && c <= 0xf4)
        length = 4;
    else
        return 0;
    value = c & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80) /* ends at the NUL too */
            return 0;
        value = value << 6 | (text[i] & 0x3f);
    }
    if ((length == 3 && value < 0x800) || (length == 4 && value < 0x10000) ||
        value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
        return 0;
    return length;
}

#define REPLACEMENT "\xef\xbf\xbd"

void spn__text_json(struct spn__text *t, const char *text)
{
    for (const unsigned char *at = (const unsigned char *)text; *at != 0;) {
        const size_t length = utf8_length(at);

        if (length == 0)
            spn__text_add(t, REPLACEMENT);
        else if (*at == '"' || *at == '\\')
            spn__text_add(t, "\\%c", *at);
        else if (*at < 0x20 || *at == 0x7f)
            spn__text_add(t, "\\u%04x", *at);
        else
            spn__text_add(t, "%.*s", (int)length, (const char *)at);
        at += length == 0 ? 1 : length;
    }
}

void spn__text_label(struct spn__text *t, const char *text)
{
    for (const unsigned char *at = (const unsigned char *)text; *at != 0;) {
        const size_t length = utf8_length(at);

        if (length == 0)
            spn__text_add(t, REPLACEMENT);
        else if (*at == '"' || *at == '\\')
            spn__text_add(t, "\\%c", *at);
        else if (*at == '\n')
            spn__text_add(t, "\\n");
        else
            spn__text_add(t, "%.*s", (int)length, (const char *)at);
        at += length == 0 ? 1 : length;
    }
}

void spn__text_seconds(struct spn__text *t, int64_t ns)
{
    const uint64_t u = ns > 0 ? (uint64_t)ns : 0;

    spn__text_add(t, "%llu.%09llu", (unsigned long long)(u / 1000000000),
                  (unsigned long long)(u % 1000000000));
}
