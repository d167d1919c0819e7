#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The identity of apps: users and groups of the image, with limits of the lookup; capabilities; user namespaces."""

import fcntl
import struct

from harness import *


def identity(host, user, group, files=None, grant=(), **app):
    host.run(host.image(["/bin/show"], name="example.com/a", files=files,
                        app={"user": user, "group": group, **app}), *grant)
    return host.show("a")


def refused(host, user, group, files=None, rc=125, timeout=30):
    """The app must not run, and the message names the user or group that could not be found."""
    r = host.acnspawn("run", "--name=p", host.image(["/bin/touch", "/out/ran"], name="example.com/a", files=files,
                                                    app={"user": user, "group": group}), timeout=timeout)
    true(r.rc in (1, rc), "exit status %d, expected 1 or %d; %s" % (r.rc, rc, r))
    true(r.seconds < patience(20), "took %.1f s" % r.seconds)
    for pod in host.pods():
        true(not os.path.exists(os.path.join(pod, "apps/a/upper/out/ran")), "the app ran all the same")
    return r


@case
def numbers(host):
    show = identity(host, "1234", "4321")
    equal((show.uids, show.gids, show.groups), ([1234] * 3, [4321] * 3, show.groups))
    true(0 not in show.groups, "the app is in root's group: %r" % show.groups)


@case
def a_number_is_a_number(host):
    """Whatever the names in the image are: an image that has a user of that name would get what it was not to have."""
    files = {"etc/passwd": File("1234:x:0:0:::\n"), "etc/group": File("4321:x:0:\n")}
    show = identity(host, "1234", "4321", files)
    equal((show.uids, show.gids), ([1234] * 3, [4321] * 3))


@case
def names(host):
    show = identity(host, "app", "staff")
    equal((show.uids, show.gids), ([1000] * 3, [50] * 3))


@case
def names_are_the_images_not_the_hosts(host):
    """The host has a user daemon as well, with another number."""
    files = {"etc/passwd": File("daemon:x:4242:4242::/:/bin/sh\n"), "etc/group": File("daemon:x:4243:\n")}
    show = identity(host, "daemon", "daemon", files)
    equal((show.uids, show.gids), ([4242] * 3, [4243] * 3))


@case
def owner_of_a_path(host):
    files = {"srv/owned": File("", 0o644, 1000, 50)}
    show = identity(host, "/srv/owned", "/srv/owned", files)
    equal((show.uids, show.gids), ([1000] * 3, [50] * 3))


@case
def owner_of_a_path_through_an_absolute_link(host):
    """The link is resolved inside the image: /etc/hostname of the host belongs to root."""
    files = {"srv/link": Link("/etc/owned"), "etc/owned": File("", 0o644, 1000, 50)}
    show = identity(host, "/srv/link", "/srv/link", files)
    equal((show.uids, show.gids), ([1000] * 3, [50] * 3))


@case
def unknown_user_is_refused(host):
    r = refused(host, "nobody-knows-me", "0")
    contains(r.err, "nobody-knows-me", "message")


@case
def unknown_group_is_refused(host):
    r = refused(host, "0", "no-such-group")
    contains(r.err, "no-such-group", "message")


@case
def missing_path_is_refused(host):
    r = refused(host, "/no/such/file", "0")
    contains(r.err, "/no/such/file", "message")


@case
def hostile_names_are_refused(host):
    for user in ("../../etc/passwd", "root:x", "a b", "4294967295", "4294967296", "-1", "99999999999999999999", "0x0",
                 "root\nroot"):
        r = host.acnspawn("run", host.image(["/bin/touch", "/out/ran"], name="example.com/a",
                                            app={"user": user, "group": "0"}), timeout=30)
        true(r.rc in (1, 125), "user %r gave %s" % (user, r))
    for pod in host.pods():
        true(not os.path.exists(os.path.join(pod, "apps/a/upper/out/ran")), "the app ran all the same")


