#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A node whose init is systemd, with the controllers of cgroup v2: what the kubelet's slices and limits of the Container Runtime Interface
become, the service as a unit, and the package of Debian, which is there while this program runs. """

from cri_client import *

PACKAGE = "/opt/tests/package/acnspawn-cri.deb"
SOCKET = "/run/acnspawn/cri.sock"
SLEEP = "trap 'exit 0' TERM; while :; do sleep 1000 & wait $!; done"  # by less work than that of cri_client
SLICES = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice"


def systemctl(*args):
    subprocess.run(["systemctl", *args], check=True)


def cgroup_of(c, i, name):
    """The directory of the slice that an app's limits are of."""
    leader = json.loads(c.call("PodSandboxStatus", pod_sandbox_id=i, verbose=True).info["info"])["pid"]
    pod = "/sys/fs/cgroup" + read_text("/proc/%d/cgroup" % leader).strip().split("::")[1].rsplit("/", 1)[0]
    for directory, _, _ in os.walk(pod):
        if directory.endswith("/app-%s.slice" % name):
            return directory
    fail("no slice of %s below %s" % (name, pod))


def value(cgroup, name):
    return read_text(os.path.join(cgroup, name)).strip()


def in_use(cgroup):
    """Those at it and below it that have processes. One that is removed meanwhile has none."""
    found = []
    for directory, _, _ in os.walk(cgroup):
        with contextlib.suppress(OSError):
            found += [directory] if value(directory, "cgroup.procs") else []
    return found


@case
def limits_of_the_kubelet(host):
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        equal(c.call("RuntimeConfig").linux.cgroup_driver, 0, "the driver is systemd's")
        systemctl("start", os.path.basename(SLICES))
        i = c.call("RunPodSandbox", config=sandbox_config(linux={"cgroup_parent": SLICES, "security_context": {
            "namespace_options": {"network": 2}}})).pod_sandbox_id
        a = create(c, i, "main", image_id, "poke hold 20 >/out/up & " + SLEEP, linux={"resources": {
            "memory_limit_in_bytes": 128 << 20, "cpu_quota": 50000, "cpu_period": 100000, "cpu_shares": 512, "cpuset_cpus": "0",
            "oom_score_adj": 900, "unified": {"memory.swap.max": "0", "memory.high": str(96 << 20), "memory.oom.group": "1"},
            "hugepage_limits": [{"page_size": "2MB", "limit": 0}]}})
        c.call("StartContainer", container_id=a)
        cgroup = cgroup_of(c, i, a[:32])
        contains(cgroup, SLICES + "/")
        equal([value(cgroup, n) for n in ("memory.max", "memory.high", "memory.swap.max", "memory.oom.group", "cpu.max", "cpu.weight", "cpuset.cpus")],
              [str(128 << 20), str(96 << 20), "0", "1", "50000 100000", "50", "0"])
        wait_for(lambda: c.call("ExecSync", container_id=a, cmd=["grep", "have", "/out/up"]).exit_code == 0, "the memory to be used")
        t = c.call("ContainerStats", container_id=a).stats
        true(t.memory.working_set_bytes.value > 20000000 and t.cpu.usage_core_nano_seconds.value > 0, t)
        # In place; not below what is used.
        update = lambda **f: c.call("UpdateContainerResources", container_id=a, linux=f)
        update(memory_limit_in_bytes=112 << 20, cpu_quota=25000, cpu_period=100000, cpu_shares=1024, unified={"memory.swap.max": "0", "memory.oom.group": "0"})
        equal([value(cgroup, n) for n in ("memory.max", "memory.high", "memory.swap.max", "memory.oom.group", "cpu.max", "cpu.weight")],
              [str(112 << 20), str(96 << 20), "0", "0", "25000 100000", "100"])
        code, message = c.refused("UpdateContainerResources", container_id=a, linux={"memory_limit_in_bytes": 4 << 20})
        equal(code, "FAILED_PRECONDITION")
        contains(message, "it uses")
        # One that uses too much: only a process of it, and all of it.
        d = create(c, i, "child", image_id, "poke memory 40; touch /out/child; " + SLEEP,
                   linux={"resources": {"memory_limit_in_bytes": 32 << 20, "unified": {"memory.swap.max": "0", "memory.oom.group": "0"}}})
        c.call("StartContainer", container_id=d)
        wait_for(lambda: c.call("ExecSync", container_id=d, cmd=["ls", "/out/child"]).exit_code == 0, "the end of the child")
        c.call("UpdateContainerResources", container_id=d, linux={"unified": {"memory.oom.group": "1"}})
        with contextlib.suppress(grpc.RpcError):
            c.call("ExecSync", container_id=d, cmd=["poke", "memory", "40"], timeout=patience(60))
        wait_for(lambda: state(c, d) == "EXITED", "the end of all of it")
        equal((status(c, d).reason, status(c, d).exit_code), ("OOMKilled", 137))
        b = create(c, i, "hog", image_id, "exec poke memory 60",
                   linux={"resources": {"memory_limit_in_bytes": 32 << 20, "unified": {"memory.swap.max": "0"}}})
        c.call("StartContainer", container_id=b)
        wait_for(lambda: state(c, b) == "EXITED", "the end of the hog")
        equal((status(c, b).reason, status(c, b).exit_code), ("OOMKilled", 137))
        equal(state(c, a), "RUNNING")
        c.call("StopPodSandbox", pod_sandbox_id=i)
        equal(in_use("/sys/fs/cgroup" + SLICES), [], "cgroups with processes in the pod's slice")
        c.call("RemovePodSandbox", pod_sandbox_id=i)
        systemctl("stop", os.path.basename(SLICES))


