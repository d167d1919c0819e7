#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Isolators: every one is reported as enforced, modified or ignored, and what is reported as enforced is in force."""

from harness import *


def isolator(name, **value):
    return {"name": name, "value": value}


def verdicts(host, pod="p", app="a"):
    return {i["name"]: i for i in host.status(pod)["isolators"] if i["app"] == app}


def limited(host, script, *isolators, **more):
    return host.shell(script, name="example.com/a", app={"isolators": list(isolators), **more})


@case
def every_isolator_is_reported(host):
    isolators = [
        isolator("resource/memory", limit="64Mi"), isolator("resource/cpu", limit="500m", request="100m"),
        isolator("resource/block-bandwidth", limit="1M", default=True), isolator("resource/block-iops", limit="100", default=True),
        isolator("resource/network-bandwidth", limit="1M", default=True), {"name": "os/linux/no-new-privileges", "value": True},
        {"name": "os/linux/oom-score-adj", "value": 300}, {"name": "os/linux/cpu-shares", "value": 512},
        isolator("os/linux/capabilities-retain-set", set=["CAP_KILL"]),
        {"name": "example.com/unheard-of", "value": {"anything": [1, 2, 3]}},
    ]
    host.run("--name=p", limited(host, "true", *isolators))
    found = verdicts(host)
    equal(sorted(found), sorted(i["name"] for i in isolators), "isolators reported")
    for name, i in found.items():
        true(i["verdict"] in ("enforced", "modified", "ignored"), "verdict of %s is %r" % (name, i["verdict"]))
        if i["verdict"] != "enforced":
            true(i["detail"], "no reason why %s is %s" % (name, i["verdict"]))
    equal(found["example.com/unheard-of"]["verdict"], "ignored")
    equal(found["resource/network-bandwidth"]["verdict"], "enforced")  # there is only loopback, which has no limits
    equal(found["os/linux/capabilities-retain-set"]["verdict"], "enforced")
    equal(found["os/linux/no-new-privileges"]["verdict"], "enforced")


@case
def ignored_isolators_are_seen_in_the_text_too(host):
    host.run("--name=p", limited(host, "true", {"name": "example.com/unheard-of", "value": 1}))
    out = host.acnspawn("status", "p").expect(0).out
    contains(out, "example.com/unheard-of")
    contains(out, "ignored")


@case
def memory_limit_is_enforced_or_said_not_to_be(host):
    """The honest answer: either the hog is killed and the record says so, or the verdict is "ignored"."""
    r = host.acnspawn("run", "--name=p", limited(host, "exec poke memory 200", isolator("resource/memory", limit="32Mi")))
    verdict = verdicts(host)["resource/memory"]["verdict"]
    app = host.app_status("p", "a")
    if verdict == "enforced":
        equal((app["cause"], app["signal"], r.rc), ("oom-kill", 9, 137))
    else:
        equal(verdict, "ignored")
        equal(r.rc, 0)
        contains(r.out, "have 200 MB")


@case
def limit_of_the_command_line_replaces_the_images(host):
    image = limited(host, "true", isolator("resource/memory", limit="32Mi"))
    uuid = host.prepare(image, "--memory=64Mi")
    manifest = json.loads(host.acnspawn("cat-manifest", uuid).expect(0).out)
    limits = [i["value"]["limit"] for i in manifest["apps"][0]["app"]["isolators"] if i["name"] == "resource/memory"]
    equal(limits, ["64Mi"])


@case
def no_new_privileges(host):
    host.run(host.image(["/bin/show"], name="example.com/a",
                        app={"isolators": [{"name": "os/linux/no-new-privileges", "value": True}]}))
    equal(host.show("a").status_field("NoNewPrivs"), "1")


@case
def oom_score(host):
    host.run("--name=p", host.image(["/bin/show"], name="example.com/a",
                                    app={"isolators": [{"name": "os/linux/oom-score-adj", "value": 300}]}))
    if verdicts(host)["os/linux/oom-score-adj"]["verdict"] == "enforced":
        equal(host.show("a").oom_score_adj.strip(), "300")


def sysctl(**values):
    return {"name": "os/unix/sysctl", "value": {k.replace("__", "."): v for k, v in values.items()}}


