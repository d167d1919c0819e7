#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The security context of containers."""

import json
import re
import stat

from cri_client import *

UNCONFINED = {"profile_type": 1}


@contextlib.contextmanager
def sandbox(host, *warnings):
    """Yields (client, ID of a sandbox, ID of an image). The service is expected to log WARNINGS."""
    with Service(host) as s:
        s.expected += warnings
        c = s.client()
        i = run_sandbox(c)
        yield c, i, image(host)
        remove(c, i)
        for w in warnings:
            contains(s.said(), w)


def started(c, i, image_id, name, **context):
    """A container that is process 1 of its own pid namespace."""
    context.setdefault("namespace_options", {"pid": 1})
    a = create(c, i, name, image_id, SLEEP, linux={"security_context": context})
    c.call("StartContainer", container_id=a)
    return a


def sh(c, container, script):
    """What a command beside the container's process writes, which is confined as that is."""
    r = c.call("ExecSync", container_id=container, cmd=["/bin/sh", "-c", script])
    return r.stdout.decode()


def refusal(c, i, image_id, **context):
    code, message = c.refused("CreateContainer", pod_sandbox_id=i,
                              config=container_config("refused", image_id, "true", linux={"security_context": context}))
    return code, message


def capabilities(c, container, name):
    return int(sh(c, container, "grep %s: /proc/1/status" % name).split()[1], 16)


@case
def capabilities_of_a_container(host):
    names = {"NET_RAW": 13, "SYS_ADMIN": 21, "CHOWN": 0}
    with sandbox(host) as (c, i, image_id):
        everything = int(re.search("CapBnd:\\s*(\\w+)", read_text("/proc/self/status")).group(1), 16)
        bit = lambda name: 1 << names[name]
        a = started(c, i, image_id, "default")
        default = capabilities(c, a, "CapEff")
        for n, (capability, mask) in enumerate((
                ({"add_capabilities": ["ALL"]}, everything),
                ({"add_capabilities": ["ALL"], "drop_capabilities": ["NET_RAW"]}, everything & ~bit("NET_RAW")),
                ({"drop_capabilities": ["ALL"]}, 0),
                ({"add_capabilities": ["cap_net_raw"], "drop_capabilities": ["ALL"]}, bit("NET_RAW")),
                ({"add_capabilities": ["SYS_ADMIN"], "drop_capabilities": ["CAP_CHOWN"]}, (default | bit("SYS_ADMIN")) & ~bit("CHOWN")))):
            a = started(c, i, image_id, "c%d" % n, capabilities=capability)
            for which in ("CapEff", "CapPrm", "CapBnd"):
                equal(capabilities(c, a, which), mask, (capability, which))
            equal(capabilities(c, a, "CapAmb"), 0)
        # Ambient ones are those of any user.
        a = started(c, i, image_id, "ambient", run_as_user={"value": 1234},
                    capabilities={"add_ambient_capabilities": ["NET_RAW"], "drop_capabilities": ["ALL"]})
        for which in ("CapEff", "CapPrm", "CapBnd", "CapAmb"):
            equal(capabilities(c, a, which), bit("NET_RAW"), which)
        equal(refusal(c, i, image_id, capabilities={"add_capabilities": ["NET_RAW", "NET_MAGIC"]}),
              ("INVALID_ARGUMENT", "The field 'linux.security_context.capabilities.add_capabilities' has 'NET_MAGIC', which is not a "
                                   "capability"))


@case
def paths_of_a_container(host):
    with sandbox(host) as (c, i, image_id):
        os.mkdir(host.path("volume"))
        with open(host.path("volume/file"), "w") as f:
            f.write("secret")
        masked = ["/proc/kcore", "/proc/acpi", "/etc/group", "/srv/volume/file", "/out", "/proc/nothing", "/etc/passwd/none"]
        read_only = ["/proc/sys", "/proc/bus", "/tmp", "/etc/passwd", "/none"]
        a = create(c, i, "main", image_id, SLEEP, mounts=[{"host_path": host.path("volume"), "container_path": "/srv/volume"}],
                   linux={"security_context": {"masked_paths": masked, "readonly_paths": read_only,
                                               "namespace_options": {"pid": 1}}})
        c.call("StartContainer", container_id=a)
        for path in ("/proc/kcore", "/etc/group", "/srv/volume/file"):
            equal(sh(c, a, "head -c 1 %s 2>/dev/null" % path), "", path)
        equal(sh(c, a, "ls -A /out; touch /out/x 2>/dev/null || echo refused"), "refused\n")
        equal(sh(c, a, "(echo x >>/etc/passwd) 2>/dev/null || echo refused; (echo x >/proc/sys/kernel/domainname) 2>/dev/null || "
                       "echo refused"), "refused\nrefused\n")
        contains(sh(c, a, "touch /tmp/x 2>&1; true"), "Read-only file system")
        # What is in none of the lists is as it is.
        equal(sh(c, a, "touch /srv/x && head -c 1 /proc/interrupts | wc -c"), "1\n")
        # Without lists it is what every app has.
        a = started(c, i, image_id, "default")
        equal(sh(c, a, "head -c 1 /proc/interrupts 2>/dev/null; (echo x >/proc/sys/kernel/domainname) 2>/dev/null || echo refused"),
              "refused\n")
        code, message = refusal(c, i, image_id, masked_paths=["/proc/../etc"])
        equal(code, "INVALID_ARGUMENT")
        contains(message, "masked_paths")
        contains(message, "/proc/../etc")
        contains(refusal(c, i, image_id, readonly_paths=["/a,b"])[1], "'/a,b'")


