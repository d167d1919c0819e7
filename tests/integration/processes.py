#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""--pid=: apps in a pid namespace of their own, in one that they share, and in that of another app."""

from harness import *

FOREVER = "trap 'exit 0' TERM; touch /out/up; while :; do sleep 0.05; done"
NOTIFY = [{"name": "appc.io/executor/supports-systemd-notify", "value": "true"}]
OTHER = "100123"


# --- A namespace of its own --------------------------------------------------------------------------------------------

@both
def a_private_app_is_process_1_and_sees_no_others(host, *options):
    other = host.image(["/bin/sleep", OTHER], name="example.com/other")
    script = "echo $$; for p in /proc/[0-9]*; do echo ${p#/proc/}; done; head -n1 /proc/1/status; readlink /proc/self >/dev/null && echo self"
    r = host.run("--name=p", *options, "--exit-policy=any", host.shell(script, name="example.com/a"), "--pid=private", "---", other)
    lines = [l.split("| ", 1)[-1].split(": ", 1)[-1].strip() for l in r.out.splitlines()]
    equal(lines, ["1", "1", "Name:\tsh", "self"])


@both
def the_default_is_the_namespace_of_the_pod(host, *options):
    script = "test $$ != 1 && tr '\\0' ' ' </proc/1/cmdline"
    contains(host.run(*options, host.shell(script)).out, "systemd")
    contains(host.run(*options, host.shell(script), "--pid=pod").out, "systemd")


@both
def exit_status_and_signals_are_the_apps(host, *options):
    host.run(*options, host.shell("exit 7"), "--pid=private", rc=7)
    host.run(*options, host.shell("exit 0"), "--pid=private")
    host.run(*options, host.image(["/bin/true"]), "--pid=private")
    host.run(*options, host.image(["/bin/nothing"]), "--pid=private", rc=127)
    host.run(*options, host.image(["/bin/true"]), "--user=missing", "--pid=private", rc=125)
    host.detach("--name=k", *options, host.image(["/bin/sleep", OTHER], name="example.com/a"), "--pid=private")
    host.acnspawn("kill", "--signal=KILL", "k").expect(0)
    wait_for(lambda: host.state("k") == "exited", "the end of the pod")
    equal(host.app_status("k", "a")["signal"], 9)


@both
def all_processes_of_the_app_end_with_it(host, *options):
    """Also one that is in a session of its own, and ignores what can be ignored."""
    script = ("trap '' TERM HUP; setsid sh -c 'trap \"\" TERM HUP; exec sleep %s' & "
              "until grep -q %s /proc/[0-9]*/cmdline 2>/dev/null; do sleep 0.05; done; exit 4" % (OTHER, OTHER))
    started = time.monotonic()
    host.run(*options, "--stop-timeout=60s", host.shell(script), "--pid=private", rc=4)
    true(time.monotonic() - started < patience(8), "the pod waited for a process that its app had left")


@both
def status_enter_and_wait(host, *options):
    uuid = host.detach("--name=p", *options, host.shell("trap 'exit 3' TERM; touch /out/up; while :; do sleep 0.05; done"),
                       "--name=web", "--pid=private")
    host.wait_up("web", uuid)
    equal(host.app_status("p", "web")["state"], "running")
    r = host.acnspawn("enter", "p", "sh", "-c", "tr '\\0' ' ' </proc/1/cmdline; echo; echo $PPID").expect(0)
    contains(r.out.splitlines()[0], "/bin/sh")
    equal(r.out.splitlines()[1], "0", "parent of the command, which is outside")
    wait = host.start("wait", "p")
    host.acnspawn("stop", "p").expect(0)
    equal(host.finish(wait).rc, 3)
    equal(host.app_status("p", "web")["exitStatus"], 3)


@both
def commands_end_with_a_private_app(host, *options):
    uuid = host.detach("--name=p", *options, host.shell("trap 'exit 3' TERM; touch /out/up; while :; do sleep 0.05; done"),
                       "--name=web", "--pid=private")
    host.wait_up("web", uuid)
    p = host.start("enter", "p", "sh", "-c", "trap '' TERM; touch /out/entered; while :; do sleep 0.1; done")
    wait_for(lambda: os.path.exists(os.path.join(host.upper("web"), "out/entered")), "the command")
    host.acnspawn("stop", "p").expect(0)
    equal(host.finish(p).rc, 137)


@both
def proc_is_protected_as_that_of_the_pod(host, *options):
    script = ("for f in /proc/sysrq-trigger /proc/sys/kernel/hostname /proc/sys/vm/drop_caches /proc/irq/default_smp_affinity; do "
              "( echo x >$f ) 2>/dev/null && echo written $f; done; head -c1 /proc/kcore /proc/kallsyms /proc/keys; mount | grep ' /proc[ /]'")
    own = host.acnspawn("run", "--rm", *options, host.shell(script), "--pid=private")
    pods = host.acnspawn("run", "--rm", *options, host.shell(script))
    lacks(own.out, "written")
    # nspawn mounts some of them twice
    listed = lambda r: sorted({line.split("(")[0] for line in r.out.splitlines()})
    equal(listed(own), listed(pods))
    writable = lambda r: [line for line in r.out.splitlines() if "(rw" in line and "/proc " not in line and "kmsg" not in line]
    equal(writable(own), [])
    contains(own.out, "nosuid,nodev,noexec")


