#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What apps reach of the host beside files: its devices, numbers that the kernel has once for all pods, and processes of acnspawn
that look at an app."""

import errno
import stat

import pod_interface
from harness import *

FUSE = 10, 229  # every user may open it
ADMIN = "--caps-retain=CAP_SYS_ADMIN,CAP_MKNOD,CAP_DAC_OVERRIDE"


def tried(script):
    """What the commands of a script say, a line each: what failed is no end."""
    return "exec 2>&1; " + script + "; true"


# --- Devices ---------------------------------------------------------------------------------------------------------

def with_node(host, **more):
    """An image in the store whose root has a device node: only one that was unpacked by an earlier version has."""
    image = host.acnspawn("fetch", host.shell("true", name="example.com/a", **more)).expect(0).out.split()[0]
    root = os.path.join(host.dir, "images", image, "rootfs")
    os.mknod(os.path.join(root, "node"), stat.S_IFCHR | 0o666, os.makedev(*FUSE))
    os.chmod(os.path.join(root, "node"), 0o666)
    return image


@case
def flags_of_the_root_are_locked(host):
    """For an app that may mount: no devices, and read-only where it is so. The device is open for all by its mode."""
    image = with_node(host, files={"mnt": Dir()})
    script = tried("mount -o remount,bind,dev /; mount -o rbind / /mnt && mount -o remount,bind,dev /mnt; "
                   "mount -o remount,bind,rw,dev /; poke open /node; poke open /mnt/node; "
                   "grep -E ' (/|/mnt) ' /proc/self/mountinfo")
    for options in (), ("--readonly-rootfs",):
        r = host.run("--rm", image, ADMIN, *options, "--exec=/bin/sh", "--", "-c", script)
        equal(r.out.count("permission denied"), 3, "remounts that are refused with %r: %s" % (options, r.out))
        lacks(r.out, "possible", "use of the device of the host")
        lines = [l for l in r.out.splitlines() if re.match(r"\d+ \d+ \d+:\d+ / (/|/mnt) ", l)]
        true(lines and all("nodev" in l.split()[5].split(",") for l in lines), "mounts of the root: %r" % lines)


@case
def a_read_only_root_stays_so(host):
    """`--readonly-rootfs` cannot be undone by an app that may mount, and mount points that the image lacks are made all the same, with
    hooks or handlers too."""
    image = host.shell("true", name="example.com/a", app={
        "eventHandlers": [{"name": "pre-start", "exec": ["/bin/sh", "-c", "touch /pre; test -d /new/point && echo handler"]}]})
    script = tried("mount -o remount,bind,rw /; mount -o remount,rw /; touch /file && echo written; echo x >/new/point/f && cat /new/point/f; "
                   "test -f /deep/file && echo file")
    with open(host.path("file"), "w") as f:
        f.write("x")
    r = host.run("--rm", "--volume=v,kind=empty,mode=1777", "--volume=f,kind=host,readOnly=true,source=" + host.path("file"), image, ADMIN,
                 "--readonly-rootfs", "--mount=v:/new/point", "--mount=f:/deep/file", "--exec=/bin/sh", "--", "-c", script)
    lacks(r.out, "written", "output")
    equal([l for l in r.out.splitlines() if l in ("handler", "x", "file")], ["handler", "x", "file"], "output " + r.out)
    contains(r.out + r.err, "Read-only file system", "message of the app")


@both
def devices_of_apps_that_may_mount_are_filtered(host, *options):
    """Wherever the node is: the flags of mounts do not matter. A device that is given is not refused, nor those of a volume with devices."""
    need_fuse()
    os.mkdir(host.path("devices"))
    os.mknod(host.path("devices/fuse"), stat.S_IFCHR | 0o666, os.makedev(*FUSE))
    os.chmod(host.path("devices/fuse"), 0o666)
    script = tried("mount -t tmpfs -o dev none /srv; mknod /srv/node c %d %d && poke open /srv/node; poke open /node; "
                   "test -e /dev/given && poke open /dev/given; test -e /volume/fuse && poke open /volume/fuse; "
                   "echo x >/dev/null && head -c 3 /dev/zero | wc -c" % FUSE)
    image = with_node(host)

    def run(*more):
        pod = [o for o in more if o.startswith("--volume")]
        return host.run("--rm", *options, *pod, image, ADMIN, *more[len(pod):], "--exec=/bin/sh", "--", "-c", script).out
    out = run()
    lacks(out, "possible", "use of a device of the host")
    contains(out, "3\n", "output")
    contains(run("--device=%s:/dev/given" % host.path("devices/fuse")), "open /dev/given: possible", "use of a device that was given")
    contains(run("--volume=d,kind=host,dev=true,source=" + host.path("devices"), "--mount=d:/volume"), "open /volume/fuse: possible",
             "use of a volume with devices")


# --- Numbers of the kernel -------------------------------------------------------------------------------------------

@both
def terminals_of_the_pod_itself_are_bounded(host, *options):
    """No app has its /dev/pts in sight; whoever gets at it has few."""
    uuid = host.detach("--name=p", *options, host.shell("touch /out/up; exec sleep 1000", name="example.com/a"))
    host.wait_up("a", uuid)
    lines = [l for l in read_text("/proc/%d/mountinfo" % host.leader(uuid)).splitlines() if " /dev/pts " in l]
    equal(len(lines), 1, "mounts at /dev/pts of the pod")
    contains(lines[0].split(" - ")[1], "max=16", "options of /dev/pts of the pod")
    contains(lines[0].split(" - ")[1], "gid=%d,mode=620,ptmxmode=666" % ((0 if options else host.uid_base(uuid)) + 5), "other options of it")
    root, opened = "/proc/%d/root/dev/pts/ptmx" % host.leader(uuid), []
    try:
        while len(opened) <= 16:
            opened.append(os.open(root, os.O_RDWR | os.O_NOCTTY))
        fail("%d terminals are possible" % len(opened))
    except OSError as e:
        equal(e.errno, errno.ENOSPC, "error of the terminal after the last one")
    finally:
        for fd in opened:
            os.close(fd)
    host.acnspawn("stop", "--force", "p").expect(0)


@both
def an_app_has_a_part_of_the_terminals(host, *options):
    """The kernel has one number for all pods. The part follows it."""
    everything, kept = (int(read_text("/proc/sys/kernel/pty/" + n)) for n in ("max", "reserve"))
    part = max(16, (everything - kept) // 16)
    if part > 400:
        raise Skip("kernel.pty.max is %d" % everything)
    r = host.run("--rm", *options, host.shell("poke terminals %d; true" % (part + 50), app={"user": "1000", "group": "1000"}))
    equal(r.out.splitlines()[0], "%d terminals" % part, "terminals of an app")
    contains(r.out, "No space left on device", "error of the next one")


@case
def requests_of_asynchronous_io_are_not_taken_from_the_host(host):
    """`io_setup` is missing, unless the operator says otherwise; programs use threads then. Nothing of fs.aio-max-nr is used."""
    if os.uname().machine != "x86_64":
        raise Skip("the numbers of system calls are those of x86-64")
    image = host.shell("poke call3 206:65536:0; true")
    contains(host.run("--rm", image).out, "Function not implemented", "io_setup")
    contains(host.run("--rm", image, "--seccomp=mode=retain,errno=EPERM,@acnspawn/default,io_setup").out, "Bad address", "io_setup that is allowed")


@case
def protocols_that_load_modules_are_refused(host):
    """By types and numbers, on both families, and by socketpair; for root of the app."""
    if os.uname().machine != "x86_64":
        raise Skip("the numbers of system calls are those of x86-64")
    stream, datagram, sequential, dccp = 1, 2, 5, 6
    refused = [(stream, 132), (sequential, 132), (sequential, 0), (stream, 256), (dccp, 33), (dccp, 0), (datagram, 115), (datagram, 137),
               (stream, 6 | 1 << 9), (12, 0)]
    allowed = [(stream, 0), (stream, 6), (datagram, 17), (datagram, 0), (stream | 0o2000000, 6)]
    calls = ["call3 %d:%d:%d:%d" % (number, family, *s) for number in (41, 53) for family in (2, 10) for s in refused]
    out = host.run("--rm", host.shell("; ".join("poke " + c for c in calls) + "; true")).out.splitlines()
    equal([l.split(": ")[1] in ("Protocol not supported", "Socket type not supported") for l in out], [True] * len(calls), "refused: %s" % out)
    out = host.run("--rm", host.shell("; ".join("poke call3 41:%d:%d:%d" % (f, *s) for f in (2, 10) for s in allowed) + "; true")).out
    equal(out.count("possible"), 2 * len(allowed), "allowed: " + out)
    r = host.run("--rm", host.shell("poke call3 41:2:12:0; true"), "--seccomp=mode=retain,errno=EPERM,@acnspawn/default,socket")
    contains(r.out, "Invalid argument", "what the kernel itself says of a type, by the will of the operator")


@case
def cgroups_of_an_app_that_may_mount_are_bounded(host):
    """It can have its own cgroup writable; commands look through the cgroups of all pods, and the kernel has a number of those with memory limits."""
    script = "poke cgroups 3000; cd /srv; rmdir made-*; n=0; while mkdir d && cd d; do n=$((n + 1)); done; echo $n levels"
    out = host.run("--rm", host.shell(tried(script)), ADMIN).out
    equal(out.count("Resource temporarily unavailable"), 2, "errors of the last ones: " + out)
    made, levels = (int(re.search(r"(?m)^(\d+) %s$" % what, out)[1]) for what in ("cgroups", "levels"))
    true(2000 < made < 2048, "%d cgroups were made" % made)
    true(55 < levels < 64, "%d levels were made" % levels)


@case
def a_nested_app_takes_no_cgroups_from_those_beside_it(host):
    """Those of nested apps count for the app above them. Its own bound is larger."""
    host.acnspawn("run", "--detach", "--exit-policy=never", "--name=p", host.shell("exec sleep 1000", name="example.com/a"), ADMIN,
                  "--control=true").expect(0)
    host.acnspawn("fetch", host.shell("poke cgroups 3000; exec sleep 1000", name="example.com/b")).expect(0)
    host.acnspawn("launch", "p", "--parent=a", "example.com/b", "--name=b", ADMIN).expect(0)
    wait_for(lambda: re.search(r"(?m)^\d+ cgroups$", host.acnspawn("logs", "--app=a/b", "p").out), "the last cgroup of the nested app")
    in_time(host, ("enter", "--app=a", "p", "true"), ("launch", "p", "--parent=a", "example.com/b", "--name=c", "--exec=/bin/true"),
            ("stop", "--force", "p"))


# --- File systems that do not answer -----------------------------------------------------------------------------------

@contextlib.contextmanager
def hanging_program(host, *options):
    """A pod whose app executes a file of a FUSE that answers nothing any more."""
    need_fuse()
    uuid = host.detach("--name=p", *options, host.shell("mkdir /f && poke fuse /f && exec /f/program wait /out/up", name="example.com/a"),
                       "--caps-retain=CAP_SYS_ADMIN,CAP_DAC_OVERRIDE", "--device=/dev/fuse")
    host.wait_up("a", uuid)
    program = lambda: processes_where(lambda pid: os.readlink("/proc/%d/exe" % pid) == "/f/program", host.processes())
    wait_for(program, "the program of the app")
    servers = processes_where(lambda pid: os.readlink("/proc/%d/exe" % pid) == "/bin/poke", host.processes())
    equal(len(servers), 1, "servers of the file system")
    for pid in servers:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield uuid
    finally:
        host.kill_pods()


@both
def a_program_that_cannot_be_read_holds_nothing_up(host, *options):
    """The supervisor looks whether the app runs, for a command in it, without waiting for the file system of the app's program, and without
    a need to read it."""
    with hanging_program(host, *options) as uuid:
        c = pod_interface.Connection(host, uuid)
        c.send("Exec", {"app": "a", "command": ["/bin/sh", "-c", "exit 3"]})
        c.socket.settimeout(patience(20))
        try:
            equal(c.receive().get("parameters", {}).get("exitStatus"), 3, "exit status of a command in the app")
        except TimeoutError:
            fail("the supervisor does not answer")
        for command in ("status", "p"), ("stop", "--force", "p"):
            p = host.start(*command)
            try:
                p.wait(patience(30))
            except subprocess.TimeoutExpired:
                fail("'%s' still waits" % " ".join(command))
            equal(p.returncode, 0, "exit status of " + " ".join(command))
        wait_for(lambda: host.state(uuid) == "exited", "the end of the pod")


@contextlib.contextmanager
def distant_file(host, name="distant", user=0):
    """A file of the host on a FUSE that a user has mounted, and the process that serves it."""
    need_fuse()
    where = host.path(name)
    os.mkdir(where)
    what = "%d:%s" % (user, where)
    subprocess.run([os.path.join(HELPERS, "poke"), "fuse", what], check=True, stdout=subprocess.DEVNULL)
    server = wait_for(lambda: processes_where(lambda pid: ("fuse\0" + what + "\0").encode() in open("/proc/%d/cmdline" % pid, "rb").read()),
                      "the server of the file system")[0]
    try:
        yield os.path.join(where, "program"), server
    finally:
        os.kill(server, signal.SIGKILL)
        subprocess.run(["umount", "-l", where], check=True)


def in_time(host, *commands):
    """The commands end with 0 within 30 seconds of a quiet machine."""
    for command in commands:
        p = host.start(*command)
        try:
            p.wait(patience(30))
        except subprocess.TimeoutExpired:
            fail("'%s' still waits" % " ".join(command))
        equal(p.returncode, 0, "exit status of " + " ".join(command))


def names_of_children(host, uuid):
    return of_processes(name_of, children_of(host.supervisor(uuid))).values()


def asks(host, uuid):
    """Waits until a process of the supervisor asks the file system."""
    wait_for(lambda: "open-sources" in names_of_children(host, uuid), "the process that opens the source")


@both
def a_volume_whose_file_system_does_not_answer_holds_up_its_app_alone(host, *options):
    """The supervisor goes on: commands in another app, status, and the end of the pod."""
    with distant_file(host) as (source, server):
        uuid = host.detach("--name=p", "--exit-policy=never", *options, "--volume=v,kind=host,readOnly=true,idmap=auto,source=" + source,
                           host.shell("test -s /v && echo x >/out/up", name="example.com/a"), "--mount=v:/v",
                           host.shell("touch /out/up; exec sleep 1000", name="example.com/b"))
        host.wait_up("a", uuid)
        host.wait_up("b", uuid)
        host.acnspawn("wait", "p", "a").expect(0)
        os.kill(server, signal.SIGSTOP)
        starting = host.start("start-app", "p", "a")
        asks(host, uuid)
        in_time(host, ("enter", "--app=b", "p", "true"), ("status", "p"), ("stop-app", "p", "a"), ("status", "p"))
        starting.wait(patience(30))
        held = []
        for _ in range(4):
            again = host.start("start-app", "p", "a")
            asks(host, uuid)
            wait_for(lambda: "launch" in of_processes(name_of, host.processes()).values(), "the launcher of the app")
            held.append(len(descriptors_of(host.supervisor(uuid))))
            in_time(host, ("stop-app", "p", "a"))
            again.wait(patience(30))
        true(held[-1] <= held[1] + 1, "descriptors of the supervisor with each start: %s" % held)
        again = host.start("start-app", "p", "a")
        asks(host, uuid)
        equal(list(names_of_children(host, uuid)).count("open-sources") <= 2, True, "processes that are left behind")
        in_time(host, ("stop", "--force", "p"))
        wait_for(lambda: host.state(uuid) == "exited", "the end of the pod")
        again.wait(patience(30))


@case
def a_volume_is_there_once_its_file_system_answers(host):
    """The app waits for it, and starts; also where it needs hooks or locks, which an app with CAP_SYS_ADMIN does."""
    with distant_file(host) as (source, server):
        uuid = host.detach("--name=p", "--exit-policy=never", "--volume=v,kind=host,readOnly=true,idmap=auto,source=" + source,
                           host.shell("test -s /v && echo x >>/out/up; true", name="example.com/a"), "--mount=v:/v",
                           "--caps-retain=CAP_SYS_ADMIN,CAP_CHOWN")
        host.wait_up("a", uuid)
        host.acnspawn("wait", "p", "a").expect(0)
        os.kill(server, signal.SIGSTOP)
        starting = host.start("start-app", "p", "a")
        asks(host, uuid)
        equal(starting.poll(), None, "the start, which has to wait")
        os.kill(server, signal.SIGCONT)
        equal(starting.wait(patience(30)), 0, "exit status of start-app")
        host.acnspawn("wait", "p", "a").expect(0)
        equal(host.written("a", "out/up", host.pod_dir(uuid)), b"x\n", "what the second execution has written")
        wait_for(lambda: "open-sources" not in names_of_children(host, uuid), "the end of the process that has opened it")
        host.acnspawn("stop", "--force", "p").expect(0)


@case
def a_device_on_a_file_system_that_does_not_answer(host):
    """As a volume: also one in a directory."""
    with distant_file(host) as (source, server):
        uuid = host.detach("--name=p", "--exit-policy=never", host.shell("touch /out/up; exec sleep 1000", name="example.com/b"))
        host.wait_up("b", uuid)
        host.acnspawn("fetch", host.shell("true", name="example.com/a")).expect(0)
        os.kill(server, signal.SIGSTOP)
        starting = host.start("add-app", "p", "--start", "example.com/a", "--name=a", "--device=" + source + ":/dev/x")
        in_time(host, ("enter", "--app=b", "p", "true"), ("status", "p"), ("stop", "--force", "p"))
        wait_for(lambda: host.state(uuid) == "exited", "the end of the pod")
        starting.wait(patience(30))


@case
def an_app_whose_source_does_not_answer_is_added(host):
    """The pod goes on, and its end does not wait for the process that prepares the app."""
    with distant_file(host) as (source, server):
        uuid = host.detach("--name=p", "--exit-policy=never", host.shell("touch /out/up; exec sleep 1000", name="example.com/b"))
        host.wait_up("b", uuid)
        host.acnspawn("fetch", host.shell("true", name="example.com/a")).expect(0)
        os.kill(server, signal.SIGSTOP)
        # Links in the path would be looked up by the client.
        adding = host.start("add-app", "p", "--start", "example.com/a", "--name=a", "--volume=%s:/v:symlinks=false" % source)
        wait_for(lambda: "prepare-apps" in names_of_children(host, uuid), "the process that prepares the app")
        in_time(host, ("enter", "--app=b", "p", "true"), ("status", "p"), ("stop", "--force", "p"))
        wait_for(lambda: host.state(uuid) == "exited", "the end of the pod")
        adding.wait(patience(30))


@case
def hooks_whose_process_cannot_be_killed(host):
    """It waits for the file system of a volume, whose server has taken its request. The next start of the app, other apps and the end of the pod do
    not wait for it, nor does who reads the output of the pod."""
    with distant_file(host) as (source, server):
        image = host.shell("touch /out/up; exec sleep 1000", name="example.com/b")
        front = host.start("run", "--name=p", "--exit-policy=never", "--no-userns", "--volume=v,kind=host,readOnly=true,source=" + os.path.dirname(source),
                           host.shell("echo x >/out/up", name="example.com/a"), "--mount=v:/v", '--annotation=acnspawn/hooks=[{"path":"/bin/true"}]', image)
        host.wait_up("b")
        uuid = host.status("p")["uuid"]
        host.acnspawn("wait", "p", "a").expect(0)
        os.kill(server, signal.SIGUSR1)
        for n in 1, 2:
            starting = host.start("start-app", "p", "a")
            wait_for(lambda: list(names_of_children(host, uuid)).count("run-hooks") == n, "process %d for the hooks" % n)
            in_time(host, ("enter", "--app=b", "p", "true"), ("stop-app", "p", "a"), ("status", "p"))
            starting.wait(patience(30))
        in_time(host, ("stop", "--force", "p"))
        wait_for(lambda: host.state(uuid) == "exited", "the end of the pod")
        try:
            front.communicate(timeout=patience(30))
        except subprocess.TimeoutExpired:
            fail("the end of the output of the pod is not seen")


@case
def abandoned_children_are_reaped(host):
    """When the file system is gone, the children that were blocked in it end, and the supervisor of a running pod reaps
    them."""
    with distant_file(host) as (source, server):
        uuid = host.detach("--name=p", "--exit-policy=never", "--no-userns", "--volume=v,kind=host,readOnly=true,source=" + os.path.dirname(source),
                           host.shell("echo x >/out/up", name="example.com/a"), "--mount=v:/v", '--annotation=acnspawn/hooks=[{"path":"/bin/true"}]')
        host.acnspawn("wait", "p", "a").expect(0)
        os.kill(server, signal.SIGUSR1)
        for n in 1, 2:
            starting = host.start("start-app", "p", "a")
            wait_for(lambda: list(names_of_children(host, uuid)).count("run-hooks") == n, "process %d for the hooks" % n)
            in_time(host, ("stop-app", "p", "a"))
            starting.wait(patience(30))
    wait_for(lambda: "run-hooks" not in names_of_children(host, uuid), "that the processes are reaped")
    host.acnspawn("stop", "p").expect(0)


@contextlib.contextmanager
def deadlock(host, *options):
    """A pod whose app waits for a file system that it does not serve any more itself, so that SIGKILL does not end it."""
    need_fuse()
    uuid = host.detach("--name=p", *options, host.shell("mkdir /f && exec poke deadlock /f", name="example.com/a"),
                       "--caps-retain=CAP_SYS_ADMIN,CAP_DAC_OVERRIDE", "--device=/dev/fuse", *(["--mount=v:/v"] if options else []))
    base = host.uid_base(uuid)
    try:
        host.wait_up("a", uuid)
        yield uuid
    finally:
        where = host.path("connections")
        os.mkdir(where)
        subprocess.run(["mount", "-t", "fusectl", "none", where], check=True)
        try:
            for name in os.listdir(where):
                with contextlib.suppress(FileNotFoundError):
                    if os.stat(os.path.join(where, name)).st_uid == base:
                        with open(os.path.join(where, name, "abort"), "w") as f:
                            f.write("1")
        finally:
            subprocess.run(["umount", where], check=True)
            os.rmdir(where)


def no_process_waits(host):
    equal([name_of(pid) for pid in host.processes() if name_of(pid) == "poke" and os.readlink("/proc/%d/exe" % pid) == "/bin/poke"], [],
          "processes that are left")


@case
def a_pod_that_waits_for_its_own_file_system_can_be_killed(host):
    """Its file system is aborted, and no other one: that of a volume, which the host has, too, still answers, and one of the host whose user has a
    number of the pod's range."""
    with distant_file(host) as (source, _), deadlock(host, "--volume=v,kind=host,readOnly=true,source=" + os.path.dirname(source)) as uuid, \
         distant_file(host, "other", host.uid_base(uuid)) as (other, _):
        in_time(host, ("stop", "--force", "p"))
        wait_for(lambda: host.state(uuid) == "exited", "the end of the pod")
        no_process_waits(host)
        for path in source, other:
            with open(path, "rb") as f:
                equal(f.read(4), b"\x7fELF", "what the file system of the host says at " + path)