def user_of(c, container):
    u = status(c, container).user.linux
    return u.uid, u.gid, list(u.supplemental_groups)


@case
def users_and_groups(host):
    """The image has the user app (1000, group 1000), who is in staff (50), too."""
    number = lambda n: {"value": n}
    with sandbox(host) as (c, i, image_id):
        a = create(c, i, "created", image_id, "true", linux={"security_context": {"run_as_user": number(1)}})
        true(not status(c, a).HasField("user"), "the user of what was not started")
        for n, (context, uid, gid, groups) in enumerate((
                ({}, 0, 0, [0]),
                ({"run_as_user": number(1000)}, 1000, 1000, [1000, 50]),
                ({"run_as_username": "app"}, 1000, 1000, [1000, 50]),
                ({"run_as_username": "app", "run_as_group": number(77)}, 1000, 77, [77, 50]),
                ({"run_as_user": number(1000), "supplemental_groups": [6, 5]}, 1000, 1000, [1000, 50, 6, 5]),
                ({"run_as_user": number(1000), "supplemental_groups": [6], "supplemental_groups_policy": 1}, 1000, 1000, [1000, 6]),
                ({"run_as_user": number(1000), "run_as_group": number(77), "supplemental_groups_policy": 1}, 1000, 77, [77]),
                ({"run_as_user": number(4242)}, 4242, 0, [0]))):
            a = started(c, i, image_id, "u%d" % n, **context)
            equal(user_of(c, a), (uid, gid, groups), context)
            equal(sh(c, a, "id -u; id -g"), "%d\n%d\n" % (uid, gid), context)
            equal(sorted(int(g) for g in sh(c, a, "grep Groups: /proc/1/status").split()[1:]), sorted(groups), context)
        stop(c, a, 0)
        equal(user_of(c, a), (4242, 0, [0]), "after its end")
        contains(refusal(c, i, image_id, run_as_group=number(5))[1], "run_as_group")


@case
def rights_that_are_refused_or_reduced(host):
    with sandbox(host) as (c, i, image_id):
        a = started(c, i, image_id, "reduced", no_new_privs=True, readonly_rootfs=True, seccomp={})
        equal(sh(c, a, "grep NoNewPrivs /proc/1/status").split()[1], "1")
        contains(sh(c, a, "touch /x 2>&1; true"), "Read-only file system")
        filtered = lambda container: sh(c, container, "grep Seccomp: /proc/1/status").split()[1]
        equal(filtered(a), "2")
        for n, (context, mode) in enumerate((({"seccomp": {}}, "2"), ({"seccomp": UNCONFINED}, "0"),
                                             ({}, "0"), ({"seccomp_profile_path": "unconfined"}, "0"),
                                             ({"seccomp_profile_path": "unconfined", "seccomp": {}}, "2"),
                                             ({"seccomp_profile_path": "runtime/default"}, "2"))):
            equal(filtered(started(c, i, image_id, "s%d" % n, **context)), mode, context)
        contains(refusal(c, i, image_id, seccomp_profile_path="other")[1], "seccomp_profile_path' of the request is not supported with the value 'other'")
        contains(refusal(c, i, image_id, apparmor_profile="other")[1], "apparmor_profile' of the request is not supported with the value 'other'")


@case
def privileged_containers(host):
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        i = run_sandbox(c, linux={"security_context": {"namespace_options": {"network": 2}, "privileged": True}})
        a = started(c, i, image_id, "main", privileged=True, masked_paths=["/proc/kcore"], readonly_paths=["/proc/sys"], seccomp={},
                    capabilities={"drop_capabilities": ["ALL"]})
        own = re.search("CapBnd:\\s*(\\w+)", read_text("/proc/self/status")).group(1)
        equal(sh(c, a, "sed -n 's/^CapEff:.//p; s/^Seccomp:.//p' /proc/1/status").split(), [own, "0"])
        equal(sh(c, a, "mkdir /m && mount -t tmpfs none /m && echo mounted; "
                       "test -b /dev/loop0 && echo device").split(),
              ["mounted", "device"] if os.path.exists("/dev/loop0") else ["mounted"])
        equal(sh(c, a, "(echo 1 >/proc/sys/vm/drop_caches) 2>&1 && awk '$2 == \"/sys\" { print $4 }' /proc/mounts").split(",")[0], "rw")
        # Others of the sandbox are as they would be elsewhere.
        b = started(c, i, image_id, "other", seccomp={})
        equal(sh(c, b, "(echo 1 >/proc/sys/vm/drop_caches) 2>/dev/null || echo refused; ls /dev/loop0 2>/dev/null; "
                       "sed -n 's/^Seccomp:.//p' /proc/1/status").split(), ["refused", "2"])
        remove(c, i)
        i = run_sandbox(c)
        code, message = refusal(c, i, image_id, privileged=True)
        equal((code, message), ("INVALID_ARGUMENT", "The field 'linux.security_context.privileged' is set, but sandbox %s is not "
                                                    "privileged" % i))
        remove(c, i)


