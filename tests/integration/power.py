#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The power fails at any step of what changes a pod, an image, a volume, a trusted key, a credential, a declared pod, or the networks of
a pod (lost_power.py): what was there before, or what replaces it, is there afterwards, and nothing else is lost.

Then the pod is listed and run again, volumes that no pod uses can be removed, and gc removes no pod.

Without copies, and so at few steps: the file system is shut down by ioctl, with and without its journal written.

With ACNSPAWN_TEST_LONG=1 every step is looked at, on ext4 and XFS, otherwise a few of them.
"""

import fcntl
import struct

from lost_power import *
from signed_web import Keys

# --- Cases ---------------------------------------------------------------------------------------------------------------

ONE, TWO = {"db": "one"}, {"db": "two"}
SECOND, THIRD = {"db": "two", "second": "one"}, {"db": "two", "third": "one"}

# Calls that change a pod that runs, and what its apps are before and after.
RUNNING = (
    (("apply", "web"), ONE, ONE),
    (("update-app", "web", "db", "--image=TWO"), ONE, TWO),
    (("add-app", "web", "ONE", "--name=second"), TWO, SECOND),
    (("rm-app", "--force", "web", "second"), SECOND, TWO),
    (("launch-group", "web", "ONE", "--name=third"), TWO, THIRD),
)

# Others, with a pod that has run.
OTHERS = (
    (("fetch", "TWO"), ONE, ONE),
    (("volume", "create", "another"), ONE, ONE),
    (("prepare", "--name=other", "--volume=data,kind=named,source=another", "TWO"), ONE, ONE),
    (("run", "web"), ONE, ONE),
    (("rm", "other"), ONE, ONE),
    (("volume", "rm", "another"), ONE, ONE),
    (("image", "rm", "example.com/db:two"), ONE, ONE),
    (("rm", "web"), ONE, {}),
    (("gc", "--grace-period=0"), {}, {}),
)


@loses_power(1200)
def a_running_pod_changes(host, kind, busy):
    with store(host, kind) as s:
        uuid, found = s.run(), []
        s.declare(50)
        for args, before, after in RUNNING:
            s.sync()  # the last change was long ago
            steps = losses(s.disk, s.words(args), [host.supervisor(uuid)], busy)
            equal({a["name"]: a["image"]["labels"][0]["value"] for a in json.loads(host.acnspawn("cat-manifest", "web").expect(0).out)["apps"]},
                  after, "apps after %r" % (args,))
            found.append((steps, (before, after)))
            equal(steps[-1].verb, " ".join(s.words(args)))
        host.acnspawn("rm", "--force", "web").expect(0)
    look_at_all(s.disk, found)


@loses_power(1200)
def a_store_changes(host, kind, busy):
    with store(host, kind) as s:
        s.run()
        with open(host.dir + "/volumes/keep/data/once", "w"):
            pass
        host.acnspawn("stop", "web").expect(0)
        found = []
        for args, before, after in OTHERS:
            s.sync()
            found.append((losses(s.disk, s.words(args), (), busy), (before, after)))
            settle(host)  # the pod that was run ends
    look_at_all(s.disk, found)


FS_IOC_SHUTDOWN = 0x8004587d  # _IOR('X', 125, __u32)
LOGFLUSH, NOLOGFLUSH = 1, 2


def shut_down(host, kind, flags, at):
    """The file system is shut down when an app is updated: at the step AT, or at the end."""
    with store(host, kind) as s:
        uuid = s.run()
        s.sync()
        seen = []

        def now(number, call):
            fd = os.open(host.dir, os.O_RDONLY)
            try:
                fcntl.ioctl(fd, FS_IOC_SHUTDOWN, struct.pack("I", flags))
            except OSError as e:
                raise Skip("%s cannot be shut down here: %s" % (kind, e))
            finally:
                os.close(fd)
            seen.append(Step("update-app, by ioctl", number, call, None))
            return True
        stopped(host, host.argv(*s.words(("update-app", "web", "db", "--image=TWO"))), [host.supervisor(uuid)],
                lambda number, call: not seen and at and re.search(at, call) and now(number, call))
        if not seen and not at:
            now(0, "the end")
        true(seen, "no system call %r was seen" % at)
        end_all(host)
        s.disk.unmount()
        s.disk.mount(s.disk.file)
        look(host, seen[0], (ONE, TWO))


@case
@with_timeout(600)
def the_file_system_is_shut_down(host):
    points = [("xfs" if shutil.which("mkfs.xfs") else "ext4", LOGFLUSH, r'renameat\(.*"pod"\)')]
    if LONG:
        points = [(kind, flags, at) for kind in FILE_SYSTEMS for flags in (LOGFLUSH, NOLOGFLUSH)
                  for at in (r'/definition"\)', r'"pod\..*tmp"', r'renameat\(.*"pod"\)', r'"\.removed', None)]
    for kind, flags, at in points:
        shut_down(host, kind, flags, at)
        shutil.rmtree(host.dir)


# --- Trusted keys, declared pods, credentials, networks ---------------------------------------------------------------------

def few(steps):
    """Without ACNSPAWN_TEST_LONG when something gets its name, and the end."""
    return steps if LONG else list(dict.fromkeys((steps[0], steps[-1])))


def etc(host):
    """The administrator's configuration, on the disk that loses power."""
    return "--config-dir=" + host.dir + "/etc"


