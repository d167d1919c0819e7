#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn-stop(1), sentence by sentence."""

from manual import *

PAGE = page("acnspawn-stop.1", "d07c13269c82a8e8")

POLITE = "trap 'echo got usr1' USR1; trap 'exit 3' TERM; trap 'exit 7' USR2; touch /out/up; sleep 1000 & while :; do wait $!; done"
STUBBORN = "trap '' TERM; touch /out/up; exec sleep 1000"


def with_handlers(host, name):
    """An image whose event handlers leave a line in the log."""
    return host.shell(POLITE, name="example.com/" + name, app={"eventHandlers": [
        {"name": when, "exec": ["/bin/sh", "-c", "ls /out/up 2>/dev/null; echo " + when]} for when in ("pre-start", "post-stop")]})


@once
def handled(host):
    host.acnspawn("fetch", with_handlers(host, "handled")).expect(0)
    return "example.com/handled"


@once
def box(host):
    """A pod that goes on whatever becomes of its apps."""
    uuid = host.detach("--name=box", "--exit-policy=never", *together(
        [handled(host), "--name=web"], app(host, "signal", POLITE, "--stop-signal=SIGUSR2"), app(host, "batch", "exit 4"),
        app(host, "crashing", "exit 5", "--restart=on-failure", "--restart-delay=5ms", "--restart-limit=1"),
        [base(host), "--name=missing", "--exec=/no/such"], [base(host), "--name=plain", "--exec=/etc/passwd"],
        [base(host), "--name=nowhere", "--workdir=/etc/passwd", "--exec=/bin/true"]))
    for name in "web", "signal":
        host.wait_up(name, uuid)
    return uuid


def lines(host, name, word):
    return host.acnspawn("logs", "--app=" + name, "box").expect(0).out.splitlines().count(word)


def wait_lines(host, name, counts):
    """The journal of a running pod has a line some time after it was written."""
    shown = lambda: {word: lines(host, name, word) for word in counts}
    wait_for(lambda: shown() == counts, lambda: "the lines %s of app %s: there are %s" % (counts, name, shown()))


def start_signal(host):
    """Its traps are set when this returns."""
    host.acnspawn("start-app", "box", "signal").expect(0)
    host.wait_up("signal", box(host))


@sentence("stop", "Stops running pods: their apps are sent SIGTERM, and SIGKILL if they have not ended in time; their post-stop handlers run; then "
                  "the pod ends. Returns when all pods have ended.")
def apps_have_time_to_end(host):
    pods = [host.detach("--exit-policy=all", "--stop-timeout=1min", *together([handled(host)], app(host, "stubborn", STUBBORN, "--stop-timeout=300ms"))) for _ in range(2)]
    for uuid in pods:
        host.wait_up("handled", uuid)
        host.wait_up("stubborn", uuid)
    host.acnspawn("stop", *pods).expect(0)
    for uuid in pods:
        equal(host.state(uuid), "exited")
        equal((host.app_status(uuid, "handled")["exitStatus"], host.app_status(uuid, "stubborn")["signal"]), (3, 9))
        contains(host.acnspawn("logs", "--app=handled", uuid).out, "post-stop")


@sentence("stop", "Kill the pod at once. Post-stop handlers do not run, and apps have no exit status of their own.")
@sentence("stop", "0 is the same as --force.")
def pods_are_killed(host):
    pods = [(words, host.prepare(handled(host))) for words in (["--force"], ["-f"], ["--timeout=0"], ["-t", "0"])]
    for start in [host.start("run", "--detach", uuid) for _, uuid in pods]:
        host.finish(start).expect(0)
    for words, uuid in pods:
        host.wait_up("handled", uuid)
        r = host.acnspawn("stop", *words, uuid).expect(0)
        equal((r.out, r.err), ("", ""), "what %s says" % words)
        app = host.app_status(uuid, "handled")
        equal((app["exitStatus"], app["cause"]), (None, "pod-killed"))
        lacks(host.acnspawn("logs", uuid).out, "post-stop")


@sentence("kill", 'The signal, by its name, with or without "SIG", or by its number (default: SIGTERM).')
def signals_by_name_and_number(host):
    box(host)
    for n, word in enumerate(("USR1", "SIGUSR1", "10"), 1):
        host.acnspawn("kill", "--app=signal", "--signal=" + word, "box").expect(0)
        wait_for(lambda: lines(host, "signal", "got usr1") == n, "the signal " + word)
    host.acnspawn("kill", "-a", "signal", "box").expect(0)
    host.acnspawn("wait", "box", "signal").expect(3)
    start_signal(host)


