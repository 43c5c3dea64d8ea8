// SPDX-License-Identifier: MIT

import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Timers on the JVM doing the work timer_load.h tells of; arguments as timer_peer.c, with
 * the kind of timer first: stpe (one thread, two for T5, removing what is cancelled) or
 * netty (its wheel, tick 1 ms, 512 slots).
 */
final class TimerPeer {
    interface Timers {
        Object add(Runnable task, long delayNs);

        void cancel(Object handle);
    }

    private static final class Pool implements Timers {
        private final ScheduledThreadPoolExecutor pool;

        Pool(int threads) {
            pool = new ScheduledThreadPoolExecutor(threads);
            pool.setRemoveOnCancelPolicy(true);
            pool.prestartAllCoreThreads();
        }

        @Override
        public Object add(Runnable task, long delayNs) {
            return pool.schedule(task, delayNs, TimeUnit.NANOSECONDS);
        }

        @Override
        public void cancel(Object handle) {
            ((java.util.concurrent.ScheduledFuture<?>) handle).cancel(false);
        }
    }

    private static final Runnable NOTHING = () -> { };

    private static long random(long x) {
        x ^= x << 13;
        x ^= x >>> 7;
        x ^= x << 17;
        return x;
    }

    private static long delay(long r) {
        return 1000000000L + (((r >>> 32) * 59000) >>> 32) * 1000000L;
    }

