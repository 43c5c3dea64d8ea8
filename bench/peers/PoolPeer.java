/* SPDX-License-Identifier: MIT */
/*
 * Java's pools doing the work pool_load.h tells of.
 *
 *   java PoolPeer WORKLOAD executor|fork-join PRODUCERS WORKERS COUNT LIMIT_MS CPU CPU
 *
 * In W1 whole passes come first, elsewhere some rounds, until the loops have had time to
 * be compiled.  Prints what bench_exec expects.
 */
import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Arrays;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLongArray;

public final class PoolPeer {
    static final int ANSWER = 42, ASK_CHUNK = 50, WAKE_WARM_UP = 50;
    static final long WARM_UP_NS = 700_000_000L;

    static final OperatingSystemMXBean system =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    static final ThreadMXBean threads = ManagementFactory.getThreadMXBean();

    /* The time of the process counts the collector and the compiler too, but in
     * ticks of 10 ms; that of the threads is exact, for those that live.  The larger
     * is nearer. */
    static final class Cpu {
        final long processNs = system.getProcessCpuTime(), threadsNs = ofThreads();

        static long ofThreads() {
            long sum = 0;

            for (long id : threads.getAllThreadIds())
                sum += Math.max(0, threads.getThreadCpuTime(id)); /* -1: gone */
            return sum;
        }

        /* Since it was made; goneNs is what threads that ended since have used. */
        long since(long goneNs) {
            return Math.max(system.getProcessCpuTime() - processNs,
                            ofThreads() - threadsNs + goneNs);
        }
    }

    static ExecutorService create(String kind, int workers) throws Exception {
        ExecutorService pool = kind.equals("fork-join")
            ? new ForkJoinPool(workers)
            : new ThreadPoolExecutor(workers, workers, 0, TimeUnit.SECONDS,
                                     new LinkedBlockingQueue<>());
        CyclicBarrier met = new CyclicBarrier(workers + 1);

        for (int i = 0; i < workers; i++)
            pool.execute(() -> {
                try {
                    met.await();
                } catch (Exception e) {
                    throw new IllegalStateException(e);
                }
            });
        met.await();
        return pool;
    }

    /* ---- what tasks do ------------------------------------------------------ */

    /* The counter in the middle of an array has its cache lines to itself. */
    static final class Tally implements Runnable {
        static final int MIDDLE = 32;
        final AtomicLongArray done = new AtomicLongArray(2 * MIDDLE);
        final long target;
        final CountDownLatch end = new CountDownLatch(1);
        volatile long endNs;

        Tally(long target) {
            this.target = target;
        }

        @Override
        public void run() {
            if (done.incrementAndGet(MIDDLE) == target) {
                endNs = System.nanoTime();
                end.countDown();
            }
        }
    }

    static void spray(ExecutorService pool, Runnable task, long count) {
        for (long left = count; left > 0; left--)
            pool.execute(task);
    }

    /* ---- the workloads --------------------------------------------------------- */

    static long wallNs, cpuNs; /* of the last pass */

    static void sprayPass(ExecutorService pool, int producers, long count) throws Exception {
        Tally tally = new Tally(count / producers * producers);
        CountDownLatch ready = new CountDownLatch(producers), go = new CountDownLatch(1);
        Thread[] lanes = new Thread[producers];
        long[] beginNs = new long[producers], usedNs = new long[producers];
        Cpu cpu;

        for (int i = 0; i < producers; i++) {
            int index = i;

            lanes[i] = new Thread(() -> {
                try {
                    ready.countDown();
                    go.await();
                    beginNs[index] = System.nanoTime();
                    spray(pool, tally, count / producers);
                    usedNs[index] = threads.getCurrentThreadCpuTime();
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                }
            });
            lanes[i].start();
        }
        ready.await();
        cpu = new Cpu();
        go.countDown();
        for (Thread lane : lanes)
            lane.join();
        tally.end.await();
        cpuNs = cpu.since(Arrays.stream(usedNs).sum());
        wallNs = tally.endNs - Arrays.stream(beginNs).min().getAsLong();
    }

