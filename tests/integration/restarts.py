#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Settings of apps: restart, order, the signal that stops an app."""

from harness import *


@case
def an_app_that_fails_is_started_again_with_a_clean_root(host):
    # The volume is persistent, the app's root is not.
    script = "echo run >>/data/runs; test -e /tmp/old && echo unclean; touch /tmp/old; test $(wc -l </data/runs) -ge 3"
    r = host.run("--name=p", "--volume=data,kind=empty,mode=0777", "--mount=data:/data", host.shell(script),
                 "--restart=on-failure", "--restart-delay=10ms")
    lacks(r.out, "unclean")
    equal(host.app_status("p", "image1")["exitStatus"], 0)


@case
def nothing_is_restarted_by_default(host):
    host.run("--name=p", "--volume=data,kind=empty,mode=0777", "--mount=data:/data",
             host.shell("echo run >>/data/runs; test $(wc -l </data/runs) -eq 1 && exit 7"), rc=7)


@case
def an_image_cannot_ask_to_be_started_again(host):
    image = host.shell("echo run >>/data/runs; test $(wc -l </data/runs) -eq 1 && exit 7",
                       annotations=[{"name": "acnspawn/restart", "value": "on-failure"}])
    host.run("--name=p", "--volume=data,kind=empty,mode=0777", "--mount=data:/data", image, rc=7)


@case
def an_app_that_is_always_started_again_ends_with_the_pod(host):
    uuid = host.prepare("--volume=data,kind=empty,mode=0777", "--mount=data:/data", host.shell("echo run >>/data/runs"),
                        "--restart=always", "--restart-delay=5ms")
    host.acnspawn("run", "--detach", uuid).expect(0)
    runs = host.pod_dir(uuid) + "/volumes/data/runs"
    wait_for(lambda: os.path.exists(runs) and read_text(runs).count("run") >= 3, "three starts")
    host.acnspawn("stop", uuid).expect(0)
    equal(host.state(uuid), "exited")


def stamps(host, uuid):
    """When the app was started, in seconds."""
    path = host.pod_dir(uuid) + "/volumes/data/runs"
    return [float(x.split()[0]) for x in read_text(path).splitlines()] if os.path.exists(path) else []


def launchers(host, uuid):
    leader = host.leader(uuid)
    return processes_where(lambda pid: parent_of(pid) == leader and name_of(pid) == "launch")


def crashing(host, *options, then="exit 1", policy="on-failure"):
    return host.prepare("--name=p", "--exit-policy=" + policy, "--volume=data,kind=empty,mode=0777", "--mount=data:/data",
                        host.shell("cat /proc/uptime >>/data/runs; " + then, name="example.com/a"), *options)


@case
def an_app_that_crashes_again_and_again_waits_longer_and_is_given_up(host):
    uuid = crashing(host, "--restart=on-failure", "--restart-delay=100ms", "--restart-delay-max=500ms", "--restart-limit=4", then="exit 5")
    r = host.acnspawn("run", uuid).expect(5)
    found = stamps(host, uuid)
    equal(len(found), 5, "number of starts")
    gaps = [b - a for a, b in zip(found, found[1:])]
    for gap, least in zip(gaps, (0.1, 0.2, 0.4, 0.5)):
        true(gap >= least - 0.02, "the app waited %r, expected 0.1, 0.2, 0.4, 0.5" % gaps)
    status = host.app_status(uuid, "a")
    equal((status["startsInRow"], status["restartLimit"], status["exitStatus"], status["nextStart"]), (5, 4, 5, None))
    contains(host.acnspawn("status", uuid).out, "restarted 4 of at most 4 times in a row, and given up")


@case
def an_app_that_always_ends_is_given_up_as_well(host):
    uuid = crashing(host, "--restart=always", "--restart-delay=5ms", "--restart-limit=2", then="exit 0")
    host.acnspawn("run", uuid).expect(0)
    equal(len(stamps(host, uuid)), 3)


