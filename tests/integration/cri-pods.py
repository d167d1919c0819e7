#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Sandboxes and containers of the Container Runtime Interface."""

import re
import threading

from cri_client import *

LONG = os.environ.get("ACNSPAWN_TEST_LONG") == "1"


@case
def life_of_a_sandbox(host):
    with Service(host) as s:
        c = s.client()
        equal(c.refused("RunPodSandbox", config=sandbox_config(), runtime_handler="runc"), ("NOT_FOUND", "There is no runtime handler 'runc'"))
        i = c.call("RunPodSandbox", config=sandbox_config(), runtime_handler="acnspawn").pod_sandbox_id
        true(re.fullmatch("[0-9a-f]{64}", i), i)
        equal(sandboxes(c), [(i, "READY")])
        t = c.call("PodSandboxStatus", pod_sandbox_id=i, verbose=True)
        equal((t.status.id, t.status.state, t.status.metadata.uid, dict(t.status.labels), t.status.network.ip),
              (i, 0, "u1", {"app": "web"}, ""))
        true(time.time_ns() - t.status.created_at < 120 * 10**9, "time of creation")
        info = json.loads(t.info["info"])
        true(info["pid"] > 1 and info["processStatus"] == "running" and not info["netNamespaceClosed"], t.info)
        equal((info["config"]["metadata"]["name"], info["config"]["labels"], info["sandboxMetadata"]["Metadata"]["ID"]), ("web", {"app": "web"}, i))
        # By a prefix of the ID, and by filters.
        equal(c.call("PodSandboxStatus", pod_sandbox_id=i[:13]).status.id, i)
        for f, found in (({"id": i}, 1), ({"id": "0" * 64}, 0), ({"label_selector": {"app": "web"}}, 1),
                         ({"label_selector": {"app": "x"}}, 0), ({"state": {"state": 0}}, 1), ({"state": {"state": 1}}, 0)):
            equal(len(sandboxes(c, **f)), found, f)
        equal(c.call("PodSandboxStatus", pod_sandbox_id=i).status.runtime_handler, "acnspawn")
        # The same once more.
        equal(c.refused("RunPodSandbox", config=sandbox_config())[0], "ALREADY_EXISTS")
        # Collectors leave it alone.
        for _ in range(2):
            c.call("StopPodSandbox", pod_sandbox_id=i)
            equal(sandboxes(c), [(i, "NOTREADY")])
            host.acnspawn("gc", "--grace-period=0").expect(0)
        for _ in range(2):
            c.call("RemovePodSandbox", pod_sandbox_id=i)
            equal(sandboxes(c), [])
        c.call("StopPodSandbox", pod_sandbox_id=i)
        equal(c.refused("PodSandboxStatus", pod_sandbox_id=i), ("NOT_FOUND", "There is no sandbox '%s'" % i))


