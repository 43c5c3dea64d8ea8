/* SPDX-License-Identifier: MIT */
/*
 * places.c - see places.h.  libmicrohttpd speaks HTTP; here are its thread, and the
 * connections it gets.
 *
 * OVERVIEW
 *   A connection has REQUEST_SECONDS from its beginning, or the end of its last answer, to
 *   send a whole request and to read the whole answer.  libmicrohttpd has a limit for
 *   silence only, which one byte now and then evades.
 *
 *   There are CONNECTIONS_MAX places.  When all are taken, accept_one closes the connection
 *   with the least time left.  A finished request gives its connection new time, so the
 *   one that is closed has been slow.  Trickling connections, however many, cannot keep
 *   out a client that sends its request at once.
 *
 * WITHOUT DESCRIPTORS
 *   The thread holds RESERVE descriptors that stand for nothing.  When accept finds none
 *   free, the thread closes one of these for the connection, and opens it again after the
 *   connection has ended: /healthz answers while every other descriptor is taken.  Another
 *   thread may take the descriptor in between; then accept_one closes the next one.
 *
 * THREADS
 *   All of it runs on the one thread, libmicrohttpd too (external polling); `wake` tells it
 *   to end.
 */
#include "places.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <spindle/clock.h>
#include <spindle/status.h>
#include <spindle/time.h>

enum {
    CONNECTIONS_MAX = 64,
    RESERVE = 8,
    REQUEST_SECONDS = 10,
    ACCEPTS_IN_A_ROW = 16,
    BACK_OFF_MS = 20 /* when there is no descriptor to be had */
};

struct place {
    int fd;           /* -1: free */
    int64_t until_ns; /* when its time is up */
    bool is_answered; /* a response has been queued: now, or for an earlier request */
    bool is_shut;     /* libmicrohttpd is about to close it */
};

struct places {
    struct MHD_Daemon *daemon;
    int listener, wake, epoll;
    pthread_t thread;
    struct place list[CONNECTIONS_MAX];
    int taken;
    int reserve[RESERVE];
    int reserve_count;
};

static int64_t time_limit(void)
{
    return spn_now() + SPN_SEC(REQUEST_SECONDS);
}

/* ---- told by libmicrohttpd ----------------------------------------------------------- */

static struct place *place_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info != NULL ? info->socket_context : NULL;
}

static struct place *place_free(struct places *places)
{
    for (int i = 0; i < CONNECTIONS_MAX; i++)
        if (places->list[i].fd < 0)
            return &places->list[i];
    return NULL;
}

static void on_connection(void *context, struct MHD_Connection *connection,
                          void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct places *places = context;
    struct place *place = *socket_context;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

        place = place_free(places); /* there is one: see accept_one */
        *socket_context = place;
        if (place == NULL || info == NULL)
            return;
        *place = (struct place){ .fd = info->connect_fd, .until_ns = time_limit() };
        places->taken++;
    } else if (place != NULL) {
        place->fd = -1;
        places->taken--;
    }
}

static void on_completed(void *context, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code)
{
    struct place *place = place_of(connection);

    (void)context;
    (void)state;
    if (place != NULL && code == MHD_REQUEST_TERMINATED_COMPLETED_OK)
        place->until_ns = time_limit();
}

void places_answered(struct MHD_Connection *connection)
{
    struct place *place = place_of(connection);

    if (place != NULL)
        place->is_answered = true;
}

/* ---- ending connections ---------------------------------------------------------------- */

/* libmicrohttpd sees the end of the stream, and closes it. */
static void place_shut(struct place *place)
{
    static const char too_long[] = "HTTP/1.1 408 Request Timeout\r\n"
                                   "Content-Type: text/plain\r\n"
                                   "Connection: close\r\n\r\n"
                                   "The request was not complete in time.\n";

    if (!place->is_answered)
        (void)send(place->fd, too_long, sizeof(too_long) - 1,
                   MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)shutdown(place->fd, SHUT_RDWR);
    place->is_shut = true;
}

/* The connection with the least time left; NULL: there is none but those that end. */
static struct place *place_oldest(struct places *places)
{
    struct place *oldest = NULL;

    for (int i = 0; i < CONNECTIONS_MAX; i++) {
        struct place *place = &places->list[i];

        if (place->fd >= 0 && !place->is_shut &&
            (oldest == NULL || place->until_ns < oldest->until_ns))
            oldest = place;
    }
    return oldest;
}

static void places_expire(struct places *places)
{
    const int64_t now = spn_now();
    struct place *place;

    while ((place = place_oldest(places)) != NULL && place->until_ns <= now)
        place_shut(place);
}

/* Ends the oldest connection now; false: there is none. */
static bool place_vacate(struct places *places)
{
    const int before = places->taken;
    struct place *const place = place_oldest(places);

    if (place != NULL)
        place_shut(place);
    (void)MHD_run(places->daemon); /* reads the end, and closes it */
    return places->taken < before;
}

/* ---- descriptors ------------------------------------------------------------------------ */

