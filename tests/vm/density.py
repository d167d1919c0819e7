#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Many pods on a host with the kernel's default limits, and objects of the host's systemd for them."""

from harness import *

INSTANCES = "/proc/sys/fs/inotify/max_user_instances"
PODS = 12


@contextlib.contextmanager
def instances_of_a_user(n):
    before = read_text(INSTANCES)
    with open(INSTANCES, "w") as f:
        f.write(str(n))
    try:
        yield
    finally:
        with open(INSTANCES, "w") as f:
            f.write(before)


def cgroups_of(uuid):
    return [path for path in cgroups() if uuid in path]


@case
def the_scope_ends_with_the_pod(host):
    image = host.acnspawn("fetch", host.image()).expect(0).out.strip()
    for _ in range(5):
        uuid = host.prepare(image)
        host.run(uuid)
        equal(cgroups_of(uuid), [], "cgroups when 'run' has returned")
    image = host.acnspawn("fetch", host.image(["/bin/sleep", "100000"])).expect(0).out.strip()
    for option in [], ["--force"]:
        uuid = host.detach(image)
        true(cgroups_of(uuid), "a pod that runs has cgroups")
        host.acnspawn("stop", *option, uuid).expect(0)
        equal(cgroups_of(uuid), [], "cgroups when 'stop' has returned")


def instances_in_use():
    """Of root."""
    return sum(target == "anon_inode:inotify" for targets in of_processes(descriptors_of).values() for target in targets.values())


@of_machine
def limit_of_inotify_instances_is_named(host):
    uuid = host.prepare("--no-userns", host.image())
    with instances_of_a_user(2):
        r = host.acnspawn("run", uuid).expect(1)
    contains(r.err, "Pod %s did not start: this host's limit of inotify instances of one user "
                    "(fs.inotify.max_user_instances=2) is reached." % uuid)
    contains(r.err, "Raise it with 'sysctl -w fs.inotify.max_user_instances=8192', and permanently in a file of /etc/sysctl.d.")


def start(host, image, *options):
    return host.acnspawn("run", "--detach", *options, image).expect(0).out.strip()


@of_machine
@with_timeout(600)
def pods_need_no_more_than_two_inotify_instances(host):
    """With 128 instances, the kernel's default, 60 pods run."""
    image = host.acnspawn("fetch", host.image(["/bin/sleep", "100000"])).expect(0).out.strip()
    with instances_of_a_user(instances_in_use() + 2 * PODS + 4):
        started = time.monotonic()
        uuids = [start(host, image, "--register=no") for _ in range(PODS)]
        print("# %d pods were started in %.0f s" % (PODS, time.monotonic() - started))
        states = {row["uuid"]: row["state"] for row in json.loads(host.acnspawn("list", "--json=short").expect(0).out)}
        equal([states.get(uuid) for uuid in uuids], ["running"] * PODS, "states of the pods")
    # Waiting for so many to stop takes too long on an emulated machine.
    r = host.acnspawn("stop", "--force", *uuids, timeout=300).expect(0)
    print("# and stopped in %.0f s" % r.seconds)


@case
def machines_of_many_pods_go_with_them(host):
    image = host.acnspawn("fetch", host.image(["/bin/sleep", "100000"])).expect(0).out.strip()
    uuids = [start(host, image) for _ in range(8)]
    names = {"acn-" + uuid for uuid in uuids}
    wait_for(lambda: names <= set(os.listdir("/run/systemd/machines")), "machines of the pods")
    host.acnspawn("stop", *uuids, timeout=120).expect(0)
    wait_for(lambda: not names & set(os.listdir("/run/systemd/machines")), "the end of the machines", timeout=60)


main()
