#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Apps of a running pod that are nested under others: their places, rights and ends."""

import threading

from harness import *
from pod_interface import Connection

STAY = "trap 'exit 0' TERM; while :; do sleep 0.05; done"
NONE = "--exit-policy=never"


def pod(host, *more, volumes=(), script=STAY):
    """A pod p with the app web."""
    uuid = host.acnspawn("run", "--detach", NONE, "--name=p", *volumes, host.shell(script, name="example.com/web"), "--name=web",
                         *more).expect(0).out.strip()
    host.acnspawn("fetch", host.shell(STAY, name="example.com/stay")).expect(0)
    host.uuid = uuid
    return uuid


def nest(host, parent, name, *more, image="example.com/stay"):
    """Nests an app, which runs then."""
    r = host.acnspawn("launch", "p", "--parent=" + parent, image, "--name=" + name, *more).expect(0)
    equal(r.out, "%s/%s\n" % (parent, name))
    return parent + "/" + name


def states(host):
    return {a["name"]: a["state"] for a in Connection(host, host.uuid).call("Describe")["apps"]}


def cgroups_of(host):
    """The cgroups below app.slice that processes of the pod are in."""
    texts = of_processes(lambda pid: read_text("/proc/%d/cgroup" % pid), host.processes()).values()
    return set(re.findall(r"^0::.*?/app\.slice/(.*)", "".join(texts), re.M))


@case
def an_app_is_nested_by_its_path(host):
    """All verbs for apps take the path."""
    uuid = pod(host)
    nest(host, "web", "helper")
    probe = nest(host, "web/helper", "probe", "--exec=/bin/sh", "--", "-c", "echo hello; trap 'exit 7' USR1; " + STAY)
    equal(states(host), {"web": "running", "web/helper": "running", probe: "running"})
    wait_for(lambda: host.acnspawn("logs", "--app=" + probe, "p").expect(0).out == "hello\n", "the output of the app")
    equal(host.acnspawn("enter", "--app=" + probe, "p", "echo", "inside").expect(0).out, "inside\n")
    host.acnspawn("cp", "/etc/hostname", "p:%s:tmp/a:b" % probe).expect(0)
    host.acnspawn("cp", "p:%s:tmp/a:b" % probe, host.path("copy")).expect(0)
    equal(read_text(host.path("copy")), read_text("/etc/hostname"))
    contains(host.acnspawn("cp", "p:tmp/a:b", host.path("copy")).expect(1).err, "several apps")
    host.acnspawn("kill", "--signal=USR1", "--app=" + probe, "p").expect(0)
    equal(host.acnspawn("wait", "p", probe).rc, 7)
    equal(states(host)[probe], "exited")
    equal([a["name"] for a in host.status("p")["apps"]], ["web", "web/helper", probe])
    contains(host.acnspawn("status", "p").expect(0).out, probe)
    host.acnspawn("start-app", "p", probe).expect(0)
    host.acnspawn("restart-app", "p", probe).expect(0)
    host.acnspawn("stop-app", "p", probe).expect(0)
    host.acnspawn("rm-app", "p", probe).expect(0)
    lacks(states(host), probe)
    host.acnspawn("stop", "p").expect(0)


def runs(host, unit):
    return bool(processes_where(lambda pid: unit in read_text("/proc/%d/cgroup" % pid), host.processes()))


@case
def a_pod_that_boots_takes_nested_apps(host):
    """A parent that is about to be started is not one that does not run."""
    host.acnspawn("fetch", host.shell(STAY, name="example.com/stay")).expect(0)
    others = [w for n in range(12) for w in ("example.com/stay", "--name=other%d" % n, "---")]
    for n in range(3):
        name = "p%d" % n
        uuid = host.prepare("--name=" + name, *others, host.shell(STAY, name="example.com/web"), "--name=web")
        run = threading.Thread(target=lambda: host.acnspawn("run", "--detach", uuid).expect(0))
        run.start()
        wait_for(lambda: runs(host, "app-other0.service"), "the first app")
        while (r := host.acnspawn("launch", name, "--parent=web", "example.com/stay", "--name=a")).rc != 0:
            contains(r.err, "not running")
        run.join()
        host.acnspawn("stop", name).expect(0)


