#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The service of the host, org.acnspawn.Host: started with a passed socket, as systemd would, and spoken to by hand."""

import threading

import flooding
import pod_interface
from pod_interface import *
from web import Page, Web

HOST = "org.acnspawn.Host."
SERVE = os.path.join(os.path.dirname(os.environ["ACNSPAWN"]), "serve-host")
FOREVER = "trap 'exit 0' TERM; touch /out/up; while :; do sleep 0.1; done"


class Client(pod_interface.Connection):
    """Replies are compared with the description."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(path)
        self.socket.settimeout(patience(60))
        self.buffer = b""
        self.fds = []
        self.method = None
        for interface in HOST, SERVICE:
            if interface not in self.descriptions:
                self.send(SERVICE + "GetInterfaceDescription", {"interface": interface.rstrip(".")})
                self.method = None
                self.descriptions[interface] = Description(self.receive()["parameters"]["description"])

    def send(self, method, parameters=None, **more):
        super().send(method if "." in method else HOST + method, parameters, **more)

    def call(self, method, **parameters):
        answer = super().call(method, **parameters)
        return (answer[0].replace(HOST, ""), answer[1]) if isinstance(answer, tuple) else answer

    def all(self, method, **parameters):
        """The replies to a call with "more"."""
        self.send(method, parameters, more=True)
        replies = []
        while True:
            reply = self.receive()
            if "error" in reply:
                fail("%s: %s" % (method, reply))
            replies.append(reply["parameters"])
            if not reply.get("continues"):
                return replies

    def close(self):
        self.socket.close()


class Service:
    """Listens on a socket of its own, and starts the program for it."""

    def __init__(self, host, *options, idle="infinity", env=None):
        self.host, self.options, self.env = host, ["--exit-idle-time=" + idle, *options], env
        self.path = host.path("org.acnspawn.Host")
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(self.path)
        self.listener.listen(128)
        os.chmod(self.path, 0o600)
        self.start()

    def start(self):
        def pass_socket():
            os.environ["LISTEN_PID"] = str(os.getpid())

        script = 'export LISTEN_PID=$$ LISTEN_FDS=1; exec "$@" 3<&%d' % self.listener.fileno()
        self.errors = open(self.host.path("service-errors"), "ab")
        self.process = subprocess.Popen(["/bin/sh", "-c", script, "sh", SERVE, "--dir=" + self.host.dir, *self.options],
                                        env=dict(os.environ, **(self.env or {})), pass_fds=[self.listener.fileno()],
                                        stdin=subprocess.DEVNULL, stdout=self.errors, stderr=self.errors)

    def said(self):
        return read_text(self.host.path("service-errors"))

    def client(self):
        return Client(self.path)

    def children(self):
        with open("/proc/%d/task/%d/children" % (self.process.pid, self.process.pid)) as f:
            return f.read().split()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self.process.poll() is None:
            self.process.terminate()
        rc = self.process.wait(patience(60))
        self.listener.close()
        self.errors.close()
        if exception[0] is None:
            equal((rc, self.said()), (0, ""), "exit status of the service, and what it wrote")


def app(host, script, name="a", **more):
    return dict({"image": host.shell(script, name="example.com/" + name), "name": name}, **more)


class Events:
    """Of Monitor(), read as they come."""

    def __init__(self, service):
        self.client = service.client()
        self.client.send("Monitor", more=True)
        self.seen = []
        self.until(lambda e: e["event"] == "complete")

    def next(self):
        reply = self.client.receive()
        true(reply and reply.get("continues"), "another event, not %s" % reply)
        event = reply["parameters"]
        self.seen.append(event)
        equal(event["sequence"], len(self.seen), "number of the event")
        return event

    def until(self, what):
        while not what(self.next()):
            pass

    def states(self, uuid):
        return [e["pod"]["state"] if e["event"] == "changed" else e["event"] for e in self.seen
                if (e.get("pod") or {}).get("uuid") == uuid and e["event"] != "app"]

    def apps(self, uuid, name):
        return [e["app"]["state"] for e in self.seen if e["event"] == "app" and e["pod"]["uuid"] == uuid and e["app"]["name"] == name]


@case
def describes_itself(host):
    with Service(host) as s:
        c = s.client()
        info = c.call(SERVICE + "GetInfo")
        equal((info["product"], sorted(info["interfaces"])), ("acnspawn", ["org.acnspawn.Host", "org.varlink.service"]))
        # There is no store yet.
        equal(c.all("ListPods"), [{}])
        equal(c.all("ListImages"), [{}])
        equal(c.call("DescribePod", pod="web")[0], "NoSuchPod")
        equal(c.call("DescribeImage", image="example.com/a")[0], "NoSuchImage")
        equal(c.call("ListPods")[0], SERVICE + "ExpectedMore")
        equal(c.call("StopPod")[0], SERVICE + "InvalidParameter")
        equal(c.call("Nonsense")[0], SERVICE + "MethodNotFound")


@case
def lists_are_those_of_the_verbs(host):
    with Service(host) as s:
        ended = host.acnspawn("run", "--detach", "--name=ended", host.shell("exit 3", name="example.com/a")).out.strip()
        wait_for(lambda: host.state(ended) == "exited", "end of the pod")
        host.prepare(host.shell("true", name="example.com/b"), host.shell("true", name="example.com/c"))
        host.detach("--name=up", host.shell(FOREVER, name="example.com/a"))
        c = s.client()
        for method, key, verb in ("ListPods", "pod", ["list"]), ("ListImages", "image", ["image", "list"]):
            listed = json.loads(host.acnspawn(*verb, "--json").expect(0).out)
            if key == "image":
                listed = [dict(x, lastUsed=0) for x in listed]
            got = [dict(r[key], **({"lastUsed": 0} if key == "image" else {})) for r in c.all(method)]
            true(len(got) >= 3, "number of what is listed")
            equal(got, [{k: v for k, v in row.items() if v is not None} for row in listed], "what " + method + " has")
        pod = c.call("DescribePod", pod="up")
        equal((pod["pod"]["state"], [a["name"] for a in pod["manifest"]["apps"]]), ("running", ["a"]))
        equal(os.path.realpath(pod["interface"]), os.path.join(os.path.realpath(host.pod_dir(pod["pod"]["uuid"])), "interface"))
        lacks(c.call("DescribePod", pod="ended"), "interface")
        image = c.call("DescribeImage", image="example.com/b")
        equal((image["image"]["name"], image["manifest"]["name"], image["kind"]), ("example.com/b", "example.com/b", "aci"))
        equal(c.call("RemoveImage", image="example.com/b")[0], "ImageInUse")
        equal(c.call("StopPod", pod="up", timeoutUSec=-1), (SERVICE + "InvalidParameter", {"parameter": "timeoutUSec"}))
        equal(c.call("StopPod", pod="up"), {"killed": False})


@case
def a_pod_from_beginning_to_end(host):
    with Service(host) as s:
        events = Events(s)
        c = s.client()
        made = c.call("RunPod", definition={"apps": [app(host, FOREVER, environment=[{"name": "GREETING", "value": "hello"}]),
                                                     app(host, "echo $GREETING; sleep 0.2; exit 4", "b")],
                                            "environment": [{"name": "GREETING", "value": "hi"}],
                                            "userLabels": [{"name": "x", "value": "y"}]},
                      options={"name": "web", "exitPolicy": "all", "stopTimeout": "5s", "hostname": "h"})
        true(isinstance(made, dict), "the pod runs: %s" % (made,))
        uuid = made["uuid"]
        equal((made["name"], made["warnings"]), ("web", []))
        equal(os.path.realpath(made["interface"]), os.path.join(os.path.realpath(host.pod_dir(uuid)), "interface"))
        equal(pod_interface.Connection(host, uuid).call("Describe")["name"], "web")
        wait_for(lambda: s.children() == [], "the end of the processes of the call")
        equal(c.call("RunPod", definition={"apps": [app(host, "true")]}, options={"name": "web"})[0], "NameTaken")
        equal(c.call("RemovePod", pod="web"), ("WrongState", {"pod": uuid, "state": "running"}))
        equal(c.call("StartPod", pod="web"), ("WrongState", {"pod": uuid, "state": "running"}))
        events.until(lambda e: e["event"] == "app" and e["app"]["name"] == "b" and e["app"]["state"] == "exited")
        equal(events.seen[-1]["app"]["exitCode"], 4)
        host.acnspawn("pause", "web").expect(0)
        host.acnspawn("resume", "web").expect(0)
        equal(c.call("StopPod", pod="web"), {"killed": False})
        events.until(lambda e: e["event"] == "changed" and e["pod"]["state"] == "exited" and e["pod"]["uuid"] == uuid)
        equal(events.seen[-1]["pod"]["exitStatus"], 4)
        equal(host.acnspawn("logs", "--app=b", "web").expect(0).out, "hi\n")
        again = c.call("StartPod", pod="web", remove=True)
        equal((again["name"], again["uuid"] != uuid), ("web", True))
        equal(c.call("RemovePod", pod=uuid), {"uuid": uuid})
        events.until(lambda e: e["event"] == "removed" and e["pod"]["uuid"] == uuid)
        equal(c.call("RemovePod", pod="web", force=True), {"uuid": again["uuid"]})
        events.until(lambda e: e["event"] == "removed" and e["pod"]["uuid"] == again["uuid"])
        # Each transition once, and in order.
        equal(events.states(uuid), ["preparing", "prepared", "running", "paused", "running", "stopping", "exited", "garbage", "removed"])
        equal(events.states(again["uuid"])[:3], ["preparing", "prepared", "running"])
        equal(events.states(again["uuid"])[-3:], ["exited", "garbage", "removed"])
        contains(events.apps(uuid, "a"), "running")
        for states in events.apps(uuid, "a"), events.apps(uuid, "b"):
            equal((states.count("exited"), states[-1]), (1, "exited"), "how often the end of an app is told in %s" % states)


@case
def the_monitor_begins_with_what_is_there(host):
    up = host.detach("--name=up", host.shell(FOREVER, name="example.com/a"))
    host.wait_up("a")
    prepared = host.prepare(host.shell("true", name="example.com/b"))
    with Service(host) as s:
        events = Events(s)
        equal([(e["event"], e["pod"]["uuid"], e["pod"]["state"]) for e in events.seen[:-1]],
              [("present", up, "running"), ("present", prepared, "prepared")])
        events.until(lambda e: e["event"] == "app")
        equal((events.seen[-1]["app"]["name"], events.seen[-1]["app"]["state"]), ("a", "running"))
        # The verb has it from the same code.
        p = host.start("monitor", "--json=short")
        lines = [json.loads(p.stdout.readline()) for _ in range(4)]
        equal([(e["event"], e["sequence"]) for e in lines], [("present", 1), ("present", 2), ("complete", 3), ("app", 4)])
        # What is killed has ended, too.
        os.kill(host.supervisor(up), signal.SIGKILL)
        for read in (lambda: events.next()), (lambda: json.loads(p.stdout.readline())):
            while True:
                e = read()
                if e["event"] == "changed":
                    break
            equal((e["pod"]["uuid"], e["pod"]["state"]), (up, "exited"))
        p.terminate()
        p.communicate(timeout=patience(20))
        text = host.start("monitor")
        contains(text.stdout.readline().decode(), " 1 pod up exited\n")
        text.terminate()
        text.communicate(timeout=patience(20))
        equal(host.acnspawn("monitor", "--since=3").rc, 2)
        host.acnspawn("rm", "up").expect(0)


@case
def many_pods_at_once(host):
    image = host.shell("sleep 0.2", name="example.com/a")
    host.acnspawn("fetch", image, "--insecure-options=all").expect(0)
    with Service(host) as s:
        watchers = [Events(s), Events(s)]
        clients = [s.client() for _ in range(8)]
        for n, c in enumerate(clients):
            c.send("RunPod", {"definition": {"apps": [{"image": "example.com/a"}]}, "options": {"name": "p%d" % n}, "remove": True})
        equal(s.client().call("DescribeImage", image="example.com/a")["image"]["name"], "example.com/a", "while they are made")
        made = [c.receive() for c in clients]
        uuids = [m["parameters"].get("uuid") for m in made]
        equal([m.get("error") for m in made], [None] * 8)
        for events in watchers:
            gone = set()
            while gone < set(uuids):
                e = events.next()
                if e["event"] == "removed":
                    gone.add(e["pod"]["uuid"])
            for uuid in uuids:
                equal([x for x in events.states(uuid) if x != "stopping"],
                      ["preparing", "prepared", "running", "exited", "garbage", "removed"])


@case
def what_the_kernel_drops_is_made_up_for(host):
    """The queue of notifications is full while the service cannot read it."""
    old = host.prepare("--name=old", host.shell("true", name="example.com/a"))
    with open("/proc/sys/fs/inotify/max_queued_events") as f:
        size = int(f.read())
    with Service(host) as s:
        events = Events(s)
        os.kill(s.process.pid, signal.SIGSTOP)
        noise = os.path.join(host.dir, "pods", "garbage", "noise")
        for _ in range(size // 2 + 10):
            os.mkdir(noise)
            os.rmdir(noise)
        new = host.prepare("--name=new", host.shell("true", name="example.com/b"))
        host.acnspawn("rm", "old").expect(0)
        os.kill(s.process.pid, signal.SIGCONT)
        events.until(lambda e: e["event"] == "removed")
        equal((events.states(old), events.states(new)), (["present", "removed"], ["prepared"]))
        host.acnspawn("rm", "new").expect(0)
        events.until(lambda e: e["event"] == "removed")
        equal(events.states(new), ["prepared", "garbage", "removed"])


@case
def a_preparation_that_is_killed(host):
    with Web(host.path("web"), ["example.com"]) as web:
        page = slow_image(host, web)
        with Service(host, env=web.env()) as s:
            events, c = Events(s), s.client()
            c.send("PreparePod", {"definition": {"apps": [{"image": FETCH["image"]}]}, "fetch": FETCH["options"]})
            events.until(lambda e: e["event"] == "changed" and e["pod"]["state"] == "preparing")
            wait_for(lambda: web.requests, "request for the image")
            os.kill(int(s.children()[0]), signal.SIGKILL)
            reply = c.receive()
            equal((reply["error"], reply["parameters"]["errnoName"]), (HOST + "OperationFailed", "ECHILD"))
            events.until(lambda e: e["event"] == "changed")
            equal(events.seen[-1]["pod"]["state"], "aborted prepare")
            equal(len(c.call("CollectGarbage")["removed"]) > 0, True)
            events.until(lambda e: e["event"] == "removed")
            page.pause.set()
            equal(c.all("ListPods"), [{}])


@case
def pods_alone_stay_while_it_is_not_known_which_units_need(host):
    host.run("--name=p", host.shell("true"))
    os.makedirs(host.path("units"))
    os.symlink("loop.wants", host.path("units/loop.wants"))
    left = os.path.join(host.dir, "tmp", "left")
    os.mkdir(left)
    with Service(host, env={"SYSTEMD_UNIT_PATH": host.path("units")}) as s:
        equal(s.client().call("CollectGarbage", gracePeriodUSec=0)[0], "OperationFailed")
    equal((os.path.exists(left), host.state("p")), (False, "exited"))


@case
def a_client_that_reads_slowly_gets_all(host):
    for n in range(40):
        host.acnspawn("fetch", "--insecure-options=all", host.image(["/bin/true"], name="example.com/i%d" % n, base=False,
                                                                    labels=[{"name": "x", "value": "v" * 100000}])).expect(0)
    with Service(host) as s:
        c = s.client()
        c.send("ListImages", more=True)
        wait_for(lambda: unread(c.socket) > 4096, "the first images")
        steady(lambda: unread(c.socket), 0.3)  # the socket is full; the service tries again all the time
        names = set()
        while True:
            reply = c.receive()
            names.add(reply["parameters"]["image"]["name"])
            if not reply.get("continues"):
                break
        equal(len(names), 40)


@case
def malformed_requests(host):
    good = {"apps": [app(host, "true")]}
    with Service(host) as s:
        c = s.client()

        def refused(field, definition=None, **more):
            for method in "PreparePod", "RunPod":
                error, parameters = c.call(method, definition=definition or good, **more)
                equal((error, parameters.get("field")), ("InvalidRequest", field), "%s of %s: %s" % (method, more or definition, parameters))
                true(parameters["message"], "a message")

        def app_with(**more):
            return {"apps": [dict(good["apps"][0], **more)]}

        refused("definition", {"apps": [{"nam": "a"}]})
        refused("definition", {"apps": [{"name": "a"}]})
        refused("definition", {"apps": "a"})
        refused("definition", {"nothing": 1})
        refused("definition", {"apps": []})
        refused("definition", dict(good, images=[{"app": "a", "id": "sha512-" + "0" * 128, "name": "x"}]))
        refused("definition", app_with(mounts=[{"volume": "v"}]))
        refused("definition", app_with(isolators=[{"name": "resource/memory", "value": {"limit": "many"}}]))
        refused("definition", app_with(isolators=[{"name": "resource/memory", "value": {"limit": "1Gi"}, "configured": True}]))
        refused("definition", dict(good, credentials=[{"name": "k", "source": "file", "path": "/etc/shadow"}]))
        refused("definition.apps[0]", app_with(credentials=[{"name": "k", "source": "file", "path": "/etc/shadow"}]))
        for image in "-", "./a.aci", "a.aci", "oci:layout", "":
            refused("definition.apps[0]", app_with(image=image))
        for options, field in (({"name": "a b"}, "options.name"), ({"net": ["no such/net"]}, "options.net"), ({"exitPolicy": "x"}, "options.exitPolicy"),
                               ({"stopTimeout": "soon"}, "options.stopTimeout"), ({"hostname": "-"}, "options.hostname"),
                               ({"dns": ["none"], "dnsSearch": ["x"]}, "options"), ({"replace": True}, "options.replace"),
                               ({"stage1": "/nonexistent"}, "options.stage1"), ({"hostsEntry": ["x"]}, "options.hostsEntry")):
            refused(field, options=options)
        refused("fetch.pullPolicy", fetch={"pullPolicy": "maybe"})
        refused("fetch.insecureOptions", fetch={"insecureOptions": ["everything"]})
        for credential in {"name": "k", "data": "abc"}, {"name": "k", "data": "zz"}, {"name": "a/b", "data": ""}, {"name": "k", "data": "", "app": "b"}:
            refused("credentials", credentials=[credential])
        # What the description alone refuses.
        for parameters in {}, {"definition": []}, {"definition": good, "options": {"uuidFile": "/x"}}, {"definition": good, "more": 1}:
            equal(c.call("PreparePod", **parameters)[0], SERVICE + "InvalidParameter")
        # What only preparing finds out.
        for definition in app_with(name="../a"), app_with(image="example.com/none"), {"apps": good["apps"] * 2}, \
                dict(good, volumes=[{"name": "v", "kind": "host", "source": "relative"}]):
            answer = c.call("PreparePod", definition=definition)
            true(isinstance(answer, tuple), "a refusal of %s, not %s" % (definition, answer))
            error, parameters = answer
            equal(error, "OperationFailed")
            true(parameters["errno"] > 0 and parameters["message"], "%s" % parameters)
        equal(host.pods(), [])
        # What is no Varlink loses its connection; others do not notice.
        for text in b"no json\0", b"[]\0", b'{"method": 1}\0', b"{" * 100 + b"\0", b'{"method":"' + b"x" * 1100000:
            x = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            x.connect(s.path)
            try:
                x.sendall(text)
                equal(x.recv(1), b"")
            except (ConnectionResetError, BrokenPipeError):
                pass
            x.close()
        equal(c.all("ListPods"), [{}])


@case
def failures_leave_nothing(host):
    with Service(host) as s:
        c = s.client()
        error, parameters = c.call("RunPod", definition={"apps": [app(host, "exit 1", exec=["/nonexistent"])]})
        equal(error, "PodEnded")
        contains(parameters["message"], "/nonexistent")
        equal(c.call("DescribePod", pod=parameters["uuid"])["pod"]["exitStatus"], parameters["exitStatus"])
        equal(c.call("RemovePod", pod=parameters["uuid"]), {"uuid": parameters["uuid"]})
        equal(host.pods(), [])
        made = c.call("PreparePod", definition={"apps": [app(host, "cat $CREDENTIALS_DIRECTORY/k; touch /out/up; sleep 100")]}, options={"name": "p"},
                      credentials=[{"name": "k", "data": b"secret\n".hex(), "app": "a"}])
        equal((made["name"], host.state(made["uuid"])), ("p", "prepared"))
        lacks(made, "interface")
        equal(c.call("StopPod", pod="p"), ("WrongState", {"pod": made["uuid"], "state": "prepared"}))
        equal(c.call("StartPod", pod="p")["uuid"], made["uuid"])
        wait_for(lambda: host.acnspawn("logs", "p").expect(0).out == "secret\n", "what the app writes")
        equal(c.call("StopPod", pod="p", timeoutUSec=0), {"killed": True})
        equal(c.call("StopPod", pod="p"), {"killed": False}, "a pod that has ended")
        c.call("CollectGarbage", dryRun=True, gracePeriodUSec=0)["removed"]
        equal([os.path.basename(p) for p in host.pods()], [made["uuid"]])
        removed = c.call("CollectGarbage", gracePeriodUSec=0)["removed"]
        contains([(x["kind"], x["id"]) for x in removed], ("pod", made["uuid"]))
        equal(host.pods(), [])


def slow_image(host, web):
    """A page of which the second half comes when it is told to."""
    with open(host.shell("true", name="example.com/a"), "rb") as f:
        body = f.read()
    page = web.pages["http://example.com/a.aci"] = Page(body, cut=len(body) // 2, pause=threading.Event())
    return page


FETCH = {"image": "http://example.com/a.aci", "options": {"insecureOptions": ["http", "signature"], "pullPolicy": "update"}}


def rubbish(host):
    """What is in the store but directories."""
    return [os.path.join(where, f) for where, _, files in os.walk(host.dir) for f in files if f not in ("version", "lock", "file-system", "id-mapped", ".lock")]


@case
def images_are_fetched_and_removed(host):
    with Web(host.path("web"), ["example.com"]) as web:
        page = slow_image(host, web)
        page.cut = page.pause = None
        with Service(host, env=web.env()) as s:
            c = s.client()
            replies = c.all("FetchImage", **FETCH)
            image = replies[-1]["image"]
            equal(image["name"], "example.com/a")
            progress = [r["progress"] for r in replies[:-1] if "progress" in r]
            equal({p["what"] for p in progress}, {FETCH["image"]})
            equal(progress[-1]["phase"], "done")
            true(any("message" in r for r in replies), "a message that options were insecure")
            # Without "more" there is one reply.
            equal(c.call("FetchImage", **FETCH)["image"]["id"], image["id"])
            equal([r["image"]["id"] for r in c.all("ListImages")], [image["id"]])
            equal(c.call("RemoveImage", image="example.com/a"), {"id": image["id"]})
            equal(c.call("RemoveImage", image="example.com/a")[0], "NoSuchImage")
            equal(c.call("FetchImage", image="-")[1]["field"], "image")
            equal(c.call("FetchImage", image=FETCH["image"], options={"pullPolicy": "x"})[1]["field"], "options.pullPolicy")
            equal(c.call("FetchImage", image="http://example.com/none.aci", options=FETCH["options"])[0], "NoSuchImage")


@case
def a_client_that_hangs_up_cancels_its_fetch(host):
    with Web(host.path("web"), ["example.com"]) as web:
        page = slow_image(host, web)
        with Service(host, env=web.env()) as s:
            c = s.client()
            c.send("FetchImage", FETCH, more=True)
            c.socket.settimeout(patience(10))  # the download has begun, and stalls
            while c.receive()["parameters"].get("progress", {}).get("phase") != "downloading":
                pass
            equal(len(s.children()), 1)
            s.client().all("ListImages")  # others are served meanwhile
            c.close()
            wait_for(lambda: not s.children(), "end of the fetch", timeout=5)
            equal(rubbish(host), [])
            # The same for a pod that needs the image, and when the service is stopped.
            c = s.client()
            c.send("RunPod", {"definition": {"apps": [{"image": FETCH["image"]}]}, "fetch": FETCH["options"]})
            n = len(web.requests)
            wait_for(lambda: len(web.requests) > n, "request for the image")
            s.process.terminate()
            equal(s.process.wait(patience(10)), 0)
            equal(rubbish(host), [])
            page.pause.set()


def fetches_of_others(service, n):
    """Runs a process that keeps N calls pending until its input ends, and prints the first reply to one of them."""
    script = """
