/* SPDX-License-Identifier: MIT */
/*
 * seam_stacks.c - stacks of other threads, symbols, /proc and files.
 *
 * OVERVIEW
 *   A thread that wants to know where another one is sends it a real-time signal, with
 *   a pointer to the question (struct spn__os_capture).  The handler follows the frame
 *   pointers of the thread it interrupts, stores the program counters and says so.  All
 *   else (names of functions, text, files) is the asker's work, later.
 *
 * THE HANDLER may come anywhere: in malloc, in the dynamic linker, with any lock held.
 *   It allocates nothing, takes no lock, calls no unwinder, and reads no memory but
 *   the question and its own thread's stack between the stack pointer and the end
 *   which that thread noted at its start: a frame pointer that points elsewhere ends
 *   the walk.  A thread that noted nothing tells its program counter only.
 *
 * GAPS
 *   The C library and many programs keep no frame pointers.  A thread that sleeps in
 *   recv(2) or in a condition variable has something else in that register, or the
 *   frame of its caller's caller.  So the words between the stack pointer and the first
 *   frame are looked at: one that points into code may be a return address, and one
 *   that also lies above a saved frame pointer, which leads to another such word, is
 *   where the frames go on.  What was only found lying there is marked as a guess; the
 *   asker drops those that do not follow a call.  An old return address that was never
 *   overwritten may stay among them.
 *
 * FROM OUTSIDE   A thread that lets no signal through, but sleeps in the kernel, is looked at
 *   by another: the kernel says where its stack ends, and a copy of what lies above is
 *   followed as the handler would.  It counts if the thread sleeps at the same place after.
 *
 * STATE of a question
 *   IDLE --ask--> ASKED --handler--> FILLING --handler--> DONE --await--> IDLE
 *                 ASKED --await, too late--> FORGOTTEN --handler--> IDLE
 *                                            FORGOTTEN --idle, thread gone--> IDLE
 *
 *   A thread that has the signal blocked, or sleeps where nothing wakes it, answers
 *   late or never.  So the memory of a question is kept until it is IDLE again, and the
 *   handler stays installed while one is not: a real-time signal without a handler ends
 *   the process.  The program knows nothing of that, and may put something else in its
 *   place: whoever takes the signal next looks.
 *
 * ORDERING
 *   [asked] ask's release pairs with the handler's acquire: the question is whole.
 *           The handler's release store of DONE, and its exchange to IDLE, pair with
 *           the acquires in await and idle: the answer is whole, and the handler is
 *           through with the memory.  Signals order nothing by themselves.
 *
 * LOCKS  `lock` guards the table of signals in use and the list of threads; a leaf.
 *
 * WHY NOT _Unwind_Backtrace or backtrace(3)?  They may allocate, and before glibc 2.35
 * they take the dynamic linker's lock: a dump would hang in a program that is just
 * loading a library.
 */
#include "sync/seam_stacks.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/futex.h>
#include <ucontext.h>
#endif

#include "base/assert.h"

enum { IDLE, ASKED, FILLING, DONE, FORGOTTEN };

void spn__os_capture_init(struct spn__os_capture *c, const struct spn__os_code *code,
                          struct spn__os_frame *frames, uint32_t capacity)
{
    *c = (struct spn__os_capture){ .code = code,
                                   .frames = frames,
                                   .capacity = capacity };
    spn__init(&c->state, IDLE);
}

bool spn__os_is_realtime_signal(uint32_t signal)
{
    return signal >= (uint32_t)SIGRTMIN && signal <= (uint32_t)SIGRTMAX;
}

int32_t spn__os_tid(void)
{
#ifdef __linux__
    return (int32_t)syscall(SYS_gettid);
#else
    return 0;
#endif
}

bool spn__os_capture_idle(struct spn__os_capture *c)
{
    const uint32_t state = spn__load(&c->state, acquire); /* [asked] */

#ifdef __linux__
    if (state == FORGOTTEN && syscall(SYS_tgkill, getpid(), c->tid, 0) != 0 &&
        errno == ESRCH) {
        spn__store(&c->state, IDLE, relaxed); /* who might have answered has gone */
        return true;
    }
#endif
    return state == IDLE;
}

