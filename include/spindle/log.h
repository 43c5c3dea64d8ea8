/* SPDX-License-Identifier: MIT */
#ifndef SPN_LOG_H
#define SPN_LOG_H

#include <spindle/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What the library has to say.  It speaks rarely: a message at WARN or above
 * is something an operator can act on, and a message that could repeat is
 * limited to one per interval, with the number of those it swallowed.
 *
 * By default messages at WARN and above go to standard error, one line each,
 * written in one piece: "spindle: warn: ...".  A message is at most 479 bytes
 * long, what is cut ends in "...", and control characters become '?'.
 */
typedef enum spn_log_level {
    SPN_LOG_OFF = 0,   /* nothing at all                                  */
    SPN_LOG_ERROR = 1, /* the library cannot do what it was asked to do   */
    SPN_LOG_WARN = 2,  /* it did, but somebody should look                */
    SPN_LOG_INFO = 3,  /* a change of state worth a line                  */
    SPN_LOG_DEBUG = 4  /* for those who debug the library                 */
} spn_log_level;

/*
 * Receives one message, without a newline.  Called on the thread that had
 * something to say, with no lock of the library held; several calls may run at
 * once.  `message` is borrowed for the call.
 */
typedef void (*spn_log_fn)(void *ctx, spn_log_level level, const char *message);

/*
 * Sends messages to fn(ctx, ...) instead of standard error, for the rest of
 * the process.  Never blocks.
 *
 * Returns  SPN_OK; SPN_EINVAL if fn is NULL; SPN_ESTATE when a hook was set
 *          already or a message has been written.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_log_set_hook(spn_log_fn fn, void *ctx);

/*
 * Lets through messages up to `level`; may be changed at any time, from any
 * thread.  The default is SPN_LOG_WARN.
 *
 * Returns  SPN_OK, or SPN_EINVAL for a number that is no level.
 * Since    0.1
 */
SPN_API int spn_log_set_level(int level);

/* "error", "warn", "info", "debug", "off"; "unknown" for any other number.
 * Since 0.1 */
SPN_API const char *spn_log_level_name(int level);

#ifdef __cplusplus
}
#endif
#endif /* SPN_LOG_H */