@case
def cgroups_that_the_kubelet_makes_itself(host):
    """The driver cgroupfs: the pod is below the kubelet's cgroup, which is not of systemd."""
    parent = "/kubepods/burstable/pod1"
    with Service(host, "--cgroup-driver=cgroupfs") as s:
        c, image_id = s.client(), image(host)
        equal(c.call("RuntimeConfig").linux.cgroup_driver, 1, "the driver is cgroupfs")
        path = "/sys/fs/cgroup"
        for part in parent.split("/")[1:]:
            with open(path + "/cgroup.subtree_control", "w") as f:
                f.write("+cpu +cpuset +memory +pids")
            path += "/" + part
            os.makedirs(path, exist_ok=True)
        with open(path + "/memory.max", "w") as f:
            f.write(str(256 << 20))
        i = c.call("RunPodSandbox", config=sandbox_config(linux={"cgroup_parent": parent, "security_context": {
            "namespace_options": {"network": 2}}})).pod_sandbox_id
        a = create(c, i, "main", image_id, SLEEP, linux={"resources": {
            "memory_limit_in_bytes": 64 << 20, "cpu_quota": 50000, "cpu_period": 100000, "cpu_shares": 512, "cpuset_cpus": "0",
            "unified": {"memory.swap.max": "0", "memory.oom.group": "1"}}})
        c.call("StartContainer", container_id=a)
        cgroup = cgroup_of(c, i, a[:32])
        contains(cgroup, path + "/")
        names = ("memory.max", "memory.swap.max", "memory.oom.group", "cpu.max", "cpu.weight", "cpuset.cpus")
        equal([value(cgroup, n) for n in names], [str(64 << 20), "0", "1", "50000 100000", "50", "0"])
        supervisor = host.supervisor("%s-%s-%s-%s-%s" % (i[:8], i[8:12], i[12:16], i[16:20], i[20:32]))
        true("/kubepods/" not in read_text("/proc/%d/cgroup" % supervisor), "the kubelet kills all that is below its cgroup")
        c.call("UpdateContainerResources", container_id=a, linux={"memory_limit_in_bytes": 96 << 20, "cpu_quota": 25000, "cpu_period": 100000,
                                                                  "unified": {"memory.oom.group": "0"}})
        equal([value(cgroup, n) for n in names], [str(96 << 20), "0", "0", "25000 100000", "50", "0"])
        true(c.call("ContainerStats", container_id=a).stats.memory.working_set_bytes.value > 0, "figures")
        equal(c.call("ExecSync", container_id=a, cmd=["echo", "x"]).stdout, b"x\n")
        # What systemd does to its units leaves it alone.
        systemctl("daemon-reload")
        equal([value(cgroup, n) for n in names], [str(96 << 20), "0", "0", "25000 100000", "50", "0"])
        # The kubelet: first what is below, then the cgroup itself.
        c.call("StopPodSandbox", pod_sandbox_id=i)
        equal(in_use(path), [], "cgroups with processes in that of the pod")
        c.call("RemovePodSandbox", pod_sandbox_id=i)
        equal([d for d, _, _ in os.walk(path)], [path], "cgroups that are left")
        for _ in range(3):
            os.rmdir(path)
            path = os.path.dirname(path)