#ifdef __linux__

/* ---- the handler ----------------------------------------------------------------- */

/* Where the calling thread's stack is; 0 unless it noted it.  The handler reads it. */
static _Thread_local struct spn__os_stack own_stack
    __attribute__((tls_model("initial-exec")));

/* A stack, or the part of it that was copied. */
struct view {
    struct spn__os_stack stack;
    uintptr_t shift; /* from an address of it to where its bytes are; 0: itself */
};

struct registers {
    uintptr_t pc, fp, sp;
};

static struct registers registers_of(const ucontext_t *context)
{
#if defined(__x86_64__)
    return (struct registers){ (uintptr_t)context->uc_mcontext.gregs[REG_RIP],
                               (uintptr_t)context->uc_mcontext.gregs[REG_RBP],
                               (uintptr_t)context->uc_mcontext.gregs[REG_RSP] };
#elif defined(__i386__)
    return (struct registers){ (uintptr_t)context->uc_mcontext.gregs[REG_EIP],
                               (uintptr_t)context->uc_mcontext.gregs[REG_EBP],
                               (uintptr_t)context->uc_mcontext.gregs[REG_ESP] };
#elif defined(__aarch64__)
    return (struct registers){ (uintptr_t)context->uc_mcontext.pc,
                               (uintptr_t)context->uc_mcontext.regs[29],
                               (uintptr_t)context->uc_mcontext.sp };
#else
    (void)context;
    return (struct registers){ 0, 0, 0 };
#endif
}

/* A return address without the signature some processors put into its upper bits. */
static uintptr_t plain_address(uintptr_t address)
{
#ifdef __aarch64__
    return address & (((uintptr_t)1 << 48) - 1);
#else
    return address;
#endif
}

/* Whether a word may be a return address; yes if nothing is known. */
static bool is_code(const struct spn__os_code *code, uintptr_t address)
{
    size_t low = 0, high = code->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (address < code->parts[middle].low)
            high = middle;
        else if (address >= code->parts[middle].high)
            low = middle + 1;
        else
            return true;
    }
    return code->count == 0 && address != 0;
}

/* A frame is two words on all three processors: the caller's frame, and where it
 * returns to.  These read frames of other functions, which AddressSanitizer must not
 * judge. */
#define UNJUDGED __attribute__((no_sanitize("address")))

static bool on_stack(const struct view *v, uintptr_t frame, uintptr_t floor)
{
    return frame != 0 && frame >= floor && frame % sizeof(uintptr_t) == 0 &&
           frame <= v->stack.high - 2 * sizeof(uintptr_t);
}

UNJUDGED static uintptr_t word_at(const struct view *v, uintptr_t address)
{
    return *(const uintptr_t *)(address + v->shift);
}

UNJUDGED static bool is_frame(const struct spn__os_code *code, const struct view *v,
                              uintptr_t frame, uintptr_t floor)
{
    return on_stack(v, frame, floor) &&
           is_code(code, plain_address(word_at(v, frame + sizeof(uintptr_t))));
}

static void add(struct spn__os_capture *c, uintptr_t pc, bool guessed)
{
    if (c->count < c->capacity)
        c->frames[c->count++] = (struct spn__os_frame){ pc, guessed };
    else
        c->cut = true;
}

/* Looks at the words from `at.sp` to the frame, or until it has found one, which it
 * returns; 0: there is none. */
UNJUDGED static uintptr_t bridge(struct spn__os_capture *c, const struct view *v,
                                 struct registers at, int *guesses)
{
    enum { WORDS = 2048 }; /* as much as a function of the C library has on the stack */
    const bool known = is_frame(c->code, v, at.fp, at.sp);
    uintptr_t word = at.sp & ~(sizeof(uintptr_t) - 1);
    const uintptr_t end = known ? at.fp : v->stack.high;
    uintptr_t before = 0;