import select, socket, sys
sockets = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(int(sys.argv[2]))]
for s in sockets:
    s.connect(sys.argv[1])
    s.sendall(sys.argv[3].encode() + bytes(1))
ready = select.select([*sockets, sys.stdin], [], [])[0]
if ready[0] is not sys.stdin:
    print(ready[0].recv(65536).decode().rstrip("\\0"), flush=True)
sys.stdin.read()
"""
    call = json.dumps({"method": HOST + "FetchImage", "parameters": FETCH})
    return subprocess.Popen([sys.executable, "-c", script, service.path, str(n), call], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            text=True)


@case
def too_much_at_once_is_refused(host):
    with Web(host.path("web"), ["example.com"]) as web:
        page = slow_image(host, web)
        with Service(host, env=web.env()) as s:
            clients = [s.client() for _ in range(16)]
            for c in clients:
                c.send("FetchImage", FETCH)
            last = s.client()
            wait_for(lambda: len(s.children()) == 16, "that all are at it")
            equal(last.call("FetchImage", **FETCH), ("TooManyOperations", {"limit": 16}))
            equal(last.call("PreparePod", definition={"apps": [{"image": FETCH["image"]}]})[0], "TooManyOperations")
            # Calls of other kinds, and of other clients, have limits of their own.
            equal(s.client().all("ListPods"), [{}])
            equal(last.call("DescribePod", pod="x")[0], "NoSuchPod")
            equal(last.call("StopPod", pod="x")[0], "NoSuchPod")
            others = fetches_of_others(s, 16)
            wait_for(lambda: len(s.children()) == 32, "that those of another client are at it")
            third = fetches_of_others(s, 1)
            contains(third.stdout.readline(), "\"limit\":32")
            equal(s.client().all("ListPods"), [{}])
            for p in others, third:
                p.stdin.close()
                p.wait()
                p.stdout.close()
            for c in clients:
                c.close()
            wait_for(lambda: not s.children(), "their ends", timeout=30)
            watchers = [Events(s) for _ in range(16)]
            equal(last.call("ListPods")[0], SERVICE + "ExpectedMore")
            last.send("Monitor", more=True)
            equal(last.receive()["error"], HOST + "TooManyOperations")
            for w in watchers:
                w.client.close()

            def another():
                with contextlib.suppress(Failure):  # one that has gone may still count
                    return Events(s)
            equal([e["event"] for e in wait_for(another, "room for another one").seen], ["complete"])
            page.pause.set()


@case
def a_flood(host):
    with Service(host) as s:
        message = json.dumps({"method": "org.varlink.service.GetInfo"}).encode() + b"\0"
        flooding.flood(flooding.Target(s.process.pid, lambda: flooding.unix(s.path), message, lambda: s.client().all("ListPods"),
                                       most=100))


@case
def pods_do_not_depend_on_the_service(host):
    with Service(host) as s:
        made = s.client().call("RunPod", definition={"apps": [app(host, FOREVER)]}, options={"name": "p"})
        s.process.terminate()
        equal(s.process.wait(patience(20)), 0)
        equal(host.state(made["uuid"]), "running")
        supervisor = host.supervisor(made["uuid"])
        with open("/proc/%d/environ" % supervisor, "rb") as f:
            variables = {v.split(b"=")[0] for v in f.read().split(b"\0")}
        equal(variables & {b"LISTEN_FDS", b"LISTEN_PID", b"NOTIFY_SOCKET", b"INVOCATION_ID"}, set())
        lacks(descriptors_of(supervisor).values(),
              "socket:[%d]" % os.fstat(s.listener.fileno()).st_ino)
        s.start()
        equal(s.client().call("StopPod", pod="p"), {"killed": False})


@case
def ends_when_idle_and_comes_back(host):
    with Service(host, idle="400ms") as s:
        c = s.client()
        equal(c.all("ListPods"), [{}])
        time.sleep(1.2)  # three times as long as it waits without a client
        equal(s.process.poll(), None, "the service while a client is connected")
        equal(c.all("ListPods"), [{}])
        c.close()
        equal(s.process.wait(patience(10)), 0)
        # A connection that comes meanwhile waits for the next one.
        c = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        c.connect(s.path)
        s.start()
        c.close()
        equal(s.client().all("ListPods"), [{}])
        equal(s.process.wait(patience(10)), 0)


@case
def needs_a_socket_that_listens(host):
    r = subprocess.run([SERVE], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    equal(r.returncode, 1)
    contains(r.stderr, "0 sockets were passed")
    a, b = socket.socketpair()
    with a, b:
        r = subprocess.run(["/bin/sh", "-c", 'export LISTEN_PID=$$ LISTEN_FDS=1; exec "$0" 3<&%d' % a.fileno(), SERVE], pass_fds=[a.fileno()],
                           stdin=subprocess.DEVNULL, capture_output=True, text=True)
    equal(r.returncode, 1)
    contains(r.stderr, "is not a listening Unix stream socket")


if __name__ == "__main__":
    main()
