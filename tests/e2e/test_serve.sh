#!/bin/bash
# SPDX-License-Identifier: MIT
#
# spindle serve, call, load and top, as a person uses them.   test_serve.sh PROGRAM [PLUGIN]
# Everything listens on free ports of the loopback.
set -u
spindle=$1
plugin=${2:-}
passed=0
failed=0
out=$(mktemp -d)
export HOME=$out # reports of exhausted pools go there
server=
trap '[ -n "$server" ] && kill -KILL "$server" 2>/dev/null; rm -rf "$out"' EXIT
demo=org.apache.dubbo.demo.DemoService

# check WHAT COMMAND...: passes when the command succeeds.
check() {
    local property=$1
    shift
    if "$@" >"$out/check" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL: ${what:-}: $property"
        sed 's/^/    /' "$out/check"
        for stream in stdout stderr; do
            [ -s "$out/$stream" ] && { echo "  $stream:"; tail -20 "$out/$stream" | sed 's/^/    /'; }
        done
    fi
}

# run STATUS COMMAND...: runs it, keeps its output, and wants that exit status.
run() {
    local wanted=$1 status
    shift
    what=${*/#$spindle/spindle}
    "$@" >"$out/stdout" 2>"$out/stderr"
    status=$?
    check "exit status $wanted, got $status" [ "$status" -eq "$wanted" ]
}
says() { check "says '$1'" grep -q -- "$1" "$out/stdout"; }
complains() { check "complains '$1'" grep -q -- "$1" "$out/stderr"; }

# start ARGUMENT...: a server; its addresses in $address and $page, and those of a file's other
# sections in ${addresses[@]} too.
start() {
    local line=
    addresses=()
    page=
    what="serve $*"
    rm -f "$out/says"
    mkfifo "$out/says"
    "$spindle" serve --status-port=0 "$@" >"$out/says" 2>"$out/server" &
    server=$!
    exec 3<"$out/says"
    while [ -z "$page" ] && read -r line <&3; do # comes when it listens, or not at all
        case $line in
        'serving dubbo://'*) addresses+=("$(sed -n 's,^serving dubbo://\([^ ]*\) .*,\1,p' <<<"$line")") ;;
        'status  http://'*) page=$(sed -n 's,^status  http://\(.*\)/$,\1,p' <<<"$line") ;;
        *) break ;;
        esac
    done
    address=${addresses[0]:-}
    check "it listens" [ -n "$address" ]
    check "it has a page" [ -n "$page" ]
}

# stop STATUS: SIGTERM, and wants that exit status.
stop() {
    local status
    kill -TERM "$server"
    wait "$server"
    status=$?
    server=
    exec 3<&-
    cp "$out/server" "$out/stderr"
    : >"$out/stdout"
    check "exit status $1, got $status" [ "$status" -eq "$1" ]
}

# peer NAME: a listener whose Python, which has the socket `s`, is on standard input; its port
# is in the file of that name.
peer() {
    python3 -c 'import socket, struct, sys
s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen(4)
print(s.getsockname()[1], flush=True)
exec(sys.argv[1])' "$(cat)" >"$out/$1" &
    until [ -s "$out/$1" ]; do sleep 0.02; done
}

# http METHOD PATH [HEADER]: prints the answer's first line and its body.
http() {
    python3 - "$page" "$@" <<'PY'
import http.client, sys
page, method, path = sys.argv[1:4]
headers = dict(h.split(": ") for h in sys.argv[4:])
c = http.client.HTTPConnection(page, timeout=20)
c.request(method, path, headers=headers)
r = c.getresponse()
print(r.status)
print(r.read().decode())
PY
}

# json EXPRESSION: the status `d` for which it holds, within ten seconds.  There is a file
# $out/looks from the first look on.
json() {
    check "status: $1" python3 - "$page" "$1" "$out/looks" <<'PY'
import json, sys, time, urllib.request
page, expression, looks = sys.argv[1:]
end = time.monotonic() + 10
while True:
    d = json.load(urllib.request.urlopen(f"http://{page}/status.json", timeout=20))
    if eval(expression):
        break
    open(looks, "w").close()
    assert time.monotonic() < end, (expression, d)
    time.sleep(0.05)
PY
}