@case
def messages_have_the_path_of_a_nested_app(host):
    """Also while it is prepared, when it has no more than a name of its own for its unit."""
    pod(host)
    image = host.shell(STAY, name="example.com/data", app={"mountPoints": [{"name": "data", "path": "/data"}]})
    r = host.acnspawn("launch", "p", "--parent=web", image, "--name=sub").expect(0)
    contains(r.err, "App web/sub: its mount point 'data'")
    host.acnspawn("stop", "p").expect(0)


@case
def its_cgroup_is_below_that_of_its_parent(host):
    uuid = pod(host)
    nest(host, "web", "helper")
    nest(host, "web/helper", "probe")
    equal([a["name"] for a in Connection(host, uuid).call("Describe")["apps"]], ["web", "web/helper", "web/helper/probe"])
    equal(cgroups_of(host), {"app-web.slice/app-web.service", "app-web.slice/app-web-0n1.slice/app-web-0n1.service",
                             "app-web.slice/app-web-0n1.slice/app-web-0n1-0n2.slice/app-web-0n1-0n2.service"})
    host.acnspawn("stop", "p").expect(0)


@case
def processes_are_counted_in_the_cgroup_of_the_parent(host):
    """Also where that controller has a hierarchy of its own, which the pod's systemd does not know."""
    if not os.path.isdir("/sys/fs/cgroup/pids"):
        raise Skip("this host has no hierarchy for the controller pids alone")
    uuid = pod(host, "--tasks-max=20")
    nest(host, "web", "helper")
    nest(host, "web/helper", "probe", "--exec=/bin/sh", "--", "-c", "exec 2>&1; for i in $(seq 30); do sleep 1000 & done; " + STAY)
    top = read_text(host.pod_dir(uuid) + "/cgroups").splitlines()
    apps, = (p + "/apps" for p in top if p.startswith("/sys/fs/cgroup/pids/"))
    below = lambda: sorted(d[len(apps) + 1:] for d, _, _ in os.walk(apps))
    equal(below(), ["", "web", "web/web-0n1", "web/web-0n1/web-0n1-0n2"])
    wait_for(lambda: "fork" in host.acnspawn("logs", "--app=web/helper/probe", "p").expect(0).out, "the limit of app web to be reached")
    equal(read_text(apps + "/web/pids.max").strip(), "20")
    true(int(read_text(apps + "/web/pids.current")) <= 20, "all of them are within the limit of app web")
    host.acnspawn("rm-app", "--force", "p", "web/helper").expect(0)
    equal(below(), ["", "web"])
    host.acnspawn("rm-app", "--force", "p", "web").expect(0)
    equal(below(), [""])
    host.acnspawn("stop", "p").expect(0)


@case
def the_end_of_a_parent_ends_what_is_below_it(host):
    """In order: what is nested deepest ends first; their statuses stay until they are removed."""
    uuid = pod(host, "--mount=volume=log,target=/log", volumes=["--volume=log,kind=empty,nested=true"])
    end = "trap 'echo $0 >> /log/ends; exit 3' TERM; while :; do sleep 0.05; done"
    nest(host, "web", "a", "--exec=/bin/sh", "--", "-c", end, "a")
    nest(host, "web/a", "b", "--exec=/bin/sh", "--", "-c", end, "b")
    nest(host, "web", "c", "--exec=/bin/sh", "--", "-c", end, "c")
    host.acnspawn("stop-app", "p", "web").expect(0)
    wait_for(lambda: states(host) == dict.fromkeys(["web", "web/a", "web/a/b", "web/c"], "exited"), "all of them to end")
    ends = read_text(os.path.join(host.pod_dir(uuid), "volumes", "log", "ends")).split()
    equal(sorted(ends), ["a", "b", "c"])
    true(ends.index("b") < ends.index("a"), "the deepest one ends first: %s" % ends)
    for n in "web/a", "web/a/b", "web/c":
        equal(host.acnspawn("wait", "p", n).rc, 3)
    r = host.acnspawn("start-app", "p", "web/a").expect(1)
    contains(r.err, "app web, which it is nested under, does not run")
    host.acnspawn("rm-app", "p", "web").expect(0)
    equal(states(host), {})
    host.acnspawn("stop", "p").expect(0)


