#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The status page in a real browser: what a person sees, and that it changes without a
# reload.   test_page.sh PROGRAM [PICTURE.png]
# Where there is no Chromium and none can be installed the test is skipped; with CI=true it
# fails instead.
set -u
spindle=$1
picture=${2:-}
here=$(cd "$(dirname "$0")" && pwd)
out=$(mktemp -d)
export HOME=$out
server=
passed=0
failed=0
trap '[ -n "$server" ] && kill -KILL "$server" 2>/dev/null; rm -rf "$out"' EXIT

cannot() {
    echo "skipped: cannot look at the page: $1"
    if [ "${CI:-}" = true ]; then
        echo "0 passed, 1 failed"
        exit 1
    fi
    exit 77
}
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
    "$here/../../scripts/packages" browser || cannot "no Chromium"
    browser=$(command -v chromium) || cannot "no Chromium"
}
flags=(--headless --disable-gpu --disable-dev-shm-usage --hide-scrollbars --no-first-run)
[ "$(id -u)" -eq 0 ] && flags+=(--no-sandbox)

# browse ARGUMENT...: the browser, which is another program and may fail by itself: then once
# more, from the beginning.
browse() {
    local try
    for try in 1 2; do
        timeout 60 "$browser" "${flags[@]}" --user-data-dir="$(mktemp -d -p "$out")" "$@" &&
            return 0
    done
    return 1
}

sees() { # sees PATTERN: it is in the page as it is drawn
    if grep -Eq -- "$1" "$out/dom"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL: the page does not show: $1"
    fi
}

mkfifo "$out/says"
"$spindle" serve --status-port=0 \
    "dubbo://127.0.0.1:0?dispatcher=all&threads=1&queues=0&dump.directory=$out" \
    >"$out/says" 2>"$out/server" &
server=$!
exec 3<"$out/says"
read -r line <&3
address=$(sed -n 's,^serving dubbo://\([^ ]*\) .*,\1,p' <<<"${line:-}")
read -r line <&3
page=$(sed -n 's,^status  \(http://.*/\)$,\1,p' <<<"${line:-}")
[ -n "$page" ] || { cat "$out/server"; echo "0 passed, 1 failed"; exit 1; }

# Some answered, some refused: there is only one thread, and no queue.
"$spindle" load --connections=1 --requests=500 --seconds=30 "$address" >/dev/null 2>&1
"$spindle" load --connections=4 --requests=500 --seconds=30 "$address" >/dev/null 2>&1

# Ten seconds of the page's own time, in which it asks once a second.
browse --virtual-time-budget=10000 --dump-dom "$page" >"$out/dom" 2>"$out/browser" ||
    { tail -5 "$out/browser"; cannot "the browser failed"; }
sees '<span class="state running" id="state"[^>]*>running</span>'
sees 'dubbo://127.0.0.1'
sees 'dispatcher all'
sees '>provider/'
sees '<td>request</td>'
sees 'org.apache.dubbo.demo.DemoService'
sees 'EXHAUSTED'
sees '<polyline'
sees 'class="big bad" id="trouble"'
sees 'data-updates="([3-9]|[1-9][0-9]+)"'

browse --virtual-time-budget=5000 --window-size=1280,1500 --screenshot="$out/page.png" "$page" \
    >/dev/null 2>&1
if [ "$(head -c 4 "$out/page.png" 2>/dev/null | tail -c 3)" = PNG ]; then
    passed=$((passed + 1))
    [ -n "$picture" ] && cp "$out/page.png" "$picture"
else
    failed=$((failed + 1))
    echo "FAIL: no picture of the page"
fi
kill -TERM "$server"
wait "$server" || { failed=$((failed + 1)); cat "$out/server"; }
server=
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
