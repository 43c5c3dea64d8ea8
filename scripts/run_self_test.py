# SPDX-License-Identifier: MIT
"""
run_self_test - tests scripts/run-tests from outside: a copy of it runs in a tree whose
programs are small shell scripts that pass, fail, skip, hang and wait to be interrupted.
The same for the counts and samples of scripts/mutate.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SCRIPTS = os.path.dirname(os.path.abspath(__file__))
LAST_LINE = re.compile(r"\d+ passed, \d+ failed(, \d+ skipped)?")
counts = {True: 0, False: 0}


def check(ok, text, run=None):
    counts[bool(ok)] += 1
    if not ok:
        print(f"FAIL {text}")
        if run is not None:
            print("    " + run.stdout.rstrip().replace("\n", "\n    "))


class Tree:
    """A project with one build, whose tests are the programs given, as {name: shell}."""

    def __init__(self, programs, preset="fake"):
        self.root, self.preset = os.path.realpath(tempfile.mkdtemp()), preset
        self.build = os.path.join(self.root, "build", preset)
        os.makedirs(self.build)
        os.makedirs(os.path.join(self.root, "scripts"))
        for name in ("run-tests", "long_run.py", "run_self_test.py", "mutate"):
            shutil.copy(os.path.join(SCRIPTS, name), os.path.join(self.root, "scripts"))
        self.write("scripts/build", "#!/bin/sh\n")
        self.write("scripts/emulated.skip", "# none\n")
        for name, shell in programs.items():
            self.program(name, shell)
        self.tests({name: [os.path.join(self.build, name)] for name in programs})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.root)

    def write(self, path, text):
        path = os.path.join(self.root, path)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)

    def program(self, name, shell):
        self.write(os.path.join(self.build, name), f"#!/bin/sh\ncd {self.root}\n{shell}\n")

    def tests(self, commands):
        lines = [f"add_test({name} {' '.join(command)})" for name, command in commands.items()]
        self.write(os.path.join(self.build, "CTestTestfile.cmake"), "\n".join(lines) + "\n")

    def start(self, *options):
        return subprocess.Popen(
            [sys.executable, os.path.join(self.root, "scripts", "run-tests"), self.preset,
             "-j", "1", *options],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, *options):
        """Runs to the end: the result has returncode, stdout and the last line."""
        process = self.start(*options)
        process.stdout_text, _ = process.communicate(timeout=120)
        run = subprocess.CompletedProcess(process.args, process.returncode,
                                          process.stdout_text)
        run.last = run.stdout.splitlines()[-1]
        check(LAST_LINE.fullmatch(run.last), f"the last line is '{run.last}'", run)
        check((run.returncode == 0) == (", 0 failed" in run.last),
              f"exit status {run.returncode} after '{run.last}'", run)
        return run

    def lines(self, name):
        try:
            with open(os.path.join(self.root, name), encoding="utf-8") as file:
                return file.read().split()
        except FileNotFoundError:
            return []


def expect(programs, last, *texts, options=(), preset="fake"):
    with Tree(programs, preset) as tree:
        run = tree.run(*options)
        check(run.last == last, f"{list(programs)}: '{run.last}', expected '{last}'", run)
        for text in texts:
            check(text in run.stdout, f"{list(programs)}: no '{text}'", run)


def test_counts():
    expect({"a": "echo '3 passed, 0 failed'"}, "3 passed, 0 failed")
    expect({"a": "true"}, "1 passed, 0 failed")
    expect({"a": "exit 3"}, "0 passed, 1 failed", "(exit status 3)", "failed: fake/a")
    expect({"a": "echo '2 passed, 1 failed'; exit 1", "b": "echo '4 passed, 0 failed'"},
           "6 passed, 1 failed", "failed: fake/a")
    expect({"a": "echo '2 passed, 0 failed'; kill -SEGV $$"}, "2 passed, 1 failed")
    expect({}, "0 passed, 1 failed", "nothing was run")


def test_skips():
    expect({"a": "echo 'skipped: no such device'; exit 77", "b": "true"},
           "1 passed, 0 failed, 1 skipped", "\nskipped: fake/a: no such device\n")
    # As the harness prints them; the one that did not skip after all is none.
    harness = ("echo '  skipped: too old'; echo 'skip one'; echo '  skipped: twice';"
               "echo '  skipped: no luck'; echo 'skip two'; echo '  skipped: no'; echo 'ok   x';"
               "echo '1 passed, 0 failed, 2 skipped'")
    expect({"a": harness}, "1 passed, 0 failed, 2 skipped",
           "\nskipped: fake/a: too old\n", "\nskipped: fake/a: no luck\n")
    # A part of a script, which it does not count.
    expect({"a": "echo 'skipped: no gnuplot'; echo '5 passed, 0 failed'"},
           "5 passed, 0 failed, 1 skipped", "\nskipped: fake/a: no gnuplot\n")
    same = "echo 'skipped: not built in'; exit 77"
    expect({"a": same, "b": same, "c": "true"}, "1 passed, 0 failed, 2 skipped",
           "\nskipped: 2 in fake: not built in\n")
    # What a nested run sums up is counted again.
    expect({"a": "echo 'skipped: 3 in other: old'; echo '1 passed, 0 failed, 3 skipped'"},
           "1 passed, 0 failed, 3 skipped", "\nskipped: 3 in fake/a: old\n")


def test_skips_without_reason():
    expect({"a": "exit 77"}, "0 passed, 1 failed, 1 skipped", "and the reasons of 0")
    expect({"a": "echo 'skipped:  '; exit 77"}, "0 passed, 1 failed, 1 skipped")
    expect({"a": "echo 'skip one'; echo '2 passed, 0 failed, 1 skipped'"},
           "2 passed, 1 failed, 1 skipped", "1 skipped, and the reasons of 0")


def test_emulated():
    with Tree({"qemu-any": 'exec "$@"', "a": 'case $1 in --list) echo one; echo two;; one) '
               "echo '1 passed, 0 failed';; *) exit 9;; esac"}, "aarch64") as tree:
        program = os.path.join(tree.build, "a")
        tree.tests({"a": [os.path.join(tree.build, "qemu-any"), program], "b": [program]})
        tree.write("scripts/emulated.skip", "a two the emulator is too slow\n")
        run = tree.run()
        check(run.last == "1 passed, 0 failed, 2 skipped", f"emulated: {run.last}", run)
        check("\nskipped: aarch64/a: not emulated (scripts/emulated.skip)\n" in run.stdout and
              "\nskipped: aarch64/b: a script" in run.stdout, "reasons of emulation", run)
        tree.write("scripts/emulated.skip", "a two\n")
        process = tree.start()
        out, _ = process.communicate(timeout=60)
        check(process.returncode != 0 and "no reason in 'a two'" in out,
              f"emulated.skip without a reason: {out}")


def test_hang():
    # Its child leaves the session and holds the output.
    begun = time.monotonic()
    expect({"a": "echo before; setsid sleep 60 & sleep 60", "b": "true"}, "1 passed, 1 failed",
           "before", "killed after 2 s", options=("--limit", "2"))
    check(time.monotonic() - begun < 30, "a program that hangs holds the run up")


def read_until(process, text):
    """The output up to the line with this text."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            break
    return "".join(lines)