@case
def what_is_left_of_a_killed_supervisor_and_waits_for_itself_is_removed(host):
    with deadlock(host) as uuid:
        os.kill(host.supervisor(uuid), signal.SIGKILL)
        wait_for(lambda: host.state(uuid) == "exited", "that the pod counts as ended")
        in_time(host, ("rm", "p"))
        no_process_waits(host)


# --- Services of a pod -------------------------------------------------------------------------------------------------

@both
def services_run_as_a_user_that_no_app_can_be(host, *options):
    """The metadata service, and that of an app that may launch others: not as a user of the pod's range, and each pod has its own."""
    users = []
    for name in "p", "q":
        uuid = host.detach("--name=" + name, "--exit-policy=never", *options, host.shell(
            "wget -q -O - --header 'Metadata-Flavor: AppContainer' $AC_METADATA_URL/acMetadata/v1/pod/uuid >/out/uuid; "
            "poke talk $ACNSPAWN_CONTROL </dev/null & touch /out/up; exec sleep 1000", name="example.com/a"), "--control=true")
        host.wait_up("a", uuid)
        equal(host.written("a", "out/uuid", host.pod_dir(uuid)).decode().strip(), uuid, "what the metadata service says")
        base = host.uid_base(uuid)
        true(not base <= service_user(base) < base + 65536, "%d is a user of the pod" % service_user(base))
        services = lambda: of_processes(lambda pid: " ".join(re.findall(r"(?m)^[UG]id:\t(.*)$", read_text("/proc/%d/status" % pid))).split(),
                                        [pid for pid in children_of(host.supervisor(uuid)) if name_of(pid) != "systemd-nspawn"])
        # One that has just been started is still root.
        wait_for(lambda: list(services().values()) == [[str(service_user(base))] * 8] * 2, "two services of %s as user %d" % (name, service_user(base)))
        users.append(service_user(base))
    true(users[0] != users[1], "the services of two pods run as the same user")
    for name in "p", "q":
        host.acnspawn("stop", "--force", name).expect(0)


if __name__ == "__main__":
    main()
