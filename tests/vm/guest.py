# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a guest, a virtual machine or a container, prints, line by line: what is for the report, and between it lines that begin with
"guest:", which tell of each boot, of the guest's pace (tests/integration/pace.py), and of the exit status of the tests. """

import collections
import ctypes
import os
import selectors
import signal
import threading
import time

from image import say

# What it is in words, its process, the descriptor of its output, and for how many seconds it may boot.
Guest = collections.namedtuple("Guest", "kind process fd boot_timeout")

# Set when this program is to end: guests are ended then.
cancelled = threading.Event()


def end_with_parent():
    """For a child, before it executes its program: it gets SIGKILL when the thread that has started it ends, however that is."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG


def lines(guest, deadline):
    """Of its output, until the guest has ended or DEADLINE(), a time that may change, is over."""
    with selectors.DefaultSelector() as selector:
        selector.register(guest.fd, selectors.EVENT_READ)
        left = b""
        while time.monotonic() < deadline() and not cancelled.is_set():
            more = os.read(guest.fd, 65536) if selector.select(0.5) else None
            if more == b"" or (more is None and guest.process.poll() is not None):
                return
            *whole, left = (left + (more or b"")).split(b"\n")
            for raw in whole:
                yield raw.decode(errors="replace").rstrip("\r")


def follow(guest, bound, line, boots=1):
    """Calls LINE for every line that the tests print, and returns their exit status, or None if it never came. BOUND gives the seconds that
    the tests may take altogether, by the pace of the guest, which may boot BOOTS times."""
    end = time.monotonic() + guest.boot_timeout
    for text in lines(guest, lambda: end):
        if text.startswith("guest: exit status "):
            return int(text.split()[-1])
        if text.startswith("guest: pace "):
            end = time.monotonic() + bound(float(text.split()[-1]))
            say("%s, %s" % (guest.kind, text[7:]))
        elif text.startswith("guest: systemd "):
            boots -= 1
            if boots < 0:
                return None
            end = max(end, time.monotonic() + guest.boot_timeout)
            say("%s, %s" % (guest.kind, text[7:]))
        else:
            line(text)
    return None
