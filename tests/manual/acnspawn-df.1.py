#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn-df(1), sentence by sentence: df and prune."""

from manual import *
from terminals import Terminal

PAGE = page("acnspawn-df.1", "00a917a2f736353a")


@once
def store(host):
    host.acnspawn("fetch", host.image(name="example.com/idle", base=False)).expect(0)
    host.acnspawn("fetch", host.shell("true", name="example.com/used")).expect(0)
    host.prepare("--name=prepared", "example.com/used")
    host.run("--name=ended", "example.com/used")
    host.acnspawn("volume", "create", "data").expect(0)


def call(host, *args, rc=0, **more):
    store(host)
    return host.acnspawn(*args, **more).expect(rc)


@sentence("df", "Shows, for each kind of object in the store, how many there are, the disk space that they use, and how much of it prune would free now.")
@sentence("df", "With --json each kind is an object with kind, count, size and reclaimable, in bytes.")
@sentence("df", "With --json, reclaimable is a boolean then.")
@sentence("EXAMPLES", "# acnspawn df -jv | jq -c 'sort_by(-.size)[:5][]'")
def figures(host):
    rows = json.loads(call(host, "df", "--json").out)
    counts = {r["kind"]: r["count"] for r in rows}
    equal(set(counts), {"images", "layers", "rendered", "pods", "logs", "volumes", "downloads"})
    equal((counts["images"], counts["pods"], counts["volumes"], counts["downloads"]), (2, 2, 1, 0))
    equal({frozenset(r) for r in rows}, {frozenset(("kind", "count", "size", "reclaimable"))})
    objects = json.loads(call(host, "df", "-jv").out)
    equal({type(o["reclaimable"]) for o in objects}, {bool})
    equal({o["name"] for o in objects if o["kind"] == "pods" and o["reclaimable"]}, {"ended"})
    call(host, "df")


@sentence("prune", "-n, --dry-run Only show what would be removed. -f, --force Do not ask. Needed where standard input is not a terminal.")
@sentence("EXIT STATUS", "or if the question was not answered by y; 2 if the command line is not valid.")
@sentence("prune", "On a terminal it shows what would be removed, asks, and then removes only what it has shown.")
def it_asks(host):
    names = lambda: {o["name"] for o in json.loads(call(host, "df", "-jv").out) if o["kind"] == "pods"}
    contains(call(host, "prune", "-n").out, "example.com/idle")
    call(host, "prune", rc=2)
    call(host, "prune", "nothing", rc=2)
    t = Terminal(host, "prune", "pods")
    t.expect(b"[y/N]")
    t.send(b"n\n")
    equal(t.end(), 1)
    equal(names(), {"prepared", "ended"})
    t = Terminal(host, "prune", "pods")
    t.expect(b"[y/N]")
    t.send(b"y\n")
    equal(t.end(), 0)
    equal(names(), {"prepared"})


@sentence("prune", "all, the default, is all of these but volumes.")
@sentence("prune", "Pods that are prepared stay.")
@sentence("df", "Named volumes. prune removes those that no pod uses, declared ones included, but only if volumes is given.")
@sentence("EXAMPLES", "# acnspawn prune --force all volumes")
def what_is_removed(host):
    objects = lambda: {(o["kind"], o["name"] or o["id"]) for o in json.loads(call(host, "df", "-jv").out)}
    true("volumes" in {k for k, _ in objects()}, "no volume")
    call(host, "prune", "--force")
    kinds = objects()
    true(("volumes", "data") in kinds and not any("idle" in (n or "") for _, n in kinds), "objects: %s" % kinds)
    call(host, "prune", "--force", "all", "volumes")
    true(("volumes", "data") not in objects(), "objects: %s" % objects())
    true(("pods", "prepared") in objects(), "objects: %s" % objects())


elsewhere(
    ("df", "If it cannot be found out what declared pods and units of the host need, a warning says so, and what they may need is not counted as reclaimable.",
     "prune/the_image_of_a_pod_that_cannot_be_read_stays"),
    ("df", "The files of OCI images, of which several can have the same layers.", "oci/layers_are_shared_and_go_with_the_last_image"),
    ("df", "Downloads that were interrupted and can be continued, and images that were unpacked in part.", "prune/pruning_frees_what_df_says"),
    ("prune", "with images, images that neither a pod, prepared, running or declared (acnspawn.pod(5)), nor another image needs, with their layers and rendered trees;",
     "prune/images_of_declared_pods_stay"),
    ("prune", "If it cannot be found out what declared pods or units need, prune removes nothing of what they may need and fails.",
     "prune/what_cannot_be_found_out_is_not_unneeded"),
    ("EXIT STATUS", "1 if something could not be removed or measured, with a message,", "prune/what_links_that_lead_nowhere_declare_stays"),
)

main()
