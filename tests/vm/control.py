#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Entering, measuring and pausing pods where systemd is the host's init and cgroups have controllers."""

from harness import *


def isolator(name, **value):
    return {"name": name, "value": value}


@case
def usage_is_reported(host):
    hog = host.shell("poke memory 30; touch /out/up; head -c 40000000 /dev/zero >/tmp/z; cat /tmp/z >/dev/null; sleep 1000 & wait",
                     name="example.com/hog", app={"isolators": [isolator("resource/memory", limit="200Mi")]})
    host.detach("--name=p", hog)
    host.wait_up("hog")
    r = host.acnspawn("stats", "--json=short", "p").expect(0)
    equal(r.err, "", "notes")
    pod, app = json.loads(r.out)
    equal(app["memoryLimit"], 200 << 20)
    true(0 < app["memory"] <= app["memoryLimit"], "memory: %r" % app)
    true(app["memory"] <= pod["memory"], "memory of the pod: %r" % pod)
    true(app["pids"] >= 1 and pod["pids"] > app["pids"], "processes: %r %r" % (pod, app))
    true(isinstance(app["read"], int) and isinstance(app["written"], int), "I/O: %r" % app)
    host.acnspawn("stop", "--force", "p").expect(0)


@case
def commands_are_charged_to_the_app(host):
    """CVE-2019-10147: a command beside the app is in its cgroup, and under its limits."""
    host.detach("--name=p", host.shell("touch /out/up; sleep 1000 & wait", name="example.com/a",
                                       app={"isolators": [isolator("resource/memory", limit="40Mi")]}))
    host.wait_up("a")
    equal(host.acnspawn("enter", "p", "poke", "memory", "10").rc, 0)
    uuid = host.status("p")["uuid"]
    pid = host.leader("p")
    # It only sees the app's cgroup and below.
    contains(host.acnspawn("enter", "p", "cat", "/proc/self/cgroup").expect(0).out, "0::/exec-")
    host.start("enter", "p", "sleep", "777")
    wait_for(lambda: processes_where(lambda p: "777" in read_text("/proc/%d/cmdline" % p) and
                                     "/app.slice/app-a.slice/app-a.service/exec-" in read_text("/proc/%d/cgroup" % p)), "a command in the cgroup of the app")
    true(uuid in read_text("/proc/%d/cgroup" % pid), "the pod's own cgroup")
    r = host.acnspawn("enter", "p", "poke", "memory", "200")
    equal(r.rc, 137, "status of a command that wants more than the app may have")
    host.acnspawn("stop", "--force", "p").expect(0)


@case
def a_paused_pod_uses_no_processor(host):
    host.detach("--name=p", host.shell("touch /out/up; while :; do :; done", name="example.com/a"))
    host.wait_up("a")
    host.acnspawn("pause", "p").expect(0)
    used = [json.loads(host.acnspawn("stats", "--json=short", "p").expect(0).out)[1]["cpuTime"]]
    time.sleep(2)  # in which it would use almost as much of a processor
    used.append(json.loads(host.acnspawn("stats", "--json=short", "p").expect(0).out)[1]["cpuTime"])
    equal(used[1], used[0], "processor time while paused")
    equal(host.state("p"), "paused")
    host.acnspawn("resume", "p").expect(0)
    wait_for(lambda: json.loads(host.acnspawn("stats", "--json=short", "p").out)[1]["cpuTime"] > used[1], "work")
    host.acnspawn("restart-app", "p", "a").expect(0)
    host.acnspawn("kill", "--signal=KILL", "--app=a", "p").expect(0)
    host.acnspawn("status", "--wait=60s", "p").expect(0)
    equal(host.app_status("p", "a")["signal"], 9)


main()
