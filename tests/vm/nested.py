#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Limits of nested apps, with the controllers of a host."""

from harness import *

STAY = "trap 'exit 0' TERM; while :; do sleep 1000 & wait $!; done"


def slices(host, uuid):
    """The directory of the slice of all apps."""
    cgroup = read_text("/proc/%d/cgroup" % host.leader(uuid)).strip().split("::")[1]
    return "/sys/fs/cgroup" + cgroup.rsplit("/", 1)[0] + "/app.slice/"


def pod(host, *more, before=()):
    uuid = host.acnspawn("run", "--detach", "--exit-policy=never", "--name=p", *before, host.shell(STAY, name="example.com/web"),
                         "--name=web", *more).expect(0).out.strip()
    for name in "hog", "hold", "push":
        script = {"hog": "exec poke memory 200", "push": "exec poke memory $0",
                  "hold": "exec poke hold 20"}[name]
        host.acnspawn("fetch", host.shell(script, name="example.com/" + name)).expect(0)
    return uuid


def nest(host, image, name, *more):
    host.acnspawn("launch-group", "p", "--parent=web", "example.com/" + image, "--name=" + name, *more).expect(0)


@case
def nested_apps_count_against_the_limits_of_their_parent(host):
    uuid = pod(host, "--memory=64Mi")
    nest(host, "hog", "a")
    host.acnspawn("wait", "p", "web/a", timeout=120)
    equal(host.app_status("p", "web/a")["cause"], "oom-kill")
    equal(host.app_status("p", "web")["state"], "running")
    nest(host, "hold", "b")
    base = slices(host, uuid) + "app-web.slice/"
    equal([read_text(f).strip() for f in (base + "memory.max", base + "app-web-0n2.slice/memory.max")], [str(64 << 20), "max"])
    host.acnspawn("stop", "p").expect(0)


@case
def the_app_above_its_request_is_killed_first(host):
    """When memory is short for all of them; the others go on."""
    uuid = pod(host, before=["--memory=128Mi"])
    own = "--share-cgroups=false"
    nest(host, "hold", "greedy", own, '--isolator=resource/memory={"request": "4Mi", "limit": "120Mi"}')
    nest(host, "hold", "modest", own, '--isolator=resource/memory={"request": "100Mi", "limit": "100Mi"}')
    for name in "greedy", "modest":
        wait_for(lambda: "have 20 MB" in host.acnspawn("logs", "--app=web/" + name, "p").out, "the memory of %s" % name, timeout=60)
    scores = [int(host.acnspawn("enter", "--app=web/" + name, "p", "cat", "/proc/self/oom_score_adj").expect(0).out)
              for name in ("greedy", "modest")]
    total = int(re.search(r"MemTotal:\s+(\d+) kB", read_text("/proc/meminfo")).group(1)) << 10
    true(abs(scores[0] - (1000 - 1000 * (4 << 20) // total)) <= 1, "the scores are %s" % scores)
    equal(scores[1], 0)
    used = int(re.search(r"anon (\d+)", read_text(slices(host, uuid) + "memory.stat")).group(1)) >> 20
    nest(host, "push", "push", own, '--isolator=resource/memory={"request": "120Mi", "limit": "120Mi"}', "--", str(128 - used + 10))
    equal(host.acnspawn("wait", "p", "web/push", timeout=120).rc, 0)
    equal(host.app_status("p", "web/greedy")["cause"], "oom-kill")
    equal([host.app_status("p", n)["state"] for n in ("web", "web/modest")], ["running", "running"])
    host.acnspawn("stop", "p").expect(0)


main()
