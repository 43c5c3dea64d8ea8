/* SPDX-License-Identifier: MIT */
#ifndef SPN_URL_H
#define SPN_URL_H

#include <spindle/problem.h>
#include <spindle/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Configuration in one line, as Dubbo has it:
 *
 *     dubbo://user:password@10.0.0.1:20880/demo.Service?threads=200&sayHello.timeout=500
 *
 * Every part may be missing, the protocol too.
 *
 * Ownership   reference counted; a URL never changes, so that it may be kept, passed on
 *             and read by any number of threads.  What changes one gives another.
 *             Strings that a URL gives out live as long as it does.
 * Threads     every call is safe from any thread.  None blocks.
 * What it is not: a general reader of URIs.  Parameters are Dubbo's: `&` and `;` part
 *             them, values are not percent-decoded, `default.x` stands in for x.
 */
typedef struct spn_url spn_url;

#define SPN_URL_TEXT_MAX       65536 /* bytes of a URL, read or printed in full */
#define SPN_URL_PARAMETERS_MAX 1024

/*
 * parse:          reads a URL; *out gets a reference, NULL on failure.
 * parse_encoded:  the same after percent-decoding the whole once, `+` as a blank: what
 *                 SPN_URL_ENCODED prints, and what registries hold.
 *
 * Returns  SPN_OK; SPN_EINVAL, and what is wrong where in *problem (may be NULL);
 *          SPN_ERANGE: too long, or too many parameters; SPN_ENOMEM.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_url_parse(spn_url **out, const char *text, spn_problem *problem);
SPN_API SPN_NODISCARD
int spn_url_parse_encoded(spn_url **out, const char *text, spn_problem *problem);

/* A parameter. */
typedef struct spn_url_parameter {
    const char *key;
    const char *value;
} spn_url_parameter;

/* Parts to make a URL of.  NULL and SPN_DEFAULT: as in `base`, or none; "" and 0: none.
 * All is copied.  Append only. */
typedef struct spn_url_parts {
    size_t size;         /* sizeof(spn_url_parts), set by _INIT                      */
    const spn_url *base; /* what is not said here is taken from there; NULL: nothing */
    const char *protocol;
    const char *user;
    const char *password;
    const char *host;
    const char *path;
    int32_t port;
    uint32_t reserved; /* 0                                          */
    const spn_url_parameter *parameters; /* set one after the other; a value of NULL
                                            removes.  May be NULL if parameter_count is 0 */
    size_t parameter_count;
} spn_url_parts;

#define SPN_URL_PARTS_INIT                                                         \
    {                                                                              \
        sizeof(spn_url_parts), NULL, NULL, NULL, NULL, NULL, NULL, SPN_DEFAULT, 0, \
            NULL, 0                                                                \
    }

/*
 * create:      makes a URL of parts; one that could not be read again from its full form
 *              is refused.
 * set:         a copy with that parameter; value NULL: without it.  The same URL, with
 *              one more reference, if that changes nothing.  Key and value may hold what
 *              a URL that is read may: no control characters, no `&` and `;`, in keys no
 *              `=`.
 * set_absent:  the same, if it has no such parameter or an empty one.
 *
 * Returns  SPN_OK; SPN_EINVAL; SPN_ERANGE; SPN_ENOMEM.  On failure *out is NULL.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_url_create(spn_url **out, const spn_url_parts *parts, spn_problem *problem);
SPN_API SPN_NODISCARD
int spn_url_set(const spn_url *url, const char *key, const char *value, spn_url **out);
SPN_API SPN_NODISCARD
int spn_url_set_absent(const spn_url *url, const char *key, const char *value,
                       spn_url **out);

/* Adds a reference and returns its argument; drops one.  NULL is a no-op.  Since 0.1 */
SPN_API spn_url *spn_url_ref(const spn_url *url);
SPN_API void spn_url_unref(const spn_url *url);

/* The parts: NULL if missing, and for NULL; the port: 0.  Since 0.1 */
SPN_API const char *spn_url_protocol(const spn_url *url);
SPN_API const char *spn_url_user(const spn_url *url);
SPN_API const char *spn_url_password(const spn_url *url);
SPN_API const char *spn_url_host(const spn_url *url);
SPN_API int32_t spn_url_port(const spn_url *url);
SPN_API const char *spn_url_path(const spn_url *url);

/* Whether it is for any host: 0.0.0.0, or `anyhost=true`.  1 or 0.  Since 0.1 */
SPN_API int spn_url_is_any_host(const spn_url *url);

/*
 * get:         a parameter's value, which may be ""; NULL: there is none.  For a method that
 *              is `method.key`, else `key`; `method` may be NULL in all of these.  Where
 *              `methods` is given and nowhere contains the method's name, it has none of
 *              its own.
 * get_own:     only `method.key`.
 * get_string:  as get, but `otherwise` if there is none or it is empty.
 * get_bool:    1 for "true" in upper or lower case, 0 for another text; `otherwise` (as 1
 *              or 0) if there is none or it is empty.
 * NULL for a URL or a key counts as no parameter.
 * Since    0.1
 */
SPN_API const char *spn_url_get(const spn_url *url, const char *method,
                                const char *key);
