#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Event handlers: pre-start and post-stop run as the app does, once each, in order, however the app ends."""

from harness import *


def handlers(pre=None, post=None):
    found = []
    if pre:
        found.append({"name": "pre-start", "exec": pre if isinstance(pre, list) else ["/bin/sh", "-c", pre]})
    if post:
        found.append({"name": "post-stop", "exec": post if isinstance(post, list) else ["/bin/sh", "-c", post]})
    return {"eventHandlers": found}


def log_of(host, app="a", pod=None):
    return host.written(app, "out/log", pod).decode().split()


def with_handlers(host, script, pre="echo pre >>/out/log", post="echo post >>/out/log", name="example.com/a", **app):
    section = handlers(pre, post)
    section.update(app)
    return host.shell(script, name=name, app=section)


FOREVER = "touch /out/up; while :; do sleep 0.1; done"


@case
def run_in_order_once(host):
    host.run(with_handlers(host, "echo main >>/out/log"))
    equal(log_of(host), ["pre", "main", "post"])


@case
def same_world_as_the_app(host):
    """Handlers have the app's user, groups, environment, working directory, capabilities, root and namespaces."""
    image = host.image(["/bin/show"], name="example.com/a", app={
        "user": "1000", "group": "1000", "supplementaryGIDs": [50, 7], "workingDirectory": "/srv",
        "environment": [{"name": "GREETING", "value": "a\nb\\c $d %n"}],
        **handlers(["/bin/show", "pre"], ["/bin/show", "post"])})
    host.run(image)
    pre, main_, post = (host.show("a", i) for i in range(3))
    equal([s.argv[-1] for s in (pre, main_, post)], [b"pre", b"/bin/show", b"post"])
    for other in (pre, post):
        for field in ("uids", "gids", "groups", "cwd", "environ", "fds"):
            if field != "fds":
                equal(getattr(other, field), getattr(main_, field), field)
        for which in ("Inh", "Prm", "Eff", "Bnd", "Amb"):
            equal(other.capabilities(which), main_.capabilities(which), "Cap" + which)
        equal(other.status_field("NoNewPrivs"), main_.status_field("NoNewPrivs"))
        equal(other.status_field("Seccomp"), main_.status_field("Seccomp"))
        equal(sorted(other.fds), [0, 1, 2], "descriptors")
        for ns in ("user", "net", "uts", "ipc"):
            equal(other.namespaces[ns], main_.namespaces[ns], ns)
        equal(sorted(other.root_dir), sorted(main_.root_dir), "root directory")
    equal(main_.uids, [1000] * 3)


@case
def handler_of_an_unprivileged_app_has_no_privilege(host):
    image = host.image(["/bin/true"], name="example.com/a",
                       app={"user": "1000", "group": "1000", **handlers(["/bin/show"], ["/bin/show"])})
    host.run(image)
    for number in range(2):
        show = host.show("a", number)
        equal(show.uids, [1000] * 3)
        equal(show.capabilities("Eff"), frozenset())
        true(show.capabilities("Bnd") <= DEFAULT_CAPABILITIES, "bounding set %s" % sorted(show.capabilities("Bnd")))


@case
def failing_pre_start_keeps_the_app_from_starting(host):
    r = host.acnspawn("run", "--name=p", with_handlers(host, "echo main >>/out/log", pre="echo pre >>/out/log; exit 3"))
    true(r.rc != 0, "pod succeeded although its app never ran")
    equal(r.rc, 125)
    lacks(log_of(host), "main")
    app = host.app_status("p", "a")
    equal(app["cause"], "pre-start-failed")
    equal((app["exitStatus"], app["signal"]), (None, None))
    equal((app["preStart"]["ran"], app["preStart"]["exitStatus"]), (True, 3))


@case
def pre_start_killed_by_a_signal(host):
    host.acnspawn("run", "--name=p", with_handlers(host, "true", pre="kill -9 $$")).expect(125)
    app = host.app_status("p", "a")
    equal((app["cause"], app["preStart"]["signal"]), ("pre-start-failed", 9))


@case
def missing_handler_program(host):
    r = host.acnspawn("run", "--name=p", with_handlers(host, "echo main >>/out/log", pre=["/no/handler"]))
    true(r.rc in (125, 127), str(r))
    contains(r.err, "/no/handler", "message")
    true(host.app_status("p", "a")["cause"] in ("pre-start-failed", "command-not-found"), "cause")
    true(not os.path.exists(os.path.join(host.upper("a"), "out/log")), "the app ran all the same")


@case
def post_stop_runs_after_failure(host):
    host.run(with_handlers(host, "echo main >>/out/log; exit 3"), rc=3)
    equal(log_of(host), ["pre", "main", "post"])


@case
def post_stop_runs_after_the_app_killed_itself(host):
    host.run(with_handlers(host, "echo main >>/out/log; kill -9 $$"), rc=137)
    equal(log_of(host), ["pre", "main", "post"])


@case
def post_stop_runs_on_stop(host):
    for round_ in range(3):
        name = "p%d" % round_
        uuid = host.detach("--name=" + name, with_handlers(host, FOREVER))
        host.wait_up("a", uuid)
        host.acnspawn("stop", uuid).expect(0)
        equal(log_of(host, pod=host.pod_dir(uuid)), ["pre", "post"])
        post = host.app_status(uuid, "a")["postStop"]
        equal((post["ran"], post["exitStatus"]), (True, 0))


