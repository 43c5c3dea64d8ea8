/* SPDX-License-Identifier: MIT */
/*
 * measure.c - measures the floors.
 *
 * OVERVIEW
 *   A floor is a function that repeats one operation for a given time and tells
 *   the cost of one.  It is called once to warm up and then several times; the
 *   median of those calls is the figure, the lowest and highest its spread.
 *   Bounding the time, not the count, keeps the whole run short on a machine
 *   (or under a sanitizer) where an operation is a thousand times dearer.
 *
 *   What takes two threads is a pair: the caller calls, a partner answers.  How
 *   a side waits and wakes the other (spinning, futex, park) is a parameter, so
 *   the figures differ by that and nothing else.
 *
 * PLACEMENT
 *   Two threads that wake each other cost 4 to 8 µs on one CPU and 20 to 40 µs
 *   on two, and the scheduler changes its mind about which it is.  So pairs are
 *   measured pinned (same CPU, two CPUs) and free, and the three are told apart.
 *
 * ORDERING
 *   [call]   the release store of `call` pairs with the partner's acquire load.
 *            In line_round_trip both sides store it, and nothing rides on it.
 *   [answer] the release store of `answer` pairs with the caller's acquire
 *            load; it publishes woken_at_ns.
 */
#include "measure.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <spindle.h>

#include "sync/seam.h"

enum {
    REPEATS = 9,
    REPEATS_QUICK = 3,
    SAMPLES_MAX = 4096, /* wake-ups in one call of a wake latency floor */
    MISSES_MAX = 64,    /* wakes in it that found nobody: then it is hopeless */
    CPUS_MAX = 8192     /* as many as Linux can be built for            */
};
#define SLICE_NS       SPN_MS(15)
#define SLICE_QUICK_NS SPN_MS(2)

/* How long a CPU has been idle when it is woken.  The short span is one that
 * halt polling in a hypervisor or a shallow idle state covers, the long one is
 * past both. */
#define IDLE_SHORT_NS SPN_US(100)
#define IDLE_LONG_NS  SPN_MS(2)

/* A spinning side gives its CPU away now and then: the other thread may need
 * it, when the machine is shared. */
enum { SPINS_BEFORE_YIELD = 1000000 };

struct context {
    int64_t slice_ns;
    uint32_t cpu_a, cpu_b;
    bool pinning;
    const char *unknown; /* set by a floor that cannot be measured */
};

/* Keeps the compiler from moving or dropping what is measured. */
#define KEEP(pointer) __asm__ __volatile__("" : : "r"(pointer) : "memory")

/* Repeats `operation` in chunks until the slice is used up. */
#define MEASURE_LOOP(context, chunk, operation)               \
    do {                                                      \
        const int64_t start_ns_ = spn_now();                  \
        int64_t now_ns_;                                      \
        uint64_t done_ = 0;                                   \
        do {                                                  \
            for (int i_ = 0; i_ < (chunk); i_++) {            \
                operation;                                    \
            }                                                 \
            done_ += (chunk);                                 \
            now_ns_ = spn_now();                              \
        } while (now_ns_ - start_ns_ < (context)->slice_ns);  \
        return (double)(now_ns_ - start_ns_) / (double)done_; \
    } while (0)

/* ---- one thread --------------------------------------------------------- */

static double clock_read(struct context *c)
{
    MEASURE_LOOP(c, 1000, (void)spn_now());
}

static double atomic_add(struct context *c)
{
    static alignas(64) _Atomic(uint64_t) word;

    MEASURE_LOOP(c, 1000,
                 (void)atomic_fetch_add_explicit(&word, 1, memory_order_relaxed));
}

static double store_fence(struct context *c)
{
    static alignas(64) _Atomic(uint64_t) word;

    MEASURE_LOOP(c, 1000, {
        atomic_store_explicit(&word, 1, memory_order_relaxed);
        spn__fence(seq_cst);
    });
}

static double fence_light(struct context *c)
{
    static alignas(64) _Atomic(uint64_t) word;

    spn__fence_heavy(); /* the first one decides what light ones are */
    MEASURE_LOOP(c, 1000, {
        atomic_store_explicit(&word, 1, memory_order_relaxed);
        spn__fence_light();
    });
}

static double fence_heavy(struct context *c)
{
    MEASURE_LOOP(c, 10, spn__fence_heavy());
}

static double malloc_free(struct context *c)
{
    MEASURE_LOOP(c, 1000, {
        void *memory = malloc(64);
        KEEP(memory);
        free(memory);
    });
}

static double null_syscall(struct context *c)
{
    MEASURE_LOOP(c, 100, (void)syscall(SYS_getppid));
}

