#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn apply: a running pod becomes what its file declares by now, app by app."""

import fcntl
import json
import os
import signal

import pod_interface
from harness import *

STAY = "trap 'exit 0' TERM; echo $GREETING; touch /out/up; while :; do sleep 0.05; done"


class Service:
    """The declared pod p."""

    def __init__(self, host):
        self.host, self.config = host, host.path("config")
        os.makedirs(os.path.join(self.config, "pods"), exist_ok=True)
        self.env = dict(os.environ, ACNSPAWN_CONFIG_DIR=self.config)
        self.file = os.path.join(self.config, "pods", "p.pod")

    def declare(self, *apps, pod=""):
        """Each app is (name, image, lines)."""
        with open(self.file, "w") as f:
            f.write("[Pod]\n%s\n" % pod)
            for name, image, *lines in apps:
                f.write("[App %s]\nImage=%s\n%s\n" % (name, image, "\n".join(lines)))

    def acnspawn(self, *args, **more):
        return self.host.acnspawn(*args, env=self.env, timeout=120, **more)

    def start(self, *apps, pod=""):
        self.declare(*apps, pod=pod)
        uuid = self.acnspawn("run", "--detach", "--declared=p").expect(0).out.strip()
        wait_for(lambda: {a["state"] for a in self.apps().values()} == {"running"}, "the apps")
        return uuid

    def apply(self, *args, rc=0):
        """The steps, each as (app, change, what, result), and the messages."""
        r = self.acnspawn("apply", "--json=short", *args, "p").expect(rc)
        return [tuple(row[k] for k in ("app", "change", "what", "result")) for row in json.loads(r.out)], r.err

    def apps(self):
        return {a["name"]: a for a in self.host.status("p")["apps"]}

    def lives(self):
        """What an app that is not touched keeps."""
        return {n: (a["state"], a["starts"], a["started"]) for n, a in self.apps().items()}

    def said(self, app):
        return self.host.acnspawn("logs", "--app=%s" % app, "p").expect(0).out.split()


def image(host, name, script=STAY):
    return host.shell(script, name="example.com/" + name)


# --- Changes ---------------------------------------------------------------------------------------------------------------

@case
def apps_are_added_replaced_and_removed_in_order(host):
    s = Service(host)
    one, two = image(host, "one"), image(host, "two")
    uuid = s.start(("stays", one), ("web", one, "Environment=GREETING=first", "After=stays"), ("gone", one), ("old", one, "After=gone"))
    before = s.lives()
    s.declare(("web", one, "Environment=GREETING=second", "After=db"), ("stays", one), ("db", two, "Mount=data:/data", "After=stays"),
              pod="Volume=data,kind=empty")
    steps = [("db", "add", None), ("web", "replace", "after, environment"), ("old", "remove", None), ("gone", "remove", None)]
    equal(s.apply("--dry-run")[0], [(*x, "planned") for x in steps])
    equal((s.lives(), s.host.status("p")["uuid"]), (before, uuid))
    wait_for(lambda: s.said("web") == ["first"], "what the old app says")
    done, messages = s.apply()
    equal((done, messages), ([(*x, "done") for x in steps], ""))
    after = s.lives()
    equal(sorted(after), ["db", "stays", "web"])
    equal(after["stays"], before["stays"], "the app that is the same")
    equal({a["state"] for a in s.apps().values()}, {"running"})
    wait_for(lambda: s.said("web") == ["first", "second"], "what the new app says")
    true(os.path.isdir(os.path.join(host.pod_dir(uuid), "volumes", "data")), "the volume")
    # It is as declared, and can be made again.
    done, messages = s.apply()
    equal(done, [])
    contains(messages, "Pod p is as it is declared.")
    equal(s.lives(), after)
    contains(host.acnspawn("pod", "create", "p", "--from=p", "--output=-").expect(0).out, "GREETING=second")
    equal(host.acnspawn("status", "p").expect(0).out.count(uuid), 1)
    s.acnspawn("stop", "p").expect(0)
    contains(s.acnspawn("apply", "p").expect(1).err, "Pod p is not running, but exited")


@case
def an_image_that_a_name_means_now_is_a_change(host):
    s = Service(host)
    path = image(host, "one")
    other = image(host, "two")
    file = host.path("app.aci")
    os.symlink(path, file)
    s.start(("web", file), ("stays", path))
    before = s.lives()
    equal(s.apply()[0], [])
    os.unlink(file)
    os.symlink(other, file)
    equal(s.apply()[0], [("web", "replace", "image", "done")])
    equal({a["name"]: a["image"]["name"] for a in json.loads(host.acnspawn("cat-manifest", "p").expect(0).out)["apps"]},
          {"web": "example.com/two", "stays": "example.com/one"})
    equal(s.lives()["stays"], before["stays"])
    s.acnspawn("stop", "p").expect(0)