@case
def post_stop_runs_when_a_sibling_fails(host):
    mount = {"mountPoints": [{"name": "shared", "path": "/shared"}]}
    for round_ in range(3):
        name = "p%d" % round_
        patient = with_handlers(host, "touch /shared/up; while :; do sleep 0.1; done", name="example.com/patient", **mount)
        failing = with_handlers(host, "while ! test -e /shared/up; do sleep 0.05; done; exit 4",
                                name="example.com/failing", **mount)
        host.acnspawn("run", "--name=" + name, "--volume=shared,kind=empty", patient, failing).expect(4)
        pod = host.pod_dir(host.status(name)["uuid"])
        equal(log_of(host, "patient", pod), ["pre", "post"])
        equal(log_of(host, "failing", pod), ["pre", "post"])


@case
def post_stop_runs_when_the_app_is_killed_from_outside(host):
    uuid = host.detach(with_handlers(host, "exec sleep 1000"))
    pids = wait_for(lambda: [p for p, line in find_processes(host) if line == "sleep 1000"], "app start")
    os.kill(pids[0], signal.SIGKILL)
    host.acnspawn("status", "--wait", uuid)
    equal(log_of(host), ["pre", "post"])


@case
def post_stop_that_fails_is_recorded_and_changes_nothing_else(host):
    host.acnspawn("run", "--name=p", with_handlers(host, "exit 0", post="exit 9"))
    app = host.app_status("p", "a")
    equal((app["cause"], app["exitStatus"]), ("exited", 0))
    equal((app["postStop"]["ran"], app["postStop"]["exitStatus"]), (True, 9))


@case
def post_stop_that_hangs_is_bounded(host):
    start = time.monotonic()
    host.acnspawn("run", "--name=p", "--stop-timeout=1s",
                  with_handlers(host, "exit 0", post="echo post >>/out/log; trap '' TERM; while :; do sleep 0.1; done"))
    true(time.monotonic() - start < patience(20), "took %.1f s" % (time.monotonic() - start))
    app = host.app_status("p", "a")
    true(app["postStop"]["ran"] and app["postStop"]["timedOut"], "post_stop is %r" % app["postStop"])
    equal((app["cause"], app["exitStatus"]), ("exited", 0))


@case
def handlers_that_hang_are_bounded_whatever_signal_stops_the_app(host):
    """Signals that end a process by default, and signals that are ignored by default."""
    for word in ("SIGWINCH", "SIGINT"):
        name = "post-" + word.lower()
        image = with_handlers(host, "exit 0", post="trap '' WINCH INT; while :; do sleep 0.1; done")
        host.acnspawn("run", "--name=" + name, "--stop-timeout=1s", image, "--stop-signal=" + word)
        app = host.app_status(name, "a")
        equal((app["state"], app["cause"], app["exitStatus"]), ("ended", "exited", 0), word)
        true(app["postStop"]["ran"] and app["postStop"]["timedOut"], "post_stop is %r" % app["postStop"])
        image = with_handlers(host, "exit 0", pre="trap '' WINCH INT; touch /out/pre; while :; do sleep 0.1; done")
        uuid = host.prepare(image, "--stop-signal=" + word)
        p = host.start("run", uuid)
        wait_for(lambda: os.path.exists(os.path.join(host.upper("a", host.pod_dir(uuid)), "out/pre")), "the handler")
        start = time.monotonic()
        host.acnspawn("stop", uuid).expect(0)
        host.finish(p)
        true(time.monotonic() - start < patience(4), "took %.1f s" % (time.monotonic() - start))
        app = host.app_status(uuid, "a")
        equal((app["cause"], app["preStart"]["timedOut"]), ("pre-start-failed", True), word)


@case
def hanging_post_stop_does_not_hold_up_others(host):
    mount = {"mountPoints": [{"name": "shared", "path": "/shared"}]}
    hanging = with_handlers(host, "exit 0", post="while :; do sleep 0.1; done", name="example.com/hanging", **mount)
    good = with_handlers(host, FOREVER, name="example.com/good", **mount)
    start = time.monotonic()
    host.acnspawn("run", "--name=p", "--stop-timeout=2s", "--exit-policy=any", "--volume=shared,kind=empty", hanging, good)
    true(time.monotonic() - start < patience(25), "took %.1f s" % (time.monotonic() - start))
    equal(log_of(host, "good"), ["pre", "post"])


@case
def processes_left_by_a_handler_are_killed(host):
    """A post-stop handler that forks a daemon which ignores SIGTERM: nothing of it survives the pod."""
    host.run("--stop-timeout=2s", with_handlers(host, "exit 0", post=["/bin/poke", "daemon", "/out/daemon"]), timeout=60)
    equal(host.processes(), [], "processes left")


@case
def handler_sees_the_volumes(host):
    image = with_handlers(host, "cat /v/pre >>/out/log", pre="echo from-pre >/v/pre", post="cat /v/pre >>/out/log",
                          mountPoints=[{"name": "v", "path": "/v"}])
    host.run("--volume=v,kind=empty", image)
    equal(log_of(host), ["from-pre", "from-pre"])


main()
