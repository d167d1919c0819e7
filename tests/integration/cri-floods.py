#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Floods of the sockets of acnspawn-cri (flooding.py)."""

from cri_client import *
from flooding import *


@case
def socket_of_the_runtime(host):
    with Service(host) as s:
        c = s.client()
        # The beginning of HTTP/2 with an empty frame of settings; then pings, which are answered.
        begin = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
        ping = bytes((0, 0, 8, 6, 0, 0, 0, 0, 0)) + b"12345678"
        flood(Target(s.process.pid, lambda: unix(s.path), begin, lambda: c.call("Version"), ping))


@case
def server_of_streams(host):
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        i = run_sandbox(c)
        a = create(c, i, "main", image_id, SLEEP)
        c.call("StartContainer", container_id=a)
        url = c.call("Exec", container_id=a, cmd=["/bin/true"], stdout=True).url
        name, _, port = url.partition("//")[2].partition("/")[0].rpartition(":")
        request = b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n"
        connect = lambda: socket.create_connection((name, int(port)), timeout=patience(5))
        flood(Target(s.process.pid, connect, request, lambda: http(connect, request)))
        remove(c, i)


main_of_cri()