static void reserve_fill(struct places *places)
{
    while (places->reserve_count < RESERVE) {
        const int fd = fcntl(places->wake, F_DUPFD_CLOEXEC, 0);

        if (fd < 0)
            return;
        places->reserve[places->reserve_count++] = fd;
    }
}

static bool reserve_give(struct places *places)
{
    if (places->reserve_count == 0)
        return false;
    (void)close(places->reserve[--places->reserve_count]);
    return true;
}

/* ---- the thread ------------------------------------------------------------------------- */

/* SPN_EAGAIN: nobody waits; SPN_EFULL: there is no place or descriptor yet. */
static int accept_one(struct places *places)
{
    struct sockaddr_storage from;
    socklen_t size = sizeof(from);
    int fd;

    if (places->taken == CONNECTIONS_MAX && !place_vacate(places))
        return SPN_EFULL;
    do {
        fd = accept4(places->listener, (struct sockaddr *)&from, &size,
                     SOCK_NONBLOCK | SOCK_CLOEXEC);
    } while (fd < 0 && (errno == EINTR || errno == ECONNABORTED ||
                        ((errno == EMFILE || errno == ENFILE) &&
                         (reserve_give(places) || place_vacate(places)))));
    if (fd < 0)
        return errno == EAGAIN ? SPN_EAGAIN : SPN_EFULL;
    /* On failure it has closed fd. */
    (void)MHD_add_connection(places->daemon, fd, (struct sockaddr *)&from, size);
    return SPN_OK;
}

/* How long poll may wait, in ms. */
static int wait_ms(struct places *places, bool backs_off)
{
    const struct place *const oldest = place_oldest(places);
    MHD_UNSIGNED_LONG_LONG pending;
    int64_t ms = oldest != NULL ? (oldest->until_ns - spn_now()) / SPN_MS(1) + 1 : -1;

    if (backs_off && (ms < 0 || ms > BACK_OFF_MS))
        ms = BACK_OFF_MS;
    if (MHD_get_timeout(places->daemon, &pending) == MHD_YES &&
        (ms < 0 || (int64_t)pending < ms))
        ms = (int64_t)pending;
    if (oldest != NULL && ms < 0)
        ms = 0;
    return (int)ms;
}

static void *places_attend(void *argument)
{
    struct places *places = argument;
    bool backs_off = false;

    (void)pthread_setname_np(pthread_self(), "status");
    for (;;) {
        struct pollfd ready[] = {
            { .fd = places->wake, .events = POLLIN },
            { .fd = places->epoll, .events = POLLIN },
            { .fd = backs_off ? -1 : places->listener, .events = POLLIN },
        };

        (void)poll(ready, 3, wait_ms(places, backs_off)); /* on failure none is ready */
        if (ready[0].revents != 0)
            return NULL;
        if (backs_off || ready[2].revents != 0) {
            int rc = SPN_OK;

            for (int i = 0; i < ACCEPTS_IN_A_ROW && rc == SPN_OK; i++)
                rc = accept_one(places);
            backs_off = rc == SPN_EFULL;
        }
        (void)MHD_run(places->daemon);
        places_expire(places);
        reserve_fill(places);
    }
}

/* ---- beginning and end ------------------------------------------------------------------ */

static void places_free(struct places *places)
{
    if (places->daemon != NULL)
        MHD_stop_daemon(places->daemon);
    while (reserve_give(places)) {
    }
    if (places->wake >= 0)
        (void)close(places->wake);
    free(places);
}

struct places *places_start(int listener, MHD_AccessHandlerCallback answer,
                            void *context)
{
    struct places *places = calloc(1, sizeof(*places));
    const union MHD_DaemonInfo *info;

    if (places == NULL)
        return NULL;
    for (int i = 0; i < CONNECTIONS_MAX; i++)
        places->list[i].fd = -1;
    places->listener = listener;
    places->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (places->wake < 0)
        goto failed;
    places->daemon =
        MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET, 0, NULL, NULL,
                         answer, context, MHD_OPTION_CONNECTION_LIMIT,
                         (unsigned)CONNECTIONS_MAX, MHD_OPTION_NOTIFY_CONNECTION,
                         on_connection, places, MHD_OPTION_NOTIFY_COMPLETED,
                         on_completed, places, MHD_OPTION_END);
    info = places->daemon != NULL
               ? MHD_get_daemon_info(places->daemon, MHD_DAEMON_INFO_EPOLL_FD)
               : NULL;
    if (info == NULL)
        goto failed;
    places->epoll = info->epoll_fd;
    reserve_fill(places);
    if (pthread_create(&places->thread, NULL, places_attend, places) == 0)
        return places;
failed:
    places_free(places);
    return NULL;
}

void places_stop(struct places *places)
{
    const uint64_t one = 1;

    if (write(places->wake, &one, sizeof(one)) == (ssize_t)sizeof(one))
        (void)pthread_join(places->thread, NULL);
    places_free(places);
}
