#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Apps of one pod see and may signal each other's processes (spec: ace.md), but cannot access their memory and files,
even as root."""

import socket
import struct

from harness import *


def need_landlock(version=2):
    if landlock_version() < version:
        raise Skip("this kernel has no Landlock, or one that is too old")


def both(function):
    def with_userns(host):
        need_landlock()
        function(host)

    def without_userns(host):
        need_landlock()
        function(host, "--no-userns")
    with_userns.__name__ = function.__name__
    without_userns.__name__ = function.__name__ + "_without_user_namespace"
    case(with_userns)
    case(without_userns)


def secret(host, app="secret"):
    return host.shell("echo secret-word >/srv/secret; trap 'exit 0' TERM; touch /out/up; sleep 1000 & wait", name="example.com/" + app,
                      app={"environment": [{"name": "TOKEN", "value": "secret-word"}]})


SPY = ("until pidof sleep >/dev/null; do sleep 0.05; done; sleep 0.3; for p in /proc/[0-9]*; do grep -q secret-word $p/environ 2>/dev/null && "
       "echo environment of $p; cat $p/root/srv/secret $p/cwd/srv/secret 2>/dev/null; ls $p/root/ >/dev/null 2>&1 && echo root of $p; "
       "readlink $p/fd/1 >/dev/null && echo descriptors of $p; poke trace ${p#/proc/}; poke read $p/mem; done 2>/dev/null; "
       "kill -0 $(pidof sleep) && echo may signal; true")


def spy(host, options, *isolators):
    """An app with these isolators tries to access the others."""
    host.run("--name=p", "--exit-policy=any", *options, host.shell(SPY, name="example.com/spy", app={"isolators": list(isolators)}), "--grant=all",
             secret(host))
    out = host.acnspawn("logs", "--app=spy", "p").expect(0).out
    lacks(out, "secret-word")
    seen = set(re.findall(r"(?:of /proc/|trace |read /proc/)(\d+)(?:/mem)?(?:: possible)?$", "\n".join(
        line for line in out.splitlines() if not re.search(r": (?!possible)", line)), re.M))
    true(len(seen) <= 3, "processes that were looked into: %r in %r" % (sorted(seen), out))  # itself and its own children
    contains(out, "may signal", "what the spec grants")
    host.acnspawn("rm", "p").expect(0)


DEFAULT = ["CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_KILL", "CAP_MKNOD", "CAP_NET_RAW",
           "CAP_NET_BIND_SERVICE", "CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETFCAP", "CAP_SYS_CHROOT"]


def capabilities(*more):
    return {"name": "os/linux/capabilities-retain-set", "value": {"set": DEFAULT + list(more)}}


UNFILTERED = {"name": "os/linux/seccomp-retain-set", "value": {"set": ["@appc.io/all"]}}


@case
def a_proc_of_an_apps_own_processes_opens_nothing_of_the_host(host):
    """The kernel may allow an app with CAP_SYS_ADMIN to mount one without masks: what belongs to root of the host stays closed."""
    tries = ("mkdir -p /tmp/p && mount -t proc proc /tmp/p || exit 0; for f in kcore kmsg sysrq-trigger; do head -c 1 /tmp/p/$f && echo read $f; done 2>/dev/null; "
             "echo x >/tmp/p/sysrq-trigger && echo asked; for f in core_pattern modprobe printk; do cat /tmp/p/sys/kernel/$f >/tmp/x && cat /tmp/x >/tmp/p/sys/kernel/$f && "
             "echo wrote $f; done; grep -v ^0000000000000000 /tmp/p/kallsyms | head -1; echo 2 >/tmp/p/sys/vm/drop_caches && echo dropped; true")
    r = host.run("--rm", host.shell("mount -t tmpfs none /tmp; unshare -p -m -f sh -c '%s' 2>/dev/null; echo end" % tries), "--caps-retain=CAP_SYS_ADMIN,CAP_DAC_OVERRIDE")
    equal(r.out, "end\n")


@both
def root_cannot_look_into_other_apps(host, *options):
    spy(host, options)
    spy(host, options, capabilities("CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"))
    spy(host, options, UNFILTERED)
    spy(host, options, UNFILTERED, capabilities("CAP_SYS_PTRACE"))


@case
def an_app_that_may_mount_cannot_look_into_other_apps(host):
    """Neither directly, nor from another namespace, nor by a new mount of /proc."""
    need_landlock(6)
    for isolators in ([capabilities("CAP_SYS_ADMIN")], [capabilities("CAP_SYS_ADMIN", "CAP_SYS_PTRACE"), UNFILTERED]):
        spy(host, [], *isolators)
    script = ("until pidof sleep >/dev/null; do sleep 0.05; done; sleep 0.3; mkdir -p /srv/p; mount -t proc proc /srv/p; mount -t tmpfs none /var && echo mounted; "
              "for p in $(pidof sleep) 1; do cat /srv/p/$p/environ /srv/p/$p/root/srv/secret; ls /srv/p/$p/root; "
              "nsenter -t $p -m true && echo entered $p; done 2>/dev/null; true")
    host.run("--name=p", "--exit-policy=any", host.shell(script, name="example.com/spy", app={"isolators": [capabilities("CAP_SYS_ADMIN", "CAP_SYS_PTRACE"),
             UNFILTERED]}), "--grant=all", secret(host))
    equal(host.acnspawn("logs", "--app=spy", "p").expect(0).out, "mounted\n")


@case
def an_app_that_may_mount_needs_two_tasks_to_be_started(host):
    """Its user namespace is set up by a second process."""
    image = host.image(["/bin/echo", "started"], name="example.com/a")
    equal(host.run("--tasks-max=2", image, "--caps-retain=CAP_SYS_ADMIN").expect(0).out, "started\n")
    contains(host.acnspawn("run", "--tasks-max=1", image, "--caps-retain=CAP_SYS_ADMIN").expect(125).err, "Cannot create a user namespace for app a, which has "
             "CAP_SYS_ADMIN: that takes two tasks, and the limit of tasks (--tasks-max=) of the app or the pod is reached")
    equal(host.run("--tasks-max=1", image).expect(0).out, "started\n")


@case
def an_app_that_may_mount_cannot_reach_abstract_sockets_of_others(host):
    """Consequence of the domain that does not restrict mounting; other apps share them, like the pod's network."""
    need_landlock(6)
    server = host.shell("poke listen p-socket", name="example.com/server")
    for isolators, expected in ([], "possible"), ([capabilities("CAP_SYS_ADMIN")], "not permitted"):
        script = "until grep -q p-socket /proc/net/unix; do sleep 0.05; done; poke abstract p-socket; true"
        host.run("--name=p", "--exit-policy=any", host.shell(script, name="example.com/a", app={"isolators": isolators}), "--grant=all", server)
        contains(host.acnspawn("logs", "--app=a", "p").out, expected)
        host.acnspawn("rm", "p").expect(0)


