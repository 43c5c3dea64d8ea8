#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The man pages against the headers: every public function is in one of them
with its very prototype, every page has its parts, every code of status.h is
listed, and every example compiles without a warning, runs and succeeds.

    test_man.py SOURCE_DIRECTORY COMPILER LIBRARY... [-- FLAG...]

Flags come behind the libraries: what those need, and a sanitizer.
"""
import glob
import os
import re
import shlex
import subprocess
import sys
import tempfile

source, compiler, *rest = sys.argv[1:]
at = rest.index("--") if "--" in rest else len(rest)
libraries, flags = rest[:at], rest[at + 1:]
counts = {True: 0, False: 0}


def check(ok, what):
    counts[bool(ok)] += 1
    if not ok:
        print("FAIL:", what)
    return ok


def normal(text):
    """One spelling for a type or a prototype."""
    return re.sub(r"\s*([*(),])\s*", r"\1", " ".join(text.split()))


def header_functions():
    """name -> (prototype, header), from include/spindle."""
    found = {}
    for path in glob.glob(source + "/include/spindle/*.h"):
        text = re.sub(r"/\*.*?\*/", "", open(path).read(), flags=re.S)
        for match in re.finditer(r"^SPN_API\s+(?:SPN_NODISCARD\s+)?([^;#]*?);", text, re.M):
            prototype = normal(match.group(1))
            name = re.search(r"(spn_\w+)\(", prototype).group(1)
            found[name] = (prototype, "spindle/" + os.path.basename(path))
    return found


def page_functions(text):
    """name -> prototype, from the SYNOPSIS of an mdoc page."""
    synopsis = text.split(".Sh SYNOPSIS", 1)[1].split(".Sh ", 1)[0]
    found, returned, name, arguments = {}, "", None, []
    for line in synopsis.splitlines():
        words = shlex.split(line)
        macro = words[0] if words else ""
        if macro == ".Ft":
            returned = " ".join(words[1:])
        elif macro == ".Fn":
            found[words[1]] = normal("%s %s(%s)" % (returned, words[1], ", ".join(words[2:])))
        elif macro == ".Fo":
            name, arguments = words[1], []
        elif macro == ".Fa":
            arguments += words[1:]
        elif macro == ".Fc":
            found[name] = normal("%s %s(%s)" % (returned, name, ", ".join(arguments)))
    return {n: p for n, p in found.items() if n.startswith("spn_")}


def examples(text):
    """The literal blocks that are whole programs."""
    for block in re.findall(r"^\.Bd -literal\n(.*?)^\.Ed", text, re.S | re.M):
        if "int main" in block:
            yield block.replace("\\e", "\\")


def check_example(name, code, directory):
    path = os.path.join(directory, name + ".c")
    with open(path, "w") as file:
        file.write(code)
    built = subprocess.run(
        [compiler, "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Werror",
         "-I" + source + "/include", path, "-o", path[:-2], *libraries, "-pthread", *flags],
        capture_output=True, text=True)
    if not check(built.returncode == 0, name + ": the example does not compile\n" + built.stderr):
        return
    ran = subprocess.run([path[:-2]], capture_output=True, text=True, timeout=60)
    check(ran.returncode == 0,
          "%s: the example ends with %d\n%s" % (name, ran.returncode, ran.stderr))


headers = header_functions()
check(len(headers) >= 40, "only %d functions found in the headers" % len(headers))
documented = {}
with tempfile.TemporaryDirectory() as directory:
    for path in sorted(glob.glob(source + "/docs/man/*.[137]")):
        name = os.path.basename(path)
        text = open(path).read()
        programs = list(examples(text))
        for i, code in enumerate(programs):
            check_example("%s_%d" % (name, i), code, directory)
        if not name.endswith(".3"):
            continue
        for part in (".Sh NAME", ".Sh SYNOPSIS", ".Sh DESCRIPTION", ".Ss Threads and blocking",
                     ".Ss How long arguments live", ".Sh RETURN VALUES", ".Sh EXAMPLES"):
            check(part in text, "%s has no '%s'" % (name, part))
        check(programs, name + " has no example that is a program")
        included = re.search(r"^\.In (\S+)", text, re.M).group(1)
        names = re.findall(r"^\.Nm (spn_\w+)", text.split(".Sh LIBRARY")[0], re.M)
        functions = page_functions(text)
        check(names == list(functions), "%s: NAME and SYNOPSIS differ" % name)
        for function, prototype in functions.items():
            documented[function] = name
            wanted, header = headers.get(function, ("", ""))
            check(prototype == wanted, "%s: %s\n  header: %s\n  page:   %s"
                  % (name, function, wanted, prototype))
            check(header == included, "%s: %s is in <%s>" % (name, function, header))
        # A page names no code that does not exist.  Its own title is none.
        body = re.sub(r"^\.Dt .*$", "", text, flags=re.M)
        codes = set(re.findall(r"\bSPN_E[A-Z]+\b", body)) - {"SPN_EUNKNOWN"}
        known = set("SPN_E" + c for c in re.findall(
            r"X\((\w+), -\d+,", open(source + "/include/spindle/status.h").read()))
        check(codes <= known, "%s: no such code: %s" % (name, codes - known))

for function in headers:
    check(function in documented, "no man page has " + function)
status_page = open(source + "/docs/man/spn_status.3").read()
for code, number, text in re.findall(r'X\((\w+), (-\d+), "([^"]*)"\)',
                                     open(source + "/include/spindle/status.h").read()):
    check(".It Dv SPN_E%s Ta \\%s Ta %s\n" % (code, number, text) in status_page,
          "spn_status.3: SPN_E%s %s %s" % (code, number, text))

print("%d passed, %d failed" % (counts[True], counts[False]))
sys.exit(0 if counts[False] == 0 else 1)
