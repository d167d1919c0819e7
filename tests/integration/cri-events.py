#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The stream of events of the Container Runtime Interface: each transition once, in its order, with the statuses."""

import threading

from cri_client import *


class Events:
    """What a client reads, in a thread: until the stream ends."""

    def __init__(self, client):
        self.stream = client.method("GetContainerEvents", stream=True)(messages().GetEventsRequest())
        self.seen, self.end = [], None
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        try:
            for e in self.stream:
                self.seen.append(e)
        except grpc.RpcError as e:
            self.end = e.code().name, e.details()

    def of(self, id):
        return [messages().ContainerEventType.Name(e.container_event_type).split("_")[1] for e in list(self.seen) if e.container_id == id]

    def wait(self, id, *types):
        wait_for(lambda: len(self.of(id)) >= len(types), lambda: "events %s of %s: %s" % (types, id[:12], self.of(id)))
        equal(self.of(id), list(types), id)

    def close(self):
        self.stream.cancel()
        self.thread.join(60)


@contextlib.contextmanager
def listening(client):
    """With a stream that is open: a sandbox that comes and goes was reported."""
    events = Events(client)

    def is_open():
        remove(client, run_sandbox(client, name="marker"))
        return events.seen
    try:
        wait_for(is_open, "the first event")
        yield events
    finally:
        events.close()


@case
def every_transition_once(host):
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        with listening(c) as v, listening(c) as second:
            i = run_sandbox(c)
            v.wait(i, "CREATED", "STARTED")
            a = create(c, i, "main", image_id, SLEEP)
            v.wait(a, "CREATED")
            c.call("StartContainer", container_id=a)
            v.wait(a, "CREATED", "STARTED")
            # One that ends at once.
            b = create(c, i, "short", image_id, "exit 3")
            c.call("StartContainer", container_id=b)
            v.wait(b, "CREATED", "STARTED", "STOPPED")
            # One whose program is not there was not started.
            n = c.call("CreateContainer", pod_sandbox_id=i,
                       config=container_config("none", image_id, "", command=["/no/such/program"])).container_id
            true(c.refused("StartContainer", container_id=n)[0] != "OK", "a program that is not there")
            v.wait(n, "CREATED", "STOPPED")
            never = create(c, i, "never", image_id, SLEEP)
            stop(c, a, 10)
            v.wait(a, "CREATED", "STARTED", "STOPPED")
            c.call("RemoveContainer", container_id=a)
            v.wait(a, "CREATED", "STARTED", "STOPPED", "DELETED")
            c.call("StopPodSandbox", pod_sandbox_id=i)
            v.wait(i, "CREATED", "STARTED", "STOPPED")
            v.wait(never, "CREATED", "STOPPED")
            # Of a pod that has ended, where no supervisor is.
            c.call("RemoveContainer", container_id=b)
            v.wait(b, "CREATED", "STARTED", "STOPPED", "DELETED")
            c.call("RemovePodSandbox", pod_sandbox_id=i)
            v.wait(i, "CREATED", "STARTED", "STOPPED", "DELETED")
            v.wait(never, "CREATED", "STOPPED", "DELETED")
            for x in i, a, b, n, never:
                second.wait(x, *v.of(x))
            # What comes with them.
            e = {(e.container_id, e.container_event_type): e for e in v.seen}
            started = e[a, 1]
            equal((started.pod_sandbox_status.id, started.pod_sandbox_status.metadata.uid), (i, "u1"))
            equal([(x.id, x.metadata.name) for x in started.containers_statuses], [(a, "main")])
            exited = [x for x in e[b, 2].containers_statuses if x.id == b][0]
            equal((exited.state, exited.exit_code), (messages().CONTAINER_EXITED, 3))
            gone = e[i, 3]
            equal((gone.pod_sandbox_status.metadata.uid, gone.pod_sandbox_status.state, len(gone.containers_statuses)), ("u1", 1, 0))
            times = [x.created_at for x in v.seen]
            equal(times, sorted(times), "order of the events")
            true(abs(times[-1] - time.time_ns()) < 600 * 10**9, "time of the last event")


@case
def containers_of_a_sandbox_come_newest_first(host):
    """A kubelet that uses events takes the first container of a name in a sandbox status as the current attempt."""
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        with listening(c) as v:
            i = run_sandbox(c)
            for attempt in range(3):
                for name in "main", "other":
                    a = create(c, i, name, image_id, "exit 3", attempt=attempt)
                    c.call("StartContainer", container_id=a)
                    v.wait(a, "CREATED", "STARTED", "STOPPED")
            expected = [(name, attempt) for attempt in (2, 1, 0) for name in ("other", "main")]
            for statuses in c.call("PodSandboxStatus", pod_sandbox_id=i).containers_statuses, v.seen[-1].containers_statuses:
                equal([(x.metadata.name, x.metadata.attempt) for x in statuses], expected)
            c.call("StopPodSandbox", pod_sandbox_id=i)
            c.call("RemovePodSandbox", pod_sandbox_id=i)


@case
def a_client_that_does_not_read_loses_its_stream(host):
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        slow = s.client().method("GetContainerEvents", stream=True)(messages().GetEventsRequest(), timeout=300)
        with listening(c) as v:
            # The statuses of each event have the annotations.
            i = run_sandbox(c, annotations={"large": "x" * 240000})
            for n in range(12):
                a = create(c, i, "c%d" % n, image_id, SLEEP)
                c.call("RemoveContainer", container_id=a)
                v.wait(a, "CREATED", "STOPPED", "DELETED")
            remove(c, i)
            v.wait(i, "CREATED", "STARTED", "STOPPED", "DELETED")
            got = []
            try:
                for e in slow:
                    got.append((e.container_id, e.container_event_type))
                fail("the stream has ended without an error")
            except grpc.RpcError as e:
                equal((e.code().name, e.details()), ("RESOURCE_EXHAUSTED", "The events were not read"))
            seen = [(e.container_id, e.container_event_type) for e in v.seen]
            true(got and len(got) < len(seen), "events before the end: %d of %d" % (len(got), len(seen)))
            equal(got[-len(seen):], ([x for x in got if x not in seen] + seen)[:len(got)], "events that were read")


@case
def after_a_restart_only_what_is_new(host):
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        i = run_sandbox(c)
        a, b = create(c, i, "a", image_id, SLEEP), create(c, i, "b", image_id, SLEEP)
        c.call("StartContainer", container_id=a)
        with listening(c) as v:
            s.process.terminate()
            equal(s.process.wait(patience(60)), 0, "exit status")
            wait_for(lambda: v.end, "the end of the stream")
            equal(v.end, ("UNAVAILABLE", "The service ends"))
        s.start()
        c = s.client()
        wait_for(lambda: answers(c), "a reply after the restart")
        with listening(c) as v:
            c.call("StartContainer", container_id=b)
            v.wait(b, "STARTED")
            # The supervisor is killed: all has ended.
            uuid = "%s-%s-%s-%s-%s" % (i[:8], i[8:12], i[12:16], i[16:20], i[20:32])
            os.kill(host.supervisor(uuid), 9)
            v.wait(i, "STOPPED")
            v.wait(a, "STOPPED")
            v.wait(b, "STARTED", "STOPPED")
            remove(c, i)
            v.wait(i, "STOPPED", "DELETED")


if __name__ == "__main__":
    main_of_cri()
