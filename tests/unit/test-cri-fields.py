#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""cri/FIELDS.md has a line for each field of cri/runtime.proto, and for no other."""

import os
import re
import sys

ROOT = sys.argv[1]


def read(name):
    with open(os.path.join(ROOT, "cri", name)) as f:
        return f.read()


def schema(text):
    """All (message, field)."""
    found, blocks = [], []
    for line in re.sub(r"//.*", "", text).splitlines():
        block = re.match(r"\s*(message|enum|service|oneof) (\w+) \{(\s*\})?", line)
        field = re.match(r"\s*(?:repeated |optional )?(?:map<[^>]+>|[\w.]+) (\w+) = \d+[^;]*;", line)
        if block and not block.group(3):
            blocks.append(block.group(2) if block.group(1) == "message" else
                          blocks[-1] if block.group(1) == "oneof" else None)
        elif line.strip().startswith("}"):
            blocks.pop()
        elif field and blocks and blocks[-1]:
            found.append((blocks[-1], field.group(1)))
    return found


def table(text):
    """All (message, field)."""
    found = []
    for line in text.splitlines():
        row = re.match(r"\| (\w+) \| (.*?) \|", line)
        if row and row.group(1) != "message":
            found += [(row.group(1), f) for f in re.findall(r"`(\w+)`", row.group(2))]
    return found


def compare(name, wrong):
    print("ok " + name if not wrong else "not ok %s: %s" % (name, ", ".join("%s.%s" % x for x in sorted(wrong))))
    return bool(wrong)


fields, lines = schema(read("runtime.proto")), table(read("FIELDS.md"))
bad = compare("the_schema_is_read", {("fields", str(len(fields)))} if len(fields) < 400 else set())
bad |= compare("each_field_has_a_line", set(fields) - set(lines))
bad |= compare("each_line_is_of_a_field", set(lines) - set(fields))
bad |= compare("no_field_has_two_lines", {x for x in lines if lines.count(x) > 1})
sys.exit(bad)