def keys_of(listed):
    return sorted((x["prefix"], x["fingerprint"], x["state"], *x["userIDs"]) for x in json.loads(listed.out))


def look_at_keys(host, step, expected):
    acnspawn = works(host, step)
    listed = acnspawn(etc(host), "trust", "--list", "--json=short")
    expect(step, keys_of(listed), expected, "trusted keys")
    if listed.err:
        contains(listed.err, "No keys are trusted", "messages after %s" % step)
    if LONG:
        acnspawn(etc(host), "trust", "--yes", "--prefix=example.com", host.path("bob.asc"))
        for fingerprint in {k[1] for k in keys_of(acnspawn(etc(host), "trust", "--list", "--json=short"))}:
            acnspawn(etc(host), "trust", "--remove=" + fingerprint)
        equal([f for _, _, files in os.walk(host.dir + "/etc/trustedkeys") for f in files if f != ".lock"], [], "files of keys in the end, after %s" % step)


@loses_power(600)
def trusted_keys_change(host, kind, busy):
    """One is trusted, trusted with another user ID, and removed; another is trusted."""
    if not shutil.which("gpg"):
        raise Skip("the program gpg is missing")
    people = {name: Keys(host.path("gnupg"), name) for name in (("alice", "bob") if LONG else ("alice",))}

    def save(name):
        with open(host.path(name + ".asc"), "wb") as f:
            f.write(people[name].gpg("--armor", "--export"))
    try:
        with store(host, kind) as s:
            for name in people:
                save(name)
            found, now = [], lambda: keys_of(host.acnspawn(etc(host), "trust", "--list", "--json=short").expect(0))
            add = ("--yes", "--prefix=example.com/app", host.path("alice.asc"))
            for args in (add, add, ("--remove=" + people["alice"].fingerprint,)) + ((("--yes", "--root", host.path("bob.asc")),) if LONG else ()):
                if len(found) == 1:
                    people["alice"].gpg("--passphrase", "", "--quick-add-uid", people["alice"].fingerprint, "Alice <alice@example.org>")
                    save("alice")
                before = now()
                s.sync()
                steps = losses(s.disk, (etc(host), "trust", *args), (), busy)
                true(now() != before, "%r has changed nothing" % (args,))
                found.append((few(steps), (before, now())))
    finally:
        for k in people.values():
            k.close()
    look_at_all(s.disk, found, look_at_keys)


def declared_in(host):
    top = host.dir + "/etc/pods"
    return {n: read_text(os.path.join(top, n)) for n in (os.listdir(top) if os.path.exists(top) else []) if not n.startswith(".")}