@case
def number_beyond_the_range_of_the_pod_is_refused(host):
    """A user namespace has 65536 ids, so 70000 is not valid; without a user namespace it is. The pod is not prepared, nor is an app added."""
    image = lambda user, group: host.image(["/bin/id", "-u"], name="example.com/a", app={"user": user, "group": group})
    uuid = host.detach("--exit-policy=never")
    for args, what in (([image("70000", "0")], "user 70000"), ([image("0", "65536")], "group 65536"), ([image("app", "0"), "--user=70000"], "user 70000"),
                       ([image("0", "0"), "--supplementary-gids=1,65536"], "group 65536")):
        for verb in ["run"], ["prepare", "--dry-run", "--strict"], ["add-app", uuid]:
            contains(host.acnspawn(*verb, *args).expect(1).err, "App a cannot have the %s, beyond 0 to 65535, in a pod with users of its own" % what)
    equal(len(host.pods()), 1, "pods")
    host.acnspawn("stop", "--force", uuid).expect(0)
    host.acnspawn("prepare", "--dry-run", image("65535", "65535")).expect(0)
    host.acnspawn("rm", uuid).expect(0)
    host.run("--no-userns", host.image(["/bin/id", "-u"], app={"user": "70000", "group": "70000"}))


@case
def fifo_instead_of_passwd_does_not_hang(host):
    refused(host, "app", "0", {"etc/passwd": Fifo()})


@case
def fifo_as_path_user_does_not_hang(host):
    """Only its owner is needed, so the app may run; but it must not hang."""
    r = host.acnspawn("run", host.image(["/bin/true"], files={"srv/fifo": Fifo()},
                                        app={"user": "/srv/fifo", "group": "/srv/fifo"}), timeout=30)
    true(r.rc in (0, 1, 125), str(r))


@case
def directory_instead_of_passwd(host):
    refused(host, "app", "0", {"etc/passwd": Dir()})


@case
def passwd_that_is_a_link_to_the_host(host):
    """Resolved inside the image, where there is no such file."""
    refused(host, "app", "0", {"etc/passwd": Link("/../../../../../../etc/shadow")})


@case
def passwd_link_to_device(host):
    refused(host, "app", "0", {"etc/passwd": Link("/dev/zero"), "dev": Dir()})


@case
def huge_passwd_is_bounded(host):
    contains(refused(host, "zz-the-last", "0", {"etc/passwd": Sparse(1 << 26)}).err, "/etc/passwd in the image is larger than 4194304 bytes")


@case
def long_passwd_is_read_to_its_end(host):
    lines = ["u%d:x:%d:%d::/:/bin/sh" % (i, i, i) for i in range(2000, 22000)]
    show = identity(host, "u21999", "0", {"etc/passwd": File("\n".join(lines) + "\n")})
    equal(show.uids, [21999] * 3)


@case
def broken_lines_in_passwd_are_passed_over(host):
    text = "\n\n::::\nroot\napp\napp:x\napp:x:abc:1::/:\napp:x:-5:1::/:\n#app:x:1:1::/:/\n" + "y" * 5000 + "\napp:x:77:77::/:/bin/sh"
    show = identity(host, "app", "0", {"etc/passwd": File(text)})
    equal(show.uids, [77] * 3)


@case
def no_passwd_at_all(host):
    image = host.image(["/show"], name="example.com/a", base=False, app={"user": "5", "group": "6"}, files={
        "show": File(open(os.path.join(HELPERS, "show"), "rb").read(), 0o755), "out": Dir(0o1777)})
    host.run(image)
    show = host.show("a")
    equal((show.uids, show.gids), ([5] * 3, [6] * 3))


@case
def supplementary_groups(host):
    show = identity(host, "1000", "1000", supplementaryGIDs=[5, 50, 65534])
    equal(set(show.groups) - {1000}, {5, 50, 65534}, "groups")


@case
def no_supplementary_groups_of_ours(host):
    show = identity(host, "1000", "1000")
    equal(set(show.groups) - {1000}, set(), "groups")


@case
def user_replaced_on_the_command_line(host):
    host.run(host.image(["/bin/show"], name="example.com/a"), "--user=other", "--group=others")
    show = host.show("a")
    equal((show.uids, show.gids), ([1001] * 3, [1002] * 3))


