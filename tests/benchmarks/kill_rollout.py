"""``kill -9`` at many random points of a rollout, then go on; prints what was lost and what was sent twice.

Run from the checkout: ``python -m tests.benchmarks.kill_rollout [KILLS]``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.support.rollout_kill import survive


def main(kills: int = 50) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = survive(Path(folder), kills, count=20 * kills)
    print(f"{found.kills} kills, with so many finished at each: {found.finished_at_kills}")
    print(f"lost: {found.lost}, finished and sent again: {found.sent_twice} (both 0)")
    print(f"in flight at a kill and therefore sent again: {found.again}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
