#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The package of Debian on a host with systemd: what an installation switches on, upgrades and removal while pods run, and what a
purge leaves. The pods are in the store of the system, which removal is about. The last case leaves the package installed."""

from harness import *

PACKAGE, NEXT = "/opt/tests/package/acnspawn.deb", "/opt/tests/package/acnspawn-next.deb"
STORE = "/var/lib/acnspawn"
STAY = "trap 'echo got term; exit 0' TERM; echo started; touch /out/up; while :; do sleep 1000 & wait $!; done"
UNIT = "acnspawn@web.service"


def command(*args, rc=0):
    r = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, cwd="/")
    if rc is not None:
        equal(r.returncode, rc, "status of %s, which says %r" % (" ".join(args), r.stdout))
    return r.stdout.strip()


def acnspawn(*args, rc=0):
    """Of the system's store."""
    return command("env", "-u", "ACNSPAWN_DIR", "acnspawn", *args, rc=rc)


def systemctl(*args, rc=0):
    return command("systemctl", *args, rc=rc)


def dpkg(*args):
    return command("env", "DEBIAN_FRONTEND=noninteractive", "dpkg", *args)


def needs_package(function, mark=case):
    def run(host):
        if not os.path.exists(PACKAGE):
            raise Skip("run.py has no --package")
        try:
            function(host)
        finally:
            if not os.path.exists("/usr/bin/acnspawn"):
                dpkg("--install", PACKAGE)  # what follows needs it
    run.__name__ = function.__name__
    run.timeout = 900
    return mark(run)


def needs_package_in_machine(function):
    return needs_package(function, of_machine)


def is_built_for_this_release():
    """Units are where systemd of the release has its own. The package of Debian 12 has them in /lib, where later releases have none: dpkg
    warns there of directories that it does not remove."""
    found = [command("dpkg-query", "--search", "*/system/" + unit).split(": ")[1] for unit in ("acnspawn.socket", "systemd-journald.socket")]
    return os.path.dirname(found[0]) == os.path.dirname(found[1])


def pod(name):
    return json.loads(acnspawn("status", "--json=short", name))


def leader(uuid):
    """The pod's systemd, as machined has it."""
    for line in command("machinectl", "--no-legend", "list").splitlines():
        name = line.split()[0]
        if command("machinectl", "show", "--value", "--property=Id", name) == uuid.replace("-", ""):
            return int(command("machinectl", "show", "--value", "--property=Leader", name))
    fail("no machine has the ID " + uuid)


def supervisors():
    return of_processes(lambda pid: os.readlink("/proc/%d/exe" % pid), command("pgrep", "-x", "supervise", rc=None).split())


@contextlib.contextmanager
def two_pods(host):
    """"web", which is a unit of the host, and "box"."""
    image = host.shell(STAY, name="example.com/stay")
    try:
        acnspawn("prepare", "--name=web", "--insecure-options=signature", image, "--name=app")
        systemctl("start", UNIT)
        acnspawn("run", "--detach", "--name=box", "--insecure-options=signature", image, "--name=app")
        for name in "web", "box":
            wait_for(lambda: "started" in acnspawn("logs", name), "output of " + name, timeout=60)
        yield
    finally:
        if os.path.exists("/usr/bin/acnspawn"):
            systemctl("stop", UNIT, rc=None)
            acnspawn("stop", "--force", "box", rc=None)
            acnspawn("rm", "web", "box", rc=None)
            acnspawn("gc", "--grace-period=0", rc=None)
            acnspawn("image", "rm", "example.com/stay", rc=None)


@needs_package
def what_an_installation_switches_on(host):
    equal(systemctl("is-enabled", "acnspawn.socket", "acnspawn-gc.timer"), "enabled\nenabled")
    equal(systemctl("is-active", "acnspawn.socket"), "active")
    contains(command("getent", "passwd", "acnspawn-journal"), "nologin")
    equal([oct(os.stat(d).st_mode) for d in ("/run/acnspawn", "/run/acnspawn/netns")], ["0o40755"] * 2)
    # The image has no documentation.
    damaged = [line for line in dpkg("--verify", "acnspawn").splitlines() if "/usr/share/doc/" not in line and "/usr/share/man/" not in line]
    equal(damaged, [], "files that are not as they are in the package")


@needs_package_in_machine
def what_an_installation_changes_in_the_kernel(host):
    equal(read_text("/proc/sys/fs/inotify/max_user_instances").strip(), "8192")
    if "apparmor" in read_text("/sys/kernel/security/lsm"):
        command("/var/lib/dpkg/info/acnspawn.postinst", "configure")
        contains(read_text("/sys/kernel/security/apparmor/profiles"), "acnspawn-app (enforce)")


@needs_package
def the_first_steps_of_the_readme(host):
    """As autopkgtest runs them."""
    os.makedirs(host.path("tmp"))
    command("env", "-C", "/opt/tests/source", "AUTOPKGTEST_TMP=" + host.path("tmp"), "debian/tests/first-steps")
    systemctl("stop", "acnspawn.service")  # it stays for a while after the last call