def look_at_declared(host, step, expected):
    acnspawn = works(host, step)
    files = declared_in(host)
    expect(step, files, expected, "declared pods")
    acnspawn(etc(host), "pod", "list")
    for name in files:
        acnspawn(etc(host), "pod", "verify", name[:-len(".pod")])
    if "web.pod" in files:
        acnspawn(etc(host), "prepare", "--declared=web")


@loses_power(600)
def declared_pods_change(host, kind, busy):
    with store(host, kind) as s:
        found = []
        host.prepare("--name=old", *s.words(("ONE",)))
        for args in (("web", "--", "ONE", "--name=db"), ("--force", "web", "--", "TWO", "--name=db"), ("copy", "--from=old")):
            before = declared_in(host)
            s.sync()
            found.append((few(losses(s.disk, (etc(host), "pod", "create", *s.words(args)), (), busy)), (before, declared_in(host))))
            true(declared_in(host) != before, "%r has changed nothing" % (args,))
    look_at_all(s.disk, found, look_at_declared)


DATA = "--volume=data,kind=named,source=keep"
SECRET = "open-sesame-%d" % os.getpid()


def holding(host):
    """Files of pods with the secret."""
    return [os.path.join(top, f) for top, _, files in os.walk(host.dir + "/pods") for f in files
            if os.path.isfile(os.path.join(top, f)) and SECRET in read_text(os.path.join(top, f))]


def look_at_given(host, step, expected):
    """A secret that was given by value is there until the pod is run; then it is nowhere on disk."""
    pods = [p for p in json.loads(works(host, step)("list", "--json=short").out) if p["name"] == "web"]
    if not pods or pods[0]["state"] != "exited":
        look(host, step, expected)
        true(not step.is_end() or pods, "there is no pod after %s" % step)
    else:
        contains(host.acnspawn("run", "web").expect(1).err, "'token'", "message after %s" % step)
        works(host, step)("gc")
    equal(holding(host), [], "files with the secret after %s" % step)


@loses_power(1200)
def credentials_change(host, kind, busy):
    file = host.path("secret")
    with open(file, "w") as f:
        f.write(SECRET)
    one, second, later = {"db": "one " + SECRET}, {"db": "one", "second": "one " + SECRET}, {"db": "one", "second": "two " + SECRET}
    with store(host, kind) as s:
        given, read = [], []
        s.sync()
        given.append((losses(s.disk, s.words(("prepare", "--name=web", DATA, "ONE", "--name=db", "--set-credential=token:" + SECRET)), (), busy),
                      ({}, one)))
        with open(host.dir + "/volumes/keep/data/once", "w"):
            pass
        s.sync()
        given.append((losses(s.disk, ("run", "web"), (), busy, pick=r'"pods/running'), (one, one)))
        settle(host)
        host.acnspawn("rm", "web").expect(0)
        os.unlink(host.dir + "/volumes/keep/data/once")
        uuid = s.run() if LONG else None
        for args, before, after in ((("add-app", "web", "ONE", "--name=second", "--credential=token:" + file), ONE, second),
                                    (("update-app", "web", "second", "--image=TWO"), second, later),
                                    (("rm-app", "--force", "web", "second"), later, ONE)) if LONG else ():
            s.sync()
            read.append((losses(s.disk, s.words(args), [host.supervisor(uuid)], busy), (before, after)))
        if uuid:
            host.acnspawn("rm", "--force", "web").expect(0)
    look_at_all(s.disk, given, look_at_given)
    look_at_all(s.disk, read)


def look_at_networks(host, step, expected):
    """Besides the rest the pod's addresses are given back, whatever is known of them."""
    look(host, step, expected)
    acnspawn = works(host, step)
    for p in json.loads(acnspawn("list", "--all", "--json=short").out):
        acnspawn("rm", p["uuid"])
    equal(leases(host), [], "addresses that are taken, after %s" % step)
    netns = "/run/acnspawn/netns"
    equal(os.listdir(netns) if os.path.exists(netns) else [], [], "network namespaces, after %s" % step)