@case
def limits_are_changed_while_the_app_runs(host):
    s = Service(host)
    one = image(host, "one")
    s.start(("web", one, "TasksMax=100"), ("stays", one))
    before = s.lives()
    s.declare(("web", one, "TasksMax=50"), ("stays", one))
    equal(s.apply()[0], [("web", "limit", "resource/tasks", "done")])
    equal(s.lives(), before, "apps that go on")
    contains({i["name"]: i["detail"] for i in host.status("p")["isolators"] if i["app"] == "web"}["resource/tasks"], "50 processes")
    equal(s.apply()[0], [])
    # Without the limit the app is another one.
    s.declare(("web", one), ("stays", one))
    equal(s.apply()[0], [("web", "replace", "resource/tasks", "done")])
    equal((s.apply()[0], s.lives()["stays"]), ([], before["stays"]))
    s.acnspawn("stop", "p").expect(0)


@case
def limits_that_the_host_ignores_are_no_difference(host):
    if os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
        raise Skip("this host has the controllers")
    s = Service(host)
    one = image(host, "one")
    s.start(("web", one, "TasksMax=100"))
    before = s.lives()
    s.declare(("web", one, "TasksMax=50", "Memory=100M"))
    done, messages = s.apply()
    equal(done, [("web", "limit", "resource/tasks", "done")])
    contains(messages, "resource/memory of app web is ignored: this host has no cgroup v2 controller")
    s.declare(("web", one, "TasksMax=50", "Memory=200M", "CPUQuota=20%"))
    done, messages = s.apply()
    equal(done, [])
    contains(messages, "Pod p is as it is declared.")
    # Also one that the app has from its start.
    s.acnspawn("run", "--detach", "--replace", "--declared=p").expect(0)
    wait_for(lambda: {a["state"] for a in s.apps().values()} == {"running"}, "the apps")
    before = s.lives()
    s.declare(("web", one, "TasksMax=60", "Memory=300M"))
    equal(s.apply()[0], [("web", "limit", "resource/tasks", "done")])
    equal(s.lives(), before)
    s.acnspawn("stop", "p").expect(0)


@case
def defaults_of_the_host_are_part_of_what_is_declared(host):
    s = Service(host)
    one = image(host, "one")
    def conf(text):
        with open(os.path.join(s.config, "acnspawn.conf"), "w") as f:
            f.write(text)
    conf("[App]\nTasksMax=77\nLog=pod\n[Pod]\nStopTimeout=7s\nTasksMax=500\nHostsEntry=10.1.1.1=there\n")
    s.start(("web", one), ("own", one, "TasksMax=50"))
    before = s.lives()
    equal(s.apply()[0], [])
    equal(s.lives(), before)
    conf("[App]\nTasksMax=78\nLog=pod\n[Pod]\nStopTimeout=7s\nTasksMax=500\nHostsEntry=10.1.1.1=there\n")
    equal(s.apply()[0], [("web", "limit", "resource/tasks", "done")])
    equal(s.lives(), before)
    conf("[App]\nTasksMax=78\nLog=pod\n[Pod]\nStopTimeout=8s\n")
    equal(s.apply(rc=1)[0], [(None, "new pod", "hosts-entry, stop-timeout, resource/tasks", "refused")])
    s.acnspawn("run", "--detach", "--replace", "--declared=p").expect(0)
    wait_for(lambda: {a["state"] for a in s.apps().values()} == {"running"}, "the apps")
    equal(s.apply()[0], [])
    equal(s.acnspawn("pod", "verify", "p").expect(0).err, "")
    conf("[Pod]\nMemory=x\n")
    contains(s.acnspawn("pod", "verify", "p").expect(1).out, "acnspawn.conf:2: Memory=")
    s.declare(("web", "example.com/not-there"))
    contains(s.acnspawn("pod", "verify", "p").expect(1).out, "acnspawn.conf:2: Memory=")
    s.acnspawn("stop", "p").expect(0)


@case
def what_takes_effect_at_the_next_start_is_said(host):
    s = Service(host)
    one = image(host, "one")
    s.start(("a", one), pod="Rm=no\nReadyTimeout=1min")
    before = s.lives()
    equal(s.apply(), ([], "Pod p is as it is declared.\n"))
    s.declare(("a", one), pod="Rm=yes\nRegister=no\nReadyTimeout=2min")
    equal(s.apply(), ([], "Warning: What is changed of pod p takes effect when it is started again: rm, register, ready-timeout.\n"))
    s.declare(("a", one, "TasksMax=100"), pod="ReadyTimeout=60s\nRegister=auto\nRm=yes")
    done, messages = s.apply()
    equal(([d[3] for d in done], messages), (["done"], "Warning: What is changed of pod p takes effect when it is started again: rm.\n"))
    # What the command line says is not a change of the file.
    s.acnspawn("run", "--detach", "--replace", "--rm", "--register=no", "--declared=p").expect(0)
    wait_for(lambda: {a["state"] for a in s.apps().values()} == {"running"}, "the apps")
    equal(s.apply(), ([], "Pod p is as it is declared.\n"))
    s.acnspawn("stop", "p").expect(0)


# --- What goes wrong --------------------------------------------------------------------------------------------------------

