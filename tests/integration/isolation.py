#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""An app has access to its own root, /proc, /sys and /dev, a separate network, and to nothing of the host, of the pod's
systemd, or of other apps."""

import errno
import platform
import socket
import stat

from harness import *


def show_of(host, *options, **app):
    host.run(*options, host.image(["/bin/show"], name="example.com/a", app=app))
    return host.show("a")


@both
def no_descriptors_leak(host, *options):
    """Neither acnspawn's, nor nspawn's, nor systemd's; nor those that were inherited by acnspawn without
    close-on-exec."""
    r, w = os.pipe()
    os.set_inheritable(r, True)
    os.set_inheritable(w, True)
    host.acnspawn("run", *options, host.image(["/bin/show"], name="example.com/a"), pass_fds=(r, w)).expect(0)
    os.close(r)
    os.close(w)
    equal(sorted(host.show("a").fds), [0, 1, 2], "descriptors of the app")


@both
def device_nodes_of_the_specification(host, *options):
    show = show_of(host, *options)
    expected = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
    for name, number in expected.items():
        true(name in show.dev, "/dev/%s is missing" % name)
        node = show.dev[name]
        equal((node["major"], node["minor"]), number, "/dev/" + name)
        equal(node["mode"] & 0o170000, 0o020000, "type of /dev/" + name)
    for name in ("fd", "stdin", "stdout", "stderr", "ptmx", "shm", "pts"):
        true(name in show.dev, "/dev/%s is missing" % name)
    extra = [n for n, d in show.dev.items() if d["mode"] & 0o170000 == 0o060000]
    equal(extra, [], "block devices")
    known = set(expected) | {"console", "ptmx", "net", "fuse", "kmsg"}
    odd = [n for n, d in show.dev.items() if d["mode"] & 0o170000 == 0o020000 and n not in known]
    equal(odd, [], "other character devices")


def refuse_calls(first, last, error=errno.EPERM):
    """As a container does whose filter of system calls does not know those from number FIRST to LAST."""
    class Filter(ctypes.Structure):
        _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint32)]

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.POINTER(Filter))]

    # The number of the call; those are errors, others are allowed.
    rules = (Filter * 5)(Filter(0x20, 0, 0, 0), Filter(0x35, 0, 1, first), Filter(0x25, 0, 1, last), Filter(0x06, 0, 0, 0x7fff0000),
                         Filter(0x06, 0, 0, 0x00050000 | error))
    if ctypes.CDLL(None).prctl(22, 2, ctypes.byref(Program(5, rules)), 0, 0) < 0:  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
        os._exit(125)


def refuse_landlock():
    refuse_calls(444, 446)


@case
def system_calls_that_are_refused_from_outside(host):
    """Those that a pod needs are named with the failure; of those that it can be without, a pod and a command beside its app are."""
    if platform.machine() != "x86_64":
        raise Skip("the numbers of system calls are those of x86-64")
    hint = "filter of system calls that acnspawn itself runs in, as in a container, refuses %s()."
    app = host.shell("exec sleep 600")
    os.mkdir(host.path("source"))
    calls = {"open_tree": 428, "move_mount": 429, "pidfd_open": 434, "openat2": 437}
    for n, (name, number) in enumerate(calls.items()):
        error = (errno.EPERM, errno.ENOSYS, errno.EACCES)[n % 3]
        r = host.acnspawn("run", app, "--volume=%s:/v" % host.path("source"), preexec_fn=lambda: refuse_calls(number, number, error))
        true(r.rc != 0, name)
        contains(r.err, hint % name)
    # Of the machine's own numbers: sched_setaffinity, sched_getaffinity; ioprio_set, ioprio_get; personality; keyctl.
    for first, last, error in ((203, 204, errno.EPERM), (251, 252, errno.ENOSYS), (135, 135, errno.EACCES), (250, 250, errno.EPERM)):
        host.acnspawn("run", "--detach", "--name=p", app, preexec_fn=lambda: refuse_calls(first, last, error)).expect(0)
        equal(host.acnspawn("enter", "p", "--", "echo", "in", preexec_fn=lambda: refuse_calls(first, last, error)).expect(0).out, "in\n")
        host.acnspawn("rm", "--force", "p").expect(0)


@case
def signals_by_descriptors_that_are_refused_from_outside(host):
    """They are sent by number: nothing waits for the time-outs of what they would have ended, and the app gets its signal."""
    if platform.machine() != "x86_64":
        raise Skip("the numbers of system calls are those of x86-64")
    app = host.shell("trap 'echo bye >/v/end; exit 0' TERM; echo x >/v/begin; sleep 600 & wait")
    # From 255 on the pod's systemd has no other way itself.
    version = int(subprocess.run(["systemctl", "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()[1])
    for error in errno.EPERM, errno.ENOSYS, errno.EACCES:
        refused = {"preexec_fn": lambda: refuse_calls(424, 424, error)}  # pidfd_send_signal
        volume = host.path(errno.errorcode[error])
        os.mkdir(volume)
        host.acnspawn("run", "--detach", "--name=p", app, "--volume=%s:/v" % volume, **refused).expect(0)
        wait_for(lambda: os.path.exists(volume + "/begin"), "the app")
        equal(host.acnspawn("enter", "p", "--", "echo", "in", **refused).expect(0).out, "in\n")
        host.acnspawn("kill", "--signal=CONT", "p", **refused).expect(0)
        with within(15, "the stop"):
            host.acnspawn("stop", "p", **refused).expect(0)
        if version < 255:
            equal(read_text(volume + "/end"), "bye\n")
        host.acnspawn("rm", "p", **refused).expect(0)


@case
def landlock_that_is_refused_from_outside(host):
    """It is named, and an option goes on without; the verdict says so."""
    one, two = (host.shell("touch /out/up; sleep 1000", name="example.com/" + n) for n in "ab")
    r = host.acnspawn("run", "--name=p", one, preexec_fn=refuse_landlock)
    true(r.rc != 0, r)
    contains(r.err, "Landlock is refused, by a filter of system calls that acnspawn itself runs in")
    contains(r.err, "--landlock=optional")
    p = host.start("run", "--name=q", "--exit-policy=all", one, "--landlock=optional", "---", two, "--landlock=optional", preexec_fn=refuse_landlock)
    host.wait_named("q")
    for app in "ab":
        host.wait_up(app, host.status("q")["uuid"])
    r = host.acnspawn("status", "q", preexec_fn=refuse_landlock).expect(0)
    contains(r.out, "exposed, apps of one user can access each other's processes: Landlock is refused by a filter of system calls")
    contains(host.acnspawn("run", "--strict", "--name=s", one, "---", two, preexec_fn=refuse_landlock).expect(1).err, "Landlock is refused by a filter")
    host.acnspawn("stop", "q").expect(0)
    host.finish(p)


@both
def devices_work(host, *options):
    r = host.run(*options, host.shell(
        "echo x >/dev/null && head -c 4 /dev/zero | wc -c; head -c 4 /dev/urandom | wc -c; head -c 4 /dev/random | wc -c; "
        "echo x 2>/dev/null >/dev/full || echo full; echo s >/dev/shm/f && cat /dev/shm/f"))
    equal(r.out, "4\n4\n4\nfull\ns\n")


@both
def standard_streams_can_be_opened_by_name(host, *options):
    """For images whose log file is a symlink to /dev/stdout."""
    r = host.run(*options, host.shell("echo out >/dev/stdout; echo err >/dev/stderr; ln -s /dev/stdout /srv/log; echo log >>/srv/log",
                                      app={"user": "0"}))
    equal((r.out, r.err), ("out\nlog\n", "err\n"))


@both
def standard_streams_can_be_opened_by_a_user(host, *options):
    r = host.run(*options, host.shell("echo out >/dev/stdout; echo err >/dev/stderr", app={"user": "1000", "group": "1000"}))
    equal((r.out, r.err), ("out\n", "err\n"))


@both
def file_systems_of_the_specification(host, *options):
    mounts_ = show_of(host, *options).mounts()
    equal(mounts_["/proc"][1], "proc")
    equal(mounts_["/sys"][1] in ("sysfs", "tmpfs"), True, "/sys is %s" % mounts_["/sys"][1])
    equal(mounts_["/dev/shm"][1], "tmpfs")
    equal(mounts_["/dev/pts"][1], "devpts")
    true("ro" in mounts_["/sys"][0] or "ro" in mounts_["/sys"][2], "/sys is writable: %r" % (mounts_["/sys"],))


@both
def pseudo_terminals_work(host, *options):
    r = host.run(*options, host.shell("ls -l /dev/ptmx >/dev/null && script=1; test -c /dev/pts/ptmx && echo pts"))
    equal(r.out, "pts\n")


@both
def only_its_own_mounts_are_seen(host, *options):
    """No path of the host, of the pod's root or of another app is in the mount table."""
    sleeper = host.shell("trap 'exit 0' TERM; sleep 1000 & wait", name="example.com/sleeper")
    shower = host.image(["/bin/show"], name="example.com/a")
    host.run("--exit-policy=any", *options, shower, sleeper)
    show = host.show("a")
    points = set(show.mounts())
    for point in points:
        true(re.match(r"/$|/(proc|sys|dev)($|/)", point) or point in ("/etc/resolv.conf", "/etc/hosts", "/etc/hostname"),
             "unexpected mount %s" % point)
    lacks(show.mountinfo, "sleeper", "mount table")


