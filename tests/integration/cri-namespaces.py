#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Sandboxes in the pid and ipc namespaces of the host, and containers in those of each other."""

import stat

from cri_client import *


def config(name="web", **modes):
    return sandbox_config(name=name, uid=name, linux={"security_context": {"namespace_options": dict({"network": 2}, **modes), "privileged": True}})


def start(c, i, name, image_id, script=SLEEP, context=None, **modes):
    a = create(c, i, name, image_id, script,
               linux={"security_context": dict({"namespace_options": dict({"network": 2}, **modes)}, **(context or {}))})
    c.call("StartContainer", container_id=a)
    return a


def sh(c, container, script):
    return c.call("ExecSync", container_id=container, cmd=["/bin/sh", "-c", script]).stdout.decode().strip()


def leader(c, i):
    return json.loads(c.call("PodSandboxStatus", pod_sandbox_id=i, verbose=True).info["info"])["pid"]


def processes(i):
    """The processes of a sandbox; those that have ended may wait for the init of the host."""
    return processes_where(lambda pid: i[:8] in read_text("/proc/%d/cgroup" % pid) and not has_ended(pid))


@case
def pid_namespace_of_the_host(host):
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        i = c.call("RunPodSandbox", config=config(pid=2)).pod_sandbox_id
        a = start(c, i, "main", image_id, "trap 'exit 5' TERM; sleep 1000 & while :; do sleep 0.05; done", pid=2)
        own = os.readlink("/proc/self/ns/pid")
        equal(sh(c, a, "readlink /proc/self/ns/pid"), own)
        equal(os.readlink("/proc/%d/ns/pid" % leader(c, i)), own)
        true(os.readlink("/proc/%d/ns/mnt" % leader(c, i)) != os.readlink("/proc/self/ns/mnt"), "the mount namespace")
        # It sees this process, by the number that it has here, and the service.
        equal(sh(c, a, "tr '\\0' ' ' </proc/%d/cmdline" % s.process.pid).split()[0], PROGRAM)
        # One with processes of its own is beside it; and another one that is to see those of the first sees them here.
        b = start(c, i, "own", image_id, pid=1)
        equal(sh(c, b, "ls -d /proc/%d 2>/dev/null || echo none" % s.process.pid), "none")
        d = start(c, i, "debug", image_id, pid=3)
        equal(sh(c, d, "readlink /proc/self/ns/pid"), own)
        # A restart of the service changes nothing, and the end of a container is known.
        s.process.kill()
        s.process.wait(patience(60))
        s.start()
        c = s.client()
        wait_for(lambda: answers(c), "a reply after the restart")
        equal(sh(c, a, "echo there"), "there")
        stop(c, a, 30)
        equal((status(c, a).state, status(c, a).exit_code), (2, 5))
        e = start(c, i, "ends", image_id, "exit 7", pid=2)
        wait_for(lambda: state(c, e) == "EXITED", "the end of a container")
        equal(status(c, e).exit_code, 7)
        c.call("RemoveContainer", container_id=a)
        # The processes that are left end with the sandbox.
        true(len(processes(i)) > 3, processes(i))
        c.call("StopPodSandbox", pod_sandbox_id=i)
        equal(processes(i), [])
        c.call("RemovePodSandbox", pod_sandbox_id=i)



@case
def a_killed_supervisor_leaves_processes_that_end_with_the_sandbox(host):
    """When the service sees that it is gone; also if that was killed before it."""
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        for kills in (), (9,):
            i = c.call("RunPodSandbox", config=config(pid=2)).pod_sandbox_id
            a = start(c, i, "main", image_id, "trap '' TERM; while :; do sleep 0.05; done", pid=2)
            for signal_number in kills:
                s.process.send_signal(signal_number)
                s.process.wait(patience(60))
            os.kill(host.supervisor("%s-%s-%s-%s-%s" % (i[:8], i[8:12], i[12:16], i[16:20], i[20:32])), 9)
            if kills:
                true(processes(i), "processes that are left")
                s.start()
                c = s.client()
                wait_for(lambda: answers(c), "a reply after the restart")
            wait_for(lambda: not processes(i), lambda: "the end of the processes %s" % processes(i))
            wait_for(lambda: sandboxes(c) == [(i, "NOTREADY")], "the end of the sandbox")
            equal(state(c, a), "EXITED")
            c.call("StopPodSandbox", pod_sandbox_id=i)
            equal(processes(i), [])
            equal(state(c, a), "EXITED")
            remove(c, i)


def sockets_of(host):
    """Those that listen, or are bound to a name, of this store: control sockets of pods, the interface of the CRI."""
    found = [line.split()[7] for line in read_text("/proc/net/unix").splitlines()[1:] if len(line.split()) > 7]
    return [p for p in found if "acnspawn" in p and (p.startswith("@") or host.tmp in p or p.startswith("/run/acnspawn"))]


def names_of_sockets(host):
    """Also of those that are bound by a short name, as paths of sockets are limited."""
    return [os.path.join(d, name) for top in (host.tmp, host.dir) for d, _, names in os.walk(top) for name in names
            if stat.S_ISSOCK(os.lstat(os.path.join(d, name)).st_mode)]


