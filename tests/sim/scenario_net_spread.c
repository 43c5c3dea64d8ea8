/* SPDX-License-Identifier: MIT */
/*
 * scenario_net_spread.c - a connection of the transport on libuv is handed over from loop
 * to loop (uv_spread.c) while others send, post, close, and while loops end.
 *
 * The sources of the connection, its outgoing stream and the handing over are included;
 * of libuv and of the loop (uv_loop.c) there is what they need: an inbox that refuses when
 * it was shut, polling, and handles that are given back at the end of a turn.
 */
#include "sim.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

static ssize_t socket_take(int fd, const struct msghdr *message, int flags);
static ssize_t socket_give(int fd, void *to, size_t room, int flags);
static int fake_close(int fd);
static int fake_shutdown(int fd, int how);
static int poll_init(uv_loop_t *loop, uv_poll_t *handle, int fd);
static int poll_start(uv_poll_t *handle, int events, uv_poll_cb callback);
static int poll_stop(uv_poll_t *handle);
static void handle_close(uv_handle_t *handle, uv_close_cb callback);
static int timer_init(uv_loop_t *loop, uv_timer_t *timer);
static int timer_start(uv_timer_t *timer, uv_timer_cb callback, uint64_t ms,
                       uint64_t again);
static int timer_stop(uv_timer_t *timer);
static void update_time(uv_loop_t *loop);

/* A thread's own: in the explorer all threads are one to the C library. */
static int errno_of[8];
#undef errno
#define errno errno_of[sim_self()]

/* What the included files call. */
#define sendmsg             socket_take
#define recv                socket_give
#define close               fake_close
#define shutdown            fake_shutdown
#define uv_poll_init_socket poll_init
#define uv_poll_start       poll_start
#define uv_poll_stop        poll_stop
#define uv_close            handle_close
#define uv_timer_init       timer_init
#define uv_timer_start      timer_start
#define uv_timer_stop       timer_stop
#define uv_update_time      update_time

/* NOLINTBEGIN: their statics too */
#include "../../src/net/uv_conn.c"
#include "../../src/net/uv_spread.c"
#include "../../src/net/uv_write.c"
/* NOLINTEND */

#undef close

#include "sync/parker.h"

enum { THE_FD = 5, IN_BYTES = 3, JOBS = 2 };

/* The transport ends with its loops. */
static _Alignas(max_align_t) unsigned char net_room[sizeof(struct spn__transport) +
                                                    2 * sizeof(struct spn__loop)];
static struct spn__transport *const transport =
    (struct spn__transport *)(void *)net_room;

/* Of each loop, beside what the sources have. */
static struct {
    struct spn__parker parker;
    uv_handle_t *closing; /* one at most: its connection has one handle */
    uv_close_cb closed;
    uv_poll_t *polled;
    uv_poll_cb callback;
    int events;
} side[2];

static struct spn__conn *conn;
static struct spn__net_job jobs[JOBS];
static int refusals, jobs_run, in_used, in_taken, fd_closes;
static char sink[16];
static size_t sink_size;
static bool inside;
static SPN__ATOMIC(int) done, writer, ends;

static int ended(void)
{
    return spn__load(&ends, relaxed); /* a number */
}

static struct spn__loop *loop_at(int i)
{
    return &transport->loops[i];
}

/* The number of the calling thread's loop, or -1: the loops' threads are the first two
 * after the body, which is 0. */
static int mine(void)
{
    const int self = sim_self();

    return self == 1 || self == 2 ? self - 1 : -1;
}

/* ---- libuv and the socket ------------------------------------------------------------ */

static ssize_t socket_take(int fd, const struct msghdr *message, int flags)
{
    size_t taken = 0;
    bool full;

    (void)flags;
    sim_assert(spn__exchange(&writer, 1, relaxed) == 0);
    sim_assert(fd == THE_FD && fd_closes == 0);
    full = refusals < 2 && sim_choose(3) == 0;
    refusals += full;
    for (size_t i = 0; i < message->msg_iovlen && !full; i++) {
        const struct iovec *const one = &message->msg_iov[i];

        sim_assert(sink_size + one->iov_len <= sizeof sink);
        memcpy(sink + sink_size, one->iov_base, one->iov_len);
        sink_size += one->iov_len;
        taken += one->iov_len;
    }
    (void)spn__exchange(&writer, 0, relaxed);
    errno = EAGAIN;
    return taken != 0 ? (ssize_t)taken : -1;
}

static ssize_t socket_give(int fd, void *to, size_t room, int flags)
{
    (void)flags;
    sim_assert(fd == THE_FD && room != 0);
    errno = EAGAIN;
    if (in_taken == IN_BYTES)
        return -1;
    *(char *)to = (char)('a' + in_taken++);
    return 1;
}

