/* SPDX-License-Identifier: MIT */
#ifndef SPN_HESSIAN_H
#define SPN_HESSIAN_H

#include <stdio.h>

#include <spindle/problem.h>
#include <spindle/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Hessian 2, as Dubbo speaks it: values to bytes and back.
 *
 *     spn_harena   the memory of one message; freed in one call
 *     spn_hvalue   a value in it: null, bool, int, ..., list, map, object
 *     spn_hreader  a cursor over bytes: gives values, or strings and numbers directly
 *     spn_hwriter  a growing buffer: takes the same
 *     spn_hstruct  a table that says which field of a C struct is which of an object
 *
 * Values written or read one after the other by one writer or reader belong to one
 * message: they share its tables of classes, types and references.
 *
 * Threads     an arena with its values, a reader, a writer: one thread at a time.  Values
 *             that nobody changes any more may be read by many.  None of the calls blocks.
 * Strings     are UTF-8 outside, of an explicit length, and may hold zero bytes; those
 *             of an arena are followed by one more, so that they serve as C strings.  On
 *             the wire they are CESU-8; the reader takes UTF-8 as well.  Half a surrogate
 *             pair, which Java allows, is kept as the three bytes it has there.
 * Class names are text and nothing else: no name ever chooses code.
 */

typedef struct spn_harena spn_harena;
typedef struct spn_hvalue spn_hvalue;

/* Bytes that belong to somebody else.  data is NULL for null, never for "". */
typedef struct spn_hspan {
    const char *data;
    size_t length;
} spn_hspan;

/* ---- the memory of a message -------------------------------------------- */

/* Zero means default.  Append only. */
typedef struct spn_harena_opts {
    size_t size;        /* sizeof(spn_harena_opts), set by _INIT                      */
    size_t block_bytes; /* of the first block, which reset keeps; 0: 4096             */
    size_t limit_bytes; /* of all blocks; 0: 64 MiB, SIZE_MAX: none                   */
} spn_harena_opts;

#define SPN_HARENA_OPTS_INIT           \
    {                                  \
        sizeof(spn_harena_opts), 0, 0, \
    }

/*
 * create:   makes an arena; *out is NULL on failure.
 * reset:    gives up all values; the first block stays, so that a message that fits in it
 *           needs no memory from the system.
 * destroy:  the same for good.
 * NULL is a no-op for both.
 *
 * Returns  create: SPN_OK; SPN_EINVAL; SPN_ENOMEM.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_harena_create(spn_harena **out, const spn_harena_opts *opts);
SPN_API void spn_harena_reset(spn_harena *arena);
SPN_API void spn_harena_destroy(spn_harena *arena);

/*
 * alloc:   bytes of the arena for the caller's own use, aligned for anything; NULL if
 *          there is no memory, or beyond the limit.
 * used:    how many bytes its values take; 0 for NULL.
 * status:  SPN_OK; or why something could not be had since the last reset: SPN_ENOMEM,
 *          SPN_ERANGE (the limit); SPN_EINVAL for NULL.
 * Since    0.1
 */
SPN_API void *spn_harena_alloc(spn_harena *arena, size_t bytes);
SPN_API size_t spn_harena_used(const spn_harena *arena);
SPN_API int spn_harena_status(const spn_harena *arena);

/* ---- values ---------------------------------------------------------------- */

typedef enum spn_hkind {
    SPN_HNULL = 0,
    SPN_HBOOL = 1,
    SPN_HINT = 2,    /* 32 bits; Java's byte and short too   */
    SPN_HLONG = 3,   /* 64 bits                              */
    SPN_HDOUBLE = 4, /* Java's float too                     */
    SPN_HDATE = 5,   /* milliseconds since 1970, UTC         */
    SPN_HSTRING = 6,
    SPN_HBINARY = 7,
    SPN_HLIST = 8,   /* of values, with a type name or without                 */
    SPN_HMAP = 9,    /* pairs of values, with a type name or without           */
    SPN_HOBJECT = 10 /* a class name, and values by name                      */
} spn_hkind;

/* The kind; SPN_HNULL for NULL.  Its name ("string"), "unknown" for none.  Since 0.1 */
SPN_API spn_hkind spn_hvalue_kind(const spn_hvalue *value);
SPN_API const char *spn_hkind_name(spn_hkind kind);

