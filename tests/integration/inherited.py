#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A pod is the same, whatever it is started by: nothing of the caller reaches its processes, and no setting of the caller keeps it from
starting."""

import ctypes
import resource

from harness import *

MASKS = (0o027, 0o077, 0o777)
# Of the processes of an app and of the pod's PID 1.
FILES = "limits oom_score_adj timerslack_ns personality coredump_filter cgroup".split()
FIELDS = "Umask SigBlk SigIgn CapInh CapPrm CapEff CapBnd CapAmb NoNewPrivs Seccomp Cpus_allowed_list THP_enabled".split()
PR_SET_TIMERSLACK, PR_SET_THP_DISABLE, PR_SET_SECUREBITS = 29, 41, 28
ADDR_NO_RANDOMIZE = 0x0040000
IO_PRIORITY_GET, IO_PRIORITY_SET = 252, 251  # of x86-64
IDLE_IO = 3 << 13


def spoil():
    """What shells, cron and daemons pass on, knowingly or not."""
    libc = ctypes.CDLL(None)
    os.umask(0o077)
    os.nice(7)
    with open("/proc/self/oom_score_adj", "w") as f:
        f.write("321")
    with open("/proc/self/coredump_filter", "w") as f:
        f.write("0x1")
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    libc.personality(ADDR_NO_RANDOMIZE)
    libc.prctl(PR_SET_TIMERSLACK, 12345678, 0, 0, 0)
    libc.prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)
    libc.prctl(PR_SET_SECUREBITS, 1 << 2, 0, 0, 0)
    libc.syscall(IO_PRIORITY_SET, 1, 0, IDLE_IO)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, set(range(1, 32)) - {signal.SIGKILL, signal.SIGSTOP})
    for what, soft in ((resource.RLIMIT_NOFILE, 256), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_NPROC, 4096),
                       (resource.RLIMIT_FSIZE, 1 << 24), (resource.RLIMIT_STACK, 1 << 21), (resource.RLIMIT_CPU, 300)):
        hard = resource.getrlimit(what)[1]
        resource.setrlimit(what, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def inherits(pid):
    """What process PID has that its children get."""
    found = {name: read_text("/proc/%d/%s" % (pid, name)) for name in FILES}
    found["cgroup"] = re.sub(UUID, "UUID", found["cgroup"])
    status = read_text("/proc/%d/status" % pid)
    for field in FIELDS:
        got = re.search(r"^%s:[ \t]*(.*)$" % field, status, re.M)
        found[field] = got and got.group(1)
    found["nice"] = os.getpriority(os.PRIO_PROCESS, pid)
    found["policy"] = os.sched_getscheduler(pid)
    if os.uname().machine == "x86_64":
        found["io priority"] = ctypes.CDLL(None).syscall(IO_PRIORITY_GET, 1, pid)
    stat = read_text("/proc/%d/stat" % pid).rpartition(")")[2].split()
    found["terminal"] = stat[4]
    return found


def of_pod(host, name):
    """Of the pod's PID 1 and of each app."""
    leader = host.leader(name)
    apps = {a["name"] for a in host.status(name)["apps"]}

    def sleepers():
        found = {re.search(r"AC_APP_NAME=([^\0]*)", read_text("/proc/%d/environ" % pid)).group(1): pid
                 for pid in below(leader) if name_of(pid) == "sleep"}
        return found if set(found) == apps else None
    return {"PID 1": inherits(leader), **{app: inherits(pid) for app, pid in wait_for(sleepers, "the programs of the apps").items()}}


def below(pid):
    return [p for child in children_of(pid) for p in [child] + below(child)]


def same(got, expected):
    for who in expected:
        for what in expected[who]:
            equal(got[who][what], expected[who][what], "%s of %s" % (what, who))


def sleeper(host):
    return host.shell("touch /out/up; exec sleep 1000", name="example.com/app")


@case
def a_pod_starts_with_any_umask(host):
    """Modes of files that the pod's systemd or its apps need are not the caller's matter."""
    for mask in MASKS:
        r = host.run("--rm", "--volume=data,kind=empty", host.shell("umask; touch /data/a; cat /etc/hosts /etc/passwd >/dev/null"),
                     "--mount=volume=data,target=/data", preexec_fn=lambda: os.umask(mask))
        equal(r.out.splitlines()[0], "0022", "the umask of the app")