@case
def a_replacement_that_cannot_be_recorded_is_shown_as_long_as_it_goes_on(host):
    s = Service(host)
    uuid = s.start(("web", image(host, "one")))
    record = os.path.join(host.pod_dir(uuid), "status", "web.replacement")
    shown = lambda: host.app_status("p", "web")["newImageName"]
    os.mkdir(host.path("signals"))
    os.chmod(host.path("signals"), 0o777)
    late = image(host, "late", "until [ -e /signals/go ]; do sleep 0.05; done; touch /up; " + STAY)
    s.declare(("web", late, "Volume=%s:/signals" % host.path("signals"), "HealthCmd=test -e /up", "HealthInterval=100ms", "HealthStartPeriod=1h"))
    os.mkdir(record)
    p = host.start("apply", "p", env=s.env)
    wait_for(lambda: shown(), "the replacement")
    os.rmdir(record)
    wait_for(lambda: os.path.isfile(record), "the record on disk")
    true(shown(), "the replacement is shown")
    os.rename(record, record + ".kept")
    os.mkdir(record)
    open(host.path("signals", "go"), "w").close()
    host.finish(p).expect(0)
    equal(shown(), None)
    supervisor = host.supervisor(uuid)
    os.kill(supervisor, signal.SIGSTOP)
    os.rmdir(record)
    os.rename(record + ".kept", record)
    os.kill(supervisor, signal.SIGCONT)
    wait_for(lambda: not os.path.exists(record), "the end of the record")
    equal(shown(), None)
    s.acnspawn("stop", "p").expect(0)


@case
def mounts_are_changed_with_the_app(host):
    """A mount that is the same has the same volume; what others have is added, moved, and removed."""
    s = Service(host)
    look = image(host, "look", "trap 'exit 0' TERM; cat /kept/word /host/word /new/word /notes/word /other/word 2>/dev/null; "
                 "for d in kept notes; do echo $d >/$d/word; done 2>/dev/null; touch /out/up; while :; do sleep 0.05; done")
    for name in "first", "second":
        os.makedirs(host.path(name))
        with open(host.path(name, "word"), "w") as f:
            f.write(name + "\n")
        os.chmod(host.path(name), 0o755)
    host.acnspawn("volume", "create", "notes").expect(0)
    mounts = ["Mount=kept:/kept", "Volume=notes:/notes", "Volume=%s:/host:ro" % host.path("first")]
    uuid = s.start(("a", image(host, "one")), ("b", look, *mounts), pod="Volume=kept,kind=empty,mode=1777")
    wait_for(lambda: s.said("b") == ["first"], "the first look")
    before = s.lives()["a"]
    s.declare(("a", image(host, "one")), ("b", look, "Volume=%s:/host:ro" % host.path("second"), mounts[0], "Mount=fresh:/new", "Volume=notes:/other"),
              pod="Volume=kept,kind=empty,mode=1777\nVolume=fresh,kind=empty")
    done, messages = s.apply()
    equal((done, messages), ([("b", "replace", "mount", "done")], ""))
    wait_for(lambda: s.said("b") == ["first", "kept", "second", "notes"], "the second look")
    equal(s.lives()["a"], before)
    equal(s.apply()[0], [])
    # Back again, by what cannot be executed first: it has what it had.
    s.declare(("a", image(host, "one")), ("b", look, *mounts, "Exec=/nonexistent"), pod="Volume=kept,kind=empty,mode=1777\nVolume=fresh,kind=empty")
    equal([d[3] for d in s.apply(rc=1)[0]], ["undone"])
    wait_for(lambda: s.said("b")[4:] == ["kept", "second", "notes"], "the look of the old app")
    s.declare(("a", image(host, "one")), ("b", look, *mounts), pod="Volume=kept,kind=empty,mode=1777\nVolume=fresh,kind=empty")
    equal([d[3] for d in s.apply()[0]], ["done"])
    wait_for(lambda: s.said("b")[7:] == ["kept", "first", "notes"], "the last look")
    equal(host.status(uuid)["state"], "running")
    s.acnspawn("stop", "p").expect(0)
    host.acnspawn("rm", "p").expect(0)
    host.acnspawn("volume", "rm", "notes").expect(0)


@case
def an_app_that_gets_ready_late_holds_no_lock_of_the_store(host):
    """Meanwhile images and volumes are removed as ever, but not what the declared pod needs."""
    s = Service(host)
    one = image(host, "one")
    host.acnspawn("fetch", host.image(name="example.com/unused")).expect(0)
    s.start(("web", one))
    os.mkdir(host.path("signals"))
    os.chmod(host.path("signals"), 0o777)
    late = image(host, "late", "touch /signals/starts; until [ -e /signals/go ]; do sleep 0.05; done; touch /up; " + STAY)
    s.declare(("web", one), ("late", late, "Volume=%s:/signals" % host.path("signals"), "HealthCmd=test -e /up", "HealthInterval=100ms",
                             "HealthStartPeriod=1h"))
    p = host.start("apply", "p", env=s.env)
    wait_for(lambda: os.path.exists(host.path("signals", "starts")), "the start of the new app")
    with within(10, "removing images"):
        removed = s.acnspawn("prune", "--force", "images").expect(0).out
    contains(removed, "example.com/unused")
    lacks(removed, "example.com/late")
    equal(p.poll(), None)
    open(host.path("signals", "go"), "w").close()
    host.finish(p).expect(0)
    s.acnspawn("stop", "p").expect(0)