/*
 * What a value is.  int, long and double take each other's values: an int or a long that
 * does not fit, and a double that is no whole number where one is wanted, is SPN_ERANGE;
 * a long as a double is the nearest one.  string and binary of null are { NULL, 0 }; they
 * point into the arena.  bool is 1 or 0.
 *
 * Returns  SPN_OK; SPN_EINVAL: another kind, or a NULL; SPN_ERANGE.  On failure *out is
 *          as it was.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_hvalue_as_bool(const spn_hvalue *value, int *flag);
SPN_API SPN_NODISCARD
int spn_hvalue_as_int(const spn_hvalue *value, int32_t *number);
SPN_API SPN_NODISCARD
int spn_hvalue_as_long(const spn_hvalue *value, int64_t *number);
SPN_API SPN_NODISCARD
int spn_hvalue_as_double(const spn_hvalue *value, double *number);
SPN_API SPN_NODISCARD
int spn_hvalue_as_date(const spn_hvalue *value, int64_t *ms);
SPN_API SPN_NODISCARD
int spn_hvalue_as_string(const spn_hvalue *value, spn_hspan *text);
SPN_API SPN_NODISCARD
int spn_hvalue_as_binary(const spn_hvalue *value, spn_hspan *bytes);

/* A string as a C string: NULL if it is another kind, or holds a zero byte.  Since 0.1 */
SPN_API const char *spn_hvalue_text(const spn_hvalue *value);

/*
 * type:     the class of an object, the type of a list or a map; NULL: none.
 * count:    items of a list, pairs of a map, fields of an object; 0 for all else.
 * at:       the item, the pair's value, the field's value at an index.
 * key_at:   the key of a map's pair.
 * name_at:  the name of an object's field.
 * get:      the value of an object's field, or the one with that string as its key in a
 *           map.  Of several equal ones the last counts.  Looks at one after the other.
 * find:     the same in a map, with any key that is no list, map or object.
 *
 * Returns  NULL where there is none, for another kind, and for NULL.
 * Since    0.1
 */
SPN_API const char *spn_hvalue_type(const spn_hvalue *value);
SPN_API size_t spn_hvalue_count(const spn_hvalue *value);
SPN_API spn_hvalue *spn_hvalue_at(const spn_hvalue *value, size_t index);
SPN_API spn_hvalue *spn_hvalue_key_at(const spn_hvalue *value, size_t index);
SPN_API const char *spn_hvalue_name_at(const spn_hvalue *value, size_t index);
SPN_API spn_hvalue *spn_hvalue_get(const spn_hvalue *value, const char *name);
SPN_API spn_hvalue *spn_hvalue_find(const spn_hvalue *value, const spn_hvalue *key);

/*
 * Makes a value.  Strings and bytes are copied; a string must be UTF-8 (or what the reader
 * gives).  list, map, object: empty; a type of NULL is none, and a class name there must
 * be.
 *
 * Returns  the value, or NULL: no memory, the limit (see spn_harena_status), not UTF-8, a
 *          NULL.  What takes a value answers for one that could not be made, so that only
 *          the last step of a construction needs a look.
 * Since    0.1
 */
SPN_API spn_hvalue *spn_harena_null(spn_harena *arena);
SPN_API spn_hvalue *spn_harena_bool(spn_harena *arena, int flag);
SPN_API spn_hvalue *spn_harena_int(spn_harena *arena, int32_t number);
SPN_API spn_hvalue *spn_harena_long(spn_harena *arena, int64_t number);
SPN_API spn_hvalue *spn_harena_double(spn_harena *arena, double number);
SPN_API spn_hvalue *spn_harena_date(spn_harena *arena, int64_t ms);
SPN_API spn_hvalue *spn_harena_text(spn_harena *arena, const char *text);
SPN_API spn_hvalue *spn_harena_string(spn_harena *arena, const char *data,
                                      size_t length);
SPN_API spn_hvalue *spn_harena_binary(spn_harena *arena, const void *data,
                                      size_t length);
SPN_API spn_hvalue *spn_harena_list(spn_harena *arena, const char *type);
SPN_API spn_hvalue *spn_harena_map(spn_harena *arena, const char *type);
SPN_API spn_hvalue *spn_harena_object(spn_harena *arena, const char *class_name);

/*
 * add:  appends an item to a list.
 * put:  appends a pair to a map, without a look at the ones that are there.
 * set:  gives an object's field, or a map's string key, a value; a new one is appended.
 * A list may hold itself, a map be in two lists: that is kept on the wire.  What is added
 * must be of the same arena.
 *
 * Returns  SPN_OK; SPN_EINVAL: another kind, a NULL, another arena; the arena's status if
 *          a value is NULL and something could not be had; SPN_ENOMEM; SPN_ERANGE.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_hvalue_add(spn_hvalue *list, spn_hvalue *item);
SPN_API SPN_NODISCARD
int spn_hvalue_put(spn_hvalue *map, spn_hvalue *key, spn_hvalue *item);
SPN_API SPN_NODISCARD
int spn_hvalue_set(spn_hvalue *value, const char *name, spn_hvalue *item);

/*
 * Whether two values are the same: kinds, types, names, items, pairs in their order.
 * Numbers of different kinds are not; NaN is itself; values that go in circles are
 * followed once around.  Two NULLs are the same, and NULL is null.
 *
 * Returns  1 or 0; SPN_ENOMEM.
 * Since    0.1
 */
