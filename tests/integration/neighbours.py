#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Apps of one pod see and may signal each other's processes (spec: ace.md), but do not look into them, even as root."""

import ctypes

from harness import *

CREATE_RULESET_VERSION = 1


def need_landlock():
    abi = ctypes.CDLL(None).syscall(444, None, 0, CREATE_RULESET_VERSION)
    if abi < 2:
        raise Skip("this kernel has no Landlock, or one that is too old")


def both(function):
    def with_userns(host):
        need_landlock()
        function(host)

    def without_userns(host):
        need_landlock()
        function(host, "--no-userns")
    with_userns.__name__ = function.__name__
    without_userns.__name__ = function.__name__ + "_without_user_namespace"
    case(with_userns)
    case(without_userns)


def secret(host, app="secret"):
    return host.shell("echo secret-word >/srv/secret; trap 'exit 0' TERM; touch /out/up; sleep 1000 & wait", name="example.com/" + app,
                      app={"environment": [{"name": "TOKEN", "value": "secret-word"}]})


SPY = ("until pidof sleep >/dev/null; do sleep 0.05; done; sleep 0.3; for p in /proc/[0-9]*; do grep -q secret-word $p/environ 2>/dev/null && "
       "echo environment of $p; cat $p/root/srv/secret $p/cwd/srv/secret 2>/dev/null; ls $p/root/ >/dev/null 2>&1 && echo root of $p; "
       "readlink $p/fd/1 >/dev/null && echo descriptors of $p; poke trace ${p#/proc/}; poke read $p/mem; done 2>/dev/null; "
       "kill -0 $(pidof sleep) && echo may signal; true")


@both
def root_cannot_look_into_other_apps(host, *options):
    host.run("--name=p", "--exit-policy=any", *options, host.shell(SPY, name="example.com/spy"), secret(host))
    out = host.acnspawn("logs", "--app=spy", "p").expect(0).out
    lacks(out, "secret-word")
    seen = set(re.findall(r"(?:of /proc/|trace |read /proc/)(\d+)(?:/mem)?(?:: possible)?$", "\n".join(
        line for line in out.splitlines() if not re.search(r": (?!possible)", line)), re.M))
    true(len(seen) <= 3, "processes that were looked into: %r in %r" % (sorted(seen), out))  # itself and its own children
    contains(out, "may signal", "what the spec grants")


@both
def own_processes_can_be_looked_into(host, *options):
    """Debuggers and the like go on working inside an app."""
    r = host.run("--rm", *options, host.shell("X=mine sleep 100 & sleep 0.2; tr '\\0' '\\n' </proc/$!/environ | grep X=; readlink /proc/$!/exe; "
                                      "poke trace $!; kill $!"))
    equal([l for l in r.out.splitlines() if "trace" not in l], ["X=mine", "/bin/busybox"])
    contains(r.out, ": possible", "tracing of an own child")


@both
def files_can_be_moved_and_linked(host, *options):
    volume = host.path("volume")
    os.makedirs(os.path.join(volume, "a"))
    os.makedirs(os.path.join(volume, "b"))
    os.chmod(volume, 0o777)
    r = host.run("--rm", *options, "--volume=v,kind=empty", host.shell(
        "set -e; for d in /srv /tmp /dev/shm /vol; do mkdir -p $d/a/c $d/b; echo x >$d/a/f; mv $d/a/f $d/b/f; ln $d/b/f $d/a/g; mv $d/a/c $d/b/; "
        "cat $d/a/g; test -d $d/b/c; done", app={"mountPoints": [{"name": "v", "path": "/vol"}]}))
    equal(r.out, "x\n" * 4)


@case
def status_tells_whether_apps_are_exposed(host):
    exposed = ctypes.CDLL(None).syscall(444, None, 0, CREATE_RULESET_VERSION) < 2
    for name, apps in ("one", 1), ("two", 2):
        host.run("--name=" + name, *[host.image(["/bin/true"], name="example.com/a%d" % i) for i in range(apps)])
        equal(host.status(name)["appsExposed"], exposed and apps > 1, name)
        equal("Neighbours: exposed" in host.acnspawn("status", name).out, exposed and apps > 1, name)


@case
def who_may_mount_still_can(host):
    r = host.run("--rm", host.shell("mount -t tmpfs none /srv && touch /srv/x && umount /srv && echo mounted"), "--caps-retain=CAP_SYS_ADMIN")
    equal(r.out, "mounted\n")


main()
