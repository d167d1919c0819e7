#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The host's systemd is upgraded under running pods, whose process 1 it is: they go on with the programs that they were started from,
and are controlled as before. The new packages are made of the files that are installed, as a higher version."""

from harness import *

UNIT = "acnspawn@web.service"
INFO = "/var/lib/dpkg/info/"
SYSTEMD = "/usr/lib/systemd/systemd"
STAY = "trap 'echo got term; exit 0' TERM; echo started; touch /out/up; while :; do sleep 1000 & wait $!; done"


def command(*args, rc=0, timeout=300):
    r = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout, cwd="/")
    if rc is not None:
        equal(r.returncode, rc, "status of %s, which says %r" % (" ".join(args), r.stdout))
    return r.stdout.strip()


def systemctl(*args, rc=0):
    return command("systemctl", *args, rc=rc)


# --- The packages ----------------------------------------------------------------------------------------------------------

def packages():
    """Name to version of those with systemd's programs that pods and the host run, and the libraries that have to be equal."""
    lines = command("dpkg-query", "--show", "--showformat=${source:Package} ${Package} ${Version}\\n").splitlines()
    found = dict(line.split()[1:] for line in lines if line.startswith("systemd "))
    return {name: version for name, version in found.items() if not name.endswith("udev1") and name != "udev"}


def control_of(name, version):
    """The fields of the installed package, as a higher version that needs the others in that version."""
    text = command("dpkg-query", "--status", name)
    text = re.sub(r"(?m)^(Status|Config-Version): .*\n", "", text)
    text = re.sub(r"(?m)^Conffiles:\n( .*\n)*", "", text)
    text = text.replace("(= %s)" % version, "(= %s+1)" % version)
    return re.sub(r"(?m)^Version: .*", "Version: %s+1" % version, text) + "\n"


def copy(path, tree):
    """A file, a link or a directory of a package; /lib and the like are directories in packages, and links on the host."""
    target = tree + path
    if os.path.isdir(path) and (not os.path.islink(path) or path.count("/") == 1):
        os.makedirs(target, exist_ok=True)
    elif os.path.lexists(path):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy2(path, target, follow_symlinks=False)


def rebuild(name, version, directory):
    tree = "%s/%s" % (directory, name)
    os.makedirs(tree + "/DEBIAN")
    for path in command("dpkg-query", "--listfiles", name).splitlines():
        if path.startswith("/") and path != "/.":
            copy(path, tree)
    for entry in os.listdir(INFO):
        package, _, kind = entry.rpartition(".")
        if package.split(":")[0] == name and kind in ("conffiles", "preinst", "postinst", "prerm", "postrm", "triggers", "shlibs", "symbols"):
            shutil.copy2(INFO + entry, tree + "/DEBIAN/" + kind)
    conffiles = tree + "/DEBIAN/conffiles"
    if os.path.exists(conffiles):
        kept = [l for l in read_text(conffiles).splitlines() if os.path.lexists(tree + l)]
        with open(conffiles, "w") as f:
            f.write("".join(l + "\n" for l in kept))
    with open(tree + "/DEBIAN/control", "w") as f:
        f.write(control_of(name, version))
    command("dpkg-deb", "--root-owner-group", "-Znone", "--build", tree, tree + ".deb")
    shutil.rmtree(tree)
    return tree + ".deb"


# --- The pods ----------------------------------------------------------------------------------------------------------------

def inode(path):
    st = os.stat(path)
    return st.st_dev, st.st_ino


@contextlib.contextmanager
def unit_in_the_store_of(host):
    path = "/run/systemd/system/acnspawn@.service.d"
    os.makedirs(path)
    with open(path + "/test.conf", "w") as f:
        f.write("[Service]\nEnvironment=ACNSPAWN_DIR=%s\n" % host.dir)
    systemctl("daemon-reload")
    try:
        yield
    finally:
        host.note_pods()
        systemctl("stop", UNIT, rc=None)
        shutil.rmtree(path)
        systemctl("daemon-reload")


def life(host, pod):
    """What stays as it is while the pod goes on."""
    status = host.status(pod)
    return status["uuid"], status["state"], status["leader"], [(a["name"], a["state"], a["started"]) for a in status["apps"]]


@case
@with_timeout(900)
def pods_live_on_through_an_upgrade_of_systemd(host):
    image = host.shell(STAY, name="example.com/stay")
    with unit_in_the_store_of(host):
        host.prepare("--name=web", image, "--name=app")
        systemctl("start", UNIT)
        host.acnspawn("run", "--detach", "--name=box", "--exit-policy=never", image, "--name=app").expect(0)
        for pod in "web", "box":
            wait_for(lambda: "started" in host.acnspawn("logs", pod).expect(0).out, "output of " + pod, timeout=60)
        before, installed, old = {pod: life(host, pod) for pod in ("web", "box")}, packages(), inode(SYSTEMD)
        contains(installed, "systemd")
        new = {name: rebuild(name, version, host.path("packages")) for name, version in installed.items()}
        libraries = {name for name in new if name.startswith("lib")} # pre-dependencies of others
        for names in libraries, set(new) - libraries:
            command("env", "DEBIAN_FRONTEND=noninteractive", "dpkg", "--force-unsafe-io", "--install", *(new[name] for name in names))
        equal(packages(), {name: version + "+1" for name, version in installed.items()})
        true(inode(SYSTEMD) != old, "the program was replaced")
        equal(inode("/proc/1/exe"), inode(SYSTEMD), "the program of the host's systemd")
        # They go on, and do what is asked of them.
        equal({pod: life(host, pod) for pod in ("web", "box")}, before)
        equal(systemctl("is-active", UNIT), "active")
        for pod in "web", "box":
            equal(inode("/proc/%d/exe" % host.status(pod)["leader"]), old, "the program of the systemd of " + pod)
            equal(host.acnspawn("enter", pod, "echo", "inside").expect(0).out, "inside\n")
            contains(command("machinectl", "--no-legend", "list"), pod)
            contains(systemctl("-M", pod, "list-units", "--no-legend", "app-*.service"), "running")
        host.acnspawn("restart-app", "box", "app").expect(0)
        host.acnspawn("add-app", "box", "--start", image, "--name=more").expect(0)
        host.acnspawn("update-app", "--memory=64Mi", "box", "app").expect(0)
        wait_for(lambda: host.acnspawn("logs", "box").expect(0).out.count("started") == 3, "output of new starts", timeout=60)
        equal([a["state"] for a in host.status("box")["apps"]], ["running"] * 2)
        systemctl("set-property", "--runtime", UNIT, "MemoryMax=1G")
        # Pods that are run from then on have the new programs.
        systemctl("restart", UNIT)
        web = host.status("web")
        equal((web["predecessor"], web["state"]), (before["web"][0], "running"))
        equal(inode("/proc/%d/exe" % web["leader"]), inode(SYSTEMD))
        contains(host.acnspawn("logs", before["web"][0]).expect(0).out, "got term")
        host.acnspawn("stop", "box").expect(0)
        equal(host.acnspawn("logs", "box").expect(0).out.count("got term"), 3)


main()