@case
def an_app_that_ends_by_itself_ends_what_is_below_it(host):
    """Also if it is restarted."""
    pod(host, "--restart=always", "--restart-delay=1ms")
    nest(host, "web", "a")
    nest(host, "web/a", "b")
    host.acnspawn("kill", "--signal=KILL", "--app=web", "p").expect(0)
    wait_for(lambda: states(host) == {"web": "running", "web/a": "exited", "web/a/b": "exited"}, "the nested apps to end")
    host.acnspawn("start-app", "p", "web/a").expect(0)
    r = host.acnspawn("rm-app", "p", "web/a").expect(1)
    contains(r.err, "it is running")
    host.acnspawn("rm-app", "--force", "p", "web/a").expect(0)
    equal(states(host), {"web": "running"})
    host.acnspawn("stop", "p").expect(0)


@case
def apps_can_be_nested_to_level_32(host):
    pod(host)
    path = "web"
    for level in range(2, 33):
        path = nest(host, path, "n")
    r = host.acnspawn("add-app", "p", "--parent=" + path, "example.com/stay", "--name=n").expect(1)
    contains(r.err, "apps can be nested to level 32")
    equal(host.acnspawn("enter", "--app=" + path, "p", "echo", "deep").expect(0).out, "deep\n")
    equal(len(states(host)), 32)
    host.acnspawn("stop-app", "p", "web").expect(0)
    wait_for(lambda: set(states(host).values()) == {"exited"}, "all of them to end")
    host.acnspawn("rm-app", "p", "web").expect(0)
    equal(states(host), {})
    host.acnspawn("stop", "p").expect(0)


@case
def a_nested_app_has_no_more_rights_than_its_parent(host):
    """Field by field; what it does not say it has from its parent."""
    pod(host, "--caps-retain=CAP_CHOWN,CAP_KILL", "--no-new-privileges", "--memory=64M", "--mount=volume=v,target=/v",
        "--device=/dev/zero:r", "--user=7", "--group=8", volumes=["--volume=v,kind=empty"])
    account = ["--user=7", "--group=8"]

    def refused(message, *more):
        r = host.acnspawn("add-app", "p", "--parent=web", "example.com/stay", "--name=x", *more).expect(1)
        contains(r.err, message)
        equal(states(host), {"web": "running"})

    refused("the user 0, not 7")
    refused("the group of the user in the image, not 8", "--user=7")
    refused("CAP_NET_BIND_SERVICE", "--caps-retain=CAP_CHOWN,CAP_NET_BIND_SERVICE", *account)
    refused("no filter of system calls", "--seccomp=mode=retain,@appc.io/all", *account)
    refused("the system call", "--seccomp=mode=retain,@acnspawn/default,add_key", *account)
    refused("no-new-privileges is false", "--isolator=os/linux/no-new-privileges=false", *account)
    refused("a lower os/linux/oom-score-adj", "--oom-score-adj=-1", *account)
    refused("the device /dev/null", "--device=/dev/null", *account)
    refused("the device /dev/zero", "--device=/dev/zero:w", *account)
    refused("the device /dev/full", "--device=/dev/full:r", *account)
    refused("hooks on the host", '--annotation=acnspawn/hooks=[{"path":"/bin/true"}]', *account)
    refused("a writable /sys", "--sys=writable", *account)
    refused("other masked-paths", "--masked-paths=none", *account)
    refused("the volume v", "--mount=volume=v,target=/v", *account)
    refused("CAP_CHOWN is ambient", "--caps-ambient=CAP_CHOWN", *account)
    refused("the groups of its user in the image", "--group-policy=merge", *account)
    refused("--share-cgroups=false", "--memory=32M", *account)
    refused("cannot have os/linux/cgroup", '--isolator=os/linux/cgroup={"memory.high":"1000000"}', *account)
    refused("where app web has a limit of 64000000", "--memory=65M", "--share-cgroups=false", *account)
    nest(host, "web", "inherits", "--exec=/bin/sh", *account, "--", "-c", "grep -E 'CapBnd|NoNewPrivs' /proc/self/status; exec sleep 1000")
    out = lambda: host.acnspawn("logs", "--app=web/inherits", "p").expect(0).out
    wait_for(lambda: out().count("\n") == 2, "the output of the app")
    equal(int(re.search(r"CapBnd:\s*(\w+)", out()).group(1), 16), (1 << 0) | (1 << 5))
    equal(re.search(r"NoNewPrivs:\s*(\w+)", out()).group(1), "1")
    host.acnspawn("stop", "p").expect(0)


