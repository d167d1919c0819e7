#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Two commands for the same declared pod at once, each pair of COMMANDS, over a pod that runs, over one that has ended, and over one that is
prepared. Whichever is first: no data is lost, no pod is half made, nothing runs that no command has started, and exit statuses and what is printed say
what has happened.

With ACNSPAWN_TEST_LONG=1 each pair is tried 50 times, with the second command a little later each time; otherwise two or three times."""

import itertools

from harness import *

LONG_TEST = bool(os.environ.get("ACNSPAWN_TEST_LONG"))
TIMES = 25 if LONG_TEST else 1  # for each state
DELAYS = (0, 0.003, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2)
STAY = "trap 'exit 0' TERM; echo x >>/kept/starts; touch /scratch/mine; while :; do sleep 0.05; done"

COMMANDS = {
    "run": ("run", "--detach", "p"),
    "run --declared": ("run", "--detach", "--declared=p"),
    "apply": ("apply", "--json=short", "p"),
    "update": ("update", "--json=short"),
    "rm": ("rm", "--force", "p"),
    "prune": ("prune", "--force", "--json=short"),
    "gc": ("gc",),
    "export": ("export", "--force", "p"),
    "stop": ("stop", "p"),
}
STARTS, ENDS, LOOKS = {"run", "run --declared"}, {"stop", "rm"}, {"apply", "update", "export", "gc", "prune"}
# Why a command may fail whose pod another command changes.
REASONS = {
    "run": r"is running already|runs already|is being|is still being prepared|was run again already|in use by another process|was removed|is \w+ by now|belongs to (another )?pod"
           r"|neither a pod nor an image|There is no pod",
    "apply": r"is not running|does not run|is about to end|was removed|has ended|There is no pod|no longer runs",
    "rm": r"There is no pod|was removed|in use by another process|is being|is still being prepared",
    "stop": r"is not running|There is no pod|was removed|does not run|has ended",
    "export": r"There is no pod|was removed|in use by another process|is being|it changed while it was read"
              r"|has no root yet|has no apps",  # of a pod that ends just then, and of one that is being prepared
}
REASONS["run --declared"] = REASONS["run"]


class Scene:
    def __init__(self, host):
        self.host, self.config, self.rounds, self.faults = host, host.path("config"), 0, []
        os.makedirs(os.path.join(self.config, "pods"))
        self.env = dict(os.environ, ACNSPAWN_CONFIG_DIR=self.config)
        self.newer()
        self.acnspawn("volume", "create", "kept", "--mode=1777").expect(0)
        self.declare()

    def acnspawn(self, *args, **more):
        return self.host.acnspawn(*args, env=self.env, **more)

    def newer(self):
        """So that there is something to update."""
        path = self.host.shell("true %d; %s" % (self.rounds, STAY), name="example.com/a")
        self.acnspawn("fetch", path).expect(0)
        os.unlink(path)

    def declare(self):
        """Another time something else, so that there is something to apply."""
        with open(os.path.join(self.config, "pods", "p.pod"), "w") as f:
            f.write("[Pod]\nVolume=scratch,kind=empty,mode=1777\n[App a]\nImage=example.com/a\nImagePolicy=local\nVolume=kept:/kept\n"
                    "Mount=scratch:/scratch\nEnvironment=ROUND=%d\n" % self.rounds)

    def places(self):
        """UUID -> state, by the directories; the commands have ended, and nothing moves."""
        return {os.path.basename(p): os.path.basename(os.path.dirname(p)) for p in self.host.pods()}

    def running(self):
        return {u for u, place in self.places().items() if place == "running"}

    def starts(self):
        return os.path.getsize(os.path.join(self.host.dir, "volumes", "kept", "data", "starts"))

    def has_scratch(self, uuid):
        return os.path.exists(os.path.join(self.host.pod_dir(uuid), "volumes", "scratch", "mine"))

    def named(self):
        """Where the pod p is, or None."""
        link = os.path.join(self.host.dir, "names", "p")
        return self.places().get(os.readlink(link)[:36]) if os.path.islink(link) else None

    def bring(self, wanted):
        """The pod p to that state, whatever there is."""
        now = self.named()
        if now == wanted:
            pass
        elif wanted == "running" or (wanted == "exited" and now != "running"):
            self.acnspawn("run", "--detach", "--declared=p").expect(0)
        if wanted in ("exited", "prepared") and self.named() == "running":
            self.acnspawn("stop", "p").expect(0)
        if wanted == "prepared" and now != wanted:
            self.acnspawn("prepare", "--declared=p").expect(0)
        equal(self.named(), wanted, "the state of the pod")
        for uuid in self.running():
            wait_for(lambda: self.has_scratch(uuid), "the app to have begun")

    def both(self, first, second):
        """The results by command. The second one begins a little later, more so each time."""
        def start(name):
            more = ("-o", self.host.path("export-%d.aci" % self.rounds)) if name == "export" else ()
            return self.host.start(*COMMANDS[name], *more, env=self.env)
        begun = [start(first)]
        time.sleep(DELAYS[self.rounds % len(DELAYS)])
        begun.append(start(second))
        return {name: self.host.finish(p) for name, p in zip((first, second), begun)}

    def round(self, pair, state):
        self.rounds += 1
        self.bring(state)
        self.declare()
        if "update" in pair and state == "running":
            self.newer()
        before, ran, starts = self.places(), self.running(), self.starts()
        self.former = {u for u, place in before.items() if place == "exited"} - {os.readlink(os.path.join(self.host.dir, "names", "p"))[:36]}
        first, second = pair if self.rounds % 2 else reversed(pair)
        results = self.both(first, second)
        for fault in judge(self, results, before, ran, starts):
            self.faults.append("%s, then %s after %g s, pod %s: %s [%s]" % (
                first, second, DELAYS[self.rounds % len(DELAYS)], state, fault, "; ".join(str(r) for r in results.values())))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.host.path("export-%d.aci" % self.rounds))


def removed_by(results):
    """The pods that the commands say to have removed."""
    found = set()
    for name, r in results.items():
        if name in ("rm", "gc"):
            found.update(UUID.findall(r.out))
        elif name == "prune":
            found.update(UUID.findall(r.out))
    return found


def judge(scene, results, before, ran, starts):
    """What should not be, one after the other."""
    after, runs, removed = scene.places(), scene.running(), removed_by(results)
    ok = {name for name, r in results.items() if r.rc == 0}
    started = {results[name].out.strip() for name in ok & STARTS}
    for uuid, place in after.items():
        if place not in ("running", "exited", before.get(uuid)):
            yield "pod %s is left in %s" % (uuid, place)
    # Data.
    for uuid in set(before) - set(after) - removed:
        if before[uuid] == "prepared" and "run --declared" in results and results["run --declared"].rc != 1: # which never ran
            continue
        # A start keeps some of those that ended soon, also one that is stopped before the pod is up.
        if uuid in scene.former and len(scene.former) >= 5 and "run --declared" in results and results["run --declared"].rc != 1:
            continue
        yield "pod %s is gone, and no command says so" % uuid
    for uuid in removed & set(after):
        yield "pod %s is there (%s) and was removed, as a command says" % (uuid, after[uuid])
    if removed & ran and not ok & ENDS:
        yield "the pod that ran was removed"
    if "rm" not in results and started & removed and "stop" not in ok:
        yield "the pod that was started was removed"
    if scene.starts() < starts:
        yield "the named volume has less than before"
    for uuid in runs & ran:
        if not scene.has_scratch(uuid):
            yield "the volume of pod %s is empty" % uuid
    # What runs.
    if len(runs) > 1:
        yield "there are %d pods that run" % len(runs)
    if runs - ran - started:
        yield "a pod runs that no command has started"
    if not ok & ENDS and (ran | started) - runs:
        yield "a pod does not run that no command has stopped"
    if len(started) > 1 and not ok & ENDS:
        yield "two commands say that they have started the pod"
    if ok & ENDS and not set(results) & STARTS and runs:
        yield "the pod runs, and was stopped"
    if [a for a in scene_apps(scene, runs) if a != "running"]:
        yield "an app of the pod that runs is not running"
    # The name.
    link = os.path.join(scene.host.dir, "names", "p")
    if os.path.islink(link) and os.readlink(link)[:36] not in after:
        yield "the name belongs to a pod that does not exist"
    if runs and not (os.path.islink(link) and os.readlink(link)[:36] in runs):
        yield "the pod that runs does not have its name"
    # What is said.
    for name, r in results.items():
        if name in STARTS and r.rc in (143, 125) and ok & ENDS and "was stopped before it was up" in r.err:
            continue
        if r.rc < 0 or r.rc > 1 or "assertion" in r.err.lower():
            yield "%s exits with %d" % (name, r.rc)
        elif r.rc == 1 and not re.search(REASONS.get(name, "(?!)"), r.err):
            yield "%s fails for no good reason" % name
    yield from judge_success(scene, results, ran, ok)


def scene_apps(scene, runs):
    return [a["state"] for uuid in runs for a in scene.host.status(uuid)["apps"]]


def judge_success(scene, results, ran, ok):
    """Commands that have to succeed beside the other one."""
    others = lambda name: set(results) - {name}
    for name in set(results) - ok:
        other, = others(name)
        if name in ("gc", "prune", "update") or (name == "stop" and ran and other != "rm"):
            yield "%s fails" % name
        if name == "apply" and ran and other in LOOKS | STARTS or name == "export" and ran and other in STARTS | {"gc", "prune"}:
            yield "%s fails, and the pod ran all the time" % name
        if name in STARTS and not ran and other in LOOKS - {"export", "prune"}:
            yield "%s fails, and no other command was to start or remove the pod" % name
        if name == "run --declared" and not ran and other in ("prune", "rm") and results[name].rc == 1:
            yield "%s fails, though what it is made of is there" % name
    if "export" in ok:
        path = scene.host.path("export-%d.aci" % scene.rounds)
        with tarfile.open(path) as tar:
            if "manifest" not in tar.getnames():
                yield "the exported image has no manifest"


def try_all(host, state, pairs):
    scene = Scene(host)
    scene.bring("running") # an app that has begun in the named volume
    for _ in range(TIMES):
        for pair in pairs:
            scene.round(pair, state)
    # It can be run and removed, whatever was done to it.
    scene.bring("running")
    scene.acnspawn("rm", "--force", "p").expect(0)
    true(not scene.faults, "%d of %d rounds: %s" % (len(scene.faults), scene.rounds, "\n".join(scene.faults)))


PAIRS = list(itertools.combinations(COMMANDS, 2))


@case
@with_timeout(3600 if LONG_TEST else 600)
def over_a_pod_that_runs(host):
    try_all(host, "running", PAIRS)


@case
@with_timeout(3600 if LONG_TEST else 600)
def over_a_pod_that_has_ended(host):
    try_all(host, "exited", PAIRS)


@case
@with_timeout(3600 if LONG_TEST else 600)
def over_a_pod_that_is_prepared(host):
    """Other commands than those that run it leave it alone, or remove it."""
    try_all(host, "prepared", [p for p in PAIRS if set(p) & STARTS])


main()