static int fake_close(int fd)
{
    sim_assert(fd == THE_FD && spn__load(&writer, relaxed) == 0);
    fd_closes++;
    return 0;
}

static int fake_shutdown(int fd, int how)
{
    (void)fd;
    (void)how;
    return 0;
}

static int poll_init(uv_loop_t *loop, uv_poll_t *handle, int fd)
{
    const int i = mine();

    sim_assert(i >= 0 && loop == &loop_at(i)->uv && fd == THE_FD);
    sim_assert(side[i].polled == NULL && side[1 - i].polled == NULL);
    side[i].polled = handle;
    side[i].events = 0;
    handle->loop = loop;
    return 0;
}

static int poll_start(uv_poll_t *handle, int events, uv_poll_cb callback)
{
    sim_assert(side[mine()].polled == handle);
    side[mine()].events = events;
    side[mine()].callback = callback;
    return 0;
}

static int poll_stop(uv_poll_t *handle)
{
    return poll_start(handle, 0, NULL);
}

static void handle_close(uv_handle_t *handle, uv_close_cb callback)
{
    const int i = mine();

    sim_assert(side[i].polled == (uv_poll_t *)handle && side[i].closing == NULL);
    side[i].polled = NULL;
    side[i].closing = handle;
    side[i].closed = callback;
}

static int timer_init(uv_loop_t *loop, uv_timer_t *timer)
{
    (void)loop;
    (void)timer;
    sim_assert(false); /* nobody ends or connects here */
    return 0;
}

static int timer_start(uv_timer_t *timer, uv_timer_cb callback, uint64_t ms,
                       uint64_t again)
{
    (void)timer;
    (void)callback;
    (void)ms;
    (void)again;
    return 0;
}

static int timer_stop(uv_timer_t *timer)
{
    (void)timer;
    return 0;
}

static void update_time(uv_loop_t *loop)
{
    (void)loop;
}

int spn__net_status(int error)
{
    (void)error;
    return SPN_EIO;
}

void spn__net_name_ends(struct spn__conn *c)
{
    (void)c;
}

/* ---- the loops ------------------------------------------------------------------------- */

bool spn__loop_is_mine(const struct spn__loop *loop)
{
    return mine() >= 0 && loop == loop_at(mine());
}

int64_t spn__loop_now(struct spn__loop *loop)
{
    (void)loop;
    return 0;
}

bool spn__loop_post(struct spn__loop *loop, struct spn__net_job *job)
{
    bool open;

    spn__lock(&loop->lock);
    open = loop->open;
    if (open) {
        job->next = NULL;
        *loop->jobs_end = job;
        loop->jobs_end = &job->next;
    }
    spn__unlock(&loop->lock);
    if (open)
        spn__parker_unpark(&side[loop - transport->loops].parker);
    return open;
}

void spn__loop_ask(struct spn__loop *loop, struct spn__conn *c)
{
    spn__lock(&loop->lock);
    if (loop->open) {
        spn__conn_ref(c);
        sim_assert(loop->asked == NULL); /* listed once */
        c->next_asked = NULL;
        loop->asked = c;
    }
    spn__unlock(&loop->lock);
    spn__parker_unpark(&side[loop - transport->loops].parker);
}

static bool empty_inbox(struct spn__loop *loop)
{
    struct spn__net_job *job;
    struct spn__conn *asked;

    spn__lock(&loop->lock);
    job = loop->jobs;
    asked = loop->asked;
    loop->jobs = NULL;
    loop->jobs_end = &loop->jobs;
    loop->asked = NULL;
    /* As close_handles: it ends with nothing alive and an empty inbox. */
    if (loop->stopping && loop->live == 0 && job == NULL && asked == NULL)
        loop->open = false;
    spn__unlock(&loop->lock);
    if (job == NULL && asked == NULL)
        return false;
    while (job != NULL) {
        struct spn__net_job *const next_job = job->next;

        job->fn(job);
        job = next_job;
    }
    if (asked != NULL) {
        sim_assert(spn__conn_loop(asked) == loop);
        spn__conn_unlist(asked);
        spn__conn_attend(asked);
        if (loop->give != 0)
            spn__spread_give(asked);
        spn__conn_unref(asked);
    }
    return true;
}

/* A turn without sleep; false: there was nothing to do. */
static bool turn(int i)
{
    struct spn__loop *const loop = loop_at(i);
    bool any = empty_inbox(loop);
    int events = 0;

    if (side[i].polled != NULL) {
        events = side[i].events & UV_WRITABLE;
        if (side[i].events & UV_READABLE && in_taken < IN_BYTES)
            events |= UV_READABLE;
    }
    if (events != 0) {
        side[i].callback(side[i].polled, 0, events);
        any = true;
    }
    if (side[i].closing != NULL) {
        uv_handle_t *const handle = side[i].closing;

        side[i].closing = NULL;
        side[i].closed(handle);
        any = true;
    }
    return any;
}

