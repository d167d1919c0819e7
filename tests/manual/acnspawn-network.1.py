#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn-network(1), sentence by sentence."""

from manual import *

PAGE = page("acnspawn-network.1", "09520d0587e99c84")


@sentence("network reload", "for the pods, or for all running pods")
@sentence("network reload", "It is an error if a pod that is named does not run.")
@sentence("EXAMPLES", "# acnspawn network reload site")
def pods_without_networks_and_pods_that_do_not_run(host):
    host.prepare("--name=prepared", base(host))
    host.detach("--name=site", *app(host, "a", "sleep 1000"))
    for words in [], ["site"]:
        host.acnspawn("network", "reload", *words).expect(0)
    for words in ["prepared"], ["nothing"], ["site", "nothing"]:
        contains(host.acnspawn("network", "reload", *words).expect(1).err, words[-1])


elsewhere(
    ("network reload", "Restores the rules of the host's packet filter for the pods, or for all running pods, after they were removed",
     "network/rules_that_were_removed_behind_a_pod_are_restored"),
    ("network reload", "acnspawn status shows a note at a network where those of its ports are missing.",
     "network/rules_that_were_removed_behind_a_pod_are_restored"),
    ("network reload", "A pod keeps its addresses: it leaves a network that can be asked for them, as default can, and is added to it again",
     "network/rules_that_were_removed_behind_a_pod_are_restored"),
)

main()