@case
def devices_of_a_container(host):
    with sandbox(host) as (c, i, image_id):
        a = create(c, i, "main", image_id, SLEEP, devices=[
            {"host_path": "/dev/zero", "container_path": "/dev/sub/given", "permissions": "rwm"}, {"host_path": "/dev/full", "permissions": "rw"}])
        c.call("StartContainer", container_id=a)
        equal(sh(c, a, "head -c 2 /dev/sub/given | wc -c; (echo x >/dev/full) 2>&1 | grep -c 'No space'"), "2\n1\n")
        for device, text in (({"host_path": "/dev/zero", "container_path": "/dev/x", "permissions": "rx"}, "devices.permissions"),
                             ({"host_path": "/dev/zero", "container_path": "/dev/x"}, "devices.permissions"),
                             ({"host_path": "/dev/zero", "container_path": "/srv/x", "permissions": "rwm"}, "must be none, or all, or")):
            code, message = c.refused("CreateContainer", pod_sandbox_id=i, config=container_config("x", image_id, "true", devices=[device]))
            equal(code, "INVALID_ARGUMENT")
            contains(message, text)
        b = create(c, i, "none-such", image_id, SLEEP, devices=[{"host_path": "/dev/none-such", "permissions": "rw"}])
        contains(c.refused("StartContainer", container_id=b)[1], "/dev/none-such of the host: No such file")


# Devices that no host has: to open one is to get this, unless it is not permitted.
ABSENT = (240, 77)


def absent_device(host, name, kind=stat.S_IFCHR, number=ABSENT):
    os.makedirs(host.path("devices"), exist_ok=True)
    os.mknod(host.path("devices/" + name), kind | 0o666, os.makedev(*number))
    return host.path("devices/" + name)


def permissions(c, container, *devices):
    """Of each whether it can be opened for reading, for writing, and for both."""
    return sh(c, container, OPEN_EACH + " ".join(devices)).split()


@case
def permissions_of_devices(host):
    """What is not among the permissions of a device is refused: for reading, for writing, for both; characters and blocks."""
    with sandbox(host) as (c, i, image_id):
        devices, expected = [], []
        for n, (letters, result) in enumerate((("r", "ynn"), ("w", "nyn"), ("rw", "yyy"), ("mwr", "yyy"), ("rm", "ynn"), ("mw", "nyn"), ("m", "nnn"))):
            for kind, name in (stat.S_IFCHR, "c"), (stat.S_IFBLK, "b"):
                path = absent_device(host, "%s%d" % (name, n), kind, (240, n))
                devices.append({"host_path": path, "container_path": "/dev/%s%d" % (name, n), "permissions": letters})
                expected.append(result)
        a = create(c, i, "main", image_id, SLEEP, devices=devices)
        c.call("StartContainer", container_id=a)
        paths = [d["container_path"] for d in devices]
        equal(permissions(c, a, *paths), expected)
        # The same for its own process, and for each start of it; what every container has stays.
        b = create(c, i, "own", image_id, "cd /dev; for d in c0 c1; do (: <$d) 2>/tmp/e; tail -c 14 /tmp/e; (: >$d) 2>/tmp/e; tail -c 14 /tmp/e; done; "
                   "head -c 1 /dev/zero | wc -c; : >/dev/null; : </dev/urandom && exec sleep 100", devices=devices, log_path="own.log")
        c.call("StartContainer", container_id=b)
        equal(permissions(c, b, *paths), expected)
        equal(sh(c, b, "head -c 2 /dev/zero | wc -c; echo x >/dev/null; head -c 2 /dev/urandom | wc -c; ls /dev/pts"), "2\n2\nptmx\n")
        # A directory of devices.
        d = create(c, i, "directory", image_id, SLEEP, devices=[{"host_path": host.path("devices"), "container_path": "/dev/all", "permissions": "r"}])
        c.call("StartContainer", container_id=d)
        equal(set(permissions(c, d, *("/dev/all/" + os.path.basename(p) for p in paths))), {"ynn"})
        # A device that was plugged in again has another number for the commands that come then.
        os.unlink(host.path("devices/c0"))
        absent_device(host, "c0", number=(241, 9))
        equal(permissions(c, d, "/dev/all/c1"), ["ynn"])


@case
def containers_open_only_their_devices(host):
    """Wherever they find or make nodes of others: also what may mount and make nodes, in the users of the host."""
    os.mkdir(host.path("volume"))
    path = absent_device(host, "given")
    for name, number in ("other", (240, 78)), ("same", ABSENT):
        os.mknod(host.path("volume/" + name), stat.S_IFCHR | 0o666, os.makedev(*number))
    mounts = [{"host_path": host.path("volume"), "container_path": "/srv"}]
    devices = [{"host_path": path, "container_path": "/dev/given", "permissions": "r"}]
    with sandbox(host) as (c, i, image_id):
        for n, capability in enumerate((None, "MKNOD", "ALL")):
            context = {"capabilities": {"add_capabilities": [capability]}} if capability else {}
            if capability == "ALL":
                context.update(seccomp={"profile_type": 1}, apparmor={"profile_type": 1})
            a = create(c, i, "a%d" % n, image_id, SLEEP, devices=devices, mounts=mounts, linux={"security_context": context})
            c.call("StartContainer", container_id=a)
            equal(permissions(c, a, "/dev/given", "/srv/other", "/srv/same"), ["ynn", "nnn", "ynn"], capability)
            if capability:
                sh(c, a, "cd /srv; mknod c%d c 240 79; mknod b%d b 240 79" % (n, n))
                equal(permissions(c, a, "/srv/c%d" % n, "/srv/b%d" % n), ["nnn", "nnn"], capability)
            if capability == "ALL":
                # The devices of the host by their own file system.
                equal(sh(c, a, "mkdir /out/dev && mount -t devtmpfs none /out/dev && (: <>/out/dev/null) && echo mounted"), "mounted\n")
                others = [d for d in ("kmsg", "fuse", "loop0", "mem") if os.path.exists("/dev/" + d)]
                equal(set(permissions(c, a, *("/out/dev/" + d for d in others))), {"nnn"}, others)
                equal(sh(c, a, "mount -t ext4 /dev/none /tmp 2>/dev/null || echo refused"), "refused\n")
            c.call("RemoveContainer", container_id=a)
    # A privileged one has all.
    with Service(host) as s:
        c, image_id = s.client(), image(host)
        i = run_sandbox(c, linux={"security_context": {"namespace_options": {"network": 2}, "privileged": True}})
        a = create(c, i, "privileged", image_id, SLEEP, devices=devices, mounts=mounts, linux={"security_context": {"privileged": True}})
        c.call("StartContainer", container_id=a)
        equal(permissions(c, a, "/dev/given", "/srv/other"), ["yyy", "yyy"])
        remove(c, i)


