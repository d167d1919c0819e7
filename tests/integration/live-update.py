#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Apps of a running pod that are replaced by apps of another image, while the other apps go on; and what a successor of a
pod whose apps have changed is made of."""

import glob
import os
import signal
import threading
import time

from listening import free_port
from pod_interface import *

LONG = os.environ.get("ACNSPAWN_TEST_LONG") == "1"
FOREVER = "trap 'exit 0' TERM; touch /out/up; while :; do sleep 0.05; done"


def image(host, version, script=FOREVER, **more):
    """An image of the app web that says which version it is."""
    return host.shell("echo version %s; %s" % (version, script), name="example.com/web-%s" % version, **more)


def pod(host, *options, app=(), exit_policy="all", **more):
    uuid = host.detach("--name=p", "--exit-policy=%s" % exit_policy, *options, image(host, 1, **more), "--name=web", *app, "---",
                       host.shell(FOREVER, name="example.com/other"))
    wait_for(lambda: state(host, "web") == "running" and state(host, "other") == "running" and starts(host, 1) == 1, "the apps")
    return uuid


def app(host, name="web", pod="p"):
    return host.app_status(pod, name)


def state(host, name="web", pod="p"):
    return app(host, name, pod)["state"]


def logs(host, name="web", pod="p"):
    return host.acnspawn("logs", "--app=%s" % name, pod).expect(0).out


def main_process(host, uuid, name):
    """PID and start time of the app's first process."""
    def of_app(pid):
        return {"acnspawn-" + uuid, "app-%s.service" % name} <= set(re.split("[/\n]", read_text("/proc/%d/cgroup" % pid)))
    pid = wait_for(lambda: first_of(processes_where(of_app)), "a process of app " + name)
    return pid, read_text("/proc/%d/stat" % pid).rpartition(")")[2].split()[19]


def update(host, *args, rc=0, **more):
    return host.acnspawn("update-app", "p", "web", *args, **more).expect(rc)


def image_of(host, name="web", pod="p"):
    return {a["name"]: a["image"]["name"] for a in json.loads(host.acnspawn("cat-manifest", pod).expect(0).out)["apps"]}[name]


def files(host, uuid):
    return sorted(n for n in os.listdir(host.pod_dir(uuid) + "/apps") if not n.startswith(".removed"))


# --- Replacing ---------------------------------------------------------------------------------------------------------

@both
def an_app_is_replaced_and_the_others_never_notice(host, *options):
    uuid = pod(host, *options, app=("--environment=GREETING=hello", "--user=7", "--group=7", "--user-label=a=b"))
    others = main_process(host, uuid, "other")
    units = set(os.listdir(host.pod_dir(uuid) + "/root/acnspawn/units"))
    c = Connection(host, uuid)
    before = c.call("Describe")["sequence"]
    new = image(host, 2, "echo $GREETING $(id -u); " + FOREVER)
    equal((update(host, "--image=" + new).err, image_of(host)), ("", "example.com/web-2"))
    equal(state(host), "running")
    wait_for(lambda: "version 2" in logs(host) and "hello 7" in logs(host), "what the new app says")
    equal(main_process(host, uuid, "other"), others)
    equal([a["name"] for a in host.status("p")["apps"]], ["web", "other"])
    equal(set(os.listdir(host.pod_dir(uuid) + "/root/acnspawn/units")), units)
    equal(changes_since(host, before, "replaced"), ["replacing", "replaced"])
    wait_for(lambda: len(files(host, uuid)) == 2, "the old app's files to be removed: %s" % files(host, uuid))
    # Its files, its limits and its commands are those of the new app.
    equal(host.acnspawn("enter", "--app=web", "p", "id", "-u").expect(0).out, "7\n")
    host.acnspawn("restart-app", "p", "web").expect(0)
    host.acnspawn("cp", "p:web:/out/up", host.path("up")).rc
    # The same image again changes nothing, and the first one can come back.
    pid = main_process(host, uuid, "web")
    contains(update(host, "--image=" + new).err, "has the image")
    equal(main_process(host, uuid, "web"), pid)
    update(host, "--image=" + image(host, 1))
    equal((image_of(host), state(host)), ("example.com/web-1", "running"))
    host.acnspawn("stop", "p").expect(0)
    equal(image_of(host), "example.com/web-1")


