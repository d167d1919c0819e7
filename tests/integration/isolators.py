#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Isolators: each is reported as enforced, modified or ignored, and those reported as enforced are in effect."""

import resource

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
def memory_limit_is_enforced_or_reported_as_ignored(host):
    """Either the process is killed and the record shows it, or the verdict is "ignored"."""
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
    """Set before the first app runs, in each kind of namespace, with and without private users; those of the host are
    unchanged."""
    own = {"net/ipv4/ip_forward": "1", "net/ipv4/tcp_keepalive_time": "321", "kernel/shmmax": "123456789", "kernel/msgmax": "4321",
           "kernel/sem": "250\t1000\t32\t100", "fs/mqueue/msg_max": "17", "kernel/domainname": "example.org",
           "kernel/hostname": "elsewhere"}
    before = {k: read_text("/proc/sys/" + k).strip() for k in own}
    values = {k.replace("/", "."): v for k, v in own.items()}
    script = "; ".join("cat /proc/sys/" + k for k in own)
    for number, option in enumerate(("--hostname=h", "--no-userns")):
        r = host.run(option, "--name=p%d" % number, limited(host, script), *("--sysctl=%s=%s" % i for i in values.items()))
        equal(r.out.splitlines(), list(own.values()), "parameters with " + option)
        equal(verdicts(host, "p%d" % number)["os/unix/sysctl"]["verdict"], "enforced")
        equal({k: read_text("/proc/sys/" + k).strip() for k in own}, before, "the host's parameters")


@case
def kernel_parameters_of_the_host_are_refused_by_name(host):
    """... also if the operator asks for them."""
    image = limited(host, "true")
    for option, value, why in (
            ("--hostname=h", "kernel.panic=1", "kernel.panic, which is the host's"),
            ("--hostname=h", "kernel.core_pattern=|/x", "kernel.core_pattern, which is the host's"),
            ("--hostname=h", "vm.overcommit_memory=1", "vm.overcommit_memory, which is the host's"),
            ("--net=host", "net.ipv4.ip_forward=1", "net.ipv4.ip_forward, but the pod is in the host's network")):
        contains(host.acnspawn("prepare", option, image, "--sysctl=" + value).expect(1).err, why)
        contains(host.acnspawn("prepare", option, "--sysctl=" + value, image).expect(1).err, why)
    one = host.shell("true", name="example.com/one", app={"isolators": [sysctl(kernel__shmmax="1")]})
    two = host.shell("true", name="example.com/two", app={"isolators": [sysctl(kernel__shmmax="2")]})
    contains(host.acnspawn("prepare", one, "--grant=all", two, "--grant=all").expect(1).err,
             "App two sets the kernel parameter kernel.shmmax to '2'")
    equal(host.pods(), [], "pods")


@case
def grants_of_what_is_not_requested_cause_warnings(host):
    plain, asks = limited(host, "true"), host.shell("true", name="example.com/b", app={"isolators": [isolator("os/linux/capabilities-retain-set", set=["CAP_NET_ADMIN"])]})
    r = host.acnspawn("prepare", plain, "--grant=CAP_NET_ADMIN,seccomp").expect(0)
    contains(r.err, "App a: --grant=CAP_NET_ADMIN has no effect: its image does not ask for that; --caps-retain= says which capabilities it has")
    contains(r.err, "App a: --grant=seccomp has no effect: its image does not ask for that\n")
    r = host.acnspawn("prepare", asks, "--grant=CAP_NET_ADMIN,CAP_SYS_TIME").expect(0)
    lacks(r.err, "CAP_NET_ADMIN")
    contains(r.err, "CAP_SYS_TIME has no effect")
    for words in ["--grant=all"], ["--grant=none"], ["--grant=CAP_NET_ADMIN", "--caps-retain=CAP_NET_ADMIN"]:
        lacks(host.acnspawn("prepare", asks, *words).expect(0).err, "has no effect")


