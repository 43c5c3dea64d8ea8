/* SPDX-License-Identifier: MIT */
/*
 * status.c - names and texts of the status codes, from the one map in status.h.
 *
 * A switch, not a table: the numbers have gaps, and two codes with one number
 * do not compile.
 */
#include <spindle/status.h>

const char *spn_status_name(int status)
{
    switch (status) {
    case SPN_OK:
        return "SPN_OK";
#define NAME(name, number, text) \
    case SPN_E##name:            \
        return "SPN_E" #name;
        SPN_STATUS_MAP(NAME)
#undef NAME
    default:
        return "SPN_EUNKNOWN";
    }
}

const char *spn_status_text(int status)
{
    switch (status) {
    case SPN_OK:
        return "success";
#define TEXT(name, number, text) \
    case SPN_E##name:            \
        return text;
        SPN_STATUS_MAP(TEXT)
#undef TEXT
    default:
        return "unknown status";
    }
}
