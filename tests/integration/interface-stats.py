#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Stats of the pod's interface: the kernel's counters for the pod, its apps and its network."""

from pod_interface import *

BUSY = "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done; echo done; trap 'exit 0' TERM; touch /out/up; while :; do sleep 0.1; done"
SENDS = "echo hello > /dev/udp/x 2>/dev/null; ping -c 3 127.0.0.1 >/dev/null 2>&1; trap 'exit 0' TERM; touch /out/up; while :; do sleep 0.1; done"


@case
def processor_time_and_processes_are_counted_per_app(host):
    uuid = host.detach("--name=p", "--exit-policy=all", host.shell(BUSY, name="example.com/a"),
                       host.shell("exit 0", name="example.com/b"))
    host.wait_up("a")
    c = Connection(host, uuid)
    wait_for(lambda: c.state("b") == "exited", "the end of the other app")
    stats = c.call("Stats")
    equal([a["app"] for a in stats["apps"]], ["a", "b"])
    a, b = (x["usage"] for x in stats["apps"])
    true(a["cpuUSec"] > 20000, "processor time of the app: %s" % a)
    true(stats["pod"]["cpuUSec"] >= a["cpuUSec"], "that of the pod is not less")
    true(1 <= a["processes"] <= 5 and a["processes"] < stats["pod"]["processes"], "processes: %s" % stats)
    true(b.get("processes", 0) == 0 and b.get("cpuUSec", 0) <= a["cpuUSec"], "an app that has ended: %s" % b)
    # The same numbers as in the kernel's files.
    pod = [r for r in json.loads(host.acnspawn("stats", "--json=short", uuid).expect(0).out) if r["app"] == "a"][0]
    later = c.call("Stats", app="a")
    true(a["cpuUSec"] <= pod["cpuTime"] <= later["apps"][0]["usage"]["cpuUSec"], "beside the verb: %s" % pod)
    true(later["timeUSec"] > stats["timeUSec"], "the clock")
    equal([x["app"] for x in later["apps"]], ["a"])
    equal(c.call("Stats", app="nosuch"), ("NoSuchApp", {"app": "nosuch"}))
    host.acnspawn("stop", "p").expect(0)


@case
def counters_without_a_controller_are_left_out(host):
    """Never zero: without the controller there are no fields for memory, with it there are all."""
    uuid = host.detach("--name=p", host.shell(BUSY, name="example.com/a"), "--memory=64Mi")
    host.wait_up("a")
    usage = Connection(host, uuid).call("Stats")["apps"][0]["usage"]
    base = [line.split("::")[1] for line in read_text("/proc/%d/cgroup" % host.leader(uuid)).splitlines() if line.startswith("0::")][0]
    for mount in "/sys/fs/cgroup", "/sys/fs/cgroup/unified":
        if os.path.exists(mount + base + "/cgroup.controllers"):
            there = "memory" in read_text(mount + base + "/cgroup.controllers").split()
    equal(["memory" in usage, "memoryMax" in usage], [there, there])
    if there:
        equal(usage["memoryMax"], 64 << 20)
        true(0 < usage["memory"] <= usage.get("memoryPeak", 64 << 20) <= 64 << 20, "memory: %s" % usage)
    host.acnspawn("stop", "p").expect(0)


@case
def traffic_is_counted_per_interface(host):
    uuid = host.detach("--name=p", "--net=none", host.shell(SENDS, name="example.com/a"))
    host.wait_up("a")
    lo, = Connection(host, uuid).call("Stats")["networks"]
    equal(lo["name"], "lo")
    true(lo["sentPackets"] >= 3 and lo["sentBytes"] == lo["receivedBytes"] >= 3 * 64, "traffic: %s" % lo)
    equal((lo["receivedErrors"], lo["sentErrors"], lo["sentDropped"]), (0, 0, 0))
    host.acnspawn("stop", "p").expect(0)
    uuid = host.detach("--name=q", "--net=host", host.shell(BUSY, name="example.com/a"))
    host.wait_up("a")
    equal(Connection(host, uuid).call("Stats").get("networks"), None, "counters of the host's network")
    host.acnspawn("stop", "q").expect(0)


if __name__ == "__main__":
    main()