@both
def own_processes_can_be_looked_into(host, *options):
    """Debuggers and similar programs still work inside an app."""
    r = host.run("--rm", *options, host.shell("X=mine sleep 100 & until grep -qx sleep /proc/$!/comm; do sleep 0.01; done; tr '\\0' '\\n' </proc/$!/environ | grep X=; readlink /proc/$!/exe; "
                                      "poke trace $!; kill $!"))
    equal([l for l in r.out.splitlines() if "trace" not in l], ["X=mine", "/bin/busybox"])
    contains(r.out, ": possible", "tracing of an own child")


@both
def files_can_be_moved_and_linked(host, *options):
    volume = host.path("volume")
    os.makedirs(os.path.join(volume, "a"))
    os.makedirs(os.path.join(volume, "b"))
    os.chmod(volume, 0o777)
    r = host.run("--rm", *options, "--volume=v,kind=empty", host.shell(
        "set -e; for d in /srv /tmp /dev/shm /vol; do mkdir -p $d/a/c $d/b; echo x >$d/a/f; mv $d/a/f $d/b/f; ln $d/b/f $d/a/g; mv $d/a/c $d/b/; "
        "cat $d/a/g; test -d $d/b/c; done", app={"mountPoints": [{"name": "v", "path": "/vol"}]}))
    equal(r.out, "x\n" * 4)