    static void w1(ExecutorService pool, int producers, long count) throws Exception {
        long beginNs = System.nanoTime();

        do
            sprayPass(pool, producers, count);
        while (System.nanoTime() - beginNs < WARM_UP_NS);
        sprayPass(pool, producers, count);
        System.out.printf("value ns_per_task %.3f%n", (double) wallNs / count);
        System.out.printf("value cpu_ns_per_task %.3f%n", (double) cpuNs / count);
    }

    static long ask(ExecutorService pool, int count) throws Exception {
        Callable<Integer> task = () -> ANSWER;
        long sum = 0;

        for (int i = 0; i < count; i++)
            sum += pool.submit(task).get();
        return sum;
    }

    static void w2(ExecutorService pool, long count, long limitNs) throws Exception {
        long asked = 0, sum = 0, beginNs = System.nanoTime();
        Cpu cpu;

        while (System.nanoTime() - beginNs < WARM_UP_NS)
            ask(pool, ASK_CHUNK);
        cpu = new Cpu();
        beginNs = System.nanoTime();
        while (asked < count && System.nanoTime() - beginNs < limitNs) {
            sum += ask(pool, ASK_CHUNK);
            asked += ASK_CHUNK;
        }
        wallNs = System.nanoTime() - beginNs;
        cpuNs = cpu.since(0);
        if (sum != asked * ANSWER)
            throw new IllegalStateException("a wrong answer");
        System.out.printf("value ns_per_round_trip %.3f%n", (double) wallNs / asked);
        System.out.printf("value cpu_ns_per_round_trip %.3f%n", (double) cpuNs / asked);
    }

    static volatile long startedNs;

    static void w3(ExecutorService pool, int count) throws Exception {
        long[] times = new long[count];
        long offset = System.nanoTime() - 1; /* so that no stamp is 0 */
        Cpu cpu = null;
        Runnable stamp = () -> startedNs = System.nanoTime() - offset;

        for (int i = -WAKE_WARM_UP; i < count; i++) {
            long sentNs;

            if (i == 0)
                cpu = new Cpu();
            startedNs = 0;
            Thread.sleep(1);
            sentNs = System.nanoTime() - offset;
            pool.execute(stamp);
            while (startedNs == 0)
                Thread.sleep(0, 50_000);
            if (i >= 0)
                times[i] = startedNs - sentNs;
        }
        cpuNs = cpu.since(0);
        Arrays.sort(times);
        System.out.printf("value p50_ns %d%n", times[count / 2]);
        System.out.printf("value p99_ns %d%n", times[count * 99 / 100]);
        System.out.printf("value cpu_p50_ns %.3f%n", (double) cpuNs / count);
    }

    static long heapBytes() {
        System.gc();
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }

    /* As a task that is about something has to be: its object is part of it. */
    static final class Task implements Runnable {
        final Tally tally;

        Task(Tally tally) {
            this.tally = tally;
        }

        @Override
        public void run() {
            tally.run();
        }
    }

    static void w6(ExecutorService pool, long count) throws Exception {
        Semaphore held = new Semaphore(0), gate = new Semaphore(0);
        Tally tally = new Tally(count);
        long before, bytes;

        pool.execute(() -> {
            held.release();
            gate.acquireUninterruptibly();
        });
        held.acquire();
        before = heapBytes();
        for (long left = count; left > 0; left--)
            pool.execute(new Task(tally));
        bytes = heapBytes() - before;
        gate.release();
        tally.end.await();
        System.out.printf("value bytes_per_task %.3f%n", (double) bytes / count);
    }

    public static void main(String[] args) throws Exception {
        int producers = Integer.parseInt(args[2]), workers = Integer.parseInt(args[3]);
        int count = Integer.parseInt(args[4]);
        ExecutorService pool = create(args[1], workers);

        switch (args[0]) {
        case "W1":
            w1(pool, producers, count);
            break;
        case "W2":
            w2(pool, count, Long.parseLong(args[5]) * 1_000_000);
            break;
        case "W3":
            w3(pool, count);
            break;
        case "W6":
            w6(pool, count);
            break;
        default:
            throw new IllegalArgumentException(args[0]);
        }
        pool.shutdown();
    }
}
