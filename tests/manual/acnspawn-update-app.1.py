#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn-update-app(1), sentence by sentence."""

from manual import *

PAGE = page("acnspawn-update-app.1", "513ff759378da332")

STAY = "echo %s $A $(cat /v/word); echo %s >/v/word; touch /out/up; exec sleep 1000"


@once
def pod(host):
    """Of an app of the first of two images, which has a volume."""
    for n in "1", "2":
        host.acnspawn("fetch", host.shell(STAY % (n, n), name="example.com/web" + n, app={"mountPoints": [{"name": "v", "path": "/v"}]})).expect(0)
    uuid = host.detach("--name=shop", "--exit-policy=never", "--volume=v,kind=empty", "example.com/web1", "--name=web", "--environment=A=kept", "--tasks-max=100", "---",
                       base(host), "--name=idle")
    host.wait_up("web", uuid)
    return uuid


def shown(host, name):
    return host.app_status("shop", name)


@sentence("DESCRIPTION", "Changes limits of an app of a running pod, or its image, or both.")
@sentence("EXIT STATUS", "0 if all was done; 1 if anything failed, with a message; 2 if the command line is not valid.")
def command_lines(host):
    pod(host)
    for words in ["shop", "web"], ["--memory=64Mi", "shop"], ["--cpu-shares=1", "shop", "web"], ["--cpu-shares=262145", "shop", "web"], ["--volume=v:/x", "shop", "web"]:
        equal(host.acnspawn("update-app", *words).rc, 2, str(words))
    for words in ["--tasks-max=50", "shop", "nothing"], ["--tasks-max=50", "nothing", "web"], ["--image=" + host.path("missing.aci"), "shop", "web"]:
        r = host.acnspawn("update-app", *words).expect(1)
        true(r.err.startswith("Error: "), r.err)


@sentence("DESCRIPTION", "With --image= the app is replaced by one of another image, as follows:")
@sentence("DESCRIPTION", "The new app replaces it, with a new root, and is started if the old one was running.")
@sentence("DESCRIPTION", "An app that has the image already is not changed.")
@sentence("DESCRIPTION", "Settings of the command line or of the pod manifest stay: its name, command and arguments, user and groups, working "
                         "directory, environment, isolators and limits")
@sentence("DESCRIPTION", "Volumes stay with their content.")
@sentence("DESCRIPTION", "Everything else is decided by the new image: the command, where none was given")
def an_image_is_replaced(host):
    pod(host)
    before = [i for i in host.status("shop")["isolators"] if i["app"] == "web"]
    marked = lambda: host.acnspawn("enter", "--app=web", "shop", "test", "-e", "/mark").rc == 0
    for image, anew in ("example.com/web1", False), ("example.com/web2", True), ("example.com/web1", True):
        host.acnspawn("enter", "--app=web", "shop", "touch", "/mark").expect(0)
        host.acnspawn("update-app", "--image=" + image, "shop", "web").expect(0)
        equal((shown(host, "web")["imageName"], shown(host, "web")["state"], marked()), (image, "running", not anew))
        equal([i for i in host.status("shop")["isolators"] if i["app"] == "web"], before)
        wait_for(lambda: host.acnspawn("enter", "--app=web", "shop", "cat", "/v/word").out == image[-1] + "\n", "that the app has written its word")
    wait_for(lambda: host.acnspawn("logs", "--app=web", "shop").out.splitlines() == ["1 kept", "2 kept 1", "1 kept 2"], "what the apps have found")


@sentence("DESCRIPTION", "An app that has ended, or was not started, is replaced without being started.")
def an_app_that_has_ended(host):
    pod(host)
    host.acnspawn("wait", "shop", "idle").expect(0)
    host.acnspawn("update-app", "--image=" + host.image(name="example.com/other"), "shop", "idle").expect(0)
    equal((shown(host, "idle")["imageName"], shown(host, "idle")["state"]), ("example.com/other", "waiting"))


@sentence("OPTIONS", "Go back to the old image unless the new app is executed, and ready if it reports that, within TIME after it was started.")
@sentence("DESCRIPTION", "it is stopped and removed, and the old app is put back and started again, in the root that it had. The command fails "
                         "then, and says why.")
def the_old_app_comes_back(host):
    pod(host)
    host.acnspawn("add-app", "shop", "--start", *app(host, "ready", "touch /mark; exec sleep 1000", "--health-cmd=test -e /mark")).expect(0)
    for name, image in ("web", host.image(["/no/such"], name="example.com/bad")), ("ready", host.image(name="example.com/broken", files={"bin/sh": File("", 0o755)})):
        host.acnspawn("enter", "--app=" + name, "shop", "touch", "/left").expect(0)
        before = shown(host, name)["imageName"]
        contains(host.acnspawn("update-app", "--image=" + image, "--ready-timeout=20s", "shop", name).expect(1).err, name)
        equal((shown(host, name)["imageName"], shown(host, name)["state"]), (before, "running"))
        host.acnspawn("enter", "--app=" + name, "shop", "test", "-e", "/left").expect(0)


