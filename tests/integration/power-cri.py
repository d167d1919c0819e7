#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The power fails at any step of a kubelet's calls to acnspawn-cri (lost_power.py). Sandboxes do not run again in the next boot. Those that
calls were answered for are listed, with their containers and the exit status of these, and the client removes them. Of others, files may be
empty: they are not listed, do not get in the way, and are removed. Images are complete or absent.
With ACNSPAWN_TEST_LONG=1 every step is checked, on ext4 and XFS, otherwise a few of them."""

from cri_client import *
from registry_server import *
from lost_power import *  # after the others, as LONG is of the harness, too


class Endpoint(Service):
    """With a registry that is used by HTTP, of which the service warns."""

    def __init__(self, host, registry="127.0.0.1:1"):
        with open(host.path("registries.conf"), "w") as f:
            f.write('[[registry]]\nlocation = "%s"\ninsecure = true\n' % registry)
        with open(host.path("auth.json"), "w") as f:
            json.dump({"auths": {}}, f)
        os.chmod(host.path("auth.json"), 0o600)
        super().__init__(host, env={"CONTAINERS_REGISTRIES_CONF": host.path("registries.conf"), "HOME": host.tmp,
                                    "REGISTRY_AUTH_FILE": host.path("auth.json")})

    def said(self):
        return "".join(l for l in super().said().splitlines(keepends=True) if "insecure" not in l)


def cut(s, endpoint, client, busy, name, *request, pids=(), pick=None, **fields):
    """The losses of power in a call, and its reply."""
    calls = []

    def begin():
        calls.append(client.method(name).future(request[0] if request else client.types(name)[0](**fields), timeout=patience(120)))
        return calls[0].done
    s.sync()
    steps = losses(s.disk, (name,), (endpoint.process.pid, *pids), busy, begin, pick)
    return steps, calls[0].result()


def image_ids(client):
    return sorted(i.id for i in client.call("ListImages").images)


def goes_on(client, image_id):
    """The kubelet makes everything anew."""
    i = run_sandbox(client, name="later")
    a = create(client, i, "main", image_id, "exit 3")
    client.call("StartContainer", container_id=a)
    wait_for(lambda: state(client, a) == "EXITED", "the end of a container")
    equal(status(client, a).exit_code, 3)
    remove(client, i)


def listed(c):
    """The IDs of sandboxes, and of containers with their exit codes, or None if they have not ended."""
    return sorted(i for i, _ in sandboxes(c)), {x.id: status(c, x.id).exit_code if x.state == messages().CONTAINER_EXITED else None
                                                for x in c.call("ListContainers").containers}


def is_kept(found, wanted):
    return (found[0], found[1].keys()) == (wanted[0], wanted[1].keys()) and all(wanted[1][i] in (None, code) for i, code in found[1].items())


def look_at_endpoint(host, step, image_id=None, expected=()):
    """What it says in the next boot; returns the images. EXPECTED: what may be listed, or nothing in particular."""
    with Endpoint(host) as e:
        c = e.client()
        wait_for(lambda: answers(c), "a reply, after %s" % step)
        found = sandboxes(c)
        equal([x for _, x in found if x != "NOTREADY"], [], "sandboxes after %s" % step)
        for x in c.call("ListContainers").containers:
            equal((x.state, state(c, x.id)), (messages().CONTAINER_EXITED, "EXITED"), "containers after %s" % step)
        now = listed(c)
        true(not expected or any(is_kept(now, x) for x in expected), "%s is listed, which is none of %s, after %s" % (now, expected, step))
        remove(c, *[i for i, _ in found])
        equal((sandboxes(c), list(c.call("ListContainers").containers)), ([], []), "what is left after %s" % step)
        if image_id and (LONG or step.is_end()):
            goes_on(c, image_id)
        return image_ids(c)


def look_at_store(host, step):
    acnspawn = works(host, step)
    acnspawn("list", "--all")
    acnspawn("image", "list")
    acnspawn("volume", "rm", "spare")
    acnspawn("gc", "--grace-period=0", "--expire-prepared=0")
    for path in host.pods(): # kept by the endpoint until its client removes them
        acnspawn("rm", os.path.basename(path))
    equal(host.pods(), [], "pods after gc and rm, after %s" % step)
    equal(leases(host), [], "addresses that are taken, after %s" % step)
    for place in "tmp", "uids", "names":
        path = os.path.join(host.dir, place)
        equal([n for n in os.listdir(path) if n[0] != "."] if os.path.exists(path) else [], [], "%s/ after gc, after %s" % (place, step))
    for i in json.loads(acnspawn("image", "list", "--json=short").out):
        acnspawn("image", "verify", i["id"])
    equal(read_text(host.dir + "/volumes/keep/data/precious"), "precious\n", "data that was there before, after %s" % step)


def look_at_pods(host, step, expected):
    """The endpoint is started before anything else has looked at the store, or after; at the end in any case. EXPECTED: the ID of the image,
    and what is listed before the call and after it. A sandbox that was removed may be there once more."""
    image_id, *expected = expected
    if step.is_end() or step.number % 2:
        look_at_endpoint(host, step, expected=expected[-1:] if step.is_end() and step.verb != "RemovePodSandbox" else expected)
    look_at_store(host, step)
    if LONG or step.is_end() or step.number % 2 == 0:
        look_at_endpoint(host, step, image_id)


def look_at_images(host, step, expected):
    expect(step, look_at_endpoint(host, step), expected, "images")
    look_at_store(host, step)


@loses_power(1200)
def pods_of_a_kubelet_change(host, kind, busy):
    """Without ACNSPAWN_TEST_LONG=1: before RunPodSandbox is answered, and then; when a container has ended; and when all is removed."""
    with store(host, kind) as s:
        image_id, found = image(host), []
        with Endpoint(host) as e:
            c = e.client()

            def change(name, *request, **more):
                before = listed(c)
                steps, reply = cut(s, e, c, busy, name, *request, **more)
                after = listed(c)
                if name == "StopContainer": # the exit code is written to disk after the reply
                    after = after[0], dict.fromkeys(after[1])
                found.append((steps, (image_id, before, after)))
                return reply

            def keep_end_of_container():
                """The disk when the supervisor has written the exit code of a container to it."""
                wait_for(lambda: not any(name_of(p) == "keep-files" for p in children_of(pids[0])), "the supervisor to write files")
                if busy:
                    s.disk.sync_neighbour()
                step = Step("the end of a container", 0, "the end", host.path("end-of-container"))
                s.disk.copy(step.file)
                found.append(([step], (image_id, listed(c))))
            with open(e.conf + "/10-lan.conflist", "w") as f:
                f.write(bridge(0, "lan", host.dir + "/leases"))
            i = change("RunPodSandbox", config=sandbox_config(linux={}), pick="pods/prepared|^the end").pod_sandbox_id
            equal(len(leases(host)), 1, "addresses")
            pids = [host.supervisor(uuid_of(i))]
            if not LONG:
                a = create(c, i, "main", image_id, "exit 3")
                c.call("StartContainer", container_id=a)
                wait_for(lambda: state(c, a) == "EXITED", "the end of the container")
                keep_end_of_container()
                c.call("RemoveContainer", container_id=a)
            else:
                a = change("CreateContainer", pids=pids, pod_sandbox_id=i, config=container_config("main", image_id, SLEEP)).container_id
                change("StartContainer", pids=pids, container_id=a)
                change("StopContainer", messages().StopContainerRequest(container_id=a, timeout=30), pids=pids)
                keep_end_of_container()
                change("RemoveContainer", pids=pids, container_id=a)
                change("StopPodSandbox", pids=pids, pod_sandbox_id=i)
            c.call("StopPodSandbox", pod_sandbox_id=i)
            change("RemovePodSandbox", pod_sandbox_id=i)
            if not LONG:
                del found[-1][0][:-1]
    look_at_all(s.disk, found, look_at_pods)


@loses_power(1200)
def images_of_a_kubelet_change(host, kind, busy):
    registry = Registry(host)
    registry.push(make_layout(host), "team/app:1")
    name = registry.address + "/team/app:1"
    with store(host, kind) as s:
        found = []
        with Endpoint(host, registry.address) as e:
            c = e.client()
            before = image_ids(c)
            steps, reply = cut(s, e, c, busy, "PullImage", image={"image": name})
            found.append((steps if LONG else steps[:1] + steps[-1:], (before, sorted(before + [reply.image_ref]))))
            equal(image_ids(c), found[0][1][1], "images")
            if LONG:
                steps, _ = cut(s, e, c, busy, "RemoveImage", image={"image": name})
                found.append((steps[:-1 - busy], (found[0][1][1], before)))  # it may be there once more
    look_at_all(s.disk, found, look_at_images)


if __name__ == "__main__":
    be_alone()
    main_of_cri()
