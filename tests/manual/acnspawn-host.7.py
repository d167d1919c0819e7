#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn-host(7), sentence by sentence: tests/integration/host-service.py and tests/vm speak to the service."""

from manual import *

PAGE = page("acnspawn-host.7", "ffe1e26c07bdf98c")

elsewhere(
    ("DESCRIPTION", "The service has no state between calls and exits half a minute after the last connection.", "host-service/ends_when_idle_and_comes_back"),
    ("DESCRIPTION", "acnspawn.socket listens, and starts acnspawn.service with the first connection.", "host-service/needs_a_socket_that_listens"),
    ("DESCRIPTION", "Pods that were started over it are in scopes of their own, as those of acnspawn run --detach, and do not depend on the service.",
     "host-service/pods_do_not_depend_on_the_service"),
    ("METHODS", "varlinkctl introspect, or GetInterfaceDescription of org.varlink.service, shows all of them with their types. Unknown parameters are refused.",
     "host-service/describes_itself"),
    ("METHODS", 'What acnspawn list and acnspawn image list show, with one reply for each; the calls need "more". If there are none, there is one reply without parameters.',
     "host-service/lists_are_those_of_the_verbs"),
    ("METHODS", "RunPod does the same, and starts the pod. The reply comes when all apps that start with the pod are executed, and ready if they report readiness; it has the path of the "
                "pod's interface.", "host-service/a_pod_from_beginning_to_end"),
    ("METHODS", "StartPod starts a prepared pod. For a pod that has ended it prepares a new pod with the same images and starts that, as acnspawn run does.",
     "host-service/a_pod_from_beginning_to_end"),
    ("METHODS", "FetchImage brings an image into the store. With \"more\" there are replies with its progress and with messages before the one with the image. RemoveImage removes an image that "
                "nothing needs.", "host-service/images_are_fetched_and_removed"),
    ("METHODS", "Monitor First one event for each existing pod (present), and one after the last (complete).", "host-service/the_monitor_begins_with_what_is_there"),
    ("METHODS", "After complete no event is left out or repeated;", "host-service/many_pods_at_once"),
    ("METHODS", "Each connection has one call at a time; several connections are served at once, up to 32 queries, 32 calls that may fetch images, and 32 others, half of each kind for one client "
                "process, and 16 of Monitor.", "host-service/too_much_at_once_is_refused"),
    ("METHODS", "A caller that disconnects cancels its call: its effects are undone.", "host-service/a_client_that_hangs_up_cancels_its_fetch"),
    ("METHODS", "At most 128 connections are open, 16 of each user other than root. At the limit a new connection replaces an idle one, the least recently used first;", "host-service/a_flood"),
    ("ERRORS", "InvalidRequest names the field, such as options.net or definition, and says what is wrong with it.", "host-service/malformed_requests"),
    ("ERRORS", "Parameters of other types than described are InvalidParameter of org.varlink.service.", "host-service/describes_itself"),
)

main()
