#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn-apply(1), sentence by sentence. Most are steps of one declared pod that changes."""

from manual import *

PAGE = page("acnspawn-apply.1", "3b771fd79d966cec")

STAY = "trap 'exit 0' TERM; touch /out/up; sleep 1000 & while :; do wait $!; done"


@once
def images(host):
    return host.shell(STAY, name="example.com/web"), host.shell(STAY, name="example.com/db")


def declare(host, *apps, pod=""):
    web, db = images(host)
    os.makedirs(host.path("config/pods"), exist_ok=True)
    with open(host.path("config/pods/shop.pod"), "w") as f:
        f.write("[Pod]\n%s\n" % pod + "".join("[App %s]\nImage=%s\n%s\n" % (name, db if name == "db" else web, lines) for name, lines in apps))


def call(host, *args, rc=0):
    return host.acnspawn(*args, env={**os.environ, "ACNSPAWN_CONFIG_DIR": host.path("config")}).expect(rc)


@once
def pod(host):
    declare(host, ("web", ""), ("db", ""))
    return call(host, "run", "--detach", "--declared=shop").out.strip()


def apply(host, *args, rc=0):
    """The steps: app, change, result."""
    pod(host)
    return [(r["app"], r["change"], r["result"]) for r in json.loads(call(host, "apply", "--json", *args, "shop", rc=rc).out)]


def apps(host):
    return {a["name"]: (a["state"], a["started"]) for a in host.status(pod(host))["apps"]}


@sentence("OUTPUT", "A line for each step, or with --json an array of objects with pod, app, change (add, replace, limit, remove, start, or new pod), what is different, by the names of "
                    "options and isolators, and result: planned, done, undone, failed, skipped, or refused. Without a difference there is none.")
@sentence("OPTIONS", "-n, --dry-run Fetch images that are missing, and show what would be changed.")
@sentence("DESCRIPTION", "an app that is not in the pod is added and started;")
@sentence("DESCRIPTION", "an app of which something is different is replaced, as by acnspawn update-app --image=:")
@sentence("DESCRIPTION", "an app that is not in the file any more is stopped and removed, with its own volumes.")
@sentence("DESCRIPTION", "An app that is the same is not touched.")
@sentence("EXAMPLES", "# acnspawn pod verify shop # acnspawn apply --dry-run shop POD APP CHANGE WHAT RESULT")
def apps_come_change_and_go(host):
    pod(host)
    equal(apply(host), [])
    equal(apply(host, "--dry-run"), [])
    declare(host, ("web", "Environment=A=1"), ("db", ""), ("new", ""))
    before = apps(host)
    call(host, "pod", "verify", "shop")
    equal(sorted(apply(host, "-n")), [("new", "add", "planned"), ("web", "replace", "planned")])
    equal(call(host, "apply", "--dry-run", "shop").out.split("\n")[0].split(), "POD APP CHANGE WHAT RESULT".split())
    equal(apps(host), before)
    rows = json.loads(call(host, "apply", "--json", "shop").out)
    equal(set(rows[0]), {"pod", "app", "change", "what", "result"})
    equal({(r["app"], r["what"], r["result"]) for r in rows}, {("new", None, "done"), ("web", "environment", "done")})
    equal(apps(host)["db"], before["db"])
    equal(apps(host)["new"][0], "running")
    declare(host, ("web", "Environment=A=1"), ("db", ""))
    equal(apply(host), [("new", "remove", "done")])
    true("new" not in apps(host), "it is there")


@sentence("DESCRIPTION", "If an app cannot be executed, or does not get ready, that step is undone: the old app is put back and started again,")
@sentence("DESCRIPTION", "What was done before stays, the steps after it are skipped, and the command fails.")
@sentence("EXIT STATUS", "0 if the pods are as declared, or with --dry-run; 1 if not, with a message that says why; 2 if the command line is not valid.")
def a_step_that_fails(host):
    pod(host)
    declare(host, ("web", "Exec=/nothing"), ("db", "Environment=B=1\nAfter=web"))
    equal(apply(host, rc=1), [("web", "replace", "undone"), ("db", "replace", "skipped")])
    equal({a: s for a, (s, _) in apps(host).items()}, {"web": "running", "db": "running"})
    declare(host, ("web", "Environment=A=1"), ("db", ""))
    apply(host)
    call(host, "apply", rc=2)
    call(host, "apply", "--nothing", "shop", rc=2)


