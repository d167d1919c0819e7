#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Groups of apps that are added to a running pod and started: all or none."""

from harness import *
from pod_interface import Connection

STAY = "trap 'exit 0' TERM; touch /out/up; while :; do sleep 0.05; done"
SIZE = 10


def pod(host):
    return host.acnspawn("run", "--detach", "--exit-policy=never", "--name=p").expect(0).out.strip()


def group(image, names, **changed):
    """Members by name; CHANGED are images of some of them."""
    return [{"definition": {"apps": [{"image": changed.get(n, image), "name": n}]}} for n in names]


def names_of_apps(host, uuid):
    return sorted(n for n in os.listdir(host.pod_dir(uuid) + "/apps") if n[0] != ".")


def is_empty(host, uuid):
    equal(host.status("p")["apps"], [])
    wait_for(lambda: names_of_apps(host, uuid) == [], "the directories of the apps to be removed")
    units = host.pod_dir(uuid) + "/root/acnspawn/units"
    equal([n for n in os.listdir(units) if re.search(r"\bg\d", n)], [])


NAMES = ["g%d" % i for i in range(SIZE)]


@case
def all_apps_of_a_group_are_added_and_started(host):
    uuid = pod(host)
    c = Connection(host, uuid)
    reply = c.call("LaunchGroup", apps=group(host.shell(STAY, name="example.com/stay"), NAMES))
    equal(reply["apps"], NAMES)
    equal({a["name"]: a["state"] for a in c.call("Describe")["apps"]}, {n: "running" for n in NAMES})
    host.acnspawn("rm-app", "--force", "p", "g3").expect(0)
    host.acnspawn("stop", "p").expect(0)


@case
def if_one_app_of_a_group_fails_none_is_kept(host):
    """Whichever it is, and whether it cannot be prepared or not executed."""
    uuid = pod(host)
    c = Connection(host, uuid)
    stay = host.shell(STAY, name="example.com/stay")
    broken = host.image(["/nowhere"], name="example.com/broken")
    for n in NAMES[0], NAMES[4], NAMES[-1]:
        error, parameters = c.call("LaunchGroup", apps=group(stay, NAMES, **{n: "example.com/absent"}))
        equal(error, "AppRefused")
        contains(parameters["message"], "App %d of the group" % (NAMES.index(n) + 1))
        is_empty(host, uuid)
        error, parameters = c.call("LaunchGroup", apps=group(stay, NAMES, **{n: broken}))
        equal(error, "AppRefused")
        contains(parameters["message"], "App %s could not be started" % n)
        is_empty(host, uuid)
    equal(c.call("LaunchGroup", apps=group(stay, NAMES))["apps"], NAMES)
    host.acnspawn("stop", "p").expect(0)


@case
def a_failure_at_any_step_of_a_group_of_ten(host):
    """Whichever app it is: the message names it and the reason, and nothing of the group is kept."""
    uuid = pod(host)
    for name, exec in ("stay", ["/bin/sh", "-c", STAY]), ("broken", ["/nowhere"]), ("fails", ["/bin/false"]):
        host.acnspawn("fetch", host.image(exec, name="example.com/" + name)).expect(0)
    steps = {"image": ("example.com/absent", [], "example.com/absent"),
             "user": ("example.com/stay", ["--user=nosuch"], "nosuch"),
             "volume": ("example.com/stay", ["--volume=/nowhere/at/all:/v"], "/nowhere/at/all"),
             "root": ("example.com/stay", ["--volume=/etc:/bin/busybox/x"], "/bin/busybox/x"),
             "right": ("example.com/stay", ["--caps-retain=CAP_SYS_ADMIN"], "which pod p does not have"),
             "working directory": ("example.com/stay", ["--working-directory=/etc/passwd/x"], "/etc/passwd/x"),
             "exec": ("example.com/broken", [], "/nowhere"),
             "readiness": ("example.com/fails", ["--notify=true"], "exit status 1")}
    for step, (image, options, reason) in steps.items():
        for bad in NAMES[0], NAMES[4], NAMES[-1]:
            line = []
            for n in NAMES:
                line += ["---"] * bool(line) + [image if n == bad else "example.com/stay", "--name=" + n] + (options if n == bad else [])
            r = host.acnspawn("launch-group", "p", *line).expect(1)
            equal(r.out, "", step)
            true(re.search(r"\b%s\b|App %d of the group|example.com/absent" % (bad, NAMES.index(bad) + 1), r.err), "%s: %s" % (step, r.err))
            contains(r.err, reason, step)
            is_empty(host, uuid)
    # A unit that cannot be written.
    for kind in "service", "slice":
        for bad in NAMES[0], NAMES[4], NAMES[-1]:
            unit = "%s/root/acnspawn/units/app-%s.%s" % (host.pod_dir(uuid), bad, kind)
            os.mkdir(unit)
            line = [w for n in NAMES for w in ("---", "example.com/stay", "--name=" + n)][1:]
            r = host.acnspawn("launch-group", "p", *line).expect(1)
            contains(r.err, "App %d of the group: Cannot write the units of app %s: File exists" % (NAMES.index(bad) + 1, bad))
            os.rmdir(unit) # which a removal of units does not stop at
            is_empty(host, uuid)
    equal(host.acnspawn("launch-group", "p", *line).expect(0).out.split(), NAMES)
    host.acnspawn("stop", "p").expect(0)