    if (c->code->count == 0)
        return known ? at.fp : 0; /* every word would do */
    for (int i = 0; i < WORDS && word < end; i++, word += sizeof word) {
        const uintptr_t value = plain_address(word_at(v, word));

        if (is_code(c->code, value) && *guesses < SPN__OS_GUESSES) {
            add(c, value, true);
            *guesses += 1;
            if (!known && is_frame(c->code, v, before, word + sizeof word))
                return before;
        }
        before = word_at(v, word);
    }
    return known ? at.fp : 0;
}

/* Frames lie ever higher, so the walk ends: among the first functions of the thread, or
 * when no bridge leads on. */
UNJUDGED static void walk(struct spn__os_capture *c, const struct view *v,
                          struct registers at)
{
    uintptr_t frame;
    int guesses = 0;

    c->count = 0;
    c->cut = false;
    if (at.pc == 0)
        return;
    add(c, at.pc, false);
    if (at.sp < v->stack.low || at.sp >= v->stack.high)
        return; /* on another stack than the one it noted */
    do {
        frame = bridge(c, v, at, &guesses);
        if (frame == 0)
            return;
        at.fp = 0;
        while (!c->cut && is_frame(c->code, v, frame, at.sp)) {
            add(c, plain_address(word_at(v, frame + sizeof(uintptr_t))), false);
            at.sp = frame + 2 * sizeof(uintptr_t);
            frame = word_at(v, frame);
        }
    } while (!c->cut && at.sp < v->stack.first && guesses < SPN__OS_GUESSES);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    const int saved_errno = errno;
    struct spn__os_capture *c = info->si_value.sival_ptr;
    uint32_t found = ASKED;

    (void)number;
    if (info->si_code == SI_QUEUE && info->si_pid == getpid() && c != NULL) {
        if (spn__cas(&c->state, &found, FILLING, acquire, relaxed)) { /* [asked] */
            walk(c, &(struct view){ own_stack, 0 }, registers_of(context));
            spn__store(&c->state, DONE, release); /* [asked] */
            /* A name only: the question may be gone. */
            (void)syscall(SYS_futex, &c->state.spn__raw, FUTEX_WAKE_PRIVATE, 1, NULL,
                          NULL, 0);
        } else {
            (void)spn__cas(&c->state, &found, IDLE, release, relaxed); /* [asked] */
        }
    }
    errno = saved_errno;
}

/* ---- which signals ------------------------------------------------------------------ */

enum { SIGNALS = 128 }; /* above every SIGRTMAX */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Dispositions belong to the process, so who uses them is known per process. */
static struct {
    uint32_t users[SIGNALS];
    struct sigaction before[SIGNALS];
} signals;

static bool is_ours(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) != 0 && action->sa_sigaction == on_signal;
}

static bool is_free(const struct sigaction *action)
{
    return is_ours(action) ||
           ((action->sa_flags & SA_SIGINFO) == 0 &&
            (action->sa_handler == SIG_DFL || action->sa_handler == SIG_IGN));
}

/* The lock is held. */
static int install(uint32_t signal)
{
    struct sigaction action, before;

    if (sigaction((int)signal, NULL, &before) != 0)
        return SPN_EINVAL;
    if (!is_free(&before))
        return SPN_EBUSY;
    if (!is_ours(&before)) {
        memset(&action, 0, sizeof action);
        action.sa_sigaction = on_signal;
        action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
        sigfillset(&action.sa_mask);
        if (sigaction((int)signal, &action, NULL) != 0)
            return SPN_EINVAL;
        signals.before[signal] = before;
    }
    signals.users[signal]++;
    return SPN_OK;
}