SPN_API int spn_hvalue_equals(const spn_hvalue *a, const spn_hvalue *b);

/*
 * A value for people, on one line and much like JSON: an object is Class{name: value}, a
 * typed list type[...], a date 2026-11-15T20:26:53.000Z, bytes <2: 00ff>.  What occurs
 * more than once is marked &1 where it is and written *1 elsewhere, so circles end.
 *
 * print:       as much as fits in capacity - 1 bytes, and a zero byte; the buffer may be
 *              NULL if capacity is 0.
 * print_file:  all of it, without a newline.
 *
 * Returns  how many bytes the whole has, without the zero byte; SPN_EINVAL: no buffer, no
 *          file; SPN_ENOMEM; print_file also SPN_EFAILED: not all could be written.
 * Since    0.1
 */
SPN_API int64_t spn_hvalue_print(const spn_hvalue *value, char *buffer,
                                 size_t capacity);
SPN_API int64_t spn_hvalue_print_file(const spn_hvalue *value, FILE *file);

/* ---- reading --------------------------------------------------------------- */

/* Zero means default.  Append only. */
typedef struct spn_hreader_opts {
    size_t size;          /* sizeof(spn_hreader_opts), set by _INIT                 */
    size_t max_values;    /* all values of the message; 0: as many as it has bytes  */
    uint32_t max_depth;   /* of lists, maps and objects in each other; 0: 128    */
    uint32_t max_classes; /* class definitions; 0: 1024                          */
    uint32_t max_fields;  /* of a class; 0: 4096                                 */
    uint32_t reserved;    /* 0                                                   */
} spn_hreader_opts;

#define SPN_HREADER_OPTS_INIT                    \
    {                                            \
        sizeof(spn_hreader_opts), 0, 0, 0, 0, 0, \
    }

/* A cursor, in the caller's own memory.  The fields are the reader's.  It holds nothing
 * outside the arena and needs no end. */
typedef struct spn_hreader {
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
    size_t values_left;
    uint32_t reference_count;
    uint32_t reference_capacity;
    uint32_t type_count;
    uint32_t type_capacity;
    uint32_t class_count;
    uint32_t class_capacity;
    uint32_t frame_capacity;
    uint32_t max_depth;
    uint32_t max_classes;
    uint32_t max_fields;
    int32_t status;
    uint32_t reserved;
    void *spare[2];
} spn_hreader;

/*
 * Starts to read a message.  The bytes are borrowed until the last call, and longer where
 * spn_hreader_view gave out parts of them; all else goes to the arena.  Every length is
 * checked against what is left before anything is allocated for it, so that a message
 * takes memory in proportion to its own size, and at most the arena's limit.
 *
 * The first call that fails decides: all later ones return the same, and *problem (may be
 * NULL; borrowed as long as the reader) says what is wrong at which byte.
 *
 * Returns  SPN_OK; SPN_EINVAL: a NULL (bytes may be, if length is 0), options.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_hreader_init(spn_hreader *reader, spn_harena *arena, const void *bytes,
                     size_t length, const spn_hreader_opts *opts, spn_problem *problem);

/* Bytes read, bytes left; 0 for NULL.  Since 0.1 */
SPN_API size_t spn_hreader_offset(const spn_hreader *reader);
SPN_API size_t spn_hreader_left(const spn_hreader *reader);

/*
 * The kind of the next value, without reading it; a reference has that of what it refers
 * to.
 * Returns  a spn_hkind; SPN_EEMPTY: no more bytes; SPN_EINVAL: no value starts like this,
 *          or a NULL; the status of a reader that failed.
 * Since    0.1
 */
SPN_API int spn_hreader_peek(const spn_hreader *reader);