@case
def a_boot_that_fails_names_what_pid_1_cannot_reach(host):
    uuid = host.prepare("--name=p", host.shell("true"))
    directory = host.pod_dir(uuid) + "/root/usr"
    os.makedirs(directory, exist_ok=True)
    os.chown(directory, 0, 0)
    os.chmod(directory, 0o750)
    r = host.acnspawn("run", "p").expect(1)
    contains(r.err, "its PID 1 cannot enter")
    contains(r.err, "/root/usr, which has the mode 0750 and is of user 0")


@case
def an_app_of_a_user_starts_with_any_umask(host):
    image = host.shell("id -u; cat /etc/hostname >/dev/null; echo x >/out/x; ls -d /dev/shm >/dev/null; echo done", app={
        "user": "app", "group": "app"})
    for mask in MASKS:
        equal(host.run("--rm", image, preexec_fn=lambda: os.umask(mask)).out, "1000\ndone\n")


@case
def files_have_the_same_modes_with_any_umask(host):
    """All files and directories of the store and of a running pod that were made by acnspawn."""
    def modes(name, mask):
        directory = host.path("store-" + name)
        options = ["--dir=" + directory]

        def run(*words):
            r = subprocess.run([ACNSPAWN] + options + list(words), stdin=subprocess.DEVNULL, capture_output=True,
                               preexec_fn=lambda: os.umask(mask), timeout=patience(60))
            equal(r.returncode, 0, "exit status of %s (%s)" % (words, r.stderr))

        run("fetch", image)
        run("prepare", "--name=prepared", "--set-credential=c:x", "example.com/app")
        run("run", "--detach", "--name=p", "--volume=v,kind=empty", "--volume=named:/named", "--set-credential=c:x",
            "example.com/app", "--mount=volume=v,target=/v")
        run("add-app", "p", "--start", "example.com/app", "--name=second")
        found = {}
        for top, names, files in os.walk(directory):
            for one in names + files:
                path = os.path.join(top, one)
                st = os.lstat(path)
                key = re.sub(r"\d+-\d+\.tmp", "N", UUID.sub("UUID", os.path.relpath(path, directory)))
                if "/journal/" not in key:
                    found[key] = "%o" % st.st_mode
        run("stop", "--force", "p")
        return found

    image = sleeper(host)
    host.dir = host.tmp
    usual = modes("a", 0o022)
    for name, mask in (("b", 0o077), ("c", 0o027), ("d", 0)):
        now = modes(name, mask)
        differ = {k: (v, usual[k]) for k, v in now.items() if k in usual and usual[k] != v}
        equal(differ, {}, "files whose modes differ with a umask of %o" % mask)


@case
def files_that_the_caller_names_have_the_modes_of_the_callers_umask(host):
    host.acnspawn("fetch", sleeper(host)).expect(0)
    for mask, mode in ((0o077, 0o600), (0o002, 0o664), (0o022, 0o644)):
        path = host.path("%o.aci" % mask)
        host.acnspawn("image", "export", "example.com/app", "-o", path, preexec_fn=lambda: os.umask(mask)).expect(0)
        equal(os.stat(path).st_mode & 0o777, mode, "mode of the file with a umask of %o" % mask)


@case
def nothing_of_the_caller_reaches_a_pod(host):
    """In the background, in the foreground, and for apps that are added."""
    image = sleeper(host)
    host.acnspawn("run", "--detach", "--name=usual", image, "--name=app").expect(0)
    usual = of_pod(host, "usual")
    host.acnspawn("run", "--detach", "--name=detached", image, "--name=app", preexec_fn=spoil).expect(0)
    same(of_pod(host, "detached"), usual)
    p = host.start("run", "--name=front", image, "--name=app", preexec_fn=spoil)
    host.wait_named("front")
    host.wait_up("app", host.status("front")["uuid"])
    same(of_pod(host, "front"), usual)
    for name in "usual", "front":
        host.acnspawn("add-app", name, "--start", image, "--name=added", preexec_fn=spoil).expect(0)
    same(of_pod(host, "front"), of_pod(host, "usual"))
    for name in "usual", "detached", "front":
        host.acnspawn("stop", "--force", name, preexec_fn=spoil).expect(0)
    host.finish(p)


@case
def signals_that_the_parent_has_blocked_end_a_pod(host):
    for sig in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
        p = host.start("run", "--rm", "--name=p%d" % sig, sleeper(host), preexec_fn=spoil)
        host.wait_named("p%d" % sig)
        host.wait_up("app", host.status("p%d" % sig)["uuid"])
        os.kill(p.pid, sig)
        true(host.finish(p).rc in (143, 0), "the pod has not ended in order")


main()
