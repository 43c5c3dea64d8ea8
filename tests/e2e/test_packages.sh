#!/bin/bash
# SPDX-License-Identifier: MIT
#
# scripts/packages beside other users of the package manager, which is a script here:
# nothing is installed.   test_packages.sh SOURCE_DIRECTORY
set -u
packages=$1/scripts/packages
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

check() { # check PROPERTY COMMAND...
    local property=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL: $property"
        sed 's/^/    /' "$work"/*.out "$work/calls" 2>/dev/null
    fi
}

# A machine on which a file says what is installed, and another how often a lock is held.
mkdir "$work/bin"
fake() { # fake PROGRAM, its lines on standard input
    { echo '#!/bin/bash' && cat; } >"$work/bin/$1"
    chmod +x "$work/bin/$1"
}
fake id <<<'echo 0'
fake apt-cache <<<'shift; for p; do echo "  Candidate: 1"; done'
fake dpkg-query <<'FAKE'
shift 3
for package; do
    grep -qx "$package" "$FAKE/installed" && echo "$package installed"
done
FAKE
fake apt-get <<'FAKE'
mkdir "$FAKE/running" 2>/dev/null || echo "two at once" >>"$FAKE/calls"
echo "$*" >>"$FAKE/calls"
held=$(cat "$FAKE/held")
if [ "$held" -gt 0 ]; then
    echo $((held - 1)) >"$FAKE/held"
    echo "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (other)"
    rmdir "$FAKE/running"
    exit 100
fi
[ ! -e "$FAKE/broken" ] || { echo "E: no such package"; rmdir "$FAKE/running"; exit 100; }
for word; do echo "$word" >>"$FAKE/installed"; done
rmdir "$FAKE/running"
FAKE
export FAKE=$work PATH=$work/bin:$PATH SPINDLE_PACKAGES_LOCK=$work/lock
fresh() { # fresh HELD: nothing is installed, and a lock is held so many times
    rm -rf "$work"/{installed,calls,running,broken} "$work"/*.out
    touch "$work/installed" "$work/calls"
    echo "$1" >"$work/held"
}

fresh 0
"$packages" browser >"$work/1.out" 2>&1
check 'it installs what is missing' [ $? -eq 0 ]
check 'one call of apt-get' [ "$(wc -l <"$work/calls")" -eq 1 ]
check 'which waits for dpkg' grep -q 'DPkg::Lock::Timeout=600' "$work/calls"
"$packages" browser >"$work/1.out" 2>&1
check 'what is there is not installed again' [ "$(wc -l <"$work/calls")" -eq 1 ]
check 'nothing is said then' [ ! -s "$work/1.out" ]

fresh 0
"$packages" browser >"$work/1.out" 2>&1 &
first=$!
"$packages" node >"$work/2.out" 2>&1
check 'the second of two that install at once succeeds' [ $? -eq 0 ]
wait "$first"
check 'so does the first' [ $? -eq 0 ]
check 'both packages are there' grep -qx chromium "$work/installed"
check 'both packages are there' grep -qx npm "$work/installed"
check 'the package manager ran once at a time' bash -c '! grep -q "two at once" "$1"' - "$work/calls"

fresh 2
"$packages" browser >"$work/1.out" 2>&1
check "another program's lock is waited for" [ $? -eq 0 ]
check 'it says what it waits for' grep -q '^waiting for /var/lib/apt/lists/lock' "$work/1.out"
check 'and says so once' [ "$(grep -c '^waiting' "$work/1.out")" -eq 1 ]

fresh 1000000
SPINDLE_PACKAGES_WAIT_S=0 "$packages" browser >"$work/1.out" 2>&1
check 'a lock that stays held is a failure' [ $? -eq 1 ]
check 'which names the holder' grep -q 'held by process 7' "$work/1.out"
check 'and the command' grep -q 'apt-get install --no-install-recommends chromium' "$work/1.out"

fresh 0
touch "$work/broken"
"$packages" browser >"$work/1.out" 2>&1
check 'another error is a failure at once' [ $? -eq 1 ]
check 'and is shown' grep -q 'no such package' "$work/1.out"

"$packages" nonsense >"$work/1.out" 2>&1
check 'an unknown group is wrong use' [ $? -eq 2 ]

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