int spn__os_capture_open(uint32_t signal, uint32_t *opened)
{
    /* Somewhat above the first, which programs take themselves. */
    const uint32_t first = (uint32_t)SIGRTMIN + 10, last = (uint32_t)SIGRTMAX;
    int rc = SPN_EBUSY;

    if (signal != 0 && !spn__os_is_realtime_signal(signal))
        return SPN_EINVAL;
    pthread_mutex_lock(&lock);
    if (signal != 0) {
        rc = install(signal);
        *opened = signal;
    } else {
        for (uint32_t s = first; s <= last && rc == SPN_EBUSY; s++) {
            rc = install(s);
            *opened = s;
        }
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

void spn__os_capture_close(uint32_t signal)
{
    struct sigaction now;

    pthread_mutex_lock(&lock);
    spn__assert(signals.users[signal] != 0);
    if (--signals.users[signal] == 0 && sigaction((int)signal, NULL, &now) == 0 &&
        is_ours(&now)) /* else the program has put its own there meanwhile */
        (void)sigaction((int)signal, &signals.before[signal], NULL);
    pthread_mutex_unlock(&lock);
}

/* ---- asking --------------------------------------------------------------------------- */

int spn__os_capture_ask(struct spn__os_capture *c, uint32_t signal)
{
    siginfo_t info;
    long rc;

    memset(&info, 0, sizeof info);
    info.si_signo = (int)signal;
    info.si_code = SI_QUEUE;
    info.si_pid = getpid();
    info.si_uid = getuid();
    info.si_value.sival_ptr = c;
    spn__store(&c->state, ASKED, release); /* [asked] */
    rc = syscall(SYS_rt_tgsigqueueinfo, info.si_pid, c->tid, (int)signal, &info);
    if (rc == 0)
        return SPN_OK;
    spn__store(&c->state, IDLE, relaxed); /* nobody else has seen it */
    return errno == ESRCH ? SPN_EEMPTY : SPN_EAGAIN;
}

static void sleep_while(const spn__futex_word *word, uint32_t value,
                        int64_t deadline_ns)
{
    const struct timespec at = { .tv_sec = (time_t)(deadline_ns / 1000000000),
                                 .tv_nsec = (long)(deadline_ns % 1000000000) };

    (void)syscall(SYS_futex, &word->spn__raw, FUTEX_WAIT_BITSET_PRIVATE, value, &at,
                  NULL, FUTEX_BITSET_MATCH_ANY);
}

bool spn__os_capture_await(struct spn__os_capture *c, int64_t deadline_ns)
{
    uint32_t state;

    while ((state = spn__load(&c->state, acquire)) != DONE) { /* [asked] */
        if (spn__now() < deadline_ns) {
            sleep_while(&c->state, state, deadline_ns);
        } else if (state == ASKED) {
            /* relaxed: the handler does nothing for us then. */
            if (spn__cas(&c->state, &state, FORGOTTEN, relaxed, relaxed))
                return false;
        } else {
            sched_yield(); /* it is writing: a matter of a microsecond of its time */
        }
    }
    spn__store(&c->state, IDLE, relaxed); /* ours again */
    return true;
}

/* Where the calling thread's stack is. */
static void note_stack(void)
{
    pthread_attr_t attr;
    size_t size;
    void *low;

    if (pthread_getattr_np(pthread_self(), &attr) == 0) {
        if (pthread_attr_getstack(&attr, &low, &size) == 0) {
            own_stack = (struct spn__os_stack){ (uintptr_t)low, (uintptr_t)low + size,
                                                (uintptr_t)__builtin_frame_address(0) };
        }
        pthread_attr_destroy(&attr);
    }
}

UNJUDGED uint32_t spn__os_callers(const void *frame, uintptr_t *pcs, uint32_t capacity)
{
    uintptr_t at = (uintptr_t)frame, floor;
    uint32_t count = 0;
    struct view v;

    if (own_stack.high == 0)
        note_stack();
    v = (struct view){ own_stack, 0 };
    if (at < v.stack.low ||
        at >= v.stack.high) { /* a stack of the program's own making */
        if (capacity != 0)
            pcs[count++] = plain_address(((const uintptr_t *)at)[1]);
        return count;
    }
    /* Frames lie ever higher, so the walk ends. */
    for (floor = at; count < capacity && on_stack(&v, at, floor);
         at = ((const uintptr_t *)at)[0]) {
        const uintptr_t pc = plain_address(((const uintptr_t *)at)[1]);

        if (pc == 0)
            break;
        pcs[count++] = pc;
        floor = at + 2 * sizeof(uintptr_t);
    }
    return count;
}

/* ---- from outside ------------------------------------------------------------------------ */

/* Where a thread sleeps in the kernel, and where its stack ends; false: it runs, or the
 * kernel does not say.  The file has the system call's number, its six arguments, the stack
 * pointer and the program counter; without a system call -1 and the last two. */
static bool sleeps_at(int32_t tid, struct registers *at)
{
    unsigned long sp, pc;
    char path[64], text[256];
    const char *end;
    bool found = false;
    FILE *file;

    (void)snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)tid);
    file = fopen(path, "re");
    if (file == NULL)
        return false;
    if (fgets(text, sizeof text, file) != NULL) {
        end = strrchr(text, ' ');
        while (end != NULL && end > text && end[-1] != ' ')
            end--; /* to the one before the last */
        found = end != NULL && sscanf(end, "%lx %lx", &sp, &pc) == 2;
    }
    (void)fclose(file);
    if (found)
        *at = (struct registers){ .pc = pc, .sp = sp };
    return found;
}