# ---- misuse ----------------------------------------------------------------------
run 2 "$spindle" serve --no-such-option
complains "no option '--no-such-option'"
run 2 "$spindle" serve dubbo://127.0.0.1:0 dubbo://127.0.0.1:0
run 2 "$spindle" serve --seconds=soon
run 1 "$spindle" serve --no-status 'dubbo://127.0.0.1:0?dispatcher=nowhere'
complains 'nowhere'
complains 'all'
run 1 "$spindle" serve --no-status 'dubbo://127.0.0.1:0?threads=many'
complains 'threads'
run 1 "$spindle" serve --no-status --url-file="$out/none"
complains "$out/none"
run 1 "$spindle" serve --no-status --plugin="$out/none.so"
complains "none.so"
run 1 "$spindle" serve --no-status --seconds=0 --url-file="$out"
complains 'directory'
{ printf 'dubbo://127.0.0.1:0?x=%04060d' 0; echo '&threads=2000'; } >"$out/long"
run 1 "$spindle" serve --no-status --seconds=0 --url-file="$out/long"
complains 'too long'
run 1 "$spindle" serve --no-status --seconds=0 dubbo://no.such.host.invalid:0
complains '0.0.0.0'
run 1 "$spindle" serve --no-status --seconds=0 'dubbo://127.0.0.1:0?iothreads=100000'
complains 'iothreads=100000'
for option in status-host status-socket status-name admin-token-file url-file config plugin; do
    run 2 "$spindle" serve --$option
    complains "wants a value"
done
run 2 "$spindle" call
run 2 "$spindle" call nowhere "$demo.echo"
complains 'HOST:PORT'
run 2 "$spindle" call 127.0.0.1:1 nodot
complains 'Interface.method'
run 2 "$spindle" call 127.0.0.1:1 "$demo.add" int:x 1
complains 'not an int'
run 1 "$spindle" call 127.0.0.1:1 "$demo.echo"
complains '127.0.0.1 port 1'
for port in ' 1' +1 -1 0 65536 ''; do
    run 2 "$spindle" call "127.0.0.1:$port" "$demo.echo"
    complains 'HOST:PORT'
done
run 2 "$spindle" call --one-way=no 127.0.0.1:1 "$demo.echo"
complains "no option '--one-way=no'"
for class in '' 'a;b' "$(printf '%0400d' 0)"; do
    run 2 "$spindle" call 127.0.0.1:1 "$demo.echo" "{class:$class}"
    complains 'name of a class'
done
run 2 "$spindle" load
run 2 "$spindle" load --json=yes 127.0.0.1:1
run 2 "$spindle" load --quiet=yes 127.0.0.1:1
run 1 "$spindle" load 127.0.0.1:1
run 1 "$spindle" top --once 127.0.0.1:1
complains '127.0.0.1 port 1'
run 2 "$spindle" top --set="threads=$(printf '%01000d' 3)" 127.0.0.1:1
complains 'too long'
for command in serve call load top; do
    run 0 "$spindle" $command --help
    says "Usage: spindle $command"
done

# ---- a server, and each method of its demo ----------------------------------------
start "dubbo://127.0.0.1:0?dispatcher=all&threadpool=fixed&threads=4&queues=100&dump.directory=$out"
run 0 "$spindle" call "$address" $demo.sayHello bob
says '^"hello bob"$'
run 0 "$spindle" call "$address" $demo.sayHello 'string:5'
says '^"hello 5"$'
run 0 "$spindle" call "dubbo://$address" $demo.echo
says '^"pang"$'
run 0 "$spindle" call "$address" $demo.add 2 40
says '^42$'
run 0 "$spindle" call "$address" $demo.add -- -5 3
says '^-2$'
run 0 "$spindle" call "$address" $demo.nothing
says '^null$'
run 0 "$spindle" call "$address" $demo.getUser '{class:com.demo.UserRequest,id:1,name:bob,email:x}'
says '^com.demo.User{id: 7, name: "bob", tags: \["a", "b"\]}$'
run 3 "$spindle" call "$address" $demo.fail
complains 'java.lang.IllegalStateException: boom'
run 3 "$spindle" call "$address" $demo.busy
complains 'status 100: .*exhausted'
run 3 "$spindle" call "$address" $demo.missing
complains 'status 70: .*no such method'
run 0 "$spindle" call "$address" $demo.split
says '^"split-ok"$'
run 0 "$spindle" call "$address" $demo.sleep 10
says '^10$'
run 3 "$spindle" call "$address" $demo.noSuchMethod
run 3 "$spindle" call --version=9.9.9 "$address" $demo.echo
complains 'Not found exported service'
for timeout in 100 500 3000; do # a busy machine may not have sent it so soon
    run 1 "$spindle" call --timeout=$timeout "$address" $demo.never
    grep -q 'Sending request timeout' "$out/stderr" || break