def changes_since(host, number, last):
    """Up to LAST, and what else the supervisor has to say then."""
    p = host.start("monitor", "--json", "--since=%d" % number, "p")
    found = []
    while last not in found:
        found.append(json.loads(p.stdout.readline()).get("change"))
    host.wait_at_rest("p", p.pid)
    p.terminate()
    found += [json.loads(line).get("change") for line in p.stdout.read().splitlines()]
    p.wait(patience(20))
    return [change for change in found if change]


@case
def an_app_that_does_not_run_is_replaced_without_starting(host):
    uuid = pod(host, exit_policy="never")
    host.acnspawn("stop-app", "p", "web").expect(0)
    update(host, "--image=" + image(host, 2))
    equal((image_of(host), state(host)), ("example.com/web-2", "waiting"))
    host.acnspawn("start-app", "p", "web").expect(0)
    wait_for(lambda: "version 2" in logs(host), "the new app")
    host.acnspawn("add-app", "p", image(host, 3), "--name=job").expect(0)
    host.acnspawn("update-app", "p", "job", "--image=" + image(host, 4, "echo done")).expect(0)
    equal(state(host, "job"), "waiting")
    host.acnspawn("start-app", "p", "job").expect(0)
    host.acnspawn("wait", "p", "job").expect(0)
    wait_for(lambda: "version 4\ndone" in logs(host, "job"), "the output of the app")
    host.acnspawn("stop", "p").expect(0)


@case
def the_only_app_is_replaced_whatever_the_exit_policy(host):
    for policy in "any", "all", "on-failure":
        host.detach("--name=p", "--exit-policy=" + policy, image(host, 1), "--name=web")
        wait_for(lambda: state(host) == "running", "the app")
        update(host, "--image=" + image(host, 2))
        equal((state(host), host.state("p")), ("running", "running"))
        contains(update(host, "--image=" + host.image(["/none"], name="example.com/bad"), rc=1).err, "/none")
        equal((state(host), host.state("p"), image_of(host)), ("running", "running", "example.com/web-2"))
        host.acnspawn("stop", "p").expect(0)
        host.acnspawn("rm", "p").expect(0)


@case
def volumes_and_credentials_stay(host):
    os.mkdir(host.path("data"))
    os.chmod(host.path("data"), 0o777)
    points = {"mountPoints": [{"name": "state", "path": "/var/state"}, {"name": "gone", "path": "/var/gone"}]}
    moved = {"mountPoints": [{"name": "state", "path": "/srv/state"}, {"name": "new", "path": "/var/new"}]}
    write = "echo %s >> /var/state/x; echo %s >> /data/x; echo %s >> /var/gone/x; "
    read = "cat /srv/state/x /data/x; cat $CREDENTIALS_DIRECTORY/key; echo; ls /var/new; "
    uuid = host.detach("--name=p", "--exit-policy=all", host.shell(write % ("one", "one", "one") + FOREVER, name="example.com/web-1", app=points),
                       "--name=web", "--volume=%s:/data" % host.path("data"), "--set-credential=key:secret", "---",
                       host.shell(FOREVER, name="example.com/other"))
    wait_for(lambda: state(host) == "running" and os.path.exists(host.path("data/x")), "the app")
    volumes = sorted(os.listdir(host.pod_dir(uuid) + "/volumes"))
    r = update(host, "--image=" + host.shell(read + FOREVER, name="example.com/web-2", app=moved))
    contains(r.err, "its mount point 'new' (/var/new) gets an empty volume, whose content is removed with the app\n")
    lacks(r.err, "--volume", "an option that update-app does not have")
    wait_for(lambda: "secret" in logs(host), "the new app: %s" % logs(host))
    contains(logs(host), "one\none\nsecret")
    equal(sorted(os.listdir(host.pod_dir(uuid) + "/volumes")), sorted(volumes + ["web-new"]))
    # The one that the second image had no mount point for has its content still.
    update(host, "--image=" + host.shell("cat /var/gone/x /var/state/x; echo third; " + FOREVER, name="example.com/web-3", app=points))
    wait_for(lambda: "third" in logs(host), "the third app")
    contains(logs(host), "one\none\nthird")
    host.acnspawn("stop", "p").expect(0)


