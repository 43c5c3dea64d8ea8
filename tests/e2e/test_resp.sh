#!/bin/bash
# SPDX-License-Identifier: MIT
#
# examples/resp_server.c with each dispatcher: redis-cli and redis-benchmark, which know
# nothing of spindle, and clients that know what each reply has to be.   test_resp.sh PROGRAM
# Where redis-tools cannot be installed the test is skipped; with CI=true it fails instead.
set -u
program=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
server=
trap '[ -n "$server" ] && kill -KILL "$server" 2>/dev/null; rm -rf "$work"' EXIT
passed=0
failed=0

if ! command -v redis-cli >/dev/null || ! command -v redis-benchmark >/dev/null; then
    echo "skipped: no redis-cli and redis-benchmark (Debian: redis-tools)"
    [ "${CI:-}" = true ] || exit 77
    echo "0 passed, 1 failed"
    exit 1
fi

# check WHAT COMMAND...: passes when the command succeeds.
check() {
    local what=$1
    shift
    if "$@" >"$work/check" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL: $query: $what"
        tail -20 "$work/check" | sed 's/^/    /'
    fi
}

# cli WANTED WORD...: what redis-cli prints for a command.
cli() {
    local wanted=$1 got
    shift
    got=$(timeout 60 redis-cli -p "$port" "$@" 2>&1)
    check "redis-cli $*: '$got', wanted '$wanted'" [ "$got" = "$wanted" ]
}

# start QUERY: a server on a free port; the port in $port.
start() {
    local line
    query=$1
    rm -f "$work/says"
    mkfifo "$work/says"
    "$program" 127.0.0.1 0 "$query" >"$work/says" 2>"$work/server" &
    server=$!
    exec 3<"$work/says"
    read -r line <&3
    port=$(sed -n 's/^listening on port \([0-9]*\)$/\1/p' <<<"${line:-}")
    check "it listens" [ -n "$port" ]
    [ -n "$port" ] || { cat "$work/server"; echo "$passed passed, $failed failed"; exit 1; }
}

# ended: it has been told to end, and does.
ended() {
    wait "$server"
    local status=$?
    server=
    exec 3<&-
    check "exit status 0, got $status" [ "$status" -eq 0 ]
}

# pipe N: redis-cli sends so many lines before it counts the replies.
pipe() {
    awk -v n="$1" 'BEGIN { for (; n > 0; n--) printf "SET key:%d value:%d\r\n", n, n }' |
        timeout 60 redis-cli -p "$port" --pipe
}

# benchmark ARGUMENT...: redis-benchmark, which ends at the first reply that is an error.
benchmark() {
    timeout 120 redis-benchmark -p "$port" -t ping,set,get -P 16 -c 50 -q "$@" \
        >"$work/benchmark" 2>&1 || return 1
    cat "$work/benchmark"
    [ "$(tr '\r' '\n' <"$work/benchmark" | grep -c 'requests per second')" -ge 4 ] &&
        ! grep -qi 'error' "$work/benchmark"
}

for dispatcher in all direct message execution connection; do
    start "dispatcher=$dispatcher&threads=4&queues=1000"
    cli PONG PING
    cli OK SET greeting 'hello world'
    cli 'hello world' GET greeting
    cli '' GET nothing
    cli "" COMMAND DOCS
    cli "$(printf 'save\n')" CONFIG GET save
    cli 'ERR unknown command or wrong number of arguments' NO SUCH COMMAND
    check "each reply at its place" timeout 300 "$here/resp_client.py" "$port" load
    check "no request" timeout 60 "$here/resp_client.py" "$port" hostile
    check "redis-cli --pipe" sh -c 'grep -q "errors: 0, replies: 50000" "$1"' sh <(pipe 50000)
    cli value:31415 GET key:31415
    check "redis-benchmark" benchmark -n 20000
    check "redis-benchmark with large values" benchmark -n 2000 -d 20000
    # SIGTERM with connections that stand, and one that has asked much.
    check "its end" timeout 60 "$here/resp_client.py" "$port" ends "$server"
    ended
    check "no complaints" sh -c '! grep . "$1"' sh "$work/server"
done

# A pool without room: what is refused has its reply at its place too.
for dispatcher in all execution; do
    start "dispatcher=$dispatcher&threads=1&queues=1"
    check "refused at its place" timeout 300 "$here/resp_client.py" "$port" refused
    kill -TERM "$server"
    ended
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
