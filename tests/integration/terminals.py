# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn on a pseudo-terminal, for tests of interactive use."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios

from harness import Failure, default_signals, equal, fail, wait_for


class Terminal:
    def __init__(self, host, *args, rows=33, columns=77, argv=None, **streams):
        self.master, slave = pty.openpty()
        self.slave = slave
        self.resize(rows, columns)
        self.before = termios.tcgetattr(slave)
        self.text = b""
        self.process = subprocess.Popen(argv or host.argv(*args), stdin=streams.get("stdin", slave),
                                        stdout=streams.get("stdout", slave),
                                        stderr=streams.get("stderr", slave), start_new_session=True,
                                        preexec_fn=lambda: (default_signals(), fcntl.ioctl(slave, termios.TIOCSCTTY, 0)),
                                        env=dict(os.environ, TERM="xterm-test"))
        host.children.append(self.process)

    def resize(self, rows, columns):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def send(self, data):
        os.write(self.master, data)

    def read(self, quiet=0):
        """All that comes until nothing came for so long."""
        while select.select([self.master], [], [], quiet)[0]:
            self.text += os.read(self.master, 65536)

    def expect(self, words):
        def look():
            self.read()
            return words in self.text
        try:
            wait_for(look, "%r on the terminal" % words)
        except Failure as e:
            fail("%s: %r" % (e, self.text))

    def skip(self):
        self.read()
        self.text = b""

    def is_raw(self):
        return termios.tcgetattr(self.slave)[3] & termios.ICANON == 0

    def wait_raw(self, raw=True):
        wait_for(lambda: self.is_raw() == raw, "raw mode" if raw else "the usual mode")

    def check_mode(self):
        equal(termios.tcgetattr(self.slave), self.before, "mode of the terminal")

    def end(self):
        def ended():
            self.read()
            return self.process.poll() is not None
        wait_for(ended, lambda: "end of the command on the terminal, which shows %r," % self.text)
        self.read(0.3)  # data still in the terminal
        after = termios.tcgetattr(self.slave)
        os.close(self.master)
        os.close(self.slave)
        equal(after, self.before, "mode of the terminal")
        return self.process.returncode
