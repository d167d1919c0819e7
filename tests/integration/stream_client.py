# SPDX-License-Identifier: LGPL-2.1-or-later
"""Clients of the streams of the CRI: WebSocket and SPDY/3.1, as kubectl and crictl speak them."""

import base64
import hashlib
import re
import socket
import ssl
import struct
import zlib

from harness import *

STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
NAMES = ["stdin", "stdout", "stderr", "error", "resize"]
GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
WORDS = ("options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow authorization "
         "cache-control connection content-base content-encoding content-language content-length content-location content-md5 "
         "content-range content-type date etag expect expires from host if-match if-modified-since if-none-match if-range "
         "if-unmodified-since last-modified location max-forwards pragma proxy-authenticate proxy-authorization range referer "
         "retry-after server te trailer transfer-encoding upgrade user-agent vary via warning www-authenticate method get status "
         "200_OK version HTTP/1.1 url public set-cookie keep-alive origin").split()
TEXT = ("100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
        "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 Not Found"
        "500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 "
        "Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,"
        "text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.")
DICTIONARY = b"".join(struct.pack(">I", len(w)) + w.replace("_", " ").encode() for w in WORDS) + TEXT.encode()


# With TLS: how a client checks the server.
TLS = ssl.create_default_context()


def connect(url):
    m = re.fullmatch(r"(https?)://127\.0\.0\.1:(\d+)(/.*)", url)
    true(m, "URL %s" % url)
    s = socket.create_connection(("127.0.0.1", int(m.group(2))), timeout=30)
    return TLS.wrap_socket(s, server_hostname="127.0.0.1") if m.group(1) == "https" else s, m.group(3)


def ask(url, *lines, method="GET", more=b""):
    """Returns the status line, the fields and the rest of the answer, and the socket. MORE is sent together with the
    request."""
    s, path = connect(url)
    s.sendall("\r\n".join(["%s %s HTTP/1.1" % (method, path), "Host: 127.0.0.1", *lines, "", ""]).encode() + more)
    data = b""
    while b"\r\n\r\n" not in data:
        part = s.recv(65536)
        if not part:
            return data.decode(), {}, b"", s
        data += part
    head, rest = data.split(b"\r\n\r\n", 1)
    first, *fields = head.decode().split("\r\n")
    return first, {k.lower(): v for k, v in (f.split(": ", 1) for f in fields)}, rest, s


def refusal(url, *lines, method="GET"):
    """The status and the message of a request that is refused."""
    status, fields, rest, s = ask(url, *lines, method=method)
    with s:
        while True:
            part = s.recv(65536)
            if not part:
                return status.split(" ", 1)[1], rest.decode().strip()
            rest += part


class Stream:
    """What the server sends is in self.data, by channel; self.ended has the channels that have ended."""

    def __init__(self):
        self.data = {c: b"" for c in range(5)}
        self.ended, self.closed = set(), False

    def until(self, condition, what="what is expected"):
        while not condition():
            true(not self.closed, "%s did not come: %r" % (what, self.data))
            self.receive()

    def until_said(self, words, channel=STDOUT):
        self.until(lambda: words in self.data[channel], "%r" % words)

    def finish(self):
        """To the end; the status."""
        while not self.closed:
            self.receive()
        self.socket.close()
        text = self.data[ERROR].decode()
        return json.loads(text) if text.startswith("{") else text

    def close(self):
        self.socket.close()


class Recorder:
    """Records what is sent, in place of a socket."""

    def __init__(self):
        self.data = b""

    def sendall(self, data):
        self.data += data


