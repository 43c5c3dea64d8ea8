#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A Dubbo client from npm, which knows nothing of spindle, calls every method of the demo
# service: once for each dispatcher.   test_dubbo2.sh PROGRAM
# The client is installed here, by its lock file, into a folder that goes away.  Where
# that cannot be done the test is skipped; with CI=true it fails instead.
set -u
spindle=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
server=
trap '[ -n "$server" ] && kill "$server" 2>/dev/null; rm -rf "$work"' EXIT

cannot() {
    echo "skipped: cannot run dubbo2.js: $1"
    if [ "${CI:-}" = true ]; then
        echo "0 passed, 1 failed"
        exit 1
    fi
    exit 77
}

command -v npm >/dev/null || "$here/../../scripts/packages" node || cannot "no npm"
cp "$here"/dubbo2/* "$work"
(cd "$work" && npm ci --no-audit --no-fund --ignore-scripts >npm.log 2>&1) || {
    tail -5 "$work/npm.log"
    cannot "npm ci failed"
}

passed=0
failed=0
for dispatcher in all direct message execution connection; do
    rm -f "$work/says"
    mkfifo "$work/says"
    "$spindle" serve --status-port=0 \
        "dubbo://127.0.0.1:0?dispatcher=$dispatcher&threadpool=fixed&threads=20&queues=1000" \
        >"$work/says" 2>"$work/server.log" &
    server=$!
    exec 3<"$work/says"
    # Its first line comes when it listens; there is none when it ends before.
    read -r line <&3
    address=$(sed -n 's,^serving dubbo://\([0-9.:]*\).*,\1,p' <<<"${line:-}")
    if [ -z "$address" ]; then
        echo "FAIL: $dispatcher: the server did not start"
        cat "$work/server.log"
        failed=$((failed + 1))
        continue
    fi
    node "$work/calls.js" "$address" "$dispatcher" >"$work/calls.log" 2>&1
    sum=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$work/calls.log")
    if [ -z "$sum" ]; then
        failed=$((failed + 1))
    else
        passed=$((passed + ${sum%% *}))
        sum=${sum#*, }
        failed=$((failed + ${sum%% *}))
    fi
    grep -q '^0 failed\|, 0 failed' "$work/calls.log" || sed "s/^/$dispatcher: /" "$work/calls.log"
    kill -TERM "$server"
    if wait "$server"; then
        passed=$((passed + 1))
    else
        echo "FAIL: $dispatcher: the server did not end in order"
        cat "$work/server.log"
        failed=$((failed + 1))
    fi
    server=
    exec 3<&-
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
