#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Pods with the exit policy "never": they end when they are stopped, not with their apps, and may have no apps."""

import signal

from harness import *

FOREVER = "trap 'exit 0' TERM; touch /out/up; while :; do sleep 0.05; done"
TTL = "net.ipv4.ip_default_ttl"  # of the network namespace; 64 unless it is set


def box(host, *options):
    """Starts a pod without apps; returns its UUID."""
    r = host.acnspawn("run", "--detach", "--exit-policy=never", "--name=box", *options).expect(0)
    equal(r.err, "", "messages")
    return r.out.strip()


def of_namespaces(host, pod, path):
    """The content of the file PATH in the namespaces of the pod's PID 1."""
    return subprocess.run(["nsenter", "-t", str(host.leader(pod)), "-n", "-i", "-u", "cat", path],
                          check=True, capture_output=True, text=True).stdout


def bounding_set(host, pod):
    for line in read_text("/proc/%d/status" % host.leader(pod)).splitlines():
        if line.startswith("CapBnd:"):
            return int(line.split()[1], 16)
    fail("no bounding set")


def stopped(host, pod="box"):
    r = host.acnspawn("stop", pod).expect(0)
    equal((r.out, r.err), ("", ""))
    return host.status(pod)


# --- Without apps ------------------------------------------------------------------------------------------------------

@both
def a_pod_without_apps_is_up_and_is_stopped(host, *options):
    uuid = box(host, *options)
    s = host.status("box")
    equal((s["uuid"], s["state"], s["exitPolicy"], s["apps"]), (uuid, "running", "never", []))
    text = host.acnspawn("status", "box").expect(0).out
    contains(text, "Exit policy: never")
    contains(text, "Apps: none")
    listed = json.loads(host.acnspawn("list", "--json").expect(0).out)
    equal([(p["name"], p["state"], p["apps"]) for p in listed], [("box", "running", [])])
    contains(host.acnspawn("list").expect(0).out, "box")
    equal(host.acnspawn("logs", "box").expect(0).out, "")
    contains(host.acnspawn("stats", "box").expect(0).out, "box")
    contains(host.acnspawn("cat", "box").expect(0).out, "default.target")
    for args in ("enter", "box"), ("attach", "box"), ("restart-app", "box", "a"), ("stop-app", "box", "a"):
        contains(host.acnspawn(*args).expect(1).err, "no app", args[0])
    # It is still there: nothing ends it but this.
    s = stopped(host)
    equal((s["state"], s["exitStatus"]), ("exited", 0))
    contains(host.acnspawn("status", "box").expect(0).out, "exited with status 0")
    host.acnspawn("wait", "box").expect(0)


@case
def in_the_foreground_a_signal_stops_it(host):
    p = host.start("run", "--exit-policy=never", "--name=box")
    host.wait_named("box")
    wait_for(lambda: host.state("box") == "running" and host.leader("box"), "the pod")
    host.wait_at_rest("box")
    equal(p.poll(), None, "end of the pod")
    p.send_signal(signal.SIGINT)
    r = host.finish(p)
    equal((r.rc, r.out, r.err), (0, "", ""))
    equal(host.status("box")["exitStatus"], 0)


@case
def one_that_is_killed_has_failed(host):
    uuid = box(host)
    host.acnspawn("stop", "--force", "box").expect(0)
    equal(host.status("box")["exitStatus"], 125)
    host.acnspawn("wait", "box").expect(125)
    host.acnspawn("rm", "box").expect(0)
    # Also if no process remains that could have recorded it,
    uuid = box(host)
    os.kill(host.supervisor(uuid), signal.SIGKILL)
    wait_for(lambda: host.state(uuid) == "exited", "the end")
    equal(host.status(uuid)["exitStatus"], 125)
    host.acnspawn("rm", uuid).expect(0)
    # and where its systemd has died.
    uuid = box(host)
    os.kill(host.leader(uuid), signal.SIGKILL)
    host.acnspawn("wait", uuid).expect(125)


@case
def its_namespaces_and_parameters_are_there_before_any_app(host):
    uuid = box(host, "--hostname=boxed", "--sysctl=%s=77" % TTL, "--sysctl=kernel.msgmax=777", "--tasks-max=33")
    leader = host.leader(uuid)
    for ns in "net", "ipc", "uts", "pid", "mnt", "user":
        true(os.readlink("/proc/%d/ns/%s" % (leader, ns)) != os.readlink("/proc/self/ns/" + ns), ns + " namespace is the host's")
    equal(of_namespaces(host, uuid, "/proc/sys/net/ipv4/ip_default_ttl").strip(), "77")
    equal(of_namespaces(host, uuid, "/proc/sys/kernel/msgmax").strip(), "777")
    equal(of_namespaces(host, uuid, "/proc/sys/kernel/hostname").strip(), "boxed")
    verdicts = {i["name"]: i["verdict"] for i in host.status(uuid)["isolators"]}
    equal(verdicts["os/unix/sysctl"], "enforced")
    # The unit with the limits of all apps is active, too.
    contains(host.acnspawn("cat", uuid).expect(0).out, "TasksMax=33")
    wants = subprocess.run(["find", "/sys/fs/cgroup", "-path", "*%s*" % uuid, "-name", "app.slice"], capture_output=True, text=True).stdout
    true(wants.strip(), "no cgroup for apps")
    stopped(host)


