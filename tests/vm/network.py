#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Cases of tests/integration/network.py, on a host with its own network and Debian's kernel, and with what is installed there. Those
that are run here are the ones in which the host has a part: its packet filter, the settings of its kernel, and the scopes of pods. The
others say the same in the network namespace in which tests/integration runs them, ten times as fast; run.py has all of them run where
there is no such namespace, on other releases, and with ACNSPAWN_TEST_LONG=1. """

import importlib.util
import os

import harness

OF_THE_HOST = {"a_pod_in_the_default_network", "two_pods_talk_and_the_metadata_service_answers", "ports_from_loopback_from_the_host_and_from_outside",
               "ipv6_in_the_default_network", "packets_made_by_hand_do_not_reach_the_hosts_loopback",
               "killed_pods_are_taken_out_by_gc_and_by_the_next", "the_bandwidth_is_limited"}

path = os.path.join(os.path.dirname(os.path.abspath(harness.__file__)), "network.py")
spec = importlib.util.spec_from_file_location("network_cases", path)
cases = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cases)
cases.DEFAULT = "/usr/lib/acnspawn/net.d/99-default.conflist"  # installed configuration
harness.true(OF_THE_HOST <= {c.__name__ for c in harness._cases}, "all of these cases exist")
if os.environ.get("ACNSPAWN_TEST_NETWORK") != "all":
    harness._cases[:] = [c for c in harness._cases if c.__name__ in OF_THE_HOST]
harness.main()