@case
def life_of_a_container(host):
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        logs = host.path("logs")
        os.mkdir(logs)
        i = run_sandbox(c, log_directory=logs)
        a = create(c, i, "main", image_id, "echo out; echo err >&2; " + SLEEP, log_path="main.log",
                   envs=[{"key": "A", "value": b"b c"}])
        equal(state(c, a), "CREATED")
        equal(c.refused("CreateContainer", pod_sandbox_id=i, config=container_config("main", image_id, "true"))[0],
              "ALREADY_EXISTS")
        c.call("StartContainer", container_id=a)
        equal(state(c, a), "RUNNING")
        equal(c.refused("StartContainer", container_id=a)[0], "FAILED_PRECONDITION")
        wait_for(lambda: read_text(logs + "/main.log").count("\n") == 2, "the log")
        lines = sorted(l.split(" ", 1)[1] for l in read_text(logs + "/main.log").splitlines())
        equal(lines, ["stderr F err", "stdout F out"])
        os.rename(logs + "/main.log", logs + "/old.log")
        c.call("ReopenContainerLog", container_id=a)
        true(os.path.exists(logs + "/main.log"), "the new log")
        # Commands beside it.
        r = c.call("ExecSync", container_id=a, cmd=["/bin/sh", "-c", "echo $A; echo no >&2; exit 3"])
        equal((r.stdout, r.stderr, r.exit_code), (b"b c\n", b"no\n", 3))
        try:
            c.call("ExecSync", messages().ExecSyncRequest(container_id=a, cmd=["sleep", "1000"], timeout=1))
            fail("the command did not end")
        except grpc.RpcError as e:
            equal((e.code().name, e.details()), ("DEADLINE_EXCEEDED", "The command did not end within 1 s, and was killed"))
        # The end.
        for _ in range(2):
            stop(c, a, 30)
            t = status(c, a)
            equal((t.state, t.exit_code, t.reason), (2, 0, "Completed"))
        # Another signal than SIGTERM.
        info = json.loads(c.call("ContainerStatus", container_id=a, verbose=True).info["info"])
        equal((uuid_of(i), a[:32], i, 0), (info["pod"], info["app"], info["sandboxID"], info["pid"]))
        equal((info["config"]["metadata"], info["config"]["labels"], info["runtimeSpec"]["process"]["cwd"]), ({"name": "main"}, {"c": "main"}, "/"))
        n = create(c, i, "signal", image_id, "trap 'exit 9' USR1; trap '' TERM; touch /tmp/up; " + SLEEP[len("trap 'exit 0' TERM; "):], stop_signal=29)
        c.call("StartContainer", container_id=n)
        wait_for(lambda: c.call("ExecSync", container_id=n, cmd=["test", "-e", "/tmp/up"]).exit_code == 0, "a shell that ignores SIGTERM")
        info = json.loads(c.call("ContainerStatus", container_id=n, verbose=True).info["info"])
        contains(read_text("/proc/%d/cmdline" % info["pid"]), "exit 9")
        contains(info["runtimeSpec"]["process"]["args"][-1], "exit 9")
        spaces = {x["type"]: x["path"] for x in info["runtimeSpec"]["linux"]["namespaces"]}
        equal(os.readlink(spaces["mount"]), os.readlink("/proc/%d/ns/mnt" % info["pid"]))
        stop(c, n, 30)
        equal((status(c, n).exit_code, status(c, n).stop_signal), (9, 29))
        equal(status(c, a).stop_signal, 23, "SIGTERM")
        equal(c.refused("CreateContainer", pod_sandbox_id=i, config=container_config("x", image_id, "true", stop_signal=999))[0], "INVALID_ARGUMENT")
        c.call("RemoveContainer", container_id=n)
        # Without a time-out it is killed.
        k = create(c, i, "killed", image_id, "trap '' TERM; touch /tmp/up; " + SLEEP[len("trap 'exit 0' TERM; "):])
        c.call("StartContainer", container_id=k)
        wait_for(lambda: c.call("ExecSync", container_id=k, cmd=["test", "-e", "/tmp/up"]).exit_code == 0, "a shell that ignores SIGTERM")
        stop(c, k, 0)
        equal((status(c, k).exit_code, status(c, k).reason), (137, "Error"))
        c.call("RemoveContainer", container_id=k)
        true(t.created_at <= t.started_at <= t.finished_at <= time.time_ns(), t)
        equal([x.id for x in c.call("ListContainers", filter={"label_selector": {"c": "main"}}).containers], [a])
        b = create(c, i, "main", image_id, "exit 7", attempt=1)
        c.call("StartContainer", container_id=b)
        wait_for(lambda: state(c, b) == "EXITED", "the end of the second")
        equal((status(c, b).exit_code, status(c, b).reason), (7, "Error"))
        for _ in range(2):
            c.call("RemoveContainer", container_id=a)
        equal([x.id for x in c.call("ListContainers").containers], [b])
        # What is left when the sandbox has ended.
        c.call("StopPodSandbox", pod_sandbox_id=i)
        equal((status(c, b).state, status(c, b).exit_code), (2, 7))
        equal(c.refused("CreateContainer", pod_sandbox_id=i, config=container_config("z", image_id, "true"))[0],
              "FAILED_PRECONDITION")
        c.call("RemoveContainer", container_id=b)
        equal(len(c.call("ListContainers").containers), 0)
        remove(c, i)