def manifest(image, names, **more):
    """A group as a file has it; MORE are members of each app."""
    return json.dumps({"acKind": "PodManifest", "acVersion": "0.8.11",
                       "apps": [dict({"name": n, "image": {"name": image}}, **more) for n in names]})


@case
def groups_are_launched_by_a_command(host):
    """From the command line, a file and standard input, with volumes that its apps share."""
    uuid = pod(host)
    stay = host.shell(STAY, name="example.com/stay")
    host.acnspawn("fetch", stay).expect(0)
    r = host.acnspawn("launch-group", "p", "example.com/stay", "--name=a", "--memory=64M", "---", stay, "--name=b",
                      "--exec=/bin/sh", "--", "-c", STAY)
    equal(r.out, "a\nb\n")
    # Where no pod has the controller of it, --memory= is warned of.
    equal(re.sub("^Warning: resource/memory of app a will be ignored: this host has no .*\n", "", r.err), "")
    text = json.loads(manifest("example.com/stay", ["c", "d"]))
    text["volumes"] = [{"name": "shared", "kind": "empty"}]
    for app in text["apps"]:
        app["mounts"] = [{"volume": "shared", "path": "/out"}]
    with open(host.path("group.json"), "w") as f:
        json.dump(text, f)
    equal(host.acnspawn("launch-group", "p", host.path("group.json")).expect(0).out, "c\nd\n")
    equal(host.acnspawn("launch-group", "p", "-", input=manifest("example.com/stay", ["e"]).encode()).expect(0).out, "e\n")
    equal({a["name"]: a["state"] for a in host.status("p")["apps"]}, dict.fromkeys("abcde", "running"))
    host.acnspawn("enter", "--app=c", "p", "touch", "/out/seen").expect(0)
    host.acnspawn("enter", "--app=d", "p", "test", "-e", "/out/seen").expect(0)
    host.acnspawn("stop", "p").expect(0)


@case
def an_app_object_of_a_file_changes_that_of_the_image(host):
    pod(host)
    image = host.shell("true", name="example.com/env", app={"environment": [{"name": "KEPT", "value": "1"}]})
    host.acnspawn("fetch", image).expect(0)
    app = {"exec": ["/bin/sh", "-c", "echo $KEPT $ADDED; id -u; pwd"], "user": "7", "group": "8", "workingDirectory": "/tmp",
           "environment": [{"name": "ADDED", "value": "2"}],
           "isolators": [{"name": "resource/memory", "value": {"limit": "32M"}}]}
    host.acnspawn("launch-group", "p", "-", input=manifest("example.com/env", ["a"], app=app).encode()).expect(0)
    host.acnspawn("wait", "p", "a").expect(0)
    equal(host.acnspawn("logs", "--app=a", "p").expect(0).out, "1 2\n7\n/tmp\n")
    host.acnspawn("stop", "p").expect(0)


