#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""From prepare to gc: states, names, exit policies, stopping in every way, several pods at once, and nothing left behind."""

from harness import *
from terminals import Terminal

def visible(host, place):
    return [n for n in os.listdir(os.path.join(host.dir, place)) if not n.startswith(".")]


FOREVER = "touch /out/up; while :; do sleep 0.1; done"


# --- prepare -----------------------------------------------------------------------------------------------------------------

@case
def prepare_then_run(host):
    """As in the introduction: prepare … && run."""
    host.prepare(host.shell("echo hello"))
    r = host.acnspawn("run").expect(0)
    equal(r.out, "hello\n")


@case
def prepare_mounts_nothing_and_starts_nothing(host):
    before = mounts()
    uuid = host.prepare(host.shell("true"))
    equal([m for m in mounts() - before if belongs_to(host, "mount", m)], [], "mounts")
    equal(host.processes(), [], "processes")
    equal(host.state(uuid), "prepared")


@case
def prepare_writes_a_reified_manifest(host):
    image = host.shell("true", name="example.com/a", app={"mountPoints": [{"name": "data", "path": "/data"}]})
    uuid = host.prepare("--annotation=example.com/x=y", image)
    manifest = json.loads(host.acnspawn("cat-manifest", uuid).expect(0).out)
    equal(manifest["acKind"], "PodManifest")
    equal(manifest["acVersion"], "0.8.11", "version of the schema, not ours")
    app = manifest["apps"][0]
    equal(app["name"], "a")
    true(re.fullmatch(r"sha512-[0-9a-f]{128}", app["image"]["id"]), "image ID %r" % app["image"]["id"])
    equal(manifest["volumes"][0]["kind"], "empty")
    equal(app["mounts"][0]["path"], "/data")
    equal(manifest["annotations"], [{"name": "example.com/x", "value": "y"}])


@case
def prepare_from_a_pod_manifest(host):
    image = host.image(["/bin/false"], name="example.com/a")
    image_id = host.acnspawn("fetch", image).expect(0).out.strip().split()[0]
    manifest = {"acKind": "PodManifest", "acVersion": "0.8.11", "apps": [
        {"name": "first", "image": {"id": image_id},
         "app": {"exec": ["/bin/sh", "-c", "echo from the pod manifest"], "user": "0", "group": "0"}},
        {"name": "second", "image": {"id": image_id},
         "app": {"exec": ["/bin/sh", "-c", "exit 0"], "user": "0", "group": "0"}}]}
    path = host.path("pod.json")
    with open(path, "w") as f:
        json.dump(manifest, f)
    r = host.run("--pod-manifest=" + path)
    contains(r.out, "from the pod manifest")


@case
def two_apps_of_one_name_are_refused(host):
    image = host.shell("true", name="example.com/a")
    r = host.acnspawn("prepare", image, image).expect(1)
    contains(r.err, "'a'" if "'a'" in r.err else "a", "message")
    equal(host.pods(), [], "pods")


@case
def bad_app_names_are_refused(host):
    for name in ("../x", "", "A", "x" * 300, "a b", "a/b", "-a", "a\nb", "."):
        r = host.acnspawn("prepare", host.shell("true"), "--name=" + name)
        true(r.rc in (1, 2), "name %r gave %s" % (name, r))
    equal(host.pods(), [], "pods")


@case
def apps_named_like_parts_of_systemd_work(host):
    """Unit and cgroup names are the pod's own business."""
    images = []
    for name in ("init", "system", "default", "basic", "cpu", "io", "memory", "pids", "systemd-journald", "shutdown", "exit",
                 "halt", "journal", "acnspawn", "user"):
        images += [host.shell("exit 0"), "--name=" + name]
    host.run("--name=p", *images)
    for app in host.status("p")["apps"]:
        equal((app["cause"], app["exitStatus"]), ("exited", 0), app["name"])


@case
def failed_prepare_leaves_nothing(host):
    host.acnspawn("prepare", "example.com/nowhere").expect(1)
    host.acnspawn("prepare", host.path("missing.aci")).expect(1)
    host.acnspawn("prepare", "--volume=v,kind=nonsense", host.shell("true"))
    host.acnspawn("prepare", "--pod-manifest=" + host.path("missing.json")).expect(1)
    equal(host.pods(), [], "pods")


@case
def words_of_an_app_that_are_taken_for_images(host):
    """As others write it: run IMAGE COMMAND ARGUMENTS."""
    image = host.shell("true")
    for word in "ls", "/bin/ls":
        r = host.acnspawn("run", image, word).expect(1)
        contains(r.err, "is named by --exec=, and arguments of its app after '--'.", "hint for " + word)
    lacks(host.acnspawn("run", image, host.path("missing.aci")).expect(1).err, "--exec=", "hint")
    equal(host.pods(), [], "pods")


@case
def usage_errors_are_2_and_change_nothing(host):
    for args in (("prepare",), ("run", "--nonsense"), ("nonsense",), ("stop",), ("prepare", "--exit-policy=sometimes", "x"),
                 ("prepare", "--", "x"), ("logs",)):
        r = host.acnspawn(*args).expect(2)
        true(r.err.strip(), "no message for %r" % (args,))
        equal(r.out, "", "stdout")
    equal(host.pods(), [], "pods")


# --- Names and references -------------------------------------------------------------------------------------------------

@case
def pod_by_name_uuid_and_prefix(host):
    uuid = host.prepare("--name=web", host.shell("true"))
    for reference in ("web", uuid, uuid[:8], uuid[:13]):
        equal(host.status(reference)["uuid"], uuid)


@case
def name_is_unique_and_free_again_after_rm(host):
    uuid = host.prepare("--name=web", host.shell("true"))
    r = host.acnspawn("prepare", "--name=web", host.shell("true")).expect(1)
    contains(r.err, "web", "message")
    equal(len(host.pods()), 1, "number of pods")
    host.acnspawn("rm", uuid).expect(0)
    host.prepare("--name=web", host.shell("true"))


@case
def unknown_pod_is_named_in_the_message(host):
    host.prepare("--name=web", host.shell("true"))
    for verb in ("status", "stop", "rm", "logs", "cat", "cat-manifest", "run"):
        r = host.acnspawn(verb, "webb").expect(1)
        contains(r.err, "webb", "message of " + verb)


@case
def run_with_several_prepared_lists_them(host):
    uuids = [host.prepare(host.shell("true")) for _ in range(2)]
    r = host.acnspawn("run").expect(1)
    for uuid in uuids:
        contains(r.err + r.out, uuid, "list of candidates")
    for uuid in uuids:
        equal(host.state(uuid), "prepared")


@case
def run_with_none_prepared_says_so(host):
    r = host.acnspawn("run").expect(1)
    contains(r.err.lower(), "prepare", "message")


