#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Settings of apps: restart, order, the signal that stops an app."""

from harness import *


@case
def an_app_that_fails_is_started_again_with_a_clean_root(host):
    # The volume remembers what the app's root must not.
    script = "echo run >>/data/runs; test -e /tmp/old && echo unclean; touch /tmp/old; test $(wc -l </data/runs) -ge 3"
    r = host.run("--name=p", "--volume=data,kind=empty,mode=0777", "--mount=data:/data", host.shell(script),
                 "--restart=on-failure", "--restart-delay=10ms")
    lacks(r.out, "unclean")
    equal(host.app_status("p", "image1")["exitStatus"], 0)


@case
def without_being_asked_nothing_is_started_again(host):
    host.run("--name=p", "--volume=data,kind=empty,mode=0777", "--mount=data:/data",
             host.shell("echo run >>/data/runs; test $(wc -l </data/runs) -eq 1 && exit 7"), rc=7)


@case
def an_image_cannot_ask_to_be_started_again(host):
    image = host.shell("echo run >>/data/runs; test $(wc -l </data/runs) -eq 1 && exit 7",
                       annotations=[{"name": "acnspawn/restart", "value": "on-failure"}])
    host.run("--name=p", "--volume=data,kind=empty,mode=0777", "--mount=data:/data", image, rc=7)


@case
def an_app_that_is_always_started_again_ends_with_the_pod(host):
    uuid = host.prepare("--volume=data,kind=empty,mode=0777", "--mount=data:/data", host.shell("echo run >>/data/runs"),
                        "--restart=always", "--restart-delay=5ms")
    host.acnspawn("run", "--detach", uuid).expect(0)
    runs = host.pod_dir(uuid) + "/volumes/data/runs"
    wait_for(lambda: os.path.exists(runs) and read_text(runs).count("run") >= 3, "three starts")
    host.acnspawn("stop", uuid).expect(0)
    equal(host.state(uuid), "exited")


@case
def an_app_starts_after_those_it_names(host):
    slow = host.image(["/bin/sh", "-c", "echo main >>/data/order"], name="example.com/slow", app={"eventHandlers": [
        {"name": "pre-start", "exec": ["/bin/sh", "-c", "sleep 0.3; echo before >>/data/order"]}]})
    fast = host.shell("echo fast >>/data/order", name="example.com/fast")
    host.run("--name=p", "--volume=data,kind=empty,mode=0777", "--mount=data:/data", fast, "--after=slow", slow)
    order = read_text(host.one_pod() + "/volumes/data/order").split()
    equal(order[0], "before")


@case
def waiting_for_oneself_is_refused(host):
    a, b = host.shell("true", name="example.com/a"), host.shell("true", name="example.com/b")
    r = host.acnspawn("prepare", a, "--after=b", b, "--after=a").expect(1)
    contains(r.err, "App a is to start after an app that is to start after it")
    r = host.acnspawn("prepare", a, "--after=c").expect(1)
    contains(r.err, "App a is to start after c, but the pod has no such app")
    equal(host.pods(), [])


@case
def a_value_that_is_none_is_refused_with_what_it_may_be(host):
    r = host.acnspawn("prepare", host.shell("true"), "--restart=maybe").expect(2)
    contains(r.err, "Invalid value 'maybe' for --restart: must be no, on-failure or always")


@case
def the_signal_that_stops_an_app_can_be_chosen(host):
    uuid = host.detach(host.shell("trap 'echo usr; exit 3' USR1; trap '' TERM; echo ready; while :; do sleep 0.05; done"),
                       "--stop-signal=SIGUSR1")
    wait_for(lambda: "ready" in host.acnspawn("logs", uuid).out, "the app is ready")
    host.acnspawn("stop", uuid).expect(0)
    equal(host.app_status(uuid, "image1")["exitStatus"], 3)


main()