@case
def status_shows_whether_apps_are_exposed(host):
    for isolators, version in ([], 2), ([capabilities("CAP_SYS_ADMIN")], 6):
        exposed = landlock_version() < version
        for name, apps in ("one", 1), ("two", 2):
            images = [word for i in range(apps)
                      for word in (host.image(["/bin/true"], name="example.com/a%d" % i, app={"isolators": isolators}), "--grant=all")]
            host.run("--name=" + name, *images)
            equal(host.status(name)["appsExposed"], exposed and apps > 1, name)
            equal(host.status(name)["appsExposedTo"], ["a0", "a1"] if exposed and apps > 1 else [], name)
            equal("Neighbours: exposed" in host.acnspawn("status", name).out, exposed and apps > 1, name)
            equal(host.acnspawn("run", "--strict", "--rm", *images).rc != 0, exposed and apps > 1, "strict mode")
            host.acnspawn("rm", name).expect(0)


@case
def apps_that_may_mount_still_can(host):
    r = host.run("--rm", host.shell("mount -t tmpfs none /srv && touch /srv/x && umount /srv && echo mounted"), "--caps-retain=CAP_SYS_ADMIN")
    equal(r.out, "mounted\n")


def main_process(host, app):
    """Its number on the host, and in the pod."""
    pid = first_of(processes_where(lambda pid: "/app-%s.service" % app in read_text("/proc/%d/cgroup" % pid), host.processes()))
    return pid, int(re.search(r"^NSpid:.*\s(\d+)$", read_text("/proc/%d/status" % pid), re.M).group(1))


@case
def forged_main_pid_of_systemd_is_not_used(host):
    """As if a process of the app had access to the socket of the pod's systemd, which obeys root."""
    host.detach("--name=p", "--exit-policy=all", host.shell("poke notify READY=1; while :; do sleep 1; done", name="example.com/a"), "--notify=true", "---",
                host.shell("exec sleep 1000", name="example.com/b"))
    leader = host.status("p")["leader"]
    owner = os.stat("/proc/%d" % leader).st_uid
    own, other = main_process(host, "a"), main_process(host, "b")
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.connect("/proc/%d/root/run/systemd/notify" % leader)
    s.sendmsg([b"MAINPID=%d" % other[1]], [(socket.SOL_SOCKET, 2, struct.pack("iII", own[0], owner, owner))])
    host.wait_at_rest("p")  # the pod's systemd has read it
    r = host.acnspawn("kill", "--app=a", "--signal=KILL", "p")
    if r.rc == 0:
        raise Skip("this systemd does not take the word of root")
    contains(r.err, "Process %d, which the systemd of pod" % other[0])
    contains(r.err, "reports as that of app a, is not in the app's cgroup")
    # The supervisor knows the process from its launcher, and does not query systemd.
    host.acnspawn("enter", "--app=a", "p", "touch", "/out/entered").expect(0)
    true(os.path.exists(host.upper("a") + "/out/entered"), "the command did not run beside the app")
    equal(host.app_status("p", "b")["state"], "running")
    true(not os.path.exists(host.upper("b") + "/out/entered"), "the command ran beside the other app")
    host.acnspawn("stop", "--force", "p").expect(0)


def user_namespace_of(pid):
    return os.readlink("/proc/%d/ns/user" % pid)


TAKE_OVER = """
mkdir -p /srv/m /srv/p
sleep 1000 &
mount -o remount,ro /proc && echo remounted /proc
mount -o remount,bind,dev / && echo remounted for devices
mount -o remount,bind,rw $CREDENTIALS_DIRECTORY && echo remounted credentials
( : >$CREDENTIALS_DIRECTORY/x ) && echo remounted credentials are writable
umount $CREDENTIALS_DIRECTORY && echo remounted without credentials
mount -t proc none /srv/p && echo another /proc
mount -t tmpfs none /tmp && touch /tmp/own && echo mounted
if mount -t binfmt_misc none /srv/m; then echo ':evil:M::\\x7fELF::/bin/poke:FC' >/srv/m/register && echo registered; fi
: >/out/up
wait
"""