@both
def host_tree_is_out_of_reach(host, *options):
    marker = host.path("marker")
    with open(marker, "w") as f:
        f.write("of the host")
    r = host.run(*options, host.shell(
        "for p in / /proc/1/root /proc/self/root /proc/1/cwd /.. /../.. ; do test -e $p%s && echo reached $p; done; "
        "ls /acnspawn /run/systemd /run/host 2>/dev/null; true" % marker))
    equal(r.out, "")


@both
def kernel_secrets_are_masked(host, *options):
    r = host.run(*options, host.shell(
        "for f in kcore keys sysrq-trigger timer_list kallsyms latency_stats scsi/scsi; do poke read /proc/$f; done; "
        "for f in sysrq-trigger sys/kernel/core_pattern sys/kernel/modprobe sys/vm/panic_on_oom sys/kernel/sysrq irq/default_smp_affinity;"
        " do poke open /proc/$f; done; poke open /sys/kernel/uevent_helper; poke open /sys/power/state; true"))
    for line in r.out.splitlines():
        if "read /proc/kallsyms: possible" in line or "read /proc/timer_list: possible" in line:
            fail("readable: " + line)
        lacks(line, "possible", "access")


# Files that podman and docker mask, and files that they make read-only, by default (2025).
MASKED = ("/proc/acpi /proc/asound /proc/interrupts /proc/kcore /proc/keys /proc/latency_stats /proc/sched_debug /proc/scsi /proc/timer_list "
          "/proc/timer_stats /sys/dev/block /sys/devices/virtual/powercap /sys/firmware /sys/fs/selinux").split()
