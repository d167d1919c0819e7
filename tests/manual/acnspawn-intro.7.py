#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""acnspawn-intro(7) is one example, which tests/vm/tutorial.py runs as it is written, with what it shows."""

from manual import *

PAGE = page("acnspawn-intro.7", "11cd18ecee363ee5")

main()
