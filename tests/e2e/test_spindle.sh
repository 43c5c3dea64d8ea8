#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The program as a person or a script meets it: what it prints, where, and with
# which exit status.   test_spindle.sh PROGRAM [DENY]
# DENY is the program made from deny.c; without it those tests are left out.
set -u
spindle=$1
deny=${2:-}
passed=0
failed=0
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# run STATUS COMMAND...: runs it, keeps its output, and wants that exit status.
run() {
    local wanted=$1 status
    shift
    what=$*
    "$@" >"$out/stdout" 2>"$out/stderr"
    status=$?
    check "exit status $wanted, got $status" [ "$status" -eq "$wanted" ]
}

# check WHAT COMMAND...: passes when the command succeeds.
check() {
    local property=$1
    shift
    if "$@" >"$out/check" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL: ${what/#$spindle/spindle}: $property"
        sed 's/^/    /' "$out/check"
        for stream in stdout stderr; do
            [ -s "$out/$stream" ] && { echo "  $stream:"; sed 's/^/    /' "$out/$stream" | tail -20; }
        done
    fi
}

says() { check "standard output says '$1'" grep -q -- "$1" "$out/stdout"; }
complains() { check "standard error says '$1'" grep -q -- "$1" "$out/stderr"; }
silent_on() { check "nothing on $1" [ ! -s "$out/$1" ]; }

# json EXPRESSION: standard output is one JSON object `d` for which it holds.
json() {
    check "JSON: $1" python3 -c '
import json, sys
d = json.load(open(sys.argv[1]))
assert eval(sys.argv[2]), sys.argv[2]' "$out/stdout" "$1"
}

# ---- commands -----------------------------------------------------------
for help in help --help -h; do
    run 0 "$spindle" $help
    says 'Usage: spindle'
    says '^  doctor '
    silent_on stderr
done
run 0 "$spindle" doctor --help
says 'Usage: spindle doctor'
cp "$out/stdout" "$out/help"
run 0 "$spindle" help doctor
check 'same as doctor --help' cmp "$out/stdout" "$out/help"

run 0 "$spindle" version
check 'name and version only' grep -qxE 'spindle [0-9]+\.[0-9]+\.[0-9]+' "$out/stdout"
cp "$out/stdout" "$out/version"
run 0 "$spindle" --version
check 'same as version' cmp "$out/stdout" "$out/version"

run 2 "$spindle"
complains 'Usage: spindle'
silent_on stdout
run 2 "$spindle" docter
complains "there is no command 'docter'; did you mean 'doctor'"
complains "Run 'spindle help'"
silent_on stdout
run 2 "$spindle" zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz
complains 'there is no command'
run 2 "$spindle" ''
complains "there is no command ''"
run 2 "$spindle" --nonsense
complains "there is no option '--nonsense'"
run 2 "$spindle" help nonsense
run 2 "$spindle" help doctor doctor
run 2 "$spindle" version 1
run 2 "$spindle" doctor --nonsense
complains "there is no option '--nonsense'"
complains 'spindle doctor --help'
run 2 "$spindle" doctor --json=1
run 2 "$spindle" doctor now
complains "'now' is one argument too many"

# ---- extensions -----------------------------------------------------------
run 0 "$spindle" extensions
says '^threadpool (threadpool)'
says '^  fixed  *built in, default'
if "$spindle" --help | grep -q '^  serve '; then # built with libspindle-rpc
    says '^  all  *built in, default'
    for dispatcher in connection direct execution message; do
        says "^  $dispatcher  *built in"
    done
fi
run 1 "$spindle" extensions /nowhere/x.so
complains '/nowhere/x.so: cannot be opened'
run 2 "$spindle" extensions --nonsense

# ---- doctor ---------------------------------------------------------------
run 0 "$spindle" doctor --quick
says '^spindle doctor'
says 'CPUs .* usable'
says '^Verdict: This machine suits spindle'
says 'atomic add, uncontended .* ns'
complains 'measuring 1 of'
check 'progress is plain in a log' bash -c '! grep -q $'"'\r'"' "$1"' - "$out/stderr"

run 0 "$spindle" doctor --quick --quiet
silent_on stderr

run 0 "$spindle" doctor --quick --quiet --json
silent_on stderr
check 'one JSON document' python3 -m json.tool "$out/stdout" /dev/null
json 'd["spindle"] == open("'"$out"'/version").read().split()[1]'
json 'd["suits"] is True and d["verdict"].startswith("This machine suits")'
json '1 <= d["cpus"]["usable"] <= max(1, d["cpus"]["online"])'
json 'd["system"]["futex"] == "works"'
json 'len(d["floors"]) >= 19'
# A floor has a figure that makes sense, or says why it has none.
json 'all("unknown" in f or 0 < f["min_ns"] <= f["median_ns"] <= f["max_ns"] for f in d["floors"].values())'
json 'all(d["floors"][k]["median_ns"] > 0 for k in ("atomic_add", "clock_read", "futex_free", "park_free", "thread"))'
json 'all(f["level"] in ("note", "warning", "problem") for f in d["findings"])'

# One CPU: what needs two is unknown, the rest is measured.
cpu=$(python3 -c 'import os; print(min(os.sched_getaffinity(0)))')
run 0 taskset -c "$cpu" "$spindle" doctor --quick --quiet --json
json 'd["cpus"]["usable"] == 1'
json 'd["floors"]["line_round_trip"]["unknown"] == "needs two CPUs"'
json 'd["floors"]["futex_same_cpu"]["median_ns"] > 0'
json '"With one CPU" in d["verdict"]'

# A limit that is really low is a problem, and the status says so.  Sanitizers
# reserve terabytes and do not start under it.
if bash -c 'ulimit -v 262144 && "$0" version; exit $?' "$spindle" >/dev/null 2>&1; then
    run 1 bash -c 'ulimit -v 262144; exec "$0" doctor --quick --quiet' "$spindle"
    says 'problem .*threads may exist'
    says 'does not suit spindle as it is: 1 problem'
else
    echo 'skipped: the program does not start in 256 MiB of address space'
fi

# ---- doctor where the system hides and refuses things ------------------------
# Sanitizers themselves need what is denied and hidden here.
if grep -qaE '__(asan|tsan)_init' "$spindle"; then
    echo 'skipped: a sanitizer cannot run where calls are refused'
elif [ -n "$deny" ] && "$deny" membarrier "$spindle" version >/dev/null; then
    run 0 "$deny" membarrier "$spindle" doctor --quick --quiet
    says 'membarrier *missing: Operation not permitted'
    says 'warning *membarrier(2) does not work here'
    run 0 "$deny" membarrier "$spindle" doctor --quick --quiet --json
    json 'd["system"]["membarrier"] == "missing" and not d["system"]["fences_asymmetric"]'
    json 'd["floors"]["fence_light"]["median_ns"] > 0'

    run 0 "$deny" sched_setaffinity "$spindle" doctor --quick --quiet --json
    json 'd["floors"]["line_round_trip"]["unknown"] == "threads cannot be pinned"'
    json 'd["floors"]["park_free"]["median_ns"] > 0'
    run 0 "$deny" sched_setaffinity,sched_getaffinity,prctl "$spindle" doctor --quick --quiet --json
    json 'd["cpus"]["usable"] >= 1 and d["cpus"]["affinity"] == 0'
    json 'd["system"]["timer_slack_ns"] is None'

    run 1 "$deny" clone,clone3 "$spindle" doctor --quick --quiet --json
    json 'd["suits"] is False'
    json '"unknown" in d["floors"]["thread"]'
    json 'any("No thread could be started" in f["text"] for f in d["findings"])'

    # Nothing below /proc and /sys, as root only.
    hide='mount -t tmpfs none /proc && mount -t tmpfs none /sys && exec "$0" "$@"'
    if unshare -m bash -c "$hide" true 2>/dev/null; then
        run 0 unshare -m bash -c "$hide" "$spindle" doctor --quick --quiet --json
        json 'd["cpus"]["usable"] >= 1'
        json 'd["system"]["clocksource"] is None and d["limits"]["threads_max"] is None'
        run 0 unshare -m bash -c "$hide" "$spindle" doctor --quick --quiet
        says 'source unknown'
    else
        echo 'skipped: /proc and /sys cannot be hidden without privilege'
    fi
else
    echo 'skipped: no seccomp filter can be installed'
fi

# ---- output that cannot be written is an error, not silence -----------------
run 1 bash -c '"$0" doctor --quick --quiet >/dev/full' "$spindle"
complains 'cannot write to standard output'
run 1 bash -c '"$0" version >/dev/full' "$spindle"
complains 'cannot write to standard output'
run 1 bash -c '"$0" version >&-' "$spindle"
complains 'standard output is closed'
run 0 bash -c '"$0" version <&- 2>&-' "$spindle"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