@case
def the_time_that_a_start_may_take_does_not_run_while_it_waits(host):
    uuid = crashing(host, "--restart=on-failure", "--restart-delay=1500ms", "--restart-limit=1", "--start-timeout=1s", then="exit 6")
    host.acnspawn("run", uuid).expect(6)
    equal(len(stamps(host, uuid)), 2)


@case
def status_shows_when_the_next_start_is(host):
    uuid = crashing(host, "--restart=on-failure", "--restart-delay=10s")
    host.acnspawn("run", "--detach", uuid).expect(0)
    wait_for(lambda: host.app_status(uuid, "a")["nextStart"], "the app waits")
    contains(host.acnspawn("status", uuid).out, "restarted 0 of at most 10 times in a row, again in ")
    with within(4, "the end of the pod, whose app waits for longer to be started,"):
        host.acnspawn("stop", uuid).expect(0)
    equal(host.app_status(uuid, "a")["exitStatus"], 1)


@case
def a_pod_whose_app_waits_in_the_launcher_stops_at_once_and_its_end_stays(host):
    uuid = crashing(host, "--restart=on-failure", "--restart-delay=300ms", "--restart-delay-max=1min", "--stop-signal=SIGWINCH")
    host.acnspawn("run", "--detach", uuid).expect(0)
    wait_for(lambda: len(stamps(host, uuid)) >= 5, "five starts")
    wait_for(lambda: host.app_status(uuid, "a")["state"] == "ended" and launchers(host, uuid), "the launcher that waits")
    with within(2, "the end of the pod, of whose launcher the delay has 4.5 s,"):  # of 4.8 s, of which systemd waits for the first 0.3
        r = host.acnspawn("enter", uuid, "--", "true").expect(1)
        contains(r.err, "App a of pod %s is not running: it has ended" % uuid)
        host.acnspawn("stop", uuid).expect(0)
    status = host.app_status(uuid, "a")
    equal((status["cause"], status["exitStatus"]), ("exited", 1))
    equal(len(stamps(host, uuid)), 5)


@case
def restart_app_begins_a_new_row(host):
    uuid = crashing(host, "--restart=on-failure", "--restart-delay=20ms", "--restart-limit=2", "---", host.shell("sleep 1000"), policy="all")
    host.acnspawn("run", "--detach", uuid).expect(0)
    wait_for(lambda: host.app_status(uuid, "a")["startsInRow"] == 3 and host.app_status(uuid, "a")["state"] == "ended", "the app is given up")
    # The pod's systemd gives up when the delay of the next start has passed, which nothing tells.
    time.sleep(patience(0.5))
    equal(len(stamps(host, uuid)), 3)
    host.acnspawn("restart-app", uuid, "a").expect(0)
    wait_for(lambda: len(stamps(host, uuid)) == 6, "a new row")
    time.sleep(patience(0.5)) # as above
    host.acnspawn("stop", uuid).expect(0)
    equal(len(stamps(host, uuid)), 6)


def waiting(host, *options, then):
    """A running pod whose app has failed once, and whose systemd waits ten minutes before it starts the app again, which then does THEN."""
    uuid = crashing(host, "--restart=on-failure", "--restart-delay=10min", "--restart-delay-max=10min", *options,
                    then="test $(wc -l </data/runs) -gt 1 || exit 1; " + then)
    p = host.start("run", "--detach", uuid)  # which waits for an app with a health check
    wait_for(lambda: host.app_status(uuid, "a")["nextStart"], "the app waits")
    host.wait_at_rest(uuid)
    return uuid, p


STAYS = "trap 'exit 0' TERM; touch /tmp/up; while :; do sleep 0.05; done"