@case
def an_app_that_may_mount_is_not_executed_for_others(host):
    """binfmt_misc, superblocks and mount namespaces belong to a user namespace: an app with CAP_SYS_ADMIN has one of its own."""
    options = ["--caps-retain=CAP_SYS_ADMIN,CAP_DAC_OVERRIDE,CAP_CHOWN"]
    uuid = host.detach("--name=p", "--exit-policy=never", host.shell(TAKE_OVER, name="example.com/evil"), "--set-credential=token:secret", *options,
                       "---", host.shell("touch /out/up; exec sleep 1000", name="example.com/plain"))
    for app in "evil", "plain":
        host.wait_up(app)
    own_binfmt = tuple(int(x) for x in re.findall(r"\d+", os.uname().release)[:2]) >= (6, 7)
    last = "registered" if own_binfmt else "mounted" # binfmt_misc of the app itself
    wait_for(lambda: last in host.acnspawn("logs", "--app=evil", "p").expect(0).out.splitlines(), "what the app may do")
    log = host.acnspawn("logs", "--app=evil", "p").expect(0).out
    contains(log.splitlines(), "mounted", "what the app may do")
    lacks(log, "remounted", "a mount that the app has changed")
    lacks(log, "another /proc", "a mount of /proc without what protects it")
    # The next programs that are executed in the pod are what they are.
    equal(host.acnspawn("enter", "--app=plain", "p", "busybox", "echo", "fine").expect(0).out, "fine\n")
    contains(host.acnspawn("launch", "p", host.shell("echo fine", name="example.com/next"), "--name=next").expect(0).out, "")
    wait_for(lambda: "fine" in host.acnspawn("logs", "--app=next", "p").out, "the output of the next app")
    contains(host.acnspawn("enter", "--app=plain", "p", "grep", " /proc ", "/proc/self/mountinfo").expect(0).out, " - proc proc rw")
    leader = user_namespace_of(host.leader(uuid))
    evil, plain = (user_namespace_of(main_process(host, a)[0]) for a in ("evil", "plain"))
    equal(plain, leader, "the user namespace of an app without CAP_SYS_ADMIN")
    true(evil != leader, "an app with CAP_SYS_ADMIN is in the user namespace of the pod")
    host.acnspawn("stop", "p").expect(0)
    # Without what it has registered for itself.
    script = "mount -t tmpfs none /tmp && touch /tmp/own /out/up; chown 1000:50 /out/up; stat -c %u:%g /out/up; exec sleep 1000"
    host.detach("--name=q", host.shell(script, name="example.com/mounts"), *options)
    host.wait_up("mounts")
    pid = main_process(host, "mounts")[0]
    equal(read_text("/proc/%d/uid_map" % pid).split()[0::2], ["0", "65536"])
    equal(host.acnspawn("enter", "q", "ls", "/tmp").expect(0).out, "own\n")
    equal(host.acnspawn("enter", "q", "readlink", "/proc/self/ns/user").expect(0).out.strip(), user_namespace_of(pid))
    wait_for(lambda: "1000:50" in host.acnspawn("logs", "q").expect(0).out, "the owner of the file")
    host.acnspawn("stop", "q").expect(0)


@both
def no_app_leaves_its_cgroup(host, *options):
    """One that may mount sees cgroups from its own on: limits and freezer hold for all of its processes, and it cannot make the cgroup of the pod
    or of another app its own."""
    script = ("cat /proc/self/cgroup | grep -v :/$; for d in /sys/fs/cgroup /mnt; do ls -d $d/init.scope $d/app.slice; done 2>/dev/null; "
              "mkdir -p /tmp/m; mount -t cgroup2 none /tmp/m && { mkdir /tmp/m/own; for d in /tmp/m /tmp/m/init.scope /tmp/m/.. /tmp/m/own; do "
              "echo 0 >$d/cgroup.procs; done; }; readlink /proc/1/ns/cgroup; touch /out/up; exec sleep 1000")
    host.detach("--name=p", *options, host.shell(script, name="example.com/a"), "--caps-retain=CAP_SYS_ADMIN,CAP_DAC_OVERRIDE")
    host.wait_up("a")
    pid = main_process(host, "a")[0]
    line = next(l for l in read_text("/proc/%d/cgroup" % pid).splitlines() if l.startswith("0::"))
    contains(line, "/app-a.service")
    equal(host.acnspawn("logs", "p").expect(0).out, "")
    equal(read_text("/proc/%d/root/sys/fs/cgroup/cgroup.procs" % pid).count("\n") + read_text("/proc/%d/cgroup" % pid).count("/own") > 0, True,
          "the app sees its own cgroup")
    host.acnspawn("stop", "--force", "p").expect(0)


def descendants(pid):
    below = processes_where(lambda p: parent_of(p) == pid)
    return below + [q for p in below for q in descendants(p)]