@case
def what_a_command_refuses(host):
    """Nothing of the group stays; the message names the app, and why."""
    uuid = pod(host)
    stay = host.shell(STAY, name="example.com/stay")
    host.acnspawn("fetch", stay).expect(0)
    broken = host.image(["/nowhere"], name="example.com/broken")

    def refused(message, *line, status=1, **kwargs):
        r = host.acnspawn("launch-group", *line, **kwargs).expect(status)
        equal(r.out, "")
        contains(r.err, message)

    def by_file(message, text):
        refused(message, "p", "-", input=(text if isinstance(text, str) else json.dumps(text)).encode())

    refused("App b could not be started", "p", stay, "--name=a", "---", broken, "--name=b")
    refused("None of the 2 apps of the group was kept", "p", stay, "--name=a", "---", broken, "--name=b")
    refused("a", "p", stay, "--name=a", "---", stay, "--name=a")
    by_file("A group has at most 256 apps, and this one has 257", manifest("example.com/stay", ["g%d" % i for i in range(257)]))
    refused("needs a pod, and images or a file", "p", status=2)
    refused("needs a pod, and images or a file", "--fate=shared", "p", stay, status=2)
    refused("needs a pod", status=2)
    refused("An option of a pod cannot be given", "p", "--net=host", stay, status=2)
    refused("it is the last word", "p", "x.json", stay, status=2)
    refused("it is the last word", "p", "x.json", "--name=a", status=2)
    refused("x.json", "p", "x.json")
    refused("An option of a pod cannot be given", "p", "--user=7", "x.json", status=2)
    refused("it is the last word", "p", "x.json", "--", "a", status=2)
    by_file("Cannot use 'standard input'", "{")
    by_file("The group has no apps", manifest("example.com/stay", []))
    one = json.loads(manifest("example.com/stay", ["a"], app={"exec": ["/bin/true"], "user": "0", "group": "0"}))
    for member, value in (("eventHandlers", [{"name": "pre-start", "exec": ["/bin/true"]}]),
                          ("ports", [{"name": "www", "port": 80, "protocol": "tcp"}]),
                          ("mountPoints", [{"name": "data", "path": "/data"}])):
        changed = json.loads(json.dumps(one))
        changed["apps"][0]["app"][member] = value
        by_file("The app object of app a has '%s'" % member, changed)
    for member, value in (("isolators", [{"name": "resource/memory", "value": {"limit": "1G"}}]),
                          ("annotations", [{"name": "example.com/x", "value": "y"}]),
                          ("ports", [{"name": "www", "hostPort": 80}])):
        by_file("'%s' of a pod as a whole" % member, dict(one, **{member: value}))
    is_empty(host, uuid)
    host.acnspawn("stop", "p").expect(0)


ON_DEMAND = "trap 'exit 0' TERM; while [ ! -s /end ]; do sleep 0.05; done; exit $(cat /end)"


def end(host, app, status):
    host.acnspawn("enter", "--app=" + app, "p", "sh", "-c", "echo %d >/end" % status)


def states(host):
    return {a["name"]: a["state"] for a in host.status("p")["apps"]}


@case
def apps_that_share_their_fate_end_if_one_fails(host):
    """And neither if it ends in order, nor if it is stopped; other groups, and apps without one, stay."""
    pod(host)
    image = host.shell(ON_DEMAND, name="example.com/ends")
    host.acnspawn("fetch", image).expect(0)
    names = ["a", "b", "c", "d"]
    host.acnspawn("launch-group", "p", "--fate=shared", "-", input=manifest("example.com/ends", names).encode()).expect(0)
    host.acnspawn("launch-group", "p", "--fate=shared", "-", input=manifest("example.com/ends", ["x", "y"]).encode()).expect(0)
    host.acnspawn("launch-group", "p", "--fate=independent", image, "--name=z", "---", image, "--name=own",
                  "--fate-group=own").expect(0)
    end(host, "a", 0)
    host.acnspawn("wait", "p", "a").expect(0)
    host.acnspawn("stop-app", "p", "b").expect(0)
    equal(states(host), dict(dict.fromkeys("abcdxyz", "running"), a="ended", b="ended", own="running"))
    end(host, "c", 3)
    host.acnspawn("wait", "p", "c").expect(3)
    host.acnspawn("wait", "p", "d").expect(0)
    equal({n: s for n, s in states(host).items() if s == "running"}, dict.fromkeys(["x", "y", "z", "own"], "running"))
    host.acnspawn("start-app", "p", "d").expect(0)
    end(host, "y", 0)
    host.acnspawn("wait", "p", "y").expect(0)
    equal(states(host)["d"], "running")  # the failure of c is of earlier
    host.acnspawn("stop", "p").expect(0)


