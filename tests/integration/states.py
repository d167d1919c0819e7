#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What begins while something else is under way: a check, a pause, a stop, another call, the end of the pod, or the loss of the connection
to the pod's systemd. Replies tell what has happened, and no call waits for an event that cannot occur."""

import signal
import socket

from pod_interface import *

LONG = os.environ.get("ACNSPAWN_TEST_LONG") == "1"
STAY = "trap 'exit 0' TERM; touch /out/up; while :; do sleep 0.05; done"
# Ends once /out/end exists, after a request to stop.
DRAINS = "trap ': >/out/stopping; while ! test -e /out/end; do sleep 0.05; done; exit 0' TERM; touch /out/up; while :; do sleep 0.05; done"
NOTIFY = [{"name": "appc.io/executor/supports-systemd-notify", "value": "true"}]
HEALTH = ["--health-interval=100ms", "--health-retries=1"]


def empty_pod(host, *options):
    return host.acnspawn("run", "--detach", "--exit-policy=never", "--name=p", *options).expect(0).out.strip()


def fetch(host, script=STAY, name="example.com/stay", **more):
    return host.acnspawn("fetch", host.shell(script, name=name, **more)).expect(0).out.strip()


def touch(host, uuid, app, name):
    """By a process of the app: it may not see files that are written to its upper directory from outside."""
    equal(Connection(host, uuid).call("Exec", app=app, command=["touch", "/out/" + name])["exitStatus"], 0)


def file_exists(host, app, name):
    return os.path.exists(os.path.join(host.upper(app), "out", name))


def await_file(host, app, name):
    wait_for(lambda: file_exists(host, app, name), "%s of app %s" % (name, app))


def send_call(host, uuid, method, **parameters):
    """Sends a call, and returns its connection without waiting for the reply."""
    c = Connection(host, uuid)
    c.send(method, parameters)
    return c


def answer(c):
    reply = c.receive()
    return (reply["error"].replace(POD, ""), reply["parameters"]) if "error" in reply else reply["parameters"]


def hold_preparation(supervisor, before):
    """Stops the process that prepares an app, which is not among the children of BEFORE. It takes some milliseconds."""
    return hold_soon("the process that prepares the app", lambda: set(children_of(supervisor)) - before, "prepare-apps")


def app_of(c, name):
    return next((a for a in c.call("Describe")["apps"] if a["name"] == name), None)


def adding(name, image_id, image="example.com/stay", **more):
    return {"definition": {"apps": [dict({"image": image, "name": name}, **more)]}, "imageID": image_id}


def annotated(**settings):
    return [{"name": "acnspawn/" + k.replace("_", "-"), "value": v} for k, v in settings.items()]


# --- Checks ------------------------------------------------------------------------------------------------------------

def app_with_check(host, action, name):
    """An app that counts its health checks; they fail once it is asked to stop."""
    check = "echo x >>/out/checks; ! test -e /out/stopping"
    return [host.shell(DRAINS, name="example.com/" + name), "--name=" + name, "--health-cmd=" + check, *HEALTH, "--health-on-failure=" + action,
            "--stop-timeout=60s"]


def checks(host, app):
    return len(host.written(app, "out/checks"))


def await_checks(host, app):
    await_file(host, app, "stopping")
    before = checks(host, app)
    wait_for(lambda: checks(host, app) >= before + 6, "further checks of app %s" % app)


@case
def checks_are_ignored_once_a_stop_is_requested(host):
    actions = ("restart", "stop", "kill")
    words = [w for a in actions for w in ("---", *app_with_check(host, a, a))]
    uuid = host.detach("--name=p", "--exit-policy=on-failure", *app_with_check(host, "none", "other"), *words)
    for a in actions:
        host.wait_up(a)
    stops = {a: send_call(host, uuid, "StopApp", app=a) for a in actions}
    c = Connection(host, uuid)
    for a in actions:
        await_checks(host, a)
        equal((c.state(a), app_of(c, a)["starts"]), ("stopping", 1), a)
        touch(host, uuid, a, "end")
        equal(answer(stops[a]), {}, a)
        found = host.app_status(uuid, a)
        equal((found["cause"], found["exitStatus"], found["starts"]), ("exited", 0, 1), a)
    equal(host.state(uuid), "running")
    host.acnspawn("stop", "--force", uuid).expect(0)


@case
def a_failing_check_does_not_interfere_with_a_change(host):
    """The app is replaced, restarted and removed, although its failing check would restart it while it stops."""
    uuid = host.detach("--name=p", "--exit-policy=never", *app_with_check(host, "restart", "a"))
    host.wait_up("a")
    new = host.shell(STAY, name="example.com/new")
    p = host.start("update-app", "p", "a", "--image=" + new)
    await_checks(host, "a")
    touch(host, uuid, "a", "end")
    equal((host.finish(p).rc, host.finish(p).err), (0, ""))
    equal(app_of(Connection(host, uuid), "a")["image"], "example.com/new")
    for method, parameters in ("RestartApp", {}), ("RemoveApp", {"stop": True}):
        c = Connection(host, uuid)
        c.call("StopApp", app="b", timeoutUSec=0)
        c.call("RemoveApp", app="b")
        host.acnspawn("add-app", "p", "--start", *app_with_check(host, "restart", "b")).expect(0)
        host.wait_up("b")
        call = send_call(host, uuid, method, app="b", **parameters)
        await_checks(host, "b")
        touch(host, uuid, "b", "end")
        equal(answer(call), {}, method)
        if method == "RestartApp":
            equal(host.app_status(uuid, "b")["starts"], 2)
    equal(app_of(c, "b"), None)
    host.acnspawn("stop", "--force", uuid).expect(0)


# --- The metadata service ----------------------------------------------------------------------------------------------

GET = "get() { wget -q -O - --header 'Metadata-Flavor: AppContainer' $AC_METADATA_URL/acMetadata/v1/$1; }; "


def read_metadata(host, path):
    return host.acnspawn("enter", "--app=a", "p", "--", "sh", "-c", GET + "get " + path)


@case
def a_launched_app_finds_itself_in_the_metadata(host):
    """The app reads its metadata before its launch is done, and its health check needs the result."""
    uuid = empty_pod(host)
    id = fetch(host, GET + "get apps/$AC_APP_NAME/image/id >/out/id; get pod/manifest >/out/manifest && touch /out/good; " + STAY)
    check = ("--health-cmd=test -e /out/good", "--health-interval=100ms", "--health-start-period=60s")
    host.acnspawn("launch-group", "p", "example.com/stay", "--name=a", *check, "---", "example.com/stay", "--name=b", *check).expect(0)
    for app in "a", "b":
        equal(host.written(app, "out/id").decode(), id)
        equal([x["name"] for x in json.loads(host.written(app, "out/manifest"))["apps"]], ["a", "b"])
    host.acnspawn("stop", uuid).expect(0)