bool spn__os_capture_peek(struct spn__os_capture *c, const struct spn__os_stack *stack)
{
    enum { PIECES = 16, PIECE = 1024 }; /* a stack's pages, as far as they are there */
    uintptr_t copy[(size_t)PIECES * PIECE / sizeof(uintptr_t)];
    struct iovec pieces[PIECES];
    const struct iovec to = { copy, sizeof copy };
    struct registers at, again;
    struct view v = { .stack = { 0, 0, 0 } };
    ssize_t copied = 0;

    if (!sleeps_at(c->tid, &at))
        return false;
    if (at.sp >= stack->low && at.sp < stack->high) {
        uintptr_t from = at.sp & ~(sizeof(uintptr_t) - 1);
        unsigned long count = 0;

        v = (struct view){ { from, from, stack->first }, (uintptr_t)copy - from };
        for (; count < PIECES && from < stack->high; count++, from += PIECE)
            pieces[count] = (struct iovec){ (void *)from, stack->high - from < PIECE
                                                              ? stack->high - from
                                                              : PIECE };
        copied = process_vm_readv(getpid(), &to, 1, pieces, count, 0);
        v.stack.high += copied > 0 ? (uintptr_t)copied : 0;
    }
    /* If it has run meanwhile, the copy is of no one moment. */
    if (!sleeps_at(c->tid, &again) || again.pc != at.pc || again.sp != at.sp)
        return false;
    walk(c, &v, at);
    return true;
}

/* ---- the library's threads ------------------------------------------------------------- */

/* Guarded by `lock`, which a fork takes for its moment. */
static struct {
    struct spn__os_note *first;
    uint64_t made;
    uint32_t waiting;     /* in spn__os_thread_list */
    spn__futex_word news; /* changes with each thread that has come or gone */
} threads;

static SPN__ATOMIC(uint32_t) fork_watched; /* 1: fork is, or is about to be */

static void note_enlist(struct spn__os_note *note)
{
    note->number = ++threads.made;
    note->next = threads.first;
    note->at = &threads.first;
    if (note->next != NULL)
        note->next->at = &note->next;
    threads.first = note;
}

/* relaxed: the lock orders it; who sleeps meanwhile compares the word. */
static void tell_news(void)
{
    (void)spn__fetch_add(&threads.news, 1, relaxed);
    if (threads.waiting != 0)
        (void)syscall(SYS_futex, &threads.news.spn__raw, FUTEX_WAKE_PRIVATE, INT_MAX,
                      NULL, NULL, 0);
}

void spn__os_thread_coming(struct spn__os_note *note, const void *arg)
{
    note->arg = arg;
    note->tid = 0;
    pthread_mutex_lock(&lock);
    note_enlist(note);
    pthread_mutex_unlock(&lock);
}

