#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The Container Runtime Interface of Kubernetes: acnspawn-cri and its calls about itself."""

import fcntl
import threading

from cri_client import *


def network(service, name, file="10-net.conflist", plugin="bridge"):
    with open(os.path.join(service.conf, file), "w") as f:
        json.dump({"cniVersion": "1.0.0", "name": name, "plugins": [{"type": plugin}]}, f)


def plugins(host, *names):
    """A directory with network plugins."""
    directory = host.path("plugins")
    os.makedirs(directory, exist_ok=True)
    for name in names:
        shutil.copy("/bin/true", os.path.join(directory, name))
    return directory


def conditions(client):
    return {c.type: (c.status, c.reason, c.message) for c in client.call("Status").status.conditions}


@case
def tells_its_version(host):
    with Service(host) as s:
        r = s.client().call("Version", version="v1")
        equal((r.version, r.runtime_name, r.runtime_api_version), ("0.1.0", "acnspawn", "v1"))
        equal("acnspawn " + r.runtime_version, host.acnspawn("version").out.splitlines()[0])
        equal(os.stat(s.path).st_mode & 0o777, 0o600, "mode of the socket")


@case
def status_tells_whether_there_is_a_network(host):
    directory = plugins(host, "bridge")
    with Service(host, "--cni-bin-dir=" + directory) as s:
        c = s.client()
        equal(conditions(c)["RuntimeReady"], (True, "", ""))
        # Pods without users of their own have three instances each, of those of one user.
        limit = int(read_text("/proc/sys/fs/inotify/max_user_instances"))
        enough, reason, message = conditions(c)["HostLimitsSufficient"]
        equal((enough, reason), (True, "") if limit >= 330 else (False, "InotifyInstancesLow"))
        if not enough:
            contains(message, "fs.inotify.max_user_instances=%d) allows less than %d pods" % (limit, limit // 3 + 1))
            contains(message, "Raise it with 'sysctl -w fs.inotify.max_user_instances=8192'")
        ready, reason, message = conditions(c)["NetworkReady"]
        equal((ready, reason), (False, "NetworkPluginNotReady"))
        contains(message, "There is no network configuration in " + s.conf)
        # The first valid one counts, and it appears without a restart.
        with open(os.path.join(s.conf, "05-broken.conf"), "w") as f:
            f.write("{")
        contains(conditions(c)["NetworkReady"][2], "05-broken.conf")
        network(s, "pods")
        equal(conditions(c)["NetworkReady"], (True, "", ""))
        # A plugin that is not there.
        network(s, "other", file="07-other.conflist", plugin="no-such-plugin")
        ready, reason, message = conditions(c)["NetworkReady"]
        equal(ready, False)
        contains(message, "no-such-plugin")


@case
def status_names_handlers_and_details(host):
    with Service(host) as s:
        c = s.client()
        r = c.call("Status")
        true(r.features.supplemental_groups_policy, r.features)
        true(all(h.features.recursive_read_only_mounts for h in r.runtime_handlers), r.runtime_handlers)
        equal([h.name for h in r.runtime_handlers], ["", "acnspawn"])
        equal(dict(r.info), {})
        info = c.call("Status", verbose=True).info
        equal(json.loads(info["store"]), os.path.realpath(host.dir))
        equal(json.loads(info["cniConfDirs"]), s.conf)
        # By the names of containerd.
        equal(json.loads(info["config"])["cni"]["confDir"], s.conf)
        equal(json.loads(info["cniconfig"])["Networks"], [])
        contains(info["lastCNILoadStatus"], "network")


@case
def the_cgroup_driver_is_that_of_the_init(host):
    with Service(host) as s:
        c = s.client()
        driver = messages().CgroupDriver.Name(c.call("RuntimeConfig").linux.cgroup_driver)
        equal(driver, "SYSTEMD" if os.path.isdir("/run/systemd/system") else "CGROUPFS")
        c.call("UpdateRuntimeConfig", runtime_config={"network_config": {"pod_cidr": "10.1.0.0/16"}})


@case
def refuses_what_it_cannot_read(host):
    with Service(host) as s:
        c = s.client()
        equal(c.refused("CheckpointContainer", container_id="a")[0], "UNIMPLEMENTED")
        raw = c.channel.unary_unary("/runtime.v1.RuntimeService/Version")
        for request in b"\x0a\x04v1", b"\x0a\x02\xc3(":
            try:
                raw(request, timeout=60)
                fail("accepted: %r" % request)
            except grpc.RpcError as e:
                equal((e.code().name, e.details()), ("INVALID_ARGUMENT", "The request is not a valid VersionRequest"))
        c.call("Version")


@case
def one_process_serves_a_store(host):
    with Service(host) as s:
        second = subprocess.run([PROGRAM, *s.options, "--socket=" + host.path("second.sock")], capture_output=True, text=True, timeout=60)
        equal(second.returncode, 1)
        contains(second.stderr, "The store '%s' is served by another acnspawn-cri" % os.path.realpath(host.dir))
        contains(second.stderr, "process %d" % s.process.pid)
        # The same socket, for another store.
        third = subprocess.run([PROGRAM, *s.options, "--dir=" + host.path("store3")], capture_output=True, text=True, timeout=60)
        contains(third.stderr, "Cannot listen on '%s': another process does" % s.path)
        s.client().call("Version")


@case
def waits_for_what_a_killed_process_has_left(host):
    """A process that it had just started has inherited the lock."""
    with Service(host) as s:
        s.process.kill()
        s.process.wait(patience(60))
        with open(os.path.join(host.dir, "cri.lock")) as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            release = threading.Timer(0.3, fcntl.flock, (f, fcntl.LOCK_UN))
            release.start()
            s.start()
            release.join()
        true(answers(s.client()), "a reply after the restart")


@case
def ends_in_order_and_starts_again(host):
    with Service(host) as s:
        c = s.client()
        c.call("Version")
        s.process.terminate()
        equal(s.process.wait(patience(60)), 0, "exit status")
        true(not os.path.exists(s.path), "the socket to be removed")
        s.start()
        # The same client, which connects again.
        wait_for(lambda: not attempt(c), "a reply after the restart")
        # Killed, it leaves its socket, which the next one replaces.
        s.process.kill()
        s.process.wait(patience(60))
        true(os.path.exists(s.path), "the socket to be left")
        s.start()
        wait_for(lambda: not attempt(c), "a reply after the second restart")


def attempt(client):
    """Why a call fails, or None."""
    try:
        client.call("Version")
    except grpc.RpcError as e:
        equal(e.code().name, "UNAVAILABLE")
        return e


@case
def says_when_it_is_ready(host):
    import socket
    path = host.path("notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as n:
        n.bind(path)
        n.settimeout(60)
        env = {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "2000000"}
        with Service(host, env=env):
            seen = set()
            while not seen >= {b"READY=1", b"WATCHDOG=1"}:
                seen.add(n.recv(4096))


@case
def takes_a_socket_that_is_passed(host):
    import socket
    path = host.path("passed.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(16)
        script = 'export LISTEN_PID=$$ LISTEN_FDS=1; exec "$@" 3<&%d' % listener.fileno()
        p = subprocess.Popen(["/bin/sh", "-c", script, "sh", PROGRAM, "--dir=" + host.dir], pass_fds=[listener.fileno()])
        try:
            c = Client(path)
            equal(c.call("Version").runtime_name, "acnspawn")
            c.close()
        finally:
            p.terminate()
        equal(p.wait(patience(60)), 0, "exit status")
        true(os.path.exists(path), "the socket to stay")


@case
def its_options(host):
    r = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True)
    for option in "--socket=", "--dir=", "--config-dir=", "--cni-conf-dir=", "--cni-bin-dir=", "--version":
        contains(r.stdout, option)
    for arguments, message in (["x"], "Unexpected argument 'x'"), (["--socket=a"], "it is not an absolute path"), \
            (["--cni-conf-dir=cni/net.d"], "it is not an absolute path"):
        r = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True)
        equal(r.returncode, 2, "exit status")
        contains(r.stderr, message)


if __name__ == "__main__":
    main_of_cri()
