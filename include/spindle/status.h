/* SPDX-License-Identifier: MIT */
#ifndef SPN_STATUS_H
#define SPN_STATUS_H

#include <spindle/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Status codes.
 *
 * Every call that can fail returns int: SPN_OK (0) or one of the negative
 * codes below.  The numbers are part of the ABI: they never change and are
 * never used again.  A call that fails has taken, counted and started nothing.
 *
 *   -1..-9    the call itself: arguments, memory, state
 *   -10..-19  how a wait ended
 *   -20..-29  what a queue or an executor answered
 *   -30..-39  what a connection or the program at its other end answered
 */
#define SPN_OK 0

#define SPN_STATUS_MAP(X)                             \
    X(INVAL, -1, "invalid argument")                  \
    X(NOMEM, -2, "out of memory")                     \
    X(STATE, -3, "not possible in the present state") \
    X(BUSY, -4, "still in use")                       \
    X(AGAIN, -5, "no thread could be created now")    \
    X(DEADLK, -6, "the caller would wait for itself") \
    X(NOTSUP, -7, "not supported on this system")     \
    X(PERM, -8, "permission denied")                  \
    X(RANGE, -9, "value would overflow")              \
    X(TIMEDOUT, -10, "deadline passed")               \
    X(CANCELED, -11, "task was cancelled")            \
    X(INTR, -12, "wait was interrupted")              \
    X(FAILED, -13, "task failed")                     \
    X(FULL, -20, "queue is at capacity")              \
    X(EMPTY, -21, "no such element")                  \
    X(REJECTED, -22, "executor refused the task")     \
    X(SHUTDOWN, -23, "no longer accepts work")        \
    X(CLOSED, -24, "queue is closed")                 \
    X(IO, -30, "connection failed or broke")          \
    X(ADDRINUSE, -31, "address is in use")            \
    X(UNREACHABLE, -32, "nobody answers there")       \
    X(PROTO, -33, "bytes that are not the protocol")  \
    X(TOOBIG, -34, "larger than the limit")           \
    X(REMOTE, -35, "the other side answered with an error")

#define SPN__STATUS_ENUM(name, number, text) SPN_E##name = number,
enum spn_status { SPN_STATUS_MAP(SPN__STATUS_ENUM) SPN__STATUS_NONE = 1 };
#undef SPN__STATUS_ENUM

/*
 * The code's name ("SPN_ETIMEDOUT") and a sentence fragment for people
 * ("deadline passed").  Any int may be asked: SPN_OK gives "SPN_OK" and
 * "success", an unknown number "SPN_EUNKNOWN" and "unknown status".
 *
 * Never blocks; the strings are static.
 * Since    0.1
 */
SPN_API const char *spn_status_name(int status);
SPN_API const char *spn_status_text(int status);

#ifdef __cplusplus
}
#endif
#endif /* SPN_STATUS_H */
