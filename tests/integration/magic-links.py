#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Descriptors that the launcher has open while it follows paths of the image do not let the app escape: not by
/proc/self/fd, nor by /proc/1/root (the class of CVE-2024-21626 and CVE-2019-5736)."""

from harness import *

LOOK = "pwd -P; ls -d acnspawn ../acnspawn ../../acnspawn units ../units 2>/dev/null; true"
NUMBERS = range(3, 16)


def ways():
    for n in NUMBERS:
        yield "/proc/self/fd/%d" % n
        yield "/proc/self/fd/%d/.." % n
        yield "/proc/self/fd/%d/../.." % n
    yield "/proc/1/root"
    yield "/proc/self/cwd"
    yield "/proc/thread-self/root"


def entered(host, app, *options, **more):
    """Whether any file of the pod's root was visible."""
    r = host.acnspawn("run", "--rm", *options, host.image(["/bin/sh", "-c", LOOK], app=app, **more))
    lacks(r.out, "acnspawn", "what is seen")
    lacks(r.out, "units", "what is seen")
    return r


@both
@with_timeout(400)
def working_directory(host, *options):
    for way in ways():
        r = entered(host, {"workingDirectory": "/way"}, *options, files={"way": Link(way)})
        equal(r.rc, 125, "status with working directory " + way)


@both
@with_timeout(400)
def working_directory_of_handlers(host, *options):
    for way in ["/proc/self/fd/%d" % n for n in NUMBERS]:
        handlers = [{"name": h, "exec": ["/bin/sh", "-c", LOOK]} for h in ("pre-start", "post-stop")]
        r = entered(host, {"workingDirectory": "/way", "eventHandlers": handlers}, *options, files={"way": Link(way)})
        equal(r.rc, 125, "status with working directory " + way)


@case
def working_directory_by_a_link_of_the_image(host):
    """Links to directories of the image are still followed, also absolute ones."""
    r = host.run("--rm", host.image(["/bin/pwd", "-P"], app={"workingDirectory": "/a/b"}, files={"a": Link("/var"), "var/b": Link("/../../srv")}))
    equal(r.out, "/srv\n")


@case
def user_database(host):
    for n in NUMBERS:
        r = host.acnspawn("run", "--rm", host.image(["/bin/id"], app={"user": "root", "group": "0"}, files={
            "etc/passwd": Link("/proc/self/fd/%d/../../etc/passwd" % n)}))
        equal(r.rc, 125, "status with passwd by descriptor %d" % n)


@case
def owner_of_a_file(host):
    for way in ("/proc/self/fd/3", "/proc/self/fd/4", "/proc/1/root/etc"):
        r = host.acnspawn("run", "--rm", host.image(["/bin/id"], app={"user": "/way", "group": "0"}, files={"way": Link(way)}))
        equal(r.rc, 125, "status with the owner of " + way)


@case
def executable(host):
    for n in NUMBERS:
        for path in ("/proc/self/fd/%d" % n, "/proc/self/fd/%d/../launch" % n):
            r = host.acnspawn("run", "--rm", host.image([path, "main", "x"]))
            true(r.rc in (126, 127), "%s was executed: %s" % (path, r))


main()