# --- Going back --------------------------------------------------------------------------------------------------------

@case
def an_app_that_cannot_be_executed_gives_way_to_the_old_one(host):
    uuid = pod(host, app=("--set-credential=key:secret",), script="echo x >> /out/count; cat /out/count $CREDENTIALS_DIRECTORY/key; echo; " + FOREVER)
    others = main_process(host, uuid, "other")
    before = Connection(host, uuid).call("Describe")["sequence"]
    wait_for(lambda: "x\nsecret" in logs(host), "the app to have read its credential")
    manifest = host.acnspawn("cat-manifest", "p").expect(0).out
    units = {n: read_text(host.pod_dir(uuid) + "/root/acnspawn/units/" + n) for n in os.listdir(host.pod_dir(uuid) + "/root/acnspawn/units")}
    r = update(host, "--image=" + host.image(["/bin/nothing"], name="example.com/bad"), rc=1)
    contains(r.err, "App web could not be started with the image example.com/bad: ")
    contains(r.err, "/bin/nothing")
    contains(r.err, "App web of the old image runs again")
    equal((state(host), host.acnspawn("cat-manifest", "p").out), ("running", manifest))
    # In the root that it had.
    wait_for(lambda: "x\nx\nsecret" in logs(host), "the old app in its root: %s" % logs(host))
    equal(main_process(host, uuid, "other"), others)
    equal({n: read_text(host.pod_dir(uuid) + "/root/acnspawn/units/" + n) for n in os.listdir(host.pod_dir(uuid) + "/root/acnspawn/units")}, units)
    wait_for(lambda: files(host, uuid) == ["other", "web"], "the new app's files to be removed")
    equal(changes_since(host, before, "rolledBack"), ["replacing", "rolledBack"])
    # The next start has a clean root again, and the next image is taken.
    host.acnspawn("restart-app", "p", "web").expect(0)
    wait_for(lambda: logs(host).count("version 1") == 3, "the app again")
    equal(logs(host).count("x\nx\nx"), 0)
    update(host, "--image=" + image(host, 2))
    equal(image_of(host), "example.com/web-2")
    host.acnspawn("stop", "p").expect(0)


@case
def an_app_that_is_not_ready_in_time_gives_way_to_the_old_one(host):
    uuid = pod(host, app=("--health-cmd=test -e /out/ready", "--health-interval=100ms", "--health-start-period=60s"),
               script="touch /out/ready; " + FOREVER)
    new = image(host, 2)
    began = time.monotonic()
    r = update(host, "--image=" + new, "--ready-timeout=1s", rc=1)
    contains(r.err, "it was not ready in time")
    true(time.monotonic() - began < patience(25), "it took %.1f s" % (time.monotonic() - began))
    equal((state(host), image_of(host)), ("running", "example.com/web-1"))
    wait_for(lambda: app(host)["readiness"] == "ready" if "readiness" in app(host) else True, "the old app to be ready")
    update(host, "--image=" + image(host, 3, "sleep 1; touch /out/ready; " + FOREVER), "--ready-timeout=50s")
    equal((state(host), image_of(host)), ("running", "example.com/web-3"))
    host.acnspawn("stop", "p").expect(0)


