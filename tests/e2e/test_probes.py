#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The scripts for bpftrace against the library: each probe they name is in the library's
notes and in the list of src/metrics/probes.h, with as many arguments as the scripts use,
and each probe is used by some script.  Where bpftrace is installed and may run at all, it
also compiles the scripts against the library.

    test_probes.py SOURCE_DIRECTORY SHARED_LIBRARY
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

source, library = sys.argv[1:]
counts = {True: 0, False: 0}


def check(ok, what):
    counts[bool(ok)] += 1
    if not ok:
        print("FAIL:", what)
    return ok


def notes():
    """Probes of the library by name, each with its number of arguments."""
    text = subprocess.run(["readelf", "-n", library], capture_output=True, text=True,
                          check=True).stdout
    found = {}
    for name, arguments in re.findall(
            r"Provider: spindle\s+Name: (\w+)\s+Location:[^\n]*\n\s+Arguments:([^\n]*)", text):
        found.setdefault(name, set()).add(len(arguments.split()))
    return found


def documented():
    """The same as the header lists them: a name, then what it tells, between commas."""
    text = open(f"{source}/src/metrics/probes.h").read()
    return {name: {len(what.split(","))}
            for name, what in re.findall(r"^ \*     (task_\w+) +(.+)$", text, re.M)}


def used(script):
    """(probe, how many arguments its block needs) of a script, comments left out."""
    text = re.sub(r"/\*.*?\*/", "", open(script).read(), flags=re.S)
    parts = re.split(r"usdt:\*:spindle:(\w+)", text)
    for name, block in zip(parts[1::2], parts[2::2]):
        block = re.split(r"^(?:usdt:|interval:|BEGIN|END)", block, flags=re.M)[0]
        yield name, max((int(n) + 1 for n in re.findall(r"\barg(\d)", block)), default=0)


probes = notes()
if not probes:
    print("skipped: the library has no probes (no <sys/sdt.h> when it was built)")
    if os.environ.get("CI") == "true":   # a machine that has all packages
        print("0 passed, 1 failed")
        sys.exit(1)
    sys.exit(77)
check(probes == documented(), f"the library has {probes}, probes.h lists {documented()}")

scripts = sorted(glob.glob(f"{source}/tools/bpftrace/*.bt"))
check(scripts, "there are scripts")
names = set()
for script in scripts:
    short = os.path.basename(script)
    uses = list(used(script))
    check(uses, f"{short} uses a probe")
    for name, needed in uses:
        names.add(name)
        if check(name in probes, f"{short}: there is no probe {name}"):
            check(needed <= min(probes[name]),
                  f"{short}: {name} has {min(probes[name])} arguments, not {needed}")
check(names == set(probes), f"no script uses {set(probes) - names}")

# It wants to be root even to compile.  What it says of the kernel does not matter here.
if shutil.which("bpftrace") and os.geteuid() == 0:
    for script in scripts:
        with tempfile.NamedTemporaryFile("w", suffix=".bt") as copy:
            copy.write(open(script).read().replace("usdt:*:", f"usdt:{library}:"))
            copy.flush()
            done = subprocess.run(["bpftrace", "-d", copy.name, "100"], capture_output=True,
                                  text=True)
        check(done.returncode == 0 and "AST after: Semantic" in done.stdout,
              f"bpftrace does not take {os.path.basename(script)}: {done.stderr[-400:]}")

print(f"{counts[True]} passed, {counts[False]} failed")
sys.exit(1 if counts[False] else 0)