@case
def a_kernel_parameter_that_cannot_be_set_keeps_the_app_from_starting(host):
    r = host.acnspawn("run", "--name=p", limited(host, "echo ran"), "--sysctl=net.ipv4.no_such_thing=1")
    true(r.rc != 0, "the pod ended well")
    lacks(r.out, "ran")
    contains(r.err, "Cannot set the kernel parameter net/ipv4/no_such_thing of the pod to '1'")


@case
def scores_below_zero_are_set_from_outside(host):
    for number, option in enumerate(("--hostname=h", "--no-userns")):
        r = host.run(option, "--name=p%d" % number, limited(host, "cat /proc/self/oom_score_adj", {"name": "os/linux/oom-score-adj", "value": -321}),
                     "--grant=oom-score-adj")
        if verdicts(host, "p%d" % number)["os/linux/oom-score-adj"]["verdict"] == "enforced":
            equal(r.out.strip(), "-321", "score with " + option)


@case
def labels_of_security_modules(host):
    """If the module is not active the label is ignored, which is reported; else a profile that is not loaded is
    refused."""
    image = limited(host, "echo ran", {"name": "os/linux/apparmor-profile", "value": "acnspawn-test-no-such-profile"})
    if os.path.exists("/sys/kernel/security/apparmor/profiles"):
        contains(host.acnspawn("prepare", image, "--grant=all").expect(1).err, "AppArmor profile acnspawn-test-no-such-profile, which is not loaded")
    elif not os.path.exists("/sys/module/apparmor"):
        contains(host.run("--name=p", image, "--grant=all").out, "ran")
        i = verdicts(host)["os/linux/apparmor-profile"]
        equal((i["verdict"], i["detail"]), ("ignored", "AppArmor is not active on this host"))
    if not os.path.exists("/sys/fs/selinux/enforce"):
        host.run("--name=q", limited(host, "true", isolator("os/linux/selinux-context", user="u", role="r", type="t", level="l")), "--grant=all")
        i = verdicts(host, "q")["os/linux/selinux-context"]
        equal((i["verdict"], i["detail"]), ("ignored", "SELinux is not active on this host"))


@case
def strict_refuses_what_is_not_enforced(host):
    """By name, with the reason, all of them; by prepare, by run, and when a pod is run that was prepared with the
    option."""
    bad = limited(host, "echo ran", {"name": "example.com/one", "value": 1}, {"name": "example.com/two", "value": 1})
    good = host.shell("echo ran", name="example.com/good", app={"isolators": [{"name": "os/linux/no-new-privileges", "value": True}]})
    for verb in "prepare", "run":
        r = host.acnspawn(verb, "--strict", bad).expect(1)
        equal(r.out, "")
        for name in "example.com/one", "example.com/two":
            contains(r.err, name + " of app a would be ignored: there is no isolator of this name")
    equal(host.pods(), [], "pods")
    uuid = host.prepare(bad)
    contains(host.acnspawn("run", "--strict", uuid).expect(1).err, "example.com/one")
    equal(host.state(uuid), "prepared")
    contains(host.run(uuid).out, "ran")
    contains(host.run("--strict", good).out, "ran")
    contains(host.run(host.prepare("--strict", good)).out, "ran")


