#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn-add-app(1), sentence by sentence: add-app, launch, launch-group and rm-app."""

from manual import *

PAGE = page("acnspawn-add-app.1", "494dcdc718731c97")


@once
def image(host):
    return host.shell("trap 'exit 0' TERM; echo said; echo words >/out/up; while ! test -e /out/end; do sleep 0.05; test ! -e /out/fail || exit 9; done", name="example.com/job",
                      app={"environment": [{"name": "I", "value": "image"}]})


@once
def box(host):
    return host.detach("--exit-policy=never", "--name=box")


def verb(host, *args, **more):
    box(host)
    return host.acnspawn(*args, **more)


def apps(host):
    return {a["name"]: a["state"] for a in host.status(box(host))["apps"]}


def up(host, app):
    host.wait_up(app, box(host))


@sentence("add-app", "Fetches the image if it is not in the store, adds its app to a running pod, and prints the name of the app.")
@sentence("add-app", "The app is created, and not started yet: acnspawn start-app starts it.")
@sentence("rm-app", "Removes apps that have ended, or were not started, with all that they have written,")
@sentence("rm-app", "Their logs stay in the journal of the pod until the pod is removed: journalctl --merge shows them there, acnspawn logs those of apps that the pod has.")
@sentence("rm-app", "Afterwards the name can be used again.")
def an_app_is_added_started_and_removed(host):
    equal(verb(host, "add-app", "box", image(host)).expect(0).out, "job\n")
    contains(host.acnspawn("image", "list").expect(0).out, "example.com/job")
    verb(host, "rm-app", "box", "job").expect(0)
    equal(verb(host, "add-app", "box", image(host)).expect(0).out, "job\n")
    true(apps(host)["job"] not in ("running", "ended"), "state %s" % apps(host)["job"])
    verb(host, "start-app", "box", "job").expect(0)
    equal(apps(host)["job"], "running")
    up(host, "job")
    verb(host, "rm-app", "box", "job").expect(1)
    verb(host, "stop-app", "box", "job").expect(0)
    verb(host, "rm-app", "box", "job").expect(0)
    true("job" not in apps(host) and not os.path.exists(host.pod_dir(box(host)) + "/apps/job"), "the app is there")
    lacks(verb(host, "logs", "box").expect(0).out, "said\n")
    journal = [root for root, _, files in os.walk(host.pod_dir(box(host))) if any(f.endswith(".journal") for f in files)][0]
    r = subprocess.run(["journalctl", "--directory=" + journal, "--output=cat", "--identifier=job"], stdout=subprocess.PIPE, check=True, text=True)
    contains(r.stdout, "said\n")


@sentence("add-app", "The options for fetching the image stand before it, the options of the app after it; both are those of acnspawn-prepare(1).")
@sentence("add-app", "with kernel parameters, which are set before the first app of a pod starts;")
@sentence("add-app", "Options of a pod as a whole, such as networks and ports, are settled when the pod is prepared.")
def options_stand_where_they_belong(host):
    verb(host, "add-app", "box", "--pull-policy=never", image(host), "--name=placed", "--environment=A=1").expect(0)
    verb(host, "rm-app", "box", "placed").expect(0)
    verb(host, "add-app", "box", image(host), "--pull-policy=never").expect(2)
    verb(host, "add-app", "box", "--environment=A=1", image(host)).expect(2)
    for option in "--sysctl=kernel.msgmax=777", "--net=host", "--port=web:80", "--hostname=x":
        verb(host, "add-app", "box", option, image(host)).expect(2)


@sentence("add-app", "Refused is an app • with the name of another app of the pod;")
@sentence("add-app", "with a capability that the pod does not have: it has those of the apps that it was prepared with, and those declared for a pod with "
                     "--exit-policy=never;")
@sentence("add-app", "When the command fails, nothing of the app is left.")
def what_is_refused(host):
    verb(host, "add-app", "box", image(host), "--name=twice").expect(0)
    contains(verb(host, "add-app", "box", image(host), "--name=twice").expect(1).err, "twice")
    err = verb(host, "add-app", "box", image(host), "--name=rights", "--caps-retain=CAP_SYS_ADMIN").expect(1).err
    contains(err, "CAP_SYS_ADMIN")
    true("rights" not in apps(host) and not os.path.exists(host.pod_dir(box(host)) + "/apps/rights"), "something of the app is left")
    verb(host, "rm-app", "box", "twice").expect(0)


@sentence("add-app", "--start Start the app as well, as start-app does. If that fails, the app stays in the pod.")
@sentence("launch", "Adds an app and starts it, as a group of one: if its program cannot be executed, it does not stay.")
def an_app_is_started_as_well(host):
    equal(verb(host, "add-app", "box", "--start", image(host), "--name=one").expect(0).out, "one\n")
    equal(apps(host)["one"], "running")
    verb(host, "add-app", "box", "--start", image(host), "--name=broken", "--exec=/nothing").expect(1)
    true("broken" in apps(host), "the app stays")
    equal(verb(host, "launch", "box", image(host), "--name=two").expect(0).out, "two\n")
    equal(apps(host)["two"], "running")
    verb(host, "launch", "box", image(host), "--name=gone", "--exec=/nothing").expect(1)
    true("gone" not in apps(host), "the app stays")
    verb(host, "rm-app", "--force", "box", "one", "two", "broken").expect(0)


