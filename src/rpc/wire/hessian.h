/* SPDX-License-Identifier: MIT */
/*
 * hessian.h - the two ways that values go: a reader of bytes, a writer of bytes.
 *
 * Values read or written one after the other by one reader or writer belong to one message:
 * they share its tables of classes, types and references.  The first failure of either
 * stays: later calls return it and do nothing.  One thread at a time; nothing here blocks.
 */
#ifndef SPN__HESSIAN_H
#define SPN__HESSIAN_H

#include <spindle/hessian.h>

struct spn__budget;
struct spn__htables;

/* ---- reading --------------------------------------------------------------- */

/* A cursor over bytes, in the caller's memory.  What it holds beside that is in the arena,
 * so it needs no end. */
struct spn__hreader {
    const unsigned char *at; /* the next byte, and where the message starts and ends */
    const unsigned char *end;
    const unsigned char *start;
    spn_harena *arena;
    spn_problem *problem;
    spn_hvalue **references;
    const char **types;
    const void **classes;
    void *frames;
    size_t owed;
    size_t values_left; /* of the whole message */
    uint32_t reference_count;
    uint32_t reference_capacity;
    uint32_t type_count;
    uint32_t type_capacity;
    uint32_t class_count;
    uint32_t class_capacity;
    uint32_t frame_capacity;
    uint32_t max_depth;   /* of lists, maps and objects in each other: 128 */
    uint32_t max_classes; /* class definitions: 1024                       */
    uint32_t max_fields;  /* of a class: 4096                              */
    int status;
};

/*
 * Starts to read a message, with the limits above and as many values as it has bytes.  The
 * bytes are borrowed until the last call; what is read goes to the arena.  Every length is
 * checked against what is left before anything is allocated for it, so that a message
 * takes memory in proportion to its own size, and at most the arena's limit.
 *
 * *problem (may be NULL; borrowed as long as the reader) says what is wrong at which byte.
 */
void spn__hreader_init(struct spn__hreader *reader, spn_harena *arena,
                       const void *bytes, size_t length, spn_problem *problem);

/* Bytes read, bytes left. */
static inline size_t spn__hreader_offset(const struct spn__hreader *reader)
{
    return (size_t)(reader->at - reader->start);
}

static inline size_t spn__hreader_left(const struct spn__hreader *reader)
{
    return (size_t)(reader->end - reader->at);
}

/*
 * Reads the next value: of any kind; a number that fits an int, as spn_hvalue_as_int has
 * it; a string, copied to the arena with a zero byte behind it, { NULL, 0 } for null.
 *
 * Returns  SPN_OK; SPN_EEMPTY: the message ends before the value does; SPN_EINVAL: no
 *          Hessian, or another kind; SPN_ERANGE: a limit, or a number that does not fit;
 *          SPN_ENOMEM.  On failure *out is NULL, and other results are as they were.
 */
SPN_NODISCARD
int spn__hreader_any(struct spn__hreader *reader, spn_hvalue **out);
SPN_NODISCARD
int spn__hreader_int(struct spn__hreader *reader, int32_t *number);
SPN_NODISCARD
int spn__hreader_string(struct spn__hreader *reader, spn_hspan *text);

/* ---- writing --------------------------------------------------------------- */

/* A buffer with its tables, in the caller's memory. */
struct spn__hwriter {
    unsigned char *bytes;
    size_t length;
    size_t capacity;
    size_t limit_bytes; /* of the buffer */
    unsigned char *initial;
    struct spn__htables *tables; /* made when the message names a type or a class, or is
                                    a tree */
    struct spn__budget *budget;  /* for buffer and tables, set before anything is
                                    written; NULL: they are not counted */
    uint32_t reference_count;
    uint32_t depth;
    uint32_t max_depth; /* of lists, maps and objects in each other: 128 */
    int status;
    uint32_t open[8];
};

/*
 * init:   an empty writer.  `initial` is memory of the caller's to begin with, borrowed
 *         until fini; NULL if capacity is 0.  limit_bytes 0: 64 MiB; SIZE_MAX: none.
 * fini:   gives up the bytes and all else.  A second time is a no-op.
 * reset:  keeps the first `keep` bytes, of which there must be so many; forgets what
 *         follows, all tables and a failure: what comes next is another message behind
 *         those bytes.  Memory is kept.
 */
void spn__hwriter_init(struct spn__hwriter *writer, void *initial, size_t capacity,
                       size_t limit_bytes);
void spn__hwriter_fini(struct spn__hwriter *writer);
void spn__hwriter_reset(struct spn__hwriter *writer, size_t keep);

/*
 * bytes:   what was written, which the next call may move, and how much it is (length may
 *          be NULL); they may be changed.  NULL: nothing.
 * status:  SPN_OK, or what the first call that failed returned; SPN_ESTATE while a list,
 *          map or object is not complete.
 */
void *spn__hwriter_bytes(struct spn__hwriter *writer, size_t *length);
int spn__hwriter_status(const struct spn__hwriter *writer);

/*
 * Appends a value; one look at the end will do (spn__hwriter_status).
 *
 * raw:     bytes that are no value: a frame's header.
 * string:  UTF-8 (or what the reader gives); data NULL: null.
 * text:    the same of a C string.
 * value:   all of it; what occurs more than once is written once.  NULL: null.  Values and
 *          structs are known by their addresses: they must stay until the message is
 *          complete, that is until reset or fini.
 * struct:  as an object; `from` NULL: null.  What a field points to twice, or in circles, is
 *          written once.
 *
 * Returns  SPN_OK; SPN_EINVAL: not UTF-8, a wrong table, a length without data; SPN_ERANGE:
 *          the limit, or too deep; SPN_ESTATE: more values than the list or object has;
 *          SPN_ENOMEM.
 */
int spn__hwriter_raw(struct spn__hwriter *writer, const void *data, size_t length);
int spn__hwriter_null(struct spn__hwriter *writer);
int spn__hwriter_bool(struct spn__hwriter *writer, int flag);
int spn__hwriter_int(struct spn__hwriter *writer, int32_t number);
int spn__hwriter_long(struct spn__hwriter *writer, int64_t number);
int spn__hwriter_double(struct spn__hwriter *writer, double number);
int spn__hwriter_text(struct spn__hwriter *writer, const char *text);
int spn__hwriter_string(struct spn__hwriter *writer, const char *data, size_t length);
int spn__hwriter_value(struct spn__hwriter *writer, const spn_hvalue *value);
int spn__hwriter_struct(struct spn__hwriter *writer, const spn_hstruct *type,
                        const void *from);

/*
 * Piece by piece: begin, the values, end.  A list has `count` values, an object one for
 * each field in the order of the names, a map keys and values by turns; end is SPN_ESTATE
 * when some are missing.  A type of NULL is none.  The names are copied.
 *
 * Returns  as above.
 */
int spn__hwriter_begin_list(struct spn__hwriter *writer, const char *type,
                            size_t count);
int spn__hwriter_begin_map(struct spn__hwriter *writer, const char *type);
int spn__hwriter_begin_object(struct spn__hwriter *writer, const char *class_name,
                              const char *const *names, size_t count);
int spn__hwriter_end(struct spn__hwriter *writer);

#endif /* SPN__HESSIAN_H */
