#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn-run(1), sentence by sentence."""

import signal

from manual import *

PAGE = page("acnspawn-run.1", "a02ae86b9e202746")

SUPERVISE = os.path.join(os.path.dirname(os.path.realpath(ACNSPAWN)), "supervise")


@sentence("DESCRIPTION", "Without POD, it runs the only prepared pod; if there are several, it lists them and fails.")
def the_only_prepared_pod(host):
    host.prepare("--name=alone", *app(host, "a", "exit 7"))
    host.acnspawn("run").expect(7)
    uuids = [host.prepare(base(host)) for _ in range(2)]
    r = host.acnspawn("run").expect(1)
    for uuid in uuids:
        contains(r.err, uuid)
    host.acnspawn("rm", *uuids).expect(0)


@sentence("DESCRIPTION", "A single word without any options of pod or app may name either a pod or an image; if it matches both, it is refused.")
def a_word_that_names_a_pod_and_an_image(host):
    host.acnspawn("fetch", host.image(name="twin")).expect(0)
    host.acnspawn("run", "--rm", "twin").expect(0)
    uuid = host.prepare("--name=twin", *app(host, "a", "exit 6"))
    r = host.acnspawn("run", "twin")
    true(r.rc in (1, 2) and "pod" in r.err and "image" in r.err, str(r))
    equal(host.state(uuid), "prepared")
    host.acnspawn("run", uuid).expect(6)


@sentence("DESCRIPTION", "In the foreground run shows the output of the apps (each line with the name of its app if there are several), stops the "
                         "pod in order on SIGINT, SIGTERM and SIGHUP, and exits with the status of the pod; see EXIT STATUS. The first app with a "
                         "standard input (--interactive, --stdin) reads that of run.")
def output_input_and_signals(host):
    r = host.acnspawn("run", "--exit-policy=all", *together(app(host, "one", "cat; echo first"), app(host, "two", "cat; exit 4", "--stdin"),
                                                           app(host, "three", "echo third", "--stdin")), input=b"words\n").expect(4)
    lines = [line.split() for line in r.out.splitlines()]
    equal(sorted((line[0].rstrip(":"), line[-1]) for line in lines), [("one", "first"), ("three", "third"), ("two", "words")])
    p = host.start("run", "--name=hung-up", *app(host, "a", "trap 'echo in order; exit 5' TERM; touch /out/up; sleep 1000 & while :; do wait $!; done"))
    host.wait_named("hung-up")
    host.wait_up("a", host.status("hung-up")["uuid"])
    p.send_signal(signal.SIGHUP)
    equal(host.finish(p).expect(5).out, "in order\n")


@sentence("Options of run", "up to eight characters, or ctrl- with a letter or one of @, [, \\, ], ^ and _. An empty value disables them.")
def keys_that_can_detach(host):
    for keys, rc in ("a,b,c,d,e,f,g,h", 1), ("a,b,c,d,e,f,g,h,i", 2), ("ctrl-a,ctrl-@,ctrl-[,ctrl-\\,ctrl-],ctrl-^,ctrl-_", 1), ("ctrl-1", 2), ("", 1):
        equal(host.acnspawn("run", "--detach-keys=" + keys, "no-such-pod").rc, rc, "keys %r" % keys)


@sentence("Options of run", "options of run take precedence over those of the file.")
def options_and_the_file(host):
    os.makedirs(host.path("config/pods"))
    with open(host.path("config/pods/declared.pod"), "w") as f:
        f.write("[Pod]\nReadyTimeout=1h\n[App a]\nImage=%s\nExec=/bin/sleep\nArguments=1000\nHealthCmd=test -e /never\nHealthRetries=1000\n" % base(host))
    r = host.acnspawn("--config-dir=" + host.path("config"), "run", "--detach", "--ready-timeout=300ms", "--declared=declared").expect(1)
    contains(r.err, "was not ready in time")