@case
def apps_of_a_new_pod_can_share_their_fate(host):
    image = host.shell(ON_DEMAND, name="example.com/ends")
    host.detach("--name=p", "--exit-policy=all", image, "--name=a", "--fate-group=g", "---", image, "--name=b", "--fate-group=g",
                "---", image, "--name=c")
    end(host, "b", 1)
    host.acnspawn("wait", "p", "a").expect(0)
    equal(states(host)["c"], "running")
    host.acnspawn("stop", "p").expect(0)
    host.acnspawn("wait", "p").expect(1)


@case
def transient_apps_do_not_end_the_pod(host):
    """Nor is their status that of the pod."""
    image = host.shell(ON_DEMAND, name="example.com/ends")
    uuid = host.detach("--name=p", "--exit-policy=any", image, "--name=a")
    host.acnspawn("launch-group", "p", image, "--name=job", "--exec=/bin/sh", "--transient=true", "--", "-c", "exit 7").expect(0)
    host.acnspawn("wait", "p", "job").expect(7)
    equal(states(host)["a"], "running")
    end(host, "a", 0)
    host.acnspawn("wait", "p").expect(0)

@case
def a_pod_that_is_stopped_while_a_group_is_launched(host):
    """At any moment: the client is told that the pod ends, or has a group; the pod ends, and has the group as a whole or not."""
    stay = host.shell(STAY, name="example.com/stay")
    host.acnspawn("fetch", stay).expect(0)
    text = manifest("example.com/stay", NAMES).encode()
    write = host.path("group.json")
    with open(write, "wb") as f:
        f.write(text)
    for delay in 0, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2:
        uuid = pod(host)
        p = host.start("launch-group", "p", write)
        time.sleep(delay)  # any moment
        host.acnspawn("stop", "p").expect(0)
        r = host.finish(p)
        equal(r.out.split(), NAMES if r.rc == 0 else [])
        if r.rc != 0:
            true(re.search(r"[Pp]od p (is about to end|has ended|ends|is not running)", r.err), r.err)
        contains(([], NAMES), [a["name"] for a in json.loads(host.acnspawn("cat-manifest", uuid).expect(0).out)["apps"]], "the apps")
        host.acnspawn("rm", "p").expect(0)
        equal(host.pods(), [])


@case
def calls_that_are_refused_have_no_effect(host):
    """Whatever a client of the interface sends."""
    uuid = pod(host)
    c = Connection(host, uuid)
    stay = host.shell(STAY, name="example.com/stay")
    host.acnspawn("fetch", stay).expect(0)
    one = {"definition": {"apps": [{"image": "example.com/stay", "name": "a"}]}}
    for apps in ([], [one] * 257, [{}], [{"definition": {}}], [{"definition": {"apps": []}}],
                 [one, {"definition": {"apps": one["definition"]["apps"] * 2}}],
                 [one, {"definition": {"apps": [{"image": "example.com/stay", "name": "../a"}]}}],
                 [one, {"definition": {"apps": [{"image": "example.com/stay", "name": "b", "settings": 7}]}}],
                 [dict(one, imageID="sha512-" + "0" * 128)], [dict(one, credentials=[{"name": "../x", "data": "00"}])],
                 [dict(one, ownerData="zz")]):
        reply = c.call("LaunchGroup", apps=apps)
        true(isinstance(reply, tuple), "%.80s: %s" % (apps, reply))
        is_empty(host, uuid)
    for parameters in {}, {"apps": 1}, {"apps": [1]}, {"apps": [one], "more": 1}:
        true(isinstance(c.call("LaunchGroup", **parameters), tuple), str(parameters))
        is_empty(host, uuid)
    equal(c.call("LaunchGroup", apps=[one])["apps"], ["a"])
    host.acnspawn("stop", "p").expect(0)


if __name__ == "__main__":
    main()
