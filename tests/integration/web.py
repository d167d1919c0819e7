# SPDX-License-Identifier: LGPL-2.1-or-later
"""A web server on loopback that stands for any host, over http and https, with certificates by a test CA.

Clients connect through a proxy, set by the environment in Web.env: for any host the proxy connects to the server here,
which serves all of them. acnspawn has no test-specific code for this.
"""

import base64
import email.utils
import hashlib
import http.server
import os
import select
import socket
import socketserver
import ssl
import subprocess
import threading

from pace import patience


class Page:
    """The reply for a path."""

    def __init__(self, body=b"", status=200, headers=None, etag=False, ranges=True, cut=None, pause=None, need_auth=None):
        self.body = body.encode() if isinstance(body, str) else body
        self.status, self.headers, self.ranges, self.cut, self.pause = status, dict(headers or {}), ranges, cut, pause
        self.need_auth = need_auth
        if etag:
            self.headers["ETag"] = '"%s"' % hashlib.sha256(self.body).hexdigest()[:16]

    def wait(self):
        """Until the case lets the page go on, or has ended."""
        if self.pause:
            self.pause.wait(patience(300))


def _date(text):
    return email.utils.parsedate_to_datetime(text)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30

    def log_message(self, *args):
        pass

    def do_GET(self):
        web, host = self.server.web, (self.headers.get("Host") or "").lower()
        scheme = "https" if isinstance(self.connection, ssl.SSLSocket) else "http"
        path = self.path
        if path.startswith("http://"):  # the second request of a connection through the proxy
            path = "/" + path.split("/", 3)[3]
        url = "%s://%s%s" % (scheme, host, path)
        with web.lock:
            web.requests.append((url, dict(self.headers)))
            page = web.pages.get(url) or web.pages.get(url.split("?")[0])
        if page is None:
            page = Page("not here", 404)
        if page.need_auth and self.headers.get("Authorization") != page.need_auth:
            page = Page("who are you?", 401, {"WWW-Authenticate": 'Basic realm="x"'})
        self.answer(page)

    def answer(self, page):
        body, status, headers = page.body, page.status, dict(page.headers)
        etag, start, since = headers.get("ETag"), 0, self.headers.get("If-Modified-Since")
        if etag and self.headers.get("If-None-Match") == etag:
            status, body = 304, b""
        if since and not self.headers.get("If-None-Match") and "Last-Modified" in headers and _date(headers["Last-Modified"]) <= _date(since):
            status, body = 304, b""
        wanted = self.headers.get("Range", "")
        if status == 200 and page.ranges and wanted.startswith("bytes="):
            start = int(wanted[6:].split("-")[0])
            if self.headers.get("If-Range") not in (None, etag):
                start = 0
            if 0 < start < len(body):
                status = 206
                headers["Content-Range"] = "bytes %d-%d/%d" % (start, len(body) - 1, len(body))
                body = body[start:]
        with self.server.web.lock:
            self.server.web.statuses.append(status)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if page.cut is not None and start == 0 and status == 200:
            self.wfile.write(body[:page.cut])
            self.wfile.flush()
            page.wait()
            self.close_connection = True
            self.connection.close()
            return
        page.wait()
        self.wfile.write(body)


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request, address):
        pass  # some tests interrupt clients in the middle of a response