MASKED_MORE = ("/proc/config.gz", "/proc/kallsyms", "/proc/sysrq-trigger", "/sys/kernel/vmcoreinfo")
READ_ONLY = "/proc/bus /proc/fs /proc/irq /proc/sys /proc/sysrq-trigger".split()


def shown_by(host, *options):
    """Prints masked files that are visible in an app, and read-only ones that can be opened for writing."""
    script = ("for p in %s /sys/devices/system/cpu/cpu*/thermal_throttle; do if test -d $p; then ls -A $p | sed \"s,^,$p/,\"; "
              "elif test -e $p && head -c 1 $p 2>/dev/null | grep -q .; then echo $p; fi; done; "
              "for p in %s; do find $p -type f 2>/dev/null | head -n 200 | while read f; do poke open $f | grep possible; done; done; true"
              % (" ".join(MASKED + list(MASKED_MORE)), " ".join(READ_ONLY)))
    return host.run(*options, host.shell(script, name="example.com/a")).out


@both
def files_masked_by_container_engines_are_masked(host, *options):
    there = [p for p in MASKED + list(MASKED_MORE) if os.path.exists(p)]
    true(len(there) > 5, "the host itself has only %r" % there)
    equal(shown_by(host, *options), "", "what is not masked")


@case
def masks_are_there_for_apps_that_may_mount(host):
    image = host.shell("for p in %s; do test -e $p && head -c 1 $p 2>/dev/null; ls -A $p 2>/dev/null | grep -v '^/'; done; true"
                       % " ".join(p for p in MASKED + list(MASKED_MORE)), name="example.com/a")
    equal(host.run(image, "--caps-retain=sys_admin,dac_override,dac_read_search,syslog,sys_rawio").out, "", "what is not masked")


@both
def files_for_root_of_the_host_are_masked(host, *options):
    """Without a user namespace root of the app is root of the host for the modes of files in /proc and /sys."""
    r = host.run(*options, host.shell(
        "for f in slabinfo vmallocinfo pagetypeinfo; do poke read /proc/$f; done; "
        "for f in kpagecount kpageflags kpagecgroup; do test -e /proc/$f && head -c 8 /proc/$f | grep -q . && echo $f: possible; done; "
        "poke open /proc/dynamic_debug/control; ls -A /sys/devices/virtual/powercap | grep . && echo powercap: possible; true"))
    lacks(r.out, "possible", "access")


