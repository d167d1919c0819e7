#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""AppArmor in force: apps run in profiles loaded by the cases, which is checked from outside and inside. In a guest
without AppArmor (run.py --lsm=none) the profile is ignored, which is reported."""

import ctypes

from container_client import calls_from_inside
from harness import *

ACTIVE = "apparmor" in read_text("/sys/kernel/security/lsm").split(",")
NAME = "acnspawn-test"
LABEL = NAME + " (enforce)\n"
LOOK = "cat /proc/self/attr/current; cat /srv/secret 2>&1; true"
CAP_SYS_ADMIN, CAP_PERFMON, PR_CAPBSET_DROP = 21, 38, 24
# All files of an app except those in /srv. The rule for signals allows the pod's systemd to stop the app.
RULES = "capability, network, ptrace, / r, /*/ r, /{bin,dev,etc,out,proc,root,tmp}/** rwmlkix,"


def when(wanted):
    """Cases of the one kind of guest are none of the other's."""
    return case if ACTIVE == wanted else lambda function: function


def when_both(function):
    return both(function) if ACTIVE else function


@contextlib.contextmanager
def profile(name=NAME, head="", rules=RULES + " signal,"):
    """A profile, loaded for the duration of the context; HEAD: its attachment and flags."""
    text = "abi <abi/3.0>,\nprofile %s %s { %s }\n" % (name, head, rules)
    subprocess.run(["apparmor_parser", "--skip-cache", "--replace"], input=text, text=True, check=True, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        with open("/sys/kernel/security/apparmor/.remove", "w") as f:
            f.write(name)


def isolated(name=NAME):
    return {"isolators": [{"name": "os/linux/apparmor-profile", "value": name}]}


def looker(host, script=LOOK, app=None, **more):
    return host.shell(script, name="example.com/a", app=app, files={"srv/secret": "the secret\n"}, **more)


def verdict(host, pod):
    for i in host.status(pod)["isolators"]:
        if i["name"] == "os/linux/apparmor-profile":
            return i["verdict"], i["detail"]
    fail("the profile is not reported")


DENIED = "cat: can't open '/srv/secret': Permission denied\n"


@when_both
def an_app_runs_in_exactly_its_profile(host, *options):
    """By manifest and by option; without either there is no profile, and the otherwise denied file is accessible."""
    with profile():
        equal(host.run("--name=p", "--strict", *options, looker(host, app=isolated()), "--grant=all").out, LABEL + DENIED)
        equal(verdict(host, "p"), ("enforced", "the app is executed in the profile " + NAME))
        plain = looker(host)
        equal(host.run("--rm", "--strict", *options, plain, "--apparmor-profile=" + NAME).out, LABEL + DENIED)
        equal(host.run("--rm", *options, plain).out, "unconfined\nthe secret\n")
        plan = json.loads(host.acnspawn("prepare", "--dry-run", "--strict", "--json=short", *options, plain, "--apparmor-profile=" + NAME).expect(0).out)
        equal([i["verdict"] for i in plan["isolators"]], ["enforced"])


PROFILES = "/etc/apparmor.d/acnspawn-app"


@contextlib.contextmanager
def default_profiles():
    """Those that come with acnspawn, which an installation by hand does not load."""
    subprocess.run(["apparmor_parser", "--skip-cache", "--replace", PROFILES], check=True)
    try:
        yield
    finally:
        for name in "acnspawn-app", "acnspawn-app-mounts":
            with open("/sys/kernel/security/apparmor/.remove", "w") as f:
                f.write(name)


def default_verdict(host, pod):
    return [(d["verdict"], d["detail"]) for d in host.status(pod)["defaults"] if d["name"] == "os/linux/apparmor-profile"]


@contextlib.contextmanager
def no_denial_of(text):
    """In the kernel's log, which has another one at the end, that of a profile which is not there."""
    log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    lines = []
    def logged(last):
        with contextlib.suppress(BlockingIOError):
            while True:
                lines.append(os.read(log, 65536).decode(errors="replace"))
        return any(last in line for line in lines)
    try:
        os.lseek(log, 0, os.SEEK_END)
        yield
        last = "acnspawn-test-last-%d" % time.monotonic_ns()
        with contextlib.suppress(OSError), open("/proc/self/attr/exec", "w") as f:
            f.write("exec " + last)
        wait_for(lambda: logged(last), "the last denial", timeout=30)
        equal([line for line in lines if text in line], [])
    finally:
        os.close(log)


@when_both
def apps_have_a_profile_by_default(host, *options):
    """If it is loaded; if not, status shows that. An explicit profile takes precedence, and so does "none"."""
    image = looker(host)
    with no_denial_of('name="acnspawn-app'):
        equal(host.run("--name=p", *options, image).out, "unconfined\nthe secret\n")
    equal(default_verdict(host, "p"), [("ignored", "the profile acnspawn-app is not loaded on this host")])
    with default_profiles():
        equal(host.run("--name=q", *options, image).out, "acnspawn-app (enforce)\nthe secret\n")
        equal(default_verdict(host, "q"), [("enforced", "the app is executed in the profile acnspawn-app")])
        contains(host.acnspawn("status", "q").expect(0).out, "os/linux/apparmor-profile: enforced, the app is executed in the profile acnspawn-app\n")
        equal(host.run("--rm", *options, image, "--caps-retain=sys_admin").out, "acnspawn-app-mounts (enforce)\nthe secret\n")
        r = host.run("--name=u", *options, image, "--apparmor-profile=unconfined")
        equal(r.out, "unconfined\nthe secret\n")
        equal(default_verdict(host, "u"), [])
        with profile():
            equal(host.run("--rm", *options, image, "--apparmor-profile=" + NAME).out, LABEL + DENIED)


@when_both
def in_the_default_profile_everything_goes_on(host, *options):
    """Handlers, health checks, commands, terminals; signals from the pod's systemd and between processes of an app; and the end."""
    log = "{ cat /proc/self/attr/current; } >>/out/%s"
    script = ("trap 'echo stopped; exit 0' TERM; sleep 1000 & kill -0 $!; echo child $?; ls -l /proc/$!/exe >/dev/null; echo look $?; "
              "touch /out/up; while :; do sleep 0.1; done")
    app = {"eventHandlers": [{"name": n, "exec": ["/bin/sh", "-c", log % n]} for n in ("pre-start", "post-stop")]}
    with default_profiles():
        uuid = host.detach("--name=p", *options, looker(host, script, app=app), "--health-cmd=" + log % "health", "--health-interval=1s")
        host.wait_up("a")
        equal(host.acnspawn("enter", "p", "sh", "-c", "cat /proc/self/attr/current; kill -0 1; cat /proc/1/environ | wc -c").expect(0).out[:23],
              "acnspawn-app (enforce)\n")
        wait_for(lambda: os.path.exists(host.upper("a", host.pod_dir(uuid)) + "/out/health"), "a health check", timeout=60)
        host.acnspawn("stop", "p").expect(0)
        equal((host.app_status("p", "a")["cause"], host.app_status("p", "a")["exitStatus"]), ("exited", 0))
        out = host.acnspawn("logs", uuid).expect(0).out
        for line in "child 0", "look 0", "stopped":
            contains(out, line + "\n")
        for name in "pre-start", "post-stop", "health":
            contains(host.written("a", "out/" + name, host.pod_dir(uuid)).decode(), "acnspawn-app (enforce)\n", name)


@when_both
def in_the_default_profile_an_app_launches_others(host, *options):
    """With its socket and its token; what it launches is in the same profile."""
    with default_profiles():
        statuses, answers = calls_from_inside(host, options=options)
        equal(statuses, [200] * 5, answers)
        contains(answers[2], "TASK_FAILED")
        equal(host.acnspawn("logs", "--app=web/a", "p").expect(0).out, "acnspawn-app (enforce)\n")
        host.acnspawn("rm", "--force", "p").expect(0)


@when(True)
def operations_refused_by_the_default_profile(host):
    """For root of the host with all capabilities, without other confinement."""
    def as_app(name, code, without=()):
        def enter():
            for capability in without:
                ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
            with open("/proc/self/attr/apparmor/exec", "w") as f:
                f.write("exec " + name)
        return subprocess.run([sys.executable, "-c", "import os, socket, ctypes, signal\n" + code], preexec_fn=enter, capture_output=True, text=True)
    libc = "libc = ctypes.CDLL(None, use_errno=True)\n"
    sleeper = subprocess.Popen(["sleep", "600"])
    refused = (
        ("PermissionError", "open('/proc/sys/kernel/sysrq', 'w')"), ("PermissionError", "open('/proc/sysrq-trigger', 'w')"),
        ("PermissionError", "open('/proc/sys/vm/overcommit_memory', 'w')"), ("PermissionError", "open('/sys/kernel/uevent_helper', 'w')"),
        ("PermissionError", "open('/proc/interrupts').read()"), ("PermissionError", "open('/proc/kallsyms').read()"),
        ("PermissionError", "socket.socket(38, socket.SOCK_SEQPACKET)"), ("PermissionError", "socket.socket(40, socket.SOCK_STREAM)"),
        ("PermissionError", "os.kill(%d, signal.SIGTERM)" % sleeper.pid), ("PermissionError", "os.kill(1, signal.SIGCONT)"),
        ("errno 1|errno 13", libc + "r = libc.ptrace(16, %d, 0, 0); assert r < 0; print('errno', ctypes.get_errno())" % sleeper.pid),
        ("errno 1|errno 13", libc + "r = libc.mount(b'none', b'/mnt', b'tmpfs', 0, None); assert r < 0; print('errno', ctypes.get_errno())"),
        ("errno 1|errno 13", libc + "r = libc.umount2(b'/proc', 2); assert r < 0; print('errno', ctypes.get_errno())"),
    )
    with default_profiles():
        for expected, code in refused:
            r = as_app("acnspawn-app", code)
            true(re.search(expected, r.stdout + r.stderr), "%s: %s %s" % (code, r.stdout, r.stderr))
        # Newer kernels let these two capabilities read the memory of any process, without asking a security module.
        r = as_app("acnspawn-app", "open('/proc/%d/environ').read()" % sleeper.pid, (CAP_SYS_ADMIN, CAP_PERFMON))
        contains(r.stderr, "PermissionError")
        for code in ("socket.socket(2, 1); socket.socket(10, 1); socket.socket(1, 1); socket.socket(16, 3, 0)", "open('/proc/self/oom_score_adj', 'w').write('5')",
                     "open('/proc/meminfo').read(); open('/sys/devices/system/cpu/online').read()", "os.execv('/bin/true', ['true'])",
                     "p = os.fork(); os.kill(p, 9) if p else signal.pause()"):
            r = as_app("acnspawn-app", code)
            equal((r.returncode, r.stderr), (0, ""), code)
        r = as_app("acnspawn-app-mounts", libc + "assert libc.unshare(0x20000) == 0 and libc.mount(b'none', b'/', None, 0x44000, None) == 0; "
                   "assert libc.mount(b'none', b'/mnt', b'tmpfs', 0, None) == 0")
        equal((r.returncode, r.stderr), (0, ""), "mounting in acnspawn-app-mounts")
        # In a mount namespace of the process alone, in which the mount of the host is left as it is.
        private = libc + "assert libc.unshare(0x20000) == 0 and libc.mount(b'none', b'/', None, 0x44000, None) == 0\n"
        refuse = "; assert r < 0; print('errno', ctypes.get_errno())"
        # AppArmor itself says that there is no such file system before it looks at the rules.
        subprocess.run(["modprobe", "binfmt_misc"], stderr=subprocess.DEVNULL)
        known = read_text("/proc/filesystems").split()
        types = [t for t in ("binfmt_misc", "debugfs", "securityfs") if t in known]
        true("securityfs" in types, "file systems of the kernel: %s" % known)
        for code in ("r = libc.mount(b'none', b'/mnt', b'%s', 0, None)" % t for t in types):
            r = as_app("acnspawn-app-mounts", private + code + refuse)
            true(re.search("errno (1|13)$", r.stdout.strip()), "%s: %s %s" % (code, r.stdout, r.stderr))
        r = as_app("acnspawn-app-mounts", private + "assert libc.mount(b'none', b'/mnt', b'tmpfs', 0, None) == 0 and "
                   "libc.mount(None, b'/mnt', None, 0x1020 | 1, None) == 0 and libc.umount2(b'/mnt', 2) == 0 and libc.mount(b'proc', b'/mnt', b'proc', 0, None) == 0")
        equal((r.returncode, r.stderr), (0, ""), "remounts and unmounts of what the app has mounted")
        for code in "open('/proc/sys/kernel/sysrq', 'w')", "socket.socket(38, socket.SOCK_SEQPACKET)":
            contains(as_app("acnspawn-app-mounts", code).stderr, "PermissionError", code)
    equal(sleeper.poll(), None, "the process that was signalled")
    sleeper.kill()
    sleeper.wait()


@when_both
def with_every_other_confinement(host, *options):
    """Before the exec, no_new_privs, which forbids a confined process to change its profile, and a filter of system
    calls are in force, and so is the Landlock domain, which denies access by root of another app although the profile
    would allow it."""
    spied = host.shell("touch /out/up; sleep 1000 & wait", name="example.com/b", app={"environment": [{"name": "TOKEN", "value": "hidden-word"}]})
    look = "grep -e NoNewPrivs -e Seccomp: /proc/self/status; for p in /proc/[0-9]*; do tr '\\0' '\\n' <$p/environ 2>/dev/null | grep hidden; done; " + LOOK
    more = ("--apparmor-profile=" + NAME, "--no-new-privileges", "--seccomp=mode=remove,mkdir,mkdirat")
    with profile():
        for user in "0", "1000":
            image = looker(host, "while ! test -e /out/go; do sleep 0.1; done; " + look, app={"user": user, "group": user})
            uuid = host.detach(*options, "--exit-policy=any", image, *more, "---", spied, "--apparmor-profile=" + NAME)
            host.wait_up("b", uuid)
            host.acnspawn("enter", "--app=a", uuid, "touch", "/out/go").expect(0)
            host.acnspawn("status", "--wait=60s", uuid)
            out = host.acnspawn("logs", "--app=a", uuid).expect(0).out
            for expected in "NoNewPrivs:\t1\n", "Seccomp:\t2\n", LABEL, DENIED:
                contains(out, expected, "output as user " + user)
            lacks(out, "hidden-word")


@when_both
def handlers_checks_and_commands_have_the_same_label(host, *options):
    log = "{ %s; } >>/out/%%s" % LOOK
    app = dict(isolated(), eventHandlers=[{"name": n, "exec": ["/bin/sh", "-c", log % n]} for n in ("pre-start", "post-stop")])
    with profile():
        uuid = host.detach("--name=p", *options, looker(host, "touch /out/up; sleep 1000 & wait", app=app), "--grant=all", "--health-cmd=" + log % "health")
        host.wait_up("a")
        equal(host.acnspawn("enter", "p", "sh", "-c", LOOK).expect(0).out, LABEL + DENIED)
        host.acnspawn("stop", "p").expect(0)
        for name in "pre-start", "post-stop", "health":
            equal(host.written("a", "out/" + name, host.pod_dir(uuid)).decode()[:len(LABEL + DENIED)], LABEL + DENIED, name)


@when(True)
def a_command_ends_with_its_caller(host):
    """Although the kernel clears the parent-death signal on a change of the label."""
    with profile():
        uuid = host.detach("--name=p", looker(host, "touch /out/up; sleep 1000 & wait", app=isolated()), "--grant=all")
        host.wait_up("a")
        p = host.start("enter", "p", "sh", "-c", "touch /out/in; exec sleep 77777")
        wait_for(lambda: os.path.exists(host.upper("a") + "/out/in"), "the command")
        sleeping = lambda: subprocess.run(["pgrep", "-f", "^sleep 77777"], capture_output=True).stdout
        true(wait_for(sleeping, "the command"), "")
        p.kill()
        p.wait()
        wait_for(lambda: not sleeping(), "end of the command with its caller")
        host.acnspawn("stop", "--force", uuid).expect(0)


@when(True)
def a_profile_that_is_not_loaded_is_refused_by_name(host):
    image = looker(host, app=isolated("acnspawn-test-none"))
    for args in ("prepare",), ("prepare", "--dry-run"), ("run",), ("run", "--detach"), ("run", "--strict"):
        r = host.acnspawn(*args, image, "--grant=all").expect(1)
        contains(r.err, "App a is to run in the AppArmor profile acnspawn-test-none, which is not loaded on this host", " ".join(args))
        contains(r.err, "Load it with apparmor_parser, or name another with --apparmor-profile= after the image")
        equal(r.out, "")
    equal(host.pods(), [], "pods")
    with profile():
        equal(host.run("--rm", image, "--apparmor-profile=" + NAME).out, LABEL + DENIED)
        for name in "acnspawn-test-none//&" + NAME, "acnspawn", NAME + "//child":
            contains(host.acnspawn("prepare", image, "--apparmor-profile=" + name).expect(1).err, "profile %s, which is not loaded" % name)


@when(True)
def a_profile_that_vanishes(host):
    """After prepare the pod is not run; while it runs no further process is started, and status does not report it as
    enforced any more."""
    waits = "touch /out/up; while ! test -e /out/go; do sleep 0.1; done"
    with profile():
        uuid = host.prepare("--name=p", looker(host, waits, app=isolated()), "--grant=all", "--restart=always")
    contains(host.acnspawn("run", uuid).expect(1).err, "profile %s, which is not loaded" % NAME)
    equal(host.state(uuid), "prepared")
    equal(verdict(host, uuid)[0], "ignored")
    with profile():
        host.acnspawn("run", "--detach", uuid).expect(0)
        host.wait_up("a")
    equal(verdict(host, uuid), ("ignored", "the profile %s is not loaded on this host" % NAME))
    r = host.acnspawn("enter", uuid, "echo", "ran")
    true(r.rc != 0 and r.out == "", "a command ran without the profile: %s" % r)
    contains(r.err, "The AppArmor profile %s of app a is not loaded" % NAME)
    host.acnspawn("restart-app", uuid, "a")
    wait_for(lambda: "not loaded" in (host.app_status(uuid, "a")["message"] or ""), "the app that cannot start again", timeout=60)
    host.acnspawn("stop", "--force", uuid)


@when(True)
def a_profile_that_forbids_nothing_is_not_enforced(host):
    with profile(head="flags=(complain)"):
        image = looker(host, app=isolated())
        equal(host.run("--name=p", image, "--grant=all").out, NAME + " (complain)\nthe secret\n")
        equal(verdict(host, "p"), ("modified", "the profile %s is in complain mode: violations are logged, but allowed" % NAME))
        r = host.acnspawn("run", "--strict", image, "--grant=all").expect(1)
        contains(r.err, "in complain mode")
        equal(r.out, "")


@when(True)
def several_profiles_at_once(host):
    with profile(), profile(NAME + "2", head="flags=(complain)"):
        r = host.run("--name=p", looker(host), "--apparmor-profile=%s//&%s2" % (NAME, NAME))
        contains(r.out, "%s//&%s2 (mixed)\n" % (NAME, NAME))
        contains(r.out, DENIED)
        equal(verdict(host, "p")[0], "modified")


@when(True)
def an_app_that_may_not_get_signals_ends_with_the_pod(host):
    """Its profile forbids the signal. Nothing waits for it, and the reason is reported."""
    with profile(rules=RULES):
        uuid = host.detach("--name=p", looker(host, "touch /out/up; trap 'echo stopped' TERM; while :; do sleep 0.1; done", app=isolated()), "--grant=all")
        host.wait_up("a")
        host.acnspawn("stop", uuid)
        equal(host.state(uuid), "exited")
        status = host.app_status(uuid, "a")
        equal((status["cause"], status["message"]), ("pod-killed", "The pod's systemd has no permission to send it the signals that would stop it"))


@when(True)
def a_profile_of_the_host_for_a_path(host):
    """The kernel matches paths regardless of the root: a program of an app without a profile may match a profile of
    the host."""
    image = host.image(["/opt/cat", "/proc/self/attr/current"], name="example.com/a", files={"opt": Dir(), "opt/cat": File(open(BUSYBOX, "rb").read(), 0o755)})
    with profile(head="/opt/cat", rules=RULES + " signal, /opt/cat mr,"):
        equal(host.run("--rm", image).out, LABEL)
        equal(host.run("--rm", image, "--apparmor-profile=unconfined").out, "unconfined\n")
        contains(host.acnspawn("run", "--strict", image, "--apparmor-profile=unconfined").expect(1).err,
                 "os/linux/apparmor-profile of app a would be off: the app runs without a profile")


@when(True)
def a_launcher_that_has_a_profile_itself(host):
    """If acnspawn itself is confined, its profile decides; with no_new_privs the kernel allows no other, and the
    message names the cause."""
    outer = "capability, network, signal, ptrace, mount, remount, umount, pivot_root, change_profile, / r, /** rwmlkix,"

    def enter_profile():
        with open("/proc/self/attr/apparmor/exec", "w") as f:
            f.write("exec %s-outer" % NAME)
    # As the app's program was opened in another profile, some kernels look at it once more, where it lies below the overlay.
    attach = "flags=(attach_disconnected)"
    below = RULES + " signal, /**/rootfs/** rm,"
    with profile(head=attach, rules=below), profile(NAME + "-outer", attach, outer):
        r = host.acnspawn("run", "--rm", looker(host), "--apparmor-profile=" + NAME, preexec_fn=enter_profile)
        equal(r.out, LABEL + DENIED, "output (%d, %s)" % (r.rc, r.err))
        r = host.acnspawn("run", "--rm", "--volume=data,kind=tmpfs", looker(host, "test -c /dev/kmsg && cat $CREDENTIALS_DIRECTORY/c && ls -d /dev/data"),
                          "--device=/dev/kmsg", "--set-credential=c:secret\n", "--mount=data:/dev/data", preexec_fn=enter_profile)
        equal(r.out, "secret\n/dev/data\n", "output (%d, %s)" % (r.rc, r.err))
        uuid = host.acnspawn("run", "--detach", "--exit-policy=never", "--name=p", preexec_fn=enter_profile).expect(0).out.strip()
        ready = host.shell("poke notify READY=1; sleep 1000", name="example.com/ready")
        host.acnspawn("launch", "p", ready, "--notify=true", "--set-credential=c:secret", preexec_fn=enter_profile).expect(0)
        host.acnspawn("stop", uuid).expect(0)
        r = host.acnspawn("run", "--rm", looker(host), "--apparmor-profile=" + NAME, "--no-new-privileges", preexec_fn=enter_profile)
        true(r.rc != 0, "it ran")
        contains(r.err, "Cannot execute /bin/sh in the AppArmor profile %s: Operation not permitted" % NAME)


@when(True)
def where_apparmor_is_built_in_but_off(host):
    """Simulated by a file."""
    off = host.path("off")
    with open(off, "w") as f:
        f.write("N\n")
    image = looker(host, app=isolated())

    def without(*args):
        argv = host.argv(*args)
        r = subprocess.run(["unshare", "--mount", "sh", "-c", "mount --bind %s /sys/module/apparmor/parameters/enabled && exec \"$@\"" % off, "sh"] + argv,
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RUN_TIMEOUT)
        host.note_pods()
        return r
    plan = json.loads(without("prepare", "--dry-run", "--json=short", image, "--grant=all").stdout)
    equal([(i["verdict"], i["detail"]) for i in plan["isolators"]], [("ignored", "AppArmor is not active on this host")])
    r = without("run", "--strict", image, "--grant=all")
    equal(r.returncode, 1)
    contains(r.stderr, "AppArmor is not active on this host")
    # Mounts in sysfs prevent a user namespace from mounting its own.
    contains(without("run", "--rm", "--no-userns", image, "--grant=all").stdout, "unconfined\nthe secret\n")


@when(False)
def without_apparmor_the_profile_is_left_aside(host):
    image = looker(host, "cat /srv/secret", app=isolated())
    equal(host.run("--name=p", image, "--grant=all").out, "the secret\n")
    equal(verdict(host, "p"), ("ignored", "AppArmor is not active on this host"))
    for verb in "prepare", "run":
        r = host.acnspawn(verb, "--strict", image, "--grant=all").expect(1)
        contains(r.err, "AppArmor is not active on this host")
        equal(r.out, "")
    uuid = host.detach(looker(host, "touch /out/up; sleep 1000", app=isolated()), "--grant=all")
    host.wait_up("a", uuid)
    equal(host.acnspawn("enter", uuid, "cat", "/srv/secret").expect(0).out, "the secret\n")
    host.acnspawn("stop", "--force", uuid).expect(0)


main()
