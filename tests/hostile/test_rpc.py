#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
test_rpc.py PROGRAM [--full] [--off] [--long] [--sanitized] [--only=ROW] - strangers at the RPC
port of `spindle serve`.

Each row of the table is one attack on a server of its own.  The attacker is another process,
on one CPU; a polite client, here, calls sayHello one call after the other before the attack
and during it.  RSS is that of the server: warmed up, the most during the attack, and five
seconds at the latest after the attacker has gone.

A row has failed if the server ends, if a polite call fails, if its p99 is above the larger of
20 ms and three times that before, if memory goes beyond the limit and 20 %, or does not come
back to that of the warmed-up server, 20 % and 8 MiB, if no call succeeds within five seconds
after the attack; and by what it expects of the attacked server's own counts.  On a machine that is busy before the attack p99 is told, and not judged.

--full: as many attackers as there may be.  --off: the same attacks on servers with one limit
switched off, where the row must fail: else it shows nothing.  --long is both.
--sanitized: PROGRAM has a sanitizer, which keeps freed memory for itself, so RSS is told and
not judged; what the server itself counts must stay within its limit all the same.
"""
import http.client
import json
import os
import random
import re
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

PROGRAM = sys.argv[1] if len(sys.argv) > 1 else ""
FULL = "--full" in sys.argv or "--long" in sys.argv
OFF = "--off" in sys.argv or "--long" in sys.argv
SANITIZED = "--sanitized" in sys.argv
ONLY = next((a[7:] for a in sys.argv if a.startswith("--only=")), None)
SCALE = float(os.environ.get("SPN_TEST_SCALE", "1"))
MIB = 1 << 20
LIMIT = 64 * MIB
TWO_WAY, ONE_WAY, EVENT = 0xC2, 0x82, 0x20
DEMO = b"org.apache.dubbo.demo.DemoService"
passed = failed = 0

# ---- frames by hand -----------------------------------------------------------------------


def text(value):
    out = b""
    while len(value) > 65535:
        out += b"R\xff\xff" + value[:65535]
        value = value[65535:]
    if out or len(value) > 1023:
        return out + b"S" + struct.pack(">H", len(value)) + value
    if len(value) < 32:
        return bytes([len(value)]) + value
    return bytes([0x30 + (len(value) >> 8), len(value) & 255]) + value


def binary(size):
    """size bytes, in chunks as Hessian has them."""
    out = []
    while size > 32768:
        out.append(b"A\x80\x00" + b"x" * 32768)
        size -= 32768
    return b"".join(out) + b"B" + struct.pack(">H", size) + b"x" * size


def frame(body, flags=TWO_WAY, id=1, length=None, status=0):
    return struct.pack(">HBBqi", 0xDABB, flags, status, id,
                       len(body) if length is None else length) + body


def request(method=b"sayHello", descriptor=b"Ljava/lang/String;", arguments=text(b"you"),
            path=DEMO, attached=b""):
    return (text(b"2.0.2") + text(path) + text(b"1.0.0") + text(method) + text(descriptor) +
            arguments + b"H" + text(b"path") + text(path) + text(b"group") + text(b"g1") +
            attached + b"Z")


def echo(argument):
    return request(b"$echo", b"Ljava/lang/Object;", argument)


def empty_lists(count):
    return b"XI" + struct.pack(">i", count) + b"\x78" * count


HELLO = frame(request())


def connect(port, timeout=10):
    s = socket.create_connection(("127.0.0.1", port), timeout=timeout)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


def receive(s, size):
    out = b""
    while len(out) < size:
        more = s.recv(size - len(out))
        if not more:
            raise OSError("the connection ended")
        out += more
    return out


def reply(s):
    """The status and the body of the next reply."""
    while True:
        head = receive(s, 16)
        _, flags, status, _, length = struct.unpack(">HBBqi", head)
        body = receive(s, length)
        if not flags & (EVENT | 0x80):
            return status, body


# ---- attacks: in a process of their own --------------------------------------------------------


def push(pairs, seconds):
    """Sends to all sockets at once what each is to have, until nothing moves any more."""
    left = {s: memoryview(data) for s, data in pairs}
    patience = (1 if FULL else 0.5) * SCALE
    end = time.monotonic() + seconds * SCALE
    for s in left:
        s.setblocking(False)
    while left and time.monotonic() < end:
        _, ready, _ = select.select([], list(left), [], patience)
        if not ready:
            break
        for s in ready:
            try:
                left[s] = left[s][s.send(left[s][:65536]):]
            except BlockingIOError:
                continue
            except OSError:
                left[s] = b""
            if not left[s]:
                del left[s]
    return len(left)


def open_all(port, count):
    out = []
    for _ in range(count):
        try:
            out.append(connect(port, 2))
        except OSError:
            break
    return out


def attack_lists(port, count):
    """Bodies of 1.5 MB that are a list of empty lists."""
    body = frame(echo(empty_lists(1500000)))
    all = open_all(port, count)
    push([(s, body) for s in all], 20)
    return all


def attack_pairs(port, count):
    """The same of lists of two digits, which are as dear as what is still read."""
    body = frame(echo(b"XI" + struct.pack(">i", 500000) + b"\x7a\x90\x91" * 500000))
    all = open_all(port, count)
    push([(s, body) for s in all], 20)
    return all


def attack_unread(port, count):
    """Replies that nobody reads."""
    body = frame(echo(binary(MIB // 4))) * 64
    all = open_all(port, count)
    push([(s, body) for s in all], 8)
    return all


def attack_small_unread(port, count):
    """Small calls by the thousand, and nobody reads."""
    body = frame(echo(binary(1000))) * 30000
    all = open_all(port, count)
    push([(s, body) for s in all], 8)
    return all


def attack_empty(port, count):
    """Empty requests, of which each is answered with a sentence, and nobody reads."""
    body = frame(b"") * 524288
    all = open_all(port, count)
    push([(s, body) for s in all], 8)
    return all


def attack_unfinished(port, count):
    """Frames of 8 MiB but for the last kilobyte."""
    body = frame(echo(binary(8 * MIB - 4096)))[:-1024]
    all = open_all(port, count)
    push([(s, body) for s in all], 20)
    return all


def attack_trickle(port, count):
    """Frames that come byte by byte."""
    all = open_all(port, count)
    end = time.monotonic() + 2.5
    data = HELLO + b"x"
    at = 0
    while time.monotonic() < end and at < 60:
        for s in all:
            try:
                s.send(data[at:at + 1])
            except OSError:
                pass
        at += 1
        time.sleep(0.05)
    return all


def attack_deep(port, count):
    """A pipeline of calls that take their time, on one connection each."""
    body = frame(request(b"sleep", b"I", b"I" + struct.pack(">i", 10))) * 600
    all = open_all(port, count)
    push([(s, body) for s in all], 3)
    return all


def attack_hog(port, count):
    """Slow calls for all threads there are, and as many again, on one connection."""
    all = open_all(port, 1)
    all[0].sendall(frame(request(b"sleep", b"I", b"I" + struct.pack(">i", 2000))) * count)
    return all


def attack_flood(port, count):
    """Connections as fast as they come, of which none says a word."""
    return open_all(port, count)


ODD = [
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\xda", b"\xda\xbb", b"\xda\xbc" + b"\0" * 14,
    frame(b"", length=-1), frame(b"", length=0x7fffffff), frame(b"x" * 8, flags=0xC0),
    frame(b"x" * 8, flags=0xFF), frame(b"", flags=TWO_WAY), frame(b"N", flags=TWO_WAY | EVENT),
    frame(b"\1R", flags=0x80 | EVENT), frame(b"x" * 4000, flags=TWO_WAY | EVENT),
    frame(b"x" * 64, flags=0x02, status=20), frame(text(b"2.0.2") * 5),
    frame(request(path=b"a\0b")), frame(request(method=b"echo\0" + b"a" * 900)),
    frame(request(method=b"echo\0" + b"a" * 1000000)), frame(request(path=b"p" * 300000)),
    frame(request(descriptor=b"[[[[[[[[L;")), frame(request(descriptor=b"I" * 900)),
    frame(echo(b"X" + b"I\x7f\xff\xff\xff")), frame(echo(b"\x79" * 4000)),
    frame(echo(b"O\x90" * 50)), frame(echo(b"Q\x90")), frame(echo(b"C" * 300)),
    frame(request(b"no such method")), frame(request(path=b"no.such.Service")),
    frame(echo(b"H" + b"H" * 200)), frame(request(attached=text(b"timeout") + text(b"-1"))),
]


def attack_odd(port, count):
    """Frames made by hand, each on a connection of its own and cut anywhere."""
    all = []
    for i in range(count):
        data = ODD[i % len(ODD)]
        try:
            s = connect(port, 2)
            s.send(data if i < len(ODD) else data[:random.randrange(len(data)) + 1])
            s.shutdown(socket.SHUT_WR) if i % 3 == 0 else None
            all.append(s)
        except OSError:
            pass
        if len(all) > 100:
            all.pop(0).close()
    return all


def mutated(data):
    out = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 4, 16))):
        at = random.randrange(len(out))
        how = random.randrange(4)
        if how == 0:
            out[at] ^= 1 << random.randrange(8)
        elif how == 1:
            out[at] = random.choice((0, 1, 0x20, 0x58, 0x78, 0x7f, 0x80, 0x91, 0xff))
        elif how == 2 and at > 2:
            del out[at]
        else:
            out[at:at] = bytes([random.randrange(256)])
    return bytes(out)


def attack_mutated(port, count):
    """Frames that were changed a little, many on a connection until it ends."""
    samples = [HELLO, frame(echo(empty_lists(40))), frame(echo(b"H" + text(b"a") * 40 + b"Z")),
               frame(echo(binary(300))), frame(b"N", flags=TWO_WAY | EVENT)]
    s, done = None, 0
    while done < count:
        try:
            if s is None:
                s = connect(port, 2)
                s.setblocking(False)
            s.send(b"".join(mutated(random.choice(samples)) for _ in range(20)))
            done += 20
            s.recv(1 << 20)
        except BlockingIOError:
            if random.randrange(4) == 0:
                s.close()
                s = None
        except OSError:
            s = None
    return []


def attacker(name, port, count, seed):
    random.seed(seed)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    resource.setrlimit(resource.RLIMIT_NOFILE,
                       (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    held = globals()["attack_" + name](port, count)
    print("done", flush=True)
    sys.stdin.read()
    for s in held:
        s.close()


# ---- the server, and the polite client ---------------------------------------------------------


class Server:
    def __init__(self, query):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--status-port=0", "--drain=1",
             "dubbo://127.0.0.1:0?" + query],
            text=True, stdout=subprocess.PIPE, stderr=self.log)
        says = ""
        while True:
            line = self.process.stdout.readline()
            says += line
            if not line or line.startswith("Ctrl-C"):
                break
        self.port = int(re.search(r"^serving dubbo://.*?:(\d+)", says, re.M)[1])
        self.page = int(re.search(r"^status  http://.*:(\d+)/", says, re.M)[1])

    def memory(self, what="VmRSS"):
        with open(f"/proc/{self.process.pid}/status") as f:
            found = re.search(what + r":\s+(\d+)", f.read())
        return int(found[1]) * 1024 if found else 0  # it is ending

    def forget_peak(self):
        with open(f"/proc/{self.process.pid}/clear_refs", "w") as f:
            f.write("5")

    def status(self):
        """None: the server has ended."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.page}/status.json",
                                        timeout=10) as r:
                return json.load(r)
        except (OSError, http.client.HTTPException):
            self.process.wait(5)
            return None

    def alive(self):
        return self.process.poll() is None

    def logged(self):
        self.log.seek(0)
        return self.log.read()

    def end(self):
        if self.alive():
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def idle_of(since=None):
    """What the CPUs have done so far; or what part of it they were idle since then."""
    with open("/proc/stat") as f:
        now = [int(n) for n in f.readline().split()[1:9]]
    if since is None:
        return now
    did = [a - b for a, b in zip(now, since)]
    return (did[3] + did[4]) / max(1, sum(did))


