#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Metrics of acnspawn-cri itself, in OpenMetrics format, and traces of its calls."""

import array
import errno
import fcntl
import random
import re
import socket
import stat
import struct
import termios

from cri_client import *

SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="[^"\\]*",?)*)\})? ([0-9.]+)$')
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "info": ("_info",), "histogram": ("_bucket", "_count", "_sum")}
MOST = 16  # EXPORTER_CONNECTIONS_MAX


def connect(path):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(patience(20))
    s.connect(path)
    return s


def read_all(s):
    data = b""
    with s:
        while part := s.recv(65536):
            data += part
    return data.decode()


def ask(path, request=b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"):
    """(status line, head, body)"""
    s = connect(path)
    s.sendall(request)
    head, _, body = read_all(s).partition("\r\n\r\n")
    return head.split("\r\n")[0], head, body


def parse(text):
    """{(name, labels): value} of a text in OpenMetrics format, which is checked."""
    lines = text.split("\n")
    equal(lines[-2:], ["# EOF", ""])
    found, kinds, family = {}, {}, None
    for line in lines[:-2]:
        if line.startswith("# "):
            _, word, name, value = line.split(" ", 3)
            if word == "TYPE":
                true(name not in kinds, line)
                family, kinds[name] = name, value
            elif word == "UNIT":
                true(name == family and name.endswith("_" + value), line)
            else:
                equal((word, name), ("HELP", family))
            continue
        m = SAMPLE.match(line)
        true(m, line)
        true(any(m[1] == family + suffix for suffix in SUFFIXES[kinds[family]]), line)
        labels = tuple(sorted(tuple(l.split("=", 1)) for l in re.findall(r'[a-z]+="[^"]*"', m[2] or "")))
        true((m[1], labels) not in found, line)
        found[m[1], labels] = float(m[3])
    return found


def labels(**words):
    return tuple(sorted((k, '"%s"' % v) for k, v in words.items()))


def metrics(path):
    first, head, body = ask(path)
    equal(first, "HTTP/1.1 200 OK")
    contains(head, "application/openmetrics-text; version=1.0.0; charset=utf-8")
    contains(head, "Content-Length: %d" % len(body))
    return parse(body)


@case
def figures_of_the_service(host):
    path = host.path("metrics.sock")
    with Service(host, "--metrics=" + path) as s:
        equal(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        c, image_id = s.client(), image(host)
        before = metrics(path)
        equal(before["acnspawn_cri_sandboxes", labels(state="ready")], 0)
        i = run_sandbox(c)
        a = create(c, i, "main", image_id, SLEEP)
        create(c, i, "other", image_id, SLEEP)
        c.call("StartContainer", container_id=a)
        for _ in range(3):
            c.call("Version")
        equal(c.refused("PodSandboxStatus", pod_sandbox_id="0" * 64)[0], "NOT_FOUND")
        events = c.method("GetContainerEvents", stream=True)(messages().GetEventsRequest())
        wait_for(lambda: metrics(path)["acnspawn_cri_calls_in_progress", ()] == 1, "a call that goes on")
        m = metrics(path)
        for method, status, n in (("Version", "OK", 3), ("PodSandboxStatus", "NOT_FOUND", 1), ("RunPodSandbox", "OK", 1), ("CreateContainer", "OK", 2)):
            equal(m["acnspawn_cri_calls_total", labels(method=method, status=status)], n, method)
            name = "acnspawn_cri_call_duration_seconds"
            equal(m[name + "_count", labels(method=method)], n, method)
            buckets = sorted((float(dict(l)["le"].strip('"')), v) for (k, l), v in m.items() if k == name + "_bucket" and ("method", '"%s"' % method) in l)
            equal([v for _, v in buckets], sorted(v for _, v in buckets))
            equal((buckets[-1], len(buckets)), ((float("inf"), n), 12))
        true(m["acnspawn_cri_call_duration_seconds_sum", labels(method="RunPodSandbox")] > 0, "duration")
        equal([m["acnspawn_cri_sandboxes", labels(state=x)] for x in ("ready", "not_ready")], [1, 0])
        equal([m["acnspawn_cri_containers", labels(state=x)] for x in ("created", "running", "exited")], [1, 1, 0])
        true(m["acnspawn_cri_connections", ()] >= 1 and m["process_resident_memory_bytes", ()] > 10**6, "figures of the process")
        true(abs(m["process_start_time_seconds", ()] - time.time()) < patience(300), "time of the start")
        events.cancel()
        wait_for(lambda: metrics(path).get(("acnspawn_cri_calls_total", labels(method="GetContainerEvents", status="CANCELLED"))) == 1, "the call that was cancelled")
        equal(metrics(path)["acnspawn_cri_calls_in_progress", ()], 0)
        # Figures begin anew, and a socket that a killed process has left is replaced.
        c.close()
        s.clients.remove(c)
        s.process.kill()
        s.process.wait()
        s.start()
        true(not any(k == "acnspawn_cri_calls_total" for k, _ in metrics(path)), "figures of the process before")
        remove(s.client(), i)
    true(not os.path.exists(path), "the socket after the end")


@case
def clients_that_are_none(host):
    """None of them keeps others from the metrics, nor the service from its calls."""
    path = host.path("metrics.sock")
    with Service(host, "--metrics=" + path) as s:
        c = s.client()
        for request, answer in ((b"GET / HTTP/1.1\r\n\r\n", "404"), (b"GET /metricsx HTTP/1.1\r\n\r\n", "404"), (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
                                (b"\0" * 100 + b"\r\n\r\n", "405"), (b"GET /metrics?x=1 HTTP/1.0\r\n\r\n", "200"), (b"GET /metrics " + b"x" * 9000, "431")):
            contains(ask(path, request)[0], "HTTP/1.1 " + answer)
        # Those that say nothing, or not enough, or do not wait for the reply; the oldest make way.
        idle = [connect(path) for _ in range(3 * MOST)]
        for n, x in enumerate(idle):
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                x.sendall((b"", b"GET /met", b"GET /metrics HTTP/1.1\r\n\r\n")[n % 3])
        metrics(path)
        c.call("Version")
        for x in idle:
            x.close()
        # One that sends more than its request.
        contains(ask(path, b"GET /metrics HTTP/1.1\r\n\r\n" + b"y" * 3000)[0], "200")
        before = len(os.listdir("/proc/%d/fd" % s.process.pid))
        for _ in range(50):
            connect(path).close()
        metrics(path)
        wait_for(lambda: len(os.listdir("/proc/%d/fd" % s.process.pid)) <= before, "the end of connections")


def unused_port():
    """One that no connection and no socket without a port of its own gets."""
    first = int(read_text("/proc/sys/net/ipv4/ip_local_port_range").split()[0])
    while True:
        port = random.randrange(1024, max(first, 1025))
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
            return port


@case
def a_port_of_loopback(host):
    port = unused_port()
    with Service(host, "--metrics=%d" % port):
        with socket.create_connection(("127.0.0.1", port), timeout=patience(20)) as x:
            x.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            parse(read_all(x).partition("\r\n\r\n")[2])
        with socket.socket() as other:
            equal(other.connect_ex(("127.0.0.2", port)), errno.ECONNREFUSED)
    # A port that another process has does not keep the service from its calls.
    with socket.socket() as taken:
        port = unused_port()
        taken.bind(("127.0.0.1", port))
        taken.listen()
        with Service(host, "--metrics=%d" % port) as s:
            s.expected = ["Metrics are "]
            s.client().call("Version")
            contains(s.said(), "Metrics are not served for now: Cannot listen on port %d of 127.0.0.1 for metrics: Address already in use." % port)
            taken.close()
            wait_for(lambda: "Metrics are served on %d now." % port in s.said(), "metrics once the port is free", 20)
    for value in "0", "65536", "x", "", "127.0.0.1:80":
        p = subprocess.run([PROGRAM, "--metrics=" + value], capture_output=True, text=True)
        equal(p.returncode, 2, value)
        contains(p.stderr, "it is neither an absolute path nor the number of a port")


def received(s):
    """Bytes that have come and were not read."""
    n = array.array("i", [0])
    fcntl.ioctl(s, termios.FIONREAD, n)
    return n[0]


def unsent(s):
    """Bytes that the other side of a connection on this host has in its buffer."""
    ends = ["%08X:%04X" % (struct.unpack("=I", socket.inet_aton(a))[0], port) for a, port in (s.getpeername(), s.getsockname())]
    return next((int(l.split()[4].split(":")[0], 16) for l in read_text("/proc/net/tcp").splitlines() if l.split()[1:3] == ends), 0)


@case
def a_client_that_reads_slowly(host):
    """The reply is longer than the buffers of its connection, and goes on when they have place."""
    port = unused_port()
    with Service(host, "--metrics=%d" % port) as s, socket.socket() as x:
        c = s.client()
        for name, (_, method) in c.methods.items():  # each has figures then
            with contextlib.suppress(grpc.RpcError):
                if not method.server_streaming:
                    c.call(name)
        x.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        x.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 200)
        x.settimeout(patience(20))
        x.connect(("127.0.0.1", port))
        x.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        wait_for(lambda: received(x) > 0, "the begin of the reply")
        c.call("Version")
        buffered = received(x) + unsent(x)
        x.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)  # the service waits for 10 seconds in all
        head, _, body = read_all(x).partition("\r\n\r\n")
        contains(head, "Content-Length: %d" % len(body))
        parse(body)
        true(0 < buffered < len(body), "the reply was in the buffers at once: %d bytes of %d" % (buffered, len(body)))


@case
def calls_have_traces(host):
    """By the trace ID of the client, or one of their own."""
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    with Service(host, "--trace=changes") as s:
        s.expected = ["Call "]
        c, image_id = s.client(), image(host)
        request = messages().RunPodSandboxRequest(config=sandbox_config())
        i = c.method("RunPodSandbox")(request, timeout=patience(60), metadata=(("traceparent", "00-%s-00f067aa0ba902b7-01" % trace),)).pod_sandbox_id
        lines = [l for l in s.said().splitlines() if trace in l]
        equal(lines[:2], ["Call %s: RunPodSandbox begins" % trace, "Call %s: RunPodSandbox of namespace default, name web" % trace])
        true(re.fullmatch(r"Call %s: RunPodSandbox ended after \d+\.\d{3} s: OK" % trace, lines[-1]), lines)
        a = create(c, i, "main", image_id, SLEEP)
        line = next(l for l in s.said().splitlines() if "CreateContainer of" in l)
        match = re.fullmatch("Call ([0-9a-f]{32}): CreateContainer of sandbox %s, name main, image (.*)" % i, line)
        equal((match[2], match[1] == trace), (image_id, False))
        # Of the others only those that fail.
        c.call("ListContainers")
        equal("ListContainers" in s.said(), False)
        c.refused("ContainerStatus", container_id="0" * 64)
        true(re.search(r"^Call [0-9a-f]{32}: ContainerStatus ended after \d+\.\d{3} s: NOT_FOUND, .", s.said(), re.M), s.said())
        # An ID that is none, and a name that would be a line, or take over a terminal.
        request = messages().StopContainerRequest(container_id="x\nCall y\x1b[2J" + "z" * 1000)
        with contextlib.suppress(grpc.RpcError):
            c.method("StopContainer")(request, timeout=patience(60), metadata=(("traceparent", "00-%s-00f067aa0ba902b7-01" % ("0" * 32)),))
        equal([l for l in s.said().splitlines() if not l.startswith("Call ") or l.startswith("Call y") or "\x1b" in l or len(l) > 2000], [])
        c.call("RemoveContainer", container_id=a)
        remove(c, i)
    with Service(host, "--trace=all") as s:
        s.expected = ["Call "]
        s.client().call("Version")
        contains(s.said(), "Version begins")


if __name__ == "__main__":
    main_of_cri()