@case
def volumes_go_with_the_last_app_that_mounts_them(host):
    """One that comes again by the same name is a new one, in memory and on disk."""
    s = Service(host)
    look = image(host, "look", "ls /mem /disk; stat -c %a /mem; touch /mem/f /disk/f /out/up; trap 'exit 0' TERM; while :; do sleep 0.05; done")
    one, pod = ("a", image(host, "one")), "Volume=mem,kind=tmpfs,mode=%s\nVolume=disk,kind=empty,mode=1777"
    uuid = s.start(one)
    names = lambda: sorted(os.listdir(os.path.join(host.pod_dir(uuid), "volumes")))
    empty = names()
    for mode in "1777", "777":
        for apps in ("b",), ("b", "c"), ("c",):
            s.declare(one, *[(n, look, "Mount=mem:/mem", "Mount=disk:/disk") for n in apps], pod=pod % mode)
            s.apply()
            wait_for(lambda: os.path.exists(os.path.join(host.upper(apps[-1], host.pod_dir(uuid)), "out/up")), "the last app")
            equal(names(), sorted(empty + ["disk"]), "volumes with %s" % (apps,))
            expected = ["/disk:", "/mem:", mode] if apps == ("b",) else ["/disk:", "f", "/mem:", "f", mode]
            equal(sorted(s.said(apps[-1])[-len(expected):]), sorted(expected), "what %s sees" % (apps,))
        s.declare(one)
        s.apply()
        wait_for(lambda: names() == empty, "the end of the volumes")
    s.acnspawn("stop", "p").expect(0)


@case
def what_an_apply_has_made_a_volume_stays_with_the_pod(host):
    """Of a volume that came with an app, changed ones need a new pod as those of the start do: also after the app was replaced."""
    s = Service(host)
    one = image(host, "one", "trap 'exit 0' TERM; id >/e/f; touch /out/up; while :; do sleep 0.05; done")
    os.makedirs(host.path("dir"))
    os.chmod(host.path("dir"), 0o777)
    s.start(("a", one))
    volumes = {"ex": "kind=named,source=va", "h": "kind=host,source=%s" % host.path("dir"), "m": "kind=empty"}
    def declare(*lines, **changed):
        mounts = ["Mount=%s:/%s" % (v, "e" if v == "ex" else v) for v in volumes]
        s.declare(("a", one, *mounts, *lines), ("new", one, *mounts),
                  pod="\n".join("Volume=%s,%s" % (v, w) for v, w in dict(volumes, **changed).items()))
    declare()
    equal([d[3] for d in s.apply()[0]], ["done", "done"])
    for lines in [], ["Environment=A=b"]:
        declare(*lines)
        s.apply()
        contains(s.apply()[1], "Pod p is as it is declared.")
        for v, other in ("ex", "kind=named,source=vb"), ("h", volumes["h"] + ",readOnly=true"), ("h", "kind=empty"), \
                        ("m", "kind=tmpfs"), ("m", "kind=empty,mode=700"), ("m", "kind=named,source=va"):
            declare(*lines, **{v: other})
            equal(s.apply("--dry-run")[0], [(None, "new pod", "volume " + v, "refused")], other)
            done, messages = s.apply(rc=1)
            equal(done, [(None, "new pod", "volume " + v, "refused")], other)
            contains(messages, "only a new pod can have another volume %s" % v)
    s.acnspawn("stop", "p").expect(0)
    host.acnspawn("rm", "p").expect(0)
    host.acnspawn("volume", "rm", "va").expect(0)


@case
def a_newer_image_of_a_volume_hinders_no_apply(host):
    s = Service(host)
    one = image(host, "one")
    fetch = lambda text: host.acnspawn("fetch", host.image(base=False, name="example.com/data", files={"/f": text})).expect(0)
    fetch("old")
    s.start(("a", one))
    mounts = dict(pod="Volume=m,kind=image,source=example.com/data")
    s.declare(("a", one), ("b", one, "Mount=m:/m"), **mounts)
    equal(s.apply()[0], [("b", "add", None, "done")])
    contains(s.apply()[1], "Pod p is as it is declared.")
    fetch("new")
    s.declare(("a", one, "Environment=A=b"), ("b", one, "Mount=m:/m"), **mounts)
    done, messages = s.apply()
    equal(done, [("a", "replace", "environment", "done")])
    contains(messages, "volume m")
    s.declare(("a", one, "Environment=A=b"), ("b", one, "Mount=m:/m"), pod=mounts["pod"] + ",exec=false")
    equal(s.apply("--dry-run")[0], [(None, "new pod", "volume m", "refused")])
    s.acnspawn("stop", "p").expect(0)