void spn__os_thread_here(struct spn__os_note *note, uint32_t signal)
{
    bool any = signal != 0;

    note_stack();
    note->stack = own_stack;
    sigemptyset(&note->allowed);
    if (any)
        sigaddset(&note->allowed, (int)signal);
    pthread_mutex_lock(&lock);
    for (uint32_t s = (uint32_t)SIGRTMIN; s <= (uint32_t)SIGRTMAX; s++)
        if (signals.users[s] != 0) {
            sigaddset(&note->allowed, (int)s);
            any = true;
        }
    if (any)
        pthread_sigmask(SIG_UNBLOCK, &note->allowed, NULL);
    if (note->at == NULL)
        note_enlist(note);
    note->tid = spn__os_tid();
    tell_news();
    pthread_mutex_unlock(&lock);
}

void spn__os_thread_gone(struct spn__os_note *note)
{
    pthread_mutex_lock(&lock);
    if (note->at != NULL) {
        *note->at = note->next;
        if (note->next != NULL)
            note->next->at = note->at;
        note->at = NULL;
        tell_news();
    }
    pthread_mutex_unlock(&lock);
}

/* Whether one of the first `made` threads is still coming; the lock is held. */
static bool is_coming(uint64_t made)
{
    for (const struct spn__os_note *n = threads.first; n != NULL; n = n->next)
        if (n->tid == 0 && n->number <= made)
            return true;
    return false;
}

size_t spn__os_thread_list(struct spn__os_noted *out, size_t capacity, uint32_t signal,
                           int64_t deadline_ns)
{
    size_t count = 0;
    uint64_t made;

    pthread_mutex_lock(&lock);
    made = threads.made;
    while (is_coming(made) && spn__now() < deadline_ns) {
        const uint32_t seen = spn__load(&threads.news, relaxed); /* under the lock */

        threads.waiting++;
        pthread_mutex_unlock(&lock);
        sleep_while(&threads.news, seen, deadline_ns);
        pthread_mutex_lock(&lock);
        threads.waiting--;
    }
    for (const struct spn__os_note *n = threads.first; n != NULL && count < capacity;
         n = n->next)
        if (n->tid != 0)
            out[count++] = (struct spn__os_noted){
                .note = n,
                .arg = n->arg,
                .tid = n->tid,
                .allowed = signal != 0 && sigismember(&n->allowed, (int)signal) == 1,
                .stack = n->stack
            };
    pthread_mutex_unlock(&lock);
    return count;
}

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

/* None of the parent's threads is in the child, but for the one that forked. */
static void after_fork_in_child(void)
{
    for (struct spn__os_note *n = threads.first; n != NULL; n = n->next)
        n->at = NULL;
    threads.first = NULL;
    threads.waiting = 0;
    pthread_mutex_unlock(&lock);
}

bool spn__os_threads_watch_fork(void)
{
    uint32_t found = 0;

    /* relaxed, all: twice would lock twice, and nothing else hangs on it.  Not under the
     * lock: a fork meanwhile would copy it held. */
    if (!spn__cas(&fork_watched, &found, 1, relaxed, relaxed) ||
        pthread_atfork(before_fork, after_fork, after_fork_in_child) == 0)
        return true;
    spn__store(&fork_watched, 0, relaxed);
    return false;
}

/* Before the program's handlers, so that those run without the lock: ours is the last before
 * a fork, and the first after it. */
__attribute__((constructor(101))) static void watch_fork_first(void)
{
    (void)spn__os_threads_watch_fork(); /* else with the first thread */
}

#else /* no rt_tgsigqueueinfo */

int spn__os_capture_open(uint32_t signal, uint32_t *opened)
{
    *opened = 0;
    return signal != 0 && !spn__os_is_realtime_signal(signal) ? SPN_EINVAL
                                                              : SPN_ENOTSUP;
}

void spn__os_capture_close(uint32_t signal)
{
    (void)signal;
}

int spn__os_capture_ask(struct spn__os_capture *c, uint32_t signal)
{
    (void)c;
    (void)signal;
    return SPN_EAGAIN;
}

bool spn__os_capture_await(struct spn__os_capture *c, int64_t deadline_ns)
{
    (void)c;
    (void)deadline_ns;
    return false;
}

bool spn__os_capture_peek(struct spn__os_capture *c, const struct spn__os_stack *stack)
{
    (void)c;
    (void)stack;
    return false;
}

