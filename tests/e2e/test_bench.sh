#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The benchmark runner: its arithmetic, and that no subject can bring it down.
#   test_bench.sh PROGRAM SOURCE_DIRECTORY
set -u
bench=$1
source=$2
passed=0
failed=0
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

run() {
    local wanted=$1 status
    shift
    what=$*
    "$@" >"$out/stdout" 2>"$out/stderr"
    status=$?
    check "exit status $wanted, got $status" [ "$status" -eq "$wanted" ]
}

check() {
    local property=$1
    shift
    if "$@" >"$out/check" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL: ${what/#$bench/bench}: $property"
        for stream in check stdout stderr; do
            [ -s "$out/$stream" ] && { echo "  $stream:"; sed 's/^/    /' "$out/$stream" | tail -30; }
        done
    fi
}
says() { check "standard output says '$1'" grep -qE -- "$1" "$out/stdout"; }
complains() { check "standard error says '$1'" grep -qE -- "$1" "$out/stderr"; }

run 0 "$bench" --list
says '^S1 '
check 'the hidden workload is not listed' bash -c '! grep -q selftest "$1"' - "$out/stdout"
run 0 "$bench" --help
run 2 "$bench" --nonsense
run 2 "$bench" --runs 0
run 2 "$bench" --runs 3x
run 2 "$bench" nonsense
complains "there is no workload 'nonsense'"
run 1 "$bench" --quick --json /nowhere/file S4
complains 'cannot write /nowhere/file'

# Subjects whose figures are known, and subjects that crash, hang, fail and skip.  The limit
# is for the one that hangs: the others have to keep it on a machine that stands still at times.
run 1 "$bench" --quick --runs 5 --timeout 3 --json "$out/self.json" --workload selftest
says '^    spindle +20\.0 +20\.0 +20\.0 +- +2\.00 +0\.50$'
says '^    peer 1\.2\.3 +40\.0 .* 1\.00$'
says '^    slow +80\.0 .* 2\.00$'
says 'ops_per_s \(higher is better\)'
says '^    spindle +50\.0 .* 0\.50 +2\.00$'
says 'crash +FAILED: died of signal 9'
says 'hang +FAILED: no end after 3 s'
says 'fail +FAILED: selftest\.c:[0-9]+: 1 \+ 1 == 3 is false'
says 'exit +FAILED: exit status 7'
says '^    program +160 .* 4\.00$'
says 'bad program +FAILED: lost an item'
says 'no program +FAILED: /nowhere/program: No such file'
says 'skip +skipped: does not want to'
says 'skipped peer: absent \(install libabsent-dev\)'
says '^6 failed'
complains 'selftest: round 5 of 5'
line='{"workload":"selftest","variant":"plain","subject":"peer 1.2.3","metric":"ns_per_op","median":40.000,"min":40.000,"max":40.000,"runs":5}'
check 'the line of JSON is as documented' grep -qxF "$line" "$out/self.json"
check 'a failed subject has no result' bash -c '! grep -q crash "$1"' - "$out/self.json"

# Only what was asked for.
run 0 "$bench" --quick --runs 1 --subject FLOOR --subject sl selftest
says '^    floor +10\.0'
says '^    slow +80\.0'
check 'no other subject is shown' bash -c '! grep -qE "^    (spindle|crash|hang)" "$1"' - "$out/stdout"
run 0 "$bench" --quick --runs 1 --subject floor --variant pl selftest
says '^    floor +10\.0'
run 0 "$bench" --quick --runs 1 --subject floor --variant other selftest
check 'no other variant is shown' bash -c '! grep -q "plain," "$1"' - "$out/stdout"

# Every real workload runs, and each of its results is a figure that makes sense.
run 0 "$bench" --quick --runs 1 --json "$out/all.json"
check 'sane results of all workloads' python3 -c '
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
keys = ["workload", "variant", "subject", "metric", "median", "min", "max", "runs"]
assert all(list(r) == keys for r in rows), "keys"
spent = ("early", "wakeups_per_s", "cpu_ms", "cpu_ms_per_s", "cpu_s")  # may be nothing
assert all((0 < r["min"] or r["metric"] in spent and 0 == r["min"])
           and r["min"] <= r["median"] <= r["max"] for r in rows), "order"
names = {r["workload"] for r in rows}
assert {"S1", "S2", "S3", "S4", "S5"} <= names, names
for w in names:
    subjects = {r["subject"] for r in rows if r["workload"] == w}
    assert "floor" in subjects or w in ("T2", "T3", "T4", "T5", "T6"), w
    assert any(s.startswith("spindle") for s in subjects), w
' "$out/all.json"

if command -v gnuplot >/dev/null; then
    run 0 "$source/bench/plot" "$out/all.json"
    check 'an SVG was drawn' grep -q '</svg>' "$out/all.svg"
    check 'a PNG was drawn' bash -c 'head -c 4 "$1" | grep -q PNG' - "$out/all.png"
    run 1 "$source/bench/plot" /dev/null
    run 2 "$source/bench/plot"
else
    echo 'skipped: gnuplot is not installed'
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
