#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn-attach(1), sentence by sentence."""

from manual import *
from terminals import Terminal

PAGE = page("acnspawn-attach.1", "9bed54fc343de8ec")


@once
def pod(host):
    """Of an app that repeats lines, one with a terminal, and one without a standard input."""
    host.detach("--name=site", "--exit-policy=never",
                host.shell("echo first; echo second; while read x; do echo got $x; done; echo over; exit 3", name="example.com/worker"), "--stdin",
                host.shell("while read x; do echo got $x; done; exit 4", name="example.com/shell"), "--input=terminal",
                host.shell("while :; do echo tick; sleep 0.1; done", name="example.com/silent"))
    wait_for(lambda: "second" in host.acnspawn("logs", "--app=worker", "site").out, "the first lines")


def attach(host, *args, **more):
    pod(host)
    return host.acnspawn("attach", *args, "site", **more)


@sentence("OPTIONS", "Begin with the last N lines of earlier output, or all (default: 0).")
@sentence("OPTIONS", "--keep-stdin The end of standard input does not end that of the app.")
@sentence("DESCRIPTION", "Output of the app is shown from now on, and is also written to the journal of the pod.")
def lines_go_in_and_come_out(host):
    pod(host)
    for lines, first in ((), b"got one\n"), (("-n", "2"), b"second\n"), (("--lines=all",), b"first\n"):
        p = subprocess.Popen(host.argv("attach", "--app=worker", "--keep-stdin", *lines, "site"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        host.children.append(p)
        p.stdin.write(b"one\n")
        p.stdin.close()
        equal(p.stdout.readline(), first)
        wait_for(lambda: passes_on(p.pid), "a client that watches for signals")
        p.terminate()
        equal(p.wait(patience(20)), 128 + signal.SIGTERM)
        if not lines:
            wait_for(lambda: "got one" in host.acnspawn("logs", "--app=worker", "site").out, "the line in the journal")
    equal(host.app_status("site", "worker")["state"], "running")


@sentence("OPTIONS", "-a APP, --app=APP The app, if several have a standard input.")
@sentence("OPTIONS", "--no-stdin Only show the output of the app, which can then be any app. Nothing is read from standard input; a signal such as Ctrl-C detaches.")
@sentence("DESCRIPTION", "It also keeps running if attach is sent a signal; the status is then 128 and its number.")
def only_the_output_of_any_app(host):
    contains(attach(host).expect(1).err, "--app=")
    attach(host, "-a", "silent").expect(1)
    p = host.start("attach", "--app=silent", "--no-stdin", "site")
    equal(p.stdout.readline(), b"tick\n")
    p.send_signal(signal.SIGINT)
    equal(host.finish(p).rc, 130)
    equal(host.app_status("site", "silent")["state"], "running")


@sentence("DESCRIPTION", "The keys of --detach-keys=, by default Ctrl-] three times within a second, detach from a terminal; the app keeps running.")
@sentence("DESCRIPTION", "Any number of users may be attached to one app: each sees all of its output, and the app reads the input of all of them.")
@sentence("DESCRIPTION", "On a terminal, Ctrl-D ends the standard input of the app.")
@sentence("DESCRIPTION", "in a pod that was started with run --detach, until the app ends; the exit status is then the app's.")
def several_terminals(host):
    pod(host)
    one, two, three = (Terminal(host, "attach", "--app=shell", *more, "site") for more in ((), ("--detach-keys=ctrl-x",), ()))
    for t in one, two, three:
        t.wait_raw()
    one.send(b"1\r")
    two.send(b"2\r")
    for t in one, two, three:
        t.expect(b"got 1")
        t.expect(b"got 2")
    one.send(b"\x1d\x1d\x1d")
    two.send(b"\x18")
    one.end()
    two.end()
    equal(host.app_status("site", "shell")["state"], "running")
    three.send(b"\x15\x04")  # the app has got two keys of the first one
    equal(three.end(), 4)


@sentence("DESCRIPTION", "The end of standard input also ends that of an app that was started with --stdin, for all users who are attached, unless --keep-stdin is given.")
@sentence("EXAMPLES", "# echo reload | acnspawn attach --keep-stdin --app=worker site")
def the_end_of_standard_input(host):
    pod(host)
    other = host.start("attach", "--app=worker", "--no-stdin", "site")
    wait_for(lambda: passes_on(other.pid), "another client")
    p = subprocess.Popen(host.argv("attach", "--app=worker", "site"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    host.children.append(p)
    p.stdin.write(b"last\n")
    p.stdin.flush()
    equal(p.stdout.readline(), b"got last\n")
    p.stdin.close()
    equal((p.stdout.read(), p.wait(patience(20))), (b"over\n", 3))
    r = host.finish(other)
    equal((r.out, r.rc), ("got last\nover\n", 3))


elsewhere(
    ("DESCRIPTION", "The app receives the keys before the last one.", "attach/keys_leave_a_terminal"),
    ("DESCRIPTION", "An app is never blocked by attached users: output that is not read in time is dropped, and attach reports how much.",
     "attach/a_client_that_does_not_read_does_not_block"),
    ("DESCRIPTION", "at the end, and when attach is stopped, its mode is restored, answers of the terminal that were not read are discarded, and, if there was "
                    "anything but plain text, the usual screen, cursor and character set are restored.", "attach/a_terminal_that_was_changed_is_put_back"),
)

main()