@case
def a_pod_runs_once(host):
    """Run again it is another pod (successors.py)."""
    uuid = host.prepare(host.shell("exit 0"))
    host.acnspawn("run", uuid).expect(0)
    ended = host.status(uuid)["ended"]
    host.acnspawn("run", uuid).expect(0)
    equal((len(host.pods()), host.status(uuid)["ended"]), (2, ended))


@case
def rm_takes_no_pod_that_it_did_not_run(host):
    """--rm is for the pod that has ended, not for one that was not started, or that ran before."""
    uuid = host.prepare(host.shell("echo what it has to tell"))
    host.acnspawn("run", uuid).expect(0)
    host.acnspawn("run", "--rm", uuid).expect(0)  # which is its successor
    equal([os.path.basename(p) for p in host.pods()], [uuid])
    equal(host.acnspawn("logs", uuid).expect(0).out, "what it has to tell\n")
    running = host.detach(host.shell(FOREVER))
    host.acnspawn("run", "--rm", running).expect(1)
    equal(host.state(running), "running")
    host.acnspawn("stop", running).expect(0)
    prepared = host.prepare(host.shell("true"), "--isolator=example.com/no-such={}")
    host.acnspawn("run", "--rm", "--strict", prepared).expect(1)
    equal(host.state(prepared), "prepared")
    host.acnspawn("run", "--rm", prepared).expect(0)
    host.acnspawn("status", prepared).expect(1)


@case
def a_prepared_pod_takes_no_arguments(host):
    host.prepare("--name=p", host.shell("exit 0"))
    r = host.acnspawn("run", "p", "--", "x").expect(1)
    contains(r.err, "'p' is a pod, not an image", "message")
    contains(r.err, "'acnspawn run p' runs it as it is", "hint")
    equal(host.state("p"), "prepared")


@case
def two_runs_of_one_pod_race_and_one_wins(host):
    uuid = host.prepare(host.shell("echo x >>/out/log; sleep 0.5"))
    processes = [host.start("run", uuid) for _ in range(4)]
    results = [host.finish(p) for p in processes]
    equal(sorted(r.rc for r in results), [0, 1, 1, 1], "exit statuses")
    app = host.status(uuid)["apps"][0]["name"]
    equal(host.written(app, "out/log"), b"x\n")


# --- States, list, status -------------------------------------------------------------------------------------------------

@case
def list_and_status_follow_the_life_of_a_pod(host):
    def listed():
        rows = json.loads(host.acnspawn("list", "--json=short").expect(0).out)
        return {row["uuid"]: row for row in rows}
    uuid = host.prepare("--name=web", host.shell(FOREVER, name="example.com/a"))
    equal((listed()[uuid]["state"], listed()[uuid]["name"]), ("prepared", "web"))
    equal(host.status(uuid)["apps"][0]["state"], "waiting")
    host.acnspawn("run", "--detach", uuid).expect(0)
    equal(listed()[uuid]["state"], "running")
    status = host.status(uuid)
    equal((status["state"], status["exitStatus"], status["ended"]), ("running", None, None))
    equal((status["apps"][0]["state"], status["apps"][0]["cause"]), ("running", None))
    true(status["started"] >= status["created"] > 0, "times %r" % status)
    true(os.path.exists("/proc/%d" % status["leader"]), "leader %r" % status["leader"])
    host.acnspawn("stop", uuid).expect(0)
    equal(listed()[uuid]["state"], "exited")
    status = host.status(uuid)
    equal((status["state"], status["leader"]), ("exited", None))
    true(status["ended"] >= status["started"], "times %r" % status)
    equal(status["apps"][0]["state"], "ended")
    text = host.acnspawn("list").expect(0).out
    contains(text, "web", "table")
    contains(host.acnspawn("status", uuid).expect(0).out, "web", "text")
    host.acnspawn("rm", uuid).expect(0)
    lacks(listed(), uuid, "list")


@case
def list_of_some_states(host):
    prepared, exited = host.prepare("--name=a", host.shell("true")), host.prepare("--name=b", host.shell("true"))
    host.acnspawn("run", "b").expect(0)
    running = host.detach("--name=c", host.shell(FOREVER))

    def listed(states):
        return [row["uuid"] for row in json.loads(host.acnspawn("list", "--json", "--state=" + states).expect(0).out)]
    equal(listed("prepared"), [prepared])
    equal(listed("exited,running"), [exited, running])
    equal(listed("paused"), [])
    contains(host.acnspawn("list", "--state=paused").expect(0).err, "No such pods in the store")
    host.acnspawn("stop", running).expect(0)
    equal(listed("exited"), [exited, running])


@case
def debug_shows_each_step(host):
    uuid = host.prepare("--name=p", host.shell("sleep 2; echo hello", name="example.com/a"))
    r = host.acnspawn("--debug", "run", uuid).expect(0)
    equal(r.out, "hello\n")
    lines = [l for l in r.err.splitlines() if l.startswith("Debug: ")]
    for what in ("Executing /usr/bin/systemd-nspawn .*--directory=\\S+/%s/root" % uuid, "The pod's cgroup is /sys/fs/cgroup/.*/acnspawn-" + uuid,
                 r"App a, process \d+: it starts", r"The pod's systemd is up: it is process \d+ of the host", "systemd-nspawn has ended"):
        equal(len([l for l in lines if re.match("Debug: %s" % what, l)]), 1, "lines of %r in %r" % (what, lines))
    lacks(host.acnspawn("run", host.shell("true")).expect(0).err, "Debug: ")


@case
def json_without_a_mode(host):
    """--json alone is what people type."""
    uuid = host.prepare(host.shell("true"))
    equal(json.loads(host.acnspawn("status", "--json", uuid).expect(0).out)["uuid"], uuid)
    equal(json.loads(host.acnspawn("list", "--json").expect(0).out)[0]["uuid"], uuid)


@case
def pods_that_are_made_and_removed_as_json(host):
    made = json.loads(host.acnspawn("prepare", "--json", "--name=web", host.shell("true")).expect(0).out)
    true(UUID.fullmatch(made["uuid"]) and made["name"] == "web", str(made))
    started = json.loads(host.acnspawn("run", "-j", "--detach", host.shell(FOREVER)).expect(0).out)
    equal((host.state(started["uuid"]), started["name"]), ("running", None))
    r = host.acnspawn("rm", "--json", "web", "nope").expect(1)
    equal(json.loads(r.out), [{"uuid": made["uuid"]}])
    host.acnspawn("stop", started["uuid"]).expect(0)


@case
def empty_store_lists_nothing(host):
    equal(json.loads(host.acnspawn("list", "--json=short").expect(0).out), [])
    equal(json.loads(host.acnspawn("image", "list", "--json=short").expect(0).out), [])