class _Proxy(socketserver.StreamRequestHandler):
    timeout = 30

    def handle(self):
        line = self.rfile.readline(65536).decode("latin1").split()
        if len(line) < 2:
            return
        headers = []
        while True:
            h = self.rfile.readline(65536)
            if h in (b"\r\n", b"\n", b""):
                break
            headers.append(h)
        web = self.server.web
        wanted = web.proxy_auth and b"Basic " + base64.b64encode(web.proxy_auth.encode())
        given = [h.split(b":", 1)[1].strip() for h in headers if h.lower().startswith(b"proxy-authorization:")]
        if wanted and given != [wanted]:
            self.wfile.write(b"HTTP/1.1 407 Who Are You\r\nProxy-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n"
                             b"Connection: close\r\n\r\n")
            return
        headers = [h for h in headers if not h.lower().startswith(b"proxy-")]
        if line[0] == "CONNECT":
            name = line[1].rsplit(":", 1)[0]
            with web.lock:
                web.connects.append(line[1])
            if name in web.dead:
                self.wfile.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
                return
            with socket.create_connection(("127.0.0.1", web.https_port)) as s:
                self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
                self.forwarder(s)
            return
        host, path = line[1].split("://", 1)[1].split("/", 1) if "/" in line[1].split("://", 1)[1] else (line[1], "")
        with socket.create_connection(("127.0.0.1", web.http_port)) as s:
            s.sendall(b"GET /%s HTTP/1.1\r\n" % path.encode("latin1") + b"".join(headers) + b"\r\n")
            self.forwarder(s)

    def forwarder(self, other):
        mine = self.connection
        while True:
            ready, _, _ = select.select([mine, other], [], [], 60)
            if not ready:
                return
            for a, b in ((mine, other), (other, mine)):
                if a in ready:
                    try:
                        data = a.recv(65536)
                        if not data:
                            return
                        b.sendall(data)
                    except OSError:
                        return


class _ProxyServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request, address):
        pass


def _openssl(*args):
    subprocess.run(("openssl",) + args, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)


class Web:
    """with Web(directory, ["example.com"]) as web: …"""

    def __init__(self, directory, names):
        self.directory, self.names = directory, names
        self.pages, self.requests, self.connects, self.dead = {}, [], [], set()
        self.statuses = []
        self.proxy_auth = None  # "USER:PASSWORD" that the proxy wants
        self.lock = threading.Lock()

    def __enter__(self):
        os.makedirs(self.directory, exist_ok=True)
        self.ca = os.path.join(self.directory, "ca.pem")
        self.make_certificates()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(os.path.join(self.directory, "server.pem"), os.path.join(self.directory, "server.key"))
        self.http, self.https = (_Server(("127.0.0.1", 0), _Handler) for _ in range(2))
        self.https.socket = context.wrap_socket(self.https.socket, server_side=True, do_handshake_on_connect=False)
        self.proxy = _ProxyServer(("127.0.0.1", 0), _Proxy)
        self.http_port, self.https_port = self.http.server_address[1], self.https.server_address[1]
        for server in self.http, self.https, self.proxy:
            server.web = self
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *args):
        for server in self.proxy, self.http, self.https:
            server.shutdown()
            server.server_close()

    def make_certificates(self):
        def path(name):
            return os.path.join(self.directory, name)
        with open(path("extensions"), "w") as f:
            f.write("subjectAltName=%s\n" % ",".join("DNS:" + n for n in self.names))
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        _openssl("req", "-x509", *key, "-keyout", path("ca.key"), "-out", self.ca, "-days", "2", "-subj", "/CN=Test Authority")
        _openssl("req", *key, "-keyout", path("server.key"), "-out", path("server.csr"), "-subj", "/CN=Test Server")
        _openssl("x509", "-req", "-in", path("server.csr"), "-CA", self.ca, "-CAkey", path("ca.key"), "-CAcreateserial",
                 "-days", "2", "-extfile", path("extensions"), "-out", path("server.pem"))

    def env(self, **more):
        """The environment of a client."""
        env = {k: v for k, v in os.environ.items()
               if "proxy" not in k.lower() and k not in ("CURL_CA_BUNDLE", "SSL_CERT_DIR", "TERM")}
        proxy = "http://127.0.0.1:%d" % self.proxy.server_address[1]
        env.update(https_proxy=proxy, http_proxy=proxy, SSL_CERT_FILE=self.ca, **more)
        return env

    def put(self, url, body=b"", **how):
        with self.lock:
            self.pages[url] = Page(body, **how)

    def asked(self, part=""):
        """The requested URLs that contain PART, in order."""
        with self.lock:
            return [u for u, _ in self.requests if part in u]

    def said(self):
        """The statuses of the answers, in their order."""
        with self.lock:
            return list(self.statuses)

    def forget(self):
        with self.lock:
            self.requests.clear()
            self.statuses.clear()
            self.connects.clear()