@case
def parameters_that_cannot_be_set_refuse_the_pod(host):
    r = host.acnspawn("run", "--detach", "--exit-policy=never", "--name=box", "--sysctl=net.ipv4.no_such_thing=1").expect(1)
    contains(r.err, "Cannot set the kernel parameter net/ipv4/no_such_thing of the pod to '1'")
    equal(host.pods(), [], "pods")


@case
def capabilities_are_declared(host):
    time_bit, pacct_bit, chown_bit = 1 << 25, 1 << 20, 1 << 0
    uuid = box(host)
    bits = bounding_set(host, uuid)
    equal((bits & time_bit, bits & pacct_bit, bits & chown_bit), (0, 0, chown_bit))
    stopped(host)
    uuid = box(host, "--replace", "--caps-retain=CAP_SYS_TIME,CAP_SYS_PACCT")
    bits = bounding_set(host, uuid)
    equal((bits & time_bit, bits & pacct_bit, bits & chown_bit), (time_bit, pacct_bit, chown_bit))
    verdict = [i for i in host.status(uuid)["isolators"] if i["name"] == "os/linux/capabilities-retain-set"]
    equal([i["verdict"] for i in verdict], ["enforced"])
    stopped(host)


def capabilities_of(host, app):
    for line in host.acnspawn("enter", "--app=" + app, "box", "cat", "/proc/self/status").expect(0).out.splitlines():
        if line.startswith("CapBnd:"):
            return int(line.split()[1], 16)
    fail("no bounding set of app " + app)


@case
def what_is_declared_bounds_first_and_later_apps(host):
    time_bit, nice_bit = 1 << 25, 1 << 23
    image = host.shell("exec sleep 1000", name="example.com/app")
    later = host.shell("exec sleep 1000", name="example.com/later")
    r = host.acnspawn("run", "--detach", "--exit-policy=never", "--name=box", "--caps-retain=CAP_SYS_TIME", image,
                      "--caps-retain=CAP_SYS_NICE").expect(1)
    contains(r.err, "App app requires CAP_SYS_NICE, which is not among the capabilities that its pod declares")
    contains(r.err, "Add it to those of the pod")
    equal(host.pods(), [], "pods")

    uuid = box(host, "--caps-retain=CAP_SYS_TIME", image)
    equal((bounding_set(host, uuid) & time_bit, capabilities_of(host, "app") & time_bit), (time_bit, 0))
    r = host.acnspawn("add-app", "box", later, "--caps-retain=CAP_SYS_NICE").expect(1)
    contains(r.err, "App later requires CAP_SYS_NICE, which pod box does not have")
    contains(r.err, "Run it again with CAP_SYS_NICE in its --caps-retain=, which stands with --exit-policy=never or tasks before the first image")
    host.acnspawn("add-app", "box", later, "--caps-retain=CAP_SYS_TIME").expect(0)
    host.acnspawn("start-app", "box", "later").expect(0)
    equal(capabilities_of(host, "later") & (time_bit | nice_bit), time_bit)
    stopped(host)


@case
def a_pod_keeps_the_capabilities_of_its_first_apps_when_they_have_gone(host):
    time_bit = 1 << 25
    image = host.shell("exec sleep 1000", name="example.com/app")
    box(host, image, "--caps-retain=CAP_SYS_TIME")
    host.acnspawn("stop-app", "box", "app").expect(0)
    host.acnspawn("rm-app", "box", "app").expect(0)
    contains(host.acnspawn("add-app", "box", image, "--caps-retain=CAP_SYS_NICE").expect(1).err, "App app requires CAP_SYS_NICE")
    host.acnspawn("add-app", "box", image, "--caps-retain=CAP_SYS_TIME").expect(0)
    host.acnspawn("start-app", "box", "app").expect(0)
    equal(capabilities_of(host, "app"), time_bit)
    stopped(host)


@case
def devices_are_those_of_each_app(host):
    """They are not bounded by the pod: an app that is added may have others than the first apps."""
    image = host.shell("exec sleep 1000", name="example.com/app")
    box(host)
    host.acnspawn("add-app", "box", image, "--device=/dev/null:/dev/extra", "--name=with").expect(0)
    host.acnspawn("add-app", "box", image, "--name=without").expect(0)
    for app, rc in (("with", 0), ("without", 1)):
        host.acnspawn("start-app", "box", app).expect(0)
        equal(host.acnspawn("enter", "--app=" + app, "box", "test", "-c", "/dev/extra").rc, rc, app)
    stopped(host)


