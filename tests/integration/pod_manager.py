# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a running pod holds on its host: descriptors, mounts, cgroups, memory, and units that are loaded in its systemd. That serves
root of the pod's namespaces alone, so that a process that has joined them calls it."""

from harness import *

# Written from the specification of D-Bus: one call of ListUnitsByPatterns, little-endian; signals are skipped. Of the reply the
# strings are searched.
LIST = r"""
import re, socket, struct, sys
def pad(data, n):
    return data + b"\0" * (-len(data) % n)
def field(code, kind, text):
    size = struct.pack("B" if kind == "g" else "<I", len(text))
    return bytes([code, 1]) + kind.encode() + b"\0" + size + text.encode() + b"\0"
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b"\0AUTH EXTERNAL\r\nDATA\r\nBEGIN\r\n")
f = s.makefile("rb")
f.readline(), f.readline()
pattern = struct.pack("<I", len(sys.argv[2])) + sys.argv[2].encode() + b"\0"
body = struct.pack("<II", 0, len(pattern)) + pattern
fields = b""
for x in ((1, "o", "/org/freedesktop/systemd1"), (2, "s", "org.freedesktop.systemd1.Manager"), (3, "s", "ListUnitsByPatterns"), (8, "g", "asas")):
    fields = pad(fields, 8) + field(*x)
s.sendall(pad(struct.pack("<4sIII", b"l\1\0\1", len(body), 1, len(fields)) + fields, 8) + body)
kind = 4
while kind == 4:
    head = f.read(16)
    kind = head[1]
    size, _, n = struct.unpack("<III", head[4:])
    content = f.read(n + -n % 8 + size)
assert kind == 2, content
print("\n".join(sorted({u.decode() for u in re.findall(rb"\0([\w.:@-]+\.(?:service|slice|timer))\0", content)})))
"""


def loaded_units(leader, pattern="*"):
    """Sorted; LEADER is the pod's PID 1."""
    command = ["nsenter", "--target=%d" % leader, "--user", "--pid", "--", "python3", "-c", LIST,
               "/proc/%d/root/run/systemd/private" % leader, pattern]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=60).stdout.split()


def anonymous(pid):
    """Memory of its own in KiB."""
    return int(re.search(r"Anonymous:\s+(\d+) kB", read_text("/proc/%d/smaps_rollup" % pid)).group(1))


class Held:
    """What the supervisor of a pod, its systemd and its journal hold, once earlier clients are gone."""

    def __init__(self, host, uuid):
        self.host, self.uuid = host, uuid
        self.leader = host.leader("p")
        journal, = processes_where(lambda pid: name_of(pid).startswith("systemd-journal"), children_of(self.leader))
        self.processes = {"the supervisor": host.supervisor(uuid), "the pod's systemd": self.leader, "its journal": journal}

    def cgroups(self):
        """The cgroups of the pod."""
        id = self.uuid.replace("-", "")
        return sorted(c for c in cgroups() if self.uuid in c or id in c)

    def counted(self):
        held = held_by_supervisor(self.host, self.uuid)
        for name, pid in self.processes.items():
            held["descriptors of " + name] = len(descriptors_of(pid))
            held["mounts of " + name] = read_text("/proc/%d/mountinfo" % pid).count("\n")
        held["loaded units"] = loaded_units(self.leader)
        held["cgroups"] = self.cgroups()
        held["processes"] = len(self.host.processes())
        return held

    def memory(self):
        return {name: anonymous(pid) for name, pid in self.processes.items()}