/*
 * Reads the next value: of any kind; or one that must be of a kind, numbers taking each
 * other's as spn_hvalue_as_int has it.  A string may be null: { NULL, 0 }.
 *
 * string:  copied to the arena, with a zero byte behind it.
 * view:    the same without that byte, and in place where the message holds it as it is
 *          (plain ASCII and the like, in one piece).
 *
 * Returns  SPN_OK; SPN_EEMPTY: the message ends before the value does; SPN_EINVAL: no
 *          Hessian, or another kind; SPN_ERANGE: a limit, or a number that does not fit;
 *          SPN_ENOMEM.  On failure *out is NULL, and other results are as they were.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_hreader_any(spn_hreader *reader, spn_hvalue **out);
SPN_API SPN_NODISCARD
int spn_hreader_null(spn_hreader *reader);
SPN_API SPN_NODISCARD
int spn_hreader_bool(spn_hreader *reader, int *flag);
SPN_API SPN_NODISCARD
int spn_hreader_int(spn_hreader *reader, int32_t *number);
SPN_API SPN_NODISCARD
int spn_hreader_long(spn_hreader *reader, int64_t *number);
SPN_API SPN_NODISCARD
int spn_hreader_double(spn_hreader *reader, double *number);
SPN_API SPN_NODISCARD
int spn_hreader_date(spn_hreader *reader, int64_t *ms);
SPN_API SPN_NODISCARD
int spn_hreader_string(spn_hreader *reader, spn_hspan *text);
SPN_API SPN_NODISCARD
int spn_hreader_view(spn_hreader *reader, spn_hspan *text);

/* ---- structs --------------------------------------------------------------- */

typedef enum spn_hfield_type {
    SPN_HFIELD_BOOL = 0,   /* unsigned char, _Bool                                    */
    SPN_HFIELD_INT = 1,    /* int32_t                                                 */
    SPN_HFIELD_LONG = 2,   /* int64_t                                                 */
    SPN_HFIELD_DOUBLE = 3, /* double                                                  */
    SPN_HFIELD_DATE = 4,   /* int64_t, milliseconds                                   */
    SPN_HFIELD_TEXT = 5,   /* const char *; NULL is null; may hold no zero byte       */
    SPN_HFIELD_STRING = 6, /* spn_hspan                                               */
    SPN_HFIELD_BINARY = 7, /* spn_hspan                                               */
    SPN_HFIELD_VALUE = 8,  /* spn_hvalue *, of any kind; NULL is null                 */
    SPN_HFIELD_STRUCT = 9  /* pointer to a struct, described by `of`; NULL is null    */
} spn_hfield_type;

typedef struct spn_hstruct spn_hstruct;

typedef struct spn_hfield {
    const char *name; /* on the wire                            */
    size_t offset;    /* in the struct                          */
    uint32_t type;    /* spn_hfield_type                        */
    uint32_t reserved;
    const spn_hstruct *of; /* of SPN_HFIELD_STRUCT: what it is  */
} spn_hfield;

/* Fields go by their names, wherever they stand. */
struct spn_hstruct {
    const char *class_name; /* to write; reading takes any class, and maps too */
    const spn_hfield *fields;
    size_t field_count;  /* at most 4096                         */
    size_t struct_bytes; /* sizeof the struct                    */
};

/*
 * Fills in a struct from an object, or from a map with strings as keys.  Fields the table
 * does not name are passed over; those the object does not have, and numbers and booleans
 * that are null, stay as they are.  What fields point to is in `arena`: structs begin as
 * zeros, and what is one object is one struct, also when it goes in circles.
 *
 * Returns  SPN_OK; SPN_EINVAL: neither object nor map, a field of another kind (*problem
 *          names it; offset is that of the field in the struct), a table that is wrong, a
 *          NULL; SPN_ERANGE: a number that does not fit; SPN_ENOMEM.  After a failure some
 *          fields may have been filled in.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_hvalue_to_struct(const spn_hvalue *value, spn_harena *arena,
                         const spn_hstruct *type, void *to, spn_problem *problem);

/* ---- writing --------------------------------------------------------------- */

/* Zero means default.  Append only. */
typedef struct spn_hwriter_opts {
    size_t size;        /* sizeof(spn_hwriter_opts), set by _INIT                    */
    size_t limit_bytes; /* of the buffer; 0: 64 MiB, SIZE_MAX: none                  */
    uint32_t max_depth; /* of lists, maps and objects in each other; 0: 128          */
    uint32_t reserved;  /* 0                                                         */
} spn_hwriter_opts;

#define SPN_HWRITER_OPTS_INIT              \
    {                                      \
        sizeof(spn_hwriter_opts), 0, 0, 0, \
    }

/* A buffer with its tables, in the caller's own memory.  The fields are the writer's. */
typedef struct spn_hwriter {
    unsigned char *bytes;
    size_t length;
    size_t capacity;
    size_t limit_bytes;
    unsigned char *initial;
    void *tables; /* made when the message names a type or a class, or is a tree */
    uint32_t reference_count;
    uint32_t depth;
    uint32_t max_depth;
    int32_t status;
    uint32_t open[8];
    void *spare[2];
} spn_hwriter;