@both
def paths_can_be_masked_and_read_only_instead(host, *options):
    """Paths are looked up in the root of the app, and in its volumes; in each pid namespace."""
    os.mkdir(host.path("volume"))
    with open(host.path("volume/file"), "w") as f:
        f.write("secret")
    script = ("for p in /proc/keys /srv/link /srv/volume/file; do head -c 1 $p 2>/dev/null; done; ls -A /var; "
              "for p in /proc/fs /etc/passwd /tmp; do if test -d $p; then touch $p/x; else echo >>$p; fi 2>/dev/null && echo $p; done; "
              "touch /srv/x && head -c 1 /proc/interrupts >/dev/null; echo rest $?")
    image = host.shell(script, files={"var/x": File("x"), "srv/link": Link("/etc/group"), "srv/volume": Dir()})
    for pid in ("pod", "private"):
        r = host.run(*options, image, "--pid=" + pid, "--volume=%s:/srv/volume" % host.path("volume"),
                     "--masked-paths=/proc/keys,/srv/link,/srv/volume/file,/var,/nothing/there,/etc/passwd/x",
                     "--read-only-paths=/proc/fs,/etc/passwd,/tmp,/nothing")
        equal(r.out, "rest 0\n", pid)
    contains(host.acnspawn("prepare", image, "--masked-paths=/a/../b").expect(2).err,
             "must be default, none, or absolute paths without '..', separated by commas")


@both
def devices_of_the_host_that_are_given(host, *options):
    """Here null stands for a device that an app does not have otherwise: each has a /dev of its own."""
    os.mkdir(host.path("devices"))
    os.mknod(host.path("devices/zero"), stat.S_IFCHR, os.makedev(1, 5))
    os.chmod(host.path("devices/zero"), 0o620)
    os.symlink("zero", host.path("devices/link"))
    show = "cd /dev; for f in given sub/given dir/zero null; do stat -c '%n %F %t,%T %a' $f; done; head -c 3 given | wc -c"
    image = host.shell(show + "; ls dir; touch x 2>/dev/null || echo refused; ls | wc -l", name="example.com/a")
    r = host.run(*options, image, "--device=/dev/null", "--device=%s:/dev/given,%s:/dev/sub/given" % ((host.path("devices/link"),) * 2),
                 "--device=%s:/dev/dir" % host.path("devices"))
    lines = r.out.splitlines()
    equal(lines[:7], ["given character special file 1,5 620", "sub/given character special file 1,5 620",
                      "dir/zero character special file 1,5 620", "null character special file 1,3 666", "3", "zero", "refused"])
    other = int(host.run(*options, host.shell("ls /dev | wc -l")).out)
    equal(int(lines[7]), other + 4, "entries of /dev, with one for credentials")
    # All of them: those of the host, beside what each app has. Others may make some meanwhile.
    def devices():
        found = 0
        for d, _, files in os.walk("/dev"):
            for f in files:
                with contextlib.suppress(FileNotFoundError):
                    found += (not d.startswith(("/dev/pts", "/dev/shm", "/dev/mqueue")) and f not in ("console", "ptmx")
                              and stat.S_IFMT(os.lstat(os.path.join(d, f)).st_mode) in (stat.S_IFCHR, stat.S_IFBLK))
        return found

    before = devices()
    r = host.run(*options, host.shell("find /dev -path /dev/pts -prune -o '(' -type c -o -type b ')' -print | grep -vx -e /dev/console "
                                      "-e /dev/ptmx | wc -l; echo x >/dev/null && echo written"), "--device=all")
    after = devices()
    count, *written = r.out.split()
    equal(written, ["written"])
    true(min(before, after) <= int(count) <= max(before, after), "%s devices, the host has %d, and %d later" % (count, before, after))
    for value, message in (("/dev/none-such", "the device /dev/none-such of the host: No such file"), ("/etc/passwd:/dev/x", "is not a device")):
        contains(host.acnspawn("run", *options, image, "--device=" + value).expect(125).err, message)
    for value in ("/dev/null:/etc/x", "dev/null", "/dev/../x"):
        contains(host.acnspawn("prepare", image, "--device=" + value).expect(2).err, "must be none, or all, or absolute paths of devices")