@case
def a_named_volume_that_is_new_is_made_for_an_app_that_is_there(host):
    s = Service(host)
    one = image(host, "one", "ls -d /e /f; " + STAY)
    s.start(("a", one))
    s.declare(("a", one, "Mount=ex:/e", "Volume=vf:/f"), pod="Volume=ex,kind=named,source=ve")
    equal(s.apply()[0], [("a", "replace", "mount", "done")])
    names = lambda: {v["name"] for v in json.loads(host.acnspawn("volume", "list", "--json=short").expect(0).out)}
    true({"ve", "vf"} <= names(), "the volumes")
    equal(s.apply()[0], [], "what is left to do")
    s.acnspawn("stop", "p").expect(0)
    host.acnspawn("rm", "p").expect(0)
    host.acnspawn("volume", "rm", "ve", "vf").expect(0)


@case
def a_new_volume_is_also_for_mount_points_of_its_name(host):
    """And stays in the definition of the pod when the app that it came with goes."""
    s = Service(host)
    one = image(host, "one")
    points = host.shell(STAY, name="example.com/points", app={"mountPoints": [{"name": "ex", "path": "/e"}]})
    volume = "Volume=ex,kind=named,source=ve"
    s.start(("a", one))
    s.declare(("a", one), ("b", points), ("c", points), pod=volume)
    done, messages = s.apply()
    equal(done, [("b", "add", None, "done"), ("c", "add", None, "done")])
    lacks(messages, "gets an empty volume")
    equal([v["name"] for v in s.host.status("p")["volumes"]], ["ex"])
    s.declare(("a", one, "Mount=ex:/e"), ("c", points), pod=volume)
    equal(s.apply()[0], [("a", "replace", "mount", "done"), ("b", "remove", None, "done")])
    contains(s.apply()[1], "Pod p is as it is declared.")
    contains(host.acnspawn("pod", "create", "p", "--from=p", "--output=-").expect(0).out, "Volume=ex,kind=named,source=ve")
    s.declare(("c", points), pod=volume)
    equal(s.apply()[0], [("a", "remove", None, "done")])
    contains(host.acnspawn("pod", "create", "p", "--from=p", "--output=-").expect(0).out, "Volume=ex,kind=named,source=ve")
    s.acnspawn("stop", "p").expect(0)
    again = host.acnspawn("run", "--detach", "p").expect(0)
    lacks(again.err, "gets an empty volume")
    equal([v["name"] for v in host.status("p")["volumes"]], ["ex"])
    host.acnspawn("stop", "p").expect(0)
    for pod in host.pods():
        host.acnspawn("rm", os.path.basename(pod)).expect(0)
    host.acnspawn("volume", "rm", "ve").expect(0)


@case
def a_volume_whose_name_begins_with_that_of_an_app_stays_in_the_definition(host):
    """One that is made for the mount point of an app is not there: it is made again, also for the others that have it."""
    s = Service(host)
    one = image(host, "one")
    point = lambda name: host.shell(STAY, name="example.com/" + name, app={"mountPoints": [{"name": name, "path": "/e"}]})
    declared, made, shared = point("db-data"), point("data"), point("web-data")
    others = [("web", made), ("look", shared)]
    volume = "Volume=db-data,kind=named,source=v"
    s.start(("a", one), *others)
    s.declare(("a", one), *others, ("db", declared), pod=volume)
    equal(s.apply()[0], [("db", "add", None, "done")])
    s.declare(("a", one), *others, ("db", declared, "Environment=A=b"), pod=volume)
    equal(s.apply()[0], [("db", "replace", "environment", "done")])
    volumes = lambda: sorted(v["name"] for v in host.status("p")["volumes"])
    equal(volumes(), ["db-data", "web-data"])
    definition = host.acnspawn("pod", "create", "p", "--from=p", "--output=-").expect(0).out
    contains(definition, volume)
    lacks(definition, "web-data,")
    s.acnspawn("stop", "p").expect(0)
    contains(host.acnspawn("run", "--detach", "p").expect(0).err, "App web: its mount point 'data' (/e) gets an empty volume")
    equal(volumes(), ["db-data", "web-data"])
    host.acnspawn("stop", "p").expect(0)
    for pod in host.pods():
        host.acnspawn("rm", os.path.basename(pod)).expect(0)
    host.acnspawn("volume", "rm", "v").expect(0)


SECRETS = "for n in $(ls /dev/credentials 2>/dev/null); do echo $n=$(cat /dev/credentials/$n); done; " + STAY


def held(host, uuid, app):
    """Directories of the credentials of an app in the pod directory, and whether any secret is on the disk."""
    top = os.path.join(host.pod_dir(uuid), "credentials")
    names = [n for n in os.listdir(top) if n == app or n.startswith(app + "@")]
    return names, [os.listdir(os.path.join(top, n)) for n in names]


