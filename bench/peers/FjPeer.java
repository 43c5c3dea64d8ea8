/* SPDX-License-Identifier: MIT */
/*
 * Java's ForkJoinPool doing the work fj_load.h tells of.  What is computed is that of
 * fj_kernel.h, in Java.
 *
 *   java FjPeer W4|W5|W7|W8 fork-join WORKERS COUNT
 *
 * Smaller pieces of the same work come first, until they have had time to be compiled.
 * Prints what bench_exec expects.
 */
import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.RecursiveAction;
import java.util.function.LongSupplier;

public final class FjPeer {
    static final int SORT_CUTOFF = 2048, INSERTION_MAX = 32, HASH_ROUNDS = 32, TREE_FAN = 8;
    static final int FIB_WARM_UP = 4, WARM_UP_PART = 5, ROOTS_FULL = 2000, ROOTS_WARM_UP = 41;
    static final long WARM_UP_NS = 700_000_000L, TREE_SEED = 40;
    static final long GAMMA = 0x9e3779b97f4a7c15L, FERTILE = 2302153660398951936L;

    static final OperatingSystemMXBean system =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    static final ThreadMXBean threads = ManagementFactory.getThreadMXBean();

    static ForkJoinPool pool;

    /* The time of the process counts the collector and the compiler too, but in ticks of
     * 10 ms; that of the threads is exact, for those that live.  The larger is nearer. */
    static final class Cpu {
        final long processNs = system.getProcessCpuTime(), threadsNs = ofThreads();

        static long ofThreads() {
            long sum = 0;

            for (long id : threads.getAllThreadIds())
                sum += Math.max(0, threads.getThreadCpuTime(id)); /* -1: gone */
            return sum;
        }

        long sinceNs() {
            return Math.max(system.getProcessCpuTime() - processNs,
                            ofThreads() - threadsNs);
        }
    }

    /* Times work, which returns how many operations it did. */
    static void timed(String metric, LongSupplier work) {
        Cpu cpu = new Cpu();
        long beginNs = System.nanoTime();
        double operations = work.getAsLong();
        long wallNs = System.nanoTime() - beginNs, cpuNs = cpu.sinceNs();

        System.out.printf("value %s %.6f%n", metric, wallNs / operations);
        System.out.printf("value cpu_%s %.6f%n", metric, cpuNs / operations);
    }

    static void check(boolean ok) {
        if (!ok)
            throw new IllegalStateException("a wrong result");
    }

    static void warmUp(Runnable work) {
        long beginNs = System.nanoTime();

        do
            work.run();
        while (System.nanoTime() - beginNs < WARM_UP_NS);
    }

    /* ---- W4 ------------------------------------------------------------------ */

    static final class Fib extends RecursiveAction {
        private static final long serialVersionUID = 1;
        final int n;
        long result;

        Fib(int n) {
            this.n = n;
        }

        @Override
        protected void compute() {
            if (n < 2) {
                result = n;
                return;
            }
            Fib x = new Fib(n - 1), y = new Fib(n - 2);

            x.fork();
            y.compute();
            x.join();
            result = x.result + y.result;
        }
    }

    static long fib(int n) {
        Fib task = new Fib(n);

        pool.invoke(task);
        check(task.result == fibNumber(n));
        return task.result;
    }

    static long fibNumber(int n) {
        long a = 0, b = 1;

        while (n-- > 0) {
            long sum = a + b;

            a = b;
            b = sum;
        }
        return a;
    }

    static void w4(int n) {
        warmUp(() -> fib(n - FIB_WARM_UP));
        timed("ns_per_spawn", () -> {
            fib(n);
            return fibNumber(n + 1) - 1;
        });
    }

    /* ---- W5 ------------------------------------------------------------------ */

    static long mix(long x) {
        x = (x ^ (x >>> 30)) * 0xbf58476d1ce4e5b9L;
        x = (x ^ (x >>> 27)) * 0x94d049bb133111ebL;
        return x ^ (x >>> 31);
    }

    /* Java's int has a sign: without the highest bit the order is that of C. */
    static void fill(int[] a) {
        for (int i = 0; i < a.length; i++)
            a[i] = (int) (mix(i * GAMMA) >>> 33);
    }

    static void merge(int[] to, int[] from, int begin, int middle, int end) {
        int i = begin, j = middle, k = begin;

        while (i < middle && j < end)
            to[k++] = from[j] < from[i] ? from[j++] : from[i++];
        System.arraycopy(from, i, to, k, middle - i);
        System.arraycopy(from, j, to, k + middle - i, end - j);
    }

