#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Pods that are run again: a new pod is prepared from the definition of one that has ended, and gets its name."""

import socket
import threading

from harness import *

FOREVER = "touch /out/up; trap 'exit 0' TERM; while :; do sleep 0.1; done"


def pods_of(host):
    return {p["uuid"]: p for p in json.loads(host.acnspawn("list", "--json").expect(0).out)}


def manifest_of(host, pod):
    m = json.loads(host.acnspawn("cat-manifest", pod).expect(0).out)
    return m


def again(host, *args, rc=0):
    """Runs a pod again; returns the result, and the UUID of the successor."""
    before = set(pods_of(host))
    r = host.acnspawn("run", *args).expect(rc)
    new = set(pods_of(host)) - before
    return r, new.pop() if len(new) == 1 else None


def definition(host, uuid):
    return json.loads(read_text(os.path.join(host.pod_dir(uuid), "definition")))


# --- Successors ---------------------------------------------------------------------------------------------------------------

@case
def an_ended_pod_runs_again(host):
    """As another pod with the name; the first one is unchanged, and accessible by its UUID."""
    host.run("--name=web", host.shell("echo ran; cat /proc/sys/kernel/random/uuid > /out/mark; exit 3", name="example.com/a"), rc=3)
    first = host.status("web")["uuid"]
    mark = host.written("a", "out/mark")
    r, second = again(host, "web", rc=3)
    contains(r.out, "ran", "output")
    equal(r.err, "", "messages")
    true(second and second != first, "no new pod")
    old, new = host.status(first), host.status("web")
    equal((new["uuid"], new["name"], new["state"], new["exitStatus"]), (second, "web", "exited", 3))
    equal((new["predecessor"], new["successor"]), (first, None))
    equal((old["name"], old["state"], old["predecessor"], old["successor"]), (None, "exited", None, second))
    equal(old["hostname"], "web", "host name of what is past")
    true(old["users"]["base"] != new["users"]["base"], "both have the same uids")
    equal(host.written("a", "out/mark", host.pod_dir(first)), mark, "what the first pod wrote")
    true(host.written("a", "out/mark", host.pod_dir(second)) != mark, "the second pod has the files of the first")
    equal({u: p["name"] for u, p in pods_of(host).items()}, {first: None, second: "web"})
    contains(host.acnspawn("status", "web").out, "After: %s" % first, "status")
    contains(host.acnspawn("status", first).out, "Again as: %s, which has its name, web" % second, "status")
    contains(host.acnspawn("logs", "web").expect(0).out, "ran", "logs by name")
    # The name refers to the successor for every command, and is free when that is removed.
    host.acnspawn("rm", "web").expect(0)
    equal(list(pods_of(host)), [first])
    equal(host.status(first)["successor"], None)
    contains(host.acnspawn("status", "web").expect(1).err, "There is no pod 'web'", "message")
    # Its first owner may have it again.
    r, third = again(host, first, rc=3)
    equal((host.status("web")["uuid"], host.status(first)["successor"]), (third, third))
    host.acnspawn("rm", first, "web").expect(0)
    equal((host.pods(), os.listdir(os.path.join(host.dir, "names"))), ([], [".lock"]))


@case
def a_named_pod_runs_again_by_its_uuid(host):
    """Any number of times, as by a unit acnspawn@UUID: each successor gets the name, of the one before it."""
    first = host.prepare("--name=web", host.shell("exit 3"))
    host.acnspawn("run", first).expect(3)
    for _ in range(3):
        _, uuid = again(host, first, rc=3)
        equal((host.status("web")["uuid"], host.status(uuid)["predecessor"]), (uuid, first))
    # Also if another one has it by the name.
    _, named = again(host, "web", rc=3)
    _, uuid = again(host, first, rc=3)
    equal((host.status("web")["uuid"], host.status(named)["name"]), (uuid, None))
    # What is not made from it keeps the name.
    host.acnspawn("rm", "web").expect(0)
    other = host.prepare("--name=web", host.shell("exit 3"))
    contains(host.acnspawn("run", first).expect(1).err, "The name 'web' belongs to pod %s (prepared)" % other)


