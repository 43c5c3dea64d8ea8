# SPDX-License-Identifier: MIT
"""
long_run - what `make test-long` has beyond a run of all tests: how many schedules
the explorer runs, the record of finished jobs, and how long the rest will take.

LENGTH scales every number that is a mere count.  At 1 a whole run takes about 90
minutes on two quiet CPUs; at 10 it takes a night, and the random walk reaches a
million schedules in every scenario that is quick enough (see RANDOM_S).

Each whole run draws a new seed base, from which all schedules and the sample of
mutants follow, so that repeated runs add up.  A larger LENGTH is more jobs of the
same size, not larger jobs, so that an interrupt loses minutes.
"""
import hashlib
import json
import math
import os
import random
import re
import subprocess
import time

LENGTH_MAX = 1000

# Schedules per scenario and memory model at LENGTH=1, and the seconds after which a slow
# scenario stops earlier.  In schedules/s the scenarios range from 600 to 700,000: without
# the second limit a twentieth of them would take two thirds of the time.
RANDOM, RANDOM_S = 100000, 2
EACH, EACH_S = 5000, 0.5        # with each strategy, until it is saturated
SANITIZED = {"sim-asan": (1000, 0.3), "sim-tsan": (1000, 0.3)}
MUTANTS_EVERY = 4               # every fourth mutant, at LENGTH=1: some 5 s of CPU each
MUTANT_SCHEDULES = 5000

# Tests labelled long (fifty million tasks, a minute for each queue) run in this build; in
# all of them from this LENGTH on.  On one CPU every program runs in every build.
LONG_TESTS_IN, LONG_TESTS_EVERYWHERE = "release", 10

# Seconds per scenario with all its models at LENGTH=1, measured: what a first run expects.
SCENARIO_S = {"random": 4.4, "each": 1.2, "dfs": 0.8, "faults": 0.04, "share": 1.0}

EXPLORED = re.compile(r"^ok .*? (\d+) schedules(?:.*?, (\d+)/s)?", re.M)


def add_options(parser):
    parser.add_argument("--length", type=float, default=1, metavar="N",
                        help="with --long: so many times the usual number of schedules and "
                             "mutants; fractions will do")
    parser.add_argument("--seed-base", type=int, metavar="N",
                        help="with --long: the seeds of an earlier run (it prints them)")
    parser.add_argument("--state", metavar="FILE",
                        help="with --long: resume from this record of finished jobs "
                             "(--all has build/long.json)")
    parser.add_argument("--restart", action="store_true",
                        help="with --long: forget what was done")


def open_record(args, root):
    """The record of this run: in a file when it can be resumed."""
    if not 0 < args.length <= LENGTH_MAX:
        raise SystemExit(f"run-tests: --length is a number above 0, at most {LENGTH_MAX}")
    if args.seed_base is not None and args.seed_base < 1:
        raise SystemExit("run-tests: --seed-base is at least 1")
    path = args.state
    if path is None and args.all and not args.pattern and args.repeat == 1:
        path = os.path.join(root, "build", "long.json")
    record = Record(path, root, args.restart, args.seed_base)
    print(f"length {args.length:g}, seed base {record.seed_base} "
          f"(--seed-base {record.seed_base} runs the same schedules again)", flush=True)
    return record


def has_time_for(preset, name, length):
    """Whether a test that is labelled long runs in this build."""
    return (length >= LONG_TESTS_EVERYWHERE or preset == LONG_TESTS_IN
            or name.endswith("_one_cpu"))


# ---- the explorer --------------------------------------------------------------

class Explored:
    """How many schedules each scenario and model must report, or for how long."""

    def __init__(self, schedules, seconds):
        self.schedules, self.seconds = schedules, seconds

    def complaint(self, output):
        """What is wrong with a program's output, or None."""
        lines = EXPLORED.findall(output)
        if not lines:
            return "no scenario said how many schedules it ran"
        for count, rate in lines:
            if int(count) < self.schedules and int(count) < 0.8 * self.seconds * int(rate or 0):
                return (f"a scenario ran {count} schedules, expected {self.schedules} "
                        f"or {self.seconds:g} s of them")
        return None