void spn__os_thread_coming(struct spn__os_note *note, const void *arg)
{
    (void)note;
    (void)arg;
}

void spn__os_thread_here(struct spn__os_note *note, uint32_t signal)
{
    (void)note;
    (void)signal;
}

void spn__os_thread_gone(struct spn__os_note *note)
{
    (void)note;
}

size_t spn__os_thread_list(struct spn__os_noted *out, size_t capacity, uint32_t signal,
                           int64_t deadline_ns)
{
    (void)out;
    (void)capacity;
    (void)signal;
    (void)deadline_ns;
    return 0;
}

bool spn__os_threads_watch_fork(void)
{
    return true;
}

uint32_t spn__os_callers(const void *frame, uintptr_t *pcs, uint32_t capacity)
{
    (void)frame;
    (void)pcs;
    (void)capacity;
    return 0;
}

#endif

/* ---- code and symbols ---------------------------------------------------------------------------- */

void spn__os_code_look(struct spn__os_code *code)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[PATH_MAX + 128], may[5];
    unsigned long low, high;

    code->count = 0;
    if (maps == NULL)
        return;
    while (fgets(line, sizeof line, maps) != NULL &&
           code->count < sizeof code->parts / sizeof code->parts[0])
        if (sscanf(line, "%lx-%lx %4s", &low, &high, may) == 3 && may[2] == 'x') {
            code->parts[code->count].low = low;
            code->parts[code->count].high = high;
            code->count++;
        }
    (void)fclose(maps);
}

/* Bytes of this process that may be gone: a library may be unloaded any time. */
static bool copy_safely(void *to, uintptr_t from, size_t count)
{
#ifdef __linux__
    const struct iovec local = { to, count };
    const struct iovec remote = { (void *)from, count };

    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)count;
#else
    (void)to;
    (void)from;
    (void)count;
    return false;
#endif
}

bool spn__os_follows_call(uintptr_t pc)
{
#if defined(__x86_64__) || defined(__i386__)
    unsigned char bytes[7]; /* the longest call, and the ends of shorter ones */

    if (!copy_safely(bytes, pc - sizeof bytes, sizeof bytes))
        return true;
    if (bytes[2] == 0xe8)
        return true; /* to an address */
    for (size_t i = 0; i < 6; i++)
        if (bytes[i] == 0xff && (bytes[i + 1] >> 3 & 7) == 2)
            return true; /* through a register or memory */
    return false;
#elif defined(__aarch64__)
    uint32_t word;

    if (!copy_safely(&word, pc - sizeof word, sizeof word))
        return true;
    return (word & 0xfc000000u) == 0x94000000u || (word & 0xfffffc1fu) == 0xd63f0000u;
#else
    (void)pc;
    return true;
#endif
}

void spn__os_symbol(uintptr_t pc, char *text, size_t capacity)
{
    Dl_info info;

    if (dladdr((const void *)pc, &info) == 0 || info.dli_fname == NULL) {
        (void)snprintf(text, capacity, "?");
    } else if (info.dli_sname != NULL && info.dli_saddr != NULL) {
        (void)snprintf(text, capacity, "%s+0x%zx (%s+0x%zx)", info.dli_sname,
                       (size_t)(pc - (uintptr_t)info.dli_saddr), info.dli_fname,
                       (size_t)(pc - (uintptr_t)info.dli_fbase));
    } else {
        (void)snprintf(text, capacity, "? (%s+0x%zx)", info.dli_fname,
                       (size_t)(pc - (uintptr_t)info.dli_fbase));
    }
}

/* ---- /proc -------------------------------------------------------------------------------- */

/* The beginning of /proc/self/task/<tid>/<what> as a string; false if there is none. */
static bool read_proc(int32_t tid, const char *what, char *text, size_t capacity)
{
    char path[64];
    ssize_t count;
    int fd;

    (void)snprintf(path, sizeof path, "/proc/self/task/%d/%s", (int)tid, what);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    do
        count = read(fd, text, capacity - 1);
    while (count < 0 && errno == EINTR);
    (void)close(fd);
    if (count < 0)
        return false;
    text[count] = '\0';
    return true;
}