@case
def store_is_closed_to_others(host):
    host.prepare(host.shell("true"))
    equal(os.stat(host.dir).st_mode & 0o7777, 0o700, "mode of the store")


@case
def status_wait_returns_when_the_pod_ends(host):
    uuid = host.detach(host.shell("sleep 1; exit 7"))
    start = time.monotonic()
    host.acnspawn("status", "--wait", uuid).expect(0)
    true(time.monotonic() - start > 0.3, "did not wait")
    equal((host.state(uuid), host.status(uuid)["exitStatus"]), ("exited", 7))


@case
def status_wait_gives_up_in_time(host):
    uuid = host.detach(host.shell(FOREVER))
    start = time.monotonic()
    r = host.acnspawn("status", "--wait=500ms", uuid)
    true(r.rc == 1, str(r))
    true(0.4 < time.monotonic() - start < patience(5), "took %.1f s" % (time.monotonic() - start))
    host.acnspawn("stop", uuid).expect(0)


@case
def status_wait_does_not_wait_for_a_pod_that_was_not_run(host):
    uuid = host.prepare(host.shell("true"))
    for words in ["--wait"], ["--wait=1h"]:
        r = host.acnspawn("status", *words, uuid).expect(1)
        equal((r.out, r.err), ("", "Error: Pod %s is not running: it is prepared.\n'acnspawn run %s' runs it.\n" % (uuid, uuid)))
    host.run(uuid)
    host.acnspawn("status", "--wait", uuid).expect(0)


@case
def without_systemd_there_is_no_unit_to_keep(host):
    uuid = host.prepare(host.shell("true"))
    r = host.acnspawn("run", "--keep-unit", uuid).expect(1)
    contains(r.err, "Cannot keep the unit for the pod: systemd is not the init of this host")
    contains(r.err, "Run it without --keep-unit.")
    equal((host.state(uuid), host.status(uuid)["unit"]), ("prepared", None))


@case
def generated_units_can_be_looked_at(host):
    uuid = host.prepare(host.shell("true", name="example.com/a"))
    out = host.acnspawn("cat", uuid).expect(0).out
    for word in ("[Unit]", "[Service]", "[Slice]", "ExecStart=", "DefaultDependencies=no", "a.service"):
        contains(out, word, "units")


# --- Ending -----------------------------------------------------------------------------------------------------------------

@case
def pod_ends_when_all_apps_have_ended(host):
    start = time.monotonic()
    host.run(host.shell("sleep 0.2"), host.shell("sleep 1"))
    true(time.monotonic() - start >= 1, "ended early")


@case
def pod_ends_when_one_app_fails(host):
    start = time.monotonic()
    host.run("--name=p", host.shell("exit 3"), host.shell("exec sleep 1000"), rc=3)
    true(time.monotonic() - start < patience(15), "ended late")


@case
def policy_all_lets_others_go_on(host):
    host.run("--exit-policy=all", "--name=p", host.shell("exit 3", name="example.com/bad"),
             host.shell("sleep 1; echo done >/out/log", name="example.com/good"), rc=3)
    equal(host.written("good", "out/log"), b"done\n")


@case
def a_pods_systemd_that_is_executed_anew_is_followed_on(host):
    """On SIGTERM a system instance of systemd executes itself again, and drops the supervisor's connection."""
    out = host.path("out")
    os.mkdir(out)
    uuid = host.detach("--name=p", "-v", out + ":/host",
                       host.shell("touch /out/up; while ! test -e /host/end; do sleep 0.05; done; exit 3", name="example.com/a"))
    host.wait_up("a")
    leader = host.leader(uuid)
    for i in range(3):
        os.kill(leader, signal.SIGTERM)
        host.wait_at_rest("p")
    host.acnspawn("restart-app", "p", "a").expect(0)
    equal(host.state(uuid), "running")
    open(os.path.join(out, "end"), "w").close()
    host.acnspawn("status", "--wait=20s", "p", timeout=40).expect(0)
    equal(host.app_status(uuid, "a")["exitStatus"], 3)


@case
def policy_any_ends_with_the_first(host):
    start = time.monotonic()
    host.acnspawn("run", "--exit-policy=any", "--name=p", host.shell("exit 0", name="example.com/short"),
                  host.shell("exec sleep 1000", name="example.com/long"))
    true(time.monotonic() - start < patience(20), "ended late")
    equal(host.app_status("p", "short")["exitStatus"], 0)
    equal(host.app_status("p", "long")["signal"], 15)


@case
def stop_is_orderly(host):
    uuid = host.detach(host.shell("trap 'echo term >/out/log; exit 0' TERM; " + FOREVER, name="example.com/a"))
    host.wait_up("a")
    host.acnspawn("stop", uuid).expect(0)
    equal(host.written("a", "out/log"), b"term\n")
    equal(host.state(uuid), "exited")
    equal(host.processes(), [], "processes")


@case
def stop_returns_after_the_end_of_the_supervisor(host):
    need_strace()
    uuid = host.detach(host.shell(FOREVER, name="example.com/a"))
    host.wait_up("a")
    supervisor = host.supervisor(uuid)
    tracer = subprocess.Popen(["strace", "-qq", "-o", host.path("trace"), "-e", "trace=exit_group", "-e",
                               "inject=exit_group:delay_enter=1000000", "-p", str(supervisor)], stderr=subprocess.DEVNULL)
    host.children.append(tracer)
    wait_for(lambda: tracer_of(supervisor) == tracer.pid, "the tracer")
    host.acnspawn("stop", "--force", uuid).expect(0)
    true("exit_group" in read_text(host.path("trace")), "the supervisor was not delayed")
    equal(host.processes(), [], "processes")


@case
def stop_by_force_does_not_depend_on_the_pod(host):
    uuid = host.detach("--stop-timeout=60s", host.shell("trap 'echo term >/out/log' TERM; " + FOREVER, name="example.com/a"))
    host.wait_up("a")
    start = time.monotonic()
    host.acnspawn("stop", "--force", uuid).expect(0)
    true(time.monotonic() - start < patience(10), "took %.1f s" % (time.monotonic() - start))
    equal(host.processes(), [], "processes")
    true(not os.path.exists(os.path.join(host.upper("a"), "out/log")), "the app was asked")
    status = host.status(uuid)
    equal(status["state"], "exited")
    true(status["exitStatus"] not in (0, None), "exit status %r of a pod that was killed" % status["exitStatus"])
    true(status["apps"][0]["cause"] in ("signal", "pod-killed"), "cause %r" % status["apps"][0]["cause"])