@both
def devices_that_are_filtered(host, *options):
    """Numbers for which no host has a driver: it is an error to open them, but another one. The filter is that of each process of the app."""
    os.mkdir(host.path("devices"))
    for name, number in ("a", 1), ("b", 2):
        os.mknod(host.path("devices/" + name), stat.S_IFBLK | 0o666, os.makedev(240, number))
        os.chmod(host.path("devices/" + name), 0o666)
    a, b = host.path("devices/a"), host.path("devices/b")
    volume = ["--volume=dev,kind=host,source=%s,dev=true" % host.path("devices"), "--mount=dev:/srv"]
    image = host.shell(OPEN_EACH + "/dev/a /srv/a /srv/b /dev/null", name="example.com/a")
    for more, expected in (([], "yyy yyy yyy yyy"), (["--device=%s:/dev/a" % a], "yyy yyy yyy yyy"), (["--device=%s:/dev/a:r" % a], "ynn ynn nnn yyy"),
                           (["--device=%s:/dev/a:w,%s:/dev/b" % (a, b)], "nyn nyn yyy yyy"),
                           (["--device-policy=closed"], "yyy nnn nnn yyy"), (["--device-policy=closed", "--device=%s:/dev/a" % a], "yyy yyy nnn yyy"),
                           (["--device-policy=closed", "--device=all"], "yyy yyy yyy yyy"),
                           (["--device=%s:/dev/a:r" % a, "--device=%s:/dev/a2:w" % a], "yyy yyy nnn yyy")):
        # What is not there is another error, too.
        equal(host.run(*options, *volume, image, *more).out.split(), expected.split(), more)
    # Handlers, health checks, restarts and commands beside the app, and an app of the same name that comes after it.
    loop = host.shell("while :; do sleep 0.05; done", name="example.com/loop")
    host.acnspawn("run", "--detach", *options, "--exit-policy=never", "--name=p", *volume, loop, "--device=%s:/dev/a:r" % a, "--health-cmd=true",
                  "--name=app").expect(0)
    check = lambda: host.acnspawn("enter", "--app=app", "p", "--", "/bin/sh", "-c", OPEN_EACH + "/dev/a /srv/b").expect(0).out.split()
    equal(check(), ["ynn", "nnn"])
    host.acnspawn("stop-app", "p", "app").expect(0)
    host.acnspawn("start-app", "p", "app").expect(0)
    equal(check(), ["ynn", "nnn"])
    host.acnspawn("rm-app", "--force", "p", "app").expect(0)
    host.acnspawn("add-app", "p", "--start", loop, "--device=%s:/dev/a" % b, "--device-policy=closed", "--name=app").expect(0)
    equal(check(), ["yyy", "yyy"])
    host.acnspawn("stop", "p").expect(0)
    contains(host.acnspawn("prepare", image, "--device=all,/dev/null:r").expect(2).err, "must be none, or all, or absolute paths of devices")


@case
def sys_can_be_writable(host):
    """Parameters of the loopback are of the pod's network; a cgroup is made below the app's own."""
    script = ("cat /sys/class/net/lo/tx_queue_len; (echo 77 >/sys/class/net/lo/tx_queue_len) 2>/dev/null && cat /sys/class/net/lo/tx_queue_len; "
              "d=$(sed -n 's/^0:://p' /proc/self/cgroup); for t in /sys/fs/cgroup /sys/fs/cgroup/unified; do test -e $t/cgroup.procs && "
              "mkdir $t$d/below 2>/dev/null && rmdir $t$d/below && echo made; done; true")
    image = host.shell(script)
    capability = "--caps-retain=net_admin,dac_override"
    before = read_text("/sys/class/net/lo/tx_queue_len").strip()
    equal(host.run("--no-userns", image, capability, "--sys=writable").out.split(), ["1000", "77", "made"])
    # Another app of the same pod, once that one has written, and one of another pod.
    other = host.shell("f=/sys/class/net/lo/tx_queue_len; until grep -q 77 $f; do sleep 0.05; done; (echo 88 >$f) 2>/dev/null; cat $f",
                       name="example.com/other")
    r = host.run("--no-userns", host.shell(script, name="example.com/a"), capability, "--sys=writable", other, capability)
    equal([line for line in r.out.splitlines() if line.startswith("other")], ["other: 77"])
    equal(host.run("--no-userns", image, capability).out.split(), ["1000"])
    equal(read_text("/sys/class/net/lo/tx_queue_len").strip(), before)
    for verb in ["run"], ["prepare"], ["prepare", "--dry-run", "--strict"]:
        contains(host.acnspawn(*verb, image, "--sys=writable").expect(1).err, "cannot have a writable /sys in a pod with users of its own")
        contains(host.acnspawn(*verb, image, '--annotation=acnspawn/hooks=[{"path":"/bin/true"}]').expect(1).err, "cannot have hooks on the host")


@both
def paths_cannot_be_masked_outside_of_the_root(host, *options):
    """Links of the image lead to paths of the image; links of the kernel are not followed."""
    with open(host.path("file"), "w") as f:
        f.write("x")
    lists = lambda path: ["--masked-paths=" + path, "--read-only-paths=" + path]
    image = host.shell("echo up", files={"srv/out": Link("../../../../.." + host.path("")), "srv/magic": Link("/proc/1/root/etc")})
    equal(host.run(*options, image, *lists("/srv/out")).out, "up\n")
    r = host.acnspawn("run", *options, image, *lists("/srv/magic")).expect(125)
    contains(r.err, "Cannot make read-only /srv/magic: Too many levels of symbolic links")
    equal(read_text(host.path("file")), "x")
    os.unlink(host.path("file"))