@case
def root_without_capabilities_has_its_identity_only(host):
    """With CAP_SETUID and CAP_SETGID it could take any."""
    pod(host, "--caps-retain=CAP_CHOWN", "--group=0")
    for message, *more in (("the user 7, not 0", "--user=7", "--group=0"), ("the group 8, not 0", "--group=8"),
                           ("the groups of its user in the image", "--group=0", "--group-policy=merge")):
        contains(host.acnspawn("add-app", "p", "--parent=web", "example.com/stay", "--name=x", *more).expect(1).err, message)
    nest(host, "web", "a", "--user=0", "--group=0")
    host.acnspawn("stop", "p").expect(0)


@case
def what_is_read_only_for_the_parent_is_so_below(host):
    """At its place by itself, and at any other."""
    pod(host, "--mount=volume=v,target=/v,readOnly=true", "--mount=volume=w,target=/w,readOnly=true", "--mount=volume=w,target=/w2",
        volumes=["--volume=v,kind=empty,nested=true", "--volume=w,kind=empty,nested=true"])
    nest(host, "web", "a", "--mount=volume=v,target=/own", "--mount=volume=w,target=/more")
    nest(host, "web/a", "b", "--mount=volume=v,target=/deep")
    for name, path, writable in (("web", "/v", False), ("web/a", "/v", False), ("web/a", "/own", False), ("web/a", "/w", False),
                                 ("web/a", "/w2", True), ("web/a", "/more", True), ("web/a/b", "/v", False), ("web/a/b", "/deep", False),
                                 ("web/a/b", "/more", True)):
        r = host.acnspawn("enter", "--app=" + name, "p", "touch", path + "/file")
        equal((name, path, r.rc), (name, path, 0 if writable else 1))
        if not writable:
            contains(r.err, "Read-only file system")
    host.acnspawn("stop", "p").expect(0)


@case
def apps_beside_each_other_are_alike_in_sharing_cgroups(host):
    pod(host, "--memory=64M")
    nest(host, "web", "a", "--share-cgroups=false", "--memory=32M")
    r = host.acnspawn("add-app", "p", "--parent=web", "example.com/stay", "--name=b").expect(1)
    contains(r.err, "App web/b has share-cgroups=true, but app web/a, beside it, has share-cgroups=false")
    r = host.acnspawn("add-app", "p", "example.com/stay", "--name=b", "--share-cgroups=true").expect(0)
    r = host.acnspawn("add-app", "p", "example.com/stay", "--name=c", "--share-cgroups=false").expect(1)
    contains(r.err, "is not nested under another one")
    host.acnspawn("stop", "p").expect(0)


