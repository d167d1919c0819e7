#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Groups of apps that are added to a running pod and started: all or none."""

from harness import *
from pod_interface import Connection

STAY = "trap 'exit 0' TERM; touch /out/up; while :; do sleep 0.05; done"
SIZE = 10


def pod(host):
    return host.acnspawn("run", "--detach", "--exit-policy=never", "--name=p").expect(0).out.strip()


def group(image, names, **changed):
    """Members by name; CHANGED are images of some of them."""
    return [{"definition": {"apps": [{"image": changed.get(n, image), "name": n}]}} for n in names]


def names_of_apps(host, uuid):
    return sorted(n for n in os.listdir(host.pod_dir(uuid) + "/apps") if n[0] != ".")


def is_empty(host, uuid):
    equal(host.status("p")["apps"], [])
    wait_for(lambda: names_of_apps(host, uuid) == [], "the directories of the apps to be removed")
    units = host.pod_dir(uuid) + "/root/acnspawn/units"
    equal([n for n in os.listdir(units) if re.search(r"\bg\d", n)], [])


NAMES = ["g%d" % i for i in range(SIZE)]


@case
def all_apps_of_a_group_are_added_and_started(host):
    uuid = pod(host)
    c = Connection(host, uuid)
    reply = c.call("LaunchGroup", apps=group(host.shell(STAY, name="example.com/stay"), NAMES))
    equal(reply["apps"], NAMES)
    equal({a["name"]: a["state"] for a in c.call("Describe")["apps"]}, {n: "running" for n in NAMES})
    host.acnspawn("rm-app", "--force", "p", "g3").expect(0)
    host.acnspawn("stop", "p").expect(0)


@case
def if_one_app_of_a_group_fails_none_is_kept(host):
    """Whichever it is, and whether it cannot be prepared or not executed."""
    uuid = pod(host)
    c = Connection(host, uuid)
    stay = host.shell(STAY, name="example.com/stay")
    broken = host.image(["/nowhere"], name="example.com/broken")
    for n in NAMES[0], NAMES[4], NAMES[-1]:
        error, parameters = c.call("LaunchGroup", apps=group(stay, NAMES, **{n: "example.com/absent"}))
        equal(error, "AppRefused")
        contains(parameters["message"], "App %d of the group" % (NAMES.index(n) + 1))
        is_empty(host, uuid)
        error, parameters = c.call("LaunchGroup", apps=group(stay, NAMES, **{n: broken}))
        equal(error, "AppRefused")
        contains(parameters["message"], "App %s could not be started" % n)
        is_empty(host, uuid)
    equal(c.call("LaunchGroup", apps=group(stay, NAMES))["apps"], NAMES)
    host.acnspawn("stop", "p").expect(0)


if __name__ == "__main__":
    main()