@both
def masks_cannot_be_taken_away(host, *options):
    r = host.run(*options, host.shell(
        "for p in /proc/sys /proc /sys /dev /proc/kcore /proc/keys /proc/sysrq-trigger; do poke umount $p; done; "
        "poke mount /proc; poke mount /tmp; true"))
    lacks(r.out, "possible", "unmounting")


@both
def device_nodes_of_the_host_cannot_be_made_or_used(host, *options):
    """CAP_MKNOD is in the default set; device nodes must still be unusable."""
    disk = os.stat(host.tmp).st_dev
    r = host.run(*options, host.shell("mknod /tmp/disk b %d %d; test -b /tmp/disk && poke read /tmp/disk; mknod /tmp/mem c 1 1 && poke read /tmp/mem; "
                                      "mknod /tmp/kmsg c 1 11 && poke read /tmp/kmsg; true"
                                      % (os.major(disk), os.minor(disk))))
    lacks(r.out, "possible", "use of a device")


@both
def programs_of_the_host_cannot_be_written_through_proc(host, *options):
    """The launcher and the pod's systemd are files of the host: they cannot be written by /proc/PID/exe or a command
    "/proc/self/exe"."""
    launcher = os.path.join(os.path.dirname(ACNSPAWN), "../stage1/launch")
    before = [open(p, "rb").read() for p in (launcher, "/usr/lib/systemd/systemd") if os.path.exists(p)]
    true(before, "neither launcher nor systemd found")
    image = host.shell("for i in 1 2 3 4 5; do for p in /proc/[0-9]*/exe; do poke open $p; done; sleep 0.1; done; true",
                       name="example.com/a", app={"eventHandlers": [{"name": "post-stop", "exec": [
                           "/bin/sh", "-c", "for p in /proc/[0-9]*/exe; do poke open $p; done; true"]}]})
    r = host.run(*options, image)
    lacks(r.out, "possible", "opening programs for writing")
    for path in ("/proc/self/exe", "/proc/1/exe", "/proc/self/fd/3", "/proc/thread-self/exe"):
        r = host.acnspawn("run", "--rm", *options, host.image([path, "main", "a"], name="example.com/a"), timeout=30)
        true(r.rc in (125, 126, 127, 1, 2), "%s: %s" % (path, r))
    after = [open(p, "rb").read() for p in (launcher, "/usr/lib/systemd/systemd") if os.path.exists(p)]
    true(before == after, "a program of the host was changed")


@both
def working_directory_is_no_way_out(host, *options):
    """Descriptors of the launcher must not be accessible as a working directory."""
    image = host.shell("ls -d ../var/lib/dpkg ../../../etc/hostname /proc/self/cwd/../../../acnspawn 2>/dev/null; true",
                       name="example.com/a")
    for n in range(3, 16):
        r = host.acnspawn("run", "--rm", *options, image, "--working-directory=/proc/self/fd/%d" % n)
        equal(r.out, "", "what is seen from descriptor %d" % n)
        true(r.rc in (0, 125), "descriptor %d: %s" % (n, r))


@both
def system_files_that_are_links_in_the_image(host, *options):
    """At the mount points of masks, devices and terminals, the image has links to its own files or to paths of the
    host."""
    files = {"srv/target": File("of the image"), "dev/null": Link("/srv/target"), "dev/pts": Link("/etc"),
             "dev/console": Link("/srv/target"), "dev/shm": Link("/srv"), "proc/kcore": Link("/srv/target"),
             "etc/resolv.conf": Link("/srv/target"), "etc/hosts": Link("../../../../etc/hosts"), "etc/hostname": Link("/dev/null")}
    r = host.run(*options, host.shell("echo x >/dev/null; cat /srv/target; ls /srv; test -c /dev/null && echo device", files=files))
    equal(r.out, "of the image" + "target\ndevice\n")


@both
def modern_system_calls_do_not_kill(host, *options):
    """clone3 and similar calls return, at worst ENOSYS; a program built against a newer libc runs."""
    host.run(*options, host.image(["/bin/poke", "modern"]))


@case
def network_is_loopback_alone(host):
    show = show_of(host)
    interfaces = [line.split(":")[0].strip() for line in show.net_dev.splitlines() if ":" in line]
    equal(interfaces, ["lo"], "interfaces")
    true(show.namespaces["net"] != os.readlink("/proc/self/ns/net"), "the pod is in the host's network")


