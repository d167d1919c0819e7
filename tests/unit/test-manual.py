#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The files of tests/manual against the manual pages: each page has one, whose cases quote sentences that the page has, and that was written
for what the page says now.

usage: test-manual.py SOURCE-DIRECTORY

Every case prints "ok NAME" or "not ok NAME: why" on a line of its own, one for each page.
"""

import os
import re
import sys

SOURCE = sys.argv[1]
sys.path.insert(0, os.path.join(SOURCE, "tests/manual"))

import pages

CHANGED = ("{name} has changed since tests/manual/{name}.py was written for it. Read what has changed (git log -p man/{name}): a new sentence that "
           "can be checked gets a case there, or a row of elsewhere() with the case that shows it; then write page(\"{name}\", \"{digest}\")")


def mistakes(name):
    page = pages.Page(name)
    if not os.path.exists(os.path.join(pages.HERE, name + pages.SUFFIX)):
        yield "there is no tests/manual/%s.py: its sentences are cases there (tests/manual/manual.py)" % name
        return
    file = pages.File(name)
    if file.page != name:
        yield "tests/manual/%s.py is for the page %s" % (name, file.page)
    for quoted in file.quoted():
        yield page.lacks(*quoted)
    for section, sentence, case in file.elsewhere:
        yield pages.lacks_case(case)
    if file.digest != page.digest():
        yield CHANGED.format(name=name, digest=page.digest())


def each_file_is_run():
    """By tests/manual/meson.build, if it has cases, and is that of a page."""
    with open(os.path.join(pages.HERE, "meson.build")) as f:
        lists = {name: set(re.findall(r"'(.*)',$", words, re.M)) for name, words in re.findall(r"^(\w+) = \[$(.*?)^\]$", f.read(), re.M | re.S)}
    listed = lists["manual_tests"] | lists["manual_without_cases"]
    files = {f[:-len(pages.SUFFIX)] for f in os.listdir(pages.HERE) if f.startswith(("acnspawn", "README")) and f.endswith(pages.SUFFIX)}
    for name in sorted(files ^ listed):
        yield "%s.py is %s in tests/manual, and %s in its meson.build" % (name, "there" if name in files else "not there", "is" if name in listed else "is not")
    for name in sorted(files & listed):
        expected = "manual_tests" if pages.File(name).sentences else "manual_without_cases"
        if name not in lists[expected]:
            yield "%s.py has to be in %s of tests/manual/meson.build" % (name, expected)
    for name in sorted(files - set(pages.names())):
        yield "tests/manual/%s.py is for a page that is not there" % name


def report(name, found):
    found = [why for why in found if why]
    print("not ok %s: %s" % (name, "; ".join(found)) if found else "ok " + name, flush=True)
    return not found


results = [report(name, mistakes(name)) for name in pages.names()] + [report("each_file_is_run", each_file_is_run())]
sys.exit(0 if all(results) else 1)