@case
def a_check_that_is_killed_by_the_change_does_not_hinder_it(host):
    """systemd ends the check that runs beside an app when the slice of the app is stopped. As killed, it has failed."""
    pod(host, app=("--health-cmd=test ! -e /out/slow || { touch /out/checks; sleep 60; }", "--health-interval=100ms", "--health-timeout=60s"))
    host.acnspawn("enter", "--app=web", "p", "/bin/sh", "-c", "touch /out/slow").expect(0)
    wait_for(lambda: os.path.exists(host.upper("web") + "/out/checks"), "a check that is slow")
    update(host, "--image=" + image(host, 2))
    equal((state(host), image_of(host)), ("running", "example.com/web-2"))
    host.acnspawn("stop", "p").expect(0)


@case
def what_is_refused_leaves_the_app_alone(host):
    uuid = pod(host)
    web, manifest = main_process(host, uuid, "web"), host.acnspawn("cat-manifest", "p").out
    privileged = host.shell(FOREVER, name="example.com/privileged", app={"isolators": [
        {"name": "os/linux/capabilities-retain-set", "value": {"set": ["CAP_SYS_ADMIN"]}}]})
    contains(update(host, "--image=" + privileged, rc=1).err, "CAP_SYS_ADMIN")
    contains(host.acnspawn("update-app", "p", "wob", "--image=" + image(host, 2)).expect(1).err, "has no app 'wob'")
    contains(update(host, "--image=/nonexistent.aci", rc=1).err, "/nonexistent.aci")
    equal(update(host, "--ready-timeout=1s", rc=2).rc, 2)
    equal((main_process(host, uuid, "web"), host.acnspawn("cat-manifest", "p").out, files(host, uuid)), (web, manifest, ["other", "web"]))
    host.acnspawn("stop", "p").expect(0)
    contains(update(host, "--image=" + image(host, 2), rc=1).err, "not running")


@case
def a_manifest_that_cannot_be_written_leaves_the_old_app(host):
    uuid = pod(host)
    new = image(host, 2)
    if subprocess.run(["chattr", "+i", host.pod_dir(uuid)], stderr=subprocess.DEVNULL).returncode != 0:
        raise Skip("the file system has no immutable files")
    try:
        for _ in range(2):
            contains(update(host, "--image=" + new, rc=1).err, "Cannot write 'pod' of pod %s: Operation not permitted" % uuid)
            equal((len(files(host, uuid)), state(host), image_of(host)), (2, "running", "example.com/web-1"))
    finally:
        subprocess.run(["chattr", "-i", host.pod_dir(uuid)], check=True)
    update(host, "--image=" + new)
    equal((len(files(host, uuid)), image_of(host)), (2, "example.com/web-2"))
    host.acnspawn("stop", "p").expect(0)


@case
def ports_that_are_exposed_stay(host):
    port = {"ports": [{"name": "http", "protocol": "tcp", "port": 80}]}
    other = {"ports": [{"name": "http", "protocol": "tcp", "port": 8080}]}
    uuid = host.detach("--name=p", "--net=host", "--port=http:%d" % free_port(), host.shell(FOREVER, name="example.com/web-1", app=port), "--name=web")
    wait_for(lambda: state(host) == "running", "the app")
    contains(update(host, "--image=" + host.shell(FOREVER, name="example.com/web-2", app=other), rc=1).err,
             "the pod exposes its port 'http', 80/tcp, which the image has with another number or protocol")
    contains(update(host, "--image=" + image(host, 3), rc=1).err, "which the image does not have")
    update(host, "--image=" + host.shell(FOREVER, name="example.com/web-4", app=port))
    equal(state(host), "running")
    host.acnspawn("stop", "p").expect(0)


# --- What is killed ----------------------------------------------------------------------------------------------------

