#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""docs/ARCHITECTURE.md against the source: each file and folder that it names exists, each "FILE: f()" is defined in that file, and
every other f() somewhere.

usage: test-architecture.py SOURCE-DIRECTORY
"""

import os
import re
import sys

SOURCE = sys.argv[1]
BASES = ("", "stage0/supervisor")  # what its paths begin at
SUFFIXES = "c|h|py|proto|varlink|md"
DEFINITION = r"(?m)^[A-Za-z_][^;{}()=]*\b%s\("  # at the beginning of a line, so no call


def read(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8", errors="replace") as f:
        return f.read()


def find(path):
    """Where the file or folder is; None: nowhere. A name without a folder is of any file."""
    for base in BASES:
        if os.path.exists(os.path.join(SOURCE, base, path)):
            return os.path.join(base, path)
    return BY_NAME.get(path)


def defines(text, function):
    return re.search(DEFINITION % function, text) is not None


def walk():
    for folder, folders, files in os.walk(SOURCE):
        folders[:] = [f for f in folders if not f.startswith((".", "build"))]
        for name in files:
            if re.search(r"\.(%s)$" % SUFFIXES, name):
                yield os.path.relpath(os.path.join(folder, name), SOURCE)


FILES = sorted(walk())
BY_NAME = {os.path.basename(f): f for f in FILES}
TEXT = read("docs/ARCHITECTURE.md")


def files_are_there():
    return sorted({p for p in re.findall(r"(?<![\w/.-])[\w.-]+(?:/[\w.-]+)*\.(?:%s)(?![\w.])" % SUFFIXES, TEXT) if not find(p)})


def folders_are_there():
    return sorted({p for p in re.findall(r"`([\w-]+(?:/[\w-]+)*)/`", TEXT)
                   if not any(find(os.path.join(room, p)) for room in ("", "stage0", "stage1", "cri", "tests"))})


def functions_are_in_their_files():
    wrong = []
    for path, names in re.findall(r"([\w./-]+\.[ch]): (\w+\(\)(?:, \w+\(\))*)", TEXT):
        text = read(find(path)) if find(path) else ""
        wrong += ["%s: %s()" % (path, f) for f in re.findall(r"(\w+)\(", names) if not defines(text, f)]
    return sorted(set(wrong))


def functions_are_defined():
    sources = "\n".join(read(f) for f in FILES if f.endswith((".c", ".h")) and not f.startswith("tests/"))
    return sorted({f for f in re.findall(r"(?<![\w.])(\w+)\(\)", TEXT) if not defines(sources, f)})


failed = False
for case in files_are_there, folders_are_there, functions_are_in_their_files, functions_are_defined:
    wrong = case()
    failed |= bool(wrong)
    print("not ok %s: %s" % (case.__name__, ", ".join(wrong)) if wrong else "ok " + case.__name__, flush=True)
sys.exit(failed)