@case
def the_metadata_service_follows_each_change(host):
    first, second = fetch(host), fetch(host, STAY + "; true", "example.com/second")
    uuid = host.detach("--name=p", "--exit-policy=never", "example.com/stay", "--name=a")
    manifest = lambda: json.loads(read_metadata(host, "pod/manifest").expect(0).out)
    equal([a["name"] for a in manifest()["apps"]], ["a"])
    host.acnspawn("add-app", "p", "--start", "example.com/stay", "--name=b").expect(0)
    wait_for(lambda: read_metadata(host, "apps/b/image/id").out == first, "the app that was added")
    host.acnspawn("update-app", "p", "b", "--image=example.com/second").expect(0)
    wait_for(lambda: read_metadata(host, "apps/b/image/id").out == second, "the app that was replaced")
    host.acnspawn("rm-app", "--force", "p", "b").expect(0)
    wait_for(lambda: read_metadata(host, "apps/b/image/id").rc != 0, "the end of the app that was removed")
    equal(manifest()["apps"], json.loads(host.acnspawn("cat-manifest", "p").expect(0).out)["apps"])
    host.acnspawn("stop", uuid).expect(0)


def descendants_of(pid):
    return [p for child in children_of(pid) for p in [child, *descendants_of(child)]]


@case
def a_check_that_fails_as_its_app_has_ended_does_not_count(host):
    """The supervisor finds both at once, and may read the report of the check first."""
    uuid, names = empty_pod(host), ["a%d" % i for i in range(4)]
    id, c = fetch(host), Connection(host, uuid)
    leader, supervisor = host.leader(uuid), host.supervisor(uuid)
    check = "test -e /out/slow || exit 0; touch /out/checks; while :; do sleep 0.1; done"
    settings = annotated(health_cmd=check, health_interval="100ms", health_retries="1", health_on_failure="restart", health_timeout="60s")
    for n in names:
        c.call("AddApp", **adding(n, id, annotations=settings))
        equal(c.call("StartApp", app=n), {})
        touch(host, uuid, n, "slow")
        await_file(host, n, "checks")

    def running(word):
        return processes_where(lambda pid: word in read_text("/proc/%d/cmdline" % pid) and "/launch" not in read_text("/proc/%d/cmdline" % pid),
                               descendants_of(leader))
    # Each of them is a process that may be about to execute another.
    checks, mains = wait_for(lambda: [x for x in [(running("/out/slow"), running("/out/up"))] if [len(pids) for pids in x] == [4, 4]],
                             "four checks and four apps")[0]
    os.kill(supervisor, signal.SIGSTOP)
    try:
        for pids in checks, mains:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            wait_for(lambda: all(has_ended(pid) for pid in pids), "their end")
            wait_at_rest(leader)
    finally:
        os.kill(supervisor, signal.SIGCONT)
    wait_for(lambda: all(c.state(n) == "exited" for n in names), lambda: "the ends of the apps: %s" % c.call("Describe")["apps"])
    equal([app_of(c, n)["starts"] for n in names], [1] * len(names))
    host.acnspawn("stop", uuid).expect(0)


# --- Pauses ------------------------------------------------------------------------------------------------------------

@case
def timeouts_stop_while_a_pod_is_paused(host):
    """The time after which a call kills an app, the stop time-out of an app's unit, and that of a command, with a pod that is paused, and with one
    whose cgroup is frozen."""
    limit = patience(1.5)
    end = "n=0; while [ $((n += 1)) -le 10 ]; do sleep %.3f; done; exit 7" % (limit / 30)  # a third of it
    script = "trap ': >/out/stopping; %s' TERM; touch /out/up; while :; do sleep 0.05; done" % end
    called, by_unit = ("a", "b"), ("c", "d")
    uuid = host.detach("--name=p", "--exit-policy=never", "--stop-timeout=60s", host.shell(STAY, name="example.com/e"),
                       *sum((["---", host.shell(script, name="example.com/" + app)] for app in called), []),
                       *sum((["---", host.shell(script, name="example.com/" + app), "--stop-timeout=%dms" % (limit * 1000)] for app in by_unit), []))
    c = Connection(host, uuid)
    for app in "a", "b", "c", "d", "e":
        host.wait_up(app)
    for app, other in zip(called, by_unit):
        stop = send_call(host, uuid, "StopApp", app=app, timeoutUSec=int(limit * 1e6))
        stop_of_other = send_call(host, uuid, "StopApp", app=other)
        command = send_call(host, uuid, "Exec", app="e", command=["sh", "-c", "touch /out/of-%s; %s" % (app, end)],
                            timeoutUSec=int(limit * 1e6))
        for name, file in (app, "stopping"), (other, "stopping"), ("e", "of-" + app):
            await_file(host, name, file)
        if app == "a":
            equal(c.call("Pause"), {})
        else:
            freezer = cgroup_of(host, uuid) + "/cgroup.freeze"
            with open(freezer, "w") as f:
                f.write("1")
        time.sleep(limit + 0.5)  # longer than the app has to stop
        if app == "a":
            equal(c.call("Resume"), {})
        else:
            with open(freezer, "w") as f:
                f.write("0")
        equal((answer(stop), answer(stop_of_other)), ({}, {}))
        for stopped in app, other:
            equal((host.app_status(uuid, stopped)["exitStatus"], host.app_status(uuid, stopped)["cause"]), (7, "exited"), stopped)
        equal(answer(command)["exitStatus"], 7, "status of the command")
    host.acnspawn("stop", uuid).expect(0)


@case
def a_start_timeout_stops_while_a_pod_is_paused(host):
    """An app gets ready after the pause; another has the rest of its time then, and does not."""
    limit = patience(2)
    uuid = empty_pod(host)
    id = fetch(host, "touch /out/up; while ! test -e /out/go; do sleep 0.05; done; touch /out/good; " + STAY)
    settings = annotated(start_timeout="%dms" % (limit * 1000), health_cmd="test -e /out/good", health_interval="100ms", health_start_period="60s")
    c = Connection(host, uuid)
    for app in "a", "b":
        c.call("AddApp", **adding(app, id, annotations=settings))
    starts = {app: send_call(host, uuid, "StartApp", app=app) for app in ("a", "b")}
    for app in "a", "b":
        await_file(host, app, "up")
    equal(c.call("Pause"), {})
    time.sleep(limit + 0.5)
    equal(c.call("Resume"), {})
    touch(host, uuid, "a", "go")
    equal((answer(starts["a"]), app_of(c, "a")["starts"]), ({}, 1))
    equal(answer(starts["b"])[0], "JobFailed")
    equal(host.app_status(uuid, "b")["cause"], "not-ready")
    host.acnspawn("stop", uuid).expect(0)