def await_file(tree, name):
    until = time.monotonic() + 60
    while not tree.lines(name) and time.monotonic() < until:
        time.sleep(0.01)


def ran(name, then="true"):
    return f"echo {name} >>ran; {then}"


def test_resume(sent):
    state = ("--long", "--state", "unset")
    with Tree({"a": ran("a"), "b": ran("b", "exit 1"), "c": ran("c", "echo x >up; sleep 60"),
               "d": ran("d")}) as tree:
        path = os.path.join(tree.root, "build", "long.json")
        state = ("--long", "--state", path)
        process = tree.start(*state)
        out = read_until(process, "[2 of 4 done")
        await_file(tree, "up")
        process.send_signal(sent)
        out += process.communicate(timeout=60)[0]
        name = signal.Signals(sent).name
        check(process.returncode == 130, f"{name}: exit status {process.returncode}")
        check("[1 of 4 done, about" in out and "[2 of 4 done, about" in out, f"progress: {out}")
        check("interrupted: 2 of 4 jobs" in out, f"{name}: {out}")
        seed_base = re.search(r"seed base (\d+)", out)[1]
        with open(path, encoding="utf-8") as file:
            check(list(json.load(file)["jobs"]) == ["fake/a"], f"{name}: the record")

        # a is not run again; b, which failed, and c, which was interrupted, are.
        tree.program("c", ran("c"))
        run = tree.run(*state)
        check(run.last == "3 passed, 1 failed", f"resumed: {run.last}", run)
        check("resuming: 1 of 4 jobs were done" in run.stdout, "says that it resumes", run)
        check(f"seed base {seed_base}" in run.stdout, "keeps the seed base", run)
        check(sorted(tree.lines("ran")[3:]) == ["b", "c", "d"], f"ran {tree.lines('ran')}")

        # Another program by the same name is run; the other results are kept.
        tree.program("d", ran("d", "echo '5 passed, 0 failed'"))
        tree.program("b", ran("b"))
        run = tree.run(*state)
        check(run.last == "8 passed, 0 failed", f"changed: {run.last}", run)
        check("resuming: 2 of 4" in run.stdout, "two were done", run)
        check(sorted(tree.lines("ran")[6:]) == ["b", "d"], f"ran {tree.lines('ran')[6:]}")
        check(not os.path.exists(path), "the record is removed in the end")
        run = tree.run(*state)
        check("resuming" not in run.stdout and len(tree.lines("ran")) == 12, "begins anew", run)