static long futex(_Atomic(uint32_t) *word, int operation, uint32_t value)
{
    return syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL,
                   0);
}

static double wake_nobody(struct context *c)
{
    static _Atomic(uint32_t) word;

    if (futex(&word, FUTEX_WAKE, 1) < 0) {
        c->unknown = "futex(2) is refused";
        return 0;
    }
    MEASURE_LOOP(c, 100, (void)futex(&word, FUTEX_WAKE, 1));
}

static int do_nothing(void *arg)
{
    (void)arg;
    return 0;
}

static double create_and_join(struct context *c)
{
    const int64_t start_ns = spn_now();
    int64_t now_ns;
    uint64_t done = 0;

    do {
        spn_thread *thread;
        int status = spn_thread_create(&thread, NULL, do_nothing, NULL);

        if (status == SPN_OK) {
            status = spn_thread_join(thread, SPN_FOREVER, NULL);
            spn_thread_unref(thread);
        }
        if (status != SPN_OK) {
            c->unknown = spn_status_text(status);
            return 0;
        }
        done++;
        now_ns = spn_now();
    } while (now_ns - start_ns < c->slice_ns);
    return (double)(now_ns - start_ns) / (double)done;
}

/* ---- a thread bound to a CPU ------------------------------------------- */

/* The calling thread's affinity, kept to be put back; size 0: unknown. */
struct affinity {
    cpu_set_t *set;
    size_t size;
};

static struct affinity affinity_get(void)
{
    struct affinity a = { CPU_ALLOC(CPUS_MAX), CPU_ALLOC_SIZE(CPUS_MAX) };

    if (a.set == NULL || sched_getaffinity(0, a.size, a.set) != 0)
        a.size = 0;
    return a;
}

static void affinity_free(struct affinity a)
{
    CPU_FREE(a.set);
}

static bool pin_self(uint32_t cpu)
{
    cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
    const size_t size = CPU_ALLOC_SIZE(CPUS_MAX);
    bool pinned = false;

    if (set != NULL) {
        CPU_ZERO_S(size, set);
        CPU_SET_S(cpu, size, set);
        pinned = sched_setaffinity(0, size, set) == 0;
    }
    CPU_FREE(set);
    return pinned;
}

/* A number that names the physical core of a CPU, or -1. */
static long core_of(uint32_t cpu)
{
    static const char *const names[] = { "physical_package_id", "core_id" };
    long number[2] = { -1, -1 };

    for (int i = 0; i < 2; i++) {
        char path[128];
        FILE *file;

        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/topology/%s", cpu,
                 names[i]);
        file = fopen(path, "re");
        if (file == NULL)
            return -1;
        if (fscanf(file, "%ld", &number[i]) != 1)
            number[i] = -1;
        fclose(file);
    }
    return number[0] < 0 || number[1] < 0 ? -1 : number[0] * 65536 + number[1];
}

/* Chooses two CPUs from those allowed, on different cores where possible. */
static void choose_cpus(struct floors *floors, struct affinity a)
{
    bool found_a = false, found_b = false;
    long core_a = -1;

    floors->shared_core = false;
    floors->cpu_a = floors->cpu_b = 0;
    for (uint32_t cpu = 0; a.size != 0 && cpu < CPUS_MAX; cpu++) {
        if (!CPU_ISSET_S(cpu, a.size, a.set))
            continue;
        if (!found_a) {
            found_a = true;
            floors->cpu_a = floors->cpu_b = cpu;
            core_a = core_of(cpu);
        } else if (!found_b || floors->shared_core) {
            const bool shared = core_a >= 0 && core_of(cpu) == core_a;

            if (!found_b || !shared) {
                floors->cpu_b = cpu;
                floors->shared_core = shared;
            }
            found_b = true;
            if (!shared)
                break;
        }
    }
    floors->pinning = found_a && pin_self(floors->cpu_a);
    if (a.size != 0)
        (void)sched_setaffinity(0, a.size, a.set);
}

/* ---- pairs of threads --------------------------------------------------- */

struct pair;

/* How a side of a pair waits, and how it wakes the other. */
struct way {
    void (*wait_while)(_Atomic(uint32_t) *word, uint32_t old);
    void (*wake)(_Atomic(uint32_t) *word, spn_thread *sleeper);
};

/* Each word that travels has a line of its own; what only one side writes, or
 * nobody, stays off those. */
struct pair {
    alignas(64) _Atomic(uint32_t) call;   /* counts up; STOP ends it [call] */
    alignas(64) _Atomic(uint32_t) answer; /* the call answered last [answer] */
    alignas(64) int64_t woken_at_ns;      /* published by [answer] */
    alignas(64) const struct way *way;    /* this line is only read */
    bool timed;                           /* the partner notes woken_at_ns */
    spn_thread *caller;
    spn_thread *partner;
};

