/* SPDX-License-Identifier: MIT */
/*
 * Java's blocking queues doing the work queue_pass.h tells of.
 *
 *   java QueuePeer METRIC array|linked|synchronous|synchronous-fair SIDE ITEMS WARM_UP
 *
 * SIDE producers and as many consumers.  Passes of WARM_UP items come first, until
 * the loops have had time to be compiled.  Prints what bench_exec expects.
 */
import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.SynchronousQueue;

public final class QueuePeer {
    static final int CAPACITY = 1024, SLOTS = 2048;
    static final long WARM_UP_NS = 700_000_000L;
    static final int WARM_UP_PASSES = 2;

    static final class Item {
        final int slot;

        Item(int slot) {
            this.slot = slot;
        }
    }

    static final Item[] items = new Item[SLOTS];

    /* One thread's share; the loops are methods so that all passes run what was
     * compiled for the ones before. */
    static final class Lane extends Thread {
        final BlockingQueue<Item> queue;
        final CountDownLatch ready, go;
        final boolean produces;
        final long count;
        final int first, stride;
        final int[] seen = new int[SLOTS];
        long beginNs, endNs, cpuNs;
        Exception failure;

        Lane(BlockingQueue<Item> queue, CountDownLatch ready, CountDownLatch go,
             boolean produces, long count, int first, int stride) {
            this.queue = queue;
            this.ready = ready;
            this.go = go;
            this.produces = produces;
            this.count = count;
            this.first = first;
            this.stride = stride;
        }

        @Override
        public void run() {
            try {
                ready.countDown();
                go.await();
                beginNs = System.nanoTime();
                if (produces)
                    produce(queue, count, first, stride);
                else
                    consume(queue, count, seen);
                endNs = System.nanoTime();
                cpuNs = threads.getCurrentThreadCpuTime();
            } catch (Exception e) {
                failure = e;
            }
        }
    }

    static void produce(BlockingQueue<Item> queue, long count, int slot, int stride)
            throws InterruptedException {
        for (long left = count; left > 0; left--) {
            queue.put(items[slot]);
            slot = (slot + stride) % SLOTS;
        }
    }

    static void consume(BlockingQueue<Item> queue, long count, int[] seen)
            throws InterruptedException {
        for (long left = count; left > 0; left--)
            seen[queue.take().slot]++;
    }

    static final ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    static final OperatingSystemMXBean system =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    static long wallNs, cpuNs; /* of the last pass */

    /* The time of the process counts the collector and the compiler too, but in
     * ticks of 10 ms; that of the threads is exact.  The larger is nearer. */
    static void pass(BlockingQueue<Item> queue, int side, long count) throws Exception {
        CountDownLatch ready = new CountDownLatch(2 * side), go = new CountDownLatch(1);
        Lane[] lanes = new Lane[2 * side];
        long firstNs = Long.MAX_VALUE, lastNs = Long.MIN_VALUE, threadsNs = 0;

        for (int i = 0; i < 2 * side; i++) {
            lanes[i] = new Lane(queue, ready, go, i < side, count / side, i, side);
            lanes[i].start();
        }
        ready.await();
        cpuNs = system.getProcessCpuTime();
        go.countDown();
        for (Lane lane : lanes)
            lane.join();
        cpuNs = system.getProcessCpuTime() - cpuNs;
        for (Lane lane : lanes) {
            if (lane.failure != null)
                throw lane.failure;
            threadsNs += lane.cpuNs;
            if (lane.produces)
                firstNs = Math.min(firstNs, lane.beginNs);
            else
                lastNs = Math.max(lastNs, lane.endNs);
        }
        wallNs = lastNs - firstNs;
        cpuNs = Math.max(cpuNs, threadsNs);
        for (int slot = 0; slot < SLOTS; slot++) {
            long sent = count / SLOTS + (slot < count % SLOTS ? 1 : 0), arrived = 0;

            for (Lane lane : lanes)
                arrived += lane.seen[slot];
            if (arrived != sent) {
                System.out.println("fail " + arrived + " items came of " + sent);
                System.out.flush();
                Runtime.getRuntime().halt(1);
            }
        }
    }

    static BlockingQueue<Item> create(String kind) {
        switch (kind) {
        case "array":
            return new ArrayBlockingQueue<>(CAPACITY);
        case "linked":
            return new LinkedBlockingQueue<>(CAPACITY);
        case "synchronous":
            return new SynchronousQueue<>(false);
        case "synchronous-fair":
            return new SynchronousQueue<>(true);
        default:
            throw new IllegalArgumentException(kind);
        }
    }

    public static void main(String[] args) throws Exception {
        BlockingQueue<Item> queue = create(args[1]);
        int side = Integer.parseInt(args[2]);
        long count = Long.parseLong(args[3]), warmUp = Long.parseLong(args[4]);
        long beginNs = System.nanoTime();

        for (int slot = 0; slot < SLOTS; slot++)
            items[slot] = new Item(slot);
        for (int i = 0; i < WARM_UP_PASSES || System.nanoTime() - beginNs < WARM_UP_NS; i++)
            pass(queue, side, warmUp);
        pass(queue, side, count);
        System.out.printf("value %s %.3f%n", args[0], (double) wallNs / count);
        System.out.printf("value cpu_%s %.3f%n", args[0], (double) cpuNs / count);
    }
}
