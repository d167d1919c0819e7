#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Pods over reboots of the host: one in order, and one that is like a loss of power. The machine is really rebooted: this program
is started again by each boot, goes on with the next case, and is done after the last one.

The pods are in the store of the system, which is on a file system that is mounted late at each boot: "keeper", which is declared and enabled,
and others that were started by hand. With ACNSPAWN_TEST_SANDBOX=yes a kubelet has made a sandbox before the loss of power."""

from cri_client import *

PHASE = "/var/lib/acnspawn-test-phase"
POD, UNIT = "/etc/acnspawn/pods/keeper.pod", "acnspawn@keeper.service"
NETWORK, LEASES = "/etc/acnspawn/net.d/50-lan.conflist", "/var/lib/cni/networks/lan"
LAN = {"cniVersion": "0.4.0", "name": "lan", "plugins": [
    {"type": "bridge", "bridge": "lan0", "isGateway": True, "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.91.0.0/24"}]]}}]}
# The store of the system is on a mount that nothing waits for, unless it says so; "late" is when it comes and goes. "lan" stands for the network.
CONF, STORE, WITNESSED = "/etc/acnspawn/acnspawn.conf", "/srv/late/store", "/var/lib/acnspawn-test-witness"
MOUNT = "/var/lib/acnspawn-test-late /srv/late none bind,nofail,_netdev,x-systemd.requires=late.service 0 0\n"
WITNESS = """[Unit]
%s
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c '%s'
ExecStop=/bin/sh -c 'cat /proc/uptime >""" + WITNESSED + """/%%N'
[Install]
WantedBy=multi-user.target
"""
WITNESSES = {
    "late": WITNESS % ("After=basic.target network.target", "n=0; while [ $$n -lt 30 ] && ! [ -e " + STORE + " ]; do sleep 0.1; n=$$((n + 1)); done"),
    "lan": WITNESS % ("Wants=network.target\nBefore=network.target", "true")}
# Not synced by the machine, which is switched off suddenly: the app does that itself.
SERVE = "echo started >>/data/starts; sync; touch /out/up; exec httpd -f -p 80 -h /data"
STAY = "trap 'exit 0' TERM; touch /out/up; while :; do sleep 1000 & wait $!; done"
# It takes a while to end, and says when it did.
LINGER = "trap 'sleep 2; read -r up </proc/uptime; echo $up >/data/$AC_APP_NAME; sync; exit 0' TERM; touch /out/up; while :; do sleep 1000 & wait $!; done"
DECLARED = """[Pod]
Net=default
Port=8090:80
Volume=data,kind=named,source=keeper-data
[App web]
Image=example.com/serve
Mount=data:/data
SetCredential=token:secret
"""


def command(*args, rc=0):
    r = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=150, cwd="/")
    if rc is not None:
        equal(r.returncode, rc, "status of %s, which says %r" % (" ".join(args), r.stdout))
    return r.stdout.strip()


def acnspawn(*args, rc=0):
    return command("acnspawn", *args, rc=rc)


def status(pod):
    return json.loads(acnspawn("status", "--json=short", pod))


def listed():
    """Of every pod: by name, state and cause of the end; the rows as shown are checked in between."""
    rows = json.loads(acnspawn("list", "--all", "--json=short", "--format=uuid,name,state,endedBy,exitStatus"))
    shown = {l.split()[0]: l for l in acnspawn("list", "--all", "--no-legend").splitlines()}
    for row in rows:
        equal("exited (reboot)" in shown[row["uuid"]], row["endedBy"] == "reboot", "mark in " + shown[row["uuid"]])
    return {row["uuid"]: (row["state"], row["endedBy"]) for row in rows}


def up(pod):
    return wait_for(lambda: acnspawn("enter", pod, "ls", "/out/up", rc=None) == "/out/up" and status(pod), "start of pod " + pod, timeout=120)


def starts():
    r = command("busybox", "wget", "-q", "-O", "-", "http://127.0.0.1:8090/starts", rc=None)
    return r.splitlines().count("started")


def address(pod):
    return pod["networks"][0]["addresses"][0]["address"].split("/")[0]


def leases():
    return {n for n in os.listdir(LEASES) if n[0].isdigit()} if os.path.isdir(LEASES) else set()


def sync(path):
    """For a plugin that does not do it."""
    with open(path) as f:
        os.fsync(f.fileno())


def remember(**what):
    """Until the next boot, whatever happens."""
    with open(PHASE, "w") as f:
        json.dump(what, f)
        f.flush()
        os.fsync(f.fileno())


def remembered():
    with contextlib.suppress(FileNotFoundError):
        return json.loads(read_text(PHASE))
    return {"boot": 0}


def belongings(uuid):
    """What there is of a pod outside of the store."""
    found = [p for p in runtime_files() if uuid in p or uuid.replace("-", "") in p]
    found += [c for c in cgroups() if uuid in c]
    found += [m for m in mounts() if uuid in m]
    return found


@contextlib.contextmanager
def endpoint():
    """A client of acnspawn-cri."""
    command("systemctl", "start", "acnspawn-cri.socket")
    c = Client("/run/acnspawn/cri.sock")
    try:
        wait_for(lambda: answers(c), "a reply of acnspawn-cri", timeout=60)
        yield c
    finally:
        c.close()
        command("systemctl", "stop", "acnspawn-cri.socket", "acnspawn-cri.service")


def make_sandbox():
    """Its ID, and those of a container that has ended and of one that runs. Nothing but acnspawn syncs them."""
    image_id = next(i["id"] for i in json.loads(acnspawn("image", "list", "--json=short")) if i["name"] == "example.com/stay")
    with endpoint() as c:
        i = run_sandbox(c)
        ended, runs = create(c, i, "ended", image_id, "exit 3"), create(c, i, "runs", image_id, STAY)
        c.call("StartContainer", container_id=ended)
        wait_for(lambda: state(c, ended) == "EXITED", "the end of a container", timeout=60)
        c.call("StartContainer", container_id=runs)
        return i, ended, runs


def check_sandbox(i, ended, runs):
    with endpoint() as c:
        wait_for(lambda: sandboxes(c) == [(i, "NOTREADY")], lambda: "the sandbox of the earlier boot: %s" % sandboxes(c))
        exit_code = lambda x: c.call("ContainerStatus", container_id=x).status.exit_code
        equal((state(c, ended), exit_code(ended), state(c, runs)), ("EXITED", 3, "EXITED"))
        true(exit_code(runs) > 0, "the one that ran has not succeeded")
        remove(c, i)
        equal(sandboxes(c), [])


def mount_late():
    """The mount of the store, which each boot makes from now on."""
    for directory in MOUNT.split()[:2] + [WITNESSED]:
        os.makedirs(directory)
    with open("/etc/fstab", "a") as f:
        f.write(MOUNT)
    for name, text in WITNESSES.items():
        with open("/etc/systemd/system/%s.service" % name, "w") as f:
            f.write(text)
    command("systemctl", "daemon-reload")
    command("systemctl", "enable", "--now", "late.service", "lan.service")
    command("systemctl", "start", "srv-late.mount")
    os.mkdir("/srv/late/data")


def unmount_late():
    command("systemctl", "stop", "srv-late.mount")
    equal(os.listdir("/srv/late"), [], "files below the mount point of the store")
    command("systemctl", "disable", "--now", "late.service", "lan.service")
    fstab = read_text("/etc/fstab")
    with open("/etc/fstab", "w") as f:
        f.write(fstab.replace(MOUNT, ""))
    for name in WITNESSES:
        os.unlink("/etc/systemd/system/%s.service" % name)
    for directory in MOUNT.split()[0], WITNESSED:
        shutil.rmtree(directory)
    command("systemctl", "daemon-reload")


def uptime(path):
    return float(read_text(path).split()[0])


@with_timeout(600)
def in_order(host):
    """Before the first reboot."""
    mount_late()
    for path, text in (CONF, "[Store]\nDirectory=%s\n" % STORE), (POD, DECLARED), (NETWORK, json.dumps(LAN)):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
    for name, script in ("serve", SERVE), ("stay", STAY), ("linger", LINGER):
        acnspawn("fetch", "--insecure-options=signature", host.shell(script, name="example.com/" + name))
    command("systemctl", "daemon-reload")
    command("systemctl", "enable", "--now", UNIT)
    data = "--volume=/srv/late/data:/data"
    acnspawn("run", "--detach", "--name=byhand", "--net=lan", data, "example.com/linger", "--name=byhand")
    acnspawn("run", "--detach", "--name=killed", "example.com/stay", "--name=app")
    acnspawn("run", "--detach", "--name=alone", "--register=no", data, "example.com/linger", "--name=alone")
    pods = {name: up(name) for name in ("keeper", "byhand", "killed", "alone")}
    wait_for(lambda: starts() == 1, "an answer of keeper", timeout=60)
    equal(leases(), {address(pods["byhand"])})
    # This one ended before, and that was noticed before the reboot.
    os.kill(int(read_text("/proc/%d/status" % pods["killed"]["leader"]).split("PPid:")[1].split()[0]), signal.SIGKILL)
    wait_for(lambda: status("killed")["state"] == "exited", "the end of pod killed", timeout=60)
    acnspawn("gc", "--grace-period=1h")
    equal(listed()[pods["killed"]["uuid"]], ("exited", None))
    remember(boot=1, uuids={name: p["uuid"] for name, p in pods.items()}, killed=status("killed")["ended"])
    print("ok in_order", flush=True)
    command("systemctl", "--no-block", "reboot")
    time.sleep(600)


@with_timeout(600)
def of_the_power(host):
    """After the first reboot, and before the second."""
    memory = remembered()
    before = memory["uuids"]
    keeper = up("keeper")
    equal((keeper["predecessor"], keeper["unit"]), (before["keeper"], UNIT))
    wait_for(lambda: starts() == 2, "an answer of keeper with its old volume", timeout=120)
    equal(listed(), {**{before[n]: ("exited", "reboot") for n in ("keeper", "byhand", "alone")},
                     before["killed"]: ("exited", None), keeper["uuid"]: ("running", None)})
    contains(acnspawn("status", before["byhand"]), "exited with status 0 by a reboot of the host at ")
    # They were ended in order, with what the apps make of it.
    equal([(a["cause"], a["exitStatus"]) for a in status("byhand")["apps"]], [("exited", 0)])
    equal([(a["cause"], a["exitStatus"]) for a in status("alone")["apps"]], [("exited", 0)])
    # And before what they use was taken away.
    for name in "byhand", "alone":
        for witness in WITNESSES:
            ended, gone = uptime("/srv/late/data/" + name), uptime("%s/%s" % (WITNESSED, witness))
            true(ended < gone, "the pod %s ended %s s after the boot, when %s was stopped at %s" % (name, ended, witness, gone))
    killed = status("killed")
    equal((killed["ended"], killed["endedBy"]), (memory["killed"], None), "the pod that ended before")
    for name, uuid in before.items():
        equal(belongings(uuid), [], "what is left of " + name)
    equal(leases(), set(), "addresses")
    acnspawn("run", "--detach", "byhand")
    byhand = up("byhand")
    equal(byhand["predecessor"], before["byhand"])
    equal(leases(), {address(byhand)})
    sync("%s/%s" % (LEASES, address(byhand)))
    command("systemctl", "start", "acnspawn-update.service")
    wait_for(lambda: "No app of a running pod has an image policy." in command("journalctl", "-b", "-o", "cat", "-u", "acnspawn-update.service"),
             "what the unit of update says", timeout=60)
    sandbox = make_sandbox() if os.environ.get("ACNSPAWN_TEST_SANDBOX") == "yes" and not missing() else None
    remember(boot=2, uuids={"keeper": keeper["uuid"], "byhand": byhand["uuid"]}, old=list(before.values()), address=address(byhand), sandbox=sandbox)
    print("ok of_the_power", flush=True)
    with open("/proc/sysrq-trigger", "w") as f:
        f.write("b")
    time.sleep(600)


@with_timeout(600)
def and_afterwards(host):
    """After the second reboot."""
    memory = remembered()
    before = memory["uuids"]
    if memory["sandbox"]:
        check_sandbox(*memory["sandbox"])
    keeper = up("keeper")
    equal(keeper["predecessor"], before["keeper"])
    wait_for(lambda: starts() == 3, "an answer of keeper with its old volume", timeout=120)
    for uuid in before.values():
        equal(listed()[uuid], ("exited", "reboot"))
        old = status(uuid)
        equal((old["exitStatus"], [a["cause"] for a in old["apps"]]), (125, ["host-rebooted"]))
        text = acnspawn("status", uuid)
        contains(text, "exited with status 125 by a reboot of the host at ")
        contains(text, "ended by a reboot of the host")
        contains(text, "The host was rebooted, or lost power, before the end of the app was recorded")
        equal(belongings(uuid), [], "what is left of the pod")
    # The start of keeper may have released the address of byhand already.
    true(leases() <= {memory["address"]}, "addresses")
    acnspawn("gc", "--grace-period=0")
    equal(listed(), {keeper["uuid"]: ("running", None)}, "pods after gc")
    equal(leases(), set(), "addresses")
    equal(starts(), 3)
    command("systemctl", "disable", "--now", UNIT)
    equal(status("keeper")["exitStatus"], 143)
    equal(belongings(keeper["uuid"]), [], "what is left of keeper")
    acnspawn("rm", "keeper")
    acnspawn("volume", "rm", "keeper-data")
    for path in CONF, POD, NETWORK, PHASE:
        os.unlink(path)
    unmount_late()


for function in (in_order, of_the_power, and_afterwards)[remembered()["boot"]:][:1]:
    case(function)
main()