@case
def devices_of_the_host_cannot_be_made(host):
    """Not on a mount, where nodes that the host has can be used; also not by a container that may make nodes."""
    os.mkdir(host.path("volume"))
    mounts = [{"host_path": host.path("volume"), "container_path": "/srv"}]
    with sandbox(host) as (c, i, image_id):
        script = "for d in /srv /tmp /dev /dev/shm /out /; do mknod $d/node c 1 11 2>/dev/null; test -c $d/node && (: >$d/node) 2>/dev/null && echo opened; done | grep -c opened"
        for capabilities in None, {"add_capabilities": ["NET_ADMIN"]}, {"add_capabilities": ["MKNOD"]}, {"add_ambient_capabilities": ["MKNOD"]}:
            context = {"capabilities": capabilities} if capabilities else {}
            a = create(c, i, "main", image_id, SLEEP, mounts=mounts, linux={"security_context": context})
            c.call("StartContainer", container_id=a)
            equal(sh(c, a, script), "0\n", capabilities)
            equal(sh(c, a, "test -c /srv/node && echo made || echo refused"), "made\n" if "MKNOD" in str(capabilities) else "refused\n")
            c.call("RemoveContainer", container_id=a)


@case
def devices_of_the_container_device_interface(host):
    directories = [host.path("cdi-1"), host.path("cdi-2")]
    share = host.path("share")
    for d in directories + [share]:
        os.mkdir(d)
    with open(share + "/driver", "w") as f:
        f.write("of the host")
    device = lambda name, **edits: {"name": name, "containerEdits": edits}
    write = lambda d, name, *devices: open("%s/%s.json" % (d, name), "w").write(json.dumps(
        {"cdiVersion": "0.6.0", "kind": "example.com/net", "containerEdits": {"env": ["KIND=net"]}, "devices": devices}))
    write(directories[0], "a", device("eth0", env=["NET=old"]), device("eth1", env=["OTHER=1"], additionalGids=[0, 4321]),
          device("hooked", hooks=[{"hookName": "createRuntime", "path": "/bin/true"}]))
    write(directories[1], "b", device("eth0", env=["NET=eth0"], deviceNodes=[{"path": "/dev/net/given", "hostPath": "/dev/zero"}],
                                      mounts=[{"hostPath": share, "containerPath": "/opt/driver", "options": ["ro", "nosuid", "nodev", "bind"]}]))
    with open(directories[0] + "/broken.json", "w") as f:
        f.write("{")
    with open(directories[1] + "/yaml.yaml", "w") as f:
        f.write("# As nvidia-ctk writes them.\n---\ncdiVersion: 0.5.0\nkind: example.com/gpu\ncontainerEdits:\n  env:\n  - GPU=all\ndevices:\n"
                "- name: \"0\"\n  containerEdits:\n    deviceNodes:\n    - path: /dev/gpu0\n      hostPath: /dev/zero\n"
                "- name: hooked\n  containerEdits:\n    hooks:\n    - hookName: poststop\n      path: /usr/bin/nvidia-cdi-hook\n")
    with open(directories[1] + "/library.yaml", "w") as f:
        f.write("cdiVersion: 0.6.0\nkind: example.com/library\ndevices:\n- name: \"0\"\n  containerEdits:\n    env:\n    - LD_LIBRARY_PATH=/opt/new\n"
                "    deviceNodes:\n    - path: /dev/gpu0\n      hostPath: %s\n      permissions: r\n    - path: /dev/gpu1\n      hostPath: %s\n"
                "    mounts:\n    - hostPath: %s\n      containerPath: /opt/new/libgpu.so.1\n      options: [ro, nosuid, nodev, bind]\n"
                % (absent_device(host, "gpu0"), absent_device(host, "gpu1", number=(240, 90)), share + "/libgpu.so"))
    os.symlink("driver", share + "/libgpu.so")
    with open(directories[1] + "/anchors.yaml", "w") as f:
        f.write("kind: &x example.com/gpu\n")
    with Service(host, *["--cdi-spec-dir=" + d for d in directories]) as s:
        c, image_id = s.client(), image(host)
        i = run_sandbox(c)
        a = create(c, i, "main", image_id, SLEEP, CDI_devices=[{"name": "example.com/net=eth0"}, {"name": "example.com/net=eth1"}])
        c.call("StartContainer", container_id=a)
        equal(sh(c, a, "echo $NET $KIND $OTHER; head -c 2 /dev/net/given | wc -c; cat /opt/driver/driver; touch /opt/driver/x 2>/dev/null || echo refused"),
              "eth0 net 1\n2\nof the hostrefused\n")
        true("4321" in sh(c, a, "grep Groups /proc/self/status").split(), "the group of the device")
        # With groups of the request.
        b = create(c, i, "groups", image_id, SLEEP, CDI_devices=[{"name": "example.com/net=eth1"}],
                   linux={"security_context": {"supplemental_groups": [7, 8], "supplemental_groups_policy": 1}})
        c.call("StartContainer", container_id=b)
        true({"4321", "7", "8"} <= set(sh(c, b, "grep Groups /proc/self/status").split()), "both")
        refused = lambda name: c.refused("CreateContainer", pod_sandbox_id=i, config=container_config("x", image_id, "true", CDI_devices=[{"name": name}]))
        equal(refused("example.com/net=hooked"), ("INVALID_ARGUMENT", "The CDI device 'example.com/net=hooked' takes what is not supported: the hook createRuntime of /bin/true. "
                                                  "Hooks of the name createContainer are supported."))
        # As the manual has it for libraries, with permissions.
        l = create(c, i, "library", image_id, SLEEP, CDI_devices=[{"name": "example.com/library=0"}])
        c.call("StartContainer", container_id=l)
        equal(sh(c, l, "echo $LD_LIBRARY_PATH; cat /opt/new/libgpu.so.1; ls /opt/new"), "/opt/new\nof the hostlibgpu.so.1\n")
        equal(permissions(c, l, "/dev/gpu0", "/dev/gpu1"), ["ynn", "yyy"])
        g = create(c, i, "gpu", image_id, SLEEP, CDI_devices=[{"name": "example.com/gpu=0"}])
        c.call("StartContainer", container_id=g)
        equal(sh(c, g, "echo $GPU; head -c 2 /dev/gpu0 | wc -c"), "all\n2\n")
        contains(refused("example.com/gpu=hooked")[1], "takes what is not supported: the hook poststop of /usr/bin/nvidia-cdi-hook")
        code, message = refused("example.com/net=none")
        equal(code, "INVALID_ARGUMENT")
        contains(message, "There is no CDI device 'example.com/net=none' in a .json or .yaml file in %s, %s. A file that is not valid is left out: %s/broken.json: "
                 % (*directories, directories[0]))
        contains(refused("eth0")[1], "'eth0', which is not a name as example.com/net=eth0")
        write(directories[1], "c", device("eth0"))
        contains(refused("example.com/net=eth0")[1], "Two files in %s have the CDI device" % directories[1])
        remove(c, i)