@sentence("start-app", "Starts apps of a running pod that have ended, or were not started yet, with a clean root and their event handlers.")
@sentence("start-app", "One app that fails does not keep the others from their turn.")
def apps_begin_anew(host):
    box(host)
    wait_lines(host, "web", {"pre-start": 1, "post-stop": 0})
    host.acnspawn("stop-app", "box", "web").expect(0)
    contains(host.acnspawn("start-app", "box", "nothing", "web").expect(1).err, "has no app 'nothing'")
    # post-stop finds what the app has left in its root, pre-start does not.
    wait_lines(host, "web", {"pre-start": 2, "post-stop": 1, "/out/up": 1})
    host.acnspawn("add-app", "box", handled(host), "--name=later").expect(0)
    equal(host.app_status("box", "later")["state"], "waiting")
    host.acnspawn("start-app", "box", "later").expect(0)
    wait_lines(host, "later", {"pre-start": 1})


@sentence("start-app", "Returns when the apps are ready.")
def a_start_waits_for_readiness(host):
    box(host)
    host.acnspawn("add-app", "box", *app(host, "checked", "sleep 0.3; touch /out/well; sleep 1000", "--health-cmd=test -e /out/well")).expect(0)
    host.acnspawn("start-app", "box", "checked").expect(0)
    equal((host.app_status("box", "checked")["ready"], host.written("checked", "out/well", host.pod_dir(box(host)))), (True, b""))


@sentence("start-app", "Their count of restarts in a row begins again.")
@sentence("restart-app", "Their restart counters are reset, also if they had reached the limit.")
def restarts_are_counted_anew(host):
    box(host)
    given_up = lambda: host.app_status("box", "crashing")["startsInRow"] == 2 and host.app_status("box", "crashing")["state"] == "ended"
    for n, verb in enumerate(("start-app", "restart-app"), 1):
        wait_for(given_up, "the limit of restarts")
        host.acnspawn("wait", "box", "crashing").expect(5)  # systemd has given it up as well
        host.acnspawn(verb, "box", "crashing").expect(0)
        wait_for(lambda: host.app_status("box", "crashing")["starts"] == 2 * n + 2, lambda: "restarts after %s, %d in all: %s" % (verb, 2 * n + 2, host.app_status("box", "crashing")))


@sentence("stop-app", "they are sent SIGTERM, or their stop signal, and SIGKILL if they have not ended in time; their post-stop handlers run. "
                      "Returns when the apps have ended. An app that has ended already is left as it is.")
@sentence("stop-app", "with --exit-policy=never always.")
def apps_are_stopped_in_order(host):
    box(host)
    host.acnspawn("stop-app", "box", "signal", "batch").expect(0)
    equal([(host.app_status("box", name)["state"], host.app_status("box", name)["exitStatus"]) for name in ("signal", "batch")],
          [("ended", 7), ("ended", 4)])
    equal(host.state("box"), "running")
    start_signal(host)


@sentence("wait", "Of an app that was ended by a signal that is 128 + its number; of one that could not be executed, 125 to 127.")
@sentence("wait", "Waits until the pod has ended, or, with names of apps, until each of them has, and exits with the status of the pod, or of the "
                  "first of the apps, in the order in which they were named, whose status is not 0.")
def the_status_is_that_of_the_app(host):
    box(host)
    host.acnspawn("add-app", "box", "--start", *app(host, "killed", "kill -9 $$")).expect(0)
    for words, status in (["killed"], 137), (["missing"], 127), (["plain"], 126), (["nowhere"], 125), (["batch", "missing"], 4), (["plain", "batch"], 126):
        equal(host.acnspawn("wait", "box", *words).rc, status, "status of %s" % words)


@sentence("wait", "with 0, unless that has ended already.")
def nothing_is_waited_for(host):
    box(host)
    equal(host.acnspawn("wait", "--timeout=0", "box", "web").expect(1).err, "Error: App web of pod box has not ended in time.\n")
    host.acnspawn("wait", "-t", "0", "box").expect(1)
    host.acnspawn("wait", "-t0", "box", "batch").expect(4)
    equal(host.state("box"), "running")


@sentence("rm", "Removes pods that are not running, with everything that belongs to them: empty volumes, logs, exit statuses. Prints their UUIDs.")
def removed_pods_leave_nothing(host):
    ended = host.prepare("--name=ended", "--volume=v,kind=empty", "--mount=v:/v", *app(host, "a", "echo >/v/file; exit 3"))
    host.acnspawn("run", "ended").expect(3)
    prepared = host.prepare(base(host))
    equal(host.acnspawn("rm", "ended", prepared).expect(0).out, "%s\n%s\n" % (ended, prepared))
    equal([p for p in host.pods() if os.path.basename(p) in (ended, prepared)], [])