done
complains 'Waiting server-side response timeout'
run 0 "$spindle" call --one-way "$address" $demo.echo

# ---- load -------------------------------------------------------------------------
run 0 "$spindle" load --connections=4 --depth=4 --requests=2000 --seconds=60 "$address"
says '2000  requests answered'
says 'us p99'
at_rate='
import json, sys
d = json.load(open(sys.argv[1]))
assert d["failed"] == 0 and d["lost"] == 0 and 300 <= d["requests"] <= 600, d
assert 0 < d["latency_us"]["p50"] <= d["latency_us"]["p99"] <= d["latency_us"]["max"] * 1.2, d'
for try in 1 2 3; do # what is due while a busy machine holds it up at the end is not sent
    run 0 "$spindle" load --json --connections=2 --rate=500 --seconds=1 "$address" $demo.add 1 2
    python3 -c "$at_rate" "$out/stdout" 2>/dev/null && break
done
check "JSON" python3 -c "$at_rate" "$out/stdout"
run 1 "$spindle" load --requests=10 --seconds=10 "$address" $demo.busy
says 'with status 100'
run 1 "$spindle" load --requests=10 --seconds=10 "$address" no.such.Service.method
says '^the first error: Not found exported service: g1/no.such.Service:1.0.0'

# A server whose errors would like to move the cursor: its letters are shown, not obeyed.
peer rude <<'PY'
text = b"\x1b[2Jaway" + b"\xc2\x9b1m" + b"." * 40
body = struct.pack(">BH", 0x53, len(text) - 1) + text
for i in range(2):
    peer = s.accept()[0]
    head = peer.recv(4096)[:16]
    peer.sendall(b"\xda\xbb\x02\x46" + head[4:12] + struct.pack(">i", len(body)) + body)
    peer.recv(4096)
PY
run 3 "$spindle" call "127.0.0.1:$(cat "$out/rude")" $demo.echo
complains '^status 70: .u001b\[2Jaway.u009b1m\.'
check "no control characters" sh -c '! grep -q "[[:cntrl:]]" "$1"' sh "$out/stderr"
run 1 "$spindle" load --connections=1 --requests=1 "127.0.0.1:$(cat "$out/rude")" $demo.echo
says '^the first error: .u001b\[2Jaway.u009b1m\.'

# A page of somebody else is no status.
peer foreign <<'PY'
peer = s.accept()[0]
peer.recv(4096)
peer.sendall(b"HTTP/1.0 404 Not Found\r\n\r\nnothing here\n")
PY
run 1 "$spindle" top --once "127.0.0.1:$(cat "$out/foreign")"
complains 'HTTP status 404'

# A server that reads nothing and answers nevertheless: no buffer overflows.
peer port <<'PY'
peer = s.accept()[0]
try:
    while True:
        peer.sendall((b"\xda\xbb\x02\x14" + struct.pack(">qi", 0, 1) + b"\x92") * 500)
except OSError:
    pass
PY
run 1 "$spindle" load --connections=1 --seconds=20 --quiet "127.0.0.1:$(cat "$out/port")" \
    $demo.echo "$(head -c 100000 /dev/zero | tr '\0' x)"
complains 'answers what was never sent'

# A server that says it stops, in two pieces, and ends without an answer to what it did not take.
peer stops <<'PY'
import time
peer = s.accept()[0]
head = peer.recv(4096)[:16]
peer.sendall(b"\xda\xbb\x02\x14" + head[4:12] + struct.pack(">i", 1) + b"\x92")
peer.recv(4096)
peer.sendall(b"\xda\xbb\xa2\0" + struct.pack(">qi", 7, 2) + b"\1")
time.sleep(0.1)
peer.sendall(b"R")
peer.shutdown(socket.SHUT_WR)
peer.recv(4096)
PY
run 0 "$spindle" load --connections=1 --seconds=20 "127.0.0.1:$(cat "$out/stops")" $demo.echo
says ' 1  requests answered'
says ' 1  not taken: the server had said that it stops'
says ' 1  connections ended: the server stops'