@case
def attributes_of_cgroups_change_while_the_container_runs(host):
    """As the policies of the kubelet for processors and memory need it: of a container that had none of them before."""
    def read(cgroup):
        return {n: value(cgroup, n) for n in ("cpuset.cpus", "cpuset.mems", "memory.high", "memory.low", "memory.min", "memory.swap.max", "memory.max")}

    with Service(host) as s:
        c, image_id = s.client(), image(host)
        i = run_sandbox(c)
        a = create(c, i, "main", image_id, SLEEP)
        c.call("StartContainer", container_id=a)
        update = lambda **f: c.call("UpdateContainerResources", container_id=a, linux=f)
        cgroup = cgroup_of(c, i, a[:32])
        true(not os.path.exists(cgroup + "/cpuset.cpus"), "the controller is not there before it is needed")
        before = value(cgroup, "memory.max"), value(cgroup, "memory.high")
        # Refused by the kernel, and with it all that the request has.
        code, message = c.refused("UpdateContainerResources", container_id=a, linux={
            "memory_limit_in_bytes": 128 << 20, "cpuset_cpus": "7000", "unified": {"memory.high": str(64 << 20)}})
        equal(code, "INVALID_ARGUMENT", message)
        contains(message, "Attribute cpuset.cpus of app %s cannot be set to '7000', and none was changed" % a[:32])
        equal((value(cgroup, "memory.max"), value(cgroup, "memory.high")), before)
        linux = status(c, a).resources.linux
        equal((linux.memory_limit_in_bytes, linux.cpuset_cpus, dict(linux.unified)), (0, "", {}))
        update(cpuset_cpus="0", cpuset_mems="0", memory_limit_in_bytes=128 << 20,
               unified={"memory.high": str(96 << 20), "memory.low": str(8 << 20), "memory.swap.max": "4096"})
        expected = {"cpuset.cpus": "0", "cpuset.mems": "0", "memory.high": str(96 << 20), "memory.low": str(8 << 20), "memory.min": "0",
                    "memory.swap.max": "4096", "memory.max": str(128 << 20)}
        equal(read(cgroup), expected)
        update(unified={"memory.high": "max", "memory.min": str(4 << 20)})
        expected.update({"memory.high": "max", "memory.min": str(4 << 20)})
        equal(read(cgroup), expected)
        for fields in {"cpuset_mems": "900"}, {"unified": {"memory.min": "0", "cpuset.cpus": "5000-6000"}}:
            equal(c.refused("UpdateContainerResources", container_id=a, linux=fields)[0], "INVALID_ARGUMENT")
            equal(read(cgroup), expected)
        # Other limits leave them alone; so does a start in the same pod, and statuses after one of the service.
        update(memory_limit_in_bytes=112 << 20)
        expected["memory.max"] = str(112 << 20)
        equal(read(cgroup), expected)
        s.process.kill()
        s.process.wait(60)
        s.start()
        c = s.client()
        wait_for(lambda: answers(c), "a reply after the restart", timeout=60)
        linux = status(c, a).resources.linux
        equal((linux.cpuset_cpus, linux.cpuset_mems, dict(linux.unified)),
              ("0", "0", {"memory.high": "max", "memory.low": str(8 << 20), "memory.min": str(4 << 20), "memory.swap.max": "4096"}))
        host.acnspawn("restart-app", "%s-%s-%s-%s-%s" % (i[:8], i[8:12], i[12:16], i[16:20], i[20:32]), a[:32]).expect(0)
        wait_for(lambda: os.path.exists(cgroup + "/cpuset.cpus"), "the container again", timeout=60)
        equal(read(cgroup), expected)
        remove(c, i)