@both
def handlers_and_health_checks_see_the_app(host, *options):
    """A check runs among the processes of the app, a handler alone."""
    health = json.dumps({"Test": ["CMD-SHELL", "tr '\\0' ' ' </proc/1/cmdline >/out/checked; test $$ != 1"], "Interval": 200000000})
    handlers = [{"name": "pre-start", "exec": ["/bin/sh", "-c", "echo $$ >/out/pre; ls -d /proc/[0-9]* | wc -l >>/out/pre"]},
                {"name": "post-stop", "exec": ["/bin/sh", "-c", "echo $$ >/out/post"]}]
    image = host.shell(FOREVER, name="example.com/web", app={"eventHandlers": handlers},
                       annotations=[{"name": "org.opencontainers.image.healthcheck", "value": health}])
    uuid = host.detach("--name=p", *options, image, "--pid=private")
    equal(host.app_status("p", "web")["ready"], True)
    contains(read_text(os.path.join(host.upper("web"), "out/checked")), "/bin/sh")
    host.acnspawn("stop", "p").expect(0)
    text = lambda path: read_text(os.path.join(host.upper("web"), path)).split()
    equal(text("out/pre")[0], "1")
    equal(text("out/post"), ["1"])


@both
def readiness_and_main_process(host, *options):
    """Process 1 stays the main process: it may name itself, and no other."""
    script = "poke notify \"$(printf 'MAINPID=1\\nREADY=1')\"; sleep 1000 & poke notify MAINPID=$!; touch /out/up; trap 'exit 5' TERM; while :; do sleep 0.05; done"
    p = host.start("run", "--name=p", *options, host.shell(script, name="example.com/a", annotations=NOTIFY), "--pid=private")
    host.note_pods()
    host.wait_up("a")
    host.wait_at_rest("p")  # the supervisor has taken both messages
    equal(host.app_status("p", "a")["ready"], True)
    host.acnspawn("stop", "p").expect(0)
    r = host.finish(p)
    equal(r.rc, 5)
    equal(r.err.count("is refused"), 1, r.err)
    contains(r.err, "where the first process stays it")


@case
def a_private_app_is_restarted(host):
    host.run("--name=p", "--volume=v,kind=empty,mode=0777", "--mount=v:/v",
             host.shell("n=$(cat /v/n 2>/dev/null || echo 0); echo $((n + 1)) >/v/n; test $n = 2"), "--name=a", "--pid=private", "--restart=on-failure", "--restart-delay=10ms")
    equal(host.app_status("p", "a")["exitStatus"], 0)


# --- Shared ------------------------------------------------------------------------------------------------------------

@both
def apps_share_a_namespace_without_the_pods_systemd(host, *options):
    """They can inspect each other, and find nothing in process 1."""
    web = host.image(["/bin/sleep", OTHER], name="example.com/web")
    script = ("until test $found; do sleep 0.05\n"
              "for p in /proc/[0-9]*; do case \"$(tr '\\0' ' ' <$p/cmdline)\" in '/bin/sleep %s '*) found=${p#/proc/};; esac; done; done 2>/dev/null\n"
              "ls /proc/$found/root/bin/sleep; kill -TERM $found\n"
              "tr '\\0' ' ' </proc/1/cmdline; echo; ls /proc/1/root /proc/1/fd 2>&1 | tr '\\n' ' '; grep -E 'CapBnd|^Uid|NoNewPrivs' /proc/1/status" % OTHER)
    r = host.run("--name=p", "--exit-policy=all", *options, web, "--pid=shared", "---",
                 host.shell(script, name="example.com/a"), "--pid=shared", rc=143)
    contains(r.out, "/root/bin/sleep")
    contains(r.out, "/acnspawn/launch processes")
    contains(r.out, "CapBnd:\t0000000000000000")
    contains(r.out, "Uid:\t65534")
    lacks(r.out, "acnspawn\n")
    equal(host.app_status("p", "web")["signal"], 15)


@both
def an_app_that_ends_leaves_the_others(host, *options):
    host.detach("--name=p", "--exit-policy=all", *options, host.shell(FOREVER, name="example.com/web"), "--pid=shared", "---",
                host.shell("sleep 100 & exit 3", name="example.com/a"), "--pid=shared")
    wait_for(lambda: host.app_status("p", "a")["state"] == "ended", "the end of the app")
    equal(host.app_status("p", "a")["exitStatus"], 3)
    equal(host.app_status("p", "web")["state"], "running")
    r = host.acnspawn("enter", "--app=web", "p", "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").expect(0)
    lacks(r.out, "sleep 100")
    host.acnspawn("stop", "p").expect(0)