@case
def a_container_among_the_processes_of_the_host_attacks_the_runtime(host):
    """It has the network and the process IDs of the host, and is root, but not privileged: there is no socket of the runtime that it could
    connect to, not by the roots and descriptors of other processes, either, and nothing of its own by which it could speak for the launcher."""
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        i = c.call("RunPodSandbox", config=config(pid=2)).pod_sandbox_id
        a = start(c, i, "main", image_id, pid=2)
        own = start(c, i, "own", image_id, pid=1)
        uuid = "%s-%s-%s-%s-%s" % (i[:8], i[8:12], i[12:16], i[16:20], i[20:32])
        paths = sorted(set(names_of_sockets(host)) | {s.path})
        true(len(paths) > 1, "the sockets of the service and of the pod: %s" % paths)
        equal([p for p in sockets_of(host) if p.startswith("@")], [], "abstract sockets, which are of the network")
        others = [s.process.pid, host.supervisor(uuid), leader(c, i), 1]
        for container in a, own:
            for p in paths:
                equal(sh(c, container, "test -e '%s' && echo there" % p), "", p)
            equal(sh(c, container, "find / -xdev -type s 2>/dev/null; ls -d /acnspawn /run/acnspawn /run/systemd 2>/dev/null"), "", "sockets that it sees")
            equal(sh(c, container, "env | grep -e NOTIFY -e LISTEN -e ACNSPAWN -e WATCHDOG"), "", "variables of the service manager")
        equal(sh(c, own, "ls /proc/1/fd").split(), ["0", "1", "2"], "descriptors of a container's process")
        for pid in others:
            true(sh(c, a, "test -d /proc/%d && echo seen" % pid), "process %d is seen" % pid)
            script = ("for p in root/ cwd/ fd/0 fd/1 ns/mnt mem environ; do case $p in */) ls /proc/PID/$p >/dev/null 2>&1 && echo $p ;; "
                      "fd/*|ns/*) readlink /proc/PID/$p >/dev/null 2>&1 && echo $p ;; *) head -c 1 /proc/PID/$p >/dev/null 2>&1 && echo $p ;; esac; done; true")
            equal(sh(c, a, script.replace("PID", str(pid))), "", "what it gets at of process %d" % pid)
        equal(sh(c, a, "nsenter -t %d -m true 2>/dev/null && echo entered" % s.process.pid), "")
        # All goes on.
        equal((state(c, a), state(c, own)), ("RUNNING", "RUNNING"))
        remove(c, i)


@case
def ipc_namespace_of_the_host(host):
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        own, name = os.readlink("/proc/self/ns/ipc"), "acnspawn-test-%d" % os.getpid()
        with open("/dev/shm/" + name, "w") as f:
            f.write("shared")
        try:
            i = c.call("RunPodSandbox", config=config(ipc=2, pid=1)).pod_sandbox_id
            a = start(c, i, "main", image_id, pid=1, ipc=2)
            equal(sh(c, a, "readlink /proc/self/ns/ipc; cat /dev/shm/" + name).split(), [own, "shared"])
            k = c.call("RunPodSandbox", config=config("other")).pod_sandbox_id
            b = start(c, k, "main", image_id)
            true(sh(c, b, "readlink /proc/self/ns/ipc; ls /dev/shm") not in (own, name), "another sandbox")
            remove(c, i, k)
        finally:
            os.unlink("/dev/shm/" + name)


@case
def parameters_of_namespaces_of_the_host_are_refused(host):
    """They would be set for the host."""
    with Service(host) as s:
        c = s.client()
        for key, modes in (("kernel.shm_rmid_forced", {"ipc": 2}), ("fs.mqueue.msg_max", {"ipc": 2}), ("net.ipv4.ip_unprivileged_port_start", {})):
            path = "/proc/sys/" + key.replace(".", "/")
            before = read_text(path)
            request = config(**modes)
            request["linux"]["sysctls"] = {key: before.strip()}
            contains(c.refused("RunPodSandbox", config=request)[1], key)
            equal(read_text(path), before)
        request = config()
        request["linux"]["sysctls"] = {"kernel.shm_rmid_forced": "1"}
        remove(c, c.call("RunPodSandbox", config=request).pod_sandbox_id)


@case
def namespaces_of_other_sandboxes_are_refused(host):
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        equal(c.refused("RunPodSandbox", config=config(pid=3)),
              ("INVALID_ARGUMENT", "The field 'linux.security_context.namespace_options.pid' of the request is not supported with the value TARGET"))
        contains(c.refused("RunPodSandbox", config=config(pid=2, userns_options={"mode": 0}))[1], "in the pid or ipc namespace of the host")
        i = run_sandbox(c)
        for field in "pid", "ipc":
            options = {"linux": {"security_context": {"namespace_options": {field: 2}}}}
            equal(c.refused("CreateContainer", pod_sandbox_id=i, config=container_config("x", image_id, "true", **options)),
                  ("INVALID_ARGUMENT", "The field 'linux.security_context.namespace_options.%s' of the request is NODE, but sandbox %s is not in that "
                                       "namespace of the host" % (field, i)))
        remove(c, i)


if __name__ == "__main__":
    main_of_cri()
