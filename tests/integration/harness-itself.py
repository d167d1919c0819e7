#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tests of the harness: it detects cases that leave resources behind, that fail, hang or cannot run; and all tests in
the list of threats exist."""

from harness import *

CASES = r'''
import sys
sys.path.insert(0, sys.argv.pop())
from harness import *

@case
def leaves_a_mount(host):
    host.acnspawn("list")
    subprocess.run(["mount", "-t", "tmpfs", "acnspawn-test", host.tmp], check=True)

@case
def leaves_a_process(host):
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", host.dir], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

@case
def leaves_a_process_of_the_pods_range(host):
    uuid = host.prepare(host.shell("true"))
    base = host.uid_base(uuid)
    p = subprocess.Popen(["setpriv", "--reuid=%d" % (base + 5), "--clear-groups", "sleep", "600"], stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
    wait_for(lambda: name_of(p.pid) == "sleep", "the change of its user")

@case
def leaves_a_cgroup(host):
    uuid = host.prepare(host.shell("true"))
    top = "/sys/fs/cgroup/unified" if os.path.isdir("/sys/fs/cgroup/unified") else "/sys/fs/cgroup"
    os.mkdir(os.path.join(top, "acnspawn-" + uuid))

@case
def leaves_a_runtime_file(host):
    uuid = host.prepare(host.shell("true"))
    os.makedirs("/run/acnspawn", exist_ok=True)
    open("/run/acnspawn/" + uuid, "w").close()

@case
def fails(host):
    equal(1, 2)

@case
def breaks(host):
    raise KeyError("x")

@case
@with_timeout(1)
def hangs(host):
    time.sleep(60)

@case
def expects_another_status(host):
    host.run(host.shell("exit 3"))

@case
def cannot_run(host):
    raise Skip("why not")

@case
def is_fine(host):
    equal(1, 1)

main()
'''


# What a program has whose cases share a Host.
SHARED = r'''
import sys
sys.path.insert(0, sys.argv.pop() + "/../manual")
from manual import *

@once
def place(host):
    print("# " + host.tmp)
    os.mkdir(host.path("place"))
    raise OSError("why")

@case
def asks_first(host):
    place(host)

@case
def asks_again(host):
    place(host)

def breaks(host):
    raise OSError("at the end")

main(breaks)
'''


def run_cases(host, text):
    path = host.path("cases.py")
    with open(path, "w") as f:
        f.write(text)
    return subprocess.run([sys.executable, path, os.path.dirname(os.path.abspath(__file__))], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=150)


@case
def what_cases_share_may_fail(host):
    """What they ask for fails for the same reason each time, and is cleaned up although its end fails, too."""
    p = run_cases(host, SHARED)
    equal(p.returncode, 1, "exit status (%s)" % p.stderr)
    place, *lines = p.stdout.splitlines()
    for line, (begin, words) in zip(lines, (("not ok asks_first", "OSError: why"), ("not ok asks_again", "place has failed before: OSError('why')"),
                                            ("not ok nothing_is_left_behind", "OSError: at the end")), strict=True):
        true(line.startswith(begin), line)
        contains(line, words)
    true(place.startswith("# ") and not os.path.exists(place[2:]), "%r is still there" % place)


@case
def cases_that_leave_something_or_fail_are_reported(host):
    p = run_cases(host, CASES)
    for name in os.listdir("/run/acnspawn") if os.path.isdir("/run/acnspawn") else ():
        if UUID.fullmatch(name):
            os.unlink("/run/acnspawn/" + name)
    with contextlib.suppress(OSError):
        os.rmdir("/run/acnspawn")
    equal(p.returncode, 1, "exit status (%s)" % p.stderr)
    lines = dict(re.match(r"((?:not ok|ok|skip) \w+)(.*)", line).groups() for line in p.stdout.splitlines())
    expected = {
        "not ok leaves_a_mount": "left behind: mount", "not ok leaves_a_process": "left behind: process",
        "not ok leaves_a_process_of_the_pods_range": "left behind: process", "not ok leaves_a_cgroup": "left behind: cgroup",
        "not ok leaves_a_runtime_file": "left behind: file", "not ok fails": "value is 1, expected 2",
        "not ok breaks": "KeyError", "not ok hangs": "took longer than",
        "not ok expects_another_status": "expected exit status 0", "skip cannot_run": "why not", "ok is_fine": "",
    }
    equal(sorted(lines), sorted(expected), "verdicts")
    for verdict, words in expected.items():
        contains(lines[verdict], words, verdict)


@case
def directories_may_be_thousands_of_levels_deep(host):
    """As cgroups are that a case makes beside another one; what is beyond the length of a path is not looked at."""
    top, here = host.path("deep"), os.getcwd()
    os.mkdir(top)
    os.chdir(top)
    try:
        for _ in range(3000):
            os.mkdir("d")
            os.chdir("d")
    finally:
        os.chdir(here)
    found = directories_below(top)
    subprocess.run(["rm", "-rf", top], check=True)
    true(1000 < len(found) < 3000, "%d directories are found" % len(found))


@case
def tests_of_threats_exist(host):
    """tests/threats.md names cases that are there."""
    tests, n = os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."), 0
    for file, cases in re.findall(r"((?:unit|integration|vm)/[\w.-]+): ([\w ]+)", read_text(os.path.join(tests, "threats.md"))):
        text = read_text(os.path.join(tests, file))
        for name in cases.split():
            true(re.search(r"^(?:[A-Z_]+\(%s[,)]|def %s\()" % (name, name), text, re.M), "%s has no case %s" % (file, name))
            n += 1
    true(n > 100, "%d cases are named" % n)


main()