@case
def an_app_that_is_added_shares_it_too(host):
    uuid = host.detach("--name=p", "--exit-policy=never", host.shell(FOREVER, name="example.com/web"), "--pid=private")
    host.wait_up("web", uuid)
    for name in "one", "two":
        host.acnspawn("add-app", "p", host.shell(FOREVER, name="example.com/" + name), "--pid=shared").expect(0)
        host.acnspawn("start-app", "p", name).expect(0)
    r = host.acnspawn("enter", "--app=two", "p", "sh", "-c", "for p in /proc/[0-9]*; do readlink $p/exe; done").expect(0)
    true(r.out.count("/bin/") >= 3, "two apps and the command are expected, not %r" % r.out)
    host.acnspawn("add-app", "p", host.shell("tr '\\0' ' ' </proc/1/cmdline >/out/seen; ls /proc/1/root/out/up >>/out/seen; exit 0", name="example.com/debug"),
                  "--pid=app:web").expect(0)
    host.acnspawn("start-app", "p", "debug").expect(0)
    wait_for(lambda: host.app_status("p", "debug")["state"] == "ended", "the end of the app")
    seen = read_text(os.path.join(host.upper("debug"), "out/seen"))
    contains(seen, "/bin/sh")
    contains(seen, "/proc/1/root/out/up")
    host.acnspawn("rm-app", "--force", "p", "one").expect(0)
    equal(host.app_status("p", "two")["state"], "running")
    host.acnspawn("stop", "p").expect(0)


# --- That of another app -----------------------------------------------------------------------------------------------

@both
def an_app_joins_the_processes_of_another(host, *options):
    script = "until test -e /proc/1/root/out/up; do sleep 0.05; done; test $$ != 1 && kill -TERM 1"
    host.run("--name=p", "--exit-policy=all", *options,
             host.shell(script, name="example.com/debug"), "--pid=app:web", "---",
             host.shell("trap 'exit 6' TERM; touch /out/up; while :; do sleep 0.05; done", name="example.com/web"), "--pid=private", rc=6)
    equal(host.app_status("p", "debug")["exitStatus"], 0)
    equal(host.app_status("p", "web")["exitStatus"], 6)


@case
def what_cannot_be_joined_is_refused(host):
    image = host.image(["/bin/true"], name="example.com/a")
    refused = lambda *args: host.acnspawn("prepare", *args).expect(1).err
    contains(refused(image, "--pid=app:web"), "App a is to share the processes of app web, but the pod has no such app")
    contains(refused(image, "--pid=app:a"), "App a is to share its own processes")
    e = refused(image, "--pid=app:b", "---", host.image(["/bin/true"], name="example.com/b"))
    contains(e, "App a is to share the processes of app b, which has no pid namespace of its own")
    contains(e, "Give app b the option --pid=private")
    for bad in "host", "app:", "app:../x", "", "Private":
        contains(host.acnspawn("prepare", image, "--pid=" + bad).expect(2).err, "must be pod, private, shared, or app:")
    r = host.acnspawn("run", "--rm", "--pid=private", host.shell("echo $$")).expect(0)
    equal(r.out, "1\n")


@case
def a_target_that_has_ended_is_named(host):
    host.detach("--name=p", "--exit-policy=never", host.image(["/bin/true"], name="example.com/web"), "--pid=private")
    host.acnspawn("wait", "p", "web").expect(0)  # the supervisor says so; a status may have it a moment before
    host.acnspawn("add-app", "p", host.shell("echo started", name="example.com/debug"), "--pid=app:web").expect(0)
    r = host.acnspawn("start-app", "p", "debug").expect(1)
    contains(r.err, "Cannot join the processes of app web, which does not run")
    host.acnspawn("stop", "p").expect(0)


@case
def a_host_with_cgroups_of_version_1_alone(host):
    """The commands in the hint work there: the mount point for version 2 does not exist, and the host's systemd makes its
    parent read-only."""
    script = ("mount -t tmpfs none /sys/fs/cgroup && mkdir /sys/fs/cgroup/systemd && mount -o remount,ro /sys/fs/cgroup && "
              "$ACN run --rm --name=p $IMAGE 2>$OUT; echo $?; sh -c \"$(sed -n 's/^Mount it[^:]*: //p' $OUT)\" && $ACN run --rm --name=p $IMAGE; echo $?")
    out = host.path("said")
    env = dict(os.environ, ACN=" ".join(host.argv()), IMAGE=host.shell("echo it runs"), OUT=out)
    r = subprocess.run(["unshare", "--mount", "--propagation=private", "sh", "-c", script], env=env, stdout=subprocess.PIPE, text=True, timeout=patience(60))
    contains(read_text(out), "Pods need the cgroup v2 hierarchy, and none is mounted")
    equal(r.stdout, "1\nit runs\n0\n", read_text(out))


main()