static void run_loop(void *arg)
{
    const int i = *(const int *)arg;

    while (spn__load(&done, acquire) == 0)
        if (!turn(i))
            (void)spn__parker_park(&side[i].parker, SPN_FOREVER);
}

/* ---- the layer above --------------------------------------------------------------------- */

static void enter(void)
{
    sim_assert(spn__conn_on_loop(conn) && !inside && ended() == 0);
    inside = true;
}

static int opened(void *context, struct spn__conn *c)
{
    (void)context;
    (void)c;
    return 0;
}

static int64_t bytes(void *context, struct spn__conn *c, const unsigned char *data,
                     size_t size)
{
    (void)context;
    (void)c;
    enter();
    for (size_t i = 0; i < size; i++)
        sim_assert(data[i] == 'a' + in_used + (int)i);
    in_used += (int)size;
    inside = false;
    return (int64_t)size;
}

static void closed(void *context, struct spn__conn *c, int why)
{
    (void)context;
    (void)c;
    (void)why;
    enter();
    inside = false;
    spn__fetch_add(&ends, 1, relaxed); /* a number */
}

static const struct spn__conn_events events_of = { .opened = opened,
                                                   .bytes = bytes,
                                                   .closed = closed };

/* ---- the scenarios ----------------------------------------------------------------------- */

static void begin_conn(struct spn__net_job *job)
{
    (void)job;
    spn__conn_enlist(conn);
    spn__conn_established(conn);
}

static void begin(void)
{
    static const int numbers[2] = { 0, 1 };

    memset(net_room, 0, sizeof net_room);
    memset(side, 0, sizeof side);
    memset(jobs, 0, sizeof jobs);
    transport->opts.max_unwritten = 1000;
    transport->loop_count = 2;
    spn__init(&transport->used, 2u);
    for (int i = 0; i < 2; i++) {
        struct spn__loop *const loop = loop_at(i);

        loop->transport = transport;
        loop->uv.data = loop;
        spn__lock_init(&loop->lock);
        loop->jobs_end = &loop->jobs;
        loop->open = true;
        spn__list_init(&loop->conns);
        loop->in = malloc(SPN__LOOP_IN);
        loop->until_look = 1;
        /* Each hands over what is ready for the first time. */
        loop->give = 1;
        loop->give_to = loop_at(1 - i);
        spn__parker_init(&side[i].parker);
    }
    refusals = jobs_run = in_used = in_taken = fd_closes = 0;
    sink_size = 0;
    inside = false;
    spn__init(&ends, 0);
    spn__init(&done, 0);
    spn__init(&writer, 0);
    conn = spn__conn_create(transport, loop_at(0), &events_of, NULL, NULL);
    sim_assert(conn != NULL);
    conn->fd = THE_FD;
    conn->accepted = true;
    conn->begin.fn = begin_conn;
    spn__conn_ref(conn); /* ours */
    sim_assert(spn__loop_post(loop_at(0), &conn->begin));
    for (int i = 0; i < 2; i++)
        sim_assert(sim_thread(run_loop, (void *)(uintptr_t)&numbers[i]) == i + 1);
}

static void end(void)
{
    spn__conn_close(conn, SPN_ECLOSED);
    sim_settle();
    sim_assert(ended() == 1 && fd_closes == 1);
    sim_assert(loop_at(0)->live == 0 && loop_at(1)->live == 0);
    sim_assert(loop_at(0)->asked == NULL && loop_at(1)->asked == NULL);
    sim_assert(spn__load(&loop_at(0)->share, relaxed) +
                   spn__load(&loop_at(1)->share, relaxed) ==
               -1); /* the acceptor is not here to add */
    spn__store(&done, 1, release);
    for (int i = 0; i < 2; i++)
        spn__parker_unpark(&side[i].parker);
    sim_join_all();
    spn__conn_unref(conn);
    for (int i = 0; i < 2; i++)
        free(loop_at(i)->in);
}

static uint64_t moves(void)
{
    return spn__load(&loop_at(0)->moved, relaxed) +
           spn__load(&loop_at(1)->moved, relaxed);
}

static int send_text(const char *text, unsigned flags)
{
    const struct spn__piece piece = { text, 1 };

    return spn__conn_send(conn, &piece, 1, flags, NULL);
}

