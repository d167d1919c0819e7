#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Isolators that need cgroup v2 controllers: measured, not read from units."""

from harness import *


def isolator(name, **value):
    return {"name": name, "value": value}


def verdict(host, name, pod="p", app="a"):
    for i in host.status(pod)["isolators"]:
        if i["app"] == app and i["name"] == name:
            return i["verdict"]
    fail("%s is not reported" % name)


@case
def a_hog_is_killed_at_its_limit_and_only_it(host):
    hog = host.shell("exec poke memory 200", name="example.com/hog", app={"isolators": [isolator("resource/memory", limit="32Mi")]})
    other = host.shell("sleep 1; echo still here", name="example.com/other")
    r = host.acnspawn("run", "--name=p", "--exit-policy=all", hog, other)
    equal(verdict(host, "resource/memory", app="hog"), "enforced")
    status = host.app_status("p", "hog")
    equal((status["cause"], status["signal"]), ("oom-kill", 9))
    equal(host.app_status("p", "other")["exitStatus"], 0)
    contains(r.out, "still here")


@case
def processor_time_keeps_to_the_quota(host):
    script = "while :; do :; done"
    uuid = host.detach("--name=p", host.shell(script, name="example.com/a", app={"isolators": [isolator("resource/cpu", limit="200m")]}))
    equal(verdict(host, "resource/cpu"), "enforced")
    before, start = cpu_usec(host, uuid), time.monotonic()
    time.sleep(5)
    share = (cpu_usec(host, uuid) - before) / 1e6 / (time.monotonic() - start)
    true(0.19 <= share <= 0.21, "the app had %.3f of a processor, expected 0.2" % share)
    host.acnspawn("stop", "--force", uuid)


def cpu_usec(host, uuid):
    cgroup = read_text("/proc/%d/cgroup" % host.leader(uuid)).strip().split("::")[1]
    base = "/sys/fs/cgroup" + cgroup.rsplit("/", 1)[0]
    for where, _, files in os.walk(base):
        if where.endswith(".service") and "app" in where and "cpu.stat" in files and "a.service" in where:
            return int(re.search(r"usage_usec (\d+)", read_text(where + "/cpu.stat")).group(1))
    fail("the app has no cgroup below %s: %s" % (base, [w for w, _, _ in os.walk(base)]))


@case
def the_pod_is_a_scope_of_its_own(host):
    uuid = host.detach("--name=p", host.shell("sleep 1000"))
    cgroup = read_text("/proc/%d/cgroup" % host.leader(uuid))
    true(".scope" in cgroup, "the pod is in %r" % cgroup)
    host.acnspawn("stop", uuid).expect(0)


main()
