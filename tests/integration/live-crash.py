#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Any process is killed between any two steps of a change to a running pod: an app is added, started, restarted, stopped,
replaced or removed.

Without its supervisor a pod ends; then its status can be read, and it can be removed with all that it had. Without the
client that asked for a change the pod goes on, and the change is made or not. The moments are exact where one process is
concerned: strace kills it at a certain system call. What runs in the pod is killed after so many milliseconds.
"""

import signal

from harness import *

STAY = "trap 'exit 0' TERM; touch /out/up; while :; do sleep 0.05; done"
POINTS = 4
# What a supervisor does that others can see.
CALLS = CHANGES + ",sendmsg,sendto,fork,clone,kill"

# A change, and the state of the app db that it begins with.
STEPS = (
    (("add-app", "p", "IMAGE", "--name=db"), "absent"),
    (("start-app", "p", "db"), "created"),
    (("restart-app", "p", "db"), "running"),
    (("stop-app", "p", "db"), "running"),
    (("update-app", "p", "db", "--image=IMAGE"), "running"),
    (("add-app", "p", "SOCKETS", "--name=db"), "absent"),
    (("update-app", "p", "db", "--image=SOCKETS"), "running"),
    (("launch-group", "p", "IMAGE", "--name=db", "---", "IMAGE", "--name=db-2"), "absent"),
    (("launch-group", "p", "--parent=db", "IMAGE", "--name=x"), "running"),
    (("rm-app", "p", "db"), "exited"),
    (("rm-app", "--force", "p", "db"), "running"),
)

# The apps of a pod at any moment, if not only db: a group is there as a whole, or not.
NAMES = [], ["db", "db-2"], ["db", "db/x"]


class Pod:
    def __init__(self, host, image, state):
        self.host = host
        self.uuid = host.acnspawn("run", "--detach", "--exit-policy=never", "--name=p").expect(0).out.strip()
        if state != "absent":
            host.acnspawn("add-app", "p", image, "--name=db").expect(0)
        if state in ("running", "exited"):
            host.acnspawn("start-app", "p", "db").expect(0)
        if state == "exited":
            host.acnspawn("stop-app", "p", "db").expect(0)

    def end(self):
        """The pod has ended: what is known of it can be read, and nothing of it is left."""
        host = self.host
        wait_for(lambda: host.state(self.uuid) == "exited", "the end of the pod")
        apps = host.status(self.uuid)["apps"]
        contains((*NAMES, ["db"]), [a["name"] for a in apps], "the apps")
        for app in apps:
            contains(("waiting", "ended"), app["state"], "the state of app " + app["name"])
        host.acnspawn("cat-manifest", self.uuid).expect(0)
        host.acnspawn("rm", self.uuid).expect(0)
        equal(host.pods(), [])

    def stop(self):
        """The pod runs, with the app or without it, and takes changes."""
        host = self.host
        equal(host.state("p"), "running")
        apps = [a["name"] for a in host.status("p")["apps"]]
        contains((*NAMES, ["db"]), apps, "the apps")
        wait_for(lambda: names_of_apps(host, self.uuid) == sorted(a["name"] for a in host.status("p")["apps"]),
                 lambda: "the directories to be those of the apps: %s, %s" % (names_of_apps(host, self.uuid), apps))
        if apps:
            host.acnspawn("rm-app", "--force", "p", *[a for a in apps if "/" not in a]).expect(0)
        host.acnspawn("stop", "p").expect(0)
        host.acnspawn("rm", "p").expect(0)
        equal(host.pods(), [])


def names_of_apps(host, uuid):
    """By their directories; that of an app that was replaced has its image in the name, that of a nested one its place."""
    return sorted(re.sub(r"-0n\w+$", "/x", n.split("@")[0]) for n in os.listdir(host.pod_dir(uuid) + "/apps") if n[0] != ".")


def words(host, args, image):
    if args[0] == "update-app":
        image = host.shell("echo second; " + STAY, name="example.com/db")
    if any("SOCKETS" in a for a in args):
        image = host.image(["/bin/sh", "-c", STAY], name="example.com/db", app={"ports": [
            {"name": "http", "protocol": "tcp", "port": 8080, "socketActivated": True}]})
    return [a.replace("IMAGE", image).replace("SOCKETS", image) for a in args]


def attach(host, pid, *options):
    """strace, which has attached when this returns, or has killed the process already."""
    p = subprocess.Popen(["strace", "-qq", "-p", str(pid), "-o", host.path("trace"), "-e", "trace=" + CALLS, *options],
                         stderr=subprocess.DEVNULL)
    wait_for(lambda: tracer_of(pid) != 0, "strace to attach")
    return p


def calls_of_supervisor(host, pod, args):
    p = attach(host, host.supervisor(pod.uuid))
    host.acnspawn(*args).expect(0)
    p.send_signal(signal.SIGINT)
    p.wait()
    with open(host.path("trace"), errors="replace") as f:
        return len(f.readlines())


def a_supervisor_is_killed(host, args, state):
    need_strace()
    image = host.shell(STAY, name="example.com/db")
    args = words(host, args, image)
    pod = Pod(host, image, state)
    total = calls_of_supervisor(host, pod, args)
    host.acnspawn("rm", "--force", "p").expect(0)
    for n in spread(total, POINTS):
        pod = Pod(host, image, state)
        pid = host.supervisor(pod.uuid)
        supervisor = os.pidfd_open(pid)
        p = attach(host, pid, "-e", "inject=" + CALLS + ":signal=KILL:when=%d" % n)
        r = host.acnspawn(*args, timeout=60)
        # The last of its calls are not always made.
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(supervisor, signal.SIGKILL)
        os.close(supervisor)
        p.wait(patience(30))
        true(r.rc in (0, 1), "exit status %d: %s" % (r.rc, r.err))
        pod.end()


def a_client_is_killed(host, args, state):
    need_strace()
    image = host.shell(STAY, name="example.com/db")
    args = words(host, args, image)
    pod = Pod(host, image, state)
    total = count_calls(host, *args)
    host.acnspawn("rm", "--force", "p").expect(0)
    for n in spread(total, POINTS):
        pod = Pod(host, image, state)
        kill_at(host, n, *args)
        pod.stop()


def processes_in_the_pod_are_killed(host, args, state):
    image = host.shell(STAY, name="example.com/db")
    args = words(host, args, image)
    for delay in range(0, 12, 3):
        for victim in "leader", "launch":
            pod = Pod(host, image, state)
            leader = host.leader("p")
            p = host.start(*args)
            time.sleep(delay / 1000)  # any time
            victims = [leader] if victim == "leader" else processes_where(lambda x: name_of(x) == "launch" and parent_of(x) == leader)
            for x in victims:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(x, signal.SIGKILL)
            r = host.finish(p)
            true(r.rc in (0, 1), "exit status %d: %s" % (r.rc, r.err))
            if victim == "leader":
                pod.end()
            else:
                pod.stop()


def add_cases():
    for args, state in STEPS:
        for kill in a_supervisor_is_killed, a_client_is_killed, processes_in_the_pod_are_killed:
            def run(host, kill=kill, args=args, state=state):
                kill(host, args, state)
            run.__name__ = "%s_during_%s_of_%s_app%s" % (kill.__name__, args[0].replace("-", "_"), state,
                                                         "_with_sockets" if any("SOCKETS" in a for a in args) else "")
            case(with_timeout(240)(run))


add_cases()

if __name__ == "__main__":
    main()
