"""Benchmarks: each prints ratios against a peer or a floor measured in the same run.

Their requests are held and settled like any other, in a budget ledger of their own.
"""

import os
import tempfile

os.environ.setdefault("ACS_LEDGER", os.path.join(tempfile.mkdtemp(prefix="acs-bench-"), "ledger.sqlite3"))
