#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""SIGINT, SIGTERM and SIGHUP while images are imported and pods are prepared: nothing is left behind, there is no
message, and the process is ended by that signal. (Signals to running pods are tested in lifecycle.py.)"""

import select
import socket
import threading

from harness import *

LONG = os.environ.get("ACNSPAWN_TEST_LONG") == "1"


def rubbish(host):
    """Incomplete images and pods."""
    places = ("tmp", "pods/embryo", "pods/preparing", "pods/garbage")
    return [p + "/" + n for p in places if os.path.isdir(os.path.join(host.dir, p)) for n in os.listdir(os.path.join(host.dir, p))]


@case
def an_import_from_a_pipe(host):
    with open(host.shell("true"), "rb") as f:
        image = f.read()
    for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
        reader, writer = os.pipe()
        p = subprocess.Popen(host.argv("fetch", "-"), stdin=reader, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             preexec_fn=default_signals)
        host.children.append(p)
        os.close(reader)
        os.write(writer, image[:60000])
        wait_for(lambda: rubbish(host), "image being unpacked")
        p.send_signal(number)
        r = host.finish(p, 10)
        os.close(writer)
        equal((r.rc, r.out, r.err), (-number, "", ""))
        equal(rubbish(host), [], "rubbish")


def deaf_systemd(listener, called):
    """It does not even accept connections: PID 1 is busy."""
    wait_for(lambda: select.select([listener], [], [], 0)[0], "the connection")
    called.set()


def systemd_without_replies(listener, called, keeps=False):
    """A systemd that takes the first call, and does not reply. Later connections are closed, or KEEPS them."""
    kept = []
    with listener.accept()[0] as c:
        got = b""
        while b"BEGIN\r\n" not in got:
            got += c.recv(4096)
        c.sendall(b"DATA\r\nOK 0123456789abcdef0123456789abcdef\r\nAGREE_UNIX_FD\r\n")
        if got.endswith(b"BEGIN\r\n"):
            c.recv(4096)
        called.set()
        with contextlib.suppress(OSError):
            while True:
                later = listener.accept()[0]
                if keeps:
                    kept.append(later)
                else:
                    later.close()


def interrupt_start(host, systemd, number, seconds):
    """Starts a pod on a host with such a SYSTEMD, and sends the signal NUMBER when it waits for that."""
    place = host.path("systemd")
    os.makedirs(place + "/system", exist_ok=True)
    words = " ".join(host.argv("run", "--register=no", host.shell("true")))
    called = threading.Event()
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(place + "/private")
        s.listen()
        thread = threading.Thread(target=systemd, args=(s, called), daemon=True)
        thread.start()
        p = subprocess.Popen(["unshare", "--mount", "sh", "-c", "mount --bind %s /run/systemd && exec %s" % (place, words)],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=default_signals)
        host.children.append(p)
        true(called.wait(patience(20)), "the call")
        with within(seconds, "the end"):
            p.send_signal(number)
            r = host.finish(p, 120)
        s.shutdown(socket.SHUT_RDWR)
    thread.join()
    os.unlink(place + "/private")
    equal(r.rc, 1, r.err)
    contains(r.err, "Interrupted while systemd creates the scope of pod")


@case
def a_start_that_waits_for_the_hosts_systemd(host):
    """Which has not made the scope yet: a signal ends the wait."""
    for number in signal.SIGINT, signal.SIGTERM:
        interrupt_start(host, systemd_without_replies, number, 10)
        equal(rubbish(host), [])


@case
@with_timeout(120)
def a_start_on_a_host_whose_systemd_is_silent(host):
    """It is asked again whether the host is shut down, and to stop the scope, for some seconds each; a pod that may have one is the
    collector's. With ACNSPAWN_TEST_LONG=1."""
    if not LONG:
        raise Skip("it takes half a minute: ACNSPAWN_TEST_LONG=1")
    for systemd in deaf_systemd, functools.partial(systemd_without_replies, keeps=True):
        interrupt_start(host, systemd, signal.SIGTERM, 25)


@case
def compressors_with_threads_of_their_own(host):
    """xz works on a single block for seconds without any output."""
    layout = host.path("layout")
    os.makedirs(os.path.join(layout, "rootfs"))
    with open(os.path.join(layout, "rootfs", "big"), "wb") as f:
        for _ in range(96):
            f.write(os.urandom(1 << 20))
    with open(os.path.join(layout, "manifest"), "w") as f:
        f.write('{"acKind": "ImageManifest", "acVersion": "0.8.11", "name": "example.com/big"}')
    image = host.path("big.aci")
    p = subprocess.Popen(host.argv("build", layout, "--compression=xz", "-o", image), stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, preexec_fn=default_signals)
    host.children.append(p)
    wait_for(lambda: len(os.listdir("/proc/%d/task" % p.pid)) > 1, "threads")
    with within(3, "the end"):
        p.send_signal(signal.SIGINT)
        r = host.finish(p, 60)
    equal((r.rc, r.out, r.err), (-signal.SIGINT, "", ""))
    true(not os.path.exists(image), "no image is left")


@case
def a_second_signal_is_not_waited_for(host):
    reader, writer = os.pipe()
    p = subprocess.Popen(host.argv("fetch", "-"), stdin=reader, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         preexec_fn=default_signals)
    host.children.append(p)
    os.write(writer, b"x")
    p.send_signal(signal.SIGINT)
    p.send_signal(signal.SIGINT)
    equal(host.finish(p, 10).rc, -signal.SIGINT, "status")
    os.close(reader), os.close(writer)


@case
def ignored_signals_stay_ignored(host):
    p = host.start("fetch", host.shell("true"),
                   preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    while p.poll() is None:
        p.send_signal(signal.SIGHUP)
        time.sleep(0.001)  # leaves it some time
    r = host.finish(p)
    equal((r.rc, len(r.out.split())), (0, 1))


@case
def while_a_pod_is_made(host):
    """At any time: a pod is prepared completely, or does not exist."""
    images = [host.shell("sleep 60", name="example.com/a%d" % i) for i in range(5)]
    for words, number in (("prepare", signal.SIGINT), ("run", signal.SIGINT), ("run --detach", signal.SIGTERM)):
        for step in range(10):
            p = host.start(*words.split(), "--name=p", *images)
            time.sleep(0.012 * step)  # any time
            p.send_signal(number)
            r = host.finish(p, 30)
            equal(rubbish(host), [], "rubbish")
            if r.err and words == "prepare":
                fail("%s said %r" % (words, r.err))
            if host.pods():
                state = host.state("p")
                if state == "running":  # the signal was for its client, which had handed the pod over by then
                    host.acnspawn("stop", "--force", "p").expect(0)
                elif state == "prepared" and words == "run":
                    fail("a pod was left that nobody knows of")
                host.acnspawn("rm", "p").expect(0)
            names = os.path.join(host.dir, "names")
            equal([n for n in os.listdir(names) if n[0] != "."] if os.path.isdir(names) else [], [], "names")


main()
