#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Many nested apps in one pod, one after the other and at once: afterwards the supervisor, the pod's systemd and its journal
hold what they held before. With ACNSPAWN_TEST_LONG=1 they are 1000, and 200 at once, instead of 100 and 60."""

from harness import *
from pod_interface import Connection
from pod_manager import Held

LONG = os.environ.get("ACNSPAWN_TEST_LONG") == "1"
ONE_BY_ONE = 1000 if LONG else 100
AT_ONCE = 200 if LONG else 60
FIRST = 20  # until then caches are filled
STAY = "trap 'exit 0' TERM; while :; do sleep 1000 & wait $!; done"
# Memory that may be more than after the first ones, in KiB: nothing that grows with the number of apps. An app that stays in
# systemd takes 20 KiB or more there, in the supervisor 10.
GROWTH = 512


def pod(host):
    uuid = host.acnspawn("run", "--detach", "--exit-policy=never", "--name=p", host.shell(STAY, name="example.com/web"),
                         "--name=web").expect(0).out.strip()
    for name, exec in ("short", ["/bin/true"]), ("stay", ["/bin/sh", "-c", "trap 'exit 5' TERM; sleep 1000 & wait $!"]):
        host.acnspawn("fetch", host.image(exec, name="example.com/" + name)).expect(0)
    return uuid


def app(image, name):
    return {"definition": {"apps": [{"image": "example.com/" + image, "name": name}]}, "parent": "web"}


def nothing_more_is_held(held, before, memory):
    nothing_more(held.counted, before, "after the nested apps")
    after = held.memory()
    for name, kib in after.items():
        true(kib <= memory[name] + GROWTH, "%s has %d KiB of memory, and had %d" % (name, kib, memory[name]))


def launched(c, *apps):
    reply = c.call("LaunchGroup", apps=list(apps))
    true(isinstance(reply, dict), "the group was refused: %s" % (reply,))
    return reply["apps"]


@case
@with_timeout(600)
def apps_one_after_the_other_leave_nothing(host):
    """Each is launched, has ended and is removed; a client has waited for it."""
    uuid = pod(host)
    held = Held(host, uuid)

    def cycles(n):
        c, waiter = Connection(host, uuid), Connection(host, uuid)
        for _ in range(n):
            waiter.send("Monitor", more=True)
            equal(launched(c, app("short", "t")), ["web/t"])
            end = None
            while not end:
                a = waiter.receive()["parameters"].get("app")
                end = a if a and (a["name"], a["state"]) == ("web/t", "exited") else None
            equal(end["exitCode"], 0)
            waiter.socket.close()
            equal(c.call("RemoveApp", app="web/t"), {})
            waiter = Connection(host, uuid)
        c.socket.close()
        waiter.socket.close()

    cycles(FIRST)
    before, memory = held.counted(), held.memory()
    cycles(ONE_BY_ONE - FIRST)
    nothing_more_is_held(held, before, memory)
    host.acnspawn("stop", "p").expect(0)


@case
@with_timeout(600)
def many_at_once(host):
    """A group nested under one app, with waiters for one of them before its end and after it; twice, as memory that was used
    once is kept for later ones."""
    uuid = pod(host)
    held = Held(host, uuid)
    names = ["n%d" % i for i in range(AT_ONCE)]
    paths = ["web/" + n for n in names]

    def together(waiting):
        c = Connection(host, uuid)
        c.socket.settimeout(300)
        equal(launched(c, *(app("stay", n) for n in names)), paths)
        equal({a["name"]: a["state"] for a in c.call("Describe")["apps"]}, dict.fromkeys(["web"] + paths, "running"))
        waiters = [host.start("wait", "p", "web/n7") for _ in range(waiting)]
        equal(c.call("StopApp", app="web"), {})
        equal([host.finish(w, timeout=120).rc for w in waiters], [5] * waiting)
        equal(host.acnspawn("wait", "p", "web/n7").rc, 5)
        wait_for(lambda: {a["state"] for a in c.call("Describe")["apps"]} == {"exited"}, "all of them to end", timeout=120)
        for name in paths:
            equal(c.call("RemoveApp", app=name), {})
        c.call("StartApp", app="web")
        equal([a["name"] for a in c.call("Describe")["apps"]], ["web"])
        c.socket.close()

    before = held.counted()
    together(3)
    nothing_more(held.counted, before, "after the first ones")
    memory = held.memory()
    together(0)
    nothing_more_is_held(held, before, memory)
    host.acnspawn("stop", "p").expect(0)


if __name__ == "__main__":
    main()
