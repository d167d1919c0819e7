#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Sandboxes with a range of users that the client has chosen."""

from cri_client import *

BASE = 65536 * 37


def ranges(base=BASE, length=65536, container=0):
    return [{"host_id": base, "container_id": container, "length": length}]


def users(uids=None, gids=None, mode=0):
    return {"mode": mode, "uids": ranges() if uids is None else uids, "gids": ranges() if gids is None else gids}


def config(name="web", userns=None, network=2, **more):
    return sandbox_config(name=name, uid=name, linux={"security_context": dict(
        {"namespace_options": {"network": network, "pid": 1, "userns_options": userns or users()}}, **more)})


def start(c, i, *args, context=None, **more):
    security = dict({"namespace_options": {"network": 2, "pid": 1, "userns_options": users()}}, **(context or {}))
    a = create(c, i, *args, linux={"security_context": security}, **more)
    c.call("StartContainer", container_id=a)
    return a


def sh(c, container, script):
    return c.call("ExecSync", container_id=container, cmd=["/bin/sh", "-c", script]).stdout.decode()


@case
def containers_have_users_of_their_own(host):
    directory = host.path("volume")
    os.mkdir(directory)
    for uid in 0, 1000:
        with open("%s/%d" % (directory, uid), "w"):
            pass
        os.chown("%s/%d" % (directory, uid), uid, uid)
    mount = {"host_path": directory, "container_path": "/srv/mapped", "uidMappings": ranges(), "gidMappings": ranges()}
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        t = c.call("Status")
        true(all(h.features.user_namespaces for h in t.runtime_handlers) and t.features.user_namespaces_host_network, t)
        i = c.call("RunPodSandbox", config=config()).pod_sandbox_id
        equal(c.call("PodSandboxStatus", pod_sandbox_id=i).status.linux.namespaces.options.userns_options.uids[0].host_id, BASE)
        a = start(c, i, "main", image_id, SLEEP, mounts=[mount, {"host_path": directory, "container_path": "/srv/not-mapped"}])
        equal(sh(c, a, "cat /proc/self/uid_map /proc/self/gid_map").split(), ["0", str(BASE), "65536"] * 2)
        equal(sh(c, a, "stat -c %u:%g /srv/mapped/0 /srv/mapped/1000 /srv/not-mapped/0 /etc/passwd").split(),
              ["0:0", "1000:1000", "65534:65534", "0:0"])
        equal(sh(c, a, "touch /srv/mapped/new && echo made; touch /srv/not-mapped/x 2>/dev/null || echo refused").split(), ["made", "refused"])
        equal(os.stat(directory + "/new").st_uid, 0)
        leader = json.loads(c.call("PodSandboxStatus", pod_sandbox_id=i, verbose=True).info["info"])["pid"]
        equal(os.stat("/proc/%d" % leader).st_uid, BASE, "the owner of the pod's processes on the host")
        # A user of the container, and one that may do everything there.
        b = start(c, i, "user", image_id, SLEEP, context={"run_as_user": {"value": 1000}})
        equal(status(c, b).user.linux.uid, 1000)
        equal(sh(c, b, "id -u").strip(), "1000")
        # The same range again, as after a sandbox that has failed.
        code, message = c.refused("RunPodSandbox", config=config("second"))
        equal((code, message), ("FAILED_PRECONDITION", "The users %d to %d are those of another pod" % (BASE, BASE + 65535)))
        c.call("StopPodSandbox", pod_sandbox_id=i)
        k = c.call("RunPodSandbox", config=config("second")).pod_sandbox_id
        c.call("RemovePodSandbox", pod_sandbox_id=i)
        a = start(c, k, "main", image_id, SLEEP)
        equal(sh(c, a, "cat /proc/self/uid_map").split()[1], str(BASE))
        remove(c, k)