@case
def restart_app_does_not_wait_for_the_delay(host):
    uuid, p = waiting(host, then=STAYS)
    for starts in 2, 3:  # while it waits, and then while it runs
        host.acnspawn("restart-app", uuid, "a").expect(0)
        status = host.app_status(uuid, "a")
        equal((status["state"], status["starts"], status["startsInRow"], status["nextStart"]), ("running", starts, 1, None))
        wait_for(lambda: len(stamps(host, uuid)) == starts and host.acnspawn("enter", uuid, "--", "test", "-e", "/tmp/up").rc == 0, "the app")
    host.acnspawn("stop", uuid).expect(0)
    host.finish(p).expect(0)
    equal((len(stamps(host, uuid)), host.app_status(uuid, "a")["exitStatus"]), (3, 0))


@case
def restart_app_during_the_delay_tells_what_becomes_of_the_app(host):
    uuid, p = waiting(host, then="exit 7")
    host.acnspawn("restart-app", uuid, "a").expect(0)  # it was executed
    wait_for(lambda: host.app_status(uuid, "a")["nextStart"], "the app waits again")
    status = host.app_status(uuid, "a")
    equal((len(stamps(host, uuid)), status["exitStatus"], status["startsInRow"]), (2, 7, 1))
    r = host.acnspawn("start-app", uuid, "a").expect(1)
    contains(r.err, "starting")
    host.acnspawn("stop-app", uuid, "a").expect(0)
    wait_for(lambda: host.state(uuid) == "exited", "the end of the pod, whose app is stopped")
    host.finish(p).expect(0)


@case
def restart_app_during_the_delay_waits_until_the_app_is_ready(host):
    for end, good in ((STAYS, True), ("exit 7", False)):
        uuid, p = waiting(host, "--health-cmd=test -e /tmp/up", "--health-interval=100ms", then="sleep 0.3; " + end)
        r = host.acnspawn("restart-app", uuid, "a").expect(0 if good else 1)
        equal(len(stamps(host, uuid)), 2)
        if good:
            equal((host.app_status(uuid, "a")["health"]["state"], host.app_status(uuid, "a")["ready"]), ("healthy", True))
        else:
            contains(r.err, "App a")
        host.acnspawn("stop", uuid).expect(0)
        host.finish(p).expect(0 if good else 7)
        host.acnspawn("rm", uuid).expect(0)


@case
def restart_app_during_the_delay_tells_that_the_app_cannot_be_executed(host):
    uuid = host.prepare("--exit-policy=all", host.image(["/no/such"], name="example.com/a"), "--restart=on-failure", "--restart-delay=10min",
                        "--restart-delay-max=10min", "---", host.shell("sleep 1000", name="example.com/b"))
    p = host.start("run", "--detach", uuid)
    for starts in range(2):
        wait_for(lambda: host.app_status(uuid, "a")["nextStart"], "the app waits")
        host.wait_at_rest(uuid)
        r = host.acnspawn("restart-app", uuid, "a").expect(1)
        contains(r.err, "/no/such")
    host.acnspawn("stop", uuid).expect(0)
    host.finish(p)


@case
def restart_app_ends_a_delay_in_the_launcher(host):
    uuid = crashing(host, "--restart=on-failure", "--restart-delay=300ms", "--restart-delay-max=10min",
                    then="test $(wc -l </data/runs) -gt 4 || exit 1; " + STAYS)
    host.acnspawn("run", "--detach", uuid).expect(0)
    wait_for(lambda: len(stamps(host, uuid)) == 4, "four starts")
    wait_for(lambda: host.app_status(uuid, "a")["state"] == "ended" and launchers(host, uuid), "the launcher that waits")
    before = host.app_status(uuid, "a")["nextStart"]
    host.acnspawn("restart-app", uuid, "a").expect(0)
    status = host.app_status(uuid, "a")
    equal((status["state"], status["starts"], status["startsInRow"]), ("running", 5, 1))
    true(before and status["started"] < before, "the app was started at %r, and was due at %r" % (status["started"], before))
    host.acnspawn("stop", uuid).expect(0)