bool spn__os_task_look(int32_t tid, struct spn__os_task *task)
{
    char stat[512];
    const char *after_name;

    memset(task, 0, sizeof *task);
    task->state = '?';
    if (!read_proc(tid, "comm", task->name, sizeof task->name))
        return false;
    task->name[strcspn(task->name, "\n")] = '\0';
    /* "17 (na) me) S ...": a name may hold anything, so from the last bracket. */
    if (read_proc(tid, "stat", stat, sizeof stat) &&
        (after_name = strrchr(stat, ')')) != NULL && after_name[1] == ' ' &&
        after_name[2] != '\0')
        task->state = after_name[2];
    if (!read_proc(tid, "wchan", task->wchan, sizeof task->wchan) ||
        strcmp(task->wchan, "0") == 0)
        task->wchan[0] = '\0';
    return true;
}

size_t spn__os_task_list(int32_t *tids, size_t capacity)
{
    DIR *folder = opendir("/proc/self/task");
    const struct dirent *entry;
    size_t count = 0;

    if (folder == NULL)
        return 0;
    while ((entry = readdir(folder)) != NULL) {
        const long tid = strtol(entry->d_name, NULL, 10);

        if (tid <= 0 || tid > INT32_MAX)
            continue; /* "." and ".." */
        if (count < capacity)
            tids[count] = (int32_t)tid;
        count++;
    }
    (void)closedir(folder);
    return count;
}

/* ---- files ---------------------------------------------------------------------------------- */

int spn__os_file_create(int *fd, const char *path)
{
    do
        *fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    while (*fd < 0 && errno == EINTR);
    return *fd < 0 ? errno : 0;
}

int spn__os_file_write(int fd, const char *bytes, size_t count)
{
    while (count > 0) {
        const ssize_t written = write(fd, bytes, count);

        if (written < 0 && errno != EINTR)
            return errno;
        if (written > 0) {
            bytes += written;
            count -= (size_t)written;
        }
    }
    return 0;
}

int spn__os_file_close(int fd)
{
    return close(fd) != 0 && errno != EINTR ? errno : 0;
}

void spn__os_file_remove(const char *path)
{
    (void)unlink(path);
}

static int make_folder(const char *path)
{
    struct stat found;

    if (mkdir(path, 0700) == 0)
        return 0;
    if (errno != EEXIST)
        return errno;
    if (stat(path, &found) != 0)
        return errno;
    return S_ISDIR(found.st_mode) ? 0 : ENOTDIR;
}

int spn__os_folder_create(const char *path)
{
    char part[PATH_MAX];
    const size_t length = strlen(path);

    if (length == 0 || length >= sizeof part)
        return length == 0 ? ENOENT : ENAMETOOLONG;
    memcpy(part, path, length + 1);
    for (size_t i = 1; i < length; i++) {
        if (part[i] != '/')
            continue;
        part[i] = '\0';
        (void)make_folder(part); /* what is wrong here shows below */
        part[i] = '/';
    }
    return make_folder(part);
}

const char *spn__os_home(void)
{
    const char *home = getenv("HOME");

    if (home == NULL || home[0] == '\0')
        home = getenv("TMPDIR");
    return home == NULL || home[0] == '\0' ? "/tmp" : home;
}

void spn__os_error_text(int error, char *text, size_t capacity)
{
#ifdef __GLIBC__
    const char *known = strerrordesc_np(error);

    (void)snprintf(text, capacity, "%s", known != NULL ? known : "unknown error");
#else
    if (strerror_r(error, text, capacity) != 0)
        (void)snprintf(text, capacity, "error %d", error);
#endif
}

void spn__os_date(char text[20])
{
    const time_t now = time(NULL);
    struct tm local;

    if (localtime_r(&now, &local) == NULL ||
        strftime(text, 20, "%Y-%m-%d_%H:%M:%S", &local) == 0)
        memcpy(text, "0000-00-00_00:00:00", 20);
}
