#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Declared pods: .pod files, the commands for them, and pods that are made of them."""

import socket
import threading

from harness import *
from web import Web

STAY = "trap 'exit 0' TERM; touch /out/up; while :; do sleep 0.1; done"


class Declared:
    """A configuration directory with pods."""

    def __init__(self, host):
        self.host, self.config = host, host.path("config")
        self.dir = os.path.join(self.config, "pods")
        os.makedirs(self.dir, exist_ok=True)
        self.env = dict(os.environ, ACNSPAWN_CONFIG_DIR=self.config)

    def write(self, name, text):
        path = os.path.join(self.dir, name + ".pod")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
        return path

    def acnspawn(self, *args, **more):
        return self.host.acnspawn(*args, env=self.env, **more)

    def read(self, name):
        return read_text(os.path.join(self.dir, name + ".pod"))


def definition(host, uuid):
    d = json.loads(read_text(os.path.join(host.pod_dir(uuid), "definition")))
    c = json.loads(read_text(os.path.join(host.pod_dir(uuid), "config")))
    return d, {k: v for k, v in c.items() if k not in ("name", "uidBase", "createdUSec", "predecessor", "declaredRun")}


# --- Running them ---------------------------------------------------------------------------------------------------------------

@case
def a_declared_pod_runs_again_and_again(host):
    """Each time it is made of the file, and the last one is its predecessor."""
    d = Declared(host)
    image = host.shell('echo "said $SAID $*"; exit ${STATUS:-0}', name="example.com/a")
    d.write("web", "[Pod]\nHostname=www.%%i\nEnvironment=SAID=one\n[App a]\nImage=%s\n" % image)
    r = d.acnspawn("run", "--declared=web").expect(0)
    contains(r.out, "said one")
    equal(r.err, "")
    first = host.status("web")
    equal((first["name"], first["state"], first["hostname"]), ("web", "exited", "www.web"))
    d.write("web.pod.d/x", "")
    with open(os.path.join(d.dir, "web.pod.d", "10-status.conf"), "w") as f:
        f.write("[Pod]\nEnvironment=SAID=two\n[App a]\nEnvironment=STATUS=3\n")
    contains(d.acnspawn("run", "--declared=web").expect(3).out, "said two")
    second = host.status("web")
    equal((second["predecessor"], second["exitStatus"]), (first["uuid"], 3))
    equal(host.status(first["uuid"])["successor"], second["uuid"])
    # Prepared, and never run: the file may have changed since then, so it is made anew.
    uuid = d.acnspawn("prepare", "--declared=web").expect(0).out.strip()
    equal((host.status("web")["uuid"], host.status("web")["state"]), (uuid, "prepared"))
    os.unlink(os.path.join(d.dir, "web.pod.d", "10-status.conf"))
    contains(d.acnspawn("run", "--declared=web").expect(0).out, "said one")
    true(host.status("web")["uuid"] != uuid, "the prepared pod was run")
    listed = lambda *args: [p["uuid"] for p in json.loads(host.acnspawn("list", "--json", *args).expect(0).out)]
    third = host.status("web")["uuid"]
    equal((listed("web"), listed("--all", "web")), ([third], [first["uuid"], second["uuid"], third]))
    contains(host.acnspawn("list", "none").expect(1).err, "There is no pod 'none'")


@case
def one_that_runs_is_not_run_twice(host):
    d = Declared(host)
    d.write("web", "[App a]\nImage=%s\n" % host.shell(STAY, name="example.com/a"))
    uuid = d.acnspawn("run", "--detach", "--declared=web").expect(0).out.strip()
    r = d.acnspawn("run", "--declared=web").expect(1)
    contains(r.err, "Pod 'web' runs already (%s)" % uuid)
    contains(r.err, "'acnspawn stop web' ends it")
    contains(d.acnspawn("prepare", "--declared=web").expect(1).err, "runs already")
    equal(host.state("web"), "running")
    second = d.acnspawn("run", "--detach", "--replace", "--declared=web").expect(0).out.strip()
    equal((host.status("web")["uuid"], host.state("web")), (second, "running"))
    equal([os.path.basename(p) for p in host.pods()], [second])
    host.acnspawn("stop", "web").expect(0)


@case
def as_the_unit_of_the_host_does(host):
    """--service: what is declared is made of its file, and another pod of the name is run as it is."""
    d = Declared(host)
    d.write("web", "[App a]\nImage=%s\n" % host.shell("echo declared", name="example.com/a"))
    contains(d.acnspawn("run", "--service", "web").expect(0).out, "declared")
    host.prepare("--name=other", host.shell("echo prepared", name="example.com/b"))
    contains(d.acnspawn("run", "--service", "other").expect(0).out, "prepared")
    first = host.status("other")["uuid"]
    contains(d.acnspawn("run", "--service", "other").expect(0).out, "prepared")
    equal(host.status("other")["predecessor"], first)
    contains(d.acnspawn("run", "--service").expect(2).err, "--service is for a single pod")
    contains(d.acnspawn("run", "--service", "web", "other").expect(2).err, "--service is for a single pod")