@needs_package
def pods_live_on_through_an_upgrade_and_are_controlled_by_the_new_version(host):
    with two_pods(host):
        before = supervisors()
        equal(len(before), 2, "supervisors")
        old = acnspawn("version")
        uuids = [pod(name)["uuid"] for name in ("web", "box")]
        leaders = [leader(uuid) for uuid in uuids]
        dpkg("--install", NEXT)
        true(acnspawn("version") != old, "another version is installed")
        after = supervisors()
        equal(set(after), set(before), "supervisors after the upgrade")
        for path in after.values():
            contains(path, "(deleted)")
        equal([pod(name)["uuid"] for name in ("web", "box")], uuids)
        equal([leader(uuid) for uuid in uuids], leaders, "the pods' systemd")
        equal([pod(name)["state"] for name in ("web", "box")], ["running", "running"])
        equal(systemctl("is-active", UNIT), "active")
        for name in "web", "box":
            equal(acnspawn("enter", name, "echo", "inside"), "inside")
            contains(acnspawn("logs", name), "started")
        acnspawn("restart-app", "box", "app")
        wait_for(lambda: acnspawn("logs", "box").count("started") == 2, "a new start of the app", timeout=60)
        if "memory" in read_text("/sys/fs/cgroup/cgroup.controllers").split():
            acnspawn("update-app", "--memory=64Mi", "box", "app")
        acnspawn("pause", "box")
        equal(pod("box")["state"], "paused")
        acnspawn("resume", "box")
        acnspawn("stop", "box")
        contains(acnspawn("logs", "box"), "got term")
        systemctl("stop", UNIT)
        equal(systemctl("show", "-P", "Result", UNIT), "success")
        contains(acnspawn("logs", "web"), "got term")
        # And again, by the new supervisor.
        systemctl("start", UNIT)
        lacks(" ".join(supervisors().values()), "(deleted)")
    dpkg("--install", PACKAGE)


@needs_package
def a_removal_ends_pods_in_order_and_a_purge_keeps_them(host):
    with two_pods(host):
        out = dpkg("--remove", "acnspawn")
        contains(out, "Stopping the pods that run: " + UUID.search(out).group(0))
        equal(supervisors(), {})
        equal(systemctl("is-active", UNIT, rc=None), "inactive")
        equal(systemctl("list-units", "--no-legend", "acnspawn*", rc=None), "")
        dpkg("--install", PACKAGE)
        for name in "web", "box":
            equal(pod(name)["state"], "exited")
            contains(acnspawn("logs", name), "got term")
        fits = is_built_for_this_release()
        out = dpkg("--purge", "acnspawn")
        contains(out, "Images, pods and volumes are kept in " + STORE)
        if fits:
            lacks(out, "warning")
        dpkg("--install", PACKAGE)
        equal(pod("box")["state"], "exited")


@needs_package
def a_store_that_is_somewhere_else(host):
    """That of acnspawn.conf: its pods are ended by a removal, the units of gc and update use it, and a purge keeps it."""
    conf, store = "/etc/acnspawn/acnspawn.conf", host.path("other")
    os.makedirs(os.path.dirname(conf), exist_ok=True)
    with open(conf, "w") as f:
        f.write("[Store]\nDirectory = %s/\n[X-Other]\nDirectory=/\n" % store)
    try:
        systemctl("daemon-reload")
        for unit in "update", "update@box":
            systemctl("start", "acnspawn-%s.service" % unit)
        true(not os.path.exists(store), "a store was made that nobody uses")
        acnspawn("run", "--detach", "--name=box", "--insecure-options=signature", host.shell(STAY, name="example.com/stay"), "--name=app")
        uuid = pod("box")["uuid"]
        for unit, said in ("gc", "Nothing to remove."), ("update", "No app of a running pod has an image policy."):
            systemctl("start", "acnspawn-%s.service" % unit)
            contains(systemctl("show", "-P", "RequiresMountsFor", "acnspawn-%s.service" % unit), store)
            wait_for(lambda: said in command("journalctl", "-b", "-o", "cat", "-u", "acnspawn-%s.service" % unit), "what %s says" % unit, timeout=60)
        wait_for(lambda: "started" in acnspawn("logs", "box"), "output of box", timeout=60)
        out = dpkg("--remove", "acnspawn")
        contains(out, "Stopping the pods that run: " + uuid)
        equal(supervisors(), {})
        contains(dpkg("--purge", "acnspawn"), "The store in %s is kept. To remove it: rm -r --one-file-system '%s' '%s-uids'" % (store, store, store))
        dpkg("--install", PACKAGE)
        equal((pod("box")["uuid"], pod("box")["state"]), (uuid, "exited"))
        acnspawn("rm", "box")
    finally:
        os.unlink(conf)
        systemctl("daemon-reload")


@needs_package
def a_purge_of_an_unused_store_leaves_nothing(host):
    acnspawn("gc", "--grace-period=0")
    acnspawn("list")
    # As after pods with networks, volumes with quotas, and declared pods with a timer.
    os.makedirs("/run/acnspawn/networks/default", exist_ok=True)
    os.makedirs("/run/acnspawn/forwarding", exist_ok=True)
    os.makedirs("/run/userdb", exist_ok=True)
    open("/run/userdb/acnspawn-99991552.user", "a").close()
    if not os.path.lexists("/run/userdb/99991552.user"):
        os.symlink("acnspawn-99991552.user", "/run/userdb/99991552.user")
    os.makedirs("/etc/acnspawn/pods", exist_ok=True)
    os.makedirs("/var/lib/systemd/timers", exist_ok=True)
    for path in "/run/acnspawn/networks/default/last_reserved_ip.0", "/run/acnspawn/projects.lock", \
            "/var/lib/systemd/timers/stamp-acnspawn-update@web.timer":
        open(path, "a").close()
    try:
        lacks(dpkg("--purge", "acnspawn"), "are kept")
        left = command("find", "/etc", "/run", "/usr", "/var", "-xdev", "-name", "*acnspawn*", "-not", "-path", "/usr/share/doc/*")
        left = [p for p in left.splitlines() if "/acnspawn-test-" not in p]
        if left:
            fail("this is left: " + command("find", *left, "-ls", rc=None))
        true(not os.path.lexists("/run/userdb/99991552.user"), "a link to the record of a user is left")
    finally:
        dpkg("--install", PACKAGE)


main()