@case
def huge_pages_are_limited(host):
    """The kubelet enables the controller for its slices, which systemd does not know."""
    huge = {"resources": {"hugepage_limits": [{"page_size": "2MB", "limit": 4 << 20}, {"page_size": "1GB", "limit": 0}]}}
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        # A sandbox whose slice does not have it.
        i = run_sandbox(c)
        code, message = c.refused("CreateContainer", pod_sandbox_id=i, config=container_config("huge", image_id, SLEEP, linux=huge))
        equal(code, "INVALID_ARGUMENT", message)
        contains(message, "no cgroup v2 controller 'hugetlb'")
        remove(c, i)
        systemctl("start", os.path.basename(SLICES))
        parts = SLICES.split("/")[:-1]
        for n in range(len(parts)):
            with open("/sys/fs/cgroup" + "/".join(parts[:n + 1]) + "/cgroup.subtree_control", "w") as f:
                f.write("+hugetlb")
        i = c.call("RunPodSandbox", config=sandbox_config(linux={"cgroup_parent": SLICES, "security_context": {
            "namespace_options": {"network": 2}}})).pod_sandbox_id
        a = create(c, i, "main", image_id, SLEEP, linux=huge)
        c.call("StartContainer", container_id=a)
        file = cgroup_of(c, i, a[:32]) + "/hugetlb.2MB.max"
        equal(read_text(file).strip(), str(4 << 20))
        equal([(h.page_size, h.limit) for h in status(c, a).resources.linux.hugepage_limits], [("2MB", 4 << 20), ("1GB", 0)])
        # In a cgroup that is made anew.
        host.acnspawn("restart-app", "%s-%s-%s-%s-%s" % (i[:8], i[8:12], i[12:16], i[16:20], i[20:32]), a[:32]).expect(0)
        wait_for(lambda: os.path.exists(file) and read_text(file).strip() == str(4 << 20), "the limit of the next start", timeout=60)
        update = lambda **f: c.call("UpdateContainerResources", container_id=a, linux=f)
        update(unified={"hugetlb.2MB.max": str(2 << 20)})
        equal(read_text(file).strip(), str(2 << 20))
        for limit in 6 << 20, 0, 8 << 20:
            update(hugepage_limits=[{"page_size": "2MB", "limit": limit}])
            equal(read_text(file).strip(), str(limit))
            equal(sorted((h.page_size, h.limit) for h in status(c, a).resources.linux.hugepage_limits), [("1GB", 0), ("2MB", limit)])
        remove(c, i)
        systemctl("stop", os.path.basename(SLICES))


@case
def processes_of_the_host(host):
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        options = {"network": 2, "pid": 2}
        i = c.call("RunPodSandbox", config=sandbox_config(linux={"security_context": {"namespace_options": options}})).pod_sandbox_id
        a = create(c, i, "main", image_id, SLEEP, linux={"resources": {"memory_limit_in_bytes": 64 << 20}, "security_context": {"namespace_options": options}})
        c.call("StartContainer", container_id=a)
        equal(value(cgroup_of(c, i, a[:32]), "memory.max"), str(64 << 20))
        equal(c.call("ExecSync", container_id=a, cmd=["cat", "/proc/1/comm"]).stdout, b"systemd\n")
        stop(c, a, 30)
        equal((status(c, a).state, status(c, a).exit_code), (2, 0))
        remove(c, i)


def command(*args, rc=0):
    r = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, cwd="/")
    if rc is not None:
        equal(r.returncode, rc, "status of %s, which says %r" % (" ".join(args), r.stdout))
    return r.stdout.strip()