# ---- what the page says --------------------------------------------------------------
json 'd["state"] == "running" and d["requests"]["received"] > 2000'
json 'd["requests"]["in_flight"] == 0 and d["connections"]["open"] == 0'
json 'any(p["max"] == 4 and p["completed"] > 2000 for p in d["pools"])'
json 'any(e["event"] == "request" and e["pool"] > 2000 for e in d["dispatch"])'
json 'd["services"][0]["interface"] == "org.apache.dubbo.demo.DemoService"'
json 'd["latency_us"]["count"] > 0 and d["latency_us"]["p50"] > 0'
json 'any(t["name"] == "idle" and t["pending"] == 0 and t["cancelled"] > 5 for t in d["timers"])'
run 0 "$spindle" top --once "$page"
says 'provider/'
says '^request '
says '^idle '
# A reader that has seen enough: told in words, and no signal.  The second round comes after
# the first was read and the pipe closed.
what="top | head -1"
{ "$spindle" top "$page" 2>"$out/stderr"; echo $? >"$out/status"; } | head -1 >"$out/stdout"
check "exit status 1" grep -qx 1 "$out/status"
complains 'cannot write to standard output'
run 0 http GET /
says '^200$'
says '<title>spindle</title>'
run 0 http GET /metrics
says '^spindle_rpc_requests_total [0-9]'
says '^spindle_pool_'
says '^spindle_timer_pending{[^}]*idle'
run 0 http GET /healthz
says '^running$'
run 0 http GET /report
says '^none$'
run 0 http GET /no-such-page
says '^404$'
run 0 http DELETE /
says '^405$'
run 0 http GET / 'Host: evil.example'
says '^403$'

# ---- changing it while it runs --------------------------------------------------------
run 0 http POST '/admin/pools?threads=8'
says '^403$'
run 0 http POST '/admin/pools?threads=8' 'X-Spindle-Admin: 1'
says '^200$'
json 'any(p["max"] == 8 for p in d["pools"])'
run 0 "$spindle" top --set=threads=3 "$page"
json 'any(p["max"] == 3 for p in d["pools"])'
run 1 "$spindle" top --set=threads=lots "$page"
complains 'threads'
run 1 "$spindle" top --set=corethreads=5 "$page" # not while it serves
complains 'there are threads, accepts'
json 'any(p["max"] == 3 for p in d["pools"])'

# ---- the end waits for what is under way --------------------------------------------------
rm -f "$out/looks"
{   # not before somebody looks, who takes his time to begin on a busy machine
    until [ -e "$out/looks" ]; do sleep 0.02; done
    exec "$spindle" call --timeout=20000 "$address" $demo.sleep 4000
} >"$out/slow" 2>&1 &
slow=$!
json 'd["requests"]["in_flight"] == 1'
stop 0
complains 'every request was answered'
wait "$slow"
what="a call under way at the end"
check "has its reply" grep -q '^4000$' "$out/slow"

# ---- server and clients agree on what was answered -----------------------------------------
# drained CONNECTIONS DEPTH: a server that is stopped while load asks it.
drained() {
    local load
    start "dubbo://127.0.0.1:0?dispatcher=all&threads=4&queues=1000&dump.directory=$out"
    "$spindle" load --json --quiet --connections="$1" --depth="$2" --seconds=60 "$address" \
        >"$out/load" 2>&1 &
    load=$!
    json 'd["requests"]["received"] > 100'
    stop 0
    wait "$load"
    check "load ends well" [ $? -eq 0 ]
    complains 'every request was answered'
    cp "$out/load" "$out/stdout"
    check "both count the same" python3 -c '
import json, re, sys
d = json.load(open(sys.argv[1]))
said = int(re.search(r"answered, (\d+) in all", open(sys.argv[2]).read())[1])
assert d["requests"] == said and d["lost"] == 0 and d["failed"] == 0, (d, said)
' "$out/load" "$out/stderr"
}
for turn in 1 2 3; do
    drained 4 1
    drained 2 16
done