@case
def without_a_limit_it_goes_on(host):
    uuid = crashing(host, "--restart=on-failure", "--restart-delay=1ms", "--restart-delay-max=5ms", "--restart-limit=infinity")
    host.acnspawn("run", "--detach", uuid).expect(0)
    wait_for(lambda: len(stamps(host, uuid)) >= 15, "fifteen starts")
    host.acnspawn("stop", uuid).expect(0)


@case
def exit_policies_and_restarts(host):
    """Whether the pod ends with the app a, whose restarts are used up, although b keeps running; and its exit
    status."""
    other = host.shell("trap 'exit 0' TERM; while :; do sleep 0.05; done", name="example.com/b")
    short = host.shell("sleep 0.6", name="example.com/b")
    limited = ["--restart-delay=5ms", "--restart-limit=1"]
    table = [
        # policy, options of a, how a ends, b, status of the pod, starts of a
        ("on-failure", ["--restart=on-failure"] + limited, "exit 3", other, 3, 2),
        ("on-failure", ["--restart=on-failure"] + limited, "exit 0", short, 0, 1),
        ("on-failure", ["--restart=always"] + limited, "exit 0", other, 0, 2),
        ("any", ["--restart=on-failure"] + limited, "exit 4", other, 4, 2),
        ("any", ["--restart=on-failure"] + limited, "exit 0", other, 0, 1),
        ("any", ["--restart=always"] + limited, "exit 0", other, 0, 2),
        ("all", ["--restart=on-failure"] + limited, "exit 5", short, 5, 2),
        ("all", ["--restart=always"] + limited, "exit 0", short, 0, 2),
        ("on-failure", [], "exit 6", other, 6, 1),
        ("any", [], "exit 0", other, 0, 1),
    ]
    for policy, options, end, b, expected, starts in table:
        uuid = crashing(host, *options, "---", b, then=end, policy=policy)
        r = host.acnspawn("run", uuid)
        what = "%s with %s and '%s'" % (policy, " ".join(options), end)
        equal(r.rc, expected, what)
        equal(len(stamps(host, uuid)), starts, "starts of " + what)
        if b is short:
            equal(host.app_status(uuid, "b")["exitStatus"], 0, "b of " + what)
        host.acnspawn("rm", uuid).expect(0)


@case
def restarting_an_app_by_hand_is_no_end_of_it(host):
    """Also under policies where its end, even a successful one, would end the pod."""
    for options in [], ["--restart=on-failure"]:
        uuid = crashing(host, *options, then="trap 'exit 0' TERM; while :; do sleep 0.05; done", policy="any")
        host.acnspawn("run", "--detach", uuid).expect(0)
        wait_for(lambda: len(stamps(host, uuid)) == 1, "the start")
        host.acnspawn("restart-app", uuid, "a").expect(0)
        wait_for(lambda: len(stamps(host, uuid)) == 2, "the second start")
        equal(host.state(uuid), "running")
        host.acnspawn("kill", uuid).expect(0)
        wait_for(lambda: host.state(uuid) == "exited", "the end of the pod")
        host.acnspawn("rm", uuid).expect(0)


@case
def an_app_starts_after_those_it_names(host):
    slow = host.image(["/bin/sh", "-c", "echo main >>/data/order"], name="example.com/slow", app={"eventHandlers": [
        {"name": "pre-start", "exec": ["/bin/sh", "-c", "sleep 0.3; echo before >>/data/order"]}]})
    fast = host.shell("echo fast >>/data/order", name="example.com/fast")
    host.run("--name=p", "--volume=data,kind=empty,mode=0777", "--mount=data:/data", fast, "--after=slow", slow)
    order = read_text(host.one_pod() + "/volumes/data/order").split()
    equal(order[0], "before")