@case
def a_preparation_that_is_killed_leaves_the_old_app(host):
    uuid = pod(host)
    supervisor = host.supervisor(uuid)
    web = main_process(host, uuid, "web")
    new, killed = image(host, 2), 0
    for i in range(40):
        p = host.start("update-app", "p", "web", "--image=" + new)
        while p.poll() is None:
            for child in processes_where(lambda pid: name_of(pid) == "prepare-apps", children_of(supervisor)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
        r = host.finish(p)
        if r.rc == 0:
            update(host, "--image=" + image(host, 1))
            web = main_process(host, uuid, "web")
        else:
            killed += 1
            contains(r.err, "The process that prepares the app was killed, or took too long")
            equal((image_of(host), main_process(host, uuid, "web")), ("example.com/web-1", web))
        wait_for(lambda: len(files(host, uuid)) == 2, "nothing to be left: %s" % files(host, uuid))
        if killed >= 4:
            break
    true(killed >= 1, "no preparation was killed in time")
    update(host, "--image=" + new)
    host.acnspawn("stop", "p").expect(0)


@case
def a_client_that_is_killed_does_not_matter(host):
    uuid = pod(host)
    for i in range(6):
        p = host.start("update-app", "p", "web", "--image=" + image(host, 2 + i % 2))
        time.sleep(0.02 * i)  # any time
        p.kill()
        host.finish(p)
        held_by_supervisor(host, uuid)  # once it is done
        true(image_of(host) in ("example.com/web-1", "example.com/web-2", "example.com/web-3"), image_of(host))
        wait_for(lambda: state(host) == "running" and len(files(host, uuid)) == 2, "the app, and nothing else")
    host.acnspawn("stop", "p").expect(0)


@case
def a_supervisor_or_pod_that_is_killed_leaves_the_old_app_or_the_new_one(host):
    seen = set()
    for i in range(12):
        uuid = pod(host, script="echo 1 > /out/version; " + FOREVER)
        p = host.start("update-app", "p", "web", "--image=" + image(host, 2, "echo 2 > /out/version; " + FOREVER))
        time.sleep(0.015 * i)  # any time
        os.kill(host.supervisor(uuid) if i % 2 else int(host.leader(uuid)), signal.SIGKILL)
        host.finish(p)
        wait_for(lambda: host.state("p") == "exited", "the end of the pod")
        number = image_of(host)[-1]
        seen.add(number)
        manifest = json.loads(host.acnspawn("cat-manifest", "p").expect(0).out)
        equal([a["name"] for a in manifest["apps"]], ["web", "other"])
        # The files are those of the app that the manifest has: what it was run as, or nothing yet.
        r = host.acnspawn("cp", "p:web:/out/version", "-")
        if r.rc == 0:
            true(number in r.out, "the files of another app than %s: %r" % (number, r.out))
        host.acnspawn("rm", "p").expect(0)
        equal(glob.glob("%s/pods/*/%s" % (host.dir, uuid)), [])
    true("1" in seen, "the images that were left: %s" % seen)


@case
def many_updates_leave_nothing(host):
    uuid = pod(host)

    def cycle():
        update(host, "--image=" + image(host, 2))
        update(host, "--image=" + host.image(["/none"], name="example.com/bad"), rc=1)
        update(host, "--image=" + image(host, 1))

    cycle()
    wait_for(lambda: len(os.listdir(host.pod_dir(uuid) + "/apps")) == 2, "the directories to be removed")
    before = held_by_supervisor(host, uuid)
    for _ in range(5):
        cycle()
    wait_for(lambda: held_by_supervisor(host, uuid) == before, lambda: "%s to be as before: %s" % (held_by_supervisor(host, uuid), before))
    host.acnspawn("stop", "p").expect(0)


# --- The pod's systemd executes itself again ---------------------------------------------------------------------------

# systemd may signal a process that is started meanwhile, too.
SLOW_END = "trap ': >/out/stopping; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.2; done; exit 0' TERM; "


def again_when(host, uuid, file, *args):
    """Updates the app. When FILE is there, of the app that runs then, systemd executes itself again."""
    leader = host.leader(uuid)
    p = host.start("update-app", "p", "web", *args)
    try:
        wait_for(lambda: glob.glob("%s/apps/*/upper%s" % (host.pod_dir(uuid), file)) or p.poll() is not None, file)
        os.kill(leader, signal.SIGTERM)
        true(p.poll() is None, "too early: %s" % (p.communicate(),))
    except BaseException:
        p.kill()
        raise
    return host.finish(p)


def described(host, uuid):
    return next(a for a in Connection(host, uuid).call("Describe")["apps"] if a["name"] == "web")


def starts(host, version):
    return logs(host).count("version %s\n" % version)


def is_as_ever(host, uuid, version):
    wait_for(lambda: state(host) == "running" and len(files(host, uuid)) == 2, "the app, and nothing else: %s" % files(host, uuid))
    equal((image_of(host), state(host, "other")), ("example.com/web-%s" % version, "running"))


@case
def a_replacement_goes_on_while_the_old_app_stops(host):
    uuid = pod(host, script=SLOW_END + FOREVER.replace("trap 'exit 0' TERM; ", ""))
    others = main_process(host, uuid, "other")
    await_handler(main_process(host, uuid, "web")[0])
    r = again_when(host, uuid, "/out/stopping", "--image=" + image(host, 2))
    equal((r.rc, r.err), (0, ""))
    is_as_ever(host, uuid, 2)
    wait_for(lambda: starts(host, 2) == 1, "the new app")
    equal((starts(host, 1), main_process(host, uuid, "other")), (1, others))
    host.acnspawn("stop", "p").expect(0)


READY_LATER = "touch /out/begun; sleep 1.5; touch /out/ready; "


@case
def a_replacement_goes_on_while_the_new_app_gets_ready(host):
    uuid = pod(host, app=("--health-cmd=test -e /out/ready", "--health-interval=100ms", "--health-start-period=60s"),
               script="touch /out/ready; " + FOREVER)
    r = again_when(host, uuid, "/out/begun", "--image=" + image(host, 2, READY_LATER + FOREVER))
    equal((r.rc, r.err), (0, ""))
    is_as_ever(host, uuid, 2)
    equal((starts(host, 1), starts(host, 2), described(host, uuid)["ready"]), (1, 1, True))
    host.acnspawn("stop", "p").expect(0)


@case
def the_old_app_comes_back_though_the_connection_is_lost(host):
    """While the new app, which is not ready in time, is stopped; and while the old one gets ready again."""
    # It has the root that it had. What says that it is ready goes with its end: a check may run before the script begins.
    old = ("trap ': >/out/ready; exit 0' TERM; if test -e /out/first; then touch /out/begun; sleep 1.5; fi; touch /out/first; echo x >/out/ready; "
           "while :; do sleep 0.05; done")
    uuid = pod(host, app=("--health-cmd=test -s /out/ready", "--health-interval=100ms", "--health-start-period=60s"), script=old)
    manifest = host.acnspawn("cat-manifest", "p").expect(0).out
    never = image(host, 2, SLOW_END + "while :; do sleep 0.05; done")
    for n, file in enumerate(("/out/stopping", "/out/begun"), 2):
        before = starts(host, 2)
        # Leaves the new app time to begin on a busy machine.
        r = again_when(host, uuid, file, "--image=" + never, "--ready-timeout=%ds" % patience(3))
        equal(r.rc, 1)
        contains(r.err, "it was not ready in time")
        contains(r.err, "App web of the old image runs again")
        is_as_ever(host, uuid, 1)
        wait_for(lambda: (starts(host, 1), starts(host, 2)) == (n, before + 1), "the starts to be in the log")
        equal(host.acnspawn("cat-manifest", "p").out, manifest)
        host.acnspawn("enter", "--app=web", "p", "rm", "/out/begun").expect(0)
    host.acnspawn("stop", "p").expect(0)


@case
@with_timeout(300)
def a_replacement_goes_on_whenever_the_connection_is_lost(host):
    uuid = pod(host)
    images, leader = [image(host, n) for n in (2, 3)], host.leader(uuid)
    for i in range(60 if LONG else 20):
        before = starts(host, 2 + i % 2)
        p = host.start("update-app", "p", "web", "--image=" + images[i % 2])
        time.sleep(0.005 * i if not LONG else 0.002 * i)  # any time
        os.kill(leader, signal.SIGTERM)
        r = host.finish(p)
        equal((r.rc, r.err), (0, ""), "%d ms" % (5 * i))
        is_as_ever(host, uuid, 2 + i % 2)
        wait_for(lambda: starts(host, 2 + i % 2) > before, "the new app")
        equal(starts(host, 2 + i % 2), before + 1)
    host.acnspawn("stop", "p").expect(0)


# --- Successors --------------------------------------------------------------------------------------------------------

@case
def a_successor_has_the_apps_of_the_end(host):
    with open(host.path("key"), "w") as f:
        f.write("from the file\n")
    pod(host, "--exit-policy=never", exit_policy="never", app=("--environment=A=b", "--tasks-max=100"))
    host.acnspawn("add-app", "p", "--start", host.shell("echo $C; cat $CREDENTIALS_DIRECTORY/key; " + FOREVER, name="example.com/added"),
                  "--environment=C=d", "--credential=key:" + host.path("key")).expect(0)
    host.acnspawn("rm-app", "--force", "p", "other").expect(0)
    update(host, "--image=" + image(host, 2, "echo $A; " + FOREVER))
    update(host, "--tasks-max=50")
    host.acnspawn("stop", "p").expect(0)
    contains(host.acnspawn("cat", "p").expect(0).out, "example.com/web-2")
    first = host.status("p")["uuid"]
    host.acnspawn("run", "--detach", "p").expect(0)
    wait_for(lambda: "b" in logs(host) and "from the file" in logs(host, "added"), "the apps")
    equal([a["name"] for a in host.status("p")["apps"]], ["web", "added"])
    equal(image_of(host), "example.com/web-2")
    contains(logs(host, "added"), "d\nfrom the file")
    isolators = {i["name"]: i["detail"] for i in host.status("p")["isolators"] if i["app"] == "web"}
    contains(isolators["resource/tasks"], "50 processes")
    # A successor of the successor, and one as it was at first.
    host.acnspawn("stop", "p").expect(0)
    host.acnspawn("run", "--detach", "p").expect(0)
    equal([a["name"] for a in host.status("p")["apps"]], ["web", "added"])
    host.acnspawn("stop", "p").expect(0)
    host.acnspawn("rm", "p").expect(0)
    host.acnspawn("run", "--detach", "--apps=prepared", first).expect(0)
    uuid = [q["uuid"] for q in json.loads(host.acnspawn("list", "--json").expect(0).out) if q["state"] == "running"][0]
    equal([a["name"] for a in host.status(uuid)["apps"]], ["web", "other"])
    equal(image_of(host, pod=uuid), "example.com/web-1")
    host.acnspawn("stop", uuid).expect(0)


@case
def a_successor_of_a_pod_manifest_has_the_apps_of_the_end(host):
    one = host.acnspawn("fetch", "--insecure-options=signature", image(host, 1)).expect(0).out.strip()
    other = host.acnspawn("fetch", "--insecure-options=signature", host.shell(FOREVER, name="example.com/other")).expect(0).out.strip()
    manifest = {"acVersion": "0.8.11", "acKind": "PodManifest", "apps": [{"name": "web", "image": {"id": one}},
                                                                      {"name": "other", "image": {"id": other}}]}
    with open(host.path("manifest"), "w") as f:
        json.dump(manifest, f)
    host.acnspawn("run", "--detach", "--name=p", "--exit-policy=never", "--pod-manifest=" + host.path("manifest")).expect(0)
    wait_for(lambda: state(host) == "running", "the app")
    update(host, "--image=" + image(host, 2))
    host.acnspawn("add-app", "p", "--start", host.shell("echo $C; " + FOREVER, name="example.com/added"), "--environment=C=d").expect(0)
    host.acnspawn("rm-app", "--force", "p", "other").expect(0)
    host.acnspawn("stop", "p").expect(0)
    host.acnspawn("run", "--detach", "p").expect(0)
    equal([a["name"] for a in host.status("p")["apps"]], ["web", "added"])
    equal(image_of(host), "example.com/web-2")
    wait_for(lambda: "d" in logs(host, "added"), "the added app")
    host.acnspawn("stop", "p").expect(0)


if __name__ == "__main__":
    main()
