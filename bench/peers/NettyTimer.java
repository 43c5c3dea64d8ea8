// SPDX-License-Identifier: MIT

import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import java.util.concurrent.TimeUnit;

/** Netty's wheel for TimerPeer: tick 1 ms, 512 slots. */
final class NettyTimer implements TimerPeer.Timers {
    private final HashedWheelTimer wheel =
        new HashedWheelTimer(1, TimeUnit.MILLISECONDS, 512);

    static TimerPeer.Timers make() {
        return new NettyTimer();
    }

    @Override
    public Object add(Runnable task, long delayNs) {
        return wheel.newTimeout(timeout -> task.run(), delayNs, TimeUnit.NANOSECONDS);
    }

    @Override
    public void cancel(Object handle) {
        ((Timeout) handle).cancel();
    }
}