@case
def kernel_parameters_are_the_pods_and_only_its(host):
    """Set before the first app runs, in each kind of namespace, with and without private users; the host keeps its own."""
    own = {"net/ipv4/ip_forward": "1", "net/ipv4/tcp_keepalive_time": "321", "kernel/shmmax": "123456789", "kernel/msgmax": "4321",
           "kernel/sem": "250\t1000\t32\t100", "fs/mqueue/msg_max": "17", "kernel/domainname": "example.org",
           "kernel/hostname": "elsewhere"}
    before = {k: read_text("/proc/sys/" + k).strip() for k in own}
    values = {k.replace("/", "."): v for k, v in own.items()}
    script = "; ".join("cat /proc/sys/" + k for k in own)
    for number, option in enumerate(("--hostname=h", "--no-userns")):
        r = host.run(option, "--name=p%d" % number, limited(host, script, {"name": "os/unix/sysctl", "value": values}))
        equal(r.out.splitlines(), list(own.values()), "parameters with " + option)
        equal(verdicts(host, "p%d" % number)["os/unix/sysctl"]["verdict"], "enforced")
        equal({k: read_text("/proc/sys/" + k).strip() for k in own}, before, "the host's parameters")


@case
def kernel_parameters_of_the_host_are_refused_by_name(host):
    for option, values, why in (
            ("--hostname=h", sysctl(kernel__panic="1"), "kernel.panic, which is the host's"),
            ("--hostname=h", sysctl(vm__overcommit_memory="1"), "vm.overcommit_memory, which is the host's"),
            ("--net=host", sysctl(net__ipv4__ip_forward="1"), "net.ipv4.ip_forward, but the pod is in the host's network")):
        contains(host.acnspawn("prepare", option, limited(host, "true", values)).expect(1).err, why)
    one = host.shell("true", name="example.com/one", app={"isolators": [sysctl(kernel__shmmax="1")]})
    two = host.shell("true", name="example.com/two", app={"isolators": [sysctl(kernel__shmmax="2")]})
    contains(host.acnspawn("prepare", one, two).expect(1).err, "App two wants the kernel parameter kernel.shmmax to be '2'")
    equal(host.pods(), [], "pods")


@case
def a_kernel_parameter_that_cannot_be_set_keeps_the_app_from_starting(host):
    r = host.acnspawn("run", "--name=p", limited(host, "echo ran", sysctl(net__ipv4__no_such_thing="1")))
    true(r.rc != 0, "the pod ended well")
    lacks(r.out, "ran")
    contains(r.err, "Cannot set the kernel parameter net/ipv4/no_such_thing of the pod to '1'")


@case
def scores_below_zero_are_set_from_outside(host):
    for number, option in enumerate(("--hostname=h", "--no-userns")):
        r = host.run(option, "--name=p%d" % number, host.shell("cat /proc/self/oom_score_adj", name="example.com/a",
                                                              app={"isolators": [{"name": "os/linux/oom-score-adj", "value": -321}]}))
        if verdicts(host, "p%d" % number)["os/linux/oom-score-adj"]["verdict"] == "enforced":
            equal(r.out.strip(), "-321", "score with " + option)


@case
def labels_of_security_modules(host):
    """Where the module is not active the label is left aside, and that is said; where it is, a profile that is not loaded is
    refused."""
    image = limited(host, "echo ran", {"name": "os/linux/apparmor-profile", "value": "acnspawn-test-no-such-profile"})
    if os.path.exists("/sys/kernel/security/apparmor/profiles"):
        contains(host.acnspawn("prepare", image).expect(1).err, "AppArmor profile acnspawn-test-no-such-profile, which is not loaded")
    elif not os.path.exists("/sys/module/apparmor"):
        contains(host.run("--name=p", image).out, "ran")
        i = verdicts(host)["os/linux/apparmor-profile"]
        equal((i["verdict"], i["detail"]), ("ignored", "AppArmor is not active on this host"))
    if not os.path.exists("/sys/fs/selinux/enforce"):
        host.run("--name=q", limited(host, "true", isolator("os/linux/selinux-context", user="u", role="r", type="t", level="l")))
        i = verdicts(host, "q")["os/linux/selinux-context"]
        equal((i["verdict"], i["detail"]), ("ignored", "SELinux is not active on this host"))


@case
def strict_refuses_what_is_not_enforced(host):
    """By name, with the reason, all of them; at prepare, at run, and at the run of a pod that was prepared so."""
    bad = limited(host, "echo ran", {"name": "example.com/one", "value": 1}, {"name": "example.com/two", "value": 1})
    good = host.shell("echo ran", name="example.com/good", app={"isolators": [{"name": "os/linux/no-new-privileges", "value": True}]})
    for verb in "prepare", "run":
        r = host.acnspawn(verb, "--strict", bad).expect(1)
        equal(r.out, "")
        for name in "example.com/one", "example.com/two":
            contains(r.err, name + " of app a would be ignored: no isolator of this name is known")
    equal(host.pods(), [], "pods")
    uuid = host.prepare(bad)
    contains(host.acnspawn("run", "--strict", uuid).expect(1).err, "example.com/one")
    equal(host.state(uuid), "prepared")
    contains(host.run(uuid).out, "ran")
    contains(host.run("--strict", good).out, "ran")
    contains(host.run(host.prepare("--strict", good)).out, "ran")


