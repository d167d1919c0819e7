#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn-pods(7), sentence by sentence."""

from manual import *

PAGE = page("acnspawn-pods.7", "1e013a098d2c18b1")


def manifest(host, uuid):
    return json.loads(host.acnspawn("cat-manifest", uuid).expect(0).out)


def place(host, uuid):
    """The state that the directory of a pod stands for."""
    return os.path.basename(os.path.dirname(host.pod_dir(uuid)))


@sentence("STATES OF A POD", "prepared Its manifest is complete; nothing is mounted and no process runs. running It is run by a process that holds "
                             "the lock of its directory.")
@sentence("STATES OF A POD", "Logs and statuses are kept until the pod is removed. It can be run again, as another pod")
@sentence("STATES OF A POD", "The state is determined by the location of the pod's directory, together with a lock that the kernel releases when "
                             "its holder dies.")
@sentence("Running a pod again", "The definition of a pod is recorded when it is prepared, in the file definition of its directory, including "
                                 "arguments and environment.")
@sentence("INTERFACE", "on the socket interface in the pod's directory")
def states_of_a_pod(host):
    uuid = host.prepare("--name=web", "--environment=A=recorded", *app(host, "a", "echo $A; exec sleep 1000"))
    equal((host.state(uuid), place(host, uuid)), ("prepared", "prepared"))
    contains(read_text(os.path.join(host.pod_dir(uuid), "definition")), "recorded")
    host.acnspawn("run", "--detach", uuid).expect(0)
    equal((host.state(uuid), place(host, uuid), os.stat(os.path.join(host.pod_dir(uuid), "interface")).st_mode & 0o7777), ("running", "running", 0o600))
    wait_for(lambda: host.acnspawn("logs", uuid).out == "recorded\n", "the output")
    os.kill(host.supervisor(uuid), 9)
    wait_for(lambda: host.state(uuid) == "exited", "the end of its process")
    equal(host.acnspawn("logs", uuid).out, "recorded\n")
    second = host.acnspawn("run", "--detach", "web").expect(0).out.strip()
    equal((host.status("web")["uuid"], host.status("web")["predecessor"], host.status(uuid)["successor"]), (second, uuid, second))
    host.acnspawn("stop", "--force", "web").expect(0)


@sentence("VOLUMES", "Volumes are defined for the pod, before the first image, and mounted in all apps there, or in one app after its image: # "
                     "acnspawn run --volume=content,kind=empty,mode=1777 \\ web.aci --mount=content:/srv:ro \\ --- sync.aci "
                     "--mount=volume=content,target=/data")
def the_example_of_volumes(host):
    sync = "echo words >/data/file; while ! test -e /data/file.seen; do touch /data/file.seen; done"
    r = host.acnspawn("run", "--rm", "--volume=content,kind=empty,mode=1777", *together(
        app(host, "web", "while ! test -e /srv/file.seen; do sleep 0.02; done; cat /srv/file; touch /srv/x 2>/dev/null || echo refused", "--mount=content:/srv:ro"),
        app(host, "sync", sync, "--mount=volume=content,target=/data"))).expect(0)
    equal([line.split()[-1] for line in r.out.splitlines()], ["words", "refused"])


@sentence("VOLUMES", "--volume=cache,kind=tmpfs,size=64Mi,nr_inodes=10k,mode=0700,uid=33")
@sentence("VOLUMES", "--volume=data,kind=named,source=db-data,mode=0700,uid=33")
@sentence("VOLUMES", "In the pod manifest it is an empty volume with the annotation acnspawn/volume/NAME of the pod, whose value has kind=tmpfs and "
                     "the limits")
@sentence("VOLUMES", "In the pod manifest it is an empty volume with an annotation whose value has kind=named and source=.")
@sentence("VOLUMES", "It is made by the first pod that uses it, or by acnspawn volume create.")
@sentence("VOLUMES", "The short form mounts a path of the host, or a named volume, without a definition: # acnspawn run web.aci -v "
                     "/etc/web:/etc/web:ro -v www:/srv")
