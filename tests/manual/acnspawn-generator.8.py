#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn-generator(8), sentence by sentence: what it makes is looked at by tests/unit/test-generator.py, and used in tests/vm."""

from manual import *

PAGE = page("acnspawn-generator.8", "50cfc5ace0f2e8fd")

elsewhere(
    ("DESCRIPTION", "which runs when the machine boots, and with each systemctl daemon-reload.", "vm/declared/enabled_by_its_template"),
    ("DESCRIPTION", "a drop-in of acnspawn@NAME.service with the sections [Unit] and [Service];", "unit/generator/units_of_a_pod"),
    ("DESCRIPTION", "another one with RequiresMountsFor= for files of the host that the pod uses,", "unit/generator/file_systems_of_a_pod"),
    ("DESCRIPTION", "and After=network-online.target if an image may come from the network", "unit/generator/the_network_of_a_pod"),
    ("DESCRIPTION", "acnspawn@NAME.socket of the section [Socket],", "unit/generator/sockets_of_a_pod"),
    ("DESCRIPTION", "and of the ports of Port= that SocketActivated= of an app names, with a drop-in of the service that uses it;", "unit/generator/sockets_of_ports"),
    ("DESCRIPTION", "a drop-in of acnspawn-update@NAME.timer with the section [Update], and a link that starts this timer with timers.target;", "unit/generator/timers_of_updates"),
    ("DESCRIPTION", "links of the section [Install], with which the unit, or the socket, is started by others.", "unit/generator/targets_before_services"),
    ("DESCRIPTION", "If acnspawn.conf(5) has another place of the store, drop-ins of all units that use it have RequiresMountsFor= for that place.",
     "unit/generator/the_file_system_of_the_store"),
    ("DESCRIPTION", "with file and line; the other lines of the file, and other pods, are not hindered,", "unit/generator/one_broken_pod_does_not_hinder_others"),
    ("DESCRIPTION", "nor is the rest by a directory that cannot be read.", "unit/generator/what_cannot_be_read_does_not_hinder_the_rest"),
    ("DESCRIPTION", "acnspawn pod verify shows the mistakes as well.", "declared/verify"),
    ("EXAMPLES", "$ /usr/lib/systemd/system-generators/acnspawn-generator /tmp/units", "unit/generator/units_of_a_pod"),
)

main()
