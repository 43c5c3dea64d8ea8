#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Clients of resp_server that know what each reply has to be.

    resp_client.py PORT load          connections that send much before they read
    resp_client.py PORT hostile       bytes that are no requests, and pieces of requests
    resp_client.py PORT refused       a server with little room: a refusal at its place, at least one
    resp_client.py PORT ends PID      the server is told to end while requests are under way
"""
import os
import random
import signal
import socket
import sys
import threading

CONNECTIONS, ROUNDS, DEPTH = 8, 20, 100
port, what = int(sys.argv[1]), sys.argv[2]
problems = []


def connect():
    s = socket.create_connection(("127.0.0.1", port), timeout=60)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s, s.makefile("rb")


def request(*words):
    words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


def reply(f):
    """The next reply: a text with its mark ("+OK", "-BUSY ..."), bytes, None or a list."""
    line = f.readline()
    if not line.endswith(b"\r\n"):
        raise EOFError("the connection ended inside or before a reply: %r" % line)
    kind, rest = line[:1], line[1:-2]
    if kind in b"+-":
        return line[:-2].decode()
    if kind == b"*":
        return [reply(f) for _ in range(int(rest))]
    assert kind == b"$", line
    if int(rest) < 0:
        return None
    data = f.read(int(rest) + 2)
    if len(data) != int(rest) + 2:
        raise EOFError("the connection ended inside a value")
    assert data.endswith(b"\r\n"), data[-20:]
    return data[:-2]


def same(got, wanted, where):
    assert got == wanted, "%s: wanted %.60r, got %.60r" % (where, wanted, got)


def requests_of(c, round, rng):
    """Requests whose replies depend on those before them, and these replies."""
    store, asked = {}, []
    for i in range(DEPTH):
        key = "key:%d:%d" % (c, rng.randrange(8))
        kind = rng.randrange(4)
        if kind == 0:
            value = b"%d/%d/%d:" % (c, round, i) + bytes(rng.randrange(256)
                                                         for _ in range(rng.randrange(60)))
            value *= rng.choice((1, 1, 1, 1, 1, 1, 1, 1, 1, 2000))
            store[key] = value
            asked.append((request("SET", key, value), "+OK"))
        elif kind == 1 and key in store:
            asked.append((request("GET", key), store[key]))
        elif kind == 2:
            asked.append((request("GET", "never set"), None))
        else:
            text = b"%d-%d-%d" % (c, round, i)
            asked.append((rng.choice((request("PING", text), b"ping " + text + b"\r\n")), text))
    return asked


def load_one(c):
    rng = random.Random(c)
    s, f = connect()
    for round in range(ROUNDS):
        asked = requests_of(c, round, rng)
        data = b"".join(a for a, _ in asked)
        if round % 3 == 2:  # in pieces that end anywhere, while others are read
            cuts = sorted(rng.randrange(len(data)) for _ in range(20))
            pieces = [data[a:b] for a, b in zip([0] + cuts, cuts + [len(data)])]
        else:
            pieces = [data]
        sender = threading.Thread(target=lambda: [s.sendall(p) for p in pieces])
        sender.start()
        for i, (_, wanted) in enumerate(asked):
            same(reply(f), wanted, "connection %d, round %d, reply %d" % (c, round, i))
        sender.join()
    # What was asked is answered, although the client says that it will ask no more.
    s.sendall(b"".join(request("PING", i) for i in range(DEPTH)))
    s.shutdown(socket.SHUT_WR)
    for i in range(DEPTH):
        same(reply(f), b"%d" % i, "connection %d, last words" % c)
    same(f.read(), b"", "connection %d, behind its replies" % c)


def long_one(c):
    """More at once than the server takes: it reads later, and refuses nothing."""
    s, f = connect()
    data = b"".join(request("PING", "long %d" % i) for i in range(30000))
    sender = threading.Thread(target=lambda: s.sendall(data))
    sender.start()
    for i in range(30000):
        same(reply(f), b"long %d" % i, "the long pipeline, reply %d" % i)
    sender.join()


def leave_one(c):
    """Goes away without a word while requests are under way."""
    for i in range(ROUNDS):
        s, _ = connect()
        s.sendall(request("SET", "left", i) * DEPTH)
        if i % 2:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        s.close()


def run(*jobs):
    def guarded(fn, c):
        try:
            fn(c)
        except Exception as e:  # told by the main thread
            problems.append("%s: %s" % (type(e).__name__, e))

    threads = [threading.Thread(target=guarded, args=(fn, c)) for c, fn in enumerate(jobs)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def hostile():
    for bytes_ in (b"*1\r\n:5\r\n", b"*x\r\n", b"*-1\r\n", b"*1\r\n$99999999999999999999\r\n",
                   b"*1000000\r\n", b"*1\r\n$2147483646\r\n", b"x" * 70000, b"a\0b\r\n"):
        s, f = connect()
        s.sendall(request("PING", "before") + bytes_)
        s.shutdown(socket.SHUT_WR)
        rest = f.read()
        # Closed, with or without the reply to what stood before.
        assert rest in (b"", b"$6\r\nbefore\r\n"), (bytes_[:30], rest)
    s, f = connect()
    for byte in b"\r\n" + request("PING", "slowly") + b"*0\r\n\r\nPING\r\n":
        s.sendall(bytes([byte]))
    same(reply(f), b"slowly", "byte by byte")
    same(reply(f), "+PONG", "a line")


def refused_one(c):
    s, f = connect()
    for round in range(ROUNDS):
        s.sendall(b"".join(request("PING", "%d-%d" % (round, i)) for i in range(DEPTH)))
        for i in range(DEPTH):
            got = reply(f)
            if isinstance(got, str) and got.startswith("-BUSY"):
                refused.append(c)
            else:
                same(got, b"%d-%d" % (round, i), "connection %d, round %d" % (c, round))


def ends():
    s, f = connect()
    asked = b"".join(request("PING", i) for i in range(2000))
    s.sendall(request("PING", "begins"))
    same(reply(f), b"begins", "before the end")
    s.sendall(asked)
    os.kill(int(sys.argv[3]), signal.SIGTERM)
    try:
        for i in range(2000):
            same(reply(f), b"%d" % i, "reply %d, while the server ends" % i)
    except (EOFError, ConnectionResetError) as e:
        # Requests that the server has not taken have no reply; but none has half of one.
        assert "b''" in str(e) or isinstance(e, ConnectionResetError), e


refused = []
if what == "load":
    run(*[load_one] * CONNECTIONS, leave_one, long_one)
elif what == "hostile":
    run(lambda c: hostile())
elif what == "refused":
    for _ in range(50):
        run(*[refused_one] * CONNECTIONS)
        if refused or problems:
            break
    if not refused:
        problems.append("nothing was refused")
else:
    run(lambda c: ends())
for p in problems[:5]:
    print(p)
sys.exit(1 if problems else 0)