@case
def ranges_of_several_sizes(host):
    """What the kubelet has as idsPerPod."""
    size, uid = 3 * 65536, 150000
    directory = host.path("volume")
    os.mkdir(directory)
    with open(directory + "/own", "w"):
        pass
    os.chown(directory + "/own", uid, uid + 1)
    wide = ranges(length=size)
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        i = c.call("RunPodSandbox", config=config(userns=users(uids=wide, gids=wide))).pod_sandbox_id
        a = start(c, i, "main", image_id, SLEEP, context={"namespace_options": {"network": 2, "pid": 1, "userns_options": users(wide, wide)}},
                  mounts=[{"host_path": directory, "container_path": "/srv", "uidMappings": wide, "gidMappings": wide}])
        equal(sh(c, a, "cat /proc/self/uid_map /proc/self/gid_map").split(), ["0", str(BASE), str(size)] * 2)
        b = start(c, i, "user", image_id, SLEEP, mounts=[{"host_path": directory, "container_path": "/srv", "uidMappings": wide, "gidMappings": wide}],
                  context={"namespace_options": {"network": 2, "pid": 1}, "run_as_user": {"value": uid}, "run_as_group": {"value": uid + 1}})
        equal((status(c, b).user.linux.uid, status(c, b).user.linux.gid), (uid, uid + 1))
        equal(sh(c, b, "id -u; id -g; stat -c %u:%g /srv/own; echo x >/srv/own && echo written").split(),
              [str(uid), str(uid + 1), "%d:%d" % (uid, uid + 1), "written"])
        # Neither the whole, nor its end, nor a part of it as the users of a mount.
        for base, length in (BASE, size), (BASE + 2 * 65536, 65536), (BASE - 65536, 2 * 65536):
            other = ranges(base=base, length=length)
            equal(c.refused("RunPodSandbox", config=config("second", userns=users(uids=other, gids=other))),
                  ("FAILED_PRECONDITION", "The users %d to %d are those of another pod" % (base, base + length - 1)))
        code, message = c.refused("CreateContainer", pod_sandbox_id=i, config=container_config("x", image_id, "true", mounts=[
            {"host_path": directory, "container_path": "/srv", "uidMappings": ranges(), "gidMappings": ranges()}]))
        equal(code, "INVALID_ARGUMENT")
        contains(message, "a range of users that is not that of sandbox")
        other = ranges(base=BASE + size)
        k = c.call("RunPodSandbox", config=config("second", userns=users(uids=other, gids=other))).pod_sandbox_id
        remove(c, i, k)
        k = c.call("RunPodSandbox", config=config("third", userns=users(uids=wide, gids=wide))).pod_sandbox_id
        remove(c, k)


@case
def ranges_of_any_start_and_length(host):
    """Also among the host's own users, as other runtimes have it, with all that needs a user: a terminal, a group, a mount, an image's file."""
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        for base, length in (BASE + 1000, 100000), (BASE + 7, 6), (1000, 3000):
            some = ranges(base, length)
            directory = host.path("volume-%d" % base)
            os.mkdir(directory)
            os.chown(directory, 5, 5)
            mount = {"host_path": directory, "container_path": "/srv", "uidMappings": some, "gidMappings": some}
            i = c.call("RunPodSandbox", config=config(userns=users(some, some))).pod_sandbox_id
            context = {"namespace_options": {"network": 2, "pid": 1, "userns_options": users(some, some)}, "supplemental_groups": [5]}
            a = start(c, i, "main", image_id, SLEEP, context=context, mounts=[mount], tty=True)
            equal(sh(c, a, "cat /proc/self/uid_map /proc/self/gid_map").split(), ["0", str(base), str(length)] * 2)
            equal(sh(c, a, "stat -c %u:%g /srv /etc/passwd; touch /srv/new /new && echo made; id -G").split(), ["5:5", "0:0", "made", "0", "5"])
            equal(os.stat(directory + "/new").st_uid, 0)
            leader = json.loads(c.call("PodSandboxStatus", pod_sandbox_id=i, verbose=True).info["info"])["pid"]
            equal(os.stat("/proc/%d" % leader).st_uid, base, "the owner of the pod's processes on the host")
            # systemd knows the blocks, and users of those that begin with one of the sandbox.
            blocks = range(base - base % 65536, base + length, 65536)
            equal([n for n in blocks if os.path.exists("/run/systemd/nspawn-uid/%d" % n)], [n for n in blocks if n > 0])
            equal([n for n in blocks if os.path.lexists("/run/userdb/%d.user" % n)], [n for n in blocks if n >= base])
            # Another sandbox has no users in the same blocks.
            other = ranges(base + length, 10)
            code, message = c.refused("RunPodSandbox", config=config("second", userns=users(other, other)))
            equal((code, "are those of another pod" in message), ("FAILED_PRECONDITION", True), message)
            remove(c, i)


@case
def volumes_of_an_image_belong_to_users_of_the_sandbox(host):
    """The directory of the image has an owner that the sandbox does not have, or one that it has."""
    layout, bundle = host.path("layout"), host.path("bundle")
    if not shutil.which("umoci"):
        raise Skip("umoci is not installed")
    umoci = lambda *args: subprocess.run(["umoci", *args], check=True, capture_output=True)
    umoci("init", "--layout", layout)
    umoci("new", "--image", layout + ":a")
    umoci("unpack", "--image", layout + ":a", bundle)
    os.mkdir(bundle + "/rootfs/bin")
    for name in "sh", "sleep", "stat":
        shutil.copy(BUSYBOX, bundle + "/rootfs/bin/" + name)
    for name, uid, gid in ("data", 999, 5), ("group", 5, 999), ("few", 3, 4):
        os.mkdir(bundle + "/rootfs/" + name)
        os.chown(bundle + "/rootfs/" + name, uid, gid)
    umoci("repack", "--image", layout + ":a", bundle)
    umoci("config", "--image", layout + ":a", "--config.volume", "/data", "--config.volume", "/group", "--config.volume", "/few")
    image_id = host.acnspawn("fetch", "oci:" + layout + ":a").expect(0).out.strip()
    some = ranges(BASE + 7, 6)
    with Service(host) as s:
        c = s.client()
        i = c.call("RunPodSandbox", config=config(userns=users(some, some))).pod_sandbox_id
        context = {"namespace_options": {"network": 2, "pid": 1, "userns_options": users(some, some)}}
        a = start(c, i, "main", image_id, SLEEP, context=context)
        equal(sh(c, a, "stat -c %u:%g /data /group /few; >/data/x && >/few/x && echo made").split(), ["0:5", "5:0", "3:4", "made"])
        remove(c, i)