@case
def supplementary_groups_of_the_image_are_its_users(host):
    image = host.shell("echo $(id -G)", app={"user": "app", "group": "staff", "supplementaryGIDs": [5, 6]})
    for words, groups in (((), "50 5 6"), (("--group=1002",), "1002 5 6"), (("--user=other",), "1002"), (("--user=other:staff",), "50"),
                          (("--user=0", "--supplementary-gids=7"), "0 7")):
        equal(host.run(image, *words).out.split(), groups.split(), str(words))


# --- Capabilities ---------------------------------------------------------------------------------------------------------

@case
def default_capabilities_are_the_specifications(host):
    show = identity(host, "0", "0")
    for which in ("Bnd", "Prm", "Eff"):
        equal(show.capabilities(which), DEFAULT_CAPABILITIES, "Cap" + which)
    equal(len(DEFAULT_CAPABILITIES), 14)
    equal(show.capabilities("Amb"), frozenset(), "CapAmb")


@case
def default_capabilities_without_user_namespace(host):
    host.run("--no-userns", host.image(["/bin/show"], name="example.com/a"))
    show = host.show("a")
    equal(show.capabilities("Bnd"), DEFAULT_CAPABILITIES, "CapBnd")
    equal(show.capabilities("Eff"), DEFAULT_CAPABILITIES, "CapEff")


@case
def retain_set_is_all_there_is(host):
    show = identity(host, "0", "0", grant=["--grant=CAP_NET_ADMIN"],
                    isolators=[{"name": "os/linux/capabilities-retain-set", "value": {"set": ["CAP_KILL", "CAP_NET_ADMIN"]}}])
    equal(show.capabilities("Bnd"), {"KILL", "NET_ADMIN"})
    equal(show.capabilities("Eff"), {"KILL", "NET_ADMIN"})


@case
def remove_set_takes_away(host):
    show = identity(host, "0", "0", isolators=[{"name": "os/linux/capabilities-remove-set",
                                                "value": {"set": ["CAP_KILL", "CAP_MKNOD"]}}])
    lacks(show.capabilities("Bnd"), "KILL")
    lacks(show.capabilities("Bnd"), "MKNOD")
    contains(show.capabilities("Bnd"), "CHOWN")


@case
def capabilities_really_are_in_force(host):
    """Not only in /proc/PID/status: operations that need SYS_ADMIN or NET_ADMIN fail."""
    host.acnspawn("run", host.image(["/bin/poke", "mount", "/tmp"])).expect(1)
    r = host.acnspawn("run", host.shell("ip link add x type dummy"))
    true(r.rc != 0, "network could be changed")
    host.acnspawn("run", host.image(["/bin/poke", "chroot", "/srv"])).expect(0)


# --- User namespaces ------------------------------------------------------------------------------------------------------

@case
def user_namespace_by_default(host):
    show = identity(host, "0", "0")
    equal(len(show.uid_map.split()), 3, "fields of uid_map")
    inside, outside, size = map(int, show.uid_map.split())
    equal((inside, size), (0, 65536))
    true(outside >= 65536, "root of the pod is uid %d of the host" % outside)
    true(show.namespaces["user"] != os.readlink("/proc/self/ns/user"), "no user namespace")


@case
def no_user_namespace_by_name(host):
    host.run("--no-userns", host.image(["/bin/show"], name="example.com/a"))
    show = host.show("a")
    equal(show.namespaces["user"], os.readlink("/proc/self/ns/user"))


@case
def files_written_belong_to_the_range(host):
    host.run("--name=p", host.shell("touch /out/f; chown 1000:50 /out/f; chmod 600 /etc/passwd; stat -c %u:%g /out/f"))
    uuid = host.status("p")["uuid"]
    base = host.uid_base(uuid)
    app = host.status("p")["apps"][0]["name"]
    st = os.stat(os.path.join(host.upper(app), "out/f"))
    equal((st.st_uid, st.st_gid), (base + 1000, base + 50))