@case
def waiting_for_oneself_is_refused(host):
    a, b = host.shell("true", name="example.com/a"), host.shell("true", name="example.com/b")
    r = host.acnspawn("prepare", a, "--after=b", b, "--after=a").expect(1)
    contains(r.err, "App a is to start after an app that is to start after it")
    r = host.acnspawn("prepare", a, "--after=c").expect(1)
    contains(r.err, "App a is to start after c, but the pod has no such app")
    equal(host.pods(), [])


@case
def an_invalid_value_is_refused_with_the_valid_ones(host):
    r = host.acnspawn("prepare", host.shell("true"), "--restart=maybe").expect(2)
    contains(r.err, "Invalid value 'maybe' for --restart: must be no, on-failure or always")


@case
def the_signal_that_stops_an_app_can_be_chosen(host):
    uuid = host.detach(host.shell("trap 'echo usr; exit 3' USR1; trap '' TERM; echo ready; while :; do sleep 0.05; done"),
                       "--stop-signal=SIGUSR1")
    wait_for(lambda: "ready" in host.acnspawn("logs", uuid).out, "the app is ready")
    host.acnspawn("stop", uuid).expect(0)
    equal(host.app_status(uuid, "image1")["exitStatus"], 3)


@case
def a_health_check_counts_no_restart_twice(host):
    """Dependencies of the check must not start the app again; nor does it matter who counts, which is the supervisor if the check restarts the app."""
    for check, action in ("true", "none"), ("false", "none"), ("true", "restart"):
        uuid = host.prepare("--volume=data,kind=empty,mode=0777", "--mount=data:/data", host.shell("echo x >>/data/runs; sleep 0.2; exit 5"),
                            "--restart=on-failure", "--restart-delay=50ms", "--restart-limit=4", "--health-cmd=" + check, "--health-interval=100ms",
                            "--health-on-failure=" + action)
        host.acnspawn("run", uuid).expect(5)
        equal(read_text(host.pod_dir(uuid) + "/volumes/data/runs").count("x"), 5, "number of starts")


@case
def a_check_ends_with_its_app(host):
    uuid = host.detach("--exit-policy=all", "--volume=data,kind=empty,mode=0777", "--mount=data:/data",
                       host.shell("sleep 1; exit 1"), "--health-cmd=echo x >>/data/checks", "--health-interval=100ms", "---", host.shell("sleep 1000"))
    wait_for(lambda: host.app_status(uuid, "image1")["state"] == "ended", "end of the app")
    host.wait_at_rest(uuid)  # the last check has ended
    before = read_text(host.pod_dir(uuid) + "/volumes/data/checks")
    true(before.count("x") > 2, "there were %d checks" % before.count("x"))
    time.sleep(0.5)  # for five of them
    equal(read_text(host.pod_dir(uuid) + "/volumes/data/checks"), before, "checks")
    host.acnspawn("stop", uuid).expect(0)


@case
def an_app_whose_last_start_is_due_is_not_given_up(host):
    uuid = host.prepare("--exit-policy=all", host.shell("exit 5"), "--restart=on-failure", "--restart-delay=1500ms", "--restart-limit=2",
                        "---", host.shell("sleep 1000"))
    host.acnspawn("run", "--detach", uuid).expect(0)
    wait_for(lambda: host.app_status(uuid, "image1")["starts"] == 2 and host.app_status(uuid, "image1")["state"] == "ended", "the second start")
    wait_for(lambda: launchers(host, uuid), "the launcher")  # systemd has waited for a part of the delay, and the launcher waits for the rest
    shown = host.acnspawn("status", uuid).expect(0).out
    contains(shown, "restarted 1 of at most 2 times in a row, again in ")
    wait_for(lambda: "restarted 2 of at most 2 times in a row, and given up" in host.acnspawn("status", uuid).out, "the end of that")
    equal(host.app_status(uuid, "image1")["starts"], 3)
    host.acnspawn("stop", uuid).expect(0)


main()