@case
def dry_run_shows_and_makes_nothing(host):
    image = limited(host, "true", {"name": "example.com/one", "value": 1}, {"name": "os/linux/oom-score-adj", "value": 5})
    args = ["--dry-run", "--volume=v,kind=empty", image, "--mount=v:/data"]
    r = host.acnspawn("prepare", *args).expect(0)
    for word in "APP", "example.com/a", "VOLUME", "empty", "ISOLATOR", "example.com/one", "ignored", "enforced":
        contains(r.out, word)
    plan = json.loads(host.acnspawn("prepare", "--json=short", *args).expect(0).out)
    equal([a["name"] for a in plan["apps"]], ["a"])
    equal(plan["volumes"], [{"name": "v", "kind": "empty", "source": None}])
    equal([(i["app"], i["name"], i["verdict"]) for i in plan["isolators"]],
          [("a", "example.com/one", "ignored"), ("a", "os/linux/oom-score-adj", "enforced")])
    contains(host.acnspawn("prepare", "--strict", *args).expect(1).err, "example.com/one")
    contains(host.acnspawn("prepare", "--uuid-file=" + host.path("u"), *args).expect(2).err, "--dry-run")
    equal(host.pods(), [], "pods")


@case
def options_are_measured_inside(host):
    """Capabilities and flags read back from /proc; a system call that was removed gives its error, or kills."""
    image = host.image(["/bin/show"], name="example.com/a")
    host.run(image, "--caps-retain=kill,chown", "--no-new-privileges", "--oom-score-adj=123", "--sysctl=kernel.msgmax=777")
    show = host.show("a")
    equal(show.capabilities("Bnd"), frozenset(("KILL", "CHOWN")))
    equal((show.status_field("NoNewPrivs"), show.oom_score_adj.strip()), ("1", "123"))
    script = "mkdir /out/x; echo status $?"
    r = host.run("--name=e", host.shell(script, name="example.com/b"), "--seccomp=mode=remove,errno=EROFS,mkdir,mkdirat")
    contains(r.out + r.err, "Read-only file system")
    host.acnspawn("run", "--name=k", host.image(["/bin/mkdir", "/out/x"], name="example.com/c"), "--seccomp=mode=remove,mkdir,mkdirat")
    equal(host.app_status("k", "c")["signal"], int(signal.SIGSYS))


@case
def malformed_isolators_are_refused(host):
    for bad in (isolator("resource/memory", limit="lots"), isolator("resource/memory", limit="-1"),
                isolator("resource/cpu", limit="1e999"), {"name": "resource/memory", "value": None},
                isolator("os/linux/capabilities-retain-set", set=[]), {"name": "os/linux/oom-score-adj", "value": 99999}):
        r = host.acnspawn("prepare", limited(host, "true", bad)).expect(1)
        contains(r.err, "app.isolators[0]", "message")
    equal(host.pods(), [], "pods")


@case
def fork_bomb_does_not_take_the_neighbour_down(host):
    """The other app answers and ends while one forks a lot (within bounds that the machine bears)."""
    bomb = host.shell("i=0; while test $i -lt 300; do sleep 30 & i=$((i+1)); done; wait", name="example.com/bomb")
    calm = host.shell("for i in 1 2 3 4 5; do echo $i; sleep 0.1; done", name="example.com/calm")
    start = time.monotonic()
    host.acnspawn("run", "--name=p", "--exit-policy=any", "--stop-timeout=3s", bomb, calm)
    true(time.monotonic() - start < 25, "took %.1f s" % (time.monotonic() - start))
    equal(host.app_status("p", "calm")["exitStatus"], 0)
    equal(host.processes(), [], "processes")


@case
def all_capabilities_can_be_removed(host):
    host.run(host.image(["/bin/show"], name="example.com/a"), "--caps-remove=all")
    for field in "CapBnd", "CapEff", "CapPrm", "CapInh", "CapAmb":
        equal(int(host.show("a").status_field(field), 16), 0, field)


@case
def what_is_asked_for_and_ignored_is_warned_of(host):
    """... by an option; what an image has may be for other hosts."""
    image = host.shell("true", name="example.com/a", app={"isolators": [{"name": "example.com/other", "value": {}}]})
    r = host.acnspawn("run", "--isolator=example.com/all={}", image, "--isolator=example.com/one={}").expect(0)
    contains(r.err, "Warning: example.com/one of app a will be ignored: ", "warnings")
    contains(r.err, "Warning: example.com/all of the pod will be ignored: ", "warnings")
    lacks(r.err, "example.com/other", "warnings")
    equal(host.acnspawn("run", image).expect(0).err, "", "warnings")
    equal(host.acnspawn("prepare", "--dry-run", image, "--isolator=example.com/one={}").expect(0).err, "", "warnings")


main()