@case
def files_of_the_image_have_their_owners(host):
    files = {"srv/f": File("x", 0o640, 1000, 50), "srv/d": Dir(0o2755, 1001, 1002), "srv/s": File("x", 0o4755, 0, 0)}
    r = host.run(host.shell("stat -c '%n %u %g %a' /srv/f /srv/d /srv/s /bin/busybox", files=files))
    equal(r.out.split("\n"), ["/srv/f 1000 50 640", "/srv/d 1001 1002 2755", "/srv/s 0 0 4755", "/bin/busybox 0 0 755", ""])


@case
def group_policies(host):
    """The user app of the image is in staff (50), too."""
    def groups(policy, user, group, *more):
        image = host.shell("id -g; grep Groups: /proc/self/status", app={"user": user, "group": group})
        gid, _, *l = host.run(image, "--group-policy=" + policy, *more).out.split()
        return int(gid), sorted(int(g) for g in l)

    equal(groups("merge", "app", "77"), (77, [50, 77]))
    equal(groups("strict", "app", "77", "--supplementary-gids=6,5"), (77, [5, 6, 77]))
    equal(groups("strict", "app", "77", "--group=:user"), (1000, [1000]))
    equal(groups("auto", "app", "77"), (77, []))
    contains(host.acnspawn("prepare", host.shell("true"), "--group-policy=some").expect(2).err, "must be auto, merge or strict")


@case
def ambient_capabilities_are_those_of_any_user(host):
    image = host.shell("grep Cap /proc/self/status", app={"user": "1000", "group": "1000"})
    for more in ((), ("--no-new-privileges",)):
        r = host.run(image, "--caps-retain=CAP_KILL,CAP_NET_RAW", "--caps-ambient=net_raw", *more)
        equal(sorted({line.split()[1].lstrip("0") for line in r.out.splitlines()}), ["2000", "2020"], more)
    r = host.acnspawn("run", image, "--caps-retain=CAP_KILL", "--caps-ambient=CAP_KILL,CAP_NET_RAW").expect(1)
    contains(r.err, "CAP_NET_RAW is not among the capabilities of app")
    contains(host.acnspawn("prepare", image, "--caps-ambient=CAP_A B").expect(2).err, "must be names of capabilities")


@case
def ranges_of_pods_are_disjoint(host):
    """Also with many pods prepared at once."""
    image = host.shell("sleep 1000")
    processes = [host.start("prepare", image) for _ in range(50)]
    uuids = []
    for p in processes:
        uuids.append(host.finish(p).expect(0).out.strip())
    equal(len(set(uuids)), 50, "number of pods")
    bases = sorted(host.uid_base(u) for u in uuids)
    for a, b in zip(bases, bases[1:]):
        true(b - a >= 65536, "ranges %d and %d overlap" % (a, b))
    host_users = [int(line.split(":")[2]) for line in read_text("/etc/passwd").splitlines() if line.count(":") >= 6]
    for base in bases:
        true(not any(base <= u < base + 65536 for u in host_users if u != 65534), "range %d holds users of the host" % base)


@case
def processes_run_with_ids_of_the_range(host):
    uuid = host.detach(host.shell("exec sleep 1000", app={"user": "1000", "group": "1000"}))
    base = host.uid_base(uuid)
    pid = wait_for(lambda: [p for p, line in find_processes(host) if line == "sleep 1000"], "app start")[0]
    equal(re.search(r"Uid:\s+(\d+)", read_text("/proc/%d/status" % pid)).group(1), str(base + 1000))
    host.acnspawn("stop", uuid).expect(0)


# --- Users of the host --------------------------------------------------------------------------------------------------

NSPAWN = """
for h in unified systemd; do mkdir /sys/fs/cgroup/$h/$1 && echo $$ >/sys/fs/cgroup/$h/$1/cgroup.procs; done
SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 systemd-nspawn --quiet --register=no --keep-unit --settings=no -U --private-users-ownership=off --pipe \\
        --machine=$1 -D $2 /bin/busybox cat /proc/self/uid_map </dev/null
for h in unified systemd; do echo $$ >/sys/fs/cgroup/$h/cgroup.procs; find /sys/fs/cgroup/$h/$1 -depth -type d -exec rmdir {} +; done
"""