#define STOP UINT32_MAX

/* Without a pause instruction: that alone can take longer than the line. */
static void spin_while(_Atomic(uint32_t) *word, uint32_t old)
{
    int spins = 0;

    while (atomic_load_explicit(word, memory_order_acquire) == old) {
        if (++spins == SPINS_BEFORE_YIELD) {
            spins = 0;
            sched_yield();
        }
    }
}

static void spin_wake(_Atomic(uint32_t) *word, spn_thread *sleeper)
{
    (void)word;
    (void)sleeper;
}

static void futex_wait_while(_Atomic(uint32_t) *word, uint32_t old)
{
    while (atomic_load_explicit(word, memory_order_acquire) == old)
        (void)futex(word, FUTEX_WAIT, old);
}

static void futex_wake(_Atomic(uint32_t) *word, spn_thread *sleeper)
{
    (void)sleeper;
    (void)futex(word, FUTEX_WAKE, 1);
}

static void park_while(_Atomic(uint32_t) *word, uint32_t old)
{
    while (atomic_load_explicit(word, memory_order_acquire) == old)
        spn_park(word);
}

static void park_wake(_Atomic(uint32_t) *word, spn_thread *sleeper)
{
    (void)word;
    spn_unpark(sleeper);
}

static const struct way spinning = { spin_while, spin_wake };
static const struct way by_futex = { futex_wait_while, futex_wake };
static const struct way by_park = { park_while, park_wake };

static int partner_answers(void *arg)
{
    struct pair *p = arg;
    uint32_t seen = 0;

    for (;;) {
        p->way->wait_while(&p->call, seen); /* [call] */
        seen = atomic_load_explicit(&p->call, memory_order_acquire);
        if (p->timed)
            p->woken_at_ns = spn_now();
        if (seen == STOP)
            return 0;
        atomic_store_explicit(&p->answer, seen, memory_order_release); /* [answer] */
        p->way->wake(&p->answer, p->caller);
    }
}

/* Does nothing but occupy its CPU until told to stop. */
static int partner_runs(void *arg)
{
    struct pair *p = arg;

    atomic_store_explicit(&p->answer, 1, memory_order_release);
    while (atomic_load_explicit(&p->call, memory_order_relaxed) != STOP)
        spn__cpu_relax();
    return 0;
}

enum placement { FREE, SAME_CPU, OTHER_CPU };

/* Binds the caller and starts the partner; false and `unknown` set if not. */
static bool pair_start(struct pair *p, struct context *c, enum placement placement,
                       const struct way *way, bool timed, spn_thread_fn fn)
{
    spn_thread_opts opts = SPN_THREAD_OPTS_INIT;
    int status;

    *p = (struct pair){ .way = way, .timed = timed, .caller = spn_thread_current() };
    if (p->caller == NULL) {
        c->unknown = spn_status_text(SPN_ENOMEM);
        return false;
    }
    if (placement != FREE) {
        if (!c->pinning) {
            c->unknown = "threads cannot be pinned";
            return false;
        }
        if (placement == OTHER_CPU && c->cpu_a == c->cpu_b) {
            c->unknown = "needs two CPUs";
            return false;
        }
        opts.cpus = placement == SAME_CPU ? &c->cpu_a : &c->cpu_b;
        opts.cpu_count = 1;
        if (!pin_self(c->cpu_a)) {
            c->unknown = "threads cannot be pinned";
            return false;
        }
    }
    opts.name = "doctor";
    status = spn_thread_create(&p->partner, &opts, fn, p);
    if (status != SPN_OK) {
        c->unknown = spn_status_text(status);
        return false;
    }
    return true;
}

static void pair_stop(struct pair *p)
{
    atomic_store_explicit(&p->call, STOP, memory_order_release); /* [call] */
    p->way->wake(&p->call, p->partner);
    /* Nobody interrupts this thread, so the wait can only end well. */
    if (spn_thread_join(p->partner, SPN_FOREVER, NULL) != SPN_OK)
        abort();
    spn_thread_unref(p->partner);
}

static void pair_call(struct pair *p, uint32_t number)
{
    atomic_store_explicit(&p->call, number, memory_order_release); /* [call] */
    p->way->wake(&p->call, p->partner);
    p->way->wait_while(&p->answer, number - 1); /* [answer] */
}