# reader PACE: asks 20 times for 320 KB, reads one reply every PACE seconds from when there is a
# file $out/go, and says how it ended.
reader() {
    python3 - "$address" "$1" "$out/go" <<'PY'
import os, socket, struct, sys, time
address, pace, go = sys.argv[1:]
def text(t):
    out = b""
    while len(t) > 32768:
        out, t = out + b"R" + struct.pack(">H", 32768) + t[:32768], t[32768:]
    return out + b"S" + struct.pack(">H", len(t)) + t
body = b"".join(map(text, [b"2.0.2", b"org.apache.dubbo.demo.DemoService", b"1.0.0",
                           b"sayHello", b"Ljava/lang/String;", b"x" * (320 << 10)]))
body += b"H" + text(b"group") + text(b"g1") + b"Z"
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
host, port = address.split(":")
s.connect((host, int(port)))
for i in range(20):
    s.sendall(b"\xda\xbb\xc2\0" + struct.pack(">qi", i, len(body)) + body)
while not os.path.exists(go):
    time.sleep(0.02)
def read(size):
    got = b""
    while len(got) < size:
        more = s.recv(size - len(got))
        if not more:
            break
        got += more
    return got
replies = 0
try:
    while True:
        head = read(16)
        if len(head) < 16:
            print(replies, "replies,", "inside a frame" if head else "then the end")
            break
        size, = struct.unpack(">i", head[12:])
        if len(read(size)) < size:
            print(replies, "replies, inside a frame")
            break
        if head[2] == 2:
            replies += 1
            time.sleep(float(pace))
except OSError as error:
    print(replies, "replies,", error)
PY
}

# A client that reads slowly, and for longer than an ended connection waits for a peer.
start "dubbo://127.0.0.1:0?dispatcher=all&threads=4&queues=100&dump.directory=$out"
rm -f "$out/go"
reader 0.15 >"$out/slow" 2>&1 &
slow=$!
json 'd["requests"]["received"] == 20 and d["requests"]["in_flight"] == 0'
touch "$out/go"
stop 0
complains 'every request was answered, 20 in all'
wait "$slow"
cp "$out/slow" "$out/stdout"
says '^20 replies, then the end$'

# One that reads nothing: as long as it was said, and then it is told.
start --drain=1 "dubbo://127.0.0.1:0?dispatcher=all&threads=4&queues=100&dump.directory=$out"
rm -f "$out/go"
reader 0 >"$out/slow" 2>&1 &
slow=$!
json 'd["requests"]["received"] == 20 and d["requests"]["in_flight"] == 0'
stop 1
complains 'cut off after 1 s: clients that had not read all replies: 1 ([0-9]* bytes)'
touch "$out/go"
wait "$slow"
cp "$out/slow" "$out/stdout"
check "the client can tell" grep -Eq 'replies, (inside a frame|.*reset)' "$out/slow"

# ---- a file with the URL, read again ----------------------------------------------------
printf '# sizes\ndubbo://127.0.0.1:0?threads=2&queues=10\n' >"$out/url"
start --url-file="$out/url"
json 'any(p["max"] == 2 for p in d["pools"])'
printf 'dubbo://127.0.0.1:0?threads=5&queues=10\n' >"$out/url"
kill -HUP "$server"
json 'any(p["max"] == 5 for p in d["pools"])'
stop 0

# ---- a file with a section for each server ------------------------------------------------
config() { printf '%s\n' "$@" >"$out/conf"; }
config '[dubbo]' 'host = 127.0.0.1' 'threads = 2'
run 2 "$spindle" serve --config="$out/conf" dubbo://127.0.0.1:0
run 2 "$spindle" serve --config="$out/conf" --url-file="$out/url"
complains 'not two of them'
run 1 "$spindle" serve --no-status --config="$out/none"
complains "$out/none: No such file"
run 1 "$spindle" serve --no-status --config="$out"
complains 'a directory'
config '# a slip' '[dubbo]' 'host = 127.0.0.1' 'thread = 200'
run 1 "$spindle" serve --no-status --seconds=0 --config="$out/conf"
complains "^spindle serve: $out/conf:4: unknown key 'thread', did you mean 'threads'?\$"
config '[dubbo]' 'threads = 2' '[dubbo b]' 'threads = many'
run 1 "$spindle" serve --no-status --seconds=0 --config="$out/conf"
complains '^spindle serve: \[dubbo b\]: threads=many is no number'
config '[tri]' 'port = 0'
run 1 "$spindle" serve --no-status --seconds=0 --config="$out/conf"
complains 'section \[tri\]: only the protocol dubbo'
seq -f '[dubbo %g]' 17 >"$out/conf"
run 1 "$spindle" serve --no-status --seconds=0 --config="$out/conf"
complains 'at most 16 sections'

