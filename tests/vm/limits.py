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
def a_fork_bomb_leaves_the_others_answering(host):
    """By the controller of cgroup v2, in the pod's own slices: the default limit for one app, and a separate limit for
    the bomb."""
    bomb = host.shell("exec poke bomb 8", name="example.com/bomb")
    calm = host.shell("i=0; while test $i -lt 15; do /bin/true || exit 3; i=$((i+1)); sleep 0.3; done; echo calm", name="example.com/calm")
    r = host.acnspawn("run", "--name=p", "--exit-policy=all", bomb, "--tasks-max=60", "---", calm, timeout=120)
    equal(verdict(host, "resource/tasks", app="bomb"), "enforced")
    equal({d["app"]: d["verdict"] for d in host.status("p")["defaults"] if d["name"] == "resource/tasks"}, {None: "enforced", "calm": "enforced"})
    equal(re.findall(r"most (\d+)", r.out), ["60"], "processes of the bomb")
    equal(host.app_status("p", "calm")["exitStatus"], 0, "the other app")
    contains(r.out, "calm")


@case
def processes_are_limited_by_default(host):
    uuid = host.detach("--name=p", host.shell("poke forks 2100; sleep 1000", name="example.com/a"))
    cgroup = read_text("/proc/%d/cgroup" % host.leader(uuid)).strip().split("::")[1]
    base = "/sys/fs/cgroup" + cgroup.rsplit("/", 1)[0]
    found = {}
    for where, _, files in os.walk(base):
        if where.endswith("app.slice") or where.endswith("app-a.slice"):
            found[os.path.basename(where)] = read_text(where + "/pids.max").strip()
    equal(found, {"app.slice": "8192", "app-a.slice": "2048"})
    wait_for(lambda: "made" in host.acnspawn("logs", uuid).out, "the app", timeout=60)
    made = int(re.search(r"made (\d+)", host.acnspawn("logs", uuid).out)[1])
    true(2040 <= made <= 2047, "%d processes were made" % made)
    host.acnspawn("stop", "--force", uuid)


@case
def processor_time_keeps_to_the_quota(host):
    script = "while :; do :; done"
    uuid = host.detach("--name=p", host.shell(script, name="example.com/a", app={"isolators": [isolator("resource/cpu", limit="200m")]}))
    equal(verdict(host, "resource/cpu"), "enforced")
    before, start = cpu_usec(host, uuid), time.monotonic()
    time.sleep(5)  # a share is one of a time, by the clock of the machine whose processor it is
    share = (cpu_usec(host, uuid) - before) / 1e6 / (time.monotonic() - start)
    true(0.19 <= share <= 0.21, "the app had %.3f of a processor, expected 0.2" % share)
    host.acnspawn("stop", "--force", uuid)


@case
def the_swap_of_an_image_is_not_that_of_a_changed_limit(host):
    """As when the pod is prepared with the limit; but what the operator gives stays."""
    swap = {"isolators": [{"name": "os/linux/cgroup", "value": {"memory.swap.max": "8388608"}}]}
    image = host.shell("trap 'exit 0' TERM; while :; do sleep 0.1; done", name="example.com/a", app=swap)
    uuid = host.detach("--name=p", image, "--grant=all", "---", image, "--name=b", '--isolator=os/linux/cgroup={"memory.swap.max":"4194304"}')
    cgroup = read_text("/proc/%d/cgroup" % host.leader(uuid)).strip().split("::")[1]
    file = lambda app: "/sys/fs/cgroup" + cgroup.rsplit("/", 1)[0] + "/app.slice/app-%s.slice/memory.swap.max" % app
    wait_for(lambda: os.path.exists(file("a")) and os.path.exists(file("b")), "the limits of swap", timeout=60)
    equal([read_text(file(a)).strip() for a in "ab"], ["8388608", "4194304"])
    for app, expected in ("a", "0"), ("b", "4194304"):
        host.acnspawn("update-app", "p", app, "--memory=32Mi").expect(0)
        equal((app, read_text(file(app)).strip()), (app, expected))
    host.acnspawn("stop", "--force", uuid)