@case
def timeouts_of_handlers_and_of_a_run_stop_while_a_pod_is_paused(host):
    """An app runs its pre-start handler, another one its post-stop handler, and a third one has a limit of its run time."""
    limit = patience(2)
    uuid = empty_pod(host)
    work = "touch /out/%%s; n=0; while [ $((n += 1)) -le 10 ]; do sleep %.3f; done; touch /out/%%s-done" % (limit / 25)  # less than half of it
    handlers = lambda name, event: {"eventHandlers": [{"name": event, "exec": ["/bin/sh", "-c", work % (name, name)]}]}
    pre, post = fetch(host, STAY, "example.com/pre", app=handlers("pre", "pre-start")), fetch(host, STAY, "example.com/post", app=handlers("post", "post-stop"))
    run = fetch(host, work % ("run", "run") + "; exit 7", "example.com/run")
    c, limited = Connection(host, uuid), "%dms" % (limit * 1000)
    c.call("AddApp", **adding("a", pre, "example.com/pre", annotations=annotated(start_timeout=limited)))
    c.call("AddApp", **adding("b", post, "example.com/post", annotations=annotated(stop_timeout=limited)))
    c.call("AddApp", **adding("c", run, "example.com/run", annotations=annotated(max_runtime=limited)))
    equal(c.call("StartApp", app="b"), {})
    await_file(host, "b", "up")
    equal(c.call("StartApp", app="c"), {})
    start, stop = send_call(host, uuid, "StartApp", app="a"), send_call(host, uuid, "StopApp", app="b")
    for app, name in ("a", "pre"), ("b", "post"), ("c", "run"):
        await_file(host, app, name)
    equal(c.call("Pause"), {})
    time.sleep(limit + 0.5)
    equal(c.call("Resume"), {})
    equal((answer(start), answer(stop)), ({}, {}))
    for app, name in ("a", "pre-done"), ("b", "post-done"), ("c", "run-done"):
        await_file(host, app, name)
    wait_for(lambda: c.state("c") == "exited", "the end of app c")
    found = host.app_status(uuid, "c")
    equal((found["exitStatus"], found["cause"]), (7, "exited"))
    equal((c.state("a"), app_of(c, "a")["starts"], host.app_status(uuid, "b")["cause"]), ("running", 1, "exited"))
    host.acnspawn("stop", uuid).expect(0)


@contextlib.contextmanager
def extensions(host, supervisor):
    """A function that returns the extensions of time-outs that the supervisor has sent to the pod's systemd meanwhile, in microseconds."""
    log = os.path.join(host.tmp, "strace.log")
    p = subprocess.Popen(["strace", "-qq", "-s", "200", "-e", "trace=sendmsg", "-o", log, "-p", str(supervisor)])
    try:
        wait_for(lambda: tracer_of(supervisor) == p.pid, "that the supervisor is traced")
        yield lambda: [int(n) for n in re.findall(r"EXTEND_TIMEOUT_USEC=(\d+)", read_text(log))]
    finally:
        p.terminate()
        p.wait()


@case
def a_reexec_of_the_pods_systemd_does_not_count_the_time_of_a_pause(host):
    """An app with a limit of its run time, and one that a call gives more time to stop than its unit: what the supervisor sends is looked at, as
    systemd may look at its timers before it has read that."""
    need_strace()
    uuid = empty_pod(host)
    end = "while ! test -e /out/end; do sleep 0.05; done; exit 7"
    id, drains = fetch(host, "touch /out/up; " + end), fetch(host, DRAINS, "example.com/drains")
    c = Connection(host, uuid)
    c.call("AddApp", **adding("a", id, annotations=annotated(max_runtime="5min")))
    c.call("AddApp", **adding("b", drains, "example.com/drains", annotations=annotated(stop_timeout="1min")))
    equal(c.call("StartApp", app="b"), {})
    await_file(host, "b", "up")
    began = time.monotonic()
    stop = send_call(host, uuid, "StopApp", app="b", timeoutUSec=int(300e6))
    await_file(host, "b", "stopping")
    equal(c.call("StartApp", app="a"), {})
    await_file(host, "a", "up")
    equal(c.call("Pause"), {})
    time.sleep(2)  # the time that does not count
    equal(c.call("Resume"), {})
    with extensions(host, host.supervisor(uuid)) as sent:
        reexecute(host.leader(uuid))
        wait_for(lambda: len(sent()) >= 2, "two extensions")
        true(min(sent()) >= (300 - (time.monotonic() - began - 2)) * 1e6, "what was sent: %s" % sent())
    for app in "a", "b":
        touch(host, uuid, app, "end")
    equal(answer(stop), {})
    wait_for(lambda: c.state("a") == "exited", "the end of app a")
    for app, status in ("a", 7), ("b", 0):
        found = host.app_status(uuid, app)
        equal((found["exitStatus"], found["cause"]), (status, "exited"), app)
    host.acnspawn("stop", uuid).expect(0)


@case
def time_that_apps_ask_for_is_sent_again_to_a_systemd_that_executes_itself(host):
    """An app asks for more time to run, another one for more to stop. What the supervisor sends is looked at."""
    need_strace()
    uuid = empty_pod(host)
    more, end = "poke notify EXTEND_TIMEOUT_USEC=900000000", "while ! test -e /out/end; do sleep 0.05; done; exit 7"
    run = fetch(host, "poke notify READY=1; touch /out/up; while ! test -e /out/go; do sleep 0.05; done; %s; touch /out/asked; %s" % (more, end),
                "example.com/run", annotations=NOTIFY)
    drains = fetch(host, "trap '%s; : >/out/stopping; %s' TERM; poke notify READY=1; touch /out/up; while :; do sleep 0.05; done" % (more, end),
                   "example.com/drains", annotations=NOTIFY)
    c, supervisor = Connection(host, uuid), host.supervisor(uuid)
    c.call("AddApp", **adding("a", run, "example.com/run", annotations=NOTIFY + annotated(max_runtime="5min")))
    c.call("AddApp", **adding("b", drains, "example.com/drains", annotations=NOTIFY + annotated(stop_timeout="5min")))
    for app in "a", "b":
        equal(c.call("StartApp", app=app), {})
        await_file(host, app, "up")
    touch(host, uuid, "a", "go")
    stop = send_call(host, uuid, "StopApp", app="b")
    await_file(host, "a", "asked")
    await_file(host, "b", "stopping")
    host.wait_at_rest(uuid)
    with extensions(host, supervisor) as sent:
        reexecute(host.leader(uuid))
        wait_for(lambda: len(sent()) >= 2, "two extensions")
        values = sent()
    true(min(values) > 400e6, "what was sent: %s" % values)
    for app in "a", "b":
        touch(host, uuid, app, "end")
    equal(answer(stop), {})
    host.acnspawn("stop", uuid).expect(0)


