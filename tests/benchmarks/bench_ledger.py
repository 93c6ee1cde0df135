"""Reserve and settle together, with four processes on one file, against a bare SQLite floor in the same run.

- ours: ``KeyMeter.reserve`` and ``settle`` of one request (checks of four accounts, one row);
- floor: the same file mode, two transactions of one row each: ``BEGIN IMMEDIATE``, one ``INSERT`` or ``UPDATE``,
  ``COMMIT``.

Each with one process and with four that do nothing else, and with ``synchronous`` NORMAL and FULL. NORMAL is what the
ledger uses: in WAL mode it survives the end of any process at any moment, not a power cut, which may take the last
transactions. Run: ``python -m tests.benchmarks.bench_ledger``.
"""

from __future__ import annotations

import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 500
PROCESSES = 4


def ours(file: str, synchronous: str) -> list[float]:
    from acs_jupyter.checks import build_request
    from acs_jupyter.ledger import _open, meter_for
    from acs_jupyter.ledger.book import Ledger
    from acs_jupyter.ledger.store import Store
    from acs_jupyter.secret import Secret

    os.environ["ACS_LEDGER"] = file
    book = _open[file] = Ledger(Store(file, synchronous))
    meter = meter_for(Secret("acs-bm-0123abcd-a-key-of-this-benchmark"), "http://127.0.0.1:9/v1")
    assert meter is not None
    book.set_month_limit(meter.key, 10**12)
    book.scope("session", book.session.state.name, 10**12)
    request = build_request({"prompt": "The lighthouse", "max_tokens": 64, "model": "m"})
    with book.scope("cell", f"{os.getpid()}", 10**12), book.scope("rollout", "one for all", 10**12):
        return measured(lambda: meter.settle(meter.reserve(request, "run"), 4, 64, "usage"))


def floor(file: str, synchronous: str) -> list[float]:
    db = sqlite3.connect(file, timeout=15, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute(f"PRAGMA synchronous={synchronous}")
    db.execute("CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, held INTEGER, used INTEGER)")

    def both() -> None:
        db.execute("BEGIN IMMEDIATE")
        row = db.execute("INSERT INTO rows (held, used) VALUES (68, 0)").lastrowid
        db.execute("COMMIT")
        db.execute("BEGIN IMMEDIATE")
        db.execute("UPDATE rows SET held = 0, used = 68 WHERE id = ?", (row,))
        db.execute("COMMIT")

    return measured(both)


def measured(both: object) -> list[float]:
    assert callable(both)
    for _ in range(20):
        both()
    print("ready", flush=True)
    sys.stdin.readline()
    took = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        both()
        took.append(time.perf_counter() - began)
    return took


def together(which: str, count: int, synchronous: str) -> list[float]:
    with tempfile.TemporaryDirectory(prefix="acs-bench-") as folder:
        file = str(Path(folder) / "l.sqlite3")
        command = [sys.executable, "-m", "tests.benchmarks.bench_ledger", which, file, synchronous]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        workers = [subprocess.Popen(command, text=True, **pipes) for _ in range(count)]  # type: ignore[call-overload]
        for worker in workers:
            worker.stdout.readline()
        for worker in workers:
            worker.stdin.write("go\n")
            worker.stdin.flush()
        return [took for worker in workers for took in json.loads(worker.communicate()[0])]


def main() -> None:
    if len(sys.argv) == 4:
        which, file, synchronous = sys.argv[1:]
        print(json.dumps({"ours": ours, "floor": floor}[which](file, synchronous)))
        return
    print(f"reserve and settle, {ROUNDS} times a process, milliseconds")
    for synchronous in ("NORMAL", "FULL"):
        for count in (1, PROCESSES):
            middle = {}
            for which in ("floor", "ours"):
                took = sorted(1000 * each for each in together(which, count, synchronous))
                middle[which] = statistics.median(took)
                high = took[int(len(took) * 0.95)]
                print(
                    f"{synchronous:>6} {count} process{'es' if count > 1 else '  '} {which:>5}:"
                    f" median {middle[which]:.3f}, 95 % {high:.3f}, worst {took[-1]:.1f}"
                )
            goal = " (at most 1 ms)" if synchronous == "NORMAL" and count > 1 else ""
            print(
                f"{'':>19} ours {middle['ours']:.3f} ms{goal}, {middle['ours'] / middle['floor']:.1f} floors"
            )


if __name__ == "__main__":
    main()