def the_examples_of_kinds(host):
    os.mkdir(host.path("web"))
    script = "stat -c '%a %u' /cache /data; stat -f -c '%S %b %c' /cache; touch /etc/web/x 2>/dev/null || echo refused; echo kept >/srv/file"
    uuid = host.prepare("--volume=cache,kind=tmpfs,size=64Mi,nr_inodes=10k,mode=0700,uid=33", "--volume=data,kind=named,source=db-data,mode=0700,uid=33",
                        "--mount=cache:/cache", "--mount=data:/data", *app(host, "a", script, "-v", host.path("web") + ":/etc/web:ro", "-v", "www:/srv"))
    lines = host.acnspawn("run", uuid).expect(0).out.split("\n")
    block, blocks, inodes = map(int, lines[2].split())
    equal((lines[:2], block * blocks, inodes, lines[3]), (["700 33", "700 33"], 64 << 20, 10000, "refused"))
    equal(read_text(os.path.join(host.dir, "volumes/www/data/file")), "kept\n")
    m = manifest(host, uuid)
    kept = {a["name"]: a["value"] for a in m["annotations"]}
    contains(kept["acnspawn/volume/cache"], "kind=tmpfs")
    contains(kept["acnspawn/volume/data"], "kind=named")
    contains(kept["acnspawn/volume/data"], "source=db-data")
    equal({v["name"]: v["kind"] for v in m["volumes"] if v["name"] in ("cache", "data")}, {"cache": "empty", "data": "empty"})


@sentence("CREDENTIALS", "A credential is passed to one app (or each, if it is given before the first image) as a file of its name in the directory "
                         "that the app's variable $CREDENTIALS_DIRECTORY names")
@sentence("CREDENTIALS", "The files are owned by the app's user, who may read but not write them.")
@sentence("CREDENTIALS", "From prepare to run the pod's directory contains them, in files that only root may read, so that a prepared pod survives "
                         "a reboot. They are removed from there before any app starts")
def credentials(host):
    script = "cat $CREDENTIALS_DIRECTORY/*; stat -c %u $CREDENTIALS_DIRECTORY/own; echo x >$CREDENTIALS_DIRECTORY/own || echo refused"
    uuid = host.prepare("--set-credential=shared:all ", *app(host, "a", script + " 2>/dev/null", "--user=7", "--set-credential=own:mine "))
    secrets = lambda: [p for d, _, names in os.walk(host.pod_dir(uuid)) for p in (os.path.join(d, n) for n in names)
                       if not p.endswith(".journal") and os.path.isfile(p) and not os.path.islink(p) and b"mine " in open(p, "rb").read()]
    true(secrets() and all(os.stat(p).st_mode & 0o077 == 0 for p in secrets()), "files that have the secret: %r" % secrets())
    equal(host.acnspawn("run", uuid).expect(0).out, "mine all 7\nrefused\n")
    equal(secrets(), [])


@sentence("ANNOTATIONS", "A name with this prefix that is not in this list is an error.")
@sentence("Of an app", "acnspawn/restart = no|on-failure|always When the app is started again (--restart=).")
@sentence("Of an app", "It cannot be given: an app gets it when it is added to a running pod (--parent=).")
@sentence("ANNOTATIONS", "a pod manifest that is given with --pod-manifest= may contain them, too, and --annotation= sets individual ones.")
def annotations(host):
    for words in (["--annotation=acnspawn/nothing=1", base(host)], [base(host), "--annotation=acnspawn/nothing=1"], [base(host), "--annotation=acnspawn/nested-path=a/b"],
                  [base(host), "--annotation=acnspawn/restart=sometimes"]):
        true(host.acnspawn("prepare", *words).rc in (1, 2), "%s is refused" % words)
    uuid = host.prepare(base(host), "--annotation=acnspawn/restart=always")
    m = manifest(host, uuid)
    equal(host.status(uuid)["apps"][0]["restartLimit"], 10)
    again = host.prepare("--pod-manifest=-", input=json.dumps(m).encode())
    equal(host.status(again)["apps"][0]["restartLimit"], 10)


@sentence("Of an image", "Annotations of an image are never settings of this kind: those that begin with acnspawn/ have no effect.")
def annotations_of_an_image(host):
    image = host.image(name="example.com/wishes", annotations=[{"name": "acnspawn/restart", "value": "always"}, {"name": "acnspawn/nothing", "value": "1"}])
    equal(host.status(host.prepare(image))["apps"][0]["restartLimit"], None)


@sentence("Of an app", "Whether the app has the variable HOSTNAME, unless its environment sets it. Apps of OCI images have it, and all apps of a "
                       "pod with --metadata=no.")
def the_variable_hostname(host):
    for words, more, shown in ([], ["--annotation=acnspawn/hostname-variable=true"], ["none", "HOSTNAME=box"]), \
            (["--metadata=no"], ["--environment=HOSTNAME=own"], ["HOSTNAME=box", "HOSTNAME=own"]):
        script = "env | grep ^HOSTNAME= || echo none"
        r = host.acnspawn("run", "--rm", "--hostname=box", "--exit-policy=all", *words, *together(app(host, "a", script), app(host, "b", script, *more))).expect(0)
        equal(output(r), {"a": shown[:1], "b": shown[1:]}, "with %s" % words)


@sentence("Users", "The range of user and group IDs of a pod is unique on a host, also with several stores (--dir=). Each range that a pod has is a "
                   "symbolic link in /var/lib/acnspawn-uids, which names the pod and its store")