@case
def stop_of_several_pods_and_of_pods_that_do_not_run(host):
    uuids = [host.detach(host.shell(FOREVER)) for _ in range(2)]
    prepared = host.prepare(host.shell("true"))
    r = host.acnspawn("stop", *uuids).expect(0)
    for uuid in uuids:
        equal(host.state(uuid), "exited")
    r = host.acnspawn("stop", prepared).expect(1)
    contains(r.err, prepared, "message")
    equal(host.state(prepared), "prepared")


def interrupted(host, number):
    p = host.start("run", "--name=p", host.shell("trap 'echo end of app; exit 0' TERM; " + FOREVER, name="example.com/a",
                                                 app={"eventHandlers": [{"name": "post-stop", "exec": [
                                                     "/bin/sh", "-c", "echo post >/out/log"]}]}))
    host.wait_up("a")
    p.send_signal(number)
    r = host.finish(p, 30)
    equal(host.written("a", "out/log"), b"post\n", "what post-stop wrote")
    contains(r.out, "end of app", "output")
    equal(host.state("p"), "exited")
    equal(host.processes(), [], "processes")
    return r


@case
def interrupt_in_the_foreground_is_an_orderly_stop(host):
    equal(interrupted(host, signal.SIGINT).rc, 0)


@case
def terminate_in_the_foreground_is_an_orderly_stop(host):
    equal(interrupted(host, signal.SIGTERM).rc, 0)