class Polite:
    """Calls, one after the other, a few in a millisecond at most."""

    def __init__(self, port):
        self.socket = connect(port, 5)
        self.wrong = []

    def calls(self, until):
        took = []
        while not until():
            began = time.monotonic()
            try:
                self.socket.sendall(HELLO)
                status, body = reply(self.socket)
                if status != 20:
                    self.wrong.append((status, body[:60]))
            except OSError as e:
                self.wrong.append(str(e))
                break
            took.append(time.monotonic() - began)
            time.sleep(0.0005)
        took.sort()
        return took[int(len(took) * 0.99)] if took else float("inf")


def warm_up(server):
    """As much as a server that has worked for a while keeps."""
    all = open_all(server.port, 16)
    for s in all:
        s.sendall(HELLO * 300)
        for _ in range(300):
            reply(s)
        s.sendall(frame(echo(binary(32768))) * 8)
    for s in all:
        for _ in range(8):
            reply(s)
        s.close()


# ---- rows ----------------------------------------------------------------------------------------

POOL = "threads=16&queues=200"


def refused_memory(status, log):
    yield "nothing was refused for want of memory", status.get("memory", {}).get("refused", 0) > 0
    yield "no line in the log", "channel: no memory for " in log


def refused_or_waiting(status, log):
    """A slow server, or one on a busy machine, may stop reading before there is anything to refuse."""
    if not LIMIT / 4 < status["memory"]["used"] <= LIMIT:
        yield from refused_memory(status, log)


