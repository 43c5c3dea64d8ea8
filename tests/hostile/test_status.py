#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
test_status.py PROGRAM - strangers at the status port of `spindle serve`.

The admin command from other machines and other sites' pages, values that hurt, secrets that
show, connections that trickle, and a server without descriptors.  Everything listens on free
ports; each attack has a server of its own.  What a stranger gets from another machine is
asked at an address of this one that is not the loopback, and skipped where there is none.
"""
import http.client
import json
import os
import re
import resource
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time

PROGRAM = sys.argv[1]
OUT = tempfile.TemporaryDirectory()
passed = failed = skipped = 0
attack = ""


def check(what, holds, seen=""):
    global passed, failed
    if holds:
        passed += 1
    else:
        failed += 1
        print(f"FAIL: {attack}: {what}" + (f": {seen!r}" if seen != "" else ""), flush=True)


def path(name):
    return os.path.join(OUT.name, name)


class Server:
    """`with Server(argument...) as s`: s.port of its page, s.says: what it printed."""

    def __init__(self, *arguments, url="dubbo://127.0.0.1:0?threads=4&queues=10",
                 port="--status-port=0", limit=None, pass_umask=None):
        self.says = []

        def prepare():
            if limit:
                resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
            if pass_umask is not None:
                os.umask(pass_umask)
        self.errors = tempfile.TemporaryFile("w+", dir=OUT.name)
        self.process = subprocess.Popen(
            [PROGRAM, "serve", *([port] if port else []), *arguments, url], text=True,
            stdout=subprocess.PIPE, stderr=self.errors, preexec_fn=prepare,
            env={**os.environ, "HOME": OUT.name})
        while True:
            line = self.process.stdout.readline()
            self.says.append(line)
            if not line or line.startswith("Ctrl-C"):
                break
        text = self.text()
        found = re.search(r"^serving dubbo://.*:(\d+)  ", text, re.M)
        self.rpc = int(found[1]) if found else 0
        found = re.search(r"^status  http://.*:(\d+)/$", text, re.M)
        self.port = int(found[1]) if found else 0
        found = re.search(r"^admin   X-Spindle-Admin: (\w+)$", text, re.M)
        self.token = found[1] if found else None

    def text(self):
        return "".join(self.says)

    def complaints(self):
        self.errors.seek(0)
        return self.errors.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = "killed"
        self.process.stdout.close()
        check("the server ends as it should", status == 0, (status, self.complaints()))


def ask(to, method="GET", target="/healthz", headers=(), timeout=20, to_socket=False):
    """A whole request, its headers as they are: (status, body).  status 0: no answer."""
    try:
        if to_socket:
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(timeout)
            s.connect(to)
        else:
            s = socket.create_connection(to, timeout)
        with s:
            lines = [f"{method} {target} HTTP/1.1", *headers, "Connection: close"]
            if method == "POST":
                lines.append("Content-Length: 0")
            s.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
            answer = b""
            while chunk := s.recv(65536):
                answer += chunk
    except OSError as error:
        return 0, str(error)
    head, _, body = answer.decode(errors="replace").partition("\r\n\r\n")
    found = re.match(r"HTTP/1\.1 (\d+)", head)
    return int(found[1]) if found else 0, body


def get(to, target):
    """A document, as the page gets it."""
    c = http.client.HTTPConnection(*to, timeout=20)
    c.request("GET", target, headers={"Host": "localhost"})
    text = c.getresponse().read().decode()
    c.close()
    return text


def status_of(to):
    return json.loads(get(to, "/status.json"))


def threads_of(to):
    """The maximum of the server's pool."""
    return [p["max"] for p in status_of(to)["pools"] if p["name"].startswith("provider/")][0]


def run(*command):
    done = subprocess.run([PROGRAM, *command], capture_output=True, text=True, timeout=60,
                          check=False)
    return done.returncode, done.stdout + done.stderr


