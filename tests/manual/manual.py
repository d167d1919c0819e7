# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the files of this folder stand on: a manual page as cases of the harness of tests/integration.

    #!/usr/bin/env python3
    from manual import *

    PAGE = page("acnspawn-enter.1", "0123456789abcdef")    # the digest of its text that the cases were written for

    @once
    def pod(host):                                          # for all cases that use it: made by the first of them
        return host.detach("--name=p", host.shell("sleep 1000"))

    @sentence("EXIT STATUS", "That of the command")         # word for word; one function may show several sentences
    def its_status_is_that_of_the_command(host):
        host.acnspawn("enter", pod(host), "sh", "-c", "exit 7").expect(7)

    elsewhere(                                              # what other cases show
        ("enter", "Start in PATH of the app's root.", "enter/streams_and_status_are_the_commands"),
    )

    main()

All cases of a file have one store, and so they can share pods and images. When all have ended, what still runs is stopped by force, and
nothing may be left of it. A case says what it shows of the page, and of no more: tests/integration has the rest.

tests/unit/test-manual.py compares the files with the pages: each page has one, every sentence is in its section, the cases of other programs
are there, and a page has not changed since the digest was written. pages.py prints what a page says, and what is not quoted yet. """

import functools
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "integration"))

import harness
import pages
from harness import *

_page = []


def page(name, digest):
    """The page of this file. The digest is looked at by tests/unit/test-manual.py."""
    _page[:] = [pages.Page(name)]
    return _page[0]


def sentence(section, text):
    """Makes a case, which shows that the sentence of this section holds. It fails if the page does not have the sentence any more."""
    def mark(function):
        if hasattr(function, "sentences"):
            function.sentences.append((section, text))
            return function
        function.sentences = [(section, text)]

        @functools.wraps(function)
        def checked(host):
            for quoted in function.sentences:
                why = _page[0].lacks(*quoted)
                true(not why, why)
            function(host)
        return case(checked)
    return mark


def elsewhere(*rows):
    """(section, sentence, case): what is shown by a case of another program, PROGRAM/CASE of tests/integration, unit/PROGRAM/CASE or
    vm/PROGRAM/CASE."""


def once(function):
    """What it returns for a host is made when a case asks for it first. It is not made a second time: if it fails, each case that asks for it
    fails for the same reason."""
    kept, failed = [], []

    @functools.wraps(function)
    def made(host):
        if failed:
            fail("%s has failed before: %s" % (function.__name__, failed[0]))
        if not kept:
            try:
                kept.append(function(host))
            except Skip:
                raise
            except BaseException as e:  # with CaseTimeout
                failed.append(str(e) if isinstance(e, AssertionError) else repr(e))
                raise
        return kept[0]
    return made


@once
def base(host):
    """The name of an image in the store, of which apps with any script can be made."""
    host.acnspawn("fetch", host.image(name="example.com/base")).expect(0)
    return "example.com/base"


def app(host, name, script, *options):
    """The words for an app of that image which runs SCRIPT."""
    return [base(host), "--name=" + name, *options, "--exec=/bin/sh", "--", "-c", LATE + script]


def together(*apps):
    """The words for several apps."""
    return [word for words in apps for word in ["---"] + words][1:]


def output(r):
    """What each app of a pod with several has written to standard output, in lines."""
    found = {}
    for line in r.out.splitlines():
        name, _, text = line.partition(": ")
        found.setdefault(name.strip(), []).append(text)
    return found


def end_pods(host):
    running = [os.path.basename(p) for p in host.pods() if "/running/" in p]
    if running:
        host.acnspawn("stop", "--force", *running).expect(0)


def main(end=end_pods):
    """END is called for the Host when all cases have ended."""
    harness.main(shared=end)