def closed_late(status, log):
    yield "no frame was closed as late", "did not bring the rest" in log


def refused_hog(status, log):
    yield "nothing of the attacker's was refused", status["requests"]["rejected_connection"] > 0


def limited(status, log):
    yield "more than accepts=40 stand", status["connections"]["open"] <= 41
    yield "nobody was refused", status["connections"]["refused"] > 0


def nothing(status, log):
    return ()


def requests_bounded(status, log):
    yield "nothing was refused", status["requests"]["rejected"] + status.get("memory", {}).get("refused", 0) > 0


# name, attack, count, count in --long, query, expects, the query with one limit off (or None)
ROWS = [
    ("empty lists", "lists", 40, 100, POOL + "&memory=64m", nothing, None),
    ("lists of digits", "pairs", 40, 100, POOL + "&memory=64m", refused_memory,
     POOL + "&memory=0"),
    ("unread replies", "unread", 30, 60, "threads=400&queues=0&memory=64m",
     refused_or_waiting, "threads=400&queues=0&memory=0"),
    ("small unread", "small_unread", 10, 60, "threads=16&queues=100000&memory=64m", nothing,
     None),
    ("unread refusals", "empty", 60, 300, POOL + "&memory=64m", nothing,
     POOL + "&memory=0"),
    ("unfinished 8 MiB", "unfinished", 30, 100, POOL + "&memory=64m", refused_memory,
     POOL + "&memory=0"),
    ("byte by byte", "trickle", 20, 200, POOL + "&memory=64m&frame.timeout=500", closed_late,
     POOL + "&memory=64m&frame.timeout=0"),
    ("slow calls", "deep", 1, 1, "threads=4&queues=100000&memory=512k", requests_bounded,
     "threads=4&queues=100000&memory=0"),
    ("pipelined calls", "hog", 400, 400, "threads=200&queues=0&memory=64m", refused_hog,
     "threads=200&queues=0&memory=64m&inflight=0"),
    ("connections", "flood", 100, 800, POOL + "&memory=64m&accepts=40", limited,
     POOL + "&memory=64m&accepts=0"),
    ("odd frames", "odd", 200, 4000, POOL + "&memory=64m", nothing, None),
    ("mutated frames", "mutated", 4000, 200000, POOL + "&memory=64m", nothing, None),
]
# Of small requests malloc keeps some, see docs/design/rpc.md.
SLACK = {"small_unread": 1.5}
# They fill the pool, which the polite client has to share: only memory counts.
CALM = {"deep", "small_unread", "empty"}


