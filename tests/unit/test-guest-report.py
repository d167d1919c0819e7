#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What tests/vm/run.py makes of the lines of a guest: a program that says nothing, or does not end, has failed.

    test-guest-report.py SOURCE-DIRECTORY
"""

import sys

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1] + "/tests/vm")
from run import Report  # noqa: E402

ALL = ["# network.py", "ok a_pod", "skip b: why", "# network.py: exit status 0, 5 s", "# host-service.py", "ok c", "# host-service.py: exit status 0, 1 s"]
CASES = {
    "all_passed": (ALL, []),
    "a_case_failed": ([l.replace("ok a_pod", "not ok a_pod: why").replace("network.py: exit status 0", "network.py: exit status 1") for l in ALL], []),
    "one_prints_no_case": (["# network.py", "python3: not found", "# network.py: exit status 127, 0 s"] + ALL[4:],
                           ["not ok network: it printed no case, and ended with exit status 127"]),
    "one_prints_no_case_and_succeeds": (["# network.py", "SKIP: needs root", "# network.py: exit status 0, 0 s"] + ALL[4:],
                                        ["not ok network: it printed no case, and ended with exit status 0"]),
    "one_ends_early": ([l.replace("network.py: exit status 0", "network.py: exit status 139") for l in ALL],
                       ["not ok network: it ended with exit status 139, and none of its cases failed"]),
    "the_guest_ends": (ALL[:2], ["not ok network: it did not run to its end", "not ok host-service: it was not run"]),
    "it_does_not_boot": ([], ["not ok network: it was not run", "not ok host-service: it was not run"]),
    "one_reboots_the_guest": (ALL[:2] + ALL[:1] + ALL[2:], []),
    "cases_of_none": (["ok d"] + ALL[:1] + ALL[3:], ["not ok network: it printed no case, and ended with exit status 0"]),
}
FAIL = set(CASES) - {"all_passed", "one_reboots_the_guest"}

failed = False
for name, (lines, missing) in CASES.items():
    report = Report(["network.py", "host-service.py"])
    for line in lines:
        report.line(line)
    got, expected = (report.missing(), report.failed()), (missing, name in FAIL)
    failed = failed or got != expected
    print("ok " + name if got == expected else "not ok %s: %r, expected %r" % (name, got, expected))
sys.exit(failed)