    static void sequentialSort(int[] a, int[] t, int begin, int end, boolean intoT) {
        int middle = (begin + end) >>> 1;

        if (end - begin <= INSERTION_MAX) {
            for (int i = begin + 1; i < end; i++) {
                int x = a[i], j = i;

                for (; j > begin && a[j - 1] > x; j--)
                    a[j] = a[j - 1];
                a[j] = x;
            }
            if (intoT)
                System.arraycopy(a, begin, t, begin, end - begin);
            return;
        }
        sequentialSort(a, t, begin, middle, !intoT);
        sequentialSort(a, t, middle, end, !intoT);
        merge(intoT ? t : a, intoT ? a : t, begin, middle, end);
    }

    static final class Sort extends RecursiveAction {
        private static final long serialVersionUID = 1;
        final transient int[] a, t;
        final int begin, end;
        final boolean intoT;

        Sort(int[] a, int[] t, int begin, int end, boolean intoT) {
            this.a = a;
            this.t = t;
            this.begin = begin;
            this.end = end;
            this.intoT = intoT;
        }

        @Override
        protected void compute() {
            int middle = (begin + end) >>> 1;

            if (end - begin <= SORT_CUTOFF) {
                sequentialSort(a, t, begin, end, intoT);
                return;
            }
            Sort low = new Sort(a, t, begin, middle, !intoT);
            Sort high = new Sort(a, t, middle, end, !intoT);

            low.fork();
            high.compute();
            low.join();
            merge(intoT ? t : a, intoT ? a : t, begin, middle, end);
        }
    }

    static long sumOf(int[] a) {
        long sum = 0;

        for (int x : a)
            sum += x;
        return sum;
    }

    static void w5(int count) {
        int[] a = new int[count], t = new int[count];

        warmUp(() -> {
            fill(a);
            pool.invoke(new Sort(a, t, 0, count / WARM_UP_PART, false));
        });
        fill(a);
        long sum = sumOf(a);
        timed("ms", () -> {
            pool.invoke(new Sort(a, t, 0, count, false));
            return 1_000_000;
        });
        for (int i = 1; i < count; i++)
            check(a[i - 1] <= a[i]);
        check(sumOf(a) == sum);
    }

    /* ---- W7 ------------------------------------------------------------------ */

    static long child(long node, long index) {
        long x = node + (index + 1) * GAMMA;

        for (int i = 0; i < HASH_ROUNDS; i++)
            x = mix(x + GAMMA);
        return x;
    }

    static long visitAll(long node, int children) {
        Visit[] tasks = new Visit[children];
        long nodes = 0;

        for (int i = children - 1; i > 0; i--) {
            tasks[i] = new Visit(node, i);
            tasks[i].fork();
        }
        tasks[0] = new Visit(node, 0);
        tasks[0].compute();
        for (Visit task : tasks) {
            if (task != tasks[0])
                task.join();
            nodes += task.nodes;
        }
        return nodes;
    }

    static final class Visit extends RecursiveAction {
        private static final long serialVersionUID = 1;
        final long parent;
        final int index;
        long nodes;

        Visit(long parent, int index) {
            this.parent = parent;
            this.index = index;
        }

        @Override
        protected void compute() {
            long node = child(parent, index);

            nodes = 1;
            if (Long.compareUnsigned(node, FERTILE) < 0)
                nodes += visitAll(node, TREE_FAN);
        }
    }

    static long search(int roots) {
        long nodes = pool.submit(() -> visitAll(TREE_SEED, roots)).join();

        check(roots != ROOTS_FULL || nodes == 2038992);
        check(roots != ROOTS_WARM_UP || nodes == 3953);
        return nodes;
    }

    static void w7(int roots) {
        warmUp(() -> search(ROOTS_WARM_UP));
        timed("ns_per_node", () -> search(roots));
    }

    static void w8(int ms) throws InterruptedException {
        search(ROOTS_FULL);
        Thread.sleep(1);
        Cpu cpu = new Cpu();
        Thread.sleep(ms);
        System.out.printf("value cpu_ms_per_s %.6f%n", cpu.sinceNs() / 1e3 / ms);
    }

    public static void main(String[] args) throws InterruptedException {
        int count = Integer.parseInt(args[3]);

        pool = new ForkJoinPool(Integer.parseInt(args[2]));
        switch (args[0]) {
        case "W4":
            w4(count);
            break;
        case "W5":
            w5(count);
            break;
        case "W7":
            w7(count);
            break;
        case "W8":
            w8(count);
            break;
        default:
            throw new IllegalArgumentException(args[0]);
        }
        pool.shutdown();
    }
}