@case
def the_time_for_a_delay_before_a_restart_is_extended_in_a_pause(host):
    """Its launcher asks for an hour more than the delay, which a pause may outlast: what the supervisor sends is looked at."""
    need_strace()
    uuid = empty_pod(host)
    settings = annotated(health_cmd="! test -e /out/bad", health_interval="100ms", health_retries="1", health_on_failure="restart",
                         restart_delay="1min", start_timeout="2min")
    c, supervisor, leader = Connection(host, uuid), host.supervisor(uuid), host.leader(uuid)
    c.call("AddApp", **adding("a", fetch(host), annotations=settings))
    equal(c.call("StartApp", app="a"), {})
    c.call("Exec", app="a", command=["touch", "/out/bad"])  # whose process the restart may end

    def find_delay():
        return next((p for p in children_of(leader) if "\0delay\0" in of_processes(lambda pid: read_text("/proc/%d/cmdline" % pid), [p]).get(p, "")), None)
    delay = wait_for(find_delay, "the launcher that waits")
    wait_at_rest(delay, supervisor, leader)
    with extensions(host, supervisor) as sent:
        equal(c.call("Pause"), {})
        wait_for(sent, "an extension")
    equal(c.call("Resume"), {})
    host.acnspawn("stop", uuid).expect(0)


@case
def output_is_logged_after_a_long_pause(host):
    """The journal of the pod accepts nothing during the pause."""
    if not LONG:
        raise Skip("takes 12 seconds; ACNSPAWN_TEST_LONG=1")
    script = "touch /out/up; while ! test -e /out/go; do sleep 0.05; done; seq 1 100000; echo last; " + STAY
    uuid = host.detach("--name=p", host.shell(script, name="example.com/a"), "--log-size=infinity")
    host.wait_up("a")
    leader = host.leader(uuid)
    journal, = processes_where(lambda pid: name_of(pid).startswith("systemd-journal"), children_of(leader))
    os.kill(journal, signal.SIGSTOP)
    touch(host, uuid, "a", "go")
    writer = wait_for(lambda: processes_where(lambda pid: name_of(pid) == "seq" and uuid in read_text("/proc/%d/cgroup" % pid)), "the writer")
    wait_for(lambda: at_rest(*writer), "that it waits for the journal")
    host.acnspawn("pause", uuid).expect(0)
    os.kill(journal, signal.SIGCONT)
    time.sleep(12)
    host.acnspawn("resume", uuid).expect(0)
    wait_for(lambda: "\nlast\n" in host.acnspawn("logs", "--tail=5", uuid).out, "the last line")
    host.acnspawn("stop", uuid).expect(0)


@case
def the_end_of_an_app_at_the_start_of_a_pause_is_noticed(host):
    """The pod's systemd reports the end, and is stopped before it answers the query for the state of the app. Queries with a time-out would
    fail, after a second here."""
    os.environ["SYSTEMD_BUS_TIMEOUT"] = "1s"
    try:
        uuid = host.detach("--name=p", host.shell("touch /out/up; exec sleep 1000", name="example.com/a"))
    finally:
        del os.environ["SYSTEMD_BUS_TIMEOUT"]
    host.wait_up("a")
    leader, supervisor = host.leader(uuid), host.supervisor(uuid)
    host.wait_at_rest(uuid)
    pid, = [p for p in children_of(leader) if b"sleep" in open("/proc/%d/cmdline" % p, "rb").read()]
    os.kill(supervisor, signal.SIGSTOP)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: has_ended(pid), "the end of the app")
    wait_for(lambda: at_rest(leader), "what systemd does about it")
    os.kill(leader, signal.SIGSTOP)
    os.kill(supervisor, signal.SIGCONT)
    time.sleep(2.5)  # the query would fail meanwhile
    os.kill(leader, signal.SIGCONT)
    host.acnspawn("status", "--wait=20s", uuid, timeout=40)
    equal((host.state(uuid), host.app_status(uuid, "a")["signal"]), ("exited", 9))


@case
def a_pod_that_ends_is_not_paused(host):
    uuid = host.detach("--name=p", "--stop-timeout=60s", host.shell(DRAINS, name="example.com/a"))
    host.wait_up("a")
    stop = send_call(host, uuid, "Stop")
    await_file(host, "a", "stopping")
    c = Connection(host, uuid)
    equal(c.call("Pause")[0], "PodEnds")
    equal(c.call("Describe")["state"], "stopping")
    equal(c.call("Resume"), {})
    touch(host, uuid, "a", "end")
    equal(answer(stop), {"exitStatus": 0})


@case
def pauses_are_done_in_their_order(host):
    uuid = host.detach("--name=p", host.shell(STAY, name="example.com/a"))
    host.wait_up("a")
    calls = [send_call(host, uuid, "Pause" if i % 2 == 0 else "Resume") for i in range(40)]
    equal([answer(x) for x in calls], [{}] * 40)
    equal(host.state(uuid), "running")
    equal(host.acnspawn("enter", uuid, "--", "echo", "on").expect(0).out, "on\n")
    host.acnspawn("stop", uuid).expect(0)


# --- What is committed -------------------------------------------------------------------------------------------------

@case
def a_replacement_that_is_not_ready_is_not_on_disk(host):
    uuid = host.detach("--name=p", "--exit-policy=never", host.shell(STAY, name="example.com/web"), "--name=web", "---",
                       host.shell(STAY, name="example.com/other"), "--name=other")
    never = host.shell("touch /out/up; while :; do sleep 0.05; done", name="example.com/never", annotations=NOTIFY)
    p = host.start("update-app", "p", "web", "--image=" + never, "--ready-timeout=60s")
    c = Connection(host, uuid)
    wait_for(lambda: (app_of(c, "web")["image"], c.state("web")) == ("example.com/never", "starting"), "the new app")
    on_disk = lambda: {a["name"]: a["image"]["name"] for a in json.loads(read_text(host.pod_dir(uuid) + "/pod"))["apps"]}
    reply = c.call("UpdateApp", app="other", tasks=50)
    true(reply == {} or reply[0] == "NotSupported", str(reply))
    equal(on_disk()["web"], "example.com/web")
    records = lambda: [n for n in os.listdir(host.pod_dir(uuid) + "/status") if "replace" in n]
    equal(len(records()), 1, "records of replacements")
    p.terminate()
    host.finish(p)
    host.acnspawn("stop", "--force", uuid).expect(0)
    equal(records(), [])