@case
def it_is_run_again(host):
    first = box(host, "--sysctl=%s=78" % TTL)
    stopped(host)
    host.acnspawn("run", "--detach", "box").expect(0)
    s = host.status("box")
    equal((s["predecessor"], s["state"], s["exitPolicy"], s["apps"]), (first, "running", "never", []))
    equal(of_namespaces(host, "box", "/proc/sys/net/ipv4/ip_default_ttl").strip(), "78")
    equal(stopped(host)["exitStatus"], 0)
    host.acnspawn("run", "--detach", "--images=resolve", "box").expect(0)
    stopped(host)


@case
def pod_manifests_without_apps(host):
    path = host.path("pod.json")
    with open(path, "w") as f:
        json.dump({"acVersion": "0.8.11", "acKind": "PodManifest", "apps": [],
                   "isolators": [{"name": "os/unix/sysctl", "value": {TTL: "79"}}]}, f)
    r = host.acnspawn("run", "--pod-manifest=" + path).expect(1)
    contains(r.err, "A pod needs at least one app, and none was given.")
    contains(r.err, "With --exit-policy=never or tasks a pod can be without apps.")
    equal(host.pods(), [], "pods")
    host.acnspawn("validate", path).expect(0)
    uuid = box(host, "--pod-manifest=" + path)
    equal(of_namespaces(host, uuid, "/proc/sys/net/ipv4/ip_default_ttl").strip(), "79")
    stopped(host)
    host.acnspawn("run", "--detach", "box").expect(0)
    stopped(host)


@case
def other_policies_need_an_app(host):
    for policy in "on-failure", "all", "any":
        for verb in "prepare", "run":
            r = host.acnspawn(verb, "--exit-policy=" + policy).expect(2)
            contains(r.err, "for a pod without apps, --exit-policy=never")
    contains(host.acnspawn("run", "--exit-policy=never", "--exit-idle-time=1s").expect(2).err, "it ends only when it is stopped")
    contains(host.acnspawn("prepare", "--exit-policy=never", "--port=http:8080").expect(1).err, "no app has a port of that name")
    equal(host.pods(), [], "pods")


@case
def a_start_that_takes_too_long_is_told(host):
    r = host.acnspawn("run", "--detach", "--exit-policy=never", "--name=box", "--ready-timeout=1us").expect(1)
    contains(r.err, "Pod box was not ready in time")


# --- With apps -----------------------------------------------------------------------------------------------------------

@case
def it_stays_when_its_apps_have_ended(host):
    host.acnspawn("run", "--detach", "--name=box", "--exit-policy=never", host.shell("exit 0", name="example.com/good"), "---",
                  host.shell("exit 3", name="example.com/bad"), "---",
                  host.shell("kill -9 $$", name="example.com/ugly")).expect(0)
    wait_for(lambda: all(a["state"] == "ended" for a in host.status("box")["apps"]), "the ends of the apps")
    host.wait_at_rest("box")
    equal(host.state("box"), "running")
    equal([host.app_status("box", a)["exitStatus"] for a in ("good", "bad")], [0, 3])
    equal(host.acnspawn("wait", "box", "bad").expect(3).out, "")
    host.acnspawn("restart-app", "box", "bad").expect(0)
    wait_for(lambda: host.app_status("box", "bad")["starts"] == 2 and host.app_status("box", "bad")["state"] == "ended", "the second end")
    equal(host.state("box"), "running")
    s = stopped(host)
    equal((s["exitStatus"], s["state"]), (0, "exited"))


@case
def an_app_that_cannot_be_executed_does_not_fail_the_start(host):
    r = host.acnspawn("run", "--detach", "--name=box", "--exit-policy=never", host.image(["nosuch"], name="example.com/a")).expect(0)
    contains(r.err, "Warning: Pod box is up, but: app a could not be started")
    equal(stopped(host)["exitStatus"], 0)


@case
def apps_that_are_given_up_leave_it(host):
    host.acnspawn("run", "--detach", "--name=box", "--exit-policy=never", host.shell("exit 1", name="example.com/a"), "--restart=always",
                  "--restart-delay=10ms", "--restart-limit=2").expect(0)
    wait_for(lambda: host.app_status("box", "a")["starts"] == 3 and host.app_status("box", "a")["state"] == "ended", "the last end")
    host.wait_at_rest("box")
    equal(host.state("box"), "running")
    equal(stopped(host)["exitStatus"], 0)


@case
def running_apps_are_stopped_with_it(host):
    host.acnspawn("run", "--detach", "--name=box", "--exit-policy=never", host.shell(FOREVER.replace("exit 0", "exit 7"), name="example.com/a")).expect(0)
    host.wait_up("a")
    s = stopped(host)
    equal((s["exitStatus"], s["apps"][0]["exitStatus"]), (0, 7))


main()