def row(name, attack, count, query, expects, seed):
    """What went wrong, and the columns of the table."""
    wrong = []
    server = Server(query)
    limit = LIMIT
    child = None
    try:
        warm_up(server)
        polite = Polite(server.port)
        began = time.monotonic()
        did = idle_of()
        before_p99 = polite.calls(lambda: time.monotonic() - began > 0.3)
        is_quiet = idle_of(did) > 0.4  # a polite client alone needs little of one CPU
        before = server.memory()
        server.forget_peak()
        child = subprocess.Popen([sys.executable, __file__, "--attack", attack,
                                  str(server.port), str(count), str(seed)], text=True,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)

        def over(state={"next": 0.0}):
            """The attacker has sent all it can, and the server has done what it will."""
            now = time.monotonic()
            if now < state["next"] or not select.select([child.stdout], [], [], 0)[0]:
                return False
            state["next"] = now + 0.1
            state.setdefault("least", now + 0.6)  # what the kernel still has
            status = server.status() if server.alive() else None
            return (status is None or now > state["least"] + 9 or
                    status["requests"]["in_flight"] <= 1 and now > state["least"])
        if attack in CALM:
            p99 = 0.0
            while not over():
                time.sleep(0.01)
        else:
            p99 = polite.calls(over)
        child.stdout.readline()
        peak = server.memory("VmHWM") if server.alive() else 0
        status = server.status() if server.alive() else None
        if status is not None:
            for what, holds in expects(status, server.logged()):
                if not holds:
                    wrong.append(what)
            counted = status["memory"]
            if counted["used"] > counted["limit"] > 0:
                wrong.append(f"the server counts {counted['used']} bytes of {counted['limit']}")
        child.stdin.close()
        child.wait(30)
        after, deadline = float("inf"), time.monotonic() + 5
        while server.alive() and time.monotonic() < deadline:
            after = server.memory()
            if SANITIZED or after <= before * 1.2 + 8 * MIB:
                break
            time.sleep(0.1)
        if not server.alive():
            wrong.append(f"the server ended with {server.process.returncode}")
            after = 0
        elif (answer := answer_within(server.port, 5 * SCALE)) != 20:
            wrong.append(f"after the attack a call was answered with {answer}")
        if polite.wrong and attack not in CALM:
            wrong.append(f"the polite client had {polite.wrong[:3]}")
        if server.alive() and p99 > max(0.020 * SCALE, 3 * before_p99):
            # The machine may be busy by itself.
            began = time.monotonic()
            again = Polite(server.port).calls(lambda: time.monotonic() - began > 0.3)
            before_p99 = max(before_p99, again)
        if is_quiet and os.cpu_count() > 1 and p99 > max(0.020 * SCALE, 3 * before_p99):
            wrong.append(f"the polite client's p99 was {p99 * 1000:.1f} ms, "
                         f"{before_p99 * 1000:.1f} ms before")
        if not SANITIZED and peak > before + limit * SLACK.get(attack, 1.2):
            wrong.append(f"memory rose by {(peak - before) / MIB:.0f} MiB")
        if not SANITIZED and after > before * 1.2 + 8 * MIB:
            wrong.append(f"{(after - before) / MIB:.0f} MiB more stayed")
        return wrong, (before, peak, after, before_p99, p99)
    finally:
        if child is not None and child.poll() is None:
            child.kill()
            child.wait()
        server.end()