@sentence("add-app", "--parent=APP Nest the app under APP, which may be nested itself. It is named by its path, APP/NAME, in all commands;")
@sentence("add-app", "The image @parent is the image of the parent, as a root that is read-only.")
@sentence("launch", "--parent=APP Nest the app under APP, as with add-app.")
@sentence("launch-group", "--parent=APP Nest the apps of the group under APP, as with add-app.")
@sentence("rm-app", "and the apps that are nested under them.")
def apps_are_nested(host):
    verb(host, "launch", "box", image(host), "--name=top").expect(0)
    up(host, "top")
    equal(verb(host, "add-app", "box", "--parent=top", "--start", image(host), "--name=a").expect(0).out, "top/a\n")
    equal(verb(host, "launch", "box", "--parent=top/a", image(host), "--name=b").expect(0).out, "top/a/b\n")
    r = verb(host, "launch-group", "box", "--parent=top", "@parent", "--exec=/bin/sh", "--name=c", "--", "-c", "touch /file; sleep 1000").expect(0)
    equal(r.out, "top/c\n")
    verb(host, "enter", "--app=top/c", "box", "touch", "/file").expect(1)
    equal({n for n in apps(host) if n.startswith("top")}, {"top", "top/a", "top/a/b", "top/c"})
    verb(host, "rm-app", "--force", "box", "top").expect(0)
    equal({n for n in apps(host) if n.startswith("top")}, set())


@sentence("launch-group", "Adds the apps of a group to a running pod, starts them, and prints their names: all, or none.")
@sentence("launch-group", "If the program of one cannot be executed, or one that has --notify=true or a health check is not ready within its --start-timeout=, "
                          "all are stopped and removed again. The message names the app, and why.")
@sentence("launch-group", "What is refused for add-app is refused here as well.")
def a_group_as_a_whole_or_not(host):
    equal(verb(host, "launch-group", "box", image(host), "--name=one", "---", image(host), "--name=two").expect(0).out, "one\ntwo\n")
    equal((apps(host)["one"], apps(host)["two"]), ("running", "running"))
    for words in ("--exec=/nothing",), ("--notify=true", "--start-timeout=200ms"), ("--caps-retain=CAP_SYS_ADMIN",):
        contains(verb(host, "launch-group", "box", image(host), "--name=good", "---", image(host), "--name=bad", *words).expect(1).err, "bad")
        true(not {"good", "bad"} & set(apps(host)), "apps that stay: %s" % apps(host))
    verb(host, "rm-app", "--force", "box", "one", "two").expect(0)


@sentence("launch-group", "or of a FILE whose name ends with .json, or of standard input (-): the apps and volumes of a pod manifest")
@sentence("launch-group", "An app object there changes that of the image: it can have exec, user, group, supplementaryGIDs, workingDirectory, environment "
                          "(added to the image's), isolators, userAnnotations and userLabels.")
@sentence("launch-group", "Members of the manifest that are for a pod as a whole are refused.")
def a_group_of_a_file(host):
    host.acnspawn("fetch", image(host)).expect(0)
    app = {"exec": ["/bin/sh", "-c", "echo $I $F $PWD $(id -u) >/out/file; touch /out/up; sleep 1000"], "user": "1000", "group": "1000", "workingDirectory": "/tmp",
           "environment": [{"name": "F", "value": "file"}], "userAnnotations": {"a": "b"}}
    group = {"acVersion": "0.8.11", "acKind": "PodManifest", "apps": [{"name": "filed", "image": {"name": "example.com/job"}, "app": app}]}
    with open(host.path("group.json"), "w") as f:
        json.dump(group, f)
    for word, more in (host.path("group.json"), {}), ("-", {"input": json.dumps(group).encode()}):
        equal(verb(host, "launch-group", "box", word, **more).expect(0).out, "filed\n")
        up(host, "filed")
        equal(verb(host, "enter", "--app=filed", "box", "cat", "/out/file").expect(0).out, "image file /tmp 1000\n")
        verb(host, "rm-app", "--force", "box", "filed").expect(0)
    group["ports"] = [{"name": "p", "hostPort": 1}]
    contains(verb(host, "launch-group", "box", "-", input=json.dumps(group).encode()).expect(1).err, "ports")


@sentence("launch-group", "With shared, if one app of the group fails, the others are stopped, as with --fate-group= of acnspawn-prepare(1), which an app can have "
                          "for itself. By default an app ends alone.")