@case
def limits_are_changed_while_the_app_runs(host):
    """In the kernel's files, in what is reported, and in the next start of the app."""
    uuid = host.detach("--name=p", "--exit-policy=all", host.shell("trap 'exit 0' TERM; while :; do sleep 1000 & wait $!; done", name="example.com/a"),
                       "--memory=64Mi", "--cpu=1", "---", host.shell("sleep 1000", name="example.com/b"))
    cgroup = read_text("/proc/%d/cgroup" % host.leader(uuid)).strip().split("::")[1]
    slice = "/sys/fs/cgroup" + cgroup.rsplit("/", 1)[0] + "/app.slice/app-a.slice/"
    files = "memory.max", "cpu.max", "cpu.weight", "pids.max"
    equal([read_text(slice + f).strip() for f in files], [str(64 << 20), "100000 100000", "100", "2048"])
    host.acnspawn("update-app", "p", "a", "--memory=32Mi", "--cpu=250m", "--tasks-max=50").expect(0)
    expected = [str(32 << 20), "25000 100000", "25", "50"]
    equal([read_text(slice + f).strip() for f in files], expected)
    details = {i["name"]: i["detail"] for i in host.status("p")["isolators"] if i["app"] == "a"}
    contains(details["resource/memory"], "at most %d bytes" % (32 << 20))
    contains(details["resource/cpu"], "25% of one CPU")
    contains(details["resource/tasks"], "50 processes")
    host.acnspawn("update-app", "p", "a", "--memory=infinity", "--cpu=infinity").expect(0)
    # systemd takes the controller of the processors away from a cgroup that needs it no more.
    def removed():
        found = [read_text(slice + f).strip() if os.path.exists(slice + f) else None for f in files]
        return found[0] == "max" and found[1] in ("max 100000", None) and found[2] in ("100", None) and found[3] == "50"
    wait_for(removed, lambda: "the limits to be removed: %s" % [(f, os.path.exists(slice + f) and read_text(slice + f)) for f in files])
    host.acnspawn("update-app", "p", "a", "--memory=32Mi", "--cpu=250m").expect(0)
    equal([read_text(slice + f).strip() for f in files], expected)
    host.acnspawn("update-app", "p", "a", "--cpu-shares=2048").expect(0)
    equal(read_text(slice + "cpu.weight").strip(), "200")
    host.acnspawn("restart-app", "p", "a").expect(0)
    wait_for(lambda: os.path.exists(slice + "cgroup.procs"), "the app again", timeout=60)
    equal([read_text(slice + f).strip() for f in files], expected[:2] + ["200", "50"])
    # A limit below the usage of the app kills the app, if nothing can be reclaimed: at once, or, as systemd 262 sets it, when it needs memory.
    hog = host.detach("--name=q", host.shell("exec poke hold 30", name="example.com/hog"))
    wait_for(lambda: "have 30 MB" in host.acnspawn("logs", hog).out, "the memory of the app")
    host.acnspawn("update-app", "q", "hog", "--memory=16Mi", timeout=120).expect(0)
    host.acnspawn("status", "--wait=60s", hog, timeout=90).expect(0)
    equal(host.app_status("q", "hog")["cause"], "oom-kill")
    host.acnspawn("stop", "--force", uuid)


@case
def an_app_that_is_added_has_its_limits_and_leaves_none(host):
    """In a pod without apps; twice with the same name, with different limits."""
    uuid = host.acnspawn("run", "--detach", "--exit-policy=never", "--name=box", "--memory=512Mi").expect(0).out.strip()
    cgroup = read_text("/proc/%d/cgroup" % host.leader(uuid)).strip().split("::")[1]
    slices = "/sys/fs/cgroup" + cgroup.rsplit("/", 1)[0] + "/app.slice/"
    equal(read_text(slices + "memory.max").strip(), str(512 << 20))
    image = host.shell("trap 'exit 0' TERM; while :; do sleep 1000 & wait $!; done", name="example.com/a")
    for memory, tasks in (64, 50), (32, 40):
        host.acnspawn("add-app", "box", "--start", image, "--memory=%dMi" % memory, "--tasks-max=%d" % tasks).expect(0)
        equal([read_text(slices + "app-a.slice/" + f).strip() for f in ("memory.max", "pids.max")],
              [str(memory << 20), str(tasks)])
        host.acnspawn("rm-app", "--force", "box", "a").expect(0)
        true(not os.path.exists(slices + "app-a.slice"), "the slice of a removed app is there")
    equal(host.state(uuid), "running")
    host.acnspawn("stop", "box").expect(0)
    equal(host.status(uuid)["exitStatus"], 0)


@case
def bytes_and_operations_of_disks_keep_to_their_rates(host):
    """Written past the page cache, by an app whose root is an overlay; the I/O of the disk is measured."""
    script = "cut -d ' ' -f 1 /proc/uptime; dd if=/dev/zero of=/out/f bs=1M count=8 oflag=direct; cut -d ' ' -f 1 /proc/uptime"
    uuid = host.prepare("--name=p", host.shell(script, name="example.com/a"), "--block-bandwidth=2M")
    start = time.monotonic()
    r = host.acnspawn("run", uuid).expect(0)
    whole = time.monotonic() - start
    equal(verdict(host, "resource/block-bandwidth"), "enforced")
    begin, end = [float(line) for line in r.out.splitlines() if re.fullmatch(r"[0-9.]+", line)]
    seconds = end - begin
    rate = 8 * 1048576 / seconds
    true(1.8e6 <= rate <= 2.2e6, "the app wrote %d bytes a second (%.1f s, the pod %.1f s), expected 2000000" % (rate, seconds, whole))


def written_in(host, uuid):
    """Seconds that the app of a pod, which has to be prepared with this script, has taken."""
    r = host.acnspawn("run", uuid, timeout=120).expect(0)
    begin, end = [float(line) for line in r.out.splitlines() if re.fullmatch(r"[0-9.]+", line)]
    return end - begin


