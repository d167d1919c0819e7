#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn-status(1), sentence by sentence."""

from manual import *
from terminals import Terminal

PAGE = page("acnspawn-status.1", "65c7c7123b33f02a")


@once
def pods(host):
    """The UUIDs of one that was prepared only, one that has ended, and one that runs."""
    return (host.prepare("--name=first", base(host)), ended(host),
            host.detach("--name=box", "--exit-policy=never", "--memory=1Gi", *together(
                app(host, "web", "sleep 1000", "--health-cmd=true"),
                app(host, "worker", "sleep 1000", "--caps-remove=all", "--restart=on-failure", "--seccomp=mode=remove,acct"))))


@once
def ended(host):
    host.acnspawn("run", "--name=second", *app(host, "a", "exit 4")).expect(4)
    return host.status("second")["uuid"]


@sentence("list", "Lists the pods in the order of their creation, or those that have one of the NAMEs, which may be the beginning of a UUID, too.")
@sentence("list", "-a, --all With names: also the pods that had them before those that have them now, such as earlier runs of a service.")
def pods_by_name(host):
    first, second, box = pods(host)
    names = lambda *args: host.acnspawn("list", "--format={name}", *args).expect(0).out.split()
    equal(names()[:3], ["first", "second", "box"])
    equal(names("box", first), ["first", "box"])
    equal(names(box[:8]), ["box"])
    host.acnspawn("run", "second").expect(4)
    equal(host.acnspawn("list", "-q", "--all", "second").expect(0).out.split(), [second, host.status("second")["uuid"]])
    equal(host.acnspawn("list", "-q", "second").expect(0).out.split(), [host.status("second")["uuid"]])


@sentence("list", "On a terminal their UUIDs are shortened to unique prefixes of at least eight characters. -l, --full Show UUIDs in full on a "
                  "terminal as well.")
def uuids_on_a_terminal(host):
    first = pods(host)[0]
    for words, whole in ([], False), (["--full"], True), (["-l"], True):
        t = Terminal(host, "list", *words, columns=200)
        equal(t.end(), 0)
        equal((first[:8].encode() in t.text, first.encode() in t.text), (True, whole), "%r" % t.text)


@sentence("list", "Only pods in these states: preparing, aborted-prepare, prepared, running, paused, frozen (with its unit, by systemctl freeze), "
                  "exited, garbage.")
def pods_by_state(host):
    pods(host)
    half = "01234567-89ab-4cde-8123-456789abcdef"
    os.mkdir(os.path.join(host.dir, "pods/preparing", half), 0o711)
    for state in "preparing", "aborted-prepare", "prepared", "running", "paused", "frozen", "exited", "garbage":
        r = host.acnspawn("list", "--state=" + state, "-q").expect(0)
        if state == "aborted-prepare":
            equal(r.out.split(), [half])
    host.acnspawn("list", "--state=up").expect(2)
    os.rmdir(os.path.join(host.dir, "pods/preparing", half))


@sentence("status", "Shows the state of pods: when they were created, started and ended, the process ID of their systemd, their addresses")
@sentence("status", "the state of each app or how it ended, whether it is ready and healthy, how often it was restarted")
@sentence("status", "So are the default limits.")
@sentence("status", "With --json=, an object per pod with all fields.")
def the_state_of_pods(host):
    first, second, box = pods(host)
    text = host.acnspawn("status", "box").expect(0).out
    for words in ("running since ", "Created: ", "Leader: %d\n" % host.leader("box"), "lo 127.0.0.1", "web     running, ready, healthy", "worker  running",
                  "each of web, worker resource/tasks: "):
        contains(text, words)
    host.acnspawn("kill", "--app=worker", "--signal=KILL", "box").expect(0)
    wait_for(lambda: "restarted 1 " in host.acnspawn("status", "box").out, "the restart")
    text = host.acnspawn("status", second).expect(0).out
    contains(text, "exited with status 4 at ")
    equal([json.loads(line)["uuid"] for line in host.acnspawn("status", "--json=short", first, "box").expect(0).out.splitlines()], [first, box])


@sentence("status", "what filters its system calls unless that is the default")
@sentence("status", "for each isolator whether it is enforced, modified, ignored or off, and where it comes from: the image, the command line")
def isolators_and_filters(host):
    pods(host)
    status = host.status("box")
    shown = {(i["app"], i["name"]): i for i in status["isolators"]}
    equal({a["name"]: a["seccomp"] for a in status["apps"]}, {"web": "default", "worker": "isolators"})
    for key in (None, "resource/memory"), ("worker", "os/linux/capabilities-remove-set"), ("worker", "os/linux/seccomp-remove-set"):
        true(shown[key]["verdict"] in ("enforced", "modified", "ignored", "off") and shown[key]["source"] == "command line", "%r" % shown[key])
    text = host.acnspawn("status", "box").expect(0).out
    contains(text, "[command line]")


@sentence("top", "The time between updates, from 100ms to 1h (default: 1s).")
def the_time_between_updates(host):
    pods(host)
    for words, rc in (["--delay=100ms"], 0), (["-d", "99ms"], 2), (["--delay=61min"], 2):
        equal(host.acnspawn("top", *words, "box").rc, rc, " ".join(words))


