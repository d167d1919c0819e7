#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Floods of the sockets of a pod (flooding.py)."""

import pod_interface
from flooding import *


def running(host):
    uuid = host.detach("--name=p", "--exit-policy=never",
                       host.shell("echo $AC_METADATA_URL >/out/url; touch /out/up; exec sleep 600", name="example.com/a"), "--name=a")
    host.wait_up("a")
    return uuid


@case
def interface_of_a_pod(host):
    uuid = running(host)
    message = json.dumps({"method": "org.acnspawn.Pod.Describe"}).encode() + b"\0"
    flood(Target(host.supervisor(uuid), lambda: unix(host.pod_dir(uuid) + "/interface"), message,
                 lambda: pod_interface.Connection(host, uuid).call("Describe"), most=100))
    host.acnspawn("rm", "--force", "p").expect(0)


@case
def socket_of_the_launchers(host):
    uuid = running(host)
    flood(Target(host.supervisor(uuid), lambda: unix(host.pod_dir(uuid) + "/root/acnspawn/socket", socket.SOCK_SEQPACKET), b"x" * 100,
                 lambda: host.acnspawn("restart-app", "p", "a").expect(0)))
    host.acnspawn("rm", "--force", "p").expect(0)


@case
def metadata_service(host):
    """In the network of its pod."""
    running(host)
    address, _, path = host.written("a", "out/url").decode().strip().partition("//")[2].partition("/")
    request = ("GET /%s/acMetadata/v1/pod/uuid HTTP/1.1\r\nHost: x\r\nMetadata-Flavor: AppContainer\r\n\r\n" % path).encode()
    own, theirs = (os.open("/proc/%s/ns/net" % x, os.O_RDONLY) for x in ("self", host.leader("p")))
    libc = ctypes.CDLL(None, use_errno=True)

    def connect():
        equal(libc.setns(theirs, 0), 0, "result of setns()")
        try:
            return socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=patience(5))
        finally:
            equal(libc.setns(own, 0), 0, "result of setns()")
    http(connect, request)  # with which the service is started
    pid = next(iter(processes_where(lambda pid: "acnspawn-metadata" in read_text("/proc/%d/cmdline" % pid), host.processes())))
    flood(Target(pid, connect, request, lambda: http(connect, request)))
    os.close(own)
    os.close(theirs)
    host.acnspawn("rm", "--force", "p").expect(0)


main()
