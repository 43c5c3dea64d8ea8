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
 * Hessian 2, as Dubbo speaks it: the values that calls and replies carry.  Servers and
 * clients turn them into bytes and back.
 *
 *     spn_harena   the memory of one message; freed in one call
 *     spn_hvalue   a value in it: null, bool, int, ..., list, map, object
 *     spn_hstruct  a table that says which field of a C struct is which of an object
 *
 * Threads     an arena with its values: one thread at a time.  Values that nobody changes
 *             any more may be read by many.  None of the calls blocks.
 * Strings     are UTF-8 outside, of an explicit length, and may hold zero bytes; those
 *             of an arena are followed by one more, so that they serve as C strings.  On
 *             the wire they are CESU-8, and UTF-8 is read as well.  Half a surrogate pair,
 *             which Java allows, is kept as the three bytes it has there.
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
 * status:  SPN_OK; or why something could not be had since the last reset: SPN_ENOMEM,
 *          SPN_ERANGE (the limit); SPN_EINVAL for NULL.
 * Since    0.1
 */
SPN_API void *spn_harena_alloc(spn_harena *arena, size_t bytes);
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

/*
 * Makes a value.  Strings and bytes are copied; a string must be UTF-8 (or what a message
 * gave).  list, map, object: empty; a type of NULL is none, and a class name there must
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

#ifdef __cplusplus
}
#endif
#endif /* SPN_HESSIAN_H */