@case
def limits_that_are_changed_while_a_replacement_is_prepared_hold(host):
    uuid = host.detach("--name=p", "--exit-policy=never", host.shell(STAY, name="example.com/web"), "--name=web")
    new = host.shell(STAY, name="example.com/new")
    c, supervisor = Connection(host, uuid), host.supervisor(uuid)
    before = set(children_of(supervisor))
    p = host.start("update-app", "p", "web", "--image=" + new)
    preparation = hold_preparation(supervisor, before)
    reply = c.call("UpdateApp", app="web", tasks=77)
    os.kill(preparation, signal.SIGCONT)
    equal((host.finish(p).rc, app_of(c, "web")["image"]), (0, "example.com/new"))
    if reply == {}:
        contains(host.acnspawn("cat-manifest", "p").expect(0).out, '"77"')
        contains(host.acnspawn("cat", "p").expect(0).out, "TasksMax=77")
    host.acnspawn("stop", uuid).expect(0)


@case
def a_later_app_of_the_same_name_inherits_no_limits(host):
    """A call has changed the limits of an app that was removed."""
    uuid = empty_pod(host)
    id = fetch(host)
    c = Connection(host, uuid)
    c.call("AddApp", **adding("a", id))
    equal(c.call("StartApp", app="a"), {})
    if c.call("UpdateApp", app="a", tasks=50) != {}:
        raise Skip("this host cannot limit processes")
    place = "/proc/%d/root/run/systemd/system.control" % host.leader(uuid)
    equal(os.listdir(place), ["app-a.slice.d"])
    equal(c.call("RemoveApp", app="a", stop=True), {})
    equal(os.listdir(place), [])
    host.acnspawn("stop", uuid).expect(0)


# --- Launches ----------------------------------------------------------------------------------------------------------

def launch(host, uuid, *names, id):
    """Requests the launch of a group of apps that do not get ready."""
    return send_call(host, uuid, "LaunchGroup", apps=[adding(n, id) for n in names])


def begin_launch(host):
    """The apps a and b of a new pod start. Returns the pod, the ID of their image, a connection, and that of the launch."""
    uuid = empty_pod(host)
    never = fetch(host, STAY, annotations=NOTIFY)
    c = Connection(host, uuid)
    waiting = launch(host, uuid, "a", "b", id=never)
    wait_for(lambda: app_of(c, "b") and c.state("b") == "starting", "the launch")
    return uuid, never, c, waiting


@case
def a_launch_that_does_not_get_ready_blocks_nothing(host):
    uuid = empty_pod(host)
    never, id = fetch(host, STAY, "example.com/stay", annotations=NOTIFY), None
    other = fetch(host, STAY, "example.com/other")
    c = Connection(host, uuid)
    waiting = launch(host, uuid, "a", "b", id=never)
    wait_for(lambda: c.state("a") == c.state("b") == "starting" if app_of(c, "b") else False, "the launch")
    with within(5, "changes of other apps"):
        equal(c.call("AddApp", **adding("x", other, "example.com/other"))["app"], "x")
        equal(c.call("StartApp", app="x"), {})
        equal(c.call("ReplaceApp", app="x", image="example.com/other", imageID=other)["replaced"], False)
        equal(c.call("LaunchGroup", apps=[adding("y", other, "example.com/other")])["apps"], ["y"])
        equal(c.call("RemoveApp", app="y", stop=True), {})
    on_disk = lambda: [a["name"] for a in json.loads(host.acnspawn("cat-manifest", "p").expect(0).out)["apps"]]
    equal(on_disk(), ["x"])
    equal(c.call("RemoveApp", app="a")[0], "WrongState")
    # The removal of one app undoes the whole launch.
    with within(10, "the removal of an app of the group"):
        equal(c.call("RemoveApp", app="a", stop=True), {})
    refused = answer(waiting)
    equal(refused[0], "AppRefused")
    contains(refused[1]["message"], "The launch was cancelled: App a is removed")
    contains(refused[1]["hint"], "None of the 2 apps of the group was kept")
    equal(([a["name"] for a in c.call("Describe")["apps"]], on_disk()), (["x"], ["x"]))
    wait_for(lambda: os.listdir(host.pod_dir(uuid) + "/apps") == ["x"], "the files of the group to be removed")
    host.acnspawn("stop", uuid).expect(0)


@case
def a_replacement_follows_the_launch_of_its_app(host):
    """When it was queued, the app was another one of the name."""
    uuid = empty_pod(host)
    late = "while ! test -e /out/go; do sleep 0.05; done; poke notify READY=1; " + STAY
    id, never = fetch(host), fetch(host, late, "example.com/never", annotations=NOTIFY)
    c, supervisor = Connection(host, uuid), host.supervisor(uuid)
    for kept in False, True:
        c.call("AddApp", **adding("x", id))
        equal(c.call("StartApp", app="x"), {})
        before = set(children_of(supervisor))
        with promptly():
            adds = send_call(host, uuid, "AddApp", **adding("b", id))
            held = hold_preparation(supervisor, before)
        calls = [send_call(host, uuid, "RemoveApp", app="x", stop=True),
                 send_call(host, uuid, "LaunchGroup", apps=[adding("x", id), adding("y", never, "example.com/never")])]
        for _ in range(2):
            c.call("Describe")  # the calls before are taken
        calls.append(send_call(host, uuid, "ReplaceApp", app="x", image="example.com/never", imageID=never))
        for _ in range(2):
            c.call("Describe")
        os.kill(held, signal.SIGCONT)
        equal((answer(adds)["app"], answer(calls[0])), ("b", {}))
        wait_for(lambda: app_of(c, "y") and (c.state("x"), c.state("y")) == ("running", "starting"), lambda: "the launch: %s" % c.call("Describe")["apps"])
        true(not is_answered(calls[2], 0.5), "the replacement waits")
        if kept:
            touch(host, uuid, "y", "go")
            equal(answer(calls[1])["apps"], ["x", "y"])
            wait_for(lambda: app_of(c, "x")["image"] == "example.com/never", "the replacement")
            break
        host.wait_at_rest(uuid)
        n = len(clients_of(supervisor))
        waits = host.start("wait", "p", "x")
        wait_for(lambda: len(clients_of(supervisor)) == n + 1 and at_rest(waits.pid), "that the command waits")
        calls[1].socket.close()
        host.finish(waits, 20)
        equal(answer(calls[2]), ("NoSuchApp", {"app": "x"}))
        equal([a["name"] for a in c.call("Describe")["apps"]], ["b"])
        equal(c.call("RemoveApp", app="b"), {})
    host.acnspawn("stop", "--force", uuid).expect(0)


