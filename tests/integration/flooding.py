# SPDX-License-Identifier: LGPL-2.1-or-later
"""For floods of the sockets that acnspawn listens on: connections, half messages, answers that are not read, descriptors that are passed,
disconnects. A second client is answered meanwhile, and afterwards the process has the descriptors and the memory that it had. With
ACNSPAWN_TEST_LONG=1 there are ten times as many."""

import array
import itertools
import os
import socket

from harness import *

N = 1000 if os.environ.get("ACNSPAWN_TEST_LONG") else 100
GROWTH = (16 << 10) + 32 * N  # KiB that a process may keep after a flood, of the allocator
AGAIN = (1 << 10) + 10 * N  # and more after the same flood once more


def descriptors(pid):
    return len(os.listdir("/proc/%d/fd" % pid))


def memory(pid):
    return int(re.search(r"VmRSS:\s*(\d+)", read_text("/proc/%d/status" % pid)).group(1))


class Target:
    """A socket of the process PID. CONNECT() makes a connection, MESSAGE is one that it answers, AGAIN another one on the same connection,
    and ANSWER() is what a second client does. It is served with MOST connections at a time; with more that are not idle it is told so."""

    def __init__(self, pid, connect, message, answer, again=None, most=N):
        self.pid, self.connect, self.message, self.answer, self.again, self.most = pid, connect, message, answer, again or message, most

    def open(self, n):
        found, refused = [], None
        for _ in range(min(n, self.most)):
            try:
                found.append(self.connect())
                found[-1].setblocking(False)
            except OSError as e:
                refused = e
        equal(len(found), min(n, self.most), "number of connections (%s)" % refused)
        return found


def send(s, *messages, fds=()):
    """As much as the socket takes."""
    with contextlib.suppress(OSError):
        for m in messages:
            s.sendmsg([m], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [])


def connections(t):
    return t.open(N)


def half_messages(t):
    found = t.open(N)
    for s in found:
        send(s, t.message[:len(t.message) // 2])
    return found


def unread_answers(t):
    found = t.open(N)
    for s in found:
        send(s, t.message, *[t.again] * 50)
    return found


def passed_descriptors(t):
    found = t.open(N)
    with open("/dev/null") as f:
        for s in found:
            send(s, t.message[:1], t.message[1:], fds=[f.fileno()] * 64)
    return found


def disconnects(t):
    for s in t.open(N):
        send(s, t.message)
        s.close()
    return []


def family_of(t):
    with contextlib.closing(t.connect()) as s:
        return s.family


def flood(t):
    t.answer()
    wait_at_rest(t.pid)
    files, size = descriptors(t.pid), memory(t.pid)
    unix_only = [passed_descriptors] if family_of(t) == socket.AF_UNIX else []
    kinds = connections, half_messages, unread_answers, *unix_only, disconnects
    for kind, again in itertools.product(kinds, (False, True)):
        first = memory(t.pid)
        found = kind(t)
        begun = time.monotonic()
        t.answer()
        seconds, during, grown = time.monotonic() - begun, descriptors(t.pid), memory(t.pid)
        for s in found:
            s.close()
        wait_for(lambda: descriptors(t.pid) <= files + 2, "the end of the connections of %s" % kind.__name__)
        print("# %s: %d connections; a second client took %.0f ms; descriptors %d, %d, %d; memory %d, %d, %d KiB" % (
            kind.__name__, len(found), seconds * 1000, files, during, descriptors(t.pid), size, grown, memory(t.pid)))
        true(seconds < patience(5), "a second client took %.1f s with %s" % (seconds, kind.__name__))
        limit = first + AGAIN if again else size + GROWTH
        true(memory(t.pid) < limit, "%d KiB are kept after %s, of %d before" % (memory(t.pid), kind.__name__, first if again else size))


def unix(path, kind=socket.SOCK_STREAM):
    """By a short path."""
    s = socket.socket(socket.AF_UNIX, kind)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(patience(5)), 0))  # while the backlog is full
    fd = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
    try:
        s.connect("/proc/self/fd/%d/%s" % (fd, os.path.basename(path)))
    finally:
        os.close(fd)
    return s


def http(connect, request):
    with contextlib.closing(connect()) as s:
        s.settimeout(patience(10))
        s.sendall(request)
        contains(s.recv(4096).decode(), "HTTP/1.")
