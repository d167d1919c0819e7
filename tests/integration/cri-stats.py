#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What sandboxes and containers use, by the Container Runtime Interface. On a host without the controllers of cgroup v2 most of it
is not known, and absent; tests/vm has the rest."""

from cri_client import *

BUSY = "while :; do :; done"
WRITE = "dd if=/dev/zero of=/data bs=1024 count=3000 2>/dev/null; touch /written; " + SLEEP


def wait_inside(client, container, command):
    wait_for(lambda: client.call("ExecSync", container_id=container, cmd=["/bin/sh", "-c", command]).exit_code == 0, command)


def share(client, container):
    """The share of the processors, once there are two samples."""
    cpu = client.call("ContainerStats", container_id=container).stats.cpu
    return cpu.usage_nano_cores.value if cpu.HasField("usage_nano_cores") else None


@case
def usage_of_containers(host):
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        i, other = run_sandbox(c), run_sandbox(c, name="other", uid="u2")
        busy, writer = create(c, i, "busy", image_id, BUSY), create(c, i, "writer", image_id, WRITE)
        idle, created = create(c, other, "idle", image_id, SLEEP), create(c, other, "created", image_id, SLEEP)
        for x in busy, writer, idle:
            c.call("StartContainer", container_id=x)
        wait_inside(c, writer, "test -e /written")
        before = time.time_ns()
        stats = {x.attributes.id: x for x in c.call("ListContainerStats").stats}
        equal(set(stats), {busy, writer, idle}, "running containers")
        equal((stats[writer].attributes.metadata.name, dict(stats[writer].attributes.labels)), ("writer", {"c": "writer"}))
        true(before <= stats[busy].cpu.timestamp <= time.time_ns(), "time of the sample")
        # The layer is measured at the first call.
        layer = stats[writer].writable_layer
        true(3000 * 1024 <= layer.used_bytes.value < 3000 * 1024 * 2, layer)
        equal(layer.fs_id.mountpoint, os.path.realpath(host.dir))
        true(stats[idle].writable_layer.inodes_used.value < layer.inodes_used.value, "files of the two layers")
        # Two samples.
        equal(stats[busy].cpu.HasField("usage_nano_cores"), False, "a share by one sample")
        wait_for(lambda: share(c, busy), "the share of the processors")
        true(share(c, busy) > 10**7, "share of a busy container: %r" % share(c, busy))
        wait_for(lambda: share(c, idle) is not None, "the share of the other one")
        true(share(c, idle) < share(c, busy), "share of an idle container")
        later = c.call("ContainerStats", container_id=busy).stats.cpu
        true(later.usage_core_nano_seconds.value > stats[busy].cpu.usage_core_nano_seconds.value, "processor time grows")
        # Filters.
        for f, found in (({"id": busy}, {busy}), ({"id": busy[:20]}, {busy}), ({"pod_sandbox_id": other}, {idle}),
                         ({"label_selector": {"c": "writer"}}, {writer}), ({"label_selector": {"c": "x"}}, set())):
            equal({x.attributes.id for x in c.call("ListContainerStats", filter=f).stats}, found, f)
            streamed = [x.attributes.id for p in c.stream("StreamContainerStats", filter=f) for x in p.container_stats]
            equal(set(streamed), found, f)
        # What does not run has its layer only.
        t = c.call("ContainerStats", container_id=created).stats
        equal((t.attributes.id, t.HasField("cpu"), t.HasField("writable_layer")), (created, False, True))
        equal(c.refused("ContainerStats", container_id="0" * 64)[0], "NOT_FOUND")
        # A restart forgets samples only.
        s.process.kill()
        s.process.wait(patience(60))
        s.start()
        c = s.client()
        wait_for(lambda: answers(c), "a reply after the restart")
        true(c.call("ContainerStats", container_id=busy).stats.cpu.usage_core_nano_seconds.value > 0, "processor time")
        remove(c, i, other)


@case
def usage_of_sandboxes(host):
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        i, ended = run_sandbox(c), run_sandbox(c, name="ended", uid="u2")
        a = create(c, i, "main", image_id, SLEEP)
        c.call("StartContainer", container_id=a)
        c.call("StopPodSandbox", pod_sandbox_id=ended)
        t = c.call("PodSandboxStats", pod_sandbox_id=i).stats
        equal((t.attributes.id, t.attributes.metadata.uid, dict(t.attributes.labels)), (i, "u1", {"app": "web"}))
        true(t.linux.cpu.usage_core_nano_seconds.value > 0, "processor time")
        true(t.linux.process.process_count.value >= 2, "processes: %d" % t.linux.process.process_count.value)
        equal([x.attributes.id for x in t.linux.containers], [a])
        equal(t.linux.HasField("network"), False, "the network of the host")
        memory = os.path.exists("/sys/fs/cgroup/cgroup.controllers") and "memory" in read_text("/sys/fs/cgroup/cgroup.controllers")
        equal(t.linux.memory.HasField("usage_bytes"), memory, "whether memory is known")
        if os.path.exists("/proc/pressure/cpu"):
            true(t.linux.cpu.HasField("psi") and t.linux.cpu.psi.HasField("Some"), "pressure")
            true(0 <= t.linux.cpu.psi.Some.Avg10 <= 100, t.linux.cpu.psi)
        equal([x.attributes.id for x in c.call("ListPodSandboxStats").stats], [i])
        for f, n in (({"id": i}, 1), ({"id": ended}, 0), ({"label_selector": {"app": "web"}}, 1), ({"label_selector": {"app": "x"}}, 0)):
            equal(len(c.call("ListPodSandboxStats", filter=f).stats), n, f)
        equal([x.attributes.id for p in c.stream("StreamPodSandboxStats") for x in p.pod_sandbox_stats], [i])
        t = c.call("PodSandboxStats", pod_sandbox_id=ended).stats
        equal((t.attributes.id, t.linux.HasField("cpu"), len(t.linux.containers)), (ended, False, 0))
        # The lists in pieces.
        equal({x.id for p in c.stream("StreamPodSandboxes") for x in p.pod_sandboxes}, {i, ended})
        equal([x.id for p in c.stream("StreamPodSandboxes", filter={"id": i}) for x in p.pod_sandboxes], [i])
        equal([x.id for p in c.stream("StreamContainers") for x in p.containers], [a])
        remove(c, i, ended)


@case
def lists_have_recent_samples(host):
    def times():
        stats = {x.attributes.id: x.cpu.timestamp for x in c.call("ListContainerStats").stats}
        pods = c.call("ListPodSandboxStats").stats
        equal([{x.attributes.id for x in p.linux.containers} for p in pods], [set(stats)], "containers of the sandbox")
        return stats

    with Service(host) as s:
        c, image_id = s.client(), image(host)
        i = run_sandbox(c)
        first, second = create(c, i, "first", image_id, SLEEP), create(c, i, "second", image_id, SLEEP)
        c.call("StartContainer", container_id=first)
        sample = times()
        equal(set(sample), {first})
        # What has been started since the last sample is read at once, and what has been stopped is not reported from it.
        before = time.time_ns()
        c.call("StartContainer", container_id=second)
        now = times()
        equal(set(now), {first, second})
        true(before <= now[second] <= time.time_ns(), "time of the first sample of a container")
        c.call("StopContainer", container_id=first)
        equal(set(times()), {second})
        # The samples are renewed, also without a request that has to wait for that; times do not go back.
        last = times()[second]
        wait_for(lambda: times()[second] > last, "a new sample")
        true(times()[second] <= time.time_ns(), "time of a sample")
        remove(c, i)
        equal((len(c.call("ListContainerStats").stats), len(c.call("ListPodSandboxStats").stats)), (0, 0))


@case
def metrics_have_descriptors(host):
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        i = run_sandbox(c)
        a = create(c, i, "main", image_id, SLEEP)
        c.call("StartContainer", container_id=a)
        known = {d.name: list(d.label_keys) for d in c.call("ListMetricDescriptors").descriptors}
        equal(known["container_memory_failures_total"], ["container", "id", "image", "name", "namespace", "pod", "failure_type"])
        sandboxes = c.call("ListPodSandboxMetrics").pod_metrics
        equal([x.pod_sandbox_id for x in sandboxes], [i])
        equal([x.container_id for x in sandboxes[0].container_metrics], [a])
        seen = set()
        for m in list(sandboxes[0].metrics) + list(sandboxes[0].container_metrics[0].metrics):
            equal(len(m.label_values), len(known[m.name]), m.name)
            key = (m.name, tuple(m.label_values))
            true(key not in seen, "%s is there twice" % (key,))
            seen.add(key)
        metrics = {m.name: m for m in sandboxes[0].container_metrics[0].metrics}
        cpu = metrics["container_cpu_usage_seconds_total"]
        equal(dict(zip(known[cpu.name], cpu.label_values)),
              {"container": "main", "id": a, "image": image_id, "name": a, "namespace": "default", "pod": "web", "cpu": "total"})
        equal(cpu.metric_type, messages().COUNTER)
        true(abs(metrics["container_last_seen"].value.value - time.time()) < 60, "time")
        true(abs(metrics["container_start_time_seconds"].value.value - time.time()) < patience(300), "start")
        equal(metrics["container_fs_limit_bytes"].value.value, os.statvfs(host.dir).f_blocks * os.statvfs(host.dir).f_frsize)
        # What its processes have open, and may have open.
        process = json.loads(c.call("ContainerStatus", container_id=a, verbose=True).info["info"])["pid"]
        limit = next(line.split()[3] for line in read_text("/proc/%d/limits" % process).splitlines() if line.startswith("Max open files"))
        equal((list(metrics["container_ulimits_soft"].label_values)[-1], metrics["container_ulimits_soft"].value.value), ("max_open_files", int(limit)))
        true(metrics["container_file_descriptors"].value.value >= 3, "open files")
        equal(metrics["container_sockets"].value.value, 0)
        equal(known["container_blkio_device_usage_total"][-4:], ["device", "major", "minor", "operation"])
        equal([x.pod_sandbox_id for p in c.stream("StreamPodSandboxMetrics") for x in p.pod_sandbox_metrics], [i])
        remove(c, i)


@case
def space_of_images(host):
    with Service(host) as s:
        c = s.client()

        def info():
            r = c.call("ImageFsInfo")
            equal((len(r.image_filesystems), len(r.container_filesystems)), (1, 1))
            return r.image_filesystems[0], r.container_filesystems[0]
        wait_for(lambda: info()[0].HasField("inodes_used"), "the size of the trees")
        images, layers = info()
        equal((images.fs_id.mountpoint, layers.fs_id.mountpoint), (os.path.realpath(host.dir),) * 2)
        # Images that were imported by another process are counted after a minute, and those of a call of this endpoint at once.
        image_id = image(host)
        size = next(x.size for x in c.call("ListImages").images)
        equal(info()[0].used_bytes.value, images.used_bytes.value, "the size, which is kept for a minute")
        i = run_sandbox(c)
        create(c, i, "main", image_id, SLEEP)
        c.call("RemoveImage", image={"image": "sha256:" + "0" * 64})
        wait_for(lambda: info()[0].used_bytes.value > images.used_bytes.value, "the size of the image")
        true(info()[0].used_bytes.value >= size // 2, "%d bytes of an image of %d" % (info()[0].used_bytes.value, size))
        remove(c, i)


@case
def interrupted_downloads_count_as_images(host):
    host.acnspawn("fetch", host.shell("true")).expect(0)  # creates the store
    directory, size = os.path.join(host.dir, "downloads"), 4 << 20
    os.makedirs(directory, exist_ok=True)
    for name, age in ("old", 7200), ("new", 60):
        for kind, content in (".part", os.urandom(size)), (".json", b"{}"):
            with open(os.path.join(directory, name + kind), "wb") as f:
                f.write(content)
            os.utime(f.name, (time.time() - age,) * 2)
    with Service(host) as s:
        c = s.client()

        def used():
            images = c.call("ImageFsInfo").image_filesystems[0]
            return images.used_bytes.value if images.HasField("inodes_used") else 0
        both = wait_for(used, "the size of the store")
        true(both >= 2 * size, "%d bytes" % both)
        # What removes images wants space.
        c.call("RemoveImage", image={"image": "sha256:" + "0" * 64})
        equal(sorted(os.listdir(directory)), ["new.json", "new.part"])
        wait_for(lambda: size <= used() <= both - size, "the size of the newer one")


if __name__ == "__main__":
    main_of_cri()
