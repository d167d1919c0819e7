#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The tables of acnspawn-defaults(7) against the default filter that was built: every row is right, and nothing is missing.

usage: test-filter-table.py FILTER-DECIDE PAGE
"""

import json
import os
import platform
import re
import subprocess
import sys

DECIDE, PAGE = sys.argv[1:]
PODMAN = "/usr/share/containers/seccomp.json"
DEFAULT = ("CAP_AUDIT_WRITE CAP_CHOWN CAP_DAC_OVERRIDE CAP_FOWNER CAP_FSETID CAP_KILL CAP_MKNOD CAP_NET_BIND_SERVICE CAP_NET_RAW "
           "CAP_SETFCAP CAP_SETGID CAP_SETPCAP CAP_SETUID CAP_SYS_CHROOT").split()
CAPABILITIES = ("CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST "
                "NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE "
                "SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM "
                "BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE").split()
# The first and the third argument for each word in parentheses.
ARGUMENTS = {
    "CLONE_NEWUSER": (0x10000000, 0), "CLONE_NEWNS": (0x20000, 0), "CLONE_NEWNET": (0x40000000, 0),
    "ADDR_NO_RANDOMIZE": (0x40000, 0), "READ_IMPLIES_EXEC": (0x400000, 0),
    "AF_ALG": (38, 0), "AF_VSOCK": (40, 0), "AF_BLUETOOTH": (31, 0), "AF_CAN": (29, 0), "AF_TIPC": (30, 0), "AF_RDS": (21, 0),
    "AF_SMC": (43, 0), "AF_XDP": (44, 0), "NETLINK_AUDIT": (16, 9), "NETLINK_CRYPTO": (16, 21), "NETLINK_RDMA": (16, 20),
    "IPPROTO_DCCP": (2, 33), "IPPROTO_L2TP": (2, 115), "IPPROTO_SCTP": (2, 132), "IPPROTO_SMC": (2, 256),
}
# Arguments for calls without words in parentheses, if the decision depends on them: a socket of AF_UNIX.
USUAL = {"socket": (1, 0), "socketpair": (1, 0)}
failures = 0


def case(name, why):
    global failures
    failures += bool(why)
    print("not ok %s: %s" % (name, why) if why else "ok " + name)


def decide(questions):
    """QUESTIONS: (capabilities, call with or without argument)."""
    lines = []
    for capabilities, call in questions:
        name, _, argument = call.rstrip(")").partition("(")
        first, third = ARGUMENTS[argument] if argument else USUAL.get(name, (0, 0))
        mask = sum(1 << CAPABILITIES.index(c[4:]) for c in capabilities)
        lines.append("0 %d %s %d %d\n" % (mask, name, first, third))
    r = subprocess.run([DECIDE, "decide"], input="".join(lines), text=True, stdout=subprocess.PIPE, check=True)
    return ["yes" if d == "allow" else d for d in r.stdout.split()]


def read_page():
    """The table of calls as rows of cells by call, the numbers of its notes, and the calls of each capability."""
    with open(PAGE) as f:
        text = f.read()
    table = re.search(r"^\.TS\n.*?^_\n(.*?)^\.TE$", text, re.M | re.S)[1]
    rows = {cells[0]: cells for cells in (line.split("|") for line in table.splitlines())}
    opened = {name: set(re.split(r",\s+", calls.strip())) for name, calls in re.findall(r"^\.TP\n\.B (CAP_\w+)\n((?:[^.].*\n)+)", text, re.M)}
    return rows, re.findall(r"^\.IP (\d+)\. 4\n[A-Z]", text, re.M), opened


def podman_of():
    """The action of podman's filter for each call with the default capabilities, for all arguments."""
    with open(PODMAN) as f:
        profile = json.load(f)

    def applies(rule):
        includes, excludes = rule.get("includes") or {}, rule.get("excludes") or {}
        return ("amd64" in includes.get("arches", ["amd64"]) and set(includes.get("caps", [])) <= set(DEFAULT) and
                "amd64" not in excludes.get("arches", []) and not set(excludes.get("caps", [])) & set(DEFAULT))
    found = {}
    for rule in filter(applies, profile["syscalls"]):
        for name in rule["names"]:
            if rule["action"] == "SCMP_ACT_ALLOW":
                if found.get(name) != "yes":
                    found[name] = "yes" if not rule.get("args") else profile["defaultErrno"] + " or yes"
            else:
                found.setdefault(name, rule["errno"])
    return found, profile["defaultErrno"]


def package_version():
    r = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "golang-github-containers-common"], capture_output=True, text=True)
    return r.stdout


if platform.machine() != "x86_64":
    print("SKIP: the tables are those of x86-64")
    sys.exit(77)
rows, notes, opened = read_page()
every = [line.split()[0] for line in subprocess.check_output([DECIDE], text=True).splitlines()]
ours = dict(zip(every, decide([(DEFAULT, c) for c in every])))
case("table_is_read", None if len(rows) > 60 and len(opened) > 10 else "%d calls, %d capabilities" % (len(rows), len(opened)))
for call, decision in zip(rows, decide([(DEFAULT, call) for call in rows])):
    case(call, None if decision == rows[call][1] else "the page says %s, the filter %s" % (rows[call][1], decision))
case("reasons", ", ".join(call for call, row in rows.items() if row[4] not in notes))

# Calls that capabilities allow, and that no other capabilities allow any.
special = [c for c in rows if "(" in c]
tried = every + special
base = decide([(DEFAULT, c) for c in tried])
for capability in ["CAP_" + c for c in CAPABILITIES if "CAP_" + c not in DEFAULT]:
    after = decide([(DEFAULT + [capability], c) for c in tried])
    changed = {c for c, a, b in zip(tried, base, after) if a != b}
    missing, wrong = changed - opened.get(capability, set()), opened.get(capability, set()) - changed
    case(capability, " ".join("%s is opened, which the page does not say" % c for c in sorted(missing)) +
         " ".join("%s is not opened, which the page says" % c for c in sorted(wrong)))

# Every difference to podman has its row, and the row says what podman does.
if not os.path.exists(PODMAN):
    print("skip podman: no %s (Debian package golang-github-containers-common)" % PODMAN)
else:
    podman, otherwise = podman_of()
    same_version = package_version().startswith(re.search(r"containers\\-common, version ([0-9.]+)", open(PAGE).read())[1] + "+")
    for call in every:
        theirs = podman.get(call, otherwise)
        if call not in rows and (ours[call] == "yes") != theirs.endswith("yes"):
            case("podman_" + call, "%s here, %s there, and no row of the page has it" % (ours[call], theirs))
        elif same_version and call in rows:
            case("podman_" + call, None if theirs == rows[call][2] else "the page says %s, the profile %s" % (rows[call][2], theirs))
    if not same_version:
        print("skip podman_column: the package is of version %s" % package_version())
sys.exit(1 if failures else 0)