@case
def credentials_are_changed_with_the_app_that_has_them(host):
    s = Service(host)
    one = image(host, "one", SECRETS)
    with open(host.path("key"), "w") as f:
        f.write("first")
    key = "LoadCredential=key:" + host.path("key")
    uuid = s.start(("web", one, key, "SetCredential=user:u"), ("all", one), ("stays", one, "SetCredential=key:k"), pod="SetCredential=shared:s")
    wait_for(lambda: (len(s.said("web")), s.said("all")) == (3, ["shared=s"]), "what the apps have")
    before = s.lives()
    equal(s.apply()[0], [])
    # The content alone.
    with open(host.path("key"), "w") as f:
        f.write("second")
    equal(s.apply("--dry-run")[0], [("web", "replace", "credential key", "planned")])
    equal(s.lives(), before)
    equal(s.apply()[0], [("web", "replace", "credential key", "done")])
    wait_for(lambda: s.said("web") == ["key=first", "shared=s", "user=u", "key=second", "shared=s", "user=u"], "what the app has: %s" % s.said("web"))
    wait_for(lambda: len(held(host, uuid, "web")[0]) == 1, "what the old app had to be removed")
    equal(held(host, uuid, "web")[1], [[]])
    # A command beside it has the same.
    equal(host.acnspawn("enter", "--app=web", "p", "cat", "/dev/credentials/key").expect(0).out, "second")
    # Another image, with the same ones, which come from nowhere else but the app before.
    two = image(host, "two", "echo two; " + SECRETS)
    s.declare(("web", two, key, "SetCredential=user:u"), ("all", one), ("stays", one, "SetCredential=key:k"), pod="SetCredential=shared:s")
    equal(s.apply()[0], [("web", "replace", "image", "done")])
    wait_for(lambda: s.said("web")[6:] == ["two", "key=second", "shared=s", "user=u"], "what the app has: %s" % s.said("web"))
    # One more, one less, one for all; and the place of a file.
    os.rename(host.path("key"), host.path("moved"))
    s.declare(("web", two, "LoadCredential=key:" + host.path("moved"), "SetCredential=new:n"), ("all", one), ("stays", one, "SetCredential=key:k"))
    equal(s.apply()[0], [("web", "replace", "credential new, credential shared, credential user", "done"), ("all", "replace", "credential shared", "done"),
                         ("stays", "replace", "credential shared", "done")])
    wait_for(lambda: s.said("web")[10:] == ["two", "key=second", "new=n"], "what the app has: %s" % s.said("web"))
    wait_for(lambda: s.said("all") == ["shared=s"], "what it had")
    wait_for(lambda: held(host, uuid, "all") == ([], []), "an app without credentials: %s" % (held(host, uuid, "all"),))
    s.declare(("web", two, "LoadCredential=key:" + host.path("again"), "SetCredential=new:n"), ("all", one), ("stays", one, "SetCredential=key:k"))
    os.rename(host.path("moved"), host.path("again"))
    equal(s.apply()[0], [("web", "replace", "credential", "done")])
    equal(s.apply()[0], [])
    apps = os.path.join(host.pod_dir(uuid), "apps")
    text = read_text(os.path.join(apps, [n for n in os.listdir(apps) if n.startswith("web")][0], "definition"))
    contains(text, host.path("again"))
    lacks(text, "second")
    lacks(text, b"second".hex())
    s.acnspawn("stop", "p").expect(0)
    equal(os.path.exists(os.path.join(host.pod_dir(uuid), "credentials")), False)


@case
def an_app_that_is_put_back_has_its_credentials(host):
    s = Service(host)
    one = image(host, "one", SECRETS)
    uuid = s.start(("web", one, "SetCredential=key:old"))
    wait_for(lambda: s.said("web") == ["key=old"], "the app to have read its credential")
    s.declare(("web", one, "SetCredential=key:new", "Exec=/none"))
    done, messages = s.apply(rc=1)
    equal(done, [("web", "replace", "credential key, exec", "undone")])
    wait_for(lambda: s.said("web") == ["key=old"] * 2, "the old app: %s" % s.said("web"))
    wait_for(lambda: held(host, uuid, "web") == (["web"], [[]]), "what the new app had to be removed: %s" % (held(host, uuid, "web"),))
    equal(host.acnspawn("enter", "--app=web", "p", "cat", "/dev/credentials/key").expect(0).out, "old")
    # Nobody else may ask, and what is asked is checked.
    c = pod_interface.Connection(host, uuid)
    equal(c.call("CompareCredentials", app="web", credentials=[{"name": "key", "data": b"old".hex()}]), {"different": []})
    equal(c.call("CompareCredentials", app="web", credentials=[]), {"different": ["key"]})
    for wrong in [{"name": "key", "data": "0"}], [{"name": "../key", "data": ""}], [{"name": "key", "data": ""}] * 2:
        equal(c.call("CompareCredentials", app="web", credentials=wrong)[1], {"parameter": "credentials"})
    equal(c.call("CompareCredentials", app="none", credentials=[])[0], "NoSuchApp")
    s.acnspawn("stop", "p").expect(0)


@case
def an_app_that_cannot_be_executed_is_put_back(host):
    s = Service(host)
    one = image(host, "one")
    s.start(("a", one), ("b", one), ("c", one))
    before = s.lives()
    s.declare(("a", one, "Environment=GREETING=new"), ("b", one, "Exec=/none"), ("c", one, "Environment=GREETING=new"))
    done, messages = s.apply(rc=1)
    equal(done, [("a", "replace", "environment", "done"), ("b", "replace", "exec", "undone"), ("c", "replace", "environment", "skipped")])
    contains(messages, "App b could not be started")
    contains(messages, "App b of the old image runs again")
    after = s.lives()
    equal((after["c"], after["b"][0]), (before["c"], "running"))
    wait_for(lambda: s.said("a")[-1:] == ["new"], "the new app: %s" % s.said("a"))
    # The same again, and once the file is right.
    equal(s.apply(rc=1)[0], done[1:])
    s.declare(("a", one, "Environment=GREETING=new"), ("b", one), ("c", one, "Environment=GREETING=new"))
    equal(s.apply()[0], [("c", "replace", "environment", "done")])
    s.acnspawn("stop", "p").expect(0)