def other_address():
    """An address of this machine that is not the loopback; None: there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("192.0.2.1", 9))   # sends nothing
            address = s.getsockname()[0]
        except OSError:
            return None
    return None if address.startswith("127.") else address


# ---- the admin command ----------------------------------------------------------------

def test_admin_off_the_loopback():
    with Server("--status-host=0.0.0.0") as s:
        to, host = ("127.0.0.1", s.port), f"Host: 127.0.0.1:{s.port}"
        check("a token is printed", s.token is not None and len(s.token) == 32, s.text())
        token = s.token or "?" * 32
        other = ("0" if token[-1] != "0" else "1")
        for name, value in (("no header", None), ("1", "1"), ("an empty one", ""),
                            ("a wrong last letter", token[:-1] + other),
                            ("one letter less", token[:-1]), ("one more", token + "0"),
                            ("twice", token + token), ("upper case", token.upper() + "!")):
            headers = [host] + ([f"X-Spindle-Admin: {value}"] if value is not None else [])
            status, _ = ask(to, "POST", "/admin/pools?threads=8", headers)
            check(f"token: {name}: 403", status == 403, status)
        check("the pool is as it was", threads_of(to) == 4, threads_of(to))
        status, body = ask(to, "POST", "/admin/pools?threads=8", [host, f"X-Spindle-Admin: {token}"])
        check("with the token: 200", (status, body) == (200, "done\n"), (status, body))
        check("and the pool has changed", threads_of(to) == 8, threads_of(to))
        status, said = run("top", "--once", re.search(r"spindle top (\S+)$", s.text(), re.M)[1])
        check("top as it is printed shows the page", status == 0 and "provider/" in said, (status, said))
        for target in ("/status.json", "/status.txt", "/metrics", "/report", "/"):
            check(f"the token is not in {target}", token not in get(to, target))
        check("nor in the log", token not in s.complaints())


def test_token_file():
    token = "correct-horse-battery"
    with open(path("token"), "w", encoding="ascii") as file:
        file.write(f"  {token} \n")
    for name, text in (("short", "fifteen-letters\n"), ("empty", ""), ("blanks", "two words of a token\n"),
                       ("long", "x" * 257 + "\n"), ("control", "sixteen-letters\x01-and-more\n")):
        with open(path(name), "w", encoding="ascii") as file:
            file.write(text)
        status, said = run("serve", "--status-port=0", "--seconds=0",
                           f"--admin-token-file={path(name)}", "dubbo://127.0.0.1:0")
        check(f"a token that is {name} is refused", status == 1 and path(name) in said and
              "16 to 256" in said and (not text or text.strip() not in said), (status, said))
    status, said = run("serve", "--status-port=0", "--seconds=0", f"--admin-token-file={path('none')}",
                       "dubbo://127.0.0.1:0")
    check("a file that is not there is named", status == 1 and path("none") in said, (status, said))
    with Server(f"--admin-token-file={path('token')}") as s:   # on the loopback too
        to = f"127.0.0.1:{s.port}"
        check("it is not printed", token not in s.text() + s.complaints())
        status, said = run("top", "--set=threads=8", to)
        check("top without it is told", status == 1 and "admin token" in said, (status, said))
        status, said = run("top", "--set=threads=8", f"--admin-token-file={path('token')}", to)
        check("top with it changes", (status, said) == (0, "done\n"), (status, said))


def test_values():
    with Server() as s:
        to = ("127.0.0.1", s.port)
        headers = [f"Host: 127.0.0.1:{s.port}", "X-Spindle-Admin: 1"]
        for query, wanted in (
                ("threads=0", "1 to 10000"), ("threads=-1", "1 to 10000"),
                ("threads=2000000000", "1 to 10000"), ("threads=10001", "1 to 10000"),
                ("threads=99999999999999999999999", "1 to 10000"), ("threads=", "1 to 10000"),
                ("threads", "1 to 10000"), ("threads=+5", "1 to 10000"), ("threads=5x", "1 to 10000"),
                ("threads=%205", "1 to 10000"), ("threads=0x5", "1 to 10000"),
                ("threads=05", "1 to 10000"), ("threads=" + "0" * 2000 + "1&accepts=5", "1 to 10000"),
                ("threads=" + "0" * 1100 + "5", "1 to 10000"),
                ("accepts=-1", "0 to 1000000"), ("accepts=2000000000", "0 to 1000000"),
                ("heartbeat=-5", "0 to 86400000"), ("heartbeat.timeout=99999999999", "0 to 86400000"),
                ("close.timeout=1.5", "0 to 86400000"), ("threads=5&threads=6", "twice"),
                ("threads=5%26accepts=7", "1 to 10000"), ("corethreads=5", "there are threads"),
                ("%3cb%3e=5", "there are threads"), ("", "Say what to change"),
                ("heartbeat.timeout=5", "less than twice")):
            status, body = ask(to, "POST", "/admin/pools?" + query, headers)
            check(f"{query}: 400 and a sentence", status == 400 and wanted in body, (status, body))
        check("nothing has changed", threads_of(to) == 4, threads_of(to))
        status, body = ask(to, "POST", "/admin/pools?threads=10000&accepts=0&heartbeat=0", headers)
        check("the ends of the ranges are fine", status == 200, (status, body))
        for value in ("", "0", "yes", "11"):
            status, _ = ask(to, "POST", "/admin/pools?threads=7", [headers[0], f"X-Spindle-Admin: {value}"])
            check(f"the header's value '{value}' is none", status == 403, status)


# ---- Host and Origin --------------------------------------------------------------------

def test_host():
    for arguments in ((), ("--status-host=0.0.0.0",)):
        with Server(*arguments) as s:
            to = ("127.0.0.1", s.port)
            for host in ("evil.example", f"evil.example:{s.port}", "127.0.0.1.evil.example", "127.0.0.1:",
                         "127.0.0.1:80x", "127.0.0.1:999999", "10.255.255.1", "localhost@evil.example",
                         "[::2]", ""):
                status, _ = ask(to, headers=[f"Host: {host}"])
                check(f"{arguments} Host: {host}: refused", status in (400, 403), status)
            check(f"{arguments} no Host", ask(to)[0] in (400, 403))
            for host in (f"127.0.0.1:{s.port}", f"localhost:{s.port}", "LOCALHOST", "[::1]:1"):   # tunnels
                status, _ = ask(to, headers=[f"Host: {host}"])
                check(f"{arguments} Host: {host}: accepted", status == 200, status)


def test_host_of_ipv6():
    global skipped
    if not os.path.exists("/proc/net/if_inet6") or not open("/proc/net/if_inet6", encoding="ascii").read():
        skipped += 1
        return
    for listens in ("::1", "::"):
        with Server(f"--status-host={listens}") as s:
            to = ("::1", s.port)
            for host, wanted in ((f"[::1]:{s.port}", 200), ("localhost:1", 200), (f"[::2]:{s.port}", 403),
                                 (f"::1:{s.port}", 403), ("[::1", 403), ("evil.example", 403)):
                status, _ = ask(to, headers=[f"Host: {host}"])
                check(f"{listens} Host: {host}: {wanted}", status == wanted, status)
            check(f"{listens}: a token", (s.token is not None) == (listens == "::"), s.text())
            status, said = run("top", "--once", re.search(r"spindle top (\S+)$", s.text(), re.M)[1])
            check(f"{listens}: top as it is printed shows the page", status == 0 and "provider/" in said,
                  (status, said))


def test_host_off_the_loopback():
    global skipped
    address = other_address()
    if address is None:
        skipped += 1
        return
    for listens in ("0.0.0.0", address):
        with Server(f"--status-host={listens}", "--status-name=web1.example") as s:
            to = (address, s.port)
            for host in ("localhost", f"localhost:{s.port}", f"127.0.0.1:{s.port}", address, f"{address}:1",
                         f"evil.example:{s.port}", f"{address}.evil.example:{s.port}"):
                status, _ = ask(to, headers=[f"Host: {host}"])
                check(f"{listens} Host: {host}: refused", status == 403, status)
            for host in (f"{address}:{s.port}", "web1.example:9999", "WEB1.example"):
                status, _ = ask(to, headers=[f"Host: {host}"])
                check(f"{listens} Host: {host}: accepted", status == 200, status)
            status, said = run("top", "--once", f"{address}:{s.port}")
            check(f"{listens}: top shows it", status == 0 and "provider/" in said, (status, said))


def test_origin():
    for arguments in ((), ("--status-host=0.0.0.0",)):
        with Server(*arguments) as s:
            to, own = ("127.0.0.1", s.port), f"127.0.0.1:{s.port}"
            token = s.token or "1"
            for origin in ("http://evil.example", "null", f"http://127.0.0.1:{s.port + 1}", "http://127.0.0.1",
                           f"http://localhost:{s.port}", f"http://{own}.evil.example", f"file://{own}", own, ""):
                headers = [f"Host: {own}", f"Origin: {origin}", f"X-Spindle-Admin: {token}"]
                for method, target in (("POST", "/admin/pools?threads=8"), ("GET", "/status.json"), ("GET", "/")):
                    status, _ = ask(to, method, target, headers)
                    check(f"{arguments} {method} {target} Origin: {origin}: 403", status == 403, status)
            status, _ = ask(to, "POST", "/admin/pools?threads=8",
                            [f"Host: {own}", f"Origin: http://{own}", f"X-Spindle-Admin: {token}"])
            check(f"{arguments} our own Origin: 200", status == 200, status)


# ---- a Unix socket --------------------------------------------------------------------------

def test_socket():
    at = path("status.sock")
    with Server(f"--status-socket={at}", port=None, pass_umask=0) as s:
        mode = stat.S_IMODE(os.stat(at).st_mode) if os.path.exists(at) else None
        check("it is there, for its owner alone", mode == 0o600, mode)
        check("it is told", f"status  unix:{at}" in s.text(), s.text())
        check("nothing else listens", s.port == 0)
        check("it answers", ask(at, headers=["Host: localhost"], to_socket=True) == (200, "running\n"))
        check("not to another name", ask(at, headers=["Host: evil"], to_socket=True)[0] == 403)
        status, said = run("top", "--once", f"--status-socket={at}")
        check("top shows it", status == 0 and "provider/" in said, (status, said))
        status, said = run("top", "--set=threads=9", f"--status-socket={at}")
        check("top changes it", (status, said) == (0, "done\n"), (status, said))
        status, said = run("serve", "--seconds=0", f"--status-socket={at}", "dubbo://127.0.0.1:0")
        check("another server may not have it", status == 1 and "another process listens" in said, (status, said))
        check("and has not taken it", ask(at, headers=["Host: localhost"], to_socket=True)[0] == 200)
    check("its file goes with it", not os.path.exists(at))
    status, said = run("top", "--once", f"--status-socket={at}")
    check("top names what is not there", status == 1 and at in said, (status, said))

    stale = socket.socket(socket.AF_UNIX)
    stale.bind(at)
    stale.close()
    status, said = run("serve", "--seconds=0", f"--status-socket={at}", "dubbo://127.0.0.1:0")
    check("one that nobody listens on is replaced", status == 0, (status, said))
    with open(path("file"), "w", encoding="ascii") as file:
        file.write("mine")
    status, said = run("serve", "--seconds=0", f"--status-socket={path('file')}", "dubbo://127.0.0.1:0")
    with open(path("file"), encoding="ascii") as file:
        check("a file that is no socket stays", status == 1 and "no socket" in said and file.read() == "mine",
              (status, said))
    status, said = run("serve", "--seconds=0", f"--status-socket={path('x' * 200)}", "dubbo://127.0.0.1:0")
    check("a path that is too long is told", status == 1 and "107 bytes" in said, (status, said))
    status, said = run("serve", "--seconds=0", "--status-port=0", f"--status-socket={at}", "dubbo://127.0.0.1:0")
    check("a port or a socket", status == 2 and "not both" in said, (status, said))
    with open(path("token"), "w", encoding="ascii") as file:
        file.write("correct-horse-battery\n")
    with Server(f"--status-socket={at}", f"--admin-token-file={path('token')}", port=None):
        status, said = run("top", "--set=threads=9", f"--status-socket={at}")
        check("a token is wanted there too, if it is given", status == 1 and "admin token" in said, (status, said))


# ---- secrets ------------------------------------------------------------------------------------

def test_secrets():
    keys = ("password", "db.passwd", "token", "Authtoken", "CLIENTSECRET", "access_key", "accessKeyId",
            "api_key", "user.credential", "pwd", "ssl.private-file")
    parameters = "&".join(f"{key}=hidden{i}" for i, key in enumerate(keys))
    url = "dubbo://hidden-user:hidden-password@127.0.0.1:0?threads=4&queues=0&application=shown&" + parameters
    with Server(url=url) as s:
        to = ("127.0.0.1", s.port)
        run("load", "--connections=8", "--requests=200", "--seconds=20", f"127.0.0.1:{s.rpc}",
            "org.apache.dubbo.demo.DemoService.sleep", "20")   # a report of the pool, too
        for target in ("/status.json", "/status.txt?columns=1000", "/metrics", "/report"):
            text = get(to, target)
            check(f"{target} hides them", "hidden" not in text, re.findall(r".{20}hidden.{20}", text))
        shown = status_of(to)["url"]
        check("and shows the rest", "application=shown" in shown and "token=***" in shown, shown)
        said = s.text() + s.complaints()
        check("what it prints hides them", "hidden" not in said, said)
    for wrong in (url.replace("threads=4", "threads=x"), url.replace("127.0.0.1:0", "127.0.0.1:99999"),
                  url.replace("threads=4", "dispatcher=none")):
        status, said = run("serve", "--status-port=0", "--seconds=0", wrong)
        check("a complaint hides them", status == 1 and "hidden" not in said, (status, said))


# ---- connections that trickle ---------------------------------------------------------------------

SCALE = float(os.environ.get("SPN_TEST_SCALE", "1"))
REQUEST_S = 10         # REQUEST_SECONDS of tools/spindle/places.c
LATE_S = 6 * SCALE     # on a busy machine
PROMPT_S = 2 * SCALE
TRICKLERS = 64


class Trickler(threading.Thread):
    """Connects, and sends a byte now and then; .lived: seconds until it was dropped."""

    def __init__(self, to, begin, byte):
        super().__init__(daemon=True)
        self.socket = socket.create_connection(to, 20)
        self.begin, self.byte, self.lived, self.told = begin, byte, None, b""
        self.start()

    def run(self):
        start = time.monotonic()
        try:
            self.socket.sendall(self.begin)
            self.socket.settimeout(0.25)
            while time.monotonic() - start < REQUEST_S + 2 * LATE_S:
                if self.byte:
                    self.socket.sendall(self.byte)
                try:
                    chunk = self.socket.recv(1)
                    if not chunk:
                        break
                    self.told += chunk
                except TimeoutError:
                    pass
            else:
                return   # it is still there
        except OSError:
            pass
        finally:
            self.socket.close()
        self.lived = time.monotonic() - start


def polite(to):
    """Seconds until an answer; None: none came."""
    start = time.monotonic()
    status, _ = ask(to, headers=["Host: localhost"], timeout=2 * PROMPT_S)
    return time.monotonic() - start if status == 200 else None


def test_tricklers():
    head = b"GET /status.json HTTP/1.1\r\nHost: localhost\r\n"
    with Server() as s:
        to = ("127.0.0.1", s.port)
        crowd = [Trickler(to, head + b"X-Slow: ", b"x") for _ in range(TRICKLERS)]
        times = [polite(to) for _ in range(10)]
        check("headers: a polite client is answered within 2 s",
              all(t is not None and t < PROMPT_S for t in times), times)
        # They come again and again, and with bodies, and only connect.
        body = b"POST /admin/pools?threads=5 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"
        crowd += [Trickler(to, body, b"x") for _ in range(TRICKLERS)]
        crowd += [Trickler(to, b"", b"") for _ in range(TRICKLERS)]
        times = [polite(to) for _ in range(10)]
        check("bodies and silence: within 2 s", all(t is not None and t < PROMPT_S for t in times), times)
        for t in crowd:
            t.join(REQUEST_S + 3 * LATE_S)
        check("all of them were dropped", all(t.lived is not None for t in crowd),
              [t.lived for t in crowd])
        check("none after its time", all(t.lived is None or t.lived < REQUEST_S + LATE_S for t in crowd),
              [t.lived for t in crowd])
    with Server() as s:   # few, so that none is dropped for another's sake
        to = ("127.0.0.1", s.port)
        crowd = [Trickler(to, head + b"X-Slow: ", b"x"), Trickler(to, body, b"x"), Trickler(to, b"", b"")]
        # One that asks for more than its socket holds, and reads none of it.
        crowd.append(Trickler(to, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 5000, b""))
        for t in crowd:
            t.join(REQUEST_S + 3 * LATE_S)
        check("dropped when its time is up, not long before", all(
            t.lived is not None and REQUEST_S - 1 < t.lived < REQUEST_S + LATE_S for t in crowd[:3]),
            [t.lived for t in crowd])
        check("one that reads nothing is dropped", crowd[3].lived is not None, crowd[3].lived)


# ---- without descriptors --------------------------------------------------------------------------

def connections(to, count):
    """As many connections as can be made; those that the server closed are closed."""
    made = []
    for _ in range(count):
        try:
            made.append(socket.create_connection(to, 5))
        except OSError:
            break
    return made


def count_open(crowd):
    alive = 0
    for s in crowd:
        s.setblocking(False)
        try:
            alive += s.recv(1) != b""
        except BlockingIOError:
            alive += 1
        except OSError:
            pass
    return alive


def test_descriptors():
    limit = 128
    for name, extra in (("accepts is not set", ""), ("accepts is above the limit", "&accepts=100000")):
        with Server(url=f"dubbo://127.0.0.1:0?dispatcher=message&threads=4&iothreads=2{extra}", limit=limit) as s:
            to = ("127.0.0.1", s.port)
            crowd = connections(("127.0.0.1", s.rpc), 3 * limit)
            end = time.monotonic() + 20
            while extra == "" and count_open(crowd) > 3 * limit // 4 and time.monotonic() < end:
                time.sleep(0.05)
            times = [polite(to) for _ in range(20)]
            check(f"{name}: /healthz answers each time within 2 s", all(t is not None and t < PROMPT_S for t in times),
                  times)
            status, body = ask(to, target="/status.json", headers=["Host: localhost"])
            check(f"{name}: so does the page", status == 200, (status, body))
            if not extra and status == 200:
                # The last refusals may be on their way to the crowd.
                while True:
                    d = status_of(to)["connections"]
                    standing = count_open(crowd)
                    if standing == d["open"] or time.monotonic() > end:
                        break
                    time.sleep(0.05)
                check("connections are refused before descriptors are out",
                      0 < d["open"] <= limit - limit // 4 and d["refused"] > 0, d)
                check("the others stand", standing == d["open"], (standing, d))
            for c in crowd:
                c.close()
            # The attack is over: as before.
            end = time.monotonic() + 20
            while True:
                d = status_of(to)["connections"]
                if d["open"] == 0 or time.monotonic() > end:
                    break
                time.sleep(0.05)
            status, said = run("call", f"127.0.0.1:{s.rpc}", "org.apache.dubbo.demo.DemoService.sayHello", "bob")
            check(f"{name}: afterwards a call is answered", status == 0 and "hello bob" in said, (status, said))


for test_name, test in list(globals().items()):
    if test_name.startswith("test_") and (len(sys.argv) < 3 or test_name in sys.argv[2:]):
        attack, before = test_name, failed
        started = time.monotonic()
        try:
            test()
        except Exception as error:   # the others are worth trying
            check("runs to its end", False, repr(error))
        print(f"{'ok  ' if failed == before else 'FAIL'} {test_name} {time.monotonic() - started:.1f} s", flush=True)
OUT.cleanup()
print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
sys.exit(0 if failed == 0 else 1)