static void send_two(void *arg)
{
    const char *const text = arg;
    const unsigned flags = text[0] == 'S' ? SPN__SEND_SOON : 0;
    int rc;

    while (!spn__conn_is_open(conn) && ended() == 0)
        spn__os_yield();
    rc = send_text("1", flags);
    sim_assert(rc == SPN_OK || rc == SPN_ECLOSED);
    rc = send_text("2", flags);
    sim_assert(rc == SPN_OK || rc == SPN_ECLOSED);
}

static void close_it(void *arg)
{
    (void)arg;
    spn__conn_close(conn, SPN_EFAILED);
}

static void run_job(struct spn__net_job *job)
{
    sim_assert(spn__conn_on_loop(conn));
    sim_assert(job == &jobs[jobs_run]);
    jobs_run++;
}

static void post_jobs(void *arg)
{
    (void)arg;
    for (int i = 0; i < JOBS; i++) {
        jobs[i].fn = run_job;
        sim_assert(spn__conn_post(conn, &jobs[i]) == SPN_OK);
    }
}

static void pause_and_resume(void *arg)
{
    (void)arg;
    spn__conn_pause(conn);
    spn__conn_resume(conn);
}

static void begin_stop(struct spn__net_job *job)
{
    struct spn__loop *const loop =
        (struct spn__loop *)((char *)job - offsetof(struct spn__loop, stop));
    struct spn__list_node *node;

    loop->stopping = true;
    spn__list_each (node, &loop->conns)
        spn__conn_close(spn__list_entry(node, struct spn__conn, link), SPN_ECLOSED);
}

static void stop_loops(void *arg)
{
    const int first = *(const char *)arg - '0';

    for (int i = 0; i < 2; i++) {
        struct spn__loop *const loop = loop_at(i == 0 ? first : 1 - first);

        loop->stop.fn = begin_stop;
        sim_assert(spn__loop_post(loop, &loop->stop));
    }
}

/* Bytes come and go while it moves there and back: all of them, in order. */
SCENARIO(net_spread__sent_and_received__nothing_lost, "NET-29", "NET-14")
{
    int a, b;

    begin();
    a = sim_thread(send_two, "D");
    b = sim_thread(pause_and_resume, NULL);
    sim_join(a);
    sim_join(b);
    sim_settle();
    sim_assert(in_used == IN_BYTES && moves() >= 1);
    sim_assert(sink_size == 2 && memcmp(sink, "12", 2) == 0);
    end();
}
SCENARIO_OPTS(net_spread__sent_and_received__nothing_lost, .schedules = 1000,
              .models = SIM_SC | SIM_C11)

/* The sender leaves it to the loop: to the one it is on then. */
SCENARIO(net_spread__left_to_the_loop__nothing_stays_behind, "NET-29", "NET-14")
{
    int a;

    begin();
    a = sim_thread(send_two, "S");
    sim_join(a);
    sim_settle();
    sim_assert(in_used == IN_BYTES);
    sim_assert(sink_size == 2 && memcmp(sink, "12", 2) == 0);
    end();
}
SCENARIO_OPTS(net_spread__left_to_the_loop__nothing_stays_behind, .schedules = 1000,
              .models = SIM_SC | SIM_C11)

/* Closed on the way: once, and not under a writer's hands. */
SCENARIO(net_spread__closed_on_the_way__once, "NET-29", "NET-5")
{
    int a, b;

    begin();
    a = sim_thread(close_it, NULL);
    b = sim_thread(send_two, "D");
    sim_join(a);
    sim_join(b);
    sim_settle();
    sim_assert(ended() == 1);
    end();
}
SCENARIO_OPTS(net_spread__closed_on_the_way__once, .schedules = 1000,
              .models = SIM_SC | SIM_C11)

/* A job runs where the connection is, in order, wherever that is. */
SCENARIO(net_spread__jobs__where_it_is, "NET-29", "NET-24")
{
    int a;

    begin();
    a = sim_thread(post_jobs, NULL);
    sim_join(a);
    sim_settle();
    sim_assert(jobs_run == JOBS && in_used == IN_BYTES);
    end();
}
SCENARIO_OPTS(net_spread__jobs__where_it_is, .schedules = 1000,
              .models = SIM_SC | SIM_C11)

/* The loops end, the new one or the old one first: it is closed by one of them. */
SCENARIO(net_spread__loops_end__closed_by_one, "NET-29", "NET-25")
{
    static const char *const first[2] = { "0", "1" };
    int a, b;

    begin();
    a = sim_thread(stop_loops, (void *)(uintptr_t)first[sim_choose(2)]);
    b = sim_thread(send_two, "D");
    sim_join(a);
    sim_join(b);
    sim_settle();
    sim_assert(ended() == 1);
    end();
}
SCENARIO_OPTS(net_spread__loops_end__closed_by_one, .schedules = 1500,
              .models = SIM_SC | SIM_C11)