    private static double cpuSeconds() {
        return ((com.sun.management.OperatingSystemMXBean)
                ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime() / 1e9;
    }

    private static long switches() throws Exception {
        long sum = 0;
        try (var tasks = Files.list(Path.of("/proc/self/task"))) {
            for (Path task : (Iterable<Path>) tasks::iterator) {
                for (String line : Files.readAllLines(task.resolve("status"))) {
                    if (line.startsWith("voluntary_ctxt_switches:")) {
                        sum += Long.parseLong(line.substring(24).trim());
                    }
                }
            }
        }
        return sum;
    }

    private static void value(String metric, double number) {
        System.out.printf(java.util.Locale.ROOT, "value %s %.6f%n", metric, number);
    }

    private static void churn(Timers timers, int threads, int pending, int pairs)
            throws Exception {
        long[] trips = new long[2]; // when all had arrived
        int[] trip = new int[1];
        CyclicBarrier barrier = new CyclicBarrier(threads + 1,
            () -> trips[trip[0]++] = System.nanoTime());
        Thread[] all = new Thread[threads];
        for (int t = 0; t < threads; t++) {
            final long start = 88172645463325252L + t;
            all[t] = new Thread(() -> {
                long seed = start;
                int count = pending / threads;
                Object[] handles = new Object[count];
                for (int i = 0; i < count; i++) {
                    seed = random(seed);
                    handles[i] = timers.add(NOTHING, delay(seed));
                }
                try {
                    for (int pass = 0; pass < 2; pass++) {
                        int todo = pass == 0 ? pairs / 4 : pairs / threads;
                        for (int i = 0; i < todo; i++) {
                            seed = random(seed);
                            int r = (int) (((seed >>> 32) * count) >>> 32);
                            seed = random(seed);
                            Object fresh = timers.add(NOTHING, delay(seed));
                            timers.cancel(handles[r]);
                            handles[r] = fresh;
                        }
                        barrier.await();
                    }
                } catch (Exception e) {
                    throw new IllegalStateException(e);
                }
            });
            all[t].start();
        }
        barrier.await();
        double cpu = cpuSeconds();
        barrier.await();
        long wall = trips[1] - trips[0];
        value("ns_per_pair", (double) wall / pairs);
        value("cpu_ns_per_pair", (cpuSeconds() - cpu) * 1e9 / pairs);
    }

    private static void shoot(Timers timers, int count) throws Exception {
        long[] late = new long[count];
        CountDownLatch done = new CountDownLatch(1);
        AtomicInteger left = new AtomicInteger(count);
        long seed = 88172645463325252L;
        double cpu = cpuSeconds();
        long begun = System.nanoTime();
        for (int i = 0; i < count; i++) {
            final int index = i;
            seed = random(seed);
            long delayNs = (100 + (((seed >>> 32) * 1901) >>> 32)) * 1000000L;
            final long due = System.nanoTime() + delayNs;
            timers.add(() -> {
                late[index] = System.nanoTime() - due;
                if (left.decrementAndGet() == 0) {
                    done.countDown();
                }
            }, delayNs);
        }
        value("insert_ns", (double) (System.nanoTime() - begun) / count);
        done.await();
        double spent = cpuSeconds() - cpu;
        Arrays.sort(late);
        int early = 0;
        while (early < count && late[early] < 0) {
            early++;
        }
        value("p99_us", late[(int) (count * 99L / 100)] / 1e3);
        value("p50_us", late[count / 2] / 1e3);
        value("p999_us", late[(int) (count * 999L / 1000)] / 1e3);
        value("max_us", late[count - 1] / 1e3);
        value("early", early);
        value("cpu_s", spent);
    }

    private static void insert(Timers timers, int count) throws Exception {
        CountDownLatch done = new CountDownLatch(1);
        AtomicInteger left = new AtomicInteger(count);
        Runnable task = () -> {
            if (left.decrementAndGet() == 0) {
                done.countDown();
            }
        };
        long seed = 88172645463325252L;
        double cpu = cpuSeconds();
        long begun = System.nanoTime();
        for (int i = 0; i < count; i++) {
            seed = random(seed);
            timers.add(task, ((seed >>> 32) * 1000000000L) >>> 32);
        }
        value("insert_ns", (double) (System.nanoTime() - begun) / count);
        done.await();
        value("cpu_s", cpuSeconds() - cpu);
    }

    private static Object[] fill(Timers timers, int count, long farNs) {
        Object[] handles = new Object[count];
        for (int i = 0; i < count; i++) {
            handles[i] = timers.add(NOTHING, farNs + i * 1000L);
        }
        return handles;
    }

    private static void await(Timers timers, int count, int ms, boolean t6) throws Exception {
        Object[] handles = fill(timers, count, 3600L * 1000000000L);
        Thread.sleep(1000);
        double cpu = cpuSeconds();
        long before = switches();
        Thread.sleep(ms);
        double spent = cpuSeconds() - cpu;
        if (t6) {
            value("cpu_ms_per_s", spent * 1e6 / ms);
        } else {
            value("wakeups_per_s", (switches() - before) * 1000.0 / ms);
            value("cpu_ms", spent * 1e3);
        }
        if (handles.length != count) {
            throw new IllegalStateException();
        }
    }

    private static double heap() throws Exception {
        for (int i = 0; i < 3; i++) {
            System.gc();
            Thread.sleep(50);
        }
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }

    public static void main(String[] args) throws Exception {
        Timers timers = args[0].equals("netty") ? NettyTimer.make() : new Pool(args[1].equals("T5") ? 2 : 1);
        int[] n = new int[3];
        for (int i = 0; i < 3 && i + 2 < args.length; i++) {
            n[i] = Integer.parseInt(args[i + 2]);
        }
        switch (args[1]) {
            case "T1":
                churn(timers, n[0], n[1], n[2]);
                break;
            case "T2":
                shoot(timers, n[0]);
                break;
            case "T3":
                await(timers, n[0], n[1], false);
                break;
            case "T4":
                double before = heap();
                Object[] handles = fill(timers, n[0], 600L * 1000000000L);
                value("bytes_per_timer", (heap() - before - 4.0 * handles.length) / n[0]);
                break;
            case "T5":
                insert(timers, n[0]);
                break;
            case "T6":
                await(timers, n[0], n[1], true);
                break;
            default:
                System.exit(2);
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
