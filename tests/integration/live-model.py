#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Every call of a running pod's interface in every state of an app, and many clients at once, against a model.

The events of the pod are one sequence of states of its apps. A client notes the number of the last event before a call and
after its answer: the states that the app had in between are the only ones that may explain the answer.
"""

import glob
import random
import threading

from pod_interface import *

STAY = "trap 'exit 0' TERM; while :; do sleep 0.05; done"
STATES = ("absent", "created", "running", "exited")

# What may follow a state, as events show it. An app that ends at once goes through running unseen, if it was not executed.
FOLLOWS = {
    "absent": {"created"},
    "created": {"created", "starting", "running", "exited", "removing"},
    "starting": {"starting", "running", "stopping", "exited"},
    "running": {"running", "starting", "stopping", "exited"},
    "stopping": {"stopping", "starting", "running", "exited"},
    "exited": {"exited", "starting", "running", "removing"},
    "removing": {"removing", "absent"},
}


class Pod:
    """A pod that stays without apps, and the image of its apps."""

    def __init__(self, host, script=STAY):
        self.host = host
        image = host.shell(script, name="example.com/job")
        first = host.acnspawn("run", "--detach", "--exit-policy=never", "--name=p", image, "--name=first").expect(0)
        self.uuid = first.out.strip()
        definition = json.loads(read_text(host.pod_dir(self.uuid) + "/definition"))
        self.image_id = definition["images"][0]["id"]
        c = self.connect()
        c.call("StopApp", app="first")
        equal(c.call("RemoveApp", app="first"), {})

    def connect(self):
        return Connection(self.host, self.uuid)

    def adding(self, name):
        app = {"image": "example.com/job", "name": name}
        return {"definition": {"apps": [app]}, "imageID": self.image_id}

    def add(self, c, name):
        return c.call("AddApp", **self.adding(name))

    def end(self):
        self.host.acnspawn("stop", "p").expect(0)


def describe(c):
    """The number of the last event, and the states of all apps."""
    d = c.call("Describe")
    return d["sequence"], {a["name"]: a["state"] for a in d["apps"]}


def settled(c, app):
    """The state of an app when it is none that passes by itself."""
    found = []

    def look():
        found[:] = [describe(c)[1].get(app, "absent")]
        return found[0] in STATES
    wait_for(look, "a state that stays")
    return found[0]


# --- Each call in each state -------------------------------------------------------------------------------------------

REFUSED = "refused"
WRONG = "WrongState"
NONE = "NoSuchApp"
NO_FILE = "LogsNotReopened"
OK = "ok"

# call: {state: (answer, state after)}
TABLE = {
    "AddApp": {"absent": (OK, "created"), "created": (REFUSED, "created"), "running": (REFUSED, "running"),
               "exited": (REFUSED, "exited")},
    "StartApp": {"absent": (NONE, "absent"), "created": (OK, "running"), "running": (WRONG, "running"),
                 "exited": (OK, "running")},
    "RestartApp": {"absent": (NONE, "absent"), "created": (OK, "running"), "running": (OK, "running"),
                   "exited": (OK, "running")},
    "StopApp": {"absent": (OK, "absent"), "created": (OK, "created"), "running": (OK, "exited"),
                "exited": (OK, "exited")},
    "RemoveApp": {"absent": (OK, "absent"), "created": (OK, "absent"), "running": (WRONG, "running"),
                  "exited": (OK, "absent")},
    "RemoveApp stop": {"absent": (OK, "absent"), "created": (OK, "absent"), "running": (OK, "absent"), "exited": (OK, "absent")},
    "SignalApp": {"absent": (NONE, "absent"), "created": (WRONG, "created"), "running": (OK, "running"),
                  "exited": (WRONG, "exited")},
    "Exec": {"absent": (NONE, "absent"), "created": (WRONG, "created"), "running": (OK, "running"),
             "exited": (WRONG, "exited")},
    "ReopenLogs": {"absent": (NONE, "absent"), "created": (NO_FILE, "created"), "running": (NO_FILE, "running"),
                   "exited": (NO_FILE, "exited")},
    "Stats": {"absent": (NONE, "absent"), "created": (OK, "created"), "running": (OK, "running"),
              "exited": (OK, "exited")},
    "UpdateApp": {"absent": (NONE, "absent")},
}


def parameters_of(pod, method, app):
    if method == "AddApp":
        return pod.adding(app)
    more = {"SignalApp": {"signal": 28}, "Exec": {"command": ["true"]}, "StopApp": {"timeoutUSec": 5000000},
            "RemoveApp stop": {"stop": True, "timeoutUSec": 5000000}}
    return dict(more.get(method, {}), app=app)


def answer_of(reply):
    if isinstance(reply, dict):
        return OK
    return REFUSED if reply[0] == "AppRefused" else reply[0]


def bring(pod, c, app, state):
    """An app that is in a state, by calls alone."""
    if state == "absent":
        return
    equal(pod.add(c, app)["app"], app)
    if state != "created":
        equal(c.call("StartApp", app=app), {})
    if state == "exited":
        equal(c.call("StopApp", app=app), {})


@case
def each_call_in_each_state_is_answered_as_the_model_says(host):
    pod = Pod(host)
    c = pod.connect()
    n = 0
    for method, expected in TABLE.items():
        for state, (answer, after) in expected.items():
            n += 1
            app = "a%d" % n
            where = "%s of an app that is %s" % (method, state)
            bring(pod, c, app, state)
            equal(settled(c, app), state)
            reply = c.call(method.split()[0], **parameters_of(pod, method, app))
            equal(answer_of(reply), answer, where)
            equal(settled(c, app), after, "the state after " + where)
            if answer in (WRONG, NONE):
                equal(reply[1]["app"], app)
            if answer == WRONG:
                equal(reply[1]["state"], state)
            c.call("StopApp", app=app, timeoutUSec=0)
            equal(c.call("RemoveApp", app=app), {})
    equal(describe(c)[1], {})
    pod.end()


@case
def a_paused_pod_changes_nothing(host):
    pod = Pod(host)
    c = pod.connect()
    for state in STATES[1:]:
        bring(pod, c, state, state)
    before = describe(c)[1]
    equal(c.call("Pause"), {})
    for method in "AddApp", "StartApp", "RestartApp", "StopApp", "RemoveApp", "Exec":
        for state in STATES:
            reply = c.call(method, **parameters_of(pod, method, state))
            true(answer_of(reply) in ("PodPaused", NONE, WRONG) or method == "StopApp" and state != "running",
                 "%s of an app that is %s in a paused pod: %s" % (method, state, reply))
    equal(describe(c)[1], before)
    equal(c.call("Resume"), {})
    equal(describe(c)[1], before)
    pod.end()


@case
def a_pod_that_ends_changes_nothing(host):
    pod = Pod(host, "trap 'sleep 7; exit 0' TERM; touch /out/up; while :; do sleep 0.05; done")
    c, other = pod.connect(), pod.connect()
    for state in STATES[1:]:
        bring(pod, c, state, state)
    wait_for(lambda: os.path.exists(os.path.join(host.upper("running"), "out/up")), "the trap of the app")
    other.send("Stop")
    wait_for(lambda: c.call("Describe")["state"] == "stopping", "the pod to end")
    for method in "AddApp", "StartApp", "RestartApp", "RemoveApp", "Exec":
        for state in STATES:
            reply = c.call(method, **parameters_of(pod, method, state))
            true(answer_of(reply) in ("PodEnds", NONE, WRONG, OK if (method, state) == ("Exec", "running") else None), "%s of an app that is %s: %s" % (method, state, reply))
    equal(sorted(describe(c)[1]), sorted(STATES[1:]))
    equal(other.receive()["parameters"], {"exitStatus": 0})


# --- Many clients ------------------------------------------------------------------------------------------------------

class History:
    """The states of apps by the numbers of events, as one client sees them that only listens."""

    def __init__(self, c):
        self.changes = {}
        self.last, states = describe(c)
        equal(states, {})
        self.problems = []
        self.more = threading.Condition()
        c.send("Monitor", {"since": self.last}, more=True)
        c.socket.settimeout(None)
        self.thread = threading.Thread(target=self.follow, args=(c,), daemon=True)
        self.thread.start()

    def follow(self, c):
        while True:
            message = c.receive()
            if message is None:
                return
            event = message["parameters"]
            with self.more:
                if event["sequence"] != self.last + 1:
                    self.problems.append("event %d follows on %d" % (event["sequence"], self.last))
                if "app" in event:
                    self.note(event["sequence"], event["app"]["name"], event["app"]["state"])
                self.last = event["sequence"]
                self.more.notify_all()

    def note(self, sequence, app, state):
        state = "absent" if state == "removed" else state
        changes = self.changes.setdefault(app, [(0, "absent")])
        if state not in FOLLOWS[changes[-1][1]]:
            self.problems.append("%s: %s after %s" % (app, state, changes[-1][1]))
        changes.append((sequence, state))

    def between(self, app, begin, end):
        """The states that an app had from one event to another."""
        with self.more:
            self.more.wait_for(lambda: self.last >= end, 30)
            changes = self.changes.get(app, [(0, "absent")])
            first = max(i for i, (sequence, _) in enumerate(changes) if sequence <= begin)
            return {state for sequence, state in changes[first:] if sequence <= end}


# By which states of the app during the call an answer is explained; the answer WrongState names one of them itself.
EXPLAINED = {
    ("AddApp", OK): {"created"},
    ("AddApp", REFUSED): {"created", "starting", "running", "stopping", "exited", "removing"},
    ("StartApp", OK): {"running", "exited", "stopping"},
    ("StartApp", "JobFailed"): {"stopping", "exited"},
    ("RestartApp", OK): {"running", "exited", "stopping"},
    ("RestartApp", "JobFailed"): {"starting", "running", "stopping", "exited"},
    # An app that another client starts again as soon as it has ended is not reported as ended.
    ("StopApp", OK): {"created", "exited", "removing", "absent", "starting"},
    ("StopApp", "JobFailed"): {"starting", "running", "stopping"},
    ("RemoveApp", OK): {"absent"},
    ("SignalApp", OK): {"running", "starting", "stopping"},
    ("SignalApp", "ForeignProcess"): {"running", "starting", "stopping"},
    # The app's process is there before its unit is reported as running.
    ("Exec", OK): {"created", "exited", "starting", "running", "stopping"},
    ("Exec", "AppUnreachable"): {"created", "exited", "starting", "running", "stopping"},
    ("Exec", "ExecFailed"): {"created", "exited", "starting", "running", "stopping"},
    ("Stats", OK): {"created", "starting", "running", "stopping", "exited", "removing"},
}
CALLS = ("AddApp", "AddApp", "StartApp", "StartApp", "StopApp", "RemoveApp", "RemoveApp", "RestartApp", "SignalApp", "Exec", "Stats",
         "Describe")


def explain(method, reply, states):
    """What is wrong with a reply, given the states of the app during the call."""
    answer = answer_of(reply)
    if answer == WRONG:
        # A call that starts an app may be under way before its unit is, and a process gone before its unit is.
        sooner = {"starting": {"created", "exited"}, "stopping": {"running"} if method == "Exec" else set()}
        fits = bool(({reply[1]["state"]} | sooner.get(reply[1]["state"], set())) & states)
    elif answer == NONE:
        fits = bool({"absent", "removing"} & states)
    elif (method, answer) in EXPLAINED:
        fits = bool(EXPLAINED[method, answer] & states)
    else:
        return "an answer that does not belong to %s: %s" % (method, reply)
    return None if fits else "%s was answered %s, but the app was only %s" % (method, reply, ", ".join(sorted(states)))


def client(pod, history, seed, until, problems, counts):
    choose = random.Random(seed)
    c = pod.connect()
    while time.monotonic() < until and not problems:
        method, app = choose.choice(CALLS), "n%d" % choose.randrange(5)
        begin, states = describe(c)
        if method == "Describe":
            counts[method] = counts.get(method, 0) + 1
            for name, state in states.items():
                if state not in history.between(name, begin, begin):
                    problems.append("Describe says that %s is %s after event %d: %s" % (name, state, begin, history.changes[name]))
            continue
        reply = c.call(method, **parameters_of(pod, method, app))
        end = describe(c)[0]
        wrong = explain(method, reply, history.between(app, begin, end))
        if wrong:
            problems.append("client %d, %s, events %d to %d: %s" % (seed, app, begin, end, wrong))
        key = "%s %s" % (method, answer_of(reply))
        counts[key] = counts.get(key, 0) + 1


@case
@with_timeout(240)
def sixteen_clients_agree_with_the_model(host):
    pod = Pod(host)
    c = pod.connect()
    listener = pod.connect()
    history = History(listener)
    seconds = float(os.environ.get("ACNSPAWN_TEST_MODEL_SECONDS", "15"))
    seed = int(os.environ.get("ACNSPAWN_TEST_SEED", random.randrange(1 << 30)))
    problems, counts = [], {}
    threads = [threading.Thread(target=guarded, args=(pod, history, seed + i, time.monotonic() + seconds, problems, counts))
               for i in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    equal(problems[:3] + history.problems[:3], [], "problems, with the seed %d" % seed)
    for call in CALLS:
        true(any(key.startswith(call) for key in counts), "no client has called %s: %s" % (call, counts))
    print("# %d calls: %s" % (sum(counts.values()), ", ".join("%s %d" % x for x in sorted(counts.items()))))
    for name in list(describe(c)[1]):
        c.call("StopApp", app=name, timeoutUSec=0)
        equal(c.call("RemoveApp", app=name), {})
    equal(describe(c)[1], {})
    wait_for(lambda: os.listdir(host.pod_dir(pod.uuid) + "/apps") == [], "the directories of the apps to be removed")
    equal(glob.glob(host.pod_dir(pod.uuid) + "/root/acnspawn/units/*n[0-9]*"), [])
    pod.end()


def guarded(pod, history, seed, until, problems, counts):
    try:
        client(pod, history, seed, until, problems, counts)
    except Exception as e:
        problems.append("client %d: %r" % (seed, e))


if __name__ == "__main__":
    main()