@case
def a_launch_ends_with_its_caller(host):
    uuid, never, c, waiting = begin_launch(host)
    follower = send_call(host, uuid, "RemoveApp", app="a")
    equal(answer(follower)[0], "WrongState")
    waiting.socket.close()
    wait_for(lambda: c.call("Describe")["apps"] == [], "the apps of the group to be removed")
    host.acnspawn("stop", uuid).expect(0)


@case
def a_pod_ends_while_a_launch_does_not_get_ready(host):
    uuid, never, c, waiting = begin_launch(host)
    removal = send_call(host, uuid, "AddApp", **dict(adding("x", never), parent="a"))
    host.acnspawn("stop", uuid).expect(0)
    equal((answer(waiting)[0], answer(removal)[0]), ("PodEnds", "PodEnds"))
    equal(json.loads(host.acnspawn("cat-manifest", "p").expect(0).out)["apps"], [])


# --- The start of a pod ------------------------------------------------------------------------------------------------

@case
def a_pod_does_not_wait_for_an_app_that_was_stopped_or_removed(host):
    never = host.shell(STAY, name="example.com/never", annotations=NOTIFY)
    good = host.shell(STAY, name="example.com/good")
    for more in ["--restart=always"], []:
        for method, parameters in ("StopApp", {}), ("RemoveApp", {"stop": True}):
            for policy in "all", "never":
                p = host.start("run", "--detach", "--name=p", "--exit-policy=" + policy, good, "---", never, *more)
                wait_for(lambda: host.pods() and "running" in host.pods()[-1] and file_exists(host, "never", "up"), "the app")
                uuid = os.path.basename(host.pods()[-1])
                c = Connection(host, uuid)
                equal(c.call(method, app="never", **parameters), {})
                r = host.finish(p, 20)
                equal((r.rc, r.out.strip()), (0, uuid), "%s with exit policy %s%s" % (method, policy, more))
                if method == "StopApp":
                    contains(r.err, "app never was stopped before it was ready")
                host.acnspawn("stop", uuid).expect(0)
                host.acnspawn("rm", uuid).expect(0)


# --- Answers that are so -----------------------------------------------------------------------------------------------

@case
def no_app_is_started_under_a_parent_that_is_stopping(host):
    uuid = empty_pod(host)
    drains = host.acnspawn("fetch", host.shell(DRAINS, name="example.com/drains")).expect(0).out.strip()
    c = Connection(host, uuid)
    c.call("AddApp", **adding("a", drains, "example.com/drains", annotations=annotated(stop_timeout="60s")))
    equal(c.call("StartApp", app="a"), {})
    below = c.call("AddApp", **dict(adding("n", fetch(host)), parent="a"))["app"]
    equal(c.call("StartApp", app=below), {})
    host.wait_up("a")
    stop = send_call(host, uuid, "StopApp", app="a")
    await_file(host, "a", "stopping")
    for method in "RestartApp", "StartApp":
        reply = c.call(method, app=below)
        contains(("AppRefused", "WrongState"), reply[0], method)
    equal(c.call("LaunchGroup", apps=[dict(adding("m", fetch(host)), parent="a")])[0], "AppRefused")
    touch(host, uuid, "a", "end")
    equal(answer(stop), {})
    wait_for(lambda: c.state(below) == "exited", "the end of the nested app")
    host.acnspawn("stop", uuid).expect(0)


@case
def sigkill_without_a_main_process_is_not_a_stop(host):
    """An app has no main process while its pre-start handler runs. SIGKILL then changes nothing: apps can be started
    under it."""
    uuid = empty_pod(host)
    handler = [{"name": "pre-start", "exec": ["/bin/sh", "-c", "touch /out/pre; sleep 2"]}]
    slow = fetch(host, name="example.com/slow", app={"eventHandlers": handler})
    c = Connection(host, uuid)
    c.call("AddApp", **adding("a", slow, "example.com/slow"))
    start = send_call(host, uuid, "StartApp", app="a")
    await_file(host, "a", "pre")
    equal(c.call("SignalApp", app="a", signal=9)[0], "WrongState")
    equal(answer(start), {})
    below = c.call("AddApp", **dict(adding("n", fetch(host)), parent="a"))["app"]
    equal(c.call("StartApp", app=below), {})
    host.acnspawn("stop", uuid).expect(0)


@case
def a_stop_timeout_applies_to_one_call(host):
    """An app that was down when its parent was stopped uses its own time-out later."""
    uuid = empty_pod(host)
    ignores = fetch(host, "trap '' TERM; touch /out/up; while :; do sleep 0.05; done", "example.com/ignores")
    c = Connection(host, uuid)
    c.call("AddApp", **adding("a", fetch(host)))
    equal(c.call("StartApp", app="a"), {})
    below = c.call("AddApp", **dict(adding("n", ignores, "example.com/ignores", annotations=annotated(stop_timeout="1s")), parent="a"))["app"]
    equal(c.call("StopApp", app="a", timeoutUSec=120000000), {})
    for app in "a", below:
        equal(c.call("StartApp", app=app), {})
    wait_for(lambda: c.call("Exec", app=below, command=["test", "-e", "/out/up"])["exitStatus"] == 0, "that the app ignores the signal")
    with within(20, "the stop"):
        equal(c.call("StopApp", app=below), {})
    host.acnspawn("stop", uuid).expect(0)


@case
def a_stop_stops_an_app_that_is_being_started(host):
    uuid = empty_pod(host)
    id = fetch(host)
    c, other = Connection(host, uuid), Connection(host, uuid)
    c.call("AddApp", **adding("a", id))
    for i in range(20):
        other.send("StartApp", {"app": "a"})
        for _ in range(2):
            c.call("Describe")  # the call before is taken
        equal(c.call("StopApp", app="a"), {})
        state = c.state("a")
        started = answer(other)
        for seen in state, c.state("a"):
            contains(("created", "exited"), seen, "the state after the stop, and %s" % (started,))
    host.acnspawn("stop", uuid).expect(0)


