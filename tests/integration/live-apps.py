#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Apps that are added to a running pod, started, stopped and removed again, while its other apps continue."""

import contextlib
import glob
import os
import signal
import threading
import time

from harness import *

FOREVER = "trap 'exit 0' TERM; touch /out/up; while :; do sleep 0.05; done"
SAY = "echo hello from $0; touch /out/up"


def pod(host, *options):
    """A pod "p" with the app web, which continues when apps end."""
    return host.detach("--name=p", "--exit-policy=all", *options, host.shell(FOREVER, name="example.com/web"))


def state(host, app):
    return host.app_status("p", app)["state"]


def refused(host, *args):
    r = host.acnspawn(*args).expect(1)
    equal(r.out, "")
    return r.err


def add(host, image, *args, name=None):
    r = host.acnspawn("add-app", "p", image, *args).expect(0)
    equal(r.out, "%s\n" % (name or image.split("/")[-1]))


# --- The life of an app ------------------------------------------------------------------------------------------------

@both
def an_app_is_added_started_stopped_and_removed(host, *options):
    uuid = pod(host, *options)
    image = host.shell(FOREVER, name="example.com/db")
    add(host, image, name="db")
    equal(state(host, "db"), "waiting")
    host.acnspawn("start-app", "p", "db").expect(0)
    wait_for(lambda: state(host, "db") == "running", "the app")
    contains(refused(host, "rm-app", "p", "db"), "App db of pod p cannot be removed: it is running.\n'acnspawn rm-app "
             "--force p db' stops it first.")
    equal(host.acnspawn("enter", "--app=db", "p", "cat", "/etc/hostname").expect(0).rc, 0)
    host.acnspawn("stop-app", "p", "db").expect(0)
    equal((state(host, "db"), state(host, "web"), host.state("p")), ("ended", "running", "running"))
    host.acnspawn("start-app", "p", "db").expect(0)
    wait_for(lambda: state(host, "db") == "running", "the app")
    host.acnspawn("rm-app", "--force", "p", "db").expect(0)
    equal([a["name"] for a in host.status("p")["apps"]], ["web"])
    equal(os.listdir(host.pod_dir(uuid) + "/credentials") if os.path.exists(host.pod_dir(uuid) + "/credentials")
          else [], [])
    wait_for(lambda: os.listdir(host.pod_dir(uuid) + "/apps") == ["web"], "the directory of the app to be removed")
    equal([n for n in os.listdir(host.pod_dir(uuid) + "/root/acnspawn/units") if "db" in n], [])
    contains(refused(host, "start-app", "p", "db"), "Pod p has no app 'db'")
    host.acnspawn("stop", "p").expect(0)


@case
def how_a_short_app_has_ended_is_known(host):
    """However soon it ends: its unit is unloaded at once, and systemd reports changes while the app starts."""
    pod(host)
    for i in range(60):
        host.acnspawn("add-app", "p", "--start", host.shell("exit %d" % i, name="example.com/job"), "--name=job").expect(0)
        equal((host.acnspawn("wait", "p", "job").rc, host.app_status("p", "job")["exitStatus"]), (i, i))
        host.acnspawn("rm-app", "p", "job").expect(0)
    host.acnspawn("stop", "p").expect(0)


@case
def an_app_that_ends_before_systemd_notices_its_start_was_started(host):
    """systemd is stopped from when it has made the process of the app until that has ended."""
    host.detach("--name=p", "--exit-policy=all", host.shell(FOREVER, name="example.com/web"))
    leader = host.leader("p")
    add(host, host.shell("exit 7", name="example.com/job"), name="job")
    for verb in ["start-app", "restart-app"] * 5:
        before = set(children_of(leader))
        p = host.start(verb, "p", "job")
        wait_for(lambda: set(children_of(leader)) - before or p.poll() is not None, "the process of the app", interval=0)
        os.kill(leader, signal.SIGSTOP)
        try:
            wait_for(lambda: all(has_ended(n) for n in set(children_of(leader)) - before), "its end")
        finally:
            os.kill(leader, signal.SIGCONT)
        host.finish(p).expect(0)
        equal(host.acnspawn("wait", "p", "job").rc, 7)
    host.acnspawn("stop", "p").expect(0)


@case
def the_same_name_gets_the_new_app(host):
    pod(host)
    for i in range(3):
        image = host.shell("echo this is number %d" % i, name="example.com/job%d" % i)
        host.acnspawn("add-app", "p", "--start", image, "--name=job").expect(0)
        host.acnspawn("wait", "p", "job").expect(0)
        equal(host.app_status("p", "job")["exitStatus"], 0)
        contains(host.acnspawn("logs", "--app=job", "p").expect(0).out, "this is number %d" % i)
        host.acnspawn("rm-app", "p", "job").expect(0)
    host.acnspawn("stop", "p").expect(0)