def profile(host, name, *rules, default="SCMP_ACT_ALLOW"):
    path = host.path(name)
    with open(path, "w") as f:
        json.dump({"defaultAction": default, "syscalls": list(rules)}, f)
    return path


HOOK = """#!/bin/sh
state=$(cat)
bundle=$(echo "$state" | sed 's/.*"bundle":"\\([^"]*\\)".*/\\1/')
root=$(sed 's/.*"root":{"path":"\\([^"]*\\)".*/\\1/' "$bundle/config.json")
"""


def hook(host, name, script):
    path = host.path(name)
    with open(path, "w") as f:
        f.write(HOOK + script)
    os.chmod(path, 0o755)
    return path


@case
def hooks_of_devices(host):
    """createContainer, as drivers have them: they see the root of the container with its devices and mounts, and the host."""
    specs, share, began, end = map(host.path, ("cdi", "share", "began", "end"))
    os.mkdir(specs)
    os.mkdir(share)
    with open(share + "/driver.1", "w") as f:
        f.write("of the host")
    first = hook(host, "first", "echo \"$state\" >$root/state; echo \"$0 $*\" >$root/args; echo $KIND:$PATH >$root/environment; cp $bundle/config.json $root/config\n"
                 "(ls $root/opt/driver; test -c $root/dev/given && echo device; pwd; ls /proc/$$/fd | wc -l) >$root/seen; echo $$ >%s\n" % host.path("pid"))
    second = hook(host, "second", "test -e $root/args && ln -s ../opt/driver/driver.1 $root/etc/driver; echo ignored; exit 0\n")
    device = lambda name, *hooks, **edits: {"name": name, "containerEdits": dict(edits, hooks=list(hooks))}
    run = lambda path, **more: dict({"hookName": "createContainer", "path": path}, **more)
    with open(specs + "/a.json", "w") as f:
        json.dump({"cdiVersion": "0.6.0", "kind": "example.com/gpu", "containerEdits": {"hooks": [run(first, args=["hook", "a b", "c"], env=["KIND=gpu", "PATH=/bin:/usr/bin"])]},
                   "devices": [device("0", run(second), deviceNodes=[{"path": "/dev/given", "hostPath": "/dev/zero"}],
                                      mounts=[{"hostPath": share, "containerPath": "/opt/driver", "options": ["ro"]}])]}, f)
    failing = {"fails": (run(hook(host, "fails", "echo some words >&2; exit 3")), "failed with exit status 3: some words"),
               "killed": (run(hook(host, "killed", "kill -9 $$")), "was killed by signal 9"),
               "slow": (run(hook(host, "slow", "sleep 60"), timeout=1), "did not end within 1 s, and was killed"),
               "missing": (run("/none/such"), "failed with exit status 127: cannot execute it: No such file"),
               "mounts": (run(hook(host, "mounts", "mount -t tmpfs none $root/tmp")), "has mounted something in its root")}
    with open(specs + "/b.json", "w") as f:
        json.dump({"kind": "example.com/bad", "devices": [device(name, h) for name, (h, _) in failing.items()]}, f)
    with open(specs + "/c.json", "w") as f:
        json.dump({"kind": "example.com/slow", "devices": [device("0", run(hook(host, "wait", "echo >%s; while ! test -e %s; do sleep 0.05; done; echo waited >$root/waited" % (began, end))))]}, f)
    with Service(host, "--cdi-spec-dir=" + specs) as s:
        c, image_id = s.client(), image(host)
        i = run_sandbox(c)
        a = create(c, i, "main", image_id, "cat /etc/driver >/started; " + SLEEP, CDI_devices=[{"name": "example.com/gpu=0"}])
        c.call("StartContainer", container_id=a)
        wait_for(lambda: sh(c, a, "cat /started 2>/dev/null; true") == "of the host", "what the app reads by the link of the hook")
        equal(sh(c, a, "cat /args /environment /seen"),
              "%s a b c\ngpu:/bin:/usr/bin\ndriver.1\ndevice\n/\n4\n" % first)
        state = json.loads(sh(c, a, "cat /state"))
        equal((state["status"], state["ociVersion"], type(state["pid"])), ("creating", "1.0.2", int))
        config = json.loads(sh(c, a, "cat /config"))
        equal(config["root"]["path"], state["bundle"] + "/rootfs")
        equal(config["process"]["args"][:2], ["/bin/sh", "-c"])
        equal(os.listdir(state["bundle"]), [], "what is left of the bundle")
        lacks(read_text("/proc/self/mountinfo"), state["bundle"], "mounts of the host")
        # Failures are those of the start, and say which hook it was.
        for name, (h, message) in failing.items():
            b = create(c, i, name, image_id, SLEEP, CDI_devices=[{"name": "example.com/bad=" + name}])
            code, text = c.refused("StartContainer", container_id=b)
            contains(text, "The hook %s of app " % h["path"])
            contains(text, message)
            equal(status(c, b).state, 2, "exited")
        # Others of the pod do not wait for one, and one that is removed meanwhile takes its hook along.
        waiting = create(c, i, "waiting", image_id, SLEEP, CDI_devices=[{"name": "example.com/slow=0"}])
        call = c.method("StartContainer").future(c.types("StartContainer")[0](container_id=waiting))
        wait_for(lambda: os.path.exists(began), "the hook")
        d = create(c, i, "other", image_id, SLEEP)
        c.call("StartContainer", container_id=d)
        true(not call.done(), "the hook runs still")
        with open(end, "w"):
            pass
        call.result()
        equal(sh(c, waiting, "cat /waited"), "waited\n")
        os.unlink(began)
        os.unlink(end)
        removed = create(c, i, "removed", image_id, SLEEP, CDI_devices=[{"name": "example.com/slow=0"}])
        call = c.method("StartContainer").future(c.types("StartContainer")[0](container_id=removed))
        wait_for(lambda: os.path.exists(began), "the hook")
        c.call("RemoveContainer", container_id=removed)
        true(call.exception() is not None, "it does not start")
        remove(c, i)