@case
def volumes_and_the_image_of_the_parent(host):
    """Only volumes that are marked appear below; the image of the parent is read-only there."""
    pod(host, "--mount=volume=s,target=/s", "--mount=volume=o,target=/o",
        volumes=["--volume=s,kind=empty,nested=true", "--volume=o,kind=empty"])
    host.acnspawn("enter", "--app=web", "p", "touch", "/s/seen").expect(0)
    nest(host, "web", "a")
    host.acnspawn("enter", "--app=web/a", "p", "test", "-e", "/s/seen").expect(0)
    equal(host.acnspawn("enter", "--app=web/a", "p", "test", "-e", "/o").rc, 1)
    nest(host, "web", "debug", "--exec=/bin/sh", "--", "-c", "exec sleep 1000", image="@parent")
    host.acnspawn("enter", "--app=web/debug", "p", "touch", "/s/written").expect(0)
    r = host.acnspawn("enter", "--app=web/debug", "p", "touch", "/file")
    equal(r.rc, 1)
    contains(r.err, "Read-only file system")
    images = {a["name"]: a["imageID"] for a in Connection(host, host.uuid).call("Describe")["apps"]}
    equal(images["web/debug"], images["web"])
    host.acnspawn("stop", "p").expect(0)


@case
def nested_apps_of_a_pod_manifest_are_bounded_as_others(host):
    """What they do not say they have from their parent, in any order of the file."""
    host.acnspawn("fetch", host.shell(STAY, name="example.com/stay")).expect(0)
    path = host.path("pod.json")

    def app(name, nested=None, annotations=(), isolators=(), **more):
        settings = [{"name": "acnspawn/nested-path", "value": nested}] if nested else []
        return dict({"name": name, "image": {"name": "example.com/stay"}, "annotations": settings + list(annotations),
                     "app": {"exec": ["/bin/sh", "-c", STAY], "user": "0", "group": "0", "isolators": list(isolators)}}, **more)

    def prepare(*apps, volumes=(), verb="prepare"):
        with open(path, "w") as f:
            json.dump({"acKind": "PodManifest", "acVersion": "0.8.11", "apps": list(apps), "volumes": list(volumes)}, f)
        return host.acnspawn(*verb.split(), "--pod-manifest=" + path)

    few = [{"name": "os/linux/capabilities-retain-set", "value": {"set": ["CAP_CHOWN", "CAP_KILL"]}},
           {"name": "resource/tasks", "value": {"limit": "50"}}]
    more = {"name": "os/linux/capabilities-retain-set", "value": {"set": ["CAP_CHOWN", "CAP_NET_BIND_SERVICE"]}}
    own = {"name": "acnspawn/share-cgroups", "value": "false"}
    for nested, message in ((app("web-0n1", "web/a", isolators=[more]), "CAP_NET_BIND_SERVICE"),
                            (app("web-0n1", "web/a", isolators=[{"name": "resource/tasks", "value": {"limit": "10"}}]), "share-cgroups=true"),
                            (app("web-0n1", "web/a", [own], [{"name": "resource/tasks", "value": {"limit": "51"}}]), "where app web has a limit of 50"),
                            (app("web-0n1", "web/a", [{"name": "acnspawn/control", "value": "true"}]), "to launch apps"),
                            (app("web-0n1", "web/a", mounts=[{"volume": "v", "path": "/v"}]), "the volume v")):
        r = prepare(nested, app("web", isolators=few), volumes=[{"name": "v", "kind": "empty"}]).expect(1)
        contains(r.err, "web/a")
        contains(r.err, message)
        equal(host.pods(), [])
    deep = app("web-0n1-0n2", "web/a/b", isolators=[{"name": "os/linux/capabilities-retain-set", "value": {"set": ["CAP_CHOWN"]}}])
    host.uuid = prepare(deep, app("web-0n1", "web/a"), app("web", isolators=few)).expect(0).out.strip()
    m = json.loads(host.acnspawn("cat-manifest", host.uuid).expect(0).out)
    sets = {a["name"]: [i["value"]["set"] for i in a["app"]["isolators"] if i["name"] == "os/linux/capabilities-retain-set"] for a in m["apps"]}
    equal(sets, {"web": [["CAP_CHOWN", "CAP_KILL"]], "web-0n1": [["CAP_CHOWN", "CAP_KILL"]], "web-0n1-0n2": [["CAP_CHOWN"]]})
    host.acnspawn("rm", host.uuid).expect(0)