@case
def signals_ignored_by_the_caller_do_not_stop_the_pod(host):
    """nohup acnspawn run …: the terminal is closed, the pod keeps running."""
    p = host.start("run", "--name=p", host.shell("touch /out/up; sleep 1; exit 4", name="example.com/a"),
                   preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    host.wait_up("a")
    for _ in range(3):
        p.send_signal(signal.SIGHUP)
    equal(host.finish(p).rc, 4)


@case
def detached_pod_outlives_its_caller(host):
    start = time.monotonic()
    r = host.acnspawn("run", "--detach", host.shell("sleep 1.5; echo x >/out/log; exit 4", name="example.com/a"))
    r.expect(0)
    uuid = r.out.strip()
    true(UUID.fullmatch(uuid), "printed %r" % r.out)
    true(time.monotonic() - start < 1.5 or host.state(uuid) == "running", "waited for the end")
    host.acnspawn("status", "--wait", uuid).expect(0)
    equal(host.written("a", "out/log"), b"x\n")
    equal(host.status(uuid)["exitStatus"], 4)


@case
def detached_pod_holds_no_descriptor_of_its_caller(host):
    """A caller that reads the output of acnspawn to its end does not wait for the pod."""
    start = time.monotonic()
    host.acnspawn("run", "--detach", "--name=p", host.shell("exec sleep 1000"), timeout=20).expect(0)
    true(time.monotonic() - start < patience(15), "took %.1f s" % (time.monotonic() - start))
    host.acnspawn("stop", "--force", "p").expect(0)


@case
def detach_of_a_pod_that_cannot_start_says_so(host):
    r = host.acnspawn("run", "--detach", "--name=p", host.image(["/no/such"]))
    true(r.rc in (0, 125, 127, 1), str(r))
    host.acnspawn("status", "--wait", "p").expect(0)
    equal(host.status("p")["exitStatus"], 127)


@case
def pod_that_does_not_boot_says_why(host):
    """At once, with the original error and a hint; and later, as long as the pod exists."""
    empty = host.path("empty")
    os.mkdir(empty)
    for words in ["--name=p"], ["--name=p", "--detach"]:
        r = host.run("--stage1=" + empty, *words, host.shell("true"), rc=1)
        contains(r.err, " did not start: Program /", "message")
        contains(r.err, "It is looked for below %s" % empty, "hint")
        lacks(r.err, "\\x0a", "message")
        equal((r.out, host.pods()), ("", []), "what is left of a pod that was made for this run")
    for words in [], ["--detach"]:
        uuid = host.prepare("--stage1=" + empty, host.shell("true"))
        r = host.run(*words, uuid, rc=1)
        contains(r.err, "Error: Pod %s did not start: Program /" % uuid, "message")
        app, = host.status(uuid)["apps"]
        equal(app["cause"], "not-started")
        contains(app["message"], "Program /", "message in the status")
        equal(host.state(uuid), "exited")


@case
def a_running_pod_is_refused(host):
    host.detach("--name=p", host.shell(FOREVER))
    for words in [], ["--detach"]:
        r = host.acnspawn("run", *words, "p").expect(1)
        equal(r.err, "Error: Pod p cannot be started: it is running already.\n"
              "'acnspawn run --replace p' stops it first.\n")
    host.acnspawn("stop", "p").expect(0)


@case
def stop_with_a_timeout_kills(host):
    uuid = host.detach("--stop-timeout=60s", host.shell("trap '' TERM; " + FOREVER, name="example.com/a"))
    host.wait_up("a")
    start = time.monotonic()
    r = host.acnspawn("stop", "--timeout=1s", uuid).expect(0)
    true(1 <= time.monotonic() - start < patience(15), "took %.1f s" % (time.monotonic() - start))
    contains(r.err, "Pod %s had not ended in time, and was killed." % uuid, "message")
    equal((host.state(uuid), host.processes()), ("exited", []))
    uuid = host.detach("--name=q", host.shell("trap 'exit 0' TERM; " + FOREVER, name="example.com/b"))
    host.wait_up("b")
    lacks(host.acnspawn("stop", "-t", "1min", uuid).expect(0).err, "killed.", "message")
    equal(host.status(uuid)["exitStatus"], 0)
    uuid = host.detach("--name=r", host.shell("trap '' TERM; " + FOREVER, name="example.com/c"))
    host.wait_up("c")
    equal(host.acnspawn("stop", "--timeout=0", uuid).expect(0).err, "", "what --force says")
    equal(host.state(uuid), "exited")


@case
def stop_and_rm_report_what_they_wait_for(host):
    """A message after two seconds; the default time-out follows from those of the apps."""
    shared = host.path("shared")
    os.mkdir(shared)
    script = "trap 'while ! test -e /shared/go; do sleep 0.1; done; exit 0' TERM; " + FOREVER
    for verb, limit in (("stop", "--timeout=3min"), "180 s"), (("rm", "--force"), "150 s"):
        host.detach("--name=p", "--replace", "--stop-timeout=15s", "-v", shared + ":/shared", host.shell(FOREVER, name="example.com/a"), "---",
                    host.shell(script, name="example.com/b"))
        host.wait_up("b", host.status("p")["uuid"])
        p = host.start(*verb, "p")
        line = p.stderr.readline().decode()
        equal(line, "Waiting for app b of pod p to end, which is killed after %s; 'acnspawn stop --force p' kills it at once.\n" % limit)
        open(shared + "/go", "w").close()
        r = host.finish(p)
        os.unlink(shared + "/go")
        equal((r.rc, r.err), (0, ""))


@case
def a_pod_ends_although_its_systemd_got_sigstop(host):
    host.detach("--name=p", host.shell("trap 'exit 0' TERM; " + FOREVER, name="example.com/a"))
    host.wait_up("a")
    leader = host.leader("p")
    os.kill(leader, signal.SIGSTOP)
    wait_for(lambda: "T (stopped)" in read_text("/proc/%d/status" % leader), "the pod's systemd is stopped")
    host.acnspawn("stop", "--timeout=infinity", "p").expect(0)
    equal((host.state("p"), host.status("p")["exitStatus"]), ("exited", 0))


@case
def results_and_errors_of_many_pods_are_in_the_order_of_the_arguments(host):
    """Also if both go to one file, as in a log."""
    first, second = host.prepare(host.shell("true")), host.prepare(host.shell("true"))
    r = subprocess.run(host.argv("rm", first, "none", second), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=patience(60))
    lines = [l for l in r.stdout.splitlines() if not l.startswith("'")]
    equal((lines[0], "'none'" in lines[1], lines[2:]), (first, True, [second]), r.stdout)


@case
def messages_call_a_pod_as_its_user_does(host):
    """By its name if that was given, else by its UUID."""
    uuid = host.prepare("--name=p", host.shell("true", name="example.com/a"))
    for verb in (["stop"], ["kill"], ["enter"], ["attach"], ["logs"], ["top"], ["stats"], ["pause"], ["restart-app"], ["cat"]):
        for word, other in ("p", uuid), (uuid, "Pod p "):
            words = verb + [word] + {"enter": ["--", "true"], "restart-app": ["a"], "cat": ["nosuch.service"]}.get(verb[0], [])
            r = host.acnspawn(*words).expect(1)
            contains(r.err, word, "message of %s" % words)
            lacks(r.err, other, "message of %s" % words)
    host.acnspawn("run", "p").expect(0)
    for words in (["stop", "p"], ["pause", "p"], ["enter", "p", "--", "true"], ["logs", "--app=x", "p"]):
        r = host.acnspawn(*words)
        true(r.rc != 0, "%s" % r)
        lacks(r.err, uuid, "message of %s" % words)


@case
def quiet_does_not_hide_the_effect_of_ctrl_c(host):
    """After Ctrl-C a message says that the pod has time to stop, and what the next Ctrl-C does."""
    t = Terminal(host, "--quiet", "run", "--name=p", "--stop-timeout=60s", host.shell("trap '' TERM; " + FOREVER, name="example.com/a"))
    host.wait_up("a")
    t.send(b"\x03")
    t.expect(b"Stopping pod p; once more to kill it.")
    t.send(b"\x03")
    t.expect(b"Killing pod p.")
    t.end()
    host.note_pods()


# --- rm and gc ----------------------------------------------------------------------------------------------------------------

@case
def rm_refuses_a_running_pod(host):
    uuid = host.detach(host.shell(FOREVER))
    r = host.acnspawn("rm", uuid).expect(1)
    contains(r.err, uuid, "message")
    equal(host.state(uuid), "running")
    host.acnspawn("stop", uuid).expect(0)
    host.acnspawn("rm", uuid).expect(0)
    equal(host.pods(), [], "pods")


@case
def rm_by_force_stops_in_order_before(host):
    out = host.path("out")
    os.mkdir(out)
    os.chmod(out, 0o1777)
    uuid = host.detach("-v", out + ":/host", host.shell("trap 'echo term >/host/log; exit 0' TERM; " + FOREVER, name="example.com/a"))
    host.wait_up("a")
    prepared = host.prepare(host.shell("true"))
    equal(host.acnspawn("rm", "--force", uuid, prepared).expect(0).out, "%s\n%s\n" % (uuid, prepared))
    equal((read_text(os.path.join(out, "log")), host.pods(), host.processes()), ("term\n", [], []))
    p = host.start("run", "--rm", "--name=p", host.shell("touch /out/up; while :; do sleep 0.1; done", name="example.com/b"))
    host.wait_up("b")
    host.acnspawn("rm", "-f", "p").expect(0)
    host.finish(p)
    equal(host.pods(), [], "pods")


@case
def replace_takes_the_name_of_another(host):
    """... but not before it is certain that the new pod can be prepared."""
    image = host.shell("trap 'exit 0' TERM; " + FOREVER, name="example.com/a")
    first = host.prepare("--name=web", "--replace", image)
    second = host.prepare("--name=web", "--replace", image)
    equal([p["uuid"] for p in json.loads(host.acnspawn("list", "--json").out)], [second])
    host.acnspawn("run", "--detach", "web").expect(0)
    host.wait_up("a")
    host.acnspawn("prepare", "--name=web", "--replace", host.path("missing.aci")).expect(1)
    host.acnspawn("prepare", "--dry-run", "--name=web", "--replace", image).expect(0)
    equal((host.status("web")["uuid"], host.state("web")), (second, "running"))
    third = host.acnspawn("run", "--detach", "--name=web", "--replace", image).expect(0).out.strip()
    equal((host.status("web")["uuid"], host.state("web")), (third, "running"))
    equal(len(json.loads(host.acnspawn("list", "--json").out)), 1, "number of pods")
    true(len({first, second, third}) == 3, "one pod twice")
    host.acnspawn("stop", "web").expect(0)


@case
def rm_removes_prepared_and_exited(host):
    prepared = host.prepare(host.shell("true"))
    host.run("--name=p", host.shell("true"))
    host.acnspawn("rm", prepared, "p").expect(0)
    equal(host.pods(), [], "pods")
    equal(visible(host, "uids"), [], "uid ranges")
    equal(visible(host, "names"), [], "names")


@case
def gc_follows_the_grace_period(host):
    host.run("--name=p", host.shell("true"))
    host.acnspawn("gc", "--grace-period=1h").expect(0)
    equal(len(host.pods()), 1, "pods within the grace period")
    uuid = host.status("p")["uuid"]
    dry = host.acnspawn("gc", "--dry-run", "--grace-period=0", "--json=short").expect(0)
    found, = json.loads(dry.out)
    true(found.pop("size") > 0, "the pod takes no room")
    equal(found, {"kind": "pod", "id": uuid, "name": "p", "state": "exited"})
    equal(len(host.pods()), 1, "pods after a dry run")
    host.acnspawn("gc", "--grace-period=0").expect(0)
    equal(host.pods(), [], "pods")
    equal(visible(host, "uids"), [], "uid ranges")


@case
def gc_leaves_running_and_prepared_pods(host):
    running = host.detach(host.shell(FOREVER))
    prepared = host.prepare(host.shell("true"))
    host.acnspawn("gc", "--grace-period=0").expect(0)
    equal((host.state(running), host.state(prepared)), ("running", "prepared"))
    host.acnspawn("stop", running).expect(0)
    host.acnspawn("gc", "--grace-period=0", "--expire-prepared=0").expect(0)
    equal(host.pods(), [], "pods")


@case
def rm_of_a_pod_with_a_deep_tree(host):
    """Files of an app in its root can be removed, however deep and whatever their names."""
    host.run("--name=p", host.shell("cd /srv; i=0; while test $i -lt 3000; do mkdir d && cd d || break; i=$((i+1)); done; "
                                    "mkdir /srv/.hidden /srv/'\n'; chmod 0 /srv/.hidden; true"), timeout=120)
    host.acnspawn("rm", "p").expect(0)
    equal(host.pods(), [], "pods")


@case
def removal_stops_at_mounts_in_a_pod(host):
    """A directory of the host, of the same file system even, mounted below the directory of a pod, is never emptied."""
    precious = host.path("precious")
    os.mkdir(precious)
    open(os.path.join(precious, "file"), "w").close()
    image = host.shell("true", app={"mountPoints": [{"name": "data", "path": "/data"}]})
    for state in "prepared", "exited":
        uuid = host.prepare("--volume=data,kind=empty", image)
        if state == "exited":
            host.acnspawn("run", uuid).expect(0)
        directory = os.path.join(host.dir, "pods", state, uuid)
        for source, place in (directory, directory), (precious, os.path.join(directory, "volumes/data")):
            subprocess.run(["mount", "--bind", source, place], check=True)
            try:
                for words in ("rm", uuid), ("gc", "--grace-period=0", "--expire-prepared=0"):
                    r = host.acnspawn(*words).expect(1)
                    contains(r.err, "Cannot remove pod %s: a file system is mounted on %s" % (uuid, place))
                    contains(r.err, "umount " + place)
                    equal(host.state(uuid), state, "state after %r" % (words,))
            finally:
                subprocess.run(["umount", place], check=True)
        host.acnspawn("rm", uuid).expect(0)
    equal(os.listdir(precious), ["file"], "what was mounted")
    equal(host.pods(), [], "pods")


@case
def a_pod_with_a_mount_keeps_its_name(host):
    image = host.shell("true")
    uuid = host.acnspawn("run", "--detach", "--name=web", image).expect(0).out.strip()
    host.acnspawn("wait", uuid).expect(0)
    place = os.path.join(host.dir, "pods/exited", uuid)
    subprocess.run(["mount", "--bind", place, place], check=True)
    try:
        contains(host.acnspawn("prepare", "--replace", "--name=web", image).expect(1).err, "Unmount it first: umount " + place)
        equal([p["name"] for p in json.loads(host.acnspawn("--json=short", "list").expect(0).out)], ["web"])
    finally:
        subprocess.run(["umount", place], check=True)
    host.acnspawn("prepare", "--replace", "--name=web", image).expect(0)


@case
def e8_a_host_that_was_started_anew(host):
    """After a reboot running pods have exited, pods being prepared are aborted, prepared pods still exist."""
    image = host.shell(FOREVER, name="example.com/a")
    later = host.prepare("--name=later", image, "--exec=/bin/true")
    web = host.detach("--name=web", image)
    host.wait_up("a", web)
    half = "01234567-89ab-4cde-8123-456789abcdef"
    os.mkdir(os.path.join(host.dir, "pods/preparing", half), 0o711)
    host.kill_pods()
    wait_for(lambda: host.state(web) == "exited", "the end of the pod")
    states = {p["uuid"]: p["state"] for p in json.loads(host.acnspawn("--json=short", "list").expect(0).out)}
    equal(states, {later: "prepared", web: "exited", half: "aborted prepare"}, "states")
    status = host.status(web)
    true(status["exitStatus"] != 0, "a pod that was killed counts as a success")
    equal([(a["state"], a["cause"]) for a in status["apps"]], [("ended", "pod-killed")], "what became of its app")
    removed = host.acnspawn("--json=short", "gc", "--grace-period=0").expect(0).out
    equal(sorted(x["id"] for x in json.loads(removed) if x["kind"] == "pod"), sorted([web, half]), "what was removed")
    host.acnspawn("run", "later").expect(0)
    host.run("--name=web", "--rm", image, "--exec=/bin/true")


def reboot(host, uuid):
    """Makes it look so: the pod is of another boot."""
    link = os.path.join(host.pod_dir(uuid), "boot")
    equal(os.readlink(link), read_text("/proc/sys/kernel/random/boot_id").strip(), "the recorded boot")
    os.unlink(link)
    os.symlink("01234567-89ab-4cde-8123-456789abcdef", link)


def listed_end(host, uuid):
    row = json.loads(host.acnspawn("list", "--json=short", "--format=uuid,state,endedBy,exitStatus", uuid).expect(0).out)[0]
    shown = host.acnspawn("list", uuid).expect(0).out.splitlines()[1]
    equal("exited (reboot)" in shown, row["endedBy"] == "reboot", "the mark in %r" % shown)
    return row["state"], row["endedBy"], row["exitStatus"]


@case
def pods_that_a_reboot_has_ended_are_marked(host):
    image = host.shell(FOREVER, name="example.com/a")
    cut, before, stopped = (host.detach("--name=" + name, image) for name in ("cut", "before", "stopped"))
    for uuid in cut, before, stopped:
        host.wait_up("a", uuid)
    host.acnspawn("stop", stopped).expect(0)
    host.kill_pods()
    # The end of one of them was noticed in its own boot.
    wait_for(lambda: host.state(before) == "exited" and host.state(cut) == "exited", "the end of the pods")
    equal(listed_end(host, cut), ("exited", None, 125))
    os.rename(host.pod_dir(cut), host.path("aside"))
    host.acnspawn("gc", "--grace-period=1h").expect(0)
    os.rename(host.path("aside"), os.path.join(host.dir, "pods/running", cut))
    equal(len(read_text(os.path.join(host.pod_dir(before), "ended")).splitlines()), 3, "lines of the record of the end")
    reboot(host, cut)
    equal(listed_end(host, cut), ("exited", "reboot", 125))
    for uuid, cause in (before, "pod-killed"), (stopped, "signal"):
        equal((listed_end(host, uuid)[1], host.app_status(uuid, "a")["cause"]), (None, cause))
    status = host.status(cut)
    equal((status["endedBy"], status["apps"][0]["cause"]), ("reboot", "host-rebooted"))
    equal(status["apps"][0]["message"], "The host was rebooted, or lost power, before the end of the app was recorded")
    true(status["started"] <= status["ended"] == status["apps"][0]["ended"], "times in %r" % status)
    text = host.acnspawn("status", cut).expect(0).out
    contains(text, "exited with status 125 by a reboot of the host at ")
    contains(text, "ended by a reboot of the host")
    # That stays so when the end is noticed, in the later boot; and the pod can be run again.
    host.acnspawn("gc", "--grace-period=1h").expect(0)
    contains(host.pod_dir(cut), "/exited/")
    equal((listed_end(host, cut), host.status(cut)["ended"]), (("exited", "reboot", 125), status["ended"]))
    again = host.acnspawn("run", "--detach", cut).expect(0).out.strip()
    equal(listed_end(host, again), ("running", None, None))
    host.acnspawn("stop", "--force", again).expect(0)
    # A record of an earlier version, and damaged ones.
    os.unlink(os.path.join(host.pod_dir(cut), "boot"))
    equal(listed_end(host, cut)[1], None)
    os.symlink("x" * 200, os.path.join(host.pod_dir(cut), "boot"))
    equal(listed_end(host, cut)[1], None)
    host.acnspawn("gc", "--grace-period=0").expect(0)


@case
def rm_option_removes_after_the_run(host):
    host.run("--rm", host.shell("exit 3"), rc=3)
    equal(host.pods(), [], "pods")


# --- Several pods ---------------------------------------------------------------------------------------------------------------

@case
def two_pods_at_once(host):
    """They share nothing, and the end of one does not affect the other."""
    one = host.detach("--name=one", host.shell(FOREVER, name="example.com/a"))
    two = host.detach("--name=two", host.shell(FOREVER, name="example.com/a"))
    host.wait_up("a", one)
    host.wait_up("a", two)
    true(host.leader(one) != host.leader(two), "same leader")
    for ns in ("pid", "mnt", "net", "user", "ipc", "uts", "cgroup"):
        a, b = (os.readlink("/proc/%d/ns/%s" % (host.leader(u), ns)) for u in (one, two))
        true(a != b, "the pods share the %s namespace" % ns)
    host.acnspawn("stop", one).expect(0)
    equal((host.state(one), host.state(two)), ("exited", "running"))
    host.acnspawn("stop", "--force", two).expect(0)


@case
@with_timeout(300)
def ten_pods_at_once(host):
    image = host.shell("echo $AC_APP_NAME; exit 0")
    host.acnspawn("fetch", image).expect(0)
    processes = [host.start("run", "--name=p%d" % i, image) for i in range(10)]
    for p in processes:
        host.finish(p, 120).expect(0)
    equal(len(host.pods()), 10)


@case
def pod_of_twenty_apps(host):
    images = []
    image = host.shell("exit 0")
    for i in range(20):
        images += [image, "--name=app%d" % i]
    host.run("--name=p", *images)
    equal([a["exitStatus"] for a in host.status("p")["apps"]], [0] * 20)


@case
def fetches_of_one_image_at_once(host):
    image = host.shell("true")
    processes = [host.start("fetch", image) for _ in range(6)]
    ids = {host.finish(p).expect(0).out.split()[0] for p in processes}
    equal(len(ids), 1, "image IDs")
    equal(len(os.listdir(os.path.join(host.dir, "images"))), 1, "images in the store")


@case
def prepare_gc_and_rm_in_parallel(host):
    """Twenty processes at the same store: each either succeeds or reports why not; the state is consistent."""
    image = host.shell("true")
    host.acnspawn("fetch", image).expect(0)
    processes = []
    for i in range(6):
        processes.append(("run", host.start("run", image)))
        processes.append(("gc", host.start("gc", "--grace-period=0")))
        processes.append(("list", host.start("list", "--json=short")))
    for verb, p in processes:
        r = host.finish(p)
        true(r.rc == 0, "%s failed: %s" % (verb, r))
    host.acnspawn("gc", "--grace-period=0").expect(0)
    equal(host.pods(), [], "pods")


# --- The host ---------------------------------------------------------------------------------------------------------------------

@case
def missing_nspawn_is_named(host):
    """... with its package; and the pod can be run once that is installed."""
    uuid = host.prepare(host.shell("true"))
    nspawn = shutil.which("systemd-nspawn")
    empty = host.path("nothing")
    open(empty, "w").close()
    p = subprocess.run(["unshare", "--mount", "sh", "-c", 'mount --bind "$0" "$1" && shift && exec "$@"', empty, nspawn] +
                       host.argv("run", uuid), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    true(p.returncode not in (0, 2), "exit status %d" % p.returncode)
    contains(p.stderr, "Cannot execute /usr/bin/systemd-nspawn", "message")
    contains(p.stderr, "Install the package systemd-container", "hint")


@case
def store_of_another_version_is_refused(host):
    host.prepare(host.shell("true"))
    with open(os.path.join(host.dir, "version"), "w") as f:
        f.write("99\n")
    r = host.acnspawn("list").expect(1)
    contains(r.err, "99", "message")


@case
def store_that_others_can_write_to_is_refused(host):
    os.mkdir(host.dir)
    os.chmod(host.dir, 0o777)
    r = host.acnspawn("prepare", host.shell("true")).expect(1)
    contains(r.err, host.dir, "message")


@case
def without_the_privileges_that_it_takes(host):
    """Reported as such; and nothing is left behind, including the cgroup."""
    weaker = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]
    host.prepare("--name=p", host.shell("true"))
    for arguments in (["run", "p"], ["run", "--name=q", host.shell("true")]):
        p = subprocess.run(weaker + host.argv(*arguments), capture_output=True, text=True)
        equal(p.returncode, 1)
        contains(p.stderr, "CAP_SYS_ADMIN")
    equal(host.state("p"), "exited")
    contains(host.acnspawn("status", "q").expect(1).err, "There is no pod 'q'")


@case
def pods_of_enabled_units_stay(host):
    """acnspawn@NAME could not start without its pod, unless a file declares that: the pod, by its name or UUID, and its image."""
    os.makedirs(host.path("units/multi-user.target.wants"))
    os.makedirs(host.path("config/pods"))
    env = dict(os.environ, SYSTEMD_UNIT_PATH=host.path("units"), ACNSPAWN_CONFIG_DIR=host.path("config"))
    image = host.acnspawn("fetch", host.shell("true", name="example.com/a")).expect(0).out.strip()
    names = ["prepared", "ended", "declared", "other"]
    uuids = {n: host.prepare("--name=" + n, "example.com/a") for n in names + ["by-uuid", "by-beginning"]}
    for n in "ended", "by-uuid", "declared", "other":
        host.run(n)
    with open(host.path("config/pods/declared.pod"), "w") as f:
        f.write("[App a]\nImage=example.com/x\n")
    beginning = uuids["by-beginning"][:6].upper()
    for instance in "prepared", "ended", "declared", uuids["by-uuid"], beginning:
        os.symlink("/lib/systemd/system/acnspawn@.service", host.path("units/multi-user.target.wants/acnspawn@%s.service" % instance))
    gone = lambda *args: {r["id"] for r in json.loads(host.acnspawn(*args, "--json=short", env=env).expect(0).out) if r["kind"] in ("pod", "image")}
    gc = "gc", "--grace-period=0", "--expire-prepared=0"
    equal(gone(*gc, "--dry-run"), {uuids["declared"], uuids["other"]})
    equal(gone("prune", "--dry-run"), {uuids["declared"], uuids["other"]})
    equal(gone(*gc), {uuids["declared"], uuids["other"]})
    host.acnspawn("rm", uuids["prepared"]).expect(0)
    equal(gone("image", "gc", "--grace-period=0"), set(), "while a pod of it may be run again")
    host.run("ended")
    # What cannot be found out is not "none": only pods stay then.
    os.symlink("loop.wants", host.path("units/loop.wants"))
    r = host.acnspawn(*gc, env=env).expect(1)
    contains(r.err, "Cannot find out which pods units of the host need: Cannot read which units are enabled")
    contains(host.acnspawn("image", "gc", "--grace-period=0", env=env).expect(1).err, "Cannot find out which pods units of the host need")
    os.unlink(host.path("units/loop.wants"))
    for instance in "ended", uuids["by-uuid"], beginning:
        os.unlink(host.path("units/multi-user.target.wants/acnspawn@%s.service" % instance))
    true({uuids["by-uuid"], uuids["by-beginning"], uuids["ended"]} <= gone(*gc), "nothing needs them now")
    equal(gone("image", "gc", "--grace-period=0"), {image})


def declare_looping(host):
    """A declared pod whose app fails at once. Returns the environment that has it."""
    os.makedirs(host.path("config/pods"))
    host.acnspawn("fetch", host.shell("exit 3", name="example.com/a")).expect(0)
    with open(host.path("config/pods/looping.pod"), "w") as f:
        f.write("[App a]\nImage=example.com/a\n")
    return dict(os.environ, ACNSPAWN_CONFIG_DIR=host.path("config"))


@case
def of_a_unit_that_crashes_in_a_loop_the_last_pods_stay(host):
    """A collector comes too late for that. What was run by hand stays until one comes."""
    env = declare_looping(host)
    pods = lambda: sorted(os.path.basename(p) for p in host.pods())
    host.run("--name=by-hand", "example.com/a", rc=3)
    host.run("by-hand", rc=3)
    before, made = pods(), []
    for _ in range(9):
        host.run("--declared=looping", rc=3, env=env)
        made += [p for p in pods() if p not in before + made]
    equal(len(made), 9)
    equal(pods(), sorted(before + made[-6:]))
    made = [host.prepare("example.com/a")]
    for _ in range(9):
        host.run("--service", made[0], rc=3, env=env)
        made += [p for p in pods() if p not in before + made and host.status(p).get("predecessor") == made[0]]
    true(made[0] in pods(), "the pod that the unit names stays")
    equal(sorted(p for p in pods() if p in made), sorted(made[:1] + made[-6:]))


@case
def a_loop_takes_no_data_and_waits_for_nothing(host):
    """The pod that ran for long before its unit began to crash stays; and those that cannot be removed now do not keep the others there."""
    env, made = declare_looping(host), []

    def start():
        host.run("--declared=looping", rc=3, env=env)
        made.extend({os.path.basename(p) for p in host.pods()} - set(made))

    start()
    config = os.path.join(host.pod_dir(made[0]), "config")
    text = json.load(open(config))
    text["createdUSec"] -= 3600 * 1000000
    with open(config, "w") as f:
        json.dump(text, f)
    for _ in range(4):
        start()
    records = [os.path.join(host.pod_dir(uuid), "network") for uuid in made[1:]]
    for record in records:
        with open(record, "w") as f:
            f.write("x")
    for _ in range(8):
        start()
    equal({os.path.basename(p) for p in host.pods()}, set(made[:5] + made[-6:]))
    for record in records:
        os.unlink(record)


@case
def a_prepared_pod_of_a_store_that_was_moved_runs(host):
    host.acnspawn("fetch", host.shell("cat /data/words", name="example.com/a")).expect(0)
    host.acnspawn("volume", "create", "v").expect(0)
    with open(os.path.join(host.dir, "volumes/v/data/words"), "w") as f:
        f.write("words")
    host.prepare("--name=p", "--volume=e,kind=empty", "example.com/a", "--volume=v:/data", "--mount=e:/e")
    usual = host.dir
    os.rename(usual, host.path("moved"))
    host.dir = host.path("moved")
    try:
        equal(host.run("p").out, "words")
        equal(host.run("p").out, "words")
    finally:
        host.acnspawn("gc", "--grace-period=0", "--expire-prepared=0")
        os.rename(host.dir, usual)
        host.dir = usual


@case
def copies_of_a_store_leave_the_pods_that_run_alone(host):
    """The records of what runs are copied as well: in the copy that has ended, whatever is done with it there."""
    uuid = host.detach("--name=web", host.shell(FOREVER, name="example.com/a"))
    host.wait_up("a")
    usual, copies = host.dir, []
    for i, args in enumerate((("rm", "web"), ("prune", "--force"), ("gc", "--grace-period=0"), ("run", "--detach", "web"))):
        copies.append(host.path("copy-%d" % i))
        subprocess.run(["cp", "-a", usual, copies[i]], check=True)
        host.dir = copies[i]
        try:
            host.acnspawn(*args).expect(0)
            if args[0] == "run":
                host.acnspawn("rm", "--force", "web").expect(0)
        finally:
            host.dir = usual
        equal(host.state(uuid), "running", "after %s in a copy" % (args,))
        equal(host.acnspawn("enter", "web", "/bin/busybox", "echo", "there").expect(0).out.strip(), "there")
    host.acnspawn("stop", "--force", "web").expect(0)
    # What was killed and is moved with its store is still its own.
    uuid = host.detach("--name=other", "example.com/a")
    host.wait_up("a")
    os.kill(host.supervisor(uuid), signal.SIGKILL)
    wait_for(lambda: host.state(uuid) == "exited", "the end of the pod")
    with open(os.path.join(host.pod_dir(uuid), "cgroups")) as f:
        paths = f.read().split()
    os.rename(usual, host.path("moved"))
    host.dir = host.path("moved")
    try:
        host.acnspawn("rm", "other").expect(0)
        equal([c for c in paths if os.path.exists(c)], [], "cgroups")
    finally:
        os.rename(host.dir, usual)
        host.dir = usual


main()