@case
def commands_end_without_what_they_leave_behind(host):
    """As a probe that starts something in the background: the reply does not wait for processes that hold the output, or write without an end."""
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        i = run_sandbox(c)
        a = create(c, i, "main", image_id, SLEEP)
        c.call("StartContainer", container_id=a)
        for script in "sleep 1000 & echo x; exit 4", "echo x; (while sleep 0.1; do echo more; done) & exit 4", "echo x; yes >&2 & exit 4":
            r = c.call("ExecSync", messages().ExecSyncRequest(container_id=a, cmd=["/bin/sh", "-c", script], timeout=600))
            equal((r.exit_code, r.stdout[:2]), (4, b"x\n"), script)
            true(len(r.stdout) + len(r.stderr) < 16 << 20, "the size of the reply")
        # All that the command itself has written is there, also if its end comes first.
        r = c.call("ExecSync", container_id=a, cmd=["/bin/sh", "-c", "sleep 1000 & head -c 3000000 /dev/zero; exit 0"])
        equal((r.exit_code, len(r.stdout)), (0, 3000000))
        wait_for(lambda: s.children() == [], "the processes of the calls to end")
        remove(c, i)


@case
def output_beyond_the_reply_size_is_truncated_with_a_note(host):
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        i = run_sandbox(c)
        a = create(c, i, "main", image_id, SLEEP)
        c.call("StartContainer", container_id=a)
        size = (16 << 20) - 4096
        note = b"acnspawn: the output is longer than %d bytes, and was truncated\n" % size
        for script, out, err in (("head -c %d /dev/zero" % (12 << 20), 12 << 20, b""), ("head -c %d /dev/zero" % size, size, b""),
                                 ("echo first >&2; head -c %d /dev/zero" % (20 << 20), size - 6, b"first\n" + note)):
            r = c.call("ExecSync", container_id=a, cmd=["/bin/sh", "-c", script])
            equal((r.exit_code, len(r.stdout), r.stderr), (0, out, err), script)
        remove(c, i)


@case
def containers_have_the_environment_of_other_runtimes(host):
    """HOSTNAME is set, no variables of App Containers, and no port listens in their network."""
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        i = run_sandbox(c, hostname="web-0")
        script = "env >/tmp/env.new; mv /tmp/env.new /tmp/env; " + SLEEP
        a = create(c, i, "main", image_id, script)
        b = create(c, i, "own", image_id, script, envs=[{"key": "HOSTNAME", "value": b"mine"}], tty=True)

        def run(container, script):
            return c.call("ExecSync", container_id=container, cmd=["/bin/sh", "-c", script]).stdout.decode().replace("\r", "").splitlines()
        for container in a, b:
            c.call("StartContainer", container_id=container)
            wait_for(lambda: run(container, "test -e /tmp/env && echo yes") == ["yes"], "the container")
        equal(run(a, "echo $HOSTNAME; hostname; env | grep ^AC_"), ["web-0", "web-0"])
        equal(run(a, "grep -e ^AC_ -e ^HOSTNAME= -e ^TERM= /tmp/env"), ["HOSTNAME=web-0"])
        equal(host.status(os.path.basename(host.pods()[0]))["metadata"], "no")
        equal(run(b, "grep -e ^HOSTNAME= /tmp/env"), ["HOSTNAME=mine"])
        equal(len(run(b, "grep -e ^TERM= /tmp/env")), 1)
        remove(c, i)


@case
def a_last_line_without_a_newline_is_a_partial_record(host):
    """The kubelet reproduces the text as it was written, for example as a termination message."""
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        logs = host.path("logs")
        os.mkdir(logs)
        i = run_sandbox(c, log_directory=logs)
        a = create(c, i, "main", image_id, "echo line; printf DONE; printf E >&2", log_path="main.log")
        c.call("StartContainer", container_id=a)
        wait_for(lambda: state(c, a) == "EXITED", "the end")
        equal(sorted(l.split(" ", 1)[1] for l in read_text(logs + "/main.log").splitlines()), ["stderr P E", "stdout F line", "stdout P DONE"])
        remove(c, i)


@case
def users_that_no_process_can_have_are_refused(host):
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        i = run_sandbox(c)
        for context, field in (({"run_as_user": {"value": 1 << 32}}, "run_as_user"), ({"run_as_user": {"value": -1}}, "run_as_user"),
                               ({"run_as_user": {"value": (1 << 32) - 1}}, "run_as_user"),
                               ({"run_as_user": {"value": 1}, "run_as_group": {"value": 1 << 40}}, "run_as_group")):
            code, message = c.refused("CreateContainer", pod_sandbox_id=i,
                                      config=container_config("x", image_id, "true", linux={"security_context": context}))
            equal(code, "INVALID_ARGUMENT", message)
            contains(message, "The field 'linux.security_context.%s' of the request is %d, which is not from 0 to 4294967294" %
                     (field, context[field]["value"]))
        remove(c, i)