def writer(host, size, block, name="a"):
    script = "cut -d ' ' -f 1 /proc/uptime; dd if=/dev/zero of=/out/f bs=%s count=%d oflag=direct 2>/dev/null; cut -d ' ' -f 1 /proc/uptime" % (block, size)
    return host.shell(script, name="example.com/" + name)


@case
def operations_of_disks_keep_to_their_rate(host):
    """The limit is below the speed of the machine: 40 per second."""
    uuid = host.prepare("--name=p", writer(host, 240, "4k"), "--block-iops=40")
    seconds = written_in(host, uuid)
    equal(verdict(host, "resource/block-iops"), "enforced")
    true(36 <= 240 / seconds <= 44, "%.1f operations a second, expected 40" % (240 / seconds))


@case
def rate_of_the_pod_bounds_its_apps_together(host):
    uuid = host.prepare("--name=p", "--block-bandwidth=2M", writer(host, 5, "1M"), "--name=a", "---", writer(host, 5, "1M", "b"), "--name=b")
    start = time.monotonic()
    r = host.acnspawn("run", uuid, timeout=120).expect(0)
    equal(verdict(host, "resource/block-bandwidth", app=None), "enforced")
    times = [float(x) for x in re.findall(r"^\S*:? *([0-9]+\.[0-9]+)$", r.out, re.M)]
    rate = 10 * 1048576 / (max(times) - min(times))
    true(1.7e6 <= rate <= 2.3e6, "both apps wrote %d bytes a second (%.1f s), expected 2000000: %r" % (rate, time.monotonic() - start, r.out))


@case
def requests_of_pods_divide_what_they_compete_for(host):
    image = host.shell("while :; do :; done", name="example.com/a")
    uuids = [host.detach("--name=" + n, "--isolator=resource/cpu={\"request\":\"%s\"}" % cpu,
                         "--isolator=resource/memory={\"request\":\"10M\"}", image) for n, cpu in (("p", "500m"), ("q", "1500m"))]
    contains(host.acnspawn("status", "p").expect(0).out, "a weight of 50 where pods compete")
    before = [cpu_usec(host, u) for u in uuids]
    time.sleep(10)  # as long as makes their shares comparable
    one, three = [cpu_usec(host, u) - b for u, b in zip(uuids, before)]
    true(2.5 <= three / one <= 3.5, "the pods had %.2f and %.2f s, expected 1 to 3" % (one / 1e6, three / 1e6))
    equal(read_text("/sys/fs/cgroup/machine.slice/acnspawn-%s.scope/memory.low" % uuids[0]).strip(), str(10**7 // 4096 * 4096))
    for u in uuids:
        host.acnspawn("stop", "--force", u)


@case
def limit_of_the_pod_bounds_its_apps_together(host):
    image = host.shell("while :; do :; done", name="example.com/a")
    uuid = host.detach("--name=p", "--cpu=300m", image, "--name=a", "---", image, "--name=b")
    equal(verdict(host, "resource/cpu", app=None), "enforced")
    before, start = [cpu_usec(host, uuid, a) for a in "ab"], time.monotonic()
    time.sleep(5)  # a share is one of a time, by the clock of the machine whose processor it is
    used = sum(cpu_usec(host, uuid, a) for a in "ab") - sum(before)
    share = used / 1e6 / (time.monotonic() - start)
    true(0.285 <= share <= 0.315, "the apps had %.3f of a processor, expected 0.3" % share)
    host.acnspawn("stop", "--force", uuid)


@case
def shares_divide_what_apps_compete_for(host):
    image = host.shell("while :; do :; done", name="example.com/a")
    uuid = host.detach("--name=p", "--cpu=500m", image, "--name=a", "--cpu-shares=1024", "---", image, "--name=b", "--cpu-shares=3072")
    before = [cpu_usec(host, uuid, a) for a in "ab"]
    time.sleep(8)  # as long as makes their shares comparable
    one, three = [cpu_usec(host, uuid, a) - b for a, b in zip("ab", before)]
    true(2.5 <= three / one <= 3.5, "the apps had %.2f and %.2f s, expected 1 to 3" % (one / 1e6, three / 1e6))
    host.acnspawn("stop", "--force", uuid)


def cpu_usec(host, uuid, app="a"):
    cgroup = read_text("/proc/%d/cgroup" % host.leader(uuid)).strip().split("::")[1]
    base = "/sys/fs/cgroup" + cgroup.rsplit("/", 1)[0]
    for where, _, files in os.walk(base):
        if where.endswith(".service") and "app" in where and "cpu.stat" in files and "app-%s.service" % app in where:
            return int(re.search(r"usage_usec (\d+)", read_text(where + "/cpu.stat")).group(1))
    fail("the app has no cgroup below %s: %s" % (base, [w for w, _, _ in os.walk(base)]))


@case
def the_pod_is_a_scope_of_its_own(host):
    uuid = host.detach("--name=p", host.shell("sleep 1000"))
    cgroup = read_text("/proc/%d/cgroup" % host.leader(uuid))
    true(".scope" in cgroup, "the pod is in %r" % cgroup)
    host.acnspawn("stop", uuid).expect(0)


main()
