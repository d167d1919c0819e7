#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The cases of tests/integration/network.py, on a host with its own network and Debian's kernel."""

import importlib.util
import os

import harness

path = os.path.join(os.path.dirname(os.path.abspath(harness.__file__)), "network.py")
spec = importlib.util.spec_from_file_location("network_cases", path)
cases = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cases)
cases.DEFAULT = "/usr/lib/acnspawn/net.d/99-default.conflist"  # installed configuration
harness.main()