@sentence("top", "elsewhere, and with --json, it measures twice and shows the result once.")
def measured_twice(host):
    pods(host)
    rows = json.loads(host.acnspawn("top", "--json=short", "-d", "100ms").expect(0).out)
    equal([(r["pod"], r["app"], "cpuPermille" in r) for r in rows], [("box", None, True), ("box", "web", True), ("box", "worker", True)])


@sentence("stats", "Without a pod, shows all running ones.")
@sentence("stats", 'a limit that is not set is "-", too.')
def usage_of_running_pods(host):
    pods(host)
    lines = host.acnspawn("stats").expect(0).out.splitlines()
    equal([line.split()[:2] for line in lines], [["POD", "APP"], ["box", "-"], ["box", "web"], ["box", "worker"]])
    column = lines[0].split().index("LIMIT")
    equal(lines[2].split()[column], "-")


@sentence("monitor", "Without a pod, shows all pods as they are, and from then on what happens to any of them, until it is interrupted: pods that "
                     "are prepared, run, end and are removed, and their apps. These numbers begin with 1 each time. acnspawn events is the same "
                     "command.")
def what_happens_to_any_pod(host):
    pods(host)
    watching = [host.start(verb, "--json=short") for verb in ("monitor", "events")]
    for p in watching:
        seen = []
        while not seen or seen[-1]["event"] != "complete":
            seen.append(json.loads(p.stdout.readline()))
        equal([e["sequence"] for e in seen], list(range(1, len(seen) + 1)))
        true({"first", "box"} <= {e["pod"].get("name") for e in seen[:-1]}, "the pods that are there")
    begun = {"prepared": ["prepare", "--name=watched", *app(host, "short", "exec sleep 1000")], "running": ["run", "--detach", "watched"],
             "exited": ["stop", "--force", "watched"], "removed": ["rm", "watched"]}
    for state, words in begun.items():
        host.acnspawn(*words).expect(0)
        for p in watching:
            seen = None
            while seen != state:
                e = json.loads(p.stdout.readline())
                if (e.get("pod") or {}).get("name") == "watched":
                    seen = "removed" if e["event"] == "removed" else e["pod"]["state"]
    for p in watching:
        p.terminate()
        p.wait()


elsewhere(
    ("list", "A name that no pod has is an error; the others are listed.", "lists/pods_by_names"),
    ("list", "frozen (with its unit, by systemctl freeze)", "vm/units/a_pod_whose_unit_is_frozen"),
    ("list", "Only pods that match: state=STATE; name=, app= (the name of an app), image= (the name of an image, with or without :VERSION, or its ID), "
             "network= (a network by name, host or none), with a pattern; label=NAME[=VALUE], a user label; annotation=NAME[=VALUE], an annotation or a user "
             "annotation.", "lists/pods_by_filters"),
    ("list", "Show these fields as columns, or for each pod a text with fields in braces", "lists/pods_in_formats"),
    ("list", "endedBy (reboot: of the host)", "lifecycle/pods_that_a_reboot_has_ended_are_marked"),
    ("list", "health (of the apps that have a health check the worst: healthy, starting or unhealthy)", "lists/health_of_pods"),
    ("status", "their ports and the sockets of the host that serve them", "sockets/a_socket_of_the_host_serves_a_pod_without_a_network"),
    ("status", "(for a profile the digest of its file, as of sha256sum(1))", "system-calls/profile_in_the_form_of_oci"),
    ("status", "acnspawn.conf or the pod manifest", "config/status_says_what_comes_from_here"),
    ("status", "Requests of images beyond the defaults are shown with their outcome.", "privileges/it_is_shown_by_status_and_image_show"),
    ("status", "First wait until the pods have ended.", "lifecycle/status_wait_returns_when_the_pod_ends"),
    ("status", "Fail if they have not after TIMEOUT", "lifecycle/status_wait_gives_up_in_time"),
    ("status", "and at once for a pod that was not run yet.", "lifecycle/status_wait_does_not_wait_for_a_pod_that_was_not_run"),
    ("stats", "Shows the resource usage of running pods and of each of their apps: processor time, memory and its limit, bytes read and written, processes.",
     "control/usage_of_pods_is_counted"),
    ("stats", 'Values that cannot be measured for lack of a cgroup v2 controller are "-", which is reported once', "control/usage_of_pods_is_counted"),
    ("top", "The same with the share of a processor that was used since the last update.", "control/usage_of_pods_is_counted"),
    ("top", "On a terminal it continues until q is pressed, it is interrupted", "control/top_has_a_screen_until_q_is_pressed"),
    ("top", "or the pods have ended", "control/top_ends_with_the_pods"),
    ("monitor", "Shows what happens in a running pod, a line for each event, until the pod has ended: apps that start, run, become ready, stop and exit, with "
                "their status, and the pod that is paused, resumed, stopped, and has exited. A line begins with the time and the number of the event; each is "
                "one more than the one before.", "apps/events_come_as_lines_and_as_json"),
    ("monitor", "With --json each event is an object on a line of its own: sequence, timeUSec, state of the pod, app (absent if the event is about the pod "
                "alone), and exitStatus of a pod that has exited.", "apps/events_come_as_lines_and_as_json"),
    ("monitor", "With --json the objects are those of Monitor of acnspawn-host(7).", "host-service/the_monitor_begins_with_what_is_there"),
    ("monitor", "Of a single pod: begin with the events after number NUMBER; 0: with the first. The last 512 are kept. If one of those asked for is not kept any "
                "more, that is an error, which names the oldest.", "apps/events_can_be_requested_by_number"),
)

main()