@case
def the_request_is_kept(host):
    """Field by field: the manifest, the status, and the view of the app itself."""
    data = host.path("data")
    os.mkdir(data)
    os.chmod(data, 0o777)
    secret = host.path("secret")
    with open(secret, "w") as f:
        f.write("geheim")
    env = host.path("env")
    with open(env, "w") as f:
        f.write("FROM_FILE=1\n")
    show = host.image(["/bin/true"], name="example.com/show", app={"mountPoints": [{"name": "store", "path": "/srv"}]})
    side = host.image(["/bin/true"], name="example.com/side")
    words = ["--name=web", "--hostname=www.example.com", "--exit-policy=all", "--stop-timeout=7s", "--volume=store,kind=empty,mode=0700,uid=5",
             "--volume=" + data + ":/data", "--volume=mem,kind=tmpfs,size=1Mi", "--memory=200Mi", "--sysctl=net.ipv4.ip_forward=1",
             "--dns=192.0.2.1", "--dns-search=example.com", "--hosts-entry=192.0.2.2=db", "--annotation=example.com/x=y", "--user-label=l=m",
             "-EPOD=1", "--credential=key:" + secret, "--verify",
             show, "--name=app", "--user=1000:50", "--supplementary-gids=7,8", "--working-directory=/tmp", "-E", b"BYTES=\xff\xfe", "--environment-file=" + env,
             "--memory=64Mi", "--caps-retain=CAP_CHOWN", "--tasks-max=99", "--mount=mem:/mem:ro", "--read-only", "--restart=on-failure",
             "--restart-limit=2", "--log-size=1Mi", "--user-annotation=u=v", "--no-new-privileges", "--", "one", b"\xc3\x28", "", "---",
             side, "--exec=/bin/sh", "--", "-c", "exit 0"]
    host.run(*words)
    first = host.status("web")["uuid"]
    _, second = again(host, "web")
    a, b = manifest_of(host, first), manifest_of(host, second)
    equal(b, a, "manifest")
    x, y = host.status(first), host.status(second)
    for s in x, y:
        for key in ("uuid", "name", "predecessor", "successor", "created", "started", "ended", "leader", "unit", "addresses"):
            s.pop(key)
        s["users"].pop("base")
        for app in s["apps"]:
            for key in ("started", "ended", "droppedLines", "droppedSize"):
                app.pop(key)
    equal(y, x, "status")
    equal(definition(host, second), definition(host, first), "definition")
    for d in definition(host, first), definition(host, second):
        lacks(json.dumps(d), "geheim", "definition")
    # The volume at /srv is readable only by its owner; /out is in a read-only root.
    sees = []
    for uuid in first, second:
        pod = host.pod_dir(uuid)
        sees.append((read_text(os.path.join(pod, "apps/app/launch")), sorted(os.listdir(os.path.join(pod, "volumes"))),
                     os.stat(os.path.join(pod, "volumes/store")).st_mode, os.stat(os.path.join(pod, "volumes/store")).st_uid - uid_base_of(host, uuid)))
    equal(sees[1], sees[0], "launch file and volumes")


def uid_base_of(host, uuid):
    return json.loads(read_text(os.path.join(host.pod_dir(uuid), "config")))["uidBase"]


@case
def the_app_sees_the_same(host):
    """Arguments and environment to the byte, user, groups, capabilities, host name and credentials."""
    secret = host.path("secret")
    with open(secret, "w") as f:
        f.write("one")
    image = host.image(["/bin/show", "/out"], name="example.com/show")
    host.run("--name=web", "--hostname=h.example.com", "--credential=key:" + secret, image, "--user=1000:50", "--supplementary-gids=7",
             "--working-directory=/tmp", "-E", b"BYTES=\xff\xfe", "--caps-retain=CAP_CHOWN", "--", b"\xc3\x28", "", "x y")
    first = host.status("web")["uuid"]
    _, second = again(host, "web")
    x, y = host.show("show", pod=host.pod_dir(first)), host.show("show", pod=host.pod_dir(second))
    equal(y.argv, x.argv, "arguments")
    contains(y.argv, b"\xc3\x28", "arguments")
    contains(y.environ, b"BYTES", "environment")
    for key in (b"AC_METADATA_URL",):
        x.environ.pop(key, None)
        y.environ.pop(key, None)
    equal(y.environ, x.environ, "environment")
    for key in ("cwd", "hostname", "uids", "gids", "groups"):
        equal(getattr(y, key), getattr(x, key), key)
    equal(y.capabilities("Bnd"), x.capabilities("Bnd"), "bounding set")