static double round_trip(struct context *c, enum placement placement,
                         const struct way *way)
{
    struct pair p;
    uint32_t calls = 1;
    int64_t start_ns, now_ns;

    if (!pair_start(&p, c, placement, way, false, partner_answers))
        return 0;
    pair_call(&p, calls); /* once untimed: the partner may still be starting */
    start_ns = spn_now();
    do {
        /* Few enough that the slice holds on a slow machine, many enough that
         * reading the clock does not show beside 70 ns. */
        for (int i = 0; i < 16; i++)
            pair_call(&p, ++calls);
        now_ns = spn_now();
    } while (now_ns - start_ns < c->slice_ns && calls < STOP - 64);
    pair_stop(&p);
    return (double)(now_ns - start_ns) / (double)(calls - 1);
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof(values[0]), compare_doubles);
    return count % 2 != 0 ? values[count / 2]
                          : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static void sleep_ns(int64_t ns)
{
    const struct timespec span = { .tv_sec = ns / 1000000000,
                                   .tv_nsec = ns % 1000000000 };

    (void)nanosleep(&span, NULL);
}

/*
 * From just before the wake call to the first instruction of the thread that
 * slept.  A sample counts only when the wake found somebody asleep.
 */
static double wake_latency(struct context *c, enum placement placement, int64_t idle_ns)
{
    static double samples[SAMPLES_MAX];
    struct pair p;
    int count = 0, misses = 0;
    const int64_t end_ns = spn_now() + c->slice_ns;

    if (!pair_start(&p, c, placement, &by_futex, true, partner_answers))
        return 0;
    pair_call(&p, 1);
    for (uint32_t call = 2; count < SAMPLES_MAX && misses < MISSES_MAX; call++) {
        int64_t called_ns;
        long woken;

        sleep_ns(idle_ns);
        atomic_store_explicit(&p.call, call, memory_order_release); /* [call] */
        called_ns = spn_now();
        woken = futex(&p.call, FUTEX_WAKE, 1);
        futex_wait_while(&p.answer, call - 1); /* [answer] */
        if (woken == 1)
            samples[count++] = (double)(p.woken_at_ns - called_ns);
        else
            misses++;
        if (count >= 3 && spn_now() >= end_ns)
            break;
    }
    pair_stop(&p);
    if (count == 0) {
        c->unknown = "the partner was never found asleep";
        return 0;
    }
    return median(samples, count);
}

static double fence_heavy_busy(struct context *c)
{
    struct pair p;
    double ns;

    if (!pair_start(&p, c, OTHER_CPU, &spinning, false, partner_runs))
        return 0;
    spin_while(&p.answer, 0); /* until it runs */
    ns = fence_heavy(c);
    pair_stop(&p);
    return ns;
}

/* One line goes back and forth: odd numbers are the caller's, even ones the
 * partner's. */
static int partner_returns_line(void *arg)
{
    struct pair *p = arg;

    for (uint32_t next = 1;; next += 2) {
        uint32_t found;
        int spins = 0;

        while ((found = atomic_load_explicit(&p->call, memory_order_acquire)) != next) {
            if (found == STOP)
                return 0;
            if (++spins % SPINS_BEFORE_YIELD == 0)
                sched_yield();
        }
        atomic_store_explicit(&p->call, next + 1, memory_order_release);
    }
}

static double line_round_trip(struct context *c)
{
    struct pair p;
    uint32_t number = 0;
    int64_t start_ns, now_ns;

    if (!pair_start(&p, c, OTHER_CPU, &spinning, false, partner_returns_line))
        return 0;
    atomic_store_explicit(&p.call, ++number, memory_order_release);
    spin_while(&p.call, number++); /* until it runs */
    start_ns = spn_now();
    do {
        for (int i = 0; i < 100; i++) {
            atomic_store_explicit(&p.call, ++number, memory_order_release);
            spin_while(&p.call, number++);
        }
        now_ns = spn_now();
    } while (now_ns - start_ns < c->slice_ns && number < STOP - 1000);
    pair_stop(&p);
    return (double)(now_ns - start_ns) / ((double)(number - 2) / 2);
}
static double wake_same_cpu(struct context *c)
{
    return wake_latency(c, SAME_CPU, IDLE_SHORT_NS);
}
static double wake_other_cpu(struct context *c)
{
    return wake_latency(c, OTHER_CPU, IDLE_SHORT_NS);
}
static double wake_idle_cpu(struct context *c)
{
    return wake_latency(c, OTHER_CPU, IDLE_LONG_NS);
}
static double futex_free(struct context *c)
{
    return round_trip(c, FREE, &by_futex);
}
static double futex_same_cpu(struct context *c)
{
    return round_trip(c, SAME_CPU, &by_futex);
}
static double futex_other_cpu(struct context *c)
{
    return round_trip(c, OTHER_CPU, &by_futex);
}
static double park_free(struct context *c)
{
    return round_trip(c, FREE, &by_park);
}
static double park_other_cpu(struct context *c)
{
    return round_trip(c, OTHER_CPU, &by_park);
}