def the_fate_of_a_group(host):
    for fate, states in ((), "running"), (("--fate=shared",), "ended"):
        verb(host, "launch-group", "box", *fate, image(host), "--name=stays", "---", image(host), "--name=fails").expect(0)
        up(host, "stays")
        up(host, "fails")
        verb(host, "enter", "--app=fails", "box", "touch", "/out/fail").expect(0)
        verb(host, "wait", "box", "fails").expect(9)
        if fate:
            verb(host, "wait", "box", "stays")
        equal((apps(host)["fails"], apps(host)["stays"]), ("ended", states))
        verb(host, "rm-app", "--force", "box", "stays", "fails").expect(0)


@sentence("rm-app", "-f, --force Stop an app that is running first, as stop-app does.")
@sentence("rm-app", "-t TIME, --timeout=TIME With --force, kill an app that has not ended in order after TIME.")
def a_running_app_is_stopped_first(host):
    verb(host, "launch", "box", image(host), "--name=deaf", "--exec=/bin/sh", "--", "-c", "trap '' TERM; touch /out/up; while :; do sleep 0.1; done").expect(0)
    up(host, "deaf")
    with within(8, "the removal"):
        verb(host, "rm-app", "-f", "-t", "200ms", "box", "deaf").expect(0)
    verb(host, "rm-app", "--timeout=1s", "box", "deaf").expect(2)


@sentence("EXIT STATUS", "0 if all was done; 1 if anything failed, with a message; 2 if the command line is not valid.")
def the_status(host):
    contains(verb(host, "rm-app", "box", "nobody").expect(1).err, "nobody")
    for words in ("rm-app", "box"), ("add-app", "box"), ("launch",), ("launch-group", "box", "--fate=x", "y"):
        verb(host, *words).expect(2)


@sentence("EXAMPLES", "acnspawn run --detach --exit-policy=never --name=box acnspawn add-app box --start example.com/job --name=job acnspawn wait box job "
                      "acnspawn rm-app box job acnspawn launch-group box example.com/one --- example.com/two "
                      "acnspawn launch-group box --parent=one @parent --exec=/bin/df")
def the_examples(host):
    for name in "one", "two":
        host.acnspawn("fetch", host.shell("sleep 1000", name="example.com/" + name)).expect(0)
    host.acnspawn("fetch", image(host)).expect(0)
    for line in PAGE.examples("acnspawn"):
        words = line.replace("box", "example").split()[1:]
        if words[0] == "wait":
            verb(host, "enter", "--app=job", "example", "touch", "/out/end").expect(0)
        verb(host, *words).expect(0)
    verb(host, "stop", "--force", "example").expect(0)


elsewhere(
    ("add-app", "It uses the pod's network, user namespace and volumes.", "live-apps/an_app_is_added_started_stopped_and_removed"),
    ("add-app", "with a socket-activated port that another app has, or whose number is in use in the network of the pod.", "live-sockets/ports_that_are_taken"),
    ("add-app", "An app with socket-activated ports listens on them from then on and until it is removed, and is started by connections;",
     "live-sockets/an_added_app_is_started_by_a_connection"),
    ("add-app", "The end of an app that was added counts for the exit policy as that of the others.", "live-sockets/what_listens_keeps_the_pod"),
    ("add-app", "acnspawn run of the ended pod starts it with the apps that it had at its end, unless --apps=prepared is given.",
     "live-update/a_successor_has_the_apps_of_the_end"),
    ("add-app", "has no more rights than its parent;", "nested/a_nested_app_has_no_more_rights_than_its_parent"),
    ("add-app", "and is stopped when its parent ends.", "nested/the_end_of_a_parent_ends_what_is_below_it"),
    ("launch-group", "while a group is launched its apps do not count for the exit policy, and the pod on disk does not have them, whatever is killed meanwhile.",
     "groups-crash/the_supervisor_is_killed"),
    ("launch-group", "A launch is also undone when the command ends early, for example by Ctrl-C, and when one of its apps is removed with rm-app --force.",
     "groups-crash/the_client_is_killed"),
    ("launch-group", "The file can also be a group of tasks of Mesos", "nested/tasks_of_mesos_are_launched"),
    ("launch-group", "In both cases the end of an app counts for the exit policy of the pod, unless the app has --transient=true.",
     "groups/transient_apps_do_not_end_the_pod"),
    ("rm-app", "Volumes that came with an app (add-app with mount points of the image) are removed with it unless another app mounts them.",
     "live-apps/a_mount_point_without_a_volume_gets_one_that_goes_with_the_app"),
    ("rm-app", "If that cannot be written, as on a full disk, the command fails, but the app is removed from the running pod all the same; its files follow as soon "
               "as it could be written. Until then no app can be added or replaced.", "live-apps/changes_that_cannot_be_written_do_not_hinder_later_ones"),
    ("rm-app", "Connections do not start it again before it is removed.", "live-sockets/an_app_that_is_asked_all_the_time_can_be_removed"),
)

main()