@contextlib.contextmanager
def networks(host):
    """Network "lan" keeps its addresses on the disk that loses power, and "memory" in /run."""
    memory = "/run/acnspawn/networks-" + os.path.basename(host.tmp)
    os.makedirs(host.path("config/net.d"))
    for i, (name, directory) in enumerate((("lan", host.dir + "/leases"), ("memory", memory))):
        with open(host.path("config/net.d/%s.conflist" % name), "w") as f:
            f.write(bridge(i, name, directory))
    before = os.environ.get("ACNSPAWN_CONFIG_DIR")
    os.environ["ACNSPAWN_CONFIG_DIR"] = host.path("config")
    try:
        yield
    finally:
        del os.environ["ACNSPAWN_CONFIG_DIR"]
        if before is not None:
            os.environ["ACNSPAWN_CONFIG_DIR"] = before
        shutil.rmtree(memory, ignore_errors=True)


@loses_power(1200)
def networks_of_a_pod_change(host, kind, busy):
    with networks(host):
        with store(host, kind) as s:
            found = []
            for n in ("memory", "lan,memory") if LONG else ("lan,memory",):
                host.prepare("--name=web", "--net=" + n, DATA, s.images[0], "--name=db")
                with open(host.dir + "/volumes/keep/data/once", "w"):
                    pass
                s.sync()
                found.append((losses(s.disk, ("run", "web"), (), busy, pick=r'"network"\)'), (ONE, ONE)))
                settle(host)
                equal(leases(host), [], "addresses that are taken")
                s.sync()
                if LONG:
                    found.append((losses(s.disk, ("rm", "web"), (), busy), (ONE, {})))
                else:
                    host.acnspawn("rm", "web").expect(0)
        look_at_all(s.disk, found, look_at_networks)


# --- Costs -----------------------------------------------------------------------------------------------------------------

def syncs_of_supervisor(host, uuid, *args):
    """How often the supervisor, and what it forks, waits for the disk while acnspawn is run."""
    log = host.path("syncs")
    pid = host.supervisor(uuid)
    p = subprocess.Popen(["strace", "-f", "-qq", "-p", str(pid), "-o", log, "-e", "trace=fsync,fdatasync,syncfs"], stderr=subprocess.DEVNULL)
    host.children.append(p)
    wait_for(lambda: tracer_of(pid) != 0, "strace to attach")
    host.acnspawn(*args).expect(0)
    p.send_signal(signal.SIGINT)
    p.wait(patience(20))
    lines = [line for line in read_text(log).splitlines() if re.search(r"\d+\s+(fsync|fdatasync|syncfs)\(", line)]
    true(all("fsync" in line for line in lines), "syncs of single files: %r" % lines)
    return len(lines), {line.split()[0] for line in lines}, pid


@case
def changes_wait_for_the_disk_as_seldom_as_they_can(host):
    """Two syncs for the manifest, also of several apps at once, and one for each new file and the directories with their names. The
    supervisor itself never waits."""
    need_strace()
    image = host.shell("trap 'exit 0' TERM; touch /out/up; while :; do sleep 0.05; done", name="example.com/db")
    other = host.shell("trap 'exit 0' TERM; touch /out/up; while :; do :; sleep 0.05; done", name="example.com/db")
    uuid = host.detach("--name=web", image, "--name=db")
    host.wait_up("db", uuid)
    app = ["manifest", "lowers", "launch", "definition", "grants"]
    new = len(app) + 2  # its directory, and "apps"
    for args, limit in ((("add-app", "web", image, "--name=second"), new + 2),
                        (("update-app", "web", "db", "--image=" + other), new + 2),
                        (("add-app", "web", "--start", image, "--name=top"), new + 2),
                        (("add-app", "web", "--parent=top", image, "--name=low"), new + 2),
                        (("rm-app", "--force", "web", "second"), 2),
                        (("rm-app", "--force", "web", "top"), 2)):
        n, threads, pid = syncs_of_supervisor(host, uuid, *args)
        true(0 < n <= limit, "%d syncs of %r, expected no more than %d" % (n, args, limit))
        true(str(pid) not in threads, "the supervisor waits for the disk in %r" % (args,))
        if args[0] != "rm-app":
            name = next(n for n in os.listdir(host.pod_dir(uuid) + "/apps") if n.startswith(args[-1][7:]) or n.startswith("db@"))
            equal(sorted(n for n in os.listdir(os.path.join(host.pod_dir(uuid), "apps", name))
                         if os.path.isfile(os.path.join(host.pod_dir(uuid), "apps", name, n))), sorted(app), "files of the app")
    host.acnspawn("rm", "--force", "web").expect(0)