@case
def isolators_without_effect_are_not_enforced(host):
    """No filter, no flag, no profile: the verdict says "off", and --strict refuses them."""
    image = host.image(["/bin/show"], name="example.com/a")
    for option, detail in (("--seccomp=mode=retain,@appc.io/all", "no filter and may make every system call"),
                           ("--isolator=os/linux/no-new-privileges=false", "the flag is not set")):
        uuid = host.prepare(image, option)
        found = host.status(uuid)["isolators"]
        equal([i["verdict"] for i in found], ["off"], "verdict with " + option)
        contains(found[0]["detail"], detail)
        contains(host.acnspawn("status", uuid).expect(0).out, "off, ")
        contains(host.acnspawn("prepare", "--strict", image, option).expect(1).err, "of app a would be off: ")
    # Modified: a set without the system calls that every process needs.
    r = host.acnspawn("prepare", "--strict", image, "--seccomp=mode=retain,read").expect(1)
    contains(r.err, "os/linux/seccomp-retain-set of app a would be modified: the launcher filters the app's system calls; "
             "the calls that every process needs are allowed as well (@systemd/default)")
    host.prepare("--strict", image, "--seccomp=mode=retain,read,@systemd/default")
    host.prepare("--strict", image, "--seccomp=mode=remove,reboot")


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
def libraries_are_loaded_for_pods_that_need_them(host):
    """libcap-ng only for a set of capabilities, in a pod as in an app; libsystemd for no preparation."""
    libraries = host.path("libraries")
    os.mkdir(libraries)
    for name in "libcap-ng.so.0", "libsystemd.so.0":
        open(os.path.join(libraries, name), "w").close()
    env = dict(os.environ, LD_LIBRARY_PATH=libraries)
    plain = limited(host, "true", {"name": "resource/memory", "value": {"limit": "1G"}})
    narrow = {"name": "os/linux/capabilities-remove-set", "value": {"set": ["CAP_KILL"]}}
    host.prepare(plain, env=env)
    contains(host.acnspawn("image", "show", "example.com/a", env=env).expect(0).out, "example.com/a")
    before = host.pods()
    for words, status in ([limited(host, "true", narrow)], 1), ([plain, "--caps-remove=CAP_KILL"], 2):
        r = host.acnspawn("prepare", *words, env=env).expect(status)
        contains(r.err, "Cannot load a library that is needed for ")
        contains(r.err, "libcap-ng.so.0")
        contains(r.err, "On Debian it is in the package libcap-ng0.")
        equal(host.pods(), before, "pods")


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
    """The other app responds and ends while one forks continuously (within the limits of the machine)."""
    bomb = host.shell("i=0; while test $i -lt 300; do sleep 30 & i=$((i+1)); done; wait", name="example.com/bomb")
    calm = host.shell("for i in 1 2 3 4 5; do echo $i; sleep 0.1; done", name="example.com/calm")
    start = time.monotonic()
    host.acnspawn("run", "--name=p", "--exit-policy=any", "--stop-timeout=3s", bomb, calm)
    true(time.monotonic() - start < patience(25), "took %.1f s" % (time.monotonic() - start))
    equal(host.app_status("p", "calm")["exitStatus"], 0)
    equal(host.processes(), [], "processes")


def tasks_default(host, app, pod="p"):
    found = [d for d in host.status(pod)["defaults"] if d["app"] == app and d["name"] == "resource/tasks"]
    equal(len(found), 1, "defaults of %s" % app)
    return found[0]


def without_pids_controller(host, *args):
    """If no hierarchy of version 1 has it: the file systems mounted there are hidden."""
    for mount in "/sys/fs/cgroup/pids",:
        if not os.path.isdir(mount):
            raise Skip("there is no hierarchy at %s to hide" % mount)
    argv = host.argv(*args)
    r = subprocess.run(["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /sys/fs/cgroup/pids && exec \"$@\"", "sh"] + argv,
                       stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RUN_TIMEOUT)
    host.note_pods()
    return r


def needs_pids_controller(verdict):
    if verdict["verdict"] != "enforced":
        contains(verdict["detail"], "this host has no cgroup controller 'pids' for pods")
        raise Skip("this host has no pids controller")


BOMB = "exec poke bomb 3"
# Answers only if it can fork, all the time.
CALM = "i=0; while test $i -lt 30; do /bin/true || exit 3; i=$((i+1)); sleep 0.1; done; echo calm"