@case
def limits_that_change_stay_below_the_parents(host):
    pod(host, "--tasks-max=100")
    nest(host, "web", "a", "--share-cgroups=false", "--tasks-max=50")
    nest(host, "web/a", "b", "--share-cgroups=false")
    for app, of, most in (("web/a/b", "web/a", 50), ("web/a", "web", 100)):
        contains(host.acnspawn("update-app", "--tasks-max=%d" % (most + 1), "p", app).expect(1).err,
                 "resource/tasks of %d, where app %s has a limit of %d" % (most + 1, of, most))
        contains(host.acnspawn("update-app", "--tasks-max=infinity", "p", app).expect(1).err, "where app %s has a limit of %d" % (of, most))
        host.acnspawn("update-app", "--tasks-max=%d" % (most - 1), "p", app).expect(0)
        host.acnspawn("update-app", "--tasks-max=%d" % most, "p", app).expect(0)
    host.acnspawn("stop", "p").expect(0)


@case
def what_is_refused(host):
    pod(host)

    def refused(message, *line, status=1):
        contains(host.acnspawn("add-app", "p", *line).expect(status).err, message)

    nest(host, "web", "a")
    contains(host.acnspawn("launch", "p").expect(2).err, "needs a pod and an image")
    contains(host.acnspawn("launch", "p", "example.com/stay", "---", "example.com/stay").expect(2).err, "One app is launched at a time")
    contains(host.acnspawn("launch", "p", "--net=host", "example.com/stay").expect(2).err, "An option of a pod cannot be given")
    broken = host.image(["/nowhere"], name="example.com/broken")
    contains(host.acnspawn("launch", "p", "--parent=web", broken, "--name=b").expect(1).err, "App web/b could not be started")
    contains(host.acnspawn("update-app", "--memory=32M", "p", "web/a").expect(1).err, "App web/a has share-cgroups=true")
    refused("has no app 'none'", "--parent=none", "example.com/stay")
    refused("App web has a nested app 'a' already", "--parent=web", "example.com/stay", "--name=a")
    refused("given with --parent=", "@parent")
    refused("cannot be the name of an app", "example.com/stay", "--name=web-0n1")
    r = host.acnspawn("enter", "--app=web/b", "p", "true")
    true(r.rc != 0, "there is no such app")
    contains(r.err, "web/b")
    host.acnspawn("stop", "p").expect(0)


@case
def a_group_can_be_nested(host):
    """All or none, as any group."""
    pod(host)
    broken = host.image(["/nowhere"], name="example.com/broken")
    line = ["launch-group", "p", "--parent=web", "example.com/stay", "--name=a", "---"]
    r = host.acnspawn(*line, broken, "--name=b").expect(1)
    contains(r.err, "App web/b could not be started")
    equal(states(host), {"web": "running"})
    equal(host.acnspawn(*line, "example.com/stay", "--name=b").expect(0).out, "web/a\nweb/b\n")
    host.acnspawn("stop-app", "p", "web").expect(0)
    r = host.acnspawn(*line, "example.com/stay", "--name=c").expect(1)
    contains(r.err, "already")
    host.acnspawn("rm-app", "p", "web/a").expect(0)
    r = host.acnspawn(*line, "example.com/stay", "--name=c").expect(1)
    contains(r.err, "which it is nested under, does not run")
    host.acnspawn("stop", "p").expect(0)