@case
def calls_survive_a_reexec_of_the_pods_systemd(host):
    uuid = empty_pod(host)
    id = fetch(host)
    c, leader = Connection(host, uuid), host.leader(uuid)
    c.call("AddApp", **adding("a", id))
    c.call("AddApp", **adding("b", id))
    equal(c.call("StartApp", app="b"), {})
    for i in range(30):
        method, after = (("StartApp", "running"), ("StopApp", "exited"))[i % 2]
        delay = 0.002 * (i // 2)
        os.kill(leader, signal.SIGTERM)
        time.sleep(delay)  # at varying moments
        equal((c.call(method, app="a"), c.state("a")), ({}, after), "%s %.3f s after" % (method, delay))
        equal(c.state("b"), "running", "the state of the other app")
    for i in range(10):
        os.kill(leader, signal.SIGTERM)
        time.sleep(0.003 * i)  # at varying moments
        equal(c.call("RestartApp", app="b"), {})
        equal(app_of(c, "b")["starts"], 2 + i)
    host.acnspawn("stop", uuid).expect(0)


def private_socket(leader):
    return "/proc/%d/root/run/systemd/private" % leader


def reexecute(leader):
    """Returns when the pod's systemd has closed its connections and has a new socket."""
    def inode():
        with contextlib.suppress(FileNotFoundError):
            return os.stat(private_socket(leader)).st_ino
    before = inode()
    os.kill(leader, signal.SIGTERM)
    wait_for(lambda: inode() not in (None, before), "that systemd has executed itself again")


@case
def calls_that_arrive_as_the_connection_is_lost_are_repeated(host):
    """The supervisor sees both at once, and may read the calls first."""
    uuid = empty_pod(host)
    id, names = fetch(host), ["a%d" % i for i in range(8)]
    c, leader, supervisor = Connection(host, uuid), host.leader(uuid), host.supervisor(uuid)
    for n in names:
        c.call("AddApp", **adding(n, id))
    for method, after in ("StartApp", "running"), ("RestartApp", "running"), ("StopApp", "exited"):
        calls = [Connection(host, uuid) for n in names]
        for x in calls:
            x.call("Describe")  # the connection is accepted
        os.kill(supervisor, signal.SIGSTOP)
        try:
            reexecute(leader)
            for n, x in zip(names, calls):
                x.send(method, {"app": n})
        finally:
            os.kill(supervisor, signal.SIGCONT)
        equal([answer(x) for x in calls], [{}] * len(names), method)
        equal([c.state(n) for n in names], [after] * len(names), method)
    host.acnspawn("stop", uuid).expect(0)


@contextlib.contextmanager
def unreachable_systemd(host, uuid):
    """The pod's systemd has closed the connection, and the supervisor cannot connect to it again."""
    leader, supervisor = host.leader(uuid), host.supervisor(uuid)
    private = private_socket(leader)
    os.kill(supervisor, signal.SIGSTOP)
    try:
        reexecute(leader)
        os.rename(private, private + ".away")
    finally:
        os.kill(supervisor, signal.SIGCONT)
    try:
        time.sleep(0.5)  # in which the supervisor tries
        yield
    finally:
        os.rename(private + ".away", private)


@contextlib.contextmanager
def silent_systemd(host, uuid):
    """The pod's systemd has closed the connection, and the supervisor has made it again; what it asks for is not answered."""
    leader, supervisor = host.leader(uuid), host.supervisor(uuid)

    def sockets():
        return {target for target in descriptors_of(supervisor).values() if target.startswith("socket:")}
    os.kill(supervisor, signal.SIGSTOP)
    try:
        reexecute(leader)
        wait_at_rest(leader)
        os.kill(leader, signal.SIGSTOP)
        before = sockets()
        os.kill(supervisor, signal.SIGCONT)
        wait_for(lambda: sockets() - before, "that the supervisor has connected again")
        yield
    finally:
        os.kill(supervisor, signal.SIGCONT)
        os.kill(leader, signal.SIGCONT)


@case
def later_calls_do_not_overtake_those_that_were_lost(host):
    """The supervisor repeats what was lost when it knows the states of all apps."""
    uuid = empty_pod(host)
    c = Connection(host, uuid)
    c.call("AddApp", **adding("a", fetch(host, DRAINS, "example.com/drains"), "example.com/drains"))
    equal(c.call("StartApp", app="a"), {})
    await_file(host, "a", "up")
    stops = send_call(host, uuid, "StopApp", app="a")
    await_file(host, "a", "stopping")
    with silent_systemd(host, uuid):
        restarts = send_call(host, uuid, "RestartApp", app="a")
        for _ in range(2):
            c.call("Describe")  # the call before is taken
    touch(host, uuid, "a", "end")
    equal(answer(restarts), {})
    equal((c.state("a"), app_of(c, "a")["starts"]), ("running", 2))
    contains(({}, ("JobFailed", {"app": "a", "result": "canceled"})), answer(stops), "the stop, which the restart replaces")
    host.acnspawn("stop", uuid).expect(0)


@case
def a_removal_waits_for_the_connection(host):
    """It was behind another change, and the pod's systemd cannot be reached when its turn comes."""
    uuid = empty_pod(host)
    id = fetch(host)
    c, supervisor = Connection(host, uuid), host.supervisor(uuid)
    c.call("AddApp", **adding("a", id))
    equal(c.call("StartApp", app="a"), {})
    before = set(children_of(supervisor))
    with promptly():
        adds = send_call(host, uuid, "AddApp", **adding("b", id))
        held = hold_preparation(supervisor, before)
    removes = send_call(host, uuid, "RemoveApp", app="a", stop=True)
    for _ in range(2):
        c.call("Describe")  # the call before is taken
    with unreachable_systemd(host, uuid):
        os.kill(held, signal.SIGCONT)
        equal(answer(adds)["app"], "b")
        true(not is_answered(removes, 0.5), "it waits")
    equal(answer(removes), {})
    equal([a["name"] for a in c.call("Describe")["apps"]], ["b"])
    host.acnspawn("stop", uuid).expect(0)


def app_that_ignores_sigterm(host, c):
    """App a, which runs, and makes /out/stopping when it is asked to stop."""
    id = fetch(host, "trap ': >/out/stopping' TERM; touch /out/up; while :; do sleep 0.05; done", "example.com/ignores")
    c.call("AddApp", **adding("a", id, "example.com/ignores", annotations=annotated(stop_timeout="10min")))
    equal(c.call("StartApp", app="a"), {})
    await_file(host, "a", "up")


@case
def a_removal_kills_its_app_in_time_however_often_the_connection_is_lost(host):
    uuid = empty_pod(host)
    c, leader = Connection(host, uuid), host.leader(uuid)
    app_that_ignores_sigterm(host, c)
    removes = send_call(host, uuid, "RemoveApp", app="a", stop=True, timeoutUSec=int(patience(1.5) * 1e6))
    await_file(host, "a", "stopping")
    with within(20, "the removal"):
        for _ in range(40):
            if is_answered(removes, patience(0.5)):
                break
            reexecute(leader)
    equal(answer(removes), {})
    equal(c.call("Describe")["apps"], [])
    host.acnspawn("stop", uuid).expect(0)


@case
def an_app_is_killed_in_time_without_the_connection(host):
    """Or as soon as it is there again."""
    uuid = empty_pod(host)
    c = Connection(host, uuid)
    app_that_ignores_sigterm(host, c)
    limit = patience(1.5)
    stop = send_call(host, uuid, "StopApp", app="a", timeoutUSec=int(limit * 1e6))
    await_file(host, "a", "stopping")
    with unreachable_systemd(host, uuid):
        true(not is_answered(stop, limit), "it is up")
    with within(20, "the stop"):
        equal(answer(stop), {})
    equal(c.state("a"), "exited")
    host.acnspawn("stop", uuid).expect(0)


@case
def a_kill_that_is_lost_with_the_connection_is_repeated(host):
    """The pod's systemd executes itself again before it reads the request to kill an app that does not stop in the time of the call."""
    uuid = empty_pod(host)
    c, leader = Connection(host, uuid), host.leader(uuid)
    app_that_ignores_sigterm(host, c)
    limit = patience(1.5)
    stop = send_call(host, uuid, "StopApp", app="a", timeoutUSec=int(limit * 1e6))
    await_file(host, "a", "stopping")
    os.kill(leader, signal.SIGSTOP)
    try:
        true(not is_answered(stop, limit + 0.5), "it is up, and the request to kill it was sent")
        os.kill(leader, signal.SIGTERM)
    finally:
        os.kill(leader, signal.SIGCONT)
    with within(20, "the stop"):
        equal(answer(stop), {})
    equal((c.state("a"), host.app_status(uuid, "a")["signal"]), ("exited", 9))
    host.acnspawn("stop", uuid).expect(0)


@case
def a_removal_that_is_queued_before_its_nested_app_is_there_stops_it(host):
    """The call names the app by its path, which is not the name of its unit."""
    uuid = empty_pod(host)
    id = fetch(host)
    c, supervisor = Connection(host, uuid), host.supervisor(uuid)
    c.call("AddApp", **adding("a", id))
    equal(c.call("StartApp", app="a"), {})
    for method, parameters in ("LaunchGroup", {"apps": [dict(adding("n", id), parent="a")]}), ("AddApp", dict(adding("n", id), parent="a")):
        before = set(children_of(supervisor))
        with promptly():
            adds = send_call(host, uuid, method, **parameters)
            held = hold_preparation(supervisor, before)
        removes = send_call(host, uuid, "RemoveApp", app="a/n", stop=True)
        for _ in range(2):
            c.call("Describe")  # the call before is taken
        os.kill(held, signal.SIGCONT)
        equal(answer(removes), {}, method)
        reply = answer(adds)
        true(reply[0] == "AppRefused" if method == "LaunchGroup" else reply["app"] == "a/n", "%s is answered %s" % (method, reply))
        equal([a["name"] for a in c.call("Describe")["apps"]], ["a"])
        equal(processes_where(lambda pid: re.search(r"app-a.*0n\d", read_text("/proc/%d/cgroup" % pid)), children_of(host.leader(uuid))), [],
              "processes of the app after " + method)
    host.acnspawn("stop", uuid).expect(0)


@case
def a_launch_whose_caller_leaves_before_it_is_begun_is_none(host):
    uuid = empty_pod(host)
    id = fetch(host)
    c = Connection(host, uuid)
    with unreachable_systemd(host, uuid):
        gone = send_call(host, uuid, "LaunchGroup", apps=[adding("a", id)])
        stays = send_call(host, uuid, "LaunchGroup", apps=[adding("b", id)])
        c.call("Describe")
        true(not is_answered(stays, 0.5), "it waits")
        gone.socket.close()
        c.call("Describe")
    equal(answer(stays)["apps"], ["b"])
    equal([a["name"] for a in c.call("Describe")["apps"]], ["b"])
    host.acnspawn("stop", uuid).expect(0)


@case
def a_wait_for_an_app_that_is_removed_ends(host):
    uuid = empty_pod(host)
    c = Connection(host, uuid)
    c.call("AddApp", **adding("a", fetch(host)))
    p = host.start("wait", "p", "a")
    wait_for(lambda: len(clients_of(host.supervisor(uuid))) == 2 and at_rest(p.pid), "that the command waits")
    equal(c.call("RemoveApp", app="a"), {})
    r = host.finish(p, 20)
    equal(r.rc, 1)
    contains(r.err, "App a of pod p was removed before it ran")
    host.acnspawn("stop", uuid).expect(0)


# --- Bounds ------------------------------------------------------------------------------------------------------------

@case
def the_queue_of_changes_is_bounded(host):
    """The limit includes changes of clients that have disconnected. Changes that are done at once do not recurse deeply."""
    uuid = empty_pod(host)
    id = fetch(host)
    c, supervisor = Connection(host, uuid), host.supervisor(uuid)
    before = set(children_of(supervisor))
    with promptly():
        adds = send_call(host, uuid, "AddApp", **adding("a", id))
        found = hold_preparation(supervisor, before)
    fd = os.open(host.pod_dir(uuid), os.O_PATH)
    text = json.dumps({"method": POD + "RemoveApp", "parameters": {"app": "nosuch"}}).encode() + b"\0"

    def is_refused(timeout):
        """Sends a change; with a TIMEOUT, returns whether it was refused."""
        with socket.socket(socket.AF_UNIX) as s:
            s.connect("/proc/self/fd/%d/interface" % fd)
            s.sendall(text)
            s.settimeout(timeout)
            with contextlib.suppress(BlockingIOError, TimeoutError):
                return b"Too many changes of the pod are queued" in s.recv(4096)

    def is_full():
        """Sends 200 changes: a busy supervisor may not accept all connections."""
        for i in range(200):
            is_refused(0)
        return is_refused(0.5)
    wait_for(is_full, "that the next change is refused", interval=0)
    os.close(fd)
    os.kill(found, signal.SIGCONT)
    equal(answer(adds)["app"], "a")
    equal(c.call("RemoveApp", app="a"), {})
    host.acnspawn("stop", uuid).expect(0)


@case
def a_writer_gets_sigpipe_when_the_app_closes_its_input(host):
    uuid = host.detach("--name=p", host.shell("exec <&-; " + STAY, name="example.com/a"), "--input=pipe")
    host.wait_up("a")
    c = Connection(host, uuid)
    r, w = os.pipe()
    c.send("Attach", {"app": "a", "stdin": 0}, [r], more=True)
    c.receive()
    os.close(r)
    os.set_blocking(w, False)

    def refused():
        try:
            os.write(w, bytes(4096))
        except BlockingIOError:
            pass
        except BrokenPipeError:
            return True
    wait_for(refused, "the end of the pipe")
    os.close(w)
    host.acnspawn("stop", uuid).expect(0)


if __name__ == "__main__":
    main()
