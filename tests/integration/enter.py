#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn enter: its command is confined exactly as the app, and never gives access to the host, not even for an
instant (see CVE-2019-10144, -10145 and -10147; CVE-2019-5736 is an attack through the program). Streams, terminals,
statuses and signals are the command's own."""

import resource
import termios

from harness import *
from terminals import Terminal

# Processes of apps and of commands are distinguished by the argument of "sleep".
APP, COMMAND = "100001", "100002"


def sleeper(host, name="a", seconds=APP, app=None, **more):
    return host.image(["/bin/sleep", seconds], name="example.com/" + name, app=app, **more)


def find_process(host, *argv):
    """The pid, on the host, of the process of the pod that has this command line."""
    wanted = "\0".join(argv) + "\0"

    def fits(pid):
        return read_text("/proc/%d/cmdline" % pid) == wanted and any(u in read_text("/proc/%d/cgroup" % pid) for u in host.uuids)
    return str(wait_for(lambda: processes_where(fits), "the process %r" % (argv,))[0])


def entered(host, *args, argv=("sleep", COMMAND), **more):
    """A running "acnspawn enter", and the pid of its command on the host."""
    host.note_pods()
    p = host.start("enter", *args, "p", *argv, **more)
    try:
        return p, find_process(host, *argv)
    except Failure:
        p.kill()
        fail("enter did not start: %r" % p.communicate()[1])


STATUS_FIELDS = ("Uid Gid Groups Umask NoNewPrivs Seccomp Seccomp_filters CapInh CapPrm CapEff CapBnd CapAmb Cpus_allowed "
                 "Mems_allowed SigBlk SigIgn SigCgt Speculation_Store_Bypass").split()
NAMESPACES = "pid mnt net ipc uts user cgroup time pid_for_children time_for_children".split()
FILES = "cgroup limits oom_score_adj uid_map gid_map mountinfo attr/current personality".split()


def environment(pid):
    return sorted(read_text("/proc/%s/environ" % pid).split("\0"))


def compare(host, app, *options):
    host.prepare("--name=p", *options, sleeper(host, app=app))
    host.acnspawn("run", "--detach", "p").expect(0)
    host.note_pods()
    one = find_process(host, "/bin/sleep", APP)
    p, other = entered(host, env=dict(os.environ, HOST_SECRET="x"))
    status = [dict(l.split(":", 1) for l in read_text("/proc/%s/status" % pid).splitlines()) for pid in (one, other)]
    for field in STATUS_FIELDS:
        if field in status[0]:
            equal(status[1][field].strip(), status[0][field].strip(), "%s of the command" % field)
    for name in NAMESPACES:
        if os.path.lexists("/proc/%s/ns/%s" % (one, name)):
            equal(os.readlink("/proc/%s/ns/%s" % (other, name)), os.readlink("/proc/%s/ns/%s" % (one, name)), "namespace " + name)
    for name in FILES:
        equal(read_or_errno(other, name), read_or_errno(one, name), name)
    equal(environment(other), environment(one), "environment")
    for name in ("cwd", "root"):
        equal(os.stat("/proc/%s/%s" % (other, name)), os.stat("/proc/%s/%s" % (one, name)), name)
    equal(os.getpriority(os.PRIO_PROCESS, int(other)), os.getpriority(os.PRIO_PROCESS, int(one)), "nice value")
    equal(sorted(os.listdir("/proc/%s/fd" % other)), ["0", "1", "2"], "descriptors")
    p.terminate()
    equal(host.finish(p).rc, 128 + signal.SIGTERM, "status")
    host.acnspawn("stop", "--force", "p").expect(0)


def read_or_errno(pid, name):
    """A command has a cgroup of its own, below that of the app."""
    try:
        return re.sub(r"^(0::.*)/exec-\d+$", r"\1", read_text("/proc/%s/%s" % (pid, name)), flags=re.M)
    except OSError as e:
        return e.errno


@both
def the_command_is_as_the_app_is(host, *options):
    compare(host, {"workingDirectory": "/srv", "environment": [{"name": "X", "value": "a b\n$c"}]}, *options)


@both
def the_command_is_as_an_app_that_is_no_root(host, *options):
    compare(host, {"user": "app", "group": "staff", "supplementaryGIDs": [7, 8]}, *options)


