#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""docs/ARCHITECTURE.md against the source: each file and folder that it names exists, each "FILE: f()" is defined in that file, and
every other f() somewhere; and folders only include the headers that it allows.

usage: test-architecture.py SOURCE-DIRECTORY
"""

import functools
import os
import re
import sys

SOURCE = sys.argv[1]
BASES = ("", "stage0/supervisor")  # the paths in it start here
SUFFIXES = "c|h|py|proto|varlink|md"
DEFINITION = re.compile(r"(?m)^[A-Za-z_][^;{}()=\n]*\b(\w+)\(")  # at the beginning of a line, so not a call


@functools.lru_cache(None)
def read(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8", errors="replace") as f:
        return f.read()


def find(path):
    """The path of the file or folder, or None. A name without a folder can be in any folder."""
    for base in BASES:
        if os.path.exists(os.path.join(SOURCE, base, path)):
            return os.path.join(base, path)
    return BY_NAME.get(path)


def functions_of(path):
    return set(DEFINITION.findall(read(path)))


def walk():
    """Walks the source without build directories, which contain copies of it."""
    for folder, folders, files in os.walk(SOURCE):
        folders[:] = [f for f in folders if not f.startswith(".") and not os.path.exists(os.path.join(folder, f, "meson-private"))
                      and not (folder == SOURCE and f.startswith(("build", "obj-")))]
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
        known = functions_of(find(path)) if find(path) else set()
        wrong += ["%s: %s()" % (path, f) for f in re.findall(r"(\w+)\(", names) if f not in known]
    return sorted(set(wrong))


def functions_are_defined():
    known = set().union(*(functions_of(f) for f in FILES if f.endswith((".c", ".h")) and not f.startswith("tests/")))
    return sorted(set(re.findall(r"(?<![\w.])(\w+)\(\)", TEXT)) - known)


def includes(top, folder_of):
    """All (folder, folder of the header) of the files below TOP; "" is TOP itself."""
    found = set()
    for path in FILES:
        if path.startswith(top) and path.endswith((".c", ".h")) and not path.startswith("tests/"):
            for header in re.findall(r'(?m)^#include "([^"]+)"', read(path)):
                if header.startswith(top) and os.path.exists(os.path.join(SOURCE, header)):
                    found.add((folder_of(path[len(top):]), folder_of(header[len(top):])))
    return {(a, b) for a, b in found if a != b}


def folder(path):
    return path.rpartition("/")[0].split("/")[0]


def upwards(top, order):
    """Includes of headers that are not below the folder. Folders of one group are on the same level."""
    level = {name: n for n, group in enumerate(order) for name in group}
    return sorted("%s%s includes %s" % (top, a, b) for a, b in includes(top, folder) if a and b and level.get(a, -1) < level.get(b, 99))


def folders_include_those_below():
    rows = re.search(r"(?s)\n\| folder \| owns.*?\n\n", TEXT).group(0)
    outer = [re.findall(r"`([\w-]+)/`", row.split("|")[1]) for row in rows.strip().splitlines()[2:]]
    inner = re.search(r"(?s)Within `stage0/`, from the lowest: (.*?)\n\n", TEXT).group(1)
    return upwards("", outer) + upwards("stage0/", [[name] for name in re.findall(r"`([\w-]+)/`", inner)])


def folders_include_what_their_row_says():
    wrong = []
    for top, head in ("stage0/supervisor/", "| `stage0/supervisor/` |"), ("cri/", "| `cri/` | owns, and may touch | includes"):
        rows = [row.strip("|").split("|") for row in TEXT[TEXT.index(head):].split("\n\n")[0].splitlines()[2:]]
        known = {name: r[2].strip() for r in rows for name in re.findall(r"`(\w+)/`", r[0]) or [""]}
        for a, b in includes(top, folder):
            if b and known.get(a, "all" if not a else "") != "all" and b not in known.get(a, "").split(", "):
                wrong.append("%s%s includes %s" % (top, a, b))
    return sorted(wrong)


failed = False
for case in (files_are_there, folders_are_there, functions_are_in_their_files, functions_are_defined, folders_include_those_below,
             folders_include_what_their_row_says):
    wrong = case()
    failed |= bool(wrong)
    print("not ok %s: %s" % (case.__name__, ", ".join(wrong)) if wrong else "ok " + case.__name__, flush=True)
sys.exit(failed)
