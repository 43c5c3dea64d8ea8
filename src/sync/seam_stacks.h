/* SPDX-License-Identifier: MIT */
/*
 * seam_stacks.h - what a report on threads needs of the system: the stacks of other
 * threads, what the kernel knows of them, symbols, a file.  See seam_stacks.c; in
 * simulation builds tests/sim/stacks.c, where there is nothing of all that.
 */
#ifndef SPN__SEAM_STACKS_H
#define SPN__SEAM_STACKS_H

#include "base/shared.h"
#include "sync/seam.h"

/* ---- program counters of another thread ---------------------------------------- */

/* Where there is code in memory: what may be a return address and what not. */
struct spn__os_code {
    size_t count; /* 0: not known */
    struct {
        uintptr_t low, high;
    } parts[512]; /* ascending */
};
void spn__os_code_look(struct spn__os_code *code);

struct spn__os_frame {
    uintptr_t pc; /* where it is; in callers, where it returns to */
    bool guessed; /* found lying on the stack: see seam_stacks.c */
};

/* How many guesses there are at most, beside the frames that are certain. */
#define SPN__OS_GUESSES 16

/*
 * One question to one thread.  Whoever asks owns it while it is idle, and may reuse
 * or free it, and what it points to, only then: a signal on its way leads to it.
 */
struct spn__os_capture {
    spn__futex_word state;           /* see seam_stacks.c [asked] */
    int32_t tid;                     /* whom to ask */
    uint32_t capacity;               /* of frames */
    uint32_t count;                  /* answered: innermost first */
    bool cut;                        /* answered: there were more */
    struct spn__os_frame *frames;    /* the first is where it is */
    const struct spn__os_code *code; /* unchanged while it is not idle */
};

void spn__os_capture_init(struct spn__os_capture *c, const struct spn__os_code *code,
                          struct spn__os_frame *frames, uint32_t capacity);

/*
 * Takes a real-time signal for captures, for the process; 0: any that is free.
 * Stores which one it is.  SPN_OK; SPN_EINVAL (no real-time signal); SPN_EBUSY (the
 * program has a handler for it); SPN_ENOTSUP.  close gives it back, and the signal
 * its former disposition when nobody else has it open.
 */
int spn__os_capture_open(uint32_t signal, uint32_t *opened);
void spn__os_capture_close(uint32_t signal);

/*
 * ask: sends the question.  SPN_OK; SPN_EEMPTY (there is no such thread); SPN_EAGAIN.
 * await: true if the answer is there; false if the deadline came first, and then an
 *        answer that comes later is ignored.
 * idle:  whether no signal leads to it any more.
 */
int spn__os_capture_ask(struct spn__os_capture *c, uint32_t signal);
bool spn__os_capture_await(struct spn__os_capture *c, int64_t deadline_ns);
bool spn__os_capture_idle(struct spn__os_capture *c);

/* Where a thread's stack lies, as that noted at its start; no bytes: not known. */
struct spn__os_stack {
    uintptr_t low, high;
    uintptr_t first; /* what lies above is how threads start */
};

/* Looks at a thread that lets no signal through, from outside: true if it sleeps in the
 * kernel, and then the answer is there.  The question is idle, before and after. */
bool spn__os_capture_peek(struct spn__os_capture *c, const struct spn__os_stack *stack);

/*
 * The library's threads, for those who ask where they are.  The owner of a note keeps it
 * from `coming`, or `here` where there was no `coming`, to `gone`.
 *
 * coming: the thread is being made; arg, which is only compared, is what its function gets.
 * here:  called by the new thread itself.  It lets `signal` (0: none) and the signals that
 *        are open through, and remembers where its stack is, without which it can tell
 *        only where it is.
 * list:  waits until the threads that were coming at the call are here, until deadline_ns
 *        at most; then stores those that are here, as many as fit.  How many it stored.
 */
struct spn__os_note {
    struct spn__os_note *next, **at; /* at: what points to it; NULL: it is not listed */
    const void *arg;
    uint64_t number; /* in the order of coming */
    int32_t tid;     /* 0: coming */
    struct spn__os_stack stack;
    spn__sigmask allowed;
};
struct spn__os_noted {
    const struct spn__os_note *note; /* may be gone: only compared, as is arg */
    const void *arg;
    int32_t tid;
    bool allowed; /* lets the signal through */
    struct spn__os_stack stack;
};
void spn__os_thread_coming(struct spn__os_note *note, const void *arg);
SPN__SHARED void spn__os_thread_here(struct spn__os_note *note, uint32_t signal);
SPN__SHARED void spn__os_thread_gone(struct spn__os_note *note);
size_t spn__os_thread_list(struct spn__os_noted *out, size_t capacity, uint32_t signal,
                           int64_t deadline_ns);
/* From now on a fork leaves the list whole, and empty in the child, where there are none of
 * them; false: no memory. */
bool spn__os_threads_watch_fork(void);
/*
 * The program counters of the callers of the function whose frame this is, which is the
 * calling thread's: innermost first; how many.  Follows frame pointers.
 */
uint32_t spn__os_callers(const void *frame, uintptr_t *pcs, uint32_t capacity);
/* Whether the number is one of a real-time signal. */
bool spn__os_is_realtime_signal(uint32_t signal);

int32_t spn__os_tid(void);

/* Whether the instruction before this address is a call, as far as can be told. */
bool spn__os_follows_call(uintptr_t pc);

/* Where a program counter lies, as "name+0x1c (/lib/libx.so.6+0x8f41c)", for people
 * and for addr2line; as far as it is known. */
void spn__os_symbol(uintptr_t pc, char *text, size_t capacity);

/* ---- what the kernel says ---------------------------------------------------------- */

struct spn__os_task {
    char name[17];
    char state;     /* R S D T ..., '?' if unknown */
    char wchan[65]; /* where in the kernel it sleeps; "" if unknown */
};

/* Of a thread of this process; false if there is none, or no /proc. */
bool spn__os_task_look(int32_t tid, struct spn__os_task *task);
/* The threads of this process, as many as fit; how many there are, 0 without /proc. */
size_t spn__os_task_list(int32_t *tids, size_t capacity);

/* ---- files: 0 or an errno ------------------------------------------------------------ */

/* A new file for its owner only; it must not exist. */
int spn__os_file_create(int *fd, const char *path);
int spn__os_file_write(int fd, const char *bytes, size_t count);
int spn__os_file_close(int fd);
void spn__os_file_remove(const char *path);
/* A folder for its owner only, with those above it; one that is there is fine. */
int spn__os_folder_create(const char *path);
/* Where a program may leave files if nobody says where: $HOME, $TMPDIR, /tmp. */
const char *spn__os_home(void);
void spn__os_error_text(int error, char *text, size_t capacity);

/* The wall clock, local time: "2026-11-15_07:22:50". */
void spn__os_date(char text[20]);

#endif /* SPN__SEAM_STACKS_H */