printf '[dubbo]\r\ndispatcher = message ; here\r\nthreads = 2\r\n[dubbo public]\r\nthreads = 3' >"$out/conf"
start --config="$out/conf"
check "there are two servers" [ "${#addresses[@]}" -eq 2 ]
for server_address in "${addresses[@]}"; do
    run 0 "$spindle" call "$server_address" $demo.sayHello bob
    says bob
done
run 0 "$spindle" call "${addresses[1]}" $demo.echo
json 'd["requests"]["received"] == 3 and [s["received"] for s in d["servers"]] == [1, 2]'
json '[s["section"] for s in d["servers"]] == ["dubbo", "dubbo public"]'
json '[s["dispatcher"] for s in d["servers"]] == ["message", "all"]'
json '[p["max"] for p in d["pools"] if "provider" in p["name"]] == [2, 3]'
run 0 http GET /metrics
says '^spindle_rpc_requests_total{server="dubbo"} 1$'
says '^spindle_rpc_requests_total{server="dubbo public"} 2$'
says '^spindle_pool_threads_max{server="dubbo public",pool="[^"]*"} 3$'
says '^spindle_rpc_latency_seconds_bucket{server="dubbo",le="[^"]*"} [0-9]*$'
check "each family stands once" python3 -c '
import re, sys
names = re.findall("^# HELP ([^ ]*)", open(sys.argv[1]).read(), re.M)
assert len(names) == len(set(names)) > 20, names' "$out/stdout"
run 0 "$spindle" top --once "$page"
says '^\[dubbo public\] 2 requests, '
run 1 "$spindle" top --set=threads=4 "$page"
complains 'SIGHUP'
# Read again: sizes change, a section that is gone or new does not, a mistake changes nothing.
config '[dubbo public]' 'threads = 5' '[dubbo new]' 'threads = 1'
kill -HUP "$server"
json '[p["max"] for p in d["pools"] if "provider" in p["name"]] == [2, 5]'
config '[dubbo]' 'threads = 9' 'thread = 9'
kill -HUP "$server"
# Ctrl-C drains both: a call under way at each has its reply.
rm -f "$out/looks"
callers=()
for server_address in "${addresses[@]}"; do
    "$spindle" call --timeout=20000 "$server_address" $demo.sleep 2000 >"$out/slow.$server_address" 2>&1 &
    callers+=($!)
done
json '[s["in_flight"] for s in d["servers"]] == [1, 1]'
json '[p["max"] for p in d["pools"] if "provider" in p["name"]] == [2, 5]'
stop 0
complains '^spindle serve: \[dubbo\]: every request was answered, 2 in all; bye$'
complains '^spindle serve: \[dubbo public\]: every request was answered, 3 in all; bye$'
complains '^spindle serve: \[dubbo\]: the section is gone'
complains 'new sections are served from the next start on'
complains "unknown key 'thread'"
wait "${callers[@]}"
for server_address in "${addresses[@]}"; do
    check "$server_address has its reply" grep -q '^2000$' "$out/slow.$server_address"
done

# An address that is taken: what was started ends again.
start 'dubbo://127.0.0.1:0?threads=2'
config '[dubbo]' 'host = 127.0.0.1' '[dubbo b]' 'host = 127.0.0.1' "port = ${address##*:}"
run 1 "$spindle" serve --no-status --seconds=0 --config="$out/conf"
complains '^spindle serve: \[dubbo b\]: cannot listen on 127.0.0.1'
complains '^spindle serve: \[dubbo\]: every request was answered, 0 in all'
stop 0

# ---- a pool without room: refused at once, and the page goes on -----------------------------
# Connections come on the I/O thread: with dispatcher=all their event may have the only thread.
start "dubbo://127.0.0.1:0?dispatcher=message&threads=1&queues=0&dump.directory=$out"
"$spindle" call --timeout=20000 "$address" $demo.sleep 60000 >/dev/null 2>&1 &
slow=$!
json 'd["requests"]["in_flight"] == 1'
run 3 "$spindle" call "$address" $demo.echo
complains 'thread pool is exhausted'
json 'd["requests"]["rejected"] == 1'
json '"EXHAUSTED" in d["report"]["text"]'
json 'any(p["active"] == 1 and p["max"] == 1 for p in d["pools"])'
kill "$slow"
wait "$slow" 2>/dev/null
kill -TERM "$server" # the method is interrupted when its connection is gone, or at the deadline
wait "$server"
server=
exec 3<&-

