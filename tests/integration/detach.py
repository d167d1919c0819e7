#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""run --detach: it returns once the apps have been executed, or reports why one of them could not be executed."""

from harness import *

FOREVER = "trap 'exit 0' TERM; touch /out/up; while :; do sleep 0.1; done"
SLOW = [{"name": "pre-start", "exec": ["/bin/sh", "-c", "touch /out/up; sleep 3"]}]


def detach(host, *args):
    return host.acnspawn("run", "--detach", *args)


def says_more(uuid):
    return "'acnspawn status %s' and 'acnspawn logs %s' say more." % (uuid, uuid)


@case
def an_app_that_cannot_be_executed_fails_the_start(host):
    """As in the foreground, every time: the pod's systemd has started the app's launcher before the exec fails."""
    for exec, app, status, why in ((["nosuch"], {}, 127, "Command nosuch is not in the image (searched in PATH)"),
                                   (["/etc/passwd"], {}, 126, "/etc/passwd"),
                                   (["/bin/true"], {"user": "nobodyhere"}, 125, "nobodyhere"),
                                   (["/bin/true"], {"workingDirectory": "/etc/passwd/x"}, 125, "Cannot change to the working directory /etc/passwd/x")):
        image = host.image(exec, name="example.com/a", app=app)
        shown = host.acnspawn("run", "--rm", image).expect(status).err
        contains(shown, why, "what the foreground says")
        for _ in range(3):
            r = detach(host, image).expect(status)
            uuid = os.path.basename(host.one_pod())
            equal(r.out, "", "output")
            equal(r.err, shown + says_more(uuid) + "\n", "message")
            equal((host.state(uuid), host.status(uuid)["exitStatus"]), ("exited", status))
            host.acnspawn("rm", uuid).expect(0)


@case
def a_handler_that_fails_fails_the_start(host):
    handler = [{"name": "pre-start", "exec": ["/bin/sh", "-c", "exit 4"]}]
    r = detach(host, host.shell(FOREVER, name="example.com/a", app={"eventHandlers": handler})).expect(125)
    contains(r.err, "Error: App a: The pre-start handler exited with status 4.")
    r = detach(host, host.shell(FOREVER, name="example.com/a"), "---",
               host.image(["nosuch"], name="example.com/b")).expect(127)
    contains(r.err, "Error: App b: Command nosuch is not in the image (searched in PATH).")
    r = detach(host, "--exit-policy=all", host.image(["nosuch"], name="example.com/b"), "---", host.image(["nosuch"], name="example.com/c")).expect(127)
    contains(r.err, "Error: App b: Command nosuch is not in the image (searched in PATH).\nApp c: Command nosuch")


@case
def an_app_that_was_executed_has_started(host):
    """However soon it ends."""
    for _ in range(5):
        r = detach(host, host.shell("exit 3")).expect(0)
        equal(r.err, "", "message")
        uuid = r.out.strip()
        host.acnspawn("status", "--wait", uuid).expect(0)
        equal(host.status(uuid)["exitStatus"], 3)
        host.acnspawn("rm", uuid).expect(0)
    for policy in "any", "all", "on-failure":
        apps = [host.image(["/bin/true"], name="example.com/a%d" % i) for i in range(3)]
        equal(detach(host, "--exit-policy=" + policy, apps[0], "---", apps[1], "---", apps[2]).expect(0).err, "", "message")


@case
def a_pod_that_goes_on_without_the_app_is_up_with_a_warning(host):
    good, bad = host.shell(FOREVER, name="example.com/a"), host.image(["nosuch"], name="example.com/b")
    r = detach(host, "--exit-policy=all", good, "---", bad).expect(0)
    uuid = r.out.strip()
    equal(r.err, "Warning: Pod %s is up, but: app b could not be started: Command nosuch is not in the image (searched in PATH).\n" % uuid)
    equal(host.state(uuid), "running")
    host.acnspawn("stop", uuid).expect(0)
    r = detach(host, good, "---", bad, "--restart=on-failure", "--restart-delay=1min").expect(0)
    uuid = r.out.strip()
    equal(r.err, "Warning: Pod %s is up, but: app b could not be started, and is started again: "
                 "Command nosuch is not in the image (searched in PATH).\n" % uuid)
    host.acnspawn("stop", uuid).expect(0)


