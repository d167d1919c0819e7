#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The pictures of the tables of states in docs/ARCHITECTURE.md are those of the code.

usage: test-state-tables.py SOURCE-DIRECTORY
"""

import os
import subprocess
import sys

CASE = "pictures_of_states_are_current"

r = subprocess.run([os.path.join(sys.argv[1], "tools/state-tables"), "--check"], capture_output=True, text=True)
print("ok " + CASE if r.returncode == 0 else "not ok %s: %s" % (CASE, r.stderr.strip()))
sys.exit(r.returncode)