@contextlib.contextmanager
def unwritable(directory):
    """No file of the directory can be made or replaced, as on a full disk; those of directories below it can."""
    if not shutil.which("chattr"):
        raise Skip("chattr is missing (Debian package e2fsprogs)")
    if subprocess.run(["chattr", "+i", directory], stderr=subprocess.DEVNULL).returncode != 0:
        raise Skip("the file system has no immutable files")
    try:
        yield
    finally:
        subprocess.run(["chattr", "-i", directory], check=True)


def directories(host, uuid, place="apps"):
    return sorted(n for n in os.listdir(host.pod_dir(uuid) + "/" + place) if not n.startswith(".removed"))


@case
def changes_that_cannot_be_written_do_not_hinder_later_ones(host):
    """The manifest is written again by itself, or by the next change."""
    uuid = pod(host)
    image = host.shell(FOREVER, name="example.com/db")
    message = "Cannot write 'pod' of pod %s: Operation not permitted" % uuid

    # The next app with the name does not meet what is left of the one before.
    with unwritable(host.pod_dir(uuid)):
        for _ in range(2):
            contains(refused(host, "add-app", "p", image, "--name=db"), message)
    add(host, image, name="db")
    with unwritable(host.pod_dir(uuid)):
        contains(refused(host, "rm-app", "p", "db"), message, "The app is not a part of the running pod any more.")
        contains(refused(host, "add-app", "p", image, "--name=db"), message)
        # It may be in the manifest that a loss of power leaves.
        equal(directories(host, uuid), ["db", "web"])
    add(host, image, name="db")
    host.acnspawn("start-app", "p", "db").expect(0)
    wait_for(lambda: state(host, "db") == "running", "the app")

    # Without any further change.
    with unwritable(host.pod_dir(uuid)):
        contains(refused(host, "rm-app", "--force", "p", "db"), message)
        equal([a["name"] for a in host.status("p")["apps"]], ["web", "db"])
    wait_for(lambda: [a["name"] for a in host.status("p")["apps"]] == ["web"], "the manifest")
    wait_for(lambda: directories(host, uuid) == ["web"], "the directory of the app to be removed")

    # An app can be removed though the manifest is behind; the pod's end writes it, too.
    add(host, image, name="db")
    add(host, image, "--name=db2", name="db2")
    with unwritable(host.pod_dir(uuid)):
        contains(refused(host, "rm-app", "p", "db"), message)
        contains(refused(host, "rm-app", "p", "db2"), message)
    host.acnspawn("stop", "p").expect(0)
    equal([a["name"] for a in json.loads(host.acnspawn("cat-manifest", uuid).expect(0).out)["apps"]], ["web"])


@case
def an_app_of_the_beginning_is_replaced_by_one_with_another_unit(host):
    stays = host.shell(FOREVER, name="example.com/web")
    host.detach("--name=p", "--exit-policy=never", stays, "--name=first", stays, "--name=second", "--after=first")
    for name in "first", "second":
        host.wait_up(name)
    host.acnspawn("stop-app", "p", "first").expect(0)
    begin = time.monotonic()
    host.acnspawn("rm-app", "p", "first").expect(0)
    true(time.monotonic() - begin < patience(4), "the unit of the app is not kept loaded: %.3f s" % (time.monotonic() - begin))
    equal(state(host, "second"), "running")
    # The old unit has no restarts.
    add(host, host.shell("exit 3", name="example.com/fails"), "--name=first", "--restart=always", "--restart-delay=10ms",
        name="first")
    host.acnspawn("start-app", "p", "first").expect(0)
    wait_for(lambda: host.app_status("p", "first")["starts"] >= 3, "restarts")
    # What is ordered after it needs a target, which goes with the last that does.
    units = os.path.join(host.one_pod(), "root/acnspawn/units")
    equal(os.path.exists(units + "/started-first.target"), True)
    host.acnspawn("rm-app", "--force", "p", "second").expect(0)
    wait_for(lambda: not os.path.exists(units + "/started-first.target"), "the target to be removed")
    host.acnspawn("stop", "p").expect(0)


@case
def options_of_the_app_hold(host):
    pod(host)
    image = host.shell("echo $GREETING; cat $CREDENTIALS_DIRECTORY/key; id -u; cat /data/x; exit 3", name="example.com/opt")
    os.mkdir(host.path("data"), 0o755)
    with open(host.path("data/x"), "w") as f:
        f.write("from the host\n")
    r = host.acnspawn("add-app", "p", "--start", image, "--name=other", "--environment=GREETING=hello world",
                      "--set-credential=key:secret text\n", "--user=7",
                      "--volume=%s:/data" % host.path("data"))
    if r.rc != 0:
        raise Failure(r.err)
    wait_for(lambda: state(host, "other") == "ended", "the app")
    s = host.app_status("p", "other")
    equal(s["exitStatus"], 3, "exit status: %s" % s)
    out = host.acnspawn("logs", "--app=other", "p").expect(0).out
    for text in "hello world", "secret text", "7", "from the host":
        contains(out, text)
    host.acnspawn("stop", "p").expect(0)