/* ---- all of them -------------------------------------------------------- */

static const struct {
    const char *key;
    const char *what;
    double (*run)(struct context *c); /* ns per operation */
} table[FLOOR_COUNT] = {
    [FLOOR_CLOCK_READ] = { "clock_read", "read the clock", clock_read },
    [FLOOR_ATOMIC_ADD] = { "atomic_add", "atomic add, uncontended", atomic_add },
    [FLOOR_STORE_FENCE] = { "store_fence", "store, then a full fence", store_fence },
    [FLOOR_FENCE_LIGHT] = { "fence_light", "store, then a light fence", fence_light },
    [FLOOR_FENCE_HEAVY] = { "fence_heavy", "heavy fence, other threads asleep",
                            fence_heavy },
    [FLOOR_FENCE_HEAVY_BUSY] = { "fence_heavy_busy",
                                 "heavy fence, another thread running",
                                 fence_heavy_busy },
    [FLOOR_MALLOC_FREE] = { "malloc_free", "malloc and free, 64 bytes", malloc_free },
    [FLOOR_NULL_SYSCALL] = { "null_syscall", "system call that does nothing",
                             null_syscall },
    [FLOOR_WAKE_NOBODY] = { "wake_nobody", "futex wake, nobody asleep", wake_nobody },
    [FLOOR_LINE_ROUND_TRIP] = { "line_round_trip", "cache line to another CPU and back",
                                line_round_trip },
    [FLOOR_WAKE_SAME_CPU] = { "wake_same_cpu", "wake to running, same CPU",
                              wake_same_cpu },
    [FLOOR_WAKE_OTHER_CPU] = { "wake_other_cpu", "wake to running, CPU idle for 0.1 ms",
                               wake_other_cpu },
    [FLOOR_WAKE_IDLE_CPU] = { "wake_idle_cpu", "wake to running, CPU idle for 2 ms",
                              wake_idle_cpu },
    [FLOOR_FUTEX_FREE] = { "futex_free", "futex round trip, free to move", futex_free },
    [FLOOR_FUTEX_SAME_CPU] = { "futex_same_cpu", "futex round trip, one CPU",
                               futex_same_cpu },
    [FLOOR_FUTEX_OTHER_CPU] = { "futex_other_cpu", "futex round trip, two CPUs",
                                futex_other_cpu },
    [FLOOR_PARK_FREE] = { "park_free", "park/unpark round trip, free to move",
                          park_free },
    [FLOOR_PARK_OTHER_CPU] = { "park_other_cpu", "park/unpark round trip, two CPUs",
                               park_other_cpu },
    [FLOOR_THREAD] = { "thread", "create a thread and join it", create_and_join },
};

static void measure_one(struct floor *floor, struct context *c, struct affinity home,
                        int id, int repeats)
{
    double values[REPEATS];

    *floor = (struct floor){ .key = table[id].key, .what = table[id].what };
    c->unknown = NULL;
    for (int i = -1; i < repeats && c->unknown == NULL; i++) {
        const double ns = table[id].run(c);

        if (i >= 0) /* the first call warms up */
            values[i] = ns;
        /* A pair pins its caller. */
        if (home.size != 0)
            (void)sched_setaffinity(0, home.size, home.set);
    }
    floor->unknown = c->unknown;
    if (c->unknown != NULL)
        return;
    floor->repeats = repeats;
    floor->median_ns = median(values, repeats); /* sorts */
    floor->min_ns = values[0];
    floor->max_ns = values[repeats - 1];
}

void measure_floors(struct floors *floors, bool quick, measure_progress_fn progress,
                    void *ctx)
{
    const struct affinity home = affinity_get();
    struct context c = { .slice_ns = quick ? SLICE_QUICK_NS : SLICE_NS };

    choose_cpus(floors, home);
    c.pinning = floors->pinning;
    c.cpu_a = floors->cpu_a;
    c.cpu_b = floors->cpu_b;
    for (int id = 0; id < FLOOR_COUNT; id++) {
        progress(ctx, id + 1, FLOOR_COUNT, table[id].what);
        measure_one(&floors->of[id], &c, home, id, quick ? REPEATS_QUICK : REPEATS);
    }
    floors->thread_works = floors->of[FLOOR_THREAD].unknown == NULL;
    affinity_free(home);
}
