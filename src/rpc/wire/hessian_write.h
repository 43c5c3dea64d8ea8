/* SPDX-License-Identifier: MIT */
/* hessian_write.h - what the two halves of the writer share. */
#ifndef SPN__HESSIAN_WRITE_H
#define SPN__HESSIAN_WRITE_H

#include "rpc/wire/hessian.h"
#include "rpc/wire/hessian_value.h"

/* What a message has named so far.  All of it is in `arena`, which goes with the message;
 * simple messages do without. */
struct spn__htables {
    spn_harena *arena;
    struct spn__hids references;   /* value, or struct and its table, to its number */
    struct spn__hids class_ids;    /* class, or a struct's table, to its number     */
    struct spn__hids class_hashes; /* what its names hash to, to the same           */
    struct spn__hids type_hashes;
    const struct spn__hclass **classes;
    uint32_t class_count;
    uint32_t class_capacity;
    const char **types;
    uint32_t type_count;
    uint32_t type_capacity;
    uint32_t *open; /* as in the writer, of depths beyond those */
    uint32_t open_capacity;
    uint32_t frame_capacity;
    struct spn__hframe *frames; /* of the walk over a tree */
};

/* Remembers the first failure and returns it. */
int spn__hwriter_fail(struct spn__hwriter *w, int status);
/* Counts one value into what is open; fails when it has no room for one. */
int spn__hwriter_count(struct spn__hwriter *w);

/* What every call begins with: a writer that has not failed, with room for a value. */
static inline int spn__hwriter_begin(struct spn__hwriter *writer)
{
    if (writer->status != SPN_OK)
        return writer->status;
    return writer->depth > 0 ? spn__hwriter_count(writer) : SPN_OK;
}
/* The tables, made when first wanted; NULL: no memory. */
struct spn__htables *spn__hwriter_tables(struct spn__hwriter *w);

/* Room behind what is written; NULL: see the writer's status. */
unsigned char *spn__hwriter_room(struct spn__hwriter *w, size_t bytes);

/* Values without parts, not counted. */
int spn__hwriter_put_byte(struct spn__hwriter *w, unsigned code);
int spn__hwriter_put_int(struct spn__hwriter *w, int32_t number);
int spn__hwriter_put_long(struct spn__hwriter *w, int64_t number);
int spn__hwriter_put_double(struct spn__hwriter *w, double number);
int spn__hwriter_put_date(struct spn__hwriter *w, int64_t ms);
int spn__hwriter_put_string(struct spn__hwriter *w, const char *data, size_t length);
int spn__hwriter_put_binary(struct spn__hwriter *w, const void *data, size_t length);

/* Heads, not counted; each takes the next number of a reference. */
int spn__hwriter_put_list(struct spn__hwriter *w, const char *type, size_t count);
int spn__hwriter_put_map(struct spn__hwriter *w, const char *type);
/* `id` is the class's address, or of whatever stands for it as long as the message: seen
 * again, its names are not looked at.  NULL: there is none. */
int spn__hwriter_put_object(struct spn__hwriter *w, const struct spn__hclass *of,
                            const void *id);

#endif /* SPN__HESSIAN_WRITE_H */