@case
def a_pod_manifest_as_well(host):
    image = host.shell("echo hello; exit 4", name="example.com/a")
    host.acnspawn("fetch", image).expect(0)
    path = host.path("pod.json")
    with open(path, "w") as f:
        json.dump({"acVersion": "0.8.11", "acKind": "PodManifest", "apps": [
            {"name": "x", "image": {"name": "example.com/a"}, "mounts": [{"volume": "v", "path": "/srv"}],
             "annotations": [{"name": "acnspawn/log-size", "value": "1Mi"}]}],
            "volumes": [{"name": "v", "kind": "empty"}], "isolators": [{"name": "resource/memory", "value": {"limit": "100M"}}]}, f)
    host.run("--name=web", "--pod-manifest=" + path, "-EA=b", rc=4)
    first = host.status("web")["uuid"]
    os.unlink(path)  # nothing of it is needed any more
    _, second = again(host, "web", rc=4)
    equal(manifest_of(host, second), manifest_of(host, first), "manifest")
    _, third = again(host, "--images=resolve", "web", rc=4)
    equal(manifest_of(host, third), manifest_of(host, first), "manifest")


@case
def grants_are_the_operators_still(host):
    """The successor has exactly the privileges that the image was granted."""
    image = host.image(["/bin/show", "/out"], name="example.com/show",
                       app={"isolators": [{"name": "os/linux/capabilities-retain-set", "value": {"set": ["CAP_SYS_ADMIN", "CAP_CHOWN"]}}]})
    host.acnspawn("run", "--name=web", image).expect(1)
    host.run("--name=web", image, "--grant=CAP_SYS_ADMIN")
    first = host.status("web")
    _, second = again(host, "web")
    new = host.status("web")
    equal((new["privileges"], new["isolators"]), (first["privileges"], first["isolators"]))
    contains(host.show("show", pod=host.pod_dir(second)).capabilities("Bnd"), "SYS_ADMIN", "bounding set")
    # An image of the same name that requests more than was granted is refused.
    host.acnspawn("fetch", host.image(["/bin/show", "/out"], name="example.com/show", labels=[{"name": "version", "value": "2"}, {"name": "os", "value": "linux"}, {"name": "arch", "value": os_arch()}],
                                      app={"isolators": [{"name": "os/linux/capabilities-retain-set", "value": {"set": ["CAP_SYS_ADMIN", "CAP_SYS_PTRACE"]}}]})).expect(0)
    host.run("--name=other", "example.com/show:1", "--grant=CAP_SYS_ADMIN")
    source = host.pod_dir(host.status("other")["uuid"])
    d = json.loads(read_text(os.path.join(source, "definition")))
    d["apps"][0]["image"] = "example.com/show:2"
    with open(os.path.join(source, "definition"), "w") as f:
        json.dump(d, f)
    r = host.acnspawn("run", "--images=resolve", "other").expect(1)
    contains(r.err, "Pod other cannot be run again: Images request more privileges than apps get by default", "message")
    contains(r.err, "CAP_SYS_PTRACE", "message")


