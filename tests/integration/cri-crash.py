#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn-cri is killed at any step of RunPodSandbox and of CreateContainer, alone or together with the process of the call. The next one lists
what there is as a whole, and the same call succeeds once that is removed: no name and no directory stays taken.
With ACNSPAWN_TEST_LONG=1 every step that others can see is one, otherwise a few of them."""

import signal

from cri_client import *
from lost_power import LONG, NAMED, stopped

POINTS = 3


def kill(service, *pids):
    """The process of a call is stopped at this moment."""
    for pid in (service.process.pid, *pids):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    service.process.wait(patience(60))


def go_on(host):
    """strace leaves processes stopped if it ends when they have just been stopped."""
    for pid in processes_where(lambda pid: "State:\tT" in read_text("/proc/%d/status" % pid), [pid for pid, _ in find_processes(host)]):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def visible_steps(host, pids, begin):
    """Numbers of the system calls, of PIDS and their children, that change what others see, and of the last one."""
    found = []

    def at_stop(number, call):
        if NAMED.match(call) and " = -1" not in call and "/proc/" not in call:
            found.append(number)
    total = stopped(host, [], pids, at_stop, begin)
    true(len(found) > POINTS, "only %d of %d system calls are visible" % (len(found), total))
    return found + [total]


def chosen(steps):
    return steps if LONG else [steps[(2 * k + 1) * len(steps) // (2 * POINTS)] for k in range(POINTS)]


class Call:
    """A call of a client, which is killed."""

    def __init__(self, service, name, **fields):
        self.service, self.name, self.fields = service, name, fields
        self.client = service.client()

    def begin(self):
        self.future = self.client.begin(self.name, **self.fields)
        return self.future.done

    def kill_at(self, host, step, both, pids=()):
        """Whether the service was killed: the call may have ended before."""
        killed = []

        def at_stop(number, call):
            if number >= step and not killed:
                killed.append(number)
                kill(self.service, *(children_of(self.service.process.pid) if both else ()))
            return bool(killed)
        stopped(host, [], (self.service.process.pid, *pids), at_stop, self.begin)
        go_on(host)
        if not killed:
            kill(self.service)
        with contextlib.suppress(grpc.RpcError):
            self.future.result()
        self.client.close()
        return bool(killed)


def restarted(service):
    service.start()
    c = service.client()
    wait_for(lambda: answers(c), "a reply after the restart")
    return c


def on_disk(host):
    return sorted(u for s in ("preparing", "prepared", "running", "exited", "garbage") for u in os.listdir(os.path.join(host.dir, "pods", s))
                  if len(u) == 36)


def made_anew(c, list_, remove_, make):
    """As a kubelet does: what is listed is removed, until the same can be made. A process that was left behind may still be at work."""
    def attempt():
        for i in list_():
            remove_(i)
        try:
            return make()
        except grpc.RpcError as e:
            equal(e.code().name, "ALREADY_EXISTS", e.details())
    return wait_for(attempt, "room for the same once more")


@case
@with_timeout(1800 if LONG else 120)
def killed_at_many_steps_of_run_pod_sandbox(host):
    need_strace()
    ranges = [{"host_id": 0x71000000, "container_id": 0, "length": 65536}]
    config = sandbox_config(linux={"security_context": {"namespace_options": {
        "network": 2, "pid": 1, "userns_options": {"mode": 0, "uids": ranges, "gids": ranges}}}})
    with Service(host) as s:
        c, killed = s.client(), 0
        call = Call(s, "RunPodSandbox", config=config)
        steps = visible_steps(host, (s.process.pid,), call.begin)
        remove(c, call.future.result().pod_sandbox_id)
        for k, step in enumerate(chosen(steps)):
            killed += Call(s, "RunPodSandbox", config=config).kill_at(host, step, both=k % 2)
            c = restarted(s)
            made = made_anew(c, lambda: [i for i, _ in sandboxes(c)], lambda i: remove(c, i), lambda: c.call("RunPodSandbox", config=config))
            equal(sandboxes(c), [(made.pod_sandbox_id, "READY")], "sandboxes, killed at step %d" % step)
            remove(c, made.pod_sandbox_id)
            # The start of a pod that has neither a name nor users yet is removed by gc.
            wait_for(lambda: host.acnspawn("gc").expect(0) and on_disk(host) == [], lambda: "pods %s to be removed, killed at step %d" % (on_disk(host), step))
        true(killed > 1, "only %d times killed" % killed)


@case
@with_timeout(1800 if LONG else 120)
def killed_at_many_steps_of_create_container(host):
    """The supervisor of the pod goes on, and has made the container or not."""
    need_strace()
    with Service(host) as s:
        c, image_id, killed = s.client(), image(host), 0
        i = run_sandbox(c)
        fields, supervisor = {"pod_sandbox_id": i, "config": container_config("main", image_id, "exit 3")}, host.supervisor(uuid_of(i))
        call = Call(s, "CreateContainer", **fields)
        steps = visible_steps(host, (s.process.pid, supervisor), call.begin)
        c.call("RemoveContainer", container_id=call.future.result().container_id)
        for k, step in enumerate(chosen(steps)):
            killed += Call(s, "CreateContainer", **fields).kill_at(host, step, k % 2, [supervisor])
            c = restarted(s)
            equal(sandboxes(c), [(i, "READY")])
            a = made_anew(c, lambda: [x.id for x in c.call("ListContainers").containers], lambda x: c.call("RemoveContainer", container_id=x),
                          lambda: c.call("CreateContainer", **fields)).container_id
            c.call("StartContainer", container_id=a)
            wait_for(lambda: state(c, a) == "EXITED", "the end of the container")
            equal(status(c, a).exit_code, 3)
            c.call("RemoveContainer", container_id=a)
            wait_for(lambda: os.listdir(host.pod_dir(uuid_of(i)) + "/apps") == [], "the directories of containers to go, killed at step %d" % step)
        true(killed > 1, "only %d times killed" % killed)
        remove(c, i)


if __name__ == "__main__":
    main_of_cri()