/*
 * init:   an empty writer.  `initial` is memory of the caller's to begin with, borrowed
 *         until fini; NULL if capacity is 0.
 * fini:   gives up the bytes and all else.  NULL is a no-op, and so is a second time.
 * reset:  keeps the first `keep` bytes, forgets what follows, all tables and a failure:
 *         what comes next is another message behind those bytes.  Memory is kept.
 *
 * Returns  SPN_OK; SPN_EINVAL: a NULL, options; reset: more than there are.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_hwriter_init(spn_hwriter *writer, void *initial, size_t capacity,
                     const spn_hwriter_opts *opts);
SPN_API void spn_hwriter_fini(spn_hwriter *writer);
SPN_API int spn_hwriter_reset(spn_hwriter *writer, size_t keep);

/*
 * bytes:   what was written, which the next call may move, and how much it is (length may
 *          be NULL); they may be changed.  NULL: nothing, or a NULL.
 * status:  SPN_OK, or what the first call that failed returned; SPN_ESTATE while a list,
 *          map or object is not complete; SPN_EINVAL for NULL.
 * Since    0.1
 */
SPN_API void *spn_hwriter_bytes(spn_hwriter *writer, size_t *length);
SPN_API int spn_hwriter_status(const spn_hwriter *writer);

/*
 * Appends a value.  The first failure stays: all later calls return it and write nothing,
 * so that one look at the end will do (spn_hwriter_status).
 *
 * raw:     bytes that are no value: a frame's header.
 * string:  UTF-8 (or what the reader gives); data NULL: null.
 * text:    the same of a C string.
 * binary:  data NULL: null.
 * value:   all of it; what occurs more than once is written once.  NULL: null.  Values and
 *          structs are known by their addresses: they must stay until the message is
 *          complete, that is until reset or fini.
 * struct:  as an object; `from` NULL: null.  What a field points to twice, or in circles, is
 *          written once.
 *
 * Returns  SPN_OK; SPN_EINVAL: not UTF-8, a wrong table, a NULL; SPN_ERANGE: the limit, or
 *          too deep; SPN_ESTATE: more values than the list or object has; SPN_ENOMEM.
 * Since    0.1
 */
SPN_API int spn_hwriter_raw(spn_hwriter *writer, const void *data, size_t length);
SPN_API int spn_hwriter_null(spn_hwriter *writer);
SPN_API int spn_hwriter_bool(spn_hwriter *writer, int flag);
SPN_API int spn_hwriter_int(spn_hwriter *writer, int32_t number);
SPN_API int spn_hwriter_long(spn_hwriter *writer, int64_t number);
SPN_API int spn_hwriter_double(spn_hwriter *writer, double number);
SPN_API int spn_hwriter_date(spn_hwriter *writer, int64_t ms);
SPN_API int spn_hwriter_text(spn_hwriter *writer, const char *text);
SPN_API int spn_hwriter_string(spn_hwriter *writer, const char *data, size_t length);
SPN_API int spn_hwriter_binary(spn_hwriter *writer, const void *data, size_t length);
SPN_API int spn_hwriter_value(spn_hwriter *writer, const spn_hvalue *value);
SPN_API int spn_hwriter_struct(spn_hwriter *writer, const spn_hstruct *type,
                               const void *from);

/*
 * Piece by piece: begin, the values, end.  A list has `count` values, an object one for
 * each field in the order of the names, a map keys and values by turns; end is SPN_ESTATE
 * when some are missing.  A type of NULL is none.  The names are copied.
 *
 * references:  how many lists, maps and objects were begun so far: the number that the
 *              next one gets; 0 for NULL.
 * reference:   the one with that number once more; SPN_EINVAL: there is none.
 *
 * Returns  as above.
 * Since    0.1
 */
SPN_API int spn_hwriter_begin_list(spn_hwriter *writer, const char *type, size_t count);
SPN_API int spn_hwriter_begin_map(spn_hwriter *writer, const char *type);
SPN_API int spn_hwriter_begin_object(spn_hwriter *writer, const char *class_name,
                                     const char *const *names, size_t count);
SPN_API int spn_hwriter_end(spn_hwriter *writer);
SPN_API size_t spn_hwriter_references(const spn_hwriter *writer);
SPN_API int spn_hwriter_reference(spn_hwriter *writer, size_t index);

#ifdef __cplusplus
}
#endif
#endif /* SPN_HESSIAN_H */
