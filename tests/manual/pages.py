#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The text of the manual pages without markup, and which of its sentences the files of this folder show.

    pages.py PAGE …           prints the sections of pages, such as acnspawn-enter.1, as sentences are compared with them, and the digest
    pages.py --rest PAGE …    the same without what the file of the page quotes: what is left to show

A page is compared as plain text: macros, fonts and comments are gone, and what is white space is one space. Files are read without being
run, so their calls of page(), sentence() and elsewhere() have literal arguments.
"""

import ast
import hashlib
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
MAN = os.path.join(TOP, "man")
README = "README.md"  # of which the commands are a page as well: what is indented
SUFFIX = ".py"

ESCAPES = (("\\-", "-"), ("\\(dq", '"'), ("\\(lq", '"'), ("\\(rq", '"'), ("\\(aq", "'"), ("\\(ha", "^"), ("\\(ti", "~"), ("\\(bu", "•"), ("\\&", ""),
           ("\\e", "\\"))
ALTERNATING = ("BR", "RB", "BI", "IB", "IR", "RI")  # join their arguments


def plain(text):
    """Man macros without fonts and escapes."""
    text = re.sub(r"\\f(\[.*?\]|.)", "", text)
    for escape, character in ESCAPES:
        text = text.replace(escape, character)
    return text


def joined(text):
    return " ".join(text.split())


def arguments(line):
    return [plain(a or b) for a, b in re.findall(r'"([^"]*)"|(\S+)', line)]


def words_of(line):
    """What a line shows, with white space around it."""
    if not re.match(r"[.']", line):
        return "" if line.strip() in ("T{", "T}") else plain(re.sub(r"^T}", "", line))
    macro, _, rest = line[1:].partition(" ")
    if macro in ALTERNATING:
        return "".join(arguments(rest))
    if macro in ("B", "I", "SY"):
        return " ".join(arguments(rest))
    return " ".join(arguments(rest)[:1]) if macro == "IP" else ""


class Page:
    def __init__(self, name):
        self.name, self.sections = name, []  # [(title, text)]
        title, lines, of_table = "", [], False
        with open(os.path.join(TOP if name == README else MAN, name), encoding="utf-8") as f:
            source = f.read().split("\n")
        if name == README:
            source = [".SH " + line[3:] if line.startswith("## ") else line for line in source if re.match("## |    ", line)]
            source = source[min(i for i, line in enumerate(source) if line.startswith(".SH")):]  # without the drawing at its top
        for line in source + [".SH"]:
            heading = re.match(r"\.S[HS]\b ?(.*)", line)
            if heading:
                if title or joined(" ".join(lines)):
                    self.sections.append((title, joined(" ".join(lines))))
                title, lines = " ".join(arguments(heading.group(1))), []
            elif line.startswith(".TS") or of_table:
                of_table = not line.endswith(".")  # the formats of its columns
            else:
                lines.append(words_of(line))

    def examples(self, program, prompt=""):
        """The lines of its examples that call the program."""
        with open(os.path.join(MAN, self.name), encoding="utf-8") as f:
            blocks = re.findall(r"(?ms)^\.(?:EX|nf)$(.*?)^\.(?:EE|fi)$", f.read())
        lines = [plain(line) for block in blocks for line in block.split("\n")]
        return [line[len(prompt):] for line in lines if line.startswith(prompt + program + " ")]

    def digest(self):
        return hashlib.sha256("\n".join("%s\n%s" % s for s in self.sections).encode()).hexdigest()[:16]

    def lacks(self, section, sentence):
        """Why the sentence is not in the section, or None."""
        texts = [text for title, text in self.sections if title == section]
        if not texts:
            return "%s has no section '%s'" % (self.name, section)
        if not any(joined(sentence) in text for text in texts):
            return "the section '%s' of %s does not have the sentence '%s' (any more)" % (section, self.name, joined(sentence))
        return None

    def rest(self, quoted):
        """The sections without what is quoted."""
        for title, text in self.sections:
            for section, sentence in quoted:
                if section == title:
                    text = text.replace(joined(sentence), "…")
            yield title, text


def names():
    return sorted(name for name in os.listdir(MAN) if re.search(r"\.[1-8]$", name)) + [README]


class File:
    """What the file of a page says, without running it."""

    def __init__(self, name):
        self.name, self.path = name, os.path.join(HERE, name + SUFFIX)
        self.page = self.digest = None
        self.sentences = []  # [(section, sentence)]
        self.elsewhere = []  # [(section, sentence, case)]
        with open(self.path, encoding="utf-8") as f:
            tree = ast.parse(f.read())
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in ("page", "sentence", "elsewhere"):
                continue
            values = tuple(map(ast.literal_eval, node.args))
            if node.func.id == "page":
                self.page, self.digest = values
            elif node.func.id == "sentence":
                self.sentences.append(values)
            else:
                self.elsewhere += values

    def quoted(self):
        return self.sentences + [row[:2] for row in self.elsewhere]


def cases_of(suite, program):
    """The names of the cases of another test program, by its source; None if there is no such program."""
    directory = os.path.join(TOP, "tests", suite)
    for name, pattern in (program + ".py", r"(?m)^(?:@\w+.*\n)*def (\w+)\(|\bcase\((\w+)"), ("test-%s.py" % program, r"(?m)^def (\w+)\("), \
            ("test-%s.c" % program, r"\bTEST\((\w+)\)"):
        path = os.path.join(directory, name)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                found = {m for groups in re.findall(pattern, f.read()) for m in (groups if isinstance(groups, tuple) else (groups,))}
            return found | {m + "_without_user_namespace" for m in found}
    return None


def lacks_case(case):
    """Why there is no case of this name, which is PROGRAM/CASE of tests/integration, unit/PROGRAM/CASE or vm/PROGRAM/CASE, or None."""
    suite, program, name = (["integration"] + case.split("/"))[-3:] if case.count("/") in (1, 2) else ("", "", "")
    found = cases_of(suite, program) if suite else None
    if found is None:
        return "there is no test program of the case '%s'" % case
    return None if name in found else "there is no case '%s'" % case


def main():
    rest = sys.argv[1:2] == ["--rest"]
    for name in sys.argv[1 + rest:] or sys.exit(__doc__):
        page = Page(name)
        for title, text in page.rest(File(name).quoted() if rest else []):
            print("== %s\n%s\n" % (title, text))
        print("%s %s" % (name, page.digest()))


if __name__ == "__main__":
    main()