def test_record():
    with Tree({"a": ran("a"), "b": ran("b", "exit 1")}) as tree:
        path = os.path.join(tree.root, "build", "long.json")
        state = ("--long", "--state", path)
        tree.run(*state)
        run = tree.run("--restart", "--seed-base", "77", *state)
        check(tree.lines("ran").count("a") == 2, f"--restart: {tree.lines('ran')}", run)
        check("seed base 77 " in run.stdout, "--seed-base", run)
        with open(path, "w", encoding="utf-8") as file:
            file.write('{"jobs"')
        run = tree.run(*state)
        check("cannot be read" in run.stdout and tree.lines("ran").count("a") == 3,
              "a broken record is forgotten", run)


# Lists two scenarios; else says what it was asked for, and that it ran 100 schedules/s.
SCENARIOS = r"""[ "$1" = --list ] && { echo 'one A-1'; echo 'two A-2'; exit; }
echo "$@" >>asked
count=$(echo "$@" | sed -n 's/.*--schedules \([0-9]*\).*/\1/p')
[ -e slow ] && count=150
[ -e lazy ] && count=5
echo "ok     one   sc  ${count:-9} schedules, 9 distinct, 100/s"
echo "1 passed, 0 failed"
"""


def test_explorer():
    with Tree({"sim_x": SCENARIOS}, "sim") as tree:
        def asked(*options):
            if os.path.exists(os.path.join(tree.root, "asked")):
                os.remove(os.path.join(tree.root, "asked"))
            run = tree.run("--long", "--seed-base", "1000", *options)
            with open(os.path.join(tree.root, "asked"), encoding="utf-8") as file:
                return run, sorted(file.read().splitlines())

        run, once = asked()
        check(run.last == "4 passed, 0 failed" and len(once) == 4, "a whole part", run)
        check(any("random --schedules 100000 --seconds 2 --first-seed 1000" in line
                  for line in once), f"the random walk: {once}")
        run, twice = asked("--length", "2")
        check(run.last == "6 passed, 0 failed" and len(set(twice)) == 6,
              "two parts, with other seeds", run)
        check(any("--first-seed 101000" in line for line in twice), f"the second: {twice}")
        run, less = asked("--length", "0.1")
        check(any("--schedules 10000 --seconds 0.2" in line for line in less), f"{less}")
        tree.write("slow", "")   # 1.5 s of the 2 that it had
        run, _ = asked()
        check(", 1 failed" in run.last and "a scenario ran 150 schedules" in run.stdout,
              "too few schedules in too little time", run)
        tree.write("lazy", "")
        run, _ = asked("--length", "0.1")
        check(", 1 failed" in run.last, "fewer schedules, and quick", run)


# Four mutants, which are killed in the third schedule, or survive.
MUTANTS = r"""case "$*" in
*--mutants*) for i in 1 2 3 4; do echo "src/a.c:$i:store@x:release-relaxed"; done;;
*--mutate*) echo "$@" >>asked
    [ -e alive ] && { echo "survived $2"; exit 1; }
    echo "killed $2 by one, c11, random, schedule 3";;
*) echo "$@" >>asked;;
esac
"""


def test_mutate():
    with Tree({"sim_x": MUTANTS}, "sim") as tree:
        os.makedirs(os.path.join(tree.root, "src"))
        tree.write("src/a.c", "one\ntwo\nthree\nfour /* mutant: harmless */\n")

        def mutate(*options):
            if os.path.exists(os.path.join(tree.root, "asked")):
                os.remove(os.path.join(tree.root, "asked"))
            run = subprocess.run(
                [sys.executable, os.path.join(tree.root, "scripts", "mutate"), tree.build,
                 *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                check=False)
            return run, run.stdout.splitlines()[-1], " ".join(tree.lines("asked"))

        run, last, asked = mutate("--first-seed", "10")
        check(last == "4 passed, 0 failed" and run.returncode == 0, "all are killed", run)
        check("4 of 4, 4 killed" in run.stdout, "says how far it is", run)
        check(asked.count("--seed 12") == 4, f"looks at the schedule that killed: {asked}")
        check(asked.count("--schedules 200 ") == 1, f"fewer where there is a reason: {asked}")
        run, last, asked = mutate("--every", "2", "--first-seed", "1")
        check(last == "2 passed, 0 failed" and "src/a.c:2:" in asked and
              "src/a.c:4:" in asked and "src/a.c:1:" not in asked, "every second", run)
        check("left to other seeds: 2 of 4 mutants" in run.stdout, "says what it left", run)
        run, last, asked = mutate("--justified-schedules", "0")
        check(last == "4 passed, 0 failed" and "src/a.c:4:" not in asked, "reasons", run)
        tree.write("alive", "")
        run, last, asked = mutate()
        check(last == "1 passed, 3 failed" and run.returncode == 1, "survivors", run)


def main():
    test_counts()
    test_skips()
    test_skips_without_reason()
    test_emulated()
    test_hang()
    test_resume(signal.SIGTERM)
    test_resume(signal.SIGINT)
    test_record()
    test_explorer()
    test_mutate()
    print(f"{counts[True]} passed, {counts[False]} failed")
    return 1 if counts[False] else 0
