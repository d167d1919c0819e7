#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A file system in memory (FUSE) that hangs on request: it reads what the kernel asks, and answers later. Processes that wait for it are in
state D, as with NFS whose server does not answer.

    with HangingFs(directory) as fs:
        fs.hang()
        fs.answer()

The server is a process of its own, this file: it is not forked from a test, which may have threads, and does not wait for its own mount.
"""

import contextlib
import ctypes
import errno
import os
import select
import stat
import struct
import subprocess
import sys

LOOKUP, FORGET, GETATTR, SETATTR, MKDIR, UNLINK, RMDIR, RENAME, OPEN, READ, WRITE, STATFS, RELEASE = 1, 2, 3, 4, 9, 10, 11, 12, 14, 15, 16, 17, 18
FSYNC, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, ACCESS, CREATE, INTERRUPT, BATCH_FORGET, RENAME2 = 20, 25, 26, 27, 28, 29, 34, 35, 36, 42, 45
UNANSWERED = (FORGET, INTERRUPT, BATCH_FORGET)
MNT_DETACH = 2
SET_SIZE = 1 << 3


class Node:
    def __init__(self, number, mode):
        self.number, self.mode, self.children, self.data = number, mode, {}, bytearray()


class Server:
    def __init__(self, fd):
        self.fd, self.nodes, self.hangs, self.kept = fd, {1: Node(1, stat.S_IFDIR | 0o755)}, False, []

    def attributes(self, node):
        size = len(node.data)
        return struct.pack("<QQQ QQQ III IIIIIII", node.number, size, (size + 511) // 512, 0, 0, 0, 0, 0, 0, node.mode, 1, 0, 0, 0, 4096, 0)

    def entry(self, node):
        return struct.pack("<QQQQII", node.number, 0, 0, 0, 0, 0) + self.attributes(node)

    def reply(self, unique, error=0, data=b""):
        with contextlib.suppress(OSError):  # the caller was killed meanwhile
            os.write(self.fd, struct.pack("<IiQ", 16 + len(data), -error, unique) + data)

    def make(self, parent, name, mode):
        node = self.nodes[len(self.nodes) + 1] = Node(len(self.nodes) + 1, mode)
        self.nodes[parent].children[name] = node
        return node

    def listing(self, node, offset, size):
        out = b""
        for n, (name, child) in enumerate(list(node.children.items())[offset:], offset + 1):
            one = struct.pack("<QQII", child.number, n, len(name), (child.mode & 0o170000) >> 12) + name
            one += bytes(-len(one) % 8)
            if len(out) + len(one) > size:
                break
            out += one
        return out

    def change(self, node, body):
        valid, _, _, size = struct.unpack_from("<IIQQ", body)
        mode, = struct.unpack_from("<I", body, 68)
        if valid & SET_SIZE:
            node.data = node.data[:size] + bytes(max(0, size - len(node.data)))
        if valid & 1:
            node.mode = node.mode & 0o170000 | mode & 0o7777
        return struct.pack("<QII", 0, 0, 0) + self.attributes(node)

    def answer(self, code, number, body):
        """The data of an answer, or raises an OSError."""
        node, names = self.nodes.get(number), body.split(b"\0")
        if code == INIT:
            return struct.pack("<IIIIHHIIHHIIIIIIII", 7, 31, 65536, 1 << 5, 16, 12, 131072, 1, 32, 0, *[0] * 8)
        if code == LOOKUP:
            return self.entry(node.children[names[0]])
        if code == GETATTR:
            return struct.pack("<QII", 0, 0, 0) + self.attributes(node)
        if code == SETATTR:
            return self.change(node, body)
        if code == MKDIR:
            return self.entry(self.make(number, body[8:].split(b"\0")[0], stat.S_IFDIR | struct.unpack_from("<I", body)[0] & 0o7777))
        if code in (UNLINK, RMDIR):
            del node.children[names[0]]
        if code in (RENAME, RENAME2):
            to, = struct.unpack_from("<Q", body)
            old, new = body[8 if code == RENAME else 16:].split(b"\0")[:2]
            self.nodes[to].children[new] = node.children.pop(old)
        if code in (OPEN, OPENDIR):
            return struct.pack("<QII", 0, 0, 0)
        if code == CREATE:
            return self.entry(self.make(number, body[16:].split(b"\0")[0], struct.unpack_from("<II", body)[1])) + struct.pack("<QII", 0, 0, 0)
        if code in (READ, READDIR):
            _, offset, size = struct.unpack_from("<QQI", body)
            return bytes(node.data[offset:offset + size]) if code == READ else self.listing(node, offset, size)
        if code == WRITE:
            _, offset, size = struct.unpack_from("<QQI", body)
            node.data[offset:offset + size] = body[40:40 + size]
            return struct.pack("<II", size, 0)
        if code == STATFS:
            return struct.pack("<QQQQQIIIIIIIIII", 1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 4096, 255, 4096, *[0] * 7)
        if code not in (UNLINK, RMDIR, RENAME, RENAME2, RELEASE, RELEASEDIR, FLUSH, FSYNC):
            raise OSError(errno.ENOSYS, "")
        return b""

    def take(self, request):
        _, code, unique, number = struct.unpack_from("<IIQQ", request)
        if code in UNANSWERED:
            return
        if self.hangs:
            self.kept.append(request)
            return
        try:
            self.reply(unique, 0, self.answer(code, number, request[40:]))
        except KeyError:
            self.reply(unique, errno.ENOENT)
        except OSError as e:
            self.reply(unique, e.errno)

    def order(self, word):
        self.hangs = word == b"h"
        while not self.hangs and self.kept:
            self.take(self.kept.pop(0))
        os.write(1, b"\n")

    def serve(self):
        os.write(1, b"\n")
        while True:
            ready, _, _ = select.select([self.fd, 0], [], [])
            if 0 in ready:
                word = os.read(0, 1)
                if not word:
                    return
                self.order(word)
            if self.fd in ready:
                try:
                    self.take(os.read(self.fd, 1 << 18))
                except OSError as e:
                    if e.errno == errno.ENODEV:  # unmounted
                        return
                    if e.errno not in (errno.ENOENT, errno.EINTR, errno.EAGAIN):
                        raise


class HangingFs:
    def __init__(self, directory):
        self.directory = directory

    def __enter__(self):
        from harness import need_fuse  # not in the server
        need_fuse()
        os.makedirs(self.directory, exist_ok=True)
        self.server = subprocess.Popen([sys.executable, os.path.abspath(__file__), self.directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if self.server.stdout.read(1) != b"\n":
            self.server.wait()
            raise RuntimeError("this kernel has no FUSE")
        return self

    def order(self, word):
        self.server.stdin.write(word)
        self.server.stdin.flush()
        self.server.stdout.read(1)

    def hang(self):
        self.order(b"h")

    def answer(self):
        self.order(b"a")

    def __exit__(self, *exception):
        """The end of the server lets all that wait for it fail."""
        subprocess.run(["umount", "-l", self.directory], check=False)
        self.server.kill()
        self.server.wait()
        self.server.stdin.close()
        self.server.stdout.close()


def main():
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = "fd=%d,rootmode=40755,user_id=0,group_id=0,allow_other" % fd
    if libc.mount(b"hanging", sys.argv[1].encode(), b"fuse", 6, options.encode()) < 0:
        sys.exit(os.strerror(ctypes.get_errno()))
    Server(fd).serve()


if __name__ == "__main__":
    main()
