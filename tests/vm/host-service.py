#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn.socket and the service that it starts, as they are installed; and varlinkctl, which Debian has from 13 on
(run.py --release=13)."""

import socket

from harness import *

PATH = "/run/acnspawn/org.acnspawn.Host"
HOST = "org.acnspawn.Host."
FOREVER = "trap 'exit 0' TERM; touch /out/up; while :; do sleep 1000 & wait $!; done"
DROP_IN = "/run/systemd/system/acnspawn.service.d"


def systemctl(*args, rc=0):
    r = subprocess.run(("systemctl",) + args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if rc is not None:
        equal(r.returncode, rc, "status of systemctl %s, which says %r" % (" ".join(args), r.stdout))
    return r.stdout.strip()


@contextlib.contextmanager
def offered(host, idle="30s"):
    """The socket as it is installed; the service but for the store and how long it stays."""
    was_active = systemctl("is-active", "acnspawn.socket", rc=None) == "active"
    os.makedirs(DROP_IN)
    with open(DROP_IN + "/test.conf", "w") as f:
        f.write("[Service]\nEnvironment=ACNSPAWN_DIR=%s\nExecStart=\nExecStart=/usr/lib/acnspawn/serve-host --exit-idle-time=%s\n" % (host.dir, idle))
    try:
        systemctl("daemon-reload")
        systemctl("start", "acnspawn.socket")
        yield
    finally:
        host.note_pods()
        systemctl("stop", "acnspawn.socket", "acnspawn.service", rc=None)
        shutil.rmtree(DROP_IN)
        systemctl("daemon-reload")
        systemctl("reset-failed", "acnspawn.service", "acnspawn.socket", rc=None)
        shutil.rmtree("/run/acnspawn", ignore_errors=True)
        if was_active: # the directory is that of tmpfiles.d
            subprocess.run(["systemd-tmpfiles", "--create", "--prefix=/run/acnspawn"], check=True)
            systemctl("start", "acnspawn.socket")


def state():
    return systemctl("show", "-P", "ActiveState", "acnspawn.service")


def call_by_hand(method, parameters=None, **more):
    """All replies."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        s.settimeout(120)
        s.connect(PATH)
        s.sendall(json.dumps(dict(more, method=HOST + method, parameters=parameters or {})).encode() + b"\0")
        replies, data = [], b""
        while True:
            part = s.recv(65536)
            true(part, "a reply to " + method)
            *messages, data = (data + part).split(b"\0")
            replies += [json.loads(m) for m in messages]
            if replies and not replies[-1].get("continues"):
                return replies


@case
def starts_with_a_connection_and_ends_when_idle(host):
    with offered(host, idle="2s"):
        equal(state(), "inactive")
        equal(call_by_hand("ListPods", more=True), [{"parameters": {}}])
        equal(state(), "active")
        wait_for(lambda: state() == "inactive", "end of the service", timeout=60)
        equal(systemctl("show", "-P", "Result", "acnspawn.service"), "success")
        equal(call_by_hand("ListPods", more=True), [{"parameters": {}}])


@case
def root_alone(host):
    with offered(host):
        equal((os.stat(PATH).st_mode & 0o777, os.stat(PATH).st_uid), (0o600, 0))
        r = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-c",
                            "import socket; socket.socket(socket.AF_UNIX).connect('%s')" % PATH], capture_output=True, text=True)
        contains(r.stderr, "PermissionError")
        equal(state(), "inactive")


@case
def pods_survive_the_service(host):
    with offered(host):
        image = host.shell(FOREVER, name="example.com/a")
        made = call_by_hand("RunPod", {"definition": {"apps": [{"image": image, "name": "a"}]}, "options": {"name": "web"}})[-1]
        lacks(made, "error")
        uuid = made["parameters"]["uuid"]
        contains(systemctl("show", "-P", "ControlGroup", "acnspawn-%s.scope" % uuid), "/machine.slice/")
        for verb in "restart", "stop":
            systemctl(verb, "acnspawn.service")
            equal(host.state(uuid), "running", "after " + verb)
        supervisor = host.supervisor(uuid)
        contains(read_text("/proc/%d/cgroup" % supervisor), "acnspawn-%s.scope" % uuid)
        equal(call_by_hand("StopPod", {"pod": "web"})[-1], {"parameters": {"killed": False}})
        equal(call_by_hand("RemovePod", {"pod": "web"})[-1], {"parameters": {"uuid": uuid}})


@case
def with_varlinkctl(host):
    if not shutil.which("varlinkctl"):
        raise Skip("there is no varlinkctl")

    def ctl(*args):
        r = subprocess.run(["varlinkctl", *args], capture_output=True, text=True, timeout=120)
        return r.returncode, r.stdout, r.stderr

    def values(text):
        return [json.loads(line.strip("\x1e")) for line in text.splitlines() if line.strip("\x1e")]

    def next_event():
        found = []
        while not found:
            found = values(monitor.stdout.readline())
        return found[0]

    def call(method, parameters, *options):
        rc, out, err = ctl("--json=short", *options, "call", PATH, HOST + method, json.dumps(parameters))
        return values(out) if rc == 0 else err

    with offered(host):
        rc, out, err = ctl("introspect", PATH, "org.acnspawn.Host")
        equal((rc, err), (0, ""))
        for word in "method RunPod", "type PodOptions", "error WrongState":
            contains(out, word)
        contains(ctl("info", PATH)[1], "org.acnspawn.Host")
        image = host.shell(FOREVER, name="example.com/a")
        fetched = call("FetchImage", {"image": image, "options": {"insecureOptions": ["signature"]}}, "--more")
        equal(fetched[-1]["image"]["name"], "example.com/a")
        made = call("RunPod", {"definition": {"apps": [{"image": "example.com/a", "name": "a"}]}, "options": {"name": "web"}})
        uuid = made[0]["uuid"]
        equal([r["pod"]["state"] for r in call("ListPods", {}, "--more")], ["running"])
        rc, out, err = ctl("--json=short", "call", call("DescribePod", {"pod": "web"})[0]["interface"], "org.acnspawn.Pod.Describe", "{}")
        equal((rc, values(out)[0]["uuid"]), (0, uuid))
        monitor = subprocess.Popen(["varlinkctl", "--json=short", "--more", "call", PATH, HOST + "Monitor", "{}"], stdout=subprocess.PIPE, text=True)
        host.children.append(monitor)
        equal([next_event()["event"] for _ in range(2)], ["present", "complete"])
        contains(call("RemovePod", {"pod": "web"}), "WrongState")
        contains(call("PreparePod", {"definition": {"apps": [{"image": "-"}]}}), "InvalidRequest")
        equal(call("StopPod", {"pod": "web"}), [{"killed": False}])
        equal(call("RemovePod", {"pod": "web"}), [{"uuid": uuid}])
        told = []
        while "removed" not in told:
            e = next_event()
            if e["event"] != "app":
                told.append(e["pod"]["state"] if e["event"] == "changed" else e["event"])
        equal(told, ["stopping", "exited", "garbage", "removed"])
        monitor.kill()


if __name__ == "__main__":
    main()