@case
def loopback_is_up_and_shared_by_the_apps(host):
    server = host.shell("while ! test -e /out/done; do echo answer | nc -l -p 80 127.0.0.1 && touch /out/done; done",
                        name="example.com/server")
    client = host.shell("for i in $(seq 100); do nc 127.0.0.1 80 </dev/null >/out/got 2>/dev/null; test -s /out/got && exit 0; "
                        "sleep 0.05; done; exit 1", name="example.com/client")
    host.run(server, client)
    equal(host.written("client", "out/got"), b"answer\n")


@case
def low_ports_can_be_bound_by_an_unprivileged_app_with_the_capability_only(host):
    r = host.run(host.shell("nc -l -p 80 127.0.0.1 & sleep 0.3; kill $! 2>/dev/null && echo listening"))
    equal(r.out, "listening\n")


@case
def host_network_by_name(host):
    show = show_of(host, "--net=host")
    equal(show.namespaces["net"], os.readlink("/proc/self/ns/net"))


@case
def abstract_sockets_of_the_host_are_out_of_reach(host):
    listener = socket.socket(socket.AF_UNIX)
    name = "acnspawn-test-%d" % os.getpid()
    listener.bind("\0" + name)
    listener.listen(1)
    r = host.run(host.shell("poke abstract %s; true" % name))
    lacks(r.out, "possible", "connecting")
    listener.close()


@case
def services_on_the_hosts_loopback_are_out_of_reach(host):
    listener = socket.create_server(("127.0.0.1", 0))
    r = host.run(host.shell("nc -w 1 127.0.0.1 %d </dev/null && echo connected; true" % listener.getsockname()[1]))
    equal(r.out, "")
    listener.close()


@both
def other_apps_files_and_environment_are_out_of_reach(host, *options):
    """/proc of the neighbour (if its process is visible in the pid namespace of the pod) gives no access."""
    secret = host.shell("echo secret >/srv/secret; trap 'exit 0' TERM; sleep 1000 & wait", name="example.com/secret",
                        app={"environment": [{"name": "TOKEN", "value": "hidden-word"}], "user": "1001", "group": "1001"},
                        files={"srv": Dir(0o777)})
    spy = host.shell("sleep 0.5; for p in /proc/[0-9]*; do tr '\\0' '\\n' <$p/environ 2>/dev/null | grep hidden-word; "
                     "cat $p/root/srv/secret 2>/dev/null; done; ls /acnspawn 2>/dev/null; true", name="example.com/spy",
                     app={"user": "1000", "group": "1000"})
    host.run("--exit-policy=any", *options, spy, secret)
    r = host.acnspawn("logs", "--app=spy", os.path.basename(host.one_pod())).expect(0)
    lacks(r.out, "hidden-word")
    lacks(r.out, "secret\n")


@both
def systemd_of_the_pod_cannot_be_commanded_by_an_app(host, *options):
    r = host.run(*options, host.shell("ls /run/systemd/private /run/systemd/journal /run/dbus 2>/dev/null; kill -0 1 2>/dev/null "
                                      "&& echo 'may signal PID 1'; true", app={"user": "1000", "group": "1000"}))
    equal(r.out, "")


@case
def nspawn_file_and_units_in_the_image_are_ignored(host):
    files = {
        "etc/systemd": Dir(), "etc/systemd/system": Dir(), "usr/lib": Dir(), "usr/lib/systemd": Dir(),
        "usr/lib/systemd/system": Dir(),
        "etc/systemd/system/a.service": File("[Service]\nExecStart=/bin/touch /out/evil\n"),
        "usr/lib/systemd/system/default.target": File("[Unit]\nWants=evil.service\n"),
        "etc/systemd/system/evil.service": File("[Service]\nExecStart=/bin/touch /out/evil\n"),
        "a.nspawn": File("[Exec]\nCapability=all\n[Files]\nBind=/etc:/host\n"),
    }
    image = host.shell("ls /host 2>/dev/null; echo fine", name="example.com/a", files=files)
    with_file = host.path("store.nspawn")
    with open(with_file, "w") as f:
        f.write("[Files]\nBind=/etc:/host\n")
    r = host.run(image)
    equal(r.out, "fine\n")
    true(not os.path.exists(os.path.join(host.upper("a"), "out/evil")), "a unit of the image ran")


@case
def annotations_never_become_directives(host):
    image = host.image(["/bin/show"], name="example.com/a", annotations=[
        {"name": "org.systemd.property.execstartpre", "value": "'/bin/touch /out/evil'"},
        {"name": "authors", "value": "x\n[Service]\nExecStartPre=/bin/touch /out/evil"},
        {"name": "acnspawn/hooks", "value": json.dumps([{"path": "/bin/touch", "args": ["touch", host.path("evil")]}])}])
    host.run(image)
    true(not os.path.exists(os.path.join(host.upper("a"), "out/evil")), "an annotation was obeyed")
    equal(host.show("a").capabilities("Bnd"), DEFAULT_CAPABILITIES)
    host.run("--no-userns", image)
    true(not os.path.exists(host.path("evil")), "a hook of an image was executed")


