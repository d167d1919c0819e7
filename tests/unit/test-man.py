#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The manual pages against the program: every command and option is in its page and no other is, the table of
annotations has those that the code reads, references are valid, and all pages are formatted without a warning.

usage: test-man.py ACNSPAWN SOURCE-DIRECTORY [ACNSPAWN-CRI]

Every case prints "ok NAME", "not ok NAME: why" or "skip NAME: why" on a line of its own.
"""

import os
import re
import shutil
import subprocess
import sys

PROGRAM, SOURCE, *CRI = os.path.abspath(sys.argv[1]), *sys.argv[2:]
sys.path.insert(0, os.path.join(SOURCE, "tests/manual"))

from pages import plain

MAN = os.path.join(SOURCE, "man")
ENV = {**os.environ, "LC_ALL": "C.UTF-8"}
WIDTH = 80
LINE = WIDTH - 2  # man(1) leaves a margin on a terminal
TUTORIAL = "acnspawn-intro.7"  # is one example

failures = 0


class Skipped(Exception):
    pass


def case(function):
    global failures
    try:
        function()
        print(f"ok {function.__name__}", flush=True)
    except Skipped as e:
        print(f"skip {function.__name__}: {e}", flush=True)
    except AssertionError as e:
        failures += 1
        print(f"not ok {function.__name__}: {e}".replace("\n", "~"), flush=True)


def check(what, actual, expected):
    if actual != expected:
        raise AssertionError(f"{what} is {actual!r}, expected {expected!r}")


def check_contains(what, text, part):
    if part not in text:
        raise AssertionError(f"{what} is {text!r}, expected {part!r} in it")


def read(*path):
    with open(os.path.join(SOURCE, *path), encoding="utf-8") as f:
        return f.read()


def run(*words):
    return subprocess.run([PROGRAM, *words], stdin=subprocess.DEVNULL, text=True, capture_output=True, timeout=60, env=ENV)


PAGES = {name: read("man", name) for name in sorted(os.listdir(MAN)) if re.search(r"\.[1-8]$", name)}
ROWS = [line.split("\t") for line in run("--dump-options").stdout.splitlines()]
VERBS = {r[1]: r[4] for r in ROWS if r[0] == "verb"}
OTHER_NAMES = {"monitor": "events"}  # other names of verbs


def section(text, macro, title):
    """What stands below a heading; None if there is none."""
    end = r"^\.SH " if macro == "SH" else r"^\.S[HS] "
    for m in re.finditer(rf'(?ms)^\.{macro} "?([^\n]*?)"?$(.*?)(?={end}|\Z)', text):
        if plain(m.group(1)) == title:
            return m.group(2)
    return None


def tags(text):
    """The tags of tagged paragraphs, each with all lines of it."""
    lines, found = text.split("\n"), []
    for i, line in enumerate(lines):
        if line == ".TP":
            found.append(plain(lines[i + 1]))
        elif line == ".TQ":
            found[-1] += " " + plain(lines[i + 1])
    return found


def options_in(text):
    names = set()
    for tag in tags(text):
        if tag.startswith("-"):
            names.update(re.findall(r"(?<![\w-])(--[a-z][a-z0-9-]*|-[A-Za-z])(?![\w-])", tag))
    return names


def options_of(verb):
    return {name for r in ROWS if r[0] == "option" and r[1] == verb for name in (r[2], r[3]) if name != "-"}


def each_command_has_a_page_that_its_help_names():
    for verb, page in VERBS.items():
        text = PAGES.get(page + ".1")
        check(f"whether there is the page {page}(1) of {verb}", text is not None, True)
        check_contains(f"the help of {verb}", run(*verb.split(), "--help").stdout, f"\nSee the {page}(1) man page for details.\n")
        check_contains(f"the help of {verb}", run("help", *verb.split()).stdout, f"{page}(1)")
        if page != "acnspawn":
            check_contains(f"the synopsis of {page}(1)", plain(section(text, "SH", "SYNOPSIS")), f'"acnspawn {verb}"')
        check_contains("the commands of acnspawn(1)", plain(section(PAGES["acnspawn.1"], "SH", "COMMANDS")), verb)
    check_contains("the help", run("--help").stdout, "See the acnspawn(1) man page")
    check_contains("the help of image", run("image", "--help").stdout, "See the acnspawn-image(1) man page")


def commands_lead_to_the_pages_that_have_them():
    """In a page of their own, or in one that refers to another."""
    build = read("man", "meson.build")
    aliases = dict(re.findall(r"^ +'([a-z-]+)' : '([a-z-]+)',$", build, re.M))
    for verb, page in VERBS.items():
        if " " in verb:
            check(f"the page that acnspawn-{verb}(1) refers to", "acnspawn-" + aliases.pop(verb.replace(" ", "-"), "?"), page)
        elif page in ("acnspawn", "acnspawn-" + verb):
            check(f"whether {verb} needs a page that refers to its own", verb in aliases, False)
        else:
            check(f"the page that acnspawn-{verb}(1) refers to", "acnspawn-" + aliases.pop(verb, "?"), page)
            check_contains(f"the name of {page}(1)", plain(section(PAGES[page + ".1"], "SH", "NAME")), "acnspawn-" + verb)
    for verb, other in OTHER_NAMES.items():
        check(f"the page that acnspawn-{other}(1) refers to", "acnspawn-" + aliases.pop(other, "?"), VERBS[verb])
    check("references to pages of commands that are not there", aliases, {})
    check("the pages that are installed", sorted(re.findall(r"'(acnspawn[a-z.@-]*\.[1-8])'", build)), sorted(PAGES))


def options_are_those_of_the_program():
    check("the global options", options_in(section(PAGES["acnspawn.1"], "SH", "OPTIONS")), options_of("-"))
    for verb, page in VERBS.items():
        text = PAGES[page + ".1"]
        several = sum(p == page for p in VERBS.values()) > 1
        block = section(text, "SS", verb) if several else section(text, "SH", "OPTIONS")
        if page == "acnspawn":
            check(f"options of {verb}", options_of(verb), set())
            continue
        check(f"whether {page}(1) has a section for {verb}", block is not None, True)
        check(f"options that {page}(1) has and {verb} has not", options_in(block) - options_of(verb), set())
        # The options of an app, and those for fetching its image, are described once.
        elsewhere = options_in(section(PAGES["acnspawn-prepare.1"], "SH", "OPTIONS")) if verb in ("add-app", "launch", "launch-group") else set()
        check(f"options of {verb} that {page}(1) lacks", options_of(verb) - options_in(block) - elsewhere, set())


def options_are_those_of_the_endpoint_of_kubernetes():
    if not CRI:
        raise Skipped("acnspawn-cri is not built")
    shown = subprocess.run([CRI[0], "--help"], text=True, capture_output=True, check=True).stdout
    options = set(re.findall(r"(?m)^ *(?:(-[a-z]), )?(--[a-z-]+)", shown))
    check("the options of acnspawn-cri(8)", options_in(section(PAGES["acnspawn-cri.8"], "SH", "OPTIONS")) - {"-h"},
          {o for pair in options for o in pair if o})


def annotations_are_those_of_the_code():
    text = section(PAGES["acnspawn-pods.7"], "SH", "ANNOTATIONS")
    check("whether acnspawn-pods(7) has the section", text is not None, True)
    listed = [tag.split(" = ")[0] for tag in tags(text)]
    check("annotations that are listed twice", sorted(listed), sorted(set(listed)))
    table = re.search(r"static const Setting settings\[\] = \{(.*?)\n\};", read("schema", "settings.c"), re.S).group(1)
    known = {"acnspawn/" + name for name in re.findall(r'\{"([a-z-]+)", MEMBER\(', table)}
    check("whether the table of settings is found", {"acnspawn/after", "acnspawn/stop-timeout"} <= known, True)
    for directory, _, files in os.walk(SOURCE):
        room = os.path.relpath(directory, SOURCE).split(os.sep)[0]
        if room not in ("schema", "prepare", "stage0", "stage1", "metadata"):
            continue
        for name in files:
            if name.endswith((".c", ".h")):
                code = read(directory, name)
                known.update("acnspawn/" + n for n in re.findall(r'SETTING_PREFIX "([a-z-]+)"', code))
                known.update("acnspawn/" + n + "NAME" for n in re.findall(r'(?<!define )SETTING_PREFIX "([a-z-]+/)"', code))
                known.update(re.findall(r'#define [A-Z_]+ "((?:appc\.io|org\.opencontainers\.image)[a-z./-]+)"', code))
    check("annotations that only acnspawn-pods(7) has", set(listed) - known, set())
    check("annotations that acnspawn-pods(7) lacks", known - set(listed) - {"org.opencontainers.image.ref.name"}, set())


def settings_of_volumes_are_those_of_the_code():
    text = plain(section(PAGES["acnspawn-pods.7"], "SH", "ANNOTATIONS").split("volume/")[1].split(".SS")[0])
    table = re.search(r"settings\[\] = \{(.*?)\n\};", read("schema", "settings-volume.c"), re.S).group(1)
    for key in re.findall(r'\{"([a-z_]+)", read_', table):
        check_contains("what an annotation of a volume may have", text, key + "=")


def each_page_has_examples_and_leads_on():
    for name, text in PAGES.items():
        for heading in ("NAME", "SYNOPSIS", "EXAMPLES", "SEE ALSO"):
            if heading == "SYNOPSIS" and name.endswith(".7") or heading == "EXAMPLES" and name == TUTORIAL:
                continue
            check(f"whether {name} has {heading}", section(text, "SH", heading) is not None, True)
        examples = text if name == TUTORIAL else section(text, "SH", "EXAMPLES")
        check(f"whether the examples of {name} show something", ".EX" in examples, True)
    everything = plain(section(PAGES["acnspawn.1"], "SH", "SEE ALSO"))
    for name in set(PAGES) - {"acnspawn.1"}:
        check_contains("what acnspawn(1) refers to", everything, f"{name[:-2]}({name[-1]})")


def references_lead_somewhere():
    for name, text in PAGES.items():
        for page, number in re.findall(r"\b(acnspawn[a-z.@-]*?) ?\((\d)\)", plain(text)):
            check(f"whether the page {page}({number}), to which {name} refers, is there", f"{page}.{number}" in PAGES, True)
        for heading in re.findall(r"\\fB([A-Z][A-Z ]+)\\fR\.$", text, re.M):
            found = any(section(t, "SH", heading) is not None for t in PAGES.values())
            check(f"whether there is the section {heading}, to which {name} refers", found, True)


def words_do_not_run_together():
    """Macros that alternate fonts join their arguments."""
    for name, text in PAGES.items():
        for number, line in enumerate(text.split("\n"), 1):
            m = re.match(r"\.(?:BR|RB|BI|IB|IR|RI) (.*)", line)
            if not m:
                continue
            args = [plain(a or b) for a, b in re.findall(r'"([^"]*)"|(\S+)', m.group(1))]
            for left, right in zip(args, args[1:]):
                joined = right[:1].isalpha() and (left[-1:].isalpha() or re.fullmatch(r"[).,;:]+", left) is not None)
                check(f"whether words run together in line {number} of {name}: {line}", joined, False)


def pages_are_formatted_without_warnings():
    if not shutil.which("groff"):
        raise Skipped("no groff here")
    for name in PAGES:
        r = subprocess.run(["groff", "-t", "-ww", "-man", "-Tutf8", f"-rLL={LINE}n", "-P-cbou", os.path.join(MAN, name)],
                           env=ENV, text=True, capture_output=True)
        check(f"what groff says of {name}", (r.returncode, r.stderr), (0, ""))
        for line in r.stdout.splitlines():
            check(f"whether a line of {name} fits: {line!r}", len(line) <= WIDTH, True)
            check(f"whether names are whole in {name}: {line!r}", line.endswith("‐"), False)


for test in (each_command_has_a_page_that_its_help_names, commands_lead_to_the_pages_that_have_them,
             options_are_those_of_the_program, options_are_those_of_the_endpoint_of_kubernetes, annotations_are_those_of_the_code, settings_of_volumes_are_those_of_the_code,
             each_page_has_examples_and_leads_on, references_lead_somewhere, words_do_not_run_together,
             pages_are_formatted_without_warnings):
    case(test)
sys.exit(1 if failures else 0)