SPN_API const char *spn_url_get_own(const spn_url *url, const char *method,
                                    const char *key);
SPN_API const char *spn_url_get_string(const spn_url *url, const char *method,
                                       const char *key, const char *otherwise);
SPN_API int spn_url_get_bool(const spn_url *url, const char *method, const char *key,
                             int otherwise);

/*
 * Numbers: *value becomes the parameter's, or `otherwise` if there is none or it is
 * empty.  positive: `otherwise`, which must be positive, also for 0 and less.
 *
 * Returns  SPN_OK; SPN_EINVAL: no decimal number, or a NULL; SPN_ERANGE: too large.
 *          On error *value is as it was: a mistake is never taken for the default.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_url_get_int(const spn_url *url, const char *method, const char *key,
                    int32_t otherwise, int32_t *value);
SPN_API SPN_NODISCARD
int spn_url_get_long(const spn_url *url, const char *method, const char *key,
                     int64_t otherwise, int64_t *value);
SPN_API SPN_NODISCARD
int spn_url_get_positive(const spn_url *url, const char *method, const char *key,
                         int32_t otherwise, int32_t *value);

/*
 * The parameter at an index, sorted by key.
 * Returns  SPN_OK; SPN_EEMPTY: there are not so many; SPN_EINVAL (a NULL).
 * Since    0.1
 */
SPN_API int spn_url_at(const spn_url *url, size_t index, spn_url_parameter *parameter);

/*
 * The URL and its backups (`backup=host:port,host`): index 0 is the URL itself, the
 * others have host and port replaced; one without a port keeps the URL's.
 * Returns  SPN_OK; SPN_EEMPTY: there are not so many; SPN_EINVAL (a NULL, or an address
 *          that is none); SPN_ENOMEM.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_url_backup(const spn_url *url, size_t index, spn_url **out);

typedef enum spn_url_form {
    SPN_URL_STRING = 0,      /* without user and password: for logs               */
    SPN_URL_FULL = 1,        /* all of it: parse gives an equal URL               */
    SPN_URL_ENCODED = 2,     /* the full form percent-encoded: for parse_encoded  */
    SPN_URL_IDENTITY = 3,    /* protocol, host, port and path                     */
    SPN_URL_ADDRESS = 4,     /* host:port                                         */
    SPN_URL_SERVICE_KEY = 5, /* [group/]interface[:version]; the path if there is no
                                interface; nothing if there is neither            */
    SPN_URL_COLON_KEY = 6    /* interface:version:group                           */
} spn_url_form;

/*
 * Writes a form into the buffer, as much as fits in capacity - 1 bytes, and a zero byte;
 * the buffer may be NULL if capacity is 0.
 *
 * Returns  how many bytes the whole has, without the zero byte; SPN_EINVAL: a NULL, a
 *          form there is not.
 * Since    0.1
 */
SPN_API int64_t spn_url_print(const spn_url *url, spn_url_form form, char *buffer,
                              size_t capacity);

/* ---- many URLs in a file --------------------------------------------------------------- */

#define SPN_URL_FILE_BYTES_MAX    1048576
#define SPN_URL_FILE_SECTIONS_MAX 256

/* Told of one section: its name, "dubbo" or "dubbo public", and its URL, both borrowed during
 * the call.  Any other value than SPN_OK ends the reading. */
typedef int (*spn_url_file_fn)(void *ctx, const char *section, const spn_url *url);

/*
 * Reads a file in which each section is a URL, and calls fn for each, in the order of the
 * file, once all of the file was found right:
 *
 *     # comment
 *     [dubbo]             ; [protocol], or [protocol label] where there are two of a kind
 *     host = 127.0.0.1
 *     port = 20880
 *     threads = 200
 *
 * host, port, path, user and password are parts of the URL, every other key is a parameter.
 * A key must be one that the library reads, or have a + before it (`+clock.zone = UTC`): then
 * an extension or the program reads it.  `#` and `;` begin a comment at the beginning of a
 * line and after a blank.  Values are taken as they are, without quotes and escapes.
 *
 * Blocks as reading a file does.
 * Returns  SPN_OK; SPN_EINVAL: a NULL, a directory, or a line is wrong: *problem (may be NULL)
 *          has file and line, what was expected, and the place in the file as its offset;
 *          SPN_EEMPTY: no such file, or no section in it; SPN_EPERM: it may not be read;
 *          SPN_ETOOBIG: more than SPN_URL_FILE_BYTES_MAX; SPN_ERANGE: too many sections,
 *          keys, or too long a URL; SPN_EIO: reading failed; SPN_ENOMEM; what fn returned.
 *          On failure, but for what fn returned, fn was not called.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_url_file_read(const char *path, spn_url_file_fn fn, void *ctx,
                      spn_problem *problem);

/* Whether all parts and parameters are the same: 1 or 0; two NULLs are equal.  A number
 * that is the same for equal URLs, 0 for NULL.  Since 0.1 */
SPN_API int spn_url_equals(const spn_url *a, const spn_url *b);
SPN_API uint64_t spn_url_hash(const spn_url *url);

#ifdef __cplusplus
}
#endif
#endif /* SPN_URL_H */