@case
def an_added_app_that_does_not_get_ready_is_removed_again(host):
    s = Service(host)
    one = image(host, "one")
    uuid = s.start(("a", one))
    before = s.lives()
    s.declare(("a", one), ("b", one, "Exec=/none"), ("c", one, "After=b"))
    done, messages = s.apply(rc=1)
    equal(done, [("b", "add", None, "undone"), ("c", "add", None, "skipped")])
    contains(messages, "App b of pod p")
    contains(messages, "/none")
    contains(messages, "App b was removed again.")
    equal(s.lives(), before)
    wait_for(lambda: os.listdir(os.path.join(host.pod_dir(uuid), "apps")) == ["a"], "the directory to be removed")
    s.acnspawn("stop", "p").expect(0)


@case
def what_needs_a_new_pod_is_named_and_nothing_is_done(host):
    s = Service(host)
    one = image(host, "one")
    s.start(("a", one), ("b", one), pod="Volume=data,kind=empty\nHostname=here")
    before = s.lives()
    s.declare(("a", one, "Environment=A=b"), ("b", one), ("c", one), pod="Volume=data,kind=empty,mode=700\nHostname=there")
    done, messages = s.apply(rc=1)
    equal(done[0], (None, "new pod", "hostname, volume data", "refused"))
    equal([d[3] for d in done[1:]], ["planned"] * 2)
    contains(messages, "Pod p is left as it is: only a new pod can have another hostname, volume data")
    contains(messages, "'systemctl restart acnspawn@p' makes one")
    equal(s.lives(), before)
    equal(s.apply("--dry-run")[0][0][1], "new pod")
    s.acnspawn("stop", "p").expect(0)


@case
def mistakes_are_found_before_anything_is_changed(host):
    s = Service(host)
    one = image(host, "one")
    s.start(("a", one))
    before = s.lives()
    s.declare(("a", one, "Environment=A=b"), ("b", "/nonexistent.aci"))
    contains(s.acnspawn("apply", "p").expect(1).err, "/nonexistent.aci")
    s.declare(("a", one), ("b", "nosuch"))
    r = s.acnspawn("apply", "p").expect(1)
    contains(r.err, "docker://nosuch")
    lacks(r.err, "--exec", "of a file, not of a command line")
    s.declare(("a", one, "Environment=A=b", "TasksMax=many"))
    contains(s.acnspawn("apply", "p").expect(1).err, "p.pod:6: ")
    os.unlink(s.file)
    contains(s.acnspawn("apply", "p").expect(1).err, "p.pod")
    for name, rc, message in ("none", 1, "No file declares a pod 'none'"), ("../p", 2, "'../p' is not a valid name for a pod"), \
                             ("./p.pod", 2, "'./p.pod' is not a valid name for a pod"):
        r = s.acnspawn("apply", name).expect(rc)
        contains(r.err, message)
        lacks(r.err, "starts it")
    with open(os.path.join(s.config, "pods", "none.pod"), "w") as f:
        f.write("[App a]\nImage=%s\n" % one)
    r = s.acnspawn("apply", "none").expect(1)
    contains(r.err, "Pod none does not run")
    contains(r.err, "'systemctl start acnspawn@none' starts it")
    equal(s.acnspawn("apply").rc, 2)
    equal(s.lives(), before)
    equal([n for n in os.listdir(os.path.join(host.dir, "pods", "preparing"))] if os.path.exists(os.path.join(host.dir, "pods", "preparing")) else [], [])
    s.acnspawn("stop", "p").expect(0)


@case
def an_app_that_was_added_and_not_started_is_started(host):
    s = Service(host)
    one = image(host, "one")
    s.start(("stays", one))
    s.acnspawn("add-app", "p", one, "--name=web").expect(0)
    before = s.lives()["stays"]
    s.declare(("stays", one), ("web", one))
    equal(s.apply("--dry-run")[0], [("web", "start", None, "planned")])
    equal(s.apply()[0], [("web", "start", None, "done")])
    equal(({n: a["state"] for n, a in s.apps().items()}, s.lives()["stays"]), ({"stays": "running", "web": "running"}, before))
    # One that has ended is left so.
    s.acnspawn("stop-app", "p", "web").expect(0)
    equal((s.apply()[0], s.apps()["web"]["state"]), ([], "ended"))
    s.acnspawn("pause", "p").expect(0)
    contains(s.acnspawn("apply", "p").expect(1).err, "Pod p is paused")
    s.acnspawn("stop", "p").expect(0)