@sentence("OPTIONS", "It is also what acnspawn run --images=resolve resolves later on.")
def what_is_resolved_later(host):
    uuid = host.detach("--name=later", "--exit-policy=never", pod(host) and "example.com/web1", "--name=web")
    host.acnspawn("update-app", "--image=example.com/web2", "later", "web").expect(0)
    host.acnspawn("stop", "--force", uuid).expect(0)
    for words in ["--images=pinned"], ["--images=resolve"]:
        host.acnspawn("run", "--detach", *words, "later").expect(0)
        equal(host.app_status("later", "web")["imageName"], "example.com/web2")
        host.acnspawn("stop", "--force", "later").expect(0)


elsewhere(
    ("DESCRIPTION", "Other settings, and the other apps, are not affected.", "live-update/an_app_is_replaced_and_the_others_never_notice"),
    ("DESCRIPTION", "They also apply to later starts of the app, and to pods that acnspawn run makes of this one when it has ended.",
     "live-update/a_successor_has_the_apps_of_the_end"),
    ("DESCRIPTION", "Limits are in force when the command returns.", "interface-limits/processes_are_limited_while_the_app_runs"),
    ("DESCRIPTION", "kernel reclaims memory, and kills processes of the app if that does not suffice",
     "vm/limits/limits_are_changed_while_the_app_runs"),
    ("DESCRIPTION", "existing processes and threads beyond --tasks-max= continue, but no new ones can be created.",
     "interface-limits/processes_are_limited_while_the_app_runs"),
    ("DESCRIPTION", "A limit that this host has no cgroup controller for is refused, and then nothing is changed.",
     "interface-limits/limits_without_a_controller_are_refused_and_nothing_changes"),
    ("DESCRIPTION", "If it cannot be prepared, it is refused as by add-app, and nothing is changed.",
     "live-update/what_is_refused_leaves_the_app_alone"),
    ("DESCRIPTION", "If the old app runs, it is stopped in order, with its post-stop handler.",
     "live-update/an_app_is_replaced_and_the_others_never_notice"),
    ("DESCRIPTION", "If it is not executed", "live-update/an_app_that_cannot_be_executed_gives_way_to_the_old_one"),
    ("DESCRIPTION", "or not ready in time", "live-update/an_app_that_is_not_ready_in_time_gives_way_to_the_old_one"),
    ("DESCRIPTION", "If the connection to the pod's systemd is lost meanwhile, as when that executes itself again, this goes on as soon as it is "
                    "there again.", "live-update/a_replacement_goes_on_whenever_the_connection_is_lost"),
    ("DESCRIPTION", "credentials, mounts", "live-update/volumes_and_credentials_stay"),
    ("DESCRIPTION", "An app object in a pod manifest replaces the image's app as a whole, also that of the new image.",
     "live-update/a_successor_of_a_pod_manifest_has_the_apps_of_the_end"),
    ("DESCRIPTION", "if it lacks a port of the app that the pod exposes on the host, or has another number for it",
     "live-update/ports_that_are_exposed_stay"),
    ("DESCRIPTION", "Socket-activated ports that both apps have stay open: no connection is refused, and those that are made meanwhile are served by "
                    "the new app.", "live-sockets/no_connection_is_refused_while_an_app_is_replaced"),
    ("DESCRIPTION", "acnspawn monitor shows the steps: being replaced, replaced, rolled back.",
     "live-update/an_app_is_replaced_and_the_others_never_notice"),
    ("DESCRIPTION", "The change is made by the supervisor, and continues if the command is interrupted",
     "live-update/a_client_that_is_killed_does_not_matter"),
    ("OPTIONS", "The memory of the app, without swap", "vm/limits/the_swap_of_an_image_is_not_that_of_a_changed_limit"),
    ("OPTIONS", "The number of processes and threads of the app, or infinity.", "interface-limits/processes_are_limited_while_the_app_runs"),
    ("EXAMPLES", "acnspawn update-app --memory=512Mi --cpu=infinity shop web", "vm/limits/limits_are_changed_while_the_app_runs"),
    ("DESCRIPTION", "if add-app would refuse it: with capabilities that the pod does not have, or with kernel parameters",
     "live-update/what_is_refused_leaves_the_app_alone"),
    ("DESCRIPTION", "with a socket-activated port that another app of the pod has.", "live-sockets/ports_come_and_go_with_the_image"),
)

main()
