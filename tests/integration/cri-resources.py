#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Resources of containers and sandboxes that are changed in place, and the cgroups around sandboxes, by the Container Runtime Interface. Most hosts where this runs have no
controllers of cgroup v2; what those do is tested for `acnspawn update-app`, in tests/vm/limits.py."""

import glob
import re

from cri_client import *

CHILDREN = "sleep 1000 & (echo 500 > /proc/self/oom_score_adj; exec sleep 1000) & " + SLEEP


def scores(client, container):
    """(command, OOM score) of the processes of the container that sleep; some of them end meanwhile."""
    script = "for p in /proc/[0-9]*; do echo $(cat $p/comm) $(cat $p/oom_score_adj); done"
    out = client.call("ExecSync", container_id=container, cmd=["/bin/sh", "-c", script]).stdout.decode()
    return sorted(tuple(line.split()) for line in out.splitlines() if re.fullmatch(r"sleep -?\d+", line))


def has_memory_controller():
    path = "/sys/fs/cgroup/cgroup.controllers"
    return os.path.exists(path) and "memory" in read_text(path).split()


def update(client, container, **fields):
    client.call("UpdateContainerResources", container_id=container, linux=fields)


@case
def oom_scores(host):
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        i = run_sandbox(c)
        a = create(c, i, "main", image_id, CHILDREN,
                   linux={"resources": {"oom_score_adj": 100}, "security_context": {"namespace_options": {"pid": 1}}})
        # Of a container that does not run there is nothing to change.
        equal(c.refused("UpdateContainerResources", container_id=a, linux={"oom_score_adj": 200}),
              ("FAILED_PRECONDITION", "Container %s is not running" % a))
        before = status(c, a)
        equal(before.resources.linux.oom_score_adj, 100)
        c.call("StartContainer", container_id=a)
        wait_for(lambda: [x[1] for x in scores(c, a) if x[1] != "100"] == ["500"], lambda: "processes: %s" % scores(c, a))
        update(c, a, oom_score_adj=300)
        now = [x[1] for x in scores(c, a)]
        true("100" not in now and "300" in now, "scores after the update: %s" % now)
        equal(now.count("500"), 1, "the process with a score of its own")
        after = status(c, a)
        equal((after.resources.linux.oom_score_adj, after.created_at), (300, before.created_at))
        # Fields that do not change, and none at all.
        update(c, a, oom_score_adj=300)
        c.call("UpdateContainerResources", container_id=a)
        s.process.kill()
        s.process.wait(patience(60))
        s.start()
        c = s.client()
        wait_for(lambda: answers(c), "a reply after the restart")
        equal(status(c, a).resources.linux.oom_score_adj, 300, "after a restart")
        remove(c, i)


@case
def what_cannot_be_changed_is_named(host):
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        i = run_sandbox(c)
        a = create(c, i, "main", image_id, SLEEP, linux={"resources": {"unified": {"memory.oom.group": "1"}}})
        c.call("StartContainer", container_id=a)
        update(c, a, unified={"memory.oom.group": "1"}, hugepage_limits=[{"page_size": "2MB", "limit": 0}])
        if not has_memory_controller():
            for fields, name in (({"unified": {"memory.oom.group": "0"}}, "memory"),
                                 ({"hugepage_limits": [{"page_size": "2MB", "limit": 1}]}, "hugetlb")):
                code, message = c.refused("UpdateContainerResources", container_id=a, linux=fields)
                contains(message, "this host has no cgroup v2 controller '%s' for pods" % name)
        equal(c.refused("UpdateContainerResources", container_id=a, linux={"unified": {"memory.oom.group": "2"}})[0], "INVALID_ARGUMENT")
        contains(c.refused("UpdateContainerResources", container_id=a, linux={"hugepage_limits": [{"page_size": "2M", "limit": 1}]})[1],
                 "hugetlb.2M.max")
        if not has_memory_controller():
            code, message = c.refused("CreateContainer", pod_sandbox_id=i, config=container_config("huge", image_id, SLEEP, linux={
                "resources": {"hugepage_limits": [{"page_size": "2MB", "limit": 2 << 20}]}}))
            equal(code, "INVALID_ARGUMENT", message)
            contains(message, "no cgroup v2 controller 'hugetlb'")
        if has_memory_controller():
            update(c, a, memory_limit_in_bytes=1 << 28, cpu_shares=512)
            equal([getattr(status(c, a).resources.linux, n) for n in ("memory_limit_in_bytes", "cpu_shares")], [1 << 28, 512])
            code, message = c.refused("UpdateContainerResources", container_id=a, linux={"memory_limit_in_bytes": 4096})
            equal(code, "FAILED_PRECONDITION")
            true("cannot be set to 4096 bytes: it uses" in message, message)
        else:
            code, message = c.refused("UpdateContainerResources", container_id=a, linux={"memory_limit_in_bytes": 1 << 28})
            true("memory" in message, (code, message))
            equal(status(c, a).resources.linux.memory_limit_in_bytes, 0)
        equal(c.refused("UpdateContainerResources", container_id="0" * 64)[0], "NOT_FOUND")
        # Attributes of cgroups; where there is the controller, tests/vm/cri.py changes them.
        for unified, text in (({"memory.numa": "1"}, "is not a supported attribute of cgroups"), ({"memory.high": "lots"}, "must be a number of bytes, or max")):
            code, message = c.refused("UpdateContainerResources", container_id=a, linux={"oom_score_adj": 70, "unified": unified})
            equal(code, "INVALID_ARGUMENT", message)
            contains(message, text)
        if not has_memory_controller():
            for fields, controller in (({"cpuset_cpus": "0"}, "cpuset"), ({"cpuset_mems": "0"}, "cpuset"), ({"unified": {"memory.high": "max"}}, "memory")):
                contains(c.refused("UpdateContainerResources", container_id=a, linux=dict(fields, oom_score_adj=70))[1],
                         "this host has no cgroup v2 controller '%s' for pods" % controller)
        linux = status(c, a).resources.linux
        equal((linux.oom_score_adj, linux.cpuset_cpus, dict(linux.unified)), (0, "", {"memory.oom.group": "1"}), "what a status has after refusals")
        c.call("StopPodSandbox", pod_sandbox_id=i)
        equal(c.refused("UpdateContainerResources", container_id=a, linux={"oom_score_adj": 5}),
              ("FAILED_PRECONDITION", "Sandbox %s is not ready" % i))
        remove(c, i)


@case
def resources_of_sandboxes(host):
    with Service(host) as s:
        c = s.client()
        i = run_sandbox(c)
        before = c.call("PodSandboxStatus", pod_sandbox_id=i).status
        # The cgroup is the client's, which has changed it.
        c.call("UpdatePodSandboxResources", pod_sandbox_id=i, resources={"memory_limit_in_bytes": 1 << 28}, overhead={"cpu_shares": 2})
        equal(c.call("PodSandboxStatus", pod_sandbox_id=i).status, before)
        equal(c.refused("UpdatePodSandboxResources", pod_sandbox_id="0" * 64)[0], "NOT_FOUND")
        remove(c, i)


def with_parent(i, *parts):
    return sandbox_config(name="p%d" % i, uid="u%d" % i,
                          linux={"cgroup_parent": "/" + "/".join(parts),
                                 "security_context": {"namespace_options": {"network": 2}}})


@case
def cgroup_parents(host):
    """In the form of either driver, which is a path on a host whose init is not systemd."""
    if os.path.isdir("/run/systemd/system"):
        raise Skip("systemd owns the cgroups of this host")
    root = "acnspawn-test-parent-%d" % os.getpid()
    forms = (root, "burstable", "pod1"), (root + ".slice", root + "-burstable.slice", root + "-burstable-pod2.slice")
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        equal(c.refused("RunPodSandbox", config=with_parent(9, "a", "..", "b"))[0], "INVALID_ARGUMENT")
        for n, parts in enumerate(forms):
            i = c.call("RunPodSandbox", config=with_parent(n, *parts)).pod_sandbox_id
            a = create(c, i, "main", image_id, SLEEP)
            c.call("StartContainer", container_id=a)
            leader = json.loads(c.call("PodSandboxStatus", pod_sandbox_id=i, verbose=True).info["info"])["pid"]
            contains(read_text("/proc/%d/cgroup" % leader), "/" + "/".join(parts) + "/")
            supervisor = host.supervisor("%s-%s-%s-%s-%s" % (i[:8], i[8:12], i[12:16], i[16:20], i[20:32]))
            true(parts[0] not in read_text("/proc/%d/cgroup" % supervisor), "the supervisor is not below")
            c.call("StopPodSandbox", pod_sandbox_id=i)
            # As the client does: it would kill what is left, and removes its cgroups.
            for k in range(len(parts), 0, -1):
                for path in glob.glob("/sys/fs/cgroup/*/" + "/".join(parts[:k])) + glob.glob("/sys/fs/cgroup/" + "/".join(parts[:k])):
                    equal(read_text(path + "/cgroup.procs"), "", path)
                    os.rmdir(path)
            c.call("RemovePodSandbox", pod_sandbox_id=i)


if __name__ == "__main__":
    main_of_cri()