def late(s, usec, which="1+"):
    """apply, which makes these of its calls a while late; and a function that says how many it has made."""
    need_strace()
    log = s.host.path("calls.log")
    open(log, "w").close()
    p = subprocess.Popen(["strace", "-qq", "-o", log, "-e", "trace=sendmsg", "-e", "inject=sendmsg:delay_enter=%d:when=%s" % (usec, which)] +
                         s.host.argv("apply", "p"), env=s.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    s.host.children.append(p)
    return p, lambda: len([l for l in read_text(log).splitlines() if " = " in l])


@case
def an_app_that_another_call_starts_in_between_stays(host):
    """Between the call that adds it and the one that starts it."""
    s = Service(host)
    one = image(host, "one")
    uuid = s.start(("stays", one))
    c = pod_interface.Connection(host, uuid)
    s.declare(("stays", one), ("web", one))
    p, _ = late(s, int(patience(0.5) * 1e6))
    wait_for(lambda: (c.call("StartApp", app="web") or [""])[0] not in ("NoSuchApp", "WrongState"), "the start by another call")
    contains(host.finish(p).expect(0).out, "done")
    equal({n: (a["state"], a["starts"]) for n, a in s.apps().items()}, {"stays": ("running", 1), "web": ("running", 1)})
    s.acnspawn("stop", "p").expect(0)


@case
def several_at_once_change_each_app_once(host):
    """The others find that it is as declared."""
    s = Service(host)
    one, two = image(host, "one"), image(host, "two")
    s.start(("web", one), ("gone", one))
    for round in range(3):
        starts = s.apps()["web"]["starts"]
        before = len(s.said("web"))
        s.declare(("web", one, "Environment=GREETING=round-%d" % round), *[("new%d-%d" % (round, i), two, "TasksMax=50") for i in range(2)])
        results = [host.finish(p) for p in [host.start("apply", "--json=short", "p", env=s.env) for _ in range(3)]]
        equal([r.rc for r in results], [0] * 3, "exit statuses of %s" % [str(r) for r in results])
        taken = sorted((row["app"], row["change"], row["result"]) for r in results for row in json.loads(r.out))
        old = [("gone", "remove", "done")] if round == 0 else [("new%d-%d" % (round - 1, i), "remove", "done") for i in range(2)]
        equal(taken, sorted([("web", "replace", "done")] + old + [("new%d-%d" % (round, i), "add", "done") for i in range(2)]))
        wait_for(lambda: s.said("web")[-1:] == ["round-%d" % round], "the new app")
        equal(len(s.said("web")), before + 1, "executions of the app")
    s.acnspawn("stop", "p").expect(0)


@case
def another_apply_is_waited_for(host):
    """It is named at once, and a signal ends the wait."""
    s = Service(host)
    one = image(host, "one")
    s.start(("web", one))
    s.apply()
    with open(os.path.join(host.one_pod(), "applying"), "r+") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        true(int(f.read()) > 1, "it names the last process")
        p = subprocess.Popen(host.argv("apply", "p"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=s.env, preexec_fn=default_signals)
        host.children.append(p)
        contains(p.stderr.readline().decode(), "Waiting for another 'acnspawn apply' of pod p, process ")
        p.send_signal(signal.SIGINT)
        equal(host.finish(p, 10).rc, -signal.SIGINT)
    equal(s.apply()[0], [])
    s.acnspawn("stop", "p").expect(0)


@case
def apps_that_others_add_and_remove_meanwhile(host):
    """What does not fit any more is planned anew."""
    s = Service(host)
    one = image(host, "one")
    stays, gone, web = ("stays", one), ("gone", one), ("web", one)
    s.start(stays, gone)
    for words, wanted in ((("add-app", "p", one, "--name=web"), (stays, gone, web)), (("rm-app", "--force", "p", "gone"), (stays, web)),
                          (("rm-app", "--force", "p", "web"), (stays, (*web, "Environment=GREETING=x")))):
        s.declare(*wanted)
        p, calls = late(s, int(patience(1) * 1e6), "2")
        wait_for(lambda: calls() >= 1, "the plan")
        host.acnspawn(*words).expect(0)
        host.finish(p).expect(0)
        equal({n: a["state"] for n, a in s.apps().items()}, {w[0]: "running" for w in wanted}, "apps after %s" % (words,))
    s.acnspawn("stop", "p").expect(0)


@case
def who_applies_may_be_killed(host):
    """At any moment: each app is the old one or the new one, and applied again the pod is as declared."""
    s = Service(host)
    one = image(host, "one")
    names = ["a%d" % i for i in range(6)]
    s.start(*[(n, one) for n in names])
    for round in range(6):
        s.declare(*[(n, one, "Environment=GREETING=round-%d" % round) for n in names])
        p = host.start("apply", "p", env=s.env)
        wait_for(lambda: p.poll() is not None or len([n for n in names if "round-%d" % round in s.said(n)]) >= round, "some of the steps")
        if p.poll() is None:
            p.send_signal(signal.SIGKILL)
        p.wait()
        s.apply()
        equal(s.apply()[0], [], "steps that are left")
        equal({a["state"] for a in s.apps().values()}, {"running"})
        for n in names:
            wait_for(lambda: s.said(n)[-1:] == ["round-%d" % round], "what app %s says" % n)
    s.acnspawn("stop", "p").expect(0)


main()