@case
def privileged_ones_are_so_among_their_users(host):
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        i = c.call("RunPodSandbox", config=config(privileged=True)).pod_sandbox_id
        a = start(c, i, "main", image_id, SLEEP, context={"privileged": True})
        equal(sh(c, a, "mkdir /m && mount -t tmpfs none /m && echo mounted; (echo 1 >/proc/sys/vm/drop_caches) 2>/dev/null || echo refused").split(),
              ["mounted", "refused"])
        remove(c, i)


@case
def hooks_of_devices_are_refused(host):
    """Files that they write would be owned by a user that the sandbox does not have."""
    os.mkdir(host.path("cdi"))
    with open(host.path("cdi/a.json"), "w") as f:
        f.write('{"kind":"example.com/gpu","devices":[{"name":"0","containerEdits":{"hooks":[{"hookName":"createContainer","path":"/bin/true"}]}}]}')
    with Service(host, "--cdi-spec-dir=" + host.path("cdi")) as s:
        c, image_id = s.client(), image(host)
        i = c.call("RunPodSandbox", config=config()).pod_sandbox_id
        context = {"namespace_options": {"network": 2, "pid": 1, "userns_options": users()}}
        equal(c.refused("CreateContainer", pod_sandbox_id=i, config=container_config(
            "x", image_id, "true", CDI_devices=[{"name": "example.com/gpu=0"}], linux={"security_context": context})),
              ("INVALID_ARGUMENT", "The CDI devices of the request have the hook /bin/true, but hooks are not possible in a sandbox with users of its own"))
        remove(c, i)


@case
def ranges_that_are_refused(host):
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        for u, text in ((users(uids=[], gids=[]), "uids' of the request has to be one range of 6 to 16777216 users"),
                        (users(gids=[]), "gids' of the request has to be one range"), (users(uids=ranges(length=5)), "one range"),
                        (users(uids=ranges(length=256 * 65536 + 1)), "userNamespaces.idsPerPod"),
                        (users(uids=ranges(length=131072)), "different ranges of users and groups"),
                        (users(uids=ranges(length=0)), "one range"), (users(uids=ranges(base=0xFFFE0000, length=131072)), "one range"),
                        (users(uids=ranges(base=0)), "one range"), (users(uids=ranges(base=70000)), "different ranges of users and groups"),
                        (users(uids=ranges(container=1)), "one range"), (users(uids=ranges() + ranges(65536)), "one range"),
                        (users(uids=ranges(2 * 65536)), "different ranges of users and groups"), (users(mode=3), "neither POD nor NODE"),
                        (users(mode=1), "neither POD nor NODE"), (users(mode=2), "has a range with the mode NODE")):
            code, message = c.refused("RunPodSandbox", config=config(userns=u))
            equal(code, "INVALID_ARGUMENT", u)
            contains(message, text)
        equal(sandboxes(c), [])
        i = c.call("RunPodSandbox", config=config()).pod_sandbox_id
        options = lambda u: {"linux": {"security_context": {"namespace_options": {"userns_options": u}}}}
        mount = lambda base: {"mounts": [{"host_path": "/usr", "container_path": "/m", "uidMappings": ranges(base), "gidMappings": ranges(base)}]}
        for more, text in ((options(users(uids=[], gids=[], mode=2)), "is not that of sandbox " + i), (options(users(uids=ranges(65536))), "is not that of sandbox"),
                           (mount(65536), "The mount on '/m' has a range of users that is not that of sandbox"), (mount(0), "mounts.uidMappings")):
            code, message = c.refused("CreateContainer", pod_sandbox_id=i, config=container_config("x", image_id, "true", **more))
            equal(code, "INVALID_ARGUMENT", more)
            contains(message, text)
        remove(c, i)
        # In a sandbox with the users of the host.
        i = run_sandbox(c)
        for more in options(users()), mount(BASE):
            contains(c.refused("CreateContainer", pod_sandbox_id=i, config=container_config("x", image_id, "true", **more))[1],
                     "is not that of sandbox " + i)
        remove(c, i)


if __name__ == "__main__":
    main_of_cri()