def acnspawn(*args):
    """Of the system's store."""
    return command(ACNSPAWN, "--dir=/var/lib/acnspawn", *args)


def dpkg(*args):
    return command("env", "DEBIAN_FRONTEND=noninteractive", "dpkg", *args)


def connected():
    """A client of the unit, which starts with its first call."""
    c = Client(SOCKET)
    wait_for(lambda: answers(c), "a reply of the unit", timeout=60)
    return c


@contextlib.contextmanager
def container_of_the_unit(host):
    """A sandbox and a container that runs, of the system's store."""
    image_id = acnspawn("fetch", "--insecure-options=signature", host.image(name="example.com/app")).split()[-1]
    systemctl("start", "acnspawn-cri.socket")
    c = connected()
    i = run_sandbox(c)
    try:
        a = create(c, i, "main", image_id, SLEEP)
        c.call("StartContainer", container_id=a)
        yield c, a
    finally:
        c.close()
        if not os.path.exists(SOCKET):
            systemctl("start", "acnspawn-cri.socket")
        remove(connected(), i)
        acnspawn("image", "rm", "example.com/app")
        systemctl("stop", "acnspawn-cri.socket", "acnspawn-cri.service")


@case
def the_service_is_a_unit(host):
    with container_of_the_unit(host) as (c, a):
        for words in ("restart",), ("kill", "--signal=KILL", "--kill-whom=main"):
            main = lambda: command("systemctl", "show", "--value", "--property=MainPID", "acnspawn-cri.service")
            before = main()
            systemctl(*words, "acnspawn-cri.service")
            c = Client(SOCKET)
            wait_for(lambda: answers(c) and main() not in (before, "0"), "a reply of another process", timeout=60)
            equal(state(c, a), "RUNNING", words)
        stop(c, a, 30)
        equal(status(c, a).exit_code, 0)
        c.close()


def needs_package(function):
    def run(host):
        if not os.path.exists(PACKAGE):
            raise Skip("run.py has no --package, or there is no package acnspawn-cri beside it")
        function(host)
    run.__name__ = function.__name__
    run.timeout = 900
    return case(run)


@needs_package
def what_the_package_switches_on(host):
    dpkg("--install", PACKAGE)
    equal(command("systemctl", "is-enabled", "acnspawn-cri.socket", "acnspawn-cri.service", rc=None), "enabled\nstatic")
    equal(command("systemctl", "is-active", "acnspawn-cri.socket", "acnspawn-cri.service", rc=None), "active\ninactive")
    equal(oct(os.stat(SOCKET).st_mode), "0o140600")
    # The image has no documentation.
    damaged = [line for line in dpkg("--verify", "acnspawn-cri").splitlines() if "/usr/share/doc/" not in line and "/usr/share/man/" not in line]
    equal(damaged, [], "files that are not as they are in the package")
    systemctl("stop", "acnspawn-cri.socket")


@needs_package
def containers_outlive_the_package_and_a_purge_leaves_nothing(host):
    with container_of_the_unit(host) as (c, a):
        dpkg("--remove", "acnspawn-cri")
        equal(command("systemctl", "list-units", "--no-legend", "acnspawn-cri*", rc=None), "")
        true(not os.path.exists(SOCKET), "the socket is removed")
        dpkg("--install", PACKAGE)
        c = connected()
        equal(state(c, a), "RUNNING")
        stop(c, a, 30)
        equal(status(c, a).exit_code, 0)
        c.close()
    dpkg("--purge", "acnspawn-cri")
    equal(command("find", "/etc", "/run", "/usr", "/var", "-xdev", "(", "-name", "*acnspawn-cri*", "-o", "-path", SOCKET, ")",
                  "-not", "-path", "/usr/share/doc/*"), "", "what is left")


def run_with_package():
    dpkg("--install", PACKAGE)
    try:
        main()
    finally:
        dpkg("--purge", "acnspawn-cri")


if __name__ == "__main__":
    if os.path.exists(PACKAGE):
        run_with_package()
    if missing():
        print("skip cri: " + missing())
        sys.exit(0)
    main()