@case
def addresses_on_disk_cost_one_sync(host):
    """When the pod has left the network, before its record is removed. Nothing waits for the disk when the plugin has assigned one."""
    need_strace()
    with networks(host):
        uuid = host.prepare("--net=lan", host.shell("true"))
        log = host.path("strace.log")
        subprocess.run(["strace", "-f", "-y", "-qq", "-s", "200", "-o", log, "-e", "trace=fsync,fdatasync,syncfs,sync,unlinkat"] + host.argv("run", uuid), check=True,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=patience(100))
        host.note_pods()
        calls = read_text(log).splitlines()
        lease = [i for i, c in enumerate(calls) if "unlinkat(" in c and "/leases/lan/10.90." in c]
        synced = [i for i, c in enumerate(calls) if "sync" in c and "/leases" in c]
        record = [i for i, c in enumerate(calls) if "unlinkat(" in c and '"network"' in c]
        true(len(lease) == len(synced) == len(record) == 1 and lease < synced < record, "%r, %r, %r of %r" % (lease, synced, record, calls))
        host.acnspawn("rm", uuid).expect(0)


@case
def a_manifest_that_cannot_be_written_changes_nothing_on_disk(host):
    """Also when something else is swept meanwhile: what that manifest has stays."""
    if not shutil.which("chattr"):
        raise Skip("chattr is missing (Debian package e2fsprogs)")
    image = host.shell("trap 'exit 0' TERM; touch /out/up; while :; do sleep 0.05; done", name="example.com/db")
    other = host.shell("trap 'exit 0' TERM; touch /out/up; while :; do :; sleep 0.05; done", name="example.com/db")
    uuid = host.detach("--name=web", image, "--name=db")
    host.wait_up("db", uuid)
    host.acnspawn("add-app", "web", image, "--name=second").expect(0)
    pod = host.pod_dir(uuid)
    before = read_text(pod + "/pod")
    if subprocess.run(["chattr", "+i", pod + "/pod"], stderr=subprocess.DEVNULL).returncode != 0:
        raise Skip("the file system has no immutable files")
    try:
        refused = "Cannot write 'pod' of pod %s: Operation not permitted" % uuid
        contains(host.acnspawn("add-app", "web", image, "--name=third").expect(1).err, refused)
        contains(host.acnspawn("update-app", "web", "db", "--image=" + other).expect(1).err, refused)
        equal({a["name"]: a["state"] for a in host.status("web")["apps"]}["db"], "running", "the old app")
        contains(host.acnspawn("rm-app", "web", "second").expect(1).err, refused)
        host.acnspawn("add-app", "web", host.path("none.aci"), "--name=fourth").expect(1)
        contains(host.acnspawn("launch-group", "web", image, "--name=third").expect(1).err, refused)
        wait_for(lambda: sorted(n for n in os.listdir(pod + "/apps") if n[0] != ".") == ["db", "second"],
                 lambda: "the directories of the manifest: %s" % os.listdir(pod + "/apps"))
        equal(read_text(pod + "/pod"), before)
    finally:
        subprocess.run(["chattr", "-i", pod + "/pod"], check=True)
    host.acnspawn("add-app", "web", image, "--name=third").expect(0)
    host.acnspawn("add-app", "web", host.path("none.aci"), "--name=fourth").expect(1)
    equal([a["name"] for a in json.loads(read_text(pod + "/pod"))["apps"]], ["db", "third"])
    host.acnspawn("rm", "--force", "web").expect(0)


if __name__ == "__main__":
    be_alone()
    main()