@case
def the_watchdog_of_the_unit(host):
    """WatchdogSec= of a unit: the pod says that it works, as long as it runs."""
    d = Declared(host)
    d.write("web", "[App a]\nImage=%s\n" % host.shell("sleep 2", name="example.com/a"))
    path = host.path("notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(path)
        s.settimeout(60)
        p = subprocess.Popen(["/bin/sh", "-c", 'export WATCHDOG_PID=$$; exec "$@"', "sh"] + host.argv("run", "--service", "web"), stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, env=dict(d.env, NOTIFY_SOCKET=path, WATCHDOG_USEC="400000"))
        host.children.append(p)
        said = []
        while "READY=1" not in said or said[said.index("READY=1"):].count("WATCHDOG=1") < 3:
            said.append(s.recv(4096).decode())
        equal(p.wait(patience(60)), 0)
        host.note_pods()
    # That of another process is not its own.
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(path + "2")
        s.settimeout(60)
        env = dict(d.env, NOTIFY_SOCKET=path + "2", WATCHDOG_USEC="400000", WATCHDOG_PID="1")
        host.acnspawn("run", "--service", "web", env=env).expect(0)
        s.setblocking(False)
        said = []
        with contextlib.suppress(BlockingIOError):
            while True:
                said.append(s.recv(4096).decode())
        contains(said, "READY=1")
        lacks(said, "WATCHDOG=1")


@case
def a_fetch_extends_the_time_to_start(host):
    """TimeoutStartSec= of the unit is not for images that take long, as long as they come."""
    d = Declared(host)
    with Web(host.path("server"), ["example.com"]) as web, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(host.path("notify"))
        s.setblocking(False)
        one = Fetching(d, web, "one")
        one.may.set()

        def start():
            said = []
            p = host.start("run", "--service", "web", env=web.env(ACNSPAWN_CONFIG_DIR=one.config, NOTIFY_SOCKET=host.path("notify")))
            def is_ready():
                with contextlib.suppress(BlockingIOError):
                    said.append(s.recv(4096).decode())
                return "READY=1" in said
            wait_for(is_ready, "the pod")
            host.acnspawn("stop", "web").expect(0)
            one.go(p)
            return said
        said = start()
        true(0 <= said.index("EXTEND_TIMEOUT_USEC=300000000") < said.index("READY=1"), "what the unit is told: %s" % said)
        lacks(start(), "EXTEND_TIMEOUT_USEC=300000000", "what the unit is told")


@case
def what_cannot_be_combined(host):
    d = Declared(host)
    d.write("web", "[App a]\nImage=%s\n" % host.image(name="example.com/a"))
    for words in ("x",), ("--net=host",), ("--images=resolve",), ("--pull-policy=never",):
        contains(d.acnspawn("run", "--declared=web", *words).expect(2).err, "The file says what a declared pod is made of")
    for words in ("x",), ("--net=host",), ("--pull-policy=never",):
        contains(d.acnspawn("prepare", "--declared=web", *words).expect(2).err, "The file says what a declared pod is made of")
    r = d.acnspawn("run", "--declared=db").expect(1)
    contains(r.err, "No file declares a pod 'db'")
    contains(r.err, "It would be db.pod, in one of: " + d.dir)
    os.symlink("/dev/null", os.path.join(d.dir, "db.pod"))
    contains(d.acnspawn("run", "--declared=db").expect(1).err, "Pod 'db' is masked")
    equal(host.pods(), [])


@case
def mistakes_leave_nothing(host):
    """All of them are shown, and what there was before is as it was."""
    d = Declared(host)
    image = host.image(name="example.com/a")
    path = d.write("web", "[App a]\nImage=%s\n" % image)
    d.acnspawn("run", "--declared=web").expect(0)
    uuid = host.status("web")["uuid"]
    d.write("web", "[Pod]\nMemory=x\nColour=red\n[App a]\nImage=%s\nUser=\n\nAfter=b\n" % image)
    r = d.acnspawn("run", "--declared=web").expect(1)
    contains(r.err, "%s:2: Invalid value 'x' for Memory=" % path)
    contains(r.err, "%s:3: unknown key 'Colour', which is ignored" % path)
    contains(r.err, "%s:8: After=: the pod has no app 'b'" % path)
    contains(r.err, "Pod 'web' cannot be made: its declaration has 2 mistakes.")
    # So are those of the sections for the host's systemd.
    for section in "[Service]\nExecStart=/none", "[Install]\nAlias=x.service", "[Install]\nWantedBy=basic.target", "[Update]\nUnit=x.service":
        d.write("web", "[App a]\nImage=%s\n%s\n" % (image, section))
        for verb in "run", "prepare":
            contains(d.acnspawn(verb, "--declared=web").expect(1).err, "%s:4: " % path)
    d.write("web", "[App a]\nImage=example.invalid/none\n[Pod]\nPullPolicy=never\n")
    d.acnspawn("run", "--declared=web").expect(1)
    equal((host.status("web")["uuid"], len(host.pods())), (uuid, 1))
    # One that is refused when it starts is removed, and the name returns.
    d.write("web", "[App a]\nImage=%s\nExec=/none\n" % image)
    d.acnspawn("run", "--declared=web")
    d.write("web", "[App a]\nImage=%s\n" % image)
    d.acnspawn("run", "--declared=web").expect(0)


@case
def defaults_of_the_host(host):
    """acnspawn.conf, for what the file does not say."""
    d = Declared(host)
    image = host.image(name="example.com/a")
    with open(os.path.join(d.config, "acnspawn.conf"), "w") as f:
        f.write("[Pod]\nMemory=100Mi\nTasksMax=77\n")
    d.write("web", "[Pod]\nMemory=200Mi\n[App a]\nImage=%s\n" % image)
    uuid = d.acnspawn("prepare", "--declared=web").expect(0).out.strip()
    isolators = {i["name"]: i["value"] for i in definition(host, uuid)[0]["isolators"]}
    equal((isolators["resource/memory"]["limit"], isolators["resource/tasks"]["limit"]), ("200Mi", "77"))


# --- Two at once ----------------------------------------------------------------------------------------------------------------

class Fetching:
    """A configuration that declares the pod "web" with an image whose download waits until go() is called."""

    def __init__(self, d, web, word):
        self.host, self.web, self.url, self.may = d.host, web, "https://example.com/%s.aci" % word, threading.Event()
        with open(d.host.shell("echo %s; %s" % (word, STAY), name="example.com/" + word), "rb") as f:
            web.put(self.url, f.read(), pause=self.may)
        self.config = d.host.path("config-" + word)
        os.makedirs(os.path.join(self.config, "pods"))
        with open(os.path.join(self.config, "pods", "web.pod"), "w") as f:
            f.write("[Pod]\nInsecureOptions=signature\nVolume=data,kind=empty\n[App a]\nImage=%s\nMount=data:/data\n" % self.url)

    def start(self, *args):
        """The command in the background, once it fetches or has ended."""
        p = self.host.start(*args, env=self.web.env(ACNSPAWN_CONFIG_DIR=self.config))
        wait_for(lambda: self.web.asked(self.url) or p.poll() is not None, "the request of the image")
        return p

    def go(self, p):
        self.may.set()
        return self.host.finish(p)


@case
def of_two_starts_at_once_the_second_is_refused(host):
    """What the first call prepares is not taken for a pod that never ran: the second neither stops it nor removes its volumes."""
    d = Declared(host)
    with Web(host.path("server"), ["example.com"]) as web:
        for n, (first, second) in enumerate(((("run", "--detach"), ("run", "--detach")), (("run", "--detach"), ("prepare",)),
                                             (("run", "--detach"), ("run", "--detach", "--replace")))):
            one, two = Fetching(d, web, "one%d" % n), Fetching(d, web, "two%d" % n)
            p = one.start(*first, "--declared=web")
            q = two.start(*second, "--declared=web")
            uuid = one.go(p).expect(0).out.strip()
            host.wait_up("a", uuid)
            r = two.go(q)
            if "--replace" in second:
                equal(r.expect(0).out.strip(), host.status("web")["uuid"])
                host.acnspawn("rm", "--force", "web").expect(0)
                continue
            contains(r.expect(1).err, "Pod 'web' is being prepared by another process (%s)" % uuid)
            equal(web.asked(two.url), [])
            equal((host.status("web")["uuid"], host.state("web"), len(host.pods())), (uuid, "running", 1))
            host.acnspawn("rm", "--force", "web").expect(0)


@case
def a_prepared_pod_that_is_replaced_is_not_run_meanwhile(host):
    d = Declared(host)
    d.write("web", "[App a]\nImage=%s\n" % host.shell(STAY, name="example.com/a"))
    with Web(host.path("server"), ["example.com"]) as web:
        prepared = d.acnspawn("prepare", "--declared=web").expect(0).out.strip()
        one = Fetching(d, web, "one")
        p = one.start("run", "--detach", "--declared=web")
        contains(host.acnspawn("run", "--detach", prepared).expect(1).err, "is being started or removed by another process")
        contains(d.acnspawn("prepare", "--declared=web").expect(1).err, "Pod 'web' is being started or removed by another process")
        uuid = one.go(p).expect(0).out.strip()
        equal((host.status("web")["uuid"], host.state("web"), len(host.pods())), (uuid, "running", 1))
        host.acnspawn("stop", "web").expect(0)
        # What is not made leaves the prepared one as it was.
        host.acnspawn("rm", "web").expect(0)
        prepared = d.acnspawn("prepare", "--declared=web").expect(0).out.strip()
        two = Fetching(d, web, "two")
        p = two.start("run", "--detach", "--declared=web")
        p.terminate()
        two.go(p)
        equal((host.status("web")["uuid"], host.state("web"), len(host.pods())), (prepared, "prepared", 1))


@case
def a_start_that_is_killed_can_be_repeated(host):
    """At any of its steps, over a pod that was prepared: whatever it leaves has not run, and keeps no start from what is declared."""
    need_strace()
    d = Declared(host)
    d.write("web", "[App a]\nImage=%s\n" % host.shell("true", name="example.com/a"))
    words = ("prepare", "--declared=web")
    d.acnspawn(*words).expect(0)
    for number in spread(count_calls(host, *words, env=d.env), 8):
        d.acnspawn(*words).expect(0)
        kill_at(host, number, *words, env=d.env)
        d.acnspawn("run", "--declared=web").expect(0)
        equal(host.status("web")["state"], "exited")
        host.acnspawn("rm", "web").expect(0)
        host.acnspawn("gc").expect(0)
        equal(host.pods(), [], "pods after step %d" % number)


@case
def a_pod_that_stops_for_long_holds_no_lock_of_the_store(host):
    """While it is replaced, images are removed as ever, but not those of the new pod."""
    d = Declared(host)
    os.mkdir(host.path("signals"))
    os.chmod(host.path("signals"), 0o777)
    there = lambda name: os.path.exists(host.path("signals", name))
    slow = host.shell("trap ': >/signals/stops; until [ -e /signals/go ]; do sleep 0.05; done; exit 0' TERM; touch /signals/up; "
                      "while :; do sleep 0.05; done", name="example.com/slow")
    other = host.shell(STAY, name="example.com/other")
    for path in slow, other:
        host.acnspawn("fetch", path).expect(0)
    def declare(name):
        d.write("web", "[Pod]\nStopTimeout=60s\n[App a]\nImage=example.com/%s\nVolume=%s:/signals\n" % (name, host.path("signals")))
    for words, name in ((("--declared=web",), "other"), (("web",), "slow")):
        declare("slow")
        d.acnspawn("run", "--detach", "--replace", "--declared=web").expect(0)
        wait_for(lambda: there("up"), "the old pod")
        declare(name)
        p = host.start("run", "--detach", "--replace", *words, env=d.env)
        wait_for(lambda: there("stops"), "the stop of the old pod")
        host.acnspawn("fetch", host.image(name="example.com/unused")).expect(0)
        os.rename(os.path.join(d.dir, "web.pod"), os.path.join(d.dir, "web.away"))
        with within(10, "removing images"):
            removed = d.acnspawn("prune", "--force", "images").expect(0).out
        os.rename(os.path.join(d.dir, "web.away"), os.path.join(d.dir, "web.pod"))
        contains(removed, "example.com/unused")
        lacks(removed, "example.com/" + name)
        equal(p.poll(), None)
        open(host.path("signals", "go"), "w").close()
        uuid = host.finish(p).expect(0).out.strip()
        equal((host.status("web")["uuid"], host.state("web"), len(host.pods())), (uuid, "running", 1))
        host.acnspawn("rm", "--force", "web").expect(0)
        for name in os.listdir(host.path("signals")):
            os.unlink(host.path("signals", name))
        for path in slow, other:
            host.acnspawn("fetch", path).expect(0)


# --- The commands -----------------------------------------------------------------------------------------------------------------

@case
def verify_says_what_a_start_would_refuse(host):
    d = Declared(host)
    archive = host.shell("true", name="example.com/a")
    host.acnspawn("fetch", archive).expect(0)
    conf = os.path.join(d.config, "acnspawn.conf")

    def verify(text, *findings, defaults=""):
        file = d.write("web", text)
        with open(conf, "w") as f:
            f.write(defaults)
        out = d.acnspawn("pod", "verify", "web").expect(1).out
        found = re.findall(r"(?m)^%s:(?:(\d+):)? error: (.*)$" % re.escape(file), out)
        equal([line for line, message in found], [str(line) for line, part in findings], out)
        for (line, message), (_, part) in zip(found, findings):
            contains(message, part)
        true(d.acnspawn("prepare", "--dry-run", "--declared=web").rc != 0, "a start refuses that, too")

    manifest = host.path("manifest.json")
    verify("[Pod]\nPodManifest=%s\n" % manifest, (2, "Cannot open the pod manifest '%s'" % manifest))
    with open(manifest, "w") as f:
        f.write("{ no JSON\n")
    verify("[Pod]\nPodManifest=%s\n" % manifest, (2, "Cannot use '%s'" % manifest))
    verify("[App a]\nImage=%s\n[App b]\nImagePolicy=registry\nImage=%s\n" % (archive, archive), (4, "App b: '%s' is not on the network" % archive))
    verify("[App a]\nImage=%s\n" % archive, (2, "App a: '%s' is not on the network" % archive), defaults="[Pod]\nImagePolicy=registry\n")
    verify("[App a]\nImage=%s\n[App b]\nImage=%s\n" % (archive, archive), (2, "App a: '%s' is not on the network" % archive),
           (4, "App b: '%s' is not on the network" % archive), defaults="[Pod]\nImagePolicy=registry\n")
    verify("[Pod]\nPullPolicy=never\n[App a]\nImage=example.com/x:1\n[App b]\nImagePolicy=registry\nImage=%s\n" % archive,
           (4, "'example.com/x:1' is not in the store"), (6, "App b: '%s' is not on the network" % archive))
    verify("[Pod]\nPullPolicy=never\n[App a]\nImage=example.com/x:1\n", (4, "Image=: 'example.com/x:1' is not in the store, and PullPolicy=never"))
    verify("[App a]\nImage=docker://h.example.com/x\n", (2, "is not in the store, and PullPolicy=never"), defaults="[Image]\nPullPolicy=never\n")
    # What preparing finds is at the app or volume that it names.
    verify("[Pod]\nVolume=data,kind=host,source=/nonexistent\n[App a]\nImage=example.com/a\nMount=data:/d\n", (2, "data"))
    verify("[App b]\nImage=example.com/a\n[App a]\nImage=example.com/a\nMount=none:/d\n", (3, "none"))


@case
def verify(host):
    d = Declared(host)
    good = d.write("good", "[App a]\nImage=x\n")
    bad = d.write("bad", "[Pod]\nMemory=x\nFoo=1\n[App a]\n")
    r = d.acnspawn("pod", "verify", "good").expect(0)
    missing = good + ":2: warning: Image=: 'x' is not in the store. It is fetched when the pod is started, from a host of that name; an image of a registry is named docker://x."
    equal((r.out, r.err), ("%s\n%s: valid\n" % (missing, good), ""))
    r = d.acnspawn("pod", "verify", "bad", good).expect(1)
    equal(r.out.splitlines(), [
        bad + ":2: error: Invalid value 'x' for Memory=: \"x\" is not a quantity as in 123Mi, 1G, 250m or 0.3",
        bad + ":3: warning: unknown key 'Foo', which is ignored",
        bad + ":4: error: app 'a' has no image. Name one with Image=.", missing, good + ": valid"])
    rows = json.loads(d.acnspawn("pod", "verify", "--json", "bad").expect(1).out)
    equal([(x["line"], x["severity"]) for x in rows], [(2, "error"), (3, "warning"), (4, "error")])
    equal(rows[2]["hint"], "Name one with Image=.")
    units = d.write("units", "[App a]\nImage=x\n[Service]\nType=simple\nRestart=always\nExecStart=/x\n[Socket]\nAccept=yes\n[Update]\nUnit=x.service\n"
                    "[Install]\nWantedBy=multi-user\nAlias=x.service\nWantedBy=\nRequiredBy=a.target \"\nOther=1\nUpheldBy=b.target\n")
    equal(re.findall(r"(?m)^%s:(\d+): error: (\w+)=: (.*)$" % re.escape(units), d.acnspawn("pod", "verify", "units").expect(1).out), [
        ("4", "Type", "the unit of a pod depends on what acnspawn@.service has here"),
        ("6", "ExecStart", "is acnspawn's own; what runs in the pod belongs into [App NAME]"),
        ("8", "Accept", "the sockets are those of one pod, and cannot be given to another unit"),
        ("10", "Unit", "the timer is that of acnspawn-update@.service"),
        ("13", "Alias", "systemd refuses other names of an instance such as acnspawn@NAME.service, unless they are instances themselves"),
        ("15", "RequiredBy", "a quote is not closed"),
        ("16", "Other", "a declared pod has WantedBy=, RequiredBy= and UpheldBy= in [Install]")])
    early = d.write("early", "[App a]\nImage=x\n[Install]\nWantedBy=sockets.target\nWantedBy=multi-user.target basic.target\n")
    equal(re.findall(r"(?m)^%s:(\d+): error: (.*)$" % re.escape(early), d.acnspawn("pod", "verify", "early").expect(1).out), [
        ("4", "WantedBy=: the pod has no socket for sockets.target, before which no service starts. Add a section [Socket], or name multi-user.target."),
        ("5", "WantedBy=: no service starts before basic.target. Name multi-user.target.")])
    d.write("early", "[App a]\nImage=x\n[Socket]\nListenStream=80\n[Install]\nWantedBy=sockets.target\n")
    lacks(d.acnspawn("pod", "verify", "early").out, "WantedBy")
    d.write("early", "[App a]\nImage=x\n[Unit]\nDefaultDependencies=no\n[Install]\nWantedBy=sockets.target sysinit.target\n")
    lacks(d.acnspawn("pod", "verify", "early").out, "WantedBy")
    net = d.write("net", "[App a]\nImage=x\n[Pod]\nNetwork=nonet:IP=192.0.2.1 host2\n")
    lines = [l.split(": ", 2)[1:] for l in d.acnspawn("pod", "verify", "net").expect(1).out.splitlines() if l.startswith(net + ":4: ")]
    equal([(severity, text.split(". ")[0].rstrip(".")) for severity, text in lines],
          [("error", "Network=: there is no network 'nonet'"), ("error", "Network=: there is no network 'host2'")])
    # Ports for which systemd gets no socket: named differently in Port=, in a range, not exposed, and a unit without
    # addresses.
    sockets = d.write("sockets", "[Pod]\nPort=8080:80 9000-9001:90-91 web:8443\n[App a]\nImage=example.com/a\nSocketActivated=http 80\nSocketActivated=90 91/udp web\n")
    equal(re.findall(r"(?m)^%s:(\d+): (\w+): SocketActivated=: the host's systemd gets no socket for '(.*?)'" % re.escape(sockets),
                     d.acnspawn("pod", "verify", "sockets").expect(0).out), [("5", "warning", "http"), ("6", "warning", "90"), ("6", "warning", "91/udp")])
    d.write("sockets", "[App a]\nImage=example.com/a\nSocketActivated=80\n[Socket]\nBacklog=5\n")
    # A drop-in of the unit may have an address, so this is no mistake.
    contains(d.acnspawn("pod", "verify", "sockets").expect(0).out, sockets + ":5: warning: [Socket]: no address to listen on")
    d.write("sockets", "[App a]\nImage=example.com/a\nSocketActivated=80\n[Socket]\nListenStream=80\n")
    lacks(d.acnspawn("pod", "verify", "sockets").expect(0).out, "socket for")
    contains(d.acnspawn("pod", "verify", "none").expect(1).err, "No file declares a pod 'none'")
    contains(d.acnspawn("pod", "verify", "/none/x.pod").expect(1).err, "Cannot read '/none/x.pod'")
    contains(d.acnspawn("pod", "verify", "/etc/passwd").expect(1).err, "'/etc/passwd' is not named as a file that declares a pod")
    contains(d.acnspawn("pod", "verify").expect(2).err, "needs a declared pod")


@case
def list_and_cat(host):
    d = Declared(host)
    equal(d.acnspawn("pod", "list").expect(0).err, "No pods are declared.\n")
    web = d.write("web", "[App a]\nImage=%s" % host.image(name="example.com/a"))
    d.write("db", "# empty\n")
    os.makedirs(os.path.join(d.dir, "web.pod.d"))
    drop_in = os.path.join(d.dir, "web.pod.d", "x.conf")
    with open(drop_in, "w") as f:
        f.write("[Pod]\nHostname=x\n")
    d.acnspawn("run", "--declared=web").expect(0)
    rows = json.loads(d.acnspawn("pod", "list", "--json").expect(0).out)
    equal([(x["name"], x["state"], x["file"], x["dropIns"]) for x in rows],
          [("db", None, os.path.join(d.dir, "db.pod"), []), ("web", "exited", web, [drop_in])])
    equal(rows[1]["uuid"], host.status("web")["uuid"])
    equal(d.acnspawn("pod", "cat", "web").expect(0).out, "# %s\n%s\n\n# %s\n[Pod]\nHostname=x\n" % (web, d.read("web"), drop_in))
    contains(d.acnspawn("pod", "cat", "none").expect(1).err, "No file declares a pod 'none'")
    d.write("Web", "[App a]\nImage=x\n")
    r = d.acnspawn("pod", "list", "--json").expect(0)
    equal(len(json.loads(r.out)), 2)
    contains(r.err, "'Web.pod' declares no pod: its name is that of the pod, in lower case letters")


@case
def create_writes_a_file(host):
    d = Declared(host)
    image = host.image(name="example.com/a")
    r = d.acnspawn("pod", "create", "web", "--", "-d", "--net=host", image, "--memory=64Mi", "--", "a b", "%").expect(0)
    path = os.path.join(d.dir, "web.pod")
    equal(r.out, path + "\n")
    contains(d.read("web"), "Net=host\n")
    contains(d.read("web"), "Image=%s\nMemory=64Mi\nArguments=\"a b\" %%%%\n" % image)
    equal(os.stat(path).st_mode & 0o777, 0o644)
    d.acnspawn("pod", "verify", "web").expect(0)
    before = d.read("web")
    r = d.acnspawn("pod", "create", "web", "--", image).expect(1)
    contains(r.err, "'%s': it already exists" % path)
    equal(d.read("web"), before)
    d.acnspawn("pod", "create", "--force", "web", "--", image, "--name=b", "--set-credential=key:geheim").expect(0)
    contains(d.read("web"), "[App b]\nImage=%s\nSetCredential=key:geheim\n" % image)
    equal(os.stat(path).st_mode & 0o777, 0o600, "mode of a file with a secret")
    for words in ("--environment=PASSWORD", image), (image, "--environment=PASSWORD=x"):
        host.acnspawn("pod", "create", "--force", "web", "--", *words, env=dict(d.env, PASSWORD="geheim")).expect(0)
        equal(os.stat(path).st_mode & 0o777, 0o600, "mode of a file with an environment")
    host.prepare("--name=made", "--environment=PASSWORD=x", image)
    d.acnspawn("pod", "create", "--force", "web", "--from=made").expect(0)
    equal(os.stat(path).st_mode & 0o777, 0o600, "mode of the file of a pod with an environment")
    contains(d.acnspawn("pod", "create", "db", "--output=-", "--", image).expect(0).out, "Image=" + image)
    contains(d.acnspawn("pod", "create", "db", "--output=-", "--", "--executor").expect(0).out, "\n[Pod]\nExitPolicy=tasks\n")
    equal(sorted(os.listdir(d.dir)), ["web.pod"])
    for words, message in ((("db",), "is made either of an existing one"), (("db", "--from=x", "--", "y"), "is made either of an existing one"),
                           (("A", "--", image), "'A' is not a valid name"), (("db", "x", "--", image), "Unexpected argument 'x'"),
                           (("db", "--", "--memory=x", image), "Invalid value 'x' for --memory"), (("db", "--", "-d"), "at least one image"),
                           (("db", "--", image, "---", image), "Two apps have the name"), (("db", "--", "-i", image), "has no terminal"),
                           (("db", "--", "--environment-file=-", image), "cannot read standard input"),
                           (("db", "--", "-"), "cannot read an image from standard input"), ((), "needs the name of the pod")):
        r = d.acnspawn("pod", "create", *words, input=b"")
        true(r.rc in (1, 2), "status of %r" % (words,))
        contains(r.err, message)
    equal(sorted(os.listdir(d.dir)), ["web.pod"])


@case
def what_depends_on_the_place_is_fixed(host):
    """Relative paths and variables of the environment are written as they are now."""
    d = Declared(host)
    image = host.image(name="example.com/a")
    with open(host.path("key"), "w") as f:
        f.write("x")
    env = dict(d.env, FROM_HERE="a b")
    out = host.acnspawn("pod", "create", "web", "--output=-", "--", "--credential=key:key", "--environment=FROM_HERE",
                        "--volume=./a:/a", "--mount=./b:/b", os.path.basename(image), "--volume=./c:/c", "--mount=./d:/d",
                        env=env, cwd=host.tmp).expect(0).out
    contains(out, "Credential=key:%s\n" % host.path("key"))
    contains(out, 'Environment="FROM_HERE=a b"\n')
    for line in "Volume=%s/./a:/a\n", "Mount=%s/./b:/b\n", "Volume=%s/./c:/c\n", "Mount=%s/./d:/d\n":
        contains(out, line % host.tmp)
    contains(out, "Image=%s\n" % image)


# --- Verifying images ----------------------------------------------------------------------------------------------------------

@case
def images_are_verified_as_far_as_they_are_there(host):
    d = Declared(host)
    path = d.write("web", "[App a]\nImage=example.com/a\n")
    verify = lambda rc=0: d.acnspawn("pod", "verify", "web").expect(rc).out
    equal(verify(), "%s:2: warning: Image=: 'example.com/a' is not in the store. It is fetched when the pod is started.\n%s: valid\n" % (path, path))
    host.acnspawn("fetch", host.shell(STAY, name="example.com/a")).expect(0)
    equal(verify(), path + ": valid\n")
    # What only shows when a pod is made of it.
    for text, message in (("[Pod]\nNet=missing\n", "missing"), ("[Pod]\nPort=http:80\n", "http")):
        d.write("web", "[App a]\nImage=example.com/a\n" + text)
        r = verify(1)
        contains(r, path + ": error: ")
        contains(r, message)
    equal(os.listdir(os.path.join(host.dir, "pods", "preparing")) if os.path.isdir(os.path.join(host.dir, "pods", "preparing")) else [], [])
    d.write("web", "[App a]\nImage=example.com/a\n[App f]\nImage=/nowhere/x.aci\n")
    contains(verify(1), "%s:4: error: Image=: cannot read '/nowhere/x.aci': No such file or directory\n" % path)
    # While it runs, too; a file is not imported.
    image = host.shell(STAY, name="example.com/f")
    d.write("web", "[Pod]\nNet=host\n[App a]\nImage=example.com/a\n")
    d.acnspawn("run", "--detach", "--declared=web").expect(0)
    equal(verify(), path + ": valid\n")
    n = len(os.listdir(os.path.join(host.dir, "images")))
    d.write("web", "[App a]\nImage=example.com/a\n[App f]\nImage=%s\n" % image)
    equal((verify(), len(os.listdir(os.path.join(host.dir, "images")))), (path + ": valid\n", n))
    equal(json.loads(d.acnspawn("pod", "verify", "--json", "web").expect(0).out), [])
    host.acnspawn("stop", "web").expect(0)


# --- Round trips ------------------------------------------------------------------------------------------------------------------

# A value for each option of a pod and of an app; None: it has none. A new option needs a row here.
POD = {
    "pull-policy": "new", "insecure-options": "signature", "min-speed": "100", "verify": None, "net": "host", "network": "host", "hostname": "www.example.com",
    "dns": "192.0.2.1", "dns-search": "example.com", "dns-option": "ndots:2", "hosts-entry": "192.0.2.2=db", "environment": "POD=1 2%", "env": "POD2=3", "env-file": "{env}",
    "environment-file": "{env}", "credential": "key:{secret}", "load-credential": "key2:{secret}", "set-credential": "key3:a b\"%",
    "annotation": "example.com/x=y z", "user-annotation": "u=v w", "user-label": "l=m 'n'", "isolator": 'resource/memory={"limit":"200Mi"}',
    "memory": "210Mi", "cpu": "2", "tasks-max": "500", "block-bandwidth": "100M", "block-iops": "1000", "sysctl": "kernel.msgmax=8000",
    "exit-policy": "never", "metadata": "reduced", "caps-retain": "CAP_CHOWN,CAP_KILL", "stop-timeout": "7s", "no-userns": None, "uuid-file": "{uuid}",
    "volume": "store,kind=empty,mode=0700,uid=5", "mount": "store:/pod-mount", "stdin": None, "strict": None, "ready-timeout": "1min",
    "register": "no", "rm": None, "image-policy": "local",
}
APP = {
    "exec": "/bin/sh", "entrypoint": "/bin/cat", "workdir": "/usr", "env": "APP2=4", "env-file": "{env}", "tty": None, "user": "1000:50", "group": "51", "supplementary-gids": "7,8", "working-directory": "/tmp", "environment": "APP=x\ny",
    "environment-file": "{env}", "credential": "own:{secret}", "load-credential": "own2:{secret}", "set-credential": "own3:z", "mount": "store:/m:ro",
    "volume": "{data}:/data:ro", "read-only": None, "readonly-rootfs": None, "memory": "64Mi", "cpu": "500m", "cpu-shares": "512", "tasks-max": "99",
    "block-bandwidth": "50M", "block-iops": "500", "oom-score-adj": "100", "sysctl": "kernel.msgmnb=9000",
    "seccomp": "mode=remove,errno=EPERM,reboot", "seccomp-profile": "{profile}", "no-new-privileges": None, "apparmor-profile": "unconfined", "selinux-context": "a:b:c:d",
    "caps-retain": "CAP_CHOWN", "caps-remove": "CAP_KILL", "caps-ambient": "CAP_CHOWN", "group-policy": "strict", "device": "all,/dev/null:/dev/a b", "device-policy": "closed", "sys": "read-only", "landlock": "optional",
    "masked-paths": "/proc/kcore,/etc/a b", "read-only-paths": "none", "grant": "CAP_CHOWN", "stdin": None, "input": "pipe", "restart": "on-failure",
    "restart-delay": "1s", "restart-delay-max": "2s", "restart-limit": "2", "after": "other", "notify": "false", "start-timeout": "1min",
    "health-cmd": 'test "a" = b', "health-interval": "10s", "health-timeout": "5s", "health-retries": "2", "health-start-period": "3s",
    "health-start-interval": "1s", "health-on-failure": "restart", "no-healthcheck": None, "stop-signal": "SIGINT", "stop-timeout": "9s",
    "log-size": "1Mi", "log-rate": "1Ki", "log-file": "{log},max-size=1Mi", "log": "both", "oom-group": "true", "image-policy": "local", "pid": "shared", "fate-group": "one", "transient": "true",
    "control": "true", "control-images": "example.com/*", "socket-activated": "8443,53/udp", "max-runtime": "1h", "share-cgroups": "true",
    "isolator": "os/linux/no-new-privileges=true", "annotation": "example.com/a=b c", "user-annotation": "u=v", "user-label": "l=m",
}
# Those of the command line alone, and those whose effect is tested elsewhere or depends on more than they say.
NOT_DECLARED = ["name", "replace", "interactive", "detach", "detach-keys", "images", "apps", "declared", "service", "raw", "keep-unit", "executor"]
APART = {"pod-manifest", "stage1", "passphrase-file", "port", "publish", "exit-idle-time"}
# These may not be enforced here, or contradict others: only what is written and read is compared, by a pod of their own.
ALONE = {"strict", "verify", "apparmor-profile", "selinux-context", "caps-retain", "caps-remove", "net", "network", "stdin", "tty", "input", "no-healthcheck", "exit-policy"}


def options_of_run():
    rows = [line.split("\t") for line in subprocess.run([os.environ["ACNSPAWN"], "--dump-options"], capture_output=True, text=True).stdout.splitlines()]
    return {r[2][2:] for r in rows if r[0] == "option" and r[1] == "run" and r[2] != "-"}


@case
def each_option_has_a_sample(host):
    known = set(POD) | set(APP) | set(NOT_DECLARED) | APART
    equal((sorted(options_of_run() - known), sorted(known - options_of_run())), ([], []))


def same(got, expected, what):
    for a, b in zip(got, expected):
        for key in sorted(set(a) | set(b)):
            equal(a.get(key), b.get(key), "%s, from %s," % (key, what))


def compare(d, pod_words, app_words, samples):
    """The same pod by prepare, by a file of the command line, and by a file of the pod."""
    host = d.host
    words = ["--name=web"] + pod_words + [host.one, "--name=app"] + app_words + ["--", "", "a b", "$x%i", "---", host.two, "--name=other"]
    run_only = ("--ready-timeout=", "--register=", "--rm")
    first = host.acnspawn("prepare", *(w for w in words if not w.startswith(run_only)), input=b"").expect(0).out.strip()
    expected = definition(host, first)
    d.acnspawn("pod", "create", "--force", "copy", "--", *words).expect(0)
    r = d.acnspawn("pod", "verify", "copy").expect(0)
    # The sample of socket-activated names ports that no sample exposes.
    lacks("".join(l for l in r.out.splitlines() if "SocketActivated=: the host's systemd gets no socket for" not in l), "warning")
    second = d.acnspawn("prepare", "--declared=copy").expect(0).out.strip()
    same(definition(host, second), expected, "the file of the command line with %s" % samples)
    # Secrets are not recorded.
    if not any(w.startswith("--set-credential") for w in words):
        d.acnspawn("pod", "create", "--force", "again", "--from=web").expect(0)
        third = d.acnspawn("prepare", "--declared=again").expect(0).out.strip()
        same(definition(host, third), expected, "the file of the pod with %s" % samples)
    else:
        contains(d.acnspawn("pod", "create", "--force", "again", "--from=web").expect(1).err, "secrets are not recorded")
    host.acnspawn("rm", *(["web", "copy"] + (["again"] if len(host.pods()) == 3 else []))).expect(0)


@case
def every_option_survives_the_file(host):
    d = Declared(host)
    host.one = host.image(name="example.com/one")
    host.two = host.image(name="example.com/two")
    paths = {name: host.path(name) for name in ("env", "secret", "data", "log", "uuid", "profile")}
    os.mkdir(paths["data"])
    for name, content in (("env", "FROM_FILE=1 2\n"), ("secret", "geheim"), ("profile", '{"defaultAction": "SCMP_ACT_ALLOW",\n "syscalls": []}\n')):
        with open(paths[name], "w") as f:
            f.write(content)

    def word(option, value):
        return "--" + option if value is None else "--%s=%s" % (option, value.format(**paths) if "{" in value and "limit" not in value else value)

    volume = word("volume", POD["volume"])
    together = [[word(o, v) for o, v in table.items() if o not in ALONE and o != "set-credential"] for table in (POD, APP)]
    compare(d, together[0], [w for w in together[1] if not w.startswith("--readonly")], "all")
    for table, is_pod in ((POD, True), (APP, False)):
        for option in sorted(ALONE | {"set-credential"}):
            if option not in table:
                continue
            pod, app = ([word(option, table[option])], []) if is_pod else ([], [word(option, table[option])])
            if option == "caps-retain" and is_pod:
                pod.append("--exit-policy=never")
            if option == "stdin" and is_pod:
                continue # for the only app, below
            if option == "strict":
                pod.append("--no-userns")
            compare(d, [volume] + pod, app, option)
    out = d.acnspawn("pod", "create", "--output=-", "x", "--", "--stdin", "--stage1=/usr", "--passphrase-file=" + paths["secret"],
                     "--port=8080:80", "--publish=81:81", "-u", "5", host.one, "--exec=/bin/x").expect(0).out
    contains(out, "\nStdin=yes\nUser=5\nExec=/bin/x\n")
    for line in "Publish=81:81", "Stage1=/usr", "PassphraseFile=" + paths["secret"], "Port=8080:80":
        contains(out.splitlines(), line)


@case
def volumes_mounts_and_ports_survive(host):
    d = Declared(host)
    host.one = host.image(name="example.com/one", app={"ports": [{"name": "http", "protocol": "tcp", "port": 80}]})
    host.two = host.image(name="example.com/two")
    data = host.path("da ta")
    os.mkdir(data)
    comma = host.path("a,b\\c")
    os.mkdir(comma)
    pod = ["--volume=e,kind=empty,mode=0750,uid=3,gid=4", "--volume=t,kind=tmpfs,size=1Mi,mode=0700", "--volume=n,kind=named,source=other",
           "--volume=o,kind=named,mode=0711", "--volume=h,kind=host,source=%s,readOnly=true,recursive=false,symlinks=true,dev=true,suid=false" % data,
           "--volume=c,kind=host,source=%s" % comma.replace("\\", "\\\\").replace(",", "\\,"), "--volume=%s:/all:ro,recursive=no,suid,propagation=private" % data,
           "--volume=named:/named", "--mount=e:/e", "--net=host"]
    app = ["--volume=%s:/one" % data, "--volume=named2:/named2:ro", "--mount=volume=t,target=/t,readOnly=true", "--mount=volume=c,target=/x\\,y"]
    compare(d, pod, app, "volumes")
    pod = ["--port=http:8080", "--port=http:127.0.0.1:8081", "--port=[::1]:8082:81", "--port=9000-9002:90-92/udp", "--port=192.0.2.1:8083:83"]
    out = d.acnspawn("pod", "create", "--output=-", "x", "--", *pod, host.one).expect(0).out
    equal([line for line in out.splitlines() if line.startswith("Port=")], [w.replace("--port=", "Port=") for w in pod])


@case
def the_pod_as_it_is_by_now(host):
    """--from= of a pod to which an app was added; and one of a pod manifest."""
    d = Declared(host)
    host.acnspawn("run", "--detach", "--name=web", "--exit-policy=never", host.shell(STAY, name="example.com/a"), "--name=a").expect(0)
    host.acnspawn("add-app", "web", host.shell(STAY, name="example.com/b"), "--name=b", "--user=5").expect(0)
    out = d.acnspawn("pod", "create", "copy", "--from=web", "--output=-").expect(0).out
    contains(out, "ExitPolicy=never\n")
    contains(out, "[App b]\n")
    contains(out, "User=5\n")
    host.acnspawn("stop", "web").expect(0)
    with open(host.path("m"), "w") as f:
        f.write(host.acnspawn("cat-manifest", "web").expect(0).out)
    host.prepare("--name=m", "--pod-manifest=" + host.path("m"))
    r = d.acnspawn("pod", "create", "copy", "--from=m").expect(1)
    contains(r.err, "Pod m was made of a pod manifest")
    contains(r.err, "PodManifest=FILE")


if __name__ == "__main__":
    main()