def removed(host, *words):
    return {r["id"] for r in json.loads(host.acnspawn("gc", "--json", *words).expect(0).out) if r["kind"] in ("pod", "download")}


@sentence("gc", "It may be run at any time: nothing in use is removed, and no named volume.")
@sentence("gc", "--grace-period=TIME Keep pods that ended less than TIME ago (default: 30min).")
@sentence("gc", "--expire-prepared=TIME Remove pods that were prepared more than TIME ago and have not been run (default: 24h); infinity keeps them "
                "all.")
@sentence("gc", "The sum of the disk space is written to standard error.")
@sentence("gc", "-n, --dry-run Only show what would be removed, and how much disk space that would free.")
def what_is_not_needed_goes(host):
    running, prepared = box(host), host.prepare("--volume=kept:/v", base(host))
    host.acnspawn("run", "--name=over", *app(host, "a", "exit 0")).expect(0)
    over = host.status("over")["uuid"]
    everything = {os.path.basename(p) for p in host.pods()} - {running}
    equal(removed(host), set(), "by default")
    equal(removed(host, "--grace-period=1h", "--expire-prepared=infinity"), set())
    equal(removed(host, "-n", "--grace-period=0"), everything - {prepared})
    r = host.acnspawn("gc", "--dry-run", "--grace-period=0").expect(0)
    contains(r.out, over)
    true(re.search(r"\d[KMG]?i?B?", r.err), "the sum: %r" % r.err)
    true(prepared in removed(host, "--dry-run", "--expire-prepared=0"), "the prepared pod")
    equal({os.path.basename(p) for p in host.pods()}, everything | {running}, "after dry runs")
    equal(removed(host, "--grace-period=0", "--expire-prepared=0"), everything)
    equal(host.state("box"), "running")
    host.acnspawn("volume", "show", "kept").expect(0)


@sentence("gc", "--expire-downloads=TIME Remove partial downloads that were interrupted more than TIME ago and have not been resumed (default: "
                "24h); infinity keeps them all.")
def downloads_expire(host):
    base(host)
    directory = os.path.join(host.dir, "downloads")
    for n, hours in enumerate((1, 25)):
        for ending, content in (".part", b"x" * 1000), (".json", b"{}"):
            path = os.path.join(directory, "%064x%s" % (n, ending))
            with open(path, "wb") as f:
                f.write(content)
            os.utime(path, (time.time() - hours * 3600,) * 2)
    stat = os.statvfs(host.dir)
    if stat.f_bavail * 10 < stat.f_blocks:
        raise Skip("less than a tenth of the file system is free")
    there = lambda: sorted(int(name[:64], 16) for name in os.listdir(directory) if name.endswith(".part"))
    host.acnspawn("gc", "--expire-downloads=infinity").expect(0)
    equal(there(), [0, 1])
    host.acnspawn("gc").expect(0)
    equal(there(), [0])
    host.acnspawn("gc", "--expire-downloads=30min").expect(0)
    equal(there(), [])


@sentence("gc", "When less than a tenth of the file system is free, they are removed after ten minutes.")
def downloads_on_a_full_disk(host):
    place = host.path("small")
    os.mkdir(place)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "none", place], check=True)
    try:
        call = lambda *words: subprocess.run([ACNSPAWN, "--dir=" + place, *words], check=True, capture_output=True, timeout=patience(60))
        call("volume", "create", "v")
        os.makedirs(os.path.join(place, "downloads"), exist_ok=True)
        paths = [os.path.join(place, "downloads", "%064x%s" % (1, ending)) for ending in (".part", ".json")]
        for path in paths:
            with open(path, "w") as f:
                f.write("{}")
            os.utime(path, (time.time() - 1200,) * 2)
        call("gc")
        true(all(map(os.path.exists, paths)), "they are kept where there is space")
        with open(os.path.join(place, "filler"), "wb") as f:
            f.write(bytes(3900 << 10))
        call("gc")
        equal([path for path in paths if os.path.exists(path)], [])
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