def connect_and_ask(port):
    try:
        s = connect(port, 5)
        s.sendall(HELLO)
        return reply(s)[0]
    except OSError as e:
        return str(e)


def answer_within(port, seconds):
    """20 once a call succeeds, else the last answer.  A call is refused for memory until the
    server has seen the attacker's connections close and freed what they held."""
    deadline = time.monotonic() + seconds
    while (answer := connect_and_ask(port)) != 20 and time.monotonic() < deadline:
        time.sleep(0.05)
    return answer


def tell(name, count, result, figures, began):
    before, peak, after, before_p99, p99 = figures
    print(f"{name:18} {count:7} {result:10} {before / MIB:8.1f} {peak / MIB:8.1f} "
          f"{after / MIB:8.1f} {before_p99 * 1000:9.2f} {p99 * 1000:9.2f} {time.monotonic() - began:6.1f}", flush=True)


def main():
    global passed, failed
    seed = int(os.environ.get("SPN_TEST_SEED", random.randrange(1 << 31)))
    print(f"seed {seed}")
    print(f"{'attack':18} {'count':>7} {'result':10} {'before':>8} {'peak':>8} {'after':>8} "
          f"{'p99 before':>9} {'p99':>8} {'s':>6}\n{'':37}{'MiB of the server':^26} "
          f"{'ms, polite':>16}")
    for name, attack, short, many, query, expects, off in ROWS:
        if ONLY and ONLY not in name:
            continue
        count = many if FULL else short
        began = time.monotonic()
        wrong, figures = row(name, attack, count, query, expects, seed)
        for _ in range(2):
            if wrong and all("p99" in w for w in wrong):  # others were busy, maybe
                wrong, figures = row(name, attack, count, query, expects, seed)
        tell(name, count, "held" if not wrong else "FAILED", figures, began)
        for w in wrong:
            print(f"    FAIL: {name}: {w}", flush=True)
        passed, failed = passed + (not wrong), failed + bool(wrong)
        if OFF and off is not None:
            began = time.monotonic()
            wrong, figures = row(name, attack, count, off, expects, seed)
            tell("  without: " + off.rsplit("&", 1)[1], count,
                 "noticed" if wrong else "UNNOTICED", figures,
                 began)
            passed, failed = passed + bool(wrong), failed + (not wrong)
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    if sys.argv[1] == "--attack":
        attacker(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
    else:
        sys.exit(main())