@sentence("Options of run", "Remove the pod when it has ended, also with --detach and after detaching. If the process that runs the pod is killed, "
                            "the pod is kept until rm or gc removes it.")
def removed_when_it_has_ended(host):
    host.acnspawn("run", "--detach", "--rm", "--name=passing", *app(host, "a", "exit 0")).expect(0)
    wait_for(lambda: host.acnspawn("list", "passing").rc == 1, "the removal of the pod")
    uuid = host.acnspawn("run", "--detach", "--rm", "--name=killed", *app(host, "a", "sleep 1000")).expect(0).out.strip()
    os.kill(host.supervisor(uuid), signal.SIGKILL)
    wait_for(lambda: host.state("killed") == "exited", "the end of the pod")
    equal(host.acnspawn("rm", "killed").expect(0).out, uuid + "\n")


@sentence("THE SUPERVISOR", "It accepts --keep-unit, --register=, --ready-timeout=, --rm, --strict, --raw, --quiet, --debug, --dir= and "
                            "--config-dir=.")
@sentence("THE SUPERVISOR", "Every pod is run by a process, /usr/lib/acnspawn/supervise with the UUID of the pod.")
def what_the_supervisor_accepts(host):
    call = lambda *words: subprocess.run([SUPERVISE, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=patience(20))
    for words in (["--keep-unit"], ["--register=no"], ["--ready-timeout=1s"], ["--rm"], ["--strict"], ["--raw"], ["--quiet"], ["--debug"],
                  ["--config-dir=" + host.path()]):
        r = call("--dir=" + host.path("nowhere"), *words, "no-such-pod")
        equal(r.returncode, 1, "%s: %s" % (words, r.stderr))
    for words in (["--detach"], ["--images=pinned"]):
        equal(call("--dir=" + host.path("nowhere"), *words, "no-such-pod").returncode, 2, str(words))


@sentence("EXIT STATUS", "If there is no pod to run, the status is 1, or 2 for a wrong command line.")
def without_a_pod(host):
    for words, rc in (["no-such-pod"], 1), ([host.path("missing.aci")], 1), (["--nonsense"], 2), (["--exit-policy=sometimes", base(host)], 2), \
            (["--images=pinned"], 2):
        equal(host.acnspawn("run", *words).rc, rc, "status of %s" % words)


@sentence("EXAMPLES", "# acnspawn run --rm hello.aci -- --greeting 'Good morning'")
def the_example_with_arguments(host):
    image = host.image(["/bin/echo", "I say"], name="example.com/hello")
    equal(host.acnspawn("run", "--rm", image, "--", "--greeting", "Good morning").expect(0).out, "I say --greeting Good morning\n")


elsewhere(
    ("DESCRIPTION", "A pod that has ended is run again: a new pod is prepared from its definition, which gets its name, and is run",
     "successors/an_ended_pod_runs_again"),
    ("DESCRIPTION", "A running pod is refused, unless --replace is given.", "lifecycle/a_running_pod_is_refused"),
    ("DESCRIPTION", "The second form makes a pod of the file that declares it, and runs it", "declared/a_declared_pod_runs_again_and_again"),
    ("DESCRIPTION", "A pod that was prepared here and cannot be started is removed again", "lifecycle/pod_that_does_not_boot_says_why"),
    ("DESCRIPTION", "The fourth form makes a pod without apps, which runs until it is stopped", "empty-pods/a_pod_without_apps_is_up_and_is_stopped"),
    ("DESCRIPTION", "If that app has a terminal, only this app is shown", "attach/only_the_app_with_the_terminal_is_shown"),
    ("DESCRIPTION", "and the terminal of run is put into raw mode while it runs; Ctrl-C is passed to the app then", "attach/a_terminal_is_one"),
    ("DESCRIPTION", "the keys of --detach-keys= detach from the pod, which keeps running as with --detach.", "attach/keys_leave_a_terminal"),
    ("DESCRIPTION", "Ctrl-Z stops only run: the pod keeps running", "attach/ctrl_z_stops_nothing_but_run"),
    ("DESCRIPTION", "the pod is stopped in order and run exits with 141, as if SIGPIPE had killed it.", "output/a_reader_that_is_gone_ends_the_pod"),
    ("DESCRIPTION", "An app with a terminal whose input is none gets the end of its input, as by Ctrl-D, where that ends.",
     "attach/a_terminal_whose_input_is_none_ends"),
    ("Options of run", "Return as soon as the pod is up, and print its UUID: every app that starts with it was executed",
     "detach/run_waits_for_steps_before_the_app"),
    ("Options of run", "and is ready if it reports readiness", "readiness/detached_run_returns_when_the_app_says_it_is_ready"),
    ("Options of run", "An executed app counts as started, however soon it ends.", "detach/an_app_that_was_executed_has_started"),
    ("Options of run", "If an app cannot be executed or does not become ready, and the pod ends with it, run reports the reason and exits with the status of the "
                       "pod, as in the foreground", "detach/an_app_that_cannot_be_executed_fails_the_start"),
    ("Options of run", "if the pod keeps running without the app, there is a warning.", "detach/a_pod_that_goes_on_without_the_app_is_up_with_a_warning"),
    ("Options of run", "If an app that nothing starts again becomes unhealthy before it is ready, also with --health-on-failure=none, the pod is stopped, and run "
                       "fails.", "readiness/a_health_check_that_fails_ends_the_wait_for_the_pod"),
    ("Options of run", "After 90 seconds it no longer waits for apps to be executed, and fails; the pod keeps running.", "detach/waiting_has_a_timeout"),
    ("Options of run", "A signal that ends the waiting does not end the pod either.", "detach/an_interrupted_client_reports_that_the_pod_keeps_running"),
    ("Options of run", "Stop the pod in order, and fail, unless it is ready within this time; the message names the apps that are not ready.",
     "readiness/a_pod_that_is_not_ready_in_time_is_stopped"),
    ("Options of run", "If a pod of that name has ended, it becomes its predecessor, and stays", "declared/a_declared_pod_runs_again_and_again"),
    ("Options of run", "one that was prepared and never run is removed", "declared/a_declared_pod_runs_again_and_again"),
    ("Options of run", "For a pod that has ended: remove it when its successor is prepared.", "lists/pods_by_names"),
    ("Options of run", "one that runs is an error, unless --replace is given.", "declared/one_that_runs_is_not_run_twice"),
    ("Options of run", "Images and options of pods cannot be given", "declared/what_cannot_be_combined"),
    ("Options of run", "run POD as with --declared= if it is declared, and else as it is.", "declared/as_the_unit_of_the_host_does"),
    ("Options of run", "take the apps that it had at its end, with what add-app, rm-app and update-app have changed (the default), or those that it was prepared "
                       "with.", "live-update/a_successor_has_the_apps_of_the_end"),
    ("Options of run", "use the same images, by their IDs (the default), or resolve the references that the pod was made from again.",
     "successors/images_are_pinned_or_resolved"),
    ("Options of run", "If an image was removed from the store, the message names it, with the command that fetches it.", "successors/a_removed_image_is_named"),
    ("Options of run", "For a running one: stop it in order after all checks of the successor, and remove it.",
     "successors/replace_fails_before_anything_is_stopped"),
    ("Options of run", "Without this option control characters are shown as by acnspawn-logs(1); for a single app, carriage returns are kept.",
     "output/a_terminal_takes_no_orders_from_apps"),
    ("Options of run", "Run a pod for apps that are launched in it, and end it with the last of them: --exit-policy=tasks, which needs no image.",
     "nested/an_executor_ends_with_its_tasks"),
    ("Options of run", "Refuse to run the pod, naming the reasons, unless this host enforces all of its isolators.",
     "isolators/strict_refuses_what_is_not_enforced"),
    ("Options of run", "Also refuse a pod of several apps if the kernel cannot prevent them from accessing each other's processes (\"exposed\").",
     "neighbours/status_shows_whether_apps_are_exposed"),
    ("Options of run", "Then machinectl list and status show it", "vm/machined/a_pod_is_shown_as_a_machine"),
    ("Options of run", "machinectl terminate and poweroff stop it in order", "vm/machined/terminating_the_machine_ends_the_pod_in_order"),
    ("Options of run", "if another machine has the name, there is a warning.", "vm/machined/a_name_in_use_is_reported"),
    ("Options of run", "With yes the pod does not run unless it can be registered.", "vm/machined/pods_run_without_machined"),
    ("Options of run", "the unit's limits apply to the pod, systemctl status shows it, and the unit ends with the pod.",
     "vm/units/limits_of_the_unit_hold_for_the_pod"),
    ("Options of run", "other processes of the unit are moved to its cgroup supervisor, which also contains acnspawn and the supervisor.",
     "vm/units/units_that_put_their_processes_into_a_child"),
    ("Options of the pod, before the first image", "The second and the third form accept these options of the pod", "unit/man/options_are_those_of_the_program"),
    ("Options of an app, after its image", "And these of each app", "unit/man/options_are_those_of_the_program"),
    ("THE SUPERVISOR", "if run is killed, the pod ends with it.", "supervise/the_client_killed_in_the_foreground_ends_the_pod"),
    ("THE SUPERVISOR", "A detached supervisor depends on no other process.", "supervise/the_client_killed_while_it_waits_leaves_a_detached_pod"),
    ("THE SUPERVISOR", "Nothing of what has started it reaches the pod: the umask is 0022, and nice value, scheduling, processors, OOM score, limits, personality and "
                       "timer slack are those of the host's PID 1", "inherited/nothing_of_the_caller_reaches_a_pod"),
    ("THE SUPERVISOR", "with --keep-unit all but the umask are those of the unit.", "vm/units/settings_of_the_unit_hold_for_the_pod"),
    ("THE SUPERVISOR", "When the package is upgraded, running pods keep their supervisor, which is compatible with newer commands.",
     "supervise/it_outlives_an_upgrade_of_the_package"),
    ("THE SUPERVISOR", "is then notified by the supervisor itself when the pod is ready (sd_notify(3))", "supervise/it_notifies_the_hosts_systemd_itself"),
    ("THE SUPERVISOR", "It runs a prepared pod, given by UUID or name, as run in the foreground does", "supervise/by_hand"),
    ("THE SUPERVISOR", "signals end the pod in order", "supervise/a_signal_ends_the_pod_in_order_and_a_second_one_kills"),
    ("THE SUPERVISOR", "sockets are passed as sd_listen_fds(3) describes", "supervise/sockets_are_passed_to_it"),
    ("EXIT STATUS", "It is 0 if no app failed, else that of the app that failed first", "exit-status/first_failure_of_several_counts"),
    ("EXIT STATUS", "its exit status, if it exited by itself", "exit-status/every_kind_of_exit_code"),
    ("EXIT STATUS", "if signal N killed it", "exit-status/signals_are_no_exit_codes"),
    ("EXIT STATUS", "if its program is missing in the image", "exit-status/missing_command_is_127"),
    ("EXIT STATUS", "if its program cannot be executed", "exit-status/not_executable_is_126"),
    ("EXIT STATUS", "a pre-start handler that failed", "handlers/failing_pre_start_keeps_the_app_from_starting"),
    ("EXIT STATUS", "a working directory that is no directory, a user that is missing.", "detach/an_app_that_cannot_be_executed_fails_the_start"),
    ("EXIT STATUS", "the status is 0 if the pod was stopped in order, however its apps have ended", "empty-pods/it_stays_when_its_apps_have_ended"),
    ("EXIT STATUS", "and 125 if it was killed.", "empty-pods/one_that_is_killed_has_failed"),
    ("EXIT STATUS", "acnspawn status distinguishes these from programs that exit with such a status by themselves.", "exit-status/missing_command_is_127"),
)

main()