@case
def a_start_returns_when_the_app_is_executed(host):
    uuid = pod(host)
    add(host, host.shell("sleep 60", name="example.com/good"), name="good")
    add(host, host.image(["/bin/nothing"], name="example.com/bad"), name="bad")
    add(host, host.image(["/etc"], name="example.com/dir", files={"etc/x": "x"}), name="dir")
    for _ in range(5):
        host.acnspawn("start-app", "p", "good").expect(0)
        equal((state(host, "good"), host.app_status("p", "good")["starts"] > 0), ("running", True))
        host.acnspawn("restart-app", "p", "good").expect(0)
        equal(state(host, "good"), "running")
        host.acnspawn("stop-app", "-t0", "p", "good").expect(0)
    for name, why in ("bad", "/bin/nothing"), ("dir", "/etc"):
        for verb in "start-app", "restart-app":
            contains(refused(host, verb, "p", name), why)
            equal((state(host, name), host.state("p")), ("ended", "running"))
    r = host.acnspawn("add-app", "p", "--start", host.image(["/none"], name="example.com/none")).expect(1)
    equal(r.out, "none\n")
    contains(r.err, "App none was added")
    equal(host.state(uuid), "running")
    host.acnspawn("stop", "p").expect(0)


@case
def a_mount_point_without_a_volume_gets_one_that_goes_with_the_app(host):
    uuid = host.acnspawn("run", "--detach", "--exit-policy=never", "--name=p").expect(0).out.strip()
    points = {"mountPoints": [{"name": "data", "path": "/var/data"}]}
    image = host.shell("ls /var/data; echo x > /var/data/x", name="example.com/job", app=points)
    r = host.acnspawn("add-app", "p", image).expect(0)
    equal(r.err, "Warning: App job: its mount point 'data' (/var/data) gets an empty volume, whose content is removed with the "
          "app; to keep it, give --volume=PATH:/var/data after the image\n")
    equal(os.listdir(host.pod_dir(uuid) + "/volumes"), ["job-data"])
    host.acnspawn("rm-app", "p", "job").expect(0)
    equal(os.listdir(host.pod_dir(uuid) + "/volumes"), [])
    # As the warning says.
    os.mkdir(host.path("kept"), 0o777)
    os.chmod(host.path("kept"), 0o777)
    r = host.acnspawn("add-app", "p", "--start", image, "--volume=%s:/var/data" % host.path("kept")).expect(0)
    equal(r.err, "")
    host.acnspawn("wait", "p", "job").expect(0)
    host.acnspawn("rm-app", "p", "job").expect(0)
    equal(os.listdir(host.path("kept")), ["x"])
    host.acnspawn("stop", "p").expect(0)


@case
def an_app_of_the_pod_itself_is_removed_and_its_name_taken(host):
    host.detach("--name=p", "--exit-policy=never", host.shell("echo one; " + FOREVER, name="example.com/web"),
                host.shell(FOREVER, name="example.com/other"))
    began = time.monotonic()
    host.acnspawn("rm-app", "--force", "p", "web").expect(0)
    true(time.monotonic() - began < patience(4), "the unit stays loaded: %.1f s" % (time.monotonic() - began))
    image = host.shell("echo two; " + FOREVER, name="example.com/web2")
    host.acnspawn("add-app", "p", "--start", image, "--name=web", "--user=7", "--group=7").expect(0)
    wait_for(lambda: "two" in host.acnspawn("logs", "--app=web", "p").expect(0).out, "the new app's output")
    equal((state(host, "web"), state(host, "other")), ("running", "running"))
    host.acnspawn("stop", "p").expect(0)


# --- What is refused ---------------------------------------------------------------------------------------------------

@case
def failed_addition_leaves_nothing(host):
    uuid = pod(host)
    before = sorted(os.listdir(host.pod_dir(uuid) + "/root/acnspawn/units"))
    image = host.shell(FOREVER, name="example.com/db")
    contains(refused(host, "add-app", "p", image, "--name=web"), "Two apps of the pod have the name 'web'")
    contains(refused(host, "add-app", "p", image, "--caps-retain=CAP_SYS_ADMIN"),
             "App db requires CAP_SYS_ADMIN, which pod")
    contains(refused(host, "add-app", "p", image, "--mount=nothing:/data"), "nothing")
    contains(refused(host, "add-app", "p", image, "--after=nobody"), "nobody")
    contains(refused(host, "add-app", "nope", image), "nope")
    equal(host.acnspawn("add-app", "p").rc, 2)
    equal(host.acnspawn("add-app").rc, 2)
    equal(host.acnspawn("add-app", "p", "--net=host", image).rc, 2)
    equal(host.acnspawn("rm-app", "p").rc, 2)
    contains(refused(host, "rm-app", "p", "wob"), "Did you mean 'web'?")
    equal(os.listdir(host.pod_dir(uuid) + "/apps"), ["web"])
    equal(sorted(os.listdir(host.pod_dir(uuid) + "/root/acnspawn/units")), before)
    equal([a["name"] for a in host.status("p")["apps"]], ["web"])
    # The name that was refused is free.
    add(host, image, name="db")
    host.acnspawn("stop", "p").expect(0)
    equal(sorted((a["name"], a["state"]) for a in host.status("p")["apps"]), [("db", "ended"), ("web", "ended")])


