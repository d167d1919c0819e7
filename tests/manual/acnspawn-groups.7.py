#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn-groups(7), sentence by sentence."""

from manual import *

PAGE = page("acnspawn-groups.7", "d71aed5ca5b5a7ec")


@once
def pod(host):
    host.acnspawn("fetch", host.shell("touch /out/up; exec sleep 1000", name="example.com/web")).expect(0)
    return host.detach("--exit-policy=never", "--name=shop", "--volume=data,kind=empty,nested=true", "example.com/web", "--name=web", "--mount=volume=data,target=/data")


def call(host, *args, rc=0):
    pod(host)
    return host.acnspawn(*args).expect(rc)


def states(host):
    return {a["name"]: a["state"] for a in host.status(pod(host))["apps"]}


@sentence("NESTED APPS", 'A nested app is named by its path: the names of the apps above it and its own, with "/" between, as in web/helper/probe. Its own name is unique among those under the same '
                         "parent.")
@sentence("NESTED APPS", "All commands for apps take paths: start-app, stop-app, restart-app, rm-app, wait, kill --app=, enter --app=, attach, logs --app=, cp and stats.")
@sentence("Life", "A nested app can be started while its parent runs.")
@sentence("Life", "It stays down when the parent is started again. The end of a nested app has no effect on the pod, nor on its parent.")
@sentence("Life", "the removal of an app removes all that is nested under it.")
def commands_take_paths(host):
    host.wait_up("web", pod(host))
    call(host, "add-app", "shop", "--parent=web", "example.com/web", "--name=helper", rc=0)
    call(host, "start-app", "shop", "web/helper")
    call(host, "add-app", "shop", "--parent=web", "example.com/web", "--name=helper", rc=1)
    equal(call(host, "launch", "shop", "--parent=web/helper", "example.com/web", "--name=probe").out, "web/helper/probe\n")
    equal(call(host, "enter", "--app=web/helper/probe", "shop", "echo", "x").out, "x\n")
    call(host, "cp", "/etc/hostname", "shop:web/helper/probe:/tmp/x")
    call(host, "logs", "--app=web/helper/probe", "shop")
    call(host, "restart-app", "shop", "web/helper/probe")
    contains(call(host, "stats", "shop").out, "probe")
    call(host, "kill", "--app=web/helper/probe", "shop")
    call(host, "wait", "shop", "web/helper/probe", rc=143)
    equal((states(host)["web"], states(host)["web/helper"]), ("running", "running"))
    call(host, "stop-app", "shop", "web/helper")
    call(host, "start-app", "shop", "web/helper")
    equal(states(host)["web/helper/probe"], "ended")
    call(host, "rm-app", "--force", "shop", "web/helper")
    equal(set(states(host)), {"web"})


@sentence("Volumes and roots", "A volume with nested=true (--volume=NAME,kind=empty,nested=true) that the parent mounts is mounted at the same path in the apps under it,")
@sentence("Volumes and roots", "An app whose image is given as @parent has the image of its parent as its root, read-only, without an image of its own:")
@sentence("EXAMPLES", "acnspawn launch shop --parent=web example.com/backup --name=backup acnspawn wait shop web/backup acnspawn logs --app=web/backup shop acnspawn rm-app shop web/backup")
def volumes_and_roots(host):
    call(host, "enter", "--app=web", "shop", "sh", "-c", "echo shared >/data/file")
    host.acnspawn("fetch", host.shell("cat /data/file", name="example.com/backup")).expect(0)
    call(host, "launch", "shop", "--parent=web", "example.com/backup", "--name=backup")
    call(host, "wait", "shop", "web/backup")
    wait_for(lambda: call(host, "logs", "--app=web/backup", "shop").out == "shared\n", "the line in the journal")
    call(host, "rm-app", "shop", "web/backup")
    call(host, "launch", "shop", "--parent=web", "@parent", "--name=looks", "--exec=/bin/sh", "--", "-c", "touch /x || exit 3")
    call(host, "wait", "shop", "web/looks", rc=3)
    call(host, "rm-app", "shop", "web/looks")


@sentence("Rights", "what it says is compared, and the app is refused if it is more, with a message that names the field:")
@sentence("Rights", "It cannot be started by connections, nor set kernel parameters.")
@sentence("Resources", "With --share-cgroups=true, the default, there are no other limits, and those of options or images are refused.")
def rights(host):
    for words, field in (["--caps-retain=CAP_SYS_ADMIN"], "CAP_SYS_ADMIN"), (["--memory=1Mi"], "memory"):
        contains(call(host, "launch", "shop", "--parent=web", "example.com/web", "--name=more", *words, rc=1).err, field)
    true("web/more" not in states(host), "it is there")