@case
def fork_bomb_has_its_own_limit(host):
    """The bomb is limited; the other app, of the same user, can still fork."""
    bomb, calm = host.shell(BOMB, name="example.com/bomb"), host.shell(CALM, name="example.com/calm")
    r = host.acnspawn("run", "--name=p", "--exit-policy=all", bomb, "--tasks-max=40", "---", calm)
    verdict = verdicts(host, app="bomb")["resource/tasks"]
    needs_pids_controller(verdict)
    equal(verdict["detail"], "the app at most 40 processes and threads")
    equal(re.findall(r"most (\d+)", r.out), ["40"], "processes of the bomb")
    equal(host.app_status("p", "calm")["exitStatus"], 0, "the other app")
    contains(r.out, "calm")


@case
def fork_bomb_without_a_controller(host):
    """Users of the pod are limited: the bomb is bounded, and an app that does not fork responds; status shows which
    limit it is."""
    bomb = host.shell(BOMB, name="example.com/bomb")
    calm = host.shell("i=0; while test $i -lt 100000; do i=$((i+1)); done; echo calm", name="example.com/calm")
    r = without_pids_controller(host, "run", "--name=p", "--exit-policy=all", bomb, "--tasks-max=40", "---", calm)
    contains(r.stdout, "calm")
    most = int(re.search(r"most (\d+)", r.stdout)[1])
    true(20 <= most <= 40, "the bomb had %d processes" % most)
    equal(host.app_status("p", "calm")["exitStatus"], 0, "the other app")
    report = without_pids_controller(host, "prepare", "--dry-run", "--json=short", bomb, "--tasks-max=40")
    plan = json.loads(report.stdout)["isolators"]
    equal([i["verdict"] for i in plan], ["modified"])
    contains(plan[0]["detail"], "each user of the pod at most 40 processes and threads, in all apps together")
    r = without_pids_controller(host, "run", "--strict", bomb, "--tasks-max=40")
    equal(r.returncode, 1)
    contains(r.stderr, "resource/tasks of app bomb would be modified: each user of the pod")


@case
def processes_are_limited_by_default(host):
    """For an app, and for all apps of a pod; status shows it, and an option removes the limit."""
    image = host.shell("exec poke forks 2300", name="example.com/a")
    r = host.run("--name=p", image)
    limit = tasks_default(host, "a")
    needs_pids_controller(limit)
    equal(limit["detail"], "the app at most 2048 processes and threads")
    equal(tasks_default(host, None)["detail"], "all apps together at most 8192 processes and threads")
    contains(r.out, "made 2047\n")
    out = host.acnspawn("status", "p").expect(0).out
    contains(out, "Defaults: pod resource/tasks: enforced, all apps together at most 8192 processes and threads\n")
    contains(out, "a resource/tasks: enforced, the app at most 2048 processes and threads\n")
    r = host.run("--name=q", image, "--tasks-max=infinity")
    contains(r.out, "made 2300\n")
    equal(verdicts(host, "q")["resource/tasks"]["verdict"], "off")
    equal(verdicts(host, "q")["resource/tasks"]["detail"], "as many processes and threads as the host has")
    equal([d["app"] for d in host.status("q")["defaults"] if d["name"] == "resource/tasks"], [None])


@case
def an_image_does_not_lift_its_limit_of_processes(host):
    greedy = limited(host, "exec poke forks 2100", isolator("resource/tasks", limit="5000"))
    contains(host.acnspawn("run", greedy).expect(1).err, "tasks-max")
    r = host.run("--name=p", greedy, "--grant=none")
    needs_pids_controller(tasks_default(host, "a"))
    contains(r.out, "made 2047\n")
    contains(host.run("--rm", greedy, "--grant=tasks-max").out, "made 2100\n")
    contains(host.run("--rm", limited(host, "exec poke forks 60", isolator("resource/tasks", limit="50"))).out, "made 49\n")


@case
def processes_of_all_apps_together(host):
    image = host.shell("exec poke forks 50", name="example.com/a")
    r = host.run("--name=p", "--tasks-max=30", "--exit-policy=all", image, "--name=a", "---", host.shell("exec poke forks 50; sleep 1"), "--name=b")
    needs_pids_controller(verdicts(host, app=None)["resource/tasks"])
    for made in re.findall(r"made (\d+)", r.out):
        true(int(made) <= 29, "an app made %s" % made)