@case
def a_stopped_pod_takes_no_apps(host):
    pod(host)
    image = host.shell(FOREVER, name="example.com/db")
    host.acnspawn("stop", "p").expect(0)
    contains(refused(host, "add-app", "p", image), "not running")
    contains(refused(host, "rm-app", "p", "web"), "not running")


# --- Many of them ------------------------------------------------------------------------------------------------------

@case
def many_clients_change_one_pod(host):
    uuid = pod(host)
    images = [host.shell("sleep 0.1; exit %d" % i, name="example.com/n%d" % i) for i in range(6)]
    errors = []

    def work(i):
        for _ in range(3):
            for args in (["add-app", "p", images[i], "--name=n%d" % i], ["start-app", "p", "n%d" % i],
                         ["wait", "p", "n%d" % i], ["rm-app", "p", "n%d" % i]):
                r = host.acnspawn(*args, timeout=120)
                if r.rc != (i if args[0] == "wait" else 0):
                    errors.append((args, r.rc, r.err))
                    return

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(images))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    equal(errors, [])
    equal([a["name"] for a in host.status("p")["apps"]], ["web"])
    wait_for(lambda: os.listdir(host.pod_dir(uuid) + "/apps") == ["web"], "the directories to be removed")
    host.acnspawn("stop", "p").expect(0)


@case
def nothing_is_left_of_apps_that_came_and_went(host):
    uuid = pod(host)
    image = host.shell("exit 0", name="example.com/job")

    def cycle():
        host.acnspawn("add-app", "p", "--start", image).expect(0)
        host.acnspawn("wait", "p", "job").expect(0)  # the supervisor says so; a status may have it a moment before
        host.acnspawn("rm-app", "p", "job").expect(0)

    cycle()
    before = held_by_supervisor(host, uuid)
    for _ in range(8):
        cycle()
    wait_for(lambda: held_by_supervisor(host, uuid) == before, lambda: "%s to be as before: %s" % (held_by_supervisor(host, uuid), before))
    host.acnspawn("stop", "p").expect(0)


# --- What is killed ----------------------------------------------------------------------------------------------------

@case
def a_preparation_that_is_killed_leaves_nothing(host):
    uuid = pod(host)
    image = host.shell("exit 0", name="example.com/job")
    supervisor = host.supervisor(uuid)
    killed = 0
    for i in range(40):
        p = host.start("add-app", "p", image, "--name=job%d" % i)
        while p.poll() is None:
            for child in processes_where(lambda pid: name_of(pid) == "prepare-apps", children_of(supervisor)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
        r = host.finish(p)
        if r.rc != 0:
            killed += 1
            contains(r.err, "The process that prepares the app was killed, or took too long")
        names = [a["name"] for a in host.status("p")["apps"]]
        equal(names, ["web"] + (["job%d" % i] if r.rc == 0 else []))
        equal(sorted(n for n in os.listdir(host.pod_dir(uuid) + "/apps") if not n.startswith(".")), sorted(names))
        equal(sorted(n for n in os.listdir(host.pod_dir(uuid) + "/root/acnspawn/units") if "job" in n and r.rc != 0), [])
        if r.rc == 0:
            host.acnspawn("rm-app", "p", "job%d" % i).expect(0)
        if killed >= 5:
            break
    true(killed >= 1, "no preparation was killed in time")
    add(host, image, name="job")
    host.acnspawn("stop", "p").expect(0)


@case
def a_killed_supervisor_leaves_a_pod_that_can_be_removed(host):
    for i in range(4):
        uuid = pod(host)
        image = host.shell("exit 0", name="example.com/job%d" % i)
        p = host.start("add-app", "p", image)
        time.sleep(0.004 * i)  # any time
        os.kill(host.supervisor(uuid), signal.SIGKILL)
        host.finish(p)
        wait_for(lambda: host.state("p") == "exited", "the end of the pod")
        host.acnspawn("rm", "p").expect(0)
        equal(glob.glob("%s/pods/*/%s" % (host.dir, uuid)), [])


if __name__ == "__main__":
    main()