def task(task_id, script, image="example.com/stay", **more):
    """A task of Mesos; without an image it has that of its parent."""
    container = {"type": "MESOS", "mesos": {"image": {"type": "APPC", "appc": {"name": image}}} if image else {}}
    container.update(more.pop("container", {}))
    return dict({"name": "a task", "task_id": {"value": task_id}, "agent_id": {"value": "here"}, "container": container,
                 "command": {"value": script}}, **more)


def volume(path, kind, name):
    return {"mode": "RW", "container_path": path, "source": {"type": "SANDBOX_PATH", "sandbox_path": {"type": kind, "path": name}}}


@case
def tasks_of_mesos_are_launched(host):
    """As apps of the pod, with a volume that they share; and nested, with a volume of the parent."""
    pod(host, "--mount=volume=box,target=/box", volumes=["--volume=box,kind=empty,nested=true"])

    def launch(tasks, *more, status=0):
        return host.acnspawn("launch-group", "p", *more, "-", input=json.dumps({"tasks": tasks}).encode()).expect(status)

    shared = {"volumes": [volume("/shared", "PARENT", "shared/data")]}
    r = launch([task("Job.1", "echo one > /shared/a; " + STAY, container=shared, resources=[
                    {"name": "mem", "type": "SCALAR", "scalar": {"value": 32}}], limits={"mem": {"value": 64}}),
                task("Job.2", "while ! [ -s /shared/a ]; do sleep 0.05; done; cat /shared/a; exit 4", container=shared,
                     command={"value": "while ! [ -s /shared/a ]; do sleep 0.05; done; cat /shared/a; exit 4",
                              "environment": {"variables": [{"name": "A", "value": "b"}]}})])
    equal(r.out, "job-1\njob-2\n")
    equal(host.acnspawn("wait", "p", "job-2").rc, 4)
    equal(host.acnspawn("logs", "--app=job-2", "p").expect(0).out, "one\n")
    # Volumes of one task alone; and a check with what Mesos has by default.
    launch([task("own", STAY, container={"volumes": [volume("/own", "SELF", "mine")]}, health_check={
        "type": "COMMAND", "command": {"value": "test -d /own"}, "delay_seconds": 15.0, "grace_period_seconds": 10.0})])
    r = launch([task("probe", "touch /box/seen; touch /file; echo $?; " + STAY, image=None,
                     container={"volumes": [volume("/box", "PARENT", "box")]}),
                task("late", STAY, image=None, max_completion_time={"nanoseconds": 100000000})], "--parent=web")
    equal(r.out, "web/probe\nweb/late\n")
    wait_for(lambda: "\n1\n" in "\n" + host.acnspawn("logs", "--app=web/probe", "p").expect(0).out, "the output of the task")
    host.acnspawn("enter", "--app=web", "p", "test", "-e", "/box/seen").expect(0)
    wait_for(lambda: states(host)["web/late"] == "exited", "the task that takes too long to end")
    r = launch([task("x", "true", image=None, discovery={}), task("y", "true", limits={"mem": {"value": 1}})], "--parent=web", status=1)
    contains(r.err, "tasks[0].discovery: this cannot be honoured")
    contains(r.err, "tasks[1]: limits need container.linux_info.share_cgroups to be false")
    r = launch([task("z", "true", container={"volumes": [volume("/z", "PARENT", "own-mine")]})], status=1)
    contains(r.err, "tasks[0].container.volumes[0].source.sandbox_path: the volume 'own-mine' is another one")
    equal(sorted(states(host)), ["job-1", "job-2", "own", "web", "web/late", "web/probe"])
    host.acnspawn("stop", "p").expect(0)