@case
def ports_and_networks(host):
    """The port of the host is free again for the successor."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    image = host.image(["/bin/serve", "80"], name="example.com/a")
    up = host.shell(FOREVER, name="example.com/b")
    host.acnspawn("run", "--detach", "--name=web", "--net=default", "--port=%d:80" % port, up).expect(0)
    host.wait_up("b")
    first = host.status("web")
    host.acnspawn("stop", "web").expect(0)
    r, second = again(host, "--detach", "web")
    equal(r.out.strip(), second, "UUID")
    new = host.status("web")
    equal((new["network"], new["ports"], new["state"]), (first["network"], first["ports"], "running"))
    true(len(new["networks"]) == 1 and new["networks"][0]["name"] == first["networks"][0]["name"], "networks %r" % new["networks"])
    host.acnspawn("stop", "web").expect(0)


@case
def relative_paths_hold_in_another_directory(host):
    """Images and credentials given by paths relative to the working directory of that time."""
    image = host.image(["/bin/sh", "-c", "cat $CREDENTIALS_DIRECTORY/key > /out/key; true"], name="example.com/a")
    where = os.path.dirname(image)
    with open(os.path.join(where, "secret"), "w") as f:
        f.write("one")
    host.acnspawn("run", "--name=web", "--credential=key:secret", os.path.basename(image), cwd=where).expect(0)
    with open(os.path.join(where, "secret"), "w") as f:
        f.write("two")
    _, second = again(host, "--images=resolve", "web")
    equal(host.written("a", "out/key", host.pod_dir(second)), b"two", "the secret, read again")


# --- Images -------------------------------------------------------------------------------------------------------------------

def version(host, number, script):
    return host.shell(script, name="example.com/a", labels=[{"name": "version", "value": number}, {"name": "os", "value": "linux"},
                                                            {"name": "arch", "value": os_arch()}])


@case
def images_are_pinned_or_resolved(host):
    image = host.shell("exit 1", name="example.com/a")
    host.run("--name=web", image, rc=1)
    old = host.status("web")["apps"][0]["imageID"]
    shutil.copy(host.shell("exit 2", name="example.com/a"), image)
    again(host, "web", rc=1)
    equal(host.status("web")["apps"][0]["imageID"], old, "image")
    again(host, "--images=pinned", "web", rc=1)
    again(host, "--images=resolve", "web", rc=2)
    true(host.status("web")["apps"][0]["imageID"] != old, "the image is the old one")
    again(host, "web", rc=2)
    # Options for fetching are accepted then.
    again(host, "--images=resolve", "--pull-policy=never", "web", rc=2)
    os.unlink(image)
    r = host.acnspawn("run", "--images=resolve", "web").expect(1)
    contains(r.err, "Pod web cannot be run again: ", "message")
    contains(r.err, image, "message")
    again(host, "web", rc=2)


@case
def a_removed_image_is_named(host):
    image = host.shell("exit 1", name="example.com/a")
    host.run("--name=web", image, rc=1)
    short = host.status("web")["apps"][0]["imageID"]
    r = host.acnspawn("image", "rm", "--force", "example.com/a")
    if r.rc != 0:
        shutil.rmtree(os.path.join(host.dir, "images", short))
    r = host.acnspawn("run", "web").expect(1)
    contains(r.err, "Pod web cannot be run again: the image %s (example.com/a) of app a was removed" % short[:19], "message")
    contains(r.err, "'acnspawn fetch %s' brings it back." % image, "hint")
    equal(len(host.pods()), 1, "pods")
    host.acnspawn("fetch", image).expect(0)
    again(host, "web", rc=1)


@case
def the_option_is_for_ended_pods(host):
    image = host.shell(FOREVER, name="example.com/a")
    host.prepare("--name=p", image)
    contains(host.acnspawn("run", "--images=resolve", "p").expect(1).err, "The images of pod p are not resolved again: it is prepared", "message")
    host.acnspawn("run", "--detach", "p").expect(0)
    contains(host.acnspawn("run", "--images=resolve", "p").expect(1).err, "it is running", "message")
    contains(host.acnspawn("run", "--images=resolve", image).expect(1).err, "There is no pod", "message")
    for words in ["--images=resolve", "--net=none", "p"], ["--images=pinned"], ["--images=pinned", "--pull-policy=new", "p"]:
        contains(host.acnspawn("run", *words).expect(2).err, "--images= and --apps= are only for a single pod that is run again", "message")
    contains(host.acnspawn("run", "--images=x", "p").expect(2).err, "must be pinned or resolve", "message")
    host.acnspawn("stop", "p").expect(0)


# --- Secrets ------------------------------------------------------------------------------------------------------------------

@case
def secrets_that_were_not_kept_are_named(host):
    image = host.shell("true", name="example.com/a")
    for name, words, input, why in (("a", [image, "--set-credential=key:x"], None, "given on the command line"),
                                    ("b", ["--credential=key:-", image], b"x", "read from standard input or a pipe")):
        host.acnspawn("run", "--name=" + name, *words, input=input).expect(0)
        n = len(host.pods())
        r = host.acnspawn("run", name).expect(1)
        contains(r.err, "Pod %s cannot be run again: the credential 'key' was %s, and secrets are not recorded" % (name, why), "message")
        contains(r.err, "--credential=key:FILE", "hint")
        equal(len(host.pods()), n, "pods")
    path = host.path("secret")
    with open(path, "w") as f:
        f.write("x")
    host.run("--name=c", "--credential=key:" + path, image)
    os.unlink(path)
    r = host.acnspawn("run", "c").expect(1)
    contains(r.err, "Pod c cannot be run again: the credential 'key' (%s): No such file or directory" % path, "message")
    equal(host.status("c")["successor"], None)


# --- Earlier builds, damage ---------------------------------------------------------------------------------------------------

@case
def a_missing_definition_is_reported(host):
    host.run("--name=web", host.shell("exit 1", name="example.com/a"), rc=1)
    path = os.path.join(host.one_pod(), "definition")
    with open(path) as f:
        text = f.read()
    with open(path, "w") as f:
        f.write(text[:-2])
    contains(host.acnspawn("run", "web").expect(1).err, "The definition of pod web is damaged", "message")
    os.unlink(path)
    r = host.acnspawn("run", "web").expect(1)
    contains(r.err, "Pod web cannot be run again: it was prepared by an earlier build, which did not record what it was made of", "message")
    # The way out works.
    option = re.search(r"--pod-manifest=\S+", r.err).group(0)
    host.prepare("--name=web", "--replace", option)
    host.run("web", rc=1)
    again(host, "web", rc=1)


# --- Running ------------------------------------------------------------------------------------------------------------------

@case
def options_of_run_behave_as_ever(host):
    image = host.shell(FOREVER, name="example.com/a")
    host.acnspawn("run", "--detach", "--name=web", image).expect(0)
    first = host.status("web")["uuid"]
    r = host.acnspawn("run", "web").expect(1)
    equal(r.err, "Error: Pod web cannot be started: it is running already.\n'acnspawn run --replace web' stops it first.\n")
    host.acnspawn("stop", "web").expect(0)
    # --detach prints the UUID, --rm removes the successor alone.
    r, second = again(host, "--detach", "--rm", "web")
    equal(r.out.strip(), second)
    host.acnspawn("stop", "web").expect(0)
    wait_for(lambda: list(pods_of(host)) == [first], "removal of the successor")
    r, third = again(host, "--detach", "--ready-timeout=30s", first)
    equal((host.status("web")["uuid"], host.state("web")), (third, "running"))
    # --replace stops and removes a running pod; also one that has ended.
    r = host.acnspawn("run", "--detach", "--replace", "web").expect(0)
    fourth = r.out.strip()
    equal({u: p["state"] for u, p in pods_of(host).items()}, {first: "exited", fourth: "running"})
    equal(host.status("web")["predecessor"], third)
    host.acnspawn("stop", "web").expect(0)
    fifth = host.acnspawn("run", "--detach", "--replace", "web").expect(0).out.strip()
    equal({u: p["state"] for u, p in pods_of(host).items()}, {first: "exited", fifth: "running"})
    host.acnspawn("stop", "web").expect(0)
    contains(host.acnspawn("run", "--replace", image).expect(2).err, "--replace needs --name=", "message")
    contains(host.acnspawn("run", "--replace", "--net=none", "web").expect(2).err, "--replace needs --name=", "message")


@case
def a_pod_of_a_time_when_less_was_refused(host):
    """Its definition cannot be changed any more: what would be refused of a new pod is a warning, and it runs, and is run again."""
    image = host.shell("sleep 1000", name="example.com/a")
    uuid = host.prepare("--exit-policy=never", "--name=p", image, "---", image, "--name=b", "---", image, "--name=c", "--volume=v:/v")
    for name in "pod", "definition":
        path = os.path.join(host.pod_dir(uuid), name)
        d = json.loads(read_text(path))
        d.setdefault("annotations", []).append({"name": "acnspawn/x", "value": "1"})
        if name == "definition":
            d["apps"][1]["user"] = "70000"
            d["apps"][2]["mounts"][0]["path"] = "/etc/passwd/v"
        with open(path, "w") as f:
            json.dump(d, f)
    host.acnspawn("run", "--detach", "p").expect(0)
    host.acnspawn("add-app", "p", image, "--name=d").expect(0)
    for args in [], ["--images=resolve"]:
        host.acnspawn("stop", "--force", "p").expect(0)
        err = host.acnspawn("run", "--detach", *args, "p").err
        for what in "no setting acnspawn/x of a pod", "the user 70000", "/etc/passwd is a file":
            contains(err, what)
        wait_for(lambda: [(a["name"], a["state"]) for a in host.status("p")["apps"]][:3] == [("a", "running"), ("b", "ended"), ("c", "ended")], "the apps")
    host.acnspawn("stop", "--force", "p").expect(0)


@case
def replace_fails_before_anything_is_stopped(host):
    host.acnspawn("run", "--detach", "--name=web", host.shell(FOREVER, name="example.com/a"), "--set-credential=a:b").expect(0)
    uuid = host.status("web")["uuid"]
    contains(host.acnspawn("run", "--replace", "web").expect(1).err, "the credential 'a'", "message")
    equal((host.status("web")["uuid"], host.state("web"), len(host.pods())), (uuid, "running", 1))
    host.acnspawn("stop", "web").expect(0)


@contextlib.contextmanager
def empty_stage1(host, pod):
    """Successors of POD cannot start."""
    config, empty = os.path.join(host.pod_dir(pod), "config"), host.path("empty")
    text = read_text(config)
    os.makedirs(empty, exist_ok=True)
    with open(config, "w") as f:
        json.dump({**json.loads(text), "stage1": empty}, f)
    yield
    with open(config, "w") as f:
        f.write(text)


@case
def a_successor_that_cannot_start_returns_the_name(host):
    """A successor that did not run is removed, and the pod that it was made from can be tried again."""
    stage1 = host.path("stage1")
    os.symlink("/", stage1)
    host.run("--name=web", "--stage1=/", host.shell("exit 5", name="example.com/a"), rc=5)
    first = host.status("web")["uuid"]
    with empty_stage1(host, first):
        for words in [], ["--detach"], ["--rm"]:
            r = host.acnspawn("run", *words, "web").expect(1)
            contains(r.err, "did not start", "message")
            equal({u: p["name"] for u, p in pods_of(host).items()}, {first: "web"})
    again(host, "web", rc=5)


@case
def a_name_of_a_later_successor_returns_to_it(host):
    """The third pod is made of the first and has the name of the second, which gets it back if the third does not run, or with --rm."""
    first = host.prepare("--name=web", "--stage1=/", host.shell("exit 3"))
    host.acnspawn("run", first).expect(3)
    _, second = again(host, first, rc=3)
    for words in ["--rm"], ["--rm", "--detach"]:
        host.acnspawn("run", *words, first).expect(0 if "--detach" in words else 3)
        wait_for(lambda: set(pods_of(host)) == {first, second}, "the removal of the third pod")
        equal(host.status("web")["uuid"], second)
    with empty_stage1(host, first):
        for words in [], ["--detach"], ["--rm"]:
            contains(host.acnspawn("run", *words, first).expect(1).err, "did not start", "message")
            equal({u: p["name"] for u, p in pods_of(host).items()}, {first: None, second: "web"})
    again(host, "web", rc=3)


@case
def a_killed_pod_runs_again(host):
    """Its supervisor had no time to tidy up."""
    host.acnspawn("run", "--detach", "--name=web", "--net=default", host.shell(FOREVER, name="example.com/a")).expect(0)
    host.wait_up("a")
    host.kill_pods()
    settle(host)
    first = host.status("web")["uuid"]
    r, second = again(host, "--detach", "web")
    equal((host.state("web"), host.state(first)), ("running", "exited"))
    contains(host.pod_dir(first), "/exited/", "place")
    host.acnspawn("stop", "web").expect(0)


# --- At the same time ---------------------------------------------------------------------------------------------------------

@case
def of_two_at_once_one_wins(host):
    image = host.shell(FOREVER, name="example.com/a")
    host.acnspawn("run", "--detach", "--name=web", image).expect(0)
    host.acnspawn("stop", "web").expect(0)
    for n in 2, 5, 8:
        before = set(pods_of(host))
        running = [host.start("run", "--detach", "web") for _ in range(n)]
        results = [host.finish(p) for p in running]
        won = [r for r in results if r.rc == 0]
        equal(len(won), 1, "winners of %s" % [str(r) for r in results])
        for r in results:
            if r.rc == 0:
                continue
            true(re.search("is in use by another process|was run again already, as pod|is running already|"
                           "belongs to another pod now|is being started", r.err), "message is %r" % r.err)
        equal(set(pods_of(host)) - before, {won[0].out.strip()}, "new pods")
        equal((host.status("web")["uuid"], host.state("web")), (won[0].out.strip(), "running"))
        host.acnspawn("stop", "web").expect(0)


@case
def without_a_name_as_well(host):
    uuid = host.detach(host.shell(FOREVER, name="example.com/a"))
    host.acnspawn("stop", uuid).expect(0)
    _, second = again(host, "--detach", uuid)
    r = host.acnspawn("run", uuid).expect(1)
    contains(r.err, "Pod %s was run again already, as pod %s, which is running" % (uuid, second), "message")
    host.acnspawn("stop", second).expect(0)
    _, third = again(host, "--detach", uuid)
    equal((host.status(uuid)["successor"], host.status(third)["predecessor"], host.status(second)["successor"]), (third, uuid, None))
    host.acnspawn("stop", third).expect(0)


@case
def a_name_that_a_third_pod_has(host):
    """A pod that previously had the name does not take it from another one."""
    host.run("--name=web", host.shell("exit 1", name="example.com/a"), rc=1)
    first = host.status("web")["uuid"]
    again(host, "web", rc=1)
    host.acnspawn("rm", "web").expect(0)
    host.prepare("--name=web", host.shell("exit 2", name="example.com/b"))
    r = host.acnspawn("run", first).expect(1)
    contains(r.err, "Pod %s cannot be run again: The name 'web' belongs to pod" % first, "message")
    host.run("web", rc=2)


# --- gc, rm, completion -------------------------------------------------------------------------------------------------------

@case
def predecessors_go_as_other_pods_do(host):
    host.run("--name=web", host.shell("exit 1", name="example.com/a"), rc=1)
    first = host.status("web")["uuid"]
    _, second = again(host, "web", rc=1)
    host.acnspawn("rm", first).expect(0)
    equal((host.status("web")["uuid"], host.status("web")["predecessor"]), (second, first))
    _, third = again(host, "web", rc=1)
    host.acnspawn("gc", "--grace-period=0").expect(0)
    equal((host.pods(), os.listdir(os.path.join(host.dir, "names"))), ([], [".lock"]))


@case
def completion_offers_ended_pods(host):
    host.run("--name=web", host.shell("true", name="example.com/a"))
    host.prepare("--name=other", "example.com/a")
    out = subprocess.run([ACNSPAWN, "--complete", "pod:prepared,exited", "", "--dir=" + host.dir, "run"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    true({"web", "other"} <= set(out), "offered are %r" % out)


# --- Killed at any moment -----------------------------------------------------------------------------------------------------

@case
@with_timeout(600)
def killed_at_each_step(host):
    """Either the old pod has the name and is unchanged, or the successor has it and can be run. gc removes the
    rest."""
    need_strace()
    image = host.shell("true", name="example.com/a")
    host.run("--name=web", image)
    seen = set()
    number = 1
    while number < 2000:
        holder = host.status("web")["uuid"]
        count = len(host.pods())
        # The steps after the successor was published are those of "run", which crash.py tests.
        rc = kill_at(host, number, "run", "web")
        host.kill_pods()
        settle(host)
        now = host.status("web")
        pods = pods_of(host)
        if now["uuid"] == holder:
            seen.add("old")
            equal((now["state"], now["name"]), ("exited", "web"))
        else:
            seen.add("new")
            equal((now["name"], now["predecessor"]), ("web", holder))
            true(now["state"] in ("prepared", "exited"), "the successor is %s" % now["state"])
            equal((pods[holder]["name"], pods[holder]["state"]), (None, "exited"))
        host.acnspawn("gc", "--grace-period=1h").expect(0)
        left = pods_of(host)
        true(all(p["state"] in ("prepared", "exited") for p in left.values()), "after gc there are %r" % left)
        equal([p for p in left.values() if p["name"] == "web"], [p for p in pods.values() if p["uuid"] == now["uuid"]], "the pod of the name")
        equal(host.status("web")["uuid"], now["uuid"], "owner of the name after gc")
        # And it works from there.
        host.run("web")
        for uuid in set(pods_of(host)) - {host.status("web")["uuid"]}:
            host.acnspawn("rm", uuid).expect(0)
        if rc == 0:
            break
        number += 3 if "new" not in seen else 17
    equal(seen, {"old", "new"}, "outcomes")
    host.acnspawn("rm", "web").expect(0)


main()
