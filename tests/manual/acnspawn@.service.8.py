#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn@.service(8), sentence by sentence: all of it needs systemd as the init of a host, and is shown in guests."""

from manual import *

PAGE = page("acnspawn@.service.8", "fc991b2b0215dc7e")

elsewhere(
    ("DESCRIPTION", "each start makes it of the file as it is by then, and fetches images that are missing.",
     "vm/declared/started_stopped_and_restarted"),
    ("DESCRIPTION", "Otherwise it is the prepared pod of that name or UUID, and when that has ended, its successor",
     "vm/units/a_pod_as_a_unit_of_the_host"),
    ("DESCRIPTION", "The file needs no systemctl daemon-reload, except for its sections", "vm/declared/reload_after_an_edit_does_not_warn"),
    ("COMMANDS", "runs the pod, and returns when all its apps are ready. Until then the status text of the unit says how many are.",
     "vm/readiness/a_unit_of_the_host_waits_until_the_app_is_ready"),
    ("COMMANDS", "An app that is not ready within its start time-out has failed",
     "vm/readiness/a_unit_of_the_host_fails_with_an_app_that_does_not_get_ready"),
    ("COMMANDS", "each start removes up to four of its former pods that ended within a minute of their creation, and keeps the last five.",
     "lifecycle/of_a_unit_that_crashes_in_a_loop_the_last_pods_stay"),
    ("COMMANDS", "ends the pod, and runs another one of that name.", "vm/declared/started_stopped_and_restarted"),
    ("COMMANDS", "apps are added, replaced one after the other and removed, limits are changed in place, and what is the same is not touched.",
     "vm/declared/each_kind_of_change_by_reload"),
    ("COMMANDS", "lets the pod run after each boot.", "vm/reboot/and_afterwards"),
    ("COMMANDS", "A pod whose file has a section [Install] is started as that says, without this.", "vm/declared/started_stopped_and_restarted"),
    ("COMMANDS", "and limits, which all apps of the pod get; UMask= has no effect on it.", "vm/units/settings_of_the_unit_hold_for_the_pod"),
    ("COMMANDS", "apply to the pod, which is in the unit, as a whole", "vm/units/limits_of_the_unit_hold_for_the_pod"),
    ("WHAT THE POD NEEDS", "The pod starts after the file system of the store is mounted, and, if a file declares it, those of the files of the host "
                           "that this names", "unit/generator/file_systems_of_a_pod"),
    ("WHAT THE POD NEEDS", "starts after network-online.target, unless PullPolicy=never is set, in the file or else in acnspawn.conf(5)",
     "unit/generator/the_network_of_a_pod"),
    ("WHAT THE POD NEEDS", "and mounted.", "vm/units/automount"),
    ("STATES", "Its exit status is that of the pod (acnspawn-run(1)): if an app has failed, the unit fails with the status of the first one that did.",
     "vm/declared/exit_status_and_result_are_those_of_the_pod"),
    ("STATES", "If the supervisor of the pod is killed, the pod ends with it, and the unit fails.", "vm/declared/a_supervisor_that_is_killed"),
    ("STATES", "With WatchdogSec= it also fails if the supervisor does not respond any more.", "vm/declared/a_watchdog_of_the_unit"),
    ("STATES", "While data of images arrives, this is extended to five minutes from then", "declared/a_fetch_extends_the_time_to_start"),
    ("STATES", "the pod that ran then is shown as exited (reboot), and the unit, if it is enabled, runs its successor.", "vm/reboot/and_afterwards"),
    ("THE JOURNAL", "The output of the apps is in the journal of the host, as lines of the unit with the name of the app as identifier",
     "vm/units/output_in_the_journal_of_the_host"),
    ("SOCKETS", "It listens while the pod does not run, starts the pod at the first connection, and passes the sockets on to socket-activated ports "
                "of its apps", "vm/sockets/the_socket_of_a_declared_pod"),
    ("SOCKETS", "exists for pods with exposed ports that are socket-activated by their file", "vm/sockets/ports_that_start_an_app_have_a_socket"),
    ("SOCKETS", "so that connections wait when that is stopped or restarted later.",
     "vm/sockets/nothing_is_lost_while_the_pod_is_stopped_and_started"),
    ("UPDATES", "runs acnspawn update --if-running NAME", "vm/declared/updates_by_the_timer_of_a_pod"),
    ("UPDATES", "A section [Update] in the file of the pod has other times for it, and switches it on", "unit/generator/timers_of_updates"),
    ("EXAMPLES", "[Unit] Requires=acnspawn@db.service After=acnspawn@db.service", "vm/declared/a_pod_that_needs_another_one"),
    ("EXAMPLES", "# systemctl reload acnspawn@shop", "vm/declared/each_kind_of_change_by_reload"),
)

main()