@case
def profiles_of_system_calls(host):
    with sandbox(host) as (c, i, image_id):
        mkdir = ["mkdir", "mkdirat"]
        path = profile(host, "profile.json", {"names": mkdir, "action": "SCMP_ACT_ERRNO", "errnoRet": 28},
                       {"names": ["fchmodat", "chmod"], "action": "SCMP_ACT_ERRNO", "args": [{"index": 2 if os.uname().machine != "x86_64" else 1,
                                                                                             "value": 0o700, "op": "SCMP_CMP_EQ"}]},
                       {"names": ["unlinkat", "unlink"], "action": "SCMP_ACT_ERRNO", "excludes": {"caps": ["CAP_SYS_ADMIN"]}})
        script = "mkdir /out/x 2>&1; cd /out; touch f; chmod 700 f 2>/dev/null || echo chmod; chmod 711 f && rm f 2>/dev/null || echo rm; true"
        tail = lambda text: [line.rsplit(": ", 1)[-1] for line in text.splitlines()]
        for n, (context, expected) in enumerate((
                ({"seccomp": {"profile_type": 2, "localhost_ref": path}}, ["No space left on device", "chmod", "rm"]),
                ({"seccomp": {"profile_type": 2, "localhost_ref": path}, "capabilities": {"add_capabilities": ["SYS_ADMIN"]}},
                 ["No space left on device", "chmod"]),
                ({"seccomp_profile_path": "localhost/" + path}, ["No space left on device", "chmod", "rm"]))):
            a = started(c, i, image_id, "p%d" % n, **context)
            equal(sh(c, a, "grep Seccomp: /proc/1/status").split()[1], "2")
            equal(tail(sh(c, a, script)), expected, context)
        # What the file has later does not matter, nor whether it is there.
        os.unlink(path)
        equal(tail(sh(c, a, script))[:1], ["No space left on device"])
        bad = profile(host, "bad.json", {"names": ["read"], "action": "SCMP_ACT_NOTIFY"})
        none = profile(host, "none.json", default="SCMP_ACT_KILL")
        for ref, message in (("profile.json", "which is not an absolute path"), (path, "No such file"), (bad, "'SCMP_ACT_NOTIFY', which is not supported"), (none, "blocks execve"),
                             (host.path(""), "not a regular file")):
            m = refusal(c, i, image_id, seccomp={"profile_type": 2, "localhost_ref": ref})[1]
            contains(m, message)