@case
def the_endpoint_can_be_killed_between_calls(host):
    with Service(host) as s:
        image_id = image(host)

        def again():
            s.process.kill()
            s.process.wait(patience(60))
            s.start()
            c = s.client()
            wait_for(lambda: answers(c), "a reply after the restart")
            return c
        i = run_sandbox(s.client())
        a = create(again(), i, "main", image_id, SLEEP)
        equal(state(again(), a), "CREATED")
        again().call("StartContainer", container_id=a)
        equal(state(again(), a), "RUNNING")
        stop(again(), a, 30)
        equal(state(again(), a), "EXITED")
        again().call("StopPodSandbox", pod_sandbox_id=i)
        equal(sandboxes(again()), [(i, "NOTREADY")])
        again().call("RemovePodSandbox", pod_sandbox_id=i)
        equal(sandboxes(again()), [])


def places(host, *states):
    """The UUIDs of the pods in the store."""
    return sorted(u for s in states for u in os.listdir(os.path.join(host.dir, "pods", s)) if len(u) == 36)


@case
def sandboxes_whose_calls_were_killed_are_listed(host):
    with Service(host) as s:
        c = s.client()
        remove(c, run_sandbox(c, name="first"))
        for n, states in enumerate((("preparing", "prepared", "running"), ("running",))):
            call = c.begin("RunPodSandbox", config=sandbox_config(name="web", attempt=n))
            wait_for(lambda: call.done() or (s.children() and places(host, *states)), "a pod that is %s" % (states,))
            for child in s.children():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(child), 9)
            wait_for(call.done, "the end of the call")
            there = lambda: places(host, "prepared", "running", "exited")
            wait_for(lambda: sorted(uuid_of(i) for i, _ in sandboxes(c)) == there(),
                     lambda: "sandboxes %s, pods %s" % (sandboxes(c), there()))
            remove(c, *[i for i, _ in sandboxes(c)])
            equal(sandboxes(c), [])


@case
def sandboxes_of_an_earlier_boot_have_ended(host):
    """Their containers are listed with their exit status, so that the client does not run them again; it removes them."""
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        i, kept = run_sandbox(c, name="old"), run_sandbox(c, name="new")
        a, b = create(c, i, "done", image_id, "exit 0"), create(c, i, "runs", image_id, SLEEP)
        for x in a, b:
            c.call("StartContainer", container_id=x)
        wait_for(lambda: state(c, a) == "EXITED", "the end of a container")
        os.kill(host.supervisor(uuid_of(i)), 9)
        wait_for(lambda: (i, "NOTREADY") in sandboxes(c), "the end of the sandbox")
        s.process.kill()
        s.process.wait(patience(60))
        path = os.path.join(host.dir, "pods/running", uuid_of(i), "config")
        config = read_text(path)
        boot = read_text("/proc/sys/kernel/random/boot_id").strip()
        contains(config, boot)
        with open(path, "w") as f:
            f.write(config.replace(boot, "00000000-0000-4000-8000-000000000000"))
        host.acnspawn("gc", "--grace-period=0").expect(0)
        s.start()
        c = s.client()
        wait_for(lambda: answers(c), "a reply after the restart")
        equal(sorted(sandboxes(c)), sorted([(i, "NOTREADY"), (kept, "READY")]))
        equal((status(c, a).exit_code, status(c, a).reason), (0, "Completed"))
        equal((state(c, b), status(c, b).reason), ("EXITED", "Error"))
        true(status(c, b).exit_code != 0, "a container that ran has not completed")
        equal(c.call("PodSandboxStatus", pod_sandbox_id=i).status.state, 1)
        # The next attempt, beside the old one.
        k = run_sandbox(c, name="old", attempt=1)
        remove(c, i)
        equal(sorted(sandboxes(c)), sorted([(k, "READY"), (kept, "READY")]))
        equal(places(host, "running", "exited", "garbage"), sorted([uuid_of(kept), uuid_of(k)]))
        remove(c, kept, k)