def ranges_of_users(host):
    ranges = [host.status(host.prepare(base(host)))["users"] for _ in range(3)]
    equal(len({r["base"] for r in ranges}), 3)
    if not os.path.isdir("/var/lib/acnspawn-uids"):
        raise Skip("/var/lib/acnspawn-uids is not writable")
    links = [os.readlink(os.path.join("/var/lib/acnspawn-uids", n)) for n in os.listdir("/var/lib/acnspawn-uids") if os.path.islink(os.path.join("/var/lib/acnspawn-uids", n))]
    true(sum(host.dir in link for link in links) >= 3, "the links of this store")


@sentence("EXAMPLES", "example.com/web --after=db")
def apps_one_after_the_other(host):
    uuid = host.detach("--exit-policy=never", *together(app(host, "db", "sleep 0.3; touch /out/well; exec sleep 1000", "--health-cmd=test -e /out/well"),
                                                       app(host, "web", "exec sleep 1000", "--after=db")))
    started = {a["name"]: a["started"] for a in host.status(uuid)["apps"]}
    true(started["web"] - started["db"] >= 300000, "times: %r" % started)


elsewhere(
    ("DESCRIPTION", "They share a network, a host name, an IPC namespace and the volumes that are mounted in several of them; each has a root "
                    "directory, a user and limits of its own.", "isolation/loopback_is_up_and_shared_by_the_apps"),
    ("Images and the store", "Its ID is the SHA-512 hash of the uncompressed archive.", "images/image_id_is_the_digest_of_the_uncompressed_tar"),
    ("Images and the store", "A pod never copies it: the root directory of an app is an overlay", "cost/running_copies_nothing"),
    ("Images and the store", "So the time to prepare a pod does not depend on the size of its images", "cost/prepare_does_as_much_for_a_large_image"),
    ("Images and the store", "and every pod starts with unmodified images.", "volumes/image_is_never_changed"),
    ("The pod's inside", "Its units are generated by acnspawn prepare and can be shown with acnspawn cat",
     "lifecycle/generated_units_can_be_looked_at"),
    ("The pod's inside", "they are passed to the app byte for byte.", "exec-and-environment/arguments_of_the_manifest_arrive_byte_for_byte"),
    ("The pod's inside", "Each app has by default only the capabilities that the specification lists",
     "users/default_capabilities_are_the_specifications"),
    ("The pod's inside", "and no network except for the loopback interface", "isolation/network_is_loopback_alone"),
    ("STATES OF A POD", "If the process that prepares it dies, it is aborted prepare, and acnspawn gc removes it.",
     "lifecycle/e8_a_host_that_was_started_anew"),
    ("STATES OF A POD", "All mounts of a pod are in a mount namespace of its own and disappear with its last process.",
     "crash/everything_killed_at_once"),
    ("Running a pod again", "The successor has a UUID and a range of user IDs of its own.", "successors/an_ended_pod_runs_again"),
    ("Running a pod again", "It has the same options, apps, volumes, ports, networks and grants, and the same images",
     "successors/the_request_is_kept"),
    ("Running a pod again", "those of the same IDs, or with --images=resolve those that their references then resolve to.",
     "successors/images_are_pinned_or_resolved"),
    ("Running a pod again", "Its roots and empty volumes are empty again; volumes of the host are unchanged.", "successors/the_app_sees_the_same"),
    ("Running a pod again", "an image that is resolved again and requests more than was granted is refused.",
     "successors/grants_are_the_operators_still"),
    ("Running a pod again", "If a successor cannot be started it is removed, and the name is returned.",
     "successors/a_successor_that_cannot_start_returns_the_name"),
    ("Running a pod again", "A pod that once had a name gets it again for its successor if no other pod has it, or one that was made of it and has "
                            "ended.", "successors/a_named_pod_runs_again_by_its_uuid"),
    ("Running a pod again", "A pod that is about to be removed loses its name before its networks are undone",
     "network/the_name_of_a_pod_that_another_process_has"),
    ("Running a pod again", "Of several processes that run a pod again at the same time one succeeds, and the others fail.",
     "successors/of_two_at_once_one_wins"),
    ("Running a pod again", "If the process is killed, either the first pod still has its name, and acnspawn gc removes the incomplete pod, or the "
                            "successor has it.", "successors/killed_at_each_step"),
    ("Running a pod again", "a pod with credentials from standard input or --set-credential= cannot be run again",
     "successors/secrets_that_were_not_kept_are_named"),
    ("Running a pod again", "nor can one that was prepared by a version without definitions.", "successors/a_missing_definition_is_reported"),
    ("Running a pod again", "References to files are recorded as absolute paths.", "successors/relative_paths_hold_in_another_directory"),
    ("Running a pod again", "How a pod and its apps end is recorded on a full disk, too", "crash/full_disk_while_apps_end"),
    ("Reboots of the host", "running pods are stopped in order, before the network and the file systems of the store and of host volumes are taken "
                            "away.", "vm/reboot/in_order"),
    ("Reboots of the host", "A pod that was running when the host crashed or lost power has ended as well; its exit status is 125, and the cause of "
                            "the end of its apps is host-rebooted.", "lifecycle/pods_that_a_reboot_has_ended_are_marked"),
    ("Reboots of the host", "In both cases acnspawn list shows the pod as exited (reboot)", "vm/reboot/and_afterwards"),
    ("Reboots of the host", "Changes of the pod itself are on disk when they are reported as made", "power/a_running_pod_changes"),
    ("Reboots of the host", "Pods of an orchestrator do not run again after a reboot; what the orchestrator reads of them then is on disk.",
     "power-cri/pods_of_a_kubelet_change"),
    ("Pods without apps", "It keeps running when its apps have ended, failed, or cannot be started any more, and needs none",
     "empty-pods/it_stays_when_its_apps_have_ended"),
    ("Pods without apps", "Namespaces, networks, kernel parameters (--sysctl=) and the cgroup with the limits of all apps are there then.",
     "empty-pods/its_namespaces_and_parameters_are_there_before_any_app"),
    ("Pods without apps", "That bounds the apps that it begins with, too: one that requires others is refused when the pod is prepared.",
     "empty-pods/what_is_declared_bounds_first_and_later_apps"),
    ("Pods without apps", "A pod that declares nothing has what its first apps have, and keeps it when they are removed.",
     "empty-pods/a_pod_keeps_the_capabilities_of_its_first_apps_when_they_have_gone"),
    ("Pods without apps", "are those of each app, in a /dev of its own: they need no declaration.", "empty-pods/devices_are_those_of_each_app"),
    ("Pods without apps", "and 125 if it was killed", "empty-pods/one_that_is_killed_has_failed"),
    ("Pods without apps", "It cannot be combined with --exit-idle-time=.", "empty-pods/other_policies_need_an_app"),
    ("THE LIFE OF AN APP", "in the app's root directory, with its user, environment and working directory.", "handlers/same_world_as_the_app"),
    ("THE LIFE OF AN APP", "If it fails, the app is not started.", "handlers/failing_pre_start_keeps_the_app_from_starting"),
    ("THE LIFE OF AN APP", "and its post-stop handler runs, for at most the stop time-out of the pod.", "handlers/post_stop_that_hangs_is_bounded"),
    ("THE LIFE OF AN APP", "or why it could not run: its command was not found or not executable, its working directory is no directory, its user is "
                           "missing in the image", "detach/an_app_that_cannot_be_executed_fails_the_start"),
    ("THE LIFE OF AN APP", "When the pod ends, all apps are stopped in order: SIGTERM, after the stop time-out SIGKILL, then the post-stop handler.",
     "handlers/handlers_that_hang_are_bounded_whatever_signal_stops_the_app"),
    ("PROCESSES", "By default the apps of a pod are in its pid namespace, in which its systemd is process 1",
     "processes/the_default_is_the_namespace_of_the_pod"),
    ("PROCESSES", "The app is process 1 in it and sees no process but its own.", "processes/a_private_app_is_process_1_and_sees_no_others"),
    ("PROCESSES", "When it ends, all processes in the namespace are killed, also those of enter.", "processes/all_processes_of_the_app_end_with_it"),
    ("PROCESSES", "One pid namespace for all apps of the pod that have this mode.", "processes/apps_share_a_namespace_without_the_pods_systemd"),
    ("PROCESSES", "The namespace of the app NAME, which has to have the mode private, for tools that debug it",
     "processes/an_app_joins_the_processes_of_another"),
    ("PROCESSES", "The app starts after NAME, and ends with it.", "processes/a_target_that_has_ended_is_named"),
    ("PROCESSES", "health checks run in the namespace of the app", "processes/handlers_and_health_checks_see_the_app"),
    ("PROCESSES", "The commands of acnspawn, enter, stop, kill, wait and the others, work as with the default.", "processes/status_enter_and_wait"),
    ("SOCKET ACTIVATION", "The pod listens on those ports, and starts the app on the first connection or datagram",
     "sockets/a_connection_starts_the_app"),
    ("SOCKET ACTIVATION", "after the app has ended, in order, the next one starts it again.", "sockets/connections_start_the_app_again_and_again"),
    ("SOCKET ACTIVATION", "The app gets its sockets as descriptors 3 and up, in the order of its ports",
     "sockets/an_app_has_its_sockets_and_nothing_else"),
    ("SOCKET ACTIVATION", "A port with a count is passed as that number of sockets of the same name.", "sockets/several_apps_ports_and_ranges"),
    ("SOCKET ACTIVATION", "which does not count as a failure", "sockets/an_app_that_was_never_started_has_not_failed"),
    ("SOCKET ACTIVATION", "It ends, with the cause sockets-failed, when an app shuts its sockets down",
     "sockets/an_app_that_shuts_its_socket_down_ends_the_pod_with_a_reason"),
    ("SOCKET ACTIVATION", "the pod stops listening for an app that connections start more than 14 times in 2 seconds.",
     "sockets/an_app_that_leaves_connections_pending_is_given_up"),
    ("SOCKET ACTIVATION", "an app that reaches the limit of consecutive restarts, not counting starts by connections, ends the pod, too.",
     "sockets/starts_by_connections_are_not_consecutive_restarts"),
    ("SOCKET ACTIVATION", "and with --net=host they are ports of the host.", "sockets/in_the_hosts_network"),
    ("SOCKET ACTIVATION", "what acnspawn add-app adds listens from then on and until it is removed",
     "live-sockets/an_added_app_is_started_by_a_connection"),
    ("SOCKET ACTIVATION", "keeps the ports that both apps have, by their numbers, open",
     "live-sockets/no_connection_is_refused_while_an_app_is_replaced"),
    ("SOCKET ACTIVATION", "listens again when it is started with acnspawn start-app.",
     "live-sockets/an_app_that_is_given_up_refuses_connections_until_it_is_started"),
    ("Sockets of the host", "and a pod without any network can serve them: its apps get the sockets that were opened on the host.",
     "sockets/a_socket_of_the_host_serves_a_pod_without_a_network"),
    ("Sockets of the host", "It is named after it (FileDescriptorName=)", "sockets/by_name_and_by_unix_socket"),
    ("Sockets of the host", "Else it has the number of the port itself.", "sockets/a_port_that_is_exposed_by_its_number_needs_no_network"),
    ("Sockets of the host", "The pod is not started if a socket matches no port, if the numbers differ, or if a port is exposed but has neither a "
                            "socket nor a network.", "sockets/mismatches_are_reported_before_anything_starts"),
    ("Sockets of the host", "it can neither connect nor bind such a socket, nor send datagrams from it to others (EPERM)",
     "sockets/sockets_of_the_host_lead_to_their_peers_alone"),
    ("Sockets of the host", "and the kernel takes the programs of 64 pods at a time.", "sockets/as_many_programs_as_the_kernel_takes"),
    ("Sockets of the host", "the pod ends, with status 0, when none of its apps has been active for that time", "sockets/an_idle_pod_ends"),
    ("Sockets of the host", "Connections that arrive while a pod ends are not lost: they remain pending.",
     "sockets/connections_remain_when_the_pod_ends_by_itself"),
    ("Sockets of the host", "an app that is added listens in the network of the pod, also if it takes the name of one that had sockets of the host, "
                            "which are closed with the app that they are for.", "live-sockets/a_socket_of_the_host_goes_with_its_app"),
    ("PODS AS MACHINES", "a pod is registered as a machine, unless it was run with --register=no.",
     "vm/machined/a_pod_without_registration_is_no_machine"),
    ("PODS AS MACHINES", "The pod, with the units and processes of its apps", "vm/bus/machinectl_status_and_cgls_show_apps"),
    ("PODS AS MACHINES", "The pod is stopped in order", "vm/machined/powering_the_machine_off_ends_the_pod_in_order"),
    ("PODS AS MACHINES", "sends its signal directly; the pod ends when its systemd or its supervisor is killed.",
     "vm/bus/machinectl_kill_ends_the_pod"),
    ("PODS AS MACHINES", "These commands work with the pod's systemd", "vm/bus/systemctl_shows_the_pod"),
    ("PODS AS MACHINES", "starts a process of the launcher for each connection, 32 at most", "vm/bus/clients_are_bounded_and_leave_nothing"),
    ("PODS AS MACHINES", "Apps do not see the socket.", "vm/bus/apps_do_not_get_to_it"),
    ("PODS AS MACHINES", "A pod that is not a machine does not have it.", "vm/bus/without_a_machine_there_is_no_bus"),
    ("PODS AS MACHINES", "These cannot work:", "vm/bus/invalid_combinations_are_reported"),
    ("READINESS AND HEALTH", "any process of the app may send messages, which are also accepted if it has ended since.",
     "readiness/a_message_counts_when_its_sender_has_ended"),
    ("READINESS AND HEALTH", "If the app ends before, it has failed.", "readiness/an_app_that_ends_before_it_is_ready_has_failed"),
    ("READINESS AND HEALTH", "The main process has to be a process of the app whose parent has ended, as with a daemon that forks twice",
     "readiness/an_app_that_forks_names_its_main_process"),
    ("READINESS AND HEALTH", "Any other is refused with a warning.", "readiness/an_app_cannot_name_another_process_as_its_main_one"),
    ("READINESS AND HEALTH", "are ready when the check succeeds for the first time.", "readiness/an_app_is_ready_when_its_first_check_succeeds"),
    ("READINESS AND HEALTH", "Its output is not part of the app's output; the last of it is shown by status.",
     "readiness/checks_go_on_and_tell_when_the_app_is_not_healthy"),
    ("READINESS AND HEALTH", "an app that has finally ended before it was ready is not waited for.",
     "readiness/a_pod_that_does_without_the_app_is_up_with_a_warning"),
    ("READINESS AND HEALTH", "it sends READY=1 there, STATUS= with the number of apps that are ready, and STOPPING=1 when the pod begins to end.",
     "readiness/the_foreground_notifies_its_parent"),
    ("READINESS AND HEALTH", "a pod that does not become ready within --ready-timeout of acnspawn run is stopped.",
     "readiness/a_pod_that_is_not_ready_in_time_is_stopped"),
    ("INTERFACE", "reports each change, in order; with the number of the last event that Describe returns, no event is missed in between.",
     "interface/nothing_is_lost_between_describing_and_monitoring"),
    ("INTERFACE", "any other call that does not fit the state of an app is refused with the error WrongState, which names the state.",
     "live-model/each_call_in_each_state_is_answered_as_the_model_says"),
    ("INTERFACE", "In a paused pod calls for apps are refused with PodPaused.", "live-model/a_paused_pod_changes_nothing"),
    ("INTERFACE", "fail with PauseFailed, whose message and hint say why", "interface/pods_that_cannot_be_paused_say_why"),
    ("INTERFACE", "do not run while it is paused.", "states/timeouts_stop_while_a_pod_is_paused"),
    ("INTERFACE", "a stream that is not given is the null device.", "interface-exec/streams_that_are_not_given_are_null"),
    ("INTERFACE", "the reply is one of the errors CommandNotFound, CannotExecute and ExecFailed.", "interface-exec/commands_that_cannot_be_run"),
    ("INTERFACE", "All of its processes are killed after timeoutUSec, when the main process of the app ends, and when the connection of the call ends",
     "interface-exec/a_time_out_kills_all_that_it_has_started"),
    ("INTERFACE", "A one-way call leaves the command running.", "interface-exec/a_one_way_call_leaves_it_running"),
    ("INTERFACE", "128 commands run beside the apps of a pod at a time at most.", "interface-exec/not_more_than_so_many"),
    ("INTERFACE", "output that is not read in time is left out, and further replies say how much.",
     "interface-attach/who_does_not_read_is_told_what_is_left_out"),
    ("INTERFACE", "64 callers are attached to the apps of a pod at a time at most.", "attach/sixty_five_are_too_many"),
    ("INTERFACE", "limit it, and with follow it goes on until the pod has ended.", "interface-logs/following_to_the_end"),
    ("INTERFACE", "16 callers get logs of a pod at a time at most", "interface-logs/not_more_than_so_many"),
    ("INTERFACE", "Values that this host cannot measure, for lack of a cgroup v2 controller for example, are left out.",
     "interface-stats/counters_without_a_controller_are_left_out"),
    ("INTERFACE", "a limit that this host has no cgroup v2 controller for is refused with NotSupported, which names it.",
     "interface-limits/limits_without_a_controller_are_refused_and_nothing_changes"),
    ("UNITS OF THE HOST", "runs a declared pod (acnspawn.pod(5)), made of its file each time, or else a prepared one, by its name or UUID",
     "vm/units/a_pod_as_a_unit_of_the_host"),
    ("UNITS OF THE HOST", "serve programs that make, run and watch pods", "vm/host-service/starts_with_a_connection_and_ends_when_idle"),
    ("UNITS OF THE HOST", "the timer every hour once it is enabled", "vm/units/gc_by_its_service_and_timer"),
    ("UNITS OF THE HOST", "for all pods or for one, the timers once a day if they are enabled", "vm/units/updates_by_their_service"),
    ("Packages", "The Debian package enables acnspawn.socket and acnspawn-gc.timer, and loads the AppArmor profile.",
     "vm/packages/what_an_installation_switches_on"),
    ("Packages", "An upgrade leaves running pods alone; the new version controls them.",
     "vm/packages/pods_live_on_through_an_upgrade_and_are_controlled_by_the_new_version"),
    ("Packages", "Removing the package stops running pods in order", "vm/packages/a_removal_ends_pods_in_order_and_a_purge_keeps_them"),
    ("Packages", "A store that acnspawn.conf(5) has elsewhere is kept, also an empty one; the message names it.",
     "vm/packages/a_store_that_is_somewhere_else"),
    ("Packages", "It removes an empty store.", "vm/packages/a_purge_of_an_unused_store_leaves_nothing"),
    ("VOLUMES", "A mount point without a mount gets the volume of the same name, or else a new empty volume, with a warning.",
     "volumes/mount_point_without_volume_gets_one_and_a_warning"),
    ("VOLUMES", "lost when the pod ends, and never on disk except in swap space.", "volume-kinds/volume_in_memory_is_shared_and_outlives_apps"),
    ("VOLUMES", "A directory of the store that outlives the pod, and that other pods can use, too", "named-volumes/content_outlives_pods"),
    ("VOLUMES", "so the file system of the store has to support id-mapped mounts, as for images, or the pod is refused",
     "named-volumes/file_system_that_cannot_map_owners_is_named"),
    ("VOLUMES", "An image, read-only: its files, or with subpath= one file or directory in it", "image-volumes/part_of_an_image"),
    ("VOLUMES", "and stays in the store as long as a pod has it.", "image-volumes/image_in_use_is_kept"),
    ("VOLUMES", "as source=, its ID; in a manifest that a pod is made from any reference will do", "image-volumes/volumes_of_a_pod_manifest"),
    ("VOLUMES", "No component of the path may be a symbolic link, neither when the pod is prepared nor when it runs",
     "volumes/source_swapped_for_a_symlink_after_prepare_is_refused"),
    ("VOLUMES", "If the path is an automount point (systemd.automount(5)), its file system is mounted", "vm/units/automount"),
    ("Read-only", "A mount is read-only if its volume, the mount itself or the mount point of the image is.",
     "volume-kinds/stricter_of_volume_and_mount_counts"),
    ("Read-only", "This applies to file systems mounted below a volume of the host as well, and to apps that have the capability to mount.",
     "hostile-volumes/app_that_may_mount_cannot_make_a_volume_writable"),
    ("Read-only", "Volumes have neither devices nor set-user-ID programs.", "volumes/volume_has_no_setuid_and_no_devices_through_it"),
    ("Read-only", "Mounts of the host below a volume while the pod runs are not propagated to the pod",
     "hostile-volumes/later_mounts_of_the_host_do_not_propagate"),
    ("Read-only", "nor those of the pod to the host.", "hostile-volumes/mounts_of_the_app_do_not_propagate"),
    ("Read-only", "In a pod manifest a mount that was requested as read-only has a mount point with its path that is readOnly.",
     "volume-kinds/read_only_mount_is_a_mount_point_of_the_manifest"),
    ("Owners", "user 1000 of the host is user 1000 of the pod, and files that this user creates belong to user 1000 on the host.",
     "volume-kinds/owners_inside_and_outside_agree"),
    ("Owners", "with idmap=yes the pod is refused with the file system's name.", "volume-kinds/file_system_that_cannot_map_owners"),
    ("Owners", "With idmap=no nothing is mapped.", "volume-kinds/owners_are_not_mapped_if_disabled"),
    ("Owners", "Ranges map some users only", "volume-kinds/owners_are_mapped_as_ranges_say"),
    ("Targets", "Targets that are missing in the image are created, in the app's own layer.", "volumes/missing_targets_are_created"),
    ("Targets", "they never lead outside.", "volumes/target_through_links_that_climb_lands_inside"),
    ("Targets", "No volume may be mounted on the root or in /proc", "hostile-volumes/no_volume_on_proc_sys_or_dev"),
    ("Targets", "and no two at the same place: that is an error which names both, also if it results from a symbolic link of the image.",
     "volumes/target_that_a_link_puts_onto_another"),
    ("Targets", "A volume may be inside of another one, and at or in /dev.", "volumes/volumes_inside_of_others"),
    ("Targets", "A volume that hides files of the image gets a warning that names the directory.", "volume-kinds/hidden_directory_is_named_once"),
    ("CREDENTIALS", "handlers, later starts, and commands of acnspawn enter have them, too.", "credentials/every_process_of_the_app_has_it"),
    ("CREDENTIALS", "mounted in this app only", "credentials/other_apps_do_not_have_it"),
    ("CREDENTIALS", "The limits of an app, with those of the pod, are 256 credentials and 1 MiB in total.", "credentials/what_is_refused"),
    ("CREDENTIALS", "and when a pod is removed that never ran.", "credentials/pod_that_never_runs_keeps_nothing_when_removed"),
    ("CREDENTIALS", "acnspawn never shows them.", "credentials/it_is_in_no_text"),
    ("ISOLATORS", "shows for every isolator whether it is enforced, modified, ignored, or off (it disables a confinement: no filter, no flag, no "
                  "profile), and why.", "isolators/every_isolator_is_reported"),
    ("ISOLATORS", "If an isolator of an option will be ignored, there is a warning when the pod is prepared.",
     "isolators/ignored_isolators_of_options_cause_warnings"),
    ("ISOLATORS", "If they request more than the defaults of apps, the pod is refused unless that is granted",
     "privileges/all_of_it_is_refused_at_once"),
    ("ISOLATORS", "The message lists all requests, for all apps, with the options that grant them.", "privileges/all_of_it_is_refused_at_once"),
    ("ISOLATORS", "has these names, separated by commas, or all.", "privileges/capabilities_are_granted_by_each_way"),
    ("ISOLATORS", "An app object in a pod manifest replaces the image's as a whole.", "privileges/pod_manifests_grant_what_they_say"),
    ("ISOLATORS", "A capability also allows the system calls that require it.", "system-calls/capability_opens_its_calls"),
    ("ISOLATORS", "those of a manifest or an archive", "privileges/it_is_shown_by_validate"),
    ("ISOLATORS", "A pod with any other parameter is refused, as is one whose apps set two values for the same.",
     "isolators/kernel_parameters_of_the_host_are_refused_by_name"),
    ("ISOLATORS", "An image can be granted", "privileges/safe_parameters_can_be_granted"),
    ("ISOLATORS", "With a profile that is not loaded, or a context that is not valid in the policy, the pod is neither made nor run.",
     "vm/apparmor/a_profile_that_is_not_loaded_is_refused_by_name"),
    ("ISOLATORS", "If a profile is unloaded while the app runs, the app has none", "vm/apparmor/a_profile_that_vanishes"),
    ("ISOLATORS", "limit reading and writing separately, on the disk of the store and on those of the pod's host volumes.",
     "vm/limits/bytes_and_operations_of_disks_keep_to_their_rates"),
    ("Cgroups of the pod", "a scope unit is requested in machine.slice for every pod", "vm/limits/the_pod_is_a_scope_of_its_own"),
    ("Cgroups of the pod", "keeps running when the session or unit it was started from ends", "vm/units/what_a_detached_pod_uses_outlives_it"),
    ("Cgroups of the pod", "in a unit that has Delegate=yes, there is no scope: the pod is in that unit, and subject to its limits.",
     "vm/units/limits_of_the_unit_hold_for_the_pod"),
    ("System calls", "Refused calls fail with EPERM; calls that are newer than this version fail with ENOSYS, for which programs have fallbacks.",
     "isolation/modern_system_calls_do_not_kill"),
    ("System calls", "It does not imply no_new_privs.", "system-calls/filter_without_no_new_privileges"),
    ("System calls", "anything else fails with the isolator's errno, or without one kills the process with SIGSYS.", "system-calls/remove_set_kills"),
    ("System calls", "Besides names of system calls a set may contain", "system-calls/wildcards"),
    ("System calls", "A set of an image to retain is always limited by the default filter",
     "privileges/a_set_of_an_image_is_bounded_by_the_default_filter"),
    ("System calls", "Unknown names are ignored and reported; with a set of only unknown names, or one that removes execve, the pod is not prepared.",
     "system-calls/names_that_mean_nothing"),
    ("Of the pod", "Settings of a volume beyond the specification", "volume-kinds/manifest_with_volume_in_memory_is_standard"),
    ("Of an image", "The health check of an image in Docker's format; becomes acnspawn/health-cmd and its times.",
     "oci/config_is_taken_as_it_is_meant"),
    ("MANY PODS ON ONE HOST", "A pod of one app takes about 4 MiB of memory besides the memory of the app, 3 MiB with many pods, five processes",
     "density/processes_of_a_pod"),
    ("MANY PODS ON ONE HOST", "accept many pods, and work on up to 64 of them at a time.", "density/more_pods_than_children"),
    ("Users", "a pod whose range belongs to another pod when it is started is refused, and has to be prepared again.",
     "density/pod_of_a_range_that_was_given_away_does_not_start"),
    ("Limits of the host", "The owner of a pod's user namespace is the root user of the pod's range.", "density/user_namespace_is_the_pods_own"),
    ("Limits of the host", "the message names the limit, its value, and the command that raises it: inotify instances",
     "vm/density/limit_of_inotify_instances_is_named"),
    ("Limits of the host", "open files of a process (RLIMIT_NOFILE)", "density/limit_of_open_files_is_named"),
    ("Limits of the host", "processes and threads", "density/limit_of_processes_is_named"),
    ("System calls", "to retain: all calls; there is no filter then.", "system-calls/opting_out_leaves_no_filter"),
    ("Users", "acnspawn gc removes those of removed pods.", "lifecycle/rm_removes_prepared_and_exited"),
)

main()
