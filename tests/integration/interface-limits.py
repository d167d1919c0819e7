#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""UpdateApp of the pod's interface, and update-app: limits that are changed while the app runs. Those that need a controller of
cgroup v2 are in tests/vm/limits.py; here they are refused, as there is no such controller."""

from pod_interface import *

FOREVER = "trap 'exit 0' TERM; touch /out/up; while :; do sleep 0.1; done"


def controllers(host, uuid):
    found = set()
    for line in read_text("/proc/%d/cgroup" % host.leader(uuid)).splitlines():
        _, names, path = line.split(":", 2)
        for mount in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
            file = mount + path.rsplit("/", 2)[0] + "/cgroup.controllers"
            if not names and os.path.exists(file):
                found |= set(read_text(file).split())
    return found


def limit_of_tasks(host, uuid):
    """The value in the kernel, in either version of cgroups; None while the app has no process."""
    in_app = lambda text: uuid in text and "app-a.service" in text
    cgroup = next(filter(in_app, of_processes(lambda pid: read_text("/proc/%d/cgroup" % pid)).values()), "")
    for line in cgroup.splitlines():
        _, names, path = line.split(":", 2)
        if names == "pids":
            return read_text("/sys/fs/cgroup/pids" + path + "/pids.max").strip()
        for mount in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
            file = mount + os.path.dirname(path) + "/pids.max"
            if not names and os.path.exists(file):
                return read_text(file).strip()
    if cgroup:
        raise Skip("there is no pids controller")


def reported(host, name):
    return {i["name"]: i for i in host.status("p")["isolators"] if i["app"] == "a"}.get(name)


@case
def processes_are_limited_while_the_app_runs(host):
    uuid = host.detach("--name=p", "--exit-policy=all", host.shell(FOREVER, name="example.com/a"), "--restart=on-failure", "---",
                       host.shell(FOREVER, name="example.com/b"))
    host.wait_up("a")
    limit_of_tasks(host, uuid)
    c = Connection(host, uuid)
    wait_for(lambda: c.state("a") == "running", "the app")
    equal(c.call("UpdateApp", app="a", tasks=30), {})
    equal(limit_of_tasks(host, uuid), "30")
    true("30 processes" in reported(host, "resource/tasks")["detail"], "what is reported")
    equal(reported(host, "resource/tasks")["source"], "command line")
    host.acnspawn("update-app", "p", "a", "--tasks-max=25").expect(0)
    equal(limit_of_tasks(host, uuid), "25")
    # Also after a restart, at which the pod's systemd reads the unit again, and in the definition of the pod.
    equal(c.call("RestartApp", app="a"), {})
    wait_for(lambda: limit_of_tasks(host, uuid) == "25", "the limit of the app that was started again")
    contains(host.acnspawn("cat", "p", "app-a.slice").expect(0).out, "TasksMax=25\n")
    isolators = json.loads(host.acnspawn("cat-manifest", "p").expect(0).out)["apps"][0]["app"]["isolators"]
    equal([i["value"] for i in isolators if i["name"] == "resource/tasks"], [{"limit": "25"}])
    equal(c.call("UpdateApp", app="a", tasks=4194304), {})
    equal(limit_of_tasks(host, uuid), "max")
    equal(c.call("UpdateApp", app="a", tasks=24), {})
    equal(c.call("UpdateApp", app="a", unlimited=["tasks"]), {})
    equal(limit_of_tasks(host, uuid), "max")
    host.acnspawn("update-app", "p", "a", "--tasks-max=24").expect(0)
    host.acnspawn("update-app", "p", "a", "--tasks-max=infinity").expect(0)
    equal(limit_of_tasks(host, uuid), "max")
    host.acnspawn("stop", "p").expect(0)


@case
def limits_without_a_controller_are_refused_and_nothing_changes(host):
    uuid = host.detach("--name=p", host.shell(FOREVER, name="example.com/a"))
    host.wait_up("a")
    c = Connection(host, uuid)
    wait_for(lambda: c.state("a") == "running", "the app")
    before = host.acnspawn("cat-manifest", "p").out
    for name, controller, option in (("memory", "memory", "--memory=64Mi"), ("cpu", "cpu", "--cpu=100m"), ("cpuShares", "cpu", "--cpu-shares=10")):
        if controller in controllers(host, uuid):
            continue
        equal(c.call("UpdateApp", app="a", tasks=20, **{name: 64 << 20}), ("NotSupported", {"controller": controller}))
        r = host.acnspawn("update-app", "p", "a", "--tasks-max=20", option).expect(1)
        contains(r.err, "no cgroup v2 controller '%s'" % controller)
        equal(host.acnspawn("cat-manifest", "p").out, before)
        equal(reported(host, "resource/tasks"), None)
        if name != "cpuShares":
            equal(c.call("UpdateApp", app="a", unlimited=[name]), ("NotSupported", {"controller": controller}))
            contains(host.acnspawn("update-app", "p", "a", "--%s=infinity" % name).expect(1).err,
                     "no cgroup v2 controller '%s'" % controller)
    for name, controller in ("cpuset.cpus", "cpuset"), ("memory.high", "memory"):
        if controller not in controllers(host, uuid):
            equal(c.call("UpdateApp", app="a", tasks=20, attributes=[{"name": name, "value": "1"}]), ("NotSupported", {"controller": controller}))
            equal(host.acnspawn("cat-manifest", "p").out, before)
    host.acnspawn("stop", "p").expect(0)


@case
def calls_that_are_wrong(host):
    uuid = host.detach("--name=p", host.shell(FOREVER, name="example.com/a"))
    host.wait_up("a")
    c = Connection(host, uuid)
    wait_for(lambda: c.state("a") == "running", "the app")
    invalid = "org.varlink.service.InvalidParameter"
    equal(c.call("UpdateApp", app="nosuch", tasks=20), ("NoSuchApp", {"app": "nosuch"}))
    for attributes, text in (([{"name": "memory.max", "value": "1"}], "is not a supported attribute of cgroups"),
                             ([{"name": "memory.high", "value": "x"}], "must be a number of bytes, or max"),
                             ([{"name": "cpuset.cpus", "value": "3-1"}], "[\"cpuset.cpus\"]: must be a list of numbers")):
        error, parameters = c.call("UpdateApp", app="a", tasks=20, attributes=attributes)
        equal((error, parameters["errno"]), ("AppRefused", 22))
        contains(parameters["message"], text)
    equal(c.call("UpdateApp", app="a", attributes={}), (invalid, {"parameter": "attributes"}))
    equal(c.call("UpdateApp", app="a", attributes=[]), {})
    equal(reported(host, "resource/tasks"), None)
    for value in 0, -1, "20", 2.5:
        equal(c.call("UpdateApp", app="a", tasks=value), (invalid, {"parameter": "tasks"}))
    equal(c.call("UpdateApp", app="a", tasks=20, unlimited=["tasks"]), (invalid, {"parameter": "tasks"}))
    equal(c.call("UpdateApp", app="a", unlimited=["cpuShares"]), (invalid, {"parameter": "unlimited"}))
    equal(c.call("UpdateApp", app="a", disk=1), (invalid, {"parameter": "disk"}))
    equal(c.call("UpdateApp", app="a"), {}, "no limit at all")
    equal(c.call("Pause"), {})
    equal(c.call("UpdateApp", app="a", tasks=20), ("PodPaused", {}))
    equal(c.call("Resume"), {})
    contains(host.acnspawn("update-app", "p", "nosuch", "--tasks-max=20").expect(1).err, "has no app 'nosuch'")
    contains(host.acnspawn("update-app", "p", "a").expect(2).err, "No limit is given")
    equal(host.acnspawn("update-app", "p", "a", "--tasks-max=0").rc, 2)
    equal(host.acnspawn("update-app", "p", "--tasks-max=20").rc, 2)
    host.acnspawn("stop", "p").expect(0)
    contains(host.acnspawn("update-app", "p", "a", "--tasks-max=20").expect(1).err, "is not running")


if __name__ == "__main__":
    main()