@contextlib.contextmanager
def mounted(path, propagation="private"):
    """A file system in memory; for sandboxes that are started later, as mounts need not be shared here."""
    os.makedirs(path, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", path], check=True)
    subprocess.run(["mount", "--make-" + propagation, path], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


@case
def mounts_of_a_container(host):
    with mounted(host.path("volume/below")) as below, sandbox(host) as (c, i, image_id):
        missing = host.path("missing/a b")
        mount = lambda name, source, **more: dict(more, host_path=source, container_path="/srv/" + name)
        a = create(c, i, "main", image_id, SLEEP, mounts=[
            mount("rw", host.path("volume")), mount("ro", host.path("volume"), readonly=True, recursive_read_only=True),
            mount("new", missing, selinux_relabel=True), mount("top", host.path("volume"), readonly=True)])
        true(status(c, a).mounts[1].recursive_read_only, status(c, a).mounts)
        c.call("StartContainer", container_id=a)
        equal(sh(c, a, "for d in rw rw/below ro ro/below new top top/below; do touch /srv/$d/x 2>/dev/null && echo $d; done"),
              "rw\nrw/below\nnew\ntop/below\n")
        equal((os.listdir(below), os.listdir(missing)), (["x"], ["x"]))
        for m, message in ((mount("x", host.path("volume"), propagation=1), "is on a mount that is neither shared nor a slave"),
                           (mount("x", host.path("volume"), propagation=2), "'mounts.propagation'"),
                           (mount("x", host.path("volume"), propagation=1, readonly=True, recursive_read_only=True), "takes PROPAGATION_PRIVATE"),
                           (mount("x", host.path(""), recursive_read_only=True), "has 'recursive_read_only' without 'readonly'"),
                           (mount("x", host.path("cri-errors/x")), host.path("cri-errors/x"))):
            contains(c.refused("CreateContainer", pod_sandbox_id=i, config=container_config("x", image_id, "true", mounts=[m]))[1], message)


@case
def images_as_mounts_of_a_container(host):
    with sandbox(host) as (c, i, image_id):
        volume = host.acnspawn("fetch", host.image(name="example.com/volume", base=False, files={
            "a/text": "one\n", "tool": File("#!/bin/sh\necho ran\n", mode=0o755), "link": Link("/a")})).expect(0).out.strip()
        mount = lambda path, image=volume, **more: dict({"readonly": True}, container_path=path, image={"image": image}, **more)
        a = create(c, i, "main", image_id, SLEEP, mounts=[mount("/srv/v"), mount("/srv/w", "example.com/volume", image_sub_path="link"),
                                                          mount("/srv/f", image_sub_path="a/text")])
        c.call("StartContainer", container_id=a)
        equal(sh(c, a, "cat /srv/v/a/text /srv/w/text /srv/f; touch /srv/v/x 2>/dev/null || echo refused; /srv/v/tool 2>/dev/null || echo refused"),
              "one\none\none\nrefused\nran\n")
        of_volume = c.call("ImageStatus", image={"image": volume}).image.id
        equal([(m.container_path, m.image.image, m.image_sub_path, m.image.image_ref) for m in status(c, a).mounts],
              [("/srv/v", volume, "", of_volume), ("/srv/w", "example.com/volume", "link", of_volume), ("/srv/f", volume, "a/text", of_volume)])
        refused = lambda m: c.refused("CreateContainer", pod_sandbox_id=i, config=container_config("x", image_id, "true", mounts=[m]))
        code, message = refused(mount("/srv/x", "example.com/none"))
        equal(code, "NOT_FOUND")
        contains(message, "example.com/none")
        for m, message in ((mount("/srv/x", readonly=False), "is not 'readonly'"), (mount("/srv/x", image_sub_path="none"), "cannot be 'none' in the image"),
                           (mount("/srv/x", image_sub_path="../a"), "'mounts.image_sub_path' of the mount on '/srv/x' is '../a'"),
                           (mount("/srv/x", image_sub_path="/a"), "relative and without '..'"),
                           (mount("/srv/x", host_path=host.path("")), "has a 'host_path'"),
                           ({"container_path": "/srv/x", "host_path": host.path(""), "image_sub_path": "a"}, "'image_sub_path' without 'image'")):
            contains(refused(m)[1], message)
        # It is kept as long as the container exists.
        contains(c.refused("RemoveImage", image={"image": volume})[1], "is needed by the pod")
        stop(c, a, 0)
        contains(c.refused("RemoveImage", image={"image": volume})[1], "is needed by the pod")
        c.call("RemoveContainer", container_id=a)
        c.call("RemoveImage", image={"image": volume})
        equal(refused(mount("/srv/x"))[0], "NOT_FOUND")


@case
def mounts_of_the_host_arrive_later(host):
    with mounted(host.path("shared"), "shared") as shared, mounted(host.path("alone")) as alone, sandbox(host) as (c, i, image_id):
        for d in (shared, alone):
            os.mkdir(d + "/below")
            os.mknod(d + "/zero", 0o666 | stat.S_IFCHR, os.makedev(1, 5))
        a = create(c, i, "main", image_id, SLEEP, mounts=[{"host_path": shared, "container_path": "/srv/shared", "propagation": 1},
                                                          {"host_path": shared, "container_path": "/srv/private"}])
        c.call("StartContainer", container_id=a)
        with mounted(shared + "/below") as below:
            with open(below + "/x", "w"):
                pass
            equal(sh(c, a, "ls /srv/shared/below /srv/private/below"), "/srv/private/below:\n\n/srv/shared/below:\nx\n")
            equal(sh(c, a, "mkdir /srv/m && mount -t tmpfs none /srv/m 2>/dev/null; head -c 2 /srv/shared/zero | wc -c"), "2\n")
        equal(sh(c, a, "ls /srv/shared/below"), "")


@case
def sources_are_those_of_the_host_at_the_time_of_the_call(host):
    """The file system in which the sources are is private, so that what is mounted there later does not propagate to the supervisor."""
    privileged = {"namespace_options": {"network": 2}, "privileged": True}
    with mounted(host.path("area")) as area, Service(host) as s:
        c, image_id = s.client(), image(host)
        i = run_sandbox(c, linux={"security_context": privileged})
        os.mkdir(area + "/gone")
        first = create(c, i, "first", image_id, SLEEP, mounts=[{"host_path": area + "/gone", "container_path": "/srv"}])
        os.rmdir(area + "/gone")  # which is no reason to refuse others
        with mounted(area + "/late", "shared") as late:
            for d in ("ours", "theirs"):
                os.mkdir(os.path.join(late, d))
            os.mknod(late + "/zero", 0o666 | stat.S_IFCHR, os.makedev(1, 5))
            mount = lambda name, **more: dict(more, host_path=late, container_path="/srv/" + name)
            a = create(c, i, "main", image_id, SLEEP, mounts=[mount("none"), mount("read-only", readonly=True, recursive_read_only=True),
                                                              mount("slave", propagation=1), mount("shared", propagation=2)],
                       devices=[{"container_path": "/dev/late", "host_path": late + "/zero", "permissions": "r"}],
                       linux={"security_context": {"privileged": True}})
            c.call("StartContainer", container_id=a)
            with mounted(late + "/ours") as ours:
                with open(ours + "/x", "w"):
                    pass
                equal(sh(c, a, "cd /srv && ls */ours/x 2>/dev/null; head -c 2 /dev/late | wc -c"), "shared/ours/x\nslave/ours/x\n2\n")
            script = "for d in slave none shared; do mount -t tmpfs none /srv/$d/theirs && touch /srv/$d/theirs/$d; done; touch /srv/read-only/x 2>/dev/null; echo $?"
            equal(sh(c, a, script), "1\n")
            equal(os.listdir(late + "/theirs"), ["shared"])
            equal(sh(c, a, "umount /srv/shared/theirs && echo unmounted"), "unmounted\n")
            equal(os.listdir(late + "/theirs"), [])
            stop(c, a, 0)
        equal(state(c, first), "CREATED")
        remove(c, i)


@case
def mounts_of_a_container_are_on_the_host(host):
    with mounted(host.path("shared"), "shared") as shared, Service(host) as s:
        c, image_id = s.client(), image(host)
        os.mkdir(shared + "/ours")
        os.mkdir(shared + "/theirs")
        i = run_sandbox(c, linux={"security_context": {"namespace_options": {"network": 2}, "privileged": True}})
        mounts = [{"host_path": shared, "container_path": "/srv", "propagation": 2}]
        a = create(c, i, "main", image_id, SLEEP, mounts=mounts, linux={"security_context": {"privileged": True}})
        c.call("StartContainer", container_id=a)
        with mounted(shared + "/ours"):
            with open(shared + "/ours/x", "w"):
                pass
            equal(sh(c, a, "ls /srv/ours"), "x\n")
        equal(sh(c, a, "mount -t tmpfs none /srv/theirs && touch /srv/theirs/y && echo mounted"), "mounted\n")
        equal(os.listdir(shared + "/theirs"), ["y"])
        equal(sh(c, a, "umount /srv/theirs && echo unmounted"), "unmounted\n")
        equal(os.listdir(shared + "/theirs"), [])
        contains(c.refused("CreateContainer", pod_sandbox_id=i, config=container_config("x", image_id, "true", mounts=mounts))[1],
                 "but the container is not privileged")
        contains(c.refused("CreateContainer", pod_sandbox_id=i, config=container_config(
            "x", image_id, "true", mounts=[dict(mounts[0], host_path=host.path("volume"))], linux={"security_context": {"privileged": True}}))[1],
                 "is on a mount that is not shared")
        remove(c, i)


@case
def modules_that_the_host_does_not_have(host):
    parameter = "/sys/module/apparmor/parameters/enabled"
    if os.path.exists(parameter) and read_text(parameter).startswith("Y") or os.path.exists("/sys/fs/selinux/enforce"):
        raise Skip("this host has security modules")
    words = "the context system_u:system_r:web_t:s0:c1 of 'linux.security_context.selinux_options' has no effect, as SELinux is not active on this host"
    with sandbox(host, words) as (c, i, image_id):
        started(c, i, image_id, "unconfined", apparmor=UNCONFINED, apparmor_profile="unconfined")
        for context, name in (({"apparmor": {"profile_type": 2, "localhost_ref": "web"}}, "web"),
                              ({"apparmor_profile": "localhost/web"}, "web"), ({"apparmor": {}}, "RuntimeDefault")):
            equal(refusal(c, i, image_id, **context),
                  ("INVALID_ARGUMENT", "The field 'linux.security_context.apparmor' of the request is '%s', but AppArmor is not active "
                                       "on this host" % name))
        # As other runtimes do.
        labelled = started(c, i, image_id, "labelled", selinux_options={"type": "web_t", "level": "s0:c1"})
        equal(sh(c, labelled, "echo runs"), "runs\n")
        # A sandbox has no process that could be in it.
        remove(c, run_sandbox(c, name="labelled", linux={"security_context": {"namespace_options": {"network": 2},
                                                                               "selinux_options": {"type": "web_t"}}}))


if __name__ == "__main__":
    main_of_cri()