@case
def sandboxes_that_a_loss_of_power_has_emptied(host):
    """Their calls were not answered. They keep no volume from being removed, and gc removes them."""
    with Service(host) as s:
        c = s.client()
        i, kept = run_sandbox(c, name="old"), run_sandbox(c, name="new")
        c.call("StopPodSandbox", pod_sandbox_id=i)
        s.process.kill()
        s.process.wait(patience(60))
        host.acnspawn("volume", "create", "spare").expect(0)
        path = os.path.join(host.dir, "pods/exited", uuid_of(i))
        for name in os.listdir(path):
            if os.path.isfile(os.path.join(path, name)):
                os.truncate(os.path.join(path, name), 0)
        contains(host.acnspawn("volume", "rm", "spare").expect(1).err, "cannot be read, so it is not known which volumes it uses")
        equal(os.readlink(path + "/owner-boot"), read_text("/proc/sys/kernel/random/boot_id").strip())
        os.unlink(path + "/owner-boot")
        os.symlink("00000000-0000-4000-8000-000000000000", path + "/owner-boot")
        host.acnspawn("volume", "rm", "spare").expect(0)
        host.acnspawn("gc").expect(0)
        equal(places(host, "running", "exited", "garbage"), [uuid_of(kept)])
        s.start()
        c = s.client()
        wait_for(lambda: answers(c), "a reply after the restart")
        equal(sandboxes(c), [(kept, "READY")])
        remove(c, kept)


@case
@with_timeout(1200 if LONG else 120)
def the_service_survives_supervisors_killed_during_calls(host):
    """A worker that starts at that moment inherits the connection to the supervisor; the service keeps running. Also meant for the
    sanitized build, and for 200 rounds (ACNSPAWN_TEST_LONG)."""
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        for n in range(200 if LONG else 8):
            i = run_sandbox(c, name="killed-%d" % n)
            pid, begun, results = host.supervisor(uuid_of(i)), threading.Event(), []

            def call():
                begun.set()
                results.append(run_sandbox(c, name="other-%d" % n))
            threads = [threading.Thread(target=call)] + [
                threading.Thread(target=lambda: results.append(c.call("ListImages", filter={"image": {"image": image_id}}))) for _ in range(3)]
            for t in threads:
                t.start()
            begun.wait()
            for _ in range(n % 8 * 2):  # at varying moments
                c.call("Version")
            os.kill(pid, signal.SIGKILL)
            for t in threads:
                t.join()
            equal(len(results), 4, "answered calls in round %d" % n)
            wait_for(lambda: c.call("PodSandboxStatus", pod_sandbox_id=i).status.state == 1, "the end of the sandbox")
            for sandbox in i, *(x for x in results if isinstance(x, str)):
                c.call("StopPodSandbox", pod_sandbox_id=sandbox)
                c.call("RemovePodSandbox", pod_sandbox_id=sandbox)
            equal(s.process.poll(), None, "the service")


@case
def killed_supervisor(host):
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        i = run_sandbox(c)
        a = create(c, i, "main", image_id, SLEEP)
        c.call("StartContainer", container_id=a)
        os.kill(host.supervisor(uuid_of(i)), 9)
        wait_for(lambda: sandboxes(c) == [(i, "NOTREADY")], "the end of the sandbox")
        equal(state(c, a), "EXITED")
        remove(c, i)


@case
def unsupported_fields_are_named(host):
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        for more, field in (({"linux": {"security_context": {"namespace_options": {"ipc": 3}}}}, "namespace_options.ipc"),
                            ({"linux": {"security_context": {"namespace_options": {"pid": 3}}}}, "namespace_options.pid"),
                            ({"windows": {"security_context": {"run_as_username": "x"}}}, "windows")):
            code, message = c.refused("RunPodSandbox", config=sandbox_config(**more))
            equal(code, "INVALID_ARGUMENT")
            contains(message, field)
        equal(c.refused("RunPodSandbox", config={})[0], "INVALID_ARGUMENT")
        equal(sandboxes(c), [])
        i = run_sandbox(c)
        for more, field in (({"CDI_devices": [{"name": "x"}]}, "CDI_devices"), ({"windows": {"security_context": {"run_as_username": "x"}}}, "windows"),
                            ({"mounts": [{"host_path": "/a", "container_path": "/b", "propagation": 2}]}, "mounts.propagation")):
            code, message = c.refused("CreateContainer", pod_sandbox_id=i, config=container_config("x", image_id, "true", **more))
            equal(code, "INVALID_ARGUMENT")
            contains(message, field)
        equal(c.refused("CreateContainer", pod_sandbox_id=i, config=container_config("x", "example.com/none", "true"))[0], "NOT_FOUND")
        remove(c, i)



if __name__ == "__main__":
    main_of_cri()