@case
def invalid_numbers_of_processes(host):
    image = host.shell("true", name="example.com/a")
    for value in "0", "-1", "unlimited", "max":
        r = host.acnspawn("run", image, "--tasks-max=" + value).expect(2)
        contains(r.err, "must be a whole number, or infinity")
        contains(r.err, "For no limit: --tasks-max=infinity")
    for value in "many", "1.5", "2K":
        contains(host.acnspawn("run", image, "--tasks-max=" + value).expect(2).err, "must be a whole number, or infinity")
    contains(host.acnspawn("run", image, "--pids-limit=5").expect(2).err, "--tasks-max")
    contains(host.acnspawn("prepare", limited(host, "true", isolator("resource/tasks", limit="0"))).expect(1).err, "must be greater than 0")
    contains(host.acnspawn("prepare", limited(host, "true", isolator("resource/tasks", request="5"))).expect(1).err, "is not supported")


@case
def limits_are_those_of_services(host):
    """Regardless of the limits of the calling shell; a higher limit than that of acnspawn itself cannot be set."""
    def lowered():
        for which, soft in ((resource.RLIMIT_NOFILE, 333), (resource.RLIMIT_CORE, 4096), (resource.RLIMIT_MEMLOCK, 4096)):
            resource.setrlimit(which, (soft, resource.getrlimit(which)[1]))
    image = host.shell("cat /proc/self/limits", name="example.com/a")
    r = host.acnspawn("run", image, preexec_fn=lowered).expect(0)
    found = {line[:26].strip(): line[26:].split()[:2] for line in r.out.splitlines()}
    hard = min(524288, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    equal(found["Max open files"], ["1024", str(hard)])
    equal(found["Max locked memory"], ["8388608", "8388608"])
    equal(found["Max core file size"][0], "0")


@case
def all_capabilities_can_be_removed(host):
    host.run(host.image(["/bin/show"], name="example.com/a"), "--caps-remove=all")
    for field in "CapBnd", "CapEff", "CapPrm", "CapInh", "CapAmb":
        equal(int(host.show("a").status_field(field), 16), 0, field)


@case
def ignored_isolators_of_options_cause_warnings(host):
    """... by an option; isolators of an image may be intended for other hosts."""
    image = host.shell("true", name="example.com/a", app={"isolators": [{"name": "example.com/other", "value": {}}]})
    r = host.acnspawn("run", "--isolator=example.com/all={}", image, "--isolator=example.com/one={}").expect(0)
    contains(r.err, "Warning: example.com/one of app a will be ignored: ", "warnings")
    contains(r.err, "Warning: example.com/all of the pod will be ignored: ", "warnings")
    lacks(r.err, "example.com/other", "warnings")
    equal(host.acnspawn("run", image).expect(0).err, "", "warnings")
    equal(host.acnspawn("prepare", "--dry-run", image, "--isolator=example.com/one={}").expect(0).err, "", "warnings")


@case
def isolators_of_options_that_are_ignored_cause_warnings_when_apps_are_added(host):
    image = host.shell("touch /out/up; sleep 1000", name="example.com/a", app={"isolators": [{"name": "example.com/other", "value": {}}]})
    host.acnspawn("run", "--detach", "--exit-policy=never", "--name=p").expect(0)
    one = [image, "--name=b", "--isolator=example.com/one={}"]
    for line in ["add-app", "p", *one], ["launch-group", "p", *one, "---", image, "--name=c"]:
        r = host.acnspawn(*line).expect(0)
        contains(r.err, "Warning: example.com/one of app b will be ignored: ", line[0])
        equal(r.err.count("will be ignored"), 1, line[0])
        host.acnspawn("rm-app", "--force", "p", *r.out.split()).expect(0)
    host.acnspawn("stop", "p").expect(0)


main()