class WebSocket(Stream):
    """INPUT is the complete standard input, sent together with the request."""

    def __init__(self, url, *names, protocols=True, lines=(), input=None):
        super().__init__()
        self.socket, self.base64 = Recorder(), False
        if input is not None:
            self.send(STDIN, input)
            self.end(STDIN)
        key = base64.b64encode(os.urandom(16)).decode()
        status, fields, self.rest, self.socket = ask(
            url, "Upgrade: websocket", "Connection: keep-alive, Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: " + key,
            *(["Sec-WebSocket-Protocol: " + ", ".join(names or ("v5.channel.k8s.io", "v4.channel.k8s.io"))] if protocols else []), *lines, more=self.socket.data)
        equal(status, "HTTP/1.1 101 Switching Protocols")
        equal(fields["sec-websocket-accept"], base64.b64encode(hashlib.sha1((key + GUID).encode()).digest()).decode())
        self.protocol = fields["sec-websocket-protocol"] if protocols else ""
        equal("sec-websocket-protocol" in fields, protocols, "a protocol that was not asked for")
        self.base64 = "base64" in self.protocol

    def frame(self, opcode, payload, final=True):
        n, mask = len(payload), os.urandom(4)
        size = bytes([0x80 | n]) if n < 126 else b"\xfe" + struct.pack(">H", n) if n < 65536 else b"\xff" + struct.pack(">Q", n)
        data = int.from_bytes(payload, "big") ^ int.from_bytes((mask * (n // 4 + 1))[:n], "big") if n else 0
        return bytes([(0x80 if final else 0) | opcode]) + size + mask + data.to_bytes(n, "big")

    def send(self, channel, data):
        self.socket.sendall(self.frame(1, b"%d" % channel + base64.b64encode(data)) if self.base64 else self.frame(2, bytes([channel]) + data))

    def end(self, channel):
        self.socket.sendall(self.frame(2, bytes([255, channel])))

    def read(self, n):
        while len(self.rest) < n:
            part = self.socket.recv(1 << 20)
            if not part:
                self.closed = True
                return None
            self.rest += part
        data, self.rest = self.rest[:n], self.rest[n:]
        return data

    def receive(self):
        head = self.read(2)
        if head is None:
            return
        equal(head[1] & 0x80, 0, "mask of the server")
        n = head[1] & 0x7f
        if n > 125:
            n = struct.unpack(">H" if n == 126 else ">Q", self.read(2 if n == 126 else 8))[0]
        data = self.read(n) if n else b""
        opcode = head[0] & 15
        if opcode == 2 and data[0] == 255:
            self.ended.add(data[1])
        elif opcode == 1 and self.base64:
            self.data[data[0] - ord("0")] += base64.b64decode(data[1:], validate=True)
        elif opcode == 2 and not self.base64:
            self.data[data[0]] += data[1:]
        elif opcode == 10:
            self.pong = data
        elif opcode == 8:
            self.code = struct.unpack(">H", data[:2])[0]
            self.socket.sendall(self.frame(8, data))
        else:
            fail("frame %r" % (head + data))


class Spdy(Stream):
    def __init__(self, url, *streams, protocols=("v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"), input=None):
        super().__init__()
        self.socket = Recorder()
        self.begin()
        for i, c in enumerate((ERROR, *streams)):
            self.open(c, 2 * i + 1)
        if input is not None:
            self.send(STDIN, input)
            self.end(STDIN)
        early, later = (b"", self.socket.data) if input is None else (self.socket.data, b"")
        status, fields, self.rest, self.socket = ask(url, "Connection: Upgrade", "Upgrade: SPDY/3.1",
                                                     *("X-Stream-Protocol-Version: " + p for p in protocols), "Content-Length: 0",
                                                     method="POST", more=early)
        equal((status, fields["upgrade"]), ("HTTP/1.1 101 Switching Protocols", "SPDY/3.1"))
        self.protocol = fields.get("x-stream-protocol-version")
        self.socket.sendall(later)

    def begin(self):
        self.deflate, self.inflate = zlib.compressobj(zdict=DICTIONARY), zlib.decompressobj(zdict=DICTIONARY)
        self.ids, self.replied, self.refused, self.pong = {}, set(), set(), None

    def control(self, kind, payload, flags=0):
        self.socket.sendall(struct.pack(">II", 0x80030000 | kind, flags << 24 | len(payload)) + payload)

    def open(self, channel, number, name=None, **headers):
        pairs = dict({"streamtype": name or NAMES[channel], "port": "1"}, **headers)
        block = struct.pack(">I", len(pairs)) + b"".join(struct.pack(">I", len(x)) + x.encode() for p in pairs.items() for x in p)
        block = self.deflate.compress(block) + self.deflate.flush(zlib.Z_SYNC_FLUSH)
        self.ids[channel] = number
        self.control(1, struct.pack(">IIBB", number, 0, 0, 0) + block)

    def send(self, channel, data, flags=0):
        for i in range(0, max(len(data), 1), 1 << 20):
            part = data[i:i + (1 << 20)]
            self.socket.sendall(struct.pack(">II", self.ids[channel], flags << 24 | len(part)) + part)

    def end(self, channel):
        self.send(channel, b"", flags=1)

    def receive(self):
        while len(self.rest) < 8 or len(self.rest) < 8 + (struct.unpack(">I", self.rest[4:8])[0] & 0xffffff):
            part = self.socket.recv(1 << 20)
            if not part:
                self.closed = True
                return
            self.rest += part
        first, size = struct.unpack(">II", self.rest[:8])
        flags, size = size >> 24, size & 0xffffff
        data, self.rest = self.rest[8:8 + size], self.rest[8 + size:]
        if not first >> 31:
            channel = [c for c, n in self.ids.items() if n == first][0]
            self.data[channel] += data
            if flags & 1:
                self.ended.add(channel)
            return
        kind = first & 0xffff
        if kind == 2:
            equal(self.inflate.decompress(data[4:]), b"\0\0\0\0")
            self.replied.add(struct.unpack(">I", data[:4])[0])
        elif kind == 3:
            self.refused.add(struct.unpack(">I", data[:4])[0])
        elif kind == 6:
            self.pong = data
        elif kind != 7:
            fail("frame of type %d" % kind)


class Tunnel:
    """A connection in binary messages of a WebSocket."""

    def __init__(self, stream):
        self.stream = stream

    def sendall(self, data):
        for i in range(0, len(data), 50000):
            self.stream.socket.sendall(self.stream.frame(2, data[i:i + 50000]))

    def recv(self, size):
        while not self.stream.closed:
            head = self.stream.read(2)
            if head is None:
                break
            n = head[1] & 0x7f
            if n > 125:
                n = struct.unpack(">H" if n == 126 else ">Q", self.stream.read(2 if n == 126 else 8))[0]
            data = self.stream.read(n) if n else b""
            if head[0] & 15 == 2:
                return data
            equal(head[0] & 15, 8, "opcode")
            self.stream.socket.sendall(self.stream.frame(8, data))
        return b""

    def close(self):
        self.stream.close()


class Forward(Spdy):
    """Forwarded ports. Channels are (connection, "data") and (connection, "error")."""

    def __init__(self, url, tunnel=False):
        Stream.__init__(self)
        if tunnel:
            self.socket, self.rest = Tunnel(WebSocket(url, "SPDY/3.1+portforward.k8s.io", "v4.channel.k8s.io")), b""
            equal(self.socket.stream.protocol, "SPDY/3.1+portforward.k8s.io")
        else:
            status, fields, self.rest, self.socket = ask(url, "Connection: Upgrade", "Upgrade: SPDY/3.1",
                                                         "X-Stream-Protocol-Version: portforward.k8s.io", method="POST")
            equal((status, fields["x-stream-protocol-version"]), ("HTTP/1.1 101 Switching Protocols", "portforward.k8s.io"))
        self.begin()
        self.connections = 0

    def connect(self, port, **headers):
        """As kubectl does: the stream of errors first, on which nothing is sent. Returns the channel of data."""
        n = self.connections
        self.connections += 1
        headers = headers or {"requestID": str(n)}
        for k, kind in enumerate(("error", "data")):
            self.data[n, kind] = b""
            self.open((n, kind), 4 * n + 2 * k + 1, name=kind, port=str(port), **headers)
            if kind == "error":
                self.end((n, kind))
        return n, "data"

    def reset(self, channel):
        self.control(3, struct.pack(">II", self.ids[channel], 5))

    def until_ended(self, data):
        """Both channels of a connection, which are returned."""
        error = data[0], "error"
        self.until(lambda: {data, error} <= self.ended, "end of connection %d" % data[0])
        return self.data[data], self.data[error].decode()

    def finish_session(self):
        while not self.closed:
            self.receive()
        self.socket.close()
