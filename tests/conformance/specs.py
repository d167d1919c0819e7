# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reports of Ginkgo, which critest and e2e.test are written with: the lines of their specs, and the counts of two runtimes."""

import collections
import json
import re

from conformance import Count

GOOD = ("passed", "skipped", "pending")
Spec = collections.namedtuple("Spec", "name state why is_setup")


def name_of(entry):
    return re.sub(r"^\[k8s.io\] ", "", " / ".join((entry["ContainerHierarchyTexts"] or []) + [entry["LeafNodeText"] or entry["LeafNodeType"]]))


def read(report, pattern=""):
    """The specs of a report whose names fit PATTERN; and setup or teardown that failed."""
    with open(report) as f:
        entries = [s for suite in json.load(f) for s in suite["SpecReports"] or []]
    specs = [Spec(name_of(s), s["State"], s.get("Failure", {}).get("Message", ""), s["LeafNodeType"] != "It") for s in entries]
    return [s for s in specs if (s.state not in GOOD if s.is_setup else re.search(pattern, s.name))]


def reason(spec, known):
    """Why a spec does not pass, if KNOWN says so: by a pattern of its name, that of its failure, and the reason. Another failure counts."""
    return next((why for name, (how, why) in known.items() if re.search(name, spec.name) and re.search(how, spec.why)), None)


def tell(specs, rc, known, focus, left_out=None):
    """Prints a line for each spec, and returns the count. RC is the exit status of the program; specs whose names fit a pattern of LEFT_OUT
    were not run, for the reason there. With a focus all others are not spoken of."""
    count = Count()
    for s in specs:
        why = reason(s, known)
        if s.state == "passed":
            count.line("ok", s.name)
        elif s.state in GOOD:
            if not focus:
                count.line("skip", s.name, next((w for name, w in (left_out or {}).items() if re.search(name, s.name)), s.why))
        elif why:
            count.line("skip", s.name, why)
        else:
            count.line("not ok", s.name, s.why[:400] or s.state)
    if not any(s.state not in ("skipped", "pending") for s in specs if not s.is_setup):  # for example after the setup of the suite failed
        count.line("not ok", "specs", "none of them has run")
    elif rc != 0 and all(s.state in GOOD for s in specs):
        count.line("not ok", "specs", "the program ended with status %d, and none of them has failed" % rc)
    return count


def counts(specs):
    n = collections.Counter("passed" if s.state == "passed" else "left out" if s.state in GOOD else "failed" for s in specs if not s.is_setup)
    return "%d passed, %d failed, %d left out" % (n["passed"], n["failed"], n["left out"])


def compare(runs):
    """Prints the counts of runtimes, by their names, and the specs that did not end alike with all of them."""
    for name, specs in runs.items():
        print("With %s: %s" % (name, counts(specs)), flush=True)
    by_name = {runtime: {s.name: s for s in specs} for runtime, specs in runs.items()}
    for name in sorted(set().union(*by_name.values())):
        ends = [(runtime, specs[name]) for runtime, specs in by_name.items() if name in specs]
        if len(set(s.state for _, s in ends)) > 1:
            print("%s; %s" % (name, "; ".join("%s: %s" % (runtime, s.state if s.state in GOOD else "failed: " + " ".join(s.why.split())[:200])
                                             for runtime, s in ends)))