@both
def the_command_is_as_an_app_with_isolators(host, *options):
    compare(host, {"isolators": [{"name": "os/linux/no-new-privileges", "value": True},
                                 {"name": "os/linux/oom-score-adj", "value": 300},
                                 {"name": "os/linux/capabilities-retain-set", "value": {"set": ["CAP_KILL"]}}]}, *options)


@case
def the_command_is_as_an_app_on_the_network_of_the_host(host):
    """In that case systemd-nspawn gives a pod fewer capabilities than its apps request."""
    compare(host, {}, "--net=host")


@both
def the_caller_hands_nothing_on(host, *options):
    """Limits, nice value, umask, signal dispositions, descriptors and directory of the caller are not inherited by the
    command."""
    own = int(re.search(r"CapEff:\s*(\w+)", read_text("/proc/self/status")).group(1), 16)
    may_raise = all(own >> CAPABILITIES.index(c) & 1 for c in ("SYS_RESOURCE", "SYS_NICE"))

    def spoil():
        default_signals()
        if may_raise:
            os.nice(7)
            resource.setrlimit(resource.RLIMIT_CORE, (4096, 4096))
        os.umask(0o077)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        signal.signal(signal.SIGQUIT, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        os.sched_setaffinity(0, {0})
        os.dup2(os.open("/", os.O_RDONLY), 9, inheritable=True)

    host.detach("--name=p", *options, sleeper(host))
    host.note_pods()
    one = find_process(host, "/bin/sleep", APP)
    p, other = entered(host, preexec_fn=spoil, cwd=host.tmp, close_fds=False)
    for name in FILES:
        equal(read_or_errno(other, name), read_or_errno(one, name), name)
    for field in STATUS_FIELDS:
        found = [re.search(r"^%s:[ \t]*(.*)$" % field, read_text("/proc/%s/status" % pid), re.M) for pid in (one, other)]
        equal(found[1] and found[1].group(1), found[0] and found[0].group(1), field)
    equal(os.getpriority(os.PRIO_PROCESS, int(other)), os.getpriority(os.PRIO_PROCESS, int(one)), "nice value")
    equal(sorted(os.listdir("/proc/%s/fd" % other)), ["0", "1", "2"], "descriptors")
    for fd in "012":
        true(os.readlink("/proc/%s/fd/%s" % (other, fd)).startswith("pipe:"), "descriptor %s is not a pipe" % fd)
    p.kill()
    p.wait()
    wait_for(lambda: not os.path.exists("/proc/" + other), "end of the command with its caller")
    host.acnspawn("stop", "--force", "p").expect(0)


@case
def a_set_uid_command_ends_with_its_caller(host):
    """The kernel clears the parent-death signal of the command at such an exec."""
    image = sleeper(host, files={"bin/busybox": File(open(BUSYBOX, "rb").read(), 0o4755)}, app={"user": "1000", "group": "1000"})
    host.detach("--name=p", image)
    p, other = entered(host)
    p.kill()
    p.wait()
    wait_for(lambda: not os.path.exists("/proc/" + other), "end of the command with its caller")
    host.acnspawn("stop", "--force", "p").expect(0)


# --- Attacks ------------------------------------------------------------------------------------------------------------

WATCH = ("touch /out/up; while :; do for p in /proc/[0-9]*; do r=$(readlink $p/exe 2>/dev/null); case \"$r\" in *memfd*|*acnspawn*) echo \"exe $r\";; esac; "
         "[ -e $p/root/etc/debian_version ] && echo \"root $p\"; [ -e $p/root/acnspawn/units ] && [ $p != /proc/1 ] && ! grep -q journal $p/comm && echo \"pod $p\"; "
         "grep -qs -e SE[C]RET $p/environ $p/cmdline && echo \"words $p\"; done; done >>/out/seen 2>/dev/null")


def watched(host, capabilities, *options):
    app = {"isolators": [{"name": "os/linux/capabilities-retain-set", "value": {"set": capabilities}}]}
    uuid = host.detach("--name=p", *options, host.shell(WATCH, name="example.com/a", app=app), "--grant=all")
    host.wait_up("a")
    for _ in range(12):
        host.acnspawn("enter", "--environment=A=SECRET", "p", "true", env=dict(os.environ, HOST="SECRET")).expect(0)
    path = os.path.join(host.upper("a"), "out/seen")
    seen = read_text(path) if os.path.exists(path) else ""
    # Before Linux 6.12 an app that may mount can access other processes, including the command.
    equal([l for l in seen.splitlines() if not l.startswith("words")], [], "what was seen")
    if "CAP_SYS_ADMIN" not in capabilities or landlock_version() >= 6:
        equal(seen, "", "what was seen")
    host.acnspawn("stop", "--force", uuid).expect(0)


ALMOST_ALL = ["CAP_SYS_PTRACE", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_KILL", "CAP_SETUID", "CAP_SETGID", "CAP_SYS_CHROOT"]


@case
def no_access_to_it_while_it_enters(host):
    watched(host, ALMOST_ALL)


@case
def no_access_to_it_for_apps_that_may_mount(host):
    watched(host, ALMOST_ALL + ["CAP_SYS_ADMIN"])


@both
def the_program_is_no_way_to_the_host(host, *options):
    """CVE-2019-5736: the command is a link to the entering program itself."""
    files = {"bin/self": Link("/proc/self/exe"), "bin/script": File("#!/proc/self/exe\n", 0o755),
             "bin/up": Link("../../../../proc/self/exe")}
    before = {p: os.stat(p).st_mtime_ns for p in (ACNSPAWN,)}
    host.detach("--name=p", *options, sleeper(host, files=files))
    for command in ("self", "script", "/bin/up", "/proc/self/exe", "/proc/1/exe", "/proc/self/fd/3", "/proc/self/fd/10"):
        r = host.acnspawn("enter", "p", command, "main", "a")
        true(r.rc in (2, 125, 126, 127), "%s: %s" % (command, r))
        lacks(r.out, "acnspawn")
    r = host.acnspawn("enter", "p", "sh", "-c", "for f in /proc/*/exe; do (: >>$f) 2>/dev/null && readlink $f; done; true").expect(0)
    lacks(r.out, "acnspawn")
    equal({p: os.stat(p).st_mtime_ns for p in before}, before)
    host.acnspawn("stop", "--force", "p").expect(0)


@both
def directories_of_links_are_no_way_out(host, *options):
    host.detach("--name=p", *options, sleeper(host))
    for n in range(3, 16):
        r = host.acnspawn("enter", "--working-directory=/proc/self/fd/%d" % n, "p", "ls")
        equal(r.rc, 125, "status with descriptor %d" % n)
    r = host.acnspawn("enter", "p", "sh", "-c", "ls -d /proc/self/cwd/../../acnspawn /acnspawn; cat /proc/self/mountinfo").expect(0)
    lacks(r.out, "acnspawn/mnt")
    host.acnspawn("stop", "--force", "p").expect(0)


@case
def a_system_call_that_the_app_may_not_make_fails(host):
    """CVE-2019-10145; and CVE-2019-10144: devices created by root with all capabilities."""
    app = {"isolators": [{"name": "os/linux/capabilities-remove-set", "value": {"set": ["CAP_MKNOD"]}},
                         {"name": "os/linux/seccomp-remove-set", "value": {"set": ["mkdir", "mkdirat"], "errno": "EXDEV"}}]}
    host.detach("--name=p", sleeper(host, app=app))
    r = host.acnspawn("enter", "p", "mkdir", "/srv/x")
    equal(r.rc, 1)
    contains(r.err, "ross-device")
    r = host.acnspawn("enter", "p", "mknod", "/srv/x", "b", "8", "0")
    contains(r.err, "not permitted")
    host.acnspawn("stop", "--force", "p").expect(0)


@case
def only_users_that_the_app_could_become(host):
    host.detach("--name=p", sleeper(host), sleeper(host, name="b", app={"user": "app", "group": "app"}))
    ids = "echo $(id -u) $(id -g) $(id -G)"
    equal(host.acnspawn("enter", "--app=a", "--user=app", "p", "sh", "-c", ids).expect(0).out, "1000 1000 1000 50\n")
    equal(host.acnspawn("enter", "--app=a", "--user=7:8", "p", "sh", "-c", ids).expect(0).out, "7 8 8\n")
    for user, is_ in ("app:", "1000 1000 1000 50"), (":8", "0 8 8"), ("1:", "1 0 0"):
        equal(host.acnspawn("enter", "--app=a", "-u", user, "p", "sh", "-c", ids).expect(0).out, is_ + "\n")
    contains(host.acnspawn("enter", "--app=a", "-u", ":", "p", "id").expect(2).err, "must be USER, USER:GROUP or :GROUP")
    contains(host.acnspawn("enter", "--app=b", "-u", ":8", "p", "id").expect(125).err, "could not become user 1000, group 8")
    r = host.acnspawn("enter", "--app=b", "--user=0", "p", "id").expect(125)
    contains(r.err, "could not become user 0")
    r = host.acnspawn("enter", "--app=a", "--user=nobody-here", "p", "id").expect(125)
    contains(r.err, "nobody-here is not in /etc/passwd")
    host.acnspawn("stop", "--force", "p").expect(0)


@both
def the_app_cannot_change_its_user_for_enter(host, *options):
    """If an app may write to passwd, none of its processes gains privileges from that: handlers, health checks, and
    commands of enter."""
    ids = "echo $(id -u) $(id -g) $(id -G)"
    files = {"etc/passwd": File("app:x:1000:1000::/:/bin/sh\n", 0o666), "etc/group": File("app:x:1000:\nstaff:x:50:app\n", 0o666)}
    spoil = "echo app:x:0:0::/:/bin/sh >/etc/passwd; printf 'root:x:0:app\\nadm:x:4:app\\n' >/etc/group; "
    handlers = [{"name": n, "exec": ["/bin/sh", "-c", spoil + ids + " >>/out/log"]} for n in ("pre-start", "post-stop")]
    for more in {}, {"eventHandlers": handlers}:
        image = host.shell(ids + " >>/out/log; " + spoil + "touch /out/up; while ! test -e /out/end; do sleep 0.05; done",
                           name="example.com/a", files=files, app={"user": "app", "group": "app", "supplementaryGIDs": [50], **more})
        uuid = host.detach("--name=p", *options, image, "--health-cmd=" + ids + " >>/out/log", "--health-interval=100ms")
        host.wait_up("a", uuid)
        equal(host.acnspawn("enter", "p", "sh", "-c", ids).expect(0).out, "1000 1000 1000 50\n")
        contains(host.acnspawn("enter", "--user=app", "p", "id").expect(125).err, "could not become user 0")
        lines = lambda: host.written("a", "out/log").decode().splitlines()
        n = len(lines())
        wait_for(lambda: len(lines()) > n + 2, "health checks after passwd was changed")
        host.acnspawn("enter", "p", "touch", "/out/end").expect(0)
        host.acnspawn("status", "--wait=20s", "p").expect(0)
        found = lines()
        true(len(found) > 3 and set(found) == {"1000 1000 1000 50"}, "who they were: %r" % found)
        host.acnspawn("rm", "p").expect(0)


@both
def an_app_cannot_block_enter(host, *options):
    """If /dev is a link in the image, /dev/null may be a FIFO whose other end is never opened."""
    script = "mkdir /e; mkfifo /e/null; ln -s e /n; mv -T /n /dev; touch /out/up; sleep 1000"
    host.detach("--name=p", *options, host.shell(script, name="example.com/a", files={"dev": Link("/d"), "d": Dir()}))
    host.wait_up("a")
    r = host.acnspawn("enter", "p", "echo", "in", timeout=20).expect(0)
    equal(r.out, "in\n")
    host.acnspawn("stop", "--force", "p").expect(0)


# --- Functions ----------------------------------------------------------------------------------------------------------

@case
def exec_has_the_options_of_other_tools(host):
    """Standard input and a terminal only if they are asked for; the other options are those of enter."""
    host.detach("--name=p", sleeper(host))
    show = "cat; tty; echo $A $B $(id -u) $PWD; echo err >&2; exit 7"
    file = host.path("variables")
    with open(file, "w") as f:
        f.write("A='1'\nB=2\n")
    options = ["--env-file=" + file, "-e", "B=4", "-u", "7:8", "-w", "/srv", "p", "sh", "-c", show]
    r = host.acnspawn("exec", *options, input=b"in\n").expect(7)
    equal((r.out, r.err), ("not a tty\n'1' 4 7 /srv\n", "err\n"))
    r = host.acnspawn("exec", "-i", *options, input=b"in\n").expect(7)
    equal((r.out, r.err), ("in\nnot a tty\n'1' 4 7 /srv\n", "err\n"))
    equal(host.acnspawn("enter", *options, input=b"").expect(7).out, "not a tty\n'1' 4 7 /srv\n")
    options[0] = "--environment-file=" + file
    equal(host.acnspawn("enter", *options, input=b"").expect(7).out, "not a tty\n1 4 7 /srv\n")
    contains(host.acnspawn("exec", "--timeout=200ms", "p", "sleep", "1000").expect(124).err, "timed out")
    for verb in "exec", "enter":
        contains(host.acnspawn(verb, "--timeout=0", "p", "true").expect(2).err, "must be longer than 0")
    equal(host.acnspawn("exec", "p", "kill", "-9", "$$").rc, 1)
    # On a terminal: what is typed is not for the command without -i, and it has no terminal without -t.
    for words, typed, said in (([], b"", b"not a tty"), (["-i"], b"typed\n\4", b"not a tty"), (["-it"], b"typed\n\4", b"/dev/"), (["-t"], b"typed\n\4", b"/dev/")):
        t = Terminal(host, "exec", *words, "p", "sh", "-c", "echo up; read x; echo got=$x; tty; exit 9")
        t.expect(b"up")
        if typed:
            t.send(typed)
        t.expect(b"got=typed" if typed else b"got=")
        t.expect(said)
        equal(t.process.wait(patience(60)), 9)
        t.check_mode()
    host.acnspawn("stop", "--force", "p").expect(0)


@case
def streams_and_status_are_the_commands(host):
    host.detach("--name=p", sleeper(host))
    r = host.acnspawn("enter", "p", "sh", "-c", "cat; echo err >&2; exit 7", input=b"in\0put" * 50000).expect(7)
    equal((r.out_bytes, r.err), (b"in\0put" * 50000, "err\n"))
    equal(host.acnspawn("enter", "p", "sh", "-c", "kill -9 $$").rc, 137)
    equal(host.acnspawn("enter", "p", "sh", "-c", "echo x >/dev/stdout; echo y >/dev/stderr").expect(0).out, "x\n")
    equal(host.acnspawn("enter", "p", "true", input=b"x" * 200000).rc, 0)
    big = host.acnspawn("enter", "p", "sh", "-c", "head -c 3000000 /dev/zero").expect(0)
    equal(len(big.out_bytes), 3000000)
    equal(host.acnspawn("enter", "p", input=b"echo $0\n").expect(0).out, "/bin/sh\n")
    equal(host.acnspawn("enter", "p", "--", "echo", "--app=x").expect(0).out, "--app=x\n")
    equal(host.acnspawn("enter", "--environment=A=1", "--environment=A=2", "--working-directory=/srv", "p", "sh", "-c",
                        "echo $A; pwd; env | grep -c ^A=").expect(0).out, "2\n/srv\n1\n")
    equal(host.acnspawn("enter", "-E", "HERE", "p", "sh", "-c", "echo \"$HERE\"", env=dict(os.environ, HERE="x  y")).expect(0).out, "x  y\n")
    words = ["echo", os.fsdecode(b"a\xff\xc3"), "\u00e9"]
    equal(host.acnspawn("enter", "p", *words).expect(0).out_bytes, b"a\xff\xc3 \xc3\xa9\n")
    # Background processes of a command do not block enter.
    r = host.acnspawn("enter", "p", "sh", "-c", "sleep 30 & echo done").expect(0)
    true(r.seconds < patience(10) and r.out == "done\n", str(r))
    p = host.start("enter", "p", "sh", "-c", "trap 'echo usr1; exit 5' USR1; echo up; while :; do sleep 0.1; done")
    equal(p.stdout.readline(), b"up\n")
    p.send_signal(signal.SIGUSR1)
    r = host.finish(p)
    equal((r.rc, r.out), (5, "usr1\n"))
    host.acnspawn("stop", "--force", "p").expect(0)


@case
def leftover_process_may_write_without_end(host):
    """The output of the command is passed on unchanged, also to a slow reader."""
    host.detach("--name=p", sleeper(host))
    p = host.start("enter", "p", "sh", "-c", "echo mine; yes & yes & yes & sleep 0.2; exit 3")
    contains(p.stdout.read(4096), b"mine\n")
    with within(15, "the end"):
        while os.read(p.stdout.fileno(), 65536):
            time.sleep(0.01)  # a slow reader
    equal(p.wait(timeout=patience(1)), 3)
    host.acnspawn("stop", "--force", "p").expect(0)


@case
def a_pipe_that_is_closed_ends_the_command(host):
    host.detach("--name=p", sleeper(host))
    p = host.start("enter", "p", "yes")
    p.stdout.read(10)
    p.stdout.close()
    equal(p.wait(timeout=patience(20)), 128 + signal.SIGPIPE)
    p.stdout = None
    host.acnspawn("stop", "--force", "p").expect(0)


@case
def errors_of_enter(host):
    image = sleeper(host)
    host.prepare("--name=p", image, sleeper(host, name="b"))
    contains(host.acnspawn("enter", "--app=a", "p").expect(1).err, "not running: it is prepared")
    host.acnspawn("run", "--detach", "p").expect(0)
    r = host.acnspawn("enter", "p").expect(1)
    contains(r.err, "several apps: say which one with --app=")
    contains(r.err, "a, b")
    contains(host.acnspawn("enter", "--app=c", "p").expect(1).err, "has no app 'c'")
    contains(host.acnspawn("enter", "nope").expect(1).err, "nope")
    equal(host.acnspawn("enter").rc, 2)
    equal(host.acnspawn("enter", "--environment=x", "p").rc, 2)
    equal(host.acnspawn("enter", "--working-directory=x", "p").rc, 2)
    contains(host.acnspawn("enter", "--app=a", "p", "nope").expect(127).err, "nope is not in the image")
    contains(host.acnspawn("enter", "--app=a", "p", "/etc/passwd").expect(126).err, "/etc/passwd")
    contains(host.acnspawn("enter", "--app=a", "--working-directory=/nope", "p", "ls").expect(125).err, "/nope")
    host.acnspawn("stop", "p").expect(0)
    host.detach("--name=q", "--exit-policy=all", host.image(["/bin/true"], name="example.com/a"), sleeper(host, name="b"))
    wait_for(lambda: host.app_status("q", "a")["state"] == "ended", "end of app a")
    contains(host.acnspawn("enter", "--app=a", "q").expect(1).err, "App a of pod")
    contains(host.acnspawn("enter", "--app=a", "q").expect(1).err, "not running: it has ended")
    host.acnspawn("stop", "--force", "q").expect(0)


@both
def an_app_that_comes_and_goes(host, *options):
    """It is entered, or reported as not running. A process that will become the app, but has not left the root of the
    pod's systemd yet, is not entered."""
    host.detach("--name=p", "--exit-policy=all", *options, host.shell("sleep 0.03", name="example.com/a"), "--restart=always",
                "--restart-delay=10ms", "--restart-delay-max=10ms", "--restart-limit=infinity")
    seen = set()
    for _ in range(60):
        copy = host.start("cp", "/etc/hostname", "p:/marker")
        for p in [host.start("enter", "p", "true") for _ in range(3)]:
            r = host.finish(p)
            true(r.rc in (0, 1, 125, 137, 143), str(r))
            seen.add(re.sub(r"pod [-0-9a-f]*", "pod", r.err))
        host.finish(copy)
        lacks(os.listdir(os.path.join(host.one_pod(), "root")), "marker", "the root of the pod's systemd")
    for words in seen - {""}:
        true("not running" in words or "just ended" in words or "which has ended" in words, "message: %s" % words)
    host.acnspawn("stop", "--force", "p").expect(0)


@case
def a_process_without_its_first_thread(host):
    """It has no process to enter; its files can be copied."""
    uuid = host.detach("--name=p", host.image(["/bin/poke", "leader"], name="example.com/a"))
    wait_for(lambda: host.app_status(uuid, "a")["state"] == "running", "app a")
    r = host.acnspawn("enter", "p", "true").expect(1)
    contains(r.err, "its main thread has ended")
    true(r.seconds < patience(5), "it took %.1f s to say so" % r.seconds)
    host.acnspawn("cp", "p:/etc/passwd", host.path("passwd")).expect(0)
    host.acnspawn("kill", "p").expect(0)
    host.acnspawn("status", "--wait=20s", "p").expect(0)


@case
def the_command_ends_with_the_pod(host):
    host.detach("--name=p", sleeper(host))
    p, pid = entered(host)
    host.acnspawn("stop", "p").expect(0)
    true(host.finish(p).rc in (137, 143), "status")
    true(not os.path.exists("/proc/" + pid), "the command is still there")


# --- Terminals ----------------------------------------------------------------------------------------------------------

@both
def a_terminal_is_one(host, *options):
    host.detach("--name=p", *options, sleeper(host, app={"user": "app", "group": "app"}))
    t = Terminal(host, "enter", "p", "sh", "-c", "tty; stty size; echo $TERM; read x; echo got $x; until stty size | grep '44 88'; do sleep 0.05; done; echo z >/dev/tty; exit 9")
    t.expect(b"/dev/pts/")
    t.expect(b"33 77")
    t.expect(b"xterm-test")
    t.resize(44, 88)
    t.process.send_signal(signal.SIGWINCH)
    t.send(b"word\r")
    t.expect(b"got word")
    t.expect(b"44 88")
    equal(t.end(), 9)
    host.acnspawn("stop", "--force", "p").expect(0)


@case
def keys_are_the_commands_and_the_terminal_is_put_back(host):
    host.detach("--name=p", sleeper(host))
    t = Terminal(host, "enter", "p", "sh", "-c", "trap 'echo interrupted; exit 3' INT; echo up; while :; do sleep 0.1; done")
    t.expect(b"up")
    t.send(b"\x03")
    t.expect(b"interrupted")
    equal(t.end(), 3)
    t = Terminal(host, "enter", "p", "sh", "-c", "echo up; sleep 1000")
    t.expect(b"up")
    t.process.terminate()
    equal(t.end(), 143)
    t = Terminal(host, "enter", "p", "sleep", "1000")
    wait_for(lambda: termios.tcgetattr(t.slave) != t.before, "raw mode")
    host.acnspawn("stop", "--force", "p").expect(0)
    equal(t.end(), 137)


@case
def redirected_streams_stay_separate(host):
    host.detach("--name=p", sleeper(host))
    path = host.path("errors")
    with open(path, "wb") as f:
        t = Terminal(host, "enter", "p", "sh", "-c", "echo on; echo off >&2; test -t 2 && echo wrong", stderr=f)
        t.expect(b"on")
        equal(t.end(), 1)
    equal(read_text(path), "off\n")
    host.acnspawn("stop", "--force", "p").expect(0)


@case
def labels_of_security_modules(host):
    """The command gets the profile of the app. If AppArmor is not active, a file that claims the opposite makes the
    launcher request the profile, which the kernel cannot apply."""
    if os.path.exists("/sys/module/apparmor"):
        raise Skip("AppArmor is built in")
    app = {"isolators": [{"name": "os/linux/apparmor-profile", "value": "acnspawn-test-profile"}]}
    uuid = host.detach("--name=p", sleeper(host, app=app), "--grant=apparmor-profile")
    host.acnspawn("enter", "p", "true").expect(0)  # is ignored, as for the app
    # The check is done by the supervisor, which has a separate mount namespace.
    script = ("mount -t tmpfs none /sys/module && mkdir -p /sys/module/apparmor/parameters && "
              "echo Y >/sys/module/apparmor/parameters/enabled")
    subprocess.run(["nsenter", "--mount", "--target", str(host.supervisor(uuid)), "sh", "-c", script], check=True)
    r = host.acnspawn("enter", "p", "echo", "ran")
    equal(r.out, "", "output of a command without its profile")
    contains(r.err, "Cannot use the AppArmor profile acnspawn-test-profile for app a")
    host.acnspawn("stop", "--force", "p").expect(0)


main()