# ---- a caller that goes away: its method hears of it ------------------------------------------------
start "dubbo://127.0.0.1:0?dispatcher=message&threads=2&queues=2&dump.directory=$out"
run 0 "$spindle" call "$address" $demo.sleepForCaller 5
says '^5$'
"$spindle" call --timeout=60000 "$address" $demo.sleepForCaller 60000 >/dev/null 2>&1 &
slow=$!
json 'd["requests"]["in_flight"] == 1'
disown "$slow" # or the shell says that it was killed
kill -KILL "$slow"
json 'd["requests"]["in_flight"] == 0'
"$spindle" call --timeout=60000 "$address" $demo.sleepForCaller 60000 >/dev/null 2>&1 &
slow=$!
json 'd["requests"]["in_flight"] == 1'
kill "$slow"
wait "$slow" 2>/dev/null
stop 0

# ---- one client that asks for too much: refused by itself, others are served ----------------------
start "dubbo://127.0.0.1:0?dispatcher=message&threads=8&queues=0&dump.directory=$out"
"$spindle" load --connections=1 --depth=20 --seconds=3 --quiet "$address" $demo.sleep 2000 \
    >"$out/hog" 2>&1 &
slow=$!
json 'd["requests"]["rejected_connection"] > 0 and d["requests"]["in_flight"] >= 7'
for n in 1 2 3 4 5; do
    run 0 "$spindle" call "$address" $demo.echo
done
json 'd["requests"]["rejected"] == 0'
run 0 http GET /metrics
says '^spindle_rpc_requests_rejected_connection_total [1-9]'
wait "$slow"
what="load that is refused"
check "says why" grep -q 'too many requests of one connection: 127.0.0.1:[0-9]* has 7 in the pool' "$out/hog"
stop 0
run 1 "$spindle" serve --no-status 'dubbo://127.0.0.1:0?inflight=-1'
complains 'inflight=-1: not a number of requests'

# ---- a queue that stands: what comes is refused while others wait too long ---------------------------
start "dubbo://127.0.0.1:0?dispatcher=message&threads=1&queues=-1&queue.target=20&dump.directory=$out"
run 1 "$spindle" load --connections=20 --depth=1 --seconds=3 "$address" $demo.sleep 10
says 'with status 100'
says 'requests wait too long for a thread: at least [0-9]* ms during the last 400 ms, above queue.target=20'
json 'd["requests"]["rejected_delay"] > 0 and d["requests"]["rejected"] == 0'
run 0 "$spindle" call "$address" $demo.echo
stop 0
run 1 "$spindle" serve --no-status 'dubbo://127.0.0.1:0?queue.target=-1'
complains 'queue.target=-1: not a time in ms'

# ---- a name that is no text: the page is UTF-8 all the same -----------------------------------
start 'dubbo://127.0.0.1:0?threads=2&threadname=<'$'\xff\xc0\xaf\xed\xa0\x80\xc3\xa9\xf0\x9f\x8c\x8d\xe2\x82''>'
json '"<" + "\ufffd" * 6 + "\u00e9\U0001f30d" + "\ufffd" * 2 + ">" in d["url"]'
stop 0

# ---- by itself after its time ---------------------------------------------------------------
run 0 "$spindle" serve --status-port=0 --seconds=0 'dubbo://127.0.0.1:0?threads=2'
says '^serving dubbo://127.0.0.1:'
complains 'every request was answered'

# ---- other addresses of the loopback ----------------------------------------------------------
start --status-host=127.0.0.2 'dubbo://127.0.0.1:0?threads=2'
run 0 http GET /healthz
says '^200$'
run 0 http GET / 'Host: 127.0.0.3'
says '^403$'
stop 0
if [ -n "$(cat /proc/net/if_inet6 2>/dev/null)" ]; then
    run 0 "$spindle" serve --status-port=0 --seconds=0 'dubbo://[::1]:0?threads=2'
    says '^serving dubbo://\[::1\]:'
fi

# ---- services of a plug-in --------------------------------------------------------------------
if [ -n "$plugin" ]; then
    start --no-demo --plugin="$plugin" 'dubbo://127.0.0.1:0?threads=2&queues=10'
    run 0 "$spindle" call --version= --group= "$address" demo.Clock.now
    says '^[0-9]*L$'
    run 3 "$spindle" call "$address" $demo.echo
    stop 0
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