@case
def image_whose_system_directories_are_links(host):
    """/dev, /proc, /sys and /etc of the image are links: all files are still created inside of the root."""
    before, hook = os.listdir("/var/tmp"), json.dumps([{"path": "/bin/touch", "args": ["touch", host.path("hooked")]}])
    for number, (name, target) in enumerate((("dev", "/var/tmp/x"), ("proc", "../../../../var/tmp"), ("sys", "/"),
                                             ("dev", "/srv"))):
        files = base_rootfs()
        for n in list(files):
            if n == name or n.startswith(name + "/"):
                del files[n]
        files[name] = Link(target)
        image = host.image(["/bin/true"], base=False, files=files)
        r = host.acnspawn("run", "--name=p%d" % number, image)
        true(r.rc in (0, 1, 125), "%s -> %s gave %s" % (name, target, r))
        # Hooks get the same root.
        os.makedirs(host.path("volume"), exist_ok=True)
        r = host.acnspawn("run", "--no-userns", "--name=h%d" % number, "--volume=v,kind=host,source=" + host.path("volume"), image,
                          "--mount=v:/%s/new/place" % name if name == "sys" else "--mount=v:/new/place", "--annotation=acnspawn/hooks=" + hook)
        true(r.rc in (0, 1, 125), "%s -> %s gave %s with hooks" % (name, target, r))
        true(not os.path.exists("/new") and not os.path.exists("/var/tmp/new"), "a mount point on the host")
    true(not os.path.exists("/var/tmp/x"), "/var/tmp/x was created on the host")
    true(os.path.exists(host.path("hooked")), "no hook was executed")
    new = [n for n in set(os.listdir("/var/tmp")) - set(before) if not n.startswith("acnspawn-test-")]
    equal([n for n in new if n in ("null", "zero", "full", "1", "self", "tty")], [], "files created on the host")


@both
def masks_are_where_the_kernels_files_are(host, *options):
    """/proc is a link in the image, which the app exchanges repeatedly while its health checks are set up."""
    script = ("cd /; touch /out/up; while :; do ln -s b n; mv -T n proc; ln -s a n; mv -T n proc; done")
    check = ("for d in /a /b; do test -e $d/uptime && for f in kallsyms timer_list keys; do "
             "head -c1 $d/$f 2>/dev/null | grep -q . && echo $d/$f >>/out/seen; done; done; echo >>/out/checks")
    image = host.shell(script, name="example.com/a", files={"proc": Link("a"), "a": Dir(), "b": Dir()})
    uuid = host.detach(*options, image, "--health-cmd=" + check, "--health-interval=100ms", "--health-retries=100000")
    checks = os.path.join(host.upper("a", host.pod_dir(uuid)), "out/checks")
    wait_for(lambda: os.path.exists(checks) and os.path.getsize(checks) > 60, "checks", timeout=60)
    seen = os.path.join(host.upper("a", host.pod_dir(uuid)), "out/seen")
    equal(read_text(seen).split() if os.path.exists(seen) else [], [], "what is not masked")
    host.acnspawn("stop", "--force", uuid).expect(0)


@case
def root_without_any_directories(host):
    """An image with a single static program: /proc, /sys and /dev are created."""
    image = host.image(["/poke", "read", "/proc/self/stat"], base=False, files={
        "poke": File(open(os.path.join(HELPERS, "poke"), "rb").read(), 0o755)})
    equal(host.run(image).out, "read /proc/self/stat: possible\n")


@case
def limits_and_scores_are_sane(host):
    show = show_of(host)
    equal(show.raw["umask"], 0o022, "umask")
    ignored = int(show.status_field("SigIgn"), 16)
    blocked = int(show.status_field("SigBlk"), 16)
    equal(blocked, 0, "blocked signals")
    equal(ignored & ~(1 << 12), 0, "ignored signals (but for SIGPIPE)")


@case
def hostname_is_the_pods(host):
    host.run("--name=web-1", host.image(["/bin/show"], name="example.com/a"))
    true(host.show("a").hostname != os.uname().nodename, "hostname is the host's")
    equal(host.status("web-1")["hostname"], host.show("a").hostname, "hostname in status")
    host.run("--hostname=chosen", "--name=two", host.image(["/bin/show"], name="example.com/a"))
    equal(host.show("a", pod=host.pod_dir(host.status("two")["uuid"])).hostname, "chosen")
    equal(host.status("two")["hostname"], "chosen", "hostname in status")


main()