@case
def an_executor_ends_with_its_tasks(host):
    """A pod that begins without apps; the states of its tasks are events."""
    uuid = host.acnspawn("run", "--detach", "--executor", "--name=p").expect(0).out.strip()
    host.uuid = uuid
    c, events = Connection(host, uuid), Connection(host, uuid)
    events.send("Monitor", more=True)
    for name, script in ("good", "sleep 0.2"), ("bad", "exit 3"), ("stay", STAY):
        host.acnspawn("fetch", host.shell(script, name="example.com/" + name)).expect(0)
    host.acnspawn("launch-group", "p", "example.com/stay", "--name=stay", "---", "example.com/bad", "--name=bad", "---",
                  "example.com/good", "--name=good").expect(0)
    host.acnspawn("launch-group", "p", "--parent=stay", "example.com/stay", "--name=below").expect(0)
    host.acnspawn("wait", "p", "good").expect(0)
    equal(host.acnspawn("wait", "p", "bad").rc, 3)
    equal(states(host)["stay"], "running")
    host.acnspawn("stop-app", "p", "stay").expect(0)
    seen = {}
    while True:
        event = events.receive()["parameters"]
        app = event.get("app")
        if app and app.get("task"):
            t = (app["task"], app.get("reason"))
            if t not in seen.setdefault(app["name"], []):
                seen[app["name"]].append(t)
        if event["state"] == "exited":
            break
    equal({n: t[-1] for n, t in seen.items()}, {"good": ("FINISHED", None), "bad": ("FAILED", "exited"),
                                               "stay": ("KILLED", "requested"), "stay/below": ("KILLED", "parent-ended")})
    equal([t[0] for t in seen["stay"]], ["STAGING", "STARTING", "RUNNING", "KILLED"])
    equal(host.acnspawn("wait", "p").rc, 3)


def last_states(events):
    """Of each task, with the reason, at the end of the pod."""
    last = {}
    while True:
        event = events.receive()["parameters"]
        app = event.get("app")
        if app and app.get("task"):
            last[app["name"]] = (app["task"], app.get("reason"))
        if event["state"] == "exited":
            return last


@case
def tasks_of_an_executor_that_ends(host):
    """In order they are killed, as the pod has ended; if the pod is killed, or its systemd, they are lost."""
    host.acnspawn("fetch", host.shell(STAY, name="example.com/stay")).expect(0)

    def leader(uuid):
        apps = processes_where(lambda pid: "/app.slice/" in read_text("/proc/%d/cgroup" % pid), host.processes())
        return next(p for p in of_processes(parent_of, apps).values() if p not in apps and name_of(p).startswith("systemd"))

    ends = ((lambda uuid: host.acnspawn("stop", "p").expect(0), ("KILLED", "pod-ended"), ("LOST", "not-started")),
            (lambda uuid: host.acnspawn("stop", "--force", "p").expect(0), ("LOST", "pod-killed"), ("LOST", "not-started")),
            (lambda uuid: os.kill(leader(uuid), 9), ("LOST", "pod-killed"), ("LOST", "not-started")))
    for end, of_running, of_staging in ends:
        host.uuid = uuid = host.acnspawn("run", "--detach", "--executor", "--name=p").expect(0).out.strip()
        events = Connection(host, uuid)
        events.send("Monitor", more=True)
        host.acnspawn("launch-group", "p", "example.com/stay", "--name=a", "---", "example.com/stay", "--name=b").expect(0)
        nest(host, "a", "below")
        host.acnspawn("add-app", "p", "example.com/stay", "--name=staged").expect(0)
        equal(states(host), {"a": "running", "b": "running", "a/below": "running", "staged": "created"})
        end(uuid)
        equal(last_states(events), {"a": of_running, "b": of_running, "a/below": of_running, "staged": of_staging})
        host.acnspawn("status", "--wait=20s", "p")
        host.acnspawn("rm", "p").expect(0)


@case
def what_an_executor_refuses(host):
    contains(host.acnspawn("run", "--executor", "--exit-policy=any").expect(2).err, "--executor is --exit-policy=tasks")


if __name__ == "__main__":
    main()
