#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Our Varlink library, the interface of running pods, and systemd's own client, varlinkctl, which Debian has from 13 on
(run.py --release=13)."""

import errno

from harness import *

SERVE = os.path.join(os.environ.get("ACNSPAWN_TEST_HELPERS", ""), "varlink-serve")


def contains_error(text, error):
    """As varlinkctl prints it: newer versions have words of their own for the errors of every service."""
    words = {"InvalidParameter": os.strerror(errno.EINVAL), "MethodNotFound": os.strerror(errno.ENXIO),
             "MethodNotImplemented": os.strerror(errno.ENOTTY), "ExpectedMore": "without 'more' flag"}
    true(error in text or words.get(error, error) in text, "%s: %r" % (error, text))


class Service:
    def __init__(self, host):
        if not shutil.which("varlinkctl"):
            raise Skip("there is no varlinkctl")
        self.path = host.path("varlink")
        self.process = subprocess.Popen([SERVE, self.path])
        wait_for(lambda: os.path.exists(self.path), "the service's socket")

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.process.kill()
        self.process.wait()

    def ctl(self, verb, *args):
        words = [a for a in args if a.startswith("--")]
        return subprocess.run(["varlinkctl", "--no-pager", *words, verb, "unix:" + self.path, *[a for a in args if a not in words]],
                              capture_output=True, text=True, timeout=60)

    def call(self, method, parameters, *options):
        r = self.ctl("call", "org.acnspawn.Test." + method, json.dumps(parameters), "--json=short", *options)
        return r, [json.loads(line.strip("\x1e")) for line in r.stdout.splitlines() if line.strip("\x1e")]


@case
def information(host):
    with Service(host) as s:
        r = s.ctl("info")
        equal(r.returncode, 0, r.stderr)
        for word in ("Tests", "org.varlink.service", "org.acnspawn.Test"):
            contains(r.stdout, word)
        equal(sorted(s.ctl("list-interfaces").stdout.split()), ["org.acnspawn.Test", "org.varlink.service"])


@case
def descriptions(host):
    """varlinkctl parses them, and prints the result."""
    with Service(host) as s:
        for interface, words in (("org.varlink.service", ("method GetInfo()", "error MethodNotFound")),
                                 ("org.acnspawn.Test", ("# A place.", "type Color", "method Count", "at: ?[]Point", "error Refused"))):
            r = s.ctl("introspect", interface)
            equal(r.returncode, 0, r.stderr)
            equal(r.stderr, "")
            for word in words:
                contains(r.stdout, word)


@case
def calls(host):
    everything = {"word": "w\u00f6rd \U0001f600 \"\\/\n", "n": -5, "at": [{"x": 1, "y": 2}, {"x": 2}], "color": "blue",
                  "names": [{"id": 1, "kind": "large"}], "rest": {"any": [None, {}]}}
    with Service(host) as s:
        r, replies = s.call("Echo", everything)
        equal(r.returncode, 0, r.stderr)
        equal(replies, [everything])
        big = {"word": "x" * 100000}
        equal(s.call("Echo", big)[1], [big])
        for method, parameters, error in (("Echo", {}, "InvalidParameter"), ("Echo", {"word": "w", "color": "pink"}, "InvalidParameter"),
                                          ("Nothing", {}, "MethodNotFound"), ("Missing", {}, "MethodNotImplemented"),
                                          ("Count", {"to": 3}, "ExpectedMore"), ("Refuse", {"why": "no"}, "org.acnspawn.Test.Refused")):
            r, _ = s.call(method, parameters)
            if r.returncode == 0:
                fail("%s: no error: %s" % (method, r.stdout))
            contains_error(r.stderr, error)
        equal(s.call("Echo", {"word": "w"}, "--oneway")[0].returncode, 0)


@case
def several_replies(host):
    with Service(host) as s:
        r, replies = s.call("Count", {"to": 100}, "--more")
        equal(r.returncode, 0, r.stderr)
        equal([x["n"] for x in replies], list(range(1, 101)))
        equal(s.call("Echo", {"word": "w"}, "--more")[1], [{"word": "w"}])


# --- The interface of a running pod ---------------------------------------------------------------------------------------

POD = "org.acnspawn.Pod"


class RunningPod:
    def __init__(self, host):
        if not shutil.which("varlinkctl"):
            raise Skip("there is no varlinkctl")
        script = "echo up; touch /out/up; while read x; do echo got $x; done; exit 4"
        self.host = host
        self.uuid = host.detach("--name=p", "--exit-policy=never", host.shell(script, name="example.com/a"), "--stdin", "---",
                                host.shell("sleep 1000 & wait", name="example.com/b"))
        host.wait_up("a")
        # The address is a path of at most 107 bytes.
        self.directory = host.pod_dir(self.uuid)

    def ctl(self, verb, *args, **more):
        words = [a for a in args if a.startswith("--")]
        return subprocess.run(["varlinkctl", "--no-pager", *words, verb, "./interface", *[a for a in args if a not in words]], cwd=self.directory,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, **more)

    def call(self, method, *options, **parameters):
        r = self.ctl("call", "%s.%s" % (POD, method), json.dumps(parameters), "--json=short", *options)
        return r, [json.loads(line.strip("\x1e")) for line in r.stdout.splitlines() if line.strip("\x1e")]

    def result(self, method, **parameters):
        r, replies = self.call(method, **parameters)
        equal(r.returncode, 0, "%s: %s" % (method, r.stderr))
        return replies[0]


@case
def a_pod_tells_what_it_is(host):
    p = RunningPod(host)
    r = p.ctl("info")
    equal(r.returncode, 0, r.stderr)
    for word in "acnspawn", "org.varlink.service", POD:
        contains(r.stdout, word)
    r = p.ctl("introspect", POD)
    equal((r.returncode, r.stderr), (0, ""))
    for word in "method Describe()", "method Attach(", "method Logs(", "method UpdateApp(", "error WrongState", "type App(":
        contains(r.stdout, word)
    host.acnspawn("stop", "--force", "p").expect(0)


@case
def a_pod_is_described_and_controlled(host):
    p = RunningPod(host)
    d = p.result("Describe")
    equal((d["uuid"], d["name"], d["state"]), (p.uuid, "p", "running"))
    equal([(a["name"], a["state"]) for a in d["apps"]], [("a", "running"), ("b", "running")])
    stats = p.result("Stats", app="a")
    true(stats["apps"][0]["usage"]["memory"] > 0, "memory: %r" % stats)
    p.result("Pause")
    equal(host.state("p"), "paused")
    r, _ = p.call("StopApp", app="a")
    true(r.returncode != 0 and POD + ".PodPaused" in r.stderr, "an error: %r" % r.stderr)
    p.result("Resume")
    for method, parameters, error in (("SignalApp", {"app": "c", "signal": 15}, POD + ".NoSuchApp"), ("StartApp", {"app": "a"}, POD + ".WrongState"),
                                      ("StopApp", {}, "InvalidParameter"), ("Monitor", {}, "ExpectedMore"), ("Attach", {"app": "a"}, "ExpectedMore"),
                                      ("Logs", {"stdout": 0}, "InvalidParameter")):
        r, _ = p.call(method, **parameters)
        true(r.returncode != 0, "%s: no error" % method)
        contains_error(r.stderr, error)
    p.result("StopApp", app="b", timeoutUSec=20000000)
    p.result("StartApp", app="b")
    # Without streams; more than one reply.
    r, replies = p.call("Exec", "--more", app="a", command=["sh", "-c", "exit 7"])
    equal(r.returncode, 0, r.stderr)
    equal(replies[-1]["exitStatus"], 7)
    p.result("Stop", timeoutUSec=20000000)
    wait_for(lambda: host.state("p") == "exited", "end of the pod")


@case
def a_pod_is_monitored(host):
    p = RunningPod(host)
    since = p.result("Describe")["sequence"]
    watch = subprocess.Popen(["varlinkctl", "--json=short", "--more", "call", "./interface", POD + ".Monitor", json.dumps({"since": since})],
                             cwd=p.directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    host.children.append(watch)
    p.result("SignalApp", app="b", signal=9)
    wait_for(lambda: host.app_status("p", "b")["signal"] == 9, "end of the app")
    host.acnspawn("stop", "p").expect(0)
    out, err = watch.communicate(timeout=60)
    equal(watch.returncode, 0, err)
    events = [json.loads(line.strip("\x1e")) for line in out.splitlines() if line.strip("\x1e")]
    equal([e["sequence"] for e in events], list(range(since + 1, since + 1 + len(events))))
    true(any(e.get("app") and (e["app"]["name"], e["app"].get("signal")) == ("b", 9) for e in events), "the end of app b: %r" % events)
    equal((events[-1]["state"], "app" in events[-1]), ("exited", False))


@case
def streams_are_passed(host):
    """Descriptors go along from systemd 258 on, where its help tells so."""
    p = RunningPod(host)
    if "--push-fd" not in subprocess.run(["varlinkctl", "--help"], capture_output=True, text=True).stdout:
        host.acnspawn("stop", "--force", "p").expect(0)
        raise Skip("varlinkctl passes no descriptors")
    r, w = os.pipe()
    done = p.ctl("call", POD + ".Logs", json.dumps({"app": "a", "stdout": 0}), "--push-fd=%d" % w, pass_fds=[w])
    os.close(w)
    with os.fdopen(r) as f:
        equal((done.returncode, f.read()), (0, "up\n"), done.stderr)
    (r, w), (r2, w2) = os.pipe(), os.pipe()
    client = subprocess.Popen(["varlinkctl", "--json=short", "--more", "--push-fd=%d" % r, "--push-fd=%d" % w2, "call", "./interface", POD + ".Attach",
                               json.dumps({"app": "a", "stdin": 0, "stdout": 1})],
                              cwd=p.directory, pass_fds=[r, w2], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    host.children.append(client)
    os.close(r)
    os.close(w2)
    id = json.loads(client.stdout.readline().strip("\x1e"))["id"]
    os.write(w, b"words\n")
    with os.fdopen(r2) as f:
        equal(f.readline(), "got words\n")
    p.result("CloseStdin", id=id)
    os.close(w)
    out, err = client.communicate(timeout=60)
    equal((client.returncode, json.loads(out.strip().strip("\x1e"))), (0, {"id": id, "exitCode": 4}), err)
    host.acnspawn("stop", "--force", "p").expect(0)


if __name__ == "__main__":
    main()