@both
def processes_that_have_left_the_cgroup_of_their_app_end_with_it(host, *options):
    """This test moves the processes, since apps cannot any more: to the cgroup of the pod's systemd, and to that of
    another app."""
    host.detach("--name=p", "--exit-policy=never", *options, host.shell("sleep 1000 & sleep 1000 & touch /out/up; trap 'exit 0' TERM; wait", name="example.com/a"),
                "--caps-retain=CAP_SYS_ADMIN,CAP_DAC_OVERRIDE", "---", host.shell("sleep 1000 & touch /out/up; trap 'exit 0' TERM; wait", name="example.com/b"),
                "--caps-retain=CAP_SYS_ADMIN")
    for app in "a", "b":
        host.wait_up(app)
    main = {app: main_process(host, app)[0] for app in ("a", "b")}
    others = descendants(main["b"])
    first, second = descendants(main["a"])
    own = next(l for l in read_text("/proc/%d/cgroup" % main["a"]).splitlines() if l.startswith("0::"))[3:]
    other = next(l for l in read_text("/proc/%d/cgroup" % main["b"]).splitlines() if l.startswith("0::"))[3:]
    mount = next(l.split()[4] for l in read_text("/proc/self/mountinfo").splitlines() if " - cgroup2 " in l)
    for pid, group in (first, own[:own.index("/app.slice")] + "/init.scope"), (second, other):
        with open(mount + group + "/cgroup.procs", "w") as f:
            f.write(str(pid))
    for verb in "stop-app", "rm-app":
        host.acnspawn(verb, "p", "a").expect(0)
        wait_for(lambda: has_ended(first) and has_ended(second), "the ends of the processes, which are killed, after " + verb)
    equal([p for p in others if not os.path.exists("/proc/%d" % p)], [], "processes of another app that have ended")
    host.acnspawn("stop", "p").expect(0)


PTRACE_SEIZE, PTRACE_DETACH, PTRACE_O_TRACEEXIT = 0x4206, 17, 0x40


@contextlib.contextmanager
def held_at_its_end(pid):
    """A process that is killed stays, like one that waits for a file system that does not answer."""
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    equal(ptrace(PTRACE_SEIZE, pid, None, PTRACE_O_TRACEEXIT), 0, "result of ptrace()")
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WSTOPPED)
        equal(ptrace(PTRACE_DETACH, pid, None, None), 0, "result of ptrace()")


@case
def a_killed_process_that_stays_is_killed_once(host):
    need_landlock()
    with open(host.path("messages"), "w") as f:
        p = subprocess.Popen(host.argv("run", "--name=p", "--exit-policy=never", host.shell("sleep 1000 & touch /out/up; trap 'exit 0' TERM; wait", name="example.com/a"),
                                       "--caps-retain=CAP_SYS_ADMIN,CAP_DAC_OVERRIDE"), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=f)
    host.children.append(p)
    host.wait_up("a")
    main = main_process(host, "a")[0]
    left, = wait_for(lambda: descendants(main), "the process that is to be left")
    own = next(l for l in read_text("/proc/%d/cgroup" % main).splitlines() if l.startswith("0::"))[3:]
    mount = next(l.split()[4] for l in read_text("/proc/self/mountinfo").splitlines() if " - cgroup2 " in l)
    with open(mount + own[:own.index("/app.slice")] + "/init.scope/cgroup.procs", "w") as f:
        f.write(str(left))
    with held_at_its_end(left):
        host.acnspawn("stop-app", "p", "a").expect(0)
        contains(read_text(host.path("messages")), "left 1 process in other cgroups of pod p, which was killed")
    host.acnspawn("stop", "p").expect(0)
    equal(p.wait(patience(20)), 0)
    equal(read_text(host.path("messages")).count(" in other cgroups of pod p"), 1, "messages")


@case
def an_app_sees_its_own_cgroup(host):
    r = host.run(host.shell("grep ^0:: /proc/self/cgroup; cat /sys/fs/cgroup/cgroup.procs | wc -l; ls /sys/fs/cgroup/app.slice; mkdir /sys/fs/cgroup/x; true"))
    lines = r.out.splitlines()
    equal(lines[0], "0::/")
    true(int(lines[1]) >= 1, "processes of the app in its cgroup: %s" % lines[1])
    equal(len(lines), 2)
    contains(r.err, "Read-only file system")


main()