@case
def run_waits_for_steps_before_the_app(host):
    first = host.shell(FOREVER, name="example.com/a", app={"eventHandlers": [{"name": "pre-start", "exec": ["/bin/sh", "-c", "sleep 1"]}]})
    uuid = detach(host, first, "---", host.shell(FOREVER, name="example.com/b"), "--after=a").expect(0).out.strip()
    equal([a["state"] for a in host.status(uuid)["apps"]], ["running", "running"])
    true(all(a["started"] for a in host.status(uuid)["apps"]), "an app has not been executed")
    host.acnspawn("stop", uuid).expect(0)


@case
def an_interrupted_client_reports_that_the_pod_keeps_running(host):
    p = host.start("run", "--detach", "--name=p", host.shell(FOREVER, name="example.com/a", app={"eventHandlers": SLOW}))
    host.wait_up("a")
    wait_at_rest(p.pid)  # the client waits for the pod
    p.send_signal(signal.SIGINT)
    r = host.finish(p, 2)
    equal((r.rc, r.out), (-signal.SIGINT, ""))
    equal(r.err, "Pod p is still starting: 'acnspawn status p' shows how far it is, 'acnspawn stop p' ends it.\n")
    wait_for(lambda: host.app_status("p", "a")["state"] == "running", "start of the app")
    host.acnspawn("stop", "p").expect(0)


@case
def a_pod_that_is_stopped_while_it_starts_was_not_up(host):
    p = host.start("run", "--detach", "--name=p", host.shell(FOREVER, name="example.com/a", app={"eventHandlers": SLOW}))
    host.wait_up("a")
    host.acnspawn("stop", "p").expect(0)
    r = host.finish(p)
    true(r.rc > 0, "exit status of %s" % r)
    contains(r.err, "Error: Pod p was stopped before it was up.\n")


@case
def waiting_has_a_timeout(host):
    """90 seconds; it is a long test."""
    if not os.environ.get("ACNSPAWN_TEST_LONG"):
        raise Skip("takes 90 s; ACNSPAWN_TEST_LONG=1 runs it")
    handler = [{"name": "pre-start", "exec": ["/bin/sh", "-c", "sleep 1000"]}]
    r = host.acnspawn("run", "--detach", "--name=p", host.shell(FOREVER, name="example.com/a", app={"eventHandlers": handler}), timeout=120).expect(1)
    true(85 < r.seconds < patience(110), "it took %.1f s" % r.seconds)
    contains(r.err, "Error: Pod p is not up after 90 s: app a does not run yet.\nIt keeps running: 'acnspawn status p' shows how far it is")
    equal((r.out, host.state("p")), ("", "running"))
    host.acnspawn("stop", "--force", "p").expect(0)


# --- With --rm ---------------------------------------------------------------------------------------------------------

def gone(host):
    wait_for(lambda: host.pods() == [], "removal of the pod")


@case
def the_pod_is_removed_when_it_has_ended(host):
    uuid = detach(host, "--rm", "--name=p", host.shell(FOREVER, name="example.com/a")).expect(0).out.strip()
    equal(host.state(uuid), "running")
    host.wait_up("a")
    host.acnspawn("stop", "p").expect(0)
    gone(host)
    equal(detach(host, "--rm", "--name=p", host.shell("exit 3")).expect(0).err, "")
    gone(host)
    prepared = host.prepare("--name=p", host.shell("true"))
    detach(host, "--rm", prepared).expect(0)
    gone(host)


@case
def one_that_could_not_start_leaves_nothing(host):
    r = detach(host, "--rm", "--name=p", host.image(["nosuch"], name="example.com/a")).expect(127)
    equal(r.err, "Error: App a: Command nosuch is not in the image (searched in PATH).\n"
                 "Without --rm the pod would be kept, for 'acnspawn status' and 'acnspawn logs' to show details.\n")
    equal(host.pods(), [], "pods")


main()