def explorer_parts(preset, length, seed_base):
    """Yields (kind, suffix, options, weight, Explored or None): what a long run does with
    each scenario program of this preset.  The weight is relative to a whole part."""
    parts = max(1, math.ceil(length))
    share = length / parts   # of the counts above, in each part

    def limits(schedules, seconds):
        return ["--schedules", str(max(1, round(schedules * share))),
                "--seconds", f"{seconds * share:g}"]

    def first_seed(offset):
        return ["--first-seed", str(seed_base + offset)]

    if preset in SANITIZED:
        schedules, seconds = SANITIZED[preset]
        for i in range(parts):
            yield ("share", f"/share-{i + 1}",
                   ["--no-dfs", *limits(schedules, seconds), *first_seed(i * schedules)],
                   share, None)
        return
    yield "dfs", "/dfs", ["--long", *first_seed(0)], 1.0, None
    yield "faults", "/faults", ["--faults", *first_seed(0)], 1.0, None
    for i in range(parts):
        yield ("random", f"/random-{i + 1}",
               ["--strategy", "random", *limits(RANDOM, RANDOM_S), *first_seed(i * RANDOM)],
               share, Explored(round(RANDOM * share), RANDOM_S * share))
        # Beyond the seeds of any random walk; what is left of the shares of PCT goes to
        # the random strategy.
        yield ("each", f"/each-{i + 1}",
               ["--no-dfs", *limits(EACH, EACH_S),
                *first_seed(LENGTH_MAX * RANDOM + i * 3 * EACH)], share, None)


def scenario_count(command):
    try:
        listing = subprocess.run(command + ["--list"], capture_output=True, text=True,
                                 stdin=subprocess.DEVNULL, check=False, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return 1   # the run itself will show what is wrong
    return max(1, len(listing.splitlines()))


def mutate_options(length, seed_base):
    every = max(1, round(MUTANTS_EVERY / length))
    schedules = max(1, round(MUTANT_SCHEDULES * min(1, length)))
    return ["--every", str(every), "--schedules", str(schedules),
            "--justified-schedules", "0", "--first-seed", str(seed_base)]


# ---- what a job is made of -----------------------------------------------------

def file_digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


class Identity:
    """Tells whether a job is the one that ran before: its command and environment, the
    programs it runs, and for a script all files of the project."""

    def __init__(self, root):
        self.root, self.build = root, os.path.join(root, "build") + os.sep
        self.tree, self.libraries = None, {}

    def of(self, job):
        parts, is_program = [job.command, sorted(job.env.items())], False
        for argument in job.command:
            path = os.path.normpath(os.path.join(job.cwd, argument))
            if path.startswith(self.build) and os.path.isfile(path):
                parts += [file_digest(path), self.libraries_of(path)]
                is_program = True
            elif path.startswith(self.root + os.sep) and os.path.isfile(path):
                parts.append(self.of_tree())
        if not is_program:
            parts.append(self.of_tree())
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def libraries_of(self, program):
        """Of the shared objects in the program's build tree, which it may load."""
        top = self.build + program[len(self.build):].split(os.sep)[0]
        if top not in self.libraries:
            found = sorted(os.path.join(at, name) for at, _, names in os.walk(top)
                           for name in names if name.endswith(".so") or ".so." in name)
            self.libraries[top] = [file_digest(path) for path in found if os.path.isfile(path)]
        return self.libraries[top]

    def of_tree(self):
        if self.tree is None:
            digest = hashlib.sha256()
            for path in sorted(self.files()):
                full = os.path.join(self.root, path)
                if os.path.isfile(full):
                    digest.update(f"{path} {file_digest(full)}\n".encode())
            self.tree = digest.hexdigest()
        return self.tree

    def files(self):
        git = subprocess.run(["git", "ls-files", "-coz", "--exclude-standard"], cwd=self.root,
                             capture_output=True, text=True, check=False)
        if git.returncode == 0:
            return git.stdout.split("\0")[:-1]
        found = []
        for at, folders, names in os.walk(self.root):
            if at == self.root:
                folders[:] = [f for f in folders if f != "build"]
            found += [os.path.relpath(os.path.join(at, name), self.root) for name in names]
        return found


# ---- what is done --------------------------------------------------------------

class Record:
    """The jobs of a long run that passed, in a file which is replaced as a whole.

    Failed jobs are not in it, so that the next run does them again."""

    def __init__(self, path, root, restart, seed_base):
        self.path, self.identity = path, Identity(root)
        self.identities, self.jobs, self.seed_base = {}, {}, seed_base
        if path is not None and not restart:
            self.read()
        if self.seed_base is None:
            self.seed_base = random.SystemRandom().randrange(1, 10**12)

    def read(self):
        try:
            with open(self.path, encoding="utf-8") as file:
                state = json.load(file)
            self.jobs = state["jobs"]
            self.seed_base = self.seed_base or state["seed_base"]
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError) as error:
            print(f"{self.path} cannot be read ({error}): starting from the beginning")

    def recall(self, jobs):
        """Fills in the results of those that were done; returns (done, still to do)."""
        done, left = [], []
        for job in jobs:
            was = self.jobs.get(job.full_name)
            if was is None or was["identity"] != self.identity.of(job):
                left.append(job)
                self.jobs.pop(job.full_name, None)
                continue
            job.passed, job.skipped, job.seconds = was["passed"], was["skipped"], was["seconds"]
            job.skips = [tuple(skip) for skip in was["skips"]]
            done.append(job)
        self.save()   # with what it has of builds that are broken at the moment
        return done, left

    def started(self, job):
        """Before it runs: the program may be built anew meanwhile."""
        self.identities[job.full_name] = self.identity.of(job)

    def finished(self, job):
        if job.failed:
            return
        self.jobs[job.full_name] = {
            "identity": self.identities[job.full_name], "passed": job.passed,
            "skipped": job.skipped, "skips": job.skips, "seconds": round(job.seconds, 2)}
        self.save()

    def save(self):
        if self.path is None:
            return
        os.makedirs(os.path.dirname(self.path) or ".", exist_ok=True)
        partial = self.path + ".partial"
        with open(partial, "w", encoding="utf-8") as file:
            json.dump({"seed_base": self.seed_base, "jobs": self.jobs}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, self.path)

    def close(self, failed):
        """The run is over: the next begins anew, unless jobs failed."""
        if self.path is None:
            return
        if failed:
            print("the next run repeats what failed, and nothing else (--restart: all)")
        elif os.path.exists(self.path):
            os.remove(self.path)