def picked_by_nspawn(host, base):
    """The first user that 'systemd-nspawn -U' picks for a container whose directory belongs to BASE, which it tries first."""
    root, name = host.path("container"), "acnspawn-test-%d" % os.getpid()
    if not os.path.isdir("/sys/fs/cgroup/unified") or not os.path.isdir("/sys/fs/cgroup/systemd"):
        raise Skip("cgroups are not mounted as this case needs them")
    shutil.rmtree(root, ignore_errors=True)
    for d in "usr", "bin", "etc", "proc", "sys", "dev", "tmp", "run":
        os.makedirs(os.path.join(root, d))
    shutil.copy(BUSYBOX, root + "/bin/busybox")
    with open(root + "/etc/os-release", "w") as f:
        f.write("ID=test\n")
    os.chown(root, base, base)
    r = subprocess.run(["sh", "-c", NSPAWN, "sh", name, root], capture_output=True, text=True, timeout=60)
    with contextlib.suppress(OSError):
        os.rmdir("/run/systemd/nspawn/propagate/" + name)
    fields = r.stdout.split()
    true(len(fields) == 3, "systemd-nspawn: " + r.stderr)
    return int(fields[1])


def user_of(number):
    r = subprocess.run(["getent", "passwd", str(number)], capture_output=True, text=True)
    return r.stdout.split(":")[0].strip()


def claims(base):
    return [f for f in ("/run/systemd/nspawn-uid/%d" % base, "/run/userdb/%d.user" % base, "/run/userdb/%d.group" % base,
                        "/run/userdb/acnspawn-%d.user" % base, "/run/userdb/acnspawn-%d.group" % base) if os.path.lexists(f)]


@case
def users_of_a_running_pod_are_those_of_no_container(host):
    uuid = host.detach(host.shell("exec sleep 1000", name="example.com/a"))
    base = host.uid_base(uuid)
    equal(len(claims(base)), 5)
    if "systemd" in re.search(r"^passwd:(.*)", read_text("/etc/nsswitch.conf"), re.M).group(1).split():
        equal(user_of(base), "acnspawn-%d" % base)
        equal(user_of(base + 1), "")
    true(picked_by_nspawn(host, base) != base, "a container has the users of the pod")
    host.acnspawn("stop", uuid).expect(0)
    wait_for(lambda: not claims(base), "the end of the claim")
    equal(user_of(base), "")
    equal(picked_by_nspawn(host, base), base, "users that no pod has")
    killed = host.detach(host.shell("exec sleep 1000", name="example.com/b"))
    base = host.uid_base(killed)
    host.kill_pods()
    wait_for(lambda: host.state(killed) == "exited", "the end of the pod")
    host.acnspawn("rm", killed).expect(0)
    equal(claims(base), [], "what is left of a pod that was killed")
    # And the other way round: a container was there first.
    late = host.prepare(host.image())
    base = host.uid_base(late)
    os.makedirs("/run/systemd/nspawn-uid", exist_ok=True)
    with open("/run/systemd/nspawn-uid/%d" % base, "w") as f:
        fcntl.fcntl(f, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        r = host.acnspawn("run", late).expect(1)
        os.unlink(f.name)
    contains(r.err, "its users %d to %d are those of a container of systemd-nspawn" % (base, base + 65535))
    equal(claims(base), [])


@case
def users_of_the_host_are_those_of_no_pod(host):
    """Of each range but every 16th some user or group in the middle is one of the host."""
    for name, line in ("passwd", "u%d:x:%d:100::/:/bin/sh\n"), ("group", "g%d:x:%d:\n"):
        table = host.path(name)
        shutil.copy("/etc/" + name, table)
        with open(table, "a") as f:
            f.writelines(line % (n, (n << 16) + 1 + n % 65535) for n in range(0x8, 0x7000) if n % 16)
        image = host.image()
        for _ in range(4):
            r = subprocess.run(["unshare", "-m", "sh", "-c", 'mount --bind "$1" "$2"; shift 2; exec "$@"', "sh", table, "/etc/" + name,
                                *host.argv("prepare", image)], capture_output=True, text=True)
            equal(r.returncode, 0, r.stderr)
            host.note_pods()
            equal((host.uid_base(r.stdout.strip()) >> 16) % 16, 0, "range with a user of the host in /etc/" + name)


main()