@sentence("DESCRIPTION", "What belongs to the pod as a whole, such as its network, ports, host name, volumes and limits, cannot be changed while it runs. If the file has such a change, it is "
                         "named, and nothing is changed:")
@sentence("DESCRIPTION", "Rm=, Register= and ReadyTimeout= say how a pod is started: a warning names those that have changed since then,")
def what_is_of_the_pod(host):
    pod(host)
    declare(host, ("web", "Environment=A=2"), ("db", ""), pod="Hostname=other")
    before = apps(host)
    r = call(host, "apply", "shop", rc=1)
    contains(r.out + r.err, "hostname")
    equal(apps(host), before)
    declare(host, ("web", "Environment=A=1"), ("db", ""), pod="ReadyTimeout=1min")
    contains(call(host, "apply", "shop").err, "ready-timeout")
    declare(host, ("web", "Environment=A=1"), ("db", ""))


elsewhere(
    ("DESCRIPTION", "The file is checked first, as by acnspawn prepare --dry-run, together with acnspawn.conf(5), and images that are not in the store are fetched. If that fails, the pod is "
                    "left as it is.", "apply/mistakes_are_found_before_anything_is_changed"),
    ("DESCRIPTION", "the new one is prepared while the old one runs, and has its volumes, as far as it has the same mounts.", "apply/mounts_are_changed_with_the_app"),
    ("DESCRIPTION", "A volume of the pod that is new is made for the app that mounts it,", "apply/a_named_volume_that_is_new_is_made_for_an_app_that_is_there"),
    ("DESCRIPTION", "The image is different if its name means another image by now, also in the store alone (acnspawn fetch);", "apply/an_image_that_a_name_means_now_is_a_change"),
    ("DESCRIPTION", "an app of which only limits of memory, processor time, CPU weight or tasks are different is not restarted: they are changed while it runs.",
     "apply/limits_are_changed_while_the_app_runs"),
    ("DESCRIPTION", "A limit that this host has no controller for is no difference; a warning names it;", "apply/limits_that_the_host_ignores_are_no_difference"),
    ("DESCRIPTION", "Apps are added and changed one after the other, in the order in which they start (After=), each when the one before it is executed, or ready if it reports that. Removals "
                    "come last, in reverse order.", "apply/apps_are_added_replaced_and_removed_in_order"),
    ("DESCRIPTION", "or the one that was added is removed, which has no effect on the pod, whatever its exit policy.", "apply/an_added_app_that_does_not_get_ready_is_removed_again"),
    ("DESCRIPTION", "an app that was added and not started is started.", "apply/an_app_that_was_added_and_not_started_is_started"),
    ("DESCRIPTION", "Of two calls for the same pod the second waits for the first, which it names, until it is interrupted, and then reads the file.", "apply/another_apply_is_waited_for"),
    ("DESCRIPTION", "An app that another command adds, starts or removes meanwhile is left to that command, and the rest is planned anew.", "apply/apps_that_others_add_and_remove_meanwhile"),
    ("DESCRIPTION", "So it is with a pod that is made from a pod manifest.", "apply/what_needs_a_new_pod_is_named_and_nothing_is_done"),
    ("DESCRIPTION", "An app whose credentials are others than those that it has is replaced, also if only the content of a file that LoadCredential= names has changed,",
     "apply/credentials_are_changed_with_the_app_that_has_them"),
    ("DESCRIPTION", "If the command is killed, the step that it took is completed or undone all the same;", "apply/who_applies_may_be_killed"),
)

main()