# ---- how long is left ----------------------------------------------------------

def in_words(seconds):
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


class Estimate:
    """How many jobs are done and how long the others will take.

    Jobs of a kind that take longer than expected raise what is expected of the rest of
    their kind, so that a first run, which knows no durations, soon tells the truth."""

    def __init__(self, left, done_before, parallel):
        self.left = {id(job): job for job in left}
        self.done, self.total = done_before, done_before + len(left)
        self.parallel = parallel
        self.spent, self.started_at = {}, {}   # kind: [expected, taken]

    def started(self, job):
        self.started_at[id(job)] = time.monotonic()

    def finished(self, job):
        self.left.pop(id(job), None)
        self.done += 1
        spent = self.spent.setdefault(job.kind, [0.0, 0.0])
        spent[0] += job.expected
        spent[1] += job.seconds

    def ratio(self, kind):
        expected, taken = self.spent.get(kind, (0.0, 0.0))
        # As if some time had gone as expected: the first job of a kind proves little.
        return (taken + 20) / (expected + 20)

    def seconds_left(self):
        now = time.monotonic()
        rest = []
        for job in list(self.left.values()):
            seconds = job.expected * self.ratio(job.kind)
            running = now - self.started_at.get(id(job), now)
            # One that takes longer than expected may take a while yet.
            rest.append(max(seconds - running, 0.1 * seconds, 0.25 * running))
        return max([sum(rest) / self.parallel, *rest], default=0)

    def text(self):
        text = f"{self.done} of {self.total} done"
        if self.left:
            text += f", about {in_words(self.seconds_left())} left"
        return text


class Watch:
    """Follows a long run: tells the record and the estimate of each job."""

    def __init__(self, record, jobs, parallel):
        self.record = record
        self.done, self.left = record.recall(jobs)
        self.estimate = Estimate(self.left, len(self.done), parallel)

    def __enter__(self):
        if self.done:
            print(f"resuming: {len(self.done)} of {self.estimate.total} jobs were done")
        print(f"{self.estimate.text()}", flush=True)
        return self

    def __exit__(self, kind, *_):
        if kind is KeyboardInterrupt and self.record.path is not None:
            print(f"interrupted: {self.estimate.done} of {self.estimate.total} jobs had ended; "
                  "the next run continues")

    def started(self, job):
        self.record.started(job)
        self.estimate.started(job)

    def finished(self, job):
        self.record.finished(job)
        self.estimate.finished(job)

    def progress(self):
        return self.estimate.text()