elsewhere(
    ("COMMANDS", "A failure does not affect the others; errors and results are shown in the order of the command line.",
     "lifecycle/results_and_errors_of_many_pods_are_in_the_order_of_the_arguments"),
    ("COMMANDS", "If the command is interrupted, pods that are being stopped continue to do so.", "density/ctrl_c_ends_stop_not_the_pods"),
    ("COMMANDS", "stop, kill, pause, resume and rm work on up to 64 pods at a time.", "density/more_pods_than_children"),
    ("stop", "systemd may start a pod again, and a warning says so: systemctl stop acnspawn@NAME ends it.", "vm/declared/a_unit_that_starts_the_pod_again_is_named"),
    ("stop", "After two seconds a message says which apps are still running.", "lifecycle/stop_and_rm_report_what_they_wait_for"),
    ("stop", "Without this option a pod is killed after the longest time that --stop-timeout= allows its apps, one after the other, plus 90 seconds",
     "lifecycle/stop_and_rm_report_what_they_wait_for"),
    ("stop", "Kill each pod that has not ended in order after TIME, and report it.", "lifecycle/stop_with_a_timeout_kills"),
    ("stop", "infinity never kills it.", "lifecycle/a_pod_ends_although_its_systemd_got_sigstop"),
    ("kill", "Sends a signal to the main process of every running app.", "control/signals_reach_apps"),
    ("kill", "Send the signal to this app only.", "control/signals_reach_apps"),
    ("pause", "Suspends all processes of the pods, with the freezer of cgroup v2.", "control/a_paused_pod_does_nothing_until_it_goes_on"),
    ("pause", 'A paused pod is "paused" in list and status. It can be stopped, but neither entered nor sent signals.',
     "control/a_paused_pod_does_nothing_until_it_goes_on"),
    ("pause", "It can be stopped", "control/a_paused_pod_can_be_stopped"),
    ("resume", "Resumes the processes of paused pods.", "control/a_paused_pod_does_nothing_until_it_goes_on"),
    ("start-app", "An app that runs is an error", "apps/messages_name_app_state_and_the_way_out"),
    ("start-app", "as is a pod that is about to end.", "live-model/a_pod_that_ends_changes_nothing"),
    ("stop-app", "with --exit-policy=all it goes on as long as another app runs", "apps/apps_are_stopped_and_started"),
    ("stop-app", "Kill an app that has not ended in order after TIME, which may be longer than its own --stop-timeout=. By default --stop-timeout= applies.",
     "apps/a_stop_call_can_extend_the_stop_timeout"),
    ("stop-app", "0 kills it at once.", "apps/an_app_that_ignores_the_signal_is_killed_after_the_timeout"),
    ("restart-app", "Stops apps of a running pod in order, if they run, and starts them again, with a clean root and their event handlers.",
     "control/an_app_is_started_again"),
    ("restart-app", "The pod does not end because of that, whatever its exit policy is", "control/an_app_is_started_again_where_its_end_ends_the_pod"),
    ("restart-app", "but an app that cannot be started again has failed.", "control/an_app_that_does_not_start_again_has_failed"),
    ("restart-app", "Returns when the apps are ready.", "restarts/restart_app_during_the_delay_waits_until_the_app_is_ready"),
    ("wait", "It works also after the end, until the pod is removed, and for any number of processes at the same time.",
     "apps/waiting_gives_the_status_of_the_pod_and_of_apps"),
    ("wait", "An app that is being restarted has not ended.", "apps/waiting_outlives_removal_restarts_and_crashes"),
    ("wait", "Exits with 1 and a message if there is no such pod or app, if the pod was not run yet", "apps/waiting_outlives_removal_restarts_and_crashes"),
    ("wait", "or if it was removed while it was waited for.", "states/a_wait_for_an_app_that_is_removed_ends"),
    ("wait", "Fail if that takes longer than TIME", "apps/waiting_gives_the_status_of_the_pod_and_of_apps"),
    ("wait", "All words are pods: wait until each of them has ended, in whatever order, and exit with the status of the first of them, in the order in which "
             "they were named, whose status is not 0.", "apps/waiting_for_several_pods"),
    ("rm", "A pod is kept if a file system is mounted below its directory; the message names the mount.", "lifecycle/removal_stops_at_mounts_in_a_pod"),
    ("rm", "While cp or export reads a pod that has ended, rm fails and gc keeps the pod; it can be run again meanwhile.",
     "files/who_reads_an_ended_pod_is_not_in_the_way"),
    ("rm", "Stop running pods first, as stop does.", "lifecycle/rm_by_force_stops_in_order_before"),
    ("gc", "preparations that were interrupted", "lifecycle/e8_a_host_that_was_started_anew"),
    ("gc", "partly unpacked images", "crash/killed_at_many_points_of_fetch"),
    ("gc", "layers that no image has", "image-verbs/orphans_are_collected"),
    ("gc", "A pod that an enabled or loaded unit acnspawn@NAME refers to, by name, UUID or at least four characters of it, is kept, unless a file declares it",
     "lifecycle/pods_of_enabled_units_stay"),
    ("gc", "enabled or loaded unit", "vm/units/the_pod_of_a_loaded_unit_stays"),
    ("gc", "If units cannot be read, all pods that have ended or were never run are kept, the rest is removed, and the command fails.",
     "lifecycle/pods_of_enabled_units_stay"),
)

main()