elsewhere(
    ("GROUPS", "acnspawn launch-group makes and checks everything that the apps of a group need before the first of them is started.", "groups/if_one_app_of_a_group_fails_none_is_kept"),
    ("GROUPS", "If one cannot be made, or its program cannot be executed, nothing of the group stays in the pod, and the message names the app and the reason.",
     "groups/a_failure_at_any_step_of_a_group_of_ten"),
    ("GROUPS", "With --fate=shared the apps end together if one of them fails.", "groups/apps_that_share_their_fate_end_if_one_fails"),
    ("GROUPS", "Apps with --transient=true have no effect on the pod when they end.", "groups/transient_apps_do_not_end_the_pod"),
    ("NESTED APPS", "An app can be nested under a nested one, to level 32, where apps of the pod itself are level 1.", "nested/apps_can_be_nested_to_level_32"),
    ("Life", "When the parent ends, by itself, by a command, or to be restarted, all that is nested under it is stopped: an app before its parent,", "nested/the_end_of_a_parent_ends_what_is_below_it"),
    ("Rights", "No nested app has more rights than its parent.", "nested/a_nested_app_has_no_more_rights_than_its_parent"),
    ("Rights", "user and groups, if the parent does not run as root, or has no CAP_SETUID and CAP_SETGID: the same, in another image by number;",
     "nested/root_without_capabilities_has_its_identity_only"),
    ("Rights", "Nested apps of a pod manifest are compared in the same way when the pod is prepared; all volumes are the pod's there.",
     "nested/nested_apps_of_a_pod_manifest_are_bounded_as_others"),
    ("Resources", "The cgroup of a nested app is below that of its parent, so that the limits of the parent hold for both together.", "nested/its_cgroup_is_below_that_of_its_parent"),
    ("Resources", "Apps with the same parent are alike in this.", "nested/apps_beside_each_other_are_alike_in_sharing_cgroups"),
    ("TASKS", "acnspawn run --executor runs a pod that begins without apps, waits for the first, and ends when all that were launched have ended,",
     "nested/an_executor_ends_with_its_tasks"),
    ("TASKS", "LOST How it has ended is not known, as the pod was killed (pod-killed) or the host went away;", "nested/tasks_of_an_executor_that_ends"),
    ("APPS THAT LAUNCH OTHERS", "An app with --control=true can launch apps that are nested under it, at any level, and control those:", "containers/an_app_launches_others_under_it"),
    ("APPS THAT LAUNCH OTHERS", "Both are for the user of the app alone.", "containers/it_has_the_rights_of_its_parent"),
    ("APPS THAT LAUNCH OTHERS", "other images than its own and that of its parent have to be in the store, and are those that the operator has named by --control-images=.",
     "containers/other_images_take_the_word_of_the_operator"),
    ("APPS THAT LAUNCH OTHERS", "and when the client disconnects, the app is stopped.", "containers-input/an_app_ends_with_its_session"),
    ("APPS THAT LAUNCH OTHERS", "The end of the request, or of the connection, is the end of the input, unless that is a terminal; so is a record without data.",
     "containers-input/input_is_passed_on_until_it_ends"),
    ("APPS THAT LAUNCH OTHERS", "A client has to wait while the app does not read.", "containers-input/an_app_that_does_not_read_keeps_the_client_waiting"),
    ("APPS THAT LAUNCH OTHERS", "What is beyond gets 429, with the header Retry-After.", "containers-hostile/a_flood_of_calls_is_answered_with_429"),
    ("APPS THAT LAUNCH OTHERS", "A client that sends nothing for 15 seconds within a request, or between two, loses its connection.", "containers-hostile/slow_clients_lose_their_connections"),
    ("APPS THAT LAUNCH OTHERS", "503 while the pod is paused or ends.", "containers-hostile/a_paused_pod_answers_503"),
    ("Groups of tasks", "What cannot be honoured is refused, all fields at once and each by its place.", "nested/what_an_executor_refuses"),
    ("Groups of tasks", "acnspawn launch-group takes a file, or standard input, with a TaskGroupInfo as JSON of Mesos' v1 API: an object with tasks.", "nested/tasks_of_mesos_are_launched"),
)

main()
